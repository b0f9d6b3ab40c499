//! Tenants: each has an engine, a root and listeners of its own.
//!
//! No operation can reach the data of another tenant. Tenants are loaded on
//! their first use, and unloaded when too many are in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use contexture::config::{self, ActiveSetting, Config};
use contexture::core::guard::MarkKey;
use contexture::key::{check_tenant, tenant_name};
use contexture::memory::FillIn;
use contexture::store::{Store, Tenants as Stores};
use contexture::trust::Settings;
use contexture::{Engine, Error, Root, Timestamp};
use tokio::sync::Semaphore;

use crate::events::Hub;
use crate::idempotency::KeysInProgress;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::quota::Measured;
use crate::stored_files::StoredFiles;

/// The maximum number of tenants in memory. Others are loaded again when they
/// are used.
const MOST_READY: usize = 256;

/// The maximum number of tenants whose memory index is loaded when the server
/// starts.
const MOST_LOADED: usize = 64;

/// How much the background thread computes for a tenant before the next one.
/// It rests as long as it works, so that it uses at most half of a core.
const FILLED_IN: FillIn = FillIn {
    texts: 256,
    time: Some(Duration::from_millis(250)),
    rest: 1.0,
};

/// The maximum number of open record streams of a tenant.
pub(crate) const MOST_STREAMS: usize = 4;

/// The name of a tenant's root in answers. Tenants do not learn where their
/// root is.
const HERE: &str = ".";

/// One tenant: its root, engine, events and limits.
pub(crate) struct Tenant {
    pub(crate) root: Root,
    pub(crate) engine: Engine,
    pub(crate) events: Hub,
    pub(crate) metrics: Arc<Metrics>,
    /// The name; "" is the default tenant.
    pub(crate) name: Arc<str>,
    // One permit per open record stream.
    pub(crate) streams: Arc<Semaphore>,
    // One permit per KiB of memory that the tenant's bodies can take.
    pub(crate) body_memory: Arc<Semaphore>,
    pub(crate) measured: Measured,
    pub(crate) keys_in_progress: KeysInProgress,
    /// The files that are kept in the store. `None` if the tenant has a root of
    /// its own.
    pub(crate) stored: Option<StoredFiles>,
    now: Option<Timestamp>,
}

impl Tenant {
    /// Returns the server's fixed time, otherwise the current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.now.unwrap_or_else(Timestamp::now)
    }

    /// Returns the server's fixed time, which makes output reproducible.
    pub(crate) fn fixed_now(&self) -> Option<Timestamp> {
        self.now
    }

    pub(crate) fn store(&self) -> Result<&dyn Store, Problem> {
        Ok(self.engine.store()?)
    }
}

/// Creates a directory that only its owner can access.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns the path with its links resolved, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut rest = Vec::new();
    let mut above = path.as_path();
    loop {
        if let Ok(found) = above.canonicalize() {
            return rest
                .iter()
                .rev()
                .fold(found, |found, name| found.join(name));
        }
        let (Some(name), Some(parent)) = (above.file_name(), above.parent()) else {
            return path;
        };
        rest.push(name);
        above = parent;
    }
}

/// All tenants of a server.
pub(crate) struct Tenants {
    stores: Arc<dyn Stores>,
    root: PathBuf,
    config: Config,
    // The operator's settings that act outside the project.
    active: Vec<ActiveSetting>,
    metrics: Arc<Metrics>,
    now: Option<Timestamp>,
    mark_key: Option<MarkKey>,
    // Files and directories that no tenant can read.
    private: Vec<PathBuf>,
    ready: Mutex<HashMap<String, Ready>>,
    uses: AtomicU64,
    // The incarnation of the store's file that the loaded tenants were made for.
    incarnation: AtomicU64,
}

struct Ready {
    tenant: Arc<Tenant>,
    last_used: u64,
}

impl Tenants {
    pub(crate) fn new(
        stores: Arc<dyn Stores>,
        root: &Path,
        config: Config,
        metrics: Arc<Metrics>,
        now: Option<Timestamp>,
        mark_key: Option<MarkKey>,
        private: &[PathBuf],
    ) -> Self {
        Self {
            incarnation: AtomicU64::new(stores.incarnation()),
            stores,
            root: root.to_owned(),
            active: config.active_settings(root),
            config,
            metrics,
            now,
            mark_key,
            private: private.iter().map(|path| real(path)).collect(),
            ready: Mutex::default(),
            uses: AtomicU64::new(0),
        }
    }

