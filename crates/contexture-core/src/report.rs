//! The report of an assembly: the tokens spent, the included and the excluded
//! candidates, and the reason for each.

#[cfg(feature = "schema")]
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::code::Code;
use crate::counts::Tokens;
use crate::cut::{Cut, grouped};
use crate::form::FormKind;
use crate::item::{Role, Trust};
use crate::scores::Scores;
use contexture_guard::Finding;

/// The report of an assembly: every candidate, exactly once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The tokenizer.
    pub tokenizer: TokenizerInfo,
    /// The budget: its limits and what each layer used.
    pub budget: BudgetReport,
    /// The candidates in the request, in the order they are sent.
    pub included: Vec<Included>,
    /// The candidates that are not in the request, in the order they were
    /// offered, each with its reason.
    pub excluded: Vec<Excluded>,
    /// Every change that the guard made.
    pub guard: Vec<GuardLine>,
}

/// The tokenizer that counted the tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenizerInfo {
    /// The name of the tokenizer.
    pub name: String,
    /// Whether the counts are exact. False for estimates.
    pub exact: bool,
}

/// The token budget of a request and its use by layer, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetReport {
    /// The size of the context window in tokens.
    pub max: Tokens,
    /// The tokens reserved for the response and for tools.
    pub reserved: Tokens,
    /// `max` minus `reserved`, in tokens.
    pub effective: Tokens,
    /// The tokens of the request.
    pub used: Tokens,
    /// `max` minus `used`, in tokens.
    pub remaining: Tokens,
    /// `effective` minus `used`, in tokens.
    pub available: Tokens,
    /// The budget of each layer, in recipe order.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, LayerBudget>"))]
    pub layers: Vec<LayerBudget>,
}

/// The budget of one layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayerBudget {
    /// The layer's name.
    #[serde(skip)]
    pub name: Arc<str>,
    /// The tokens that the layer could use, including unused tokens of other
    /// layers.
    pub allowed: Tokens,
    /// The tokens that the layer used.
    pub used: Tokens,
    /// The tokens of pinned items in the layer.
    pub pinned: Tokens,
    /// The number of items that were kept, including items that were cut.
    pub kept: usize,
    /// The number of items that were cut.
    pub cut: usize,
    /// The number of items that were dropped.
    pub dropped: usize,
    /// The budgets of nested layers, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "by_name")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "BTreeMap<String, LayerBudget>", default)
    )]
    pub layers: Vec<LayerBudget>,
}

fn by_name<S: Serializer>(layers: &[LayerBudget], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(layers.len()))?;
    for layer in layers {
        map.serialize_entry(&layer.name, layer)?;
    }
    map.end()
}

fn has_no_scores(scores: &Arc<Scores>) -> bool {
    scores.is_empty()
}

/// A candidate that is in the request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Included {
    /// The path, if the candidate is a file.
    pub path: Option<Arc<str>>,
    /// The id of the candidate.
    pub id: Arc<str>,
    /// The layer of the candidate.
    pub layer: Arc<str>,
    /// The role that the content is sent as.
    pub role: Role,
    /// The trust level of the content.
    pub trust: Trust,
    /// The tokens of the candidate, including tags and markers.
    pub tokens: Tokens,
    /// Whether the content was cut.
    pub truncated: bool,
    /// The tokens of the whole content.
    pub original_tokens: Tokens,
    /// Whether `original_tokens` is an estimate. Content that is much longer than
    /// what is shown of it is not counted whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_estimated: bool,
    /// The priority, from 0 to 1, after hints.
    pub priority: f64,
    /// The priority before hints. Null if no hint changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_priority: Option<f64>,
    /// The relevance score, if the candidate was ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The parts of the relevance score.
    #[serde(skip_serializing_if = "has_no_scores")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub scores: Arc<Scores>,
    /// The lines that were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_cut: Option<LinesCut>,
    /// The shorter form that is shown. Null if the content is shown as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<FormKind>,
    /// A stable code for the reason why the candidate is included.
    pub code: Code,
    /// The reason in words.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub reason: Reason,
}

