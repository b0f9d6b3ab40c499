//! [`Scores`]: the named parts of a score, such as words, vector and recency.
//!
//! Reports list them, so that a reader sees why a record was ranked where it
//! is.

use std::borrow::Cow;
use std::ops::Index;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The parts of a score by name, in the order of the names.
///
/// There are about ten parts for each of many candidates. They are in one piece
/// of memory, which is made, copied and freed faster than a tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scores(Vec<(Cow<'static, str>, f64)>);

impl Scores {
    /// Returns a score without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a score without parts that items share.
    pub fn none() -> Arc<Self> {
        // Threads that share one would pass its counter from core to core.
        thread_local! {
            static NONE: Arc<Scores> = Arc::default();
        }
        NONE.with(Arc::clone)
    }

    /// Returns a score without parts, with capacity for this many.
    pub fn with_capacity(parts: usize) -> Self {
        Self(Vec::with_capacity(parts))
    }

    /// Sets a part. One of the same name is replaced.
    pub fn insert(&mut self, name: Cow<'static, str>, value: f64) {
        match self.place(&name) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (name, value)),
        }
    }

    /// Returns a part.
    pub fn get(&self, name: &str) -> Option<&f64> {
        let at = self.place(name).ok()?;
        Some(&self.0[at].1)
    }

    /// Returns true when there is a part of that name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// Returns true when there are no parts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the parts in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }
}

impl<const N: usize> From<[(&'static str, f64); N]> for Scores {
    fn from(parts: [(&'static str, f64); N]) -> Self {
        let mut scores = Self::new();
        for (name, value) in parts {
            scores.insert(name.into(), value);
        }
        scores
    }
}

impl FromIterator<(&'static str, f64)> for Scores {
    /// Collects parts, each given once.
    fn from_iter<I: IntoIterator<Item = (&'static str, f64)>>(parts: I) -> Self {
        let parts = parts.into_iter();
        let mut parts: Vec<_> = parts.map(|(name, value)| (name.into(), value)).collect();
        let by_name = |a: &(Cow<'_, str>, f64), b: &(Cow<'_, str>, f64)| a.0.cmp(&b.0);
        if !parts.is_sorted_by(|a, b| by_name(a, b).is_lt()) {
            parts.sort_by(by_name);
        }
        Self(parts)
    }
}

impl Index<&str> for Scores {
    type Output = f64;

    /// Returns a part. Panics when there is none of that name.
    fn index(&self, name: &str) -> &f64 {
        match self.get(name) {
            Some(value) => value,
            None => panic!("there is no part `{name}`"),
        }
    }
}

impl Serialize for Scores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Scores {
    fn schema_name() -> Cow<'static, str> {
        <Parts as schemars::JsonSchema>::schema_name()
    }

    fn inline_schema() -> bool {
        <Parts as schemars::JsonSchema>::inline_schema()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <Parts as schemars::JsonSchema>::json_schema(generator)
    }
}

/// The JSON form of a score.
#[cfg(feature = "schema")]
type Parts = std::collections::BTreeMap<String, f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_the_order_of_their_names_each_once() {
        let mut scores = Scores::from([("words", 1.0), ("asks", -0.5), ("vector", 0.25)]);
        scores.insert("words".into(), 2.0);
        let json = serde_json::to_string(&scores).unwrap();
        assert_eq!(json, r#"{"asks":-0.5,"vector":0.25,"words":2.0}"#);
        assert_eq!(scores["vector"], 0.25);
        assert!(scores.contains_key("asks") && !scores.contains_key("run"));
        assert_eq!(scores.get("run"), None);
        assert!(Scores::new().is_empty());
    }
}
