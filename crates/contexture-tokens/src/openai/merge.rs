//! Byte-pair merging: how many tokens a piece is.
//!
//! The tokens of a piece begin as its bytes. Of all neighbours that joined are
//! a token, those with the lowest rank are merged, the leftmost first, until
//! none are left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use super::hash::hash;
use super::vocabulary::{NO_RANK, Vocabulary};

/// The longest piece whose pairs are searched from end to end for the lowest
/// rank. A heap is faster for longer ones.
const SHORT: usize = 48;

/// The length of the part of a long piece that is merged at once. The heap of
/// a larger one is slower.
const WINDOW: usize = 2 * 1024;

/// The distance from the end of a window, in bytes, within which its tokens may
/// be wrong.
const MARGIN: usize = 256;

/// The number of short pieces that are looked up together.
const TOGETHER: usize = 16;

/// The buffers that a thread reuses from piece to piece.
pub(crate) struct Merger {
    recent: Recent,
    cache: Cache,
    heap: Heap,
}

impl Merger {
    pub(crate) const fn new() -> Self {
        Self {
            recent: Recent { slots: Vec::new() },
            cache: Cache { slots: Vec::new() },
            heap: Heap::new(),
        }
    }

    /// Returns the number of tokens of a text. `end_of` returns the end of the piece
    /// that begins at a place. Counting ends early when there are more than `limit`
    /// tokens; the result is then some number above `limit`.
    #[inline]
    pub(crate) fn count(
        &mut self,
        vocabulary: &Vocabulary,
        text: &[u8],
        limit: u64,
        end_of: impl Fn(usize) -> usize,
    ) -> u64 {
        let mut unknown: [&[u8]; TOGETHER] = [&[]; TOGETHER];
        let mut waiting = 0;
        let (mut tokens, mut at) = (0, 0);
        while at < text.len() && tokens <= limit {
            let end = end_of(at);
            let piece = &text[at..end];
            at = end;
            let Some(short) = ShortPiece::of(vocabulary, piece) else {
                tokens += self.look_up(vocabulary, piece, limit - tokens);
                continue;
            };
            if let Some(known) = self.recent.get(&short) {
                tokens += u64::from(known);
                continue;
            }
            unknown[waiting] = piece;
            waiting += 1;
            if waiting == TOGETHER {
                tokens += self.look_up_all(vocabulary, &unknown);
                waiting = 0;
            }
        }
        tokens + self.look_up_all(vocabulary, &unknown[..waiting])
    }

    /// Returns the number of tokens of short pieces that were not counted recently.
    ///
    /// Most of the vocabulary is not in the processor's caches, so the processor waits for
    /// each place that is read. It can wait for several at once if they are read one right
    /// after the other: the slots of all pieces, and then the tokens in these slots.
    fn look_up_all(&mut self, vocabulary: &Vocabulary, pieces: &[&[u8]]) -> u64 {
        let mut places = [0; TOGETHER];
        for (place, piece) in places.iter_mut().zip(pieces) {
            *place = vocabulary.likely_place(piece);
        }
        black_box(places.iter().fold(0, |all, at| all ^ vocabulary.byte(*at)));
        let mut sum = 0;
        for piece in pieces {
            let tokens = self.look_up(vocabulary, piece, u64::MAX);
            if let Some(short) = ShortPiece::of(vocabulary, piece) {
                self.recent.insert(short, tokens);
            }
            sum += tokens;
        }
        sum
    }

    /// Returns the number of tokens of a piece that was not counted recently.
    fn look_up(&mut self, vocabulary: &Vocabulary, piece: &[u8], limit: u64) -> u64 {
        if vocabulary.contains(piece) {
            return 1;
        }
        if piece.len() <= LONGEST_KEY {
            let heap = &mut self.heap;
            return self
                .cache
                .get_or_insert(vocabulary, piece, || match piece.len() {
                    ..=SHORT => count_short(vocabulary, piece),
                    _ => heap.count(vocabulary, piece) as u8,
                })
                .into();
        }
        if piece.len() <= WINDOW {
            return self.heap.count(vocabulary, piece) as u64;
        }
        count_long::<WINDOW, MARGIN>(&mut self.heap, vocabulary, piece, limit)
            .unwrap_or_else(|| Heap::new().count(vocabulary, piece) as u64)
    }
}

