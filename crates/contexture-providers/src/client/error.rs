//! The error of a call to a provider.
//!
//! Messages quote the server's answer in one short line. Keys and the secret
//! parts of URLs are masked.

use std::fmt;

/// A call that brought no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The kind of error of the last attempt.
    pub kind: CallErrorKind,
    /// The number of times that the request was sent. Zero if it never was.
    pub attempts: u32,
    pub(super) message: String,
}

/// The kinds of errors that a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// The deadline passed.
    Timeout,
    /// The connection failed or broke, or the URL cannot be used.
    Unreachable,
    /// The server has no room for us now (429, 529), or no credit is left.
    RateLimited,
    /// The key is missing, wrong, or not allowed to do this (401, 403).
    Auth,
    /// The request is larger than the model or the server takes.
    Overflow,
    /// The server answered with another status that is not a success; among
    /// them are redirects.
    Refused {
        /// The status.
        status: u16,
    },
    /// The answer violates the protocol, is too large, or lacks the requested
    /// text or vectors.
    BadAnswer,
}

impl CallError {
    /// Returns the message: one line that never contains the key.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.attempts {
            0 | 1 => Ok(()),
            n => write!(f, " (after {n} attempts)"),
        }
    }
}

impl std::error::Error for CallError {}

/// The maximum number of characters of a server's message that an error
/// repeats.
const QUOTE_CHARS: usize = 200;

/// The text that replaces the key.
pub(super) const MASK: &str = "***";

/// Length of the beginning by which a shortened key is recognised.
const KEY_HEAD: usize = 8;

/// Returns `text` as one short line without control characters and `key`.
pub(super) fn quote(text: &str, key: Option<&str>) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut visible = word.chars().filter(|&c| !is_hidden(c)).peekable();
        if visible.peek().is_none() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(visible);
    }
    // The key is masked after the invisible characters are removed and before
    // the line is cut: they could have hidden it, and half a key is a secret
    // too.
    let line = match key {
        Some(key) => mask(&line, key),
        None => line,
    };
    match line.char_indices().nth(QUOTE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns true for characters that control a terminal or are invisible.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Replaces `key` in `text`, and words that begin as it does: servers quote a
/// wrong key with its middle left out.
fn mask(text: &str, key: &str) -> String {
    let text = text.replace(key, MASK);
    let Some(head) = key.get(..KEY_HEAD).filter(|_| key.len() >= 2 * KEY_HEAD) else {
        return text;
    };
    let mut masked = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(head) {
        masked.push_str(&rest[..at]);
        masked.push_str(MASK);
        let tail = &rest[at + head.len()..];
        let ends_word = |c: char| c.is_whitespace() || "\"'`,;()[]{}<>".contains(c);
        rest = &tail[tail.find(ends_word).unwrap_or(tail.len())..];
    }
    masked.push_str(rest);
    masked
}

/// Returns `url` without the parts that are known to carry secrets: user and
/// password, query and fragment.
pub(super) fn public_url(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let host_end = rest.find('/').unwrap_or(rest.len());
    let host_start = rest[..host_end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}{}", &rest[host_start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-test-0123456789abcdef";

    fn check(text: &str, expected: &str) {
        assert_eq!(quote(text, Some(KEY)), expected, "{text:?}");
    }

    #[test]
    fn a_quote_is_one_line() {
        check("", "");
        check(" a\r\n\tb \u{1b}[31m\0 c", "a b [31m c");
        check("a \u{202e}\u{200b} b", "a b");
    }

    #[test]
    fn a_quote_is_short() {
        let long = "ä".repeat(QUOTE_CHARS + 1);
        check(&long, &format!("{}…", "ä".repeat(QUOTE_CHARS)));
        check(&"ä".repeat(QUOTE_CHARS), &"ä".repeat(QUOTE_CHARS));
    }

    #[test]
    fn a_quote_has_no_key() {
        check(&format!("key {KEY}."), "key ***.");
        check("key sk-test-\u{0}0123456789\u{200b}abcdef.", "key ***.");
        check("wrong: 'sk-test-****cdef', see", "wrong: '***', see");
        // Cut in the middle of the key, its first half would show.
        let long = format!("{} {KEY}", "a".repeat(QUOTE_CHARS - 10));
        check(&long, &format!("{} ***", "a".repeat(QUOTE_CHARS - 10)));
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        for (url, shown) in [
            ("https://a.b/v1", "https://a.b/v1"),
            ("https://me:pw@a.b/v1?key=x#y", "https://a.b/v1"),
            ("https://me:p@w@a.b", "https://a.b"),
            ("me:pw@a.b", "a.b"),
            ("https://a.b/@c", "https://a.b/@c"),
            ("", ""),
        ] {
            assert_eq!(public_url(url), shown);
        }
    }
}
