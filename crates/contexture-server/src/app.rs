//! The state that all requests share, and the limits on concurrent work.
//!
//! Handlers are asynchronous and only wait. The engine blocks, so its work runs
//! in threads: [`App::run`] for calls and [`App::run_stream`] for record streams,
//! each with a limited number of permits.

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

/// How often the key of an open stream is checked. A stream of a revoked key
/// ends after this time.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long a successful check of the store is reused.
const HEALTHY_FOR: Duration = Duration::from_secs(1);

const KIB: usize = 1 << 10;

/// The maximum total size of the request bodies in memory, in bytes. A larger
/// `max_body_bytes` raises it, so that a few such bodies fit.
const ALL_BODIES: usize = 256 << 20;

/// How long the thread for vectors waits when it has more to do, and before it
/// looks again when it has not.
const FILL_IN_AGAIN: Duration = Duration::from_millis(10);
const FILL_IN_LOOK: Duration = Duration::from_millis(500);

/// The state that all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) tenants: Tenants,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) openapi: bytes::Bytes,
    schemas: Schemas,
    // One permit per call in progress.
    work: Arc<Semaphore>,
    // One permit per record stream. A stream waits for its client and must not
    // use up the permits of calls meanwhile.
    streams: Arc<Semaphore>,
    // One permit per KiB of the bodies in memory.
    body_memory: Arc<Semaphore>,
    // The time of the last successful check of the store. The lock is held
    // during a check, so that only one caller checks at a time.
    healthy_at: tokio::sync::Mutex<Option<Instant>>,
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
        let body_memory = ALL_BODIES.max(4 * config.max_body_bytes) / KIB;
        Self(Arc::new(Shared {
            config,
            tenants,
            keys,
            metrics,
            openapi: crate::openapi::document(api, &schemas).to_string().into(),
            schemas,
            work,
            streams,
            body_memory: Arc::new(Semaphore::new(body_memory)),
            healthy_at: tokio::sync::Mutex::default(),
            stopping: AtomicBool::new(false),
        }))
    }

    /// Starts the thread that computes vectors of the encoder. It ends with the
    /// server.
    pub(crate) fn fill_in_vectors(&self) {
        let shared = Arc::downgrade(&self.0);
        let work = move || {
            while let Some(shared) = shared.upgrade() {
                if shared.stopping.load(Ordering::Relaxed) {
                    return;
                }
                let any = shared.tenants.fill_in();
                drop(shared);
                std::thread::sleep(if any { FILL_IN_AGAIN } else { FILL_IN_LOOK });
            }
        };
        // Without the thread, recall computes the vectors of few texts itself.
        let _ = std::thread::Builder::new()
            .name("vectors".to_owned())
            .spawn(work);
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

    /// Returns the tenant of the request's key.
    pub(crate) async fn tenant(&self, parts: &Parts) -> Result<Arc<Tenant>, Problem> {
        self.tenant_named(&caller(parts)?.tenant).await
    }

    /// Returns a watch that checks the key of a stream while the stream is open.
    pub(crate) fn watch(&self, parts: &Parts) -> Result<Watch, Problem> {
        Ok(Watch {
            app: self.clone(),
            caller: caller(parts)?.clone(),
            checked_at: Instant::now(),
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
                ..Problem::unavailable("the tenant's files or settings cannot be read")
                    .hint("the server's log has the details; retry later")
            })
        })
        .await
    }

    /// Runs blocking work in a thread. The work is finished even if the caller
    /// disconnects or the call times out.
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
                ..Problem::unavailable(format!(
                    "the call did not finish within {} ms; work that was started continues",
                    self.config().request_timeout_ms
                ))
                .hint("retry later, or raise `request_timeout_ms` in the server's settings")
            }),
        }
    }

    /// Runs the blocking work of a record stream, without a time limit. Each
    /// tenant can have a few streams at a time, so that others can have some.
    pub(crate) async fn run_stream<T: Send + 'static>(
        &self,
        tenant: Arc<Tenant>,
        work: impl FnOnce(&Tenant) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(of_tenant) = Arc::clone(&tenant.streams).try_acquire_owned() else {
            let message = format!("the limit of {MOST_STREAMS} open record streams is reached");
            return Err(Problem::unavailable(message)
                .hint("wait until a stream has ended, or send more records in one stream"));
        };
        let permit = self.permit(&self.0.streams).await?;
        let work = move || {
            let _of_tenant = of_tenant;
            work(&tenant)
        };
        self.thread(permit, work).await
    }

    /// Waits until a body of that many bytes fits into memory.
    pub(crate) async fn reserve_body(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let wanted = u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX);
        let patience = Duration::from_millis(self.config().request_timeout_ms);
        let waiting = Arc::clone(&self.0.body_memory).acquire_many_owned(wanted);
        match tokio::time::timeout(patience, waiting).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(
                Problem::unavailable("the server has no memory for more request bodies")
                    .hint("retry after `retry-after` seconds"),
            ),
        }
    }

    /// Waits for a permit to work.
    async fn permit(&self, of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
        let patience = Duration::from_millis(self.config().request_timeout_ms);
        let came = Instant::now();
        let waiting = Arc::clone(of).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(patience, waiting).await else {
            return Err(Problem::unavailable("the server is overloaded")
                .hint("retry after `retry-after` seconds"));
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
            // Dropped even if the work panics.
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

    /// Fails if the store cannot be read and written. The endpoint needs no key
    /// and has no rate limit, so the result is reused for a short time.
    pub(crate) async fn ping(&self) -> Result<(), Problem> {
        let mut healthy_at = self.0.healthy_at.lock().await;
        if healthy_at.is_some_and(|time| time.elapsed() < HEALTHY_FOR) {
            return Ok(());
        }
        *healthy_at = None;
        let app = self.clone();
        self.run(move || Ok(app.tenants().stores().ping()?)).await?;
        *healthy_at = Some(Instant::now());
        Ok(())
    }

    /// Marks the server as stopping and ends the streams of listeners.
    pub(crate) fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
        self.tenants().close();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Relaxed)
    }

    /// Waits until all work is finished.
    pub(crate) async fn finished(&self) {
        let config = self.config();
        for (permits, all) in [
            (&self.0.work, config.max_concurrent),
            (&self.0.streams, config.max_streams()),
        ] {
            let all = u32::try_from(all).unwrap_or(u32::MAX);
            // Fails only if the semaphore is closed, which never happens.
            let _ = permits.acquire_many(all).await;
        }
    }
}

