//! The database schema and its migrations.

use contexture_store::StoreError;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::Fault;

/// The application id in the header of our files (`PRAGMA application_id`):
/// "CTXR".
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"CTXR");

/// Step `n` migrates version `n` to version `n + 1`; version 0 is an empty
/// file. A released step is never changed.
pub(crate) const STEPS: &[&str] = &[
    include_str!("v1.sql"),
    include_str!("v2.sql"),
    include_str!("v3.sql"),
    include_str!("v4.sql"),
    include_str!("v5.sql"),
    include_str!("v6.sql"),
    include_str!("v7.sql"),
    include_str!("v8.sql"),
    include_str!("v9.sql"),
    include_str!("v10.sql"),
    include_str!("v11.sql"),
    include_str!("v12.sql"),
    include_str!("v13.sql"),
    include_str!("v14.sql"),
    include_str!("v15.sql"),
    include_str!("v16.sql"),
    include_str!("v17.sql"),
    include_str!("v18.sql"),
    include_str!("v19.sql"),
    include_str!("v20.sql"),
    include_str!("v21.sql"),
    include_str!("v22.sql"),
    include_str!("v23.sql"),
];

/// The kind of a database, by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// An empty database.
    Blank,
    /// A store of Contexture with this schema version.
    Ours(u32),
}

/// Reads the kind of a database. Rejects a database of another program or of a
/// newer version than `steps`.
pub(crate) fn state(
    connection: &Connection,
    address: &str,
    steps: &[&str],
) -> Result<State, Fault> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let not_a_store = |message: String| {
        Err(Fault::Refused(StoreError::NotAStore {
            store: address.to_owned(),
            message,
        }))
    };
    let (id, version) = (pragma("application_id")?, pragma("user_version")?);
    match id {
        APPLICATION_ID => {}
        0 => {
            let objects: i64 =
                connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            return match (objects, version) {
                (0, 0) => Ok(State::Blank),
                _ => not_a_store("is a SQLite database of another program".to_owned()),
            };
        }
        other => {
            return not_a_store(format!(
                "is a SQLite database of another program (application id {other:#010x})"
            ));
        }
    }
    let known = steps.len() as u32;
    match u32::try_from(version) {
        Ok(version @ 1..) if version <= known => Ok(State::Ours(version)),
        Ok(version @ 1..) => Err(Fault::Refused(StoreError::Newer {
            store: address.to_owned(),
            found: version,
            known,
        })),
        _ => not_a_store(format!("has no schema version ({version})")),
    }
}

/// Migrates the database to the newest version: all steps, or none.
pub(crate) fn migrate(connection: &Connection, address: &str, steps: &[&str]) -> Result<(), Fault> {
    // The lock is acquired first, because another process may be migrating,
    // too.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version = match state(&transaction, address, steps)? {
        State::Blank => 0,
        State::Ours(version) => version as usize,
    };
    for step in &steps[version..] {
        transaction.execute_batch(step)?;
    }
    // Both are in the header of the file and part of the transaction.
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", steps.len() as u32)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE a (x); INSERT INTO a VALUES (1);";

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        (directory, path)
    }

    #[test]
    fn an_older_schema_is_migrated() {
        let (_directory, path) = file();
        let connection = Connection::open(&path).unwrap();
        migrate(&connection, "here", &[FIRST]).unwrap();
        assert_eq!(
            state(&connection, "here", &[FIRST]).unwrap(),
            State::Ours(1)
        );
        let second = "CREATE TABLE b AS SELECT x + 1 AS y FROM a";
        migrate(&connection, "here", &[FIRST, second]).unwrap();
        migrate(&connection, "here", &[FIRST, second]).unwrap();
        let y: i64 = connection
            .query_row("SELECT y FROM b", [], |row| row.get(0))
            .unwrap();
        assert_eq!(y, 2);
        assert_eq!(
            state(&connection, "here", &[FIRST, second]).unwrap(),
            State::Ours(2)
        );
        let newer = state(&connection, "here", &[FIRST]);
        assert!(matches!(
            newer,
            Err(Fault::Refused(StoreError::Newer {
                found: 2,
                known: 1,
                ..
            }))
        ));
    }

    #[test]
    fn a_failed_migration_changes_nothing() {
        let (_directory, path) = file();
        let connection = Connection::open(&path).unwrap();
        migrate(&connection, "here", &[FIRST]).unwrap();
        let before = std::fs::read(&path).unwrap();
        let steps = [FIRST, "DELETE FROM a; CREATE TABLE c (x)", "no such step"];
        migrate(&connection, "here", &steps).unwrap_err();
        drop(connection);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
