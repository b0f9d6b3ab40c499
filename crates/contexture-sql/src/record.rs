//! Appends turns. Compactions, which are turns of another kind, are in `compaction`.
//!
//! Hashes, JSON and counts are prepared before the transaction, because all
//! writers of a tenant wait for each other. A turn that exists already is not
//! written again, so that a retry is harmless.

mod compaction;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::{Batch, Connection, OptionalExtension, Row, Statement, Writes};
use crate::params;
use contexture_core::ContentHash;
use contexture_sql_archive::message_key::message_key;
use contexture_store::{
    Block, Body, Counted, Message, MessageContent, NewTurn, OpenCall, Outline, ParentTurn,
    Recorded, StoreError, TurnId, TurnKind, TurnSample,
};
use jiff::Timestamp;

use crate::error::{Error, Fault};
use crate::known::{KnownSession, LatestEvent};
use crate::results::{self, Listed};
use crate::row::{Id, Json, Time, Word, id, json, number, unsigned};
use crate::sessions::{self, SessionRow};
use crate::together::{Answer, Together};
use crate::value::ToSql;
use crate::{NO_TENANT, events, snapshots, turns};
pub(crate) use compaction::{append_compaction, compact};

/// A turn, prepared as far as possible before the write, so that the writer
/// thread only writes.
pub(crate) struct Prepared {
    turn: NewTurn,
    body: Body,
    // The JSON of each message's context. The content is in the body.
    contexts: Vec<Option<String>>,
    // The tool results of each message that can be fetched.
    results: Vec<Vec<Listed>>,
    counted: Option<Counted>,
    sample: Option<TurnSample>,
    // The size of the messages, if their texts are shortened.
    bytes: Option<u64>,
}

impl Prepared {
    pub(crate) fn new(
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
    ) -> Result<Self, Fault> {
        let mut prepared = Self::owned(turn.clone())?;
        prepared.counted = counted.cloned();
        prepared.sample = sample.cloned();
        Ok(prepared)
    }

    /// Prepares a turn of an import. The import passes its parent separately.
    ///
    /// The body has the texts of the turn. They are freed here, so that the body of
    /// the next turn of a batch can use their memory.
    pub(crate) fn imported(mut turn: NewTurn) -> Result<Self, Fault> {
        turn.parent_turn_id = ParentTurn::Head;
        turn.idempotency_key = None;
        let bytes = turn.bytes();
        let mut prepared = Self::owned(turn)?;
        prepared.bytes = Some(bytes);
        prepared.turn.messages.iter_mut().for_each(shorten_texts);
        Ok(prepared)
    }

    fn owned(turn: NewTurn) -> Result<Self, Fault> {
        let json = |error: serde_json::Error| {
            Fault::Refused(StoreError::invalid("messages", error.to_string()))
        };
        let mut contexts = Vec::with_capacity(turn.messages.len());
        for message in &turn.messages {
            let context = message.context_json.as_ref().map(serde_json::to_string);
            contexts.push(context.transpose().map_err(json)?);
        }
        Ok(Self {
            body: turn.body(),
            contexts,
            results: turn.messages.iter().map(results::of_message).collect(),
            turn,
            counted: None,
            sample: None,
            bytes: None,
        })
    }

    /// Checks the turn after its parent, and returns its outline.
    fn outline(&self, parent: &Parent, given_up: &[OpenCall]) -> Result<Outline, Fault> {
        let mut outline = self.turn.outline_after(&parent.open_calls, given_up)?;
        outline.bytes = self.bytes.unwrap_or(outline.bytes);
        Ok(outline)
    }
}

/// Shortens the texts of a message to what the checks of a turn need: whether they are
/// blank.
fn shorten_texts(message: &mut Message) {
    let shortened = |text: &str| -> String { text.trim_start().chars().take(1).collect() };
    match &mut message.content {
        MessageContent::Text(text) => *text = shortened(text),
        MessageContent::Blocks(blocks) => {
            for block in blocks {
                match block {
                    Block::Text { text, .. } => *text = shortened(text).into(),
                    Block::ToolResult { content, .. } => *content = shortened(content),
                    _ => {}
                }
            }
        }
    }
}

