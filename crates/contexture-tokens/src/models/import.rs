//! Makes a [`ModelTable`] from model lists of other projects.

use std::collections::BTreeMap;
use std::fmt;

use contexture_core::Tokens;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::{self, Kind, key};
use super::table::{ModelRow, ModelTable};
use super::{Model, Prices, Provider, provider_of};

/// Providers that make the models they list. Their limits and prices are
/// preferred.
const MAKERS: &[&str] = &[
    "anthropic",
    "openai",
    "text-completion-openai",
    "gemini",
    "xai",
    "deepseek",
    "mistral",
    "moonshot",
    "zai",
    "minimax",
    "dashscope",
    "meta",
    "meta_llama",
    "cohere_chat",
    "amazon_nova",
    "ai21",
];

/// Providers that run models of others, with limits that differ on purpose.
const CLOUDS: &[&str] = &["vertex_ai", "bedrock", "azure"];

/// The reason why a file is not a list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportError(String);

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ImportError {}

/// A list of models as JSON: what `contexture models list --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelList {
    /// The date of the data, such as `2026-11-16`.
    pub date: String,
    /// The source of the data.
    pub source: String,
    /// The models.
    pub models: Vec<ListedModel>,
}

/// A model in a [`ModelList`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedModel {
    /// The name.
    pub name: String,
    /// The provider whose API the model is called through.
    pub provider: Provider,
    /// The family. Default: derived from the name.
    #[serde(default)]
    pub family: String,
    /// The input limit, in tokens.
    pub window: Tokens,
    /// The output limit, in tokens.
    #[serde(default)]
    pub max_output: Option<Tokens>,
    /// Prices in dollars per million tokens.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// The tokenizer. It follows from the name; a value that is read has no
    /// effect.
    #[serde(default)]
    pub tokenizer: String,
}

impl ListedModel {
    /// Returns the entry of `model` in a list.
    pub fn of(model: &Model) -> Self {
        Self {
            name: model.name.clone(),
            provider: model.provider,
            family: model.family.clone(),
            window: model.window,
            max_output: model.max_output,
            prices: model.prices,
            tokenizer: model.tokenizer.name(),
        }
    }
}

impl ModelTable {
    /// Reads a table from any form that is known: the text of a table, a
    /// [`ModelList`], or `model_prices_and_context_window.json` of LiteLLM.
    /// `date` is the date of the data and `source` names it, where the file
    /// does not.
    ///
    /// Fails with the line, or the model and field, of the first error.
    pub fn import(text: &str, date: &str, source: &str) -> Result<Self, ImportError> {
        if !text.trim_start().starts_with('{') {
            return Self::parse(text.to_owned()).map_err(|error| ImportError(error.to_string()));
        }
        let wrong = |error: serde_json::Error| ImportError(error.to_string());
        let value: Map<String, Value> = serde_json::from_str(text).map_err(wrong)?;
        let table = match value.get("models") {
            Some(Value::Array(_)) => {
                let list: ModelList = serde_json::from_str(text).map_err(wrong)?;
                let rows = list.models.into_iter().map(listed).collect();
                Self::new(&list.date, &list.source, rows)
            }
            _ => Self::new(date, source, from_litellm(&value)?),
        };
        // The written table must be readable.
        Self::parse(table.text().to_owned()).map_err(|error| {
            let line = table.text().lines().nth(error.line() - 1);
            let row = line.filter(|line| !line.starts_with('#'));
            let name = row.and_then(|row| row.split('\t').next());
            let name = name.map_or_else(String::new, |name| format!("`{name}`: "));
            ImportError(format!("{name}{}", error.without_line()))
        })
    }
}

fn listed(model: ListedModel) -> ModelRow {
    let prices = model.prices;
    let base = names::base(&model.name);
    ModelRow {
        family: match model.family.is_empty() {
            true => Kind::of(&base).family(),
            false => model.family.replace(['\n', '\t'], " "),
        },
        name: model.name.to_ascii_lowercase().replace(['\n', '\t'], " "),
        provider: model.provider,
        window: model.window,
        max_output: model.max_output,
        input: prices.map(|prices| prices.input),
        output: prices.map(|prices| prices.output),
        cached_input: prices.map(|prices| prices.cached_input),
        cache_write: prices.map(|prices| prices.cache_write),
    }
}

