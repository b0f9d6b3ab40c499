//! The sources `memory` and `tasks`: records are recalled within a budget.
//!
//! ```
//! use std::sync::Arc;
//!
//! use contexture_engine::Engine;
//! use contexture_memory::MemoryCache;
//!
//! let cache = Arc::new(MemoryCache::default());
//! let engine = contexture_memory::register(Engine::builder(), &cache).build()?;
//! assert!(engine.sources().any(|(name, _)| name == "memory"));
//! # Ok::<(), contexture_engine::Error>(())
//! ```
//!
//! Recording derives the search data of a record (words, a vector, the entities
//! it mentions) and stores both. Recall reads the store's changes into a view in
//! memory, searches five channels, and offers the found records to the engine's
//! fit. It needs no API key and no network.
//!
//! [`register`] adds the sources to an engine. [`Memory`] records and recalls.

mod admission;
mod alike;
mod archetype;
mod channels;
mod context;
mod embedder;
mod facts;
mod form;
mod found_lines;
mod housekeeping;
mod index_file;
pub mod index_memory;
mod later;
mod layers;
mod lines;
mod messages;
mod query;
mod read;
mod recall;
mod record;
mod score;
mod shorten;
mod source;
mod task_stack;
mod time;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use contexture_engine::{Advice, Engine, Error, Operation, Warning};
use contexture_extract::Extractor;
use contexture_recall::{Embedder, Strategy};
use contexture_store::{
    Change, EmbedderInfo, Memories, MemoryState, RecordKey, RecordKind, Sketch,
};
use contexture_words::ANALYSER;
use jiff::Timestamp;

use self::embedder::Embedders;
use self::index_file::IndexFileState;
use self::index_memory::{CachedView, ViewGuard, ViewUse};
use self::later::Generation;
use self::lines::LineCache;
use self::recall::{QueryVectors, RecentFindings};
use self::view::View;

pub use self::archetype::{Archetype, Archetypes};
pub use self::context::{
    Channel, ChannelBudget, Context, ContextComponent, ContextRequest, LeftOut, Metadata, Shown,
    Signals, TimeInterval, VectorProgress,
};
pub use self::housekeeping::{
    EncoderOverview, KindOverview, MemoryOverview, RecordPage, Reembedded,
};
pub use self::later::FillIn;
pub use self::recall::{Recall, Recalled};
pub use self::record::{Lines, MemoryRecorded};
pub use self::source::register;
pub use self::task_stack::{StackInfo, StackTasks, TaskChanged};
pub use contexture_engine::ContextFilters;

#[cfg(feature = "schema")]
pub(crate) use contexture_engine::schema;
pub(crate) use contexture_engine::{config, error, yaml};

/// The number of changes that are read at a time.
const CHANGES: usize = 5_000;

/// The suffix of the cache key for lines of relations.
const RELATIONS: &str = " relations";

/// The number of texts indexed again at a time.
const REBUILT: usize = 1_000;

/// The cached state of a memory between requests: the view, texts, the
/// embedder.
#[derive(Default)]
pub struct MemoryCache {
    view: CachedView,
    lines: LineCache,
    contexts: RecentFindings,
    query_vectors: QueryVectors,
    embedders: OnceLock<Embedders>,
    // True if vectors could not be saved: a recall does not try again.
    later_failed: Mutex<bool>,
    // This lock is never held while waiting for the view.
    index_file: Mutex<IndexFileState>,
    saving_index: Mutex<()>,
    archetypes: OnceLock<Archetypes>,
    extractor: OnceLock<Extractor>,
    // Records that were chosen for archiving, the first of them last.
    leaving: Mutex<BTreeMap<RecordKind, Vec<RecordKey>>>,
    // Warnings that are reported once.
    warnings: Mutex<Vec<Warning>>,
}

