//! Reusable buffers of searches.
//!
//! A search over a million texts needs a few arrays with a number for each. The
//! system would clear new memory page by page, which takes longer than the
//! search itself.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of buffers of each kind that are kept: those of one search.
const MOST_KEPT: usize = 4;

/// Buffers that no search uses.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Spare>);

#[derive(Debug, Default)]
struct Spare {
    numbers: Vec<Vec<f32>>,
    // All zeros, and a bit for each of them, all zero.
    counts: Vec<(Vec<u32>, Vec<u64>)>,
}

impl Buffers {
    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this many zeros.
    pub(super) fn take(buffers: &Arc<Buffers>, length: usize) -> Numbers {
        let spare = buffers.spare().numbers.pop();
        let values = match spare {
            Some(mut spare) if spare.capacity() >= length => {
                spare.clear();
                spare.resize(length, 0.0);
                spare
            }
            _ => vec![0.0; length],
        };
        Numbers {
            values,
            home: Some(Arc::clone(buffers)),
        }
    }

    /// Returns this many numbers with any values.
    pub(super) fn take_any(buffers: &Arc<Buffers>, length: usize) -> Numbers {
        let spare = buffers.spare().numbers.pop();
        let values = match spare {
            Some(mut spare) if spare.capacity() >= length => {
                spare.resize(length, 0.0);
                spare
            }
            _ => vec![0.0; length],
        };
        Numbers {
            values,
            home: Some(Arc::clone(buffers)),
        }
    }

    /// Returns this many counts and a bit for each of them, all zero.
    pub(super) fn take_counts(&self, length: usize) -> (Vec<u32>, Vec<u64>) {
        let (mut counts, mut bits) = self.spare().counts.pop().unwrap_or_default();
        bits.resize(length.div_ceil(64), 0);
        if counts.capacity() < length {
            return (vec![0; length], bits);
        }
        counts.resize(length, 0);
        (counts, bits)
    }

    /// Returns both for the next search. All counts and bits must be zero again.
    pub(super) fn give_counts(&self, counts: Vec<u32>, bits: Vec<u64>) {
        let mut spare = self.spare();
        if spare.counts.is_empty() {
            spare.counts.push((counts, bits));
        }
    }
}

/// A number for each slot of an index. Dropping it returns its memory to the
/// index.
#[derive(Debug, Default)]
pub struct Numbers {
    values: Vec<f32>,
    home: Option<Arc<Buffers>>,
}

impl Deref for Numbers {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values
    }
}

impl DerefMut for Numbers {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

impl PartialEq for Numbers {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let mut spare = home.spare();
            if spare.numbers.len() < MOST_KEPT {
                spare.numbers.push(std::mem::take(&mut self.values));
            }
        }
    }
}
