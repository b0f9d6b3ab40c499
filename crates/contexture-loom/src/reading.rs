//! [`LoomReader`]: makes the items of each part of a loom (prompt, context,
//! instructions, nodes).
//!
//! Nodes of a long path are read from both ends until the budget is spent. The
//! nodes between are one row of the report and a number in the marker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_core::guard::Policy;
use contexture_core::{Code, Counts, Cut, Excluded, Fit, Item, Marker, Role, Text, Tokens, Trust};
use contexture_store::{
    AgentMemory, Flags, Node, NodeHead, SourceRole, TreeMode, Trees, TruncationStrategy,
};
use jiff::Timestamp;

use contexture_engine::Error;

use crate::items::{ItemBuilder, Shape};
use crate::path::{Path, PathNode, Walker, choose_version};
use crate::read::{PathItems, Reader};
use crate::source::LoomCache;
use crate::target::Loom;
use crate::{ANNOTATION, OTHER_VERSION, PRUNED, SOURCE_EXCLUDED, aware};

/// A part of a loom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The system prompt of the agent.
    Agent,
    /// The system context of the tree.
    Tree,
    /// The instructions on the path.
    Instructions,
    /// The explanation of looms for a loom-aware agent.
    Addendum,
    /// The pins, recalled texts and actions of a loom-aware agent.
    Memory,
    /// The position of a loom-aware agent.
    Position,
    /// The nodes of the path, for trees of a mode.
    Path(TreeMode),
}

/// The content that is left out of a path so that a part of its latest node
/// fits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Squeeze {
    /// Nothing.
    #[default]
    None,
    /// The marker for the nodes that were cut.
    Marker,
    /// The marker, and the context sources and annotations of nodes.
    Sources,
}

/// The data that the parts of a loom are made from.
pub(crate) struct LoomReader<'a> {
    pub(crate) loom: &'a Loom,
    pub(crate) store: &'a dyn Trees,
    pub(crate) cache: &'a LoomCache,
    pub(crate) counts: &'a Counts,
    pub(crate) policy: Policy,
    pub(crate) available: Tokens,
    pub(crate) now: Timestamp,
    /// Whether a line of ours comes first, so that the request begins with the
    /// user.
    pub(crate) with_opening: bool,
    /// The content that is left out because no part of the latest node fits.
    pub(crate) squeeze: Squeeze,
    /// Whether the request has an event besides the path.
    pub(crate) has_event: bool,
    pub(crate) addendum: Option<&'a str>,
}

