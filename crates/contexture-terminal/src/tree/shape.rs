//! The layout of a tree for drawing: every node has exactly one parent.
//!
//! A node can be reached over several edges and can have versions, so the data
//! is not strictly a tree. Here each node gets one parent: its predecessor on
//! the shown path, else the source of its first edge.

use std::collections::{BTreeSet, HashMap};

use contexture::store::{NodeHead, Skeleton, SourceRole, TreeInfo};

/// The relation of a node to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Another version of the same node.
    Version,
    /// An annotation of the parent.
    Annotation,
    /// A context source of the node that continues from it.
    Context,
    /// An instruction for the node that continues from it.
    Instruction,
    /// A continuation of the parent.
    Continuation,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Version => "version",
            Kind::Annotation => "annotation",
            Kind::Context => "context",
            Kind::Instruction => "instruction",
            Kind::Continuation => "continuation",
        }
    }
}

/// The position of a node in the drawing.
#[derive(Debug)]
pub(crate) struct NodePosition {
    pub(crate) parent: Option<usize>,
    pub(crate) kind: Kind,
    /// For a context or instruction source: the node that uses it.
    pub(crate) for_node: Option<usize>,
    /// The nodes below it. The last one may continue at the same level.
    pub(crate) children: Vec<usize>,
    /// The last of `children`, if it continues at the same level.
    pub(crate) trunk: Option<usize>,
    pub(crate) on_path: bool,
    /// Other nodes that it follows, too.
    pub(crate) also_after: Vec<usize>,
    /// Context and instruction sources of the node that are drawn elsewhere.
    pub(crate) material: Vec<(Kind, usize)>,
    /// Whether another version replaces it.
    pub(crate) is_replaced: bool,
    /// The agents at this node, and the saved paths that end here.
    pub(crate) agents: Vec<String>,
    pub(crate) paths: Vec<String>,
    /// The number of nodes from here on, including this one.
    pub(crate) size: u64,
    /// Whether one of them has a mark that must be visible.
    pub(crate) has_marks: bool,
}

/// A tree with the position of each node.
pub(crate) struct Shape<'a> {
    pub(crate) nodes: &'a [(NodeHead, String)],
    pub(crate) spots: Vec<NodePosition>,
    pub(crate) root: Option<usize>,
    /// The end of the shown path.
    pub(crate) head: Option<usize>,
    index: HashMap<&'a str, usize>,
}

impl<'a> Shape<'a> {
    /// Finds the positions of all nodes; `path` is the shown path, the root
    /// first.
    pub(crate) fn new(skeleton: &'a Skeleton, info: &TreeInfo, path: &[NodeHead]) -> Self {
        let nodes = &skeleton.nodes[..];
        let index: HashMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .map(|(i, (node, _))| (&*node.id, i))
            .collect();
        let spots = nodes.iter().map(|_| NodePosition::new()).collect();
        let mut shape = Self {
            nodes,
            spots,
            root: None,
            head: None,
            index,
        };
        for agent in &info.agents {
            let at = agent.position.as_deref().and_then(|id| shape.find(id));
            if let Some(at) = at {
                shape.spots[at].agents.push(agent.id.clone());
            }
        }
        for saved in &info.paths {
            if let Some(at) = shape.find(&saved.head) {
                shape.spots[at].paths.push(saved.name.clone());
            }
        }
        let mut before_on_path = HashMap::new();
        let mut before = None;
        for node in path {
            let Some(at) = shape.find(&node.id) else {
                continue;
            };
            shape.spots[at].on_path = true;
            before_on_path.extend(before.map(|before| (at, before)));
            before = Some(at);
        }
        shape.head = before;
        shape.connect(skeleton, info.root.as_deref(), &before_on_path);
        shape.order();
        shape
    }

    /// Returns the index of a node.
    pub(crate) fn find(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }

