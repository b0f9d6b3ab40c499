//! Secrets that are known by what is around them: a sentence, the head of a table, a Kubernetes
//! secret, a cookie, a list of words.

use super::{Secret, calls, value};

/// The most bytes of a document that are read around a key.
const DOCUMENT_MAX: usize = 8192;
/// The most rows of a table.
const ROWS_MAX: usize = 500;

fn line_at(bytes: &[u8], at: usize) -> (usize, usize) {
    let from = at.saturating_sub(240);
    let start = memchr::memrchr(b'\n', &bytes[from..at]).map_or(from, |end| from + end + 1);
    let stop = bytes.len().min(at + 240);
    let end = memchr::memchr(b'\n', &bytes[at..stop]).map_or(stop, |end| at + end);
    (start, end)
}

/// Returns the lines from `start`, and not more than belong to a table.
fn rows(text: &str, start: usize) -> std::str::Split<'_, char> {
    let start = start.min(text.len());
    let mut end = text.len().min(start + 8 * DOCUMENT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[start..end].split('\n')
}

/// What has been looked at: each document and each table is read once.
#[derive(Default)]
pub(super) struct Done {
    document: usize,
    table: usize,
}

/// Finds the secrets around the word at `at`: `pass…` or `secret`.
pub(super) fn around(text: &str, at: usize, done: &mut Done) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    if bytes[at] | 0x20 == b's' {
        if bytes[..at].ends_with(b"kind: ") && rest.starts_with(b"Secret") {
            if at < done.document {
                return Vec::new();
            }
            let (found, end) = kubernetes(text, at);
            done.document = end;
            return found;
        }
        return minisign(text, at).into_iter().collect();
    }
    if bytes[..at].ends_with(b"ch") && rest.starts_with(b"passwd") {
        return chpasswd(text, at);
    }
    let word = rest
        .iter()
        .take(16)
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let end = at + word;
    let in_table = at < done.table;
    match bytes.get(end) {
        Some(b' ') if bytes.get(end + 1) != Some(&b'|') => {
            sentence(text, end).into_iter().collect()
        }
        _ if in_table => Vec::new(),
        Some(b' ' | b'`' | b'*') if bytes.get(end + 1) == Some(&b'|') => {
            table(text, at, &mut done.table)
        }
        Some(b'|') => table(text, at, &mut done.table),
        Some(b',' | b'\n' | b'\r') => csv(text, at, end, &mut done.table),
        _ => Vec::new(),
    }
}

/// `The password is …`, in four languages; `at` is the blank after the word.
fn sentence(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..bytes.len().min(at + 24)];
    let verb = [
        " is ", " was ", " est ", " es ", " ist ", " lautet ", " is: ", " ist: ", " est : ",
    ]
    .into_iter()
    .find(|verb| rest.starts_with(verb.as_bytes()))?;
    let mut start = at + verb.len();
    while matches!(bytes.get(start), Some(b'`' | b'"' | b'\'' | b'*')) {
        start += 1;
    }
    let length = bytes
        .get(start..)?
        .iter()
        .take(128)
        .position(|byte| *byte <= b' ' || b"`\"'<".contains(byte));
    let mut end = start + length.unwrap_or_else(|| 128.min(bytes.len() - start));
    while end > start && b".,;:)*!?".contains(&bytes[end - 1]) {
        end -= 1;
    }
    calls::judged(text, start, end).filter(|_| has_digit_inside(&bytes[start..end]))
}

fn has_digit_inside(value: &[u8]) -> bool {
    let shape = value::Shape::of(value);
    shape.inner_digits > 0 || (shape.symbols > 0 && shape.upper > 0 && shape.lower > 0)
}

/// The cells of a table under the head at `at`.
fn table(text: &str, at: usize, done: &mut usize) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let (start, end) = line_at(bytes, at);
    let column = bytes[start..at]
        .iter()
        .filter(|byte| **byte == b'|')
        .count();
    let mut lines = rows(text, end + 1);
    let rule = lines.next().unwrap_or_default();
    let is_rule = rule.contains("--") && rule.bytes().all(|byte| b"|-+: \r".contains(&byte));
    if !bytes[start..at].trim_ascii_start().starts_with(b"|") || !is_rule {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut line_start = end + 1 + rule.len() + 1;
    for line in lines.take(ROWS_MAX) {
        if !line.trim_start().starts_with('|') {
            break;
        }
        let skipped: usize = line
            .split('|')
            .take(column)
            .map(|cell| cell.len() + 1)
            .sum();
        if let Some(cell) = line.split('|').nth(column) {
            let word = cell.trim_matches([' ', '`', '*', '\r']);
            if let Some(lead) = cell.find(word) {
                let first = line_start + skipped + lead;
                found.extend(calls::judged(text, first, first + word.len()));
            }
        }
        line_start += line.len() + 1;
    }
    *done = line_start;
    found
}

