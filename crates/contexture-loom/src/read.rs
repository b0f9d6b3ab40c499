//! Reads the nodes of a path that could fit the budget, and converts them into
//! items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_core::{
    Code, Cut, Excluded, Item, Join, Role, Text, Tokens, Trust, UnofferedRange, grouped,
};
use contexture_store::{
    Author, Connections, Flags, NodeHead, SourceRole, TreeMode, TruncationStrategy,
};

use contexture_engine::{Advice, Error, Operation, Report};

use crate::items::{ItemBuilder, NodeWithHeader, PreparedNode, Shape};
use crate::path::{Path, PathNode, Walker};
use crate::reading::{LoomReader, Squeeze, Version, flagged, row};
use crate::target::{Loom, LoomSummary};
use crate::{BATCH, OTHER_VERSION, aware};

/// The number of nodes that a walk begins with if only the latest are needed.
const FIRST_WALK: usize = 128;

/// The first line of a conversation that the model begins, for providers that
/// require a user message first.
const MODEL_BEGINS: &str = "(the conversation begins with the assistant)";

/// The items of a path.
#[derive(Debug, Default)]
pub(crate) struct PathItems {
    pub(crate) items: Vec<Item>,
    pub(crate) unsent: Vec<Excluded>,
    pub(super) unseen: Option<UnofferedRange>,
    // The last item of each node that is offered, oldest first.
    units: Vec<Arc<str>>,
    // The last item of a document.
    pub(super) end: Option<Arc<str>>,
    // Whether there are older nodes that were not read.
    is_partial: bool,
    // The number of latest nodes that must be kept, if the path was not read
    // whole.
    recent: usize,
    /// The size of the latest node, in tokens.
    pub(super) latest_tokens: Tokens,
    // The tokens of the path, if all of it must be sent.
    pub(super) tokens: Tokens,
    /// The items of the path, if none of them may be dropped.
    pub(super) pinned: BTreeSet<Arc<str>>,
}

impl PathItems {
    /// Returns the last item of the latest node with content.
    pub(super) fn latest(&self) -> Option<&Arc<str>> {
        self.units.last()
    }

    /// Returns the number of nodes that are offered.
    pub(super) fn units(&self) -> usize {
        self.units.len()
    }

    /// Returns the use of the path, from the report of the request.
    pub(crate) fn summary(&self, loom: &Loom, layer: &str, report: &Report) -> LoomSummary {
        let rows: BTreeMap<&str, bool> = report
            .included
            .iter()
            .filter(|row| &*row.layer == layer)
            .map(|row| (&*row.id, row.truncated))
            .collect();
        let kept = |id: &&Arc<str>| rows.contains_key(&***id);
        let units = self.units.iter();
        let nodes_kept = units.clone().filter(kept).count() as u64;
        let unseen = self.unseen.map_or(0, |unseen| unseen.count);
        let dropped = self.units.len() as u64 - nodes_kept + unseen;
        // Nodes older than the offered ones are certainly dropped.
        let all = match self.is_partial {
            true => self.recent,
            false => usize::try_from(self.units.len() as u64 + unseen).unwrap_or(usize::MAX),
        };
        let recent = units.clone().rev().take(loom.minimum_recent).filter(kept);
        let recent_kept = recent.count();
        LoomSummary {
            tree_id: loom.info.tree.id.clone(),
            head_node_id: loom.head.id.clone(),
            agent_id: loom.agent.as_ref().map(|agent| agent.id.clone()),
            path: loom.path_name.clone(),
            strategy: loom.strategy,
            truncated: dropped > 0 || self.is_partial || rows.values().any(|cut| *cut),
            nodes_kept,
            nodes_cut: units.filter(|id| rows.get(&***id) == Some(&true)).count() as u64,
            nodes_dropped: (!self.is_partial).then_some(dropped),
            recent_nodes_dropped: (loom.minimum_recent.min(all) - recent_kept) as u64,
        }
    }
}

