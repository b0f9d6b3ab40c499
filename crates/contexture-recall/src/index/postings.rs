//! Postings: the texts with a term, and its count in each.
//!
//! Most postings are contiguous in an array of bytes, ordered by term, which a
//! file stores as it is. For each text, in ascending order, there is its
//! distance from the one before, and the count unless it is 1: about one and a
//! half bytes for most. The postings of texts that were added later are in a
//! map. Postings of removed texts in the array are skipped; when they are many,
//! the array is rewritten.

// The map is only looked up, or sorted before it is iterated.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::io;

use super::{Slot, section};
use crate::sections::{SectionFile, SectionWriter, damaged};

/// All postings.
#[derive(Debug, Default)]
pub(super) struct Postings {
    // The terms in ascending order, the number of texts with each, and the
    // start of its postings; one more at the end.
    terms: Vec<u32>,
    held: Vec<u32>,
    starts: Vec<u32>,
    bytes: Vec<u8>,
    // All slots in `bytes` are below this one.
    end: Slot,
    // A bit for each slot whose postings in `bytes` are removed, and their
    // number.
    gone: Vec<u64>,
    gone_count: usize,
    #[allow(clippy::disallowed_types)]
    added: HashMap<u32, Holders>,
    // The number of postings in `added`.
    added_count: usize,
}

/// The array is rewritten when more than one in this many of its slots are
/// removed.
const MOST_GONE: usize = 16;

/// The texts with a term, and its count in each.
#[derive(Debug, Default)]
struct Holders {
    slots: Vec<Slot>,
    counts: Vec<u8>,
}

/// The postings of a term, as bytes.
#[derive(Debug, Clone, Default)]
struct Encoded<'a> {
    bytes: &'a [u8],
    last: Slot,
}

impl Iterator for Encoded<'_> {
    type Item = (Slot, u8);

    #[inline]
    fn next(&mut self) -> Option<(Slot, u8)> {
        let (&first, mut rest) = self.bytes.split_first()?;
        let mut number = u64::from(first & 0x7f);
        let mut more = first >= 0x80;
        let mut shift = 7;
        while more {
            let (&byte, behind) = rest.split_first()?;
            rest = behind;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            more = byte >= 0x80 && shift < 42;
        }
        let count = match number & 1 {
            0 => 1,
            _ => {
                let (&count, behind) = rest.split_first()?;
                rest = behind;
                count
            }
        };
        self.bytes = rest;
        self.last = self.last.checked_add(u32::try_from(number >> 1).ok()?)?;
        Some((self.last, count))
    }
}

/// Appends the postings of a term, which are in ascending order.
fn encode(bytes: &mut Vec<u8>, postings: impl Iterator<Item = (Slot, u8)>) -> u32 {
    let (mut last, mut held) = (0, 0);
    for (slot, count) in postings {
        let mut number = u64::from(slot - last) << 1 | u64::from(count != 1);
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        if count != 1 {
            bytes.push(count);
        }
        last = slot;
        held += 1;
    }
    held
}

impl Postings {
    /// Adds a text with a term.
    pub(super) fn add(&mut self, term: u32, slot: Slot, count: u8) {
        let holders = self.added.entry(term).or_default();
        holders.slots.push(slot);
        holders.counts.push(count);
        self.added_count += 1;
    }

    /// Returns about how many bytes of memory the postings use.
    pub(super) fn memory_bytes(&self) -> usize {
        let words = self.terms.capacity() + self.held.capacity() + self.starts.capacity();
        // Two bytes for each byte in use: arrays that grow are partly empty, and
        // each is an allocation.
        let added = self.added_count * 2 * (size_of::<Slot>() + 1);
        words * 4
            + self.bytes.capacity()
            + self.gone.capacity() * 8
            + self.added.capacity() * size_of::<(u32, Holders)>()
            + added
    }

