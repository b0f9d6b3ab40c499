//! Rebuilds requests from the pieces that a transcript records.
//!
//! Messages are known by their digest. A request is a list of digests, often
//! given as the first messages of an earlier request and those after them.

use std::collections::{HashMap, VecDeque};

use contexture_core::ContentHash;
use contexture_engine::snapshot::recorded::{CHUNK, CacheMark, RecordedRequest, chunk};
use contexture_store::{Blob, Store, StoreError};
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
    // Content that was not returned yet.
    fresh: Vec<Blob>,
    // Oldest first.
    bases: VecDeque<Base>,
    chunks: HashMap<Box<[u32]>, ContentHash>,
    // The chunks of the latest request, and the blob that lists them.
    chunk_list: Option<(Vec<ContentHash>, ContentHash)>,
}

/// A request that others may be based on.
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
    bases: Vec<StoredBase>,
}

/// A request that others may be based on, as what it adds to the one before it.
#[derive(Serialize, Deserialize)]
struct StoredBase {
    id: String,
    // The number of messages that it has from the base before it. Earlier
    // versions wrote every message.
    #[serde(default)]
    shared: usize,
    messages: Vec<u32>,
    root: Option<ContentHash>,
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
        for stored in state.bases {
            let before = requests.bases.back().map(|base| &base.messages[..]);
            let shared = before.and_then(|before| before.get(..stored.shared));
            let mut messages = shared.unwrap_or_default().to_vec();
            messages.extend(stored.messages);
            requests.bases.push_back(Base {
                id: stored.id,
                messages,
                root: stored.root,
            });
        }
        requests
    }

    /// Returns the state to be stored. The messages must be taken first.
    pub(crate) fn state(&self) -> RequestsState {
        let mut digests = vec![(ContentHash::of(b""), ContentHash::of(b"")); self.messages.len()];
        for (digest, number) in &self.by_digest {
            if let Some(slot) = digests.get_mut(*number as usize) {
                let content = self.messages[*number as usize];
                *slot = (ContentHash::from_bytes(*digest), content);
            }
        }
        let mut before: &[u32] = &[];
        let mut bases = Vec::with_capacity(self.bases.len());
        for base in &self.bases {
            let pairs = before.iter().zip(&base.messages);
            let shared = pairs.take_while(|(one, other)| one == other).count();
            bases.push(StoredBase {
                id: base.id.clone(),
                shared,
                messages: base.messages[shared..].to_vec(),
                root: base.root,
            });
            before = &base.messages;
        }
        RequestsState { digests, bases }
    }

    /// Returns the content of all messages. It must be stored together with the
    /// state.
    pub(crate) fn contents(&self) -> Vec<ContentHash> {
        self.messages.clone()
    }

    /// Returns true if all messages of a stored state are in the store. A
    /// collection deletes messages that no request has yet, and messages of
    /// deleted requests.
    pub(crate) fn is_stored(state: &RequestsState, store: &dyn Store) -> Result<bool, StoreError> {
        let messages: Vec<ContentHash> =
            state.digests.iter().map(|(_, content)| *content).collect();
        store.has_blobs(&messages)
    }

    /// Returns the messages that were added since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<Blob> {
        std::mem::take(&mut self.fresh)
    }

    /// Returns true if a message with that digest is known.
    pub(crate) fn knows(&self, digest: &Sha) -> bool {
        self.by_digest.contains_key(digest)
    }

    /// Adds a message unless one with that digest is known. Returns the number of a
    /// new message.
    pub(crate) fn add(&mut self, digest: Sha, message: &str) -> Option<u32> {
        if self.knows(&digest) {
            return None;
        }
        Some(self.add_blob(digest, crate::writer::blob(message.as_bytes().to_vec())))
    }

    /// Adds a message that is not known.
    fn add_blob(&mut self, digest: Sha, blob: Blob) -> u32 {
        let number = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        self.messages.push(blob.hash);
        self.by_digest.insert(digest, number);
        self.fresh.push(blob);
        number
    }

    /// Returns the number of a message that has no digest in the file.
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> u32 {
        // The hash of the content is the digest, so that it is hashed once.
        let hash = ContentHash::of(bytes);
        let digest = *hash.as_bytes();
        if let Some(number) = self.by_digest.get(&digest) {
            return *number;
        }
        let bytes = bytes.to_vec();
        self.add_blob(digest, Blob { hash, bytes })
    }

    /// Returns the numbers of the messages of a request: the first `keep` of
    /// `base`, and `tail`. Returns `None` if one of them is unknown.
    pub(crate) fn list(&self, base: Option<&str>, keep: usize, tail: &[Sha]) -> Option<Vec<u32>> {
        let mut kept: &[u32] = &[];
        if keep > 0 {
            let base = base?;
            let mut known = self.bases.iter().rev();
            let base = known.find(|known| known.id == base)?;
            kept = base.messages.get(..keep)?;
        }
        let mut list = Vec::with_capacity(kept.len() + tail.len());
        list.extend_from_slice(kept);
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
        let mut blobs = self.take_fresh();
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
        let chunk_list = self.list_of(chunks, &mut blobs);
        let request = RecordedRequest {
            api: shape.api.to_owned(),
            model: shape.model.to_owned(),
            fields: shape.fields,
            list: shape.list.to_owned(),
            chunks: Vec::new(),
            chunk_list,
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

    /// Returns the blob that lists chunks, unless there are none. It is new once
    /// in many requests.
    fn list_of(&mut self, chunks: Vec<ContentHash>, blobs: &mut Vec<Blob>) -> Option<ContentHash> {
        if chunks.is_empty() {
            return None;
        }
        if let Some((known, hash)) = &self.chunk_list
            && *known == chunks
        {
            return Some(*hash);
        }
        let list = chunk(&chunks);
        let hash = list.hash;
        blobs.push(list);
        self.chunk_list = Some((chunks, hash));
        Some(hash)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn with(bases: &[&[u32]]) -> Requests {
        let mut requests = Requests::default();
        for (i, messages) in bases.iter().enumerate() {
            requests.remember(&i.to_string(), messages.to_vec(), None);
        }
        requests
    }

    #[test]
    fn bases_are_stored_as_what_they_add() {
        let all: [&[u32]; 5] = [&[1, 2, 3], &[1, 2, 3, 4, 5], &[1, 9], &[], &[7]];
        let text = serde_json::to_string(&with(&all).state()).unwrap();
        assert!(text.contains(r#""shared":3,"messages":[4,5]"#), "{text}");
        let read = Requests::from_state(serde_json::from_str(&text).unwrap());
        let lists: Vec<&[u32]> = read.bases.iter().map(|base| &base.messages[..]).collect();
        assert_eq!(lists, all);
        // Earlier versions stored each list in full.
        let old = r#"{"digests":[],"bases":[{"id":"a","messages":[1,2],"root":null},{"id":"b","messages":[1,2,3],"root":null}]}"#;
        let read = Requests::from_state(serde_json::from_str(old).unwrap());
        assert_eq!(read.bases[1].messages, [1, 2, 3]);
    }
}
