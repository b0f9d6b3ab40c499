//! Fits a provider's own request into a number of tokens.
//!
//! The body is read into Contexture's own form, fitted, and written again.
//! Parts that do not change keep their bytes, and a request that fits is
//! returned as it is. With a session, the conversation is recorded, so that one
//! summary serves many requests.

mod conversation;

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use contexture_core::guard::{self, FindingKind, Policy};
use contexture_core::{Code, ContentHash, GuardLine, Native, RawJson, TokenCounter, Tokens};
use contexture_engine::{
    Advice, Cause, Concept, Error, GivenFields, GivenPart, GivenRequest, Preview, RecipeRef,
    Request, Root, Warning, masked_json_text,
};
use contexture_history::{Sessions, TurnWrite, is_summary, make_ids_unique};
use contexture_providers::native::{self, Api, NativeRequest};
use contexture_providers::{Format, MOST_MARKS};
use contexture_store::{Block, Call, Message, MessageRole, NewSession, NewTurn, TurnId};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::assembled::Assembled;
use crate::engine::Engine;
pub(crate) use conversation::ConversationCache;
use conversation::{CachedConversation, Continuation};

/// Options for fitting a request into a number of tokens.
#[derive(Debug, Clone, Default)]
pub struct FitOptions {
    /// The session that keeps the conversation, so that the provider's cache
    /// stays valid from call to call. It is created if it does not exist.
    /// Default: none; nothing is stored.
    pub session: Option<String>,
    /// The name of the API that the request is for. Default: detected.
    pub from: Option<String>,
    /// The format of the result. Default: that of the request.
    pub to: Option<Format>,
    /// The model that counts. Default: the request's.
    pub model: Option<String>,
    /// The size of the context window. Default: the model's.
    pub max_tokens: Option<Tokens>,
    /// The tokens that are kept free for the response. Default: the limit that
    /// the request sets; otherwise the model's output limit, at most a quarter of
    /// the window and at most 32,000.
    pub reserve_response: Option<Tokens>,
    /// Whether a request that loses the provider's cache is an error: one that
    /// changes earlier messages of the session's previous request. Needs a
    /// session.
    pub fail_on_cache_break: bool,
    /// The current time, for reproducible output.
    pub now: Option<Timestamp>,
}

/// A request that fits.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The body of the request, as JSON.
    pub body: String,
    /// The format of the body.
    pub format: Format,
    /// Whether the body differs from the given one. A request that fits is
    /// returned byte for byte.
    pub is_changed: bool,
    /// The assembled request, with the report of the kept and the removed
    /// content.
    pub assembled: Assembled,
}

/// A provider's body that continues a session.
#[derive(Clone, Copy)]
struct SessionBody<'b> {
    root: &'b Root,
    label: &'b str,
    body: &'b [u8],
    apis: &'b [Api],
    options: &'b FitOptions,
}

/// The recipe of requests that hold their own content.
const RECIPE: &str = "inline";

/// The recipe of requests whose conversation is in a session.
const SESSION_RECIPE: &str = "fit";

/// The number of times that a session is read, if other callers record turns in it
/// at the same time.
const ATTEMPTS: usize = 16;

impl Engine {
    /// Returns a provider's request within a number of tokens.
    ///
    /// A request that fits is returned unchanged, unless its instructions or
    /// messages have secrets, or its messages invisible characters. Otherwise its
    /// older steps are replaced by a summary, and tool results that are too long
    /// are cut. Apart from secrets, the instructions keep their bytes. The tools
    /// and all settings always do.
    ///
    /// With a session, the messages that it does not have yet are recorded
    /// first, and its summaries are used: the result has the same beginning as
    /// the previous one.
    ///
    /// Fails for a body that is not a request of a known API, if the
    /// instructions and tools alone do not fit, and if the messages do not
    /// continue the session.
    pub fn fit(&self, root: &Root, body: &[u8], options: &FitOptions) -> Result<Fitted, Error> {
        let apis = apis(options)?;
        let Some(label) = &options.session else {
            return self.preview_fit(root, body, options);
        };
        let given = SessionBody {
            root,
            label,
            body,
            apis,
            options,
        };
        let call = Call::current().unwrap_or_default();
        call.run(|| {
            // The new turn is written with the request. If it cannot be written then, for
            // example because another caller recorded a turn, the call begins again.
            let mut turn = None;
            let fitted = self.fit_in_session(&given, Some(&mut turn));
            match turn {
                Some(turn) if !self.ledger()?.finish_turn(turn) => {
                    self.fit_in_session(&given, None)
                }
                _ => fitted,
            }
        })
    }

