//! Estimated scores of all texts, and exact scores of the best.
//!
//! An estimate comes from a code of one bit per component. Two thirds of the
//! estimates are within 0.05 of the cosine, nearly all within 0.15. Exact
//! products are therefore computed for several times as many texts as
//! requested. A text is missed only when its estimate is below that of all of
//! those.
//!
//! Runs whose best text cannot be among the best are skipped.

use std::sync::{Mutex, PoisonError};

use super::codes::Tables;
use super::{
    BLOCK, Buffers, Index, Mute, NONE, Numbers, RUN_PART, Scores, Slot, WORTH_THREADS, together,
    weighed,
};
use crate::scan::Probe;

/// The minimum number of texts that get exact scores.
pub(super) const LEAST_RESCORED: usize = 2_048;

/// One run in this many wanted texts is scored first. A run has several texts;
/// more runs would cost more time than they save.
const PROMISING: usize = 4;

/// The number of values that are compared at once.
const LANES: usize = 8;

/// The data to compute exact scores.
#[derive(Debug)]
pub(super) struct Rescoring {
    probe: Probe,
    mute: Mute,
    // The estimated score of each text of a run by its words and its vector.
    // Texts without a run have any value here.
    plain: Numbers,
    // The estimates by the number of the run.
    runs: Vec<RunEstimate>,
    // True if some texts have no run.
    lone: bool,
    // The largest part that a run adds to its texts.
    most_lent: f32,
}

/// The estimated best scores of a run.
#[derive(Debug, Clone, Copy)]
struct RunEstimate {
    // The best estimate of its texts that are not mute.
    best: f32,
    // The best estimate of all its texts.
    most: f32,
}

/// The exact scores of a text by its vector and by its run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exact {
    pub(crate) slot: Slot,
    pub(crate) vector: f32,
    pub(crate) run: f32,
}

impl Index {
    /// Computes the estimates of all texts, and the best of each run.
    pub(super) fn rescoring(
        &self,
        scores: &mut Scores,
        tables: &Tables,
        probe: Probe,
        mute: Mute,
    ) -> Rescoring {
        let mut plain = Buffers::take_any(&self.buffers, scores.words.len());
        self.estimate_all(scores, tables, &mut plain);
        let runs = pulp::Arch::new().dispatch(RunEstimates {
            index: self,
            scores,
            mute: &mute,
            plain: &mut plain,
        });
        let in_runs: usize = self.runs.members.iter().map(Vec::len).sum();
        let best = runs.iter().map(|run| run.best).fold(0.0, f32::max);
        Rescoring {
            most_lent: RUN_PART * best,
            runs,
            lone: in_runs < self.live,
            plain,
            probe,
            mute,
        }
    }

    /// Writes the estimated score of each text by its vector, and by words and
    /// vector, as if the text in the slot before were its predecessor. Runs for
    /// which that is wrong are corrected later.
    fn estimate_all(&self, scores: &mut Scores, tables: &Tables, plain: &mut [f32]) {
        let weight = scores.vector_weight;
        let words = &*scores.words;
        let parts = (scores.vectors.chunks_mut(BLOCK)).zip(plain.chunks_mut(BLOCK));
        // Each free thread takes the next block.
        let blocks = Mutex::new(parts.enumerate());
        let work = || {
            loop {
                let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((block, (vectors, plain))) = next else {
                    return;
                };
                let first = block * BLOCK;
                let slots = first..first + plain.len();
                self.vectors.estimates(tables, first, vectors);
                pulp::Arch::new().dispatch(PlainScores {
                    words: &words[slots.clone()],
                    pairs: &self.pairs[slots],
                    vectors,
                    weight,
                    plain,
                });
            }
        };
        match words.len() < WORTH_THREADS {
            true => work(),
            false => std::thread::scope(|threads| {
                threads.spawn(work);
                work();
            }),
        }
        // The first text of a block has its predecessor in the block before.
        let vectors = &*scores.vectors;
        for at in (BLOCK..words.len()).step_by(BLOCK) {
            let vector = together(vectors[at], vectors[at - 1], self.pairs[at]);
            plain[at] = plain_of(words[at], vector, weight);
        }
    }

