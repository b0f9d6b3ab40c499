//! The result of an extraction: each entity and each relation once.

use std::collections::BTreeMap;

use contexture_words::name_key;

/// The maximum number of entities of a text.
pub const MOST_MENTIONS: usize = 64;

/// The maximum number of relations of a text.
pub const MOST_LINKS: usize = 64;

/// The entities, relations and keywords of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extracted {
    /// The entities in order of their first mention, each once.
    pub entities: Vec<Mention>,
    /// The relations between them, each once.
    pub relations: Vec<Link>,
    /// The keywords, in order of appearance.
    pub keywords: Vec<String>,
}

/// An entity that a text mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The type of the entity.
    pub kind: String,
    /// The name as it was first written.
    pub name: String,
}

/// A relation that a text states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The type of the relation.
    pub kind: String,
    /// The source: an index into [`Extracted::entities`].
    pub from: usize,
    /// The target: an index into [`Extracted::entities`].
    pub to: usize,
    /// Whether the text states that the relation has ended.
    pub ended: bool,
}

/// Entities and relations without duplicates.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) entities: Vec<Mention>,
    pub(crate) relations: Vec<Link>,
    places: BTreeMap<(String, String), usize>,
}

impl Gathered {
    pub(crate) fn mention(&mut self, kind: &str, name: &str) -> Option<usize> {
        let key = (kind.to_owned(), name_key(name));
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        if self.entities.len() >= MOST_MENTIONS {
            return None;
        }
        let place = self.entities.len();
        self.entities.push(Mention {
            kind: kind.to_owned(),
            name: name.split_whitespace().collect::<Vec<_>>().join(" "),
        });
        self.places.insert(key, place);
        Some(place)
    }

    pub(crate) fn link(&mut self, kind: &str, from: usize, to: usize, ended: bool) {
        let link = Link {
            kind: kind.to_owned(),
            from,
            to,
            ended,
        };
        let full = self.relations.len() >= MOST_LINKS;
        if from != to && !full && !self.relations.contains(&link) {
            self.relations.push(link);
        }
    }
}
