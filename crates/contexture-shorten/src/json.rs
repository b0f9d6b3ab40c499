//! Shows the shape of JSON: keys, scalars and the first elements of lists.
//!
//! The result is JSON again. Text in brackets replaces removed content; the
//! last element of the whole is the marker with the handle.

use contexture_core::{LinesCut, Tokens, grouped};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::hint::Hint;
use crate::{Kind, Shortened, Task};

/// The limits on the shown parts of a value.
#[derive(Clone, Copy)]
struct Shape {
    // Characters of a string.
    string: usize,
    // Elements of a list.
    items: usize,
    // Keys of an object.
    keys: usize,
    // Levels of objects and lists.
    depth: usize,
}

/// The limits to try, from the largest to the smallest. The first whose result
/// fits is used.
const SHAPES: [(usize, usize, usize, usize); 16] = [
    (4000, 400, 1000, 60),
    (2000, 200, 500, 60),
    (1000, 100, 300, 40),
    (600, 50, 200, 30),
    (400, 25, 150, 20),
    (300, 12, 120, 16),
    (200, 8, 100, 12),
    (150, 5, 80, 10),
    (120, 3, 60, 8),
    (80, 2, 50, 7),
    (60, 2, 40, 6),
    (50, 1, 30, 5),
    (40, 1, 20, 4),
    (30, 1, 12, 3),
    (24, 1, 8, 2),
    (16, 1, 5, 1),
];

/// A value up to this many characters is written on one line.
const ONE_LINE: usize = 100;

/// Keys that are named of an object that is not shown.
const NAMED_KEYS: usize = 8;

/// A string with at least this many lines is cut like a text of its own.
const LEAST_LINES: usize = 8;

/// Returns true for an object or a list.
pub(crate) fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    // Most texts that begin with a bracket are logs: `[2026-03-01 ...`.
    let mut rest = text.chars().filter(|c| !c.is_whitespace()).skip(1);
    let may_be = match text.chars().next() {
        Some('{') => rest.next().is_some_and(|c| matches!(c, '"' | '}')),
        Some('[') => rest.next().is_some_and(|c| {
            matches!(c, '{' | '[' | '"' | ']' | '-' | 't' | 'f' | 'n' | '0'..='9')
        }),
        _ => false,
    };
    may_be && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Shortens JSON. Returns `None` if no part of it can be shown.
pub(crate) fn shorten(task: &Task<'_>) -> Option<Shortened> {
    let value: Value = serde_json::from_str(task.text).ok()?;
    let lines = LinesCut {
        first: 1,
        last: u32::try_from(task.text.lines().count()).unwrap_or(u32::MAX),
        partial: true,
    };
    let whole = LinesCut {
        partial: false,
        ..lines
    };
    let overview = task.marker(&format!("parts of {whole}"), task.text.len());
    let overview = overview.trim_end();
    // The output of a command is often one string of an object.
    let printed = longest_text(&value, task.text.len());
    let shapes = SHAPES.map(|(string, items, keys, depth)| Shape {
        string,
        items,
        keys,
        depth,
    });
    if let Some(path) = printed {
        let fit = |value: &Value| fitting(task, value, &shapes, overview);
        for percent in [80, 60, 40] {
            let mut shown = value.clone();
            let Some(Value::String(text)) = shown.pointer_mut(&path) else {
                break;
            };
            let handle = (task.handle).map(|handle| format!("{handle} with jq {}", jq_path(&path)));
            let limit = task.limit * percent / 100;
            let handle = handle.as_deref();
            let Some(inner) = crate::shorten(text, &Hint::default(), limit, task.counter, handle)
            else {
                break;
            };
            *text = inner.text;
            let whole = Shape {
                string: usize::MAX,
                ..shapes[0]
            };
            let text = write(&shown, &whole, Some(overview), task)
                .filter(|text| task.counter.count_up_to(text, task.limit).is_some())
                .or_else(|| {
                    // The rest is long as well.
                    let kept = shown.pointer_mut(&path).map(Value::take)?;
                    let text = fit(&shown)?;
                    let value = serde_json::from_str::<Value>(&text).ok();
                    let mut value = value?;
                    *value.pointer_mut(&path)? = kept;
                    let text = write(&value, &whole, None, task)?;
                    task.counter.count_up_to(&text, task.limit)?;
                    Some(text)
                });
            if let Some(text) = text {
                return Some(task.shortened(text, lines, Kind::Json));
            }
        }
    }
    let text = fitting(task, &value, &shapes, overview)?;
    Some(task.shortened(text, lines, Kind::Json))
}

