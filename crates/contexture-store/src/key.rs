//! API keys, and the store that several tenants share.
//!
//! A key gives access to the data of one tenant, to the server's metrics or to its
//! administration. Keys are revoked, never deleted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::archive::{ArchiveSink, ArchiveSource};
use crate::error::StoreError;
use crate::snapshot::Store;

/// The maximum length of a tenant's name, a key's id and a key's name, in bytes.
pub const MAX_KEY_NAME_BYTES: usize = 200;

/// The data that a key has access to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// The data of one tenant.
    #[default]
    Tenant,
    /// The metrics of the server, and no tenant's data.
    Metrics,
    /// The administration of the server: tenants, quotas, keys and the audit log.
    /// It includes no tenant's data.
    Admin,
}

impl KeyScope {
    /// Returns the scope's name.
    pub fn name(self) -> &'static str {
        match self {
            KeyScope::Tenant => "tenant",
            KeyScope::Metrics => "metrics",
            KeyScope::Admin => "admin",
        }
    }
}

/// A stored API key. It contains a hash of the secret, not the secret.
///
/// The hash is neither serialised nor part of the debug output, so that it does
/// not get into logs.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct KeyRecord {
    /// The id of the key. It is not secret.
    pub id: String,
    /// The hash of the secret.
    #[serde(skip)]
    pub hash: [u8; 32],
    /// The name of the tenant; `""` is the default tenant.
    pub tenant: String,
    /// The data that the key has access to.
    pub scope: KeyScope,
    /// A description of the key.
    pub name: Option<String>,
    /// The time when the key was created.
    pub created_at: Timestamp,
    /// The time when the key was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl KeyRecord {
    /// Checks that a store can save the record.
    pub fn check(&self) -> Result<(), StoreError> {
        let wrong_id = self.id.is_empty()
            || self.id.len() > MAX_KEY_NAME_BYTES
            || !self.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if wrong_id {
            return Err(StoreError::invalid(
                "id",
                format!("must have 1 to {MAX_KEY_NAME_BYTES} ASCII letters and digits"),
            ));
        }
        let name = self.name.as_deref().unwrap_or_default();
        for (field, text) in [("tenant", self.tenant.as_str()), ("name", name)] {
            if text.len() > MAX_KEY_NAME_BYTES {
                let length = text.len();
                return Err(StoreError::invalid(
                    field,
                    format!("has {length} bytes; at most {MAX_KEY_NAME_BYTES} are kept"),
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for KeyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRecord")
            .field("id", &self.id)
            .field("tenant", &self.tenant)
            .field("scope", &self.scope)
            .field("name", &self.name)
            .field("created_at", &self.created_at)
            .field("revoked_at", &self.revoked_at)
            .finish_non_exhaustive()
    }
}

/// An administrative act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    /// The time of the act.
    pub at: Timestamp,
    /// The act, such as `key_created`.
    pub act: String,
    /// The tenant.
    pub tenant: String,
    /// The object of the action, such as the id of a key.
    pub subject: String,
    /// The id of the API key of the caller. `None` for acts on the command line.
    pub actor: Option<String>,
}

/// The limits on the data that a tenant can store and send. 0 means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TenantQuota {
    /// The bytes that it stores: with SQLite, the size of its database file.
    pub max_bytes: u64,
    /// The number of sessions.
    pub max_sessions: u64,
    /// The number of memory records.
    pub max_records: u64,
    /// The number of nodes of all trees.
    pub max_nodes: u64,
    /// The number of requests in a day, by UTC, on all servers of the store.
    pub max_requests_per_day: u64,
}

impl TenantQuota {
    /// Fails if a number is larger than databases can store.
    pub fn check(&self) -> Result<(), StoreError> {
        const MOST: u64 = i64::MAX.unsigned_abs();
        let numbers = [
            ("max_bytes", self.max_bytes),
            ("max_sessions", self.max_sessions),
            ("max_records", self.max_records),
            ("max_nodes", self.max_nodes),
            ("max_requests_per_day", self.max_requests_per_day),
        ];
        match numbers.into_iter().find(|(_, number)| *number > MOST) {
            None => Ok(()),
            Some((field, number)) => Err(StoreError::invalid(
                field,
                format!("is {number}; the maximum is {MOST}, and 0 means no limit"),
            )),
        }
    }

    /// Returns true when the quota limits stored data.
    pub fn limits_storage(&self) -> bool {
        self.max_bytes > 0 || self.max_sessions > 0 || self.max_records > 0 || self.max_nodes > 0
    }
}

/// A part of the data that all tenants of a store share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedPart {
    /// The API keys and the quotas.
    Keys,
    /// The administrative acts.
    Audit,
}

