//! MCP prompts: texts that a user can insert into a conversation.

use contexture::{Format, Request};
use rmcp::model::{JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde::Deserialize as _;
use serde_json::Value;

use super::tool;
use super::tools::account;
use contexture_api::assemble::assemble;
use contexture_api::{Problem, Tenant};

const ARGUMENTS: [(&str, &str); 4] = [
    (
        "session",
        "The session whose history is included. Default: none.",
    ),
    ("event", "The current user message. Default: none."),
    (
        "recipe",
        "The recipe, such as working-set or broker. Default: the configured recipe.",
    ),
    (
        "max_tokens",
        "The size of the context window in tokens. Default: the model's.",
    ),
];

pub(super) fn all() -> Vec<Prompt> {
    let arguments = || {
        let argument = |(name, about): (&str, &str)| {
            PromptArgument::new(name)
                .with_description(about)
                .with_required(false)
        };
        Some(ARGUMENTS.map(argument).to_vec())
    };
    vec![
        Prompt::new(
            "assemble",
            Some("Inserts the assembled request: system prompt, history and current message."),
            arguments(),
        )
        .with_title("Assemble a request"),
        Prompt::new(
            "report",
            Some("Inserts the report of a request and asks the model what to change."),
            arguments(),
        )
        .with_title("Explain a report"),
    ]
}

pub(super) fn get(
    tenant: &Tenant,
    name: &str,
    arguments: JsonObject,
) -> Result<Vec<PromptMessage>, Problem> {
    match name {
        "assemble" => assembled(tenant, read(arguments)?),
        "report" => reported(tenant, read(arguments)?),
        _ => {
            let message = format!("unknown prompt `{}`", tool::shown(name));
            Err(Problem::bad_request("unknown_prompt", message).hint("use `assemble` or `report`"))
        }
    }
}

/// Reads arguments. All arguments of prompts are strings.
fn read(arguments: JsonObject) -> Result<Request, Problem> {
    let mut read = Request::default();
    for (name, value) in arguments {
        let Value::String(text) = value else {
            return Err(Problem::bad_request("invalid_field", "must be a string").at(name));
        };
        // Forms send fields that the user left empty.
        if text.trim().is_empty() {
            continue;
        }
        match name.as_str() {
            "session" => read.session = Some(text),
            "event" => read.event = Some(text.as_str().into()),
            "recipe" => read.recipe = Some(text.into()),
            "max_tokens" => {
                let number = text.trim().parse().map_err(|_| {
                    let message = "must be an integer of 0 or more";
                    Problem::bad_request("invalid_field", message).at("max_tokens")
                })?;
                read.max_tokens = Some(number);
            }
            _ => {
                let message = format!("unknown argument `{}`", tool::shown(&name));
                let known = ARGUMENTS.map(|(name, _)| format!("`{name}`")).join(", ");
                return Err(
                    Problem::bad_request("invalid_field", message).hint(format!("use {known}"))
                );
            }
        }
    }
    Ok(read)
}

fn assembled(tenant: &Tenant, mut request: Request) -> Result<Vec<PromptMessage>, Problem> {
    request.format = Some(Format::Json);
    let request = assemble(tenant, request)?.to_json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut messages = Vec::new();
    let mut say = |role: Role, text: String| {
        if !text.trim().is_empty() {
            messages.push(PromptMessage::new_text(role, text));
        }
    };
    // A prompt has no system role.
    say(Role::User, text(&request["system_prompt"]));
    for message in request["history"].as_array().into_iter().flatten() {
        let role = match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        match &message["content"] {
            Value::Array(blocks) => blocks
                .iter()
                .for_each(|block| say(role.clone(), shown(block))),
            content => say(role, text(content)),
        }
    }
    say(Role::User, text(&request["document"]));
    say(Role::User, text(&request["current_message"]["content"]));
    Ok(messages)
}

/// Returns a block as text. Blocks of other types are returned as JSON.
fn shown(block: &Value) -> String {
    match (block["type"].as_str(), String::deserialize(&block["text"])) {
        (Some("text"), Ok(text)) => text,
        _ => block.to_string(),
    }
}

fn reported(tenant: &Tenant, request: Request) -> Result<Vec<PromptMessage>, Problem> {
    let account = account(tenant, request)?;
    let text = format!(
        "This is the report of a request, with every candidate:\n\n{}\nExplain in a few sentences \
         what was cut or dropped and whether that matters. Then say what to change, if anything: \
         which priorities to raise or lower, what to remove from the working set, or whether the \
         budget is too small.",
        account.text()
    );
    Ok(vec![PromptMessage::new_text(Role::User, text)])
}
