//! A telling key name followed by a value: `api_key = "…"`, `password: …`, `<token>…</token>`.

mod name;
mod written;

use name::{ExpectedValue, SERVICES, expected_value};
use written::{Form, Value, blanks, is_quote, operator, read_value, settle};

use std::borrow::Cow;

use super::pieces::{self, Joined};
use super::{Crossing, Secret, prefix, tokens, value};

/// The longest key name on each side of the word that made it telling.
const KEY_MAX: usize = 64;

/// The key names that have been looked at.
#[derive(Default)]
pub(super) struct Keys {
    /// Where the last key name ended: `auth_token` is one key, not two.
    done: usize,
    /// The last bare value, so that a long one is read once and not once for each key in it.
    bare: std::ops::Range<usize>,
    /// The number of values in the same long run that are no secrets.
    rejected: usize,
    /// The end of the last bare value that is masked: a key inside it is part of the value.
    covered: usize,
    /// Keys whose value may be on another line.
    pub(super) crossings: Vec<Crossing>,
}

/// The part of a value that is judged. The rest of a longer value is masked with it.
const JUDGED_MAX: usize = 256;

/// The number of values in one run that are judged although those before them were no secrets.
const REJECTED_MAX: usize = 16;

/// Finds the secret that belongs to the key name around `at`.
pub(super) fn find(text: &str, at: usize, keys: &mut Keys) -> Option<Secret> {
    let bytes = text.as_bytes();
    if at < keys.done.max(keys.covered) || !opens_key(bytes.get(at..)?) {
        return None;
    }
    let mut key_end = at;
    while key_end - at < KEY_MAX && bytes.get(key_end).is_some_and(|byte| is_key_byte(*byte)) {
        key_end += 1;
    }
    keys.done = key_end;
    if key_end - at == KEY_MAX {
        return None;
    }
    if ends_line(bytes, at, key_end) {
        keys.crossings.push(Crossing::key(at));
    }
    let (start, form) = operator(bytes, at, key_end)?;
    let mut key_start = at;
    while key_start > 0
        && at - key_start < KEY_MAX
        && (is_key_byte(bytes[key_start - 1]) || bytes[key_start - 1] == b'.')
    {
        key_start -= 1;
    }
    if at - key_start == KEY_MAX {
        return None;
    }
    // `https://x-token-auth:…@host` is the user of a URL, which has a rule of its own.
    if bytes[..key_start].ends_with(b"://") {
        return None;
    }
    // `arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME` names a secret.
    if bytes[..key_start].ends_with(b":") {
        let from = key_start.saturating_sub(KEY_MAX + 64);
        let is_part = |byte: &u8| byte.is_ascii_graphic() && !is_quote(*byte);
        let before = &bytes[from..key_start];
        let word = before.iter().rposition(|byte| !is_part(byte));
        if before[word.map_or(0, |at| at + 1)..].starts_with(b"arn:") {
            return None;
        }
    }
    let key = text.get(key_start..key_end)?;
    if let Some((found, joined)) = yaml_block(text, key_start, start) {
        let secret = judged(text, key, key_start, &found, &joined.value)?;
        let rule = tokens::name(joined.value.as_bytes()).unwrap_or(secret.rule);
        return Some(Secret { rule, ..secret });
    }
    let run = keys.bare.end;
    let found = read_value(bytes, start, form, &mut keys.bare)?;
    // A run with many keys is judged a few times: it is one word.
    if keys.bare.end != run {
        keys.rejected = 0;
    } else if keys.rejected > REJECTED_MAX && found.end - found.start > JUDGED_MAX {
        return None;
    }
    let secret = judged_in_pieces(text, key, key_start, &found);
    // More pieces may follow on the next lines.
    let goes_on = |byte: &&u8| !b"\"'` +.\\&\t\r".contains(byte);
    if secret.is_some() && bytes[found.end..].iter().take(8).find(goes_on) == Some(&b'\n') {
        keys.crossings.push(Crossing::key(found.end));
    }
    match secret {
        Some(_) if found.form == Form::Bare => keys.covered = found.end,
        _ => keys.rejected += 1,
    }
    secret
}

/// Judges the value with the pieces that it is joined to, then the value alone.
fn judged_in_pieces(text: &str, key: &str, key_start: usize, found: &Value) -> Option<Secret> {
    if let Some(Joined { value, end }) = joined(text, found) {
        let whole = Value { end, ..*found };
        if let Some(secret) = judged(text, key, key_start, &whole, &value) {
            let rule = tokens::name(value.as_bytes()).unwrap_or(secret.rule);
            return Some(Secret { rule, ..secret });
        }
    }
    let value = text.get(found.start..found.end)?;
    judged(text, key, key_start, found, value)
}

