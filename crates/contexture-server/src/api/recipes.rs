//! Recipes, and counting tokens.

use contexture::core::TokenizerInfo;
use contexture::tokens::{TokenCounter, Tokenizer};
use contexture::{FileTokens, Parameter, Recipe, RecipeInfo, TokenCounts, recipes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// The built-in recipes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecipeList")]
struct Recipes {
    /// The recipes.
    recipes: Vec<RecipeInfo>,
}

/// A recipe, by its name.
#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    /// The name of a built-in recipe.
    name: String,
}

/// A recipe as it is written.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecipeText")]
struct Written {
    /// Its name.
    name: String,
    /// What it is for.
    description: String,
    /// The recipe as YAML, to read or to start your own from.
    yaml: String,
}

/// A recipe to be looked at.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RecipeToCheck")]
#[serde(deny_unknown_fields)]
struct CheckBody {
    /// The recipe as YAML.
    yaml: String,
}

/// What a recipe is made of.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecipeCheck")]
struct Checked {
    /// Its name.
    name: String,
    /// Its layers, in order.
    layers: Vec<String>,
}

/// The sources that recipes may use.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SourceList")]
struct Sources {
    /// The sources, by name.
    sources: Vec<SourceInfo>,
}

/// A source: what fills a layer of a recipe.
#[derive(Debug, Serialize, JsonSchema)]
struct SourceInfo {
    /// Its name.
    name: String,
    /// The JSON Schema of its parameters.
    #[schemars(with = "Map<String, Value>")]
    parameters: Value,
}

/// Texts whose tokens are counted.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TokensRequest")]
#[serde(deny_unknown_fields)]
struct TokensBody {
    /// The texts.
    texts: Vec<Text>,
    /// The model. Default: the configured one.
    #[serde(default)]
    model: Option<String>,
    /// A tokenizer instead of a model's.
    #[serde(default)]
    tokenizer: Option<Known>,
}

/// A text, or a text with a name.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TextToCount")]
#[serde(untagged)]
enum Text {
    /// The text.
    Bare(String),
    /// With a name.
    Named(NamedText),
}

/// A text with a name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NamedText {
    /// What it is called.
    path: String,
    /// The text.
    text: String,
}

/// A tokenizer that needs no file.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "TokenizerName")]
#[serde(rename_all = "snake_case")]
enum Known {
    /// OpenAI's newer one.
    O200kBase,
    /// OpenAI's older one.
    Cl100kBase,
    /// An estimate that errs high.
    Estimate,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/recipes", "list_recipes")
            .says(
                "List the built-in recipes",
                "A recipe says which layers a request has.",
            )
            .example("/v1/recipes", None),
        |_: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Recipes, Problem> {
            let recipes = recipes::list()?;
            Ok(Recipes { recipes })
        },
    );
    api.add(
        Operation::get("/v1/recipes/{name}", "get_recipe")
            .says("Read a recipe", "As YAML, to start your own from.")
            .example("/v1/recipes/memory", None),
        |_: &Tenant, named: Named, _: Nothing, _: Nothing| -> Result<Written, Problem> {
            let Some(text) = recipes::text(&named.name) else {
                let none = format!("there is no built-in recipe `{}`", named.name);
                let hint = "`GET /v1/recipes` lists the recipes";
                return Err(Problem::missing(none).hint(hint));
            };
            let recipe = Recipe::parse(&named.name, text)?;
            Ok(Written {
                name: recipe.name,
                description: recipe.description,
                yaml: text.to_owned(),
            })
        },
    );
    api.add(
        Operation::post("/v1/recipes/check", "check_recipe")
            .says(
                "Check a recipe",
                "What is wrong with it is told with line and column.",
            )
            .example(
                "/v1/recipes/check",
                json!({"yaml": "recipe: mine\nlayers:\n- {layer: memory, source: \
                                memory, share: 100, place: current}\n- {layer: event, source: \
                                event, place: current}\n"}),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: CheckBody| -> Result<Checked, Problem> {
            let recipe = Recipe::parse("yaml", &body.yaml)?;
            tenant.engine.check_recipe(&recipe)?;
            let layers = recipe.layers.iter().map(|layer| layer.name.to_string());
            Ok(Checked {
                layers: layers.collect(),
                name: recipe.name,
            })
        },
    );
    api.add(
        Operation::get("/v1/sources", "list_sources")
            .says(
                "List the sources",
                "A source fills a layer of a recipe. Returns each source with the JSON Schema of \
                 its parameters: those that `with` in a recipe or in a request may hold.",
            )
            .example("/v1/sources", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Sources, Problem> {
            let sources = tenant
                .engine
                .sources()
                .map(|(name, parameters)| SourceInfo {
                    name: name.to_owned(),
                    parameters: Parameter::schema(parameters),
                });
            Ok(Sources {
                sources: sources.collect(),
            })
        },
    );
    api.add(
        Operation::post("/v1/tokens", "count_tokens")
            .says("Count tokens", "Of texts, for a model or with a tokenizer.")
            .example(
                "/v1/tokens",
                json!({"texts": ["When does the ferry leave?"], "model": "gpt-4o"}),
            ),
        count,
    );
}

fn count(
    tenant: &Tenant,
    _: Nothing,
    _: Nothing,
    body: TokensBody,
) -> Result<TokenCounts, Problem> {
    if let Some(known) = body.tokenizer {
        let name = match known {
            Known::O200kBase => "o200k_base",
            Known::Cl100kBase => "cl100k_base",
            Known::Estimate => "estimate",
        };
        let counter = Tokenizer::parse(name).and_then(|tokenizer| tokenizer.load().ok());
        let counter = counter.ok_or_else(|| Problem::failure("a tokenizer is missing"))?;
        return Ok(counted(name, body.texts, &*counter));
    }
    let engine = &tenant.engine;
    let name = body.model.unwrap_or_else(|| engine.config().model.clone());
    let counts = engine.counts(&engine.models().resolve(&name))?;
    Ok(counted(&name, body.texts, counts.counter()))
}

fn counted(model: &str, texts: Vec<Text>, counter: &dyn TokenCounter) -> TokenCounts {
    let count = |(i, text): (usize, Text)| {
        let (path, text) = match text {
            Text::Bare(text) => (i.to_string(), text),
            Text::Named(named) => (named.path, named.text),
        };
        FileTokens {
            path,
            tokens: counter.count(&text),
            bytes: text.len(),
        }
    };
    let files: Vec<FileTokens> = (1..).zip(texts).map(count).collect();
    TokenCounts {
        model: model.to_owned(),
        tokenizer: TokenizerInfo {
            name: counter.name().to_owned(),
            exact: counter.is_exact(),
        },
        total: files.iter().map(|file| file.tokens).sum(),
        files,
    }
}