/// The turn that a new turn follows.
#[derive(Default)]
pub(crate) struct Parent {
    key: Option<i64>,
    id: Option<TurnId>,
    depth: u64,
    /// The latest compaction on the path to the turn, the turn included.
    compaction: Option<i64>,
    open_calls: Vec<OpenCall>,
}

fn head_of(db: &Connection, session: &SessionRow) -> Result<Parent, Fault> {
    let Some(key) = session.head else {
        return Ok(Parent::default());
    };
    parent(db, key)
}

/// The columns of a [`Parent`], which is the turn `t`.
pub(crate) const PARENT: &str = "t.id, t.depth, t.kind, t.compaction, t.open_calls";

impl Parent {
    /// Returns the id of the turn; `None` if the session is empty.
    pub(crate) fn id(&self) -> Option<TurnId> {
        self.id
    }

    /// Reads the columns [`PARENT`] of the turn `key` from the column `first` on.
    pub(crate) fn read(row: &Row<'_>, first: usize, key: i64) -> crate::driver::Result<Self> {
        Ok(Parent {
            key: Some(key),
            id: id(row, first)?,
            depth: unsigned(row, first + 1)?,
            compaction: match row.get::<Word<TurnKind>>(first + 2)?.0 {
                TurnKind::Compaction => Some(key),
                TurnKind::Normal => row.get(first + 3)?,
            },
            open_calls: json(row, first + 4)?.unwrap_or_default(),
        })
    }
}

/// Reads the parent turn with this key.
pub(crate) fn parent(db: &Connection, key: i64) -> Result<Parent, Fault> {
    let sql = format!("SELECT {PARENT} FROM turns t WHERE t.key = ?1");
    Ok(db.query_row(&sql, [key], |row| Parent::read(row, 0, key))?)
}

/// A turn to be recorded in a session.
pub struct Recording {
    label: String,
    new: Prepared,
    now: Timestamp,
    latest_event: LatestEvent,
    expected: Option<ExpectedSession>,
}

/// The state that the session of a turn must have.
struct ExpectedSession {
    known: Arc<KnownSession>,
    /// Set to true if the session has another state.
    differs: Arc<AtomicBool>,
}

impl Recording {
    /// `latest_event` is the number of the tenant's latest event, as far as it is
    /// known.
    pub(crate) fn new(
        label: &str,
        new: Prepared,
        now: Timestamp,
        latest_event: LatestEvent,
    ) -> Self {
        Self {
            label: label.to_owned(),
            new,
            now,
            latest_event,
            expected: None,
        }
    }

    /// Makes the recording fail if the session does not have this state. The
    /// returned flag is then true.
    pub(crate) fn expect(&mut self, known: Arc<KnownSession>) -> Arc<AtomicBool> {
        let differs = Arc::new(AtomicBool::new(false));
        self.expected = Some(ExpectedSession {
            known,
            differs: Arc::clone(&differs),
        });
        differs
    }

    /// Checks the turn, and returns what recording it now would return. It must have
    /// no idempotency key.
    pub(crate) fn check(&self, db: &Connection, tenant: i64) -> Result<Recorded, Fault> {
        let state = sessions::find_to_record(db, tenant, &self.label)?;
        let given_up = given_up(db, &state.head, &self.new.turn)?;
        Ok(accept(0, tenant, self, state, &given_up)?.recorded)
    }

