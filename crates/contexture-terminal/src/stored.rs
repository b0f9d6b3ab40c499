//! The content of a store as text: usage, records, verifications and deletions.

use contexture::core::grouped;
use contexture::store::{Deleted, Record, RecordKind, Usage, Verification};
use serde_json::{Value, json};

use crate::text;

/// Returns the results of a verification, in lines.
pub fn verification(tenant: &str, verified: &Verification) -> String {
    let is_pending = |what: &str| what == "pending_deletions";
    let checked: Vec<String> = (verified.checked.iter())
        .filter(|(what, _)| !is_pending(what))
        .map(|(what, count)| counted_things(*count, what))
        .collect();
    let mut verdict = match verified.damaged.is_empty() {
        true => "; no damage found".to_owned(),
        false => String::new(),
    };
    for (what, count) in verified.checked.iter().filter(|(what, _)| is_pending(what)) {
        verdict.push_str(&format!("; {}", counted_things(*count, what)));
    }
    let mut lines = format!("{tenant}: checked {}{verdict}\n", checked.join(", "));
    for damage in &verified.damaged {
        let line = format!("{tenant}: {}: {}\n", damage.what, damage.message);
        lines.push_str(&text::visible(&line));
    }
    lines
}

/// Returns the number of deleted objects, in words.
pub fn counted(deleted: &Deleted) -> String {
    let parts: Vec<String> = (deleted.deleted.iter())
        .map(|(what, count)| match what.as_str() {
            "blob_bytes" => counted_things(*count, "bytes"),
            what => counted_things(*count, what),
        })
        .collect();
    match parts.is_empty() {
        true => "nothing".to_owned(),
        false => parts.join(", "),
    }
}

/// Returns the usage of a tenant, in words.
pub fn usage(used: &Usage) -> String {
    let mut words = format!(
        "{} bytes: {}, {}, {}, {}, {} with {}, {}",
        used.bytes,
        text::many(used.sessions, "session"),
        text::many(used.turns, "turn"),
        text::many(used.snapshots, "snapshot"),
        text::many(used.records, "record"),
        text::many(used.trees, "tree"),
        text::many(used.nodes, "node"),
        text::many(used.tasks, "task"),
    );
    if used.pending {
        words.push_str("; deleted text is still in the files");
    }
    words
}

/// Returns a count with the store's plural name of the objects: `1 turn`.
fn counted_things(count: u64, things: &str) -> String {
    let things = things.replace('_', " ");
    text::many(count, things.strip_suffix('s').unwrap_or(&things))
}

/// Returns a number of records in words.
pub fn many_of(number: u64, kind: RecordKind) -> String {
    match (kind, number) {
        (RecordKind::Entity, 1) => "1 entity".to_owned(),
        (RecordKind::Entity, n) => format!("{} entities", grouped(n)),
        (kind, n) => text::many(n, kind.name()),
    }
}

/// Returns a record as lines, a field each, without those that are not set.
pub fn record(record: &Record) -> String {
    let mut out = String::new();
    let value = json!(record);
    for (name, value) in value.as_object().into_iter().flatten() {
        let text = match value {
            Value::Null => continue,
            Value::Array(values) if values.is_empty() => continue,
            Value::Object(fields) if fields.is_empty() => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        for (i, line) in text.lines().enumerate() {
            let name = if i == 0 { name } else { "" };
            let line = format!("{name:<11} {}", text::visible(line));
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}
