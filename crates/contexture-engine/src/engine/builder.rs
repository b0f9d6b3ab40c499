//! [`EngineBuilder`]: builds an engine from settings, a store, sources and
//! recipes.
//!
//! Every part of the store is set separately, so that a program can use
//! conversations without memory, or no store at all. The last source or recipe
//! that is registered under a name is used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use contexture_core::TokenCounter;
use contexture_core::cache::{Cache, Owner};
use contexture_core::guard::MarkKey;
use contexture_store::{Ledger, Memories, Samples, Snapshots, Store, StoreError, Tasks, Trees};

use super::{Engine, RegisteredRecipe, SnapshotFailed, StoreParts};
use crate::advice::Warning;
use crate::by_file::ByFile;
use crate::config::{self, Config};
use crate::error::Error;
use crate::recipe::Recipe;
use crate::source::Source;
use crate::summariser::Summariser;
use crate::tool_usage::ToolUsageCache;
use crate::trust::Settings;

/// Builds an engine: see [`Engine::builder`].
pub struct EngineBuilder {
    config: Config,
    folder: PathBuf,
    parts: StoreParts,
    sources: BTreeMap<String, Arc<dyn Source>>,
    recipes: BTreeMap<String, RegisteredRecipe>,
    counters: BTreeMap<String, Arc<dyn TokenCounter>>,
    summariser: Option<Arc<dyn Summariser>>,
    confined: bool,
    background_snapshots: bool,
    snapshot_failed: Option<SnapshotFailed>,
    mark_key: Option<MarkKey>,
    warnings: Vec<Warning>,
}

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
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.parts = StoreParts::of(store);
        self
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
        let name = recipe.name.clone();
        let recipe = RegisteredRecipe::Ready(Arc::new(recipe));
        self.recipes.insert(name, recipe);
        self
    }

    /// Registers a recipe by its name, unless there is one of that name. `read` is
    /// called when the recipe is needed.
    pub fn usual_recipe(
        mut self,
        name: impl Into<String>,
        read: impl Fn() -> Result<Arc<Recipe>, Error> + Send + Sync + 'static,
    ) -> Self {
        let recipe = || RegisteredRecipe::OnDemand(Box::new(read));
        self.recipes.entry(name.into()).or_insert_with(recipe);
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
            tool_usage: ToolUsageCache::default(),
            counts: Mutex::default(),
            cache_owner: Owner::current(),
            permissions: ByFile::default(),
            recent: Mutex::default(),
            current_messages: Cache::default(),
            last_snapshot_error: Arc::default(),
            shared: Mutex::default(),
        })
    }
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
}
