//! Finds the directory of the project when none is named.

use std::path::{Path, PathBuf};

use crate::output;

/// Files that mark the directory of a project.
const MARKS: [&str; 3] = [
    "working-set.yml",
    ".agent/working-set.yml",
    "contexture.toml",
];

/// A store of its own marks only the directory that the user is in: one far
/// above, in a home directory for example, is not the project's.
const STORE: &str = ".contexture/contexture.db";

/// Returns the named directory, else the nearest project from the current
/// directory upward, else the current directory. Prints a notice if the project
/// is above.
pub(crate) fn project(named: Option<PathBuf>) -> PathBuf {
    if let Some(named) = named {
        return named;
    }
    let here = PathBuf::from(".");
    let Ok(current) = std::env::current_dir() else {
        return here;
    };
    match above(&current) {
        Some((root, mark)) => {
            let shown = output::visible(&root.display().to_string());
            output::say(&format!(
                "using root {shown}, which has {mark}; set another with --root"
            ));
            root
        }
        None => here,
    }
}

/// Returns the nearest project above `current` and the file that marks it.
/// Returns `None` if `current` is a project itself.
///
/// The search ends at the top of a repository, at another file system, and at a
/// directory of another owner: users who can write above must not choose the
/// settings of others.
fn above(current: &Path) -> Option<(PathBuf, &'static str)> {
    let mark_of = |dir: &Path| {
        MARKS
            .into_iter()
            .find(|mark| is_own(current, &dir.join(mark)))
    };
    if mark_of(current).is_some() || current.join(STORE).exists() {
        return None;
    }
    let mut dir = current;
    loop {
        if dir.join(".git").exists() {
            return None;
        }
        dir = dir.parent()?;
        if !is_own(current, dir) {
            return None;
        }
        if let Some(mark) = mark_of(dir) {
            return Some((dir.to_owned(), mark));
        }
    }
}

/// Returns true when `path` exists and belongs to the owner of `current`, on the
/// same file system.
#[cfg(unix)]
fn is_own(current: &Path, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let place = |path: &Path| path.metadata().ok().map(|meta| (meta.uid(), meta.dev()));
    place(path).is_some_and(|found| Some(found) == place(current))
}

#[cfg(not(unix))]
fn is_own(_: &Path, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_project_above_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        make("contexture.toml");
        make("sub/.agent/working-set.yml");
        make("sub/deep/er/file");
        make("store/.contexture/contexture.db");
        make("repository/.git/HEAD");
        make("repository/src/file");
        make("other/file");
        for (at, expected) in [
            ("", None),
            ("sub", None),
            ("sub/deep/er", Some(("sub", ".agent/working-set.yml"))),
            ("other", Some(("", "contexture.toml"))),
            // A store of its own, and the top of a repository, end the search.
            ("store", None),
            ("repository", None),
            ("repository/src", None),
        ] {
            let found = above(&dir.path().join(at));
            let expected = expected.map(|(at, mark)| (dir.path().join(at), mark));
            assert_eq!(found, expected, "{at}");
        }
    }
}
