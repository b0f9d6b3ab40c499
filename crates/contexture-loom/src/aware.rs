//! The texts that a loom-aware agent gets: the explanation of the tree, its
//! memory and its position.

use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Cut, Item, Role, Text, Trust};
use contexture_store::{Agent, AgentMemory, Connections, NodeHead, TreeInfo, Trees};
use jiff::Timestamp;

use super::items::{HEADER, ItemBuilder, Shape};
use crate::error::Error;

/// The text that is added to the system prompt, unless the configuration sets
/// another.
const ADDENDUM: &str = "\
You work in a loom: a tree in which every message is a node, and any node can be continued in \
several ways. What you see is one path through it.
Each message begins with a line such as `[loom 3f9a1c | human | 2 h | 3 continuations]`: the \
node's short id, its author, its age, how many continuations, annotations and links it has, and \
whether it is bookmarked. These lines are not part of what was said; do not write them yourself.
Your pins, recalled stashes and latest actions appear before the first message. Your position, \
your permissions and the positions of other agents appear after the last one.";

/// The number of latest actions that are shown.
const LATEST_ACTIONS: usize = 20;

/// Returns the line that is placed before the text of a node.
pub(crate) fn header(node: &NodeHead, connections: Connections, now: Timestamp) -> String {
    let mut parts = vec![
        node.local_id.clone(),
        node.author.name().to_owned(),
        age(node.created_at, now),
    ];
    let counted = |n: u64, one: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {one}s")),
    };
    parts.extend(counted(connections.continuations, "continuation"));
    parts.extend(counted(connections.annotations, "annotation"));
    parts.extend(counted(connections.links, "link"));
    if node.flags.bookmarked {
        parts.push("bookmarked".to_owned());
    }
    format!("{HEADER}{}]", parts.join(" | "))
}

/// Returns the age of a node in words. It is coarse on purpose: text about old
/// nodes must not change with every request, or no provider could cache it.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let hours = (now.as_second() - then.as_second()) / 3600;
    match hours {
        ..1 => "under 1 h".to_owned(),
        1..24 => format!("{hours} h"),
        24..1440 => format!("{} d", hours / 24),
        1440..17520 => format!("{} months", hours / 730),
        _ => format!("{} years", hours / 8760),
    }
}

/// Returns the text that is added to the system prompt.
pub(crate) fn addendum(configured: Option<&str>, policy: Policy) -> Item {
    let text = configured.unwrap_or(ADDENDUM);
    let mut item = Item::new("loom addendum", Role::System, Text::guarded(text, policy)).pinned();
    item.trust = Trust::Operator;
    item.priority = 1.0;
    item
}

/// Returns the memory of the agent as items.
pub(crate) fn memory_items(
    store: &dyn Trees,
    tree: &str,
    memory: &AgentMemory,
    maker: &ItemBuilder<'_>,
) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    for (p, pin) in memory.pins.iter().enumerate() {
        match (&pin.node_id, &pin.text) {
            (Some(id), _) => items.extend(pinned_node(store, tree, id, maker)?),
            (None, Some(text)) => {
                let text = Text::guarded(text, maker.policy);
                items.push(material(format!("pinned {}", p + 1), text, 1.0, Cut::End));
            }
            (None, None) => {}
        }
    }
    for stash in memory.stashes.iter().filter(|stash| stash.recalled) {
        let text = Text::guarded(&stash.text, maker.policy);
        let id = format!("stash {}", one_line(&stash.name));
        items.push(material(id, text, 0.8, Cut::End));
    }
    let latest = memory.trace.len().saturating_sub(LATEST_ACTIONS);
    let lines: Vec<String> = memory.trace[latest..]
        .iter()
        .map(|action| match action.at {
            Some(at) => format!("{at:.0} {}", one_line(&action.action)),
            None => one_line(&action.action),
        })
        .collect();
    if !lines.is_empty() {
        let text = Text::guarded(&lines.join("\n"), maker.policy);
        items.push(material("actions".to_owned(), text, 0.6, Cut::Start));
    }
    Ok(items)
}

fn pinned_node(
    store: &dyn Trees,
    tree: &str,
    id: &str,
    maker: &ItemBuilder<'_>,
) -> Result<Vec<Item>, Error> {
    let mut items = Vec::new();
    for counted in store.nodes(tree, &[id], "")? {
        let node = counted.node;
        let name = node.name();
        let flags = node.flags();
        let id = format!("pinned {name}");
        if flags.excluded || flags.pruned {
            let code = match flags.pruned {
                true => crate::PRUNED,
                false => Code::EXCLUDED,
            };
            let reason = format!("node {name} is {}", code.as_str());
            let content = Content::Absent { code, reason };
            items.push(Item::with_content(id, Role::Context, content));
            continue;
        }
        for (i, mut item) in (maker.make(&node, Shape::Reference, None).items)
            .into_iter()
            .enumerate()
        {
            item.id = match i {
                0 => id.as_str().into(),
                i => format!("{id}.{i}").into(),
            };
            item.path = Some(id.as_str().into());
            item.priority = 1.0;
            items.push(item);
        }
    }
    Ok(items)
}

fn material(id: String, text: Text, priority: f64, cut: Cut) -> Item {
    let mut item = Item::new(id, Role::Context, text)
        .cut(cut)
        .priority(priority);
    item.trust = Trust::User;
    item
}

/// Returns the agent's position, its options, and the positions of others.
pub(crate) fn position(
    store: &dyn Trees,
    info: &TreeInfo,
    agent: &Agent,
    head: &NodeHead,
    now: Timestamp,
    policy: Policy,
) -> Result<Item, Error> {
    let called = |agent: &Agent| match &agent.name {
        Some(name) => format!("{} ({})", one_line(name), agent.id),
        None => agent.id.clone(),
    };
    let title = info.tree.title.as_deref().map(one_line);
    let mut lines = vec![
        match title.filter(|title| !title.is_empty()) {
            Some(title) => format!("Tree: {title} ({})", info.tree.id),
            None => format!("Tree: {}", info.tree.id),
        },
        format!("You: {}", called(agent)),
        format!(
            "Position: {} ({}, {})",
            head.local_id,
            head.author.name(),
            age(head.created_at, now)
        ),
        match agent.permissions.as_slice() {
            [] => "Permissions: none".to_owned(),
            some => format!("Permissions: {}", one_line(&some.join(", "))),
        },
    ];
    for other in info.agents.iter().filter(|other| other.id != agent.id) {
        if let Some(at) = &other.position {
            let at = store.find_node(&info.tree.id, at)?;
            lines.push(format!(
                "Also here: {}, {}, at {}",
                called(other),
                other.kind.name(),
                at.local_id
            ));
        }
    }
    let text = Text::guarded(&lines.join("\n"), policy);
    let mut item = Item::new("loom", Role::Context, text).pinned();
    item.trust = Trust::Operator;
    item.priority = 1.0;
    Ok(item)
}

/// Returns a text on one line, so that it cannot imitate one of our lines.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