    /// Records the new messages of a body in its session, and makes it fit. With
    /// `turn`, the messages may be written with the request; it is then set to their turn.
    fn fit_in_session(
        &self,
        given: &SessionBody<'_>,
        turn: Option<&mut Option<TurnId>>,
    ) -> Result<Fitted, Error> {
        let SessionBody {
            root,
            label,
            body,
            options,
            ..
        } = *given;
        let known = self.conversations.of(label);
        let continuation = self.continue_session(given, &known, turn)?;
        self.conversations.keep(label, &known);
        let Continuation {
            body: read,
            native,
            ends_with_model,
            is_shorter,
            ..
        } = continuation;
        self.fit_read(body, &read, native, options, |request| {
            request.given.ends_with_model = ends_with_model;
            request.given.is_of_session = true;
            request.given.is_shorter = is_shorter;
            request.recipe = Some(RecipeRef::Name(SESSION_RECIPE.to_owned()));
            request.session = Some(label.to_owned());
            self.assemble(root, request)
        })
    }

    /// Returns a provider's request within a number of tokens, and stores
    /// nothing. The session of the options is not used.
    pub fn preview_fit(
        &self,
        root: &Root,
        body: &[u8],
        options: &FitOptions,
    ) -> Result<Fitted, Error> {
        let native = read(body, apis(options)?)?;
        self.fit_read(body, body, native, options, |request| {
            self.preview(root, request, Preview::default())
        })
    }

    /// Fits a request whose content is `native`, read from `read`: the body, or
    /// the end of it.
    fn fit_read(
        &self,
        body: &[u8],
        read: &[u8],
        mut native: NativeRequest,
        options: &FitOptions,
        assemble: impl FnOnce(&mut Request) -> Result<Assembled, Error>,
    ) -> Result<Fitted, Error> {
        let api = native.api;
        let format = options.to.unwrap_or(api.format());
        let is_same = format == api.format();
        let messages = std::mem::take(&mut native.messages);
        let masked = mask_instructions(&mut native, self.policy());
        let (mut request, mut fields) = self.inline(read, &native, options, format)?;
        if !masked.is_empty() {
            fields = fields.map(|mut fields| {
                Arc::make_mut(&mut fields).mask_instructions();
                fields
            });
        }
        request.given = GivenRequest {
            fields: fields.clone(),
            is_of_session: false,
            is_shorter: false,
            ends_with_model: ends_with_model(&messages),
            // Another provider does not store the messages before.
            follows_stored: is_same && follows_stored(&native),
            masked,
        };
        request.messages = messages;
        let mut assembled = assemble(&mut request)?;
        if !is_same {
            assembled.report.warnings.extend(tools_left_out(&native));
        }
        check_newest(&assembled, request.messages.len())?;
        let is_changed = !is_same || request.given.is_shorter || differs(&assembled);
        let refused = |refused: contexture_providers::Refused| Error::input(refused.to_string());
        let (body, unmarked) = match (is_changed, fields) {
            // The provider rejects a request with too many marks.
            (false, _) => {
                let body = String::from_utf8_lossy(body);
                let is_limited = format == Format::Anthropic;
                let fewer = is_limited.then(|| native::without_excess_marks(&body));
                let fewer = fewer.flatten();
                fewer.unwrap_or_else(|| (body.into_owned(), Vec::new()))
            }
            (true, None) => (assembled.render(format).map_err(refused)?, Vec::new()),
            (true, Some(fields)) => {
                let messages = assembled.render_messages(fields.api).map_err(refused)?;
                let body = fields.with_messages(&messages);
                body.map_err(|error| Error::input(error.to_string()))?
            }
        };
        let is_changed = is_changed || !unmarked.is_empty();
        assembled.report.warnings.extend(marks_removed(&unmarked));
        Ok(Fitted {
            body,
            format,
            is_changed,
            assembled,
        })
    }

