//! The tools `assemble` and `context_report`.

use std::borrow::Cow;
use std::fmt::Write as _;

use contexture::core::{Excluded, Included, grouped};
use contexture::{Assembled, Format, Request};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::phrases;
use crate::tool::{Answer, Effect, Tools};
use contexture_api::assemble::{assemble, request_schema};
use contexture_api::{Problem, Tenant};

/// The maximum number of rows of a report. Further rows are only counted.
const MOST_ROWS: usize = 200;

/// The fields of a request that the tools accept, with a description where the
/// library's does not fit. Each field costs tokens in every conversation.
const FIELDS: [(&str, Option<&str>); 15] = [
    (
        "session",
        Some("The session whose history is included: its label or alias. Default: none."),
    ),
    (
        "event",
        Some("The current user message. It is not recorded. Default: none."),
    ),
    (
        "recipe",
        Some(
            "The recipe: `working-set` (files), `broker` (conversation with memory), `memory`, \
             `task-stack`, `loom-dialogue`, `loom-buffer`, or a file below the root. Default: the \
             configured recipe.",
        ),
    ),
    (
        "model",
        Some(
            "The model, such as `claude-sonnet-5-5`. It sets the context window and the \
             tokenizer. Default: the configured model.",
        ),
    ),
    ("max_tokens", None),
    ("reserve_response", None),
    ("query", None),
    ("filters", None),
    ("strategy", None),
    (
        "stack",
        Some("The task stack of the recipe `task-stack`. Default: `main`."),
    ),
    ("role", None),
    ("task", None),
    ("tree", Some("The tree id, for the loom recipes.")),
    ("head", None),
    (
        "format",
        Some("The format: `text` to read the request, a provider's to send it."),
    ),
];

/// The arguments of both tools: some fields of a request. The schema is checked
/// before the request is read, and rejects the other fields.
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
        // Agents send an event as text and a recipe by name.
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

/// Facts about an assembled request, next to its text.
#[derive(Debug, Serialize, JsonSchema)]
struct Sent {
    /// The hash under which the request was saved.
    snapshot: Option<String>,
    /// The tokens of the request.
    tokens: u64,
    /// The model of the request.
    model: String,
    /// The format of the request.
    format: Format,
    /// The label of the session.
    session: Option<String>,
    /// The `parent_turn_id` of the turn that answers the request.
    parent_turn_id: Option<String>,
    /// Warnings.
    warnings: Vec<String>,
}

/// The report of a request.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Account {
    /// The recipe.
    recipe: String,
    /// The model of the request.
    model: String,
    /// The context window in tokens.
    max: u64,
    /// Tokens reserved for the response and for tools.
    reserved: u64,
    /// The tokens of the request.
    used: u64,
    /// The tokens that remain.
    available: u64,
    /// The candidates in the request, in order.
    included: Vec<Row>,
    /// The candidates that are not in the request.
    excluded: Vec<Row>,
    /// The number of rows that are not listed.
    unlisted: usize,
    /// Warnings.
    warnings: Vec<String>,
    /// The hash under which the request was saved.
    snapshot: Option<String>,
}

/// A row of the report: one candidate.
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// A path or an id.
    id: String,
    /// The layer.
    layer: String,
    /// The tokens of the candidate.
    tokens: u64,
    /// The tokens of the whole content.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_tokens: Option<u64>,
    /// Whether the content was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    truncated: bool,
    /// The priority, from 0 to 1.
    priority: f64,
    /// A stable code for the reason.
    code: String,
    /// The reason.
    reason: String,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<Sent, AssembleArguments>(
        "assemble",
        (
            "Assemble a request",
            "Returns the exact request to send to a model: fits files, history, memory and tasks \
             into the token budget as the recipe defines. Saves the request under the hash \
             `snapshot`. Compacts a history that exceeds the context window. Sends nothing.",
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
            "Report on a request",
            "Lists what was kept, cut and dropped, each with its tokens and the reason. Call it \
             if something is missing from the context, or before you change the working set. \
             Pass the same arguments as to `assemble`.",
        ),
        Effect::Keeps,
        |tenant, AssembleArguments(request)| {
            let account = account(tenant, request)?;
            Ok(Answer::new(account.text(), &account))
        },
    );
    tools.list_briefly(
        "context_report",
        "Lists what the assembled context contains, and what was cut or dropped and why.",
        &["session"],
    );
}

/// Assembles a request and returns its report.
pub(crate) fn account(tenant: &Tenant, request: Request) -> Result<Account, Problem> {
    let format = request.format.or(Some(Format::Text));
    let assembled = assemble(tenant, Request { format, ..request })?;
    // Fails like `assemble` if the provider would reject the request.
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

    /// Returns the report as text.
    pub(crate) fn text(&self) -> String {
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
    fn every_argument_is_a_field_of_a_request() {
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
