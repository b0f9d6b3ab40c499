//! The text and the tokens of an opaque block.

use contexture_core::{RawJson, Tokens, grouped};
use serde_json::Value;

/// From this length on, a string without white space is assumed to be encrypted
/// or encoded.
const LONG: usize = 96;

/// The number of characters of such a string that count as one token. A
/// provider decrypts it to about four bytes of text per token, and base64 has a
/// third more.
const CHARACTERS_PER_TOKEN: usize = 4;

/// Returns the JSON of an opaque block for a reader, and its tokens beyond that
/// text.
///
/// A long string without white space, such as a signature or encrypted
/// reasoning, is replaced by its length, and counted as one token for four
/// characters.
pub fn shown(raw: &RawJson) -> (String, Tokens) {
    let mut hidden = 0;
    match serde_json::from_str(raw.as_str()) {
        Ok(mut value) => {
            shorten(&mut value, &mut hidden);
            (value.to_string(), hidden as Tokens)
        }
        Err(_) => (raw.as_str().to_owned(), 0),
    }
}

fn shorten(value: &mut Value, hidden: &mut usize) {
    match value {
        Value::String(text) if text.len() >= LONG && !text.contains(char::is_whitespace) => {
            *hidden += text.len().div_ceil(CHARACTERS_PER_TOKEN);
            *text = format!("[{} characters]", grouped(text.chars().count() as u64));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| shorten(value, hidden)),
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(_, value)| shorten(value, hidden)),
        _ => {}
    }
}

/// Returns the number of bytes of a block's JSON that are base64: of images,
/// documents and encrypted values.
pub fn data_bytes(raw: &str) -> usize {
    fn within(value: &Value) -> usize {
        match value {
            Value::String(text) => {
                let data = text
                    .split_once(";base64,")
                    .map_or(text.as_str(), |(_, data)| data);
                let is_data = data.len() >= LEAST_DATA
                    && data.bytes().all(|c| {
                        c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=' | b'-' | b'_')
                    });
                if is_data { data.len() } else { 0 }
            }
            Value::Array(list) => list.iter().map(within).sum(),
            Value::Object(fields) => fields.values().map(within).sum(),
            _ => 0,
        }
    }
    if raw.len() < LEAST_DATA {
        return 0;
    }
    serde_json::from_str(raw).map_or(0, |value| within(&value))
}

/// A text without blanks of this many bytes is base64.
const LEAST_DATA: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_string_is_shown_by_its_length() {
        let sealed = "c2VhbGVk".repeat(50);
        let raw = format!(r#"{{"type":"reasoning","id":"rs_1","encrypted_content":"{sealed}"}}"#);
        let raw = RawJson::parse(&raw).unwrap();
        assert_eq!(
            shown(&raw),
            (
                r#"{"type":"reasoning","id":"rs_1","encrypted_content":"[400 characters]"}"#
                    .to_owned(),
                100
            )
        );
    }

    #[test]
    fn the_base64_of_media_is_found() {
        let data = "aGFyYm91cg==".repeat(400);
        for raw in [
            format!(r#"{{"content":[{{"source":{{"type":"base64","data":"{data}"}}}}]}}"#),
            format!(r#"{{"image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),
        ] {
            assert_eq!(data_bytes(&raw), data.len());
        }
        let prose = "a pier and a boat ".repeat(400);
        assert_eq!(data_bytes(&format!(r#"{{"text":"{prose}"}}"#)), 0);
    }
}
