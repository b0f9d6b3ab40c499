//! The schema has the tables and columns of the one in SQLite.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use contexture_sql::Backend as _;

use crate::support::Schema;

/// Tables and columns that only one of the databases has.
const SQLITE_ONLY: &[&str] = &[
    "commits.number",
    "memory_keys.last",
    "probe.content",
    "tenants.inside",
    "unclean_files.since",
];
const POSTGRES_ONLY: &[&str] = &["contexture_meta.version", "tenants.has_data"];

#[test]
fn both_databases_have_the_same_columns() {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = contexture_sqlite::SqliteStore::open(directory.path().join("store.db")).unwrap();
    let columns =
        "SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c
        WHERE m.type = 'table'";
    let mut in_sqlite: BTreeSet<String> = (sqlite.backend())
        .read(|db, _| {
            let mut select = db.prepare_cached(columns)?;
            let found = select.query_map((), |row| row.get(0))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .unwrap();
    let schema = Schema::new();
    let columns = "SELECT CAST(table_name || '.' || column_name AS TEXT)
        FROM information_schema.columns WHERE table_schema = current_schema()";
    let mut in_postgres: BTreeSet<String> = (schema.open().backend())
        .read(|db, _| {
            let mut select = db.prepare_cached(columns)?;
            let found = select.query_map((), |row| row.get(0))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .unwrap();
    for column in SQLITE_ONLY {
        assert!(in_sqlite.remove(*column), "{column}");
    }
    for column in POSTGRES_ONLY {
        assert!(in_postgres.remove(*column), "{column}");
    }
    assert_eq!(in_sqlite, in_postgres);
}

/// A new table or column must be in portable archives, or be listed as omitted
/// with the reason.
#[test]
fn archives_have_every_table_and_column() {
    use contexture_sql_archive::tables::{OMITTED, TABLES};
    let directory = tempfile::tempdir().unwrap();
    let sqlite = contexture_sqlite::SqliteStore::open(directory.path().join("store.db")).unwrap();
    let columns = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c
        WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND c.hidden = 0";
    let columns: Vec<(String, String)> = (sqlite.backend())
        .read(|db, _| {
            let mut select = db.prepare_cached(columns)?;
            let found = select.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .unwrap();
    let mut known = 0;
    for (table, column) in &columns {
        let omitted = OMITTED.iter().any(|(name, _)| name == table);
        let archived = TABLES.iter().find(|it| it.name == table);
        match archived {
            Some(archived) if archived.columns.is_empty() => {}
            Some(archived) => {
                assert!(archived.has_column(column), "{table}.{column}");
                known += 1;
            }
            None => assert!(omitted, "{table} is neither archived nor omitted"),
        }
    }
    let all: usize = TABLES.iter().map(|table| table.columns.len()).sum();
    assert_eq!(known, all);
}
