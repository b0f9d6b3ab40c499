//! Recording: derives words, a vector, entities and relations from a record,
//! and stores all of it in one transaction.

use std::io::{BufRead, Read};

use contexture_core::guard::{self, Secret};
use contexture_engine::{Advice, Operation, Warning};
use contexture_extract::{Extracted, Extractor, TextContext};
use contexture_recall::{Embedder, Vector, chunks};
use contexture_store::{
    Analysis, ChunkRecord, Derived, EntityRecord, Link, Mention, NewRecord, Record, RecordKey,
    RecordKind, Remembered, StoreError,
};
use contexture_words::{ANALYSER, name_key};
use jiff::Timestamp;

use crate::embedder::unit;
use crate::error::Error;
use crate::facts::mentioned_type;
use crate::{Memory, form, info, kept, read};

/// The number of lines that are stored in one transaction.
const BATCH: usize = 1_000;

/// The maximum size of the lines of one transaction, in bytes.
const BATCH_BYTES: u64 = 8 << 20;

/// The maximum length of a line, in bytes.
const LONGEST_LINE: u64 = 32 << 20;

/// The length, in characters, above which a chunk is split.
const CHUNK_CHARS: usize = 1_200;

/// The part of a text that is embedded and searched for names, in bytes.
const READ_BYTES: usize = 16 << 10;

/// The number of texts from which a second thread is used.
const WORTH_A_THREAD: usize = 64;

/// The result of recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryRecorded {
    /// The number of new records.
    pub added: u64,
    /// The number of records that replaced a different record with the same id.
    pub replaced: u64,
    /// The number of records that existed unchanged.
    pub unchanged: u64,
    /// The number of old records that were archived to stay within the
    /// configured limits.
    pub archived: u64,
    /// The ids of the records, in the order given. Omitted for lines and texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Warnings that the caller should read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

impl MemoryRecorded {
    fn note(&mut self, results: &[Remembered]) {
        for result in results {
            match result {
                Remembered::Added(_) => self.added += 1,
                Remembered::Replaced(_) => self.replaced += 1,
                Remembered::Unchanged(_) => self.unchanged += 1,
            }
        }
    }

    fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// Records as lines of a file.
pub struct Lines<'a> {
    /// The name of the file in errors.
    pub name: &'a str,
    /// The lines to read.
    pub reader: &'a mut dyn BufRead,
    /// Called with the number of lines and bytes that were read and recorded.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

impl Memory<'_> {
    /// Stores records, all or none. A record with an existing id replaces the
    /// existing record; an identical record changes nothing.
    ///
    /// A long chunk is split at the ends of sentences or of code blocks.
    pub fn record(
        &self,
        mut records: Vec<Record>,
        now: Option<Timestamp>,
    ) -> Result<MemoryRecorded, Error> {
        records.iter_mut().for_each(Record::complete);
        let mut done = MemoryRecorded {
            ids: records
                .iter()
                .map(|record| record.id().to_owned())
                .collect(),
            ..MemoryRecorded::default()
        };
        let places: Vec<String> = (0..records.len())
            .map(|i| format!("records[{i}]"))
            .collect();
        self.remember(records, &places, kept(now), &mut done)?;
        done.archived += self.keep_within_caps(kept(now))?;
        Ok(done)
    }

