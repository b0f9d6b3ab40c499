//! The index over texts: their words, their vectors and their neighbours.
//!
//! The index is in memory and is a function of the texts in it. Neither the
//! order of insertion nor deleted texts affect a score, because sums over texts
//! use integers.
//!
//! A message of a conversation is often understood only with its neighbours.
//! The words of a text therefore also count for its neighbours in the same run,
//! less with each word in between. A text is scored as if it contained some of
//! the words just before and after it. Every text gets a score.

mod buffers;
mod codes;
mod file;
mod mute;
mod postings;
mod rescore;
mod runs;
mod vectors;

use std::sync::{Arc, Mutex, PoisonError};

use contexture_words::Words;

use self::buffers::Buffers;
use self::file::section;
use self::mute::Mute;
use self::postings::Postings;
use self::rescore::{LEAST_RESCORED, Rescoring};
use self::runs::{Runs, Span};
use self::vectors::Vectors;
use crate::scan::Probe;
use crate::vector::Vector;

pub use self::buffers::Numbers;
pub use self::file::{packed_names, unpacked_names};
pub(crate) use self::rescore::Exact;

/// The position of a text in the index. A free position is reused.
pub type Slot = u32;

/// A text to add to the index.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The key of the text. It also breaks ties between scores.
    pub key: i64,
    /// The analysed words of the text.
    pub words: &'a Words,
    /// The vector of the text, if there is one.
    pub vector: Option<&'a Vector>,
    /// The run of the text: a session or a file.
    pub run: Option<&'a str>,
    /// The position in the run: a time, and a number for texts of the same
    /// time.
    pub position: (i64, u32),
}

/// BM25's k1: how soon a repeated word adds nothing more.
const K1: f32 = 1.2;

/// BM25's b: the influence of a text's length.
const B: f32 = 0.75;

/// The distance in words, stop words included, at which a neighbour's words
/// count one third.
const FADES: f32 = 80.0;

/// The number of neighbours in each direction whose words count.
const REACH: usize = 3;

/// The weight of the similarity of a text together with its predecessor,
/// relative to the text alone.
const WITH_PREVIOUS: f32 = 0.5;

/// The part of a run's best score that is added to all its texts.
const RUN_PART: f32 = 0.1;

/// The weight of vectors relative to words: when words match well, and when
/// they do not match.
const LEAST_WEIGHT: f32 = 0.5;
const MOST_WEIGHT: f32 = 1.5;

/// The word scores of the best text, for a text of at most mean length, between
/// which the weight of vectors changes.
const FOUND: f32 = 0.35;
const NOT_FOUND: f32 = 0.15;

/// The unit of the integers in which words of neighbours are summed.
const ONE: f32 = 65_536.0;

/// The number of texts from which a search uses several threads.
const WORTH_THREADS: usize = 50_000;

/// The number of slots from which products with vectors are estimated first.
const ESTIMATED: usize = 65_536;

/// The number of vectors that a thread compares before it takes the next block.
const BLOCK: usize = 16_384;

/// About the length of a run's name.
const RUN_NAME: usize = 24;

/// About the bytes of an allocation beyond its content.
const ALLOCATION: usize = 16;

/// The index.
#[derive(Debug)]
pub struct Index {
    postings: Postings,
    texts: Vec<Text>,
    // The neighbours of each text, stored together because a search reads them
    // for every match.
    neighbours: Vec<Neighbours>,
    lengths: Vec<f32>,
    free: Vec<Slot>,
    // Removed texts and their runs, until [`Index::settle`] clears them.
    leaving: Vec<(Slot, u32)>,
    live: usize,
    // The words of all texts, with those of neighbours, in units of 1 / ONE.
    length: u64,
    vectors: Vectors,
    // The number of slots from which products are estimated first.
    estimated: usize,
    // The minimum number of texts that then get exact scores.
    rescored: usize,
    // WITH_PREVIOUS divided by the length of the sum of a text's vector and its
    // predecessor's; 0 when one of them has none.
    pairs: Vec<f32>,
    runs: Runs,
    buffers: Arc<Buffers>,
}

