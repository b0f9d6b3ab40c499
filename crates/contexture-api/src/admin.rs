//! The admin API: tenants and their quotas, API keys, settings, and the audit log.
//!
//! These operations need a key with the scope `admin`, which gives access to no
//! tenant's data. A server without keys rejects them. Changes are in the audit
//! log, with the id of the key.

use contexture::Timestamp;
use contexture::key::{self, check_tenant, tenant_name, tenant_of};
use contexture::store::{AuditEntry, KeyRecord, KeyScope, TenantQuota, Usage};
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::deployment::{Deployment, Reloaded};
use crate::operation::{Api, Nothing, Operation};
use crate::page::{Limit, Page};
use crate::problem::Problem;

/// A tenant in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct OfTenant {
    /// The name of the tenant.
    pub tenant: String,
}

impl OfTenant {
    /// Returns the name in the store: `default` is "".
    fn name(&self) -> Result<&str, Problem> {
        check_tenant(&self.tenant)?;
        Ok(tenant_of(&self.tenant))
    }
}

/// A key in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct OfKey {
    /// The id of the key.
    id: String,
}

/// A tenant with its usage.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TenantUsage")]
struct TenantUsage {
    /// The name of the tenant.
    tenant: String,
    /// The amount of data that the tenant has stored.
    usage: Usage,
}

/// A page of the list of tenants.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TenantList")]
struct TenantList {
    /// The tenants that have data, by name. `default` is the first.
    tenants: Vec<TenantUsage>,
    /// The value of `after` for the next page. Null on the last page.
    next: Option<String>,
}

/// The quota of a tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "QuotaState")]
struct QuotaState {
    /// The name of the tenant.
    tenant: String,
    /// The limits. 0 is no limit.
    quota: TenantQuota,
    /// Whether the quota was set by this API or `contexture tenant quota`. If false, it is the
    /// quota of the server's settings.
    stored: bool,
}

/// A deleted tenant.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedTenant")]
struct DeletedTenant {
    /// The name of the tenant.
    deleted: String,
}

/// A key to create.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewKey")]
#[serde(default, deny_unknown_fields)]
struct NewKey {
    /// The tenant whose data the key gives access to. Default: `default`.
    tenant: Option<String>,
    /// The access of the key: `tenant`, `metrics` or `admin`. Default: `tenant`.
    scope: KeyScope,
    /// A description of the key.
    name: Option<String>,
}

/// A key without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ApiKey")]
struct ApiKey {
    /// The id of the key.
    id: String,
    /// The tenant whose data the key gives access to. Null for other scopes.
    tenant: Option<String>,
    /// The access of the key: `tenant`, `metrics` or `admin`.
    scope: KeyScope,
    /// The description of the key.
    name: Option<String>,
    /// The time when the key was created.
    created_at: Timestamp,
    /// The time when the key was revoked. Null if it was not.
    revoked_at: Option<Timestamp>,
}

impl From<KeyRecord> for ApiKey {
    fn from(record: KeyRecord) -> Self {
        let tenant = tenant_name(&record.tenant).to_owned();
        Self {
            id: record.id,
            tenant: (record.scope == KeyScope::Tenant).then_some(tenant),
            scope: record.scope,
            name: record.name,
            created_at: record.created_at,
            revoked_at: record.revoked_at,
        }
    }
}

/// A created key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CreatedKey")]
struct CreatedKey {
    /// The key with its secret. It cannot be read again.
    key: String,
    /// The key without its secret.
    record: ApiKey,
}

/// All keys.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "KeyList")]
struct KeyList {
    /// The keys in the order of their creation, revoked ones included.
    keys: Vec<ApiKey>,
}

/// The query of the audit log.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Latest {
    /// The maximum number of results, from 1 to 1000. Default: 100.
    limit: Limit,
}

/// The audit log.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AuditLog")]
struct AuditLog {
    /// The acts, newest first.
    entries: Vec<AuditEntry>,
}

