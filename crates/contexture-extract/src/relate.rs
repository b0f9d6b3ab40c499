//! Finds the relations between the matches of a sentence.

use std::ops::Range;

use crate::claim::{Claim, claim};
use crate::extractor::Extractor;
use crate::found::{Found, What, fits};
use crate::phrase::{is_end_of_clause, phrase_words};
use crate::rules::{Find, Matcher, RelationRule};
use crate::{forms, mood, name_lists, not_names};

/// A relation that a sentence states: the matches of its ends, its type, and
/// whether it has ended.
pub(crate) type Stated<'s> = (usize, usize, &'s str, bool);

/// The matches of a sentence.
pub(crate) struct Sentence<'t> {
    pub(crate) text: &'t str,
    pub(crate) range: Range<usize>,
    pub(crate) found: &'t [Found],
    /// The indices of its matches.
    pub(crate) places: &'t [usize],
    /// The person to whom a pronoun at its start refers.
    pub(crate) subject: Option<usize>,
}

impl Extractor {
    /// Finds the relations between the matches of one sentence.
    pub(crate) fn relate<'s>(
        &'s self,
        part: &Sentence<'_>,
        kinds: &mut [Option<&'s str>],
        links: &mut Vec<Stated<'s>>,
    ) {
        let Sentence {
            text,
            found,
            places: sentence,
            ..
        } = *part;
        let range = part.range.clone();
        if mood::is_stated(&text[range]) {
            self.relate_by_words(part, kinds, links);
        }
        // A long list of names does not relate all of its pairs.
        let few = sentence.iter().filter(|i| kinds[**i].is_some());
        let few: Vec<usize> = few.copied().take(8).collect();
        for rule in self.relations.iter().filter(|rule| rule.phrases.is_empty()) {
            for (n, a) in few.iter().enumerate() {
                for b in &few[n + 1..] {
                    let is = |i: usize, kind: &str| {
                        found[i].what != What::Speaker && kinds[i] == Some(kind)
                    };
                    if is(*a, &rule.from) && is(*b, &rule.to) {
                        links.push((*a, *b, &rule.kind, false));
                    } else if is(*b, &rule.from) && is(*a, &rule.to) {
                        links.push((*b, *a, &rule.kind, false));
                    }
                }
            }
        }
    }

