//! The digest of a JSON value that does not depend on the order of its fields:
//! the SHA-256 of the value without blanks and with sorted keys.
//!
//! Strings and numbers are hashed as they are spelled. Programs that write such
//! digests spell them in one way.

use sha2::{Digest, Sha256};

/// A SHA-256 hash.
pub(crate) type Sha = [u8; 32];

/// A JSON value by its position in the text.
enum Node<'a> {
    Scalar(&'a str),
    List(Vec<Node<'a>>),
    Object(Vec<(&'a str, Node<'a>)>),
}

/// How deep a value may be nested.
const MAX_DEPTH: usize = 128;

/// Returns the digest of a message. A `content` that is a text is hashed as a
/// list with one text block. `None` for what is not JSON or nested too deeply.
pub(crate) fn message_digest(raw: &str) -> Option<Sha> {
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
    Some(digest_node(&mut node))
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

fn write(node: &mut Node<'_>, out: &mut Sha256) {
    match node {
        Node::Scalar(text) => out.update(text.as_bytes()),
        Node::List(items) => {
            out.update(b"[");
            for (i, item) in items.iter_mut().enumerate() {
                if i > 0 {
                    out.update(b",");
                }
                write(item, out);
            }
            out.update(b"]");
        }
        Node::Object(fields) => {
            fields.sort_by_key(|(name, _)| *name);
            out.update(b"{");
            for (i, (name, value)) in fields.iter_mut().enumerate() {
                if i > 0 {
                    out.update(b",");
                }
                out.update(name.as_bytes());
                out.update(b":");
                write(value, out);
            }
            out.update(b"}");
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
        let bytes = self.raw.as_bytes();
        let mut at = start + 1;
        loop {
            let found = memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
            at += found;
            if bytes[at] == b'"' {
                break;
            }
            at += 2;
        }
        self.at = at + 1;
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
