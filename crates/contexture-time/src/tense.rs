//! Decides from cue words whether a clause is about the past or the future.

use std::ops::Range;

use crate::parse::Parser;
use crate::token::Gap;

/// The tense of a clause. It decides which Monday is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    /// No word shows a tense. Dates are read as in the past.
    Unknown,
    Past,
    /// A report names something that was planned: `She told me about her
    /// appointment on 3 May.` A date is the nearest one, a weekday the latest one.
    Reported,
    /// Something was arranged for a date: `We moved the party to 3 May.`
    Nearest,
    /// Something is announced: `I have an appointment on 3 May.`
    Announced,
    Future,
}

impl Tense {
    /// Returns true when a date without a year is the latest one.
    pub(super) fn is_past(self) -> bool {
        matches!(self, Self::Unknown | Self::Past)
    }
}

/// What one word shows about the tense of its clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cue {
    Past,
    /// A report, which may be about the future: `She said the deadline is …`.
    Reported,
    /// A noun for something ahead: `appointment`.
    Noun,
    Announced,
    Future,
}

/// Forms of `be` in the present.
const PRESENT: &[&str] = &["am", "is", "are", "i'm", "we're", "you're", "they're", "be"];

const FUTURE: &[&str] = &["will", "won't", "shall", "gonna", "tomorrow", "upcoming"];

/// Nouns that announce something. A past verb in the same clause overrides them.
const NOUNS: &[&str] = &[
    "appointment",
    "appointments",
    "deadline",
    "deadlines",
    "next",
    "plan",
    "plans",
    "reminder",
    "reservation",
];

/// Other words that announce something, unless there is a past verb.
const ANNOUNCED: &[&str] = &[
    "arrives",
    "begins",
    "booked",
    "closes",
    "departs",
    "due",
    "ends",
    "expires",
    "happens",
    "leaves",
    "might",
    "moves",
    "must",
    "opens",
    "planned",
    "planning",
    "returns",
    "scheduled",
    "should",
    "starts",
];

/// Verbs that announce something after `do` or `does`, and after a pronoun: `We
/// leave on Friday.`
const BASE: &[&str] = &[
    "arrive", "begin", "close", "depart", "end", "expire", "fly", "happen", "leave", "move",
    "open", "return", "start", "travel",
];

/// Verbs that announce something before `to` and a verb.
const INTENDED: &[&str] = &[
    "agreed", "decided", "expect", "expects", "has", "have", "hope", "hopes", "intend", "intends",
    "need", "needs", "offered", "promised", "want", "wants",
];

/// Verbs that announce something after a form of `be`: `Ana is coming on Friday`.
const PROGRESSIVE: &[&str] = &[
    "arriving",
    "coming",
    "flying",
    "going",
    "happening",
    "hosting",
    "launching",
    "leaving",
    "meeting",
    "moving",
    "returning",
    "seeing",
    "starting",
    "travelling",
    "traveling",
    "visiting",
];

/// Verbs that arrange something `for`, `to` or `until` a date, and tickets.
const ARRANGED: &[&str] = &[
    "arranged",
    "book",
    "booked",
    "delayed",
    "extended",
    "made",
    "make",
    "move",
    "moved",
    "plan",
    "planned",
    "postponed",
    "pushed",
    "rescheduled",
    "reserved",
    "schedule",
    "scheduled",
    "set",
    "shifted",
    "ticket",
    "tickets",
];

const REPORTED: &[&str] = &[
    "announced",
    "asked",
    "confirmed",
    "decided",
    "emailed",
    "heard",
    "knew",
    "learned",
    "learnt",
    "mentioned",
    "reminded",
    "said",
    "thought",
    "told",
    "wrote",
];

/// Past forms that do not end in `-ed`.
const PAST: &[&str] = &[
    "ago",
    "ate",
    "became",
    "been",
    "began",
    "bought",
    "broke",
    "brought",
    "built",
    "came",
    "caught",
    "chose",
    "did",
    "didn't",
    "done",
    "drank",
    "drove",
    "fell",
    "felt",
    "flew",
    "forgot",
    "found",
    "gave",
    "gone",
    "grew",
    "had",
    "hadn't",
    "held",
    "kept",
    "lost",
    "made",
    "met",
    "paid",
    "ran",
    "rode",
    "sang",
    "sat",
    "saw",
    "seen",
    "sent",
    "slept",
    "sold",
    "spent",
    "spoke",
    "swam",
    "taught",
    "threw",
    "took",
    "was",
    "wasn't",
    "went",
    "were",
    "weren't",
    "woke",
    "won",
    "wore",
    "yesterday",
];

