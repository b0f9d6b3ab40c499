//! The store of Contexture that several servers share, on PostgreSQL.
//!
//! ```no_run
//! use contexture_postgres::PostgresStore;
//! use contexture_store::{Ledger, NewSession};
//!
//! let store = PostgresStore::open("postgres://contexture@localhost/contexture")?;
//! let new = NewSession { label: "main".to_owned(), ..NewSession::default() };
//! let session = store.create_session(&new, "2026-02-02T10:00:00Z".parse()?)?;
//! assert_eq!(session.turns, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All tenants are in one schema of one database. The store creates the schema
//! when it is opened, migrates an older version, and rejects a newer one.
//!
//! Several servers may use one database. Each write begins with a lock on the row
//! of its tenant, which is held until the commit. The writes of a tenant therefore
//! run one after the other on all servers, and the numbers of changes are in the
//! order of commits. Waiting writes of a tenant share a transaction, and so do
//! concurrent turns of several tenants. A read sees the state at its start. All
//! times come from the callers.
//!
//! An acknowledged write was committed with the `synchronous_commit` setting of
//! the database. Snapshots of requests are the exception: they are visible to
//! all servers at once, but the store does not wait for the disk. When the
//! connection is lost during the commit of a turn, the store looks for the turn
//! for up to 10 seconds. The error of other writes, or if the database does not
//! answer, is [`StoreError::UnknownOutcome`].
//!
//! On a direct connection, statements are prepared once and settings are sent
//! once. A pooler is recognised by its process number, which differs from the
//! server's. With a pooler, statements have no names and a transaction leaves no
//! state in the session, so that PgBouncer can run in transaction mode. No
//! extension is needed.
//!
//! PostgreSQL keeps deleted data in its files until VACUUM has run, and in its
//! write-ahead log and backups as long as those exist. Deletions are therefore
//! reported as pending.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use contexture_sql::{
    Announcer, Answers, Backend, Connection, Fault, NO_TENANT, Reading, Recording, SqlStore, Value,
};
use contexture_store::{EventHint, Recorded, StoreError, StoreStats, Usage, Waited, Watch};

use crate::error::{PgError, explain};
use crate::group::Group;
use crate::hints::Hints;
use crate::link::{Link, Ticket};
use crate::place::DatabaseLocation;
use crate::pool::{Lease, Pool};
use crate::queue::{Job, Queue};

mod driver;
mod encode;
mod error;
mod group;
mod hints;
mod link;
mod merge;
mod place;
mod pool;
mod queue;
mod record;
mod remove;
mod rows;
mod schema;
mod text;
mod tls;
mod wire;

/// A store in PostgreSQL for one tenant. Clones share all state.
///
/// [`open`](SqlStore::open) takes a URL,
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. The URL accepts the `libpq`
/// parameters of `tokio-postgres`, such as `target_session_attrs`. It also
/// accepts `schema` (default: `contexture`), `sslmode` (`disable` or
/// `verify-full`) and `sslrootcert`. TLS is the default for other machines.
pub type PostgresStore = SqlStore<PostgresBackend>;

/// The options for opening a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The size limit of a message or a tree node, in bytes.
    pub max_message_bytes: u64,
    /// The maximum number of connections to the database.
    pub pool_size: usize,
    /// How long a call waits for a free connection.
    pub pool_timeout: Duration,
    /// How long to wait for a new connection.
    pub connect_timeout: Duration,
    /// The maximum duration of a statement.
    pub statement_timeout: Duration,
    /// How long a write waits for another server that writes for the same
    /// tenant.
    pub lock_timeout: Duration,
    /// The URL that creates and migrates the tables, if that needs another role
    /// or must not use a pooler.
    pub migration_url: Option<String>,
    /// A file with trusted root certificates. It replaces the list that
    /// browsers trust.
    pub tls_root_certificates: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_message_bytes: 16 << 20,
            pool_size: 16,
            pool_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(10),
            migration_url: None,
            tls_root_certificates: None,
        }
    }
}

