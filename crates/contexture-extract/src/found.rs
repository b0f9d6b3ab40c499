//! The matches of rules in a text.

use crate::rules::Find;

/// A match of a rule in the text.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The range of the name without surrounding quotation marks or brackets.
    pub(crate) name: (usize, usize),
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    BuiltIn(Find),
    /// The index of the rule.
    Rule(usize),
    /// A proper name without a sign of its type.
    Name,
    /// `I` or `we`, or `my` in `my wife`.
    Speaker,
    /// A word at the start of a sentence that may be a person.
    Opening,
    /// `He` or `She` at the start of a sentence.
    Pronoun,
}

/// Returns true when a match can have a type: it has the type, or it is a
/// proper name without a certain type.
pub(crate) fn fits(found: &Found, kind: Option<&str>, asked: &str) -> bool {
    let is_name = match found.what {
        What::BuiltIn(find) => find.is_name(),
        What::Name => true,
        _ => false,
    };
    kind == Some(asked) || is_name
}
