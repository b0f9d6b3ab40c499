//! [`Admission`]: which records a recall may return, by filters, validity,
//! permissions and audience.

use std::collections::BTreeSet;

use contexture_recall::{Slot, Strategy};
use contexture_store::{Outcome, RecordKey, RecordKind, RecordScope, RelationSketch};
use jiff::Timestamp;

use crate::config::Permissions;
use crate::form;
use crate::view::{Validity, View};
use contexture_engine::ContextFilters;

/// The records that a recall may return: the resolved filters of a request.
pub(crate) struct Admission<'a> {
    view: &'a View,
    pub(crate) now: i64,
    since: Option<i64>,
    event_types: Option<BTreeSet<u32>>,
    entity_types: Option<&'a [String]>,
    // `Some(None)` when the task is unknown, so that no record belongs to it.
    task: Option<Option<u32>>,
    session: Option<Option<u32>>,
    // The user, the agent and the source; 0 for any.
    owner: [u64; 3],
    filters: &'a ContextFilters,
    pub(crate) exclude: BTreeSet<RecordKey>,
    failures: bool,
    permissions: Option<&'a Permissions>,
    identity: Vec<u64>,
    // True if no filter of the request excludes a text.
    is_plain: bool,
    // If no filter excludes a text, a bit for each slot whose text needs a
    // check: restricted texts, texts with a limited validity and excluded ones.
    checked: Option<Vec<u64>>,
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
        let owner = [&filters.user, &filters.agent, &filters.source]
            .map(|name| form::name_number(name.as_deref()));
        let is_plain = filters.since.is_none()
            && filters.event_types.is_none()
            && filters.task_id.is_none()
            && filters.session.is_none()
            && owner == [0; 3]
            && strategy.include_failures
            && permissions.is_none_or(|all| all.deny.is_empty());
        Self {
            is_plain,
            checked: is_plain.then(|| checked(view, &exclude)),
            view,
            now: now.as_millisecond(),
            since: filters.since.map(|since| since.as_millisecond()),
            event_types: filters.event_types.as_ref().map(symbols),
            entity_types: filters.entity_types.as_deref(),
            task: filters.task_id.as_deref().map(|task| view.symbol(task)),
            session: filters.session.as_deref().map(|name| view.symbol(name)),
            owner,
            filters,
            exclude,
            failures: strategy.include_failures,
            permissions,
            identity: identity.iter().map(|who| form::person(who)).collect(),
        }
    }

    /// Returns true when the text in a slot may be returned. The index returns
    /// only slots with a text.
    #[inline]
    pub(crate) fn text(&self, slot: Slot) -> bool {
        // Recall checks very many texts. Most need no check, and their data is
        // then not read.
        let is_clear = |bits: &Vec<u64>| {
            let word = bits.get(slot as usize / 64);
            word.is_none_or(|word| word & (1 << (slot % 64)) == 0)
        };
        self.checked.as_ref().is_some_and(is_clear) || self.admits(slot)
    }

    fn admits(&self, slot: Slot) -> bool {
        let text = self.view.text(slot);
        text.is_some_and(|text| text.valid().holds(self.now)) && self.admits_if_valid(slot)
    }

    /// Returns the number of texts that may not be returned only because they
    /// are not valid now: superseded or expired ones, and later ones.
    pub(crate) fn invalid(&self) -> usize {
        let texts = self.view.not_holding(self.now).into_iter();
        texts.filter(|slot| self.admits_if_valid(*slot)).count()
    }

    /// Returns true when the text in a slot may be returned while it is valid.
    fn admits_if_valid(&self, slot: Slot) -> bool {
        let Some(text) = self.view.text(slot) else {
            return false;
        };
        let may_see = || {
            let audience = text.audience();
            audience.is_empty() || audience.iter().any(|who| self.identity.contains(who))
        };
        let is_excluded = || {
            let key = self.view.index.key(slot);
            key.is_some_and(|key| self.exclude.contains(&key))
        };
        if self.is_plain {
            return (self.exclude.is_empty() || !is_excluded()) && may_see();
        }
        let is_event = text.kind == RecordKind::Event;
        let of_type = |types: &BTreeSet<u32>| types.contains(&text.event_type);
        // A chunk without a task belongs to every task.
        let of_task = |task: &Option<u32>| match text.task() {
            None => !is_event,
            own => own == *task,
        };
        let of_session = |session: &Option<u32>| session.is_some() && text.session() == *session;
        let owned = |(asked, own): (&u64, &u64)| *asked == 0 || asked == own;
        self.since.is_none_or(|since| text.at >= since)
            && (!is_event || self.event_types.as_ref().is_none_or(of_type))
            && self.task.as_ref().is_none_or(of_task)
            && self.session.as_ref().is_none_or(of_session)
            && self.owner.iter().zip(&text.owner()).all(owned)
            && (self.failures || text.outcome != Some(Outcome::Failure))
            && !is_excluded()
            && self.permits(self.view.name_of(text.event_type))
            && may_see()
    }

    /// Returns the number of texts that may be returned.
    pub(crate) fn count(&self) -> usize {
        let view = self.view;
        if !self.is_plain {
            let slots = 0..view.index.slots() as Slot;
            return slots.filter(|slot| self.text(*slot)).count();
        }
        // Without filters, only these texts can be rejected.
        let mut some: BTreeSet<Slot> = view.private().chain(view.limited()).collect();
        some.extend(self.exclude.iter().filter_map(|key| view.slot(*key)));
        let hidden = some.into_iter().filter(|slot| !self.text(*slot)).count();
        view.index.len() - hidden
    }

    /// Returns the texts that must not affect the scores of neighbouring texts:
    /// expired, excluded, denied and restricted texts.
    pub(crate) fn mute(&self) -> Vec<Slot> {
        let view = self.view;
        let mut mute = view.not_holding(self.now);
        mute.extend(view.private());
        mute.extend(self.exclude.iter().filter_map(|key| view.slot(*key)));
        // Texts of other owners must not affect scores, either.
        if self.owner != [0; 3] {
            let others = |slot: &Slot| {
                let owned = |(asked, own): (&u64, &u64)| *asked == 0 || asked == own;
                let text = view.text(*slot);
                text.is_some_and(|text| !self.owner.iter().zip(&text.owner()).all(owned))
            };
            mute.extend((0..view.index.slots() as Slot).filter(others));
        }
        let permissions = self.permissions;
        if permissions.is_some_and(|permissions| !permissions.deny.is_empty()) {
            mute.extend(view.slots_of(|event_type| !self.permits(event_type)));
        }
        mute
    }

    fn permits(&self, event_type: &str) -> bool {
        // The check runs for very many texts, and mostly no type is denied.
        self.permissions.is_none_or(|permissions| {
            permissions.deny.is_empty() || !permissions.denies(&format!("memory:{event_type}"))
        })
    }

    /// Returns the time when a relation was last mentioned.
    pub(crate) fn last_mentioned(&self, relation: &RelationSketch) -> i64 {
        let texts = relation.derived_from.iter();
        // Only texts that may be returned count.
        let slots = texts.filter_map(|key| self.view.slot(*key));
        let slots = slots.filter(|slot| self.text(*slot));
        let texts = slots.filter_map(|slot| self.view.text(slot));
        texts.map(|text| text.at).max().unwrap_or(relation.at)
    }

    /// A derived relation may be returned if a text that mentions it may be.
    pub(crate) fn relation(
        &self,
        key: RecordKey,
        relation: &RelationSketch,
        ends: [Option<RecordKey>; 2],
    ) -> bool {
        let told = |text: &RecordKey| self.view.slot(*text).is_some_and(|slot| self.text(slot));
        let derived = &relation.derived_from;
        // An end without an entity is only a name.
        let may = |end: Option<RecordKey>| match end {
            Some(end) => self.entity(end),
            None => self.entity_types.is_none(),
        };
        Validity::new(relation.valid_from, relation.valid_to).holds(self.now)
            && self
                .since
                .is_none_or(|since| self.last_mentioned(relation) >= since)
            && ends.into_iter().all(may)
            && self.is_owned(&relation.owner)
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
            && self.is_owned(&entity.owner)
            && !self.exclude.contains(&key)
    }

    /// Returns true when an entity, a relation or a pattern has the owner of
    /// the filters, or no owner.
    pub(crate) fn is_owned(&self, owner: &RecordScope) -> bool {
        let filters = self.filters;
        let fits = |asked: &Option<String>, own: &Option<String>| {
            asked.is_none() || own.is_none() || asked == own
        };
        fits(&filters.user, &owner.user)
            && fits(&filters.agent, &owner.agent)
            && fits(&filters.session, &owner.session)
            && fits(&filters.task_id, &owner.task)
            && fits(&filters.source, &owner.source)
    }
}

/// Returns a bit for each slot whose text may be rejected without a filter.
fn checked(view: &View, exclude: &BTreeSet<RecordKey>) -> Vec<u64> {
    let excluded = exclude.iter().filter_map(|key| view.slot(*key));
    let mut bits = Vec::new();
    for slot in view.private().chain(view.limited()).chain(excluded) {
        let word = slot as usize / 64;
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] |= 1_u64 << (slot % 64);
    }
    bits
}
