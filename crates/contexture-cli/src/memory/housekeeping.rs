//! `memory stats`, `list`, `show`, `export`, `forget` and `reembed`.

use std::io::Write as _;
use std::path::Path;

use contexture::core::grouped;
use contexture::memory::Memory;
use contexture::store::{EmbedderInfo, Forget, Record, RecordKind, RecordList};
use contexture::{Engine, Error, Shown as _};
use contexture_terminal::stored;
use serde_json::json;

use super::engine;
use super::record::source_of;
use crate::args::{ForgetArgs, ListArgs, StoreOptions};
use crate::output;
use crate::progress::Meter;
use crate::session::{plain, show, table};
use crate::upkeep;

pub(super) fn stats(options: &StoreOptions) -> anyhow::Result<()> {
    let engine = engine(options, false)?;
    let stats = engine.memory()?.overview()?;
    if options.json {
        return output::text(&format!("{:#}\n", json!(stats)));
    }
    let mut table = table(&["kind", "valid", "ended", "archived"], &[1, 2, 3]);
    for kind in RecordKind::ALL {
        let of_kind = stats.kinds.get(&kind).copied().unwrap_or_default();
        table.add_row([
            kind.name().to_owned(),
            grouped(of_kind.hold),
            grouped(of_kind.all.ended),
            grouped(of_kind.all.archived),
        ]);
    }
    let mut out = plain(&table);
    out.push_str(&format!(
        "\n{}, {}, {} bytes\n",
        output::many(stats.sessions, "session"),
        output::many(stats.sources, "source"),
        grouped(stats.bytes)
    ));
    let described = |embedder: &EmbedderInfo| {
        let name = output::visible(&embedder.name);
        format!("vectors of {name} ({} dimensions)", embedder.dimensions)
    };
    match (&stats.embedder, &stats.encoder) {
        (None, _) => out.push_str("no vectors yet\n"),
        (Some(embedder), None) => out.push_str(&format!("{}\n", described(embedder))),
        (Some(embedder), Some(encoder)) => {
            let percent = encoder.progress.percent();
            let encoder_is = described(&encoder.embedder);
            out.push_str(&format!("{encoder_is}: {percent} % current\n"));
            if !encoder.ranks {
                let first = described(embedder);
                out.push_str(&format!("until 95 % are current, recall uses {first}\n"));
            }
        }
    }
    if stats.unembedded > 0 {
        out.push_str(&format!(
            "{} without a vector, searched by words only; compute the vectors with `contexture \
             memory reembed`\n",
            output::many(stats.unembedded, "text")
        ));
    }
    output::text(&out)
}

/// Returns the name and the dimensions of the embedder that made the existing
/// vectors. Returns `None` if there are none.
pub(crate) fn embedder_in_use(engine: &Engine) -> Result<Option<(String, u32)>, Error> {
    let state = engine.store()?.memory_state()?;
    let embedder = state.analysis.and_then(|analysis| analysis.embedder);
    Ok(embedder.map(|embedder| (embedder.name, embedder.dimensions)))
}

pub(super) fn list(args: &ListArgs, options: &StoreOptions) -> anyhow::Result<()> {
    let what = RecordList {
        kind: args.kind.map(Into::into),
        user: args.user.clone(),
        agent: args.agent.clone(),
        session: args.session.clone(),
        task: args.task.clone(),
        source: args.source.clone(),
        extracted: args.extracted,
    };
    let engine = engine(options, false)?;
    let memory = engine.memory()?;
    let page = memory.list(&what, args.after.as_deref(), usize::from(args.limit))?;
    if options.json {
        return output::text(&format!("{:#}\n", json!(page)));
    }
    let lines = page
        .records
        .iter()
        .map(|record| format!("{}\n", json!(record)));
    output::text(&lines.collect::<String>())?;
    if page.records.is_empty() {
        output::say(match memory.is_empty()? {
            true => "memory is empty; record something with `contexture memory record FILE`",
            false if args.extracted => "no record matches",
            false => "no record matches; --extracted also lists what was extracted from texts",
        });
    }
    if let Some(next) = &page.next {
        output::say(&format!(
            "there are more records; print them with --after {next}"
        ));
    }
    Ok(())
}

