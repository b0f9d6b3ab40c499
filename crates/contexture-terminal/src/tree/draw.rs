//! Draws a tree as lines of text.
//!
//! The main continuation of a node is below it at the same level; other
//! branches are indented and come before it. The largest branch stays at the
//! same level, so a tree of `n` nodes has few levels of indentation. No
//! function here is recursive, because paths may be long.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::shape::{Kind, Shape};

/// A line of the drawing.
#[derive(Debug)]
pub(crate) struct Line {
    /// The lines that connect it to its parent.
    pub(crate) prefix: String,
    pub(crate) what: LineContent,
}

#[derive(Debug)]
pub(crate) enum LineContent {
    Node(usize),
    Fold(FoldedNodes),
}

/// Nodes that are not shown.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FoldedNodes {
    /// The number of folded nodes at the same level.
    pub(crate) nodes: u64,
    /// The number of their branches, and of the nodes in these.
    pub(crate) branches: u64,
    pub(crate) in_branches: u64,
}

/// The part of a tree to draw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrawOptions {
    /// The first node of the drawing.
    pub(crate) from: usize,
    /// The node that the user named. It may be a version that `from` replaces.
    pub(crate) named: usize,
    /// The maximum depth, in nodes.
    pub(crate) depth: usize,
    /// Whether all nodes are shown, without folding.
    pub(crate) all: bool,
}

/// The maximum number of unmarked nodes that are shown in a row.
const LONGEST_RUN: usize = 8;

/// The number of them that are shown at each end if there are more.
const ENDS: usize = 3;

/// The maximum number of branches of one node that are shown.
const MOST_BRANCHES: usize = 8;

/// The number of lines from which branches of branches are folded.
const MANY_LINES: usize = 400;

/// The maximum number of nodes that are shown because a folded branch leaves
/// the path there.
const MOST_PARTINGS: usize = 12;

/// The maximum indentation of lines, in levels.
const MOST_LEVELS: usize = 24;

/// Draws a tree. A large one is folded until it has at most [`MANY_LINES`]
/// lines.
pub(crate) fn lines(shape: &Shape<'_>, wanted: DrawOptions) -> Vec<Line> {
    let mut drawn = Vec::new();
    for levels in [usize::MAX, 6, 4, 3, 2, 1, 0] {
        drawn = Drawing::new(shape, wanted, levels).draw();
        if wanted.all || drawn.len() <= MANY_LINES {
            break;
        }
    }
    drawn
}

struct Drawing<'s, 'a> {
    shape: &'s Shape<'a>,
    wanted: DrawOptions,
    // Branches that are set in further are folded, unless they have marks.
    levels: usize,
    // Nodes that are never folded, even without marks.
    kept: HashSet<usize>,
    lines: Vec<Line>,
    // Parts that are still to be drawn, the next one last.
    todo: Vec<Pending>,
}

enum Pending {
    Line(Line),
    Chain(Chain),
}

/// Nodes that continue each other at one level.
struct Chain {
    start: usize,
    // The prefix of its first line, and of the others.
    first: String,
    prefix: String,
    level: usize,
    depth: usize,
}

/// The shown and the hidden branches of a node.
struct Siblings {
    shown: Vec<usize>,
    hidden: FoldedNodes,
}

impl<'s, 'a> Drawing<'s, 'a> {
    fn new(shape: &'s Shape<'a>, wanted: DrawOptions, levels: usize) -> Self {
        Self {
            shape,
            wanted,
            levels,
            kept: kept(shape, wanted),
            lines: Vec::new(),
            todo: Vec::new(),
        }
    }

    fn draw(mut self) -> Vec<Line> {
        self.todo.push(Pending::Chain(Chain {
            start: self.wanted.from,
            first: String::new(),
            prefix: String::new(),
            level: 0,
            depth: 0,
        }));
        while let Some(todo) = self.todo.pop() {
            match todo {
                Pending::Line(line) => self.lines.push(line),
                Pending::Chain(chain) => {
                    let mut drawn = self.chain(&chain);
                    drawn.reverse();
                    self.todo.extend(drawn);
                }
            }
        }
        self.lines
    }

