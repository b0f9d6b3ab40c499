//! [`Engine`]: the registered sources, recipes, store and models, and the
//! caches between requests.
//!
//! An engine can be used from many threads. The pipeline that assembles a
//! request is in `pipeline.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use contexture_core::cache::Cache;
use contexture_core::guard::{MarkKey, Policy};
use contexture_core::{ContentHash, Counts, TokenCounter, Usage};
use contexture_project::Permissions;
use contexture_providers::Format;
use contexture_store::{
    Ledger, Memories, PendingSnapshot, ReadAhead, Samples, Snapshot, Snapshots, Store, StoreError,
    Tasks, Trees, TurnId, TurnSample,
};
use contexture_tokens::{Model, Models, Provider};
use jiff::Timestamp;

use crate::advice::{Advice, Warning};
use crate::agent::persona_dir;
use crate::assembled::Assembled;
use crate::by_file::ByFile;
use crate::cache::CacheTerms;
use crate::calibration;
use crate::config::{self, Config, DEFAULT_MODEL};
use crate::error::Error;
use crate::files::Root;
use crate::pipeline::{self, Preview};
use crate::recipe::{Recipe, RecipeInfo, RecipeRef};
use crate::request::Request;
use crate::snapshot::{self, CurrentMessage, Durability, RecentRequests, Saved};
use crate::source::{Parameter, Source};
use crate::stored_report;
use crate::summariser::Summariser;
use crate::tool_usage::{self, KnownUsage, ToolUsage};
use crate::trust::Settings;

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

/// Builds an engine: see [`Engine::builder`].
pub struct EngineBuilder {
    config: Config,
    folder: PathBuf,
    parts: StoreParts,
    sources: BTreeMap<String, Arc<dyn Source>>,
    recipes: BTreeMap<String, Arc<Recipe>>,
    counters: BTreeMap<String, Arc<dyn TokenCounter>>,
    summariser: Option<Arc<dyn Summariser>>,
    confined: bool,
    background_snapshots: bool,
    snapshot_failed: Option<SnapshotFailed>,
    mark_key: Option<MarkKey>,
    warnings: Vec<Warning>,
}

/// Receives the errors of snapshots that could not be saved.
type SnapshotFailed = Arc<dyn Fn(&StoreError) + Send + Sync>;

