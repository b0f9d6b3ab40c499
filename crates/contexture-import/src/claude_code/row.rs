//! The fields of a row that are read. All others are skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

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
    pub(super) subtype: Option<Cow<'a, str>>,
    pub(super) api_block_index: Option<u64>,
    #[serde(borrow)]
    pub(super) request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) request_ref: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
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
