//! The ledger: sessions and their turns.
//!
//! Turns form a tree through their parents. A session is a label for a turn, its
//! head. Forks share turns, and a compaction is a turn of its own.

use contexture_core::Tokens;
use jiff::Timestamp;
use serde::Serialize;

use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::handle::{Handle, HandlePrefix};
use crate::id::TurnId;
use crate::pin::{NewSessionPin, SessionPin};
use crate::session::{HeadMove, NewSession, Session, SessionChange};
use crate::snapshot::TurnSample;
use crate::turn::{BlockCounts, NewTurn, Turn, TurnKind};

/// The data that a call is about to read from a store.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadAhead<'a> {
    /// The label of the session to read, with its latest snapshots.
    pub session: Option<&'a str>,
    /// Whether the session's pins are needed.
    pub pins: bool,
    /// The number of the session's latest snapshots to read.
    pub snapshots: usize,
    /// The hash of a snapshot, or its first digits.
    pub snapshot: Option<&'a str>,
    /// The model, the counter and the number of calibration samples to read.
    pub samples: Option<(&'a str, &'a str, usize)>,
    /// Whether the state of memory is needed.
    pub memory: bool,
    /// Whether the session and its snapshots may be those of an earlier call. The
    /// turn must then be recorded with [`Ledger::record_as_read`].
    pub is_cached: bool,
    /// Whether a turn will be recorded in the session with
    /// [`Ledger::record_with_request`].
    pub next_turn: bool,
}

/// Stores conversations. The ledger is append-only: turns are never changed, and
/// only [upkeep](crate::Upkeep) deletes them; only the head of a session moves.
///
/// Every method is one transaction. A write that returns `Ok` survives a power
/// failure; a write that fails changes nothing.
///
/// Times are stored in milliseconds. Every parameter `label` accepts an alias.
pub trait Ledger: Send + Sync {
    /// Announces the data that the current [`Call`](crate::Call) will read. A
    /// store in another process reads all of it in one round trip, and answers
    /// the first query of each kind from that. Other stores do nothing.
    ///
    /// The answers show the state at the time of this call. Writes of the call
    /// discard them.
    fn read_ahead(&self, _wanted: &ReadAhead<'_>) {}

    /// Creates a session.
    ///
    /// Fails if the label or an alias is already in use as a label or an alias,
    /// or if the head or the parent session does not exist. The parent turn is
    /// the head; for an empty session, it is the head of the parent session.
    fn create_session(&self, new: &NewSession, now: Timestamp) -> Result<Session, StoreError>;

    /// Changes a session, all or nothing, and returns it. Fields that the change
    /// omits are not changed, even if several writers change one session at the
    /// same time. Fails if the alias is in use, also by this session.
    fn change_session(&self, label: &str, change: &SessionChange) -> Result<Session, StoreError>;

    /// Returns a session.
    fn session(&self, label: &str) -> Result<Session, StoreError>;

    /// Returns at most `limit` sessions with labels after `after`, in
    /// alphabetical order.
    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError>;

    /// Appends a turn to a session and moves its head there.
    ///
    /// The [sizes](NewTurn::check_sizes) of the turn's messages are checked, and
    /// the turn is [checked](NewTurn::outline_after) against the calls that its
    /// parent left open, and those of earlier turns that never got a result. Fails
    /// with a conflict if `parent_turn_id` is not the head, if it is
    /// [`Empty`](crate::ParentTurn::Empty) and the session is not, or if the session is
    /// not active. A turn whose idempotency key was already used in this session is not
    /// recorded again: the first turn is returned if both have the same content,
    /// otherwise the call fails.
    ///
    /// The id of a turn depends only on its content, its parent and its time. A
    /// turn that is recorded again after the same parent in the same millisecond,
    /// after the head was moved back, is the same turn, and the head moves there.
    ///
    /// The sample is stored in the same transaction if the turn is new and has
    /// the sample's parent. A turn that is not recorded again adds no sample.
    fn record(
        &self,
        label: &str,
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
        now: Timestamp,
    ) -> Result<Recorded, StoreError>;

    /// Records a turn like [`record`](Self::record), if the session and its latest
    /// snapshots are as the current call has read them. Otherwise it writes
    /// nothing and returns `None`: the call must read them again.
    fn record_as_read(
        &self,
        label: &str,
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
        now: Timestamp,
    ) -> Result<Option<Recorded>, StoreError> {
        self.record(label, turn, counted, sample, now).map(Some)
    }

    /// Checks a turn like [`record`](Self::record), and writes it in one transaction
    /// with the request that the current [`Call`](crate::Call) saves next. Until then,
    /// only this call sees the turn. The call must end with
    /// [`finish_turn`](Self::finish_turn).
    ///
    /// `session` is the session as the call has read it. Returns `None` if the store
    /// cannot do that. The turn must then be recorded.
    fn record_with_request(
        &self,
        _session: &Session,
        _turn: &NewTurn,
        _counted: Option<&Counted>,
        _sample: Option<&TurnSample>,
        _now: Timestamp,
    ) -> Result<Option<Recorded>, StoreError> {
        Ok(None)
    }

    /// Writes a turn of [`record_with_request`](Self::record_with_request), if it is not
    /// written yet. Returns false if it could not be written, for example because the
    /// session has moved on. What the call has read after the turn is then wrong, and
    /// the store refuses its writes, and its reads of turns, until this method is called.
    fn finish_turn(&self, _turn: TurnId) -> bool {
        true
    }

    /// Appends a compaction after `parent`, which must be the head. The turns
    /// that it names must exist. Open calls stay open, and no history starts
    /// with a compaction.
    fn compact(
        &self,
        label: &str,
        parent: TurnId,
        compaction: &Compaction,
        now: Timestamp,
    ) -> Result<Recorded, StoreError>;

    /// Moves the head of a session from `from`, which must be the head, to an
    /// existing turn, and records the reason.
    fn move_head(
        &self,
        label: &str,
        from: Option<TurnId>,
        to: Option<TurnId>,
        reason: &str,
        now: Timestamp,
    ) -> Result<Session, StoreError>;

    /// Returns the latest `limit` moves of a session's head, newest first.
    fn head_moves(&self, label: &str, limit: usize) -> Result<Vec<HeadMove>, StoreError>;

    /// Walks from a turn towards the root and stops at the limits of the
    /// [walk](Walk). Returns the newest turn first. The cost depends on the
    /// number of returned turns, not on the length of the path.
    fn walk(&self, from: TurnId, walk: &Walk<'_>) -> Result<Vec<TurnHead>, StoreError>;

    /// Returns turns with their messages, in the order of `ids`, with the
    /// counts made with `counter`.
    fn turns(&self, ids: &[TurnId], counter: &str) -> Result<Vec<Turn>, StoreError>;

    /// Returns the tool result whose handle begins with `prefix`.
    ///
    /// Every tool result of at least [`LEAST_FETCHABLE_BYTES`] bytes in a
    /// recorded turn is found, from the moment that the turn is recorded. Fails
    /// if there is none, or if several different results match.
    ///
    /// [`LEAST_FETCHABLE_BYTES`]: crate::LEAST_FETCHABLE_BYTES
    fn tool_result(&self, prefix: &HandlePrefix) -> Result<ToolResult, StoreError>;

    /// Pins a text to a session, and returns the pin. A pin of the same name
    /// gets a new revision; if its text is the same, it is returned unchanged.
    /// Fails if the session is not active.
    fn pin(
        &self,
        label: &str,
        pin: &NewSessionPin,
        now: Timestamp,
    ) -> Result<SessionPin, StoreError>;

    /// Removes a pin, and returns the revision that records the removal. Fails
    /// if there is no such pin, or if the session is not active.
    fn unpin(&self, label: &str, name: &str, now: Timestamp) -> Result<SessionPin, StoreError>;

    /// Returns the latest revision of each pin of a session that was not removed,
    /// in the order in which their names were first used. A session that was
    /// created with a head and a parent session begins with the pins that the
    /// parent had at that turn.
    fn pins(&self, label: &str) -> Result<Vec<SessionPin>, StoreError>;

    /// Returns every revision of a pin, oldest first. Fails if there is none.
    fn pin_revisions(&self, label: &str, name: &str) -> Result<Vec<SessionPin>, StoreError>;

    /// Stores counts of turns that were recorded without counts, or with counts
    /// of another counter. Existing counts are not changed. Fails if a turn does
    /// not exist.
    fn put_counts(&self, counts: &[(TurnId, Counted)]) -> Result<(), StoreError>;
}

/// A tool result, an image or a document that was found by its handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The handle of the result.
    pub handle: Handle,
    /// The recorded text; for an image or a document, its base64.
    pub text: String,
    /// The media type of an image or a document.
    pub media_type: Option<String>,
}

/// The token counts of a turn's blocks, and the counter that made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The name of the counter and of the preprocessing of the text.
    pub counter: String,
    /// The tokens of each block of each message.
    pub blocks: BlockCounts,
}

