//! Events of sessions, for listeners on all servers.
//!
//! An event gets its number while its tenant's write lock is held. The numbers
//! are therefore in the order of the commits, and a listener that has seen a
//! number has missed nothing before it.

use contexture_store::{EventPage, Events, MAX_EVENTS, StoreError, StoredEvent};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::driver::{Batch, Connection, OptionalExtension as _};
use crate::error::Fault;
use crate::row::{Json, Time, limit, unsigned};
use crate::together::Together;
use crate::{Backend, SqlStore};

/// How long events are stored, in milliseconds.
const RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;

impl<B: Backend> Events for SqlStore<B> {
    fn put_event(&self, kind: &str, session: &str, data: Map<String, Value>, now: Timestamp) {
        let (kind, session) = (kind.to_owned(), session.to_owned());
        let write =
            move |db: &Connection, tenant: i64| insert(db, tenant, &kind, &session, &data, now);
        // A listener that misses the event can read the session.
        let announcer = self.backend.announcer();
        self.write_later(write, move |done| {
            if let (Ok(()), Some(announce)) = (done, announcer) {
                announce();
            }
        });
    }

    fn events(&self, after: u64, most: usize) -> Result<EventPage, StoreError> {
        self.settle();
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.read(|db, tenant| {
            let mut together = Together::default();
            let numbers = together.add(|db| numbers(db, tenant));
            let events = together.add(|db| list(db, tenant, after, most));
            together.run(db)?;
            let (oldest, latest) = numbers.take()?;
            Ok(EventPage {
                events: events.take()?,
                oldest,
                latest,
            })
        })
    }
}

fn numbers(db: &Connection, tenant: i64) -> Result<(u64, u64), Fault> {
    let mut select = db.prepare_cached(
        "SELECT coalesce((SELECT min(seq) FROM events WHERE tenant = ?1), 0),
             coalesce((SELECT max(seq) FROM events WHERE tenant = ?1), 0)",
    )?;
    let found = select.query_row([tenant], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)));
    Ok(found?)
}