/// A database, for one tenant.
#[derive(Clone)]
pub struct PostgresBackend {
    database: Arc<Database>,
    tenant: Arc<Tenant>,
    // True if writes change the tenant's own data.
    own: bool,
}

struct Database {
    place: DatabaseLocation,
    options: Options,
    pool: Pool,
    tenants: Mutex<HashMap<Arc<str>, Weak<Tenant>>>,
    watch: OnceLock<Watch>,
    hints: OnceLock<Hints>,
    recordings: Group<Box<Recording>, Recorded>,
    readings: Group<Reading, Answers>,
}

/// The statement that begins each transaction.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
// Without READ WRITE, a standby refuses the first write as read-only; with it, the beginning
// fails as not supported.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Locks the tenant with this name until the commit. Unlike FOR UPDATE, this lock
/// does not wait for references to the row.
const LOCK: &str = "SELECT key, has_data FROM tenants WHERE name = $1 FOR NO KEY UPDATE";

/// Locks a tenant like [`LOCK`]. The commit then does not wait for the disk.
const LOCK_WITHOUT_DISK: &str =
    "SELECT key, has_data, set_config('synchronous_commit', 'off', true)
    FROM tenants WHERE name = $1 FOR NO KEY UPDATE";

struct Tenant {
    name: Arc<str>,
    // Set after the first commit. The key of a tenant never changes.
    key: OnceLock<i64>,
    queue: Arc<Queue>,
}

impl<'u, U: AsRef<str> + ?Sized> contexture_sql::Open<&'u U> for PostgresBackend {
    type Options = Options;

    fn open(url: &'u U, options: Options) -> Result<Self, StoreError> {
        Self::open_url(url.as_ref(), options, false)
    }

    fn open_read_only(url: &'u U) -> Result<Self, StoreError> {
        Self::open_url(url.as_ref(), Options::default(), true)
    }
}

/// Returns the address in a URL, without its password.
pub fn address(url: &str) -> String {
    match DatabaseLocation::parse(url, &Options::default()) {
        Ok(place) => place.address,
        Err(_) => "postgres://…".to_owned(),
    }
}

impl PostgresBackend {
    fn open_url(url: &str, options: Options, read_only: bool) -> Result<Self, StoreError> {
        let place = DatabaseLocation::parse(url, &options)?;
        let database = Arc::new(Database::new(place, options));
        let mut lease = database.pool.take()?;
        let place = &database.place;
        schema::prepare(place, lease.link(), || {
            if read_only {
                return Err(StoreError::ReadOnly {
                    store: place.address.clone(),
                });
            }
            let migrating = match &database.options.migration_url {
                Some(url) => DatabaseLocation {
                    schema: place.schema.clone(),
                    ..DatabaseLocation::parse(url, &database.options)?
                },
                None => place.clone(),
            };
            Link::open(&migrating).map_err(|error| error.at(&migrating.address))
        })?;
        lease.give_back();
        Ok(Self {
            tenant: database.tenant(""),
            database,
            own: true,
        })
    }

    /// Returns the number of connections in use.
    pub fn connections_in_use(&self) -> usize {
        self.database.pool.in_use()
    }

    /// Returns the number of round trips to the database.
    pub fn round_trips(&self) -> u64 {
        self.database.place.round_trips.load(Ordering::Relaxed)
    }

    fn waited(&self, what: Waited, since: Instant) {
        if let Some(watch) = self.database.watch.get() {
            watch(what, since.elapsed());
        }
    }

