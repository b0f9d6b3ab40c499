//! The tools `add_to_working_set`, `remove_from_working_set` and
//! `adjust_priority`, with the rules for models.

use std::num::NonZeroU64;

use contexture::core::Cut;
use contexture::schema::{Fraction, NotBlank, RelativePath};
use contexture::working_set::actions::{Action, ActionKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::tool::{Answer, Effect, Tools};
use contexture_api::working_set::{self, WorkingSetChanged, WorkingSetQuery};
use contexture_api::{Problem, Tenant};

/// The arguments of `add_to_working_set`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// A file, folder or pattern such as `src/**/*.rs`, relative to the root.
    /// Append `#L10-L80` to a file to include only those lines.
    #[schemars(with = "RelativePath")]
    path: String,
    /// The priority, from 0 to 1: 0.9 for files you work on, 0.5 for their
    /// dependencies, 0.2 for background.
    #[schemars(with = "Fraction")]
    priority: f64,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The part that a cut removes. Default: `end`. `never` pins a file, which
    /// only a person can do.
    #[serde(default)]
    truncate_strategy: Option<Cut>,
    /// The maximum number of lines. Default: all.
    #[serde(default)]
    max_lines: Option<NonZeroU64>,
    /// The session whose event log records the change. Default: `default`.
    #[serde(default)]
    session: Option<String>,
}

/// The arguments of `remove_from_working_set`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Remove {
    /// The entry as it is in the working set.
    #[schemars(with = "RelativePath")]
    path: String,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The session whose event log records the change. Default: `default`.
    #[serde(default)]
    session: Option<String>,
}

/// The arguments of `adjust_priority`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Adjust {
    /// The entry as it is in the working set.
    #[schemars(with = "RelativePath")]
    path: String,
    /// The new priority, from 0 to 1.
    #[schemars(with = "Fraction")]
    priority: f64,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The session whose event log records the change. Default: `default`.
    #[serde(default)]
    session: Option<String>,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<WorkingSetChanged, Add>(
        "add_to_working_set",
        (
            "Add a file to the working set",
            "Adds a file, folder or pattern to the files that requests are assembled from. Only a \
             person can pin files or set their role. Files outside the root are rejected.",
        ),
        Effect::AddsOnce,
        |tenant, add: Add| {
            let action = json!({
                "action": "add_to_working_set",
                "path": add.path,
                "priority": add.priority,
                "why": add.why,
                "truncate_strategy": add.truncate_strategy,
                "max_lines": add.max_lines,
            });
            let action =
                Action::deserialize(action).map_err(|error| Problem::failure(error.to_string()))?;
            change(tenant, add.session, action)
        },
    );
    tools.add::<WorkingSetChanged, Remove>(
        "remove_from_working_set",
        (
            "Remove a file from the working set",
            "Removes an entry, but not the file itself. Call it when the file is no longer needed. \
             Only a person can remove pinned entries.",
        ),
        Effect::Replaces,
        |tenant, remove: Remove| {
            let action = Action {
                what: ActionKind::Remove,
                path: remove.path,
                why: remove.why,
            };
            change(tenant, remove.session, action)
        },
    );
    tools.add::<WorkingSetChanged, Adjust>(
        "adjust_priority",
        (
            "Change a priority",
            "Changes the priority of an entry. Raise it if `context_report` shows that an \
             important file was cut or dropped; lower it to free tokens for other files.",
        ),
        Effect::Replaces,
        |tenant, adjust: Adjust| {
            let action = Action {
                what: ActionKind::Adjust {
                    priority: adjust.priority,
                },
                path: adjust.path,
                why: adjust.why,
            };
            change(tenant, adjust.session, action)
        },
    );
    tools.list_briefly(
        "add_to_working_set",
        "Adds a file, folder or pattern to the context.",
        &[],
    );
    tools.list_briefly(
        "remove_from_working_set",
        "Removes an entry from the context, but not the file.",
        &[],
    );
}

fn change(tenant: &Tenant, session: Option<String>, mut action: Action) -> Result<Answer, Problem> {
    action.why = action.why.trim().to_owned();
    let path = &action.path;
    let text = match &action.what {
        ActionKind::Add { priority, .. } => format!("added {path} at {priority}"),
        ActionKind::Remove => format!("removed {path}"),
        ActionKind::Adjust { priority } => format!("set {path} to {priority}"),
    };
    let query = WorkingSetQuery {
        manifest: None,
        session,
    };
    let done = working_set::change(tenant, &query, vec![action])?;
    Ok(Answer::new(text, &done))
}
