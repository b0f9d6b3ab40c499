//! A file of arrays, each checked by its hash: the form of an index on disk.
//!
//! A file has a header, the arrays one after the other, and a table with the
//! offset, length and BLAKE3 hash of each array. The header has the offset and
//! the hash of the table, and is written last. A file that was truncated,
//! altered or written only in part is rejected. Numbers are little-endian.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

/// The number of bytes that are read, converted and hashed at a time.
const BLOCK: usize = 1 << 18;

/// The size of the header: the kind of file, the offset and length of the
/// table, and its hash.
const HEADER: usize = 8 + 8 + 8 + 32;

/// The size of an entry of the table, in bytes.
const ENTRY: usize = 4 + 8 + 8 + 32;

/// The maximum number of entries of a table.
const MOST_ENTRIES: u64 = 1 << 10;

/// A number of a fixed size, as an array holds it.
pub trait Number: Copy + Default {
    /// The size of the number in bytes.
    const SIZE: usize;

    /// Appends the number to `bytes`.
    fn put(self, bytes: &mut Vec<u8>);

    /// Reads the number from [`Number::SIZE`] bytes. Fewer bytes give the
    /// default value.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            const SIZE: usize = size_of::<$type>();

            #[inline]
            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let known = bytes.first_chunk().copied();
                known.map(<$type>::from_le_bytes).unwrap_or_default()
            }
        }
    )*};
}

number!(u8, i8, u32, u64, i64, f32);

/// The position and the hash of an array.
#[derive(Debug, Clone, Copy)]
struct Section {
    name: u32,
    at: u64,
    length: u64,
    hash: blake3::Hash,
}

/// Writes a file of arrays.
#[derive(Debug)]
pub struct SectionWriter {
    file: BufWriter<File>,
    kind: [u8; 8],
    at: u64,
    table: Vec<Section>,
    bytes: Vec<u8>,
}

impl SectionWriter {
    /// Starts a file of this kind. The file must be empty.
    pub fn new(file: File, kind: [u8; 8]) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BLOCK, file);
        file.write_all(&[0; HEADER])?;
        Ok(Self {
            file,
            kind,
            at: HEADER as u64,
            table: Vec::new(),
            bytes: Vec::with_capacity(BLOCK),
        })
    }

    /// Writes an array.
    pub fn array<T: Number>(&mut self, name: u32, values: &[T]) -> io::Result<()> {
        self.parts(name, std::iter::once(Ok::<_, io::Error>(values)))
    }

    /// Writes an array that is given in parts.
    pub fn parts<T: Number, P: AsRef<[T]>>(
        &mut self,
        name: u32,
        parts: impl Iterator<Item = io::Result<P>>,
    ) -> io::Result<()> {
        let mut hasher = blake3::Hasher::new();
        let begin = self.at;
        for part in parts {
            for values in part?.as_ref().chunks(BLOCK / T::SIZE) {
                self.bytes.clear();
                values.iter().for_each(|value| value.put(&mut self.bytes));
                hasher.update(&self.bytes);
                self.file.write_all(&self.bytes)?;
                self.at += self.bytes.len() as u64;
            }
        }
        self.table.push(Section {
            name,
            at: begin,
            length: self.at - begin,
            hash: hasher.finalize(),
        });
        Ok(())
    }

    /// Writes the table and the header, and syncs the file to disk.
    pub fn finish(mut self) -> io::Result<File> {
        let mut table = Vec::with_capacity(self.table.len() * ENTRY);
        for section in &self.table {
            section.name.put(&mut table);
            section.at.put(&mut table);
            section.length.put(&mut table);
            table.extend_from_slice(section.hash.as_bytes());
        }
        self.file.write_all(&table)?;
        let mut header = self.kind.to_vec();
        self.at.put(&mut header);
        (table.len() as u64).put(&mut header);
        header.extend_from_slice(blake3::hash(&table).as_bytes());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        let file = self.file.into_inner().map_err(io::Error::from)?;
        file.sync_all()?;
        Ok(file)
    }
}

/// A file of arrays, for reading.
#[derive(Debug)]
pub struct SectionFile {
    file: File,
    table: Vec<Section>,
}

