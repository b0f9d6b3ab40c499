//! Appends turns and compactions.
//!
//! Hashes, JSON and counts are prepared before the transaction, because all
//! writers of a tenant wait for each other. A turn that exists already is not
//! written again, so that a retry is harmless.

use crate::driver::{Connection, OptionalExtension, Row};
use crate::params;
use contexture_store::{
    Body, Compaction, Counted, NewTurn, OpenCall, Outline, ParentTurn, Recorded, StoreError,
    Trigger, TurnId, TurnKind, TurnSample,
};
use jiff::Timestamp;

use crate::error::Fault;
use crate::results::{self, Listed};
use crate::row::{Id, Json, Time, Word, id, json, number, unsigned};
use crate::sessions::{self, SessionRow};
use crate::together::Together;
use crate::{events, snapshots, turns};

/// A turn with everything that can be made of it before it is the turn's turn:
/// the thread that writes has only to write.
pub(crate) struct Prepared {
    turn: NewTurn,
    body: Body,
    // The JSON of each message's context. That of its content is in the body.
    contexts: Vec<Option<String>>,
    // The tool results of each message that can be fetched.
    results: Vec<Vec<Listed>>,
    counted: Option<Counted>,
    sample: Option<TurnSample>,
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

    /// Prepares a turn of an import, whose place is said apart from it.
    pub(crate) fn imported(mut turn: NewTurn) -> Result<Self, Fault> {
        turn.parent_turn_id = ParentTurn::Head;
        turn.idempotency_key = None;
        Self::owned(turn)
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
        })
    }
}

