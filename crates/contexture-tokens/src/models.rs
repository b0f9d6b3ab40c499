//! [`Models`]: the model table with limits, tokenizers, providers and prices.
//!
//! The table is [generated](ModelTable::import) from LiteLLM's list of models.
//! A model that is not in the table gets the values of the newest model of its
//! family, and a window of [`UNKNOWN_WINDOW`] if it has no known family;
//! callers warn about it. Users add models in `contexture.toml`.

mod import;
mod names;
mod table;

use std::collections::BTreeMap;

use contexture_core::{Tokens, Usage};
use serde::{Deserialize, Serialize};

use crate::openai::Encoding::{Cl100k, O200k};
use crate::tokenizer::Tokenizer::{self, Estimate, OpenAi, Scaled};

pub use import::{ImportError, ListedModel, ModelList};
use names::Kind;
pub use table::{ModelRow, ModelTable, TableError};

/// The window of a model that belongs to no known family.
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
    /// Returns the provider's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::OpenAi => "openai",
            Provider::Gemini => "gemini",
            Provider::Other => "other",
        }
    }

    /// Returns the provider of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Anthropic, Self::OpenAi, Self::Gemini, Self::Other]
            .into_iter()
            .find(|provider| provider.name() == name)
    }
}

/// A model with its window, tokenizer, provider and prices.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The name that the caller used.
    pub name: String,
    /// The family, such as `claude-sonnet`.
    pub family: String,
    /// The window, in tokens: the most input that a request can have.
    pub window: Tokens,
    /// The most output that a request can ask for, if it is known.
    pub max_output: Option<Tokens>,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The provider whose API serves the model.
    pub provider: Provider,
    /// Prices in dollars per million tokens, if known.
    pub prices: Option<Prices>,
    /// False when the table does not have it, so that other values are used.
    pub known: bool,
    /// The model whose values are used, when the table has only its family.
    pub like: Option<String>,
}

/// The prices of a model, in dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The price of a million input tokens that are not in the cache.
    pub input: f64,
    /// The price of a million input tokens that are read from the cache.
    pub cached_input: f64,
    /// The price of a million input tokens that are written to the cache.
    pub cache_write: f64,
    /// The price of a million tokens of the response.
    pub output: f64,
}

impl Prices {
    /// Returns the cost of a call with `usage`, in dollars.
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

    /// Returns the cost of the same call without a cache, in dollars.
    pub fn cost_uncached(&self, usage: &Usage) -> f64 {
        let plain = Usage {
            cached_input_tokens: 0,
            cache_write_tokens: 0,
            ..*usage
        };
        self.cost(&plain)
    }
}

// Measured on recorded usage: Sonnet 4.5 has 1.16 and Opus 4.5 1.22 times the
// tokens of o200k. According to Anthropic, the tokenizer of 4.7 and later makes
// up to 1.35 times as many tokens as the one before.
const CLAUDE: Tokenizer = Scaled(O200k, 1.25);
const CLAUDE_4_7: Tokenizer = Scaled(O200k, 1.5);
const GEMINI: Tokenizer = Estimate(1.15);
const OPEN: Tokenizer = Estimate(1.2);
// OpenAI has published no vocabulary for its models after GPT-5; the previous
// one is the best guess.
const LATER_GPT: Tokenizer = Scaled(O200k, 1.0);

/// The model table: the built-in one or its replacement, and what a user added.
#[derive(Debug, Clone)]
pub struct Models {
    table: ModelTable,
    added: BTreeMap<String, Model>,
}

impl Default for Models {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Models {
    /// Returns the built-in table.
    pub fn built_in() -> Self {
        Self::with_table(ModelTable::built_in())
    }

    /// Returns the models of a table.
    pub fn with_table(table: ModelTable) -> Self {
        Self {
            table,
            added: BTreeMap::new(),
        }
    }

    /// Returns the table without what a user added.
    pub fn table(&self) -> &ModelTable {
        &self.table
    }

