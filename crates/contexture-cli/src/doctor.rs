//! `contexture doctor`: checks a project and suggests fixes.
//!
//! Each check is one [`Check`] row. Checks never stop at the first failure:
//! every row is printed, and the exit code is 2 when one of them is bad.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use contexture::config::{Config, FILE, SummariserKind, model_table};
use contexture::working_set::{Hints, Manifest, expand, find_manifest};
use contexture::{Engine, Root};
use serde_json::{Value, json};

use crate::args::DoctorArgs;
use crate::face::CommandLine;
use crate::memory;
use crate::output::{self, Usage};
use crate::store;

/// One thing that was looked at.
struct Check {
    what: &'static str,
    state: State,
    found: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Note,
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Note => "note",
            State::Bad => "bad",
        }
    }
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let root = Root::open(&args.root)?;
    let mut checks = Vec::new();
    let config = check_config(&root, &mut checks);
    check_recipe(&root, &config, &mut checks);
    check_manifest(&root, &config, &mut checks);
    check_model(&root, &config, &mut checks);
    let now = args.now.unwrap_or_else(contexture::Timestamp::now);
    check_table(&root, now, &mut checks);
    check_store(&root, &config, &mut checks);
    check_memory(&root, &config, &mut checks);
    check_summariser(&config, &mut checks);
    checks.push(Check {
        what: "huggingface",
        state: if cfg!(feature = "huggingface") {
            State::Good
        } else {
            State::Note
        },
        found: if cfg!(feature = "huggingface") {
            "tokenizer.json files can be read".to_owned()
        } else {
            "built without the feature `huggingface`; tokenizer.json files cannot be read"
                .to_owned()
        },
    });

    if args.json {
        let rows: Vec<_> = checks
            .iter()
            .map(|c| json!({"check": c.what, "state": c.state.word(), "found": c.found}))
            .collect();
        let document = json!({"checks": rows, "settings": settings(&config)});
        output::text(&format!("{document:#}\n"))?;
    } else {
        let mut lines = String::new();
        for check in &checks {
            let colour = match check.state {
                State::Good => AnsiColor::Green,
                State::Note => AnsiColor::Yellow,
                State::Bad => AnsiColor::Red,
            }
            .on_default();
            let word = check.state.word();
            let _ = writeln!(
                lines,
                "{colour}{word:<4}{colour:#} {:<12} {}",
                check.what, check.found
            );
        }
        lines.push_str("\neffective settings:\n");
        for (key, value) in settings(&config) {
            let _ = writeln!(lines, "  {key} = {value}");
        }
        output::text(&lines)?;
    }
    if checks.iter().any(|check| check.state == State::Bad) {
        return Err(
            Usage("one or more checks failed; see the lines marked `bad`".to_owned()).into(),
        );
    }
    Ok(())
}

