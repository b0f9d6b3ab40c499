//! What every request passes: it is noted, it must have been meant for us, and
//! whoever sent it must be let in.

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
use crate::auth::{Caller, Door};
use crate::problem::{ErrorText, Problem};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Notes a request and its answer: the route, not the path, which may hold
/// names; no content, no key.
pub(crate) async fn note(
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
    let told = response.extensions_mut().remove::<ErrorText>();
    let caller = response.extensions_mut().remove::<Caller>();
    let key = caller.as_ref().and_then(|caller| caller.key.as_deref());
    let tenant = caller.as_ref().map(|caller| tenant_name(&caller.tenant));
    let code = told.as_ref().map(|told| told.code);
    let detail = told.as_ref().and_then(|told| told.detail.as_deref());
    // To the microsecond: more digits are noise.
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
    response
}

/// Returns the id that the caller gave the request, if it can be one, else a new
/// one.
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
            // Without random numbers, the id says nothing; that is no reason to
            // refuse a request.
            let _ = getrandom::fill(&mut bytes);
            format!("{:016x}", u64::from_be_bytes(bytes))
        }
    }
}

/// Methods that anybody may think of would make rows without end.
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

/// Refuses what was not meant for us: a page somewhere else whose visitor's
/// browser calls us (by a name that leads to us, or across origins).
pub(crate) async fn meant_for_us(
    State(app): State<App>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let path = request.uri().path();
    // Whoever watches the server calls it by any name.
    if matches!(path, "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let host = match host_of(&request) {
        Ok(host) => host,
        Err(problem) => return problem.into_response(),
    };
    if !is_our_host(app.config(), host.host()) {
        let message = "this server does not go by the name in `Host`";
        return Problem::new(StatusCode::FORBIDDEN, "foreign_host", message)
            .hint("call it by its address, or add the name to `allowed_hosts` in its settings")
            .into_response();
    }
    let headers = request.headers();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let allowed = origins.all(|origin| {
        let allowed = &app.config().allowed_origins;
        allowed.iter().any(|allowed| origin == allowed.as_str()) || is_same(origin, &host)
    });
    if !allowed {
        let message = "pages of this origin may not call this server";
        return Problem::new(StatusCode::FORBIDDEN, "foreign_origin", message)
            .hint("add it to `allowed_origins` in the server's settings")
            .into_response();
    }
    next.run(request).await
}

fn host_of(request: &Request<Body>) -> Result<Authority, Problem> {
    let wrong = || Problem::bad_request("invalid_host", "the request does not say whom it is for");
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next(), request.uri().authority()) {
        // What is written before the path counts more than the header.
        (_, None, Some(authority)) => Some(authority.clone()),
        (Some(host), None, None) => host.to_str().ok().and_then(|host| host.parse().ok()),
        _ => None,
    };
    host.ok_or_else(wrong)
}

/// An address cannot be made to lead to us by somebody else, as a name can.
fn is_our_host(config: &ServerConfig, host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || (config.allowed_hosts.iter()).any(|allowed| allowed.eq_ignore_ascii_case(host))
}

/// Returns true when a page of `origin` was loaded from `host`.
fn is_same(origin: &HeaderValue, host: &Authority) -> bool {
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let bare = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    bare.is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_str()))
}

/// Lets in who has a key, and notes who it is.
pub(crate) async fn let_in(State(app): State<App>, request: Request<Body>, next: Next) -> Response {
    pass(app, Door::Tenant, request, next).await
}

/// The same for who may see what is measured.
pub(crate) async fn let_in_to_metrics(
    State(app): State<App>,
    request: Request<Body>,
    next: Next,
) -> Response {
    pass(app, Door::Metrics, request, next).await
}

async fn pass(app: App, door: Door, mut request: Request<Body>, next: Next) -> Response {
    let caller = match app.keys().known(request.headers(), door) {
        Some(known) => known,
        None => {
            let (keys, headers) = (app.clone(), request.headers().clone());
            app.run(move || keys.keys().check(&headers, door)).await
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

/// Returns true when nobody but this machine can reach the address.
pub(crate) fn is_loopback(addr: &SocketAddr) -> bool {
    addr.ip().is_loopback()
}
