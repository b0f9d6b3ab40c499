//! Exact scores for the best texts, where those of all texts are estimates.
//!
//! An estimate comes from a code of one bit per component. Two thirds of the
//! estimates are within 0.05 of the cosine, nearly all within 0.15. Therefore
//! exact products are computed for several times as many texts as are asked
//! for. A text is missed only when its estimate is below that of all of those.

use std::collections::BTreeMap;

use super::{Index, Mute, NONE, RUN_PART, Scores, Slot, WITH_PREVIOUS, weighed};
use crate::scan::Probe;

/// How many texts at least get exact scores.
pub(super) const LEAST_RESCORED: usize = 2_048;

/// Products by slot, looked up only.
#[allow(clippy::disallowed_types)]
type Dots = std::collections::HashMap<Slot, Option<f32>>;

/// What is needed to compute exact scores.
#[derive(Debug)]
pub(super) struct Rescoring {
    probe: Probe,
    mute: Mute,
}

/// The exact scores of a text by its vector and by its run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Exact {
    pub(crate) vector: f32,
    pub(crate) run: f32,
}

impl Index {
    pub(super) fn rescoring(&self, probe: Probe, mute: &[Slot]) -> Rescoring {
        Rescoring {
            probe,
            mute: Mute::of(mute, self.texts.len()),
        }
    }

    /// Returns the exact scores of texts, unless they are exact already. What
    /// the best text of a run lends is computed from these texts and from the
    /// one with the best estimate. A text whose vector cannot be read keeps its
    /// estimate.
    pub(crate) fn rescore(&self, scores: &Scores, slots: &[Slot]) -> BTreeMap<Slot, Exact> {
        let Some(Rescoring { probe, mute }) = &scores.rescoring else {
            return BTreeMap::new();
        };
        let mut slots = slots.to_vec();
        let mut lent: BTreeMap<u32, f32> = BTreeMap::new();
        for &slot in &slots {
            let run = self.texts[slot as usize].run;
            if run != NONE {
                lent.insert(run, 0.0);
            }
        }
        for &run in lent.keys() {
            let lends = (self.runs.members[run as usize].iter()).filter(|slot| !mute.holds(**slot));
            let best = lends.max_by(|a, b| {
                let plain = |slot: Slot| scores.plain(slot as usize);
                plain(**a).total_cmp(&plain(**b))
            });
            slots.extend(best);
        }
        slots.sort_unstable();
        slots.dedup();
        let mut buffer = Vec::new();
        // Texts are often next to each other in their run.
        let mut dots = Dots::default();
        let mut dot = |slot: Slot| {
            let known = dots.entry(slot);
            *known.or_insert_with(|| self.vectors.dot(probe, slot, &mut buffer))
        };
        let mut exact = BTreeMap::new();
        for slot in slots {
            let at = slot as usize;
            let Some(own) = dot(slot) else { continue };
            let before = self.beside[at].before;
            let mut vector = own;
            if before != NONE && !mute.holds(before) && self.pairs[at] > 0.0 {
                let Some(other) = dot(before) else { continue };
                let together = (own + other) / self.pairs[at];
                vector += WITH_PREVIOUS * (together - vector);
            }
            let run = self.texts[at].run;
            if let Some(lent) = lent.get_mut(&run).filter(|_| !mute.holds(slot)) {
                let plain = weighed(scores.words[at]) + scores.vector_weight * vector.max(0.0);
                *lent = lent.max(RUN_PART * plain);
            }
            exact.insert(slot, Exact { vector, run: 0.0 });
        }
        for (slot, exact) in &mut exact {
            let run = self.texts[*slot as usize].run;
            exact.run = lent.get(&run).copied().unwrap_or(0.0);
        }
        exact
    }

    /// Returns true when a vector could not be read from the file: the index
    /// must be built again.
    pub fn is_damaged(&self) -> bool {
        self.vectors.is_damaged()
    }
}
