//! `tree agent`, `tree memory` and `tree path`: agents, their memory, and
//! saved paths.

use contexture::store::{Agent, AgentMemory, MemoryChange, Pin, SavedPath, TreeChange, TreeInfo};
use contexture::{Engine, Error};
use serde_json::json;

use super::node::words;
use crate::args::{
    AgentCommand, AgentName, AgentSetArgs, PathCommand, Pinned, StoreOptions, TreeMemoryCommand,
};
use crate::output::{self, Usage};
use crate::session::{plain, short, show, table};

/// Returns the agent with that id.
pub(super) fn known<'a>(info: &'a TreeInfo, id: &str) -> anyhow::Result<&'a Agent> {
    let found = info.agents.iter().find(|agent| agent.id == id);
    found.ok_or_else(|| {
        let all: Vec<&str> = info.agents.iter().map(|agent| &*agent.id).collect();
        let there = match all.is_empty() {
            true => "it has no agents; create one with `contexture tree agent set`".to_owned(),
            false => format!("its agents are {}", all.join(", ")),
        };
        Usage(format!(
            "tree `{}` has no agent `{id}`: {there}",
            info.tree.id
        ))
        .into()
    })
}

/// Returns the short name of a node.
fn local(engine: &Engine, tree: &str, id: &str) -> anyhow::Result<String> {
    let node = engine.store()?.find_node(tree, id).map_err(Error::from)?;
    Ok(node.local_id)
}

pub(super) fn path(command: &PathCommand, options: &StoreOptions) -> anyhow::Result<()> {
    let engine = super::engine(options, false)?;
    match command {
        PathCommand::Save {
            tree,
            name,
            head,
            choose,
        } => {
            let path = engine.save_path(tree, name, head, choose)?;
            let told = format!("path {}", describe_path(&engine, tree, &path)?);
            show(options, &path, &output::visible(&told))
        }
        PathCommand::List { tree } => {
            let info = engine.store()?.tree(tree).map_err(Error::from)?;
            if options.json {
                return output::text(&format!("{:#}\n", json!(info.paths)));
            }
            if info.paths.is_empty() {
                let tree = output::visible(tree);
                return output::text(&format!(
                    "no saved paths; save one with `contexture tree path save {tree} NAME --head \
                     NODE`\n"
                ));
            }
            let mut out = String::new();
            for path in &info.paths {
                let told = describe_path(&engine, tree, path)?;
                out.push_str(&format!("{}\n", output::visible(&told)));
            }
            output::text(&out)
        }
    }
}

fn describe_path(engine: &Engine, tree: &str, path: &SavedPath) -> anyhow::Result<String> {
    let mut told = format!("{}: to {}", path.name, local(engine, tree, &path.head)?);
    if !path.choices.is_empty() {
        // A choice that is not a node is an edge.
        let names = path.choices.iter().map(|choice| {
            let node = local(engine, tree, choice);
            node.unwrap_or_else(|_| format!("edge {choice}"))
        });
        let names: Vec<String> = names.collect();
        told.push_str(&format!(", using {}", names.join(", ")));
    }
    Ok(told)
}

pub(super) fn run(command: &AgentCommand, options: &StoreOptions) -> anyhow::Result<()> {
    match command {
        AgentCommand::Set(args) => set(args, options),
        AgentCommand::List { tree } => {
            let engine = super::engine(options, false)?;
            list(&engine, tree, options)
        }
    }
}

