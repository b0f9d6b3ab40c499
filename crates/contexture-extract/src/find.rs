//! The built-in matchers, except for proper names.

use regex::Regex;

use crate::extracted::MOST_MENTIONS;
use crate::found::{Found, What};
use crate::rules::Find;

/// Finds the matches of a custom pattern.
pub(crate) fn pattern(text: &str, regex: &Regex, rule: usize, found: &mut Vec<Found>) {
    // A mention may be repeated, so the limit of matches is above that of
    // mentions.
    for captures in regex.captures_iter(text).take(MOST_MENTIONS * 4) {
        let (Some(all), name) = (captures.get(0), captures.get(1)) else {
            continue;
        };
        let name = name.unwrap_or(all);
        if !name.as_str().trim().is_empty() {
            found.push(Found {
                start: all.start(),
                end: all.end(),
                name: (name.start(), name.end()),
                what: What::Rule(rule),
            });
        }
    }
}

/// Extensions of files other than source code.
const ENDINGS: &[&str] = &[
    "rs", "py", "pyi", "js", "jsx", "ts", "tsx", "mjs", "cjs", "vue", "go", "java", "kt", "c", "h",
    "cc", "cpp", "hpp", "cs", "rb", "php", "swift", "scala", "sh", "lua", "pl", "ex", "exs", "hs",
    "ml", "sql", "css", "scss", "html", "xml", "json", "jsonl", "yaml", "yml", "toml", "ini",
    "cfg", "conf", "env", "lock", "md", "txt", "log", "csv", "tsv", "pdf", "png", "jpg", "svg",
    "ipynb", "proto", "tf", "gradle", "db", "sqlite", "zip", "gz", "tar", "wasm", "patch", "diff",
];

/// Names of files without an extension.
const PLAIN_FILES: &[&str] = &[
    "Makefile",
    "Dockerfile",
    "Jenkinsfile",
    "Procfile",
    "LICENSE",
];

/// Words with inner capitals that are not code.
const NO_SYMBOLS: &[&str] = &[
    "iPhone", "iPad", "iOS", "macOS", "eBay", "iCloud", "iPod", "iMac",
];

/// Words that look like ticket numbers and are not.
const NO_TICKETS: &[&str] = &[
    "UTF", "ISO", "SHA", "GPT", "COVID", "AES", "RSA", "MP", "USB", "WI", "HTTP", "RFC", "ASCII",
    "CP", "EC", "GB", "KB", "PM", "AM", "PS", "F", "B", "A", "X", "T",
];

const ERRNO: &[&str] = &[
    "ENOENT",
    "EACCES",
    "EPERM",
    "EEXIST",
    "EPIPE",
    "EAGAIN",
    "EINVAL",
    "EMFILE",
    "ENOSPC",
    "ENOTDIR",
    "EISDIR",
    "EADDRINUSE",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "EHOSTUNREACH",
    "ENOTFOUND",
    "ENOMEM",
    "SIGSEGV",
    "SIGABRT",
    "SIGKILL",
    "SIGTERM",
    "SIGBUS",
    "SIGILL",
    "OOM",
];

const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Sept",
    "Oct",
    "Nov",
    "Dec",
];

pub(crate) fn is_month(word: &str) -> bool {
    MONTHS.contains(&word)
}

/// A word between white space, without surrounding punctuation.
#[derive(Clone, Copy)]
struct Token<'t> {
    start: usize,
    raw: &'t str,
    bare: &'t str,
    bare_start: usize,
}

/// Finds everything that is `wanted`, except proper names.
pub(crate) fn built_in(text: &str, wanted: &[Find], found: &mut Vec<Found>) {
    let wants = |find: Find| wanted.contains(&find);
    if wants(Find::Quoted) {
        quoted(text, found);
    }
    if wants(Find::Symbol) || wants(Find::Function) {
        backticks(text, wants(Find::Symbol), wants(Find::Function), found);
    }
    let mut before: Option<Token<'_>> = None;
    let mut before_that: Option<Token<'_>> = None;
    let mut count = 0;
    for token in tokens(text) {
        if let Some((find, start, end)) = one(text, &token, before.as_ref(), &wants) {
            push(found, find, start, end);
            count += 1;
        }
        if wants(Find::Date)
            && let Some((start, end)) = date(&token, before.as_ref(), before_that.as_ref())
        {
            push(found, Find::Date, start, end);
            count += 1;
        }
        // The limit is far above the number of kept mentions, because repeats
        // count, too.
        if count > MOST_MENTIONS * 16 {
            break;
        }
        (before_that, before) = (before, Some(token));
    }
}

