//! [`expand`]: turns the entries of a manifest into files.
//!
//! Patterns and directories are expanded in one walk of the tree. `.gitignore`
//! applies, and a file that several entries match belongs to the entry that
//! names it, else to the first.

use std::collections::BTreeSet;
use std::path::Path;

use contexture_core::Code;
use contexture_engine::config::FILE;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;

use super::manifest::{Entry, Manifest};
use crate::error::Error;
use crate::files::{Root, Unusable};

/// The maximum number of files that patterns and directories may match.
const MAX_MATCHES: usize = 200_000;

/// A file that an entry of the manifest matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate<'m> {
    /// The path below the root, with its line range.
    pub id: String,
    /// The path below the root.
    pub path: String,
    /// The entry it comes from.
    pub entry: &'m Entry,
    /// The size in bytes, if the walk that found the file knows it. `None` for
    /// a file that the manifest names.
    pub bytes: Option<u64>,
    /// The reason why nothing can be read, if it is already known: a pattern
    /// that matches no file, a name that is not text.
    pub problem: Option<Unusable>,
}

impl Candidate<'_> {
    /// Returns the size of the file, or why it cannot be read.
    pub fn size(&self, root: &Root) -> Result<u64, Unusable> {
        match (&self.problem, self.bytes) {
            (Some(problem), _) => Err(problem.clone()),
            (None, Some(bytes)) => Ok(bytes),
            (None, None) => root.size(&self.path),
        }
    }

    /// Returns `ok`, or why the file cannot be read.
    pub fn status(&self, root: &Root) -> String {
        match self.size(root) {
            Ok(_) => "ok".to_owned(),
            Err(unusable) => unusable.reason,
        }
    }
}

/// Returns the files that the manifest's entries match, in its order.
///
/// A pattern or directory matches the files that neither `.gitignore` ignores
/// nor the manifest excludes, sorted. Hidden files match only if the pattern
/// itself names a hidden component, and files in the sessions' directories
/// never match. A file that two entries match belongs to the entry that names
/// it, else to the first.
pub fn expand<'m>(
    root: &Root,
    manifest: &'m Manifest,
    warnings: &mut Vec<String>,
) -> Result<Vec<Candidate<'m>>, Error> {
    // A file may be named like a pattern: `pages/[id].tsx`.
    let is_tree =
        |entry: &Entry| root.is_dir(&entry.path) || entry.is_pattern() && !root.exists(&entry.path);
    let mut trees: Vec<(&Entry, Glob)> = Vec::new();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    // One invalid pattern must not make the other entries unusable.
    let mut invalid: Vec<(&Entry, String)> = Vec::new();
    for entry in &manifest.files {
        match is_tree(entry).then(|| glob_of(entry)) {
            None => drop(named.insert(entry.path.as_str())),
            Some(Ok(glob)) => trees.push((entry, glob)),
            Some(Err(why)) => invalid.push((entry, why)),
        }
    }
    let WalkResult { mut files, taken } = if trees.is_empty() {
        WalkResult::default()
    } else {
        walk(root, manifest, &trees, &named, warnings)?
    };

    let mut candidates = Vec::new();
    let mut next_tree = 0;
    for entry in &manifest.files {
        if next_tree < trees.len() && std::ptr::eq(trees[next_tree].0, entry) {
            let matches = std::mem::take(&mut files[next_tree]);
            let taken = taken[next_tree];
            next_tree += 1;
            if matches.is_empty() {
                let (code, reason) = match (taken, entry.is_pattern()) {
                    (true, _) => (Code::DUPLICATE, "all its files are listed by other entries"),
                    (false, true) => (
                        Code::NO_MATCH,
                        "the pattern matches no file; add ignored files by their path",
                    ),
                    (false, false) => (
                        Code::NO_MATCH,
                        "the directory is empty or contains only ignored files",
                    ),
                };
                candidates.push(Candidate {
                    id: entry.id(),
                    path: entry.path.clone(),
                    entry,
                    bytes: None,
                    problem: Some(Unusable::new(code, reason)),
                });
            }
            candidates.extend(matches.into_iter().map(|(path, bytes)| {
                Candidate {
                    id: path.clone(),
                    // A name that is not text was made one with replacement
                    // characters; no such file would be found.
                    problem: bytes
                        .is_none()
                        .then(|| Unusable::new(Code::NOT_UTF8, "has a name that is not UTF-8")),
                    path,
                    entry,
                    bytes,
                }
            }));
        } else {
            let why = invalid.iter().find(|(it, _)| std::ptr::eq(*it, entry));
            candidates.push(Candidate {
                id: entry.id(),
                path: entry.path.clone(),
                entry,
                bytes: None,
                problem: why.map(|(_, why)| Unusable::new(Code::NO_MATCH, why.clone())),
            });
        }
    }
    Ok(candidates)
}

/// Path and size of each file; no size where the name is not text.
type Matches = Vec<(String, Option<u64>)>;

/// The result of a walk, by pattern.
#[derive(Default)]
struct WalkResult {
    files: Vec<Matches>,
    // Whether the pattern matched a file that another entry has.
    taken: Vec<bool>,
}