#[derive(Debug, Clone)]
struct Text {
    key: i64,
    // The number of the text's own words.
    length: u32,
    // The number of words with those of neighbours, in units of 1 / ONE.
    wide: u64,
    state: State,
    // The position in the run.
    time: i64,
    place: u32,
    run: u32,
}

impl Text {
    const FREE: Text = Text {
        key: 0,
        length: 0,
        wide: 0,
        state: State::Free,
        time: 0,
        place: 0,
        run: NONE,
    };
}

/// The neighbours of a text in its run.
#[derive(Debug, Clone, Copy)]
struct Neighbours {
    before: Slot,
    behind: Slot,
    // The factor that half of the text's length applies to words that count
    // across it.
    half: f32,
}

/// No neighbour, and no run.
const NONE: Slot = Slot::MAX;

impl Neighbours {
    const NO_NEIGHBOURS: Neighbours = Neighbours {
        before: NONE,
        behind: NONE,
        half: 1.0,
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    // The text is removed, but its words are still in the postings.
    Leaving,
    Free,
}

/// The scores of all texts for a query, by slot.
#[derive(Debug, Default)]
pub struct Scores {
    /// The scores by words, including those of neighbouring texts, relative to
    /// the highest possible score: from 0 to 1.
    pub words: Numbers,
    /// The scores by vectors: the mean of the cosine of the text and that of
    /// the text with its predecessor. If scores are estimates, the estimate for
    /// the text alone.
    pub vectors: Numbers,
    /// The part that the best text of a run adds to each text. Empty if there
    /// are no runs.
    pub runs: Vec<f32>,
    /// The weight of the vector scores relative to the word scores.
    pub vector_weight: f32,
    /// A bit for each slot whose text has a term of the query itself, and for
    /// each of them whose words count for its neighbours.
    own: Vec<u64>,
    lending: Vec<u64>,
    /// The data for exact scores, if the scores of vectors and runs are
    /// estimates.
    rescoring: Option<Rescoring>,
}

impl Scores {
    /// Returns true if the scores of vectors and runs are estimates.
    pub fn are_estimates(&self) -> bool {
        self.rescoring.is_some()
    }

    /// Returns the score of the text in a slot by words and vector.
    #[inline]
    pub(crate) fn plain(&self, slot: usize) -> f32 {
        weighed(self.words[slot]) + self.vector_weight * self.vectors[slot].max(0.0)
    }

