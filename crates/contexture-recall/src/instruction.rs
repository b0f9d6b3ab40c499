//! Recognises standing instructions: sentences that tell an assistant what to
//! do from now on, such as `Always answer in French.`
//!
//! A standing instruction applies to queries that share no word with it, so
//! ranking by words and vectors alone does not find it.

use crate::sentence::sentences;

/// The maximum number of sentences of a text that are checked.
const MOST_SENTENCES: usize = 64;

/// The maximum number of words of a sentence that are checked.
const MOST_WORDS: usize = 24;

/// Words that may come before an instruction.
const BEFORE: &[&str] = &[
    "please", "and", "also", "so", "but", "ok", "okay", "hey", "oh", "just", "then", "kindly",
];

/// Beginnings of sentences that are instructions by themselves.
const BEGINNINGS: &[&str] = &[
    "from now on",
    "from here on",
    "from this point on",
    "going forward",
    "moving forward",
    "in the future",
    "in future",
    "for future reference",
    "as a rule",
    "remember to",
    "please remember",
    "remember that i",
    "remember i",
    "do not ever",
    "don't ever",
    "don't forget to",
    "do not forget to",
    "make sure to",
    "make sure you",
    "make sure that you",
    "be sure to",
    "whenever i",
    "whenever you",
    "every time i",
    "each time i",
    "any time i",
    "anytime i",
    "when i ask",
    "when you answer",
    "if i ask",
];

/// Phrases that form an instruction anywhere in a sentence.
const ANYWHERE: &[&str] = &[
    "you should always",
    "you must always",
    "you should never",
    "you must never",
    "i want you to",
    "i'd like you to",
    "i would like you to",
    "i need you to",
    "i prefer that you",
    "i'd prefer that you",
    "please always",
    "please never",
];

/// Words after `always` or `never` that are not the verb of an instruction:
/// `Never mind`, `Always a pleasure`.
const NO_VERB: &[&str] = &[
    "mind",
    "a",
    "an",
    "the",
    "been",
    "again",
    "had",
    "has",
    "have",
    "i",
    "you",
    "he",
    "she",
    "it",
    "we",
    "they",
    "my",
    "your",
    "good",
    "great",
    "nice",
    "happy",
    "so",
    "too",
    "enough",
    "thought",
    "knew",
    "saw",
    "heard",
    "did",
    "was",
    "were",
    "loved",
    "wanted",
    "fun",
    "there",
    "here",
    "stop",
    "underestimate",
    "worry",
    "ever",
];

/// Returns true if a sentence of `text` is a standing instruction.
///
/// A question is not an instruction: `Do you always eat here?`
pub fn is_standing_instruction(text: &str) -> bool {
    sentences(text)
        .take(MOST_SENTENCES)
        .any(|sentence| is_instruction(&text[sentence]))
}

fn is_instruction(sentence: &str) -> bool {
    if sentence.ends_with(['?', '？']) {
        return false;
    }
    let words: Vec<String> = sentence
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}')))
        .filter(|word| !word.is_empty())
        .take(MOST_WORDS)
        .map(|word| word.to_lowercase().replace('\u{2019}', "'"))
        .collect();
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    let skipped = all.iter().take_while(|word| BEFORE.contains(word)).count();
    let begins = |phrase: &str, words: &[&str]| {
        let mut given = words.iter();
        phrase.split(' ').all(|word| given.next() == Some(&word))
    };
    let head = &all[skipped..];
    let orders = match head {
        // `Never give up` is not an instruction.
        [_, _, "up", ..] => false,
        ["always" | "never", verb, _, ..] => !NO_VERB.contains(verb),
        _ => false,
    };
    orders
        || BEGINNINGS
            .iter()
            .any(|phrase| begins(phrase, head) || begins(phrase, &all))
        || (0..all.len()).any(|at| ANYWHERE.iter().any(|phrase| begins(phrase, &all[at..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_says_what_to_do_from_now_on() {
        for text in [
            "Always format dates as day/month/year.",
            "Never suggest restaurants with meat.",
            "From now on, answer in French.",
            "Please remember to add a summary at the end.",
            "Thanks! Please always include the source.",
            "I want you to mention the version number when I ask about libraries.",
            "Whenever I ask about recipes, give metric units.",
        ] {
            assert!(is_standing_instruction(text), "{text}");
        }
    }

    #[test]
    fn lookalikes_are_not_matched() {
        for text in [
            "",
            "Never mind.",
            "Never give up on your dreams!",
            "Always!",
            "I have always loved Lisbon.",
            "Do you always eat here?",
            "Never again will I take that train.",
            "Always a pleasure to see you.",
            "She never called.",
        ] {
            assert!(!is_standing_instruction(text), "{text}");
        }
    }
}
