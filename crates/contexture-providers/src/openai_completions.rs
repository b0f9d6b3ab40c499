//! Renders requests for OpenAI Completions (legacy): one text that the model
//! continues.

use contexture_core::guard::{Template, escape_control};
use contexture_core::{Block, MediaKind, Part, markup};
use serde_json::{Value, json};

use crate::check::refused;
use crate::conversation::is_blank;
use crate::{Format, Prompt, Refused};

const TEXT_ONLY: &str = "openai.completions_text_only";
const NO_TOOLS: &str = "openai.completions_no_tools";
const NOT_BLANK: &str = "openai.completions_not_blank";

pub(crate) fn request(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    prompt.layout.blocks().try_for_each(check_block)?;
    let text = markup::render(prompt.layout);
    // The prompt reaches the model's chat template unchanged. A token may also
    // arise where two parts of a document meet.
    let text = escape_control(&text, Template::of_model(prompt.model));
    check_prompt(&text)?;
    let mut request = json!({
        "model": prompt.model,
        "prompt": text,
        // Without a limit the answer would have 16 tokens.
        "max_tokens": prompt.limit_or_default(),
    });
    if let Value::Object(fields) = &mut request {
        prompt
            .sampling
            .write(Format::OpenAiCompletions, prompt.model, fields)?;
    }
    Ok(request)
}

fn check_block(block: &Block) -> Result<(), Refused> {
    let instead = "exclude it, or use the format `openai-chat`";
    match &block.part {
        Part::Text | Part::Thinking { .. } => Ok(()),
        Part::Provider(native) => Err(refused(
            TEXT_ONLY,
            format!(
                "`{}` is in the form of {}: completions takes text only; {instead}",
                block.id, native.provider
            ),
        )),
        Part::Media(media) => {
            let what = match media.kind {
                MediaKind::Image => "an image",
                MediaKind::Audio => "a recording",
                MediaKind::Document => "a document",
            };
            Err(refused(
                TEXT_ONLY,
                format!(
                    "`{}` holds {what}: completions takes text only; {instead}",
                    block.id
                ),
            ))
        }
        Part::Tool { name } => Err(refused(
            NO_TOOLS,
            format!("the tool `{name}` cannot be given: completions knows no tools; {instead}"),
        )),
        Part::ToolCall { name, .. } | Part::ToolResult { name, .. } => Err(refused(
            NO_TOOLS,
            format!(
                "`{}` is a call of the tool `{name}` or its result: completions knows no tools; \
                 {instead}",
                block.id
            ),
        )),
    }
}

fn check_prompt(text: &str) -> Result<(), Refused> {
    if is_blank(text) {
        return Err(refused(
            NOT_BLANK,
            "the prompt holds nothing but blanks: say what is to be continued",
        ));
    }
    Ok(())
}

/// Checks a finished request, whichever program wrote it.
pub(crate) fn check(request: &Value) -> Result<(), Refused> {
    if request.get("messages").is_some() {
        return Err(refused(
            "openai.completions_prompt",
            "completions takes a `prompt`, not `messages`: use Chat Completions for those",
        ));
    }
    match &request["prompt"] {
        Value::String(text) => check_prompt(text),
        // Several prompts, or tokens.
        Value::Array(prompts) if !prompts.is_empty() => Ok(()),
        _ => check_prompt(""),
    }
}
