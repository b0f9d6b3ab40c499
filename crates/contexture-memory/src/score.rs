//! A score with the parts it is made of.

use contexture_core::Scores;
use contexture_recall::Strategy;

use crate::time::DAY;

/// How much an event matters when nothing is known.
pub(crate) const EVENT_SALIENCE: f64 = 0.5;

/// What recency weighs when a query asks for it and the strategy leaves it to
/// the query.
const ASKED_RECENCY: f64 = 0.3;

/// How many parts a score has at most, mostly.
const USUAL: usize = 12;

/// A score and what it is made of.
pub(crate) struct Parts {
    weights: [f64; 3],
    pub(crate) score: f64,
    pub(crate) parts: Scores,
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
            parts: Scores::with_capacity(USUAL),
        }
    }

    pub(crate) fn note(&mut self, name: &'static str, value: f64) {
        self.parts.insert(name.into(), value);
    }

    pub(crate) fn weigh(&mut self, recency: f64, relevance: f64, salience: f64) {
        self.note("recency", recency);
        self.note("relevance", relevance);
        self.note("salience", salience);
        let values = [recency, relevance, salience];
        self.score = (self.weights.iter().zip(values))
            .map(|(weight, value)| weight * value)
            .sum();
    }

    pub(crate) fn boost(&mut self, name: &'static str, factor: f64) {
        if factor != 1.0 {
            self.note(name, factor);
            self.score *= factor;
        }
    }
}

/// Returns how recent something is: 1 now or within the next day, a half a day
/// ago. What is dated later is no more recent than what is as far in the past.
pub(crate) fn recency(now: i64, at: i64) -> f64 {
    let age = match now.saturating_sub(at) {
        age if (-DAY..0).contains(&age) => 0.0,
        age => age.saturating_abs() as f64,
    };
    0.5_f64.powf(age / DAY as f64)
}