/// Returns true if the line of a key ends before its value begins: after an operator, or after the
/// key where the key is itself the value of a name, as in `name: TOKEN`.
fn ends_line(bytes: &[u8], at: usize, key_end: usize) -> bool {
    let after = &bytes[key_end..bytes.len().min(key_end + 12)];
    if !after.contains(&b'\n') {
        return false;
    }
    let is_part = |byte: &&u8| b" \t\"':=,\\|>(-\r".contains(byte);
    let length = after.iter().take_while(is_part).count();
    if after.get(length) != Some(&b'\n') {
        return false;
    }
    if after[..length].iter().any(|byte| b":=\\|>(".contains(byte)) {
        return true;
    }
    let before = &bytes[at.saturating_sub(KEY_MAX)..at];
    let name = before.iter().rev().skip_while(|byte| is_key_byte(**byte));
    name.clone().find(|byte| !b" \"'".contains(byte)) == Some(&b':')
}

/// Returns the value with the pieces that it is joined to, or `None` if it is
/// in one piece.
fn joined(text: &str, found: &Value) -> Option<Joined> {
    let bytes = text.as_bytes();
    match found.form {
        Form::Quoted | Form::Called => {
            let escaped = found.start > 1 && bytes[found.start - 2] == b'\\';
            pieces::literals(text, found.start, found.end, escaped)
        }
        Form::Bare | Form::Line | Form::Argument => pieces::continued(text, found.start, found.end),
    }
}

/// Returns the value of `key: >-` or `key: |` and its lines.
fn yaml_block(text: &str, key_start: usize, start: usize) -> Option<(Value, Joined)> {
    let bytes = text.as_bytes();
    if !matches!(bytes.get(start), Some(b'>' | b'|')) {
        return None;
    }
    let mut pos = start + 1;
    while pos < start + 3 && matches!(bytes.get(pos), Some(b'+' | b'-' | b'0'..=b'9')) {
        pos += 1;
    }
    pos = blanks(bytes, pos, 8);
    pos += usize::from(bytes.get(pos) == Some(&b'\r'));
    if bytes.get(pos) != Some(&b'\n') {
        return None;
    }
    let indent = indentation(bytes, key_start)?;
    let (first, joined) = pieces::block(text, pos + 1, indent)?;
    let value = Value {
        start: first,
        end: joined.end,
        form: Form::Line,
    };
    Some((value, joined))
}

/// Returns the indentation of a key's line. Returns `None` if more than a dash
/// or a quotation mark is before the key.
fn indentation(bytes: &[u8], key_start: usize) -> Option<usize> {
    let from = key_start.saturating_sub(KEY_MAX);
    let line = bytes[from..key_start]
        .rsplit(|byte| *byte == b'\n')
        .next()?;
    let line = &line[marks(line)..];
    let indent = line.iter().take_while(|byte| **byte == b' ').count();
    let is_lead = |byte: &u8| b" -\"'".contains(byte);
    (line.len() < KEY_MAX && line[indent..].iter().all(is_lead)).then_some(indent)
}

/// Returns the length of the prefixes of a line that a tool wrote, except signs: a dash before a
/// key is an item of a list.
fn marks(line: &[u8]) -> usize {
    match line.first() {
        Some(b'-') | None => 0,
        Some(_) => prefix::length_of_all(line),
    }
}

/// Judges `secret`, which is written at `found` and belongs to `key`.
fn judged(text: &str, key: &str, key_start: usize, found: &Value, secret: &str) -> Option<Secret> {
    let bytes = text.as_bytes();
    let range = found.start..found.end;
    let mut cut = secret.len().min(JUDGED_MAX);
    while !secret.is_char_boundary(cut) {
        cut -= 1;
    }
    let secret = &*plain_letters(&secret[..cut], found.form);
    // Most values are short; their key need not be analysed.
    if secret.len() < 6 && found.form != Form::Argument {
        return None;
    }
    let (expected, words) = expected_value(key)?;
    if expected == ExpectedValue::Password && secret.len() >= 4 && !value::is_placeholder(secret) {
        if found.form == Form::Argument && names_machine(bytes, key_start) {
            let rule = "netrc-password";
            return Some(Secret { range, rule });
        }
        // In an element of its own a password needs no digit.
        if secret.len() >= 8 && is_element(text, key, key_start, found) {
            let rule = "password-assignment";
            return Some(Secret { range, rule });
        }
    }
    if secret.len() < 6 {
        return None;
    }
    // Most values are names in letters of one case, and no rule matches those;
    // only the password of a connection may be that plain.
    let plain = is_plain(secret.as_bytes());
    let connected = expected == ExpectedValue::Password && connection(bytes, key_start, found);
    if plain && !connected {
        return None;
    }
    let form = settle(bytes, key, key_start, found);
    let rule = judge(bytes[key_start], &words, expected, secret, form, connected)?;
    Some(Secret { range, rule })
}

