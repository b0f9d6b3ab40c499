//! The main use of each command, from its input files to its output bytes.

mod forms;
mod guard;
mod init;
mod manifest;
mod models;
mod others;
mod private;
mod report;
mod working_set;

use crate::support::{NOW, Project, dedent, text, warnings};
use serde_json::{Value, json};

/// A project with one file of each role.
fn roles() -> Project {
    Project::new()
        .file("rules.md", "Be kind.\n")
        .file("task.md", "Mend the build.\n")
        .file("question.md", "Why does it fail?\n")
        .file("main.rs", "fn main() {}\n")
        .entries(
            "
            main.rs     0.8
            task.md     0.95 role=developer
            question.md 0.3  role=user
            rules.md    1.0  role=system truncate_strategy=never
            ",
        )
}

/// The first lines of every prompt of a project without `.agent`, less the
/// constitution's.
const HEADER_BEHIND_CONSTITUTION: &str = "\
Session: .contexture/sessions/default/
Output sink: output.md (append-only)
Working set: working-set.yml
Cache hints: none
Tool contract: All calls require `why`

";

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}:\n{text}"))
}

/// Returns the row of `id`, included or excluded.
#[track_caller]
fn row<'r>(report: &'r Value, id: &str) -> &'r Value {
    let rows = ["included", "excluded"].map(|list| report[list].as_array().unwrap());
    let mut found = rows.into_iter().flatten().filter(|row| row["id"] == id);
    let row = found
        .next()
        .unwrap_or_else(|| panic!("no {id} in {report:#}"));
    assert!(found.next().is_none(), "{id} is there twice");
    row
}

/// A file of a hundred numbered lines.
fn hundred() -> String {
    (1..=100)
        .map(|n| format!("line {n} of the story\n"))
        .collect()
}
