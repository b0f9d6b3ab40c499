//! API keys in SQLite.

use std::sync::Arc;

use contexture_store::{KeyRecord, KeyScope, Store, StoreError, Tenants, Watch};
use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::SqliteStore;
use crate::error::Fault;
use crate::row::Time;

impl Tenants for SqliteStore {
    fn tenant(&self, name: &str) -> Arc<dyn Store> {
        Arc::new(self.for_tenant(name))
    }

    fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
        key.check()?;
        let key = key.clone();
        self.for_tenant(&key.tenant)
            .write(move |db, tenant| add(db, tenant, &key))
    }

    fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError> {
        self.read(|db, _| find(db, id))
    }

    fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.read(|db, _| {
            let mut select = db.prepare_cached(&format!("{COLUMNS} ORDER BY k.key"))?;
            let found = select.query_map([], key_row)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn revoke_key(&self, id: &str, now: Timestamp) -> Result<KeyRecord, StoreError> {
        let id = id.to_owned();
        self.write(move |db, _| {
            db.prepare_cached("UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
                .execute((&id, Time(now)))?;
            find(db, &id)?.ok_or_else(|| Fault::not_found("key", &id))
        })
    }

    fn ping(&self) -> Result<(), StoreError> {
        self.probe()
    }

    fn watch(&self, watch: Watch) {
        self.set_watch(watch);
    }

    fn incarnation(&self) -> u64 {
        self.incarnation_now()
    }
}

const COLUMNS: &str = "SELECT k.id, k.hash, t.name, k.scope, k.name, k.created, k.revoked
    FROM keys k JOIN tenants t ON t.key = k.tenant";

fn add(db: &Connection, tenant: i64, key: &KeyRecord) -> Result<(), Fault> {
    if find(db, &key.id)?.is_some() {
        return Err(Fault::exists("key", &key.id));
    }
    let scope = match key.scope {
        KeyScope::Tenant => 0,
        KeyScope::Metrics => 1,
    };
    let mut insert = db.prepare_cached(
        "INSERT INTO keys (id, hash, tenant, scope, name, created, revoked)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert.execute(params![
        key.id,
        key.hash,
        tenant,
        scope,
        key.name,
        Time(key.created_at),
        key.revoked_at.map(Time),
    ])?;
    Ok(())
}

fn find(db: &Connection, id: &str) -> Result<Option<KeyRecord>, Fault> {
    let mut select = db.prepare_cached(&format!("{COLUMNS} WHERE k.id = ?1"))?;
    Ok(select.query_row([id], key_row).optional()?)
}

fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let scope = match row.get(3)? {
        0 => KeyScope::Tenant,
        1 => KeyScope::Metrics,
        other => {
            let wrong = format!("{other} is no scope of a key").into();
            return Err(rusqlite::Error::FromSqlConversionFailure(
                3,
                Type::Integer,
                wrong,
            ));
        }
    };
    Ok(KeyRecord {
        id: row.get(0)?,
        hash: row.get(1)?,
        tenant: row.get(2)?,
        scope,
        name: row.get(4)?,
        created_at: row.get::<_, Time>(5)?.0,
        revoked_at: row.get::<_, Option<Time>>(6)?.map(|time| time.0),
    })
}