    /// Returns the part that the best text of its run adds to the text in a
    /// slot.
    #[inline]
    pub(crate) fn of_run(&self, slot: usize) -> f32 {
        self.runs.get(slot).copied().unwrap_or(0.0)
    }
}

/// Returns the weighted word score: its power 1.25, which favours texts with
/// many of a query's words.
#[inline]
pub(crate) fn weighed(words: f32) -> f32 {
    // Most texts have none of the words.
    match words > 0.0 {
        true => words * words.sqrt().sqrt(),
        false => 0.0,
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Index {
    /// Returns an empty index for vectors of that many dimensions.
    pub fn new(dimensions: usize) -> Self {
        Self {
            postings: Postings::default(),
            texts: Vec::new(),
            neighbours: Vec::new(),
            lengths: Vec::new(),
            free: Vec::new(),
            leaving: Vec::new(),
            live: 0,
            length: 0,
            vectors: Vectors::new(dimensions),
            estimated: ESTIMATED,
            rescored: LEAST_RESCORED,
            pairs: Vec::new(),
            runs: Runs::default(),
            buffers: Arc::default(),
        }
    }

    /// Estimates products with vectors from that many slots on, and computes
    /// exact scores of at least `rescored` texts. The defaults are 65,536 and
    /// 2,048. With fewer slots, every product is exact.
    pub fn estimating_from(mut self, slots: usize, rescored: usize) -> Self {
        (self.estimated, self.rescored) = (slots, rescored);
        self
    }

    /// Returns the minimum number of texts that get exact scores.
    pub(crate) fn least_rescored(&self) -> usize {
        self.rescored
    }

    /// Returns the number of dimensions of the vectors.
    pub fn dimensions(&self) -> usize {
        self.vectors.dimensions()
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Returns true when the index has no texts.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns about how many bytes of memory the index uses. Vectors in a file
    /// do not count, nor do the buffers of searches.
    ///
    /// The call takes the same time for an index of any size.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.texts.capacity() * size_of::<Text>()
            + self.neighbours.capacity() * size_of::<Neighbours>()
            + (self.lengths.capacity() + self.pairs.capacity() + self.free.capacity()) * 4;
        let name = size_of::<(Box<str>, u32)>() + RUN_NAME + ALLOCATION;
        let run = size_of::<Vec<Slot>>() + ALLOCATION + name + size_of::<Span>();
        let runs = self.runs.members.len() * run + self.live * size_of::<Slot>();
        slots + runs + self.postings.memory_bytes() + self.vectors.memory_bytes()
    }

    /// Returns the number of slots, free ones included.
    pub fn slots(&self) -> usize {
        self.texts.len()
    }

    /// Returns the key of the text in a slot, if there is one.
    pub fn key(&self, slot: Slot) -> Option<i64> {
        let text = self.texts.get(slot as usize)?;
        (text.state == State::Live).then_some(text.key)
    }

    /// Returns the texts of a run, in order.
    pub fn run(&self, name: &str) -> &[Slot] {
        match self.runs.names.get(name) {
            Some(&run) => &self.runs.members[run as usize],
            None => &[],
        }
    }

    /// Adds a text and returns its slot. A vector with another number of
    /// dimensions is ignored.
    pub fn add(&mut self, entry: &Entry<'_>) -> Slot {
        let slot = self.free_slot();
        for term in &entry.words.terms {
            self.postings.add(term.id, slot, term.count);
        }
        let at = slot as usize;
        self.live += 1;
        let run = entry.run.map(|name| self.runs.number(name));
        let length = entry.words.length;
        self.texts[at] = Text {
            key: entry.key,
            length,
            wide: 0,
            state: State::Live,
            time: entry.position.0,
            place: entry.position.1,
            run: run.unwrap_or(NONE),
        };
        self.neighbours[at] = Neighbours {
            half: (-(entry.words.total.max(1) as f32) / 2.0 / FADES).exp(),
            ..Neighbours::NO_NEIGHBOURS
        };
        if let Some(run) = run {
            self.enter(slot, run);
        }
        self.set_vector(slot, entry.vector);
        self.widen_around(slot);
        slot
    }

    /// Sets the vector of a text. A vector with another number of dimensions is
    /// ignored.
    pub fn set_vector(&mut self, slot: Slot, vector: Option<&Vector>) {
        self.vectors.set(slot, vector);
        self.measure_pairs(slot);
    }

    /// Updates the pairs that contain a text.
    fn measure_pairs(&mut self, slot: Slot) {
        self.measure_pair(slot);
        let behind = self.neighbours[slot as usize].behind;
        if behind != NONE {
            self.measure_pair(behind);
        }
    }

    /// Removes a text. [`settle`](Index::settle) must follow before the next
    /// addition or search.
    pub fn remove(&mut self, slot: Slot) {
        let text = &mut self.texts[slot as usize];
        if text.state != State::Live {
            return;
        }
        text.state = State::Leaving;
        self.leaving.push((slot, text.run));
        self.live -= 1;
        self.length -= text.wide;
        text.wide = 0;
        text.run = NONE;
        self.vectors.clear(slot);
        let Neighbours { before, behind, .. } = self.neighbours[slot as usize];
        self.neighbours[slot as usize] = Neighbours::NO_NEIGHBOURS;
        self.join(before, behind);
        if behind != NONE {
            self.measure_pair(behind);
        }
        for neighbours in [before, behind] {
            if neighbours != NONE {
                self.widen_around(neighbours);
            }
        }
    }

    /// Clears the remains of removed texts, in one pass over the postings.
    pub fn settle(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.sort_unstable();
        let slots: Vec<Slot> = leaving.iter().map(|(slot, _)| *slot).collect();
        self.postings.take_out(&slots);
        let mut runs: Vec<u32> = leaving.iter().map(|(_, run)| *run).collect();
        runs.sort_unstable();
        runs.dedup();
        let texts = &self.texts;
        for run in runs.into_iter().filter(|run| *run != NONE) {
            let members = &mut self.runs.members[run as usize];
            members.retain(|&slot| texts[slot as usize].state != State::Leaving);
            self.runs.spans[run as usize] = Span::of(members);
        }
        for slot in slots {
            // No data of the text remains, so that no file contains it.
            let at = slot as usize;
            self.texts[at] = Text::FREE;
            self.neighbours[at] = Neighbours::NO_NEIGHBOURS;
            self.lengths[at] = 0.0;
            self.pairs[at] = 0.0;
            self.free.push(slot);
        }
    }

    /// Scores every text by the terms and the vector of a query. The words of
    /// `mute` texts do not count for their neighbours.
    pub fn scores(&self, terms: &[u32], vector: Option<&[f32]>, mute: &[Slot]) -> Scores {
        let slots = self.texts.len();
        let vector = vector.filter(|v| v.len() == self.dimensions());
        let probe = vector.and_then(Probe::new);
        let estimated = slots >= self.estimated || !self.vectors.is_in_memory();
        let tables = vector.filter(|_| estimated);
        let tables = tables.and_then(|vector| self.vectors.tables(vector));
        let probe = probe.filter(|_| tables.is_some() || !estimated);
        let mut scores = Scores {
            words: Buffers::take(&self.buffers, slots),
            vectors: match tables.is_some() {
                // The search writes every number.
                true => Buffers::take_any(&self.buffers, slots),
                false => Buffers::take(&self.buffers, slots),
            },
            own: vec![0; slots.div_ceil(64)],
            ..Scores::default()
        };
        if let (Some(probe), Some(tables)) = (&probe, tables) {
            let best = self.score_words(terms, mute, &mut scores.words, &mut scores.own);
            scores.lending = without(&scores.own, mute);
            let mute = Mute::of(mute, slots);
            scores.vector_weight = self.vector_weight(terms, best, &mute);
            let rescoring = self.rescoring(&mut scores, &tables, probe.clone(), mute);
            scores.rescoring = Some(rescoring);
            return scores;
        }
        let Scores {
            words,
            vectors,
            own,
            ..
        } = &mut scores;
        if slots < WORTH_THREADS {
            let best = self.score_words(terms, mute, words, own);
            if let Some(probe) = &probe {
                self.vectors.dots(probe, 0, vectors);
            }
            self.combine(terms, mute, best, &mut scores);
            return scores;
        }
        // Each free thread takes the next block of vectors.
        let blocks = Mutex::new(vectors.chunks_mut(BLOCK).enumerate());
        let compare = |probe: &Probe| {
            loop {
                let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((block, dots)) = next else { return };
                self.vectors.dots(probe, block * BLOCK, dots);
            }
        };
        let best = std::thread::scope(|threads| {
            if let Some(probe) = &probe {
                threads.spawn(|| compare(probe));
            }
            let best = self.score_words(terms, mute, words, own);
            if let Some(probe) = &probe {
                compare(probe);
            }
            best
        });
        self.combine(terms, mute, best, &mut scores);
        scores
    }

    /// Adds the scores of neighbours and runs, and weighs words against
    /// vectors. `mute` texts add nothing to others. `best` is the result of
    /// [`Index::score_words`].
    fn combine(&self, terms: &[u32], mute: &[Slot], best: f32, scores: &mut Scores) {
        scores.lending = without(&scores.own, mute);
        let mute = Mute::of(mute, scores.words.len());
        scores.vector_weight = self.vector_weight(terms, best, &mute);
        if scores.vectors.iter().any(|dot| *dot != 0.0) {
            self.with_previous(&mute, &mut scores.vectors);
        }
        if self.runs.members.is_empty() {
            return;
        }
        scores.runs = vec![0.0; scores.words.len()];
        for members in &self.runs.members {
            let lends = |slot: &&Slot| !mute.holds(**slot);
            let best = (members.iter().filter(lends))
                .map(|&slot| scores.plain(slot as usize))
                .fold(0.0, f32::max);
            if best > 0.0 {
                for &slot in members {
                    scores.runs[slot as usize] = RUN_PART * best;
                }
            }
        }
    }

    /// Returns the weight of vectors relative to words. It is larger when few
    /// of the query's words occur anywhere, or when no text has many of them.
    fn vector_weight(&self, terms: &[u32], best: f32, mute: &Mute) -> f32 {
        let (mut all, mut held) = (0.0, 0.0);
        for term in terms {
            let rarity = self.rarity(*term);
            all += rarity;
            if self.holders(*term).any(|slot| !mute.holds(slot)) {
                held += rarity;
            }
        }
        let missing = if all > 0.0 { 1.0 - held / all } else { 1.0 };
        let low = ((FOUND - best) / (FOUND - NOT_FOUND)).clamp(0.0, 1.0);
        LEAST_WEIGHT + (MOST_WEIGHT - LEAST_WEIGHT) * missing.max(low)
    }

    /// Adds the similarity of each text together with its predecessor.
    ///
    /// The vector of both is the sum of their vectors, whose length follows
    /// from their product.
    fn with_previous(&self, mute: &Mute, vectors: &mut [f32]) {
        for members in &self.runs.members {
            // The loop runs backwards, so that the value of the predecessor is
            // still its own.
            for pair in members.windows(2).rev() {
                let (before, at) = (pair[0], pair[1] as usize);
                if !mute.holds(before) {
                    vectors[at] = together(vectors[at], vectors[before as usize], self.pairs[at]);
                }
            }
        }
    }

    /// Stores the factor for the similarity of a text together with its
    /// predecessor; 0 when one of them has no vector.
    fn measure_pair(&mut self, slot: Slot) {
        let at = slot as usize;
        let before = self.neighbours[at].before;
        self.pairs[at] = 0.0;
        if before == NONE {
            return;
        }
        let scales = &self.vectors.scales;
        let scale = scales[at] * scales[before as usize];
        if scale > 0.0 {
            let (mut own, mut other) = (Vec::new(), Vec::new());
            let both = self.vectors.components(slot, &mut own);
            let both = both.zip(self.vectors.components(before, &mut other));
            let Some((own, other)) = both else { return };
            let pairs = own.iter().zip(other);
            let product: i32 = pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
            let length = (2.0 + 2.0 * product as f32 * scale).max(0.5).sqrt();
            self.pairs[at] = WITH_PREVIOUS / length;
        }
    }

    /// Returns the texts with a term.
    pub fn holders(&self, term: u32) -> impl Iterator<Item = Slot> + '_ {
        self.postings.holders(term)
    }

    /// Returns the inverse document frequency of a term.
    pub fn rarity(&self, term: u32) -> f32 {
        let holding = self.postings.held_by(term);
        let (all, holding) = (self.live as f32, holding as f32);
        (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln()
    }

    /// Computes BM25 with the words of neighbours, which are added before
    /// saturation, divided by the highest score that a text with every term
    /// could get.
    ///
    /// Terms that no text has are ignored.
    ///
    /// Returns the score that the best text that is not `mute` would have if no
    /// text were longer than the mean. A long text with the words of a query
    /// matches, however many other words it has.
    ///
    /// Sets a bit of `own` for each slot whose text has one of the terms.
    fn score_words(
        &self,
        terms: &[u32],
        mute: &[Slot],
        scores: &mut [f32],
        own: &mut [u64],
    ) -> f32 {
        let mute = Mute::of(mute, scores.len());
        let most = self.add_words(terms, &mute, f32::INFINITY, scores, own);
        // A higher score has the same effect as `FOUND`.
        if most >= FOUND {
            return most;
        }
        let mut shorter = Buffers::take(&self.buffers, scores.len());
        self.add_words(terms, &mute, K1, &mut shorter, own)
    }

    /// Returns the neighbour with the best word score that has a term itself, for
    /// a text without any of the terms.
    pub(crate) fn source(&self, scores: &Scores, slot: Slot) -> Option<Slot> {
        let holds = |bits: &[u64], slot: Slot| {
            let word = bits.get(slot as usize / 64);
            word.is_some_and(|word| word & (1 << (slot % 64)) != 0)
        };
        if holds(&scores.own, slot) {
            return None;
        }
        let mut best: Option<(f32, Slot)> = None;
        self.around(slot, |near, _| {
            let words = scores.words[near as usize];
            if holds(&scores.lending, near) && best.is_none_or(|(most, _)| words > most) {
                best = Some((words, near));
            }
        });
        best.map(|(_, slot)| slot)
    }

    /// Adds the score of each text by words, and returns the best score of a
    /// text that is not `mute`. `longest` is the largest value by which the
    /// length of a text lowers its score. Sets a bit of `own` for each text with
    /// a term.
    fn add_words(
        &self,
        terms: &[u32],
        mute: &Mute,
        longest: f32,
        scores: &mut [f32],
        own: &mut [u64],
    ) -> f32 {
        let held = terms
            .iter()
            .filter(|term| self.postings.held_by(**term) > 0);
        let best: f32 = held.map(|&term| self.rarity(term)).sum();
        let mean = (self.length as f64 / f64::from(ONE) / self.live.max(1) as f64) as f32;
        let by_length = K1 * B / mean.max(f32::MIN_POSITIVE);
        let (mut counts, mut touched) = self.buffers.take_counts(scores.len());
        let mut most = 0.0_f32;
        for &term in terms {
            pulp::Arch::new().dispatch(LendTerm {
                index: self,
                term,
                mute,
                counts: &mut counts,
                touched: &mut touched,
                own,
            });
            let share = self.rarity(term) / best;
            if mute.is_empty() {
                let of_term = pulp::Arch::new().dispatch(AddTerm {
                    counts: &mut counts,
                    touched: &mut touched,
                    lengths: &self.lengths,
                    scores,
                    share,
                    by_length,
                    longest,
                });
                most = most.max(of_term);
                continue;
            }
            for (word, bits) in touched.iter_mut().enumerate() {
                let mut bits = std::mem::take(bits);
                while bits != 0 {
                    let at = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let count = std::mem::take(&mut counts[at]) as f32 / ONE;
                    let damp = (K1 * (1.0 - B) + by_length * self.lengths[at]).min(longest);
                    let score = scores[at] + share * count / (count + damp);
                    scores[at] = score;
                    // Sums only increase: the largest so far is the largest at
                    // the end.
                    if score > most && !mute.holds(at as Slot) {
                        most = score;
                    }
                }
            }
        }
        self.buffers.give_counts(counts, touched);
        most
    }

    /// Adds the words of a text to its sum and to those of its neighbours.
    #[inline(always)]
    fn lend_around(&self, slot: Slot, count: u8, sums: &mut [u32], touched: &mut [u64]) {
        const NEAR: usize = 2 * REACH + 1;
        // Most neighbours have the slots next to the text. They are then read
        // together, and not each to find the next.
        let first = (slot as usize).wrapping_sub(REACH);
        let near = self.neighbours.get(first..).and_then(<[_]>::first_chunk);
        let sums_near = sums
            .get_mut(first..)
            .and_then(<[_]>::first_chunk_mut::<NEAR>);
        if let (Some(near), Some(sums)) = (near, sums_near)
            && is_in_order(near, slot)
        {
            let near: &[Neighbours; NEAR] = near;
            let mut parts = [1.0_f32; NEAR];
            for before in [true, false] {
                let mut part = near[REACH].half;
                for distance in 1..=REACH {
                    let at = match before {
                        true => REACH - distance,
                        false => REACH + distance,
                    };
                    part *= near[at].half;
                    parts[at] = part;
                    part *= near[at].half;
                }
            }
            for (sum, part) in sums.iter_mut().zip(parts) {
                // A part is at most 1. Signed numbers are converted at once.
                let part = (part * ONE) as i32 as u32;
                *sum = sum.saturating_add(u32::from(count) * part + 1);
            }
            let bits = ((1_u128 << NEAR) - 1) << (first % 64);
            touched[first / 64] |= bits as u64;
            if let Some(next) = touched.get_mut(first / 64 + 1) {
                *next |= (bits >> 64) as u64;
            }
            return;
        }
        self.around(slot, |near, part| lend(near, count, part, sums, touched));
    }

    /// Calls `each` with a text and its neighbours, and the part of its words
    /// that counts for each.
    #[inline]
    fn around(&self, slot: Slot, mut each: impl FnMut(Slot, u32)) {
        each(slot, ONE as u32);
        let Neighbours {
            mut before,
            mut behind,
            half,
        } = self.neighbours[slot as usize];
        let mut part = half;
        for _ in 0..REACH {
            if before == NONE {
                break;
            }
            let other = self.neighbours[before as usize];
            part *= other.half;
            each(before, (part * ONE) as u32);
            part *= other.half;
            before = other.before;
        }
        part = half;
        for _ in 0..REACH {
            if behind == NONE {
                break;
            }
            let other = self.neighbours[behind as usize];
            part *= other.half;
            each(behind, (part * ONE) as u32);
            part *= other.half;
            behind = other.behind;
        }
    }

    /// Updates the length of a text and of the neighbours for which its words
    /// count.
    fn widen_around(&mut self, slot: Slot) {
        let mut near = Vec::with_capacity(2 * REACH + 1);
        self.around(slot, |slot, _| near.push(slot));
        for slot in near {
            let mut wide = 0;
            self.around(slot, |other, part| {
                wide += u64::from(self.texts[other as usize].length) * u64::from(part);
            });
            let text = &mut self.texts[slot as usize];
            self.length = self.length - text.wide + wide;
            text.wide = wide;
            self.lengths[slot as usize] = wide as f32 / ONE;
        }
    }

    /// Returns a free slot.
    fn free_slot(&mut self) -> Slot {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        // Four thousand million texts do not fit into memory.
        let slot = self.texts.len() as Slot;
        self.texts.push(Text::FREE);
        self.neighbours.push(Neighbours::NO_NEIGHBOURS);
        self.lengths.push(0.0);
        self.vectors.push();
        self.pairs.push(0.0);
        slot
    }

    /// Inserts a text into its run.
    fn enter(&mut self, slot: Slot, run: u32) {
        let texts = &self.texts;
        let rank = |slot: Slot| {
            let text = &texts[slot as usize];
            (text.time, text.place, text.key)
        };
        let members = &mut self.runs.members[run as usize];
        // A new text usually comes last.
        let place = match members.last() {
            Some(&last) if rank(last) > rank(slot) => {
                members.partition_point(|&other| rank(other) < rank(slot))
            }
            _ => members.len(),
        };
        let before = place.checked_sub(1).map_or(NONE, |i| members[i]);
        let behind = members.get(place).copied().unwrap_or(NONE);
        let span = &mut self.runs.spans[run as usize];
        *span = match (before, behind) {
            (NONE, NONE) => Span::of(&[slot]),
            (_, NONE) => span.with_last(slot),
            _ => Span::default(),
        };
        members.insert(place, slot);
        self.join(before, slot);
        self.join(slot, behind);
    }

    fn join(&mut self, before: Slot, behind: Slot) {
        if before != NONE {
            self.neighbours[before as usize].behind = behind;
        }
        if behind != NONE {
            self.neighbours[behind as usize].before = before;
        }
    }
}

/// Adds the counts of one term to the texts that have it and to their neighbours.
/// The words of `mute` texts do not count for their neighbours. Sets a bit of `own`
/// for each text with the term.
struct LendTerm<'a> {
    index: &'a Index,
    term: u32,
    mute: &'a Mute,
    counts: &'a mut [u32],
    touched: &'a mut [u64],
    own: &'a mut [u64],
}

impl pulp::NullaryFnOnce for LendTerm<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            index,
            term,
            mute,
            counts,
            touched,
            own,
        } = self;
        index.postings.each(term, |slot, count| {
            own[slot as usize / 64] |= 1 << (slot % 64);
            match mute.holds(slot) {
                true => lend(slot, count, ONE as u32, counts, touched),
                false => index.lend_around(slot, count, counts, touched),
            }
        });
    }
}

