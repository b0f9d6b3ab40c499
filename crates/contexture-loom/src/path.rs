//! The path from a node of a tree back to its root.
//!
//! The store returns unambiguous steps in long runs. Only nodes with several
//! edges or versions need a choice.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::cache::Cache;
use contexture_store::{Arrival, Edge, NodeHead, SourceRole, Step, TreeInfo, Trees};

use contexture_engine::{Advice, Error, Operation};

/// A node on a path.
#[derive(Debug)]
pub(crate) struct PathNode {
    pub(crate) node: NodeHead,
    /// Whether it is an annotation of the node before it.
    pub(crate) is_annotation: bool,
    /// The edge from here to the next node of the path, if it has other sources
    /// besides this one.
    pub(crate) onward: Option<Edge>,
    /// Other versions of the node, which are not on the path.
    pub(crate) others: Vec<NodeHead>,
}

/// The part of a path that was walked.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    // Shared with the cache: a long path is not copied for each request.
    places: Arc<Vec<Arc<PathNode>>>,
    from: usize,
    /// Whether the path was walked to its root.
    pub(crate) is_whole: bool,
}

impl Path {
    /// Returns the nodes of the path, newest first.
    pub(crate) fn places(&self) -> &[Arc<PathNode>] {
        &self.places[self.from..]
    }

    /// Returns the number of nodes that are completely known. The edge to the
    /// last one is known only after the next step.
    pub(crate) fn settled(&self) -> usize {
        self.places().len() - usize::from(!self.is_whole)
    }

    /// Returns the approximate size in memory, in bytes.
    fn bytes(&self) -> usize {
        let heads = self.places.iter().map(|place| {
            let sources = place.onward.iter().map(|edge| edge.sources.len());
            1 + place.others.len() + sources.sum::<usize>()
        });
        HEAD_BYTES * heads.sum::<usize>()
    }
}

/// The number of nodes in the first query to the store, and in the largest:
/// each query asks for four times as many as the one before.
const FIRST_RUN: usize = 16;
const LONGEST_RUN: usize = 4096;

/// The number of latest nodes of a cached path that are searched for the node
/// at which a new path joins it.
const MEETING: usize = 64;

/// The approximate size in memory of a node without its content, in bytes.
const HEAD_BYTES: usize = 320;

/// Paths that were walked before.
#[derive(Debug, Default)]
pub(crate) struct PathCache {
    // With the epoch of the tree that each was walked in.
    known: Cache<Key, (u64, Path)>,
}

/// A tree, and the choices on the path.
type Key = (String, Vec<String>);

/// Walks from a node towards the root.
pub(crate) struct Walker<'a> {
    pub(crate) store: &'a dyn Trees,
    /// The cache of walked paths. `None` for no cache.
    pub(crate) cache: Option<&'a PathCache>,
    pub(crate) info: &'a TreeInfo,
    /// The nodes and edges to choose where there are several.
    pub(crate) choices: &'a [String],
}

