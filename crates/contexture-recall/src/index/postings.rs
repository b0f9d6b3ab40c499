//! Postings: which texts hold a term, and how often.
//!
//! Most postings lie end to end in arrays, ordered by term, which a file holds
//! as they are. Texts that were added since have theirs in a map.

// Looked up by term only, or sorted before it is walked.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::io;

use super::{Slot, section};
use crate::sections::{SectionFile, SectionWriter, damaged};

/// All postings.
#[derive(Debug, Default)]
pub(super) struct Postings {
    // The terms in ascending order, and where the postings of each begin; one
    // more at the end.
    terms: Vec<u32>,
    starts: Vec<u32>,
    slots: Vec<Slot>,
    counts: Vec<u8>,
    #[allow(clippy::disallowed_types)]
    added: HashMap<u32, Holders>,
}

/// The texts that hold a term, and how often each does.
#[derive(Debug, Default)]
struct Holders {
    slots: Vec<Slot>,
    counts: Vec<u8>,
}

impl Postings {
    /// Notes that a text holds a term.
    pub(super) fn add(&mut self, term: u32, slot: Slot, count: u8) {
        let holders = self.added.entry(term).or_default();
        holders.slots.push(slot);
        holders.counts.push(count);
    }

    /// Returns the texts that hold a term, in two parts.
    fn parts(&self, term: u32) -> [(&[Slot], &[u8]); 2] {
        let flat = self.terms.binary_search(&term).ok().map(|at| {
            let range = self.starts[at] as usize..self.starts[at + 1] as usize;
            (&self.slots[range.clone()], &self.counts[range])
        });
        let added = self.added.get(&term);
        let added = added.map(|holders| (&*holders.slots, &*holders.counts));
        [flat, added].map(Option::unwrap_or_default)
    }

    /// Returns the texts that hold a term.
    pub(super) fn holders(&self, term: u32) -> impl Iterator<Item = Slot> + '_ {
        let parts = self.parts(term).into_iter();
        parts.flat_map(|(slots, _)| slots.iter().copied())
    }

    /// Returns how many texts hold a term.
    pub(super) fn held_by(&self, term: u32) -> usize {
        self.parts(term).iter().map(|(slots, _)| slots.len()).sum()
    }

    /// Calls with each text that holds a term, and how often it does.
    pub(super) fn each(&self, term: u32, mut each: impl FnMut(Slot, u8)) {
        for (slots, counts) in self.parts(term) {
            for (&slot, &count) in slots.iter().zip(counts) {
                each(slot, count);
            }
        }
    }

    /// Takes out the postings of texts that are leaving.
    pub(super) fn take_out(&mut self, leaving: impl Fn(Slot) -> bool) {
        self.added.retain(|_, holders| {
            holders.take_out(&leaving);
            !holders.slots.is_empty()
        });
        if !self.slots.iter().any(|&slot| leaving(slot)) {
            return;
        }
        let mut kept = 0;
        let mut terms = 0;
        for at in 0..self.terms.len() {
            let range = self.starts[at] as usize..self.starts[at + 1] as usize;
            let start = kept;
            for i in range {
                if !leaving(self.slots[i]) {
                    self.slots[kept] = self.slots[i];
                    self.counts[kept] = self.counts[i];
                    kept += 1;
                }
            }
            if kept > start {
                self.terms[terms] = self.terms[at];
                self.starts[terms] = start as u32;
                terms += 1;
            }
        }
        self.terms.truncate(terms);
        self.starts.truncate(terms);
        self.starts.push(kept as u32);
        self.slots.truncate(kept);
        self.counts.truncate(kept);
    }

    /// Lays all postings end to end.
    pub(super) fn flatten(&mut self) {
        let added = std::mem::take(&mut self.added);
        let more: usize = added.values().map(|one| one.slots.len()).sum();
        let mut added: Vec<(u32, Holders)> = added.into_iter().collect();
        added.sort_unstable_by_key(|(term, _)| *term);
        let all = self.slots.len() + more;
        // More postings than numbers do not fit in memory.
        let mut flat = Postings {
            terms: Vec::with_capacity(self.terms.len() + added.len()),
            starts: Vec::with_capacity(self.terms.len() + added.len() + 1),
            slots: Vec::with_capacity(all),
            counts: Vec::with_capacity(all),
            ..Postings::default()
        };
        let mut added = added.into_iter().peekable();
        for at in 0..self.terms.len() {
            let term = self.terms[at];
            while let Some((other, holders)) = added.next_if(|(other, _)| *other < term) {
                flat.push(other, &[(&holders.slots, &holders.counts)]);
            }
            let range = self.starts[at] as usize..self.starts[at + 1] as usize;
            let own = (&self.slots[range.clone()], &self.counts[range]);
            match added.next_if(|(other, _)| *other == term) {
                Some((_, more)) => flat.push(term, &[own, (&more.slots, &more.counts)]),
                None => flat.push(term, &[own]),
            }
        }
        for (term, holders) in added {
            flat.push(term, &[(&holders.slots, &holders.counts)]);
        }
        flat.starts.push(flat.slots.len() as u32);
        *self = flat;
    }

    fn push(&mut self, term: u32, parts: &[(&[Slot], &[u8])]) {
        self.terms.push(term);
        self.starts.push(self.slots.len() as u32);
        for (slots, counts) in parts {
            self.slots.extend_from_slice(slots);
            self.counts.extend_from_slice(counts);
        }
    }

    /// Writes the postings. They must lie end to end.
    pub(super) fn write(&self, file: &mut SectionWriter) -> io::Result<()> {
        file.array(section::TERMS, &self.terms)?;
        file.array(section::STARTS, &self.starts)?;
        file.array(section::POSTED, &self.slots)?;
        file.array(section::COUNTS, &self.counts)
    }

    /// Reads what [`Postings::write`] wrote, for so many slots.
    pub(super) fn read(file: &SectionFile, slots: usize) -> io::Result<Self> {
        let postings = Self {
            terms: file.array(section::TERMS)?,
            starts: file.array(section::STARTS)?,
            slots: file.array(section::POSTED)?,
            counts: file.array(section::COUNTS)?,
            ..Self::default()
        };
        let all = postings.slots.len();
        let is_whole = postings.starts.len() == postings.terms.len() + 1
            && postings.starts.is_sorted()
            && postings.starts.last() == Some(&(all as u32))
            && postings.terms.is_sorted()
            && postings.counts.len() == all
            && postings.slots.iter().all(|slot| (*slot as usize) < slots);
        match is_whole {
            true => Ok(postings),
            false => Err(damaged("the postings do not fit together")),
        }
    }

    /// Returns true when nothing is in the map.
    pub(super) fn is_flat(&self) -> bool {
        self.added.is_empty() && self.starts.len() == self.terms.len() + 1
    }
}

impl Holders {
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
