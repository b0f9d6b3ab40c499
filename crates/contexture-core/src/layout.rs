//! [`Layout`]: the kept items in the order in which they are sent.
//!
//! Sections are ordered by how often they change: system, history, current. A
//! provider's prompt cache covers the bytes up to the first change.

use std::sync::Arc;

use contexture_guard::{Mark, MarkKey};
use serde::{Deserialize, Serialize};

use crate::counts::Tokens;
use crate::cut::CutText;
use crate::item::{Join, Role, Trust};
use crate::native::Native;
use crate::part::Part;
use crate::text::{ContentHash, Text};

/// The three parts of a request, by how often they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Instructions and tools, which stay the same from turn to turn.
    System,
    /// The conversation, which grows at its end.
    History,
    /// The current message, which is new in each request.
    Current,
}

/// A kept item at its position in the request.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The item's id.
    pub id: Arc<str>,
    /// The layer of the item.
    pub layer: Arc<str>,
    /// The role: system, user, assistant, context and others.
    pub role: Role,
    /// The kind of content: text, a tool call, media and others.
    pub part: Part,
    /// The whole block in its provider's own form, if that holds more than the
    /// part and the text.
    pub native: Option<Arc<Native>>,
    /// The connection to the block before it.
    pub join: Join,
    /// The trust level of the content.
    pub trust: Trust,
    /// The path of the file. `None` if the item is not a file.
    pub path: Option<Arc<str>>,
    /// The size in tokens, tags included.
    pub tokens: Tokens,
    /// The tokens that are neither text nor tags.
    pub surcharge: Tokens,
    /// Whether the block changes with every request.
    pub volatile: bool,
    /// Whether the block is a part of the current message that enters history
    /// with the same bytes when the answer is recorded.
    pub recorded: bool,
    /// The group of the item. Items of one group were kept together.
    pub group: Option<Arc<str>>,
    pub(crate) shown: BlockText,
}

/// The whole text, or its shortened form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BlockText {
    Whole(Text),
    Cut(CutText),
}

impl Block {
    /// Returns a block of plain text with 0 tokens; the caller sets the other
    /// fields.
    pub fn new(
        id: impl Into<Arc<str>>,
        layer: impl Into<Arc<str>>,
        role: Role,
        text: Text,
    ) -> Self {
        Self {
            id: id.into(),
            layer: layer.into(),
            role,
            part: Part::default(),
            native: None,
            join: Join::default(),
            trust: Trust::default(),
            path: None,
            tokens: 0,
            surcharge: 0,
            volatile: false,
            recorded: false,
            group: None,
            shown: BlockText::Whole(text.guarded_again(role).unwrap_or(text)),
        }
    }

    /// Returns the text between the block's tags, with its final line end.
    pub fn body(&self) -> &str {
        match &self.shown {
            BlockText::Whole(text) => text.body(),
            BlockText::Cut(cut) => cut.body(),
        }
    }

    /// Returns the hash of [`body`](Block::body). A text that is used
    /// repeatedly is hashed once.
    pub fn body_hash(&self) -> ContentHash {
        match &self.shown {
            BlockText::Whole(text) => text.hash(),
            BlockText::Cut(cut) => ContentHash::of(cut.body().as_bytes()),
        }
    }

    /// Returns true if the block continues inside the tags of `previous`, the
    /// block right before it in its section.
    pub fn joins(&self, previous: &Block) -> bool {
        let may = |block: &Block| block.join == Join::Paragraph && block.part == Part::Text;
        let names_another = self.role.shows_path() && self.path != previous.path;
        may(self)
            && may(previous)
            && self.role == previous.role
            && self.role.tag().is_some()
            && !names_another
    }

    /// Returns [`text`](Block::text) as a JSON string, if it is worth caching
    /// in that form. Returns `None` if the text changes with every request, or
    /// was cut for this one.
    pub fn json(&self) -> Option<&str> {
        match &self.shown {
            BlockText::Whole(text) if !self.volatile => Some(text.json()),
            _ => None,
        }
    }

    /// Returns the guarded text of the block, without tags.
    pub fn text(&self) -> &str {
        match &self.shown {
            BlockText::Whole(text) => text.as_str(),
            BlockText::Cut(cut) => cut.as_str(),
        }
    }
}

/// The blocks of a request, in the order in which they are sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layout {
    /// The mark of the boundary tags. No block contains it.
    pub mark: Mark,
    /// The static part.
    pub system: Vec<Block>,
    /// The conversation so far.
    pub history: Vec<Block>,
    /// Blocks that are new in each request.
    pub current: Vec<Block>,
}

impl Layout {
    /// Chooses the first mark of `key` that no block contains.
    pub fn choose_mark(&mut self, key: &MarkKey) {
        let is_free = |mark: &Mark| self.holder_of(*mark).is_none();
        // A key has infinitely many marks, and content is finite.
        if let Some(mark) = key.marks().find(is_free) {
            self.mark = mark;
        }
    }

    /// Returns the first block that contains `mark` in its text, its path or
    /// its attributes.
    pub(crate) fn holder_of(&self, mark: Mark) -> Option<&Block> {
        self.blocks().find(|block| {
            let mut attributes = block.part.attributes();
            mark.is_in(block.text())
                || block.path.as_deref().is_some_and(|path| mark.is_in(path))
                || attributes.any(|(_, value)| mark.is_in(value))
        })
    }

    /// Returns every block in the order it is sent.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.system.iter().chain(&self.history).chain(&self.current)
    }

    /// Returns the blocks by section, in the order they are sent.
    pub fn sections(&self) -> [(Section, &[Block]); 3] {
        [
            (Section::System, &self.system),
            (Section::History, &self.history),
            (Section::Current, &self.current),
        ]
    }

    /// Returns true when a document without roles is sent, and not a
    /// conversation.
    pub fn is_document(&self) -> bool {
        self.blocks().any(|block| block.role == Role::Document)
    }

    /// Returns the tokens of all blocks beyond their text and tags.
    pub(crate) fn surcharges(&self) -> Tokens {
        self.blocks().map(|block| block.surcharge).sum()
    }

    /// Returns the tokens of all blocks.
    pub fn tokens(&self) -> Tokens {
        self.blocks().map(|block| block.tokens).sum()
    }
}