/// Returns `secret` for judging: letters of European scripts count as letters, and the blanks of a
/// generated secret do not count.
fn plain_letters(secret: &str, form: Form) -> Cow<'_, str> {
    if secret.is_ascii() {
        let spaced = secret.len() >= 32 && secret.contains(' ');
        if !spaced || matches!(form, Form::Bare | Form::Called) {
            return Cow::Borrowed(secret);
        }
        let shape = value::Shape::of(secret.as_bytes());
        let blanks = secret.bytes().filter(|byte| *byte == b' ').count();
        let generated = shape.len >= 32
            && blanks * 6 < shape.len
            && shape.symbols > blanks + 5
            && shape.digits > 2
            && shape.upper > 4
            && shape.lower > 4
            && !shape.is_wordy();
        return match blanks > 0 && generated {
            true => Cow::Owned(secret.replace([' ', '(', ')', '{', '}', '<', '>'], "")),
            false => Cow::Borrowed(secret),
        };
    }
    if !secret
        .chars()
        .all(|c| c.is_ascii() || ('\u{C0}'..'\u{530}').contains(&c))
    {
        return Cow::Borrowed(secret);
    }
    let letters = secret.chars().map(|c| match c {
        _ if c.is_ascii() => c,
        _ if c.is_uppercase() => 'Q',
        _ => 'q',
    });
    Cow::Owned(letters.collect())
}

/// Returns true for `<key>value</key>`.
fn is_element(text: &str, key: &str, key_start: usize, found: &Value) -> bool {
    let after = text[found.end..].trim_start_matches([' ', '\t', '\r', '\n']);
    let closed = after
        .strip_prefix("</")
        .and_then(|rest| rest.strip_prefix(key))
        .is_some_and(|rest| rest.starts_with('>'));
    closed && text[..key_start].ends_with('<')
}

/// Returns true if a `machine` and its `login` come before the key, as in a
/// netrc file.
fn names_machine(bytes: &[u8], key_start: usize) -> bool {
    let before = &bytes[key_start.saturating_sub(200)..key_start];
    let mut words = before
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .rev();
    // `machine HOST login USER password`, or `default login USER password`.
    let (Some(_user), Some(login)) = (words.next(), words.next()) else {
        return false;
    };
    let (Some(host), machine) = (words.next(), words.next()) else {
        return false;
    };
    let is_host = host.contains(&b'.') || host == b"localhost";
    let named = machine.is_some_and(|word| word.ends_with(b"machine")) && is_host;
    // `default` alone begins its line; in the middle of one it is a word like others.
    let fallback = host == b"default" && {
        let line = before.rsplit(|byte| *byte == b'\n').next();
        line.is_some_and(|line| line.trim_ascii_start().starts_with(b"default "))
    };
    login == b"login" && (named || fallback)
}

