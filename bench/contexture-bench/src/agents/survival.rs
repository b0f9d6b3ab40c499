//! Measures which facts of a run a request still contains: the goal, errors,
//! paths of files, and the user's constraints.
//!
//! The definitions are those of `survival.py` beside the traces. A fact has
//! survived if the request contains it literally.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use contexture::store::{Block, Message, MessageContent};
use regex::Regex;
use serde::Serialize;

use super::trace::Trace;

/// How many facts there are, and how many of them were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    pub(crate) found: usize,
    pub(crate) of: usize,
}

impl Found {
    fn new(facts: &BTreeSet<String>, text: &str) -> Self {
        let facts = facts.iter().filter(|fact| !fact.is_empty());
        let mut it = Self::default();
        for fact in facts {
            it.of += 1;
            it.found += usize::from(text.contains(fact.as_str()));
        }
        it
    }

    /// Returns the share of the facts that were found, if there are any.
    pub(crate) fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.found as f64 / self.of as f64)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.found += other.found;
        self.of += other.of;
    }
}

/// The facts of a run that a request still contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Survival {
    /// Paths, numbers and names of the latest user message.
    pub(crate) goal: Found,
    /// The last error line of each tool result that is an error.
    pub(crate) errors: Found,
    /// Paths in the arguments of tool calls.
    pub(crate) paths: Found,
    /// Sentences of the user with words such as "must" and "never".
    pub(crate) constraints: Found,
}

impl Survival {
    pub(crate) fn add(&mut self, other: &Self) {
        self.goal.add(other.goal);
        self.errors.add(other.errors);
        self.paths.add(other.paths);
        self.constraints.add(other.constraints);
    }
}

/// The facts of a run that an agent must not forget.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) goal: BTreeSet<String>,
    pub(crate) errors: BTreeSet<String>,
    pub(crate) paths: BTreeSet<String>,
    pub(crate) constraints: BTreeSet<String>,
}

impl Facts {
    /// Collects the facts of a run after `made` calls of the model.
    pub(crate) fn of(trace: &Trace, made: usize) -> Self {
        let mut facts = Self::default();
        let users: Vec<String> = (trace.calls.iter().take(made + 1))
            .filter_map(super::trace::Call::asked)
            .collect();
        if let Some(last) = users.last() {
            for pattern in [&*PATH, &*NUMBER, &*NAME] {
                let found = pattern.find_iter(last).map(|it| it.as_str().to_owned());
                facts.goal.extend(found);
            }
        }
        for call in trace.calls.iter().take(made) {
            let failed = call.results().iter().filter(|message| message.is_error);
            facts.errors.extend(failed.map(error_line));
            for block in call.blocks() {
                if let Block::ToolCall { arguments, .. } = block {
                    facts.paths.extend(path_argument(arguments));
                }
            }
        }
        for user in &users {
            for sentence in sentences(user) {
                let length = sentence.chars().count();
                if RULE.is_match(sentence) && 20 < length && length < 300 {
                    facts.constraints.insert(sentence.trim().to_owned());
                }
            }
        }
        facts
    }

    /// Counts the facts that `text` contains.
    pub(crate) fn in_text(&self, text: &str) -> Survival {
        Survival {
            goal: Found::new(&self.goal, text),
            errors: Found::new(&self.errors, text),
            paths: Found::new(&self.paths, text),
            constraints: Found::new(&self.constraints, text),
        }
    }

    /// Returns the facts that `text` does not contain, by kind.
    pub(crate) fn missing<'a>(&'a self, text: &str) -> Vec<(&'static str, &'a str)> {
        let kinds = [
            ("goal", &self.goal),
            ("error", &self.errors),
            ("path", &self.paths),
            ("constraint", &self.constraints),
        ];
        let mut missing = Vec::new();
        for (kind, facts) in kinds {
            let facts = facts.iter().filter(|fact| !text.contains(fact.as_str()));
            missing.extend(facts.map(|fact| (kind, fact.as_str())));
        }
        missing
    }
}

#[allow(clippy::expect_used)] // The patterns are constants.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

