//! The five channels of a recall: recent events, texts that match the query,
//! entities, relations and patterns.
//!
//! Each channel scores its candidates; `layers.rs` turns them into layers for
//! the fit.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
// The set is never iterated, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashSet;

use contexture_recall::{Hit, Scores, Slot, Strategy, best, best_hits, hits};
use contexture_store::{ConditionKind, Outcome, RecordKey, RecordKind};
use contexture_time::Order;

use crate::admission::Admission;
use crate::alike::{Alike, Author, Distinct};
use crate::context::Channel;
use crate::facts::Facts;
use crate::found_lines::KeyHash;
use crate::query::Query;
use crate::score::{EVENT_SALIENCE, Part, Parts, ScoreParts, recency};
use crate::time::DAY;
use crate::view::{Pattern, Text, Validity, View};

/// The score bonus of a recent event in the current session.
const SESSION_BONUS: f64 = 0.1;

/// The number of the session's latest events that are candidates.
const LATEST: usize = 50;

/// The number of other sessions, and of events of each, that are candidates.
const SESSIONS: usize = 5;
const HIGHLIGHTS: usize = 3;

/// The number of most salient entities that are candidates.
const SALIENT: usize = 10;

/// The score bonus of a standing instruction, relative to the weight of
/// vectors.
const INSTRUCTION: f32 = 0.375;

/// The number of standing instructions that get the bonus: those that match
/// best.
const MOST_INSTRUCTIONS: usize = 128;

/// The minimum distance of a standing instruction below the texts with words of
/// the query, unless it has such words itself.
const BELOW: f32 = 0.001;

/// The factor of a text of another speaker than the query names, unless the name
/// is in its session.
const STRANGER: f64 = 0.35;

/// The factor of each further text of one day, relative to the text before,
/// when a query compares times; and the number of texts it applies to.
const SAME_DAY: f64 = 0.9;
const MOST_SAME_DAY: i32 = 4;

/// The bonus of the earliest or the latest text when a query asks for it.
const END: f64 = 0.2;

/// The same bonus when no text has a word of the query. It halves with each
/// text before, so that the order decides and not the match.
const END_ALONE: f64 = 64.0;

/// All texts of a memory are ranked if it has at most this many times the wanted
/// number.
const SMALL: usize = 3;

/// The maximum number of relations that are followed.
const MOST_RELATIONS: usize = 1_000;

/// A record that a channel found.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) channel: Channel,
    pub(crate) key: RecordKey,
    pub(crate) kind: RecordKind,
    /// The score that the candidate is ranked by.
    pub(crate) score: f64,
    /// The parts of the score, by name.
    pub(crate) parts: ScoreParts,
    pub(crate) at: i64,
    /// The number of the session.
    pub(crate) run: Option<u32>,
    /// Whose text it is.
    pub(crate) author: Author,
    /// How well the text fits the times that the query names, from 0.
    pub(crate) in_time: u8,
    // The score of one unit of relevance.
    weight: f64,
    // The part of the relevance that a standing instruction has for being one.
    raised: f64,
}

impl Candidate {
    /// Returns an event that has no record, with the highest score.
    pub(crate) fn new_event(at: i64) -> Self {
        let mut parts = ScoreParts::default();
        parts.add(Part::New, 1.0);
        Self {
            channel: Channel::Recent,
            // No record has this key.
            key: RecordKey::MIN,
            kind: RecordKind::Event,
            score: 1.0,
            parts,
            at,
            run: None,
            author: Author::default(),
            in_time: 0,
            weight: 0.0,
            raised: 0.0,
        }
    }

    /// Removes the bonus of a standing instruction.
    pub(crate) fn drop_instruction(&mut self) {
        let raised = std::mem::take(&mut self.raised);
        self.parts.remove(Part::Instruction);
        self.lower(raised);
    }

