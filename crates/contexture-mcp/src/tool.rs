//! Declares MCP tools. Their schemas come from the types that they read and write.
//!
//! Every tool costs tokens in every conversation, so texts are short, and schemas
//! are reduced to what the model providers accept. Arguments are still checked
//! against the whole schema.

use std::borrow::Cow;
use std::sync::Arc;

use contexture::{ActionCode, Advice, advice};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tracing::error;

use crate::interface::Mcp;
use contexture_api::Tenant;
use contexture_api::{Problem, Schemas, json};

/// The largest integer that every JSON parser reads exactly: 2^53 - 1.
const MOST_SAFE: u64 = (1 << 53) - 1;

/// The implementation of a tool.
pub(super) type Work =
    Arc<dyn Fn(&Tenant, JsonObject) -> Result<Answer, Problem> + Send + Sync + 'static>;

/// A tool: its declaration and its implementation.
pub(super) struct Declared {
    pub(super) declared: Tool,
    /// The declaration in the default list, if the tool is in it.
    pub(super) brief: Option<Tool>,
    pub(super) work: Work,
}

/// The result of a tool: a text for the model, and structured content for
/// programs.
#[derive(Debug)]
pub(super) struct Answer {
    text: String,
    structured: Value,
}

impl Answer {
    pub(super) fn new(text: impl Into<String>, structured: &impl Serialize) -> Self {
        Self {
            text: text.into(),
            structured: json!(structured),
        }
    }
}

impl From<Answer> for CallToolResult {
    fn from(answer: Answer) -> Self {
        let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
        result.structured_content = Some(answer.structured);
        result
    }
}

/// The effect of a tool on stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The tool changes nothing.
    Reads,
    /// The tool saves a snapshot. It needs no reason.
    Keeps,
    /// The tool adds data and needs a reason.
    Adds,
    /// The tool adds data and needs a reason. A repeated call changes nothing.
    AddsOnce,
    /// The tool replaces data and needs a reason.
    Replaces,
}

impl Effect {
    fn needs_why(self) -> bool {
        matches!(self, Effect::Adds | Effect::AddsOnce | Effect::Replaces)
    }
}

/// All tools, in the order in which they are listed.
#[derive(Default)]
pub(super) struct Tools(Vec<Declared>);

impl Tools {
    pub(super) fn get(&self, name: &str) -> Option<&Declared> {
        self.0.iter().find(|tool| tool.declared.name == name)
    }

    pub(super) fn declared(&self) -> Vec<Tool> {
        self.0.iter().map(|tool| tool.declared.clone()).collect()
    }

    /// Returns the default list. Every tool in a list costs tokens in every
    /// conversation.
    pub(super) fn brief(&self) -> Vec<Tool> {
        self.0
            .iter()
            .filter_map(|tool| tool.brief.clone())
            .collect()
    }

    /// Adds a tool that reads arguments `B` and returns a text and `A`.
    pub(super) fn add<A, B>(
        &mut self,
        name: &'static str,
        (title, about): (&'static str, &'static str),
        effect: Effect,
        work: fn(&Tenant, B) -> Result<Answer, Problem>,
    ) where
        A: JsonSchema,
        B: DeserializeOwned + JsonSchema + 'static,
    {
        let settings = || {
            contexture::schema::settings().with(|settings| {
                // Some clients do not follow references.
                settings.inline_subschemas = true;
                settings.meta_schema = None;
            })
        };
        let takes = schema::<B>(settings().for_deserialize().into_generator());
        let gives = schema::<A>(settings().for_serialize().into_generator());
        let hints = ToolAnnotations::with_title(title)
            .read_only(effect == Effect::Reads)
            .destructive(effect == Effect::Replaces)
            .idempotent(!matches!(effect, Effect::Adds))
            .open_world(false);
        let mut shown = Value::Object(takes.clone());
        simplify(&mut shown);
        let shown = shown.as_object().cloned().unwrap_or_default();
        let declared = Tool::new(name, about, shown)
            .with_title(title)
            .with_annotations(hints)
            .with_raw_output_schema(Arc::new(or_refused(gives)));
        let definitions = takes.get("$defs").and_then(Value::as_object).cloned();
        let takes = Value::Object(takes);
        let schemas = Schemas::compile(&definitions.unwrap_or_default(), [(name, &takes)]);
        let work: Work = Arc::new(move |tenant, arguments| {
            if effect.needs_why() {
                check_why(&arguments)?;
            }
            let arguments = Value::Object(arguments);
            work(tenant, json::read_value(&schemas, name, arguments)?)
        });
        self.0.push(Declared {
            declared,
            brief: None,
            work,
        });
    }

