//! The cost of a run's input by the prompt cache rules of Anthropic and OpenAI.
//!
//! The model's answers are the same in every replay and are not counted.

use std::collections::HashMap;

use serde::Serialize;

use super::wire::Wire;

/// Claude's tokens per token of o200k, by the usage that providers reported for
/// recorded runs.
pub(crate) const CLAUDE_TOKENS: f64 = 1.22;

/// The seconds after which an unused cache entry expires.
const KEPT: i64 = 300;

/// The minimum length of a cached prefix in tokens.
const LEAST: f64 = 1024.0;

/// Anthropic's price of a token in dollars, and the parts of it that a token
/// costs which is written to or read from the cache.
const CLAUDE_INPUT: f64 = 3.0 / 1e6;
const CLAUDE_OUTPUT: f64 = 15.0 / 1e6;
const CLAUDE_WRITE: f64 = 1.25;
const CLAUDE_READ: f64 = 0.1;

/// The number of blocks, counted backwards from a mark, that Anthropic checks for
/// a cache entry.
const LOOK_BACK: usize = 20;

/// The most marks that Anthropic takes.
const MARKS: usize = 4;

/// OpenAI's price of a token in dollars, and the part of it that a cached one
/// costs. The cache has steps of so many tokens.
const GPT_INPUT: f64 = 1.25 / 1e6;
const GPT_OUTPUT: f64 = 10.0 / 1e6;
const GPT_CACHED: f64 = 0.1;
const GPT_STEP: f64 = 128.0;

/// The cost of a run.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Bill {
    pub(crate) anthropic_dollars: f64,
    /// Tokens that Anthropic reads from its cache, writes to it, and takes
    /// without it.
    pub(crate) anthropic_read: f64,
    pub(crate) anthropic_written: f64,
    pub(crate) anthropic_uncached: f64,
    pub(crate) openai_dollars: f64,
    pub(crate) openai_cached: f64,
    pub(crate) openai_uncached: f64,
}

impl Bill {
    pub(crate) fn add(&mut self, other: &Self) {
        self.anthropic_dollars += other.anthropic_dollars;
        self.anthropic_read += other.anthropic_read;
        self.anthropic_written += other.anthropic_written;
        self.anthropic_uncached += other.anthropic_uncached;
        self.openai_dollars += other.openai_dollars;
        self.openai_cached += other.openai_cached;
        self.openai_uncached += other.openai_uncached;
    }

    /// Adds a call without cached tokens, such as one that summarises.
    pub(crate) fn add_call(&mut self, input: u64, output: u64) {
        let (input, output) = (input as f64, output as f64);
        self.anthropic_uncached += input * CLAUDE_TOKENS;
        self.anthropic_dollars += CLAUDE_TOKENS * (input * CLAUDE_INPUT + output * CLAUDE_OUTPUT);
        self.openai_uncached += input;
        self.openai_dollars += input * GPT_INPUT + output * GPT_OUTPUT;
    }
}

/// The caches of both providers, and the bill so far.
#[derive(Default)]
pub(crate) struct Providers {
    pub(crate) bill: Bill,
    /// The time of the last use of each of Anthropic's cache entries, by the
    /// hash of the prefix.
    anthropic: HashMap<u64, i64>,
    /// The same for OpenAI, which caches every prefix.
    openai: HashMap<u64, i64>,
}

impl Providers {
    /// Sends a request. `partial` is the index of the first block that differs
    /// from the previous request, and the share of its bytes that is the same.
    pub(crate) fn send(&mut self, wire: &Wire, partial: Option<(usize, f64)>, now: i64) {
        let prefixes = wire.prefixes();
        let mut sum = 0;
        let upto: Vec<f64> = (wire.segments.iter())
            .map(|segment| {
                sum += segment.tokens;
                sum as f64
            })
            .collect();
        self.anthropic(&prefixes, &upto, &wire.marks, now);
        self.openai(&prefixes, &upto, partial, now);
    }

