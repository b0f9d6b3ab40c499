//! `tree show`: prints a tree as a drawing or as JSON.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use contexture::core::grouped;
use contexture::store::{NodeHead, TreeInfo};
use contexture::{Engine, Error, Request};
use serde_json::{Value, json};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::draw::{self, DrawOptions, FoldedNodes, Line, LineContent};
use super::shape::{Kind, Shape};
use crate::args::{ShowArgs, StoreOptions};
use crate::output::{self, Usage};

const PATH: Style = AnsiColor::Green.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// The width of a line without a terminal.
const WIDTH: usize = 100;

/// The maximum number of sources that are named in the line of a node.
const MOST_SOURCES: usize = 4;

/// The narrowest terminal that is drawn for.
const NARROWEST: usize = 40;

pub(super) fn run(args: &ShowArgs, options: &StoreOptions) -> anyhow::Result<()> {
    if args.depth == Some(0) {
        return Err(Usage("--depth must be 1 or more".to_owned()).into());
    }
    let engine = super::engine(options, false)?;
    let store = engine.store()?;
    let info = store.tree(&args.tree).map_err(Error::from)?;
    let path = path(&engine, &info, args)?;
    let from = args.from.as_ref().map(|name| {
        let found = store.find_node(&args.tree, name);
        found.map_err(Error::from)
    });
    let from = from.transpose()?;
    let skeleton = store.skeleton(&args.tree).map_err(Error::from)?;
    let shape = Shape::new(&skeleton, &info, &path);
    let named = match &from {
        Some(node) => shape.find(&node.id),
        None => shape.root,
    };
    let Some(named) = named else {
        if options.json {
            let empty = json!({"tree": info, "path": [], "nodes": []});
            return output::text(&format!("{empty:#}\n"));
        }
        let tree = output::visible(&args.tree);
        return output::text(&format!(
            "tree {tree}, a {}, is empty; add the first node with `contexture tree node add \
             {tree} --author human TEXT`\n",
            info.tree.mode
        ));
    };
    let wanted = DrawOptions {
        from: match &shape.spots[named] {
            // Nodes that follow a replaced version are drawn below the version
            // that replaces it.
            spot if spot.is_replaced => spot.parent.unwrap_or(named),
            _ => named,
        },
        named,
        depth: args.depth.unwrap_or(usize::MAX),
        all: args.all || options.json,
    };
    let lines = draw::lines(&shape, wanted);
    let ids: Vec<&str> = lines
        .iter()
        .filter_map(|line| match line.what {
            LineContent::Node(at) => Some(&*shape.nodes[at].0.id),
            LineContent::Fold(_) => None,
        })
        .collect();
    let tokens = engine.node_tokens(&args.tree, info.tree.mode, &ids, args.model.as_deref())?;
    if options.json {
        return as_json(&shape, &info, &path, &lines, &tokens);
    }
    let model = args.model.as_deref().unwrap_or(&engine.config().model);
    let width = width();
    let mut out = header(&info, &path, model, width);
    rows(&shape, &lines, &tokens, width, &mut out);
    output::text(&out)
}

/// Returns the path to draw. Empty if the arguments select none.
fn path(engine: &Engine, info: &TreeInfo, args: &ShowArgs) -> anyhow::Result<Vec<NodeHead>> {
    let request = Request {
        tree: Some(args.tree.clone()),
        head: args.head.clone(),
        path: args.path.clone(),
        agent: args.agent.clone(),
        include_annotations: true,
        ..Request::default()
    };
    if let Some(agent) = &args.agent {
        super::agent::known(info, agent)?;
    }
    let found = engine.tree_path(&request);
    if args.head.is_some() || args.path.is_some() {
        return Ok(found?);
    }
    // Without arguments, an ambiguous path is not an error: if there are
    // several leaves, or several paths to one, no path is shown.
    match found {
        Err(error) if !error.is_input() => Err(error.into()),
        found => Ok(found.unwrap_or_default()),
    }
}

/// Returns the maximum width of a line.
fn width() -> usize {
    output::width().unwrap_or(WIDTH).max(NARROWEST)
}

