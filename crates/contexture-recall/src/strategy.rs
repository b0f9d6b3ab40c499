//! The recall strategy: the weights of a score, and the split of the budget.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of relations between a mentioned entity and a found one.
pub const DEEPEST: u32 = 16;

/// A recall strategy: how records are scored and how the budget is split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::other_names))]
pub struct Strategy {
    /// The weight of recency in the score, 0 or more. Default: 0.3.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub recency_weight: f64,
    /// The weight of relevance to the query in the score, 0 or more. Default:
    /// 0.5.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub relevance_weight: f64,
    /// The weight of importance in the score, 0 or more. Default: 0.2.
    #[serde(alias = "salient_weight")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub salience_weight: f64,
    /// Whether recency counts only if the query asks for recent records.
    /// Default: false.
    pub recency_only_when_asked: bool,
    /// The number of relations to follow from a mentioned entity, from 0 to 16.
    /// Default: 2.
    #[cfg_attr(feature = "schema", schemars(range(max = DEEPEST)))]
    pub depth_limit: u32,
    /// Whether events with the outcome `failure` are returned. Default: true.
    pub include_failures: bool,
    /// The split of the token budget between the search channels.
    #[serde(alias = "budget_allocation")]
    pub budget: Allocation,
    /// Whether the lowest-scoring records are shortened when the budget is too
    /// small. Default: true.
    pub compress: bool,
    /// Whether freshness, outcome, keywords and mentions multiply the score.
    /// Default: true.
    pub boosts: bool,
}

/// The split of the token budget, in percent.
///
/// `patterns` is a share of the whole budget and is reserved first. The other
/// four are shares of the rest and add up to at most 100. Unused tokens of one
/// channel go to the best records of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::something))]
pub struct Allocation {
    /// The share for recent records, in percent. Default: 0.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub recent: f64,
    /// The share for records that match the query, in percent. Default: 0.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub semantic: f64,
    /// The share for entities that the query mentions, in percent. Default: 0.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub entities: f64,
    /// The share for relations of those entities, in percent. Default: 0.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub relations: f64,
    /// The share for patterns, in percent of the whole budget. Default: 0.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub patterns: f64,
}

/// The split of a token budget, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// The tokens for recent records.
    pub recent: u64,
    /// The tokens for records that match the query.
    pub semantic: u64,
    /// The tokens for entities that the query mentions.
    pub entities: u64,
    /// The tokens for relations of those entities.
    pub relations: u64,
    /// The tokens for patterns.
    pub patterns: u64,
}

/// Fields of a recall strategy to override for one request. `budget` is
/// replaced as a whole: shares that it omits are 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::other_names))]
pub struct StrategyPatch {
    /// The weight of recency in the score, 0 or more. Default: the archetype's
    /// value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub recency_weight: Option<f64>,
    /// The weight of relevance to the query in the score, 0 or more. Default:
    /// the archetype's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub relevance_weight: Option<f64>,
    /// The weight of importance in the score, 0 or more. Default: the
    /// archetype's value.
    #[serde(alias = "salient_weight", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub salience_weight: Option<f64>,
    /// Whether recency counts only if the query asks for recent records.
    /// Default: the archetype's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recency_only_when_asked: Option<bool>,
    /// The number of relations to follow from a mentioned entity, from 0 to 16.
    /// Default: the archetype's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = DEEPEST)))]
    pub depth_limit: Option<u32>,
    /// Whether events with the outcome `failure` are returned. Default: the
    /// archetype's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_failures: Option<bool>,
    /// The split of the token budget between the search channels. Default: the
    /// archetype's value.
    #[serde(alias = "budget_allocation", skip_serializing_if = "Option::is_none")]
    pub budget: Option<Allocation>,
    /// Whether the lowest-scoring records are shortened when the budget is too
    /// small. Default: the archetype's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compress: Option<bool>,
    /// Whether freshness, outcome, keywords and mentions multiply the score.
    /// Default: the archetype's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boosts: Option<bool>,
}

/// An invalid field of a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyError {
    /// The name of the field.
    pub field: &'static str,
    /// The error, with the numbers.
    pub message: String,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for StrategyError {}

impl Default for Strategy {
    /// The strategy of an archetype that sets no fields.
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

    /// Splits a budget, rounding down: first the patterns, then the others from
    /// the rest.
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
    fn a_patch_changes_only_its_fields() {
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
    fn invalid_strategies_are_errors() {
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
    fn thirds_add_up_to_the_whole() {
        let budget = Allocation {
            recent: 33.3,
            semantic: 33.3,
            entities: 33.4,
            ..Allocation::default()
        };
        assert_eq!(budget.check(), Ok(()));
    }

    #[test]
    fn patterns_are_reserved_first_and_the_rest_is_split() {
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