    /// Puts a tool into the default list, with a short description and only the
    /// arguments that are required or named here. The tool accepts the others,
    /// too. Default lists have no schemas of results.
    pub(super) fn list_briefly(&mut self, name: &str, about: &'static str, arguments: &[&str]) {
        let Some(tool) = self.0.iter_mut().find(|tool| tool.declared.name == name) else {
            return;
        };
        let mut takes = JsonObject::clone(&tool.declared.input_schema);
        let required = takes.get("required").cloned().unwrap_or_default();
        let is_required = |name: &str| {
            let mut names = required.as_array().into_iter().flatten();
            names.any(|known| known == name)
        };
        if let Some(Value::Object(fields)) = takes.get_mut("properties") {
            fields.retain(|name, _| is_required(name) || arguments.contains(&name.as_str()));
            fields.values_mut().for_each(shorten);
        }
        let mut brief = tool.declared.clone();
        brief.description = Some(about.into());
        brief.input_schema = Arc::new(takes);
        brief.output_schema = None;
        tool.brief = Some(brief);
    }
}

/// Reduces the schema of an argument to its type and the first sentence of its
/// description.
fn shorten(argument: &mut Value) {
    let Value::Object(fields) = argument else {
        return;
    };
    fields.retain(|name, _| matches!(name.as_str(), "type" | "description" | "items" | "enum"));
    if let Some(Value::String(about)) = fields.get_mut("description") {
        let ends = [". ", ": "].iter().filter_map(|end| about.find(end));
        let first = &about[..ends.min().unwrap_or(about.len())];
        *about = first.trim_end_matches('.').to_owned();
    }
}

fn schema<T: JsonSchema>(generator: SchemaGenerator) -> JsonObject {
    let schema = generator.into_root_schema_for::<T>().to_value();
    let mut schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    // The tool's declaration has both.
    schema.remove("title");
    schema.remove("description");
    schema.entry("type").or_insert("object".into());
    schema.values_mut().for_each(without_formats);
    schema
}

/// Removes the formats of Rust's number types, which clients warn about.
fn without_formats(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(without_formats),
        Value::Object(fields) => {
            if matches!(&fields.get("format"), Some(Value::String(format)) if format != "date-time")
            {
                fields.remove("format");
            }
            fields.values_mut().for_each(without_formats);
        }
        _ => {}
    }
}

/// Reduces a schema to what all providers accept for a model's tools: some reject
/// patterns, formats or several types. Arguments are checked against the whole
/// schema.
fn simplify(schema: &mut Value) {
    if let Value::Array(schemas) = schema {
        schemas.iter_mut().for_each(simplify);
        return;
    }
    let Value::Object(fields) = schema else {
        return;
    };
    for name in ["pattern", "not", "format"] {
        // A property with this name is not a keyword.
        if fields
            .get(name)
            .is_some_and(|value| !is_schema(value) || name == "not")
        {
            fields.remove(name);
        }
    }
    if fields
        .get("maximum")
        .and_then(Value::as_u64)
        .is_some_and(|most| most > MOST_SAFE)
    {
        fields.remove("maximum");
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|name| name != "null");
        if let Some(Value::String(name)) = types.first() {
            let name = name.clone();
            fields.insert("type".to_owned(), name.into());
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = &mut choices[..] {
            let only = std::mem::take(only);
            fields.remove("anyOf");
            for (name, value) in only {
                fields.entry(name).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(choices)) = fields.get("oneOf")
        && choices.iter().all(|choice| choice["const"].is_string())
    {
        let meanings = choices.iter().map(|choice| {
            let (name, about) = (&choice["const"], &choice["description"]);
            format!("`{}`: {}", text(name), text(about))
        });
        let meanings: Vec<String> = meanings.collect();
        let names: Vec<Value> = choices
            .iter()
            .map(|choice| choice["const"].clone())
            .collect();
        let about = fields
            .get("description")
            .map(|about| text(about).to_owned());
        let about = about.unwrap_or_default();
        let about = format!("{about} {}", meanings.join(" "));
        fields.remove("oneOf");
        fields.insert("type".to_owned(), "string".into());
        fields.insert("enum".to_owned(), names.into());
        fields.insert("description".to_owned(), about.trim().into());
    }
    if let Some(Value::String(about)) = fields.get_mut("description") {
        // Doc comments have line breaks where the source has them.
        *about = about.replace('\n', " ");
    }
    fields.values_mut().for_each(simplify);
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the schema of a result or of an error: clients check both.
fn or_refused(gives: JsonObject) -> JsonObject {
    let generator = contexture::schema::settings().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let refused = schema::<Refused>(generator.for_serialize().into_generator());
    let mut both = json!({"type": "object", "anyOf": [gives, refused]});
    without_texts(&mut both);
    both.as_object().cloned().unwrap_or_default()
}

/// Removes descriptions and patterns from the schema of a result. Programs check
/// results against it, and every conversation pays for its bytes.
fn without_texts(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(without_texts),
        Value::Object(fields) => {
            // A property with one of these names is a schema, not a text.
            fields.retain(|name, value| {
                !(matches!(name.as_str(), "description" | "pattern") && value.is_string())
            });
            fields.values_mut().for_each(without_texts);
        }
        _ => {}
    }
}

/// Checks that the arguments contain a reason.
fn check_why(arguments: &JsonObject) -> Result<(), Problem> {
    let why = match arguments.get("why") {
        None | Some(Value::Null) => "",
        Some(Value::String(why)) => why.trim(),
        // The schema reports that it is not a string.
        Some(_) => return Ok(()),
    };
    if why.is_empty() {
        let code = ActionCode::MissingWhy.as_str();
        return Err(Problem::bad_request(code, "`why` is missing")
            .at("why")
            .hint("set `why` to one sentence: the reason for the change"));
    }
    Ok(())
}

/// An error of a tool call.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Refused {
    /// A stable code for programs, such as `not_found`.
    code: &'static str,
    /// What happened.
    message: String,
    /// The argument with the error, if there is one.
    field: Option<String>,
    /// What to do, if there is advice.
    hint: Option<String>,
    /// What to do, for programs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<Advice>,
}

/// An error of a tool call in the words of MCP.
pub(super) struct ErrorText {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) body: Refused,
}

