//! `contexture working-set`: lists and changes the files of the manifest.
//!
//! Changes go through `contexture::working_set::actions`, which checks them
//! and edits the file under a lock.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use contexture::core::grouped;
use contexture::turn::turn_from_json;
use contexture::working_set::actions::{self, Action, ActionKind, Actor, Changed, Target};
use contexture::working_set::{
    Hints, Manifest, WorkingSet, expand, find_manifest, observe, why_absent,
};
use contexture::{Engine, Preview, Request, Root, Timestamp};
use serde_json::json;

use crate::args::{WorkingSetArgs, WorkingSetCommand, WorkingSetOptions};
use crate::{output, progress};

pub(crate) fn run(args: &WorkingSetArgs) -> anyhow::Result<()> {
    let options = &args.options;
    match &args.command {
        WorkingSetCommand::List { .. } => list(options),
        WorkingSetCommand::Why { path } => why(options, path),
        WorkingSetCommand::Apply { file, .. } => {
            let text = output::read_text(file)?;
            let actions = actions::parse(&file.display().to_string(), &text)?;
            change(options, &actions, Actor::Model)
        }
        WorkingSetCommand::Add {
            path,
            priority,
            why,
            role,
            truncate_strategy,
        } => {
            let fields = [("role", role), ("truncate_strategy", truncate_strategy)]
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)))
                .collect();
            let what = ActionKind::Add {
                priority: *priority,
                fields,
            };
            change(
                options,
                &[action(what, &from_root(options, path), why)],
                Actor::User,
            )
        }
        WorkingSetCommand::Remove { path, why } => change(
            options,
            &[action(ActionKind::Remove, &from_root(options, path), why)],
            Actor::User,
        ),
        WorkingSetCommand::Adjust {
            path,
            priority,
            why,
        } => {
            let what = ActionKind::Adjust {
                priority: *priority,
            };
            change(
                options,
                &[action(what, &from_root(options, path), why)],
                Actor::User,
            )
        }
        WorkingSetCommand::Observe { file, .. } => observe_turn(file, options),
    }
}

fn action(what: ActionKind, path: &str, why: &str) -> Action {
    Action {
        what,
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

/// Returns a path that was typed below the root as a path from the root: from
/// `src/`, `lib.rs` is `src/lib.rs`, unless the root has a `lib.rs` itself.
fn from_root(options: &WorkingSetOptions, path: &str) -> String {
    let file = without_range(path);
    let below_root = |path: &Path| {
        let root = options.root.canonicalize().ok()?;
        let below = path.strip_prefix(root).ok()?.to_str()?.to_owned();
        (!below.is_empty()).then_some(below)
    };
    if Path::new(file).is_absolute() {
        return below_root(Path::new(path)).unwrap_or_else(|| path.to_owned());
    }
    let here = || {
        let here = std::env::current_dir().ok()?;
        let below = below_root(&here.canonicalize().ok()?)?;
        here.join(file).exists().then(|| format!("{below}/{path}"))
    };
    match options.root.join(file).exists() {
        true => path.to_owned(),
        false => here().unwrap_or_else(|| path.to_owned()),
    }
}

/// Returns a path without its range of lines, such as `#L2-L9`.
fn without_range(path: &str) -> &str {
    path.rsplit_once("#L").map_or(path, |(file, _)| file)
}

fn manifest_of(root: &Root, options: &WorkingSetOptions) -> anyhow::Result<String> {
    Ok(match &options.manifest {
        Some(path) => path.clone(),
        None => find_manifest(root)?,
    })
}

fn target<'a>(
    root: &'a Root,
    manifest: &'a str,
    engine: &Engine,
    options: &'a WorkingSetOptions,
) -> Target<'a> {
    Target {
        root,
        manifest,
        session: options.session.as_deref(),
        quota: engine.config().limits.quota(),
        now: options.now.unwrap_or_else(Timestamp::now),
    }
}

