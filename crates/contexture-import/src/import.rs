//! [`Import`]: finds files and imports those that have changed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contexture_store::Store;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::error::ImportError;
use crate::file::{SourceFile, stored_name};
use crate::format::{Environment, Format};
use crate::report::Counts;
use crate::writer::Writer;

/// The maximum depth of the directory search.
const MAX_DEPTH: usize = 12;

/// Options of an import.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether to report only, without writing.
    pub dry_run: bool,
    /// Leave out files that were last changed before this time.
    pub since: Option<Timestamp>,
    /// Import only this many files of each place: those that were changed last.
    pub newest: Option<usize>,
    /// The largest message that the store accepts, in bytes.
    pub max_message_bytes: u64,
    /// The longest line that is read, in bytes.
    pub max_line: usize,
    /// Whether to record messages at the end of a file that have no answer yet.
    pub with_tail: bool,
    /// How long a file must be unchanged before its end is recorded, if more may
    /// follow: an answer whose end is not known, and messages without an answer.
    /// A later import records a part that is held back. Zero records everything.
    pub settle: Duration,
    /// Whether the last row of the file must be younger than `settle`, too, for the
    /// end of the file to be held back. A copied file is new, and its rows are old: it
    /// does not grow. Files of formats without such times are then recorded completely.
    pub settle_by_rows: bool,
    /// The time that is used where a file has none. Default: now.
    pub now: Option<Timestamp>,
    /// The time zone of times without one. Default: that of this computer, or UTC
    /// if it is not known.
    pub zone: TimeZone,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dry_run: false,
            since: None,
            newest: None,
            max_message_bytes: 16 << 20,
            max_line: 64 << 20,
            with_tail: true,
            settle: Duration::ZERO,
            settle_by_rows: false,
            now: None,
            zone: local_zone().unwrap_or(TimeZone::UTC),
        }
    }
}

/// The result of an import.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The sum over all files.
    pub counts: Counts,
    /// Each file that was read, in order.
    pub files: Vec<FileReport>,
    /// The number of files that had not changed, also of those that failed
    /// before.
    pub unchanged: u64,
}

/// The result of one file.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// The name of the format.
    pub source: &'static str,
    /// The path of the file.
    pub file: PathBuf,
    /// The number of added objects.
    pub counts: Counts,
    /// The reason why the file was not imported, or not completely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Problems with parts of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Report {
    /// Adds what another import did.
    pub fn add(&mut self, other: Report) {
        self.counts.add(&other.counts);
        self.files.extend(other.files);
        self.unchanged += other.unchanged;
    }
}

/// A file that could not be imported.
struct Failure {
    // The size, the time of the last change and the identity of the file.
    version: Option<(u64, i64, String)>,
    error: String,
    // Whether the content of the file is at fault, so that it fails again until
    // it changes.
    is_lasting: bool,
}

/// Imports files into a store.
///
/// A file that fails is reported once: the same import reports it again when the
/// file or the error changes.
pub struct Import<'s> {
    writer: Writer<'s>,
    store: &'s dyn Store,
    options: Options,
    failures: HashMap<(&'static str, PathBuf), Failure>,
}

impl<'s> Import<'s> {
    /// Returns an import into `store`.
    pub fn new(store: &'s dyn Store, options: Options) -> Self {
        Self {
            writer: Writer::new(store, options.dry_run, options.max_message_bytes),
            store,
            options,
            failures: HashMap::new(),
        }
    }

    /// Imports the files in the default directories of a format.
    pub fn default_places(
        &mut self,
        format: &'static dyn Format,
        environment: &Environment,
    ) -> Result<Report, ImportError> {
        let mut report = Report::default();
        let mut seen: Vec<PathBuf> = Vec::new();
        for place in format.places(environment) {
            let real = std::fs::canonicalize(&place).unwrap_or_else(|_| place.clone());
            if place.exists() && !seen.contains(&real) {
                seen.push(real);
                report.add(self.path(format, &place)?);
            }
        }
        Ok(report)
    }

    /// Returns about how many bytes of the files at a path are not imported yet: those
    /// of new files, and those that files have grown by. Without a path, the default
    /// directories of the format are searched.
    pub fn pending_bytes(
        &self,
        format: &dyn Format,
        path: Option<&Path>,
        environment: &Environment,
    ) -> Result<u64, ImportError> {
        let places = match path {
            Some(path) => vec![path.to_owned()],
            None => format.places(environment),
        };
        let mut files = Vec::new();
        for place in places {
            match place.is_dir() {
                true => find(format, &place, 0, &mut files),
                false => files.push(place),
            }
        }
        let cursors = self.store.import_cursors()?;
        let cursors = cursors.iter().filter(|it| it.source == format.name());
        let known: HashMap<&str, u64> = cursors.map(|it| (it.file.as_str(), it.size)).collect();
        let pending = files.iter().map(|file| {
            let size = std::fs::metadata(file).map_or(0, |found| found.len());
            let known = known.get(&*stored_name(file)).copied();
            size.saturating_sub(known.unwrap_or(0))
        });
        Ok(pending.sum())
    }