    fn anthropic(&mut self, prefixes: &[u64], upto: &[f64], marks: &[usize], now: i64) {
        let tokens = |block: usize| upto[block] * CLAUDE_TOKENS;
        let total = upto.last().map_or(0.0, |total| total * CLAUDE_TOKENS);
        let kept = |block: usize| {
            (self.anthropic.get(&prefixes[block])).is_some_and(|used| now - used <= KEPT)
        };
        // The API rejects more than four marks.
        let marks = &marks[marks.len().saturating_sub(MARKS)..];
        let hit = (marks.iter())
            .filter_map(|mark| {
                let looked = (mark + 1).saturating_sub(LOOK_BACK)..=*mark;
                looked.rev().find(|block| kept(*block))
            })
            .max();
        let read = hit.map_or(0.0, tokens);
        let written = (marks.iter().copied())
            .filter(|mark| tokens(*mark) >= LEAST)
            .max()
            .map_or(0.0, |mark| (tokens(mark) - read).max(0.0));
        let uncached = total - read - written;
        self.bill.anthropic_read += read;
        self.bill.anthropic_written += written;
        self.bill.anthropic_uncached += uncached;
        self.bill.anthropic_dollars +=
            CLAUDE_INPUT * (read * CLAUDE_READ + written * CLAUDE_WRITE + uncached);
        for block in marks.iter().copied().chain(hit) {
            if tokens(block) >= LEAST {
                self.anthropic.insert(prefixes[block], now);
            }
        }
    }

