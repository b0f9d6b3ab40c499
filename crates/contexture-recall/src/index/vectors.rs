//! The vectors of an index: a code of one bit per component for every text,
//! and the components, in memory or in a file.
//!
//! A small index compares a query with the components of every text. A large
//! one estimates the products from the codes, which are an eighth of the size,
//! and computes the exact products of the best texts only. Its components may
//! stay in a file, of which single vectors are read and checked.

// Looked up by slot only.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Slot, section};
use crate::scan::Probe;
use crate::sections::{SectionFile, SectionWriter, damaged, read_at};
use crate::vector::Vector;

/// How many codes lie side by side, so that they are compared at once.
const LANES: usize = 8;

/// Into how many bits the components of a query are rounded for codes.
const PLANES: usize = 4;

/// How many vectors are written at a time.
const WRITTEN: usize = 1_024;

/// The vectors of an index, by slot.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    dimensions: usize,
    // How many words a code has.
    words: usize,
    // The codes of LANES slots together: the first word of each, then the
    // second word of each, and so on.
    codes: Vec<u64>,
    // What to multiply the components by; 0 for a text without a vector.
    pub(super) scales: Vec<f32>,
    // What to multiply the product with a code by.
    factors: Vec<f32>,
    // The vectors of the first slots, and those that were set since.
    file: Option<Filed>,
    #[allow(clippy::disallowed_types)]
    replaced: HashMap<Slot, Box<[i8]>>,
    // The vectors of all other slots, end to end.
    memory: Vec<i8>,
    // The slots whose vector was set since `mark`.
    log: Vec<Slot>,
}

/// Vectors in a file.
#[derive(Debug)]
struct Filed {
    file: File,
    // Where the first one is.
    at: u64,
    slots: usize,
    checks: Vec<u32>,
    // A bit for each vector that was read and is intact.
    checked: Vec<AtomicU64>,
    damaged: Arc<AtomicBool>,
}

/// A query, to be compared with codes.
struct CodeProbe {
    // The words of each plane.
    planes: [Vec<u64>; PLANES],
    least: f32,
    step: f32,
    sum: f32,
}

impl Vectors {
    pub(super) fn new(dimensions: usize) -> Self {
        Self {
            dimensions,
            words: dimensions.div_ceil(64),
            ..Self::default()
        }
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Makes room for one more slot.
    pub(super) fn push(&mut self) {
        if self.scales.len().is_multiple_of(LANES) {
            let longer = self.codes.len() + LANES * self.words;
            self.codes.resize(longer, 0);
        }
        self.scales.push(0.0);
        self.factors.push(0.0);
        let longer = self.memory.len() + self.dimensions;
        self.memory.resize(longer, 0);
    }

    /// Returns how many slots have their vector in the file.
    fn filed(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.slots)
    }

    /// Sets the vector of a slot. One of another length is left out.
    pub(super) fn set(&mut self, slot: Slot, vector: Option<&Vector>) {
        let at = slot as usize;
        let vector = vector.filter(|v| v.components().len() == self.dimensions);
        let none = vec![0; if vector.is_none() { self.dimensions } else { 0 }];
        let components = vector.map_or(&*none, Vector::components);
        self.scales[at] = vector.map_or(0.0, Vector::scale);
        self.factors[at] = self.scales[at] * factor(components);
        let (block, lane) = (at / LANES * LANES * self.words, at % LANES);
        for (word, components) in components.chunks(64).enumerate() {
            self.codes[block + word * LANES + lane] = signs(components);
        }
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

    /// Takes the vector of a slot out of sight.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.set(slot, None);
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
        file.read(at, self.dimensions, buffer).then_some(&**buffer)
    }

    /// Returns the product with the vector of a slot; `None` when it cannot be
    /// read.
    pub(super) fn dot(&self, probe: &Probe, slot: Slot, buffer: &mut Vec<i8>) -> Option<f32> {
        let scale = self.scales[slot as usize];
        if scale == 0.0 {
            return Some(0.0);
        }
        let components = self.components(slot, buffer)?;
        let mut dot = [0.0];
        probe.dots(components, &[scale], &mut dot);
        Some(dot[0])
    }

    /// Writes the product with each vector. All must be in memory.
    pub(super) fn dots(&self, probe: &Probe, first: usize, dots: &mut [f32]) {
        let end = first + dots.len();
        let vectors = &self.memory[first * self.dimensions..end * self.dimensions];
        probe.dots(vectors, &self.scales[first..end], dots);
    }

    /// Writes about what the product with each vector is.
    pub(super) fn estimates(&self, query: &[f32], dots: &mut [f32]) {
        let Some(probe) = CodeProbe::new(query, self.words) else {
            return;
        };
        pulp::Arch::new().dispatch(Estimates {
            probe: &probe,
            words: self.words,
            codes: &self.codes,
            factors: &self.factors,
            dots,
        });
    }

    /// Begins to note which vectors are set from now on.
    pub(super) fn mark(&mut self) {
        self.log.clear();
    }

    /// Returns how many vectors were set since the mark.
    pub(super) fn noted(&self) -> usize {
        self.log.len()
    }

    /// Writes the vectors.
    pub(super) fn write(&self, file: &mut SectionWriter) -> io::Result<()> {
        file.array(section::SCALES, &self.scales)?;
        file.array(section::FACTORS, &self.factors)?;
        file.array(section::CODES, &self.codes)?;
        let mut checks: Vec<u32> = Vec::with_capacity(self.scales.len());
        let mut buffer = Vec::new();
        let slots: Vec<Slot> = (0..self.scales.len() as Slot).collect();
        let parts = slots.chunks(WRITTEN).map(|slots| {
            let mut part: Vec<i8> = Vec::with_capacity(slots.len() * self.dimensions);
            for slot in slots {
                let components = self.components(*slot, &mut buffer);
                let components =
                    components.ok_or_else(|| damaged("a vector does not match its hash"))?;
                checks.push(check(components));
                part.extend_from_slice(components);
            }
            Ok(part)
        });
        file.parts(section::VECTORS, parts)?;
        file.array(section::CHECKS, &checks)
    }