    /// Calls `each` with each text that may be among the best, its estimated
    /// score by words and vector, and the part that its run adds. `each`
    /// returns the current minimum score.
    ///
    /// The best `first` texts of the most promising runs come first. Texts that
    /// cannot reach the minimum, even with the largest bonus, are skipped.
    pub(crate) fn each_estimate(
        &self,
        scores: &Scores,
        first: usize,
        most_bonus: f32,
        mut each: impl FnMut(Slot, f32, f32) -> f32,
    ) {
        let Some(Rescoring {
            runs, lone, plain, ..
        }) = &scores.rescoring
        else {
            return;
        };
        // Each run with the largest estimate of its texts.
        let mut order: Vec<(f32, u32)> = (runs.iter().zip(0..))
            .map(|(estimate, run)| (estimate.most + RUN_PART * estimate.best, run))
            .filter(|(reach, _)| reach + most_bonus > 0.0)
            .collect();
        let promising = first.div_ceil(PROMISING).min(order.len());
        if promising < order.len() {
            order.select_nth_unstable_by(promising, |a, b| b.0.total_cmp(&a.0));
        }
        let lent = |run: u32| RUN_PART * runs[run as usize].best;
        let of_run = |(_, run): &(f32, u32)| {
            let run = *run;
            self.runs.slots(run).map(move |slot| (slot, run))
        };
        let reaches = |slot: Slot, run: u32| plain[slot as usize] + lent(run);
        let (promising, others) = order.split_at(promising);
        let mut texts: Vec<(f32, Slot, u32)> = (promising.iter().flat_map(of_run))
            .map(|(slot, run)| (reaches(slot, run), slot, run))
            .collect();
        if first < texts.len() {
            texts.select_nth_unstable_by(first, |a, b| b.0.total_cmp(&a.0));
        }
        let mut least = 0.0_f32;
        for (reached, slot, run) in texts {
            if reached + most_bonus >= least {
                least = each(slot, plain[slot as usize], lent(run));
            }
        }
        for run in others {
            if run.0 + most_bonus < least {
                continue;
            }
            for (slot, run) in of_run(run) {
                if reaches(slot, run) + most_bonus >= least {
                    least = each(slot, plain[slot as usize], lent(run));
                }
            }
        }
        if *lone {
            for (slot, text) in (0..).zip(&self.texts) {
                if text.run == NONE {
                    let plain = scores.plain(slot as usize);
                    if plain + most_bonus >= least {
                        least = each(slot, plain, 0.0);
                    }
                }
            }
        }
    }

    /// Returns the estimate of a text by its vector.
    fn vector_of(&self, scores: &Scores, mute: &Mute, slot: Slot) -> f32 {
        let (at, before) = (slot as usize, self.neighbours[slot as usize].before);
        match before == NONE || mute.holds(before) {
            true => scores.vectors[at],
            false => together(
                scores.vectors[at],
                scores.vectors[before as usize],
                self.pairs[at],
            ),
        }
    }

    /// Returns true if the estimated score of a text, with this bonus, may be at
    /// least `least`. The run of the text is not read.
    pub(crate) fn may_reach(&self, scores: &Scores, slot: Slot, bonus: f32, least: f32) -> bool {
        let may = |of: &Rescoring| {
            // The numbers are added in another order elsewhere.
            let margin = 1e-4;
            of.lone || of.plain[slot as usize] + of.most_lent + bonus + margin >= least
        };
        scores.rescoring.as_ref().is_none_or(may)
    }

