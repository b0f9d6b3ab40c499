//! Reads a body in one pass: checks that it is JSON, and finds the parts of its
//! outer levels.
//!
//! A request has its conversation in a list of objects. Their fields are found
//! while the body is checked, so that its bytes are looked at once.

use std::borrow::Cow;
use std::rc::Rc;

use contexture_core::json;

use super::node::{Node, Parts, Step, ValuePath};

/// The levels whose parts are found: the body, its lists, and their objects.
const LEVELS: usize = 3;

/// The levels of objects and lists that are checked here.
const MOST_LEVELS: usize = 64;

/// Reads a body. Returns `None` if it is not JSON, or nested too deeply for
/// this reader.
pub(super) fn read(json: &str) -> Option<Node<'_>> {
    let mut reader = Reader { json, at: 0 };
    reader.skip_space();
    let node = reader.node(ValuePath::root(String::new()), LEVELS)?;
    reader.skip_space();
    (reader.at == json.len()).then_some(node)
}

struct Reader<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads a value, and the parts of its first `levels` levels.
    fn node(&mut self, place: ValuePath<'a>, levels: usize) -> Option<Node<'a>> {
        let start = self.at;
        let parts = match self.peek()? {
            b'{' if levels > 0 => {
                let around = Rc::new(place.clone());
                let mut fields = Vec::new();
                self.each(b'}', |reader| {
                    let name = reader.name()?;
                    let place = ValuePath::within(&around, Step::Field(name.clone()));
                    fields.push((name, reader.node(place, levels - 1)?));
                    Some(())
                })?;
                Some(Parts::Object(fields))
            }
            b'[' if levels > 0 => {
                let around = Rc::new(place.clone());
                let mut items = Vec::new();
                self.each(b']', |reader| {
                    let place = ValuePath::within(&around, Step::Index(items.len()));
                    items.push(reader.node(place, levels - 1)?);
                    Some(())
                })?;
                Some(Parts::List(items))
            }
            _ => {
                self.value(MOST_LEVELS)?;
                None
            }
        };
        Some(Node::with_parts(&self.json[start..self.at], place, parts))
    }

    /// Passes a value.
    fn value(&mut self, levels: usize) -> Option<()> {
        let levels = levels.checked_sub(1)?;
        match self.peek()? {
            b'"' => self.string(),
            b'{' => self.each(b'}', |reader| {
                reader.string()?;
                reader.colon()?;
                reader.value(levels)
            }),
            b'[' => self.each(b']', |reader| reader.value(levels)),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    /// Passes the object or list whose bracket is next, and reads each of its
    /// parts with `part`.
    fn each(&mut self, close: u8, mut part: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.skip_space();
        if self.peek()? == close {
            self.at += 1;
            return Some(());
        }
        loop {
            part(self)?;
            self.skip_space();
            match self.next()? {
                b',' => self.skip_space(),
                byte => return (byte == close).then_some(()),
            }
        }
    }

    /// Passes the name of a field and the colon after it.
    fn name(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        self.string()?;
        let key = &self.json[start..self.at];
        self.colon()?;
        match key.contains('\\') {
            true => serde_json::from_str(key).ok().map(Cow::Owned),
            false => Some(Cow::Borrowed(&key[1..key.len() - 1])),
        }
    }

    fn colon(&mut self) -> Option<()> {
        self.skip_space();
        self.take(b':')?;
        self.skip_space();
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let rest = &self.json.as_bytes()[self.at..];
        rest.starts_with(word.as_bytes())
            .then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Passes at least one digit.
    fn digits(&mut self) -> Option<()> {
        self.next()?.is_ascii_digit().then(|| self.skip_digits())
    }

    fn skip_digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    /// Passes a text.
    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        let bytes = self.json.as_bytes();
        // Most names are short.
        if let Some(plain) = bytes[self.at..].first_chunk().and_then(short_text) {
            self.at += plain + 1;
            return Some(());
        }
        // Whether the first byte of a block belongs to the escape before it.
        let mut is_escaped = false;
        while let Some(block) = bytes[self.at..].first_chunk() {
            let mut found = marks(block);
            found.positions &= !u64::from(is_escaped);
            is_escaped = false;
            let mut end = BLOCK;
            while found.positions != 0 {
                let at = found.positions.trailing_zeros() as usize;
                if block[at] == b'"' {
                    end = at;
                    break;
                }
                check_escape(&bytes[self.at + at..])?;
                // The character after a backslash is not a mark.
                is_escaped = at + 1 == BLOCK;
                found.positions &= u64::MAX.checked_shl(at as u32 + 2).unwrap_or(0);
            }
            // A control character must be escaped. One after the text is a space.
            if found.has_control && block[..end].iter().any(|byte| *byte < 0x20) {
                return None;
            }
            self.at += end;
            if end < BLOCK {
                self.at += 1;
                return Some(());
            }
        }
        self.at += usize::from(is_escaped);
        // The last bytes of the body.
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    check_escape(&bytes[self.at..])?;
                    self.at += 2;
                }
                byte if byte < 0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }
}

/// Returns the length of the text that `bytes` begin with, if it ends there and has
/// nothing to check.
#[inline(always)]
fn short_text(bytes: &[u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(*bytes);
    let quotes = json::flag(word, b'"');
    let others = json::flag(word, b'\\') | json::below(word, 0x20);
    // The first quote comes before all others.
    let is_first = quotes != 0 && others.trailing_zeros() > quotes.trailing_zeros();
    is_first.then_some(quotes.trailing_zeros() as usize / 8)
}

/// The bytes of a text that are searched at once.
const BLOCK: usize = 64;

/// The marks of a block of text.
struct Marks {
    /// The positions of quotes and backslashes, as bits.
    positions: u64,
    /// Whether there is a control character.
    has_control: bool,
}

/// Returns the marks of a block. The loops have no branches, so that they handle
/// many bytes at once.
#[inline(always)]
fn marks(block: &[u8; BLOCK]) -> Marks {
    // A byte that is a mark becomes the bit of its position among eight.
    let mut bits = [0_u8; BLOCK];
    let mut lowest = u8::MAX;
    for (i, (bit, byte)) in bits.iter_mut().zip(block).enumerate() {
        let is_mark = (*byte == b'"') | (*byte == b'\\');
        *bit = if is_mark { 1 << (i % 8) } else { 0 };
        lowest = lowest.min(*byte);
    }
    let mut positions = 0;
    for (i, eight) in bits.as_chunks::<8>().0.iter().enumerate() {
        // The highest byte of the product is the sum of all eight.
        const ONES: u64 = 0x0101_0101_0101_0101;
        let sum = u64::from_le_bytes(*eight).wrapping_mul(ONES) >> 56;
        positions |= sum << (8 * i);
    }
    Marks {
        positions,
        has_control: lowest < 0x20,
    }
}

/// Whether a byte after a backslash completes an escape. A table has no branches,
/// which would be hard to predict.
const IS_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut rest: &[u8] = b"\"\\/bfnrt";
    while let [byte, after @ ..] = rest {
        table[*byte as usize] = true;
        rest = after;
    }
    table
};

/// Fails if the escape at the beginning of `bytes` is not one of JSON's.
#[inline(always)]
fn check_escape(bytes: &[u8]) -> Option<()> {
    let escape = *bytes.get(1)?;
    if IS_ESCAPE[usize::from(escape)] {
        return Some(());
    }
    let digits = bytes.get(2..6).filter(|_| escape == b'u')?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::any_json::json;

    /// Reads a body, and compares the verdict and the parts with a parser's.
    fn check(json: &str) {
        let parsed: Result<&RawValue, _> = serde_json::from_str(json);
        let read = read(json);
        assert_eq!(read.is_some(), parsed.is_ok(), "{json}");
        let (Some(node), Ok(raw)) = (read, parsed) else {
            return;
        };
        assert_eq!(node.raw, raw.get());
        same_parts(&node, &Node::of_json(json));
    }

    /// Compares parts that were found with those that are found on demand.
    fn same_parts(read: &Node<'_>, split: &Node<'_>) {
        assert_eq!((read.raw, read.path()), (split.raw, split.path()));
        if read.is_object() {
            let (read, split) = (read.each_field().unwrap(), split.each_field().unwrap());
            assert_eq!(read.len(), split.len());
            for (read, split) in read.iter().zip(split) {
                assert_eq!(read.0, split.0);
                same_parts(&read.1, &split.1);
            }
        }
        if read.is_list() {
            let (read, split) = (read.items().unwrap(), split.items().unwrap());
            assert_eq!(read.len(), split.len());
            let both = read.iter().zip(&split);
            both.for_each(|(read, split)| same_parts(read, split));
        }
    }

    #[test]
    fn only_json_is_read() {
        for json in [
            r#" { "a" : [ 1 , -2.5e+3 , 0.0 , "x\"\u00e9\n" , { } , [ ] ] , "b\n" : null } "#,
            "[true,false,null,[[[[1]]]]]",
            "\"text\"",
            "12",
            "",
            " ",
            "{",
            "[1,]",
            "[,1]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":}",
            "[01]",
            "[1.]",
            "[.5]",
            "[-]",
            "[1e]",
            "[1e+]",
            "[+1]",
            "[nul]",
            "[truefalse]",
            "[\"a\nb\"]",
            "[\"\u{7f}\u{1}\"]",
            "[\"\\x\"]",
            "[\"\\u12g4\"]",
            "[\"\\u12\"]",
            "[\"\\",
            "[\"open",
            "[1] 2",
            "{\"a\":1}}",
            "[\"ä\u{2028}\"]",
        ] {
            check(json);
        }
        // Deeper values are left to the parser.
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        assert!(read(&deep).is_none());
    }

    proptest! {
        #[test]
        fn json_is_read_as_a_parser_reads_it(value in json(), pretty: bool, cut in 0_usize..40) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            check(&text);
            let end = text.floor_char_boundary(text.len().saturating_sub(cut));
            check(&text[..end]);
        }

        #[test]
        fn marks_are_found_at_any_position(
            before in "[a-zü ]{0,70}",
            mark in prop_oneof![Just("\\n"), Just("\\\\"), Just("\\\""), Just("\\u00e9"), Just("\n"),
                Just("\u{1}"), Just("\\x"), Just("\\u00g0"), Just("\"")],
            after in "[a-zü\\n ]{0,70}",
            pretty in "[ \n]{0,3}",
        ) {
            check(&format!("[\"{before}{mark}{after}\"{pretty},{pretty}\"{after}{mark}\"{pretty}]"));
        }

        #[test]
        fn any_text_is_judged_as_a_parser_does(text in "[\"\\\\{}\\[\\],: a1.eu0\n\u{1}é-]{0,24}") {
            check(&text);
        }
    }
}
