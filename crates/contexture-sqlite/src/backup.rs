//! Backs up a store while it is in use, and restores it.
//!
//! A backup is a directory with the store's own file, those of its tenants, and
//! `manifest.json`, which has the size and the hash of each. Each file is a
//! consistent state of its tenant. Files of several tenants are copied one
//! after the other.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use contexture_core::ContentHash;
use contexture_store::{StoreError, Upkeep as _};
use jiff::Timestamp;
use rusqlite::OpenFlags;
use serde::{Deserialize, Serialize};

use crate::connect::{StoreLocation, make_directory, sync_directory};
use crate::error::Fault;
use crate::tenants::{INDEX, directory, file_name};
use crate::{Options, SqliteBackend, SqliteStore, schema, seal};

/// The name of the list of files.
const MANIFEST: &str = "manifest.json";

/// The name of the store's own file in a backup.
const MAIN: &str = "store.db";

/// The list of the files of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// The version of the backup format: 1.
    pub version: u32,
    /// The version of the database schema.
    pub schema: u32,
    /// The time of the backup.
    pub created_at: Timestamp,
    /// The files.
    pub files: Vec<BackedUpFile>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackedUpFile {
    /// The tenant whose data it holds; `""` is the default tenant.
    pub tenant: String,
    /// The name of the file in the backup.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The hash of the content.
    pub hash: ContentHash,
}

impl SqliteBackend {
    /// Copies the store, or only one tenant, into a new directory at `target`.
    /// The store can be used meanwhile.
    ///
    /// Fails if `target` exists. An incomplete copy is removed.
    pub fn back_up(
        &self,
        target: &Path,
        tenant: Option<&str>,
        now: Timestamp,
    ) -> Result<Backup, StoreError> {
        if target.symlink_metadata().is_ok() {
            return Err(StoreError::invalid(
                "",
                format!("{} exists; name a new directory", target.display()),
            ));
        }
        let made = self.write_backup(target, tenant, now);
        match &made {
            Err(_) => drop(fs::remove_dir_all(target)),
            Ok(_) if tenant.is_none() => self.note_backup(target.display().to_string(), now),
            Ok(_) => {}
        }
        made
    }

    fn write_backup(
        &self,
        target: &Path,
        tenant: Option<&str>,
        now: Timestamp,
    ) -> Result<Backup, StoreError> {
        let names = match tenant {
            Some(tenant) => vec![tenant.to_owned()],
            None => self.files.names()?,
        };
        make_directory(target).map_err(|error| failed(target, &error))?;
        let mut files = Vec::new();
        for tenant in names {
            let source = self.files.place_of(&tenant);
            let name = match tenant.as_str() {
                "" => MAIN.to_owned(),
                tenant => file_name(tenant),
            };
            let copy = target.join(&name);
            copy_database(&source, &copy)?;
            let (bytes, hash) = hash_file(&copy).map_err(|error| failed(&copy, &error))?;
            files.push(BackedUpFile {
                tenant,
                name,
                bytes,
                hash,
            });
        }
        let backup = Backup {
            version: 1,
            schema: schema::STEPS.len() as u32,
            created_at: now,
            files,
        };
        let manifest = target.join(MANIFEST);
        let text = serde_json::to_string_pretty(&backup).unwrap_or_default();
        let written = fs::write(&manifest, text + "\n").and_then(|()| {
            File::open(&manifest)?.sync_all()?;
            sync_directory(target)
        });
        written.map_err(|error| failed(&manifest, &error))?;
        Ok(backup)
    }
}

/// Verifies a backup: all files exist with their sizes and hashes, and their
/// content passes the checks of the store.
pub fn check_backup(backup: &Path) -> Result<Backup, StoreError> {
    let manifest = backup.join(MANIFEST);
    let wrong = |message: String| StoreError::NotAStore {
        store: backup.display().to_string(),
        message,
    };
    let text = fs::read_to_string(&manifest).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            wrong(format!("is not a backup: it has no {MANIFEST}"))
        }
        io::ErrorKind::InvalidData => wrong(format!("{MANIFEST} is not text")),
        _ => failed(&manifest, &error),
    })?;
    let listed: Backup = serde_json::from_str(&text).map_err(|error| {
        wrong(format!(
            "{MANIFEST} is not the manifest of a backup: {error}"
        ))
    })?;
    let known = schema::STEPS.len() as u32;
    if listed.version != 1 || listed.schema > known {
        return Err(StoreError::Newer {
            store: backup.display().to_string(),
            found: listed.schema,
            known,
        });
    }
    for file in &listed.files {
        let expected = match file.tenant.as_str() {
            "" => MAIN.to_owned(),
            tenant => file_name(tenant),
        };
        if file.name != expected {
            return Err(wrong(format!(
                "`{}` is not the name of a backed-up file",
                file.name
            )));
        }
        let path = backup.join(&file.name);
        let (bytes, hash) = hash_file(&path).map_err(|error| failed(&path, &error))?;
        if bytes != file.bytes {
            let expected = file.bytes;
            return Err(wrong(format!(
                "{} has {bytes} bytes instead of {expected}: it is truncated or was changed",
                file.name
            )));
        }
        if hash != file.hash {
            return Err(wrong(format!(
                "{} was changed: its hash differs",
                file.name
            )));
        }
    }
    if listed.files.is_empty() {
        return Err(wrong("the backup has no files".to_owned()));
    }
    Ok(listed)
}

