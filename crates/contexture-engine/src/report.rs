//! [`Report`]: the report of a request.
//!
//! It extends the core's rows for every candidate with the recipe, the model,
//! the cache comparison and warnings.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::{BudgetReport, Excluded, GuardLine, Included, TokenizerInfo, Tokens};
use serde::Serialize;

use crate::advice::Warning;

/// The account of a request: every candidate, exactly once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The recipe that was followed.
    pub recipe: String,
    /// The model the request is for.
    pub model: String,
    /// The tokenizer.
    pub tokenizer: TokenizerInfo,
    /// The budget: its limits and what each layer used.
    pub budget: BudgetReport,
    /// What is in the request, in the order it is sent.
    pub included: Vec<Included>,
    /// What is not, in the order it was offered, and why.
    pub excluded: Vec<Excluded>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// Every change that the guard made.
    pub guard: Vec<GuardLine>,
    /// What became of hints about priorities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub hints: Vec<HintVerdict>,
    /// What is shared with the request before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheReport>,
    /// The hash that the request is kept by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// How long each stage took, in milliseconds.
    pub timings_ms: BTreeMap<String, f64>,
}

impl Report {
    /// Returns the report around the core's account.
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
}

/// What a request shares with the one before it in its session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheReport {
    /// The request it is compared with.
    pub previous: String,
    /// How many leading tokens are the same.
    pub shared_tokens: Tokens,
    /// Which part of the request that is, from 0 to 1.
    pub shared_fraction: f64,
    /// Where the two part.
    pub first_difference: Option<Difference>,
}

/// Where two requests part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FirstDifference"))]
pub struct Difference {
    /// The layer that differs first.
    pub layer: Arc<str>,
    /// The item that differs first.
    pub item: Arc<str>,
    /// The first byte that differs, counted in the text form.
    pub byte: u64,
}

/// What became of a hint about a file's priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HintVerdict {
    /// The file.
    pub path: String,
    /// The list it stands on: `hot` or `cold`.
    pub list: String,
    /// `honored`, `deferred`, `overridden` or `promoted`.
    pub verdict: String,
    /// The reason the hint gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
