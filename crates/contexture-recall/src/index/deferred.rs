//! Frequent words of a query, scored only where they can change the result.
//!
//! A frequent word has many postings and a small share of the score. A search
//! first scores the rare words of all texts. The frequent words together can
//! raise a word score by at most their shares, which bounds the score of every
//! run. Only runs whose bound reaches the worst of the wanted texts are then
//! scored by frequent words, too; blocks of postings without a text of these
//! runs are skipped.
//!
//! The result equals that of a search that scores every word of every text, to
//! the last bit: a skipped text is below the bound, and so is the text that it
//! would have to replace.

use std::ops::Range;

use super::rescore::{PROMISING, RunEstimates};
use super::{FOUND, Index, Mute, NONE, RUN_PART, Scores, Slot, WeightedTerm, weighed};

/// The slack for rounding in a bound.
const SLACK: f32 = 1e-4;

/// The frequent words of a query, and the runs that are scored by them.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    terms: Vec<WeightedTerm>,
    // The best word score of each run, without the frequent words.
    words: Vec<f32>,
    // True for each run that is scored by all words.
    is_complete: Vec<bool>,
}

impl Index {
    /// Scores all texts by the rare terms of a query. Returns the result of
    /// `score_words`, and the frequent terms that are not scored yet.
    pub(super) fn score_rare_words(
        &self,
        terms: &[u32],
        mute: &Mute,
        scores: &mut [f32],
    ) -> (f32, Vec<WeightedTerm>) {
        let terms = self.weighted_terms(terms);
        let rare = terms.partition_point(|term| term.held < self.frequent);
        let (rare, frequent) = terms.split_at(rare);
        let most = self.add_words(rare, mute, None, f32::INFINITY, scores);
        // The weight of vectors depends on the best score, unless that is high
        // enough without the frequent words.
        if most >= FOUND && !self.has_lone_texts() {
            return (most, frequent.to_vec());
        }
        let more = self.add_words(frequent, mute, None, f32::INFINITY, scores);
        let found = self.found(&terms, most.max(more), mute, scores.len());
        (found, Vec::new())
    }

    /// Returns true when some texts have no run.
    pub(super) fn has_lone_texts(&self) -> bool {
        let in_runs: usize = self.runs.members.iter().map(Vec::len).sum();
        in_runs < self.live
    }

    /// Returns the deferred terms, with the best word score of each run.
    pub(super) fn deferred(&self, terms: Vec<WeightedTerm>, words: &[f32]) -> Deferred {
        if terms.is_empty() {
            return Deferred::default();
        }
        let best = |members: &Vec<Slot>| {
            let words = members.iter().map(|slot| words[*slot as usize]);
            words.fold(0.0, f32::max)
        };
        let members = &self.runs.members;
        Deferred {
            terms,
            words: members.iter().map(best).collect(),
            is_complete: vec![false; members.len()],
        }
    }

    /// Scores all runs by frequent words that may contain one of the best
    /// `first` admitted texts.
    pub(crate) fn complete_best(
        &self,
        scores: &mut Scores,
        first: usize,
        most_bonus: f32,
        admit: impl Fn(Slot) -> bool,
    ) {
        let Some(rescoring) = &scores.rescoring else {
            return;
        };
        let deferred = &rescoring.deferred;
        if deferred.terms.is_empty() {
            return;
        }
        let more: f32 = deferred.terms.iter().map(|term| term.share).sum();
        let runs = &rescoring.runs;
        let mut order: Vec<(f32, u32)> = (runs.iter().zip(0..))
            .map(|(estimate, run)| (estimate.reach(), run))
            .collect();
        let promising = first.div_ceil(PROMISING).min(order.len());
        if promising < order.len() {
            order.select_nth_unstable_by(promising, |a, b| b.0.total_cmp(&a.0));
        }
        // Frequent words only raise these scores.
        let mut reached: Vec<f32> = Vec::new();
        for (_, run) in &order[..promising] {
            let lent = RUN_PART * runs[*run as usize].best;
            let members = self.runs.members[*run as usize].iter();
            let admitted = members.filter(|slot| admit(**slot));
            reached.extend(admitted.map(|slot| rescoring.plain[*slot as usize] + lent));
        }
        let bar = match first.checked_sub(1).filter(|last| *last < reached.len()) {
            Some(last) => {
                *reached
                    .select_nth_unstable_by(last, |a, b| b.total_cmp(a))
                    .1
            }
            None => 0.0,
        };
        let bar = bar - most_bonus - SLACK;
        // The increase is the largest for the text with the best word score,
        // because the weighted score is convex.
        let increase = |words: f32| (1.0 + RUN_PART) * (weighed(words + more) - weighed(words));
        let most_increase = increase(1.0 - more);
        let may_reach = |(reach, run): &(f32, u32)| {
            reach + most_increase >= bar && reach + increase(deferred.words[*run as usize]) >= bar
        };
        let runs: Vec<u32> = (order.iter().filter(|run| may_reach(run)))
            .map(|(_, run)| *run)
            .collect();
        self.complete(scores, &runs);
    }

    /// Scores the runs of texts by frequent words.
    pub(crate) fn complete_of(&self, scores: &mut Scores, slots: impl Iterator<Item = Slot>) {
        let rescoring = scores.rescoring.as_ref();
        if rescoring.is_some_and(|rescoring| !rescoring.deferred.terms.is_empty()) {
            let runs = slots.map(|slot| self.texts[slot as usize].run);
            let runs: Vec<u32> = runs.filter(|run| *run != NONE).collect();
            self.complete(scores, &runs);
        }
    }

    /// Scores runs by frequent words.
    fn complete(&self, scores: &mut Scores, runs: &[u32]) {
        let Scores {
            words,
            vectors,
            vector_weight,
            rescoring: Some(rescoring),
            ..
        } = scores
        else {
            return;
        };
        let deferred = &mut rescoring.deferred;
        let mut incomplete = Vec::new();
        for run in runs {
            if !std::mem::replace(&mut deferred.is_complete[*run as usize], true) {
                incomplete.push(*run);
            }
        }
        if incomplete.is_empty() {
            return;
        }
        // The words of a text count only within its run.
        let members = |run: &u32| &self.runs.members[*run as usize];
        let ranges = ranges_of(incomplete.iter().flat_map(members).copied().collect());
        let mute = &rescoring.mute;
        self.add_words(&deferred.terms, mute, Some(&ranges), f32::INFINITY, words);
        let mut estimates = RunEstimates {
            index: self,
            words,
            vectors,
            weight: *vector_weight,
            mute,
            plain: &mut rescoring.plain,
        };
        for run in &incomplete {
            rescoring.runs[*run as usize] = estimates.scattered(members(run));
        }
    }
}

/// Returns slots as ascending ranges.
fn ranges_of(mut slots: Vec<Slot>) -> Vec<Range<Slot>> {
    slots.sort_unstable();
    let consecutive = slots.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let range = |slots: &[Slot]| Some(*slots.first()?..slots.last()?.checked_add(1)?);
    consecutive.filter_map(range).collect()
}
