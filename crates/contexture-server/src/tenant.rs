//! Tenants: each has an engine, a root and listeners of its own.
//!
//! No operation can reach the data of another tenant. Tenants are loaded on
//! their first use, and unloaded when too many are in memory.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use contexture::config::{self, ActiveSetting, Config};
use contexture::core::cache::Owner;
use contexture::core::guard::MarkKey;
use contexture::key::{check_tenant, tenant_name};
use contexture::memory::FillIn;
use contexture::store::{Store, Tenants as Stores};
use contexture::trust::Settings;
use contexture::turn::Usage;
use contexture::{Assembled, Engine, Error, Root, Timestamp, session_files};
use contexture_api::{Observer, ReachedQuotas, StoredFiles};
use tokio::sync::Semaphore;

use crate::events::Hub;
use crate::idempotency::KeysInProgress;
use crate::metrics::Metrics;
use crate::quota::Measured;

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

/// One tenant, with its events and limits. It derefs to the tenant that operations
/// work for.
pub(crate) struct Tenant {
    tenant: contexture_api::Tenant,
    pub(crate) events: Arc<Hub>,
    // The share of the process's cache.
    cache: Owner,
    // One permit per open record stream.
    pub(crate) streams: Arc<Semaphore>,
    // One permit per KiB of memory that the tenant's bodies can take.
    pub(crate) body_memory: Arc<Semaphore>,
    pub(crate) measured: Measured,
    pub(crate) keys_in_progress: KeysInProgress,
}

impl Deref for Tenant {
    type Target = contexture_api::Tenant;

    fn deref(&self) -> &Self::Target {
        &self.tenant
    }
}

/// Counts the actions of operations, and wakes listeners to events.
struct Observed {
    events: Arc<Hub>,
    metrics: Arc<Metrics>,
}

impl Observer for Observed {
    fn assembled(&self, assembled: &Assembled) {
        self.metrics.assembled(assembled);
    }

    fn recorded(&self, usage: Option<&Usage>) {
        self.metrics.recorded(usage);
    }

    fn remembered(&self, records: u64) {
        self.metrics.remembered(records);
    }

    fn has_event(&self) {
        self.events.wake();
    }

    fn refused_by_quota(&self) {
        self.metrics.refused_by_quota.inc();
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
    // Replaced when the settings are read again.
    settings: RwLock<Arc<OperatorSettings>>,
    metrics: Arc<Metrics>,
    now: Option<Timestamp>,
    mark_key: Option<MarkKey>,
    // Files and directories that no tenant can read.
    private: Vec<PathBuf>,
    ready: Mutex<HashMap<String, Ready>>,
    // The stores whose files still hold deleted text since an earlier process. They
    // stay open until it is overwritten.
    unclean: Mutex<Vec<Arc<dyn Store>>>,
    uses: AtomicU64,
    // The incarnation of the store's file that the loaded tenants were made for.
    incarnation: AtomicU64,
}

/// The settings of the server's root.
struct OperatorSettings {
    config: Arc<Config>,
    // Those that act outside the project.
    active: Vec<ActiveSetting>,
}

impl OperatorSettings {
    fn new(config: Config, root: &Path) -> Self {
        Self {
            active: config.active_settings(root),
            config: Arc::new(config),
        }
    }

    /// Returns the root that a tenant has in the settings.
    fn root_of(&self, name: &str) -> Option<&str> {
        self.config.server.tenants.get(name)?.root.as_deref()
    }
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
            settings: RwLock::new(Arc::new(OperatorSettings::new(config, root))),
            metrics,
            now,
            mark_key,
            private: private.iter().map(|path| real(path)).collect(),
            ready: Mutex::default(),
            unclean: Mutex::default(),
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
        let (tenant, mut ready) = loop {
            let settings = self.settings();
            let tenant = Arc::new(self.load(name, &settings, None)?);
            let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            // The settings can have been read again meanwhile.
            if Arc::ptr_eq(&settings, &self.settings()) {
                break (tenant, ready);
            }
        };
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

