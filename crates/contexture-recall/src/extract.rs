//! Extracts entities, relations and keywords from text by rules. No model is
//! called, and the same text always gives the same result.
//!
//! Precision is more important than recall, because a stored entity is shown as a
//! fact. A capitalised word at the start of a sentence, a month or a language is
//! not a name. The first word of a sentence counts as a person where a relation of
//! persons follows it directly: `Alice lives in Paris`. A name without a sign of its
//! type has the type [`UNKNOWN`], unless a relation determines the type.
//!
//! `I` and `we` mean the speaker, also in `I'm` and `we've`. A sentence can omit the
//! subject of a second relation: `I live in Haifa and work at Intel`. An event of the
//! past is not a current relation: `In 2010 I moved to Rome`.
//!
//! `He` or `She` at the start of a sentence means the person of the sentence before,
//! if that sentence states one relation of one person and nothing else.
//!
//! The work is linear in the text and bounded: only the first [`MOST_BYTES`] are
//! read, and at most [`MOST_MENTIONS`] entities and [`MOST_LINKS`] relations are
//! returned.

mod find;
mod forms;
mod mood;
mod name_lists;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use contexture_words::words::counted_keywords;
use contexture_words::{name_key, sentences};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// The number of bytes of a text that are searched.
pub const MOST_BYTES: usize = 64 * 1024;

/// The maximum number of entities of a text.
pub const MOST_MENTIONS: usize = 64;

/// The maximum number of relations of a text.
pub const MOST_LINKS: usize = 64;

/// The maximum size of a custom regular expression, in bytes.
pub const MOST_PATTERN: usize = 1000;

/// The type of a proper name without a sign of its type. It is used if a rule finds
/// persons.
pub const UNKNOWN: &str = "unknown";

/// The extraction rules, as data from an archetype's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// The rules for entities. If two rules match the same place, the first one
    /// counts; proper names come last.
    pub entities: Vec<EntityRule>,
    /// The rules for relations.
    pub relations: Vec<RelationRule>,
    /// The maximum number of keywords; 0 extracts none.
    pub keywords: usize,
}

/// A rule that finds entities of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntityRule {
    /// The type of the entities that are found.
    #[serde(rename = "type")]
    pub kind: String,
    /// The built-in detector. A rule has either this or a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<Find>,
    /// A regular expression. The name is the match of its first group, or the
    /// whole match if it has no group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

/// The built-in detectors of entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Find {
    /// Proper names with a sign of a person: a common first name, a title, a
    /// kinship before it or a verb of speech after it.
    Person,
    /// Proper names after `in`, `near` or `moved to`, and well-known places.
    Place,
    /// Proper names after `works at` and such, well-known companies, and names that
    /// end with `Inc`, `University` or such.
    Organization,
    /// Paths and names of files.
    File,
    /// Functions that are called or defined: `parse()`, `fn parse`.
    Function,
    /// Identifiers in code form: `parse_http`, `parseHttp`, `http::parse`, and
    /// text in backticks.
    Symbol,
    /// Errors by their type or code: `TypeError`, `E0308`, `ENOENT`, a panic.
    Error,
    /// Web addresses.
    Url,
    /// Email addresses.
    Email,
    /// Dates: `2023-05-08`, `8 May 2023`, `May 8`.
    Date,
    /// Titles between quotation marks.
    Quoted,
    /// Numbers of issues and tickets: `#123`, `OPS-12`.
    NumberId,
    /// `#topics`.
    Hashtag,
}

impl Find {
    /// All detectors with their names.
    pub const ALL: &[(&str, Find)] = &[
        ("person", Find::Person),
        ("place", Find::Place),
        ("organization", Find::Organization),
        ("file", Find::File),
        ("function", Find::Function),
        ("symbol", Find::Symbol),
        ("error", Find::Error),
        ("url", Find::Url),
        ("email", Find::Email),
        ("date", Find::Date),
        ("quoted", Find::Quoted),
        ("number_id", Find::NumberId),
        ("hashtag", Find::Hashtag),
    ];

