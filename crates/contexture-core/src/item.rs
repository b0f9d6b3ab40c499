//! [`Item`]: a candidate for a request, with its content, priority and rules
//! for cutting.
//!
//! Content can be loaded later: an item that cannot fit is never read.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use contexture_guard::Policy;
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::counts::Tokens;
use crate::cut::Cut;
use crate::form::Form;
use crate::native::Native;
use crate::part::Part;
use crate::report::LinesCut;
use crate::scores::Scores;
use crate::text::Text;

/// The role that an item's content is sent as.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "ItemRole"))]
pub enum Role {
    /// The boot header: the first text of the request, without a tag.
    Header,
    /// Standing instructions of the operator.
    System,
    /// Instructions of the developer for the task.
    Developer,
    /// A message of the user.
    User,
    /// A message of the model.
    Assistant,
    /// A result of a tool.
    Tool,
    /// Reference text.
    #[default]
    Context,
    /// A part of a document without roles. It is sent without tags.
    Document,
}

impl Role {
    /// The roles that are written between tags.
    const TAGGED: [Role; 6] = [
        Role::System,
        Role::Developer,
        Role::User,
        Role::Assistant,
        Role::Tool,
        Role::Context,
    ];

    /// Returns the name of the role's tag, or `None` for the header and for a
    /// document.
    pub fn tag(self) -> Option<&'static str> {
        match self {
            Role::Header | Role::Document => None,
            Role::System => Some("system"),
            Role::Developer => Some("developer"),
            Role::User => Some("user"),
            Role::Assistant => Some("assistant"),
            Role::Tool => Some("tool"),
            Role::Context => Some("context"),
        }
    }

    /// Returns the role whose tag is `tag`.
    pub fn from_tag(tag: &str) -> Option<Role> {
        Role::TAGGED
            .into_iter()
            .find(|role| role.tag() == Some(tag))
    }

    /// Returns the role's name, as reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Document => "document",
            role => role.tag().unwrap_or("header"),
        }
    }

    /// Returns true when the block's tag names the item's path.
    pub fn shows_path(self) -> bool {
        self == Role::Context
    }
}

/// The connection of a block to the block before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Between tags of its own.
    #[default]
    Apart,
    /// The text is a further paragraph of the block before it, with one blank
    /// line between, when both are text of the same role with this join.
    Paragraph,
    /// The beginning of a message of its own, even after a message of the same
    /// role. An API that does not accept two such messages gets one.
    Message,
}

impl Join {
    /// Returns true for the usual join: between tags of its own.
    pub fn is_apart(&self) -> bool {
        *self == Join::Apart
    }
}

/// The trust level of an item's content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Written by the operator of the agent.
    Operator,
    /// Written by the user of the agent.
    User,
    /// Returned by a tool.
    Tool,
    /// Retrieved from files, memory or the web.
    #[default]
    Retrieved,
}

/// The content of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text that can be used.
    Ready(Text),
    /// Text that has not been read yet; it is loaded
    /// when it turns out to be needed.
    Pending {
        /// The size in bytes, as far as it is known before reading.
        bytes: u64,
        /// The guard's policy for the content.
        policy: Policy,
    },
    /// No content, with the reason.
    Absent {
        /// The stable reason code.
        code: Code,
        /// The reason in words.
        reason: String,
    },
}

