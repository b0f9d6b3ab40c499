//! Requests that were assembled, kept by content: what exactly did the model
//! see, and where do two requests part?
//!
//! A snapshot is a list of blocks in chunks; content and chunks are kept by
//! their hash, so that a session's next request adds what is new in it and
//! little more.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use contexture_core::guard::Mark;
use contexture_core::{
    Block, ContentHash, Join, Layout, Media, MediaKind, MediaSource, Native, Part, RawJson, Role,
    Section, Text, Tokens, Trust, Usage, markup,
};
use contexture_providers::{Format, Prompt, Sampling};
use contexture_store::{AgentRole, Blob, Snapshot, Snapshots, TurnId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as to_json};

use crate::advice::{Advice, Operation};
use crate::cache::CacheReport;
use crate::error::{Cause, Error};
use crate::stored_report::ReportedBlock;

/// What tells a block from others: its layer, its id and its content.
pub(crate) type BlockKey = (Arc<str>, Arc<str>, ContentHash);

pub mod recorded;

use recorded::RecordedBody;

/// How many blocks a chunk of the list holds.
const CHUNK: usize = 64;

/// A request that can be rendered again.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The hash that identifies the request.
    pub hash: ContentHash,
    /// The data that rendering needs.
    settings: Settings,
    entries: Vec<Entry>,
    chunks: Vec<ContentHash>,
    // How many blocks each chunk holds.
    lengths: Vec<usize>,
    // The texts of what was new in it, if they are short and it was made here:
    // the next request is most likely to part from it there.
    new: Vec<(ContentHash, Arc<str>)>,
    durability: Arc<AtomicU8>,
    // The body that another program sent, if it was not assembled here. Texts
    // of blocks are derived from it, and are not in the store.
    recorded: Option<Arc<RecordedBody>>,
    // When it was made: the provider's cache is kept for a while only.
    made_at: Timestamp,
}

/// Whether a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Durability {
    /// It is on disk, or nobody said otherwise.
    Saved,
    /// It is being written.
    Pending,
    /// It could not be written.
    Failed,
}

/// What is remembered beside it is no part of a request.
impl PartialEq for Saved {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.settings == other.settings
            && self.entries == other.entries
            && self.chunks == other.chunks
    }
}

/// The most bytes of texts that are remembered with a request.
const MOST_NEW_BYTES: usize = 8 * 1024;

/// How many sessions' latest requests are kept in memory.
const MOST_REMEMBERED: usize = 4096;

/// How many blocks they may have together.
const MOST_REMEMBERED_BLOCKS: usize = 200_000;

/// How many of a session's latest requests are kept in memory. Where several are
/// made at once, the one that was kept last is one of them.
const MOST_OF_A_SESSION: usize = 32;

/// The latest requests of each session, as many as there is room for.
///
/// When there is no room left, the sessions that were used longest ago are
/// dropped. A request that is still being written stays: the store does not
/// have it yet.
#[derive(Debug, Default)]
pub(crate) struct RecentRequests {
    sessions: BTreeMap<String, RecentSession>,
    // The sessions by when they were used last.
    by_use: BTreeMap<u64, String>,
    uses: u64,
    blocks: usize,
}

#[derive(Debug, Default)]
struct RecentSession {
    // Oldest first.
    requests: VecDeque<Arc<Saved>>,
    // Its key in `by_use`.
    used: u64,
}

impl RecentRequests {
    /// Returns the latest request of a session.
    pub(crate) fn latest(&mut self, session: &str) -> Option<Arc<Saved>> {
        self.used(session)?.requests.back().cloned()
    }

    /// Returns the request of that hash, if it is one of the session's latest.
    pub(crate) fn find(&mut self, session: &str, hash: ContentHash) -> Option<Arc<Saved>> {
        let mut saved = self.used(session)?.requests.iter().rev();
        saved.find(|saved| saved.hash == hash).cloned()
    }

