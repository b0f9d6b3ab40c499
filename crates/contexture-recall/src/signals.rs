//! Extracts signals from a query: its intent, and whether it asks for recent
//! records.
//!
//! Signals are matched by whole words (`prefix` does not match `fix`), and only
//! in the first [`MOST_WORDS`] words: a longer text is a document, not a query.

/// The maximum number of words of a query that are analysed.
pub const MOST_WORDS: usize = 512;

/// The intent of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "QueryIntent"))]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// The query asks for information.
    Question,
    /// The query asks for something to be done.
    Action,
    /// The query reports something broken.
    Fix,
    /// The query asks for an explanation.
    Explain,
    /// None of the above.
    #[default]
    Other,
}

impl Intent {
    /// Returns the intent's serialised name.
    pub fn as_str(self) -> &'static str {
        match self {
            Intent::Question => "question",
            Intent::Action => "action",
            Intent::Fix => "fix",
            Intent::Explain => "explain",
            Intent::Other => "other",
        }
    }
}

const FIX: &[&str] = &[
    "fix",
    "fixes",
    "fixed",
    "fixing",
    "error",
    "errors",
    "bug",
    "bugs",
    "buggy",
    "debug",
    "debugging",
    "crash",
    "crashes",
    "crashed",
    "crashing",
    "broken",
    "exception",
    "exceptions",
    "traceback",
    "panics",
    "panicked",
    "fails",
    "failing",
    "regression",
    "not working",
    "does not work",
    "doesn't work",
    "stack trace",
    "won't compile",
    "won't start",
];

const EXPLAIN: &[&str] = &[
    "explain",
    "explains",
    "explained",
    "explanation",
    "clarify",
    "how does",
    "how do",
    "what is",
    "what's",
    "what are",
    "what does",
    "why does",
    "why do",
    "why is",
    "why are",
    "describe",
    "understand",
    "tell me about",
    "walk me through",
    "meaning of",
];

const QUESTION: &[&str] = &[
    "who", "whom", "whose", "what", "when", "where", "which", "why", "how", "is", "are", "was",
    "were", "do", "does", "did", "can", "could", "will", "would", "should", "has", "have", "had",
    "who's", "where's", "when's", "how's",
];

/// Polite words before the requested action.
const POLITE: &[&str] = &[
    "please",
    "can you",
    "could you",
    "would you",
    "let's",
    "now",
    "then",
];

const ACTION: &[&str] = &[
    "add",
    "apply",
    "build",
    "bump",
    "change",
    "check",
    "clean",
    "commit",
    "configure",
    "convert",
    "copy",
    "create",
    "delete",
    "deploy",
    "disable",
    "do",
    "document",
    "download",
    "draft",
    "edit",
    "enable",
    "export",
    "extract",
    "format",
    "generate",
    "implement",
    "import",
    "improve",
    "install",
    "integrate",
    "make",
    "merge",
    "migrate",
    "move",
    "open",
    "optimise",
    "optimize",
    "plan",
    "prepare",
    "publish",
    "push",
    "refactor",
    "release",
    "remind",
    "remove",
    "rename",
    "replace",
    "reset",
    "restart",
    "revert",
    "rewrite",
    "run",
    "save",
    "schedule",
    "send",
    "set",
    "simplify",
    "split",
    "start",
    "stop",
    "summarise",
    "summarize",
    "test",
    "translate",
    "try",
    "turn",
    "undo",
    "update",
    "upgrade",
    "use",
    "write",
];

const RECENT: &[&str] = &[
    "latest",
    "newest",
    "most recent",
    "most recently",
    "recent",
    "recently",
    "just now",
    "right now",
    "at the moment",
    "today",
    "tonight",
    "yesterday",
    "this morning",
    "this week",
    "last time",
    "last message",
    "last change",
    "last error",
    "last commit",
    "last run",
    "last session",
    "last one",
    "last thing",
    "last night",
    "lately",
    "currently",
    "current",
    "these days",
    "a moment ago",
    "a minute ago",
    "minutes ago",
    "hours ago",
    "so far",
];

/// Returns the intent of `query`.
///
/// A report of something broken has priority over a request for an explanation.
/// A polite request to do something is not a question.
pub fn detect_intent(query: &str) -> Intent {
    let words = Lowered::of(query);
    if words.has_any(FIX) {
        return Intent::Fix;
    }
    if words.has_any(EXPLAIN) {
        return Intent::Explain;
    }
    if words.begins_with_action() {
        return Intent::Action;
    }
    let marked = query
        .chars()
        .take(MOST_WORDS * 16)
        .any(|c| matches!(c, '?' | '？' | '؟'));
    if marked || words.begins_with(QUESTION).is_some() {
        return Intent::Question;
    }
    Intent::Other
}

/// Returns the event types that match an intent, the most relevant first. An
/// empty list means all types.
pub fn relevant_event_types(intent: Intent) -> &'static [&'static str] {
    match intent {
        Intent::Fix => &[
            "error",
            "shell_exec",
            "file_write",
            "test_result",
            "tool_result",
        ],
        Intent::Action => &["file_write", "shell_exec", "decision", "task", "file_read"],
        Intent::Explain => &["file_read", "decision", "document", "note", "message"],
        Intent::Question => &["message", "note", "decision", "observation"],
        Intent::Other => &[],
    }
}

/// Returns true for a query about recent events: `What was the latest error?`
pub fn asks_for_recent(query: &str) -> bool {
    let words = Lowered::of(query);
    // `Now add a test` is not about recent events; `Where is she now?` is.
    words.has_any(RECENT) || words.0.iter().skip(1).any(|word| word == "now")
}

/// The words of a query in lower case, with apostrophes.
struct Lowered(Vec<String>);

impl Lowered {
    fn of(query: &str) -> Self {
        let words = query
            .split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}' | '_')))
            .map(|word| word.trim_matches(['\'', '\u{2019}']))
            .filter(|word| !word.is_empty())
            .take(MOST_WORDS)
            // A longer word is not a cue, and lower case could make it longer
            // still.
            .map(|word| {
                if word.len() > 32 {
                    String::new()
                } else {
                    word.to_lowercase()
                }
            })
            .map(|word| word.replace('\u{2019}', "'"));
        Self(words.collect())
    }

    /// Returns true when the query contains one of the cues, of one word or
    /// several.
    fn has_any(&self, cues: &[&str]) -> bool {
        (0..self.0.len()).any(|at| cues.iter().any(|cue| self.at(at, cue).is_some()))
    }

    /// Returns the number of words of the cue at the start of the query.
    fn begins_with(&self, cues: &[&str]) -> Option<usize> {
        cues.iter().find_map(|cue| self.at(0, cue))
    }

    /// Returns the number of words of `cue`, if the query has it at an index.
    fn at(&self, at: usize, cue: &str) -> Option<usize> {
        let mut length = 0;
        for word in cue.split(' ') {
            if self.0.get(at + length)? != word {
                return None;
            }
            length += 1;
        }
        Some(length)
    }

    fn begins_with_action(&self) -> bool {
        let mut at = 0;
        // `Now could you please` has the largest number of polite words.
        for _ in 0..3 {
            at += POLITE.iter().find_map(|cue| self.at(at, cue)).unwrap_or(0);
        }
        let is_action = self
            .0
            .get(at)
            .is_some_and(|word| ACTION.contains(&word.as_str()));
        // `Do you know her?` and `Use of it` do not begin with a command.
        let subject = self.0.get(at + 1).is_some_and(|word| {
            matches!(
                word.as_str(),
                "i" | "you" | "we" | "they" | "he" | "she" | "of"
            )
        });
        is_action && !subject
    }
}
