//! Imports transcripts of other programs: sessions into the ledger, trees into
//! looms, and the requests that were sent as snapshots.
//!
//! ```
//! use contexture_import::{Import, Options};
//! use contexture_sqlite::SqliteStore;
//!
//! # let directory = tempfile::tempdir()?;
//! # let store = SqliteStore::open(directory.path().join("contexture.db"))?;
//! # let file = directory.path().join("s1.jsonl");
//! # std::fs::write(&file, "{\"type\":\"user\",\"uuid\":\"u1\",\"parentUuid\":null,\"timestamp\":\"2026-02-02T10:00:00Z\",\"message\":{\"role\":\"user\",\"content\":\"Hi\"}}\n")?;
//! let format = contexture_import::format("claude-code").expect("is one of the formats");
//! let mut import = Import::new(&store, Options::default());
//! let report = import.path(format, &file)?;
//! assert_eq!(report.counts.turns, 1);
//! assert!(import.path(format, &file)?.counts.is_nothing_new());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A reader of a format turns rows into turns, compactions and requests, and
//! passes them to the [`Writer`], which writes them in batches. The progress of
//! a file's import and the state of its reader are stored with them. For an
//! unchanged file, only its metadata is read; for a file that grew, only the
//! new part.
//!
//! However a file grows between imports, the result is that of one import of the
//! whole file. For that, [`Options::settle`] holds back an end that may not be
//! complete, until it is or until the file has not changed for that time. A file that was
//! copied is not expected to grow, see [`Options::settle_by_rows`].

mod aider;
mod canonical;
mod chatgpt;
mod claude_code;
mod claude_export;
mod codex;
mod error;
mod exported;
mod fields;
mod file;
mod format;
mod gemini;
mod import;
mod lines;
mod loomsidian;
mod messages;
mod opencode;
mod report;
mod requests;
mod watch;
mod writer;

pub use error::ImportError;
pub use file::SourceFile;
pub use format::{Environment, Format, format, formats};
pub use import::{FileReport, Import, Options, Report};
pub use report::Counts;
pub use watch::watch;
pub use writer::{TurnRef, Writer};