    pub(crate) fn put(&mut self, session: &str, saved: Arc<Saved>) {
        if self.blocks + saved.blocks() > MOST_REMEMBERED_BLOCKS {
            // An eighth is left free, so that the next requests have room.
            let limit = MOST_REMEMBERED_BLOCKS - MOST_REMEMBERED_BLOCKS / 8;
            self.shrink(limit.saturating_sub(saved.blocks()));
        }
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= MOST_REMEMBERED {
                self.drop_oldest(|recent| recent.sessions.len() < MOST_REMEMBERED);
            }
            self.uses += 1;
            self.by_use.insert(self.uses, session.to_owned());
            let new = RecentSession {
                requests: VecDeque::new(),
                used: self.uses,
            };
            self.sessions.insert(session.to_owned(), new);
        }
        self.blocks += saved.blocks();
        let Some(recent) = self.used(session) else {
            return;
        };
        recent.requests.push_back(saved);
        if recent.requests.len() > MOST_OF_A_SESSION
            && let Some(oldest) = recent.requests.pop_front()
        {
            self.blocks -= oldest.blocks();
        }
    }

    /// Returns a session, which is now the one that was used last.
    fn used(&mut self, session: &str) -> Option<&mut RecentSession> {
        let recent = self.sessions.get_mut(session)?;
        self.uses += 1;
        if let Some(name) = self.by_use.remove(&recent.used) {
            self.by_use.insert(self.uses, name);
        }
        recent.used = self.uses;
        Some(recent)
    }

    /// Drops requests until the others have at most `limit` blocks: first those
    /// that came before the latest of their session, then whole sessions.
    fn shrink(&mut self, limit: usize) {
        for recent in self.sessions.values_mut() {
            let mut later = recent.requests.len();
            recent.requests.retain(|saved| {
                later -= 1;
                let stays = later == 0 || saved.is_pending();
                if !stays {
                    self.blocks -= saved.blocks();
                }
                stays
            });
        }
        self.drop_oldest(|recent| recent.blocks <= limit);
    }

    /// Drops the sessions that were used longest ago until that is `enough`.
    fn drop_oldest(&mut self, enough: impl Fn(&Self) -> bool) {
        let mut from = 0;
        while !enough(self)
            && let Some((&used, name)) = self.by_use.range(from..).next()
        {
            from = used + 1;
            let Some(recent) = self.sessions.get(name) else {
                continue;
            };
            if recent.requests.iter().any(|saved| saved.is_pending()) {
                continue;
            }
            let dropped = recent.requests.iter().map(|saved| saved.blocks());
            self.blocks -= dropped.sum::<usize>();
            self.sessions.remove(name);
            self.by_use.remove(&used);
        }
    }
}

/// The parts of the request that was loaded last.
#[derive(Debug, Default)]
pub struct LoadedChunks(BTreeMap<ContentHash, Vec<Entry>>);

/// What a request is made from beside its blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Settings {
    version: u32,
    model: String,
    max_output: Option<u64>,
    spare: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    continues: bool,
    #[serde(default, skip_serializing_if = "Sampling::is_unset")]
    sampling: Sampling,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_key: Option<String>,
    // The definitions of tools that the model can search for, by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deferred: Option<ContentHash>,
    // The hash of the text form, to tell whether it comes out the same.
    text: ContentHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<Agent>,
    // The mark of the boundary tags.
    mark: Mark,
}

/// Who a request was made for: what is to be known of an agent beside what it
/// was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotAgent"))]
pub struct Agent {
    /// The role.
    pub role: AgentRole,
    /// The set that its tools were taken from.
    pub toolset_name: Option<String>,
    /// The names that the agent could use.
    pub permissions_granted: Vec<String>,
    /// The event that it was to answer.
    pub source_event_id: Option<String>,
    /// Hashes of what went into the system prompt, and what is known about the
    /// event.
    pub context_json: Value,
}

#[derive(Serialize, Deserialize)]
struct RootBlob {
    #[serde(flatten)]
    settings: Settings,
    chunks: Vec<ContentHash>,
}

/// One block of a saved request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotBlock"))]
struct Entry {
    section: Section,
    id: Arc<str>,
    layer: Arc<str>,
    role: Role,
    trust: Trust,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "SavedPart::is_text")]
    part: SavedPart,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    native: Option<SavedNative>,
    #[serde(default, skip_serializing_if = "Join::is_apart")]
    join: Join,
    tokens: Tokens,
    #[serde(default, skip_serializing_if = "is_zero")]
    surcharge: Tokens,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    volatile: bool,
    // It enters history when the answer is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    recorded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<Arc<str>>,
    body: ContentHash,
    bytes: u64,
}

impl Entry {
    /// Returns true when the block goes on inside the tags of `previous`, as
    /// [`Block::joins`] says.
    fn joins(&self, previous: &Entry) -> bool {
        let may = |entry: &Entry| entry.join == Join::Paragraph && entry.part.is_text();
        let names_another = self.role.shows_path() && self.path != previous.path;
        may(self)
            && may(previous)
            && self.section == previous.section
            && self.role == previous.role
            && self.role.tag().is_some()
            && !names_another
    }