/// The number of scores that are computed at once.
const LANES: usize = 16;

/// Adds the score of one term to each touched text, and to the texts around it,
/// whose count is zero and adds nothing. Clears the counts and the bits. Returns
/// the best score of these texts.
struct AddTerm<'a> {
    counts: &'a mut [u32],
    touched: &'a mut [u64],
    lengths: &'a [f32],
    scores: &'a mut [f32],
    share: f32,
    by_length: f32,
    longest: f32,
}

impl pulp::NullaryFnOnce for AddTerm<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        let Self {
            counts,
            touched,
            lengths,
            scores,
            share,
            by_length,
            longest,
        } = self;
        let add = |count: &mut u32, length: f32, score: &mut f32| {
            // A sum of counts is far below 2^31, and a signed number is converted
            // faster.
            let held = std::mem::take(count) as i32 as f32 / ONE;
            let damp = (K1 * (1.0 - B) + by_length * length).min(longest);
            *score += share * held / (held + damp);
            *score
        };
        let mut most = [0.0_f32; LANES];
        for (word, bits) in touched.iter_mut().enumerate() {
            let bits = std::mem::take(bits);
            if bits == 0 {
                continue;
            }
            for part in 0..64 / LANES {
                if bits >> (part * LANES) & ((1 << LANES) - 1) == 0 {
                    continue;
                }
                let first = word * 64 + part * LANES;
                let counts = &mut counts[first..];
                let (lengths, scores) = (&lengths[first..], &mut scores[first..]);
                let whole = (
                    counts.first_chunk_mut::<LANES>(),
                    lengths.first_chunk::<LANES>(),
                    scores.first_chunk_mut::<LANES>(),
                );
                let (Some(counts), Some(lengths), Some(scores)) = whole else {
                    // The last texts.
                    let texts = counts.iter_mut().zip(lengths).zip(scores);
                    for ((count, length), score) in texts {
                        most[0] = most[0].max(add(count, *length, score));
                    }
                    continue;
                };
                for lane in 0..LANES {
                    let score = add(&mut counts[lane], lengths[lane], &mut scores[lane]);
                    most[lane] = if score > most[lane] {
                        score
                    } else {
                        most[lane]
                    };
                }
            }
        }
        most.into_iter().fold(0.0, f32::max)
    }
}