    /// Finds the relations that the words between two matches state.
    fn relate_by_words<'s>(
        &'s self,
        part: &Sentence<'_>,
        kinds: &mut [Option<&'s str>],
        links: &mut Vec<Stated<'s>>,
    ) {
        let Sentence {
            text,
            found,
            places: sentence,
            ..
        } = *part;
        let range = part.range.clone();
        let is_past = mood::is_past(&text[range.clone()]);
        // The relation before, whose subject the next one may omit.
        let mut last: Option<LastRelation<'_>> = None;
        for (&from, &to) in sentence.iter().zip(&sentence[1..]) {
            let between = &text[found[from].end..found[to].start];
            if between.len() > 80 {
                last = None;
                continue;
            }
            let words = phrase_words(between);
            let behind = after(text, &found[to], range.end);
            if found[to].what == What::Speaker {
                last = None;
                self.relate_couple(part, from, to, kinds, links);
                continue;
            }
            // The subject and the words of an omitted one.
            let mut subject = from;
            let mut words = words.as_slice();
            let mut is_omitted = false;
            if let Some(before) = last.take() {
                let since = &text[found[before.to].end..found[to].start];
                if before.moves && fits(&found[to], kinds[to], &before.rule.to) {
                    let ends = before.is_from && words.iter().eq(["to"]);
                    if ends || is_next_move(&phrase_words(since)) {
                        if let Some(link) = before.link.filter(|_| !ends) {
                            links[link].3 = true;
                        }
                        kinds[to] = Some(&before.rule.to);
                        if !mood::is_past(behind) {
                            links.push((before.subject, to, &before.rule.kind, false));
                        }
                        last = Some(LastRelation {
                            to,
                            link: links
                                .len()
                                .checked_sub(1)
                                .filter(|_| !mood::is_past(behind)),
                            is_from: false,
                            ..before
                        });
                        continue;
                    }
                }
                let marks = |word: &&String| matches!(word.as_str(), "," | ".");
                let comma = words.iter().take_while(marks).count();
                let rest = &words[comma..];
                match rest.first().map(String::as_str) {
                    // `Haifa, Israel`.
                    None if comma > 0 => {
                        last = Some(LastRelation { to, ..before });
                        continue;
                    }
                    Some("and" | "but") => {
                        (subject, words, is_omitted) = (before.subject, &rest[1..], true);
                    }
                    Some(_) if comma > 0 => {
                        (subject, words, is_omitted) = (before.subject, rest, true);
                    }
                    _ if found[to].what == What::BuiltIn(Find::Date) => {
                        last = Some(before);
                        continue;
                    }
                    _ => {}
                }
            }
            if !is_omitted && let Some(rest) = omitted_by_speaker(words, from, part) {
                (subject, words, is_omitted) = (sentence[0], rest, true);
            }
            let before = &text[range.start..found[subject].start.max(range.start)];
            let is_open = mood::is_open(before);
            let mut chosen: Option<(usize, &RelationRule, Claim)> = None;
            for rule in &self.relations {
                if rule.phrases.is_empty() {
                    continue;
                }
                let Some(claim) = claim(words, behind, rule) else {
                    continue;
                };
                let from = match (found[subject].what, part.subject) {
                    (What::Pronoun, None) => continue,
                    (What::Pronoun, Some(person)) => person,
                    _ => subject,
                };
                // A first word is a person, if anything.
                let is_person = self.person.as_deref() == Some(rule.from.as_str());
                let is_speaker = found[from].what == What::Speaker;
                let may_start = match claim.is_form {
                    // The forms of chats are about persons only.
                    true => is_person && (is_speaker || kinds[from] == Some(&rule.from)),
                    false => {
                        (is_person && found[from].what == What::Opening)
                            || fits(&found[from], kinds[from], &rule.from)
                    }
                };
                let name = &text[found[to].name.0..found[to].name.1];
                if !may_start || !self.may_end(rule, &found[to], kinds[to], name) {
                    continue;
                }
                // `Moved to Archive` without a subject needs a known place.
                let is_implied = is_speaker && found[from].start == found[from].end;
                if is_implied && claim.moves && !name_lists::is_place(name) {
                    continue;
                }
                // `Living in Rome is expensive` is about no one.
                let has = |verb: &str| words.iter().any(|word| word == verb);
                let is_gerund = (has("living") || has("working")) && !has("started");
                if is_implied && is_gerund && !is_end_of_clause(behind) {
                    continue;
                }
                // `I started at Finse` may be a walk.
                let starts = words.ends_with(&["started".to_owned(), "at".to_owned()]);
                let is_employer =
                    found[to].what == What::BuiltIn(Find::Organization) || behind.contains(" as a");
                if starts && claim.is_form && !is_employer {
                    continue;
                }
                // `left Rome` is about the place, if Rome is known to be one.
                let is_sure = kinds[to] == Some(rule.to.as_str());
                if chosen.is_none() || is_sure {
                    chosen = Some((from, rule, claim));
                }
                if is_sure {
                    break;
                }
            }
            let Some((from, rule, claim)) = chosen else {
                continue;
            };
            kinds[from] = Some(&rule.from);
            kinds[to] = Some(&rule.to);
            // The state of an open clause is not a fact, nor is an old event.
            let is_current = claim.ended || !(is_open && !is_omitted || claim.is_event && is_past);
            if is_current {
                links.push((from, to, &rule.kind, claim.ended));
            }
            last = Some(LastRelation {
                subject: from,
                to,
                rule,
                moves: claim.moves,
                is_from: claim.ended && words.last().is_some_and(|word| word == "from"),
                link: links.len().checked_sub(1).filter(|_| is_current),
            });
        }
    }

    /// Finds the relation in `Olga and I are divorced` and `Olga is my wife`.
    fn relate_couple<'s>(
        &'s self,
        part: &Sentence<'_>,
        from: usize,
        to: usize,
        kinds: &mut [Option<&'s str>],
        links: &mut Vec<Stated<'s>>,
    ) {
        let Sentence { text, found, .. } = *part;
        let behind = after(text, &found[to], part.range.end).to_lowercase();
        let behind = behind.replace('\u{2019}', "'");
        let words = phrase_words(&text[found[from].end..found[to].start]);
        let pronoun = &text[found[to].start..found[to].end];
        let form = match (
            words
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .as_slice(),
            pronoun,
        ) {
            (["and"], "I" | "i") => forms::of_couple(&behind),
            (["is"], "my") => {
                let mut rest = behind.split_whitespace();
                let spouse = rest.next().unwrap_or_default();
                let is_end = !spouse.ends_with(char::is_alphanumeric) || rest.next().is_none();
                match spouse.trim_end_matches(['.', ',', '!', ';']) {
                    "wife" | "husband" | "spouse" if is_end => Some(forms::Form::Begins),
                    "ex-wife" | "ex-husband" if is_end => Some(forms::Form::Ends),
                    _ => None,
                }
            }
            _ => None,
        };
        let rule = self.relations.iter().find(|rule| {
            forms::is_marriage(rule) && self.person.as_deref() == Some(rule.from.as_str())
        });
        let is_name = found[from].what == What::Opening
            || rule.is_some_and(|rule| fits(&found[from], kinds[from], &rule.from));
        if let (Some(form), Some(rule), true) = (form, rule, is_name) {
            kinds[from] = Some(&rule.to);
            links.push((to, from, &rule.kind, form == forms::Form::Ends));
        }
    }