fn opens_key(rest: &[u8]) -> bool {
    let words: &[&str] = match rest.first().map(u8::to_ascii_lowercase) {
        Some(b't') => &["token"],
        Some(b's') => &["secret"],
        Some(b'p') => &["pass", "pwd", "pat", "psk", "pw"],
        Some(b'a') => &["auth"],
        Some(b'c') => &["credential"],
        Some(b'k') => &["key", "kennwort"],
        _ => return false,
    };
    words.iter().any(|word| {
        rest.get(..word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    })
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn judge(
    initial: u8,
    words: &[String],
    expected: ExpectedValue,
    secret: &str,
    form: Form,
    connected: bool,
) -> Option<&'static str> {
    let service = SERVICES
        .iter()
        .find(|(names, _)| words.iter().any(|word| names.contains(&word.as_str())))
        .map(|(_, rule)| *rule);
    if value::is_uuid(secret.as_bytes()) {
        // Tokens of private npm registries are UUIDs, and only their files write `_authToken`.
        if initial == b'_' && words == ["auth", "token"] {
            return Some("npm-token");
        }
        let issues = [
            "heroku-api-key",
            "snyk-token",
            "codecov-token",
            "railway-token",
            "postmark-token",
        ];
        // `token` alone may name a request; an API key does not.
        let has = |word: &str| words.iter().any(|found| found == word);
        let issued = has("key") && (has("api") || has("secret"))
            || has("secret") && (has("client") || has("app"))
            || has("auth") && has("token") && (has("npm") || service.is_some());
        if issued && !value::is_filler(secret.as_bytes()) {
            return Some(service.unwrap_or("secret-assignment"));
        }
        return service
            .filter(|rule| issues.contains(rule) && !value::is_filler(secret.as_bytes()));
    }
    if value::is_placeholder(secret) {
        return None;
    }
    if tokens::is_discord(secret.as_bytes()) {
        return Some("discord-bot-token");
    }
    // Outside quotes, brackets mean code, except in env files where a line is one value.
    let bracketed = secret.bytes().any(|byte| b"(){}[]|".contains(&byte));
    let shouted = words.len() > 1 && initial.is_ascii_uppercase() && form == Form::Line;
    if bracketed && matches!(form, Form::Bare | Form::Line) && !shouted {
        return None;
    }
    let constant = secret.contains('_')
        && secret
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if constant && form == Form::Bare {
        return None;
    }
    let key = value::is_key(secret);
    let base64 = |length: usize| {
        secret.len() == length
            && secret
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    };
    let has = |word: &str| words.iter().any(|found| found == word);
    match expected {
        ExpectedValue::Password => {
            if connected && form == Form::Bare && !bracketed {
                return Some("connection-password");
            }
            let typed = match form {
                Form::Quoted | Form::Argument => true,
                Form::Line => {
                    shouted || words.len() == 1 || secret.len() >= 8 && !secret.contains('.')
                }
                Form::Called | Form::Bare => false,
            };
            let accepted = match form {
                Form::Called => value::is_password(secret, false) && secret.len() >= 8,
                _ => value::is_password(secret, typed),
            };
            (accepted || key).then_some("password-assignment")
        }
        ExpectedValue::Key | ExpectedValue::Unsure if !key => {
            let exact = expected == ExpectedValue::Key
                && (has("secret") || has("credentials") || has("auth"));
            let strong = value::Shape::of(secret.as_bytes());
            // People choose secrets too: `S3cr3tSauce99`.
            (exact
                && matches!(form, Form::Quoted | Form::Argument | Form::Line)
                && strong.len >= 10
                && strong.inner_digits >= 2
                && !secret.contains(['.', '/', '(']))
            .then_some("secret-assignment")
        }
        _ if (has("secret") || has("secretkey")) && has("aws") && base64(40) => {
            Some("aws-secret-access-key")
        }
        _ if (has("secret") || has("secretaccesskey")) && has("access") && base64(40) => {
            Some("aws-secret-access-key")
        }
        _ if base64(88) && (has("account") || has("accountkey")) => Some("azure-storage-key"),
        _ if base64(44) && has("shared") && has("access") => Some("azure-shared-access-key"),
        _ => Some(service.unwrap_or("secret-assignment")),
    }
}

/// Returns true when no byte is a digit or a symbol and the letters are of one case.
fn is_plain(secret: &[u8]) -> bool {
    let (mut lower, mut upper) = (false, false);
    for byte in secret {
        match byte {
            b'a'..=b'z' => lower = true,
            b'A'..=b'Z' => upper = true,
            b'-' | b'_' | b'.' | b':' | b'/' | b'=' | b'(' | b')' => {}
            _ => return false,
        }
    }
    !(lower && upper)
}

/// Returns true for `Password=…` among the other settings of a connection.
fn connection(bytes: &[u8], key_start: usize, found: &Value) -> bool {
    const SETTINGS: &[&str] = &[
        "server",
        "data source",
        "host",
        "user id",
        "uid",
        "database",
        "initial catalog",
        "user",
        "dbname",
        "endpoint",
        "username",
        "port",
    ];
    let joined = bytes.get(found.start.wrapping_sub(1)) == Some(&b'=');
    let parted = key_start
        .checked_sub(1)
        .is_some_and(|before| b"; \"'".contains(&bytes[before]));
    if !joined || !parted || bytes[key_start] == b'-' || found.form != Form::Bare {
        return false;
    }
    let from = key_start.saturating_sub(200);
    let until = bytes.len().min(found.end + 100);
    let before = bytes[from..key_start]
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let after = bytes[found.end..until]
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let names = |part: &[u8]| {
        part.iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'=')
            .any(|(index, _)| {
                let name = part[..index].trim_ascii_end();
                SETTINGS.iter().any(|setting| {
                    name.len() >= setting.len()
                        && name[name.len() - setting.len()..]
                            .eq_ignore_ascii_case(setting.as_bytes())
                })
            })
    };
    names(before) || names(after)
}
