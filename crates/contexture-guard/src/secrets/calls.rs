//! Secrets that are known by their place among the arguments of a function or a statement.

use super::{Secret, starts_word, value};

/// The number of bytes of the arguments that are read.
const ARGUMENTS_MAX: usize = 400;

/// Functions, and the index of the argument that is a secret.
const FUNCTIONS: &[(&str, usize)] = &[
    ("pdo(", 2),
    ("mysqli(", 2),
    ("mysqli_connect(", 2),
    ("r.getConnection(", 2),
    ("dbi->connect(", 2),
    ("jwt.sign(", 1),
    ("jwt.verify(", 1),
    ("jwt.encode(", 1),
    ("jwt.decode(", 1),
    ("login(", 1),
    ("networkCredential(", 1),
    ("fernet(", 0),
    ("hmac.new(", 0),
    ("unsafePlainText(", 0),
    ("convertTo-SecureString ", 0),
];

/// A literal as an argument of a function in [`FUNCTIONS`]. `at` begins the name.
pub(super) fn argument(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let rest = bytes.get(at..)?;
    let (name, index) = FUNCTIONS.iter().find(|(name, _)| {
        rest.get(..name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    })?;
    if name.as_bytes()[0].is_ascii_alphabetic()
        && !name.starts_with("r.")
        && !starts_word(bytes, at)
    {
        return None;
    }
    literal(text, at + name.len(), *index)
}

/// The password of `basic_auth("user", "…")`, `SetBasicAuth("user", "…")` or `auth=("user", "…")`.
/// `at` is the word `auth`.
pub(super) fn basic_auth(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let rest = bytes.get(at..)?;
    let open = [&b"auth("[..], b"auth=(", b"auth = ("]
        .into_iter()
        .find(|open| {
            rest.get(..open.len())
                .is_some_and(|found| found.eq_ignore_ascii_case(open))
        })?;
    let before = &bytes[at.saturating_sub(6)..at];
    if open == b"auth(" && !value::contains(before, b"basic") {
        return None;
    }
    literal(text, at + open.len(), 1)
}

/// The password after `IDENTIFIED BY`, also with the name of a plugin. `at` begins the word.
pub(super) fn identified(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..bytes.len().min(at + 80)];
    if !rest.get(..10)?.eq_ignore_ascii_case(b"identified") {
        return None;
    }
    let by = rest
        .windows(4)
        .position(|window| window.eq_ignore_ascii_case(b" by "))?;
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_ '\"".contains(byte);
    if !rest[10..by].iter().all(is_word) {
        return None;
    }
    literal(text, at + by + 4, 0)
}

/// Returns the argument number `index`, counted from zero, of the arguments that begin at `start`,
/// if it is a literal that looks like a password.
fn literal(text: &str, start: usize, index: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let stop = bytes.len().min(start + ARGUMENTS_MAX);
    let (mut at, mut depth, mut left) = (start, 0_usize, index);
    while at < stop {
        match bytes[at] {
            quote @ (b'"' | b'\'' | b'`') => {
                let first = at + 1;
                let mut end = first;
                while *bytes.get(end)? != quote {
                    if bytes[end] == b'\n' || end - first > ARGUMENTS_MAX {
                        return None;
                    }
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                if left == 0 && depth == 0 {
                    return judged(text, first, end);
                }
                at = end;
            }
            b'(' if bytes[..at].ends_with(b"Some") => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => left = left.checked_sub(1)?,
            // Before the literal only a prefix of it may be written.
            byte if left == 0 && depth == 0 && !byte.is_ascii_whitespace() => {
                let next = &bytes[at + 1..bytes.len().min(at + 6)];
                let prefixed =
                    b"bBrRN".contains(&byte) && matches!(next.first(), Some(b'"' | b'\''));
                if !prefixed && !bytes[at..].starts_with(b"Some(") {
                    return None;
                }
                at += if prefixed { 0 } else { 3 };
            }
            b';' if depth == 0 => return None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Judges a literal that is a password by its place.
pub(super) fn judged(text: &str, start: usize, end: usize) -> Option<Secret> {
    let password = text.get(start..end)?;
    let shape = value::Shape::of(password.as_bytes());
    let strong = password.len() >= 8
        && shape.digits > 0
        && shape.upper + shape.symbols + shape.inner_digits > 0
        && !password.contains(['(', '{', '<', ' ']);
    if !strong || value::is_placeholder(password) || value::is_uuid(password.as_bytes()) {
        return None;
    }
    (value::is_password(password, true) || value::is_key(password)).then_some(Secret {
        range: start..end,
        rule: "password-argument",
    })
}
