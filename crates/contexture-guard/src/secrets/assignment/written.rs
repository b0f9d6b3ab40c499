//! Finds the position and the form of a key's value.

use std::ops::Range;

use super::super::prefix;
use super::super::value;
use super::{KEY_MAX, indentation, is_key_byte};

/// The longest scalar of YAML on the line after its key.
const SCALAR_MAX: usize = 4096;
/// The number of bytes before a key that are read for the beginning of its line.
const LINE_MAX: usize = 200;

/// The form in which a value is written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Quoted,
    /// The argument of a call: `SecretString::new("…")`.
    Called,
    /// Alone on its line after the key, as in an env or YAML file.
    Line,
    /// A flag of a command, an element of XML, a field of a netrc line.
    Argument,
    /// In any other place, where it may be an identifier of the language.
    Bare,
}

pub(super) struct Value {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) form: Form,
}

pub(super) fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

pub(super) fn blanks(bytes: &[u8], mut at: usize, max: usize) -> usize {
    let stop = at + max;
    while at < stop {
        match bytes.get(at) {
            Some(b' ' | b'\t') => at += 1,
            // A blank that does not break.
            Some(0xC2) if bytes.get(at + 1) == Some(&0xA0) => at += 2,
            _ => break,
        }
    }
    at
}

/// Returns the start of a value that is not on the line of its key, which ends
/// at `at`.
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
    let rest = &bytes[pos..bytes.len().min(pos + SCALAR_MAX)];
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

/// Returns the start of the value, and its form if the operator determines it.
pub(super) fn operator(bytes: &[u8], at: usize, key_end: usize) -> Option<(usize, Option<Form>)> {
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
    // `api_key[] = "…"`, `**Password**: …`.
    if get(pos) == b'[' {
        let mut close = pos + 1;
        while get(close).is_ascii_digit() && close < pos + 6 {
            close += 1;
        }
        if get(close) == b']' && !quoted {
            pos = close + 1;
        }
    }
    if get(pos) == b'*' && get(pos + 1) == b'*' && get(pos + 2) == b':' {
        pos += 2;
    }
    let near = pos;
    pos = blanks(bytes, pos, 48);
    let yaml = get(pos) == b':';
    match get(pos) {
        b'=' | b':' | b'?' | b'|'
            if matches!((get(pos), get(pos + 1)), (b'?', b'=' | b'?') | (b'|', b'|')) =>
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
            if get(pos) == b'*' && get(pos + 1) == b'*' {
                pos += 2;
            }
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
        // A colon of full width.
        0xEF if bytes[pos..].starts_with("：".as_bytes()) => pos += 3,
        b'<' if bytes[pos..].starts_with(b"</key>") => return list_element(bytes, pos + 6),
        b'{' if quoted => return terraform_default(bytes, pos),
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
            if pos > near && is_argument(bytes, at, key_end, pos) {
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
            // The next line has no value: the rest of this line is read as
            // usual.
            on_next_line(bytes, key, pos, yaml).or(Some((pos, None)))
        }
        _ => Some((pos, None)),
    }
}

/// The string after a key of a property list: `<key>…</key><string>…</string>`.
fn list_element(bytes: &[u8], at: usize) -> Option<(usize, Option<Form>)> {
    let blank = bytes
        .get(at..)?
        .iter()
        .take(64)
        .take_while(|byte| byte.is_ascii_whitespace());
    let open = at + blank.count();
    bytes[open..]
        .starts_with(b"<string>")
        .then_some((open + 8, Some(Form::Argument)))
}

