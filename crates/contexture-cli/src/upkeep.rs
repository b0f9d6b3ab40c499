//! `contexture backup`, `restore`, `verify`, `gc` and `tenant`: the upkeep of a
//! store.

use std::io::IsTerminal as _;

use anyhow::bail;
use contexture::config::Config;
use contexture::key::{check_tenant, tenant_name, tenant_of};
use contexture::store::{TenantQuota, Tenants};
use contexture::{Error, Root, Timestamp, session_files};
use contexture_terminal::stored;
use serde_json::json;

use crate::args::{
    BackupArgs, GcArgs, RestoreArgs, StoreOptions, TenantArgs, TenantCommand, VerifyArgs,
};
use crate::output;
use crate::session::{plain, show, table};
use crate::store;

const MAKER: &str = "contexture session new LABEL";

/// Returns the names of the tenants that a command is for.
fn named(stores: &dyn Tenants, only: Option<&str>) -> anyhow::Result<Vec<String>> {
    let all = stores.tenant_names().map_err(Error::from)?;
    let Some(only) = only else {
        return Ok(all);
    };
    check_tenant(only)?;
    match all.iter().any(|name| name == tenant_of(only)) {
        true => Ok(vec![tenant_of(only).to_owned()]),
        false => Err(output::Usage(format!(
            "tenant `{only}` has no data; list the tenants with `contexture tenant list`"
        ))
        .into()),
    }
}

/// Asks on a terminal whether something is to be deleted, unless `yes` says so.
pub(crate) fn confirm(yes: bool, question: &str) -> anyhow::Result<bool> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if yes || !is_terminal || output::ask(&mut std::io::stdin().lock(), question, false)? {
        return Ok(true);
    }
    output::say("nothing was deleted");
    Ok(false)
}

pub(crate) fn backup(args: &BackupArgs) -> anyhow::Result<()> {
    let options = &args.options;
    let only = args.tenant.as_deref();
    if let Some(only) = only {
        let stores = store::tenants(options, false, MAKER)?;
        named(&*stores, Some(only))?;
    }
    let now = options.now.unwrap_or_else(Timestamp::now);
    let made = store::back_up(options, &args.target, only.map(tenant_of), now)?;
    let bytes: u64 = made.files.iter().map(|file| file.bytes).sum();
    let told = format!(
        "backed up {} ({}) to {}",
        output::many(made.files.len() as u64, "tenant"),
        output::many(bytes, "byte"),
        args.target.display()
    );
    show(options, &made, &told)
}

pub(crate) fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    let options = &args.options;
    if args.check {
        let checked = store::check_backup(&args.backup)?;
        let told = format!("the backup of {:.0} is intact", checked.created_at);
        return show(options, &checked, &told);
    }
    let restored = store::restore(options, &args.backup, args.replace)?;
    let told = format!(
        "restored {} from the backup of {:.0}",
        output::many(restored.files.len() as u64, "tenant"),
        restored.created_at
    );
    show(options, &restored, &told)
}

pub(crate) fn verify(args: &VerifyArgs) -> anyhow::Result<()> {
    let options = &args.options;
    if args.accept_loss {
        store::accept_loss(options)?;
        output::say("lost transactions were accepted: the store has what it has now");
    }
    let stores = store::tenants(options, false, MAKER)?;
    let mut all = Vec::new();
    for name in named(&*stores, args.tenant.as_deref())? {
        let verified = stores.tenant(&name).verify().map_err(Error::from)?;
        all.push((name, verified));
    }
    let damaged: usize = all.iter().map(|(_, verified)| verified.damaged.len()).sum();
    if options.json {
        let json: Vec<_> = all
            .iter()
            .map(|(name, verified)| json!({"tenant": tenant_name(name), "verified": verified}))
            .collect();
        output::text(&format!("{:#}\n", json!(json)))?;
    } else {
        for (name, verified) in &all {
            output::text(&stored::verification(tenant_name(name), verified))?;
        }
    }
    match damaged {
        0 => Ok(()),
        damaged => bail!(
            "{} found; restore a backup",
            output::many(damaged as u64, "damaged item")
        ),
    }
}

