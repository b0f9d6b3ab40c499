//! Requests as lists of blocks, in the order of a provider's prompt cache: tools,
//! system prompt, messages.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use anyhow::Context as _;
use contexture::tokens::TokenCounter;
use serde_json::Value;

/// A block of a request: a tool, or a part of the system prompt or of a message.
pub(crate) struct Segment {
    /// Its place and all that it contains, without a cache mark.
    pub(crate) text: String,
    pub(crate) hash: u64,
    /// The number of its o200k tokens.
    pub(crate) tokens: u64,
    /// Its strings. Empty for a tool.
    strings: String,
}

/// The blocks of a request.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The indices of the blocks with a cache mark (`cache_control`).
    pub(crate) marks: Vec<usize>,
}

impl Wire {
    /// Reads the body of a request in Anthropic's form.
    pub(crate) fn read(body: &str, blocks: &mut Blocks) -> anyhow::Result<Self> {
        let mut body: Value = serde_json::from_str(body)?;
        let mut wire = Self::default();
        for tool in list(body["tools"].take()) {
            wire.push(Blocks::TOOL, tool, blocks);
        }
        for block in list(body["system"].take()) {
            wire.push(Blocks::SYSTEM, block, blocks);
        }
        for mut message in list(body["messages"].take()) {
            let role = message["role"].as_str().context("no role")?.to_owned();
            for block in list(message["content"].take()) {
                wire.push(&role, block, blocks);
            }
        }
        Ok(wire)
    }

    fn push(&mut self, place: &str, mut block: Value, blocks: &mut Blocks) {
        if let Value::Object(map) = &mut block
            && map.shift_remove("cache_control").is_some()
        {
            self.marks.push(self.segments.len());
        }
        self.segments.push(blocks.get(place, &block));
    }

    /// Returns the tokens of the request.
    pub(crate) fn tokens(&self) -> u64 {
        self.segments.iter().map(|segment| segment.tokens).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.text.len()).sum()
    }

    /// Returns all strings of the system prompt and the messages.
    pub(crate) fn strings(&self) -> String {
        (self.segments.iter())
            .map(|segment| segment.strings.as_str())
            .collect()
    }

    /// Returns how many blocks two requests share at their start, and how many
    /// bytes of the next block.
    pub(crate) fn shared(&self, other: &Self) -> (usize, usize) {
        let pairs = self.segments.iter().zip(&other.segments);
        let blocks = pairs
            .take_while(|(one, two)| one.hash == two.hash && one.text == two.text)
            .count();
        let bytes = match (self.segments.get(blocks), other.segments.get(blocks)) {
            (Some(one), Some(two)) => {
                let pairs = one.text.bytes().zip(two.text.bytes());
                pairs.take_while(|(one, two)| one == two).count()
            }
            _ => 0,
        };
        (blocks, bytes)
    }

    /// Returns a hash of everything up to and including each block.
    pub(crate) fn prefixes(&self) -> Vec<u64> {
        let mut hasher = DefaultHasher::new();
        let mut prefix = |segment: &Arc<Segment>| {
            segment.hash.hash(&mut hasher);
            hasher.finish()
        };
        self.segments.iter().map(&mut prefix).collect()
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

/// Caches blocks, so that each block is counted once.
pub(crate) struct Blocks {
    counter: Arc<dyn TokenCounter>,
    known: HashMap<String, Arc<Segment>>,
}

impl Blocks {
    pub(crate) const TOOL: &str = "tool";
    pub(crate) const SYSTEM: &str = "system";
    pub(crate) const USER: &str = "user";
    pub(crate) const ASSISTANT: &str = "assistant";

    pub(crate) fn new() -> Self {
        Self {
            counter: crate::counter(),
            known: HashMap::new(),
        }
    }

    /// Returns a block at a place.
    pub(crate) fn get(&mut self, place: &str, block: &Value) -> Arc<Segment> {
        let text = format!("{place}: {block}\n");
        if let Some(known) = self.known.get(&text) {
            return Arc::clone(known);
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let mut all = String::new();
        if place != Self::TOOL {
            strings(block, &mut all);
        }
        let segment = Arc::new(Segment {
            hash: hasher.finish(),
            tokens: self.counter.count(&counted(block)),
            strings: all,
            text: text.clone(),
        });
        self.known.insert(text, Arc::clone(&segment));
        segment
    }
}

/// Returns the part of a block that is counted: its text, and as JSON the
/// arguments of a call and the definition of a tool.
fn counted(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("tool_use") => format!("{}{}{}", block["id"], block["name"], block["input"]),
        Some("tool_result") => {
            let mut text = String::new();
            strings(&block["tool_use_id"], &mut text);
            strings(&block["content"], &mut text);
            text
        }
        _ => match block {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
    }
}
