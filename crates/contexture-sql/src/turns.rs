//! Reads turns and walks along their parents.
//!
//! A walk returns turns without their content and follows the keys of parents,
//! newest first. The content is read in a second step, for the turns that are
//! needed. A turn is compared with its id, which is a hash of its content.

use crate::driver::{Connection, OptionalExtension, Row, Statement};
use std::collections::HashMap;

use contexture_core::Usage;
use contexture_sql_archive::message_key::message_key;
use contexture_store::{
    BlockCounts, Compaction, Message, NewTurn, ParentTurn, SentBlock, Turn, TurnError, TurnHead,
    TurnId, TurnKind, Walk,
};

use crate::error::{Error, Fault};
use crate::row::{Id, Json, Time, Word, id, json, unsigned, word};
use crate::together::Together;

/// Returns the key of a turn. Fails if there is no such turn, or if its content
/// was deleted.
pub(crate) fn key(db: &Connection, tenant: i64, id: TurnId) -> Result<i64, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key FROM turns WHERE tenant = ?1 AND id = ?2 AND deleted IS NULL",
    )?;
    let found = select.query_row((tenant, Id(id)), |row| row.get(0));
    found
        .optional()?
        .ok_or_else(|| Fault::not_found("turn", id))
}

/// Returns the key of a turn to refer to. Its content may have been deleted.
pub(crate) fn key_to_refer_to(db: &Connection, tenant: i64, id: TurnId) -> Result<i64, Fault> {
    find_key(db, tenant, id)?.ok_or_else(|| Fault::not_found("turn", id))
}

/// Returns the key of a turn, also if its content was deleted.
pub(crate) fn find_key(db: &Connection, tenant: i64, id: TurnId) -> Result<Option<i64>, Fault> {
    let mut select = db.prepare_cached("SELECT key FROM turns WHERE tenant = ?1 AND id = ?2")?;
    Ok(select
        .query_row((tenant, Id(id)), |row| row.get(0))
        .optional()?)
}

/// Returns the id of the turn with that key.
pub(crate) fn id_of(db: &Connection, key: i64) -> Result<TurnId, Fault> {
    let mut select = db.prepare_cached("SELECT id FROM turns WHERE key = ?1")?;
    Ok(select.query_row([key], |row| row.get::<Id>(0))?.0)
}

/// Returns the key of a counter, if the tenant has one with this name.
pub(crate) fn counter(db: &Connection, tenant: i64, name: &str) -> Result<Option<i64>, Fault> {
    let mut select =
        db.prepare_cached("SELECT key FROM counters WHERE tenant = ?1 AND name = ?2")?;
    Ok(select
        .query_row((tenant, name), |row| row.get(0))
        .optional()?)
}

pub(crate) fn walk(
    db: &Connection,
    tenant: i64,
    from: TurnId,
    walk: &Walk<'_>,
) -> Result<Vec<TurnHead>, Fault> {
    let mut together = Together::default();
    let counter = together.add(|db| counter(db, tenant, walk.counter));
    let first = together.add(|db| key(db, tenant, from));
    together.run(db)?;
    // Rows are read one at a time, because the loop decides when to stop.
    let mut rows = PathRows::new(db, counter.take()?)?;
    let mut heads: Vec<TurnHead> = Vec::new();
    let (mut tokens, mut normal) = (0_u64, 0);
    let mut next = Some(first.take()?);
    let mut latest_compaction: Option<(i64, TurnId)> = None;
    while let Some(key) = next {
        let PathRow {
            mut head,
            parent,
            compaction,
            is_deleted,
        } = rows.row(key)?;
        // The turns before it were deleted, too.
        if is_deleted {
            next = None;
            break;
        }
        if heads.is_empty() && head.id != from {
            let message = "the index of turns leads to another turn";
            return Err(Fault::damaged(format!("turn `{from}`"), message));
        }
        if let Some(last) = heads.last_mut() {
            last.parent = Some(head.id);
            // A page with reordered rows can return another turn.
            if head.depth + u64::from(last.kind == TurnKind::Normal) != last.depth {
                let message = "the turn that it leads to is not the turn before it";
                return Err(Fault::damaged(format!("turn `{}`", last.id), message));
            }
        }
        head.compaction = match (head.kind, compaction) {
            (TurnKind::Compaction, _) => Some(head.id),
            (_, None) => None,
            (_, Some(key)) => match latest_compaction {
                Some((known, id)) if known == key => Some(id),
                _ => {
                    let id = rows.id_of(key)?;
                    latest_compaction = Some((key, id));
                    Some(id)
                }
            },
        };
        tokens = tokens.saturating_add(head.weight());
        normal += usize::from(head.kind == TurnKind::Normal);
        heads.push(head);
        next = parent;
        let spent = tokens > walk.tokens && normal >= walk.at_least && head.begins;
        if spent || walk.through == Some(head.id) {
            break;
        }
    }
    // The parent of the last turn was not read.
    if let (Some(last), Some(parent)) = (heads.last_mut(), next) {
        last.parent = rows.id_unless_deleted(parent)?;
    }
    Ok(heads)
}