fn change(options: &WorkingSetOptions, actions: &[Action], actor: Actor) -> anyhow::Result<()> {
    let root = Root::open(&options.root)?;
    root.remove_left_over();
    let engine = Engine::for_root(&root)?;
    let manifest = manifest_of(&root, options)?;
    let target = target(&root, &manifest, &engine, options);
    let warnings = actions::apply(target, actions, actor)?;
    show_changes(actions, &warnings, &manifest, options)
}

fn observe_turn(file: &Path, options: &WorkingSetOptions) -> anyhow::Result<()> {
    let turn = turn_from_json(&file.display().to_string(), &output::read_text(file)?)?;
    let root = Root::open(&options.root)?;
    root.remove_left_over();
    let engine = Engine::for_root(&root)?;
    let manifest = manifest_of(&root, options)?;
    let target = target(&root, &manifest, &engine, options);
    let (changes, warnings) = observe::observe(target, &turn, engine.config().observe)?;
    show_changes(&changes, &warnings, &manifest, options)
}

fn show_changes(
    changes: &[Action],
    warnings: &[String],
    manifest: &str,
    options: &WorkingSetOptions,
) -> anyhow::Result<()> {
    for warning in warnings {
        output::say(&format!("warning: {}", output::visible(warning)));
    }
    if options.json {
        let changed = Changed { manifest, changes };
        return output::text(&format!("{:#}\n", json!(changed)));
    }
    let mut lines = String::new();
    for change in changes {
        let path = output::visible(&change.path);
        let _ = match &change.what {
            ActionKind::Add { priority, .. } => write!(lines, "added {path} at {priority}"),
            ActionKind::Remove => write!(lines, "removed {path}"),
            ActionKind::Adjust { priority } => write!(lines, "set {path} to {priority}"),
        };
        let _ = writeln!(lines, ": {}", output::visible(&change.why));
    }
    if changes.is_empty() {
        lines.push_str("nothing to change\n");
    }
    output::text(&lines)
}

/// Prints the outcome of one file in a request, with the reason.
fn why(options: &WorkingSetOptions, path: &str) -> anyhow::Result<()> {
    let root = Root::open(&options.root)?;
    let engine = Engine::for_root(&root)?;
    let name = manifest_of(&root, options)?;
    let manifest = Manifest::read(&root, &name)?;
    let path = from_root(options, path);
    let path = path.strip_prefix("./").unwrap_or(&path);
    let file = without_range(path);
    let mut rows = Vec::new();
    if let Some((reason, advice)) = why_absent(&root, &manifest, file)? {
        rows.push((
            "absent",
            file.to_owned(),
            None,
            format!("{reason}; {advice}"),
        ));
    } else {
        let request = Request {
            manifest: options.manifest.clone(),
            now: options.now,
            ..Request::default()
        };
        let assembled = progress::with_spinner("assembling", || {
            engine.preview(&root, &request, Preview::default())
        })?;
        let report = &assembled.report;
        // A range of lines is an entry of its own. Without one, all are shown.
        let is_it = |of: &Option<Arc<str>>| {
            let of = of.as_deref().unwrap_or_default();
            of == path || path == file && without_range(of) == file
        };
        for row in report.included.iter().filter(|row| is_it(&row.path)) {
            let fate = if row.truncated { "cut" } else { "kept" };
            let tokens = Some((row.tokens, row.original_tokens));
            rows.push((fate, row.id.to_string(), tokens, row.reason.to_string()));
        }
        for row in report.excluded.iter().filter(|row| is_it(&row.path)) {
            let tokens = Some((0, row.tokens));
            rows.push(("out", row.id.to_string(), tokens, row.reason.to_string()));
        }
        if rows.is_empty() {
            let reason = match path == file {
                true => {
                    let recipe = &engine.usual_recipe(&root)?.name;
                    format!("the recipe `{recipe}` does not use the working set")
                }
                false => format!("no entry of {} has these lines", manifest.path),
            };
            rows.push(("absent", path.to_owned(), None, reason));
        }
    }
    if options.json {
        let rows: Vec<_> = (rows.iter())
            .map(|(fate, id, tokens, reason)| {
                let (used, of) = tokens.unzip();
                json!({"id": id, "fate": fate, "tokens": used, "of": of, "reason": reason})
            })
            .collect();
        return output::text(&format!("{:#}\n", json!(rows)));
    }
    let mut lines = String::new();
    for (fate, id, tokens, reason) in &rows {
        let tokens = tokens.map_or_else(String::new, |(used, of)| {
            format!(", {} of {} tokens", grouped(used), grouped(of))
        });
        let (id, reason) = (output::visible(id), output::visible(reason));
        let _ = writeln!(lines, "{id}: {fate}{tokens}: {reason}");
    }
    output::text(&lines)
}

