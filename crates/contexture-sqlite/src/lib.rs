//! The embedded store of Contexture, on SQLite: one file for each tenant.
//!
//! ```
//! use contexture_sqlite::SqliteStore;
//! use contexture_store::{Ledger, NewSession};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("contexture.db");
//! let store = SqliteStore::open(&path)?;
//! let new = NewSession { label: "main".to_owned(), ..NewSession::default() };
//! let session = store.create_session(&new, "2026-02-02T10:00:00Z".parse()?)?;
//! assert_eq!(session.turns, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An acknowledged write survives a power failure: the file has a write-ahead
//! log with `synchronous=FULL`, and callers are answered after the commit.
//! Several processes may use one file. A file of an older version is migrated
//! when it is opened; one of a newer version is rejected. A store that is opened with
//! [`Options::bulk`] has a rollback journal instead of the log, also with
//! `synchronous=FULL`.
//!
//! Each tenant has a file of its own. The data of the default tenant is in the
//! store's own file, with the keys and the list of tenants. Writes, size and
//! damage of one tenant do not affect the others.
//!
//! One thread writes to a file. Importing a tree of 100,000 nodes takes a few
//! seconds; other writers of the tenant wait, readers do not. Deleted data is
//! overwritten in place, which takes as long as reading the file and needs no
//! disk space.
//!
//! A store may stay open for weeks. If its file is deleted, renamed or
//! replaced, no write to the old file is acknowledged. Calls fail until there
//! is a store at the path again, and then use that store.
//!
//! The store does not search: it returns changes, from which an index is built.
//! It does not encrypt. It must be on a local disk, because a write-ahead log
//! does not work over a network.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use contexture_sql::{Backend, Connection, NO_TENANT, SqlStore};
use contexture_store::{StoreError, StoreStats, Usage, Waited, Watch};
use jiff::Timestamp;
use rusqlite::OptionalExtension as _;

use crate::connect::StoreLocation;
use crate::driver::Database;
use crate::error::Fault;
use crate::open::Open;
use crate::tenants::TenantFiles;
use crate::writer::AfterCommit;

pub use crate::backup::{BackedUpFile, Backup, accept_loss, check_backup, restore};

mod backup;
mod connect;
mod driver;
mod error;
mod handles;
mod open;
mod presence;
mod readers;
mod schema;
mod scrub;
mod seal;
mod split;
mod stats;
mod tenants;
mod writer;

/// The size of a test write: if it does not fit on the disk, a turn of usual
/// size does not fit either.
const PROBE_BYTES: u32 = 64 << 10;

/// The maximum number of pending background writes.
const MAX_PENDING_WRITES: usize = 1024;

/// The options for opening a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The maximum time to wait for another process that writes. Default: 5
    /// seconds.
    pub busy_timeout: Duration,
    /// The maximum size of a message, or of a node of a tree, in bytes.
    /// Default: 16 MiB.
    pub max_message_bytes: u64,
    /// The maximum size of the file in bytes, if there is a limit. Writes that
    /// do not fit are rejected. Default: no limit.
    pub max_bytes: Option<u64>,
    /// Whether much is written at once, such as by an import. If nothing else has
    /// the file open, a rollback journal is then used instead of the log: new pages
    /// are written once, not twice. Reads wait for commits meanwhile. The log is used
    /// again when the store is closed, or when another process opens it. Default:
    /// false.
    pub bulk: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            max_message_bytes: 16 << 20,
            max_bytes: None,
            bulk: false,
        }
    }
}

/// A store in SQLite files for one tenant. Clones share all state.
///
/// [`open`](SqlStore::open) opens the store in the file at a path. If the file
/// does not exist, it is created with its directories, with permissions for the
/// owner only. A read-only file can still be read; writes then fail.
pub type SqliteStore = SqlStore<SqliteBackend>;

/// The files of a store, for one tenant.
#[derive(Clone)]
pub struct SqliteBackend {
    files: Arc<TenantFiles>,
    tenant: Tenant,
    // The file with the tenant's data, once it was looked up and exists.
    own: Arc<OnceLock<Arc<Shared>>>,
}

/// Returns the directory of the files of a store's other tenants.
pub fn tenants_directory(path: impl AsRef<Path>) -> PathBuf {
    tenants::directory(path.as_ref())
}

