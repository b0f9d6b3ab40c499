//! Reads the bodies of the providers' own APIs: requests, answers, and recorded
//! event streams.
//!
//! ```
//! use contexture_providers::native::{self, Api};
//!
//! let body = br#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5",
//!     "content":[{"type":"redacted_thinking","data":"c2VhbA=="},{"type":"text","text":"Hello."}],
//!     "stop_reason":"end_turn","usage":{"input_tokens":12,"output_tokens":3}}"#;
//! let read = native::read_response(body, &Api::ALL)?;
//! assert_eq!(read.api, Api::Anthropic);
//! assert_eq!(read.stop_reason.as_deref(), Some("end_turn"));
//! // What is not understood is kept as it is.
//! let blocks = read.messages[0].blocks();
//! assert_eq!(blocks.len(), 2);
//! # Ok::<(), native::NativeError>(())
//! ```
//!
//! Every part of a body becomes a block of ours. A part that has no form here
//! is an opaque block with its bytes ([`Block::Provider`]). A part that has a
//! form here, but holds more, also stores its bytes ([`Block::native`]). A
//! request to the same API is then rendered with these bytes; cache marks
//! (`cache_control`) are left out of them, because a request gets its own.
//!
//! Signatures are stored, but not verified.

mod anthropic;
mod cache_marks;
mod canonical;
mod chat;
mod checked;
mod detect;
mod gemini;
mod node;
mod parsed;
mod replace;
mod responses;
mod shown;
mod stream;
mod translated;

use std::fmt;
use std::ops::Range;

use contexture_core::message::{Block, Message, MessageContent, MessageRole};
use contexture_core::{Media, Native, RawJson, Usage};

use crate::conversation::kind_of;
use crate::dialect::Dialect;
use crate::json::Json;
use crate::{Format, usage_of};
use node::Node;

pub use crate::conversation::INPUT;
pub use cache_marks::without_excess_marks;
pub use detect::is_native;
pub use parsed::{ParsedRequest, RequestEnd};
pub use replace::{with_messages, without_messages};
pub use shown::{data_bytes, file_tokens, shown};
pub use stream::StreamReader;
pub use translated::translated;

/// The API of a provider whose bodies can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, and the servers that are compatible with it.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Gemini `generateContent`.
    Gemini,
}

impl Api {
    /// Every API.
    pub const ALL: [Api; 4] = [
        Api::Anthropic,
        Api::OpenAiChat,
        Api::OpenAiResponses,
        Api::Gemini,
    ];

    /// The names that [`named`](Api::named) accepts.
    pub const NAMES: [&'static str; 5] = [
        "anthropic",
        "openai",
        "openai-chat",
        "openai-responses",
        "gemini",
    ];

    /// Returns the APIs of a name: one, or both of `openai`.
    pub fn named(name: &str) -> Option<&'static [Api]> {
        match name {
            "anthropic" => Some(&[Api::Anthropic]),
            "openai" => Some(&[Api::OpenAiChat, Api::OpenAiResponses]),
            "openai-chat" => Some(&[Api::OpenAiChat]),
            "openai-responses" => Some(&[Api::OpenAiResponses]),
            "gemini" => Some(&[Api::Gemini]),
            _ => None,
        }
    }

    /// Returns the format of its requests.
    pub fn format(self) -> Format {
        match self {
            Api::Anthropic => Format::Anthropic,
            Api::OpenAiChat => Format::OpenAiChat,
            Api::OpenAiResponses => Format::OpenAiResponses,
            Api::Gemini => Format::Gemini,
        }
    }

    /// Returns its name, which blocks in its own form carry.
    pub fn name(self) -> &'static str {
        self.format().name()
    }

    /// Returns the name of the provider.
    pub fn provider(self) -> &'static str {
        match self {
            Api::Anthropic => "anthropic",
            Api::OpenAiChat | Api::OpenAiResponses => "openai",
            Api::Gemini => "gemini",
        }
    }
}

/// A body that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeError {
    /// The JSON path of the error, such as `content[2].id`. Empty for the whole
    /// body.
    pub path: String,
    /// The problem, and the remedy.
    pub message: String,
}