fn header(info: &TreeInfo, path: &[NodeHead], model: &str, width: usize) -> String {
    let tree = &info.tree;
    let mut about = format!("tree {}, a {}", output::visible(&tree.id), tree.mode);
    let title = tree.title.as_deref().unwrap_or_default();
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if !title.is_empty() {
        let _ = write!(about, ": {}", output::visible(&title));
    }
    let counts = format!(
        "{}, {}; tokens of {}; ",
        output::many(info.nodes, "node"),
        output::many(info.edges, "edge"),
        output::visible(model)
    );
    let shown = match path.last() {
        Some(head) => format!(
            "● marks the path to {}, {}",
            output::visible(&head.local_id),
            output::many(path.len() as u64, "node")
        ),
        None => "draw the path to a node with --head NODE".to_owned(),
    };
    let line = cut(&format!("{counts}{shown}"), width);
    // Colours have no width, so that they come last.
    let line = match line.strip_prefix(&*counts) {
        Some(shown) => match shown.strip_prefix('●') {
            Some(rest) => format!("{counts}{PATH}●{PATH:#}{rest}"),
            None => line,
        },
        None => line,
    };
    format!("{}\n{line}\n\n", cut(&about, width))
}

/// Writes the lines of a drawing.
fn rows(shape: &Shape<'_>, lines: &[Line], tokens: &[u64], width: usize, out: &mut String) {
    let id_width = lines.iter().filter_map(|line| match line.what {
        LineContent::Node(at) => Some(output::visible(shape.local_id(at)).width()),
        LineContent::Fold(_) => None,
    });
    let id_width = id_width.max().unwrap_or_default();
    let authors = lines.iter().filter_map(|line| match line.what {
        LineContent::Node(at) => Some(author(&shape.nodes[at].0).width()),
        LineContent::Fold(_) => None,
    });
    let author_width = authors.max().unwrap_or_default();
    let numbers: Vec<String> = tokens.iter().map(|tokens| grouped(*tokens)).collect();
    let number_width = numbers.iter().map(String::len).max().unwrap_or_default();
    let mut numbers = numbers.iter();
    let mut is_folded = false;
    for line in lines {
        let at = match line.what {
            LineContent::Node(at) => at,
            LineContent::Fold(folded) => {
                is_folded = true;
                let told = told_fold(folded);
                let _ = writeln!(out, "{}⋮ {DIM}{told}{DIM:#}", lead(&line.prefix));
                continue;
            }
        };
        let (node, spot) = (&shape.nodes[at].0, &shape.spots[at]);
        let symbol = match spot.kind {
            _ if spot.on_path => '●',
            Kind::Version => '◌',
            Kind::Annotation => '✎',
            Kind::Context | Kind::Instruction => '◆',
            Kind::Continuation => '○',
        };
        let style = if spot.on_path { PATH } else { PLAIN };
        let id = output::visible(&node.local_id);
        let number = numbers.next().map_or("", String::as_str);
        let _ = write!(
            out,
            "{}{style}{symbol} {}{style:#} {} {number:>number_width$}",
            lead(&line.prefix),
            padded(&id, id_width),
            padded(&author(node), author_width),
        );
        // With the symbol and three blanks.
        let used = line.prefix.width() + id_width + author_width + number_width + 4;
        let mut room = width.saturating_sub(used + 2);
        let notes = output::visible(&notes(shape, at));
        if !notes.is_empty() {
            let notes = cut(&format!("[{notes}]"), room);
            let _ = write!(out, "  {NOTE}{notes}{NOTE:#}");
            room = room.saturating_sub(notes.width() + 1);
        }
        let text = cut(&preview(node, &shape.nodes[at].1), room);
        if !text.is_empty() {
            let gap = if notes.is_empty() { "  " } else { " " };
            let gone = node.flags.excluded || node.flags.pruned || spot.is_replaced;
            let style = if gone { DIM } else { PLAIN };
            let _ = write!(out, "{gap}{style}{text}{style:#}");
        }
        out.push('\n');
    }
    if is_folded {
        let _ = writeln!(
            out,
            "\n{DIM}⋮ marks nodes that are not shown; show all with --all, or a part with --from \
             NODE{DIM:#}"
        );
    }
}

/// Returns the lines that connect a node to its parent.
fn lead(prefix: &str) -> String {
    match prefix.is_empty() {
        true => String::new(),
        false => format!("{DIM}{prefix}{DIM:#}"),
    }
}

fn padded(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(blanks))
}

/// Returns the author of a node.
fn author(node: &NodeHead) -> String {
    match &node.author_agent_id {
        Some(agent) => format!("{} {}", node.author.name(), output::visible(agent)),
        None => node.author.name().to_owned(),
    }
}

