use contexture_core::Tokens;
use jiff::Timestamp;
use serde::Serialize;

use crate::compaction::Compaction;
use crate::error::StoreError;
use crate::id::TurnId;
use crate::session::{HeadMove, NewSession, Session, SessionChange};
use crate::snapshot::TurnSample;
use crate::turn::{BlockCounts, NewTurn, Turn, TurnKind};

/// What a store does for conversations. Append-only: turns are never changed
/// and never removed; what moves is the head of a session.
///
/// Every method is one transaction. What a writing method acknowledges
/// survives a power cut; what it refuses leaves no trace.
///
/// Times are kept to the millisecond. A label that is an alias stands for its
/// session, everywhere.
pub trait Ledger: Send + Sync {
    /// Makes a session.
    ///
    /// Fails when its label or an alias is taken, as label or alias, or when
    /// its head is not a known turn or its parent session not a known session.
    /// Its parent turn is where it begins; if it begins empty, the head of its
    /// parent session.
    fn create_session(&self, new: &NewSession, now: Timestamp) -> Result<Session, StoreError>;

    /// Changes a session, all or nothing, and returns it. What the change does
    /// not name stays as it is, also when several writers change one session at
    /// the same time. To give it an alias that it has is an error, as for one
    /// that another has.
    fn change_session(&self, label: &str, change: &SessionChange) -> Result<Session, StoreError>;

    /// Returns a session.
    fn session(&self, label: &str) -> Result<Session, StoreError>;

    /// Returns at most `limit` sessions whose labels come behind `after`, in
    /// alphabetical order.
    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError>;

    /// Appends a turn to a session and moves its head there.
    ///
    /// The [sizes](NewTurn::check_sizes) of the turn's messages are checked, and
    /// the turn is [checked](NewTurn::outline) against the calls that its parent
    /// left open. Fails with a conflict when its `parent_turn_id` is not
    /// the head. A turn whose idempotency key was used in this session before
    /// is not recorded again: the first one is returned if the two say the
    /// same, and it is an error if they do not.
    ///
    /// A turn follows from what is in it: one that is recorded again behind the
    /// same parent at the same millisecond, when the head was moved back, is
    /// the same turn, and the head moves there.
    ///
    /// The sample is kept in the same transaction, when the turn is new and its
    /// parent is the sample's. A turn that is not recorded again adds no second
    /// sample.
    fn record(
        &self,
        label: &str,
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
        now: Timestamp,
    ) -> Result<Recorded, StoreError>;

    /// Appends a compaction behind `parent`, which must be the head. The turns
    /// that it names must be known. Calls that are open stay so, and no history
    /// begins with it.
    fn compact(
        &self,
        label: &str,
        parent: TurnId,
        compaction: &Compaction,
        now: Timestamp,
    ) -> Result<Recorded, StoreError>;

    /// Moves the head of a session from `from`, where it must be, to a turn
    /// that is known, and notes why.
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

    /// Walks from a turn towards the root, and stops as soon as the
    /// [walk](Walk) says. Newest first. The cost follows what is returned, not
    /// the length of the path.
    fn walk(&self, from: TurnId, walk: &Walk<'_>) -> Result<Vec<TurnHead>, StoreError>;

    /// Returns turns with their messages, in the order asked for, and the
    /// counts made with `counter`.
    fn turns(&self, ids: &[TurnId], counter: &str) -> Result<Vec<Turn>, StoreError>;

    /// Keeps counts for turns that were recorded without them, or with
    /// another counter's. Counts that are there stay as they are. Fails when a
    /// turn is not known.
    fn put_counts(&self, counts: &[(TurnId, Counted)]) -> Result<(), StoreError>;
}

/// The tokens of a turn's blocks, and what counted them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Names the counter, and what was done to the text before counting.
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

/// What recording gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "TurnRecorded"))]
pub struct Recorded {
    /// The turn's id.
    #[serde(rename = "turn_id")]
    pub id: TurnId,
    /// The turn before it.
    #[serde(rename = "parent_turn_id")]
    pub parent: Option<TurnId>,
    /// How many normal turns the path to it has.
    #[serde(rename = "number")]
    pub depth: u64,
    /// True when it had been recorded before, by the same idempotency key.
    pub replayed: bool,
}

/// How far to walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk<'a> {
    /// Whose counts are looked at. A turn without them counts a quarter of its
    /// bytes.
    pub counter: &'a str,
    /// The walk goes on until the turns together count *more* than this, and
    /// from there to the next turn that a history can begin with.
    pub tokens: Tokens,
    /// It goes on for at least so many normal turns.
    pub at_least: usize,
    /// It stops behind this turn in any case.
    pub through: Option<TurnId>,
}

/// A turn without its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnHead {
    /// Its id.
    pub id: TurnId,
    /// The turn before.
    pub parent: Option<TurnId>,
    /// How many normal turns the path to it has, itself included.
    pub depth: u64,
    /// What it is.
    pub kind: TurnKind,
    /// The latest compaction on the path to it, itself included.
    pub compaction: Option<TurnId>,
    /// Whether a history can begin with it.
    pub begins: bool,
    /// How many bytes its messages hold.
    pub bytes: u64,
    /// What they count, when that is known.
    pub tokens: Option<Tokens>,
}

impl TurnHead {
    /// Returns what the turn counts, or a guess.
    pub fn weight(&self) -> Tokens {
        self.tokens.unwrap_or(self.bytes.div_ceil(4))
    }
}