    /// Returns the estimated score of a text by words and vector, and the part
    /// that its run adds.
    pub(crate) fn estimated_sum(&self, scores: &Scores, slot: Slot) -> Option<(f32, f32)> {
        let Rescoring { runs, plain, .. } = scores.rescoring.as_ref()?;
        let at = slot as usize;
        let run = runs.get(self.texts[at].run as usize);
        Some(match run {
            Some(run) => (plain[at], RUN_PART * run.best),
            None => (scores.plain(at), 0.0),
        })
    }

    /// Returns the estimates of a text by its vector and by its run.
    pub(crate) fn estimate(&self, scores: &Scores, slot: Slot) -> Option<Exact> {
        let Rescoring { runs, mute, .. } = scores.rescoring.as_ref()?;
        let run = self.texts[slot as usize].run;
        Some(Exact {
            slot,
            vector: self.vector_of(scores, mute, slot),
            run: runs
                .get(run as usize)
                .map_or(0.0, |run| RUN_PART * run.best),
        })
    }

    /// Returns the exact scores of texts by slot, unless all scores are exact.
    /// The part that the best text of a run adds is computed from these texts
    /// and from the text with the best estimate. A text whose vector cannot be
    /// read is omitted, so that its estimate is used.
    pub(crate) fn rescore(&self, scores: &Scores, slots: &[Slot]) -> Vec<Exact> {
        let Some(Rescoring {
            probe, mute, plain, ..
        }) = &scores.rescoring
        else {
            return Vec::new();
        };
        let run_of = |slot: Slot| self.texts[slot as usize].run;
        let mut slots = slots.to_vec();
        let mut lent: Vec<(u32, f32)> = (slots.iter())
            .map(|slot| (run_of(*slot), 0.0))
            .filter(|(run, _)| *run != NONE)
            .collect();
        lent.sort_unstable_by_key(|(run, _)| *run);
        lent.dedup_by_key(|(run, _)| *run);
        let best_of = |(run, _): &(u32, f32)| {
            let mut best = (0.0, None);
            for slot in self.runs.slots(*run) {
                let plain = plain[slot as usize];
                if plain > best.0 && !mute.holds(slot) {
                    best = (plain, Some(slot));
                }
            }
            best.1
        };
        slots.extend(lent.iter().filter_map(best_of));
        slots.sort_unstable();
        slots.dedup();
        // The predecessors are included, because their products count, too.
        let before = |slot: &Slot| {
            let before = self.neighbours[*slot as usize].before;
            let counts = before != NONE && !mute.holds(before) && self.pairs[*slot as usize] > 0.0;
            counts.then_some(before)
        };
        let mut read: Vec<Slot> = slots.iter().filter_map(before).collect();
        read.extend(&slots);
        read.sort_unstable();
        read.dedup();
        let dots = self.vectors.dots_of(probe, &read);
        // Most predecessors are next to their text.
        let dot = |slot: Slot, near: usize| match near.checked_sub(1) {
            Some(before) if read[before] == slot => dots[before],
            _ => dots[read.binary_search(&slot).ok()?],
        };
        let mut at_read = 0;
        let mut exact = Vec::with_capacity(slots.len());
        for slot in slots {
            let at = slot as usize;
            while read[at_read] < slot {
                at_read += 1;
            }
            let Some(own) = dots[at_read] else { continue };
            let vector = match before(&slot) {
                None => own,
                Some(before) => {
                    let Some(other) = dot(before, at_read) else {
                        continue;
                    };
                    together(own, other, self.pairs[at])
                }
            };
            let known = lent.binary_search_by_key(&run_of(slot), |(run, _)| *run);
            if let Some(at) = known.ok().filter(|_| !mute.holds(slot)) {
                let plain =
                    weighed(scores.words[slot as usize]) + scores.vector_weight * vector.max(0.0);
                lent[at].1 = lent[at].1.max(RUN_PART * plain);
            }
            exact.push(Exact {
                slot,
                vector,
                run: 0.0,
            });
        }
        for exact in &mut exact {
            let known = lent.binary_search_by_key(&run_of(exact.slot), |(run, _)| *run);
            exact.run = known.map_or(0.0, |at| lent[at].1);
        }
        exact
    }