    pub(crate) fn local_id(&self, at: usize) -> &'a str {
        &self.nodes[at].0.local_id
    }

    /// Sets the parent of every node.
    fn connect(
        &mut self,
        skeleton: &Skeleton,
        root: Option<&str>,
        before_on_path: &HashMap<usize, usize>,
    ) {
        let mut arrivals = vec![Vec::new(); self.nodes.len()];
        for edge in &skeleton.edges {
            if let Some(at) = self.find(&edge.target_node_id) {
                arrivals[at].push(edge);
            }
        }
        let standing = self.standing(&arrivals, before_on_path);
        let root = root.and_then(|id| self.find(id));
        self.root = root.map(|at| standing[at]);
        for at in 0..self.nodes.len() {
            let stands = standing[at];
            if stands != at {
                self.spots[at].is_replaced = true;
                self.spots[at].parent = Some(stands);
                self.spots[at].kind = Kind::Version;
            }
            let edges = &arrivals[at];
            let continues = edges.iter().filter(|edge| edge.continues());
            let remarks = edges.iter().filter(|edge| !edge.continues());
            let first = continues.chain(remarks).next();
            let Some(first) = first else { continue };
            // The edges of a node with versions are those of its first version.
            let mut befores: BTreeSet<usize> = BTreeSet::new();
            for edge in edges {
                let primary = edge.sources_as(SourceRole::Primary);
                let latest = primary.filter_map(|id| self.find(id)).max();
                befores.extend(latest.map(|before| standing[before]));
            }
            let primary = first.sources_as(SourceRole::Primary);
            let latest = primary.filter_map(|id| self.find(id)).max();
            let usual = latest.map(|before| standing[before]);
            let taken = before_on_path.get(&stands).copied().or(usual);
            let spot = &mut self.spots[stands];
            spot.parent = taken;
            spot.kind = match first.continues() {
                true => Kind::Continuation,
                false => Kind::Annotation,
            };
            spot.also_after = befores
                .into_iter()
                .filter(|before| Some(*before) != taken)
                .collect();
        }
        for edge in &skeleton.edges {
            let Some(target) = self.find(&edge.target_node_id) else {
                continue;
            };
            let target = standing[target];
            for source in &edge.sources {
                let kind = match source.role {
                    SourceRole::Primary => continue,
                    SourceRole::Context => Kind::Context,
                    SourceRole::Instruction => Kind::Instruction,
                };
                let Some(at) = self.find(&source.node_id) else {
                    continue;
                };
                let stands = standing[at];
                let is_free = self.spots[stands].parent.is_none() && Some(stands) != self.root;
                let parent = self.spots[target].parent;
                if is_free && parent != Some(stands) {
                    let spot = &mut self.spots[stands];
                    spot.parent = parent;
                    spot.kind = kind;
                    spot.for_node = Some(target);
                } else {
                    self.spots[target].material.push((kind, at));
                }
            }
        }
    }

    /// Returns for each node the version that replaces it, or the node itself
    /// if there is none.
    fn standing<T>(
        &self,
        arrivals: &[Vec<T>],
        before_on_path: &HashMap<usize, usize>,
    ) -> Vec<usize> {
        let count = self.nodes.len();
        // The first version of the place, and how many edits lead from it.
        let mut first: Vec<Option<(usize, usize)>> = vec![None; count];
        for start in 0..count {
            let mut chain = vec![];
            let mut at = start;
            let (base, mut depth) = loop {
                if let Some(known) = first[at] {
                    break known;
                }
                let from = self.nodes[at].0.edited_from.as_deref();
                let from = from.filter(|_| arrivals[at].is_empty());
                match from.and_then(|id| self.find(id)) {
                    Some(from) if chain.len() < count => {
                        chain.push(at);
                        at = from;
                    }
                    _ => {
                        first[at] = Some((at, 0));
                        break (at, 0);
                    }
                }
            };
            for &at in chain.iter().rev() {
                depth += 1;
                first[at] = Some((base, depth));
            }
        }
        let base = |at: usize| first[at].map_or(at, |(base, _)| base);
        let on_path = |at: usize| self.spots[at].on_path || before_on_path.contains_key(&at);
        let rank = |at: usize| {
            let node = &self.nodes[at].0;
            let depth = first[at].map_or(0, |(_, depth)| depth);
            let there = !node.flags.pruned;
            (on_path(at), there, node.created_at, depth, at)
        };
        let mut best: HashMap<usize, usize> = HashMap::new();
        for at in 0..count {
            let best = best.entry(base(at)).or_insert(at);
            if rank(at) > rank(*best) {
                *best = at;
            }
        }
        (0..count)
            .map(|at| best.get(&base(at)).copied().unwrap_or(at))
            .collect()
    }

    /// Sorts the children of each node.
    fn order(&mut self) {
        for at in 0..self.nodes.len() {
            if let Some(parent) = self.spots[at].parent {
                self.spots[parent].children.push(at);
            }
        }
        let order = self.reached(self.root);
        for &at in order.iter().rev() {
            let (node, spot) = (&self.nodes[at].0, &self.spots[at]);
            let marked = node.flags.bookmarked
                || !spot.agents.is_empty()
                || !spot.paths.is_empty()
                || spot.on_path;
            let below = spot.children.iter().map(|&child| &self.spots[child]);
            let size = 1 + below.clone().map(|child| child.size).sum::<u64>();
            let has_marks = marked || below.clone().any(|child| child.has_marks);
            let spot = &mut self.spots[at];
            (spot.size, spot.has_marks) = (size, has_marks);
        }
        for at in order {
            let children = std::mem::take(&mut self.spots[at].children);
            let trunk = self.trunk(at, &children);
            let mut sorted = children;
            // Context and instruction sources come right before the node that
            // uses them.
            sorted.sort_by_key(|&child| {
                let spot = &self.spots[child];
                let of = spot.for_node.unwrap_or(child);
                let group = match spot.kind {
                    Kind::Version => 0,
                    _ if Some(of) == trunk => 3,
                    Kind::Annotation => 1,
                    _ => 2,
                };
                let is_material = matches!(spot.kind, Kind::Context | Kind::Instruction);
                (group, of, !is_material, child)
            });
            let spot = &mut self.spots[at];
            (spot.children, spot.trunk) = (sorted, trunk);
        }
    }

    /// Returns the child that continues at the same level. An annotation can
    /// continue another annotation.
    fn trunk(&self, at: usize, children: &[usize]) -> Option<usize> {
        let is_remark = self.spots[at].kind == Kind::Annotation;
        let goes_on = children.iter().copied().filter(|&child| {
            let spot = &self.spots[child];
            spot.kind == Kind::Continuation
                || spot.kind == Kind::Annotation && (is_remark || spot.on_path)
        });
        goes_on.max_by_key(|&child| {
            let spot = &self.spots[child];
            // The first of equal ones.
            (spot.on_path, spot.kind, spot.size, std::cmp::Reverse(child))
        })
    }

    /// Returns a node and all nodes below it, parents first.
    fn reached(&self, from: Option<usize>) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack: Vec<usize> = from.into_iter().collect();
        while let Some(at) = stack.pop() {
            order.push(at);
            if order.len() > self.nodes.len() {
                break;
            }
            stack.extend(&self.spots[at].children);
        }
        order
    }
}

impl NodePosition {
    fn new() -> Self {
        Self {
            parent: None,
            kind: Kind::Continuation,
            for_node: None,
            children: Vec::new(),
            trunk: None,
            on_path: false,
            also_after: Vec::new(),
            material: Vec::new(),
            is_replaced: false,
            agents: Vec::new(),
            paths: Vec::new(),
            size: 1,
            has_marks: false,
        }
    }
}
