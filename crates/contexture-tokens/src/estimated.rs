//! [`Estimated`]: a counter for models without a public tokenizer.
//!
//! It multiplies the [estimate](mod@crate::estimate) by a factor per model
//! family. Long texts are estimated in parts, and the sum of the parts is
//! never below the estimate of the whole.

use contexture_core::{TokenCounter, Tokens};

use crate::estimate;

/// The least length of a part that is estimated by itself, in bytes.
const LEAST_PART: usize = 1024;

/// Estimates tokens for a model without a public tokenizer, erring high.
///
/// The [estimate](mod@crate::estimate) is fitted to OpenAI's vocabularies; the
/// factor says how many more tokens this model makes of the same text.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimated {
    name: String,
    factor: f64,
}

impl Estimated {
    /// Returns the factor of the estimate whose name is `name`.
    pub fn factor_of(name: &str) -> Option<f64> {
        match name.strip_prefix("estimate")? {
            "" => Some(1.0),
            factor => factor.strip_prefix(" x")?.parse().ok(),
        }
    }

    /// Returns an estimate that multiplies by `factor`, which is at least 1.
    pub fn new(factor: f64) -> Self {
        let factor = factor.max(1.0);
        Self {
            name: if factor == 1.0 {
                "estimate".to_owned()
            } else {
                format!("estimate x{factor}")
            },
            factor,
        }
    }

    fn scale(&self, tokens: Tokens) -> Tokens {
        (tokens as f64 * self.factor).ceil() as Tokens
    }

    /// Returns the largest unscaled estimate that is within `limit` scaled.
    fn unscale(&self, limit: Tokens) -> Tokens {
        let mut unscaled = (limit as f64 / self.factor) as Tokens;
        while unscaled > 0 && self.scale(unscaled) > limit {
            unscaled -= 1;
        }
        unscaled
    }
}

impl TokenCounter for Estimated {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn count(&self, text: &str) -> Tokens {
        self.scale(estimate::estimate(text))
    }

    fn count_up_to(&self, text: &str, limit: Tokens) -> Option<Tokens> {
        estimate::estimate_up_to(text, self.unscale(limit)).map(|tokens| self.scale(tokens))
    }

    fn prefix_within(&self, text: &str, limit: Tokens) -> usize {
        estimate::prefix_within(text, self.unscale(limit))
    }

    /// Each part costs a few tokens for what stood before it and is not seen,
    /// so parts are kept long enough for that not to matter.
    fn is_seam(&self, before: &str, after: &str) -> bool {
        before.len() >= LEAST_PART && after.len() >= LEAST_PART
    }

    fn sums_are_bounds(&self) -> bool {
        // The estimate of a whole is never more than that of its parts.
        true
    }
}
