//! Compares the words between two mentions with the phrases of a rule.

use crate::forms;
use crate::rules::RelationRule;

/// Words before and after a phrase that do not change its meaning.
pub(crate) const BEFORE: &[&str] = &[
    "has",
    "have",
    "is",
    "am",
    "are",
    "also",
    "now",
    "just",
    "recently",
    "still",
    "currently",
    "really",
    "then",
    "already",
    "finally",
    "actually",
    "officially",
    "both",
    "all",
    "who",
];
const AFTER: &[&str] = &["the", "a", "an", "her", "his", "their", "our", "my", "this"];

/// Words that begin the negation of a phrase.
pub(crate) const NEGATIONS: &[&str] = &[
    "no",
    "not",
    "used",
    "do",
    "does",
    "don't",
    "doesn't",
    "don\u{2019}t",
    "doesn\u{2019}t",
    "isn't",
    "isn\u{2019}t",
    "aren't",
    "aren\u{2019}t",
];

/// Returns the words between two mentions in lower case. Punctuation, except
/// quotes around names, is a word that no phrase has.
pub(crate) fn phrase_words(between: &str) -> Vec<String> {
    let between = between.replace('\u{2019}', "'");
    // The pronoun or name before a contraction is a mention: `I've`, `Ana's moved`.
    let verbs = [
        ("'ve ", "have "),
        ("'m ", "am "),
        ("'re ", "are "),
        ("'ll ", "will "),
    ];
    let expanded = verbs.iter().find_map(|(short, long)| {
        let rest = between.strip_prefix(short)?;
        Some(format!("{long}{rest}"))
    });
    let between = expanded.unwrap_or_else(|| match between.strip_prefix("'s ") {
        Some(rest) if rest.starts_with("moved ") || rest.starts_with("left ") => {
            format!("has {rest}")
        }
        Some(rest) if rest.starts_with("married ") || rest.starts_with("no longer ") => {
            format!("is {rest}")
        }
        _ => between,
    });
    let is_mark = |c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '(' | ')');
    between
        .split_whitespace()
        .map(|word| word.trim_matches(['`', '"', '\'', '*']).to_lowercase())
        .flat_map(|word| {
            let marked = word.contains(is_mark);
            [
                word,
                if marked {
                    ".".to_owned()
                } else {
                    String::new()
                },
            ]
        })
        .filter(|word| !word.is_empty())
        .collect()
}

pub(crate) fn is_phrase(words: &[String], phrase: &str) -> bool {
    let mut words = words;
    let length = phrase.split(' ').count();
    while words.len() > length && BEFORE.contains(&words[0].as_str()) {
        words = &words[1..];
    }
    while words.len() > length && AFTER.contains(&words[words.len() - 1].as_str()) {
        words = &words[..words.len() - 1];
    }
    words.len() == length && words.iter().zip(phrase.split(' ')).all(|(a, b)| a == b)
}

/// Returns true when the words between two mentions, and those after the
/// second, state the end of a relation: `left`, `no longer works at`, `doesn't
/// work at`. `I don't work at Bosch on Fridays` does not state an end.
pub(crate) fn is_end(words: &[String], behind: &str, rule: &RelationRule) -> bool {
    let is_said = |words: &[String]| {
        rule.phrases.iter().any(|one| is_phrase(words, one))
            || forms::form_of(words, rule, &is_phrase) == Some(forms::Form::Begins)
    };
    if rule.ends.iter().any(|phrase| is_phrase(words, phrase)) {
        return true;
    }
    let mut rest = words;
    while rest
        .first()
        .is_some_and(|word| BEFORE.contains(&word.as_str()))
    {
        rest = &rest[1..];
    }
    let word = |at: usize| rest.get(at).map_or("", String::as_str);
    if (word(0), word(1)) == ("no", "longer") || (word(0), word(1)) == ("used", "to") {
        return is_said(&rest[2..]);
    }
    let negated = match (word(0), word(1)) {
        ("don't" | "doesn't" | "isn't" | "aren't" | "not", _) => 1,
        ("do" | "does", "not") => 2,
        _ => return false,
    };
    is_said(&rest[negated..])
        && (is_end_of_clause(behind) || {
            let behind = behind.to_lowercase();
            ANY_MORE.iter().any(|cue| behind.contains(cue))
        })
}

const ANY_MORE: &[&str] = &["anymore", "any more", "any longer"];

/// Returns the text after words such as `anymore` and `now`.
pub(crate) fn without_adverbs(behind: &str) -> &str {
    let mut rest = behind.trim_start();
    for word in ANY_MORE.iter().chain(&["right now", "now", "either"]) {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.trim_start()
}

/// Returns true when a clause ends after a mention, or goes on only with words
/// such as `anymore` and `now`.
pub(crate) fn is_end_of_clause(behind: &str) -> bool {
    let lower = behind.to_lowercase();
    let rest = without_adverbs(&lower);
    rest.is_empty() || rest.starts_with(['.', ',', ';', '!']) || rest.starts_with("but ")
}