    /// Adds a model, or replaces its entry.
    pub fn add(&mut self, model: Model) {
        self.added.insert(model.name.to_ascii_lowercase(), model);
    }

    /// Returns all models, those of the user first.
    pub fn list(&self) -> impl Iterator<Item = Model> {
        let rows = self.table.rows();
        let rows = rows.filter(|row| !self.added.contains_key(&row.name));
        let rows = rows.map(|row| of_row(&row.name.clone(), row));
        self.added.values().cloned().chain(rows)
    }

    /// Returns the entry for `name`, with or without a vendor before it and a
    /// date or `-latest` after it, as Bedrock and Vertex AI spell it, or as
    /// OpenRouter does.
    ///
    /// A model that is not in the table gets the values of the newest model of
    /// its family that is not newer than itself. Without a known family, it
    /// gets a window of [`UNKNOWN_WINDOW`]. Both have `known: false`.
    pub fn resolve(&self, name: &str) -> Model {
        let spellings = names::spellings(name);
        // A user's entry for a model applies to all its dates.
        if let Some(model) = spellings.iter().find_map(|it| self.added.get(it)) {
            return Model {
                name: name.to_owned(),
                ..model.clone()
            };
        }
        if let Some(row) = spellings.iter().find_map(|it| self.table.find(it)) {
            return of_row(name, row);
        }
        let base = spellings.last().map_or("", String::as_str);
        let kind = Kind::of(base);
        match self.newest_like(&kind) {
            Some(row) => Model {
                known: false,
                like: Some(row.name.clone()),
                ..of_row(name, row)
            },
            None => Model {
                name: name.to_owned(),
                family: kind.family(),
                window: UNKNOWN_WINDOW,
                max_output: None,
                tokenizer: tokenizer_of(base, &kind),
                provider: match kind.line() {
                    Some(_) => provider_of(&kind),
                    None => Provider::Other,
                },
                prices: None,
                known: false,
                like: None,
            },
        }
    }

    /// Returns true if two names belong to one model, ignoring a vendor before
    /// the name and a date after it.
    pub fn is_same(&self, one: &str, other: &str) -> bool {
        names::key(&names::base(one)).eq(names::key(&names::base(other)))
    }

    /// Returns true if two models are siblings: of one product line, and with
    /// the same tokenizer as far as the names show.
    pub fn are_siblings(&self, one: &str, other: &str) -> bool {
        let of = |name: &str| {
            let base = names::base(name);
            let kind = Kind::of(&base);
            Some((kind.line()?, tokenizer_of(&base, &kind)))
        };
        of(one).is_some_and(|found| of(other).as_ref() == Some(&found))
    }

