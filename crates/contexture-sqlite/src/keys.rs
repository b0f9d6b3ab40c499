//! API keys in SQLite.

use std::sync::Arc;

use contexture_store::{
    AuditEntry, Call, KeyRecord, KeyScope, Quota, Store, StoreError, Tenants, Watch,
};
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
        let act = Act::new("key_created", key.created_at);
        self.in_main(&key.tenant)
            .write(move |db, tenant| add(db, tenant, &key, &act))
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
        let act = Act::new("key_revoked", now);
        self.in_main("").write(move |db, _| {
            let changed = db
                .prepare_cached("UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
                .execute((&id, Time(now)))?;
            let key = find(db, &id)?.ok_or_else(|| Fault::not_found("key", &id))?;
            if changed > 0 {
                act.note(db, &key.tenant, &key.id)?;
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
        let act = Act::new("tenant_deleted", now);
        // First nobody can call any more, then the data goes.
        self.in_main(name).write(move |db, key| {
            db.prepare_cached(
                "UPDATE keys SET revoked = ?2 WHERE tenant = ?1 AND revoked IS NULL",
            )?
            .execute((key, Time(now)))?;
            db.prepare_cached("DELETE FROM quotas WHERE tenant = ?1")?
                .execute([&tenant])?;
            act.note(db, &tenant, &tenant)
        })?;
        self.files.remove(name)
    }

    fn audit(&self, most: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.in_main("").read(|db, _| {
            let mut select = db.prepare_cached(
                "SELECT at, act, tenant, subject, actor FROM audit ORDER BY key DESC LIMIT ?1",
            )?;
            let found = select.query_map([limit(most)], |row| {
                Ok(AuditEntry {
                    at: row.get::<_, Time>(0)?.0,
                    act: row.get(1)?,
                    tenant: row.get(2)?,
                    subject: row.get(3)?,
                    actor: row.get(4)?,
                })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn quotas(&self) -> Result<Vec<(String, Quota)>, StoreError> {
        self.in_main("").read(|db, _| {
            let mut select = db.prepare_cached(
                "SELECT tenant, bytes, sessions, records, nodes, requests_per_day
                 FROM quotas ORDER BY tenant",
            )?;
            let found = select.query_map([], |row| {
                let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                let quota = Quota {
                    max_bytes: number(1)?,
                    max_sessions: number(2)?,
                    max_records: number(3)?,
                    max_nodes: number(4)?,
                    max_requests_per_day: number(5)?,
                };
                Ok((row.get(0)?, quota))
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }

    fn set_quota(
        &self,
        tenant: &str,
        quota: Option<&Quota>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (tenant, quota) = (tenant.to_owned(), quota.copied());
        let act = match quota {
            Some(_) => Act::new("quota_set", now),
            None => Act::new("quota_removed", now),
        };
        self.in_main("").write(move |db, _| {
            let mut delete = db.prepare_cached("DELETE FROM quotas WHERE tenant = ?1")?;
            let was = delete.execute([&tenant])? > 0;
            if let Some(quota) = quota {
                let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
                let mut insert =
                    db.prepare_cached("INSERT INTO quotas VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
                insert.execute(params![
                    tenant,
                    number(quota.max_bytes),
                    number(quota.max_sessions),
                    number(quota.max_records),
                    number(quota.max_nodes),
                    number(quota.max_requests_per_day),
                ])?;
            }
            match was || quota.is_some() {
                true => act.note(db, &tenant, &tenant),
                false => Ok(()),
            }
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

/// An administrative act, with its caller. Made in the caller's thread: the
/// writer has another.
pub(crate) struct Act {
    name: &'static str,
    at: Timestamp,
    actor: Option<String>,
}

impl Act {
    pub(crate) fn new(name: &'static str, at: Timestamp) -> Self {
        let actor = Call::caller();
        Self { name, at, actor }
    }

    /// Adds the act to the audit log.
    fn note(&self, db: &Connection, tenant: &str, subject: &str) -> Result<(), Fault> {
        let mut insert = db.prepare_cached(
            "INSERT INTO audit (at, act, tenant, subject, actor) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        insert.execute((Time(self.at), self.name, tenant, subject, &self.actor))?;
        Ok(())
    }
}

impl SqliteStore {
    /// Adds a deletion to the audit log, which is in the store's own file and
    /// outlives the tenant.
    pub(crate) fn note_deletion(&self, act: &'static str, subject: String) {
        let act = Act::new(act, Timestamp::now());
        let tenant = self.tenant.name.to_string();
        let noted = self
            .in_main("")
            .write(move |db, _| act.note(db, &tenant, &subject));
        // The deletion is done, and on a full disk it must be possible: a caller
        // who got an error would believe that the text is still there.
        drop(noted);
    }
}

fn add(db: &Connection, tenant: i64, key: &KeyRecord, act: &Act) -> Result<(), Fault> {
    if find(db, &key.id)?.is_some() {
        return Err(Fault::exists("key", &key.id));
    }
    let scope = match key.scope {
        KeyScope::Tenant => 0,
        KeyScope::Metrics => 1,
        KeyScope::Admin => 2,
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
    act.note(db, &key.tenant, &key.id)
}

fn find(db: &Connection, id: &str) -> Result<Option<KeyRecord>, Fault> {
    let mut select = db.prepare_cached(&format!("{COLUMNS} WHERE k.id = ?1"))?;
    Ok(select.query_row([id], key_row).optional()?)
}

fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let scope = match row.get(3)? {
        0 => KeyScope::Tenant,
        1 => KeyScope::Metrics,
        2 => KeyScope::Admin,
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
