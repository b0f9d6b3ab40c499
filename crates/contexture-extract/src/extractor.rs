//! Compiled rules, and the steps of an extraction.

use std::collections::BTreeSet;
use std::fmt;

use contexture_words::sentences;

use crate::extracted::{Extracted, Gathered};
use crate::found::{Found, What};
use crate::keywords::best_keywords;
use crate::phrase::{BEFORE, NEGATIONS, without_adverbs};
use crate::relate::{Sentence, Stated, after};
use crate::rules::{Find, Matcher, RelationRule, RuleError, Rules};
use crate::{find, names};

/// The number of bytes of a text that are searched.
pub const MOST_BYTES: usize = 64 * 1024;

/// The type of a proper name without a sign of its type. It is used if a rule finds
/// persons.
pub const UNKNOWN: &str = "unknown";

/// Information about a text that is not part of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextContext<'k> {
    /// The speaker, to whom `I` and `we` refer.
    pub speaker: Option<&'k str>,
    /// Known names of people. They count as names even at the beginning of a
    /// sentence. Only names of one word have an effect.
    pub names: &'k [&'k str],
}

/// Compiled rules.
pub struct Extractor {
    pub(crate) entities: Vec<(String, Matcher)>,
    pub(crate) relations: Vec<RelationRule>,
    keywords: usize,
    /// The built-in detectors that the rules use.
    wanted: Vec<Find>,
    /// The type of persons, if a rule finds them.
    pub(crate) person: Option<String>,
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
}