    /// Reads what [`Vectors::write`] wrote, for so many slots. The components
    /// stay in the file when `in_file` is set.
    pub(super) fn read(
        file: &SectionFile,
        dimensions: usize,
        slots: usize,
        in_file: bool,
    ) -> io::Result<Self> {
        let mut vectors = Self {
            scales: file.array(section::SCALES)?,
            factors: file.array(section::FACTORS)?,
            codes: file.array(section::CODES)?,
            ..Self::new(dimensions)
        };
        match in_file {
            true => vectors.attach(file, slots, &[])?,
            false => {
                vectors.memory = file.array(section::VECTORS)?;
                // Checked as a whole: not needed.
                file.array::<u32>(section::CHECKS)?;
            }
        }
        let codes = slots.div_ceil(LANES) * LANES * vectors.words;
        let is_whole = vectors.scales.len() == slots
            && vectors.factors.len() == slots
            && vectors.codes.len() == codes
            && (in_file || vectors.memory.len() == slots * dimensions);
        match is_whole {
            true => Ok(vectors),
            false => Err(damaged("the vectors do not fit together")),
        }
    }

    /// Leaves the components of the first slots to a file. Those that were set
    /// since it was written, `noted` vectors after the mark, stay in memory.
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

impl Filed {
    /// Reads a vector, and returns true when it is intact.
    fn read(&self, at: usize, dimensions: usize, buffer: &mut Vec<i8>) -> bool {
        let mut bytes = vec![0; dimensions];
        let place = self.at + (at * dimensions) as u64;
        let (word, bit) = (&self.checked[at / 64], 1_u64 << (at % 64));
        let mut intact = read_at(&self.file, &mut bytes, place).is_ok();
        buffer.clear();
        buffer.extend(bytes.iter().map(|byte| *byte as i8));
        if intact && word.load(Ordering::Relaxed) & bit == 0 {
            intact = check(buffer) == self.checks[at];
            if intact {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        if !intact {
            self.damaged.store(true, Ordering::Relaxed);
        }
        intact
    }
}

/// Returns the first bytes of the hash of a vector.
fn check(components: &[i8]) -> u32 {
    let bytes: Vec<u8> = components.iter().map(|x| *x as u8).collect();
    let hash = blake3::hash(&bytes);
    let first = hash.as_bytes().first_chunk().copied();
    u32::from_le_bytes(first.unwrap_or_default())
}

/// Returns a bit for each component: whether it is positive.
fn signs(components: &[i8]) -> u64 {
    let bit = |(i, x): (usize, &i8)| u64::from(*x > 0) << i;
    components.iter().enumerate().map(bit).sum()
}

/// Returns what to multiply the product with the signs by, so that the product
/// of a vector with its own signs is its square.
fn factor(components: &[i8]) -> f32 {
    let wide = || components.iter().map(|x| i32::from(*x));
    let sum: i32 = wide().map(i32::abs).sum();
    let square: i32 = wide().map(|x| x * x).sum();
    square as f32 / sum.max(1) as f32
}

impl CodeProbe {
    /// Returns a probe for a query; `None` when all components are the same.
    fn new(query: &[f32], words: usize) -> Option<Self> {
        let least = query.iter().copied().fold(f32::INFINITY, f32::min);
        let most = query.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = (most - least) / ((1 << PLANES) - 1) as f32;
        if !step.is_finite() || step <= 0.0 {
            return None;
        }
        let mut planes = [const { Vec::new() }; PLANES];
        for plane in &mut planes {
            *plane = vec![0; words];
        }
        let mut sum = 0.0;
        for (i, x) in query.iter().enumerate() {
            let level = ((x - least) / step).round() as usize;
            sum += least + step * level as f32;
            for (bit, plane) in planes.iter_mut().enumerate() {
                plane[i / 64] |= ((level >> bit & 1) as u64) << (i % 64);
            }
        }
        Some(Self {
            planes,
            least,
            step,
            sum,
        })
    }
}

/// The work of [`Vectors::estimates`]. No closure: one that is not inlined is
/// compiled for the oldest machine there is.
struct Estimates<'a> {
    probe: &'a CodeProbe,
    words: usize,
    codes: &'a [u64],
    factors: &'a [f32],
    dots: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Estimates<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let CodeProbe {
            planes,
            least,
            step,
            sum,
        } = self.probe;
        let blocks = self.codes.chunks_exact(LANES * self.words.max(1));
        let factors = self.factors.chunks(LANES);
        for ((block, factors), dots) in blocks.zip(factors).zip(self.dots.chunks_mut(LANES)) {
            let mut ones = [0_u64; LANES];
            let mut levels = [0_u64; LANES];
            for (word, codes) in block.as_chunks::<LANES>().0.iter().enumerate() {
                for lane in 0..LANES {
                    ones[lane] += u64::from(codes[lane].count_ones());
                }
                for (bit, plane) in planes.iter().enumerate() {
                    let plane = plane[word];
                    for lane in 0..LANES {
                        levels[lane] += u64::from((codes[lane] & plane).count_ones()) << bit;
                    }
                }
            }
            for (lane, (dot, factor)) in dots.iter_mut().zip(factors).enumerate() {
                let positive = least * ones[lane] as f32 + step * levels[lane] as f32;
                *dot = (2.0 * positive - sum) * factor;
            }
        }
    }
}
