//! Archetypes: what a memory is for. Which types of things it knows, how they
//! are found in texts, and what an answer is made of.
//!
//! They are data; the built-in ones and a user's are files of the same form.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::extract::Rules;

/// The deepest that relations are followed.
pub const DEEPEST: u32 = 16;

/// What a memory is for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Archetype {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// The types of events it expects; others are kept as well.
    pub event_types: Vec<String>,
    /// The types of entities its rules find.
    pub entity_types: Vec<String>,
    /// The types of relations its rules find.
    pub relation_types: Vec<String>,
    /// What texts are searched for.
    pub rules: Rules,
    /// What an answer is made of.
    pub strategy: Strategy,
}

/// How what is remembered is weighed, and what of it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::other_names))]
pub struct Strategy {
    /// What being recent counts.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub recency_weight: f64,
    /// What having to do with the query counts.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub relevance_weight: f64,
    /// What being important counts.
    #[serde(alias = "salient_weight")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub salience_weight: f64,
    /// Whether being recent counts only when a query asks for the recent.
    pub recency_only_when_asked: bool,
    /// How many relations are followed from one entity to the next, at most
    /// 16.
    #[cfg_attr(feature = "schema", schemars(range(max = DEEPEST)))]
    pub depth_limit: u32,
    /// Whether what failed is told, too.
    pub include_failures: bool,
    /// How the budget is split.
    #[serde(alias = "budget_allocation")]
    pub budget: Allocation,
    /// Whether what counts least is shortened when the budget is too small.
    pub compress: bool,
    /// Whether being fresh, having ended well or badly, holding keywords and
    /// being mentioned multiply a score.
    pub boosts: bool,
}

/// The parts of the budget, in percent.
///
/// `patterns` is a part of the whole and is taken first. The other four are
/// parts of the rest, and sum to at most 100. What one of them leaves goes to
/// the best of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::something))]
pub struct Allocation {
    /// What happened last.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub recent: f64,
    /// What has to do with the query.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub semantic: f64,
    /// What is known about the things it names.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub entities: f64,
    /// How they are related.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub relations: f64,
    /// What has worked before, of the whole budget.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub patterns: f64,
}

/// The parts of a budget, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// What happened last.
    pub recent: u64,
    /// What has to do with the query.
    pub semantic: u64,
    /// What is known about the things it names.
    pub entities: u64,
    /// How they are related.
    pub relations: u64,
    /// What has worked before.
    pub patterns: u64,
}

/// Some fields of a strategy, for one request. An allocation is replaced as
/// a whole: what it does not name is 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::other_names))]
pub struct StrategyPatch {
    /// What being recent counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub recency_weight: Option<f64>,
    /// What having to do with the query counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub relevance_weight: Option<f64>,
    /// What being important counts.
    #[serde(alias = "salient_weight", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub salience_weight: Option<f64>,
    /// Whether being recent counts only when a query asks for the recent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recency_only_when_asked: Option<bool>,
    /// How many relations are followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = DEEPEST)))]
    pub depth_limit: Option<u32>,
    /// Whether what failed is told, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_failures: Option<bool>,
    /// How the budget is split.
    #[serde(alias = "budget_allocation", skip_serializing_if = "Option::is_none")]
    pub budget: Option<Allocation>,
    /// Whether what counts least is shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress: Option<bool>,
    /// Whether being fresh, having ended well or badly, holding keywords and
    /// being mentioned multiply a score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boosts: Option<bool>,
}

/// What is wrong with a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyError {
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong with it, with the numbers.
    pub message: String,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for StrategyError {}

impl Default for Strategy {
    /// What an archetype has that says nothing about it: all of it in balance.
    fn default() -> Self {
        Self {
            recency_weight: 0.3,
            relevance_weight: 0.5,
            salience_weight: 0.2,
            recency_only_when_asked: false,
            depth_limit: 2,
            include_failures: true,
            budget: Allocation {
                recent: 20.0,
                semantic: 40.0,
                entities: 20.0,
                relations: 20.0,
                patterns: 10.0,
            },
            compress: true,
            boosts: true,
        }
    }
}

fn wrong(field: &'static str, message: String) -> Result<(), StrategyError> {
    Err(StrategyError { field, message })
}

impl Strategy {
    /// Checks that the weights are numbers of 0 or more and not all 0, that the
    /// percentages sum to at most 100, and that relations are not followed
    /// without end.
    pub fn check(&self) -> Result<(), StrategyError> {
        let weights = [
            ("recency_weight", self.recency_weight),
            ("relevance_weight", self.relevance_weight),
            ("salience_weight", self.salience_weight),
        ];
        for (field, weight) in weights {
            if !(weight.is_finite() && weight >= 0.0) {
                return wrong(
                    field,
                    format!("must be a number of 0 or more, not {weight}"),
                );
            }
        }
        if weights.iter().all(|(_, weight)| *weight == 0.0) {
            return wrong(
                "relevance_weight",
                "is 0, and so are the other two; nothing would count".to_owned(),
            );
        }
        if self.depth_limit > DEEPEST {
            return wrong(
                "depth_limit",
                format!("must be at most {DEEPEST}, not {}", self.depth_limit),
            );
        }
        self.budget.check()
    }

