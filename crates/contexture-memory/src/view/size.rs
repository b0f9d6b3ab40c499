//! About how much memory a view uses.

use contexture_recall::Slot;
use contexture_store::{EntitySketch, PatternSketch, RecordKey, RecordScope, RelationSketch};

use super::{Rare, Text, View};

/// About the bytes of an allocation beyond its content.
const ALLOCATION: usize = 16;

/// About the bytes of an entry of a map or a set beyond its content: nodes of a
/// tree are two thirds full.
const ENTRY: usize = 16;

impl View {
    /// Returns about how many bytes of memory the view uses.
    ///
    /// The call takes the same time for a view of any size.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let texts = self.texts.capacity() * size_of::<Option<Text>>()
            + self.mentions.capacity() * size_of::<RecordKey>();
        let marked = self.private.len() + self.limited.len() + self.instructions.len();
        let marked = marked * (size_of::<Slot>() + ENTRY + size_of::<Rare>() + ALLOCATION);
        let symbols = self.symbols.names.len() * 2 * (size_of::<Box<str>>() + 40);
        let sessions = self.sessions.len() * 2 * (size_of::<(i64, u32)>() + ENTRY);
        let wordless = self.wordless.len() * (size_of::<RecordKey>() + ENTRY);
        let all = texts
            + marked
            + symbols
            + sessions
            + wordless
            + self.index.memory_bytes()
            + self.slots.memory_bytes()
            + self.times.memory_bytes()
            + self.graph_bytes;
        all as u64
    }
}

fn text(text: &str) -> usize {
    size_of::<String>() + text.len() + ALLOCATION
}

fn scope(scope: &RecordScope) -> usize {
    let texts = [
        &scope.user,
        &scope.agent,
        &scope.session,
        &scope.task,
        &scope.source,
    ];
    texts.into_iter().flatten().map(|name| text(name)).sum()
}

/// Returns about the bytes of an entity, with its entries by id, name and
/// salience.
pub(super) fn entity(entity: &EntitySketch) -> usize {
    let names: usize = entity.names.iter().map(|name| text(name)).sum();
    // A name has a set of keys of its own.
    let sets = entity.names.len() * (ALLOCATION + 128);
    size_of::<EntitySketch>()
        + 4 * ENTRY
        + 2 * text(&entity.id)
        + text(&entity.entity_type)
        + 2 * names
        + sets
        + scope(&entity.owner)
}

/// Returns about the bytes of a relation, with its entries by entity.
pub(super) fn relation(relation: &RelationSketch) -> usize {
    let ends = text(&relation.source_id) + text(&relation.target_id);
    size_of::<RelationSketch>()
        + 5 * ENTRY
        + text(&relation.relation_type)
        + 2 * ends
        + relation.derived_from.len() * size_of::<RecordKey>()
        + scope(&relation.owner)
}

/// Returns about the bytes of a pattern, with the terms of its conditions.
pub(super) fn pattern(pattern: &PatternSketch) -> usize {
    let conditions = pattern.conditions.iter().map(|condition| {
        // A word of five characters has a term of four bytes.
        2 * text(&condition.value) + size_of_val(condition)
    });
    size_of::<PatternSketch>()
        + ENTRY
        + conditions.sum::<usize>()
        + pattern.scope.as_deref().map_or(0, text)
        + scope(&pattern.owner)
}
