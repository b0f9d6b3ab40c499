//! Codes of vectors, one bit per component, and products with them.
//!
//! A code has the signs of a vector. Its product with a query is the sum of the
//! query's components, each with the sign of the code. Four components have 16
//! such sums, which are rounded to seven bits and looked up: one instruction
//! looks up 32 of them. Sums are integers, so that estimates are the same on
//! every machine.

/// The number of codes that are interleaved, so that they are looked up at
/// once.
pub(super) const LANES: usize = 32;

/// The number of bytes of a code that can be added before the sums could
/// overflow.
const ROWS_AT_ONCE: usize = 256;

/// The largest number in a table: the sum of two fits into a byte.
const MOST: f32 = 127.0;

/// The codes of vectors, by slot.
#[derive(Debug, Default)]
pub(super) struct Codes {
    // The size of a code in bytes.
    rows: usize,
    // The codes of LANES slots, interleaved: the first byte of each, then the
    // second byte of each, and so on.
    bytes: Vec<u8>,
}

impl Codes {
    pub(super) fn new(dimensions: usize) -> Self {
        Self {
            rows: dimensions.div_ceil(8),
            bytes: Vec::new(),
        }
    }

    /// Returns codes that were [written](Codes::bytes) for this many slots.
    pub(super) fn from_bytes(dimensions: usize, slots: usize, bytes: Vec<u8>) -> Option<Self> {
        let rows = dimensions.div_ceil(8);
        let is_whole = bytes.len() == slots.div_ceil(LANES) * LANES * rows;
        is_whole.then_some(Self { rows, bytes })
    }

    /// Returns the codes in their memory layout.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Changes the number of slots.
    pub(super) fn resize(&mut self, slots: usize) {
        let blocks = slots.div_ceil(LANES);
        self.bytes.resize(blocks * LANES * self.rows, 0);
    }

    /// Sets the code of a slot.
    pub(super) fn set(&mut self, slot: usize, components: &[i8]) {
        let block = slot / LANES * LANES * self.rows;
        let lanes = self.bytes[block..].chunks_exact_mut(LANES);
        for (lanes, components) in lanes.zip(components.chunks(8)) {
            lanes[slot % LANES] = signs(components);
        }
    }

    /// Clears the code of a slot.
    pub(super) fn clear(&mut self, slot: usize) {
        let block = slot / LANES * LANES * self.rows;
        let lanes = self.bytes[block..].chunks_exact_mut(LANES).take(self.rows);
        lanes.for_each(|lanes| lanes[slot % LANES] = 0);
    }

    /// Returns the tables of a query; `None` for a zero vector.
    pub(super) fn tables(&self, query: &[f32]) -> Option<Tables> {
        Tables::new(query, self.rows)
    }

    /// Writes an estimate of the product of a query with each vector from
    /// `first` on, a multiple of [`LANES`]. `factors` has the factor for the
    /// product with the signs of each.
    pub(super) fn estimates(
        &self,
        tables: &Tables,
        first: usize,
        factors: &[f32],
        dots: &mut [f32],
    ) {
        debug_assert!(first.is_multiple_of(LANES));
        let work = Estimates {
            tables,
            codes: &self.bytes[first * self.rows..],
            factors,
            dots,
        };
        #[cfg(target_arch = "x86_64")]
        if let Some(avx) = pulp::x86::V3::try_new() {
            return avx.vectorize(WithAvx2 { avx, work });
        }
        work.run(plain_sums);
    }
}

/// Returns a bit for each component: 1 if it is positive.
fn signs(components: &[i8]) -> u8 {
    let bit = |(i, x): (usize, &i8)| u8::from(*x > 0) << i;
    components.iter().enumerate().map(bit).sum()
}

/// The sums of four components with all their signs, twice: an instruction
/// looks up in each half separately.
type Table = [u8; LANES];

/// A query, as sums of four components with all their signs.
#[derive(Debug)]
pub(super) struct Tables {
    // For each byte of a code, the tables of its lower and of its upper half.
    sums: Vec<[Table; 2]>,
    // The factor of the sum over all tables, and the offset to subtract.
    step: f32,
    offset: f32,
}

