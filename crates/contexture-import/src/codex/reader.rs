//! Reads the rows of a rollout, and makes turns of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use contexture_core::{ContentHash, Usage};
use contexture_providers::native::{self, Api};
use contexture_store::{
    Block, Compaction, Message, MessageContent, MessageRole, NewSession, NewTurn, RawJson,
    Snapshot, StopReason, Trigger, TurnId, TurnStatus,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::NAME;
use crate::error::ImportError;
use crate::exported::cut_label;
use crate::file::SourceFile;
use crate::requests::{Requests, RequestsState, Shape};
use crate::writer::{LaterState, TurnRef, Writer, blob};

/// A field of items that is not sent.
const NOT_SENT: &str = "internal_chat_message_metadata_passthrough";

/// A row.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SessionMeta {
    id: Option<String>,
    forked_from_id: Option<String>,
    parent_thread_id: Option<String>,
    base_instructions: Option<Instructions>,
    model_provider: Option<String>,
    source: Option<Value>,
}

#[derive(Deserialize)]
struct Instructions {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Compacted {
    message: Option<String>,
    replacement_history: Option<Vec<Value>>,
}

/// The reader's position in the conversation. It is stored between imports.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Position {
    label: Option<String>,
    parent: Option<String>,
    title: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    instructions: Option<String>,
    at: Option<Timestamp>,
    /// The items that are sent, by number.
    items: Vec<u32>,
    /// A hash of all items so far.
    chain: Option<ContentHash>,
    head: Option<TurnId>,
    #[serde(skip)]
    head_ref: Option<TurnRef>,
    /// The start of each turn of the user.
    #[serde(with = "stored_turns")]
    turns: Vec<UserTurn>,
}

/// The start of a turn of the user.
#[derive(Clone)]
struct UserTurn {
    // Shared: a position is copied for every call of the model.
    items: Rc<[u32]>,
    chain: Option<ContentHash>,
    head: Option<TurnId>,
    head_ref: Option<TurnRef>,
}

/// Turns of the user as stored: each has most items of the one before it.
mod stored_turns {
    use contexture_core::ContentHash;
    use contexture_store::TurnId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::UserTurn;

    #[derive(Serialize, Deserialize)]
    struct StoredTurn {
        // The number of items that it has from the turn before it. Earlier
        // versions wrote every item.
        #[serde(default)]
        shared: usize,
        items: Vec<u32>,
        chain: Option<ContentHash>,
        head: Option<TurnId>,
    }

