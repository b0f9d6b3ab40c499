//! A store that counts the calls of another one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture::Timestamp;
use contexture::core::ContentHash;
use contexture::store::*;
use contexture_sqlite::SqliteStore;

pub struct Counting {
    inner: SqliteStore,
    pub turns_loaded: AtomicUsize,
    pub heads_walked: AtomicUsize,
    pub nodes_loaded: AtomicUsize,
    pub counts_put: AtomicUsize,
    pub blobs_offered: AtomicUsize,
    pub bytes_offered: AtomicUsize,
    /// Everything that was offered.
    pub hashes: Mutex<Vec<ContentHash>>,
    /// The hash of content that is returned with a changed byte.
    pub damaged: Mutex<Option<ContentHash>>,
    /// The hash of content that is not returned.
    pub lost: Mutex<Option<ContentHash>>,
}

impl Counting {
    pub fn new(inner: SqliteStore) -> Self {
        Self {
            inner,
            turns_loaded: AtomicUsize::new(0),
            heads_walked: AtomicUsize::new(0),
            nodes_loaded: AtomicUsize::new(0),
            counts_put: AtomicUsize::new(0),
            blobs_offered: AtomicUsize::new(0),
            bytes_offered: AtomicUsize::new(0),
            hashes: Mutex::default(),
            damaged: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// Returns a count and resets it.
    pub fn take(counter: &AtomicUsize) -> usize {
        counter.swap(0, Ordering::SeqCst)
    }
}

fn add(counter: &AtomicUsize, more: usize) {
    counter.fetch_add(more, Ordering::SeqCst);
}

type Done<T> = Result<T, StoreError>;

impl Ledger for Counting {
    fn create_session(&self, new: &NewSession, now: Timestamp) -> Done<Session> {
        self.inner.create_session(new, now)
    }
    fn change_session(&self, label: &str, change: &SessionChange) -> Done<Session> {
        self.inner.change_session(label, change)
    }
    fn session(&self, label: &str) -> Done<Session> {
        self.inner.session(label)
    }
    fn sessions(&self, after: Option<&str>, limit: usize) -> Done<Vec<Session>> {
        self.inner.sessions(after, limit)
    }
    fn record(
        &self,
        label: &str,
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
        now: Timestamp,
    ) -> Done<Recorded> {
        self.inner.record(label, turn, counted, sample, now)
    }
    fn compact(
        &self,
        label: &str,
        parent: TurnId,
        compaction: &Compaction,
        now: Timestamp,
    ) -> Done<Recorded> {
        self.inner.compact(label, parent, compaction, now)
    }
    fn move_head(
        &self,
        label: &str,
        from: Option<TurnId>,
        to: Option<TurnId>,
        reason: &str,
        now: Timestamp,
    ) -> Done<Session> {
        self.inner.move_head(label, from, to, reason, now)
    }
    fn head_moves(&self, label: &str, limit: usize) -> Done<Vec<HeadMove>> {
        self.inner.head_moves(label, limit)
    }
    fn walk(&self, from: TurnId, walk: &Walk<'_>) -> Done<Vec<TurnHead>> {
        let heads = self.inner.walk(from, walk)?;
        add(&self.heads_walked, heads.len());
        Ok(heads)
    }
    fn turns(&self, ids: &[TurnId], counter: &str) -> Done<Vec<Turn>> {
        add(&self.turns_loaded, ids.len());
        self.inner.turns(ids, counter)
    }
    fn tool_result(&self, prefix: &HandlePrefix) -> Done<ToolResult> {
        self.inner.tool_result(prefix)
    }
    fn pin(&self, label: &str, pin: &NewSessionPin, now: Timestamp) -> Done<SessionPin> {
        self.inner.pin(label, pin, now)
    }
    fn unpin(&self, label: &str, name: &str, now: Timestamp) -> Done<SessionPin> {
        self.inner.unpin(label, name, now)
    }
    fn pins(&self, label: &str) -> Done<Vec<SessionPin>> {
        self.inner.pins(label)
    }
    fn pin_revisions(&self, label: &str, name: &str) -> Done<Vec<SessionPin>> {
        self.inner.pin_revisions(label, name)
    }
    fn put_counts(&self, counts: &[(TurnId, Counted)]) -> Done<()> {
        add(&self.counts_put, counts.len());
        self.inner.put_counts(counts)
    }
}

impl Snapshots for Counting {
    fn put_snapshot(&self, snapshot: &Snapshot, blobs: &[Blob]) -> Done<()> {
        add(&self.blobs_offered, blobs.len());
        add(
            &self.bytes_offered,
            blobs.iter().map(|blob| blob.bytes.len()).sum(),
        );
        let hashes = blobs.iter().map(|blob| blob.hash);
        self.hashes.lock().unwrap().extend(hashes);
        self.inner.put_snapshot(snapshot, blobs)
    }
    fn find_snapshots(&self, prefix: &str) -> Done<Vec<Snapshot>> {
        self.inner.find_snapshots(prefix)
    }
    fn snapshots(&self, session: Option<&str>, limit: usize) -> Done<Vec<Snapshot>> {
        self.inner.snapshots(session, limit)
    }
    fn mark_key(&self, new: [u8; 32]) -> Done<[u8; 32]> {
        self.inner.mark_key(new)
    }
    fn blobs(&self, hashes: &[ContentHash]) -> Done<Vec<Option<Vec<u8>>>> {
        let mut found = self.inner.blobs(hashes)?;
        let damaged = *self.damaged.lock().unwrap();
        let lost = *self.lost.lock().unwrap();
        for (hash, bytes) in hashes.iter().zip(&mut found) {
            if lost == Some(*hash) {
                *bytes = None;
            }
            if let (true, Some(bytes)) = (damaged == Some(*hash), bytes) {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            }
        }
        Ok(found)
    }
    fn has_blobs(&self, hashes: &[ContentHash]) -> Done<bool> {
        self.inner.has_blobs(hashes)
    }
}

impl Samples for Counting {
    fn put_sample(&self, model: &str, counter: &str, sample: Sample) -> Done<()> {
        self.inner.put_sample(model, counter, sample)
    }
    fn samples(&self, model: &str, counter: &str, limit: usize) -> Done<Vec<Sample>> {
        self.inner.samples(model, counter, limit)
    }
    fn sampled_models(&self, counter: &str) -> Done<Vec<String>> {
        self.inner.sampled_models(counter)
    }
}

impl Trees for Counting {
    fn import_tree(&self, document: &TreeDocument, now: Timestamp) -> Done<Imported> {
        self.inner.import_tree(document, now)
    }
    fn export_tree(&self, tree: &str) -> Done<TreeDocument> {
        self.inner.export_tree(tree)
    }
    fn tree(&self, tree: &str) -> Done<TreeInfo> {
        self.inner.tree(tree)
    }
    fn trees(&self, after: Option<&str>, limit: usize) -> Done<Vec<TreeInfo>> {
        self.inner.trees(after, limit)
    }
    fn grow(&self, tree: &str, growth: &Growth, now: Timestamp) -> Done<Vec<NodeHead>> {
        self.inner.grow(tree, growth, now)
    }
    fn change_tree(&self, tree: &str, change: &TreeChange, now: Timestamp) -> Done<()> {
        self.inner.change_tree(tree, change, now)
    }
    fn find_node(&self, tree: &str, name: &str) -> Done<NodeHead> {
        self.inner.find_node(tree, name)
    }
    fn climb(&self, tree: &str, from: &str, limit: usize) -> Done<Vec<NodeHead>> {
        let climbed = self.inner.climb(tree, from, limit)?;
        add(&self.heads_walked, climbed.len());
        Ok(climbed)
    }
    fn arrivals(&self, tree: &str, node: &str) -> Done<Vec<Arrival>> {
        self.inner.arrivals(tree, node)
    }
    fn versions(&self, tree: &str, node: &str) -> Done<Vec<NodeHead>> {
        self.inner.versions(tree, node)
    }
    fn nodes(&self, tree: &str, ids: &[&str], counter: &str) -> Done<Vec<CountedNode>> {
        add(&self.nodes_loaded, ids.len());
        self.inner.nodes(tree, ids, counter)
    }
    fn put_node_counts(
        &self,
        tree: &str,
        counter: &str,
        counts: &[(&str, Vec<contexture::core::Tokens>)],
    ) -> Done<()> {
        self.inner.put_node_counts(tree, counter, counts)
    }
    fn connections(&self, tree: &str, ids: &[&str]) -> Done<Vec<Connections>> {
        self.inner.connections(tree, ids)
    }
    fn annotations(&self, tree: &str, ids: &[&str]) -> Done<Vec<(String, NodeHead)>> {
        self.inner.annotations(tree, ids)
    }
    fn skeleton(&self, tree: &str) -> Done<Skeleton> {
        self.inner.skeleton(tree)
    }
    fn raw_response(&self, tree: &str, node: &str) -> Done<Option<RawResponse>> {
        self.inner.raw_response(tree, node)
    }
    fn agent_memory(&self, tree: &str, agent: &str) -> Done<AgentMemory> {
        self.inner.agent_memory(tree, agent)
    }
}

impl Memories for Counting {
    fn remember(
        &self,
        records: &[NewRecord],
        analysis: &Analysis,
        now: Timestamp,
    ) -> Done<Vec<Remembered>> {
        self.inner.remember(records, analysis, now)
    }
    fn memory_state(&self) -> Done<MemoryState> {
        self.inner.memory_state()
    }
    fn changes(&self, after: u64, limit: usize) -> Done<Vec<Change>> {
        self.inner.changes(after, limit)
    }
    fn records(&self, keys: &[RecordKey]) -> Done<Vec<Option<Record>>> {
        self.inner.records(keys)
    }
    fn record_keys(&self, ids: &[&str]) -> Done<Vec<(RecordKind, RecordKey)>> {
        self.inner.record_keys(ids)
    }
    fn archive(&self, keys: &[RecordKey]) -> Done<()> {
        self.inner.archive(keys)
    }
    fn forget(&self, what: &Forget) -> Done<Forgotten> {
        self.inner.forget(what)
    }
    fn put_words(&self, rules: u32, words: &[(RecordKey, Vec<u8>)]) -> Done<()> {
        self.inner.put_words(rules, words)
    }
    fn put_vectors(&self, embedder: &EmbedderInfo, vectors: &[(RecordKey, Vec<u8>)]) -> Done<()> {
        self.inner.put_vectors(embedder, vectors)
    }
    fn unembedded(
        &self,
        embedder: &EmbedderInfo,
        after: RecordKey,
        limit: usize,
    ) -> Done<Vec<RecordKey>> {
        self.inner.unembedded(embedder, after, limit)
    }
    fn use_embedder(&self, embedder: &EmbedderInfo) -> Done<()> {
        self.inner.use_embedder(embedder)
    }
    fn list(
        &self,
        what: &contexture::store::RecordList,
        after: RecordKey,
        limit: usize,
    ) -> Done<Vec<RecordKey>> {
        self.inner.list(what, after, limit)
    }
    fn record_counts(&self) -> Done<std::collections::BTreeMap<RecordKind, u64>> {
        self.inner.record_counts()
    }
    fn put_later(&self, embedder: &EmbedderInfo, vectors: &[(PendingText, Vec<u8>)]) -> Done<()> {
        self.inner.put_later(embedder, vectors)
    }
    fn pending(&self, limit: usize) -> Done<Vec<PendingText>> {
        self.inner.pending(limit)
    }
    fn later_vectors(&self, after: u64, limit: usize) -> Done<Vec<LaterVector>> {
        self.inner.later_vectors(after, limit)
    }
    fn memory_stats(&self) -> Done<MemoryStats> {
        self.inner.memory_stats()
    }
}

impl Tasks for Counting {
    fn push_task(&self, stack: &str, new: &NewTask, now: Timestamp) -> Done<TaskRecord> {
        self.inner.push_task(stack, new, now)
    }
    fn finish_task(
        &self,
        stack: &str,
        id: Option<&str>,
        status: TaskStatus,
        result: Option<&str>,
        now: Timestamp,
    ) -> Done<TaskRecord> {
        self.inner.finish_task(stack, id, status, result, now)
    }
    fn resume_task(&self, stack: &str, id: &str) -> Done<TaskRecord> {
        self.inner.resume_task(stack, id)
    }
    fn task_view(&self, stack: &str) -> Done<TaskView> {
        self.inner.task_view(stack)
    }
    fn tasks(&self, stack: &str) -> Done<Vec<TaskRecord>> {
        self.inner.tasks(stack)
    }
    fn task_stacks(&self) -> Done<Vec<String>> {
        self.inner.task_stacks()
    }
}

impl Imports for Counting {
    fn import(&self, steps: Vec<ImportStep>) -> Done<Vec<ImportOutcome>> {
        self.inner.import(steps)
    }
    fn content_deletions(&self) -> Done<u64> {
        self.inner.content_deletions()
    }
    fn import_cursor(&self, source: &str, file: &str) -> Done<Option<ImportCursor>> {
        self.inner.import_cursor(source, file)
    }
    fn import_cursors(&self) -> Done<Vec<ImportCursor>> {
        self.inner.import_cursors()
    }
    fn import_state(&self, source: &str, file: &str) -> Done<Option<Vec<u8>>> {
        self.inner.import_state(source, file)
    }
    fn import_with_root(&self, source: &str, root: &str) -> Done<Option<String>> {
        self.inner.import_with_root(source, root)
    }
    fn import_rows(&self, source: &str, file: &str, limit: usize) -> Done<Vec<ImportRow>> {
        self.inner.import_rows(source, file, limit)
    }
}

impl Upkeep for Counting {
    fn usage(&self) -> Done<Usage> {
        self.inner.usage()
    }
    fn verify(&self) -> Done<Verification> {
        self.inner.verify()
    }
    fn delete_session(&self, label: &str) -> Done<Deleted> {
        self.inner.delete_session(label)
    }

    fn delete_turns_before(&self, label: &str, turn: TurnId) -> Done<Deleted> {
        self.inner.delete_turns_before(label, turn)
    }

    fn delete_snapshot(&self, hash: ContentHash) -> Done<Deleted> {
        self.inner.delete_snapshot(hash)
    }
    fn delete_tree(&self, id: &str) -> Done<Deleted> {
        self.inner.delete_tree(id)
    }
    fn collect(&self, retention: &Retention, dry_run: bool) -> Done<Deleted> {
        self.inner.collect(retention, dry_run)
    }
}

impl Files for Counting {
    fn files_revision(&self) -> Done<u64> {
        self.inner.files_revision()
    }
    fn files(&self) -> Done<Vec<StoredFile>> {
        self.inner.files()
    }
    fn file(&self, path: &str) -> Done<Option<(StoredFile, Vec<u8>)>> {
        self.inner.file(path)
    }
    fn put_file(
        &self,
        path: &str,
        content: &[u8],
        expected: ExpectedFile,
        now: Timestamp,
    ) -> Done<StoredFile> {
        self.inner.put_file(path, content, expected, now)
    }
    fn delete_file(&self, path: &str, expected: ExpectedFile, now: Timestamp) -> Done<()> {
        self.inner.delete_file(path, expected, now)
    }
}

impl Archive for Counting {
    fn export_entries(&self, put: ArchiveSink<'_>) -> Done<()> {
        self.inner.export_entries(put)
    }
    fn import_entries(&self, next: ArchiveSource) -> Done<()> {
        self.inner.import_entries(next)
    }
    fn is_blank(&self) -> Done<bool> {
        self.inner.is_blank()
    }
}

impl DoneCalls for Counting {
    fn done_call(&self, call: &IdempotentCall) -> Done<Option<DoneCall>> {
        self.inner.done_call(call)
    }
    fn put_answer(&self, call: &IdempotentCall, answer: &[u8]) -> Done<()> {
        self.inner.put_answer(call, answer)
    }
}

impl Events for Counting {
    fn put_event(
        &self,
        kind: &str,
        session: &str,
        data: serde_json::Map<String, serde_json::Value>,
        now: Timestamp,
    ) {
        self.inner.put_event(kind, session, data, now);
    }
    fn events(&self, after: u64, limit: usize) -> Done<EventPage> {
        self.inner.events(after, limit)
    }
}

impl Store for Counting {
    fn address(&self) -> String {
        self.inner.address()
    }
}
