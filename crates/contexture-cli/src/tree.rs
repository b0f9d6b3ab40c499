//! `contexture tree`: imports, creates, changes and exports trees.

mod agent;
mod answer;
mod node;
mod show;

use contexture::loom::tree_from_json;
use contexture::store::{
    Imported, Preferences, PreferencesChange, SettingsChange, Tree, TreeChange, TreeDocument,
    TreeInfo,
};
use contexture::{Engine, Error, Shown as _, Timestamp};
use contexture_terminal::stored;
use serde_json::json;

use crate::args::{Prefer, StoreOptions, TreeArgs, TreeCommand, TreeSettings};
use crate::output::{self, Usage};
use crate::session::{plain, show, table};
use crate::{store, upkeep};

pub(crate) fn run(args: &TreeArgs) -> anyhow::Result<()> {
    let options = &args.options;
    match &args.command {
        TreeCommand::Import { file } => {
            // No store is created for an invalid document.
            let name = output::name(file);
            let document = tree_from_json(&name, &output::read_text(file)?)?;
            let engine = match document.check() {
                Ok(()) => engine(options, true)?,
                // The document may be valid together with the existing tree.
                Err(error) => match engine(options, false) {
                    Ok(engine) => engine,
                    Err(_) => return Err(in_file(&name, error.into()).into()),
                },
            };
            let imported = engine.import_tree(&document, options.now);
            let imported = imported.map_err(|error| in_file(&name, error))?;
            let told = describe_import(&document.tree.id, imported);
            show(options, &imported, &told)
        }
        TreeCommand::Export { tree, output: file } => {
            let engine = engine(options, false)?;
            let document = engine.store()?.export_tree(tree).map_err(Error::from)?;
            match file {
                Some(file) => output::file(file, &document.to_json()),
                None => output::bytes(document.to_json().as_bytes()),
            }
        }
        TreeCommand::Delete { tree } => {
            let engine = engine(options, false)?;
            let deleted = engine.store()?.delete_tree(tree).map_err(Error::from)?;
            let told = format!("deleted {}", stored::counted(&deleted));
            show(options, &deleted, &told)?;
            upkeep::report_pending(deleted.pending);
            Ok(())
        }
        TreeCommand::List => list(&engine(options, false)?, options),
        TreeCommand::New {
            tree,
            mode,
            settings,
        } => {
            let mut made = Tree {
                id: tree.clone(),
                mode: (*mode).into(),
                title: None,
                system_context: None,
                buffer_mode_system_context: false,
                preferences: Preferences::default(),
                created_at: None,
            };
            change(settings)?.apply(&mut made);
            let document = TreeDocument {
                tree: made,
                agents: Vec::new(),
                nodes: Vec::new(),
                edges: Vec::new(),
                paths: Vec::new(),
                memories: Vec::new(),
            };
            document.check().map_err(Error::from)?;
            let engine = engine(options, true)?;
            // Importing would change one that is there.
            if engine.store()?.tree(tree).is_ok() {
                let there = format!(
                    "tree `{tree}` already exists; change it with `contexture tree set {tree}`"
                );
                return Err(Usage(there).into());
            }
            engine.import_tree(&document, options.now)?;
            let info = engine.store()?.tree(tree).map_err(Error::from)?.shown();
            let told = format!(
                "created tree {}, an empty {}; add the first node with `contexture tree node add \
                 {} --author human TEXT`",
                output::visible(tree),
                info.tree.mode,
                output::visible(&contexture_terminal::quoted(tree))
            );
            show(options, &info, &told)
        }
        TreeCommand::Set {
            tree,
            mode,
            settings,
        } => {
            if settings.is_empty() && mode.is_none() {
                let nothing = "no setting to change; give one, such as --title TEXT";
                return Err(Usage(nothing.to_owned()).into());
            }
            let engine = engine(options, false)?;
            if let Some(mode) = *mode {
                let there = engine.store()?.tree(tree).map_err(Error::from)?.tree;
                there.check_mode("mode", mode.into()).map_err(Error::from)?;
            }
            let change = TreeChange::Settings(change(settings)?);
            write(&engine, options, tree, &change)?;
            let info = engine.store()?.tree(tree).map_err(Error::from)?.shown();
            show(options, &info, &describe(&info))
        }
        TreeCommand::Show(args) => show::run(args, options),
        TreeCommand::Node { command } => node::run(command, options),
        TreeCommand::Path { command } => agent::path(command, options),
        TreeCommand::Agent { command } => agent::run(command, options),
        TreeCommand::Memory { command } => agent::memory(command, options),
    }
}

/// Adds the name of the file to an error about a position in it.
fn in_file(name: &str, error: Error) -> Error {
    match error.is_input() && error.advice().is_empty() {
        true => Error::input(format!("{name}: {error}")),
        false => error,
    }
}

