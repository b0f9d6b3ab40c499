//! Snapshots of assembled requests, samples for calibration, and the [`Store`]
//! trait, which combines all parts of a store.

use contexture_core::{ContentHash, Tokens};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::TurnId;

/// An assembled request that was saved, without its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// The hash of the content of the request.
    pub hash: ContentHash,
    /// The label of the session.
    pub session: String,
    /// The head of the session when the request was assembled. The turn that
    /// answers the request has this parent.
    pub parent_turn: Option<TurnId>,
    /// The model that the request was assembled for.
    pub model: String,
    /// The number of tokens of the request.
    pub tokens: Tokens,
    /// The name of the tokenizer that counted the tokens.
    pub counter: String,
    /// The hash of the blob that lists the content of the request.
    pub root: ContentHash,
    /// The time when the request was assembled.
    pub created_at: Timestamp,
}

/// A snapshot to save in the background.
pub struct PendingSnapshot {
    /// The description of the request.
    pub snapshot: Snapshot,
    /// The content of the request that may not be stored yet.
    pub blobs: Vec<Blob>,
    /// The report of the request, like that of
    /// [`put_snapshot_report`](Snapshots::put_snapshot_report).
    pub report: Option<Vec<u8>>,
    /// The hash of the pending snapshot that holds the rest of the content, if
    /// there is one. If that snapshot is not saved, this one is not, either.
    pub builds_on: Option<ContentHash>,
    /// Turns of the session that the request was made of, among them the oldest;
    /// `None` if it was made of no session. If the session or one of these turns
    /// was deleted meanwhile, the snapshot is not saved.
    pub made_of: Option<Vec<TurnId>>,
    /// Called when the snapshot is saved, or with the error.
    pub done: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// Content that is stored under its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The hash of the bytes.
    pub hash: ContentHash,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Stores assembled requests. Content is stored once under its hash, however
/// many requests contain it.
pub trait Snapshots: Send + Sync {
    /// Saves a snapshot and its new content. A snapshot that exists becomes the
    /// latest of its session.
    fn put_snapshot(&self, snapshot: &Snapshot, blobs: &[Blob]) -> Result<(), StoreError>;

    /// Saves a snapshot like [`put_snapshot`](Self::put_snapshot), but in the
    /// background; calls `pending.done` at the end. Later writes through this
    /// store are not saved before it, and reads of snapshots or content find it.
    /// Dropping the store saves it.
    fn put_snapshot_later(&self, pending: PendingSnapshot) {
        (pending.done)(self.put_snapshot(&pending.snapshot, &pending.blobs));
    }

    /// Returns the latest snapshot of a session. A
    /// [pending](Self::put_snapshot_later) one can be missing.
    fn latest_snapshot(&self, session: &str) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.snapshots(Some(session), 1)?.into_iter().next())
    }

    /// Returns the snapshots whose hash, in hexadecimal, begins with `prefix`:
    /// at most two, which is enough to see that a prefix is ambiguous. The same
    /// request for several sessions counts once.
    fn find_snapshots(&self, prefix: &str) -> Result<Vec<Snapshot>, StoreError>;

    /// Returns the latest `limit` snapshots, of one session or of all, newest
    /// first.
    fn snapshots(&self, session: Option<&str>, limit: usize) -> Result<Vec<Snapshot>, StoreError>;

    /// Returns the `limit` snapshots before `before`, of one session or of all,
    /// newest first: the next page of [`snapshots`](Self::snapshots). An unknown
    /// snapshot has none before it.
    fn snapshots_before(
        &self,
        session: Option<&str>,
        before: ContentHash,
        limit: usize,
    ) -> Result<Vec<Snapshot>, StoreError> {
        let all = self.snapshots(session, usize::MAX)?.into_iter();
        let after = all.skip_while(|snapshot| snapshot.hash != before).skip(1);
        Ok(after.take(limit).collect())
    }

    /// Saves the report of a snapshot, as bytes that the store does not read.
    /// It is saved in the background, after the snapshot, and replaces an
    /// earlier report. Deleting the snapshot deletes it. A store that does not
    /// support reports discards it.
    fn put_snapshot_report(&self, hash: ContentHash, report: Vec<u8>) {
        let _ = (hash, report);
    }

    /// Returns the report of a snapshot, if the store has one.
    fn snapshot_report(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        let _ = hash;
        Ok(None)
    }

    /// Returns the secret from which the marks of boundary tags are derived.
    /// The first caller sets it to `new`; from then on it is the same for every
    /// handle and every process.
    fn mark_key(&self, new: [u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Returns content in the order of `hashes`; `None` for missing content.
    fn blobs(&self, hashes: &[ContentHash]) -> Result<Vec<Option<Vec<u8>>>, StoreError>;

    /// Returns true if the content of all `hashes` is stored. The content itself
    /// is not read.
    fn has_blobs(&self, hashes: &[ContentHash]) -> Result<bool, StoreError>;
}

/// The token counts of one request: Contexture's and the provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The number of tokens that Contexture counted.
    pub counted: Tokens,
    /// The number of input tokens that the provider reported.
    pub actual: Tokens,
}

/// A [sample](Sample) that is recorded in the same transaction as the turn that
/// answers its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSample {
    /// The parent that the request was assembled for. A turn with another
    /// parent answers another request.
    pub parent: Option<crate::TurnId>,
    /// The name of the model that the sample belongs to.
    pub model: String,
    /// The name of the tokenizer that counted the request.
    pub counter: String,
    /// The two counts.
    pub sample: Sample,
}

/// Stores token counts for calibration.
pub trait Samples: Send + Sync {
    /// Stores a sample of a model and a counter. The sample of a turn is stored
    /// [with the turn](crate::Ledger::record).
    fn put_sample(&self, model: &str, counter: &str, sample: Sample) -> Result<(), StoreError>;

    /// Returns the latest `limit` samples, newest first.
    fn samples(&self, model: &str, counter: &str, limit: usize) -> Result<Vec<Sample>, StoreError>;

    /// Returns the names of the models that have samples of a counter, in
    /// alphabetical order.
    fn sampled_models(&self, counter: &str) -> Result<Vec<String>, StoreError>;
}

/// A whole store.
pub trait Store:
    crate::Ledger
    + Snapshots
    + Samples
    + crate::Trees
    + crate::Memories
    + crate::Tasks
    + crate::Imports
    + crate::Events
    + crate::Files
    + crate::Upkeep
    + crate::Archive
    + crate::DoneCalls
{
    /// Returns the address of the store, for messages.
    fn address(&self) -> String;
}
