//! Assembling requests.

use contexture::core::Report;
use contexture::memory::ContextFilters;
use contexture::store::AgentRole;
use contexture::tokens::Provider;
use contexture::{Assembled, AssembledForm, Event, Format, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::events::Happened;
use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// What is to be assembled. Everything has a default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "AssembleRequest")]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AssembleBody {
    /// A built-in recipe, or a file below the root. Default: a tree's own, else
    /// the configured one.
    pub(crate) recipe: Option<String>,
    /// The manifest, relative to the root. Default: `working-set.yml`, else
    /// `.agent/working-set.yml`.
    pub(crate) manifest: Option<String>,
    /// The session's label or alias.
    pub(crate) session: Option<String>,
    /// The agent's role. Default: unified.
    pub(crate) role: Option<AgentRole>,
    /// What the agent is to do. Default: what the session says.
    pub(crate) task: Option<String>,
    /// The set that tools are taken from. Default: the configured one.
    pub(crate) toolset: Option<String>,
    /// What is asked now: a text, or an event with what is known about it.
    pub(crate) event: Option<EventBody>,
    /// The loom tree.
    pub(crate) tree: Option<String>,
    /// The place in it, by id or short name. Default: where the saved path
    /// ends, else where the agent is, else the only leaf.
    pub(crate) head: Option<String>,
    /// The saved path that says which way and which versions are taken.
    pub(crate) path: Option<String>,
    /// The agent of the tree that is to go on.
    pub(crate) agent: Option<String>,
    /// Text behind a document that is not in the tree yet.
    pub(crate) working_buffer: Option<String>,
    /// Whether remarks are shown.
    pub(crate) include_annotations: bool,
    /// Directives for what comes next, behind those of the path.
    pub(crate) instructions: Vec<String>,
    /// Nodes of the tree to look at for what comes next.
    pub(crate) context: Vec<String>,
    /// What memory is asked for. Default: the current task, else the event.
    pub(crate) query: Option<String>,
    /// What memory may find.
    pub(crate) filters: Option<ContextFilters>,
    /// The archetype whose strategy memory follows. Default: the configured one.
    pub(crate) strategy: Option<String>,
    /// The stack of tasks. Default: `main`.
    pub(crate) stack: Option<String>,
    /// The model: decides window, tokenizer and provider. Default: the agent's,
    /// else the configured one.
    pub(crate) model: Option<String>,
    /// The window. Default: what the manifest says, else the model's.
    pub(crate) max_tokens: Option<u64>,
    /// Tokens kept free for the answer.
    pub(crate) reserve_response: Option<u64>,
    /// Tokens kept free for tools.
    pub(crate) reserve_tools: Option<u64>,
    /// The form of the request.
    pub(crate) format: Form,
    /// Whether the report is wanted with a provider's form; `json` always has
    /// it.
    #[serde(default = "yes")]
    pub(crate) report: bool,
}

fn yes() -> bool {
    true
}

/// What is asked now: a text, or an event with what is known about it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "EventOrText")]
#[serde(untagged)]
pub(crate) enum EventBody {
    /// What it says.
    Text(String),
    /// With what is known about it.
    Event(Box<Event>),
}

impl From<EventBody> for Event {
    fn from(body: EventBody) -> Self {
        match body {
            EventBody::Text(text) => Event::from(text.as_str()),
            EventBody::Event(event) => *event,
        }
    }
}

/// The form of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RequestFormat")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// Contexture's own, with the report.
    #[default]
    Json,
    /// Blocks between role tags.
    Text,
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// OpenAI Completions: one text, for documents.
    OpenaiCompletions,
    /// Gemini generateContent.
    Gemini,
}

impl Form {
    /// Returns the form that a request is rendered in; `json` is our own.
    pub(crate) fn format(self) -> Option<Format> {
        match self {
            Form::Json => None,
            Form::Text => Some(Format::Text),
            Form::Anthropic => Some(Format::Anthropic),
            Form::OpenaiChat => Some(Format::OpenAiChat),
            Form::OpenaiResponses => Some(Format::OpenAiResponses),
            Form::OpenaiCompletions => Some(Format::OpenAiCompletions),
            Form::Gemini => Some(Format::Gemini),
        }
    }

    fn provider(self) -> Option<Provider> {
        match self {
            Form::Json | Form::Text => None,
            Form::Anthropic => Some(Provider::Anthropic),
            Form::OpenaiChat | Form::OpenaiResponses | Form::OpenaiCompletions => {
                Some(Provider::OpenAi)
            }
            Form::Gemini => Some(Provider::Gemini),
        }
    }
}

/// What was assembled: Contexture's own form, or a provider's.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AssembleAnswer")]
#[serde(untagged)]
pub(crate) enum Made {
    /// A provider's form.
    Rendered(Box<Rendered>),
    /// Contexture's own.
    Own(#[schemars(with = "AssembledForm<'static>")] Box<Own>),
}

/// A request in Contexture's own form.
#[derive(Debug)]
pub(crate) struct Own(Assembled);

impl Serialize for Own {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.form().serialize(serializer)
    }
}

