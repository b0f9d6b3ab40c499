//! `tree node`: add, edit, flag, show.

use std::collections::HashMap;
use std::path::Path;

use contexture::core::grouped;
use contexture::loom::{FlagChange, Material, NewNode, NodeEdit};
use contexture::store::{
    Author, Block, Edge, EdgeKind, MessageContent, Node, NodeHead, SourceRole, Step, TreeMode,
};
use contexture::{Engine, Error};
use contexture_terminal::tree::flag_names;
use serde_json::{Value, json};

use super::answer;
use crate::args::{AddArgs, NodeCommand, StoreOptions};
use crate::output::{self, Usage};
use crate::session::show;

pub(super) fn run(command: &NodeCommand, options: &StoreOptions) -> anyhow::Result<()> {
    match command {
        NodeCommand::Add(args) => add(args, options),
        NodeCommand::Edit {
            tree,
            node,
            text,
            file,
            author,
            agent,
            id,
        } => {
            let Some(said) = words(text.as_deref(), file.as_deref())? else {
                return Err(empty_text(
                    "give TEXT, --file FILE, or - for standard input",
                ));
            };
            let engine = super::engine(options, false)?;
            let is_typed = text.as_deref().is_some_and(|text| text != "-");
            let edit = NodeEdit {
                id: id.clone(),
                author: author.map(Into::into),
                agent: agent.clone(),
                content: MessageContent::Text(match is_typed {
                    true => said,
                    false => from_file(&engine, tree, said)?,
                }),
            };
            kind_of(&engine, tree, edit.agent.as_deref())?;
            let edited = engine.edit_node(tree, node, &edit, options.now)?;
            let (new, old) = (&edited.local_id, name_of(&engine, tree, node)?);
            let (new, old) = (output::visible(new), output::visible(&old));
            output::say(&format!(
                "{new} replaces {old} in requests, unless a saved path chooses {old}"
            ));
            show(options, &edited, &output::visible(&edited.local_id))
        }
        NodeCommand::Flag {
            tree,
            node,
            exclude,
            include,
            prune,
            restore,
            bookmark,
            unbookmark,
        } => {
            let either = |set: bool, unset: bool| (set || unset).then_some(set);
            let change = FlagChange {
                excluded: either(*exclude, *include),
                pruned: either(*prune, *restore),
                bookmarked: either(*bookmark, *unbookmark),
            };
            if change == FlagChange::default() {
                let nothing = "no flag to change; give --exclude, --include, --prune, --restore, \
                               --bookmark or --unbookmark";
                return Err(Usage(nothing.to_owned()).into());
            }
            let engine = super::engine(options, false)?;
            let flags = engine.flag_node(tree, node, change)?;
            let name = output::visible(&name_of(&engine, tree, node)?);
            let told = match flag_names(flags).as_slice() {
                [] => format!("{name}: no flags"),
                names => format!("{name}: {}", names.join(", ")),
            };
            show(options, &flags, &told)
        }
        NodeCommand::Show { tree, node } => {
            let engine = super::engine(options, false)?;
            show_node(&engine, tree, node, options)
        }
    }
}

/// Returns the text that is given, as a word or in a file.
pub(super) fn words(text: Option<&str>, file: Option<&Path>) -> anyhow::Result<Option<String>> {
    match (text, file) {
        (Some("-"), _) => output::read_text(Path::new("-")).map(Some),
        (Some(text), _) => Ok(Some(text.to_owned())),
        (None, Some(file)) => output::read_text(file).map(Some),
        (None, None) => Ok(None),
    }
}

/// Returns the text of a file. The final line break is removed for a message,
/// but kept for a part of a document.
fn from_file(engine: &Engine, tree: &str, mut text: String) -> anyhow::Result<String> {
    let info = engine.store()?.tree(tree).map_err(Error::from)?;
    if info.tree.mode == TreeMode::Dialogue {
        let end = text.strip_suffix('\n').unwrap_or(&text);
        text.truncate(end.strip_suffix('\r').unwrap_or(end).len());
    }
    Ok(text)
}