/// A turn without the ids of its parent and compaction, and their keys.
struct PathRow {
    head: TurnHead,
    parent: Option<i64>,
    compaction: Option<i64>,
    is_deleted: bool,
}

/// The rows of a path from a turn to the first one.
struct PathRows<'db> {
    db: &'db Connection,
    counter: Option<i64>,
    select: Statement<'db>,
    // Rows that were read ahead.
    ahead: HashMap<i64, PathRow>,
    // The number of rows that one statement reads.
    at_once: i64,
}

const PATH_COLUMNS: &str = "SELECT t.id, t.parent, t.depth, t.kind, t.compaction, t.begins, \
    t.bytes, c.total, t.deleted IS NOT NULL, t.key";

impl<'db> PathRows<'db> {
    fn new(db: &'db Connection, counter: Option<i64>) -> Result<Self, Fault> {
        let select = db.prepare_cached(&format!(
            "{PATH_COLUMNS} FROM turns t LEFT JOIN counts c ON c.turn = t.key AND c.counter = ?2
             WHERE t.key = ?1"
        ))?;
        Ok(Self {
            db,
            counter,
            select,
            ahead: HashMap::new(),
            at_once: 32,
        })
    }

    fn row(&mut self, key: i64) -> Result<PathRow, Fault> {
        if !self.db.is_remote() {
            return Ok(self.select.query_row((key, self.counter), head_row)?);
        }
        if !self.ahead.contains_key(&key) {
            self.read_ahead(key)?;
        }
        let row = self.ahead.remove(&key);
        Ok(row.ok_or(Error::NoRows)?)
    }

    /// Returns the id of the turn with that key.
    fn id_of(&self, key: i64) -> Result<TurnId, Fault> {
        match self.ahead.get(&key) {
            Some(row) => Ok(row.head.id),
            None => id_of(self.db, key),
        }
    }

    /// Returns the id of the turn with that key, unless its content was deleted.
    fn id_unless_deleted(&self, key: i64) -> Result<Option<TurnId>, Fault> {
        if let Some(row) = self.ahead.get(&key) {
            return Ok(Some(row.head.id).filter(|_| !row.is_deleted));
        }
        let mut select =
            (self.db).prepare_cached("SELECT id, deleted IS NOT NULL FROM turns WHERE key = ?1")?;
        let (id, is_deleted) =
            select.query_row([key], |row| Ok((row.get::<Id>(0)?.0, row.get::<bool>(1)?)))?;
        Ok(Some(id).filter(|_| !is_deleted))
    }

    fn read_ahead(&mut self, key: i64) -> Result<(), Fault> {
        let mut select = self.db.prepare_cached(&format!(
            "WITH RECURSIVE path (key, parent, place) AS (
                 SELECT key, parent, 1 FROM turns WHERE key = ?1
                 UNION ALL
                 SELECT t.key, t.parent, p.place + 1 FROM path p JOIN turns t ON t.key = p.parent
                 WHERE p.place < ?3)
             {PATH_COLUMNS} FROM path p JOIN turns t ON t.key = p.key
             LEFT JOIN counts c ON c.turn = t.key AND c.counter = ?2"
        ))?;
        let rows = select.query_map((key, self.counter, self.at_once), |row| {
            Ok((row.get(9)?, head_row(row)?))
        })?;
        self.ahead = rows.collect::<Result<_, _>>()?;
        self.at_once = (self.at_once * 2).min(1024);
        Ok(())
    }
}

fn head_row(row: &Row<'_>) -> crate::driver::Result<PathRow> {
    let head = TurnHead {
        id: row.get::<Id>(0)?.0,
        parent: None,
        depth: unsigned(row, 2)?,
        kind: row.get::<Word<_>>(3)?.0,
        compaction: None,
        begins: row.get(5)?,
        bytes: unsigned(row, 6)?,
        tokens: match row.get_ref(7)? {
            crate::value::ValueRef::Null => None,
            _ => Some(unsigned(row, 7)?),
        },
    };
    Ok(PathRow {
        head,
        parent: row.get(1)?,
        compaction: row.get(4)?,
        is_deleted: row.get(8)?,
    })
}

