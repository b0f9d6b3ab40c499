//! Trees as drawings.

mod draw;
mod shape;

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use contexture::core::grouped;
use contexture::store::{Flags, NodeHead, Skeleton, TreeInfo};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use self::draw::{DrawOptions, FoldedNodes, Line, LineContent};
use self::shape::{Kind, Shape};
use crate::text::{self, cut, padded};

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

/// The part of a tree to draw.
#[derive(Debug, Clone, Copy)]
pub struct TreePart<'a> {
    /// The id of the first node. Default: the root.
    pub from: Option<&'a str>,
    /// The maximum depth, in nodes.
    pub depth: usize,
    /// Whether all nodes are shown, without folding.
    pub all: bool,
}

/// A tree, or a part of it, as it is drawn.
pub struct TreeDrawing<'a> {
    info: &'a TreeInfo,
    path: &'a [NodeHead],
    shape: Shape<'a>,
    lines: Vec<Line>,
}

impl<'a> TreeDrawing<'a> {
    /// Draws a tree; `path` is the path to mark, the root first. `None` if the tree
    /// has no nodes.
    pub fn new(
        skeleton: &'a Skeleton,
        info: &'a TreeInfo,
        path: &'a [NodeHead],
        part: TreePart<'_>,
    ) -> Option<Self> {
        let shape = Shape::new(skeleton, info, path);
        let named = match part.from {
            Some(id) => shape.find(id),
            None => shape.root,
        }?;
        let wanted = DrawOptions {
            from: match &shape.spots[named] {
                // Nodes that follow a replaced version are drawn below the version
                // that replaces it.
                spot if spot.is_replaced => spot.parent.unwrap_or(named),
                _ => named,
            },
            named,
            depth: part.depth,
            all: part.all,
        };
        let lines = draw::lines(&shape, wanted);
        Some(Self {
            info,
            path,
            shape,
            lines,
        })
    }

    fn nodes(&self) -> impl Iterator<Item = usize> {
        self.lines.iter().filter_map(|line| match line.what {
            LineContent::Node(at) => Some(at),
            LineContent::Fold(_) => None,
        })
    }

    /// Returns the ids of the nodes that are drawn, in the order of their lines.
    pub fn node_ids(&self) -> Vec<&str> {
        self.nodes().map(|at| &*self.shape.nodes[at].0.id).collect()
    }

    /// Returns the drawing in lines of at most `width` columns. `tokens` are those of
    /// each drawn node for a model.
    pub fn text(&self, tokens: &[u64], model: &str, width: Option<usize>) -> String {
        let width = width.unwrap_or(WIDTH).max(NARROWEST);
        let mut out = header(self.info, self.path, model, width);
        rows(&self.shape, &self.lines, tokens, width, &mut out);
        out
    }

    /// Returns the drawn nodes as JSON.
    pub fn json(&self, tokens: &[u64]) -> Value {
        let (shape, info) = (&self.shape, self.info);
        let id = |at: usize| &*shape.nodes[at].0.id;
        let nodes: Vec<Value> = (self.nodes().zip(tokens))
            .map(|(at, tokens)| {
                let ((node, text), spot) = (&shape.nodes[at], &shape.spots[at]);
                let mut value = json!(node);
                if let Value::Object(map) = &mut value {
                    let mut put =
                        |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
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
        let path: Vec<&str> = self.path.iter().map(|node| &*node.id).collect();
        json!({"tree": info, "path": path, "nodes": nodes})
    }
}

/// Returns the names of the flags that are set.
pub fn flag_names(flags: Flags) -> Vec<&'static str> {
    let all = [
        (flags.excluded, "excluded"),
        (flags.pruned, "pruned"),
        (flags.bookmarked, "bookmarked"),
    ];
    let set = all.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, name)| name).collect()
}

fn header(info: &TreeInfo, path: &[NodeHead], model: &str, width: usize) -> String {
    let tree = &info.tree;
    let mut about = format!("tree {}, a {}", text::visible(&tree.id), tree.mode);
    let title = tree.title.as_deref().unwrap_or_default();
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if !title.is_empty() {
        let _ = write!(about, ": {}", text::visible(&title));
    }
    let counts = format!(
        "{}, {}; tokens of {}; ",
        text::many(info.nodes, "node"),
        text::many(info.edges, "edge"),
        text::visible(model)
    );
    let shown = match path.last() {
        Some(head) => format!(
            "● marks the path to {}, {}",
            text::visible(&head.local_id),
            text::many(path.len() as u64, "node")
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
        LineContent::Node(at) => Some(text::visible(shape.local_id(at)).width()),
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
                let told = describe_fold(folded);
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
        let id = text::visible(&node.local_id);
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
        let notes = text::visible(&notes(shape, at));
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

/// Returns the author of a node.
fn author(node: &NodeHead) -> String {
    match &node.author_agent_id {
        Some(agent) => format!("{} {}", node.author.name(), text::visible(agent)),
        None => node.author.name().to_owned(),
    }
}

fn describe_fold(folded: FoldedNodes) -> String {
    let mut parts = Vec::new();
    if folded.nodes > 0 {
        parts.push(text::many(folded.nodes, "node"));
    }
    if folded.branches > 0 {
        let branches = match folded.branches {
            1 => "1 branch".to_owned(),
            many => format!("{} branches", grouped(many)),
        };
        let nodes = text::many(folded.in_branches, "node");
        parts.push(format!("{branches} with {nodes}"));
    }
    parts.join(", ")
}

/// Returns the notes about a node besides its content.
fn notes(shape: &Shape<'_>, at: usize) -> String {
    let (node, spot) = (&shape.nodes[at].0, &shape.spots[at]);
    let mut notes: Vec<String> = Vec::new();
    notes.extend(spot.agents.iter().map(|agent| format!("@{agent}")));
    notes.extend(flag_names(node.flags).iter().map(|&name| name.to_owned()));
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
        return format!("({})", text::visible(&said));
    }
    let mut said = text::visible(&said);
    if node.bytes > text.len() as u64 {
        said.push('…');
    }
    said
}