/// Returns the number of tokens of `piece`, which has at most [`SHORT`] bytes.
fn count_short(vocabulary: &Vocabulary, piece: &[u8]) -> u8 {
    // The start of each token, and the rank of it joined with the next one.
    let mut starts = [0u8; SHORT + 1];
    let mut ranks = [NO_RANK; SHORT + 1];
    for (at, start) in starts.iter_mut().enumerate().take(piece.len() + 1) {
        *start = at as u8;
    }
    for (rank, pair) in ranks.iter_mut().zip(piece.windows(2)) {
        *rank = vocabulary.pair_rank(pair[0], pair[1]);
    }
    let mut tokens = piece.len();
    loop {
        // The first of the lowest, since `min_by_key` returns the first.
        let lowest = ranks[..tokens]
            .iter()
            .enumerate()
            .min_by_key(|&(_, &rank)| rank);
        let Some((at, _)) = lowest.filter(|&(_, &rank)| rank != NO_RANK) else {
            return tokens as u8;
        };
        starts.copy_within(at + 2..=tokens, at + 1);
        ranks.copy_within(at + 2..tokens, at + 1);
        tokens -= 1;
        ranks[tokens] = NO_RANK;
        let rank = |first: usize| {
            if first + 2 > tokens {
                return NO_RANK;
            }
            vocabulary.rank(&piece[usize::from(starts[first])..usize::from(starts[first + 2])])
        };
        ranks[at] = rank(at);
        if at > 0 {
            ranks[at - 1] = rank(at - 1);
        }
    }
}

/// Returns the number of tokens of a long piece in time and memory that do not
/// grow faster than the piece, or `None` when windows do not agree.
///
/// A sequence of tokens is the result of merging its bytes if that is true for
/// every two neighbours. Two windows that have one token in common, at the same
/// place, can therefore be joined there.
fn count_long<const WINDOW: usize, const MARGIN: usize>(
    heap: &mut Heap,
    vocabulary: &Vocabulary,
    piece: &[u8],
    limit: u64,
) -> Option<u64> {
    let mut merged: &[u8] = &[];
    let (mut start, mut counted) = (0, 0);
    // The end of the first token, as the window before has it.
    let mut expected = None;
    loop {
        let from = start;
        let end = piece.len().min(from + WINDOW);
        // A long piece often repeats itself.
        if piece[from..end] != *merged {
            merged = &piece[from..end];
            heap.merge(vocabulary, merged);
        }
        let mut ends = heap.ends().map(|token_end| from + token_end);
        let mut token_end = ends.next()?;
        if expected.is_some_and(|expected| expected != token_end) {
            return None;
        }
        if end == piece.len() {
            return Some(counted + 1 + ends.count() as u64);
        }
        while token_end < end - MARGIN {
            counted += 1;
            start = token_end;
            token_end = ends.next()?;
        }
        if start == from {
            return None;
        }
        if counted > limit {
            return Some(counted);
        }
        expected = Some(token_end);
    }
}

/// Merges with a heap of pairs.
struct Heap {
    /// Pairs by rank and place; those that have changed since are in it, too.
    pairs: BinaryHeap<Reverse<u64>>,
    tokens: Vec<Token>,
}

/// A token, by the place where it begins.
#[derive(Clone, Copy)]
struct Token {
    before: u32,
    /// The start of the next token.
    end: u32,
    /// The rank of this one joined with the next.
    rank: u32,
}

impl Heap {
    const fn new() -> Self {
        Self {
            pairs: BinaryHeap::new(),
            tokens: Vec::new(),
        }
    }

    /// Returns the number of tokens of `piece`.
    fn count(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        self.merge(vocabulary, piece);
        self.ends().count()
    }

