//! Requests that other programs sent, as their transcripts record them.
//!
//! A recorded request is stored as its body in pieces: one blob with all fields
//! but the conversation, one for each message, and the cache marks apart from
//! both, because they move from request to request. The blocks of the request
//! are derived from the body when it is read.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use contexture_core::message::{Block as MessageBlock, Message, MessageRole};
use contexture_core::{ContentHash, Layout, Native, Role, Section, Text, Tokens, Trust};
use contexture_providers::native::{self, Api, NativeRequest};
use contexture_providers::{Format, Sampling, describe, media_tokens};
use contexture_store::{Blob, Snapshot, Snapshots};
use contexture_tokens::{Estimated, TokenCounter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Entry, Saved, SavedNative, SavedPart, Settings, damaged, fetch, json, parse};
use crate::error::Error;

/// The number of messages in a chunk of the list.
pub const CHUNK: usize = 32;

/// The version of the root blob of a request with few messages.
const VERSION: u32 = 3;

/// The version of the root blob of a request with a list of chunks.
const LISTED: u32 = 4;

/// The room for the answer to a request without a limit, in tokens.
const USUAL_ANSWER: Tokens = 32_000;

/// A request that another program sent, in pieces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The name of the API, such as `anthropic`.
    pub api: String,
    /// The model that the request was for.
    pub model: String,
    /// The hash of a blob: a JSON object with all fields but the conversation.
    pub fields: ContentHash,
    /// The field that holds the conversation, such as `messages`.
    pub list: String,
    /// Full [chunks](chunk) of the conversation.
    pub chunks: Vec<ContentHash>,
    /// The hash of a blob with the hashes of all chunks, instead of
    /// `chunks`: requests of a session that follow each other share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_list: Option<ContentHash>,
    /// The messages after the chunks, fewer than [`CHUNK`].
    pub tail: Vec<ContentHash>,
    /// The cache marks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<CacheMark>,
}

/// A cache mark and its path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheMark {
    /// The path to the block that has the mark.
    pub path: Vec<PathPart>,
    /// The value of `cache_control`.
    pub value: Value,
}

/// A field or an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathPart {
    /// An index in a list.
    Index(usize),
    /// The name of a field.
    Field(String),
}

/// Returns the blob of `CHUNK` messages, or of a list of chunks.
pub fn chunk(messages: &[ContentHash]) -> Blob {
    let bytes: Vec<u8> = messages.iter().flat_map(|hash| *hash.as_bytes()).collect();
    Blob {
        hash: ContentHash::of(&bytes),
        bytes,
    }
}

/// Returns the hashes of a [chunk].
fn listed(bytes: &[u8]) -> impl Iterator<Item = ContentHash> {
    let (hashes, _) = bytes.as_chunks::<32>();
    hashes.iter().map(|hash| ContentHash::from_bytes(*hash))
}

#[derive(Serialize, Deserialize)]
struct RecordedRoot {
    version: u32,
    recorded: RecordedRequest,
}

impl RecordedRequest {
    /// Returns the blob that names all pieces. Its hash identifies the request.
    pub fn root(self) -> Blob {
        let bytes = json(&RecordedRoot {
            version: match self.chunk_list {
                Some(_) => LISTED,
                None => VERSION,
            },
            recorded: self,
        });
        Blob {
            hash: ContentHash::of(&bytes),
            bytes,
        }
    }

    /// Returns the body, without white space, with its cache marks.
    pub fn body(&self, store: &dyn Snapshots) -> Result<String, Error> {
        let hashes = self.items(store, &mut HashMap::new())?;
        let fields = self.read_fields(store)?;
        let messages = texts(store, &hashes)?;
        Ok(compose(&fields, &self.list, &messages, &self.marks))
    }

    fn read_fields(&self, store: &dyn Snapshots) -> Result<Map<String, Value>, Error> {
        parse(&fetch(store, &[self.fields])?[0])
    }

