//! Changing the working set, by the rules for models.

use std::num::NonZeroU64;

use contexture::core::Cut;
use contexture::schema::{Fraction, NotBlank, RelativePath};
use contexture::working_set::actions::{Action, ActionKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::api::working_set::{self, Done, Which};
use crate::mcp::tool::{Answer, Effect, Tools};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A file to be added.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// The file, relative to the root; a pattern such as `src/**/*.rs`, or a
    /// folder; `#L10-L80` behind a file means those lines.
    #[schemars(with = "RelativePath")]
    path: String,
    /// How soon it is kept when not everything fits, from 0 to 1: 0.9 for what
    /// is worked on, 0.5 for what it depends on, 0.2 for background.
    #[schemars(with = "Fraction")]
    priority: f64,
    /// Why it is needed, in one sentence. It is kept in the log.
    #[schemars(with = "NotBlank")]
    why: String,
    /// How it may be shortened. Default: its end goes. `never` pins a file,
    /// which only a person may do.
    #[serde(default)]
    truncate_strategy: Option<Cut>,
    /// Most lines to show. Default: all.
    #[serde(default)]
    max_lines: Option<NonZeroU64>,
    /// The session whose log the change is noted in. Default: `default`.
    #[serde(default)]
    session: Option<String>,
}

/// A file to be removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Remove {
    /// The entry, as it stands in the working set.
    #[schemars(with = "RelativePath")]
    path: String,
    /// Why it is no longer needed, in one sentence. It is kept in the log.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The session whose log the change is noted in. Default: `default`.
    #[serde(default)]
    session: Option<String>,
}

/// A file whose priority changes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Adjust {
    /// The entry, as it stands in the working set.
    #[schemars(with = "RelativePath")]
    path: String,
    /// The new priority, from 0 to 1.
    #[schemars(with = "Fraction")]
    priority: f64,
    /// Why it matters more or less now, in one sentence. It is kept in the log.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The session whose log the change is noted in. Default: `default`.
    #[serde(default)]
    session: Option<String>,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<Done, Add>(
        "add_to_working_set",
        (
            "Add a file to the working set",
            "Adds a file, folder or pattern to those that requests are made from. Call it as soon \
             as you know that the next steps need it. What is pinned, and whose words a file \
             holds, is for a person to say. Files outside of the root are refused.",
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
    tools.add::<Done, Remove>(
        "remove_from_working_set",
        (
            "Remove a file from the working set",
            "Takes an entry out of those that requests are made from; the file itself stays. Call \
             it when the work with it is done, to make room. Pinned entries are for a person to \
             remove.",
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
    tools.add::<Done, Adjust>(
        "adjust_priority",
        (
            "Change a file's priority",
            "Gives an entry of the working set another priority: raise it when `context_report` \
             says that something important was cut or left out, lower it when something takes \
             room that others need.",
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
}

fn change(tenant: &Tenant, session: Option<String>, mut action: Action) -> Result<Answer, Problem> {
    action.why = action.why.trim().to_owned();
    let path = &action.path;
    let text = match &action.what {
        ActionKind::Add { priority, .. } => format!("added {path} at {priority}"),
        ActionKind::Remove => format!("removed {path}"),
        ActionKind::Adjust { priority } => format!("set {path} to {priority}"),
    };
    let which = Which {
        manifest: None,
        session,
    };
    let done = working_set::change(tenant, &which, vec![action])?;
    Ok(Answer::new(text, &done))
}