    /// Merges the bytes of `piece`.
    fn merge(&mut self, vocabulary: &Vocabulary, piece: &[u8]) {
        let Self { pairs, tokens } = self;
        tokens.clear();
        let mut first = std::mem::take(pairs).into_vec();
        first.clear();
        for at in 0..piece.len() {
            let rank = match piece[at..] {
                [first, second, ..] => vocabulary.pair_rank(first, second),
                _ => NO_RANK,
            };
            let place = at as u32;
            if rank != NO_RANK {
                first.push(pair(rank, place));
            }
            tokens.push(Token {
                before: place.wrapping_sub(1),
                end: place + 1,
                rank,
            });
        }
        *pairs = BinaryHeap::from(first);
        while let Some(Reverse(lowest)) = pairs.pop() {
            let (rank, place) = ((lowest >> 32) as u32, lowest as u32);
            let at = place as usize;
            if tokens[at].rank != rank {
                continue;
            }
            let merged = tokens[at].end as usize;
            let end = tokens[merged].end;
            tokens[merged].rank = NO_RANK;
            tokens[at].end = end;
            let mut update = |tokens: &mut [Token], at: u32| {
                let token = &tokens[at as usize];
                let rank = match tokens.get(token.end as usize) {
                    Some(next) => vocabulary.rank(&piece[at as usize..next.end as usize]),
                    None => NO_RANK,
                };
                tokens[at as usize].rank = rank;
                if rank != NO_RANK {
                    pairs.push(pair(rank, at));
                }
            };
            update(tokens, place);
            if let Some(next) = tokens.get_mut(end as usize) {
                next.before = place;
            }
            if at > 0 {
                let before = tokens[at].before;
                update(tokens, before);
            }
        }
    }

    /// Returns the ends of the tokens of the piece that was merged last.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let mut at = 0;
        std::iter::from_fn(move || {
            at = self.tokens.get(at)?.end as usize;
            Some(at)
        })
    }
}

/// Packs a pair so that the lowest rank comes first, and the leftmost of it.
fn pair(rank: u32, place: u32) -> Reverse<u64> {
    Reverse(u64::from(rank) << 32 | u64::from(place))
}

/// The number of the latest pieces whose counts are in memory, as a power of two.
/// They stay in a fast cache of the processor (96 KB); the vocabulary does not.
const RECENT_BITS: u32 = 12;

/// The latest short pieces, one for each slot.
struct Recent {
    slots: Vec<ShortPiece>,
}

/// A piece of 3 to 16 bytes: its first and its last bytes, which overlap or meet,
/// its length and its vocabulary, and its tokens.
#[derive(Debug, Clone, Copy, Default)]
struct ShortPiece {
    first: u64,
    last: u64,
    length: u8,
    vocabulary: u8,
    tokens: u8,
}

impl ShortPiece {
    /// Returns a piece whose tokens are not known, or `None` if it is too short
    /// or too long.
    #[inline]
    fn of(vocabulary: &Vocabulary, piece: &[u8]) -> Option<Self> {
        let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        let (first, last) = match *piece {
            [a, b, c] => (word(&[a, b, c, 0]), 0),
            _ => match (piece.first_chunk::<8>(), piece.last_chunk::<8>()) {
                (Some(first), Some(last)) => {
                    (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
                }
                _ => (word(piece.first_chunk()?), word(piece.last_chunk()?)),
            },
        };
        (piece.len() <= 16).then_some(Self {
            first,
            last,
            length: piece.len() as u8,
            vocabulary: vocabulary.number,
            tokens: 0,
        })
    }

    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        (self.first, self.last) == (other.first, other.last)
            && (self.length, self.vocabulary) == (other.length, other.vocabulary)
    }

    #[inline]
    fn slot(&self) -> usize {
        let mixed = self.first ^ self.last.rotate_left(25) ^ u64::from(self.length);
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - RECENT_BITS)) as usize
    }
}

impl Recent {
    /// Returns the tokens of a piece, if it is one of the latest.
    #[inline]
    fn get(&self, piece: &ShortPiece) -> Option<u8> {
        let known = self.slots.get(piece.slot())?;
        known.is_same(piece).then_some(known.tokens)
    }

    #[inline]
    fn insert(&mut self, piece: ShortPiece, tokens: u64) {
        if self.slots.is_empty() {
            self.slots = vec![ShortPiece::default(); 1 << RECENT_BITS];
        }
        // A piece has no more tokens than bytes.
        let tokens = tokens as u8;
        self.slots[piece.slot()] = ShortPiece { tokens, ..piece };
    }
}

/// The longest piece that the cache holds.
const LONGEST_KEY: usize = 61;

/// The number of slots of the cache: 256 KB for each thread that counts.
const SLOTS: usize = 4096;

/// The counts of pieces that had to be merged: texts repeat their words.
struct Cache {
    /// Each slot holds the number of the vocabulary, 0 if it is empty, then the
    /// length of a piece, its count, and the piece. They are bytes so that
    /// unused ones cost no memory.
    slots: Vec<[u8; 3 + LONGEST_KEY]>,
}

