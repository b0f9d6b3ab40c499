//! Opens database files: creates them with private permissions, sets the
//! pragmas of each connection, and runs migrations.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use contexture_store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::Options;
use crate::driver::Database;
use crate::error::{self, Fault};
use crate::handles::FileUse;
use crate::open::leave_replaced;
use crate::presence::{FileId, Files};
use crate::schema::{self, STEPS, State};
use crate::seal;
use crate::stats::free_bytes;
use crate::writer::RETRY;

/// The number of prepared statements that a connection caches: more than there
/// are.
const STATEMENTS: usize = 256;

/// The memory that a connection may use for pages, in KiB. Memory-mapped I/O is
/// off: a truncated file or a failing disk would then end the process with a
/// signal instead of an error.
const CACHE_KIB: i32 = 16 * 1024;

/// The same for the connection that writes. Random ids touch pages all over an
/// index; the index of a million memory records fits into this size.
const WRITER_CACHE_KIB: i32 = 64 * 1024;

/// How many pages the log may have before they are written into the file: 64
/// MiB. This is sixteen times SQLite's default, so that a page that changes
/// often is copied into the file less often.
const CHECKPOINT_PAGES: i32 = 16_000;

/// The free space below which a disk is too full to create a log, in bytes.
const LOG_BYTES: u64 = 128 << 10;

/// How long opening waits until another thread has closed the file that was at the
/// path before.
const REPLACED_TIMEOUT: Duration = Duration::from_secs(1);

/// Held while a file is searched for and created. POSIX removes all locks of a
/// process on a file when any handle to it is closed. The handle that creates
/// the file must therefore be closed before SQLite opens the file anywhere in
/// the process.
static CREATING: Mutex<()> = Mutex::new(());

/// Where a store is and how it is opened.
#[derive(Debug, Clone)]
pub(crate) struct StoreLocation {
    pub(crate) path: PathBuf,
    pub(crate) address: String,
    pub(crate) options: Options,
    pub(crate) read_only: bool,
}

/// A connection that reads.
pub(crate) struct Reader {
    pub(crate) connection: Database,
    /// False if the connection must not be reused, because it was opened for a
    /// file that never changes.
    pub(crate) reusable: bool,
}

impl StoreLocation {
    pub(crate) fn new(path: &Path, options: Options, read_only: bool) -> StoreLocation {
        StoreLocation {
            // The process may change its working directory while the store is
            // open.
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            address: format!("sqlite:{}", path.display()),
            options,
            read_only,
        }
    }

    /// Ensures that a store of the newest version exists, and returns a
    /// connection that reads it. Writes only if the store must be created or
    /// migrated.
    pub(crate) fn prepare(&self) -> Result<(Reader, Files), Fault> {
        self.find_or_make()?;
        self.open_with_reserve(|file| {
            if let Some(reader) = self.current_reader(file)? {
                return Ok(reader);
            }
            self.make_current(file)
        })
    }

    /// Opens a store that existed before. An empty file is an error: treating
    /// it as a store would hide the loss.
    pub(crate) fn find_again(&self) -> Result<(Reader, Files), Fault> {
        self.open_with_reserve(|file| {
            let found = fs::metadata(&self.path).map_err(|error| self.io(error))?;
            if !found.is_file() {
                return Err(self.not_a_store("is not a file"));
            }
            if let Some(reader) = self.current_reader(file)? {
                return Ok(reader);
            }
            if self.is_blank()? {
                return Err(self.not_a_store("is empty"));
            }
            self.make_current(file)
        })
    }

    /// Opens the store like [`open_stable`](Self::open_stable). The log needs a
    /// little disk space. If opening fails on a full disk, the reserve is released.
    fn open_with_reserve(
        &self,
        open: impl Fn(FileId) -> Result<Reader, Fault>,
    ) -> Result<(Reader, Files), Fault> {
        match self.open_stable(&open) {
            Err(Fault::Sql(_))
                if free_bytes(&self.path).is_some_and(|free| free < LOG_BYTES)
                    && seal::release_at(&self.path) =>
            {
                self.open_stable(&open)
            }
            opened => opened,
        }
    }