impl Walker<'_> {
    /// Begins a path at `head`.
    pub(crate) fn begin(&self, head: NodeHead) -> Path {
        let known = self.known();
        let known = known.and_then(|known| Some((meeting(&known, &head.id)?, known)));
        let Some((at, mut path)) = known else {
            return Path {
                places: Arc::new(vec![Arc::new(PathNode::of(head, false))]),
                from: 0,
                is_whole: false,
            };
        };
        path.from += at;
        let first = &path.places()[0];
        if first.onward.is_some() || !first.others.is_empty() {
            // The path ends here: it has no next node, and its last node was
            // named.
            let first = Arc::new(PathNode::of(head, first.is_annotation));
            let mut places = path.places().to_vec();
            places[0] = first;
            (path.places, path.from) = (Arc::new(places), 0);
        }
        path
    }

    /// Walks on until the path has at least `wanted` nodes, or is whole.
    pub(crate) fn walk(&self, path: &mut Path, wanted: usize) -> Result<(), Error> {
        if path.is_whole || path.places().len() >= wanted {
            return Ok(());
        }
        let known = self.known();
        let mut places = path.places().to_vec();
        let mut run = FIRST_RUN;
        while !path.is_whole && places.len() < wanted {
            let Some(last) = places.last() else {
                break;
            };
            let met = known.as_ref().filter(|_| places.len() < MEETING);
            if let Some(known) = met
                && let Some(at) = meeting(known, &last.node.id)
                && let [here, before @ ..] = &known.places()[at..]
                && !before.is_empty()
            {
                if last.is_annotation != here.is_annotation {
                    let here = last.reached_by(here.is_annotation);
                    places.pop();
                    places.push(here);
                }
                places.extend_from_slice(before);
                path.is_whole = known.is_whole;
                continue;
            }
            match last.node.step.clone() {
                Step::Nothing => path.is_whole = true,
                Step::Plain { parent } => {
                    let climbed = self.store.climb(&self.info.tree.id, &parent, run)?;
                    let climbed = climbed.into_iter().map(|node| PathNode::of(node, false));
                    places.extend(climbed.map(Arc::new));
                    run = (run * 4).min(LONGEST_RUN);
                }
                Step::Look => match self.decide(last)? {
                    Some(both) => {
                        places.pop();
                        places.extend(both);
                    }
                    None => path.is_whole = true,
                },
            }
            // The store rejects cycles, so this tree is damaged, unless another
            // writer has added nodes meanwhile.
            let walked = places.len() as u64;
            if walked > self.info.nodes && walked > self.store.tree(&self.info.tree.id)?.nodes {
                let last = places.last().map(|place| place.node.id.clone());
                return Err(Error::damage(format!(
                    "the ancestors of node `{}` of tree `{}` form a cycle",
                    last.unwrap_or_default(),
                    self.info.tree.id
                )));
            }
        }
        (path.places, path.from) = (Arc::new(places), 0);
        self.keep(path);
        Ok(())
    }

    /// Chooses the predecessor of a node with several edges, sources or
    /// versions. Returns the completed node and its predecessor, or `None` for
    /// a root.
    fn decide(&self, place: &Arc<PathNode>) -> Result<Option<[Arc<PathNode>; 2]>, Error> {
        let arrivals = self.store.arrivals(&self.info.tree.id, &place.node.id)?;
        let Some(arrival) = choose_arrival(&place.node, &arrivals, self.choices)? else {
            return Ok(None);
        };
        let Some(version) = choose_version(&arrival.versions, self.choices) else {
            return Err(Error::damage(format!(
                "edge `{}` of tree `{}` has no primary source",
                arrival.edge.id, self.info.tree.id
            )));
        };
        let others = arrival.versions.iter();
        let others = others.filter(|other| other.id != version.id);
        let has_more = |edge: &Edge| {
            let mut sources = edge.sources.iter();
            sources.any(|source| source.role != SourceRole::Primary)
        };
        let before = PathNode {
            node: version.clone(),
            is_annotation: false,
            onward: Some(arrival.edge.clone()).filter(has_more),
            others: others.cloned().collect(),
        };
        let here = place.reached_by(!arrival.edge.continues());
        Ok(Some([here, Arc::new(before)]))
    }

    fn key(&self) -> Key {
        (self.info.tree.id.clone(), self.choices.to_vec())
    }

    fn known(&self) -> Option<Path> {
        let (epoch, path) = self.cache?.known.get(&self.key())?;
        (epoch == self.info.epoch).then_some(path)
    }

    fn keep(&self, path: &Path) {
        if let Some(cache) = self.cache {
            let kept = (self.info.epoch, path.clone());
            cache.known.insert(self.key(), kept, path.bytes());
        }
    }
}

impl PathNode {
    fn of(node: NodeHead, is_annotation: bool) -> Self {
        Self {
            node,
            is_annotation,
            onward: None,
            others: Vec::new(),
        }
    }

    /// Returns the node with the kind of edge that leads to it.
    fn reached_by(self: &Arc<Self>, is_annotation: bool) -> Arc<Self> {
        if self.is_annotation == is_annotation {
            return Arc::clone(self);
        }
        Arc::new(Self {
            node: self.node.clone(),
            is_annotation,
            onward: self.onward.clone(),
            others: self.others.clone(),
        })
    }
}

