//! Matrices of a model, and their product with the tokens of a text.

use std::borrow::Cow;

use crate::packed::{PackedMatrix, Rounded};

/// The number of tokens that are multiplied with a row at a time.
const TOKENS: usize = 4;

/// The number of floats that are added side by side on every machine.
const LANES: usize = 16;

/// The numbers of a matrix as in the file, row by row.
pub(crate) enum Weights {
    /// Integers from -127 to 127, with a scale for each row.
    Bytes {
        bytes: Cow<'static, [u8]>,
        scales: Vec<f32>,
    },
    Fractions(Vec<f32>),
}

/// A lookup table of rows.
pub(crate) struct Table {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    weights: Weights,
}

impl Table {
    pub(crate) fn new([rows, columns]: [usize; 2], weights: Weights) -> Self {
        Self {
            rows,
            columns,
            weights,
        }
    }

    /// Writes a row.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize, to: &mut [f32]) {
        let at = row * self.columns..(row + 1) * self.columns;
        match &self.weights {
            Weights::Bytes { bytes, scales } => {
                let scale = scales[row];
                for (to, byte) in to.iter_mut().zip(&bytes[at]) {
                    *to = f32::from(*byte as i8) * scale;
                }
            }
            Weights::Fractions(weights) => to.copy_from_slice(&weights[at]),
        }
    }
}

/// A matrix with a bias for each row.
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    numbers: Numbers,
}

enum Numbers {
    Packed(PackedMatrix),
    Fractions { weights: Vec<f32>, bias: Vec<f32> },
}

impl Matrix {
    pub(crate) fn new([rows, columns]: [usize; 2], weights: Weights, bias: Vec<f32>) -> Self {
        let numbers = match weights {
            Weights::Bytes { bytes, scales } => {
                Numbers::Packed(PackedMatrix::new([rows, columns], &bytes, &scales, &bias))
            }
            Weights::Fractions(weights) => Numbers::Fractions { weights, bias },
        };
        Self {
            rows,
            columns,
            numbers,
        }
    }

    /// Writes the product with each token. The tokens are concatenated in
    /// `tokens`.
    #[inline(always)]
    pub(crate) fn times(&self, tokens: &[f32], rounded: &mut Rounded, out: &mut Vec<f32>) {
        let count = tokens.len() / self.columns;
        // Existing values are overwritten.
        out.resize(count * self.rows, 0.0);
        match &self.numbers {
            Numbers::Packed(matrix) => matrix.times(tokens, rounded, out),
            Numbers::Fractions { weights, bias } => {
                let work = Products {
                    weights,
                    bias,
                    columns: self.columns,
                    tokens,
                    out,
                };
                #[cfg(target_arch = "x86_64")]
                if let Some(avx) = pulp::x86::V3::try_new() {
                    return avx.vectorize(ProductsWithAvx { avx, work });
                }
                work.run(plain_fractions);
            }
        }
    }
}

/// The product of a matrix of floats with tokens.
struct Products<'a> {
    weights: &'a [f32],
    bias: &'a [f32],
    columns: usize,
    tokens: &'a [f32],
    out: &'a mut [f32],
}

impl Products<'_> {
    /// Computes the product with a function of a row and four tokens.
    #[inline(always)]
    fn run(self, products: impl Fn(&[f32], [&[f32]; TOKENS]) -> [f32; TOKENS]) {
        let (rows, columns) = (self.bias.len(), self.columns);
        let count = self.tokens.len() / columns;
        for (at, row) in self.weights.chunks_exact(columns).enumerate() {
            let mut first = 0;
            while first < count {
                let here = TOKENS.min(count - first);
                let mut four = [row; TOKENS];
                for (i, token) in four.iter_mut().enumerate() {
                    // After the last token, the last one is repeated.
                    let start = (first + i.min(here - 1)) * columns;
                    *token = &self.tokens[start..start + columns];
                }
                let sums = products(row, four);
                for (i, sum) in sums.iter().take(here).enumerate() {
                    self.out[(first + i) * rows + at] = sum + self.bias[at];
                }
                first += TOKENS;
            }
        }
    }
}

/// The same with AVX2.
#[cfg(target_arch = "x86_64")]
struct ProductsWithAvx<'a> {
    avx: pulp::x86::V3,
    work: Products<'a>,
}

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for ProductsWithAvx<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let avx = self.avx;
        self.work.run(
            #[inline(always)]
            |row, four| avx_fractions(avx, row, four),
        );
    }
}