    /// Calls `open`, and returns the connection together with its open files.
    fn open_stable(
        &self,
        open: impl Fn(FileId) -> Result<Reader, Fault>,
    ) -> Result<(Reader, Files), Fault> {
        for _ in 0..3 {
            let used = Arc::new(self.begin_use()?);
            let reader = open(used.id());
            let files = Files::look(&self.path, used);
            if files.main_is_there() {
                return Ok((reader?, files));
            }
            // The file was replaced just now. The connection is closed before the
            // next attempt.
        }
        Err(Fault::Refused(error::gone(&self.address)))
    }

    /// Begins a use of the file that is at the path now. Connections of this process
    /// to a file that was there before are closed first.
    pub(crate) fn begin_use(&self) -> Result<FileUse, Fault> {
        let start = Instant::now();
        loop {
            let found = || -> io::Result<(PathBuf, FileId)> {
                let real = fs::canonicalize(&self.path)?;
                let id = FileId::at(&real)?;
                Ok((real, id))
            };
            let (real, id) = found().map_err(|error| self.io(error))?;
            leave_replaced(&real, &self.address)?;
            if let Some(used) = FileUse::begin(&real, id) {
                return Ok(used);
            }
            // Another thread is opening or copying the earlier file.
            if start.elapsed() >= REPLACED_TIMEOUT {
                return Err(Fault::Refused(error::still_read(&self.address)));
            }
            std::thread::sleep(RETRY);
        }
    }

    fn is_blank(&self) -> Result<bool, Fault> {
        let connection = self.connect_immutable()?;
        let state = schema::state(&connection, &self.address, STEPS);
        Ok(matches!(state, Ok(State::Blank)))
    }

    /// Migrates the store to the newest version, or creates it in an empty
    /// file.
    fn make_current(&self, file: FileId) -> Result<Reader, Fault> {
        if self.read_only {
            return Err(
                self.not_a_store("is empty or of an older version, and is opened for reading only")
            );
        }
        self.bring_up_to_date(file)?;
        self.reader(file)
    }

    fn find_or_make(&self) -> Result<(), Fault> {
        let _alone = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(found) if found.is_dir() => Err(self.not_a_store("is a directory")),
            Ok(_) => Err(self.not_a_store("is not a file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.read_only => {
                Err(contexture_sql::Fault::not_found("store", &self.address).into())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_file().map_err(|error| self.io(error))
            }
            Err(error) => Err(self.io(error)),
        }
    }