    /// Returns the newest model of a family that is not newer than `kind`, else
    /// the oldest one. The family is first that of all words, then of fewer.
    fn newest_like(&self, kind: &Kind) -> Option<ModelRow> {
        kind.line()?;
        let of_line: Vec<(Kind, ModelRow)> = (self.table.rows())
            .map(|row| (Kind::of(&row.name), row))
            .filter(|(other, row)| other.line() == kind.line() && !row.name.contains('/'))
            .collect();
        (1..=kind.words.len()).rev().find_map(|words| {
            let family = &kind.words[..words];
            let all = of_line.iter();
            // A name without a version does not show how new the model is.
            let wider = all
                .filter(|(other, _)| other.words.starts_with(family) && !other.version.is_empty());
            let mut found: Vec<&(Kind, ModelRow)> = wider.collect();
            if found.iter().any(|(other, _)| other.words == kind.words) {
                found.retain(|(other, _)| other.words == kind.words);
            }
            // Of models with one version, the smallest window is safe.
            found.sort_by(|(a, x), (b, y)| {
                let windows = y.window.cmp(&x.window);
                (a.version.cmp(&b.version))
                    .then(windows)
                    .then(y.name.cmp(&x.name))
            });
            let is_older = |other: &Kind| kind.version.is_empty() || other.version <= kind.version;
            let older = found.iter().rev().find(|(other, _)| is_older(other));
            older.or(found.first()).map(|(_, row)| row.clone())
        })
    }
}

/// Returns the model of a row, under the name `name`.
fn of_row(name: &str, row: ModelRow) -> Model {
    let base = names::base(name);
    Model {
        name: name.to_owned(),
        window: row.window,
        max_output: row.max_output,
        tokenizer: tokenizer_of(&base, &Kind::of(&base)),
        provider: row.provider,
        prices: row.prices(),
        family: row.family,
        known: true,
        like: None,
    }
}

/// Returns the provider whose API serves the models of a product line.
fn provider_of(kind: &Kind) -> Provider {
    match kind.line() {
        Some("claude") => Provider::Anthropic,
        Some("gemini") => Provider::Gemini,
        Some("nova" | "command" | "jamba") => Provider::Other,
        _ => Provider::OpenAi,
    }
}

/// Returns the tokenizer of a model, as far as its name shows.
fn tokenizer_of(base: &str, kind: &Kind) -> Tokenizer {
    let version = kind.version.as_slice();
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| base.starts_with(prefix));
    match kind.line() {
        Some("claude") if version >= [4, 7].as_slice() => CLAUDE_4_7,
        Some("claude") => CLAUDE,
        Some("gemini" | "gemma") => GEMINI,
        Some("gpt" | "chatgpt" | "o") => {
            let is_old = version.first() == Some(&3) || version == [4] && !base.contains("4o");
            if kind.line() == Some("gpt") && is_old {
                OpenAi(Cl100k)
            } else if version.first().is_some_and(|&major| major <= 5) || begins(&["gpt-oss"]) {
                OpenAi(O200k)
            } else {
                LATER_GPT
            }
        }
        _ if begins(&["davinci", "babbage"]) => OpenAi(Cl100k),
        _ => OPEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_all_their_spellings() {
        let models = Models::built_in();
        for (name, window) in [
            ("gpt-4o", 128_000),
            ("GPT-4o", 128_000),
            ("gpt-4o-2024-08-06", 128_000),
            ("azure/gpt-4o", 128_000),
            ("ft:gpt-4o-2024-08-06:acme::1", 128_000),
            ("gpt-4.1-mini-2025-04-14", 1_047_576),
            ("gpt-4-0613", 8_192),
            ("gpt-4-1106-preview", 128_000),
            ("gpt-3.5-turbo-0125", 16_385),
            ("gpt-5", 272_000),
            ("gpt-5.6", 922_000),
            ("openai/gpt-5.6-sol", 922_000),
            ("gpt-6.1-sol", 922_000),
            ("claude-sonnet-4-5", 200_000),
            ("claude-sonnet-4-5-20250929", 200_000),
            ("claude-sonnet-4-5@20250929", 200_000),
            ("anthropic/claude-sonnet-4.5", 200_000),
            ("claude-sonnet-4-5-latest", 200_000),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", 200_000),
            ("anthropic.claude-opus-4-6-v1", 1_000_000),
            ("claude-sonnet-5-5", 1_000_000),
            ("us.anthropic.claude-sonnet-5-5-v1:0", 1_000_000),
            ("gemini-3.8-flash", 1_048_576),
            ("models/gemini-2.5-pro", 1_048_576),
            ("gemini/gemini-2.5-flash-preview-09-2025", 1_048_576),
        ] {
            let model = models.resolve(name);
            assert!(model.known, "{name}");
            assert_eq!(model.window, window, "{name}");
            assert_eq!(model.name, name);
            assert!(model.max_output.is_some(), "{name}");
            assert!(model.prices.is_some(), "{name}");
        }
    }

    #[test]
    fn an_unknown_model_without_a_family_gets_defaults() {
        for name in ["my-model-7b", "", "/", "acme/x:y@z", "😀"] {
            let model = Models::built_in().resolve(name);
            assert!(!model.known, "{name}");
            assert_eq!((model.window, model.like), (128_000, None), "{name}");
            assert_eq!(model.tokenizer, OPEN);
            assert_eq!(model.provider, Provider::Other);
        }
    }

    #[test]
    fn an_unknown_model_gets_the_values_of_its_family() {
        for (name, like, tokenizer, provider) in [
            (
                "claude-sonnet-9",
                "claude-sonnet-5-5",
                CLAUDE_4_7,
                Provider::Anthropic,
            ),
            (
                "eu.anthropic.claude-sonnet-9-v1:0",
                "claude-sonnet-5-5",
                CLAUDE_4_7,
                Provider::Anthropic,
            ),
            (
                "claude-opus-4-2",
                "claude-opus-4-1",
                CLAUDE,
                Provider::Anthropic,
            ),
            (
                "gemini-9-flash",
                "gemini-3.8-flash",
                GEMINI,
                Provider::Gemini,
            ),
            (
                "gpt-5.9-codex",
                "gpt-5.3-codex",
                OpenAi(O200k),
                Provider::OpenAi,
            ),
            ("gpt-9", "gpt-5.6", LATER_GPT, Provider::OpenAi),
            ("gpt-9-nova", "gpt-6.1-sol", LATER_GPT, Provider::OpenAi),
            (
                "claude-9",
                "claude-haiku-5-5",
                CLAUDE_4_7,
                Provider::Anthropic,
            ),
        ] {
            let model = Models::built_in().resolve(name);
            assert!(!model.known, "{name}");
            let like = Models::built_in().resolve(like);
            assert_eq!(model.like.as_ref(), Some(&like.name), "{name}");
            assert_eq!(
                (model.window, model.max_output),
                (like.window, like.max_output)
            );
            assert_eq!(
                (model.tokenizer, model.provider),
                (tokenizer, provider),
                "{name}"
            );
        }
    }

    #[test]
    fn tokenizers_follow_the_name() {
        for (name, tokenizer) in [
            ("gpt-3.5-turbo-16k", OpenAi(Cl100k)),
            ("gpt-4", OpenAi(Cl100k)),
            ("gpt-4-turbo", OpenAi(Cl100k)),
            ("gpt-4o-mini", OpenAi(O200k)),
            ("gpt-4.1", OpenAi(O200k)),
            ("o3-mini", OpenAi(O200k)),
            ("gpt-5.6", OpenAi(O200k)),
            ("gpt-oss-120b", OpenAi(O200k)),
            ("gpt-6.1-sol", LATER_GPT),
            ("davinci-002", OpenAi(Cl100k)),
            ("claude-3-5-sonnet", CLAUDE),
            ("claude-opus-4-6", CLAUDE),
            ("claude-opus-4-7", CLAUDE_4_7),
            ("deepseek-chat", OPEN),
        ] {
            assert_eq!(
                Models::built_in().resolve(name).tokenizer,
                tokenizer,
                "{name}"
            );
        }
    }

    #[test]
    fn siblings_are_of_one_line_and_tokenizer() {
        let models = Models::built_in();
        let are = |one, other| models.are_siblings(one, other);
        assert!(are(
            "claude-sonnet-4-5",
            "us.anthropic.claude-opus-4-5-20251101-v1:0"
        ));
        assert!(are("gpt-5", "gpt-4o-mini"));
        assert!(!are("claude-opus-4-6", "claude-opus-4-7"));
        assert!(!are("claude-opus-4-6", "gpt-5"));
        assert!(!are("mine", "mine-too"));
    }

    #[test]
    fn prices_are_those_of_the_table() {
        let model = Models::built_in().resolve("claude-sonnet-4-5-20250929");
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
            window: 64_000,
            ..models.resolve("gpt-4o")
        });
        assert_eq!(models.resolve("gpt-4o-2024-08-06").window, 64_000);
        assert_eq!(
            models.list().filter(|model| model.name == "gpt-4o").count(),
            1
        );
    }
}
