//! Counts the records of a memory.

use contexture_store::{KindStats, MemoryStats, RecordKind};
use rusqlite::Connection;

use super::kind_of;
use crate::error::Fault;
use crate::row::unsigned;

pub(super) fn stats(db: &Connection, tenant: i64) -> Result<MemoryStats, Fault> {
    let mut stats = MemoryStats::default();
    let mut select = db.prepare_cached(
        "SELECT kind, count(*) FILTER (WHERE archived = 0),
             count(*) FILTER (WHERE archived = 0 AND valid_to IS NOT NULL),
             count(*) FILTER (WHERE archived = 1)
         FROM memories WHERE tenant = ?1 GROUP BY kind",
    )?;
    let mut rows = select.query([tenant])?;
    while let Some(row) = rows.next()? {
        let kind = KindStats {
            live: unsigned(row, 1)?,
            ended: unsigned(row, 2)?,
            archived: unsigned(row, 3)?,
        };
        stats.kinds.insert(kind_of(row.get(0)?)?, kind);
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
