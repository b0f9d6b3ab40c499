//! `contexture working-set`: lists and changes the files of the manifest.
//!
//! Changes go through `contexture::working_set::actions`, which checks them
//! and edits the file under a lock.

use std::fmt::Write as _;
use std::path::Path;

use contexture::core::grouped;
use contexture::turn::turn_from_json;
use contexture::working_set::actions::{self, Action, ActionKind, Actor, Changed, Target};
use contexture::working_set::{Hints, Manifest, WorkingSet, expand, find_manifest, observe};
use contexture::{Engine, Root, Timestamp};
use serde_json::json;

use crate::args::{WorkingSetArgs, WorkingSetCommand, WorkingSetOptions};
use crate::output;

pub(crate) fn run(args: &WorkingSetArgs) -> anyhow::Result<()> {
    let options = &args.options;
    match &args.command {
        WorkingSetCommand::List { root } => list(root, options),
        WorkingSetCommand::Apply { file, root } => {
            let text = output::read_text(file)?;
            let actions = actions::parse(&file.display().to_string(), &text)?;
            change(root, options, &actions, Actor::Model)
        }
        WorkingSetCommand::Add {
            path,
            priority,
            why,
            role,
            truncate_strategy,
            root,
        } => {
            let fields = [("role", role), ("truncate_strategy", truncate_strategy)]
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)))
                .collect();
            let what = ActionKind::Add {
                priority: *priority,
                fields,
            };
            change(root, options, &[action(what, path, why)], Actor::User)
        }
        WorkingSetCommand::Remove { path, why, root } => change(
            root,
            options,
            &[action(ActionKind::Remove, path, why)],
            Actor::User,
        ),
        WorkingSetCommand::Adjust {
            path,
            priority,
            why,
            root,
        } => {
            let what = ActionKind::Adjust {
                priority: *priority,
            };
            change(root, options, &[action(what, path, why)], Actor::User)
        }
        WorkingSetCommand::Observe { file, root } => observe_turn(file, root, options),
    }
}

fn action(what: ActionKind, path: &str, why: &str) -> Action {
    Action {
        what,
        path: path.to_owned(),
        why: why.to_owned(),
    }
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

fn change(
    root: &Path,
    options: &WorkingSetOptions,
    actions: &[Action],
    actor: Actor,
) -> anyhow::Result<()> {
    let root = Root::open(root)?;
    let engine = Engine::for_root(&root)?;
    let manifest = manifest_of(&root, options)?;
    let target = target(&root, &manifest, &engine, options);
    let warnings = actions::apply(target, actions, actor)?;
    show_changes(actions, &warnings, &manifest, options)
}

fn observe_turn(file: &Path, root: &Path, options: &WorkingSetOptions) -> anyhow::Result<()> {
    let turn = turn_from_json(&file.display().to_string(), &output::read_text(file)?)?;
    let root = Root::open(root)?;
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
        output::say(&format!("warning: {warning}"));
    }
    if options.json {
        let changed = Changed { manifest, changes };
        return output::text(&format!("{:#}\n", json!(changed)));
    }
    let mut lines = String::new();
    for change in changes {
        let path = &change.path;
        let _ = match &change.what {
            ActionKind::Add { priority, .. } => write!(lines, "added {path} at {priority}"),
            ActionKind::Remove => write!(lines, "removed {path}"),
            ActionKind::Adjust { priority } => write!(lines, "set {path} to {priority}"),
        };
        let _ = writeln!(lines, ": {}", change.why);
    }
    if changes.is_empty() {
        lines.push_str("nothing to change\n");
    }
    output::text(&lines)
}

fn list(root: &Path, options: &WorkingSetOptions) -> anyhow::Result<()> {
    let root = Root::open(root)?;
    let manifest = Manifest::read(&root, &manifest_of(&root, options)?)?;
    let hints = Hints::read(&root, manifest.dir())?;
    let mut warnings = manifest.warnings.clone();
    let candidates = expand(&root, &manifest, &mut warnings)?;
    for warning in &warnings {
        output::say(&format!("warning: {warning}"));
    }
    if options.json {
        let listed = WorkingSet::of(&root, &manifest, &hints, &candidates);
        return output::text(&format!("{:#}\n", json!(listed)));
    }
    let mut lines = String::new();
    let budget = manifest.max_tokens.map_or_else(String::new, |max| {
        let reserved = manifest.reserved_for_response.filter(|tokens| *tokens > 0);
        let reserved = reserved.map_or_else(String::new, |tokens| {
            format!(", {} of them reserved", grouped(tokens))
        });
        format!(", {} tokens{reserved}", grouped(max))
    });
    let _ = writeln!(
        lines,
        "{}: {} entries, {} files{budget}",
        manifest.path,
        manifest.files.len(),
        candidates
            .iter()
            .filter(|candidate| candidate.size(&root).is_ok())
            .count()
    );
    for candidate in &candidates {
        let entry = candidate.entry;
        let priority = hints.priority(&candidate.path, entry);
        let moved = if priority == entry.priority {
            String::new()
        } else {
            format!(" (base {})", entry.priority)
        };
        let from = if candidate.id == entry.id() {
            String::new()
        } else {
            format!("  from {}", entry.path)
        };
        let pinned = if entry.is_pinned() { "  pinned" } else { "" };
        let state = match candidate.status(&root) {
            state if state == "ok" => String::new(),
            state => format!("  ({state})"),
        };
        let _ = writeln!(
            lines,
            "{priority:>5}{moved}  {:<9}  {}{from}{pinned}{state}",
            entry.role.name(),
            output::visible(&candidate.id)
        );
    }
    output::text(&lines)
}