/// The state of a store, for metrics. `None` where a store does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The size of all database files, in bytes.
    pub bytes: Option<u64>,
    /// The size of all write-ahead logs, in bytes.
    pub log_bytes: Option<u64>,
    /// The free space on the disk of the store, in bytes.
    pub free_bytes: Option<u64>,
    /// The number of writes that wait.
    pub queued_writes: Option<u64>,
    /// The number of open files that can still hold deleted text.
    pub pending_forgetting: Option<u64>,
    /// The number of deletions that have not ended.
    pub pending_deletions: Option<u64>,
    /// The time of the last backup of all tenants.
    pub last_backup: Option<Timestamp>,
    /// The most connections to the database.
    pub max_connections: Option<u64>,
    /// The number of connections to the database that are in use.
    pub connections_in_use: Option<u64>,
    /// The number of calls that wait for a connection.
    pub waiting_for_connections: Option<u64>,
    /// The number of transactions that were begun again on another connection,
    /// because the first one was lost.
    pub retries: Option<u64>,
    /// The number of standbys that an acknowledged write has been sent to. 0 if a
    /// failover can lose it.
    pub synchronous_standbys: Option<u64>,
    /// The number of times that calls waited for an answer of a database in
    /// another process.
    pub round_trips: Option<u64>,
}

/// The kind of work that waited for a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Waited for a read connection.
    Read,
    /// Waited until a write was on disk.
    Write,
}

/// Receives the time that callers waited for a store.
pub type Watch = Arc<dyn Fn(Waited, Duration) + Send + Sync>;

/// Receives the names of tenants that have new events.
pub type EventHint = Arc<dyn Fn(&str) + Send + Sync>;

/// A store that several tenants share, with their API keys.
///
/// A server uses this trait. Tenants use the [`Store`] that
/// [`tenant`](Self::tenant) returns.
pub trait Tenants: Send + Sync {
    /// Returns the store of a tenant. The store of an unknown tenant is empty;
    /// calling this method does not create the tenant.
    fn tenant(&self, name: &str) -> Arc<dyn Store>;

    /// Stores a key, with times in milliseconds. Fails if the id is already in
    /// use; the existing key is not changed.
    fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError>;

    /// Returns the key with that id, revoked or not. `None` if there is none.
    fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError>;

