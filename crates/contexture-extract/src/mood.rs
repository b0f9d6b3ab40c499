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
    "assume",
    "assuming",
    "think",
    "hypothetical",
    "fictional",
    "joking",
    "kidding",
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
    "say",
    "believe",
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
    "in my dream",
    "in a dream",
    "in my novel",
    "in the novel",
    "in my story",
    "in the story",
    "in the game",
    "in a game",
    "in the movie",
    "in the film",
    "in the song",
    "for example",
    "role-play",
    "roleplay",
];

/// First words of a sentence that asks for work on a text: `Translate: I live in …`.
const TASKS: &[&str] = &[
    "translate",
    "rewrite",
    "rephrase",
    "paraphrase",
    "proofread",
    "correct",
    "summarise",
    "summarize",
    "write",
    "draft",
    "repeat",
    "complete",
    "explain",
];

/// Returns true when a sentence states a fact.
pub(crate) fn is_stated(sentence: &str) -> bool {
    let sentence = sentence.trim_end();
    if sentence.ends_with(['?', '？']) {
        return false;
    }
    // The month is not a guess.
    let lower = sentence.replace(" May", " ").to_lowercase();
    let lower = lower.replace('\u{2019}', "'");
    let first = lower.split(|c: char| !c.is_alphabetic()).next();
    if first.is_some_and(|first| TASKS.contains(&first)) {
        return false;
    }
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

/// Phrases that place an event in a past that may be over.
const PAST: &[&str] = &[
    "when i was",
    "when i were",
    "when we were",
    "when he was",
    "when she was",
    "when they were",
    "when i started",
    "when i studied",
    "as a child",
    "as a kid",
    "as a boy",
    "as a girl",
    "as a teen",
    "as a student",
    "as a young",
    "as kids",
    "as children",
    "at the age of",
    "at age",
    " aged ",
    "years ago",
    "decades ago",
    "long ago",
    "years back",
    "back then",
    "back in",
    "in those days",
    "in my teens",
    "in my twenties",
    "in my thirties",
    "in my youth",
    "my early ",
    "my late ",
    "in the nineties",
    "in the eighties",
    "in the seventies",
    "last century",
    "originally",
    "at first",
    "until",
    "for a while",
    "for a year",
    "for a few",
    "for one year",
    "for two",
    "for three",
    "for some time",
    "temporarily",
    "during",
    "before ",
    "at 16",
    "at 17",
    "at 18",
    "at 19",
    "at 20",
    "at 21",
];

/// Returns true when a text places its events in the past: by a year, or by a
/// phrase such as `when I was 18`. A year after `since` still lasts.
pub(crate) fn is_past(text: &str) -> bool {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let is_digit = |c: char| c.is_ascii_digit();
    let mut before = "";
    for word in lower.split(|c: char| !(c.is_alphanumeric() || c == '\'')) {
        let year = word.strip_suffix('s').unwrap_or(word);
        let is_decade =
            matches!(year.trim_start_matches('\''), "70" | "80" | "90") && year.len() < word.len();
        let is_year = year.len() == 4
            && year.chars().all(is_digit)
            && (year.starts_with("19") || year.starts_with("20"));
        if (is_year || is_decade) && before != "since" {
            return true;
        }
        if !word.is_empty() && !matches!(word, "early" | "late" | "about" | "around") {
            before = word;
        }
    }
    PAST.iter().any(|phrase| lower.contains(phrase))
}

/// Returns true when the words before a subject make its clause a condition of
/// time or a question: `once I live in Oslo`, `do I live in Oslo`.
pub(crate) fn is_open(before: &str) -> bool {
    let last = before.trim_end();
    let last = last.rsplit(|c: char| !(c.is_alphanumeric() || c == '\''));
    let last = last.map(str::to_lowercase).next().unwrap_or_default();
    matches!(
        last.as_str(),
        "when"
            | "whenever"
            | "once"
            | "until"
            | "till"
            | "before"
            | "as"
            | "do"
            | "does"
            | "did"
            | "will"
            | "where"
            | "why"
            | "how"
            | "what"
            | "lest"
            | "like"
            | "case"
            | "provided"
            | "assuming"
            | "had"
    ) && !before.trim_end().ends_with([',', ';', ':', '.'])
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
