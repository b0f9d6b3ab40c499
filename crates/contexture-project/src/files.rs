//! [`Root`]: files below a directory, opened so that no path can leave it.
//!
//! Files are opened relative to a directory handle and checked by the system
//! at that moment, so that a link cannot be swapped in between.

use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::{OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, OpenOptions};
use contexture_core::Code;

mod temporary;

use crate::error::Error;
use cap_fs_ext::DirExt as _;
use temporary::Temporary;
pub use temporary::{replace_file, replace_private_file};

/// The directories that belong to Contexture by their name.
const OWN: [&str; 3] = [".contexture", ".contexture/sessions", ".agent/sessions"];

/// The maximum number of sessions that are searched for temporary files at a
/// start, which bounds the time of a start.
const MOST_SESSIONS: usize = 256;

/// Makes a new file accessible to its owner only.
fn owner_only(options: &mut OpenOptions) {
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

/// A directory that all files are read from.
///
/// Paths are checked when a file is opened, by the operating system itself
/// where it can: a link cannot be swapped between a check and its use.
#[derive(Debug, Clone)]
pub struct Root {
    dir: Arc<Dir>,
    path: PathBuf,
    // The name of the root in requests and messages. `None` uses its path.
    name: Option<String>,
    // Directories that are treated as if they did not exist.
    hidden: Vec<PathBuf>,
}

/// The reason why a file cannot be used: a row of the report, not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The stable reason code.
    pub code: Code,
    /// The reason in words.
    pub reason: String,
}

impl Unusable {
    /// Returns a reason with its code.
    pub fn new(code: Code, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }
}

