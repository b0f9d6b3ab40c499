//! Archetypes: presets for one kind of application.
//!
//! An archetype has record types, extraction rules and a recall strategy.
//! Archetypes are data: the built-in ones and a user's are YAML files of the same
//! format.

use std::collections::BTreeMap;
use std::path::Path;

use contexture_extract::{EntityRule, Find, RelationRule, Rules};
use contexture_recall::{Allocation, Strategy};
use serde::Serialize;

use crate::error::{Error, not_one_of};
use crate::yaml::{Fields, Mark, Node, Source};

/// The built-in archetypes: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("coding", include_str!("../archetypes/coding.yml")),
    ("support", include_str!("../archetypes/support.yml")),
    ("research", include_str!("../archetypes/research.yml")),
    ("minimal", include_str!("../archetypes/minimal.yml")),
    ("recall", include_str!("../archetypes/recall.yml")),
];

/// A preset for one kind of application: record types, extraction rules and
/// recall strategy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Archetype {
    /// The name of the archetype.
    pub name: String,
    /// The purpose of the archetype, in one sentence.
    pub description: String,
    /// The expected types of events. Other types are accepted, too.
    pub event_types: Vec<String>,
    /// The types of entities that the rules extract.
    pub entity_types: Vec<String>,
    /// The types of relations that the rules extract.
    pub relation_types: Vec<String>,
    /// The extraction rules.
    pub rules: Rules,
    /// The recall strategy.
    pub strategy: Strategy,
}

/// The available archetypes.
#[derive(Debug, Clone)]
pub struct Archetypes {
    all: Vec<Archetype>,
}

impl Archetypes {
    /// Returns the built-in archetypes.
    pub fn built_in() -> Self {
        let read = |(name, text): &(&str, &str)| {
            Self::parse(&format!("{name} (built in)"), text)
                .expect("built-in archetypes are valid, as a test checks")
        };
        Self {
            all: BUILT_IN.iter().map(read).collect(),
        }
    }

    /// Returns the text of a built-in archetype, as a template for a custom
    /// one.
    pub fn text(name: &str) -> Option<&'static str> {
        let known = BUILT_IN.iter().find(|(known, _)| *known == name);
        known.map(|(_, text)| *text)
    }

    /// Returns the built-in archetypes and those of `files`, which are relative
    /// to `folder`. A custom archetype replaces a built-in one of the same
    /// name.
    pub fn load(folder: &Path, files: &[String]) -> Result<Self, Error> {
        let mut archetypes = Self::built_in();
        let mut from: BTreeMap<String, &str> = BTreeMap::new();
        for file in files {
            let text = std::fs::read_to_string(folder.join(file))
                .map_err(|error| Error::input(format!("cannot read archetype {file}: {error}")))?;
            let archetype = Self::parse(file, &text)?;
            if let Some(other) = from.insert(archetype.name.clone(), file) {
                let name = &archetype.name;
                return Err(Error::input(format!(
                    "the archetype `{name}` is defined in both {other} and {file}"
                )));
            }
            archetypes.all.retain(|known| known.name != archetype.name);
            archetypes.all.push(archetype);
        }
        Ok(archetypes)
    }

    /// Returns all archetypes: the built-in ones, then the custom ones.
    pub fn iter(&self) -> impl Iterator<Item = &Archetype> {
        self.all.iter()
    }

    /// Returns the archetype with this name.
    pub fn get(&self, name: &str) -> Result<&Archetype, Error> {
        let found = self.all.iter().find(|archetype| archetype.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.all.iter().map(|known| known.name.as_str()).collect();
            Error::input(not_one_of("archetype", name, &known))
                .advise("name a built-in archetype, or add your file to memory.archetypes")
        })
    }

    /// Parses an archetype. Errors contain `name` as the file, with line,
    /// column and field.
    pub fn parse(name: &str, text: &str) -> Result<Archetype, Error> {
        let source = Source { name };
        let documents = source.parse(text)?;
        let [root] = documents.as_slice() else {
            let start = Mark { line: 1, column: 1 };
            return Err(source.error(
                start,
                "",
                "an archetype must be one mapping with `archetype`",
            ));
        };
        let mut fields = Fields::of(source, "", root)?;
        let node = fields.require("archetype")?;
        let name = fields.as_text("archetype", node)?.0.trim().to_owned();
        if name.is_empty() {
            return Err(fields.error(node.mark, "archetype", "must be a name"));
        }
        let description = fields.text("description")?;
        let description = description.map_or("", |(text, _)| text.trim()).to_owned();
        let event_types = texts(&mut fields, "event_types")?;
        let entity_types = texts(&mut fields, "entity_types")?;
        let relation_types = texts(&mut fields, "relation_types")?;
        let rules = match fields.take("extract") {
            None => Rules::default(),
            Some(node) => read_rules(source, node, &entity_types, &relation_types)?,
        };
        let strategy = match fields.take("strategy") {
            None => Strategy::default(),
            Some(node) => read_strategy(source, node)?,
        };
        fields.finish(&[
            "archetype",
            "description",
            "event_types",
            "entity_types",
            "relation_types",
            "extract",
            "strategy",
        ])?;
        Ok(Archetype {
            name,
            description,
            event_types,
            entity_types,
            relation_types,
            rules,
            strategy,
        })
    }
}