impl NativeError {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// Returns the error of a body that is the value at `path` of another.
    pub(crate) fn inside(mut self, path: &str) -> Self {
        let dot = match self.path.is_empty() || self.path.starts_with('[') {
            true => "",
            false => ".",
        };
        self.path = format!("{path}{dot}{}", self.path);
        self
    }
}

impl fmt::Display for NativeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl std::error::Error for NativeError {}

/// A request, as an agent sends it to a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeRequest {
    /// The API that it is for.
    pub api: Api,
    /// The model. Gemini has it in the address, not in the body.
    pub model: Option<String>,
    /// The instructions before the conversation.
    pub system: Vec<Block>,
    /// The tools that the model may call.
    pub tools: Vec<NativeTool>,
    /// The conversation.
    pub messages: Vec<Message>,
    /// All other fields, in order, byte for byte.
    pub settings: Vec<(String, RawJson)>,
    /// The bytes of the body that hold the conversation. A byte order mark at
    /// the beginning is not counted.
    pub conversation: Range<usize>,
}

/// The definition of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeTool {
    /// The name of the tool. `None` if it has none.
    pub name: Option<String>,
    /// The definition, byte for byte.
    pub raw: RawJson,
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeResponse {
    /// The API that answered.
    pub api: Api,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// The answer: one message, or none if the provider returned no content.
    pub messages: Vec<Message>,
    /// The token usage.
    pub usage: Option<Usage>,
    /// The reason why the model stopped, as the provider wrote it. The
    /// Responses API has no value for a finished answer: it is `stop`, or
    /// `tool_calls` if there are calls.
    pub stop_reason: Option<String>,
}

/// A call of a model: the answer and, if it is known, the request.
#[derive(Debug, Clone, PartialEq)]
pub struct NativeExchange {
    /// The request.
    pub request: Option<NativeRequest>,
    /// The response.
    pub response: NativeResponse,
    /// The other fields of the object that held both, byte for byte.
    pub other: Vec<(String, RawJson)>,
}

/// Returns the `type` of a block in a provider's own form, or nothing.
pub fn kind(raw: &RawJson) -> String {
    kind_of(raw.as_str()).into_owned()
}

/// Reads the body of a request of one of `apis`. The form of the body decides
/// which one.
pub fn read_request(body: &[u8], apis: &[Api]) -> Result<NativeRequest, NativeError> {
    let text = utf8(body)?;
    let node = Node::root(text)?;
    let mut read = request(&node, detect::request(&node, apis)?)?;
    if let Some(conversation) = node.get(read.api.messages_field()) {
        let before = conversation.raw.as_ptr().addr() - text.as_ptr().addr();
        read.conversation = before..before + conversation.raw.len();
    }
    Ok(read)
}

fn request(node: &Node<'_>, api: Api) -> Result<NativeRequest, NativeError> {
    match api {
        Api::Anthropic => anthropic::request(node),
        Api::OpenAiChat => chat::request(node),
        Api::OpenAiResponses => responses::request(node),
        Api::Gemini => gemini::request(node),
    }
}

/// Reads the body of an answer of one of `apis`, whole or as a recorded stream:
/// server-sent events, lines of JSON, or a JSON list of chunks.
///
/// A stream that ends early is an error that names the missing part.
pub fn read_response(body: &[u8], apis: &[Api]) -> Result<NativeResponse, NativeError> {
    let text = utf8(body)?;
    if detect::is_stream(text) {
        return stream::response(text, apis);
    }
    let node = Node::root(text)?;
    let api = detect::response(&node, apis)?;
    response(&node, api)
}

fn response(node: &Node<'_>, api: Api) -> Result<NativeResponse, NativeError> {
    let (id, model) = match api {
        Api::Gemini => ("responseId", "modelVersion"),
        _ => ("id", "model"),
    };
    let (messages, stop_reason) = match api {
        Api::Anthropic => anthropic::response(node)?,
        Api::OpenAiChat => chat::response(node)?,
        Api::OpenAiResponses => responses::response(node)?,
        Api::Gemini => gemini::response(node)?,
    };
    let usage = match node.find("usage").or(node.find("usageMetadata")) {
        Some(_) => usage_of(&node.value()),
        None => None,
    };
    Ok(NativeResponse {
        api,
        id: node.string(id)?,
        model: node.string(model)?.filter(|model| !model.trim().is_empty()),
        messages,
        usage,
        stop_reason: stop_reason.filter(|reason| !reason.trim().is_empty()),
    })
}

