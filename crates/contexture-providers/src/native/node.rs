//! A JSON value of a body: its bytes, and its path for errors.

use std::cell::OnceCell;
use std::rc::Rc;

use contexture_core::RawJson;
use serde_json::Value;
use serde_json::value::RawValue;

use super::NativeError;
use crate::split;

/// A JSON value at a place of a body.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    pub(super) raw: &'a str,
    pub(super) path: String,
    // The parsed parts of the value, once they were needed. Clones share them,
    // so that a long body is not read for every lookup.
    parts: Rc<OnceCell<Parts<'a>>>,
}

#[derive(Debug)]
enum Parts<'a> {
    Object(Vec<(String, Node<'a>)>),
    List(Vec<Node<'a>>),
    // Another value, or not JSON.
    None,
}

impl<'a> Node<'a> {
    fn new(raw: &'a str, path: String) -> Self {
        Self {
            raw,
            path,
            parts: Rc::default(),
        }
    }

    /// Returns a body that is known to be JSON.
    pub(super) fn of_json(text: &'a str) -> Self {
        Self::new(text.trim(), String::new())
    }

    /// Reads a body, and checks that it is JSON.
    pub(super) fn root(text: &'a str) -> Result<Self, NativeError> {
        if text.trim().is_empty() {
            return Err(NativeError::new("", "is empty: there is no body to read"));
        }
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|error| NativeError::new("", format!("is not JSON: {error}")))?;
        Ok(Self::new(raw.get(), String::new()))
    }

    fn parts(&self) -> &Parts<'a> {
        self.parts.get_or_init(|| {
            if self.is_object() {
                let node = |(name, value): (String, &'a str)| {
                    let node = Node::new(value, self.field_path(&name));
                    (name, node)
                };
                return split::fields(self.raw).map_or(Parts::None, |fields| {
                    Parts::Object(fields.into_iter().map(node).collect())
                });
            }
            let node = |(i, item): (usize, &'a str)| Node::new(item, format!("{}[{i}]", self.path));
            split::items(self.raw).map_or(Parts::None, |items| {
                Parts::List(items.into_iter().enumerate().map(node).collect())
            })
        })
    }

    /// Returns the fields of an object, in order.
    pub(super) fn fields(&self) -> Result<Vec<(String, Node<'a>)>, NativeError> {
        match self.parts() {
            Parts::Object(fields) => Ok(fields.clone()),
            _ => Err(self.wrong(format!("must be an object, not {}", self.kind()))),
        }
    }

    fn field_path(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// Returns the values of a list, in order.
    pub(super) fn items(&self) -> Result<Vec<Node<'a>>, NativeError> {
        match self.parts() {
            Parts::List(items) => Ok(items.clone()),
            _ => Err(self.wrong(format!("must be a list, not {}", self.kind()))),
        }
    }

    /// Returns the field of that name. Returns `None` if the value is not an
    /// object.
    pub(super) fn find(&self, name: &str) -> Option<Node<'a>> {
        let Parts::Object(fields) = self.parts() else {
            return None;
        };
        let mut fields = fields.iter().rev();
        fields
            .find(|field| field.0 == name)
            .map(|field| field.1.clone())
    }

    /// Returns the values of the list at `name`; null and a missing field have
    /// none.
    pub(super) fn list(&self, name: &str) -> Result<Vec<Node<'a>>, NativeError> {
        match self.find(name).filter(|list| !list.is_null()) {
            Some(list) => list.items(),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the text at `name`; null and a missing field have none.
    pub(super) fn string(&self, name: &str) -> Result<Option<String>, NativeError> {
        match self.find(name).filter(|text| !text.is_null()) {
            Some(text) => text.expect_text().map(Some),
            None => Ok(None),
        }
    }

    /// Returns the text at `name`, which must be there and not blank.
    pub(super) fn required(&self, name: &str) -> Result<String, NativeError> {
        match self.string(name)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(NativeError::new(self.field_path(name), "is empty")),
            None => Err(NativeError::new(self.field_path(name), "is missing")),
        }
    }

    /// Returns the `type`, or nothing.
    pub(super) fn kind_field(&self) -> String {
        self.string("type").ok().flatten().unwrap_or_default()
    }

    /// Returns the value if it is a text.
    pub(super) fn text(&self) -> Option<String> {
        serde_json::from_str(self.raw).ok()
    }

    /// Returns the value, which must be a text.
    pub(super) fn expect_text(&self) -> Result<String, NativeError> {
        self.text()
            .ok_or_else(|| self.wrong(format!("must be a string, not {}", self.kind())))
    }

    pub(super) fn is_null(&self) -> bool {
        self.raw == "null"
    }

    pub(super) fn is_list(&self) -> bool {
        self.raw.starts_with('[')
    }

    pub(super) fn is_object(&self) -> bool {
        self.raw.starts_with('{')
    }

    /// Returns the value. Numbers may lose their spelling.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(self.raw).unwrap_or(Value::Null)
    }

    /// Returns the bytes.
    pub(super) fn raw_json(&self) -> RawJson {
        RawJson::parse(self.raw).unwrap_or_default()
    }

    pub(super) fn wrong(&self, message: impl Into<String>) -> NativeError {
        NativeError::new(self.path.as_str(), message)
    }

    fn kind(&self) -> &'static str {
        match self.raw.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        }
    }
}

/// Returns an object of fields, each written unchanged.
pub(super) fn object<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> RawJson {
    let mut out = String::from("{");
    for (name, raw) in fields {
        if out.len() > 1 {
            out.push(',');
        }
        contexture_core::json::write(&mut out, name);
        out.push(':');
        out.push_str(raw);
    }
    out.push('}');
    RawJson::parse(&out).unwrap_or_default()
}
