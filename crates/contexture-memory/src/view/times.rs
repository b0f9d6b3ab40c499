//! The texts of a view by their time.

use std::collections::BTreeSet;

use contexture_recall::Slot;

/// Added texts are merged into the arrays when they are at least one in this
/// many.
const ADDED: usize = 8;
const LEAST_ADDED: usize = 1_024;

/// Texts in the order of their times.
///
/// Most are in two arrays, which need half of the memory of a tree.
#[derive(Debug, Default)]
pub(super) struct TimeOrder {
    // Ascending times, and the slot of each. There are no slots if each is the
    // index of its time, as in a memory that was recorded in order.
    times: Vec<i64>,
    slots: Vec<Slot>,
    // Texts that were added, and texts that were removed from the arrays.
    added: BTreeSet<(i64, Slot)>,
    removed: BTreeSet<(i64, Slot)>,
}

impl TimeOrder {
    /// Returns the order of texts, each with its time.
    pub(super) fn of(mut texts: Vec<(i64, Slot)>) -> Self {
        texts.sort_unstable();
        Self::sorted(texts.len(), texts.iter().copied())
    }

    /// Returns the order of about `count` texts, given in the order of their times.
    pub(super) fn sorted(count: usize, texts: impl Iterator<Item = (i64, Slot)> + Clone) -> Self {
        let is_in_order = (0..).zip(texts.clone()).all(|(at, (_, slot))| at == slot);
        let mut times = Vec::with_capacity(count);
        times.extend(texts.clone().map(|(time, _)| time));
        let slots = match is_in_order {
            true => Vec::new(),
            false => texts.map(|(_, slot)| slot).collect(),
        };
        Self {
            times,
            slots,
            ..Self::default()
        }
    }

    /// Returns the text at an index of the arrays, with its time.
    fn text(&self, at: usize) -> (i64, Slot) {
        let slot = self.slots.get(at).copied();
        (self.times[at], slot.unwrap_or(at as Slot))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entries = self.added.len() + self.removed.len();
        self.times.capacity() * size_of::<i64>()
            + self.slots.capacity() * size_of::<Slot>()
            + entries * 2 * size_of::<(i64, Slot)>()
    }

    pub(super) fn insert(&mut self, time: i64, slot: Slot) {
        if !self.removed.remove(&(time, slot)) {
            self.added.insert((time, slot));
        }
        if self.added.len() > (self.times.len() / ADDED).max(LEAST_ADDED) {
            self.merge();
        }
    }

    pub(super) fn remove(&mut self, time: i64, slot: Slot) {
        if !self.added.remove(&(time, slot)) {
            self.removed.insert((time, slot));
        }
    }

    fn merge(&mut self) {
        let added = self.added.iter().copied();
        let texts = self.known(0..self.times.len()).chain(added).collect();
        *self = Self::of(texts);
    }

    /// Returns the texts up to a time, the latest first.
    pub(super) fn until(&self, time: i64) -> impl Iterator<Item = Slot> + '_ {
        let end = self.times.partition_point(|other| *other <= time);
        let mut known = self.known(0..end).rev().peekable();
        let mut added = self.added.range(..=(time, Slot::MAX)).rev().peekable();
        std::iter::from_fn(move || {
            let first = match (known.peek(), added.peek()) {
                (Some(known), Some(added)) => *known > **added,
                (known, _) => known.is_some(),
            };
            match first {
                true => known.next(),
                false => added.next().copied(),
            }
        })
        .map(|(_, slot)| slot)
    }

    /// Returns the texts after a time, the earliest first.
    pub(super) fn after(&self, time: i64) -> impl Iterator<Item = Slot> + '_ {
        let start = self.times.partition_point(|other| *other <= time);
        let mut known = self.known(start..self.times.len()).peekable();
        let later = move |(at, _): &&(i64, Slot)| *at > time;
        let mut added = self
            .added
            .range((time, Slot::MAX)..)
            .filter(later)
            .peekable();
        std::iter::from_fn(move || {
            let first = match (known.peek(), added.peek()) {
                (Some(known), Some(added)) => *known < **added,
                (known, _) => known.is_some(),
            };
            match first {
                true => known.next(),
                false => added.next().copied(),
            }
        })
        .map(|(_, slot)| slot)
    }

    fn known(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (i64, Slot)> + '_ {
        let texts = range.map(|at| self.text(at));
        texts.filter(|text| !self.removed.contains(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_a_set() {
        let mut order = TimeOrder::of((0..50).map(|i| (i % 7, i as Slot)).collect());
        let mut set: BTreeSet<(i64, Slot)> = (0..50).map(|i| (i % 7, i as Slot)).collect();
        let mut state = 1_u64;
        for step in 0..5_000_u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let text = ((state >> 40) as i64 % 40 - 5, (state >> 20) as Slot % 3_000);
            match set.remove(&text) {
                true => order.remove(text.0, text.1),
                false => {
                    set.insert(text);
                    order.insert(text.0, text.1);
                }
            }
            if step % 250 == 0 {
                for time in [-9, 3, 20, 99] {
                    let until: Vec<Slot> = order.until(time).collect();
                    let expected = set.iter().rev().filter(|(at, _)| *at <= time);
                    assert_eq!(until, expected.map(|(_, slot)| *slot).collect::<Vec<_>>());
                    let after: Vec<Slot> = order.after(time).collect();
                    let expected = set.iter().filter(|(at, _)| *at > time);
                    assert_eq!(after, expected.map(|(_, slot)| *slot).collect::<Vec<_>>());
                }
            }
        }
    }
}
