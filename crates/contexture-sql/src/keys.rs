//! API keys, and what was done with them.

use std::sync::Arc;

use crate::driver::{Connection, OptionalExtension, Row};
use crate::params;
use crate::{Backend, SqlStore};
use contexture_store::{AuditEntry, KeyRecord, KeyScope, Store, StoreError, Tenants, Watch};
use jiff::Timestamp;

use crate::error::{Error, Fault};
use crate::row::{Time, limit};

impl<B: Backend> Tenants for SqlStore<B> {
    fn tenant(&self, name: &str) -> Arc<dyn Store> {
        Arc::new(self.for_tenant(name))
    }

    fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
        key.check()?;
        let key = key.clone();
        let shared = self.backend.shared(&key.tenant);
        shared.write(move |db, tenant| add(db, tenant, &key))
    }

    fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError> {
        self.backend.shared("").read(|db, _| find(db, id))
    }

    fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.backend.shared("").read(|db, _| all(db))
    }

    fn revoke_key(&self, id: &str, now: Timestamp) -> Result<KeyRecord, StoreError> {
        let id = id.to_owned();
        self.backend
            .shared("")
            .write(move |db, _| revoke(db, &id, now))
    }

    fn tenant_names(&self) -> Result<Vec<String>, StoreError> {
        self.backend.tenant_names()
    }

    fn delete_tenant(&self, name: &str, now: Timestamp) -> Result<(), StoreError> {
        if name.is_empty() {
            return Err(StoreError::invalid(
                "tenant",
                "the default tenant cannot be deleted; delete its sessions, trees and records",
            ));
        }
        let known = self.tenant_names()?;
        if !known.iter().any(|known| known == name) {
            let (what, name) = ("tenant", name.to_owned());
            return Err(StoreError::NotFound { what, name });
        }
        let tenant = name.to_owned();
        // First nobody can call any more, then the data goes.
        self.backend
            .shared(name)
            .write(move |db, key| revoke_all(db, key, &tenant, now))?;
        self.backend.remove_tenant(name)
    }

    fn audit(&self, most: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.backend.shared("").read(|db, _| audit(db, most))
    }

    fn ping(&self) -> Result<(), StoreError> {
        self.backend.probe()
    }

    fn watch(&self, watch: Watch) {
        self.backend.watch(watch);
    }

    fn incarnation(&self) -> u64 {
        self.backend.incarnation()
    }
}

/// Returns all keys.
pub(crate) fn all(db: &Connection) -> Result<Vec<KeyRecord>, Fault> {
    let mut select = db.prepare_cached(&format!("{COLUMNS} ORDER BY k.key"))?;
    let found = select.query_map((), key_row)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Revokes a key.
pub(crate) fn revoke(db: &Connection, id: &str, now: Timestamp) -> Result<KeyRecord, Fault> {
    let changed = db
        .prepare_cached("UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
        .change((id, Time(now)))?;
    let key = find(db, id)?.ok_or_else(|| Fault::not_found("key", id))?;
    if changed > 0 {
        note(db, now, "key_revoked", &key.tenant, &key.id)?;
    }
    Ok(key)
}

/// Revokes all keys of a tenant, because it is deleted.
pub(crate) fn revoke_all(
    db: &Connection,
    tenant: i64,
    name: &str,
    now: Timestamp,
) -> Result<(), Fault> {
    db.prepare_cached("UPDATE keys SET revoked = ?2 WHERE tenant = ?1 AND revoked IS NULL")?
        .execute((tenant, Time(now)))?;
    note(db, now, "tenant_deleted", name, name)
}

/// Returns the latest administrative acts.
pub(crate) fn audit(db: &Connection, most: usize) -> Result<Vec<AuditEntry>, Fault> {
    let mut select =
        db.prepare_cached("SELECT at, act, tenant, subject FROM audit ORDER BY key DESC LIMIT ?1")?;
    let found = select.query_map([limit(most)], |row| {
        Ok(AuditEntry {
            at: row.get::<Time>(0)?.0,
            act: row.get(1)?,
            tenant: row.get(2)?,
            subject: row.get(3)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
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

/// Adds a key of a tenant.
pub(crate) fn add(db: &Connection, tenant: i64, key: &KeyRecord) -> Result<(), Fault> {
    let scope = match key.scope {
        KeyScope::Tenant => 0,
        KeyScope::Metrics => 1,
    };
    let mut insert = db.prepare_cached(
        "INSERT INTO keys (id, hash, tenant, scope, name, created, revoked)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING",
    )?;
    let added = insert.change(params![
        key.id,
        key.hash,
        tenant,
        scope,
        key.name,
        Time(key.created_at),
        key.revoked_at.map(Time),
    ])?;
    // For another tenant it may be added at the same time.
    if added == 0 {
        return Err(Fault::exists("key", &key.id));
    }
    note(db, key.created_at, "key_created", &key.tenant, &key.id)
}

/// Finds a key by its id.
pub(crate) fn find(db: &Connection, id: &str) -> Result<Option<KeyRecord>, Fault> {
    let mut select = db.prepare_cached(&format!("{COLUMNS} WHERE k.id = ?1"))?;
    Ok(select.query_row([id], key_row).optional()?)
}

fn key_row(row: &Row<'_>) -> crate::driver::Result<KeyRecord> {
    let scope = match row.get::<i64>(3)? {
        0 => KeyScope::Tenant,
        1 => KeyScope::Metrics,
        other => {
            return Err(Error::Content(format!("{other} is no scope of a key")));
        }
    };
    Ok(KeyRecord {
        id: row.get(0)?,
        hash: row.get(1)?,
        tenant: row.get(2)?,
        scope,
        name: row.get(4)?,
        created_at: row.get::<Time>(5)?.0,
        revoked_at: row.get::<Option<Time>>(6)?.map(|time| time.0),
    })
}
