//! Contexture decides what a language model sees.
//!
//! You give it the sources and a token budget. It returns the request to send,
//! and a report that accounts for every candidate.
//!
//! ```
//! use contexture::{Engine, Format, Request, Root};
//!
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("rules.md"), "Answer briefly.\n")?;
//! # std::fs::write(dir.path().join("notes.md"), "We ship on Friday.\n")?;
//! # std::fs::write(dir.path().join("working-set.yml"), "protocol: CONTEXT-ASSEMBLY/0.1\n\
//! # budget: {max_tokens: 8000, reserved_for_response: 1000}\nfiles:\n\
//! # - {path: rules.md, priority: 1.0, role: system, truncate_strategy: never}\n\
//! # - {path: notes.md, priority: 0.5}\n")?;
//! # let path = dir.path();
//! let root = Root::open(path)?;
//! let engine = Engine::for_root(&root)?;
//! let assembled = engine.assemble(&root, &Request::default())?;
//! assert!(assembled.render(Format::Text)?.contains("We ship on Friday."));
//! assert!(assembled.report.budget.used <= 7000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An agent loop needs a store for its conversation: assemble a request, call
//! the model, record its answer, repeat.
//!
//! ```
//! use std::sync::Arc;
//!
//! use contexture::store::NewSession;
//! use contexture::turn::turn_from_json;
//! use contexture::{Engine, Format, Request, Root};
//! use contexture_sqlite::SqliteStore;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let root = Root::open(path)?;
//! let store = Arc::new(SqliteStore::open(path.join("conversations.db"))?);
//! let new = NewSession { label: "support".into(), ..NewSession::default() };
//! let engine = Engine::builder().root(&root)?.store(store).build()?;
//! engine.create_session(&root, &new, None)?;
//!
//! let request = Request {
//!     recipe: Some("broker".into()),
//!     session: Some("support".into()),
//!     event: Some("Why does the build fail?".into()),
//!     ..Request::default()
//! };
//! let body = engine.assemble(&root, &request)?.render(Format::OpenAiChat)?;
//! # assert!(body.contains("Why does the build fail?"));
//! // Send it; then:
//! let turn = turn_from_json("the answer", r#"{"messages":[
//!     {"role":"user","content":"Why does the build fail?"},
//!     {"role":"assistant","content":"foo is never linked."}]}"#)?;
//! engine.record("support", &turn, None)?;
//! # let again = engine.assemble(&root, &request)?;
//! # assert!(again.render(Format::Text)?.contains("foo is never linked."));
//! # assert!(again.report.cache.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The examples of the quick start, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/quickstart-rust.md")]
mod quick_start {}

mod assembled;
mod continuation;
mod engine;
mod fit;
pub mod key;
pub mod recipes;
mod token_counts;

pub use assembled::{Assembled, AssembledForm};
pub use contexture_archive as archive;
pub use contexture_core as core;
pub use contexture_engine::files::replace_file;
#[cfg(feature = "schema")]
pub use contexture_engine::schema;
pub use contexture_engine::{
    ActionCode, Advice, Ask, Attachment, CacheCause, CacheReport, Cause, Concept, Difference,
    Error, Event, HintVerdict, Hook, Interface, LayerOrder, Offer, Operation, Outcome, Parameter,
    ParameterKind, Preview, Recipe, RecipeInfo, RecipeLayer, RecipeRef, Report, Request, Root,
    Sender, Shown, Source, StaleResults, Summariser, SummaryAsk, SummaryText, Unusable, Warning,
    advice, check_path, config, counter_name, masked, provider_of, session_files, snapshot, source,
    stored_report, trust, turn, usual_format,
};
pub use contexture_extract as extract;
pub use contexture_files::{
    Proposal, ProposedEntry, Scaffold, existing_manifest, init, propose, working_set,
};
pub use contexture_history::{
    CompactRequest, FetchRequest, Fetched, PinRequest, Recording, SessionCost, TurnCost,
    compaction, facts,
};
pub use contexture_loom as loom;
pub use contexture_memory as memory;
pub use contexture_memory::{Archetype, Archetypes, StackInfo, StackTasks, TaskChanged};
pub use contexture_providers::{Format, Refused, Sampling, native, usage_of};
pub use contexture_recall as recall;
pub use contexture_store as store;
pub use contexture_tokens as tokens;
pub use contexture_words as words;
pub use continuation::{MAX_SAMPLES, SampleEvent};
pub use engine::{Engine, EngineBuilder};
pub use fit::{FitOptions, Fitted};
pub use jiff::Timestamp;
pub use token_counts::{FileTokens, TokenCounts};
