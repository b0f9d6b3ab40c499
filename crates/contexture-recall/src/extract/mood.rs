//! Decides whether a sentence states a fact.
//!
//! A relation is stored as a fact, so nothing is extracted from a question, a
//! condition, a wish, a guess, a denial with `neither` or `nor`, or a report of
//! another person's words.

/// Words that turn a sentence into a condition, a wish or a guess.
const SUPPOSED: &[&str] = &[
    "if",
    "unless",
    "whether",
    "would",
    "wouldn't",
    "could",
    "couldn't",
    "should",
    "might",
    "may",
    "maybe",
    "perhaps",
    "probably",
    "possibly",
    "wish",
    "wishes",
    "wished",
    "imagine",
    "imagining",
    "suppose",
    "supposing",
    "hypothetically",
    "pretend",
    "pretending",
    "dream",
    "dreams",
    "dreamed",
    "dreamt",
    "hope",
    "hopes",
    "hoping",
    "rumour",
    "rumor",
    "rumours",
    "rumors",
    "rumoured",
    "rumored",
    "allegedly",
    "supposedly",
    "apparently",
];

/// Words that report another person's claim.
const REPORTED: &[&str] = &[
    "said",
    "says",
    "told",
    "tells",
    "heard",
    "hears",
    "claims",
    "claimed",
    "thinks",
    "thought",
    "believes",
    "believed",
    "guess",
    "guesses",
    "assumes",
    "assumed",
    "reckons",
    "according",
    "asked",
    "asks",
];

/// Phrases that negate a sentence.
const DENIED: &[&str] = &[
    "not true",
    "isn't true",
    "wasn't true",
    "not the case",
    "as if",
    "as though",
    "no way",
];

/// Returns true when a sentence states a fact.
pub(super) fn is_stated(sentence: &str) -> bool {
    let sentence = sentence.trim_end();
    if sentence.ends_with(['?', '？']) {
        return false;
    }
    let lower = sentence.to_lowercase().replace('\u{2019}', "'");
    let is_cue = |word: &str| {
        let word = word.trim_end_matches("'d");
        let denied = matches!(word, "neither" | "nor");
        denied || SUPPOSED.contains(&word) || REPORTED.contains(&word)
    };
    let mut words = lower.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    let conditional = |word: &str| matches!(word, "i'd" | "we'd" | "you'd" | "they'd" | "he'd");
    !words.any(|word| is_cue(word) || conditional(word))
        && !DENIED.iter().any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_facts_are_stated() {
        for stated in [
            "I work at Nokia.",
            "Ana moved to Oslo, finally!",
            "We left Siemens",
        ] {
            assert!(is_stated(stated), "{stated}");
        }
        for not in [
            "If I worked at Nokia I would be rich.",
            "Ben said that Ana works at Nokia.",
            "Does Ana work at Nokia?",
            "Maybe Ana works at Nokia.",
            "It's not true that I work at Nokia.",
            "I wish I lived in Oslo.",
            "They heard Ana works at Nokia.",
            "Neither Ana nor Ben works at Nokia.",
        ] {
            assert!(!is_stated(not), "{not}");
        }
    }
}