pub(crate) fn add(api: &mut Api) {
    add_tenants(api);
    add_quotas(api);
    add_keys(api);
    api.add_admin(
        Operation::post("/v1/admin/reload", "admin_reload_settings")
            .describe(
                "Reload the settings",
                "Reads `contexture.toml` again and applies it. `changed` lists the settings that \
                 apply now, and `needs_restart` those that apply after a restart. Environment \
                 variables override the file as before. If the file has an error, nothing \
                 changes. Open streams stay open. The signal SIGHUP does the same. Needs an \
                 admin key.",
            )
            .refuses(&[422])
            .example("/v1/admin/reload", None),
        |server, _: Nothing, _: Nothing, _: Nothing| -> Result<Reloaded, Problem> {
            Ok(server.reload()?)
        },
    );
    api.add_admin(
        Operation::get("/v1/admin/audit", "admin_list_audit")
            .describe(
                "List administrative acts",
                "Returns the latest administrative acts: keys that were created or revoked, \
                 quotas that were changed, and tenants, sessions, trees and memory records that \
                 were deleted. Needs an admin key.",
            )
            .example("/v1/admin/audit?limit=3", None),
        |server, _: Nothing, query: Latest, _: Nothing| -> Result<AuditLog, Problem> {
            let mut entries = server.stores().audit(query.limit.get())?;
            for entry in &mut entries {
                entry.tenant = tenant_name(&entry.tenant).to_owned();
            }
            Ok(AuditLog { entries })
        },
    );
    // The last example, since nothing of the tenant is left.
    api.add_admin(
        Operation::new(
            Method::DELETE,
            "/v1/admin/tenants/{tenant}",
            "admin_delete_tenant",
        )
        .describe(
            "Delete a tenant",
            "Deletes all data of a tenant, revokes its keys and ends its event streams. Deletes \
             the copies of its stored files and its event logs on this server. Other files in its \
             root directory are kept. The tenant `default` cannot be deleted. Needs an admin key.",
        )
        .refuses(&[422])
        .example("/v1/admin/tenants/island", None),
        |server, of: OfTenant, _: Nothing, _: Nothing| -> Result<DeletedTenant, Problem> {
            let name = of.name()?;
            let deleted = server.stores().delete_tenant(name, server.now());
            // Also if only the keys were revoked.
            server.keys_changed();
            server.unload(name);
            deleted?;
            server.delete_files(name);
            Ok(DeletedTenant { deleted: of.tenant })
        },
    );
}

fn add_tenants(api: &mut Api) {
    api.add_admin(
        Operation::get("/v1/admin/tenants", "admin_list_tenants")
            .describe(
                "List tenants",
                "Returns the tenants that have data, with what each has stored. Needs an admin \
                 key.",
            )
            .example("/v1/admin/tenants?limit=1", None),
        |server, _: Nothing, page: Page, _: Nothing| -> Result<TenantList, Problem> {
            let stores = server.stores();
            let names = stores.tenant_names()?;
            let after = page.after.as_deref().map(tenant_of);
            let is_later = |name: &String| after.is_none_or(|after| name.as_str() > after);
            let limit = page.limit.get();
            let mut names: Vec<String> =
                names.into_iter().filter(is_later).take(limit + 1).collect();
            let has_more = names.len() > limit;
            names.truncate(limit);
            let next = names.last().filter(|_| has_more);
            let next = next.map(|name| tenant_name(name).to_owned());
            let mut tenants = Vec::with_capacity(names.len());
            for name in names {
                tenants.push(TenantUsage {
                    usage: stores.tenant(&name).usage()?,
                    tenant: tenant_name(&name).to_owned(),
                });
            }
            Ok(TenantList { tenants, next })
        },
    );
    api.add_admin(
        Operation::get("/v1/admin/tenants/{tenant}", "admin_get_tenant")
            .describe(
                "Get the usage of a tenant",
                "Returns what a tenant has stored. Needs an admin key.",
            )
            .example("/v1/admin/tenants/island", None),
        |server, of: OfTenant, _: Nothing, _: Nothing| -> Result<TenantUsage, Problem> {
            let name = of.name()?;
            let stores = server.stores();
            if !stores.tenant_names()?.iter().any(|known| known == name) {
                return Err(Problem::missing(format!("no tenant `{}`", of.tenant))
                    .hint("`GET /v1/admin/tenants` lists the tenants that have data"));
            }
            Ok(TenantUsage {
                usage: stores.tenant(name).usage()?,
                tenant: of.tenant,
            })
        },
    );
}

