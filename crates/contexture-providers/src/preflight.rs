//! Checks a finished request against the rules of its provider, whichever
//! program wrote the request.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::check::{CheckedPart, Demands, Turn, check_tool_names, check_turns, refused};
use crate::conversation::{Speaker, is_blank};
use crate::dialect::{Dialect, is_word};
use crate::json::{Json, Node};
use crate::marks::MOST_MARKS;
use crate::openai_responses::lone_reasoning;
use crate::{
    Format, Prompt, Refused, anthropic, gemini, openai_chat, openai_completions, openai_responses,
};

/// Checks a finished request against the provider's rules: the order of
/// speakers, calls and their results, reasoning, cache marks, the names of
/// tools.
///
/// A request that passes is not rejected for any of these. The provider may
/// still reject it for something that is not checked, such as a setting that a
/// model does not have.
pub fn preflight(format: Format, request: &Value) -> Result<(), Refused> {
    check(format, request, Demands::ALL)
}

/// Checks a finished request like [`preflight`], but accepts one that ends with
/// the model's own message, if the provider has models that continue it.
pub fn preflight_continued(format: Format, request: &Value) -> Result<(), Refused> {
    check(format, request, continued(format))
}

fn continued(format: Format) -> Demands {
    Demands {
        user_last: format == Format::Gemini,
        ..Demands::ALL
    }
}

/// Checks a request that we made of a prompt, as [`preflight`] does.
pub(crate) fn made(format: Format, request: &Value, prompt: &Prompt<'_>) -> Result<(), Refused> {
    let demands = match prompt.continues {
        true => continued(format),
        false => Demands::ALL,
    };
    let demands = Demands {
        complete: !prompt.follows_stored,
        ..demands
    };
    check(format, request, demands)
}

fn check(format: Format, request: &Value, demands: Demands) -> Result<(), Refused> {
    match format {
        Format::Json | Format::Text => Ok(()),
        Format::Anthropic => anthropic_request(request, demands),
        Format::OpenAiChat => chat_request(request),
        Format::OpenAiResponses => responses_request(request, demands),
        Format::OpenAiCompletions => openai_completions::check(request),
        Format::Gemini => gemini_request(request, demands),
    }
}

/// Checks a request that we made, as [`preflight`] does.
pub(crate) fn anthropic_made(request: &Json<'_>, continues: bool) -> Result<(), Refused> {
    let demands = Demands {
        user_last: !continues,
        ..Demands::ALL
    };
    anthropic_request(request, demands)
}

/// Checks a request for OpenAI Chat that we made, as [`preflight`] does.
pub(crate) fn chat_made(request: &Json<'_>) -> Result<(), Refused> {
    chat_request(request)
}

/// Returns the list at `key`, or nothing.
fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn unknown_role(dialect: &Dialect, at: usize, role: &str) -> Refused {
    refused(
        dialect.rules.roles,
        format!("message {} has the unknown role `{role}`", at + 1),
    )
}

// --- Anthropic ---------------------------------------------------------------

fn anthropic_request<N: Node>(request: &N, demands: Demands) -> Result<(), Refused> {
    let dialect = &anthropic::DIALECT;
    if request.get("max_tokens").and_then(N::as_number) == Some(0) {
        return Err(refused(
            dialect.rules.window,
            "max_tokens is 0: raise max_tokens",
        ));
    }
    let tools = request.list("tools");
    // A set of tools (`mcp_toolset`) has no name.
    let named = tools.iter().filter(|tool| !is_toolset(*tool));
    check_tool_names(dialect, named.map(|tool| tool.text("name")))?;
    let mut marks: Vec<&N> = Vec::new();
    marks.extend(tools.iter().filter(|tool| has_mark(*tool)));
    collect_marks(request.list("system"), &mut marks);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut after_system = false;
    for (at, message) in request.list("messages").iter().enumerate() {
        let blocks = message.list("content");
        collect_marks(blocks, &mut marks);
        let speaker = match message.text("role") {
            "user" => Speaker::User,
            "assistant" => Speaker::Model,
            // Instructions can come between the messages of the two.
            "system" => {
                after_system = true;
                continue;
            }
            role => return Err(unknown_role(dialect, at, role)),
        };
        let mut parts: Vec<CheckedPart<'_>> = blocks.iter().map(anthropic_block).collect();
        if let Some(words) = message.get("content").and_then(N::as_text) {
            parts.push(CheckedPart::Text(words));
        }
        blocks.iter().try_for_each(check_anthropic_block)?;
        match turns.last_mut() {
            Some(last) if std::mem::take(&mut after_system) && last.speaker == speaker => {
                last.parts.extend(parts);
            }
            _ => turns.push(Turn { speaker, parts }),
        }
    }
    check_turns(dialect, &turns, demands)?;
    if let Some(turn) = turns.last()
        && turn.speaker == Speaker::Model
        && let Some(CheckedPart::Text(text)) = turn.parts.last()
        && text.ends_with(char::is_whitespace)
    {
        return Err(refused(
            "anthropic.trailing_blank",
            "the model's last message ends with a blank: remove the space, so that the model can continue",
        ));
    }
    check_marks(request, &marks)
}