    fn write_soon<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
        durable: bool,
    ) -> Result<T, StoreError> {
        let since = Instant::now();
        let (database, tenant) = (&self.database, &self.tenant);
        let run = |batch| database.run(tenant, batch);
        let done = tenant.queue.write(write, durable, self.own, run);
        self.waited(Waited::Write, since);
        done
    }

    /// Returns the rows of the list of tenants that a condition selects.
    fn tenants_with(&self, condition: &str) -> Result<Vec<String>, StoreError> {
        let sql = format!("SELECT name FROM tenants WHERE {condition} ORDER BY name");
        self.read(|db, _| {
            let mut select = db.prepare_cached(&sql)?;
            let names = select.query_map((), |row| row.get(0))?;
            Ok(names.collect::<Result<_, _>>()?)
        })
    }
}

impl Database {
    fn new(place: DatabaseLocation, options: Options) -> Self {
        Self {
            pool: Pool::new(place.clone(), options.pool_size, options.pool_timeout),
            place,
            options,
            tenants: Mutex::default(),
            watch: OnceLock::new(),
            hints: OnceLock::new(),
            recordings: Group::new(true),
            readings: Group::new(false),
        }
    }

    fn tenant(&self, name: &str) -> Arc<Tenant> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = tenants.get(name).and_then(Weak::upgrade) {
            return tenant;
        }
        tenants.retain(|_, tenant| tenant.strong_count() > 0);
        let tenant = Arc::new(Tenant {
            name: name.into(),
            key: OnceLock::new(),
            queue: Arc::default(),
        });
        tenants.insert(Arc::clone(&tenant.name), Arc::downgrade(&tenant));
        tenant
    }

    /// Begins a transaction that has the tenant's lock.
    ///
    /// For a single job of a tenant with a known key, it does not wait: the
    /// server acquires the lock before it runs the job's first statement.
    fn begin(
        &self,
        link: &mut Link,
        tenant: &Tenant,
        jobs: &[Box<dyn Job>],
    ) -> Result<Begun, PgError> {
        link.begin(BEGIN_WRITE, &self.place);
        let name = [Value::Text((&*tenant.name).into())];
        let lock = match jobs.iter().any(|job| job.is_durable()) {
            true => LOCK,
            false => LOCK_WITHOUT_DISK,
        };
        if let (Some(&key), [_]) = (tenant.key.get(), jobs) {
            let row = link.send_query(lock, &name);
            return Ok(Begun {
                key,
                row: Some(row),
                has_data: None,
            });
        }
        let mut rows = link.query(lock, &name)?;
        if rows.len() == 0 {
            // Another server may add the row at the same time. This statement
            // then waits for it, and gets the lock.
            let add = "INSERT INTO tenants (name) VALUES ($1)
                ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING key, has_data";
            rows = link.query(add, &name)?;
        }
        Ok(Begun {
            key: rows.integer(0, 0).ok_or_else(missing_tenant)?,
            row: None,
            has_data: Some(rows.integer(0, 1) == Some(1)),
        })
    }

    /// Runs jobs in one transaction, commits, and answers them.
    fn run(&self, tenant: &Tenant, mut jobs: Vec<Box<dyn Job>>) {
        let failure = self.transact(tenant, &mut jobs).err();
        for job in jobs {
            job.answer(failure.as_ref());
        }
    }

    /// Fails with the error that concerns all jobs.
    fn transact(&self, tenant: &Tenant, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        let address = &self.place.address;
        let mut lease = self.pool.take()?;
        let mut begun = self.begin(lease.link(), tenant, jobs);
        if begun.as_ref().is_err_and(PgError::ends_connection) {
            // The connection was closed just now, and the transaction did
            // nothing.
            drop(lease);
            lease = self.pool.connect()?;
            begun = self.begin(lease.link(), tenant, jobs);
        }
        let mut begun = match begun {
            Ok(begun) => begun,
            Err(error) => {
                lease.finish(Some(&error));
                return Err(error.at(address));
            }
        };
        let alone = jobs.len() == 1;
        let key = begun.key;
        let mut has_data = None;
        let mut kept = false;
        for job in jobs.iter_mut() {
            if !alone {
                lease.link().send("SAVEPOINT job");
            }
            let keep = run_job(&mut **job, &lease, key, address);
            let link = lease.link();
            // Statements that were sent without waiting may have failed, too.
            // With a single job, the commit reports that.
            let synced = match keep && alone {
                true => Ok(()),
                false => link.sync(),
            };
            let keep = match synced {
                Ok(()) => keep,
                Err(error) => {
                    if keep {
                        job.fail(error.at(address));
                    }
                    false
                }
            };
            if !link.is_alive() {
                let lost = link.end();
                return Err(lost.at(address));
            }
            if keep && !job.is_own() {
                // The job may be the removal of the data.
                has_data = Some(false);
            } else if keep {
                let known = match has_data {
                    None => begun.has_data(link).map_err(|error| error.at(address))?,
                    known => known,
                };
                if known != Some(true) {
                    link.send_statement(HAS_DATA, &[Value::Integer(key)]);
                }
                has_data = Some(true);
            }
            match (keep, alone) {
                (_, true) => {}
                (true, false) => link.send("RELEASE job"),
                (false, false) => {
                    link.send("ROLLBACK TO job");
                    link.send("RELEASE job");
                }
            }
            kept |= keep;
        }
        if !kept {
            lease.finish(None);
            return Ok(());
        }
        match lease.link().commit() {
            Ok(()) => {
                let link = lease.link();
                begun.has_data(link).map_err(|error| error.at(address))?;
                let _ = tenant.key.set(key);
                lease.give_back();
                Ok(())
            }
            Err(error) if error.ends_connection() => Err(StoreError::UnknownOutcome {
                store: address.clone(),
                message: error.to_string(),
            }),
            Err(error) => {
                lease.finish(Some(&error));
                Err(error.at(address))
            }
        }
    }
}

