//! Contexture decides what a language model sees.
//!
//! You say where things are and how many tokens may be spent; it returns what
//! to send, and a report that accounts for every candidate.
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
//! An agent loop needs a store for its conversation: assemble, call the model,
//! record what it answered, again.
//!
//! ```
//! use std::sync::Arc;
//!
//! use contexture::store::{Ledger as _, NewSession};
//! use contexture::turn::turn_from_json;
//! use contexture::{Engine, Format, Request, Root, Timestamp};
//! use contexture_sqlite::SqliteStore;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let root = Root::open(path)?;
//! let store = Arc::new(SqliteStore::open(path.join("conversations.db"))?);
//! let new = NewSession { label: "support".into(), ..NewSession::default() };
//! store.create_session(&new, Timestamp::now())?;
//! let engine = Engine::for_root(&root)?.with_store(store);
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

/// Its examples are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/quickstart-rust.md")]
mod quick_start {}

mod account;
mod archetype;
mod assembled;
mod broker;
mod by_file;
mod calibration;
mod call;
pub mod compaction;
pub mod config;
mod engine;
mod error;
mod event;
mod files;
mod gather;
mod history;
mod init;
mod inject;
pub mod key;
pub mod loom;
pub mod memory;
mod recipe;
#[cfg(feature = "schema")]
pub mod schema;
mod session;
pub mod snapshot;
mod source;
mod task_stack;
mod token_counts;
pub mod turn;
pub mod working_set;
mod yaml;

pub use archetype::Archetypes;
pub use assembled::{Assembled, AssembledForm};
pub use contexture_core as core;
pub use contexture_providers::{Format, Refused, Sampling, usage_of};
pub use contexture_recall as recall;
pub use contexture_store as store;
pub use contexture_tokens as tokens;
pub use engine::{Engine, Request};
pub use error::{ActionCode, Cause, Error};
pub use event::{Attachment, Event, Hook, Sender};
pub use files::{Root, Unusable, check_path};
pub use init::{Scaffold, init};
pub use jiff::Timestamp;
pub use recipe::{LAYERS, Recipe, RecipeInfo, RecipeLayer, SOURCES, SourceKind};
pub use session::{CompactRequest, SessionCost, TurnCost};
pub use task_stack::{StackInfo, StackTasks, TaskChanged};
pub use token_counts::{FileTokens, TokenCounts};