fn caller(parts: &Parts) -> Result<&Caller, Problem> {
    let caller = parts.extensions.get();
    caller.ok_or_else(|| Problem::failure("the request was not authenticated"))
}

/// Checks from time to time whether the key of an open stream is still valid.
pub(crate) struct Watch {
    app: App,
    caller: Caller,
    checked_at: Instant,
}

impl Watch {
    /// Returns the time of the next check.
    pub(crate) fn next_check(&self) -> Instant {
        self.checked_at + RECHECK_INTERVAL
    }

    /// Returns false if the caller's key was revoked. Asks the store only when
    /// the next check is due.
    pub(crate) async fn is_authorized(&mut self) -> bool {
        if Instant::now() < self.next_check() {
            return true;
        }
        let (app, caller) = (self.app.clone(), self.caller.clone());
        let valid = self.app.run(move || app.keys().is_valid(&caller)).await;
        self.checked_at = Instant::now();
        // If the store is unavailable, the stream gets nothing new from it, either.
        valid.unwrap_or(true)
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

/// Answers calls of unknown paths.
pub(crate) async fn no_such_path() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "the server has no such path",
    )
    .hint("open `/docs` for a list of operations")
}

/// Answers calls with a method that the path does not support.
pub(crate) async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        "the path does not support this method",
    )
    .hint("use a method of the answer's `allow` header")
}
