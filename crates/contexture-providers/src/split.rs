//! Splits JSON: the fields of an object and the values of a list, each as
//! written.
//!
//! A body is checked once, when it arrives. Its parts are then found only by
//! their brackets and quotes, so that a long text is skipped at the speed of a
//! byte search. For text that is not JSON, the result is unspecified.

use std::borrow::Cow;

use contexture_core::json;
use memchr::memchr2;

/// Returns the fields of an object with their values, in order, or `None` if
/// `json` is not an object.
pub(crate) fn fields(json: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut cursor = Cursor::open(json, b'{')?;
    let mut fields = Vec::new();
    while !cursor.closes(b'}')? {
        let key = cursor.value()?;
        let key = match key.as_bytes() {
            [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => {
                Cow::Borrowed(key.get(1..key.len() - 1)?)
            }
            _ => Cow::Owned(serde_json::from_str(key).ok()?),
        };
        cursor.skip_space();
        cursor.take(b':')?;
        cursor.skip_space();
        fields.push((key, cursor.value()?));
        cursor.skip_comma();
    }
    cursor.is_done().then_some(fields)
}

/// Returns the values of a list, in order, or `None` if `json` is not a list.
pub(crate) fn items(json: &str) -> Option<Vec<&str>> {
    let mut cursor = Cursor::open(json, b'[')?;
    let mut items = Vec::new();
    while !cursor.closes(b']')? {
        items.push(cursor.value()?);
        cursor.skip_comma();
    }
    cursor.is_done().then_some(items)
}

/// Returns the content of a JSON text without escapes, or `None` for another
/// value.
pub(crate) fn plain_text(json: &str) -> Option<&str> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    plain(inner.as_bytes()).is_none().then_some(inner)
}

/// A place in a text.
struct Cursor<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the position after the bracket that opens a value.
    fn open(json: &'a str, bracket: u8) -> Option<Self> {
        let mut cursor = Self { json, at: 0 };
        cursor.skip_space();
        cursor.take(bracket)?;
        cursor.skip_space();
        Some(cursor)
    }

    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn skip_comma(&mut self) {
        self.skip_space();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_space();
        }
    }

    /// Returns whether `bracket` is next, and passes it. There is nothing to
    /// return at the end of the text.
    fn closes(&mut self, bracket: u8) -> Option<bool> {
        let is_next = self.peek()? == bracket;
        self.at += usize::from(is_next);
        Some(is_next)
    }

    fn is_done(&mut self) -> bool {
        self.skip_space();
        self.at == self.json.len()
    }

    /// Passes a value and returns it.
    fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        match self.peek()? {
            b'"' => self.skip_string()?,
            b'{' | b'[' => self.skip_nested()?,
            _ => {
                while !matches!(
                    self.peek(),
                    None | Some(b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')
                ) {
                    self.at += 1;
                }
            }
        }
        (self.at > start).then(|| self.json.get(start..self.at))?
    }

    /// Passes the text whose quote is next.
    fn skip_string(&mut self) -> Option<()> {
        let bytes = self.json.as_bytes();
        let mut at = self.at + 1;
        loop {
            at += plain(bytes.get(at..)?)?;
            if bytes[at] == b'"' {
                self.at = at + 1;
                return Some(());
            }
            // The character after a backslash belongs to it.
            at += 2;
        }
    }

    /// Passes the object or list whose bracket is next.
    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// Returns a word that is not zero if a quote or a backslash is in `word`. Its
/// lowest bit belongs to the first of them.
fn marks(word: u64) -> u64 {
    json::flag(word, b'"') | json::flag(word, b'\\')
}

/// The bytes of text that are searched eight at a time. Code and prose have an
/// escape in most lines, so that a search for long distances rarely pays.
const NEAR: usize = 96;

/// Returns the number of bytes before the first quote or backslash.
fn plain(bytes: &[u8]) -> Option<usize> {
    let near = &bytes[..bytes.len().min(NEAR)];
    for (i, chunk) in near.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(chunk.try_into().ok()?);
        let found = marks(word);
        if found != 0 {
            return Some(i * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let passed = near.len() / 8 * 8;
    memchr2(b'"', b'\\', &bytes[passed..]).map(|found| passed + found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::any_json::json;

    #[test]
    fn parts_keep_their_bytes() {
        let json = r#" { "a" : "x\"}]" , "b\n":[1, {"c":"]"}],"n":-1.0e2,"a":null } "#;
        let expected = [
            ("a", r#""x\"}]""#),
            ("b\n", r#"[1, {"c":"]"}]"#),
            ("n", "-1.0e2"),
            ("a", "null"),
        ];
        let expected = expected.map(|(key, value)| (Cow::Borrowed(key), value));
        assert_eq!(fields(json).unwrap(), expected);
        assert_eq!(
            items("[ 1 , [ ] ,{},\"\\\\\"]").unwrap(),
            ["1", "[ ]", "{}", r#""\\""#]
        );
        assert_eq!(items("[]").unwrap(), [""; 0]);
        assert_eq!(fields("{ }").unwrap(), []);
    }

    #[test]
    fn the_end_of_a_text_is_found_at_any_distance() {
        for length in 0..200 {
            for mark in ["\"", "\\"] {
                let text = format!("{}{mark}ü\"\\", "ä".repeat(length / 2));
                let found = text.find(mark);
                assert_eq!(plain(text.as_bytes()), found, "{text}");
            }
            let text = "x".repeat(length);
            assert_eq!(plain(text.as_bytes()), None);
        }
    }

    #[test]
    fn truncated_content_has_no_parts() {
        for json in [
            "",
            "{",
            "[",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":\"",
            "[\"\\",
            "[1,",
            "[{]",
            "null",
        ] {
            assert_eq!(fields(json), None, "{json}");
            assert_eq!(items(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_are_those_that_a_parser_finds(value in json(), pretty: bool) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            let parse = |part: &str| serde_json::from_str::<Value>(part).unwrap();
            match &value {
                Value::Object(object) => {
                    let found = fields(&text).unwrap();
                    prop_assert_eq!(found.len(), object.len());
                    for (key, part) in found {
                        prop_assert_eq!(&parse(part), &object[&*key]);
                    }
                }
                Value::Array(list) => {
                    let found: Vec<Value> = items(&text).unwrap().into_iter().map(parse).collect();
                    prop_assert_eq!(&found, list);
                }
                _ => {
                    prop_assert_eq!(fields(&text), None);
                    prop_assert_eq!(items(&text), None);
                }
            }
        }

        #[test]
        fn any_text_is_taken_apart_without_a_panic(json in "[\"\\\\{}\\[\\],: a1é]{0,40}") {
            fields(&json);
            items(&json);
        }
    }
}
