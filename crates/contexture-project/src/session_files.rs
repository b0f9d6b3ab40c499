//! The files that Contexture writes for sessions and tenants: their deletion, and the
//! deletion of old lines of event logs.
//!
//! A session's directory has its event log, and the tool outputs and the state of an
//! observed working set. Files that Contexture did not write are never touched.

use std::collections::BTreeMap;

use contexture_core::ContentHash;
use jiff::Timestamp;
use serde::Deserialize;

use crate::config::Config;
use crate::files::Root;
use crate::log::{LOG, MAX_LOG_BYTES, OLD_LOG, directory_name};

/// The directories of which one contains the directories of sessions.
const ABOVE: [&str; 2] = [".agent/sessions", ".contexture/sessions"];

/// The longest line of a log that is read, in addition to its size when it is renamed.
const LONGEST_LINE: u64 = 64 << 20;

/// The largest copy of a stored file that is compared with its hash.
const LARGEST_COPY: u64 = 64 << 20;

/// Deletes the event log of a session.
pub fn delete_log(root: &Root, session: &str) {
    for above in ABOVE {
        let dir = format!("{above}/{}", directory_name(Some(session)));
        for name in [LOG, OLD_LOG] {
            root.remove(&format!("{dir}/{name}"));
        }
        root.remove_dir_if_unused(&dir);
    }
}

/// Deletes the lines of all event logs that are older than `before`. A dry run only
/// counts them. Returns the number of lines.
pub fn delete_lines_before(root: &Root, before: Timestamp, dry_run: bool) -> u64 {
    let mut deleted = 0;
    for above in ABOVE {
        for session in root.names_in(above) {
            let dir = format!("{above}/{session}");
            for name in [OLD_LOG, LOG] {
                deleted += shorten(root, &format!("{dir}/{name}"), before, dry_run);
            }
            if !dry_run {
                root.remove_dir_if_unused(&dir);
            }
        }
    }
    deleted
}

/// The time of a line.
#[derive(Deserialize)]
struct Line {
    time: Timestamp,
}

/// Deletes the first lines of a log. Lines are in the order of their times.
fn shorten(root: &Root, path: &str, before: Timestamp, dry_run: bool) -> u64 {
    let read = root.read(path, MAX_LOG_BYTES + LONGEST_LINE).ok();
    let Some(text) = read.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return 0;
    };
    let is_old = |line: &&str| {
        let line = serde_json::from_str::<Line>(line);
        line.is_ok_and(|line| line.time < before)
    };
    let old: Vec<&str> = text.split_inclusive('\n').take_while(is_old).collect();
    let (lines, bytes) = (old.len() as u64, old.iter().map(|line| line.len()).sum());
    if lines == 0 || dry_run {
        return lines;
    }
    // Another call has written a line meanwhile. The next collection deletes the old ones.
    if root.size(path).ok() != Some(text.len() as u64) {
        return 0;
    }
    match &text[bytes..] {
        "" => root.remove(path),
        rest => {
            if root.write_private(path, rest).is_err() {
                return 0;
            }
        }
    }
    lines
}

/// Deletes the files that Contexture has written for all sessions: event logs, tool
/// outputs, and the states of observed working sets.
fn delete_all(root: &Root) {
    for above in ABOVE {
        for session in root.names_in(above) {
            let dir = format!("{above}/{session}");
            let outputs = format!("{dir}/tool");
            for name in root.names_in(&outputs) {
                if is_output(&name) {
                    root.remove(&format!("{outputs}/{name}"));
                }
            }
            root.remove_dir_if_unused(&outputs);
            for name in [LOG, OLD_LOG, "observed.json"] {
                root.remove(&format!("{dir}/{name}"));
            }
            root.remove_dir_if_unused(&dir);
        }
        root.remove_dir_if_unused(above);
    }
    root.remove_dir_if_unused(".contexture");
}

/// Returns true for the name of a tool output, such as `000012-01-shell.txt`.
fn is_output(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = name.splitn(3, '-');
    let numbers = parts.next().is_some_and(digits) && parts.next().is_some_and(digits);
    numbers && parts.next().is_some_and(|tool| tool.ends_with(".txt"))
}

/// Returns the root of a tenant below or next to the root of its server, if it exists.
/// The name "" is the default tenant.
pub fn tenant_root(server: &Root, config: &Config, tenant: &str) -> Option<Root> {
    if tenant.is_empty() {
        return Root::open(server.path()).ok();
    }
    let configured = config.server.tenants.get(tenant);
    if let Some(path) = configured.and_then(|tenant| tenant.root.as_deref()) {
        return Root::open(server.path().join(path)).ok();
    }
    let below = format!(".contexture/tenants/{tenant}");
    match server.is_dir(&below) {
        true => Root::open(server.path().join(below)).ok(),
        false => None,
    }
}

