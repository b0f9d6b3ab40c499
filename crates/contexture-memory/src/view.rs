//! [`View`]: everything about the records of a memory except their texts.
//!
//! It has the search index, the graph of entities, and the data that filters
//! use. The view is built from the store's changes and updated by new ones. It
//! depends only on the content of the store, not on the order in which records
//! were added.

mod file;
mod size;
mod slots;
mod times;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
// The map is never iterated, so its order has no effect.
#[allow(clippy::disallowed_types)]
use std::collections::HashMap;

use contexture_recall::{Entry, Index, Slot, Vector};
use contexture_store::{
    Change, EntitySketch, LaterVector, Outcome, PatternSketch, RecordKey, RecordKind,
    RelationSketch, Sketch, TextSketch,
};
use contexture_time::Interval;
use contexture_words::{name_key, query_keywords};

use self::slots::Slots;
use self::times::TimeOrder;
use crate::form;
use crate::later::Generation;
use crate::time::DAY;

pub(crate) use self::file::Opened;

/// The index, the entity graph and the filter data of a memory.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The sequence number of the last applied change.
    pub(crate) seq: u64,
    /// The generation of the view's vectors.
    pub(crate) generation: Generation,
    /// The sequence number of the last applied vector of the second generation.
    pub(crate) later: u64,
    pub(crate) index: Index,
    texts: Vec<Option<Text>>,
    // The entities that texts mention, text by text, and the number of entries
    // of deleted texts.
    mentions: Vec<RecordKey>,
    unused_mentions: usize,
    slots: Slots,
    pub(crate) entities: BTreeMap<RecordKey, EntitySketch>,
    names: BTreeMap<String, BTreeSet<RecordKey>>,
    ids: BTreeMap<String, RecordKey>,
    // Entities by descending salience, as bits, which sort like numbers from 0
    // to 1.
    salient: BTreeSet<(Reverse<u64>, RecordKey)>,
    pub(crate) relations: BTreeMap<RecordKey, RelationSketch>,
    ends: BTreeMap<String, BTreeSet<RecordKey>>,
    pub(crate) patterns: BTreeMap<RecordKey, Pattern>,
    symbols: Symbols,
    // Sessions by the time of their last event.
    sessions: BTreeSet<(i64, u32)>,
    last: BTreeMap<u32, i64>,
    // About the bytes of entities, relations and patterns.
    graph_bytes: usize,
    // Texts that only some identities may see.
    private: BTreeSet<Slot>,
    // Texts with a limited validity.
    limited: BTreeSet<Slot>,
    // Texts by their time.
    times: TimeOrder,
    // Texts with a standing instruction.
    instructions: BTreeSet<Slot>,
    // The number of texts of each speaker.
    speakers: BTreeMap<u32, usize>,
    /// Texts that must be indexed again.
    pub(crate) wordless: BTreeSet<RecordKey>,
    // The last changes: their sequence numbers and hashes of their content.
    witnesses: VecDeque<(u64, u64)>,
    // The number of the last preparation for a write, and the state at that
    // time.
    prepared: (u64, u64, u64),
}

/// The number of changes that a view remembers, so that its file can be
/// compared with the store.
const WITNESSES: usize = 64;

/// The data of an event or a chunk for filters and scores.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) kind: RecordKind,
    pub(crate) event_type: u32,
    session: OptionalName,
    speaker: OptionalName,
    pub(crate) at: i64,
    pub(crate) outcome: Option<Outcome>,
    /// A hash that is equal for texts with equal content.
    pub(crate) print: u64,
    /// A hash that is equal for texts that differ only in numbers and ids.
    pub(crate) template: u64,
    // The range of the text's entities in `View::mentions`.
    mentions: MentionRange,
    // Fields that most texts do not have.
    rare: Option<Box<Rare>>,
}

/// The number of a name, or none, in four bytes.
#[derive(Debug, Clone, Copy)]
struct OptionalName(u32);

impl OptionalName {
    /// No name has this number.
    const NONE: u32 = u32::MAX;

    fn new(name: Option<u32>) -> Self {
        Self(name.unwrap_or(Self::NONE))
    }

    fn get(self) -> Option<u32> {
        (self.0 != Self::NONE).then_some(self.0)
    }
}

