//! [`Estimated`]: a counter for models without a public tokenizer.
//!
//! It multiplies the [estimate](mod@crate::estimate) by a factor per model
//! family. Long texts are estimated in parts, and the sum of the parts is
//! never below the estimate of the whole.

use contexture_core::{TokenCounter, Tokens};

use crate::estimate;
use crate::factor::Factor;

/// The least length of a part that is estimated by itself, in bytes.
const LEAST_PART: usize = 1024;

/// Estimates tokens for a model without a public tokenizer, rather too high
/// than too low.
///
/// The [estimate](mod@crate::estimate) is fitted to OpenAI's vocabularies; the
/// factor is the ratio of this model's tokens to theirs for the same text.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimated {
    name: String,
    factor: Factor,
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
        let factor = Factor::new(factor);
        Self {
            name: if factor.get() == 1.0 {
                "estimate".to_owned()
            } else {
                format!("estimate x{}", factor.get())
            },
            factor,
        }
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
        self.factor.scale(estimate::estimate(text))
    }

    fn count_up_to(&self, text: &str, limit: Tokens) -> Option<Tokens> {
        estimate::estimate_up_to(text, self.factor.unscale(limit))
            .map(|tokens| self.factor.scale(tokens))
    }

    fn prefix_within(&self, text: &str, limit: Tokens) -> usize {
        estimate::prefix_within(text, self.factor.unscale(limit))
    }

    /// Each part costs a few tokens because the text before it is not seen, so
    /// parts are long enough for that not to matter.
    fn is_seam(&self, before: &str, after: &str) -> bool {
        before.len() >= LEAST_PART && after.len() >= LEAST_PART
    }

    fn sums_are_bounds(&self) -> bool {
        // The estimate of a whole is never more than that of its parts.
        true
    }
}
