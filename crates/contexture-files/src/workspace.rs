//! Files of the operator that every request contains, such as those of the
//! workspace and the persona.
//!
//! A missing file is skipped without a row in the report, because most of
//! these files are optional.

use std::collections::BTreeSet;

use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Cut, Item, Role, Text, Trust};

use crate::error::Error;
use crate::files::{self, PathEntry, Root, Stamp};
use crate::load;
use crate::static_content::StaticContent;
use crate::working_set::{Candidate, Entry, Hints, Manifest};
use contexture_engine::agent::place_of;

impl StaticContent {
    /// Returns a pinned item for each of the operator's files that exists.
    ///
    /// A path that does not exist is also searched below `.agent/`. If it is in
    /// neither place, it has no item if the files are `optional`, and an absent item
    /// otherwise.
    pub(crate) fn files(
        &self,
        root: &Root,
        paths: &[String],
        optional: bool,
        max_file_bytes: u64,
        policy: Policy,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Item>, Error> {
        for path in paths {
            files::check_path(path)
                .map_err(|why| Error::input(format!("a workspace file {why}")))?;
        }
        if let Some(items) = self.plain_files(root, paths, optional, max_file_bytes, policy) {
            return Ok(items);
        }
        let mut manifest = Manifest::default();
        let places = paths.iter().map(|path| place_of(root, path));
        manifest.files.extend(places.map(entry));
        let hints = Hints::default();
        let mut items =
            load::working_set(root, max_file_bytes, &manifest, &hints, policy, warnings)?;
        items.retain(|item| {
            let is_left_out = |code: &Code| match *code {
                Code::DUPLICATE => true,
                Code::MISSING | Code::NO_MATCH => optional,
                _ => false,
            };
            !matches!(&item.content, Content::Absent { code, .. } if is_left_out(code))
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

    /// Returns the same items with one system call per path, if each path is a
    /// file, or optional and does not exist, which is nearly always so. Returns
    /// `None` for a pattern that may match files.
    fn plain_files(
        &self,
        root: &Root,
        paths: &[String],
        optional: bool,
        max_file_bytes: u64,
        policy: Policy,
    ) -> Option<Vec<Item>> {
        let hints = Hints::default();
        let mut places = BTreeSet::new();
        let mut items = Vec::new();
        for path in paths {
            let below = format!(".agent/{path}");
            let is_pattern = path.contains(['*', '?', '[', '{']);
            let is_nowhere = is_pattern && is_nowhere(root, path) && is_nowhere(root, &below);
            if is_nowhere && optional {
                continue;
            }
            if is_pattern {
                return None;
            }
            let (place, found) = match root.look(path) {
                PathEntry::Nothing => (below.as_str(), root.look(&below)),
                found => (path.as_str(), found),
            };
            let (bytes, stamp) = match found {
                PathEntry::File { bytes, stamp } => (bytes, stamp),
                PathEntry::Nothing if optional => continue,
                PathEntry::Nothing | PathEntry::Other => return None,
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
            let mut item = load::item_of(root, &hints, policy, candidate);
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
}

/// Returns the content of a file without the blank lines around it, so that one
/// blank line separates two sections and an empty file adds none.
fn content(root: &Root, path: &str, max_file_bytes: u64, policy: Policy) -> Content {
    let read = root.read_text(path, max_file_bytes);
    let absent = |code, reason| Content::Absent { code, reason };
    match read {
        Ok(text) => match text.trim_end().trim_start_matches(['\n', '\r']) {
            "" => absent(Code::EMPTY, "is empty".to_owned()),
            text => Content::Ready(Text::guarded(text, policy)),
        },
        Err(unusable) => absent(unusable.code, unusable.reason),
    }
}

/// Returns true for a pattern below a directory that does not exist: it matches
/// no file, and no search is needed.
fn is_nowhere(root: &Root, path: &str) -> bool {
    let Some(start) = path.find(['*', '?', '[', '{']) else {
        return false;
    };
    let directory = path[..start].rsplit_once('/').map(|(above, _)| above);
    directory.is_some_and(|directory| root.is_absent(directory)) && root.is_absent(path)
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
        max_tokens: None,
        line: 0,
        column: 0,
    }
}
