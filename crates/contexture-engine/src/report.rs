//! [`Report`]: the report of a request.
//!
//! It extends the core's rows for every candidate with the recipe, the model,
//! the cache comparison and warnings.

use std::collections::BTreeMap;

use contexture_core::{BudgetReport, Excluded, GuardLine, Included, TokenizerInfo, Tokens};
use serde::Serialize;

use crate::advice::Warning;
use crate::cache::CacheReport;

/// The reason in the report for a block in the form of an API that the request is
/// not for.
pub const OTHER_API: &str = "belongs to the API of another provider";

/// The report of a request: every candidate, exactly once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The name of the recipe.
    pub recipe: String,
    /// The model that the request is for.
    pub model: String,
    /// The tokenizer that counted the tokens.
    pub tokenizer: TokenizerInfo,
    /// The token budget and its use.
    pub budget: BudgetReport,
    /// The candidates in the request, in the order they are sent.
    pub included: Vec<Included>,
    /// The candidates that are not in the request, with the reasons, in the
    /// order they were offered.
    pub excluded: Vec<Excluded>,
    /// Warnings that the caller should read.
    pub warnings: Vec<Warning>,
    /// The changes that the guard made to content.
    pub guard: Vec<GuardLine>,
    /// The effect of each priority hint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub hints: Vec<HintVerdict>,
    /// The comparison with the session's previous request: what the provider
    /// can read from its cache, and what is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheReport>,
    /// Tool results that later results replace, and whether clearing them saves
    /// tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_results: Option<StaleResults>,
    /// The hash under which the request was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The duration of each stage in milliseconds.
    pub timings_ms: BTreeMap<String, f64>,
}

impl Report {
    /// Returns a report with the core's rows, without the engine's details.
    pub(crate) fn around(account: contexture_core::Report) -> Self {
        let contexture_core::Report {
            tokenizer,
            budget,
            included,
            excluded,
            guard,
        } = account;
        Self {
            tokenizer,
            budget,
            included,
            excluded,
            guard,
            ..Self::default()
        }
    }

    /// Returns the comparison with the session's previous request if this
    /// request changes its tools, instructions or history, or is for another
    /// model: the provider must then read cached tokens again.
    ///
    /// The time is not considered, so that a test with the same input has the
    /// same result.
    pub fn cache_break(&self) -> Option<&CacheReport> {
        self.cache.as_ref().filter(|cache| cache.broken)
    }
}

/// Tool results that later results replace. `tokens`, `requests`, `rewritten`,
/// `gain` and `cost` are about those that earlier requests have not cleared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StaleResults {
    /// The number of stale tool results in the conversation.
    pub stale: usize,
    /// The number of them that the request shows as cleared.
    pub cleared: usize,
    /// The tokens that clearing removes from each later request.
    pub tokens: Tokens,
    /// The expected number of later requests.
    pub requests: u64,
    /// The tokens of the cached prefix that the provider must write again.
    pub rewritten: Tokens,
    /// The savings: `tokens` × `requests`, at the price of cached input,
    /// expressed in tokens of input.
    pub gain: Tokens,
    /// The costs: `rewritten`, at the price of writing to the cache minus the
    /// price of cached input, expressed in tokens of input.
    pub cost: Tokens,
}

/// The effect of a hint on a file's priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HintVerdict {
    /// The path of the file.
    pub path: String,
    /// The list that the hint is on: `hot` or `cold`.
    pub list: String,
    /// The effect: `honored`, `deferred`, `overridden` or `promoted`.
    pub verdict: String,
    /// The reason that the hint gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