/// Reads the nodes of a path.
pub(super) struct Reader<'s, 'a> {
    source: &'s LoomReader<'a>,
    maker: ItemBuilder<'s>,
    shape: Shape,
    // The part of the budget that the oldest nodes may use.
    head_part: f64,
    made: PathItems,
}

/// The nodes that are offered, each with its index on the path, newest first.
struct Offered {
    path: Path,
    // The latest ones.
    tail: Vec<(usize, Arc<PreparedNode>)>,
    // The oldest ones, oldest first.
    head: Vec<(usize, Arc<PreparedNode>)>,
    // The number of usable nodes between head and tail.
    between: u64,
}

impl<'s, 'a> Reader<'s, 'a> {
    /// Returns a reader of the path to a node. When nodes must be dropped, the
    /// start of the path may use this part of the budget.
    pub(super) fn new(source: &'s LoomReader<'a>, head_part: f64) -> Self {
        Self {
            source,
            maker: source.maker(),
            shape: Shape::of(source.loom.mode()),
            head_part,
            made: PathItems::default(),
        }
    }

    /// Reads the nodes that the budget could use.
    pub(super) fn read(mut self) -> Result<PathItems, Error> {
        let offered = self.offer()?;
        self.fill(offered)?;
        Ok(self.made)
    }

    /// Walks the path as far as needed, and prepares the nodes that could be
    /// used.
    fn offer(&mut self) -> Result<Offered, Error> {
        let loom = self.source.loom;
        let walker = self.source.walker();
        let mut path = walker.begin(loom.head.clone());
        let windowed = loom.strategy == TruncationStrategy::RollingWindow;
        let wanted = match windowed {
            true => FIRST_WALK,
            false => usize::MAX,
        };
        walker.walk(&mut path, wanted)?;
        if let Some(head) = path.places().first()
            && head.is_annotation
            && !loom.with_annotations
        {
            return Err(Error::input(format!(
                "node `{}` is an annotation: only an annotation edge leads to it",
                head.node.local_id
            ))
            .advise(Advice::set("include_annotations"))
            .advise("continue from another node"));
        }
        let unlimited = loom.strategy == TruncationStrategy::StopAtLimit;
        let limit = if unlimited {
            Tokens::MAX
        } else {
            self.source.available
        };

        let (mut tail, mut spent, mut largest) = (Vec::new(), 0_u64, 0);
        let mut at = 0;
        while spent <= limit {
            if at >= path.settled() {
                if path.is_whole {
                    break;
                }
                let further = path.places().len().saturating_mul(4);
                walker.walk(&mut path, further)?;
                continue;
            }
            let end = (at + BATCH).min(path.settled());
            let batch = self.eligible(&path, at..end);
            at = end;
            for (place, prepared) in self.prepare(&path, &batch)? {
                if spent > limit {
                    // The rest of the batch was not needed.
                    at = place;
                    break;
                }
                spent = spent.saturating_add(prepared.tokens);
                largest = prepared.tokens;
                tail.push((place, prepared));
            }
        }
        if windowed {
            // A few that are left are accounted for one by one, whether more
            // of the path happens to be known or not.
            walker.walk(&mut path, at.saturating_add(BATCH + 1))?;
            self.made.is_partial = path.places().len() - at > BATCH;
            self.made.recent = self.count_recent(&walker, &mut path)?;
        }

        let (mut head, mut between) = (Vec::new(), 0);
        if at < path.places().len() && !self.made.is_partial {
            let left = self.eligible(&path, at..path.places().len());
            // If one node is so large that the latest ones end before it, the
            // oldest may use the remaining tokens. A few nodes are reported one
            // by one, whether they can be used or not.
            let part = match largest > self.source.available / 4 {
                true => self.head_part.ceil(),
                false => self.head_part,
            };
            let limit = match left.len() <= BATCH {
                true => Tokens::MAX,
                false => (self.source.available as f64 * part) as Tokens,
            };
            let mut spent = 0_u64;
            let mut oldest_first = left.iter().rev();
            while spent < limit {
                let batch: Vec<usize> = oldest_first.by_ref().take(BATCH).copied().collect();
                if batch.is_empty() {
                    break;
                }
                for (place, prepared) in self.prepare(&path, &batch)? {
                    if spent >= limit {
                        break;
                    }
                    spent = spent.saturating_add(prepared.tokens);
                    head.push((place, prepared));
                }
            }
            between = (left.len() - head.len()) as u64;
        }
        self.note_left_out(&path, tail.last().map(|(at, _)| *at))?;
        Ok(Offered {
            path,
            tail,
            head,
            between,
        })
    }

