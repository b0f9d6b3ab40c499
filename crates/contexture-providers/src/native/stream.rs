//! Reads recorded event streams: the answer of a model in pieces.
//!
//! The pieces are put together to the answer that the provider would have given
//! whole, byte for byte where a piece is whole by itself, and that is read.

use std::collections::BTreeMap;

use contexture_core::json;
use serde_json::{Map, Value};

use super::node::{Node, object};
use super::{Api, NativeError, NativeResponse, detect, utf8};

/// Collects a stream while it arrives. Chunks can end anywhere, in the middle of
/// a character as well.
///
/// ```
/// use contexture_providers::native::{Api, StreamReader};
///
/// let mut reader = StreamReader::new();
/// let text = "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"é\"}]},\
///             \"finishReason\":\"STOP\"}]}\n\n";
/// for byte in text.as_bytes() {
///     reader.push(&[*byte]);
/// }
/// let read = reader.finish(&Api::ALL)?;
/// assert_eq!(read.messages[0].blocks().len(), 1);
/// # Ok::<(), contexture_providers::native::NativeError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct StreamReader {
    bytes: Vec<u8>,
}

impl StreamReader {
    /// Returns a reader that has received nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes that arrived so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads the whole stream.
    pub fn finish(&self, apis: &[Api]) -> Result<NativeResponse, NativeError> {
        response(utf8(&self.bytes)?, apis)
    }
}

/// Reads a stream of one of `apis`.
pub(super) fn response(text: &str, apis: &[Api]) -> Result<NativeResponse, NativeError> {
    let events = events(text)?;
    let Some(first) = events.first() else {
        return Err(NativeError::new("", "is empty: the stream has no event"));
    };
    let nodes: Vec<Node<'_>> = events
        .iter()
        .enumerate()
        .map(|(i, raw)| {
            let node = Node::root(raw).map_err(|error| {
                let message = format!("{}: the stream may have been cut off here", error.message);
                NativeError::new(format!("event {}", i + 1), message)
            })?;
            Ok(node.named(format!("event {}", i + 1)))
        })
        .collect::<Result<_, NativeError>>()?;
    let api = detect(&nodes[0]).ok_or_else(|| {
        let shown: String = first.chars().take(60).collect();
        NativeError::new(
            "event 1",
            format!("is no event of a provider that Contexture can read: {shown}"),
        )
    });
    // An error comes alone, or replaces the rest.
    nodes.iter().try_for_each(detect::refuse_error)?;
    let api = detect::named(&nodes[0], api?, apis, "stream")?;
    let whole = match api {
        Api::Anthropic => anthropic(&nodes)?,
        Api::OpenAiChat => chat(&nodes)?,
        Api::OpenAiResponses => responses(&nodes)?,
        Api::Gemini => gemini(&nodes)?,
    };
    super::response(&Node::root(&whole)?, api)
}

/// Returns the data of each event: of server-sent events, of lines of JSON, or
/// of a list.
fn events(text: &str) -> Result<Vec<String>, NativeError> {
    let text = text.trim();
    if text.starts_with('[') {
        let list = Node::root(text).map_err(|error| {
            let message = format!("{}: the stream may have been cut off", error.message);
            NativeError::new("", message)
        })?;
        let items = list.items()?.into_iter();
        return Ok(items.map(|item| item.raw.to_owned()).collect());
    }
    if text.starts_with('{') {
        let values = serde_json::Deserializer::from_str(text);
        let values = values.into_iter::<&serde_json::value::RawValue>();
        return values
            .enumerate()
            .map(|(i, value)| match value {
                Ok(value) => Ok(value.get().to_owned()),
                Err(error) => Err(NativeError::new(
                    format!("event {}", i + 1),
                    format!("is not JSON: {error}: the stream may have been cut off here"),
                )),
            })
            .collect();
    }
    let mut events = Vec::new();
    let mut data: Option<String> = None;
    for line in text.lines().chain([""]) {
        // A carriage return alone ends a line, too.
        for line in line.split('\r') {
            if line.is_empty() {
                events.extend(data.take());
            } else if let Some(value) = line.strip_prefix("data:") {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => data = Some(value.to_owned()),
                }
            }
        }
    }
    events.retain(|data| !matches!(data.trim(), "" | "[DONE]"));
    Ok(events)
}