    /// Returns the hashes of all messages. Chunks that are in `known` are not read.
    fn items(
        &self,
        store: &dyn Snapshots,
        known: &mut HashMap<ContentHash, Vec<ContentHash>>,
    ) -> Result<Vec<ContentHash>, Error> {
        let mut chunks = self.chunks.clone();
        if let Some(list) = self.chunk_list {
            chunks = listed(&fetch(store, &[list])?[0]).collect();
        }
        let new = chunks.iter().filter(|hash| !known.contains_key(*hash));
        let new: Vec<ContentHash> = new.copied().collect();
        for (hash, bytes) in new.iter().zip(fetch(store, &new)?) {
            known.insert(*hash, listed(&bytes).collect());
        }
        let mut items: Vec<ContentHash> =
            chunks.iter().flat_map(|hash| known[hash].clone()).collect();
        items.extend(&self.tail);
        Ok(items)
    }

    fn named_api(&self) -> Option<Api> {
        Api::named(&self.api).and_then(|apis| apis.first().copied())
    }

    pub(super) fn load(self, store: &dyn Snapshots, snapshot: &Snapshot) -> Result<Saved, Error> {
        let body = self.body(store)?;
        let api = self.named_api();
        let mut recorded = RecordedBody {
            format: api.map(Api::format),
            text: Some(body),
            texts: Texts::default(),
            request: self,
        };
        let mut entries = Vec::new();
        let mut max_output = None;
        if let Some(api) = api {
            let text = recorded.text.as_deref().unwrap_or_default();
            let read = native::read_request(text.as_bytes(), &[api]).map_err(unreadable)?;
            let limit = read.settings.iter().find(|(name, _)| {
                matches!(
                    name.as_str(),
                    "max_tokens" | "max_output_tokens" | "max_completion_tokens"
                )
            });
            max_output = limit.and_then(|(_, raw)| raw.as_str().parse().ok());
            entries = recorded.entries(&read);
        }
        Ok(recorded.saved(snapshot, entries, max_output))
    }

    /// Loads a request like [`load`](Self::load), and reads only the messages that
    /// the previous one, loaded with the same `previous`, did not have.
    pub(super) fn load_after(
        self,
        store: &dyn Snapshots,
        snapshot: &Snapshot,
        previous: &mut LoadedConversation,
    ) -> Result<Saved, Error> {
        let Some(api) = self.named_api() else {
            return self.load(store, snapshot);
        };
        let items = self.items(store, &mut previous.chunks)?;
        let settled = previous.settled.take();
        if let Some(settled) = settled.filter(|settled| settled.begins(&self, api, &items))
            && let Ok(saved) = self.continued(store, snapshot, previous, settled, &items)
        {
            return Ok(saved);
        }
        let saved = self.clone().load(store, snapshot)?;
        // A part that cannot be read alone is read with the whole the next time.
        previous.settled = self.settle(store, api, items, &saved).unwrap_or_default();
        let recorded = saved.recorded.as_ref();
        previous.texts = recorded.map_or_else(Texts::default, |it| Arc::clone(&it.texts));
        Ok(saved)
    }

    /// Loads a request that begins with what is `settled`.
    fn continued(
        &self,
        store: &dyn Snapshots,
        snapshot: &Snapshot,
        previous: &mut LoadedConversation,
        mut settled: Settled,
        items: &[ContentHash],
    ) -> Result<Saved, Error> {
        let api = settled.api;
        let items = &items[settled.items.len()..];
        let new = texts(store, items)?;
        let mut recorded = RecordedBody {
            format: Some(api.format()),
            text: None,
            texts: Arc::clone(&previous.texts),
            request: self.clone(),
        };
        // Everything before the latest question stays as it is in the next request.
        let (closed, open) = new.split_at(last_question(&new).unwrap_or(0));
        let messages = recorded.messages(api, &settled.settings, closed)?;
        settled.names.extend(tool_names(&messages));
        let first = settled.messages;
        let more = recorded.message_entries(&messages, first, false, &settled.names);
        settled.entries.extend(more);
        settled.messages += messages.len();
        settled.items.extend_from_slice(&items[..closed.len()]);
        let messages = recorded.messages(api, &settled.settings, open)?;
        // Calls of the open part are there in the next request, too.
        settled.names.extend(tool_names(&messages));
        let first = settled.messages;
        let tail = recorded.message_entries(&messages, first, true, &settled.names);
        let mut entries = settled.entries.clone();
        entries.extend(tail);
        let max_output = settled.max_output;
        previous.settled = Some(settled);
        Ok(recorded.saved(snapshot, entries, max_output))
    }

