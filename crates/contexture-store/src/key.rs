use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::snapshot::Store;

/// The longest name of a tenant, and of what a key is for.
pub const MAX_KEY_NAME_BYTES: usize = 200;

/// What a key opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// The tenant's data.
    #[default]
    Tenant,
    /// The server's measurements, and nothing of a tenant.
    Metrics,
}

impl KeyScope {
    /// Returns the scope's name.
    pub fn name(self) -> &'static str {
        match self {
            KeyScope::Tenant => "tenant",
            KeyScope::Metrics => "metrics",
        }
    }
}

/// A key as it is kept: enough to recognise its secret, not to tell it.
///
/// The hash is neither serialised nor shown for debugging: it has no business in
/// a log.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct KeyRecord {
    /// Its name, which is no secret.
    pub id: String,
    /// The hash of its secret.
    #[serde(skip)]
    pub hash: [u8; 32],
    /// Whose data it opens; `""` is the usual tenant.
    pub tenant: String,
    /// What it opens.
    pub scope: KeyScope,
    /// What it is for, in words.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it opens nothing.
    pub revoked_at: Option<Timestamp>,
}

impl KeyRecord {
    /// Refuses a record that no store can keep.
    pub fn check(&self) -> Result<(), StoreError> {
        let wrong_id = self.id.is_empty()
            || self.id.len() > MAX_KEY_NAME_BYTES
            || !self.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if wrong_id {
            return Err(StoreError::invalid(
                "id",
                format!("a key's id is 1 to {MAX_KEY_NAME_BYTES} letters and digits of ASCII"),
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

/// What a store was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Until reading could begin.
    Read,
    /// Until what was written is on disk.
    Write,
}

/// Is told how long a store was waited for.
pub type Watch = Arc<dyn Fn(Waited, Duration) + Send + Sync>;

/// A store that several tenants keep things in, and the keys that open it.
///
/// It is for whoever serves them all. What a tenant may do, it does through the
/// [`Store`] that [`tenant`](Self::tenant) returns.
pub trait Tenants: Send + Sync {
    /// Returns the store as a tenant sees it. A tenant that has kept nothing
    /// sees an empty one; asking for it leaves no trace.
    fn tenant(&self, name: &str) -> Arc<dyn Store>;

    /// Keeps a key. Its times are kept to the millisecond. One whose id is taken
    /// is an error, and the other one stays as it is.
    fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError>;

    /// Returns the key of that id, revoked or not; `None` when there is none.
    fn key(&self, id: &str) -> Result<Option<KeyRecord>, StoreError>;

    /// Returns all keys in the order in which they were added. Keys are never
    /// removed, so that it can be told later who had access.
    fn keys(&self) -> Result<Vec<KeyRecord>, StoreError>;

    /// Revokes a key and returns it. Revoking it again changes nothing: the
    /// first time is the one that is kept.
    fn revoke_key(&self, id: &str, now: Timestamp) -> Result<KeyRecord, StoreError>;

    /// Returns an error if the store cannot be read or cannot be written now.
    ///
    /// It costs about as much as a short read. Nothing changes that a tenant
    /// could see.
    fn ping(&self) -> Result<(), StoreError>;

    /// Has `watch` told from now on how long the store was waited for, by any
    /// tenant. There is one watch: a second call changes nothing.
    fn watch(&self, watch: Watch);

    /// Returns a number that is another one when the store was replaced while it
    /// was open, as [`StoreError::Unavailable`] tells of.
    ///
    /// What is kept in memory of a store, such as what memories are found by, is
    /// of another store then, and must be dropped. That it was replaced is
    /// noticed by calls that read or write: ask after one.
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
    fn a_record_that_makes_no_sense_is_refused() {
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