/// Writes as much of a value as fits.
fn fitting(task: &Task<'_>, value: &Value, shapes: &[Shape], overview: &str) -> Option<String> {
    shapes.iter().find_map(|shape| {
        let text = write(value, shape, Some(overview), task)?;
        task.counter.count_up_to(&text, task.limit)?;
        Some(text)
    })
}

/// Returns the path of a text of many lines that is most of the value.
fn longest_text(value: &Value, bytes: usize) -> Option<String> {
    fn find(value: &Value, path: &mut String, depth: usize, least: usize) -> Option<String> {
        let mut inside = |key: &str, value: &Value| {
            let length = path.len();
            path.push('/');
            path.push_str(&key.replace('~', "~0").replace('/', "~1"));
            let found = find(value, path, depth + 1, least);
            path.truncate(length);
            found
        };
        match value {
            _ if depth > 8 => None,
            Value::String(text) if text.len() >= least => {
                let lines = text.lines().take(LEAST_LINES).count();
                (lines == LEAST_LINES).then(|| path.clone())
            }
            Value::Object(map) => map.iter().find_map(|(key, value)| inside(key, value)),
            Value::Array(list) => {
                let mut list = list.iter().take(16).enumerate();
                list.find_map(|(i, value)| inside(&i.to_string(), value))
            }
            _ => None,
        }
    }
    find(value, &mut String::new(), 0, bytes / 2)
}

/// Returns a JSON pointer as an expression of jq.
fn jq_path(pointer: &str) -> String {
    let mut path = String::new();
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if key.parse::<usize>().is_ok() {
            path.push_str(&format!("[{key}]"));
        } else if key.chars().all(is_plain) {
            path.push_str(&format!(".{key}"));
        } else {
            path.push_str(&format!("[{}]", Value::String(key)));
        }
    }
    match path.starts_with('.') {
        true => path,
        false => format!(".{path}"),
    }
}

/// Writes a value in a shape, with the marker of the whole at its end. Returns
/// `None` when it is far too long.
fn write(value: &Value, shape: &Shape, overview: Option<&str>, task: &Task<'_>) -> Option<String> {
    let mut writer = Writer {
        shape,
        // A token rarely has more bytes than this.
        most: usize::try_from(task.limit).ok()?.saturating_mul(16),
        nodes: 0,
    };
    let mut shown = writer.shorter(value, 0)?;
    if let Some(overview) = overview {
        let overview = Value::String(overview.to_owned());
        match &mut shown {
            Value::Object(map) => drop(map.insert("[...]".to_owned(), overview)),
            Value::Array(list) => list.push(overview),
            _ => return None,
        }
    }
    let mut out = String::new();
    pretty(&shown, 0, &mut out);
    Some(out)
}

struct Writer<'s> {
    shape: &'s Shape,
    most: usize,
    // About how many bytes were written.
    nodes: usize,
}