    /// Returns what later requests can have in common with a request that was
    /// read as a whole: its content before the latest question. Returns `None` if
    /// it has no question.
    fn settle(
        &self,
        store: &dyn Snapshots,
        api: Api,
        mut items: Vec<ContentHash>,
        saved: &Saved,
    ) -> Result<Option<Settled>, Error> {
        let all = texts(store, &items)?;
        let Some(open) = last_question(&all) else {
            return Ok(None);
        };
        let mut settings = self.read_fields(store)?;
        // These are blocks already.
        for name in ["tools", "system", "instructions", "systemInstruction"] {
            settings.remove(name);
        }
        items.truncate(open);
        let mut recorded = RecordedBody {
            format: None,
            text: None,
            texts: Texts::default(),
            request: self.clone(),
        };
        let open = recorded.messages(api, &settings, &all[open..])?;
        let open = recorded.message_entries(&open, 0, true, &BTreeMap::new());
        let before = saved.entries.len().saturating_sub(open.len());
        let closed = recorded.messages(api, &settings, &all[..items.len()])?;
        let mut entries = saved.entries[..before].to_vec();
        for entry in entries
            .iter_mut()
            .filter(|entry| entry.section != Section::System)
        {
            entry.section = Section::History;
            entry.layer = "history".into();
        }
        Ok(Some(Settled {
            api,
            fields: self.fields,
            list: self.list.clone(),
            settings,
            messages: closed.len(),
            names: tool_names(&closed),
            max_output: saved.settings.max_output,
            entries,
            items,
        }))
    }
}

/// The content that requests of a conversation have in common, which is read once.
#[derive(Debug, Default)]
pub(super) struct LoadedConversation {
    chunks: HashMap<ContentHash, Vec<ContentHash>>,
    texts: Texts,
    settled: Option<Settled>,
}

/// The part of a conversation before its latest question. No later message is
/// joined to a message of it.
#[derive(Debug)]
struct Settled {
    api: Api,
    fields: ContentHash,
    list: String,
    // The fields without instructions and tools.
    settings: Map<String, Value>,
    items: Vec<ContentHash>,
    // The number of messages that the items are.
    messages: usize,
    names: BTreeMap<String, Arc<str>>,
    max_output: Option<u64>,
    entries: Vec<Entry>,
}

impl Settled {
    /// Returns true if a request with these messages begins with it.
    fn begins(&self, request: &RecordedRequest, api: Api, items: &[ContentHash]) -> bool {
        self.fields == request.fields
            && self.list == request.list
            && self.api == api
            && items.starts_with(&self.items)
    }
}

/// Returns the position of the latest message that only a user wrote.
fn last_question(messages: &[String]) -> Option<usize> {
    messages.iter().rposition(|message| {
        // Results of tools are sent by the user in some APIs.
        let may_be = message.contains("\"user\"") && !message.contains("tool_result");
        let read = || serde_json::from_str::<Value>(message).ok();
        may_be && read().is_some_and(|value| value["role"] == "user")
    })
}

fn unreadable(error: native::NativeError) -> Error {
    Error::damage(format!("the recorded request cannot be read: {error}"))
}

/// Returns the messages with these hashes.
fn texts(store: &dyn Snapshots, hashes: &[ContentHash]) -> Result<Vec<String>, Error> {
    let text = |(bytes, hash): (Vec<u8>, &ContentHash)| {
        String::from_utf8(bytes).map_err(|_| damaged(*hash))
    };
    fetch(store, hashes)?
        .into_iter()
        .zip(hashes)
        .map(text)
        .collect()
}

