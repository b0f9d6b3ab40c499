//! [`Models`]: the model table with windows, tokenizers, providers and prices.
//!
//! A model that is not in the table gets the tokenizer and provider of its
//! family and a window of [`UNKNOWN_WINDOW`]; callers warn about it. Users add
//! models in `contexture.toml`.

use std::collections::BTreeMap;

use contexture_core::{Tokens, Usage};
use serde::{Deserialize, Serialize};

use crate::openai::Encoding::{Cl100k, O200k};
use crate::tokenizer::Tokenizer::{self, Estimate, OpenAi};

/// The window of a model that the table does not know.
pub const UNKNOWN_WINDOW: Tokens = 128_000;

/// The provider whose API a model is called through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions and Responses, and compatible APIs.
    #[serde(rename = "openai")]
    OpenAi,
    /// Gemini `generateContent`.
    Gemini,
    /// Any other provider. Requests are rendered as text unless a format is
    /// given.
    Other,
}

impl Provider {
    /// Returns the provider's name, as it stands in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::OpenAi => "openai",
            Provider::Gemini => "gemini",
            Provider::Other => "other",
        }
    }
}

/// A model with its window, tokenizer, provider and prices.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The name it was asked for by.
    pub name: String,
    /// The window, in tokens.
    pub window: Tokens,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// Whose API it is called through.
    pub provider: Provider,
    /// Prices in dollars per million tokens, if known.
    pub prices: Option<Prices>,
    /// False when the table does not know it and defaults were taken.
    pub known: bool,
}

/// What a model costs, in dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Tokens read.
    pub input: f64,
    /// Tokens read from the cache.
    pub cached_input: f64,
    /// Tokens put into the cache.
    pub cache_write: f64,
    /// Tokens written.
    pub output: f64,
}

impl Prices {
    /// Returns what a call with `usage` costs, in dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - cached);
        let plain = usage.input_tokens - cached - written;
        let dollars = plain as f64 * self.input
            + cached as f64 * self.cached_input
            + written as f64 * self.cache_write
            + usage.output_tokens as f64 * self.output;
        dollars / 1e6
    }

    /// Returns what the same call would cost without a cache.
    pub fn cost_uncached(&self, usage: &Usage) -> f64 {
        let plain = Usage {
            cached_input_tokens: 0,
            cache_write_tokens: 0,
            ..*usage
        };
        self.cost(&plain)
    }
}

/// List prices for a million tokens: read, read from the cache, written to it,
/// and written. As published by the providers up to 2025; a user's own go into
/// configuration. Where writing to the cache has no price of its own, it costs
/// what reading does.
const PRICES: &[(&str, f64, f64, f64, f64)] = &[
    ("gpt-5", 1.25, 0.125, 1.25, 10.0),
    ("gpt-5-mini", 0.25, 0.025, 0.25, 2.0),
    ("gpt-5-nano", 0.05, 0.005, 0.05, 0.4),
    ("gpt-4.1", 2.0, 0.5, 2.0, 8.0),
    ("gpt-4.1-mini", 0.4, 0.1, 0.4, 1.6),
    ("gpt-4.1-nano", 0.1, 0.025, 0.1, 0.4),
    ("gpt-4o", 2.5, 1.25, 2.5, 10.0),
    ("gpt-4o-mini", 0.15, 0.075, 0.15, 0.6),
    ("o1", 15.0, 7.5, 15.0, 60.0),
    ("o3", 2.0, 0.5, 2.0, 8.0),
    ("o3-mini", 1.1, 0.55, 1.1, 4.4),
    ("o4-mini", 1.1, 0.275, 1.1, 4.4),
    ("gpt-4-turbo", 10.0, 10.0, 10.0, 30.0),
    ("gpt-4", 30.0, 30.0, 30.0, 60.0),
    ("gpt-4-32k", 60.0, 60.0, 60.0, 120.0),
    ("gpt-3.5-turbo", 0.5, 0.5, 0.5, 1.5),
    ("gpt-3.5-turbo-instruct", 1.5, 1.5, 1.5, 2.0),
    ("davinci-002", 2.0, 2.0, 2.0, 2.0),
    ("babbage-002", 0.4, 0.4, 0.4, 0.4),
    ("claude-opus-4-5", 5.0, 0.5, 6.25, 25.0),
    ("claude-sonnet-4-5", 3.0, 0.3, 3.75, 15.0),
    ("claude-haiku-4-5", 1.0, 0.1, 1.25, 5.0),
    ("claude-opus-4-1", 15.0, 1.5, 18.75, 75.0),
    ("claude-opus-4", 15.0, 1.5, 18.75, 75.0),
    ("claude-sonnet-4", 3.0, 0.3, 3.75, 15.0),
    ("claude-3-7-sonnet", 3.0, 0.3, 3.75, 15.0),
    ("claude-3-5-sonnet", 3.0, 0.3, 3.75, 15.0),
    ("claude-3-5-haiku", 0.8, 0.08, 1.0, 4.0),
    ("claude-3-opus", 15.0, 1.5, 18.75, 75.0),
    ("claude-3-haiku", 0.25, 0.03, 0.3, 1.25),
    ("gemini-2.5-pro", 1.25, 0.31, 1.25, 10.0),
    ("gemini-2.5-flash", 0.3, 0.075, 0.3, 2.5),
    ("gemini-2.5-flash-lite", 0.1, 0.025, 0.1, 0.4),
    ("gemini-2.0-flash", 0.1, 0.025, 0.1, 0.4),
    ("gemini-1.5-pro", 1.25, 0.3125, 1.25, 5.0),
    ("gemini-1.5-flash", 0.075, 0.01875, 0.075, 0.3),
];