    /// Counts the latest nodes, up to the number that must be kept.
    fn count_recent(&self, walker: &Walker<'_>, path: &mut Path) -> Result<usize, Error> {
        let wanted = self.source.loom.minimum_recent;
        loop {
            let there = (path.places()[..path.settled()].iter())
                .filter(|place| self.source.is_left_out(place).is_none())
                .take(wanted)
                .count();
            if there == wanted || path.is_whole {
                return Ok(there);
            }
            walker.walk(path, path.places().len().saturating_mul(4))?;
        }
    }

    /// Returns the nodes in a range that are not left out.
    fn eligible(&self, path: &Path, range: std::ops::Range<usize>) -> Vec<usize> {
        let places = path.places();
        let all = range.filter(|&at| self.source.is_left_out(&places[at]).is_none());
        all.collect()
    }

    fn prepare(
        &self,
        path: &Path,
        batch: &[usize],
    ) -> Result<Vec<(usize, Arc<PreparedNode>)>, Error> {
        let source = self.source;
        let tree = &source.loom.info.tree.id;
        let places = path.places();
        let ids: Vec<&str> = batch.iter().map(|&at| &*places[at].node.id).collect();
        let headers = match source.loom.aware() {
            Some(_) => self.headers(path, batch)?,
            None => vec![None; ids.len()],
        };
        let wanted: Vec<NodeWithHeader<'_>> = (ids.into_iter().zip(headers))
            .map(|(id, header)| NodeWithHeader { id, header })
            .collect();
        let cache = &source.cache.nodes;
        let prepared = cache.get(source.store, tree, &self.maker, self.shape, &wanted)?;
        Ok(batch.iter().copied().zip(prepared).collect())
    }

    /// Returns the headers of nodes for loom-aware agents. Continuations of any
    /// version count for the node.
    fn headers(&self, path: &Path, batch: &[usize]) -> Result<Vec<Option<String>>, Error> {
        let source = self.source;
        let places: Vec<&PathNode> = batch.iter().map(|&at| &*path.places()[at]).collect();
        let versions = |place: &'_ PathNode| 1 + place.others.len();
        let ids: Vec<&str> = places
            .iter()
            .flat_map(|place| std::iter::once(&place.node).chain(&place.others))
            .map(|node| &*node.id)
            .collect();
        let tree = &source.loom.info.tree.id;
        let mut connections = source.store.connections(tree, &ids)?.into_iter();
        let header = |place: &&PathNode| {
            let of_place = connections.by_ref().take(versions(place));
            let sum = of_place.fold(Connections::default(), |sum, one| Connections {
                continuations: sum.continuations + one.continuations,
                annotations: sum.annotations + one.annotations,
                links: sum.links + one.links,
            });
            Some(aware::header(&place.node, sum, source.now))
        };
        Ok(places.iter().map(header).collect())
    }

