//! The state that all requests share, and the limits on concurrent work.
//!
//! Handlers are asynchronous and only wait. The engine blocks, so its work runs
//! in threads: [`App::run`] for calls and [`App::run_stream`] for record streams,
//! each with a limited number of places. Slots and the memory of bodies are
//! shared fairly between tenants. Checks of keys and of the store have threads of
//! their own ([`App::run_apart`]), so that they never wait for calls.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::extract::MatchedPath;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use contexture::config::{Config, ServerConfig};
use contexture::store::{Call, TenantQuota, Tenants as Stores};
use contexture::{Error, Timestamp};
use contexture_api::{Api, Deployment, Reloaded, Schemas, StorageKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::{Caller, Keys};
use crate::call_slot::{CallSlot, EndOfWork};
use crate::cores::Cores;
use crate::large_answer;
use crate::metrics::Metrics;
use crate::priority;
use crate::problem::{Problem, Respond as _};
use crate::quota::{self, RequestsOfDay, StoredQuotas, Storing};
use crate::reload::ReadSettings;
use crate::slots::{Slot, Slots};
use crate::stream_core::StreamCore;
use crate::tenant::{MOST_STREAMS, Tenant, Tenants};
use crate::traces::{self, Traces};

/// How often the key of an open stream is checked. A stream of a revoked key
/// ends within two seconds: this interval and the duration of the check.
const RECHECK_INTERVAL: Duration = Duration::from_millis(1500);

/// How long a successful check of the store is reused.
const HEALTHY_FOR: Duration = Duration::from_secs(1);

/// The maximum number of checks of keys and of the store at a time.
const MOST_APART: usize = 8;

tokio::task_local! {
    /// The id of the API key of the current call, for the audit log.
    pub(crate) static CALLER: Option<Arc<str>>;
}

const KIB: usize = 1 << 10;

/// The memory of a request body relative to its size, until its work is done:
/// its bytes, the parsed JSON, the derived data and the response. Measured: 5
/// to 10.
const BODY_MEMORY_FACTOR: usize = 8;

/// The memory of a response relative to its size while it is created: its
/// source data and its JSON.
const RESPONSE_MEMORY_FACTOR: usize = 3;

/// How long the thread for vectors waits while it has more work, and how long
/// it waits otherwise.
const FILL_IN_PAUSE: Duration = Duration::from_millis(10);
const FILL_IN_INTERVAL: Duration = Duration::from_millis(500);

/// How often deletions that have not ended are tried again.
const DELETION_INTERVAL: Duration = Duration::from_secs(30);

/// The state that all requests share.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    // Replaced when the settings are read again.
    config: RwLock<Arc<ServerConfig>>,
    read_settings: ReadSettings,
    // Held while they are.
    reloading: Mutex<()>,
    pub(crate) tenants: Tenants,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) openapi: bytes::Bytes,
    // The operations that a read-only server answers. `None` if it answers all.
    readable: Option<BTreeSet<(Method, &'static str)>>,
    schemas: Schemas,
    // One slot per call in progress.
    work: Arc<Slots>,
    // One slot per call that computes.
    cores: Cores,
    // One slot per call of a model in progress.
    model_calls: Arc<Slots>,
    // One permit per check of a key or of the store.
    apart: Arc<Semaphore>,
    // One permit per record stream. A stream waits for its client and must not
    // use up the permits of calls meanwhile.
    streams: Arc<Semaphore>,
    // One permit per KiB of memory that all bodies can take.
    body_memory: Arc<Semaphore>,
    // The time of the last successful check of the store. The lock is held
    // during a check, so that only one caller checks at a time.
    healthy_at: tokio::sync::Mutex<Option<Instant>>,
    stopping: AtomicBool,
    requests_of_day: RequestsOfDay,
    quotas: StoredQuotas,
    traces: Traces,
}