/// The lines that a cut removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinesCut {
    /// The first removed line, from 1.
    pub first: u32,
    /// The last removed line.
    pub last: u32,
    /// Whether a part of the first or last line is still shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

impl fmt::Display for LinesCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            first,
            last,
            partial,
        } = self;
        match (first == last, partial) {
            (true, true) => write!(f, "part of line {first}"),
            (true, false) => write!(f, "line {first}"),
            (false, _) => write!(f, "lines {first}-{last}"),
        }
    }
}

/// A candidate that is not in the request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Excluded {
    /// The path, if the candidate is a file.
    pub path: Option<Arc<str>>,
    /// The id of the candidate. A row for several candidates in succession has
    /// the id of the first.
    pub id: Arc<str>,
    /// The id of the last candidate, if the row is for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<Arc<str>>,
    /// The number of candidates, if the row is for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// The layer of the candidate.
    pub layer: Arc<str>,
    /// The role that the content would be sent as.
    pub role: Role,
    /// The tokens that the candidate needs.
    pub tokens: Tokens,
    /// Whether `tokens` is an estimate. Candidates are not counted exactly once
    /// the budget is used up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The priority, from 0 to 1, after hints.
    pub priority: f64,
    /// The priority before hints. Null if no hint changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_priority: Option<f64>,
    /// The relevance score, if the candidate was ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The parts of the relevance score.
    #[serde(skip_serializing_if = "has_no_scores")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub scores: Arc<Scores>,
    /// A stable code for the reason why the candidate is excluded.
    pub code: Code,
    /// The reason in words, and what would have kept the candidate.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub reason: Reason,
    /// Whether a warning already reports it.
    #[serde(skip)]
    pub is_told: bool,
}

impl Excluded {
    /// Returns the row of something that a source did not offer.
    pub fn unoffered(id: &str, layer: &str, role: Role, code: Code, reason: String) -> Self {
        Self {
            path: None,
            id: id.into(),
            through: None,
            items: None,
            layer: layer.into(),
            role,
            tokens: 0,
            estimated: false,
            priority: 0.0,
            base_priority: None,
            score: None,
            scores: Scores::none(),
            code,
            reason: Reason::Unusable(reason),
            is_told: false,
        }
    }

    /// Sets the tokens that the candidate would have cost, as an estimate.
    pub fn about(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self.estimated = tokens > 0;
        self
    }
}

/// A change that the guard made to an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "GuardFinding"))]
pub struct GuardLine {
    /// The path or id of the item.
    pub item: Arc<str>,
    /// The change.
    #[serde(flatten)]
    pub finding: Finding,
}

/// The reason in words why a candidate is in the request or not. The words are
/// formatted only when they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The item is pinned.
    Pinned,
    /// The item fits whole.
    Fits,
    /// Only its own limit on lines shortened it.
    LineLimit {
        /// The limit.
        max_lines: u32,
    },
    /// The item's own token limit shortened it.
    TokenLimit {
        /// The limit.
        max_tokens: Tokens,
    },
    /// The handle by which the content can be fetched replaced the content.
    Cleared {
        /// The tokens that it had.
        tokens: Tokens,
    },
    /// It marks where something was cut.
    Marker,
    /// The item was cut.
    Cut {
        /// The number of additional tokens that would have shown it whole, or what
        /// its own limits leave of it.
        missing: Tokens,
        /// The part whose lines were removed, if lines were removed.
        part: Option<Cut>,
        /// Whether the item has limits of its own that leave less than the whole.
        is_limited: bool,
        /// Whether other items would get tokens before it.
        is_behind: bool,
        /// Which tokens are too few.
        room: Room,
    },
    /// The item was dropped.
    Dropped {
        /// The code of the reason.
        code: Code,
        /// The tokens that the item needs.
        needed: Tokens,
        /// Whether that is a count.
        exact: bool,
        /// The tokens that were left.
        left: Tokens,
        /// The number of additional tokens that would have kept it, if any number
        /// would.
        missing: Option<Tokens>,
        /// Whether that number is a count.
        exactly_missing: bool,
        /// Whether other items would get tokens before it.
        is_behind: bool,
        /// Which tokens are too few.
        room: Room,
    },
    /// The item cannot be used, with the reason.
    Unusable(String),
}

