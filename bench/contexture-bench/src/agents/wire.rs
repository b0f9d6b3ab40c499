//! A request as a provider reads it: blocks in the order of its prompt cache,
//! tools, system prompt, messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use anyhow::Context as _;
use serde_json::Value;

/// A block of a request.
pub(crate) struct Segment {
    /// Where it stands, and all that it says, without a cache mark.
    pub(crate) text: String,
    pub(crate) tokens: u64,
}

/// A request of Anthropic's form as blocks.
pub(crate) struct Wire {
    pub(crate) segments: Vec<Segment>,
    /// All strings of the system prompt and the messages.
    pub(crate) said: String,
}

impl Wire {
    /// Reads the body of a request.
    pub(crate) fn read(body: &str, tokens: &mut Tokens) -> anyhow::Result<Self> {
        let mut body: Value = serde_json::from_str(body)?;
        let mut wire = Self {
            segments: Vec::new(),
            said: String::new(),
        };
        for tool in list(body["tools"].take()) {
            wire.push("tool", tool, tokens);
        }
        for block in list(body["system"].take()) {
            strings(&block, &mut wire.said);
            wire.push("system", block, tokens);
        }
        for mut message in list(body["messages"].take()) {
            let role = message["role"].as_str().context("no role")?.to_owned();
            for block in list(message["content"].take()) {
                strings(&block, &mut wire.said);
                wire.push(&role, block, tokens);
            }
        }
        Ok(wire)
    }

    fn push(&mut self, place: &str, mut block: Value, tokens: &mut Tokens) {
        if let Value::Object(map) = &mut block {
            map.shift_remove("cache_control");
        }
        let text = format!("{place}: {block}\n");
        self.segments.push(Segment {
            tokens: tokens.of(&text, &block),
            text,
        });
    }

    /// Returns the tokens of the request.
    pub(crate) fn tokens(&self) -> u64 {
        self.segments.iter().map(|segment| segment.tokens).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.text.len()).sum()
    }

    /// Returns how many blocks two requests share at their start, and how many
    /// bytes.
    pub(crate) fn shared(&self, other: &Self) -> (usize, usize) {
        let (mut blocks, mut bytes) = (0, 0);
        for (one, two) in self.segments.iter().zip(&other.segments) {
            if one.text == two.text {
                blocks += 1;
                bytes += one.text.len();
                continue;
            }
            let pairs = one.text.bytes().zip(two.text.bytes());
            bytes += pairs.take_while(|(one, two)| one == two).count();
            break;
        }
        (blocks, bytes)
    }
}

/// Returns the blocks of a content that is a list or a text.
fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(list) => list,
        other => vec![other],
    }
}

fn strings(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(list) => list.iter().for_each(|value| strings(value, out)),
        Value::Object(map) => map.values().for_each(|value| strings(value, out)),
        _ => {}
    }
}

/// Counts blocks with o200k, each block once.
pub(crate) struct Tokens {
    counter: std::sync::Arc<dyn contexture::tokens::TokenCounter>,
    known: HashMap<String, u64>,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            counter: crate::counter(),
            known: HashMap::new(),
        }
    }

    /// Returns the tokens of all that a block says: its strings, and as JSON
    /// the arguments of a call or the definition of a tool.
    fn of(&mut self, key: &str, block: &Value) -> u64 {
        match self.known.entry(key.to_owned()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let text = match block["type"].as_str() {
                    Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
                    Some("tool_use") => format!("{}{}", block["name"], block["input"]),
                    Some("tool_result") => {
                        let mut text = String::new();
                        strings(&block["content"], &mut text);
                        text
                    }
                    _ => match block {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    },
                };
                *new.insert(self.counter.count(&text))
            }
        }
    }
}