    /// Reports the nodes of the path that are left out regardless of the
    /// budget, with their sources, and the versions that are not on it.
    fn note_left_out(&mut self, path: &Path, oldest: Option<usize>) -> Result<(), Error> {
        // For a path that was not read whole, only the nodes that were read are
        // reported.
        let seen = match self.made.is_partial {
            false => path.places().len(),
            true => oldest.map_or(0, |at| at + 1),
        };
        let places = path.places();
        let with_others = places[..seen].iter().filter(|one| !one.others.is_empty());
        // A version may be on the path itself, or belong to several nodes.
        let mut told: BTreeSet<&str> = match with_others.count() {
            0 => BTreeSet::new(),
            _ => (places[..seen].iter())
                .map(|place| &*place.node.id)
                .collect(),
        };
        for (at, place) in places[..seen].iter().enumerate().rev() {
            let name = &place.node.local_id;
            if let Some((code, reason)) = self.source.is_left_out(place) {
                let role = self.role_of(&place.node);
                let row = row(name, role, code, &reason);
                self.made.unsent.push(row);
                if let Some(edge) = &place.onward {
                    let ids: Vec<&str> = edge.sources_as(SourceRole::Context).collect();
                    let gone = |flags| self.source.source_is_gone(path, at, flags);
                    let (_, unsent) = self.material(&ids, name, gone)?;
                    self.made.unsent.extend(unsent);
                }
            }
            for other in &place.others {
                if !told.insert(&other.id) {
                    continue;
                }
                let reason = format!("replaced by version {name}");
                let (id, code) = (&other.local_id, OTHER_VERSION);
                let role = self.role_of(other);
                let row = row(id, role, code, &reason);
                self.made.unsent.push(row);
            }
        }
        Ok(())
    }

    fn role_of(&self, node: &NodeHead) -> Role {
        match (self.shape, node.author) {
            (Shape::Document, _) => Role::Document,
            (_, Author::Human) => Role::User,
            (_, Author::Model) => Role::Assistant,
        }
    }

    fn shape_role(&self) -> Role {
        match self.shape {
            Shape::Document => Role::Document,
            _ => Role::User,
        }
    }

    /// Makes the items of the layer, oldest first.
    fn fill(&mut self, offered: Offered) -> Result<(), Error> {
        let Offered {
            path,
            tail,
            head,
            between,
        } = offered;
        if self.source.with_opening {
            let text = Text::new(MODEL_BEGINS);
            let mut item = Item::new("opening", Role::User, text).pinned();
            item.trust = Trust::Operator;
            item.join = Join::Paragraph;
            self.made.items.push(item);
        }
        let remarks = self.remarks(&path, head.iter().chain(&tail).map(|(at, _)| *at))?;
        for (at, prepared) in &head {
            self.unit(&path, *at, prepared, &remarks)?;
        }
        if between > 0 {
            self.made.unseen = Some(UnofferedRange {
                at: self.made.items.len(),
                count: between,
            });
            let first = head.last().map_or(path.places().len(), |(at, _)| *at);
            let last = tail.last().map_or(0, |(at, _)| *at + 1);
            self.note_between(&path, last..first, between);
        }
        for (at, prepared) in tail.iter().rev() {
            self.unit(&path, *at, prepared, &remarks)?;
        }
        if self.made.is_partial
            && let Some((at, _)) = tail.last()
        {
            let name = &path.places()[*at].node.local_id;
            let reason = format!("the nodes before {name}: not read because the budget is full");
            let role = self.shape_role();
            let row = row(
                &format!("before {name}"),
                role,
                Code::BEFORE_WINDOW,
                &reason,
            );
            self.made.unsent.insert(0, row);
        }
        let mut with_content = tail.iter().filter(|(_, node)| !node.items.is_empty());
        self.made.latest_tokens = with_content.next().map_or(0, |(_, latest)| latest.tokens);
        self.working_buffer();
        if self.source.loom.strategy == TruncationStrategy::StopAtLimit {
            let items = self.made.items.iter();
            self.made.tokens = items.map(|item| self.maker.cost(item)).sum();
        }
        self.made.end = self.made.items.last().map(|item| Arc::clone(&item.id));
        let ours = usize::from(self.source.with_opening);
        if self.made.items.len() == ours {
            self.nothing_is_left(&path)?;
        }
        Ok(())
    }

