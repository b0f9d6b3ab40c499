//! A view in a file, so that a new process does not read the whole store.
//!
//! The file is derived: it contains nothing that the store does not have, and a
//! view from the file is updated with the store's changes. It is used only when
//! its last changes equal those of the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture_recall::index::{packed_names, unpacked_names};
use contexture_recall::sections::{PART, SectionFile, SectionWriter, damaged};
use contexture_recall::{Index, Slot};
use contexture_store::{
    Change, Condition, EmbedderInfo, EntitySketch, Outcome, PatternSketch, RecordKey, RecordKind,
    RecordScope, RelationSketch, Sketch,
};
use contexture_time::Interval;
use contexture_words::ANALYSER;
use serde::{Deserialize, Serialize};

use super::slots::Slots;
use super::times::TimeOrder;
use super::{MentionRange, OptionalName, Pattern, Rare, Symbols, Text, Validity, View, WITNESSES};
use crate::later::Generation;

/// The kind and version of the file. A file of another version is not read.
const KIND: [u8; 8] = *b"ctxidx02";

/// The names of the arrays.
mod section {
    pub(super) const META: u32 = 1_000;
    pub(super) const AT: u32 = 1_001;
    pub(super) const PRINTS: u32 = 1_002;
    pub(super) const TEMPLATES: u32 = 1_003;
    pub(super) const KINDS: u32 = 1_004;
    pub(super) const TYPES: u32 = 1_005;
    pub(super) const SESSIONS: u32 = 1_006;
    pub(super) const SPEAKERS: u32 = 1_007;
    pub(super) const MENTION_COUNTS: u32 = 1_008;
    pub(super) const MENTIONS: u32 = 1_009;
    pub(super) const RARE_SLOTS: u32 = 1_010;
    pub(super) const RARE: u32 = 1_011;
    pub(super) const INSTRUCTIONS: u32 = 1_012;
    pub(super) const SYMBOLS: u32 = 1_013;
    pub(super) const GRAPH: u32 = 1_014;
}

/// The metadata of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    // The version of the rules for words.
    rules: u32,
    seq: u64,
    later: u64,
    second: bool,
    embedder: Option<EmbedderInfo>,
    witnesses: Vec<(u64, u64)>,
}

/// A file of a view whose header was read.
pub(crate) struct Opened {
    file: SectionFile,
    meta: Meta,
}

impl Opened {
    /// Opens a file. Fails when it is damaged or of another version.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let file = SectionFile::open(file, KIND)?;
        let meta = serde_json::from_slice(&file.array::<u8>(section::META)?)?;
        Ok(Self { file, meta })
    }

    /// Returns true when the file was written with these word rules, and with
    /// vectors of this generation and embedder.
    pub(crate) fn fits(&self, generation: Generation, embedder: Option<&EmbedderInfo>) -> bool {
        let second = generation == Generation::Later;
        let Meta { rules, .. } = self.meta;
        rules == ANALYSER && self.meta.second == second && self.meta.embedder.as_ref() == embedder
    }

    /// Returns the sequence number before the first change that is compared
    /// with the store, and that of the last change in the file.
    pub(crate) fn compared(&self) -> Option<(u64, u64)> {
        let (first, _) = self.meta.witnesses.first()?;
        Some((first.saturating_sub(1), self.meta.seq))
    }

    /// Returns true when the store's changes equal the compared changes of the
    /// file.
    pub(crate) fn agrees(&self, changes: &[Change]) -> bool {
        let known: BTreeMap<u64, u64> = self.meta.witnesses.iter().copied().collect();
        let mut own = changes.iter().take_while(|one| one.seq <= self.meta.seq);
        let mut found = false;
        let agree = own.all(|change| {
            found = true;
            known.get(&change.seq) == Some(&print(change))
        });
        agree && found
    }

    /// Reads the view.
    pub(crate) fn view(&self) -> io::Result<View> {
        View::read(self)
    }

    /// Replaces the vectors of a view by those of the file; see
    /// [`Index::leave_vectors_to`].
    pub(crate) fn keep_vectors_of(
        &self,
        view: &mut View,
        slots: usize,
        changed: usize,
    ) -> io::Result<()> {
        view.index.leave_vectors_to(&self.file, slots, changed)
    }
}

