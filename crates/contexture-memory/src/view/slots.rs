//! Maps records to their slots in the index.

// The map is never iterated, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;

use contexture_recall::Slot;
use contexture_store::RecordKey;

/// The slots of texts by key.
#[derive(Debug, Default)]
pub(super) struct Slots {
    // Ascending keys, as in a file, and the slot of each. A key is stored as its
    // distance from the first one.
    first: RecordKey,
    keys: Vec<u32>,
    // Empty if each slot is the index of its key, as in a memory without deletions.
    slots: Vec<Slot>,
    // The later changes: `None` for a removed text.
    #[allow(clippy::disallowed_types)]
    changed: HashMap<RecordKey, Option<Slot>>,
}

impl Slots {
    /// Returns the slots of about `count` texts, given with their ascending keys.
    pub(super) fn sorted(count: usize, texts: impl Iterator<Item = (RecordKey, Slot)>) -> Self {
        let mut sorted = Self {
            keys: Vec::with_capacity(count),
            ..Self::default()
        };
        let mut is_in_order = true;
        for (key, slot) in texts {
            let at = sorted.keys.len() as Slot;
            if at == 0 {
                sorted.first = key;
            }
            let Some(distance) = sorted.distance(key) else {
                sorted.insert(key, slot);
                continue;
            };
            sorted.keys.push(distance);
            if is_in_order && slot != at {
                is_in_order = false;
                sorted.slots = Vec::with_capacity(count);
                sorted.slots.extend(0..at);
            }
            if !is_in_order {
                sorted.slots.push(slot);
            }
        }
        sorted
    }

    /// Returns the distance of a key from the first one, if it can be stored.
    fn distance(&self, key: RecordKey) -> Option<u32> {
        u32::try_from(key.checked_sub(self.first)?).ok()
    }

    /// Returns the index of a key in the arrays.
    fn place(&self, key: RecordKey) -> Option<usize> {
        self.keys.binary_search(&self.distance(key)?).ok()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entry = size_of::<(RecordKey, Option<Slot>)>() + 1;
        self.keys.capacity() * size_of::<u32>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.changed.capacity() * entry
    }

    pub(super) fn get(&self, key: RecordKey) -> Option<Slot> {
        match self.changed.get(&key) {
            Some(changed) => *changed,
            None => {
                let place = self.place(key)?;
                Some(self.slots.get(place).copied().unwrap_or(place as Slot))
            }
        }
    }

    pub(super) fn insert(&mut self, key: RecordKey, slot: Slot) {
        self.changed.insert(key, Some(slot));
    }

    pub(super) fn remove(&mut self, key: RecordKey) -> Option<Slot> {
        let found = self.get(key)?;
        match self.place(key) {
            Some(_) => self.changed.insert(key, None),
            None => self.changed.remove(&key),
        };
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_slot_however_far_apart_keys_are() {
        let far = i64::from(u32::MAX) + 8;
        let in_order = [(7, 0), (9, 1), (far, 2), (i64::MAX, 3)];
        let in_any_order = [(7, 0), (9, 2), (far, 1), (i64::MAX, 3)];
        for texts in [in_order, in_any_order] {
            let mut slots = Slots::sorted(texts.len(), texts.into_iter());
            for (key, slot) in texts {
                assert_eq!(slots.get(key), Some(slot));
            }
            assert_eq!((slots.get(8), slots.get(i64::MIN)), (None, None));
            for (key, slot) in texts {
                assert_eq!(slots.remove(key), Some(slot));
                assert_eq!((slots.get(key), slots.remove(key)), (None, None));
                slots.insert(key, slot + 10);
                assert_eq!(slots.get(key), Some(slot + 10));
            }
        }
    }
}
