//! Makes turns, requests and compactions of the rows.

use contexture_core::ContentHash;
use contexture_providers::native::Api;
use contexture_store::{
    Block, Compaction, Message, NewSession, NewTurn, Snapshot, StopReason, Trigger, TurnStatus,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Exchange, NOT_SENT, Reader};
use crate::codex::NAME;
use crate::codex::items::{last_text, messages};
use crate::codex::position::{StoredState, stored_session};
use crate::codex::row::Compacted;
use crate::error::ImportError;
use crate::exported::cut_label;
use crate::requests::Shape;
use crate::writer::{Writer, blob};

impl Reader {
    /// Ends the open call. Its usage may still come.
    pub(super) fn close(&mut self, writer: &mut Writer<'_>) -> Result<(), ImportError> {
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
    pub(super) fn settle(&mut self, writer: &mut Writer<'_>) -> Result<(), ImportError> {
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
    pub(super) fn record_tail(&mut self, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        if let Some(open) = self.open.take() {
            let position = self.position.clone();
            self.write(open, writer)?;
            self.position = position;
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        exchange: Exchange,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let chain = self.position.chain;
        let all = || exchange.inputs.iter().chain(&exchange.outputs);
        // One piece of memory is hashed several times as fast as parts of it.
        let mut hashed = Vec::with_capacity(32 + all().map(String::len).sum::<usize>());
        hashed.extend(chain.iter().flat_map(|chain| chain.as_bytes()));
        all().for_each(|item| hashed.extend_from_slice(item.as_bytes()));
        let next = ContentHash::of(&hashed);
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
                blocks.any(|block| matches!(&**block, Block::ToolCall { .. }))
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
            // The later one of two files with the same beginning is the fork.
            let (own, other) = (&self.position, state.position);
            let is_original = other.parent.is_some() && other.parent == own.label
                || own.parent.is_none() && own.started.is_some() && own.started < other.started;
            match is_original {
                true => self.copy = other.label,
                false => self.is_fork = other.label,
            }
        }
        Ok(())
    }

    pub(super) fn create_session(
        &mut self,
        writer: &mut Writer<'_>,
    ) -> Result<Option<String>, ImportError> {
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

    pub(super) fn compacted(
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
}
