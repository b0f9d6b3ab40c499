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
    /// The roles that stand between tags.
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

    /// Returns the role's name, as it stands in reports.
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

/// How a block stands to the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Between tags of its own.
    #[default]
    Apart,
    /// As a further paragraph of the block before it, with one blank line
    /// between, when both are text of the same role and say so.
    Paragraph,
}

impl Join {
    /// Returns true for what stands apart.
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
        /// Its size, as far as is known before reading.
        bytes: u64,
        /// The guard's policy for the content.
        policy: Policy,
    },
    /// Nothing, and why.
    Absent {
        /// The stable reason code.
        code: Code,
        /// The reason in words.
        reason: String,
    },
}

/// A candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Names the item; unique within its layer.
    pub id: Arc<str>,
    /// Where it comes from, when it is a file.
    pub path: Option<Arc<str>>,
    /// The role: system, user, assistant, context and others.
    pub role: Role,
    /// The kind of content: text, a tool call, media and others.
    pub part: Part,
    /// The same in its provider's own form, when that says more than the part
    /// and the text. It is sent to that provider while the item is whole.
    pub native: Option<Arc<Native>>,
    /// How it stands to the one before it.
    pub join: Join,
    /// What it costs beyond its text and tags: a picture, say.
    pub surcharge: Tokens,
    /// How far it is to be believed.
    pub trust: Trust,
    /// From 0 to 1; higher is kept first.
    pub priority: f64,
    /// The priority before hints moved it, when they did.
    pub base_priority: Option<f64>,
    /// How well it matched, where it was ranked.
    pub score: Option<f64>,
    /// The parts of the score, by name.
    pub scores: Arc<Scores>,
    /// Which part may be removed when it does not fit.
    pub cut: Cut,
    /// Most lines to show, before tokens are looked at.
    pub max_lines: Option<u32>,
    /// Most tokens to spend on it, tags included, however much is left.
    /// Applies to an item that may be cut and stands alone.
    pub max_tokens: Option<Tokens>,
    /// The number of its first line, for the marker of a cut.
    pub first_line: u32,
    /// Never dropped and never cut: charged before everything else.
    pub pinned: bool,
    /// Items of one group are kept or dropped as one. Only the newest of a
    /// window are cut rather than dropped, where they may be.
    pub group: Option<Arc<str>>,
    /// The name by which its whole content can be fetched. The marker of a cut
    /// tells it.
    pub handle: Option<Arc<str>>,
    /// What it was before its source shortened it, if its source did.
    pub original: Option<Arc<Original>>,
    /// Why its content was replaced by a line, if it was.
    pub replaced: Option<Arc<str>>,
    /// Shorter forms of it, the cheapest last: the first that fits is shown
    /// when the whole does not fit.
    pub forms: Vec<Form>,
    /// What its source wants to know of it again: see [`Curator`](crate::Curator).
    pub data: Option<Data>,
    /// The content, or how to load it.
    pub content: Content,
}

/// What the content of an item was before its source shortened it, whatever the
/// budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// About how many tokens it had.
    pub tokens: Tokens,
    /// The first and the last line of which something was removed.
    pub lines: LinesCut,
    /// The limit that it was shortened to. `None` if it was cleared.
    pub max_tokens: Option<Tokens>,
}

/// Something that a source attaches to an item. The engine never looks at it.
#[derive(Clone)]
pub struct Data(Arc<dyn Any + Send + Sync>);

impl Data {
    /// Returns `value` as something to be attached.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>) -> Self {
        Self(value)
    }

    /// Returns what is attached, when it is a `T`.
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
            scores: Arc::default(),
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

    /// Sets how the item may be shortened.
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

    /// Sets what kind of thing it is.
    pub fn part(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    /// Sets how it stands to the one before it.
    pub fn join(mut self, join: Join) -> Self {
        self.join = join;
        self
    }

    /// Puts the item in a group that is kept or dropped as one.
    pub fn group(mut self, group: impl Into<Arc<str>>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Adds a shorter form, to be shown when neither the whole nor a form that
    /// was added before fits.
    pub fn form(mut self, form: Form) -> Self {
        self.forms.push(form);
        self
    }

    /// Attaches something that its source wants to know of it again.
    pub fn data<T: Any + Send + Sync>(mut self, data: Arc<T>) -> Self {
        self.data = Some(Data::new(data));
        self
    }

    /// Sets how well the item matched.
    pub fn score(mut self, score: f64) -> Self {
        self.score = Some(score);
        self
    }
}
