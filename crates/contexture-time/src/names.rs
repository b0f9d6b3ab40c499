//! Recognises months, seasons and years that are names of persons or titles.

use crate::parse::{Parser, is_time_word};
use crate::tense::is_past_verb;
use crate::token::{Gap, day, year};

/// Verbs whose subject is a person, in the form after `did`. Other forms are
/// derived.
const ACTS: &[&str] = &[
    "agree",
    "ask",
    "bake",
    "believe",
    "buy",
    "call",
    "cook",
    "decide",
    "do",
    "draw",
    "drive",
    "eat",
    "enjoy",
    "explain",
    "feel",
    "find",
    "forget",
    "get",
    "give",
    "go",
    "hate",
    "have",
    "help",
    "hope",
    "invite",
    "know",
    "learn",
    "leave",
    "like",
    "live",
    "love",
    "make",
    "meet",
    "mention",
    "move",
    "need",
    "order",
    "own",
    "paint",
    "plan",
    "play",
    "prefer",
    "promise",
    "read",
    "recommend",
    "remember",
    "reply",
    "say",
    "see",
    "sell",
    "send",
    "sing",
    "speak",
    "study",
    "suggest",
    "swim",
    "take",
    "talk",
    "teach",
    "tell",
    "think",
    "travel",
    "try",
    "use",
    "visit",
    "want",
    "wear",
    "win",
    "work",
    "write",
];

/// Past forms of persons' verbs that are not regular.
const ACTED: &[&str] = &[
    "ate", "bought", "drew", "drove", "felt", "forgot", "found", "gave", "got", "knew", "left",
    "made", "met", "read", "said", "sang", "saw", "sent", "sold", "spoke", "swam", "taught",
    "thought", "told", "took", "went", "won", "wore", "wrote",
];

/// Words before a person: prepositions, and verbs with a person as object.
const TOWARDS: &[&str] = &[
    "with", "ask", "asked", "call", "called", "dear", "email", "emailed", "greet", "help",
    "helped", "hello", "hi", "invite", "invited", "know", "knows", "love", "loves", "marry",
    "married", "meet", "met", "named", "phone", "tell", "thank", "thanked", "told", "visit",
    "visited",
];

/// Participles before `by` and a person: `written by April`.
const BY: &[&str] = &[
    "baked",
    "book",
    "built",
    "cooked",
    "designed",
    "drawn",
    "given",
    "hosted",
    "letter",
    "made",
    "painted",
    "painting",
    "said",
    "sent",
    "song",
    "suggested",
    "taken",
    "told",
    "written",
    "wrote",
];

/// Words before a number that is the title of a book or a film.
const WORKS: &[&str] = &[
    "book", "film", "finish", "finished", "movie", "novel", "read", "reading", "reads", "saw",
    "see", "seen", "titled", "watch", "watched", "watches", "watching", "write", "writes",
    "written", "wrote",
];

/// Things that a number like a year counts: `2000 words`.
const COUNTED: &[&str] = &[
    "calories",
    "copies",
    "dollars",
    "eur",
    "euro",
    "euros",
    "hours",
    "items",
    "kg",
    "kilometres",
    "kilometers",
    "km",
    "lines",
    "metres",
    "meters",
    "miles",
    "minutes",
    "people",
    "points",
    "pounds",
    "steps",
    "tokens",
    "usd",
    "users",
    "words",
];

/// Words after a possessive that only a person has: `April's birthday`.
const OWNED: &[&str] = &[
    "address",
    "birthday",
    "boat",
    "boss",
    "boyfriend",
    "brother",
    "car",
    "cat",
    "children",
    "dad",
    "daughter",
    "dog",
    "email",
    "family",
    "father",
    "favorite",
    "favourite",
    "friend",
    "friends",
    "girlfriend",
    "hobby",
    "house",
    "husband",
    "job",
    "kids",
    "mom",
    "mother",
    "mum",
    "name",
    "opinion",
    "parents",
    "phone",
    "sister",
    "son",
    "wife",
];

/// Words before `of` and the title of a work.
const PARTS_OF_WORKS: &[&str] = &[
    "author", "copy", "copies", "director", "ending", "plot", "writer",
];