/// Returns the index of `id` among the latest nodes of a walked path.
fn meeting(path: &Path, id: &str) -> Option<usize> {
    let mut latest = path.places().iter().take(MEETING);
    latest.position(|place| place.node.id == id)
}

/// Returns the edge that leads to a node on the path: a continuation, else an
/// annotation. Returns `None` for a root.
fn choose_arrival<'a>(
    node: &NodeHead,
    arrivals: &'a [Arrival],
    choices: &[String],
) -> Result<Option<&'a Arrival>, Error> {
    let of_kind = |continues: bool| -> Vec<&Arrival> {
        let all = arrivals.iter();
        all.filter(|arrival| arrival.edge.continues() == continues)
            .collect()
    };
    let continuations = of_kind(true);
    let (kind, ways) = match continuations.is_empty() {
        false => ("continuation", continuations),
        true => ("annotation", of_kind(false)),
    };
    let (&[] | &[_]) = ways.as_slice() else {
        let is_chosen = |arrival: &Arrival| {
            let sources = arrival.versions.iter().map(|version| &version.id);
            let mut names = sources.chain([&arrival.edge.id]);
            names.any(|name| choices.contains(name))
        };
        // A named edge is more specific than a node that several edges come
        // from.
        let by_edge = ways.iter().filter(|way| choices.contains(&way.edge.id));
        let by_edge: Vec<&&Arrival> = by_edge.collect();
        let chosen: Vec<&&Arrival> = match by_edge.is_empty() {
            false => by_edge,
            true => ways.iter().filter(|way| is_chosen(way)).collect(),
        };
        if let [one] = chosen.as_slice() {
            return Ok(Some(one));
        }
        let listed: Vec<String> = ways
            .iter()
            .map(|way| {
                let from = way.edge.sources_as(SourceRole::Primary);
                let from: Vec<String> = from.map(|id| format!("`{id}`")).collect();
                format!("`{}` from {}", way.edge.id, from.join(" or "))
            })
            .collect();
        return Err(Error::input(format!(
            "node `{}` is reached by several {kind} edges: {}",
            node.id,
            listed.join(", ")
        ))
        .advise(Advice::call(Operation::SavePath))
        .advise(Advice::set("path")));
    };
    Ok(ways.first().copied())
}

/// Returns the version to use for a node: the chosen one, else the latest edit
/// that is not pruned.
pub(super) fn choose_version<'a>(
    versions: &'a [NodeHead],
    choices: &[String],
) -> Option<&'a NodeHead> {
    let chosen = |node: &&NodeHead| choices.contains(&node.id);
    let there = |node: &&NodeHead| !node.flags.pruned;
    let depths = depths(versions);
    let latest = |these: &mut dyn Iterator<Item = &'a NodeHead>| {
        these.max_by_key(|node| (node.created_at, depths.get(&*node.id), &node.id))
    };
    latest(&mut versions.iter().filter(chosen))
        .or_else(|| latest(&mut versions.iter().filter(there)))
        .or_else(|| latest(&mut versions.iter()))
}

/// Returns the number of edits that lead to each version: of two versions with
/// the same time, the edit of the other is the later one.
fn depths(versions: &[NodeHead]) -> BTreeMap<&str, usize> {
    let from: BTreeMap<&str, Option<&str>> = versions
        .iter()
        .map(|version| (&*version.id, version.edited_from.as_deref()))
        .collect();
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    for version in versions {
        // By hand, not by recursion: there may be many edits of edits.
        let mut open = Vec::new();
        let mut next = Some(&*version.id);
        let mut depth = 0;
        while let Some(id) = next
            && open.len() <= versions.len()
        {
            if let Some(known) = depths.get(id) {
                depth = known + 1;
                break;
            }
            open.push(id);
            next = from.get(id).copied().flatten();
        }
        for id in open.into_iter().rev() {
            depths.insert(id, depth);
            depth += 1;
        }
    }
    depths
}
