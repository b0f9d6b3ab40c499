//! A score and its parts.

use contexture_core::Scores;
use contexture_recall::Strategy;

use crate::time::DAY;

/// The default salience of an event.
pub(crate) const EVENT_SALIENCE: f64 = 0.5;

/// The weight of recency when a query asks for it and the strategy does not set
/// one.
const ASKED_RECENCY: f64 = 0.3;

/// The usual maximum number of parts of a score, and a number that is larger than
/// that of all parts.
const USUAL: usize = 12;
const MOST: usize = 32;

macro_rules! parts {
    ($($part:ident $name:literal,)*) => {
        /// A part of a score, in the order of the names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Part {
            $($part,)*
        }

        impl Part {
            fn name(self) -> &'static str {
                match self {
                    $(Part::$part => $name,)*
                }
            }

            #[cfg(test)]
            const ALL: &[Part] = &[$(Part::$part,)*];
        }
    };
}

parts! {
    Asks "asks",
    Bonus "bonus",
    BoostFresh "boost_fresh",
    BoostIntent "boost_intent",
    BoostKeywords "boost_keywords",
    BoostMentioned "boost_mentioned",
    BoostNewest "boost_newest",
    BoostOrder "boost_order",
    BoostOutcome "boost_outcome",
    BoostSpeaker "boost_speaker",
    Confidence "confidence",
    Depth "depth",
    Instruction "instruction",
    Length "length",
    Matched "matched",
    New "new",
    Recency "recency",
    Relevance "relevance",
    Run "run",
    Salience "salience",
    Series "series",
    Session "session",
    Success "success",
    Trigger "trigger",
    Vector "vector",
    VectorWeight "vector_weight",
    Weight "weight",
    Words "words",
}

/// The parts of a score. Names are looked up only for the records
/// that are shown or listed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScoreParts(Vec<(Part, f64)>);

impl ScoreParts {
    /// Adds a part, which the score must not have yet.
    pub(crate) fn add(&mut self, part: Part, value: f64) {
        debug_assert!(self.0.iter().all(|(other, _)| *other != part));
        self.0.push((part, value));
    }

    /// Returns a part.
    pub(crate) fn get(&self, part: Part) -> Option<f64> {
        let found = self.0.iter().find(|(other, _)| *other == part);
        found.map(|(_, value)| *value)
    }

    /// Removes a part, and returns it.
    pub(crate) fn remove(&mut self, part: Part) -> Option<f64> {
        let at = self.0.iter().position(|(other, _)| *other == part)?;
        Some(self.0.remove(at).1)
    }

    /// Changes a part, if the score has it.
    pub(crate) fn change(&mut self, part: Part, by: f64) {
        for (_, value) in self.0.iter_mut().filter(|(other, _)| *other == part) {
            *value += by;
        }
    }

    /// Returns the parts by name, and adds `more`.
    pub(crate) fn named(&self, more: impl Iterator<Item = (Part, f64)>) -> Scores {
        // The parts of hundreds of records are sorted here, without an allocation
        // for each.
        let mut parts = [(Part::Asks, 0.0); MOST];
        let mut count = 0;
        for (to, part) in parts.iter_mut().zip(self.0.iter().copied().chain(more)) {
            *to = part;
            count += 1;
        }
        let parts = &mut parts[..count];
        parts.sort_unstable_by_key(|(part, _)| *part);
        let named = parts.iter().map(|(part, value)| (part.name(), *value));
        named.collect()
    }
}

/// A score and its parts.
pub(crate) struct Parts {
    weights: [f64; 3],
    pub(crate) score: f64,
    pub(crate) parts: ScoreParts,
}

impl Parts {
    pub(crate) fn new(strategy: &Strategy, asked: bool) -> Self {
        let recency = match (strategy.recency_only_when_asked, asked) {
            (true, true) => strategy.recency_weight.max(ASKED_RECENCY),
            (true, false) => 0.0,
            (false, _) => strategy.recency_weight,
        };
        Self {
            weights: [recency, strategy.relevance_weight, strategy.salience_weight],
            score: 0.0,
            parts: ScoreParts(Vec::with_capacity(USUAL)),
        }
    }

    pub(crate) fn note(&mut self, part: Part, value: f64) {
        self.parts.add(part, value);
    }

    pub(crate) fn weigh(&mut self, recency: f64, relevance: f64, salience: f64) {
        self.note(Part::Recency, recency);
        self.note(Part::Relevance, relevance);
        self.note(Part::Salience, salience);
        let values = [recency, relevance, salience];
        self.score = (self.weights.iter().zip(values))
            .map(|(weight, value)| weight * value)
            .sum();
    }

    pub(crate) fn boost(&mut self, part: Part, factor: f64) {
        if factor != 1.0 {
            self.note(part, factor);
            self.score *= factor;
        }
    }
}

/// Returns the recency of a time: 1 for now and for the next day, 0.5 for one
/// day ago. A later time counts like a time as far in the past.
pub(crate) fn recency(now: i64, at: i64) -> f64 {
    let age = match now.saturating_sub(at) {
        age if (-DAY..0).contains(&age) => 0.0,
        age => age.saturating_abs() as f64,
    };
    0.5_f64.powf(age / DAY as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_the_order_of_their_names() {
        let names: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
        assert!(names.is_sorted());
        assert!(names.len() <= MOST);
        let mut parts = ScoreParts::default();
        parts.add(Part::Words, 0.5);
        parts.add(Part::Asks, -0.1);
        let named = parts.named([(Part::Matched, 2.0)].into_iter());
        let named: Vec<(&str, f64)> = named.iter().collect();
        assert_eq!(named, [("asks", -0.1), ("matched", 2.0), ("words", 0.5)]);
    }
}