fn set(args: &AgentSetArgs, options: &StoreOptions) -> anyhow::Result<()> {
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let prompt = match &args.prompt_file {
        Some(file) => Some(output::read_text(file)?),
        None => args.prompt.clone(),
    };
    let engine = super::engine(options, false)?;
    let info = engine.store()?.tree(&args.tree).map_err(Error::from)?;
    let there = info.agents.iter().find(|agent| agent.id == args.id);
    let (mut agent, is_new) = match (there, args.kind) {
        (Some(agent), _) => (agent.clone(), false),
        (None, Some(kind)) => (
            Agent {
                id: args.id.clone(),
                kind: kind.into(),
                name: None,
                system_prompt: None,
                model: None,
                parameters: serde_json::Map::new(),
                permissions: Vec::new(),
                loom_aware: false,
                position: None,
            },
            true,
        ),
        (None, None) => {
            let new = format!(
                "agent `{}` does not exist in tree `{}`; to create it, set --type model or \
                 --type human",
                args.id, args.tree
            );
            return Err(Usage(new).into());
        }
    };
    if let Some(kind) = args.kind {
        agent.kind = kind.into();
    }
    if let Some(name) = &args.name {
        agent.name = given(name);
    }
    if let Some(prompt) = &prompt {
        agent.system_prompt = given(prompt);
    }
    if let Some(model) = &args.model {
        agent.model = given(model);
    }
    for (key, value) in &args.parameters {
        match value {
            Some(value) => drop(agent.parameters.insert(key.clone(), value.clone())),
            None => drop(agent.parameters.shift_remove(key)),
        }
    }
    if !args.permissions.is_empty() {
        let permissions = args.permissions.iter().filter(|one| !one.is_empty());
        agent.permissions = permissions.cloned().collect();
    }
    if let Some(aware) = args.loom_aware {
        agent.loom_aware = aware;
    }
    if let Some(at) = &args.at {
        let node = engine.store()?.find_node(&args.tree, at);
        agent.position = Some(node.map_err(Error::from)?.id);
    }
    contexture::loom::check_agent(&agent)?;
    super::write(
        &engine,
        options,
        &args.tree,
        &TreeChange::Agent(agent.clone()),
    )?;
    let verb = if is_new { "made" } else { "changed" };
    let told = format!("agent {}: {verb}", output::visible(&args.id));
    show(options, &agent, &told)
}

fn list(engine: &Engine, tree: &str, options: &StoreOptions) -> anyhow::Result<()> {
    let info = engine.store()?.tree(tree).map_err(Error::from)?;
    if options.json {
        return output::text(&format!("{:#}\n", json!(info.agents)));
    }
    if info.agents.is_empty() {
        let tree = output::visible(tree);
        return output::text(&format!(
            "no agents; create one with `contexture tree agent set {tree} ID --type model`\n"
        ));
    }
    let header = [
        "agent",
        "type",
        "name",
        "model",
        "loom-aware",
        "at",
        "permissions",
        "prompt",
    ];
    let mut table = table(&header, &[]);
    for agent in &info.agents {
        let at = match &agent.position {
            Some(id) => local(engine, tree, id)?,
            None => String::new(),
        };
        let text = |text: &Option<String>| output::visible(text.as_deref().unwrap_or_default());
        table.add_row([
            output::visible(&agent.id),
            agent.kind.name().to_owned(),
            text(&agent.name),
            text(&agent.model),
            if agent.loom_aware { "yes" } else { "no" }.to_owned(),
            output::visible(&at),
            output::visible(&agent.permissions.join(", ")),
            output::visible(&short(agent.system_prompt.as_deref().unwrap_or(""), 40)),
        ]);
    }
    output::text(&plain(&table))
}