impl Parser {
    /// Returns true when a capitalised month or season is the name of a person:
    /// `What did April say?`, `with June`, `written by May`.
    pub(super) fn is_person(&self, at: usize) -> bool {
        let Some(token) = self.tokens.get(at).filter(|token| token.capital) else {
            return false;
        };
        let (before, next) = (self.before(at), self.word(at + 1));
        // A verb can follow some of these words, but no person does.
        let is_time =
            is_time_word(before) || matches!(before, "on" | "for" | "each" | "around" | "the");
        if is_time || day(next).is_some() || year(next).is_some() {
            return false;
        }
        let is_adjacent = !token.first && token.gap == Gap::Space;
        let before_that = match at {
            0 | 1 => "",
            _ => self.word(at - 2),
        };
        let follows = match before {
            _ if !is_adjacent => false,
            "did" | "didn't" | "does" | "doesn't" => true,
            "is" | "was" | "will" | "can" | "could" | "should" | "would" | "has" | "had"
                if is_act(next) || is_acting(next) =>
            {
                true
            }
            "is" | "was" => matches!(before_that, "who" | "whom"),
            "who" => false,
            "by" => BY.contains(&before_that),
            // `from March to April` is read as a range before.
            "to" => !(0..at).any(|at| self.word(at) == "from"),
            word => TOWARDS.contains(&word),
        };
        // After a possessive, the next word is a thing: `April's work`.
        let is_subject = (self.tokens.get(at + 1))
            .is_some_and(|next| next.gap == Gap::Space && !next.capital)
            && !token.possessive
            && is_act(next);
        let is_owner = token.possessive && OWNED.contains(&next);
        let is_greeted = matches!(before, "thanks" | "hi" | "hello" | "hey" | "dear");
        // `April and Ana went to Rome`.
        let other = self.tokens.get(at + 2);
        let is_one_of_two = next == "and"
            && other.is_some_and(|other| other.capital && !other.possessive)
            && is_act(self.word(at + 3));
        follows || is_subject || is_owner || is_greeted || is_one_of_two
    }

    /// Returns true when a capitalised month or season is a part of a title: `The
    /// Summer Book`.
    pub(super) fn is_in_title(&self, at: usize) -> bool {
        let is_capital = |at: usize| {
            self.tokens
                .get(at)
                .is_some_and(|token| token.capital && !token.first && token.gap <= Gap::Dash)
        };
        let the = at.checked_sub(1).filter(|at| self.word(*at) == "the");
        let capital_the = the.is_some_and(&is_capital);
        let linked = matches!(self.before(at), "the" | "of" | "to" | "by" | "a");
        is_capital(at) && (capital_the || (linked && is_capital(at + 1)))
    }

    /// Returns true when a number like a year is the title of a work, as in `Who
    /// read 1984?`, or counts something, as in `2000 words`.
    pub(super) fn is_other_number(&self, at: usize) -> bool {
        let before_that = match at {
            0 | 1 => "",
            _ => self.word(at - 2),
        };
        let of_a_work = self.before(at) == "of" && PARTS_OF_WORKS.contains(&before_that);
        let counts = COUNTED.contains(&self.word(at + 1));
        WORKS.contains(&self.before(at)) || of_a_work || counts
    }
}

/// Returns true for a verb after a form of `be` or a modal verb and a person: `Is
/// April coming?`
fn is_acting(word: &str) -> bool {
    let stem = word.strip_suffix("ing").unwrap_or("");
    let acts = |stem: &str| ACTS.contains(&stem);
    matches!(
        word,
        "come" | "coming" | "getting" | "swimming" | "planning" | "winning"
    ) || acts(stem)
        || acts(&format!("{stem}e"))
}

/// Returns true for a form of a verb whose subject is a person.
fn is_act(word: &str) -> bool {
    let is = |word: &str| ACTS.contains(&word);
    let stem = |suffix: &str| word.strip_suffix(suffix).unwrap_or("");
    is(word)
        || is(stem("s"))
        || is(stem("es"))
        || ACTED.contains(&word)
        || matches!(word, "tries" | "studies" | "replies")
        || (is_past_verb(word) && (is(stem("ed")) || is(stem("d")) || is(stem("ned"))))
        || matches!(word, "tried" | "studied" | "replied")
}