impl<P: AsRef<Path>> contexture_sql::Open<P> for SqliteBackend {
    type Options = Options;

    fn open(path: P, options: Options) -> Result<Self, StoreError> {
        Self::open_place(StoreLocation::new(path.as_ref(), options, false))
    }

    fn open_read_only(path: P) -> Result<Self, StoreError> {
        Self::open_place(StoreLocation::new(path.as_ref(), Options::default(), true))
    }
}

/// One file that is open.
struct Shared {
    place: StoreLocation,
    current: RwLock<Arc<Open>>,
    // Held while the files at the path are opened again.
    reopening: Mutex<()>,
    watch: Arc<OnceLock<Watch>>,
    // The number of pending background writes.
    pending_writes: Arc<AtomicUsize>,
}

impl Shared {
    fn open_place(
        place: StoreLocation,
        watch: Arc<OnceLock<Watch>>,
    ) -> Result<Arc<Self>, StoreError> {
        let first = place.prepare().map_err(|fault| fault.at(&place.address))?;
        let (main, id) = first.1.main();
        seal::check(&first.0.connection, main, id)?;
        let first = match place.options.bulk && !place.read_only {
            // A damaged log would be lost with it. It was checked above.
            true => place.leave_log(first),
            false => place.return_to_log(first),
        };
        let first = first.map_err(|fault| fault.at(&place.address))?;
        let unclean = !place.read_only && writer::is_unclean(&first.0.connection);
        let shared = Arc::new(Self {
            place,
            current: RwLock::new(Open::new(first, 0)),
            reopening: Mutex::new(()),
            watch,
            pending_writes: Arc::default(),
        });
        if unclean {
            // The writer thread overwrites deleted data. A file that cannot be
            // written can still be read.
            let _ = shared.writer();
        }
        Ok(shared)
    }

    fn waited(&self, what: Waited, since: Instant) {
        if let Some(watch) = self.watch.get() {
            watch(what, since.elapsed());
        }
    }
}

impl SqliteBackend {
    fn open_place(place: StoreLocation) -> Result<Self, StoreError> {
        Ok(TenantFiles::open(place)?.store(""))
    }

    /// Returns the backend for the tenant's rows in the store's own file: its
    /// API keys.
    pub(crate) fn in_main(&self, tenant: &str) -> Self {
        Self {
            files: Arc::clone(&self.files),
            tenant: Tenant::new(tenant),
            own: Arc::new(OnceLock::from(Arc::clone(&self.files.main))),
        }
    }

    /// Returns the file of the tenant, if it exists.
    pub(crate) fn existing(&self) -> Result<Option<Arc<Shared>>, StoreError> {
        if let Some(own) = self.own.get() {
            return Ok(Some(Arc::clone(own)));
        }
        let found = self.files.find(&self.tenant.name)?;
        Ok(found.map(|found| Arc::clone(self.own.get_or_init(|| found))))
    }

    /// Returns the file of the tenant. Creates it if it does not exist.
    pub(crate) fn own(&self) -> Result<Arc<Shared>, StoreError> {
        if let Some(own) = self.existing()? {
            return Ok(own);
        }
        let made = self.files.make(&self.tenant.name)?;
        Ok(Arc::clone(self.own.get_or_init(|| made)))
    }

    /// Returns the address of the tenant's file.
    fn address_of_file(&self) -> String {
        self.files.place_of(&self.tenant.name).address
    }

    /// Calls `read` with a connection and the tenant's key, in a transaction.
    pub(crate) fn read_rows<T>(
        &self,
        read: impl FnOnce(&Database, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let Some(shared) = self.existing()? else {
            return self.files.read_nothing(|db| read(db, NO_TENANT));
        };
        let place = &shared.place;
        let since = Instant::now();
        loop {
            let open = shared.open()?;
            // The files were closed since the check: try again.
            let Some(lease) = open.readers.take() else {
                continue;
            };
            let read = |connection: &Database| {
                shared.waited(Waited::Read, since);
                let tenant = self.tenant.find(connection, open.number)?;
                read(connection, tenant)
            };
            let result = lease.run(|| open.reader(place), read);
            return result.map_err(|fault| open.explain(&place.address, fault));
        }
    }

    /// Calls `write` with a connection and the tenant's key, in a transaction
    /// that is on disk when this returns.
    #[cfg(test)]
    pub(crate) fn write_rows<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Database, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_then(write, AfterCommit::Nothing)
            .map(|(done, _)| done)
    }

