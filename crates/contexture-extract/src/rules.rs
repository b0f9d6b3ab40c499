//! The extraction rules as data, and their checks.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// The maximum size of a custom regular expression, in bytes.
pub const MOST_PATTERN: usize = 1000;

/// The extraction rules, as data from an archetype's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// The rules for entities. If two rules match the same place, the first one
    /// counts; proper names come last.
    pub entities: Vec<EntityRule>,
    /// The rules for relations.
    pub relations: Vec<RelationRule>,
    /// The maximum number of keywords; 0 extracts none.
    pub keywords: usize,
}

/// A rule that finds entities of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntityRule {
    /// The type of the entities that are found.
    #[serde(rename = "type")]
    pub kind: String,
    /// The built-in detector. A rule has either this or a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
    /// A regular expression. The name is the match of its first group, or the
    /// whole match if it has no group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// The built-in detectors of entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Find {
    /// Proper names with a sign of a person: a common first name, a title, a
    /// kinship before it or a verb of speech after it.
    Person,
    /// Proper names after `in`, `near` or `moved to`, and well-known places.
    Place,
    /// Proper names after `works at` and such, well-known companies, and names that
    /// end with `Inc`, `University` or such.
    Organization,
    /// Paths and names of files.
    File,
    /// Functions that are called or defined: `parse()`, `fn parse`.
    Function,
    /// Identifiers in code form: `parse_http`, `parseHttp`, `http::parse`, and
    /// text in backticks.
    Symbol,
    /// Errors by their type or code: `TypeError`, `E0308`, `ENOENT`, a panic.
    Error,
    /// Web addresses.
    Url,
    /// Email addresses.
    Email,
    /// Dates: `2023-05-08`, `8 May 2023`, `May 8`.
    Date,
    /// Titles between quotation marks.
    Quoted,
    /// Numbers of issues and tickets: `#123`, `OPS-12`.
    NumberId,
    /// `#topics`.
    Hashtag,
}

impl Find {
    /// All detectors with their names.
    pub const ALL: &[(&str, Find)] = &[
        ("person", Find::Person),
        ("place", Find::Place),
        ("organization", Find::Organization),
        ("file", Find::File),
        ("function", Find::Function),
        ("symbol", Find::Symbol),
        ("error", Find::Error),
        ("url", Find::Url),
        ("email", Find::Email),
        ("date", Find::Date),
        ("quoted", Find::Quoted),
        ("number_id", Find::NumberId),
        ("hashtag", Find::Hashtag),
    ];

    pub(crate) fn is_name(self) -> bool {
        matches!(self, Find::Person | Find::Place | Find::Organization)
    }
}

/// A rule that relates two entities of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationRule {
    /// The type of the relation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The type of the source entity.
    pub from: String,
    /// The type of the target entity.
    pub to: String,
    /// The phrases between the two entities, such as `works at`. A proper name
    /// in either position is assumed to have the required type. Without
    /// phrases, two entities in the same sentence are enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<String>,
    /// The phrases between the two entities that end the relation, such as
    /// `left`, or state it for the past only, such as `lived in`. A phrase after
    /// `no longer` or `does not` ends the relation, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<String>,
    /// Whether an entity has at most one such relation. A new one then ends the
    /// old one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single: bool,
}

/// An error in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The field with the error, such as `pattern`.
    pub field: &'static str,
    /// The description of the error.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for RuleError {}

fn wrong<T>(field: &'static str, message: impl Into<String>) -> Result<T, RuleError> {
    Err(RuleError {
        field,
        message: message.into(),
    })
}

impl EntityRule {
    /// Checks the rule: it has either a detector or a valid pattern.
    pub fn check(&self) -> Result<(), RuleError> {
        self.compile().map(|_| ())
    }

    pub(crate) fn compile(&self) -> Result<Matcher, RuleError> {
        if self.kind.trim().is_empty() {
            return wrong("type", "must not be empty");
        }
        match (self.find, &self.pattern) {
            (Some(find), None) => Ok(Matcher::BuiltIn(find)),
            (None, Some(pattern)) => {
                if pattern.len() > MOST_PATTERN {
                    let length = pattern.len();
                    let message = format!("has {length} bytes, more than {MOST_PATTERN}");
                    return wrong("pattern", message);
                }
                let regex = RegexBuilder::new(pattern)
                    .size_limit(1 << 20)
                    .dfa_size_limit(1 << 20)
                    .nest_limit(32)
                    .build();
                match regex {
                    Ok(regex) => Ok(Matcher::Pattern(regex)),
                    Err(error) => {
                        // The last line has the reason; the others draw the
                        // position.
                        let error = error.to_string();
                        let said = error.lines().last().unwrap_or_default();
                        let said = said.trim().trim_start_matches("error: ");
                        wrong("pattern", format!("is no regular expression: {said}"))
                    }
                }
            }
            (Some(_), Some(_)) => wrong("pattern", "cannot be combined with `find`"),
            (None, None) => wrong("find", "is missing, and so is `pattern`"),
        }
    }
}

pub(crate) enum Matcher {
    BuiltIn(Find),
    Pattern(Regex),
}
