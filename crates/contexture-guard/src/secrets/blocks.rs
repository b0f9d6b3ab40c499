//! Secrets that are recognised by their surroundings: private keys, URLs,
//! headers.

use super::{Secret, base64, starts_word, value};

/// The longest line of a private key, with its indentation.
const LINE_MAX: usize = 300;
/// The most lines of a private key whose first lines are missing.
const TAIL_MAX: usize = 400;
/// The longest user and password of a URL.
const USERINFO_MAX: usize = 400;
/// The longest value of a header.
const HEADER_MAX: usize = 4096;

pub(super) fn folded(bytes: &[u8], at: usize, word: &str) -> bool {
    bytes
        .get(at..at + word.len())
        .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
}

pub(super) fn skip(bytes: &[u8], mut at: usize, max: usize, of: &[u8]) -> usize {
    let stop = at + max;
    while at < stop && bytes.get(at).is_some_and(|byte| of.contains(byte)) {
        at += 1;
    }
    at
}

/// The body of `-----BEGIN … PRIVATE KEY-----`, to its end line or to the last base64 of a block
/// that was cut off. Lines may be parted by `\n` written out, as in JSON, or by quotes, as in code.
pub(super) fn private_key(bytes: &[u8], at: usize, done: &mut usize) -> Option<Secret> {
    const OPEN: &[u8] = b"-----BEGIN ";
    if at < *done || !bytes.get(at..)?.starts_with(OPEN) {
        return None;
    }
    let label = at + OPEN.len();
    let rest = bytes.get(label..)?;
    let length = rest
        .iter()
        .take(60)
        .position(|byte| !(byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' '))?;
    let name = &rest[..length];
    if !value::contains(name, b"private key") || !rest[length..].starts_with(b"-----") {
        return None;
    }
    let body = label + length + 5;
    let mut pos = body;
    let mut first = None;
    let (mut letters, mut longest, mut ended) = (0, 0, false);
    let (mut last, mut last_long) = (body, body);
    let mut line_start = true;
    while let Some(&byte) = bytes.get(pos) {
        match byte {
            b'-' if bytes[pos..].starts_with(b"-----") => {
                ended = bytes[pos..].starts_with(b"-----END");
                break;
            }
            b'\\' if matches!(bytes.get(pos + 1), Some(b'n' | b'r' | b't' | b'\\')) => {
                line_start = true;
                pos += 2;
            }
            b'\n' => {
                line_start = true;
                pos += 1;
            }
            b' ' | b'\t' | b'\r' | b'"' | b'\'' | b'`' | b',' | b'\\' | b'>' | b'|' | b'#'
            | b'*' => {
                pos += 1;
            }
            _ if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-') => {
                let start = pos;
                while bytes.get(pos).is_some_and(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
                }) {
                    pos += 1;
                }
                let header = line_start && pos - start < 40 && {
                    let colon = skip_name(bytes, pos);
                    bytes.get(colon) == Some(&b':') && bytes.get(colon + 1) == Some(&b' ')
                };
                if header {
                    // `Proc-Type: 4,ENCRYPTED`, `Version: …`: to the end of the line.
                    while bytes
                        .get(pos)
                        .is_some_and(|byte| !matches!(byte, b'\n' | b'\\'))
                    {
                        pos += 1;
                    }
                } else if pos == start {
                    // A dash that begins no known block.
                    break;
                } else if bytes[start..pos].iter().any(u8::is_ascii_alphanumeric) {
                    let run = pos - start;
                    letters += run;
                    longest = longest.max(run);
                    first = first.or(Some(start));
                    last = pos;
                    if run >= 16 || (bytes[pos - 1] == b'=' && run > 1) {
                        last_long = pos;
                    }
                }
                line_start = false;
            }
            _ => break,
        }
    }
    *done = pos;
    let first = first?;
    let end = if ended { last } else { last_long };
    if letters < 24
        || longest < 16
        || end <= first
        || value::is_filler(&bytes[first..end.min(first + 64)])
    {
        return None;
    }
    Some(Secret {
        range: first..end,
        rule: "private-key",
    })
}