impl MemoryCache {
    /// Returns a cache with this embedder. Default: the configured one.
    pub fn new(embedder: Option<Arc<dyn Embedder>>) -> Self {
        let cache = Self::default();
        if let Some(embedder) = embedder {
            // The cell is empty, so setting it succeeds.
            let _ = cache.embedders.set(Embedders::one(embedder));
        }
        cache
    }
}

/// Locks a mutex. Its values are only replaced as a whole, so a panic elsewhere
/// leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory of an engine's store.
#[derive(Clone, Copy)]
pub struct Memory<'e> {
    engine: &'e Engine,
    store: &'e dyn Memories,
    cache: &'e MemoryCache,
}

impl<'e> Memory<'e> {
    /// Returns the memory of the engine's store.
    ///
    /// Fails when the engine has no store.
    pub fn new(engine: &'e Engine, cache: &'e MemoryCache) -> Result<Self, Error> {
        Ok(Self {
            engine,
            store: engine.memories()?,
            cache,
        })
    }

    /// Returns the embedder that is used while recording: the cache's own,
    /// otherwise the configured one.
    pub fn embedder_of(engine: &Engine, cache: &MemoryCache) -> Result<Arc<dyn Embedder>, Error> {
        Ok(Arc::clone(&Self::embedders_of(engine, cache)?.first))
    }

    /// Returns the encoder that creates vectors after recording, if there is
    /// one.
    pub fn encoder_of(
        engine: &Engine,
        cache: &MemoryCache,
    ) -> Result<Option<Arc<dyn Embedder>>, Error> {
        Ok(Self::embedders_of(engine, cache)?.later.clone())
    }

