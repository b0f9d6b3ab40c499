//! Snapshots: assembled requests, stored by content hash, that can be rendered
//! again and compared.
//!
//! A snapshot is a list of blocks in chunks. Content and chunks are stored by
//! their hash, so the next request of a session adds little more than its new
//! content.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use contexture_core::guard::Mark;
use contexture_core::{Block, ContentHash, Layout, Part, Role, Section, Text, Tokens, markup};
use contexture_providers::{Format, Prompt, Refused};
use contexture_store::{Snapshot, Snapshots};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json as to_json};

use crate::advice::{Advice, Operation};
use crate::error::{Cause, Error};
use crate::request::GivenFields;
use crate::stored_report::ReportedBlock;

/// The identity of a block: its layer, its id and its content.
pub(crate) type BlockKey = (Arc<str>, Arc<str>, ContentHash);

mod compare;
mod form;
mod recent;
pub mod recorded;
mod take;
#[cfg(test)]
mod tests;

pub use compare::{Change, Comparison};
pub use form::Agent;
pub(crate) use recent::RecentRequests;
pub(crate) use take::{NewSnapshot, take};

use form::{Entry, RootBlob, SavedFields, SavedNative, SavedPart, Settings, json};
use recorded::{LoadedConversation, RecordedBody};

/// A request that can be rendered again.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The hash that identifies the request.
    pub hash: ContentHash,
    /// The data that rendering needs.
    settings: Settings,
    entries: Vec<Entry>,
    chunks: Vec<ContentHash>,
    // The number of blocks in each chunk.
    lengths: Vec<usize>,
    // The new texts of the request, if they are short and it was assembled
    // here: the next request most likely differs from it there.
    new: Vec<(ContentHash, Arc<str>)>,
    // The byte of the text form at which blocks start, as far as it is known.
    starts: Arc<Mutex<Vec<u64>>>,
    durability: Arc<AtomicU8>,
    // The body that another program sent, if it was not assembled here. Texts
    // of blocks are derived from it, and are not in the store.
    recorded: Option<Arc<RecordedBody>>,
    // The time of the request: the provider's cache expires.
    made_at: Timestamp,
}

/// The state of a snapshot's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Durability {
    /// The snapshot is on disk, or was never pending.
    Saved,
    /// The snapshot is being written.
    Pending,
    /// The snapshot could not be written.
    Failed,
}

/// Compares only the request itself, not the cached data next to it.
impl PartialEq for Saved {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.settings == other.settings
            && self.entries == other.entries
            && self.chunks == other.chunks
    }
}

/// The parts of the request that was loaded last.
#[derive(Debug, Default)]
pub struct LoadedChunks {
    chunks: BTreeMap<ContentHash, Vec<Entry>>,
    conversation: LoadedConversation,
}

impl Saved {
    /// Loads a snapshot's list of blocks, without their content.
    pub fn load(store: &dyn Snapshots, snapshot: &Snapshot) -> Result<Self, Error> {
        let root = fetch(store, &[snapshot.root])?.swap_remove(0);
        match recorded::read(&root)? {
            Some(recorded) => recorded.load(store, snapshot),
            None => Self::load_parts(&root, store, snapshot, &mut LoadedChunks::default()),
        }
    }

    /// Loads a snapshot like [`load`](Self::load), and reads only the parts
    /// that the previous one, loaded with the same `chunks`, did not have.
    pub fn load_with(
        store: &dyn Snapshots,
        snapshot: &Snapshot,
        chunks: &mut LoadedChunks,
    ) -> Result<Self, Error> {
        let root = fetch(store, &[snapshot.root])?.swap_remove(0);
        if let Some(recorded) = recorded::read(&root)? {
            return recorded.load_after(store, snapshot, &mut chunks.conversation);
        }
        Self::load_parts(&root, store, snapshot, chunks)
    }

