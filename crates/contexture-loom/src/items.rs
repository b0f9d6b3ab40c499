//! Converts nodes into items, and caches the items by node.
//!
//! A node has one item for each block of its content. Its role depends on its
//! author and on its use: a message, a piece of a document, reference text or
//! an instruction. Nodes never change, so that the items and their token counts
//! can be cached.

use std::sync::Arc;

use contexture_core::cache::Cache;
use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Counts, Cut, Item, Join, Part, Role, Text, Tokens, Trust};
use contexture_providers::{describe, media_tokens};
use contexture_store::{Author, Block, CountedNode, Node, StoreError, TreeMode, Trees};

use contexture_engine::counter_name;
use contexture_engine::source::escape_prefix;

/// The use of a node in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// A message of its author.
    Message,
    /// A piece of the document.
    Document,
    /// Reference text: a context source.
    Reference,
    /// A directive.
    Instruction,
}

impl Shape {
    /// Returns the shape of a path's nodes in a tree of that mode.
    pub(crate) fn of(mode: TreeMode) -> Self {
        match mode {
            TreeMode::Dialogue => Shape::Message,
            TreeMode::Buffer => Shape::Document,
        }
    }
}

/// The items of a node.
#[derive(Debug)]
pub(crate) struct PreparedNode {
    pub(crate) items: Vec<Item>,
    /// The size of all items, in tokens.
    pub(crate) tokens: Tokens,
    /// Blocks that are empty, or that the shape cannot contain.
    pub(crate) unsent: Vec<Unsent>,
    bytes: usize,
}

/// A block that is not sent, and why.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) id: String,
    pub(crate) code: Code,
    pub(crate) reason: &'static str,
}

/// Makes items of nodes.
pub(crate) struct ItemBuilder<'a> {
    pub(crate) counts: &'a Counts,
    pub(crate) policy: Policy,
    /// The name of the counter, for saved counts.
    counter: Arc<str>,
}

impl<'a> ItemBuilder<'a> {
    pub(crate) fn new(counts: &'a Counts, policy: Policy) -> Self {
        // A change of the counted text changes this number.
        let kind = if policy.show_invisible {
            "node1"
        } else {
            "text2"
        };
        let counter = format!("{}/{kind}", counter_name(counts, policy));
        Self {
            counts,
            policy,
            counter: counter.into(),
        }
    }

    /// Makes the items of a node, with `header` before its text.
    pub(crate) fn make(&self, node: &Node, shape: Shape, header: Option<&str>) -> PreparedNode {
        let (prepared, _) = self.make_counted(node, shape, header, None);
        prepared
    }

    /// Makes the items of a node, using the known counts of its blocks. Returns
    /// the items and the counts.
    fn make_counted(
        &self,
        node: &Node,
        shape: Shape,
        header: Option<&str>,
        known: Option<&[Tokens]>,
    ) -> (PreparedNode, Vec<Tokens>) {
        let name = node.name();
        let blocks = node.content.blocks();
        let mut prepared = PreparedNode {
            items: Vec::with_capacity(blocks.len()),
            tokens: 0,
            unsent: Vec::new(),
            bytes: 256,
        };
        let is_aware = header.is_some();
        let mut header = header;
        let mut tokens = vec![0; blocks.len()];
        for (b, block) in blocks.iter().enumerate() {
            let id = match blocks.len() {
                1 => name.to_owned(),
                _ => format!("{name}.{b}"),
            };
            if let Some((code, reason)) = unsent(block, shape) {
                prepared.unsent.push(Unsent { id, code, reason });
                continue;
            }
            if let (None, Some(line)) = (as_text(block), header) {
                // A block without text has the header in an item before it.
                let (id, block) = (format!("{name}.header"), Block::text(line));
                let text = Text::guarded(line, self.policy);
                let item = self.item(id, node, name, &block, shape, &text);
                let overhead = self.counts.native().overhead_of(&item);
                prepared.tokens += overhead + self.counts.count_of(&text);
                prepared.items.push(Item {
                    cut: Cut::Never,
                    ..item
                });
            }
            let text = self.text(block, is_aware, header.take());
            let item = self.item(id, node, name, block, shape, &text);
            // The tokens of tags depend on the form of a request; saved counts
            // must not.
            let overhead = self.counts.native().overhead_of(&item);
            let known = known.and_then(|known| known.get(b)?.checked_sub(overhead));
            tokens[b] = overhead
                + match known {
                    Some(count) => {
                        self.counts.know(&text, count);
                        count
                    }
                    None => self.counts.count_of(&text),
                };
            prepared.tokens += tokens[b];
            prepared.bytes += text.as_str().len() + block.bytes();
            prepared.items.push(item);
        }
        (prepared, tokens)
    }

