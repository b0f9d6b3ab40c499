//! A telling key name followed by a value: `api_key = "…"`, `password: …`, `<token>…</token>`.

use super::pieces::{self, Joined};
use super::{Secret, tokens, value};

/// The longest key name on each side of the word that made it telling.
const KEY_MAX: usize = 64;
const BARE_MAX: usize = 256;
const QUOTED_MAX: usize = 1024;

/// What a key name promises.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    Password,
    Key,
    /// A key with a word after it that we do not know: only a random value will do.
    Unsure,
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Quoted,
    /// The argument of a call: `SecretString::new("…")`.
    Called,
    /// Alone on its line after the key, as in an env or YAML file.
    Line,
    /// A flag of a command, an element of XML, a field of a netrc line.
    Argument,
    /// Anywhere else, where it may be an identifier of the language.
    Bare,
}

struct Value {
    start: usize,
    end: usize,
    form: Form,
}

/// Finds the secret that belongs to the key name around `at`.
///
/// `done` is where the last key name ended, so that each is looked at once.
pub(super) fn find(text: &str, at: usize, done: &mut usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    if at < *done || !opens_key(bytes.get(at..)?) {
        return None;
    }
    let mut key_end = at;
    while key_end - at < KEY_MAX && bytes.get(key_end).is_some_and(|byte| is_key_byte(*byte)) {
        key_end += 1;
    }
    *done = key_end;
    if key_end - at == KEY_MAX {
        return None;
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
    let found = read_value(bytes, start, form)?;
    if let Some(Joined { value, end }) = joined(text, &found) {
        let whole = Value { end, ..found };
        if let Some(secret) = judged(text, key, key_start, &whole, &value) {
            let rule = tokens::name(value.as_bytes()).unwrap_or(secret.rule);
            return Some(Secret { rule, ..secret });
        }
    }
    judged(
        text,
        key,
        key_start,
        &found,
        text.get(found.start..found.end)?,
    )
}

/// Returns the value with what it is joined to, or `None` when it stands alone.
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

/// Returns how deep the line of a key begins; `None` when more than a dash or a quotation mark
/// stands before the key.
fn indentation(bytes: &[u8], key_start: usize) -> Option<usize> {
    let from = key_start.saturating_sub(KEY_MAX);
    let line = bytes[from..key_start]
        .rsplit(|byte| *byte == b'\n')
        .next()?;
    let indent = line.iter().take_while(|byte| **byte == b' ').count();
    let is_lead = |byte: &u8| b" -\"'".contains(byte);
    (line.len() < KEY_MAX && line[indent..].iter().all(is_lead)).then_some(indent)
}

/// Judges `secret`, which is written at `found` and belongs to `key`.
fn judged(text: &str, key: &str, key_start: usize, found: &Value, secret: &str) -> Option<Secret> {
    let bytes = text.as_bytes();
    let range = found.start..found.end;
    // Most values are short; their key need not be taken apart.
    if secret.len() < 6 && found.form != Form::Argument {
        return None;
    }
    let (promise, words) = promise(key)?;
    if promise == Promise::Password && secret.len() >= 4 && !value::is_placeholder(secret) {
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
    // Most values are names in letters of one case, and no rule takes those; only a connection's
    // password may be as plain as that.
    let plain = is_plain(secret.as_bytes());
    let connected = promise == Promise::Password && connection(bytes, key_start, found);
    if plain && !connected {
        return None;
    }
    let form = settle(bytes, key, key_start, found);
    let rule = judge(bytes[key_start], &words, promise, secret, form, connected)?;
    Some(Secret { range, rule })
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

/// Returns true when a `machine` and its `login` stand before the key, as in a netrc file.
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
    [
        "token",
        "secret",
        "pass",
        "pwd",
        "auth",
        "credential",
        "key",
        "pat",
    ]
    .iter()
    .any(|word| {
        rest.get(..word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    })
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

fn blanks(bytes: &[u8], mut at: usize, max: usize) -> usize {
    let stop = at + max;
    while at < stop && matches!(bytes.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// Returns where a value begins that is not on the line of its key, which ends at `at`.
fn on_next_line(bytes: &[u8], key: usize, at: usize, yaml: bool) -> Option<(usize, Option<Form>)> {
    let mut pos = at;
    if bytes.get(pos) == Some(&b'(') {
        pos = blanks(bytes, pos + 1, 16);
    }
    let opened = pos > at;
    pos += usize::from(bytes.get(pos) == Some(&b'\\'));
    pos += usize::from(bytes.get(pos) == Some(&b'\r'));
    if bytes.get(pos) == Some(&b'\n') {
        pos += 1;
    } else if !opened {
        return None;
    }
    let line = pos;
    pos = blanks(bytes, pos, 80);
    let prefixed = bytes
        .get(pos)
        .is_some_and(|byte| b"brfuBRFUL@&".contains(byte));
    if bytes
        .get(pos + usize::from(prefixed))
        .is_some_and(|byte| is_quote(*byte))
    {
        return Some((pos, None));
    }
    // A plain scalar of YAML: one word, deeper than its key.
    let is_deeper = !opened && indentation(bytes, key).is_some_and(|indent| pos - line > indent);
    if !yaml || !is_deeper {
        return None;
    }
    let rest = &bytes[pos..bytes.len().min(pos + BARE_MAX)];
    let length = rest
        .iter()
        .position(|byte| *byte <= b' ')
        .unwrap_or(rest.len());
    let word = &rest[..length];
    let closed = rest[length..]
        .iter()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'))
        .is_none_or(|byte| *byte == b'\n');
    let is_word = closed && !word.iter().any(|byte| b":;,(){}[]<>=\"'`".contains(byte));
    is_word.then_some((pos, Some(Form::Line)))
}

/// Returns where the value begins, and its form where the operator decides it.
fn operator(bytes: &[u8], at: usize, key_end: usize) -> Option<(usize, Option<Form>)> {
    let get = |index: usize| bytes.get(index).copied().unwrap_or(b'\n');
    let mut pos = key_end;
    let mut quoted = false;
    if get(pos) == b'\\' && is_quote(get(pos + 1)) {
        pos += 2;
        quoted = true;
    } else if is_quote(get(pos)) {
        pos += 1;
        quoted = true;
    }
    if quoted && get(pos) == b']' {
        pos += 1;
    }
    if get(pos) == b'?' && get(pos + 1) == b':' {
        pos += 1;
    }
    let near = pos;
    pos = blanks(bytes, pos, 48);
    let yaml = get(pos) == b':';
    match get(pos) {
        b'=' | b':' | b'?' | b'|'
            if matches!((get(pos), get(pos + 1)), (b'?', b'=') | (b'|', b'|')) =>
        {
            pos += 2 + usize::from(get(pos + 2) == b'=');
        }
        b'=' => {
            pos += 1;
            let mut compared = false;
            while matches!(get(pos), b'=' | b'>') {
                compared = true;
                pos += 1;
            }
            if compared && !is_quote(get(blanks(bytes, pos, 4))) && get(pos - 1) == b'=' {
                return None;
            }
        }
        b':' => {
            if get(pos + 1) == b':' {
                return None;
            }
            pos += 1 + usize::from(get(pos + 1) == b'=');
            if let Some(after) = after_type(bytes, pos) {
                pos = after;
            }
        }
        b',' if quoted => {
            pos = blanks(bytes, pos + 1, 16);
            if !is_quote(get(pos)) {
                return value_word(bytes, near);
            }
            // `"token", "value": "…"` names the value in a field of its own.
            if let Some(found) = value_word(bytes, near) {
                return Some(found);
            }
            return Some((pos, Some(Form::Quoted)));
        }
        b'(' if is_quote(get(pos + 1)) => return Some((pos + 1, Some(Form::Called))),
        b'>' if get(pos.wrapping_sub(1)) != b'-' && get(pos.wrapping_sub(1)) != b'=' => {
            // An element of XML, or an attribute that ends one.
            let mut open = at;
            while open > 0
                && at - open < KEY_MAX
                && (is_key_byte(bytes[open - 1]) || b".:".contains(&bytes[open - 1]))
            {
                open -= 1;
            }
            let element = open > 0 && bytes[open - 1] == b'<';
            if !quoted && !element {
                return None;
            }
            pos += 1;
            while matches!(get(pos), b' ' | b'\n' | b'\r' | b'\t')
                && pos < bytes.len()
                && pos < near + 64
            {
                pos += 1;
            }
            // `<property name="password"><value>…</value>`.
            let inner = &b"<value>"[..];
            pos += match bytes[pos.min(bytes.len())..].starts_with(inner) {
                true => inner.len(),
                false => 0,
            };
            return Some((pos, Some(Form::Argument)));
        }
        _ => {
            if pos > near && is_argument(bytes, at) {
                return Some((pos, Some(Form::Argument)));
            }
            return value_word(bytes, near);
        }
    }
    pos = blanks(bytes, pos, 48);
    match get(pos) {
        b'\n' | b'\r' | b'(' | b'\\' if !is_quote(get(pos + 1)) => {
            let mut key = at;
            while key > 0 && at - key < KEY_MAX && is_key_byte(bytes[key - 1]) {
                key -= 1;
            }
            // Nothing on the next line: what is there is read as before.
            on_next_line(bytes, key, pos, yaml).or(Some((pos, None)))
        }
        _ => Some((pos, None)),
    }
}

/// Skips the type between a name and its value: `: &str =`, `: Option<String> =`.
fn after_type(bytes: &[u8], at: usize) -> Option<usize> {
    let mut pos = blanks(bytes, at, 4);
    let stop = pos + 40;
    let begin = pos;
    while pos < stop
        && bytes
            .get(pos)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_&'<>:.?| []".contains(byte))
    {
        pos += 1;
    }
    if pos == begin || bytes.get(pos) != Some(&b'=') {
        return None;
    }
    pos = blanks(bytes, pos + 1, 4);
    bytes
        .get(pos)
        .is_some_and(|byte| is_quote(*byte))
        .then_some(pos)
}

/// Finds `value=` or `"value":` close after a key that is itself a value: `name: TOKEN`, and on
/// the next line `value: …`.
fn value_word(bytes: &[u8], at: usize) -> Option<(usize, Option<Form>)> {
    let mut pos = at;
    let stop = at + 48;
    while pos < stop
        && bytes
            .get(pos)
            .is_some_and(|byte| b" \t\r\n,\"'".contains(byte))
    {
        pos += 1;
    }
    if pos == at || !bytes.get(pos..pos + 5)?.eq_ignore_ascii_case(b"value") {
        return None;
    }
    pos += 5;
    while matches!(bytes.get(pos), Some(b'"' | b'\'')) {
        pos += 1;
    }
    pos = blanks(bytes, pos, 8);
    if !matches!(bytes.get(pos), Some(b':' | b'=')) {
        return None;
    }
    Some((blanks(bytes, pos + 1, 16), None))
}

/// Returns true when a blank parts the key from its value: flags, Dockerfiles, netrc files.
fn is_argument(bytes: &[u8], at: usize) -> bool {
    let from = at.saturating_sub(160);
    let line = bytes[from..at]
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let head = line
        .iter()
        .rposition(|byte| !is_key_byte(*byte))
        .map_or(0, |index| index + 1);
    if line[head..].starts_with(b"--") || (line.len() - head > 1 && line[head] == b'-') {
        return true;
    }
    let before = line[..head].trim_ascii();
    [
        &b"ENV"[..],
        b"ARG",
        b"setenv",
        b"set -gx",
        b"set -x",
        b"set -Ux",
    ]
    .iter()
    .any(|word| before.eq_ignore_ascii_case(word))
        || value::contains(before, b"login ")
        || (line[head..].is_empty() && before.is_empty() && is_netrc(bytes, from))
}

/// Returns true when a line just above begins like those of a netrc file.
fn is_netrc(bytes: &[u8], at: usize) -> bool {
    let from = &bytes[at..bytes.len().min(at + 160)];
    value::contains(from, b"machine ") || value::contains(from, b"login ")
}

fn read_value(bytes: &[u8], at: usize, form: Option<Form>) -> Option<Value> {
    let mut start = at;
    // `b"…"`, `r"…"`, `f"…"`, `@"…"`, `&"…"`.
    if bytes
        .get(start)
        .is_some_and(|byte| b"brfuBRFUL@&".contains(byte))
        && bytes.get(start + 1).is_some_and(|byte| is_quote(*byte))
    {
        start += 1;
    }
    let first = *bytes.get(start)?;
    if first == b'\\' && bytes.get(start + 1).is_some_and(|byte| is_quote(*byte)) {
        return quoted(
            bytes,
            start + 2,
            bytes[start + 1],
            true,
            form.unwrap_or(Form::Quoted),
        );
    }
    if is_quote(first) {
        while bytes.get(start) == Some(&first) && start < at + 4 {
            start += 1;
        }
        // Two quotes and no third are an empty string.
        if start == at + 2 {
            return None;
        }
        return quoted(bytes, start, first, false, form.unwrap_or(Form::Quoted));
    }
    if form == Some(Form::Quoted) || form == Some(Form::Called) {
        return None;
    }
    // A call with a literal: `String::from("…")`, `Some("…")`.
    let mut pos = start;
    while pos < start + 40
        && bytes
            .get(pos)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_:. []".contains(byte))
    {
        pos += 1;
    }
    if bytes.get(pos) == Some(&b'(') && bytes.get(pos + 1).is_some_and(|byte| is_quote(*byte)) {
        return quoted(bytes, pos + 2, bytes[pos + 1], false, Form::Called);
    }
    let mut end = start;
    while let Some(&byte) = bytes.get(end) {
        if byte <= b' ' || is_quote(byte) || b"<>,;\\".contains(&byte) {
            break;
        }
        // Padding may end a value; a second assignment does not belong to the first.
        if byte == b'='
            && bytes
                .get(end + 1)
                .is_some_and(|next| next.is_ascii_alphanumeric())
        {
            break;
        }
        if byte == b'&' && bytes[end..].iter().take(24).any(|byte| *byte == b'=') {
            break;
        }
        end += 1;
        if end - start > BARE_MAX {
            return None;
        }
    }
    while end > start && b")]}.:".contains(&bytes[end - 1]) {
        end -= 1;
    }
    Some(Value {
        start,
        end,
        form: form.unwrap_or(Form::Bare),
    })
}

fn quoted(bytes: &[u8], start: usize, quote: u8, escaped: bool, form: Form) -> Option<Value> {
    let mut end = start;
    while end - start <= QUOTED_MAX {
        match *bytes.get(end)? {
            b'\n' => return None,
            b'\\' if escaped && bytes.get(end + 1) == Some(&quote) => {
                return Some(Value { start, end, form });
            }
            byte if byte == quote => return Some(Value { start, end, form }),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    None
}

/// Tells a value alone on its line from one in the middle of code.
fn settle(bytes: &[u8], key: &str, key_start: usize, found: &Value) -> Form {
    if found.form != Form::Bare {
        return found.form;
    }
    let from = key_start.saturating_sub(80);
    let line = bytes[from..key_start]
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let mut before = line.trim_ascii();
    while let [b'-' | b'#' | b'"' | b'\'' | b';' | b'/', rest @ ..] = before {
        before = rest.trim_ascii();
    }
    let opened = line.ends_with(b"--")
        || before.is_empty()
        || [
            &b"export"[..],
            b"set",
            b"env",
            b"arg",
            b"$env:",
            b"declare -x",
            b"-e",
            b"--env",
            b"--set",
        ]
        .iter()
        .any(|word| before.eq_ignore_ascii_case(word))
        || before.ends_with(b" -e")
        || before.ends_with(b"export");
    let mut pos = found.end;
    while matches!(bytes.get(pos), Some(b' ' | b'\t' | b'\r' | b'"' | b'\'')) {
        pos += 1;
    }
    let closed = matches!(bytes.get(pos), None | Some(b'\n' | b'#'))
        || line.ends_with(b"--")
        || before.ends_with(b"-e")
        // `PGPASSWORD=… psql`: a variable for one command.
        || (bytes[found.start - 1] == b'=' && !key.bytes().any(|byte| byte.is_ascii_lowercase()));
    if opened && closed {
        Form::Line
    } else {
        Form::Bare
    }
}

/// What stands before `key` when it is the key to something secret.
#[rustfmt::skip] // A list of words reads better in rows.
const OWNERS: &[&str] = &[
    "api", "access", "secret", "private", "signing", "sign", "signature", "encryption",
    "encrypt", "decryption", "account", "auth", "master", "shared", "app", "application",
    "session", "service", "admin", "license", "webhook", "client", "hmac", "jwt", "deploy",
    "storage", "aes", "cookie", "role", "ingest", "integration", "management", "security",
    "root", "server", "rest", "write", "read", "subscription", "functions", "host", "crypt",
    "crypto", "ssh", "wallet",
];

/// Words after a telling one that say the value is about the secret, not the secret.
#[rustfmt::skip] // A list of words reads better in rows.
const ABOUT: &[&str] = &[
    "name", "names", "type", "types", "count", "counts", "id", "ids", "url", "uri", "path",
    "file", "filename", "dir", "field", "length", "len", "limit", "limits", "size", "ttl",
    "expiry", "expires", "expire", "expiration", "exp", "age", "max", "min", "hash", "hashed",
    "digest", "sha256", "checksum", "policy", "prefix", "suffix", "index", "idx", "kind",
    "pattern", "regex", "format", "header", "param", "parameter", "label", "placeholder",
    "hint", "title", "text", "message", "msg", "error", "err", "ref", "reference", "arn",
    "version", "enabled", "required", "provider", "method", "scheme", "mode", "server",
    "endpoint", "domain", "host", "user", "username", "email", "column", "table", "manager",
    "store", "class", "encoding", "vocab", "span", "tree", "position", "offset", "start", "end",
    "address", "contract", "symbol", "mint", "list", "map", "set", "ring", "budget", "usage",
    "cost", "price", "algorithm", "alg", "salt", "at", "date", "time", "timestamp", "status",
    "state", "scope", "scopes", "issuer", "audience", "realm", "fingerprint", "thumbprint",
    "input", "selector", "css", "icon", "button", "link", "page", "route", "callback",
    "redirect", "handler", "middleware", "module", "package", "plugin", "action", "event",
    "flow", "strategy", "model", "schema", "example", "description", "desc", "comment", "doc",
    "docs", "help", "info", "group", "namespace", "region", "location", "source", "sourcemap",
    "template", "pub", "public", "tests", "spec", "rule", "rules", "config", "strength",
    "score", "reset", "confirmation", "etag", "revision", "code",
];

/// Words before a telling one that say the same.
#[rustfmt::skip] // A list of words reads better in rows.
const HARMLESS: &[&str] = &[
    "next", "page", "continuation", "pagination", "cancel", "cancellation", "eos", "bos", "pad",
    "unk", "special", "stop", "public", "publishable", "design", "has", "is", "no", "num",
    "csrf", "xsrf", "anti", "ide", "max", "min", "sort", "primary", "foreign", "partition",
    "cache", "mask", "sep", "cls", "sync", "resume", "lexer", "syntax", "pub", "site",
];

/// How a word ends that promises a password.
#[rustfmt::skip]
const PASSWORDS: &[&str] = &[
    "password", "passwd", "passwort", "passphrase", "pwd", "dbpass", "userpass", "rootpass",
    "adminpass", "authpass", "smtppass",
];

/// How a word ends that promises a key.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "secret", "token", "credential", "credentials", "apikey", "secretkey", "accesskey",
    "privatekey", "authkey", "accountkey", "sharedkey", "signingkey", "encryptionkey", "masterkey",
    "appkey", "licensekey",
];

/// Words after a telling one that change nothing.
#[rustfmt::skip]
const NEUTRAL: &[&str] = &[
    "", "base", "value", "val", "string", "str", "key", "prod", "production", "dev", "staging",
    "live", "test", "main", "primary", "secondary", "default", "env", "b64", "base64", "hex",
    "old", "new", "current", "raw", "plain", "v", "access", "data",
];

/// Splits `dbPassword`, `DB_PASSWORD` and `db-password` into words in lower case.
fn split(key: &str) -> Vec<String> {
    let bytes = key.as_bytes();
    let mut words = vec![String::new()];
    for (index, &byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = index.checked_sub(1).map_or(b'_', |before| bytes[before]);
        let next_lower = bytes.get(index + 1).is_some_and(u8::is_ascii_lowercase);
        let humps = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && next_lower));
        if humps {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns what a key name promises, and its words; `None` when it promises nothing.
fn promise(key: &str) -> Option<(Promise, Vec<String>)> {
    let words = split(key);
    let mut found = None;
    for (index, word) in words.iter().enumerate() {
        let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let before = index.checked_sub(1).map(|before| words[before].as_str());
        let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
        let named = |before: &str| OWNERS.contains(&before) || is_service(before);
        let key = (word == "key" && before.is_some_and(named)) || (word == "pat" && index > 0);
        if ends(PASSWORDS) || word == "pass" {
            found = Some((Promise::Password, index));
        } else if (ends(KEYS) || word == "auth" || key)
            && before.is_none_or(|before| !HARMLESS.contains(&before))
        {
            // `password_token` is a token; `secret_password` is a password.
            found = Some((Promise::Key, index));
        }
    }
    let (mut promise, index) = found?;
    for word in &words[index + 1..] {
        let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        if ABOUT.contains(&word) {
            return None;
        }
        if !NEUTRAL.contains(&word) {
            promise = Promise::Unsure;
        }
    }
    Some((promise, words))
}

/// Services whose keys are told by a word in the name of the key, and the rule they give.
const SERVICES: &[(&[&str], &str)] = &[
    (&["heroku"], "heroku-api-key"),
    (&["snyk"], "snyk-token"),
    (&["codecov"], "codecov-token"),
    (&["railway"], "railway-token"),
    (&["twilio"], "twilio-auth-token"),
    (&["datadog", "dd"], "datadog-key"),
    (&["vercel"], "vercel-token"),
    (&["cloudflare", "cf"], "cloudflare-token"),
    (&["okta"], "okta-token"),
    (&["auth0"], "auth0-client-secret"),
    (&["algolia"], "algolia-api-key"),
    (&["fastly"], "fastly-token"),
    (&["bitbucket"], "bitbucket-token"),
    (&["discord"], "discord-bot-token"),
    (&["paypal"], "paypal-secret"),
    (&["braintree"], "braintree-token"),
    (&["newrelic"], "new-relic-key"),
    (&["wandb"], "wandb-api-key"),
    (&["cohere"], "cohere-api-key"),
    (&["mistral"], "mistral-api-key"),
    (&["deepseek"], "deepseek-api-key"),
    (&["asana"], "asana-token"),
    (&["dropbox"], "dropbox-token"),
    (&["mailgun"], "mailgun-api-key"),
    (&["mailchimp"], "mailchimp-api-key"),
    (&["postmark"], "postmark-token"),
    (&["pagerduty"], "pagerduty-token"),
    (&["devops", "azdo", "vsts"], "azure-devops-token"),
    (&["azure"], "azure-key"),
    (&["kaggle"], "kaggle-api-key"),
    (&["voyage", "voyageai"], "voyage-api-key"),
    (&["neon"], "neon-api-key"),
    (&["fcm", "firebase"], "firebase-server-key"),
    (&["telegram"], "telegram-bot-token"),
    (&["twitter"], "twitter-token"),
    (&["facebook"], "facebook-token"),
    (&["alibaba", "aliyun", "alicloud"], "alibaba-secret-key"),
];

/// Other services whose name before `key` says that the key is secret.
#[rustfmt::skip] // A list of words reads better in rows.
const VENDORS: &[&str] = &[
    "openai", "anthropic", "claude", "gemini", "google", "stripe", "github", "gitlab", "sendgrid",
    "supabase", "pinecone", "mapbox", "segment", "sentry", "huggingface", "groq", "replicate",
    "elevenlabs", "tavily", "serpapi", "resend", "twitch", "spotify", "shopify", "square",
    "plaid", "linear", "notion", "airtable", "figma", "grafana", "honeycomb", "rollbar",
    "bugsnag", "amplitude", "mixpanel", "binance", "coinbase", "kraken", "infura", "alchemy",
    "etherscan", "gcp", "aws", "ibm", "oci", "linode", "vultr", "hetzner", "digitalocean",
];

fn is_service(word: &str) -> bool {
    VENDORS.contains(&word) || SERVICES.iter().any(|(names, _)| names.contains(&word))
}

fn judge(
    initial: u8,
    words: &[String],
    promise: Promise,
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
    match promise {
        Promise::Password => {
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
        Promise::Key | Promise::Unsure if !key => {
            let exact =
                promise == Promise::Key && (has("secret") || has("credentials") || has("auth"));
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