fn told_fold(folded: FoldedNodes) -> String {
    let mut parts = Vec::new();
    if folded.nodes > 0 {
        parts.push(output::many(folded.nodes, "node"));
    }
    if folded.branches > 0 {
        let branches = match folded.branches {
            1 => "1 branch".to_owned(),
            many => format!("{} branches", grouped(many)),
        };
        let nodes = output::many(folded.in_branches, "node");
        parts.push(format!("{branches} with {nodes}"));
    }
    parts.join(", ")
}

/// Returns the notes about a node besides its content.
fn notes(shape: &Shape<'_>, at: usize) -> String {
    let (node, spot) = (&shape.nodes[at].0, &shape.spots[at]);
    let mut notes: Vec<String> = Vec::new();
    notes.extend(spot.agents.iter().map(|agent| format!("@{agent}")));
    notes.extend(
        super::node::flag_names(node.flags)
            .iter()
            .map(|&name| name.to_owned()),
    );
    notes.extend(spot.paths.iter().map(|name| format!("path {name}")));
    if let (Kind::Context | Kind::Instruction, Some(of)) = (spot.kind, spot.for_node) {
        notes.push(format!("{} for {}", spot.kind.name(), shape.local_id(of)));
    }
    if let Some(from) = node.edited_from.as_deref().and_then(|id| shape.find(id)) {
        notes.push(format!("edit of {}", shape.local_id(from)));
    } else if spot.is_replaced {
        notes.push("edited".to_owned());
    }
    let material = spot.material.iter();
    let material = material.map(|(kind, at)| format!("{} {}", kind.name(), shape.local_id(*at)));
    let before = spot.also_after.iter();
    let before = before.map(|at| format!("also after {}", shape.local_id(*at)));
    let sources = spot.material.len() + spot.also_after.len();
    notes.extend(material.chain(before).take(MOST_SOURCES));
    if sources > MOST_SOURCES {
        notes.push(format!("{} more", grouped((sources - MOST_SOURCES) as u64)));
    }
    notes.join(", ")
}

/// Returns the beginning of a node's content, on one line.
fn preview(node: &NodeHead, text: &str) -> String {
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if said.is_empty() {
        let blank = if node.bytes == 0 {
            "(empty)"
        } else {
            "(blank)"
        };
        return blank.to_owned();
    }
    // For content that is not text, the store returns the media type.
    let kinds = ["image/", "audio/", "application/", "text/"];
    let is_media = kinds.iter().any(|kind| said.starts_with(kind));
    if is_media && !said.contains(' ') && node.bytes != text.len() as u64 {
        return format!("({})", output::visible(&said));
    }
    let mut said = output::visible(&said);
    if node.bytes > text.len() as u64 {
        said.push('…');
    }
    said
}

/// Returns `text`, or its beginning with a mark at the end, at most `room`
/// columns wide.
fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    if room < 4 {
        return String::new();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide >= room {
            break;
        }
        used += wide;
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    if !out.ends_with('…') {
        out.push('…');
    }
    out
}

fn as_json(
    shape: &Shape<'_>,
    info: &TreeInfo,
    path: &[NodeHead],
    lines: &[Line],
    tokens: &[u64],
) -> anyhow::Result<()> {
    let id = |at: usize| &*shape.nodes[at].0.id;
    let at = |line: &Line| match line.what {
        LineContent::Node(at) => Some(at),
        LineContent::Fold(_) => None,
    };
    let nodes: Vec<Value> = (lines.iter().filter_map(at).zip(tokens))
        .map(|(at, tokens)| {
            let ((node, text), spot) = (&shape.nodes[at], &shape.spots[at]);
            let mut value = json!(node);
            if let Value::Object(map) = &mut value {
                let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
                put("tokens", json!(tokens));
                put("preview", json!(text));
                put("on_path", json!(spot.on_path));
                put("parent", json!(spot.parent.map(id)));
                put("kind", json!(spot.parent.map(|_| spot.kind.name())));
                put("agents", json!(spot.agents));
                put("paths", json!(spot.paths));
            }
            value
        })
        .collect();
    let path: Vec<&str> = path.iter().map(|node| &*node.id).collect();
    let value = json!({"tree": info, "path": path, "nodes": nodes});
    output::text(&format!("{value:#}\n"))
}