/// Returns the similarity of a text, half of it together with its predecessor.
/// `pair` is the factor for the products of both; 0 without a predecessor.
#[inline(always)]
fn together(own: f32, before: f32, pair: f32) -> f32 {
    match pair > 0.0 {
        true => own * (1.0 - WITH_PREVIOUS) + (own + before) * pair,
        false => own,
    }
}

/// Adds words of a text to the sum of a text near it, and marks that text.
#[inline]
fn lend(near: Slot, count: u8, part: u32, sums: &mut [u32], touched: &mut [u64]) {
    let at = near as usize;
    // One is added, so that the sum of a matched text is never 0.
    sums[at] = sums[at].saturating_add(u32::from(count) * part + 1);
    touched[at / 64] |= 1 << (at % 64);
}

/// Returns true when the neighbours of a text have the slots next to it. The
/// text is in the middle of `near`.
#[inline(always)]
fn is_in_order(near: &[Neighbours; 2 * REACH + 1], slot: Slot) -> bool {
    let mut in_order = true;
    for distance in 0..REACH {
        let further = distance as Slot + 1;
        in_order &= near[REACH - distance].before == slot.wrapping_sub(further);
        in_order &= near[REACH + distance].behind == slot.wrapping_add(further);
    }
    in_order
}

/// Returns a set of slots, as bits, without some slots.
fn without(set: &[u64], slots: &[Slot]) -> Vec<u64> {
    let mut set = set.to_vec();
    for &slot in slots {
        if let Some(word) = set.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
    }
    set
}