/// Returns a hash of a change. Vectors are not included: those of the second
/// generation come later.
fn print(change: &Change) -> u64 {
    let said = match &change.sketch {
        Some(Sketch::Text(text)) => {
            let words = text.words.as_deref().unwrap_or_default();
            let about = (change.key, &text.event_type, &text.session, text.at);
            let mut said = format!("{about:?} {:?}", (text.valid_to, &text.mentions)).into_bytes();
            said.extend_from_slice(words);
            said
        }
        other => format!("{} {other:?}", change.key).into_bytes(),
    };
    let hash = contexture_core::ContentHash::of(&said);
    let first = hash.as_bytes().first_chunk().copied();
    u64::from_le_bytes(first.unwrap_or_default())
}

impl View {
    /// Stores the hashes of the last changes.
    pub(super) fn remember(&mut self, changes: &[Change]) {
        let last = &changes[changes.len().saturating_sub(WITNESSES)..];
        for change in last {
            if self.witnesses.len() == WITNESSES {
                self.witnesses.pop_front();
            }
            self.witnesses.push_back((change.seq, print(change)));
        }
    }

    /// Prepares the view for a write; see [`Index::prepare_to_write`]. Returns
    /// a unique number of the preparation.
    pub(crate) fn prepare_to_write(&mut self) -> u64 {
        static PREPARED: AtomicU64 = AtomicU64::new(1);
        self.index.prepare_to_write();
        let number = PREPARED.fetch_add(1, Ordering::Relaxed);
        self.prepared = (number, self.seq, self.later);
        number
    }

    /// Returns the number of the last preparation; 0 before the first.
    pub(crate) fn prepared(&self) -> u64 {
        self.prepared.0
    }

    /// Returns true when the view has not changed since a preparation.
    pub(crate) fn is_as_prepared(&self, number: u64) -> bool {
        self.prepared == (number, self.seq, self.later)
    }

    /// Writes the view with vectors of an embedder. The view must be
    /// [prepared](View::prepare_to_write) and unchanged since.
    pub(crate) fn write(&self, file: File, embedder: Option<&EmbedderInfo>) -> io::Result<File> {
        let mut file = SectionWriter::new(file, KIND)?;
        let meta = Meta {
            rules: ANALYSER,
            seq: self.seq,
            later: self.later,
            second: self.generation == Generation::Later,
            embedder: embedder.cloned(),
            witnesses: self.witnesses.iter().copied().collect(),
        };
        file.array(section::META, &serde_json::to_vec(&meta)?)?;
        self.write_texts(&mut file)?;
        file.array(section::GRAPH, &self.graph())?;
        self.index.write(&mut file)?;
        file.finish()
    }

