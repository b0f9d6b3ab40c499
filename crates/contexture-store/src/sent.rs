//! [`SentBlock`]: a part of the message that a turn answers, as it was sent.

use contexture_core::{Join, Media, Role, Trust};
use serde::{Deserialize, Serialize};

/// A block of the current message of a request, as it was sent.
///
/// A turn stores the current message of the request that it answers: the event
/// with its time, sender, attachments and hooks, and what was recalled for it.
/// History then holds the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentBlock {
    /// The id of the item in the request.
    pub id: String,
    /// The role that it was sent as.
    pub role: Role,
    /// The trust level of the content.
    pub trust: Trust,
    /// The path, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The connection to the block before it.
    #[serde(default, skip_serializing_if = "Join::is_apart")]
    pub join: Join,
    /// The text, with secrets masked. Of media, a description.
    pub text: String,
    /// The media, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Media>,
}