/// Marks that the tenant with this key has data.
const HAS_DATA: &str = "UPDATE tenants SET has_data = 1 WHERE key = $1 AND has_data = 0";

/// A transaction that has the lock of a tenant, or that will get it with its
/// first response.
struct Begun {
    key: i64,
    // The tenant's row, which arrives with the first response.
    row: Option<Ticket>,
    has_data: Option<bool>,
}

impl Begun {
    /// Returns whether the tenant had data, or `None` if the row has not
    /// arrived yet. Fails when the row has another key than before.
    fn has_data(&mut self, link: &mut Link) -> Result<Option<bool>, PgError> {
        if let Some(rows) = self.row.and_then(|ticket| link.take(ticket)) {
            self.row = None;
            if rows.integer(0, 0) != Some(self.key) {
                return Err(missing_tenant());
            }
            self.has_data = Some(rows.integer(0, 1) == Some(1));
        }
        Ok(self.has_data)
    }
}

/// Returns the number of standbys that a commit waits for, by the setting
/// `synchronous_standby_names`: `2 (a, b)`, `ANY 2 (a, b)`, or a list without a number,
/// of which the first is waited for.
fn standbys_of(setting: &str) -> u64 {
    let setting = setting.trim();
    let Some((before, _)) = setting.split_once('(') else {
        return u64::from(!setting.is_empty());
    };
    let number = before.split_whitespace().last();
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn missing_tenant() -> PgError {
    PgError::Io("the row of the tenant is missing".to_owned())
}

/// Runs a job. A panic fails only this job.
fn run_job(job: &mut dyn Job, lease: &Lease<'_>, key: i64, address: &str) -> bool {
    let run = || job.run(lease.connection(), key, address);
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(keep) => keep,
        Err(_) => {
            job.fail(StoreError::Backend {
                store: "postgres",
                source: format!("{address}: a write panicked").into(),
            });
            false
        }
    }
}