    /// Returns true when a vector could not be read from the file: the index
    /// must be built again.
    pub fn is_damaged(&self) -> bool {
        self.vectors.is_damaged()
    }
}

/// The work of [`Index::estimate_all`] for the texts of a block.
struct PlainScores<'a> {
    words: &'a [f32],
    pairs: &'a [f32],
    vectors: &'a [f32],
    weight: f32,
    plain: &'a mut [f32],
}

impl pulp::NullaryFnOnce for PlainScores<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [words, pairs, own] = [self.words, self.pairs, self.vectors];
        let ([first, words @ ..], [_, pairs @ ..]) = (words, pairs) else {
            return;
        };
        let ([own_first, own @ ..], [plain_first, plain @ ..]) = (own, self.plain) else {
            return;
        };
        *plain_first = plain_of(*first, *own_first, self.weight);
        let (pairs, own) = (&pairs[..plain.len()], &own[..plain.len()]);
        let (words, before) = (&words[..plain.len()], &self.vectors[..plain.len()]);
        for at in 0..plain.len() {
            let vector = together(own[at], before[at], pairs[at]);
            plain[at] = plain_of(words[at], vector, self.weight);
        }
    }
}

/// The work of [`Index::rescoring`]: the best estimates of all runs.
struct RunEstimates<'a> {
    index: &'a Index,
    scores: &'a Scores,
    mute: &'a Mute,
    plain: &'a mut [f32],
}

impl pulp::NullaryFnOnce for RunEstimates<'_> {
    type Output = Vec<RunEstimate>;

    #[inline(always)]
    fn call(mut self) -> Vec<RunEstimate> {
        let runs = &self.index.runs;
        let mut estimates = Vec::with_capacity(runs.members.len());
        for (run, span) in runs.spans.iter().enumerate() {
            let slots = span.slots();
            let slots = slots.map(|slots| slots.start as usize..slots.end as usize);
            estimates.push(match slots.filter(|slots| self.mute.is_free(slots)) {
                Some(slots) => self.straight(slots),
                None => self.scattered(&runs.members[run]),
            });
        }
        estimates
    }
}

impl RunEstimates<'_> {
    /// Returns the best estimates of a run with consecutive slots. None is
    /// mute.
    #[inline(always)]
    fn straight(&self, slots: std::ops::Range<usize>) -> RunEstimate {
        let (lanes, rest) = self.plain[slots].as_chunks::<LANES>();
        let mut most = [0.0_f32; LANES];
        for lane in lanes {
            for (most, plain) in most.iter_mut().zip(lane) {
                *most = if *plain > *most { *plain } else { *most };
            }
        }
        let most = most.iter().chain(rest).copied().fold(0.0, f32::max);
        RunEstimate { best: most, most }
    }

    /// Estimates the texts of any run.
    #[inline(always)]
    fn scattered(&mut self, members: &[Slot]) -> RunEstimate {
        let mut run = RunEstimate {
            best: 0.0,
            most: 0.0,
        };
        // The estimate of the predecessor, and whether it counts.
        let (mut before, mut lends) = (0.0, false);
        for &slot in members {
            let at = slot as usize;
            let own = self.scores.vectors[at];
            let pair = if lends { self.index.pairs[at] } else { 0.0 };
            let vector = together(own, before, pair);
            let plain = plain_of(self.scores.words[at], vector, self.scores.vector_weight);
            self.plain[at] = plain;
            (before, lends) = (own, !self.mute.holds(slot));
            run.most = run.most.max(plain);
            if lends {
                run.best = run.best.max(plain);
            }
        }
        run
    }
}

/// Returns the score of a text by its words and its vector: the sum of
/// [`Scores::plain`], without a branch.
#[inline(always)]
fn plain_of(words: f32, vector: f32, weight: f32) -> f32 {
    let words = words.max(0.0);
    words * words.sqrt().sqrt() + weight * vector.max(0.0)
}
