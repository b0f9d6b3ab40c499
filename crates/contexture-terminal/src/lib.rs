//! Contexture's values as text for a terminal: reports, recalls, histories, costs,
//! comparisons and trees.
//!
//! ```
//! use contexture::{Engine, Request, Root};
//!
//! # let dir = tempfile::tempdir()?;
//! # std::fs::write(dir.path().join("notes.md"), "We ship on Friday.\n")?;
//! # std::fs::write(dir.path().join("working-set.yml"), "protocol: CONTEXT-ASSEMBLY/0.1\n\
//! # budget: {max_tokens: 8000, reserved_for_response: 1000}\nfiles:\n\
//! # - {path: notes.md, priority: 0.5}\n")?;
//! # let path = dir.path();
//! let root = Root::open(path)?;
//! let assembled = Engine::for_root(&root)?.assemble(&root, &Request::default())?;
//! let table = contexture_terminal::report::table(&assembled, Some(80));
//! assert!(table.contains("notes.md"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here is a function from a value to a text, with ANSI colours. Names and
//! content pass through [`text::visible`], so that control characters cannot change
//! the terminal. Nothing is printed, and no argument is read: that is the command's.
//! [`CommandLine`] phrases advice with the command's flags.

pub mod cost;
pub mod history;
mod interface;
pub mod proposal;
pub mod recall;
pub mod report;
pub mod snapshot;
pub mod stored;
mod table;
pub mod tasks;
pub mod text;
pub mod tree;

pub use interface::{CommandLine, quoted};
pub use table::{plain, table};