impl RecordedBody {
    /// Returns the request with these blocks.
    fn saved(self, snapshot: &Snapshot, entries: Vec<Entry>, max_output: Option<u64>) -> Saved {
        let settings = Settings {
            version: VERSION,
            model: self.request.model.clone(),
            max_output,
            // The window is unknown, and the provider accepted the request: it had
            // room for the answer.
            spare: max_output.unwrap_or(USUAL_ANSWER),
            continues: false,
            follows_stored: false,
            sampling: Sampling::unset().clone(),
            cache_key: None,
            deferred: None,
            text: ContentHash::of(b""),
            agent: None,
            given: None,
            mark: Layout::default().mark,
        };
        Saved {
            hash: snapshot.hash,
            settings,
            lengths: vec![entries.len()],
            entries,
            chunks: Vec::new(),
            new: Vec::new(),
            starts: Arc::default(),
            durability: Arc::default(),
            recorded: Some(Arc::new(self)),
            made_at: snapshot.created_at,
        }
    }

    /// Reads messages without the instructions and tools around them.
    fn messages(
        &self,
        api: Api,
        settings: &Map<String, Value>,
        messages: &[String],
    ) -> Result<Vec<Message>, Error> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let body = compose(settings, &self.request.list, messages, &[]);
        let read = native::read_request(body.as_bytes(), &[api]).map_err(unreadable)?;
        Ok(read.messages)
    }
}

/// Returns the recorded request that a root blob describes, or `None` if the
/// blob describes a request that was assembled here.
pub(super) fn read(root: &[u8]) -> Result<Option<RecordedRequest>, Error> {
    let begins = [
        &b"{\"version\":3,\"recorded\":"[..],
        b"{\"version\":4,\"recorded\":",
    ];
    let is_recorded = begins.iter().any(|begin| root.starts_with(begin));
    match is_recorded {
        true => Ok(Some(parse::<RecordedRoot>(root)?.recorded)),
        false => Ok(None),
    }
}

/// Writes a body: the conversation follows the model, or comes last.
fn compose(
    fields: &Map<String, Value>,
    list: &str,
    messages: &[String],
    marks: &[CacheMark],
) -> String {
    let mut fields = fields.clone();
    let mut marked: BTreeMap<usize, Value> = BTreeMap::new();
    for mark in marks {
        match &mark.path[..] {
            [PathPart::Field(first), PathPart::Index(at), rest @ ..] if first == list => {
                let Some(message) = messages.get(*at) else {
                    continue;
                };
                let read = || serde_json::from_str(message).unwrap_or(Value::Null);
                put_mark(marked.entry(*at).or_insert_with(read), rest, &mark.value);
            }
            [PathPart::Field(first), rest @ ..] => {
                if let Some(value) = fields.get_mut(first) {
                    put_mark(value, rest, &mark.value);
                }
            }
            _ => {}
        }
    }
    let mut out = String::from("{");
    let name = |out: &mut String, name: &str| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&Value::from(name).to_string());
        out.push(':');
    };
    let conversation = |out: &mut String| {
        name(out, list);
        out.push('[');
        for (i, message) in messages.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            match marked.get(&i) {
                Some(value) => out.push_str(&value.to_string()),
                None => out.push_str(message),
            }
        }
        out.push(']');
    };
    let mut is_written = false;
    for (field, value) in &fields {
        name(&mut out, field);
        out.push_str(&value.to_string());
        if field == "model" {
            conversation(&mut out);
            is_written = true;
        }
    }
    if !is_written {
        conversation(&mut out);
    }
    out.push('}');
    out
}