fn detect(first: &Node<'_>) -> Option<Api> {
    let kind = first.kind_field();
    let has = |name: &str| first.find(name).is_some();
    if kind.starts_with("response.") || kind == "keepalive" {
        Some(Api::OpenAiResponses)
    } else if ["message_", "content_block_", "ping"]
        .iter()
        .any(|name| kind.starts_with(name))
    {
        Some(Api::Anthropic)
    } else if has("choices") {
        Some(Api::OpenAiChat)
    } else if has("candidates") || has("usageMetadata") || has("promptFeedback") {
        Some(Api::Gemini)
    } else {
        None
    }
}

/// Returns the error of a stream that has no `what`.
fn cut_off(what: &str, came: &str) -> NativeError {
    NativeError::new(
        "",
        format!(
            "the stream was cut off: it has no {what} ({came}). Record the whole stream, or the \
             part that arrived in Contexture's own form with `status` or `error`"
        ),
    )
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    json::write(&mut out, text);
    out
}

// --- Anthropic ---------------------------------------------------------------

/// A block that is assembled from its deltas.
#[derive(Default)]
struct Open {
    // The fields at the start, as written.
    fields: Vec<(String, String)>,
    // The text that was appended to text fields.
    texts: Map<String, Value>,
    // The arguments of a call, as written.
    input: String,
    citations: Vec<String>,
    stopped: bool,
}

impl Open {
    fn raw(mut self) -> String {
        let set = |fields: &mut Vec<(String, String)>, name: &str, raw: String| match fields
            .iter_mut()
            .find(|field| field.0 == name)
        {
            Some(field) => field.1 = raw,
            None => fields.push((name.to_owned(), raw)),
        };
        for (name, text) in std::mem::take(&mut self.texts) {
            let before = self.fields.iter().find(|field| field.0 == name);
            let before = before.and_then(|field| serde_json::from_str::<String>(&field.1).ok());
            let text = before.unwrap_or_default() + text.as_str().unwrap_or_default();
            set(&mut self.fields, &name, quoted(&text));
        }
        if !self.input.trim().is_empty() {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&self.input).is_ok();
            // Truncated arguments are stored as a text.
            let raw = match is_json {
                true => self.input.trim().to_owned(),
                false => quoted(&self.input),
            };
            set(&mut self.fields, "input", raw);
        }
        if !self.citations.is_empty() {
            let raw = format!("[{}]", self.citations.join(","));
            set(&mut self.fields, "citations", raw);
        }
        let fields = self.fields.iter();
        object(fields.map(|(name, raw)| (name.as_str(), raw.as_str())))
            .as_str()
            .to_owned()
    }
}