pub(super) fn memory(command: &TreeMemoryCommand, options: &StoreOptions) -> anyhow::Result<()> {
    // Input is read before a store is touched.
    let stashed = match command {
        TreeMemoryCommand::Stash { text, file, .. } => words(text.as_deref(), file.as_deref())?,
        _ => None,
    };
    let engine = super::engine(options, false)?;
    let (of, change, told) = match command {
        TreeMemoryCommand::Show(of) => return show_memory(&engine, of, options),
        TreeMemoryCommand::Pin { of, what } => {
            let (pin, name) = pin(&engine, of, what)?;
            (of, MemoryChange::Pin(pin), format!("pinned {name}"))
        }
        TreeMemoryCommand::Unpin { of, what } => {
            let (pin, name) = pin(&engine, of, what)?;
            let told = format!("unpinned {name}");
            (of, MemoryChange::Unpin(pin), told)
        }
        TreeMemoryCommand::Stash { of, name, .. } => {
            let change = MemoryChange::Stash {
                name: name.clone(),
                text: stashed.unwrap_or_default(),
            };
            let told = format!(
                "saved stash {name}; include it in requests with `contexture tree \
                                memory recall`"
            );
            (of, change, told)
        }
        TreeMemoryCommand::Recall { of, name } => {
            let change = MemoryChange::Recall {
                name: name.clone(),
                shown: true,
            };
            (of, change, format!("stash {name} is included in requests"))
        }
        TreeMemoryCommand::PutAway { of, name } => {
            let change = MemoryChange::Recall {
                name: name.clone(),
                shown: false,
            };
            (
                of,
                change,
                format!("stash {name} is no longer included in requests"),
            )
        }
        TreeMemoryCommand::Discard { of, name } => {
            let change = MemoryChange::Discard { name: name.clone() };
            (of, change, format!("deleted stash {name}"))
        }
        TreeMemoryCommand::Act { of, action } => {
            let change = MemoryChange::Act(action.clone());
            (of, change, "recorded the action".to_owned())
        }
    };
    let info = engine.store()?.tree(&of.tree).map_err(Error::from)?;
    let aware = known(&info, &of.agent)?.loom_aware;
    let change = TreeChange::Memory {
        agent: of.agent.clone(),
        change,
    };
    super::write(&engine, options, &of.tree, &change)?;
    if !aware {
        let agent = output::visible(&of.agent);
        output::say(&format!(
            "{agent} is not loom-aware, so its requests do not include its memory; run \
             `contexture tree agent set {} {agent} --loom-aware`",
            output::visible(&of.tree)
        ));
    }
    let memory = engine.store()?.agent_memory(&of.tree, &of.agent);
    show(
        options,
        &memory.map_err(Error::from)?,
        &output::visible(&told),
    )
}

/// Returns the pin, and its name.
fn pin(engine: &Engine, of: &AgentName, what: &Pinned) -> anyhow::Result<(Pin, String)> {
    match (&what.node, &what.text) {
        (Some(node), _) => {
            let node = engine.store()?.find_node(&of.tree, node);
            let node = node.map_err(Error::from)?;
            let pin = Pin {
                node_id: Some(node.id),
                text: None,
            };
            Ok((pin, node.local_id))
        }
        (None, text) => {
            let pin = Pin {
                node_id: None,
                text: text.clone(),
            };
            Ok((pin, "the text".to_owned()))
        }
    }
}

fn show_memory(engine: &Engine, of: &AgentName, options: &StoreOptions) -> anyhow::Result<()> {
    let store = engine.store()?;
    known(&store.tree(&of.tree).map_err(Error::from)?, &of.agent)?;
    let memory: AgentMemory = store
        .agent_memory(&of.tree, &of.agent)
        .map_err(Error::from)?;
    if options.json {
        return output::text(&format!("{:#}\n", json!(memory)));
    }
    if memory.is_empty() {
        let agent = output::visible(&of.agent);
        return output::text(&format!("the memory of {agent} is empty\n"));
    }
    let mut out = String::new();
    for pin in &memory.pins {
        let told = match (&pin.node_id, &pin.text) {
            (Some(id), _) => format!("node {}", local(engine, &of.tree, id)?),
            (None, text) => short(text.as_deref().unwrap_or_default(), 80),
        };
        out.push_str(&format!("pinned   {}\n", output::visible(&told)));
    }
    for stash in &memory.stashes {
        let state = if stash.recalled {
            "recalled"
        } else {
            "stashed"
        };
        let told = format!("{}: {}", stash.name, short(&stash.text, 80));
        out.push_str(&format!("{state:<8} {}\n", output::visible(&told)));
    }
    for action in &memory.trace {
        let at = action.at.map_or_else(String::new, |at| format!("{at:.0} "));
        let told = format!("{at}{}", short(&action.action, 80));
        out.push_str(&format!("did      {}\n", output::visible(&told)));
    }
    output::text(&out)
}
