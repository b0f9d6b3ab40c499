//! Moves tenants out of a store that has all of them in one file.
//!
//! Every tenant except the default one gets its own file. The rows of a tenant
//! are copied to a new file, which is renamed, and then deleted here. The write
//! lock is held throughout. An interrupted split starts again from the
//! beginning.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use contexture_store::StoreError;
use rusqlite::{Connection, OpenFlags};

use crate::connect::{make_directory, sync_directory};
use crate::driver::Database;
use crate::error::Fault;
use crate::tenants::{directory, file_name};
use crate::writer::AfterCommit;
use crate::{Shared, schema};

/// Moves each tenant whose data is in this file to a file of its own. A file
/// that cannot be written is not changed.
pub(crate) fn split(main: &Arc<Shared>) -> Result<(), StoreError> {
    let inside = |db: &Database| -> Result<Vec<(i64, String)>, Fault> {
        let mut select = db.prepare("SELECT key, name FROM tenants WHERE inside = 1")?;
        let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.collect::<Result<_, _>>()?)
    };
    let open = main.open()?;
    let any = match open.readers.take() {
        Some(lease) => lease.run(|| open.reader(&main.place), inside),
        None => Ok(Vec::new()),
    };
    let any = any.map_err(|fault| fault.at(&main.place.address))?;
    if any.is_empty() || main.place.read_only {
        return Ok(());
    }
    let (open, writer) = match main.writer() {
        Ok(found) => found,
        Err(StoreError::ReadOnly { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let path = main.place.path.clone();
    let work = move |db: &Database, _: u64| {
        for (key, name) in inside(db)? {
            let target = directory(&path).join(file_name(&name));
            copy(&path, key, &target)?;
            delete(db, key)?;
            let moved = "UPDATE tenants SET inside = 0 WHERE key = ?1";
            db.prepare(moved)?.execute([key])?;
        }
        // Deleted rows are overwritten, too.
        db.execute("INSERT INTO unclean_files VALUES (0)", [])?;
        Ok(())
    };
    main.run(&open, &writer, work, AfterCommit::Clean)
        .map(|_| ())
}

/// The rows of a table that belong to a tenant.
enum Owner {
    /// No tenant: the rows belong to the store.
    Nobody,
    /// All tenants: the rows are counters that only increase.
    Everybody,
    /// The rows that satisfy this condition. `?1` is the tenant's key, and
    /// `source` is the schema of the tables.
    Condition(String),
}

/// Returns the owner of each table's rows.
fn owners(db: &Connection, source: &str) -> Result<BTreeMap<String, Owner>, Fault> {
    let mut select = db.prepare(&format!(
        "SELECT name FROM {source}.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ))?;
    let names = select.query_map([], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    let mut owners = BTreeMap::new();
    for name in &names {
        let owner = owner(db, source, name, 0)?;
        owners.insert(name.clone(), owner);
    }
    Ok(owners)
}

fn owner(db: &Connection, source: &str, table: &str, depth: usize) -> Result<Owner, Fault> {
    match table {
        "tenants" => return Ok(Owner::Condition("key = ?1".to_owned())),
        "keys" | "probe" | "unclean_files" | "commits" | "audit" | "quotas" | "request_counts" => {
            return Ok(Owner::Nobody);
        }
        "memory_keys" | "unlisted_results" => return Ok(Owner::Everybody),
        "memory_mentions" => {
            return Ok(Owner::Condition(format!(
                "record IN (SELECT key FROM {source}.memories WHERE tenant = ?1)"
            )));
        }
        _ => {}
    }
    let columns =
        format!("SELECT 1 FROM pragma_table_xinfo('{table}', '{source}') WHERE name = 'tenant'");
    if db.prepare(&columns)?.exists([])? {
        return Ok(Owner::Condition("tenant = ?1".to_owned()));
    }
    // The owner is found through a required reference.
    let references = format!(
        "SELECT f.\"from\", f.\"table\" FROM pragma_foreign_key_list('{table}', '{source}') f
         JOIN pragma_table_xinfo('{table}', '{source}') c ON c.name = f.\"from\"
         WHERE c.\"notnull\" = 1 OR c.pk > 0 ORDER BY f.id DESC"
    );
    let mut select = db.prepare(&references)?;
    let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(String, String)> = found.collect::<Result<_, _>>()?;
    for (column, above) in found {
        if above != table
            && depth < 4
            && let Ok(Owner::Condition(condition)) = owner(db, source, &above, depth + 1)
        {
            return Ok(Owner::Condition(format!(
                "{column} IN (SELECT key FROM {source}.{above} WHERE {condition})"
            )));
        }
    }
    Err(Fault::Refused(StoreError::Backend {
        store: "sqlite",
        source: format!("the table {table} has no tenant").into(),
    }))
}

/// Copies the rows of a tenant to a new file at `target`.
fn copy(main: &Path, key: i64, target: &Path) -> Result<(), Fault> {
    let failed = |error: io::Error| {
        Fault::Refused(StoreError::Backend {
            store: "sqlite",
            source: format!("cannot write {}: {error}", target.display()).into(),
        })
    };
    let above = target.parent().unwrap_or(Path::new("."));
    make_directory(above).map_err(failed)?;
    let new = target.with_extension("new");
    for left in [&new, &target.with_extension("new-journal")] {
        match fs::remove_file(left) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(&new).map_err(failed)?);
    {
        let db = Connection::open_with_flags(&new, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "fullfsync", true)?;
        schema::migrate(&db, &new.display().to_string(), schema::STEPS)?;
        db.pragma_update(None, "foreign_keys", false)?;
        db.execute("ATTACH ?1 AS source", [main.to_string_lossy()])?;
        // Not IMMEDIATE: that would lock the source, too.
        db.execute_batch("BEGIN")?;
        // Rows that triggers maintain are copied, too.
        let triggers = triggers(&db)?;
        for (name, _) in &triggers {
            db.execute_batch(&format!("DROP TRIGGER main.{name}"))?;
        }
        for (table, owner) in owners(&db, "source")? {
            let condition = match owner {
                Owner::Nobody => continue,
                Owner::Everybody => "?1 = ?1".to_owned(),
                Owner::Condition(condition) => condition,
            };
            let columns = columns(&db, &table)?;
            db.execute(&format!("DELETE FROM main.{table}"), [])?;
            let copied = format!(
                "INSERT INTO main.{table} ({columns})
                 SELECT {columns} FROM source.{table} WHERE {condition}"
            );
            db.prepare(&copied)?.execute([key])?;
        }
        db.execute("UPDATE main.tenants SET inside = 0", [])?;
        for (_, sql) in &triggers {
            db.execute_batch(sql)?;
        }
        let orphans = "SELECT count(*) FROM pragma_foreign_key_check";
        let orphans: i64 = db.query_row(orphans, [], |row| row.get(0))?;
        if orphans > 0 {
            let message = format!("{orphans} rows of a tenant refer to rows of another");
            return Err(failed(io::Error::other(message)));
        }
        db.execute_batch("COMMIT")?;
    }
    fs::rename(&new, target).map_err(failed)?;
    sync_directory(above).map_err(failed)
}

/// Returns the triggers of the new file: their names and the SQL that creates
/// them.
fn triggers(db: &Connection) -> Result<Vec<(String, String)>, Fault> {
    let mut select =
        db.prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger'")?;
    let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the columns of a table that are stored, not computed.
fn columns(db: &Connection, table: &str) -> Result<String, Fault> {
    let mut select = db.prepare(&format!(
        "SELECT name FROM pragma_table_xinfo('{table}', 'main') WHERE hidden = 0 ORDER BY cid"
    ))?;
    let names = select.query_map([], |row| row.get::<_, String>(0))?;
    let names: Vec<String> = names.collect::<Result<_, _>>()?;
    Ok(names.join(", "))
}

/// Deletes the rows of a tenant, except its row in the list of tenants.
fn delete(db: &Connection, key: i64) -> Result<(), Fault> {
    // Rows refer to each other in both directions.
    db.execute_batch("PRAGMA defer_foreign_keys = ON")?;
    // Tables whose owner is found through other tables come first.
    let mut conditions: Vec<(String, String)> = (owners(db, "main")?.into_iter())
        .filter_map(|(table, owner)| match owner {
            Owner::Condition(condition) if table != "tenants" => Some((table, condition)),
            _ => None,
        })
        .collect();
    conditions.sort_by_key(|(_, condition)| std::cmp::Reverse(condition.len()));
    for (table, condition) in conditions {
        let delete = format!("DELETE FROM main.{table} WHERE {condition}");
        db.prepare(&delete)?.execute([key])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new table needs an owner. Otherwise its rows would be lost when a
    /// store is split.
    #[test]
    fn every_table_has_an_owner() {
        let db = Connection::open_in_memory().unwrap();
        schema::migrate(&db, "here", schema::STEPS).unwrap();
        let owners = owners(&db, "main").unwrap();
        assert!(owners.len() > 40, "{}", owners.len());
        let condition = |table: &str| match &owners[table] {
            Owner::Condition(condition) => condition.clone(),
            _ => String::new(),
        };
        assert_eq!(condition("turns"), "tenant = ?1");
        assert_eq!(
            condition("messages"),
            "turn IN (SELECT key FROM main.turns WHERE tenant = ?1)"
        );
        assert_eq!(
            condition("pins"),
            "agent IN (SELECT key FROM main.agents WHERE tree IN (SELECT key FROM main.trees \
             WHERE tenant = ?1))"
        );
    }
}