/// Sets `cache_control` at a path. A text that has a mark is a block.
fn put_mark(value: &mut Value, path: &[PathPart], mark: &Value) {
    let Some((first, rest)) = path.split_first() else {
        if let Value::Object(fields) = value {
            fields.insert("cache_control".to_owned(), mark.clone());
        }
        return;
    };
    let next = match first {
        PathPart::Field(name) => value.get_mut(name),
        PathPart::Index(at) => {
            if let Value::String(text) = value {
                let text = std::mem::take(text);
                *value = serde_json::json!([{"type": "text", "text": text}]);
            }
            value.get_mut(*at)
        }
    };
    if let Some(next) = next {
        put_mark(next, rest, mark);
    }
}

/// The body of a recorded request, and the texts that were derived from it.
#[derive(Debug)]
pub(super) struct RecordedBody {
    format: Option<Format>,
    // The body, if it was needed to read the blocks.
    text: Option<String>,
    texts: Texts,
    request: RecordedRequest,
}

/// The contents that blocks refer to by hash. Requests of one conversation share
/// them.
type Texts = Arc<Mutex<HashMap<ContentHash, Vec<u8>>>>;

impl RecordedBody {
    pub(super) fn format(&self) -> Option<Format> {
        self.format
    }

    pub(super) fn body(&self, store: &dyn Snapshots) -> Result<String, Error> {
        match &self.text {
            Some(text) => Ok(text.clone()),
            None => self.request.body(store),
        }
    }

    pub(super) fn check(&self, hash: ContentHash) -> Result<(), Error> {
        match self.request.clone().root().hash == hash {
            true => Ok(()),
            false => Err(damaged(hash)),
        }
    }

