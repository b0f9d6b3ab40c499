//! [`take`]: makes a snapshot of a request.
//!
//! A snapshot is a list of blocks in chunks of 32, stored by hash. Chunks and
//! contents that the previous request of the session already stored are
//! referenced, so that a snapshot costs as much as the new part of the request.

use std::cell::RefCell;
use std::sync::Arc;

use contexture_core::{Block, ContentHash, Layout, Part, Section, Tokens, markup};
use contexture_providers::Prompt;
use contexture_store::{Blob, Snapshot, TurnId};
use jiff::Timestamp;

use super::Saved;
use super::form::{
    Agent, Entry, RootBlob, SavedFields, SavedNative, SavedPart, Settings, json, put,
};
use crate::request::GivenFields;

/// The number of blocks in a chunk of the list.
const CHUNK: usize = 32;

/// The most bytes of texts that are remembered with a request.
const MOST_NEW_BYTES: usize = 8 * 1024;

/// The request of a new snapshot, and the data stored with it.
pub(crate) struct NewSnapshot<'a> {
    pub(crate) session: &'a str,
    pub(crate) parent_turn: Option<TurnId>,
    pub(crate) prompt: &'a Prompt<'a>,
    /// The tokens of the blocks.
    pub(crate) tokens: Tokens,
    pub(crate) counter: &'a str,
    pub(crate) agent: Option<Agent>,
    /// The fields around the conversation that are sent as they were given.
    pub(crate) given: Option<&'a GivenFields>,
    /// Whether secrets in these fields are masked in the store.
    pub(crate) mask_secrets: bool,
    /// False to remember only the structure: nothing is rendered then.
    pub(crate) keep: bool,
    pub(crate) now: Timestamp,
}

/// Takes a snapshot of a request. Returns it with the content that `previous`
/// does not hold.
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
    // The new blocks of each request have a chunk of their own, so that the
    // last chunk of history need not be written again.
    let (standing, current) = entries.split_at(entries.len() - layout.current.len());
    let mut lengths = Vec::new();
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut same_so_far = true;
    for chunk in standing.chunks(CHUNK).chain(current.chunks(CHUNK)) {
        // An unchanged chunk was saved with the previous request.
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
        follows_stored: made.prompt.follows_stored,
        sampling: made.prompt.sampling.clone(),
        cache_key: made.prompt.cache_key.map(str::to_owned),
        deferred: saved_tools(made.prompt.deferred, previous, &mut blobs),
        text: match made.keep {
            true => text_hash(layout),
            false => ContentHash::of(b""),
        },
        agent: made.agent.clone(),
        given: made.given.map(|given| {
            let known = previous.and_then(|previous| previous.settings.given.as_ref());
            SavedFields::of(given, made.mask_secrets, known, &mut blobs)
        }),
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
        tokens: made.tokens + settings.given.as_ref().map_or(0, SavedFields::tokens),
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
        starts: Arc::default(),
        durability: Arc::default(),
        recorded: None,
        made_at: made.now,
    };
    (saved, snapshot, blobs)
}

/// Returns the stored form of the tools that the model can search for. It is
/// added to the blobs unless the previous request had the same tools.
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

/// Returns the hash of the text form, which is written into a reused buffer,
/// because it is large and not needed afterwards.
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

/// Returns the short texts of the current message.
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