    fn openai(&mut self, prefixes: &[u64], upto: &[f64], partial: Option<(usize, f64)>, now: i64) {
        let kept = |prefix: &u64| (self.openai.get(prefix)).is_some_and(|used| now - used <= KEPT);
        let blocks = prefixes.iter().take_while(|prefix| kept(prefix)).count();
        let mut shared = blocks.checked_sub(1).map_or(0.0, |last| upto[last]);
        if let Some((block, part)) = partial
            && block == blocks
            && block < upto.len()
        {
            shared += (upto[block] - shared) * part;
        }
        let cached = match (shared / GPT_STEP).floor() * GPT_STEP {
            cached if cached < LEAST => 0.0,
            cached => cached,
        };
        let total = upto.last().copied().unwrap_or(0.0);
        self.bill.openai_cached += cached;
        self.bill.openai_uncached += total - cached;
        self.bill.openai_dollars += GPT_INPUT * (total - cached + cached * GPT_CACHED);
        for prefix in prefixes {
            self.openai.insert(*prefix, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::wire::Blocks;
    use serde_json::json;

    /// Requests whose blocks have the given numbers of tokens, made of words
    /// that stand for one token each.
    struct Simulation {
        blocks: Blocks,
        providers: Providers,
    }

    impl Simulation {
        fn new() -> Self {
            Self {
                blocks: Blocks::new(),
                providers: Providers::default(),
            }
        }

        /// Sends blocks, each with its name and size. Returns what was added to
        /// the bill.
        fn send(&mut self, sizes: &[(&str, usize)], marks: &[usize], now: i64) -> Bill {
            let before = self.providers.bill;
            let mut wire = Wire {
                segments: Vec::new(),
                marks: marks.to_vec(),
            };
            for (name, size) in sizes {
                let text = name.to_string() + &" word".repeat(size - 1);
                let block = json!({"type": "text", "text": text});
                let segment = self.blocks.get(Blocks::USER, &block);
                assert_eq!(segment.tokens, *size as u64, "{name}");
                wire.segments.push(segment);
            }
            self.providers.send(&wire, None, now);
            let after = &self.providers.bill;
            Bill {
                anthropic_dollars: after.anthropic_dollars - before.anthropic_dollars,
                anthropic_read: after.anthropic_read - before.anthropic_read,
                anthropic_written: after.anthropic_written - before.anthropic_written,
                anthropic_uncached: after.anthropic_uncached - before.anthropic_uncached,
                openai_dollars: after.openai_dollars - before.openai_dollars,
                openai_cached: after.openai_cached - before.openai_cached,
                openai_uncached: after.openai_uncached - before.openai_uncached,
            }
        }
    }

    /// Compares numbers of o200k tokens with Claude's of a bill: read, written
    /// and uncached.
    #[track_caller]
    fn anthropic(bill: &Bill, expected: [f64; 3]) {
        let got = [
            bill.anthropic_read,
            bill.anthropic_written,
            bill.anthropic_uncached,
        ]
        .map(|tokens| (tokens / CLAUDE_TOKENS * 10.0).round() / 10.0);
        assert_eq!(got, expected);
    }

    #[test]
    fn a_request_that_grows_is_read_up_to_where_it_was_written() {
        let mut simulation = Simulation::new();
        let first = simulation.send(&[("a", 1000), ("b", 500)], &[1], 0);
        anthropic(&first, [0.0, 1500.0, 0.0]);
        let dollars = 1500.0 * CLAUDE_TOKENS * 1.25 * 3.0 / 1e6;
        assert!((first.anthropic_dollars - dollars).abs() < 1e-12);
        let grown = [("a", 1000), ("b", 500), ("c", 100), ("d", 50)];
        let second = simulation.send(&grown, &[2], 30);
        anthropic(&second, [1500.0, 100.0, 50.0]);
        // OpenAI: 11 steps of 128 tokens of the 1,500 that are shared.
        assert_eq!(first.openai_cached, 0.0);
        assert_eq!(second.openai_cached, 11.0 * 128.0);
        let dollars = 1.25 / 1e6 * (1650.0 - 1408.0 + 140.8);
        assert!((second.openai_dollars - dollars).abs() < 1e-12);
    }

    #[test]
    fn a_short_beginning_is_not_kept() {
        let mut simulation = Simulation::new();
        // 800 tokens of o200k are 976 of Claude's.
        anthropic(&simulation.send(&[("a", 800)], &[0], 0), [0.0, 0.0, 800.0]);
        let second = simulation.send(&[("a", 800)], &[0], 30);
        anthropic(&second, [0.0, 0.0, 800.0]);
        assert_eq!(second.openai_cached, 0.0);
    }

    #[test]
    fn nothing_is_kept_longer_than_five_minutes_without_use() {
        let mut simulation = Simulation::new();
        simulation.send(&[("a", 2000)], &[0], 0);
        anthropic(
            &simulation.send(&[("a", 2000)], &[0], 300),
            [2000.0, 0.0, 0.0],
        );
        anthropic(
            &simulation.send(&[("a", 2000)], &[0], 600),
            [2000.0, 0.0, 0.0],
        );
        let late = simulation.send(&[("a", 2000)], &[0], 901);
        anthropic(&late, [0.0, 2000.0, 0.0]);
        assert_eq!(late.openai_cached, 0.0);
    }

    #[test]
    fn a_mark_looks_back_twenty_blocks() {
        let names: Vec<String> = ('b'..='w').map(String::from).collect();
        let sized = |count: usize| -> Vec<(&str, usize)> {
            let small = names[..count].iter().map(|name| (name.as_str(), 10));
            [("a", 2000)].into_iter().chain(small).collect()
        };
        // The mark itself is the first block that is looked at.
        let mut simulation = Simulation::new();
        simulation.send(&sized(0), &[0], 0);
        anthropic(
            &simulation.send(&sized(19), &[19], 30),
            [2000.0, 190.0, 0.0],
        );
        let mut simulation = Simulation::new();
        simulation.send(&sized(0), &[0], 0);
        anthropic(&simulation.send(&sized(20), &[20], 30), [0.0, 2200.0, 0.0]);
        // A second mark finds it.
        let mut simulation = Simulation::new();
        simulation.send(&sized(0), &[0], 0);
        anthropic(
            &simulation.send(&sized(20), &[0, 20], 30),
            [2000.0, 200.0, 0.0],
        );
    }

    #[test]
    fn a_changed_block_costs_all_behind_it() {
        let mut simulation = Simulation::new();
        simulation.send(&[("a", 2000), ("b", 100), ("c", 100)], &[0, 2], 0);
        let changed = simulation.send(&[("a", 2000), ("x", 100), ("c", 100)], &[0, 2], 30);
        anthropic(&changed, [2000.0, 200.0, 0.0]);
        assert_eq!(changed.openai_cached, 15.0 * 128.0);
    }
}
