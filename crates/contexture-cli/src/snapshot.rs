//! `contexture snapshot`: lists, prints, compares and verifies saved requests.
//!
//! `diff --min-shared` is the check for CI: it exits with 1 when less of a
//! request is shared with an earlier one, which is what prompt caches depend
//! on.

use contexture::core::grouped;
use contexture::snapshot::{self, Saved};
use contexture::{Engine, Error, Format};
use contexture_terminal::snapshot::comparison;
use contexture_terminal::{plain, stored, table};
use serde_json::json;

use crate::args::{SnapshotArgs, SnapshotCommand, StoreOptions};
use crate::{output, session, store, upkeep};

pub(crate) fn run(args: &SnapshotArgs) -> anyhow::Result<()> {
    let engine = store::engine(&args.options, false)?;
    let json = args.options.json;
    match &args.command {
        SnapshotCommand::List { session, limit } => list(&engine, session.as_deref(), *limit, json),
        SnapshotCommand::Show { hash, format } => {
            let saved = load(&engine, hash)?;
            if json || *format == Format::Json {
                return output::text(&format!("{:#}\n", saved.to_json()));
            }
            output::bytes(saved.render(engine.store()?, *format)?.as_bytes())
        }
        SnapshotCommand::Diff { a, b, min_shared } => diff(&engine, a, b, *min_shared, json),
        SnapshotCommand::Check { hash } => check(&engine, hash.as_deref(), json),
        SnapshotCommand::Delete { hash, yes } => delete(&engine, &args.options, hash, *yes),
    }
}

fn delete(engine: &Engine, options: &StoreOptions, hash: &str, yes: bool) -> anyhow::Result<()> {
    let store = engine.store()?;
    let found = snapshot::find(store, hash)?;
    let name = found.hash.to_string()[..12].to_owned();
    let session = output::visible(&found.session);
    let question = format!("Delete request {name} of session {session}?");
    if !upkeep::confirm(yes, &question)? {
        return Ok(());
    }
    let deleted = store.delete_snapshot(found.hash).map_err(Error::from)?;
    let counted = stored::counted(&deleted);
    session::show(
        options,
        &deleted,
        &format!("deleted request {name}: {counted}"),
    )?;
    upkeep::report_pending(deleted.pending);
    Ok(())
}

fn load(engine: &Engine, prefix: &str) -> anyhow::Result<Saved> {
    let store = engine.store()?;
    Ok(Saved::load(store, &snapshot::find(store, prefix)?)?)
}

fn list(engine: &Engine, session: Option<&str>, limit: usize, json: bool) -> anyhow::Result<()> {
    let store = engine.store()?;
    let found = store.snapshots(session, limit).map_err(Error::from)?;
    if json {
        return output::text(&format!("{:#}\n", json!(found)));
    }
    if found.is_empty() {
        return output::text("no snapshots\n");
    }
    let header = [
        "hash",
        "session",
        "created",
        "model",
        "tokens",
        "turn before",
    ];
    let mut table = table(&header, &[4]);
    for one in &found {
        table.add_row([
            one.hash.to_string()[..12].to_owned(),
            output::visible(&one.session),
            format!("{:.0}", one.created_at),
            output::visible(&one.model),
            grouped(one.tokens),
            one.parent_turn
                .map_or_else(String::new, |turn| turn.short()),
        ]);
    }
    output::text(&plain(&table))
}

fn diff(
    engine: &Engine,
    a: &str,
    b: &str,
    min_shared: Option<f64>,
    json: bool,
) -> anyhow::Result<()> {
    let compared = engine.compare(a, b)?;
    let shared = &compared.cache;
    if json {
        output::text(&format!("{:#}\n", json!(compared)))?;
    } else {
        output::text(&comparison(&compared))?;
    }
    match min_shared {
        Some(least) if shared.shared_fraction * 100.0 < least => Err(anyhow::anyhow!(
            "{:.1} % of the later request are shared, less than {least} %",
            shared.shared_fraction * 100.0
        )),
        _ => Ok(()),
    }
}

fn check(engine: &Engine, prefix: Option<&str>, json: bool) -> anyhow::Result<()> {
    let store = engine.store()?;
    let found = match prefix {
        Some(prefix) => vec![snapshot::find(store, prefix)?],
        None => store
            .snapshots(None, usize::MAX >> 1)
            .map_err(Error::from)?,
    };
    let mut blocks = 0;
    for one in &found {
        blocks += Saved::load(store, one)?.check(store)?;
    }
    if json {
        return output::text(&format!(
            "{:#}\n",
            json!({"checked": found.len(), "blocks": blocks})
        ));
    }
    output::text(&format!(
        "verified {} with {}: all render to the same bytes\n",
        output::many(found.len() as u64, "request"),
        output::many(blocks as u64, "block")
    ))
}
