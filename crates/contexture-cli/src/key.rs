//! `contexture key`: creates, lists and revokes API keys.

use contexture::key;
use contexture::store::{KeyRecord, KeyScope, Tenants};
use contexture::{Error, Timestamp};
use serde_json::{Value, json};

use crate::args::{KeyArgs, KeyCommand, StoreOptions};
use crate::output;
use crate::session::{plain, short, show, table};
use crate::store;

/// The maximum number of characters of a key's name that are shown.
const LINE: usize = 60;

pub(crate) fn run(args: &KeyArgs) -> anyhow::Result<()> {
    let options = &args.options;
    let now = options.now.unwrap_or_else(Timestamp::now);
    match &args.command {
        KeyCommand::New {
            tenant,
            metrics,
            admin,
            name,
        } => {
            let scope = match (metrics, admin) {
                (true, _) => KeyScope::Metrics,
                (_, true) => KeyScope::Admin,
                _ => KeyScope::Tenant,
            };
            // The argument is a name; an empty one does not mean `default`.
            if let Some(tenant) = tenant {
                key::check_tenant(tenant)?;
            }
            let tenant = tenant.as_deref().unwrap_or_default();
            let (made, record) = key::generate(tenant, scope, name.as_deref(), now)?;
            let store = tenants(options, true)?;
            store.add_key(&record).map_err(Error::from)?;
            print_new_key(options, &made, &record)
        }
        KeyCommand::List => list(&*tenants(options, false)?, options),
        KeyCommand::Revoke { id } => {
            let store = tenants(options, false)?;
            let id = named(&*store, id)?;
            let revoked = store.revoke_key(&id, now).map_err(Error::from)?;
            let since = revoked.revoked_at.unwrap_or(now);
            let told = format!(
                "revoked key {} of tenant {} at {since:.0}",
                revoked.id,
                key::tenant_name(&revoked.tenant)
            );
            show(options, &shown(&revoked), &output::visible(&told))
        }
    }
}

fn tenants(options: &StoreOptions, make: bool) -> anyhow::Result<Box<dyn Tenants>> {
    store::tenants(options, make, "contexture key new")
}

/// Returns the id of the key that was typed: an id, the whole key, or the name
/// of one key that is not revoked.
fn named(store: &dyn Tenants, typed: &str) -> anyhow::Result<String> {
    if let Some((id, _)) = key::parse(typed) {
        return Ok(id.to_owned());
    }
    let keys = store.keys().map_err(Error::from)?;
    if keys.iter().any(|record| record.id == typed) {
        return Ok(typed.to_owned());
    }
    let is_named =
        |record: &&KeyRecord| record.name.as_deref() == Some(typed) && record.revoked_at.is_none();
    let mut named = keys.iter().filter(is_named);
    match (named.next(), named.next()) {
        (Some(record), None) => Ok(record.id.clone()),
        (Some(_), Some(_)) => Err(output::Advice {
            message: format!("several keys have the name `{}`", output::visible(typed)),
            hint: "use an id that `contexture key list` prints".to_owned(),
        }
        .into()),
        _ => Ok(typed.to_owned()),
    }
}

fn print_new_key(
    options: &StoreOptions,
    made: &key::Key,
    record: &KeyRecord,
) -> anyhow::Result<()> {
    if options.json {
        let mut value = shown(record);
        value["key"] = json!(made.as_str());
        return output::text(&format!("{value:#}\n"));
    }
    output::bytes(format!("{}\n", made.as_str()).as_bytes())?;
    let opens = match record.scope {
        KeyScope::Tenant => format!("the data of tenant {}", key::tenant_name(&record.tenant)),
        KeyScope::Metrics => "/metrics only".to_owned(),
        KeyScope::Admin => "the admin API only".to_owned(),
    };
    let path = store::address(options)?;
    output::say(&format!(
        "created key {id} in {path}; servers on this store require a key within two \
         seconds\nThis is the only time the key is shown: save it in a safe place.\nIt grants \
         access to {opens}. Send it with every request as\n  Authorization: Bearer \
         ctx_{id}_…\nRevoke it with `contexture key revoke {id}`.",
        id = record.id,
        path = output::visible(&path),
    ));
    Ok(())
}

/// Returns a key as JSON; the usual tenant by the word for it.
fn shown(record: &KeyRecord) -> Value {
    let mut value = json!(record);
    value["tenant"] = json!(tenant_of(record));
    value
}

/// Returns the tenant whose data a key opens, if it opens any.
fn tenant_of(record: &KeyRecord) -> Option<&str> {
    match record.scope {
        KeyScope::Tenant => Some(key::tenant_name(&record.tenant)),
        KeyScope::Metrics | KeyScope::Admin => None,
    }
}

fn list(store: &dyn Tenants, options: &StoreOptions) -> anyhow::Result<()> {
    let keys = store.keys().map_err(Error::from)?;
    if options.json {
        let keys: Vec<Value> = keys.iter().map(shown).collect();
        return output::text(&format!("{:#}\n", json!(keys)));
    }
    if keys.is_empty() {
        return output::text("no keys; create one with `contexture key new`\n");
    }
    let header = ["id", "tenant", "scope", "name", "created", "revoked"];
    let mut table = table(&header, &[]);
    for record in &keys {
        let name = short(record.name.as_deref().unwrap_or("-"), LINE);
        let revoked = record.revoked_at.map(|at| format!("{at:.0}"));
        table.add_row([
            record.id.clone(),
            output::visible(tenant_of(record).unwrap_or("-")),
            record.scope.name().to_owned(),
            output::visible(&name),
            format!("{:.0}", record.created_at),
            revoked.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    output::text(&plain(&table))
}
