//! [`ByFile`]: a cache of values computed from files, valid while the files do
//! not change.

use std::path::PathBuf;

use contexture_core::cache::Cache;
use contexture_core::guard::Policy;
use jiff::Timestamp;

use crate::files::{Root, Stamp};

/// The size of the largest file that something is kept of.
const LARGEST: u64 = 256 * 1024;

/// A cache of values made from files, valid while a file does not change: every
/// request needs the same few.
///
/// A file is identified by its [stamp](Stamp). A file that was changed a moment
/// ago is read each time, because a further change might not show in its stamp.
#[derive(Debug)]
pub struct ByFile<T> {
    known: Cache<Key, (Stamp, T)>,
}

/// A file, and how it was guarded.
type Key = (PathBuf, Policy);

impl<T> Default for ByFile<T> {
    fn default() -> Self {
        Self {
            known: Cache::default(),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> ByFile<T> {
    /// Returns the cached value of the file at `path`, or makes it. Failures
    /// are not cached.
    pub fn get<E>(
        &self,
        root: &Root,
        path: &str,
        policy: Policy,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        // Before it is read: what happens meanwhile shows the next time.
        let stamp = root.stamp(path);
        self.get_by(stamp, root, path, policy, make)
    }

    /// Does the same as [`get`](Self::get) with a stamp that was just read.
    pub fn get_by<E>(
        &self,
        stamp: Option<Stamp>,
        root: &Root,
        path: &str,
        policy: Policy,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.get_at(Timestamp::now(), stamp, root, path, policy, make)
    }

    fn get_at<E>(
        &self,
        now: Timestamp,
        stamp: Option<Stamp>,
        root: &Root,
        path: &str,
        policy: Policy,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(stamp) = stamp else {
            return make();
        };
        let key = (root.path().join(path), policy);
        if let Some((of, made)) = self.known.get(&key)
            && of == stamp
        {
            return Ok(made);
        }
        let made = make()?;
        if stamp.is_settled(now) && stamp.bytes() <= LARGEST {
            let bytes = usize::try_from(stamp.bytes()).unwrap_or(usize::MAX);
            self.known.insert(key, (stamp, made.clone()), bytes);
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn read(known: &ByFile<String>, root: &Root, path: &str) -> String {
        let make = || Ok::<_, Infallible>(root.read_text(path, 1 << 20).unwrap());
        known.get(root, path, Policy::default(), make).unwrap()
    }

    #[test]
    fn a_file_that_was_just_changed_is_read_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let known = ByFile::default();
        let path = directory.path().join("AGENTS.md");
        // Of the same length, and likely within one tick of the clock.
        for n in 0..200 {
            let text = format!("{n:04}");
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read(&known, &root, "AGENTS.md"), text);
        }
    }

    #[test]
    fn a_change_shows_whatever_the_file_says_about_its_age() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let known = ByFile::default();
        let path = directory.path().join("AGENTS.md");
        let old = SystemTime::now() - Duration::from_secs(86_400);
        for text in ["one", "two", "six"] {
            std::fs::write(&path, text).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(old).unwrap();
            assert_eq!(read(&known, &root, "AGENTS.md"), text);
        }
    }

    #[test]
    fn a_file_that_was_left_alone_shows_each_change() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        let known = ByFile::default();
        let path = directory.path().join("AGENTS.md");
        std::fs::write(&path, "one").unwrap();
        // As if it were later.
        let read = || {
            let make = || Ok::<_, Infallible>(root.read_text("AGENTS.md", 1 << 20).unwrap());
            let later = Timestamp::now() + Duration::from_secs(60);
            let stamp = root.stamp("AGENTS.md");
            known.get_at(later, stamp, &root, "AGENTS.md", Policy::default(), make)
        };
        assert_eq!((read(), read()), (Ok("one".into()), Ok("one".into())));
        // Another file in its place, of the same size.
        std::fs::write(directory.path().join("other"), "two").unwrap();
        std::fs::rename(directory.path().join("other"), &path).unwrap();
        assert_eq!((read(), read()), (Ok("two".into()), Ok("two".into())));
        std::fs::write(&path, "three").unwrap();
        assert_eq!((read(), read()), (Ok("three".into()), Ok("three".into())));
    }
}
