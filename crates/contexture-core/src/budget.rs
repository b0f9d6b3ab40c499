//! [`Budget`] and [`Share`]: how many tokens a request has, and how layers
//! divide them.
//!
//! A budget is a window minus reserves for the answer and for tools. A share
//! is a percentage of what remains after pinned items, with an optional
//! minimum and maximum in tokens.

use serde::{Deserialize, Serialize};

use crate::counts::Tokens;
use crate::error::Error;

/// The token budget of a request: the context window and the reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Budget {
    window: Tokens,
    // Invariant: the reserves together are less than `window`, so that
    // `available` is never zero or negative.
    reserve_response: Tokens,
    reserve_tools: Tokens,
}

impl Budget {
    /// Returns a budget of `window` tokens less the two reserves.
    ///
    /// Fails when the reserves leave nothing.
    pub fn new(
        window: Tokens,
        reserve_response: Tokens,
        reserve_tools: Tokens,
    ) -> Result<Self, Error> {
        if reserve_response.saturating_add(reserve_tools) >= window {
            return Err(Error::reserves_exceed_window(
                reserve_response,
                reserve_tools,
                window,
            ));
        }
        Ok(Self {
            window,
            reserve_response,
            reserve_tools,
        })
    }

    /// Returns the whole window.
    pub fn window(&self) -> Tokens {
        self.window
    }

    /// Returns the tokens reserved for the response and for tools together.
    pub fn reserved(&self) -> Tokens {
        self.reserve_response + self.reserve_tools
    }

    /// Returns the tokens reserved for the response.
    pub fn reserve_response(&self) -> Tokens {
        self.reserve_response
    }

    /// Returns the tokens reserved for tools.
    pub fn reserve_tools(&self) -> Tokens {
        self.reserve_tools
    }

    /// Returns the tokens available to the request: the window minus the
    /// reserves.
    pub fn available(&self) -> Tokens {
        self.window - self.reserved()
    }
}

/// A layer's part of the budget.
///
/// Pinned items are charged before any share is given. A layer without a
/// percentage gets nothing of its own beyond `min`, but still takes part when
/// what others leave is passed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Tokens the layer gets in any case, as long as they exist.
    #[serde(default)]
    pub min: Tokens,
    /// The share in percent of the available tokens.
    #[serde(default)]
    pub percent: f64,
    /// Tokens the layer never exceeds, pass-on included.
    #[serde(default)]
    pub max: Option<Tokens>,
}

impl Share {
    /// Returns the layer's target out of `available` tokens.
    pub(crate) fn target(&self, available: Tokens) -> Tokens {
        // Truncation is wanted: shares that add up to 100 never exceed the whole.
        let share = (available as f64 * self.percent / 100.0) as Tokens;
        self.cap(share.max(self.min))
    }

    /// Returns `tokens`, or `max` when that is less.
    pub(crate) fn cap(&self, tokens: Tokens) -> Tokens {
        self.max.map_or(tokens, |max| tokens.min(max))
    }
}
