//! The usual ways to state a relation in a chat.
//!
//! The rules of an archetype name the plain phrases of a relation, such as
//! `work at`. People also write `got a job at` or `my wife Olga`. This module maps
//! such forms to the plain phrase, so that a rule with that phrase also covers
//! them.

use crate::rules::RelationRule;

/// The words that state a relation, and those that state its end.
struct Forms {
    /// A rule with one of these phrases covers the forms.
    plain: &'static [&'static str],
    begins: &'static [&'static str],
    ends: &'static [&'static str],
}

const ALL: &[Forms] = &[
    Forms {
        plain: &["work at", "works at"],
        begins: &[
            "working at",
            "working for",
            "been working at",
            "been working for",
            "been at",
            "employed at",
            "employed by",
            "started at",
            "started working at",
            "started working for",
            "started a job at",
            "started a new job at",
            "started my job at",
            "started my new job at",
            "got a job at",
            "got a new job at",
            "got a job with",
            "got hired at",
            "got hired by",
            "was hired by",
            "have a job at",
            "have a new job at",
            "has a job at",
            "has a new job at",
            "found a job at",
            "found a new job at",
            "landed a job at",
            "took a job at",
        ],
        ends: &[
            "quit my job at",
            "quit my job with",
            "quit his job at",
            "quit her job at",
            "quit working at",
            "quit working for",
            "left my job at",
            "left his job at",
            "left her job at",
            "lost my job at",
            "lost his job at",
            "lost her job at",
            "gave up my job at",
            "resigned from my job at",
            "retired from my job at",
            "got fired from",
            "got fired by",
            "been fired from",
            "been fired by",
            "was fired by",
            "got sacked from",
            "got sacked by",
            "was sacked from",
            "was sacked by",
            "got laid off from",
            "got laid off by",
            "got laid off at",
            "was laid off from",
            "was laid off by",
            "was laid off at",
            "been laid off from",
            "been laid off by",
            "got let go from",
            "got let go by",
            "was let go from",
            "was let go by",
        ],
    },
    Forms {
        plain: &["live in", "lives in"],
        begins: &[
            "living in",
            "been living in",
            "reside in",
            "resides in",
            "residing in",
            "based in",
            "moved back to",
            "moved over to",
            "moved out to",
            "relocated to",
            "settled in",
            "settled down in",
        ],
        ends: &["relocated from", "moved back from"],
    },
    Forms {
        plain: &["married to", "is married to"],
        begins: &[
            "wife",
            "husband",
            "spouse",
            "wife is called",
            "husband is called",
            "wife is named",
            "husband is named",
            "wife's name is",
            "husband's name is",
        ],
        ends: &[
            "ex-wife",
            "ex-husband",
            "ex wife",
            "ex husband",
            "former wife",
            "former husband",
            "split up with",
            "split from",
            "broke up with",
            "got a divorce from",
        ],
    },
];

/// Words of a spouse that follow `my`.
const SPOUSES: &[&str] = &[
    "wife",
    "wife's",
    "husband",
    "husband's",
    "spouse",
    "ex",
    "ex-wife",
    "ex-husband",
    "former",
];

/// Returns true for a word of a spouse that follows `my`.
pub(crate) fn is_spouse(word: &str) -> bool {
    SPOUSES.contains(&word.replace('\u{2019}', "'").as_str())
}

/// Professions: `a nurse at Charité` states where a person works.
const PROFESSIONS: &[&str] = &[
    "accountant",
    "administrator",
    "analyst",
    "apprentice",
    "architect",
    "assistant",
    "barista",
    "biologist",
    "cashier",
    "chef",
    "chemist",
    "consultant",
    "cook",
    "designer",
    "developer",
    "director",
    "doctor",
    "driver",
    "editor",
    "electrician",
    "engineer",
    "intern",
    "journalist",
    "lawyer",
    "lecturer",
    "librarian",
    "manager",
    "mechanic",
    "nurse",
    "paralegal",
    "pharmacist",
    "physicist",
    "pilot",
    "postdoc",
    "professor",
    "programmer",
    "receptionist",
    "researcher",
    "scientist",
    "secretary",
    "surgeon",
    "teacher",
    "technician",
    "therapist",
    "trainee",
    "waiter",
    "waitress",
];

/// What a form says about a rule's relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Begins,
    Ends,
}

/// Returns what the words between two mentions say about the relation of a rule.
/// `is` compares the words with a phrase.
pub(crate) fn form_of(
    words: &[String],
    rule: &RelationRule,
    is: &dyn Fn(&[String], &str) -> bool,
) -> Option<Form> {
    ALL.iter()
        .filter(|forms| {
            let has = |plain: &&str| rule.phrases.iter().any(|phrase| phrase == plain);
            forms.plain.iter().any(has)
        })
        .find_map(|forms| {
            if forms.begins.iter().any(|form| is(words, form)) {
                Some(Form::Begins)
            } else if forms.ends.iter().any(|form| is(words, form)) {
                Some(Form::Ends)
            } else {
                let begins = match forms.plain[0] {
                    "work at" => is_profession_at(words) || is_work_at(words),
                    "live in" => is_home_in(words),
                    _ => false,
                };
                begins.then_some(Form::Begins)
            }
        })
}