    fn load_parts(
        root: &[u8],
        store: &dyn Snapshots,
        snapshot: &Snapshot,
        chunks: &mut LoadedChunks,
    ) -> Result<Self, Error> {
        let root: RootBlob = parse(root)?;
        let mut entries = Vec::new();
        let mut lengths = Vec::new();
        let mut loaded = BTreeMap::new();
        for hash in &root.chunks {
            let chunk = match chunks.chunks.remove(hash).or_else(|| loaded.remove(hash)) {
                Some(chunk) => chunk,
                None => parse::<Vec<Entry>>(&fetch(store, &[*hash])?[0])?,
            };
            lengths.push(chunk.len());
            entries.extend_from_slice(&chunk);
            loaded.insert(*hash, chunk);
        }
        chunks.chunks = loaded;
        Ok(Self {
            hash: snapshot.hash,
            settings: root.settings,
            entries,
            chunks: root.chunks,
            lengths,
            new: Vec::new(),
            starts: Arc::default(),
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

    /// Sets whether the snapshot is saved, for all clones.
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

    /// Returns the ids of the blocks of history, oldest first, each with the
    /// hash of its shown text.
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
    /// another program sent has the body that was recorded, in its own form. A
    /// provider's own request that was fitted has its other fields as they were
    /// given, in its own form.
    pub fn render(&self, store: &dyn Snapshots, format: Format) -> Result<String, Error> {
        if let Some(recorded) = &self.recorded
            && recorded.format() == Some(format)
        {
            return recorded.body(store);
        }
        let layout = self.layout(store)?;
        let deferred = self.deferred(store)?;
        let prompt = Prompt {
            layout: &layout,
            model: &self.settings.model,
            max_output: self.settings.max_output,
            spare: self.settings.spare,
            continues: self.settings.continues,
            follows_stored: self.settings.follows_stored,
            sampling: &self.settings.sampling,
            cache_key: self.settings.cache_key.as_deref(),
            deferred: &deferred,
        };
        let refused = |refused: Refused| Error::input(refused.to_string());
        match self.given(store)? {
            Some(given) if given.api.format() == format => {
                let messages = prompt.render_messages(given.api).map_err(refused)?;
                let body = given.with_messages(&messages).map(|(body, _)| body);
                body.map_err(|error| Error::input(error.to_string()))
            }
            _ => prompt.render(format).map_err(refused),
        }
    }

    /// Returns the form of a request that was a provider's own: another program
    /// sent it, or it was fitted.
    pub fn own_format(&self) -> Option<Format> {
        let recorded = self.recorded.as_ref();
        let recorded = recorded.and_then(|recorded| recorded.format());
        recorded.or(self.settings.given.as_ref().map(|given| given.format))
    }

    /// Returns the fields around the conversation, if they were given in a
    /// provider's own request.
    fn given(&self, store: &dyn Snapshots) -> Result<Option<GivenFields>, Error> {
        let Some(given) = &self.settings.given else {
            return Ok(None);
        };
        let body = fetch(store, &[given.body])?.swap_remove(0);
        given.read(body).map(Some)
    }

    /// Checks that all content is stored and unchanged, and that the request
    /// renders with the same bytes. Returns the number of blocks.
    pub fn check(&self, store: &dyn Snapshots) -> Result<usize, Error> {
        if let Some(recorded) = &self.recorded {
            // The pieces were compared with their hashes when they were read.
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
        let mut changes = self.given_changes(store, previous)?;
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

    /// Returns the changes of the tools and instructions that were given around the
    /// conversation.
    fn given_changes(&self, store: &dyn Snapshots, previous: &Saved) -> Result<Vec<Change>, Error> {
        let (Some(now), Some(before)) = (&self.settings.given, &previous.settings.given) else {
            return Ok(Vec::new());
        };
        let parts = [
            ("tools", now.tools, before.tools),
            ("system", now.system, before.system),
        ];
        let changed = parts.iter().filter(|(_, now, before)| now != before);
        let mut changes = Vec::new();
        for (name, now, _) in changed {
            let text = |saved: &Saved| -> Result<Option<String>, Error> {
                let given = saved.given(store)?;
                Ok(given.and_then(|given| given.field(name)))
            };
            changes.push(Change {
                layer: (*name).into(),
                id: (*name).into(),
                tokens: now.tokens,
                before: text(previous)?,
                now: text(self)?,
            });
        }
        Ok(changes)
    }

    /// Returns the tokens of the request: of all blocks, and of the fields that were
    /// given.
    pub fn tokens(&self) -> Tokens {
        let given = self.settings.given.as_ref().map_or(0, SavedFields::tokens);
        self.tokens_of_blocks() + given
    }

    fn tokens_of_blocks(&self) -> Tokens {
        self.entries.iter().map(|entry| entry.tokens).sum()
    }

    /// Returns the tokens that were available to the request.
    pub fn available(&self) -> Tokens {
        let window = self.tokens_of_blocks();
        let window = window.saturating_add(self.settings.spare);
        window.saturating_sub(self.settings.max_output.unwrap_or(0))
    }

    /// Returns the tokens of everything but history.
    pub fn tokens_without_history(&self) -> Tokens {
        let others = self.entries.iter();
        let others = others.filter(|entry| entry.section != Section::History);
        others.map(|entry| entry.tokens).sum()
    }

    /// Returns the structure of the request without the content: the agent, and
    /// each block with its layer, its tokens and the hash of its text.
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

    /// Returns the [contents](Saved::contents) as JSON.
    pub fn to_json(&self) -> Value {
        to_json!(self.contents())
    }

    /// Returns the maximum number of tokens of the answer, or `None` if there
    /// was no limit.
    pub fn max_output(&self) -> Option<u64> {
        self.settings.max_output
    }

    /// Returns the identity of each block, in order.
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

    /// Returns the model that the request was made for.
    pub fn model(&self) -> &str {
        &self.settings.model
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.entries.len()
    }
}

/// The structure of a request, without its content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SnapshotContents"))]
pub struct Contents<'a> {
    /// The hash that identifies the request.
    pub hash: ContentHash,
    /// The model that the request was made for.
    pub model: &'a str,
    /// The maximum number of tokens of the answer. Null if there was no limit.
    pub max_output: Option<u64>,
    /// The size of the request, in tokens.
    pub tokens: Tokens,
    /// The agent that the request was assembled for.
    pub agent: Option<&'a Agent>,
    /// The blocks in order, each with its layer, its tokens and the hash of its
    /// text.
    blocks: &'a [Entry],
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
    /// The blocks of the message, in order.
    pub blocks: Vec<Block>,
    /// The mark of the boundary tags in the request.
    pub mark: Mark,
}

impl CurrentMessage {
    /// Returns the current message of a new request, and its size in bytes.
    /// Returns `None` if it holds more than text.
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

    /// Loads the current message of a snapshot. The cost does not depend on the
    /// length of the history before it.
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