impl EngineBuilder {
    /// Sets the settings. Default: those of an empty `contexture.toml`.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Uses the settings of a root; paths in them are relative to that root.
    /// Every report warns about inactive settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.warnings.extend(settings.warning());
        self.config(settings.config).folder(&settings.root)
    }

    /// Sets the directory that paths in the settings are relative to.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = folder.to_owned();
        self
    }

    /// Sets all parts of a store.
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        self.ledger(Arc::clone(&store) as _)
            .snapshots(Arc::clone(&store) as _)
            .samples(Arc::clone(&store) as _)
            .trees(Arc::clone(&store) as _)
            .memories(Arc::clone(&store) as _)
            .tasks(store)
    }

    /// Sets the ledger of conversations.
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.parts.ledger = Some(ledger);
        self
    }

    /// Sets the store of snapshots.
    pub fn snapshots(mut self, snapshots: Arc<dyn Snapshots>) -> Self {
        self.parts.snapshots = Some(snapshots);
        self
    }

    /// Sets the store of calibration samples.
    pub fn samples(mut self, samples: Arc<dyn Samples>) -> Self {
        self.parts.samples = Some(samples);
        self
    }

    /// Sets the store of loom trees.
    pub fn trees(mut self, trees: Arc<dyn Trees>) -> Self {
        self.parts.trees = Some(trees);
        self
    }

    /// Sets the store of memory records.
    pub fn memories(mut self, memories: Arc<dyn Memories>) -> Self {
        self.parts.memories = Some(memories);
        self
    }

    /// Sets the store of tasks.
    pub fn tasks(mut self, tasks: Arc<dyn Tasks>) -> Self {
        self.parts.tasks = Some(tasks);
        self
    }

    /// Registers a source, to be used in any recipe. A source of the same name
    /// is replaced.
    pub fn source(mut self, source: impl Source + 'static) -> Self {
        let name = source.name().to_owned();
        self.sources.insert(name, Arc::new(source));
        self
    }

    /// Registers a recipe by its name.
    pub fn recipe(mut self, recipe: Recipe) -> Self {
        self.recipes.insert(recipe.name.clone(), Arc::new(recipe));
        self
    }

    /// Registers a recipe by its name, unless there is one of that name.
    pub fn usual_recipe(mut self, recipe: Recipe) -> Self {
        let name = recipe.name.clone();
        self.recipes.entry(name).or_insert_with(|| Arc::new(recipe));
        self
    }

    /// Registers the token counter of a model.
    pub fn counter(mut self, model: impl Into<String>, counter: Arc<dyn TokenCounter>) -> Self {
        self.counters.insert(model.into(), counter);
        self
    }

    /// Sets the model that writes summaries. Default: the configured one.
    pub fn summariser(mut self, summariser: Arc<dyn Summariser>) -> Self {
        self.summariser = Some(summariser);
        self
    }

    /// Sets the secret that boundary marks are derived from. Default: the
    /// store's own, else a random one that lasts as long as the engine.
    pub fn mark_key(mut self, key: MarkKey) -> Self {
        self.mark_key = Some(key);
        self
    }

    /// Makes the engine safe for requests from untrusted callers: a recipe file
    /// must then be below the root.
    pub fn confined(mut self) -> Self {
        self.confined = true;
        self
    }

    /// Makes the engine return a request before its snapshot is on disk, for a
    /// long-running program that makes many requests.
    ///
    /// A turn that answers the request is still recorded only after the
    /// snapshot, and dropping the store waits for pending snapshots. If a
    /// snapshot cannot be saved, the report of the next request has a warning.
    pub fn background_snapshots(mut self) -> Self {
        self.background_snapshots = true;
        self
    }

    /// Calls `failed` for every request that could not be saved.
    pub fn on_snapshot_error(
        mut self,
        failed: impl Fn(&StoreError) + Send + Sync + 'static,
    ) -> Self {
        self.snapshot_failed = Some(Arc::new(failed));
        self
    }

    /// Builds the engine.
    ///
    /// Fails if the settings define an invalid model.
    pub fn build(self) -> Result<Engine, Error> {
        let summariser = match self.summariser {
            Some(summariser) => Some(summariser),
            None => crate::summariser::configured(&self.config.summariser),
        };
        let (table, table_warning) = config::model_table(&self.folder);
        Ok(Engine {
            models: self.config.models(&self.folder, table)?,
            table_warning,
            folder: self.folder,
            config: self.config,
            parts: self.parts,
            sources: self.sources,
            recipes: self.recipes,
            counters: self.counters,
            summariser,
            confined: self.confined,
            background_snapshots: self.background_snapshots,
            snapshot_failed: self.snapshot_failed,
            mark_key: self.mark_key,
            warnings: self.warnings,
            store_key: OnceLock::new(),
            own_key: OnceLock::new(),
            tool_usage: KnownUsage::default(),
            counts: Mutex::default(),
            permissions: ByFile::default(),
            recent: Mutex::default(),
            current_messages: Cache::default(),
            last_snapshot_error: Arc::default(),
        })
    }
}

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
    recipes: BTreeMap<String, Arc<Recipe>>,
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
    tool_usage: KnownUsage,
    counts: Mutex<BTreeMap<String, Arc<Counts>>>,
    pub(crate) permissions: ByFile<Permissions>,
    // The latest snapshots of each session.
    recent: Mutex<RecentRequests>,
    // The current messages of requests that this engine assembled, by request.
    current_messages: Cache<ContentHash, Arc<CurrentMessage>>,
    // The latest error of a snapshot that could not be saved.
    last_snapshot_error: Arc<Mutex<Option<String>>>,
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
    /// Returns a builder of an engine without sources, recipes or a store.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            config: Config::default(),
            folder: PathBuf::new(),
            parts: StoreParts::default(),
            sources: BTreeMap::new(),
            recipes: BTreeMap::new(),
            counters: BTreeMap::new(),
            summariser: None,
            confined: false,
            background_snapshots: false,
            snapshot_failed: None,
            mark_key: None,
            warnings: Vec::new(),
        }
    }

    /// Sets all parts of a store.
    pub fn set_store(&mut self, store: Arc<dyn Store>) {
        self.parts = Engine::builder().store(store).parts;
        self.store_key = OnceLock::new();
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
        let mut known = lock(&self.counts);
        if let Some(counts) = known.get(&key) {
            return Ok(Arc::clone(counts));
        }
        let counter = match own {
            Some(counter) => Arc::clone(counter),
            None => (model.tokenizer.load()).map_err(|error| Error::input(error.to_string()))?,
        };
        let counts = Arc::new(Counts::new(counter));
        known.insert(key, Arc::clone(&counts));
        Ok(counts)
    }

    /// Assembles a request from the files below `root` and from the store.
    ///
    /// A history that has become too long is summarised first.
    pub fn assemble(&self, root: &Root, request: &Request) -> Result<Assembled, Error> {
        pipeline::assemble(self, root, request)
    }

    /// Assembles a request for a look at it: stores nothing, and does not
    /// summarise history.
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
        self.recipes.values().map(|recipe| RecipeInfo {
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
                Some(recipe) => return Ok(Arc::clone(recipe)),
                None => Arc::new(self.recipe_file(root, name)?),
            },
        };
        self.check_recipe(&found)?;
        Ok(found)
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
            return Recipe::parse(name, &text);
        }
        let looks_like_a_file = name.contains(['/', '.']);
        match std::fs::read_to_string(name) {
            Ok(text) => Recipe::parse(name, &text),
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
        let recipe = Arc::new(Recipe::parse(&name, &text)?);
        self.check_recipe(&recipe)?;
        Ok(recipe)
    }

    /// Fails when a recipe names a source that is not registered, or gives one a
    /// parameter that it does not take.
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

    /// Returns the latest saved request of a session.
    pub(crate) fn previous(&self, session: Option<&str>) -> Result<Option<Arc<Saved>>, Error> {
        let label = session.unwrap_or("default");
        let (Some(store), true) = (&self.parts.snapshots, self.config.snapshots.keep) else {
            // Requests that are not saved are remembered while the engine
            // lives.
            return Ok(lock(&self.recent).latest(label));
        };
        // A snapshot that is still being written is later than the saved ones.
        let pending = lock(&self.recent).latest(label);
        if let Some(saved) = pending.filter(|it| it.durability() == Durability::Pending) {
            return Ok(Some(saved));
        }
        let Some(latest) = store.latest_snapshot(label)? else {
            return Ok(None);
        };
        if let Some(saved) = lock(&self.recent).find(label, latest.hash) {
            return Ok(Some(saved));
        }
        // The previous request only serves the comparison with the cache: a
        // damaged one must not end the session.
        let Ok(saved) = Saved::load(&**store, &latest) else {
            return Ok(None);
        };
        let saved = Arc::new(saved);
        self.remember(label, &saved);
        Ok(Some(saved))
    }

    /// Returns the current message of a saved request.
    pub fn current_message(&self, snapshot: &Snapshot) -> Result<Arc<CurrentMessage>, Error> {
        if let Some(known) = self.current_messages.get(&snapshot.root) {
            return Ok(known);
        }
        CurrentMessage::load(self.snapshots()?, snapshot).map(Arc::new)
    }

    /// Makes the store read in advance the data of an operation on a session:
    /// the session, its latest `requests` or the one with the hash `request`,
    /// and the calibration of the model. The operation must be a part of a
    /// [`Call`](contexture_store::Call).
    pub fn read_ahead(
        &self,
        session: Option<&str>,
        requests: usize,
        request: Option<&str>,
        model: &Model,
    ) {
        if let Some(ledger) = &self.parts.ledger {
            let (model, counter) = calibration::names(model);
            ledger.read_ahead(&ReadAhead {
                session,
                snapshots: requests,
                snapshot: request,
                samples: (self.parts.samples.as_ref())
                    .map(|_| (&*model, &*counter, calibration::MOST_SAMPLES)),
                memory: self.parts.memories.is_some(),
            });
        }
    }

    /// Saves a request that was assembled without a store. Returns a warning if
    /// it could not be saved.
    pub fn keep(
        &self,
        assembled: &mut Assembled,
        now: Option<Timestamp>,
    ) -> Result<Option<Warning>, Error> {
        let previous = self.previous(assembled.session_label.as_deref())?;
        let now = now.unwrap_or_else(Timestamp::now);
        // Saves the key that the request was made with in the store.
        self.mark_key();
        let warning = self.keep_after(assembled, previous.as_deref(), false, now)?;
        self.keep_report(assembled, None);
        Ok(warning)
    }

    /// Stores the report of a saved request.
    pub(crate) fn keep_report(&self, assembled: &Assembled, request: Option<&Request>) {
        let hash = assembled.snapshot.as_deref();
        if let (Some(store), Some(hash)) =
            (&self.parts.snapshots, hash.and_then(ContentHash::from_hex))
        {
            store.put_snapshot_report(hash, stored_report::write(assembled, request));
        }
    }

    /// Compares the request with the previous one of its session, and saves it.
    /// With `must_hold`, a request that breaks the provider's cache is an error
    /// and is not saved.
    pub(crate) fn keep_after(
        &self,
        assembled: &mut Assembled,
        previous: Option<&Saved>,
        must_hold: bool,
        now: Timestamp,
    ) -> Result<Option<Warning>, Error> {
        let Some(store) = &self.parts.snapshots else {
            return Ok(None);
        };
        let label = assembled.session_label.clone();
        let label = label.as_deref().unwrap_or("default");
        let prompt = assembled.prompt();
        let made = snapshot::NewSnapshot {
            session: label,
            parent_turn: assembled.parent_turn_id,
            prompt: &prompt,
            tokens: assembled.report.budget.used,
            counter: &assembled.report.tokenizer.name,
            agent: assembled.role.map(|role| snapshot::Agent {
                role,
                toolset_name: assembled.toolset_name.clone(),
                permissions_granted: assembled.permissions_granted.clone(),
                source_event_id: assembled.source_event_id.clone(),
                context_json: assembled.context_json.clone(),
            }),
            keep: self.config.snapshots.keep,
            now,
        };
        let (saved, snapshot, blobs) = snapshot::take(&made, previous);
        if let Some((current, bytes)) = CurrentMessage::of(&assembled.layout) {
            let current = Arc::new(current);
            self.current_messages.insert(snapshot.root, current, bytes);
        }
        if !self.config.snapshots.keep {
            if must_hold {
                return Err(Error::input(
                    "requests are not saved, so that there is no previous one to compare with",
                )
                .at("fail_on_cache_break")
                .advise("set `keep = true` in section [snapshots] of the settings"));
            }
            self.remember(label, &Arc::new(saved));
            return Ok(None);
        }
        if let Some(previous) = previous {
            let counts = self.counts(&assembled.model)?;
            let layout = &assembled.layout;
            let terms = CacheTerms::of(&assembled.model);
            let counter = counts.counter();
            let cache = saved.compare(&**store, previous, counter, &terms, Some(layout));
            assembled.report.cache = cache.ok();
            if let (Some(cache), true) = (assembled.report.cache_break(), must_hold) {
                return Err(cache.error());
            }
        }
        let is_new = previous.is_none_or(|previous| previous.hash != saved.hash);
        let hash = saved.hash.to_string();
        let saved = Arc::new(saved);
        let mut warning = None;
        match is_new {
            false => self.remember(label, &saved),
            true if self.background_snapshots => {
                let kept = Arc::clone(&saved);
                kept.set_durability(Durability::Pending);
                let last_error = Arc::clone(&self.last_snapshot_error);
                let failed = self.snapshot_failed.clone();
                warning = lock(&last_error).take();
                store.put_snapshot_later(PendingSnapshot {
                    snapshot,
                    blobs,
                    builds_on: previous.map(|previous| previous.hash),
                    done: Box::new(move |done| match done {
                        Ok(()) => kept.set_durability(Durability::Saved),
                        Err(error) => {
                            kept.set_durability(Durability::Failed);
                            if let Some(failed) = failed {
                                failed(&error);
                            }
                            let why = format!("an earlier request was not saved: {}", why(&error));
                            *lock(&last_error) = Some(why);
                        }
                    }),
                });
                // Remembered only now: snapshots that build on this one must be
                // queued after it.
                self.remember(label, &saved);
            }
            true => {
                // Remembered before it is saved: another thread may ask for the
                // next request right after that.
                self.remember(label, &saved);
                let (sender, receiver) = std::sync::mpsc::sync_channel(1);
                store.put_snapshot_later(PendingSnapshot {
                    snapshot,
                    blobs,
                    // Content of the previous request may have been deleted
                    // since it was read.
                    builds_on: previous.map(|previous| previous.hash),
                    done: Box::new(move |done| drop(sender.send(done))),
                });
                if let Ok(Err(error)) = receiver.recv() {
                    saved.set_durability(Durability::Failed);
                    if let Some(failed) = &self.snapshot_failed {
                        failed(&error);
                    }
                    let message = format!("the request was not saved: {error}");
                    return Ok(Some(Warning::new("not_kept", message)));
                }
            }
        }
        assembled.snapshot = Some(hash);
        assembled.report.snapshot = assembled.snapshot.clone();
        Ok(warning.map(|message| Warning::new("not_kept", message)))
    }

    /// Returns true if a request of a session was assembled and could not be
    /// saved.
    pub fn is_lost(&self, label: &str, hash: &str) -> bool {
        ContentHash::from_hex(hash)
            .and_then(|hash| lock(&self.recent).find(label, hash))
            .is_some_and(|saved| saved.durability() == Durability::Failed)
    }

    fn remember(&self, label: &str, saved: &Arc<Saved>) {
        lock(&self.recent).put(label, Arc::clone(saved));
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

/// Returns the reason why a request was not saved, without the path of the
/// store, which readers of the report need not see.
fn why(error: &StoreError) -> &'static str {
    match error {
        StoreError::Busy { .. } => "the store was locked by another process",
        StoreError::ReadOnly { .. } => "the store is read-only",
        StoreError::Full { .. } => "the store is full",
        StoreError::Withdrawn => "the caller did not wait for it",
        StoreError::NotFound { .. } => "the request before it was not saved either",
        _ => "the store failed",
    }
}
