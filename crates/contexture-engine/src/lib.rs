//! The engine of Contexture: sources, recipes and the pipeline that assembles a
//! request from them.
//!
//! ```
//! use contexture_engine::{Engine, EventSource, Recipe, RecipeLayer, Request, Root};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let root = Root::open(path)?;
//! let recipe = Recipe::new("question", vec![RecipeLayer::new("event", "event")]);
//! let engine = Engine::builder().source(EventSource).recipe(recipe).build()?;
//! let request = Request {
//!     recipe: Some("question".into()),
//!     event: Some("Why does the build fail?".into()),
//!     ..Request::default()
//! };
//! let assembled = engine.assemble(&root, &request)?;
//! assert_eq!(assembled.report.recipe, "question");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Engine::builder`] builds an engine from a store, sources, recipes and
//! counters. A [`Recipe`] lists the layers of a request and the [`Source`] that
//! fills each. [`Engine::assemble`] calls the sources, fits their items into
//! the budget, lets the sources revise them, and returns the request with its
//! report.
//!
//! The only source in this crate is the current event. Files, history, looms
//! and memory are crates of their own, and a program's own sources use the same
//! trait. `contexture` is the engine with all of them.

mod account;
pub mod agent;
pub mod assembled;
pub mod cache;
pub mod calibration;
mod engine;
mod event;
mod event_source;
mod filters;
mod inline_source;
mod media;
mod pipeline;
pub mod recipe;
mod report;
mod request;
#[cfg(feature = "schema")]
pub mod schema;
pub mod snapshot;
pub mod source;
pub mod stored_report;
mod summariser;
mod tool_usage;
pub mod turn;

pub use agent::Agent;
pub use assembled::{Assembled, LayerInfo};
pub use cache::{CacheCause, CacheReport, Difference};
pub use contexture_project::{
    ActionCode, Advice, Cause, Error, Interface, Log, Operation, Permissions, Root, Shown,
    Unusable, Warning, advice, by_file, check_path, config, error, files, lines, masked,
    masked_json, masked_json_text, session_dir, session_files, trust, yaml,
};
pub use engine::{Engine, EngineBuilder, provider_of, usual_format};
pub use event::{Attachment, Event, Hook, Sender, time_zone};
pub use event_source::EventSource;
pub use filters::ContextFilters;
pub use inline_source::{ItemsSource, SystemSource};
pub use pipeline::{Preview, unknown_model};
pub use recipe::{LayerOrder, Recipe, RecipeInfo, RecipeLayer, RecipeRef};
pub use report::{HintVerdict, OTHER_API, Report, StaleResults};
pub use request::{GivenFields, GivenPart, GivenRequest, Request};
pub use source::{Ask, Concept, Offer, Outcome, Parameter, ParameterKind, Source};
pub use summariser::{Summariser, SummaryAsk, SummaryText};
pub use tool_usage::ToolUsage;

use contexture_core::Counts;
use contexture_core::guard::Policy;

/// Returns a name for the counter and the guard's policy; stored counts are
/// valid for one such name.
pub fn counter_name(counts: &Counts, policy: Policy) -> String {
    let masked = if policy.mask_secrets {
        "masked"
    } else {
        "plain"
    };
    // This number is increased when a change of the guard or of the counted
    // text changes counts.
    let name = format!("{}/{masked}/5", counts.counter().identity());
    match policy.template {
        Some(template) => format!("{name}/{template:?}"),
        None => name,
    }
}
