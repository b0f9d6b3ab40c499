//! The digest of a JSON value that does not depend on the order of its fields:
//! the SHA-256 of the value without blanks and with sorted keys.
//!
//! Strings and numbers are hashed as they are spelled. Programs that write such
//! digests spell them in one way.

use contexture_engine::snapshot::recorded::PathPart;
use sha2::{Digest, Sha256};

use crate::fields::skip_string;

/// A SHA-256 hash.
pub(crate) type Sha = [u8; 32];

/// A JSON value by its position in the text.
enum Node<'a> {
    Scalar(&'a str),
    List(Vec<Node<'a>>),
    Object(Vec<(&'a str, Node<'a>)>),
}

/// The maximum nesting depth of a value.
const MAX_DEPTH: usize = 128;

/// Returns the digest of a message. A `content` that is a text is hashed as a
/// list with one text block. Returns `None` for text that is not JSON or is
/// nested too deeply.
pub(crate) fn message_digest(raw: &str) -> Option<Sha> {
    Some(digest_node(&mut message(raw)?))
}

/// Reads a message. A `content` that is a text becomes a list with one text block.
fn message(raw: &str) -> Option<Node<'_>> {
    let mut node = parse(raw)?;
    if let Node::Object(fields) = &mut node {
        for (name, value) in fields {
            if *name == "\"content\""
                && let Node::Scalar(text) = value
                && text.starts_with('"')
            {
                let block = vec![
                    ("\"text\"", Node::Scalar(text)),
                    ("\"type\"", Node::Scalar("\"text\"")),
                ];
                *value = Node::List(vec![Node::Object(block)]);
            }
        }
    }
    Some(node)
}

/// A cache mark: the path to the block that has it, and its value as JSON.
pub(crate) type Mark<'a> = (&'a [PathPart], &'a str);

