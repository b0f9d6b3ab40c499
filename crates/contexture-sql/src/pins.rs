//! Pins. Each row is one revision and is never changed.

use crate::driver::{Connection, OptionalExtension, Row};
use crate::params;
use contexture_store::{NewSessionPin, SessionPin};
use jiff::Timestamp;

use crate::error::Fault;
use crate::row::{Time, unsigned};
use crate::sessions::{self, SessionRow};
use crate::together::Together;

const COLUMNS: &str = "SELECT name, revision, text, origin, created_at FROM session_pins";

fn pin_row(row: &Row<'_>) -> crate::driver::Result<SessionPin> {
    Ok(SessionPin {
        name: row.get(0)?,
        revision: unsigned(row, 1)?,
        text: row.get(2)?,
        origin: row.get(3)?,
        created_at: row.get::<Time>(4)?.0,
    })
}

/// Returns the pins of a session, in the order in which their names were first
/// used.
pub(crate) fn list(db: &Connection, tenant: i64, label: &str) -> Result<Vec<SessionPin>, Fault> {
    let mut together = Together::default();
    let session = together.add(|db| sessions::find(db, tenant, label));
    let pins = together.add(|db| list_of_session(db, tenant, label));
    together.run(db)?;
    session.take()?;
    pins.take()
}

/// Returns the pins like [`list`]. The caller checks that the session exists.
pub(crate) fn list_of_session(
    db: &Connection,
    tenant: i64,
    label: &str,
) -> Result<Vec<SessionPin>, Fault> {
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} p WHERE session IN {} AND text IS NOT NULL AND revision = (
             SELECT max(revision) FROM session_pins q
             WHERE q.session = p.session AND q.name = p.name)
         ORDER BY (SELECT min(seq) FROM session_pins q
             WHERE q.session = p.session AND q.name = p.name)",
        sessions::KEY
    ))?;
    let found = select.query_map((tenant, label), pin_row)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns every revision of a pin, oldest first.
pub(crate) fn revisions(
    db: &Connection,
    tenant: i64,
    label: &str,
    name: &str,
) -> Result<Vec<SessionPin>, Fault> {
    let session = sessions::find(db, tenant, label)?;
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} WHERE session = ?1 AND name = ?2 ORDER BY revision"
    ))?;
    let found = select.query_map((session.key, name), pin_row)?;
    let found: Vec<SessionPin> = found.collect::<Result<_, _>>()?;
    match found.is_empty() {
        true => Err(Fault::not_found("pin", name)),
        false => Ok(found),
    }
}

fn latest(db: &Connection, session: &SessionRow, name: &str) -> Result<Option<SessionPin>, Fault> {
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} WHERE session = ?1 AND name = ?2 ORDER BY revision DESC LIMIT 1"
    ))?;
    Ok(select.query_row((session.key, name), pin_row).optional()?)
}

/// Returns the first name of the form `pin-N` that was never used.
fn free_name(db: &Connection, session: &SessionRow) -> Result<String, Fault> {
    for number in 1.. {
        let name = format!("pin-{number}");
        if latest(db, session, &name)?.is_none() {
            return Ok(name);
        }
    }
    unreachable!("numbers do not end")
}

pub(crate) fn put(
    db: &Connection,
    tenant: i64,
    label: &str,
    new: &NewSessionPin,
    now: Timestamp,
) -> Result<SessionPin, Fault> {
    new.check()?;
    let session = sessions::find(db, tenant, label)?;
    sessions::check_open(db, &session)?;
    let name = match &new.name {
        Some(name) => name.clone(),
        None => free_name(db, &session)?,
    };
    let before = latest(db, &session, &name)?;
    if let Some(before) = &before
        && before.text.as_ref() == Some(&new.text)
    {
        // The text is unchanged.
        return Ok(before.clone());
    }
    let pin = SessionPin {
        name,
        revision: before.map_or(0, |before| before.revision) + 1,
        text: Some(new.text.clone()),
        origin: new.origin.clone(),
        created_at: now,
    };
    insert(db, &session, pin)
}

pub(crate) fn remove(
    db: &Connection,
    tenant: i64,
    label: &str,
    name: &str,
    now: Timestamp,
) -> Result<SessionPin, Fault> {
    let session = sessions::find(db, tenant, label)?;
    sessions::check_open(db, &session)?;
    let before = latest(db, &session, name)?.filter(|pin| pin.text.is_some());
    let before = before.ok_or_else(|| Fault::not_found("pin", name))?;
    let removed = SessionPin {
        revision: before.revision + 1,
        text: None,
        origin: None,
        created_at: now,
        ..before
    };
    insert(db, &session, removed)
}

fn insert(db: &Connection, session: &SessionRow, pin: SessionPin) -> Result<SessionPin, Fault> {
    db.prepare_cached(
        "INSERT INTO session_pins (session, name, revision, text, origin, depth, seq, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5,
             coalesce((SELECT depth FROM turns WHERE key = ?6), 0),
             (SELECT count(*) FROM session_pins WHERE session = ?1), ?7)",
    )?
    .execute(params![
        session.key,
        pin.name,
        pin.revision as i64,
        pin.text,
        pin.origin,
        session.head,
        Time(pin.created_at),
    ])?;
    // The pin is read back, because its time is stored in milliseconds.
    Ok(latest(db, session, &pin.name)?.unwrap_or(pin))
}

/// Copies to a fork the pins that its session had at the fork's first turn.
pub(crate) fn fork(db: &Connection, from: i64, to: i64, head: i64) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO session_pins (session, name, revision, text, origin, depth, seq, created_at)
         SELECT ?2, name, revision, text, origin, depth, seq, created_at FROM session_pins
         WHERE session = ?1 AND depth <= (SELECT depth FROM turns WHERE key = ?3)",
    )?
    .execute((from, to, head))?;
    Ok(())
}
