//! Lines of files that hold credentials by their form alone: `.pgpass`, htpasswd, shadow, PuTTY
//! keys, data source names of Go, users of Redis, communities of SNMP, `kaggle.json`, JSON web
//! keys.

use super::{Secret, prefix, value};

/// The longest field of a line.
const FIELD_MAX: usize = 128;

/// Returns true when `at` begins a line, or a string or a word in one, or follows what a tool
/// wrote before the line.
fn begins(bytes: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else {
        return true;
    };
    if matches!(bytes[before], b' ' | b'\t' | b'\n' | b'"' | b'\'' | b'`') {
        return true;
    }
    let from = at.saturating_sub(FIELD_MAX);
    let line = memchr::memrchr(b'\n', &bytes[from..at]).map_or(from, |end| from + end + 1);
    prefix::length_of_all(&bytes[line..at]) == at - line
}

fn field_back(bytes: &[u8], end: usize, class: impl Fn(u8) -> bool) -> usize {
    let mut start = end;
    while start > 0 && end - start < FIELD_MAX && class(bytes[start - 1]) {
        start -= 1;
    }
    start
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-*".contains(&byte)
}

/// `host:port:database:user:password`; `at` is the first colon.
pub(super) fn pgpass(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let mut start = field_back(bytes, at, |byte| is_name(byte) || byte == b'/');
    // The sign of a diff.
    start += usize::from(bytes.get(start) == Some(&b'-'));
    if start >= at || !begins(bytes, start) {
        return None;
    }
    let field = |from: usize| {
        let length = bytes[from..]
            .iter()
            .take(FIELD_MAX)
            .position(|byte| !is_name(*byte))?;
        (length > 0 && bytes[from + length] == b':').then_some(from + length)
    };
    let port = field(at + 1)?;
    let database = field(port + 1)?;
    let user = field(database + 1)?;
    let number = |range: &[u8]| {
        let digits = range.strip_prefix(b"-").unwrap_or(range);
        digits.iter().all(u8::is_ascii_digit)
    };
    let is_port = &bytes[at + 1..port] == b"*" || number(&bytes[at + 1..port]);
    // `root:*:0:0:…` is a line of another file.
    if !is_port || number(&bytes[port + 1..database]) || number(&bytes[database + 1..user]) {
        return None;
    }
    let first = user + 1;
    let mut end = first;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'\\' if bytes.get(end + 1).is_some_and(|next| b":\\".contains(next)) => end += 2,
            0..=b' ' | b'"' | b'\'' | b'`' | b'\\' => break,
            _ => end += 1,
        }
        if end - first > 256 {
            return None;
        }
    }
    let password = text.get(first..end)?;
    // The password is the rest of the line.
    if matches!(bytes.get(end), Some(b' ' | b'\t')) || password.starts_with(':') {
        return None;
    }
    if password.len() < 4 || value::is_placeholder(password) {
        return None;
    }
    Some(Secret {
        range: first..end,
        rule: "pgpass-password",
    })
}

/// The beginning of a password hash, and the minimum and maximum length of the
/// salt and hash after it.
const HASHES: &[(&str, usize, usize)] = &[
    ("$apr1$", 24, 31),
    ("$1$", 24, 31),
    ("$5$", 44, 80),
    ("$6$", 87, 128),
    ("$2a$", 56, 56),
    ("$2b$", 56, 56),
    ("$2y$", 56, 56),
    ("$2$", 56, 56),
    ("$7$", 40, 160),
    ("$y$", 40, 160),
    ("$argon2", 40, 256),
    ("{SHA}", 28, 28),
    ("{SSHA}", 32, 64),
    ("{SHA256}", 44, 44),
    ("{SSHA256}", 48, 80),
    ("{SHA512}", 88, 88),
    ("{SSHA512}", 92, 120),
];