fn push(found: &mut Vec<Found>, find: Find, start: usize, end: usize) {
    found.push(Found {
        start,
        end,
        name: (start, end),
        what: What::BuiltIn(find),
    });
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let begin = text.as_ptr().addr();
    text.split_whitespace().map(move |raw| {
        let start = raw.as_ptr().addr() - begin;
        let opened = raw.trim_start_matches(['(', '[', '{', '<', '"', '\'', '`', '*', '“', '‘']);
        let bare = opened.trim_end_matches([
            '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`', '*', '”', '’',
        ]);
        Token {
            start,
            raw,
            bare,
            bare_start: start + raw.len() - opened.len(),
        }
    })
}

/// Finds entities that consist of one token.
fn one(
    text: &str,
    token: &Token<'_>,
    before: Option<&Token<'_>>,
    wants: &impl Fn(Find) -> bool,
) -> Option<(Find, usize, usize)> {
    let Token {
        bare,
        bare_start: start,
        ..
    } = *token;
    if bare.len() < 2 || bare.len() > 300 {
        return None;
    }
    let whole = |find| Some((find, start, start + bare.len()));
    // These bytes skip most words, which have nothing special.
    let bytes = bare.as_bytes();
    let plain = bytes.iter().all(u8::is_ascii_lowercase);
    if plain {
        if bare == "panicked" && wants(Find::Error) && text[start..].starts_with("panicked at") {
            return whole(Find::Error);
        }
        let defines = before.is_some_and(|token| matches!(token.raw, "fn" | "def" | "function"));
        return (defines && wants(Find::Function)).then_some((
            Find::Function,
            start,
            start + bare.len(),
        ));
    }
    if bare.contains("://") {
        let scheme = bare.split("://").next().unwrap_or_default();
        let known = matches!(scheme, "http" | "https" | "ftp" | "ssh" | "git" | "file");
        return if known && wants(Find::Url) {
            whole(Find::Url)
        } else {
            None
        };
    }
    if bare.contains('@') {
        return if is_email(bare) && wants(Find::Email) {
            whole(Find::Email)
        } else {
            None
        };
    }
    if let Some(tag) = bare.strip_prefix('#') {
        let number = tag.bytes().all(|byte| byte.is_ascii_digit()) && tag.len() <= 9;
        let is_tag = tag.starts_with(char::is_alphabetic)
            && tag
                .chars()
                .all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        return if number && wants(Find::NumberId) {
            whole(Find::NumberId)
        } else if is_tag && wants(Find::Hashtag) {
            whole(Find::Hashtag)
        } else {
            None
        };
    }
    if wants(Find::Error)
        && let Some((from, to)) = error(bare)
    {
        return Some((Find::Error, start + from, start + to));
    }
    if wants(Find::File)
        && let Some(length) = file(bare)
    {
        return Some((Find::File, start, start + length));
    }
    if wants(Find::NumberId) && is_ticket(bare) {
        return whole(Find::NumberId);
    }
    symbol(token, before, wants)
}

fn is_email(text: &str) -> bool {
    let Some((name, host)) = text.split_once('@') else {
        return false;
    };
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._%+-".contains(&b));
    let is_host = host.contains('.')
        && host.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
        && host.rsplit('.').next().is_some_and(|top| top.len() >= 2);
    is_name && is_host
}

/// Returns the part of a token that is an error's name.
fn error(bare: &str) -> Option<(usize, usize)> {
    // `error[E0308]`, `std::io::Error` and `TypeError:` are recognised without
    // the text that follows.
    let (from, bare) = match bare.strip_prefix("error[") {
        Some(code) => (6, code),
        None => (0, bare),
    };
    let end = bare
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.')))
        .unwrap_or(bare.len());
    let bare = bare[..end].trim_end_matches([':', '.']);
    let end = from + bare.len();
    let name = bare.rsplit([':', '.']).next().unwrap_or_default();
    let typed = name.starts_with(|c: char| c.is_ascii_uppercase())
        && ["Error", "Exception"]
            .iter()
            .any(|ending| name.len() > ending.len() && name.ends_with(ending));
    let code = name.len() == 5
        && name.starts_with('E')
        && name[1..].bytes().all(|byte| byte.is_ascii_digit());
    (typed || code || ERRNO.contains(&name)).then_some((from, end))
}