impl Root {
    /// Opens the directory at `path`.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let dir = Dir::open_ambient_dir(&path, ambient_authority()).map_err(|source| {
            Error::input(format!("cannot open {}: {source}", path.display()))
                .advise("name an existing directory")
        })?;
        Ok(Self {
            dir: Arc::new(dir),
            path,
            name: None,
            hidden: Vec::new(),
        })
    }

    /// Sets the name of the root in requests and messages, for callers who must
    /// not see its path.
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Hides everything below a directory: nothing there is read, listed or
    /// replaced, even through links or `..`.
    pub fn hiding(mut self, directory: impl Into<PathBuf>) -> Self {
        self.hidden.push(plain(&directory.into()));
        self
    }

    /// Returns true if a path below the root, as written, is hidden.
    pub fn hides(&self, path: &Path) -> bool {
        !self.hidden.is_empty() && self.is_below_hidden(&plain(path))
    }

    /// Returns true if a path, as written, leads into a hidden directory.
    fn is_hidden(&self, path: &str) -> bool {
        !self.hidden.is_empty() && self.is_below_hidden(&plain(Path::new(path)))
    }

    /// Returns true if a path leads into a hidden directory after links are
    /// followed. Used before reading and writing, because it takes several
    /// system calls.
    fn is_really_hidden(&self, path: &str) -> bool {
        if self.hidden.is_empty() {
            return false;
        }
        let written = plain(Path::new(path));
        let real = |path: &Path| {
            let real = self.dir.canonicalize(path);
            real.is_ok_and(|real| self.is_below_hidden(&real))
        };
        // A file that does not exist yet has no real path, but its directory
        // has one.
        let above = written
            .parent()
            .filter(|above| !above.as_os_str().is_empty());
        self.is_below_hidden(&written) || real(&written) || above.is_some_and(real)
    }

    fn is_below_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// Returns the name of the root: its path, unless another name was set.
    pub fn name(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => self.path.display().to_string(),
        }
    }

    /// Returns the path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the first symbolic link on the way to `path` that leads out of
    /// the root, as a path below the root. Returns `None` if there is none.
    ///
    /// The other methods do not follow such links. This one is for a file that
    /// other code opens by its path, such as a database. A broken link counts
    /// as one that leads out, because a file can be created through it.
    pub fn link_out(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        link_out(&self.path, path.as_ref())
    }

    /// Returns true if `path` exists. Links that lead outside the root are not
    /// followed.
    pub fn exists(&self, path: &str) -> bool {
        !self.is_hidden(path) && self.dir.metadata(path).is_ok()
    }

    /// Returns true if nothing is at `path`, not even a link that is broken or
    /// leads outside.
    pub fn is_absent(&self, path: &str) -> bool {
        if self.is_hidden(path) {
            return true;
        }
        let meta = self.dir.symlink_metadata(path);
        meta.is_err_and(|error| {
            use std::io::ErrorKind::{NotADirectory, NotFound};
            matches!(error.kind(), NotFound | NotADirectory)
        })
    }

    /// Returns true when there is a directory at `path`.
    pub fn is_dir(&self, path: &str) -> bool {
        path.is_empty()
            || !self.is_hidden(path) && self.dir.metadata(path).is_ok_and(|meta| meta.is_dir())
    }

    fn check_hidden(&self, path: &str) -> Result<(), Unusable> {
        match self.is_really_hidden(path) {
            true => Err(no_file(path)),
            false => Ok(()),
        }
    }

    /// Returns the size of the file at `path`.
    pub fn size(&self, path: &str) -> Result<u64, Unusable> {
        self.check_hidden(path)?;
        let meta = self.dir.metadata(path).map_err(|e| unusable(path, &e))?;
        if !meta.is_file() {
            return Err(Unusable::new(Code::NOT_A_FILE, not_a_file(&meta)));
        }
        Ok(meta.len())
    }

    /// Returns the entry at `path`, links followed, with one system call.
    pub fn look(&self, path: &str) -> PathEntry {
        if self.is_hidden(path) {
            return PathEntry::Nothing;
        }
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match self.dir.metadata(path) {
            Ok(meta) if meta.is_file() => PathEntry::File {
                bytes: meta.len(),
                stamp: Stamp::of(&meta),
            },
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => PathEntry::Nothing,
            _ => PathEntry::Other,
        }
    }

    /// Returns the stamp of the file at `path`. Returns `None` if the file does
    /// not exist, or if the system does not report enough about it.
    pub fn stamp(&self, path: &str) -> Option<Stamp> {
        match self.look(path) {
            PathEntry::File { stamp, .. } => stamp,
            PathEntry::Nothing | PathEntry::Other => None,
        }
    }

    /// Reads the file at `path`, if it is a regular file of at most `limit`
    /// bytes.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, Unusable> {
        self.check_hidden(path)?;
        // Opening a pipe waits for a writer unless this is set.
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true);
        for _ in 0..3 {
            let mut file = self
                .dir
                .open_with(path, &options)
                .map_err(|e| unusable(path, &e))?;
            let meta = file.metadata().map_err(|e| unusable(path, &e))?;
            if !meta.is_file() {
                return Err(Unusable::new(Code::NOT_A_FILE, not_a_file(&meta)));
            }
            if meta.len() > limit {
                return Err(Unusable::new(
                    Code::SIZE_LIMIT,
                    format!(
                        "is {} bytes; the limit is {limit} (limits.max_file_bytes)",
                        meta.len()
                    ),
                ));
            }
            let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
            Read::by_ref(&mut file)
                .take(limit + 1)
                .read_to_end(&mut bytes)
                .map_err(|e| unusable(path, &e))?;
            // A log that grew meanwhile is used with its size when it was
            // opened; a file that shrank may be incomplete, and is read again.
            let length = usize::try_from(meta.len()).unwrap_or(usize::MAX);
            if bytes.len() >= length {
                bytes.truncate(length);
                return Ok(bytes);
            }
        }
        Err(Unusable::new(
            Code::CHANGED,
            "changed while it was read; assemble again when it is complete",
        ))
    }

    /// Reads the text file at `path`, without a byte order mark and without
    /// its final line end.
    pub fn read_text(&self, path: &str, limit: u64) -> Result<String, Unusable> {
        text_of(self.read(path, limit)?)
    }

    /// Reads the text file at `path` with its line ends, without a byte order
    /// mark. Also returns whether it had such a mark.
    pub fn read_lines(&self, path: &str, limit: u64) -> Result<(String, bool), Unusable> {
        decoded(self.read(path, limit)?)
    }

    /// Reads a file that must be there, such as a manifest.
    pub fn read_required(&self, path: &str) -> Result<String, Error> {
        let limit = crate::yaml::MAX_BYTES as u64;
        let bytes = self.read(path, limit).map_err(|unusable| {
            let reason = match unusable.code {
                Code::SIZE_LIMIT => format!("is larger than the limit of {limit} bytes"),
                _ => unusable.reason,
            };
            Error::input(format!("{path}: {reason}"))
        })?;
        String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            Error::input(format!("{path}: not UTF-8 at byte {at}")).advise("save the file as UTF-8")
        })
    }

    /// Replaces the file at `path` with `text`: the old or the new one is
    /// there at any moment, also after a crash.
    pub fn replace(&self, path: &str, text: &str) -> Result<(), Error> {
        self.replace_with(path, text, false)
    }

    fn replace_with(&self, path: &str, text: &str, private: bool) -> Result<(), Error> {
        let failed = |source: std::io::Error| {
            Error::failure(
                format!("cannot write {path}: {source}; the file is unchanged"),
                source,
            )
            .advise("check that the directory is writable and the disk is not full")
        };
        if self.is_really_hidden(path) {
            return Err(Error::input(no_file(path).reason));
        }
        let (parent, name) = match path.rsplit_once('/') {
            Some((parent, name)) => (self.dir.open_dir(parent).map_err(failed)?, name),
            None => (self.dir.try_clone().map_err(failed)?, path),
        };
        // Renaming would replace the link by a file.
        let permissions = match parent.symlink_metadata(name) {
            Ok(meta) if meta.file_type().is_symlink() => {
                return Err(Error::input(format!("{path} is a symbolic link"))
                    .advise("name the file it points to"));
            }
            Ok(meta) => Some(meta.permissions()),
            Err(_) => None,
        };
        self.remove_left_over_for(&parent, name);
        let write = || {
            let mut temporary = Temporary::create(&parent, name, private || permissions.is_some())?;
            temporary.write(text.as_bytes(), permissions.filter(|_| !private))?;
            temporary.sync()?;
            temporary.rename(name)?;
            parent.open(".")?.sync_all()
        };
        write().map_err(failed)
    }

    fn remove_left_over_for(&self, dir: &Dir, name: &str) {
        temporary::remove_left_over(dir, |left| left.target == temporary::shortened(name));
    }

    /// Writes one of Contexture's own files, with its parent directories: only
    /// its owner can read it, and git ignores it. An existing file is replaced.
    pub fn write_private(&self, path: &str, text: &str) -> Result<(), Error> {
        self.create_private_dir_of(path)
            .map_err(|source| Error::failure(format!("cannot write {path}: {source}"), source))?;
        self.replace_with(path, text, true)
    }

    /// Appends `line` to the file at `path`, creating it and the directories
    /// above it for their owner only.
    pub fn append_line(&self, path: &str, line: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        // A pipe in the log's place must not make every call wait.
        options
            .append(true)
            .create(true)
            .nonblock(true)
            .follow(cap_fs_ext::FollowSymlinks::No);
        owner_only(&mut options);
        let mut file = match self.dir.open_with(path, &options) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.create_private_dir_of(path)?;
                self.dir.open_with(path, &options)?
            }
            opened => opened?,
        };
        // One write: lines of two processes do not mix.
        file.write_all(format!("{line}\n").as_bytes())
    }

    /// Writes a new file below the root atomically, with its parent
    /// directories. Fails if the file exists.
    pub fn write_new(&self, path: &str, text: &str) -> std::io::Result<()> {
        self.create_dir_of(path)?;
        let (parent, name) = match path.rsplit_once('/') {
            Some((parent, name)) => (self.dir.open_dir(parent)?, name),
            None => (self.dir.try_clone()?, path),
        };
        self.remove_left_over_for(&parent, name);
        let mut temporary = Temporary::create(&parent, name, false)?;
        temporary.write(text.as_bytes(), None)?;
        temporary.link(name)
    }

    /// Removes a file that this process wrote.
    pub fn remove(&self, path: &str) {
        let _ = self.dir.remove_file(path);
    }

    /// Renames a file that this process wrote. A file at the new path is replaced.
    pub fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.dir.rename(from, &self.dir, to)
    }

    /// Removes a directory that is empty, or contains only the `.gitignore` of
    /// [`create_private_dir_of`](Self::create_private_dir_of).
    pub fn remove_dir_if_unused(&self, directory: &str) {
        let ignore = format!("{directory}/.gitignore");
        let is_ours = || self.read(&ignore, 16).is_ok_and(|text| text == b"*\n");
        match self.names_in(directory).as_slice() {
            [] => {}
            [name] if name == ".gitignore" && is_ours() => self.remove(&ignore),
            _ => return,
        }
        let _ = self.dir.remove_dir(directory);
    }

    /// Creates the directories above `path`.
    pub fn create_dir_of(&self, path: &str) -> std::io::Result<()> {
        match path.rsplit_once('/') {
            Some((parent, _)) => self.dir.create_dir_all(parent),
            None => Ok(()),
        }
    }

    /// Creates the directories above `path` for their owner only. Each new one
    /// gets a `.gitignore` that ignores everything in it.
    ///
    /// The directories that belong to Contexture by their name get one as well
    /// when they have none, because earlier versions made them without.
    pub fn create_private_dir_of(&self, path: &str) -> std::io::Result<()> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        cap_std::fs::DirBuilderExt::mode(&mut builder, 0o700);
        for (at, _) in path.match_indices('/') {
            let directory = &path[..at];
            match self.dir.create_dir_with(directory, &builder) {
                Ok(()) => self.ignore_in_git(directory),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    if OWN.contains(&directory) {
                        self.ignore_in_git(directory);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes a `.gitignore` if there is none. Failing to write it is not an
    /// error.
    fn ignore_in_git(&self, directory: &str) {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        owner_only(&mut options);
        let path = format!("{directory}/.gitignore");
        let file = self.dir.open_with(path, &options);
        let _ = file.and_then(|mut file| file.write_all(b"*\n"));
    }

    /// Removes the temporary files of killed processes from the directories
    /// that Contexture writes to: the root, `.agent/`, `.contexture/` and the
    /// directories of sessions.
    pub fn remove_left_over(&self) {
        // In the root, a name that another program could have chosen is left
        // alone.
        temporary::remove_left_over(&self.dir, |left| {
            left.is_certain || left.target.starts_with("working-set.")
        });
        for above in [".agent", ".contexture"] {
            let Ok(above) = self.dir.open_dir_nofollow(above) else {
                continue;
            };
            temporary::remove_left_over(&above, |_| true);
            let Ok(sessions) = above.open_dir_nofollow("sessions") else {
                continue;
            };
            let names = sessions.entries().into_iter().flatten().flatten();
            for session in names.take(MOST_SESSIONS) {
                let Ok(session) = sessions.open_dir_nofollow(session.file_name()) else {
                    continue;
                };
                temporary::remove_left_over(&session, |_| true);
                if let Ok(outputs) = session.open_dir_nofollow("tool") {
                    temporary::remove_left_over(&outputs, |_| true);
                }
            }
        }
    }

    /// Returns the names in a directory, sorted. Empty if there is no such
    /// directory.
    pub fn names_in(&self, directory: &str) -> Vec<String> {
        if self.is_really_hidden(directory) {
            return Vec::new();
        }
        let entries = self.dir.read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    /// Opens the directory of `path`, which writers lock: a lock on the file
    /// itself would be lost when it is replaced.
    pub fn open_dir_of(&self, path: &str) -> std::io::Result<std::fs::File> {
        let parent = path.rsplit_once('/').map_or(".", |(parent, _)| parent);
        // Opened as a file: a handle to a directory alone cannot be locked.
        Ok(self.dir.open(parent)?.into_std())
    }
}

/// Does the same as [`Root::link_out`] for a directory that is not open.
pub(crate) fn link_out(root: &Path, path: &Path) -> Option<PathBuf> {
    // A root that does not exist has no links.
    let real_root = root.canonicalize().ok()?;
    let mut below = PathBuf::new();
    for part in path.components() {
        below.push(part);
        let place = root.join(&below);
        let is_link = place.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        let stays = || {
            let real = place.canonicalize();
            real.is_ok_and(|real| real.starts_with(&real_root))
        };
        if is_link && !stays() {
            return Some(below);
        }
    }
    None
}

/// The kind of entry at a path.
pub enum PathEntry {
    /// A file that may be read.
    File {
        /// The size in bytes.
        bytes: u64,
        /// The stamp of the file, if known.
        stamp: Option<Stamp>,
    },
    /// Nothing, or a broken link.
    Nothing,
    /// A directory, a pipe, or what may not be looked at.
    Other,
}

/// An identification of a file's state: the file, its size, and the times of
/// its last write and its last change of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    file: u64,
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

/// The number of seconds without a change after which a file's times identify
/// its content: file systems round times, some to two seconds.
const TICK_SECONDS: i64 = 3;

impl Stamp {
    #[cfg(unix)]
    fn of(meta: &cap_std::fs::Metadata) -> Option<Self> {
        use cap_std::fs::MetadataExt as _;
        Some(Self {
            device: meta.dev(),
            file: meta.ino(),
            bytes: meta.len(),
            written: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// On other systems the time of the last change, which programs cannot set,
    /// is not available.
    #[cfg(not(unix))]
    fn of(_: &cap_std::fs::Metadata) -> Option<Self> {
        None
    }

    /// Returns the size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if any change of the file after `now` will change its
    /// stamp.
    pub fn is_settled(&self, now: jiff::Timestamp) -> bool {
        let latest = self.written.0.max(self.changed.0);
        latest.saturating_add(TICK_SECONDS) < now.as_second()
    }
}

/// Returns the text of `bytes` without a byte order mark and without its final
/// line end. Fails with the reason if they are not text.
pub fn text_of(bytes: Vec<u8>) -> Result<String, Unusable> {
    let (mut text, _) = decoded(bytes)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Returns the text of `bytes` without a byte order mark, and whether there was
/// one.
fn decoded(bytes: Vec<u8>) -> Result<(String, bool), Unusable> {
    if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") {
        return Err(Unusable::new(
            Code::NOT_UTF8,
            "is UTF-16; convert it to UTF-8",
        ));
    }
    let head = &bytes[..bytes.len().min(8192)];
    if memchr::memchr(0, head).is_some() {
        return Err(Unusable::new(Code::BINARY, "is binary"));
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Unusable::new(
            Code::NOT_UTF8,
            format!("is not UTF-8 at byte {at}; convert it to UTF-8"),
        )
    })?;
    let has_mark = text.starts_with('\u{FEFF}');
    if has_mark {
        text.drain(..'\u{FEFF}'.len_utf8());
    }
    Ok((text, has_mark))
}

/// Fails with the reason if `path` may not be used, judging by its text alone.
///
/// Links are checked when the file is opened.
pub fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("is empty".to_owned());
    }
    if path.contains('\0') {
        return Err("contains a NUL character".to_owned());
    }
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                return Err(format!(
                    "`{path}` contains `..`, which can leave the root; use a path below the root"
                ));
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(format!(
                    "`{path}` is absolute; use a path relative to the root"
                ));
            }
            Component::CurDir | Component::Normal(_) => {}
        }
    }
    Ok(())
}

