//! The middleware that every request passes: logging, checks of host and origin,
//! and authentication.
//!
//! The checks of `Host` and `Origin` protect a local server from web pages: a
//! page elsewhere could otherwise make its visitor's browser call this server.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use contexture::config::ServerConfig;
use contexture::key::tenant_name;
use tracing::{error, info, warn};

use crate::app::{self, App};
use crate::auth::{Caller, Scope};
use crate::problem::{ErrorText, Problem, Respond as _};
use crate::traces;

/// How long the check of a key for metrics waits for the store.
const METRICS_PATIENCE: Duration = Duration::from_secs(2);

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The header with the version of the server, by which clients recognise a
/// server of another version.
static VERSION: HeaderName = HeaderName::from_static("contexture-version");

/// Logs a request and its answer: the route instead of the path, which can
/// contain names, and neither content nor keys.
pub(crate) async fn log_request(
    State(app): State<App>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let came = Instant::now();
    let given = given_request_id(request.headers());
    let id = given.clone().unwrap_or_else(random_request_id);
    let address = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    let address = address.map(|address| address.to_string());
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str).to_owned();
    if let Ok(value) = HeaderValue::from_str(&id) {
        request.headers_mut().insert(&REQUEST_ID, value);
    }
    if let Some(given) = given {
        request.extensions_mut().insert(GivenRequestId(given));
    }
    // Health checks and scrapes would be most of the traces.
    let is_traced = !matches!(&*route, "/healthz" | "/readyz" | "/metrics");
    let span = app.traces().begin(request.headers());
    let span = span.filter(|_| is_traced);
    let mut response = traces::REQUEST.scope(span.clone(), next.run(request)).await;
    let time = came.elapsed();
    let status = response.status().as_u16();
    app.metrics().answered(method, &route, status, time);
    let error_text = response.extensions_mut().remove::<ErrorText>();
    let caller = response.extensions_mut().remove::<Caller>();
    let key = caller.as_ref().and_then(|caller| caller.key.as_deref());
    let tenant = caller.as_ref().map(|caller| tenant_name(&caller.tenant));
    let code = error_text.as_ref().map(|text| text.code);
    let detail = error_text.as_ref().and_then(|text| text.detail.as_deref());
    if let Some(span) = span {
        span.end(method, &route, status, tenant, code);
    }
    // Rounded to microseconds: more digits are noise.
    let ms = (time.as_secs_f64() * 1e6).round() / 1e3;
    match status {
        500.. if status != 503 => {
            error!(
                id,
                address, method, route, status, ms, tenant, key, code, detail, "request"
            );
        }
        503 => warn!(
            id,
            address, method, route, status, ms, tenant, key, code, detail, "request"
        ),
        _ => info!(
            id,
            address, method, route, status, ms, tenant, key, code, "request"
        ),
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(&REQUEST_ID, value);
    }
    let version = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
    response.headers_mut().insert(&VERSION, version);
    response
}

/// The address that a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The `x-request-id` of a caller that sent one.
#[derive(Debug, Clone)]
pub(crate) struct GivenRequestId(String);

impl GivenRequestId {
    /// Returns the idempotency key of a request with this body: a retry has the
    /// same id and the same body.
    pub(crate) fn idempotency_key(&self, body: &[u8]) -> String {
        let hash = contexture::core::ContentHash::of(body).to_string();
        format!("x-request-id {} {}", self.0, &hash[..32])
    }
}

/// Returns the caller's `x-request-id` if it is valid.
fn given_request_id(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok())?;
    let fits = (1..=64).contains(&given.len())
        && given
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    fits.then(|| given.to_owned())
}

fn random_request_id() -> String {
    let mut bytes = [0_u8; 8];
    // Without random numbers, the id is all zeros. That is no reason to reject a
    // request.
    let _ = getrandom::fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

/// Returns the method for logs and metrics. Made-up methods are one label, since
/// callers could otherwise create any number of metrics.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Rejects requests from web pages of other sites: with a foreign `Host` (DNS
/// rebinding) or a foreign `Origin`.
pub(crate) async fn check_host_and_origin(
    State(app): State<App>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let path = request.uri().path();
    // Health checks can use any host name.
    if matches!(path, "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let host = match host_of(&request) {
        Ok(host) => host,
        Err(problem) => return problem.into_response(),
    };
    let config = app.config();
    if !is_our_host(&config, host.host()) {
        let message = "the host name in `Host` is not allowed";
        return Problem::new(StatusCode::FORBIDDEN, "foreign_host", message)
            .hint(
                "call the server by its IP address, or add the name to `allowed_hosts` in the \
                 server's settings",
            )
            .into_response();
    }
    let headers = request.headers();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let allowed = origins.all(|origin| {
        let allowed = &config.allowed_origins;
        allowed.iter().any(|allowed| origin == allowed.as_str()) || is_same(origin, &host)
    });
    if !allowed {
        let message = "the origin in `Origin` is not allowed";
        return Problem::new(StatusCode::FORBIDDEN, "foreign_origin", message)
            .hint("add the origin to `allowed_origins` in the server's settings")
            .into_response();
    }
    next.run(request).await
}

fn host_of(request: &Request<Body>) -> Result<Authority, Problem> {
    let invalid = || Problem::bad_request("invalid_host", "missing or malformed Host header");
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next(), request.uri().authority()) {
        // An absolute request target overrides the header.
        (_, None, Some(authority)) => Some(authority.clone()),
        (Some(host), None, None) => host.to_str().ok().and_then(|host| host.parse().ok()),
        _ => None,
    };
    host.ok_or_else(invalid)
}

