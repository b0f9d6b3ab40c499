//! Converts an opaque block of one API of OpenAI to the other.

use contexture_core::RawJson;
use contexture_core::message::Block;
use serde_json::{Value, json};

use super::opaque;
use crate::Format;
use crate::native::Api;

/// Returns an opaque block in the form of another API of the same provider, or
/// `None` if it has no form there.
///
/// Both APIs of OpenAI read the files that were uploaded there.
pub fn translated(block: &Block, to: Format) -> Option<Block> {
    let Block::Provider { provider, raw } = block else {
        return None;
    };
    let (from, made) = match to {
        Format::OpenAiResponses => (Api::OpenAiChat, Api::OpenAiResponses),
        Format::OpenAiChat => (Api::OpenAiResponses, Api::OpenAiChat),
        _ => return None,
    };
    if *provider != from.name() || !raw.as_str().contains("file_id") {
        return None;
    }
    let value: Value = serde_json::from_str(raw.as_str()).ok()?;
    let written = match (made, value["type"].as_str()?) {
        (Api::OpenAiResponses, "file") => {
            let id = value["file"]["file_id"].as_str()?;
            json!({"type": "input_file", "file_id": id})
        }
        (Api::OpenAiChat, "input_file") => {
            let id = value["file_id"].as_str()?;
            json!({"type": "file", "file": {"file_id": id}})
        }
        _ => return None,
    };
    let raw = RawJson::parse(&written.to_string()).ok()?;
    Some(opaque(made, raw))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_uploaded_file_is_known_to_both_apis() {
        let chat = r#"{"type":"file","file":{"file_id":"file-1"}}"#;
        let responses = r#"{"type":"input_file","file_id":"file-1"}"#;
        let block = |api: Api, raw: &str| opaque(api, RawJson::parse(raw).unwrap());
        let chat = block(Api::OpenAiChat, chat);
        let responses = block(Api::OpenAiResponses, responses);
        assert_eq!(
            translated(&chat, Format::OpenAiResponses),
            Some(responses.clone())
        );
        assert_eq!(translated(&responses, Format::OpenAiChat), Some(chat));
        assert_eq!(translated(&responses, Format::Anthropic), None);
    }
}