    /// Checks the turn after a session's row that was read before. Returns `None` if
    /// more must be read.
    pub(crate) fn check_after(
        &self,
        state: sessions::RecordingRow,
    ) -> Result<Option<Recorded>, Fault> {
        match self
            .new
            .turn
            .late_results(&state.head.open_calls)
            .is_empty()
        {
            true => Ok(Some(accept(0, NO_TENANT, self, state, &[])?.recorded)),
            false => Ok(None),
        }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Records the turn.
    pub fn run(&self, db: &Connection, tenant: i64) -> Result<Recorded, Fault> {
        let done = Self::run_all(db, &[(tenant, self)], &|_| true)?;
        let done = done.into_iter().next().flatten();
        done.unwrap_or(Err(Fault::Sql(Error::NotRead)))
    }

    /// Returns true if the turn was recorded with this outcome. The caller must be the
    /// only writer of the tenant.
    pub fn is_recorded(
        &self,
        db: &Connection,
        tenant: i64,
        recorded: &Recorded,
    ) -> Result<bool, Fault> {
        let session = match sessions::find(db, tenant, &self.label) {
            Err(Fault::Refused(_)) => return Ok(false),
            session => session?,
        };
        let Some(turn) = turns::find_key(db, tenant, recorded.id)? else {
            return Ok(false);
        };
        let mut select = db.prepare_cached(
            "SELECT seq FROM head_moves WHERE session = ?1 AND target = ?2 AND at = ?3 LIMIT 1",
        )?;
        let moved: Option<i64> = select
            .query_row((session.key, turn, Time(self.now)), |row| row.get(0))
            .optional()?;
        Ok(moved.is_some())
    }

    /// Records turns of the tenants with these keys, in their order. The caller
    /// must be the only writer of the tenants for which `is_locked` returns true.
    /// `is_locked` is called after the first rows were read. Returns a result per
    /// turn, and `None` for a tenant that is not locked: a rejected turn writes
    /// nothing, and the others are recorded. Fails when the database fails; the
    /// caller must then roll back the transaction.
    pub fn run_all(
        db: &Connection,
        recordings: &[(i64, &Recording)],
        is_locked: &dyn Fn(i64) -> bool,
    ) -> Result<Vec<Option<Result<Recorded, Fault>>>, Fault> {
        let mut done: Vec<Option<Result<Recorded, Fault>>> = Vec::new();
        done.resize_with(recordings.len(), || None);
        let mut left: Vec<usize> = (0..recordings.len()).collect();
        while !left.is_empty() {
            left = record_some(db, recordings, is_locked, &left, &mut done)?;
        }
        Ok(done)
    }
}

impl ExpectedSession {
    /// Fails with a conflict if the session has another state.
    fn check(
        &self,
        found: &sessions::RecordingRow,
        snapshots: &[(ContentHash, Option<TurnId>)],
    ) -> Result<(), Fault> {
        if self.known.is_current(found, snapshots) {
            return Ok(());
        }
        self.differs.store(true, Ordering::Release);
        Err(Fault::Refused(StoreError::Conflict {
            session: found.session.label.clone(),
            expected: self.known.session.head,
            head: found.head.id,
        }))
    }
}

/// A turn that can be recorded.
struct Accepted<'r> {
    at: usize,
    tenant: i64,
    recording: &'r Recording,
    session: SessionRow,
    parent: Parent,
    updated_at: Timestamp,
    outline: Outline,
    recorded: Recorded,
    key: Option<i64>,
}

