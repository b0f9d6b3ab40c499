//! Reads trees without assembling a request: paths and token counts.

use contexture_core::Tokens;
use contexture_store::{NodeHead, TreeMode};

use contexture_engine::{Error, Request};

use crate::items::{ItemBuilder, NodeWithHeader, Shape};
use crate::path::Walker;
use crate::target::{self, Loom};
use crate::write::Looms;

impl Looms<'_> {
    /// Returns the nodes on the path to the node that a request names, the root
    /// first, regardless of their flags.
    pub fn tree_path(&self, request: &Request) -> Result<Vec<NodeHead>, Error> {
        let loom = Loom::find(
            self.engine,
            &target::LoomRequest {
                tree: request.tree.clone(),
                head: request.head.clone(),
                path: request.path.clone(),
                agent: request.agent.clone(),
                ..target::LoomRequest::default()
            },
        )?;
        let walker = Walker {
            store: self.engine.trees()?,
            // This is called rarely, and with the whole path: it is not worth
            // caching.
            cache: None,
            info: &loom.info,
            choices: &loom.choices,
        };
        let mut path = walker.begin(loom.head.clone());
        walker.walk(&mut path, usize::MAX)?;
        let places = path.places().iter().rev();
        Ok(places.map(|place| place.node.clone()).collect())
    }

    /// Returns the tokens of nodes of a tree for a model (default: the
    /// configured one), in the order of the ids. They are counted once.
    pub fn node_tokens(
        &self,
        tree: &str,
        mode: TreeMode,
        ids: &[&str],
        model: Option<&str>,
    ) -> Result<Vec<Tokens>, Error> {
        let model = self.engine.model(model, None, &mut Vec::new())?;
        let counts = self.engine.counts(&model)?;
        let mut policy = self.engine.policy();
        policy.show_invisible = mode == TreeMode::Dialogue;
        let maker = ItemBuilder::new(&counts, policy);
        let mut tokens = Vec::with_capacity(ids.len());
        for batch in ids.chunks(crate::BATCH) {
            let wanted: Vec<NodeWithHeader<'_>> = batch
                .iter()
                .map(|id| NodeWithHeader { id, header: None })
                .collect();
            let wanted: Vec<&NodeWithHeader<'_>> = wanted.iter().collect();
            let made = maker.load(self.engine.trees()?, tree, Shape::of(mode), &wanted)?;
            tokens.extend(made.iter().map(|prepared| prepared.tokens));
        }
        Ok(tokens)
    }
}
