//! An index as arrays in a file.

use std::io;

use super::{Index, NONE, Neighbours, ONE, Postings, Runs, Slot, State, Text, Vectors};
use crate::sections::{PART, SectionFile, SectionWriter, damaged};

/// The names of the arrays. Names from 1,000 are reserved for the owner of the
/// index.
pub(super) mod section {
    pub(crate) const KEYS: u32 = 1;
    pub(crate) const LENGTHS: u32 = 2;
    pub(crate) const WIDE: u32 = 3;
    pub(crate) const TIMES: u32 = 4;
    pub(crate) const PLACES: u32 = 5;
    pub(crate) const LIVE: u32 = 6;
    pub(crate) const HALVES: u32 = 7;
    pub(crate) const PAIRS: u32 = 8;
    pub(crate) const MEMBERS: u32 = 9;
    pub(crate) const RUN_LENGTHS: u32 = 10;
    pub(crate) const RUN_NAMES: u32 = 11;
    pub(crate) const TERMS: u32 = 12;
    pub(crate) const STARTS: u32 = 13;
    pub(crate) const POSTED: u32 = 14;
    pub(crate) const HELD: u32 = 15;
    pub(crate) const SCALES: u32 = 16;
    pub(crate) const FACTORS: u32 = 17;
    pub(crate) const CODES: u32 = 18;
    pub(crate) const VECTORS: u32 = 19;
    pub(crate) const CHECKS: u32 = 20;
    pub(crate) const SHAPE: u32 = 21;
}

/// The size in bytes from which vectors stay in the file.
const VECTORS_IN_FILE: usize = 16 << 20;

impl Index {
    /// Prepares the index for a write: makes the postings contiguous, and
    /// records from now on which vectors change.
    pub fn prepare_to_write(&mut self) {
        self.settle();
        if !self.postings.is_flat() {
            self.postings.flatten();
        }
        self.vectors.mark();
    }

    /// Returns the number of vectors that have changed since the preparation.
    pub fn changed_vectors(&self) -> usize {
        self.vectors.noted()
    }

    /// Writes the index. It must be [prepared](Index::prepare_to_write) and
    /// unchanged since.
    pub fn write(&self, file: &mut SectionWriter) -> io::Result<()> {
        if !self.postings.is_flat() {
            return Err(io::Error::other(
                "the index has changed since it was prepared",
            ));
        }
        let texts = &self.texts;
        file.array(
            section::SHAPE,
            &[self.dimensions() as u64, texts.len() as u64],
        )?;
        let keys: Vec<i64> = texts.iter().map(|text| text.key).collect();
        file.array(section::KEYS, &keys)?;
        let lengths: Vec<u32> = texts.iter().map(|text| text.length).collect();
        file.array(section::LENGTHS, &lengths)?;
        let wide: Vec<u64> = texts.iter().map(|text| text.wide).collect();
        file.array(section::WIDE, &wide)?;
        let times: Vec<i64> = texts.iter().map(|text| text.time).collect();
        file.array(section::TIMES, &times)?;
        let places: Vec<u32> = texts.iter().map(|text| text.place).collect();
        file.array(section::PLACES, &places)?;
        let live = texts.iter().map(|text| u8::from(text.state == State::Live));
        file.array(section::LIVE, &live.collect::<Vec<u8>>())?;
        let halves: Vec<f32> = self
            .neighbours
            .iter()
            .map(|neighbours| neighbours.half)
            .collect();
        file.array(section::HALVES, &halves)?;
        file.array(section::PAIRS, &self.pairs)?;
        // A run without texts is not written, nor is its name.
        let Runs { names, members, .. } = &self.runs;
        let mut runs: Vec<(&Box<str>, &Vec<Slot>)> = (names.iter())
            .map(|(name, run)| (name, &members[*run as usize]))
            .filter(|(_, members)| !members.is_empty())
            .collect();
        runs.sort_unstable();
        let run_lengths: Vec<u32> = runs.iter().map(|(_, run)| run.len() as u32).collect();
        file.array(section::RUN_LENGTHS, &run_lengths)?;
        let members: Vec<&[Slot]> = runs.iter().map(|(_, run)| run.as_slice()).collect();
        file.array(section::MEMBERS, &members.concat())?;
        let names: Vec<Box<str>> = runs.into_iter().map(|(name, _)| name.clone()).collect();
        file.array(section::RUN_NAMES, &packed_names(&names))?;
        self.postings.write(file)?;
        self.vectors.write(file)
    }