    pub(super) fn bodies(&self, hashes: &[ContentHash]) -> Result<Vec<Vec<u8>>, Error> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let get = |hash: &ContentHash| texts.get(hash).cloned().ok_or_else(|| damaged(*hash));
        hashes.iter().map(get).collect()
    }

    fn keep(&mut self, bytes: Vec<u8>) -> ContentHash {
        let hash = ContentHash::of(&bytes);
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.insert(hash, bytes);
        hash
    }

    fn keep_native(&mut self, native: &Native) -> SavedNative {
        SavedNative {
            provider: Arc::clone(&native.provider),
            content: self.keep(native.raw.as_str().as_bytes().to_vec()),
        }
    }

    /// Returns the blocks of a request: tools, system prompt, history, and the
    /// last message as the current one.
    fn entries(&mut self, request: &NativeRequest) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (i, tool) in request.tools.iter().enumerate() {
            let name = tool.name.clone().unwrap_or_else(|| i.to_string());
            let part = SavedPart::Tool {
                name: name.as_str().into(),
            };
            let at = Position {
                section: Section::System,
                layer: "tools",
                id: format!("tools/{name}"),
                role: Role::System,
                trust: Trust::Operator,
            };
            let native = Native::new(request.api.name(), tool.raw.clone());
            entries.push(self.entry(at, &Text::new(tool.raw.as_str()), part, Some(&native), 0));
        }
        for (i, block) in request.system.iter().enumerate() {
            let at = Position {
                section: Section::System,
                layer: "system",
                id: format!("system/{i}"),
                role: Role::System,
                trust: Trust::Operator,
            };
            entries.push(self.message_block(at, block, &BTreeMap::new()));
        }
        let names = tool_names(&request.messages);
        entries.extend(self.message_entries(&request.messages, 0, true, &names));
        entries
    }

    /// Returns the blocks of messages, of which the first has the number `first`.
    /// If `is_end`, the last is the current one.
    fn message_entries(
        &mut self,
        messages: &[Message],
        first: usize,
        is_end: bool,
        names: &BTreeMap<String, Arc<str>>,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            let m = first + at;
            let (role, trust) = match message.role {
                MessageRole::User => (Role::User, Trust::User),
                MessageRole::Assistant => (Role::Assistant, Trust::User),
                MessageRole::Tool => (Role::Tool, Trust::Tool),
                MessageRole::System => (Role::System, Trust::Operator),
                MessageRole::Developer => (Role::Developer, Trust::Operator),
            };
            let (section, layer) = match is_end && at + 1 == messages.len() {
                true => (Section::Current, "current"),
                false => (Section::History, "history"),
            };
            let blocks = message.blocks();
            for (b, block) in blocks.iter().enumerate() {
                let id = match blocks.len() {
                    1 => format!("messages/{m}"),
                    _ => format!("messages/{m}.{b}"),
                };
                let at = Position {
                    section,
                    layer,
                    id,
                    role,
                    trust,
                };
                entries.push(self.message_block(at, block, names));
            }
        }
        entries
    }

    fn message_block(
        &mut self,
        at: Position,
        block: &MessageBlock,
        names: &BTreeMap<String, Arc<str>>,
    ) -> Entry {
        let mut more = 0;
        let (text, part) = match block {
            MessageBlock::Text { text, .. } => (Text::new(text), SavedPart::Text),
            MessageBlock::Thinking {
                text, signature, ..
            } => {
                let signature = signature.as_deref().unwrap_or_default().into();
                (Text::new(text), SavedPart::Thinking { signature })
            }
            MessageBlock::ToolCall {
                id,
                name,
                arguments,
                ..
            } => {
                let text = match arguments {
                    Value::String(written) => Text::new(written),
                    arguments => Text::new(&arguments.to_string()),
                };
                let (id, name) = (id.as_str().into(), name.as_str().into());
                (text, SavedPart::ToolCall { id, name })
            }
            MessageBlock::ToolResult {
                tool_call_id,
                content,
                is_error,
                ..
            } => {
                let name = names.get(tool_call_id).cloned();
                let part = SavedPart::ToolResult {
                    id: tool_call_id.as_str().into(),
                    name: name.unwrap_or_else(|| "".into()),
                    is_error: *is_error,
                };
                (Text::new(content), part)
            }
            MessageBlock::Provider { provider, raw } => {
                let (shown, hidden) = native::shown(raw);
                more = hidden;
                let native = Native::new(provider.as_str(), raw.clone());
                let part = SavedPart::Provider(self.keep_native(&native));
                (Text::new(&shown), part)
            }
            MessageBlock::Image { .. }
            | MessageBlock::Audio { .. }
            | MessageBlock::Document { .. } => match block.media() {
                Some(media) => {
                    more = media_tokens(&media);
                    let part = SavedPart::Media {
                        kind: media.kind,
                        media_type: media.media_type.as_str().into(),
                        content: self.keep(json(&media)),
                    };
                    (Text::new(&describe(&media)), part)
                }
                None => (Text::new(""), SavedPart::Text),
            },
        };
        self.entry(at, &text, part, block.native(), more)
    }

    fn entry(
        &mut self,
        at: Position,
        text: &Text,
        part: SavedPart,
        native: Option<&Native>,
        more: Tokens,
    ) -> Entry {
        let mut body = text.as_str().to_owned();
        body.push('\n');
        let tokens = Estimated::new(1.0).count(&body);
        let bytes = body.len() as u64;
        Entry {
            section: at.section,
            id: at.id.into(),
            layer: at.layer.into(),
            role: at.role,
            trust: at.trust,
            path: None,
            part,
            native: native.map(|native| self.keep_native(native)),
            join: contexture_core::Join::default(),
            tokens: tokens.saturating_add(more),
            surcharge: more,
            recorded: false,
            volatile: false,
            group: None,
            body: self.keep(body.into_bytes()),
            bytes,
        }
    }
}

/// The position of a block.
struct Position {
    section: Section,
    layer: &'static str,
    id: String,
    role: Role,
    trust: Trust,
}

/// Returns the tool of each call.
fn tool_names(messages: &[Message]) -> BTreeMap<String, Arc<str>> {
    let mut names = BTreeMap::new();
    for message in messages {
        for block in message.blocks() {
            if let MessageBlock::ToolCall { id, name, .. } = &*block {
                names.insert(id.clone(), name.as_str().into());
            }
        }
    }
    names
}
