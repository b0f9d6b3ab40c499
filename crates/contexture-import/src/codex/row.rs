//! The rows of a rollout, as far as they are read.

use std::borrow::Cow;

use contexture_core::Usage;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A row.
#[derive(Deserialize)]
pub(super) struct Row<'a> {
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
}

/// The first row of a rollout.
#[derive(Deserialize)]
pub(super) struct SessionMeta {
    pub(super) id: Option<String>,
    pub(super) forked_from_id: Option<String>,
    pub(super) parent_thread_id: Option<String>,
    pub(super) base_instructions: Option<Instructions>,
    pub(super) model_provider: Option<String>,
    pub(super) source: Option<Value>,
}

/// The instructions of a session.
#[derive(Deserialize)]
pub(super) struct Instructions {
    pub(super) text: Option<String>,
}

/// A compaction.
#[derive(Deserialize)]
pub(super) struct Compacted {
    pub(super) message: Option<String>,
    pub(super) replacement_history: Option<Vec<Value>>,
}

/// Returns the thread that started a sub-agent.
pub(super) fn parent_of_source(source: &Value) -> Option<String> {
    let agent = source.get("subagent")?;
    let spawn = agent.get("thread_spawn").unwrap_or(agent);
    let parent = spawn.get("parent_thread_id")?.as_str()?;
    Some(parent.to_owned())
}

/// Reads the usage of a call.
pub(super) fn read_usage(usage: &Value) -> Option<Usage> {
    let number = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    Some(Usage {
        input_tokens: usage.get("input_tokens")?.as_u64()?,
        output_tokens: number("output_tokens"),
        cached_input_tokens: number("cached_input_tokens"),
        cache_write_tokens: number("cache_write_input_tokens"),
        reasoning_tokens: number("reasoning_output_tokens"),
    })
}
