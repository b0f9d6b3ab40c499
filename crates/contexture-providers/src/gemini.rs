use serde_json::{Value, json};

use crate::message::{Conversation, Rules, Speaker};
use crate::{Prompt, Refused};

const RULES: Rules = Rules {
    not_empty: "gemini.contents_not_empty",
    user_first: "gemini.user_first",
    no_blank_text: "gemini.no_blank_text",
};

/// Returns the body for `models/{model}:generateContent`; the model's name is
/// part of the address, not of the body.
pub(crate) fn request(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    let conversation = Conversation::of(prompt.layout, false);
    conversation.check(&RULES)?;
    let parts = |texts: &[String]| -> Vec<Value> {
        texts.iter().map(|text| json!({"text": text})).collect()
    };
    let contents: Vec<Value> = conversation
        .messages
        .iter()
        .map(|message| {
            let role = match message.speaker {
                Speaker::User => "user",
                Speaker::Model => "model",
            };
            let texts: Vec<String> = message.parts.iter().map(|part| part.text.clone()).collect();
            json!({"role": role, "parts": parts(&texts)})
        })
        .collect();
    let mut request = json!({});
    if !conversation.system.is_empty() {
        request["systemInstruction"] = json!({"parts": parts(&conversation.system)});
    }
    request["contents"] = Value::Array(contents);
    if let Some(limit) = prompt.max_output {
        request["generationConfig"] = json!({"maxOutputTokens": limit});
    }
    Ok(request)
}