/// The default of a variable in Terraform; `at` is the brace after its name.
fn terraform_default(bytes: &[u8], at: usize) -> Option<(usize, Option<Form>)> {
    let body = &bytes[at..bytes.len().min(at + 400)];
    let body = &body[..memchr::memchr(b'}', body).unwrap_or(body.len())];
    let name = body.windows(8).position(|window| window == b"default ")?;
    let sign = blanks(bytes, at + name + 7, 16);
    if bytes.get(sign) != Some(&b'=') {
        return None;
    }
    let start = blanks(bytes, sign + 1, 16);
    bytes
        .get(start)
        .is_some_and(|byte| is_quote(*byte))
        .then_some((start, Some(Form::Quoted)))
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

/// Returns the line of the key that begins at `at`, up to the key.
fn line_before(bytes: &[u8], at: usize) -> &[u8] {
    let before = &bytes[at.saturating_sub(LINE_MAX)..at];
    let line = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    &before[line..]
}

/// Returns true when a blank parts the key from its value: flags, Dockerfiles, netrc files.
fn is_argument(bytes: &[u8], at: usize, key_end: usize, value: usize) -> bool {
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
    let is_flag = &line[head..] == b"-" && head > 0 && line[head - 1] == b' ';
    let key = &bytes[at - (line.len() - head)..key_end];
    if is_flag || key == b"insecure-password" {
        return true;
    }
    let before = &line[..head];
    // `set(NAME "…")` of CMake.
    if before.trim_ascii().eq_ignore_ascii_case(b"set(") {
        return true;
    }
    // Statements of SQL, and calls without parentheses: `WITH PASSWORD '…'`, `password '…'`.
    if bytes.get(value).is_some_and(|byte| is_quote(*byte)) {
        let word = before
            .trim_ascii_end()
            .rsplit(|byte| !byte.is_ascii_alphabetic())
            .next();
        let leads = ["with", "encrypted", "unencrypted", "login", "set"];
        let word = word.unwrap_or_default();
        let blank = before.trim_ascii().is_empty();
        if blank
            || leads
                .iter()
                .any(|lead| word.eq_ignore_ascii_case(lead.as_bytes()))
        {
            return true;
        }
    }
    let before = before[prefix::length_of_all(before)..].trim_ascii();
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
        || before == b"define"
        || before.ends_with(b"configure set")
        || (before.is_empty() && DIRECTIVES.iter().any(|name| key.eq_ignore_ascii_case(name)))
        || value::contains(before, b"login ")
        || (line[head..].is_empty() && before.is_empty() && is_netrc(bytes, from))
}

/// Settings that a blank parts from their value, alone on a line of a configuration.
const DIRECTIVES: &[&[u8]] = &[b"requirepass", b"masterauth", b"bindpw", b"rootpw"];

/// Returns true when a line just above begins like those of a netrc file.
fn is_netrc(bytes: &[u8], at: usize) -> bool {
    let from = &bytes[at..bytes.len().min(at + 160)];
    value::contains(from, b"machine ") || value::contains(from, b"login ")
}

/// Reads the value that begins at `at`. `bare` is the last bare value that was read.
pub(super) fn read_value(
    bytes: &[u8],
    at: usize,
    form: Option<Form>,
    bare: &mut Range<usize>,
) -> Option<Value> {
    let mut start = at;
    // `b"…"`, `r"…"`, `f"…"`, `@"…"`, `&"…"`, `N'…'`.
    if bytes
        .get(start)
        .is_some_and(|byte| b"brfuBRFULN@&".contains(byte))
        && bytes.get(start + 1).is_some_and(|byte| is_quote(*byte))
    {
        start += 1;
        // `R"(…)"`.
        if bytes[at] == b'R' && bytes.get(start + 1) == Some(&b'(') {
            let length = memchr::memchr(b'"', bytes.get(start + 2..)?)?;
            let end = start + 2 + length;
            let form = form.unwrap_or(Form::Quoted);
            return bytes[..end].ends_with(b")").then_some(Value {
                start: start + 2,
                end: end - 1,
                form,
            });
        }
    }
    let at = start;
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
    if !first.is_ascii()
        && let Some(value) = typographic(bytes, start)
    {
        return Some(value);
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
    if !bare.contains(&start) {
        *bare = start..bare_end(bytes, start);
    }
    let mut end = bare.end;
    while end > start && b")]}.:".contains(&bytes[end - 1]) {
        end -= 1;
    }
    Some(Value {
        start,
        end,
        form: form.unwrap_or(Form::Bare),
    })
}

/// Reads a value between the quotation marks of prose.
fn typographic(bytes: &[u8], at: usize) -> Option<Value> {
    let marks = [("“", "”"), ("‘", "’"), ("„", "“"), ("«", "»")];
    let (open, close) = marks
        .into_iter()
        .find(|(open, _)| bytes[at..].starts_with(open.as_bytes()))?;
    let start = at + open.len();
    let rest = &bytes[start..bytes.len().min(start + 200)];
    let length = rest
        .windows(close.len())
        .position(|window| window == close.as_bytes())?;
    Some(Value {
        start,
        end: start + length,
        form: Form::Quoted,
    })
}

/// Returns the end of the bare value that begins at `start`.
fn bare_end(bytes: &[u8], start: usize) -> usize {
    let mut end = start;
    while let Some(&byte) = bytes.get(end) {
        if byte <= b' ' || is_quote(byte) || b"<>,;\\".contains(&byte) {
            break;
        }
        // Padding may end a value; a second assignment does not belong to the first.
        let next = bytes.get(end + 1);
        if byte == b'=' && next.is_some_and(u8::is_ascii_alphanumeric) {
            break;
        }
        if byte == b'&' && bytes[end..].iter().take(24).any(|byte| *byte == b'=') {
            break;
        }
        end += 1;
    }
    end
}

/// Reads a value to its quotation mark. Values with one quotation mark do not overlap, so that
/// the length needs no limit.
fn quoted(bytes: &[u8], start: usize, quote: u8, escaped: bool, form: Form) -> Option<Value> {
    let mut end = start;
    loop {
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
}

/// Distinguishes a value alone on its line from one in the middle of code.
pub(super) fn settle(bytes: &[u8], key: &str, key_start: usize, found: &Value) -> Form {
    if found.form != Form::Bare {
        return found.form;
    }
    let line = line_before(bytes, key_start);
    let mut before = line[prefix::length_of_all(line)..].trim_ascii();
    while let [b'-' | b'#' | b'"' | b'\'' | b';' | b'/' | b'*', rest @ ..] = before {
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