    fn note_between(&mut self, path: &Path, range: std::ops::Range<usize>, between: u64) {
        let places = &path.places()[range];
        let (Some(newest), Some(oldest)) = (places.first(), places.last()) else {
            return;
        };
        let those = (places.iter()).filter(|place| self.source.is_left_out(place).is_none());
        let bytes: u64 = those.map(|place| place.node.bytes).sum();
        let (from, to) = (&oldest.node.local_id, &newest.node.local_id);
        let reason = format!(
            "{} {}, about {} tokens: no room between the start and the end of the path",
            grouped(between),
            if between == 1 { "node" } else { "nodes" },
            grouped(bytes.div_ceil(4))
        );
        let id = format!("{from} to {to}");
        let row = row(&id, self.shape_role(), Code::CUT_FROM_PATH, &reason);
        let row = row.about(bytes.div_ceil(4));
        self.made.unsent.insert(0, row);
    }

    /// Returns the annotations of nodes, by node, if the request includes them.
    fn remarks(
        &self,
        path: &Path,
        offered: impl Iterator<Item = usize>,
    ) -> Result<BTreeMap<String, Vec<NodeHead>>, Error> {
        let mut remarks: BTreeMap<String, Vec<NodeHead>> = BTreeMap::new();
        let loom = self.source.loom;
        if !loom.with_annotations || loom.mode() == TreeMode::Buffer {
            return Ok(remarks);
        }
        let on_path: BTreeSet<&str> = (path.places().iter())
            .map(|place| &*place.node.id)
            .collect();
        // An annotation of another version counts for the node, too.
        let mut versions: BTreeMap<&str, &str> = BTreeMap::new();
        let mut ids: Vec<&str> = Vec::new();
        for place in offered.map(|at| &path.places()[at]) {
            for version in std::iter::once(&place.node).chain(&place.others) {
                versions.insert(&version.id, &place.node.id);
                ids.push(&version.id);
            }
        }
        for (of, remark) in self.source.store.annotations(&loom.info.tree.id, &ids)? {
            if on_path.contains(&*remark.id) {
                continue;
            }
            let of = versions.get(&*of).copied().unwrap_or(&of).to_owned();
            let there = remarks.entry(of).or_default();
            if there.iter().all(|other| other.id != remark.id) {
                there.push(remark);
            }
        }
        Ok(remarks)
    }

    /// Adds a node with its context sources before it and its annotations after
    /// it.
    fn unit(
        &mut self,
        path: &Path,
        at: usize,
        prepared: &PreparedNode,
        remarks: &BTreeMap<String, Vec<NodeHead>>,
    ) -> Result<(), Error> {
        let place = &path.places()[at];
        let name = &place.node.local_id;
        let group: Arc<str> = name.as_str().into();
        let role = self.shape_role();
        for one in &prepared.unsent {
            let row = row(&one.id, role, one.code, one.reason);
            self.made.unsent.push(row);
        }
        let first = self.made.items.len();
        if let Some(edge) = &place.onward {
            let ids: Vec<&str> = edge.sources_as(SourceRole::Context).collect();
            let gone = |flags| self.source.source_is_gone(path, at, flags);
            let (items, unsent) = self.material(&ids, name, gone)?;
            self.made.items.extend(items);
            self.made.unsent.extend(unsent);
        }
        if at == 0 {
            let ids: Vec<&str> = (self.source.loom.context.iter())
                .map(|node| &*node.id)
                .collect();
            let (items, unsent) = self.material(&ids, name, flagged)?;
            self.made.items.extend(items);
            self.made.unsent.extend(unsent);
        }
        self.made.items.extend(prepared.items.iter().cloned());
        if let Some(remarks) = remarks.get(&place.node.id) {
            let ids: Vec<&str> = remarks.iter().map(|remark| &*remark.id).collect();
            let (items, unsent) = self.material(&ids, name, flagged)?;
            self.made.items.extend(items);
            self.made.unsent.extend(unsent);
        }
        if self.source.squeeze >= Squeeze::Sources {
            self.leave_out_sources(first, &prepared.items);
        }
        let unit = &mut self.made.items[first..];
        if unit.len() > 1 {
            for item in unit.iter_mut() {
                item.group = Some(Arc::clone(&group));
            }
        }
        if !prepared.items.is_empty()
            && let Some(item) = unit.last()
        {
            self.made.units.push(Arc::clone(&item.id));
        }
        Ok(())
    }

