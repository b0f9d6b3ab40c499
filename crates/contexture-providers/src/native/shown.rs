//! How an opaque block is shown and counted.

use contexture_core::{RawJson, Tokens, grouped};
use serde_json::Value;

/// From this length on, a string without blanks is taken to be encrypted or
/// encoded.
const LONG: usize = 96;

/// How many characters of such a string count as a token. A provider decrypts it
/// to about four bytes of text for each, and base64 has a third more.
const CHARACTERS_PER_TOKEN: usize = 4;

/// Returns the JSON of an opaque block for a reader, and what it costs beyond
/// that text.
///
/// A long string without blanks, such as a signature or encrypted reasoning, is
/// replaced by its length, and counted as one token for four characters.
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
}
