//! [`Engine`]: the registered sources, recipes, store and models, and the
//! caches between requests.
//!
//! An engine can be used from many threads. The pipeline that assembles a
//! request is in `pipeline.rs`.

mod builder;
mod requests;

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use contexture_core::cache::{Cache, Owner};
use contexture_core::guard::{MarkKey, Policy};
use contexture_core::{ContentHash, Counts, TokenCounter, Usage};
use contexture_project::Permissions;
use contexture_providers::Format;
use contexture_store::{
    Ledger, Memories, Samples, Snapshot, Snapshots, Store, StoreError, Tasks, Trees, TurnId,
    TurnSample,
};
use contexture_tokens::{Model, Models, Provider};

use crate::advice::{Advice, Warning};
use crate::agent::persona_dir;
use crate::assembled::Assembled;
use crate::by_file::ByFile;
use crate::calibration;
use crate::config::{Config, DEFAULT_MODEL};
use crate::error::Error;
use crate::files::Root;
use crate::pipeline::{self, Preview};
use crate::recipe::{Recipe, RecipeInfo, RecipeRef};
use crate::request::Request;
use crate::snapshot::{CurrentMessage, RecentRequests};
use crate::source::{Parameter, Source};
use crate::summariser::Summariser;
use crate::tool_usage::{self, ToolUsage, ToolUsageCache};
pub use builder::EngineBuilder;

/// The parts of a store that an engine has.
#[derive(Clone, Default)]
pub(crate) struct StoreParts {
    ledger: Option<Arc<dyn Ledger>>,
    snapshots: Option<Arc<dyn Snapshots>>,
    samples: Option<Arc<dyn Samples>>,
    trees: Option<Arc<dyn Trees>>,
    memories: Option<Arc<dyn Memories>>,
    tasks: Option<Arc<dyn Tasks>>,
}

impl StoreParts {
    /// Returns all parts of a store.
    fn of(store: Arc<dyn Store>) -> Self {
        Self {
            ledger: Some(Arc::clone(&store) as _),
            snapshots: Some(Arc::clone(&store) as _),
            samples: Some(Arc::clone(&store) as _),
            trees: Some(Arc::clone(&store) as _),
            memories: Some(Arc::clone(&store) as _),
            tasks: Some(store),
        }
    }
}

/// A registered recipe.
enum RegisteredRecipe {
    Ready(Arc<Recipe>),
    // Returns the recipe when it is needed.
    OnDemand(Box<dyn Fn() -> Result<Arc<Recipe>, Error> + Send + Sync>),
}

impl RegisteredRecipe {
    fn read(&self) -> Result<Arc<Recipe>, Error> {
        match self {
            RegisteredRecipe::Ready(recipe) => Ok(Arc::clone(recipe)),
            RegisteredRecipe::OnDemand(read) => read(),
        }
    }
}

/// Receives the errors of snapshots that could not be saved.
type SnapshotFailed = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// Assembles requests from registered sources, and caches token counts.
pub struct Engine {
    config: Config,
    // The directory that paths in the settings are relative to.
    folder: PathBuf,
    models: Models,
    // A warning if the root's own model table cannot be used.
    table_warning: Option<Warning>,
    parts: StoreParts,
    sources: BTreeMap<String, Arc<dyn Source>>,
    recipes: BTreeMap<String, RegisteredRecipe>,
    counters: BTreeMap<String, Arc<dyn TokenCounter>>,
    summariser: Option<Arc<dyn Summariser>>,
    // Whether a request may only name files below the root.
    confined: bool,
    // Whether snapshots are saved in the background.
    background_snapshots: bool,
    snapshot_failed: Option<SnapshotFailed>,
    mark_key: Option<MarkKey>,
    // Warnings for every report.
    warnings: Vec<Warning>,
    // The store's own key, once it was read, and a random key for a store
    // without one.
    store_key: OnceLock<MarkKey>,
    own_key: OnceLock<[u8; 32]>,
    // The number of calls of each tool, by turn.
    tool_usage: ToolUsageCache,
    counts: Mutex<BTreeMap<String, Arc<Counts>>>,
    // The owner of caches that are created later.
    cache_owner: Owner,
    pub(crate) permissions: ByFile<Permissions>,
    // The latest snapshots of each session.
    recent: Mutex<RecentRequests>,
    // The current messages of requests that this engine assembled, by request.
    current_messages: Cache<ContentHash, Arc<CurrentMessage>>,
    // The latest error of a snapshot that could not be saved.
    last_snapshot_error: Arc<Mutex<Option<String>>>,
    // Values that parts of the engine share, by type.
    shared: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// Locks a value that is only ever replaced as a whole, so that a panic in
/// another thread leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random_key() -> [u8; 32] {
    let mut bytes = [0; 32];
    // Without randomness, marks can be guessed; marks that occur in content are
    // still skipped.
    let _ = getrandom::fill(&mut bytes);
    bytes
}