/// The tokens that were too few for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Room {
    /// Those of the whole request.
    Request,
    /// Those of the item's layer: other layers would get a part of more.
    Layer,
    /// The layer's own limit, whatever the budget is.
    LayerMax(Tokens),
}

impl Room {
    /// Returns how "N more" continues, and what else must be said.
    fn words(self) -> (&'static str, String) {
        match self {
            Room::Request => ("", String::new()),
            Room::Layer => (" in its layer", String::new()),
            Room::LayerMax(max) => (
                " in its layer",
                format!(", but the layer's `max` is {}", grouped(max)),
            ),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Pinned => f.write_str("pinned: always included"),
            Reason::Fits => f.write_str("fits whole"),
            Reason::Marker => f.write_str("marks where part of the path was cut"),
            Reason::LineLimit { max_lines } => write!(f, "cut to max_lines {max_lines}"),
            Reason::TokenLimit { max_tokens } => {
                write!(f, "cut to max_tokens {}", grouped(*max_tokens))
            }
            Reason::Cleared { tokens } => {
                write!(f, "cleared: {} tokens can be fetched", grouped(*tokens))
            }
            Reason::Cut {
                missing,
                part,
                is_limited,
                is_behind,
                room,
            } => {
                let at = match part {
                    Some(Cut::Start) => " at the start",
                    Some(Cut::Middle) => " in the middle",
                    Some(Cut::End) => " at the end",
                    Some(Cut::Never) | None => "",
                };
                let others = match is_behind {
                    true => " and the items before it",
                    false => "",
                };
                let whole = match is_limited {
                    true => "up to its own limit",
                    false => "whole",
                };
                let (place, but) = room.words();
                write!(
                    f,
                    "cut{at}: {} more tokens{place} would have kept it{others} {whole}{but}",
                    grouped(*missing)
                )
            }
            Reason::Unusable(reason) => f.write_str(reason),
            Reason::Dropped {
                code,
                needed,
                exact,
                left,
                missing,
                exactly_missing,
                is_behind,
                room,
            } => {
                let about = |exact: bool| if exact { "" } else { "about " };
                let would_fit = needed <= left;
                let others = match is_behind {
                    true => " and the items before it",
                    false => "",
                };
                let (place, but) = room.words();
                let more = |before: &str, whole: &str| {
                    missing.map_or_else(String::new, |missing| {
                        let about = about(*exactly_missing);
                        let missing = grouped(missing);
                        format!(
                            "{before}{about}{missing} more{place} would have kept \
                             it{whole}{others}{but}"
                        )
                    })
                };
                let about = about(*exact);
                let (needed, left) = (grouped(*needed), grouped(*left));
                match *code {
                    Code::TOO_LARGE => write!(
                        f,
                        "needs {about}{needed} tokens and must not be cut; {left} left{}",
                        more(", ", "")
                    ),
                    Code::BELOW_MINIMUM => write!(
                        f,
                        "needs {about}{needed} tokens; {left} left is too little for a useful \
                         part{}",
                        more(", ", " whole")
                    ),
                    Code::GROUP_DROPPED => f.write_str("another item of its group was dropped"),
                    Code::BEFORE_WINDOW => {
                        f.write_str("older than the start of the history window")
                    }
                    // Other items, nearer to the kept ones, came first.
                    Code::CUT_FROM_PATH if would_fit => write!(
                        f,
                        "in the part of the path that was cut; {about}{needed} tokens"
                    ),
                    Code::CUT_FROM_PATH => write!(
                        f,
                        "in the part of the path that was cut; needs {about}{needed} tokens, \
                         {left} left"
                    ),
                    _ if missing.is_none() => write!(
                        f,
                        "the window begins after it; it needs {about}{needed} tokens, \
                         {left} were left"
                    ),
                    _ => write!(
                        f,
                        "needs {about}{needed} tokens, {left} left{}",
                        more("; ", "")
                    ),
                }
            }
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