    pub(super) fn serialize<S: Serializer>(turns: &[UserTurn], to: S) -> Result<S::Ok, S::Error> {
        let mut before: &[u32] = &[];
        let stored = turns.iter().map(|turn| {
            let pairs = before.iter().zip(turn.items.iter());
            let shared = pairs.take_while(|(one, other)| one == other).count();
            before = &turn.items;
            StoredTurn {
                shared,
                items: turn.items[shared..].to_vec(),
                chain: turn.chain,
                head: turn.head,
            }
        });
        to.collect_seq(stored.collect::<Vec<_>>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<UserTurn>, D::Error> {
        let mut turns: Vec<UserTurn> = Vec::new();
        for stored in Vec::<StoredTurn>::deserialize(from)? {
            let before = turns.last().map(|turn| &turn.items[..]);
            let shared = before.and_then(|before| before.get(..stored.shared));
            let mut items = shared.unwrap_or_default().to_vec();
            items.extend(stored.items);
            turns.push(UserTurn {
                items: items.into(),
                chain: stored.chain,
                head: stored.head,
                head_ref: None,
            });
        }
        Ok(turns)
    }
}

/// The maximum number of turns of the user that can be retracted.
const MOST_USER_TURNS: usize = 64;

#[derive(Serialize, Deserialize)]
struct StoredState {
    position: Position,
    known: Vec<(ContentHash, TurnId)>,
    // The turns of rows that are read again when the file grows.
    latest: Vec<(ContentHash, TurnId)>,
    requests: RequestsState,
}

/// One call of the model.
struct Exchange {
    start: u64,
    before: Position,
    inputs: Vec<String>,
    outputs: Vec<String>,
    usage: Option<Usage>,
    at: Timestamp,
}

/// The reader of a rollout.
pub(super) struct Reader {
    name: String,
    now: Timestamp,
    with_tail: bool,
    position: Position,
    // The call whose items are being read, and the one before it, whose usage
    // may still come.
    open: Option<Exchange>,
    held: Option<Exchange>,
    requests: Requests,
    // The number of the instructions as an item, once a request has them.
    instructions: Option<u32>,
    // The fields of the latest request, by its model.
    fields: Option<(String, ContentHash)>,
    // The turns that are imported already.
    known: HashMap<ContentHash, TurnId>,
    // The turns that this import made.
    made: Vec<(ContentHash, TurnRef)>,
    is_looked_up: bool,
    is_fork: Option<String>,
}

impl Reader {
    /// Returns a reader of a file. If the store lacks what an earlier import
    /// stored, the file is read from its beginning.
    pub(super) fn new(
        file: &mut SourceFile<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Self, ImportError> {
        let stored = file.state.as_ref();
        let stored = stored.and_then(|state| serde_json::from_slice::<StoredState>(state).ok());
        let mut stored = stored_session(stored, writer)?;
        if file.offset > 0 {
            let is_whole = match &stored {
                Some(stored) => Requests::is_stored(&stored.requests, writer.store())?,
                None => false,
            };
            if !is_whole {
                file.offset = 0;
                // Their rows may have more after them now.
                stored.iter_mut().for_each(|it| it.latest.clear());
            }
        }
        let mut reader = Self {
            name: file.name.clone(),
            now: file.now,
            with_tail: file.with_tail,
            position: Position::default(),
            open: None,
            held: None,
            requests: Requests::default(),
            instructions: None,
            fields: None,
            known: HashMap::new(),
            made: Vec::new(),
            is_looked_up: file.offset > 0,
            is_fork: None,
        };
        if let Some(stored) = stored {
            reader.known = stored.known.into_iter().collect();
            if file.offset > 0 {
                reader.position = stored.position;
                reader.position.head_ref = reader.position.head.map(|id| writer.stored(id));
                for turn in &mut reader.position.turns {
                    turn.head_ref = turn.head.map(|id| writer.stored(id));
                }
                reader.requests = Requests::from_state(stored.requests);
            } else {
                reader.known.extend(stored.latest);
            }
        }
        Ok(reader)
    }

    pub(super) fn row(
        &mut self,
        offset: u64,
        bytes: &[u8],
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let row = std::str::from_utf8(bytes).ok();
        let row = row.and_then(|text| serde_json::from_str::<Row<'_>>(text).ok());
        let (Some(row), true) = (&row, row.as_ref().is_some_and(|row| row.payload.is_some()))
        else {
            return Ok(writer.unknown(NAME, &self.name, offset, bytes)?);
        };
        let payload = row.payload.map(RawValue::get).unwrap_or_default();
        let at = row.timestamp.as_deref().and_then(|time| time.parse().ok());
        let at = at.or(self.position.at).unwrap_or(self.now);
        self.position.at = Some(at);
        match &*row.kind {
            "session_meta" => self.session_meta(payload),
            "turn_context" => {
                #[derive(Deserialize)]
                struct TurnContext {
                    model: Option<String>,
                }
                if let Ok(context) = serde_json::from_str::<TurnContext>(payload) {
                    self.position.model = context.model.or(self.position.model.take());
                }
            }
            "response_item" => self.item(payload, offset, at, writer)?,
            "compacted" => self.compacted(payload, at, writer)?,
            "token_usage_record" => {
                #[derive(Deserialize)]
                struct UsageRecord {
                    usage: Option<Value>,
                }
                if let Ok(record) = serde_json::from_str::<UsageRecord>(payload) {
                    self.usage(record.usage.as_ref());
                }
            }
            "event_msg" => self.event(payload, at, writer)?,
            "world_state" | "state" | "session_state" | "ghost_snapshot" => {}
            _ => writer.unknown(NAME, &self.name, offset, bytes)?,
        }
        Ok(())
    }

    fn session_meta(&mut self, payload: &str) {
        let Ok(meta) = serde_json::from_str::<SessionMeta>(payload) else {
            return;
        };
        // A fork has the rows of its origin after its own.
        if self.position.label.is_some() {
            return;
        }
        let Some(id) = meta.id else {
            return;
        };
        let label = |id: &str| cut_label(&format!("{NAME}:{id}"));
        let of_source = meta.source.as_ref().and_then(parent_of_source);
        let parent = meta.forked_from_id.or(meta.parent_thread_id).or(of_source);
        self.position.label = Some(label(&id));
        self.position.parent = parent.as_deref().map(label);
        self.position.provider = meta.model_provider;
        self.position.instructions = meta.base_instructions.and_then(|it| it.text);
    }

    fn item(
        &mut self,
        payload: &str,
        offset: u64,
        at: Timestamp,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let has_more = memchr::memmem::find(payload.as_bytes(), NOT_SENT.as_bytes()).is_some();
        let item = match has_more {
            true => {
                let item: Result<Map<String, Value>, _> = serde_json::from_str(payload);
                let Ok(mut item) = item else {
                    return Ok(());
                };
                item.shift_remove(NOT_SENT);
                Value::Object(item).to_string()
            }
            false => payload.to_owned(),
        };
        let is_output = is_output(&item);
        if self
            .open
            .as_ref()
            .is_some_and(|open| !is_output && !open.outputs.is_empty())
        {
            self.close(writer)?;
        }
        let before = &self.position;
        let open = self.open.get_or_insert_with(|| Exchange {
            start: offset,
            before: before.clone(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            usage: None,
            at,
        });
        if is_output {
            open.at = match open.outputs.is_empty() {
                true => at,
                false => open.at,
            };
            open.outputs.push(item);
        } else {
            self.position.title = self.position.title.take().or_else(|| title(&item));
            open.inputs.push(item);
        }
        Ok(())
    }

    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.and_then(read_usage) else {
            return;
        };
        let open = self.open.as_mut().filter(|open| !open.outputs.is_empty());
        let exchange = match open {
            Some(open) => Some(open),
            None => self.held.as_mut(),
        };
        if let Some(exchange) = exchange
            && exchange.usage.is_none()
        {
            exchange.usage = Some(usage);
        }
    }

    fn event(
        &mut self,
        payload: &str,
        at: Timestamp,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            info: Option<&'a RawValue>,
            num_turns: Option<usize>,
        }
        // The output of a command is in an item, too.
        if payload.starts_with(r#"{"type":"exec_command_end""#) {
            return Ok(());
        }
        let Ok(event) = serde_json::from_str::<Event<'_>>(payload) else {
            return Ok(());
        };
        match &*event.kind {
            "token_count" => {
                let info = event.info.map_or("null", RawValue::get);
                let info: Value = serde_json::from_str(info).unwrap_or_default();
                self.usage(info.get("last_token_usage"));
            }
            "task_started" | "turn_started" => {
                self.settle(writer)?;
                self.begin_user_turn();
            }
            // Older versions have no event for the beginning of a turn.
            "user_message" => {
                let is_begun = self
                    .open
                    .as_ref()
                    .is_some_and(|open| open.outputs.is_empty());
                if !is_begun {
                    self.settle(writer)?;
                    self.begin_user_turn();
                }
            }
            "thread_rolled_back" => {
                self.settle(writer)?;
                self.record_tail(writer)?;
                self.roll_back(event.num_turns.unwrap_or(1), at, writer)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_user_turn(&mut self) {
        if self.position.turns.len() >= MOST_USER_TURNS {
            self.position.turns.remove(0);
        }
        let turn = UserTurn {
            items: self.position.items.as_slice().into(),
            chain: self.position.chain,
            head: None,
            head_ref: self.position.head_ref,
        };
        self.position.turns.push(turn);
    }

    fn roll_back(
        &mut self,
        turns: usize,
        at: Timestamp,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let left = self.position.turns.len().saturating_sub(turns.max(1));
        let Some(turn) = self.position.turns.get(left).cloned() else {
            return Ok(());
        };
        let before = self.position.head_ref;
        self.position.turns.truncate(left);
        self.position.items = turn.items.to_vec();
        self.position.chain = turn.chain;
        self.position.head_ref = turn.head_ref;
        if let Some(label) = self.position.label.clone()
            && before.is_some()
        {
            writer.head(&label, before, "imported", at)?;
            writer.head(&label, turn.head_ref, "rewound", at)?;
        }
        Ok(())
    }

    /// Ends the open call. Its usage may still come.
    fn close(&mut self, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        if let Some(held) = self.held.take() {
            self.write(held, writer)?;
        }
        if let Some(mut open) = self.open.take() {
            // The answer follows the turns that were just written.
            open.before.head_ref = self.position.head_ref;
            open.before.chain = self.position.chain;
            open.before.items.clone_from(&self.position.items);
            self.held = Some(open);
        }
        Ok(())
    }

    /// Writes the calls that have an answer.
    fn settle(&mut self, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        if self
            .open
            .as_ref()
            .is_some_and(|open| !open.outputs.is_empty())
        {
            self.close(writer)?;
        }
        match self.held.take() {
            Some(held) => self.write(held, writer),
            None => Ok(()),
        }
    }

    /// Writes messages that have no answer. The head does not move.
    fn record_tail(&mut self, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        if let Some(open) = self.open.take() {
            let position = self.position.clone();
            self.write(open, writer)?;
            self.position = position;
        }
        Ok(())
    }

    fn write(&mut self, exchange: Exchange, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let chain = self.position.chain;
        let all = exchange.inputs.iter().chain(&exchange.outputs);
        let mut hasher = blake3::Hasher::new();
        hasher.update(chain.as_ref().map_or(&[], |chain| &chain.as_bytes()[..]));
        all.for_each(|item| {
            hasher.update(item.as_bytes());
        });
        let next = ContentHash::from_bytes(*hasher.finalize().as_bytes());
        self.look_up(next, writer)?;
        for item in &exchange.inputs {
            let number = self.requests.intern(item.as_bytes());
            self.position.items.push(number);
        }
        let sent = self.position.items.clone();
        for item in &exchange.outputs {
            let number = self.requests.intern(item.as_bytes());
            self.position.items.push(number);
        }
        self.position.chain = Some(next);
        if let Some(turn) = self.known.get(&next) {
            self.position.head_ref = Some(writer.stored(*turn));
            return Ok(writer.content(self.requests.take_fresh())?);
        }
        let Some(label) = self.create_session(writer)? else {
            return Ok(());
        };
        let parent = self.position.head_ref;
        let mut turn = NewTurn {
            model: self.position.model.clone(),
            provider: Some("openai".to_owned()),
            usage: exchange.usage,
            messages: messages(&exchange.inputs, &exchange.outputs),
            ..NewTurn::default()
        };
        if exchange.outputs.is_empty() {
            turn.model = None;
            turn.provider = None;
            turn.status = Some(TurnStatus::Pending);
        } else {
            let calls = |message: &Message| {
                let blocks = message.blocks();
                let mut blocks = blocks.iter();
                blocks.any(|block| matches!(&**block, contexture_store::Block::ToolCall { .. }))
            };
            turn.stop_reason = Some(match turn.messages.iter().any(calls) {
                true => StopReason::ToolUse,
                false => StopReason::EndTurn,
            });
            let hash = self.request(&label, next, sent, &exchange, writer)?;
            turn.request_hash = Some(hash.to_string());
        }
        let made = writer.turn(&label, parent, turn, exchange.at)?;
        self.position.head_ref = made;
        self.made.extend(made.map(|made| (next, made)));
        Ok(())
    }

    /// Checks whether another file has the same beginning.
    fn look_up(&mut self, first: ContentHash, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        if std::mem::replace(&mut self.is_looked_up, true) {
            return Ok(());
        }
        let root = first.to_string();
        let origin = writer.origin(NAME, &root)?;
        let Some(origin) = origin.filter(|origin| *origin != self.name) else {
            return Ok(writer.root(NAME, &root, &self.name)?);
        };
        let state = writer.store().import_state(NAME, &origin)?;
        let state = state.and_then(|it| serde_json::from_slice::<StoredState>(&it).ok());
        if let Some(state) = stored_session(state, writer)? {
            self.known.extend(state.known);
            self.known.extend(state.latest);
            self.is_fork = state.position.label;
        }
        Ok(())
    }

    fn create_session(&mut self, writer: &mut Writer<'_>) -> Result<Option<String>, ImportError> {
        let Some(label) = self.position.label.clone() else {
            // Without its first row a rollout is named after its file.
            let name = std::path::Path::new(&self.name).file_name();
            let name = name.unwrap_or_default().to_string_lossy();
            let name = name.trim_end_matches(".zst").trim_end_matches(".jsonl");
            self.position.label = Some(cut_label(&format!("{NAME}:{name}")));
            return self.create_session(writer);
        };
        let new = NewSession {
            label: label.clone(),
            parent_session: self
                .position
                .parent
                .clone()
                .or_else(|| self.is_fork.clone()),
            task: self.position.title.clone(),
            ..NewSession::default()
        };
        let at = self.position.at.unwrap_or(self.now);
        writer.session(new, self.position.head_ref, at)?;
        Ok(Some(label))
    }

    /// Saves the request that was answered.
    fn request(
        &mut self,
        label: &str,
        id: ContentHash,
        sent: Vec<u32>,
        exchange: &Exchange,
        writer: &mut Writer<'_>,
    ) -> Result<ContentHash, ImportError> {
        let model = self.position.model.clone().unwrap_or_default();
        let mut list = Vec::with_capacity(sent.len() + 1);
        if let Some(text) = &self.position.instructions {
            // They are the same for all requests of a file, and long.
            let number = match self.instructions {
                Some(number) => number,
                None => {
                    let item = json!({
                        "type": "message",
                        "role": "developer",
                        "content": [{"type": "input_text", "text": text}],
                    });
                    self.requests.intern(item.to_string().as_bytes())
                }
            };
            self.instructions = Some(number);
            list.push(number);
        }
        list.extend(sent);
        let mut fresh_fields = None;
        let fields = match &self.fields {
            Some((known, hash)) if *known == model => *hash,
            _ => {
                let made = blob(json!({"model": model}).to_string().into_bytes());
                let hash = made.hash;
                self.fields = Some((model.clone(), hash));
                fresh_fields = Some(made);
                hash
            }
        };
        let shape = Shape {
            api: Api::OpenAiResponses.name(),
            model: &model,
            fields,
            list: "input",
        };
        let built = self
            .requests
            .build(&id.to_string(), list, shape, Vec::new());
        let (hash, mut blobs) = built;
        blobs.extend(fresh_fields);
        let snapshot = Snapshot {
            hash,
            session: label.to_owned(),
            parent_turn: None,
            model,
            tokens: exchange.usage.map_or(0, |usage| usage.input_tokens),
            counter: "provider".to_owned(),
            root: hash,
            created_at: exchange.at,
        };
        writer.snapshot(snapshot, self.position.head_ref, blobs)?;
        Ok(hash)
    }

    fn compacted(
        &mut self,
        payload: &str,
        at: Timestamp,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        self.settle(writer)?;
        self.record_tail(writer)?;
        let Ok(compacted) = serde_json::from_str::<Compacted>(payload) else {
            return Ok(());
        };
        let history = compacted.replacement_history.unwrap_or_default();
        let history: Vec<String> = history
            .into_iter()
            .map(|mut item| {
                if let Value::Object(fields) = &mut item {
                    fields.shift_remove(NOT_SENT);
                }
                item.to_string()
            })
            .collect();
        let said = compacted
            .message
            .filter(|message| !message.trim().is_empty());
        let summary = said.unwrap_or_else(|| last_text(&history));
        let chain = self.position.chain;
        let mut hasher = blake3::Hasher::new();
        hasher.update(chain.as_ref().map_or(&[], |chain| &chain.as_bytes()[..]));
        hasher.update(b"compacted");
        hasher.update(payload.as_bytes());
        let next = ContentHash::from_bytes(*hasher.finalize().as_bytes());
        self.position.chain = Some(next);
        if !history.is_empty() {
            self.position.items = history
                .iter()
                .map(|item| self.requests.intern(item.as_bytes()))
                .collect();
        }
        if let Some(turn) = self.known.get(&next) {
            self.position.head_ref = Some(writer.stored(*turn));
            return Ok(());
        }
        let Some(parent) = self.position.head_ref else {
            return Ok(());
        };
        let Some(label) = self.create_session(writer)? else {
            return Ok(());
        };
        let compaction = Compaction {
            tokens_before: 0,
            tokens_after: (summary.len() as u64).div_ceil(4),
            summary,
            summarized_through: None,
            first_kept: None,
            first_kept_message: 0,
            facts: None,
            made_of: Vec::new(),
            trigger: Trigger::ContextLimit,
            focus: None,
            summariser: NAME.to_owned(),
            usage: None,
        };
        let made = writer.compaction(&label, parent, None, compaction, at)?;
        self.position.head_ref = Some(made);
        self.made.push((next, made));
        Ok(())
    }

    /// Ends the import of the file. Returns the offset at which the next import
    /// begins, and the state to store once the ids of all turns are known.
    pub(super) fn finish(
        mut self,
        end: u64,
        writer: &mut Writer<'_>,
    ) -> Result<(u64, LaterState), ImportError> {
        // A call may get more rows or its usage, and is read again then.
        let (offset, mut sealed) = match (&self.held, &self.open) {
            (Some(first), _) | (None, Some(first)) => (first.start, first.before.clone()),
            (None, None) => (end, self.position.clone()),
        };
        let count = self.made.len();
        self.settle(writer)?;
        if self.with_tail
            && self.position.title.is_some()
            && let Some(open) = self.open.take()
        {
            self.write(open, writer)?;
        }
        if let Some(label) = self.position.label.clone()
            && self.position.head_ref.is_some()
        {
            self.create_session(writer)?;
            let at = self.position.at.unwrap_or(self.now);
            writer.head(&label, self.position.head_ref, "imported", at)?;
        }
        writer.content(self.requests.take_fresh())?;
        let state = move |writer: &Writer<'_>| {
            let id = |turn: Option<TurnRef>| turn.and_then(|turn| writer.id(turn));
            sealed.head = id(sealed.head_ref);
            for turn in &mut sealed.turns {
                turn.head = id(turn.head_ref);
            }
            let with_id =
                |(chain, turn): &(ContentHash, TurnRef)| Some((*chain, writer.id(*turn)?));
            let made = self.made.iter().take(count).filter_map(with_id);
            let known = self.known.iter().map(|(chain, turn)| (*chain, *turn));
            let stored = StoredState {
                known: known.chain(made).collect(),
                latest: self.made.iter().skip(count).filter_map(with_id).collect(),
                position: sealed,
                requests: self.requests.state(),
            };
            let bytes = serde_json::to_vec(&stored).unwrap_or_default();
            (bytes, self.requests.contents())
        };
        Ok((offset, Box::new(state)))
    }
}

/// Returns a state unless its session was deleted: its turns may be deleted, too.
fn stored_session(
    state: Option<StoredState>,
    writer: &mut Writer<'_>,
) -> Result<Option<StoredState>, ImportError> {
    let Some(state) = state else {
        return Ok(None);
    };
    let is_there = match &state.position.label {
        Some(label) if !state.known.is_empty() || !state.latest.is_empty() => {
            writer.still_has_session(label)?
        }
        _ => true,
    };
    Ok(is_there.then_some(state))
}

/// Returns the thread that started a sub-agent.
fn parent_of_source(source: &Value) -> Option<String> {
    let agent = source.get("subagent")?;
    let spawn = agent.get("thread_spawn").unwrap_or(agent);
    let parent = spawn.get("parent_thread_id")?.as_str()?;
    Some(parent.to_owned())
}

/// Returns true for an item that the model wrote.
fn is_output(item: &str) -> bool {
    if item.starts_with(TOOL_RESULT) {
        return false;
    }
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        role: Option<Cow<'a, str>>,
    }
    let Ok(item) = serde_json::from_str::<Kind<'_>>(item) else {
        return false;
    };
    match item.kind.as_deref() {
        Some("message") | None => item.role.as_deref() == Some("assistant"),
        Some("additional_tools" | "item_reference" | "compaction" | "compaction_summary") => false,
        Some(kind) => !kind.ends_with("_output") && !kind.ends_with("_response"),
    }
}

fn read_usage(usage: &Value) -> Option<Usage> {
    let number = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    Some(Usage {
        input_tokens: usage.get("input_tokens")?.as_u64()?,
        output_tokens: number("output_tokens"),
        cached_input_tokens: number("cached_input_tokens"),
        cache_write_tokens: number("cache_write_input_tokens"),
        reasoning_tokens: number("reasoning_output_tokens"),
    })
}

/// Reads items as messages: inputs, then the answer.
fn messages(inputs: &[String], outputs: &[String]) -> Vec<Message> {
    let mut all = read_items(inputs);
    // An answer is one message, whatever items it has.
    let mut blocks = Vec::new();
    for message in read_items(outputs) {
        match message.content {
            MessageContent::Blocks(more) => blocks.extend(more),
            MessageContent::Text(text) => blocks.push(contexture_store::Block::text(text)),
        }
    }
    if !blocks.is_empty() {
        all.push(crate::messages::message(MessageRole::Assistant, blocks));
    }
    all
}

fn read_items(items: &[String]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut rest = items;
    while let Some((first, others)) = rest.split_first() {
        if let Some((role, block)) = common_item(first) {
            add(&mut messages, crate::messages::message(role, vec![block]));
            rest = others;
            continue;
        }
        let is_other = |item: &&String| !COMMON.iter().any(|begin| item.starts_with(begin));
        let length = 1 + others.iter().take_while(is_other).count();
        let (run, others) = rest.split_at(length);
        for message in read_run(run) {
            add(&mut messages, message);
        }
        rest = others;
    }
    messages
}

/// Adds a message as the reader of the API does: adjacent messages of the model
/// are one message, and so are results.
fn add(messages: &mut Vec<Message>, message: Message) {
    let joins = matches!(message.role, MessageRole::Assistant | MessageRole::Tool);
    if let Some(last) = messages.last_mut()
        && joins
        && last.role == message.role
        && let MessageContent::Blocks(before) = &mut last.content
        && let MessageContent::Blocks(blocks) = message.content
    {
        before.extend(blocks);
        return;
    }
    messages.push(message);
}

/// The beginning of a tool result, the most frequent item of a rollout.
const TOOL_RESULT: &str = r#"{"type":"function_call_output","call_id":""#;

/// The beginnings of the items that most of a rollout is made of.
const COMMON: [&str; 3] = [TOOL_RESULT, TOOL_CALL, REASONING];
const TOOL_CALL: &str = r#"{"type":"function_call","#;
const REASONING: &str = r#"{"type":"reasoning","#;

/// Reads a common item. `None` for everything else, which the reader of the API
/// reads.
fn common_item(item: &str) -> Option<(MessageRole, Block)> {
    if item.starts_with(TOOL_CALL) {
        return Some((MessageRole::Assistant, tool_call(item)?));
    }
    if item.starts_with(REASONING) {
        let reasoning = Block::Provider {
            provider: Api::OpenAiResponses.name().to_owned(),
            raw: RawJson::parse(item).ok()?,
        };
        return Some((MessageRole::Assistant, reasoning));
    }
    Some((MessageRole::Tool, tool_result(item)?))
}

/// Reads a call whose arguments are written as they would be sent again.
fn tool_call(item: &str) -> Option<Block> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call<'a> {
        #[serde(rename = "type")]
        _kind: serde::de::IgnoredAny,
        call_id: String,
        name: String,
        #[serde(borrow)]
        arguments: Cow<'a, str>,
    }
    let read: Call<'_> = serde_json::from_str(item).ok()?;
    let arguments: Value = serde_json::from_str(&read.arguments).ok()?;
    let is_named = !read.call_id.trim().is_empty() && !read.name.trim().is_empty();
    let is_same = arguments.is_object() && arguments.to_string() == read.arguments;
    (is_named && is_same).then_some(Block::ToolCall {
        id: read.call_id,
        name: read.name,
        arguments,
        native: None,
    })
}

