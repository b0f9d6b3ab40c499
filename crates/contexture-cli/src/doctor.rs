use std::fmt::Write as _;

use anstyle::AnsiColor;
use contexture::config::{Config, FILE};
use contexture::working_set::{Hints, Manifest, expand, find_manifest};
use contexture::{Engine, Root};
use serde_json::json;

use crate::args::DoctorArgs;
use crate::output::{self, Usage};

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
            "built without; tokenizer.json files cannot be read".to_owned()
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
        lines.push_str("\nsettings in force:\n");
        for (key, value) in settings(&config) {
            let _ = writeln!(lines, "  {key} = {value}");
        }
        output::text(&lines)?;
    }
    if checks.iter().any(|check| check.state == State::Bad) {
        return Err(Usage("something is wrong; see the lines marked `bad`".to_owned()).into());
    }
    Ok(())
}

fn told(error: &contexture::Error) -> String {
    match error.hint_text() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

fn check_config(root: &Root, checks: &mut Vec<Check>) -> Config {
    let (state, found, config) = match Config::read(root) {
        Ok(config) if root.exists(FILE) => (State::Good, format!("{FILE} is read"), config),
        Ok(config) => (
            State::Good,
            format!("no {FILE}: defaults are taken"),
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
    let (state, found) = match config.recipe(root) {
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
                "`{}`: window {}, {name} ({exact}), provider {}; a sample of 44 letters counts {tokens}",
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

/// Returns the settings in force, by their names in the file.
fn settings(config: &Config) -> Vec<(String, String)> {
    let observe = &config.observe;
    let mut settings = vec![
        ("recipe", format!("{:?}", config.recipe)),
        ("model", format!("{:?}", config.model)),
        (
            "limits.max_file_bytes",
            config.limits.max_file_bytes.to_string(),
        ),
        ("limits.max_entries", config.limits.max_entries.to_string()),
        ("limits.max_actions", config.limits.max_actions.to_string()),
        ("secrets.mask", config.secrets.mask.to_string()),
        ("boot.output_sink", format!("{:?}", config.boot.output_sink)),
        (
            "observe.keep_tool_outputs",
            observe.keep_tool_outputs.to_string(),
        ),
        (
            "observe.untouched_turns",
            observe.untouched_turns.to_string(),
        ),
        ("observe.step", observe.step.to_string()),
        ("observe.floor", observe.floor.to_string()),
        ("observe.ceiling", observe.ceiling.to_string()),
        (
            "observe.tool_output_priority",
            observe.tool_output_priority.to_string(),
        ),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect::<Vec<_>>();
    for (name, model) in &config.models {
        settings.push((
            format!("models.{name}"),
            format!(
                "{{ window = {}, tokenizer = {:?}, provider = {:?} }}",
                model.window,
                model.tokenizer,
                model.provider.name()
            ),
        ));
    }
    settings
}