    /// Reads nodes of a tree and makes their items, in the order of the ids.
    pub(crate) fn load(
        &self,
        store: &dyn Trees,
        tree: &str,
        shape: Shape,
        wanted: &[&NodeWithHeader<'_>],
    ) -> Result<Vec<Arc<PreparedNode>>, StoreError> {
        let ids: Vec<&str> = wanted.iter().map(|wanted| wanted.id).collect();
        let loaded = store.nodes(tree, &ids, &self.counter)?;
        let mut made = Vec::with_capacity(loaded.len());
        let mut uncounted = Vec::new();
        for (wanted, loaded) in wanted.iter().zip(&loaded) {
            let CountedNode { node, tokens } = loaded;
            let header = wanted.header.as_deref();
            // A header is not part of the node, and is counted separately.
            let known = tokens.as_deref().filter(|_| header.is_none());
            let (prepared, counted) = self.make_counted(node, shape, header, known);
            if known.is_none() && header.is_none() {
                uncounted.push((wanted.id, counted));
            }
            made.push(Arc::new(prepared));
        }
        if !uncounted.is_empty() {
            // Each node is counted only once. Failing to save the counts, in a
            // read-only store, is not an error.
            let _ = store.put_node_counts(tree, &self.counter, &uncounted);
        }
        Ok(made)
    }

    /// Returns the tokens of an item.
    pub(crate) fn cost(&self, item: &Item) -> Tokens {
        let text = match &item.content {
            Content::Ready(text) => self.counts.count_of(text),
            Content::Pending { .. } | Content::Absent { .. } => 0,
        };
        text + self.counts.overhead_of(item)
    }

    fn text(&self, block: &Block, is_aware: bool, header: Option<&str>) -> Text {
        let guarded = |text: &str| Text::guarded(text, self.policy);
        let Some(text) = as_text(block) else {
            return guarded(&block.media().as_ref().map(describe).unwrap_or_default());
        };
        // Only Contexture writes text that looks like a header.
        match (is_aware, header) {
            (false, _) => guarded(text),
            (true, None) => guarded(&escape_prefix(text, HEADER)),
            (true, Some(header)) => guarded(&format!("{header}\n{}", escape_prefix(text, HEADER))),
        }
    }

    fn item(
        &self,
        id: String,
        node: &Node,
        name: &str,
        block: &Block,
        shape: Shape,
        text: &Text,
    ) -> Item {
        let role = match (shape, node.author) {
            (Shape::Message, Author::Human) => Role::User,
            (Shape::Message, Author::Model) => Role::Assistant,
            (Shape::Document, _) => Role::Document,
            (Shape::Reference, _) => Role::Context,
            (Shape::Instruction, _) => Role::System,
        };
        let cut = match (shape, block) {
            (Shape::Instruction, _) => Cut::Never,
            // A document that is to be continued keeps its end.
            (Shape::Document, Block::Text { .. }) => Cut::Start,
            (_, Block::Text { .. }) => Cut::Middle,
            _ => Cut::Never,
        };
        let mut item = Item::new(id, role, text.clone()).cut(cut);
        item.trust = Trust::User;
        match shape {
            Shape::Message => item.join = Join::Paragraph,
            Shape::Reference => item.path = Some(name.into()),
            Shape::Document | Shape::Instruction => {}
        }
        if let Some(media) = block.media() {
            item.surcharge = media_tokens(&media);
            item.part = Part::Media(media.into());
        }
        item
    }
}

/// The prefix of a header.
pub(crate) const HEADER: &str = "[loom ";

fn as_text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// Returns the reason why a block of a node is not sent, or `None` if it is.
fn unsent(block: &Block, shape: Shape) -> Option<(Code, &'static str)> {
    let empty = |reason| Some((Code::EMPTY, reason));
    let no_place = |reason| Some((Code::NOT_FOR_PROVIDER, reason));
    match (block, shape) {
        (Block::Text { text, .. }, Shape::Document) if text.is_empty() => empty("is empty"),
        (Block::Text { text, .. }, shape) if shape != Shape::Document && text.trim().is_empty() => {
            empty("is blank")
        }
        (Block::Text { .. }, _) => None,
        (_, Shape::Document) => no_place("not text: documents contain text only"),
        (_, Shape::Instruction) => no_place("not text: instructions must be text"),
        (_, Shape::Message | Shape::Reference) => None,
    }
}

/// Nodes that were prepared before. The content of a node never changes.
#[derive(Debug, Default)]
pub(crate) struct NodeCache {
    made: Cache<Key, CachedNode>,
}

/// The counter, the shape, and the id of the node.
type Key = (Arc<str>, Shape, String);

/// The items of a node, with the header that they were made with.
#[derive(Debug, Clone)]
struct CachedNode {
    header: Option<Arc<str>>,
    prepared: Arc<PreparedNode>,
}

/// A node of a path that is wanted, with the header it is to have.
pub(crate) struct NodeWithHeader<'a> {
    pub(crate) id: &'a str,
    pub(crate) header: Option<String>,
}

