//! Combines word scores and vector scores into one score, and selects the best
//! of many.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::index::{Exact, Index, Scores, Slot, weighed};

/// The factor between the texts with exact scores and the requested number,
/// when the scores of all texts are estimates.
const RESCORED: usize = 6;

/// All texts get a whole score if the requested number is at least one part in
/// this many of them.
const MOSTLY_BEST: usize = 4;

/// The sum of word and vector scores of a text that matches well.
const BEST: f32 = 1.4;

/// A text below this score is almost unrelated to a query, with the vector
/// weight below. The weight in a ranking is larger when words match nothing,
/// but that does not make vectors more informative. Vectors of unrelated texts
/// reach 0.2 with the built-in encoder; those of related texts are above 0.25.
const FAINT: f32 = 0.07;
const FAINT_VECTOR: f32 = 0.3;

/// A text that matches a query, with the parts of its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The position of the text in the index.
    pub slot: Slot,
    /// The key of the text.
    pub key: i64,
    /// The score by words, including those of neighbouring texts, from 0 to 1.
    pub words: f32,
    /// The score by vectors, including that of the previous text, from 0 to 1.
    pub vector: f32,
    /// The weight of the vector score relative to the word score.
    pub vector_weight: f32,
    /// The part that the best text of the same run adds.
    pub run: f32,
    /// A bonus from other signals.
    pub bonus: f32,
}

impl Hit {
    /// Returns the total score: usually from 0 to 1. If words match nothing, a
    /// very similar vector can raise it above 1.
    pub fn relevance(&self) -> f32 {
        let plain = weighed(self.words) + self.vector_weight * self.vector;
        (plain + self.run + self.bonus) / BEST
    }

    /// Lowers the bonus by at most `most`, so that the relevance is at most
    /// `relevance`.
    pub fn lower_to(&mut self, relevance: f32, most: f32) {
        let excess = (self.relevance() - relevance) * BEST;
        self.bonus -= excess.clamp(0.0, most.max(0.0));
    }

    /// Returns true if the text has almost nothing to do with the query.
    pub fn is_faint(&self) -> bool {
        self.words + FAINT_VECTOR * self.vector + self.bonus < FAINT
    }
}

/// The largest word score of a text without any term of the query, relative to
/// the neighbour that its words come from.
const BELOW_SOURCE: f32 = 0.95;

/// The vector score up to which the meaning of a text does not speak for it.
const UNRELATED: f32 = 0.1;

/// Lowers the word score of a text without any term of the query below that of
/// the neighbour that has one, if the meaning of the text is unrelated to the
/// query. `vector` returns the vector score of the neighbour.
///
/// A short text would otherwise have a higher score than the longer text that
/// its words come from.
fn lower(index: &Index, scores: &Scores, hit: &mut Hit, vector: impl Fn(Slot) -> f32) {
    if hit.words <= 0.0 {
        return;
    }
    if let Some(source) = index.source(scores, hit.slot)
        && hit.vector <= vector(source).clamp(0.0, UNRELATED)
    {
        let most = scores.words[source as usize] * BELOW_SOURCE;
        hit.words = hit.words.min(most);
    }
}

/// Returns texts as hits, whatever their scores. Each text is given with its
/// bonus.
pub fn hits(
    index: &Index,
    scores: &Scores,
    texts: impl IntoIterator<Item = (Slot, f32)>,
) -> Vec<Hit> {
    let texts = texts.into_iter();
    let mut hits: Vec<Hit> = texts
        .filter_map(|(slot, bonus)| estimated(index, scores, slot, bonus))
        .collect();
    rescore(index, scores, &mut hits);
    hits
}

/// Returns the best `most` of some texts as hits. Each is given with its bonus.
/// If scores are estimates, the choice is estimated, too; the scores of the
/// chosen texts are exact.
pub fn best_hits(
    index: &Index,
    scores: &Scores,
    most: usize,
    texts: impl IntoIterator<Item = (Slot, f32)>,
) -> Vec<Hit> {
    let texts = texts.into_iter();
    if scores.are_estimates() {
        let mut best = Best::new(most);
        for (slot, bonus) in texts {
            if !index.may_reach(scores, slot, bonus, best.bar) {
                continue;
            }
            if let Some((plain, run)) = index.estimated_sum(scores, slot) {
                best.extend(Ranked::estimate(index, scores, slot, [plain, run, bonus]));
            }
        }
        let hits = best.into_all().map(|ranked| ranked.of);
        let mut hits: Vec<Hit> = hits
            .filter_map(|one| estimated(index, scores, one.slot, one.bonus))
            .collect();
        rescore(index, scores, &mut hits);
        return hits;
    }
    let mut hits: Vec<Ranked<Hit>> = texts
        .filter_map(|(slot, bonus)| estimated(index, scores, slot, bonus))
        .map(Ranked::new)
        .collect();
    leave_best(&mut hits, most);
    sorted(hits)
}

