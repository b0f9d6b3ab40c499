//! [`Scores`]: the named parts of a score, such as words, vector and recency.
//!
//! Reports list them, so that a reader sees why a record was ranked where it
//! is.

use std::borrow::Cow;
use std::ops::Index;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use smallvec::SmallVec;

/// The parts of a score by name, in the order of the names.
#[derive(Debug, Clone, Default)]
pub struct Scores(Parts);

/// There are about ten parts for each of many candidates. They are in one piece
/// of memory, which is made, copied and freed faster than a tree.
#[derive(Debug, Clone)]
enum Parts {
    Named(Vec<(Cow<'static, str>, f64)>),
    // Some of the names of a list: a bit for each of them, and their values in the
    // order of the list. Values are copied, and names only read.
    Listed {
        names: &'static [&'static str],
        set: u32,
        values: SmallVec<[f64; USUAL]>,
    },
}

impl Default for Parts {
    fn default() -> Self {
        Parts::Named(Vec::new())
    }
}

/// The usual maximum number of parts of a score.
const USUAL: usize = 10;

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
        Self(Parts::Named(Vec::with_capacity(parts)))
    }

    /// Returns a score with some of at most 32 `names`, which are in alphabetical
    /// order. `set` has a bit for each of them, the lowest for the first name.
    /// `values` has the value of each set bit, in the same order.
    pub fn listed(names: &'static [&'static str], set: u32, values: &[f64]) -> Self {
        debug_assert!(names.is_sorted() && values.len() == set.count_ones() as usize);
        Self(Parts::Listed {
            names,
            set,
            values: SmallVec::from_slice(values),
        })
    }

    /// Sets a part. One of the same name is replaced.
    pub fn insert(&mut self, name: Cow<'static, str>, value: f64) {
        if let Parts::Listed { names, set, values } = &self.0 {
            let parts = listed(names, *set, values);
            let parts = parts.map(|(name, value)| (Cow::Borrowed(name), *value));
            self.0 = Parts::Named(parts.collect());
        }
        let Parts::Named(parts) = &mut self.0 else {
            return;
        };
        match parts.binary_search_by(|(other, _)| other.cmp(&name)) {
            Ok(at) => parts[at].1 = value,
            Err(at) => parts.insert(at, (name, value)),
        }
    }

    /// Returns a part.
    pub fn get(&self, name: &str) -> Option<&f64> {
        let mut parts = self.parts();
        let found = parts.find(|(other, _)| *other == name);
        found.map(|(_, value)| value)
    }

    /// Returns true when there is a part of that name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns true when there are no parts.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Parts::Named(parts) => parts.is_empty(),
            Parts::Listed { values, .. } => values.is_empty(),
        }
    }

    /// Returns the parts in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.parts().map(|(name, value)| (name, *value))
    }

    fn parts(&self) -> impl Iterator<Item = (&str, &f64)> {
        let (named, names, set, values) = match &self.0 {
            Parts::Named(parts) => (parts.as_slice(), &[][..], 0, &[][..]),
            Parts::Listed { names, set, values } => (&[][..], *names, *set, values.as_slice()),
        };
        let named = named.iter().map(|(name, value)| (&**name, value));
        let listed = listed(names, set, values);
        // The names of a list live longer than the score.
        let listed = listed.map(|(name, value)| -> (&str, &f64) { (name, value) });
        named.chain(listed)
    }
}

/// Returns the values of some names of a list.
fn listed<'v>(
    names: &'static [&'static str],
    mut set: u32,
    values: &'v [f64],
) -> impl Iterator<Item = (&'static str, &'v f64)> {
    values.iter().map(move |value| {
        let name = names[set.trailing_zeros() as usize];
        set &= set.wrapping_sub(1);
        (name, value)
    })
}

impl PartialEq for Scores {
    fn eq(&self, other: &Self) -> bool {
        self.parts().eq(other.parts())
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
        Self(Parts::Named(parts))
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
        <JsonForm as schemars::JsonSchema>::schema_name()
    }

    fn inline_schema() -> bool {
        <JsonForm as schemars::JsonSchema>::inline_schema()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <JsonForm as schemars::JsonSchema>::json_schema(generator)
    }
}

/// The JSON form of a score.
#[cfg(feature = "schema")]
type JsonForm = std::collections::BTreeMap<String, f64>;

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

    #[test]
    fn parts_of_a_list_are_those_whose_bits_are_set() {
        const NAMES: &[&str] = &["asks", "run", "vector", "words"];
        let mut listed = Scores::listed(NAMES, 0b1101, &[-0.5, 0.25, 1.0]);
        let named = Scores::from([("words", 1.0), ("asks", -0.5), ("vector", 0.25)]);
        assert_eq!(listed, named);
        let json = |scores: &Scores| serde_json::to_string(scores).unwrap();
        assert_eq!(json(&listed), json(&named));
        assert_eq!((listed["vector"], listed.get("run")), (0.25, None));
        listed.insert("run".into(), 2.0);
        let json = json(&listed);
        assert_eq!(json, r#"{"asks":-0.5,"run":2.0,"vector":0.25,"words":1.0}"#);
        assert!(!listed.is_empty() && Scores::listed(NAMES, 0, &[]).is_empty());
    }
}