macro_rules! part {
    ($(#[$doc:meta])* $name:ident, $trait:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// Fails if the engine has none.
        pub fn $name(&self) -> Result<&dyn $trait, Error> {
            self.parts.$name.as_deref().ok_or_else(|| no_store($what))
        }
    };
}

fn no_store(what: &str) -> Error {
    Error::input(format!("no store for {what} is configured")).advise(Advice::set("db"))
}

impl Engine {
    /// Sets all parts of a store.
    pub fn set_store(&mut self, store: Arc<dyn Store>) {
        self.parts = StoreParts::of(store);
        self.store_key = OnceLock::new();
    }

    /// Returns a value that all parts of this engine share: one of each type, created
    /// on the first call.
    pub fn shared<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut shared = lock(&self.shared);
        let made = shared
            .entry(TypeId::of::<T>())
            .or_insert_with(|| self.cache_owner.own(|| Arc::new(T::default())));
        // The key is the type, so that the value has it.
        (Arc::clone(made).downcast()).unwrap_or_else(|_| Arc::default())
    }

    /// Returns the warnings about the settings, which every report has.
    pub fn settings_warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the effective settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the directory that paths in the settings are relative to.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the model table.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns a warning if the root has a model table that is invalid and not
    /// used.
    pub fn table_warning(&self) -> Option<&Warning> {
        self.table_warning.as_ref()
    }

    part!(
        /// Returns the ledger of conversations.
        ledger, Ledger, "conversations"
    );
    part!(
        /// Returns the store of snapshots.
        snapshots, Snapshots, "requests"
    );
    part!(
        /// Returns the store of calibration samples.
        samples, Samples, "samples"
    );
    part!(
        /// Returns the loom trees.
        trees, Trees, "trees"
    );
    part!(
        /// Returns the memories.
        memories, Memories, "memories"
    );
    part!(
        /// Returns the stacks of tasks.
        tasks, Tasks, "tasks"
    );

    /// Returns the language model that writes summaries. `None` if no model
    /// does.
    pub fn summariser(&self) -> Option<&Arc<dyn Summariser>> {
        self.summariser.as_ref()
    }

    /// Sets the secret that boundary marks are derived from, in place of the
    /// store's own.
    pub fn set_mark_key(&mut self, key: MarkKey) {
        self.mark_key = Some(key);
    }

    /// Returns the secret that boundary marks are derived from: the one that
    /// was [set](EngineBuilder::mark_key), else the store's. An engine without a
    /// store makes one of its own, which becomes that of the store it is given
    /// later, if that has none.
    pub fn mark_key(&self) -> MarkKey {
        if let Some(key) = self.mark_key.as_ref().or(self.store_key.get()) {
            return key.clone();
        }
        let own = *self.own_key.get_or_init(random_key);
        let stored = self
            .parts
            .snapshots
            .as_ref()
            .map(|store| store.mark_key(own));
        match stored {
            Some(Ok(key)) => {
                let key = || MarkKey::from_bytes(key);
                self.store_key.get_or_init(key).clone()
            }
            // A store that can only be read may have no key.
            Some(Err(_)) | None => MarkKey::from_bytes(own),
        }
    }

    /// Returns the key by which a provider finds the cache of a session's
    /// requests. It reveals nothing about the session's label or content.
    pub fn cache_key(&self, session: &str) -> String {
        let key = self.mark_key().for_name(&format!("cache {session}"));
        let mut name = "contexture-".to_owned();
        for mark in key.marks().take(2) {
            name.push_str(&mark.to_string());
        }
        name
    }

    /// Returns the number of calls of each tool in a conversation up to the
    /// turn `head`.
    pub fn tool_usage(&self, head: TurnId) -> Result<Arc<ToolUsage>, Error> {
        tool_usage::usage_at(self.ledger()?, head, &self.tool_usage)
    }

    /// Returns the guard's policy for content.
    pub fn policy(&self) -> Policy {
        Policy::masking(self.config.secrets.mask)
    }

    /// Returns the registered sources: the name, and what `with:` may hold.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &[Parameter])> {
        self.sources
            .iter()
            .map(|(name, source)| (name.as_str(), source.parameters()))
    }

    pub(crate) fn source(&self, name: &str) -> Option<&Arc<dyn Source>> {
        self.sources.get(name)
    }

    pub(crate) fn source_names(&self) -> Vec<&str> {
        self.sources.keys().map(String::as_str).collect()
    }

    /// Returns the counter for `model`, with its cache of counts.
    pub fn counts(&self, model: &Model) -> Result<Arc<Counts>, Error> {
        let own = self.counters.get(&model.name);
        let key = match own {
            Some(_) => format!("counter {}", model.name),
            None => format!("{:?}", model.tokenizer),
        };
        // A calibrated factor moves from request to request.
        let is_estimate = own.is_none() && model.tokenizer.factor().is_some();
        let steady = is_estimate.then(|| self.models.resolve(&model.name).tokenizer);
        let steady = steady.filter(|steady| *steady != model.tokenizer);
        let key = match &steady {
            Some(steady) => format!("{key}, steady {steady:?}"),
            None => key,
        };
        let mut known = lock(&self.counts);
        if let Some(counts) = known.get(&key) {
            return Ok(Arc::clone(counts));
        }
        let counter = match own {
            Some(counter) => Arc::clone(counter),
            None => (model.tokenizer.load()).map_err(|error| Error::input(error.to_string()))?,
        };
        let steady = match steady {
            Some(steady) => Some((steady.load()).map_err(|error| Error::input(error.to_string()))?),
            None => None,
        };
        let counts = self.cache_owner.own(|| {
            let counts = Counts::new(counter);
            Arc::new(match steady {
                Some(steady) => counts.with_steady(steady),
                None => counts,
            })
        });
        known.insert(key, Arc::clone(&counts));
        Ok(counts)
    }

    /// Assembles a request from the files below `root` and from the store.
    ///
    /// A history that has become too long is summarised first.
    pub fn assemble(&self, root: &Root, request: &Request) -> Result<Assembled, Error> {
        pipeline::assemble(self, root, request)
    }

    /// Assembles a request without storing anything and without summarising
    /// history.
    pub fn preview(
        &self,
        root: &Root,
        request: &Request,
        preview: Preview,
    ) -> Result<Assembled, Error> {
        pipeline::preview(self, root, request, preview)
    }

    /// Returns true if the request cannot be assembled without a store.
    pub fn needs_store(&self, root: &Root, request: &Request) -> Result<bool, Error> {
        pipeline::needs_store(self, root, request)
    }

    /// Returns the registered recipes.
    pub fn recipes(&self) -> impl Iterator<Item = RecipeInfo> {
        let read = self
            .recipes
            .values()
            .filter_map(|recipe| recipe.read().ok());
        read.map(|recipe| RecipeInfo {
            name: recipe.name.clone(),
            description: recipe.description.clone(),
        })
    }

    /// Returns the recipe of that name, or reads the file it names, and checks
    /// that the engine can follow it.
    pub fn recipe(&self, root: &Root, recipe: &RecipeRef) -> Result<Arc<Recipe>, Error> {
        let found = match recipe {
            RecipeRef::Value(recipe) => Arc::clone(recipe),
            RecipeRef::Name(name) => match self.recipes.get(name) {
                Some(recipe) => return recipe.read(),
                None => Arc::new(self.recipe_file(root, name)?),
            },
        };
        self.check_recipe(&found)?;
        Ok(found)
    }

    /// Returns true if the engine serves untrusted callers. They must not learn
    /// addresses of this machine or its network.
    pub fn is_confined(&self) -> bool {
        self.confined
    }

    fn recipe_file(&self, root: &Root, name: &str) -> Result<Recipe, Error> {
        let unknown = || {
            let known: Vec<&str> = self.recipes.keys().map(String::as_str).collect();
            let below = if self.confined { " below the root" } else { "" };
            Error::input(crate::error::not_one_of("recipe", name, &known))
                .at("recipe")
                .advise(format!("name a built-in recipe, or a recipe file{below}"))
        };
        if self.confined {
            if root.is_absent(name) {
                return Err(unknown());
            }
            let text = root
                .read_required(name)
                .map_err(|error| error.at("recipe"))?;
            return Ok(self.project_recipe(Recipe::parse(name, &text)?));
        }
        let looks_like_a_file = name.contains(['/', '.']);
        match std::fs::read_to_string(name) {
            Ok(text) => self.parse_recipe(root, Path::new(name), &text),
            Err(error) if looks_like_a_file => {
                Err(Error::input(format!("cannot read recipe {name}: {error}")))
            }
            Err(_) => Err(unknown()),
        }
    }

    /// Returns the recipe that is followed when none is named. A file's name is
    /// relative to `root`.
    pub fn usual_recipe(&self, root: &Root) -> Result<Arc<Recipe>, Error> {
        let name = &self.config.recipe;
        let path = root.path().join(name);
        let is_file = !self.recipes.contains_key(name) && path.exists();
        if !is_file {
            return self.recipe(root, &RecipeRef::Name(name.clone()));
        }
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Error::input(format!("cannot read recipe {name}: {error}")))?;
        let recipe = Arc::new(self.parse_recipe(root, &path, &text)?);
        self.check_recipe(&recipe)?;
        Ok(recipe)
    }

    /// Reads a recipe from the text of a file. A file below `root` belongs to
    /// the project, so it can turn masking off only if the settings allow it.
    pub fn parse_recipe(&self, root: &Root, file: &Path, text: &str) -> Result<Recipe, Error> {
        let recipe = Recipe::parse(&file.display().to_string(), text)?;
        let real = |path: &Path| path.canonicalize().ok();
        let is_elsewhere = match (real(root.path()), real(file)) {
            (Some(root), Some(file)) => !file.starts_with(root),
            _ => false,
        };
        Ok(match is_elsewhere {
            true => recipe,
            false => self.project_recipe(recipe),
        })
    }

    fn project_recipe(&self, mut recipe: Recipe) -> Recipe {
        if !self.config.secrets.allow_unmasked_layers {
            recipe.keep_masked();
        }
        recipe
    }

    /// Fails when a recipe names a source that is not registered, or gives one a
    /// parameter or a value that it does not accept.
    pub fn check_recipe(&self, recipe: &Recipe) -> Result<(), Error> {
        for layer in recipe.sources() {
            let name = layer.source.as_deref().unwrap_or_default();
            let Some(source) = self.source(name) else {
                let known = self.source_names();
                let message = crate::error::not_one_of("source", name, &known);
                return Err(layer.error(recipe, None, &message));
            };
            Parameter::check(source.parameters(), recipe, layer, &layer.with)?;
            pipeline::check_variables(recipe, layer)?;
            Parameter::check_values(self, &**source, recipe, layer, &layer.with)?;
        }
        Ok(())
    }

    /// Fails if there is no persona of that name below `root`. A session cannot
    /// change its persona, so check it before the session is created.
    pub fn check_persona(&self, root: &Root, name: &str) -> Result<(), Error> {
        persona_dir(root, &self.config.persona.dir, Some(name)).map(drop)
    }

    /// Applies the calibration of the model's token counts. Returns the
    /// fraction of the window that is kept free for tokens that an exact
    /// counter does not see.
    pub fn calibrate(&self, model: &mut Model) -> Result<f64, Error> {
        match &self.parts.samples {
            Some(samples) => calibration::apply(&**samples, &self.models, model),
            None => Ok(0.0),
        }
    }

    /// Returns a calibration sample from the provider's count of a request
    /// after `parent`. Returns `None` if the counts cannot be compared.
    pub fn sample(
        &self,
        snapshot: &Snapshot,
        parent: Option<TurnId>,
        usage: &Usage,
    ) -> Option<TurnSample> {
        let mut model = self.models.resolve(&snapshot.model);
        // The counter's name includes the factor that the request was counted
        // with. A count by another counter cannot be compared.
        if model.tokenizer.factor().is_some() && !self.counters.contains_key(&model.name) {
            let factor = model.tokenizer.factor_in(&snapshot.counter)?;
            model.tokenizer = model.tokenizer.with_factor(factor);
        }
        calibration::sample(&model, parent, snapshot.tokens, usage.input_tokens)
    }

    /// Returns the model `named`, else the configured one. If the configured
    /// model is of another provider than `format`, the provider's usual model
    /// is returned.
    pub fn model(
        &self,
        named: Option<&str>,
        format: Option<Format>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Model, Error> {
        warnings.extend(self.table_warning.clone());
        let name = named.unwrap_or(&self.config.model);
        if name.trim().is_empty() {
            return Err(Error::input("the name of the model is empty").advise(Advice::set("model")));
        }
        let model = self.models.resolve(name);
        let provider = format.and_then(provider_of);
        let Some(provider) = provider.filter(|&wanted| wanted != model.provider) else {
            return Ok(model);
        };
        if named.is_none()
            && let Some(usual) = usual_model(provider)
        {
            return Ok(self.models.resolve(usual));
        }
        // Compatible servers accept the OpenAI format for models of other
        // providers.
        if model.known || provider != Provider::OpenAi {
            warnings.push(Warning::new(
                "other_provider",
                format!(
                    "model {} belongs to {}, but the request format is for {}: tokens are \
                     counted for {}",
                    model.name,
                    model.provider.name(),
                    provider.name(),
                    model.provider.name()
                ),
            ));
        }
        Ok(model)
    }
}

/// Returns the provider of a format, or `None` if several providers use it.
pub fn provider_of(format: Format) -> Option<Provider> {
    match format {
        Format::Anthropic => Some(Provider::Anthropic),
        Format::OpenAiChat | Format::OpenAiResponses | Format::OpenAiCompletions => {
            Some(Provider::OpenAi)
        }
        Format::Gemini => Some(Provider::Gemini),
        _ => None,
    }
}

/// Returns the usual request format of a provider's models.
pub fn usual_format(provider: Provider) -> Option<Format> {
    match provider {
        Provider::Anthropic => Some(Format::Anthropic),
        Provider::OpenAi => Some(Format::OpenAiChat),
        Provider::Gemini => Some(Format::Gemini),
        Provider::Other => None,
    }
}

/// Returns the default model of a provider.
fn usual_model(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("claude-sonnet-5-5"),
        Provider::OpenAi => Some(DEFAULT_MODEL),
        Provider::Gemini => Some("gemini-3.8-flash"),
        Provider::Other => None,
    }
}