pub(crate) fn gc(args: &GcArgs) -> anyhow::Result<()> {
    let options = &args.options;
    let root = Root::open(&options.root)?;
    let config = Config::read(&root)?;
    let mut limits = config.retention;
    for (limit, given) in [
        (&mut limits.snapshot_days, args.snapshot_days),
        (
            &mut limits.snapshots_per_session,
            args.snapshots_per_session,
        ),
        (&mut limits.memory_days, args.memory_days),
        (&mut limits.task_days, args.task_days),
        (&mut limits.log_days, args.log_days),
    ] {
        *limit = given.unwrap_or(*limit);
    }
    let now = options.now.unwrap_or_else(Timestamp::now);
    let retention = limits.at(now);
    let stores = store::tenants(options, false, MAKER)?;
    let mut all = Vec::new();
    for name in stores.tenant_names().map_err(Error::from)? {
        let store = stores.tenant(&name);
        let collected = store.collect(&retention, args.dry_run);
        let mut collected = collected.map_err(Error::from)?;
        if let Some(before) = limits.logs_before(now)
            && let Some(files) = session_files::tenant_root(&root, &config, &name)
        {
            let lines = session_files::delete_lines_before(&files, before, args.dry_run);
            let lines = (lines > 0).then(|| ("log_lines".to_owned(), lines));
            collected.deleted.extend(lines);
        }
        all.push((name, collected));
    }
    if options.json {
        let json: Vec<_> = all
            .iter()
            .map(|(name, deleted)| json!({"tenant": tenant_name(name), "collected": deleted}))
            .collect();
        return output::text(&format!("{:#}\n", json!(json)));
    }
    let done = match args.dry_run {
        true => "would delete",
        false => "deleted",
    };
    for (name, deleted) in &all {
        // A dry run does not compute what was derived from the records.
        let derived = match args.dry_run && deleted.deleted.contains_key("records") {
            true => ", and the entities and relations that were derived only from them",
            false => "",
        };
        output::text(&format!(
            "{}: {done} {}{derived}\n",
            tenant_name(name),
            stored::counted(deleted)
        ))?;
    }
    Ok(())
}

/// Prints a notice if text that was to be deleted is still in the files.
pub(crate) fn report_pending(is_pending: bool) {
    if is_pending {
        output::say(
            "the deleted text is still in the store's files, because another process reads them \
             or the disk is full; it is removed when the store is used next",
        );
    }
}