fn empty_text(how: &str) -> anyhow::Error {
    Usage(format!("the node has no content: {how}")).into()
}

fn name_of(engine: &Engine, tree: &str, node: &str) -> anyhow::Result<String> {
    let found = engine.store()?.find_node(tree, node).map_err(Error::from)?;
    Ok(found.local_id)
}

fn add(args: &AddArgs, options: &StoreOptions) -> anyhow::Result<()> {
    let from_stdin = [
        args.text.as_deref() == Some("-"),
        args.file.as_deref() == Some(Path::new("-")),
        args.response.as_deref() == Some(Path::new("-")),
    ];
    let from_stdin = from_stdin.iter().filter(|is| **is).count()
        + (args.attach.iter())
            .filter(|path| path.as_path() == Path::new("-"))
            .count();
    if from_stdin > 1 {
        return Err(Usage(
            "standard input can be read only once; use - for one argument".to_owned(),
        )
        .into());
    }
    // Input is read before a store is touched.
    let mut answer = args.response.as_deref().map(answer::read).transpose()?;
    if let Some(answer) = &mut answer {
        answer.raw.request_hash = args.request.clone();
    }
    let given = words(args.text.as_deref(), args.file.as_deref())?;
    let said = answer.as_ref().and_then(|answer| answer.text.clone());
    let from_a_file = given.is_some() && args.text.as_deref().is_none_or(|text| text == "-");
    let Some(mut text) = given.or(said) else {
        return Err(empty_text(match &answer {
            Some(_) => "the response has no plain text; give it as TEXT or --file FILE",
            None => "give TEXT, --file FILE, or - for standard input",
        }));
    };
    let mut material = Vec::new();
    for node in &args.instruction {
        material.push((SourceRole::Instruction, Material::Node(node.clone())));
    }
    for text in &args.instruct {
        let text = MessageContent::Text(text.clone());
        material.push((SourceRole::Instruction, Material::New(text)));
    }
    for node in &args.context {
        material.push((SourceRole::Context, Material::Node(node.clone())));
    }
    let attached: Vec<MessageContent> = (args.attach.iter())
        .map(|file| answer::attached(file))
        .collect::<Result<_, _>>()?;
    let engine = super::engine(options, false)?;
    let tree = &args.tree;
    if from_a_file {
        text = from_file(&engine, tree, text)?;
    }
    for content in attached {
        let content = match content {
            MessageContent::Text(text) => MessageContent::Text(from_file(&engine, tree, text)?),
            picture => picture,
        };
        material.push((SourceRole::Context, Material::New(content)));
    }
    let of_agent = kind_of(&engine, tree, args.agent.as_deref())?;
    let author: Option<Author> = args.author.map(Into::into);
    if let (Some(author), Some(kind), Some(agent)) = (author, of_agent, &args.agent)
        && author != kind
    {
        let not_both = format!(
            "agent `{agent}` is a {}, but --author is {}; omit --author, or name another agent",
            kind.name(),
            author.name()
        );
        return Err(Usage(not_both).into());
    }
    let author = author.or(of_agent).unwrap_or(Author::Human);
    let new = NewNode {
        id: args.id.clone(),
        author,
        agent: args.agent.clone(),
        content: MessageContent::Text(text),
        after: args.after.clone(),
        kind: match args.annotate {
            true => EdgeKind::Annotation,
            false => EdgeKind::Continuation,
        },
        material,
        raw_response: answer.map(|answer| answer.raw),
    };
    let added = engine.add_node(tree, &new, options.now)?;
    for told in replaced(&engine, tree, &added)? {
        output::say(&told);
    }
    show(options, &added, &output::visible(&added.local_id))
}