/// Returns the length of the path in a token, without `:12:3` after it.
fn file(bare: &str) -> Option<usize> {
    let path = match bare.find(':') {
        Some(1) if bare.as_bytes().get(2) == Some(&b'\\') => bare,
        Some(end) => &bare[..end],
        None => bare,
    };
    if path.len() < 3 || path.contains(['=', '<', '>', '(', ')', '|', '$', ',', '"']) {
        return None;
    }
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let ended = name.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty() && ENDINGS.contains(&ending) && !stem.ends_with('.')
    });
    let rooted = ["./", "../", "~/", "/"]
        .iter()
        .any(|root| path.starts_with(root))
        && path.len() > 4
        && path.matches('/').count() > 1
        && !path.contains("//");
    let is_file = ended || PLAIN_FILES.contains(&name) || rooted;
    // `Node.js` and similar names are products.
    let product = path == name && name.starts_with(char::is_uppercase) && name.ends_with(".js");
    (is_file && !product).then_some(path.len())
}

fn is_ticket(bare: &str) -> bool {
    if let Some(number) = bare.strip_prefix("CVE-") {
        return number.len() > 5 && number.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    }
    let Some((project, number)) = bare.split_once('-') else {
        return false;
    };
    (2..=10).contains(&project.len())
        && project
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        && project.as_bytes()[0].is_ascii_uppercase()
        && (1..=6).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit())
        && !NO_TICKETS.contains(&project)
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Finds identifiers in code form outside backticks.
fn symbol(
    token: &Token<'_>,
    before: Option<&Token<'_>>,
    wants: &impl Fn(Find) -> bool,
) -> Option<(Find, usize, usize)> {
    // The name of a call is the part before the bracket.
    let opened = token.start + token.raw.len() - token.bare_start;
    let rest = &token.raw[token.raw.len() - opened..];
    if let Some((path, _)) = rest.split_once('(') {
        let name = path.rsplit([':', '.']).next().unwrap_or_default();
        // `file(s)` and `Berlin(Germany)` are not calls.
        let after = &rest[path.len()..];
        let called = path.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            || path.contains("::")
            || after.starts_with("()");
        let plural = after.starts_with("(s)") || after.starts_with("(es)");
        if called
            && !plural
            && is_identifier(name)
            && path
                .split("::")
                .flat_map(|p| p.split('.'))
                .all(is_identifier)
        {
            let end = token.bare_start + path.len();
            if wants(Find::Function) {
                return Some((Find::Function, end - name.len(), end));
            }
            if wants(Find::Symbol) && rest.len() > path.len() {
                return Some((Find::Symbol, token.bare_start, end));
            }
        }
        return None;
    }
    let bare = token.bare;
    let defines = before.is_some_and(|token| matches!(token.raw, "fn" | "def" | "function"));
    if defines && is_identifier(bare) && wants(Find::Function) {
        return Some((
            Find::Function,
            token.bare_start,
            token.bare_start + bare.len(),
        ));
    }
    if !wants(Find::Symbol) {
        return None;
    }
    let in_code_form = if bare.contains("::") {
        bare.split("::").all(is_identifier)
    } else {
        let bytes = bare.as_bytes();
        let humps = bytes
            .windows(2)
            .any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
        let snake =
            bytes[1..bytes.len() - 1].contains(&b'_') && bytes.iter().any(u8::is_ascii_alphabetic);
        is_identifier(bare)
            && !NO_SYMBOLS.contains(&bare)
            && (snake || (humps && bytes[0].is_ascii_lowercase()))
    };
    in_code_form.then_some((
        Find::Symbol,
        token.bare_start,
        token.bare_start + bare.len(),
    ))
}