    fn embedders_of<'c>(engine: &Engine, cache: &'c MemoryCache) -> Result<&'c Embedders, Error> {
        if let Some(known) = cache.embedders.get() {
            return Ok(known);
        }
        let config = &engine.config().memory.embedder;
        let made = embedder::configured(engine.folder(), config, engine.is_confined())?;
        Ok(cache.embedders.get_or_init(|| made))
    }

    fn embedders(&self) -> Result<&'e Embedders, Error> {
        Self::embedders_of(self.engine, self.cache)
    }

    /// Returns the built-in and the custom archetypes.
    pub fn archetypes_of<'c>(
        engine: &Engine,
        cache: &'c MemoryCache,
    ) -> Result<&'c Archetypes, Error> {
        let known = &cache.archetypes;
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let read = Archetypes::load(engine.folder(), &engine.config().memory.archetypes)?;
        Ok(known.get_or_init(|| read))
    }

    /// Returns the built-in and the custom archetypes.
    pub fn archetypes(&self) -> Result<&'e Archetypes, Error> {
        Self::archetypes_of(self.engine, self.cache)
    }

    /// Returns the extractor of entities and relations.
    fn extractor(&self) -> Result<&'e Extractor, Error> {
        let known = &self.cache.extractor;
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let archetype = self
            .archetypes()?
            .get(&self.engine.config().memory.archetype)?;
        let made = Extractor::new(&archetype.rules).map_err(|(rule, error)| {
            let name = &archetype.name;
            Error::input(format!(
                "archetype {name}: extract.entities[{rule}].{error}"
            ))
        })?;
        Ok(known.get_or_init(|| made))
    }

    /// Returns the types of relations of which an entity can have only one.
    fn single_relations(&self) -> Result<BTreeSet<String>, Error> {
        let name = &self.engine.config().memory.archetype;
        let rules = &self.archetypes()?.get(name)?.rules.relations;
        let single = rules.iter().filter(|rule| rule.single);
        Ok(single.map(|rule| rule.kind.clone()).collect())
    }

    /// Returns the strategy of a request.
    fn strategy(&self, request: &ContextRequest) -> Result<Strategy, Error> {
        let name = request.archetype.as_deref();
        let name = name.unwrap_or(&self.engine.config().memory.archetype);
        let strategy = &self.archetypes()?.get(name)?.strategy;
        let Some(patch) = &request.strategy else {
            return Ok(strategy.clone());
        };
        let patched = strategy.patched(patch);
        patched.map_err(|error| Error::input(format!("strategy.{error}")))
    }

    /// Returns true when no record was ever stored.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.store.memory_state()?.seq == 0)
    }

    /// Returns the configured embedder that is used while recording.
    pub fn embedder(&self) -> Result<Arc<dyn Embedder>, Error> {
        Self::embedder_of(self.engine, self.cache)
    }

    /// Fails when the memory's vectors were created by another embedder than
    /// the configured one: they cannot be compared.
    fn check_embedder(&self, state: &MemoryState, embedder: &dyn Embedder) -> Result<(), Error> {
        let analysis = state.analysis.as_ref();
        let Some(used) = analysis.and_then(|analysis| analysis.embedder.as_ref()) else {
            return Ok(());
        };
        let here = info(embedder);
        if *used == here {
            return Ok(());
        }
        Err(Error::input(format!(
            "the stored vectors are of {} ({} dimensions), but {} ({} dimensions) is configured; \
             vectors of different embedders cannot be compared",
            used.name, used.dimensions, here.name, here.dimensions
        ))
        .advise(Advice::call(Operation::ReembedMemory))
        .advise(Advice::configure("memory.embedder")))
    }

    /// Updates the view and returns it.
    fn view(&self, deadline: Option<Instant>) -> Result<ViewGuard<'e>, Error> {
        self.view_at(self.store.memory_state()?, deadline)
    }

    /// Updates the view to a state of the store, or a later one, and returns
    /// it.
    fn view_at(
        &self,
        mut state: MemoryState,
        deadline: Option<Instant>,
    ) -> Result<ViewGuard<'e>, Error> {
        let cache = self.cache;
        let mut rebuilt = false;
        let mut in_use = cache.view.begin_use(deadline)?;
        loop {
            let shape = self.shape(&state)?;
            let known = cache.view.read();
            let current = known.as_ref().is_some_and(|view| {
                let (generation, _) = shape;
                let vectors = generation == Generation::First || view.later >= state.later.seq;
                view.seq >= state.seq && vectors && view.shape() == shape
            });
            if current {
                return Ok(ViewGuard::new(known, in_use));
            }
            drop(known);
            let Some(lacking) = self.catch_up(shape, &state, deadline, &mut in_use)? else {
                in_use.wait(deadline)?;
                continue;
            };
            if lacking == 0 {
                // The view is loaded again soon, and the server's thread that saves
                // indexes does not find it in memory.
                if in_use.is_passing() {
                    let _ = self.save_index();
                }
                state = self.store.memory_state()?;
                continue;
            }
            // Words that are missing or of older rules are created again, once.
            let made = match rebuilt {
                false => self.rebuild(),
                true => Err(Error::damage("they could not be saved")),
            };
            rebuilt = true;
            state = self.store.memory_state()?;
            match made {
                Ok(made) => self.warn_later(Warning::new(
                    "index_rebuilt",
                    format!(
                        "the full-text index was missing or outdated: {made} texts were indexed \
                         again"
                    ),
                )),
                Err(error) => {
                    self.warn_later(Warning::new(
                        "index_incomplete",
                        format!(
                            "{lacking} texts are not in the full-text index and are searched by \
                             meaning only: {error}"
                        ),
                    ));
                    return Ok(ViewGuard::new(cache.view.read(), in_use));
                }
            }
        }
    }

    /// Reads the store's changes into the view, and returns the number of texts
    /// without words. Returns `None` when there is no room for the view.
    ///
    /// Changes that were read before the deadline are not read again.
    fn catch_up(
        &self,
        shape: (Generation, usize),
        state: &MemoryState,
        deadline: Option<Instant>,
        in_use: &mut ViewUse<'_>,
    ) -> Result<Option<usize>, Error> {
        let cache = self.cache;
        let later = state.later.seq;
        let mut known = cache.view.write();
        if (known.as_ref()).is_none_or(|view| view.shape() != shape) {
            let filed = match known.is_none() {
                true => {
                    // The changes since these lines were read are unknown.
                    cache.lines.clear();
                    self.open_index(state, shape)?
                }
                false => None,
            };
            // Every text has at least the vectors that it had when `later` was
            // read.
            *known = Some(filed.unwrap_or_else(|| View::new(shape, later)));
        }
        loop {
            let Some(view) = known.as_mut() else {
                return Ok(Some(0));
            };
            if !in_use.grow(view.memory_bytes()) {
                *known = None;
                return Ok(None);
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(Error::late(
                    "loading the memory took longer than memory.deadline_ms in contexture.toml",
                ));
            }
            let changes = self.store.changes(view.seq, CHANGES)?;
            if changes.is_empty() {
                if shape.0 == Generation::First {
                    return Ok(Some(view.wordless.len()));
                }
                let vectors = self.store.later_vectors(view.later, CHANGES)?;
                if vectors.is_empty() {
                    // The number also increases without a vector.
                    view.later = view.later.max(later);
                    return Ok(Some(view.wordless.len()));
                }
                view.put_vectors(vectors);
                continue;
            }
            let keys = changes.iter().map(|change| change.key);
            // The line of a relation contains the names of its entities.
            let is_entity = |change: &Change| {
                matches!(change.sketch, Some(Sketch::Entity(_)))
                    || view.entities.contains_key(&change.key)
            };
            if changes.iter().any(is_entity) {
                cache.lines.forget_kind(RELATIONS);
            }
            cache.lines.forget(keys);
            view.apply(changes);
        }
    }

    /// Returns the generation of vectors that ranks, and their number of
    /// dimensions.
    fn shape(&self, state: &MemoryState) -> Result<(Generation, usize), Error> {
        let generation = self.generation(state)?;
        let later = || state.later.embedder.as_ref();
        let dimensions = match generation {
            Generation::First => dimensions_of(state),
            Generation::Later => later().map_or(0, |embedder| embedder.dimensions as usize),
        };
        Ok((generation, dimensions))
    }

    /// Creates the words of texts that have none.
    fn rebuild(&self) -> Result<usize, Error> {
        let keys: Vec<_> = {
            let cache = self.cache;
            let known = cache.view.read();
            let wordless = known.iter().flat_map(|view| &view.wordless);
            wordless.copied().collect()
        };
        for keys in keys.chunks(REBUILT) {
            let records = self.store.records(keys)?;
            let made = keys.iter().zip(&records).filter_map(|(key, record)| {
                let record = record.as_ref()?;
                let text = form::searchable(record)?;
                Some((*key, form::Packed::of(&text, record, None).to_bytes()))
            });
            let made: Vec<_> = made.collect();
            self.store.put_words(ANALYSER, &made)?;
        }
        Ok(keys.len())
    }

    /// Saves a warning for the next context.
    fn warn_later(&self, warning: Warning) {
        lock(&self.cache.warnings).push(warning);
    }

    fn pending_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut *lock(&self.cache.warnings))
    }
}

fn info(embedder: &dyn Embedder) -> EmbedderInfo {
    EmbedderInfo {
        name: embedder.name().to_owned(),
        dimensions: u32::try_from(embedder.dimensions()).unwrap_or(u32::MAX),
    }
}

/// Returns the number of dimensions of vectors that are created while
/// recording.
fn dimensions_of(state: &MemoryState) -> usize {
    let analysis = state.analysis.as_ref();
    let embedder = analysis.and_then(|analysis| analysis.embedder.as_ref());
    embedder.map_or(0, |embedder| embedder.dimensions as usize)
}

/// Returns the time, rounded to milliseconds, as it is stored.
fn kept(now: Option<Timestamp>) -> Timestamp {
    now.unwrap_or_else(Timestamp::now)
}