    /// Lowers the relevance.
    fn lower(&mut self, by: f64) {
        self.parts.change(Part::Relevance, -by);
        self.score = (self.score - by * self.weight).max(0.0);
    }

    /// Returns true for events and chunks.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.kind, RecordKind::Event | RecordKind::Chunk)
    }
}

/// Returns two lists of hits as one, best first. The first one is sorted like that.
fn merged(sorted: Vec<Hit>, others: Vec<Hit>) -> Vec<Hit> {
    let mut merged = Vec::with_capacity(sorted.len() + others.len());
    let others = others.into_iter().map(|hit| (hit.relevance(), hit));
    let mut others: Vec<(f32, Hit)> = others.collect();
    // The order of `best`.
    let compare = |a: (f32, &Hit), b: (f32, &Hit)| b.0.total_cmp(&a.0).then(b.1.key.cmp(&a.1.key));
    others.sort_by(|a, b| compare((a.0, &a.1), (b.0, &b.1)));
    let mut others = others.into_iter().peekable();
    for hit in sorted {
        if others.peek().is_some() {
            let own = (hit.relevance(), &hit);
            let is_better = |other: &(f32, Hit)| compare((other.0, &other.1), own).is_lt();
            while let Some((_, other)) = others.next_if(is_better) {
                merged.push(other);
            }
        }
        merged.push(hit);
    }
    merged.extend(others.map(|(_, hit)| hit));
    merged
}

/// The candidates of all channels.
#[derive(Debug, Default)]
pub(crate) struct ChannelResults {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) events: usize,
    pub(crate) entities: usize,
    pub(crate) searched: usize,
    /// The number of further texts like a found one, by its key.
    pub(crate) duplicates: BTreeMap<RecordKey, Alike>,
    /// The number of further texts that may be returned and rank below the
    /// candidates.
    pub(crate) lower: usize,
    /// Whether no text matches the query.
    pub(crate) unmatched: bool,
}

/// The results of all channels, before the texts become candidates.
#[derive(Debug)]
pub(crate) struct Found {
    texts: Distinct,
    // The results of the channel of recent events.
    recent: ChannelResults,
    // The results of the channels of entities, relations and patterns.
    others: ChannelResults,
}

impl Found {
    /// Returns the keys of the candidates for a search of up to `most` texts,
    /// and whether each is a relation.
    pub(crate) fn keys(&self, most: usize) -> impl Iterator<Item = (RecordKey, bool)> + Clone {
        let hits = self.texts.hits.iter().take(most).map(|hit| hit.key);
        let series = self.texts.series.iter().map(|(hit, _)| hit.key);
        let others = self.recent.candidates.iter().chain(&self.others.candidates);
        let others = others.map(|one| (one.key, one.kind == RecordKind::Relation));
        hits.chain(series).map(|key| (key, false)).chain(others)
    }
}

/// Searches all channels.
pub(crate) struct ChannelSearch<'a> {
    pub(crate) view: &'a View,
    pub(crate) query: &'a Query,
    pub(crate) admission: &'a Admission<'a>,
    pub(crate) strategy: &'a Strategy,
    pub(crate) session: Option<&'a str>,
    /// The maximum number of texts.
    pub(crate) most: usize,
    pub(crate) now: i64,
    /// True if no text matches the query, as far as is known.
    pub(crate) unmatched: bool,
    /// The types of relations of which an entity can have only one.
    pub(crate) single: &'a BTreeSet<String>,
    /// Whether a session has a text by or about a speaker of the query, as far as
    /// it was checked.
    pub(crate) sessions: RefCell<BTreeMap<u32, bool>>,
    /// All texts that match, by descending match, once they were ranked. All
    /// searches have the same scores.
    pub(crate) ranked: OnceCell<Vec<Hit>>,
    /// The standing instructions that match best, with their bonus.
    pub(crate) instructions: OnceCell<Vec<Hit>>,
}