impl Cache {
    #[inline]
    fn get_or_insert(
        &mut self,
        vocabulary: &Vocabulary,
        piece: &[u8],
        merge: impl FnOnce() -> u8,
    ) -> u8 {
        if self.slots.is_empty() {
            self.slots = vec![[0; 3 + LONGEST_KEY]; SLOTS];
        }
        let slot = &mut self.slots[hash(piece) as usize % SLOTS];
        let [owner, length, count, key @ ..] = slot;
        let key = &mut key[..piece.len()];
        if *owner != vocabulary.number || usize::from(*length) != piece.len() || key != piece {
            *count = merge();
            *owner = vocabulary.number;
            *length = piece.len() as u8;
            key.copy_from_slice(piece);
        }
        *count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::vocabulary::{CL100K_BASE, O200K_BASE};
    use super::*;

    const BOTH: [&Vocabulary; 2] = [&O200K_BASE, &CL100K_BASE];

    /// Merges as the algorithm is defined, and returns the ends of the tokens.
    fn merge(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<usize> {
        let mut bounds: Vec<usize> = (0..=piece.len()).collect();
        loop {
            let pairs = bounds.windows(3).enumerate();
            let ranks = pairs.map(|(at, b)| (vocabulary.rank(&piece[b[0]..b[2]]), at));
            match ranks.min() {
                Some((rank, at)) if rank != NO_RANK => bounds.remove(at + 1),
                _ => return bounds.split_off(1),
            };
        }
    }

    /// Texts that are one piece, or would be without the pattern. In repetitive
    /// texts, windows are hardest to join.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop_oneof![
            "[a-c]{1,4}",
            "[a-z]{1,12}",
            "[A-Za-z0-9+/]{1,40}",
            "[ \n=*-]{1,3}",
            "[的一是不了人我在有他这]{1,6}",
            "[а-яё]{1,10}",
            "\\PC{1,6}",
        ]
        .prop_map(String::into_bytes);
        let any = prop::collection::vec(any::<u8>(), 1..20);
        prop::collection::vec((prop_oneof![3 => bytes, 1 => any], 1usize..40), 1..8).prop_map(
            |parts| {
                let repeated = parts.iter().map(|(part, times)| part.repeat(*times));
                repeated.collect::<Vec<_>>().concat()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn all_ways_to_merge_agree(piece in piece()) {
            let mut heap = Heap::new();
            for vocabulary in BOTH {
                let expected = merge(vocabulary, &piece);
                heap.merge(vocabulary, &piece);
                prop_assert_eq!(&heap.ends().collect::<Vec<_>>(), &expected);
                for short in piece.chunks(SHORT) {
                    let count = merge(vocabulary, short).len();
                    prop_assert_eq!(usize::from(count_short(vocabulary, short)), count);
                }
                // Windows this small disagree now and then, but are never wrong.
                let counts = [
                    count_long::<64, 32>(&mut heap, vocabulary, &piece, u64::MAX),
                    count_long::<200, 100>(&mut heap, vocabulary, &piece, u64::MAX),
                    count_long::<300, 10>(&mut heap, vocabulary, &piece, u64::MAX),
                ];
                for count in counts.into_iter().flatten() {
                    prop_assert_eq!(count, expected.len() as u64);
                }
            }
        }

        #[test]
        fn windows_of_the_usual_size_agree(piece in piece(), limit in 0u64..3_000) {
            let piece = piece.repeat(1 + 2 * WINDOW / piece.len());
            let mut heap = Heap::new();
            for vocabulary in BOTH {
                let expected = heap.count(vocabulary, &piece) as u64;
                let count = count_long::<WINDOW, MARGIN>(&mut heap, vocabulary, &piece, u64::MAX);
                prop_assert_eq!(count, Some(expected));
                let count = Merger::new().count(vocabulary, &piece, limit, |_| piece.len());
                prop_assert_eq!(count.min(limit + 1), expected.min(limit + 1));
            }
        }
    }

    /// Joining windows depends on this: merging the bytes of a token gives the
    /// token.
    #[test]
    fn every_token_is_merged_from_its_bytes() {
        let mut heap = Heap::new();
        for vocabulary in BOTH {
            let mut tokens = 0;
            for token in vocabulary.tokens() {
                assert_eq!(heap.count(vocabulary, token), 1, "{token:?}");
                tokens += 1;
            }
            assert!(tokens > 100_000);
        }
    }
}