    /// Records the new messages of a request. If another caller changes the session
    /// meanwhile, the session is read again: the other call may have recorded the
    /// same messages.
    fn continue_session<'b>(
        &self,
        given: &SessionBody<'b>,
        known: &Mutex<CachedConversation>,
        mut recorded_turn: Option<&mut Option<TurnId>>,
    ) -> Result<Continuation<'b>, Error> {
        let SessionBody {
            root,
            label,
            body,
            apis,
            options,
        } = *given;
        let mut known = conversation::locked(known);
        let mut attempts = 1;
        loop {
            let sessions = Sessions::new(self);
            let is_deferred = recorded_turn.is_some();
            let found = match is_deferred {
                true => sessions.read_for_turn(label),
                false => self.ledger()?.session(label).map_err(Error::from),
            };
            let (mut continuation, session) = match found {
                Ok(session) => (known.read(sessions, &session, body, apis)?, session),
                Err(error) if error.cause() == Cause::Missing => {
                    let first = known.first(body, apis)?;
                    let new = NewSession {
                        label: label.to_owned(),
                        ..NewSession::default()
                    };
                    match self.create_session(root, &new, options.now) {
                        Err(error) if error.cause() == Cause::Exists && attempts < ATTEMPTS => {
                            attempts += 1;
                            Call::forget_ahead();
                            continue;
                        }
                        created => (first, created?),
                    }
                }
                Err(error) => return Err(error),
            };
            let new = std::mem::take(&mut continuation.new);
            if new.is_empty() {
                known.had_all();
                return Ok(continuation);
            }
            let native = &continuation.native;
            let turn = NewTurn {
                messages: new,
                model: native.model.clone(),
                provider: Some(native.api.provider().to_owned()),
                parent_turn_id: session.head.into(),
                ..NewTurn::default()
            };
            let write = match is_deferred {
                true => TurnWrite::WithRequest(&session),
                false => TurnWrite::Now,
            };
            match self.record_as(label, &turn, options.now, write) {
                Err(error) if error.cause() == Cause::Conflict && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                recorded => {
                    let id = recorded?.id;
                    known.recorded(id, &turn.messages);
                    if let Some(recorded) = &mut recorded_turn {
                        **recorded = Some(id);
                    }
                    return Ok(continuation);
                }
            }
        }
    }

    /// Returns the request that has the content of a provider's, except its
    /// messages. For the same API, the fields around them come next to it.
    fn inline(
        &self,
        read: &[u8],
        native: &NativeRequest,
        options: &FitOptions,
        format: Format,
    ) -> Result<(Request, Option<Arc<GivenFields>>), Error> {
        let is_same = format == native.api.format();
        let named = options.model.clone().or_else(|| native.model.clone());
        let mut request = Request {
            recipe: Some(RecipeRef::Name(RECIPE.to_owned())),
            max_tokens: options.max_tokens,
            reserve_response: options.reserve_response.or_else(|| limit_of(native)),
            format: Some(format),
            fail_on_cache_break: options.fail_on_cache_break,
            now: options.now,
            ..Request::default()
        };
        // The model of another provider does not determine the new one.
        request.model = match is_same || options.model.is_some() {
            true => named,
            false => None,
        };
        let mut model_warnings = Vec::new();
        let model = self.model(request.model.as_deref(), Some(format), &mut model_warnings)?;
        let mut fields = None;
        if is_same {
            // Tools stay unchanged, and so do the instructions in a field of
            // their own: only their size matters.
            let counts = self.counts(&model)?;
            let own = native.system.iter();
            let own = own.filter_map(|block| in_messages(block, native.api));
            request.native_instructions.extend(own);
            let given = given_fields(read, native, counts.counter())?;
            request.reserve_tools = Some(given.tools.tokens + given.system.tokens);
            fields = Some(Arc::new(given));
        } else {
            let blocks = native.system.iter();
            let texts = blocks.filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let texts: Vec<&str> = texts.collect();
            request.system = Some(texts.join("\n\n"));
            request.tools = native.tools.iter().filter_map(tool_of).collect();
        }
        request.system = request.system.filter(|text| !text.trim().is_empty());
        Ok((request, fields))
    }
}

