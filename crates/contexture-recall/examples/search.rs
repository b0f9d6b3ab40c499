//! Measures the time of a search in a large index, and the memory of the index:
//!
//! ```text
//! cargo run --release -p contexture-recall --example search -- 1000000
//! ```
//!
//! Texts have 8 to 40 terms by Zipf's law, in runs of 30, and a vector of 256
//! components near that of their run. The index is written to a file and read
//! from there before the search. Times are processor times of all threads of
//! the process (Linux).

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use contexture_recall::sections::{SectionFile, SectionWriter};
use contexture_recall::{Entry, Index, Vector, best};
use contexture_words::{Term, Words};

const DIMENSIONS: usize = 256;
const KIND: [u8; 8] = *b"examples";
const QUERIES: usize = 60;

fn main() {
    let count = std::env::args()
        .nth(1)
        .map_or(100_000, |n| n.parse().unwrap());
    let mut random = Random(7);
    let mut index = Index::new(DIMENSIONS);
    let mut topic = random.vector();
    for key in 0..count {
        if key % 30 == 0 {
            topic = random.vector();
        }
        let own = random.vector();
        let mixed: Vec<f32> = own
            .iter()
            .zip(&topic)
            .map(|(a, b)| 0.8 * a + 0.6 * b)
            .collect();
        let run = format!("run {}", key / 30);
        index.add(&Entry {
            key,
            words: &random.words(),
            vector: Some(&Vector::quantise(&mixed)),
            run: Some(&run),
            position: (key, 0),
        });
    }
    let path = std::env::temp_dir().join(format!("contexture-search-{}", std::process::id()));
    index.prepare_to_write();
    let mut to = SectionWriter::new(std::fs::File::create(&path).unwrap(), KIND).unwrap();
    index.write(&mut to).unwrap();
    to.finish().unwrap();
    drop(index);
    let before = resident();
    let start = on_processor();
    let file = SectionFile::open(std::fs::File::open(&path).unwrap(), KIND).unwrap();
    let index = Index::read(&file).unwrap();
    println!(
        "{count} texts: read in {:.0} ms, {:.0} MB resident",
        (on_processor() - start) * 1e3,
        resident() - before
    );
    let (mut ranked, mut sum) = (0.0, 0);
    let start = of_all_threads();
    for _ in 0..QUERIES {
        let mut terms: Vec<u32> = (0..5).map(|_| 40 + random.term()).collect();
        terms.dedup();
        let query = random.vector();
        let scores = index.scores(&terms, Some(&query), &[]);
        let start = on_processor();
        let hits = best(&index, &scores, 341, 0.1, |_| 0.0, |_| true);
        ranked += on_processor() - start;
        sum += hits.iter().map(|hit| u64::from(hit.slot)).sum::<u64>();
    }
    let each = |seconds: f64| seconds * 1e3 / QUERIES as f64;
    println!(
        "{:.2} ms a search, {:.2} of them to rank",
        each(of_all_threads() - start),
        each(ranked)
    );
    println!("{:.0} MB resident, slots {sum}", resident() - before);
    std::fs::remove_file(&path).unwrap();
}

/// Returns the processor time of all threads of this process, in seconds, to a
/// hundredth.
fn of_all_threads() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: f64 = (fields.skip(11).take(2))
        .map(|field| field.parse::<f64>().unwrap())
        .sum();
    ticks / 100.0
}

/// Returns the processor time of this thread, in seconds.
fn on_processor() -> f64 {
    let own = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    let nanoseconds: f64 = own.split_whitespace().next().unwrap().parse().unwrap();
    nanoseconds / 1e9
}

fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32) / (1_u64 << 24) as f32
    }

    fn vector(&mut self) -> Vec<f32> {
        let values: Vec<f32> = (0..DIMENSIONS)
            .map(|_| self.next() + self.next() - 1.0)
            .collect();
        let length = values.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
        values.iter().map(|x| x / length).collect()
    }

    /// Returns a term: the n-th is about 1/n as frequent as the first.
    fn term(&mut self) -> u32 {
        (50_000_f32.powf(self.next())) as u32
    }

    fn words(&mut self) -> Words {
        let count = 8 + (self.next() * 32.0) as u32;
        let mut ids: Vec<u32> = (0..count).map(|_| self.term()).collect();
        ids.sort_unstable();
        let mut words = Words {
            length: count,
            total: count + count / 2,
            ..Words::default()
        };
        for same in ids.chunk_by(|a, b| a == b) {
            words.terms.push(Term {
                id: same[0],
                count: same.len() as u8,
            });
        }
        words
    }
}
