use std::collections::BTreeSet;

use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Cut, Item, Role, Text, Trust};

use super::Standing;
use super::permissions::Permissions;
use crate::error::Error;
use crate::files::{self, Look, Root, Stamp};
use crate::source;
use crate::working_set::{Candidate, Entry, Hints, Manifest};

impl Standing {
    /// Returns a pinned item for each of the operator's files that is there.
    ///
    /// A path that leads nowhere is looked for below `.agent/`, too; one that is
    /// in neither place leaves no trace, because most of these files are optional.
    pub(crate) fn files(
        &self,
        root: &Root,
        paths: &[String],
        max_file_bytes: u64,
        policy: Policy,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Item>, Error> {
        for path in paths {
            files::check_path(path)
                .map_err(|why| Error::input(format!("a standing file {why}")))?;
        }
        if let Some(items) = self.plain_files(root, paths, max_file_bytes, policy) {
            return Ok(items);
        }
        let mut manifest = Manifest::default();
        let places = paths.iter().map(|path| place_of(root, path));
        manifest.files.extend(places.map(entry));
        let hints = Hints::default();
        let mut items = source::working_set(root, &manifest, &hints, policy, warnings)?;
        items.retain(|item| {
            let optional = [Code::Missing, Code::NoMatch, Code::Duplicate];
            !matches!(&item.content, Content::Absent { code, .. } if optional.contains(code))
        });
        for item in &mut items {
            item.pinned = true;
            item.trust = Trust::Operator;
            if let Content::Pending { .. } = item.content {
                let stamp = root.stamp(&item.id);
                item.content = self.content(root, &item.id, stamp, max_file_bytes, policy);
            }
        }
        Ok(items)
    }

    /// Returns the same with one question to the system for each place, when
    /// there is a file or nothing at each, which is nearly always so. Patterns
    /// must stand for nothing.
    fn plain_files(
        &self,
        root: &Root,
        paths: &[String],
        max_file_bytes: u64,
        policy: Policy,
    ) -> Option<Vec<Item>> {
        let hints = Hints::default();
        let mut places = BTreeSet::new();
        let mut items = Vec::new();
        for path in paths {
            let below = format!(".agent/{path}");
            let is_pattern = path.contains(['*', '?', '[', '{']);
            if is_pattern && is_nowhere(root, path) && is_nowhere(root, &below) {
                continue;
            }
            if is_pattern {
                return None;
            }
            let (place, found) = match root.look(path) {
                Look::Nothing => (below.as_str(), root.look(&below)),
                found => (path.as_str(), found),
            };
            let (bytes, stamp) = match found {
                Look::File { bytes, stamp } => (bytes, stamp),
                Look::Nothing => continue,
                Look::Other => return None,
            };
            if !places.insert(place.to_owned()) {
                return None;
            }
            let entry = entry(place.to_owned());
            let candidate = Candidate {
                id: entry.id(),
                path: entry.path.clone(),
                entry: &entry,
                bytes: Some(bytes),
                problem: None,
            };
            let mut item = source::item_of(root, &hints, policy, candidate);
            item.pinned = true;
            item.trust = Trust::Operator;
            item.content = self.content(root, place, stamp, max_file_bytes, policy);
            items.push(item);
        }
        Some(items)
    }

    fn content(
        &self,
        root: &Root,
        path: &str,
        stamp: Option<Stamp>,
        max_file_bytes: u64,
        policy: Policy,
    ) -> Content {
        let read = || match content(root, path, max_file_bytes, policy) {
            Content::Ready(text) => Ok(Content::Ready(text)),
            absent => Err(absent),
        };
        let made = self.files.get_by(stamp, root, path, policy, read);
        made.unwrap_or_else(|absent| absent)
    }

    /// Returns the persona's files and its permissions.
    pub(crate) fn persona(
        &self,
        root: &Root,
        dir: &str,
        permissions: &Permissions,
        max_file_bytes: u64,
        policy: Policy,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Item>, Error> {
        let paths = ["SOUL.md", "IDENTITY.md"].map(|name| format!("{dir}/{name}"));
        let mut items = self.files(root, &paths, max_file_bytes, policy, warnings)?;
        items.extend(self.section("permissions", &permissions.text(), policy));
        Ok(items)
    }
}

/// Returns what a file says without the blank lines around it: one stands
/// between two sections, and none where there is nothing to say.
fn content(root: &Root, path: &str, max_file_bytes: u64, policy: Policy) -> Content {
    let read = root.read_text(path, max_file_bytes);
    let absent = |code, reason| Content::Absent { code, reason };
    match read {
        Ok(text) => match text.trim_end().trim_start_matches(['\n', '\r']) {
            "" => absent(Code::Empty, "is empty".to_owned()),
            text => Content::Ready(Text::guarded(text, policy)),
        },
        Err(unusable) => absent(unusable.code, unusable.reason),
    }
}

/// Returns true for a pattern below a directory that is not there: nothing has
/// to be looked through to know that it stands for no file.
fn is_nowhere(root: &Root, path: &str) -> bool {
    let Some(start) = path.find(['*', '?', '[', '{']) else {
        return false;
    };
    let directory = path[..start].rsplit_once('/').map(|(above, _)| above);
    directory.is_some_and(|directory| root.is_absent(directory)) && root.is_absent(path)
}

fn place_of(root: &Root, path: &str) -> String {
    let below = format!(".agent/{path}");
    // What a pattern stands for shows only when it is walked: judge by where
    // it would begin.
    let fixed = |path: &str| -> bool {
        let start = path.find(['*', '?', '[', '{']).unwrap_or(path.len());
        let directory = path[..start].rsplit_once('/').map(|(above, _)| above);
        match directory {
            Some(directory) if start < path.len() => root.is_dir(directory),
            None if start < path.len() => true,
            _ => root.exists(path),
        }
    };
    if !fixed(path) && fixed(&below) {
        below
    } else {
        path.to_owned()
    }
}

fn entry(path: String) -> Entry {
    Entry {
        written: path.clone(),
        path,
        lines: None,
        priority: 1.0,
        role: Role::System,
        cut: Cut::Never,
        max_lines: None,
        line: 0,
        column: 0,
    }
}

/// Returns the directory of a persona.
pub(crate) fn persona_dir(root: &Root, dir: &str, name: Option<&str>) -> Result<String, Error> {
    let Some(name) = name else {
        return Ok(place_of(root, "persona"));
    };
    let path = format!("{dir}/{name}");
    if name.contains('/') || files::check_path(&path).is_err() {
        return Err(Error::input(format!("`{name}` is no name of a persona")));
    }
    let place = place_of(root, &path);
    if !root.is_dir(&place) {
        return Err(Error::input(format!(
            "there is no persona `{name}`: {place} is no directory"
        ))
        .hint("make it, with SOUL.md and IDENTITY.md, or set persona.dir in contexture.toml"));
    }
    Ok(place)
}