/// `user:hash`, as in htpasswd and shadow; `at` is the colon.
pub(super) fn password_hash(bytes: &[u8], at: usize) -> Option<Secret> {
    let start = field_back(bytes, at, |byte| {
        byte.is_ascii_alphanumeric() || b"_.-@+".contains(&byte)
    });
    // Labels of containers: `users=admin:$$apr1$$…`, or several after a comma.
    let opened = begins(bytes, start) || matches!(bytes[start - 1], b'=' | b',');
    if start == at || !opened {
        return None;
    }
    let mut end = at + 1;
    let mut hash = Vec::with_capacity(128);
    while hash.len() <= 280 {
        match bytes.get(end) {
            Some(b'$') if bytes.get(end + 1) == Some(&b'$') => {
                hash.push(b'$');
                end += 2;
            }
            Some(byte)
                if byte.is_ascii_alphanumeric()
                    || b"./$+".contains(byte)
                    || (b"=,_-".contains(byte))
                    || (hash.len() < 10 && b"{}".contains(byte)) =>
            {
                hash.push(*byte);
                end += 1;
            }
            _ => break,
        }
    }
    while hash.last().is_some_and(|byte| b",-".contains(byte)) {
        hash.pop();
        end -= 1;
    }
    // After a comma another user may follow: `a:$apr1$…,b:$apr1$…`.
    if let Some(comma) = hash.iter().position(|byte| *byte == b',')
        && !hash.starts_with(b"$argon2")
    {
        end -= hash.len() - comma;
        hash.truncate(comma);
    }
    let known = HASHES.iter().find_map(|(head, least, most)| {
        let rest = hash.get(head.len()..)?;
        let length = rest.len();
        (hash[..head.len()].eq_ignore_ascii_case(head.as_bytes())
            && (*least..=*most).contains(&length))
        .then_some(rest)
    })?;
    if value::is_filler(known) {
        return None;
    }
    Some(Secret {
        range: at + 1..end,
        rule: "password-hash",
    })
}