impl Backend for PostgresBackend {
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let since = Instant::now();
        let (database, tenant) = (&self.database, &self.tenant);
        let address = &database.place.address;
        let mut lease = database.pool.take()?;
        self.waited(Waited::Read, since);
        lease.link().begin(BEGIN_READ, &database.place);
        let key = match tenant.key.get() {
            Some(key) => *key,
            None => {
                let find = "SELECT key FROM tenants WHERE name = $1";
                let name = [Value::Text((&*tenant.name).into())];
                match lease.link().query(find, &name) {
                    Ok(rows) => match rows.integer(0, 0) {
                        Some(key) => *tenant.key.get_or_init(|| key),
                        None => NO_TENANT,
                    },
                    Err(error) => {
                        lease.finish(Some(&error));
                        return Err(error.at(address));
                    }
                }
            }
        };
        let result = read(lease.connection(), key);
        lease.finish(None);
        result.map_err(|fault| explain(fault, address))
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_soon(write, true)
    }

    /// Calls that read ahead at the same time share a transaction.
    fn read_ahead(&self, reading: Reading) -> Result<Answers, StoreError> {
        let database = &self.database;
        let reading = match self.tenant.key.get() {
            Some(&key) => {
                let run = |batch: &mut [_]| database.read_ahead_all(batch);
                match database.readings.call(key, reading, run) {
                    Ok(answers) => return answers,
                    Err(reading) => reading,
                }
            }
            None => reading,
        };
        self.read(move |db, tenant| reading.run(db, tenant))
    }

    /// Turns that are recorded at the same time share a transaction, also turns
    /// of several tenants.
    fn record(&self, recording: Recording) -> Result<Recorded, StoreError> {
        let since = Instant::now();
        let database = &self.database;
        let recording = match self.tenant.key.get() {
            Some(&key) => {
                let run = |batch: &mut [_]| database.record_all(batch);
                match database.recordings.call(key, Box::new(recording), run) {
                    Ok(answer) => {
                        self.waited(Waited::Write, since);
                        return answer;
                    }
                    Err(recording) => *recording,
                }
            }
            None => recording,
        };
        self.write_soon(move |db, tenant| recording.run(db, tenant), true)
    }

    /// Deleted data is in the database's files until VACUUM has run.
    fn write_and_clean<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<(T, bool), StoreError> {
        self.write_soon(write, true).map(|done| (done, false))
    }

    /// The write is committed on return, so that other servers see it. The
    /// commit does not wait for the disk.
    fn write_later(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<(), Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        done(self.write_soon(write, false));
    }

    fn settle(&self) {}

    fn for_tenant(&self, tenant: &str) -> Self {
        Self {
            database: Arc::clone(&self.database),
            tenant: self.database.tenant(tenant),
            own: true,
        }
    }

    fn shared(&self, tenant: &str) -> Self {
        Self {
            own: false,
            ..self.for_tenant(tenant)
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn explain(&self, fault: Fault) -> StoreError {
        explain(fault, &self.database.place.address)
    }

    fn max_message_bytes(&self) -> u64 {
        self.database.options.max_message_bytes
    }

    fn address(&self) -> String {
        self.database.place.address.clone()
    }

    fn tenant_name(&self) -> &str {
        &self.tenant.name
    }

    fn has_data(&self) -> Result<bool, StoreError> {
        self.read(|db, tenant| {
            let mut select =
                db.prepare_cached("SELECT 1 FROM tenants WHERE key = ?1 AND has_data = 1")?;
            Ok(select.exists([tenant])?)
        })
    }

    /// The size is that of the content, without indexes and without
    /// PostgreSQL's overhead per row.
    fn measure(&self, usage: Usage) -> Result<Usage, StoreError> {
        let bytes = self.read(|db, tenant| {
            let mut bytes = 0;
            for sql in [
                "SELECT coalesce(sum(bytes), 0)::bigint FROM turns WHERE tenant = ?1",
                "SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM blobs WHERE tenant = ?1",
                "SELECT coalesce(sum(octet_length(b.body)), 0)::bigint FROM memories m
                 JOIN memory_bodies b ON b.record = m.key WHERE m.tenant = ?1",
                "SELECT coalesce(sum(bytes), 0)::bigint FROM nodes WHERE tenant = ?1",
                "SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM files WHERE tenant = ?1",
                "SELECT coalesce(sum(octet_length(answer)), 0)::bigint FROM done_calls
                 WHERE tenant = ?1",
            ] {
                bytes += db.query_row(sql, [tenant], |row| row.get::<i64>(0))?;
            }
            Ok(bytes)
        })?;
        Ok(Usage {
            bytes: bytes.unsigned_abs(),
            ..usage
        })
    }

    fn tenant_names(&self) -> Result<Vec<String>, StoreError> {
        let mut names = vec![String::new()];
        names.extend(self.tenants_with("has_data = 1 AND name <> ''")?);
        Ok(names)
    }

    fn remove_tenant(&self, name: &str) -> Result<(), StoreError> {
        self.shared(name).write(remove::remove)
    }

    fn probe(&self) -> Result<(), StoreError> {
        let address = &self.database.place.address;
        let mut lease = self.database.pool.take()?;
        let link = lease.link();
        link.begin(BEGIN_WRITE, &self.database.place);
        link.send("UPDATE contexture_meta SET version = version");
        match link.query("ROLLBACK", &[]) {
            Ok(_) => {
                lease.give_back();
                Ok(())
            }
            Err(error) => {
                lease.finish(Some(&error));
                Err(error.at(address))
            }
        }
    }

    fn announcer(&self) -> Option<Announcer> {
        let (database, tenant) = (Arc::clone(&self.database), self.tenant.clone());
        Some(Box::new(move || {
            if let Some(hints) = database.hints.get() {
                hints.send(&tenant.name);
            }
        }))
    }

    fn on_event(&self, woken: EventHint) {
        let database = &self.database;
        let direct = match &database.options.migration_url {
            Some(url) => {
                DatabaseLocation::parse(url, &database.options).map(|place| DatabaseLocation {
                    schema: database.place.schema.clone(),
                    ..place
                })
            }
            None => Ok(database.place.clone()),
        };
        // The URL is valid: the check of the schema has used it.
        if let Ok(direct) = direct {
            (database.hints).get_or_init(|| Hints::start(direct, woken));
        }
    }

    fn watch(&self, watch: Watch) {
        let _ = self.database.watch.set(watch);
    }

    /// The size is that of all tables with their indexes, for all tenants.
    fn stats(&self) -> Result<StoreStats, StoreError> {
        // The pool is read before this call uses a connection for the size.
        let stats = self.database.pool.stats();
        let (bytes, standbys, waits, deletions) = self.shared("").read(|db, _| {
            let sql = "SELECT (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
                    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = current_schema() AND c.relkind = 'r'),
                current_setting('synchronous_standby_names'),
                current_setting('synchronous_commit') IN ('on', 'remote_apply'),
                (SELECT count(*) FROM pending_deletions)";
            Ok(db.query_row(sql, (), |row| {
                Ok((
                    row.get::<i64>(0)?,
                    row.get::<String>(1)?,
                    row.get::<bool>(2)?,
                    row.get::<i64>(3)?,
                ))
            })?)
        })?;
        Ok(StoreStats {
            bytes: Some(bytes.unsigned_abs()),
            pending_deletions: Some(deletions.unsigned_abs()),
            synchronous_standbys: Some(match waits {
                true => standbys_of(&standbys),
                false => 0,
            }),
            round_trips: Some(self.round_trips()),
            ..stats
        })
    }

    fn incarnation(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn standbys_are_counted() {
        for (setting, count) in [
            ("", 0),
            ("*", 1),
            ("a, b", 1),
            ("2 (a, b, c)", 2),
            ("FIRST 3(a, b, c)", 3),
            ("any 2 (*)", 2),
        ] {
            assert_eq!(super::standbys_of(setting), count, "{setting}");
        }
    }
}
