//! What the words between two mentions say about a relation.

use crate::forms;
use crate::phrase::{is_end, is_phrase};
use crate::rules::RelationRule;

/// What the words between two mentions say about a relation.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) ended: bool,
    /// Whether it is an event, which may be long ago: `moved to`.
    pub(crate) is_event: bool,
    pub(crate) moves: bool,
    /// Whether a form of chats states it, not a phrase of the rule.
    pub(crate) is_form: bool,
}

/// Past tenses that state a relation by the event that began it.
const EVENTS: &[&str] = &[
    "moved",
    "relocated",
    "settled",
    "started",
    "got",
    "found",
    "landed",
    "took",
    "joined",
    "hired",
];

/// Returns what the words between two mentions, and those after the second, say
/// about the relation of a rule.
pub(crate) fn claim(words: &[String], behind: &str, rule: &RelationRule) -> Option<Claim> {
    let has = |word: &str| words.iter().any(|one| one == word);
    let said = rule.phrases.iter().any(|phrase| is_phrase(words, phrase));
    let form = forms::form_of(words, rule, &is_phrase);
    let ended = !said && (form == Some(forms::Form::Ends) || is_end(words, behind, rule));
    if !(said || ended || form.is_some()) {
        return None;
    }
    let lower = behind.to_lowercase();
    // `I have lived in Rome` does not tell whether that lasts.
    let is_perfect = has("have") || has("has");
    let spans = ["since", " for ", "ever", "all my life", "whole life"];
    let lasts = spans.iter().any(|span| lower.contains(span));
    if is_perfect && (has("lived") || has("worked")) && !lasts {
        return None;
    }
    // `I've been at Nokia for an hour` is a visit.
    let is_long = ["years", "since 19", "since 20"]
        .iter()
        .any(|span| lower.contains(span));
    if has("been") && words.last().is_some_and(|word| word == "at") && !has("working") && !is_long {
        return None;
    }
    // A place of origin is not a place to live.
    let lives = rule
        .phrases
        .iter()
        .any(|one| one == "lives in" || one == "live in");
    if lives && words.last().is_some_and(|word| word == "from") && !ended {
        return None;
    }
    // `Nokia's competitor` is not Nokia.
    let owned = lower
        .strip_prefix("'s ")
        .or(lower.strip_prefix("\u{2019}s "));
    if owned.is_some_and(|owned| owned.starts_with(char::is_alphabetic)) {
        return None;
    }
    // `left Rome at noon` is a journey.
    let times = [
        " at ",
        "this morning",
        "today",
        "tonight",
        "yesterday",
        " by ",
        "early",
    ];
    let is_journey = lives && has("left") && times.iter().any(|time| lower.contains(time));
    if is_journey {
        return None;
    }
    // `left Lego out` and `my wife Olga died` state something else.
    let rest = lower.trim_start();
    let other = [
        "out ", "open", "behind", "off ", "alone", "running", "at home",
    ];
    if has("left") && other.iter().any(|start| rest.starts_with(start)) {
        return None;
    }
    if rest.starts_with("died") || rest.starts_with("passed away") || rest.starts_with("has died") {
        return None;
    }
    let moves = has("moved") || has("relocated");
    Some(Claim {
        ended,
        is_event: EVENTS.iter().any(|event| has(event)) && !has("married"),
        moves,
        is_form: !said && form.is_some(),
    })
}
