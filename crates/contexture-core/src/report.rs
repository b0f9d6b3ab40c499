//! The account of an assembly: what was spent, what is in the request, what is
//! not, and why.

#[cfg(feature = "schema")]
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
    /// What counted the tokens.
    pub tokenizer: TokenizerInfo,
    /// What was spent, and on what.
    pub budget: BudgetReport,
    /// What is in the request, in the order it is sent.
    pub included: Vec<Included>,
    /// What is not, in the order it was offered, and why.
    pub excluded: Vec<Excluded>,
    /// What the guard changed.
    pub guard: Vec<GuardLine>,
}

/// What counted the tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenizerInfo {
    /// Its name.
    pub name: String,
    /// False when the counts are estimates.
    pub exact: bool,
}

/// What was spent, and on what.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetReport {
    /// The whole window.
    pub max: Tokens,
    /// What is set aside for the response and for tools.
    pub reserved: Tokens,
    /// `max` less `reserved`.
    pub effective: Tokens,
    /// What the request costs.
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
    /// What it spent.
    pub used: Tokens,
    /// How much of that was pinned.
    pub pinned: Tokens,
    /// How many items were kept, cut ones among them.
    pub kept: usize,
    /// How many of those were cut.
    pub cut: usize,
    /// How many were left out.
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
    /// Its path, when it is a file.
    pub path: Option<Arc<str>>,
    /// Its id.
    pub id: Arc<str>,
    /// Its layer.
    pub layer: Arc<str>,
    /// Its role.
    pub role: Role,
    /// How far it is to be believed.
    pub trust: Trust,
    /// What it costs, tags and marker included.
    pub tokens: Tokens,
    /// Whether it was cut.
    pub truncated: bool,
    /// What it would have cost whole.
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
    /// What the score is made of.
    #[serde(skip_serializing_if = "has_no_scores")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub scores: Arc<Scores>,
    /// Which lines went.
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
    /// Its path, when it is a file.
    pub path: Option<Arc<str>>,
    /// Its id.
    pub id: Arc<str>,
    /// Its layer.
    pub layer: Arc<str>,
    /// Its role.
    pub role: Role,
    /// What it would have cost.
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
    /// What the score is made of.
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
    /// What was changed.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Why a candidate is in the request or not, in words. The words are made when
/// they are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is pinned.
    Pinned,
    /// It fitted.
    Fits,
    /// Only its own limit on lines shortened it.
    LineLimit {
        /// The limit.
        max_lines: u32,
    },
    /// It marks where something was cut.
    Marker,
    /// It was cut.
    Cut {
        /// How many more tokens would have shown it whole.
        missing: Tokens,
    },
    /// It was dropped.
    Dropped {
        /// Why.
        code: Code,
        /// What it needs.
        needed: Tokens,
        /// Whether that is a count.
        exact: bool,
        /// What was left.
        left: Tokens,
    },
    /// It cannot be used.
    Unusable(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Pinned => f.write_str("pinned: charged before everything else"),
            Reason::Fits => f.write_str("fits whole"),
            Reason::Marker => f.write_str("marks where a part of the path was cut"),
            Reason::LineLimit { max_lines } => write!(f, "cut to its max_lines of {max_lines}"),
            Reason::Cut { missing } => {
                write!(
                    f,
                    "cut: needed {} more tokens to be whole",
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
                        "needs {about}{needed} tokens whole and may not be cut; \
                         {about}{missing} more than the {left} left would have kept it"
                    ),
                    Code::BELOW_MINIMUM => write!(
                        f,
                        "needs {about}{needed} tokens, and of the {left} left too little would \
                         be content; {about}{missing} more would have kept it whole"
                    ),
                    Code::GROUP_DROPPED => f.write_str("a member of its group is not there"),
                    Code::BEFORE_WINDOW => f.write_str("older than what the window holds"),
                    // Others that are nearer to what is kept came first.
                    Code::CUT_FROM_PATH if would_fit => write!(
                        f,
                        "in the part of the path that was cut, {about}{needed} tokens"
                    ),
                    Code::CUT_FROM_PATH => write!(
                        f,
                        "in the part of the path that was cut: needs {about}{needed} tokens, \
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
