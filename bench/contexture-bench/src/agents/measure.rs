//! Measurements of the requests of a run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bill::{Bill, Providers};
use super::survival::{Facts, Survival};
use super::wire::Wire;

/// The seconds between two calls. The provider's cache never expires in between.
pub(crate) const STEP: i64 = 30;

/// How often something happened, by its code.
pub(crate) type ByCode = BTreeMap<String, usize>;

/// Collects the measurements of one request after the other.
#[derive(Default)]
pub(crate) struct Meter {
    pub(crate) compactions: usize,
    pub(crate) warnings: ByCode,
    pub(crate) malformed: ByCode,
    /// CPU time of the engine. None where the engine is not used.
    pub(crate) cpu_ms: Option<f64>,
    /// The most tokens of a request by the engine's own count.
    pub(crate) max_used: u64,
    /// The most tokens that a request may have.
    pub(crate) available: u64,
    pub(crate) providers: Providers,
    sizes: Vec<u64>,
    shares: Vec<f64>,
    before: Option<Wire>,
}

impl Meter {
    /// Adds the next request, sent at a time in seconds.
    pub(crate) fn sent(&mut self, wire: Wire, now: i64) {
        self.sizes.push(wire.tokens());
        let mut partial = None;
        if let Some(before) = &self.before {
            let (blocks, bytes) = before.shared(&wire);
            let whole: usize = (wire.segments[..blocks].iter())
                .map(|segment| segment.text.len())
                .sum();
            self.shares
                .push((whole + bytes) as f64 / before.bytes() as f64);
            partial = (wire.segments.get(blocks))
                .map(|segment| (blocks, bytes as f64 / segment.text.len() as f64));
        }
        self.providers.send(&wire, partial, now);
        self.before = Some(wire);
    }

    /// Returns the figures. `last` is the request after the last call. Survival is
    /// measured on this request; the bill does not include it.
    pub(crate) fn finish(self, last: Option<&Wire>, facts: &Facts) -> Measured {
        let last_text = last.map(Wire::strings).unwrap_or_default();
        let sizes: Vec<f64> = self.sizes.iter().map(|size| *size as f64).collect();
        Measured {
            requests: self.sizes.len(),
            survival: facts.in_text(&last_text),
            missing: (facts.missing(&last_text).into_iter())
                .map(|(kind, fact)| format!("{kind}: {fact}"))
                .collect(),
            shared: Mean::of(&self.shares),
            tokens: Mean::of(&sizes),
            max_tokens: self.sizes.iter().copied().max().unwrap_or(0),
            max_used: self.max_used,
            available: self.available,
            compactions: self.compactions,
            warnings: self.warnings,
            malformed: self.malformed,
            bill: self.providers.bill,
            cpu_ms: self.cpu_ms,
            last_text,
        }
    }
}

/// A sum and the number of its terms.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mean {
    sum: f64,
    of: usize,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        Self {
            sum: values.iter().sum(),
            of: values.len(),
        }
    }

    pub(crate) fn get(self) -> f64 {
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

impl Serialize for Mean {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

/// The figures of one run, or of several together.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) requests: usize,
    pub(crate) survival: Survival,
    /// The facts that the request after the last call does not contain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// The mean part of a request that the next one begins with.
    pub(crate) shared: Mean,
    /// The mean number of tokens of a request.
    pub(crate) tokens: Mean,
    pub(crate) max_tokens: u64,
    /// The most tokens of a request by the engine's own count.
    pub(crate) max_used: u64,
    pub(crate) available: u64,
    pub(crate) compactions: usize,
    pub(crate) warnings: ByCode,
    pub(crate) malformed: ByCode,
    pub(crate) bill: Bill,
    pub(crate) cpu_ms: Option<f64>,
    /// The strings of the request after the last call.
    #[serde(skip)]
    pub(crate) last_text: String,
}

impl Measured {
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.survival.add(&other.survival);
        self.shared.add(other.shared);
        self.tokens.add(other.tokens);
        self.max_tokens = self.max_tokens.max(other.max_tokens);
        self.max_used = self.max_used.max(other.max_used);
        self.available = self.available.max(other.available);
        self.compactions += other.compactions;
        for (mine, others) in [
            (&mut self.warnings, &other.warnings),
            (&mut self.malformed, &other.malformed),
        ] {
            for (code, count) in others {
                *mine.entry(code.clone()).or_default() += count;
            }
        }
        self.bill.add(&other.bill);
        if let Some(time) = other.cpu_ms {
            *self.cpu_ms.get_or_insert(0.0) += time;
        }
    }
}
