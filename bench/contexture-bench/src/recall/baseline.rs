//! What simpler means find, packed as lines `[date] Speaker: text`.

use std::collections::{BTreeMap, BTreeSet};

use contexture_recall::{Embedder as _, StaticModel};
use contexture_words::query_keywords;
use rusqlite::Connection;

use super::Turn;
use crate::counter;

/// The turns of a conversation, to be ranked by simpler means.
pub(super) struct Baselines<'t> {
    turns: &'t [Turn],
    // What the line of a turn counts, with its line end.
    tokens: Vec<u64>,
    words: FullText,
    vectors: Vec<Vec<f32>>,
}

impl<'t> Baselines<'t> {
    pub(super) fn new(turns: &'t [Turn]) -> anyhow::Result<Self> {
        let line = |turn: &Turn| {
            let day = turn.timestamp.strftime("%Y-%m-%d");
            let said = &turn.content;
            counter().count(&format!("[{day}] {}: {}\n", said.speaker, said.text))
        };
        let text = |turn: &'t Turn| turn.content.text.as_str();
        let texts: Vec<&str> = turns.iter().map(text).collect();
        Ok(Self {
            turns,
            tokens: turns.iter().map(line).collect(),
            words: FullText::new(Connection::open_in_memory()?, texts.iter().copied())?,
            vectors: StaticModel::built_in().embed(&texts)?,
        })
    }

    /// Returns turns by what each means makes of a query, best first.
    pub(super) fn rank(&self, query: &str) -> anyhow::Result<BTreeMap<&'static str, Vec<usize>>> {
        let recent = (0..self.turns.len()).rev().collect();
        let words = self.words.best(query, self.turns.len())?;
        let asked = StaticModel::built_in().embed(&[query])?;
        let mut vectors: Vec<(f32, usize)> = (self.vectors.iter().enumerate())
            .map(|(turn, vector)| (dot(vector, &asked[0]), turn))
            .collect();
        vectors.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        let vectors = vectors.into_iter().map(|(_, turn)| turn).collect();
        Ok(BTreeMap::from([
            ("recent", recent),
            ("words", words),
            ("vectors", vectors),
        ]))
    }

    /// Returns the ids of the turns that fit: the best, and behind one that does
    /// not fit the next that does.
    pub(super) fn pack(&self, ranking: &[usize], budget: u64) -> BTreeSet<&'t str> {
        let mut used = 0;
        let mut kept = BTreeSet::new();
        for &turn in ranking {
            if used + self.tokens[turn] <= budget {
                used += self.tokens[turn];
                kept.insert(self.turns[turn].id.as_str());
            }
        }
        kept
    }
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// SQLite's full text, with porter stemming: any word of a query, by BM25.
pub(super) struct FullText(Connection);

impl FullText {
    /// Indexes texts; the rowid of each is its place, from 1.
    pub(super) fn new(
        db: Connection,
        texts: impl Iterator<Item = impl AsRef<str>>,
    ) -> anyhow::Result<Self> {
        let this = Self(db);
        this.0.execute_batch(
            "CREATE VIRTUAL TABLE texts USING fts5(text, content = '', tokenize = 'porter unicode61')",
        )?;
        let transaction = this.0.unchecked_transaction()?;
        let mut insert = transaction.prepare("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?;
        for (place, text) in (1_i64..).zip(texts) {
            insert.execute((place, text.as_ref()))?;
        }
        drop(insert);
        transaction.commit()?;
        Ok(this)
    }

    /// Returns an index that was made before.
    pub(super) fn open(db: Connection) -> Self {
        Self(db)
    }

    /// Returns the best texts, by place from 0. Words that say nothing are left
    /// out, as ours are.
    pub(super) fn best(&self, query: &str, most: usize) -> anyhow::Result<Vec<usize>> {
        let words: Vec<String> = (query_keywords(query).iter())
            .map(|keyword| format!("\"{}\"", keyword.word.replace('"', "")))
            .collect();
        let mut select = self.0.prepare_cached(
            "SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rank LIMIT ?2",
        )?;
        let found = select.query_map((words.join(" OR "), most as i64), |row| {
            row.get::<_, i64>(0)
        })?;
        let mut places = Vec::new();
        for place in found {
            places.push(usize::try_from(place? - 1)?);
        }
        Ok(places)
    }
}
