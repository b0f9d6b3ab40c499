//! `contexture memory`: records, recalls, shows and deletes records.

mod housekeeping;
mod record;

use std::path::Path;
use std::time::Duration;

use contexture::Engine;
use contexture::memory::{ContextRequest, FillIn, Recall, VectorProgress};
use contexture_terminal::recall;
use serde_json::json;

pub(crate) use self::housekeeping::embedder_in_use;

use crate::args::{MemoryArgs, MemoryCommand, RecallArgs, RecallFormat, StoreOptions};
use crate::output;
use crate::progress;
use crate::store;

pub(crate) fn run(args: &MemoryArgs) -> anyhow::Result<()> {
    let options = &args.options;
    match &args.command {
        MemoryCommand::Record(args) => record::run(args, options),
        MemoryCommand::Recall(args) => recall(args, options),
        MemoryCommand::Stats => housekeeping::stats(options),
        MemoryCommand::List(args) => housekeeping::list(args, options),
        MemoryCommand::Show { id } => housekeeping::show_record(id, options),
        MemoryCommand::Export => housekeeping::export(options),
        MemoryCommand::Forget(args) => housekeeping::forget(args, options),
        MemoryCommand::Reembed => housekeeping::reembed(options),
    }
}

/// Returns an engine with the store that the options name.
fn engine(options: &StoreOptions, make: bool) -> anyhow::Result<Engine> {
    store::engine_with(options, make, "contexture memory record FILE")
}

/// The time that a recall spends on missing vectors of the encoder after its
/// answer. The next command of a script waits for it.
const FILLED_IN_AFTER_RECALL: Duration = Duration::from_millis(200);

/// The same for recording.
const FILLED_IN_AFTER_RECORD: Duration = Duration::from_millis(500);

/// Computes missing vectors of the encoder for a short time, after the answer
/// was printed, and reports the progress if some are still missing.
///
/// A store that cannot be written to is not changed.
fn fill_in(engine: &Engine, time: Duration) -> anyhow::Result<()> {
    let memory = engine.memory()?;
    let limits = FillIn {
        time: Some(time),
        ..FillIn::ALL
    };
    if memory.fill_in(limits, &mut |_| {}).is_ok()
        && let Some((lacking @ 1.., all)) = memory.lacking()?
    {
        let current = all - lacking;
        let percent = VectorProgress {
            current,
            texts: all,
        }
        .percent();
        output::say(&format!(
            "vectors: {percent} % current; compute the rest with `contexture memory reembed`"
        ));
    }
    Ok(())
}

fn recall(args: &RecallArgs, options: &StoreOptions) -> anyhow::Result<()> {
    let done = recall_and_print(args, options)?;
    fill_in(&done, FILLED_IN_AFTER_RECALL)?;
    // Without the file, the next command builds the index again.
    let _ = done.memory()?.save_index();
    Ok(())
}

/// Recalls, prints the result, and returns the engine.
fn recall_and_print(args: &RecallArgs, options: &StoreOptions) -> anyhow::Result<Engine> {
    let query = match args.query.as_str() {
        "-" => output::read_text(Path::new("-"))?,
        query => query.to_owned(),
    };
    let request = ContextRequest {
        query,
        session_id: args.session.clone(),
        max_tokens: args.max_tokens,
        archetype: args.strategy.clone(),
        filters: args.filters.clone().unwrap_or_default(),
        timezone: args.timezone.clone(),
        ..ContextRequest::default()
    };
    let engine = engine(options, false)?;
    let how = Recall {
        model: args.model.as_deref(),
        now: options.now,
        identity: &args.identity,
        permissions: Some(&engine.config().permissions),
        ..Recall::default()
    };
    let memory = engine.memory()?;
    let recalled = progress::with_spinner("remembering", || memory.recall(&request, &how))?;
    let context = &recalled.context;
    match (args.format, options.json) {
        (RecallFormat::Text, false) => output::bytes(context.content.as_bytes())?,
        _ => output::bytes(format!("{:#}\n", json!(context)).as_bytes())?,
    }
    let model = args.model.as_deref().unwrap_or(&engine.config().model);
    let model = engine.models().resolve(model);
    let counts = engine.counts(&model)?;
    if args.explain {
        let counted = recall::Counted {
            model: &model.name,
            tokenizer: counts.counter().name(),
            exact: counts.counter().is_exact(),
            budget: args.max_tokens,
            strategy: match &args.strategy {
                Some(strategy) => strategy,
                None => &engine.config().memory.archetype,
            },
        };
        output::say(&recall::table(&recalled, &counted));
        return Ok(engine);
    }
    if args.model.is_none() {
        output::say(&format!(
            "using model {} (tokenizer {}); set another with --model",
            model.name,
            counts.counter().name()
        ));
    }
    if context.components.is_empty() {
        output::say(match (memory.is_empty()?, context.excluded.is_empty()) {
            (true, _) => "memory is empty; record something with `contexture memory record FILE`",
            (false, true) => "no record matches the query",
            (false, false) => {
                "the records found do not fit the budget; raise --max-tokens, or \
                               see --explain"
            }
        });
    }
    for warning in &context.metadata.warnings {
        output::warn(warning);
    }
    Ok(engine)
}