/// Deletes the files that Contexture has written for a tenant that was deleted: the
/// copies of its stored files, unless they were changed, and the files of its sessions.
/// Other files in its root are kept.
pub fn delete_of_tenant(server: &Root, config: &Config, tenant: &str) {
    let Some(root) = tenant_root(server, config, tenant) else {
        return;
    };
    let list = copies_list(tenant);
    let copies = server.read_text(&list, 1 << 20).unwrap_or_default();
    let copies: BTreeMap<String, ContentHash> = serde_json::from_str(&copies).unwrap_or_default();
    for (path, hash) in &copies {
        let bytes = root.read(path, LARGEST_COPY);
        if bytes.is_ok_and(|bytes| ContentHash::of(&bytes) == *hash) {
            root.remove(path);
        }
        let mut above = path.as_str();
        while let Some((parent, _)) = above.rsplit_once('/') {
            root.remove_dir_if_unused(parent);
            above = parent;
        }
    }
    server.remove(&list);
    delete_all(&root);
    server.remove_dir_if_unused(&format!(".contexture/tenants/{tenant}"));
}

/// Returns the path of the list of copies of a tenant's stored files, below the root of
/// the server.
pub fn copies_list(tenant: &str) -> String {
    format!(".contexture/files/{tenant}.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn log(root: &Root, session: &str, second: i64) {
        let event = serde_json::json!({"n": second});
        assert!(
            Log::of(root, Some(session))
                .append(at(second), "assembled", event)
                .is_none()
        );
    }

    #[test]
    fn the_log_of_a_session_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        log(&root, "a/b", 1);
        log(&root, "other", 1);
        delete_log(&root, "a/b");
        let names = root.names_in(".contexture/sessions");
        assert_eq!(names, [".gitignore", "other"]);
        assert!(root.exists(".contexture/sessions/other/events.jsonl"));
        // Another file of the session's directory is kept.
        root.append_line(".contexture/sessions/other/notes.md", "mine")
            .unwrap();
        delete_log(&root, "other");
        assert!(!root.exists(".contexture/sessions/other/events.jsonl"));
        assert!(root.exists(".contexture/sessions/other/notes.md"));
    }

    #[test]
    fn old_lines_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        for second in 0..4 {
            log(&root, "s", second);
        }
        log(&root, "t", 0);
        assert_eq!(delete_lines_before(&root, at(2), true), 3);
        assert_eq!(delete_lines_before(&root, at(2), false), 3);
        assert_eq!(delete_lines_before(&root, at(2), false), 0);
        let path = ".contexture/sessions/s/events.jsonl";
        let left = root.read_text(path, 1 << 20).unwrap();
        assert_eq!(left.lines().count(), 2);
        assert!(
            left.contains("\"n\":2") && left.contains("\"n\":3"),
            "{left}"
        );
        assert!(!root.exists(".contexture/sessions/t"));
        log(&root, "s", 9);
        assert_eq!(root.read_text(path, 1 << 20).unwrap().lines().count(), 3);
    }

    #[test]
    fn a_deleted_tenant_leaves_only_files_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let server = Root::open(dir.path()).unwrap();
        let below = |path: &str| format!(".contexture/tenants/acme/{path}");
        for path in ["docs/AGENTS.md", "changed.md", "own.md"] {
            server.append_line(&below(path), "text").unwrap();
        }
        let hash = ContentHash::of(b"text\n").to_string();
        let copies = serde_json::json!({"docs/AGENTS.md": hash, "changed.md": "0".repeat(64)});
        server
            .write_private(&copies_list("acme"), &copies.to_string())
            .unwrap();
        let acme = tenant_root(&server, &Config::default(), "acme").unwrap();
        log(&acme, "s", 1);
        for path in ["observed.json", "tool/000001-01-shell.txt", "tool/mine.txt"] {
            let path = format!(".contexture/sessions/s/{path}");
            acme.append_line(&path, "output").unwrap();
        }
        delete_of_tenant(&server, &Config::default(), "acme");
        let left: Vec<bool> = [
            "docs",
            ".contexture/sessions/s/events.jsonl",
            ".contexture/sessions/s/observed.json",
            ".contexture/sessions/s/tool/000001-01-shell.txt",
            ".contexture/sessions/s/tool/mine.txt",
            "changed.md",
            "own.md",
        ]
        .map(|path| server.exists(&below(path)))
        .to_vec();
        assert_eq!(left, [false, false, false, false, true, true, true]);
        assert!(!server.exists(&copies_list("acme")));
        // Nothing is left of a tenant whose files are all Contexture's.
        let other = ".contexture/tenants/other";
        server.append_line(&format!("{other}/a"), "text").unwrap();
        server.remove(&format!("{other}/a"));
        let root = tenant_root(&server, &Config::default(), "other").unwrap();
        log(&root, "s", 1);
        delete_of_tenant(&server, &Config::default(), "other");
        assert!(!server.exists(other));
        delete_of_tenant(&server, &Config::default(), "nobody");
    }
}
