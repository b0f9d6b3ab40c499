//! A matrix of bytes in a layout for vector instructions, and its product with
//! the tokens of a text.
//!
//! The numbers of a token are rounded to 16 bits, and the products are added in
//! 32 bits without loss. The result therefore depends neither on the order nor
//! on the machine. A vector instruction multiplies twice as many 16-bit
//! integers as floats.
//!
//! The rows are in blocks of 16. A block has, for every two columns, the two
//! bytes of each of its rows. One instruction multiplies them with the two
//! numbers of a token, and adds one sum for each row: sums of different rows
//! are never added to each other.

use crate::exponential::round;
use crate::matrix::largest;

/// The number of rows of a block.
const ROWS: usize = 16;

/// The number of tokens of a group, whose numbers are interleaved.
const TOKENS: usize = 4;

/// The bytes of two columns of a block.
type Columns = [u8; 2 * ROWS];

/// The numbers of a token for two columns.
type Pair = [i16; 2];

/// The numbers of a group of tokens for two columns.
type Pairs = [Pair; TOKENS];

/// The sums of a block with a group of tokens.
type Sums = [[i32; ROWS]; TOKENS];

/// A matrix of integers from -127 to 127, with a scale and a bias for each row.
pub(crate) struct PackedMatrix {
    rows: usize,
    columns: usize,
    // The bytes, block by block.
    weights: Vec<Columns>,
    // The scales of the rows of each block, padded with zeros.
    scales: Vec<[f32; ROWS]>,
    bias: Vec<[f32; ROWS]>,
}

/// Tokens rounded to 16 bits. The buffer is reused between products.
#[derive(Default)]
pub(crate) struct Rounded {
    // The numbers of whole groups of tokens, padded with zeros.
    pairs: Vec<Pairs>,
    // The numbers of one token.
    token: Vec<Pair>,
    scales: Vec<f32>,
}

impl PackedMatrix {
    /// Packs a matrix whose rows are concatenated in `bytes`.
    pub(crate) fn new(
        [rows, columns]: [usize; 2],
        bytes: &[u8],
        scales: &[f32],
        bias: &[f32],
    ) -> Self {
        debug_assert!(bytes.len() == rows * columns && scales.len() == rows);
        let pairs = columns.div_ceil(2);
        let mut weights = vec![[0; 2 * ROWS]; rows.div_ceil(ROWS) * pairs];
        for (row, bytes) in bytes.chunks_exact(columns).enumerate() {
            let block = &mut weights[row / ROWS * pairs..][..pairs];
            let at = 2 * (row % ROWS);
            for (pair, to) in bytes.chunks(2).zip(block) {
                to[at..at + pair.len()].copy_from_slice(pair);
            }
        }
        Self {
            rows,
            columns,
            weights,
            scales: blocks_of(scales),
            bias: blocks_of(bias),
        }
    }

    /// Writes the product with each token. The tokens are concatenated in
    /// `tokens`.
    #[inline(always)]
    pub(crate) fn times(&self, tokens: &[f32], rounded: &mut Rounded, out: &mut [f32]) {
        rounded.read(tokens, self.columns);
        let work = Products {
            matrix: self,
            tokens: rounded,
            out,
        };
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(avx) = pulp::x86::V4::try_new() {
                let by = WithAvx512 { avx };
                return avx.vectorize(ProductsBy { by, work });
            }
            if let Some(avx) = pulp::x86::V3::try_new() {
                let by = WithAvx2 { avx };
                return avx.vectorize(ProductsBy { by, work });
            }
        }
        work.run(&Plain);
    }
}

/// Returns numbers per row as blocks.
fn blocks_of(numbers: &[f32]) -> Vec<[f32; ROWS]> {
    let block = |numbers: &[f32]| {
        let mut block = [0.0; ROWS];
        block[..numbers.len()].copy_from_slice(numbers);
        block
    };
    numbers.chunks(ROWS).map(block).collect()
}

impl Rounded {
    /// Rounds tokens to 16 bits.
    #[inline(always)]
    fn read(&mut self, tokens: &[f32], columns: usize) {
        let count = tokens.len() / columns;
        // The largest sum of products must stay below 2^31.
        let most = (i32::MAX as usize / (127 * columns)).min(i16::MAX as usize) as f32;
        let length = columns.div_ceil(2);
        self.pairs.clear();
        self.pairs
            .resize(count.div_ceil(TOKENS) * length, [[0; 2]; TOKENS]);
        self.token.clear();
        self.token.resize(length, [0; 2]);
        self.scales.clear();
        for (at, token) in tokens.chunks_exact(columns).enumerate() {
            let largest = largest(token, 0.0, f32::abs);
            let factor = if largest > 0.0 { most / largest } else { 0.0 };
            for (to, x) in self.token.as_flattened_mut().iter_mut().zip(token) {
                *to = round(x * factor);
            }
            let group = &mut self.pairs[at / TOKENS * length..][..length];
            for (to, pair) in group.iter_mut().zip(&self.token) {
                to[at % TOKENS] = *pair;
            }
            self.scales.push(largest / most);
        }
    }
}

