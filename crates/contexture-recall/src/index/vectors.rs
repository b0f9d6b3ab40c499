//! The vectors of an index: a code of one bit per component for every text, and
//! the components, in memory or in a file.
//!
//! A small index compares a query with the components of every text. A large
//! one estimates the products from the codes, which have an eighth of the size,
//! and computes only the exact products of the best texts. Its components may
//! stay in a file, from which single vectors are read and checked.

// The map is only looked up by slot.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::codes::{Codes, Tables};
use super::{ALLOCATION, Slot, section};
use crate::scan::Probe;
use crate::sections::{SectionFile, SectionWriter, damaged, read_at};
use crate::vector::Vector;

/// The number of vectors that are written at a time.
const WRITTEN: usize = 1_024;

/// The vectors of an index, by slot.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    dimensions: usize,
    codes: Codes,
    // The scale of the components; 0 for a text without a vector.
    pub(super) scales: Vec<f32>,
    // The factor for the product with a code.
    factors: Vec<f32>,
    // The vectors of the first slots in a file, and those that were set since.
    file: Option<Filed>,
    #[allow(clippy::disallowed_types)]
    replaced: HashMap<Slot, Box<[i8]>>,
    // The vectors of all other slots, concatenated.
    memory: Vec<i8>,
    // The slots whose vector was set since `mark`.
    log: Vec<Slot>,
}

/// Vectors in a file.
#[derive(Debug)]
struct Filed {
    file: File,
    // The offset of the first vector.
    at: u64,
    slots: usize,
    checks: Vec<u32>,
    // A bit for each vector that was read and is intact.
    checked: Vec<AtomicU64>,
    damaged: Arc<AtomicBool>,
}

impl Vectors {
    pub(super) fn new(dimensions: usize) -> Self {
        Self {
            dimensions,
            codes: Codes::new(dimensions),
            ..Self::default()
        }
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns about how many bytes of memory the vectors use, without those in
    /// the file.
    pub(super) fn memory_bytes(&self) -> usize {
        let replaced = self.dimensions + size_of::<(Slot, Box<[i8]>)>() + ALLOCATION;
        let file = self.file.as_ref().map_or(0, |file| {
            file.checks.capacity() * 4 + file.checked.capacity() * 8
        });
        self.codes.bytes().len()
            + (self.scales.capacity() + self.factors.capacity() + self.log.capacity()) * 4
            + self.memory.capacity()
            + self.replaced.len() * replaced
            + file
    }

    /// Adds a slot.
    pub(super) fn push(&mut self) {
        self.scales.push(0.0);
        self.codes.resize(self.scales.len());
        self.factors.push(0.0);
        let longer = self.memory.len() + self.dimensions;
        self.memory.resize(longer, 0);
    }

    /// Returns the number of slots with their vector in the file.
    fn filed(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.slots)
    }

    /// Sets the vector of a slot. A vector with another number of dimensions is
    /// ignored.
    pub(super) fn set(&mut self, slot: Slot, vector: Option<&Vector>) {
        let at = slot as usize;
        let vector = vector.filter(|v| v.components().len() == self.dimensions);
        let none = vec![0; if vector.is_none() { self.dimensions } else { 0 }];
        let components = vector.map_or(&*none, Vector::components);
        self.scales[at] = vector.map_or(0.0, Vector::scale);
        self.factors[at] = self.scales[at] * factor(components);
        self.codes.set(at, components);
        let filed = self.filed();
        match at.checked_sub(filed) {
            Some(at) => {
                let place = at * self.dimensions..(at + 1) * self.dimensions;
                self.memory[place].copy_from_slice(components);
            }
            None => {
                self.replaced.insert(slot, components.into());
            }
        }
        self.log.push(slot);
    }

    /// Removes the vector of a slot. A vector in the file remains there, but is
    /// not read again.
    pub(super) fn clear(&mut self, slot: Slot) {
        let at = slot as usize;
        if at >= self.filed() {
            return self.set(slot, None);
        }
        (self.scales[at], self.factors[at]) = (0.0, 0.0);
        self.codes.clear(at);
        self.replaced.remove(&slot);
        self.log.push(slot);
    }

    /// Returns true when all vectors are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    /// Returns true when a vector in the file is damaged or cannot be read.
    pub(super) fn is_damaged(&self) -> bool {
        let file = self.file.as_ref();
        file.is_some_and(|file| file.damaged.load(Ordering::Relaxed))
    }