/// Masks the secrets in the instructions of a request. Returns what was found.
fn mask_instructions(native: &mut NativeRequest, policy: Policy) -> Vec<GuardLine> {
    let mut lines = Vec::new();
    for (i, block) in native.system.iter_mut().enumerate() {
        let (text, mut findings) = guard::clean(&text_of(block), policy.in_document());
        findings.retain(|finding| finding.kind == FindingKind::Secret);
        if findings.is_empty() {
            continue;
        }
        match block {
            Block::Text { text: own, native } => {
                *own = text.into();
                *native = native.take().map(masked_native);
            }
            Block::Provider { raw, .. } => *raw = masked_raw(raw),
            _ => {}
        }
        let item: Arc<str> = format!("system/{i}").into();
        lines.extend(findings.into_iter().map(|finding| GuardLine {
            item: Arc::clone(&item),
            finding,
        }));
    }
    lines
}

fn masked_native(native: Native) -> Native {
    Native::new(native.provider.as_ref(), masked_raw(&native.raw))
}

/// Returns JSON with its secrets masked.
fn masked_raw(raw: &RawJson) -> RawJson {
    let masked = masked_json_text(raw.as_str());
    let masked = masked.and_then(|masked| RawJson::parse(&masked).ok());
    masked.unwrap_or_else(|| raw.clone())
}

/// Returns the fields around the conversation of a request, which was read from
/// `body`.
fn given_fields(
    body: &[u8],
    native: &NativeRequest,
    counter: &dyn TokenCounter,
) -> Result<GivenFields, Error> {
    let part = |texts: &[Cow<'_, str>]| GivenPart {
        hash: ContentHash::of(texts.join("\n").as_bytes()),
        tokens: texts.iter().map(|text| counter.count(text)).sum(),
    };
    let tools = native.tools.iter();
    let tools = tools.map(|tool| Cow::Borrowed(tool.raw.as_str()));
    let tools: Vec<Cow<'_, str>> = tools.chain(output_schemas(native)).collect();
    let system = native.system.iter();
    let system = system.filter(|block| in_messages(block, native.api).is_none());
    let system: Vec<Cow<'_, str>> = system.map(text_of).collect();
    let empty = native::without_messages(body, native.conversation.clone(), native.api)
        .map_err(|error| Error::input(error.to_string()))?;
    Ok(GivenFields {
        api: native.api,
        body: empty,
        tools: part(&tools),
        system: part(&system),
    })
}

/// Returns the schemas that the response must match. Providers add them to the
/// prompt, as they do with tools.
fn output_schemas(native: &NativeRequest) -> impl Iterator<Item = Cow<'_, str>> {
    const FIELDS: [&str; 4] = ["response_format", "text", "output_config", "output_format"];
    let config = ["generationConfig", "generation_config"];
    native.settings.iter().filter_map(move |(name, raw)| {
        let raw = raw.as_str();
        if FIELDS.contains(&name.as_str()) && raw.contains("schema") {
            return Some(Cow::Borrowed(raw));
        }
        if !config.contains(&name.as_str()) || !raw.to_ascii_lowercase().contains("schema") {
            return None;
        }
        // Gemini has it among other settings.
        let fields: Map<String, Value> = serde_json::from_str(raw).ok()?;
        let is_schema = |name: &str| name.to_ascii_lowercase().ends_with("schema");
        let mut schemas = fields.iter().filter(|(name, _)| is_schema(name));
        schemas.next().map(|(_, schema)| schema.to_string().into())
    })
}

/// Returns an instruction that is one of the request's messages, byte for byte.
fn in_messages(block: &Block, api: Api) -> Option<Native> {
    let is_message = matches!(api, Api::OpenAiChat | Api::OpenAiResponses);
    match block {
        Block::Provider { provider, raw } => Some(Native::new(provider.as_str(), raw.clone())),
        block => block.native().cloned(),
    }
    .filter(|_| is_message)
}

/// Returns true if a conversation ends with the model's message. Instructions
/// after it belong to neither.
fn ends_with_model(messages: &[Message]) -> bool {
    let latest = messages.iter().rev();
    let mut latest = latest.filter(|message| !message.role.is_instruction());
    latest
        .next()
        .is_some_and(|message| message.role == MessageRole::Assistant)
}

