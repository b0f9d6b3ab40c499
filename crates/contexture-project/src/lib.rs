//! A project on disk: files below its root, its settings, and whether they are
//! trusted.
//!
//! ```
//! use contexture_project::Root;
//! use contexture_project::config::Config;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! # std::fs::write(path.join("contexture.toml"), "recipe = 'broker'\n")?;
//! let root = Root::open(path)?;
//! let config = Config::read(&root)?;
//! assert_eq!(config.recipe, "broker");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Root`] reads and writes files without leaving the project's directory.
//! [`config`] has every setting of `contexture.toml`, and [`trust`] decides
//! which of them are active. [`Error`] and [`Warning`] carry [`Advice`] as
//! data, which each interface phrases in its own words.

pub mod advice;
pub mod by_file;
pub mod config;
pub mod error;
pub mod files;
pub mod lines;
pub mod log;
mod permissions;
pub mod session_files;
mod shown;
pub mod trust;
pub mod yaml;

pub use advice::{Advice, Interface, Operation, Warning};
pub use error::{ActionCode, Cause, Error};
pub use files::{Root, Unusable, check_path};
pub use log::{Log, masked, masked_json, masked_json_text, session_dir};
pub use permissions::Permissions;
pub use shown::Shown;