/// Records turns, at most one per session, with as few statements as for one
/// turn. Returns the remaining turns, which follow others of their session.
fn record_some(
    db: &Connection,
    recordings: &[(i64, &Recording)],
    is_locked: &dyn Fn(i64) -> bool,
    some: &[usize],
    done: &mut [Option<Result<Recorded, Fault>>],
) -> Result<Vec<usize>, Fault> {
    // All rows that can be selected now are read in one round trip.
    db.expect_insert("turns", some.len());
    let mut together = Together::default();
    let mut counters = BTreeMap::new();
    let mut latest_events = BTreeMap::new();
    let mut states = Vec::with_capacity(some.len());
    for &at in some {
        let (tenant, recording) = recordings[at];
        let (label, new) = (recording.label.as_str(), &recording.new);
        let state = together.add(move |db| sessions::find_to_record(db, tenant, label));
        let key = new.turn.idempotency_key.as_deref();
        let first =
            key.map(|key| together.add(move |db| replay(db, tenant, label, key, &new.body)));
        if let Some(counted) = &new.counted {
            let name = counted.counter.as_str();
            counters
                .entry((tenant, name))
                .or_insert_with(|| together.add(move |db| turns::counter(db, tenant, name)));
        }
        latest_events.entry(tenant).or_insert_with(|| {
            let known = &recording.latest_event;
            let at_least = known.load(Ordering::Relaxed);
            (
                known,
                together.add(move |db| events::latest(db, tenant, at_least)),
            )
        });
        let expected = recording.expected.as_ref().map(|expected| {
            let known = &*expected.known;
            let label = known.session.label.as_str();
            let found =
                together.add(move |db| snapshots::hashes_of_session(db, tenant, label, known.most));
            (expected, found)
        });
        states.push((at, state, first, expected));
    }
    together.run(db)?;
    let mut counter_keys: BTreeMap<(i64, &str), Option<i64>> = BTreeMap::new();
    for (name, counter) in counters {
        counter_keys.insert(name, counter.take()?);
    }
    let mut latest: BTreeMap<i64, i64> = BTreeMap::new();
    for (tenant, (known, number)) in latest_events {
        let number = number.take()?;
        known.store(number, Ordering::Relaxed);
        latest.insert(tenant, number);
    }

    let mut left = Vec::new();
    let mut accepted = Vec::new();
    let mut sessions_used = BTreeSet::new();
    for (at, state, first, expected) in states {
        let (tenant, recording) = recordings[at];
        if !is_locked(tenant) {
            continue;
        }
        let checked = state.take().and_then(|state| {
            if let Some((expected, snapshots)) = expected {
                expected.check(&state, &snapshots.take()?)?;
            }
            // A retry is checked first: it gets the first response, although
            // the head has moved on.
            match first.map(Answer::take).transpose()?.flatten() {
                Some(first) => Ok(Err(first)),
                None => Ok(Ok(state)),
            }
        });
        let checked = match checked {
            Ok(Ok(state)) if !sessions_used.insert(state.session.key) => {
                drop(state);
                left.push(at);
                continue;
            }
            Ok(Ok(state)) => given_up(db, &state.head, &recording.new.turn)
                .and_then(|given_up| accept(at, tenant, recording, state, &given_up))
                .map(Ok),
            Ok(Err(first)) => Ok(Err(first)),
            Err(fault) => Err(fault),
        };
        match checked {
            Ok(Ok(turn)) => accepted.push(turn),
            Ok(Err(first)) => done[at] = Some(Ok(first)),
            Err(fault @ Fault::Sql(Error::Driver(_))) => return Err(fault),
            Err(fault) => done[at] = Some(Err(fault)),
        }
    }

    find_again(db, &mut accepted)?;
    write_all(db, &mut accepted, counter_keys, latest)?;
    for turn in accepted {
        done[turn.at] = Some(Ok(turn.recorded));
    }
    Ok(left)
}

/// Checks that a turn can be recorded in a session. It may answer the calls `given_up`.
fn accept<'r>(
    at: usize,
    tenant: i64,
    recording: &'r Recording,
    state: sessions::RecordingRow,
    given_up: &[OpenCall],
) -> Result<Accepted<'r>, Fault> {
    state.check_open()?;
    let sessions::RecordingRow {
        session,
        head: parent,
        updated_at,
        ..
    } = state;
    let new = &recording.new;
    if let Some(expected) = new.turn.parent_turn_id.expected() {
        sessions::check_head(&session, parent.id, expected)?;
    }
    let outline = new.outline(&parent, given_up)?;
    let recorded = Recorded {
        id: new.body.id(parent.id, &session.label, recording.now),
        parent: parent.id,
        depth: parent.depth + 1,
        replayed: false,
    };
    Ok(Accepted {
        at,
        tenant,
        recording,
        session,
        parent,
        updated_at,
        outline,
        recorded,
        key: None,
    })
}

