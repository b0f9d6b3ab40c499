//! Tenants: each has an engine, a root and listeners of its own, so that there
//! is nothing through which anything could cross.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use contexture::config::{self, Config};
use contexture::core::guard::MarkKey;
use contexture::key::check_tenant;
use contexture::store::{Store, Tenants as Stores};
use contexture::{Engine, Error, Root, Timestamp};
use tokio::sync::Semaphore;

use crate::events::Hub;
use crate::metrics::Metrics;
use crate::problem::Problem;

/// How many tenants are kept ready. Others are made ready again when they come.
const MOST_READY: usize = 256;

/// How many streams of records a tenant may have open at once.
pub(crate) const MOST_STREAMS: usize = 4;

/// What the root of a tenant is called, who need not know where that is.
const HERE: &str = ".";

/// One tenant, as requests of its keys see the world.
pub(crate) struct Tenant {
    pub(crate) root: Root,
    pub(crate) engine: Engine,
    pub(crate) events: Hub,
    pub(crate) metrics: Arc<Metrics>,
    // One permit for each stream of records that is open.
    pub(crate) streams: Arc<Semaphore>,
    now: Option<Timestamp>,
}

impl Tenant {
    /// Returns the time: the one that the server was given, else now.
    pub(crate) fn now(&self) -> Timestamp {
        self.now.unwrap_or_else(Timestamp::now)
    }

    /// Returns the time that the server was given, if it was given one: output
    /// is then to be the same each time.
    pub(crate) fn fixed_now(&self) -> Option<Timestamp> {
        self.now
    }

    pub(crate) fn store(&self) -> Result<&dyn Store, Problem> {
        Ok(self.engine.store()?)
    }
}

/// Makes a directory that is for its owner only.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// All tenants of a server.
pub(crate) struct Tenants {
    stores: Arc<dyn Stores>,
    root: PathBuf,
    config: Config,
    metrics: Arc<Metrics>,
    now: Option<Timestamp>,
    mark_key: Option<MarkKey>,
    ready: Mutex<HashMap<String, Ready>>,
    uses: AtomicU64,
    // Which file the store is, as the tenants that are ready know it.
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
    ) -> Self {
        Self {
            incarnation: AtomicU64::new(stores.incarnation()),
            stores,
            root: root.to_owned(),
            config,
            metrics,
            now,
            mark_key,
            ready: Mutex::default(),
            uses: AtomicU64::new(0),
        }
    }

    /// Returns the tenant of that name if it is ready.
    pub(crate) fn ready(&self, name: &str) -> Option<Arc<Tenant>> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        // Another file has come into the place of the one that engines remember
        // things of.
        let incarnation = self.stores.incarnation();
        if self.incarnation.swap(incarnation, Ordering::Relaxed) != incarnation {
            ready.clear();
        }
        let found = ready.get_mut(name)?;
        found.last_used = self.uses.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(&found.tenant))
    }

    /// Returns the tenant of that name; "" is the one that the command line
    /// uses, too. Reads files when it is not ready.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Tenant>, Error> {
        if let Some(tenant) = self.ready(name) {
            return Ok(tenant);
        }
        let root = self.root_of(name)?;
        // A tenant may have settings of its own; they lie where only the
        // operator can write.
        let config = match name.is_empty() || root.is_absent(config::FILE) {
            true => self.config.clone(),
            false => Config::read(&root)?,
        };
        let mut builder = Engine::builder();
        if let Some(key) = &self.mark_key {
            let key = match name {
                "" => key.clone(),
                name => key.for_name(name),
            };
            builder = builder.mark_key(key);
        }
        let engine = builder
            .config(config)
            .folder(root.path())
            .store(self.stores.tenant(name))
            .confined()
            .background_snapshots()
            .build()?;
        let tenant = Arc::new(Tenant {
            root,
            engine,
            events: Hub::new(self.config.server.max_listeners),
            metrics: Arc::clone(&self.metrics),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            now: self.now,
        });
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= MOST_READY {
            // Those in use are kept: somebody may listen to them.
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
        // Of two that were made at once, one is taken by both.
        let entry = ready.entry(name.to_owned());
        let entry = entry.or_insert(Ready { tenant, last_used });
        Ok(Arc::clone(&entry.tenant))
    }

    fn root_of(&self, name: &str) -> Result<Root, Error> {
        if name.is_empty() {
            // The roots of the others lie below this one.
            let mut root = Root::open(&self.root)?.hiding(".contexture/tenants");
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
                // Nobody but the operator puts files there.
                make_private(&path).map_err(|error| {
                    Error::input(format!("cannot make {}: {error}", path.display()))
                })?;
                Ok(Root::open(path)?.called(HERE))
            }
        }
    }

    /// Ends what tenants listen to.
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
