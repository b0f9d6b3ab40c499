//! Assembling a request, and the account of it.

use std::fmt::Write as _;

use contexture::core::grouped;
use contexture::memory::ContextFilters;
use contexture::schema::AtLeastOne;
use contexture::store::AgentRole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::assemble::{AssembleBody, Form, Made, assemble};
use crate::mcp::tool::{Answer, Effect, Tools};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// How many rows of a report are listed; the rest are counted.
const MOST_ROWS: usize = 200;

/// What is to be assembled. Everything has a default.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::mcp) struct AssembleArguments {
    /// The session whose history goes into the request: its label or alias.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::mcp) session: Option<String>,
    /// What is asked now, such as the user's latest message. It is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::mcp) event: Option<String>,
    /// What goes into the request: `working-set` (files), `broker` (an agent's
    /// conversation, with memory), `memory`, `task-stack`, `loom-dialogue`,
    /// `loom-buffer`, or a recipe file below the root. Default: the configured
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::mcp) recipe: Option<String>,
    /// The model that the request is for, such as `claude-sonnet-4-5`: decides
    /// the window and how tokens are counted. Default: the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The whole window in tokens. Default: what the manifest says, else the
    /// model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AtLeastOne>")]
    pub(in crate::mcp) max_tokens: Option<u64>,
    /// Tokens kept free for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserve_response: Option<u64>,
    /// What memory is asked for, in recipes with memory. Default: the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// What memory may find.
    #[serde(skip_serializing_if = "Option::is_none")]
    filters: Option<ContextFilters>,
    /// The archetype whose strategy memory follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    /// The stack of tasks, in the recipe `task-stack`. Default: `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<String>,
    /// The agent's role. Default: unified.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<AgentRole>,
    /// What the agent is to do. Default: what the session says.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// The tree, in recipes for looms.
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<String>,
    /// The place in the tree: a node's id or short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    /// The form of the request: `text` to read it, a provider's to send it.
    format: FormArgument,
}

/// The form of a request: text, unless another is named.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct FormArgument(Form);

impl Default for FormArgument {
    fn default() -> Self {
        Self(Form::Text)
    }
}

impl AssembleArguments {
    /// Returns the same for Contexture's own form.
    pub(in crate::mcp) fn in_our_form(self) -> Self {
        Self {
            format: FormArgument(Form::Json),
            ..self
        }
    }
}

/// What is to be known of a request beside its text.
#[derive(Debug, Serialize, JsonSchema)]
struct Sent {
    /// What the request is kept by: `contexture snapshot show` shows it again.
    snapshot: Option<String>,
    /// The tokens of the request.
    tokens: u64,
    /// The model it is for.
    model: String,
    /// The form it is in.
    format: Form,
    /// The session.
    session: Option<String>,
    /// The parent of the turn that answers: send it along when that is recorded.
    parent_turn_id: Option<String>,
    /// What a person should look at.
    warnings: Vec<String>,
}

/// What became of every candidate.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::mcp) struct Account {
    /// The recipe that was followed.
    recipe: String,
    /// The model the request is for.
    model: String,
    /// The whole window.
    max: u64,
    /// What is set aside for the answer and for tools.
    reserved: u64,
    /// What the request costs.
    used: u64,
    /// What is left of it.
    available: u64,
    /// What is in the request, in the order it is sent.
    included: Vec<Row>,
    /// What is not, in the order it was offered.
    excluded: Vec<Row>,
    /// How many rows there are beyond those.
    unlisted: usize,
    /// What a person should look at.
    warnings: Vec<String>,
    /// What the request is kept by.
    snapshot: Option<String>,
}

