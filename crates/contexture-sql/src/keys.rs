//! API keys, quotas and the audit log of administrative acts.

use std::sync::Arc;

use crate::driver::{Connection, OptionalExtension, Row};
use crate::params;
use crate::{Backend, SqlStore};
use contexture_store::{
    ArchiveSink, ArchiveSource, AuditEntry, Call, EventHint, KeyRecord, KeyScope, SharedPart,
    Store, StoreError, StoreStats, TenantQuota, Tenants, Watch,
};
use jiff::Timestamp;

use crate::error::{Error, Fault};
use crate::row::{Time, limit, number, unsigned};
use crate::together::Together;

impl<B: Backend> Tenants for SqlStore<B> {
    fn tenant(&self, name: &str) -> Arc<dyn Store> {
        Arc::new(self.for_tenant(name))
    }

    fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
        key.check()?;
        let key = key.clone();
        let act = Act::new("key_created", key.created_at);
        let shared = self.backend.shared(&key.tenant);
        shared.write(move |db, tenant| add(db, tenant, &key, &act))
    }

    fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError> {
        self.backend.shared("").read(|db, _| find(db, id))
    }

    fn keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.backend.shared("").read(|db, _| all(db))
    }

    fn revoke_key(&self, id: &str, now: Timestamp) -> Result<KeyRecord, StoreError> {
        let id = id.to_owned();
        let act = Act::new("key_revoked", now);
        self.backend
            .shared("")
            .write(move |db, _| revoke(db, &id, &act))
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
        let revoke = || {
            let (tenant, act) = (name.to_owned(), Act::new("tenant_deleted", now));
            let shared = self.backend.shared(name);
            shared.write(move |db, key| revoke_all(db, key, &tenant, &act))
        };
        // The keys are revoked first, so that no caller can read while the data
        // is deleted. If the disk is too full to store that, the data is
        // deleted first, which frees space.
        match revoke() {
            Err(StoreError::Full { .. }) => {
                self.backend.remove_tenant(name)?;
                revoke()?;
            }
            revoked => revoked?,
        }
        self.backend.remove_tenant(name)
    }

    fn audit(&self, most: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.backend.shared("").read(|db, _| audit(db, most))
    }

    fn quotas(&self) -> Result<Vec<(String, TenantQuota)>, StoreError> {
        self.backend.shared("").read(|db, _| quotas(db))
    }

    fn set_quota(
        &self,
        tenant: &str,
        quota: Option<&TenantQuota>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (tenant, quota) = (tenant.to_owned(), quota.copied());
        quota.as_ref().map_or(Ok(()), TenantQuota::check)?;
        let act = match quota {
            Some(_) => Act::new("quota_set", now),
            None => Act::new("quota_removed", now),
        };
        let shared = self.backend.shared("");
        shared.write(move |db, _| set_quota(db, &tenant, quota.as_ref(), &act))
    }

    fn note_act(
        &self,
        act: &'static str,
        tenant: &str,
        subject: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let act = Act::new(act, now);
        let (tenant, subject) = (tenant.to_owned(), subject.to_owned());
        let shared = self.backend.shared("");
        shared.write(move |db, _| act.log(db, &tenant, &subject))
    }

    fn export_shared(&self, part: SharedPart, put: ArchiveSink<'_>) -> Result<(), StoreError> {
        self.export_part(part, put)
    }

    fn import_shared(&self, part: SharedPart, next: ArchiveSource) -> Result<(), StoreError> {
        self.import_part(part, next)
    }

    fn add_counts(
        &self,
        counts: &[(String, i64, u64)],
        oldest: i64,
    ) -> Result<Vec<u64>, StoreError> {
        let counts = counts.to_vec();
        // All servers add to each name, so the lock of one tenant protects it.
        let shared = self.backend.shared("");
        shared.write(move |db, _| add_counts(db, &counts, oldest))
    }

    fn on_event(&self, woken: EventHint) {
        self.backend.on_event(woken);
    }

    fn ping(&self) -> Result<(), StoreError> {
        self.backend.probe()
    }

    fn stats(&self) -> Result<StoreStats, StoreError> {
        self.backend.stats()
    }

    fn watch(&self, watch: Watch) {
        self.backend.watch(watch);
    }

    fn incarnation(&self) -> u64 {
        self.backend.incarnation()
    }
}

/// Adds to counts and returns the sums.
fn add_counts(
    db: &Connection,
    counts: &[(String, i64, u64)],
    oldest: i64,
) -> Result<Vec<u64>, Fault> {
    let mut add = db.prepare_cached(
        "INSERT INTO request_counts (name, period, count) VALUES (?1, ?2, ?3)
         ON CONFLICT (name, period) DO UPDATE SET count = request_counts.count + excluded.count",
    )?;
    for (name, period, more) in counts {
        add.execute((name, *period, number("count", *more)?))?;
    }
    if oldest > 0 {
        db.prepare_cached("DELETE FROM request_counts WHERE period > 0 AND period < ?1")?
            .execute([oldest])?;
    }
    let mut together = Together::default();
    let sums: Vec<_> = counts
        .iter()
        .map(|(name, period, _)| {
            together.add(move |db| {
                let sql = "SELECT count FROM request_counts WHERE name = ?1 AND period = ?2";
                Ok(db.query_row(sql, (name, *period), |row| unsigned(row, 0))?)
            })
        })
        .collect();
    together.run(db)?;
    sums.into_iter().map(|sum| sum.take()).collect()
}