/// Finds turns that already exist. The same turn may have been recorded with
/// the same time before the head was moved back.
fn find_again(db: &Connection, accepted: &mut [Accepted<'_>]) -> Result<(), Fault> {
    let mut together = Together::default();
    let mut found = Vec::new();
    for (at, turn) in accepted.iter().enumerate() {
        if turn.recording.now.as_millisecond() <= turn.updated_at.as_millisecond() {
            let (tenant, id) = (turn.tenant, turn.recorded.id);
            let key = together.add(move |db| turns::find_key(db, tenant, id));
            found.push((at, key));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    together.run(db)?;
    for (at, key) in found {
        accepted[at].key = key.take()?;
    }
    Ok(())
}

/// Writes turns and moves the heads of their sessions.
fn write_all<'r>(
    db: &Connection,
    accepted: &mut [Accepted<'r>],
    mut counters: BTreeMap<(i64, &'r str), Option<i64>>,
    mut latest: BTreeMap<i64, i64>,
) -> Result<(), Fault> {
    if accepted.is_empty() {
        return Ok(());
    }
    let is_new: Vec<bool> = accepted.iter().map(|turn| turn.key.is_none()).collect();
    let mut rows = Batch::default();
    for turn in accepted.iter().filter(|turn| turn.key.is_none()) {
        let place = TurnPlace {
            tenant: turn.tenant,
            session: &turn.session,
            parent: &turn.parent,
            recorded: &turn.recorded,
        };
        let (new, now) = (&turn.recording.new, turn.recording.now);
        with_turn_values(&place, new, &turn.outline, now, |values| {
            Ok(rows.add(values)?)
        })?;
    }
    let mut keys = insert_turns(db, rows)?.into_iter();
    let mut parts = Parts::new(db)?;
    let (mut samples, mut new_counts, mut counts, mut names) = (
        snapshots::NewSamples::default(),
        Batch::default(),
        Batch::default(),
        Batch::default(),
    );
    let mut moves = sessions::HeadMoves::default();
    let mut new_events = events::NewEvents::default();
    for (turn, is_new) in accepted.iter_mut().zip(is_new) {
        let (tenant, new, now) = (turn.tenant, &turn.recording.new, turn.recording.now);
        let key = match turn.key {
            Some(key) => key,
            None => keys.next().ok_or(Error::NoRows)?,
        };
        turn.key = Some(key);
        if is_new {
            parts.add(tenant, key, new, &turn.outline)?;
            if let Some(sample) = &new.sample
                && sample.parent == turn.recorded.parent
            {
                samples.add(tenant, &sample.model, &sample.counter, sample.sample)?;
            }
        }
        if let Some(counted) = &new.counted {
            let name = counted.counter.as_str();
            let counter = match counters.get(&(tenant, name)).copied().flatten() {
                Some(counter) => counter,
                None => self::counter(db, tenant, name)?,
            };
            counters.insert((tenant, name), Some(counter));
            // A new turn on a remote database has a key that was never used.
            let counts = match is_new && db.is_remote() {
                true => &mut new_counts,
                false => &mut counts,
            };
            add_counts(counts, key, counter, counted)?;
        }
        if let Some(name) = &new.turn.idempotency_key {
            names.add((turn.session.key, name, key, Id(new.body.hash())))?;
        }
        moves.add(&turn.session, Some(key), "recorded", now)?;
        let data = [
            ("turn_id".to_owned(), turn.recorded.id.to_string().into()),
            ("number".to_owned(), turn.recorded.depth.into()),
        ];
        let data = data.into_iter().collect();
        let latest = latest.entry(tenant).or_default();
        let label = &turn.session.label;
        new_events.add(tenant, latest, "turn_recorded", label, &data, now)?;
    }
    parts.flush()?;
    samples.insert(db)?;
    if db.is_remote() {
        db.prepare_cached(INSERT_COUNTS)?.execute_all(new_counts)?;
    }
    insert_all_counts(db, counts)?;
    db.prepare_cached(
        "INSERT INTO idempotency_keys (session, key, turn, body) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute_all(names)?;
    moves.write(db)?;
    new_events.insert(db)
}

/// Writes turns one after the other, with the same statements.
pub(crate) struct Appender<'db> {
    insert: Statement<'db>,
    parts: Parts<'db>,
}

impl<'db> Appender<'db> {
    pub(crate) fn new(db: &'db Connection) -> Result<Self, Fault> {
        Ok(Self {
            insert: db.prepare_cached(&format!("{INSERT_TURN} ON CONFLICT DO NOTHING"))?,
            parts: Parts::new(db)?,
        })
    }
}

/// Writes a turn after `parent`, unless it exists. The head does not move.
/// Returns the turn as a parent for the next one, if it is new.
pub(crate) fn append(
    db: &Connection,
    appender: &mut Appender<'_>,
    tenant: i64,
    session: &SessionRow,
    parent: &Parent,
    new: &Prepared,
    now: Timestamp,
) -> Result<(Recorded, Option<Parent>), Fault> {
    let recorded = Recorded {
        id: new.body.id(parent.id, &session.label, now),
        parent: parent.id,
        depth: parent.depth + 1,
        replayed: false,
    };
    let outline = given_up(db, parent, &new.turn);
    let outline = match outline.and_then(|given_up| new.outline(parent, &given_up)) {
        Ok(outline) => outline,
        // The calls of a deleted parent are not known. A turn that exists is not
        // checked again.
        Err(Fault::Refused(refusal)) => {
            return match turns::find_key(db, tenant, recorded.id)? {
                Some(_) => Ok((recorded, None)),
                None => Err(Fault::Refused(refusal)),
            };
        }
        Err(fault) => return Err(fault),
    };
    let Appender { insert, parts } = appender;
    let place = TurnPlace {
        tenant,
        session,
        parent,
        recorded: &recorded,
    };
    let key = with_turn_values(&place, new, &outline, now, |values| {
        Ok(insert.insert_new(values)?)
    })?;
    let Some(key) = key else {
        return Ok((recorded, None));
    };
    parts.add(tenant, key, new, &outline)?;
    parts.flush()?;
    let made = Parent {
        key: Some(key),
        id: Some(recorded.id),
        depth: recorded.depth,
        compaction: parent.compaction,
        open_calls: outline.open_calls,
    };
    Ok((recorded, Some(made)))
}

/// The largest distance, in turns, between a call and its late result.
const MOST_TURNS_BACK: i64 = 1000;

/// Returns the calls of earlier turns that this turn answers, and that the
/// conversation continued without.
fn given_up(db: &Connection, parent: &Parent, turn: &NewTurn) -> Result<Vec<OpenCall>, Fault> {
    let late = turn.late_results(&parent.open_calls);
    if late.is_empty() || parent.key.is_none() {
        return Ok(Vec::new());
    }
    let mut select = db.prepare_cached(
        "WITH RECURSIVE path (key, parent, back) AS (
             SELECT key, parent, 0 FROM turns WHERE key = ?1
             UNION ALL
             SELECT t.key, t.parent, back + 1 FROM turns t JOIN path ON t.key = path.parent
             WHERE back < ?3)
         SELECT c.name FROM path JOIN tool_calls c ON c.turn = path.key
         WHERE c.id = ?2 AND c.is_error IS NULL AND NOT EXISTS (
             SELECT 1 FROM path later JOIN late_results r ON r.turn = later.key
             WHERE r.id = ?2 AND later.back < path.back)
         ORDER BY path.back LIMIT 1",
    )?;
    let mut found = Vec::new();
    for id in late {
        let name = select.query_row((parent.key, &id, MOST_TURNS_BACK), |row| row.get(0));
        let name = name.optional()?;
        found.extend(name.map(|name| OpenCall { id, name }));
    }
    Ok(found)
}

/// Returns the result of the earlier request with the same idempotency key.
fn replay(
    db: &Connection,
    tenant: i64,
    label: &str,
    key: &str,
    body: &Body,
) -> Result<Option<Recorded>, Fault> {
    let mut select = db.prepare_cached(&format!(
        "SELECT t.id, parent.id, t.depth, k.body FROM idempotency_keys k
         JOIN turns t ON t.key = k.turn LEFT JOIN turns parent ON parent.key = t.parent
         WHERE k.session IN {} AND k.key = ?3",
        sessions::KEY
    ))?;
    let found = select.query_row((tenant, label, key), |row| {
        let recorded = Recorded {
            id: row.get::<Id>(0)?.0,
            parent: id(row, 1)?,
            depth: unsigned(row, 2)?,
            replayed: true,
        };
        Ok((recorded, row.get::<Id>(3)?.0))
    });
    match found.optional()? {
        Some((_, said)) if said != body.hash() => Err(Fault::Refused(StoreError::KeyReused {
            key: key.to_owned(),
        })),
        found => Ok(found.map(|(recorded, _)| recorded)),
    }
}

/// Where a new turn is recorded.
struct TurnPlace<'a> {
    tenant: i64,
    session: &'a SessionRow,
    parent: &'a Parent,
    recorded: &'a Recorded,
}

/// Calls `write` with the values of [`INSERT_TURN`].
fn with_turn_values<T>(
    place: &TurnPlace<'_>,
    new: &Prepared,
    outline: &Outline,
    now: Timestamp,
    write: impl FnOnce(&[&dyn ToSql]) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let TurnPlace {
        tenant,
        session,
        parent,
        recorded,
    } = place;
    let turn = &new.turn;
    let usage = turn.usage.as_ref();
    let tokens =
        |field: &str, tokens: Option<u64>| tokens.map(|tokens| number(field, tokens)).transpose();
    write(params![
        tenant,
        Id(recorded.id),
        session.key,
        parent.key,
        number("depth", recorded.depth)?,
        parent.compaction,
        outline.begins,
        number("messages", outline.bytes)?,
        Time(now),
        list(&outline.open_calls),
        turn.model,
        turn.provider,
        tokens("usage.input_tokens", usage.map(|u| u.input_tokens))?,
        tokens("usage.output_tokens", usage.map(|u| u.output_tokens))?,
        tokens(
            "usage.cached_input_tokens",
            usage.map(|u| u.cached_input_tokens)
        )?,
        tokens(
            "usage.cache_write_tokens",
            usage.map(|u| u.cache_write_tokens)
        )?,
        tokens("usage.reasoning_tokens", usage.map(|u| u.reasoning_tokens))?,
        turn.stop_reason.as_ref().map(Word),
        turn.error.as_ref().map(|error| Word(error.kind)),
        turn.error.as_ref().map(|error| &error.message),
        turn.status.map(Word),
        turn.role.map(Word),
        turn.toolset_name,
        list(&turn.tools),
        list(&turn.permissions_granted),
        turn.source_event_id,
        turn.request_hash,
        !turn.parent_turn_id.is_head(),
        turn.idempotency_key,
    ])
}

/// Inserts a turn.
const INSERT_TURN: &str =
    "INSERT INTO turns (tenant, id, session, parent, depth, kind, compaction, begins, bytes,
         created_at, open_calls, model, provider, input_tokens, output_tokens,
         cached_input_tokens, cache_write_tokens, reasoning_tokens, stop_reason, error_kind,
         error_message, status, role, toolset_name, tools, permissions_granted,
         source_event_id, request_hash, parent_given, idempotency_key)
     VALUES (?1, ?2, ?3, ?4, ?5, 'normal', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
         ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)";

fn insert_turns(db: &Connection, rows: Batch) -> Result<Vec<i64>, Fault> {
    Ok(db.prepare_cached(INSERT_TURN)?.insert_all(rows)?)
}

/// Returns a list as a column. An empty list is null.
fn list<T: serde::Serialize>(values: &[T]) -> Option<Json<&[T]>> {
    (!values.is_empty()).then_some(Json(values))
}

/// The rows of other tables that belong to new turns.
struct Parts<'db> {
    calls: Writes<'db>,
    answered: Writes<'db>,
    messages: Writes<'db>,
    results: Writes<'db>,
    sent: Writes<'db>,
}

