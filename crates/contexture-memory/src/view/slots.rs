//! Maps records to their slots in the index.

// The map is never iterated, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;

use contexture_recall::Slot;
use contexture_store::RecordKey;

/// The slots of texts by key.
#[derive(Debug, Default)]
pub(super) struct Slots {
    // Ascending keys, as in a file, and the slot of each.
    keys: Vec<RecordKey>,
    slots: Vec<Slot>,
    // The later changes: `None` for a removed text.
    #[allow(clippy::disallowed_types)]
    changed: HashMap<RecordKey, Option<Slot>>,
}

impl Slots {
    /// Returns the slots of texts, given with their ascending keys.
    pub(super) fn sorted(texts: Vec<(RecordKey, Slot)>) -> Self {
        let (keys, slots) = texts.into_iter().unzip();
        Self {
            keys,
            slots,
            ..Self::default()
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entry = size_of::<(RecordKey, Option<Slot>)>() + 1;
        self.keys.capacity() * size_of::<RecordKey>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.changed.capacity() * entry
    }

    pub(super) fn get(&self, key: RecordKey) -> Option<Slot> {
        match self.changed.get(&key) {
            Some(changed) => *changed,
            None => Some(self.slots[self.keys.binary_search(&key).ok()?]),
        }
    }

    pub(super) fn insert(&mut self, key: RecordKey, slot: Slot) {
        self.changed.insert(key, Some(slot));
    }

    pub(super) fn remove(&mut self, key: RecordKey) -> Option<Slot> {
        let found = self.get(key)?;
        match self.keys.binary_search(&key) {
            Ok(_) => self.changed.insert(key, None),
            Err(_) => self.changed.remove(&key),
        };
        Some(found)
    }
}
