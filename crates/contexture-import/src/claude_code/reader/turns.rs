//! Makes turns from the rows that were read.

use contexture_store::{
    Compaction, ErrorKind, Message, MessageRole, NewSession, NewTurn, Snapshot, StopReason,
    Trigger, TurnError, TurnStatus,
};
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::{Reader, read_line};
use crate::claude_code::NAME;
use crate::claude_code::graph::{Graph, Kind, RowId, row_id};
use crate::claude_code::row::{ApiMessage, Row};
use crate::claude_code::sent::OpenRequest;
use crate::error::ImportError;
use crate::messages;
use crate::writer::{TurnRef, Writer};

impl Reader {
    /// Makes a turn from the open answer of a lane.
    pub(super) fn close(&mut self, lane: u16, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let at_lane = usize::from(lane);
        let Some(answer) = self.lanes[at_lane].answer.take() else {
            return Ok(());
        };
        if answer.noted < answer.blocks.len() {
            self.sent.answered(answer.message());
        }
        let parent = self.graph.nodes[answer.first].parent;
        let (base, mut inputs) = self.walk(parent, lane);
        let first = self
            .graph
            .find(parent_of_chain(&self.graph, &inputs, parent));
        if let Some(before) = first
            && self.graph.nodes[before].kind == Kind::Stop
        {
            // Results of calls that ran at the same time.
            let of_answer = self.first_row_of_answer(before);
            for result in self.results.remove(&of_answer).unwrap_or_default() {
                if !inputs.contains(&result) && self.waiting.contains_key(&result) {
                    inputs.push(result);
                }
            }
            inputs.sort_unstable();
        }
        let mut turn = NewTurn {
            provider: Some("anthropic".to_owned()),
            model: answer.model.clone(),
            usage: answer.usage(),
            stop_reason: answer.stop_reason(),
            ..NewTurn::default()
        };
        for input in &inputs {
            turn.messages.extend(self.take_input(*input));
        }
        let blocks = answer.message_blocks();
        if answer.is_error {
            let message = blocks.iter().find_map(|block| match block {
                contexture_store::Block::Text { text, .. } => Some(text.to_string()),
                _ => None,
            });
            turn.error = Some(TurnError {
                kind: ErrorKind::Unknown,
                message: message.unwrap_or_default(),
            });
            turn.stop_reason = Some(StopReason::Error);
        }
        if !blocks.is_empty() {
            turn.messages
                .push(messages::message(MessageRole::Assistant, blocks));
        }
        self.create_session(at_lane, base, writer)?;
        let request = answer.request.as_deref();
        if let Some(id) = request {
            let open = self.sent.open.remove(id);
            if let Some(open) = open {
                turn.request_hash = Some(open.hash.to_string());
                let tokens = turn.usage.map(|usage| usage.input_tokens);
                self.put_request(at_lane, open, base, tokens, writer)?;
            } else if let Some(hash) = self.sent.requests.root(id) {
                turn.request_hash = Some(hash.to_string());
            }
        }
        let label = self.lanes[at_lane].label.clone();
        let head = self.lanes[at_lane].head;
        let is_recorded = (self.recorded).contains(&self.graph.nodes[answer.first].id);
        if head.is_some() && head != base && !is_recorded {
            writer.head(&label, head, "imported", answer.at)?;
            writer.head(&label, base, "rewound", answer.at)?;
        }
        let made = writer.turn(&label, base, turn, answer.at)?;
        for row in inputs.iter().chain(&answer.rows) {
            self.graph.nodes[*row].turn = made;
        }
        self.lanes[at_lane].head = made;
        let begins = self.graph.nodes[answer.first].offset;
        self.record_abandoned(Some(lane), begins, writer)
    }

