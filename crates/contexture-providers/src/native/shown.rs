//! The text and the tokens of an opaque block.

use contexture_core::{Media, MediaKind, MediaSource, RawJson, Tokens, grouped};
use serde_json::{Map, Value};

use crate::media::media_tokens;

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
/// characters. The bytes of media count as [`media_tokens`] does, and files that
/// are stored at the provider as [`file_tokens`] does.
pub fn shown(raw: &RawJson) -> (String, Tokens) {
    let mut hidden = 0;
    match serde_json::from_str(raw.as_str()) {
        Ok(mut value) => {
            hidden += stored_files(&value);
            shorten(&mut value, &mut hidden);
            (value.to_string(), hidden)
        }
        Err(_) => (raw.as_str().to_owned(), 0),
    }
}

fn shorten(value: &mut Value, hidden: &mut Tokens) {
    match value {
        Value::String(text) if is_long(text) => {
            let media = text.strip_prefix("data:");
            let media = media.and_then(|media| media.split_once(";base64,"));
            let media = media.and_then(|(media_type, data)| bytes_of(media_type, data));
            *hidden += media.map_or_else(|| by_length(text), |media| media_tokens(&media));
            *text = length(text);
        }
        Value::Array(list) => list.iter_mut().for_each(|value| shorten(value, hidden)),
        Value::Object(fields) => {
            let media_type = media_type(fields).map(str::to_owned);
            if let (Some(media_type), Some(Value::String(data))) =
                (media_type, fields.get_mut("data"))
                && is_long(data)
                && let Some(media) = bytes_of(&media_type, data)
            {
                *hidden += media_tokens(&media);
                *data = length(data);
            }
            fields
                .iter_mut()
                .for_each(|(_, value)| shorten(value, hidden));
        }
        _ => {}
    }
}

fn is_long(text: &str) -> bool {
    text.len() >= LONG && !text.contains(char::is_whitespace)
}

fn by_length(text: &str) -> Tokens {
    text.len().div_ceil(CHARACTERS_PER_TOKEN) as Tokens
}

fn length(text: &str) -> String {
    format!("[{} characters]", grouped(text.chars().count() as u64))
}

/// Returns the media type next to the bytes or the address of a medium.
fn media_type(fields: &Map<String, Value>) -> Option<&str> {
    let mut names = ["media_type", "mimeType", "mime_type"].iter();
    names.find_map(|name| fields.get(*name)?.as_str())
}

/// Returns the medium of a type with these bytes, or `None` if the tokens of the
/// type are not known.
fn bytes_of(media_type: &str, data: &str) -> Option<Media> {
    let kind = kind_of(media_type)?;
    Some(Media {
        kind,
        media_type: media_type.to_owned(),
        source: MediaSource::Data(data.to_owned()),
    })
}

fn kind_of(media_type: &str) -> Option<MediaKind> {
    match media_type.split('/').next() {
        Some("image") => Some(MediaKind::Image),
        Some("audio") => Some(MediaKind::Audio),
        _ if media_type == "application/pdf" => Some(MediaKind::Document),
        _ => None,
    }
}

/// Returns the tokens of the files in a block's JSON that are stored at the
/// provider. Their content is not available, so that they count as the largest
/// image, or as a long document or recording.
pub fn file_tokens(raw: &str) -> Tokens {
    let has_files = FILE_FIELDS.iter().any(|field| raw.contains(field));
    let value = has_files.then(|| serde_json::from_str(raw).ok()).flatten();
    value.map_or(0, |value| stored_files(&value))
}

/// The fields that name a file that is stored at the provider.
const FILE_FIELDS: [&str; 3] = ["file_id", "fileUri", "file_uri"];

fn stored_files(value: &Value) -> Tokens {
    match value {
        Value::Array(list) => list.iter().map(stored_files).sum(),
        Value::Object(fields) => match stored_file(fields) {
            Some(kind) => media_tokens(&Media {
                kind,
                media_type: String::new(),
                source: MediaSource::Url(String::new()),
            }),
            None => fields.values().map(stored_files).sum(),
        },
        _ => 0,
    }
}

/// Returns the kind of a file that is stored at the provider. Files for the
/// provider's tools (`container_upload`) have no tokens.
fn stored_file(fields: &Map<String, Value>) -> Option<MediaKind> {
    let has =
        |fields: &Map<String, Value>, name: &str| fields.get(name).is_some_and(Value::is_string);
    let inner = |name: &str| fields.get(name).and_then(Value::as_object);
    if has(fields, "fileUri") || has(fields, "file_uri") {
        let kind = media_type(fields).and_then(kind_of);
        return Some(kind.unwrap_or(MediaKind::Document));
    }
    let kind = match fields.get("type")?.as_str()? {
        "image" | "input_image" | "computer_screenshot" => MediaKind::Image,
        "document" | "input_file" | "file" => MediaKind::Document,
        _ => return None,
    };
    let mut holders = [Some(fields), inner("source"), inner("file")].into_iter();
    let is_stored = holders.any(|holder| holder.is_some_and(|holder| has(holder, "file_id")));
    is_stored.then_some(kind)
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
    fn media_in_opaque_blocks_count_as_media() {
        let data = "aGFyYm91cg==".repeat(4_000);
        let tokens = |raw: &str| shown(&RawJson::parse(raw).unwrap()).1;
        // Unreadable bytes count as the largest image, not as text.
        let most = tokens(r#"{"type":"input_image","file_id":"file-1"}"#);
        for raw in [
            format!(r#"{{"output":{{"type":"x","image_url":"data:image/png;base64,{data}"}}}}"#),
            format!(r#"{{"source":{{"media_type":"image/bmp","data":"{data}"}}}}"#),
            format!(r#"{{"inlineData":{{"mimeType":"image/gif","data":"{data}"}}}}"#),
        ] {
            assert_eq!(tokens(&raw), most);
        }
        assert!(most > 1_000 && most < data.len() as Tokens / 4);
    }

    #[test]
    fn files_at_the_provider_have_tokens() {
        let image = file_tokens(r#"{"type":"input_image","file_id":"f"}"#);
        let document = file_tokens(r#"{"type":"input_file","file_id":"f"}"#);
        assert!(image > 0 && document > image);
        for (raw, tokens) in [
            (
                r#"[{"type":"image","source":{"type":"file","file_id":"f"}}]"#,
                image,
            ),
            (
                r#"{"type":"document","source":{"type":"file","file_id":"f"}}"#,
                document,
            ),
            (r#"{"type":"file","file":{"file_id":"f"}}"#, document),
            (
                r#"{"fileData":{"mimeType":"image/png","fileUri":"gs://a/b"}}"#,
                image,
            ),
            (
                r#"{"fileData":{"mimeType":"video/mp4","fileUri":"gs://a/b"}}"#,
                document,
            ),
            (r#"{"type":"container_upload","file_id":"f"}"#, 0),
            (r#"{"type":"text","text":"file_id"}"#, 0),
        ] {
            assert_eq!(file_tokens(raw), tokens, "{raw}");
        }
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
