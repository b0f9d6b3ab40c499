//! Work at fixed intervals: garbage collection and backups.
//!
//! Each runs in its own thread with a lower priority, and never uses the slot of a
//! request. A failure is logged and counted; the next run is at its usual time.
//! The first collection is at the start, the first backup when the last one is old
//! enough.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contexture::Timestamp;
use contexture::key::tenant_name;
use contexture::store::StoreError;
use tracing::{info, warn};

use crate::app::App;
use crate::priority;

/// Copies all tenants into a new directory. The program that starts the server
/// knows how: it has chosen the store.
pub type BackUp = Arc<dyn Fn(&Path, Timestamp) -> Result<(), StoreError> + Send + Sync>;

const MINUTE: Duration = Duration::from_secs(60);

/// The scheduled work of a server.
pub(crate) struct Schedule {
    pub(crate) app: App,
    pub(crate) back_up: Option<BackUp>,
    pub(crate) backup_directory: PathBuf,
}

impl Schedule {
    /// Does the scheduled work until the future is dropped.
    pub(crate) async fn run(self) {
        let schedule = Arc::new(self);
        let config = schedule.app.config();
        let (gc, backup) = (config.gc_interval_minutes, config.backup_interval_minutes);
        let (collector, backups) = (Arc::clone(&schedule), Arc::clone(&schedule));
        tokio::join!(
            async move {
                if gc > 0 {
                    repeat(Duration::ZERO, minutes(gc), move || {
                        let collector = Arc::clone(&collector);
                        move || collector.collect()
                    })
                    .await;
                }
            },
            async move {
                if backup > 0 {
                    let first = backups.time_to_backup(minutes(backup)).await;
                    repeat(first, minutes(backup), move || {
                        let backups = Arc::clone(&backups);
                        move || backups.back_up()
                    })
                    .await;
                }
            }
        );
    }

    /// Runs the garbage collector for every tenant.
    fn collect(&self) {
        let stores = self.app.tenants().stores();
        let metrics = &self.app.metrics().upkeep;
        metrics.collections.inc();
        let names = match stores.tenant_names() {
            Ok(names) => names,
            Err(error) => {
                metrics.failed_collections.inc();
                warn!(%error, "garbage collection failed");
                return;
            }
        };
        let limits = self.app.tenants().config().retention;
        let now = self.app.tenants().now();
        let retention = limits.at(now);
        for name in names {
            if let Some(before) = limits.logs_before(now) {
                self.app.tenants().delete_lines_before(&name, before);
            }
            match stores.tenant(&name).collect(&retention, false) {
                Ok(collected) => {
                    let snapshots = collected.deleted.get("snapshots").copied();
                    metrics.collected_snapshots.inc_by(snapshots.unwrap_or(0));
                }
                Err(error) => {
                    metrics.failed_collections.inc();
                    warn!(tenant = tenant_name(&name), %error, "garbage collection failed");
                }
            }
        }
        info!("garbage collection finished");
    }

    /// Returns how long to wait for the first backup: the interval since the last
    /// one, which an earlier process may have made.
    async fn time_to_backup(&self, interval: Duration) -> Duration {
        let app = self.app.clone();
        let stats = tokio::task::spawn_blocking(move || app.tenants().stores().stats());
        let last = stats.await.ok().and_then(Result::ok);
        let last = last.and_then(|stats| stats.last_backup);
        let age = last.map(|last| Timestamp::now().duration_since(last));
        // A backup from the future is one before the clock was set back.
        let age = age.and_then(|age| Duration::try_from(age).ok());
        age.map_or(Duration::ZERO, |age| interval.saturating_sub(age))
    }

    /// Makes a backup, and deletes those that are too many.
    fn back_up(&self) {
        let Some(back_up) = &self.back_up else {
            return;
        };
        let metrics = &self.app.metrics().upkeep;
        let now = Timestamp::now();
        let name = now.strftime("backup-%Y%m%dT%H%M%SZ").to_string();
        let made = std::fs::create_dir_all(&self.backup_directory)
            .map_err(|error| StoreError::Backend {
                store: "backup",
                source: Box::new(error),
            })
            .and_then(|()| back_up(&self.backup_directory.join(&name), now));
        match made {
            Ok(()) => {
                metrics.backups.inc();
                info!(backup = name, "backup made");
                self.delete_old_backups();
            }
            Err(error) => {
                metrics.failed_backups.inc();
                warn!(%error, "the backup failed");
            }
        }
    }

    fn delete_old_backups(&self) {
        let kept = self.app.config().backups_kept;
        if kept == 0 {
            return;
        }
        let entries = std::fs::read_dir(&self.backup_directory);
        let mut backups: Vec<PathBuf> = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_scheduled_backup(path))
            .collect();
        // The names are times, so they sort by age.
        backups.sort();
        for old in backups.iter().rev().skip(kept) {
            if let Err(error) = std::fs::remove_dir_all(old) {
                warn!(%error, "an old backup was not deleted");
            }
        }
    }
}

/// Returns true for a directory that a scheduled backup made. Others in the same
/// directory are never deleted.
fn is_scheduled_backup(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let time = name.strip_prefix("backup-").unwrap_or_default();
    let is_time = time.len() == "20260131T120000Z".len()
        && time
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'T' || byte == b'Z');
    is_time && path.join("manifest.json").is_file()
}

fn minutes(minutes: u64) -> Duration {
    MINUTE.saturating_mul(u32::try_from(minutes).unwrap_or(u32::MAX))
}

/// Runs blocking work after `first`, and then again after each interval.
async fn repeat<W: FnOnce() + Send + 'static>(
    first: Duration,
    interval: Duration,
    work: impl Fn() -> W,
) {
    let mut wait = first;
    loop {
        tokio::time::sleep(wait).await;
        let work = work();
        let run = move || {
            if let Ok(thread) = priority::spawn("schedule", work) {
                // A panic ends this run only.
                let _ = thread.join();
            }
        };
        let _ = tokio::task::spawn_blocking(run).await;
        wait = interval;
    }
}