fn anthropic(events: &[Node<'_>]) -> Result<String, NativeError> {
    let mut start: Option<Node<'_>> = None;
    let mut blocks: BTreeMap<u64, Open> = BTreeMap::new();
    let mut delta = Map::new();
    let mut usage = Map::new();
    let mut ended = false;
    for event in events {
        let index = event
            .find("index")
            .map_or(0, |index| index.value().as_u64().unwrap_or(0));
        match event.kind_field().as_str() {
            "message_start" => {
                start = event.find("message");
                if let Some(Value::Object(fields)) = start
                    .as_ref()
                    .and_then(|start| start.find("usage"))
                    .map(|usage| usage.value())
                {
                    usage.extend(fields);
                }
            }
            "content_block_start" => {
                let block = event.find("content_block");
                let fields = block
                    .map(|block| block.fields())
                    .transpose()?
                    .unwrap_or_default();
                let fields = fields.into_iter();
                let fields = fields
                    .map(|(name, value)| (name, value.raw.to_owned()))
                    .collect();
                blocks.insert(
                    index,
                    Open {
                        fields,
                        ..Open::default()
                    },
                );
            }
            "content_block_delta" => {
                let Some(open) = blocks.get_mut(&index) else {
                    let message = format!("belongs to block {index}, whose start is missing");
                    return Err(event.wrong(message));
                };
                let Some(change) = event.find("delta") else {
                    continue;
                };
                for (name, value) in change.fields()? {
                    match (name.as_str(), value.text()) {
                        ("type", _) => {}
                        ("partial_json", Some(text)) => open.input.push_str(&text),
                        ("citation", _) => open.citations.push(value.raw.to_owned()),
                        (_, Some(text)) => match open.texts.get_mut(&name) {
                            Some(Value::String(before)) => before.push_str(&text),
                            _ => drop(open.texts.insert(name, text.into())),
                        },
                        (_, None) => {
                            open.fields.retain(|field| field.0 != name);
                            open.fields.push((name, value.raw.to_owned()));
                        }
                    }
                }
            }
            "content_block_stop" => {
                if let Some(open) = blocks.get_mut(&index) {
                    open.stopped = true;
                }
            }
            "message_delta" => {
                if let Some(Value::Object(fields)) = event.find("delta").map(|delta| delta.value())
                {
                    delta.extend(fields);
                }
                if let Some(Value::Object(fields)) = event.find("usage").map(|usage| usage.value())
                {
                    usage.extend(fields);
                }
            }
            "message_stop" => ended = true,
            _ => {}
        }
    }
    let Some(start) = start else {
        return Err(cut_off("`message_start`", &count(events)));
    };
    // A block that has no end describes the missing part best.
    if let Some((index, _)) = blocks.iter().find(|(_, open)| !open.stopped) {
        return Err(cut_off(
            &format!("`content_block_stop` for block {index}"),
            &count(events),
        ));
    }
    if !ended {
        return Err(cut_off("`message_stop`", &count(events)));
    }
    let content: Vec<String> = blocks.into_values().map(Open::raw).collect();
    let mut fields: Vec<(String, String)> = start
        .fields()?
        .into_iter()
        .filter(|(name, _)| {
            !matches!(name.as_str(), "content" | "usage") && !delta.contains_key(name)
        })
        .map(|(name, value)| (name, value.raw.to_owned()))
        .collect();
    fields.push(("content".to_owned(), format!("[{}]", content.join(","))));
    fields.extend(
        delta
            .into_iter()
            .map(|(name, value)| (name, value.to_string())),
    );
    if !usage.is_empty() {
        fields.push(("usage".to_owned(), Value::Object(usage).to_string()));
    }
    Ok(whole(&fields))
}

fn count(events: &[Node<'_>]) -> String {
    match events.len() {
        1 => "1 event came".to_owned(),
        events => format!("{events} events came"),
    }
}

fn whole(fields: &[(String, String)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, raw)| (name.as_str(), raw.as_str()));
    object(fields).as_str().to_owned()
}

// --- OpenAI ------------------------------------------------------------------

fn chat(events: &[Node<'_>]) -> Result<String, NativeError> {
    let mut message = Map::new();
    let mut calls: BTreeMap<u64, Map<String, Value>> = BTreeMap::new();
    let mut fields = Map::new();
    let mut finish = None;
    for event in events {
        let Value::Object(chunk) = event.value() else {
            return Err(event.wrong("must be an object"));
        };
        for (name, value) in chunk {
            match (name.as_str(), value) {
                ("choices", Value::Array(choices)) => {
                    let is_first = |choice: &&Value| choice["index"].as_u64().unwrap_or(0) == 0;
                    let Some(choice) = choices.iter().find(is_first) else {
                        continue;
                    };
                    if let Some(reason) = choice["finish_reason"].as_str() {
                        finish = Some(reason.to_owned());
                    }
                    let Some(delta) = choice["delta"].as_object() else {
                        continue;
                    };
                    for (name, value) in delta {
                        match name.as_str() {
                            "tool_calls" => add_calls(&mut calls, value),
                            _ => add(&mut message, name, value),
                        }
                    }
                }
                (_, Value::Null) => {}
                (_, value) => drop(fields.insert(name, value)),
            }
        }
    }
    let Some(finish) = finish else {
        return Err(cut_off("`finish_reason`", &count(events)));
    };
    if !calls.is_empty() {
        let calls = calls.into_values().map(Value::Object).collect();
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    message.entry("content").or_insert(Value::Null);
    let choice = serde_json::json!({"index": 0, "message": message, "finish_reason": finish});
    fields.insert("choices".to_owned(), Value::Array(vec![choice]));
    Ok(Value::Object(fields).to_string())
}

/// Adds a piece to a field: texts are appended, lists grow, everything else is
/// replaced.
fn add(fields: &mut Map<String, Value>, name: &str, value: &Value) {
    match (fields.get_mut(name), value) {
        (_, Value::Null) => {}
        // These come with every piece and are not pieces themselves.
        (Some(_), Value::String(_)) if matches!(name, "role" | "type" | "id" | "name") => {}
        (Some(Value::String(before)), Value::String(more)) => before.push_str(more),
        (Some(Value::Array(before)), Value::Array(more)) => before.extend(more.iter().cloned()),
        (Some(Value::Object(before)), Value::Object(more)) => {
            for (name, value) in more {
                add(before, name, value);
            }
        }
        _ => drop(fields.insert(name.to_owned(), value.clone())),
    }
}

fn add_calls(calls: &mut BTreeMap<u64, Map<String, Value>>, pieces: &Value) {
    for piece in pieces.as_array().into_iter().flatten() {
        // Some servers send each call whole, without its number.
        let next = calls.last_key_value().map_or(0, |(last, _)| last + 1);
        let call = calls
            .entry(piece["index"].as_u64().unwrap_or(next))
            .or_default();
        for (name, value) in piece.as_object().into_iter().flatten() {
            if name != "index" {
                add(call, name, value);
            }
        }
    }
}

fn responses(events: &[Node<'_>]) -> Result<String, NativeError> {
    let mut items: BTreeMap<u64, &str> = BTreeMap::new();
    let mut last = None;
    for event in events {
        match event.kind_field().as_str() {
            "response.output_item.done" => {
                let index = event.find("output_index");
                let index = index.and_then(|index| index.value().as_u64());
                if let Some(item) = event.find("item") {
                    items.insert(index.unwrap_or(items.len() as u64), item.raw);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                last = event.find("response");
            }
            _ => {}
        }
    }
    let Some(last) = last else {
        let what = "`response.completed`, `response.incomplete` or `response.failed`";
        return Err(cut_off(what, &count(events)));
    };
    detect::refuse_error(&last)?;
    // Some servers leave the items out at the end.
    if !last.list("output")?.is_empty() || items.is_empty() {
        return Ok(last.raw.to_owned());
    }
    let fields = last
        .fields()?
        .into_iter()
        .filter(|(name, _)| name != "output");
    let mut fields: Vec<(String, String)> = fields
        .map(|(name, value)| (name, value.raw.to_owned()))
        .collect();
    let items: Vec<&str> = items.into_values().collect();
    fields.push(("output".to_owned(), format!("[{}]", items.join(","))));
    Ok(whole(&fields))
}

// --- Gemini ------------------------------------------------------------------

fn gemini(events: &[Node<'_>]) -> Result<String, NativeError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut finish = None;
    let mut blocked = false;
    for event in events {
        for (name, value) in event.fields()? {
            blocked |= name == "promptFeedback";
            if name != "candidates" {
                fields.retain(|field| field.0 != name);
                fields.push((name, value.raw.to_owned()));
                continue;
            }
            let Some(candidate) = value.items()?.into_iter().next() else {
                continue;
            };
            finish = candidate.string("finishReason")?.or(finish);
            let content = candidate.find("content");
            for part in content
                .map(|content| content.list("parts"))
                .transpose()?
                .unwrap_or_default()
            {
                add_part(&mut parts, Part::read(part.raw));
            }
        }
    }
    if finish.is_none() && !blocked {
        return Err(cut_off("`finishReason`", &count(events)));
    }
    if let Some(finish) = finish {
        let parts: Vec<String> = parts.into_iter().map(Part::raw).collect();
        let content = format!("{{\"role\":\"model\",\"parts\":[{}]}}", parts.join(","));
        let finish = quoted(&finish);
        let candidate = format!("[{{\"content\":{content},\"finishReason\":{finish}}}]");
        fields.push(("candidates".to_owned(), candidate));
    }
    Ok(whole(&fields))
}

/// A part of an answer.
enum Part {
    /// A text, and whether the model only thought it.
    Text { text: String, thought: bool },
    /// Any other part, as written.
    Other(String),
}

impl Part {
    fn read(raw: &str) -> Self {
        let other = || Part::Other(raw.to_owned());
        let Ok(Value::Object(mut fields)) = serde_json::from_str(raw) else {
            return other();
        };
        let known = fields
            .keys()
            .all(|name| name == "text" || name == "thought");
        let thought = fields
            .get("thought")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        match fields.remove("text") {
            Some(Value::String(text)) if known => Part::Text { text, thought },
            _ => other(),
        }
    }

    fn raw(self) -> String {
        match self {
            Part::Text {
                text,
                thought: false,
            } => format!("{{\"text\":{}}}", quoted(&text)),
            Part::Text {
                text,
                thought: true,
            } => {
                format!("{{\"text\":{},\"thought\":true}}", quoted(&text))
            }
            Part::Other(raw) => raw,
        }
    }
}

/// Adds a part. A text is appended to the previous part if that is of the same
/// kind.
fn add_part(parts: &mut Vec<Part>, part: Part) {
    match (parts.last_mut(), part) {
        (
            Some(Part::Text { text, thought }),
            Part::Text {
                text: more,
                thought: also,
            },
        ) if *thought == also => text.push_str(&more),
        (_, part) => parts.push(part),
    }
}
