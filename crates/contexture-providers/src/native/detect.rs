//! Finds out which API a body belongs to, by its shape.

use memchr::memmem;

use super::node::Node;
use super::{Api, NativeError};

/// Returns true for a recorded stream: server-sent events, several JSON values
/// one after the other, or a list of chunks.
pub(super) fn is_stream(text: &str) -> bool {
    let text = text.trim_start();
    let is_event = |line: &str| {
        ["data:", "event:", "id:", "retry:", ":"]
            .iter()
            .any(|field| line.starts_with(field))
    };
    if text.starts_with('[') || is_event(text) {
        return true;
    }
    let mut values =
        serde_json::Deserializer::from_str(text).into_iter::<&serde_json::value::RawValue>();
    values.next().is_some_and(|first| first.is_ok()) && values.next().is_some()
}

/// Returns true when a body is a provider's answer, a recorded stream of one, or
/// an object with `response`; false when it is a turn in Contexture's own form.
pub fn is_native(body: &[u8]) -> bool {
    let Ok(text) = super::utf8(body) else {
        return false;
    };
    if is_stream(text) {
        return true;
    }
    let Ok(node) = Node::root(text) else {
        return false;
    };
    let has = |name: &str| node.find(name).is_some();
    !has("messages")
        && [
            "response",
            "request",
            "choices",
            "output",
            "candidates",
            "promptFeedback",
            "usageMetadata",
            "content",
            "error",
        ]
        .into_iter()
        .any(has)
}

/// Returns the API whose answer this is.
pub(super) fn response(node: &Node<'_>, apis: &[Api]) -> Result<Api, NativeError> {
    refuse_error(node)?;
    let has = |name: &str| node.find(name).is_some();
    let api = if has("choices") {
        Api::OpenAiChat
    } else if has("candidates") || has("promptFeedback") || has("usageMetadata") {
        Api::Gemini
    } else if has("output") || node.string("object").ok().flatten().as_deref() == Some("response") {
        Api::OpenAiResponses
    } else if has("content") && (has("role") || node.kind_field() == "message") {
        Api::Anthropic
    } else {
        let expected = match apis {
            [api] => expected(*api),
            _ => {
                "expected `content` and `role` (Anthropic), `choices` (OpenAI Chat), `output` \
                  (OpenAI Responses) or `candidates` (Gemini)"
            }
        };
        let message = format!("is no response of a provider that Contexture can read: {expected}");
        return Err(node.wrong(message));
    };
    named(node, api, apis, "response")
}

fn expected(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "a response of Anthropic has `content` and `role`",
        Api::OpenAiChat => "a response of OpenAI Chat has `choices`",
        Api::OpenAiResponses => "a response of OpenAI Responses has `output`",
        Api::Gemini => "a response of Gemini has `candidates`",
    }
}

/// Fails if the body is an error of a provider: it is not an answer.
pub(super) fn refuse_error(node: &Node<'_>) -> Result<(), NativeError> {
    let Some(error) = node.find("error").filter(|error| !error.is_null()) else {
        return Ok(());
    };
    let field = |name: &str| error.string(name).ok().flatten();
    let kind = field("type").or(field("status")).or(field("code"));
    let message = field("message").or(error.text()).unwrap_or_default();
    let kind = kind.map(|kind| format!(" {kind}")).unwrap_or_default();
    Err(error.wrong(format!(
        "the provider answered with the error{kind}: {message}. Record a failed call in \
         Contexture's own form, with `messages` and `error`"
    )))
}

/// Returns the API that a request is for.
pub(super) fn request(node: &Node<'_>, apis: &[Api]) -> Result<Api, NativeError> {
    let has = |name: &str| node.find(name).is_some();
    if node.raw.starts_with('[') {
        return Err(node.wrong("is a list: expected an object such as {\"messages\": […]}"));
    }
    let api = if has("contents") {
        Api::Gemini
    } else if has("input") || has("previous_response_id") {
        Api::OpenAiResponses
    } else if has("messages") {
        match is_anthropic(node, apis) {
            true => Api::Anthropic,
            false => Api::OpenAiChat,
        }
    } else {
        return Err(node.wrong(
            "is no request of a provider that Contexture can read: expected `messages` \
             (Anthropic, OpenAI Chat), `input` (OpenAI Responses) or `contents` (Gemini)",
        ));
    };
    named(node, api, apis, "request")
}

