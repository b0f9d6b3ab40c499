//! Counts the records of a memory.

use std::collections::BTreeMap;

use crate::driver::Connection;
use contexture_store::{KindStats, MemoryStats, RecordKey, RecordKind, RecordList};

use super::{kind_of, number_of};
use crate::error::Fault;
use crate::params;
use crate::row::unsigned;

/// Returns the number of visible records by kind.
pub fn counts(db: &Connection, tenant: i64) -> Result<BTreeMap<RecordKind, u64>, Fault> {
    let mut select = db.prepare_cached("SELECT kind, live FROM memory_kinds WHERE tenant = ?1")?;
    let found = select.query_map([tenant], |row| {
        Ok((kind_of(row.get(0)?)?, unsigned(row, 1)?))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the keys of the records that a list selects.
pub fn list(
    db: &Connection,
    tenant: i64,
    what: &RecordList,
    after: RecordKey,
    limit: usize,
) -> Result<Vec<RecordKey>, Fault> {
    let kind = match what.kind {
        // Tasks are listed by their own functions.
        Some(RecordKind::Task) => return Ok(Vec::new()),
        kind => kind.and_then(number_of),
    };
    // A query uses an index where one fits. A list of all records is sorted by
    // key.
    let indexed = match (&what.session, &what.source) {
        (Some(_), _) => "m.session = ?4",
        (None, Some(_)) => "m.source = ?6",
        (None, None) => "true",
    };
    let mut select = db.prepare_cached(&format!(
        "SELECT m.key FROM memories m WHERE m.tenant = ?1 AND m.key > ?2 AND m.archived = 0
             AND {indexed} AND (?3 IS NULL OR m.kind = ?3) AND (?4 IS NULL OR m.session = ?4)
             AND (?5 IS NULL OR m.task = ?5) AND (?6 IS NULL OR m.source = ?6)
             AND (?7 IS NULL OR m.user = ?7) AND (?8 IS NULL OR m.agent = ?8)
             AND (?10 = 1 OR m.kind NOT IN (2, 3)
                 OR (SELECT given FROM memory_counts c WHERE c.key = m.key) = 1)
         ORDER BY m.key LIMIT ?9"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let of = params![
        tenant,
        after,
        kind,
        what.session,
        what.task,
        what.source,
        what.user,
        what.agent,
        limit,
        i64::from(what.extracted),
    ];
    let found = select.query_map(of, |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the number of records by kind, sessions and sources, and their bytes.
pub fn stats(db: &Connection, tenant: i64) -> Result<MemoryStats, Fault> {
    let mut stats = MemoryStats::default();
    let mut select = db.prepare_cached(
        "SELECT kind, count(*) FILTER (WHERE archived = 0),
             count(*) FILTER (WHERE archived = 0 AND valid_to IS NOT NULL),
             count(*) FILTER (WHERE archived = 1)
         FROM memories WHERE tenant = ?1 GROUP BY kind",
    )?;
    let found = select.query_map([tenant], |row| {
        let kind = KindStats {
            live: unsigned(row, 1)?,
            ended: unsigned(row, 2)?,
            archived: unsigned(row, 3)?,
        };
        Ok((kind_of(row.get(0)?)?, kind))
    })?;
    for kind in found {
        let (kind, counts) = kind?;
        stats.kinds.insert(kind, counts);
    }
    let count = |sql: &str| {
        let mut select = db.prepare_cached(sql)?;
        select.query_row([tenant], |row| unsigned(row, 0))
    };
    let tasks = count("SELECT count(*) FROM tasks WHERE tenant = ?1")?;
    if tasks > 0 {
        let kind = KindStats {
            live: tasks,
            ..KindStats::default()
        };
        stats.kinds.insert(RecordKind::Task, kind);
    }
    stats.sessions = count(
        "SELECT count(DISTINCT session) FROM memories
         WHERE tenant = ?1 AND session IS NOT NULL AND kind = 0 AND archived = 0",
    )?;
    stats.sources = count(
        "SELECT count(DISTINCT source) FROM memories
         WHERE tenant = ?1 AND source IS NOT NULL AND archived = 0",
    )?;
    stats.unembedded = count(
        "SELECT count(*) FROM memories
         WHERE tenant = ?1 AND vector IS NULL AND archived = 0 AND kind <= 1",
    )?;
    stats.bytes = count(
        "SELECT coalesce(sum(octet_length(b.body)), 0) FROM memories m
         JOIN memory_bodies b ON b.record = m.key WHERE m.tenant = ?1",
    )? + count(
        "SELECT coalesce(sum(octet_length(goal) + coalesce(octet_length(result), 0)), 0)
         FROM tasks WHERE tenant = ?1",
    )?;
    Ok(stats)
}