/// The private lines of a PuTTY key file; `at` begins `Private-Lines:`.
pub(super) fn putty_key(bytes: &[u8], at: usize) -> Option<Secret> {
    const NAME: &[u8] = b"Private-Lines:";
    if !bytes.get(at..)?.starts_with(NAME) {
        return None;
    }
    let mut pos = at + NAME.len();
    while bytes.get(pos) == Some(&b' ') {
        pos += 1;
    }
    let digits = bytes[pos..]
        .iter()
        .take(4)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 {
        return None;
    }
    pos += digits;
    let (mut first, mut last) = (None, pos);
    for _ in 0..400 {
        // A line end, or one that is written out in a string.
        let mut next = pos;
        while bytes
            .get(next)
            .is_some_and(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t'))
            && next - pos < 40
        {
            next += 1;
        }
        for written in [&b"\\r"[..], b"\\n"] {
            if bytes[next..].starts_with(written) {
                next += written.len();
            }
        }
        let length = bytes[next..]
            .iter()
            .take(200)
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
            .count();
        // The next header is a word before a dash and a colon.
        if next == pos || length < 4 || bytes.get(next + length) == Some(&b'-') {
            break;
        }
        first = first.or(Some(next));
        pos = next + length;
        last = pos;
    }
    let first = first?;
    if last - first < 24 || value::is_filler(&bytes[first..last.min(first + 64)]) {
        return None;
    }
    Some(Secret {
        range: first..last,
        rule: "private-key",
    })
}

/// `user:password@tcp(host:port)/database`; `at` is the sign.
pub(super) fn go_dsn(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let rest = bytes.get(at + 1..)?;
    let named = [&b"tcp"[..], b"unix", b"cloudsql"]
        .into_iter()
        .find(|name| rest.starts_with(name))?;
    let mut open = named.len();
    open += usize::from(matches!(rest.get(open), Some(b'4' | b'6')));
    if rest.get(open) != Some(&b'(') {
        return None;
    }
    let start = {
        let mut start = at;
        while start > 0
            && at - start < 2 * FIELD_MAX
            && !matches!(
                bytes[start - 1],
                0..=b' ' | b'"' | b'\'' | b'`' | b'=' | b'<' | b'>'
            )
        {
            start -= 1;
        }
        start
    };
    let source = text.get(start..at)?;
    let skipped = source.rfind("://").map_or(0, |scheme| scheme + 3);
    let (user, password) = source[skipped..].split_once(':')?;
    if password.len() < 3 || password == user || value::is_placeholder(password) {
        return None;
    }
    Some(Secret {
        range: at - password.len()..at,
        rule: "connection-password",
    })
}

/// `"key":"…"` near `"username"`, as in `kaggle.json`; `at` is the quotation mark before `key`.
pub(super) fn kaggle(bytes: &[u8], at: usize) -> Option<Secret> {
    if bytes.get(at + 1) == Some(&b'K') {
        return token_settings(bytes, at);
    }
    let start = json_string(bytes, at, b"\"key\"")?;
    let length = bytes[start..]
        .iter()
        .take(33)
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let from = at.saturating_sub(160);
    let near = &bytes[from..bytes.len().min(at + 200)];
    if length != 32
        || bytes.get(start + 32) != Some(&b'"')
        || !value::contains(near, b"\"username\"")
        || value::is_filler(&bytes[start..start + 32])
    {
        return None;
    }
    Some(Secret {
        range: start..start + 32,
        rule: "kaggle-api-key",
    })
}

/// `"Key":"…"` near `"Issuer"`, as in the settings of .NET; `at` is the quotation mark.
fn token_settings(bytes: &[u8], at: usize) -> Option<Secret> {
    let start = json_string(bytes, at, b"\"Key\"")?;
    let length = memchr::memchr(b'"', &bytes[start..bytes.len().min(start + 512)])?;
    let found = std::str::from_utf8(&bytes[start..start + length]).ok()?;
    let near = &bytes[at.saturating_sub(200)..bytes.len().min(start + length + 200)];
    let named = value::contains(near, b"\"issuer\"") || value::contains(near, b"\"jwt\"");
    (named && found.len() >= 24 && value::is_key(found) && !value::is_placeholder(found)).then_some(
        Secret {
            range: start..start + length,
            rule: "secret-assignment",
        },
    )
}

/// The private part of a JSON web key: `"d":"…"` near `"kty"`, or `"k":"…"` near `"oct"`.
pub(super) fn jwk(bytes: &[u8], at: usize) -> Option<Secret> {
    let symmetric = bytes.get(at + 1) == Some(&b'k');
    let name: &[u8] = if symmetric { b"\"k\"" } else { b"\"d\"" };
    let start = json_string(bytes, at, name)?;
    let length = bytes[start..]
        .iter()
        .take(1024)
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
        .count();
    if !(40..1024).contains(&length) || bytes.get(start + length) != Some(&b'"') {
        return None;
    }
    let from = at.saturating_sub(1200);
    let near = &bytes[from..bytes.len().min(start + length + 1200)];
    if symmetric && !value::contains(near, b"\"oct\"") {
        return None;
    }
    if !value::contains(near, b"\"kty\"") || !value::is_varied(&bytes[start..start + length]) {
        return None;
    }
    Some(Secret {
        range: start..start + length,
        rule: "jwk-private-key",
    })
}

/// Returns the start of the string that is the value of the member `name` at
/// `at`.
fn json_string(bytes: &[u8], at: usize, name: &[u8]) -> Option<usize> {
    if !bytes.get(at..)?.starts_with(name) {
        return None;
    }
    let mut pos = at + name.len();
    let stop = pos + 8;
    let mut colon = false;
    while pos < stop {
        match bytes.get(pos)? {
            b' ' | b'\t' => {}
            b':' if !colon => colon = true,
            b'"' if colon => return Some(pos + 1),
            _ => return None,
        }
        pos += 1;
    }
    None
}

/// The password of a user of Redis: `user app on ~* >password +@all`. `at` is the blank before
/// the word that precedes the password.
pub(super) fn redis_user(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let sign = at + 1 + memchr::memchr(b'>', bytes.get(at + 1..at + 5)?)?;
    let from = at.saturating_sub(FIELD_MAX);
    let line = memchr::memrchr(b'\n', &bytes[from..at]).map_or(from, |end| from + end + 1);
    let is_rule =
        bytes[at] == b' ' && bytes[sign - 1] == b' ' && value::contains(&bytes[line..at], b"user ");
    if !is_rule {
        return None;
    }
    Some(Secret {
        range: word(text, sign + 1)?,
        rule: "redis-password",
    })
}

/// The community of an SNMP agent: `rocommunity …`, `snmp-server community …`. `at` is the word
/// `community`.
pub(super) fn snmp_community(text: &str, at: usize) -> Option<Secret> {
    const WORD: &[u8] = b"community";
    let bytes = text.as_bytes();
    let after = at + WORD.len();
    if !bytes.get(at..after)?.eq_ignore_ascii_case(WORD) {
        return None;
    }
    let before = &bytes[..at];
    let is_named = [b"ro".as_slice(), b"rw", b"snmp-server "]
        .iter()
        .any(|name| before.ends_with(name));
    let start = after + usize::from(bytes.get(after) == Some(&b'6'));
    if !is_named || bytes.get(start) != Some(&b' ') {
        return None;
    }
    Some(Secret {
        range: word(text, start + 1)?,
        rule: "snmp-community",
    })
}

/// Returns the range of the word at `start`, if it looks like a password.
fn word(text: &str, start: usize) -> Option<std::ops::Range<usize>> {
    let rest = text.as_bytes().get(start..)?;
    let is_end = |byte: &u8| *byte <= b' ' || b"\"'`;|<>\\".contains(byte);
    let length = match rest.iter().take(FIELD_MAX).position(is_end) {
        Some(length) => length,
        None if rest.len() < FIELD_MAX => rest.len(),
        None => return None,
    };
    let word = text.get(start..start + length)?;
    let is_secret = value::is_password(word, true) || value::is_key(word);
    (is_secret && !value::is_placeholder(word)).then_some(start..start + length)
}
