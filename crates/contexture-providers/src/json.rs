//! JSON that borrows its texts, and its serialisation.
//!
//! A request holds the whole conversation. Copying it into a [`Value`] and
//! writing that character by character would cost more than choosing its
//! content.

use std::borrow::Cow;

use contexture_core::json;
use serde_json::Value;

use crate::split;

/// JSON whose texts may be borrowed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    /// A small value, or one without a fixed structure.
    Value(Value),
    Text(Cow<'a, str>),
    /// A text, and its JSON form.
    Written {
        text: &'a str,
        json: &'a str,
    },
    /// JSON that is written byte for byte, and its parsed form.
    Raw {
        raw: Cow<'a, str>,
        parsed: Box<Json<'a>>,
    },
    List(Vec<Json<'a>>),
    Map(Vec<(Cow<'static, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Returns a text that is borrowed from elsewhere.
    pub(crate) fn text(text: &'a str) -> Self {
        Json::Text(Cow::Borrowed(text))
    }

    /// Returns JSON that is written unchanged. It was parsed before, so it is
    /// valid.
    pub(crate) fn raw(raw: &'a str) -> Self {
        let value = serde_json::from_str(raw).unwrap_or(Value::Null);
        Json::Raw {
            raw: Cow::Borrowed(raw),
            parsed: Box::new(Json::opened(value)),
        }
    }

    /// Returns a value that can be looked into by the checks.
    fn opened(value: Value) -> Self {
        match value {
            Value::String(text) => Json::Text(Cow::Owned(text)),
            Value::Array(list) => Json::List(list.into_iter().map(Json::opened).collect()),
            Value::Object(fields) => Json::Map(
                fields
                    .into_iter()
                    .map(|(key, value)| (Cow::Owned(key), Json::opened(value)))
                    .collect(),
            ),
            value => Json::Value(value),
        }
    }

    /// Adds the fields of a JSON object, each written unchanged.
    pub(crate) fn push_raw_fields(&mut self, raw: &'a str) {
        let Json::Map(fields) = self else {
            return;
        };
        for (key, value) in split::fields(raw).unwrap_or_default() {
            fields.retain(|(name, _)| *name != key);
            fields.push((Cow::Owned(key.into_owned()), Json::raw(value)));
        }
    }

    /// Adds a field to a map, or after the other bytes of an object that is
    /// written unchanged.
    pub(crate) fn push(&mut self, key: &'static str, value: impl Into<Json<'a>>) {
        match self {
            Json::Map(fields) => fields.push((Cow::Borrowed(key), value.into())),
            Json::Raw { raw, parsed } => {
                let value = value.into();
                let object = raw.trim_end();
                if let Some(open) = object.strip_suffix('}') {
                    let mut written = open.to_owned();
                    if !written.trim_end().ends_with('{') {
                        written.push(',');
                    }
                    json::write(&mut written, key);
                    written.push(':');
                    value.write_compact(&mut written);
                    written.push('}');
                    *raw = Cow::Owned(written);
                    parsed.push(key, value);
                }
            }
            _ => {}
        }
    }

    /// Adds a field whose name is not known beforehand.
    pub(crate) fn push_named(&mut self, key: String, value: Value) {
        if let Json::Map(fields) = self {
            fields.push((Cow::Owned(key), Json::Value(value)));
        }
    }

    /// Returns the same with texts of its own.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Json::Value(value) => value,
            Json::Text(text) => Value::String(text.into_owned()),
            Json::Written { text, .. } => Value::String(text.to_owned()),
            Json::Raw { parsed, .. } => parsed.into_value(),
            Json::List(list) => list.into_iter().map(Json::into_value).collect(),
            Json::Map(fields) => fields
                .into_iter()
                .map(|(key, value)| (key.into_owned(), value.into_value()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }

    /// Returns it as text, indented by two spaces, with a final line end.
    pub(crate) fn pretty(&self) -> String {
        // Line ends and quotes take two characters each.
        let size = self.size();
        let mut out = String::with_capacity(size + size / 8 + 64);
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    /// Returns it as text without white space.
    pub(crate) fn compact(&self) -> String {
        let size = self.size();
        let mut out = String::with_capacity(size + size / 16 + 64);
        self.write_compact(&mut out);
        out
    }

    fn write_compact(&self, out: &mut String) {
        match self {
            Json::Value(value) => out.push_str(&value.to_string()),
            Json::Text(text) => json::write(out, text),
            Json::Written { json, .. } => out.push_str(json),
            Json::Raw { raw, .. } => out.push_str(raw),
            Json::List(list) => {
                out.push('[');
                for (i, item) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write_compact(out);
                }
                out.push(']');
            }
            Json::Map(fields) => {
                out.push('{');
                for (i, (key, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    json::write(out, key);
                    out.push(':');
                    value.write_compact(out);
                }
                out.push('}');
            }
        }
    }

    fn size(&self) -> usize {
        match self {
            Json::Value(_) => 256,
            Json::Text(text) => text.len() + 32,
            Json::Written { json, .. } => json.len(),
            Json::Raw { raw, .. } => raw.len(),
            Json::List(list) => list.iter().map(|item| item.size() + 32).sum(),
            Json::Map(fields) => fields.iter().map(|(_, value)| value.size() + 32).sum(),
        }
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Json::Value(value) => write_value(value, out, depth),
            Json::Text(text) => json::write(out, text),
            Json::Written { json, .. } => out.push_str(json),
            Json::Raw { raw, .. } => out.push_str(raw),
            Json::List(list) => {
                let items = list.iter();
                write_items(out, depth, ('[', ']'), items, |item, out| {
                    item.write(out, depth + 1);
                });
            }
            Json::Map(fields) => {
                let fields = fields.iter();
                write_items(out, depth, ('{', '}'), fields, |(key, value), out| {
                    json::write(out, key);
                    out.push_str(": ");
                    value.write(out, depth + 1);
                });
            }
        }
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        Json::Value(value)
    }
}

impl<'a> From<Vec<Json<'a>>> for Json<'a> {
    fn from(list: Vec<Json<'a>>) -> Self {
        Json::List(list)
    }
}

/// Makes a map of names and [`Json`] values.
macro_rules! map {
    ($($key:literal: $value:expr),* $(,)?) => {
        $crate::json::Json::Map(vec![$((::std::borrow::Cow::Borrowed($key), $value.into())),*])
    };
}
pub(crate) use map;

/// Writes a value as `{value:#}` does.
fn write_value(value: &Value, out: &mut String, depth: usize) {
    match value {
        Value::String(text) => json::write(out, text),
        Value::Array(list) => {
            write_items(out, depth, ('[', ']'), list.iter(), |item, out| {
                write_value(item, out, depth + 1);
            });
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            write_items(out, depth, ('{', '}'), fields, |(key, value), out| {
                json::write(out, key);
                out.push_str(": ");
                write_value(value, out, depth + 1);
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

fn write_items<T>(
    out: &mut String,
    depth: usize,
    (open, close): (char, char),
    items: impl ExactSizeIterator<Item = T>,
    mut write: impl FnMut(T, &mut String),
) {
    out.push(open);
    if items.len() > 0 {
        for (at, item) in items.enumerate() {
            out.push_str(if at == 0 { "\n" } else { ",\n" });
            indent(out, depth + 1);
            write(item, out);
        }
        out.push('\n');
        indent(out, depth);
    }
    out.push(close);
}

fn indent(out: &mut String, depth: usize) {
    const BLANKS: &str = "                                ";
    for _ in 0..depth / 16 {
        out.push_str(BLANKS);
    }
    out.push_str(&BLANKS[..depth % 16 * 2]);
}

/// The JSON that a check reads: a request that we made, or one by another
/// program.
pub(crate) trait Node: Sized {
    fn get(&self, key: &str) -> Option<&Self>;
    fn as_text(&self) -> Option<&str>;
    fn as_list(&self) -> Option<&[Self]>;
    fn is_map(&self) -> bool;
    fn as_number(&self) -> Option<u64>;
    fn is_true(&self) -> bool;
    fn is_null(&self) -> bool;

    /// Returns the list at `key`, or nothing.
    fn list(&self, key: &str) -> &[Self] {
        self.get(key).and_then(Self::as_list).unwrap_or_default()
    }

    /// Returns the text at `key`, or nothing.
    fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Self::as_text).unwrap_or_default()
    }
}

impl Node for Value {
    fn get(&self, key: &str) -> Option<&Self> {
        Value::get(self, key)
    }

    fn as_text(&self) -> Option<&str> {
        self.as_str()
    }

    fn as_list(&self) -> Option<&[Self]> {
        self.as_array().map(Vec::as_slice)
    }

    fn is_map(&self) -> bool {
        self.is_object()
    }

    fn as_number(&self) -> Option<u64> {
        self.as_u64()
    }

    fn is_true(&self) -> bool {
        self.as_bool() == Some(true)
    }

    fn is_null(&self) -> bool {
        Value::is_null(self)
    }
}

/// Values inside a [`Json::Value`] are not visible: only values made of
/// [`Json`] throughout can be checked.
impl Node for Json<'_> {
    fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Json::Map(fields) => {
                let mut fields = fields.iter();
                fields.find(|field| field.0 == key).map(|field| &field.1)
            }
            Json::Raw { parsed, .. } => parsed.get(key),
            _ => None,
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            Json::Written { text, .. } => Some(text),
            Json::Value(value) => value.as_str(),
            Json::Raw { parsed, .. } => parsed.as_text(),
            _ => None,
        }
    }

    fn as_list(&self) -> Option<&[Self]> {
        match self {
            Json::List(list) => Some(list),
            Json::Raw { parsed, .. } => parsed.as_list(),
            _ => None,
        }
    }

    fn is_map(&self) -> bool {
        match self {
            Json::Value(value) => value.is_object(),
            Json::Raw { parsed, .. } => parsed.is_map(),
            json => matches!(json, Json::Map(_)),
        }
    }

    fn as_number(&self) -> Option<u64> {
        match self {
            Json::Value(value) => value.as_u64(),
            Json::Raw { parsed, .. } => parsed.as_number(),
            _ => None,
        }
    }

    fn is_true(&self) -> bool {
        match self {
            Json::Raw { parsed, .. } => parsed.is_true(),
            json => matches!(json, Json::Value(Value::Bool(true))),
        }
    }

    fn is_null(&self) -> bool {
        match self {
            Json::Raw { parsed, .. } => parsed.is_null(),
            json => matches!(json, Json::Value(Value::Null)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_written_like_a_serde_value() {
        let texts = [
            "",
            "plain",
            "a\"b\\c/d",
            "line\nline\r\n\ttab",
            "\u{0}\u{1}\u{8}\u{c}\u{1f}\u{7f}",
            "eight by\"te is 9",
            "ü\u{2028}漢字🦀\\",
            "0123456\"",
            "01234567\"",
        ];
        let lists: Vec<Json<'_>> = texts.iter().map(|text| Json::text(text)).collect();
        let inner = json!({"a": [], "b": {}, "c": [1, -2.5, null, true, {"d": "e\n"}], "": "x"});
        let mut json = map! {
            "texts": lists,
            "value": inner,
            "empty": Vec::new(),
            "nothing": Json::Map(Vec::new()),
        };
        json.push("more", Json::text("1"));
        let value = json.clone().into_value();
        assert_eq!(json.pretty(), format!("{value:#}\n"));
        assert_eq!(json.compact(), value.to_string());
        assert_eq!(Json::Value(value.clone()).pretty(), format!("{value:#}\n"));
    }

    #[test]
    fn raw_json_keeps_its_bytes() {
        let text = "{ \"n\": 1.50,\n\"e\":\"\\u00e9\" }";
        let mut raw = Json::raw(text);
        assert_eq!(raw.compact(), text);
        assert_eq!(raw.text("e"), "é");
        raw.push("mark", Json::text("x"));
        let marked = "{ \"n\": 1.50,\n\"e\":\"\\u00e9\" ,\"mark\":\"x\"}";
        assert_eq!(raw.compact(), marked);
        assert_eq!(raw.text("mark"), "x");
        assert_eq!(raw.into_value(), json!({"n": 1.5, "e": "é", "mark": "x"}));
        let mut empty = Json::raw("{}");
        empty.push("a", Json::text("b"));
        assert_eq!(empty.compact(), "{\"a\":\"b\"}");
        let mut fields = map! {"role": Json::text("assistant")};
        fields.push_raw_fields("{\"n\": 1.50 , \"role\":\"x\"}");
        assert_eq!(fields.compact(), "{\"n\":1.50,\"role\":\"x\"}");
    }

    #[test]
    fn nested_json_is_indented() {
        let mut value = json!(["bottom"]);
        for _ in 0..40 {
            value = json!({"down": [value]});
        }
        let written = Json::Value(value.clone()).pretty();
        assert_eq!(written, format!("{value:#}\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_written_like_a_serde_value(text in "(.|[\\n\\r\\t\"\\\\\\x00-\\x1f]){0,64}") {
            let value = Value::from(text.as_str());
            prop_assert_eq!(Json::text(&text).pretty(), format!("{value:#}\n"));
        }
    }
}
