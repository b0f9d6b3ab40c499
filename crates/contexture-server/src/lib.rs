//! The Contexture server: the engine over HTTP and MCP.
//!
//! ```
//! let document = contexture_server::openapi();
//! assert!(document["paths"]["/v1/assemble"]["post"].is_object());
//! ```
//!
//! The operations are those of `contexture-api`, and the tools those of
//! `contexture-mcp`. This crate is what runs them for many callers at once: sockets,
//! tenants and their keys, limits, places, events, metrics, traces, and the
//! inspector. The engine blocks, so each call runs in a thread. Each tenant has an
//! engine of its own.
//!
//! A request passes `gate` (logging, host, key) and is read by `body`. `answer`
//! finds its tenant, waits for an execution slot and runs the operation;
//! operations with a stream have a module of their own. Errors are `Problem`s.

use std::sync::OnceLock;

use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload as log_reload;
use tracing_subscriber::util::SubscriberInitExt as _;

mod answer;
mod app;
mod archives;
mod auth;
mod background;
mod body;
mod call_slot;
mod continuations;
mod cores;
mod drain;
mod events;
mod gate;
mod idempotency;
mod large_answer;
mod limits;
mod linger;
mod listen;
mod mcp;
mod memory_streams;
mod metrics;
mod parts;
mod priority;
mod problem;
mod quota;
mod reload;
mod router;
mod schedule;
mod serve;
mod shared_counts;
mod slots;
mod stream_core;
mod tenant;
mod traces;
mod turns;
mod ui;

pub use contexture_api::{Reloaded, UnchangedTenant, examples, openapi, read_body};
pub use contexture_mcp::ToolList;
pub use mcp::mcp_stdio;
pub use metrics::Metrics;
pub use reload::{ReadSettings, Reloader};
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
    // The crates whose messages have no content.
    let ours = ["contexture_server", "contexture_api", "contexture_mcp"];
    Targets::new().with_targets(ours.map(|name| (name, level)))
}
