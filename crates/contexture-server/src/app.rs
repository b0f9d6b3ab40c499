//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::http::request::Parts;
use contexture::config::ServerConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::{Caller, Keys};
use crate::metrics::Metrics;
use crate::operation::Api;
use crate::problem::Problem;
use crate::schema::Schemas;
use crate::tenant::{MOST_STREAMS, Tenant, Tenants};

/// How often it is looked whether a stream may go on: one of a key that is
/// revoked ends after so long.
const AGAIN: Duration = Duration::from_secs(5);

/// For how long the store is taken to be well after it was.
const WELL: Duration = Duration::from_secs(1);

const KIB: usize = 1 << 10;

/// How many bytes all bodies that are held at once may have. Larger bodies than
/// usual have room for a few.
const ALL_BODIES: usize = 256 << 20;

/// What all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) tenants: Tenants,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) openapi: bytes::Bytes,
    schemas: Schemas,
    // One permit for each request that is worked on.
    work: Arc<Semaphore>,
    // One for each stream of records. It waits for its caller, and must not keep
    // others from being worked on meanwhile.
    streams: Arc<Semaphore>,
    // One for each KiB of the bodies that are held.
    room: Arc<Semaphore>,
    // When the store was well. Held while it is looked, so that one does.
    well: tokio::sync::Mutex<Option<Instant>>,
    stopping: AtomicBool,
}

impl App {
    pub(crate) fn new(
        config: ServerConfig,
        tenants: Tenants,
        keys: Keys,
        metrics: Arc<Metrics>,
        api: &Api,
    ) -> Self {
        let work = Arc::new(Semaphore::new(config.max_concurrent));
        let streams = Arc::new(Semaphore::new(config.max_streams()));
        let schemas = api.schemas();
        let room = ALL_BODIES.max(4 * config.max_body_bytes) / KIB;
        Self(Arc::new(Shared {
            config,
            tenants,
            keys,
            metrics,
            openapi: crate::openapi::document(api, &schemas).to_string().into(),
            schemas,
            work,
            streams,
            room: Arc::new(Semaphore::new(room)),
            well: tokio::sync::Mutex::default(),
            stopping: AtomicBool::new(false),
        }))
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    pub(crate) fn tenants(&self) -> &Tenants {
        &self.0.tenants
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Returns the schemas of bodies, by the id of the operation.
    pub(crate) fn schemas(&self) -> &Schemas {
        &self.0.schemas
    }

    pub(crate) fn openapi(&self) -> bytes::Bytes {
        self.0.openapi.clone()
    }

    /// Returns the tenant whose key the request came with.
    pub(crate) async fn tenant(&self, parts: &Parts) -> Result<Arc<Tenant>, Problem> {
        self.tenant_named(&caller(parts)?.tenant).await
    }

    /// Returns what looks after a stream that is opened now.
    pub(crate) fn watch(&self, parts: &Parts) -> Result<Watch, Problem> {
        Ok(Watch {
            app: self.clone(),
            caller: caller(parts)?.clone(),
            looked: Instant::now(),
        })
    }

    pub(crate) async fn tenant_named(&self, name: &str) -> Result<Arc<Tenant>, Problem> {
        if let Some(tenant) = self.tenants().ready(name) {
            return Ok(tenant);
        }
        let (app, name) = (self.clone(), name.to_owned());
        self.run(move || {
            app.tenants().get(&name).map_err(|error| Problem {
                detail: Some(error.to_string().into()),
                ..Problem::unavailable("this tenant's files or settings cannot be read now")
            })
        })
        .await
    }

    /// Has a thread do work that may wait. It is finished even if nobody waits
    /// for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let patience = Duration::from_millis(self.config().request_timeout_ms);
        let work = async {
            let permit = self.permit(&self.0.work).await?;
            self.thread(permit, work).await
        };
        match tokio::time::timeout(patience, work).await {
            Ok(done) => done,
            Err(_) => Err(Problem {
                code: "timeout",
                ..Problem::unavailable(
                    "this takes longer than is waited for; what was begun is \
                                        finished",
                )
            }),
        }
    }

    /// The same for a stream, which takes as long as its caller does. Of one
    /// tenant there are a few at once, so that others have room.
    pub(crate) async fn run_stream<T: Send + 'static>(
        &self,
        tenant: Arc<Tenant>,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(of_tenant) = Arc::clone(&tenant.streams).try_acquire_owned() else {
            let message = format!("{MOST_STREAMS} streams of records are open already");
            return Err(Problem::unavailable(message)
                .hint("wait until one of them has ended, or send more in one"));
        };
        let permit = self.permit(&self.0.streams).await?;
        let work = move || {
            let _of_tenant = of_tenant;
            work(&tenant)
        };
        self.thread(permit, work).await
    }