fn list(db: &Connection, tenant: i64, after: i64, most: usize) -> Result<Vec<StoredEvent>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT seq, at, kind, session, data FROM events
         WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let found = select.query_map((tenant, after, limit(most)), |row| {
        Ok(StoredEvent {
            number: unsigned(row, 0)?,
            at: row.get::<Time>(1)?.0,
            kind: row.get(2)?,
            session: row.get(3)?,
            data: row.get::<Json<_>>(4)?.0,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the number of the latest event, or 0. `at_least` is a number that was the
/// latest before, or 0.
///
/// PostgreSQL reads all numbers of a tenant on the last page of the index, unless the
/// query has a limit below. The latest event is never removed, so that the query
/// finds none only after the data of the tenant was deleted, or after the transaction
/// that added the event was rolled back.
pub(crate) fn latest(db: &Connection, tenant: i64, at_least: i64) -> Result<i64, Fault> {
    let sql = "SELECT seq FROM events WHERE tenant = ?1 AND seq >= ?2 ORDER BY seq DESC LIMIT 1";
    let find = |from: i64| {
        let found = db.query_row(sql, (tenant, from), |row| row.get(0));
        found.optional()
    };
    let found = match find(at_least)? {
        None if at_least > 0 => find(0)?,
        found => found,
    };
    Ok(found.unwrap_or(0))
}

/// Events of one transaction, whose numbers follow from the latest ones before it.
#[derive(Default)]
pub(crate) struct NewEvents {
    batch: Batch,
    /// The tenants whose old events are removed, with the number of the event that
    /// causes it, and the time of the call.
    full: Vec<(i64, i64, Timestamp)>,
}

impl NewEvents {
    /// Adds an event. `latest` is the number of the tenant's latest event.
    pub(crate) fn add(
        &mut self,
        tenant: i64,
        latest: &mut i64,
        kind: &str,
        session: &str,
        data: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        *latest += 1;
        (self.batch).add((tenant, *latest, Time(now), kind, session, Json(data)))?;
        if *latest % REMOVE_EACH == 0 {
            self.full.push((tenant, *latest, now));
        }
        Ok(())
    }

    /// Writes the events.
    pub(crate) fn insert(self, db: &Connection) -> Result<(), Fault> {
        db.prepare_cached(
            "INSERT INTO events (tenant, seq, at, kind, session, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute_all(self.batch)?;
        for (tenant, number, now) in self.full {
            remove(db, tenant, number, now)?;
        }
        Ok(())
    }
}

/// Adds an event in the transaction that causes it. Every 64th event of a
/// tenant removes old events.
pub(crate) fn insert(
    db: &Connection,
    tenant: i64,
    kind: &str,
    session: &str,
    data: &Map<String, Value>,
    now: Timestamp,
) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO events (tenant, seq, at, kind, session, data)
         SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3, ?4, ?5 FROM events WHERE tenant = ?1",
    )?
    .execute((tenant, Time(now), kind, session, Json(data)))?;
    remove_old(db, tenant, now)
}

/// The number of new events of a tenant after which old events are removed.
const REMOVE_EACH: i64 = 64;

/// The number of new events of a tenant after which a removal does not rely on earlier
/// ones.
const REMOVE_ALL_EACH: i64 = 64 * REMOVE_EACH;

/// Removes the events before the first one that is young enough, and those before the
/// latest ones that are stored. `number` is the number of a new event.
///
/// Events are removed in the order of their numbers, each time that a number is a
/// multiple of [`REMOVE_EACH`]. The statement begins with the first event that can be
/// left after the previous removal. Until VACUUM has run, PostgreSQL would otherwise read
/// the index entries of all events that were removed before.
fn remove(db: &Connection, tenant: i64, number: i64, now: Timestamp) -> Result<(), Fault> {
    let (from, first) = removed_numbers(number);
    db.prepare_cached(
        "DELETE FROM events WHERE tenant = ?1 AND seq >= ?4 AND seq < (SELECT max(first) FROM (
             SELECT ?3 AS first
             UNION ALL
             SELECT coalesce(
                 (SELECT seq FROM events WHERE tenant = ?1 AND seq >= ?4 AND at >= ?2
                     ORDER BY seq LIMIT 1),
                 ?5)) AS kept)",
    )?
    .execute((tenant, oldest(now), first, from, number))?;
    Ok(())
}

/// Returns the first number that can still be stored when the event with this number is
/// added, and the first that remains stored.
fn removed_numbers(number: i64) -> (i64, i64) {
    let first = number - MAX_EVENTS as i64 + 1;
    match number % REMOVE_ALL_EACH == 0 {
        true => (0, first),
        false => (first - REMOVE_EACH, first),
    }
}

/// Removes events like [`remove`], if the number of the latest event is a multiple of
/// [`REMOVE_EACH`]. The statement compares the number itself, so that no call waits for
/// it. The latest event remains, because the next number follows from it.
fn remove_old(db: &Connection, tenant: i64, now: Timestamp) -> Result<(), Fault> {
    db.prepare_cached(
        "DELETE FROM events WHERE tenant = ?1 AND seq < (SELECT max(first) FROM (
             SELECT max(seq) - ?3 + 1 AS first FROM events WHERE tenant = ?1
             UNION ALL
             SELECT coalesce(
                 (SELECT seq FROM events WHERE tenant = ?1 AND at >= ?2 ORDER BY seq LIMIT 1),
                 (SELECT max(seq) FROM events WHERE tenant = ?1))) AS kept
             WHERE (SELECT max(seq) FROM events WHERE tenant = ?1) % ?4 = 0)",
    )?
    .execute((tenant, oldest(now), MAX_EVENTS as i64, REMOVE_EACH))?;
    Ok(())
}

/// Returns the time of the oldest events that are stored.
fn oldest(now: Timestamp) -> i64 {
    now.as_millisecond().saturating_sub(RETENTION_MS)
}

/// Removes the content of at most `most` events of a session. Returns their number.
pub(crate) fn forget_some(
    db: &Connection,
    tenant: i64,
    label: &str,
    most: usize,
) -> Result<usize, Fault> {
    let mut update = db.prepare_cached(
        "UPDATE events SET session = '', data = '{}' WHERE tenant = ?1 AND seq IN (
             SELECT seq FROM events WHERE tenant = ?1 AND session = ?2 ORDER BY seq LIMIT ?3)",
    )?;
    Ok(update.change((tenant, label, crate::row::limit(most)))?)
}

/// Clears the events of a deleted session. Their numbers are not reused.
pub(crate) fn forget_session(db: &Connection, tenant: i64, label: &str) -> Result<(), Fault> {
    db.prepare_cached(
        "UPDATE events SET session = '', data = '{}' WHERE tenant = ?1 AND session = ?2",
    )?
    .execute((tenant, label))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_removal_begins_where_the_previous_one_ended() {
        let most = MAX_EVENTS as i64;
        let mut stored = BTreeSet::new();
        for number in 1..=3 * most {
            stored.insert(number);
            if number % REMOVE_EACH == 0 {
                let (from, first) = removed_numbers(number);
                stored.retain(|it| !(from..first).contains(it));
                assert_eq!(stored.first(), Some(&(number - most + 1).max(1)));
            }
        }
        // Some removal does not rely on the earlier ones.
        let all = (1..=2 * REMOVE_ALL_EACH).filter(|number| number % REMOVE_EACH == 0);
        let all = all.filter(|number| removed_numbers(*number).0 == 0);
        assert_eq!(all.count(), 2);
    }
}
