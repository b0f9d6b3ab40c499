//! Sessions, their aliases and their heads.
//!
//! A session is found by its label or by an alias. Its row has the key of its
//! latest turn, the head.

use std::sync::LazyLock;

use crate::driver::{Batch, Connection, OptionalExtension, Row};
use crate::params;
use contexture_store::{
    HeadMove, NewSession, Session, SessionChange, SessionStatus, StoreError, TurnId, check_alias,
};
use jiff::Timestamp;

use crate::error::Fault;
use crate::row::{Time, Word, id, limit, unsigned};
use crate::together::Together;
use crate::{pins, record, turns};

/// The columns of a session that recording needs.
pub(crate) struct SessionRow {
    pub(crate) key: i64,
    pub(crate) label: String,
    /// The key of the session's latest turn.
    pub(crate) head: Option<i64>,
    /// The number of moves of the head.
    pub(crate) moves: i64,
    is_sound: bool,
    is_deleted: bool,
}

impl SessionRow {
    /// Reads the columns [`ROW`] from the column `first` on.
    fn read(row: &Row<'_>, first: usize) -> crate::driver::Result<Self> {
        Ok(SessionRow {
            key: row.get(first)?,
            label: row.get(first + 1)?,
            head: row.get(first + 2)?,
            moves: row.get(first + 3)?,
            is_sound: row.get(first + 4)?,
            is_deleted: row.get(first + 5)?,
        })
    }

    /// Fails when the session is being deleted, or when the head differs from the
    /// target of the last head move.
    fn check(&self) -> Result<(), Fault> {
        match self.is_sound {
            _ if self.is_deleted => Err(Fault::not_found("session", &self.label)),
            true => Ok(()),
            false => Err(Fault::damaged(
                format!("session `{}`", self.label),
                "its head is not where it was last moved to",
            )),
        }
    }
}

/// Finds a session by its label or an alias.
pub(crate) fn find(db: &Connection, tenant: i64, label: &str) -> Result<SessionRow, Fault> {
    let session = find_row(db, tenant, label)?;
    session.check()?;
    Ok(session)
}

/// Finds a session like [`find`], also one that is being deleted.
fn find_row(db: &Connection, tenant: i64, label: &str) -> Result<SessionRow, Fault> {
    static QUERIES: LazyLock<FindQueries> = LazyLock::new(|| FindQueries::new(ROW, ""));
    find_as(db, tenant, label, &QUERIES, |row| SessionRow::read(row, 0))
}

/// Finds a session that is being deleted.
pub(crate) fn find_deleted(
    db: &Connection,
    tenant: i64,
    label: &str,
) -> Result<Option<SessionRow>, Fault> {
    let mut select = db.prepare_cached(&format!(
        "SELECT {ROW} FROM sessions s WHERE s.tenant = ?1 AND s.label = ?2 AND s.deleted = 1"
    ))?;
    let found = select.query_row((tenant, label), |row| SessionRow::read(row, 0));
    Ok(found.optional()?)
}

/// Queries for columns of the row `s` of a session and of the joined rows.
struct FindQueries {
    by_label: String,
    by_alias: String,
}

impl FindQueries {
    fn new(columns: &str, joins: &str) -> Self {
        Self {
            by_label: format!(
                "SELECT {columns} FROM sessions s {joins} WHERE s.tenant = ?1 AND s.label = ?2"
            ),
            by_alias: format!(
                "SELECT {columns} FROM aliases a JOIN sessions s ON s.key = a.session {joins}
                 WHERE a.tenant = ?1 AND a.alias = ?2"
            ),
        }
    }
}

/// Finds a session by its label or an alias.
fn find_as<T>(
    db: &Connection,
    tenant: i64,
    label: &str,
    queries: &FindQueries,
    read: impl Fn(&Row<'_>) -> crate::driver::Result<T>,
) -> Result<T, Fault> {
    let mut by_label = db.prepare_cached(&queries.by_label)?;
    if let Some(found) = by_label.query_row((tenant, label), &read).optional()? {
        return Ok(found);
    }
    let mut by_alias = db.prepare_cached(&queries.by_alias)?;
    let found = by_alias.query_row((tenant, label), &read).optional()?;
    found.ok_or_else(|| Fault::not_found("session", label))
}

/// The key of the session whose label or alias is `?2`.
pub(crate) const KEY: &str = "(SELECT key FROM sessions
        WHERE tenant = ?1 AND label = ?2 AND deleted IS NULL
    UNION ALL SELECT session FROM aliases WHERE tenant = ?1 AND alias = ?2)";

