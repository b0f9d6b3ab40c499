//! [`Writer`]: collects what readers find, and writes it in batches.
//!
//! Every batch is one transaction, often with the turns of several files: a
//! commit writes the pages of every index again. A turn is named by a
//! [`TurnRef`] from the moment that it is found; its id is known when its batch
//! is written. What is made of ids, the state of a reader, follows in the next
//! batch with the position in the file. Without it a file is read again, which
//! adds nothing twice.

mod repair;

use std::collections::{BTreeMap, HashSet};

use contexture_core::ContentHash;
use contexture_store::{
    Blob, Compaction, ImportCursor, ImportRow, ImportStep, ImportedTurn, Message, MessageRole,
    NewSession, NewTurn, OpenCall, Snapshot, Store, StoreError, TreeDocument, TurnId, TurnKind,
};
use jiff::Timestamp;

use self::repair::{cut_long, repair};
use crate::report::Counts;

/// A batch is written when it holds this many bytes.
const BATCH_BYTES: usize = 32 << 20;

/// A batch is written when it holds this many steps.
const BATCH_STEPS: usize = 16 * 1024;

/// The maximum number of turns that are remembered from file to file.
const MOST_TURNS: usize = 16 * 1024;

/// The maximum bytes of a stored row that is not understood.
const MAX_KEPT_ROW: usize = 64 * 1024;

/// The maximum number of warnings about a file.
const MOST_WARNINGS: usize = 16;

/// The source of the rows that name sessions whose parent is not imported yet.
/// The file of such a row is the label of the parent.
const CHILDREN: &str = "children";

/// The maximum number of sessions that get a parent when it is imported.
const MOST_CHILDREN: usize = 16 * 1024;

/// A turn that a reader found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnRef(u32);

#[derive(Debug, Clone)]
enum TurnLocation {
    Stored(TurnId),
    Step(usize),
    // The turn is not written, because this is a dry run. Its id is not known if
    // that of a turn before it is not.
    Unwritten(Option<TurnId>),
}

struct FoundTurn {
    place: TurnLocation,
    // The calls without a result, once they are known.
    open: Option<Vec<OpenCall>>,
}

/// Makes the state of a reader, once the ids of its turns are known, and the
/// content that it refers to.
pub(crate) type LaterState = Box<dyn FnOnce(&Writer<'_>) -> (Vec<u8>, Vec<ContentHash>)>;

/// The end of a file whose state is still to be made.
struct Ended {
    cursor: ImportCursor,
    state: LaterState,
    file: usize,
}

/// Writes the turns, compactions and requests that readers find.
pub struct Writer<'s> {
    store: &'s dyn Store,
    dry_run: bool,
    max_message_bytes: usize,
    steps: Vec<ImportStep>,
    // The file that each step is from.
    files: Vec<usize>,
    bytes: usize,
    // The numbers of added records, by file.
    added: Vec<Counts>,
    ended: Vec<Ended>,
    // First rows of files whose state may not be written.
    recent_roots: HashSet<(String, String)>,
    turns: Vec<FoundTurn>,
    // The number of `turns` that are written.
    written: usize,
    by_id: BTreeMap<TurnId, TurnRef>,
    sessions: HashSet<String>,
    // Sessions that wait for their parent, by its label.
    children: BTreeMap<String, Vec<String>>,
    // The number of deletions of content before the first file was read.
    content_deletions: Option<u64>,
    // Whether the batch has a step that checks this number.
    checks_content: bool,
    warnings: Vec<String>,
    /// The number of objects found in the current file that are not written.
    pub counts: Counts,
}