    /// Returns a connection that reads, if there is a store of the newest
    /// version. The first check changes neither the file nor its directory,
    /// because the file may belong to another program.
    fn current_reader(&self, file: FileId) -> Result<Option<Reader>, Fault> {
        let current = State::Ours(STEPS.len() as u32);
        // This check does not see the write-ahead log. That is sufficient,
        // because a store gets its application id before it gets a log.
        let seen = self.connect_immutable().and_then(|connection| {
            let state = schema::state(&connection, &self.address, STEPS)?;
            self.check_length(&connection)?;
            Ok(state)
        });
        match seen {
            Ok(State::Blank) => return Ok(None),
            // The migration may still be in the log only.
            Ok(State::Ours(_)) => {}
            // A checkpoint that is running or was interrupted looks like damage
            // without the log.
            Err(fault) if fault.code() == Some(ErrorCode::DatabaseCorrupt) => {}
            Err(fault) => return Err(fault),
        }
        let reader = match self.reader(file) {
            Ok(reader) => reader,
            // The creation was interrupted. A connection that can write must
            // roll it back.
            Err(fault) if fault.code() == Some(ErrorCode::ReadOnly) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let state = schema::state(&reader.connection, &self.address, STEPS)?;
        Ok((state == current).then_some(reader))
    }

    /// Rejects a file whose last page is incomplete: SQLite would read the
    /// missing part as zeros.
    fn check_length(&self, connection: &Connection) -> Result<(), Fault> {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let length = fs::metadata(&self.path)
            .map_err(|error| self.io(error))?
            .len();
        // Another process may be writing a page right now.
        if length.is_multiple_of(page.unsigned_abs().max(1)) || !self.is_at_rest() {
            return Ok(());
        }
        Err(self.not_a_store("is damaged: its last page is cut short"))
    }

    fn bring_up_to_date(&self, file: FileId) -> Result<(), Fault> {
        let connection = self.connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if connection.is_readonly("main")? {
            return Err(self.is_read_only());
        }
        let current = State::Ours(STEPS.len() as u32);
        self.retry_while_busy(&connection, || {
            // Another process may have finished the same work meanwhile.
            if schema::state(&connection, &self.address, STEPS)? == current {
                return Ok(());
            }
            // Uses a rollback journal instead of a log, so that the id is in
            // the file itself from the beginning, where `current_reader` checks
            // it.
            schema::migrate(&connection, &self.address, STEPS)
        })?;
        self.use_log(&connection)
    }

    /// Retries while another connection holds a lock, until the timeout. SQLite
    /// can wait by itself, but not everywhere, and its intervals are too long
    /// for the short gaps of a busy process.
    fn retry_while_busy<T>(
        &self,
        connection: &Connection,
        mut attempt: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        connection.busy_timeout(Duration::ZERO)?;
        let start = Instant::now();
        loop {
            match attempt() {
                Err(fault) if fault.is_busy() && start.elapsed() < self.options.busy_timeout => {
                    std::thread::sleep(RETRY);
                }
                outcome => return outcome,
            }
        }
    }

    /// Opens the connection that writes. The connection does not wait for
    /// locks, because the writer thread does.
    pub(crate) fn writing_connection(&self, files: &Files) -> Result<Database, Fault> {
        if self.read_only || !files.may_be_written() {
            return Err(self.is_read_only());
        }
        let connection = self.connect(files.main().1, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if connection.is_readonly("main")? {
            return Err(self.is_read_only());
        }
        match self.options.bulk {
            true => {
                connection.busy_timeout(Duration::ZERO)?;
                use_journal(&connection)?;
            }
            false => self.use_log(&connection)?,
        }
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        // Deleted rows are overwritten, so that deleted data cannot be
        // recovered.
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        if let Some(bytes) = self.options.max_bytes {
            let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / size.max(1);
            connection.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))?;
        }
        Ok(Database(connection))
    }

    /// Opens a connection that reads the file, which is in use.
    pub(crate) fn reader(&self, file: FileId) -> Result<Reader, Fault> {
        let opened = self.connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
        // The first read shows whether the file can be read.
        let looked = opened.and_then(|connection| {
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(connection)
        });
        match looked {
            Ok(connection) => Ok(Reader {
                connection: Database(connection),
                reusable: true,
            }),
            // The index of the log cannot be created in this directory.
            Err(fault)
                if matches!(
                    fault.code(),
                    Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
                ) && self.is_at_rest() =>
            {
                Ok(Reader {
                    connection: Database(self.connect_immutable()?),
                    reusable: false,
                })
            }
            Err(fault) => Err(fault),
        }
    }

