//! Finds and opens the store.
//!
//! This is the only module that names a store implementation; everything else
//! uses the traits of `contexture-store`.

use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contexture::config::Config;
use contexture::core::guard::MarkKey;
use contexture::store::{Store, StoreError, Tenants, TreeInfo};
use contexture::trust::{Settings, TrustFile};
use contexture::{Engine, Error, Root, Timestamp};
use contexture_postgres::PostgresStore;
use contexture_server::BackUp;
use contexture_sqlite::{Backup, Options, SqliteStore};

use crate::args::StoreOptions;
use crate::output;

/// The location of a store, which may not exist yet.
pub(crate) enum StoreLocation {
    /// A file of SQLite.
    File {
        path: PathBuf,
        // Whether it is the default path, which gets a `.gitignore`.
        usual: bool,
        options: Options,
    },
    /// A PostgreSQL database.
    Postgres {
        url: String,
        options: contexture_postgres::Options,
    },
}

/// Returns the location of the store: that of `url`, else the configured one,
/// else the default path below the root.
pub(crate) fn find(
    root: &Root,
    config: &Config,
    url: Option<&str>,
) -> anyhow::Result<StoreLocation> {
    let configured = config.store.url.as_deref();
    if let Some(url) = url.or(configured)
        && is_postgres(url)
    {
        let (url, options) = (url.to_owned(), postgres_options(root, config));
        return Ok(StoreLocation::Postgres { url, options });
    }
    let path = match (url, configured) {
        // A path on the command line is relative to the current directory.
        (Some(url), _) => Some(named(Path::new(""), "--db", url)?),
        (None, Some(url)) => Some(named(root.path(), "store.url in contexture.toml", url)?),
        (None, None) => None,
    };
    let usual = path.is_none();
    let path = path.unwrap_or_else(|| root.path().join(USUAL));
    if url.is_none() {
        check_links(root, &path, usual)?;
    }
    let options = Options {
        max_message_bytes: config.limits.max_message_bytes,
        ..Options::default()
    };
    Ok(StoreLocation::File {
        path,
        usual,
        options,
    })
}

/// The default path of the store, below the root.
const USUAL: &str = ".contexture/contexture.db";

/// Fails if a file of the store is outside the root because of a symbolic link:
/// a cloned project could contain the link, and no one chose that file.
///
/// A `store.url` that leads out is active only if the user trusted it, so only
/// the default path and the files next to the database are checked.
fn check_links(root: &Root, path: &Path, usual: bool) -> Result<(), Error> {
    let link_to = |path: &Path| {
        let below = path.strip_prefix(root.path()).ok()?;
        let leaves = below.components().any(|part| part == Component::ParentDir);
        (!leaves).then(|| root.link_out(below))?
    };
    let link = match link_to(path) {
        Some(_) if !usual => return Ok(()),
        Some(link) => Some(link),
        None => {
            let of_tenants = std::fs::read_dir(contexture_sqlite::tenants_directory(path));
            let of_tenants = of_tenants.into_iter().flatten().flatten();
            let is_link = |file: &std::fs::DirEntry| file.file_type().is_ok_and(|t| t.is_symlink());
            let of_tenants = of_tenants.filter(is_link).map(|file| file.path());
            let mut files = files_of(path).into_iter().chain(of_tenants);
            files.find_map(|file| link_to(&file))
        }
    };
    let Some(link) = link else {
        return Ok(());
    };
    let message = format!(
        "the store is not opened: {} is a symbolic link that leads out of the root",
        output::visible(&root.path().join(link).display().to_string())
    );
    Err(Error::input(message).advise(
        "if you made the link, name the store yourself with --db sqlite:PATH or CONTEXTURE_DB; \
         otherwise remove the link",
    ))
}

fn is_postgres(url: &str) -> bool {
    matches!(url.split_once("://"), Some(("postgres" | "postgresql", _)))
}