    fn write_then<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Database, i64) -> Result<T, Fault> + Send + 'static,
        after: AfterCommit,
    ) -> Result<(T, bool), StoreError> {
        let tenant = self.tenant.clone();
        let work = move |connection: &Database, open: u64| {
            let tenant = tenant.find_or_add(connection, open)?;
            write(connection, tenant)
        };
        let shared = self.own()?;
        let (open, writer) = shared.writer()?;
        let since = Instant::now();
        let done = shared.run(&open, &writer, work, after);
        shared.waited(Waited::Write, since);
        done
    }

    /// Reads, and writes a row that is rolled back.
    fn probe_file(&self) -> Result<(), StoreError> {
        self.read_rows(|db, _| {
            db.query_row("SELECT count(*) FROM probe", [], |_| Ok(()))?;
            Ok(())
        })?;
        let shared = self.own()?;
        let (open, writer) = shared.writer()?;
        // A rolled back write never reaches the disk. If the last write to the
        // disk failed, only another real write shows whether the problem is
        // over.
        let after = match writer.has_failed() {
            true => AfterCommit::Nothing,
            false => AfterCommit::Undo,
        };
        let work = |connection: &Database, _: u64| {
            connection
                .prepare_cached("INSERT INTO probe VALUES (zeroblob(?1))")?
                .execute([PROBE_BYTES])?;
            connection
                .prepare_cached("DELETE FROM probe")?
                .execute([])?;
            Ok(())
        };
        shared.run(&open, &writer, work, after).map(|_| ())
    }
}