impl App {
    pub(crate) fn new(
        config: ServerConfig,
        tenants: Tenants,
        keys: Keys,
        metrics: Arc<Metrics>,
        api: &Api,
        read_only: bool,
        read_settings: ReadSettings,
    ) -> Self {
        let work = Slots::new(config.max_concurrent);
        let model_calls = Slots::new(config.max_model_calls);
        let streams = Arc::new(Semaphore::new(config.max_streams()));
        let schemas = api.schemas();
        let body_memory = config.body_memory_bytes / KIB;
        let dropped_spans = metrics.dropped_spans.clone();
        let traces = Traces::start(&config.otlp_endpoint, dropped_spans);
        Self(Arc::new(Shared {
            traces,
            config: RwLock::new(Arc::new(config)),
            read_settings,
            reloading: Mutex::default(),
            tenants,
            keys,
            metrics,
            readable: read_only.then(|| {
                let reading = api.operations.iter().filter(|it| it.only_reads);
                reading.map(|it| (it.method.clone(), it.path)).collect()
            }),
            openapi: api.document(&schemas).to_string().into(),
            schemas,
            work,
            cores: Cores::default(),
            model_calls,
            apart: Arc::new(Semaphore::new(MOST_APART)),
            streams,
            body_memory: Arc::new(Semaphore::new(body_memory)),
            healthy_at: tokio::sync::Mutex::default(),
            stopping: AtomicBool::new(false),
            requests_of_day: RequestsOfDay::default(),
            quotas: StoredQuotas::default(),
        }))
    }