    /// Returns the components of a slot; `None` when they cannot be read.
    pub(super) fn components<'a>(
        &'a self,
        slot: Slot,
        buffer: &'a mut Vec<i8>,
    ) -> Option<&'a [i8]> {
        let at = slot as usize;
        let Some(file) = self.file.as_ref().filter(|file| at < file.slots) else {
            let at = at - self.filed();
            return Some(&self.memory[at * self.dimensions..(at + 1) * self.dimensions]);
        };
        if let Some(replaced) = self.replaced.get(&slot) {
            return Some(replaced);
        }
        if self.scales[at] == 0.0 {
            buffer.clear();
            buffer.resize(self.dimensions, 0);
            return Some(&**buffer);
        }
        file.read(at, self.dimensions, buffer).then_some(&**buffer)
    }

    /// Returns the products with the vectors of slots in ascending order;
    /// `None` for a vector that cannot be read.
    pub(super) fn dots_of(&self, probe: &Probe, slots: &[Slot]) -> Vec<Option<f32>> {
        let mut dots = Vec::with_capacity(slots.len());
        let mut block = FileBlock::default();
        for (i, &slot) in slots.iter().enumerate() {
            let at = slot as usize;
            if self.scales[at] == 0.0 {
                dots.push(Some(0.0));
                continue;
            }
            let file = self.file.as_ref().filter(|file| at < file.slots);
            let Some(file) = file.filter(|_| !self.replaced.contains_key(&slot)) else {
                let mut unused = Vec::new();
                let components = self.components(slot, &mut unused);
                dots.push(components.map(|components| {
                    let mut dot = [0.0];
                    probe.dots(components, &[self.scales[at]], &mut dot);
                    dot[0]
                }));
                continue;
            };
            if !block.holds(at) {
                block.read(file, self.dimensions, &slots[i..]);
                block.multiply(probe, &self.scales);
            }
            dots.push(block.dot(file, at, self.dimensions));
        }
        dots
    }

    /// Writes the product with each vector. All must be in memory.
    pub(super) fn dots(&self, probe: &Probe, first: usize, dots: &mut [f32]) {
        let end = first + dots.len();
        let vectors = &self.memory[first * self.dimensions..end * self.dimensions];
        probe.dots(vectors, &self.scales[first..end], dots);
    }

    /// Returns the tables for estimates of products with a query; `None` for a
    /// zero vector.
    pub(super) fn tables(&self, query: &[f32]) -> Option<Tables> {
        self.codes.tables(query)
    }

    /// Writes an estimate of the product with each vector from `first` on.
    pub(super) fn estimates(&self, tables: &Tables, first: usize, dots: &mut [f32]) {
        let factors = &self.factors[first..first + dots.len()];
        self.codes.estimates(tables, first, factors, dots);
    }

    /// Records from now on which vectors are set.
    pub(super) fn mark(&mut self) {
        self.log.clear();
    }

    /// Returns the number of vectors that were set since the mark.
    pub(super) fn noted(&self) -> usize {
        self.log.len()
    }

    /// Writes the vectors.
    pub(super) fn write(&self, file: &mut SectionWriter) -> io::Result<()> {
        file.array(section::SCALES, &self.scales)?;
        file.array(section::FACTORS, &self.factors)?;
        file.array(section::CODES, self.codes.bytes())?;
        let mut checks: Vec<u32> = Vec::with_capacity(self.scales.len());
        let mut buffer = Vec::new();
        let slots: Vec<Slot> = (0..self.scales.len() as Slot).collect();
        let parts = slots.chunks(WRITTEN).map(|slots| {
            let mut part: Vec<i8> = Vec::with_capacity(slots.len() * self.dimensions);
            for slot in slots {
                let components = self.components(*slot, &mut buffer);
                let components =
                    components.ok_or_else(|| damaged("a vector does not match its hash"))?;
                checks.push(check(pulp::bytemuck::cast_slice(components)));
                part.extend_from_slice(components);
            }
            Ok(part)
        });
        file.parts(section::VECTORS, parts)?;
        file.array(section::CHECKS, &checks)
    }

    /// Reads the output of [`Vectors::write`], for this many slots. With
    /// `in_file`, the components stay in the file.
    pub(super) fn read(
        file: &SectionFile,
        dimensions: usize,
        slots: usize,
        in_file: bool,
    ) -> io::Result<Self> {
        let apart = || damaged("the vectors do not fit together");
        let codes = file.array(section::CODES)?;
        let mut vectors = Self {
            dimensions,
            scales: file.array(section::SCALES)?,
            factors: file.array(section::FACTORS)?,
            codes: Codes::from_bytes(dimensions, slots, codes).ok_or_else(apart)?,
            ..Self::default()
        };
        match in_file {
            true => vectors.attach(file, slots, &[])?,
            false => {
                vectors.memory = file.array(section::VECTORS)?;
                // The array is checked as a whole, so the hashes are not
                // needed.
                file.array::<u32>(section::CHECKS)?;
            }
        }
        let is_whole = vectors.scales.len() == slots
            && vectors.factors.len() == slots
            && (in_file || vectors.memory.len() == slots * dimensions);
        match is_whole {
            true => Ok(vectors),
            false => Err(apart()),
        }
    }

    /// Replaces the components of the first slots by those of a file. Vectors
    /// that were set after it was written, `noted` vectors after the mark, stay
    /// in memory.
    pub(super) fn leave_to(
        &mut self,
        file: &SectionFile,
        slots: usize,
        noted: usize,
    ) -> io::Result<()> {
        let since: Vec<Slot> = self.log.get(noted..).unwrap_or_default().to_vec();
        self.attach(file, slots, &since)
    }

    fn attach(&mut self, file: &SectionFile, slots: usize, since: &[Slot]) -> io::Result<()> {
        let (at, length) = file.place(section::VECTORS)?;
        let checks: Vec<u32> = file.array(section::CHECKS)?;
        if checks.len() != slots || length != (slots * self.dimensions) as u64 {
            return Err(damaged("the vectors do not fit together"));
        }
        let filed = Filed {
            file: file.handle()?,
            at,
            slots,
            checks,
            checked: (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            damaged: Arc::default(),
        };
        let mut buffer = Vec::new();
        let mut replaced = HashMap::default();
        for &slot in since.iter().filter(|slot| (**slot as usize) < slots) {
            if let Some(components) = self.components(slot, &mut buffer) {
                replaced.insert(slot, components.into());
            }
        }
        let later = slots.saturating_sub(self.filed()) * self.dimensions;
        self.memory = self.memory.get(later..).unwrap_or_default().to_vec();
        self.replaced = replaced;
        self.file = Some(filed);
        Ok(())
    }
}

