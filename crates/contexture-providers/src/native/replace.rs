//! Replaces the messages of a request, and keeps every other byte.

use std::borrow::Cow;

use memchr::memmem;

use super::node::Node;
use super::{Api, NativeError, utf8};

/// The cache mark as requests are rendered without blanks.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// The most cache marks that Anthropic accepts in a request.
const MOST_MARKS: usize = 4;

impl Api {
    /// Returns the field that holds the conversation.
    pub(super) fn messages_field(self) -> &'static str {
        match self {
            Api::Anthropic | Api::OpenAiChat => "messages",
            Api::OpenAiResponses => "input",
            Api::Gemini => "contents",
        }
    }
}

/// Returns the request `body`, which [`read_request`](super::read_request)
/// could read, with the conversation of `rendered`, a request to the same API
/// without white space. All other fields keep their bytes and their order.
///
/// Cache marks of the body stay. Of those in `rendered`, only the last ones
/// stay, as many as the API still accepts.
pub fn with_messages(body: &[u8], rendered: &str, api: Api) -> Result<String, NativeError> {
    let text = utf8(body)?;
    let field = api.messages_field();
    let new = Node::of_json(rendered);
    let new = new
        .find(field)
        .ok_or_else(|| NativeError::new(field, "is missing in the rendered request"))?;
    let root = Node::of_json(text);
    let fields = root.fields()?;
    let others = fields.iter().filter(|(name, _)| name != field);
    let marks: usize = others
        .map(|(_, value)| memmem::find_iter(value.raw.as_bytes(), "\"cache_control\"").count())
        .sum();
    let new = last_marks(new.raw, MOST_MARKS.saturating_sub(marks));
    let old = root.find(field).map_or(0, |old| old.raw.len());
    // Names are written without blanks, so that the rest gets no longer.
    let mut out = String::with_capacity(text.len() - old + new.len());
    out.push('{');
    for (i, (name, value)) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let key = serde_json::Value::from(name.as_str()).to_string();
        out.push_str(&key);
        out.push(':');
        out.push_str(if name == field { &new } else { value.raw });
    }
    out.push('}');
    Ok(out)
}

/// Returns `rendered` with its last `most` cache marks. Inside a text a mark
/// would have backslashes before its quotes.
fn last_marks(rendered: &str, most: usize) -> Cow<'_, str> {
    let marks = memmem::find_iter(rendered.as_bytes(), MARK).count();
    match marks.checked_sub(most) {
        None | Some(0) => Cow::Borrowed(rendered),
        Some(excess) => Cow::Owned(rendered.replacen(MARK, "", excess)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn other_fields_keep_their_bytes() {
        let body =
            br#"{ "model" : "m", "max_tokens":1.0e2, "messages": [1, 2], "x": {"b" :1,"a":2} }"#;
        let made = with_messages(body, r#"{"model":"other","messages":[2]}"#, Api::Anthropic);
        assert_eq!(
            made.unwrap(),
            r#"{"model":"m","max_tokens":1.0e2,"messages":[2],"x":{"b" :1,"a":2}}"#
        );
    }

    #[test]
    fn at_most_four_cache_marks_remain() {
        let mark = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
        let body = format!(r#"{{"system":[{mark},{mark},{mark}],"messages":[]}}"#);
        let new = format!(r#"{{"messages":[{mark},{mark}]}}"#);
        let made = with_messages(body.as_bytes(), &new, Api::Anthropic).unwrap();
        assert_eq!(made.matches("cache_control").count(), 4);
        assert!(
            made.contains(r#""messages":[{"type":"text","text":"a"},{"#),
            "{made}"
        );
    }
}