/// Returns an engine with the store that the options name.
fn engine(options: &StoreOptions, make: bool) -> anyhow::Result<Engine> {
    store::engine_with(options, make, "contexture tree import FILE")
}

/// Changes a tree.
fn write(
    engine: &Engine,
    options: &StoreOptions,
    tree: &str,
    change: &TreeChange,
) -> anyhow::Result<()> {
    let now = options.now.unwrap_or_else(Timestamp::now);
    let done = engine.store()?.change_tree(tree, change, now);
    Ok(done.map_err(Error::from)?)
}

fn describe_import(tree: &str, imported: Imported) -> String {
    let mut added = Vec::new();
    for (number, thing) in [(imported.nodes, "node"), (imported.edges, "edge")] {
        if number > 0 {
            added.push(output::many(number, thing));
        }
    }
    let added = added.join(", ");
    let mut told = Vec::new();
    match (imported.created, added.is_empty()) {
        (true, true) => told.push("empty".to_owned()),
        (true, false) => told.push(added),
        (false, true) => {}
        (false, false) => told.push(format!("added {added}")),
    }
    if imported.reflagged > 0 {
        let nodes = output::many(imported.reflagged, "node");
        told.push(format!("flags of {nodes} changed"));
    }
    if imported.changed && !imported.created {
        told.push("settings, agents, paths or memories changed".to_owned());
    }
    if told.is_empty() {
        told.push("no changes".to_owned());
    }
    let created = if imported.created { "created " } else { "" };
    format!(
        "{created}tree {}: {}",
        output::visible(tree),
        told.join("; ")
    )
}

/// Returns the change to a tree's settings that the options ask for.
fn change(settings: &TreeSettings) -> anyhow::Result<SettingsChange> {
    // An empty text clears a setting.
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let mut change = SettingsChange {
        title: settings.title.clone().map(given),
        system_context: settings.system_context.clone().map(given),
        buffer_mode_system_context: settings.buffer_mode_system_context,
        preferences: PreferencesChange::default(),
    };
    if let Some(file) = &settings.system_context_file {
        change.system_context = Some(given(output::read_text(file)?));
    }
    for prefer in &settings.prefer {
        let preferences = &mut change.preferences;
        match *prefer {
            Prefer::Strategy(strategy) => preferences.truncation_strategy = Some(strategy),
            Prefer::Recent(nodes) => preferences.minimum_recent_nodes = Some(nodes),
            Prefer::Buffer(tokens) => preferences.token_buffer = Some(tokens),
        }
    }
    Ok(change)
}

fn describe(info: &TreeInfo) -> String {
    let tree = &info.tree;
    let mut lines = Vec::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{name:<15} {}", output::visible(value)));
        }
    };
    line("tree", &tree.id);
    line("mode", tree.mode.name());
    line("title", tree.title.as_deref().unwrap_or_default());
    let context = tree.system_context.as_deref().unwrap_or_default();
    line("system context", &crate::session::short(context, 60));
    if tree.buffer_mode_system_context {
        line("", "(also used for documents)");
    }
    let preferences = &tree.preferences;
    let mut preferred = Vec::new();
    if let Some(strategy) = preferences.truncation_strategy {
        preferred.push(format!("truncation_strategy={}", strategy.name()));
    }
    if let Some(nodes) = preferences.minimum_recent_nodes {
        preferred.push(format!("minimum_recent_nodes={nodes}"));
    }
    if let Some(tokens) = preferences.token_buffer {
        preferred.push(format!("token_buffer={tokens}"));
    }
    line("preferences", &preferred.join(" "));
    lines.join("\n")
}

fn list(engine: &Engine, options: &StoreOptions) -> anyhow::Result<()> {
    let trees = store::trees(engine.store()?)?.shown();
    if options.json {
        return output::text(&format!("{:#}\n", json!(trees)));
    }
    if trees.is_empty() {
        return output::text(
            "no trees; import one with `contexture tree import FILE`, or create one with \
             `contexture tree new`\n",
        );
    }
    let header = ["tree", "mode", "nodes", "edges", "agents", "paths", "title"];
    let mut table = table(&header, &[2, 3]);
    for info in &trees {
        let agents: Vec<&str> = info.agents.iter().map(|agent| &*agent.id).collect();
        let paths: Vec<&str> = info.paths.iter().map(|path| &*path.name).collect();
        table.add_row([
            output::visible(&info.tree.id),
            info.tree.mode.name().to_owned(),
            info.nodes.to_string(),
            info.edges.to_string(),
            output::visible(&agents.join(", ")),
            output::visible(&paths.join(", ")),
            output::visible(&crate::session::short(
                info.tree.title.as_deref().unwrap_or(""),
                60,
            )),
        ]);
    }
    output::text(&plain(&table))
}
