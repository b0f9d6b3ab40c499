//! API keys in SQLite.

use std::sync::Arc;

use contexture_store::{AuditEntry, KeyRecord, KeyScope, Store, StoreError, Tenants, Watch};
use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::SqliteStore;
use crate::error::Fault;
use crate::row::{Time, limit};

impl Tenants for SqliteStore {
    fn tenant(&self, name: &str) -> Arc<dyn Store> {
        Arc::new(self.for_tenant(name))
    }

    fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
        key.check()?;
        let key = key.clone();
        self.in_main(&key.tenant)
            .write(move |db, tenant| add(db, tenant, &key))
    }

    fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError> {
        self.in_main("").read(|db, _| find(db, id))
    }

    fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.in_main("").read(|db, _| {
            let mut select = db.prepare_cached(&format!("{COLUMNS} ORDER BY k.key"))?;
            let found = select.query_map([], key_row)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn revoke_key(&self, id: &str, now: Timestamp) -> Result<KeyRecord, StoreError> {
        let id = id.to_owned();
        self.in_main("").write(move |db, _| {
            let changed = db
                .prepare_cached("UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
                .execute((&id, Time(now)))?;
            let key = find(db, &id)?.ok_or_else(|| Fault::not_found("key", &id))?;
            if changed > 0 {
                note(db, now, "key_revoked", &key.tenant, &key.id)?;
            }
            Ok(key)
        })
    }

    fn tenant_names(&self) -> Result<Vec<String>, StoreError> {
        self.files.names()
    }

    fn delete_tenant(&self, name: &str, now: Timestamp) -> Result<(), StoreError> {
        if name.is_empty() {
            return Err(StoreError::invalid(
                "tenant",
                "the default tenant cannot be deleted; delete its sessions, trees and records",
            ));
        }
        let known = self.files.names()?;
        if !known.iter().any(|known| known == name) {
            return Err(Fault::not_found("tenant", name).at(""));
        }
        let tenant = name.to_owned();
        // First nobody can call any more, then the data goes.
        self.in_main(name).write(move |db, key| {
            db.prepare_cached(
                "UPDATE keys SET revoked = ?2 WHERE tenant = ?1 AND revoked IS NULL",
            )?
            .execute((key, Time(now)))?;
            note(db, now, "tenant_deleted", &tenant, &tenant)
        })?;
        self.files.remove(name)
    }

    fn audit(&self, most: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.in_main("").read(|db, _| {
            let mut select = db.prepare_cached(
                "SELECT at, act, tenant, subject FROM audit ORDER BY key DESC LIMIT ?1",
            )?;
            let found = select.query_map([limit(most)], |row| {
                Ok(AuditEntry {
                    at: row.get::<_, Time>(0)?.0,
                    act: row.get(1)?,
                    tenant: row.get(2)?,
                    subject: row.get(3)?,
                })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn ping(&self) -> Result<(), StoreError> {
        self.in_main("").probe()
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

/// Notes an administrative act.
fn note(
    db: &Connection,
    at: Timestamp,
    act: &str,
    tenant: &str,
    subject: &str,
) -> Result<(), Fault> {
    let mut insert =
        db.prepare_cached("INSERT INTO audit (at, act, tenant, subject) VALUES (?1, ?2, ?3, ?4)")?;
    insert.execute((Time(at), act, tenant, subject))?;
    Ok(())
}

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
    note(db, key.created_at, "key_created", &key.tenant, &key.id)
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
