//! Decides which extracted relations still hold.
//!
//! A text that states the end of a relation (`I left Siemens`) is stored as a
//! relation of its own, whose type begins with [`ENDED`]. An extracted relation
//! holds unless a later text states its end. If an entity can have only one
//! such relation, a later text with another one ends it, too. Deleting a text
//! therefore also deletes the end that it stated.

use std::collections::{BTreeMap, BTreeSet};

use contexture_store::{RecordKey, RelationSketch};

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
        if relation.relation_type.starts_with(ENDED) {
            return false;
        }
        if relation.derived_from.is_empty() {
            return true;
        }
        let view = self.view;
        let [source, target] =
            [&relation.source_id, &relation.target_id].map(|end| view.entity_at(end));
        let (Some(source), Some(target)) = (source, target) else {
            return true;
        };
        let told = self.admission.last_mentioned(relation);
        let single = self.single.contains(&relation.relation_type);
        let outgoing = self.outgoing(source);
        let of_type = (relation.relation_type.clone(), target);
        let ended = outgoing.ended.get(&of_type).is_some_and(|end| *end >= told);
        let latest = outgoing.latest.get(&relation.relation_type);
        let replaced = latest.is_some_and(|latest| *latest > (told, key));
        !(ended || (single && replaced))
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