    /// Returns true if only the file itself exists: no log, and no journal of
    /// an interrupted change.
    fn is_at_rest(&self) -> bool {
        // They are next to the file itself, not next to a link to it.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        ["-wal", "-journal"].iter().all(|suffix| {
            let mut beside = OsString::from(&path);
            beside.push(suffix);
            !fs::metadata(beside).is_ok_and(|found| found.len() > 0)
        })
    }

    /// Opens a connection to the file, which is in use. Fails if another file is at
    /// the path.
    fn connect(&self, file: FileId, flags: OpenFlags) -> Result<Connection, Fault> {
        let connection = self.connect_unread(file, flags)?;
        self.configure(&connection)?;
        Ok(connection)
    }

    /// Opens a connection like [`connect`](Self::connect), which has neither read
    /// anything nor any of the settings.
    pub(crate) fn connect_unread(
        &self,
        file: FileId,
        flags: OpenFlags,
    ) -> Result<Connection, Fault> {
        // A connection is used by one thread at a time.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        // SQLite opens the log and its index by name, at the first read. If the file
        // was replaced, they still belong to the earlier file, and other connections
        // may use them: this connection must not read.
        if !FileId::at(&self.path).is_ok_and(|found| found == file) {
            return Err(Fault::Refused(error::gone(&self.address)));
        }
        Ok(connection)
    }

    /// Opens the file as one that never changes: without locks, without a log,
    /// and without creating other files.
    fn connect_immutable(&self) -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let path = fs::canonicalize(&self.path).map_err(|error| self.io(error))?;
        let connection = Connection::open_with_flags(immutable_uri(&path), flags)?;
        self.configure(&connection)?;
        Ok(connection)
    }

    fn configure(&self, connection: &Connection) -> Result<(), Fault> {
        // SQLite stores the timeout in an `i32` of milliseconds. One day is the
        // maximum here.
        let timeout = self.options.busy_timeout.min(Duration::from_secs(86_400));
        connection.busy_timeout(timeout)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // FULL waits for the disk at every commit; NORMAL loses the latest
        // commits when the power fails. It is set on every connection, so that
        // no writing connection can miss it.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // On macOS, only this makes the disk write.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        // The file may come from an untrusted origin: no code in its schema is
        // run, and a damaged page is detected.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        // Plans do not depend on bound values. Otherwise SQLite would prepare a
        // statement again for each new value if its plan could depend on it,
        // for example on a table with partial indexes.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(())
    }

    /// Switches the file to write-ahead logging permanently. Readers and the
    /// writer then do not wait for each other.
    fn use_log(&self, connection: &Connection) -> Result<(), Fault> {
        let mode: String = self.retry_while_busy(connection, || {
            let mode = connection
                .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
            Ok(mode)
        })?;
        if mode == "wal" {
            return Ok(());
        }
        Err(Fault::Refused(StoreError::Backend {
            store: "sqlite",
            source: format!(
                "{}: there is no write-ahead log here (journal mode {mode}); is it on a network \
                 drive?",
                self.address
            )
            .into(),
        }))
    }

    /// Switches the file from the log to a rollback journal. If anything else has the
    /// file open, the file keeps its log.
    pub(crate) fn leave_log(
        &self,
        (reader, files): (Reader, Files),
    ) -> Result<(Reader, Files), Fault> {
        drop(reader);
        let file = files.main().1;
        if files.may_be_written() {
            // An error that lasts is returned by the next connection.
            let _ = self
                .connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
                .and_then(|connection| {
                    connection.busy_timeout(Duration::ZERO)?;
                    set_journal(&connection)
                });
        }
        Ok((self.reader(file)?, files.look_again()))
    }

    /// Switches the file to the log if another process has it open with a rollback
    /// journal. Reads of this process would delay its commits.
    pub(crate) fn return_to_log(
        &self,
        (reader, files): (Reader, Files),
    ) -> Result<(Reader, Files), Fault> {
        let writable = !self.read_only && reader.reusable && files.may_be_written();
        let (main, file) = files.main();
        let is_switched =
            writable && journal_mode(&reader.connection)? != "wal" && seal::is_locked(main);
        if !is_switched {
            return Ok((reader, files));
        }
        drop(reader);
        // A store that cannot be switched can still be read.
        let _ = self
            .connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| self.use_log(&connection));
        Ok((self.reader(file)?, files.look_again()))
    }

    /// Creates the file and its directories with permissions for the owner
    /// only.
    fn make_file(&self) -> io::Result<()> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        make_directory(directory)?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.path) {
            Ok(_) => sync_directory(directory),
            // Another process has created it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn io(&self, error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                self.is_read_only()
            }
            _ => Fault::Refused(StoreError::Backend {
                store: "sqlite",
                source: format!("{}: {error}", self.address).into(),
            }),
        }
    }

    fn is_read_only(&self) -> Fault {
        Fault::Refused(StoreError::ReadOnly {
            store: self.address.clone(),
        })
    }

    fn not_a_store(&self, message: &str) -> Fault {
        Fault::Refused(StoreError::NotAStore {
            store: self.address.clone(),
            message: message.to_owned(),
        })
    }
}

