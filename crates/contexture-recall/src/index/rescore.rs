//! Estimated scores of all texts, and exact ones of the best.
//!
//! An estimate comes from a code of one bit per component. Two thirds of the
//! estimates are within 0.05 of the cosine, nearly all within 0.15. Therefore
//! exact products are computed for several times as many texts as are asked
//! for. A text is missed only when its estimate is below that of all of those.
//!
//! Whole runs are passed over whose best text cannot be among the best.

use super::{Index, Mute, NONE, RUN_PART, Scores, Slot, together, weighed};
use crate::scan::Probe;

/// How many texts at least get exact scores.
pub(super) const LEAST_RESCORED: usize = 2_048;

/// What is needed to compute exact scores.
#[derive(Debug)]
pub(super) struct Rescoring {
    probe: Probe,
    mute: Mute,
    // By the number of the run.
    runs: Vec<RunEstimate>,
    // Whether there are texts that are in no run.
    lone: bool,
}

/// What the texts of a run reach, as far as is estimated.
#[derive(Debug, Clone, Copy)]
struct RunEstimate {
    // The best text that is not mute, and its estimate.
    slot: Slot,
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
    /// Looks at the estimates of all texts, run by run.
    pub(super) fn rescoring(&self, scores: &Scores, probe: Probe, mute: Mute) -> Rescoring {
        let mut in_runs = 0;
        let runs = self.runs.members.iter().map(|members| {
            in_runs += members.len();
            self.run_estimate(scores, &mute, members)
        });
        Rescoring {
            runs: runs.collect(),
            lone: in_runs < self.live,
            probe,
            mute,
        }
    }

    fn run_estimate(&self, scores: &Scores, mute: &Mute, members: &[Slot]) -> RunEstimate {
        let mut run = RunEstimate {
            slot: NONE,
            best: 0.0,
            most: 0.0,
        };
        // The estimate of the text before, and whether that lends anything.
        let (mut before, mut lends) = (0.0, false);
        for &slot in members {
            let at = slot as usize;
            let own = scores.vectors[at];
            let pair = if lends { self.pairs[at] } else { 0.0 };
            let vector = together(own, before, pair);
            let plain = weighed(scores.words[at]) + scores.vector_weight * vector.max(0.0);
            (before, lends) = (own, !mute.holds(slot));
            run.most = if plain > run.most { plain } else { run.most };
            if lends && plain > run.best {
                (run.slot, run.best) = (slot, plain);
            }
        }
        run
    }

    /// Calls with each text that may be among the best, how well it fits by its
    /// words and its vector as far as is estimated, and what its run lends to
    /// it. What is called returns the least that a text must have now.
    ///
    /// The most promising `first` runs come first. Texts of a run that cannot
    /// have the least, with the largest bonus there is, are left out.
    pub(crate) fn each_estimate(
        &self,
        scores: &Scores,
        first: usize,
        most_bonus: f32,
        mut each: impl FnMut(Slot, f32, f32) -> f32,
    ) {
        let Some(Rescoring {
            runs, lone, mute, ..
        }) = &scores.rescoring
        else {
            return;
        };
        let reach = |run: u32| {
            let run = &runs[run as usize];
            run.most + RUN_PART * run.best
        };
        let possible = |run: &u32| reach(*run) + most_bonus > 0.0;
        let mut order: Vec<u32> = (0..runs.len() as u32).filter(possible).collect();
        if first < order.len() {
            order.select_nth_unstable_by(first, |a, b| reach(*b).total_cmp(&reach(*a)));
        }
        let mut least = 0.0_f32;
        for run in order {
            if reach(run) + most_bonus < least {
                continue;
            }
            let lent = RUN_PART * runs[run as usize].best;
            for &slot in &self.runs.members[run as usize] {
                least = each(slot, self.plain_estimate(scores, mute, slot), lent);
            }
        }
        if *lone {
            for (slot, text) in (0..).zip(&self.texts) {
                if text.run == NONE {
                    each(slot, scores.plain(slot as usize), 0.0);
                }
            }
        }
    }

    /// Returns how well a text fits by its words and its vector, as far as is
    /// estimated.
    fn plain_estimate(&self, scores: &Scores, mute: &Mute, slot: Slot) -> f32 {
        let vector = self.vector_of(scores, mute, slot);
        weighed(scores.words[slot as usize]) + scores.vector_weight * vector.max(0.0)
    }

    fn vector_of(&self, scores: &Scores, mute: &Mute, slot: Slot) -> f32 {
        let (at, before) = (slot as usize, self.beside[slot as usize].before);
        match before == NONE || mute.holds(before) {
            true => scores.vectors[at],
            false => together(
                scores.vectors[at],
                scores.vectors[before as usize],
                self.pairs[at],
            ),
        }
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

    /// Returns the exact scores of texts by slot, unless they are exact already.
    /// What the best text of a run lends is computed from these texts and from
    /// the one with the best estimate. A text whose vector cannot be read is
    /// left out: its estimate must do.
    pub(crate) fn rescore(&self, scores: &Scores, slots: &[Slot]) -> Vec<Exact> {
        let Some(Rescoring {
            probe, mute, runs, ..
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
        let best = lent.iter().map(|(run, _)| runs[*run as usize].slot);
        slots.extend(best.filter(|slot| *slot != NONE));
        slots.sort_unstable();
        slots.dedup();
        // With the ones before them, whose products count, too.
        let before = |slot: &Slot| {
            let before = self.beside[*slot as usize].before;
            let counts = before != NONE && !mute.holds(before) && self.pairs[*slot as usize] > 0.0;
            counts.then_some(before)
        };
        let mut read: Vec<Slot> = slots.iter().filter_map(before).collect();
        read.extend(&slots);
        read.sort_unstable();
        read.dedup();
        let dots = self.vectors.dots_of(probe, &read);
        let dot = |slot: Slot| dots[read.binary_search(&slot).ok()?];
        let mut exact = Vec::with_capacity(slots.len());
        for slot in slots {
            let at = slot as usize;
            let Some(own) = dot(slot) else { continue };
            let vector = match before(&slot) {
                None => own,
                Some(before) => {
                    let Some(other) = dot(before) else { continue };
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
