//! The second generation of vectors: those of the encoder, computed after
//! recording.
//!
//! Recording computes static vectors, which is fast. An encoder's vectors are
//! filled in afterwards, the newest texts first: by a recall, for up to
//! [`WAITED_FOR`] texts; by [`Memory::fill_in`], which a server calls in the
//! background; and by [`Memory::reembed`]. A recall ranks all texts by one
//! generation. It is the second one as soon as [`ENOUGH`] of the texts have
//! such a vector; a text that has none yet is then ranked by its words.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use contexture_recall::{EmbedError, Embedder, Vector};
use contexture_store::{LaterState, MemoryState, PendingText, Record};

use crate::error::Error;
use crate::record::head_of;
use crate::{Memory, form, info};

/// The number of texts without a vector that a recall computes first.
pub(crate) const WAITED_FOR: u64 = 1_024;

/// The second generation ranks when all texts have a vector except one in this
/// many.
const ENOUGH: u64 = 20;

/// The number of texts that are embedded at a time.
const BATCH: usize = 64;

/// A generation of vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Vectors that are computed while recording.
    #[default]
    First,
    /// Vectors that are computed afterwards.
    Later,
}

/// The limits of [`Memory::fill_in`].
#[derive(Debug, Clone, Copy)]
pub struct FillIn {
    /// The maximum number of texts.
    pub texts: u64,
    /// The maximum time. A batch that has begun is finished.
    pub time: Option<Duration>,
    /// The pause after each batch, as a fraction of the batch's duration.
    pub rest: f64,
}

impl FillIn {
    /// No limit.
    pub const ALL: FillIn = FillIn {
        texts: u64::MAX,
        time: None,
        rest: 0.0,
    };
}

impl Memory<'_> {
    /// Returns the generation of vectors that recall ranks by.
    pub(crate) fn generation(&self, state: &MemoryState) -> Result<Generation, Error> {
        let LaterState {
            embedder,
            current,
            pending,
            ..
        } = &state.later;
        let Some(later) = &self.embedders()?.later else {
            return Ok(Generation::First);
        };
        let ours = embedder.as_ref() == Some(&info(&**later));
        let enough = *current > 0 && pending.saturating_mul(ENOUGH) <= current + pending;
        Ok(match ours && enough {
            true => Generation::Later,
            false => Generation::First,
        })
    }

    /// Returns the number of texts without a vector of the configured encoder,
    /// and the number of all texts. `None` without an encoder or without texts.
    pub fn lacking(&self) -> Result<Option<(u64, u64)>, Error> {
        self.missing_vectors_in(&self.store.memory_state()?.later)
    }

    /// Returns the same for a state of the store.
    pub(crate) fn missing_vectors_in(
        &self,
        state: &LaterState,
    ) -> Result<Option<(u64, u64)>, Error> {
        if state.current + state.pending == 0 {
            return Ok(None);
        }
        let Some(later) = &self.embedders()?.later else {
            return Ok(None);
        };
        let all = state.current + state.pending;
        let ours = state.embedder.as_ref() == Some(&info(&**later));
        Ok(Some((if ours { state.pending } else { all }, all)))
    }

    /// Computes missing vectors of the encoder, the newest texts first, and
    /// returns their number. Returns 0 without an encoder.
    pub fn fill_in(&self, limits: FillIn, progress: &mut dyn FnMut(u64)) -> Result<u64, Error> {
        let state = self.store.memory_state()?.later;
        // A model is loaded only if there are texts.
        if state.current + state.pending == 0 {
            return Ok(0);
        }
        let Some(later) = &self.embedders()?.later else {
            return Ok(0);
        };
        let here = info(&**later);
        if state.embedder.as_ref() != Some(&here) {
            self.store.put_later(&here, &[])?;
        }
        let started = Instant::now();
        let mut done = 0;
        while done < limits.texts {
            let most = usize::try_from(limits.texts - done).unwrap_or(usize::MAX);
            let before = Instant::now();
            let pending = self.store.pending(most.min(BATCH))?;
            if pending.is_empty() {
                break;
            }
            let vectors = self.vectors_of(&pending, &**later, limits.rest <= 0.0)?;
            self.store.put_later(&here, &vectors)?;
            done += pending.len() as u64;
            progress(done);
            if limits.time.is_some_and(|time| started.elapsed() >= time) {
                break;
            }
            if limits.rest > 0.0 {
                std::thread::sleep(before.elapsed().mul_f64(limits.rest));
            }
        }
        Ok(done)
    }

    fn vectors_of(
        &self,
        pending: &[PendingText],
        embedder: &dyn Embedder,
        threads: bool,
    ) -> Result<Vec<(PendingText, Vec<u8>)>, Error> {
        let keys: Vec<_> = pending.iter().map(|text| text.key).collect();
        let records = self.store.records(&keys)?;
        let text = |record: &Option<Record>| {
            let text = record.as_ref().and_then(form::searchable);
            text.unwrap_or_default()
        };
        let texts: Vec<String> = records.iter().map(text).collect();
        let heads: Vec<&str> = texts.iter().map(|text| head_of(text)).collect();
        let (first, second) = match threads {
            true => heads.split_at(heads.len() / 2),
            false => heads.split_at(heads.len()),
        };
        let embedded = std::thread::scope(|scope| {
            let other = scope.spawn(|| match second.is_empty() {
                true => Ok(Vec::new()),
                false => embedder.embed(second),
            });
            let mut vectors = embedder.embed(first)?;
            let other = other.join();
            vectors.extend(other.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            Ok(vectors)
        });
        let vectors = embedded.map_err(|error: EmbedError| {
            Error::failure(format!("the embedder failed: {error}"), error)
        })?;
        let vectors = pending.iter().zip(&vectors);
        Ok(vectors
            .map(|(text, vector)| (*text, Vector::quantise(vector).to_bytes()))
            .collect())
    }

    /// Computes missing vectors before a recall, if they are few, and returns
    /// the state of the store.
    ///
    /// A read-only store is searched as it is.
    pub(crate) fn catch_up_vectors(&self, deadline: Option<Instant>) -> Result<MemoryState, Error> {
        let state = self.store.memory_state()?;
        let Some((lacking @ 1..=WAITED_FOR, _)) = self.missing_vectors_in(&state.later)? else {
            return Ok(state);
        };
        let failed = &self.cache.later_failed;
        if *failed.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(state);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limits = FillIn {
            texts: lacking,
            // The recall itself needs the other half of the time.
            time: left.map(|left| left / 2),
            rest: 0.0,
        };
        if self.fill_in(limits, &mut |_| {}).is_err() {
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
        Ok(self.store.memory_state()?)
    }
}