    /// Removes the items from `first` on that are not the node's own.
    fn leave_out_sources(&mut self, first: usize, own: &[Item]) {
        let reason = "the latest node needs the tokens";
        for item in self.made.items.split_off(first) {
            if own.iter().any(|one| one.id == item.id) {
                self.made.items.push(item);
                continue;
            }
            let row = row(&item.id, item.role, Code::OVER_BUDGET, reason);
            self.made.unsent.push(row.about(self.maker.cost(&item)));
        }
    }

    /// Returns nodes as context sources of the node `name`.
    fn material(
        &self,
        ids: &[&str],
        name: &str,
        gone: impl Fn(Flags) -> Option<(Code, String)>,
    ) -> Result<(Vec<Item>, Vec<Excluded>), Error> {
        let (mut items, mut unsent) = (Vec::new(), Vec::new());
        if ids.is_empty() {
            return Ok((items, unsent));
        }
        // A document cannot contain anything but the document.
        let has_place = self.shape == Shape::Message;
        for id in ids {
            let Version { node, others } = self.source.version_of(id)?;
            let local = node.name();
            for other in others {
                let (id, code) = (format!("{} for {name}", other.local_id), OTHER_VERSION);
                let reason = format!("replaced by version {local}");
                unsent.push(row(&id, Role::Context, code, &reason));
            }
            let id = format!("{local} for {name}");
            let out = gone(node.flags()).or_else(|| {
                let reason = "documents do not include context or instruction sources".to_owned();
                (!has_place).then_some((Code::NOT_FOR_PROVIDER, reason))
            });
            if let Some((code, reason)) = out {
                unsent.push(row(&id, Role::Context, code, &reason));
                continue;
            }
            let prepared = self.maker.make(&node, Shape::Reference, None);
            for one in &prepared.unsent {
                let id = format!("{} for {name}", one.id);
                unsent.push(row(&id, Role::Context, one.code, one.reason));
            }
            items.extend(prepared.items.into_iter().map(|mut item| {
                item.id = format!("{} for {name}", item.id).into();
                item
            }));
        }
        Ok((items, unsent))
    }

    fn working_buffer(&mut self) {
        let Some(text) = self.source.loom.working_buffer.as_deref() else {
            return;
        };
        if text.is_empty() {
            return;
        }
        let text = Text::guarded(text, self.source.policy);
        let mut item = Item::new("working buffer", Role::Document, text).cut(Cut::Start);
        item.trust = Trust::User;
        self.made.items.push(item);
    }

    /// Fails with the reason if there is nothing to send.
    fn nothing_is_left(&self, path: &Path) -> Result<(), Error> {
        let loom = self.source.loom;
        if self.source.has_event {
            return Ok(());
        }
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        for place in path.places() {
            let why = match self.source.is_left_out(place) {
                Some((code, _)) => code.as_str(),
                None => "blank",
            };
            *counted.entry(why).or_default() += 1;
        }
        let counted: Vec<String> = counted
            .into_iter()
            .map(|(why, n)| format!("{n} {why}"))
            .collect();
        Err(Error::input(format!(
            "no node of the path to node `{}` can be sent: of its {} nodes, {}",
            loom.head.local_id,
            path.places().len(),
            counted.join(", ")
        ))
        .advise(Advice::call_on(Operation::FlagNode, &loom.info.tree.id)))
    }
}