/// The turn that a new one follows.
#[derive(Default)]
pub(crate) struct Parent {
    key: Option<i64>,
    id: Option<TurnId>,
    depth: u64,
    /// The latest compaction on the path to it, itself included.
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

/// Reads the turn with that key, which a new one follows.
pub(crate) fn parent(db: &Connection, key: i64) -> Result<Parent, Fault> {
    let sql = format!("SELECT {PARENT} FROM turns t WHERE t.key = ?1");
    Ok(db.query_row(&sql, [key], |row| Parent::read(row, 0, key))?)
}

pub(crate) fn record(
    db: &Connection,
    tenant: i64,
    label: &str,
    new: &Prepared,
    now: Timestamp,
) -> Result<Recorded, Fault> {
    // Everything that is known now is read in one round trip.
    db.expect_insert("turns");
    let mut together = Together::default();
    let state = together.add(|db| sessions::find_to_record(db, tenant, label));
    let key = new.turn.idempotency_key.as_deref();
    let first = together.add(|db| match key {
        Some(key) => replay(db, tenant, label, key, &new.body),
        None => Ok(None),
    });
    let counter = new.counted.as_ref().map(|counted| &counted.counter);
    let counter = together.add(|db| match counter {
        Some(name) => turns::counter(db, tenant, name),
        None => Ok(None),
    });
    together.run(db)?;
    let state = state.take()?;
    // A retry comes first: what it answered is answered, and the head has moved
    // on.
    if let Some(first) = first.take()? {
        return Ok(first);
    }
    state.check_open()?;
    let sessions::RecordingRow {
        session,
        head: parent,
        updated_at,
        ..
    } = state;
    if let Some(expected) = new.turn.parent_turn_id.expected() {
        sessions::check_head(&session, parent.id, expected)?;
    }
    let given_up = given_up(db, &parent, &new.turn)?;
    let outline = new.turn.outline_after(&parent.open_calls, &given_up)?;
    let recorded = Recorded {
        id: new.body.id(parent.id, &session.label, now),
        parent: parent.id,
        depth: parent.depth + 1,
        replayed: false,
    };
    // The same turn may have been recorded before the head was moved back, at the
    // same time.
    let known = match now.as_millisecond() > updated_at.as_millisecond() {
        true => None,
        false => turns::find_key(db, tenant, recorded.id)?,
    };
    let key = match known {
        Some(key) => key,
        None => {
            let key = insert_turn(db, tenant, &session, &parent, &recorded, new, &outline, now)?;
            insert_calls(db, key, &outline)?;
            insert_messages(db, tenant, key, new)?;
            insert_sent(db, key, new)?;
            if let Some(new) = &new.sample
                && new.parent == recorded.parent
            {
                snapshots::insert_sample(db, tenant, &new.model, &new.counter, new.sample)?;
            }
            key
        }
    };
    if let Some(counted) = &new.counted {
        let counter = match counter.take()? {
            Some(counter) => counter,
            None => self::counter(db, tenant, &counted.counter)?,
        };
        insert_counts_of(db, key, counter, counted)?;
    }
    if let Some(name) = &new.turn.idempotency_key {
        db.prepare_cached(
            "INSERT INTO idempotency_keys (session, key, turn, body) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((session.key, name, key, Id(new.body.hash())))?;
    }
    sessions::move_head(db, &session, Some(key), "recorded", now)?;
    let data = [
        ("turn_id".to_owned(), recorded.id.to_string().into()),
        ("number".to_owned(), recorded.depth.into()),
    ];
    let data = data.into_iter().collect();
    events::insert(db, tenant, "turn_recorded", &session.label, &data, now)?;
    Ok(recorded)
}

/// Writes a turn after `parent`, unless it is there. The head does not move.
/// Returns the turn as what the next one follows, if it is new.
pub(crate) fn append(
    db: &Connection,
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
    if turns::find_key(db, tenant, recorded.id)?.is_some() {
        return Ok((recorded, None));
    }
    let given_up = given_up(db, parent, &new.turn)?;
    let outline = new.turn.outline_after(&parent.open_calls, &given_up)?;
    let key = insert_turn(db, tenant, session, parent, &recorded, new, &outline, now)?;
    insert_calls(db, key, &outline)?;
    insert_messages(db, tenant, key, new)?;
    insert_sent(db, key, new)?;
    let made = Parent {
        key: Some(key),
        id: Some(recorded.id),
        depth: recorded.depth,
        compaction: parent.compaction,
        open_calls: outline.open_calls,
    };
    Ok((recorded, Some(made)))
}

/// How many turns back a call may be that a late result answers.
const MOST_TURNS_BACK: i64 = 1000;

/// Returns the calls of earlier turns that a turn answers, and for which the
/// conversation did not wait.
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

/// Returns what was recorded with that key before.
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

#[expect(clippy::too_many_arguments)]
fn insert_turn(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    parent: &Parent,
    recorded: &Recorded,
    new: &Prepared,
    outline: &Outline,
    now: Timestamp,
) -> Result<i64, Fault> {
    let turn = &new.turn;
    let usage = turn.usage.as_ref();
    let tokens =
        |field: &str, tokens: Option<u64>| tokens.map(|tokens| number(field, tokens)).transpose();
    let mut insert = db.prepare_cached(
        "INSERT INTO turns (tenant, id, session, parent, depth, kind, compaction, begins, bytes,
             created_at, open_calls, model, provider, input_tokens, output_tokens,
             cached_input_tokens, cache_write_tokens, reasoning_tokens, stop_reason, error_kind,
             error_message, status, role, toolset_name, tools, permissions_granted,
             source_event_id, request_hash, parent_given, idempotency_key)
         VALUES (?1, ?2, ?3, ?4, ?5, 'normal', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
             ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)",
    )?;
    let key = insert.insert(params![
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
    ])?;
    Ok(key)
}

/// Returns a list as a column; an empty one takes no room.
fn list<T: serde::Serialize>(values: &[T]) -> Option<Json<&[T]>> {
    (!values.is_empty()).then_some(Json(values))
}

fn insert_messages(db: &Connection, tenant: i64, turn: i64, new: &Prepared) -> Result<(), Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO messages (key, role, source, content, tool_call_id, is_error, context_json)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let messages = new.turn.messages.iter().zip(&new.contexts);
    for (seq, (message, context)) in messages.enumerate() {
        let content = new.body.content(seq).unwrap_or_default();
        let key = turns::message_key(turn, seq);
        insert.execute(params![
            key,
            message.role.name(),
            message.source.map(Word),
            content,
            message.tool_call_id,
            message.is_error,
            context,
        ])?;
        results::insert(db, tenant, key, &new.results[seq])?;
    }
    Ok(())
}

fn insert_sent(db: &Connection, turn: i64, new: &Prepared) -> Result<(), Fault> {
    if !new.turn.sent.is_empty() {
        db.prepare_cached("INSERT INTO sent_messages (turn, blocks) VALUES (?1, ?2)")?
            .execute((turn, Json(&new.turn.sent)))?;
    }
    Ok(())
}

