//! [`Scaled`]: a counter for models whose tokenizer is not public, but whose
//! counts are known to be a multiple of OpenAI's.

use contexture_core::{TokenCounter, Tokens};

use crate::factor::Factor;
use crate::openai::{Encoding, OpenAi};

/// Estimates tokens as the count of one of OpenAI's vocabularies times a
/// factor.
///
/// It is closer than [`Estimated`](crate::Estimated) for all kinds of text,
/// because two vocabularies of a similar size split a text alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled {
    name: String,
    counter: OpenAi,
    factor: Factor,
}

impl Scaled {
    /// Returns an estimate that multiplies the count of `encoding` by `factor`,
    /// which is at least 1.
    pub fn new(encoding: Encoding, factor: f64) -> Self {
        let factor = Factor::new(factor);
        Self {
            name: format!("{} x{}", encoding.name(), factor.get()),
            counter: OpenAi::new(encoding),
            factor,
        }
    }

    /// Returns the factor of the estimate whose name is `name`, if it is one
    /// over `encoding`.
    pub fn factor_of(encoding: Encoding, name: &str) -> Option<f64> {
        let factor = name.strip_prefix(encoding.name())?;
        factor.strip_prefix(" x")?.parse().ok()
    }
}

impl TokenCounter for Scaled {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn count(&self, text: &str) -> Tokens {
        self.factor.scale(self.counter.count(text))
    }

    fn count_up_to(&self, text: &str, limit: Tokens) -> Option<Tokens> {
        let counted = self.counter.count_up_to(text, self.factor.unscale(limit));
        counted.map(|tokens| self.factor.scale(tokens))
    }

    fn prefix_within(&self, text: &str, limit: Tokens) -> usize {
        self.counter.prefix_within(text, self.factor.unscale(limit))
    }

    fn lower_bound(&self, text: &str) -> Tokens {
        self.factor.scale(self.counter.lower_bound(text))
    }

    fn lower_bound_in_json(&self, json: &str) -> Tokens {
        self.factor.scale(self.counter.lower_bound_in_json(json))
    }

    fn longest_token(&self) -> Option<u64> {
        self.counter.longest_token()
    }

    fn is_seam(&self, before: &str, after: &str) -> bool {
        self.counter.is_seam(before, after)
    }

    fn sums_are_bounds(&self) -> bool {
        // Each part is rounded up.
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_multiples_and_parts_are_bounds() {
        let counter = Scaled::new(Encoding::O200k, 1.25);
        let exact = OpenAi::new(Encoding::O200k);
        let text = "fn main() {\n    println!(\"Hello\");\n}\nLet us count the tokens.\n".repeat(9);
        let tokens = exact.count(&text);
        assert_eq!(
            counter.count(&text),
            (tokens as f64 * 1.25).ceil() as Tokens
        );
        let whole = counter.count(&text);
        assert_eq!(counter.count_up_to(&text, whole), Some(whole));
        assert_eq!(counter.count_up_to(&text, whole - 1), None);
        for limit in 0..whole {
            let prefix = counter.prefix_within(&text, limit);
            assert!(counter.count(&text[..prefix]) <= limit);
        }
        let lines: Tokens = text
            .split_inclusive('\n')
            .map(|line| counter.count(line))
            .sum();
        assert!(lines >= whole);
        assert_eq!(counter.name(), "o200k_base x1.25");
        assert_eq!(
            Scaled::factor_of(Encoding::O200k, counter.name()),
            Some(1.25)
        );
        assert_eq!(Scaled::factor_of(Encoding::O200k, "estimate x1.25"), None);
    }
}
