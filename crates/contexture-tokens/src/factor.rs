//! [`Factor`]: what estimates are multiplied by.

use contexture_core::Tokens;

/// A factor of at least 1. Scaled counts are rounded up, so that the sum over
/// parts is never less than the count of the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Factor(f64);

impl Factor {
    pub(crate) fn new(factor: f64) -> Self {
        Self(factor.max(1.0))
    }

    pub(crate) fn get(self) -> f64 {
        self.0
    }

    pub(crate) fn scale(self, tokens: Tokens) -> Tokens {
        (tokens as f64 * self.0).ceil() as Tokens
    }

    /// Returns the largest count that is within `limit` scaled.
    pub(crate) fn unscale(self, limit: Tokens) -> Tokens {
        let mut unscaled = (limit as f64 / self.0) as Tokens;
        while unscaled > 0 && self.scale(unscaled) > limit {
            unscaled -= 1;
        }
        unscaled
    }
}
