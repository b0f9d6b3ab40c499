//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::http::request::Parts;
use contexture::config::ServerConfig;
use tokio::sync::Semaphore;

use crate::auth::{Caller, Keys};
use crate::metrics::Metrics;
use crate::operation::Api;
use crate::problem::Problem;
use crate::shape::Definitions;
use crate::tenant::{Tenant, Tenants};

/// What all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) tenants: Tenants,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) openapi: bytes::Bytes,
    definitions: Arc<Definitions>,
    // One permit for each request that is worked on.
    work: Arc<Semaphore>,
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
        Self(Arc::new(Shared {
            config,
            tenants,
            keys,
            metrics,
            openapi: crate::openapi::document(api).to_string().into(),
            definitions: Arc::new(api.inputs.definitions().clone()),
            work,
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

    /// Returns the schemas of what is taken.
    pub(crate) fn definitions(&self) -> Arc<Definitions> {
        Arc::clone(&self.0.definitions)
    }

    pub(crate) fn openapi(&self) -> bytes::Bytes {
        self.0.openapi.clone()
    }

    /// Returns the tenant whose key the request came with.
    pub(crate) async fn tenant(&self, parts: &Parts) -> Result<Arc<Tenant>, Problem> {
        let Some(caller) = parts.extensions.get::<Caller>() else {
            return Err(Problem::failure("a request came in past the keys"));
        };
        self.tenant_named(&caller.tenant).await
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
        match tokio::time::timeout(patience, self.run_long(work)).await {
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

    /// The same for what may take as long as it likes.
    pub(crate) async fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let patience = Duration::from_millis(self.config().request_timeout_ms);
        let came = Instant::now();
        let waiting = Arc::clone(&self.0.work).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(patience, waiting).await else {
            return Err(Problem::unavailable(
                "the server has too much to do; try again",
            ));
        };
        self.metrics().queued(came.elapsed());
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
        let all = u32::try_from(self.config().max_concurrent).unwrap_or(u32::MAX);
        // Fails when it is closed, which it never is.
        let _ = self.0.work.acquire_many(all).await;
    }
}

struct Working {
    app: App,
    _permit: tokio::sync::OwnedSemaphorePermit,
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