/// Returns `path` without `./` and doubled slashes.
pub fn normalise(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    parts.join("/")
}

fn not_a_file(meta: &cap_std::fs::Metadata) -> &'static str {
    if meta.is_dir() {
        "is a directory"
    } else {
        "is a pipe, a socket or a device, not a file"
    }
}

/// Returns a path with `.` and `..` resolved by its text.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            _ => {}
        }
    }
    plain
}

fn no_file(path: &str) -> Unusable {
    Unusable::new(Code::MISSING, format!("file `{path}` does not exist"))
}

/// Returns the refusal of a path that leads out of the root, by itself or
/// through a link.
fn leads_out(path: &str) -> Unusable {
    let by_itself = path.starts_with('/') || path.split(['/', '\\']).any(|part| part == "..");
    let how = if by_itself {
        ""
    } else {
        " through a symbolic link"
    };
    Unusable::new(Code::OUTSIDE_ROOT, format!("`{path}` leaves the root{how}"))
}

fn unusable(path: &str, error: &std::io::Error) -> Unusable {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => no_file(path),
        // The library's word for a path that leads out.
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => leads_out(path),
        _ if error.raw_os_error() == Some(18) => leads_out(path),
        ErrorKind::IsADirectory => Unusable::new(Code::NOT_A_FILE, "is a directory"),
        _ => Unusable::new(Code::UNREADABLE, format!("cannot be read: {error}")),
    }
}