/// Removes all but the best `most` of some texts, in any order.
fn leave_best(hits: &mut Vec<Ranked<Hit>>, most: usize) {
    if most < hits.len() {
        hits.select_nth_unstable_by(most, |a, b| b.cmp(a));
        hits.truncate(most);
    }
}

/// Replaces estimates by exact scores.
fn rescore(index: &Index, scores: &Scores, hits: &mut [Hit]) {
    if !scores.are_estimates() || hits.is_empty() {
        return;
    }
    let slots: Vec<Slot> = hits.iter().map(|hit| hit.slot).collect();
    let exact = index.rescore(scores, &slots);
    let exact_of = |slot: Slot| {
        let found = exact.binary_search_by_key(&slot, |exact| exact.slot);
        found.ok().map(|at| &exact[at])
    };
    // Most hits are given in the order of slots, each just behind the one before.
    let mut next = 0;
    for hit in hits {
        while exact.get(next).is_some_and(|exact| exact.slot < hit.slot) {
            next += 1;
        }
        let is_next = |exact: &&Exact| exact.slot == hit.slot;
        let known = exact.get(next).filter(is_next);
        if let Some(exact) = known.or_else(|| exact_of(hit.slot)) {
            hit.vector = exact.vector.clamp(0.0, 1.0);
            hit.run = exact.run;
        }
        let estimate = |slot: Slot| scores.vectors[slot as usize];
        let vector = |slot: Slot| exact_of(slot).map_or_else(|| estimate(slot), |one| one.vector);
        lower(index, scores, hit, vector);
    }
}

/// Returns the text in a slot as a hit with the current scores.
fn estimated(index: &Index, scores: &Scores, slot: Slot, bonus: f32) -> Option<Hit> {
    let at = slot as usize;
    let key = index.key(slot)?;
    let (vector, run) = match index.estimate(scores, slot) {
        Some(estimate) => (estimate.vector, estimate.run),
        None => (*scores.vectors.get(at)?, scores.of_run(at)),
    };
    let mut hit = Hit {
        slot,
        key,
        words: *scores.words.get(at)?,
        vector: vector.clamp(0.0, 1.0),
        vector_weight: scores.vector_weight,
        run,
        bonus,
    };
    // Estimates are replaced by exact scores first.
    if !scores.are_estimates() {
        lower(index, scores, &mut hit, |slot| {
            scores.vectors[slot as usize]
        });
    }
    Some(hit)
}

/// Returns the best `most` texts that match at all and are admitted, best
/// first.
///
/// If scores are estimates, exact scores are computed for six times as many
/// texts, at least 2,048. Let `e` be the largest error of an estimate, and `b`
/// the estimate of the last of these texts. Every text whose exact score is
/// above `b + e` is then found, and the part that the best text of a run adds
/// has an error below `e / 5`.
///
/// `bonus` and `admit` are called only for texts that could be among the best;
/// `most_bonus` is the largest value that `bonus` returns.
pub fn best(
    index: &Index,
    scores: &Scores,
    most: usize,
    most_bonus: f32,
    bonus: impl Fn(Slot) -> f32,
    admit: impl Fn(Slot) -> bool,
) -> Vec<Hit> {
    if most == 0 {
        return Vec::new();
    }
    if !scores.are_estimates() {
        return sorted(top(index, scores, most, most_bonus, bonus, admit));
    }
    let rescored = most.saturating_mul(RESCORED).max(index.least_rescored());
    let mut hits = top_estimates(index, scores, rescored, most_bonus, bonus, admit);
    // Exact scores are in the order of slots.
    hits.sort_unstable_by_key(|hit| hit.slot);
    rescore(index, scores, &mut hits);
    let mut hits: Vec<Ranked<Hit>> = hits.into_iter().map(Ranked::new).collect();
    leave_best(&mut hits, most);
    let mut hits = sorted(hits);
    hits.retain(|hit| hit.relevance() > 0.0);
    hits
}

/// Returns the best `most` texts by exact scores, in any order.
fn top(
    index: &Index,
    scores: &Scores,
    most: usize,
    most_bonus: f32,
    bonus: impl Fn(Slot) -> f32,
    admit: impl Fn(Slot) -> bool,
) -> Vec<Ranked<Hit>> {
    let mut best = Best::new(most);
    let slots = 0..scores.words.len() as Slot;
    let hit = |best: &Best<Hit>, slot: Slot| {
        let at = slot as usize;
        let plain = scores.plain(at) + scores.of_run(at);
        let bonus = best.bonus_of(slot, plain, most_bonus, &bonus, &admit)?;
        estimated(index, scores, slot, bonus).map(Ranked::new)
    };
    // If most texts are among the best, it is faster to remove the others at the
    // end than to find the worst of the best again and again.
    if scores.words.len() / MOSTLY_BEST <= most {
        let mut hits: Vec<Ranked<Hit>> = Vec::with_capacity(scores.words.len());
        hits.extend(slots.filter_map(|slot| hit(&best, slot)));
        leave_best(&mut hits, most);
        return hits;
    }
    for slot in slots {
        let hit = hit(&best, slot);
        best.extend(hit);
    }
    best.into_all().collect()
}

