//! Overwrites the remains of deleted rows in a database file.
//!
//! SQLite overwrites deleted rows and pages (`secure_delete`). When it
//! redistributes the rows of neighbouring pages, it leaves copies of rows in
//! the unused part of the source pages. On a full disk, SQLite also leaves free
//! pages as they are (`secure_delete = FAST`). [`scrub`] zeroes those parts and
//! pages in place: no data moves and no disk space is needed. Unused bytes are
//! never read, so a power failure in between is harmless.
//!
//! The caller holds the write lock, and the log is empty, so that the pages in
//! the file are the current ones.
//!
//! The layout of pages is in <https://www.sqlite.org/fileformat2.html>.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

/// How much of the file is read at a time, in bytes.
const PART_BYTES: usize = 1 << 20;

/// The file's header is at the beginning of the first page.
const HEADER_BYTES: usize = 100;

/// The number of pages from which a page's first byte no longer shows whether
/// the page is part of a table: overflow pages begin with a page number.
const MOST_PAGES: u64 = 1 << 24;

/// Zeroes the unused parts of all pages. Returns the number of changed pages.
pub(crate) fn scrub(file: &File) -> io::Result<u64> {
    let mut header = [0; HEADER_BYTES];
    read_at(file, &mut header, 0)?;
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(io::Error::other("the file has no SQLite header"));
    }
    let page_bytes = match number(&header, 16) {
        1 => 65_536,
        bytes => bytes,
    };
    let usable = page_bytes.saturating_sub(usize::from(header[20]));
    if !page_bytes.is_power_of_two() || page_bytes < 512 || usable < 480 {
        return Err(io::Error::other("the file has an unknown page size"));
    }
    let pages = file.metadata()?.len() / page_bytes as u64;
    if pages >= MOST_PAGES {
        return Err(io::Error::other(
            "the file is too large to overwrite deleted rows in place",
        ));
    }
    let free = free_pages(file, &header, page_bytes, usable, pages)?;
    let at_once = (PART_BYTES / page_bytes).max(1) as u64;
    let mut part = vec![0; at_once as usize * page_bytes];
    let mut changed = 0;
    let mut first = 0;
    while first < pages {
        let count = at_once.min(pages - first) as usize;
        let part = &mut part[..count * page_bytes];
        read_at(file, part, first * page_bytes as u64)?;
        for (i, page) in part.chunks_exact_mut(page_bytes).enumerate() {
            let at = first + i as u64;
            let begins = if at == 0 { HEADER_BYTES } else { 0 };
            let cleared = match free.get(&at) {
                Some(used) => zero(&mut page[*used..usable]),
                None => clear_unused(&mut page[..usable], begins),
            };
            if cleared {
                write_at(file, page, at * page_bytes as u64)?;
                changed += 1;
            }
        }
        first += count as u64;
    }
    if changed > 0 {
        file.sync_data()?;
    }
    Ok(changed)
}

/// Returns the free pages, beginning with 0 for the first page of the file, and how
/// many bytes of each are in use: the list of free pages is in some of them.
fn free_pages(
    file: &File,
    header: &[u8; HEADER_BYTES],
    page_bytes: usize,
    usable: usize,
    pages: u64,
) -> io::Result<BTreeMap<u64, usize>> {
    let mut free = BTreeMap::new();
    let mut next = long(header, 32);
    let mut page = vec![0; page_bytes];
    // Page numbers begin with 1. A list that is damaged ends.
    while next > 1 && next <= pages && !free.contains_key(&(next - 1)) {
        read_at(file, &mut page, (next - 1) * page_bytes as u64)?;
        let count = usize::try_from(long(&page, 4)).unwrap_or(usize::MAX);
        if count > usable / 4 - 2 {
            break;
        }
        free.insert(next - 1, 8 + 4 * count);
        for i in 0..count {
            let leaf = long(&page, 8 + 4 * i);
            if leaf > 1 && leaf <= pages {
                free.entry(leaf - 1).or_insert(0);
            }
        }
        next = long(&page, 0);
    }
    Ok(free)
}