fn postgres_options(root: &Root, config: &Config) -> contexture_postgres::Options {
    let store = &config.store;
    let certificates = store.tls_root_certificates.as_ref();
    contexture_postgres::Options {
        max_message_bytes: config.limits.max_message_bytes,
        pool_size: store.pool_size,
        pool_timeout: Duration::from_millis(store.pool_timeout_ms),
        statement_timeout: Duration::from_millis(store.statement_timeout_ms),
        lock_timeout: Duration::from_millis(store.lock_timeout_ms),
        migration_url: store.migration_url.clone(),
        tls_root_certificates: certificates.map(|path| root.path().join(path)),
        ..contexture_postgres::Options::default()
    }
}

impl StoreLocation {
    /// Returns the path of the file, or the address of the database without its
    /// password.
    pub(crate) fn address(&self) -> String {
        match self {
            StoreLocation::File { path, .. } => path.display().to_string(),
            StoreLocation::Postgres { url, .. } => contexture_postgres::address(url),
        }
    }

    /// Returns the file of the store, if it has one.
    fn file(&self) -> Option<&Path> {
        match self {
            StoreLocation::File { path, .. } => Some(path),
            StoreLocation::Postgres { .. } => None,
        }
    }

    /// Returns true if the store exists. A PostgreSQL store is created when it
    /// is opened.
    pub(crate) fn exists(&self) -> bool {
        self.file()
            .is_none_or(|path| path.symlink_metadata().is_ok())
    }

    /// Opens the store, and creates it if it does not exist.
    pub(crate) fn open(self) -> Result<Arc<dyn Store>, Error> {
        match self {
            StoreLocation::Postgres { url, options } => {
                Ok(Arc::new(PostgresStore::open_with(&url, options)?))
            }
            StoreLocation::File {
                path,
                usual,
                options,
            } => Ok(Arc::new(open_file(&path, usual, options)?)),
        }
    }

    /// Opens the store with all its tenants, and creates it if it does not
    /// exist.
    pub(crate) fn open_tenants(self) -> Result<Box<dyn Tenants>, Error> {
        match self {
            StoreLocation::Postgres { url, options } => {
                Ok(Box::new(PostgresStore::open_with(&url, options)?))
            }
            StoreLocation::File {
                path,
                usual,
                options,
            } => Ok(Box::new(open_file(&path, usual, options)?)),
        }
    }
}

fn open_file(path: &Path, usual: bool, options: Options) -> Result<SqliteStore, Error> {
    let store = SqliteStore::open_with(path, options)?;
    if let (true, Some(dir)) = (usual, path.parent()) {
        // An existing one is kept, and a link is not followed. Failing to write
        // it is harmless.
        let note = std::fs::File::create_new(dir.join(".gitignore"));
        let _ = note.and_then(|mut note| note.write_all(b"*\n"));
    }
    Ok(store)
}

/// Returns all trees of a store.
pub(crate) fn trees(store: &dyn Store) -> Result<Vec<TreeInfo>, Error> {
    const AT_ONCE: usize = 500;
    let mut trees: Vec<TreeInfo> = Vec::new();
    loop {
        let after = trees.last().map(|info| info.tree.id.clone());
        let more = store.trees(after.as_deref(), AT_ONCE)?;
        let done = more.len() < AT_ONCE;
        trees.extend(more);
        if done {
            return Ok(trees);
        }
    }
}

fn named(base: &Path, setting: &str, url: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            let none = format!("{setting}: `sqlite:` has no path; write sqlite:PATH");
            return Err(output::Usage(none).into());
        }
        return Ok(base.join(path));
    }
    let wrong = match url.split_once(':') {
        // The rest of it may hold a password.
        Some((scheme @ ("postgres" | "postgresql"), _)) => {
            format!("write {scheme}://USER@HOST/DATABASE")
        }
        Some((scheme, _)) if is_plain(scheme) => {
            format!("unknown store type {scheme}; use sqlite:PATH or postgres://USER@HOST/DATABASE")
        }
        None if is_plain(url) => {
            format!("`{url}` is not a store; use sqlite:PATH or postgres://USER@HOST/DATABASE")
        }
        // A connection string such as `host=… password=…`.
        _ => {
            "the value is not a store; use sqlite:PATH or postgres://USER@HOST/DATABASE".to_owned()
        }
    };
    Err(output::Usage(format!("{setting}: {wrong}")).into())
}