/// Finds identifiers in backticks that no other rule matches.
fn backticks(text: &str, symbols: bool, functions: bool, found: &mut Vec<Found>) {
    let mut rest = text;
    let mut number = 0;
    while let Some(open) = rest.find('`') {
        rest = &rest[open + 1..];
        let Some(close) = rest.find(['`', '\n']) else {
            return;
        };
        let inside = &rest[..close];
        let start = text.len() - rest.len();
        if rest.as_bytes()[close] == b'\n' {
            // The backticks enclose a code block, or a backtick is alone.
            rest = &rest[close..];
            continue;
        }
        rest = &rest[close + 1..];
        let (path, called) = match inside.split_once('(') {
            Some((path, after)) if after.ends_with(')') => (path, true),
            _ => (inside.trim_end_matches('!'), false),
        };
        let is_path = path
            .split("::")
            .flat_map(|p| p.split('.'))
            .all(is_identifier);
        if !is_path || file(path).is_some() {
            continue;
        }
        let find = match (called, functions, symbols) {
            (true, true, _) => Find::Function,
            (_, _, true) => Find::Symbol,
            _ => continue,
        };
        found.push(Found {
            start: start - 1,
            end: start + inside.len() + 1,
            name: (start, start + path.len()),
            what: What::BuiltIn(find),
        });
        number += 1;
        if number > MOST_MENTIONS * 4 {
            return;
        }
    }
}

/// Finds titles: a few words in quotation marks that begin with a capital and
/// do not end like a sentence.
fn quoted(text: &str, found: &mut Vec<Found>) {
    const MOST: usize = 60;
    let mut at = 0;
    while let Some(open) = text[at..].find(['"', '“', '«']) {
        let start = at + open;
        let mark = text[start..].chars().next().unwrap_or('"');
        let inside = start + mark.len_utf8();
        let closing = match mark {
            '“' => '”',
            '«' => '»',
            _ => '"',
        };
        let limit = text.floor_char_boundary((inside + MOST + 1).min(text.len()));
        let Some(length) = text[inside..limit].find([closing, '\n']) else {
            at = inside;
            continue;
        };
        let title = &text[inside..inside + length];
        if text[inside + length..].starts_with('\n') {
            at = inside + length;
            continue;
        }
        let end = inside + length + closing.len_utf8();
        let is_title = title.starts_with(char::is_uppercase)
            && title.len() > 2
            && !title.ends_with(['.', '!', '?', ',', ';'])
            && is_title_case(title);
        if is_title {
            found.push(Found {
                start,
                end,
                name: (inside, inside + length),
                what: What::BuiltIn(Find::Quoted),
            });
        }
        at = end;
    }
}

/// Returns true for a few words, most of them with capitals. A quoted sentence
/// has fewer.
fn is_title_case(title: &str) -> bool {
    let words = title.split_whitespace().count();
    let capitals = title
        .split_whitespace()
        .filter(|word| word.starts_with(|c: char| c.is_uppercase() || c.is_numeric()))
        .count();
    words <= 8 && capitals * 2 >= words
}

/// Finds a date that ends with `token`.
fn date(
    token: &Token<'_>,
    before: Option<&Token<'_>>,
    before_that: Option<&Token<'_>>,
) -> Option<(usize, usize)> {
    let bare = token.bare;
    let end = token.bare_start + bare.len();
    if is_iso_date(bare) {
        return Some((token.bare_start, end));
    }
    let before = before?;
    if before.raw.ends_with(['.', ';', ':', '!', '?']) {
        return None;
    }
    let year = bare.len() == 4 && (bare.starts_with("19") || bare.starts_with("20")) && {
        bare.bytes().all(|b| b.is_ascii_digit())
    };
    match before_that.filter(|token| !token.raw.ends_with(['.', ';', ':', '!', '?'])) {
        // `8 May 2023` and `May 8, 2023`.
        Some(first)
            if year
                && ((is_day(first.bare) && is_month(before.bare))
                    || (is_month(first.bare) && is_day(before.bare))) =>
        {
            Some((first.bare_start, end))
        }
        // `May 8`, `8 May` and `May 2023`. Longer dates are matched separately
        // and take precedence over these.
        _ if (is_month(before.bare) && (is_day(bare) || year))
            || (is_day(before.bare) && is_month(bare)) =>
        {
            Some((before.bare_start, end))
        }
        _ => None,
    }
}

fn is_day(word: &str) -> bool {
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending))
        .unwrap_or(word);
    digits.len() <= 2
        && digits
            .parse::<u8>()
            .is_ok_and(|day| (1..=31).contains(&day))
}

fn is_iso_date(word: &str) -> bool {
    let date = word.get(..10).unwrap_or_default();
    let shape = date.bytes().enumerate().all(|(i, byte)| match i {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    let rest = word.get(10..).unwrap_or_default();
    date.len() == 10 && shape && (rest.is_empty() || rest.starts_with('T'))
}