pub(super) fn show_record(id: &str, options: &StoreOptions) -> anyhow::Result<()> {
    let engine = engine(options, false)?;
    let mut records = engine.memory()?.named(id)?;
    let store = engine.store()?;
    for stack in store.task_stacks().map_err(Error::from)? {
        let tasks = store.tasks(&stack).map_err(Error::from)?.shown();
        let named = tasks.into_iter().filter(|task| task.id == id);
        records.extend(named.map(Record::Task));
    }
    if records.is_empty() {
        let none = format!(
            "no record `{id}`; find ids with `contexture memory recall QUERY --explain`, or \
             print all records with `contexture memory export`"
        );
        return Err(output::Usage(none).into());
    }
    if options.json {
        return output::text(&format!("{:#}\n", json!(records)));
    }
    let described: Vec<String> = records.iter().map(stored::record).collect();
    output::text(&described.join("\n"))
}

pub(super) fn export(options: &StoreOptions) -> anyhow::Result<()> {
    let engine = engine(options, false)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut failed = None;
    let done = engine.memory()?.export(&mut |record| {
        let written = serde_json::to_writer(&mut out, record)
            .map_err(std::io::Error::from)
            .and_then(|()| out.write_all(b"\n"));
        written.map_err(|error| {
            let told = Error::input("cannot write to standard output");
            failed = Some(error);
            told
        })
    });
    if let Some(error) = failed {
        return Err(anyhow::Error::new(error).context("cannot write to standard output"));
    }
    done?;
    out.flush()
        .map_err(|error| anyhow::Error::new(error).context("cannot write to standard output"))
}

pub(super) fn forget(args: &ForgetArgs, options: &StoreOptions) -> anyhow::Result<()> {
    let wanted = &args.what;
    let by_id = wanted.id.clone().map(|id| Forget::Id {
        kind: args.kind.map(Into::into),
        id,
    });
    let of_source = wanted.source.clone().map(Forget::Source);
    let of_session = wanted.session.clone().map(Forget::Session);
    let of_user = wanted.user.clone().map(Forget::User);
    // The argument parser requires one of them.
    let Some(what) = by_id.or(of_source).or(of_session).or(of_user) else {
        return Ok(());
    };
    let engine = engine(options, false)?;
    let memory = engine.memory()?;
    let forgotten = memory.forget(&what).or_else(|error| match &what {
        // A path may be typed in several ways; names come first.
        Forget::Source(typed) => match source_of(Path::new(typed)) {
            source if source != *typed => {
                let known = memory.forget(&Forget::Source(source));
                known.map_err(|_| error)
            }
            _ => Err(error),
        },
        _ => Err(error),
    })?;
    let gone: Vec<String> = (forgotten.forgotten.iter())
        .map(|(kind, number)| stored::many_of(*number, *kind))
        .collect();
    show(options, &forgotten, &format!("deleted {}", gone.join(", ")))?;
    upkeep::report_pending(forgotten.pending);
    let kept = engine.store()?.snapshots(None, 1).map_err(Error::from)?;
    if !kept.is_empty() {
        output::say(
            "snapshots of earlier requests still contain the text that was sent; list them with \
             `contexture snapshot list`",
        );
    }
    Ok(())
}

pub(super) fn reembed(options: &StoreOptions) -> anyhow::Result<()> {
    let engine = engine(options, false)?;
    let memory = engine.memory()?;
    let meter = Meter::new("embedding", Some(to_embed(&engine, memory)?));
    let done = memory.reembed(&mut |embedded| meter.at(embedded))?;
    drop(meter);
    let told = match done.embedded {
        0 => format!("every text already has a vector of {}", done.embedder),
        n => format!(
            "computed the vectors of {} with {} ({} dimensions)",
            output::many(n, "text"),
            done.embedder,
            done.dimensions
        ),
    };
    show(options, &done, &output::visible(&told))
}

/// Returns the number of texts that have no vector of the configured embedder.
fn to_embed(engine: &Engine, memory: Memory<'_>) -> Result<u64, Error> {
    let stats = memory.stats()?;
    let configured = memory.embedder()?;
    let used = embedder_in_use(engine)?;
    let is_used = used.is_some_and(|(name, _)| name == configured.name());
    let live = |kind| stats.kinds.get(&kind).map_or(0, |kind| kind.live);
    Ok(match is_used {
        true => stats.unembedded,
        false => live(RecordKind::Event) + live(RecordKind::Chunk),
    } + memory.lacking()?.map_or(0, |(lacking, _)| lacking))
}
