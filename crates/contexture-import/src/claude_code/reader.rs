//! Reads the rows of a file, and makes turns of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use contexture_providers::usage_of;
use contexture_store::{Message, MessageRole, StopReason, Turn, TurnId, TurnStatus};
use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

mod state;
mod turns;

use state::StoredState;

use super::NAME;
use super::graph::{Graph, Kind, Node, RowId, row_id};
use super::row::{ApiMessage, CompactMetadata, ForkedFrom, Rendered, Row, shorten, user_content};
use super::sent::{OpenRequest, Sent};
use crate::error::ImportError;
use crate::file::{Rest, SourceFile};
use crate::import::created;
use crate::messages;
use crate::writer::{TurnRef, Writer};

/// The maximum distance, in bytes, of an answer that waits for more rows.
const FAR_BACK: u64 = 1 << 20;

/// The maximum bytes of messages without an answer that are kept.
const MOST_WAITING: usize = 32 << 20;

/// The reader of a file.
pub(super) struct Reader {
    path: PathBuf,
    name: String,
    max_line: usize,
    now: Timestamp,
    with_tail: bool,
    rest: Rest,
    // The time of the last row that has one.
    last_row_at: Option<Timestamp>,
    graph: Graph,
    lanes: Vec<Lane>,
    // The lane of each sub-agent, by its id.
    agents: HashMap<String, u16>,
    // Messages that have no answer yet, by the number of the row.
    waiting: BTreeMap<usize, Waiting>,
    waiting_bytes: usize,
    // The results of the calls of an answer, by the answer's first row.
    results: HashMap<usize, Vec<usize>>,
    sent: Sent,
    // The turns of rows that are imported already.
    known: HashMap<RowId, TurnId>,
    // Rows of turns that were recorded before, and are read again because more
    // rows may follow.
    recorded: HashSet<RowId>,
    // The session that the known rows are from, if it is another one.
    known_label: Option<String>,
    // The session of a copy of this file that was imported before it.
    copy: Option<String>,
    is_agent_file: bool,
    is_first_row: bool,
    // A row without its long parts.
    short_row: String,
}

/// A line of turns: the session of the file, or of a sub-agent in it.
struct Lane {
    label: String,
    parent: Option<String>,
    title: Option<String>,
    head: Option<TurnRef>,
    answer: Option<Answer>,
    boundary: Option<Boundary>,
    at: Timestamp,
}

/// Input of the model that has no answer yet.
struct Waiting {
    messages: Vec<Message>,
    at: Timestamp,
    bytes: usize,
}

/// An answer whose rows are being read.
struct Answer {
    key: String,
    // The number of blocks that a request can refer to.
    noted: usize,
    first: usize,
    rows: Vec<usize>,
    // Each block with its number.
    blocks: Vec<(u64, String)>,
    model: Option<String>,
    stop_reason: Option<String>,
    usage: Option<String>,
    request: Option<String>,
    is_error: bool,
    // Whether a message of the user follows.
    is_followed: bool,
    at: Timestamp,
}

/// A compaction whose summary is still to come.
struct Boundary {
    row: usize,
    logical_parent: RowId,
    metadata: CompactMetadata,
    at: Timestamp,
}