impl ChannelSearch<'_> {
    /// Finds the texts for these scores, and the candidates of the other channels.
    pub(crate) fn find(&mut self, scores: &Scores) -> Found {
        let texts = self.hits(scores);
        self.unmatched = self.is_unmatched(&texts.hits);
        self.with_others(texts, scores)
    }

    /// Finds up to `most` texts with the scores that found the others.
    pub(crate) fn find_more(&mut self, most: usize, scores: &Scores, found: Found) -> Found {
        self.most = most;
        let texts = self.hits(scores);
        let unmatched = self.is_unmatched(&texts.hits);
        if unmatched != self.unmatched {
            self.unmatched = unmatched;
            return self.with_others(texts, scores);
        }
        Found { texts, ..found }
    }

    /// Returns true if the query has something to search for, and none of the texts
    /// matches it.
    fn is_unmatched(&self, hits: &[Hit]) -> bool {
        !self.query.is_blank() && !hits.is_empty() && hits.iter().all(Hit::is_faint)
    }

    /// Adds the candidates of the other channels to texts.
    fn with_others(&self, texts: Distinct, scores: &Scores) -> Found {
        let mut recent = ChannelResults {
            searched: match self.query.is_blank() {
                true => 0,
                false => self.view.index.len(),
            },
            unmatched: self.unmatched,
            ..ChannelResults::default()
        };
        let mut others = ChannelResults::default();
        let budget = &self.strategy.budget;
        let wants = |percent: f64| percent > 0.0;
        // Texts without any match are shown as recent, not as relevant.
        if wants(budget.recent) || self.query.is_blank() {
            self.recent(scores, &mut recent);
        }
        let entities = self.entities(&mut others);
        if wants(budget.relations) {
            self.relations(&entities, &mut others);
        }
        if wants(budget.patterns) {
            self.patterns(&mut others);
        }
        Found {
            texts,
            recent,
            others,
        }
    }

    /// Returns true if further texts may be returned that rank below the found
    /// ones.
    pub(crate) fn has_lower(&self, found: &Found) -> bool {
        let Distinct {
            hits,
            series,
            alike,
        } = &found.texts;
        let recent = found.recent.candidates.iter();
        let offered: BTreeSet<RecordKey> = recent.map(|one| one.key).collect();
        let represented = alike
            .values()
            .flat_map(|one| one.same.iter().chain(&one.like));
        let hidden = represented.filter(|key| !offered.contains(key)).count();
        self.admission.count() > hits.len().min(self.most) + series.len() + hidden
    }

    /// Returns the candidates of all channels.
    pub(crate) fn results(&self, found: Found) -> ChannelResults {
        let Found {
            texts,
            recent: mut results,
            others,
        } = found;
        self.texts(texts, &mut results);
        results.candidates.extend(others.candidates);
        results.entities = others.entities;
        results
    }

    /// Finds the latest events of this session, and notable events of earlier
    /// sessions.
    fn recent(&self, scores: &Scores, found: &mut ChannelResults) {
        let view = self.view;
        let session = self.session.and_then(|session| view.symbol(session));
        let mut slots: Vec<Slot> = Vec::new();
        if let Some(session) = self.session {
            slots.extend(self.latest_of(session));
        }
        for other in view.latest_sessions(session, SESSIONS) {
            let mut latest: Vec<Slot> = self.latest_of(view.name_of(other)).collect();
            latest.sort_by(|&a, &b| self.notability(b).total_cmp(&self.notability(a)));
            slots.extend(latest.into_iter().take(HIGHLIGHTS));
        }
        found.events += slots.len();
        let texts = slots.iter().map(|slot| (*slot, self.bonus(scores, *slot)));
        for hit in hits(&view.index, scores, texts) {
            let mut candidate = self.text(Channel::Recent, &hit);
            let here = |text: &Text| text.session().is_some() && text.session() == session;
            if let Some(candidate) = &mut candidate
                && view.text(hit.slot).is_some_and(here)
            {
                // Of two equally recent events, the one of this session ranks
                // higher.
                candidate.parts.add(Part::Session, SESSION_BONUS);
                candidate.score += SESSION_BONUS;
            }
            found.candidates.extend(candidate);
        }
    }

    /// Returns the latest events of a session that may be returned, latest
    /// first.
    fn latest_of(&self, session: &str) -> impl Iterator<Item = Slot> + '_ {
        let run = self.view.index.run(session).iter().rev().copied();
        let is_event = |slot: &Slot| {
            let text = self.view.text(*slot);
            text.is_some_and(|text| text.kind == RecordKind::Event)
        };
        run.filter(is_event)
            .filter(|&slot| self.admission.text(slot))
            .take(LATEST)
    }

    /// Returns how notable an event is in its session: its outcome, and the
    /// number of entities it mentions.
    fn notability(&self, slot: Slot) -> f64 {
        self.view.text(slot).map_or(0.0, |text| {
            let ended = f64::from(u8::from(text.outcome.is_some()));
            ended + self.view.mentions(text).len().min(4) as f64 / 8.0
        })
    }

    /// Returns the texts by descending match, each content once, and the number
    /// of duplicates of each. Texts without a match come last, the latest
    /// first.
    fn hits(&self, scores: &Scores) -> Distinct {
        let view = self.view;
        let most_bonus = self.query.most_bonus(scores.vector_weight);
        // Most queries name nothing that adds a bonus.
        let bonus = |slot| match most_bonus > 0.0 {
            true => self.bonus(scores, slot),
            false => 0.0,
        };
        let mut most = self.most;
        loop {
            let admit = |slot| self.admission.text(slot);
            let rank = |most| best(&view.index, scores, most, most_bonus, bonus, admit);
            // A small memory is ranked once, however many texts are wanted.
            let slots = view.index.slots();
            let is_small = !scores.are_estimates() && slots / SMALL <= most;
            let mut found = match is_small {
                true => {
                    let ranked = self.ranked.get_or_init(|| rank(slots));
                    ranked[..ranked.len().min(most)].to_vec()
                }
                false => rank(most),
            };
            self.raise_instructions(&mut found, scores);
            if found.len() < most {
                self.add_latest(&mut found, scores, most);
            }
            let all = found.len() < most;
            let distinct = Distinct::of(&found, view, self.query);
            // Many identical texts must not displace the others.
            if all || distinct.hits.len() * 2 >= self.most {
                return distinct;
            }
            most = most.saturating_mul(8);
        }
    }

    /// Returns the bonus of a text for its speaker, its times and its aliases.
    fn bonus(&self, scores: &Scores, slot: Slot) -> f32 {
        let text = self.view.text(slot);
        let weight = scores.vector_weight;
        text.map_or(0.0, |text| self.query.bonus(self.view, text, weight))
    }

    /// Adds texts without a match, the latest first.
    fn add_latest(&self, found: &mut Vec<Hit>, scores: &Scores, most: usize) {
        let mut is_known = vec![false; self.view.index.slots()];
        found
            .iter()
            .for_each(|hit| is_known[hit.slot as usize] = true);
        let is_known = |slot: &Slot| is_known[*slot as usize];
        let latest = self.view.latest(self.now);
        let others = latest.filter(|slot| !is_known(slot) && self.admission.text(*slot));
        let others = others.take(most - found.len()).map(|slot| (slot, 0.0));
        found.extend(hits(&self.view.index, scores, others));
    }

    /// Adds the bonus of standing instructions, which apply to queries that
    /// share no word with them.
    #[allow(clippy::disallowed_types)]
    fn raise_instructions(&self, found: &mut Vec<Hit>, scores: &Scores) {
        let raised_by = scores.vector_weight * INSTRUCTION;
        let raised = self
            .instructions
            .get_or_init(|| self.raised(scores, raised_by));
        if raised.is_empty() {
            return;
        }
        let mut raised = raised.clone();
        let slots: HashSet<Slot, KeyHash> = raised.iter().map(|hit| hit.slot).collect();
        found.retain(|hit| !slots.contains(&hit.slot));
        // Texts with words of the query come first, if there are any. The best of
        // them is the first one.
        let asked = found.iter().find(|hit| hit.words > 0.0);
        if let Some(best) = asked.map(Hit::relevance) {
            for hit in &mut raised {
                hit.lower_to(best - BELOW, raised_by);
            }
        }
        *found = merged(std::mem::take(found), raised);
    }

    /// Returns the standing instructions that match best, with their bonus.
    fn raised(&self, scores: &Scores, raised_by: f32) -> Vec<Hit> {
        let view = self.view;
        let instructions = view.instructions();
        let instructions = instructions.filter(|slot| self.admission.text(*slot));
        // A memory may have very many instructions, and most queries name nothing
        // that adds a bonus.
        let has_bonus = self.query.most_bonus(scores.vector_weight) > 0.0;
        let bonus = |slot: Slot| match has_bonus {
            true => self.bonus(scores, slot),
            false => 0.0,
        };
        let texts = instructions.map(|slot| (slot, bonus(slot) + raised_by));
        best_hits(&view.index, scores, MOST_INSTRUCTIONS, texts)
    }

    /// Adds the texts as candidates, and counts those that rank below them.
    fn texts(&self, distinct: Distinct, found: &mut ChannelResults) {
        let channel = match self.unmatched || self.query.is_blank() {
            true => Channel::Recent,
            false => Channel::Semantic,
        };
        let Distinct {
            hits,
            series,
            alike,
        } = distinct;
        let hits = &hits[..hits.len().min(self.most)];
        // Another channel may offer a represented text by itself.
        let offered: BTreeSet<RecordKey> = found.candidates.iter().map(|one| one.key).collect();
        let alike = alike.into_iter();
        let alike = alike.map(|(key, represented)| (key, represented.counted(&offered)));
        found.duplicates = alike.collect();
        let others: usize = found.duplicates.values().map(Alike::others).sum();
        let listed = hits.len() + series.len() + others;
        found.lower = self.admission.count().saturating_sub(listed);
        found.events += hits.len() + series.len();
        let factors = self.order_factors(hits);
        found.candidates.reserve(hits.len() + series.len());
        let candidates = hits.iter().zip(factors).filter_map(|(hit, factor)| {
            let mut candidate = self.text(channel, hit)?;
            if factor != 1.0 {
                candidate.parts.add(Part::BoostOrder, factor);
                candidate.score *= factor;
                candidate.weight *= factor;
            }
            Some(candidate)
        });
        found.candidates.extend(candidates);
        let further = series.iter().filter_map(|(hit, factor)| {
            let mut candidate = self.text(channel, hit)?;
            // A bonus, such as that for a time, stays.
            let by = (1.0 - factor) * f64::from(Hit { bonus: 0.0, ..*hit }.relevance());
            candidate.parts.add(Part::Series, -by);
            candidate.lower(by);
            Some(candidate)
        });
        found.candidates.extend(further);
    }

    /// Returns a factor for each hit when the query is about the order of
    /// events. A comparison needs several days, so each further text of a day
    /// counts less. Among the texts that match well, the earliest or the latest
    /// counts more when the query asks for it.
    fn order_factors(&self, hits: &[Hit]) -> Vec<f64> {
        let mut factors = vec![1.0; hits.len()];
        let reading = &self.query.times.reading;
        let at = |hit: &Hit| self.view.text(hit.slot).map_or(0, |text| text.at);
        if reading.compares {
            let mut of_day: BTreeMap<i64, i32> = BTreeMap::new();
            for (hit, factor) in hits.iter().zip(&mut factors) {
                let before = of_day.entry(at(hit).div_euclid(DAY)).or_default();
                *factor *= SAME_DAY.powi((*before).min(MOST_SAME_DAY));
                *before += 1;
            }
        } else if let Some(order) = reading.order {
            let best = hits.iter().map(Hit::relevance).fold(0.0, f32::max);
            // `What was the first thing I did?` asks only for the order.
            let by_words = hits.iter().any(|hit| hit.words > 0.0);
            let is_good =
                |hit: &Hit| !by_words || (!hit.is_faint() && hit.relevance() >= best / 2.0);
            let mut good: Vec<(i64, usize)> = (hits.iter().enumerate())
                .filter(|(_, hit)| is_good(hit))
                .map(|(i, hit)| (at(hit), i))
                .collect();
            good.sort_unstable();
            if order == Order::Latest {
                good.reverse();
            }
            let last = good.len().saturating_sub(1).max(1) as f64;
            for (place, (_, i)) in good.into_iter().enumerate() {
                factors[i] *= match by_words {
                    true => 1.0 + END * (1.0 - place as f64 / last),
                    false => 1.0 + END_ALONE * 0.5_f64.powf(place as f64),
                };
            }
        }
        factors
    }

    fn text(&self, channel: Channel, hit: &Hit) -> Option<Candidate> {
        let text = self.view.text(hit.slot)?;
        let mut parts = self.parts();
        parts.note(Part::Words, f64::from(hit.words));
        parts.note(Part::Vector, f64::from(hit.vector));
        if hit.vector > 0.0 {
            parts.note(Part::VectorWeight, f64::from(hit.vector_weight));
        }
        if hit.run > 0.0 {
            parts.note(Part::Run, f64::from(hit.run));
        }
        let own_bonus = || self.query.bonus(self.view, text, hit.vector_weight);
        let bonus = match hit.bonus > 0.0 {
            true => own_bonus().min(hit.bonus),
            false => hit.bonus,
        };
        if bonus > 0.0 {
            parts.note(Part::Bonus, f64::from(bonus));
        }
        let mut raised = 0.0;
        if hit.bonus - bonus > 1e-6 {
            parts.note(Part::Instruction, f64::from(hit.bonus - bonus));
            let plain = Hit { bonus, ..*hit };
            raised = f64::from(hit.relevance() - plain.relevance());
        }
        parts.weigh(
            recency(self.now, text.at),
            f64::from(hit.relevance()),
            EVENT_SALIENCE,
        );
        let weighed = parts.score;
        if channel == Channel::Semantic && self.is_by_stranger(hit.slot, text) {
            parts.boost(Part::BoostSpeaker, STRANGER);
        }
        if self.strategy.boosts {
            let matched = self.matched(hit);
            parts.boost(Part::BoostKeywords, 1.0 + 0.1 * matched);
            if (0..DAY).contains(&self.now.saturating_sub(text.at)) {
                parts.boost(Part::BoostFresh, 1.2);
            }
            match text.outcome {
                Some(Outcome::Success) => parts.boost(Part::BoostOutcome, 1.2),
                Some(Outcome::Failure) => parts.boost(Part::BoostOutcome, 0.8),
                _ => {}
            }
            let types = &self.query.signals.relevant_event_types;
            if types.contains(&self.view.name_of(text.event_type)) {
                parts.boost(Part::BoostIntent, 1.1);
            }
        }
        let boosts = match weighed > 0.0 {
            true => parts.score / weighed,
            false => 1.0,
        };
        Some(Candidate {
            channel,
            key: hit.key,
            kind: text.kind,
            at: text.at,
            run: text.session(),
            score: parts.score,
            parts: parts.parts,
            author: Author::of(text),
            in_time: self.query.in_time(text),
            weight: self.strategy.relevance_weight * boosts,
            raised,
        })
    }

    /// Returns true if the query names speakers, and a text has nothing to do
    /// with any of them: another speaker said it, and its session has neither a
    /// text of one of them nor a text with the name.
    fn is_by_stranger(&self, slot: Slot, text: &Text) -> bool {
        let named = &self.query.speakers;
        let Some(speaker) = text.speaker().filter(|_| !named.is_empty()) else {
            return false;
        };
        if named.contains(&speaker) || self.query.is_named_in(slot) {
            return false;
        }
        let Some(session) = text.session() else {
            return true;
        };
        let view = self.view;
        let takes_part = || {
            // Hidden texts have no effect.
            let run = view.index.run(view.name_of(session)).iter();
            let mut run = run.filter(|slot| self.admission.text(**slot));
            run.any(|&slot| {
                let speaker = view.text(slot).and_then(Text::speaker);
                speaker.is_some_and(|who| named.contains(&who)) || self.query.is_named_in(slot)
            })
        };
        !*self
            .sessions
            .borrow_mut()
            .entry(session)
            .or_insert_with(takes_part)
    }

    /// Recency counts when the query asks for it, and when the query is empty.
    fn parts(&self) -> Parts {
        let asked = self.query.signals.recent || self.query.is_blank() || self.unmatched;
        Parts::new(self.strategy, asked)
    }

    /// Returns about how many of the query's words a text has.
    fn matched(&self, hit: &Hit) -> f64 {
        (f64::from(hit.words) * self.query.terms.len() as f64).min(5.0)
    }

    /// Finds the entities that the query mentions, and the most salient ones.
    fn entities(&self, found: &mut ChannelResults) -> Vec<RecordKey> {
        let view = self.view;
        let mut keys = self.query.entities.clone();
        let mentioned = keys.len();
        if self.strategy.salience_weight > 0.0 || self.query.is_blank() || self.unmatched {
            let admitted = |key: &RecordKey| self.admission.entity(*key) && !keys.contains(key);
            let salient: Vec<RecordKey> = view.salient().filter(admitted).take(SALIENT).collect();
            keys.extend(salient);
        }
        found.entities = keys.len();
        if self.strategy.budget.entities <= 0.0 {
            return keys;
        }
        for (i, &key) in keys.iter().enumerate() {
            let Some(entity) = view.entities.get(&key) else {
                continue;
            };
            // The bare name of a derived entity has no information for a model.
            if !entity.given {
                continue;
            }
            let is_mentioned = i < mentioned;
            let mut parts = self.parts();
            let salience = View::salience(entity);
            parts.note(Part::Confidence, entity.confidence);
            let relevance = if is_mentioned { 1.0 } else { 0.0 };
            parts.weigh(0.0, relevance * entity.confidence, salience);
            if is_mentioned {
                parts.boost(Part::BoostMentioned, 2.0);
            }
            found.candidates.push(Candidate {
                channel: Channel::Entity,
                key,
                kind: RecordKind::Entity,
                score: parts.score,
                parts: parts.parts,
                at: 0,
                run: None,
                author: Author::default(),
                in_time: 0,
                weight: 0.0,
                raised: 0.0,
            });
        }
        keys
    }

    /// Returns the relations of an entity, the strongest first.
    fn strongest_of(&self, entity: RecordKey) -> Vec<RecordKey> {
        let mut keys: Vec<RecordKey> = self.view.relations_of(entity).into_iter().collect();
        let weight = |key: &RecordKey| self.view.relations[key].weight;
        keys.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.cmp(b)));
        keys
    }

    /// Finds the relations of the entities, breadth first, each relation once.
    fn relations(&self, entities: &[RecordKey], found: &mut ChannelResults) {
        let view = self.view;
        let mut reached: BTreeSet<RecordKey> = entities.iter().copied().collect();
        let mut seen: BTreeSet<RecordKey> = BTreeSet::new();
        let mut followed = 0;
        let mut frontier = entities.to_vec();
        let mut facts = Facts::new(view, self.admission, self.single);
        for depth in 0..self.strategy.depth_limit {
            let mut next = Vec::new();
            for entity in frontier {
                for key in self.strongest_of(entity) {
                    if followed >= MOST_RELATIONS || !seen.insert(key) {
                        continue;
                    }
                    let Some(relation) = view.relations.get(&key) else {
                        continue;
                    };
                    let ends = [&relation.source_id, &relation.target_id];
                    let ends = ends.map(|end| view.entity_at(end));
                    if !self.admission.relation(key, relation, ends) || !facts.holds(key, relation)
                    {
                        continue;
                    }
                    followed += 1;
                    for end in ends.into_iter().flatten() {
                        if reached.insert(end) {
                            next.push(end);
                        }
                    }
                    let nearness = 0.5_f64.powi(i32::try_from(depth).unwrap_or(i32::MAX));
                    let mut parts = self.parts();
                    parts.note(Part::Weight, relation.weight);
                    parts.note(Part::Depth, f64::from(depth + 1));
                    let told = self.admission.last_mentioned(relation);
                    let weight = relation.weight * nearness;
                    parts.weigh(recency(self.now, told), weight, relation.weight);
                    // Of contradicting relations, the newest comes first.
                    if facts.is_latest(key, relation) {
                        parts.boost(Part::BoostNewest, 2.0);
                    }
                    found.candidates.push(Candidate {
                        channel: Channel::Relation,
                        key,
                        kind: RecordKind::Relation,
                        score: parts.score,
                        parts: parts.parts,
                        at: told,
                        run: None,
                        author: Author::default(),
                        in_time: 0,
                        weight: 0.0,
                        raised: 0.0,
                    });
                }
            }
            if next.is_empty() {
                break;
            }
            frontier = next;
        }
    }

    /// Finds patterns whose conditions match.
    fn patterns(&self, found: &mut ChannelResults) {
        let view = self.view;
        let types: BTreeSet<&str> = (self.query.entities.iter())
            .filter_map(|key| Some(view.entities.get(key)?.entity_type.as_str()))
            .collect();
        let holds = |kind: ConditionKind, value: &str, terms: &[u32]| match kind {
            ConditionKind::Keyword => {
                let in_query = |term: &u32| self.query.terms.contains(term);
                !terms.is_empty() && terms.iter().all(in_query)
            }
            ConditionKind::EntityType => types.contains(value),
            ConditionKind::ErrorType | ConditionKind::Custom => {
                self.query.lower.contains(&value.to_lowercase())
            }
        };
        for (
            &key,
            Pattern {
                sketch: pattern,
                terms,
            },
        ) in &view.patterns
        {
            let valid = Validity::new(pattern.valid_from, pattern.valid_to);
            let here = |scope: &String| Some(scope.as_str()) == self.session;
            if !valid.holds(self.admission.now)
                || !pattern.scope.as_ref().is_none_or(here)
                || !self.admission.is_owned(&pattern.owner)
                || self.admission.exclude.contains(&key)
            {
                continue;
            }
            let (mut matched, mut all) = (0.0, 0.0);
            for (condition, terms) in pattern.conditions.iter().zip(terms) {
                let weight = condition.weight.unwrap_or(1.0);
                all += weight;
                if holds(condition.condition_type, &condition.value, terms) {
                    matched += weight;
                }
            }
            if matched <= 0.0 {
                continue;
            }
            // The rate is smoothed, so that a pattern without applications has
            // a medium rate.
            let success = (pattern.successes as f64 + 1.0) / (pattern.applications as f64 + 2.0);
            let mut parts = self.parts();
            parts.note(Part::Trigger, matched / all);
            parts.note(Part::Success, success);
            parts.weigh(0.0, matched / all * success, success);
            found.candidates.push(Candidate {
                channel: Channel::Pattern,
                key,
                kind: RecordKind::Pattern,
                score: parts.score,
                parts: parts.parts,
                at: 0,
                run: None,
                author: Author::default(),
                in_time: 0,
                weight: 0.0,
                raised: 0.0,
            });
        }
    }
}
