//! The state of a store, for metrics.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use contexture_store::{StoreError, StoreStats};
use jiff::Timestamp;
use rusqlite::OptionalExtension as _;

use crate::driver::Database;
use crate::error::Fault;
use crate::tenants::directory;
use crate::writer::AfterCommit;
use crate::{Shared, SqliteBackend};

impl SqliteBackend {
    pub(crate) fn stats_now(&self) -> Result<StoreStats, StoreError> {
        let main = &self.files.main.place.path;
        let (mut bytes, mut log_bytes) = (0, 0);
        let mut add = |path: &Path| {
            // A file that is removed meanwhile has no size.
            let Ok(size) = fs::metadata(path).map(|meta| meta.len()) else {
                return;
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match name.ends_with("-wal") {
                true => log_bytes += size,
                false => bytes += size,
            }
        };
        add(main);
        let mut log = main.clone().into_os_string();
        log.push("-wal");
        add(Path::new(&log));
        for file in fs::read_dir(directory(main))
            .into_iter()
            .flatten()
            .flatten()
        {
            add(&file.path());
        }
        let (mut queued, mut unclean, mut deletions) = (0, 0, 0);
        for shared in self.files.open_files() {
            deletions += pending_deletions(&shared).unwrap_or(0);
            if let Some(status) = shared.current().writer_status() {
                queued += status.queued.load(Ordering::Relaxed) as u64;
                unclean += u64::from(status.unclean.load(Ordering::Relaxed));
            }
        }
        let last_backup = self.in_main("").read_rows(|db, _| {
            let latest = "SELECT at FROM audit WHERE act = 'backup_made' ORDER BY key DESC LIMIT 1";
            let mut select = db.prepare_cached(latest)?;
            let found = select.query_row([], |row| row.get::<_, i64>(0));
            Ok(found.optional()?)
        })?;
        Ok(StoreStats {
            bytes: Some(bytes),
            log_bytes: Some(log_bytes),
            free_bytes: free_bytes(main),
            queued_writes: Some(queued),
            pending_forgetting: Some(unclean),
            pending_deletions: Some(deletions),
            last_backup: last_backup.and_then(|at| Timestamp::from_millisecond(at).ok()),
            ..StoreStats::default()
        })
    }

    /// Adds a backup to the audit log. A store that cannot be written can still be
    /// backed up.
    pub(crate) fn note_backup(&self, target: String, now: Timestamp) {
        let write = move |db: &Database, _| {
            let insert = "INSERT INTO audit (at, act, tenant, subject)
                VALUES (?1, 'backup_made', '', ?2)";
            db.prepare_cached(insert)?
                .execute((now.as_millisecond(), target))?;
            Ok(())
        };
        drop(self.in_main("").write_then(write, AfterCommit::Nothing));
    }
}

/// Returns the number of deletions in a file that have not ended. `None` if the file
/// cannot be read now.
fn pending_deletions(shared: &Shared) -> Option<u64> {
    let open = shared.open().ok()?;
    let count = |db: &Database| -> Result<i64, Fault> {
        let mut select = db.prepare_cached("SELECT count(*) FROM pending_deletions")?;
        Ok(select.query_row([], |row| row.get(0))?)
    };
    let lease = open.readers.take()?;
    let count = lease.run(|| open.reader(&shared.place), count).ok()?;
    Some(count.unsigned_abs())
}

/// Returns the free space of the disk that a file is on.
#[cfg(unix)]
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(not(unix))]
pub(crate) fn free_bytes(_: &Path) -> Option<u64> {
    None
}
