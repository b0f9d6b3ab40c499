//! Reads the rows of a rollout.

use std::borrow::Cow;
use std::collections::HashMap;

use contexture_core::{ContentHash, Usage};
use contexture_store::TurnId;
use jiff::Timestamp;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

mod turns;

use super::NAME;
use super::items::{is_output, title};
use super::position::{Position, StoredState, UserTurn, stored_session};
use super::row::{Row, SessionMeta, parent_of_source, read_usage};
use crate::error::ImportError;
use crate::exported::cut_label;
use crate::fields;
use crate::file::{Rest, SourceFile};
use crate::requests::Requests;
use crate::writer::{TurnRef, Writer};

/// A field of items that is not sent.
const NOT_SENT: &str = "internal_chat_message_metadata_passthrough";

/// The beginning of the event with the output of a command.
const COMMAND_END: &str = r#"{"type":"exec_command_end""#;

/// The number of bytes in which the type of an event is searched for.
const EVENT_BYTES: usize = 128;

/// The maximum number of turns of the user that can be retracted.
const MOST_USER_TURNS: usize = 64;

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
    rest: Rest,
    // The time of the last row that has one.
    last_row_at: Option<Timestamp>,
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
    // The session of a copy of this file that was imported before it.
    copy: Option<String>,
    // A row without its output.
    short_row: String,
    finds_not_sent: Finder<'static>,
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
            rest: file.rest,
            last_row_at: None,
            position: Position::default(),
            open: None,
            held: None,
            requests: Requests::default(),
            instructions: None,
            fields: None,
            known: HashMap::new(),
            made: Vec::new(),
            is_looked_up: false,
            is_fork: None,
            copy: None,
            short_row: String::new(),
            finds_not_sent: Finder::new(NOT_SENT),
        };
        if let Some(stored) = stored {
            let has_turns = !stored.known.is_empty() || !stored.latest.is_empty();
            reader.is_looked_up = file.offset > 0 && has_turns;
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

    /// Reads a row.
    pub(super) fn row(
        &mut self,
        offset: u64,
        bytes: &[u8],
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let mut short = std::mem::take(&mut self.short_row);
        let done = self.row_without_output(offset, bytes, &mut short, writer);
        self.short_row = short;
        done
    }

    /// Reads a row. The output of a command is skipped: an item has it, too.
    fn row_without_output(
        &mut self,
        offset: u64,
        bytes: &[u8],
        short: &mut String,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let text = std::str::from_utf8(bytes).ok();
        let text = text.map(|text| {
            let is_event =
                memchr::memmem::find(&bytes[..bytes.len().min(EVENT_BYTES)], b"event_msg");
            let payload = is_event.and_then(|_| fields::find(text, "payload"));
            match payload.filter(|payload| text[payload.clone()].starts_with(COMMAND_END)) {
                None => text,
                Some(payload) => {
                    fields::replace(text, payload, "{}", short);
                    short.as_str()
                }
            }
        });
        let row = text.and_then(|text| serde_json::from_str::<Row<'_>>(text).ok());
        let (Some(row), true) = (&row, row.as_ref().is_some_and(|row| row.payload.is_some()))
        else {
            return Ok(writer.unknown(NAME, &self.name, offset, bytes)?);
        };
        let payload = row.payload.map(RawValue::get).unwrap_or_default();
        let at = row.timestamp.as_deref().and_then(|time| time.parse().ok());
        self.last_row_at = at.or(self.last_row_at);
        let at = at.or(self.position.at).unwrap_or(self.now);
        self.position.at = Some(at);
        match &*row.kind {
            "session_meta" => self.session_meta(payload, at),
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

    fn session_meta(&mut self, payload: &str, at: Timestamp) {
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
        self.position.started = Some(at);
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
        let has_more = self.finds_not_sent.find(payload.as_bytes()).is_some();
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
        if before.is_some() {
            // A fork may have had nothing of its own so far.
            self.create_session(writer)?;
        }
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

    /// Ends the import of the file: sets the offset at which the next import
    /// begins, and the state to store once the ids of all turns are known.
    pub(super) fn finish(
        mut self,
        end: u64,
        file: &mut SourceFile<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let mut held = None;
        self.rest = self.rest.since(self.last_row_at);
        // A call may get more rows or its usage, and is read again then.
        let (offset, mut sealed) = match (&self.held, &self.open) {
            (Some(first), _) | (None, Some(first)) => (first.start, first.before.clone()),
            (None, None) => (end, self.position.clone()),
        };
        let count = self.made.len();
        // A call whose usage is known is complete in most cases.
        let open = self.open.iter().filter(|open| !open.outputs.is_empty());
        let has_usage = |call: &Exchange| call.usage.is_some();
        let mut calls = self.held.iter().chain(open).peekable();
        let has_calls = calls.peek().is_some();
        let is_complete = calls.all(has_usage);
        if has_calls && self.rest.allows(is_complete, &mut held) {
            self.settle(writer)?;
        }
        if self.with_tail
            && self.position.title.is_some()
            && self.open.is_some()
            && self.rest.allows(false, &mut held)
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
            if let Some(copy) = self.copy.take() {
                writer.parent(&copy, &label, at)?;
            }
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
        file.new_offset = offset;
        file.later_state = Some(Box::new(state));
        file.held = held;
        Ok(())
    }
}