    fn write_texts(&self, file: &mut SectionWriter) -> io::Result<()> {
        // Only names in use are written, so that no deleted name is.
        let mut numbers = vec![0_u32; self.symbols.names.len()];
        for text in self.texts.iter().flatten() {
            let named = [text.session(), text.speaker(), text.task()];
            for symbol in named.into_iter().flatten().chain([text.event_type]) {
                numbers[symbol as usize] = 1;
            }
        }
        let mut names: Vec<Box<str>> = Vec::new();
        for (number, name) in numbers.iter_mut().zip(&self.symbols.names) {
            if *number > 0 {
                names.push(name.clone());
                *number = names.len() as u32;
            }
        }
        file.array(section::SYMBOLS, &packed_names(&names))?;
        let number = |symbol: Option<u32>| symbol.map_or(0, |symbol| numbers[symbol as usize]);
        let slots = self.index.slots();
        let texts = || (0..slots).map(|at| self.texts.get(at).and_then(Option::as_ref));
        let of = |value: &dyn Fn(&Text) -> i64| -> Vec<i64> {
            texts().map(|text| text.map_or(0, value)).collect()
        };
        file.array(section::AT, &of(&|text| text.at))?;
        file.array(section::PRINTS, &of(&|text| text.print as i64))?;
        file.array(section::TEMPLATES, &of(&|text| text.template as i64))?;
        let kinds: Vec<u8> = texts().map(|text| text.map_or(0, kind)).collect();
        file.array(section::KINDS, &kinds)?;
        let of = |value: &dyn Fn(&Text) -> u32| -> Vec<u32> {
            texts().map(|text| text.map_or(0, value)).collect()
        };
        file.array(section::TYPES, &of(&|text| number(Some(text.event_type))))?;
        file.array(section::SESSIONS, &of(&|text| number(text.session())))?;
        file.array(section::SPEAKERS, &of(&|text| number(text.speaker())))?;
        let counts = of(&|text| text.mentions.count);
        file.array(section::MENTION_COUNTS, &counts)?;
        let mentions: Vec<&[RecordKey]> =
            texts().flatten().map(|text| self.mentions(text)).collect();
        file.array(section::MENTIONS, &mentions.concat())?;
        let mut rare: Vec<i64> = Vec::new();
        let mut rare_slots: Vec<Slot> = Vec::new();
        for (slot, text) in (0..).zip(texts()) {
            let Some(Rare {
                task,
                valid,
                owner,
                audience,
                told,
            }) = text.and_then(|text| text.rare.as_deref())
            else {
                continue;
            };
            rare_slots.push(slot);
            rare.extend([i64::from(number(*task)), valid.from, valid.to]);
            rare.extend(owner.map(|name| name as i64));
            rare.push(audience.len() as i64);
            rare.extend(audience.iter().map(|who| *who as i64));
            rare.push(told.len() as i64);
            rare.extend(told.iter().flat_map(|one| [one.from, one.to]));
        }
        file.array(section::RARE_SLOTS, &rare_slots)?;
        file.array(section::RARE, &rare)?;
        let instructions: Vec<Slot> = self.instructions.iter().copied().collect();
        file.array(section::INSTRUCTIONS, &instructions)
    }

    fn read(opened: &Opened) -> io::Result<Self> {
        let Opened { file, meta } = opened;
        let (index, graph, texts) = std::thread::scope(|threads| {
            let index = threads.spawn(|| Index::read(file));
            let texts = Texts::read(file);
            let graph = read_graph(file);
            (index.join(), graph, texts)
        });
        let index = index.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let texts = texts?;
        let mut view = View {
            seq: meta.seq,
            later: meta.later,
            generation: match meta.second {
                true => Generation::Later,
                false => Generation::First,
            },
            witnesses: VecDeque::from(meta.witnesses.clone()),
            symbols: texts.symbols,
            mentions: texts.mentions,
            ..graph?
        };
        view.take_texts(index, texts.texts)?;
        let known = |slot: &Slot| view.text(*slot).is_some();
        if !texts.instructions.iter().all(known) {
            return Err(damaged("the instructions do not fit together"));
        }
        view.instructions = texts.instructions;
        Ok(view)
    }

