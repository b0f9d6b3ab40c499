//! [`Lines`]: a range of lines of a file, and files as content.

use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Item, Text};

use crate::files::{Root, Unusable};

/// A range of lines, both ends included, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lines {
    /// The first line.
    pub first: u32,
    /// The last line.
    pub last: u32,
}

/// Splits `src/main.ts#L10-L80` into path and lines. What only resembles
/// a range is part of the name.
pub fn split_lines(written: &str) -> Result<(&str, Option<Lines>), String> {
    let Some((path, range)) = written.rsplit_once("#L") else {
        return Ok((written, None));
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (first, last.strip_prefix('L').unwrap_or(last)),
        None => (range, range),
    };
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last => {
            Ok((path, Some(Lines { first, last })))
        }
        (Ok::<u32, _>(_), Ok::<u32, _>(_)) => Err(format!(
            "`{written}` ends with an invalid line range; write it as `#L10-L80`"
        )),
        _ => Ok((written, None)),
    }
}

/// Returns the content of a pending item whose id names a file below `root`, and
/// perhaps lines of it.
pub fn load_file(root: &Root, max_file_bytes: u64, item: &Item) -> Content {
    let Content::Pending { policy, .. } = item.content else {
        return item.content.clone();
    };
    let id = &*item.id;
    let (path, lines) = match split_lines(id) {
        Ok((path, Some(lines))) if !root.exists(id) => (path, Some(lines)),
        _ => (id, None),
    };
    match read(root, max_file_bytes, path, lines, policy) {
        Ok(text) => Content::Ready(text),
        Err(unusable) => Content::Absent {
            code: unusable.code,
            reason: unusable.reason,
        },
    }
}

fn read(
    root: &Root,
    max_file_bytes: u64,
    path: &str,
    lines: Option<Lines>,
    policy: Policy,
) -> Result<Text, Unusable> {
    let text = root.read_text(path, max_file_bytes)?;
    if text.is_empty() {
        return Err(Unusable::new(Code::EMPTY, "is empty"));
    }
    match lines {
        None => Ok(Text::guarded(&text, policy)),
        Some(range) => Ok(Text::guarded(part_of(&text, range)?, policy)),
    }
}

/// Returns the lines of `text` that `range` names. A range that goes on behind
/// the end stops there.
fn part_of(text: &str, range: Lines) -> Result<&str, Unusable> {
    let mut starts =
        std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
    let first = range.first as usize - 1;
    let Some(start) = starts.nth(first) else {
        let count = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
        return Err(Unusable::new(
            Code::NO_SUCH_LINES,
            format!("has {count} lines; line {} does not exist", range.first),
        ));
    };
    let length = (range.last - range.first) as usize;
    let end = starts.nth(length).map_or(text.len(), |next| next - 1);
    let part = &text[start..end];
    Ok(part.strip_suffix('\r').unwrap_or(part))
}