/// A range of the array of mentions: the entities of one text.
#[derive(Debug, Clone, Copy, Default)]
struct MentionRange {
    start: u32,
    count: u32,
}

/// The maximum number of unused entries in the array of mentions, in addition
/// to the number of used ones.
const MOST_UNUSED: usize = 65_536;

/// Fields that only few texts have.
#[derive(Debug, Clone, Default, PartialEq)]
struct Rare {
    task: Option<u32>,
    valid: Validity,
    owner: [u64; 3],
    audience: Box<[u64]>,
    told: Box<[Interval]>,
}

impl Rare {
    /// Returns the fields in a box, or `None` if all are empty.
    fn boxed(self) -> Option<Box<Rare>> {
        (self != Rare::default()).then(|| Box::new(self))
    }
}

impl Text {
    /// Returns the number of the session.
    pub(crate) fn session(&self) -> Option<u32> {
        self.session.get()
    }

    /// Returns the number of the speaker.
    pub(crate) fn speaker(&self) -> Option<u32> {
        self.speaker.get()
    }

    /// Returns the task.
    pub(crate) fn task(&self) -> Option<u32> {
        self.rare.as_ref().and_then(|rare| rare.task)
    }

    /// Returns the validity of the text.
    pub(crate) fn valid(&self) -> Validity {
        self.rare
            .as_ref()
            .map_or(Validity::ALWAYS, |rare| rare.valid)
    }

    /// Returns the user, the agent and the source, as numbers; 0 for none.
    pub(crate) fn owner(&self) -> [u64; 3] {
        self.rare.as_ref().map_or([0; 3], |rare| rare.owner)
    }

    /// Returns the hashes of the names that may see the text. Empty: everyone.
    pub(crate) fn audience(&self) -> &[u64] {
        self.rare.as_ref().map_or(&[], |rare| &rare.audience)
    }

    /// Returns the times that the text mentions, other than its own.
    pub(crate) fn told(&self) -> &[Interval] {
        self.rare.as_ref().map_or(&[], |rare| &rare.told)
    }
}

/// A pattern, with the terms of its conditions.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) sketch: PatternSketch,
    /// The terms of each condition, in order.
    pub(crate) terms: Vec<Vec<u32>>,
}

impl Pattern {
    fn new(sketch: PatternSketch) -> Self {
        let terms = sketch.conditions.iter().map(|condition| {
            let words = query_keywords(&condition.value);
            words.iter().map(|word| word.id).collect()
        });
        Self {
            terms: terms.collect(),
            sketch,
        }
    }
}

/// A period of validity, in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    from: i64,
    to: i64,
}

impl Default for Validity {
    fn default() -> Self {
        Self::ALWAYS
    }
}

impl Validity {
    const ALWAYS: Validity = Validity {
        from: i64::MIN,
        to: i64::MAX,
    };

    pub(crate) fn new(from: Option<i64>, to: Option<i64>) -> Self {
        Self {
            from: from.unwrap_or(i64::MIN),
            to: to.unwrap_or(i64::MAX),
        }
    }

    /// Returns the end of the validity; `None` when it has none.
    pub(crate) fn end(self) -> Option<i64> {
        (self.to != i64::MAX).then_some(self.to)
    }

    pub(crate) fn holds(self, now: i64) -> bool {
        self.from <= now && now < self.to
    }
}

/// Recurring names, as numbers.
#[derive(Debug, Default)]
struct Symbols {
    #[allow(clippy::disallowed_types)]
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Symbols {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }
}

impl View {
    /// Returns an empty view for vectors of a generation with this many
    /// dimensions. `later` is the number of a vector of the second generation:
    /// added texts have vectors up to it.
    pub(crate) fn new((generation, dimensions): (Generation, usize), later: u64) -> Self {
        Self {
            generation,
            later,
            index: Index::new(dimensions),
            ..Self::default()
        }
    }

    /// Returns the generation of the vectors, and their number of dimensions.
    pub(crate) fn shape(&self) -> (Generation, usize) {
        (self.generation, self.index.dimensions())
    }