/// Both APIs have `messages`. A field that only one of them has decides;
/// without such a field, the model's name does.
fn is_anthropic(node: &Node<'_>, apis: &[Api]) -> bool {
    match (
        apis.contains(&Api::Anthropic),
        apis.contains(&Api::OpenAiChat),
    ) {
        (true, false) => return !has_chat_marks(node),
        (false, true) => return has_anthropic_marks(node),
        _ => {}
    }
    if has_anthropic_marks(node) {
        return true;
    }
    if has_chat_marks(node) {
        return false;
    }
    // Some servers accept these in the Chat API, too.
    if has_word(node.get("messages"), &["cache_control"]) {
        return true;
    }
    let model = node.string("model").ok().flatten().unwrap_or_default();
    model.contains("claude") && node.find("max_tokens").is_some()
}

fn has_anthropic_marks(node: &Node<'_>) -> bool {
    let has = |name: &str| node.get(name).is_some();
    has("system")
        || has("anthropic_version")
        || node
            .find("tools")
            .is_some_and(|tools| tools.raw.contains("\"input_schema\""))
        || has_word(node.get("messages"), &ANTHROPIC_WORDS)
}

fn has_chat_marks(node: &Node<'_>) -> bool {
    let has = |name: &str| node.get(name).is_some();
    let messages = node.each_of("messages").unwrap_or_default();
    let has_role = |message: &Node<'_>, role: &str| {
        let given = message.get("role");
        given.is_some_and(|given| given.is_text(role))
    };
    has("max_completion_tokens")
        || has("response_format")
        || has("stream_options")
        || messages
            .first()
            .is_some_and(|first| has_role(first, "system") || has_role(first, "developer"))
        || messages.iter().any(|message| {
            ["tool", "developer"]
                .iter()
                .any(|role| has_role(message, role))
                || message.get("tool_calls").is_some()
        })
        || node
            .find("tools")
            .is_some_and(|tools| tools.raw.contains("\"function\""))
}

/// The names and types that only messages of Anthropic have.
const ANTHROPIC_WORDS: [&str; 3] = ["tool_use", "tool_result", "redacted_thinking"];

/// Returns true if a list of messages has one of `words` as a name or as a text.
/// Plain texts of messages are compared, and only nested values are searched.
fn has_word(list: Option<&Node<'_>>, words: &[&str]) -> bool {
    let Some(list) = list else {
        return false;
    };
    let in_value = |value: &Node<'_>| match value.raw.starts_with('"') {
        true => value.is_one_of(words),
        false => contains(value.raw, words),
    };
    let Ok(messages) = list.each_item() else {
        return in_value(list);
    };
    messages.iter().any(|message| match message.each_field() {
        Ok(fields) => {
            (fields.iter()).any(|(name, value)| words.contains(&&**name) || in_value(value))
        }
        Err(_) => in_value(message),
    })
}

/// Returns true if JSON contains one of `words` in quotes.
fn contains(json: &str, words: &[&str]) -> bool {
    let mut quoted = words.iter().map(|word| format!("\"{word}\""));
    quoted.any(|word| memmem::find(json.as_bytes(), word.as_bytes()).is_some())
}

/// Fails for a body of another API than the named one.
pub(super) fn named(
    node: &Node<'_>,
    found: Api,
    apis: &[Api],
    what: &str,
) -> Result<Api, NativeError> {
    if apis.contains(&found) {
        return Ok(found);
    }
    let names: Vec<&str> = apis.iter().map(|api| api.name()).collect();
    Err(node.wrong(format!(
        "is a {what} of {}, not of {}: name the right provider, or none to detect it",
        found.name(),
        names.join(" or ")
    )))
}