static PATH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:/|\b)[\w.\-]+(?:/[\w.\-]+)+\.\w{1,5}\b|\b[\w\-]+\.(?:py|ts|tsx|js|rs|md|json|toml|yml|yaml|html|css)\b",
    )
});
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b\d[\d,.:\-]{1,}\b"));
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b[a-z]+(?:_[a-z0-9]+)+\b|\b[a-z]+[A-Z]\w+\b|\b[A-Z]{2,}[A-Z0-9]{2,}\b")
});
static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?m)^.*(?:Error|ERROR|error:|Exception|FAILED|fatal:|not found|No such file).*$")
});
static RULE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(must|never|don't|do not|always|should not|shouldn't|only|make sure|ensure|i want|need to)\b",
    )
});

/// Returns the last line of a failed tool's answer that names an error, or else
/// its first line; 80 characters of it at most.
fn error_line(message: &Message) -> String {
    let content = text_of(message);
    let start = match content.char_indices().nth(20_000) {
        Some((end, _)) => &content[..end],
        None => &content,
    };
    let line = match ERROR.find_iter(start).last() {
        Some(line) => line.as_str(),
        None => content.trim().split('\n').next().unwrap_or_default(),
    };
    line.trim().chars().take(80).collect()
}

fn text_of(message: &Message) -> String {
    let blocks = message.content.blocks();
    let texts = blocks.iter().filter_map(|block| match &**block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    match &message.content {
        MessageContent::Text(text) => text.clone(),
        MessageContent::Blocks(_) => texts.collect::<Vec<_>>().join("\n"),
    }
}

fn path_argument(arguments: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    // As in Python: an empty value counts as missing.
    let empty = |value: &&Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    };
    let path = arguments.get("path").filter(|value| !empty(value));
    let path = path.or_else(|| arguments.get("file_path"))?;
    path.as_str().map(str::to_owned)
}

/// Splits a text after each `.`, `!`, `?` or line break that white space
/// follows. The white space belongs to no sentence.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut before = None;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() && matches!(before, Some('.' | '!' | '?' | '\n')) {
            sentences.push(&text[start..at]);
            at = text.len() - text[at..].trim_start().len();
            start = at;
            before = text[..at].chars().next_back();
            continue;
        }
        before = Some(c);
        at += c.len_utf8();
    }
    sentences.push(&text[start..]);
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = include_str!("small.json");
    const TEXT: &str = "Never touch src/lib.rs, please. README.md 12:30 docs/Ünïcode.md \
        src/parser.rs Command aborted\ncat: docs/Ünïcode.md: No such file or directory \
        TypeError: a line that is a good deal longer than the eighty characters of it that are c \
        maxRetries";

    fn found(survival: Survival) -> [(usize, usize); 4] {
        let Survival {
            goal,
            errors,
            paths,
            constraints,
        } = survival;
        [goal, errors, paths, constraints].map(|it| (it.found, it.of))
    }

    /// The expected numbers are what `survival.py` returns for the same trace
    /// and text: (0.25, 4), (1.0, 1), (1.0, 2), (0.333, 3) after one call.
    #[test]
    fn the_same_numbers_as_in_python() -> Result<(), Box<dyn std::error::Error>> {
        let trace: Trace = serde_json::from_str(SMALL)?;
        let after = |trace: &Trace, made| found(Facts::of(trace, made).in_text(TEXT));
        assert_eq!(after(&trace, 1), [(1, 4), (1, 1), (2, 2), (1, 3)]);
        assert_eq!(after(&trace, 3), [(4, 6), (3, 3), (2, 2), (1, 4)]);
        assert_eq!(after(&trace, 4), [(4, 6), (3, 3), (2, 4), (1, 4)]);
        let one = trace.one_question()?;
        assert_eq!(one.calls.len(), 2);
        assert_eq!(after(&one, 2), [(1, 4), (3, 3), (2, 2), (1, 3)]);
        Ok(())
    }

    #[test]
    fn what_is_missing_is_named() -> Result<(), Box<dyn std::error::Error>> {
        let trace: Trace = serde_json::from_str(SMALL)?;
        let facts = Facts::of(&trace, 4);
        let missing = facts.missing(TEXT);
        assert!(missing.contains(&("path", "a/c.toml")), "{missing:?}");
        assert!(missing.contains(&("goal", "HTTP2")), "{missing:?}");
        assert_eq!(missing.len(), 2 + 2 + 3);
        Ok(())
    }

    #[test]
    fn sentences_end_where_white_space_follows() {
        assert_eq!(
            sentences("One.  Two? v1.5 is\n\nthree! "),
            ["One.", "Two?", "v1.5 is\n", "three!", ""]
        );
    }
}