impl<'s> Writer<'s> {
    /// Returns a writer into `store`. A dry run writes nothing.
    pub fn new(store: &'s dyn Store, dry_run: bool, max_message_bytes: u64) -> Self {
        Self {
            store,
            dry_run,
            max_message_bytes: usize::try_from(max_message_bytes).unwrap_or(usize::MAX),
            steps: Vec::new(),
            files: Vec::new(),
            bytes: 0,
            added: Vec::new(),
            ended: Vec::new(),
            recent_roots: HashSet::new(),
            turns: Vec::new(),
            written: 0,
            by_id: BTreeMap::new(),
            sessions: HashSet::new(),
            children: BTreeMap::new(),
            content_deletions: None,
            checks_content: false,
            warnings: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Reports a problem with the current file.
    pub fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Returns the problems of the current file.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the store, to read earlier imports.
    pub fn store(&self) -> &'s dyn Store {
        self.store
    }

    /// Returns true if a session exists, or is about to.
    pub fn has_session(&mut self, label: &str) -> Result<bool, StoreError> {
        if self.sessions.contains(label) {
            return Ok(true);
        }
        match self.store.session(label) {
            Ok(_) => {
                self.sessions.insert(label.to_owned());
                Ok(true)
            }
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the session of an earlier import still exists.
    pub(crate) fn still_has_session(&mut self, label: &str) -> Result<bool, StoreError> {
        // A watched session may be deleted meanwhile.
        self.sessions.remove(label);
        self.has_session(label)
    }

    /// Creates a session unless it exists. `head` is the turn that it starts
    /// at, for a fork. A parent that does not exist is left out.
    pub fn session(
        &mut self,
        mut new: NewSession,
        head: Option<TurnRef>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if self.has_session(&new.label)? {
            return Ok(());
        }
        if let Some(parent) = new.parent_session.take()
            && parent != new.label
        {
            match self.has_session(&parent)? {
                true => new.parent_session = Some(parent),
                false => self.expect_parent(&new.label, parent)?,
            }
        }
        self.sessions.insert(new.label.clone());
        let label = new.label.clone();
        let head = self.place(head);
        self.push(ImportStep::Session { new, head, at }, 256)?;
        for child in self.children(&label)? {
            self.parent(&child, &label, at)?;
        }
        Ok(())
    }

    /// Sets the parent of a session that has none.
    pub(crate) fn parent(
        &mut self,
        session: &str,
        parent: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        if self.dry_run || session == parent || !self.has_session(session)? {
            return Ok(());
        }
        let new = NewSession {
            label: session.to_owned(),
            parent_session: Some(parent.to_owned()),
            ..NewSession::default()
        };
        let head = ImportedTurn::Nothing;
        self.push(ImportStep::Session { new, head, at }, 256)
    }

    /// Records that a session waits for its parent, which is imported later.
    fn expect_parent(&mut self, session: &str, parent: String) -> Result<(), StoreError> {
        let hash = blake3::hash(session.as_bytes());
        let start = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        let row = ImportRow {
            source: CHILDREN.to_owned(),
            file: parent.clone(),
            offset: u64::from_le_bytes(start) >> 1,
            raw: session.to_owned(),
        };
        self.children
            .entry(parent)
            .or_default()
            .push(session.to_owned());
        self.push(ImportStep::Row(row), 256)
    }

    /// Returns the sessions that wait for this parent.
    fn children(&mut self, parent: &str) -> Result<Vec<String>, StoreError> {
        let mut found = self.children.remove(parent).unwrap_or_default();
        let stored = self.store.import_rows(CHILDREN, parent, MOST_CHILDREN)?;
        found.extend(stored.into_iter().map(|row| row.raw));
        Ok(found)
    }

    /// Returns the reference of a stored turn.
    pub fn stored(&mut self, id: TurnId) -> TurnRef {
        if let Some(found) = self.by_id.get(&id) {
            return *found;
        }
        let turn = self.add(TurnLocation::Stored(id), None);
        self.by_id.insert(id, turn);
        turn
    }

    /// Returns the id of a turn, once its batch is written.
    pub fn id(&self, turn: TurnRef) -> Option<TurnId> {
        match self.turns[turn.0 as usize].place {
            TurnLocation::Stored(id) => Some(id),
            TurnLocation::Step(_) | TurnLocation::Unwritten(_) => None,
        }
    }

    fn add(&mut self, place: TurnLocation, open: Option<Vec<OpenCall>>) -> TurnRef {
        self.turns.push(FoundTurn { place, open });
        TurnRef(u32::try_from(self.turns.len() - 1).unwrap_or(u32::MAX))
    }

    fn place(&self, turn: Option<TurnRef>) -> ImportedTurn {
        match turn.map(|turn| &self.turns[turn.0 as usize].place) {
            None | Some(TurnLocation::Unwritten(_)) => ImportedTurn::Nothing,
            Some(TurnLocation::Stored(id)) => ImportedTurn::Stored(*id),
            Some(TurnLocation::Step(at)) => ImportedTurn::Step(*at),
        }
    }

    /// Returns the calls that a turn left without a result.
    fn open_calls(&mut self, turn: Option<TurnRef>) -> Result<Vec<OpenCall>, StoreError> {
        let Some(turn) = turn else {
            return Ok(Vec::new());
        };
        let found = &mut self.turns[turn.0 as usize];
        if let (None, TurnLocation::Stored(id)) = (&found.open, &found.place) {
            found.open = Some(stored_open_calls(self.store, *id)?);
        }
        Ok(found.open.clone().unwrap_or_default())
    }

    /// Records a turn after `parent`. Returns `parent` if the turn is blank.
    ///
    /// A turn that the store would reject is changed: a result without its call
    /// becomes text, and a message that is too long is cut.
    pub fn turn(
        &mut self,
        session: &str,
        parent: Option<TurnRef>,
        mut turn: NewTurn,
        at: Timestamp,
    ) -> Result<Option<TurnRef>, StoreError> {
        let open = self.open_calls(parent)?;
        cut_long(&mut turn, self.max_message_bytes);
        // Results before the answer come first: they answer the calls of the turn
        // before.
        let is_answer = |message: &Message| message.role == MessageRole::Assistant;
        let answer = turn.messages.iter().position(is_answer);
        let before = answer.unwrap_or(turn.messages.len());
        turn.messages[..before].sort_by_key(|message| message.role != MessageRole::Tool);
        let outline = match turn.outline(&open) {
            Ok(outline) => outline,
            Err(_) => {
                repair(&mut turn, &open);
                match turn.outline(&open) {
                    Ok(outline) => outline,
                    Err(error) => {
                        self.counts.skipped += 1;
                        self.warn(format!(
                            "a turn of session `{session}` could not be stored: {error}"
                        ));
                        return Ok(parent);
                    }
                }
            }
        };
        let bytes = usize::try_from(outline.bytes).unwrap_or(usize::MAX) + 512;
        let place = self.next_location(|parent| turn.body().id(parent, session, at), parent)?;
        if let TurnLocation::Stored(_) = place {
            return Ok(Some(self.add(place, Some(outline.open_calls))));
        }
        let parent = self.place(parent);
        let step = ImportStep::Turn {
            session: session.to_owned(),
            parent,
            turn: Box::new(turn),
            at,
        };
        let found = self.add(place, Some(outline.open_calls));
        self.push(step, bytes)?;
        Ok(Some(found))
    }

    /// Returns the location of the next turn. A dry run finds a turn that is stored
    /// already by its id.
    fn next_location(
        &self,
        id: impl FnOnce(Option<TurnId>) -> TurnId,
        parent: Option<TurnRef>,
    ) -> Result<TurnLocation, StoreError> {
        if !self.dry_run {
            return Ok(TurnLocation::Step(self.steps.len()));
        }
        let parent = parent.map(|parent| match self.turns[parent.0 as usize].place {
            TurnLocation::Stored(id) => Some(id),
            TurnLocation::Unwritten(id) => id,
            TurnLocation::Step(_) => None,
        });
        let id = match parent {
            Some(None) => return Ok(TurnLocation::Unwritten(None)),
            parent => id(parent.flatten()),
        };
        match self.store.turns(&[id], "") {
            Ok(found) if !found.is_empty() => Ok(TurnLocation::Stored(id)),
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(TurnLocation::Unwritten(Some(id))),
            Err(error) => Err(error),
        }
    }

    /// Records a compaction after `parent`.
    pub fn compaction(
        &mut self,
        session: &str,
        parent: TurnRef,
        first_kept: Option<TurnRef>,
        compaction: Compaction,
        at: Timestamp,
    ) -> Result<TurnRef, StoreError> {
        let open = self.open_calls(Some(parent))?;
        let bytes = compaction.summary.len() + 256;
        let step = ImportStep::Compaction {
            session: session.to_owned(),
            parent: self.place(Some(parent)),
            first_kept: self.place(first_kept),
            compaction: Box::new(compaction),
            at,
        };
        let place = match self.dry_run {
            true => TurnLocation::Unwritten(None),
            false => TurnLocation::Step(self.steps.len()),
        };
        let found = self.add(place, Some(open));
        self.push(step, bytes)?;
        Ok(found)
    }

    /// Moves the head of a session.
    pub fn head(
        &mut self,
        session: &str,
        to: Option<TurnRef>,
        reason: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let step = ImportStep::Head {
            session: session.to_owned(),
            to: self.place(to),
            reason: reason.to_owned(),
            at,
        };
        self.push(step, 128)
    }

    /// Saves a request that was sent after `parent`.
    pub fn snapshot(
        &mut self,
        snapshot: Snapshot,
        parent: Option<TurnRef>,
        blobs: Vec<Blob>,
    ) -> Result<(), StoreError> {
        if self.dry_run {
            let found = self.store.find_snapshots(&snapshot.hash.to_string())?;
            if found.iter().any(|one| one.session == snapshot.session) {
                return Ok(());
            }
        }
        let bytes = blobs
            .iter()
            .map(|blob| blob.bytes.len() + 64)
            .sum::<usize>()
            + 256;
        let step = ImportStep::Snapshot {
            snapshot: Box::new(snapshot),
            parent: self.place(parent),
            blobs,
        };
        // Earlier batches may have stored some of its content.
        self.check_content();
        self.push(step, bytes)
    }

    /// Adds the step that checks whether content was deleted, once to each batch.
    fn check_content(&mut self) {
        if let Some(number) = self.content_deletions
            && !self.checks_content
        {
            self.checks_content = true;
            self.files.push(self.file());
            self.steps.push(ImportStep::ContentSince(number));
        }
    }

    /// Stores content that a later request may have.
    pub(crate) fn content(&mut self, blobs: Vec<Blob>) -> Result<(), StoreError> {
        if blobs.is_empty() {
            return Ok(());
        }
        let bytes = blobs.iter().map(|blob| blob.bytes.len() + 64).sum();
        self.push(ImportStep::Content(blobs), bytes)
    }

    /// Stores a row that is not understood, or the first 64 KiB of a longer one.
    pub fn unknown(
        &mut self,
        source: &str,
        file: &str,
        offset: u64,
        raw: &[u8],
    ) -> Result<(), StoreError> {
        self.counts.unknown += 1;
        self.counts.unknown_truncated += u64::from(raw.len() > MAX_KEPT_ROW);
        let raw = &raw[..raw.len().min(MAX_KEPT_ROW)];
        let row = ImportRow {
            source: source.to_owned(),
            file: file.to_owned(),
            offset,
            raw: String::from_utf8_lossy(raw).into_owned(),
        };
        let bytes = row.raw.len() + 128;
        self.push(ImportStep::Row(row), bytes)
    }

    /// Stores a part of a file that is not understood and has no offset. A hash
    /// of the part replaces the offset, so that another part never has the same
    /// number.
    pub(crate) fn unknown_part(
        &mut self,
        source: &str,
        file: &str,
        raw: &[u8],
    ) -> Result<(), StoreError> {
        let hash = blake3::hash(raw);
        let start = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        // The store accepts 63 bits.
        self.unknown(source, file, u64::from_le_bytes(start) >> 1, raw)
    }

    /// Discards the rows of the current file that are not written yet. Call this
    /// before a file is refused that had no other content.
    pub(crate) fn discard_unknown(&mut self) {
        let file = self.file();
        while self.files.last() == Some(&file)
            && let Some(ImportStep::Row(row)) = self.steps.last()
        {
            let is_truncated = row.raw.len() >= MAX_KEPT_ROW;
            self.bytes = self.bytes.saturating_sub(row.raw.len() + 128);
            self.counts.unknown = self.counts.unknown.saturating_sub(1);
            let truncated = &mut self.counts.unknown_truncated;
            *truncated = truncated.saturating_sub(u64::from(is_truncated));
            self.steps.pop();
            self.files.pop();
        }
        if self.dry_run || self.counts.unknown == 0 {
            self.counts.unknown = 0;
            self.counts.unknown_truncated = 0;
        }
    }

    /// Imports a tree.
    pub fn tree(&mut self, document: &TreeDocument, now: Timestamp) -> Result<(), StoreError> {
        self.flush()?;
        if self.dry_run {
            match self.store.tree(&document.tree.id) {
                Ok(info) => {
                    let new = (document.nodes.len() as u64).saturating_sub(info.nodes);
                    self.counts.nodes += new;
                }
                Err(StoreError::NotFound { .. }) => {
                    self.counts.trees += 1;
                    self.counts.nodes += document.nodes.len() as u64;
                }
                Err(error) => return Err(error),
            }
            return Ok(());
        }
        let imported = self.store.import_tree(document, now)?;
        self.counts.trees += u64::from(imported.created);
        self.counts.nodes += imported.nodes;
        Ok(())
    }

    /// Imports a tree. A tree that the store rejects is counted and left out.
    pub fn tree_or_skip(
        &mut self,
        document: &TreeDocument,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match self.tree(document, now) {
            Err(
                error @ (StoreError::Invalid { .. }
                | StoreError::Exists { .. }
                | StoreError::Conflict { .. }),
            ) => {
                self.counts.skipped += 1;
                let id = &document.tree.id;
                self.warn(format!("tree `{id}` could not be stored: {error}"));
                Ok(())
            }
            done => done,
        }
    }

    /// Returns the file that begins with a row, once its state is stored.
    pub(crate) fn origin(
        &mut self,
        source: &str,
        root: &str,
    ) -> Result<Option<String>, StoreError> {
        let key = (source.to_owned(), root.to_owned());
        if self.recent_roots.contains(&key) {
            self.flush_all()?;
        }
        self.store.import_with_root(source, root)
    }

    /// Records the first row of a conversation.
    pub fn root(&mut self, source: &str, root: &str, file: &str) -> Result<(), StoreError> {
        if !self.dry_run {
            let key = (source.to_owned(), root.to_owned());
            self.recent_roots.insert(key);
        }
        let step = ImportStep::Root {
            source: source.to_owned(),
            root: root.to_owned(),
            file: file.to_owned(),
        };
        self.push(step, 128)
    }

    /// Saves where the import of a file is, with the reader's state.
    pub fn cursor(&mut self, cursor: ImportCursor, state: Vec<u8>) -> Result<(), StoreError> {
        let (source, file) = (cursor.source.clone(), cursor.file.clone());
        self.push(ImportStep::Cursor(Box::new(cursor)), 256)?;
        let bytes = state.len();
        let step = ImportStep::State {
            source,
            file,
            bytes: state,
            needs: Vec::new(),
        };
        self.push(step, bytes)
    }

    /// Does the same with a state that is made when the ids of all turns are
    /// known.
    pub(crate) fn cursor_later(&mut self, cursor: ImportCursor, state: LaterState) {
        if !self.dry_run {
            let file = self.file();
            self.ended.push(Ended {
                cursor,
                state,
                file,
            });
        }
    }

    fn file(&self) -> usize {
        self.added.len().saturating_sub(1)
    }

    fn push(&mut self, step: ImportStep, bytes: usize) -> Result<(), StoreError> {
        if self.dry_run {
            self.counts.found(&step);
            return Ok(());
        }
        self.files.push(self.file());
        self.steps.push(step);
        self.bytes += bytes;
        match self.bytes >= BATCH_BYTES || self.steps.len() >= BATCH_STEPS {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes the collected steps. The states of readers that could be made only
    /// now are the beginning of the next batch.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        let steps = std::mem::take(&mut self.steps);
        let files = std::mem::take(&mut self.files);
        self.bytes = 0;
        self.checks_content = false;
        let kinds: Vec<Counts> = steps.iter().map(Counts::of).collect();
        let outcomes = match steps.is_empty() {
            true => Vec::new(),
            false => self.store.import(steps)?,
        };
        for ((kind, outcome), file) in kinds.iter().zip(&outcomes).zip(files) {
            if outcome.added
                && let Some(added) = self.added.get_mut(file)
            {
                added.add(kind);
            }
        }
        for turn in &mut self.turns[self.written..] {
            if let TurnLocation::Step(at) = turn.place
                && let Some(id) = outcomes.get(at).and_then(|outcome| outcome.turn)
            {
                turn.place = TurnLocation::Stored(id);
            }
        }
        self.written = self.turns.len();
        for ended in std::mem::take(&mut self.ended) {
            let (state, needs) = (ended.state)(self);
            self.check_content();
            let (source, file) = (ended.cursor.source.clone(), ended.cursor.file.clone());
            self.bytes += state.len() + 256;
            self.files.extend([ended.file; 2]);
            self.steps.push(ImportStep::Cursor(Box::new(ended.cursor)));
            self.steps.push(ImportStep::State {
                source,
                file,
                bytes: state,
                needs,
            });
        }
        Ok(())
    }

    /// Writes everything, with the states of all readers.
    pub(crate) fn flush_all(&mut self) -> Result<(), StoreError> {
        while !self.steps.is_empty() || !self.ended.is_empty() {
            self.flush()?;
        }
        self.recent_roots.clear();
        Ok(())
    }

    /// Begins a file. Returns its number, for [`Writer::added`].
    pub(crate) fn begin_file(&mut self) -> Result<usize, StoreError> {
        if !self.dry_run && self.content_deletions.is_none() {
            self.content_deletions = Some(self.store.content_deletions()?);
        }
        self.counts = Counts::default();
        self.warnings.clear();
        self.added.push(Counts::default());
        Ok(self.file())
    }

    /// Ends a file, and forgets its turns if no state needs them.
    pub(crate) fn end_file(&mut self) -> Result<(), StoreError> {
        if self.turns.len() >= MOST_TURNS {
            self.flush_all()?;
        }
        if self.ended.is_empty() {
            self.turns.clear();
            self.written = 0;
            self.by_id.clear();
        }
        Ok(())
    }

    /// Returns what was added from a file, after [`Writer::flush_all`].
    pub(crate) fn added(&self, file: usize) -> Counts {
        self.added.get(file).copied().unwrap_or_default()
    }

    /// Forgets what was added from all files.
    pub(crate) fn forget_files(&mut self) {
        self.content_deletions = None;
        self.added.clear();
    }
}

/// Returns the calls that a stored turn left without a result.
fn stored_open_calls(store: &dyn Store, id: TurnId) -> Result<Vec<OpenCall>, StoreError> {
    // A turn without an answer leaves open what it does not answer itself. Most
    // turns have an answer, which ends the search.
    let mut turns = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next {
        let Some(turn) = store.turns(&[id], "")?.pop() else {
            break;
        };
        let is_answer = |message: &Message| message.role == MessageRole::Assistant;
        let is_answered = turn.turn.messages.iter().any(is_answer);
        next = turn.parent.filter(|_| !is_answered);
        turns.push(turn);
    }
    let mut open: Vec<OpenCall> = Vec::new();
    for turn in turns.iter().rev() {
        if turn.kind == TurnKind::Compaction {
            continue;
        }
        // Its results answer calls of the turn before, which is not read.
        let late = turn.turn.late_results(&open).into_iter();
        open.extend(late.map(|id| OpenCall {
            name: id.clone(),
            id,
        }));
        let outline = turn.turn.outline(&open);
        open = outline
            .map(|outline| outline.open_calls)
            .unwrap_or_default();
    }
    Ok(open)
}

/// Returns bytes as content that is stored under its hash.
pub(crate) fn blob(bytes: Vec<u8>) -> Blob {
    Blob {
        hash: ContentHash::of(&bytes),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use contexture_sqlite::SqliteStore;
    use contexture_store::{Retention, Snapshots as _, Upkeep as _};

    use super::*;

    /// Another process collects garbage between two batches, of which the first stores
    /// content that the second refers to.
    #[test]
    fn a_request_is_not_saved_without_the_content_of_an_earlier_batch() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("contexture.db");
        let store = SqliteStore::open(&path).unwrap();
        let other = SqliteStore::open(&path).unwrap();
        let message = blob(b"message".to_vec());
        let root = blob(format!(r#"{{"tail":["{}"]}}"#, message.hash).into_bytes());
        let request = Snapshot {
            hash: root.hash,
            session: "s".to_owned(),
            parent_turn: None,
            model: "m".to_owned(),
            tokens: 1,
            counter: "c".to_owned(),
            root: root.hash,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let import = |collect: bool| {
            let mut writer = Writer::new(&store, false, 1 << 20);
            writer.begin_file()?;
            writer.content(vec![message.clone()])?;
            writer.flush()?;
            if collect {
                other.collect(&Retention::default(), false)?;
            }
            writer.snapshot(request.clone(), None, vec![root.clone()])?;
            writer.flush()
        };
        let refused = import(true).unwrap_err();
        let StoreError::NotFound { what, name } = refused else {
            panic!("{refused}");
        };
        assert_eq!((what, name), ("content", message.hash.to_string()));
        assert_eq!(other.snapshots(None, 9).unwrap(), []);
        import(false).unwrap();
        assert_eq!(
            other.snapshots(None, 9).unwrap(),
            std::slice::from_ref(&request)
        );
        // A request that is stored keeps its content.
        other.collect(&Retention::default(), false).unwrap();
        assert!(other.has_blobs(&[message.hash, root.hash]).unwrap());
    }
}
