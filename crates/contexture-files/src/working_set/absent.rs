//! [`why_absent`]: explains why a file is not in the working set.
//!
//! The walk of [`expand`] skips files silently, because there can be millions.
//! This function explains one file.

use std::path::Path;

use globset::GlobSetBuilder;
use ignore::gitignore::GitignoreBuilder;

use super::expand::{exclusion, expand, glob_of, has_hidden};
use super::manifest::{Entry, Manifest};
use crate::error::Error;
use crate::files::Root;

/// The files of rules that a walk obeys, the stronger one first.
const RULES: [&str; 2] = [".ignore", ".gitignore"];

/// Returns the reason why no entry of the manifest matches a file, and the
/// remedy. Returns `None` for a file in the working set.
///
/// Fails if the manifest cannot be expanded.
pub fn why_absent(
    root: &Root,
    manifest: &Manifest,
    path: &str,
) -> Result<Option<(String, String)>, Error> {
    let candidates = expand(root, manifest, &mut Vec::new())?;
    if candidates.iter().any(|candidate| candidate.path == path) {
        return Ok(None);
    }
    let add = "add the file by its path to use it anyway".to_owned();
    if root.is_dir(path) {
        return Ok(Some((
            "is a directory".to_owned(),
            "name one of its files".to_owned(),
        )));
    }
    if !root.exists(path) {
        return Ok(Some((
            "there is no such file below the root".to_owned(),
            "check the path; it is relative to the root".to_owned(),
        )));
    }
    let Some(entry) = matching(manifest, path) else {
        let reason = format!("no entry of {} matches it", manifest.path);
        return Ok(Some((reason, "add it to the working set".to_owned())));
    };
    let matched = format!("the entry `{}` matches it, but", entry.path);
    if let Some(pattern) = excluded_by(manifest, path) {
        let reason = format!(
            "{matched} `exclude: {pattern}` in {} excludes it",
            manifest.path
        );
        return Ok(Some((reason, add)));
    }
    if let Some((file, rule)) = ignored_by(root, path) {
        let reason = format!("{matched} the rule `{rule}` in {file} ignores it");
        return Ok(Some((reason, add)));
    }
    if has_hidden(path) && !has_hidden(&entry.path) {
        let reason = format!("{matched} patterns skip names that begin with a dot");
        return Ok(Some((reason, add)));
    }
    let reason =
        format!("{matched} it cannot be used: Contexture itself writes it, or it is not a file");
    Ok(Some((reason, add)))
}

/// Returns the first entry whose pattern or directory matches a path.
fn matching<'m>(manifest: &'m Manifest, path: &str) -> Option<&'m Entry> {
    manifest.files.iter().find(|entry| {
        glob_of(entry).is_ok_and(|glob| glob.compile_matcher().is_match(path)) || entry.path == path
    })
}

/// Returns a path and the directories above it, the file first.
fn with_parents(path: &str) -> impl Iterator<Item = &Path> {
    Path::new(path)
        .ancestors()
        .filter(|part| !part.as_os_str().is_empty())
}

/// Returns the exclusion of the manifest that a path, or a directory above it,
/// is under.
fn excluded_by<'m>(manifest: &'m Manifest, path: &str) -> Option<&'m str> {
    let patterns = manifest.exclude.iter().map(String::as_str);
    patterns.into_iter().find(|pattern| {
        let mut globs = GlobSetBuilder::new();
        let set = exclusion(pattern).and_then(|glob| globs.add(glob).build());
        set.is_ok_and(|set| with_parents(path).any(|part| set.is_match(part)))
    })
}

/// Returns the file and the rule that make a walk pass over a path.
fn ignored_by(root: &Root, path: &str) -> Option<(String, String)> {
    let below: Vec<&Path> = with_parents(path).skip(1).chain([Path::new("")]).collect();
    // The rules nearest to the file decide.
    for dir in below {
        for name in RULES {
            let file = dir.join(name);
            let shown = file.display().to_string();
            if !root.exists(&shown) {
                continue;
            }
            let mut builder = GitignoreBuilder::new(root.path().join(dir));
            builder.add(root.path().join(&file));
            let Ok(rules) = builder.build() else { continue };
            let matched = rules.matched_path_or_any_parents(root.path().join(path), false);
            if matched.is_whitelist() {
                return None;
            }
            if let ignore::Match::Ignore(rule) = matched {
                return Some((shown, rule.original().to_owned()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn reason(path: &str) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for file in [
            "src/lib.rs",
            "src/made/types.rs",
            "src/.secret.rs",
            "target/out.rs",
            "src/old/a.rs",
            "notes.txt",
        ] {
            write(file, "text\n");
        }
        write(".gitignore", "/target\n");
        write("src/.gitignore", "made/\n");
        write(
            "working-set.yml",
            "files:\n  - path: '**/*.rs'\n    priority: 0.5\nexclude:\n  - old\n",
        );
        let root = Root::open(dir.path()).unwrap();
        let manifest = Manifest::read(&root, "working-set.yml").unwrap();
        why_absent(&root, &manifest, path)
            .unwrap()
            .map(|(reason, _)| reason)
    }

    #[test]
    fn the_rule_that_leaves_a_file_out_is_named() {
        let matched = "the entry `**/*.rs` matches it, but";
        for (path, expected) in [
            (
                "target/out.rs",
                format!("{matched} the rule `/target` in .gitignore ignores it"),
            ),
            (
                "src/made/types.rs",
                format!("{matched} the rule `made/` in src/.gitignore ignores it"),
            ),
            (
                "src/old/a.rs",
                format!("{matched} `exclude: old` in working-set.yml excludes it"),
            ),
            (
                "src/.secret.rs",
                format!("{matched} patterns skip names that begin with a dot"),
            ),
            (
                "notes.txt",
                "no entry of working-set.yml matches it".to_owned(),
            ),
            ("gone.rs", "there is no such file below the root".to_owned()),
            ("src", "is a directory".to_owned()),
        ] {
            assert_eq!(reason(path), Some(expected), "{path}");
        }
        assert_eq!(reason("src/lib.rs"), None);
    }
}