/// Returns a problem in the words of MCP.
pub(super) fn error_text(problem: Problem) -> ErrorText {
    let hint = advice::phrase(&problem.advice, &Mcp);
    // The model has not seen the lines of its arguments.
    let message = match problem.code {
        "invalid_field" => without_place(&problem.message).to_owned(),
        _ => problem.message,
    };
    let mut text = message.clone();
    if let Some(field) = problem
        .field
        .as_ref()
        .filter(|field| !mentions(&text, field))
    {
        text = format!("{field}: {text}");
    }
    if let Some(hint) = &hint {
        text = format!("{text}\nhint: {hint}");
    }
    ErrorText {
        status: problem.status.as_u16(),
        text,
        body: Refused {
            code: problem.code,
            message,
            field: problem.field,
            hint,
            advice: problem.advice,
        },
    }
}

/// Returns true if a text contains `name` as a whole word: `query` does not
/// mention `quer`.
fn mentions(text: &str, name: &str) -> bool {
    let is_word = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !is_word(before) && !is_word(after)
    })
}

fn without_place(message: &str) -> &str {
    message
        .split_once(" at line ")
        .map_or(message, |(message, _)| message)
}

/// Returns the result of a failed call: a text that the model can act on.
pub(super) fn refused(tool: &str, problem: Problem) -> CallToolResult {
    if let Some(detail) = &problem.detail {
        error!(tool, code = problem.code, detail = &**detail, "tool");
    }
    let error = error_text(problem);
    let mut result = CallToolResult::error(vec![ContentBlock::text(error.text)]);
    result.structured_content = Some(json!(error.body));
    result
}

/// Returns the beginning of a name from a caller.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 120;
    match name.len() <= LONGEST {
        true => name.into(),
        false => format!("{}…", &name[..name.floor_char_boundary(LONGEST)]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_reduced_for_providers() {
        let mut schema = json!({
            "properties": {
                // Names of arguments, not keywords.
                "format": {"oneOf": [
                    {"type": "string", "const": "text", "description": "Blocks."},
                    {"type": "string", "const": "json", "description": "Ours."},
                ], "description": "The form.", "default": "text"},
                "pattern": {"type": ["string", "null"], "pattern": "^a", "not": {"pattern": "b"}},
                "role": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}],
                    "description": "The role,\nif any."},
                "max": {"type": ["integer", "null"], "format": "uint64", "maximum": u64::MAX},
            },
        });
        simplify(&mut schema);
        let expected = json!({
            "properties": {
                "format": {"type": "string", "enum": ["text", "json"], "default": "text",
                    "description": "The form. `text`: Blocks. `json`: Ours."},
                "pattern": {"type": "string"},
                "role": {"type": "string", "enum": ["a"], "description": "The role, if any."},
                "max": {"type": "integer"},
            },
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn an_error_names_its_argument_once() {
        let of = |message: &str, field: &str| {
            error_text(Problem::bad_request("invalid_field", message).at(field)).text
        };
        assert_eq!(
            of("unknown field; did you mean `query`?", "quer"),
            "quer: unknown field; did you mean `query`?"
        );
        assert_eq!(of("`why` is missing", "why"), "`why` is missing");
    }
}
