//! The fields of a row that are read. All others are skipped.

use std::borrow::Cow;

use contexture_store::Message;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::fields::Fields;
use crate::messages;

/// A row of any type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) parent_uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) logical_parent_uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) agent_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) is_sidechain: bool,
    #[serde(default)]
    pub(super) is_meta: bool,
    #[serde(default)]
    pub(super) is_compact_summary: bool,
    #[serde(default)]
    pub(super) is_api_error_message: bool,
    #[serde(borrow)]
    pub(super) forked_from: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) subtype: Option<Cow<'a, str>>,
    pub(super) api_block_index: Option<u64>,
    #[serde(borrow)]
    pub(super) request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) request_ref: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "json_text")]
    pub(super) message: Option<&'a str>,
    #[serde(borrow)]
    pub(super) rendered: Option<&'a RawValue>,
    pub(super) compact_metadata: Option<CompactMetadata>,
    // Fields of rows that describe sent requests.
    #[serde(borrow)]
    pub(super) hash: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) shape_hash: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) shape: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) base: Option<Cow<'a, str>>,
    pub(super) keep: Option<usize>,
    #[serde(borrow)]
    pub(super) tail: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) request_digest: Option<Cow<'a, str>>,
}

/// Reads a value as its JSON.
fn json_text<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a str>, D::Error> {
    let raw: Option<&'a RawValue> = Deserialize::deserialize(from)?;
    Ok(raw.map(RawValue::get))
}

/// The length from which parts of a row are left out, in bytes.
const LONG_ROW: usize = 2048;

/// The field with the output of a tool. The message of the row has it, too.
const OUTPUT: &str = "toolUseResult";

/// The result of a tool, read before its row.
pub(super) struct ResultMessage<'a> {
    pub(super) raw: &'a str,
    pub(super) messages: Vec<Message>,
}

/// Writes a long row to `short` without the output of a tool, and without its
/// message if that is the result of a tool. A parser reads long texts slower.
/// Returns false if nothing is left out.
pub(super) fn shorten<'a>(
    row: &'a str,
    short: &mut String,
    result: &mut Option<ResultMessage<'a>>,
) -> bool {
    let fields = Fields::of(row).filter(|_| row.len() >= LONG_ROW);
    let mut copied = 0;
    short.clear();
    for (name, value) in fields.into_iter().flatten() {
        let raw = &row[value.clone()];
        let is_left_out = match name {
            OUTPUT => true,
            "message" if result.is_none() => {
                let messages = user_content(raw).and_then(messages::only_result);
                *result = messages.map(|messages| ResultMessage { raw, messages });
                result.is_some()
            }
            _ => false,
        };
        if is_left_out {
            short.push_str(&row[copied..value.start]);
            short.push_str("null");
            copied = value.end;
        }
    }
    short.push_str(&row[copied..]);
    copied > 0
}

/// Returns the content of a message of the user's side that has the usual form.
pub(super) fn user_content(message: &str) -> Option<&str> {
    let content = message.strip_prefix(r#"{"role":"user","content":"#)?;
    content.strip_suffix('}')
}

/// The metadata of a compaction.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CompactMetadata {
    pub(super) trigger: Option<String>,
    pub(super) pre_tokens: Option<u64>,
    pub(super) post_tokens: Option<u64>,
    pub(super) preserved_segment: Option<PreservedSegment>,
}

/// The rows that stay visible after a compaction.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PreservedSegment {
    pub(super) head_uuid: Option<String>,
}

/// The session that a row was copied from.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ForkedFrom {
    pub(super) session_id: String,
}

/// The message of a row.
#[derive(Deserialize)]
pub(super) struct ApiMessage<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// A part of a rendered attachment.
#[derive(Deserialize)]
pub(super) struct Rendered<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
}

/// Types of rows that hold nothing of the conversation.
const OTHER_TYPES: [&str; 22] = [
    "agent-name",
    "ai-title",
    "atis-latch",
    "content-replacement",
    "cost-state",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "saved_hook_context",
    "speculation-accept",
    "summary",
    "system",
    "tag",
    "task-summary",
    "tools-used",
    "attribution-snapshot",
    "worktree-state",
];

impl Row<'_> {
    /// Returns true for a type that is known to hold nothing of the
    /// conversation.
    pub(super) fn is_other(&self) -> bool {
        OTHER_TYPES.contains(&&*self.kind)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn long_parts_of_a_row_are_left_out() {
        let long = r"x\n\\".repeat(1000);
        let content = format!(
            r#"[{{"tool_use_id":"c","type":"tool_result","content":"{long}","is_error":true}}]"#
        );
        let message = format!(r#"{{"role":"user","content":{content}}}"#);
        let row = format!(
            r#"{{"type":"user","message":{message},"toolUseResult":{{"out":"{long}"}},"uuid":"u"}}"#
        );
        let (mut short, mut result) = (String::new(), None);
        assert!(shorten(&row, &mut short, &mut result));
        let expected = r#"{"type":"user","message":null,"toolUseResult":null,"uuid":"u"}"#;
        assert_eq!(short, expected);
        let result = result.unwrap();
        assert_eq!(result.raw, message);
        assert_eq!(result.messages, messages::user(&content));

        // The parser rejects a message that is not JSON.
        let bad = row.replace(r"x\n", r"x\q");
        let mut result = None;
        assert!(shorten(&bad, &mut short, &mut result));
        assert!(result.is_none() && short.contains(r"x\q"));
        assert!(serde_json::from_str::<Row<'_>>(&short).is_err());

        // Fields of other objects stay.
        let inner = format!(r#"{{"type":"assistant","message":{{"toolUseResult":"{long}"}}}}"#);
        assert!(!shorten(&inner, &mut short, &mut result));
        assert!(!shorten(expected, &mut short, &mut result) && result.is_none());
    }
}
