//! Times the encoder, and prints vectors:
//!
//! ```text
//! cargo run --release -p contexture-encoder --example encode
//! cargo run --release -p contexture-encoder --example encode -- FOLDER TEXT…
//! ```
//!
//! The first form times the built-in encoder on texts of 20 and 40 tokens. The
//! second prints the token ids and the first components for each text.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use contexture_encoder::Encoder;
use contexture_recall::Embedder as _;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next();
    let started = Instant::now();
    let encoder = match &folder {
        Some(folder) => Arc::new(Encoder::load(Path::new(folder)).unwrap()),
        None => Encoder::built_in(),
    };
    let loaded = started.elapsed().as_secs_f64() * 1e3;
    println!("{} loaded in {loaded:.1} ms", encoder.name());
    let texts: Vec<String> = arguments.collect();
    for text in &texts {
        let vector = encoder.embed(&[text]).unwrap().remove(0);
        println!(
            "{text}\n  {:?}\n  {:.6?}",
            encoder.token_ids(text),
            &vector[..8]
        );
    }
    let words = "the old pump in the cellar starts by itself when the fuse is warm and wet ";
    for tokens in [20, 40, 200] {
        let text = words.repeat(20);
        let text: Vec<&str> = text.split(' ').take(tokens - 2).collect();
        let text = text.join(" ");
        let mut best = f64::INFINITY;
        let rounds = if texts.is_empty() { 200 } else { 10 };
        for _ in 0..rounds {
            let before = Instant::now();
            black_box(encoder.embed(&[&text]).unwrap());
            best = best.min(before.elapsed().as_secs_f64() * 1e3);
        }
        let tokens = encoder.token_ids(&text).len();
        println!("{tokens} tokens: {best:.3} ms at best");
    }
}
