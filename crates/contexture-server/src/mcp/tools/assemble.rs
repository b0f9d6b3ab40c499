//! Assembling a request, and the account of it.

use std::borrow::Cow;
use std::fmt::Write as _;

use contexture::core::{Excluded, Included, grouped};
use contexture::{Assembled, Format, Request};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::phrases;
use crate::api::assemble::{assemble, request_schema};
use crate::mcp::tool::{Answer, Effect, Tools};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// How many rows of a report are listed; the rest are counted.
const MOST_ROWS: usize = 200;

/// The fields of a request that agents are offered, and what is said of them
/// where an agent needs to know more than the library says. Each field costs
/// tokens in every conversation.
const FIELDS: [(&str, Option<&str>); 15] = [
    (
        "session",
        Some("The session whose history goes into the request: its label or alias."),
    ),
    (
        "event",
        Some("What is asked now, such as the user's latest message. It is not recorded."),
    ),
    (
        "recipe",
        Some(
            "What goes into the request: `working-set` (files), `broker` (an agent's \
             conversation, with memory), `memory`, `task-stack`, `loom-dialogue`, `loom-buffer`, \
             or a recipe file below the root. Default: the configured one.",
        ),
    ),
    (
        "model",
        Some(
            "The model that the request is for, such as `claude-sonnet-4-5`: decides the window \
             and how tokens are counted. Default: the configured one.",
        ),
    ),
    ("max_tokens", None),
    ("reserve_response", None),
    ("query", None),
    ("filters", None),
    ("strategy", None),
    (
        "stack",
        Some("The stack of tasks, in the recipe `task-stack`. Default: `main`."),
    ),
    ("role", None),
    ("task", None),
    ("tree", Some("The tree, in recipes for looms.")),
    ("head", None),
    (
        "format",
        Some("The form of the request: `text` to read it, a provider's to send it."),
    ),
];

/// What is to be assembled: some fields of a request. The schema is checked
/// before the request is read, and refuses the other fields.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct AssembleArguments(Request);

impl JsonSchema for AssembleArguments {
    fn schema_name() -> Cow<'static, str> {
        Request::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = request_schema(generator);
        let all = schema.get_mut("properties").and_then(Value::as_object_mut);
        let mut all = all.map(std::mem::take).unwrap_or_default();
        // An event with what is known about it, and a recipe itself, are more than
        // an agent writes.
        for name in ["event", "recipe"] {
            all.insert(name.to_owned(), json!({"type": ["string", "null"]}));
        }
        let fields = FIELDS.iter().filter_map(|(name, about)| {
            let mut field = all.remove(*name)?;
            if let Some(about) = about {
                field["description"] = (*about).into();
            }
            Some(((*name).to_owned(), field))
        });
        let mut fields: Map<String, Value> = fields.collect();
        fields["format"]["default"] = Format::Text.name().into();
        schema.insert("properties".to_owned(), fields.into());
        schema
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
    format: Format,
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
#[derive(Debug, Serialize, JsonSchema)]
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
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
        |tenant, AssembleArguments(mut request)| {
            let format = *request.format.get_or_insert(Format::Text);
            let assembled = assemble(tenant, request)?;
            let text = assembled.render_compact(format)?;
            let sent = Sent {
                tokens: assembled.report.budget.used,
                format,
                parent_turn_id: assembled.parent_turn_id.map(|id| id.to_string()),
                warnings: phrases(&assembled.report.warnings),
                snapshot: assembled.snapshot.clone(),
                model: assembled.model.name.clone(),
                session: assembled.session_label.clone(),
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
        |tenant, AssembleArguments(request)| {
            let account = account(tenant, request)?;
            Ok(Answer::new(account.text(), &account))
        },
    );
}

/// Returns what became of every candidate for a request.
pub(in crate::mcp) fn account(tenant: &Tenant, request: Request) -> Result<Account, Problem> {
    let format = request.format.or(Some(Format::Text));
    let assembled = assemble(tenant, Request { format, ..request })?;
    // A form that the provider would refuse is no account of a request.
    if let Some(format) = format {
        assembled.render_compact(format)?;
    }
    Ok(Account::of(&assembled))
}

impl Account {
    fn of(assembled: &Assembled) -> Self {
        let report = &assembled.report;
        let unlisted = [report.included.len(), report.excluded.len()];
        let unlisted = unlisted.map(|rows| rows.saturating_sub(MOST_ROWS));
        let included = report.included.iter().take(MOST_ROWS);
        let excluded = report.excluded.iter().take(MOST_ROWS);
        Self {
            recipe: report.recipe.clone(),
            model: report.model.clone(),
            max: report.budget.max,
            reserved: report.budget.reserved,
            used: report.budget.used,
            available: report.budget.available,
            included: included.map(Row::included).collect(),
            excluded: excluded.map(Row::excluded).collect(),
            unlisted: unlisted.iter().sum(),
            warnings: phrases(&report.warnings),
            snapshot: assembled.snapshot.clone(),
        }
    }

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
    fn included(row: &Included) -> Self {
        Self {
            id: row.id.to_string(),
            layer: row.layer.to_string(),
            tokens: row.tokens,
            original_tokens: Some(row.original_tokens),
            truncated: row.truncated,
            priority: row.priority,
            code: row.code.to_string(),
            reason: row.reason.to_string(),
        }
    }

    fn excluded(row: &Excluded) -> Self {
        Self {
            id: row.id.to_string(),
            layer: row.layer.to_string(),
            tokens: row.tokens,
            original_tokens: None,
            truncated: false,
            priority: row.priority,
            code: row.code.to_string(),
            reason: row.reason.to_string(),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_is_offered_is_one_of_a_request() {
        let mut generator = SchemaGenerator::default();
        let all = request_schema(&mut generator);
        let offered = AssembleArguments::json_schema(&mut generator);
        let fields = offered.get("properties").and_then(Value::as_object);
        let names: Vec<&String> = fields.unwrap().keys().collect();
        let listed: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, listed);
        for name in names {
            assert!(all.get("properties").unwrap().get(name).is_some(), "{name}");
        }
        assert_eq!(offered.get("additionalProperties"), Some(&false.into()));
    }
}