/// Reads the result of a tool that is a text.
fn tool_result(item: &str) -> Option<Block> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Output {
        #[serde(rename = "type")]
        _kind: serde::de::IgnoredAny,
        call_id: String,
        output: String,
    }
    if !item.starts_with(TOOL_RESULT) {
        return None;
    }
    let read: Output = serde_json::from_str(item).ok()?;
    let is_named = !read.call_id.trim().is_empty();
    is_named.then_some(Block::ToolResult {
        tool_call_id: read.call_id,
        content: read.output,
        is_error: false,
        native: None,
    })
}

fn read_run(items: &[String]) -> Vec<Message> {
    let body = format!(r#"{{"model":"-","input":[{}]}}"#, items.join(","));
    match native::read_request(body.as_bytes(), &[Api::OpenAiResponses]) {
        Ok(request) => request.messages,
        // One item that cannot be read does not take the others with it.
        Err(_) if items.len() > 1 => items
            .iter()
            .flat_map(|item| read_run(std::slice::from_ref(item)))
            .collect(),
        Err(_) => vec![crate::messages::text(MessageRole::User, items[0].as_str())],
    }
}

/// Returns the first line of the user's message.
fn title(item: &str) -> Option<String> {
    let read = read_items(&[item.to_owned()]);
    let message = read
        .iter()
        .find(|message| message.role == MessageRole::User)?;
    let blocks = message.blocks();
    let text = blocks.iter().find_map(|block| match &**block {
        contexture_store::Block::Text { text, .. } => Some(text.trim()),
        _ => None,
    })?;
    // Text that the program itself adds is in tags, or is a file.
    let is_added = text.starts_with('<') || text.starts_with("# AGENTS.md");
    match is_added {
        true => None,
        false => crate::messages::title(text),
    }
}

/// Returns the last text of a history: a summary is its last item.
fn last_text(history: &[String]) -> String {
    let read = read_items(history);
    let texts = read.iter().rev().flat_map(Message::blocks);
    let mut texts = texts.filter_map(|block| match &*block {
        contexture_store::Block::Text { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts
        .next()
        .unwrap_or_else(|| "The history was compacted by the provider.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_the_user_are_stored_as_what_they_add() {
        let turn = |items: &[u32]| UserTurn {
            items: items.into(),
            chain: None,
            head: None,
            head_ref: None,
        };
        let lists: [&[u32]; 4] = [&[1, 2], &[1, 2, 3], &[9], &[]];
        let position = Position {
            turns: lists.map(turn).to_vec(),
            ..Position::default()
        };
        let text = serde_json::to_string(&position).unwrap_or_default();
        assert!(text.contains(r#""shared":2,"items":[3]"#), "{text}");
        // Earlier versions stored each list in full.
        let old = text.replace(r#""shared":2,"items":[3]"#, r#""items":[1,2,3]"#);
        for text in [text, old] {
            let read: Option<Position> = serde_json::from_str(&text).ok();
            let read = read.map(|read| read.turns).unwrap_or_default();
            let read: Vec<&[u32]> = read.iter().map(|turn| &turn.items[..]).collect();
            assert_eq!(read, lists);
        }
    }

    #[test]
    fn results_are_what_the_providers_crate_reads() {
        let items = [
            r#"{"type":"function_call","call_id":"a","name":"n","arguments":"{}"}"#,
            r#"{"type":"function_call","call_id":"a2","name":"n","arguments":"{\"b\":[1,\"\\n\"],\"a\":2}"}"#,
            r#"{"type":"function_call","call_id":"a3","name":"n","arguments":"{ \"b\": 1.50 }"}"#,
            r#"{"type":"function_call","call_id":"a4","name":"n","arguments":"no object"}"#,
            r#"{"type":"function_call","call_id":"a5","name":"n","arguments":""}"#,
            r#"{"type":"function_call","call_id":"a6","name":"n","arguments":"{}","id":"fc_2"}"#,
            r#"{"type":"custom_tool_call","call_id":"a7","name":"n","input":"x"}"#,
            r#"{"type":"function_call_output","call_id":"a","output":"caf\u00e9 \/ \"x\"\n"}"#,
            r#"{"type":"function_call_output","call_id":"b","output":""}"#,
            r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"t"}]}"#,
            r#"{"type":"function_call_output","call_id":"d","output":"x","id":"fc_1"}"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}"#,
            r#"{"type":"reasoning","summary":[],"encrypted_content":"e"}"#,
            r#"{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"\u00e9 x"}]}"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}"#,
        ];
        let items: Vec<String> = items.map(str::to_owned).to_vec();
        assert_eq!(read_items(&items), read_run(&items));
        for item in &items {
            let one = std::slice::from_ref(item);
            assert_eq!(read_items(one), read_run(one), "{item}");
        }
        let common = items.iter().filter(|it| common_item(it).is_some());
        // Two calls, two results and the reasoning.
        assert_eq!(common.count(), 6);
    }
}