impl LoomReader<'_> {
    /// Returns the items of a layer other than the path.
    pub(crate) fn items(&self, part: Part, unsent: &mut Vec<Excluded>) -> Result<Vec<Item>, Error> {
        let tree = &self.loom.info.tree;
        let agent = self.loom.agent.as_ref();
        match part {
            Part::Agent => {
                let prompt = agent.and_then(|agent| agent.system_prompt.as_deref());
                let name = agent.map(|agent| format!("agent {}", agent.id));
                Ok(self.standing(name.unwrap_or_default(), prompt))
            }
            Part::Tree => {
                let name = format!("tree {}", tree.id);
                Ok(self.standing(name, tree.system_context.as_deref()))
            }
            Part::Instructions => self.instructions(unsent),
            Part::Addendum => Ok(match self.loom.aware() {
                Some(_) => vec![aware::addendum(self.addendum, self.policy)],
                None => Vec::new(),
            }),
            Part::Memory => match self.loom.aware() {
                Some(agent) => {
                    let memory: AgentMemory = self.store.agent_memory(&tree.id, &agent.id)?;
                    aware::memory_items(self.store, &tree.id, &memory, &self.maker())
                }
                None => Ok(Vec::new()),
            },
            Part::Position => match self.loom.aware() {
                Some(agent) => {
                    let (info, head) = (&self.loom.info, &self.loom.head);
                    let policy = self.policy;
                    let block = aware::position(self.store, info, agent, head, self.now, policy)?;
                    Ok(vec![block])
                }
                None => Ok(Vec::new()),
            },
            Part::Path(_) => Ok(Vec::new()),
        }
    }

    /// Returns a text that every request contains.
    fn standing(&self, name: String, text: Option<&str>) -> Vec<Item> {
        let text = text.filter(|text| !text.trim().is_empty() && self.loom.has_system());
        let Some(text) = text else {
            return Vec::new();
        };
        let text = Text::guarded(text.trim_end(), self.policy);
        let mut item = Item::new(name, Role::System, text).pinned();
        item.trust = Trust::Operator;
        item.priority = 1.0;
        vec![item]
    }

    pub(super) fn maker(&self) -> ItemBuilder<'_> {
        ItemBuilder::new(self.counts, self.policy)
    }

    pub(super) fn walker(&self) -> Walker<'_> {
        Walker {
            store: self.store,
            cache: Some(&self.cache.paths),
            info: &self.loom.info,
            choices: &self.loom.choices,
        }
    }

    /// Returns the instructions of the edges on the path, each once, and those
    /// for the next node.
    fn instructions(&self, unsent: &mut Vec<Excluded>) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        if !self.loom.has_system() {
            return Ok(items);
        }
        if self.loom.info.instructions > 0 {
            self.instructions_on_path(&mut items, unsent)?;
        }
        for (i, text) in self.loom.instructions.iter().enumerate() {
            let name = format!("instruction {}", i + 1);
            items.extend(self.standing(name, Some(text)));
        }
        Ok(items)
    }

    fn instructions_on_path(
        &self,
        items: &mut Vec<Item>,
        unsent: &mut Vec<Excluded>,
    ) -> Result<(), Error> {
        let path = self.whole_path()?;
        let maker = self.maker();
        let mut there: BTreeSet<String> = BTreeSet::new();
        // An instruction that is left out with one node may also belong to
        // another.
        let mut gone: BTreeMap<String, Excluded> = BTreeMap::new();
        for (at, place) in path.places().iter().enumerate().rev() {
            let Some(edge) = &place.onward else { continue };
            for id in edge.sources_as(SourceRole::Instruction) {
                let Version { node, others } = self.version_of(id)?;
                if there.contains(&node.id) {
                    continue;
                }
                let name = node.name().to_owned();
                for other in others {
                    let reason = format!("replaced by version {name}");
                    let (id, code) = (&other.local_id, OTHER_VERSION);
                    let row = row(id, Role::System, code, &reason);
                    gone.entry(other.id).or_insert(row);
                }
                if let Some((code, reason)) = self.source_is_gone(&path, at, node.flags()) {
                    let row = row(&name, Role::System, code, &reason);
                    gone.entry(node.id).or_insert(row);
                    continue;
                }
                let prepared = maker.make(&node, Shape::Instruction, None);
                for one in &prepared.unsent {
                    unsent.push(row(&one.id, Role::System, one.code, one.reason));
                }
                there.insert(node.id);
                for item in prepared.items.into_iter().map(Item::pinned) {
                    // The same instruction for several generations is included
                    // once.
                    let same = items.iter().any(|other| other.content == item.content);
                    match same {
                        true => {
                            let reason = "already included";
                            let (id, code) = (&item.id, Code::DUPLICATE);
                            unsent.push(row(id, Role::System, code, reason));
                        }
                        false => items.push(item),
                    }
                }
            }
        }
        let gone = gone.into_iter().filter(|(id, _)| !there.contains(id));
        unsent.extend(gone.map(|(_, row)| row));
        Ok(())
    }

    /// Returns the version to use for a node that is not on the path.
    pub(super) fn version_of(&self, id: &str) -> Result<Version, Error> {
        let tree = &self.loom.info.tree.id;
        let versions = self.store.versions(tree, id)?;
        let chosen = choose_version(&versions, &self.loom.choices);
        let chosen = chosen.map_or(id, |version| &version.id);
        let node = self.store.nodes(tree, &[chosen], "")?.into_iter().next();
        let node = node.ok_or_else(|| Error::damage(format!("no node `{chosen}`")))?;
        let others = versions.iter().filter(|version| version.id != chosen);
        Ok(Version {
            others: others.cloned().collect(),
            node: node.node,
        })
    }

    fn whole_path(&self) -> Result<Path, Error> {
        let walker = self.walker();
        let mut path = walker.begin(self.loom.head.clone());
        walker.walk(&mut path, usize::MAX)?;
        Ok(path)
    }

    /// Returns the reason why a source of the edge that continues from `at` is
    /// left out, or `None` if it is not: the source itself, or one of the nodes
    /// that the edge connects, is left out.
    pub(super) fn source_is_gone(
        &self,
        path: &Path,
        at: usize,
        flags: Flags,
    ) -> Option<(Code, String)> {
        if let Some(gone) = flagged(flags) {
            return Some(gone);
        }
        let places = path.places();
        let ends = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let mut ends = ends.filter(|&end| self.is_left_out(&places[end]).is_some());
        ends.next().map(|end| {
            let name = &places[end].node.local_id;
            let reason = format!("belongs to node {name}, which is omitted");
            (SOURCE_EXCLUDED, reason)
        })
    }

    /// Returns the reason why a node of the path is left out, or `None` if it
    /// is not.
    pub(super) fn is_left_out(&self, place: &PathNode) -> Option<(Code, String)> {
        if let Some(gone) = flagged(place.node.flags) {
            return Some(gone);
        }
        if place.is_annotation && !self.loom.with_annotations {
            let reason = "annotations are not included".to_owned();
            return Some((ANNOTATION, reason));
        }
        None
    }

    /// Returns the nodes of the path that the budget could use.
    pub(crate) fn path(&self, fit: &mut Fit) -> Result<PathItems, Error> {
        let head_part = match (&fit, self.loom.strategy) {
            (Fit::Path(path), TruncationStrategy::TruncateMiddle) => path.head,
            _ => 0.0,
        };
        let mut made = Reader::new(self, head_part).read()?;
        self.set_fit(fit, &mut made);
        Ok(made)
    }

    fn set_fit(&self, fit: &mut Fit, made: &mut PathItems) {
        if self.loom.strategy == TruncationStrategy::StopAtLimit {
            for item in &mut made.items {
                item.pinned = true;
                item.cut = Cut::Never;
                made.pinned.insert(Arc::clone(&item.id));
            }
        }
        let Fit::Path(path) = fit else { return };
        let has_text = |text: &String| !text.is_empty();
        let buffer = usize::from(self.loom.working_buffer.as_ref().is_some_and(has_text));
        path.min_recent = self.loom.minimum_recent.saturating_add(buffer);
        path.unseen = made.unseen;
        path.is_text = self.loom.mode() == TreeMode::Buffer;
        // A marker replaces other nodes, and a single node has none.
        let is_single = made.units() + buffer <= 1 && made.unseen.is_none();
        match self.loom.strategy {
            TruncationStrategy::TruncateMiddle if is_single => path.marker = None,
            TruncationStrategy::TruncateMiddle if self.squeeze >= Squeeze::Marker => {
                path.marker = None;
            }
            TruncationStrategy::TruncateMiddle => {
                let role = match self.loom.mode() {
                    TreeMode::Dialogue => Role::User,
                    TreeMode::Buffer => Role::Document,
                };
                path.marker = Some(Marker::new("node", role));
            }
            TruncationStrategy::RollingWindow | TruncationStrategy::StopAtLimit => {
                path.marker = None;
                path.head = 0.0;
            }
        }
    }
}

/// The chosen version of a node that is not on the path, and its other
/// versions.
pub(super) struct Version {
    pub(super) node: Node,
    pub(super) others: Vec<NodeHead>,
}

/// Returns the reason why a node's flags leave it out, or `None` if they do
/// not.
pub(super) fn flagged(flags: Flags) -> Option<(Code, String)> {
    if flags.pruned {
        return Some((PRUNED, "is pruned".to_owned()));
    }
    let excluded = || (Code::EXCLUDED, "is excluded".to_owned());
    flags.excluded.then(excluded)
}

pub(super) fn row(id: &str, role: Role, code: Code, reason: &str) -> Excluded {
    Excluded::unoffered(id, "", role, code, reason.to_owned())
}