    /// Records the lines of a file, a thousand at a time, or fewer when they
    /// are long. Lines before an error remain recorded, and the error has their
    /// number.
    pub fn record_lines(
        &self,
        lines: &mut Lines<'_>,
        now: Option<Timestamp>,
    ) -> Result<MemoryRecorded, Error> {
        let now = kept(now);
        let mut done = MemoryRecorded::default();
        let name = match lines.name {
            "-" => "standard input",
            name => name,
        };
        let (mut number, mut bytes, mut recorded) = (0_u64, 0_u64, 0_u64);
        let mut waiting = 0_u64;
        let mut line = String::new();
        let mut batch: Vec<Record> = Vec::with_capacity(BATCH);
        let mut places: Vec<String> = Vec::with_capacity(BATCH);
        loop {
            line.clear();
            let mut reader = lines.reader.take(LONGEST_LINE);
            let read = reader.read_line(&mut line).map_err(|error| {
                let at = number + 1;
                Error::input(format!("{name}:{at}: cannot be read: {error}"))
            });
            let read = read.map_err(|error| so_far(error, recorded))?;
            number += 1;
            bytes += read as u64;
            waiting += read as u64;
            if read as u64 == LONGEST_LINE {
                let error = format!(
                    "{name}:{number}: is longer than the limit of {LONGEST_LINE} \
                                     bytes"
                );
                return Err(so_far(Error::input(error), recorded));
            }
            let text = line.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() {
                let place = format!("{name}:{number}");
                let record = read::record(&place, text);
                batch.push(record.map_err(|error| so_far(error, recorded))?);
                places.push(place);
            }
            let full = batch.len() >= BATCH || waiting >= BATCH_BYTES;
            if !batch.is_empty() && (full || read == 0) {
                let result = self.remember(std::mem::take(&mut batch), &places, now, &mut done);
                result.map_err(|error| so_far(error, recorded))?;
                places.clear();
                waiting = 0;
                recorded = number;
                (lines.progress)(number, bytes);
            }
            if read == 0 {
                break;
            }
        }
        done.archived += self.keep_within_caps(now)?;
        Ok(done)
    }

    /// Records a text, such as a file, as chunks of `source`. They replace the
    /// earlier chunks of the source.
    pub fn record_text(
        &self,
        source: &str,
        text: &str,
        now: Option<Timestamp>,
    ) -> Result<MemoryRecorded, Error> {
        let mut parts = chunks(text, Some(source), CHUNK_CHARS);
        if parts.is_empty() {
            // The check of the record reports the empty text.
            parts.push(contexture_recall::Chunk { start: 0, end: 0 });
        }
        let secrets = self.secrets_of(text);
        let record = |(index, part): (u32, &contexture_recall::Chunk)| {
            Record::Chunk(ChunkRecord {
                id: format!("{source}#{index}"),
                source: source.to_owned(),
                text: part_of(text, part, &secrets),
                index,
                timestamp: None,
                session_id: None,
                embedding: None,
                valid_from: None,
                valid_to: None,
                supersedes: None,
                visible_to: Vec::new(),
                user: None,
                agent: None,
                task_id: None,
            })
        };
        let (now, mut done) = (kept(now), MemoryRecorded::default());
        let records: Vec<Record> = (0..).zip(&parts).map(record).collect();
        let places = vec![source.to_owned(); records.len()];
        self.remember(records, &places, now, &mut done)?;
        self.archive_after(source, parts.len() as u64)?;
        done.archived += self.keep_within_caps(now)?;
        Ok(done)
    }

    /// Returns the secrets of a text that will be split, unless masking is off.
    fn secrets_of(&self, text: &str) -> Vec<Secret> {
        match self.engine.config().secrets.mask {
            true => guard::find_secrets(text),
            false => Vec::new(),
        }
    }

