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

/// The number of tokens that are multiplied with a block at a time.
const TOKENS: usize = 4;

/// The bytes of two columns of a block.
type Columns = [u8; 2 * ROWS];

/// The numbers of a token for two columns.
type Pair = [i16; 2];

/// The sums of a block with four tokens.
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
    pairs: Vec<Pair>,
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
                return avx.vectorize(WithAvx512 { avx, work });
            }
            if let Some(avx) = pulp::x86::V3::try_new() {
                return avx.vectorize(WithAvx2 { avx, work });
            }
        }
        work.run(plain_sums);
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
            .resize(count.next_multiple_of(TOKENS) * length, [0; 2]);
        self.scales.clear();
        let rows = self.pairs.chunks_exact_mut(length);
        for (token, to) in tokens.chunks_exact(columns).zip(rows) {
            let largest = largest(token, 0.0, f32::abs);
            let factor = if largest > 0.0 { most / largest } else { 0.0 };
            for (to, x) in to.as_flattened_mut().iter_mut().zip(token) {
                *to = round(x * factor);
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

impl Products<'_> {
    /// Computes the product with a function of a block and four tokens.
    #[inline(always)]
    fn run(self, sums: impl Fn(&[Columns], [&[Pair]; TOKENS]) -> Sums) {
        let PackedMatrix {
            rows,
            columns,
            weights,
            scales,
            bias,
        } = self.matrix;
        let length = columns.div_ceil(2);
        let numbers = scales.iter().zip(bias);
        for (block, (weights, (scales, bias))) in
            weights.chunks_exact(length).zip(numbers).enumerate()
        {
            let groups = self.tokens.pairs.chunks_exact(TOKENS * length);
            let token_scales = self.tokens.scales.chunks(TOKENS);
            for (group, (four, token_scales)) in groups.zip(token_scales).enumerate() {
                let (a, rest) = four.split_at(length);
                let (b, rest) = rest.split_at(length);
                let (c, d) = rest.split_at(length);
                let sums = sums(weights, [a, b, c, d]);
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
    }
}

/// Multiplies a block with four tokens on any machine.
#[inline(always)]
fn plain_sums(weights: &[Columns], tokens: [&[Pair]; TOKENS]) -> Sums {
    let mut sums = [[0; ROWS]; TOKENS];
    for (sums, token) in sums.iter_mut().zip(tokens) {
        for (weights, [first, second]) in weights.iter().zip(token) {
            let (weights, _) = weights.as_chunks::<2>();
            for (sum, [a, b]) in sums.iter_mut().zip(weights) {
                *sum += i32::from(*a as i8) * i32::from(*first);
                *sum += i32::from(*b as i8) * i32::from(*second);
            }
        }
    }
    sums
}

/// The product with AVX-512, which adds the sums of 16 rows at once.
#[cfg(target_arch = "x86_64")]
struct WithAvx512<'a> {
    avx: pulp::x86::V4,
    work: Products<'a>,
}

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for WithAvx512<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let avx = self.avx;
        self.work.run(
            #[inline(always)]
            |weights, tokens| avx512_sums(avx, weights, tokens),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx512_sums(avx: pulp::x86::V4, weights: &[Columns], tokens: [&[Pair]; TOKENS]) -> Sums {
    use std::arch::x86_64::__m512i;

    let mut sums: [__m512i; TOKENS] = [pulp::cast([0_i32; ROWS]); TOKENS];
    let [a, b, c, d] = tokens.map(
        #[inline(always)]
        |token| &token[..weights.len()],
    );
    for at in 0..weights.len() {
        let weights = (avx.avx512bw)._mm512_cvtepi8_epi16(pulp::cast(weights[at]));
        for (sum, pair) in sums.iter_mut().zip([a[at], b[at], c[at], d[at]]) {
            let pair = (avx.avx512f)._mm512_set1_epi32(pulp::cast(pair));
            let products = (avx.avx512bw)._mm512_madd_epi16(weights, pair);
            *sum = (avx.avx512f)._mm512_add_epi32(*sum, products);
        }
    }
    sums.map(pulp::cast)
}

/// The product with AVX2. The compiler does not find `vpmaddwd` by itself.
#[cfg(target_arch = "x86_64")]
struct WithAvx2<'a> {
    avx: pulp::x86::V3,
    work: Products<'a>,
}

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for WithAvx2<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let avx = self.avx;
        self.work.run(
            #[inline(always)]
            |weights, tokens| avx2_sums(avx, weights, tokens),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx2_sums(avx: pulp::x86::V3, weights: &[Columns], tokens: [&[Pair]; TOKENS]) -> Sums {
    use std::arch::x86_64::__m256i;

    let mut sums: [[__m256i; 2]; TOKENS] = [[pulp::cast([0_i32; ROWS / 2]); 2]; TOKENS];
    let [a, b, c, d] = tokens.map(
        #[inline(always)]
        |token| &token[..weights.len()],
    );
    for at in 0..weights.len() {
        let [first, second]: [[u8; ROWS]; 2] = pulp::cast(weights[at]);
        let weights = [
            (avx.avx2)._mm256_cvtepi8_epi16(pulp::cast(first)),
            (avx.avx2)._mm256_cvtepi8_epi16(pulp::cast(second)),
        ];
        for (sums, pair) in sums.iter_mut().zip([a[at], b[at], c[at], d[at]]) {
            let pair = avx.avx._mm256_set1_epi32(pulp::cast(pair));
            for (sum, weights) in sums.iter_mut().zip(weights) {
                let products = (avx.avx2)._mm256_madd_epi16(weights, pair);
                *sum = (avx.avx2)._mm256_add_epi32(*sum, products);
            }
        }
    }
    sums.map(pulp::cast)
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
        work.run(plain_sums);
        all.push(out.clone());
        #[cfg(target_arch = "x86_64")]
        if let Some(avx) = pulp::x86::V3::try_new() {
            let work = Products {
                matrix,
                tokens: &rounded,
                out: &mut out,
            };
            avx.vectorize(WithAvx2 { avx, work });
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
