//! The engine with its built-in sources, as a user of the library meets it.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod actions;
mod archetype;
mod background_snapshots;
mod budget_law;
mod cache;
mod calibration;
mod compaction;
mod compaction_ahead;
mod extend;
mod facts;
mod fit;
mod fit_given;
mod fit_law;
mod fit_media;
mod fit_messages;
mod fit_session;
mod history;
mod loom_cost;
mod manifest;
mod media;
mod models;
mod native;
mod pairing;
mod pins;
mod recipe;
#[cfg(feature = "schema")]
mod schema;
mod sent;
mod small_windows;
mod snapshots;
mod sources;
mod stale_results;
#[cfg(feature = "http")]
mod summariser;
mod tool_results;
mod tool_share;
mod trust;
