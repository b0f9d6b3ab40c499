//! Routes: the operations, `/mcp`, `/metrics`, `/openapi.json`, `/docs`, the
//! inspector at `/`, and the health checks.
//!
//! `/healthz` reports that the process runs, `/readyz` that the store can be read
//! and written. Both need no key.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use axum::{Router, middleware};
use contexture_api::{Api, Implementation, Operation};
use tower::ServiceBuilder;
use tower_http::cors::CorsLayer;

use crate::answer::{answer, answer_admin, json_response};
use crate::app::{self, App};
use crate::problem::{Problem, Respond as _};
use crate::{archives, continuations, drain, gate, listen, mcp, memory_streams, turns, ui};

/// How long metrics wait for the figures of the store. Scrapers wait 10 seconds.
const METRICS_PATIENCE: Duration = Duration::from_secs(2);

/// Returns the routes of all operations: those for tenants, and those that need an
/// admin key.
fn routes(api: Api) -> (Router<App>, Router<App>) {
    let (mut tenant, mut admin) = (Router::new(), Router::new());
    for operation in api.operations {
        let router = match operation.is_admin {
            true => &mut admin,
            false => &mut tenant,
        };
        let path = operation.path;
        *router = std::mem::take(router).route(path, route(operation));
    }
    (tenant, admin)
}

/// Returns the route of an operation.
fn route(operation: Operation) -> MethodRouter<App> {
    let filter = match operation.method {
        Method::GET => MethodFilter::GET,
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::PATCH => MethodFilter::PATCH,
        _ => MethodFilter::DELETE,
    };
    let id = operation.id;
    let operation = Arc::new(operation);
    let call = move |State(app): State<App>, request: Request<Body>| async move {
        match &operation.implementation {
            Implementation::Tenant(work) => answer(&app, request, &operation, work).await,
            Implementation::Admin(work) => answer_admin(&app, request, &operation, work).await,
            Implementation::Stream => app::no_such_path().await,
        }
    };
    match id {
        "listen_to_session" => on(filter, listen::listen),
        "record_turn" => on(filter, |State(app), request| turns::record(app, request)),
        "record_memory" => on(filter, move |State(app): State<App>, request| async move {
            match memory_streams::has_lines(&request) {
                Ok(true) => memory_streams::record(&app, request).await,
                Ok(false) => call(State(app), request).await,
                Err(problem) => problem.into_response(),
            }
        }),
        "export_memory" => on(filter, |State(app), request| {
            memory_streams::export_all(app, request)
        }),
        "continue_tree" => on(filter, move |State(app), request| {
            continuations::continue_tree(app, request, id)
        }),
        "admin_export_archive" => on(filter, |State(app), request| {
            archives::export_all(app, request)
        }),
        "admin_export_tenant" => on(filter, |State(app), request| {
            archives::export_tenant(app, request)
        }),
        "admin_import_archive" => on(filter, |State(app), request| {
            archives::import_all(app, request)
        }),
        "admin_import_tenant" => on(filter, |State(app), request| {
            archives::import_tenant(app, request)
        }),
        _ => on(filter, call),
    }
}

/// Returns the router of all paths.
pub(crate) fn router(app: &App) -> Router {
    let (tenant, admin) = routes(contexture_api::api());
    let admin = admin.layer(middleware::from_fn_with_state(
        app.clone(),
        gate::authenticate_for_admin,
    ));
    let with_key = tenant
        .merge(mcp::router(app))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            gate::authenticate,
        ));
    let metrics =
        Router::new()
            .route("/metrics", get(metrics))
            .layer(middleware::from_fn_with_state(
                app.clone(),
                gate::authenticate_for_metrics,
            ));
    Router::new()
        .merge(with_key)
        .merge(metrics)
        .merge(admin)
        .route("/openapi.json", get(openapi))
        .route("/docs", get(docs))
        .route("/", get(ui::index))
        .route("/ui/{hash}/{*name}", get(ui::asset))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .method_not_allowed_fallback(app::no_such_method)
        .fallback(app::no_such_path)
        .layer(ServiceBuilder::new().option_layer(cors(app)))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            gate::check_host_and_origin,
        ))
        .layer(middleware::from_fn(drain::drain))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            gate::log_request,
        ))
        .with_state(app.clone())
}

