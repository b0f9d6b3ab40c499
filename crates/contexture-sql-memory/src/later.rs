//! Stores the second generation of vectors, which are computed after recording.
//!
//! Triggers maintain the list of texts without such a vector, and the counts of
//! both.

use crate::driver::{Connection, OptionalExtension};
use contexture_store::{EmbedderInfo, LaterVector, PendingText};

use super::embed;
use crate::error::Fault;
use crate::row::{limit, unsigned};

/// Stores vectors of the second embedder, unless their texts have changed.
pub fn put(
    db: &Connection,
    tenant: i64,
    embedder: &EmbedderInfo,
    vectors: &[(PendingText, Vec<u8>)],
) -> Result<(), Fault> {
    let state = db
        .prepare_cached("SELECT later, later_seq FROM memory_states WHERE tenant = ?1")?
        .query_row([tenant], |row| {
            Ok((row.get::<Option<i64>>(0)?, row.get::<i64>(1)?))
        })
        .optional()?;
    // A memory without a state has no text.
    let Some((before, mut seq)) = state else {
        return Ok(());
    };
    let model = embed::add_model_of(db, tenant, embedder)?;
    if before != Some(model) {
        replace_embedder(db, tenant, before, model)?;
        // A reader that has some vectors of the other embedder must not mix
        // them with these.
        seq += 1;
    }
    let mut done = db.prepare_cached(
        "DELETE FROM memory_pending WHERE tenant = ?1 AND record = ?2 AND stamp = ?3",
    )?;
    let mut insert = db.prepare_cached(
        "INSERT INTO memory_later (record, tenant, seq, vector) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (text, vector) in vectors {
        if done.change((tenant, text.key, text.stamp))? == 1 {
            seq += 1;
            insert.execute((text.key, tenant, seq, vector))?;
        }
    }
    db.prepare_cached("UPDATE memory_states SET later_seq = ?2 WHERE tenant = ?1")?
        .execute((tenant, seq))?;
    Ok(())
}

/// Deletes the vectors of another embedder, so that no text has one.
fn replace_embedder(
    db: &Connection,
    tenant: i64,
    before: Option<i64>,
    model: i64,
) -> Result<(), Fault> {
    db.prepare_cached("UPDATE memory_states SET later = ?2 WHERE tenant = ?1")?
        .execute((tenant, model))?;
    db.prepare_cached("DELETE FROM memory_later WHERE tenant = ?1")?
        .execute([tenant])?;
    let random = db.random();
    db.prepare_cached(&format!(
        "INSERT INTO memory_pending (tenant, record, stamp)
             SELECT tenant, key, {random} FROM memories
             WHERE tenant = ?1 AND kind <= 1 AND archived = 0
         ON CONFLICT DO NOTHING"
    ))?
    .execute([tenant])?;
    if let Some(before) = before {
        // The embedder may also be the one of the first generation.
        db.prepare_cached(
            "DELETE FROM memory_models WHERE key = ?1
                 AND NOT EXISTS (SELECT 1 FROM memory_states WHERE model = ?1)
                 AND NOT EXISTS (SELECT 1 FROM memory_vectors WHERE model = ?1)",
        )?
        .execute([before])?;
    }
    Ok(())
}

/// Returns texts without a vector of the second embedder.
pub fn pending(db: &Connection, tenant: i64, most: usize) -> Result<Vec<PendingText>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT record, stamp FROM memory_pending WHERE tenant = ?1
         ORDER BY record DESC LIMIT ?2",
    )?;
    let found = select.query_map((tenant, limit(most)), |row| {
        Ok(PendingText {
            key: row.get(0)?,
            stamp: row.get(1)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the vectors of the second embedder after change `after`.
pub fn vectors(
    db: &Connection,
    tenant: i64,
    after: u64,
    most: usize,
) -> Result<Vec<LaterVector>, Fault> {
    let Ok(after) = i64::try_from(after) else {
        return Ok(Vec::new());
    };
    let mut select = db.prepare_cached(
        "SELECT seq, record, vector FROM memory_later WHERE tenant = ?1 AND seq > ?2
         ORDER BY seq LIMIT ?3",
    )?;
    let found = select.query_map((tenant, after, limit(most)), |row| {
        Ok(LaterVector {
            seq: unsigned(row, 0)?,
            key: row.get(1)?,
            vector: row.get(2)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