pub(crate) fn tenant(args: &TenantArgs) -> anyhow::Result<()> {
    let options = &args.options;
    // A tenant can have files before it has anything else.
    let makes = matches!(&args.command, TenantCommand::File { .. });
    let stores = store::tenants(options, makes, MAKER)?;
    match &args.command {
        TenantCommand::List => list(&*stores, options),
        TenantCommand::Usage { name } => {
            let name = &named(&*stores, Some(name))?[0];
            let usage = stores.tenant(name).usage().map_err(Error::from)?;
            show(options, &usage, &stored::usage(&usage))
        }
        TenantCommand::Export { name, archive } => {
            crate::archive::write(&*stores, archive, Some(name), options)
        }
        TenantCommand::File { command } => crate::stored_files::run(&*stores, command, options),
        TenantCommand::Delete { name, yes } => {
            let known = &named(&*stores, Some(name))?[0];
            if !yes {
                let message = format!(
                    "this deletes all data of tenant `{name}` and revokes its keys; repeat the \
                     command with --yes"
                );
                return Err(output::Usage(message).into());
            }
            let now = options.now.unwrap_or_else(Timestamp::now);
            stores.delete_tenant(known, now).map_err(Error::from)?;
            let root = Root::open(&options.root)?;
            session_files::delete_of_tenant(&root, &Config::read(&root)?, known);
            let told = format!("deleted tenant {name} and revoked its keys");
            show(options, &json!({"deleted": name}), &told)
        }
        TenantCommand::Quota {
            name,
            max_bytes,
            max_sessions,
            max_records,
            max_nodes,
            max_requests_per_day,
            remove,
        } => {
            check_tenant(name)?;
            let tenant = tenant_of(name);
            let limits = [
                max_bytes,
                max_sessions,
                max_records,
                max_nodes,
                max_requests_per_day,
            ];
            let [bytes, sessions, records, nodes, requests] =
                limits.map(|limit| limit.unwrap_or(0));
            let set = limits
                .iter()
                .any(|limit| limit.is_some())
                .then_some(TenantQuota {
                    max_bytes: bytes,
                    max_sessions: sessions,
                    max_records: records,
                    max_nodes: nodes,
                    max_requests_per_day: requests,
                });
            let now = options.now.unwrap_or_else(Timestamp::now);
            if set.is_some() || *remove {
                let done = stores.set_quota(tenant, set.as_ref(), now);
                done.map_err(Error::from)?;
            }
            quota(&*stores, options, name)
        }
        TenantCommand::Audit { limit } => {
            let entries = stores.audit(*limit).map_err(Error::from)?;
            if options.json {
                return output::text(&format!("{:#}\n", json!(entries)));
            }
            let mut lines = table(&["TIME", "ACT", "TENANT", "SUBJECT", "ACTOR"], &[]);
            for entry in &entries {
                lines.add_row([
                    format!("{:.0}", entry.at),
                    entry.act.clone(),
                    tenant_name(&entry.tenant).to_owned(),
                    output::visible(&entry.subject),
                    entry.actor.clone().unwrap_or_else(|| "-".to_owned()),
                ]);
            }
            output::text(&plain(&lines))
        }
    }
}

/// Prints the quota that applies to a tenant.
fn quota(stores: &dyn Tenants, options: &StoreOptions, name: &str) -> anyhow::Result<()> {
    let stored = stores.quotas().map_err(Error::from)?;
    let stored = stored.into_iter().find(|(of, _)| of == tenant_of(name));
    let (quota, is_stored) = match stored {
        Some((_, quota)) => (quota, true),
        None => {
            let config = Config::read(&Root::open(&options.root)?)?;
            (config.server.quota_of(tenant_of(name)), false)
        }
    };
    let limits = [
        (quota.max_bytes, "bytes"),
        (quota.max_sessions, "sessions"),
        (quota.max_records, "memory records"),
        (quota.max_nodes, "nodes"),
        (quota.max_requests_per_day, "requests per day"),
    ];
    let limits: Vec<String> = (limits.iter())
        .filter(|(most, _)| *most > 0)
        .map(|(most, what)| format!("at most {most} {what}"))
        .collect();
    let limits = match limits.is_empty() {
        true => "no limits".to_owned(),
        false => limits.join(", "),
    };
    let source = match is_stored {
        true => "saved in the store",
        false => "from the settings",
    };
    let json = json!({"tenant": name, "quota": quota, "stored": is_stored});
    show(options, &json, &format!("{name}: {limits} ({source})"))
}

fn list(stores: &dyn Tenants, options: &StoreOptions) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for name in stores.tenant_names().map_err(Error::from)? {
        let usage = stores.tenant(&name).usage().map_err(Error::from)?;
        all.push((tenant_name(&name).to_owned(), usage));
    }
    if options.json {
        let json: Vec<_> = all
            .iter()
            .map(|(name, usage)| json!({"tenant": name, "usage": usage}))
            .collect();
        return output::text(&format!("{:#}\n", json!(json)));
    }
    let header = [
        "TENANT",
        "BYTES",
        "SESSIONS",
        "TURNS",
        "SNAPSHOTS",
        "RECORDS",
        "NODES",
    ];
    let mut lines = table(&header, &[1, 2, 3, 4, 5, 6]);
    for (name, usage) in &all {
        let numbers = [
            usage.bytes,
            usage.sessions,
            usage.turns,
            usage.snapshots,
            usage.records,
            usage.nodes,
        ];
        let cells = numbers.iter().map(u64::to_string);
        lines.add_row(std::iter::once(name.clone()).chain(cells));
    }
    output::text(&plain(&lines))
}
