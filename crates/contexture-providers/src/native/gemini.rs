//! Reads Gemini `generateContent`.

use std::collections::BTreeMap;

use contexture_core::message::{Block, Message, MessageRole};
use serde_json::Value;

use super::node::Node;
use super::{
    Api, NativeError, NativeRequest, NativeTool, message, opaque, sendable, settings, with_native,
};
use crate::conversation::shown_result;
use crate::gemini::{DIALECT, media_part};
use crate::json::{Json, map};

const API: Api = Api::Gemini;

pub(super) fn request(node: &Node<'_>) -> Result<NativeRequest, NativeError> {
    let mut reader = Reader::default();
    let mut messages = Vec::new();
    for content in node.list("contents")? {
        messages.extend(reader.content(&content)?);
    }
    let mut tools = Vec::new();
    for tool in node.list("tools")? {
        let declared = match field(&tool, "functionDeclarations") {
            Some(declared) if !declared.is_null() => declared.items()?,
            _ => Vec::new(),
        };
        // A tool of Google's own has no declaration.
        if declared.is_empty() {
            tools.push(NativeTool {
                name: None,
                raw: tool.raw_json(),
            });
        }
        for function in declared {
            tools.push(NativeTool {
                name: function.string("name")?,
                raw: function.raw_json(),
            });
        }
    }
    let system = field(node, "systemInstruction");
    let system = match system.filter(|system| !system.is_null()) {
        Some(system) => reader.parts(&system, MessageRole::System)?,
        None => Vec::new(),
    };
    let read = [
        "model",
        "systemInstruction",
        "system_instruction",
        "tools",
        "contents",
    ];
    Ok(NativeRequest {
        api: API,
        model: node.string("model")?,
        system,
        tools,
        messages,
        settings: settings(node, &read)?,
        conversation: 0..0,
    })
}

pub(super) fn response(node: &Node<'_>) -> Result<(Vec<Message>, Option<String>), NativeError> {
    // Further candidates are other answers to the same question.
    let Some(candidate) = node.list("candidates")?.into_iter().next() else {
        let feedback = node.find("promptFeedback");
        let blocked = feedback.and_then(|feedback| feedback.string("blockReason").ok()?);
        return match blocked {
            Some(reason) => Ok((Vec::new(), Some(reason))),
            None => Err(NativeError::new(
                "candidates",
                "is empty: the response has no answer",
            )),
        };
    };
    let messages = match candidate
        .find("content")
        .filter(|content| !content.is_null())
    {
        Some(content) => {
            let blocks = Reader::default().parts(&content, MessageRole::Assistant)?;
            match blocks.is_empty() {
                true => Vec::new(),
                false => vec![message(MessageRole::Assistant, blocks)],
            }
        }
        None => Vec::new(),
    };
    Ok((messages, candidate.string("finishReason")?))
}

/// Adds ids to calls without one, and finds the call that a result answers.
#[derive(Default)]
struct Reader {
    // Calls of the latest message of the model that have no result yet.
    open: Vec<(String, String)>,
}

impl Reader {
    fn content(&mut self, node: &Node<'_>) -> Result<Vec<Message>, NativeError> {
        let role = node.string("role")?;
        if role.as_deref() == Some("model") {
            self.open.clear();
            let blocks = self.parts(node, MessageRole::Assistant)?;
            return Ok(match blocks.is_empty() {
                true => Vec::new(),
                false => vec![message(MessageRole::Assistant, blocks)],
            });
        }
        if let Some(role) = &role
            && !matches!(role.as_str(), "user" | "function")
        {
            let message = format!("unknown role `{role}`; expected user or model");
            return Err(NativeError::new(format!("{}.role", node.path()), message));
        }
        let (mut results, mut said) = (Vec::new(), Vec::new());
        for blocks in self.each_part(node, MessageRole::User)? {
            match blocks.first() {
                Some(Block::ToolResult { .. }) => results.extend(blocks),
                _ => said.extend(blocks),
            }
        }
        let results = (!results.is_empty()).then(|| message(MessageRole::Tool, results));
        let said = (!said.is_empty()).then(|| message(MessageRole::User, said));
        Ok(results.into_iter().chain(said).collect())
    }

    fn parts(&mut self, node: &Node<'_>, role: MessageRole) -> Result<Vec<Block>, NativeError> {
        Ok(self.each_part(node, role)?.into_iter().flatten().collect())
    }

    /// Reads the parts of a content. A part is one block, or the result of a tool
    /// with the media in it.
    fn each_part(
        &mut self,
        node: &Node<'_>,
        role: MessageRole,
    ) -> Result<Vec<Vec<Block>>, NativeError> {
        // Calls of one name are numbered within the message, so that the same
        // message gives the same ids wherever it is read.
        let mut unnamed: BTreeMap<String, u32> = BTreeMap::new();
        let parts = node.list("parts")?;
        parts
            .iter()
            .map(|part| match field(part, "functionResponse") {
                Some(result) if role != MessageRole::Assistant => {
                    self.result(&result, part, &mut unnamed)
                }
                _ => Ok(vec![self.part(part, role, &mut unnamed)?]),
            })
            .collect()
    }