impl Counted {
    /// Returns the tokens of the whole turn.
    pub fn total(&self) -> Tokens {
        let all = self.blocks.iter().flatten();
        all.fold(0, |sum, tokens| sum.saturating_add(*tokens))
    }
}

/// A turn that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "TurnRecorded"))]
pub struct Recorded {
    /// The id of the turn.
    #[serde(rename = "turn_id")]
    pub id: TurnId,
    /// The id of the previous turn. Null for the first turn.
    #[serde(rename = "parent_turn_id")]
    pub parent: Option<TurnId>,
    /// The number of normal turns on the path to the turn.
    #[serde(rename = "number")]
    pub depth: u64,
    /// Whether the turn was recorded earlier under the same idempotency key.
    pub replayed: bool,
}

/// The limits of a walk from the head towards older turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk<'a> {
    /// The name of the counter whose counts are used. For a turn without such
    /// counts, a quarter of its bytes is assumed.
    pub counter: &'a str,
    /// The walk continues until the turns together have *more* than this many
    /// tokens, and from there to the next turn that starts a step.
    pub tokens: Tokens,
    /// The minimum number of normal turns to visit.
    pub at_least: usize,
    /// The walk stops after this turn in any case.
    pub through: Option<TurnId>,
}

/// A turn without its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnHead {
    /// The id of the turn.
    pub id: TurnId,
    /// The previous turn. `None` for the first turn, and if the previous turn was
    /// deleted.
    pub parent: Option<TurnId>,
    /// The number of normal turns on the path to this turn, including it.
    pub depth: u64,
    /// The kind of turn.
    pub kind: TurnKind,
    /// The latest compaction on the path to the turn, including it.
    pub compaction: Option<TurnId>,
    /// Whether a step begins with the turn.
    pub begins: bool,
    /// The size of its messages in bytes.
    pub bytes: u64,
    /// The tokens of its messages. `None` if they were not counted with this
    /// counter.
    pub tokens: Option<Tokens>,
}

impl TurnHead {
    /// Returns the tokens of the turn, or an estimate if they are unknown.
    pub fn weight(&self) -> Tokens {
        self.tokens.unwrap_or(self.bytes.div_ceil(4))
    }
}