    /// Returns the postings of the term at an index.
    fn encoded(&self, at: usize) -> Encoded<'_> {
        let range = self.starts[at] as usize..self.starts[at + 1] as usize;
        Encoded {
            bytes: &self.bytes[range],
            last: 0,
        }
    }

    /// Returns true when the postings of a slot in the array are removed.
    #[inline]
    fn is_gone(&self, slot: Slot) -> bool {
        let word = self.gone.get(slot as usize / 64);
        word.is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    /// Returns the remaining postings of the term at an index.
    fn counted(&self, at: usize) -> impl Iterator<Item = (Slot, u8)> + '_ {
        self.encoded(at).filter(|(slot, _)| !self.is_gone(*slot))
    }

    /// Returns the postings of a term.
    fn of(&self, term: u32) -> impl Iterator<Item = (Slot, u8)> + '_ {
        let place = self.terms.binary_search(&term).ok();
        let known = place.into_iter().flat_map(|at| self.counted(at));
        let added = self.added.get(&term).into_iter();
        known.chain(added.flat_map(Holders::iter))
    }

    /// Returns the texts with a term.
    pub(super) fn holders(&self, term: u32) -> impl Iterator<Item = Slot> + '_ {
        self.of(term).map(|(slot, _)| slot)
    }

    /// Returns the number of texts with a term.
    pub(super) fn held_by(&self, term: u32) -> usize {
        let place = self.terms.binary_search(&term).ok();
        let known = place.map_or(0, |at| self.held[at] as usize);
        known + self.added.get(&term).map_or(0, |added| added.slots.len())
    }

    /// Calls `each` with each text with a term, and its count.
    #[inline(always)]
    pub(super) fn each(&self, term: u32, mut each: impl FnMut(Slot, u8)) {
        if let Ok(at) = self.terms.binary_search(&term) {
            match self.gone.is_empty() {
                true => self.encoded(at).for_each(|(slot, count)| each(slot, count)),
                false => self.counted(at).for_each(|(slot, count)| each(slot, count)),
            }
        }
        for (slot, count) in self.added.get(&term).into_iter().flat_map(Holders::iter) {
            each(slot, count);
        }
    }

    /// Removes the postings of texts, whose slots are in ascending order.
    pub(super) fn take_out(&mut self, slots: &[Slot]) {
        let Some(last) = slots.last() else { return };
        let words = (self.end.max(*last) as usize + 1).div_ceil(64);
        let bits = |slots: &[Slot]| {
            let mut bits = vec![0_u64; words];
            for slot in slots {
                bits[*slot as usize / 64] |= 1 << (slot % 64);
            }
            bits
        };
        let leaving = bits(slots);
        let is_in = |bits: &[u64], slot: Slot| {
            let word = bits.get(slot as usize / 64);
            word.is_some_and(|word| word & (1 << (slot % 64)) != 0)
        };
        let mut remaining = 0;
        self.added.retain(|_, holders| {
            holders.take_out(|slot| is_in(&leaving, slot));
            remaining += holders.slots.len();
            !holders.slots.is_empty()
        });
        self.added_count = remaining;
        // A slot that was removed before and used again is only in the map.
        let filed: Vec<Slot> = (slots.iter().copied())
            .filter(|slot| *slot < self.end && !self.is_gone(*slot))
            .collect();
        if filed.is_empty() {
            return;
        }
        let leaving = bits(&filed);
        let leaves = |slot: Slot| is_in(&leaving, slot);
        let count = |at: usize| self.encoded(at).filter(|(slot, _)| leaves(*slot)).count();
        let fewer: Vec<u32> = (0..self.terms.len()).map(|at| count(at) as u32).collect();
        for (held, fewer) in self.held.iter_mut().zip(fewer) {
            *held -= fewer;
        }
        self.gone.resize(leaving.len(), 0);
        for (gone, leaving) in self.gone.iter_mut().zip(leaving) {
            *gone |= leaving;
        }
        self.gone_count += filed.len();
        if self.gone_count > self.end as usize / MOST_GONE {
            let added = std::mem::take(&mut self.added);
            self.flatten();
            (self.added, self.added_count) = (added, remaining);
        }
    }

    /// Appends a term, unless no text has it.
    fn push(&mut self, term: u32, postings: impl Iterator<Item = (Slot, u8)>) {
        // More bytes than `u32` can count do not fit into memory.
        let start = self.bytes.len() as u32;
        let held = encode(&mut self.bytes, postings);
        if held > 0 {
            self.terms.push(term);
            self.held.push(held);
            self.starts.push(start);
        }
    }

    /// Makes all postings contiguous.
    pub(super) fn flatten(&mut self) {
        let added = std::mem::take(&mut self.added);
        let mut added: Vec<(u32, Vec<(Slot, u8)>)> = (added.into_iter())
            .map(|(term, holders)| {
                let mut postings: Vec<(Slot, u8)> = holders.iter().collect();
                postings.sort_unstable();
                (term, postings)
            })
            .collect();
        added.sort_unstable_by_key(|(term, _)| *term);
        let last = |(_, postings): &(u32, Vec<(Slot, u8)>)| postings.last().copied();
        let last = added.iter().filter_map(last).map(|(slot, _)| slot).max();
        let more: usize = added.iter().map(|(_, postings)| postings.len()).sum();
        let mut flat = Postings {
            terms: Vec::with_capacity(self.terms.len() + added.len()),
            bytes: Vec::with_capacity(self.bytes.len() + 2 * more),
            end: self.end.max(last.map_or(0, |slot| slot + 1)),
            ..Postings::default()
        };
        let mut added = added.into_iter().peekable();
        for at in 0..self.terms.len() {
            let term = self.terms[at];
            while let Some((other, postings)) = added.next_if(|(other, _)| *other < term) {
                flat.push(other, postings.into_iter());
            }
            match added.next_if(|(other, _)| *other == term) {
                None => flat.push(term, self.counted(at)),
                Some((_, more)) => {
                    let mut both: Vec<(Slot, u8)> = self.counted(at).chain(more).collect();
                    both.sort_unstable();
                    flat.push(term, both.into_iter());
                }
            }
        }
        for (term, postings) in added {
            flat.push(term, postings.into_iter());
        }
        flat.starts.push(flat.bytes.len() as u32);
        flat.bytes.shrink_to_fit();
        *self = flat;
    }

    /// Writes the postings, which must be contiguous.
    pub(super) fn write(&self, file: &mut SectionWriter) -> io::Result<()> {
        file.array(section::TERMS, &self.terms)?;
        file.array(section::HELD, &self.held)?;
        file.array(section::STARTS, &self.starts)?;
        file.array(section::POSTED, &self.bytes)
    }

    /// Reads the output of [`Postings::write`], for this many slots.
    pub(super) fn read(file: &SectionFile, slots: usize) -> io::Result<Self> {
        let postings = Self {
            terms: file.array(section::TERMS)?,
            held: file.array(section::HELD)?,
            starts: file.array(section::STARTS)?,
            bytes: file.array(section::POSTED)?,
            end: slots as Slot,
            ..Self::default()
        };
        let is_whole = postings.starts.len() == postings.terms.len() + 1
            && postings.held.len() == postings.terms.len()
            && postings.starts.is_sorted()
            && postings.starts.last() == Some(&(postings.bytes.len() as u32))
            && postings.terms.is_sorted();
        let fits = |at: usize| {
            let mut all = postings.encoded(at);
            let mut held = 0;
            let fit = all.by_ref().all(|(slot, _)| {
                held += 1;
                (slot as usize) < slots
            });
            fit && all.bytes.is_empty() && held == postings.held[at]
        };
        match is_whole && (0..postings.terms.len()).all(fits) {
            true => Ok(postings),
            false => Err(damaged("the postings do not fit together")),
        }
    }

    /// Returns true when the map is empty and the array has no removed
    /// postings.
    pub(super) fn is_flat(&self) -> bool {
        self.added.is_empty() && self.gone.is_empty() && self.starts.len() == self.terms.len() + 1
    }
}