impl Tables {
    /// Returns the tables of a query; `None` for a zero vector.
    fn new(query: &[f32], rows: usize) -> Option<Self> {
        let four = |at: usize| {
            let mut four = [0.0_f32; 4];
            for (to, x) in four.iter_mut().zip(query.iter().skip(4 * at)) {
                *to = *x;
            }
            four
        };
        let size = |four: [f32; 4]| four.iter().map(|x| x.abs()).sum::<f32>();
        let largest = (0..2 * rows).map(|at| size(four(at))).fold(0.0, f32::max);
        if !largest.is_finite() || largest <= 0.0 {
            return None;
        }
        let step = 2.0 * largest / MOST;
        let mut offset = 0.0;
        let mut table = |at: usize| {
            let four = four(at);
            let size = size(four);
            offset += size;
            std::array::from_fn(|signs| {
                let with_sign = |(i, x): (usize, &f32)| match signs >> i & 1 {
                    1 => *x,
                    _ => -*x,
                };
                let sum: f32 = four.iter().enumerate().map(with_sign).sum();
                ((sum + size) / step).round() as u8
            })
        };
        let sums = (0..rows).map(|row| [table(2 * row), table(2 * row + 1)]);
        Some(Self {
            sums: sums.collect(),
            step,
            offset,
        })
    }
}

/// The work of [`Codes::estimates`].
struct Estimates<'a> {
    tables: &'a Tables,
    codes: &'a [u8],
    factors: &'a [f32],
    dots: &'a mut [f32],
}

impl Estimates<'_> {
    /// Computes estimates with a function that adds table entries for some
    /// bytes of LANES codes.
    #[inline(always)]
    fn run(self, sums: impl Fn(&[[Table; 2]], &[[u8; LANES]]) -> [u16; LANES]) {
        let Tables {
            sums: tables,
            step,
            offset,
        } = self.tables;
        // Iterators over chunks are calls of functions here, a few for every
        // block.
        let mut codes = self.codes;
        let (mut factors, mut dots) = (self.factors, self.dots);
        while !dots.is_empty() {
            let Some((block, rest)) = codes.split_at_checked(LANES * tables.len().max(1)) else {
                return;
            };
            codes = rest;
            let (rows, _) = block.as_chunks::<LANES>();
            let mut all = [0_u32; LANES];
            let mut first = 0;
            while first < tables.len() {
                let last = (first + ROWS_AT_ONCE).min(tables.len());
                let sums = sums(&tables[first..last], &rows[first..last]);
                for lane in 0..LANES {
                    all[lane] += u32::from(sums[lane]);
                }
                first = last;
            }
            let mut estimates = [0.0_f32; LANES];
            let mut own = [0.0_f32; LANES];
            let count = dots.len().min(LANES);
            let (these, rest) = factors.split_at(count);
            own[..count].copy_from_slice(these);
            factors = rest;
            for lane in 0..LANES {
                estimates[lane] = (all[lane] as f32 * step - offset) * own[lane];
            }
            let (these, rest) = dots.split_at_mut(count);
            these.copy_from_slice(&estimates[..count]);
            dots = rest;
        }
    }
}

/// Looks up on any machine.
#[inline(always)]
fn plain_sums(tables: &[[Table; 2]], rows: &[[u8; LANES]]) -> [u16; LANES] {
    let mut sums = [0; LANES];
    for ([low, high], row) in tables.iter().zip(rows) {
        for (sum, byte) in sums.iter_mut().zip(row) {
            let (low, high) = (low[usize::from(byte & 15)], high[usize::from(byte >> 4)]);
            *sum += u16::from(low + high);
        }
    }
    sums
}

