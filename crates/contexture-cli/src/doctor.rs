//! `contexture doctor`: checks a project and suggests fixes.
//!
//! Each check is one [`Check`] row. Checks never stop at the first failure:
//! every row is printed, and the exit code is 2 when one of them is bad.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::AnsiColor;
use contexture::config::{Config, FILE, SummariserKind, line_of, model_table};
use contexture::core::grouped;
use contexture::trust::{self, Settings, TrustFile};
use contexture::working_set::{Hints, Manifest, expand, find_manifest};
use contexture::{Engine, Root, masked};
use contexture_terminal::{CommandLine, stored};
use serde_json::json;

use crate::args::DoctorArgs;
use crate::memory;
use crate::output::{self, Usage};
use crate::store;

/// The result of one check.
struct Check {
    what: &'static str,
    state: State,
    found: String,
}

/// The worst is last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    let db = args.db.as_deref();
    check_store(&root, &config, db, &mut checks);
    check_memory(&root, &config, db, &mut checks);
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
        let sources = Sources::of(&root);
        let mut settings = config.entries();
        for (_, value) in &mut settings {
            *value = masked(value);
        }
        let from: BTreeMap<&str, String> = (settings.iter())
            .map(|(key, _)| (key.as_str(), sources.of_setting(key)))
            .filter(|(_, from)| from != DEFAULT)
            .collect();
        let document = json!({"checks": rows, "settings": settings, "set_by": from});
        output::text(&format!("{document:#}\n"))?;
    } else {
        let mut lines = String::new();
        if args.all {
            lines.push_str(&settings_table(&root, &config));
        }
        // Checks that need attention come last, where a reader of a terminal
        // looks.
        checks.sort_by_key(|check| check.state);
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
                check.what,
                output::visible(&check.found)
            );
        }
        let many = |state: State, thing: &str| {
            let number = checks.iter().filter(|check| check.state == state).count();
            output::many(number as u64, thing)
        };
        let _ = writeln!(
            lines,
            "\n{}: {}, {}",
            output::many(checks.len() as u64, "check"),
            many(State::Bad, "problem"),
            many(State::Note, "note")
        );
        output::text(&lines)?;
    }
    if checks.iter().any(|check| check.state == State::Bad) {
        return Err(
            Usage("one or more checks failed; see the lines marked `bad`".to_owned()).into(),
        );
    }
    Ok(())
}