/// The lines of base64 before `-----END … PRIVATE KEY-----`, where the first lines of a key are
/// missing. `at` is the word `KEY`.
pub(super) fn private_key_tail(bytes: &[u8], at: usize) -> Option<Secret> {
    const CLOSE: &[u8] = b"-----END ";
    let head = &bytes[at.saturating_sub(60)..at];
    let line = head
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let close = head[line..]
        .windows(CLOSE.len())
        .position(|window| window == CLOSE)?;
    let close = at - (head.len() - line) + close;
    let before = bytes[..close].iter().rposition(|byte| *byte == b'\n')?;
    let (mut start, mut end, mut letters) = (None, None, 0);
    let mut line_end = before;
    // The last line of a key is shorter than the others, which have one length.
    let mut width = None;
    for index in 0..TAIL_MAX {
        let from = line_end.saturating_sub(LINE_MAX);
        let line = memchr::memrchr(b'\n', &bytes[from..line_end]).map_or(from, |at| from + at + 1);
        let content = bytes[line..line_end].trim_ascii();
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        let fits = match width {
            None => content.len() <= 80,
            Some(width) => content.len() == width,
        };
        // The checksum of PGP is a short line after the last.
        let short = index < 2 && (4..80).contains(&content.len());
        if !content.iter().all(is_base64) || !(short || content.len() >= 40 && fits) {
            break;
        }
        if !short || content.len() >= 40 {
            width = width.or((index > 0).then_some(content.len()));
        }
        letters += content.len();
        let lead = bytes[line..line_end]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        start = Some(line + lead);
        end = end.or(Some(line + lead + content.len()));
        if line == 0 || line == from {
            break;
        }
        line_end = line - 1;
    }
    let (start, end) = (start?, end?);
    (letters >= 24 && !value::is_filler(&bytes[start..end.min(start + 64)])).then_some(Secret {
        range: start..end,
        rule: "private-key",
    })
}

/// A private key that was written in base64 once more, as in a kubeconfig.
///
/// Certificates and public keys begin alike, and are left alone: the label is decoded.
pub(super) fn encoded_key(bytes: &[u8], at: usize, done: &mut usize) -> Option<Secret> {
    const OPEN: &[u8] = b"LS0tLS1CRUdJTi";
    // Thirty-six characters are the 27 bytes of the shortest first line.
    const LABEL: usize = 36;
    if at < *done || !bytes.get(at..)?.starts_with(OPEN) {
        return None;
    }
    let label = base64::decode(bytes.get(at..at + LABEL)?)?;
    if !label.contains(" PRIVAT") {
        return None;
    }
    let end = base64::block_end(bytes, at);
    *done = end;
    (end - at >= 60).then_some(Secret {
        range: at..end,
        rule: "encoded-private-key",
    })
}

/// The rest of a header's name, which may have dashes.
fn skip_name(bytes: &[u8], mut at: usize) -> usize {
    let stop = at + 40;
    while at < stop
        && bytes
            .get(at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    {
        at += 1;
    }
    at
}

/// The password in `scheme://user:password@host`, and the key in the address of an error tracker.
pub(super) fn url(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    if at < 2 || !bytes[at - 1].is_ascii_alphanumeric() {
        return None;
    }
    let start = at + 3;
    let mut colon = None;
    let mut sign = None;
    for (offset, byte) in bytes.get(start..)?.iter().take(USERINFO_MAX).enumerate() {
        match byte {
            b':' if colon.is_none() => colon = Some(start + offset),
            b'@' => sign = Some(start + offset),
            b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | b'|' | 0..=b' ' => {
                break;
            }
            _ => {}
        }
    }
    let sign = sign?;
    let host = &bytes[sign + 1..];
    if !host
        .first()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"[{$%_".contains(byte))
        || host.starts_with(b"sha256:")
    {
        return None;
    }
    let Some(colon) = colon.filter(|colon| *colon < sign) else {
        let user = &bytes[start..sign];
        let tracker = value::contains(&host[..host.len().min(60)], b"sentry");
        let key = user.len() == 32 && user.iter().all(u8::is_ascii_hexdigit);
        return (tracker && key && !value::is_filler(user)).then_some(Secret {
            range: start..sign,
            rule: "sentry-dsn",
        });
    };
    let (user, password) = (&text[start..colon], &text[colon + 1..sign]);
    let typed = password.is_ascii();
    if password.len() < 3 || password == user || (typed && value::is_placeholder(password)) {
        return None;
    }
    Some(Secret {
        range: colon + 1..sign,
        rule: "url-password",
    })
}