/// Returns the best `most` texts by estimated scores, in any order.
fn top_estimates(
    index: &Index,
    scores: &Scores,
    most: usize,
    most_bonus: f32,
    bonus: impl Fn(Slot) -> f32,
    admit: impl Fn(Slot) -> bool,
) -> Vec<Hit> {
    let mut best = Best::new(most);
    index.each_estimate(scores, most, most_bonus, |slot, plain, run| {
        let sum = plain + run;
        if let Some(bonus) = best.bonus_of(slot, sum, most_bonus, &bonus, &admit) {
            best.extend(Ranked::estimate(index, scores, slot, [plain, run, bonus]));
        }
        best.bar
    });
    let hits = best.into_all().map(|ranked| ranked.of);
    hits.filter_map(|one| estimated(index, scores, one.slot, one.bonus))
        .collect()
}

/// The best of the texts that were offered.
struct Best<T> {
    most: usize,
    heap: BinaryHeap<Reverse<Ranked<T>>>,
    // The minimum of the sum of word and vector scores for the best texts.
    bar: f32,
}

impl<T> Best<T> {
    fn new(most: usize) -> Self {
        Self {
            most,
            heap: BinaryHeap::with_capacity(most),
            bar: 0.0,
        }
    }

    /// Returns the bonus of a text with this sum of scores, if the text is
    /// admitted and may be among the best.
    #[inline]
    fn bonus_of(
        &self,
        slot: Slot,
        sum: f32,
        most_bonus: f32,
        bonus: &impl Fn(Slot) -> f32,
        admit: &impl Fn(Slot) -> bool,
    ) -> Option<f32> {
        let at_most = sum + most_bonus;
        if at_most <= 0.0 || at_most < self.bar || !admit(slot) {
            return None;
        }
        // Most texts that could be among the best with the largest bonus have a
        // smaller one.
        let bonus = bonus(slot);
        (sum + bonus > 0.0 && sum + bonus >= self.bar).then_some(bonus)
    }

    /// Offers a text, if there is one.
    #[inline]
    fn extend(&mut self, one: Option<Ranked<T>>) {
        if let Some(one) = one {
            self.offer(one);
        }
    }

    #[inline]
    fn offer(&mut self, one: Ranked<T>) {
        if self.heap.len() < self.most {
            self.heap.push(Reverse(one));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && one > worst.0
        {
            worst.0 = one;
        }
        if self.heap.len() == self.most
            && let Some(Reverse(worst)) = self.heap.peek()
        {
            // A small margin is subtracted, because the sums are added in
            // another order.
            self.bar = worst.relevance * BEST - 1e-4;
        }
    }

    fn into_all(self) -> impl Iterator<Item = Ranked<T>> {
        self.heap.into_iter().map(|Reverse(one)| one)
    }
}

/// Returns hits, best first.
fn sorted(mut hits: Vec<Ranked<Hit>>) -> Vec<Hit> {
    hits.sort_unstable_by(|a, b| b.cmp(a));
    hits.into_iter().map(|ranked| ranked.of).collect()
}

/// A text with its relevance, which is compared many times.
///
/// Better texts come first; of two equal texts, the one with the larger key,
/// which is the later one.
struct Ranked<T> {
    relevance: f32,
    key: i64,
    of: T,
}

/// A text whose relevance is an estimate. The rest of a hit is read only for the best
/// texts.
struct Estimate {
    slot: Slot,
    bonus: f32,
}

impl Ranked<Hit> {
    fn new(hit: Hit) -> Self {
        Self {
            relevance: hit.relevance(),
            key: hit.key,
            of: hit,
        }
    }
}

impl Ranked<Estimate> {
    /// Returns a text with the parts of its score: by words and vector, by its
    /// run, and its bonus.
    #[inline]
    fn estimate(index: &Index, scores: &Scores, slot: Slot, parts: [f32; 3]) -> Option<Self> {
        let key = index.key(slot)?;
        let [plain, run, bonus] = parts;
        // An estimate of a vector that is above 1 counts as 1, which the sum does
        // not show.
        let may_be_above = plain >= scores.vector_weight;
        let whole = may_be_above.then(|| estimated(index, scores, slot, bonus));
        let relevance = match whole.flatten() {
            Some(hit) => hit.relevance(),
            None => (plain + run + bonus) / BEST,
        };
        Some(Self {
            relevance,
            key,
            of: Estimate { slot, bonus },
        })
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let better = self.relevance.total_cmp(&other.relevance);
        better.then(self.key.cmp(&other.key))
    }
}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Ranked<T> {}