/// Returns the rank of an entry's provider; lower is more reliable.
fn rank(provider: &str) -> u8 {
    if MAKERS.contains(&provider) {
        0
    } else if CLOUDS.iter().any(|cloud| provider.starts_with(cloud)) {
        1
    } else {
        2
    }
}

struct Entry {
    raw: String,
    rank: u8,
    row: ModelRow,
}

/// Returns a row for each model, and one for each dated name and each provider
/// whose limits differ from the model's.
fn from_litellm(entries: &Map<String, Value>) -> Result<Vec<ModelRow>, ImportError> {
    let mut models: BTreeMap<Vec<u8>, Vec<Entry>> = BTreeMap::new();
    for (raw, entry) in entries {
        let mode = entry.get("mode").and_then(Value::as_str);
        if raw == "sample_spec" || !matches!(mode, Some("chat" | "responses" | "completion")) {
            continue;
        }
        if let Some(entry) = read_entry(raw, entry)? {
            let base = key(&entry.row.name).collect();
            models.entry(base).or_default().push(entry);
        }
    }
    let mut rows = Vec::new();
    for mut of_model in models.into_values() {
        let windows: Vec<Tokens> = of_model.iter().map(|entry| entry.row.window).collect();
        let usual = |window| windows.iter().filter(|&&other| other == window).count();
        // Among entries of one rank, the window that most of them have counts.
        // A maker's shortest name has no date; a cloud's lowest price is that of
        // its usual regions.
        of_model.sort_by(|a, b| {
            let votes = usual(b.row.window).cmp(&usual(a.row.window));
            let price = |entry: &Entry| match entry.rank {
                0 => 0.0,
                _ => entry.row.input.unwrap_or(f64::MAX),
            };
            (a.rank.cmp(&b.rank))
                .then(votes)
                .then(price(a).total_cmp(&price(b)))
                .then(a.raw.len().cmp(&b.raw.len()))
                .then(a.raw.cmp(&b.raw))
        });
        let model = of_model[0].row.clone();
        for entry in &of_model[1..] {
            let is_maker = entry.rank == 0;
            let same_prices = entry.row.prices() == model.prices() || !is_maker;
            if entry.row.window == model.window && same_prices {
                continue;
            }
            // A maker's own name is known without its vendor.
            let raw = entry.raw.to_ascii_lowercase();
            let name = match is_maker {
                true => raw.rsplit('/').next().unwrap_or_default().to_owned(),
                false => raw,
            };
            if key(&name).ne(key(&model.name)) {
                let row = entry.row.clone();
                rows.push(ModelRow { name, ..row });
            }
        }
        rows.insert(0, model);
    }
    Ok(rows)
}