    /// Returns true when a match can be the target of a rule.
    fn may_end(&self, rule: &RelationRule, to: &Found, kind: Option<&str>, name: &str) -> bool {
        let is = |find: Find| {
            let same = |matcher: &Matcher| matches!(matcher, Matcher::BuiltIn(of) if *of == find);
            let mut rules = self.entities.iter();
            rules.any(|(of, matcher)| *of == rule.to && same(matcher))
        };
        // `Google Cloud` is not a place, either.
        let first = name.split(' ').next().unwrap_or(name);
        let no_place = is(Find::Place)
            && (name_lists::is_product(first)
                || name_lists::is_company(first)
                || not_names::is_no_person(first));
        // `I left Ana at the station`, `I left Rome`.
        let no_employer = is(Find::Organization)
            && match to.what {
                What::BuiltIn(Find::Person) => name_lists::is_first_name(name),
                What::BuiltIn(Find::Place) => name_lists::is_place(name),
                _ => false,
            };
        !no_place && !no_employer && fits(to, kind, &rule.to)
    }
}

/// Returns the words of a relation whose subject is the speaker at the start of the
/// sentence: `I grew up in Oulu but now live in Turku`. `from` is the match before
/// the words.
fn omitted_by_speaker<'w>(
    words: &'w [String],
    from: usize,
    part: &Sentence<'_>,
) -> Option<&'w [String]> {
    let [first, second, ..] = *part.places else {
        return None;
    };
    let [link, rest @ ..] = words else {
        return None;
    };
    let is_speaker = part.found[first].what == What::Speaker && second == from;
    let is_first_person = rest
        .iter()
        .any(|word| matches!(word.as_str(), "live" | "work"));
    let between = &part.text[part.found[first].end..part.found[second].start];
    // Words that bring another subject.
    let others = |word: &String| {
        let word = word.as_str();
        matches!(
            word,
            "." | "that" | "my" | "our" | "their" | "who" | "they" | "you" | "friends"
        )
    };
    let joins = matches!(link.as_str(), "and" | "but");
    (is_speaker && is_first_person && joins && !phrase_words(between).iter().any(others))
        .then_some(rest)
}

/// A relation of a sentence that the words after it may continue.
struct LastRelation<'s> {
    subject: usize,
    to: usize,
    rule: &'s RelationRule,
    /// Whether its phrase is a move, such as `moved to`.
    moves: bool,
    /// Whether its phrase is a move away, such as `moved from`.
    is_from: bool,
    /// Its index in the relations, if it was stored.
    link: Option<usize>,
}

/// Returns true for the words between two places of a move: `in 2019 and then to`.
fn is_next_move(words: &[String]) -> bool {
    let Some((to, rest)) = words.split_last() else {
        return false;
    };
    let is_adverb = |word: &String| {
        let word = word.as_str();
        matches!(
            word,
            "and"
                | "then"
                | "later"
                | "afterwards"
                | "finally"
                | "now"
                | "on"
                | "back"
                | ","
                | "."
                | "recently"
                | "again"
                | "from"
                | "there"
                | "after"
                | "that"
                | "moved"
        )
    };
    let next = rest.iter().rev().take_while(|word| is_adverb(word)).count();
    let (time, next) = rest.split_at(rest.len() - next);
    let is_linked = next
        .iter()
        .any(|word| matches!(word.as_str(), "and" | "then" | "later"));
    let is_time = time.first().is_none_or(|first| {
        let first = first.as_str();
        matches!(
            first,
            "in" | "on" | "last" | "this" | "at" | "first" | "when" | "for"
        )
    });
    to == "to" && is_linked && is_time && time.len() <= 6
}

/// Returns the rest of a sentence after a match. A match of a custom pattern may
/// end after the sentence.
pub(crate) fn after<'t>(text: &'t str, found: &Found, end: usize) -> &'t str {
    text.get(found.end..end).unwrap_or_default()
}
