//! Copies the data that all tenants share: API keys, quotas and the audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contexture_driver::{Connection, Error, Fault, params};
use contexture_store::{ArchiveEntry, ArchiveSink, ArchiveSource, SharedPart, StoreError};
use serde_json::{Value as Json, json};

const KEYS: &[&str] = &[
    "id", "hash", "tenant", "scope", "name", "created", "revoked",
];
const QUOTAS: &[&str] = &[
    "tenant",
    "bytes",
    "sessions",
    "records",
    "nodes",
    "requests_per_day",
];
const AUDIT: &[&str] = &["at", "act", "tenant", "subject", "actor"];

/// Calls `put` with the rows of a part.
pub fn export(db: &Connection, part: SharedPart, put: ArchiveSink<'_>) -> Result<(), Fault> {
    put(ArchiveEntry::Keys(BTreeMap::new()))?;
    match part {
        SharedPart::Keys => {
            let sql = "SELECT k.id, k.hash, t.name, k.scope, k.name, k.created, k.revoked
                FROM keys k JOIN tenants t ON t.key = k.tenant ORDER BY k.key";
            let mut rows = Vec::new();
            db.prepare_cached(sql)?.for_each((), |row| {
                rows.push(vec![
                    json!(row.get::<String>(0)?),
                    json!(STANDARD.encode(row.get::<Vec<u8>>(1)?)),
                    json!(row.get::<String>(2)?),
                    json!(row.get::<i64>(3)?),
                    json!(row.get::<Option<String>>(4)?),
                    json!(row.get::<i64>(5)?),
                    json!(row.get::<Option<i64>>(6)?),
                ]);
                Ok::<_, Error>(ControlFlow::Continue(()))
            })?;
            put_table(put, "keys", KEYS, rows)?;
            let sql = format!("SELECT {} FROM quotas ORDER BY tenant", QUOTAS.join(", "));
            let mut rows = Vec::new();
            db.prepare_cached(&sql)?.for_each((), |row| {
                let mut cells = vec![json!(row.get::<String>(0)?)];
                for at in 1..QUOTAS.len() {
                    cells.push(json!(row.get::<i64>(at)?));
                }
                rows.push(cells);
                Ok::<_, Error>(ControlFlow::Continue(()))
            })?;
            put_table(put, "quotas", QUOTAS, rows)
        }
        SharedPart::Audit => {
            let sql = format!("SELECT {} FROM audit ORDER BY key", AUDIT.join(", "));
            let mut rows = Vec::new();
            db.prepare_cached(&sql)?.for_each((), |row| {
                rows.push(vec![
                    json!(row.get::<i64>(0)?),
                    json!(row.get::<String>(1)?),
                    json!(row.get::<String>(2)?),
                    json!(row.get::<String>(3)?),
                    json!(row.get::<Option<String>>(4)?),
                ]);
                Ok::<_, Error>(ControlFlow::Continue(()))
            })?;
            put_table(put, "audit", AUDIT, rows)
        }
    }
}

fn put_table(
    put: ArchiveSink<'_>,
    name: &str,
    columns: &[&str],
    rows: Vec<Vec<Json>>,
) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    put(ArchiveEntry::Table {
        name: name.to_owned(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
    })?;
    for row in rows {
        put(ArchiveEntry::Row(row))?;
    }
    Ok(())
}

/// Writes the rows of a part. Existing rows are not changed.
pub fn import(db: &Connection, part: SharedPart, mut next: ArchiveSource) -> Result<(), Fault> {
    let known: &[(&str, &[&str])] = match part {
        SharedPart::Keys => &[("keys", KEYS), ("quotas", QUOTAS)],
        SharedPart::Audit => &[("audit", AUDIT)],
    };
    // Existing acts are read once: a search for each act would scan the table.
    let mut acts = BTreeSet::new();
    if part == SharedPart::Audit {
        export(db, part, &mut |entry| {
            if let ArchiveEntry::Row(cells) = entry {
                acts.insert(json!(cells).to_string());
            }
            Ok(())
        })?;
    }
    let mut current = None;
    let mut at = 0;
    while let Some(entry) = next()? {
        match entry {
            ArchiveEntry::Keys(_) => {}
            ArchiveEntry::Table { name, columns } => {
                let table = known.iter().find(|(known, _)| *known == name);
                let Some((table, names)) = table else {
                    return Err(invalid(&name, "is a table that does not belong here"));
                };
                if columns != *names {
                    return Err(invalid(&name, "has other columns than this version knows"));
                }
                (current, at) = (Some(*table), 0);
            }
            ArchiveEntry::Row(cells) => {
                at += 1;
                let table = current.ok_or_else(|| invalid("", "a row belongs to no table"))?;
                let cells = Cells {
                    field: format!("{table}[{at}]"),
                    cells,
                };
                match table {
                    "keys" => add_key(db, &cells)?,
                    "quotas" => add_quota(db, &cells)?,
                    _ if acts.contains(&json!(cells.cells).to_string()) => {}
                    _ => add_act(db, &cells)?,
                }
            }
        }
    }
    Ok(())
}

