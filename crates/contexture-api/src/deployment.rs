//! All tenants of a server, as the admin operations see them.

use contexture::store::{TenantQuota, Tenants as Stores};
use contexture::{Error, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

/// A running server with all its tenants. The admin operations act on it.
pub trait Deployment: Send + Sync {
    /// Returns the stores of all tenants, with keys, quotas and the audit log.
    fn stores(&self) -> &dyn Stores;

    /// Returns the server's fixed time, otherwise the current time.
    fn now(&self) -> Timestamp;

    /// Returns the quota that a tenant has in the settings.
    fn configured_quota(&self, tenant: &str) -> TenantQuota;

    /// Makes the server look for API keys in the store again.
    fn keys_changed(&self);

    /// Makes the server look for quotas in the store again.
    fn quotas_changed(&self);

    /// Unloads a tenant that was deleted, and ends its event streams.
    fn unload(&self, tenant: &str);

    /// Deletes the files that the server has written for a tenant that was deleted:
    /// copies of stored files, and the files of its sessions.
    fn delete_files(&self, tenant: &str);

    /// Reads the settings again and applies them. Fails without any change if the
    /// settings have an error.
    fn reload(&self) -> Result<Reloaded, Error>;
}

/// The result of reading the settings again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ReloadedSettings")]
pub struct Reloaded {
    /// The settings that changed and apply now, such as `server.rate_per_second`.
    pub changed: Vec<String>,
    /// The settings that changed and apply after a restart of the server.
    pub needs_restart: Vec<String>,
    /// The tenants whose own settings have an error, with the error. Their previous
    /// settings still apply.
    pub unchanged_tenants: Vec<UnchangedTenant>,
}

/// A tenant whose settings could not be read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnchangedTenant {
    /// The name of the tenant.
    pub tenant: String,
    /// The error message.
    pub error: String,
}
