//! The automatic changes to the working set after a turn.
//!
//! - The newest tool outputs become files of the working set; older ones are
//!   removed from it.
//! - A file that the turn mentions is raised in priority.
//! - A file that no turn mentioned for some turns is demoted.
//!
//! Pinned files and files at priority 1 are not changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::actions::{self, Action, ActionKind, Actor, Target};
use super::expand::expand;
use super::manifest::Manifest;
use crate::error::Error;
use crate::files::Root;
use crate::turn::{Block, MessageContent, MessageRole, NewTurn, json_with_path};
use contexture_engine::config::Habits;
use contexture_engine::{masked, session_dir};

/// The state that is saved from turn to turn, in the session's directory.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    turn: u64,
    last_mention: BTreeMap<String, u64>,
    tool_outputs: Vec<String>,
}

/// Updates the working set from `turn`; returns the changes and warnings.
pub fn observe(
    target: Target<'_>,
    turn: &NewTurn,
    habits: Habits,
) -> Result<(Vec<Action>, Vec<String>), Error> {
    let root = target.root;
    // The saved state and the manifest must match: one lock protects both.
    let _lock = actions::lock(target)?;
    let manifest = Manifest::read(root, target.manifest)?;
    let dir = session_dir(root, target.session);
    let memory_path = format!("{dir}observed.json");
    let mut memory = read_memory(root, &memory_path)?;
    // Lost state must not cause the files of an old turn to be written again.
    let listed = manifest.files.iter().filter_map(|entry| {
        let name = entry.path.strip_prefix(&dir)?.strip_prefix("tool/")?;
        name.split('-').next()?.parse::<u64>().ok()
    });
    let latest = memory.turn.max(listed.max().unwrap_or(0));
    memory.turn = latest.saturating_add(1);

    let mut changes = Vec::new();
    let mut written = Vec::new();
    let outputs = tool_outputs(turn);
    let skip = outputs.len().saturating_sub(habits.keep_tool_outputs);
    for (i, (tool, output)) in outputs.iter().enumerate().skip(skip) {
        let path = format!("{dir}tool/{:06}-{:02}-{tool}.txt", memory.turn, i + 1);
        // A turn that was written but not remembered is observed again.
        if manifest.files.iter().any(|entry| entry.id() == path) {
            continue;
        }
        written.push((path.clone(), output));
        changes.push(Action {
            what: ActionKind::Add {
                priority: habits.tool_output_priority,
                fields: vec![("truncate_strategy".to_owned(), "start".to_owned())],
            },
            path: path.clone(),
            why: format!("newest output of `{tool}`, turn {}", memory.turn),
        });
        memory.tool_outputs.push(path);
    }
    let old = memory
        .tool_outputs
        .len()
        .saturating_sub(habits.keep_tool_outputs);
    for path in memory.tool_outputs.drain(..old) {
        // One that a person pinned stays, and is theirs from now on.
        let listed = manifest.files.iter().find(|entry| entry.id() == path);
        if listed.is_some_and(|entry| !entry.is_pinned() && entry.priority < 1.0) {
            changes.push(Action {
                what: ActionKind::Remove,
                path,
                why: format!(
                    "older than the last {} tool outputs",
                    habits.keep_tool_outputs
                ),
            });
        }
    }
    let removed: Vec<String> = changes
        .iter()
        .filter(|action| action.what == ActionKind::Remove)
        .map(|action| action.path.clone())
        .collect();

    // A pattern counts as mentioned if one of its files is.
    let mut warnings = Vec::new();
    let candidates = expand(root, &manifest, &mut warnings)?;
    let mut mentioned: BTreeSet<String> = BTreeSet::new();
    for candidate in &candidates {
        if candidate.problem.is_none() && mentions(turn, &candidate.path) {
            mentioned.insert(candidate.entry.id());
        }
    }
    for entry in &manifest.files {
        let id = entry.id();
        if entry.is_pinned() || entry.priority >= 1.0 || removed.contains(&id) {
            continue;
        }
        let moved = if mentioned.contains(&id) {
            memory.last_mention.insert(id.clone(), memory.turn);
            let bumped = round(entry.priority + habits.step).min(habits.ceiling);
            (bumped > entry.priority)
                .then(|| (bumped, format!("mentioned in turn {}", memory.turn)))
        } else {
            // A file is new to us on the first turn that sees it.
            let last = *memory
                .last_mention
                .entry(id.clone())
                .or_insert(memory.turn - 1);
            // A person may edit the file, so it can contain any value.
            let silent = memory.turn.saturating_sub(last);
            let demoted = round(entry.priority - habits.step).max(habits.floor);
            let overdue = silent >= habits.untouched_turns;
            if overdue {
                // The next step down takes as many silent turns again.
                memory.last_mention.insert(id.clone(), memory.turn);
            }
            (overdue && demoted < entry.priority)
                .then(|| (demoted, format!("not mentioned for {silent} turns")))
        };
        if let Some((priority, why)) = moved {
            changes.push(Action {
                what: ActionKind::Adjust { priority },
                path: id,
                why,
            });
        }
    }
    memory
        .last_mention
        .retain(|id, _| manifest.files.iter().any(|entry| entry.id() == *id));

    // Checked first, so that a rejected change leaves no file.
    let prepared = match changes.is_empty() {
        true => None,
        false => Some(actions::prepare(target, &changes, Actor::Orchestrator)?),
    };
    let apply = || -> Result<Vec<String>, Error> {
        for (path, output) in &written {
            // Tools print keys; a file of their output is read by more than the
            // model.
            root.write_private(path, &masked(output))?;
        }
        prepared.map_or_else(|| Ok(Vec::new()), actions::Prepared::write)
    };
    let applied = apply().inspect_err(|_| {
        for (path, _) in &written {
            root.remove(path);
        }
    })?;
    let text = serde_json::to_string_pretty(&memory)
        .map_err(|error| Error::failure(format!("cannot write {memory_path}"), error))?;
    root.write_private(&memory_path, &text)?;
    // This includes files that were removed from the manifest by hand.
    let names = root.names_in(&format!("{dir}tool")).into_iter();
    let outputs = names.map(|name| format!("{dir}tool/{name}"));
    delete_unlisted(root, target.manifest, outputs)?;
    warnings.extend(applied);
    Ok((changes, warnings))
}