fn describe(error: &contexture::Error) -> String {
    match error.hint(&CommandLine) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

fn check_config(root: &Root, checks: &mut Vec<Check>) -> Config {
    let mut add = |what, state, found| checks.push(Check { what, state, found });
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let read = Settings::read(root, &TrustFile::of_user()).and_then(|mut settings| {
        settings.config.server = settings.config.server.with_environment(variables)?;
        Ok(settings)
    });
    let settings = match read {
        Ok(settings) => settings,
        Err(error) => {
            add("settings", State::Bad, describe(&error));
            return Config::default();
        }
    };
    let found = match root.exists(FILE) {
        true => format!("{FILE} is valid"),
        false => format!("no {FILE}; using the defaults"),
    };
    add("settings", State::Good, found);
    if let Some(warning) = settings.warning() {
        let found = output::visible(&warning.phrase(&CommandLine));
        add("trust", State::Note, found);
    } else if !settings.active.is_empty() {
        let names = trust::names(&settings.active);
        let are = match settings.active.len() {
            1 => "is",
            _ => "are",
        };
        let found = format!("{FILE} is trusted: {names} {are} active");
        add("trust", State::Good, output::visible(&found));
    } else {
        let found = "no setting needs trust".to_owned();
        add("trust", State::Good, found);
    }
    settings.config
}

fn check_recipe(root: &Root, config: &Config, checks: &mut Vec<Check>) {
    let recipe = Engine::new(config.clone(), root).and_then(|engine| engine.usual_recipe(root));
    let (state, found) = match recipe {
        Ok(recipe) => match recipe.masking_warning() {
            Some(warning) => (State::Note, warning.phrase(&CommandLine)),
            None => (
                State::Good,
                format!("`{}`: {}", recipe.name, recipe.description),
            ),
        },
        Err(error) => (State::Bad, describe(&error)),
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
            what: "working set",
            state,
            found,
        });
    };
    let path = match find_manifest(root) {
        Ok(path) => path,
        Err(error) => return add(State::Note, describe(&error)),
    };
    let manifest = match Manifest::read(root, &path) {
        Ok(manifest) => manifest,
        Err(error) => return add(State::Bad, describe(&error)),
    };
    for warning in &manifest.warnings {
        add(State::Note, warning.clone());
    }
    if let Err(error) = Hints::read(root, manifest.dir()) {
        add(State::Bad, describe(&error));
    }
    let mut warnings = Vec::new();
    match expand(root, &manifest, &mut warnings) {
        Err(error) => add(State::Bad, describe(&error)),
        Ok(candidates) => {
            add(
                State::Good,
                format!(
                    "{path}: {}, {}",
                    output::number(manifest.files.len() as u64, "entry", "entries"),
                    output::many(
                        candidates.iter().filter(|c| c.size(root).is_ok()).count() as u64,
                        "file"
                    )
                ),
            );
            for candidate in &candidates {
                let line = candidate.entry.line;
                let name = &candidate.id;
                let limit = config.limits.max_file_bytes;
                let problem = match candidate.size(root) {
                    Err(unusable) => unusable.reason,
                    Ok(bytes) if bytes > limit => {
                        format!(
                            "is {} bytes; the limit is {} (limits.max_file_bytes)",
                            grouped(bytes),
                            grouped(limit)
                        )
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
        Err(error) => (State::Bad, describe(&error)),
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
                grouped(model.window),
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

fn check_store(root: &Root, config: &Config, db: Option<&str>, checks: &mut Vec<Check>) {
    let mut add = |state, found: String| {
        let what = "store";
        checks.push(Check { what, state, found });
    };
    let place = match store::find(root, config, db) {
        Ok(place) => place,
        Err(error) => return add(State::Bad, error.to_string()),
    };
    let path = place.address();
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
        Err(error) => add(State::Bad, describe(&error)),
        Ok((sessions, trees, keys, latest)) => {
            let keys = match keys {
                // Only a server needs keys.
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

fn check_memory(root: &Root, config: &Config, db: Option<&str>, checks: &mut Vec<Check>) {
    let mut add = |state, found: String| {
        let what = "memory";
        checks.push(Check { what, state, found });
    };
    // Problems of the store were reported by its own check.
    let store = store::find(root, config, db).ok();
    let store = store.filter(store::StoreLocation::exists);
    let store = store.and_then(|place| place.open().ok());
    let looked = Engine::new(config.clone(), root).and_then(|engine| {
        engine.archetypes()?.get(&config.memory.archetype)?;
        let Some(store) = store else {
            return Ok((Vec::new(), None, engine.embedder()?, engine.encoder()?));
        };
        let engine = engine.with_store(store);
        let memory = engine.memory()?;
        let stats = memory.stats()?;
        let counts = stats.kinds.iter().filter(|(_, of_kind)| of_kind.live > 0);
        let counts = counts.map(|(kind, of_kind)| stored::many_of(of_kind.live, *kind));
        let used = memory::embedder_in_use(&engine)?;
        Ok((
            counts.collect(),
            used,
            memory.embedder()?,
            engine.encoder()?,
        ))
    });
    let archetype = &config.memory.archetype;
    match looked {
        Err(error) => add(State::Bad, describe(&error)),
        Ok((counts, used, embedder, encoder)) => {
            let name = embedder.name();
            // The encoder's vectors come after those, and rank.
            let ranks = encoder.as_ref().unwrap_or(&embedder);
            let (ranks, dimensions) = (ranks.name(), ranks.dimensions());
            let counts = match counts.is_empty() {
                true => "no records".to_owned(),
                false => counts.join(", "),
            };
            add(
                State::Good,
                format!(
                    "{counts}; archetype {archetype}; vectors of {ranks} ({dimensions} dimensions)"
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

/// The source of a setting that is not set.
const DEFAULT: &str = "default";

/// Returns every setting with its value and where the value comes from.
fn settings_table(root: &Root, config: &Config) -> String {
    let sources = Sources::of(root);
    let mut lines = String::from("settings:\n");
    for (key, value) in config.entries() {
        let from = sources.of_setting(&key);
        let (key, value) = (output::visible(&key), output::visible(&masked(&value)));
        let _ = writeln!(lines, "  {key} = {value}  ({from})");
    }
    lines.push('\n');
    lines
}

/// The places where settings are set: in the file, by line, and in the
/// environment.
struct Sources {
    // The text of the file.
    text: String,
}

impl Sources {
    fn of(root: &Root) -> Self {
        let text = match root.is_absent(FILE) {
            true => String::new(),
            false => root.read_required(FILE).unwrap_or_default(),
        };
        Self { text }
    }

    fn of_setting(&self, key: &str) -> String {
        if let Some(name) = key.strip_prefix("server.") {
            let variable = format!("CONTEXTURE_SERVER_{}", name.to_ascii_uppercase());
            if std::env::var_os(&variable).is_some() {
                return format!("environment, {variable}");
            }
        }
        match line_of(&self.text, key) {
            Some(line) => format!("{FILE}:{line}"),
            None => DEFAULT.to_owned(),
        }
    }
}
