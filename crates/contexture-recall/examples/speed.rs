//! Measures how many short texts each part of the crate processes per second on
//! one core:
//!
//! ```text
//! cargo run --release -p contexture-recall --example speed -- texts.jsonl
//! ```
//!
//! The file has one text per line; without a file, sentences are generated. On
//! Linux the time is processor time, so that a busy machine has the same
//! figures. Elsewhere it is wall time.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use contexture_recall::Embedder as _;

fn main() {
    let texts = std::env::args().nth(1).map_or_else(made_up, |path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    });
    let words: usize = texts.iter().map(|t| t.split_whitespace().count()).sum();
    println!("{} texts of {} words", texts.len(), words / texts.len());

    time("analyse", &texts, |text| {
        contexture_words::analyse(text).terms.len()
    });
    let start = on_processor();
    let model = contexture_recall::StaticModel::built_in();
    if let (Some(start), Some(end)) = (start, on_processor()) {
        println!(
            "model loaded in {:.1} ms of a processor",
            (end - start) * 1e3
        );
    }
    time("embed", &texts, |text| model.embed(&[text]).unwrap().len());
    time("chunks", &texts, |text| {
        contexture_recall::chunks(text, None, 1000).len()
    });
    let extractor = contexture_extract::Extractor::new(&rules()).unwrap();
    let known = contexture_extract::TextContext::default();
    time("extract", &texts, |text| {
        extractor.extract(text, &known).entities.len()
    });
    time("keywords", &texts, |text| {
        contexture_words::keywords(text).len()
    });
}

fn time(name: &str, texts: &[String], mut work: impl FnMut(&str) -> usize) {
    let (clock, start) = (Instant::now(), on_processor());
    let mut done = 0;
    while clock.elapsed().as_secs_f64() < 1.0 {
        for text in texts {
            black_box(work(text));
        }
        done += texts.len();
    }
    let (spent, unit) = match (start, on_processor()) {
        (Some(start), Some(end)) if end > start => (end - start, "processor second"),
        _ => (clock.elapsed().as_secs_f64(), "second"),
    };
    let rate = done as f64 / spent;
    println!("{name:>12} {rate:>10.0} texts a {unit}");
}

/// Returns the processor time of this process in seconds, if the system reports
/// it.
fn on_processor() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanoseconds: u64 = told.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

fn made_up() -> Vec<String> {
    let words: Vec<&str> = "we moved to berlin last may and the parser fails on empty request \
        bodies because nobody checked the length before reading it into a buffer that was \
        allocated for something else entirely when configuration loading was still synchronous"
        .split_whitespace()
        .collect();
    let mut state = 1_u64;
    (0..10_000)
        .map(|_| {
            let text: Vec<&str> = (0..25)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    words[(state >> 33) as usize % words.len()]
                })
                .collect();
            text.join(" ")
        })
        .collect()
}

/// Every built-in matcher.
fn rules() -> contexture_extract::Rules {
    contexture_extract::Rules {
        entities: contexture_extract::Find::ALL
            .iter()
            .map(|(name, find)| contexture_extract::EntityRule {
                kind: (*name).to_owned(),
                find: Some(*find),
                pattern: None,
            })
            .collect(),
        relations: Vec::new(),
        keywords: 8,
    }
}