/// Returns the words after those that do not change the meaning of a verb.
fn from_verb(words: &[String]) -> Vec<&str> {
    let words = words.iter().map(String::as_str);
    let skipped = |word: &&str| {
        matches!(
            *word,
            "am" | "is" | "are" | "now" | "currently" | "still" | "also" | "both" | "all" | "just"
        )
    };
    words.skip_while(skipped).collect()
}

/// Returns true for `live in a small flat in` and `live with my parents in`.
fn is_home_in(words: &[String]) -> bool {
    let words = from_verb(words);
    let ["live" | "lives" | "living", how @ .., "in"] = words.as_slice() else {
        return false;
    };
    let is_other = |word: &&str| {
        matches!(
            *word,
            "." | "not"
                | "never"
                | "near"
                | "outside"
                | "for"
                | "to"
                | "like"
                | "by"
                | "up"
                | "through"
                | "without"
                | "until"
                | "when"
                | "but"
                | "or"
                | "than"
                | "as"
        )
    };
    how.len() <= 6 && !how.iter().any(is_other)
}

/// Returns true for `work part time at` and `work remotely for`.
fn is_work_at(words: &[String]) -> bool {
    let words = from_verb(words);
    let ["work" | "works" | "working", how @ .., "at" | "for"] = words.as_slice() else {
        return false;
    };
    how.iter().all(|word| {
        matches!(
            *word,
            "part"
                | "full"
                | "time"
                | "part-time"
                | "full-time"
                | "nights"
                | "remotely"
                | "here"
                | "mostly"
                | "mainly"
                | "and"
                | "live"
                | "from"
                | "home"
        )
    })
}

/// Returns true for `am a nurse at` and `work as a senior engineer for`.
fn is_profession_at(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rest = match words.as_slice() {
        ["am" | "is", "working", "as", rest @ ..]
        | ["now" | "currently", "work" | "works", "as", rest @ ..]
        | ["work" | "works" | "working", "as", rest @ ..]
        | ["am" | "is", rest @ ..] => rest,
        _ => return false,
    };
    let ["a" | "an" | "the", job @ .., "at" | "for"] = rest else {
        return false;
    };
    job.len() <= 3
        && job
            .last()
            .is_some_and(|profession| PROFESSIONS.contains(profession))
}

/// Returns true for a rule of marriages.
pub(crate) fn is_marriage(rule: &RelationRule) -> bool {
    let plain = ["married to", "is married to"];
    rule.from == rule.to && rule.phrases.iter().any(|one| plain.contains(&one.as_str()))
}

/// Returns what `Olga and I …` says about a marriage. `behind` is the text after
/// `I`, in lower case.
pub(crate) fn of_couple(behind: &str) -> Option<Form> {
    let clause = behind.split(['.', ',', ';', '!', '(']).next();
    let words: Vec<&str> = clause.unwrap_or_default().split_whitespace().collect();
    let skipped = |word: &&&str| matches!(**word, "just" | "recently" | "now" | "finally" | "have");
    let start = words.iter().take_while(skipped).count();
    let words: Vec<&str> = words[start..]
        .iter()
        .filter(|word| !skipped(word))
        .copied()
        .collect();
    Some(match words.as_slice() {
        // `are married to our jobs`, `are separated by an ocean`.
        [_, "married" | "separated", "to" | "by", ..] | ["broke", "up", "the", ..] => return None,
        [
            "are" | "got" | "were" | "been",
            "divorced" | "separated",
            ..,
        ]
        | ["divorced" | "separated", ..]
        | ["are" | "got", "a", "divorce", ..]
        | ["split", "up", ..]
        | ["split"]
        | ["broke", "up", ..]
        | ["broken", "up", ..]
        | ["are", "no", "longer", "married" | "together", ..]
        | ["are", "not" | "n't", "married", "anymore", ..] => Form::Ends,
        ["are" | "got", "married", ..] | ["been", "married", ..] => Form::Begins,
        _ => return None,
    })
}

/// The openings of sentences without a subject that are about the speaker:
/// `Started at Nokia last week`.
const WITHOUT_SUBJECT: &[&str] = &[
    "started at ",
    "started working ",
    "started a job at ",
    "started a new job at ",
    "started my ",
    "got a job ",
    "got a new job ",
    "got hired ",
    "got fired ",
    "got laid off ",
    "got married to ",
    "quit my job ",
    "left my job ",
    "lost my job ",
    "working at ",
    "working for ",
    "living in ",
    "moved back to ",
    "moved to ",
];

/// Returns true when a sentence without a subject is about its speaker.
pub(crate) fn is_about_speaker(sentence: &str) -> bool {
    let head = &sentence[..sentence.floor_char_boundary(40)];
    let head = head.to_lowercase();
    let mut rest = head.as_str();
    for adverb in ["just ", "finally ", "recently ", "now ", "currently "] {
        rest = rest.strip_prefix(adverb).unwrap_or(rest);
    }
    WITHOUT_SUBJECT
        .iter()
        .any(|opening| rest.starts_with(opening))
}
