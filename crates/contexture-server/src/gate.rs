//! The middleware that every request passes: logging, checks of host and origin,
//! and authentication.
//!
//! The checks of `Host` and `Origin` protect a local server from web pages: a
//! page elsewhere could otherwise make its visitor's browser call this server.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use contexture::config::ServerConfig;
use contexture::key::tenant_name;
use tracing::{error, info, warn};

use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::problem::{ErrorText, Problem};

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
    let id = request_id(request.headers());
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str).to_owned();
    if let Ok(value) = HeaderValue::from_str(&id) {
        request.headers_mut().insert(&REQUEST_ID, value);
    }
    let mut response = next.run(request).await;
    let time = came.elapsed();
    let status = response.status().as_u16();
    app.metrics().answered(method, &route, status, time);
    let error_text = response.extensions_mut().remove::<ErrorText>();
    let caller = response.extensions_mut().remove::<Caller>();
    let key = caller.as_ref().and_then(|caller| caller.key.as_deref());
    let tenant = caller.as_ref().map(|caller| tenant_name(&caller.tenant));
    let code = error_text.as_ref().map(|text| text.code);
    let detail = error_text.as_ref().and_then(|text| text.detail.as_deref());
    // Rounded to microseconds: more digits are noise.
    let ms = (time.as_secs_f64() * 1e6).round() / 1e3;
    match status {
        500.. if status != 503 => {
            error!(
                id,
                method, route, status, ms, tenant, key, code, detail, "request"
            );
        }
        503 => warn!(
            id,
            method, route, status, ms, tenant, key, code, detail, "request"
        ),
        _ => info!(id, method, route, status, ms, tenant, key, code, "request"),
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(&REQUEST_ID, value);
    }
    let version = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
    response.headers_mut().insert(&VERSION, version);
    response
}

/// Returns the caller's `x-request-id` if it is valid, otherwise a random id.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    let fits = |id: &&str| {
        (1..=64).contains(&id.len())
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match given.filter(fits) {
        Some(id) => id.to_owned(),
        None => {
            let mut bytes = [0_u8; 8];
            // Without random numbers, the id is all zeros. That is no reason to
            // reject a request.
            let _ = getrandom::fill(&mut bytes);
            format!("{:016x}", u64::from_be_bytes(bytes))
        }
    }
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
    if !is_our_host(app.config(), host.host()) {
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
        let allowed = &app.config().allowed_origins;
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

async fn authorize(app: App, scope: Scope, mut request: Request<Body>, next: Next) -> Response {
    let caller = match app.keys().cached(request.headers(), scope) {
        Some(cached) => cached,
        None => {
            let (keys, headers) = (app.clone(), request.headers().clone());
            app.run(move || keys.keys().check(&headers, scope)).await
        }
    };
    match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller.clone());
            let mut response = next.run(request).await;
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
