//! Finds a field of a JSON object without reading the others.
//!
//! Rows of transcripts have long fields that are not needed. A parser checks
//! every escape of them. A search for quotes is several times as fast.

use std::ops::Range;

/// Returns where the value of a top-level field is. `None` if there is no such
/// field, or if the text is not an object. The text before the field and the
/// value are not checked completely.
pub(crate) fn find(text: &str, name: &str) -> Option<Range<usize>> {
    let mut fields = Fields::of(text)?;
    let (_, value) = fields.find(|(found, _)| *found == name)?;
    Some(value)
}

/// The fields of an object, with the place of each value.
pub(crate) struct Fields<'t> {
    text: &'t str,
    // Before the next name. `None` after the last field, or if the text is not
    // an object.
    at: Option<usize>,
    is_complete: bool,
}

impl<'t> Fields<'t> {
    /// Returns the fields of a text. `None` if it is not an object with fields.
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        let bytes = text.as_bytes();
        let at = skip_blanks(bytes, 0);
        (bytes.get(at) == Some(&b'{')).then_some(Self {
            text,
            at: Some(at + 1),
            is_complete: false,
        })
    }

    /// Returns true if the object was read to its end, and nothing follows it.
    pub(crate) fn are_complete(&self) -> bool {
        self.is_complete
    }
}

/// Returns names as they are written, and the places of their values.
impl<'t> Iterator for Fields<'t> {
    type Item = (&'t str, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.text.as_bytes();
        let begins = skip_blanks(bytes, self.at.take()?);
        if bytes.get(begins) != Some(&b'"') {
            return None;
        }
        let ends = skip_string(bytes, begins)?;
        let colon = skip_blanks(bytes, ends);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let value = skip_blanks(bytes, colon + 1);
        let after = skip_value(bytes, value)?;
        let next = skip_blanks(bytes, after);
        match bytes.get(next) {
            Some(b',') => self.at = Some(next + 1),
            Some(b'}') => self.is_complete = skip_blanks(bytes, next + 1) == bytes.len(),
            _ => return None,
        }
        Some((&self.text[begins + 1..ends - 1], value..after))
    }
}

/// Reads a JSON string. Returns `None` if it is not valid, and for escapes of
/// characters by their number, which are rare: a parser reads such strings.
pub(crate) fn string(raw: &str) -> Option<String> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    // Without a branch in the loop, many bytes are compared at once.
    let has_control = |bytes: &[u8]| bytes.iter().fold(false, |any, byte| any | (*byte < 0x20));
    if has_control(inner.as_bytes()) {
        return None;
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr2(b'\\', b'"', rest.as_bytes()) {
        // The string ends here, and more follows.
        if rest.as_bytes()[at] == b'"' {
            return None;
        }
        text.push_str(&rest[..at]);
        text.push(match rest.as_bytes().get(at + 1)? {
            b'n' => '\n',
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            _ => return None,
        });
        rest = &rest[at + 2..];
    }
    text.push_str(rest);
    Some(text)
}

/// Writes a text to `out`, with a part of it replaced by another text.
pub(crate) fn replace(text: &str, part: Range<usize>, with: &str, out: &mut String) {
    out.clear();
    out.push_str(&text[..part.start]);
    out.push_str(with);
    out.push_str(&text[part.end..]);
}

fn skip_blanks(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Returns the end of the string that begins with the quote at `at`.
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    loop {
        end += memchr::memchr(b'"', bytes.get(end..)?)?;
        // An even number of backslashes does not escape the quote.
        let before = bytes[at + 1..end].iter().rev();
        let escapes = before.take_while(|byte| **byte == b'\\').count();
        end += 1;
        if escapes % 2 == 0 {
            return Some(end);
        }
    }
}

/// Returns the end of the value at `at`.
fn skip_value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = skip_string(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' if depth == 0 => return None,
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b':' | b']' | b'}' | b' ' | b'"');
                at += bytes[at..].iter().position(is_end)?;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        find(text, name).map(|part| &text[part])
    }

    #[test]
    fn a_field_of_the_object_itself_is_found() {
        let text = r#" { "a" : {"x":[1,"}"],"y":"\"x\":"} , "b":"\\", "y":"q\\\"", "n":-1.5e3,
            "t":[], "x" : [ {"x":2}, "\\\\" ] , "z":true }"#;
        for (name, expected) in [
            ("a", r#"{"x":[1,"}"],"y":"\"x\":"}"#),
            ("b", r#""\\""#),
            ("y", r#""q\\\"""#),
            ("n", "-1.5e3"),
            ("t", "[]"),
            ("x", r#"[ {"x":2}, "\\\\" ]"#),
            ("z", "true"),
        ] {
            assert_eq!(value(text, name), Some(expected), "{name}");
        }
        assert_eq!(value(text, "2"), None);
        let mut fields = Fields::of(text).unwrap();
        let names: String = fields.by_ref().map(|(name, _)| name).collect();
        assert_eq!(names, "abyntxz");
        assert!(fields.are_complete());
    }

    #[test]
    fn a_string_is_what_a_parser_reads() {
        for raw in [
            r#""""#,
            "\"plain é \u{1F600}\"",
            r#""a\nb\tc\r\b\f\/\"\\""#,
            r#""\\\\""#,
            r#""\\n""#,
        ] {
            assert_eq!(string(raw), serde_json::from_str(raw).ok(), "{raw}");
            assert!(string(raw).is_some(), "{raw}");
        }
        for none in [
            "",
            "\"",
            "a",
            r#""a"b""#,
            r#""\""#,
            r#""\x""#,
            r#""\u0041""#,
            "\"\n\"",
            "\"\u{1}\"",
            r#""a" "#,
            r#" "a""#,
        ] {
            assert_eq!(string(none), None, "{none}");
        }
    }

    #[test]
    fn bad_json_has_no_field() {
        for bad in [
            "",
            "x",
            "[]",
            "{",
            "{}",
            r#"{"x"#,
            r#"{"x""#,
            r#"{"x":"#,
            r#"{"x":}"#,
            r#"{"x":"1\""#,
            r#"{"x":[1"#,
            r#"{"x":]}"#,
            r#"{"x",1}"#,
            r#"{1:2}"#,
            r#"{"x":,}"#,
            r#"{"a":1 "x":2}"#,
        ] {
            assert_eq!(value(bad, "x"), None, "{bad}");
        }
    }

    #[test]
    fn a_part_is_replaced() {
        let mut out = String::from("before");
        let text = r#"{"a":1,"x":{"y":"z"},"b":2}"#;
        if let Some(part) = find(text, "x") {
            replace(text, part, "null", &mut out);
        }
        assert_eq!(out, r#"{"a":1,"x":null,"b":2}"#);
    }
}
