//! Calls with an idempotency key, which run once however often they are sent.
//!
//! A caller that does not know the outcome of a call sends it again with the
//! same key. The first write of the call stores the key in the same
//! transaction, so that a call whose key is stored writes nothing. The response
//! is stored when it is known.

use contexture_core::ContentHash;
use jiff::Timestamp;

use crate::error::StoreError;

/// The longest idempotency key, in bytes.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// The number of hours that a key is stored.
pub const IDEMPOTENCY_HOURS: i64 = 24;

/// The longest answer that is stored, in bytes.
pub const MAX_STORED_ANSWER_BYTES: usize = 64 << 10;

/// A call with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentCall {
    /// The key, which the caller chooses.
    pub key: String,
    /// The hash of the call: a retry has the same.
    pub digest: ContentHash,
    /// The current time.
    pub now: Timestamp,
}

/// A call that was done before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneCall {
    /// The answer. `None` if it is not stored: the process ended before, the
    /// answer was longer than [`MAX_STORED_ANSWER_BYTES`], or something was
    /// deleted since.
    pub answer: Option<Vec<u8>>,
}

/// The calls with an idempotency key that a tenant has made.
///
/// A write inside [`Call::keyed`](crate::Call::keyed) fails with
/// [`StoreError::AlreadyDone`] if a write of the same call has stored the key, and
/// with [`StoreError::KeyReused`] if a write of another call has. A write that
/// fails stores no key.
pub trait DoneCalls: Send + Sync {
    /// Returns what is stored of the call, if it was done in the last
    /// [`IDEMPOTENCY_HOURS`]. Fails with [`StoreError::KeyReused`] if the key
    /// belongs to a call with another digest.
    fn done_call(&self, call: &IdempotentCall) -> Result<Option<DoneCall>, StoreError>;

    /// Stores the answer of a call that was done, and its key if no write of the
    /// call has. Without effect if the key belongs to another call. Of an answer
    /// that is longer than [`MAX_STORED_ANSWER_BYTES`], only the key is stored.
    ///
    /// A deletion removes all stored answers of the tenant, because they can have
    /// the text that is deleted. The keys stay.
    fn put_answer(&self, call: &IdempotentCall, answer: &[u8]) -> Result<(), StoreError>;
}