/// Returns true for a definition of several tools, which has no name.
fn is_toolset<N: Node>(tool: &N) -> bool {
    let kind = tool.text("type");
    !matches!(kind, "" | "custom") && tool.get("name").is_none()
}

fn anthropic_block<N: Node>(block: &N) -> CheckedPart<'_> {
    match block.text("type") {
        "text" => CheckedPart::Text(block.text("text")),
        "tool_use" => CheckedPart::Call {
            id: Cow::Borrowed(block.text("id")),
            name: block.text("name"),
        },
        "tool_result" => CheckedPart::Result {
            id: Cow::Borrowed(block.text("tool_use_id")),
        },
        "thinking" => CheckedPart::Thinking {
            signed: !block.text("signature").is_empty(),
        },
        "redacted_thinking" => CheckedPart::Thinking {
            signed: !block.text("data").is_empty(),
        },
        _ => CheckedPart::Other,
    }
}

fn check_anthropic_block<N: Node>(block: &N) -> Result<(), Refused> {
    let rules = &anthropic::DIALECT.rules;
    match block.text("type") {
        "tool_use" => {
            let id = block.text("id");
            if id.is_empty() || !id.chars().all(is_word) {
                return Err(refused(
                    rules.call_ids,
                    format!(
                        "the id `{id}` of a call contains characters other than letters, digits, _ and -"
                    ),
                ));
            }
            if !block.get("input").is_some_and(N::is_map) {
                return Err(refused(
                    rules.call_json,
                    format!("the input of the call `{id}` is not an object"),
                ));
            }
        }
        "tool_result" if block.get("is_error").is_some_and(N::is_true) => {
            let inner = block.list("content");
            let is_text = |block: &N| block.text("type") == "text";
            let said = block.text("content");
            if (inner.is_empty() && said.is_empty()) || !inner.iter().all(is_text) {
                return Err(refused(
                    "anthropic.error_result_text",
                    "the result of a failed tool needs text and no media: put media after the result",
                ));
            }
        }
        _ => {}
    }
    let inner = block.list("content").iter();
    let blank = |block: &&N| block.text("type") == "text" && is_blank(block.text("text"));
    if block.text("type") == "tool_result" && inner.clone().any(|block| blank(&block)) {
        return Err(refused(
            rules.no_blank_text,
            "the result of a tool has a blank text block: remove it",
        ));
    }
    Ok(())
}

fn has_mark<N: Node>(value: &N) -> bool {
    value.get("cache_control").is_some_and(N::is_map)
}

/// Collects the blocks with a cache mark, including those in results of tools.
fn collect_marks<'v, N: Node>(blocks: &'v [N], marks: &mut Vec<&'v N>) {
    for block in blocks {
        if has_mark(block) {
            marks.push(block);
        }
        if block.text("type") == "tool_result" {
            collect_marks(block.list("content"), marks);
        }
    }
}

fn check_marks<N: Node>(request: &N, marks: &[&N]) -> Result<(), Refused> {
    let count = marks.len() + usize::from(has_mark(request));
    if count > MOST_MARKS {
        return Err(refused(
            "anthropic.cache_marks",
            format!("{count} blocks have cache_control; the limit is {MOST_MARKS}: remove some"),
        ));
    }
    for block in marks {
        let kind = block.text("type");
        let blank = kind == "text" && is_blank(block.text("text"));
        if blank || kind == "thinking" || kind == "redacted_thinking" {
            return Err(refused(
                "anthropic.cache_marks",
                "cache_control is on an empty text or on a thinking block: put it on \
                 the block before",
            ));
        }
    }
    Ok(())
}