/// Adds a message with its marks to a hash, as [`message_digest`] does. Returns
/// `None` for text that is not JSON, and for a mark with an invalid path.
pub(crate) fn hash_message(raw: &str, marks: &[Mark<'_>], out: &mut Sha256) -> Option<()> {
    let mut node = message(raw)?;
    for (path, value) in marks {
        set_mark(&mut node, path, value)?;
    }
    write(&mut node, out);
    Some(())
}

/// Returns the fields of objects and their marks in the hashed form, sorted:
/// those before the name `at`, each with a comma after it, and those after it,
/// each with a comma before it. Returns `None` if they are not JSON objects.
pub(crate) fn split_fields(
    objects: [&str; 2],
    marks: &[Mark<'_>],
    at: &str,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for object in objects {
        let Node::Object(fields) = parse(object)? else {
            return None;
        };
        all.extend(fields);
    }
    let mut whole = Node::Object(all);
    for (path, value) in marks {
        set_mark(&mut whole, path, value)?;
    }
    let Node::Object(mut all) = whole else {
        return None;
    };
    all.sort_by_key(|(name, _)| *name);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (name, value) in &mut all {
        let is_before = name.trim_matches('"') < at;
        let out = match is_before {
            true => &mut before,
            false => &mut after,
        };
        if !is_before {
            out.push(b',');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        write(value, out);
        if is_before {
            out.push(b',');
        }
    }
    Some((before, after))
}

fn set_mark<'a>(node: &mut Node<'a>, path: &[PathPart], value: &'a str) -> Option<()> {
    let Some((first, rest)) = path.split_first() else {
        let Node::Object(fields) = node else {
            return None;
        };
        fields.push(("\"cache_control\"", parse(value)?));
        return Some(());
    };
    match (node, first) {
        (Node::List(items), PathPart::Index(at)) => set_mark(items.get_mut(*at)?, rest, value),
        (Node::Object(fields), PathPart::Field(wanted)) => {
            let mut fields = fields.iter_mut();
            let (_, inner) = fields.find(|(name, _)| name.trim_matches('"') == wanted)?;
            set_mark(inner, rest, value)
        }
        _ => None,
    }
}

/// Returns the digest of a value.
pub(crate) fn digest(raw: &str) -> Option<Sha> {
    Some(digest_node(&mut parse(raw)?))
}

fn digest_node(node: &mut Node<'_>) -> Sha {
    let mut hasher = Sha256::new();
    write(node, &mut hasher);
    hasher.finalize().into()
}

/// Receives the bytes of a value.
trait Out {
    fn put(&mut self, bytes: &[u8]);
}

impl Out for Sha256 {
    fn put(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Out for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

fn write(node: &mut Node<'_>, out: &mut impl Out) {
    match node {
        Node::Scalar(text) => out.put(text.as_bytes()),
        Node::List(items) => {
            out.put(b"[");
            for (i, item) in items.iter_mut().enumerate() {
                if i > 0 {
                    out.put(b",");
                }
                write(item, out);
            }
            out.put(b"]");
        }
        Node::Object(fields) => {
            fields.sort_by_key(|(name, _)| *name);
            out.put(b"{");
            for (i, (name, value)) in fields.iter_mut().enumerate() {
                if i > 0 {
                    out.put(b",");
                }
                out.put(name.as_bytes());
                out.put(b":");
                write(value, out);
            }
            out.put(b"}");
        }
    }
}

fn parse(raw: &str) -> Option<Node<'_>> {
    let mut parser = Parser { raw, at: 0 };
    let node = parser.value(0)?;
    parser.blanks();
    (parser.at == raw.len()).then_some(node)
}

struct Parser<'a> {
    raw: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn blanks(&mut self) {
        let bytes = self.raw.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.raw.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.at = skip_string(self.raw.as_bytes(), start)?;
        self.raw.get(start..self.at)
    }

    fn value(&mut self, depth: usize) -> Option<Node<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'"' => Some(Node::Scalar(self.string()?)),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                if self.peek()? == b']' {
                    self.at += 1;
                    return Some(Node::List(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    match self.peek()? {
                        b',' => self.at += 1,
                        b']' => break,
                        _ => return None,
                    }
                }
                self.at += 1;
                Some(Node::List(items))
            }
            b'{' => {
                self.at += 1;
                let mut fields = Vec::new();
                if self.peek()? == b'}' {
                    self.at += 1;
                    return Some(Node::Object(fields));
                }
                loop {
                    if self.peek()? != b'"' {
                        return None;
                    }
                    let name = self.string()?;
                    self.take(b':')?;
                    fields.push((name, self.value(depth + 1)?));
                    match self.peek()? {
                        b',' => self.at += 1,
                        b'}' => break,
                        _ => return None,
                    }
                }
                self.at += 1;
                Some(Node::Object(fields))
            }
            _ => {
                let start = self.at;
                let rest = &self.raw.as_bytes()[start..];
                let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r');
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                self.at += length;
                let text = self.raw.get(start..self.at)?;
                (!text.is_empty()).then_some(Node::Scalar(text))
            }
        }
    }
}

/// Reads 64 hexadecimal digits.
pub(crate) fn sha_from_hex(digits: &str) -> Option<Sha> {
    contexture_core::ContentHash::from_hex(digits).map(|hash| *hash.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn sha(text: &str) -> Sha {
        Sha256::digest(text.as_bytes()).into()
    }

    #[test]
    fn keys_are_sorted_at_every_level() {
        let raw = r#"{ "b": [1, {"d": "x\"}", "c": null}], "a": {} , "e": [] }"#;
        let sorted = r#"{"a":{},"b":[1,{"c":null,"d":"x\"}"}],"e":[]}"#;
        assert_eq!(digest(raw), Some(sha(sorted)));
    }

    #[test]
    fn a_text_is_hashed_as_one_block() {
        let text = r#"{"role":"user","content":"hi"}"#;
        let list = r#"{"content":[{"type":"text","text":"hi"}],"role":"user"}"#;
        assert_eq!(message_digest(text), message_digest(list));
        assert_eq!(
            message_digest(text),
            Some(sha(
                r#"{"content":[{"text":"hi","type":"text"}],"role":"user"}"#
            ))
        );
    }

    #[test]
    fn bad_json_has_no_digest() {
        for bad in ["", "{", "[1", "{\"a\"}", "{\"a\":1]", "\"x", "[1,]", "1 2"] {
            assert_eq!(digest(bad), None, "{bad}");
        }
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert_eq!(digest(&deep), None);
    }
}
