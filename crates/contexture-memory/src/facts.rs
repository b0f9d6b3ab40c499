//! Decides which extracted relations still hold.
//!
//! A text that states the end of a relation (`I left Siemens`) is stored as a
//! relation of its own, whose type begins with [`ENDED`]. An extracted relation
//! holds unless a later text states its end. If an entity can have only one
//! such relation, a later text with another one ends it, too. Deleting a text
//! therefore also deletes the end that it stated.
//!
//! Recall returns only relations that hold. A list shows the others with an end
//! of validity.

use std::collections::{BTreeMap, BTreeSet};

use contexture_store::{RecordKey, RelationRecord, RelationSketch};
use jiff::Timestamp;

use crate::admission::Admission;
use crate::view::View;

/// The prefix of the type of an ended relation.
pub(crate) const ENDED: &str = "ended ";

/// Returns the type of a relation that a text mentions.
pub(crate) fn mentioned_type(relation_type: &str, ended: bool) -> String {
    match ended {
        true => format!("{ENDED}{relation_type}"),
        false => relation_type.to_owned(),
    }
}

/// Changes an extracted relation that ended at a time, in Unix milliseconds, so
/// that it is shown as one: it has its plain type and an end of validity.
pub(crate) fn show_end(relation: &mut RelationRecord, end: i64) {
    if let Some(plain) = relation.relation_type.strip_prefix(ENDED) {
        relation.relation_type = plain.to_owned();
    }
    if relation.valid_to.is_none() {
        relation.valid_to = Timestamp::from_millisecond(end).ok();
    }
}

/// The times of the relations that start at one entity.
#[derive(Default)]
struct Outgoing {
    // The latest time at which a text stated the end of a relation, by type and
    // target.
    ended: BTreeMap<(String, RecordKey), i64>,
    // The time and the key of the latest relation of each type.
    latest: BTreeMap<String, (i64, RecordKey)>,
    // The types with several relations.
    several: BTreeSet<String>,
}

/// Decides which relations hold, for one recall.
pub(crate) struct Facts<'a> {
    view: &'a View,
    admission: &'a Admission<'a>,
    // The types of which an entity can have only one.
    single: &'a BTreeSet<String>,
    known: BTreeMap<RecordKey, Outgoing>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(
        view: &'a View,
        admission: &'a Admission<'a>,
        single: &'a BTreeSet<String>,
    ) -> Self {
        Self {
            view,
            admission,
            single,
            known: BTreeMap::new(),
        }
    }

    /// Returns true unless a later text ended a derived relation.
    pub(crate) fn holds(&mut self, key: RecordKey, relation: &RelationSketch) -> bool {
        self.end_of(key, relation).is_none()
    }

    /// Returns the time at which a text ended a derived relation, in Unix
    /// milliseconds; `None` if the relation holds.
    pub(crate) fn end_of(&mut self, key: RecordKey, relation: &RelationSketch) -> Option<i64> {
        let told = self.admission.last_mentioned(relation);
        if relation.relation_type.starts_with(ENDED) {
            return Some(told);
        }
        if relation.derived_from.is_empty() {
            return None;
        }
        let view = self.view;
        let [source, target] =
            [&relation.source_id, &relation.target_id].map(|end| view.entity_at(end));
        let (source, target) = (source?, target?);
        let single = self.single.contains(&relation.relation_type);
        let outgoing = self.outgoing(source);
        let of_type = (relation.relation_type.clone(), target);
        let ended = outgoing.ended.get(&of_type).filter(|end| **end >= told);
        let latest = outgoing.latest.get(&relation.relation_type);
        let replaced = latest.filter(|latest| single && **latest > (told, key));
        ended.copied().or(replaced.map(|(at, _)| *at))
    }

    /// Returns true when a relation contradicts others and is the latest: an
    /// entity can have only one of its type.
    pub(crate) fn is_latest(&mut self, key: RecordKey, relation: &RelationSketch) -> bool {
        if !self.single.contains(&relation.relation_type) {
            return false;
        }
        let Some(source) = self.view.entity_at(&relation.source_id) else {
            return false;
        };
        let outgoing = self.outgoing(source);
        let latest = outgoing.latest.get(&relation.relation_type);
        outgoing.several.contains(&relation.relation_type)
            && latest.is_some_and(|(_, latest)| *latest == key)
    }

    fn outgoing(&mut self, source: RecordKey) -> &Outgoing {
        let (view, admission) = (self.view, self.admission);
        self.known.entry(source).or_insert_with(|| {
            let mut outgoing = Outgoing::default();
            for key in view.relations_of(source) {
                let relation = &view.relations[&key];
                let [from, to] = [&relation.source_id, &relation.target_id];
                let [from, to] = [from, to].map(|end| view.entity_at(end));
                let told = admission.last_mentioned(relation);
                // Statements from after `now` are ignored.
                let known = told <= admission.now && admission.relation(key, relation, [from, to]);
                if from != Some(source) || !known {
                    continue;
                }
                match (relation.relation_type.strip_prefix(ENDED), to) {
                    (Some(of), Some(to)) => {
                        let end = outgoing.ended.entry((of.to_owned(), to)).or_insert(told);
                        *end = told.max(*end);
                    }
                    (Some(_), None) => {}
                    (None, _) => {
                        let of_type = relation.relation_type.clone();
                        match outgoing.latest.get_mut(&of_type) {
                            None => {
                                outgoing.latest.insert(of_type, (told, key));
                            }
                            Some(latest) => {
                                *latest = (told, key).max(*latest);
                                outgoing.several.insert(of_type);
                            }
                        }
                    }
                }
            }
            outgoing
        })
    }
}

