use contexture_core::{ContentHash, Tokens};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::id::TurnId;

/// A request that was assembled, without its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// The hash of everything that was sent.
    pub hash: ContentHash,
    /// The session it was made for.
    pub session: String,
    /// The head of the session at that time: the turn that answers it has this
    /// parent.
    pub parent_turn: Option<TurnId>,
    /// The model it was made for.
    pub model: String,
    /// What it counted.
    pub tokens: Tokens,
    /// What counted it.
    pub counter: String,
    /// The blob that lists what is in it.
    pub root: ContentHash,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A request that is to be kept soon.
pub struct Later {
    /// The request.
    pub snapshot: Snapshot,
    /// Its content, as far as it is new.
    pub blobs: Vec<Blob>,
    /// The request that holds the rest of it, if that one is on its way, too:
    /// without it, this one is not kept.
    pub builds_on: Option<ContentHash>,
    /// Is told when it is kept, or why it is not.
    pub done: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

/// Content, by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The hash of the bytes.
    pub hash: ContentHash,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What a store does for requests that were assembled. Content is kept once,
/// by its hash, however many requests hold it.
pub trait Snapshots: Send + Sync {
    /// Keeps a snapshot and the content that is new in it. One that is there
    /// already becomes the latest of its session.
    fn put_snapshot(&self, snapshot: &Snapshot, blobs: &[Blob]) -> Result<(), StoreError>;

    /// Keeps a request like [`put_snapshot`](Self::put_snapshot), without waiting
    /// until that is done; `later.done` is told. What is written through this
    /// store afterwards is not kept before it, and whoever asks for requests or
    /// content finds it. It is kept when the store is dropped.
    fn put_snapshot_later(&self, later: Later) {
        (later.done)(self.put_snapshot(&later.snapshot, &later.blobs));
    }

    /// Returns the latest request of a session that is kept. One that is
    /// [on its way](Self::put_snapshot_later) may be missing.
    fn latest_snapshot(&self, session: &str) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.snapshots(Some(session), 1)?.into_iter().next())
    }

    /// Returns the snapshots whose hash, in hexadecimal, begins with `prefix`:
    /// at most two, which is enough to tell that a prefix is ambiguous. The
    /// same request made for several sessions is one.
    fn find_snapshots(&self, prefix: &str) -> Result<Vec<Snapshot>, StoreError>;

    /// Returns the latest `limit` snapshots, of one session or of all, newest
    /// first.
    fn snapshots(&self, session: Option<&str>, limit: usize) -> Result<Vec<Snapshot>, StoreError>;

    /// Returns the secret from which the marks of boundary tags are derived.
    /// The first caller sets it to `new`; from then on it is the same for every
    /// handle and every process.
    fn mark_key(&self, new: [u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Returns content, in the order asked for; `None` for what is not there.
    fn blobs(&self, hashes: &[ContentHash]) -> Result<Vec<Option<Vec<u8>>>, StoreError>;
}

/// What a request was counted at, and what the provider counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Our count.
    pub counted: Tokens,
    /// The provider's.
    pub actual: Tokens,
}

/// A [sample](Sample) that is recorded together with the turn that answers its
/// request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSample {
    /// The parent that the request was made behind. A turn that is recorded
    /// behind another one answers another request.
    pub parent: Option<crate::TurnId>,
    /// The name of the model that the sample is kept under.
    pub model: String,
    /// The counter that the request was counted with.
    pub counter: String,
    /// What was counted.
    pub sample: Sample,
}

/// What a store does for calibration.
pub trait Samples: Send + Sync {
    /// Keeps a sample for a model and the counter it was counted with. That of
    /// a turn is kept [with the turn](crate::Ledger::record).
    fn put_sample(&self, model: &str, counter: &str, sample: Sample) -> Result<(), StoreError>;

    /// Returns the latest `limit` samples, newest first.
    fn samples(&self, model: &str, counter: &str, limit: usize) -> Result<Vec<Sample>, StoreError>;
}

/// Everything that a store does.
pub trait Store:
    crate::Ledger + Snapshots + Samples + crate::Trees + crate::Memories + crate::Tasks
{
    /// Returns where the store is, for messages.
    fn address(&self) -> String;
}
