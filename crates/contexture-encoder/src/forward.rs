//! The forward pass: from the tokens of a text to its vector.

use crate::exponential::{Activation, exp};
use crate::matrix::{Matrix, Table, largest, sum};
use crate::packed::Rounded;

/// The layers of a model, its embeddings and its head.
pub(crate) struct Network {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) activation: Activation,
    pub(crate) epsilon: f32,
    /// The vector of each token.
    pub(crate) tokens: Table,
    /// The projection from the size of a token's vector to the hidden size.
    pub(crate) up: Option<Matrix>,
    /// The vectors that are added at each position, concatenated.
    pub(crate) positions: Vec<f32>,
    pub(crate) start: Norm,
    pub(crate) layers: Vec<Layer>,
    pub(crate) pooling: Pooling,
    /// The projection from the hidden size to the dimensions of the result.
    pub(crate) head: Option<Matrix>,
}

pub(crate) struct Layer {
    /// The matrices of queries, keys and values, one below the other.
    pub(crate) attention: Matrix,
    pub(crate) joined: Matrix,
    pub(crate) after_attention: Norm,
    pub(crate) wide: Matrix,
    pub(crate) narrow: Matrix,
    pub(crate) after_wide: Norm,
}

/// The parameters of LayerNorm: a factor and an offset for each component.
pub(crate) struct Norm {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

/// The method that combines the tokens of a text into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// The mean of all tokens.
    Mean,
    /// The first token.
    First,
}

/// Buffers that are reused from text to text.
#[derive(Default)]
pub(crate) struct Workspace {
    rounded: Rounded,
    looked_up: Vec<f32>,
    hidden: Vec<f32>,
    attention: Vec<f32>,
    mixed: Vec<f32>,
    wide: Vec<f32>,
    added: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    weights: Vec<f32>,
}

/// The number of tokens whose attention is computed side by side.
const BLOCK: usize = 16;

impl Network {
    /// Returns the vector of a text, not normalised.
    ///
    /// `ids` are rows of `tokens`, at most as many as there are positions.
    pub(crate) fn forward(&self, ids: &[u32], work: &mut Workspace) -> Vec<f32> {
        pulp::Arch::new().dispatch(Forward {
            network: self,
            ids,
            work,
        })
    }

    #[inline(always)]
    fn run(&self, ids: &[u32], work: &mut Workspace) -> Vec<f32> {
        let hidden = self.hidden;
        let size = self.tokens.columns;
        work.looked_up.resize(ids.len() * size, 0.0);
        for (id, to) in ids.iter().zip(work.looked_up.chunks_exact_mut(size)) {
            self.tokens.row(*id as usize, to);
        }
        match &self.up {
            Some(up) => up.times(&work.looked_up, &mut work.rounded, &mut work.hidden),
            None => {
                work.hidden.clear();
                work.hidden.extend_from_slice(&work.looked_up);
            }
        }
        let positions = self.positions.chunks_exact(hidden);
        for (token, position) in work.hidden.chunks_exact_mut(hidden).zip(positions) {
            for (x, y) in token.iter_mut().zip(position) {
                *x += y;
            }
            self.start.apply(token, self.epsilon);
        }
        for layer in &self.layers {
            self.layer(layer, work);
        }
        let mut pooled = vec![0.0; hidden];
        match self.pooling {
            Pooling::First => pooled.copy_from_slice(&work.hidden[..hidden]),
            Pooling::Mean => {
                for token in work.hidden.chunks_exact(hidden) {
                    for (sum, x) in pooled.iter_mut().zip(token) {
                        *sum += x;
                    }
                }
                let part = 1.0 / ids.len() as f32;
                for x in &mut pooled {
                    *x *= part;
                }
            }
        }
        match &self.head {
            None => pooled,
            Some(head) => {
                let mut out = Vec::new();
                head.times(&pooled, &mut work.rounded, &mut out);
                out
            }
        }
    }

    #[inline(always)]
    fn layer(&self, layer: &Layer, work: &mut Workspace) {
        let hidden = self.hidden;
        (layer.attention).times(&work.hidden, &mut work.rounded, &mut work.attention);
        self.attend(work);
        (layer.joined).times(&work.mixed, &mut work.rounded, &mut work.added);
        add(&mut work.hidden, &work.added);
        for token in work.hidden.chunks_exact_mut(hidden) {
            layer.after_attention.apply(token, self.epsilon);
        }
        (layer.wide).times(&work.hidden, &mut work.rounded, &mut work.wide);
        self.activation.apply(&mut work.wide);
        (layer.narrow).times(&work.wide, &mut work.rounded, &mut work.added);
        add(&mut work.hidden, &work.added);
        for token in work.hidden.chunks_exact_mut(hidden) {
            layer.after_wide.apply(token, self.epsilon);
        }
    }