impl Writer<'_> {
    /// Returns a value with its long parts replaced.
    fn shorter(&mut self, value: &Value, depth: usize) -> Option<Value> {
        let shape = *self.shape;
        let shown = match value {
            Value::String(text) => Value::String(short_string(text, shape.string)),
            Value::Array(list) if depth >= shape.depth && !list.is_empty() => {
                Value::String(format!("[... list of {} ...]", items(list.len())))
            }
            Value::Array(list) => {
                // One more element is at most as long as a marker.
                let shown = match list.len() <= shape.items + 1 {
                    true => list.len(),
                    false => shape.items,
                };
                let mut short = Vec::new();
                for value in &list[..shown] {
                    short.push(self.shorter(value, depth + 1)?);
                }
                if shown < list.len() {
                    let rest = grouped((list.len() - shown) as u64);
                    let all = grouped(list.len() as u64);
                    short.push(format!("[... {rest} more of {all} items ...]").into());
                }
                Value::Array(short)
            }
            Value::Object(map) if depth >= shape.depth && !map.is_empty() => {
                Value::String(format!("[... object with {} ...]", named(map, 0)))
            }
            Value::Object(map) => {
                let mut short = Map::new();
                for (key, value) in map.iter().take(shape.keys) {
                    let key = short_string(key, shape.string.max(40));
                    short.insert(key, self.shorter(value, depth + 1)?);
                }
                if map.len() > shape.keys {
                    let rest = format!("[... {} ...]", named(map, shape.keys));
                    short.insert("[... more ...]".to_owned(), rest.into());
                }
                Value::Object(short)
            }
            other => other.clone(),
        };
        self.nodes += match &shown {
            Value::String(text) => text.len() + 4,
            _ => 4,
        };
        (self.nodes <= self.most).then_some(shown)
    }
}

fn items(count: usize) -> String {
    match count {
        1 => "1 item".to_owned(),
        count => format!("{} items", grouped(count as u64)),
    }
}

/// Names the keys of an object from `from` on.
fn named(map: &Map<String, Value>, from: usize) -> String {
    let count = map.len() - from;
    let keys = map.keys().skip(from).take(NAMED_KEYS);
    let mut keys: Vec<String> = keys.map(|key| short_string(key, 40)).collect();
    if count > NAMED_KEYS {
        keys.push("...".to_owned());
    }
    let plural = if count == 1 { "key" } else { "keys" };
    let more = if from > 0 { "more " } else { "" };
    format!(
        "{} {more}{plural}: {}",
        grouped(count as u64),
        keys.join(", ")
    )
}

/// Returns the start of a long string, and how long the rest is.
fn short_string(text: &str, most: usize) -> String {
    // The removed part must be longer than the text that replaces it.
    if text.len() <= most.saturating_add(32) {
        return text.to_owned();
    }
    let end = crate::plain::grapheme_floor(text, most);
    let rest = text[end..].chars().count() as Tokens;
    format!(
        "{}[... {} more characters ...]",
        &text[..end],
        grouped(rest)
    )
}

/// Writes a value: short ones on one line, others with an indent of one space.
fn pretty(value: &Value, indent: usize, out: &mut String) {
    if is_short(value) {
        out.push_str(&value.to_string());
        return;
    }
    let mut lines = |open: char, close: char, each: &mut dyn FnMut(usize, &mut String) -> bool| {
        out.push(open);
        let mut at = 0;
        loop {
            let before = out.len();
            out.push_str(if at == 0 { "\n" } else { ",\n" });
            out.extend(std::iter::repeat_n(' ', indent + 1));
            if !each(at, out) {
                out.truncate(before);
                break;
            }
            at += 1;
        }
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
        out.push(close);
    };
    match value {
        Value::Array(list) => {
            let mut list = list.iter();
            lines('[', ']', &mut |_, out| match list.next() {
                Some(value) => {
                    pretty(value, indent + 1, out);
                    true
                }
                None => false,
            });
        }
        Value::Object(map) => {
            let mut map = map.iter();
            lines('{', '}', &mut |_, out| match map.next() {
                Some((key, value)) => {
                    out.push_str(&Value::String(key.clone()).to_string());
                    out.push_str(": ");
                    pretty(value, indent + 1, out);
                    true
                }
                None => false,
            });
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Returns true for a value that fits on one line.
fn is_short(value: &Value) -> bool {
    fn length(value: &Value, left: usize) -> Option<usize> {
        let sum = |lengths: &mut dyn Iterator<Item = (usize, &Value)>| {
            let mut left = left.checked_sub(2)?;
            for (extra, value) in lengths {
                left = length(value, left.checked_sub(extra + 2)?)?;
            }
            Some(left)
        };
        match value {
            Value::Array(list) => sum(&mut list.iter().map(|value| (0, value))),
            Value::Object(map) => sum(&mut map.iter().map(|(key, value)| (key.len() + 4, value))),
            Value::String(text) => left.checked_sub(text.len() + 2),
            _ => left.checked_sub(6),
        }
    }
    length(value, ONE_LINE).is_some()
}