/// Returns all keys.
pub(crate) fn all(db: &Connection) -> Result<Vec<KeyRecord>, Fault> {
    let mut select = db.prepare_cached(&format!("{COLUMNS} ORDER BY k.key"))?;
    let found = select.query_map((), key_row)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Revokes a key.
fn revoke(db: &Connection, id: &str, act: &Act) -> Result<KeyRecord, Fault> {
    let changed = db
        .prepare_cached("UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
        .change((id, Time(act.at)))?;
    let key = find(db, id)?.ok_or_else(|| Fault::not_found("key", id))?;
    if changed > 0 {
        act.log(db, &key.tenant, &key.id)?;
    }
    Ok(key)
}

/// Revokes all keys of a tenant, because it is deleted.
fn revoke_all(db: &Connection, tenant: i64, name: &str, act: &Act) -> Result<(), Fault> {
    db.prepare_cached("UPDATE keys SET revoked = ?2 WHERE tenant = ?1 AND revoked IS NULL")?
        .execute((tenant, Time(act.at)))?;
    db.prepare_cached("DELETE FROM quotas WHERE tenant = ?1")?
        .execute([name])?;
    act.log(db, name, name)
}

/// Returns the latest administrative acts.
pub(crate) fn audit(db: &Connection, most: usize) -> Result<Vec<AuditEntry>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT at, act, tenant, subject, actor FROM audit ORDER BY key DESC LIMIT ?1",
    )?;
    let found = select.query_map([limit(most)], |row| {
        Ok(AuditEntry {
            at: row.get::<Time>(0)?.0,
            act: row.get(1)?,
            tenant: row.get(2)?,
            subject: row.get(3)?,
            actor: row.get(4)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

const COLUMNS: &str = "SELECT k.id, k.hash, t.name, k.scope, k.name, k.created, k.revoked
    FROM keys k JOIN tenants t ON t.key = k.tenant";

/// An administrative act with its caller. It is created in the caller's thread,
/// because the writer thread can belong to another call.
struct Act {
    name: &'static str,
    at: Timestamp,
    actor: Option<String>,
}

impl Act {
    fn new(name: &'static str, at: Timestamp) -> Self {
        let actor = Call::caller();
        Self { name, at, actor }
    }

    /// Adds the act to the audit log.
    fn log(&self, db: &Connection, tenant: &str, subject: &str) -> Result<(), Fault> {
        let mut insert = db.prepare_cached(
            "INSERT INTO audit (at, act, tenant, subject, actor) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        insert.execute(params![
            Time(self.at),
            self.name,
            tenant,
            subject,
            self.actor.as_deref(),
        ])?;
        Ok(())
    }
}

impl<B: Backend> SqlStore<B> {
    /// Adds a deletion to the audit log, which outlives the tenant.
    pub(crate) fn note_deletion(&self, act: &'static str, subject: String) {
        let act = Act::new(act, Timestamp::now());
        let tenant = self.backend.tenant_name().to_owned();
        let shared = self.backend.shared("");
        let noted = shared.write(move |db, _| act.log(db, &tenant, &subject));
        // The deletion is done, and it must work on a full disk. After an error
        // the caller would believe that the text still exists.
        drop(noted);
    }
}

/// Returns the quotas that were set explicitly.
fn quotas(db: &Connection) -> Result<Vec<(String, TenantQuota)>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT tenant, bytes, sessions, records, nodes, requests_per_day
         FROM quotas ORDER BY tenant",
    )?;
    let found = select.query_map((), |row| {
        let number = |column| row.get::<i64>(column).map(i64::unsigned_abs);
        let quota = TenantQuota {
            max_bytes: number(1)?,
            max_sessions: number(2)?,
            max_records: number(3)?,
            max_nodes: number(4)?,
            max_requests_per_day: number(5)?,
        };
        Ok((row.get(0)?, quota))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Sets the quota of a tenant, or removes it.
fn set_quota(
    db: &Connection,
    tenant: &str,
    quota: Option<&TenantQuota>,
    act: &Act,
) -> Result<(), Fault> {
    let mut delete = db.prepare_cached("DELETE FROM quotas WHERE tenant = ?1")?;
    let existed = delete.change([tenant])? > 0;
    if let Some(quota) = quota {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut insert = db.prepare_cached(
            "INSERT INTO quotas (tenant, bytes, sessions, records, nodes, requests_per_day)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        insert.execute(params![
            tenant,
            number(quota.max_bytes),
            number(quota.max_sessions),
            number(quota.max_records),
            number(quota.max_nodes),
            number(quota.max_requests_per_day),
        ])?;
    }
    match existed || quota.is_some() {
        true => act.log(db, tenant, tenant),
        false => Ok(()),
    }
}

/// Adds a key of a tenant.
fn add(db: &Connection, tenant: i64, key: &KeyRecord, act: &Act) -> Result<(), Fault> {
    let scope = match key.scope {
        KeyScope::Tenant => 0,
        KeyScope::Metrics => 1,
        KeyScope::Admin => 2,
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
    // The same id may be added for another tenant at the same time.
    if added == 0 {
        return Err(Fault::exists("key", &key.id));
    }
    act.log(db, &key.tenant, &key.id)
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
        2 => KeyScope::Admin,
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