/// The columns of a session and its latest turn that recording needs.
pub(crate) struct RecordingRow {
    pub(crate) session: SessionRow,
    pub(crate) head: record::Parent,
    pub(crate) updated_at: Timestamp,
    pub(crate) remember: Option<bool>,
    status: SessionStatus,
}

impl RecordingRow {
    /// Fails when the session is closed.
    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        check_status(&self.session, self.status)
    }
}

/// Finds a session with its latest turn, to record another turn.
pub(crate) fn find_to_record(
    db: &Connection,
    tenant: i64,
    label: &str,
) -> Result<RecordingRow, Fault> {
    static QUERIES: LazyLock<FindQueries> = LazyLock::new(|| {
        let columns = format!(
            "{ROW}, s.status, s.updated_at, s.remember, {}",
            record::PARENT
        );
        FindQueries::new(&columns, "LEFT JOIN turns t ON t.key = s.head")
    });
    let found = find_as(db, tenant, label, &QUERIES, |row| {
        let session = SessionRow::read(row, 0)?;
        Ok(RecordingRow {
            head: match session.head {
                Some(key) => record::Parent::read(row, 9, key)?,
                None => record::Parent::default(),
            },
            session,
            status: row.get::<Word<_>>(6)?.0,
            updated_at: row.get::<Time>(7)?.0,
            remember: row.get(8)?,
        })
    })?;
    found.session.check()?;
    Ok(found)
}

/// The columns of a [`SessionRow`]. The last but one is true when the last head
/// move has the same target as `head`.
const ROW: &str = "s.key, s.label, s.head, s.moves, s.head IS NOT DISTINCT FROM (
    SELECT m.target FROM head_moves m WHERE m.session = s.key AND m.seq = s.moves - 1),
    s.deleted IS NOT NULL";

/// Fails when the session is closed.
pub(crate) fn check_open(db: &Connection, session: &SessionRow) -> Result<(), Fault> {
    let mut status = db.prepare_cached("SELECT status FROM sessions WHERE key = ?1")?;
    let status: SessionStatus =
        status.query_row([session.key], |row| Ok(row.get::<Word<_>>(0)?.0))?;
    check_status(session, status)
}

fn check_status(session: &SessionRow, status: SessionStatus) -> Result<(), Fault> {
    match status {
        SessionStatus::Active => Ok(()),
        closed => Err(Fault::Refused(StoreError::Closed {
            session: session.label.clone(),
            status: closed.name(),
        })),
    }
}

const COLUMNS: &str = "s.label, head.id, coalesce(head.depth, 0), s.persona, p.label, parent.id, \
    s.task, s.status, s.created_at, s.updated_at, s.remember, \
    (SELECT n.turn_deletions FROM tenants n WHERE n.key = s.tenant), s.key";

const JOINS: &str = "LEFT JOIN turns head ON head.key = s.head
    LEFT JOIN sessions p ON p.key = s.parent_session
    LEFT JOIN turns parent ON parent.key = s.parent_turn";

fn session(row: &Row<'_>) -> crate::driver::Result<(i64, Session)> {
    let session = Session {
        label: row.get(0)?,
        aliases: Vec::new(),
        head: id(row, 1)?,
        turns: unsigned(row, 2)?,
        persona: row.get(3)?,
        parent_session: row.get(4)?,
        parent_turn: id(row, 5)?,
        task: row.get(6)?,
        status: row.get::<Word<_>>(7)?.0,
        created_at: row.get::<Time>(8)?.0,
        updated_at: row.get::<Time>(9)?.0,
        remember: row.get(10)?,
        turn_deletions: unsigned(row, 11)?,
    };
    Ok((row.get(12)?, session))
}

fn with_aliases(db: &Connection, (key, mut session): (i64, Session)) -> Result<Session, Fault> {
    let mut select =
        db.prepare_cached("SELECT alias FROM aliases WHERE session = ?1 ORDER BY alias")?;
    let aliases = select.query_map([key], |row| row.get(0))?;
    session.aliases = aliases.collect::<Result<_, _>>()?;
    Ok(session)
}

fn by_key(db: &Connection, key: i64) -> Result<Session, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM sessions s {JOINS} WHERE s.key = ?1");
    with_aliases(db, db.query_row(&sql, [key], session)?)
}

pub(crate) fn get(db: &Connection, tenant: i64, label: &str) -> Result<Session, Fault> {
    Ok(get_with_row(db, tenant, label)?.0)
}