pub(crate) fn turns(
    db: &Connection,
    tenant: i64,
    ids: &[TurnId],
    counter_name: &str,
) -> Result<Vec<Turn>, Fault> {
    let counter = counter(db, tenant, counter_name)?;
    let mut together = Together::default();
    let turns: Vec<_> = ids
        .iter()
        .map(|&id| {
            together.add(move |db| {
                let key = key(db, tenant, id)?;
                let mut together = Together::default();
                let counted = together.add(|db| match counter {
                    Some(counter) => counts(db, key, counter),
                    None => Ok(None),
                });
                let turn = together.add(|db| whole(db, key));
                together.run(db)?;
                let mut turn = turn.take()?;
                // A damaged index can return another, undamaged turn.
                if turn.id != id {
                    let message = "the index of turns leads to another turn";
                    return Err(Fault::damaged(format!("turn `{id}`"), message));
                }
                turn.counts = counted.take()?;
                Ok(turn)
            })
        })
        .collect();
    together.run(db)?;
    turns.into_iter().map(|turn| turn.take()).collect()
}

/// Reads a turn, and fails when its content does not match its id, which is the
/// hash of the content.
pub(crate) fn whole(db: &Connection, key: i64) -> Result<Turn, Fault> {
    let mut together = Together::default();
    let found = together.add(|db| turn(db, key));
    let messages = together.add(|db| messages(db, key));
    let sent = together.add(|db| sent(db, key));
    together.run(db)?;
    let StoredTurn {
        mut turn,
        label,
        is_parent_deleted,
    } = found.take()?;
    let body = match turn.kind {
        TurnKind::Normal => {
            turn.turn.messages = messages.take()?;
            turn.turn.sent = sent.take()?;
            turn.turn.body()
        }
        TurnKind::Compaction => {
            let compaction = turn.compaction.insert(compaction(db, key)?);
            compaction.body()
        }
    };
    match body.id(turn.parent, &label, turn.created_at) == turn.id {
        // A turn whose parent was deleted is the first of its path.
        true => Ok(Turn {
            parent: turn.parent.filter(|_| !is_parent_deleted),
            ..turn
        }),
        false => Err(Fault::damaged(
            format!("turn `{}` of session `{label}`", turn.id),
            "its content does not match its hash",
        )),
    }
}

/// A turn without its messages.
struct StoredTurn {
    turn: Turn,
    /// The label of the session that the turn was recorded in.
    label: String,
    is_parent_deleted: bool,
}

/// Reads a turn without its messages.
fn turn(db: &Connection, key: i64) -> Result<StoredTurn, Fault> {
    let mut select = db.prepare_cached(
        "SELECT t.id, parent.id, t.depth, t.kind, t.created_at, t.model, t.provider,
             t.input_tokens, t.output_tokens, t.cached_input_tokens, t.cache_write_tokens,
             t.reasoning_tokens, t.stop_reason, t.error_kind, t.error_message, t.status, t.role,
             t.toolset_name, t.tools, t.permissions_granted, t.source_event_id, t.request_hash,
             t.parent_given, t.idempotency_key, coalesce(l.label, s.label),
             parent.deleted IS NOT NULL
         FROM turns t LEFT JOIN turns parent ON parent.key = t.parent
         JOIN sessions s ON s.key = t.session LEFT JOIN turn_labels l ON l.turn = t.key
         WHERE t.key = ?1",
    )?;
    Ok(select.query_row([key], |row| {
        let parent = id(row, 1)?;
        let parent_given: bool = row.get(22)?;
        let usage = match row.get::<Option<i64>>(7)? {
            None => None,
            Some(_) => Some(Usage {
                input_tokens: unsigned(row, 7)?,
                output_tokens: unsigned(row, 8)?,
                cached_input_tokens: unsigned(row, 9)?,
                cache_write_tokens: unsigned(row, 10)?,
                reasoning_tokens: unsigned(row, 11)?,
            }),
        };
        let error = match word(row, 13)? {
            None => None,
            Some(kind) => Some(TurnError {
                kind,
                message: row.get(14)?,
            }),
        };
        let turn = NewTurn {
            messages: Vec::new(),
            model: row.get(5)?,
            provider: row.get(6)?,
            usage,
            stop_reason: word(row, 12)?,
            error,
            status: word(row, 15)?,
            role: word(row, 16)?,
            toolset_name: row.get(17)?,
            tools: json(row, 18)?.unwrap_or_default(),
            permissions_granted: json(row, 19)?.unwrap_or_default(),
            source_event_id: row.get(20)?,
            request_hash: row.get(21)?,
            // A parent that the caller gave equals the stored parent; otherwise
            // recording failed with a conflict.
            parent_turn_id: match (parent_given, parent) {
                (false, _) => ParentTurn::Head,
                (true, None) => ParentTurn::Empty,
                (true, Some(parent)) => ParentTurn::Turn(parent),
            },
            idempotency_key: row.get(23)?,
            sent: Vec::new(),
        };
        let turn = Turn {
            id: row.get::<Id>(0)?.0,
            parent,
            depth: unsigned(row, 2)?,
            kind: row.get::<Word<_>>(3)?.0,
            created_at: row.get::<Time>(4)?.0,
            turn,
            compaction: None,
            counts: None,
        };
        Ok(StoredTurn {
            turn,
            label: row.get(24)?,
            is_parent_deleted: row.get(25)?,
        })
    })?)
}