    /// Mixes the values of all tokens, head by head, weighted by the match of
    /// keys and queries.
    #[inline(always)]
    fn attend(&self, work: &mut Workspace) {
        let hidden = self.hidden;
        let width = hidden / self.heads;
        let count = work.hidden.len() / hidden;
        // Both are padded with zeros, so that whole blocks are added.
        let (padded, wide) = (count.next_multiple_of(BLOCK), width.next_multiple_of(BLOCK));
        let part = 1.0 / (width as f32).sqrt();
        work.mixed.clear();
        work.mixed.resize(count * hidden, 0.0);
        work.keys.clear();
        work.keys.resize(width * padded, 0.0);
        work.values.clear();
        work.values.resize(count * wide, 0.0);
        work.weights.clear();
        work.weights.resize(padded, 0.0);
        for head in 0..self.heads {
            for token in 0..count {
                let from = (token * 3 + 1) * hidden + head * width;
                let keys = &work.attention[from..from + width];
                for (at, key) in keys.iter().enumerate() {
                    work.keys[at * padded + token] = *key;
                }
                let from = from + hidden;
                let values = &work.attention[from..from + width];
                work.values[token * wide..token * wide + width].copy_from_slice(values);
            }
            for token in 0..count {
                let from = token * 3 * hidden + head * width;
                let query = &work.attention[from..from + width];
                for (block, to) in work
                    .weights
                    .as_chunks_mut::<BLOCK>()
                    .0
                    .iter_mut()
                    .enumerate()
                {
                    *to = weighted(query, &work.keys[block * BLOCK..], padded);
                    for weight in to {
                        *weight *= part;
                    }
                }
                softmax(&mut work.weights, count);
                let to = token * hidden + head * width;
                let mixed = &mut work.mixed[to..to + width];
                for (block, mixed) in mixed.chunks_mut(BLOCK).enumerate() {
                    let values = &work.values[block * BLOCK..];
                    let sums = weighted(&work.weights[..count], values, wide);
                    mixed.copy_from_slice(&sums[..mixed.len()]);
                }
            }
        }
    }
}

/// Returns the sum of one block of each row, times the row's weight. Rows begin
/// every `stride` numbers.
#[inline(always)]
fn weighted(weights: &[f32], rows: &[f32], stride: usize) -> [f32; BLOCK] {
    let mut sums = [0.0; BLOCK];
    for (at, weight) in weights.iter().enumerate() {
        let Some(row) = rows[at * stride..].first_chunk::<BLOCK>() else {
            break;
        };
        for lane in 0..BLOCK {
            sums[lane] += weight * row[lane];
        }
    }
    sums
}

/// Applies softmax to the first `count` numbers, and sets the others to 0.
#[inline(always)]
fn softmax(numbers: &mut [f32], count: usize) {
    let largest = largest(&numbers[..count], f32::NEG_INFINITY, |x| x);
    for x in numbers.iter_mut() {
        *x = exp(*x - largest);
    }
    numbers[count..].fill(0.0);
    let part = 1.0 / sum(numbers);
    for x in numbers {
        *x *= part;
    }
}

#[inline(always)]
fn add(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

impl Norm {
    #[inline(always)]
    fn apply(&self, token: &mut [f32], epsilon: f32) {
        let part = 1.0 / token.len() as f32;
        let mean = sum(token) * part;
        let mut squares = [0.0_f32; BLOCK];
        let (blocks, rest) = token.as_chunks_mut::<BLOCK>();
        for block in blocks {
            for lane in 0..BLOCK {
                block[lane] -= mean;
                squares[lane] += block[lane] * block[lane];
            }
        }
        let mut variance = 0.0;
        for square in squares {
            variance += square;
        }
        for x in rest {
            *x -= mean;
            variance += *x * *x;
        }
        let factor = 1.0 / (variance * part + epsilon).sqrt();
        for ((x, weight), bias) in token.iter_mut().zip(&self.weight).zip(&self.bias) {
            *x = *x * factor * weight + bias;
        }
    }
}

/// The work of [`Network::forward`]. It is not a closure: a closure that is not
/// inlined is compiled for the oldest supported processor.
struct Forward<'a> {
    network: &'a Network,
    ids: &'a [u32],
    work: &'a mut Workspace,
}

impl pulp::NullaryFnOnce for Forward<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn call(self) -> Vec<f32> {
        self.network.run(self.ids, self.work)
    }
}