impl NodeCache {
    /// Returns the items of nodes of a tree, in the order of the ids.
    pub(crate) fn get(
        &self,
        store: &dyn Trees,
        tree: &str,
        maker: &ItemBuilder<'_>,
        shape: Shape,
        wanted: &[NodeWithHeader<'_>],
    ) -> Result<Vec<Arc<PreparedNode>>, StoreError> {
        let find = |wanted| self.find(maker, shape, wanted);
        let mut found: Vec<Option<Arc<PreparedNode>>> = wanted.iter().map(find).collect();
        let missing: Vec<&NodeWithHeader<'_>> = (wanted.iter().zip(&found))
            .filter(|(_, found)| found.is_none())
            .map(|(wanted, _)| wanted)
            .collect();
        if missing.is_empty() {
            return Ok(found.into_iter().flatten().collect());
        }
        let made = maker.load(store, tree, shape, &missing)?;
        for (wanted, made) in missing.iter().zip(&made) {
            self.put(maker, shape, wanted, made);
        }
        let mut made = made.into_iter();
        for slot in found.iter_mut().filter(|slot| slot.is_none()) {
            *slot = made.next();
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn find(
        &self,
        maker: &ItemBuilder<'_>,
        shape: Shape,
        wanted: &NodeWithHeader<'_>,
    ) -> Option<Arc<PreparedNode>> {
        let known = self.made.get(&key(maker, shape, wanted))?;
        (known.header.as_deref() == wanted.header.as_deref()).then_some(known.prepared)
    }

    fn put(
        &self,
        maker: &ItemBuilder<'_>,
        shape: Shape,
        wanted: &NodeWithHeader<'_>,
        made: &Arc<PreparedNode>,
    ) {
        let known = CachedNode {
            header: wanted.header.as_deref().map(Arc::from),
            prepared: Arc::clone(made),
        };
        self.made
            .insert(key(maker, shape, wanted), known, made.bytes);
    }
}

fn key(maker: &ItemBuilder<'_>, shape: Shape, wanted: &NodeWithHeader<'_>) -> Key {
    (Arc::clone(&maker.counter), shape, wanted.id.to_owned())
}