/// Returns the kind of an agent. Fails if the named agent does not exist.
fn kind_of(engine: &Engine, tree: &str, agent: Option<&str>) -> anyhow::Result<Option<Author>> {
    let Some(agent) = agent else {
        return Ok(None);
    };
    let info = engine.store()?.tree(tree).map_err(Error::from)?;
    Ok(Some(super::agent::known(&info, agent)?.kind))
}

/// Returns a notice if the new node follows one that has a later version,
/// because requests show that version.
fn replaced(engine: &Engine, tree: &str, added: &NodeHead) -> anyhow::Result<Vec<String>> {
    let mut told = Vec::new();
    if added.step != Step::Look {
        return Ok(told);
    }
    let store = engine.store()?;
    let arrivals = store.arrivals(tree, &added.id).map_err(Error::from)?;
    for arrival in arrivals {
        let of = |id: &str| arrival.versions.iter().find(|one| one.id == id);
        let named: Vec<&NodeHead> = (arrival.edge.sources_as(SourceRole::Primary))
            .filter_map(of)
            .collect();
        let there = arrival.versions.iter().filter(|one| !one.flags.pruned);
        let latest = there.max_by_key(|one| (one.created_at, one.edited_from.is_some(), &one.id));
        let (&[named], Some(latest)) = (named.as_slice(), latest) else {
            continue;
        };
        if latest.id != named.id {
            let (old, new) = (output::visible(&named.local_id), &latest.local_id);
            told.push(format!(
                "{old} has a later version, {}: requests use that version, unless a saved path \
                 chooses {old}",
                output::visible(new)
            ));
        }
    }
    Ok(told)
}

/// The maximum number of edges of a node that are shown in each direction.
const MOST_EDGES: usize = 20;

