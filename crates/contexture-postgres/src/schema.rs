//! The database schema and its migrations.

use contexture_store::StoreError;

use crate::error::PgError;
use crate::link::Link;
use crate::place::DatabaseLocation;

/// Step `n` migrates version `n` to version `n + 1`; version 0 is an empty
/// schema. A released step is never changed.
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
];

/// The number of retries of a migration after a conflict with another server.
const TRIES: usize = 20;

/// The kind of a database schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// An empty schema.
    Blank,
    /// A store of Contexture with this schema version.
    Ours(u32),
    /// A schema with tables of another program.
    Foreign,
}

/// Checks that the database has a store of this version, and creates or
/// migrates it otherwise. `migrate` opens a connection with the necessary
/// permissions.
pub(crate) fn prepare(
    place: &DatabaseLocation,
    link: &mut Link,
    migrate: impl FnOnce() -> Result<Link, StoreError>,
) -> Result<(), StoreError> {
    let failed = |error: PgError| error.at(&place.address);
    let encoding = text(link, "SHOW server_encoding").map_err(failed)?;
    if encoding != "UTF8" {
        return Err(StoreError::NotAStore {
            store: place.address.clone(),
            message: format!("has the encoding {encoding}; create the database with UTF8"),
        });
    }
    let known = STEPS.len() as u32;
    match checked(place, state(place, link).map_err(failed)?)? {
        State::Ours(version) if version == known => return Ok(()),
        _ => {}
    }
    let mut link = migrate()?;
    let mut tries = 0;
    loop {
        tries += 1;
        match bring_up_to_date(place, &mut link) {
            Ok(state) => {
                checked(place, state)?;
                return Ok(());
            }
            Err(error) => {
                // The transaction may not even have begun.
                let _ = link.run("ROLLBACK");
                if !error.is_race() || tries == TRIES {
                    return Err(failed(error));
                }
            }
        }
    }
}

/// Rejects a schema of another program or of a newer version.
fn checked(place: &DatabaseLocation, state: State) -> Result<State, StoreError> {
    let (store, known) = (place.address.clone(), STEPS.len() as u32);
    match state {
        State::Foreign => Err(StoreError::NotAStore {
            store,
            message: format!(
                "has a schema `{}` with tables of another program; choose another schema with \
                 ?schema=NAME",
                place.schema
            ),
        }),
        State::Ours(found) if found > known => Err(StoreError::Newer {
            store,
            found,
            known,
        }),
        state => Ok(state),
    }
}

/// Runs all missing steps in one transaction. Returns the resulting state, or
/// the error.
fn bring_up_to_date(place: &DatabaseLocation, link: &mut Link) -> Result<State, PgError> {
    let schema = place.quoted_schema();
    link.run("BEGIN")?;
    if state(place, link)? == State::Foreign {
        link.run("ROLLBACK")?;
        return Ok(State::Foreign);
    }
    link.run(&format!(
        "CREATE SCHEMA IF NOT EXISTS {schema}; SET LOCAL search_path = {schema};
         CREATE TABLE IF NOT EXISTS contexture_meta (version BIGINT NOT NULL);
         LOCK TABLE contexture_meta IN SHARE ROW EXCLUSIVE MODE;"
    ))?;
    // Another server may have migrated the schema while this one waited for the
    // lock.
    let rows = link.query("SELECT version FROM contexture_meta", &[])?;
    let version = rows.integer(0, 0).unwrap_or(0);
    let done = u32::try_from(version).unwrap_or(u32::MAX);
    for step in STEPS.iter().skip(done as usize) {
        link.run(step)?;
    }
    let known = STEPS.len() as u32;
    if done < known {
        link.run(&format!(
            "DELETE FROM contexture_meta; INSERT INTO contexture_meta VALUES ({known})"
        ))?;
    }
    link.run("COMMIT")?;
    Ok(State::Ours(done.max(known)))
}

fn state(place: &DatabaseLocation, link: &mut Link) -> Result<State, PgError> {
    let values = [contexture_sql::Value::Text((&*place.schema).into())];
    let tables = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";
    let rows = link.query(tables, &values)?;
    if rows.integer(0, 0).unwrap_or(0) == 0 {
        return Ok(State::Blank);
    }
    let ours = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'contexture_meta' AND c.relkind = 'r'";
    let rows = link.query(ours, &values)?;
    if rows.integer(0, 0).unwrap_or(0) == 0 {
        return Ok(State::Foreign);
    }
    let version = format!(
        "SELECT version FROM {}.contexture_meta",
        place.quoted_schema()
    );
    let rows = link.query(&version, &[])?;
    let version = rows.integer(0, 0).unwrap_or(0);
    Ok(State::Ours(u32::try_from(version).unwrap_or(u32::MAX)))
}

fn text(link: &mut Link, sql: &str) -> Result<String, PgError> {
    let rows = link.query(sql, &[])?;
    Ok(rows.text(0, 0).unwrap_or_default())
}
