//! [`CacheReport`]: how a request uses the provider's prompt cache.
//!
//! A provider caches the beginning of a request for a while and charges less
//! for the next request with the same beginning. The report says how many
//! tokens of a request can be read from that cache, how many are missed, why,
//! and the price of both.

use std::sync::Arc;

use contexture_core::{Tokens, Usage, grouped};
use contexture_tokens::{Model, Prices, Provider};
use jiff::SignedDuration;
use serde::Serialize;

use crate::error::{Cause, Error};

/// The part of a request that the provider can serve from its prompt cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheReport {
    /// The hash of the earlier request.
    pub previous: String,
    /// The number of leading tokens that are the same.
    pub shared_tokens: Tokens,
    /// The share of the later request that is the same, from 0 to 1.
    pub shared_fraction: f64,
    /// The position where the requests differ first. Null if they are the same.
    pub first_difference: Option<Difference>,
    /// The number of tokens that the provider can read from its cache.
    pub read_tokens: Tokens,
    /// The number of tokens that the provider writes to its cache.
    pub written_tokens: Tokens,
    /// The number of tokens of the earlier request that the provider had in its
    /// cache and that the later request cannot use.
    pub missed_tokens: Tokens,
    /// Whether the later request changes tools, instructions or history of the
    /// earlier one, or is for another model. The time is not considered.
    pub broken: bool,
    /// The reason why tokens were missed. Null if none were.
    pub cause: Option<CacheCause>,
    /// The price of the input with the cache, in US dollars. Null if the prices
    /// of the model are unknown.
    pub dollars: Option<f64>,
    /// The part of `dollars` that is due to missed tokens. Null if the prices
    /// of the model are unknown.
    pub dollars_missed: Option<f64>,
}

/// The reason why a request cannot use the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum CacheCause {
    /// The request is for another model.
    Model,
    /// The provider's cache has expired since the previous request.
    TimeToLive,
    /// The definitions of tools differ.
    Tools,
    /// Earlier messages were replaced by a summary, or are left out.
    Compaction,
    /// Instructions or earlier messages differ.
    Edit,
}

impl CacheCause {
    /// Returns the cause in words.
    pub fn words(self) -> &'static str {
        match self {
            CacheCause::Model => "model changed",
            CacheCause::TimeToLive => "cache expired",
            CacheCause::Tools => "tools changed",
            CacheCause::Compaction => "compaction",
            CacheCause::Edit => "content changed",
        }
    }

    /// Returns the name of the cause in reports.
    pub fn name(self) -> &'static str {
        match self {
            CacheCause::Model => "model",
            CacheCause::TimeToLive => "time_to_live",
            CacheCause::Tools => "tools",
            CacheCause::Compaction => "compaction",
            CacheCause::Edit => "edit",
        }
    }
}

/// The position where two requests differ first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FirstDifference"))]
pub struct Difference {
    /// The first layer that differs.
    pub layer: Arc<str>,
    /// The first item that differs.
    pub item: Arc<str>,
    /// The offset of the first byte that differs, from 0, in the text format.
    pub byte: u64,
}

/// The terms of a provider's prompt cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheTerms {
    /// The minimum time for which an entry stays in the cache after its last
    /// use. `None` if the provider does not document it.
    pub time_to_live: Option<SignedDuration>,
    /// The fewest tokens that are cached.
    pub minimum: Tokens,
    /// The prices of the model, if they are known.
    pub prices: Option<Prices>,
}

/// The fewest tokens that Anthropic and OpenAI cache for most models. Some of
/// Anthropic's models need up to 4,096.
const MINIMUM: Tokens = 1024;

impl CacheTerms {
    /// Returns the terms for a model.
    ///
    /// Anthropic caches the content before a mark without `ttl` for 5 minutes.
    /// OpenAI caches content for 30 minutes from gpt-5.6 on, and for 5 to 10
    /// minutes with older models.
    pub fn of(model: &Model) -> Self {
        let minutes = match model.provider {
            Provider::Anthropic => Some(5),
            Provider::OpenAi if contexture_providers::has_cache_breakpoints(&model.name) => {
                Some(30)
            }
            Provider::OpenAi => Some(10),
            _ => None,
        };
        Self {
            time_to_live: minutes.map(SignedDuration::from_mins),
            minimum: MINIMUM,
            prices: model.prices,
        }
    }
}

/// The common part of two requests, before prices are applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sharing {
    /// All tokens of the later request.
    pub(crate) total: Tokens,
    /// The later request's tokens before the first volatile block.
    pub(crate) stable: Tokens,
    /// The tokens of the earlier request's tools, instructions and history,
    /// before the first volatile block.
    pub(crate) standing: Tokens,
    /// The number of `standing` tokens that the later request begins with.
    pub(crate) kept: Tokens,
    /// The cause of the first change within the `standing` tokens. `None` if
    /// the later request changes none of them.
    pub(crate) change: Option<CacheCause>,
    /// The time between the two.
    pub(crate) elapsed: SignedDuration,
}

