//! A JSON value of a body: its bytes, and its path for errors.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use contexture_core::{BlockText, RawJson, json};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{NativeError, checked};
use crate::split;

/// A JSON value at a place of a body.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    pub(super) raw: &'a str,
    // The place: written out only for an error, because a body has thousands.
    place: ValuePath<'a>,
    // The parsed parts of an object or a list, once they were needed. Clones
    // share them, so that a long body is not read for every lookup.
    parts: Option<Rc<OnceCell<Parts<'a>>>>,
}

/// The place of a value: the object or the list that holds it, and where in it.
#[derive(Debug, Clone)]
pub(super) struct ValuePath<'a> {
    around: Option<Rc<ValuePath<'a>>>,
    last: Step<'a>,
}

impl<'a> ValuePath<'a> {
    /// Returns the place of a whole body; `name` begins its path.
    pub(super) fn root(name: String) -> Self {
        Self {
            around: None,
            last: Step::Root(name),
        }
    }

    /// Returns the place of a part of the value at `around`.
    pub(super) fn within(around: &Rc<Self>, last: Step<'a>) -> Self {
        Self {
            around: Some(Rc::clone(around)),
            last,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step<'a> {
    // The beginning of a path, such as `event 3`; nothing for a whole body.
    Root(String),
    Field(Cow<'a, str>),
    Index(usize),
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(around) = &self.around {
            around.fmt(f)?;
        }
        let is_first = match self.around.as_deref() {
            None => true,
            Some(around) => matches!(&around.last, Step::Root(root) if root.is_empty()),
        };
        match &self.last {
            Step::Root(root) => f.write_str(root),
            Step::Field(name) if is_first => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[derive(Debug)]
pub(super) enum Parts<'a> {
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    List(Vec<Node<'a>>),
    // Another value, or not JSON.
    None,
}

impl<'a> Node<'a> {
    fn new(raw: &'a str, place: ValuePath<'a>) -> Self {
        Self::with_parts(raw, place, None)
    }

    /// Returns a value whose parts are known, if they are given.
    pub(super) fn with_parts(raw: &'a str, place: ValuePath<'a>, parts: Option<Parts<'a>>) -> Self {
        let parts = match parts {
            Some(parts) => Some(Rc::new(OnceCell::from(parts))),
            None => raw.starts_with(['{', '[']).then(Rc::default),
        };
        Self { raw, place, parts }
    }

    fn of_root(raw: &'a str) -> Self {
        Self::new(raw, ValuePath::root(String::new()))
    }

    /// Returns a body that is known to be JSON.
    pub(super) fn of_json(text: &'a str) -> Self {
        Self::of_root(text.trim())
    }

    /// Reads a body, and checks that it is JSON.
    pub(super) fn root(text: &'a str) -> Result<Self, NativeError> {
        if text.trim().is_empty() {
            return Err(NativeError::new("", "is empty: there is no body to read"));
        }
        if let Some(node) = checked::read(text) {
            return Ok(node);
        }
        // The parser says what is wrong.
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|error| NativeError::new("", format!("is not JSON: {error}")))?;
        Ok(Self::of_root(raw.get()))
    }

    /// Returns the value as a body of its own, whose paths begin with `name`.
    pub(super) fn named(self, name: String) -> Self {
        Self::new(self.raw, ValuePath::root(name))
    }

    /// Returns the JSON path of the value.
    pub(super) fn path(&self) -> String {
        self.place.to_string()
    }

    fn parts(&self) -> &Parts<'a> {
        let Some(parts) = &self.parts else {
            return &Parts::None;
        };
        parts.get_or_init(|| {
            let around = Rc::new(self.place.clone());
            let node =
                |raw: &'a str, last: Step<'a>| Node::new(raw, ValuePath::within(&around, last));
            if self.is_object() {
                let field = |(name, value): (Cow<'a, str>, &'a str)| {
                    let node = node(value, Step::Field(name.clone()));
                    (name, node)
                };
                return split::fields(self.raw).map_or(Parts::None, |fields| {
                    Parts::Object(fields.into_iter().map(field).collect())
                });
            }
            let item = |(i, item): (usize, &'a str)| node(item, Step::Index(i));
            split::items(self.raw).map_or(Parts::None, |items| {
                Parts::List(items.into_iter().enumerate().map(item).collect())
            })
        })
    }

    /// Returns the fields of an object, in order.
    pub(super) fn fields(&self) -> Result<Vec<(String, Node<'a>)>, NativeError> {
        let fields = self.each_field()?.iter();
        Ok(fields
            .map(|(name, value)| (name.clone().into_owned(), value.clone()))
            .collect())
    }

    /// Returns the fields of an object, in order, without a copy.
    pub(super) fn each_field(&self) -> Result<&[(Cow<'a, str>, Node<'a>)], NativeError> {
        match self.parts() {
            Parts::Object(fields) => Ok(fields),
            _ => Err(self.wrong(format!("must be an object, not {}", self.kind()))),
        }
    }

    fn field_path(&self, name: &str) -> String {
        match self.path() {
            path if path.is_empty() => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// Returns the values of a list, in order.
    pub(super) fn items(&self) -> Result<Vec<Node<'a>>, NativeError> {
        self.each_item().map(<[Node<'_>]>::to_vec)
    }

    /// Returns the values of a list, in order, without a copy.
    pub(super) fn each_item(&self) -> Result<&[Node<'a>], NativeError> {
        match self.parts() {
            Parts::List(items) => Ok(items),
            _ => Err(self.wrong(format!("must be a list, not {}", self.kind()))),
        }
    }

    /// Returns the field of that name. Returns `None` if the value is not an
    /// object.
    pub(super) fn find(&self, name: &str) -> Option<Node<'a>> {
        self.get(name).cloned()
    }

    /// Returns the field of that name without a copy.
    pub(super) fn get(&self, name: &str) -> Option<&Node<'a>> {
        let Parts::Object(fields) = self.parts() else {
            return None;
        };
        let mut fields = fields.iter().rev();
        fields.find(|field| field.0 == name).map(|field| &field.1)
    }

    /// Returns the values of the list at `name`; null and a missing field have
    /// none.
    pub(super) fn list(&self, name: &str) -> Result<Vec<Node<'a>>, NativeError> {
        self.each_of(name).map(<[Node<'_>]>::to_vec)
    }

    /// Returns the values of the list at `name` without a copy; null and a
    /// missing field have none.
    pub(super) fn each_of(&self, name: &str) -> Result<&[Node<'a>], NativeError> {
        match self.get(name).filter(|list| !list.is_null()) {
            Some(list) => list.each_item(),
            None => Ok(&[]),
        }
    }

    /// Returns the text at `name`; null and a missing field have none.
    pub(super) fn string(&self, name: &str) -> Result<Option<String>, NativeError> {
        match self.get(name).filter(|text| !text.is_null()) {
            Some(text) => text.expect_text().map(Some),
            None => Ok(None),
        }
    }

    /// Returns the text at `name`, which must be there and may be blank.
    pub(super) fn given(&self, name: &str) -> Result<String, NativeError> {
        let text = self.string(name)?;
        text.ok_or_else(|| NativeError::new(self.field_path(name), "is missing"))
    }

    /// Returns the text at `name`, which must be there and not blank.
    pub(super) fn required(&self, name: &str) -> Result<String, NativeError> {
        self.required_text(name).map(Cow::into_owned)
    }

    /// Returns the text at `name`, which must be there and not blank. A text
    /// without escapes is not copied.
    pub(super) fn required_text(&self, name: &str) -> Result<Cow<'a, str>, NativeError> {
        let plain = self
            .get(name)
            .and_then(|value| split::plain_text(value.raw));
        let text = match plain {
            Some(plain) => Some(Cow::Borrowed(plain)),
            None => self.string(name)?.map(Cow::Owned),
        };
        match text {
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
        json::read(self.raw)
    }

    /// Returns true if the value is this text, which needs no escapes.
    pub(super) fn is_text(&self, text: &str) -> bool {
        self.is_one_of(&[text])
    }

    /// Returns true if the value is one of these texts, which need no escapes.
    pub(super) fn is_one_of(&self, texts: &[&str]) -> bool {
        let [b'"', inner @ .., b'"'] = self.raw.as_bytes() else {
            return false;
        };
        if texts.iter().any(|text| inner == text.as_bytes()) {
            return true;
        }
        // An escape has two to six bytes for one of the text.
        let may_be = |text: &&str| (text.len() + 1..=6 * text.len()).contains(&inner.len());
        texts.iter().any(may_be)
            && inner.contains(&b'\\')
            && self.text().is_some_and(|text| texts.contains(&&*text))
    }

    /// Returns the value, which must be a text. It is read when it is used.
    pub(super) fn expect_block_text(&self) -> Result<BlockText, NativeError> {
        BlockText::of_json(self.raw).ok_or_else(|| self.not_text())
    }

    /// Returns the value, which must be a text.
    pub(super) fn expect_text(&self) -> Result<String, NativeError> {
        self.text().ok_or_else(|| self.not_text())
    }

    fn not_text(&self) -> NativeError {
        self.wrong(match self.raw.starts_with('"') {
            true => "has half of a character: an escape such as `\\ud83d` without its pair".into(),
            false => format!("must be a string, not {}", self.kind()),
        })
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
        NativeError::new(self.path(), message)
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