/// Returns a session, and the columns that recording needs.
pub(crate) fn get_with_row(
    db: &Connection,
    tenant: i64,
    label: &str,
) -> Result<(Session, SessionRow), Fault> {
    static QUERIES: LazyLock<FindQueries> =
        LazyLock::new(|| FindQueries::new(&format!("{COLUMNS}, {ROW}"), JOINS));
    static ALIASES: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT alias FROM aliases WHERE session IN {KEY} ORDER BY alias")
    });
    let mut together = Together::default();
    let found = together.add(|db| {
        let (found, row) = find_as(db, tenant, label, &QUERIES, |row| {
            Ok((session(row)?.1, SessionRow::read(row, 13)?))
        })?;
        row.check()?;
        Ok((found, row))
    });
    let aliases = together.add(|db| {
        let mut select = db.prepare_cached(&ALIASES)?;
        let aliases = select.query_map((tenant, label), |row| row.get(0))?;
        Ok(aliases.collect::<Result<_, _>>()?)
    });
    together.run(db)?;
    let (found, row) = found.take()?;
    let aliases = aliases.take()?;
    Ok((Session { aliases, ..found }, row))
}

pub(crate) fn list(
    db: &Connection,
    tenant: i64,
    after: Option<&str>,
    most: usize,
) -> Result<Vec<Session>, Fault> {
    // Every label sorts after the empty text.
    let mut select = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM sessions s {JOINS}
         WHERE s.tenant = ?1 AND s.label > ?2 AND s.deleted IS NULL
         ORDER BY s.label LIMIT ?3"
    ))?;
    let found = select.query_map((tenant, after.unwrap_or(""), limit(most)), session)?;
    found
        .map(|found| with_aliases(db, found?))
        .collect::<Result<_, _>>()
}

pub(crate) fn create(
    db: &Connection,
    tenant: i64,
    new: &NewSession,
    now: Timestamp,
) -> Result<Session, Fault> {
    new.check()?;
    check_free(db, tenant, &new.label)?;
    let head = new
        .head
        .map(|head| turns::key(db, tenant, head))
        .transpose()?;
    let parent = new.parent_session.as_ref();
    let parent = parent.map(|label| find(db, tenant, label)).transpose()?;
    let parent_turn = head.or(parent.as_ref().and_then(|parent| parent.head));
    let parent = parent.map(|parent| parent.key);
    let mut insert = db.prepare_cached(
        "INSERT INTO sessions (tenant, label, moves, persona, parent_session, parent_turn, task,
             status, created_at, updated_at, remember)
         VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, 'active', ?7, ?7, ?8)",
    )?;
    let key = insert.insert(params![
        tenant,
        new.label,
        new.persona,
        parent,
        parent_turn,
        new.task,
        Time(now),
        new.remember,
    ])?;
    let session = SessionRow {
        key,
        label: new.label.clone(),
        head: None,
        moves: 0,
        is_sound: true,
        is_deleted: false,
    };
    for alias in &new.aliases {
        add_alias(db, tenant, session.key, alias)?;
    }
    let reason = match head {
        Some(_) => "forked",
        None => "created",
    };
    move_head(db, &session, head, reason, now)?;
    if let (Some(parent), Some(head)) = (parent, head) {
        pins::fork(db, parent, session.key, head)?;
    }
    by_key(db, session.key)
}

/// Sets the parent of a session that has none. Does nothing if the parent is the
/// session itself or one of its descendants.
pub(crate) fn set_parent(
    db: &Connection,
    tenant: i64,
    session: &SessionRow,
    parent: &str,
) -> Result<(), Fault> {
    let parent = find(db, tenant, parent)?.key;
    let mut select = db.prepare_cached("SELECT parent_session FROM sessions WHERE key = ?1")?;
    let mut above = Some(parent);
    while let Some(key) = above {
        if key == session.key {
            return Ok(());
        }
        above = select.query_row([key], |row| row.get(0))?;
    }
    db.prepare_cached(
        "UPDATE sessions SET parent_session = ?2 WHERE key = ?1 AND parent_session IS NULL",
    )?
    .execute((session.key, parent))?;
    Ok(())
}

fn check_free(db: &Connection, tenant: i64, name: &str) -> Result<(), Fault> {
    match find_row(db, tenant, name) {
        Ok(session) if session.is_deleted => {
            Err(Fault::exists("pending deletion of session", name))
        }
        Ok(session) if session.label == name => Err(Fault::exists("session", name)),
        Ok(_) => Err(Fault::exists("session with the alias", name)),
        Err(Fault::Refused(StoreError::NotFound { .. })) => Ok(()),
        Err(fault) => Err(fault),
    }
}