    /// Reads the output of [`Index::write`]. The vectors of a large index stay
    /// in the file.
    pub fn read(file: &SectionFile) -> io::Result<Self> {
        let shape: Vec<u64> = file.array(section::SHAPE)?;
        let &[dimensions, slots] = shape.as_slice() else {
            return Err(damaged("the shape of the index is missing"));
        };
        let most = u64::from(Slot::MAX);
        if dimensions > 1 << 20 || slots >= most {
            return Err(damaged("the index is too large"));
        }
        let (dimensions, slots) = (dimensions as usize, slots as usize);
        let in_file = dimensions * slots >= VECTORS_IN_FILE;
        // Two halves of about the same size are read in parallel.
        let (vectors, rest) = std::thread::scope(|threads| {
            let postings = threads.spawn(|| Postings::read(file, slots));
            let vectors = Vectors::read(file, dimensions, slots, in_file);
            let texts = vectors.and_then(|vectors| Ok((vectors, read_texts(file, slots)?)));
            (texts, postings.join())
        });
        let (vectors, (texts, neighbours, runs)) = vectors?;
        let postings = rest.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let pairs: Vec<f32> = file.array(section::PAIRS)?;
        if pairs.len() != slots {
            return Err(damaged("the index does not fit together"));
        }
        let of_state = |state| {
            (0..)
                .zip(&texts)
                .filter(move |(_, text)| text.state == state)
        };
        let free: Vec<Slot> = of_state(State::Free).map(|(slot, _)| slot).collect();
        let live = texts.len() - free.len();
        let length = of_state(State::Live).map(|(_, text)| text.wide);
        let length = length.fold(0, u64::wrapping_add);
        Ok(Self {
            postings,
            lengths: texts.iter().map(|text| text.wide as f32 / ONE).collect(),
            neighbours,
            free,
            live,
            length,
            vectors,
            pairs,
            runs,
            texts,
            ..Self::new(dimensions)
        })
    }

    /// Replaces the vectors in memory by those of a file with this many slots.
    /// The file was written when `changed` vectors had changed since the
    /// preparation. Does nothing for a small index.
    pub fn leave_vectors_to(
        &mut self,
        file: &SectionFile,
        slots: usize,
        changed: usize,
    ) -> io::Result<()> {
        match self.dimensions() * slots >= VECTORS_IN_FILE {
            true => self.vectors.leave_to(file, slots, changed),
            false => Ok(()),
        }
    }
}

/// The texts of an index with their neighbours and runs.
type Texts = (Vec<Text>, Vec<Neighbours>, Runs);

fn read_texts(file: &SectionFile, slots: usize) -> io::Result<Texts> {
    let mut keys = file.parts::<i64>(section::KEYS)?;
    let mut lengths = file.parts::<u32>(section::LENGTHS)?;
    let mut wide = file.parts::<u64>(section::WIDE)?;
    let mut times = file.parts::<i64>(section::TIMES)?;
    let mut places = file.parts::<u32>(section::PLACES)?;
    let mut live = file.parts::<u8>(section::LIVE)?;
    let mut halves = file.parts::<f32>(section::HALVES)?;
    let all = [keys.count(), lengths.count(), wide.count(), times.count()];
    let others = [places.count(), live.count(), halves.count()];
    if all.iter().chain(&others).any(|count| *count != slots) {
        return Err(damaged("the texts do not fit together"));
    }
    let mut texts: Vec<Text> = Vec::with_capacity(slots);
    let mut neighbours: Vec<Neighbours> = Vec::with_capacity(slots);
    while texts.len() < slots {
        let count = (slots - texts.len()).min(PART);
        let (keys, lengths) = (keys.next(count)?, lengths.next(count)?);
        let (wide, times) = (wide.next(count)?, times.next(count)?);
        let (places, live) = (places.next(count)?, live.next(count)?);
        texts.extend((0..count).map(|at| Text {
            key: keys[at],
            length: lengths[at],
            wide: wide[at],
            state: match live[at] {
                0 => State::Free,
                _ => State::Live,
            },
            time: times[at],
            place: places[at],
            run: NONE,
        }));
        neighbours.extend(halves.next(count)?.iter().map(|half| Neighbours {
            half: *half,
            ..Neighbours::NO_NEIGHBOURS
        }));
    }
    keys.finish()?;
    lengths.finish()?;
    wide.finish()?;
    times.finish()?;
    places.finish()?;
    live.finish()?;
    halves.finish()?;
    let run_lengths: Vec<u32> = file.array(section::RUN_LENGTHS)?;
    let names = unpacked_names(&file.array(section::RUN_NAMES)?)?;
    let all: Vec<Slot> = file.array(section::MEMBERS)?;
    let sum: u64 = run_lengths.iter().map(|length| u64::from(*length)).sum();
    if names.len() != run_lengths.len() || sum != all.len() as u64 {
        return Err(damaged("the runs do not fit together"));
    }
    let mut rest = all.as_slice();
    let mut members = Vec::with_capacity(names.len());
    for (run, length) in (0..).zip(run_lengths) {
        let (own, others) = rest.split_at(length as usize);
        rest = others;
        let mut before = NONE;
        for &slot in own {
            let known = texts.get_mut(slot as usize).filter(|text| text.run == NONE);
            let known = known.filter(|text| text.state == State::Live);
            known
                .ok_or_else(|| damaged("the runs do not fit together"))?
                .run = run;
            neighbours[slot as usize].before = before;
            if before != NONE {
                neighbours[before as usize].behind = slot;
            }
            before = slot;
        }
        members.push(own.to_vec());
    }
    Ok((texts, neighbours, Runs::new(names, members)))
}

/// Returns names as bytes: the length of each, and its text.
pub fn packed_names(names: &[Box<str>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for name in names {
        bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
    }
    bytes
}

/// Reads the output of [`packed_names`].
pub fn unpacked_names(mut bytes: &[u8]) -> io::Result<Vec<Box<str>>> {
    let mut names = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let name = rest.split_at_checked(u32::from_le_bytes(*length) as usize);
        let name = name.and_then(|(name, rest)| Some((str::from_utf8(name).ok()?, rest)));
        let (name, rest) = name.ok_or_else(|| damaged("a name is damaged"))?;
        names.push(name.into());
        bytes = rest;
    }
    Ok(names)
}