/// Returns the CORS headers for the allowed origins. `None` without any.
fn cors(app: &App) -> Option<CorsLayer> {
    let config = app.config();
    let origins: Vec<HeaderValue> = (config.allowed_origins)
        .iter()
        .filter_map(|origin| origin.parse().ok())
        .collect();
    let name = HeaderName::from_static;
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods([
                Method::GET,
                Method::POST,
                Method::PUT,
                Method::PATCH,
                Method::DELETE,
            ])
            .allow_headers([
                header::AUTHORIZATION,
                header::CONTENT_TYPE,
                name("x-request-id"),
                name("last-event-id"),
                name("mcp-protocol-version"),
                name("mcp-session-id"),
            ])
            .expose_headers([
                name("contexture-version"),
                name("x-request-id"),
                header::RETRY_AFTER,
                name("mcp-session-id"),
            ])
            .max_age(Duration::from_secs(600))
    })
}

async fn openapi(State(app): State<App>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], app.openapi()).into_response()
}

/// Returns the documentation page. It loads nothing from other sites.
async fn docs() -> Response {
    const PAGE: &str = include_str!("../assets/docs.html");
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    (headers, PAGE).into_response()
}

/// Reports that the process runs.
async fn healthz() -> Response {
    json_response(StatusCode::OK, br#"{"status":"ok"}"#.to_vec())
}

/// Reports that the store can be read and written.
async fn readyz(State(app): State<App>) -> Response {
    if app.is_stopping() {
        return Problem::unavailable("the server is stopping").into_response();
    }
    match app.ping().await {
        Ok(()) => json_response(StatusCode::OK, br#"{"status":"ready"}"#.to_vec()),
        Err(problem) => not_ready(problem).into_response(),
    }
}

/// Returns 503 for a full disk, too: load balancers expect one status.
fn not_ready(problem: Problem) -> Problem {
    match problem.status {
        StatusCode::INSUFFICIENT_STORAGE => Problem {
            detail: problem.detail,
            ..Problem::unavailable("the disk of the store is full")
                .hint("free disk space on the machine of the store")
        },
        _ => problem,
    }
}

async fn metrics(State(app): State<App>) -> Response {
    let waiting = i64::try_from(app.waiting()).unwrap_or(i64::MAX);
    app.metrics().waiting.set(waiting);
    let waiting = i64::try_from(app.waiting_for_models()).unwrap_or(i64::MAX);
    app.metrics().models.waiting.set(waiting);
    app.metrics().body_memory.set(app.reserved_memory());
    let stores = app.clone();
    let stats = app.run_apart(move || Ok(stores.tenants().stores().stats()?));
    // A store that does not answer has no newer figures; the others are still shown.
    if let Ok(Ok(stats)) = tokio::time::timeout(METRICS_PATIENCE, stats).await {
        app.metrics().upkeep.set(&stats);
    }
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media)], app.metrics().render()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_a_full_disk_is_not_ready() {
        let status = StatusCode::INSUFFICIENT_STORAGE;
        let full = not_ready(Problem::new(status, "store_full", "full"));
        assert_eq!((full.status.as_u16(), full.code), (503, "unavailable"));
        assert_eq!(full.retry_after, Some(1));
        assert_eq!(not_ready(Problem::failure("bug")).status.as_u16(), 500);
    }

    /// [`route`] has a handler for each of these.
    #[test]
    fn every_stream_has_a_handler() {
        let api = contexture_api::api();
        let streams = (api.operations.iter())
            .filter(|operation| matches!(operation.implementation, Implementation::Stream));
        let ids: Vec<&str> = streams.map(|operation| operation.id).collect();
        assert_eq!(
            ids,
            [
                "record_turn",
                "listen_to_session",
                "export_memory",
                "continue_tree",
                "admin_export_archive",
                "admin_export_tenant",
                "admin_import_archive",
                "admin_import_tenant",
            ]
        );
    }
}