impl CacheReport {
    /// Returns the report of a request that shares `shared` tokens with the one
    /// whose hash is `previous`.
    pub(crate) fn new(
        previous: String,
        shared: Tokens,
        first_difference: Option<Difference>,
        sharing: &Sharing,
        terms: &CacheTerms,
    ) -> Self {
        let total = sharing.total;
        let is_expired = terms
            .time_to_live
            .is_some_and(|limit| sharing.elapsed > limit);
        let was_cached = sharing.standing >= terms.minimum;
        let cause = match sharing.change {
            Some(CacheCause::Model) => Some(CacheCause::Model),
            _ if is_expired && was_cached => Some(CacheCause::TimeToLive),
            change => change,
        };
        // All providers put tools before everything else.
        let is_lost = matches!(cause, Some(cause) if cause <= CacheCause::Tools);
        let read = match is_lost || !was_cached || sharing.kept < terms.minimum {
            true => 0,
            false => sharing.kept,
        };
        let written = match sharing.stable < terms.minimum {
            true => 0,
            false => sharing.stable.saturating_sub(read),
        };
        let missed = match was_cached && cause.is_some() {
            true => sharing.standing - read,
            false => 0,
        };
        let cost = |read: Tokens, written: Tokens| {
            let usage = Usage {
                input_tokens: total,
                cached_input_tokens: read,
                cache_write_tokens: written,
                ..Usage::default()
            };
            terms.prices.map(|prices| prices.cost(&usage))
        };
        let dollars = cost(read, written);
        // Tokens that are no longer sent cost nothing.
        let again = missed.min(total.saturating_sub(read));
        let without = cost(read + again, written.saturating_sub(again));
        let missed_dollars = dollars.zip(without).map(|(with, without)| with - without);
        Self {
            previous,
            shared_tokens: shared,
            shared_fraction: match total {
                0 => 0.0,
                _ => (shared as f64 / total as f64 * 10_000.0).round() / 10_000.0,
            },
            first_difference,
            read_tokens: read,
            written_tokens: written,
            missed_tokens: missed,
            broken: sharing.change.is_some(),
            cause,
            dollars: dollars.map(exact),
            dollars_missed: missed_dollars.map(|dollars| exact(dollars.max(0.0))),
        }
    }

    /// Returns the error for a request that must not break the cache.
    pub(crate) fn error(&self) -> Error {
        Error::input(format!("cache break: {}", self.describe()))
            .because(Cause::CacheBreak)
            .advise("keep tools, instructions and earlier messages as they were")
    }

    /// Returns the cause, the position and the price of missed tokens as one
    /// line.
    pub fn describe(&self) -> String {
        let cause = self.cause.map_or("no cause", CacheCause::words);
        let mut line = format!("{cause}, {} tokens missed", grouped(self.missed_tokens));
        if let Some(dollars) = self.dollars_missed {
            line.push_str(&format!(", ${dollars:.4}"));
        }
        // A change of the model has no position in the request.
        let has_place = self.broken && self.cause != Some(CacheCause::Model);
        if let (Some(first), true) = (&self.first_difference, has_place) {
            line.push_str(&format!(
                ", first difference at byte {} in item {} of layer {}",
                grouped(first.byte),
                first.item,
                first.layer
            ));
        }
        line
    }
}

/// Returns an amount without the rounding errors of binary fractions. Prices
/// are per million tokens, so nine decimal places are enough for the cheapest.
pub fn exact(dollars: f64) -> f64 {
    (dollars * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> CacheTerms {
        CacheTerms {
            time_to_live: Some(SignedDuration::from_mins(5)),
            minimum: 1000,
            prices: Some(Prices {
                input: 10.0,
                cached_input: 1.0,
                cache_write: 12.5,
                output: 50.0,
            }),
        }
    }

    /// An earlier request with ten thousand tokens, and a later one with two
    /// thousand more.
    fn sharing() -> Sharing {
        Sharing {
            total: 12_000,
            stable: 12_000,
            standing: 10_000,
            kept: 10_000,
            change: None,
            elapsed: SignedDuration::from_secs(20),
        }
    }

    fn report(sharing: &Sharing) -> CacheReport {
        CacheReport::new("p".to_owned(), sharing.kept, None, sharing, &terms())
    }

    #[test]
    fn existing_content_is_read_and_the_rest_is_written() {
        let report = report(&sharing());
        assert_eq!((report.read_tokens, report.written_tokens), (10_000, 2000));
        assert_eq!((report.missed_tokens, report.cause), (0, None));
        assert_eq!(report.dollars, Some(0.035));
        assert_eq!(report.dollars_missed, Some(0.0));
    }

    #[test]
    fn an_edit_loses_what_comes_after_it() {
        let report = report(&Sharing {
            kept: 4000,
            change: Some(CacheCause::Edit),
            ..sharing()
        });
        assert_eq!((report.read_tokens, report.written_tokens), (4000, 8000));
        assert_eq!(report.missed_tokens, 6000);
        assert_eq!(report.cause, Some(CacheCause::Edit));
        // 6,000 tokens are written for 12.5 and not read for 1.
        assert_eq!(report.dollars_missed, Some(0.069));
    }

    #[test]
    fn tools_and_time_and_another_model_lose_everything() {
        for (change, minutes, cause) in [
            (Some(CacheCause::Tools), 1, CacheCause::Tools),
            (None, 6, CacheCause::TimeToLive),
            (Some(CacheCause::Edit), 6, CacheCause::TimeToLive),
            (Some(CacheCause::Model), 6, CacheCause::Model),
        ] {
            let report = report(&Sharing {
                change,
                elapsed: SignedDuration::from_mins(minutes),
                ..sharing()
            });
            assert_eq!((report.read_tokens, report.missed_tokens), (0, 10_000));
            assert_eq!(report.cause, Some(cause));
            assert_eq!(report.broken, change.is_some());
        }
    }

    #[test]
    fn a_prefix_that_is_too_short_was_never_cached() {
        let report = report(&Sharing {
            total: 900,
            stable: 900,
            standing: 800,
            kept: 100,
            change: Some(CacheCause::Edit),
            elapsed: SignedDuration::from_mins(9),
        });
        assert_eq!((report.read_tokens, report.written_tokens), (0, 0));
        assert_eq!((report.missed_tokens, report.broken), (0, true));
        assert_eq!(report.cause, Some(CacheCause::Edit));
        assert_eq!(report.dollars_missed, Some(0.0));
    }
}