#[cfg(test)]
mod tests {
    use contexture_engine::ContextFilters;
    use contexture_recall::Strategy;
    use contexture_store::{Change, EntitySketch, RecordKind, RecordScope, Sketch, TextSketch};

    use super::*;

    const ANA: RecordKey = 1;
    const ROME: RecordKey = 2;
    const LYON: RecordKey = 3;

    fn entity(key: RecordKey, id: &str) -> (RecordKey, Sketch) {
        let sketch = EntitySketch {
            id: id.to_owned(),
            entity_type: String::new(),
            names: vec![id.to_owned()],
            mentions: 1,
            salience: None,
            confidence: 1.0,
            texts: 1,
            given: false,
            valid_from: None,
            valid_to: None,
            owner: RecordScope::default(),
        };
        (key, Sketch::Entity(sketch))
    }

    fn text(key: RecordKey, at: i64) -> (RecordKey, Sketch) {
        let sketch = TextSketch {
            kind: RecordKind::Event,
            event_type: "message".to_owned(),
            session: None,
            task: None,
            speaker: None,
            at,
            index: 0,
            valid_from: None,
            valid_to: None,
            outcome: None,
            words: None,
            vector: None,
            later: None,
            mentions: Vec::new(),
        };
        (key, Sketch::Text(sketch))
    }

    /// A relation that one text states, with the key of the text plus 100.
    fn relation(text: RecordKey, kind: &str, target: &str) -> (RecordKey, Sketch) {
        let sketch = RelationSketch {
            relation_type: kind.to_owned(),
            source_id: "ana".to_owned(),
            target_id: target.to_owned(),
            weight: 1.0,
            derived_from: vec![text],
            at: 0,
            valid_from: None,
            valid_to: None,
            owner: RecordScope::default(),
        };
        (text + 100, Sketch::Relation(sketch))
    }

    /// Returns the ends of relations that texts with the keys 10, 11 and so on
    /// state at the times 0, 1 and so on.
    fn ends(stated: &[(&str, &str)]) -> Vec<Option<i64>> {
        let mut records = vec![
            entity(ANA, "ana"),
            entity(ROME, "rome"),
            entity(LYON, "lyon"),
        ];
        for (i, (kind, target)) in stated.iter().enumerate() {
            let key = 10 + i as RecordKey;
            records.extend([text(key, i as i64), relation(key, kind, target)]);
        }
        let mut view = View::default();
        let changes = records.into_iter().zip(1..);
        let changes = changes.map(|((key, sketch), seq)| Change {
            seq,
            key,
            sketch: Some(sketch),
        });
        view.apply(changes.collect());
        let filters = ContextFilters::default();
        let (strategy, none) = (Strategy::default(), BTreeSet::new());
        let now = Timestamp::from_millisecond(1_000).unwrap_or_default();
        let admission = Admission::new(&view, &filters, none, &strategy, &[], None, now);
        let single = BTreeSet::from(["lives_in".to_owned()]);
        let mut facts = Facts::new(&view, &admission, &single);
        let keys = (0..stated.len()).map(|i| 110 + i as RecordKey);
        keys.map(|key| facts.end_of(key, &view.relations[&key]))
            .collect()
    }

    #[test]
    fn ended_and_replaced_relations_have_an_end() {
        assert_eq!(ends(&[("lives_in", "rome")]), [None]);
        assert_eq!(
            ends(&[("lives_in", "rome"), ("lives_in", "lyon")]),
            [Some(1), None]
        );
        assert_eq!(
            ends(&[("lives_in", "rome"), ("ended lives_in", "rome")]),
            [Some(1), Some(1)]
        );
        assert_eq!(
            ends(&[("visited", "rome"), ("visited", "lyon")]),
            [None, None]
        );
    }

    #[test]
    fn an_ended_relation_is_shown_with_its_plain_type() {
        let mut relation = RelationRecord {
            relation_type: "ended lives_in".to_owned(),
            ..RelationRecord::default()
        };
        show_end(&mut relation, 1_000);
        assert_eq!(relation.relation_type, "lives_in");
        let end = relation.valid_to.map(Timestamp::as_millisecond);
        assert_eq!(end, Some(1_000));
    }
}