    /// Imports a file, or all files of the format below a directory. A file
    /// that cannot be imported is reported, and the others are imported.
    ///
    /// Fails if the path cannot be read, or if the store fails.
    pub fn path(
        &mut self,
        format: &'static dyn Format,
        path: &Path,
    ) -> Result<Report, ImportError> {
        let metadata = std::fs::metadata(path).map_err(|error| ImportError::file(path, error))?;
        let mut files = Vec::new();
        match metadata.is_dir() {
            true => find(format, path, 0, &mut files),
            false => files.push(path.to_owned()),
        }
        if let Some(most) = self.options.newest
            && files.len() > most
        {
            files.sort_by_cached_key(|path| Reverse((modified(path), path.clone())));
            files.truncate(most);
        }
        // A session before its sub-agents, which are deeper; otherwise in the
        // order of creation, so that an original comes before a copy of it.
        files.sort_by_cached_key(|path| (path.components().count(), created(path), path.clone()));
        let mut report = Report::default();
        // The number of each reported file.
        let mut numbers = Vec::new();
        for file in files {
            self.file(format, &file, &mut report, &mut numbers)?;
        }
        self.writer.flush_all()?;
        for (file, number) in report.files.iter_mut().zip(numbers) {
            file.counts.add(&self.writer.added(number));
            report.counts.add(&file.counts);
        }
        self.writer.forget_files();
        Ok(report)
    }

    fn file(
        &mut self,
        format: &'static dyn Format,
        path: &Path,
        report: &mut Report,
        numbers: &mut Vec<usize>,
    ) -> Result<(), ImportError> {
        let key = (format.name(), path.to_owned());
        let version = version(path);
        let earlier = self.failures.get(&key);
        let earlier = earlier.filter(|it| it.version == version);
        if earlier.is_some_and(|it| it.is_lasting) {
            report.unchanged += 1;
            return Ok(());
        }
        let earlier = earlier.map(|it| it.error.clone());
        let number = self.writer.begin_file()?;
        let done = self.read(format, path);
        let error = match done {
            Ok(is_read) => {
                self.failures.remove(&key);
                if !is_read {
                    report.unchanged += 1;
                    return Ok(());
                }
                None
            }
            Err(error) if error.is_store() => return Err(error),
            // Everything found before the error is saved.
            Err(error) => {
                let failure = Failure {
                    version,
                    error: error.to_string(),
                    is_lasting: matches!(error, ImportError::Content { .. }),
                };
                let message = failure.error.clone();
                self.failures.insert(key, failure);
                if earlier.as_ref() == Some(&message) {
                    self.writer.end_file()?;
                    report.unchanged += 1;
                    return Ok(());
                }
                Some(message)
            }
        };
        self.writer.end_file()?;
        numbers.push(number);
        report.files.push(FileReport {
            source: format.name(),
            file: path.to_owned(),
            counts: self.writer.counts,
            error,
            warnings: self.writer.take_warnings(),
        });
        Ok(())
    }

    /// Reads a file. Returns false if there is nothing to do.
    fn read(&mut self, format: &'static dyn Format, path: &Path) -> Result<bool, ImportError> {
        let now = self.options.now.unwrap_or_else(Timestamp::now);
        let mut file = SourceFile::open(path, now, self.options.max_line)?;
        file.with_tail = self.options.with_tail;
        file.zone = self.options.zone.clone();
        file.settle(self.options.settle, self.options.settle_by_rows);
        if let Some(since) = self.options.since
            && i128::from(file.modified()) < since.as_nanosecond()
        {
            return Ok(false);
        }
        let cursor = self.store.import_cursor(format.name(), &file.name)?;
        if let Some(cursor) = &cursor {
            if file.is_unchanged(cursor) {
                return Ok(false);
            }
            file.state = self.store.import_state(format.name(), &file.name)?;
            if format.grows() && file.continues(cursor)? {
                file.offset = cursor.offset;
            }
        }
        format.read(&mut file, &mut self.writer)?;
        self.writer.counts.unfinished += u64::from(file.held.is_some());
        // A reader may have decided to read the file from its beginning.
        let earlier = cursor.filter(|_| file.offset > 0);
        let unknown = earlier.map_or(0, |it| it.unknown) + self.writer.counts.unknown;
        let cursor = file.cursor(format.name(), unknown)?;
        match file.later_state.take() {
            Some(state) => self.writer.cursor_later(cursor, state),
            None => {
                let state = std::mem::take(&mut file.new_state);
                self.writer.cursor(cursor, state)?;
            }
        }
        Ok(true)
    }
}

/// Returns the time zone of this computer, on systems that keep it in a file.
fn local_zone() -> Option<TimeZone> {
    let name = std::env::var("TZ").ok();
    let name = name.as_deref().map(|name| name.trim_start_matches(':'));
    let path = match name.filter(|name| !name.is_empty()) {
        Some(name) => Path::new("/usr/share/zoneinfo").join(name),
        None => PathBuf::from("/etc/localtime"),
    };
    TimeZone::tzif("local", &std::fs::read(path).ok()?).ok()
}

/// Returns the size, the time of the last change and the identity of a file.
fn version(path: &Path) -> Option<(u64, i64, String)> {
    let file = SourceFile::open(path, Timestamp::UNIX_EPOCH, 0).ok()?;
    Some((file.size(), file.modified(), file.identity()))
}

/// Returns when a file was created, or last changed where that is not known.
pub(crate) fn created(path: &Path) -> Option<std::time::SystemTime> {
    let metadata = std::fs::metadata(path).ok()?;
    metadata.created().or_else(|_| metadata.modified()).ok()
}

/// Returns when a file was last changed.
fn modified(path: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}

/// Finds the files of a format below a directory. Links are followed to files,
/// not to directories.
fn find(format: &dyn Format, directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    if depth > MAX_DEPTH {
        return;
    }
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find(format, &path, depth + 1, files),
            Ok(_) if format.is_transcript(&path) && path.is_file() => files.push(path),
            _ => {}
        }
    }
}