    /// Waits until there is room for a body of so many bytes.
    pub(crate) async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let wanted = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        let patience = Duration::from_millis(self.config().request_timeout_ms);
        let waiting = Arc::clone(&self.0.room).acquire_many_owned(wanted);
        match tokio::time::timeout(patience, waiting).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(Problem::unavailable(
                "the server holds as many bodies as it can; try again",
            )),
        }
    }

    /// Waits until one more may be worked on.
    async fn permit(&self, of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
        let patience = Duration::from_millis(self.config().request_timeout_ms);
        let came = Instant::now();
        let waiting = Arc::clone(of).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(patience, waiting).await else {
            return Err(Problem::unavailable(
                "the server has too much to do; try again",
            ));
        };
        self.metrics().queued(came.elapsed());
        Ok(permit)
    }

    async fn thread<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.metrics().working.inc();
        let app = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            // Dropped, also when the work panics.
            let _working = Working {
                app,
                _permit: permit,
            };
            work()
        });
        match work.await {
            Ok(done) => done,
            Err(error) => Err(Problem::failure(error.to_string())),
        }
    }

    /// Fails when the store cannot be read and written. Anybody may ask, as
    /// often as they like, so that the store is not asked each time.
    pub(crate) async fn ping(&self) -> Result<(), Problem> {
        let mut well = self.0.well.lock().await;
        if well.is_some_and(|well| well.elapsed() < WELL) {
            return Ok(());
        }
        *well = None;
        let app = self.clone();
        self.run(move || Ok(app.tenants().stores().ping()?)).await?;
        *well = Some(Instant::now());
        Ok(())
    }

    /// Says that the server stops: no more is taken in.
    pub(crate) fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
        self.tenants().close();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Relaxed)
    }

    /// Waits until nothing is worked on any more.
    pub(crate) async fn finished(&self) {
        let config = self.config();
        for (permits, all) in [
            (&self.0.work, config.max_concurrent),
            (&self.0.streams, config.max_streams()),
        ] {
            let all = u32::try_from(all).unwrap_or(u32::MAX);
            // Fails when it is closed, which it never is.
            let _ = permits.acquire_many(all).await;
        }
    }
}

fn caller(parts: &Parts) -> Result<&Caller, Problem> {
    let caller = parts.extensions.get();
    caller.ok_or_else(|| Problem::failure("a request came in past the keys"))
}

/// Looks again and again whether somebody who has a stream open still may.
pub(crate) struct Watch {
    app: App,
    caller: Caller,
    looked: Instant,
}

impl Watch {
    /// Returns when it is to be looked again.
    pub(crate) fn due(&self) -> Instant {
        self.looked + AGAIN
    }

    /// Returns false when the caller's key was revoked. Looks when that is due.
    pub(crate) async fn goes_on(&mut self) -> bool {
        if Instant::now() < self.due() {
            return true;
        }
        let (app, caller) = (self.app.clone(), self.caller.clone());
        let looked = self.app.run(move || app.keys().still(&caller)).await;
        self.looked = Instant::now();
        // When the store cannot be asked, nothing new comes from it, either.
        looked.unwrap_or(true)
    }
}

struct Working {
    app: App,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.app.metrics().working.dec();
    }
}

/// Answers for a path that is nothing.
pub(crate) async fn no_such_path() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "there is nothing at this path",
    )
    .hint("`/docs` shows what there is")
}

/// Answers for a method that a path does not have.
pub(crate) async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        "this path does not take this method",
    )
    .hint("`allow` in the answer's head says which it takes")
}