fn add_quotas(api: &mut Api) {
    const PATH: &str = "/v1/admin/tenants/{tenant}/quota";
    api.add_admin(
        Operation::new(Method::PUT, PATH, "admin_set_quota")
            .describe(
                "Set the quota of a tenant",
                "Sets the quota of a tenant, in place of the quota in the server's settings. The \
                 tenant need not have data yet. A limit that is omitted is 0: no limit. Numbers \
                 above 2^63-1 are rejected. The quota applies at once, and to other servers \
                 of the same store within two seconds. Needs an admin key.",
            )
            .refuses(&[422])
            .example(
                "/v1/admin/tenants/island/quota",
                json!({"max_bytes": 1_000_000_000, "max_sessions": 1000}),
            ),
        |server, of: OfTenant, _: Nothing, quota: TenantQuota| set_quota(server, of, Some(&quota)),
    );
    api.add_admin(
        Operation::get(PATH, "admin_get_quota")
            .describe(
                "Get the quota of a tenant",
                "Returns the quota that applies to a tenant. Needs an admin key.",
            )
            .refuses(&[422])
            .example("/v1/admin/tenants/island/quota", None),
        |server, of: OfTenant, _: Nothing, _: Nothing| quota(server, of),
    );
    api.add_admin(
        Operation::new(Method::DELETE, PATH, "admin_remove_quota")
            .describe(
                "Remove the quota of a tenant",
                "Removes the quota that was set, so that the quota in the server's settings \
                 applies again. Needs an admin key.",
            )
            .refuses(&[422])
            .example("/v1/admin/tenants/island/quota", None),
        |server, of: OfTenant, _: Nothing, _: Nothing| set_quota(server, of, None),
    );
}

fn set_quota(
    server: &dyn Deployment,
    of: OfTenant,
    quota: Option<&TenantQuota>,
) -> Result<QuotaState, Problem> {
    let stores = server.stores();
    stores.set_quota(of.name()?, quota, server.now())?;
    server.quotas_changed();
    self::quota(server, of)
}

fn quota(server: &dyn Deployment, of: OfTenant) -> Result<QuotaState, Problem> {
    let name = of.name()?;
    let stored = server.stores().quotas()?;
    let stored = stored.into_iter().find(|(tenant, _)| tenant == name);
    Ok(QuotaState {
        stored: stored.is_some(),
        quota: stored.map_or_else(|| server.configured_quota(name), |(_, quota)| quota),
        tenant: of.tenant,
    })
}

fn add_keys(api: &mut Api) {
    api.add_admin(
        Operation::post("/v1/admin/keys", "admin_create_key")
            .describe(
                "Create an API key",
                "Creates a key and returns it. The store has only a hash of the secret, so the \
                 key cannot be read again. Needs an admin key.",
            )
            .creates()
            .refuses(&[422])
            .example(
                "/v1/admin/keys",
                json!({"tenant": "island", "name": "the island's agent"}),
            ),
        |server, _: Nothing, _: Nothing, new: NewKey| -> Result<CreatedKey, Problem> {
            if let Some(tenant) = &new.tenant {
                check_tenant(tenant)?;
            }
            let tenant = new.tenant.as_deref().unwrap_or_default();
            let now = server.now();
            let (made, record) = key::generate(tenant, new.scope, new.name.as_deref(), now)?;
            server.stores().add_key(&record)?;
            Ok(CreatedKey {
                key: made.as_str().to_owned(),
                record: record.into(),
            })
        },
    );
    api.add_admin(
        Operation::get("/v1/admin/keys", "admin_list_keys")
            .describe(
                "List API keys",
                "Returns all keys without their secrets, in the order of their creation. Revoked \
                 keys are included. Needs an admin key.",
            )
            .example("/v1/admin/keys", None),
        |server, _: Nothing, _: Nothing, _: Nothing| -> Result<KeyList, Problem> {
            let keys = server.stores().keys()?;
            let keys = keys.into_iter().map(ApiKey::from).collect();
            Ok(KeyList { keys })
        },
    );
    api.add_admin(
        Operation::new(Method::DELETE, "/v1/admin/keys/{id}", "admin_revoke_key")
            .describe(
                "Revoke an API key",
                "Revokes a key and returns it. This server rejects the key at once, and ends its \
                 open streams within two seconds. Revoking a key again changes nothing. Needs \
                 an admin key.",
            )
            .example("/v1/admin/keys/7hK2mQx9PzR4", None),
        |server, of: OfKey, _: Nothing, _: Nothing| -> Result<ApiKey, Problem> {
            let stores = server.stores();
            let revoked = stores.revoke_key(&of.id, server.now())?;
            server.keys_changed();
            Ok(revoked.into())
        },
    );
}
