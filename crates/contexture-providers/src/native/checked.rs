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

    /// Passes a text, eight bytes at a time.
    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        let bytes = self.json.as_bytes();
        let mut at = self.at;
        loop {
            while let Some(chunk) = bytes.get(at..)?.first_chunk() {
                let found = json::escapes(u64::from_le_bytes(*chunk));
                if found != 0 {
                    at += found.trailing_zeros() as usize / 8;
                    break;
                }
                at += 8;
            }
            match bytes.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(());
                }
                b'\\' => at += escape(&bytes[at..])?,
                // A control character must be escaped.
                0..0x20 => return None,
                // One of the last bytes of the body.
                _ => at += 1,
            }
        }
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

/// Returns the length of the escape at the beginning of `bytes`, if it is one of
/// JSON's.
#[inline(always)]
fn escape(bytes: &[u8]) -> Option<usize> {
    let second = *bytes.get(1)?;
    if IS_ESCAPE[usize::from(second)] {
        return Some(2);
    }
    let digits = bytes.get(2..6).filter(|_| second == b'u')?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(6)
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