    /// Sets an index, and the data of each of its texts.
    fn take_texts(&mut self, index: Index, mut texts: Vec<Option<Text>>) -> io::Result<()> {
        if texts.len() != index.slots() {
            return Err(damaged("the texts do not fit the index"));
        }
        let mut speakers = vec![0_usize; self.symbols.names.len()];
        let mut sessions = vec![false; self.symbols.names.len()];
        for (slot, known) in (0..).zip(&mut texts) {
            if index.key(slot).is_none() {
                *known = None;
            }
            let Some(text) = known else { continue };
            if let Some(speaker) = text.speaker() {
                speakers[speaker as usize] += 1;
            }
            if let Some(session) = text.session().filter(|_| text.kind == RecordKind::Event) {
                sessions[session as usize] = true;
            }
            if !text.audience().is_empty() {
                self.private.insert(slot);
            }
            if text.valid() != Validity::ALWAYS {
                self.limited.insert(slot);
            }
        }
        let slots = (0..).zip(&texts).filter(|(_, text)| text.is_some());
        let by_key = slots.filter_map(|(slot, _)| Some((index.key(slot)?, slot)));
        self.slots = match by_key.clone().is_sorted() {
            true => Slots::sorted(index.len(), by_key),
            false => {
                let mut by_key: Vec<(RecordKey, Slot)> = by_key.collect();
                by_key.sort_unstable();
                Slots::sorted(by_key.len(), by_key.into_iter())
            }
        };
        let by_time = (0..).zip(&texts);
        let by_time = by_time.filter_map(|(slot, text)| Some((text.as_ref()?.at, slot)));
        self.times = match by_time.clone().is_sorted() {
            true => TimeOrder::sorted(index.len(), by_time),
            false => TimeOrder::of(by_time.collect()),
        };
        let used = (0..).zip(speakers).filter(|(_, texts)| *texts > 0);
        self.speakers = used.collect();
        self.texts = texts;
        self.index = index;
        for (session, _) in (0..).zip(sessions).filter(|(_, any)| *any) {
            self.refresh(session);
        }
        Ok(())
    }

    /// Returns entities, relations and patterns as bytes.
    fn graph(&self) -> Vec<u8> {
        let mut bytes = Bytes::default();
        bytes.number(self.entities.len() as i64);
        for (key, entity) in &self.entities {
            bytes.number(*key);
            bytes.text(&entity.id);
            bytes.text(&entity.entity_type);
            bytes.number(entity.names.len() as i64);
            entity.names.iter().for_each(|name| bytes.text(name));
            bytes.number(entity.mentions as i64);
            bytes.maybe(entity.salience.map(|salience| salience.to_bits() as i64));
            bytes.number(entity.confidence.to_bits() as i64);
            bytes.number(entity.texts as i64);
            bytes.number(i64::from(entity.given));
            bytes.maybe(entity.valid_from);
            bytes.maybe(entity.valid_to);
            bytes.owner(&entity.owner);
        }
        bytes.number(self.relations.len() as i64);
        for (key, relation) in &self.relations {
            bytes.number(*key);
            bytes.text(&relation.relation_type);
            bytes.text(&relation.source_id);
            bytes.text(&relation.target_id);
            bytes.number(relation.weight.to_bits() as i64);
            bytes.number(relation.derived_from.len() as i64);
            relation
                .derived_from
                .iter()
                .for_each(|key| bytes.number(*key));
            bytes.number(relation.at);
            bytes.maybe(relation.valid_from);
            bytes.maybe(relation.valid_to);
            bytes.owner(&relation.owner);
        }
        bytes.number(self.patterns.len() as i64);
        for (key, Pattern { sketch, .. }) in &self.patterns {
            bytes.number(*key);
            let conditions = serde_json::to_string(&sketch.conditions);
            bytes.text(&conditions.unwrap_or_default());
            bytes.number(sketch.applications as i64);
            bytes.number(sketch.successes as i64);
            bytes.maybe_text(sketch.scope.as_deref());
            bytes.maybe(sketch.valid_from);
            bytes.maybe(sketch.valid_to);
            bytes.owner(&sketch.owner);
        }
        bytes.0
    }
}