    /// Returns a function that returns the app as long as it is in use.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<App> + Send + 'static {
        let shared = Arc::downgrade(&self.0);
        move || shared.upgrade().map(App)
    }

    /// Has other servers' events sent to listeners of this one at once.
    pub(crate) fn listen_to_store(&self) {
        let shared = Arc::downgrade(&self.0);
        let woken = move |tenant: &str| {
            if let Some(shared) = shared.upgrade() {
                shared.tenants.wake(tenant);
            }
        };
        self.tenants().stores().on_event(Arc::new(woken));
    }

    /// Starts the thread that loads and saves memory indexes, computes vectors of the
    /// encoder, has text overwritten that was deleted before the start, and continues
    /// deletions that have not ended. It ends with the server.
    pub(crate) fn fill_in_vectors(&self) {
        let shared = Arc::downgrade(&self.0);
        let work = move || {
            if let Some(shared) = shared.upgrade() {
                shared.tenants.find_deleted_text();
                shared.tenants.load_indexes();
            }
            let mut deletions = Instant::now();
            while let Some(shared) = shared.upgrade() {
                if shared.stopping.load(Ordering::Relaxed) {
                    return;
                }
                if deletions.elapsed() >= DELETION_INTERVAL {
                    shared.tenants.continue_deletions();
                    deletions = Instant::now();
                }
                shared.tenants.close_clean_stores();
                let any = shared.tenants.fill_in();
                drop(shared);
                std::thread::sleep(if any { FILL_IN_PAUSE } else { FILL_IN_INTERVAL });
            }
        };
        // Without the thread, recall computes the vectors of few texts itself.
        let _ = priority::spawn("vectors", work);
    }

    /// Returns the settings as they are now.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let config = self.0.config.read();
        Arc::clone(&config.unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_config(&self, config: ServerConfig) {
        let mut current = (self.0.config.write()).unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(config);
    }

    /// Reads the settings again, without any effect.
    pub(crate) fn read_settings(&self) -> Result<Config, Error> {
        (self.0.read_settings)()
    }

    /// Returns what is locked while the settings are read again.
    pub(crate) fn reloading(&self) -> &Mutex<()> {
        &self.0.reloading
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

    /// Returns true if the server refuses operations that write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.0.readable.is_some()
    }

    /// Returns true if the server answers a call of that method and route.
    pub(crate) fn answers(&self, method: &Method, route: &str) -> bool {
        let readable = self.0.readable.as_ref();
        // HEAD is GET without its body.
        let method = match *method {
            Method::HEAD => &Method::GET,
            _ => method,
        };
        readable.is_none_or(|all| all.iter().any(|(of, path)| of == method && *path == route))
    }

    /// Returns the tenant of the request's key.
    pub(crate) async fn tenant(&self, parts: &Parts) -> Result<Arc<Tenant>, Problem> {
        let tenant = self.tenant_named(&caller(parts)?.tenant).await?;
        let route = parts.extensions.get::<MatchedPath>();
        let route = route.map_or("", MatchedPath::as_str);
        match quota::storing(&parts.method, route) {
            Storing::Never => {}
            // The operation checks the quotas itself.
            Storing::Sometimes => self.measure_storage(&tenant).await?,
            Storing::Always => {
                self.measure_storage(&tenant).await?;
                tenant.check_quota(StorageKind::Bytes)?;
            }
        }
        Ok(tenant)
    }

    /// Returns the requests that tenants have sent today.
    pub(crate) fn requests_of_day(&self) -> &RequestsOfDay {
        &self.0.requests_of_day
    }

    pub(crate) fn traces(&self) -> &Traces {
        &self.0.traces
    }

    /// Returns the quotas that are in the store.
    pub(crate) fn stored_quotas(&self) -> &StoredQuotas {
        &self.0.quotas
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
            self.refresh_files(&tenant).await;
            return Ok(tenant);
        }
        let (app, wanted) = (self.clone(), name.to_owned());
        self.run(name, move || {
            app.tenants().get(&wanted).map_err(|error| Problem {
                detail: Some(error.to_string().into()),
                ..Problem::unavailable("the tenant's files or settings cannot be read")
                    .hint("the server's log has the details; retry later")
            })
        })
        .await
    }

    /// Copies files that other servers have changed, if they were not looked for
    /// in the last two seconds.
    async fn refresh_files(&self, tenant: &Arc<Tenant>) {
        if !tenant.stored.as_ref().is_some_and(|stored| stored.is_due()) {
            return;
        }
        let of = Arc::clone(tenant);
        let refreshed = self.run_apart(move || match &of.stored {
            Some(stored) => Ok(stored.refresh()?),
            None => Ok(()),
        });
        // The files of before are used, and the next call tries again.
        if let Err(problem) = refreshed.await {
            let tenant = contexture::key::tenant_name(&tenant.name);
            tracing::warn!(tenant, error = problem.message, "stored files are not read");
        }
    }

    /// Runs blocking work of a tenant in a thread, when it has a slot.
    ///
    /// If the caller disconnects or the call times out, work without a slot is
    /// never started, and writes that have not begun are withdrawn. A write that
    /// has begun is finished.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        tenant: &str,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let limit = self.config().request_timeout_ms;
        let call = Call::by(CALLER.try_with(Clone::clone).ok().flatten());
        let mut unfinished = Unfinished(Some(call.clone()));
        let of_call = call.clone();
        let work = async {
            let slot = self.slot(tenant).await;
            let core = self.core(tenant).await;
            let span = traces::current();
            let slot = CallSlot::new(self.clone(), tenant, (slot, core), span.clone());
            let call = of_call.with_slot(slot.clone());
            let work = move || traces::in_thread(span, || call.run(work));
            self.thread(EndOfWork(slot), work).await
        };
        let done = tokio::time::timeout(Duration::from_millis(limit), work).await;
        unfinished.0 = None;
        match done {
            Ok(done) => done,
            Err(_) if call.withdraw() => Err(Problem {
                code: "timeout",
                ..Problem::unavailable(format!(
                    "the call did not finish within {limit} ms; nothing was written"
                ))
                .hint("retry later, or raise `request_timeout_ms` in the server's settings")
            }),
            Err(_) => Err(Problem {
                retry_after: Some(1),
                ..Problem::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "unknown_outcome",
                    format!(
                        "the call did not finish within {limit} ms, and its write has begun: \
                         whether it succeeds is unknown"
                    ),
                )
                .hint(
                    "send the same call with the same `Idempotency-Key` or `x-request-id`, or \
                     read what was stored",
                )
            }),
        }
    }

    /// Runs a short check in a thread, without waiting for calls.
    pub(crate) async fn run_apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let limit = Duration::from_millis(self.config().request_timeout_ms);
        let work = async {
            let permit = self.permit(&self.0.apart).await?;
            self.thread(permit, work).await
        };
        match tokio::time::timeout(limit, work).await {
            Ok(done) => done,
            Err(_) => Err(Problem::unavailable("the store does not answer")
                .hint("retry after `retry-after` seconds")),
        }
    }

    /// Runs the blocking work of a record stream, without a time limit. Each
    /// tenant can have a few streams at a time, so that others can have some. The
    /// work takes its core when it computes, and gives it up when it waits.
    pub(crate) async fn run_stream<T: Send + 'static>(
        &self,
        tenant: Arc<Tenant>,
        work: impl FnOnce(&Tenant, &Arc<StreamCore>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(of_tenant) = Arc::clone(&tenant.streams).try_acquire_owned() else {
            let message = format!("the limit of {MOST_STREAMS} open record streams is reached");
            return Err(Problem::unavailable(message)
                .hint("wait until a stream has ended, or send more records in one stream"));
        };
        let permit = self.permit(&self.0.streams).await?;
        let core = StreamCore::new(self.clone(), &tenant.name);
        let caller = CALLER.try_with(Clone::clone).ok().flatten();
        let call = Call::by(caller).with_slot(core.clone());
        let work = move || {
            let _of_tenant = of_tenant;
            call.run(|| work(&tenant, &core))
        };
        self.thread(permit, work).await
    }

    /// Does work of the admin API that takes as long as the data is large, in a
    /// thread and without a time limit.
    pub(crate) async fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = self.permit(&self.0.streams).await?;
        let call = Call::by(CALLER.try_with(Clone::clone).ok().flatten());
        self.thread(permit, move || call.run(work)).await
    }

    /// Waits until a body of that many bytes, with all data derived from it,
    /// fits into memory. A tenant can use half of the memory for bodies.
    pub(crate) async fn reserve_body(
        &self,
        tenant: &Tenant,
        bytes: usize,
    ) -> Result<BodyMemory, Problem> {
        self.reserve(tenant, bytes.saturating_mul(BODY_MEMORY_FACTOR))
            .await
    }

    /// Waits until there is memory for an answer that is as large as a tree can
    /// be, before it is made.
    pub(crate) async fn reserve_large_answer(
        &self,
        tenant: &Tenant,
    ) -> Result<BodyMemory, Problem> {
        let most = self.config().max_tree_bytes;
        self.reserve(tenant, most.saturating_mul(RESPONSE_MEMORY_FACTOR))
            .await
    }

    /// Waits, in a thread that works, until an answer of that many bytes fits into
    /// the memory for bodies. A small one always does.
    pub(crate) fn reserve_answer(
        &self,
        tenant: &Tenant,
        bytes: usize,
    ) -> Result<Option<BodyMemory>, Problem> {
        if bytes <= large_answer::LARGE {
            return Ok(None);
        }
        Call::wait();
        let reserved = tokio::runtime::Handle::current().block_on(self.reserve(tenant, bytes));
        reserved.map(Some)
    }

    async fn reserve(&self, tenant: &Tenant, bytes: usize) -> Result<BodyMemory, Problem> {
        let all = self.config().body_memory_bytes / KIB;
        // The largest body must be possible, alone.
        let wanted = bytes.div_ceil(KIB).min(all / 2);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let patience = Duration::from_millis(self.config().request_timeout_ms);
        let waiting = async {
            let of_tenant = Arc::clone(&tenant.body_memory).acquire_many_owned(wanted);
            let of_tenant = of_tenant.await.ok()?;
            let of_all = Arc::clone(&self.0.body_memory).acquire_many_owned(wanted);
            Some(BodyMemory {
                of_tenant,
                of_all: of_all.await.ok()?,
            })
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(Some(memory)) => Ok(memory),
            _ => Err(Problem::unavailable(
                "the server has no memory for more large bodies and answers",
            )
            .hint("retry after `retry-after` seconds")),
        }
    }

    /// Returns the memory that bodies and answers have reserved, in bytes.
    pub(crate) fn reserved_memory(&self) -> u64 {
        let all = self.config().body_memory_bytes / KIB;
        let free = self.0.body_memory.available_permits();
        (all.saturating_sub(free) * KIB) as u64
    }

    /// Waits for an execution slot of a tenant.
    pub(crate) async fn slot(&self, tenant: &str) -> Slot {
        let came = Instant::now();
        let slot = self.0.work.acquire(tenant, self.most_slots()).await;
        self.metrics().queued(came.elapsed());
        slot
    }

    /// Returns a slot without waiting, if the tenant can have another one.
    pub(crate) fn free_slot(&self, tenant: &str) -> Option<Slot> {
        self.0.work.try_acquire(tenant, self.most_slots())
    }

    /// Returns the number of slots that a tenant can have at once.
    fn most_slots(&self) -> usize {
        match self.keys().required() {
            true => self.config().max_concurrent_of_tenant(),
            // All callers are the same tenant.
            false => self.config().max_concurrent,
        }
    }

    /// Waits until a tenant can compute. Returns `None` without keys: all
    /// callers are then the same tenant.
    pub(crate) async fn core(&self, tenant: &str) -> Option<Slot> {
        match self.keys().required() {
            true => Some(self.0.cores.acquire(tenant).await),
            false => None,
        }
    }

    /// Waits until a tenant can call a model.
    pub(crate) async fn model_call(&self, tenant: &str) -> Slot {
        let most = match self.keys().required() {
            true => self.config().max_model_calls_of_tenant(),
            false => self.config().max_model_calls,
        };
        self.0.model_calls.acquire(tenant, most).await
    }

    /// Returns the number of calls that wait until they can call a model.
    pub(crate) fn waiting_for_models(&self) -> usize {
        self.0.model_calls.waiting()
    }

    /// Returns the number of calls that wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        self.0.work.waiting() + self.0.cores.waiting()
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
        permit: impl Send + 'static,
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
        self.run_apart(move || Ok(app.tenants().stores().ping()?))
            .await?;
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

    /// Waits until all work is finished. A call that waits for a model has no
    /// slot, so the threads are counted.
    pub(crate) async fn finished(&self) {
        while self.metrics().working.get() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The data that the admin operations use.
impl Deployment for App {
    fn stores(&self) -> &dyn Stores {
        self.tenants().stores()
    }

    fn now(&self) -> Timestamp {
        self.tenants().now()
    }

    fn configured_quota(&self, tenant: &str) -> TenantQuota {
        self.config().quota_of(tenant)
    }

    fn keys_changed(&self) {
        self.keys().forget_cached();
    }

    fn quotas_changed(&self) {
        self.stored_quotas().expire();
    }

    fn unload(&self, tenant: &str) {
        self.tenants().unload(tenant);
    }

    fn delete_files(&self, tenant: &str) {
        self.tenants().delete_files(tenant);
    }

    fn reload(&self) -> Result<Reloaded, Error> {
        Self::reload(self)
    }
}

/// The memory of a body until its work is done, or of an answer until it is sent.
pub(crate) struct BodyMemory {
    of_tenant: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl BodyMemory {
    /// Gives back what is more than an answer of that many bytes needs.
    pub(crate) fn shrunk_to(mut self, bytes: usize) -> Self {
        let wanted = bytes.div_ceil(KIB);
        for permit in [&mut self.of_tenant, &mut self.of_all] {
            let surplus = permit.num_permits().saturating_sub(wanted);
            drop(permit.split(surplus));
        }
        self
    }
}

/// Withdraws the writes of a call whose caller disconnects.
struct Unfinished(Option<Call>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(call) = &self.0 {
            call.withdraw();
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
        let valid = (self.app)
            .run_apart(move || app.keys().is_valid(&caller))
            .await;
        self.checked_at = Instant::now();
        // If the store is unavailable, the stream gets nothing new from it, either.
        valid.unwrap_or(true)
    }
}

struct Working<P> {
    app: App,
    _permit: P,
}

impl<P> Drop for Working<P> {
    fn drop(&mut self) {
        self.app.metrics().working.dec();
    }
}

/// Answers calls of unknown paths.
pub(crate) async fn no_such_path() -> Response {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "the server has no such path",
    )
    .hint("open `/docs` for a list of operations")
    .into_response()
}

/// Answers calls with a method that the path does not support.
pub(crate) async fn no_such_method() -> Response {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "no_such_method",
        "the path does not support this method",
    )
    .hint("use a method of the answer's `allow` header")
    .into_response()
}