fn is_header_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=:".contains(&byte)
}

fn header_value(text: &str, start: usize) -> Option<&str> {
    let length = text.as_bytes()[start..]
        .iter()
        .take(HEADER_MAX)
        .position(|byte| !is_header_byte(*byte))
        .unwrap_or_else(|| HEADER_MAX.min(text.len() - start));
    let found = text.get(start..start + length)?;
    Some(found.trim_end_matches([':', '.']))
}

/// `Authorization: <scheme> <value>`, with or without quotes.
pub(super) fn authorization(text: &str, at: usize) -> Option<Secret> {
    const NAME: &str = "authorization";
    let bytes = text.as_bytes();
    if !folded(bytes, at, NAME) {
        return None;
    }
    let mut pos = skip(bytes, at + NAME.len(), 6, b"\"'`\\] )");
    pos = skip(bytes, pos, 2, b":=,>");
    if matches!(bytes.get(pos.checked_sub(1)?), Some(byte) if !b":=,>".contains(byte)) {
        return None;
    }
    pos = skip(bytes, pos, 8, b" \t\"'`\\");
    let word = bytes
        .get(pos..)?
        .iter()
        .take(16)
        .position(|byte| !byte.is_ascii_alphabetic())?;
    if word > 2 && bytes.get(pos + word) == Some(&b' ') {
        if folded(bytes, pos, "basic") {
            return basic(bytes, pos);
        }
        pos += word + 1;
    }
    for name in ["key=", "token="] {
        if folded(bytes, pos, name) {
            pos += name.len();
        }
    }
    scheme_value(text, pos)
}

/// `Bearer <value>`.
pub(super) fn bearer(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    if !folded(bytes, at, "bearer") || !starts_word(bytes, at) {
        return None;
    }
    let pos = skip(bytes, at + 6, 3, b" :");
    if pos == at + 6 {
        return None;
    }
    scheme_value(text, pos)
}

fn scheme_value(text: &str, start: usize) -> Option<Secret> {
    let found = header_value(text, start)?;
    if !value::is_key(found) || value::is_placeholder(found) {
        return None;
    }
    Some(Secret {
        range: start..start + found.len(),
        rule: "authorization-header",
    })
}

/// `Basic <value>`, where the value decodes to a user and a password.
pub(super) fn basic(bytes: &[u8], at: usize) -> Option<Secret> {
    if !folded(bytes, at, "basic ") || !starts_word(bytes, at) {
        return None;
    }
    let start = at + 6;
    let length = bytes[start..]
        .iter()
        .take(512)
        .position(|byte| !(byte.is_ascii_alphanumeric() || b"+/=".contains(byte)))
        .unwrap_or_else(|| 512.min(bytes.len() - start));
    let found = bytes.get(start..start + length)?;
    let plain = base64::decode(found)?;
    let (_, password) = plain.split_once(':')?;
    if length < 8 || password.is_empty() || value::is_stock(password) {
        return None;
    }
    Some(Secret {
        range: start..start + length,
        rule: "authorization-header",
    })
}
