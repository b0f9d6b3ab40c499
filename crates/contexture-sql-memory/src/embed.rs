//! Stores the versions of words and vectors, and new words and vectors.

use crate::driver::{Connection, OptionalExtension};
use contexture_store::{Analysis, EmbedderInfo, LaterState, MemoryState, RecordKey, StoreError};

use super::batch::Batch;
use crate::error::Fault;
use crate::row::{limit, unsigned};

/// Returns the number of the latest change, and the embedders in use.
pub fn state(db: &Connection, tenant: i64) -> Result<MemoryState, Fault> {
    let mut select = db.prepare_cached(
        "SELECT s.seq, s.words, m.name, m.dimensions, l.name, l.dimensions, s.later_seq,
             coalesce(p.current, 0), coalesce(p.pending, 0)
         FROM memory_states s
         LEFT JOIN memory_models m ON m.key = s.model
         LEFT JOIN memory_models l ON l.key = s.later
         LEFT JOIN memory_progress p ON p.tenant = s.tenant WHERE s.tenant = ?1",
    )?;
    let found = select.query_row([tenant], |row| {
        let embedder = |at: usize| -> crate::driver::Result<Option<EmbedderInfo>> {
            Ok(match row.get(at)? {
                Some(name) => Some(EmbedderInfo {
                    name,
                    dimensions: row.get(at + 1)?,
                }),
                None => None,
            })
        };
        let first = embedder(2)?;
        let analysis = |words| Analysis {
            words,
            embedder: first,
        };
        Ok(MemoryState {
            seq: unsigned(row, 0)?,
            analysis: row.get::<Option<u32>>(1)?.map(analysis),
            later: LaterState {
                embedder: embedder(4)?,
                seq: unsigned(row, 6)?,
                current: unsigned(row, 7)?,
                pending: unsigned(row, 8)?,
            },
        })
    });
    Ok(found.optional()?.unwrap_or_default())
}

/// Checks that texts were analysed like the stored ones. In an empty memory,
/// stores their analysis as the memory's own.
pub(crate) fn agree(batch: &mut Batch<'_>, analysis: &Analysis) -> Result<(), Fault> {
    let words = i64::from(analysis.words);
    match batch.state.words {
        Some(known) if known != words => {
            let message = format!(
                "the words of this memory have version {known} of the rules, not {words}; \
                 index them again first"
            );
            return Err(StoreError::invalid("analysis.words", message).into());
        }
        _ => batch.state.words = Some(words),
    }
    let Some(embedder) = &analysis.embedder else {
        // Texts without vectors are accepted: they can be embedded later.
        return Ok(());
    };
    match batch.state.model {
        None => batch.state.model = Some(add_model(batch, embedder)?),
        Some(model) if find_model(batch.db, batch.tenant, embedder)? == Some(model) => {}
        Some(model) => {
            let mut select = (batch.db)
                .prepare_cached("SELECT name, dimensions FROM memory_models WHERE key = ?1")?;
            let known = select.query_row([model], |row| {
                Ok(EmbedderInfo {
                    name: row.get(0)?,
                    dimensions: row.get(1)?,
                })
            })?;
            let message = format!(
                "the vectors of this memory were made by {}, not {}: change the embedder with \
                 `memory reembed`",
                described(&known),
                described(embedder)
            );
            return Err(StoreError::invalid("analysis.embedder", message).into());
        }
    }
    Ok(())
}

fn described(embedder: &EmbedderInfo) -> String {
    format!("`{}` ({} dimensions)", embedder.name, embedder.dimensions)
}

pub(crate) fn find_model(
    db: &Connection,
    tenant: i64,
    embedder: &EmbedderInfo,
) -> Result<Option<i64>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT key FROM memory_models WHERE tenant = ?1 AND name = ?2 AND dimensions = ?3",
    )?;
    let found = select.query_row((tenant, &embedder.name, embedder.dimensions), |row| {
        row.get(0)
    });
    Ok(found.optional()?)
}

fn add_model(batch: &Batch<'_>, embedder: &EmbedderInfo) -> Result<i64, Fault> {
    add_model_of(batch.db, batch.tenant, embedder)
}

pub(crate) fn add_model_of(
    db: &Connection,
    tenant: i64,
    embedder: &EmbedderInfo,
) -> Result<i64, Fault> {
    if let Some(model) = find_model(db, tenant, embedder)? {
        return Ok(model);
    }
    let mut insert = db.prepare_cached(
        "INSERT INTO memory_models (tenant, name, dimensions) VALUES (?1, ?2, ?3)",
    )?;
    Ok(insert.insert((tenant, &embedder.name, embedder.dimensions))?)
}