    /// Archives chunks of a source after its end.
    fn archive_after(&self, source: &str, mut end: u64) -> Result<(), Error> {
        loop {
            let ids: Vec<String> = (end..end + 64).map(|i| format!("{source}#{i}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let keys = self.store.record_keys(&ids)?;
            let chunks = keys.iter().filter(|(kind, _)| *kind == RecordKind::Chunk);
            let keys: Vec<_> = chunks.map(|(_, key)| *key).collect();
            if keys.is_empty() {
                return Ok(());
            }
            self.store.archive(&keys)?;
            end += 64;
        }
    }

    /// Stores records, all or none. An error has the position of the rejected
    /// record.
    fn remember(
        &self,
        records: Vec<Record>,
        places: &[String],
        now: Timestamp,
        done: &mut MemoryRecorded,
    ) -> Result<(), Error> {
        let extractor = self.extractor()?;
        let mut ready: Vec<Record> = Vec::with_capacity(records.len());
        let mut at: Vec<&str> = Vec::with_capacity(records.len());
        // The chunks, with the number of parts that each was split into.
        let mut chunks_given: Vec<(String, usize)> = Vec::new();
        for (mut record, place) in records.into_iter().zip(places) {
            record.complete();
            start_validity(&mut record);
            let checked = record.check().map_err(|error| error.within("records[0]"));
            let checked = checked.and_then(|()| check_text(&record));
            checked.map_err(|error| placed(error, &[place]))?;
            let whole = record.id().to_owned();
            let is_chunk = record.kind() == RecordKind::Chunk;
            let parts = split(record, |text| self.secrets_of(text));
            if is_chunk {
                let parts = if parts.len() > 1 { parts.len() } else { 0 };
                chunks_given.push((whole, parts));
            }
            for part in parts {
                ready.push(part);
                at.push(place);
            }
        }
        let embedder = self.embedder()?;
        let state = self.store.memory_state()?;
        self.check_embedder(&state, &*embedder)?;
        let texts: Vec<Option<String>> = ready.iter().map(form::searchable).collect();
        let (vectors, failed) = vectors(&*embedder, &ready, &texts, &at)?;
        if let Some(failed) = failed {
            let message = format!(
                "the texts have no vectors and are searched by words only until the embedder \
                 works again: {failed}"
            );
            let again = Advice::call(Operation::ReembedMemory);
            done.warn(Warning::new("no_vectors", message).advise(again));
        }
        let any = vectors.iter().any(Option::is_some);
        let analysis = Analysis {
            words: ANALYSER,
            embedder: any.then(|| info(&*embedder)),
        };
        let new: Vec<NewRecord> = (ready.into_iter().zip(texts).zip(vectors))
            .map(|((mut record, text), vector)| {
                let derived = derive(&record, text.as_deref(), vector, extractor, now);
                if let Record::Chunk(chunk) = &mut record {
                    // The vector is stored next to the record, in the format of
                    // the index.
                    chunk.embedding = None;
                }
                NewRecord { record, derived }
            })
            .collect();
        let results = self.store.remember(&new, &analysis, now);
        done.note(&results.map_err(|error| placed(error, &at))?);
        self.archive_former(&chunks_given)
    }

    /// Archives the former parts of a chunk that is now split differently.
    fn archive_former(&self, chunks: &[(String, usize)]) -> Result<(), Error> {
        let former = |(id, parts): &(String, usize)| {
            let whole = (*parts > 0).then(|| id.clone());
            [Some(part_id(id, *parts)), whole]
        };
        let ids: Vec<String> = chunks.iter().flat_map(former).flatten().collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut keys: Vec<_> = self.store.record_keys(&ids)?;
        if keys.is_empty() {
            return Ok(());
        }
        for (id, parts) in chunks {
            keys.extend(self.parts_of(id, parts + 1)?);
        }
        let chunks = keys.iter().filter(|(kind, _)| *kind == RecordKind::Chunk);
        let keys: Vec<_> = chunks.map(|(_, key)| *key).collect();
        Ok(self.store.archive(&keys)?)
    }

    /// Returns the parts of a chunk that was split, from the part number `from`.
    pub(crate) fn parts_of(
        &self,
        id: &str,
        from: usize,
    ) -> Result<Vec<(RecordKind, RecordKey)>, Error> {
        const AT_ONCE: usize = 16;
        let (mut found, mut from) = (Vec::new(), from);
        loop {
            let ids: Vec<String> = (from..from + AT_ONCE).map(|i| part_id(id, i)).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let parts = self.store.record_keys(&ids)?;
            let parts = parts
                .into_iter()
                .filter(|(kind, _)| *kind == RecordKind::Chunk);
            let before = found.len();
            found.extend(parts);
            if found.len() - before < AT_ONCE {
                return Ok(found);
            }
            from += AT_ONCE;
        }
    }
}

/// Rejects an event without text, as the store rejects a chunk without text. The
/// store itself accepts such an event, because older stores contain them.
fn check_text(record: &Record) -> Result<(), StoreError> {
    match record {
        Record::Event(event) if form::is_empty(event) => {
            Err(StoreError::invalid("records[0].content", "is empty"))
        }
        _ => Ok(()),
    }
}

/// Sets the start of validity of a superseding record to its own time, so that
/// both are never valid at once.
fn start_validity(record: &mut Record) {
    let (supersedes, from, at) = match record {
        Record::Event(it) => (&it.supersedes, &mut it.valid_from, it.timestamp),
        Record::Chunk(it) => (&it.supersedes, &mut it.valid_from, it.timestamp),
        Record::Relation(it) => (&it.supersedes, &mut it.valid_from, it.timestamp),
        Record::Entity(_) | Record::Pattern(_) | Record::Task(_) => return,
    };
    if supersedes.is_some() && from.is_none() {
        *from = at;
    }
}

/// Splits a long chunk into several: `ID/0`, `ID/1` and so on.
fn split(record: Record, secrets_of: impl Fn(&str) -> Vec<Secret>) -> Vec<Record> {
    let chunk = match record {
        Record::Chunk(chunk) if chunk.text.len() > CHUNK_CHARS && chunk.embedding.is_none() => {
            chunk
        }
        other => return vec![other],
    };
    let parts = chunks(&chunk.text, Some(&chunk.source), CHUNK_CHARS);
    if parts.len() < 2 {
        return vec![Record::Chunk(chunk)];
    }
    let secrets = secrets_of(&chunk.text);
    let part = |(i, part): (usize, contexture_recall::Chunk)| {
        Record::Chunk(ChunkRecord {
            id: part_id(&chunk.id, i),
            text: part_of(&chunk.text, &part, &secrets),
            ..chunk.clone()
        })
    };
    parts.into_iter().enumerate().map(part).collect()
}

/// Returns the text of a part. The guard checks each chunk alone when it is
/// shown, and cannot recognise the middle of a private key. Secrets that are
/// found only in the whole text are therefore masked before it is stored.
fn part_of(text: &str, part: &contexture_recall::Chunk, secrets: &[Secret]) -> String {
    let raw = &text[part.start..part.end];
    let first = secrets.partition_point(|secret| secret.range.end <= part.start);
    let clipped: Vec<Secret> = secrets[first..]
        .iter()
        .take_while(|secret| secret.range.start < part.end)
        .map(|secret| Secret {
            range: secret.range.start.max(part.start) - part.start
                ..secret.range.end.min(part.end) - part.start,
            rule: secret.rule,
        })
        .collect();
    if clipped.is_empty() {
        return raw.to_owned();
    }
    let alone = guard::find_secrets(raw);
    let is_found = |secret: &Secret| {
        alone.iter().any(|found| {
            found.range.start <= secret.range.start && secret.range.end <= found.range.end
        })
    };
    match clipped.iter().all(is_found) {
        true => raw.to_owned(),
        false => guard::mask(raw, &clipped),
    }
}

/// Returns the id of a part of a chunk that was split.
pub(crate) fn part_id(id: &str, part: usize) -> String {
    format!("{id}/{part}")
}

/// The vectors of texts, in the order given, and the reason why some are
/// missing.
type Vectors = (Vec<Option<Vec<u8>>>, Option<String>);

fn vectors(
    embedder: &dyn Embedder,
    records: &[Record],
    texts: &[Option<String>],
    places: &[&str],
) -> Result<Vectors, Error> {
    let mut vectors: Vec<Option<Vec<u8>>> = vec![None; records.len()];
    let mut wanted: Vec<(usize, &str)> = Vec::new();
    for (i, (record, text)) in records.iter().zip(texts).enumerate() {
        let given = match record {
            Record::Chunk(chunk) => chunk.embedding.as_deref(),
            _ => None,
        };
        match (given, text) {
            (Some(given), _) if given.len() != embedder.dimensions() => {
                return Err(Error::input(format!(
                    "{}: embedding: has {} dimensions; those of {} have {}",
                    places[i],
                    given.len(),
                    embedder.name(),
                    embedder.dimensions()
                )));
            }
            (Some(given), _) => {
                vectors[i] = Some(Vector::quantise(&unit(given.to_vec())).to_bytes())
            }
            (None, Some(text)) => wanted.push((i, head_of(text))),
            (None, None) => {}
        }
    }
    let half = match wanted.len() >= WORTH_A_THREAD {
        true => wanted.len() / 2,
        false => wanted.len(),
    };
    let (first, second) = wanted.split_at(half);
    let embed = |part: &[(usize, &str)]| {
        let texts: Vec<&str> = part.iter().map(|(_, text)| *text).collect();
        match texts.is_empty() {
            true => Ok(Vec::new()),
            false => embedder.embed(&texts),
        }
    };
    let call = contexture_store::Call::current();
    let (first_made, second_made) = std::thread::scope(|threads| {
        let embed_second = || contexture_store::Call::run_in(call.as_ref(), || embed(second));
        let other = (!second.is_empty()).then(|| threads.spawn(embed_second));
        let made = embed(first);
        let other = other.map(std::thread::ScopedJoinHandle::join);
        let other =
            other.map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (made, other.unwrap_or_else(|| Ok(Vec::new())))
    });
    let mut failed = None;
    for (part, made) in [(first, first_made), (second, second_made)] {
        match made {
            Ok(made) => {
                for ((i, _), vector) in part.iter().zip(made) {
                    vectors[*i] = Some(Vector::quantise(&vector).to_bytes());
                }
            }
            Err(error) if error.is_temporary() => failed = Some(error.to_string()),
            Err(error) => return Err(Error::input(format!("the embedder: {error}"))),
        }
    }
    Ok((vectors, failed))
}

/// Returns the search data of a record.
fn derive(
    record: &Record,
    text: Option<&str>,
    vector: Option<Vec<u8>>,
    extractor: &Extractor,
    now: Timestamp,
) -> Derived {
    if let Record::Entity(entity) = record {
        return Derived {
            names: names(entity),
            ..Derived::default()
        };
    }
    let Some(text) = text else {
        return Derived::default();
    };
    let speaker = form::speaker(record);
    let names: Vec<&str> = speaker.into_iter().collect();
    let known = TextContext {
        speaker,
        names: &names,
    };
    // A restricted text must not be revealed through an entity.
    let extracted = match form::is_private(record) {
        true => Extracted::default(),
        // A part of a secret would become a name that the guard cannot
        // recognise.
        false => match guard::find_secrets(text) {
            none if none.is_empty() => extractor.extract(head_of(text), &known),
            found => extractor.extract(head_of(&guard::mask(text, &found)), &known),
        },
    };
    let mentions = extracted.entities.iter().map(|entity| Mention {
        entity_type: entity.kind.clone(),
        name: entity.name.clone(),
        key: name_key(&entity.name),
    });
    let links = extracted.relations.iter().map(|relation| Link {
        relation_type: mentioned_type(&relation.kind, relation.ended),
        from: relation.from,
        to: relation.to,
    });
    Derived {
        words: Some(form::Packed::of(text, record, Some(now)).to_bytes()),
        vector,
        speaker: speaker.map(name_key),
        names: Vec::new(),
        mentions: mentions.collect(),
        links: links.collect(),
    }
}

/// Returns the normalised names of an entity, without duplicates.
fn names(entity: &EntityRecord) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in std::iter::once(&entity.name).chain(&entity.aliases) {
        let key = name_key(name);
        if !key.is_empty() && !names.contains(&key) {
            names.push(key);
        }
    }
    names
}

/// Returns the part of a text that is embedded.
pub(crate) fn head_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(READ_BYTES)]
}

/// Returns an error with the number of records that were stored before it.
fn so_far(error: Error, recorded: u64) -> Error {
    match recorded {
        0 => error.with_outcome("nothing was recorded"),
        1 => error.with_outcome("line 1 was recorded; the rest was not"),
        n => error.with_outcome(&format!("lines 1 to {n} were recorded; the rest was not")),
    }
}

/// Returns an error of the store with the caller's position of the record
/// instead of its index.
fn placed(error: StoreError, places: &[&str]) -> Error {
    let StoreError::Invalid { field, message } = &error else {
        return error.into();
    };
    let place = field.strip_prefix("records[").and_then(|rest| {
        let (number, rest) = rest.split_once(']')?;
        let place = places.get(number.parse::<usize>().ok()?)?;
        Some((*place, rest.trim_start_matches('.')))
    });
    match place {
        Some((place, "")) => Error::input(format!("{place}: {message}")),
        Some((place, field)) => Error::input(format!("{place}: {field}: {message}")),
        None => error.into(),
    }
}