    /// Returns all keys in the order of their creation. Keys are never deleted,
    /// so that the list shows every key that ever had access.
    fn keys(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// Revokes a key and returns it. Revoking it again changes nothing, not even
    /// the time.
    fn revoke_key(&self, id: &str, now: Timestamp) -> Result<KeyRecord, StoreError>;

    /// Returns the names of the tenants that have data, in alphabetical order.
    /// The default tenant, `""`, is the first.
    fn tenant_names(&self) -> Result<Vec<String>, StoreError>;

    /// Deletes all data of a tenant and revokes its keys. The data of the default
    /// tenant cannot be deleted as a whole. Stores of the tenant that are open
    /// fail from then on.
    fn delete_tenant(&self, name: &str, now: Timestamp) -> Result<(), StoreError>;

    /// Returns the latest `limit` administrative acts, newest first: keys that
    /// were created or revoked, quotas that were changed, and tenants, sessions,
    /// trees and memory records that were deleted. Acts are never removed.
    ///
    /// The actor of an act is the caller of the current [`Call`](crate::Call).
    fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns the quotas that were set with [`set_quota`](Self::set_quota), by
    /// tenant.
    fn quotas(&self) -> Result<Vec<(String, TenantQuota)>, StoreError>;

    /// Sets the quota of a tenant, which need not have data yet. `None` removes
    /// it, so that the quota in the settings applies again.
    fn set_quota(
        &self,
        tenant: &str,
        quota: Option<&TenantQuota>,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Adds an administrative act to the audit log, such as `archive_exported`.
    fn note_act(
        &self,
        act: &'static str,
        tenant: &str,
        subject: &str,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Calls `put` with the rows that all tenants share: `part` is `keys` (keys
    /// and quotas) or `audit`.
    fn export_shared(&self, part: SharedPart, put: ArchiveSink<'_>) -> Result<(), StoreError>;

    /// Stores rows that all tenants share, all or none. A key, quota or act that
    /// is there already is not changed. Fails with [`StoreError::Exists`] if
    /// another key has the same id.
    fn import_shared(&self, part: SharedPart, next: ArchiveSource) -> Result<(), StoreError>;

    /// Adds numbers to counts that all servers share, such as the requests of a
    /// tenant in a day, and returns the sums. A count is removed when its period
    /// is before `oldest`; period 0 is never removed. With 0, nothing is removed.
    fn add_counts(
        &self,
        counts: &[(String, i64, u64)],
        oldest: i64,
    ) -> Result<Vec<u64>, StoreError>;

    /// Registers `woken`, which is called with the name of a tenant for which
    /// another process has stored an [event](crate::Events). The call is a
    /// hint: it can be missing or late, so callers also poll. Only the first
    /// registration counts.
    fn on_event(&self, _woken: EventHint) {}

    /// Returns an error if the store cannot be read or cannot be written now.
    ///
    /// It costs about as much as a short read, and changes no tenant's data.
    fn ping(&self) -> Result<(), StoreError>;

    /// Returns the state of the store. It costs about as much as a short read
    /// and one system call per file.
    fn stats(&self) -> Result<StoreStats, StoreError> {
        Ok(StoreStats::default())
    }

    /// Calls `watch` from now on with the time that any tenant waited for the
    /// store. There is one watch: a second call changes nothing.
    fn watch(&self, watch: Watch);

    /// Returns a number that changes when the store's file was replaced while
    /// the store was open (see [`StoreError::Unavailable`]).
    ///
    /// Caches of the store's content must then be dropped. Calls that read or
    /// write notice the replacement, so compare the number after such a call.
    fn incarnation(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> KeyRecord {
        KeyRecord {
            id: "abc".to_owned(),
            hash: [0xAB; 32],
            tenant: String::new(),
            scope: KeyScope::Metrics,
            name: Some("a dashboard".to_owned()),
            created_at: Timestamp::UNIX_EPOCH,
            revoked_at: None,
        }
    }

    #[test]
    fn the_hash_is_not_shown() {
        let shown = format!("{:?} {:#?}", key(), key());
        assert!(!shown.contains("171") && !shown.contains("hash"), "{shown}");
        assert_eq!(
            serde_json::to_string(&key()).unwrap(),
            r#"{"id":"abc","tenant":"","scope":"metrics","name":"a dashboard","created_at":"1970-01-01T00:00:00Z","revoked_at":null}"#
        );
    }

    #[test]
    fn an_invalid_key_record_is_rejected() {
        key().check().unwrap();
        for id in ["", "a_b", "é", &"x".repeat(201)] {
            let id = id.to_owned();
            assert!(KeyRecord { id, ..key() }.check().is_err());
        }
        let tenant = "x".repeat(201);
        let said = KeyRecord { tenant, ..key() }.check().unwrap_err();
        assert!(said.to_string().starts_with("tenant: "), "{said}");
        let name = Some("x".repeat(201));
        let said = KeyRecord { name, ..key() }.check().unwrap_err();
        assert!(said.to_string().starts_with("name: "), "{said}");
    }
}
