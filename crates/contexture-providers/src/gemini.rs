//! Renders requests for Gemini `generateContent`.

use contexture_core::{Media, MediaKind, MediaSource};
use serde_json::{Map, Value, json};

use crate::check;
use crate::conversation::{Content, Conversation, Message, Speaker, ToolResult};
use crate::dialect::{Dialect, rules};
use crate::json::{Json, map};
use crate::{Format, Prompt, Refused, media};

pub(crate) const DIALECT: Dialect = Dialect {
    name: "gemini",
    rules: rules!("gemini", "contents"),
    thinking: false,
    model_media: true,
    result_media: false,
    goes_on: |_| false,
    resumes: false,
    in_a_row: false,
    model_first: false,
    is_tool_name,
    tool_names: "1 to 64 letters, digits, _ . : or -, beginning with a letter or _",
    call_id: |id| id.into(),
    check_media,
};

fn is_tool_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let other = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    name.len() <= 64 && name.starts_with(first) && name.chars().all(other)
}

/// The value that Google accepts in place of an unknown signature. From the
/// third generation on, a call without a signature is rejected.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns the body for `models/{model}:generateContent`; the model's name is
/// part of the address, not of the body.
pub(crate) fn request<'p>(prompt: &'p Prompt<'_>) -> Result<Json<'p>, Refused> {
    let conversation = Conversation::of(prompt.layout, &DIALECT, false)?;
    check::check(&conversation, prompt, &DIALECT)?;
    let Conversation {
        tools,
        system,
        messages,
        ..
    } = conversation;

    let mut request = Json::Map(Vec::new());
    if !system.is_empty() {
        let parts: Vec<Json<'_>> = system
            .into_iter()
            .map(|instruction| map! {"text": Json::Text(instruction.text)})
            .collect();
        request.push("systemInstruction", map! {"parts": parts});
    }
    let functions: Vec<Json<'_>> = tools
        .into_iter()
        .map(|tool| {
            let mut function = map! {"name": Json::text(tool.name)};
            if let Some(description) = tool.description {
                function.push("description", Json::Text(description.into()));
            }
            // `parameters` supports only a part of JSON Schema.
            function.push("parametersJsonSchema", Value::Object(tool.parameters));
            function
        })
        .collect();
    if !functions.is_empty() {
        request.push("tools", vec![map! {"functionDeclarations": functions}]);
    }
    let wants_signatures = wants_signatures(prompt.model);
    let contents: Vec<Json<'_>> = messages
        .into_iter()
        .map(|message| content(message, wants_signatures))
        .collect();
    request.push("contents", contents);
    let mut config = Map::new();
    if let Some(limit) = prompt.limit() {
        config.insert("maxOutputTokens".to_owned(), limit.into());
    }
    prompt
        .sampling
        .write(Format::Gemini, prompt.model, &mut config)?;
    if !config.is_empty() {
        request.push("generationConfig", Value::Object(config));
    }
    Ok(request)
}

/// Returns true from `gemini-3` on.
fn wants_signatures(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    let generation = model.strip_prefix("gemini-").map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        &rest[..end.unwrap_or(rest.len())]
    });
    generation.is_some_and(|number| number.parse().is_ok_and(|number: u32| number >= 3))
}

fn content(message: Message<'_>, wants_signatures: bool) -> Json<'_> {
    let role = match message.speaker {
        Speaker::User | Speaker::Other => "user",
        Speaker::Model => "model",
    };
    let mut parts = Vec::with_capacity(message.pieces.len());
    // Of calls in parallel only the first has a signature. Calls in Gemini's own
    // form have theirs.
    let mut signs = wants_signatures;
    for piece in message.pieces {
        if let Some(raw) = piece.native {
            signs &= !matches!(piece.content, Content::Call(_));
            parts.push(Json::raw(raw));
            continue;
        }
        parts.push(match piece.content {
            Content::Provider(raw) => Json::raw(raw),
            Content::Text(text) => map! {"text": Json::Text(text)},
            Content::Call(call) => {
                let mut function = Json::Map(Vec::new());
                if !call.id.is_empty() {
                    function.push("id", Json::Text(call.id));
                }
                function.push("name", Json::text(call.name));
                function.push("args", Value::Object(call.arguments));
                let mut part = map! {"functionCall": function};
                if std::mem::take(&mut signs) {
                    part.push("thoughtSignature", Json::text(NO_SIGNATURE));
                }
                part
            }
            Content::Result(result) => result_part(result),
            Content::Media(media) => media_part(media).into(),
            Content::Thinking { .. } => continue,
        });
    }
    map! {"role": Json::text(role), "parts": parts}
}

fn result_part(result: ToolResult<'_>) -> Json<'_> {
    let mut function = Json::Map(Vec::new());
    if result.named && !result.id.is_empty() {
        function.push("id", Json::Text(result.id));
    }
    function.push("name", Json::text(result.name));
    let mut response = Json::Map(Vec::new());
    let key = if result.is_error { "error" } else { "output" };
    response.push(key, Json::Text(result.text));
    function.push("response", response);
    map! {"functionResponse": function}
}

pub(crate) fn media_part(media: &Media) -> Value {
    let mime = media::canonical_type(media);
    match &media.source {
        MediaSource::Data(data) => json!({"inlineData": {"mimeType": mime, "data": data}}),
        MediaSource::Url(url) => json!({"fileData": {"mimeType": mime, "fileUri": url}}),
    }
}

fn check_media(media: &Media) -> Result<(), Refused> {
    let (types, rule): (&[&str], _) = match media.kind {
        MediaKind::Image => (
            &[
                "image/png",
                "image/jpeg",
                "image/webp",
                "image/heic",
                "image/heif",
            ],
            "gemini.image_type",
        ),
        MediaKind::Audio => (
            &[
                "audio/wav",
                "audio/mpeg",
                "audio/aiff",
                "audio/aac",
                "audio/ogg",
                "audio/flac",
            ],
            "gemini.audio_type",
        ),
        MediaKind::Document => (&["application/pdf", "text/plain"], "gemini.document_type"),
    };
    media::expect_type(media, types, rule)?;
    media::expect_source(media, "gemini.media_data")
}