impl Reader {
    /// Returns a reader of a file. If the store lacks what an earlier import
    /// stored, the file is read from its beginning.
    pub(super) fn new(
        file: &mut SourceFile<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<Self, ImportError> {
        let state = file.state.as_deref();
        let mut state = StoredState::of_sessions(state, writer)?;
        if file.offset > 0 {
            let is_whole = match &state {
                Some(state) => state.has_content(writer)?,
                None => false,
            };
            if !is_whole {
                file.offset = 0;
                state.iter_mut().for_each(StoredState::forget_latest);
            }
        }
        let stem = file.path.file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy().into_owned();
        let is_agent_file = stem.starts_with("agent-");
        let mut reader = Self {
            path: file.path.to_owned(),
            name: file.name.clone(),
            max_line: file.max_line,
            now: file.now,
            with_tail: file.with_tail,
            rest: file.rest,
            last_row_at: None,
            graph: Graph::default(),
            lanes: Vec::new(),
            agents: HashMap::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            results: HashMap::new(),
            sent: Sent::default(),
            known: HashMap::new(),
            recorded: HashSet::new(),
            known_label: None,
            copy: None,
            is_agent_file,
            is_first_row: file.offset == 0,
            short_row: String::new(),
        };
        let label = match is_agent_file {
            // The session is the directory above `subagents`.
            true => {
                let directory = file.path.parent();
                let session = directory
                    .filter(|it| it.ends_with("subagents"))
                    .and_then(|it| it.parent()?.file_name())
                    .map(|it| it.to_string_lossy().into_owned());
                match session {
                    Some(session) => label(&session, Some(&stem)),
                    None => format!("{NAME}:{stem}"),
                }
            }
            false => label(&stem, None),
        };
        let parent = label
            .rsplit_once(':')
            .map(|(session, _)| session.to_owned());
        let parent = parent.filter(|parent| is_agent_file && parent != NAME);
        reader.lanes.push(Lane::new(label, parent, file.now));
        if let Some(state) = state {
            match file.offset {
                // The file is read from the beginning; imported turns stay.
                0 => drop(reader.know(state)),
                _ => reader.resume(state, writer),
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
        let done = self.row_in_parts(offset, bytes, &mut short, writer);
        self.short_row = short;
        done
    }

    /// Reads a row, with its long parts apart.
    fn row_in_parts(
        &mut self,
        offset: u64,
        bytes: &[u8],
        short: &mut String,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let mut result = None;
        let text = std::str::from_utf8(bytes).ok();
        let text = text.map(|text| match shorten(text, short, &mut result) {
            true => short.as_str(),
            false => text,
        });
        let row = text.and_then(|text| serde_json::from_str::<Row<'_>>(text).ok());
        let Some(mut row) = row else {
            return Ok(writer.unknown(NAME, &self.name, offset, bytes)?);
        };
        row.message = row.message.or(result.as_ref().map(|result| result.raw));
        let result = result.map(|result| result.messages);
        let at = row.timestamp.as_deref().and_then(|time| time.parse().ok());
        self.last_row_at = at.or(self.last_row_at);
        match &*row.kind {
            "api-request-shape" => {
                self.sent.shape(&row, offset, &mut writer.counts);
                return Ok(());
            }
            "api-request-blob" => {
                self.sent.blob(&row, &mut writer.counts);
                return Ok(());
            }
            "api-request" => {
                self.note_answers();
                let at = at.unwrap_or(self.lanes[0].at);
                let (path, max) = (self.path.clone(), self.max_line);
                let reread = |offset| read_line(&path, offset, max);
                let content = self
                    .sent
                    .request(&row, offset, at, &mut writer.counts, reread);
                writer.content(content)?;
                return Ok(());
            }
            _ => {}
        }
        let Some(uuid) = row.uuid.as_deref() else {
            if !row.is_other() {
                writer.unknown(NAME, &self.name, offset, bytes)?;
            }
            return Ok(());
        };
        self.first_row(&row, uuid, writer)?;
        let id = row_id(uuid);
        // A row that is there twice counts once.
        if let Some(known) = self.graph.find(id) {
            // The request of a recorded answer is saved.
            if let Some(request) = row.request_ref.as_deref()
                && self.graph.nodes[known].turn.is_some()
                && let Some(request) = self.sent.open.remove(request)
            {
                writer.content(request.blobs)?;
            }
            return Ok(());
        }
        let parent = row.parent_uuid.as_deref().map_or(0, row_id);
        let lane = self.lane(&row, parent);
        let at = at.unwrap_or(self.lanes[usize::from(lane)].at);
        self.lanes[usize::from(lane)].at = at;
        let mut node = Node {
            id,
            parent,
            offset,
            lane,
            kind: Kind::Input,
            turn: None,
        };
        if let Some(turn) = self.known.get(&id).copied() {
            return self.known_row(node, &row, turn, writer);
        }
        match &*row.kind {
            "assistant" => {
                node.kind = Kind::Stop;
                let at_row = self.graph.add(node);
                self.answer_row(&row, at_row, at, writer)
            }
            "user" if row.is_compact_summary => {
                let at_row = self.graph.add(node);
                self.summary_row(&row, at_row, at, writer)
            }
            "user" => {
                let at_row = self.graph.add(node);
                self.user_row(&row, result, at_row, at, writer)
            }
            "attachment" => {
                let at_row = self.graph.add(node);
                if let Some(rendered) = row.rendered {
                    self.attachment(rendered, at_row, at);
                }
                Ok(())
            }
            "system" if row.subtype.as_deref() == Some("compact_boundary") => {
                self.close(lane, writer)?;
                let at_row = self.graph.add(node);
                self.lanes[usize::from(lane)].boundary = Some(Boundary {
                    row: at_row,
                    logical_parent: row.logical_parent_uuid.as_deref().map_or(0, row_id),
                    metadata: row.compact_metadata.unwrap_or_default(),
                    at,
                });
                Ok(())
            }
            _ => {
                self.graph.add(node);
                if !row.is_other() {
                    writer.unknown(NAME, &self.name, offset, bytes)?;
                }
                Ok(())
            }
        }
    }

    /// Reads the first row of a file. If another file begins with the same row,
    /// this file is a copy that continues it.
    fn first_row(
        &mut self,
        row: &Row<'_>,
        uuid: &str,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        if !std::mem::take(&mut self.is_first_row) {
            return Ok(());
        }
        if self.is_agent_file && self.lanes[0].parent.is_none() {
            // An older version stores the files of sub-agents next to those of
            // sessions.
            let session = row.session_id.as_deref();
            let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
            if let Some(session) = session {
                let lane = &mut self.lanes[0];
                lane.label = label(session, Some(&stem));
                lane.parent = Some(label(session, None));
            }
        }
        if !self.is_agent_file {
            self.claim_session(writer)?;
        }
        let origin = writer.origin(NAME, uuid)?;
        match origin.filter(|origin| *origin != self.name) {
            Some(origin) => {
                let state = writer.store().import_state(NAME, &origin)?;
                if let Some(state) = StoredState::of_sessions(state.as_deref(), writer)? {
                    let is_copy = state.parent() != Some(&self.lanes[0].label)
                        && !is_older(&self.path, std::path::Path::new(&origin));
                    self.known_label = self.know(state);
                    match is_copy {
                        true => self.lanes[0].parent.clone_from(&self.known_label),
                        // The copy was imported first.
                        false => self.copy.clone_from(&self.known_label),
                    }
                }
            }
            None => writer.root(NAME, uuid, &self.name)?,
        }
        if let Some(forked) = row.forked_from
            && let Ok(forked) = serde_json::from_str::<ForkedFrom>(forked.get())
        {
            self.lanes[0].parent = Some(label(&forked.session_id, None));
        }
        Ok(())
    }

    /// Chooses the label of the session. A session that is resumed in another
    /// directory gets a second file with the same id there, and both can go on. The
    /// second file is a session of its own, which is named by its directory, too.
    fn claim_session(&mut self, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let plain = &self.lanes[0].label;
        let directory = self.path.parent().and_then(|it| it.file_name());
        let directory = directory.unwrap_or_default().to_string_lossy();
        let hash = blake3::hash(self.name.as_bytes()).to_hex();
        let labels = [
            plain.clone(),
            format!("{plain}@{directory}"),
            format!("{plain}@{}", &hash[..12]),
        ];
        for label in labels {
            if cut_label(label.clone()) != label {
                continue;
            }
            let root = format!("session {label}");
            let claimed = writer.origin(NAME, &root)?;
            match claimed {
                None => writer.root(NAME, &root, &self.name)?,
                // A file that was moved goes on under its new path.
                Some(file) if file == self.name || !std::path::Path::new(&file).exists() => {}
                Some(_) => continue,
            }
            self.lanes[0].label = label;
            return Ok(());
        }
        Ok(())
    }

    /// Returns true if another file has the same session id, and this one has no turns
    /// of its own so far. Such a copy is no session.
    fn is_mere_copy(&self, writer: &mut Writer<'_>) -> Result<bool, ImportError> {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let session = &self.lanes[0].label;
        let is_second = !self.is_agent_file && *session != label(&stem, None);
        Ok(is_second && !writer.has_session(session)?)
    }

    /// Returns the lane of a row.
    fn lane(&mut self, row: &Row<'_>, parent: RowId) -> u16 {
        if self.is_agent_file || !row.is_sidechain {
            return 0;
        }
        let of_parent = self.graph.find(parent);
        let of_parent = of_parent.map(|at| self.graph.nodes[at].lane);
        let key = match (row.agent_id.as_deref(), of_parent) {
            (Some(agent), _) => agent.to_owned(),
            (None, Some(lane)) if lane != 0 => return lane,
            (None, _) => row
                .uuid
                .as_deref()
                .unwrap_or_default()
                .chars()
                .take(8)
                .collect(),
        };
        if let Some(lane) = self.agents.get(&key) {
            return *lane;
        }
        let Ok(lane) = u16::try_from(self.lanes.len()) else {
            return 0;
        };
        let parent = self.lanes[0].label.clone();
        let label = cut_label(format!("{parent}:agent-{key}"));
        self.lanes.push(Lane::new(label, Some(parent), self.now));
        self.agents.insert(key, lane);
        lane
    }

    /// Places a row that is imported already.
    fn known_row(
        &mut self,
        mut node: Node,
        row: &Row<'_>,
        turn: TurnId,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let turn = writer.stored(turn);
        let lane = usize::from(node.lane);
        let is_boundary = row.subtype.as_deref() == Some("compact_boundary");
        if row.kind == "assistant" || is_boundary || row.is_compact_summary {
            self.close(node.lane, writer)?;
            node.kind = Kind::Stop;
            self.lanes[lane].head = Some(turn);
        }
        node.turn = Some(turn);
        self.graph.add(node);
        if let Some(message) = row.message
            && row.kind == "user"
        {
            self.sent.said(message);
            self.title(lane, row, message);
        }
        if let Some(message) = row.message
            && row.kind == "assistant"
            && let Ok(message) = serde_json::from_str::<ApiMessage<'_>>(message)
            && let Some(content) = message.content
        {
            // Rows of one answer that were imported are joined here, too.
            let key = answer_key(row, &message);
            let content = content.get();
            self.sent.answered_part(&key, content);
        }
        // The request of an imported answer was saved, and may be deleted since.
        // A copy of a session has requests of its own.
        if let Some(request) = row.request_ref.as_deref()
            && self.known_label.is_none()
            && let Some(request) = self.sent.open.remove(request)
        {
            writer.content(request.blobs)?;
        }
        Ok(())
    }

    fn title(&mut self, lane: usize, row: &Row<'_>, message: &str) {
        if self.lanes[lane].title.is_some() || row.is_meta || row.is_compact_summary {
            return;
        }
        let Ok(message) = serde_json::from_str::<ApiMessage<'_>>(message) else {
            return;
        };
        let content = message.content.map_or("\"\"", RawValue::get);
        let found = messages::blocks(content, MessageRole::User)
            .into_iter()
            .find_map(|block| match block {
                contexture_store::Block::Text { text, .. } => Some(text),
                _ => None,
            });
        let title = found.as_deref().map_or("", str::trim);
        // Text that the program itself adds is in tags.
        if !title.is_empty() && !title.starts_with('<') {
            self.lanes[lane].title = messages::title(title);
        }
    }

    /// Reads a message of the user's side, which may have been read as a result.
    fn user_row(
        &mut self,
        row: &Row<'_>,
        result: Option<Vec<Message>>,
        at_row: usize,
        at: Timestamp,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let Some(raw) = row.message else {
            return Ok(());
        };
        let lane = usize::from(self.graph.nodes[at_row].lane);
        self.title(lane, row, raw);
        self.sent.said(raw);
        let Some(messages) = result.or_else(|| user_messages(raw)) else {
            return Ok(());
        };
        let answers = messages
            .iter()
            .any(|message| message.role == MessageRole::Tool);
        if !answers && let Some(answer) = &mut self.lanes[lane].answer {
            answer.is_followed = true;
        }
        let parent = self.graph.find(self.graph.nodes[at_row].parent);
        if answers
            && let Some(parent) = parent
            && self.graph.nodes[parent].kind == Kind::Stop
        {
            let first = self.first_row_of_answer(parent);
            self.results.entry(first).or_default().push(at_row);
        }
        self.wait(at_row, messages, at, raw.len());
        if self.waiting_bytes > MOST_WAITING {
            self.record_abandoned(None, u64::MAX, writer)?;
        }
        Ok(())
    }

    /// Returns the first row of the answer that a row belongs to.
    fn first_row_of_answer(&self, at_row: usize) -> usize {
        let lane = usize::from(self.graph.nodes[at_row].lane);
        if let Some(answer) = &self.lanes[lane].answer
            && answer.rows.contains(&at_row)
        {
            return answer.first;
        }
        // Rows of one answer follow each other.
        let mut first = at_row;
        while let Some(before) = self.graph.find(self.graph.nodes[first].parent) {
            let (one, other) = (&self.graph.nodes[first], &self.graph.nodes[before]);
            let is_same = other.kind == Kind::Stop && one.turn.is_some() && other.turn == one.turn;
            if !is_same || before >= first {
                break;
            }
            first = before;
        }
        first
    }

    fn wait(&mut self, at_row: usize, messages: Vec<Message>, at: Timestamp, bytes: usize) {
        self.waiting_bytes += bytes;
        let waiting = Waiting {
            messages,
            at,
            bytes,
        };
        self.waiting.insert(at_row, waiting);
    }

    fn attachment(&mut self, rendered: &RawValue, at_row: usize, at: Timestamp) {
        let parts: Vec<Rendered<'_>> = serde_json::from_str(rendered.get()).unwrap_or_default();
        let mut blocks = Vec::new();
        for part in parts {
            if let Some(content) = part.content {
                blocks.extend(messages::blocks(content.get(), MessageRole::User));
            }
        }
        if !blocks.is_empty() {
            let message = messages::message(MessageRole::System, blocks);
            self.wait(at_row, vec![message], at, rendered.get().len());
        }
    }

    fn answer_row(
        &mut self,
        row: &Row<'_>,
        at_row: usize,
        at: Timestamp,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let lane = self.graph.nodes[at_row].lane;
        let message = (row.message).and_then(|it| serde_json::from_str::<ApiMessage<'_>>(it).ok());
        let Some(message) = message else {
            return Ok(());
        };
        let key = answer_key(row, &message);
        let is_open = self.lanes[usize::from(lane)].answer.as_ref();
        if is_open.is_none_or(|answer| answer.key != key) {
            self.close(lane, writer)?;
            self.sent.begin_answer();
            self.lanes[usize::from(lane)].answer = Some(Answer {
                key,
                noted: 0,
                first: at_row,
                rows: Vec::new(),
                blocks: Vec::new(),
                model: None,
                stop_reason: None,
                usage: None,
                request: None,
                is_error: row.is_api_error_message,
                is_followed: false,
                at,
            });
        }
        let Some(answer) = &mut self.lanes[usize::from(lane)].answer else {
            return Ok(());
        };
        answer.rows.push(at_row);
        let content = message.content.map_or("[]", RawValue::get);
        let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
        let next = answer.blocks.len() as u64;
        let index = row.api_block_index;
        for (i, block) in blocks.iter().enumerate() {
            let number = index.unwrap_or(next) + i as u64;
            answer.blocks.push((number, block.get().to_owned()));
        }
        if content.starts_with('"') {
            let block = format!(r#"{{"type":"text","text":{content}}}"#);
            answer.blocks.push((next, block));
        }
        let model = message.model.filter(|model| model != "<synthetic>");
        answer.model = model.map(|it| it.into_owned()).or(answer.model.take());
        let stop = message.stop_reason.map(|it| it.into_owned());
        answer.stop_reason = stop.or(answer.stop_reason.take());
        let usage = message.usage.map(|it| it.get().to_owned());
        answer.usage = usage.or(answer.usage.take());
        let request = row.request_ref.as_ref().map(|it| it.to_string());
        answer.request = request.or(answer.request.take());
        Ok(())
    }

    /// Records the open answers, so that a request can refer to them.
    fn note_answers(&mut self) {
        for lane in &mut self.lanes {
            if let Some(answer) = &mut lane.answer
                && answer.noted < answer.blocks.len()
            {
                answer.noted = answer.blocks.len();
                self.sent.answered(answer.message());
            }
        }
        self.sent.join_parts();
    }

    /// Ends the import of the file: sets the offset at which the next import
    /// begins, and the state to store once the ids of all turns are known.
    ///
    /// The latest answer may get more rows, so it is read again then. It is
    /// recorded when its end is known, or when the file has settled.
    pub(super) fn finish(
        mut self,
        end: u64,
        file: &mut SourceFile<'_>,
        writer: &mut Writer<'_>,
    ) -> Result<(), ImportError> {
        let mut held = None;
        self.rest = self.rest.since(self.last_row_at);
        self.note_answers();
        self.seal_other_lanes(end, writer)?;
        let offset = self.sealed(end);
        // Rows of turns that are complete are not read again, wherever they are.
        let is_kept = |node: &Node| node.offset < offset || node.turn.is_some();
        let kept: Vec<bool> = self.graph.nodes.iter().map(is_kept).collect();
        let heads: Vec<Option<TurnRef>> = self.lanes.iter().map(|lane| lane.head).collect();
        for lane in 0..self.lanes.len() {
            let Some(answer) = &self.lanes[lane].answer else {
                continue;
            };
            let is_certain = answer.is_followed;
            if is_certain || self.rest.allows(answer.is_complete(), &mut held) {
                self.close(u16::try_from(lane).unwrap_or(u16::MAX), writer)?;
            }
        }
        let has_tail = self.with_tail && !self.waiting.is_empty();
        if has_tail && self.rest.allows(false, &mut held) {
            let tails: Vec<usize> = self.waiting.keys().copied().rev().collect();
            for row in tails {
                if !self.waiting.contains_key(&row) {
                    continue;
                }
                let lane = usize::from(self.graph.nodes[row].lane);
                let head = self.lanes[lane].head;
                let base = self
                    .walk(self.graph.nodes[row].id, self.graph.nodes[row].lane)
                    .0;
                let made = self.record_waiting(row, writer)?;
                if made.is_some() && base == head {
                    self.lanes[lane].head = made;
                }
            }
        }
        if self.with_tail && self.rest.is_settled() {
            for lane in 0..self.lanes.len() {
                self.known_tail(lane, writer)?;
            }
        }
        let is_mere_copy = self.is_mere_copy(writer)?;
        let open = std::mem::take(&mut self.sent.open);
        for (id, request) in open {
            if is_mere_copy {
                // The state refers to its content.
                writer.content(request.blobs)?;
                continue;
            }
            if self.is_awaited(&id, &request) {
                // It is read again. The state refers to its content.
                self.rest.allows(false, &mut held);
                writer.content(request.blobs)?;
                continue;
            }
            let head = self.lanes[0].head;
            self.create_session(0, head, writer)?;
            self.put_request(0, request, head, None, writer)?;
        }
        for lane in 0..self.lanes.len() {
            let head = self.lanes[lane].head;
            if head.is_none() || is_mere_copy && !writer.has_session(&self.lanes[lane].label)? {
                continue;
            }
            self.create_session(lane, head, writer)?;
            let lane = &self.lanes[lane];
            writer.head(&lane.label, head, "imported", lane.at)?;
        }
        if let Some(copy) = self.copy.take().filter(|_| !is_mere_copy) {
            let lane = &self.lanes[0];
            writer.parent(&copy, &lane.label, lane.at)?;
        }
        let pending = self.sent.pending();
        writer.content(self.sent.requests.take_fresh())?;
        self.sent.forget_messages();
        let state = move |writer: &Writer<'_>| {
            let bytes = self.state(&kept, &heads, pending, writer);
            (bytes, self.sent.requests.contents())
        };
        file.new_offset = offset;
        file.later_state = Some(Box::new(state));
        file.held = held;
        Ok(())
    }

    /// Moves the head of a lane to its last messages, if they are imported already
    /// and have no answer.
    fn known_tail(&mut self, lane: usize, writer: &Writer<'_>) -> Result<(), ImportError> {
        let mut nodes = self.graph.nodes.iter().rev();
        let Some(last) = nodes.find(|node| usize::from(node.lane) == lane) else {
            return Ok(());
        };
        if let Some(turn) = last.turn
            && last.kind == Kind::Input
            && self.walk(last.id, last.lane).0 == self.lanes[lane].head
            && let Some(id) = writer.id(turn)
        {
            let stored = writer.store().turns(&[id], "")?;
            let is_pending = |turn: &Turn| turn.turn.status == Some(TurnStatus::Pending);
            if stored.iter().any(is_pending) {
                self.lanes[lane].head = Some(turn);
            }
        }
        Ok(())
    }

    /// Returns true if the answer of a request is not complete or may still come.
    fn is_awaited(&self, id: &str, request: &OpenRequest) -> bool {
        let mut answers = self.lanes.iter().filter_map(|lane| lane.answer.as_ref());
        let mut nodes = self.graph.nodes.iter().rev();
        let latest = nodes.find(|node| node.kind == Kind::Stop);
        !self.rest.is_settled()
            && (latest.is_none_or(|latest| latest.offset < request.offset)
                || answers.any(|answer| answer.request.as_deref() == Some(id)))
    }

    /// Writes turns for the answers of sub-agents that are complete, or that
    /// got no row for a long time, so that they are not read again each time.
    fn seal_other_lanes(&mut self, end: u64, writer: &mut Writer<'_>) -> Result<(), ImportError> {
        let latest = self.graph.nodes.last().map_or(0, |node| node.lane);
        for lane in 0..self.lanes.len() {
            let Some(answer) = &self.lanes[lane].answer else {
                continue;
            };
            let lane = u16::try_from(lane).unwrap_or(u16::MAX);
            let begins = self.graph.nodes[answer.first].offset;
            let is_done = answer.is_complete() && self.rest.allows(true, &mut None);
            let is_far_back = end.saturating_sub(begins) > FAR_BACK;
            if lane != latest && (is_done || is_far_back) {
                self.close(lane, writer)?;
            }
        }
        Ok(())
    }

    /// Returns the end of the complete part; the rest is read again next time.
    fn sealed(&self, end: u64) -> u64 {
        let mut rows: Vec<usize> = self.waiting.keys().copied().collect();
        for lane in &self.lanes {
            if let Some(answer) = &lane.answer {
                rows.extend(&answer.rows);
                let parent = self.graph.nodes[answer.first].parent;
                rows.extend(self.walk(parent, 0).1);
            }
            rows.extend(lane.boundary.as_ref().map(|boundary| boundary.row));
        }
        let rows = rows.into_iter().map(|row| self.graph.nodes[row].offset);
        let requests = self.sent.open.iter();
        let requests = requests.filter(|(id, request)| self.is_awaited(id, request));
        let offsets = rows.chain(requests.map(|(_, request)| request.offset));
        offsets.min().unwrap_or(end).min(end)
    }
}

/// Reads a message of the user's side. `None` if it has no content.
fn user_messages(raw: &str) -> Option<Vec<Message>> {
    // Nearly all rows have this form. Their content is read without a search for
    // it, because tool results are long.
    if let Some(content) = user_content(raw)
        && let Some(messages) = messages::user_if_valid(content)
    {
        return Some(messages);
    }
    let message: ApiMessage<'_> = serde_json::from_str(raw).ok()?;
    Some(messages::user(message.content?.get()))
}

fn answer_key(row: &Row<'_>, message: &ApiMessage<'_>) -> String {
    match &message.id {
        Some(id) => format!("{id} {}", row.request_id.as_deref().unwrap_or_default()),
        None => row.uuid.as_deref().unwrap_or_default().to_owned(),
    }
}

/// Returns the label of a session, or of a sub-agent in it.
fn label(session: &str, agent: Option<&str>) -> String {
    cut_label(match agent {
        Some(agent) => format!("{NAME}:{session}:{agent}"),
        None => format!("{NAME}:{session}"),
    })
}

/// Returns a label that the store accepts.
fn cut_label(label: String) -> String {
    let mut label: String = label.chars().filter(|one| !one.is_control()).collect();
    let mut end = label.len().min(contexture_store::MAX_LABEL_BYTES);
    while !label.is_char_boundary(end) {
        end -= 1;
    }
    label.truncate(end);
    label.trim().to_owned()
}

/// Returns true if a file was created before another.
fn is_older(one: &std::path::Path, other: &std::path::Path) -> bool {
    match (created(one), created(other)) {
        (Some(one), Some(other)) => one < other,
        _ => false,
    }
}

/// Reads the line that begins at `offset`.
fn read_line(path: &std::path::Path, offset: u64, max: usize) -> Option<String> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut line = String::new();
    let mut reader = BufReader::new(file.take(max as u64));
    reader.read_line(&mut line).ok()?;
    Some(line)
}

impl Lane {
    fn new(label: String, parent: Option<String>, at: Timestamp) -> Self {
        Self {
            label,
            parent,
            title: None,
            head: None,
            answer: None,
            boundary: None,
            at,
        }
    }
}

impl Answer {
    /// Returns true if a message of the user follows the answer, or if the answer
    /// has a reason for its end. An answer with calls can get more of them after
    /// the first results.
    fn is_complete(&self) -> bool {
        let stop = self.stop_reason.as_deref();
        self.is_followed || stop.is_some_and(|stop| stop != "tool_use")
    }

    /// Returns the answer as a message of a request.
    fn message(&self) -> String {
        const BEGIN: &str = r#"{"role":"assistant","content":["#;
        let blocks = self.sorted_blocks();
        let length: usize = blocks.iter().map(|block| block.len() + 1).sum();
        let mut message = String::with_capacity(BEGIN.len() + length + 2);
        message.push_str(BEGIN);
        for (i, block) in blocks.iter().enumerate() {
            if i > 0 {
                message.push(',');
            }
            message.push_str(block);
        }
        message.push_str("]}");
        message
    }

    fn message_blocks(&self) -> Vec<contexture_store::Block> {
        messages::blocks_of(&self.sorted_blocks(), MessageRole::Assistant)
    }

    fn sorted_blocks(&self) -> Vec<&str> {
        let mut blocks: Vec<&(u64, String)> = self.blocks.iter().collect();
        blocks.sort_by_key(|(number, _)| *number);
        blocks.iter().map(|(_, block)| block.as_str()).collect()
    }

    fn usage(&self) -> Option<contexture_core::Usage> {
        let usage: Value = serde_json::from_str(self.usage.as_deref()?).ok()?;
        usage_of(&json!({"usage": usage}))
    }

    fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason.as_deref().map(StopReason::of)
    }
}