impl Backend for SqliteBackend {
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, i64) -> Result<T, contexture_sql::Fault>,
    ) -> Result<T, StoreError> {
        self.read_rows(|db, tenant| Ok(read(db, tenant)?))
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, contexture_sql::Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let write = move |db: &Database, tenant| Ok(write(db, tenant)?);
        self.write_then(write, AfterCommit::Nothing)
            .map(|(done, _)| done)
    }

    /// Otherwise that is tried again, also after a restart.
    fn write_and_clean<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, contexture_sql::Fault> + Send + 'static,
    ) -> Result<(T, bool), StoreError> {
        let write = move |db: &Database, tenant: i64| {
            let before = db.total_changes();
            let done = write(db, tenant)?;
            if db.total_changes() == before {
                // Nothing was deleted, so there is nothing to overwrite.
                return Ok(done);
            }
            let mark = "INSERT INTO unclean_files (since)
                SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM unclean_files)";
            db.prepare_cached(mark)?
                .execute([Timestamp::now().as_millisecond()])?;
            Ok(done)
        };
        self.write_then(write, AfterCommit::Clean)
    }

    /// If too many writes are pending, it waits.
    fn write_later(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<(), contexture_sql::Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        let shared = match self.own() {
            Ok(shared) => shared,
            Err(error) => return done(Err(error)),
        };
        if shared.pending_writes.load(Ordering::Relaxed) >= MAX_PENDING_WRITES {
            return done(self.write(write));
        }
        let (open, writer) = match shared.writer() {
            Ok(found) => found,
            Err(error) => return done(Err(error)),
        };
        let (tenant, number) = (self.tenant.clone(), open.number);
        let work = move |connection: &Database| {
            let tenant = tenant.find_or_add(connection, number)?;
            Ok(write(connection, tenant)?)
        };
        let counted = Arc::clone(&shared.pending_writes);
        counted.fetch_add(1, Ordering::AcqRel);
        let asked = writer.run_later(work, move |result| {
            done(result);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if !asked {
            // The thread panicked. The next call starts another.
            open.forget_writer(&writer);
        }
    }

    fn settle(&self) {
        if let Some(shared) = self.own.get()
            && shared.pending_writes.load(Ordering::Acquire) > 0
            && let Ok((open, writer)) = shared.writer()
        {
            let nothing = |_: &Database, _: u64| Ok(());
            let _ = shared.run(&open, &writer, nothing, AfterCommit::Nothing);
        }
    }

    /// The data of the default tenant is in the store's own file. Every other
    /// tenant has its own file next to it.
    fn for_tenant(&self, tenant: &str) -> Self {
        self.files.store(tenant)
    }

    fn shared(&self, tenant: &str) -> Self {
        self.in_main(tenant)
    }

    fn explain(&self, fault: contexture_sql::Fault) -> StoreError {
        Fault::from(fault).at(&self.address_of_file())
    }

    fn index_path(&self) -> Option<PathBuf> {
        let place = self.files.place_of(&self.tenant.name);
        let mut path = place.path.into_os_string();
        path.push(tenants::INDEX);
        (!place.read_only).then(|| path.into())
    }

    fn max_message_bytes(&self) -> u64 {
        self.files.main.place.options.max_message_bytes
    }

    fn address(&self) -> String {
        self.files.main.place.address.clone()
    }

    fn tenant_name(&self) -> &str {
        &self.tenant.name
    }

    fn has_data(&self) -> Result<bool, StoreError> {
        Ok(self.existing()?.is_some())
    }

    fn measure(&self, usage: Usage) -> Result<Usage, StoreError> {
        let Some(_) = self.existing()? else {
            return Ok(usage);
        };
        Ok(Usage {
            bytes: self.files.bytes_of(&self.tenant.name),
            pending: self.has_deleted_text()?,
            ..usage
        })
    }

    fn has_deleted_text(&self) -> Result<bool, StoreError> {
        match self.existing()? {
            Some(_) => {
                self.read_rows(|db, tenant| Ok(tenant != NO_TENANT && writer::is_unclean(db)))
            }
            None => Ok(false),
        }
    }

    fn tenant_names(&self) -> Result<Vec<String>, StoreError> {
        self.files.names()
    }

    fn remove_tenant(&self, name: &str) -> Result<(), StoreError> {
        self.files.remove(name)
    }

    fn probe(&self) -> Result<(), StoreError> {
        self.in_main("").probe_file()
    }

    fn stats(&self) -> Result<StoreStats, StoreError> {
        self.stats_now()
    }

    fn watch(&self, watch: Watch) {
        let _ = self.files.main.watch.set(watch);
    }

    fn incarnation(&self) -> u64 {
        self.files.incarnation()
    }
}

/// The tenant whose rows a backend uses.
#[derive(Clone)]
struct Tenant {
    name: Arc<str>,
    // Cached after the first read: a tenant keeps its key as long as the file
    // is the same.
    key: Arc<Mutex<Option<CachedTenantKey>>>,
}

/// The key of a tenant in one of the files that have been at the path.
#[derive(Clone, Copy)]
struct CachedTenantKey {
    open: u64,
    key: i64,
}

impl Tenant {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            key: Arc::default(),
        }
    }

    fn known(&self, open: u64) -> Option<i64> {
        let known = *self.key.lock().unwrap_or_else(PoisonError::into_inner);
        known.filter(|known| known.open == open).map(|it| it.key)
    }

    fn find(&self, connection: &Database, open: u64) -> Result<i64, Fault> {
        if let Some(key) = self.known(open) {
            return Ok(key);
        }
        let Some(key) = Self::select(connection, &self.name)? else {
            return Ok(NO_TENANT);
        };
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(CachedTenantKey { open, key });
        Ok(key)
    }

    /// Does not cache the key, because the transaction may still be rolled
    /// back.
    fn find_or_add(&self, connection: &Database, open: u64) -> Result<i64, Fault> {
        if let Some(key) = self.known(open) {
            return Ok(key);
        }
        if let Some(key) = Self::select(connection, &self.name)? {
            return Ok(key);
        }
        connection
            .prepare_cached("INSERT INTO tenants (name) VALUES (?1)")?
            .execute([&self.name])?;
        Ok(connection.last_insert_rowid())
    }

    fn select(connection: &Database, name: &str) -> Result<Option<i64>, Fault> {
        let mut select = connection.prepare_cached("SELECT key FROM tenants WHERE name = ?1")?;
        Ok(select.query_row([name], |row| row.get(0)).optional()?)
    }
}

#[cfg(test)]
mod tests {
    use contexture_store::{Ledger, NewSession, Sample, Samples, Tenants};

    use super::*;

