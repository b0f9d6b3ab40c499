//! Operations on recipes and sources, and token counts.

use contexture::core::TokenizerInfo;
use contexture::tokens::{Provider, TokenCounter, Tokenizer};
use contexture::{FileTokens, Parameter, Recipe, RecipeInfo, TokenCounts, recipes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// The list of built-in recipes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecipeList")]
struct Recipes {
    /// The built-in recipes.
    recipes: Vec<RecipeInfo>,
}

/// A recipe in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    /// The name of a built-in recipe.
    name: String,
}

/// A recipe as YAML.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecipeText")]
struct Written {
    /// The name of the recipe.
    name: String,
    /// The purpose of the recipe, in one sentence.
    description: String,
    /// The recipe as YAML.
    yaml: String,
}

/// A recipe to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RecipeToCheck")]
#[serde(deny_unknown_fields)]
struct CheckBody {
    /// The recipe as YAML.
    yaml: String,
}

/// A recipe that was checked.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecipeCheck")]
struct Checked {
    /// The name of the recipe.
    name: String,
    /// The names of the layers, in order.
    layers: Vec<String>,
}

/// The list of sources.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SourceList")]
struct Sources {
    /// The sources by name.
    sources: Vec<SourceInfo>,
}

/// A source: it fills a layer of a recipe.
#[derive(Debug, Serialize, JsonSchema)]
struct SourceInfo {
    /// The name of the source.
    name: String,
    /// The JSON Schema of the source's parameters.
    #[schemars(with = "Map<String, Value>")]
    parameters: Value,
}

/// The models that Contexture knows.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ModelList")]
struct Models {
    /// The model that is used if a request names none.
    default: String,
    /// The models by name.
    models: Vec<ModelInfo>,
}

/// A model.
#[derive(Debug, Serialize, JsonSchema)]
struct ModelInfo {
    /// The name of the model.
    name: String,
    /// The provider whose API the model is called through.
    provider: Provider,
    /// The size of the context window in tokens.
    window: u64,
    /// The output limit in tokens. Null if it is unknown.
    max_output: Option<u64>,
}

/// Texts to count.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TokensRequest")]
#[serde(deny_unknown_fields)]
struct TokensBody {
    /// The texts to count.
    texts: Vec<Text>,
    /// The model whose tokenizer counts. Default: the configured model.
    #[serde(default)]
    model: Option<String>,
    /// The tokenizer that counts. It overrides `model`. Default: the model's
    /// tokenizer.
    #[serde(default)]
    tokenizer: Option<TokenizerName>,
}

/// A text, or a text with a name.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TextToCount")]
#[serde(untagged)]
enum Text {
    /// The text to count.
    Bare(String),
    /// A text with a name.
    Named(NamedText),
}

/// A text with a name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NamedText {
    /// The name of the text in the answer.
    path: String,
    /// The text to count.
    text: String,
}

/// A built-in tokenizer.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "TokenizerName")]
#[serde(rename_all = "snake_case")]
enum TokenizerName {
    /// OpenAI's tokenizer `o200k_base`, for GPT-4o and later.
    O200kBase,
    /// OpenAI's tokenizer `cl100k_base`, for GPT-4 and GPT-3.5.
    Cl100kBase,
    /// An estimate that is rarely too low.
    Estimate,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/recipes", "list_recipes")
            .describe(
                "List built-in recipes",
                "Returns the built-in recipes. A recipe defines the layers of a request.",
            )
            .example("/v1/recipes", None),
        |_: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Recipes, Problem> {
            let recipes = recipes::list()?;
            Ok(Recipes { recipes })
        },
    );
    api.add(
        Operation::get("/v1/recipes/{name}", "get_recipe")
            .describe(
                "Get a recipe",
                "Returns a built-in recipe as YAML, for use as a template.",
            )
            .example("/v1/recipes/memory", None),
        |_: &Tenant, named: Named, _: Nothing, _: Nothing| -> Result<Written, Problem> {
            let Some(text) = recipes::text(&named.name) else {
                let none = format!("no built-in recipe is named `{}`", named.name);
                let hint = "list the recipes with `GET /v1/recipes`";
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
            .describe(
                "Check a recipe",
                "Checks a recipe and returns its layers. Errors have the line and the column.",
            )
            .reads()
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
            .describe(
                "List sources",
                "Returns the sources that can fill a layer, each with the JSON Schema of its \
                 parameters. Set parameters in `with`, in a recipe or in a request.",
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
        Operation::get("/v1/models", "list_models").describe(
            "List models",
            "Returns the models with known context windows, by name. Other names can be used, \
                 too.",
        ),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Models, Problem> {
            let engine = &tenant.engine;
            let mut models: Vec<ModelInfo> = (engine.models().list())
                .map(|model| ModelInfo {
                    name: model.name,
                    provider: model.provider,
                    window: model.window,
                    max_output: model.max_output,
                })
                .collect();
            models.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Models {
                default: engine.config().model.clone(),
                models,
            })
        },
    );
    api.add(
        Operation::post("/v1/tokens", "count_tokens")
            .describe(
                "Count tokens",
                "Counts the tokens of texts, for a model or with a tokenizer.",
            )
            .reads()
            .example(
                "/v1/tokens",
                json!({"texts": ["When does the ferry leave?"], "model": "gpt-5.6"}),
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
    if let Some(tokenizer) = body.tokenizer {
        let name = match tokenizer {
            TokenizerName::O200kBase => "o200k_base",
            TokenizerName::Cl100kBase => "cl100k_base",
            TokenizerName::Estimate => "estimate",
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