/// Multiplies a row with four tokens on any machine.
#[inline(always)]
fn plain_fractions(row: &[f32], tokens: [&[f32]; TOKENS]) -> [f32; TOKENS] {
    tokens.map(|token| {
        let mut lanes = [0.0_f32; LANES];
        let (blocks, rest) = row.as_chunks::<LANES>();
        let (numbers, other_rest) = token.as_chunks::<LANES>();
        for (weights, numbers) in blocks.iter().zip(numbers) {
            for lane in 0..LANES {
                lanes[lane] += weights[lane] * numbers[lane];
            }
        }
        let mut sum = in_order(&lanes);
        for (weight, number) in rest.iter().zip(other_rest) {
            sum += weight * number;
        }
        sum
    })
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx_fractions(avx: pulp::x86::V3, row: &[f32], tokens: [&[f32]; TOKENS]) -> [f32; TOKENS] {
    use std::arch::x86_64::__m256;
    const WIDTH: usize = 8;

    let (blocks, rest) = row.as_chunks::<WIDTH>();
    let [a, b, c, d] = tokens.map(
        #[inline(always)]
        |token| &token.as_chunks::<WIDTH>().0[..blocks.len()],
    );
    let zero: __m256 = pulp::cast([0.0_f32; WIDTH]);
    let (mut in_a, mut in_b, mut in_c, mut in_d) = (zero, zero, zero, zero);
    for at in 0..blocks.len() {
        let weights: __m256 = pulp::cast(blocks[at]);
        in_a = avx.fma._mm256_fmadd_ps(weights, pulp::cast(a[at]), in_a);
        in_b = avx.fma._mm256_fmadd_ps(weights, pulp::cast(b[at]), in_b);
        in_c = avx.fma._mm256_fmadd_ps(weights, pulp::cast(c[at]), in_c);
        in_d = avx.fma._mm256_fmadd_ps(weights, pulp::cast(d[at]), in_d);
    }
    let ab = avx.avx._mm256_hadd_ps(in_a, in_b);
    let cd = avx.avx._mm256_hadd_ps(in_c, in_d);
    let halves: [f32; WIDTH] = pulp::cast(avx.avx._mm256_hadd_ps(ab, cd));
    let mut sums = [0.0; TOKENS];
    for i in 0..TOKENS {
        sums[i] = halves[i] + halves[TOKENS + i];
        let from = row.len() - rest.len();
        for (weight, number) in rest.iter().zip(&tokens[i][from..]) {
            sums[i] += weight * number;
        }
    }
    sums
}

/// Returns the largest of `start` and of `of` applied to the numbers.
///
/// Unlike `f32::max`, this comparison is one instruction, because it does not
/// handle NaN.
#[inline(always)]
pub(crate) fn largest(numbers: &[f32], start: f32, of: impl Fn(f32) -> f32) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [start; LANES];
    let (blocks, rest) = numbers.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], of(block[lane]));
        }
    }
    for lane in 1..LANES {
        lanes[0] = larger(lanes[0], lanes[lane]);
    }
    for number in rest {
        lanes[0] = larger(lanes[0], of(*number));
    }
    lanes[0]
}

/// Adds numbers, many side by side, always in the same order.
#[inline(always)]
pub(crate) fn sum(numbers: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (blocks, rest) = numbers.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] += block[lane];
        }
    }
    let mut sum = in_order(&lanes);
    for number in rest {
        sum += number;
    }
    sum
}

#[inline(always)]
fn in_order(lanes: &[f32; LANES]) -> f32 {
    let mut sum = 0.0;
    for lane in lanes {
        sum += lane;
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn products_are_those_of_the_plain_loop(
            tokens in 1_usize..10,
            columns in 1_usize..70,
            seed in 0_u32..1000,
        ) {
            let number = |i: usize| {
                let mixed = (i as u32 + seed).wrapping_mul(2_654_435_761) >> 8;
                (mixed % 2001) as f32 / 1000.0 - 1.0
            };
            let rows = 3;
            let x: Vec<f32> = (0..tokens * columns).map(number).collect();
            let fractions: Vec<f32> = (0..rows * columns).map(|i| number(i + 7)).collect();
            let bias = vec![0.5, -0.5, 0.0];
            let weights = Weights::Fractions(fractions.clone());
            let matrix = Matrix::new([rows, columns], weights, bias.clone());
            let mut out = Vec::new();
            matrix.times(&x, &mut Rounded::default(), &mut out);
            prop_assert_eq!(out.len(), tokens * rows);
            for token in 0..tokens {
                for row in 0..rows {
                    let expected: f32 = bias[row] + (0..columns)
                        .map(|i| fractions[row * columns + i] * x[token * columns + i])
                        .sum::<f32>();
                    let got = out[token * rows + row];
                    prop_assert!((got - expected).abs() < 1e-3, "{} {}", got, expected);
                }
            }
        }
    }
}