impl SectionFile {
    /// Reads the header and the table of a file of this kind.
    pub fn open(file: File, kind: [u8; 8]) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut header = [0; HEADER];
        read_at(&file, &mut header, 0)?;
        if !header.starts_with(&kind) {
            return Err(damaged("the file is of another kind or version"));
        }
        let (at, length) = (u64::get(&header[8..]), u64::get(&header[16..]));
        let whole = at.checked_add(length).is_some_and(|end| end == size);
        if !whole || length > MOST_ENTRIES * ENTRY as u64 {
            return Err(damaged("the file is truncated"));
        }
        let mut table = vec![0; length as usize];
        read_at(&file, &mut table, at)?;
        if blake3::hash(&table).as_bytes()[..] != header[24..] {
            return Err(damaged("the table does not match its hash"));
        }
        let entry = |entry: &[u8]| Section {
            name: u32::get(entry),
            at: u64::get(&entry[4..]),
            length: u64::get(&entry[12..]),
            hash: entry[20..]
                .first_chunk()
                .copied()
                .map_or(blake3::Hash::from_bytes([0; 32]), blake3::Hash::from_bytes),
        };
        let table = table.chunks_exact(ENTRY).map(entry).collect();
        Ok(Self { file, table })
    }

    fn find(&self, name: u32) -> io::Result<Section> {
        let found = self.table.iter().find(|section| section.name == name);
        found.copied().ok_or_else(|| damaged("an array is missing"))
    }

    /// Reads an array and checks its hash.
    pub fn array<T: Number>(&self, name: u32) -> io::Result<Vec<T>> {
        let section = self.find(name)?;
        if !section.length.is_multiple_of(T::SIZE as u64) {
            return Err(damaged("an array has the wrong length"));
        }
        let mut values = Vec::with_capacity((section.length / T::SIZE as u64) as usize);
        let mut hasher = blake3::Hasher::new();
        let mut block = vec![0; BLOCK.min(section.length as usize)];
        let mut read = 0;
        while read < section.length {
            let size = (section.length - read).min(BLOCK as u64);
            let bytes = &mut block[..size as usize];
            read_at(&self.file, bytes, section.at + read)?;
            hasher.update(bytes);
            values.extend(bytes.chunks_exact(T::SIZE).map(T::get));
            read += size;
        }
        if hasher.finalize() != section.hash {
            return Err(damaged("an array does not match its hash"));
        }
        Ok(values)
    }

    /// Reads an array in parts, so that its values need not be in memory at once.
    pub fn parts<T: Number>(&self, name: u32) -> io::Result<ArrayParts<'_, T>> {
        let section = self.find(name)?;
        if !section.length.is_multiple_of(T::SIZE as u64) {
            return Err(damaged("an array has the wrong length"));
        }
        Ok(ArrayParts {
            file: &self.file,
            section,
            read: 0,
            hasher: blake3::Hasher::new(),
            bytes: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Returns the position and the length of an array of bytes, without
    /// checking its hash.
    pub(crate) fn place(&self, name: u32) -> io::Result<(u64, u64)> {
        let section = self.find(name)?;
        Ok((section.at, section.length))
    }

    /// Returns another handle to the file.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// The number of values that are read at once if arrays are read in parts. All arrays of
/// an index would need as much memory as its texts.
pub const PART: usize = 1 << 15;

/// An array that is read in parts. Its hash is known only at its end: see
/// [`ArrayParts::finish`].
#[derive(Debug)]
pub struct ArrayParts<'f, T> {
    file: &'f File,
    section: Section,
    // The number of bytes that were read.
    read: u64,
    hasher: blake3::Hasher,
    bytes: Vec<u8>,
    values: Vec<T>,
}

impl<T: Number> ArrayParts<'_, T> {
    /// Returns the number of values of the whole array.
    pub fn count(&self) -> usize {
        (self.section.length / T::SIZE as u64) as usize
    }

    /// Reads the next `count` values. Fails if the array has fewer.
    pub fn next(&mut self, count: usize) -> io::Result<&[T]> {
        let size = count as u64 * T::SIZE as u64;
        if size > self.section.length - self.read {
            return Err(damaged("an array is too short"));
        }
        self.bytes.resize(size as usize, 0);
        read_at(self.file, &mut self.bytes, self.section.at + self.read)?;
        self.read += size;
        self.hasher.update(&self.bytes);
        self.values.clear();
        let values = self.bytes.chunks_exact(T::SIZE).map(T::get);
        self.values.extend(values);
        Ok(&self.values)
    }

    /// Checks the hash of the array. Fails if the array was not read to its end.
    pub fn finish(self) -> io::Result<()> {
        match self.read == self.section.length && self.hasher.finalize() == self.section.hash {
            true => Ok(()),
            false => Err(damaged("an array does not match its hash")),
        }
    }
}

/// Returns the error for a file that cannot be used.
pub fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads bytes at an offset, independent of other readers.
#[cfg(unix)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

/// Reads bytes at an offset, independent of other readers.
#[cfg(windows)]
pub(crate) fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                at += read as u64;
            }
        }
    }
    Ok(())
}
