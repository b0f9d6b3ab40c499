//! [`Log`]: the event log of a session and the path of its files.

use contexture_core::ContentHash;
use contexture_core::guard::{find_secrets, mask};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::advice::Warning;
use crate::files::Root;

/// Returns the directory of a session, with a final slash.
///
/// It is below `.agent/` if that directory exists.
pub fn session_dir(root: &Root, session: Option<&str>) -> String {
    let above = if root.is_dir(".agent") {
        ".agent"
    } else {
        ".contexture"
    };
    format!("{above}/sessions/{}/", directory_name(session))
}

/// The longest name of a session's directory, in bytes. Some file systems allow
/// 143, and the name gets a hash.
const LONGEST_NAME: usize = 100;

/// Returns the name of a session's directory: the label, where it is a plain
/// name. Any other label is shortened and gets a `~` and a hash, so that two
/// labels never share a directory.
pub(crate) fn directory_name(session: Option<&str>) -> String {
    let label = session.unwrap_or("default");
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    let fits = (1..=LONGEST_NAME).contains(&label.len())
        && !label.starts_with('.')
        && !label.ends_with('.')
        && label.chars().all(is_plain)
        && !is_device(label);
    if fits {
        return label.to_owned();
    }
    let plain = |c: char| if is_plain(c) { c } else { '_' };
    let name: String = label.chars().map(plain).collect();
    let name = name.trim_start_matches('.');
    let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
    let name = if name.is_empty() { "session" } else { name };
    let before = if is_device(name) { "_" } else { "" };
    let hash = ContentHash::of(label.as_bytes()).to_string();
    format!("{before}{name}~{}", &hash[..HASH_DIGITS])
}

/// The digits of a hash in a directory's name.
const HASH_DIGITS: usize = 16;

/// Returns true for the names that are devices on Windows, with any extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).to_ascii_uppercase();
    let numbered = |prefix: &str| {
        let number = stem.strip_prefix(prefix);
        number.is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9']))
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT")
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
    // Other secrets are recognised only next to their key. A mask that covers
    // more than the value would break the line.
    let whole = masked(&line);
    match serde_json::from_str::<serde::de::IgnoredAny>(&whole) {
        Ok(_) => whole,
        Err(_) => line,
    }
}

/// Returns the JSON `text` in one line with its secrets masked. Returns `None` if
/// it has no secrets, and if it is not JSON.
pub fn masked_json_text(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let plain = value.to_string();
    Some(masked_json(value)).filter(|masked| *masked != plain)
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

/// The name of a log, and of the older part of a log that has become too long.
pub(crate) const LOG: &str = "events.jsonl";
pub(crate) const OLD_LOG: &str = "events.old.jsonl";

/// The size from which on a log is continued in a new file. The file before is kept
/// until the new one is as long.
pub(crate) const MAX_LOG_BYTES: u64 = 16 << 20;

/// The append-only log of a session: the ids of included content with time and
/// budget, and the changes of the working set.
#[derive(Debug)]
pub struct Log<'r> {
    root: &'r Root,
    path: String,
    old_path: String,
    max_bytes: u64,
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
        let dir = session_dir(root, session);
        Self {
            root,
            path: format!("{dir}{LOG}"),
            old_path: format!("{dir}{OLD_LOG}"),
            max_bytes: MAX_LOG_BYTES,
        }
    }

    /// Appends an event. Returns a warning if the log cannot be written; that
    /// must not prevent a turn.
    pub fn append(&self, now: Timestamp, event: &str, details: impl Serialize) -> Option<Warning> {
        let line = Line {
            time: now.to_string(),
            event,
            details,
        };
        // If another process renames the log at the same time, one of them fails.
        if (self.root.size(&self.path)).is_ok_and(|bytes| bytes >= self.max_bytes) {
            let _ = self.root.rename(&self.path, &self.old_path);
        }
        let written = serde_json::to_value(&line)
            .map_err(std::io::Error::other)
            .and_then(|line| self.root.append_line(&self.path, &masked_json(line)));
        let error = written.err()?;
        let message = format!("cannot write the event log {}: {error}", self.path);
        Some(Warning::new("log_not_written", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_continued_in_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let log = Log {
            max_bytes: 200,
            ..Log::of(&root, Some("s"))
        };
        for i in 0..100 {
            let event = serde_json::json!({"n": i});
            assert!(log.append(Timestamp::UNIX_EPOCH, "e", event).is_none());
        }
        let read = |path: &str| root.read_text(path, 1 << 20).unwrap();
        let (old, new) = (read(&log.old_path), read(&log.path));
        assert!((200..300).contains(&old.len()), "{old}");
        assert!(new.len() < 300 && new.contains("\"n\":99"), "{new}");
        assert_eq!(root.names_in(".contexture/sessions/s").len(), 3);
    }

    #[test]
    fn each_label_has_a_directory_of_its_own() {
        let plain = ["default", "a_b", "night-shift.2", "größe", "user@host"];
        for label in plain {
            assert_eq!(directory_name(Some(label)), label);
        }
        let long = "x".repeat(256);
        let longer = "x".repeat(300);
        let emoji = "🦀".repeat(100);
        let others = [
            "a/b", "a b", "a%b", "a_b~", "..", ".", "", "...", ".a", "a.", "CON", "nul.txt",
            "com1", &long, &longer, &emoji,
        ];
        let mut names: Vec<String> = (plain.iter().chain(&others))
            .map(|label| directory_name(Some(label)))
            .collect();
        for name in &names {
            assert!(name.len() <= LONGEST_NAME + HASH_DIGITS + 2, "{name}");
            assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
            assert!(!is_device(name), "{name}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), plain.len() + others.len());
        assert_eq!(directory_name(None), "default");
    }
}
