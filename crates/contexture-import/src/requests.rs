//! Rebuilds requests from the pieces that a transcript records.
//!
//! Messages are known by their digest. A request is a list of digests, often
//! given as the first messages of an earlier request and those after them.

use std::collections::{HashMap, VecDeque};

use contexture_core::ContentHash;
use contexture_engine::snapshot::recorded::{CHUNK, CacheMark, RecordedRequest, chunk};
use contexture_store::Blob;
use serde::{Deserialize, Serialize};

use crate::canonical::Sha;

/// The maximum number of remembered requests that others may be based on.
const MOST_BASES: usize = 32;

/// The maximum number of remembered chunks of messages.
const MOST_CHUNKS: usize = 65_536;

/// The messages and the latest requests of a file.
#[derive(Default)]
pub(crate) struct Requests {
    // The content of each message, and its number by its digest.
    messages: Vec<ContentHash>,
    by_digest: HashMap<Sha, u32>,
    // Content that is not handed out yet.
    fresh: Vec<Blob>,
    // Oldest first.
    bases: VecDeque<Base>,
    chunks: HashMap<Box<[u32]>, ContentHash>,
}

/// A request that others may be based on.
#[derive(Clone, Serialize, Deserialize)]
struct Base {
    id: String,
    messages: Vec<u32>,
    // The hash of the snapshot.
    root: Option<ContentHash>,
}

/// The part of it that is stored between imports.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RequestsState {
    digests: Vec<(ContentHash, ContentHash)>,
    bases: Vec<Base>,
}

impl Requests {
    /// Continues from a stored state.
    pub(crate) fn from_state(state: RequestsState) -> Self {
        let mut requests = Self::default();
        for (digest, content) in state.digests {
            let number = u32::try_from(requests.messages.len()).unwrap_or(u32::MAX);
            requests.messages.push(content);
            requests.by_digest.insert(*digest.as_bytes(), number);
        }
        requests.bases = state.bases.into();
        requests
    }

    /// Returns the state to be stored.
    pub(crate) fn state(&self) -> RequestsState {
        let mut digests = vec![(ContentHash::of(b""), ContentHash::of(b"")); self.messages.len()];
        for (digest, number) in &self.by_digest {
            if let Some(slot) = digests.get_mut(*number as usize) {
                let content = self.messages[*number as usize];
                *slot = (ContentHash::from_bytes(*digest), content);
            }
        }
        RequestsState {
            digests,
            bases: self.bases.iter().cloned().collect(),
        }
    }

    /// Returns true if a message with that digest is known.
    pub(crate) fn knows(&self, digest: &Sha) -> bool {
        self.by_digest.contains_key(digest)
    }

    /// Returns a message that is not handed out yet.
    pub(crate) fn fresh_bytes(&self, number: u32) -> Option<&[u8]> {
        let handed_out = self.messages.len() - self.fresh.len();
        let at = (number as usize).checked_sub(handed_out)?;
        self.fresh.get(at).map(|blob| blob.bytes.as_slice())
    }

    /// Adds a message unless one with that digest is known.
    pub(crate) fn add(&mut self, digest: Sha, bytes: Vec<u8>) {
        if !self.knows(&digest) {
            self.add_blob(digest, crate::writer::blob(bytes));
        }
    }

    fn add_blob(&mut self, digest: Sha, blob: Blob) {
        if self.knows(&digest) {
            return;
        }
        let number = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        self.messages.push(blob.hash);
        self.by_digest.insert(digest, number);
        self.fresh.push(blob);
    }

    /// Returns the number of a message that has no digest in the file.
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> u32 {
        // The hash of the content is the digest, so that it is hashed once.
        let blob = crate::writer::blob(bytes.to_vec());
        let digest = *blob.hash.as_bytes();
        self.add_blob(digest, blob);
        self.by_digest.get(&digest).copied().unwrap_or(0)
    }

    /// Returns the numbers of the messages of a request: the first `keep` of
    /// `base`, and `tail`. Returns `None` if one of them is unknown.
    pub(crate) fn list(&self, base: Option<&str>, keep: usize, tail: &[Sha]) -> Option<Vec<u32>> {
        let mut list = Vec::with_capacity(keep + tail.len());
        if keep > 0 {
            let base = base?;
            let mut known = self.bases.iter().rev();
            let base = known.find(|known| known.id == base)?;
            list.extend_from_slice(base.messages.get(..keep)?);
        }
        for digest in tail {
            list.push(*self.by_digest.get(digest)?);
        }
        Some(list)
    }

    /// Returns the hash of the snapshot of a request.
    pub(crate) fn root(&self, id: &str) -> Option<ContentHash> {
        let mut known = self.bases.iter().rev();
        known.find(|known| known.id == id)?.root
    }

    /// Makes a request from messages by number. Returns its root and the new
    /// content.
    pub(crate) fn build(
        &mut self,
        id: &str,
        list: Vec<u32>,
        shape: Shape<'_>,
        marks: Vec<CacheMark>,
    ) -> (ContentHash, Vec<Blob>) {
        let mut blobs = std::mem::take(&mut self.fresh);
        let (full, tail) = list.as_chunks::<CHUNK>();
        let mut chunks = Vec::with_capacity(full.len());
        for numbers in full {
            let hash = match self.chunks.get(&numbers[..]) {
                Some(hash) => *hash,
                None => {
                    let messages: Vec<ContentHash> = numbers
                        .iter()
                        .map(|number| self.messages[*number as usize])
                        .collect();
                    let blob = chunk(&messages);
                    let hash = blob.hash;
                    blobs.push(blob);
                    if self.chunks.len() >= MOST_CHUNKS {
                        self.chunks.clear();
                    }
                    self.chunks
                        .insert(numbers.to_vec().into_boxed_slice(), hash);
                    hash
                }
            };
            chunks.push(hash);
        }
        let request = RecordedRequest {
            api: shape.api.to_owned(),
            model: shape.model.to_owned(),
            fields: shape.fields,
            list: shape.list.to_owned(),
            chunks,
            tail: tail
                .iter()
                .map(|number| self.messages[*number as usize])
                .collect(),
            marks,
        };
        let root = request.root();
        let hash = root.hash;
        blobs.push(root);
        self.remember(id, list, Some(hash));
        (hash, blobs)
    }

    fn remember(&mut self, id: &str, messages: Vec<u32>, root: Option<ContentHash>) {
        if self.bases.len() >= MOST_BASES {
            self.bases.pop_front();
        }
        self.bases.push_back(Base {
            id: id.to_owned(),
            messages,
            root,
        });
    }
}

/// Everything of a request but its conversation.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) api: &'a str,
    pub(crate) model: &'a str,
    pub(crate) fields: ContentHash,
    pub(crate) list: &'a str,
}