/// Returns true if the provider stores messages that the request follows.
fn follows_stored(native: &NativeRequest) -> bool {
    const FIELDS: [&str; 2] = ["previous_response_id", "conversation"];
    let mut settings = native.settings.iter();
    native.api == Api::OpenAiResponses
        && settings.any(|(field, value)| FIELDS.contains(&&**field) && value.as_str() != "null")
}

/// Returns the APIs that the options allow.
fn apis(options: &FitOptions) -> Result<&'static [Api], Error> {
    if options.to == Some(Format::Text) {
        let formats = Format::ALL.iter().map(|(name, _)| *name);
        let names: Vec<&str> = formats.filter(|name| *name != "text").collect();
        return Err(Error::input(format!(
            "`text` is not a request; expected one of {}",
            names.join(", ")
        ))
        .at("to"));
    }
    if options.fail_on_cache_break && options.session.is_none() {
        return Err(
            Error::input("there is no previous request to compare with: name the session")
                .at("fail_on_cache_break"),
        );
    }
    match options.from.as_deref() {
        None => Ok(&Api::ALL),
        Some(from) => Api::named(from).ok_or_else(|| {
            let names = Api::NAMES.join(", ");
            Error::input(format!("unknown API `{from}`; expected one of {names}")).at("from")
        }),
    }
}

/// Reads a request of one of `apis`.
fn read(body: &[u8], apis: &[Api]) -> Result<NativeRequest, Error> {
    let mut native = native::read_request(body, apis).map_err(|error| {
        let message = match error.path.as_str() {
            "" => format!("the request {}", error.message),
            _ => error.to_string(),
        };
        Error::input(message).at(error.path.as_str())
    })?;
    make_ids_unique(&mut native.messages);
    Ok(native)
}

/// Fails if the latest of the request's own messages does not fit: without it, the
/// request would ask nothing. Also fails if nothing of a session's conversation fits.
fn check_newest(assembled: &Assembled, messages: usize) -> Result<(), Error> {
    let is_lack = |code: Code| matches!(code, Code::OVER_BUDGET | Code::BEFORE_WINDOW);
    let layout = &assembled.layout;
    let mut dropped = assembled.report.excluded.iter();
    let lost = match messages.checked_sub(1) {
        Some(newest) => {
            let whole = format!("messages/{newest}");
            let block = format!("{whole}.");
            let is_newest = |id: &str| id == whole || id.starts_with(&block);
            dropped.find(|row| is_newest(&row.id) && row.code == Code::OVER_BUDGET)
        }
        None if layout.history.is_empty() && layout.current.is_empty() => {
            dropped.rfind(|row| is_lack(row.code))
        }
        None => None,
    };
    let Some(row) = lost else {
        return Ok(());
    };
    let left = assembled.report.budget.available;
    // The row of a session can be of several messages, or of its summary.
    let message = match messages {
        0 => format!("no message of the session fits: {left} tokens are left"),
        _ => format!(
            "the latest message does not fit: it needs {} tokens, and {left} are left",
            row.tokens
        ),
    };
    Err(Error::input(message)
        .because(Cause::OverBudget)
        .advise(Advice::raise("max_tokens")))
}

/// Returns true if the content of the assembled request differs from the
/// original request.
fn differs(assembled: &Assembled) -> bool {
    let report = &assembled.report;
    let is_cut = report.included.iter().any(|row| row.truncated);
    // A blank text, for example, is not sent, which is harmless.
    let mut dropped = report.excluded.iter();
    let is_dropped = dropped.any(|row| row.code != Code::NOT_FOR_PROVIDER);
    // A session may have a summary of messages that the request has whole.
    let mut history = assembled.layout.history.iter();
    let is_summarised = history.any(|block| is_summary(&block.id));
    // Items that the session adds to its conversation.
    let is_history = |name: &str| {
        let mut layers = assembled.layers.iter();
        layers.any(|layer| *layer.name == *name && layer.concept == Concept::History)
    };
    let mut sent = assembled.layout.history.iter();
    let has_more = sent.any(|block| !is_history(&block.layer));
    is_cut || is_dropped || is_summarised || has_more || !report.guard.is_empty()
}