    /// Returns the strategy with the fields that `patch` has, checked.
    pub fn patched(&self, patch: &StrategyPatch) -> Result<Self, StrategyError> {
        let patched = Self {
            recency_weight: patch.recency_weight.unwrap_or(self.recency_weight),
            relevance_weight: patch.relevance_weight.unwrap_or(self.relevance_weight),
            salience_weight: patch.salience_weight.unwrap_or(self.salience_weight),
            recency_only_when_asked: patch
                .recency_only_when_asked
                .unwrap_or(self.recency_only_when_asked),
            depth_limit: patch.depth_limit.unwrap_or(self.depth_limit),
            include_failures: patch.include_failures.unwrap_or(self.include_failures),
            budget: patch.budget.unwrap_or(self.budget),
            compress: patch.compress.unwrap_or(self.compress),
            boosts: patch.boosts.unwrap_or(self.boosts),
        };
        patched.check()?;
        Ok(patched)
    }
}

impl Allocation {
    fn four(&self) -> [(&'static str, f64); 4] {
        [
            ("recent", self.recent),
            ("semantic", self.semantic),
            ("entities", self.entities),
            ("relations", self.relations),
        ]
    }

    fn check(&self) -> Result<(), StrategyError> {
        for (name, percent) in self.four().into_iter().chain([("patterns", self.patterns)]) {
            if !(0.0..=100.0).contains(&percent) {
                let message = format!("{name} must be percent, from 0 to 100, not {percent}");
                return wrong("budget", message);
            }
        }
        let sum: f64 = self.four().iter().map(|(_, percent)| percent).sum();
        // Numbers such as 33.3 are not exact.
        if sum > 100.0 + 1e-6 {
            let listed = self
                .four()
                .map(|(name, percent)| format!("{name} {percent}"));
            let message = format!(
                "the percentages sum to {sum}, more than 100 ({})",
                listed.join(", ")
            );
            return wrong("budget", message);
        }
        if sum + self.patterns == 0.0 {
            return wrong(
                "budget",
                "every part is 0; nothing would be told".to_owned(),
            );
        }
        Ok(())
    }

    /// Splits a budget, rounding down: first the patterns, then the others by
    /// what is left.
    pub fn split(&self, tokens: u64) -> Shares {
        let part = |whole: u64, percent: f64| {
            let part = (whole as f64 * percent / 100.0).floor();
            (part as u64).min(whole)
        };
        let patterns = part(tokens, self.patterns);
        let rest = tokens - patterns;
        Shares {
            recent: part(rest, self.recent),
            semantic: part(rest, self.semantic),
            entities: part(rest, self.entities),
            relations: part(rest, self.relations),
            patterns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(patch: &str) -> String {
        let patch: StrategyPatch = serde_json::from_str(patch).unwrap();
        Strategy::default().patched(&patch).unwrap_err().to_string()
    }

    #[test]
    fn a_patch_changes_what_it_has() {
        let patch = r#"{"salient_weight": 0.7, "depth_limit": 16, "budget": {"semantic": 70}}"#;
        let patch: StrategyPatch = serde_json::from_str(patch).unwrap();
        let patched = Strategy::default().patched(&patch).unwrap();
        assert_eq!((patched.salience_weight, patched.depth_limit), (0.7, 16));
        assert_eq!(
            (patched.budget.semantic, patched.budget.recent),
            (70.0, 0.0)
        );
        assert_eq!(patched.recency_weight, 0.3);
        assert_eq!(
            serde_json::to_string(&StrategyPatch::default()).unwrap(),
            "{}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        assert_eq!(
            complaint(r#"{"budget": {"recent": 30, "semantic": 60, "entities": 40}}"#),
            "budget: the percentages sum to 130, more than 100 \
             (recent 30, semantic 60, entities 40, relations 0)"
        );
        assert_eq!(
            complaint(r#"{"budget": {"patterns": -1}}"#),
            "budget: patterns must be percent, from 0 to 100, not -1"
        );
        assert_eq!(
            complaint(r#"{"budget": {}}"#),
            "budget: every part is 0; nothing would be told"
        );
        assert_eq!(
            complaint(r#"{"depth_limit": 100}"#),
            "depth_limit: must be at most 16, not 100"
        );
        assert_eq!(
            complaint(r#"{"recency_weight": -0.5}"#),
            "recency_weight: must be a number of 0 or more, not -0.5"
        );
        assert_eq!(
            complaint(r#"{"recency_weight": 0, "relevance_weight": 0, "salience_weight": 0}"#),
            "relevance_weight: is 0, and so are the other two; nothing would count"
        );
        let strategy = Strategy {
            relevance_weight: f64::NAN,
            ..Strategy::default()
        };
        assert!(strategy.check().is_err());
        assert!(serde_json::from_str::<StrategyPatch>(r#"{"depth": 1}"#).is_err());
    }

    #[test]
    fn thirds_are_whole() {
        let budget = Allocation {
            recent: 33.3,
            semantic: 33.3,
            entities: 33.4,
            ..Allocation::default()
        };
        assert_eq!(budget.check(), Ok(()));
    }

    #[test]
    fn patterns_come_first_and_the_others_share_the_rest() {
        let shares = Strategy::default().budget.split(1001);
        assert_eq!(
            shares,
            Shares {
                recent: 180,
                semantic: 360,
                entities: 180,
                relations: 180,
                patterns: 100,
            }
        );
        let all = Allocation {
            patterns: 100.0,
            semantic: 100.0,
            ..Allocation::default()
        };
        assert_eq!(all.split(u64::MAX).patterns, u64::MAX);
        assert_eq!(all.split(10).semantic, 0);
    }
}