// --- OpenAI ------------------------------------------------------------------

/// Arguments are a text, which is JSON if the model wrote it well.
fn check_arguments<N: Node>(
    dialect: &Dialect,
    id: &str,
    arguments: Option<&N>,
) -> Result<(), Refused> {
    if arguments.is_some_and(|arguments| arguments.as_text().is_some()) {
        return Ok(());
    }
    Err(refused(
        dialect.rules.call_json,
        format!("the arguments of the call `{id}` are not a text: send JSON as a string"),
    ))
}

fn chat_request<N: Node>(request: &N) -> Result<(), Refused> {
    let dialect = &openai_chat::DIALECT;
    let functions = request
        .list("tools")
        .iter()
        .filter(|tool| tool.text("type") == "function")
        .map(|tool| tool.get("function").map_or("", |tool| tool.text("name")));
    check_tool_names(dialect, functions)?;
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut in_results = false;
    for (at, message) in request.list("messages").iter().enumerate() {
        let was_in_results = std::mem::replace(&mut in_results, false);
        let mut parts = chat_texts(message);
        let speaker = match message.text("role") {
            "system" | "developer" => continue,
            "user" => Speaker::User,
            "assistant" => {
                for call in message.list("tool_calls") {
                    let id = call.text("id");
                    if let Some(function) = call.get("function") {
                        check_arguments(dialect, id, function.get("arguments"))?;
                    }
                    let mut kinds = ["function", "custom"].iter();
                    let function = kinds.find_map(|kind| call.get(kind));
                    parts.push(CheckedPart::Call {
                        id: Cow::Borrowed(id),
                        name: function.map_or("", |function| function.text("name")),
                    });
                }
                // These fields are content, too. A message that has one of them
                // needs no text.
                let fields = openai_chat::CONTENT_FIELDS.iter();
                let present = fields.filter(|field| openai_chat::has(message, field));
                parts.extend(present.map(|_| CheckedPart::Other));
                // Some clients write an empty text next to calls.
                let is_text = |part: &CheckedPart<'_>| matches!(part, CheckedPart::Text(_));
                let has_other = !parts.iter().all(is_text);
                parts.retain(|part| {
                    !has_other || !matches!(part, CheckedPart::Text(text) if is_blank(text))
                });
                Speaker::Model
            }
            "tool" => {
                in_results = true;
                let id = Cow::Borrowed(message.text("tool_call_id"));
                let result = CheckedPart::Result { id };
                // Each result is a message; together they answer the calls.
                if let Some(turn) = turns.last_mut().filter(|_| was_in_results) {
                    turn.parts.push(result);
                    continue;
                }
                parts = vec![result];
                Speaker::User
            }
            // The result of a `function_call`, from before there were tools.
            "function" => {
                parts = vec![CheckedPart::Other];
                Speaker::User
            }
            role => return Err(unknown_role(dialect, at, role)),
        };
        turns.push(Turn { speaker, parts });
    }
    let demands = Demands {
        alternation: false,
        user_first: false,
        // The model continues its own message, if that was intended.
        user_last: false,
        ..Demands::ALL
    };
    check_turns(dialect, &turns, demands)
}

fn chat_texts<N: Node>(message: &N) -> Vec<CheckedPart<'_>> {
    let Some(content) = message.get("content") else {
        return Vec::new();
    };
    if let Some(text) = content.as_text() {
        return vec![CheckedPart::Text(text)];
    }
    let parts = content.as_list().unwrap_or_default().iter();
    parts
        .map(|part| match part.text("type") {
            "text" => CheckedPart::Text(part.text("text")),
            _ => CheckedPart::Other,
        })
        .collect()
}

