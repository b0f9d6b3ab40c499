//! Recognises standing instructions: sentences that tell an assistant what to
//! do from now on, such as `Always answer in French.`
//!
//! A standing instruction applies to queries that share no word with it, so
//! ranking by words and vectors alone does not find it.

use contexture_words::sentences;

/// The maximum number of sentences of a text that are checked.
const MOST_SENTENCES: usize = 64;

/// The maximum number of words of a sentence that are checked.
const MOST_WORDS: usize = 24;

/// Words that may come before an instruction.
const BEFORE: &[&str] = &[
    "please", "and", "also", "so", "but", "ok", "okay", "hey", "oh", "just", "then", "kindly",
];

/// Words that say from when on something applies. An instruction follows, not a
/// statement: `From now on I work at Nokia.`
const OPENINGS: &[&str] = &[
    "from now on",
    "from here on",
    "from this point on",
    "going forward",
    "moving forward",
    "in the future",
    "in future",
    "for future reference",
    "as a rule",
];

/// First words of a statement after an opening: a person, or a thing.
const PERSONS: &[&str] = &[
    "i", "i'm", "i'll", "i've", "i'd", "we", "we're", "we'll", "we've", "he", "he's", "she",
    "she's", "they", "they're",
];
const THINGS: &[&str] = &[
    "it", "it's", "my", "our", "his", "her", "their", "the", "a", "an", "this", "that", "these",
    "those", "there",
];

/// Words that make such a sentence an instruction: `From now on I want you to
/// wait.` and `From now on the answers should be short.`
const ADDRESSES: &[&str] = &["you", "your", "please"];
const DEMANDS: &[&str] = &["should", "must"];

/// Beginnings of sentences that are instructions, unless they name one time.
const REMINDERS: &[&str] = &[
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
];

/// Words for a single time: `Please remember to buy milk tomorrow.`
const ONCE: &[&str] = &[
    "today",
    "tonight",
    "tomorrow",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "weekend",
    "morning",
    "afternoon",
    "evening",
    "next",
];

/// Words that make a named time a repeated one: `every Monday`.
const REPEATED: &[&str] = &["every", "each", "always", "never", "ever", "any", "all"];

/// Beginnings of sentences that are instructions by themselves.
const BEGINNINGS: &[&str] = &[
    "whenever i",
    "whenever you",
    "every time i",
    "each time i",
    "any time i",
    "anytime i",
    "when i ask",
    "when you answer",
    "when you reply",
    "when you respond",
    "when you write",
    "when you suggest",
    "when you recommend",
    "when you explain",
    "when answering",
    "when replying",
    "when writing to me",
    "if i ask",
];

/// Verbs that tell an assistant what not to do: `Do not suggest pork.`
const ASSISTANT_VERBS: &[&str] = &[
    "suggest",
    "recommend",
    "propose",
    "use",
    "mention",
    "include",
    "answer",
    "reply",
    "respond",
    "write",
    "address",
    "translate",
    "apologise",
    "apologize",
    "format",
    "summarise",
    "summarize",
    "quote",
    "assume",
];

/// Words about the form of answers: `Use metric units, please.`
const FORMS: &[&str] = &[
    "unit",
    "units",
    "metric",
    "imperial",
    "celsius",
    "fahrenheit",
    "bullet",
    "bullets",
    "markdown",
    "emoji",
    "emojis",
    "sentences",
    "words",
    "language",
    "english",
    "french",
    "german",
    "spanish",
    "italian",
    "tone",
    "format",
    "style",
    "spelling",
    "indentation",
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
    "late",
    "early",
    "on",
    "in",
    "at",
    "with",
    "for",
    "when",
    "this",
    "that",
    "these",
    "those",
    "busy",
    "tired",
    "hungry",
    "open",
    "closed",
    "wrong",
    "right",
    "ready",
    "full",
    "hot",
    "cold",
    "sad",
    "true",
    "something",
    "someone",
    "looking",
    "thinking",
    "trying",
    "wondering",
];

/// Returns true for a word that is not the verb of an instruction, by the list or
/// by its ending: `Always looking forward`, `Never tried that`.
fn is_no_verb(word: &str) -> bool {
    let ends = |ending: &str, verbs: &[&str]| {
        word.len() > 4 && word.ends_with(ending) && !verbs.contains(&word)
    };
    NO_VERB.contains(&word) || ends("ed", &["need", "feed", "embed", "proceed", "exceed"])
}

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
    let has = |list: &[&str]| all.iter().any(|word| list.contains(word));
    let head = &all[skipped..];
    let begins_with = |list: &[&str]| {
        let mut list = list.iter();
        list.any(|phrase| begins(phrase, head) || begins(phrase, &all))
    };
    let orders = match head {
        // `Never give up` is not an instruction.
        [_, _, "up", ..] => false,
        ["always" | "never", verb, _, ..] => !is_no_verb(verb),
        ["don't", verb, _, ..] | ["do", "not", verb, _, ..] => ASSISTANT_VERBS.contains(verb),
        ["use", _, ..] => has(FORMS),
        _ => false,
    };
    let opening = OPENINGS.iter().find(|phrase| begins(phrase, head));
    let opens = opening.is_some_and(|phrase| {
        let rest = &head[phrase.split(' ').count()..];
        match rest.first() {
            None => false,
            Some(first) if PERSONS.contains(first) => has(ADDRESSES),
            Some(first) if THINGS.contains(first) => has(ADDRESSES) || has(DEMANDS),
            Some(_) => true,
        }
    });
    let reminds = begins_with(REMINDERS) && (!has(ONCE) || has(REPEATED));
    orders
        || opens
        || reminds
        || begins_with(BEGINNINGS)
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
            "Do not suggest pork dishes.",
            "Please don\u{2019}t use abbreviations.",
            "When you write to me, use bullet points.",
            "Use metric units, please.",
            "From now on the answers should be short.",
            "From now on, I want you to answer briefly.",
            "Remember to check the calendar every Monday.",
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
            "From now on I work at Nokia.",
            "From now on the office closes at five.",
            "From now on I must work on Saturdays.",
            "Please remember to buy milk tomorrow.",
            "Always late, that bus.",
            "Never tried that before.",
            "Always looking forward to it.",
            "Don't worry about the cake.",
            "Use the door on the left.",
        ] {
            assert!(!is_standing_instruction(text), "{text}");
        }
    }
}