/// A product to be computed.
struct Products<'a> {
    matrix: &'a PackedMatrix,
    tokens: &'a Rounded,
    out: &'a mut [f32],
}

/// The instructions that multiply a block with groups of tokens.
trait Multiply {
    /// The number of groups that are multiplied at a time: as many as there are
    /// registers for their sums.
    const GROUPS: usize;

    /// Multiplies a block with groups of tokens.
    fn sums<const GROUPS: usize>(
        &self,
        weights: &[Columns],
        groups: [&[Pairs]; GROUPS],
    ) -> [Sums; GROUPS];
}

impl Products<'_> {
    /// Computes the product.
    #[inline(always)]
    fn run<M: Multiply>(mut self, by: &M) {
        let matrix = self.matrix;
        let tokens = self.tokens;
        let length = matrix.columns.div_ceil(2);
        for (block, weights) in matrix.weights.chunks_exact(length).enumerate() {
            let mut rest = tokens.pairs.as_slice();
            let mut group = 0;
            while let Some((first, behind)) = rest.split_at_checked(length) {
                rest = behind;
                if M::GROUPS > 1
                    && let Some((second, behind)) = rest.split_at_checked(length)
                {
                    rest = behind;
                    let [a, b] = by.sums(weights, [first, second]);
                    self.write(block, group, &a);
                    self.write(block, group + 1, &b);
                    group += 2;
                } else {
                    let [sums] = by.sums(weights, [first]);
                    self.write(block, group, &sums);
                    group += 1;
                }
            }
        }
    }

    /// Writes the results of a block and a group of tokens.
    #[inline(always)]
    fn write(&mut self, block: usize, group: usize, sums: &Sums) {
        let rows = self.matrix.rows;
        let (scales, bias) = (&self.matrix.scales[block], &self.matrix.bias[block]);
        let token_scales = &self.tokens.scales[group * TOKENS..];
        for (i, (sums, token_scale)) in sums.iter().zip(token_scales).enumerate() {
            let mut results = [0.0; ROWS];
            for lane in 0..ROWS {
                let scale = token_scale * scales[lane];
                results[lane] = sums[lane] as f32 * scale + bias[lane];
            }
            let first = block * ROWS;
            let token = (group * TOKENS + i) * rows;
            let to = &mut self.out[token + first..token + rows];
            match to.first_chunk_mut::<ROWS>() {
                Some(to) => *to = results,
                None => to.copy_from_slice(&results[..to.len()]),
            }
        }
    }
}

/// Multiplies on any machine.
struct Plain;

impl Multiply for Plain {
    const GROUPS: usize = 1;

    #[inline(always)]
    fn sums<const GROUPS: usize>(
        &self,
        weights: &[Columns],
        groups: [&[Pairs]; GROUPS],
    ) -> [Sums; GROUPS] {
        let mut all = [[[0; ROWS]; TOKENS]; GROUPS];
        for (sums, group) in all.iter_mut().zip(groups) {
            for (weights, pairs) in weights.iter().zip(group) {
                let (weights, _) = weights.as_chunks::<2>();
                for (sums, [first, second]) in sums.iter_mut().zip(pairs) {
                    for (sum, [a, b]) in sums.iter_mut().zip(weights) {
                        *sum += i32::from(*a as i8) * i32::from(*first);
                        *sum += i32::from(*b as i8) * i32::from(*second);
                    }
                }
            }
        }
        all
    }
}

/// A product and the instructions for it.
#[cfg(target_arch = "x86_64")]
struct ProductsBy<'a, M> {
    by: M,
    work: Products<'a>,
}

#[cfg(target_arch = "x86_64")]
impl<M: Multiply> pulp::NullaryFnOnce for ProductsBy<'_, M> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.work.run(&self.by);
    }
}

/// Multiplies with AVX-512, which adds the sums of 16 rows at once.
#[cfg(target_arch = "x86_64")]
struct WithAvx512 {
    avx: pulp::x86::V4,
}

#[cfg(target_arch = "x86_64")]
impl Multiply for WithAvx512 {
    const GROUPS: usize = 2;

    #[inline(always)]
    fn sums<const GROUPS: usize>(
        &self,
        weights: &[Columns],
        groups: [&[Pairs]; GROUPS],
    ) -> [Sums; GROUPS] {
        use std::arch::x86_64::__m512i;

        let avx = self.avx;
        let zero: __m512i = pulp::cast([0_i32; ROWS]);
        let mut all = [[zero; TOKENS]; GROUPS];
        let mut groups = groups;
        for group in &mut groups {
            *group = &group[..weights.len()];
        }
        for at in 0..weights.len() {
            let weights = (avx.avx512bw)._mm512_cvtepi8_epi16(pulp::cast(weights[at]));
            for group in 0..GROUPS {
                for token in 0..TOKENS {
                    let pair = groups[group][at][token];
                    let pair = (avx.avx512f)._mm512_set1_epi32(pulp::cast(pair));
                    let products = (avx.avx512bw)._mm512_madd_epi16(weights, pair);
                    let sum = &mut all[group][token];
                    *sum = (avx.avx512f)._mm512_add_epi32(*sum, products);
                }
            }
        }
        let mut sums = [[[0; ROWS]; TOKENS]; GROUPS];
        for group in 0..GROUPS {
            for token in 0..TOKENS {
                sums[group][token] = pulp::cast(all[group][token]);
            }
        }
        sums
    }
}

