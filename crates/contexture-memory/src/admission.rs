//! [`Admission`]: which records a recall may return, by filters, validity,
//! permissions and audience.

use std::collections::BTreeSet;

use contexture_recall::{Slot, Strategy};
use contexture_store::{Outcome, RecordKey, RecordKind, RelationSketch};
use jiff::Timestamp;

use crate::config::Permissions;
use crate::form;
use crate::view::{Validity, View};
use contexture_engine::ContextFilters;

/// What may be found: the filters of a request, looked up.
pub(crate) struct Admission<'a> {
    view: &'a View,
    pub(crate) now: i64,
    since: Option<i64>,
    event_types: Option<BTreeSet<u32>>,
    entity_types: Option<&'a [String]>,
    // `Some(None)` when the task is not known, and nothing belongs to it.
    task: Option<Option<u32>>,
    pub(crate) exclude: BTreeSet<RecordKey>,
    failures: bool,
    permissions: Option<&'a Permissions>,
    identity: Vec<u64>,
}

impl<'a> Admission<'a> {
    pub(crate) fn new(
        view: &'a View,
        filters: &'a ContextFilters,
        exclude: BTreeSet<RecordKey>,
        strategy: &Strategy,
        identity: &[String],
        permissions: Option<&'a Permissions>,
        now: Timestamp,
    ) -> Self {
        let symbols = |names: &Vec<String>| names.iter().filter_map(|n| view.symbol(n)).collect();
        Self {
            view,
            now: now.as_millisecond(),
            since: filters.since.map(|since| since.as_millisecond()),
            event_types: filters.event_types.as_ref().map(symbols),
            entity_types: filters.entity_types.as_deref(),
            task: filters.task_id.as_deref().map(|task| view.symbol(task)),
            exclude,
            failures: strategy.include_failures,
            permissions,
            identity: identity.iter().map(|who| form::person(who)).collect(),
        }
    }

    pub(crate) fn text(&self, slot: Slot) -> bool {
        let Some(text) = self.view.text(slot) else {
            return false;
        };
        let is_event = text.kind == RecordKind::Event;
        let of_type = |types: &BTreeSet<u32>| types.contains(&text.event_type);
        let of_task = |task: &Option<u32>| task.is_some() && text.task == *task;
        text.valid.holds(self.now)
            && self.since.is_none_or(|since| text.at >= since)
            && (!is_event || self.event_types.as_ref().is_none_or(of_type))
            && (!is_event || self.task.as_ref().is_none_or(of_task))
            && (self.failures || text.outcome != Some(Outcome::Failure))
            && !self.exclude.contains(&text.key)
            && self.permits(self.view.name_of(text.event_type))
            && (text.audience.is_empty() || text.audience.iter().any(|w| self.identity.contains(w)))
    }

    /// Returns the texts that must not show, not even by their words in the
    /// scores of those beside them: what no longer holds, what is excluded or
    /// not permitted, and what only some may see.
    pub(crate) fn mute(&self) -> Vec<Slot> {
        let view = self.view;
        let mut mute = view.not_holding(self.now);
        mute.extend(view.private());
        mute.extend(self.exclude.iter().filter_map(|key| view.slot(*key)));
        let permissions = self.permissions;
        if permissions.is_some_and(|permissions| !permissions.deny.is_empty()) {
            mute.extend(view.slots_of(|event_type| !self.permits(event_type)));
        }
        mute
    }

    fn permits(&self, event_type: &str) -> bool {
        // Asked of very many texts, and mostly nothing is denied.
        self.permissions.is_none_or(|permissions| {
            permissions.deny.is_empty() || !permissions.denies(&format!("memory:{event_type}"))
        })
    }

    /// Returns when a relation was last told of.
    pub(crate) fn told_at(&self, relation: &RelationSketch) -> i64 {
        let texts = relation.derived_from.iter();
        let texts = texts.filter_map(|key| self.view.text(self.view.slot(*key)?));
        texts.map(|text| text.at).max().unwrap_or(relation.at)
    }

    /// A relation that was not recorded itself may be found when a text that
    /// tells of it may be.
    pub(crate) fn relation(
        &self,
        key: RecordKey,
        relation: &RelationSketch,
        ends: [Option<RecordKey>; 2],
    ) -> bool {
        let told = |text: &RecordKey| self.view.slot(*text).is_some_and(|slot| self.text(slot));
        let derived = &relation.derived_from;
        // An end that nothing else is known of is just a name.
        let may = |end: Option<RecordKey>| match end {
            Some(end) => self.entity(end),
            None => self.entity_types.is_none(),
        };
        Validity::new(relation.valid_from, relation.valid_to).holds(self.now)
            && self
                .since
                .is_none_or(|since| self.told_at(relation) >= since)
            && ends.into_iter().all(may)
            && !self.exclude.contains(&key)
            && (derived.is_empty() || derived.iter().any(told))
    }

    pub(crate) fn entity(&self, key: RecordKey) -> bool {
        let Some(entity) = self.view.entities.get(&key) else {
            return false;
        };
        let of_type = |types: &[String]| types.contains(&entity.entity_type);
        Validity::new(entity.valid_from, entity.valid_to).holds(self.now)
            && self.entity_types.is_none_or(of_type)
            && !self.exclude.contains(&key)
    }
}
