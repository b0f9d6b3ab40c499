//! [`Error`]: why no request could be assembled.
//!
//! A dropped candidate is not an error but a row of the report. An error means
//! that no request fits at all, for example because pinned items alone exceed
//! the budget.

use std::fmt;

use crate::counts::Tokens;
use crate::cut::grouped;

/// The reason why no request could be assembled.
///
/// Leaving a candidate out is not an error; it is a row of the report. An
/// error means that no request could be made at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
}

/// A pinned item that an over-budget error lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The item's id.
    pub id: String,
    /// The tokens that the item needs, including its tags.
    pub tokens: Tokens,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    PinnedOverBudget {
        needed: Tokens,
        available: Tokens,
        largest: Vec<Piece>,
    },
    ReservesExceedWindow {
        response: Tokens,
        tools: Tokens,
        window: Tokens,
    },
    CountDoesNotSettle {
        counted: Tokens,
        available: Tokens,
    },
}

impl Error {
    pub(crate) fn pinned_over_budget(
        needed: Tokens,
        available: Tokens,
        mut pieces: Vec<Piece>,
    ) -> Self {
        pieces.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.id.cmp(&b.id)));
        pieces.truncate(3);
        Self {
            kind: Kind::PinnedOverBudget {
                needed,
                available,
                largest: pieces,
            },
        }
    }

    pub(crate) fn reserves_exceed_window(response: Tokens, tools: Tokens, window: Tokens) -> Self {
        Self {
            kind: Kind::ReservesExceedWindow {
                response,
                tools,
                window,
            },
        }
    }

    pub(crate) fn count_does_not_settle(counted: Tokens, available: Tokens) -> Self {
        Self {
            kind: Kind::CountDoesNotSettle { counted, available },
        }
    }

    /// Returns true when the pinned items do not fit even on their own.
    pub fn is_over_budget(&self) -> bool {
        matches!(self.kind, Kind::PinnedOverBudget { .. })
    }

    /// Returns the tokens that the pinned items need and the tokens available,
    /// if the pinned items do not fit.
    pub fn over_budget(&self) -> Option<(Tokens, Tokens)> {
        match self.kind {
            Kind::PinnedOverBudget {
                needed, available, ..
            } => Some((needed, available)),
            _ => None,
        }
    }

    /// Returns the largest pinned items when they do not fit.
    pub fn largest(&self) -> &[Piece] {
        match &self.kind {
            Kind::PinnedOverBudget { largest, .. } => largest,
            _ => &[],
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::PinnedOverBudget {
                needed,
                available,
                largest,
            } => {
                write!(
                    f,
                    "pinned items need {needed} tokens but {available} are available (largest:"
                )?;
                for (i, piece) in largest.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma} `{}` {}", piece.id, piece.tokens)?;
                }
                write!(f, ")")
            }
            Kind::ReservesExceedWindow {
                response,
                tools,
                window,
            } => write!(
                f,
                "{} tokens are reserved for the response and {} for tools and instructions, but the window has {} \
                 tokens",
                grouped(*response),
                grouped(*tools),
                grouped(*window)
            ),
            Kind::CountDoesNotSettle { counted, available } => write!(
                f,
                "the rendered request has {counted} tokens but {available} are available, and \
                 dropping more items does not reduce the count with this tokenizer"
            ),
        }
    }
}

impl std::error::Error for Error {}