    /// Returns the block with its content, of which `body` is the text. `load`
    /// returns other content of the block.
    fn block(
        &self,
        load: &dyn Fn(ContentHash) -> Result<Vec<u8>, Error>,
        body: Vec<u8>,
    ) -> Result<Block, Error> {
        let native = |native: &SavedNative| native.read(load(native.content)?);
        let body = String::from_utf8(body).map_err(|_| damaged(self.body))?;
        let text = body.strip_suffix('\n').ok_or_else(|| damaged(self.body))?;
        let mut block = Block::new(
            Arc::clone(&self.id),
            Arc::clone(&self.layer),
            self.role,
            Text::verbatim(text),
        );
        block.join = self.join;
        block.trust = self.trust;
        block.path = self.path.clone();
        block.tokens = self.tokens;
        block.surcharge = self.surcharge;
        block.volatile = self.volatile;
        block.recorded = self.recorded;
        block.group = self.group.clone();
        block.part = match &self.part {
            SavedPart::Media { content, .. } => {
                let media: Media = parse(&load(*content)?)?;
                Part::Media(media.into())
            }
            SavedPart::Provider(saved) => Part::Provider(native(saved)?),
            part => part.shown(),
        };
        if let Some(saved) = &self.native {
            block.native = Some(native(saved)?);
        }
        Ok(block)
    }
}

fn is_zero(n: &Tokens) -> bool {
    *n == 0
}

/// A block in a provider's own form; its bytes are content of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotNative"))]
struct SavedNative {
    provider: Arc<str>,
    content: ContentHash,
}

impl SavedNative {
    /// Returns what is kept of `native`. Its bytes are new unless they stood in
    /// the same place before.
    fn of(native: &Native, known: Option<&Self>, blobs: &mut Vec<Blob>) -> Self {
        let bytes = native.raw.as_str().as_bytes();
        let saved = Self {
            provider: Arc::clone(&native.provider),
            content: ContentHash::of(bytes),
        };
        if known != Some(&saved) {
            put(bytes.to_vec(), blobs);
        }
        saved
    }

