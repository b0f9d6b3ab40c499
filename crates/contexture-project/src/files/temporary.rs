//! Temporary files of atomic writes, and the removal of those that killed
//! writers left behind.
//!
//! A file is written under a temporary name next to its own and then renamed.
//! The writer holds a lock on the temporary file. A temporary file without a
//! lock whose process has ended is removed.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use cap_fs_ext::{OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, Permissions};

/// The suffix of the names of temporary files.
const END: &str = ".contexture.tmp";

/// The suffix before version 0.2.
const OLD_END: &str = ".tmp";

/// The age from which a temporary file without a lock is removed even if a
/// process with its number runs: numbers are reused.
const OLD: Duration = Duration::from_secs(60 * 60);

/// The temporary files that this process is writing. A process in a container
/// often has the number of the one before.
static WRITING: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn writing() -> MutexGuard<'static, BTreeSet<String>> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns as much of a name as leaves room for the rest of a temporary name:
/// file systems take 255 bytes.
pub(super) fn shortened(target: &str) -> &str {
    &target[..target.floor_char_boundary(200)]
}

/// A temporary file, removed unless it becomes its target.
pub(super) struct Temporary<'d> {
    dir: &'d Dir,
    name: String,
    file: cap_std::fs::File,
}

impl<'d> Temporary<'d> {
    /// Creates a temporary file for `target` in `dir`. With `private`, only its
    /// owner can read it.
    pub(super) fn create(dir: &'d Dir, target: &str, private: bool) -> io::Result<Self> {
        let mut random = [0; 4];
        let _ = getrandom::fill(&mut random);
        let random = u32::from_ne_bytes(random);
        let name = format!(
            ".{}.{}.{random:08x}{END}",
            shortened(target),
            std::process::id()
        );
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if private {
            super::owner_only(&mut options);
        }
        writing().insert(name.clone());
        let file = dir.open_with(&name, &options).inspect_err(|_| {
            writing().remove(&name);
        })?;
        // A file system without locks does not prevent writing: the number of
        // the process still protects the file.
        let _ = file.try_clone().map(|file| file.into_std().try_lock());
        Ok(Self { dir, name, file })
    }

    pub(super) fn write(&mut self, bytes: &[u8], mode: Option<Permissions>) -> io::Result<()> {
        self.file.write_all(bytes)?;
        match mode {
            Some(mode) => self.file.set_permissions(mode),
            None => Ok(()),
        }
    }

    /// Waits until the content is on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Replaces `target` by the file.
    pub(super) fn rename(self, target: impl AsRef<Path>) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, target)
    }

    /// Creates `target` from the file. Fails if `target` exists.
    pub(super) fn link(self, target: &str) -> io::Result<()> {
        self.dir.hard_link(&self.name, self.dir, target)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = self.dir.remove_file(&self.name);
        writing().remove(&self.name);
    }
}

/// Replaces the file at `path` atomically. An existing file keeps its
/// permissions.
///
/// A symbolic link is replaced, not followed.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, false)
}

/// Replaces a file so that only its owner can read it, and that it is complete
/// even if the machine fails.
pub fn replace_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, true)
}

fn replace(path: &Path, bytes: &[u8], private: bool) -> io::Result<()> {
    let file_name = path.file_name();
    let file_name = file_name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let name = file_name.to_string_lossy();
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let dir = Dir::open_ambient_dir(parent, ambient_authority())?;
    remove_left_over(&dir, |left| {
        left.is_certain && left.target == shortened(&name)
    });
    let mode = match dir.symlink_metadata(file_name) {
        Ok(meta) if meta.is_file() && !private => Some(meta.permissions()),
        _ => None,
    };
    let mut temporary = Temporary::create(&dir, &name, private || mode.is_some())?;
    temporary.write(bytes, mode)?;
    if private {
        temporary.sync()?;
    }
    temporary.rename(file_name)?;
    match private {
        true => dir.open(".")?.sync_all(),
        false => Ok(()),
    }
}

/// The parts of a temporary file's name.
#[derive(Debug, PartialEq)]
pub(super) struct LeftOver<'n> {
    /// The file that was to be written.
    pub(super) target: &'n str,
    /// Whether the name can only be one of Contexture's.
    pub(super) is_certain: bool,
    process: u32,
}