    fn settings(&self) -> Arc<OperatorSettings> {
        let settings = self.settings.read();
        Arc::clone(&settings.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the settings of the server's root as they are now.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.settings().config)
    }

    /// Applies other settings to all tenants. Fails without any change if the settings
    /// cannot be used for the default tenant. Returns the tenants whose own settings
    /// have an error, and stay as they are.
    pub(crate) fn reload(&self, config: Config) -> Result<Vec<(String, Error)>, Error> {
        let settings = OperatorSettings::new(config, &self.root);
        self.check_roots_of(&settings)?;
        let loaded: Vec<(String, Arc<Tenant>)> = {
            let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            let tenants = ready.iter();
            tenants
                .map(|(name, ready)| (name.clone(), Arc::clone(&ready.tenant)))
                .collect()
        };
        let mut failed = Vec::new();
        let mut replaced = Vec::new();
        for (name, before) in loaded {
            match self.load(&name, &settings, Some(&before)) {
                Ok(tenant) => replaced.push((name, before, Arc::new(tenant))),
                Err(error) if name.is_empty() => return Err(error),
                Err(error) => failed.push((name, error)),
            }
        }
        let most = settings.config.server.max_listeners;
        // A tenant that is loaded meanwhile looks at the settings with this lock.
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = (self.settings.write()).unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(settings);
        drop(current);
        // A tenant that was loaded while the others were is loaded again.
        ready.retain(|name, ready| {
            let replaced = replaced
                .iter()
                .any(|(of, before, _)| of == name && Arc::ptr_eq(&ready.tenant, before));
            replaced || failed.iter().any(|(of, _)| of == name)
        });
        for (name, _, tenant) in replaced {
            tenant.events.set_limit(most);
            if let Some(ready) = ready.get_mut(&name) {
                ready.tenant = tenant;
            }
        }
        Ok(failed)
    }

    /// Loads a tenant. It takes over the listeners and the open streams of the tenant
    /// `before`.
    fn load(
        &self,
        name: &str,
        settings: &OperatorSettings,
        before: Option<&Tenant>,
    ) -> Result<Tenant, Error> {
        let root = self.root_of(name, settings)?;
        root.remove_left_over();
        let stored = self.stored_files(name, &root, settings)?;
        let cache = before.map_or_else(Owner::new, |before| before.cache.clone());
        let mut builder = cache.own(Engine::builder);
        // A tenant can have settings of its own. Commands, endpoints, keys and
        // paths elsewhere are the operator's to set: a tenant's file can come
        // with content that others wrote.
        builder = match name.is_empty() || root.is_absent(config::FILE) {
            true => (builder.config(Config::clone(&settings.config))).folder(&self.root),
            false => builder.settings(Settings::of_tenant(&root, &settings.active)?),
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
        let builder = builder
            .store(self.stores.tenant(name))
            .confined()
            .background_snapshots()
            .on_snapshot_error(move |error| {
                metrics.upkeep.failed_snapshots.inc();
                let tenant = tenant_name(&tenant_of_engine);
                tracing::warn!(tenant, %error, "a snapshot was not saved");
            });
        let engine = cache.own(|| builder.build())?;
        let limits = &settings.config.server;
        let body_memory = limits.body_memory_bytes / 2 / 1024;
        let events = before.map_or_else(
            || Arc::new(Hub::new(limits.max_listeners)),
            |before| Arc::clone(&before.events),
        );
        Ok(Tenant {
            tenant: contexture_api::Tenant {
                name: name.into(),
                root,
                engine,
                stored,
                now: self.now,
                observer: Arc::new(Observed {
                    events: Arc::clone(&events),
                    metrics: Arc::clone(&self.metrics),
                }),
                reached_quotas: ReachedQuotas::default(),
            },
            events,
            cache,
            measured: Measured::default(),
            keys_in_progress: KeysInProgress::default(),
            streams: before.map_or_else(
                || Arc::new(Semaphore::new(MOST_STREAMS)),
                |before| Arc::clone(&before.streams),
            ),
            body_memory: before.map_or_else(
                || Arc::new(Semaphore::new(body_memory)),
                |before| Arc::clone(&before.body_memory),
            ),
        })
    }

    /// Returns the files that the tenant has in the store, and copies them to its
    /// directory. Only tenants without a configured root have such files.
    fn stored_files(
        &self,
        name: &str,
        root: &Root,
        settings: &OperatorSettings,
    ) -> Result<Option<StoredFiles>, Error> {
        if name.is_empty() || settings.root_of(name).is_some() {
            return Ok(None);
        }
        let store = self.stores.tenant(name);
        let server = Root::open(&self.root)?;
        let own = Root::open(root.path())?;
        let stored = StoredFiles::new(store, own, server, name);
        stored.refresh()?;
        Ok(Some(stored))
    }

    fn root_of(&self, name: &str, settings: &OperatorSettings) -> Result<Root, Error> {
        if name.is_empty() {
            // The roots of other tenants are below this one and must stay hidden.
            let mut root = Root::open(&self.root)?
                .hiding(".contexture/tenants")
                .hiding(".contexture/files");
            for path in settings.config.server.tenants.values() {
                if let Some(path) = &path.root {
                    root = root.hiding(path);
                }
            }
            return Ok(root);
        }
        check_tenant(name)?;
        match settings.root_of(name) {
            Some(path) => Ok(Root::open(self.root.join(path))?.called(HERE)),
            None => {
                let below = format!(".contexture/tenants/{name}");
                let path = self.root.join(&below);
                // Only the operator puts files there. The tenant's own directory
                // gets no `.gitignore`, because patterns in its working set would
                // match nothing.
                let server = Root::open(&self.root)?;
                if server.link_out(&below).is_some() {
                    let message = format!("{below} is a symbolic link that leads out of the root");
                    return Err(Error::input(message).advise(format!(
                        "remove the link, or set server.tenants.{name}.root to the directory"
                    )));
                }
                server
                    .create_private_dir_of(&below)
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
            // Vectors that cannot be computed or saved now are tried again
            // later.
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

    /// Opens the stores whose files still contain deleted text, so that it is
    /// overwritten even if the tenant is unused. Continues deletions that have not
    /// ended.
    pub(crate) fn find_deleted_text(&self) {
        for name in self.stores.tenant_names().unwrap_or_default() {
            let store = self.stores.tenant(&name);
            // A store that cannot be read now reports its error when it is
            // used.
            if store.has_deleted_text().unwrap_or(false) {
                continue_deletions(&name, &*store);
                self.unclean().push(store);
            }
        }
    }

    /// Continues the deletions of all tenants that have not ended.
    pub(crate) fn continue_deletions(&self) {
        let stats = self.stores.stats();
        if !stats.is_ok_and(|stats| stats.pending_deletions > Some(0)) {
            return;
        }
        for name in self.stores.tenant_names().unwrap_or_default() {
            continue_deletions(&name, &*self.stores.tenant(&name));
        }
    }

    /// Closes those of the stores whose text is overwritten by now.
    pub(crate) fn close_clean_stores(&self) {
        let clean: Vec<Arc<dyn Store>> = {
            let mut unclean = self.unclean();
            unclean
                .extract_if(.., |store| !store.has_deleted_text().unwrap_or(true))
                .collect()
        };
        drop(clean);
    }

    fn unclean(&self) -> MutexGuard<'_, Vec<Arc<dyn Store>>> {
        self.unclean.lock().unwrap_or_else(PoisonError::into_inner)
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
            // A tenant that cannot be loaded now reports its error when it is
            // used.
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
        self.check_roots_of(&self.settings())
    }

    fn check_roots_of(&self, settings: &OperatorSettings) -> Result<(), Error> {
        let own = real(&self.root);
        let kept = own.join(".contexture");
        let configured = settings.config.server.tenants.iter();
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

    /// Deletes the files that this server has written for a tenant that was deleted.
    pub(crate) fn delete_files(&self, name: &str) {
        if let Ok(server) = Root::open(&self.root) {
            session_files::delete_of_tenant(&server, &self.config(), name);
        }
    }

    /// Deletes old lines of the event logs of a tenant.
    pub(crate) fn delete_lines_before(&self, name: &str, before: Timestamp) {
        let root = Root::open(&self.root).ok();
        let root = root.and_then(|root| session_files::tenant_root(&root, &self.config(), name));
        if let Some(root) = root {
            session_files::delete_lines_before(&root, before, false);
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

/// Continues deletions that have not ended. An error is logged: the deletions are tried
/// again later.
fn continue_deletions(name: &str, store: &dyn Store) {
    match store.continue_deletions() {
        Ok(0) => {}
        Ok(pending) => {
            tracing::warn!(
                tenant = tenant_name(name),
                pending,
                "deletions have not ended: the disk is full"
            );
        }
        Err(error) => {
            tracing::warn!(tenant = tenant_name(name), %error, "a deletion has not ended")
        }
    }
}