fn text_of(block: &Block) -> Cow<'_, str> {
    match block {
        Block::Text { text, .. } => text.as_str().into(),
        Block::Provider { raw, .. } => raw.as_str().into(),
        _ => Cow::Borrowed(""),
    }
}

/// Returns the definition of a tool in our form, or `None` if the provider runs
/// the tool itself.
fn tool_of(tool: &native::NativeTool) -> Option<Value> {
    let name = tool.name.clone()?;
    let raw: Value = serde_json::from_str(tool.raw.as_str()).ok()?;
    let kind = raw.get("type").and_then(Value::as_str);
    if !matches!(kind, None | Some("function" | "custom")) {
        return None;
    }
    // Chat has the definition inside the tool.
    let inner = raw.get("function").or(raw.get("custom")).unwrap_or(&raw);
    let schema = SCHEMAS.iter().find_map(|key| inner.get(*key).cloned());
    let mut made = Map::new();
    made.insert("name".to_owned(), name.into());
    if let Some(description) = inner.get("description") {
        made.insert("description".to_owned(), description.clone());
    }
    let schema = match schema {
        Some(mut schema) => {
            lower_types(&mut schema);
            Some(schema)
        }
        // A tool that accepts any text is a function with one argument.
        None if kind == Some("custom") => Some(json!({
            "type": "object",
            "properties": {native::INPUT: {"type": "string"}},
            "required": [native::INPUT],
        })),
        None => None,
    };
    if let Some(schema) = schema {
        made.insert("parameters".to_owned(), schema);
    }
    Some(made.into())
}

/// The fields that hold the schema of a tool's arguments.
const SCHEMAS: [&str; 4] = [
    "parameters",
    "input_schema",
    "parametersJsonSchema",
    "parameters_json_schema",
];

/// Writes the types of a schema in lower case, as JSON Schema has them. Gemini
/// accepts both.
fn lower_types(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("type", Value::String(kind)) => kind.make_ascii_lowercase(),
                    // A name there is an argument's.
                    ("properties", Value::Object(schemas)) => {
                        schemas.values_mut().for_each(lower_types);
                    }
                    // These hold values, not schemas.
                    ("enum" | "const" | "default" | "example" | "examples", _) => {}
                    (_, value) => lower_types(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(lower_types),
        _ => {}
    }
}

/// Returns a warning if tools are left out because only their provider has them.
fn tools_left_out(native: &NativeRequest) -> Option<Warning> {
    let left_out = native.tools.iter().filter(|tool| tool_of(tool).is_none());
    let names: Vec<String> = left_out
        .map(|tool| match &tool.name {
            Some(name) => format!("`{name}`"),
            None => format!("`{}`", native::kind(&tool.raw)),
        })
        .collect();
    let provider = native.api.provider();
    (!names.is_empty()).then(|| {
        Warning::new(
            "tools_left_out",
            format!(
                "left out, because {provider} runs them itself: {}",
                names.join(", ")
            ),
        )
    })
}

/// Returns a warning about the blocks at `paths`, which lost their cache marks.
fn marks_removed(paths: &[String]) -> Option<Warning> {
    let message = format!(
        "Anthropic accepts at most {MOST_MARKS} cache marks (`cache_control`): removed those of {}",
        paths.join(", ")
    );
    (!paths.is_empty()).then(|| Warning::new("cache_marks_removed", message))
}

/// Returns the limit on the response that a request sets.
fn limit_of(native: &NativeRequest) -> Option<Tokens> {
    const FIELDS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let number = |name: &str| {
        let found = native.settings.iter().find(|(field, _)| field == name)?;
        serde_json::from_str::<Tokens>(found.1.as_str()).ok()
    };
    let gemini = || {
        let settings = native.settings.iter();
        let names = ["generationConfig", "generation_config"];
        let mut settings = settings.filter(|(field, _)| names.contains(&field.as_str()));
        let config: Value = serde_json::from_str(settings.next()?.1.as_str()).ok()?;
        let limit = config.get("maxOutputTokens");
        limit.or(config.get("max_output_tokens"))?.as_u64()
    };
    FIELDS.iter().find_map(|name| number(name)).or_else(gemini)
}