/// Returns true for a text that can be shown, because it is the name of a file
/// and has no place for a password.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "._-+/\\~".contains(c);
    text.chars().all(is_plain)
}

/// Returns an engine with the store of the options. With `make`, the store is
/// created if it does not exist.
pub(crate) fn engine(options: &StoreOptions, make: bool) -> anyhow::Result<Engine> {
    engine_with(options, make, "contexture session new LABEL")
}

/// Does the same as [`engine`]; `maker` is the command that creates the store,
/// for the error message.
pub(crate) fn engine_with(
    options: &StoreOptions,
    make: bool,
    maker: &str,
) -> anyhow::Result<Engine> {
    let (engine, place) = found(options, make, maker)?;
    Ok(engine.with_store(place.open()?))
}

/// Does the same as [`engine_with`], for a command that writes much at once.
pub(crate) fn bulk_engine(
    options: &StoreOptions,
    make: bool,
    maker: &str,
) -> anyhow::Result<Engine> {
    let (engine, mut place) = found(options, make, maker)?;
    if let StoreLocation::File { options, .. } = &mut place {
        options.bulk = true;
    }
    Ok(engine.with_store(place.open()?))
}

/// Returns the store that the options name, as all its tenants.
pub(crate) fn tenants(
    options: &StoreOptions,
    make: bool,
    maker: &str,
) -> anyhow::Result<Box<dyn Tenants>> {
    let (_, place) = found(options, make, maker)?;
    Ok(place.open_tenants()?)
}

/// Returns the store that the options name for a server, and how its backups are
/// made: those of a database are its own tools'.
pub(crate) fn for_server(
    options: &StoreOptions,
    make: bool,
) -> anyhow::Result<(Arc<dyn Tenants>, Option<BackUp>)> {
    let (_, place) = found(options, make, "contexture session new LABEL")?;
    match place {
        StoreLocation::File {
            path,
            usual,
            options,
        } => {
            let store = open_file(&path, usual, options)?;
            let of_backups = store.clone();
            let back_up: BackUp = Arc::new(move |target, now| {
                of_backups.backend().back_up(target, None, now).map(drop)
            });
            Ok((Arc::new(store), Some(back_up)))
        }
        StoreLocation::Postgres { .. } => Ok((place.open_tenants()?.into(), None)),
    }
}

/// Returns the address of the store of the options.
pub(crate) fn address(options: &StoreOptions) -> anyhow::Result<String> {
    Ok(location(options)?.address())
}

fn location(options: &StoreOptions) -> anyhow::Result<StoreLocation> {
    let root = Root::open(&options.root)?;
    let settings = Settings::read(&root, &TrustFile::of_user())?;
    find(&root, &settings.config, options.db.as_deref())
}

/// Returns the file of the store that the options name, for a command that works
/// on files.
fn path(options: &StoreOptions) -> anyhow::Result<PathBuf> {
    match location(options)? {
        StoreLocation::File { path, .. } => Ok(path),
        StoreLocation::Postgres { .. } => Err(only_files().into()),
    }
}

fn only_files() -> output::Usage {
    let message = "this command works on the files of SQLite; use the tools of PostgreSQL, such \
                   as pg_dump and pg_basebackup";
    output::Usage(message.to_owned())
}