fn insert_calls(db: &Connection, turn: i64, outline: &Outline) -> Result<(), Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO tool_calls (turn, seq, id, name, message, is_error)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (seq, call) in outline.calls.iter().enumerate() {
        let (seq, message) = (seq as i64, call.message as i64);
        insert.execute((turn, seq, &call.id, &call.name, message, call.is_error))?;
    }
    let mut insert = db.prepare_cached(
        "INSERT INTO late_results (turn, seq, id, is_error) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (seq, (id, is_error)) in outline.answered.iter().enumerate() {
        insert.execute((turn, seq as i64, id, is_error))?;
    }
    Ok(())
}

/// Keeps the counts of a turn, unless that counter's are there.
pub(crate) fn insert_counts(
    db: &Connection,
    tenant: i64,
    turn: i64,
    counted: &Counted,
) -> Result<(), Fault> {
    let counter = counter(db, tenant, &counted.counter)?;
    insert_counts_of(db, turn, counter, counted)
}

fn insert_counts_of(
    db: &Connection,
    turn: i64,
    counter: i64,
    counted: &Counted,
) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO counts (turn, counter, total, blocks) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
    )?
    .execute((
        turn,
        counter,
        number("counts", counted.total())?,
        Json(&counted.blocks),
    ))?;
    Ok(())
}

/// Returns the key of a counter, which is there from then on.
pub(crate) fn counter(db: &Connection, tenant: i64, name: &str) -> Result<i64, Fault> {
    if let Some(counter) = turns::counter(db, tenant, name)? {
        return Ok(counter);
    }
    let mut insert = db.prepare_cached("INSERT INTO counters (tenant, name) VALUES (?1, ?2)")?;
    Ok(insert.insert((tenant, name))?)
}

pub(crate) fn compact(
    db: &Connection,
    tenant: i64,
    label: &str,
    expected: TurnId,
    compaction: &Compaction,
    now: Timestamp,
) -> Result<Recorded, Fault> {
    compaction.check()?;
    let session = sessions::find(db, tenant, label)?;
    let parent = head_of(db, &session)?;
    sessions::check_head(&session, parent.id, Some(expected))?;
    let (recorded, _) = append_compaction(db, tenant, &session, &parent, compaction, now)?;
    let key = turns::key(db, tenant, recorded.id)?;
    let reason = match compaction.trigger {
        Trigger::Undo => "uncompacted",
        _ => "compacted",
    };
    sessions::move_head(db, &session, Some(key), reason, now)?;
    let data = [("turn_id".to_owned(), recorded.id.to_string().into())];
    let data = data.into_iter().collect();
    events::insert(db, tenant, "compacted", &session.label, &data, now)?;
    Ok(recorded)
}

/// Writes a compaction after `parent`, unless it is there. The head does not
/// move. Returns true if it is new.
pub(crate) fn append_compaction(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    parent: &Parent,
    compaction: &Compaction,
    now: Timestamp,
) -> Result<(Recorded, bool), Fault> {
    let known = |id: Option<TurnId>| id.map(|id| turns::key(db, tenant, id)).transpose();
    let through = known(compaction.summarized_through)?;
    let first_kept = known(compaction.first_kept)?;
    let recorded = Recorded {
        id: compaction.body().id(parent.id, &session.label, now),
        parent: parent.id,
        depth: parent.depth,
        replayed: false,
    };
    let added = match turns::find_key(db, tenant, recorded.id)? {
        Some(_) => false,
        None => {
            let mut insert = db.prepare_cached(
                "INSERT INTO turns (tenant, id, session, parent, depth, kind, compaction, begins,
                     bytes, created_at, open_calls, parent_given)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'compaction', ?6, 0, 0, ?7, ?8, 0)",
            )?;
            let key = insert.insert(params![
                tenant,
                Id(recorded.id),
                session.key,
                parent.key,
                number("depth", recorded.depth)?,
                parent.compaction,
                Time(now),
                list(&parent.open_calls),
            ])?;
            db.prepare_cached(
                "INSERT INTO compactions (turn, summary, summarized_through, first_kept,
                     trigger_name, focus, summariser, tokens_before, tokens_after, usage,
                     first_kept_message, facts)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                key,
                compaction.summary,
                through,
                first_kept,
                compaction.trigger.name(),
                compaction.focus,
                compaction.summariser,
                number("tokens_before", compaction.tokens_before)?,
                number("tokens_after", compaction.tokens_after)?,
                compaction.usage.as_ref().map(Json),
                number("first_kept_message", compaction.first_kept_message as u64)?,
                compaction.facts.as_ref().map(Json),
            ])?;
            true
        }
    };
    Ok((recorded, added))
}