/// The fields of a file with commas under the head at `at`, which ends at `end`.
fn csv(text: &str, at: usize, end: usize, done: &mut usize) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let (start, line_end) = line_at(bytes, at);
    let head = bytes[start..line_end].trim_ascii_end();
    let is_head = |byte: &u8| byte.is_ascii_alphanumeric() || b"_,-".contains(byte);
    let at_word = start == at || matches!(bytes[at - 1], b',' | b'_');
    let commas = head.iter().filter(|byte| **byte == b',').count();
    if commas == 0 || !at_word || !head.iter().all(is_head) || end > line_end {
        return Vec::new();
    }
    let column = bytes[start..at]
        .iter()
        .filter(|byte| **byte == b',')
        .count();
    let mut found = Vec::new();
    let mut line_start = line_end + 1;
    for line in rows(text, line_end + 1).take(ROWS_MAX) {
        if line.bytes().filter(|byte| *byte == b',').count() != commas {
            break;
        }
        let skipped: usize = line
            .split(',')
            .take(column)
            .map(|cell| cell.len() + 1)
            .sum();
        if let Some(cell) = line.split(',').nth(column) {
            let word = cell.trim_matches(['"', '\r', ' ']);
            if let Some(lead) = cell.find(word) {
                let first = line_start + skipped + lead;
                found.extend(calls::judged(text, first, first + word.len()));
            }
        }
        line_start += line.len() + 1;
    }
    *done = line_start;
    found
}

/// The values under `data:` of a Kubernetes secret, which are base64. `at` is its kind.
fn kubernetes(text: &str, at: usize) -> (Vec<Secret>, usize) {
    const PUBLIC: &[&str] = &[
        "crt",
        "cert",
        "pub",
        "ca",
        "username",
        "user",
        "name",
        "namespace",
        "host",
    ];
    let bytes = text.as_bytes();
    let mut from = at.saturating_sub(DOCUMENT_MAX);
    let mut until = bytes.len().min(at + DOCUMENT_MAX);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    while !text.is_char_boundary(until) {
        until -= 1;
    }
    let from = text[from..at]
        .rfind("\n---")
        .map_or(from, |end| from + end + 1);
    let until = text[at..until].find("\n---").map_or(until, |end| at + end);
    let mut found = Vec::new();
    let mut data: Option<usize> = None;
    let mut line_start = from;
    for line in text[from..until].split('\n') {
        let indent = line.len() - line.trim_start().len();
        let content = line.trim();
        if content == "data:" {
            data = Some(indent);
        } else if let Some(depth) = data {
            if indent <= depth {
                data = None;
            } else if let Some((key, value)) = content.split_once(": ") {
                let value = value.trim_matches(['"', '\'', ' ']);
                let last = key.rsplit(['.', '-', '_']).next().unwrap_or_default();
                let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
                let secret = value.len() >= 16
                    && value.bytes().all(is_base64)
                    && !PUBLIC.contains(&last)
                    && !value::is_filler(value.as_bytes());
                if let (true, Some(lead)) = (secret, line.find(value)) {
                    let first = line_start + lead;
                    found.push(Secret {
                        range: first..first + value.len(),
                        rule: "kubernetes-secret",
                    });
                }
            }
        }
        line_start += line.len() + 1;
    }
    (found, until)
}

/// `user:password` for chpasswd, on the command line or in cloud-init. `at` is `passwd`.
fn chpasswd(text: &str, at: usize) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let (start, end) = line_at(bytes, at);
    let pair = |from: usize, until: usize| {
        let part = text.get(from..until)?;
        let colon = part.find(':')?;
        let word = part[colon + 1..].trim_end_matches(['"', '\'', ' ', '\r']);
        calls::judged(text, from + colon + 1, from + colon + 1 + word.len())
    };
    if bytes[at..].starts_with(b"passwd:") {
        let mut found = Vec::new();
        let mut line_start = end + 1;
        for line in text.get(end + 1..).unwrap_or_default().split('\n').take(20) {
            if !line.starts_with(' ') && !line.is_empty() {
                break;
            }
            let line_end = line_start + line.len();
            found.extend(
                (!line.contains(": "))
                    .then(|| pair(line_start, line_end))
                    .flatten(),
            );
            line_start = line_end + 1;
        }
        return found;
    }
    let bar = memchr::memrchr(b'|', &bytes[start..at]);
    bar.and_then(|bar| pair(start, start + bar))
        .into_iter()
        .collect()
}

