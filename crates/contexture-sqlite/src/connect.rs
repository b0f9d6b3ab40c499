//! Files and connections.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use contexture_store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::Options;
use crate::error::Fault;
use crate::schema::{self, STEPS, State};

/// Prepared statements that a connection keeps: more than we have.
const STATEMENTS: usize = 128;

/// The memory that a connection may use for pages, in KiB. There is no memory
/// map: a file that is cut short, or a disk that fails, would then end the
/// process with a signal instead of an error.
const CACHE_KIB: i32 = 16 * 1024;

/// Stores are opened one at a time. POSIX takes all of a process's locks on a
/// file away when any handle on it is closed; the file that is made here must
/// be closed before anybody else in the process opens it.
static OPENING: Mutex<()> = Mutex::new(());

/// Where a store is and how it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) address: String,
    pub(crate) options: Options,
    pub(crate) read_only: bool,
}

/// A connection that reads.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    /// False when it must not be used again: it took the file to be unchanging.
    pub(crate) reusable: bool,
}

impl Place {
    pub(crate) fn new(path: &Path, options: Options, read_only: bool) -> Place {
        Place {
            path: path.to_owned(),
            address: format!("sqlite:{}", path.display()),
            options,
            read_only,
        }
    }

    /// Makes sure that there is a store of the newest version, and returns a
    /// connection that reads it. Writes only if there is something to be made
    /// or brought up to date.
    pub(crate) fn prepare(&self) -> Result<Reader, StoreError> {
        let _alone = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare_alone()
            .map_err(|fault| fault.at(&self.address))
    }

    fn prepare_alone(&self) -> Result<Reader, Fault> {
        match fs::metadata(&self.path) {
            Ok(found) if !found.is_file() => {
                return Err(self.not_a_store(match found.is_dir() {
                    true => "is a directory",
                    false => "is not a file",
                }));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.read_only {
                    return Err(Fault::not_found("store", &self.address));
                }
                self.make_file().map_err(|error| self.io(error))?;
            }
            Err(error) => return Err(self.io(error)),
        }
        if let Some(reader) = self.current_reader()? {
            return Ok(reader);
        }
        if self.read_only {
            return Err(
                self.not_a_store("is empty or of an older version, and is opened for reading only")
            );
        }
        self.bring_up_to_date()?;
        self.reader()
    }

    /// Returns a connection that reads, if there is a store of the newest
    /// version. Looks first without changing anything in the file or beside it:
    /// it may be somebody else's.
    fn current_reader(&self) -> Result<Option<Reader>, Fault> {
        let current = State::Ours(STEPS.len() as u32);
        // What is still in the write-ahead log is not seen this way. That is no
        // matter: a store gets its id before it gets a log.
        let seen = (self.connect_immutable())
            .and_then(|connection| schema::state(&connection, &self.address, STEPS));
        match seen {
            Ok(state) if state != current => return Ok(None),
            Ok(_) => {}
            // A checkpoint that was cut short looks like damage to those who do
            // not read the log.
            Err(fault) if fault.code() == Some(ErrorCode::DatabaseCorrupt) => {}
            Err(fault) => return Err(fault),
        }
        let reader = match self.reader() {
            Ok(reader) => reader,
            // The making of it was cut short, and has to be undone by somebody
            // who may write.
            Err(fault) if fault.code() == Some(ErrorCode::ReadOnly) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let state = schema::state(&reader.connection, &self.address, STEPS)?;
        Ok((state == current).then_some(reader))
    }

    fn bring_up_to_date(&self) -> Result<(), Fault> {
        let mut connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if connection.is_readonly("main")? {
            return Err(self.is_read_only());
        }
        // In a journal that is deleted, not in a log: the id stands in the file
        // itself from the beginning, where `current_reader` looks for it.
        schema::migrate(&mut connection, &self.address, STEPS)?;
        self.use_log(&connection)
    }

    /// Opens the connection that writes.
    pub(crate) fn writing_connection(&self) -> Result<Connection, Fault> {
        if self.read_only {
            return Err(self.is_read_only());
        }
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if connection.is_readonly("main")? {
            return Err(self.is_read_only());
        }
        self.use_log(&connection)?;
        // FULL waits for the disk at every commit; NORMAL loses the latest
        // commits when the power fails.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // On a Mac, this is what makes the disk write.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        if let Some(bytes) = self.options.max_bytes {
            let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / size.max(1);
            connection.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))?;
        }
        // The writer waits by itself.
        connection.busy_timeout(Duration::ZERO)?;
        Ok(connection)
    }

    /// Opens a connection that reads.
    pub(crate) fn reader(&self) -> Result<Reader, Fault> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // The first look at the file, which finds out whether it can be read.
        match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
            Ok(()) => Ok(Reader {
                connection,
                reusable: true,
            }),
            // A directory in which the log's index cannot be made. Without a
            // log there is nothing to be seen but the file.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && !self.has_log() =>
            {
                Ok(Reader {
                    connection: self.connect_immutable()?,
                    reusable: false,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn has_log(&self) -> bool {
        let mut log = OsString::from(&self.path);
        log.push("-wal");
        fs::metadata(log).is_ok_and(|found| found.len() > 0)
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, Fault> {
        // A connection is used by one thread at a time.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        self.configure(&connection)?;
        Ok(connection)
    }

    /// Opens the file as one that never changes: no locks, no log, nothing made
    /// beside it.
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
        // Longer than SQLite can take is for ever.
        let timeout = self.options.busy_timeout.min(Duration::from_secs(86_400));
        connection.busy_timeout(timeout)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        // The file may come from anywhere: nothing in its schema is run, and a
        // damaged page is noticed rather than followed.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(())
    }

    /// Switches to the write-ahead log, in which readers and the writer do not
    /// wait for each other. It stays so for this file.
    fn use_log(&self, connection: &Connection) -> Result<(), Fault> {
        // SQLite does not wait here when another process is doing the same.
        let start = Instant::now();
        loop {
            let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| {
                row.get::<_, String>(0)
            });
            match mode.map_err(Fault::from) {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    return Err(Fault::Refused(StoreError::Backend {
                        store: "sqlite",
                        source: format!(
                            "{}: there is no write-ahead log here (journal mode {mode}); is it \
                             on a network drive?",
                            self.address
                        )
                        .into(),
                    }));
                }
                Err(fault) if fault.is_busy() && start.elapsed() < self.options.busy_timeout => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Makes the file and its directories, for nobody but their owner.
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
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn io(&self, error: io::Error) -> Fault {
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

/// Makes a directory and those above it, and has the disk note them: a store in
/// a directory that is lost is lost.
fn make_directory(directory: &Path) -> io::Result<()> {
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
fn sync_directory(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the path as SQLite takes it with options.
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