/// Words in `-ed` that are not past verbs.
const NOT_PAST: &[&str] = &[
    "bed",
    "excited",
    "feed",
    "hundred",
    "indeed",
    "interested",
    "married",
    "need",
    "red",
    "seed",
    "shed",
    "speed",
    "supposed",
    "tired",
    "wed",
    "worried",
];

/// Words that show a habit.
const HABITS: &[&str] = &[
    "always",
    "each",
    "enjoy",
    "enjoys",
    "every",
    "favorite",
    "favourite",
    "love",
    "loves",
    "often",
    "tradition",
    "traditions",
    "typically",
    "usually",
];

/// Words that begin a clause inside a sentence.
const JOINS: &[&str] = &[
    "and", "because", "but", "or", "so", "then", "while", "although", "though",
];

/// Returns true for a verb in the past.
pub(super) fn is_past_verb(word: &str) -> bool {
    let regular = word.len() >= 4 && word.ends_with("ed") && !NOT_PAST.contains(&word);
    regular || PAST.contains(&word) || REPORTED.contains(&word)
}

impl Parser {
    /// Returns the tense of the clause around a word. A clause without a cue has
    /// the tense of the clause before it in the sentence, or else of the one
    /// after it.
    pub(super) fn tense(&self, at: usize) -> Tense {
        let clauses = self.clauses(at);
        let own = clauses.iter().position(|clause| clause.contains(&at));
        let Some(own) = own else {
            return Tense::Unknown;
        };
        let before = clauses[..=own].iter().rev();
        let after = clauses[own + 1..].iter();
        let mut tenses = before
            .chain(after)
            .filter_map(|clause| self.tense_of(clause, at));
        tenses.next().unwrap_or(match self.preposition(at) {
            // `Please send it by Friday.`
            "by" => Tense::Announced,
            _ => Tense::Unknown,
        })
    }

    /// Returns true in a sentence about a habit, which is not about one year: `What
    /// do they love about Christmas?`
    pub(super) fn is_habit(&self, at: usize) -> bool {
        let mut words = self.clauses(at).into_iter().flatten();
        words.any(|at| HABITS.contains(&self.word(at)))
    }

    /// Returns the word before an expression, without an article.
    fn preposition(&self, at: usize) -> &str {
        let skipped = usize::from(matches!(self.before(at), "the" | "on" | "this"));
        at.checked_sub(skipped).map_or("", |at| self.before(at))
    }

    /// Returns true for a text that asks something.
    pub(super) fn is_question(&self) -> bool {
        matches!(
            self.word(0),
            "what"
                | "when"
                | "which"
                | "who"
                | "whose"
                | "where"
                | "why"
                | "how"
                | "is"
                | "are"
                | "am"
                | "do"
                | "does"
                | "have"
                | "has"
                | "can"
                | "any"
                | "show"
                | "list"
        )
    }

    /// Returns the clauses of the sentence around a word.
    fn clauses(&self, at: usize) -> Vec<Range<usize>> {
        let ends = |at: &usize| self.tokens[*at].gap == Gap::Sentence;
        let start = (0..=at).rev().find(ends).unwrap_or(0);
        let end = (at + 1..self.tokens.len()).find(ends);
        let end = end.unwrap_or(self.tokens.len());
        let mut clauses = Vec::new();
        let mut first = start;
        for next in start + 1..end {
            let token = &self.tokens[next];
            if token.gap == Gap::Break || JOINS.contains(&token.word.as_str()) {
                clauses.push(first..next);
                first = next;
            }
        }
        clauses.push(first..end);
        clauses
    }

    /// Returns the tense of a clause, for the expression at a word: that of the
    /// nearest cue before it, or else of the first cue after it.
    fn tense_of(&self, clause: &Range<usize>, at: usize) -> Option<Tense> {
        let preposition = self.preposition(at);
        // `the plan for April` is a noun.
        let is_noun = |at: usize| matches!(self.before(at), "the" | "a" | "my" | "our" | "this");
        let arranges = || {
            let mut words = clause.clone();
            words.any(|at| ARRANGED.contains(&self.word(at)) && !is_noun(at))
        };
        let cues: Vec<(usize, Cue)> = clause
            .clone()
            .filter_map(|at| Some((at, self.cue(at)?)))
            .collect();
        let has = |wanted: Cue| cues.iter().any(|(_, cue)| *cue == wanted);
        if matches!(preposition, "for" | "to" | "until" | "till")
            && clause.contains(&at)
            && arranges()
        {
            return Some(match (has(Cue::Past), has(Cue::Future)) {
                (false, true) => Tense::Future,
                (false, false) => Tense::Announced,
                _ => Tense::Nearest,
            });
        }
        // `The concert is on 3 May.`
        let verb = match self.before(at) {
            "on" | "in" | "at" => at.saturating_sub(1),
            _ => at,
        };
        if clause.contains(&at) && self.is_after_present(verb) {
            return Some(Tense::Announced);
        }
        let before = cues.iter().rev().find(|(cue, _)| *cue < at);
        let (_, nearest) = before.or(cues.first())?;
        Some(match nearest {
            Cue::Past | Cue::Reported => Tense::Past,
            Cue::Future => Tense::Future,
            Cue::Noun | Cue::Announced => match (has(Cue::Past), has(Cue::Future)) {
                (true, true) => Tense::Nearest,
                (true, false) => Tense::Past,
                (false, true) => Tense::Future,
                // `the plans from Monday` exist since Monday.
                _ if matches!(preposition, "from" | "of" | "since") => Tense::Unknown,
                _ if has(Cue::Reported) && !has(Cue::Announced) => Tense::Reported,
                _ => Tense::Announced,
            },
        })
    }