fn show_node(
    engine: &Engine,
    tree: &str,
    name: &str,
    options: &StoreOptions,
) -> anyhow::Result<()> {
    let store = engine.store()?;
    let head = store.find_node(tree, name).map_err(Error::from)?;
    let nodes = store.nodes(tree, &[&head.id], "").map_err(Error::from)?;
    let Some(node) = nodes.into_iter().next().map(|counted| counted.node) else {
        return Err(Usage(format!("no node `{name}`")).into());
    };
    let mode = store.tree(tree).map_err(Error::from)?.tree.mode;
    let tokens = engine.node_tokens(tree, mode, &[&head.id], None)?;
    let raw = store.raw_response(tree, &head.id).map_err(Error::from)?;
    let skeleton = store.skeleton(tree).map_err(Error::from)?;
    let is_source = |edge: &&Edge| edge.sources.iter().any(|one| one.node_id == head.id);
    let incoming: Vec<&Edge> = (skeleton.edges.iter())
        .filter(|edge| edge.target_node_id == head.id)
        .collect();
    let outgoing: Vec<&Edge> = skeleton.edges.iter().filter(is_source).collect();
    let edits: Vec<&str> = (skeleton.nodes.iter())
        .filter(|(other, _)| other.edited_from.as_deref() == Some(&*head.id))
        .map(|(other, _)| &*other.local_id)
        .collect();
    let names: HashMap<&str, &str> = (skeleton.nodes.iter())
        .map(|(one, _)| (&*one.id, &*one.local_id))
        .collect();
    let local = |id: &str| names.get(id).copied().unwrap_or(id).to_owned();
    if options.json {
        let mut value = json!(node);
        if let Value::Object(map) = &mut value {
            map.insert("local_id".to_owned(), json!(head.local_id));
            map.insert("tokens".to_owned(), json!(tokens.first()));
            map.insert("edits".to_owned(), json!(edits));
            map.insert("edges_in".to_owned(), json!(incoming));
            map.insert("edges_out".to_owned(), json!(outgoing));
            map.insert("raw_response".to_owned(), json!(raw));
        }
        return output::text(&format!("{value:#}\n"));
    }
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push_str(&format!("{name:<9} {}\n", output::visible(value)));
        }
    };
    line("node", &head.local_id);
    if head.id != head.local_id {
        line("id", &head.id);
    }
    line(
        "author",
        &match &node.author_agent_id {
            Some(agent) => format!("{}, agent {agent}", node.author.name()),
            None => node.author.name().to_owned(),
        },
    );
    line("created", &format!("{:.0}", head.created_at));
    line("flags", &flag_names(head.flags).join(", "));
    if let Some(tokens) = tokens.first() {
        line("tokens", &grouped(*tokens));
    }
    if let Some(from) = &head.edited_from {
        line("edit of", &local(from));
    }
    line("edits", &edits.join(", "));
    for edge in incoming.iter().take(MOST_EDGES) {
        line("follows", &describe_edge(edge, &local));
    }
    for edge in outgoing.iter().take(MOST_EDGES) {
        let role = edge.sources.iter().find(|one| one.node_id == head.id);
        let role = role.map(|source| source.role).unwrap_or_default();
        let to = format!("{} (edge {})", local(&edge.target_node_id), edge.id);
        match (role, edge.kind) {
            (SourceRole::Primary, EdgeKind::Continuation) => line("continues", &to),
            (SourceRole::Primary, EdgeKind::Annotation) => line("annotated", &to),
            (SourceRole::Context, _) => line("context", &format!("for {to}")),
            (SourceRole::Instruction, _) => line("instructs", &to),
        }
    }
    let edges = [incoming.len(), outgoing.len()];
    let more: usize = (edges.iter())
        .map(|count| count.saturating_sub(MOST_EDGES))
        .sum();
    if more > 0 {
        let more = output::many(more as u64, "more edge");
        line("", &format!("{more}; show all with --json"));
    }
    if let Some(raw) = &raw {
        let names = [raw.provider.as_deref(), raw.model.as_deref()];
        let names: Vec<&str> = names.into_iter().flatten().collect();
        line(
            "response",
            &match names.is_empty() {
                true => "saved; show it with --json".to_owned(),
                false => format!("of {}; show it with --json", names.join(", ")),
            },
        );
        if let Some(usage) = &raw.usage {
            let cached = match usage.cached_input_tokens {
                0 => String::new(),
                cached => format!(", {} of them from the cache", grouped(cached)),
            };
            let read = output::many(usage.input_tokens, "token");
            let written = grouped(usage.output_tokens);
            line("usage", &format!("{read} read{cached}; {written} written"));
        }
    }
    out.push('\n');
    out.push_str(&content(&node));
    output::text(&out)
}

fn describe_edge(edge: &Edge, local: &impl Fn(&str) -> String) -> String {
    let named = |role: SourceRole, between: &str| {
        let names: Vec<String> = edge.sources_as(role).map(local).collect();
        names.join(between)
    };
    let mut told = named(SourceRole::Primary, " or ");
    for (role, word) in [
        (SourceRole::Context, "context"),
        (SourceRole::Instruction, "instruction"),
    ] {
        let names = named(role, ", ");
        if !names.is_empty() {
            told.push_str(&format!(", with {word} {names}"));
        }
    }
    let kind = match edge.kind {
        EdgeKind::Continuation => "edge",
        EdgeKind::Annotation => "as an annotation, edge",
    };
    format!("{told} ({kind} {})", edge.id)
}

/// Returns the content of a node, line by line.
fn content(node: &Node) -> String {
    let mut out = String::new();
    for block in node.content.blocks() {
        match &*block {
            Block::Text { text, .. } => {
                for line in text.lines() {
                    out.push_str(&output::visible(line));
                    out.push('\n');
                }
            }
            other => {
                if let Some(media) = other.media() {
                    let bytes = grouped(other.bytes() as u64);
                    out.push_str(&format!(
                        "[{}, {bytes} bytes as text]\n",
                        output::visible(&media.media_type)
                    ));
                }
            }
        }
    }
    out
}