/// The same with AVX2.
#[cfg(target_arch = "x86_64")]
struct WithAvx2<'a> {
    avx: pulp::x86::V3,
    work: Estimates<'a>,
}

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for WithAvx2<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let avx = self.avx;
        self.work.run(
            #[inline(always)]
            |tables, rows| avx2_sums(avx, tables, rows),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx2_sums(avx: pulp::x86::V3, tables: &[[Table; 2]], rows: &[[u8; LANES]]) -> [u16; LANES] {
    use std::arch::x86_64::__m256i;

    let zero: __m256i = pulp::cast([0_u8; LANES]);
    let half: __m256i = pulp::cast([15_u8; LANES]);
    // The sums of two bytes together, and those of every second byte.
    let (mut both, mut second) = (zero, zero);
    let rows = &rows[..tables.len()];
    for at in 0..tables.len() {
        let [low, high] = &tables[at];
        let low: __m256i = pulp::cast(*low);
        let high: __m256i = pulp::cast(*high);
        let bytes: __m256i = pulp::cast(rows[at]);
        let lower = avx.avx2._mm256_and_si256(bytes, half);
        let upper = avx.avx2._mm256_srli_epi16::<4>(bytes);
        let upper = avx.avx2._mm256_and_si256(upper, half);
        let lower = avx.avx2._mm256_shuffle_epi8(low, lower);
        let upper = avx.avx2._mm256_shuffle_epi8(high, upper);
        let found = avx.avx2._mm256_add_epi8(lower, upper);
        both = avx.avx2._mm256_add_epi16(both, found);
        let odd = avx.avx2._mm256_srli_epi16::<8>(found);
        second = avx.avx2._mm256_add_epi16(second, odd);
    }
    let shifted = avx.avx2._mm256_slli_epi16::<8>(second);
    let first: [u16; LANES / 2] = pulp::cast(avx.avx2._mm256_sub_epi16(both, shifted));
    let second: [u16; LANES / 2] = pulp::cast(second);
    let mut sums = [0; LANES];
    for (sums, (first, second)) in
        (sums.as_chunks_mut::<2>().0.iter_mut()).zip(first.into_iter().zip(second))
    {
        *sums = [first, second];
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every implementation returns the sum over signs, except for
        /// rounding.
        #[test]
        fn estimates_are_sums_over_signs(
            dimensions in 1_usize..300,
            slots in 1_usize..80,
            seed in 0_u32..1000,
        ) {
            let number = |i: usize| {
                let mixed = (i as u32 + seed).wrapping_mul(2_654_435_761) >> 8;
                (mixed % 2001) as f32 / 1000.0 - 1.0
            };
            let query: Vec<f32> = (0..dimensions).map(number).collect();
            let vector = |slot: usize| -> Vec<i8> {
                (0..dimensions).map(|i| (number(i + 31 * slot) * 127.0) as i8).collect()
            };
            let mut codes = Codes::new(dimensions);
            codes.resize(slots);
            (0..slots).for_each(|slot| codes.set(slot, &vector(slot)));
            let factors: Vec<f32> = (0..slots).map(|slot| 0.01 * slot as f32).collect();
            let mut dots = vec![9.0; slots];
            let mut plain = vec![9.0; slots];
            match codes.tables(&query) {
                Some(tables) => {
                    let first = slots.min(LANES);
                    let (start, rest) = dots.split_at_mut(first);
                    codes.estimates(&tables, 0, &factors[..first], start);
                    if !rest.is_empty() {
                        codes.estimates(&tables, first, &factors[first..], rest);
                    }
                    let work = Estimates {
                        tables: &tables,
                        codes: codes.bytes(),
                        factors: &factors,
                        dots: &mut plain,
                    };
                    work.run(plain_sums);
                    let error = tables.step * dimensions.div_ceil(4) as f32;
                    for slot in 0..slots {
                        let signs = vector(slot);
                        let signs = query.iter().zip(&signs);
                        let sum: f32 = signs.map(|(x, y)| if *y > 0 { *x } else { -*x }).sum();
                        let off = (dots[slot] - sum * factors[slot]).abs();
                        prop_assert!(off <= error * factors[slot] + 1e-3, "{} {}", off, error);
                    }
                }
                None => prop_assert!(query.iter().all(|x| *x == 0.0)),
            }
            prop_assert_eq!(dots, plain);
        }
    }
}