    /// Returns true after a form of `be` in the present: `is`, `she's`.
    fn is_after_present(&self, at: usize) -> bool {
        let Some(token) = at.checked_sub(1).and_then(|at| self.tokens.get(at)) else {
            return false;
        };
        let word = token.word.as_str();
        let pronoun = matches!(
            word,
            "he" | "it" | "she" | "that" | "there" | "what" | "where" | "who"
        );
        PRESENT.contains(&word) || word.ends_with("'re") || (token.possessive && pronoun)
    }

    /// Returns what a word shows about the tense.
    fn cue(&self, at: usize) -> Option<Cue> {
        let (word, next, before) = (self.word(at), self.word(at + 1), self.before(at));
        let is_present = self.is_after_present(at);
        let was = matches!(before, "was" | "were" | "been" | "wasn't" | "weren't");
        let token = self.tokens.get(at)?;
        match word {
            // A person named Will.
            "will" if token.capital && (!token.first || is_past_verb(next)) => return None,
            "going" if next == "to" && !was => return Some(Cue::Future),
            "when" if token.possessive || matches!(next, "is" | "are") => return Some(Cue::Future),
            "see" if matches!(next, "you" | "ya") && matches!(before, "" | "will" | "to") => {
                return Some(Cue::Future);
            }
            "see" if next == "you" && (token.first || token.gap >= Gap::Break) => {
                return Some(Cue::Future);
            }
            "talk" | "speak" if token.first && next == "to" && self.word(at + 2) == "you" => {
                return Some(Cue::Future);
            }
            "remind" if next == "me" && matches!(self.word(at + 2), "on" | "in") => {
                return Some(Cue::Future);
            }
            "let" if token.possessive || next == "us" => return Some(Cue::Announced),
            "takes" if next == "place" => return Some(Cue::Announced),
            "must" | "might" | "should" if next == "have" => return None,
            "would" => {
                let likes = matches!(next, "like" | "love") && self.word(at + 2) == "to";
                let mut earlier = at.saturating_sub(4)..at;
                let is_said = earlier.any(|at| REPORTED.contains(&self.word(at)));
                return (likes || is_said).then_some(Cue::Announced);
            }
            _ if next == "to" && INTENDED.contains(&word) => {
                // `I have to say`, `I want to know`.
                let knows = ["know", "say", "see", "remember", "admit", "find"];
                let announces = !knows.contains(&self.word(at + 2)) && !is_present;
                return announces.then_some(Cue::Announced);
            }
            "getting" if next == "married" && is_present => return Some(Cue::Future),
            _ if BASE.contains(&word) => {
                let mut earlier = at.saturating_sub(5)..at;
                let does = earlier.any(|at| matches!(self.word(at), "do" | "does"));
                let pronoun = matches!(before, "i" | "we" | "they" | "you");
                return (does || pronoun).then_some(Cue::Announced);
            }
            "about" if next == "to" && is_present => return Some(Cue::Future),
            "looking" if next == "forward" => return Some(Cue::Future),
            // `due to the rain`, `next to the door`.
            "due" | "next" if next == "to" => return None,
            "next" if matches!(next, "step" | "steps" | "action" | "actions" | "thing") => {
                return None;
            }
            _ => {}
        }
        if FUTURE.contains(&word) || word.ends_with("'ll") {
            return Some(Cue::Future);
        }
        if NOUNS.contains(&word) {
            return Some(Cue::Noun);
        }
        // `is coming`, `is Ana coming`.
        let asks = at > 0 && self.is_after_present(at - 1);
        if ANNOUNCED.contains(&word) || (PROGRESSIVE.contains(&word) && (is_present || asks)) {
            return Some(Cue::Announced);
        }
        if REPORTED.contains(&word) && !is_present {
            return Some(Cue::Reported);
        }
        // `is confirmed` is not about the past.
        (is_past_verb(word) && !is_present).then_some(Cue::Past)
    }
}