    /// Writes the row of a session.
    fn create(db: &Database, tenant: i64, label: &str) -> Result<(), Fault> {
        let insert = "INSERT INTO sessions (tenant, label, moves, status, created_at, updated_at)
            VALUES (?1, ?2, 0, 'active', 0, 0)";
        db.execute(insert, (tenant, label))?;
        Ok(())
    }

    fn session(label: &str) -> NewSession {
        NewSession {
            label: label.to_owned(),
            ..NewSession::default()
        }
    }

    #[test]
    fn the_store_survives_a_panic_of_its_writer() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        store.create_session(&session("before"), now).unwrap();
        let work = |db: &Database, tenant: i64| -> Result<(), Fault> {
            create(db, tenant, "half")?;
            panic!("on purpose")
        };
        let failed = store.backend().write_rows(work).unwrap_err();
        assert!(failed.to_string().contains("has stopped"), "{failed}");
        store.ping().unwrap();
        store.create_session(&session("after"), now).unwrap();
        let labels: Vec<String> = store
            .sessions(None, 10)
            .unwrap()
            .into_iter()
            .map(|session| session.label)
            .collect();
        assert_eq!(labels, ["after", "before"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_commit_to_a_deleted_file_fails() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let away = directory.path().join("away.db");
        let store = SqliteStore::open(&path).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        store.create_session(&session("before"), now).unwrap();
        let (from, to) = (path.clone(), away.clone());
        let moves = move |db: &Database, tenant: i64| {
            create(db, tenant, "half")?;
            std::fs::rename(from, to).unwrap();
            Ok(())
        };
        let gone = store.backend().write_rows(moves).unwrap_err();
        assert!(matches!(gone, StoreError::Unavailable { .. }), "{gone}");
        std::fs::rename(&away, &path).unwrap();
        store.create_session(&session("after"), now).unwrap();
        // The bytes include the log.
        let log = directory.path().join("store.db-wal");
        let removes = move |db: &Database, tenant: i64| {
            create(db, tenant, "half again")?;
            std::fs::remove_file(log).unwrap();
            Ok(())
        };
        let gone = store.backend().write_rows(removes).unwrap_err();
        assert!(matches!(gone, StoreError::Unavailable { .. }), "{gone}");
        assert!(store.session("before").is_ok() && store.session("after").is_ok());
        store.ping().unwrap();
    }

    #[test]
    fn a_failed_transaction_does_not_affect_others() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
        std::thread::scope(|scope| {
            // While the first write runs, the others queue, and share the next
            // transaction.
            scope.spawn(|| {
                store.backend().write_rows(|_, _| {
                    std::thread::sleep(Duration::from_millis(100));
                    Ok(())
                })
            });
            for i in 0..20 {
                let store = &store;
                scope.spawn(move || {
                    let label = format!("{i:02}");
                    let outcome = store.backend().write_rows(move |db, tenant| {
                        create(db, tenant, &label)?;
                        match i % 2 {
                            0 => Ok(()),
                            _ => Err(contexture_sql::Fault::not_found("reason", "why").into()),
                        }
                    });
                    assert_eq!(outcome.is_ok(), i % 2 == 0);
                });
            }
        });
        let made = store.sessions(None, 100).unwrap();
        assert_eq!(made.len(), 10);
        assert!(
            made.iter()
                .all(|made| made.label.parse::<u32>().unwrap() % 2 == 0)
        );
    }

    #[test]
    fn only_the_latest_samples_are_stored() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
        let sample = |n| Sample {
            counted: n,
            actual: n,
        };
        store.put_sample("other", "words", sample(7)).unwrap();
        let fill = |db: &Database, tenant| {
            let insert = "INSERT INTO samples (tenant, model, counter, counted, actual)
                SELECT ?1, 'm', 'words', value, value FROM
                (WITH n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 1200)
                 SELECT value FROM n)";
            Ok(db.execute(insert, [tenant])?)
        };
        store.backend().write_rows(fill).unwrap();
        store.put_sample("m", "words", sample(1201)).unwrap();
        let kept = store.samples("m", "words", usize::MAX).unwrap();
        let newest: Vec<Sample> = (202..=1201).rev().map(sample).collect();
        assert_eq!(kept, newest);
        assert_eq!(store.samples("other", "words", 9).unwrap(), [sample(7)]);
    }
}