/// Returns the texts of the tenant, archived ones included, in order.
fn texts(batch: &Batch<'_>) -> Result<Vec<(i64, bool)>, Fault> {
    let mut select = batch.db.prepare_cached(
        "SELECT key, archived FROM memories WHERE tenant = ?1 AND kind IN (0, 1) ORDER BY key",
    )?;
    let found = select.query_map([batch.tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Replaces the words of texts, derived by version `rules` of the word rules.
pub fn put_words(
    db: &Connection,
    tenant: i64,
    rules: u32,
    words: &[(RecordKey, Vec<u8>)],
) -> Result<(), Fault> {
    let mut batch = Batch::open(db, tenant)?;
    let rules = i64::from(rules);
    if batch.state.words != Some(rules) {
        // Words from other rules cannot be compared with these.
        let mut update =
            db.prepare_cached("UPDATE memories SET words = NULL, seq = ?2 WHERE key = ?1")?;
        for (key, _) in texts(&batch)? {
            update.execute((key, batch.next_seq()))?;
        }
        batch.state.words = Some(rules);
    }
    let mut update = db.prepare_cached(
        "UPDATE memories SET words = ?3, seq = ?4
         WHERE key = ?1 AND tenant = ?2 AND kind IN (0, 1)",
    )?;
    for (key, words) in words {
        let seq = batch.state.seq + 1;
        batch.state.seq += update.change((key, tenant, words, seq))? as i64;
    }
    batch.close()
}

/// Stores the vectors of texts.
pub fn put_vectors(
    db: &Connection,
    tenant: i64,
    embedder: &EmbedderInfo,
    vectors: &[(RecordKey, Vec<u8>)],
) -> Result<(), Fault> {
    let mut batch = Batch::open(db, tenant)?;
    let model = add_model(&batch, embedder)?;
    if batch.state.model == Some(model) {
        let mut update = db.prepare_cached(
            "UPDATE memories SET vector = ?3, seq = ?4
             WHERE key = ?1 AND tenant = ?2 AND kind IN (0, 1)",
        )?;
        for (key, vector) in vectors {
            let seq = batch.state.seq + 1;
            batch.state.seq += update.change((key, tenant, vector, seq))? as i64;
        }
    } else {
        let mut insert = db.prepare_cached(
            "INSERT INTO memory_vectors (record, model, vector)
             SELECT key, ?3, ?4 FROM memories WHERE key = ?1 AND tenant = ?2 AND kind IN (0, 1)
             ON CONFLICT (record, model) DO UPDATE SET vector = excluded.vector",
        )?;
        for (key, vector) in vectors {
            insert.execute((key, tenant, model, vector))?;
        }
    }
    batch.close()
}

/// Returns texts after `after` that have no vector of the embedder.
pub fn unembedded(
    db: &Connection,
    tenant: i64,
    embedder: &EmbedderInfo,
    after: RecordKey,
    most: usize,
) -> Result<Vec<RecordKey>, Fault> {
    let model = find_model(db, tenant, embedder)?;
    let in_use = (db)
        .prepare_cached("SELECT model FROM memory_states WHERE tenant = ?1")?
        .query_row([tenant], |row| row.get::<Option<i64>>(0))
        .optional()?
        .flatten();
    let sql = match model.is_some() && model == in_use {
        true => {
            "SELECT key FROM memories WHERE tenant = ?1 AND key > ?2 AND ?4 IS NOT NULL
                 AND vector IS NULL AND archived = 0 AND kind <= 1 ORDER BY key LIMIT ?3"
        }
        false => {
            "SELECT key FROM memories m WHERE tenant = ?1 AND key > ?2 AND archived = 0
                 AND kind <= 1 AND NOT EXISTS
                 (SELECT 1 FROM memory_vectors v WHERE v.record = m.key AND v.model = ?4)
             ORDER BY key LIMIT ?3"
        }
    };
    let mut select = db.prepare_cached(sql)?;
    let found = select.query_map((tenant, after, limit(most), model), |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Makes an embedder the current one.
pub fn use_embedder(db: &Connection, tenant: i64, embedder: &EmbedderInfo) -> Result<(), Fault> {
    let mut batch = Batch::open(db, tenant)?;
    let model = add_model(&batch, embedder)?;
    if batch.state.model != Some(model) {
        let mut update = db.prepare_cached(
            "UPDATE memories SET seq = ?2, vector =
                 (SELECT vector FROM memory_vectors WHERE record = ?1 AND model = ?3)
             WHERE key = ?1",
        )?;
        for (key, _) in texts(&batch)? {
            update.execute((key, batch.next_seq(), model))?;
        }
        batch.state.model = Some(model);
    }
    batch.close()?;
    db.prepare_cached(
        "DELETE FROM memory_vectors WHERE model IN
             (SELECT key FROM memory_models WHERE tenant = ?1)",
    )?
    .execute([tenant])?;
    db.prepare_cached(
        "DELETE FROM memory_models WHERE tenant = ?1 AND key <> ?2 AND key NOT IN
             (SELECT later FROM memory_states WHERE tenant = ?1 AND later IS NOT NULL)",
    )?
    .execute((tenant, model))?;
    Ok(())
}