    /// Adds vectors of the second generation.
    pub(crate) fn put_vectors(&mut self, vectors: Vec<LaterVector>) {
        let dimensions = self.index.dimensions();
        for LaterVector { seq, key, vector } in vectors {
            self.later = self.later.max(seq);
            if let Some(slot) = self.slots.get(key) {
                let vector = Vector::from_bytes(&vector, dimensions);
                self.index.set_vector(slot, vector.as_ref());
            }
        }
    }

    /// Applies changes to the view.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        let mut touched = BTreeSet::new();
        self.remember(&changes);
        for change in &changes {
            self.remove(change.key, &mut touched);
        }
        self.index.settle();
        for change in changes {
            self.seq = self.seq.max(change.seq);
            match change.sketch {
                Some(Sketch::Text(text)) => self.add_text(change.key, &text, &mut touched),
                Some(Sketch::Entity(entity)) => self.add_entity(change.key, entity),
                Some(Sketch::Relation(relation)) => self.add_relation(change.key, relation),
                Some(Sketch::Pattern(pattern)) => self.add_pattern(change.key, pattern),
                None => {}
            }
        }
        for session in touched {
            self.refresh(session);
        }
        let used = self.mentions.len() - self.unused_mentions;
        if self.unused_mentions > used + MOST_UNUSED {
            self.pack_mentions();
        }
    }

    /// Removes the mentions of deleted texts.
    fn pack_mentions(&mut self) {
        let all = std::mem::take(&mut self.mentions);
        for text in self.texts.iter_mut().flatten() {
            let MentionRange { start, count } = text.mentions;
            let own = &all[start as usize..(start + count) as usize];
            text.mentions.start = self.mentions.len() as u32;
            self.mentions.extend_from_slice(own);
        }
        self.unused_mentions = 0;
    }

    /// Returns the entities that a text mentions.
    pub(crate) fn mentions(&self, text: &Text) -> &[RecordKey] {
        let MentionRange { start, count } = text.mentions;
        &self.mentions[start as usize..(start + count) as usize]
    }

    fn add_text(&mut self, key: RecordKey, text: &TextSketch, touched: &mut BTreeSet<u32>) {
        let words = text.words.as_deref().and_then(form::Packed::from_bytes);
        if words.is_none() {
            self.wordless.insert(key);
        }
        let form::Packed {
            words,
            audience,
            instructs,
            told,
            template,
            owner,
        } = words.unwrap_or_default();
        let vector = match self.generation {
            Generation::First => text.vector.as_deref(),
            Generation::Later => text.later.as_deref(),
        };
        let dimensions = self.index.dimensions();
        let vector = vector.and_then(|bytes| Vector::from_bytes(bytes, dimensions));
        let slot = self.index.add(&Entry {
            key,
            words: &words,
            vector: vector.as_ref(),
            run: text.session.as_deref(),
            position: match text.kind {
                RecordKind::Chunk => (0, text.index),
                _ => (text.at, 0),
            },
        });
        let symbols = &mut self.symbols;
        let mut symbol = |name: &Option<String>| name.as_deref().map(|name| symbols.number(name));
        let known = Text {
            kind: text.kind,
            session: OptionalName::new(symbol(&text.session)),
            speaker: OptionalName::new(symbol(&text.speaker)),
            rare: Rare {
                task: symbol(&text.task),
                valid: Validity::new(text.valid_from, text.valid_to),
                owner,
                audience,
                told,
            }
            .boxed(),
            event_type: self.symbols.number(&text.event_type),
            at: text.at,
            outcome: text.outcome,
            print: words.print,
            template,
            mentions: MentionRange {
                start: self.mentions.len() as u32,
                count: text.mentions.len() as u32,
            },
        };
        self.mentions.extend_from_slice(&text.mentions);
        if let Some(speaker) = known.speaker() {
            *self.speakers.entry(speaker).or_default() += 1;
        }
        if known.kind == RecordKind::Event {
            touched.extend(known.session());
        }
        let at = slot as usize;
        if self.texts.len() <= at {
            self.texts.resize(at + 1, None);
        }
        if !known.audience().is_empty() {
            self.private.insert(slot);
        }
        if known.valid() != Validity::ALWAYS {
            self.limited.insert(slot);
        }
        if instructs {
            self.instructions.insert(slot);
        }
        self.times.insert(known.at, slot);
        self.texts[at] = Some(known);
        self.slots.insert(key, slot);
    }

    fn add_pattern(&mut self, key: RecordKey, pattern: PatternSketch) {
        self.graph_bytes += size::pattern(&pattern);
        self.patterns.insert(key, Pattern::new(pattern));
    }

    fn add_entity(&mut self, key: RecordKey, entity: EntitySketch) {
        self.graph_bytes += size::entity(&entity);
        for name in &entity.names {
            self.names.entry(name.clone()).or_default().insert(key);
        }
        self.ids.insert(entity.id.clone(), key);
        let salience = Reverse(Self::salience(&entity).to_bits());
        self.salient.insert((salience, key));
        self.entities.insert(key, entity);
    }

    fn add_relation(&mut self, key: RecordKey, relation: RelationSketch) {
        self.graph_bytes += size::relation(&relation);
        for end in [&relation.source_id, &relation.target_id] {
            self.ends.entry(end.clone()).or_default().insert(key);
            self.ends.entry(name_key(end)).or_default().insert(key);
        }
        self.relations.insert(key, relation);
    }

    fn remove(&mut self, key: RecordKey, touched: &mut BTreeSet<u32>) {
        self.wordless.remove(&key);
        if let Some(slot) = self.slots.remove(key) {
            self.index.remove(slot);
            self.limited.remove(&slot);
            self.private.remove(&slot);
            self.instructions.remove(&slot);
            if let Some(text) = self.texts[slot as usize].take() {
                self.unused_mentions += text.mentions.count as usize;
                self.times.remove(text.at, slot);
                touched.extend(text.session());
                let speaker = text
                    .speaker()
                    .and_then(|s| Some((s, self.speakers.get_mut(&s)?)));
                if let Some((speaker, texts)) = speaker {
                    *texts -= 1;
                    if *texts == 0 {
                        self.speakers.remove(&speaker);
                    }
                }
            }
        } else if let Some(entity) = self.entities.remove(&key) {
            self.graph_bytes -= size::entity(&entity);
            for name in &entity.names {
                drop_from(&mut self.names, name, key);
            }
            self.ids.remove(&entity.id);
            let salience = Reverse(Self::salience(&entity).to_bits());
            self.salient.remove(&(salience, key));
        } else if let Some(relation) = self.relations.remove(&key) {
            self.graph_bytes -= size::relation(&relation);
            for end in [&relation.source_id, &relation.target_id] {
                drop_from(&mut self.ends, end, key);
                drop_from(&mut self.ends, &name_key(end), key);
            }
        } else if let Some(pattern) = self.patterns.remove(&key) {
            self.graph_bytes -= size::pattern(&pattern.sketch);
        }
    }

    /// Updates the time of a session's last event.
    fn refresh(&mut self, session: u32) {
        if let Some(last) = self.last.remove(&session) {
            self.sessions.remove(&(last, session));
        }
        let run = self.index.run(&self.symbols.names[session as usize]);
        let mut latest = run.iter().rev().filter_map(|&slot| self.text(slot));
        let last = latest.find(|text| text.kind == RecordKind::Event);
        if let Some(at) = last.map(|text| text.at) {
            self.last.insert(session, at);
            self.sessions.insert((at, session));
        }
    }

    /// Returns the texts that only some identities may see.
    pub(crate) fn private(&self) -> impl Iterator<Item = Slot> + '_ {
        self.private.iter().copied()
    }

    /// Returns the texts with a limited validity.
    pub(crate) fn limited(&self) -> impl Iterator<Item = Slot> + '_ {
        self.limited.iter().copied()
    }

    /// Returns the texts with a standing instruction.
    pub(crate) fn instructions(&self) -> impl Iterator<Item = Slot> + '_ {
        self.instructions.iter().copied()
    }

    /// Returns all texts, the latest first. Texts dated more than a day after
    /// `now` come last: a wrong date does not make a text the newest.
    pub(crate) fn latest(&self, now: i64) -> impl Iterator<Item = Slot> + '_ {
        let end = now.saturating_add(DAY);
        self.times.until(end).chain(self.times.after(end))
    }

    /// Returns the texts whose type is one of these.
    pub(crate) fn slots_of(&self, is_one: impl Fn(&str) -> bool) -> Vec<Slot> {
        let types: Vec<bool> = self.symbols.names.iter().map(|name| is_one(name)).collect();
        let texts = (0..).zip(&self.texts);
        let found = texts.filter(|(_, text)| {
            let event_type = text.as_ref().map(|text| text.event_type as usize);
            event_type.is_some_and(|event_type| types[event_type])
        });
        found.map(|(slot, _)| slot).collect()
    }

    /// Returns the texts that are not valid now.
    pub(crate) fn not_holding(&self, now: i64) -> Vec<Slot> {
        let holds = |slot: &Slot| self.text(*slot).is_some_and(|text| text.valid().holds(now));
        let limited = self.limited.iter().copied();
        limited.filter(|slot| !holds(slot)).collect()
    }

    /// Returns all texts with their keys.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (RecordKey, &Text)> + '_ {
        let texts = (0..).zip(&self.texts);
        texts.filter_map(|(slot, text)| Some((self.index.key(slot)?, text.as_ref()?)))
    }

    /// Returns the text in a slot.
    pub(crate) fn text(&self, slot: Slot) -> Option<&Text> {
        self.texts.get(slot as usize)?.as_ref()
    }

    /// Returns the slot of a text.
    pub(crate) fn slot(&self, key: RecordKey) -> Option<Slot> {
        self.slots.get(key)
    }

    /// Returns the number of a name, if the view has it.
    pub(crate) fn symbol(&self, name: &str) -> Option<u32> {
        self.symbols.numbers.get(name).copied()
    }

    /// Returns the name with this number.
    pub(crate) fn name_of(&self, symbol: u32) -> &str {
        &self.symbols.names[symbol as usize]
    }

    /// Returns the number of a speaker, if the view has texts of this speaker.
    pub(crate) fn speaker(&self, name: &str) -> Option<u32> {
        let speaker = self.symbol(name)?;
        self.speakers.contains_key(&speaker).then_some(speaker)
    }

    /// Returns the latest sessions except `but`, latest first.
    pub(crate) fn latest_sessions(&self, but: Option<u32>, most: usize) -> Vec<u32> {
        let sessions = self.sessions.iter().rev().map(|(_, session)| *session);
        sessions.filter(|s| Some(*s) != but).take(most).collect()
    }

    /// Returns the entities by descending salience.
    pub(crate) fn salient(&self) -> impl Iterator<Item = RecordKey> + '_ {
        self.salient.iter().map(|(_, key)| *key)
    }

    /// Returns the salience of an entity: the recorded value, or one that grows
    /// with its mentions.
    pub(crate) fn salience(entity: &EntitySketch) -> f64 {
        let mentions = entity.mentions as f64;
        entity.salience.unwrap_or(mentions / (mentions + 10.0))
    }

    /// Returns the entities with this normalised name or alias.
    pub(crate) fn entities_named(&self, name: &str) -> impl Iterator<Item = RecordKey> + '_ {
        self.names.get(name).into_iter().flatten().copied()
    }

    /// Returns the entity at an end of a relation.
    pub(crate) fn entity_at(&self, end: &str) -> Option<RecordKey> {
        // Of several entities with this name, one without an end of validity.
        let ended = |key: &RecordKey| self.entities[key].valid_to.is_some();
        let by_name = || self.entities_named(&name_key(end)).min_by_key(ended);
        self.ids.get(end).copied().or_else(by_name)
    }

    /// Returns the relations of an entity.
    pub(crate) fn relations_of(&self, entity: RecordKey) -> BTreeSet<RecordKey> {
        let Some(known) = self.entities.get(&entity) else {
            return BTreeSet::new();
        };
        let ends = std::iter::once(&known.id).chain(&known.names);
        let found = ends.filter_map(|end| self.ends.get(end)).flatten().copied();
        found
            .filter(|key| {
                let relation = &self.relations[key];
                [&relation.source_id, &relation.target_id]
                    .into_iter()
                    .any(|end| self.entity_at(end) == Some(entity))
            })
            .collect()
    }
}

fn drop_from(map: &mut BTreeMap<String, BTreeSet<RecordKey>>, name: &str, key: RecordKey) {
    if let Some(keys) = map.get_mut(name) {
        keys.remove(&key);
        if keys.is_empty() {
            map.remove(name);
        }
    }
}