/// Verifies a backup, and replaces the store at `path` with it. Tenants that
/// are not in the backup keep their data. With `replace`, existing files are
/// replaced; otherwise there must be none.
///
/// Fails with [`StoreError::Busy`] when another process has a file open that
/// would be replaced.
pub fn restore(backup: &Path, path: &Path, replace: bool) -> Result<Backup, StoreError> {
    let listed = check_backup(backup)?;
    let mut copies = Copies::default();
    for file in &listed.files {
        let target = match file.tenant.as_str() {
            "" => path.to_owned(),
            tenant => directory(path).join(file_name(tenant)),
        };
        if target.exists() && !replace {
            return Err(StoreError::Exists {
                what: "store",
                name: target.display().to_string(),
            });
        }
        if target.exists() && (is_open_elsewhere(&target) || seal::is_locked(&target)) {
            return Err(StoreError::Busy {
                store: target.display().to_string(),
            });
        }
        let above = target.parent().unwrap_or(Path::new("."));
        make_directory(above).map_err(|error| failed(above, &error))?;
        let new = with_suffix(&target, ".restored");
        copies.0.push((new.clone(), target));
        fs::copy(backup.join(&file.name), &new)
            .and_then(|_| make_private(&new))
            .and_then(|()| File::open(&new)?.sync_all())
            .map_err(|error| failed(&new, &error))?;
        check_content(&new, &file.tenant)?;
    }
    // From here on, files are only renamed.
    for (new, target) in &copies.0 {
        for suffix in ["-wal", "-shm", "-journal", "-seal", INDEX] {
            let with_suffix = with_suffix(target, suffix);
            match fs::remove_file(&with_suffix) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&with_suffix, &error));
                }
                _ => {}
            }
        }
        let above = target.parent().unwrap_or(Path::new("."));
        fs::rename(new, target)
            .and_then(|()| sync_directory(above))
            .map_err(|error| failed(target, &error))?;
    }
    Ok(listed)
}

/// The copies of a restore, each with the path that it will have. Copies that
/// were not moved there are removed when this is dropped.
#[derive(Default)]
struct Copies(Vec<(PathBuf, PathBuf)>);

impl Drop for Copies {
    fn drop(&mut self) {
        for (new, _) in &self.0 {
            for suffix in ["", "-wal", "-shm", "-seal"] {
                let _ = fs::remove_file(with_suffix(new, suffix));
            }
        }
    }
}

/// Returns `path` with `suffix` at the end of its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns true if another process has a database open. Every connection that
/// has read holds a shared lock, so that an exclusive lock fails while there is
/// one. A damaged database counts as not in use.
fn is_open_elsewhere(path: &Path) -> bool {
    let place = StoreLocation::new(path, Options::default(), false);
    let alone = || -> Result<(), Fault> {
        let used = place.begin_use()?;
        let db = place.connect_unread(used.id(), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.busy_timeout(std::time::Duration::from_millis(200))?;
        db.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK")?;
        Ok(())
    };
    let busy = [
        rusqlite::ErrorCode::DatabaseBusy,
        rusqlite::ErrorCode::DatabaseLocked,
    ];
    match alone() {
        Ok(()) => false,
        Err(Fault::Refused(error)) => matches!(error, StoreError::Unavailable { .. }),
        Err(fault) => fault.code().is_some_and(|code| busy.contains(&code)),
    }
}

/// Resets the detection of lost commits: the current content of the files
/// counts as complete.
pub fn accept_loss(path: &Path) -> Result<(), StoreError> {
    let mut files = vec![path.to_owned()];
    let others = fs::read_dir(directory(path)).into_iter().flatten();
    files.extend(others.filter_map(|file| {
        let file = file.ok()?.path();
        file.extension()
            .is_some_and(|it| it == "db")
            .then_some(file)
    }));
    for file in files {
        let place = StoreLocation::new(&file, Options::default(), false);
        let accepted = || -> Result<(), Fault> {
            let used = place.begin_use()?;
            let db = place.connect_unread(used.id(), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            Ok(crate::seal::accept(&db, &file, used.id())?)
        };
        accepted().map_err(|fault| fault.at(&file.display().to_string()))?;
    }
    Ok(())
}

/// Verifies the content of a file before it becomes a store.
fn check_content(path: &Path, tenant: &str) -> Result<(), StoreError> {
    let store = SqliteStore::open_read_only(path)?;
    let verified = SqliteStore::new(store.backend().in_main(tenant)).verify()?;
    match verified.damaged.first() {
        None => Ok(()),
        Some(damage) => Err(StoreError::Damaged {
            what: damage.what.clone(),
            message: damage.message.clone(),
        }),
    }
}

/// Copies a database that is in use.
fn copy_database(source: &StoreLocation, target: &Path) -> Result<(), StoreError> {
    let made = make_empty(target);
    made.map_err(|error| failed(target, &error))?;
    let copy = || -> Result<(), Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let used = source.begin_use()?;
        let db = source.connect_unread(used.id(), flags)?;
        db.busy_timeout(std::time::Duration::from_secs(30))?;
        db.execute("VACUUM INTO ?1", [target.to_string_lossy()])?;
        Ok(())
    };
    let address = source.path.display().to_string();
    copy().map_err(|fault| fault.at(&address))?;
    let synced = File::open(target).and_then(|file| file.sync_all());
    synced.map_err(|error| failed(target, &error))
}

fn make_empty(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the size and the hash of a file.
fn hash_file(path: &Path) -> io::Result<(u64, ContentHash)> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut part = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut part)? {
            0 => {
                let hash = ContentHash::from_bytes(*hasher.finalize().as_bytes());
                return Ok((bytes, hash));
            }
            read => {
                bytes += read as u64;
                hasher.update(&part[..read]);
            }
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::StorageFull {
        let store = path.display().to_string();
        return StoreError::Full { store };
    }
    StoreError::Backend {
        store: "sqlite",
        source: format!("{}: {error}", path.display()).into(),
    }
}