/// Copies the store into a new directory.
pub(crate) fn back_up(
    options: &StoreOptions,
    target: &Path,
    tenant: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Backup> {
    let (_, place) = found(options, false, "contexture session new LABEL")?;
    let StoreLocation::File {
        path,
        usual,
        options,
    } = place
    else {
        return Err(only_files().into());
    };
    let store = open_file(&path, usual, options)?;
    Ok(store
        .backend()
        .back_up(target, tenant, now)
        .map_err(Error::from)?)
}

/// Checks a backup.
pub(crate) fn check_backup(backup: &Path) -> anyhow::Result<Backup> {
    Ok(contexture_sqlite::check_backup(backup).map_err(|error| backup_error(backup, error))?)
}

/// Returns the error about a backup. The backup is not the store, so the advice
/// for stores does not apply.
fn backup_error(backup: &Path, error: StoreError) -> Error {
    const ADVICE: &str = "name a directory that `contexture backup` created";
    let name = backup.display().to_string();
    match error {
        StoreError::NotAStore { store, .. } if store == name && !backup.exists() => {
            Error::input(format!("{name} does not exist")).advise(ADVICE)
        }
        StoreError::NotAStore { store, message } if store == name => {
            Error::input(format!("{name}: {message}")).advise(ADVICE)
        }
        other => Error::from(other),
    }
}

/// Replaces the store by a backup.
pub(crate) fn restore(
    options: &StoreOptions,
    backup: &Path,
    replace: bool,
) -> anyhow::Result<Backup> {
    let path = path(options)?;
    let restored =
        contexture_sqlite::restore(backup, &path, replace).map_err(|error| match error {
            StoreError::Exists { name, .. } => {
                Error::input(format!("there is a store at {name}; nothing was restored"))
                    .advise("stop everything that uses it, and repeat the command with --replace")
            }
            StoreError::Busy { store } => {
                Error::input(format!("a process is using {store}; nothing was restored"))
                    .because(contexture::Cause::Conflict)
                    .advise("stop the server, and repeat the command")
            }
            other => backup_error(backup, other),
        })?;
    Ok(restored)
}

/// Accepts lost transactions: the current content of the store counts as
/// complete.
pub(crate) fn accept_loss(options: &StoreOptions) -> anyhow::Result<()> {
    Ok(contexture_sqlite::accept_loss(&path(options)?).map_err(Error::from)?)
}

/// Returns the files and directories of a store, which no tenant can read.
pub(crate) fn private_files(options: &StoreOptions) -> anyhow::Result<Vec<PathBuf>> {
    Ok(match location(options)? {
        StoreLocation::File { path, .. } => files_of(&path),
        StoreLocation::Postgres { .. } => Vec::new(),
    })
}

fn files_of(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = [
        "",
        "-wal",
        "-shm",
        "-journal",
        "-seal",
        "-index",
        "-index-new",
    ]
    .iter()
    .map(|suffix| {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        file.into()
    })
    .collect();
    files.push(contexture_sqlite::tenants_directory(path));
    files
}

/// Returns the engine with the boundary marks from `CONTEXTURE_MARK_KEY`, so
/// that a request is the same on another machine.
pub(crate) fn marked(engine: Engine) -> Engine {
    match mark_key() {
        Some(key) => engine.with_mark_key(key),
        None => engine,
    }
}

/// Returns the key from `CONTEXTURE_MARK_KEY`. Returns `None` if it is not set.
pub(crate) fn mark_key() -> Option<MarkKey> {
    let key = std::env::var("CONTEXTURE_MARK_KEY").ok()?;
    (!key.is_empty()).then(|| MarkKey::from_text(&key))
}

/// Returns the engine of a root, and warns about its inactive settings.
pub(crate) fn engine_of(root: &Root) -> Result<Engine, Error> {
    root.remove_left_over();
    let engine = Engine::for_root(root)?;
    engine.settings_warnings().iter().for_each(output::warn);
    Ok(engine)
}

fn found(
    options: &StoreOptions,
    make: bool,
    maker: &str,
) -> anyhow::Result<(Engine, StoreLocation)> {
    let root = Root::open(&options.root)?;
    let engine = marked(engine_of(&root)?);
    let place = find(&root, engine.config(), options.db.as_deref())?;
    if !make && !place.exists() {
        let none = format!(
            "no store at {}; create one with `{maker}`, or set --root or --db",
            place.address()
        );
        return Err(output::Usage(none).into());
    }
    Ok((engine, place))
}
