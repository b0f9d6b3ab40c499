//! Every invalid input of the command, with its error message.
//!
//! Each case ends with the right exit code and a message with the position and
//! a hint. No case panics, and none leaves files written or half written.

mod actions;
mod budget;
mod call;
mod files;
mod hints;
mod manifest;
mod settings;
mod writers;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{BIN, Call as _, NOW, Project, fates, run};
use tempfile::TempDir;

/// A project with a pinned file, a plain one, and one that is not listed.
fn small() -> Project {
    Project::new()
        .file("rules.md", "Be kind.\n")
        .file("a.md", "alpha\n")
        .file("b.md", "beta\n")
        .entries(
            "
            rules.md 1.0 role=system truncate_strategy=never
            a.md     0.5
            ",
        )
}

/// A turn with a tool result.
const TURN_WITH_TOOL: &str = r#"{"messages":[
    {"role":"assistant","content":[{"type":"tool_call","id":"c1","name":"shell","arguments":{"command":"make"}}]},
    {"role":"tool","tool_call_id":"c1","content":"undefined reference to foo"}]}"#;