fn invalid(field: &str, message: &str) -> Fault {
    Fault::Refused(StoreError::invalid(field, message))
}

struct Cells {
    field: String,
    cells: Vec<Json>,
}

impl Cells {
    fn not(&self, at: usize, wanted: &str) -> Fault {
        invalid(&self.field, &format!("its value {at} is not {wanted}"))
    }

    fn text(&self, at: usize) -> Result<&str, Fault> {
        let cell = self.cells.get(at).and_then(Json::as_str);
        cell.ok_or_else(|| self.not(at, "text"))
    }

    fn text_or_null(&self, at: usize) -> Result<Option<&str>, Fault> {
        match self.cells.get(at) {
            Some(Json::Null) => Ok(None),
            _ => self.text(at).map(Some),
        }
    }

    fn number(&self, at: usize) -> Result<i64, Fault> {
        let cell = self.cells.get(at).and_then(Json::as_i64);
        cell.ok_or_else(|| self.not(at, "a whole number"))
    }

    fn number_or_null(&self, at: usize) -> Result<Option<i64>, Fault> {
        match self.cells.get(at) {
            Some(Json::Null) => Ok(None),
            _ => self.number(at).map(Some),
        }
    }
}

fn add_key(db: &Connection, cells: &Cells) -> Result<(), Fault> {
    let (id, tenant) = (cells.text(0)?, cells.text(2)?);
    let hash = STANDARD.decode(cells.text(1)?);
    let hash = hash.map_err(|_| cells.not(1, "bytes in Base64"))?;
    let mut select = db.prepare_cached("SELECT hash FROM keys WHERE id = ?1")?;
    let found: Vec<Vec<u8>> = select
        .query_map([id], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    match found.first() {
        Some(same) if *same == hash => return Ok(()),
        Some(_) => return Err(Fault::exists("key", id)),
        None => {}
    }
    db.prepare_cached("INSERT INTO tenants (name) VALUES (?1) ON CONFLICT (name) DO NOTHING")?
        .execute([tenant])?;
    let tenant: i64 = db.query_row("SELECT key FROM tenants WHERE name = ?1", [tenant], |row| {
        row.get(0)
    })?;
    let mut insert = db.prepare_cached(
        "INSERT INTO keys (id, hash, tenant, scope, name, created, revoked)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert.execute(params![
        id,
        hash,
        tenant,
        cells.number(3)?,
        cells.text_or_null(4)?,
        cells.number(5)?,
        cells.number_or_null(6)?,
    ])?;
    Ok(())
}

fn add_quota(db: &Connection, cells: &Cells) -> Result<(), Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO quotas (tenant, bytes, sessions, records, nodes, requests_per_day)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tenant) DO NOTHING",
    )?;
    insert.execute(params![
        cells.text(0)?,
        cells.number(1)?,
        cells.number(2)?,
        cells.number(3)?,
        cells.number(4)?,
        cells.number(5)?,
    ])?;
    Ok(())
}

fn add_act(db: &Connection, cells: &Cells) -> Result<(), Fault> {
    let mut insert = db.prepare_cached(
        "INSERT INTO audit (at, act, tenant, subject, actor)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![
        cells.number(0)?,
        cells.text(1)?,
        cells.text(2)?,
        cells.text(3)?,
        cells.text_or_null(4)?,
    ])?;
    Ok(())
}
