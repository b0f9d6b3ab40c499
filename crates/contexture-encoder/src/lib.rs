//! Sentence vectors from a transformer, in pure Rust: no network, no key, no
//! GPU and no `unsafe`.
//!
//! [`Encoder::built_in`] is compiled in: one layer, 256 dimensions, 5.2 MB.
//! [`Encoder::load`] reads a folder with a BERT-type model (`config.json`,
//! `tokenizer.json`, `model.safetensors`), such as all-MiniLM-L6-v2, bge-small,
//! e5 or gte.
//!
//! ```
//! use contexture_encoder::Encoder;
//! use contexture_recall::Embedder as _;
//!
//! let encoder = Encoder::built_in();
//! let texts = ["What can she not eat?", "I can't have dairy.", "The pump has a fuse."];
//! let vectors = encoder.embed(&texts).unwrap();
//! let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
//! assert!(dot(&vectors[0], &vectors[1]) > dot(&vectors[0], &vectors[2]) + 0.1);
//! ```
//!
//! The same model and the same text always have the same vector. The built-in
//! model returns the same bits on every machine: it multiplies matrices in
//! integers, and adds everything else in a fixed order with its own functions.

mod exponential;
mod folder;
mod forward;
mod matrix;
mod model;
mod packed;

pub use folder::is_encoder;
pub use model::Encoder;