/// Deletes the tool outputs in `paths` that the manifest does not list any
/// more. Only files that [`observe`] wrote are deleted.
pub(super) fn delete_unlisted(
    root: &Root,
    manifest: &str,
    paths: impl Iterator<Item = String>,
) -> Result<(), Error> {
    let mut outputs = paths.filter(|path| is_output(path)).peekable();
    if outputs.peek().is_none() {
        return Ok(());
    }
    let manifest = Manifest::read(root, manifest)?;
    for path in outputs {
        if !manifest.files.iter().any(|entry| entry.path == path) {
            root.remove(&path);
        }
    }
    Ok(())
}

/// Returns true for the path of a tool output, such as
/// `.agent/sessions/default/tool/000012-01-shell.txt`.
fn is_output(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let [".agent" | ".contexture", "sessions", _, "tool", name] = parts[..] else {
        return false;
    };
    let number = |part: Option<&str>, digits: usize| {
        part.is_some_and(|part| part.len() >= digits && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut parts = name.splitn(3, '-');
    number(parts.next(), 6)
        && number(parts.next(), 2)
        && parts.next().is_some_and(|tool| tool.ends_with(".txt"))
}

fn round(priority: f64) -> f64 {
    (priority * 1000.0).round() / 1000.0
}

fn read_memory(root: &Root, path: &str) -> Result<Memory, Error> {
    if !root.exists(path) {
        return Ok(Memory::default());
    }
    json_with_path(path, &root.read_required(path)?)
        .map_err(|error| error.advise("delete the file to restart the counts"))
}

/// Returns the tool outputs of a turn with the tools' names made fit for a
/// file name.
fn tool_outputs(turn: &NewTurn) -> Vec<(String, String)> {
    let mut names = BTreeMap::new();
    let mut outputs = Vec::new();
    for message in &turn.messages {
        let blocks: &[Block] = match &message.content {
            MessageContent::Blocks(blocks) => blocks,
            MessageContent::Text(text) => {
                if message.role == MessageRole::Tool {
                    let call = message.tool_call_id.as_deref().unwrap_or_default();
                    outputs.push((call.to_owned(), text.clone()));
                }
                &[]
            }
        };
        for block in blocks {
            match block {
                Block::ToolCall { id, name, .. } => {
                    names.insert(id.clone(), name.clone());
                }
                Block::ToolResult {
                    tool_call_id,
                    content,
                    ..
                } => outputs.push((tool_call_id.clone(), content.clone())),
                Block::Text { text, .. } if message.role == MessageRole::Tool => {
                    let call = message.tool_call_id.as_deref().unwrap_or_default();
                    outputs.push((call.to_owned(), text.to_string()));
                }
                _ => {}
            }
        }
    }
    outputs
        .into_iter()
        .map(|(call, output)| {
            let name = names.get(&call).map_or("tool", String::as_str);
            let name: String = name
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
                .take(40)
                .collect();
            let name = if name.is_empty() {
                "tool".to_owned()
            } else {
                name
            };
            (name, output)
        })
        .collect()
}

/// Returns true when the turn names `path` as a whole word.
fn mentions(turn: &NewTurn, path: &str) -> bool {
    let mut found = false;
    for message in &turn.messages {
        message.each_text(|text| found |= names_path(text, path));
    }
    found
}

fn names_path(text: &str, path: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].trim_end_matches("./").chars().next_back();
        let mut behind = text[at + path.len()..].chars();
        // A full stop may end the sentence rather than continue the name.
        let next = match behind.next() {
            Some('.') => behind.next(),
            next => next,
        };
        !before.is_some_and(part_of_name) && !next.is_some_and(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::{is_output, names_path};

    #[test]
    fn only_files_that_observe_wrote_are_outputs() {
        for (path, expected) in [
            (".agent/sessions/default/tool/000001-01-shell.txt", true),
            (".contexture/sessions/a b/tool/1000001-100-a-b.txt", true),
            (
                ".agent/sessions/default/tool/000001-01-shell.txt.bak",
                false,
            ),
            (".agent/sessions/default/tool/notes-01-shell.txt", false),
            (".agent/sessions/default/tool/000001-shell.txt", false),
            (".agent/sessions/default/tool/.gitignore", false),
            (".agent/sessions/default/000001-01-shell.txt", false),
            ("src/sessions/default/tool/000001-01-shell.txt", false),
            (".agent/sessions/../tool/x/000001-01-shell.txt", false),
        ] {
            assert_eq!(is_output(path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_is_mentioned_as_a_whole() {
        for (text, expected) in [
            ("look at src/main.rs.", true),
            ("`src/main.rs`", true),
            ("./src/main.rs:12", true),
            ("{\"path\":\"src/main.rs\"}", true),
            ("lib/src/main.rs", false),
            ("src/main.rs.bak", false),
            ("src/main.rsx", false),
        ] {
            assert_eq!(names_path(text, "src/main.rs"), expected, "{text}");
        }
    }
}