impl<'n> LeftOver<'n> {
    fn parse(name: &'n str) -> Option<Self> {
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|&number| number > 0);
        if let Some(rest) = name.strip_suffix(END) {
            let (rest, random) = rest.strip_prefix('.')?.rsplit_once('.')?;
            let (target, process) = rest.rsplit_once('.')?;
            let is_hex = random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
            return (is_hex && !target.is_empty()).then_some(Self {
                target,
                is_certain: true,
                process: number(process)?,
            });
        }
        let (target, process) = name.strip_suffix(OLD_END)?.rsplit_once('.')?;
        let target = target.strip_prefix('.').unwrap_or(target);
        Some(Self {
            target,
            is_certain: false,
            process: number(process)?,
        })
    }
}

/// Removes the temporary files of `dir` that `accept` matches and whose writers
/// were killed.
pub(super) fn remove_left_over(dir: &Dir, accept: impl Fn(&LeftOver<'_>) -> bool) {
    let Ok(entries) = dir.entries() else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        if let Some(left) = LeftOver::parse(name)
            && accept(&left)
        {
            remove_if_left_over(dir, name, left.process);
        }
    }
}

/// Removes a temporary file unless its writer may still be at work. A file that
/// cannot be looked at stays.
fn remove_if_left_over(dir: &Dir, name: &str, process: u32) -> Option<()> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .nonblock(true)
        .follow(cap_fs_ext::FollowSymlinks::No);
    let file = dir.open_with(name, &options).ok()?.into_std();
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let is_old = || {
        let modified = meta.modified().ok();
        let age = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
        age.is_some_and(|age| age > OLD)
    };
    let has_ended = match process == std::process::id() {
        true => !writing().contains(name),
        false => !is_running(process),
    };
    if !has_ended && !is_old() {
        return None;
    }
    // The lock also protects a writer in another container, whose process
    // number is unknown here.
    file.try_lock().ok()?;
    dir.remove_file(name).ok()
}

#[cfg(unix)]
fn is_running(process: u32) -> bool {
    let process = i32::try_from(process).ok();
    let Some(process) = process.and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}

/// Elsewhere the age decides.
#[cfg(not(unix))]
fn is_running(_: u32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised() {
        let parsed = |name| LeftOver::parse(name).map(|left| (left.target, left.process));
        assert_eq!(
            parsed(".working-set.yml.17.0a1b2c3d.contexture.tmp"),
            Some(("working-set.yml", 17))
        );
        assert_eq!(
            parsed(".working-set.yml.17.tmp"),
            Some(("working-set.yml", 17))
        );
        assert_eq!(parsed("hot.yml.17.tmp"), Some(("hot.yml", 17)));
        for name in [
            "working-set.yml",
            "notes.tmp",
            ".notes.tmp",
            ".a.0.tmp",
            ".a.x.0a1b2c3d.contexture.tmp",
            ".a.17.0a1b2c3.contexture.tmp",
        ] {
            assert_eq!(parsed(name), None, "{name}");
        }
    }

    /// Returns the number of a process that has ended.
    #[cfg(unix)]
    fn ended() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let number = child.id();
        child.wait().unwrap();
        number
    }

    #[cfg(unix)]
    #[test]
    fn files_of_ended_writers_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let (gone, own, init) = (ended(), std::process::id(), 1);
        let write = |name: String| {
            dir.write(&name, "half").unwrap();
            name
        };
        let of_killed = write(format!(".a.{gone}.00000001{END}"));
        // A container begins again with the same number.
        let of_namesake = write(format!(".a.{own}.00000002{END}"));
        let of_running = write(format!(".a.{init}.00000003{END}"));
        let of_another = write(format!(".b.{gone}.00000004{END}"));
        let locked = write(format!(".a.{gone}.00000005{END}"));
        let lock = dir.open(&locked).unwrap().into_std();
        lock.try_lock().unwrap();
        let old = write(format!(".a.{init}.00000006{END}"));
        let long_ago = SystemTime::now() - 2 * OLD;
        let file = std::fs::File::options()
            .write(true)
            .open(folder.path().join(&old))
            .unwrap();
        file.set_modified(long_ago).unwrap();
        dir.create_dir(format!(".a.{gone}.00000007{END}")).unwrap();
        let at_work = Temporary::create(&dir, "a", true).unwrap();

        remove_left_over(&dir, |left| left.target == "a");
        for name in [&of_killed, &of_namesake, &old] {
            assert!(!dir.exists(name), "{name}");
        }
        for name in [&of_running, &of_another, &locked, &at_work.name] {
            assert!(dir.exists(name), "{name}");
        }
        assert!(dir.exists(format!(".a.{gone}.00000007{END}")));
        let name = at_work.name.clone();
        drop(at_work);
        assert!(!dir.exists(name));
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_replaces_a_public_one() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "old").unwrap();
        replace_private_file(&path, b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