fn list(options: &WorkingSetOptions) -> anyhow::Result<()> {
    let root = Root::open(&options.root)?;
    let engine = Engine::for_root(&root)?;
    let manifest = Manifest::read(&root, &manifest_of(&root, options)?)?;
    let hints = Hints::read(&root, manifest.dir())?;
    let mut warnings = manifest.warnings.clone();
    let candidates = expand(&root, &manifest, &mut warnings)?;
    for warning in &warnings {
        output::say(&format!("warning: {}", output::visible(warning)));
    }
    let model = engine.models().resolve(&engine.config().model);
    let counts = engine.counts(&model)?;
    let mut listed = WorkingSet::of(&root, &manifest, &hints, &candidates);
    let limits = &engine.config().limits;
    progress::with_spinner("counting", || {
        listed.count(&root, &candidates, &counts, limits.max_file_bytes);
    });
    if options.json {
        return output::text(&format!("{:#}\n", json!(listed)));
    }
    let mut lines = String::new();
    let total: u64 = listed.files.iter().filter_map(|file| file.tokens).sum();
    let budget = manifest.max_tokens.map_or_else(String::new, |max| {
        let reserved = manifest.reserved_for_response.filter(|tokens| *tokens > 0);
        let reserved = reserved.map_or_else(String::new, |tokens| {
            format!(", {} of them reserved", grouped(tokens))
        });
        format!(" of {}{reserved}", grouped(max))
    });
    let files = listed.files.iter().filter(|file| file.status == "ok");
    let _ = writeln!(
        lines,
        "{}: {}, {}, {} tokens{budget}",
        output::visible(&manifest.path),
        output::number(manifest.files.len() as u64, "entry", "entries"),
        output::many(files.count() as u64, "file"),
        grouped(total)
    );
    for file in &listed.files {
        let moved = if file.priority == file.base_priority {
            String::new()
        } else {
            format!(" (base {})", file.base_priority)
        };
        let from = if file.path == file.entry {
            String::new()
        } else {
            let entry = if file.entry.is_empty() {
                "."
            } else {
                &file.entry
            };
            format!("  from {}", output::visible(entry))
        };
        let pinned = if file.pinned { "  pinned" } else { "" };
        let state = match file.status.as_str() {
            "ok" => String::new(),
            state => format!("  ({})", output::visible(state)),
        };
        let tokens = file.tokens.map_or_else(|| "-".to_owned(), grouped);
        let _ = writeln!(
            lines,
            "{:>5}{moved}  {tokens:>9}  {:<9}  {}{from}{pinned}{state}",
            file.priority,
            file.role.name(),
            output::visible(&file.path)
        );
    }
    output::text(&lines)?;
    let (name, exact) = (counts.counter().name(), counts.counter().is_exact());
    let exact = if exact {
        "exact"
    } else {
        "estimated, biased high"
    };
    output::say(&format!("tokens: {name} for {}, {exact}", model.name));
    Ok(())
}
