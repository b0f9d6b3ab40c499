//! Measures what exact counting costs a process that has just started.
//!
//! `cargo run --release -p contexture-tokens --example cold_start -- RUNS FILE...`
//! starts itself RUNS times for each implementation, in turns, and prints the
//! medians. Each child counts every FILE once and reports its own CPU time
//! since process start.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::process::Command;

use contexture_tokens::{Encoding, OpenAi, TokenCounter};
use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this process since it started, in milliseconds.
fn cpu_ms() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

fn child(implementation: &str, files: &[String]) {
    let started = cpu_ms();
    let texts: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let read = cpu_ms();
    let count: Box<dyn Fn(&str) -> u64> = match implementation {
        "contexture" => {
            let counter = OpenAi::new(Encoding::O200k);
            Box::new(move |text| counter.count(text))
        }
        "tiktoken" => {
            let counter = tiktoken::get_encoding("o200k_base").unwrap();
            Box::new(move |text| counter.count(text) as u64)
        }
        _ => Box::new(|_| 0),
    };
    let first = count("one");
    let loaded = cpu_ms();
    let tokens: u64 = texts.iter().map(|text| count(text)).sum();
    let counted = cpu_ms();
    let again: u64 = texts.iter().map(|text| count(text)).sum();
    assert_eq!(tokens, again);
    let again = cpu_ms() - counted;
    assert!(first <= 1);
    println!(
        "{tokens} {} {} {} {again} {counted}",
        read - started,
        loaded - read,
        counted - loaded
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "child" {
        return child(&args[1], &args[2..]);
    }
    let runs: usize = args[0].parse().unwrap();
    let names = ["contexture", "tiktoken", "nothing"];
    let mut figures: [Vec<Vec<f64>>; 3] = Default::default();
    for _ in 0..runs {
        for (name, figures) in names.iter().zip(&mut figures) {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["child", name])
                .args(&args[1..])
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            let line = String::from_utf8(output.stdout).unwrap();
            figures.push(
                line.split_whitespace()
                    .map(|n| n.parse().unwrap())
                    .collect(),
            );
        }
    }
    println!("CPU ms, medians of {runs} new processes");
    for (name, figures) in names.iter().zip(&figures) {
        let median = |column: usize| {
            let mut values: Vec<f64> = figures.iter().map(|row| row[column]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        println!(
            "{name:>10}: {} tokens; read {:.2}, load {:.3}, count {:.2}, count again {:.2}; from process start {:.2}",
            median(0),
            median(1),
            median(2),
            median(3),
            median(4),
            median(5),
        );
    }
}