    fn is_name(self) -> bool {
        matches!(self, Find::Person | Find::Place | Find::Organization)
    }
}

/// A rule that relates two entities of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationRule {
    /// The type of the relation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The type of the source entity.
    pub from: String,
    /// The type of the target entity.
    pub to: String,
    /// The phrases between the two entities, such as `works at`. A proper name
    /// in either position is assumed to have the required type. Without
    /// phrases, two entities in the same sentence are enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<String>,
    /// The phrases between the two entities that end the relation, such as
    /// `left`, or state it for the past only, such as `lived in`. A phrase after
    /// `no longer` or `does not` ends the relation, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<String>,
    /// Whether an entity has at most one such relation. A new one then ends the
    /// old one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single: bool,
}

/// The entities, relations and keywords of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extracted {
    /// The entities in order of their first mention, each once.
    pub entities: Vec<Mention>,
    /// The relations between them, each once.
    pub relations: Vec<Link>,
    /// The keywords, in order of appearance.
    pub keywords: Vec<String>,
}

/// An entity that a text mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The type of the entity.
    pub kind: String,
    /// The name as it was first written.
    pub name: String,
}

/// A relation that a text states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The type of the relation.
    pub kind: String,
    /// The source: an index into [`Extracted::entities`].
    pub from: usize,
    /// The target: an index into [`Extracted::entities`].
    pub to: usize,
    /// Whether the text states that the relation has ended.
    pub ended: bool,
}

/// Information about a text that is not part of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextContext<'k> {
    /// The speaker, to whom `I` and `we` refer.
    pub speaker: Option<&'k str>,
    /// Known names of people. They count as names even at the beginning of a
    /// sentence. Only names of one word have an effect.
    pub names: &'k [&'k str],
}

/// An error in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The field with the error, such as `pattern`.
    pub field: &'static str,
    /// The description of the error.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for RuleError {}

fn wrong<T>(field: &'static str, message: impl Into<String>) -> Result<T, RuleError> {
    Err(RuleError {
        field,
        message: message.into(),
    })
}

impl EntityRule {
    /// Checks the rule: it has either a detector or a valid pattern.
    pub fn check(&self) -> Result<(), RuleError> {
        self.compile().map(|_| ())
    }

    fn compile(&self) -> Result<Matcher, RuleError> {
        if self.kind.trim().is_empty() {
            return wrong("type", "must not be empty");
        }
        match (self.find, &self.pattern) {
            (Some(find), None) => Ok(Matcher::BuiltIn(find)),
            (None, Some(pattern)) => {
                if pattern.len() > MOST_PATTERN {
                    let length = pattern.len();
                    let message = format!("has {length} bytes, more than {MOST_PATTERN}");
                    return wrong("pattern", message);
                }
                let regex = RegexBuilder::new(pattern)
                    .size_limit(1 << 20)
                    .dfa_size_limit(1 << 20)
                    .nest_limit(32)
                    .build();
                match regex {
                    Ok(regex) => Ok(Matcher::Pattern(regex)),
                    Err(error) => {
                        // The last line has the reason; the others draw the
                        // position.
                        let error = error.to_string();
                        let said = error.lines().last().unwrap_or_default();
                        let said = said.trim().trim_start_matches("error: ");
                        wrong("pattern", format!("is no regular expression: {said}"))
                    }
                }
            }
            (Some(_), Some(_)) => wrong("pattern", "cannot be combined with `find`"),
            (None, None) => wrong("find", "is missing, and so is `pattern`"),
        }
    }
}

enum Matcher {
    BuiltIn(Find),
    Pattern(Regex),
}

/// Compiled rules.
pub struct Extractor {
    entities: Vec<(String, Matcher)>,
    relations: Vec<RelationRule>,
    keywords: usize,
    /// The built-in detectors that the rules use.
    wanted: Vec<Find>,
    /// The type of persons, if a rule finds them.
    person: Option<String>,
    /// The words that can follow a person at the start of a relation.
    verbs: BTreeSet<String>,
}