/// Reads an answer alone, or `{"provider": …, "request": …, "response": …}`. The
/// response can be a text there: a recorded stream.
pub fn read_exchange(body: &[u8], apis: &[Api]) -> Result<NativeExchange, NativeError> {
    let text = utf8(body)?;
    let alone = |apis: &[Api]| {
        Ok(NativeExchange {
            request: None,
            response: read_response(body, apis)?,
            other: Vec::new(),
        })
    };
    if detect::is_stream(text) {
        return alone(apis);
    }
    let node = Node::root(text)?;
    if node.find("response").is_none() && node.find("request").is_none() {
        return alone(apis);
    }
    let mut apis = apis.to_vec();
    if let Some(name) = node.string("provider")? {
        let named = Api::named(&name).ok_or_else(|| {
            let message = format!(
                "unknown provider `{name}`; expected one of {}",
                Api::NAMES.join(", ")
            );
            NativeError::new("provider", message)
        })?;
        apis.retain(|api| named.contains(api));
        if apis.is_empty() {
            let message = format!("is `{name}`, but another provider was named for the body");
            return Err(NativeError::new("provider", message));
        }
    }
    let Some(answer) = node.find("response") else {
        let message = "is missing: add the provider's response, whole or as a recorded stream";
        return Err(NativeError::new("response", message));
    };
    let response = match answer.text() {
        Some(stream) => read_response(stream.as_bytes(), &apis),
        None => read_response(answer.raw.as_bytes(), &apis),
    };
    let response = response.map_err(|error| error.inside("response"))?;
    let request = match node.find("request").filter(|request| !request.is_null()) {
        Some(request) => {
            let read = read_request(request.raw.as_bytes(), &[response.api]);
            Some(read.map_err(|error| error.inside("request"))?)
        }
        None => None,
    };
    let other = node
        .fields()?
        .into_iter()
        .filter(|(name, _)| !matches!(name.as_str(), "provider" | "request" | "response"))
        .map(|(name, value)| (name, value.raw_json()))
        .collect();
    Ok(NativeExchange {
        request,
        response,
        other,
    })
}

/// The bytes that some programs write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

fn utf8(body: &[u8]) -> Result<&str, NativeError> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    std::str::from_utf8(body).map_err(|error| {
        let message = format!("is not UTF-8 at byte {}", error.valid_up_to());
        NativeError::new("", message)
    })
}

/// Returns a message of blocks.
fn message(role: MessageRole, blocks: Vec<Block>) -> Message {
    Message {
        role,
        source: None,
        content: MessageContent::Blocks(blocks),
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

/// Returns an opaque block.
fn opaque(api: Api, raw: RawJson) -> Block {
    Block::Provider {
        provider: api.name().to_owned(),
        raw,
    }
}

/// Returns a text with its own form: the same API gets these bytes, and another
/// API gets the text. A blank one is an opaque block.
fn own_text(api: Api, raw: RawJson, text: String) -> Block {
    match text.trim().is_empty() {
        true => opaque(api, raw),
        false => Block::Text {
            text: text.into(),
            native: Some(Native::new(api.name(), raw)),
        },
    }
}

/// Returns `block`, with its own form if that holds more than `expected`, the
/// form that would be sent without it.
fn with_native(api: Api, mut block: Block, raw: &RawJson, expected: &Json<'_>) -> Block {
    let same = canonical::canonical(raw.as_str()) == canonical::canonical(&expected.compact());
    if !same && let Some(native) = block.native_mut() {
        *native = Some(Native::new(api.name(), raw.clone()));
    }
    block
}

/// Returns the medium of a block, if the provider also accepts it in our form.
fn sendable(dialect: &Dialect, block: &Block) -> Option<Media> {
    let media = block.media()?;
    (dialect.check_media)(&media).is_ok().then_some(media)
}

/// Returns the top-level fields of a request that are not read here.
fn settings(node: &Node<'_>, read: &[&str]) -> Result<Vec<(String, RawJson)>, NativeError> {
    let fields = node.fields()?.into_iter();
    Ok(fields
        .filter(|(name, _)| !read.contains(&name.as_str()))
        .map(|(name, value)| (name, value.raw_json()))
        .collect())
}