/// Walks the tree once for all patterns; returns each one's files.
fn walk(
    root: &Root,
    manifest: &Manifest,
    trees: &[(&Entry, Glob)],
    named: &BTreeSet<&str>,
    warnings: &mut Vec<String>,
) -> Result<WalkResult, Error> {
    let mut globs = GlobSetBuilder::new();
    for (_, glob) in trees {
        globs.add(glob.clone());
    }
    let globs = globs
        .build()
        .map_err(|e| Error::input(format!("{}: {e}", manifest.path)))?;

    let excluded = exclusions(manifest)?;
    let wants_hidden: Vec<bool> = trees.iter().map(|(e, _)| has_hidden(&e.path)).collect();
    let mut files: Vec<Matches> = vec![Vec::new(); trees.len()];
    let mut taken = vec![false; trees.len()];
    let tree_paths: BTreeSet<&str> = trees.iter().map(|(entry, _)| entry.path.as_str()).collect();
    let mut count = 0;
    // The walk begins at the root, so that its `.gitignore` applies, but
    // descends only towards the directories of the patterns.
    let base = root.path().join(common_dir(trees));
    // Contexture's own files change with every call; a pattern that matched
    // them would never give the same prompt twice.
    let sessions = root.path().join(".agent/sessions");
    let above = root.clone();
    let walker = WalkBuilder::new(root.path())
        .hidden(!wants_hidden.contains(&true))
        // A `.gitignore` also applies in a tree that is not a repository; files
        // above the root are ignored.
        .require_git(false)
        .parents(false)
        .git_global(false)
        .follow_links(false)
        .filter_entry(move |entry| {
            let path = entry.path();
            let skipped = matches!(entry.file_name().to_str(), Some(".git" | ".contexture"))
                || path == sessions;
            let relative = path.strip_prefix(above.path()).unwrap_or(path);
            // The settings are used only if an entry names them.
            let is_settings = relative == Path::new(FILE);
            !skipped
                && !is_settings
                && !above.hides(relative)
                && (path.starts_with(&base) || base.starts_with(path))
                && !excluded.is_match(relative)
        })
        .build();
    for entry in walker {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                warnings.push(format!("cannot read a directory: {error}"));
                continue;
            }
        };
        if entry.file_type().is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(relative) = entry.path().strip_prefix(root.path()) else {
            continue;
        };
        let is_text = relative.to_str().is_some();
        let relative = &*relative.to_string_lossy();
        // A link to a directory that an entry names is that entry.
        if tree_paths.contains(relative) {
            continue;
        }
        let hidden = has_hidden(relative);
        let mut matching = globs
            .matches(relative)
            .into_iter()
            .filter(|&tree| !hidden || wants_hidden[tree]);
        let tree = if named.contains(relative) {
            None
        } else {
            matching.next()
        };
        for other in matching {
            taken[other] = true;
        }
        let Some(tree) = tree else { continue };
        count += 1;
        if count > MAX_MATCHES {
            return Err(Error::input(format!(
                "{}: the patterns match more than {MAX_MATCHES} files",
                manifest.path
            ))
            .advise("narrow the patterns, or ignore generated files in .gitignore"));
        }
        let bytes = is_text.then(|| entry.metadata().map_or(0, |meta| meta.len()));
        files[tree].push((relative.to_owned(), bytes));
    }
    for matches in &mut files {
        matches.sort();
    }
    Ok(WalkResult { files, taken })
}

/// Returns the pattern of an entry that is a pattern or a directory, or why the
/// entry is neither a file nor a pattern.
pub(super) fn glob_of(entry: &Entry) -> Result<Glob, String> {
    if entry.is_pattern() {
        return pattern(&entry.path);
    }
    let below = match entry.path.as_str() {
        "" => "**".to_owned(),
        path => format!("{}/**", globset::escape(path)),
    };
    pattern(&below)
}

/// Parses a pattern of the working set. The error also says that no file has
/// that path.
pub(super) fn pattern(path: &str) -> Result<Glob, String> {
    let glob = GlobBuilder::new(path).literal_separator(true).build();
    glob.map_err(|error| format!("is not a file, and not a pattern: {}", error.kind()))
}

/// Returns the files and directories that the manifest excludes.
fn exclusions(manifest: &Manifest) -> Result<GlobSet, Error> {
    let wrong = |error: globset::Error| Error::input(format!("{}: {error}", manifest.path));
    let mut globs = GlobSetBuilder::new();
    for pattern in &manifest.exclude {
        globs.add(exclusion(pattern).map_err(wrong)?);
    }
    globs.build().map_err(wrong)
}

/// Returns the pattern of an exclusion: as in `.gitignore`, one without a slash
/// before its end applies in every directory.
pub(super) fn exclusion(pattern: &str) -> Result<Glob, globset::Error> {
    let plain = crate::files::normalise(pattern);
    let everywhere = match plain.contains('/') || pattern.starts_with("./") {
        true => plain,
        false => format!("**/{plain}"),
    };
    GlobBuilder::new(&everywhere)
        .literal_separator(true)
        .build()
}

/// Returns the deepest directory that contains all patterns, so that a pattern
/// on a small part does not walk the whole.
fn common_dir(trees: &[(&Entry, Glob)]) -> String {
    let fixed = |entry: &Entry| -> Vec<String> {
        let mut parts: Vec<&str> = entry.path.split('/').collect();
        if entry.is_pattern() {
            // The last component is the name of a file, or matches any name.
            parts.pop();
        }
        parts
            .into_iter()
            .take_while(|part| !part.contains(['*', '?', '[', '{']))
            .map(str::to_owned)
            .collect()
    };
    let mut common: Option<Vec<String>> = None;
    for (entry, _) in trees {
        let parts = fixed(entry);
        common = Some(match common {
            None => parts,
            Some(common) => common
                .into_iter()
                .zip(parts)
                .take_while(|(a, b)| a == b)
                .map(|(a, _)| a)
                .collect(),
        });
    }
    common.unwrap_or_default().join("/")
}

pub(super) fn has_hidden(path: &str) -> bool {
    path.split('/')
        .any(|part| part.len() > 1 && part.starts_with('.'))
}