/// Adjacent vectors of a file, read at once.
#[derive(Default)]
struct FileBlock {
    first: usize,
    count: usize,
    bytes: Vec<u8>,
    dots: Vec<f32>,
    is_read: bool,
}

/// The number of unwanted vectors between two wanted ones that are read along,
/// and the number that are read at once. A call of the system takes as long as
/// copying a few kilobytes.
const MOST_BETWEEN: usize = 12;
const MOST_AT_ONCE: usize = 256;

impl FileBlock {
    fn holds(&self, at: usize) -> bool {
        (self.first..self.first + self.count).contains(&at)
    }

    /// Reads the first of some slots in ascending order, with the slots that
    /// follow closely.
    fn read(&mut self, file: &Filed, dimensions: usize, slots: &[Slot]) {
        let Some(first) = slots.first().map(|slot| *slot as usize) else {
            return;
        };
        let mut last = first;
        for slot in slots {
            let at = *slot as usize;
            if at >= file.slots || at > last + 1 + MOST_BETWEEN || at - first >= MOST_AT_ONCE {
                break;
            }
            last = at;
        }
        (self.first, self.count) = (first, last - first + 1);
        self.bytes.resize(self.count * dimensions, 0);
        let place = file.at + (first * dimensions) as u64;
        self.is_read = read_at(&file.file, &mut self.bytes, place).is_ok();
    }

    /// Computes the products with all vectors that were read.
    fn multiply(&mut self, probe: &Probe, scales: &[f32]) {
        self.dots.resize(self.count, 0.0);
        let scales = &scales[self.first..self.first + self.count];
        let vectors = pulp::bytemuck::cast_slice(&self.bytes);
        probe.dots(vectors, scales, &mut self.dots);
    }

    /// Returns the product with a vector that was read, if it is intact.
    fn dot(&self, file: &Filed, at: usize, dimensions: usize) -> Option<f32> {
        let place = (at - self.first) * dimensions;
        let bytes = &self.bytes[place..place + dimensions];
        let intact = self.is_read && file.is_intact(at, bytes);
        if !intact {
            file.damaged.store(true, Ordering::Relaxed);
        }
        intact.then(|| self.dots[at - self.first])
    }
}

impl Filed {
    /// Returns true when a vector matches its hash. A vector is checked once.
    fn is_intact(&self, at: usize, bytes: &[u8]) -> bool {
        let (word, bit) = (&self.checked[at / 64], 1_u64 << (at % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return true;
        }
        let intact = check(bytes) == self.checks[at];
        if intact {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        intact
    }

    /// Reads a vector, and returns true when it is intact.
    fn read(&self, at: usize, dimensions: usize, buffer: &mut Vec<i8>) -> bool {
        let mut bytes = vec![0; dimensions];
        let place = self.at + (at * dimensions) as u64;
        let read = read_at(&self.file, &mut bytes, place);
        let intact = read.is_ok() && self.is_intact(at, &bytes);
        buffer.clear();
        buffer.extend(bytes.iter().map(|byte| *byte as i8));
        if !intact {
            self.damaged.store(true, Ordering::Relaxed);
        }
        intact
    }
}

/// Returns the first bytes of the hash of a vector.
fn check(bytes: &[u8]) -> u32 {
    let hash = blake3::hash(bytes);
    let first = hash.as_bytes().first_chunk().copied();
    u32::from_le_bytes(first.unwrap_or_default())
}

/// Returns the factor for the product with the signs, so that the product of a
/// vector with its own signs is its square.
fn factor(components: &[i8]) -> f32 {
    let wide = || components.iter().map(|x| i32::from(*x));
    let sum: i32 = wide().map(i32::abs).sum();
    let square: i32 = wide().map(|x| x * x).sum();
    square as f32 / sum.max(1) as f32
}
