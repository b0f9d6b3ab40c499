//! A vocabulary as the build script wrote it, read in place.

use super::hash::{EMPTY, INDEX_BITS, first_slot, hash, tag};

/// The rank of bytes that are not a token. It is higher than that of any token.
pub(crate) const NO_RANK: u32 = 0xFF_FF_FF;

/// The tokens of an encoding, found by their bytes.
///
/// A token has an index, which counts the tokens by length and then by rank.
pub(crate) struct Vocabulary {
    /// A number that identifies the vocabulary; it is not 0.
    pub(crate) number: u8,
    /// A hash table with linear probing: the index of a token and some bits of
    /// its hash.
    slots: &'static [[u8; 4]],
    /// The ranks of all pairs of bytes.
    pairs: &'static [[u8; 3]],
    /// Ranks by index.
    ranks: &'static [[u8; 3]],
    /// The bytes of all tokens by index.
    bytes: &'static [u8],
    longest: usize,
    /// For each length the index of the first token and the place of its bytes,
    /// and the ends of both.
    lengths: &'static [(usize, usize)],
}

include!(concat!(env!("OUT_DIR"), "/vocabularies.rs"));

impl Vocabulary {
    /// Returns true when `bytes` is a token.
    #[inline]
    pub(crate) fn contains(&self, bytes: &[u8]) -> bool {
        match *bytes {
            // Every byte is a token.
            [_] => true,
            [first, second] => self.pair_rank(first, second) != NO_RANK,
            _ => self.index(bytes).is_some(),
        }
    }

    /// Returns the rank of `bytes`, or [`NO_RANK`] if they are not a token.
    #[inline]
    pub(crate) fn rank(&self, bytes: &[u8]) -> u32 {
        match *bytes {
            [first, second] => self.pair_rank(first, second),
            _ => self
                .index(bytes)
                .map_or(NO_RANK, |index| rank_in(self.ranks, index)),
        }
    }

    /// Returns the rank of the token of two bytes, or [`NO_RANK`].
    #[inline]
    pub(crate) fn pair_rank(&self, first: u8, second: u8) -> u32 {
        rank_in(self.pairs, usize::from(u16::from_be_bytes([first, second])))
    }

    /// Returns the place of the token that `bytes` most likely is, if they are a
    /// token. Reads one slot.
    #[inline]
    pub(crate) fn likely_place(&self, bytes: &[u8]) -> usize {
        let length = bytes.len();
        let Some(&(first, start)) = self.lengths.get(length) else {
            return 0;
        };
        let slot = first_slot(hash(bytes), self.slots.len());
        let index = (u32::from_le_bytes(self.slots[slot]) & ((1 << INDEX_BITS) - 1)) as usize;
        let place = start + index.saturating_sub(first) * length;
        place.min(self.bytes.len() - 1)
    }

    /// Returns the byte of the tokens at a place.
    #[inline]
    pub(crate) fn byte(&self, place: usize) -> u8 {
        self.bytes[place]
    }

    /// Returns the bytes of all tokens.
    #[cfg(test)]
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &'static [u8]> {
        let lengths = self.lengths.windows(2).enumerate().skip(1);
        lengths
            .flat_map(|(length, bounds)| self.bytes[bounds[0].1..bounds[1].1].chunks_exact(length))
    }

    #[inline]
    fn index(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.len() > self.longest {
            return None;
        }
        let length = bytes.len();
        let (first, start) = self.lengths[length];
        let (end, _) = self.lengths[length + 1];
        let hash = hash(bytes);
        let tag = tag(hash);
        let mut slot = first_slot(hash, self.slots.len());
        loop {
            let entry = u32::from_le_bytes(self.slots[slot]);
            if entry == EMPTY {
                return None;
            }
            if (entry ^ tag) >> INDEX_BITS == 0 {
                let index = (entry & ((1 << INDEX_BITS) - 1)) as usize;
                if (first..end).contains(&index) {
                    let place = start + (index - first) * length;
                    if equal(&self.bytes[place..place + length], bytes) {
                        return Some(index);
                    }
                }
            }
            slot += 1;
            if slot == self.slots.len() {
                slot = 0;
            }
        }
    }
}

/// Returns true if two byte strings of the same length are equal. Most have at
/// most two machine words, for which this is faster than a call.
#[inline]
fn equal(one: &[u8], other: &[u8]) -> bool {
    match one.len() {
        4..8 => {
            one.first_chunk::<4>() == other.first_chunk()
                && one.last_chunk::<4>() == other.last_chunk()
        }
        8..=16 => {
            one.first_chunk::<8>() == other.first_chunk()
                && one.last_chunk::<8>() == other.last_chunk()
        }
        _ => one == other,
    }
}

#[inline]
fn rank_in(ranks: &[[u8; 3]], at: usize) -> u32 {
    let [low, middle, high] = ranks[at];
    u32::from_le_bytes([low, middle, high, 0])
}