fn messages(db: &Connection, turn: i64) -> Result<Vec<Message>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT role, source, content, tool_call_id, is_error, context_json FROM messages
         WHERE key >= ?1 AND key < ?2 ORDER BY key",
    )?;
    let range = (message_key(turn, 0), message_key(turn + 1, 0));
    let messages = select.query_map(range, message_row)?;
    Ok(messages.collect::<Result<_, _>>()?)
}

/// Reads the message with that key.
pub(crate) fn message(db: &Connection, key: i64) -> Result<Message, Fault> {
    let mut select = db.prepare_cached(
        "SELECT role, source, content, tool_call_id, is_error, context_json FROM messages
         WHERE key = ?1",
    )?;
    Ok(select.query_row([key], message_row)?)
}

fn message_row(row: &Row<'_>) -> crate::driver::Result<Message> {
    Ok(Message {
        role: row.get::<Word<_>>(0)?.0,
        source: word(row, 1)?,
        content: row.get::<Json<_>>(2)?.0,
        tool_call_id: row.get(3)?,
        is_error: row.get(4)?,
        context_json: json(row, 5)?,
    })
}

fn compaction(db: &Connection, turn: i64) -> Result<Compaction, Fault> {
    let mut select = db.prepare_cached(
        "SELECT c.summary, through.id, kept.id, c.trigger_name, c.focus, c.summariser,
             c.tokens_before, c.tokens_after, c.usage, c.first_kept_message, c.facts
         FROM compactions c
         LEFT JOIN turns through ON through.key = c.summarized_through
         LEFT JOIN turns kept ON kept.key = c.first_kept
         WHERE c.turn = ?1",
    )?;
    Ok(select.query_row([turn], |row| {
        Ok(Compaction {
            summary: row.get(0)?,
            summarized_through: id(row, 1)?,
            first_kept: id(row, 2)?,
            trigger: row.get::<Word<_>>(3)?.0,
            focus: row.get(4)?,
            summariser: row.get(5)?,
            tokens_before: unsigned(row, 6)?,
            tokens_after: unsigned(row, 7)?,
            usage: json(row, 8)?,
            first_kept_message: usize::try_from(unsigned(row, 9)?).unwrap_or(usize::MAX),
            facts: json(row, 10)?,
            made_of: Vec::new(),
        })
    })?)
}

/// Reads the message that a turn answers, in the form that was sent.
fn sent(db: &Connection, turn: i64) -> Result<Vec<SentBlock>, Fault> {
    let mut select = db.prepare_cached("SELECT blocks FROM sent_messages WHERE turn = ?1")?;
    let found = select.query_row([turn], |row| row.get::<Json<_>>(0));
    Ok(found.optional()?.map(|blocks| blocks.0).unwrap_or_default())
}

fn counts(db: &Connection, turn: i64, counter: i64) -> Result<Option<BlockCounts>, Fault> {
    let mut select =
        db.prepare_cached("SELECT blocks FROM counts WHERE turn = ?1 AND counter = ?2")?;
    let found = select.query_row((turn, counter), |row| row.get::<Json<_>>(0));
    Ok(found.optional()?.map(|blocks| blocks.0))
}
