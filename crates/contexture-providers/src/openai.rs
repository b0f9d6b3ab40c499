use serde_json::{Value, json};

use crate::message::{Conversation, Message, Rules, Speaker};
use crate::{Prompt, Refused};

const RULES: Rules = Rules {
    not_empty: "openai.messages_not_empty",
    user_first: "openai.user_first",
    no_blank_text: "openai.no_blank_text",
};

/// Returns true for OpenAI's own models, which know the developer's role;
/// compatible servers of others often do not.
fn has_developer_role(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    let numbered_o = model
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered_o || model.starts_with("gpt-") || model.starts_with("chatgpt-")
}

fn conversation(prompt: &Prompt<'_>) -> Result<Conversation, Refused> {
    let conversation = Conversation::of(prompt.layout, has_developer_role(prompt.model));
    conversation.check(&RULES)?;
    Ok(conversation)
}

fn role(message: &Message) -> &'static str {
    match message.speaker {
        Speaker::User => "user",
        Speaker::Model => "assistant",
    }
}

pub(crate) fn chat(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    let conversation = conversation(prompt)?;
    let mut messages = Vec::new();
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": conversation.system.join("\n\n")}));
    }
    for text in &conversation.developer {
        messages.push(json!({"role": "developer", "content": text}));
    }
    for message in &conversation.messages {
        let texts: Vec<&str> = message
            .parts
            .iter()
            .map(|part| part.text.as_str())
            .collect();
        messages.push(json!({"role": role(message), "content": texts.join("\n\n")}));
    }
    let mut request = json!({"model": prompt.model, "messages": messages});
    if let Some(limit) = prompt.max_output {
        request["max_completion_tokens"] = limit.into();
    }
    Ok(request)
}

pub(crate) fn responses(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    let conversation = conversation(prompt)?;
    let mut input = Vec::new();
    for text in &conversation.developer {
        let content = json!([{"type": "input_text", "text": text}]);
        input.push(json!({"type": "message", "role": "developer", "content": content}));
    }
    for message in &conversation.messages {
        let kind = match message.speaker {
            Speaker::User => "input_text",
            Speaker::Model => "output_text",
        };
        let content: Vec<Value> = message
            .parts
            .iter()
            .map(|part| json!({"type": kind, "text": part.text}))
            .collect();
        input.push(json!({"type": "message", "role": role(message), "content": content}));
    }
    let mut request = json!({"model": prompt.model});
    if !conversation.system.is_empty() {
        request["instructions"] = conversation.system.join("\n\n").into();
    }
    request["input"] = Value::Array(input);
    if let Some(limit) = prompt.max_output {
        request["max_output_tokens"] = limit.into();
    }
    Ok(request)
}