impl<'db> Parts<'db> {
    fn new(db: &'db Connection) -> Result<Self, Fault> {
        Ok(Self {
            calls: db.writes(
                "INSERT INTO tool_calls (turn, seq, id, name, message, is_error)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?,
            answered: db.writes(
                "INSERT INTO late_results (turn, seq, id, is_error) VALUES (?1, ?2, ?3, ?4)",
            )?,
            messages: db.writes(
                "INSERT INTO messages (key, role, source, content, tool_call_id, is_error,
                     context_json)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?,
            results: db.writes(results::INSERT)?,
            sent: db.writes("INSERT INTO sent_messages (turn, blocks) VALUES (?1, ?2)")?,
        })
    }

    /// Adds the rows of the turn with this key.
    fn add(
        &mut self,
        tenant: i64,
        turn: i64,
        new: &Prepared,
        outline: &Outline,
    ) -> Result<(), Fault> {
        for (seq, call) in outline.calls.iter().enumerate() {
            let (seq, message) = (seq as i64, call.message as i64);
            (self.calls).add((turn, seq, &call.id, &call.name, message, call.is_error))?;
        }
        for (seq, (id, is_error)) in outline.answered.iter().enumerate() {
            self.answered.add((turn, seq as i64, id, is_error))?;
        }
        let messages = new.turn.messages.iter().zip(&new.contexts);
        for (seq, (message, context)) in messages.enumerate() {
            let content = new.body.content(seq).unwrap_or_default();
            let key = message_key(turn, seq);
            self.messages.add(params![
                key,
                message.role.name(),
                message.source.map(Word),
                content,
                message.tool_call_id,
                message.is_error,
                context,
            ])?;
            results::add(&mut self.results, tenant, key, &new.results[seq])?;
        }
        if !new.turn.sent.is_empty() {
            self.sent.add((turn, Json(&new.turn.sent)))?;
        }
        Ok(())
    }

    /// Writes the rows that are still to be written.
    fn flush(&mut self) -> Result<(), Fault> {
        self.calls.flush()?;
        self.answered.flush()?;
        self.messages.flush()?;
        self.results.flush()?;
        Ok(self.sent.flush()?)
    }
}

/// Stores the token counts of a turn, unless this counter's are stored.
pub(crate) fn insert_counts(
    db: &Connection,
    tenant: i64,
    turn: i64,
    counted: &Counted,
) -> Result<(), Fault> {
    let counter = counter(db, tenant, &counted.counter)?;
    let mut batch = Batch::default();
    add_counts(&mut batch, turn, counter, counted)?;
    insert_all_counts(db, batch)
}

fn add_counts(batch: &mut Batch, turn: i64, counter: i64, counted: &Counted) -> Result<(), Fault> {
    let total = number("counts", counted.total())?;
    Ok(batch.add((turn, counter, total, Json(&counted.blocks)))?)
}

/// Inserts the counts of a turn that has none. PostgreSQL writes a third less than for
/// a statement that allows conflicts.
const INSERT_COUNTS: &str =
    "INSERT INTO counts (turn, counter, total, blocks) VALUES (?1, ?2, ?3, ?4)";

fn insert_all_counts(db: &Connection, batch: Batch) -> Result<(), Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO counts (turn, counter, total, blocks) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
    )?;
    Ok(insert.execute_all(batch)?)
}

/// Returns the key of a counter. Creates the counter if it does not exist.
pub(crate) fn counter(db: &Connection, tenant: i64, name: &str) -> Result<i64, Fault> {
    if let Some(counter) = turns::counter(db, tenant, name)? {
        return Ok(counter);
    }
    let mut insert = db.prepare_cached("INSERT INTO counters (tenant, name) VALUES (?1, ?2)")?;
    Ok(insert.insert((tenant, name))?)
}