fn prices(name: &str) -> Option<Prices> {
    let (_, input, cached_input, cache_write, output) =
        *PRICES.iter().find(|(known, ..)| *known == name)?;
    Some(Prices {
        input,
        cached_input,
        cache_write,
        output,
    })
}

// Claude's counts are reported at 1.57 to 2.08 times OpenAI's on code, and the
// estimate itself is some way above OpenAI's.
const CLAUDE: Tokenizer = Estimate(1.9);
const GEMINI: Tokenizer = Estimate(1.15);
const OPEN: Tokenizer = Estimate(1.2);

const BUILT_IN: &[(&str, Tokens, Tokenizer, Provider)] = &[
    ("gpt-5", 400_000, OpenAi(O200k), Provider::OpenAi),
    ("gpt-5-mini", 400_000, OpenAi(O200k), Provider::OpenAi),
    ("gpt-5-nano", 400_000, OpenAi(O200k), Provider::OpenAi),
    ("gpt-4.1", 1_047_576, OpenAi(O200k), Provider::OpenAi),
    ("gpt-4.1-mini", 1_047_576, OpenAi(O200k), Provider::OpenAi),
    ("gpt-4.1-nano", 1_047_576, OpenAi(O200k), Provider::OpenAi),
    ("gpt-4o", 128_000, OpenAi(O200k), Provider::OpenAi),
    ("gpt-4o-mini", 128_000, OpenAi(O200k), Provider::OpenAi),
    ("chatgpt-4o", 128_000, OpenAi(O200k), Provider::OpenAi),
    ("gpt-oss-120b", 131_072, OpenAi(O200k), Provider::OpenAi),
    ("gpt-oss-20b", 131_072, OpenAi(O200k), Provider::OpenAi),
    ("o1", 200_000, OpenAi(O200k), Provider::OpenAi),
    ("o1-mini", 128_000, OpenAi(O200k), Provider::OpenAi),
    ("o3", 200_000, OpenAi(O200k), Provider::OpenAi),
    ("o3-mini", 200_000, OpenAi(O200k), Provider::OpenAi),
    ("o4-mini", 200_000, OpenAi(O200k), Provider::OpenAi),
    ("gpt-4-turbo", 128_000, OpenAi(Cl100k), Provider::OpenAi),
    ("gpt-4", 8_192, OpenAi(Cl100k), Provider::OpenAi),
    ("gpt-4-32k", 32_768, OpenAi(Cl100k), Provider::OpenAi),
    ("gpt-3.5-turbo", 16_385, OpenAi(Cl100k), Provider::OpenAi),
    (
        "gpt-3.5-turbo-instruct",
        4_096,
        OpenAi(Cl100k),
        Provider::OpenAi,
    ),
    ("davinci-002", 16_384, OpenAi(Cl100k), Provider::OpenAi),
    ("babbage-002", 16_384, OpenAi(Cl100k), Provider::OpenAi),
    ("claude-opus-4-5", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-sonnet-4-5", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-haiku-4-5", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-opus-4-1", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-opus-4", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-sonnet-4", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-3-7-sonnet", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-3-5-sonnet", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-3-5-haiku", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-3-opus", 200_000, CLAUDE, Provider::Anthropic),
    ("claude-3-haiku", 200_000, CLAUDE, Provider::Anthropic),
    ("gemini-2.5-pro", 1_048_576, GEMINI, Provider::Gemini),
    ("gemini-2.5-flash", 1_048_576, GEMINI, Provider::Gemini),
    ("gemini-2.5-flash-lite", 1_048_576, GEMINI, Provider::Gemini),
    ("gemini-2.0-flash", 1_048_576, GEMINI, Provider::Gemini),
    ("gemini-1.5-pro", 2_097_152, GEMINI, Provider::Gemini),
    ("gemini-1.5-flash", 1_048_576, GEMINI, Provider::Gemini),
    ("deepseek-chat", 128_000, OPEN, Provider::OpenAi),
    ("deepseek-reasoner", 128_000, OPEN, Provider::OpenAi),
    ("mistral-large", 131_072, OPEN, Provider::OpenAi),
    ("llama-3.1", 131_072, OPEN, Provider::OpenAi),
    ("llama-3.3", 131_072, OPEN, Provider::OpenAi),
    ("qwen2.5", 131_072, OPEN, Provider::OpenAi),
];

/// The model table: what is built in, and what a user added.
#[derive(Debug, Clone, Default)]
pub struct Models {
    added: BTreeMap<String, Model>,
}

impl Models {
    /// Returns the table as it is built in.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Adds a model, or replaces what is known of it.
    pub fn add(&mut self, model: Model) {
        self.added.insert(model.name.to_ascii_lowercase(), model);
    }

    /// Returns the names of the table in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = BUILT_IN
            .iter()
            .map(|(name, ..)| (*name).to_owned())
            .chain(self.added.keys().cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns what is known of `name`, with or without a vendor before it and
    /// a date or `-latest` behind it.
    ///
    /// A model that nobody knows gets a window of [`UNKNOWN_WINDOW`], the
    /// counter of its family as far as its name tells, and `known: false`.
    pub fn resolve(&self, name: &str) -> Model {
        let lower = name.to_ascii_lowercase();
        let bare = lower.rsplit('/').next().unwrap_or(&lower);
        [lower.as_str(), bare, without_suffix(bare)]
            .into_iter()
            .find_map(|candidate| self.find(candidate))
            .map(|model| Model {
                name: name.to_owned(),
                ..model
            })
            .unwrap_or_else(|| {
                let (tokenizer, provider) = family(bare);
                Model {
                    name: name.to_owned(),
                    window: UNKNOWN_WINDOW,
                    tokenizer,
                    provider,
                    prices: None,
                    known: false,
                }
            })
    }

    /// Returns true when two names are of one model: a vendor before the name
    /// and a date behind it do not count.
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        let base = |name: &str| {
            let lower = name.to_ascii_lowercase();
            let bare = lower.rsplit('/').next().unwrap_or(&lower);
            without_suffix(bare).to_owned()
        };
        base(one) == base(other)
    }

    fn find(&self, name: &str) -> Option<Model> {
        if let Some(model) = self.added.get(name) {
            return Some(model.clone());
        }
        let (_, window, tokenizer, provider) =
            BUILT_IN.iter().find(|(known, ..)| *known == name)?;
        Some(Model {
            name: name.to_owned(),
            window: *window,
            tokenizer: tokenizer.clone(),
            provider: *provider,
            prices: prices(name),
            known: true,
        })
    }
}

/// Returns what is most likely for a model that the table does not know.
fn family(name: &str) -> (Tokenizer, Provider) {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if name.contains("claude") {
        (CLAUDE, Provider::Anthropic)
    } else if name.contains("gemini") {
        (GEMINI, Provider::Gemini)
    } else if begins(&["gpt-3.5", "gpt-4-"]) {
        (OpenAi(Cl100k), Provider::OpenAi)
    } else if begins(&["gpt-", "chatgpt-", "o1-", "o3-", "o4-"]) {
        (OpenAi(O200k), Provider::OpenAi)
    } else {
        (OPEN, Provider::Other)
    }
}

/// Returns `name` without a trailing `-latest`, `-preview`, `-20250514`,
/// `-2024-08-06`, `-0613` or `-001`.
fn without_suffix(name: &str) -> &str {
    let latest = ["-latest", "-preview"];
    if let Some(base) = latest.iter().find_map(|suffix| name.strip_suffix(suffix)) {
        return base;
    }
    let shapes: [&[usize]; 4] = [&[8], &[2, 2, 4], &[4], &[3]];
    shapes
        .iter()
        .find_map(|groups| strip_digit_groups(name, groups))
        .unwrap_or(name)
}

/// Strips groups of digits of the given lengths, the last first, each with the
/// `-` or `@` before it.
fn strip_digit_groups<'n>(name: &'n str, lengths: &[usize]) -> Option<&'n str> {
    lengths.iter().try_fold(name, |rest, &length| {
        let at = rest.len().checked_sub(length)?;
        let (base, digits) = rest.split_at_checked(at)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| base.strip_suffix(['-', '@']))
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_dates_vendors_and_latest() {
        let models = Models::built_in();
        for (name, window) in [
            ("gpt-4o", 128_000),
            ("GPT-4o", 128_000),
            ("gpt-4o-2024-08-06", 128_000),
            ("gpt-4.1-mini-2025-04-14", 1_047_576),
            ("claude-sonnet-4-20250514", 200_000),
            ("claude-3-5-sonnet-latest", 200_000),
            ("claude-3-5-sonnet@20241022", 200_000),
            ("anthropic/claude-opus-4", 200_000),
            ("models/gemini-1.5-pro", 2_097_152),
            ("gemini-2.0-flash-001", 1_048_576),
            ("gpt-4-0613", 8_192),
            ("gpt-3.5-turbo-0125", 16_385),
        ] {
            let model = models.resolve(name);
            assert!(model.known, "{name}");
            assert_eq!(model.window, window, "{name}");
            assert_eq!(model.name, name);
        }
    }

    #[test]
    fn an_unknown_model_gets_defaults_and_says_so() {
        let model = Models::built_in().resolve("my-model-7b");
        assert!(!model.known);
        assert_eq!(model.window, 128_000);
        assert_eq!(model.tokenizer, OPEN);
    }

    #[test]
    fn an_unknown_model_is_counted_like_its_family() {
        for (name, tokenizer, provider) in [
            ("claude-sonnet-9", CLAUDE, Provider::Anthropic),
            (
                "us.anthropic.claude-opus-4-v1:0",
                CLAUDE,
                Provider::Anthropic,
            ),
            ("gemini-9-pro", GEMINI, Provider::Gemini),
            ("gpt-5.9-codex", OpenAi(O200k), Provider::OpenAi),
            ("gpt-3.5-turbo-16k", OpenAi(Cl100k), Provider::OpenAi),
        ] {
            let model = Models::built_in().resolve(name);
            assert!(!model.known, "{name}");
            assert_eq!(
                (model.tokenizer, model.provider),
                (tokenizer, provider),
                "{name}"
            );
        }
    }

    #[test]
    fn prices_are_of_models_that_there_are() {
        for (name, input, cached, written, output) in PRICES {
            assert!(BUILT_IN.iter().any(|(known, ..)| known == name), "{name}");
            assert!(
                cached <= input && input <= written && input <= output,
                "{name}"
            );
        }
        let model = Models::built_in().resolve("claude-sonnet-4-20250514");
        let usage = Usage {
            input_tokens: 1_000_000,
            cached_input_tokens: 900_000,
            cache_write_tokens: 50_000,
            output_tokens: 10_000,
            reasoning_tokens: 0,
        };
        let prices = model.prices.unwrap();
        let cost = prices.cost(&usage);
        assert!(
            (cost - (0.15 + 0.27 + 0.1875 + 0.15)).abs() < 1e-9,
            "{cost}"
        );
        assert!((prices.cost_uncached(&usage) - 3.15).abs() < 1e-9);
    }

    #[test]
    fn a_user_can_add_and_replace_models() {
        let mut models = Models::built_in();
        models.add(Model {
            name: "gpt-4o".into(),
            window: 64_000,
            tokenizer: OpenAi(O200k),
            provider: Provider::OpenAi,
            prices: None,
            known: true,
        });
        assert_eq!(models.resolve("gpt-4o-2024-08-06").window, 64_000);
    }
}
