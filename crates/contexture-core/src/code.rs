//! Reason codes: stable words that say why a candidate is in a request or not.

use std::fmt;

use serde::{Serialize, Serializer};

/// A stable code for the reason why a candidate is in the request or not.
///
/// The constants are the codes of the engine and the built-in sources. Other
/// sources create their own with [`Code::new`] or [`Code::by_rule`].
///
/// ```
/// use contexture_core::Code;
///
/// const STALE: Code = Code::by_rule("stale_ticket");
/// assert_eq!(STALE.as_str(), "stale_ticket");
/// assert!(STALE.is_by_rule() && !Code::OVER_BUDGET.is_by_rule());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    name: &'static str,
    by_rule: bool,
}

impl Code {
    /// Returns a code for something that a person may want to know of: it was
    /// dropped because the budget is full, or cannot be used.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            by_rule: false,
        }
    }

    /// Returns a code for a candidate that a rule excluded. Such an exclusion
    /// is expected and causes no warning.
    pub const fn by_rule(name: &'static str) -> Self {
        Self {
            name,
            by_rule: true,
        }
    }

    /// Returns the code's name, as reports write it.
    pub const fn as_str(self) -> &'static str {
        self.name
    }

    /// Returns true when a rule left the candidate out.
    pub const fn is_by_rule(self) -> bool {
        self.by_rule
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Code {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ReportCode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A stable code for the reason why a candidate is in the request or \
                            not. Sources can add their own codes.",
            "examples": ["fits", "cut", "over_budget", "near_duplicate"],
        })
    }
}

/// The codes of the engine and the built-in sources.
impl Code {
    /// The item is pinned.
    pub const PINNED: Self = Self::new("pinned");
    /// The item fits whole.
    pub const FITS: Self = Self::new("fits");
    /// A part of the item fits.
    pub const CUT: Self = Self::new("cut");
    /// Only `max_lines` shortened the item.
    pub const LINE_LIMIT: Self = Self::new("line_limit");
    /// The item's own `max_tokens` shortened it.
    pub const TOKEN_LIMIT: Self = Self::new("token_limit");
    /// A later item has the content, and the item names its handle instead.
    pub const CLEARED: Self = Self::new("cleared");
    /// A line of text replaces the medium, because the provider does not accept
    /// so many media or so many bytes.
    pub const MEDIA_LIMIT: Self = Self::new("media_limit");
    /// No room was left for the item.
    pub const OVER_BUDGET: Self = Self::new("over_budget");
    /// The item may not be cut and is larger than everything that is available.
    pub const TOO_LARGE: Self = Self::new("too_large");
    /// A cut would have left too little of the item to be useful.
    pub const BELOW_MINIMUM: Self = Self::new("below_minimum");
    /// Another member of its group is not in the request.
    pub const GROUP_DROPPED: Self = Self::new("group_dropped");
    /// The item is older than what the window holds.
    pub const BEFORE_WINDOW: Self = Self::by_rule("before_window");
    /// The item is in the part of the path that was cut.
    pub const CUT_FROM_PATH: Self = Self::by_rule("cut_from_path");
    /// The row marks where a part of the path was cut.
    pub const MARKER: Self = Self::new("marker");
    /// A summary replaces the item.
    pub const COMPACTED: Self = Self::by_rule("compacted");
    /// The provider accepts nothing of its kind here.
    pub const NOT_FOR_PROVIDER: Self = Self::by_rule("not_for_provider");
    /// The role or its permissions do not allow the item.
    pub const NOT_PERMITTED: Self = Self::by_rule("not_permitted");
    /// A user or program excluded the item.
    pub const EXCLUDED: Self = Self::by_rule("excluded");
    /// A newer item has nearly the same content.
    pub const NEAR_DUPLICATE: Self = Self::by_rule("near_duplicate");
    /// The item was not ready before its deadline.
    pub const DEADLINE: Self = Self::new("deadline");
    /// The file does not exist.
    pub const MISSING: Self = Self::new("missing");
    /// The item is empty.
    pub const EMPTY: Self = Self::new("empty");
    /// The file is not text.
    pub const BINARY: Self = Self::new("binary");
    /// The file is text, but not UTF-8.
    pub const NOT_UTF8: Self = Self::new("not_utf8");
    /// The file is larger than the size limit.
    pub const SIZE_LIMIT: Self = Self::new("size_limit");
    /// The path leads out of the root.
    pub const OUTSIDE_ROOT: Self = Self::new("outside_root");
    /// The path is a directory, a device, a pipe or a socket.
    pub const NOT_A_FILE: Self = Self::new("not_a_file");
    /// The operating system denied reading the item.
    pub const UNREADABLE: Self = Self::new("unreadable");
    /// The file changed while it was read.
    pub const CHANGED: Self = Self::new("changed");
    /// The item is listed already.
    pub const DUPLICATE: Self = Self::new("duplicate");
    /// A pattern matched nothing.
    pub const NO_MATCH: Self = Self::new("no_match");
    /// The requested lines do not exist.
    pub const NO_SUCH_LINES: Self = Self::new("no_such_lines");
}