/// Reads a list of words. A missing field is an empty list.
fn texts(fields: &mut Fields<'_>, key: &str) -> Result<Vec<String>, Error> {
    let nodes = fields.list(key)?;
    let mut found: Vec<String> = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        let (text, mark) = fields.as_text(&format!("{key}[{i}]"), node)?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return Err(fields.error(mark, &format!("{key}[{i}]"), "must not be empty"));
        }
        if found.contains(&text) {
            let twice = format!("`{text}` is already in this list");
            return Err(fields.error(mark, &format!("{key}[{i}]"), twice));
        }
        found.push(text);
    }
    Ok(found)
}

fn read_rules(
    source: Source<'_>,
    node: &Node,
    entity_types: &[String],
    relation_types: &[String],
) -> Result<Rules, Error> {
    let entity_types: Vec<&str> = entity_types.iter().map(String::as_str).collect();
    let relation_types: Vec<&str> = relation_types.iter().map(String::as_str).collect();
    let mut fields = Fields::of(source, "extract", node)?;
    let entities = fields
        .list("entities")?
        .iter()
        .enumerate()
        .map(|(i, node)| read_entity_rule(source, i, node, &entity_types))
        .collect::<Result<Vec<_>, _>>()?;
    let relations = fields
        .list("relations")?
        .iter()
        .enumerate()
        .map(|(i, node)| read_relation_rule(source, i, node, &entity_types, &relation_types))
        .collect::<Result<Vec<_>, _>>()?;
    let keywords = fields.whole("keywords", 0)?.unwrap_or(0);
    fields.finish(&["entities", "relations", "keywords"])?;
    Ok(Rules {
        entities,
        relations,
        keywords: usize::try_from(keywords).unwrap_or(usize::MAX),
    })
}

fn read_entity_rule(
    source: Source<'_>,
    i: usize,
    node: &Node,
    types: &[&str],
) -> Result<EntityRule, Error> {
    let mut fields = Fields::of(source, format!("extract.entities[{i}]"), node)?;
    let kind = required(&mut fields, node, "type", "entity type", types)?;
    let ways: Vec<&str> = Find::ALL.iter().map(|(name, _)| *name).collect();
    let find = fields.word("find", "way to find an entity", &ways)?;
    let find = find.and_then(|word| Find::ALL.iter().find(|(name, _)| *name == word));
    let pattern = fields.text("pattern")?;
    let rule = EntityRule {
        kind,
        find: find.map(|(_, find)| *find),
        pattern: pattern.map(|(text, _)| text.to_owned()),
    };
    rule.check().map_err(|why| {
        let mark = pattern.map_or(node.mark, |(_, mark)| mark);
        fields.error(mark, why.field, why.message)
    })?;
    fields.finish(&["type", "find", "pattern"])?;
    Ok(rule)
}

