//! `contexture.toml`: every setting has a default.

use std::collections::BTreeMap;
use std::path::Path;

use contexture_core::Tokens;
use contexture_tokens::{Model, Models, Provider, Tokenizer};
use serde::Deserialize;

use crate::error::Error;
use crate::files::Root;
use crate::recipe::Recipe;
use crate::working_set::actions::Quota;
use crate::working_set::observe::Habits;

/// The name of the configuration file.
pub const FILE: &str = "contexture.toml";

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The recipe that is followed when none is named.
    pub recipe: String,
    /// The model that requests are made for when none is named.
    pub model: String,
    /// Models the table does not know, or knows otherwise.
    pub models: BTreeMap<String, ModelConfig>,
    /// Limits.
    pub limits: Limits,
    /// What is done about secrets.
    pub secrets: Secrets,
    /// What the boot header says.
    pub boot: Boot,
    /// What the orchestrator changes after a turn.
    pub observe: Habits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            recipe: "working-set".to_owned(),
            model: "gpt-4o".to_owned(),
            models: BTreeMap::new(),
            limits: Limits::default(),
            secrets: Secrets::default(),
            boot: Boot::default(),
            observe: Habits::default(),
        }
    }
}

/// A model of the user's.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// How many tokens it takes.
    pub window: Tokens,
    /// `o200k_base`, `cl100k_base`, `estimate`, or the path of a
    /// `tokenizer.json`.
    #[serde(default = "estimate")]
    pub tokenizer: String,
    /// For an estimate: how many more tokens the model makes than OpenAI's.
    #[serde(default)]
    pub factor: Option<f64>,
    /// Whose API it is called through.
    #[serde(default = "other")]
    pub provider: Provider,
}

fn estimate() -> String {
    "estimate".to_owned()
}

fn other() -> Provider {
    Provider::Other
}

/// Limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The largest file that is read.
    pub max_file_bytes: u64,
    /// Most entries in a manifest that actions may make.
    pub max_entries: usize,
    /// Most actions in one call.
    pub max_actions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_file_bytes: 8 * 1024 * 1024,
            max_entries: 1000,
            max_actions: 64,
        }
    }
}

impl Limits {
    /// Returns the limits on actions.
    pub fn quota(&self) -> Quota {
        Quota {
            max_entries: self.max_entries,
            max_actions: self.max_actions,
        }
    }
}

/// What is done about secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// Whether they are masked.
    pub mask: bool,
}

impl Default for Secrets {
    fn default() -> Self {
        Self { mask: true }
    }
}

/// What the boot header says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Boot {
    /// Where the model's output goes.
    pub output_sink: String,
}

impl Default for Boot {
    fn default() -> Self {
        Self {
            output_sink: "output.md".to_owned(),
        }
    }
}

impl Config {
    /// Reads `contexture.toml` in `root`; defaults when there is none.
    pub fn read(root: &Root) -> Result<Self, Error> {
        if root.is_absent(FILE) {
            return Ok(Self::default());
        }
        Self::parse(&root.read_required(FILE)?)
    }

    /// Reads the text of a `contexture.toml`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or_else(String::new, |span| {
                let before = &text[..span.start.min(text.len())];
                let line = before.matches('\n').count() + 1;
                let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
                format!(":{line}:{column}")
            });
            Error::input(format!("{FILE}{place}: {}", plain(error.message())))
                .hint("`contexture doctor` prints the settings that exist and their defaults")
        })?;
        config.check()?;
        Ok(config)
    }

    /// Refuses numbers that make no sense.
    fn check(&self) -> Result<(), Error> {
        let refuse =
            |name: String, must: &str| Err(Error::input(format!("{FILE}: {name}: must be {must}")));
        for (name, model) in &self.models {
            if model.factor.is_some_and(|f| !(1.0..=100.0).contains(&f)) {
                return refuse(format!("models.{name}.factor"), "from 1 to 100");
            }
            if model.window == 0 {
                return refuse(format!("models.{name}.window"), "at least 1");
            }
        }
        for (name, part) in [
            ("step", self.observe.step),
            ("floor", self.observe.floor),
            ("ceiling", self.observe.ceiling),
            ("tool_output_priority", self.observe.tool_output_priority),
        ] {
            if !(0.0..=1.0).contains(&part) {
                return refuse(format!("observe.{name}"), "from 0 to 1");
            }
        }
        Ok(())
    }

    /// Returns the recipe that is followed when none is named. A file's name is
    /// relative to `root`.
    pub fn recipe(&self, root: &Root) -> Result<Recipe, Error> {
        if Recipe::text(&self.recipe).is_some() {
            return Recipe::load(&self.recipe);
        }
        let path = root.path().join(&self.recipe);
        if path.exists() {
            Recipe::load(&path.display().to_string())
        } else {
            Recipe::load(&self.recipe)
        }
    }

    /// Returns the model table with the user's models. Paths of tokenizers are
    /// relative to `root`.
    pub fn models(&self, root: &Path) -> Result<Models, Error> {
        let mut models = Models::built_in();
        for (name, model) in &self.models {
            let mut tokenizer = Tokenizer::parse(&model.tokenizer).ok_or_else(|| {
                let known = ["o200k_base", "cl100k_base", "estimate"];
                let what = crate::error::not_one_of("tokenizer", &model.tokenizer, &known);
                Error::input(format!("{FILE}: models.{name}.tokenizer: {what}"))
                    .hint("or name a tokenizer.json")
            })?;
            match (&mut tokenizer, model.factor) {
                (Tokenizer::Estimate(own), Some(factor)) => *own = factor,
                (Tokenizer::HuggingFace(path), _) => *path = root.join(&*path),
                _ => {}
            }
            models.add(Model {
                name: name.clone(),
                window: model.window,
                tokenizer,
                provider: model.provider,
                known: true,
            });
        }
        Ok(models)
    }
}

/// Says in a user's words what the reader says in a programmer's.
fn plain(message: &str) -> String {
    [
        ("expected usize", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
    ]
    .into_iter()
    .fold(message.to_owned(), |message, (theirs, ours)| {
        message.replace(theirs, ours)
    })
}
