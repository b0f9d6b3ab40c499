//! The account of an assembly: what was spent, what is in the request, what is
//! not, and why.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::code::Code;
use crate::counts::Tokens;
use crate::cut::grouped;
use crate::form::FormKind;
use crate::item::{Role, Scores, Trust};
use contexture_guard::Finding;

/// The account of an assembly: every candidate, exactly once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The tokenizer.
    pub tokenizer: TokenizerInfo,
    /// The budget: its limits and what each layer used.
    pub budget: BudgetReport,
    /// What is in the request, in the order it is sent.
    pub included: Vec<Included>,
    /// What is not, in the order it was offered, and why.
    pub excluded: Vec<Excluded>,
    /// Every change that the guard made.
    pub guard: Vec<GuardLine>,
}

/// The tokenizer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenizerInfo {
    /// The name.
    pub name: String,
    /// False when the counts are estimates.
    pub exact: bool,
}

/// The budget: its limits and what each layer used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetReport {
    /// The whole window.
    pub max: Tokens,
    /// What is set aside for the response and for tools.
    pub reserved: Tokens,
    /// `max` less `reserved`.
    pub effective: Tokens,
    /// The size of the request, in tokens.
    pub used: Tokens,
    /// `max` less `used`.
    pub remaining: Tokens,
    /// `effective` less `used`.
    pub available: Tokens,
    /// The same by layer, in recipe order.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, LayerBudget>"))]
    pub layers: Vec<LayerBudget>,
}

/// One layer's part of the budget.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayerBudget {
    /// The layer's name.
    #[serde(skip)]
    pub name: Arc<str>,
    /// What it might spend, passed-on tokens included.
    pub allowed: Tokens,
    /// The tokens that the layer uses.
    pub used: Tokens,
    /// The part of `used` that is pinned.
    pub pinned: Tokens,
    /// How many items were kept, cut ones among them.
    pub kept: usize,
    /// The number of kept items that were cut.
    pub cut: usize,
    /// The number of dropped items.
    pub dropped: usize,
    /// The layers inside it, in order.
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
    /// The path, if it is a file.
    pub path: Option<Arc<str>>,
    /// The id of the item.
    pub id: Arc<str>,
    /// The name of the layer.
    pub layer: Arc<str>,
    /// The role.
    pub role: Role,
    /// How far it is to be believed.
    pub trust: Trust,
    /// The size in tokens, tags and marker included.
    pub tokens: Tokens,
    /// Whether it was cut.
    pub truncated: bool,
    /// The size before the cut, in tokens.
    pub original_tokens: Tokens,
    /// True when `original_tokens` is extrapolated, the item being larger than
    /// the whole budget.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub original_estimated: bool,
    /// The priority it was kept by.
    pub priority: f64,
    /// The priority before hints moved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_priority: Option<f64>,
    /// How well it matched, where it was ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The parts of the score, by name.
    #[serde(skip_serializing_if = "has_no_scores")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub scores: Arc<Scores>,
    /// The lines that were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_cut: Option<LinesCut>,
    /// Which shorter form of it is shown, when it is not shown whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<FormKind>,
    /// Why it is here: a stable code.
    pub code: Code,
    /// Why it is here, in words.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub reason: Reason,
}

/// The lines that a cut took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinesCut {
    /// The first line that went.
    pub first: u32,
    /// The last line that went.
    pub last: u32,
    /// True when a part of one of these lines is still there.
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
    /// The path, if it is a file.
    pub path: Option<Arc<str>>,
    /// The id of the item.
    pub id: Arc<str>,
    /// The name of the layer.
    pub layer: Arc<str>,
    /// The role.
    pub role: Role,
    /// The size in tokens.
    pub tokens: Tokens,
    /// True when `tokens` is a guess, because nothing was left to count it for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// The priority it was weighed by.
    pub priority: f64,
    /// The priority before hints moved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_priority: Option<f64>,
    /// How well it matched, where it was ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The parts of the score, by name.
    #[serde(skip_serializing_if = "has_no_scores")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub scores: Arc<Scores>,
    /// Why it is not here: a stable code.
    pub code: Code,
    /// Why, in words, with what would have kept it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub reason: Reason,
    /// Whether a warning says so already.
    #[serde(skip)]
    pub is_told: bool,
}

impl Excluded {
    /// Returns the row of something that a source did not offer.
    pub fn unoffered(id: &str, layer: &str, role: Role, code: Code, reason: String) -> Self {
        Self {
            path: None,
            id: id.into(),
            layer: layer.into(),
            role,
            tokens: 0,
            estimated: false,
            priority: 0.0,
            base_priority: None,
            score: None,
            scores: Arc::default(),
            code,
            reason: Reason::Unusable(reason),
            is_told: false,
        }
    }

    /// Sets what it would have cost, some of which is a guess.
    pub fn about(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self.estimated = tokens > 0;
        self
    }
}

/// Something the guard changed in an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GuardLine {
    /// The item's path or id.
    pub item: Arc<str>,
    /// The change.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Why a candidate is in the request or not, in words. The words are made when
/// they are asked for.
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
    /// It marks where something was cut.
    Marker,
    /// The item was cut.
    Cut {
        /// How many more tokens would have shown it whole.
        missing: Tokens,
    },
    /// The item was dropped.
    Dropped {
        /// Why.
        code: Code,
        /// The tokens that the item needs.
        needed: Tokens,
        /// Whether that is a count.
        exact: bool,
        /// The tokens that were left.
        left: Tokens,
    },
    /// The item cannot be used, with the reason.
    Unusable(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Pinned => f.write_str("pinned: charged before everything else"),
            Reason::Fits => f.write_str("fits whole"),
            Reason::Marker => f.write_str("marks where part of the path was cut"),
            Reason::LineLimit { max_lines } => write!(f, "cut to max_lines {max_lines}"),
            Reason::Cut { missing } => {
                write!(
                    f,
                    "cut: {} more tokens would have kept it whole",
                    grouped(*missing)
                )
            }
            Reason::Unusable(reason) => f.write_str(reason),
            Reason::Dropped {
                code,
                needed,
                exact,
                left,
            } => {
                let about = if *exact { "" } else { "about " };
                let would_fit = needed <= left;
                let missing = grouped(needed.saturating_sub(*left));
                let (needed, left) = (grouped(*needed), grouped(*left));
                match *code {
                    Code::TOO_LARGE => write!(
                        f,
                        "needs {about}{needed} tokens and must not be cut; {left} left, \
                         {about}{missing} more would have kept it"
                    ),
                    Code::BELOW_MINIMUM => write!(
                        f,
                        "needs {about}{needed} tokens; {left} left is too little for a useful \
                         part, {about}{missing} more would have kept it whole"
                    ),
                    Code::GROUP_DROPPED => f.write_str("another item of its group was dropped"),
                    Code::BEFORE_WINDOW => {
                        f.write_str("older than the start of the history window")
                    }
                    // Others that are nearer to what is kept came first.
                    Code::CUT_FROM_PATH if would_fit => write!(
                        f,
                        "in the part of the path that was cut; {about}{needed} tokens"
                    ),
                    Code::CUT_FROM_PATH => write!(
                        f,
                        "in the part of the path that was cut; needs {about}{needed} tokens, \
                         {left} left"
                    ),
                    _ => write!(
                        f,
                        "needs {about}{needed} tokens, {left} left; \
                         {about}{missing} more would have kept it"
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