fn told(error: &contexture::Error) -> String {
    match error.hint(&CommandLine) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

fn check_config(root: &Root, checks: &mut Vec<Check>) -> Config {
    let (state, found, config) = match Config::read(root) {
        Ok(config) if root.exists(FILE) => (State::Good, format!("{FILE} is valid"), config),
        Ok(config) => (
            State::Good,
            format!("no {FILE}; using the defaults"),
            config,
        ),
        Err(error) => (State::Bad, told(&error), Config::default()),
    };
    checks.push(Check {
        what: "settings",
        state,
        found,
    });
    config
}

fn check_recipe(root: &Root, config: &Config, checks: &mut Vec<Check>) {
    let recipe = Engine::new(config.clone(), root).and_then(|engine| engine.usual_recipe(root));
    let (state, found) = match recipe {
        Ok(recipe) => (
            State::Good,
            format!("`{}`: {}", recipe.name, recipe.description),
        ),
        Err(error) => (State::Bad, told(&error)),
    };
    checks.push(Check {
        what: "recipe",
        state,
        found,
    });
}

fn check_manifest(root: &Root, config: &Config, checks: &mut Vec<Check>) {
    let mut add = |state, found: String| {
        checks.push(Check {
            what: "manifest",
            state,
            found,
        });
    };
    let path = match find_manifest(root) {
        Ok(path) => path,
        Err(error) => return add(State::Note, told(&error)),
    };
    let manifest = match Manifest::read(root, &path) {
        Ok(manifest) => manifest,
        Err(error) => return add(State::Bad, told(&error)),
    };
    for warning in &manifest.warnings {
        add(State::Note, warning.clone());
    }
    if let Err(error) = Hints::read(root, manifest.dir()) {
        add(State::Bad, told(&error));
    }
    let mut warnings = Vec::new();
    match expand(root, &manifest, &mut warnings) {
        Err(error) => add(State::Bad, told(&error)),
        Ok(candidates) => {
            add(
                State::Good,
                format!(
                    "{path}: {} entries, {} files",
                    manifest.files.len(),
                    candidates.iter().filter(|c| c.size(root).is_ok()).count()
                ),
            );
            for candidate in &candidates {
                let line = candidate.entry.line;
                let name = &candidate.id;
                let limit = config.limits.max_file_bytes;
                let problem = match candidate.size(root) {
                    Err(unusable) => unusable.reason,
                    Ok(bytes) if bytes > limit => {
                        format!("is {bytes} bytes; the limit is {limit} (limits.max_file_bytes)")
                    }
                    Ok(_) => continue,
                };
                add(State::Note, format!("{path}:{line}: `{name}`: {problem}"));
            }
        }
    }
    for warning in warnings {
        add(State::Note, warning);
    }
}

fn check_model(root: &Root, config: &Config, checks: &mut Vec<Check>) {
    let counted = Engine::new(config.clone(), root).and_then(|engine| {
        let model = engine.models().resolve(&config.model);
        let counts = engine.counts(&model)?;
        let tokens = counts
            .counter()
            .count("The quick brown fox jumps over the lazy dog.");
        let exact = if counts.counter().is_exact() {
            "exact"
        } else {
            "an estimate"
        };
        let name = counts.counter().name().to_owned();
        Ok((model, name, exact, tokens))
    });
    let (state, found) = match counted {
        Err(error) => (State::Bad, told(&error)),
        Ok((model, name, exact, tokens)) => (
            if model.known {
                State::Good
            } else {
                State::Note
            },
            format!(
                "`{}`: window {}, {name} ({exact}), provider {}; a sample of 44 letters has \
                 {tokens} tokens",
                model.name,
                model.window,
                model.provider.name()
            ),
        ),
    };
    checks.push(Check {
        what: "model",
        state,
        found,
    });
}

/// Checks the model table, and how old it is.
fn check_table(root: &Root, now: contexture::Timestamp, checks: &mut Vec<Check>) {
    /// Months in which new models come out and prices change.
    const OLD_DAYS: i64 = 90;
    let (table, warning) = model_table(root.path());
    let models = output::many(table.rows().count() as u64, "model");
    let found = format!("{models} of {}, from {}", table.date(), table.source());
    let day = format!("{}T00:00:00Z", table.date());
    let age = day.parse::<contexture::Timestamp>().ok().map(|day| {
        let seconds = now.as_second() - day.as_second();
        seconds / (24 * 60 * 60)
    });
    let (state, found) = match (warning, age) {
        (Some(warning), _) => (State::Bad, warning.phrase(&CommandLine)),
        (None, Some(days)) if days > OLD_DAYS => (
            State::Note,
            format!(
                "{found}: {days} days old; run `contexture models update FILE` with a newer list"
            ),
        ),
        (None, _) => (State::Good, found),
    };
    checks.push(Check {
        what: "models",
        state,
        found,
    });
}

fn check_store(root: &Root, config: &Config, checks: &mut Vec<Check>) {
    let mut add = |state, found: String| {
        let what = "store";
        checks.push(Check { what, state, found });
    };
    let place = match store::find(root, config, None) {
        Ok(place) => place,
        Err(error) => return add(State::Bad, error.to_string()),
    };
    let path = place.path().display().to_string();
    if !place.exists() {
        return add(
            State::Good,
            format!("{path} does not exist yet; it is created with the first record"),
        );
    }
    let looked = place.open_tenants().and_then(|tenants| {
        let keys = tenants.keys()?;
        let valid = keys.iter().filter(|key| key.revoked_at.is_none()).count();
        let store = tenants.tenant("");
        let sessions = store.sessions(None, 1000)?.len();
        let trees = store::trees(&*store)?.len();
        let latest = store.snapshots(None, 1)?.first().map(|one| one.created_at);
        Ok((sessions, trees, valid, latest))
    });
    match looked {
        Err(error) => add(State::Bad, told(&error)),
        Ok((sessions, trees, keys, latest)) => {
            let keys = match keys {
                // Only who has a server needs any.
                0 => String::new(),
                keys => format!(", {}", output::many(keys as u64, "key")),
            };
            let sessions = output::many(sessions as u64, "session");
            let trees = output::many(trees as u64, "tree");
            let latest = latest.map_or_else(String::new, |at| format!(", latest request {at:.0}"));
            add(
                State::Good,
                format!("{path}: {sessions}, {trees}{keys}{latest}"),
            );
        }
    }
}

fn check_memory(root: &Root, config: &Config, checks: &mut Vec<Check>) {
    let mut add = |state, found: String| {
        let what = "memory";
        checks.push(Check { what, state, found });
    };
    // What is wrong with the store was said of the store.
    let store = store::find(root, config, None).ok();
    let store = store.filter(store::StoreLocation::exists);
    let store = store.and_then(|place| place.open().ok());
    let looked = Engine::new(config.clone(), root).and_then(|engine| {
        engine.archetypes()?.get(&config.memory.archetype)?;
        let Some(store) = store else {
            return Ok((Vec::new(), None, engine.embedder()?));
        };
        let engine = engine.with_store(store);
        let memory = engine.memory()?;
        let stats = memory.stats()?;
        let counts = stats.kinds.iter().filter(|(_, of_kind)| of_kind.live > 0);
        let counts = counts.map(|(kind, of_kind)| memory::many_of(of_kind.live, *kind));
        let used = memory::embedder_in_use(&engine)?;
        Ok((counts.collect(), used, memory.embedder()?))
    });
    let archetype = &config.memory.archetype;
    match looked {
        Err(error) => add(State::Bad, told(&error)),
        Ok((counts, used, embedder)) => {
            let (name, dimensions) = (embedder.name(), embedder.dimensions());
            let counts = match counts.is_empty() {
                true => "no records".to_owned(),
                false => counts.join(", "),
            };
            add(
                State::Good,
                format!(
                    "{counts}; archetype {archetype}; vectors of {name} ({dimensions} dimensions)"
                ),
            );
            if let Some((used, _)) = used.filter(|(used, _)| used != name) {
                let found = format!(
                    "the stored vectors are of {used}; run `contexture memory reembed` to \
                     compute them again, or set [memory.embedder] to {used}"
                );
                add(State::Bad, found);
            }
        }
    }
}

fn check_summariser(config: &Config, checks: &mut Vec<Check>) {
    let summariser = &config.summariser;
    let (state, found) = if summariser.kind == SummariserKind::Extractive {
        (State::Good, "extractive (no network needed)".to_owned())
    } else {
        let model = summariser.model.as_deref().unwrap_or_default();
        match &summariser.api_key_env {
            Some(name) if std::env::var_os(name).is_none() => (
                State::Note,
                format!("`{model}`: {name} is not set; using the extractive summariser instead"),
            ),
            Some(name) => (State::Good, format!("`{model}` with the key in {name}")),
            None => (State::Good, format!("`{model}` without a key")),
        }
    };
    checks.push(Check {
        what: "summariser",
        state,
        found,
    });
}

/// Returns the effective settings, by their names in the file.
fn settings(config: &Config) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let value = serde_json::to_value(config).unwrap_or_default();
    flatten("", &value, &mut settings);
    settings
}

fn flatten(path: &str, value: &Value, settings: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                flatten(&path, value, settings);
            }
        }
        Value::Null => settings.push((path.to_owned(), "(not set)".to_owned())),
        value => settings.push((path.to_owned(), value.to_string())),
    }
}