    /// Returns the lines of a chain, with the branches between them.
    fn chain(&self, chain: &Chain) -> Vec<Pending> {
        let mut nodes = vec![chain.start];
        let room = self.wanted.depth.saturating_sub(chain.depth);
        while nodes.len() < room
            && let Some(next) = nodes.last().and_then(|&last| self.shape.spots[last].trunk)
        {
            nodes.push(next);
        }
        let ends_early = nodes.len() >= room;
        let beside: Vec<Siblings> = nodes
            .iter()
            .enumerate()
            .map(|(k, &node)| match ends_early && k + 1 == nodes.len() {
                // The nodes below the last one are folded into one line.
                true => Siblings {
                    shown: Vec::new(),
                    hidden: FoldedNodes::default(),
                },
                false => self.siblings(node, chain.level),
            })
            .collect();
        let shown = self.shown(&nodes, &beside);

        let mut out = Vec::new();
        let mut folded: Option<FoldedNodes> = None;
        for (k, (&node, beside)) in nodes.iter().zip(&beside).enumerate() {
            if !shown[k] {
                let folded = folded.get_or_insert_default();
                folded.nodes += 1;
                folded.branches += beside.hidden.branches;
                folded.in_branches += beside.hidden.in_branches;
                continue;
            }
            let at = |prefix: &str, what: LineContent| {
                Pending::Line(Line {
                    prefix: prefix.to_owned(),
                    what,
                })
            };
            if let Some(folded) = folded.take() {
                out.push(at(&chain.prefix, LineContent::Fold(folded)));
            }
            let lead = if k == 0 { &chain.first } else { &chain.prefix };
            out.push(at(lead, LineContent::Node(node)));
            let is_last = k + 1 == nodes.len();
            let below = self.shape.spots[node].size - 1;
            if is_last && ends_early {
                if below > 0 {
                    let below = FoldedNodes {
                        nodes: below,
                        ..FoldedNodes::default()
                    };
                    out.push(at(&chain.prefix, LineContent::Fold(below)));
                }
                break;
            }
            let has_hidden = beside.hidden.branches > 0;
            let sides = beside.shown.len() + usize::from(has_hidden);
            for i in 0..sides {
                let (corner, bar) = match is_last && i + 1 == sides {
                    true => ("└─", "  "),
                    false => ("├─", "│ "),
                };
                let first = format!("{}{corner}", chain.prefix);
                // The hidden branches come first: they are the older ones.
                if has_hidden && i == 0 {
                    out.push(at(&first, LineContent::Fold(beside.hidden)));
                    continue;
                }
                let start = beside.shown[i - usize::from(has_hidden)];
                let prefix = match chain.level < MOST_LEVELS {
                    true => format!("{}{bar}", chain.prefix),
                    false => chain.prefix.clone(),
                };
                out.push(Pending::Chain(Chain {
                    start,
                    first,
                    prefix,
                    level: chain.level + 1,
                    depth: chain.depth + k + 1,
                }));
            }
        }
        out
    }

    /// Returns the shown and the hidden branches of a node.
    fn siblings(&self, node: usize, level: usize) -> Siblings {
        let spot = &self.shape.spots[node];
        let all = spot.children.iter().copied();
        let all = all.filter(|child| Some(*child) != spot.trunk);
        let mut beside = Siblings {
            shown: all.collect(),
            hidden: FoldedNodes::default(),
        };
        if self.wanted.all {
            return beside;
        }
        let is_marked =
            |child: &usize| self.shape.spots[*child].has_marks || self.kept.contains(child);
        let marked = beside.shown.iter().filter(|child| is_marked(child)).count();
        let mut room = match level < self.levels {
            true => MOST_BRANCHES.saturating_sub(marked),
            false => 0,
        };
        // The latest branches are shown, and those with marks.
        let mut shown = Vec::new();
        for &child in beside.shown.iter().rev() {
            if is_marked(&child) {
                shown.push(child);
            } else if room > 0 {
                room -= 1;
                shown.push(child);
            } else {
                beside.hidden.branches += 1;
                beside.hidden.in_branches += self.shape.spots[child].size;
            }
        }
        shown.reverse();
        beside.shown = shown;
        beside
    }

    /// Returns which nodes of a chain are shown: of a long run of unmarked
    /// nodes, only the first and the last.
    fn shown(&self, nodes: &[usize], beside: &[Siblings]) -> Vec<bool> {
        let mut shown = vec![true; nodes.len()];
        if self.wanted.all {
            return shown;
        }
        let is_plain = |k: usize| {
            let is_end = k == 0 || k + 1 == nodes.len();
            !is_end
                && beside[k].shown.is_empty()
                && !self.kept.contains(&nodes[k])
                && self.is_plain(nodes[k])
        };
        let mut k = 0;
        while k < nodes.len() {
            if !is_plain(k) {
                k += 1;
                continue;
            }
            let start = k;
            while k < nodes.len() && is_plain(k) {
                k += 1;
            }
            if k - start > LONGEST_RUN {
                shown[start + ENDS..k - ENDS].fill(false);
            }
        }
        shown
    }

    /// Returns true if a node has no marks, agents, paths or sources to show.
    fn is_plain(&self, node: usize) -> bool {
        let (head, spot) = (&self.shape.nodes[node].0, &self.shape.spots[node]);
        let flags = head.flags;
        !(flags.excluded || flags.pruned || flags.bookmarked)
            && matches!(spot.kind, Kind::Continuation | Kind::Annotation)
            && head.edited_from.is_none()
            && spot.agents.is_empty()
            && spot.paths.is_empty()
            && spot.also_after.is_empty()
            && spot.material.is_empty()
    }
}

/// Returns the nodes that are never folded: the named one, the end of the path,
/// and the nodes at which other branches leave the path. If there are many of
/// the latter, the latest one and those with the largest branches are chosen.
fn kept(shape: &Shape<'_>, wanted: DrawOptions) -> HashSet<usize> {
    let parts = |at: usize| -> Option<(u64, usize)> {
        let spot = &shape.spots[at];
        let others = spot.children.iter().copied();
        let others = others.filter(|child| Some(*child) != spot.trunk);
        let others = others.filter(|child| shape.spots[*child].kind == Kind::Continuation);
        let largest = others.map(|child| shape.spots[child].size).max();
        largest.map(|size| (size, at))
    };
    let path = std::iter::successors(shape.head, |&at| shape.spots[at].parent);
    let mut partings: Vec<(u64, usize)> = path.take(shape.nodes.len()).filter_map(parts).collect();
    if partings.len() > MOST_PARTINGS {
        partings[1..].sort_by_key(|&(size, _)| Reverse(size));
        partings.truncate(MOST_PARTINGS);
    }
    let mut kept: HashSet<usize> = partings.into_iter().map(|(_, at)| at).collect();
    kept.extend(shape.head);
    kept.insert(wanted.named);
    kept
}
