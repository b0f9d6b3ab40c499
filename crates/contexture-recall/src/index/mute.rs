//! The texts that are excluded from the scores of others.

use super::Slot;

/// A set of slots as bits; empty when it has none.
#[derive(Debug)]
pub(super) struct Mute(Vec<u64>);

impl Mute {
    /// Returns true when no text is mute.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn of(slots: &[Slot], all: usize) -> Self {
        let words = if slots.is_empty() {
            0
        } else {
            all.div_ceil(64)
        };
        let mut bits = vec![0; words];
        for &slot in slots {
            bits[slot as usize / 64] |= 1_u64 << (slot % 64);
        }
        Self(bits)
    }

    pub(super) fn holds(&self, slot: Slot) -> bool {
        let word = self.0.get(slot as usize / 64);
        word.is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    /// Returns true when the set contains neither these slots nor slots close
    /// to them.
    pub(super) fn is_free(&self, slots: &std::ops::Range<usize>) -> bool {
        let words = slots.start / 64..slots.end.div_ceil(64);
        self.0.is_empty()
            || self
                .0
                .get(words)
                .is_some_and(|words| words.iter().all(|word| *word == 0))
    }
}