/// The key after the comment of a minisign or signify file. `at` is the word `secret`.
fn minisign(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    if !bytes[at..].starts_with(b"secret key\n") {
        return None;
    }
    let (start, end) = line_at(bytes, at);
    let is_base64 = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let length = bytes[end + 1..]
        .iter()
        .take(400)
        .take_while(is_base64)
        .count();
    (bytes[start..end].starts_with(b"untrusted comment:") && length >= 80).then_some(Secret {
        range: end + 1..end + 1 + length,
        rule: "private-key",
    })
}

/// The values of a cookie header whose names say that they open a session. `at` is `cookie`.
pub(super) fn cookie(text: &str, at: usize) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    if !rest
        .get(..6)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"cookie"))
    {
        return Vec::new();
    }
    let head = [
        &b": "[..],
        b"\",\"value\":\"",
        b"\", \"value\": \"",
        b"\": \"",
        b"\":\"",
    ]
    .into_iter()
    .find(|head| rest[6..].starts_with(head));
    let Some(head) = head else {
        return Vec::new();
    };
    let mut start = at + 6 + head.len();
    let mut found = Vec::new();
    for _ in 0..32 {
        let length = bytes[start..]
            .iter()
            .take(4096)
            .take_while(|byte| !b";\"'\n\r\\ ".contains(byte))
            .count();
        let pair = &bytes[start..start + length];
        if let Some(sign) = memchr::memchr(b'=', pair) {
            let (name, value) = (&pair[..sign], &pair[sign + 1..]);
            let opens = ["sess", "sid", "auth", "token", "jwt"]
                .iter()
                .any(|part| value::contains(name, part.as_bytes()));
            if opens
                && value.len() >= 16
                && value::is_mixed(value)
                && !value::is_filler(value)
                && value::Shape::of(value).is_random()
            {
                found.push(Secret {
                    range: start + sign + 1..start + length,
                    rule: "session-cookie",
                });
            }
        }
        start += length;
        if !bytes[start..].starts_with(b"; ") {
            break;
        }
        start += 2;
    }
    found
}

/// The words of a wallet: `MNEMONIC="…"`. `at` is the word.
pub(super) fn mnemonic(text: &str, at: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    if !bytes.get(at..at + 8)?.eq_ignore_ascii_case(b"mnemonic") {
        return None;
    }
    let mut start = at + 8;
    while bytes
        .get(start)
        .is_some_and(|byte| b"\"' :=\t".contains(byte))
        && start < at + 20
    {
        start += 1;
    }
    let is_part = |byte: &&u8| byte.is_ascii_lowercase() || **byte == b' ';
    let length = bytes[start..].iter().take(256).take_while(is_part).count();
    let words = text[start..start + length].trim_end();
    let count = words.split(' ').count();
    let fits = words.split(' ').all(|word| (3..=8).contains(&word.len()));
    let closed = matches!(
        bytes.get(start + length),
        None | Some(b'"' | b'\'' | b'\n' | b'\r' | b'\\')
    );
    (fits && closed && start > at + 8 && matches!(count, 12 | 15 | 18 | 21 | 24)).then_some(
        Secret {
            range: start..start + words.len(),
            rule: "wallet-mnemonic",
        },
    )
}

/// The result of `random_password` in the state of Terraform. `at` is the name.
pub(super) fn random_password(text: &str, at: usize) -> Option<Secret> {
    const NAME: &[u8] = b"\"result\":";
    let bytes = text.as_bytes();
    if !bytes[at..].starts_with(b"random_password") {
        return None;
    }
    let near = &bytes[at..bytes.len().min(at + 1200)];
    let name = at + near.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let start = name + usize::from(bytes.get(name) == Some(&b' ')) + 1;
    let length = memchr::memchr(b'"', bytes.get(start..bytes.len().min(start + 256))?)?;
    calls::judged(text, start, start + length)
}
