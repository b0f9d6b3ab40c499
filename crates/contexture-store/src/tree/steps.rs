//! Computes the step of every node from a whole document: how the node is
//! reached from its parent.

use std::collections::HashMap;

use super::{EdgeKind, Step, TreeDocument};

impl TreeDocument {
    /// Returns the step to each node from its predecessor, in the order of the
    /// nodes. The document must be [valid](TreeDocument::check).
    ///
    /// A store that updates the steps with every write must get the same
    /// result.
    pub fn steps(&self) -> Vec<Step> {
        let places: HashMap<&str, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(i, node)| (&*node.id, i))
            .collect();
        let mut arrivals = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            if let Some(&target) = places.get(&*edge.target_node_id) {
                arrivals[target].push(edge);
            }
        }
        // The original of each edit that no edge leads to, by index. `None` for
        // all other nodes.
        let stands_for: Vec<Option<usize>> = self
            .nodes
            .iter()
            .zip(&arrivals)
            .map(|(node, edges)| match &node.edited_from {
                Some(from) if edges.is_empty() => places.get(&**from).copied(),
                _ => None,
            })
            .collect();
        let mut has_versions = vec![false; self.nodes.len()];
        for place in stands_for.iter().flatten() {
            has_versions[*place] = true;
        }
        let own = |edges: &[&super::Edge]| match edges {
            [] => Step::Nothing,
            [edge] if edge.kind == EdgeKind::Continuation => match edge.sources.as_slice() {
                [source] => match places.get(&*source.node_id) {
                    Some(&place) if !has_versions[place] => Step::Plain {
                        parent: source.node_id.clone(),
                    },
                    _ => Step::Look,
                },
                _ => Step::Look,
            },
            _ => Step::Look,
        };
        let mut steps: Vec<Option<Step>> = vec![None; self.nodes.len()];
        for i in 0..self.nodes.len() {
            let mut chain = vec![i];
            let mut base = i;
            while let (None, Some(from)) = (&steps[base], stands_for[base]) {
                base = from;
                chain.push(base);
            }
            let step = steps[base].take().unwrap_or_else(|| own(&arrivals[base]));
            for one in chain {
                steps[one] = Some(step.clone());
            }
        }
        steps
            .into_iter()
            .map(|step| step.unwrap_or(Step::Nothing))
            .collect()
    }
}