/// Reads entities, relations and patterns into a view without texts.
fn read_graph(file: &SectionFile) -> io::Result<View> {
    let bytes: Vec<u8> = file.array(section::GRAPH)?;
    let mut from = Reader(&bytes);
    let mut view = View::default();
    for _ in 0..from.number()? {
        let key = from.number()?;
        let entity = EntitySketch {
            id: from.text()?,
            entity_type: from.text()?,
            names: from.many(Reader::text)?,
            mentions: from.number()? as u64,
            salience: from.maybe()?.map(|bits| f64::from_bits(bits as u64)),
            confidence: f64::from_bits(from.number()? as u64),
            texts: from.number()? as u64,
            given: from.number()? != 0,
            valid_from: from.maybe()?,
            valid_to: from.maybe()?,
            owner: from.owner()?,
        };
        view.add_entity(key, entity);
    }
    for _ in 0..from.number()? {
        let key = from.number()?;
        let relation = RelationSketch {
            relation_type: from.text()?,
            source_id: from.text()?,
            target_id: from.text()?,
            weight: f64::from_bits(from.number()? as u64),
            derived_from: from.many(Reader::number)?,
            at: from.number()?,
            valid_from: from.maybe()?,
            valid_to: from.maybe()?,
            owner: from.owner()?,
        };
        view.add_relation(key, relation);
    }
    for _ in 0..from.number()? {
        let key = from.number()?;
        let conditions: Vec<Condition> = serde_json::from_str(&from.text()?)?;
        let pattern = PatternSketch {
            conditions,
            applications: from.number()? as u64,
            successes: from.number()? as u64,
            scope: from.maybe_text()?,
            valid_from: from.maybe()?,
            valid_to: from.maybe()?,
            owner: from.owner()?,
        };
        view.add_pattern(key, pattern);
    }
    Ok(view)
}

/// Returns the kind and the outcome of a text as a byte.
fn kind(text: &Text) -> u8 {
    let kind = match text.kind {
        RecordKind::Event => 1,
        _ => 2,
    };
    let outcome = match text.outcome {
        None => 0,
        Some(Outcome::Success) => 4,
        Some(Outcome::Failure) => 8,
        Some(Outcome::Partial) => 12,
    };
    kind | outcome
}

/// The data of texts, as it was read.
struct Texts {
    symbols: Symbols,
    texts: Vec<Option<Text>>,
    mentions: Vec<RecordKey>,
    instructions: BTreeSet<Slot>,
}

impl Texts {
    fn read(file: &SectionFile) -> io::Result<Self> {
        let mut symbols = Symbols::default();
        for name in unpacked_names(&file.array::<u8>(section::SYMBOLS)?)? {
            symbols.number(&name);
        }
        let mut at = file.parts::<i64>(section::AT)?;
        let mut prints = file.parts::<u64>(section::PRINTS)?;
        let mut templates = file.parts::<u64>(section::TEMPLATES)?;
        let mut kinds = file.parts::<u8>(section::KINDS)?;
        let mut types = file.parts::<u32>(section::TYPES)?;
        let mut sessions = file.parts::<u32>(section::SESSIONS)?;
        let mut speakers = file.parts::<u32>(section::SPEAKERS)?;
        let mut counts = file.parts::<u32>(section::MENTION_COUNTS)?;
        let mentions: Vec<i64> = file.array(section::MENTIONS)?;
        let slots = at.count();
        let lengths = [prints.count(), templates.count(), kinds.count()];
        let others = [types.count(), sessions.count(), speakers.count()];
        let apart = || damaged("the texts do not fit together");
        let mut all = lengths.into_iter().chain(others).chain([counts.count()]);
        if all.any(|count| count != slots) {
            return Err(apart());
        }
        let names = symbols.names.len() as u32;
        let symbol = |number: u32| match number {
            0 => Ok(None),
            number if number <= names => Ok(Some(number - 1)),
            _ => Err(apart()),
        };
        let mut start = 0_u32;
        let mut texts = Vec::with_capacity(slots);
        while texts.len() < slots {
            let count = (slots - texts.len()).min(PART);
            let (at, prints) = (at.next(count)?, prints.next(count)?);
            let (templates, kinds) = (templates.next(count)?, kinds.next(count)?);
            let (types, sessions) = (types.next(count)?, sessions.next(count)?);
            let (speakers, counts) = (speakers.next(count)?, counts.next(count)?);
            for slot in 0..count {
                let own = MentionRange {
                    start,
                    count: counts[slot],
                };
                let end = start.checked_add(own.count).ok_or_else(apart)?;
                start = end;
                let kind = match kinds[slot] & 3 {
                    0 => {
                        texts.push(None);
                        continue;
                    }
                    1 => RecordKind::Event,
                    _ => RecordKind::Chunk,
                };
                texts.push(Some(Text {
                    kind,
                    event_type: symbol(types[slot])?.ok_or_else(apart)?,
                    session: OptionalName::new(symbol(sessions[slot])?),
                    speaker: OptionalName::new(symbol(speakers[slot])?),
                    at: at[slot],
                    outcome: match kinds[slot] >> 2 {
                        1 => Some(Outcome::Success),
                        2 => Some(Outcome::Failure),
                        3 => Some(Outcome::Partial),
                        _ => None,
                    },
                    print: prints[slot],
                    template: templates[slot],
                    mentions: own,
                    rare: None,
                }));
            }
        }
        at.finish()?;
        prints.finish()?;
        templates.finish()?;
        kinds.finish()?;
        types.finish()?;
        sessions.finish()?;
        speakers.finish()?;
        counts.finish()?;
        if start as usize != mentions.len() {
            return Err(apart());
        }
        let rare: Vec<i64> = file.array(section::RARE)?;
        let mut rare = rare.into_iter();
        let mut next = || rare.next().ok_or_else(apart);
        for slot in file.array::<Slot>(section::RARE_SLOTS)? {
            let text = texts.get_mut(slot as usize).and_then(Option::as_mut);
            let text = text.ok_or_else(apart)?;
            let mut read = Rare {
                task: symbol(u32::try_from(next()?).map_err(|_| apart())?)?,
                ..Rare::default()
            };
            (read.valid.from, read.valid.to) = (next()?, next()?);
            for name in &mut read.owner {
                *name = next()? as u64;
            }
            let audience: io::Result<Vec<u64>> = (0..next()?).map(|_| Ok(next()? as u64)).collect();
            read.audience = audience?.into();
            let told: io::Result<Vec<Interval>> = (0..next()?)
                .map(|_| {
                    Ok(Interval {
                        from: next()?,
                        to: next()?,
                    })
                })
                .collect();
            read.told = told?.into();
            text.rare = Some(Box::new(read));
        }
        let instructions = file.array::<Slot>(section::INSTRUCTIONS)?;
        Ok(Self {
            symbols,
            texts,
            mentions,
            instructions: instructions.into_iter().collect(),
        })
    }
}

