//! Memory: what was recorded, found again within a budget.
//!
//! Recording derives what a record is found by (words, a vector, the entities
//! it mentions) and hands both to the store. Recall reads the store's changes
//! into a view in memory, looks in five channels, and shows what fits. It needs
//! no key and no network.

mod admission;
mod channels;
mod context;
mod embedder;
mod form;
mod keep;
mod lines;
mod query;
mod read;
mod recall;
mod record;
mod score;
mod select;
mod shorten;
mod time;
mod view;

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use contexture_recall::{ANALYSER, Embedder, Extractor, Strategy, analyse};
use contexture_store::{Change, EmbedderInfo, MemoryState, Sketch, Store};
use jiff::Timestamp;
use std::time::Instant;

use crate::archetype::Archetypes;
use crate::engine::Engine;
use crate::error::Error;

use self::lines::LineCache;
use self::recall::Kept;
use self::view::View;

pub use self::context::{
    Channel, ChannelBudget, Context, ContextComponent, ContextFilters, ContextRequest, LeftOut,
    Metadata, Shown, Signals,
};
pub use self::keep::{KindOverview, MemoryOverview, Reembedded};
pub use self::recall::{Recall, Recalled};
pub use self::record::{Lines, MemoryRecorded};

/// How many changes are read at a time.
const CHANGES: usize = 5_000;

/// Lines of relations are kept apart.
const RELATIONS: &str = " relations";

/// How many texts have their words made anew at a time.
const REBUILT: usize = 1_000;

/// What an engine keeps of a memory.
#[derive(Default)]
pub(crate) struct MemoryCache {
    view: RwLock<Option<View>>,
    lines: LineCache,
    contexts: Mutex<Kept>,
    embedder: OnceLock<Arc<dyn Embedder>>,
    archetypes: OnceLock<Archetypes>,
    extractor: OnceLock<Extractor>,
    // How many records may come before the caps are looked at again.
    headroom: Mutex<u64>,
    // What is to be said once.
    told: Mutex<Vec<String>>,
}

/// The memory of an engine's store.
#[derive(Clone, Copy)]
pub struct Memory<'e> {
    engine: &'e Engine,
    store: &'e dyn Store,
}

impl Engine {
    /// Returns the memory of the engine's store.
    ///
    /// Fails when the engine has no store.
    pub fn memory(&self) -> Result<Memory<'_>, Error> {
        Ok(Memory {
            engine: self,
            store: self.store()?,
        })
    }

    /// Returns what makes vectors, by the settings.
    pub fn embedder(&self) -> Result<Arc<dyn Embedder>, Error> {
        if let Some(known) = self.memory.embedder.get() {
            return Ok(Arc::clone(known));
        }
        let made = embedder::configured(&self.config.memory.embedder)?;
        Ok(Arc::clone(self.memory.embedder.get_or_init(|| made)))
    }
}

impl Engine {
    /// Returns the archetypes: the built-in ones and the user's.
    pub fn archetypes(&self) -> Result<&Archetypes, Error> {
        let known = &self.memory.archetypes;
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let read = Archetypes::load(&self.folder, &self.config.memory.archetypes)?;
        Ok(known.get_or_init(|| read))
    }

    /// Returns what reads entities and relations out of what is recorded.
    fn extractor(&self) -> Result<&Extractor, Error> {
        let known = &self.memory.extractor;
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let archetype = self.archetypes()?.get(&self.config.memory.archetype)?;
        let made = Extractor::new(&archetype.rules).map_err(|(rule, error)| {
            let name = &archetype.name;
            Error::input(format!(
                "archetype {name}: extract.entities[{rule}].{error}"
            ))
        })?;
        Ok(known.get_or_init(|| made))
    }

    /// Returns the strategy that a request asks for.
    fn strategy(&self, request: &ContextRequest) -> Result<Strategy, Error> {
        let name = request.archetype.as_deref();
        let name = name.unwrap_or(&self.config.memory.archetype);
        let strategy = &self.archetypes()?.get(name)?.strategy;
        let Some(patch) = &request.strategy else {
            return Ok(strategy.clone());
        };
        let patched = strategy.patched(patch);
        patched.map_err(|error| Error::input(format!("strategy.{error}")))
    }
}