    fn part(
        &mut self,
        node: &Node<'_>,
        role: MessageRole,
        unnamed: &mut BTreeMap<String, u32>,
    ) -> Result<Block, NativeError> {
        let raw = node.raw_json();
        let is_model = role == MessageRole::Assistant;
        if let Some(call) = field(node, "functionCall").filter(|_| is_model) {
            let name = call.required("name")?;
            let id = call.string("id")?.filter(|id| !id.trim().is_empty());
            let number = unnamed.entry(name.clone()).or_default();
            *number += 1;
            let id = id.unwrap_or_else(|| format!("{name}-{number}"));
            let arguments = match call.find("args").filter(|args| args.is_object()) {
                Some(args) => args.value(),
                None => Value::Object(serde_json::Map::new()),
            };
            self.open.push((id.clone(), name.clone()));
            let function = map! {
                "id": Json::Text(id.clone().into()),
                "name": Json::Text(name.clone().into()),
                "args": arguments.clone(),
            };
            let expected = map! {"functionCall": function};
            let block = Block::ToolCall {
                id,
                name,
                arguments,
                native: None,
            };
            return Ok(with_native(API, block, &raw, &expected));
        }
        if let Some(text) = node.string("text")? {
            if text.trim().is_empty() {
                // A signature on nothing, at the end of an answer.
                return Ok(opaque(API, raw));
            }
            let thought = node
                .find("thought")
                .is_some_and(|thought| thought.raw == "true");
            let expected = map! {"text": Json::text(&text)};
            let block = match thought && is_model {
                true => Block::Thinking {
                    text: text.clone(),
                    signature: None,
                    native: None,
                },
                false => Block::text(text.as_str()),
            };
            return Ok(with_native(API, block, &raw, &expected));
        }
        Ok(match medium(node)? {
            Some(block) => match sendable(&DIALECT, &block).map(|media| media_part(&media)) {
                Some(expected) => with_native(API, block, &raw, &expected.into()),
                None => opaque(API, raw),
            },
            None => opaque(API, raw),
        })
    }

    /// Reads the result of a tool, followed by the media in it.
    fn result(
        &mut self,
        result: &Node<'_>,
        part: &Node<'_>,
        unnamed: &mut BTreeMap<String, u32>,
    ) -> Result<Vec<Block>, NativeError> {
        let name = result.required("name")?;
        let given = result.string("id")?.filter(|id| !id.trim().is_empty());
        let number = unnamed.entry(name.clone()).or_default();
        *number += 1;
        let is_it = |open: &(String, String)| match &given {
            Some(id) => open.0 == *id,
            None => open.1 == name,
        };
        let found = self.open.iter().position(is_it);
        let called = found.map(|at| self.open.remove(at).0);
        let id = given
            .or(called)
            .unwrap_or_else(|| format!("{name}-{number}"));
        let response = result
            .find("response")
            .filter(|response| response.is_object());
        let fields = match &response {
            Some(response) => response.fields()?,
            None => Vec::new(),
        };
        let (mut text, is_error) = match &fields[..] {
            [(key, value)] if key == "output" || key == "error" => match value.text() {
                Some(text) => (text, key == "error"),
                None => (value.raw.to_owned(), key == "error"),
            },
            _ => (
                response.map_or(String::new(), |response| response.raw.to_owned()),
                false,
            ),
        };
        let mut media = Vec::new();
        for part in result.list("parts")? {
            match medium(&part)? {
                Some(block) => media.push(block),
                // A part that has no form here is in the result's own form.
                None => {
                    let separator = if text.is_empty() { "" } else { "\n\n" };
                    text.push_str(separator);
                    text.push_str(&super::shown(&part.raw_json()).0);
                }
            }
        }
        let key = if is_error { "error" } else { "output" };
        let mut said = Json::Map(Vec::new());
        said.push(key, Json::Text(shown_result(&text).to_owned().into()));
        let expected = map! {"functionResponse": map! {
            "id": Json::Text(id.clone().into()),
            "name": Json::Text(name.into()),
            "response": said,
        }};
        let block = Block::ToolResult {
            tool_call_id: id,
            content: text,
            is_error,
            native: None,
        };
        let block = with_native(API, block, &part.raw_json(), &expected);
        Ok(std::iter::once(block).chain(media).collect())
    }
}

/// Reads a part that is a medium. Returns `None` for other parts.
fn medium(node: &Node<'_>) -> Result<Option<Block>, NativeError> {
    match (field(node, "inlineData"), field(node, "fileData")) {
        (Some(data), _) => block_of(&data, "data"),
        (None, Some(file)) => block_of(&file, "fileUri"),
        (None, None) => Ok(None),
    }
}

/// Returns a field by its name, which Google also accepts in snake case.
fn field<'a>(node: &Node<'a>, name: &str) -> Option<Node<'a>> {
    node.find(name).or_else(|| {
        let mut snake = String::with_capacity(name.len() + 2);
        for c in name.chars() {
            if c.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        }
        node.find(&snake)
    })
}

fn block_of(node: &Node<'_>, name: &str) -> Result<Option<Block>, NativeError> {
    let text = |name: &str| -> Result<Option<String>, NativeError> {
        let found = field(node, name).filter(|text| !text.is_null());
        found.map(|text| text.expect_text()).transpose()
    };
    let (Some(media_type), Some(bytes)) = (text("mimeType")?, text(name)?) else {
        return Ok(None);
    };
    let (data, url) = match name {
        "data" => (Some(bytes), None),
        _ => (None, Some(bytes)),
    };
    let native = None;
    Ok(Some(match media_type.split('/').next() {
        Some("image") => Block::Image {
            media_type,
            data,
            url,
            native,
        },
        Some("audio") => Block::Audio {
            media_type,
            data,
            url,
            native,
        },
        _ => Block::Document {
            media_type,
            data,
            url,
            native,
        },
    }))
}