/// Bytes that values are appended to.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn number(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as i64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn maybe(&mut self, number: Option<i64>) {
        self.0.push(u8::from(number.is_some()));
        if let Some(number) = number {
            self.number(number);
        }
    }

    fn maybe_text(&mut self, text: Option<&str>) {
        self.0.push(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn owner(&mut self, owner: &RecordScope) {
        let RecordScope {
            user,
            agent,
            session,
            task,
            source,
        } = owner;
        for name in [user, agent, session, task, source] {
            self.maybe_text(name.as_deref());
        }
    }
}

/// Bytes that values are read from.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> io::Result<i64> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or_else(cut)?;
        self.0 = rest;
        Ok(i64::from_le_bytes(*number))
    }

    fn text(&mut self) -> io::Result<String> {
        let length = usize::try_from(self.number()?).map_err(|_| cut())?;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(str::from_utf8(text).map_err(|_| cut())?.to_owned())
    }

    fn is_some(&mut self) -> io::Result<bool> {
        let (first, rest) = self.0.split_first().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*first != 0)
    }

    fn maybe(&mut self) -> io::Result<Option<i64>> {
        self.is_some()?.then(|| self.number()).transpose()
    }

    fn maybe_text(&mut self) -> io::Result<Option<String>> {
        self.is_some()?.then(|| self.text()).transpose()
    }

    fn many<T>(&mut self, read: impl Fn(&mut Self) -> io::Result<T>) -> io::Result<Vec<T>> {
        (0..self.number()?).map(|_| read(self)).collect()
    }

    fn owner(&mut self) -> io::Result<RecordScope> {
        Ok(RecordScope {
            user: self.maybe_text()?,
            agent: self.maybe_text()?,
            session: self.maybe_text()?,
            task: self.maybe_text()?,
            source: self.maybe_text()?,
        })
    }
}

fn cut() -> io::Error {
    damaged("the entities are damaged")
}