impl fmt::Debug for Extractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.entities.iter().map(|(kind, _)| &**kind).collect();
        f.debug_struct("Extractor")
            .field("entities", &kinds)
            .finish_non_exhaustive()
    }
}

/// A match of a rule in the text.
#[derive(Debug, Clone)]
struct Found {
    start: usize,
    end: usize,
    /// The range of the name without surrounding quotation marks or brackets.
    name: (usize, usize),
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    BuiltIn(Find),
    /// The index of the rule.
    Rule(usize),
    /// A proper name without a sign of its type.
    Name,
    /// `I` or `we`, or `my` in `my wife`.
    Speaker,
    /// A word at the start of a sentence that may be a person.
    Opening,
    /// `He` or `She` at the start of a sentence.
    Pronoun,
}

/// A relation that a sentence states: the matches of its ends, its type, and
/// whether it has ended.
type Stated<'s> = (usize, usize, &'s str, bool);

impl Extractor {
    /// Compiles `rules`. Fails with the index of the first invalid rule and its
    /// error.
    pub fn new(rules: &Rules) -> Result<Self, (usize, RuleError)> {
        let entities = rules
            .entities
            .iter()
            .enumerate()
            .map(|(i, rule)| Ok((rule.kind.clone(), rule.compile().map_err(|why| (i, why))?)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut wanted: Vec<Find> = entities
            .iter()
            .filter_map(|(_, matcher)| match matcher {
                Matcher::BuiltIn(find) => Some(*find),
                Matcher::Pattern(_) => None,
            })
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let is_person = |matcher: &Matcher| matches!(matcher, Matcher::BuiltIn(Find::Person));
        let person = entities.iter().find(|(_, matcher)| is_person(matcher));
        let person = person.map(|(kind, _)| kind.clone());
        let of_persons = rules.relations.iter().filter(|rule| {
            let from = Some(rule.from.as_str());
            !rule.phrases.is_empty() && from == person.as_deref()
        });
        let mut verbs: BTreeSet<String> = of_persons
            .flat_map(|rule| rule.phrases.iter().chain(&rule.ends))
            .filter_map(|phrase| phrase.split(' ').next())
            .map(str::to_owned)
            .collect();
        if !verbs.is_empty() {
            let others = BEFORE.iter().chain(NEGATIONS);
            verbs.extend(others.map(|&word| word.to_owned()));
        }
        Ok(Self {
            entities,
            relations: rules.relations.clone(),
            keywords: rules.keywords,
            wanted,
            person,
            verbs,
        })
    }

    /// Returns the entities, relations and keywords that the rules find in
    /// `text`.
    pub fn extract(&self, text: &str, known: &TextContext<'_>) -> Extracted {
        let text = &text[..text.floor_char_boundary(MOST_BYTES)];
        let found = self.find(text, known);
        let mut gathered = Gathered::default();
        // Relations in words determine the type of a name, so they come before
        // the names are stored.
        let mut links: Vec<Stated<'_>> = Vec::new();
        let mut kinds: Vec<Option<&str>> = found.iter().map(|found| self.kind_of(found)).collect();
        let mut sentence = Vec::new();
        let mut at = 0;
        // The person to whom a pronoun in the next sentence refers.
        let mut subject = None;
        let ranges = if self.relations.is_empty() {
            Vec::new()
        } else {
            sentences(text).collect()
        };
        for range in ranges {
            sentence.clear();
            while at < found.len() && found[at].start < range.end {
                sentence.push(at);
                at += 1;
            }
            let before = links.len();
            if sentence.len() > 1 {
                let part = Sentence {
                    text,
                    range: range.clone(),
                    found: &found,
                    places: &sentence,
                    subject,
                };
                self.relate(&part, &mut kinds, &mut links);
            }
            subject = match links[before..] {
                [(from, to, ..)] if sentence.len() == 2 => {
                    let rest = after(text, &found[to], range.end).to_lowercase();
                    let is_all = !without_adverbs(&rest).contains(char::is_alphanumeric);
                    let is_person =
                        |i: usize| kinds[i].is_some() && kinds[i] == self.person.as_deref();
                    let is_other = found[from].what != What::Speaker && !is_person(to);
                    (is_all && is_person(from) && is_other).then_some(from)
                }
                _ => None,
            };
        }
        let mut places = vec![None; found.len()];
        for (i, found) in found.iter().enumerate() {
            let used = found.what != What::Speaker
                || links.iter().any(|(from, to, ..)| *from == i || *to == i);
            if let (Some(kind), true) = (kinds[i], used) {
                let name = match (found.what, known.speaker) {
                    (What::Speaker, Some(speaker)) => speaker,
                    _ => &text[found.name.0..found.name.1],
                };
                places[i] = gathered.mention(kind, name);
            }
        }
        for (from, to, kind, ended) in links {
            if let (Some(from), Some(to)) = (places[from], places[to]) {
                gathered.link(kind, from, to, ended);
            }
        }
        let Gathered {
            entities,
            relations,
            ..
        } = gathered;
        Extracted {
            entities,
            relations,
            keywords: best_keywords(text, self.keywords),
        }
    }

    /// Returns the matches in order, without overlaps.
    fn find(&self, text: &str, known: &TextContext<'_>) -> Vec<Found> {
        let mut found = Vec::new();
        let names = self.wanted.iter().any(|find| find.is_name())
            || self.relations.iter().any(|rule| !rule.phrases.is_empty());
        for (i, (_, matcher)) in self.entities.iter().enumerate() {
            if let Matcher::Pattern(regex) = matcher {
                find::pattern(text, regex, i, &mut found);
            }
        }
        if !self.wanted.is_empty() || names {
            find::built_in(text, &self.wanted, &mut found);
        }
        if names {
            names::names(text, known, &self.verbs, &mut found);
        }
        // Of two matches with the same start, the longer one wins; then one
        // that is not only a proper name; then the first rule. A match within
        // another one is removed.
        found.sort_by_key(|found| {
            let (is_name, rule) = match found.what {
                What::Rule(i) => (false, Some(i)),
                What::BuiltIn(find) => (find.is_name(), self.rule_of(found)),
                What::Name | What::Speaker | What::Opening | What::Pronoun => (true, None),
            };
            let rule = rule.unwrap_or(usize::MAX);
            (found.start, std::cmp::Reverse(found.end), is_name, rule)
        });
        let mut end = 0;
        found.retain(|found| {
            let free = found.start >= end;
            if free {
                end = found.end;
            }
            free
        });
        found
    }

    fn rule_of(&self, found: &Found) -> Option<usize> {
        let What::BuiltIn(find) = found.what else {
            return None;
        };
        let same = |matcher: &Matcher| matches!(matcher, Matcher::BuiltIn(known) if *known == find);
        self.entities.iter().position(|(_, matcher)| same(matcher))
    }

    fn kind_of(&self, found: &Found) -> Option<&str> {
        let rule = match found.what {
            What::Rule(i) => Some(i),
            What::BuiltIn(_) => self.rule_of(found),
            // The speaker is a person.
            What::Speaker => return self.person.as_deref(),
            What::Name => return self.person.as_deref().map(|_| UNKNOWN),
            What::Opening | What::Pronoun => None,
        };
        rule.map(|i| self.entities[i].0.as_str())
    }

    /// Finds the relations between the matches of one sentence.
    fn relate<'s>(
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
                || names::is_no_person(first));
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

/// What the words between two mentions say about a relation.
#[derive(Clone, Copy)]
struct Claim {
    ended: bool,
    /// Whether it is an event, which may be long ago: `moved to`.
    is_event: bool,
    moves: bool,
    /// Whether a form of chats states it, not a phrase of the rule.
    is_form: bool,
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
fn claim(words: &[String], behind: &str, rule: &RelationRule) -> Option<Claim> {
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
fn after<'t>(text: &'t str, found: &Found, end: usize) -> &'t str {
    text.get(found.end..end).unwrap_or_default()
}

/// The matches of a sentence.
struct Sentence<'t> {
    text: &'t str,
    range: Range<usize>,
    found: &'t [Found],
    /// The indices of its matches.
    places: &'t [usize],
    /// The person to whom a pronoun at its start refers.
    subject: Option<usize>,
}

/// Returns true when a match can have a type: it has the type, or it is a
/// proper name without a certain type.
fn fits(found: &Found, kind: Option<&str>, asked: &str) -> bool {
    let is_name = match found.what {
        What::BuiltIn(find) => find.is_name(),
        What::Name => true,
        _ => false,
    };
    kind == Some(asked) || is_name
}

/// Words before and after a phrase that do not change its meaning.
const BEFORE: &[&str] = &[
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
const NEGATIONS: &[&str] = &[
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
fn phrase_words(between: &str) -> Vec<String> {
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

fn is_phrase(words: &[String], phrase: &str) -> bool {
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
fn is_end(words: &[String], behind: &str, rule: &RelationRule) -> bool {
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
fn without_adverbs(behind: &str) -> &str {
    let mut rest = behind.trim_start();
    for word in ANY_MORE.iter().chain(&["right now", "now", "either"]) {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.trim_start()
}

/// Returns true when a clause ends after a mention, or goes on only with words
/// such as `anymore` and `now`.
fn is_end_of_clause(behind: &str) -> bool {
    let lower = behind.to_lowercase();
    let rest = without_adverbs(&lower);
    rest.is_empty() || rest.starts_with(['.', ',', ';', '!']) || rest.starts_with("but ")
}

/// Entities and relations without duplicates.
#[derive(Default)]
struct Gathered {
    entities: Vec<Mention>,
    relations: Vec<Link>,
    places: BTreeMap<(String, String), usize>,
}

impl Gathered {
    fn mention(&mut self, kind: &str, name: &str) -> Option<usize> {
        let key = (kind.to_owned(), name_key(name));
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        if self.entities.len() >= MOST_MENTIONS {
            return None;
        }
        let place = self.entities.len();
        self.entities.push(Mention {
            kind: kind.to_owned(),
            name: name.split_whitespace().collect::<Vec<_>>().join(" "),
        });
        self.places.insert(key, place);
        Some(place)
    }

    fn link(&mut self, kind: &str, from: usize, to: usize, ended: bool) {
        let link = Link {
            kind: kind.to_owned(),
            from,
            to,
            ended,
        };
        let full = self.relations.len() >= MOST_LINKS;
        if from != to && !full && !self.relations.contains(&link) {
            self.relations.push(link);
        }
    }
}

/// Returns the repeated or special words, in order of appearance.
fn best_keywords(text: &str, most: usize) -> Vec<String> {
    if most == 0 {
        return Vec::new();
    }
    let all = counted_keywords(text, false);
    let is_special = |word: &str| word.contains(['_', '-', '.']);
    let parts: BTreeSet<&str> = all
        .iter()
        .filter(|(keyword, _)| is_special(&keyword.word))
        .flat_map(|(keyword, _)| keyword.word.split(['_', '-', '.']))
        .collect();
    let mut ranked: Vec<(u32, usize, &str)> = all
        .iter()
        .enumerate()
        // A compound is enough as a keyword; its parts serve only for search.
        .filter(|(_, (keyword, _))| !parts.contains(keyword.word.as_str()))
        .map(|(place, (keyword, count))| {
            let length = keyword.word.chars().count();
            let worth = count.min(&8) * 2
                + u32::from(is_special(&keyword.word)) * 2
                + u32::from(length >= 7)
                + u32::from(length >= 4);
            (worth, place, keyword.word.as_str())
        })
        .collect();
    ranked.sort_by_key(|(worth, place, _)| (std::cmp::Reverse(*worth), *place));
    ranked.truncate(most);
    ranked.sort_by_key(|(_, place, _)| *place);
    ranked
        .into_iter()
        .map(|(_, _, word)| word.to_owned())
        .collect()
}
