//! The Contexture server: the engine over HTTP and MCP.
//!
//! ```
//! let document = contexture_server::openapi();
//! assert!(document["paths"]["/v1/assemble"]["post"].is_object());
//! ```
//!
//! Every operation is declared once. The declaration creates both the route and
//! the entry in the OpenAPI document. The engine blocks, so each call runs in a
//! thread. Each tenant has an engine of its own.
//!
//! A request passes `gate` (logging, host, key), is read by `body` and `json`,
//! and checked against its schema by `schema`. It is answered by an operation in
//! `api` or by a tool in `mcp`. Errors are `problem::Problem`s.

use std::sync::OnceLock;

use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload as log_reload;
use tracing_subscriber::util::SubscriberInitExt as _;

mod api;
mod app;
mod auth;
mod background;
mod body;
mod cores;
mod drain;
mod events;
mod face;
mod gate;
mod held_place;
mod idempotency;
mod json;
mod large_answer;
mod limits;
mod linger;
mod mcp;
mod metrics;
mod openapi;
mod operation;
mod places;
mod priority;
mod problem;
mod quota;
mod reload;
mod router;
mod schedule;
mod schema;
mod serve;
mod shared_counts;
mod stored_files;
mod stream_core;
mod tenant;
mod traces;
mod ui;

pub use mcp::{ToolList, mcp_stdio};
pub use metrics::Metrics;
pub use reload::{ReadSettings, Reloaded, Reloader, UnchangedTenant};
pub use schedule::BackUp;
pub use serve::{Server, Service};

/// The filter of the log, which can change while the server runs.
static LOG: OnceLock<log_reload::Handle<Targets, Registry>> = OnceLock::new();

/// Starts the log on standard error, with one line of JSON per request. Messages
/// of libraries are omitted, because they can contain content.
pub fn log(level: &str) {
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_target(false)
        .with_writer(std::io::stderr);
    let (ours, handle) = log_reload::Layer::new(of_level(level));
    // Fails if the program has a logger of its own, which is then kept.
    let started = tracing_subscriber::registry()
        .with(ours)
        .with(lines)
        .try_init();
    if started.is_ok() {
        let _ = LOG.set(handle);
    }
}

/// Changes the level of the log, if [`log`] started it.
pub(crate) fn set_log_level(level: &str) {
    if let Some(handle) = LOG.get() {
        // Fails after the log has ended, with the program.
        let _ = handle.reload(of_level(level));
    }
}

fn of_level(level: &str) -> Targets {
    let level: LevelFilter = level.parse().unwrap_or(LevelFilter::INFO);
    Targets::new().with_target("contexture_server", level)
}

/// Returns the OpenAPI document.
pub fn openapi() -> serde_json::Value {
    let api = router::api();
    openapi::document(&api, &api.schemas())
}

/// Returns the example calls in an order in which they succeed: the id of the
/// operation, the method, the path with its query, and the body.
#[doc(hidden)]
pub fn examples() -> Vec<(String, String, String, Option<serde_json::Value>)> {
    openapi::examples(&router::api())
}

/// Reads a body as the operation of that id does, up to its schema. For fuzzing.
#[doc(hidden)]
pub fn read_body(operation: &str, body: &[u8]) -> Result<serde_json::Value, String> {
    static SCHEMAS: OnceLock<schema::Schemas> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| router::api().schemas());
    json::read(schemas, operation, body, json::MOST_VALUES).map_err(|problem| problem.message)
}