    /// Returns the tenant if it is loaded.
    pub(crate) fn ready(&self, name: &str) -> Option<Arc<Tenant>> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        // The database file was replaced: the engines' caches are stale.
        let incarnation = self.stores.incarnation();
        if self.incarnation.swap(incarnation, Ordering::Relaxed) != incarnation {
            ready.clear();
        }
        let found = ready.get_mut(name)?;
        found.last_used = self.uses.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(&found.tenant))
    }

    /// Has the listeners of a tenant look for new events, if it is loaded.
    pub(crate) fn wake(&self, name: &str) {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = ready.get(name) {
            ready.tenant.events.wake();
        }
    }

    /// Returns the tenant and loads it if necessary. The name "" is the default
    /// tenant, which the command line also uses.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Tenant>, Error> {
        if let Some(tenant) = self.ready(name) {
            return Ok(tenant);
        }
        let root = self.root_of(name)?;
        root.remove_left_over();
        let stored = self.stored_files(name, &root)?;
        let mut builder = Engine::builder();
        // A tenant can have settings of its own. Commands, endpoints, keys and
        // paths elsewhere are the operator's to set: a tenant's file can come
        // with content that others wrote.
        builder = match name.is_empty() || root.is_absent(config::FILE) {
            true => builder.config(self.config.clone()).folder(&self.root),
            false => builder.settings(Settings::of_tenant(&root, &self.active)?),
        };
        // Models ask for files by their path. The settings and the store's files
        // are for the operator only.
        let root = self.hide_private(root.hiding(config::FILE));
        if let Some(key) = &self.mark_key {
            let key = match name {
                "" => key.clone(),
                name => key.for_name(name),
            };
            builder = builder.mark_key(key);
        }
        let metrics = Arc::clone(&self.metrics);
        let tenant_of_engine = name.to_owned();
        let engine = builder
            .store(self.stores.tenant(name))
            .confined()
            .background_snapshots()
            .on_snapshot_error(move |error| {
                metrics.upkeep.failed_snapshots.inc();
                let tenant = tenant_name(&tenant_of_engine);
                tracing::warn!(tenant, %error, "a snapshot was not saved");
            })
            .build()?;
        let tenant = Arc::new(Tenant {
            root,
            engine,
            events: Hub::new(self.config.server.max_listeners),
            metrics: Arc::clone(&self.metrics),
            name: name.into(),
            measured: Measured::default(),
            keys_in_progress: KeysInProgress::default(),
            stored,
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            body_memory: Arc::new(Semaphore::new(
                self.config.server.body_memory_bytes / 2 / 1024,
            )),
            now: self.now,
        });
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= MOST_READY {
            // Tenants in use are kept: they can have listeners.
            let idle = ready
                .iter()
                .filter(|(_, ready)| Arc::strong_count(&ready.tenant) == 1)
                .min_by_key(|(_, ready)| ready.last_used)
                .map(|(name, _)| name.clone());
            if let Some(idle) = idle {
                ready.remove(&idle);
            }
        }
        let last_used = self.uses.fetch_add(1, Ordering::Relaxed);
        // If two calls loaded the tenant at the same time, both use the first.
        let entry = ready.entry(name.to_owned());
        let entry = entry.or_insert(Ready { tenant, last_used });
        Ok(Arc::clone(&entry.tenant))
    }

    /// Returns the files that the tenant has in the store, and copies them to its
    /// directory. Only tenants without a configured root have such files.
    fn stored_files(&self, name: &str, root: &Root) -> Result<Option<StoredFiles>, Error> {
        let configured = self.config.server.tenants.get(name);
        if name.is_empty() || configured.is_some_and(|tenant| tenant.root.is_some()) {
            return Ok(None);
        }
        let store = self.stores.tenant(name);
        let server = Root::open(&self.root)?;
        let own = Root::open(root.path())?;
        let stored = StoredFiles::new(store, own, server, name);
        stored.refresh()?;
        Ok(Some(stored))
    }

    fn root_of(&self, name: &str) -> Result<Root, Error> {
        if name.is_empty() {
            // The roots of other tenants are below this one and must stay hidden.
            let mut root = Root::open(&self.root)?
                .hiding(".contexture/tenants")
                .hiding(".contexture/files");
            for path in self.config.server.tenants.values() {
                if let Some(path) = &path.root {
                    root = root.hiding(path);
                }
            }
            return Ok(root);
        }
        check_tenant(name)?;
        let configured = self.config.server.tenants.get(name);
        match configured.and_then(|tenant| tenant.root.as_deref()) {
            Some(path) => Ok(Root::open(self.root.join(path))?.called(HERE)),
            None => {
                let path = self.root.join(".contexture").join("tenants").join(name);
                // Only the operator puts files there. The tenant's own directory
                // gets no `.gitignore`, because patterns in its working set would
                // match nothing.
                Root::open(&self.root)?
                    .create_private_dir_of(&format!(".contexture/tenants/{name}"))
                    .and_then(|()| make_private(&path))
                    .map_err(|error| {
                        Error::input(format!("cannot create {}: {error}", path.display()))
                    })?;
                Ok(Root::open(path)?.called(HERE))
            }
        }
    }

    /// Computes missing vectors of the encoder for the tenants in memory, a
    /// little for each in turn. Returns false when there were none.
    pub(crate) fn fill_in(&self) -> bool {
        let tenants: Vec<Arc<Tenant>> = {
            let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready
                .values()
                .map(|ready| Arc::clone(&ready.tenant))
                .collect()
        };
        let mut any = false;
        for tenant in tenants {
            // What cannot be computed or saved now is tried again later.
            let filled = tenant
                .engine
                .memory()
                .and_then(|memory| memory.fill_in(FILLED_IN, &mut |_| {}));
            any |= filled.is_ok_and(|filled| filled > 0);
            let saved = tenant
                .engine
                .memory()
                .and_then(|memory| memory.save_index());
            if let Err(error) = saved {
                tracing::warn!(tenant = &*tenant.name, %error, "the memory index is not saved");
            }
        }
        any
    }

    /// Loads the memory index of tenants that have one on the disk, the most
    /// recently used ones first.
    pub(crate) fn load_indexes(&self) {
        let names = self.stores.tenant_names().unwrap_or_default();
        let mut known: Vec<(SystemTime, String)> = (names.into_iter())
            .filter_map(|name| {
                let path = self.stores.tenant(&name).index_path()?;
                let saved = std::fs::metadata(path).and_then(|file| file.modified());
                Some((saved.ok()?, name))
            })
            .collect();
        known.sort_by(|a, b| b.cmp(a));
        for (_, name) in known.into_iter().take(MOST_LOADED) {
            // A tenant that cannot be loaded now says so when it is used.
            if let Ok(tenant) = self.get(&name) {
                let loaded = tenant
                    .engine
                    .memory()
                    .and_then(|memory| memory.load_index());
                if let Err(error) = loaded {
                    tracing::warn!(tenant = &*name, %error, "the memory index is not loaded");
                }
            }
        }
    }

    /// Hides the private files that are below a root.
    fn hide_private(&self, root: Root) -> Root {
        let above = real(root.path());
        let below = self.private.iter().filter_map(|path| {
            let path = path.strip_prefix(&above).ok()?;
            (!path.as_os_str().is_empty()).then_some(path)
        });
        below.fold(root, Root::hiding)
    }

    /// Fails if the root of a tenant is, contains or is inside the root of
    /// another: one could read the other's files.
    pub(crate) fn check_roots(&self) -> Result<(), Error> {
        let own = real(&self.root);
        let kept = own.join(".contexture");
        let configured = self.config.server.tenants.iter();
        let roots: Vec<(&str, PathBuf)> = configured
            .filter_map(|(name, tenant)| {
                let root = tenant.root.as_deref()?;
                Some((name.as_str(), real(&self.root.join(root))))
            })
            .collect();
        let refuse = |name: &str, why: &str| {
            let message = format!("server.tenants.{name}.root: {why}");
            Err(Error::input(message)
                .at(format!("server.tenants.{name}.root"))
                .advise("give each tenant a directory of its own"))
        };
        for (i, (name, root)) in roots.iter().enumerate() {
            if own.starts_with(root) {
                return refuse(name, "is or contains the server's root");
            }
            if root.starts_with(&kept) || kept.starts_with(root) {
                return refuse(
                    name,
                    "is inside `.contexture`, which holds other tenants' files",
                );
            }
            for (other, at) in &roots[..i] {
                if root == at {
                    return refuse(name, &format!("is also the root of tenant `{other}`"));
                }
                if root.starts_with(at) || at.starts_with(root) {
                    return refuse(
                        name,
                        &format!("is inside the root of tenant `{other}`, or contains it"),
                    );
                }
            }
        }
        Ok(())
    }

    /// Unloads a tenant that was deleted, and ends its event streams.
    pub(crate) fn unload(&self, name: &str) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = ready.remove(name) {
            ready.tenant.events.close();
        }
    }

    /// Returns the server's fixed time, otherwise the current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.now.unwrap_or_else(Timestamp::now)
    }

    /// Ends the event streams of all tenants.
    pub(crate) fn close(&self) {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        for ready in ready.values() {
            ready.tenant.events.close();
        }
    }

    pub(crate) fn stores(&self) -> &dyn Stores {
        &*self.stores
    }
}
