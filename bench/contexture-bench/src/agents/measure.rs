//! What is measured of the requests of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::survival::{Facts, Survival};
use super::wire::Wire;

/// How often something happened, by its code.
pub(crate) type ByCode = BTreeMap<String, usize>;

/// Looks at one request after the other.
#[derive(Default)]
pub(crate) struct Meter {
    pub(crate) compactions: usize,
    pub(crate) warnings: ByCode,
    pub(crate) malformed: ByCode,
    pub(crate) cpu_ms: f64,
    /// The most tokens of a request by the engine's own count.
    pub(crate) most_used: u64,
    sizes: Vec<u64>,
    shares: Vec<f64>,
    before: Option<Wire>,
}

impl Meter {
    /// Takes the next request.
    pub(crate) fn sent(&mut self, wire: Wire) {
        self.sizes.push(wire.tokens());
        if let Some(before) = &self.before {
            let (_, bytes) = before.shared(&wire);
            self.shares.push(bytes as f64 / before.bytes() as f64);
        }
        self.before = Some(wire);
    }

    /// Returns the figures, with what the last request still says.
    pub(crate) fn finish(self, facts: &Facts) -> Measured {
        let said = self.before.as_ref().map_or("", |wire| wire.said.as_str());
        Measured {
            requests: self.sizes.len(),
            survival: facts.in_text(said),
            missing: (facts.missing(said).into_iter())
                .map(|(kind, fact)| format!("{kind}: {fact}"))
                .collect(),
            shared: Sum::of(&self.shares),
            tokens: Sum::of(&self.sizes.iter().map(|n| *n as f64).collect::<Vec<_>>()),
            max_tokens: self.sizes.iter().copied().max().unwrap_or(0),
            max_used: self.most_used,
            compactions: self.compactions,
            warnings: self.warnings,
            malformed: self.malformed,
            cpu_ms: self.cpu_ms,
        }
    }
}

/// A sum and the number of its terms.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Sum {
    sum: f64,
    of: usize,
}

impl Sum {
    fn of(values: &[f64]) -> Self {
        Self {
            sum: values.iter().sum(),
            of: values.len(),
        }
    }

    pub(crate) fn mean(self) -> f64 {
        match self.of {
            0 => 0.0,
            of => self.sum / of as f64,
        }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.of += other.of;
    }
}

/// The figures of one run, or the sum of several.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) requests: usize,
    pub(crate) survival: Survival,
    /// The facts that the last request does not contain.
    pub(crate) missing: Vec<String>,
    /// The part of each request that the next one begins with.
    pub(crate) shared: Sum,
    pub(crate) tokens: Sum,
    pub(crate) max_tokens: u64,
    pub(crate) max_used: u64,
    pub(crate) compactions: usize,
    pub(crate) warnings: ByCode,
    pub(crate) malformed: ByCode,
    pub(crate) cpu_ms: f64,
}

impl Measured {
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.survival.add(&other.survival);
        self.shared.add(other.shared);
        self.tokens.add(other.tokens);
        self.max_tokens = self.max_tokens.max(other.max_tokens);
        self.max_used = self.max_used.max(other.max_used);
        self.compactions += other.compactions;
        for (mine, others) in [
            (&mut self.warnings, &other.warnings),
            (&mut self.malformed, &other.malformed),
        ] {
            for (code, count) in others {
                *mine.entry(code.clone()).or_default() += count;
            }
        }
        self.cpu_ms += other.cpu_ms;
    }
}
