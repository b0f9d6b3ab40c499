//! Reads a file line by line, with a bound on memory.
//!
//! A line that is longer than the bound is skipped and reported. The last line is
//! returned only when it ends: a program may still be writing it.

use std::io::{self, Read};

/// The number of bytes that are read at once.
const READ: usize = 256 * 1024;

/// A line of a file, or the report of one that is too long.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its end.
    Text {
        /// The offset of the line, in bytes.
        offset: u64,
        /// The line.
        bytes: &'a [u8],
    },
    /// A line over the bound.
    TooLong {
        /// The offset of the line, in bytes.
        offset: u64,
        /// The length of the line, in bytes.
        length: u64,
    },
}

/// Reads lines. Blank lines are skipped by default.
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    // Bytes that were read and not returned: `start..end` of the buffer.
    start: usize,
    end: usize,
    // The position up to which no line end was found.
    searched: usize,
    // The offset of `start` in the file.
    offset: u64,
    // The number of bytes of a too long line that were skipped.
    skipped: u64,
    max: usize,
    with_blanks: bool,
    finished: bool,
}

impl<R: Read> Lines<R> {
    /// Reads lines of at most `max` bytes. `offset` is where the reader is in
    /// its file.
    pub fn new(reader: R, offset: u64, max: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            searched: 0,
            offset,
            skipped: 0,
            max,
            with_blanks: false,
            finished: false,
        }
    }

    /// Returns blank lines, too.
    pub fn with_blanks(mut self) -> Self {
        self.with_blanks = true;
        self
    }

    /// Returns the offset of the next line. After the last line this is the end
    /// of the last complete line.
    pub fn offset(&self) -> u64 {
        self.offset - self.skipped
    }

    /// Returns the next line, or `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.searched..self.end]);
            if let Some(at) = found {
                let (from, to) = (self.start, self.searched + at);
                let length = to - from;
                let begins = self.offset;
                self.start = to + 1;
                self.searched = to + 1;
                self.offset += length as u64 + 1;
                if self.skipped > 0 {
                    let skipped = std::mem::take(&mut self.skipped);
                    return Ok(Some(Line::TooLong {
                        offset: begins - skipped,
                        length: skipped + length as u64,
                    }));
                }
                let bytes = &self.buffer[from..to];
                let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
                if is_blank && !self.with_blanks {
                    continue;
                }
                return Ok(Some(Line::Text {
                    offset: begins,
                    bytes: &self.buffer[from..to],
                }));
            }
            self.searched = self.end;
            if self.finished {
                return Ok(None);
            }
            if self.end - self.start > self.max {
                let length = (self.end - self.start) as u64;
                self.skipped += length;
                self.offset += length;
                (self.start, self.end, self.searched) = (0, 0, 0);
            }
            self.fill()?;
        }
    }

    /// Returns the bytes after the last complete line.
    pub fn rest(&self) -> &[u8] {
        match self.skipped {
            0 => &self.buffer[self.start..self.end],
            _ => &[],
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 && self.buffer.len() - self.end < READ {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < READ {
            let more = self.buffer.len().max(READ);
            self.buffer.resize(self.buffer.len() + more, 0);
        }
        let read = loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.finished = read == 0;
        self.end += read;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(text: &str, max: usize) -> (Vec<String>, u64) {
        let mut lines = Lines::new(text.as_bytes(), 0, max);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(match line {
                Line::Text { offset, bytes } => {
                    format!("{offset} {}", String::from_utf8_lossy(bytes))
                }
                Line::TooLong { offset, length } => format!("{offset} too long: {length}"),
            });
        }
        (found, lines.offset())
    }

    #[test]
    fn the_last_line_waits_for_its_end() {
        let (lines, offset) = read("one\n\ntwo\nthr", 100);
        assert_eq!(lines, ["0 one", "5 two"]);
        assert_eq!(offset, 9);
        assert_eq!(read("one\nthree\n", 100).0, ["0 one", "4 three"]);
        assert_eq!(read("", 100), (Vec::new(), 0));
    }

    #[test]
    fn a_line_over_the_bound_is_skipped() {
        let long = "x".repeat(READ * 3);
        let text = format!("a\n{long}\nb\n");
        let (lines, offset) = read(&text, READ);
        assert_eq!(lines[0], "0 a");
        assert_eq!(lines[1], format!("2 too long: {}", long.len()));
        assert_eq!(lines[2], format!("{} b", long.len() + 3));
        assert_eq!(offset, text.len() as u64);
        // Without its end, it is read again next time.
        let (lines, offset) = read(&format!("a\n{long}"), READ);
        assert_eq!(lines, ["0 a"]);
        assert_eq!(offset, 2);
    }
}