/// What became of a candidate.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Row {
    /// Its name: a path, or what it is.
    id: String,
    /// Its layer.
    layer: String,
    /// What it costs, or would have cost.
    tokens: u64,
    /// What it would have cost whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_tokens: Option<u64>,
    /// Whether it was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// Its priority.
    priority: f64,
    /// Why: a stable word.
    code: String,
    /// Why, in words.
    reason: String,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<Sent, AssembleArguments>(
        "assemble",
        (
            "Assemble a request",
            "Makes the exact request to send to a model: gathers files, history, memory and tasks \
             as the recipe says, fits them into the token budget, and returns the text. Call it \
             before each call of a model, or to see what a model would see now. The request is \
             kept and can be looked up by `snapshot`. A history that has become too long for the \
             window is summarised first. Nothing is sent anywhere.",
        ),
        Effect::Keeps,
        |tenant, arguments| {
            let made = made(tenant, &arguments, false)?;
            let sent = Sent {
                snapshot: text_of(&made, "snapshot"),
                tokens: made["tokens"].as_u64().unwrap_or_default(),
                model: text_of(&made, "model").unwrap_or_default(),
                format: arguments.format.0,
                session: text_of(&made, "session_label"),
                parent_turn_id: text_of(&made, "parent_turn_id"),
                warnings: read(&made["warnings"])?,
            };
            let text = match &made["request"] {
                Value::String(text) => text.clone(),
                request => request.to_string(),
            };
            Ok(Answer::new(text, &sent))
        },
    );
    tools.add::<Account, AssembleArguments>(
        "context_report",
        (
            "Say what was kept and what was cut",
            "Says what became of every candidate for a request: what is in it whole, what was cut, \
             what was left out, each with its cost, a stable code and the reason. Call it when \
             something seems to be missing from the context, or before changing the working set. \
             Reports are not kept: the request is assembled again (and not sent), so give the same \
             arguments as to `assemble`.",
        ),
        Effect::Keeps,
        |tenant, arguments| {
            let account = account(tenant, &arguments)?;
            Ok(Answer::new(account.text(), &account))
        },
    );
}

/// Assembles a request and returns it as it would be answered over HTTP.
pub(in crate::mcp) fn made(
    tenant: &Tenant,
    arguments: &AssembleArguments,
    report: bool,
) -> Result<Value, Problem> {
    let mut body = json!(arguments);
    body["report"] = report.into();
    let body: AssembleBody = read(&body)?;
    let made: Made = assemble(tenant, body)?;
    let mut made = json!(made);
    // Our own form is the whole answer.
    if arguments.format.0 == Form::Json {
        let used = made["report"]["budget"]["used"].clone();
        let warnings = made["report"]["warnings"].clone();
        made = json!({
            "tokens": used,
            "warnings": warnings,
            "snapshot": made["snapshot"],
            "model": made["model"],
            "session_label": made["session_label"],
            "parent_turn_id": made["parent_turn_id"],
            "report": made["report"],
            "request": made,
        });
    }
    Ok(made)
}

/// Returns what became of every candidate for a request.
pub(in crate::mcp) fn account(
    tenant: &Tenant,
    arguments: &AssembleArguments,
) -> Result<Account, Problem> {
    let made = made(tenant, arguments, true)?;
    let report = &made["report"];
    let mut unlisted = 0;
    let mut rows = |name: &str| -> Result<Vec<Row>, Problem> {
        let all = report[name].as_array().map_or(&[][..], Vec::as_slice);
        unlisted += all.len().saturating_sub(MOST_ROWS);
        all.iter().take(MOST_ROWS).map(read).collect()
    };
    let (included, excluded) = (rows("included")?, rows("excluded")?);
    let number = |name: &str| report["budget"][name].as_u64().unwrap_or_default();
    Ok(Account {
        recipe: text_of(report, "recipe").unwrap_or_default(),
        model: text_of(report, "model").unwrap_or_default(),
        max: number("max"),
        reserved: number("reserved"),
        used: number("used"),
        available: number("available"),
        included,
        excluded,
        unlisted,
        warnings: read(&made["warnings"])?,
        snapshot: text_of(&made, "snapshot"),
    })
}

impl Account {
    /// Returns it as somebody reads it.
    pub(in crate::mcp) fn text(&self) -> String {
        let mut text = format!(
            "{} for {}: {} of {} tokens used, {} reserved, {} left\n",
            self.recipe,
            self.model,
            grouped(self.used),
            grouped(self.max),
            grouped(self.reserved),
            grouped(self.available),
        );
        for row in &self.excluded {
            let _ = writeln!(text, "out   {}", row.text());
        }
        for (fate, truncated) in [("cut ", true), ("kept", false)] {
            for row in self
                .included
                .iter()
                .filter(|row| row.truncated == truncated)
            {
                let _ = writeln!(text, "{fate}  {}", row.text());
            }
        }
        if self.unlisted > 0 {
            let _ = writeln!(text, "and {} more", self.unlisted);
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        text
    }
}

impl Row {
    fn text(&self) -> String {
        let of = match self.original_tokens.filter(|_| self.truncated) {
            Some(whole) => format!(" of {}", grouped(whole)),
            None => String::new(),
        };
        format!(
            "{} ({}): {}{of} tokens; {} ({})",
            self.id,
            self.layer,
            grouped(self.tokens),
            self.reason,
            self.code,
        )
    }
}

fn text_of(value: &Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    T::deserialize(value).map_err(|error| Problem::failure(error.to_string()))
}