fn read_entry(raw: &str, entry: &Value) -> Result<Option<Entry>, ImportError> {
    let number = |field: &str, value: &Value| match value {
        Value::Null => Ok(None),
        Value::Number(n) => Ok(n.as_f64().filter(|n| n.is_finite() && *n >= 0.0)),
        Value::String(text) => Ok(text.parse().ok()),
        _ => Err(ImportError(format!("`{raw}`: {field}: must be a number"))),
    };
    let get = |field: &str| number(field, entry.get(field).unwrap_or(&Value::Null));
    let tokens = |field: &str| {
        let n = get(field)?;
        Ok(n.map(|n| n as Tokens).filter(|&n| n > 0))
    };
    let legacy = tokens("max_tokens")?;
    let Some(window) = tokens("max_input_tokens")?.or(legacy) else {
        return Ok(None);
    };
    // A million tokens, without what the binary form adds to the price of one.
    let dollars = |field: &str| {
        let n = get(field)?;
        Ok(n.map(|n| (n * 1e12).round() / 1e6))
    };
    let (input, output) = (
        dollars("input_cost_per_token")?,
        dollars("output_cost_per_token")?,
    );
    // A price of zero means that no price was entered.
    let priced = input.zip(output).is_some_and(|(i, o)| i > 0.0 || o > 0.0);
    let provider = entry.get("litellm_provider").and_then(Value::as_str);
    let base = names::base(raw);
    let kind = Kind::of(&base);
    Ok(Some(Entry {
        raw: raw.to_owned(),
        rank: rank(provider.unwrap_or_default()),
        row: ModelRow {
            provider: provider_of(&kind),
            family: kind.family(),
            name: base,
            window,
            max_output: tokens("max_output_tokens")?.or(legacy),
            input: input.filter(|_| priced),
            output: output.filter(|_| priced),
            cached_input: dollars("cache_read_input_token_cost")?.filter(|_| priced),
            cache_write: dollars("cache_creation_input_token_cost")?.filter(|_| priced),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITELLM: &str = r#"{
      "sample_spec": {"mode": "one of: chat", "max_input_tokens": "text"},
      "acme/gpt-9": {"mode": "chat", "litellm_provider": "acme", "max_input_tokens": 1000},
      "gpt-9": {"mode": "chat", "litellm_provider": "openai", "max_input_tokens": 2000,
        "max_output_tokens": 500, "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1e-07},
      "gpt-9-2026-01-02": {"mode": "chat", "litellm_provider": "openai", "max_input_tokens": 2000,
        "max_output_tokens": 500, "input_cost_per_token": 3e-06, "output_cost_per_token": 1e-05},
      "azure/gpt-9-2026-01-02": {"mode": "chat", "litellm_provider": "azure", "max_input_tokens": 2000},
      "picture-9": {"mode": "image_generation", "max_input_tokens": 77}
    }"#;

    #[test]
    fn a_model_has_its_makers_values() {
        let table = ModelTable::import(LITELLM, "2026-01-03", "a test").unwrap();
        let names: Vec<String> = table.rows().map(|row| row.name).collect();
        assert_eq!(names, ["acme/gpt-9", "gpt-9", "gpt-9-2026-01-02"]);
        let row = table.find("gpt-9").unwrap();
        assert_eq!((row.window, row.max_output), (2000, Some(500)));
        let prices = row.prices().unwrap();
        assert_eq!(
            (
                prices.input,
                prices.cached_input,
                prices.cache_write,
                prices.output
            ),
            (2.0, 0.1, 2.0, 10.0)
        );
        assert_eq!(table.find("acme/gpt-9").unwrap().window, 1000);
        assert_eq!(table.find("gpt-9-2026-01-02").unwrap().input, Some(3.0));
        assert_eq!(table.date(), "2026-01-03");
    }

    #[test]
    fn all_forms_give_the_same_table() {
        let table = ModelTable::import(LITELLM, "2026-01-03", "a test").unwrap();
        let again = ModelTable::import(table.text(), "2020-01-01", "other").unwrap();
        assert_eq!(again, table);
    }

    #[test]
    fn errors_name_the_model_and_the_field() {
        let import = |text: &str| {
            let imported = ModelTable::import(text, "2026-01-03", "a test");
            imported.unwrap_err().to_string()
        };
        assert_eq!(
            import(r#"{"gpt-9": {"mode": "chat", "max_input_tokens": []}}"#),
            "`gpt-9`: max_input_tokens: must be a number"
        );
        let list = r#"{"date": "2026-01-03", "source": "x", "models": [
            {"name": "a", "provider": "openai", "window": 0}]}"#;
        assert_eq!(
            import(list),
            "`a`: window: must be a whole number, at least 1, but is `0`"
        );
        assert!(
            import("{\n\n  oops").contains("line 3 column 3"),
            "{}",
            import("{\n\n  oops")
        );
        assert_eq!(import("{}"), "row: the table has no models");
    }
}
