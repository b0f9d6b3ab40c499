//! Conversations that nobody had, as many as wanted and the same everywhere.
//!
//! The words are those of the built-in embedder's vocabulary, which stand there
//! by how frequent they are in English, so that a few say nothing and most are
//! rare (Zipf's law); some rarer ones are made of two. A session has two
//! speakers, 20 to 40 turns of 8 to 40 words, and words of its own that recur.
//! One turn in 50 is one that is said again and again.

use std::io::{BufRead, Read};

use anyhow::Context as _;
use contexture::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::project::Dice;

/// Raised when other text is made.
pub(super) const VERSION: u32 = 1;

/// How many words are made of two.
const COMPOUNDS: usize = 10_000;

/// How many texts recur.
const STOCK: u64 = 500;

/// How far apart sessions begin, in seconds.
const APART: i64 = 2_700;

/// Makes conversations.
pub(super) struct Maker {
    words: Vec<String>,
    // How frequent a word and all before it are.
    sums: Vec<f64>,
    names: Vec<String>,
    stock: Vec<String>,
}

/// A turn that nobody said.
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) at: Timestamp,
    pub(super) speaker: String,
    pub(super) text: String,
}

impl Maker {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut words = vocabulary()?;
        let known = words.len();
        let mut dice = dice(u64::MAX);
        for _ in 0..COMPOUNDS {
            let [a, b] = [dice.roll(500, known - 1), dice.roll(500, known - 1)];
            words.push(format!("{}{}", words[a], words[b]));
        }
        let mut sum = 0.0;
        let sums = (0..words.len()).map(|rank| {
            sum += 1.0 / (rank as f64 + 2.7);
            sum
        });
        let sums = sums.collect();
        let names = (0..200).map(|_| capital(&words[dice.roll(2_000, 6_000)]));
        let names = names.collect();
        let mut made = Self {
            words,
            sums,
            names,
            stock: Vec::new(),
        };
        let sessions = (0..STOCK).map(|n| made.session(u64::MAX - n));
        let texts = sessions.filter_map(|turns| Some(turns.into_iter().next()?.text));
        made.stock = texts.collect();
        Ok(made)
    }

    /// Returns the turns of a session.
    pub(super) fn session(&self, number: u64) -> Vec<Turn> {
        let mut dice = dice(number);
        let own: Vec<usize> = (0..30)
            .map(|_| dice.roll(300, self.words.len() - 1))
            .collect();
        let speakers = [0, 1].map(|_| &self.names[dice.roll(0, self.names.len() - 1)]);
        let begin = 1_600_000_000 + (number % 100_000_000) as i64 * APART;
        let turns = dice.roll(20, 40);
        (0..turns)
            .map(|turn| {
                let text = match dice.roll(0, 49) {
                    0 if !self.stock.is_empty() => {
                        self.stock[dice.roll(0, self.stock.len() - 1)].clone()
                    }
                    _ => self.text(&mut dice, &own),
                };
                let at = Timestamp::from_second(begin + turn as i64 * 30);
                Turn {
                    id: format!("s{number}/{turn}"),
                    session: format!("s{number}"),
                    at: at.unwrap_or_default(),
                    speaker: speakers[turn % 2].clone(),
                    text,
                }
            })
            .collect()
    }

    fn text(&self, dice: &mut Dice, own: &[usize]) -> String {
        let length = dice.roll(8, 40);
        let mut text = String::new();
        let mut begins = true;
        for at in 0..length {
            let word = match dice.roll(0, 99) {
                0..12 => &self.words[own[dice.roll(0, own.len() - 1)]],
                12 => &self.names[dice.roll(0, self.names.len() - 1)],
                _ => self.word(dice),
            };
            if at > 0 {
                text.push(' ');
            }
            match begins {
                true => text.push_str(&capital(word)),
                false => text.push_str(word),
            }
            begins = at + 1 == length || dice.roll(0, 11) == 0;
            if begins {
                text.push(if dice.roll(0, 7) == 0 { '?' } else { '.' });
            }
        }
        text
    }

    fn word(&self, dice: &mut Dice) -> &str {
        let most = self.sums.last().copied().unwrap_or_default();
        let place = dice.roll(0, 1 << 30) as f64 / f64::from(1 << 30) * most;
        let at = self.sums.partition_point(|sum| *sum < place);
        &self.words[at.min(self.words.len() - 1)]
    }

    /// Returns a query: some words of something that was said in one of the
    /// first so many sessions, in their order; and the turn.
    pub(super) fn query(&self, number: u64, sessions: u64) -> (String, Turn) {
        let mut dice = dice(number ^ 0x5eed_0000_0000);
        let mut turns = self.session(dice.roll(0, sessions as usize - 1) as u64);
        let turn = turns.swap_remove(dice.roll(0, turns.len() - 1));
        let words: Vec<&str> = turn.text.split([' ', '.', '?']).collect();
        let mut places: Vec<usize> = (0..words.len())
            .filter(|place| !words[*place].is_empty())
            .collect();
        let wanted = dice.roll(3, 8);
        while places.len() > wanted {
            places.remove(dice.roll(0, places.len() - 1));
        }
        let words: Vec<&str> = places.iter().map(|place| words[*place]).collect();
        (words.join(" "), turn)
    }

    /// Returns the first so many turns.
    pub(super) fn turns(&self, most: usize) -> impl Iterator<Item = Turn> + '_ {
        (0..).flat_map(|number| self.session(number)).take(most)
    }

    /// Returns the first so many turns as lines of JSON.
    pub(super) fn lines(&self, most: usize) -> impl BufRead + '_ {
        Feed {
            turns: Box::new(self.turns(most)),
            line: Vec::new(),
            read: 0,
        }
    }
}

/// Returns a session behind which there are no more than so many turns, however
/// long the sessions before it are.
pub(super) fn sessions_within(turns: usize) -> u64 {
    (turns as u64 / 40).max(1)
}

/// Lines that are made when they are read.
struct Feed<'m> {
    turns: Box<dyn Iterator<Item = Turn> + 'm>,
    line: Vec<u8>,
    read: usize,
}

impl Read for Feed<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Feed<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.read == self.line.len() {
            self.line.clear();
            self.read = 0;
            if let Some(turn) = self.turns.next() {
                self.line.extend(turn.line().bytes());
            }
        }
        Ok(&self.line[self.read..])
    }

    fn consume(&mut self, bytes: usize) {
        self.read += bytes;
    }
}

impl Turn {
    fn line(&self) -> String {
        let record = json!({
            "kind": "event",
            "id": self.id,
            "session_id": self.session,
            "timestamp": self.at,
            "type": "user_message",
            "actor": "user",
            "content": {"speaker": self.speaker, "text": self.text},
        });
        format!("{record}\n")
    }
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

/// Returns dice for something of that number. The generator is linear, so that
/// what belongs to neighbouring numbers would be alike if they were not mixed.
fn dice(number: u64) -> Dice {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Dice(mixed ^ (mixed >> 31))
}

/// Returns English words, frequent ones first.
fn vocabulary() -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct File {
        model: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        vocab: serde_json::Map<String, serde_json::Value>,
    }
    const TOKENIZER: &str =
        include_str!("../../../../crates/contexture-recall/assets/static-256/tokenizer.json");
    let file: File = serde_json::from_str(TOKENIZER).context("the vocabulary")?;
    let mut words: Vec<(u64, String)> = (file.model.vocab.into_iter())
        .filter(|(word, _)| word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase()))
        .filter_map(|(word, number)| Some((number.as_u64()?, word)))
        .collect();
    words.sort();
    Ok(words.into_iter().map(|(_, word)| word).collect())
}