/// Zeroes the unused parts of a page whose own header begins at `begins`.
/// Returns true when bytes changed. Pages that are not part of a table or an
/// index are not changed.
fn clear_unused(page: &mut [u8], begins: usize) -> bool {
    let header = match page[begins] {
        // Inner pages of an index or a table.
        2 | 5 => 12,
        // Leaves.
        10 | 13 => 8,
        _ => return false,
    };
    let cells = number(page, begins + 3);
    let content = match number(page, begins + 5) {
        0 => 65_536,
        content => content,
    };
    // The gap between the array of cell offsets and the cells.
    let gap = begins + header + 2 * cells;
    if content > page.len() || gap > content {
        return false;
    }
    let mut changed = zero(&mut page[gap..content]);
    // Free blocks between cells: each has the offset of the next block and its
    // size.
    let mut block = number(page, begins + 1);
    while block != 0 {
        if block < content || block + 4 > page.len() {
            return changed;
        }
        let (next, size) = (number(page, block), number(page, block + 2));
        if size < 4 || block + size > page.len() || (next != 0 && next <= block) {
            return changed;
        }
        changed |= zero(&mut page[block + 4..block + size]);
        block = next;
    }
    changed
}

/// Zeroes bytes. Returns true when some were not zero.
fn zero(bytes: &mut [u8]) -> bool {
    let any = bytes.iter().any(|byte| *byte != 0);
    if any {
        bytes.fill(0);
    }
    any
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    (number(bytes, at) as u64) << 16 | number(bytes, at + 2) as u64
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
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

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf with one cell at the end, a free block before it, and old bytes
    /// between the list of cells and the block.
    fn leaf() -> Vec<u8> {
        let mut page = vec![0xAA; 512];
        page[..8].copy_from_slice(&[13, 1, 200, 0, 1, 1, 200, 0]);
        // The cell is at 500; the free block at 456 has 44 bytes.
        page[8..10].copy_from_slice(&500_u16.to_be_bytes());
        page[456..460].copy_from_slice(&[0, 0, 0, 44]);
        page
    }

    #[test]
    fn only_unused_bytes_are_cleared() {
        let mut page = leaf();
        assert!(clear_unused(&mut page, 0));
        assert!(page[10..456].iter().all(|byte| *byte == 0));
        assert!(page[460..500].iter().all(|byte| *byte == 0));
        assert_eq!(page[456..460], [0, 0, 0, 44]);
        assert!(page[500..].iter().all(|byte| *byte == 0xAA));
        assert_eq!(page[..10], leaf()[..10]);
        assert!(!clear_unused(&mut page, 0));
    }

    #[test]
    fn free_pages_are_cleared() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA secure_delete = FAST; CREATE TABLE t (x)")
            .unwrap();
        let text = "canary ".repeat(2_000);
        for _ in 0..1_500 {
            db.execute("INSERT INTO t VALUES (?1)", [&text]).unwrap();
        }
        db.execute("INSERT INTO t VALUES ('stays')", []).unwrap();
        db.execute("DELETE FROM t WHERE x <> 'stays'", []).unwrap();
        drop(db);
        let has = |word: &str| {
            let bytes = std::fs::read(&path).unwrap();
            bytes
                .windows(word.len())
                .any(|part| part == word.as_bytes())
        };
        assert!(has("canary"));
        let file = File::options().read(true).write(true).open(&path).unwrap();
        assert!(scrub(&file).unwrap() > 1_000);
        assert_eq!(scrub(&file).unwrap(), 0);
        drop(file);
        assert!(!has("canary") && has("stays"));
        // The free pages can be used.
        let db = rusqlite::Connection::open(&path).unwrap();
        for _ in 0..1_500 {
            db.execute("INSERT INTO t VALUES (?1)", [&text]).unwrap();
        }
        let check: String = db
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok");
    }

    #[test]
    fn pages_that_are_not_understood_are_left_alone() {
        for (at, byte) in [(0, 0), (0, 7), (3, 0xFF), (5, 0xFF)] {
            let mut page = leaf();
            page[at] = byte;
            let before = page.clone();
            assert!(!clear_unused(&mut page, 0), "{at} {byte}");
            assert_eq!(page, before);
        }
        // A free block that refers to itself does not cause an endless loop.
        let mut page = leaf();
        page[456..458].copy_from_slice(&456_u16.to_be_bytes());
        assert!(clear_unused(&mut page, 0));
        assert_eq!(page[460], 0xAA);
    }
}