    fn read(&self, bytes: Vec<u8>) -> Result<Arc<Native>, Error> {
        let raw = String::from_utf8(bytes).map_err(|_| damaged(self.content))?;
        let raw = RawJson::parse(&raw).map_err(|_| damaged(self.content))?;
        Ok(Arc::new(Native::new(Arc::clone(&self.provider), raw)))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotPart"))]
#[serde(rename_all = "snake_case")]
enum SavedPart {
    #[default]
    Text,
    Tool {
        name: Arc<str>,
    },
    ToolCall {
        id: Arc<str>,
        name: Arc<str>,
    },
    ToolResult {
        id: Arc<str>,
        name: Arc<str>,
        is_error: bool,
    },
    Thinking {
        signature: Arc<str>,
    },
    // The medium itself is content of its own.
    Media {
        kind: MediaKind,
        media_type: Arc<str>,
        content: ContentHash,
    },
    Provider(SavedNative),
}

impl SavedPart {
    /// Returns the name of its kind.
    fn kind(&self) -> &'static str {
        match self {
            SavedPart::Text => "text",
            SavedPart::Tool { .. } => "tool",
            SavedPart::ToolCall { .. } => "tool_call",
            SavedPart::ToolResult { .. } => "tool_result",
            SavedPart::Thinking { .. } => "thinking",
            SavedPart::Media { .. } => "media",
            SavedPart::Provider(_) => "provider",
        }
    }

    /// Returns the name of the tool that it belongs to.
    fn tool(&self) -> Option<&Arc<str>> {
        match self {
            SavedPart::Tool { name }
            | SavedPart::ToolCall { name, .. }
            | SavedPart::ToolResult { name, .. } => Some(name),
            _ => None,
        }
    }

    fn is_text(&self) -> bool {
        *self == SavedPart::Text
    }

    /// Returns the part as far as it shows in the text form: a medium without
    /// its bytes.
    fn shown(&self) -> Part {
        match self.clone() {
            SavedPart::Text => Part::Text,
            SavedPart::Tool { name } => Part::Tool { name },
            SavedPart::ToolCall { id, name } => Part::ToolCall { id, name },
            SavedPart::ToolResult { id, name, is_error } => Part::ToolResult { id, name, is_error },
            SavedPart::Thinking { signature } => Part::Thinking { signature },
            SavedPart::Media {
                kind, media_type, ..
            } => Part::Media(Arc::new(Media {
                kind,
                media_type: media_type.to_string(),
                source: MediaSource::Url(String::new()),
            })),
            SavedPart::Provider(native) => {
                let raw = RawJson::default();
                Part::Provider(Arc::new(Native::new(native.provider, raw)))
            }
        }
    }

    /// Returns what is kept of `part`. The content of a medium is new unless it
    /// stood in the same place before.
    fn of(part: &Part, known: Option<&Self>, blobs: &mut Vec<Blob>) -> Self {
        match part.clone() {
            Part::Text => SavedPart::Text,
            Part::Tool { name } => SavedPart::Tool { name },
            Part::ToolCall { id, name } => SavedPart::ToolCall { id, name },
            Part::ToolResult { id, name, is_error } => SavedPart::ToolResult { id, name, is_error },
            Part::Thinking { signature } => SavedPart::Thinking { signature },
            Part::Media(media) => {
                let bytes = json(&*media);
                let part = SavedPart::Media {
                    kind: media.kind,
                    media_type: media.media_type.as_str().into(),
                    content: ContentHash::of(&bytes),
                };
                if known != Some(&part) {
                    put(bytes, blobs);
                }
                part
            }
            Part::Provider(native) => {
                let known = known.and_then(|known| match known {
                    SavedPart::Provider(known) => Some(known),
                    _ => None,
                });
                SavedPart::Provider(SavedNative::of(&native, known, blobs))
            }
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // It fails only for maps with keys that are no text.
    serde_json::to_vec(value).unwrap_or_default()
}

fn put(bytes: Vec<u8>, blobs: &mut Vec<Blob>) -> ContentHash {
    let hash = ContentHash::of(&bytes);
    blobs.push(Blob { hash, bytes });
    hash
}

/// What a request is to be remembered with.
pub(crate) struct NewSnapshot<'a> {
    pub(crate) session: &'a str,
    pub(crate) parent_turn: Option<TurnId>,
    pub(crate) prompt: &'a Prompt<'a>,
    pub(crate) tokens: Tokens,
    pub(crate) counter: &'a str,
    pub(crate) agent: Option<Agent>,
    /// False when only its shape is to be remembered: nothing is rendered then.
    pub(crate) keep: bool,
    pub(crate) now: Timestamp,
}

/// Takes a snapshot of a request: what is to be kept of it, and the content
/// that `previous` does not hold.
pub(crate) fn take(
    made: &NewSnapshot<'_>,
    previous: Option<&Saved>,
) -> (Saved, Snapshot, Vec<Blob>) {
    let layout = made.prompt.layout;
    // The texts of a recorded request are not in the store.
    let previous = previous.filter(|previous| previous.recorded.is_none());
    let mut blobs = Vec::new();
    let sections = [
        (Section::System, &layout.system),
        (Section::History, &layout.history),
        (Section::Current, &layout.current),
    ];
    let mut entries = Vec::new();
    for (section, blocks) in sections {
        for block in blocks {
            let at = entries.len();
            let known = previous.and_then(|previous| previous.entries.get(at));
            let entry = Entry {
                section,
                id: Arc::clone(&block.id),
                layer: Arc::clone(&block.layer),
                role: block.role,
                trust: block.trust,
                path: block.path.clone(),
                part: SavedPart::of(&block.part, known.map(|known| &known.part), &mut blobs),
                native: block.native.as_ref().map(|native| {
                    let known = known.and_then(|known| known.native.as_ref());
                    SavedNative::of(native, known, &mut blobs)
                }),
                join: block.join,
                tokens: block.tokens,
                surcharge: block.surcharge,
                volatile: block.volatile,
                recorded: block.recorded,
                group: block.group.clone(),
                body: block.body_hash(),
                bytes: block.body().len() as u64,
            };
            if known.is_none_or(|known| known.body != entry.body) {
                blobs.push(Blob {
                    hash: entry.body,
                    bytes: block.body().as_bytes().to_vec(),
                });
            }
            entries.push(entry);
        }
    }
    // What is new in each request has a chunk of its own, so that history's last
    // one need not be written again.
    let (standing, current) = entries.split_at(entries.len() - layout.current.len());
    let mut lengths = Vec::new();
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut same_so_far = true;
    for chunk in standing.chunks(CHUNK).chain(current.chunks(CHUNK)) {
        // A chunk that is the same was kept with the request before.
        let i = lengths.len();
        same_so_far &= previous.is_some_and(|it| it.lengths.get(i) == Some(&chunk.len()));
        let known = previous
            .filter(|_| same_so_far)
            .filter(|it| it.entries.get(start..start + chunk.len()) == Some(chunk));
        chunks.push(match known.and_then(|previous| previous.chunks.get(i)) {
            Some(hash) => *hash,
            None => put(json(&chunk), &mut blobs),
        });
        lengths.push(chunk.len());
        start += chunk.len();
    }
    let settings = Settings {
        version: 2,
        model: made.prompt.model.to_owned(),
        max_output: made.prompt.max_output,
        spare: made.prompt.spare,
        continues: made.prompt.continues,
        sampling: made.prompt.sampling.clone(),
        cache_key: made.prompt.cache_key.map(str::to_owned),
        deferred: saved_tools(made.prompt.deferred, previous, &mut blobs),
        text: match made.keep {
            true => text_hash(layout),
            false => ContentHash::of(b""),
        },
        agent: made.agent.clone(),
        mark: layout.mark,
    };
    let root = RootBlob {
        settings: settings.clone(),
        chunks: chunks.clone(),
    };
    let hash = put(json(&root), &mut blobs);
    let snapshot = Snapshot {
        hash,
        session: made.session.to_owned(),
        parent_turn: made.parent_turn,
        model: made.prompt.model.to_owned(),
        tokens: made.tokens,
        counter: made.counter.to_owned(),
        root: hash,
        created_at: made.now,
    };
    let saved = Saved {
        hash,
        settings,
        entries,
        chunks,
        lengths,
        new: new_texts(&layout.current),
        durability: Arc::default(),
        recorded: None,
        made_at: made.now,
    };
    (saved, snapshot, blobs)
}

/// Returns what is kept of tools that the model can search for. They are new
/// unless the request before had the same.
fn saved_tools(
    deferred: &[Block],
    previous: Option<&Saved>,
    blobs: &mut Vec<Blob>,
) -> Option<ContentHash> {
    let tools = deferred.iter().filter_map(|block| match &block.part {
        Part::Tool { name } => Some((name, block.text())),
        _ => None,
    });
    let tools: Vec<(&Arc<str>, &str)> = tools.collect();
    if tools.is_empty() {
        return None;
    }
    let bytes = json(&tools);
    let hash = ContentHash::of(&bytes);
    if previous.is_none_or(|previous| previous.settings.deferred != Some(hash)) {
        put(bytes, blobs);
    }
    Some(hash)
}

/// Returns the hash of the text form. It is written into a room that is kept:
/// it is large, and of no use afterwards.
fn text_hash(layout: &Layout) -> ContentHash {
    thread_local! {
        static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
    }
    TEXT.with_borrow_mut(|text| {
        text.clear();
        markup::render_into(text, layout);
        let hash = ContentHash::of(text.as_bytes());
        if text.capacity() > MOST_ROOM {
            *text = String::new();
        }
        hash
    })
}

/// The most room that a thread keeps for the text form.
const MOST_ROOM: usize = 1 << 20;

/// Returns the texts of the current message, as far as they are short.
fn new_texts(blocks: &[Block]) -> Vec<(ContentHash, Arc<str>)> {
    let mut bytes = 0;
    let mut new = Vec::new();
    for block in blocks {
        bytes += block.body().len();
        if bytes > MOST_NEW_BYTES {
            break;
        }
        new.push((block.body_hash(), block.body().into()));
    }
    new
}

impl Saved {
    /// Loads a snapshot's list of blocks, without their content.
    pub fn load(store: &dyn Snapshots, snapshot: &Snapshot) -> Result<Self, Error> {
        Self::load_with(store, snapshot, &mut LoadedChunks::default())
    }

    /// Loads a snapshot as [`load`](Self::load) does, and reads only the parts
    /// that the one before, loaded with the same `chunks`, did not have.
    pub fn load_with(
        store: &dyn Snapshots,
        snapshot: &Snapshot,
        chunks: &mut LoadedChunks,
    ) -> Result<Self, Error> {
        let root = fetch(store, &[snapshot.root])?.swap_remove(0);
        if let Some(recorded) = recorded::read(&root)? {
            return recorded.load(store, snapshot);
        }
        let root: RootBlob = parse(&root)?;
        let mut entries = Vec::new();
        let mut lengths = Vec::new();
        let mut loaded = BTreeMap::new();
        for hash in &root.chunks {
            let chunk = match chunks.0.remove(hash).or_else(|| loaded.remove(hash)) {
                Some(chunk) => chunk,
                None => parse::<Vec<Entry>>(&fetch(store, &[*hash])?[0])?,
            };
            lengths.push(chunk.len());
            entries.extend_from_slice(&chunk);
            loaded.insert(*hash, chunk);
        }
        chunks.0 = loaded;
        Ok(Self {
            hash: snapshot.hash,
            settings: root.settings,
            entries,
            chunks: root.chunks,
            lengths,
            new: Vec::new(),
            durability: Arc::default(),
            recorded: None,
            made_at: snapshot.created_at,
        })
    }

    /// Returns the texts of blocks.
    fn bodies(&self, store: &dyn Snapshots, hashes: &[ContentHash]) -> Result<Vec<Vec<u8>>, Error> {
        match &self.recorded {
            Some(recorded) => recorded.bodies(hashes),
            None => fetch(store, hashes),
        }
    }

    fn is_pending(&self) -> bool {
        self.durability() == Durability::Pending
    }

    pub(crate) fn durability(&self) -> Durability {
        match self.durability.load(Ordering::Acquire) {
            pending if pending == Durability::Pending as u8 => Durability::Pending,
            failed if failed == Durability::Failed as u8 => Durability::Failed,
            _ => Durability::Saved,
        }
    }

    /// Notes whether it is kept, for whoever remembers it.
    pub(crate) fn set_durability(&self, durability: Durability) {
        self.durability.store(durability as u8, Ordering::Release);
    }

    /// Returns the ids of the blocks of a layer in the history, oldest first, with
    /// their groups.
    pub fn history(&self, layer: &str) -> impl Iterator<Item = (&Arc<str>, Option<&Arc<str>>)> {
        let history = self.entries.iter();
        let history = history
            .filter(move |entry| entry.section == Section::History && *entry.layer == *layer);
        history.map(|entry| (&entry.id, entry.group.as_ref()))
    }

    /// Returns the ids of the blocks of history, oldest first, with the hash of
    /// what each shows.
    pub fn history_bodies(&self) -> impl Iterator<Item = (&Arc<str>, ContentHash)> {
        let history = self.entries.iter();
        let history = history.filter(|entry| entry.section == Section::History);
        history.map(|entry| (&entry.id, entry.body))
    }

    /// Returns the names of the tools that were sent.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match &entry.part {
            SavedPart::Tool { name } => Some(&**name),
            _ => None,
        })
    }

    /// Returns the request with its content.
    pub fn layout(&self, store: &dyn Snapshots) -> Result<Layout, Error> {
        let hashes: Vec<ContentHash> = self.entries.iter().map(|entry| entry.body).collect();
        let bodies = self.bodies(store, &hashes)?;
        let mut layout = Layout {
            mark: self.settings.mark,
            ..Layout::default()
        };
        let load = |hash| Ok(self.bodies(store, &[hash])?.swap_remove(0));
        for (entry, body) in self.entries.iter().zip(bodies) {
            let block = entry.block(&load, body)?;
            match entry.section {
                Section::System => layout.system.push(block),
                Section::History => layout.history.push(block),
                Section::Current => layout.current.push(block),
            }
        }
        Ok(layout)
    }

    /// Returns the tools that the model could search for.
    fn deferred(&self, store: &dyn Snapshots) -> Result<Vec<Block>, Error> {
        let Some(hash) = self.settings.deferred else {
            return Ok(Vec::new());
        };
        let tools: Vec<(Arc<str>, String)> = parse(&fetch(store, &[hash])?[0])?;
        let block = |(name, text): (Arc<str>, String)| {
            let text = Text::verbatim(&text);
            let mut block = Block::new(format!("tool:{name}"), "", Role::System, text);
            block.part = Part::Tool { name };
            block
        };
        Ok(tools.into_iter().map(block).collect())
    }

    /// Returns the request as it was sent in a provider's form. A request that
    /// another program sent has the body that was recorded, in its own form.
    pub fn render(&self, store: &dyn Snapshots, format: Format) -> Result<String, Error> {
        if let Some(recorded) = &self.recorded
            && recorded.format() == Some(format)
        {
            return Ok(recorded.body().to_owned());
        }
        let layout = self.layout(store)?;
        let deferred = self.deferred(store)?;
        let prompt = Prompt {
            layout: &layout,
            model: &self.settings.model,
            max_output: self.settings.max_output,
            spare: self.settings.spare,
            continues: self.settings.continues,
            sampling: &self.settings.sampling,
            cache_key: self.settings.cache_key.as_deref(),
            deferred: &deferred,
        };
        prompt
            .render(format)
            .map_err(|refused| Error::input(refused.to_string()))
    }

    /// Checks that everything is there, that nothing was changed, and that the
    /// request comes out with the same bytes. Returns how many blocks it has.
    pub fn check(&self, store: &dyn Snapshots) -> Result<usize, Error> {
        if let Some(recorded) = &self.recorded {
            // Its pieces were compared with their hashes when they were read.
            recorded.check(self.hash)?;
            return Ok(self.entries.len());
        }
        let root = RootBlob {
            settings: self.settings.clone(),
            chunks: self.chunks.clone(),
        };
        if ContentHash::of(&json(&root)) != self.hash {
            return Err(damaged(self.hash));
        }
        let text = markup::render(&self.layout(store)?);
        if ContentHash::of(text.as_bytes()) != self.settings.text {
            return Err(Error::damage(format!(
                "snapshot {} does not render to the same bytes: the text form differs",
                self.hash
            ))
            .advise("it was saved by a version that renders differently"));
        }
        Ok(self.entries.len())
    }

    /// Returns the blocks that differ between two requests, in order.
    pub fn changes(&self, store: &dyn Snapshots, previous: &Saved) -> Result<Vec<Change>, Error> {
        let key = |entry: &Entry| (entry.layer.clone(), entry.id.clone());
        let text = |saved: &Saved, entry: &Entry| -> Result<String, Error> {
            let body = saved.bodies(store, &[entry.body])?.remove(0);
            Ok(String::from_utf8_lossy(&body).into_owned())
        };
        let mut changes = Vec::new();
        let before: BTreeMap<_, &Entry> = previous
            .entries
            .iter()
            .map(|entry| (key(entry), entry))
            .collect();
        let now: std::collections::BTreeSet<_> = self.entries.iter().map(key).collect();
        for entry in previous
            .entries
            .iter()
            .filter(|entry| !now.contains(&key(entry)))
        {
            changes.push(Change::of(entry, Some(text(previous, entry)?), None));
        }
        for entry in &self.entries {
            match before.get(&key(entry)) {
                None => changes.push(Change::of(entry, None, Some(text(self, entry)?))),
                Some(old) if old.body != entry.body || old.part != entry.part => {
                    changes.push(Change::of(
                        entry,
                        Some(text(previous, old)?),
                        Some(text(self, entry)?),
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(changes)
    }

    /// Returns what the blocks cost together.
    pub fn tokens(&self) -> Tokens {
        self.entries.iter().map(|entry| entry.tokens).sum()
    }

    /// Returns what it might use.
    pub fn available(&self) -> Tokens {
        let window = self.tokens().saturating_add(self.settings.spare);
        window.saturating_sub(self.settings.max_output.unwrap_or(0))
    }

    /// Returns what everything but history costs.
    pub fn tokens_beside_history(&self) -> Tokens {
        let others = self.entries.iter();
        let others = others.filter(|entry| entry.section != Section::History);
        others.map(|entry| entry.tokens).sum()
    }

    /// Returns what it is made of, without the content: who it was for, and
    /// each block with its layer, its cost and the hash of its text.
    pub fn contents(&self) -> Contents<'_> {
        Contents {
            hash: self.hash,
            model: &self.settings.model,
            max_output: self.settings.max_output,
            tokens: self.tokens(),
            agent: self.settings.agent.as_ref(),
            blocks: &self.entries,
        }
    }

    /// Returns its [contents](Saved::contents) as JSON.
    pub fn to_json(&self) -> Value {
        to_json!(self.contents())
    }

    /// Returns the most tokens of the answer, when that was limited.
    pub fn max_output(&self) -> Option<u64> {
        self.settings.max_output
    }

    /// Returns what tells each block from others, in order.
    pub(crate) fn block_keys(&self) -> Vec<BlockKey> {
        let keys = self.entries.iter();
        keys.map(|entry| (Arc::clone(&entry.layer), Arc::clone(&entry.id), entry.body))
            .collect()
    }

    /// Returns the blocks as a report lists them, without their content.
    pub(crate) fn reported_blocks(&self) -> Vec<ReportedBlock> {
        let block = |entry: &Entry| ReportedBlock {
            section: match entry.section {
                Section::System => "system",
                Section::History => "history",
                Section::Current => "current",
            },
            layer: entry.layer.to_string(),
            id: entry.id.to_string(),
            role: entry.role,
            trust: entry.trust,
            path: entry.path.as_ref().map(ToString::to_string),
            kind: entry.part.kind(),
            tool: entry.part.tool().map(ToString::to_string),
            tokens: entry.tokens,
            bytes: entry.bytes,
            text: None,
            row: None,
            since: None,
        };
        self.entries.iter().map(block).collect()
    }

    /// Returns the model it was made for.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// Returns how many blocks there are.
    pub fn blocks(&self) -> usize {
        self.entries.len()
    }
}

/// What a request is made of, without its content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotContents"))]
pub struct Contents<'a> {
    /// The hash that identifies the request.
    pub hash: ContentHash,
    /// The model it was made for.
    pub model: &'a str,
    /// Most tokens of the answer, when that was limited.
    pub max_output: Option<u64>,
    /// The size of the request, in tokens.
    pub tokens: Tokens,
    /// The agent that the request was assembled for.
    pub agent: Option<&'a Agent>,
    /// Its blocks in order, each with its layer, its cost and the hash of its
    /// text.
    blocks: &'a [Entry],
}

/// The differences between two requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotDifference"))]
pub struct Comparison {
    /// The common beginning of both requests.
    pub cache: CacheReport,
    /// The usage that the provider reported for the later request. Null if it
    /// was not recorded.
    pub usage: Option<Usage>,
    /// The number of tokens of the later request.
    pub tokens: Tokens,
    /// The blocks that differ.
    pub changes: Vec<Change>,
}

/// A block that differs between two requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "BlockChange"))]
pub struct Change {
    /// The layer of the block.
    pub layer: Arc<str>,
    /// The id of the block.
    pub id: Arc<str>,
    /// The number of tokens of the block.
    pub tokens: Tokens,
    /// The content in the earlier request. Null if the block is new.
    pub before: Option<String>,
    /// The content in the later request. Null if the block was removed.
    pub now: Option<String>,
}

impl Change {
    /// Returns the change from one block to another, one of which may be absent.
    pub(crate) fn between(before: Option<&Block>, now: Option<&Block>) -> Self {
        let named = now.or(before);
        let text = |block: &Block| block.body().to_owned();
        Self {
            layer: named.map_or_else(|| "".into(), |block| Arc::clone(&block.layer)),
            id: named.map_or_else(|| "".into(), |block| Arc::clone(&block.id)),
            tokens: named.map_or(0, |block| block.tokens),
            before: before.map(text),
            now: now.map(text),
        }
    }

    fn of(entry: &Entry, before: Option<String>, now: Option<String>) -> Self {
        Self {
            layer: Arc::clone(&entry.layer),
            id: Arc::clone(&entry.id),
            tokens: entry.tokens,
            before,
            now,
        }
    }
}

fn fetch(store: &dyn Snapshots, hashes: &[ContentHash]) -> Result<Vec<Vec<u8>>, Error> {
    let found = store.blobs(hashes)?;
    let mut blobs = Vec::with_capacity(found.len());
    for (hash, bytes) in hashes.iter().zip(found) {
        let bytes = bytes.ok_or_else(|| {
            Error::damage(format!(
                "content {hash} of the snapshot is missing from the store"
            ))
        })?;
        if ContentHash::of(&bytes) != *hash {
            return Err(damaged(*hash));
        }
        blobs.push(bytes);
    }
    Ok(blobs)
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::damage(format!("a snapshot cannot be read: {error}")))
}

fn damaged(hash: ContentHash) -> Error {
    Error::damage(format!(
        "content {hash} of the snapshot does not match its hash"
    ))
    .advise("the store is damaged; restore it from a backup")
}

/// The part of a request's current message that enters history when the answer
/// is recorded.
#[derive(Debug, Clone, Default)]
pub struct CurrentMessage {
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
    /// The mark of the boundary tags in the request.
    pub mark: Mark,
}

impl CurrentMessage {
    /// Returns that of a request which was just made, and its size in bytes, unless
    /// it holds more than text.
    pub(crate) fn of(layout: &Layout) -> Option<(Self, usize)> {
        let recorded = || layout.current.iter().filter(|block| block.recorded);
        let is_text = |block: &Block| block.part == Part::Text && block.native.is_none();
        let message = Self {
            blocks: recorded().cloned().collect(),
            mark: layout.mark,
        };
        let bytes = recorded().map(|block| block.body().len() + 256).sum();
        recorded().all(is_text).then_some((message, bytes))
    }

    /// Loads it. The cost does not depend on the length of the history before
    /// it.
    pub fn load(store: &dyn Snapshots, snapshot: &Snapshot) -> Result<Self, Error> {
        let root: RootBlob = parse(&fetch(store, &[snapshot.root])?[0])?;
        let mut entries: Vec<Entry> = Vec::new();
        // The current message has chunks of its own, which are the last.
        for chunk in root.chunks.iter().rev() {
            let chunk = parse::<Vec<Entry>>(&fetch(store, &[*chunk])?[0])?;
            let is_current = |entry: &Entry| entry.section == Section::Current;
            if !chunk.iter().all(is_current) {
                break;
            }
            entries.splice(..0, chunk);
        }
        entries.retain(|entry| entry.recorded);
        let hashes: Vec<ContentHash> = entries.iter().map(|entry| entry.body).collect();
        let bodies = fetch(store, &hashes)?;
        let load = |hash| Ok(fetch(store, &[hash])?.swap_remove(0));
        let blocks = entries.iter().zip(bodies);
        Ok(Self {
            blocks: blocks
                .map(|(entry, body)| entry.block(&load, body))
                .collect::<Result<_, _>>()?,
            mark: root.settings.mark,
        })
    }
}

/// Finds the one snapshot whose hash begins with `prefix`.
pub fn find(store: &dyn Snapshots, prefix: &str) -> Result<Snapshot, Error> {
    let is_hex = prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
    if prefix.len() < 4 || prefix.len() > 64 || !is_hex {
        return Err(Error::input(format!(
            "`{prefix}` is not a hash; give at least 4 hexadecimal digits"
        ))
        .advise(Advice::call(Operation::ListSnapshots)));
    }
    let mut found = store.find_snapshots(&prefix.to_ascii_lowercase())?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::input(format!("no snapshot `{prefix}`"))
            .because(Cause::Missing)
            .advise(Advice::call(Operation::ListSnapshots))),
        _ => Err(Error::input(format!(
            "`{prefix}` matches several snapshots; give more digits"
        ))),
    }
}

mod compare;
#[cfg(test)]
mod tests;