    /// Walks from a row towards the root to the latest turn, and returns it with
    /// the rows between, oldest first.
    pub(super) fn walk(&self, from: RowId, lane: u16) -> (Option<TurnRef>, Vec<usize>) {
        let mut inputs = Vec::new();
        let mut next = self.graph.find(from);
        let mut base = None;
        let mut is_lost = next.is_none() && from != 0;
        while let Some(at) = next {
            let node = &self.graph.nodes[at];
            if node.kind == Kind::Stop {
                base = node.turn.or_else(|| self.graph.turn_at(node.id));
                break;
            }
            inputs.push(at);
            // A parent comes before its children, so that no circle is walked.
            next = self.graph.find(node.parent).filter(|parent| *parent < at);
            is_lost = node.parent != 0 && next.is_none();
        }
        if is_lost {
            // The row before is missing, or comes later in the file.
            base = self.lanes[usize::from(lane)].head;
        }
        inputs.reverse();
        (base, inputs)
    }

    /// Returns the messages of a row. A row that another turn has is read
    /// again.
    pub(super) fn take_input(&mut self, row: usize) -> Vec<Message> {
        if let Some(waiting) = self.waiting.remove(&row) {
            self.waiting_bytes -= waiting.bytes.min(self.waiting_bytes);
            return waiting.messages;
        }
        if self.graph.nodes[row].turn.is_none() {
            return Vec::new();
        }
        let offset = self.graph.nodes[row].offset;
        let Some(line) = read_line(&self.path, offset, self.max_line) else {
            return Vec::new();
        };
        let Ok(row) = serde_json::from_str::<Row<'_>>(&line) else {
            return Vec::new();
        };
        let message = row.message.unwrap_or_default();
        match serde_json::from_str::<ApiMessage<'_>>(message) {
            Ok(message) if row.kind == "user" => {
                let content = message.content.map_or("\"\"", RawValue::get);
                messages::user(content)
            }
            _ => Vec::new(),
        }
    }

    /// Records the messages of a lane before `end` that are not on the path to
    /// an answer, such as a retracted message. The head does not move.
    pub(super) fn record_abandoned(
        &mut self,
        lane: Option<u16>,
        end: u64,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let is_old = |row: &usize| {
            let node = &self.graph.nodes[*row];
            node.offset < end && lane.is_none_or(|lane| lane == node.lane)
        };
        let old: Vec<usize> = self.waiting.keys().copied().filter(is_old).collect();
        // The last rows first: each takes the rows that lead to it.
        for row in old.into_iter().rev() {
            if self.waiting.contains_key(&row) {
                self.record_waiting(row, writer)?;
            }
        }
        Ok(())
    }

    /// Records a row without an answer, with the rows that lead to it. Returns
    /// the turn.
    pub(super) fn record_waiting(
        &mut self,
        row: usize,
        writer: &mut Writer<'_>,
    ) -> Result<Option<TurnRef>, ImportError> {
        let node = self.graph.nodes[row];
        let at_lane = usize::from(node.lane);
        let (base, inputs) = self.walk(node.id, node.lane);
        let mut turn = NewTurn {
            status: Some(TurnStatus::Pending),
            ..NewTurn::default()
        };
        let mut at = self.lanes[at_lane].at;
        for input in &inputs {
            if let Some(waiting) = self.waiting.get(input) {
                at = waiting.at;
                turn.messages.extend(self.take_input(*input));
            }
        }
        // Attachments and results alone are not worth a turn.
        let is_said = |message: &Message| message.role == MessageRole::User;
        let is_result = |message: &Message| message.role == MessageRole::Tool;
        if !turn
            .messages
            .iter()
            .any(|one| is_said(one) || is_result(one))
        {
            return Ok(None);
        }
        self.create_session(at_lane, base, writer)?;
        let label = self.lanes[at_lane].label.clone();
        let made = writer.turn(&label, base, turn, at)?;
        for input in inputs {
            self.graph.nodes[input].turn = self.graph.nodes[input].turn.or(made);
        }
        Ok(made)
    }

    pub(super) fn summary_row(
        &mut self,
        row: &Row<'_>,
        at_row: usize,
        at: Timestamp,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let lane = self.graph.nodes[at_row].lane;
        let Some(boundary) = self.lanes[usize::from(lane)].boundary.take() else {
            return self.user_row(row, None, at_row, at, writer);
        };
        let raw = row.message.unwrap_or_default();
        self.sent.said(raw);
        let message = serde_json::from_str::<ApiMessage<'_>>(raw).ok();
        let content = message.and_then(|message| message.content);
        let blocks = content.map(|it| messages::blocks(it.get(), MessageRole::User));
        let texts: Vec<String> = blocks
            .unwrap_or_default()
            .into_iter()
            .filter_map(|block| match block {
                contexture_store::Block::Text { text, .. } => Some(text.into()),
                _ => None,
            })
            .collect();
        let before = self.graph.turn_at(boundary.logical_parent);
        let before = before.or(self.lanes[usize::from(lane)].head);
        let Some(before) = before else {
            // The file begins with the summary, so there are no turns that it
            // summarises.
            let text = messages::text(MessageRole::User, texts.join("\n\n"));
            self.wait(at_row, vec![text], at, raw.len());
            return Ok(());
        };
        let begins = self.graph.nodes[boundary.row].offset;
        self.record_abandoned(Some(lane), begins, writer)?;
        let kept = boundary.metadata.preserved_segment.as_ref();
        let kept = kept.and_then(|it| it.head_uuid.as_deref()).map(row_id);
        let kept = kept.and_then(|id| self.graph.turn_at(id));
        let summary = texts.join("\n\n");
        let compaction = Compaction {
            tokens_before: boundary.metadata.pre_tokens.unwrap_or(0),
            tokens_after: (boundary.metadata.post_tokens)
                .unwrap_or((summary.len() as u64).div_ceil(4)),
            summary,
            summarized_through: None,
            first_kept: None,
            first_kept_message: 0,
            facts: None,
            made_of: Vec::new(),
            trigger: match boundary.metadata.trigger.as_deref() {
                Some("manual") => Trigger::Manual,
                _ => Trigger::ContextLimit,
            },
            focus: None,
            summariser: NAME.to_owned(),
            usage: None,
        };
        self.create_session(usize::from(lane), Some(before), writer)?;
        let label = self.lanes[usize::from(lane)].label.clone();
        let made = writer.compaction(&label, before, kept, compaction, boundary.at)?;
        for row in [boundary.row, at_row] {
            self.graph.nodes[row].turn = Some(made);
            self.graph.nodes[row].kind = Kind::Stop;
        }
        self.lanes[usize::from(lane)].head = Some(made);
        Ok(())
    }

    pub(super) fn create_session(
        &mut self,
        lane: usize,
        base: Option<TurnRef>,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let lane = &self.lanes[lane];
        let new = NewSession {
            label: lane.label.clone(),
            parent_session: lane.parent.clone(),
            task: lane.title.clone(),
            ..NewSession::default()
        };
        writer.session(new, base, lane.at)?;
        Ok(())
    }

    pub(super) fn put_request(
        &mut self,
        lane: usize,
        request: OpenRequest,
        parent: Option<TurnRef>,
        tokens: Option<u64>,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let snapshot = Snapshot {
            hash: request.hash,
            session: self.lanes[lane].label.clone(),
            parent_turn: None,
            model: request.model,
            tokens: tokens.unwrap_or(0),
            counter: "provider".to_owned(),
            root: request.hash,
            created_at: request.at,
        };
        writer.snapshot(snapshot, parent, request.blobs)?;
        Ok(())
    }
}

/// Returns the parent of the first row of a chain that leads to `last`.
fn parent_of_chain(graph: &Graph, chain: &[usize], last: RowId) -> RowId {
    chain
        .first()
        .map_or(last, |first| graph.nodes[*first].parent)
}