fn add_alias(db: &Connection, tenant: i64, session: i64, alias: &str) -> Result<(), Fault> {
    check_free(db, tenant, alias)?;
    db.prepare_cached("INSERT INTO aliases (tenant, alias, session) VALUES (?1, ?2, ?3)")?
        .execute((tenant, alias, session))?;
    Ok(())
}

pub(crate) fn change(
    db: &Connection,
    tenant: i64,
    label: &str,
    change: &SessionChange,
) -> Result<Session, Fault> {
    let session = find(db, tenant, label)?;
    if let Some(alias) = &change.alias {
        check_alias(alias, &session.label)?;
        add_alias(db, tenant, session.key, alias)?;
    }
    if let Some(status) = change.status {
        db.prepare_cached("UPDATE sessions SET status = ?1 WHERE key = ?2")?
            .execute((Word(status), session.key))?;
    }
    if let Some(remember) = change.remember {
        db.prepare_cached("UPDATE sessions SET remember = ?1 WHERE key = ?2")?
            .execute((remember, session.key))?;
    }
    by_key(db, session.key)
}

/// Moves the head of a session and stores the move. The session is not read
/// again: the caller must have read it in this transaction.
pub(crate) fn move_head(
    db: &Connection,
    session: &SessionRow,
    to: Option<i64>,
    reason: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    let mut moves = HeadMoves::default();
    moves.add(session, to, reason, now)?;
    moves.write(db)
}

/// Moves of the heads of different sessions.
#[derive(Default)]
pub(crate) struct HeadMoves {
    moves: Batch,
    sessions: Batch,
}

impl HeadMoves {
    /// Adds a move, like [`move_head`].
    pub(crate) fn add(
        &mut self,
        session: &SessionRow,
        to: Option<i64>,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), Fault> {
        self.moves.add(params![
            session.key,
            session.moves,
            session.head,
            to,
            reason,
            Time(now)
        ])?;
        (self.sessions).add((to, session.moves + 1, Time(now), session.key))?;
        Ok(())
    }

    /// Writes the moves.
    pub(crate) fn write(self, db: &Connection) -> Result<(), Fault> {
        db.prepare_cached(
            "INSERT INTO head_moves (session, seq, source, target, reason, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute_all(self.moves)?;
        // The time of the session never decreases, even if the clock does.
        db.prepare_cached(
            "UPDATE sessions SET head = ?1, moves = ?2, updated_at = CASE
                 WHEN updated_at > ?3 THEN updated_at ELSE ?3 END
             WHERE key = ?4",
        )?
        .execute_all(self.sessions)?;
        Ok(())
    }
}

/// Fails with a conflict unless the session's head is the expected one.
pub(crate) fn check_head(
    session: &SessionRow,
    head: Option<TurnId>,
    expected: Option<TurnId>,
) -> Result<(), Fault> {
    if head == expected {
        return Ok(());
    }
    Err(Fault::Refused(StoreError::Conflict {
        session: session.label.clone(),
        expected,
        head,
    }))
}

pub(crate) fn move_head_from(
    db: &Connection,
    tenant: i64,
    label: &str,
    (from, to): (Option<TurnId>, Option<TurnId>),
    reason: &str,
    now: Timestamp,
) -> Result<Session, Fault> {
    let session = find(db, tenant, label)?;
    let head = session.head.map(|key| turns::id_of(db, key)).transpose()?;
    check_head(&session, head, from)?;
    let to = to.map(|to| turns::key(db, tenant, to)).transpose()?;
    move_head(db, &session, to, reason, now)?;
    by_key(db, session.key)
}

pub(crate) fn head_moves(
    db: &Connection,
    tenant: i64,
    label: &str,
    most: usize,
) -> Result<Vec<HeadMove>, Fault> {
    let session = find(db, tenant, label)?;
    let mut select = db.prepare_cached(
        "SELECT source.id, target.id, m.reason, m.at FROM head_moves m
         LEFT JOIN turns source ON source.key = m.source
         LEFT JOIN turns target ON target.key = m.target
         WHERE m.session = ?1 ORDER BY m.seq DESC LIMIT ?2",
    )?;
    let moves = select.query_map((session.key, limit(most)), |row| {
        Ok(HeadMove {
            from: id(row, 0)?,
            to: id(row, 1)?,
            reason: row.get(2)?,
            at: row.get::<Time>(3)?.0,
        })
    })?;
    Ok(moves.collect::<Result<_, _>>()?)
}
