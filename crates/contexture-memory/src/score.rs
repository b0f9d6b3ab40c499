//! A score and its parts.

use contexture_core::Scores;
use contexture_recall::Strategy;
use smallvec::SmallVec;

use crate::time::DAY;

/// The default salience of an event.
pub(crate) const EVENT_SALIENCE: f64 = 0.5;

/// The weight of recency when a query asks for it and the strategy does not set
/// one.
const ASKED_RECENCY: f64 = 0.3;

/// The usual maximum number of parts of a score.
const USUAL: usize = 10;

macro_rules! parts {
    ($($part:ident $name:literal,)*) => {
        /// A part of a score, in the order of the names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Part {
            $($part,)*
        }

        impl Part {
            /// The name of each part.
            const NAMES: &[&str] = &[$($name,)*];
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
pub(crate) struct ScoreParts {
    // A bit for each part that the score has.
    set: u32,
    // The values of these parts, in the order of the parts.
    values: SmallVec<[f64; USUAL]>,
}

impl ScoreParts {
    /// Returns the index of the value of a part. If the score does not have the
    /// part, returns the index where the value belongs.
    fn place(&self, part: Part) -> usize {
        (self.set & ((1 << part as u32) - 1)).count_ones() as usize
    }

    fn has(&self, part: Part) -> bool {
        self.set & 1 << part as u32 != 0
    }

    /// Adds a part, which the score must not have yet.
    pub(crate) fn add(&mut self, part: Part, value: f64) {
        debug_assert!(!self.has(part));
        self.values.insert(self.place(part), value);
        self.set |= 1 << part as u32;
    }

    /// Returns a part.
    pub(crate) fn get(&self, part: Part) -> Option<f64> {
        self.has(part).then(|| self.values[self.place(part)])
    }

    /// Removes a part, and returns it.
    pub(crate) fn remove(&mut self, part: Part) -> Option<f64> {
        self.has(part).then(|| {
            self.set &= !(1 << part as u32);
            self.values.remove(self.place(part))
        })
    }

    /// Changes a part, if the score has it.
    pub(crate) fn change(&mut self, part: Part, by: f64) {
        if self.has(part) {
            let place = self.place(part);
            self.values[place] += by;
        }
    }

    /// Returns the parts by name, with one more part if it is given.
    pub(crate) fn named(&self, more: Option<(Part, f64)>) -> Scores {
        let with_more;
        let parts = match more {
            Some((part, value)) => {
                let mut parts = self.clone();
                parts.add(part, value);
                with_more = parts;
                &with_more
            }
            None => self,
        };
        // The parts are in the order of their names.
        Scores::listed(Part::NAMES, parts.set, &parts.values)
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
            parts: ScoreParts::default(),
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
        assert!(Part::NAMES.is_sorted());
        assert!(Part::NAMES.len() <= 32);
        let mut parts = ScoreParts::default();
        parts.add(Part::Words, 0.5);
        parts.add(Part::Asks, -0.1);
        let named = parts.named(Some((Part::Matched, 2.0)));
        let named: Vec<(&str, f64)> = named.iter().collect();
        assert_eq!(named, [("asks", -0.1), ("matched", 2.0), ("words", 0.5)]);
        parts.change(Part::Words, 1.0);
        parts.change(Part::Run, 1.0);
        assert_eq!(
            (parts.get(Part::Words), parts.get(Part::Run)),
            (Some(1.5), None)
        );
        assert_eq!(
            (parts.remove(Part::Asks), parts.remove(Part::Run)),
            (Some(-0.1), None)
        );
        let named = parts.named(None);
        let named: Vec<(&str, f64)> = named.iter().collect();
        assert_eq!(named, [("words", 1.5)]);
    }
}