impl Holders {
    fn iter(&self) -> impl Iterator<Item = (Slot, u8)> + '_ {
        self.slots.iter().copied().zip(self.counts.iter().copied())
    }

    fn take_out(&mut self, leaving: impl Fn(Slot) -> bool) {
        if !self.slots.iter().any(|&slot| leaving(slot)) {
            return;
        }
        let mut counts = self.counts.iter();
        let mut kept = Vec::with_capacity(self.counts.len());
        self.slots.retain(|&slot| {
            let count = counts.next().copied().unwrap_or(0);
            let keep = !leaving(slot);
            if keep {
                kept.push(count);
            }
            keep
        });
        self.counts = kept;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_text_is_decoded_unchanged(
            steps in prop::collection::vec((0..300_000_000_u32, 0..=255_u8), 0..40),
        ) {
            let mut slot = 0_u32;
            let mut postings = Vec::new();
            for (i, (step, count)) in steps.into_iter().enumerate() {
                let next = if i == 0 { Some(step) } else { slot.checked_add(step.max(1)) };
                let Some(next) = next else { break };
                slot = next;
                postings.push((slot, count));
            }
            let mut bytes = Vec::new();
            let held = encode(&mut bytes, postings.iter().copied());
            prop_assert_eq!(held as usize, postings.len());
            let read = Encoded { bytes: &bytes, last: 0 };
            prop_assert_eq!(read.collect::<Vec<_>>(), postings);
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let read = Encoded { bytes: &bytes, last: 0 };
            prop_assert!(read.count() <= bytes.len());
        }
    }
}
