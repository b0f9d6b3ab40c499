//! The common parts of OpenAI's Chat Completions and Responses.

use contexture_core::{Media, MediaSource};

use crate::conversation::{Content, Instruction, Message};
use crate::json::{Json, map};
use crate::{Prompt, media};

/// Returns true for OpenAI's own models, which know the developer's role;
/// compatible servers of others often do not.
pub(crate) fn has_developer_role(model: &str) -> bool {
    is_of_openai(model)
}

/// Returns true for the models that OpenAI serves itself.
pub(crate) fn is_of_openai(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    // These are served by others.
    if model.starts_with("gpt-oss") {
        return false;
    }
    let numbered_o = model
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered_o || model.starts_with("gpt-") || model.starts_with("chatgpt-")
}

/// Returns true for OpenAI's models whose cache supports explicit breakpoints:
/// those from gpt-5.6 on.
pub fn has_cache_breakpoints(model: &str) -> bool {
    is_since(model, (5, 6))
}

/// Returns true for a GPT of OpenAI that has at least this version.
pub(crate) fn is_since(model: &str, version: (u32, u32)) -> bool {
    let wanted = version;
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(version) = name.strip_prefix("gpt-").filter(|_| is_of_openai(name)) else {
        return false;
    };
    let end = version.find(|c: char| c != '.' && !c.is_ascii_digit());
    let mut numbers = version[..end.unwrap_or(version.len())].split('.');
    let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok());
    let major = number().unwrap_or(0);
    // Dates and sizes of older models are not versions: `gpt-35-turbo`.
    major < 30 && (major, number().unwrap_or(0)) >= wanted
}

/// Returns the mark of a breakpoint, with the name of its field.
pub(crate) fn breakpoint<'a>() -> (&'static str, Json<'a>) {
    let mark = map! {"mode": Json::text("explicit")};
    ("prompt_cache_breakpoint", mark)
}

/// Adds the key by which OpenAI finds the cache of earlier requests. Other
/// servers may not know the field.
pub(crate) fn push_cache_key<'a>(request: &mut Json<'a>, prompt: &'a Prompt<'_>) {
    if let Some(key) = prompt.cache_key.filter(|_| is_of_openai(prompt.model)) {
        request.push("prompt_cache_key", Json::text(key));
    }
}

/// Returns the operator's words as one text, a blank line between them.
pub(crate) fn instructions(texts: &[Instruction<'_>]) -> Option<String> {
    let texts: Vec<&str> = texts.iter().map(|instruction| &*instruction.text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Returns a medium's address, which holds its bytes when they are here.
pub(crate) fn address(media: &Media) -> String {
    match &media.source {
        MediaSource::Data(data) => {
            format!("data:{};base64,{data}", media::canonical_type(media))
        }
        MediaSource::Url(url) => url.clone(),
    }
}

/// The name of a document: the API requires one, and ours have none.
pub(crate) const FILE_NAME: &str = "document.pdf";

/// Returns the messages of a role that is neither the user's nor the model's, in
/// OpenAI's own form.
pub(crate) fn whole_messages(message: Message<'_>) -> impl Iterator<Item = Json<'_>> {
    let pieces = message.pieces.into_iter();
    pieces.filter_map(|piece| match piece.content {
        Content::Provider(raw) => Some(Json::raw(raw)),
        _ => None,
    })
}
