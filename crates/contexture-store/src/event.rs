//! The trait [`Events`]: events in a tenant's sessions, for listeners.

use jiff::Timestamp;

use crate::error::StoreError;

/// Something that happened in a session. It carries ids and numbers, not content.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// The number of the event. Later events of the tenant have larger numbers.
    pub number: u64,
    /// The time of the event, on the clock of the server that recorded it.
    pub at: Timestamp,
    /// The kind of event, such as `turn_recorded`.
    pub kind: String,
    /// The label of the session.
    pub session: String,
    /// The fields of this kind of event.
    pub data: serde_json::Map<String, serde_json::Value>,
}

/// Events in the order of their numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventPage {
    /// The events.
    pub events: Vec<StoredEvent>,
    /// The number of the oldest event that is stored. 0 if there is none.
    pub oldest: u64,
    /// The number of the latest event. 0 if there was none.
    pub latest: u64,
}

/// The maximum number of events stored per tenant.
pub const MAX_EVENTS: u64 = 10_000;

/// Stores events. [`record`](crate::Ledger::record) and
/// [`compact`](crate::Ledger::compact) store theirs in their own transaction:
/// `turn_recorded` and `compacted`.
///
/// The numbers of a tenant's events are in the order of commits: a reader that has
/// seen an event never finds a new one with a smaller number. The latest
/// [`MAX_EVENTS`] events of the last seven days are kept; older ones are removed
/// when the number of a new one is a multiple of 64. Events are removed in the order
/// of their numbers: an old event after a younger one is removed after that one.
/// Another handle sees an event as soon as it is committed.
pub trait Events: Send + Sync {
    /// Stores an event. It is visible to all handles soon, and can be lost when the
    /// machine fails right after.
    fn put_event(
        &self,
        kind: &str,
        session: &str,
        data: serde_json::Map<String, serde_json::Value>,
        now: Timestamp,
    );

    /// Returns at most `limit` events with numbers after `after`.
    ///
    /// If `after + 1` is smaller than the oldest number, events in between were
    /// removed.
    fn events(&self, after: u64, limit: usize) -> Result<EventPage, StoreError>;
}
