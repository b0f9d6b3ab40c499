//! Matrices of a model, and their product with the tokens of a text.
//!
//! A matrix of bytes stays as it is in the file. The numbers of a token are
//! rounded to 16 bits, and the products are added up in 32 bits without loss:
//! the result does not depend on the order, and a vector instruction multiplies
//! twice as many 16-bit numbers as it does fractions.

use std::borrow::Cow;

use crate::exponential::round;

/// Tokens that are multiplied with a row at a time.
const TOKENS: usize = 4;

/// Rows of bytes that are multiplied at a time.
const ROWS: usize = 2;

/// Fractions that are added up side by side, whatever the machine has.
const LANES: usize = 16;

/// A matrix with a bias for each row.
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    numbers: Numbers,
    /// One for each row.
    bias: Vec<f32>,
}

enum Numbers {
    /// Whole numbers from -127 to 127, times a scale for each row.
    Bytes {
        weights: Cow<'static, [u8]>,
        scales: Vec<f32>,
    },
    Fractions(Vec<f32>),
}

/// Tokens rounded to 16 bits, used again from product to product.
#[derive(Default)]
pub(crate) struct Rounded {
    numbers: Vec<i16>,
    scales: Vec<f32>,
}

impl Matrix {
    /// Returns a matrix of bytes, each row times its scale.
    pub(crate) fn of_bytes(
        [rows, columns]: [usize; 2],
        weights: Cow<'static, [u8]>,
        scales: Vec<f32>,
        bias: Vec<f32>,
    ) -> Self {
        debug_assert!(weights.len() == rows * columns && scales.len() == rows);
        Self {
            rows,
            columns,
            numbers: Numbers::Bytes { weights, scales },
            bias,
        }
    }

    /// Returns a matrix of fractions.
    pub(crate) fn of_fractions(
        [rows, columns]: [usize; 2],
        weights: Vec<f32>,
        bias: Vec<f32>,
    ) -> Self {
        debug_assert!(weights.len() == rows * columns);
        Self {
            rows,
            columns,
            numbers: Numbers::Fractions(weights),
            bias,
        }
    }

    /// Writes a row.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize, to: &mut [f32]) {
        let at = row * self.columns..(row + 1) * self.columns;
        match &self.numbers {
            Numbers::Bytes { weights, scales } => {
                let scale = scales[row];
                for (to, byte) in to.iter_mut().zip(&weights[at]) {
                    *to = f32::from(*byte as i8) * scale;
                }
            }
            Numbers::Fractions(weights) => to.copy_from_slice(&weights[at]),
        }
    }

    /// Writes the product with each token, which lie end to end in `tokens`.
    #[inline(always)]
    pub(crate) fn times(&self, tokens: &[f32], rounded: &mut Rounded, out: &mut Vec<f32>) {
        let count = tokens.len() / self.columns;
        out.clear();
        out.resize(count * self.rows, 0.0);
        match &self.numbers {
            Numbers::Bytes { weights, scales } => {
                rounded.read(tokens, self.columns);
                let work = ByteProducts {
                    weights,
                    scales,
                    bias: &self.bias,
                    columns: self.columns,
                    tokens: rounded,
                    out,
                };
                #[cfg(target_arch = "x86_64")]
                if let Some(avx) = pulp::x86::V3::try_new() {
                    return avx.vectorize(WithAvx { avx, work });
                }
                work.run(plain_products);
            }
            Numbers::Fractions(weights) => {
                let work = Products {
                    weights,
                    bias: &self.bias,
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

impl Rounded {
    /// Rounds tokens, and fills the last block up with zeros.
    #[inline(always)]
    fn read(&mut self, tokens: &[f32], columns: usize) {
        let count = tokens.len() / columns;
        // The largest sum of products must stay below 2^31.
        let most = (i32::MAX as usize / (127 * columns)).min(i16::MAX as usize) as f32;
        self.numbers.clear();
        self.numbers
            .resize(count.next_multiple_of(TOKENS) * columns, 0);
        self.scales.clear();
        let rows = self.numbers.chunks_exact_mut(columns);
        for (token, to) in tokens.chunks_exact(columns).zip(rows) {
            let largest = largest(token, 0.0, f32::abs);
            let factor = if largest > 0.0 { most / largest } else { 0.0 };
            for (to, x) in to.iter_mut().zip(token) {
                *to = round(x * factor);
            }
            self.scales.push(largest / most);
        }
    }
}

/// Sums of two rows with four tokens.
type Sums = [[i32; TOKENS]; ROWS];

/// The product of a matrix of bytes with rounded tokens.
struct ByteProducts<'a> {
    weights: &'a [u8],
    scales: &'a [f32],
    bias: &'a [f32],
    columns: usize,
    tokens: &'a Rounded,
    out: &'a mut [f32],
}

impl ByteProducts<'_> {
    /// Multiplies by a function from two rows and four tokens, which lie end to
    /// end.
    #[inline(always)]
    fn run(self, products: impl Fn([&[u8]; ROWS], &[i16]) -> Sums) {
        let (rows, count) = (self.scales.len(), self.tokens.scales.len());
        let mut at = 0;
        for pair in self.weights.chunks(ROWS * self.columns) {
            let (first, second) = pair.split_at(self.columns);
            // After an odd last row, that row again.
            let second = if second.is_empty() { first } else { second };
            let blocks = self.tokens.numbers.chunks_exact(TOKENS * self.columns);
            for (block, four) in blocks.enumerate() {
                let sums = products([first, second], four);
                let start = block * TOKENS;
                for row in at..rows.min(at + ROWS) {
                    for token in start..count.min(start + TOKENS) {
                        let scale = self.tokens.scales[token] * self.scales[row];
                        let sum = sums[row - at][token - start] as f32;
                        self.out[token * rows + row] = sum * scale + self.bias[row];
                    }
                }
            }
            at += ROWS;
        }
    }
}

/// The same with AVX2. The compiler does not find `vpmaddwd` by itself, which
/// makes it three times as fast.
#[cfg(target_arch = "x86_64")]
struct WithAvx<'a> {
    avx: pulp::x86::V3,
    work: ByteProducts<'a>,
}

#[cfg(target_arch = "x86_64")]
impl pulp::NullaryFnOnce for WithAvx<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let avx = self.avx;
        self.work.run(
            #[inline(always)]
            |rows, four| avx_products(avx, rows, four),
        );
    }
}