/// A candidate for a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The id of the item, unique within its layer.
    pub id: Arc<str>,
    /// The path of the file that the item comes from. `None` if it is not a
    /// file.
    pub path: Option<Arc<str>>,
    /// The role: system, user, assistant, context and others.
    pub role: Role,
    /// The kind of content: text, a tool call, media and others.
    pub part: Part,
    /// The content in its provider's own form, if that holds more than the part
    /// and the text. It is sent to that provider unless the item is cut.
    pub native: Option<Arc<Native>>,
    /// The connection to the block before it.
    pub join: Join,
    /// The tokens that the item costs beyond its text and tags, for example for
    /// a picture.
    pub surcharge: Tokens,
    /// The trust level of the content.
    pub trust: Trust,
    /// The priority from 0 to 1. Items with a higher priority are kept first.
    pub priority: f64,
    /// The priority before hints. `None` if no hint changed it.
    pub base_priority: Option<f64>,
    /// The relevance score. `None` if the item was not ranked.
    pub score: Option<f64>,
    /// The parts of the score, by name.
    pub scores: Arc<Scores>,
    /// The part that may be removed if the item does not fit.
    pub cut: Cut,
    /// The maximum number of lines, applied before the token budget. `None` for
    /// no limit.
    pub max_lines: Option<u32>,
    /// The maximum number of tokens, tags included, even if more are available.
    /// Applies to an item that may be cut and has no group. `None` for no
    /// limit.
    pub max_tokens: Option<Tokens>,
    /// The number of the item's first line, for the marker of a cut.
    pub first_line: u32,
    /// Whether the item is pinned: never dropped, never cut, and charged before
    /// all other items.
    pub pinned: bool,
    /// The group of the item. Items of one group are kept or dropped together;
    /// only the newest groups of a window may be cut instead.
    pub group: Option<Arc<str>>,
    /// The handle by which the whole content can be fetched. The marker of a
    /// cut shows it.
    pub handle: Option<Arc<str>>,
    /// The size before the source shortened the item. `None` if the source did
    /// not shorten it.
    pub original: Option<Arc<Original>>,
    /// The reason why a line of text replaced the content. `None` if none did.
    pub replaced: Option<Arc<str>>,
    /// Shorter forms of the item, the shortest last. If the whole does not fit,
    /// the first form that fits is shown.
    pub forms: Vec<Form>,
    /// Data of the source, passed back to its [`Curator`](crate::Curator).
    pub data: Option<Data>,
    /// The content, or how to load it.
    pub content: Content,
}

/// The size of an item's content before its source shortened it, independent of
/// the budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// The approximate number of tokens.
    pub tokens: Tokens,
    /// The first and the last line from which something was removed.
    pub lines: LinesCut,
    /// The limit that the content was shortened to. `None` if it was cleared.
    pub max_tokens: Option<Tokens>,
}

/// Data that a source attaches to an item. The engine never reads it.
#[derive(Clone)]
pub struct Data(Arc<dyn Any + Send + Sync>);

impl Data {
    /// Returns `value` as data for an item.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Self {
        Self(value)
    }

    /// Returns the attached data, or `None` if it is not a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Data")
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Item {
    /// Returns an item with defaults: priority 0.5, cut at the end.
    pub fn new(id: impl Into<Arc<str>>, role: Role, text: Text) -> Self {
        Self::with_content(id, role, Content::Ready(text))
    }

    /// Returns an item with defaults around `content`.
    pub fn with_content(id: impl Into<Arc<str>>, role: Role, content: Content) -> Self {
        let id = id.into();
        Self {
            path: role.shows_path().then(|| Arc::clone(&id)),
            id,
            role,
            part: Part::default(),
            native: None,
            join: Join::default(),
            surcharge: 0,
            trust: Trust::default(),
            priority: 0.5,
            base_priority: None,
            score: None,
            scores: Scores::none(),
            cut: Cut::End,
            max_lines: None,
            max_tokens: None,
            first_line: 1,
            pinned: false,
            group: None,
            handle: None,
            original: None,
            replaced: None,
            forms: Vec::new(),
            data: None,
            content,
        }
    }

    /// Sets the priority.
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = priority;
        self
    }

    /// Sets which part of the item may be removed.
    pub fn cut(mut self, cut: Cut) -> Self {
        self.cut = cut;
        self
    }

    /// Pins the item: it is never dropped and never cut.
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self.cut = Cut::Never;
        self
    }

    /// Sets the kind of content.
    pub fn part(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    /// Sets the connection to the block before it.
    pub fn join(mut self, join: Join) -> Self {
        self.join = join;
        self
    }

    /// Adds the item to a group that is kept or dropped together.
    pub fn group(mut self, group: impl Into<Arc<str>>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Adds a shorter form. It is shown if neither the whole item nor a form
    /// added earlier fits.
    pub fn form(mut self, form: Form) -> Self {
        self.forms.push(form);
        self
    }

    /// Attaches data of the source.
    pub fn data<T: Any + Send + Sync>(mut self, data: Arc<T>) -> Self {
        self.data = Some(Data::new(data));
        self
    }

    /// Sets the relevance score.
    pub fn score(mut self, score: f64) -> Self {
        self.score = Some(score);
        self
    }
}