fn responses_request(request: &Value, demands: Demands) -> Result<(), Refused> {
    let dialect = &openai_responses::DIALECT;
    let functions = list(request, "tools")
        .iter()
        .filter(|tool| tool["type"] == "function")
        .map(|tool| text(tool, "name"));
    check_tool_names(dialect, functions)?;
    let mut turns = Vec::new();
    if let Some(words) = request["input"].as_str() {
        let parts = vec![CheckedPart::Text(words)];
        turns.push(Turn {
            speaker: Speaker::User,
            parts,
        });
    }
    let input = list(request, "input");
    if let Some(at) = lone_reasoning(input).iter().position(|lone| *lone) {
        return Err(refused(
            dialect.rules.thinking,
            format!(
                "item {} is reasoning, and no item of the model follows it: remove the reasoning",
                at + 1
            ),
        ));
    }
    for (at, item) in input.iter().enumerate() {
        let id = || Cow::Borrowed(text(item, "call_id"));
        let (speaker, part) = match text(item, "type") {
            "function_call" => {
                check_arguments(dialect, &id(), item.get("arguments"))?;
                let name = text(item, "name");
                (Speaker::Model, CheckedPart::Call { id: id(), name })
            }
            "custom_tool_call" => {
                let name = text(item, "name");
                (Speaker::Model, CheckedPart::Call { id: id(), name })
            }
            "function_call_output" | "custom_tool_call_output" => {
                (Speaker::User, CheckedPart::Result { id: id() })
            }
            "message" | "" => {
                let speaker = match text(item, "role") {
                    "system" | "developer" => continue,
                    "user" => Speaker::User,
                    "assistant" => Speaker::Model,
                    role => return Err(unknown_role(dialect, at, role)),
                };
                let parts = responses_texts(item);
                turns.push(Turn { speaker, parts });
                continue;
            }
            _ => (Speaker::Model, CheckedPart::Other),
        };
        let parts = vec![part];
        turns.push(Turn { speaker, parts });
    }
    let continues = ["previous_response_id", "conversation"]
        .iter()
        .any(|key| !request[*key].is_null());
    let demands = Demands {
        alternation: false,
        user_first: false,
        user_last: false,
        adjacent: false,
        results_first: false,
        complete: demands.complete && !continues,
    };
    check_turns(dialect, &turns, demands)
}

fn responses_texts(item: &Value) -> Vec<CheckedPart<'_>> {
    match &item["content"] {
        Value::String(text) => vec![CheckedPart::Text(text)],
        content => content
            .as_array()
            .into_iter()
            .flatten()
            .map(|part| match text(part, "type") {
                "input_text" | "output_text" => CheckedPart::Text(text(part, "text")),
                _ => CheckedPart::Other,
            })
            .collect(),
    }
}

// --- Gemini ------------------------------------------------------------------

fn gemini_request(request: &Value, demands: Demands) -> Result<(), Refused> {
    let dialect = &gemini::DIALECT;
    let functions = list(request, "tools")
        .iter()
        .flat_map(|tool| list(tool, "functionDeclarations"))
        .map(|function| text(function, "name"));
    check_tool_names(dialect, functions)?;
    let mut turns = Vec::new();
    for (at, content) in list(request, "contents").iter().enumerate() {
        let speaker = match content["role"].as_str() {
            None | Some("user") => Speaker::User,
            Some("model") => Speaker::Model,
            Some(role) => return Err(unknown_role(dialect, at, role)),
        };
        let mut unnamed = BTreeMap::new();
        // A call without an id is identified by its position, its name, and the
        // number of earlier calls of that name.
        let mut id = |function: &Value, at: usize| match function["id"].as_str() {
            Some(id) => Cow::Owned(format!("id {id}")),
            None => {
                let name = text(function, "name").to_owned();
                let count: &mut u32 = unnamed.entry(name.clone()).or_default();
                *count += 1;
                Cow::Owned(format!("{name} {count} in message {}", at + 1))
            }
        };
        let mut parts = Vec::new();
        for part in list(content, "parts") {
            parts.push(if let Some(call) = part.get("functionCall") {
                let name = text(call, "name");
                CheckedPart::Call {
                    id: id(call, at),
                    name,
                }
            } else if let Some(result) = part.get("functionResponse") {
                CheckedPart::Result {
                    id: id(result, at.wrapping_sub(1)),
                }
            } else if let Some(words) = part["text"].as_str()
                // The signature at the end of a streamed answer is on an empty
                // text.
                && part.get("thoughtSignature").is_none()
            {
                CheckedPart::Text(words)
            } else {
                CheckedPart::Other
            });
        }
        turns.push(Turn { speaker, parts });
    }
    let demands = Demands {
        results_first: false,
        ..demands
    };
    check_turns(dialect, &turns, demands)
}
