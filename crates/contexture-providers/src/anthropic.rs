use serde_json::{Value, json};

use crate::message::{Conversation, Rules, Speaker};
use crate::{Prompt, Refused};

const RULES: Rules = Rules {
    not_empty: "anthropic.messages_not_empty",
    user_first: "anthropic.user_first",
    no_blank_text: "anthropic.no_blank_text",
};

/// The API wants a limit on the answer; this one is taken when none is set, or
/// what the window has left.
const DEFAULT_MAX_TOKENS: u64 = 4096;

pub(crate) fn request(prompt: &Prompt<'_>) -> Result<Value, Refused> {
    let conversation = Conversation::of(prompt.layout, false);
    conversation.check(&RULES)?;

    let mut system: Vec<Value> = conversation
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    // One mark behind what never changes, and one behind what is the same
    // until the event: two of the four that the API allows.
    mark(system.last_mut());

    let mut messages = Vec::with_capacity(conversation.messages.len());
    let last = conversation.messages.len() - 1;
    for (i, message) in conversation.messages.iter().enumerate() {
        let role = match message.speaker {
            Speaker::User => "user",
            Speaker::Model => "assistant",
        };
        let mut content: Vec<Value> = message
            .parts
            .iter()
            .map(|part| json!({"type": "text", "text": part.text}))
            .collect();
        if i == last
            && let Some(stable) = message.parts.iter().rposition(|part| part.stable)
        {
            mark(content.get_mut(stable));
        }
        messages.push(json!({"role": role, "content": content}));
    }

    let mut request = json!({
        "model": prompt.model,
        "max_tokens": prompt
            .max_output
            .unwrap_or_else(|| DEFAULT_MAX_TOKENS.min(prompt.spare).max(1)),
    });
    if !system.is_empty() {
        request["system"] = Value::Array(system);
    }
    request["messages"] = Value::Array(messages);
    Ok(request)
}

fn mark(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}