impl<'e> Memory<'e> {
    fn cache(&self) -> &'e MemoryCache {
        &self.engine.memory
    }

    /// Returns true when nothing was ever recorded.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.store.memory_state()?.seq == 0)
    }

    /// Returns what makes vectors, by the settings.
    pub fn embedder(&self) -> Result<Arc<dyn Embedder>, Error> {
        self.engine.embedder()
    }

    /// Fails when the memory's vectors were made by something else than what is
    /// configured: the two cannot be compared.
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
            "the memory's vectors are of {} ({} dimensions), but {} ({} dimensions) is configured: \
             the two cannot be compared",
            used.name, used.dimensions, here.name, here.dimensions
        ))
        .hint(
            "`contexture memory reembed` makes them anew with the configured one; or configure \
             the old one under [memory.embedder] in contexture.toml",
        ))
    }

    /// Brings the view up to date and returns it.
    fn view(&self, deadline: Option<Instant>) -> Result<RwLockReadGuard<'e, Option<View>>, Error> {
        let cache = self.cache();
        let mut rebuilt = false;
        loop {
            let state = self.store.memory_state()?;
            let dimensions = dimensions_of(&state);
            let known = cache.view.read().unwrap_or_else(PoisonError::into_inner);
            let current = known
                .as_ref()
                .is_some_and(|view| view.seq >= state.seq && view.index.dimensions() == dimensions);
            if current {
                return Ok(known);
            }
            drop(known);
            let lacking = self.catch_up(dimensions, deadline)?;
            if lacking == 0 {
                continue;
            }
            // Words that are lost or of older rules are made anew, once.
            let made = match rebuilt {
                false => self.rebuild(),
                true => Err(Error::damage("they were not kept")),
            };
            rebuilt = true;
            match made {
                Ok(made) => self.tell(format!(
                    "the full-text index was lost, or made by older rules: {made} texts were \
                     read anew"
                )),
                Err(error) => {
                    self.tell(format!(
                        "{lacking} texts have no words, and are found by meaning only: {error}"
                    ));
                    return Ok(cache.view.read().unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }

    /// Reads the store's changes into the view, and returns how many texts have
    /// no words.
    ///
    /// What was read before a deadline stays read.
    fn catch_up(&self, dimensions: usize, deadline: Option<Instant>) -> Result<usize, Error> {
        let cache = self.cache();
        let mut known = cache.view.write().unwrap_or_else(PoisonError::into_inner);
        if (known.as_ref()).is_none_or(|view| view.index.dimensions() != dimensions) {
            *known = Some(View::new(dimensions));
        }
        let Some(view) = known.as_mut() else {
            return Ok(0);
        };
        loop {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(Error::late(
                    "reading it in took longer than memory.deadline_ms in contexture.toml allows",
                ));
            }
            let changes = self.store.changes(view.seq, CHANGES)?;
            if changes.is_empty() {
                return Ok(view.wordless.len());
            }
            let keys = changes.iter().map(|change| change.key);
            // A relation shows the names of its ends.
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

    /// Makes the words of texts anew that have none.
    fn rebuild(&self) -> Result<usize, Error> {
        let keys: Vec<_> = {
            let cache = self.cache();
            let known = cache.view.read().unwrap_or_else(PoisonError::into_inner);
            let wordless = known.iter().flat_map(|view| &view.wordless);
            wordless.copied().collect()
        };
        for keys in keys.chunks(REBUILT) {
            let records = self.store.records(keys)?;
            let made = keys.iter().zip(&records).filter_map(|(key, record)| {
                let record = record.as_ref()?;
                let text = form::searchable(record)?;
                Some((*key, form::pack(&analyse(&text), record)))
            });
            let made: Vec<_> = made.collect();
            self.store.put_words(ANALYSER, &made)?;
        }
        Ok(keys.len())
    }

    /// Keeps something to be said with the next context.
    fn tell(&self, what: String) {
        let mut told = (self.cache().told.lock()).unwrap_or_else(PoisonError::into_inner);
        told.push(what);
    }

    fn told(&self) -> Vec<String> {
        let mut told = (self.cache().told.lock()).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *told)
    }
}

fn info(embedder: &dyn Embedder) -> EmbedderInfo {
    EmbedderInfo {
        name: embedder.name().to_owned(),
        dimensions: u32::try_from(embedder.dimensions()).unwrap_or(u32::MAX),
    }
}

fn dimensions_of(state: &MemoryState) -> usize {
    let analysis = state.analysis.as_ref();
    let embedder = analysis.and_then(|analysis| analysis.embedder.as_ref());
    embedder.map_or(0, |embedder| embedder.dimensions as usize)
}

/// Returns the time, to the millisecond, as it is kept.
fn kept(now: Option<Timestamp>) -> Timestamp {
    now.unwrap_or_else(Timestamp::now)
}