/// Multiplies with AVX2. The compiler does not find `vpmaddwd` by itself.
#[cfg(target_arch = "x86_64")]
struct WithAvx2 {
    avx: pulp::x86::V3,
}

#[cfg(target_arch = "x86_64")]
impl Multiply for WithAvx2 {
    const GROUPS: usize = 1;

    #[inline(always)]
    fn sums<const GROUPS: usize>(
        &self,
        weights: &[Columns],
        groups: [&[Pairs]; GROUPS],
    ) -> [Sums; GROUPS] {
        use std::arch::x86_64::__m256i;

        let avx = self.avx;
        let zero: __m256i = pulp::cast([0_i32; ROWS / 2]);
        let mut all = [[[zero; 2]; TOKENS]; GROUPS];
        let mut groups = groups;
        for group in &mut groups {
            *group = &group[..weights.len()];
        }
        for at in 0..weights.len() {
            let [first, second]: [[u8; ROWS]; 2] = pulp::cast(weights[at]);
            let first = (avx.avx2)._mm256_cvtepi8_epi16(pulp::cast(first));
            let second = (avx.avx2)._mm256_cvtepi8_epi16(pulp::cast(second));
            for group in 0..GROUPS {
                for token in 0..TOKENS {
                    let pair = groups[group][at][token];
                    let pair = avx.avx._mm256_set1_epi32(pulp::cast(pair));
                    let [low, high] = &mut all[group][token];
                    let products = (avx.avx2)._mm256_madd_epi16(first, pair);
                    *low = (avx.avx2)._mm256_add_epi32(*low, products);
                    let products = (avx.avx2)._mm256_madd_epi16(second, pair);
                    *high = (avx.avx2)._mm256_add_epi32(*high, products);
                }
            }
        }
        let mut sums = [[[0; ROWS]; TOKENS]; GROUPS];
        for group in 0..GROUPS {
            for token in 0..TOKENS {
                sums[group][token] = pulp::cast(all[group][token]);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the product by each implementation that this machine supports.
    fn products(matrix: &PackedMatrix, tokens: &[f32]) -> Vec<Vec<f32>> {
        let count = tokens.len() / matrix.columns;
        let mut rounded = Rounded::default();
        let mut all = Vec::new();
        let mut out = vec![0.0; count * matrix.rows];
        matrix.times(tokens, &mut rounded, &mut out);
        all.push(out.clone());
        let work = Products {
            matrix,
            tokens: &rounded,
            out: &mut out,
        };
        work.run(&Plain);
        all.push(out.clone());
        #[cfg(target_arch = "x86_64")]
        if let Some(avx) = pulp::x86::V3::try_new() {
            let work = Products {
                matrix,
                tokens: &rounded,
                out: &mut out,
            };
            let by = WithAvx2 { avx };
            avx.vectorize(ProductsBy { by, work });
            all.push(out.clone());
        }
        all
    }

    proptest! {
        #[test]
        fn every_machine_has_the_same_product(
            tokens in 1_usize..10,
            rows in 1_usize..40,
            columns in 1_usize..70,
            seed in 0_u32..1000,
        ) {
            let number = |i: usize| {
                let mixed = (i as u32 + seed).wrapping_mul(2_654_435_761) >> 8;
                (mixed % 2001) as f32 / 1000.0 - 1.0
            };
            let x: Vec<f32> = (0..tokens * columns).map(number).collect();
            let whole: Vec<i8> = (0..rows * columns)
                .map(|i| (number(i + 7) * 127.0) as i8)
                .collect();
            let bytes: Vec<u8> = whole.iter().map(|x| *x as u8).collect();
            let scales: Vec<f32> = (0..rows).map(|i| 0.01 + i as f32 * 0.001).collect();
            let bias: Vec<f32> = (0..rows).map(|i| number(i + 99)).collect();
            let matrix = PackedMatrix::new([rows, columns], &bytes, &scales, &bias);
            let all = products(&matrix, &x);
            for other in &all {
                prop_assert_eq!(other, &all[0]);
            }
            for token in 0..tokens {
                for row in 0..rows {
                    let sum: f32 = (0..columns)
                        .map(|i| f32::from(whole[row * columns + i]) * x[token * columns + i])
                        .sum();
                    let (expected, got) = (bias[row] + sum * scales[row], all[0][token * rows + row]);
                    prop_assert!((got - expected).abs() < 5e-2, "{} {}", got, expected);
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let columns = 3072;
        let matrix = PackedMatrix::new([1, columns], &vec![127; columns], &[1.0], &[0.0]);
        for out in products(&matrix, &vec![1.0; columns]) {
            assert!(
                (out[0] / (127.0 * columns as f32) - 1.0).abs() < 1e-3,
                "{out:?}"
            );
        }
    }
}