/// Returns true if the host is an IP address, `localhost` or an allowed name. A
/// foreign site can point its name at this server, but not an IP address.
fn is_our_host(config: &ServerConfig, host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || (config.allowed_hosts.iter()).any(|allowed| allowed.eq_ignore_ascii_case(host))
}

/// Returns true if a page of `origin` was loaded from `host`.
fn is_same(origin: &HeaderValue, host: &Authority) -> bool {
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let bare = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    bare.is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_str()))
}

/// Authenticates the caller of a tenant's data.
pub(crate) async fn authenticate(
    State(app): State<App>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    if !app.answers(request.method(), route) {
        let message = "the server is read-only";
        return Problem::new(StatusCode::FORBIDDEN, "read_only", message)
            .hint("run `contexture serve` for a server that accepts changes")
            .into_response();
    }
    authorize(app, Scope::Tenant, request, next).await
}

/// Authenticates the caller of the metrics.
pub(crate) async fn authenticate_for_metrics(
    State(app): State<App>,
    request: Request<Body>,
    next: Next,
) -> Response {
    authorize(app, Scope::Metrics, request, next).await
}

/// Authenticates the caller of the admin API.
pub(crate) async fn authenticate_for_admin(
    State(app): State<App>,
    request: Request<Body>,
    next: Next,
) -> Response {
    authorize(app, Scope::Admin, request, next).await
}

/// Authenticates a caller of the metrics with what the process knows of its key, if the
/// store does not answer: an outage is when metrics are needed.
fn or_known(
    app: &App,
    headers: &HeaderMap,
    checked: Result<Caller, Problem>,
) -> Result<Caller, Problem> {
    match checked {
        Err(problem) if problem.status == StatusCode::SERVICE_UNAVAILABLE => {
            let known = app.keys().known(headers, Scope::Metrics);
            known.unwrap_or(Err(problem))
        }
        checked => checked,
    }
}

async fn authorize(app: App, scope: Scope, mut request: Request<Body>, next: Next) -> Response {
    let address = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    let caller = match app.keys().cached(request.headers(), scope) {
        Some(cached) => cached,
        None => match app.keys().check_address(request.headers(), address) {
            Err(problem) => Err(problem),
            Ok(()) => {
                let (keys, headers) = (app.clone(), request.headers().clone());
                let checked = app.run_apart(move || keys.keys().check(&headers, scope));
                match scope {
                    Scope::Metrics => {
                        let checked = tokio::time::timeout(METRICS_PATIENCE, checked).await;
                        let late = || Problem::unavailable("the store does not answer");
                        let checked = checked.unwrap_or_else(|_| Err(late()));
                        or_known(&app, request.headers(), checked)
                    }
                    Scope::Tenant | Scope::Admin => checked.await,
                }
            }
        },
    };
    if let (Err(problem), Some(address)) = (&caller, address)
        && problem.status == StatusCode::UNAUTHORIZED
    {
        app.keys().note_wrong_key(address);
    }
    if scope == Scope::Tenant {
        app.refresh_quotas().await;
    }
    let caller = caller.and_then(|caller| {
        if scope == Scope::Tenant {
            let quota = app.quota_of(&caller.tenant);
            let counted = app.requests_of_day().count(&caller.tenant, &quota);
            if counted.is_err() {
                app.metrics().refused_by_quota.inc();
            }
            counted?;
        }
        Ok(caller)
    });
    match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller.clone());
            let key = caller.key.as_deref().map(Into::into);
            let mut response = app::CALLER.scope(key, next.run(request)).await;
            response.extensions_mut().insert(caller);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Returns true if only this machine can reach the address.
pub(crate) fn is_loopback(addr: &SocketAddr) -> bool {
    addr.ip().is_loopback()
}