/// Returns the journal mode of the file.
fn journal_mode(connection: &Connection) -> Result<String, Fault> {
    Ok(connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?)
}

/// Makes a connection use a rollback journal, unless the file has a log.
fn use_journal(connection: &Connection) -> Result<(), Fault> {
    match journal_mode(connection)?.as_str() {
        "wal" => Ok(()),
        _ => set_journal(connection),
    }
}

/// Makes a connection use a rollback journal that is emptied by each commit. With
/// `synchronous=FULL`, SQLite waits until the empty journal is on disk. It does not
/// wait so for the removal of a journal.
fn set_journal(connection: &Connection) -> Result<(), Fault> {
    connection.pragma_update_and_check(None, "journal_mode", "TRUNCATE", |_| Ok(()))?;
    Ok(())
}

/// Creates a directory and its parents, and syncs them to disk: a store is lost
/// if its directory is lost.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let above = match directory.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    make_directory(above)?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_directory(above),
    }
}

#[cfg(unix)]
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the path as a URI, which SQLite accepts with options.
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(byte));
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            b':' if cfg!(windows) => uri.push(':'),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pragma(connection: &Connection, name: &str) -> String {
        let value = connection
            .pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
        match value.unwrap() {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(number) => number.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// 2 is FULL.
    fn waits_for_the_disk(connection: &Connection) {
        assert_eq!(pragma(connection, "synchronous"), "2");
        assert_eq!(pragma(connection, "fullfsync"), "1");
        assert_eq!(pragma(connection, "foreign_keys"), "1");
    }

    #[test]
    fn every_connection_that_writes_waits_for_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let place = StoreLocation::new(&path, Options::default(), false);
        let store = crate::SqliteStore::open(&path).unwrap();
        // The two places that open a connection for writing.
        let used = place.begin_use().unwrap();
        let file = used.id();
        let migrates = place.connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE);
        waits_for_the_disk(&migrates.unwrap());
        let files = Files::look(&path, Arc::new(used));
        let writes = place.writing_connection(&files).unwrap();
        waits_for_the_disk(&writes);
        assert_eq!(pragma(&writes, "journal_mode"), "wal");
        // The one that is in use, after a write.
        let write = |db: &Database, _| {
            waits_for_the_disk(db);
            assert_eq!(pragma(db, "journal_mode"), "wal");
            Ok(())
        };
        store.backend().write_rows(write).unwrap();
        // All others cannot write.
        let reads = place.reader(file).unwrap().connection;
        assert!(reads.is_readonly("main").unwrap());
        assert_eq!(pragma(&reads, "journal_mode"), "wal");
    }

    #[cfg(unix)]
    #[test]
    fn a_connection_to_another_file_reads_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let place = StoreLocation::new(&path, Options::default(), false);
        drop(crate::SqliteStore::open(&path).unwrap());
        let file = place.begin_use().unwrap().id();
        let copy = directory.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        let companions = ["store.db-wal", "store.db-shm"].map(|name| directory.path().join(name));
        for companion in &companions {
            let _ = fs::remove_file(companion);
        }
        for flags in [
            OpenFlags::SQLITE_OPEN_READ_ONLY,
            OpenFlags::SQLITE_OPEN_READ_WRITE,
        ] {
            let refused = place.connect(file, flags).err().unwrap();
            let refused = refused.at(&place.address);
            assert!(
                matches!(refused, StoreError::Unavailable { .. }),
                "{refused}"
            );
        }
        assert!(companions.iter().all(|companion| !companion.exists()));
        // The file that is there can be opened.
        let used = place.begin_use().unwrap();
        let reader = place.reader(used.id()).unwrap();
        assert!(companions.iter().all(|companion| companion.exists()));
        drop(reader);
    }

    #[test]
    fn any_path_can_be_encoded_as_a_uri() {
        let uri = immutable_uri(Path::new("/a b/50%?/ü#.db"));
        assert_eq!(uri, "file:/a%20b/50%25%3F/%C3%BC%23.db?immutable=1");
    }
}
