//! The server of Contexture: HTTP, OpenAPI and MCP over the whole engine.
//!
//! Every operation is declared once ([`operation`](crate)), does its work in a
//! thread that may wait, and is described by the OpenAPI document that is made
//! from the same declaration. Each tenant has an engine of its own.

mod api;
mod app;
mod auth;
mod body;
mod events;
mod face;
mod gate;
mod json;
mod linger;
mod mcp;
mod metrics;
mod openapi;
mod operation;
mod problem;
mod router;
mod schema;
mod serve;
mod tenant;

pub use mcp::mcp_stdio;
pub use metrics::Metrics;
pub use serve::{Server, Service};

/// Writes the log to standard error from now on, a line of JSON for each
/// request. Only what this server says is in it: what libraries say may hold
/// content.
pub fn log(level: &str) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let level: LevelFilter = level.parse().unwrap_or(LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_target(false)
        .with_writer(std::io::stderr);
    let ours = Targets::new().with_target("contexture_server", level);
    // It fails when a program that uses us logs already, which is then its own.
    let _ = tracing_subscriber::registry()
        .with(ours)
        .with(lines)
        .try_init();
}

/// Returns the OpenAPI document.
pub fn openapi() -> serde_json::Value {
    let api = router::api();
    openapi::document(&api, &api.schemas())
}

/// Returns the calls that the OpenAPI document shows, in an order in which they
/// can be made: the id of the operation, the method, the path with its query,
/// and the body.
#[doc(hidden)]
pub fn examples() -> Vec<(String, String, String, Option<serde_json::Value>)> {
    openapi::examples(&router::api())
}
