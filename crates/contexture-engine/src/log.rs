//! [`Log`]: the event log of a session and the path of its files.

use contexture_core::guard::{find_secrets, mask};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::advice::Warning;
use crate::files::Root;

/// Returns the directory of a session, with a slash behind it.
///
/// It lies below `.agent/` where there is one.
pub fn session_dir(root: &Root, session: Option<&str>) -> String {
    let above = if root.is_dir(".agent") {
        ".agent"
    } else {
        ".contexture"
    };
    // A label becomes one component of a path, whatever it holds.
    let label: String = session
        .unwrap_or("default")
        .chars()
        .map(|c| match c {
            c if c.is_alphanumeric() => c,
            '-' | '_' | '.' | '@' | '+' => c,
            _ => '_',
        })
        .collect();
    let label = label.trim_start_matches('.');
    let label = if label.is_empty() { "default" } else { label };
    format!("{above}/sessions/{label}/")
}

/// Returns a text with its secrets masked, as everything that Contexture writes
/// to disk outside of its store.
pub fn masked(text: &str) -> String {
    mask(text, &find_secrets(text))
}

/// Returns JSON in one line with its secrets masked.
pub fn masked_json(mut value: Value) -> String {
    // A value that spans lines is recognised only without escapes.
    mask_values(&mut value);
    let line = value.to_string();
    // Others are recognised only next to their key. A mask that takes more than
    // the value would break the line.
    let whole = masked(&line);
    match serde_json::from_str::<serde::de::IgnoredAny>(&whole) {
        Ok(_) => whole,
        Err(_) => line,
    }
}

fn mask_values(value: &mut Value) {
    match value {
        Value::String(text) => {
            let found = find_secrets(text);
            if !found.is_empty() {
                *text = mask(text, &found);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(mask_values),
        Value::Object(values) => values.values_mut().for_each(mask_values),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The append-only log of a session: what was included, when, at what budget,
/// and what changed in the working set.
#[derive(Debug)]
pub struct Log<'r> {
    root: &'r Root,
    path: String,
}

#[derive(Serialize)]
struct Line<'e, E> {
    time: String,
    event: &'e str,
    #[serde(flatten)]
    details: E,
}

impl<'r> Log<'r> {
    /// Returns the log of `session`.
    pub fn of(root: &'r Root, session: Option<&str>) -> Self {
        Self {
            root,
            path: format!("{}events.jsonl", session_dir(root, session)),
        }
    }

    /// Appends an event. A log that cannot be written is returned as a
    /// warning: it must not keep a turn from being made.
    pub fn append(&self, now: Timestamp, event: &str, details: impl Serialize) -> Option<Warning> {
        let line = Line {
            time: now.to_string(),
            event,
            details,
        };
        let written = serde_json::to_value(&line)
            .map_err(std::io::Error::other)
            .and_then(|line| self.root.append_line(&self.path, &masked_json(line)));
        let error = written.err()?;
        let message = format!("cannot write the event log {}: {error}", self.path);
        Some(Warning::new("log_not_written", message))
    }
}
