//! The lines of a text, and what makes two of them alike.

/// A line of more bytes than this may be shown in part.
pub(crate) const LONG_LINE: usize = 2000;

/// The lines of a text.
pub(crate) struct Lines<'t> {
    text: &'t str,
    // The start of each line, and the end of the text.
    starts: Vec<u32>,
    has_long: bool,
}

impl<'t> Lines<'t> {
    /// Returns the lines of a text, unless it is too long to be numbered.
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        let len = u32::try_from(text.len()).ok()?;
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at as u32 + 1));
        if text.ends_with('\n') {
            starts.pop();
        }
        starts.push(len);
        let has_long = starts
            .windows(2)
            .any(|pair| (pair[1] - pair[0]) as usize > LONG_LINE);
        Some(Self {
            text,
            starts,
            has_long,
        })
    }

    /// Returns the number of lines.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns true when some line is longer than is usual.
    pub(crate) fn has_long(&self) -> bool {
        self.has_long
    }

    /// Returns the start of a line, in bytes.
    pub(crate) fn start(&self, line: usize) -> usize {
        self.starts[line] as usize
    }

    /// Returns a line without its end.
    pub(crate) fn get(&self, line: usize) -> &'t str {
        let whole = self.with_end(line);
        whole.strip_suffix('\n').unwrap_or(whole)
    }

    /// Returns a line with its end, which the last one may lack.
    pub(crate) fn with_end(&self, line: usize) -> &'t str {
        &self.text[self.start(line)..self.start(line + 1)]
    }

    /// Returns each line without its end.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &'t str> + '_ {
        (0..self.len()).map(|line| self.get(line))
    }

    /// Returns the number of bytes of the lines from `from` up to `to`.
    pub(crate) fn bytes(&self, from: usize, to: usize) -> usize {
        self.start(to) - self.start(from)
    }
}

/// Returns a number that lines have in common which differ in numbers, times,
/// addresses and the like only.
pub(crate) fn likeness(line: &str) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut word = hash;
    let (mut in_word, mut has_digit) = (false, false);
    // A word with a digit in it counts as `#`.
    let mut close = |word: u64, has_digit: bool| {
        hash = (hash ^ if has_digit { 0x23 } else { word }).wrapping_mul(PRIME);
    };
    for &byte in line.as_bytes() {
        let is_word = byte.is_ascii_alphanumeric() || byte >= 0x80;
        if is_word {
            in_word = true;
            has_digit |= byte.is_ascii_digit();
            word = (word ^ u64::from(byte)).wrapping_mul(PRIME);
            continue;
        }
        if in_word {
            close(word, has_digit);
            (word, in_word, has_digit) = (0xcbf2_9ce4_8422_2325, false, false);
        }
        close(u64::from(byte), false);
    }
    if in_word {
        close(word, has_digit);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_line_ends() {
        let lines = |text: &str| -> Vec<String> {
            let lines = Lines::of(text).unwrap();
            lines.iter().map(str::to_owned).collect()
        };
        assert_eq!(lines("a\nb"), ["a", "b"]);
        assert_eq!(lines("a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(lines(""), [""]);
    }

    #[test]
    fn lines_are_alike_that_differ_in_numbers() {
        let alike = |a: &str, b: &str| likeness(a) == likeness(b);
        assert!(alike("GET /a 200 in 3ms", "GET /a 404 in 17ms"));
        assert!(alike("id 9f3a2b00", "id 17ccd0e1"));
        assert!(!alike("GET /a 200", "GET /b 200"));
        assert!(!alike("a b", "a  b"));
    }
}