/// A request in a provider's form.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RenderedRequest")]
pub(crate) struct Rendered {
    /// The form.
    pub(crate) format: Form,
    /// What to send: the body of the call to the provider, or a text.
    pub(crate) request: Body,
    /// The model it is for.
    pub(crate) model: String,
    /// Whose model that is.
    pub(crate) provider: Provider,
    /// The session.
    pub(crate) session_label: Option<String>,
    /// The parent of the turn that answers: send it with the turn, and two
    /// writers cannot mix up their answers. Null where the session has no turn
    /// yet: the first one is not protected.
    pub(crate) parent_turn_id: Option<String>,
    /// What the request is kept by.
    pub(crate) snapshot: Option<String>,
    /// The tokens that were counted.
    pub(crate) tokens: u64,
    /// What a person should look at.
    pub(crate) warnings: Vec<String>,
    /// What became of every candidate, unless it is not wanted.
    pub(crate) report: Option<Report>,
}

/// What to send: the body of the call to the provider, or a text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RequestBody")]
#[serde(untagged)]
pub(crate) enum Body {
    /// A text.
    Text(String),
    /// JSON, as it was rendered: large, and not to be read again just to be
    /// written.
    Json(#[schemars(with = "Map<String, Value>")] Box<RawValue>),
}

impl Body {
    pub(crate) fn new(format: Format, rendered: String) -> Result<Self, Problem> {
        match format {
            Format::Text => Ok(Self::Text(rendered)),
            _ => RawValue::from_string(rendered)
                .map(Self::Json)
                .map_err(|error| Problem::failure(format!("rendered JSON is none: {error}"))),
        }
    }
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/assemble", "assemble")
            .says(
                "Assemble a request",
                "Gathers what the recipe names, fits it into the budget, and returns the request \
                 to send with the account of every candidate. The request is kept, so that what \
                 the model saw can be looked up by `snapshot`.",
            )
            .refuses(&[404, 409])
            .example(
                "/v1/assemble",
                json!({
                    "recipe": "broker",
                    "session": "support",
                    "event": "Does it also happen in release builds?",
                    "model": "claude-sonnet-4-5",
                    "format": "anthropic",
                }),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: AssembleBody| assemble(tenant, body),
    );
}

/// Assembles a request.
pub(crate) fn assemble(tenant: &Tenant, body: AssembleBody) -> Result<Made, Problem> {
    let (form, wants_report) = (body.format, body.report);
    let mut assembled = assemble_only(tenant, body)?;
    let Some(format) = form.format() else {
        return Ok(Made::Own(Box::new(Own(assembled))));
    };
    let request = Body::new(format, assembled.render_compact(format)?)?;
    let warnings = std::mem::take(&mut assembled.report.warnings);
    Ok(Made::Rendered(Box::new(Rendered {
        format: form,
        request,
        model: assembled.model.name.clone(),
        provider: assembled.model.provider,
        session_label: assembled.session_label,
        parent_turn_id: assembled.parent_turn_id.map(|id| id.to_string()),
        snapshot: assembled.snapshot,
        tokens: assembled.report.budget.used,
        warnings,
        report: wants_report.then_some(assembled.report),
    })))
}

/// Warns whoever names a session, but takes a recipe that has no place for what
/// was said in it: the request looks right, and the model knows nothing.
fn warn_without_history(session: &str, report: &mut Report) {
    let mut layers = report.budget.layers.iter();
    if !layers.any(|layer| &*layer.name == "session") {
        report.warnings.push(format!(
            "the recipe `{}` has no history: no turn of session `{session}` is in the request; the \
             recipe `broker` has them",
            report.recipe
        ));
    }
}

/// Assembles a request, notes it, and tells those who listen.
pub(crate) fn assemble_only(tenant: &Tenant, body: AssembleBody) -> Result<Assembled, Problem> {
    let request = Request {
        recipe: body.recipe,
        manifest: body.manifest,
        session: body.session,
        role: body.role,
        task: body.task,
        toolset: body.toolset,
        event: body.event.map(Event::from),
        tree: body.tree,
        head: body.head,
        path: body.path,
        agent: body.agent,
        working_buffer: body.working_buffer,
        include_annotations: body.include_annotations,
        instructions: body.instructions,
        context: body.context,
        query: body.query,
        filters: body.filters.unwrap_or_default(),
        strategy: body.strategy,
        stack: body.stack,
        model: body.model,
        provider: body.format.provider(),
        max_tokens: body.max_tokens,
        reserve_response: body.reserve_response,
        reserve_tools: body.reserve_tools,
        now: tenant.fixed_now(),
    };
    if let Some(event) = &request.event {
        event
            .check("event")
            .map_err(|error| Problem::from(error).at("event"))?;
    }
    let mut assembled = tenant.engine.assemble(&tenant.root, &request)?;
    if let Some(session) = &request.session {
        warn_without_history(session, &mut assembled.report);
    }
    tenant.metrics.assembled(&assembled);
    if let Some(session) = &assembled.session_label {
        if let Some(compacted) = &assembled.compacted {
            tenant.events.tell(|| Happened::Compacted {
                session: session.clone(),
                turn_id: compacted.turn_id.to_string(),
            });
        }
        tenant.events.tell(|| Happened::Assembled {
            session: session.clone(),
            recipe: assembled.report.recipe.clone(),
            model: assembled.model.name.clone(),
            tokens: assembled.report.budget.used,
            shared_tokens: assembled
                .report
                .cache
                .as_ref()
                .map(|cache| cache.shared_tokens),
            snapshot: assembled.snapshot.clone(),
        });
    }
    Ok(assembled)
}