/// Multiplies two rows with four tokens on any machine.
#[inline(always)]
fn plain_products(rows: [&[u8]; ROWS], four: &[i16]) -> Sums {
    plain_products_from(rows, four, 0)
}

/// The same from a column on.
#[inline(always)]
fn plain_products_from(rows: [&[u8]; ROWS], four: &[i16], from: usize) -> Sums {
    let columns = rows[0].len();
    let mut sums = [[0_i32; TOKENS]; ROWS];
    for (row, sums) in rows.iter().zip(&mut sums) {
        for (token, sum) in four.chunks_exact(columns).zip(sums) {
            for (weight, number) in row[from..].iter().zip(&token[from..]) {
                *sum += i32::from(*weight as i8) * i32::from(*number);
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx_products(avx: pulp::x86::V3, rows: [&[u8]; ROWS], four: &[i16]) -> Sums {
    use std::arch::x86_64::__m256i;
    const BYTES: usize = 16;

    let columns = rows[0].len();
    let (first, rest) = rows[0].as_chunks::<BYTES>();
    let (second, _) = rows[1].as_chunks::<BYTES>();
    let (a, b) = four.split_at(columns);
    let (b, c) = b.split_at(columns);
    let (c, d) = c.split_at(columns);
    let tokens = [a, b, c, d].map(|token| token.as_chunks::<BYTES>().0);
    let zero: __m256i = pulp::cast([0_i32; 8]);
    let mut lanes = [[zero; TOKENS]; ROWS];
    for at in 0..first.len() {
        let weights = [
            (avx.avx2)._mm256_cvtepi8_epi16(pulp::cast(first[at])),
            (avx.avx2)._mm256_cvtepi8_epi16(pulp::cast(second[at])),
        ];
        for i in 0..TOKENS {
            let numbers = pulp::cast(tokens[i][at]);
            for row in 0..ROWS {
                let products = (avx.avx2)._mm256_madd_epi16(weights[row], numbers);
                lanes[row][i] = (avx.avx2)._mm256_add_epi32(lanes[row][i], products);
            }
        }
    }
    let mut sums = plain_products_from(rows, four, columns - rest.len());
    for row in 0..ROWS {
        let [a, b, c, d] = lanes[row];
        let ab = avx.avx2._mm256_hadd_epi32(a, b);
        let cd = avx.avx2._mm256_hadd_epi32(c, d);
        let halves: [i32; 8] = pulp::cast(avx.avx2._mm256_hadd_epi32(ab, cd));
        for i in 0..TOKENS {
            sums[row][i] += halves[i] + halves[TOKENS + i];
        }
    }
    sums
}

/// The product of a matrix of fractions with tokens.
struct Products<'a> {
    weights: &'a [f32],
    bias: &'a [f32],
    columns: usize,
    tokens: &'a [f32],
    out: &'a mut [f32],
}

impl Products<'_> {
    /// Multiplies by a function from a row and four tokens.
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
                    // Beyond the last token, the last one again.
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

/// Returns the largest of `start` and what `of` makes of the numbers.
///
/// Unlike with `f32::max` a comparison is one instruction, because it says
/// nothing about NaN.
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

/// Adds up numbers, many side by side, in an order that is always the same.
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
            let bytes: Vec<u8> = (0..rows * columns)
                .map(|i| (number(i + 7) * 127.0) as i8 as u8)
                .collect();
            let fractions: Vec<f32> = (0..rows * columns)
                .map(|i| f32::from(bytes[i] as i8) * 0.01)
                .collect();
            let bias = vec![0.5, -0.5, 0.0];
            let shape = [rows, columns];
            let whole = Matrix::of_bytes(shape, Cow::Owned(bytes), vec![0.01; rows], bias.clone());
            let plain = Matrix::of_fractions(shape, fractions.clone(), bias.clone());
            let mut rounded = Rounded::default();
            for matrix in [whole, plain] {
                let mut out = Vec::new();
                matrix.times(&x, &mut rounded, &mut out);
                prop_assert_eq!(out.len(), tokens * rows);
                for token in 0..tokens {
                    for row in 0..rows {
                        let expected: f32 = bias[row] + (0..columns)
                            .map(|i| fractions[row * columns + i] * x[token * columns + i])
                            .sum::<f32>();
                        let got = out[token * rows + row];
                        prop_assert!((got - expected).abs() < 1e-2, "{} {}", got, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let columns = 3072;
        let weights = vec![127_u8; columns];
        let matrix = Matrix::of_bytes([1, columns], weights.into(), vec![1.0], vec![0.0]);
        let mut out = Vec::new();
        matrix.times(&vec![1.0; columns], &mut Rounded::default(), &mut out);
        assert!(
            (out[0] / (127.0 * columns as f32) - 1.0).abs() < 1e-3,
            "{out:?}"
        );
    }
}