fn read_relation_rule(
    source: Source<'_>,
    i: usize,
    node: &Node,
    entity_types: &[&str],
    relation_types: &[&str],
) -> Result<RelationRule, Error> {
    let mut fields = Fields::of(source, format!("extract.relations[{i}]"), node)?;
    let kind = required(&mut fields, node, "type", "relation type", relation_types)?;
    let from = required(&mut fields, node, "from", "entity type", entity_types)?;
    let to = required(&mut fields, node, "to", "entity type", entity_types)?;
    let phrases = texts(&mut fields, "phrases")?;
    let phrases = phrases.iter().map(|phrase| phrase.to_lowercase()).collect();
    let ends = texts(&mut fields, "ends")?;
    let ends = ends.iter().map(|phrase| phrase.to_lowercase()).collect();
    let single = fields.truth("single")?.unwrap_or(false);
    fields.finish(&["type", "from", "to", "phrases", "ends", "single"])?;
    Ok(RelationRule {
        kind,
        from,
        to,
        phrases,
        ends,
        single,
    })
}

/// Reads a required field with one of the `known` words.
fn required(
    fields: &mut Fields<'_>,
    node: &Node,
    key: &str,
    what: &str,
    known: &[&str],
) -> Result<String, Error> {
    match fields.word(key, what, known)? {
        Some(word) => Ok(word.to_owned()),
        None => Err(fields.error(node.mark, key, "is missing")),
    }
}

fn read_strategy(source: Source<'_>, node: &Node) -> Result<Strategy, Error> {
    let mut fields = Fields::of(source, "strategy", node)?;
    let mut strategy = Strategy::default();
    // The position of each field, for errors that concern several fields.
    let mut marks: BTreeMap<&str, Mark> = BTreeMap::new();
    for (key, weight) in [
        ("recency_weight", &mut strategy.recency_weight),
        ("relevance_weight", &mut strategy.relevance_weight),
        ("salience_weight", &mut strategy.salience_weight),
    ] {
        if let Some((number, mark)) = fields.number(key)? {
            *weight = number;
            marks.insert(key, mark);
        }
    }
    for (key, choice) in [
        (
            "recency_only_when_asked",
            &mut strategy.recency_only_when_asked,
        ),
        ("include_failures", &mut strategy.include_failures),
        ("compress", &mut strategy.compress),
        ("boosts", &mut strategy.boosts),
    ] {
        if let Some(truth) = fields.truth(key)? {
            *choice = truth;
        }
    }
    if let Some((depth, mark)) = fields.whole_at("depth_limit", 0)? {
        strategy.depth_limit = u32::try_from(depth).unwrap_or(u32::MAX);
        marks.insert("depth_limit", mark);
    }
    if let Some(node) = fields.take("budget") {
        strategy.budget = read_budget(source, node)?;
        marks.insert("budget", node.mark);
    }
    strategy.check().map_err(|why| {
        let mark = marks.get(why.field).copied().unwrap_or(node.mark);
        fields.error(mark, why.field, why.message)
    })?;
    fields.finish(&[
        "recency_weight",
        "relevance_weight",
        "salience_weight",
        "recency_only_when_asked",
        "depth_limit",
        "include_failures",
        "compress",
        "boosts",
        "budget",
    ])?;
    Ok(strategy)
}

/// Reads percentages. A missing channel has 0.
fn read_budget(source: Source<'_>, node: &Node) -> Result<Allocation, Error> {
    let mut fields = Fields::of(source, "strategy.budget", node)?;
    let mut budget = Allocation::default();
    for (key, percent) in [
        ("recent", &mut budget.recent),
        ("semantic", &mut budget.semantic),
        ("entities", &mut budget.entities),
        ("relations", &mut budget.relations),
        ("patterns", &mut budget.patterns),
    ] {
        if let Some((number, _)) = fields.number(key)? {
            *percent = number;
        }
    }
    fields.finish(&["recent", "semantic", "entities", "relations", "patterns"])?;
    Ok(budget)
}
