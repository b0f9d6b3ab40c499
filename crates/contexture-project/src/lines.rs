//! [`Lines`]: a range of lines of a file, and files as content.

use std::ops::Range;

use contexture_core::guard::{Finding, FindingKind, Policy};
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

/// Splits `src/main.ts#L10-L80` into path and lines. Text that only resembles a
/// range is part of the name.
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
    let (raw, has_mark) = root.read_lines(path, max_file_bytes)?;
    // The final line end is that of the last line; no line begins after it.
    let text = raw.strip_suffix('\n').unwrap_or(&raw);
    if matches!(text, "" | "\r") {
        return Err(Unusable::new(Code::EMPTY, "is empty"));
    }
    let part = match lines {
        None => 0..text.len(),
        // The whole file is scanned for secrets: a line from the middle of a
        // private key cannot be recognised by itself.
        Some(range) => part_of(text, range)?,
    };
    let is_start = part.start == 0;
    let text = Text::guarded_lines(&raw, part, policy);
    Ok(match has_mark && is_start {
        true => text.with_finding(Finding {
            kind: FindingKind::Invisible,
            what: "U+FEFF".to_owned(),
            line: 1,
            count: 1,
        }),
        false => text,
    })
}

/// Returns the byte range of the lines of `range` in `text`, without the line
/// feed of the last one. A range that extends beyond the end stops there.
fn part_of(text: &str, range: Lines) -> Result<Range<usize>, Unusable> {
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
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, first: u32, last: u32) -> Text {
        let part = part_of(text, Lines { first, last }).expect("the lines are there");
        Text::guarded_part(text, part, Policy::default())
    }

    fn private_key() -> String {
        let body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gt\n";
        let kind = "OPENSSH PRIVATE KEY";
        format!(
            "first\n-----BEGIN {kind}-----\n{}-----END {kind}-----\nlast",
            body.repeat(8)
        )
    }

    #[test]
    fn content_is_sent_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let read = |raw: &str, lines: Option<Lines>| {
            std::fs::write(dir.path().join("a"), raw).unwrap();
            read(&root, 1_000, "a", lines, Policy::default())
        };
        let range = |first, last| Some(Lines { first, last });
        for (raw, lines, sent) in [
            ("a\nb\n", None, "a\nb"),
            ("a\nb", None, "a\nb"),
            ("a\n\n", None, "a\n"),
            ("a\r\nb\r\n", None, "a\r\nb\r"),
            ("a\r\nb", None, "a\r\nb"),
            ("a\r\n", range(1, 1), "a\r"),
            ("a\r\nb\r\nc\r\n", range(1, 2), "a\r\nb\r"),
            ("a\nb\n", range(2, 9), "b"),
        ] {
            let text = read(raw, lines).unwrap();
            assert_eq!(text.as_str(), sent, "{raw:?}");
            assert_eq!(text.findings(), [], "{raw:?}");
        }
        for (raw, lines) in [
            ("", None),
            ("\n", None),
            ("\r\n", None),
            ("a\r\n", range(2, 2)),
        ] {
            read(raw, lines).unwrap_err();
        }
        // Changes are reported: a byte order mark, and a lone carriage return.
        let codes = |raw: &str, lines| -> Vec<String> {
            let text = read(raw, lines).unwrap();
            assert!(!text.as_str().contains('\u{FEFF}'), "{raw:?}");
            text.findings().iter().map(|one| one.what.clone()).collect()
        };
        assert_eq!(codes("\u{FEFF}a\nb\n", None), ["U+FEFF"]);
        assert_eq!(codes("\u{FEFF}a\nb\n", range(2, 2)), [""; 0]);
        assert_eq!(codes("a\rb\r", None), ["U+000D"]);
    }

    #[test]
    fn any_lines_of_a_private_key_are_masked_and_stay_as_many() {
        let key = private_key();
        let count = key.lines().count() as u32;
        for first in 1..=count {
            for last in first..=count {
                let text = lines(&key, first, last);
                let shown = text.as_str();
                assert!(!shown.contains("b3BlbnNz"), "{first} to {last}: {shown}");
                let breaks = shown.matches('\n').count() as u32;
                assert_eq!(breaks, last - first, "{first} to {last}: {shown}");
                // The key is in the lines 3 to 10.
                let holds = first <= 10 && last >= 3;
                let found: Vec<_> = text.findings().iter().map(|f| (&*f.what, f.line)).collect();
                let at = 3_u32.saturating_sub(first) + 1;
                let expected = holds.then_some(("private-key", at));
                assert_eq!(found, expected.as_slice(), "{first} to {last}");
            }
        }
    }

    #[test]
    fn lines_keep_their_numbers_after_a_mask_of_many_lines() {
        let text = lines(&private_key(), 9, 12);
        assert_eq!(
            text.as_str(),
            "[secret masked: private-key]\n\n-----END OPENSSH PRIVATE KEY-----\nlast"
        );
    }

    #[test]
    fn a_value_is_masked_when_its_key_is_on_the_line_before() {
        let config = "db:\n  password:\n    q8Zr2LxV9mTn\n  port: 1\n";
        assert_eq!(
            lines(config, 3, 4).as_str(),
            "    [secret masked: password-assignment]\n  port: 1"
        );
        let plain = Text::guarded_part(config, 0..3, Policy::masking(false));
        assert_eq!(plain.as_str(), "db:");
    }
}
