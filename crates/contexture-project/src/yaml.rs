//! YAML as a tree whose nodes know their position, so that every error can name
//! file, line, column and field.

use std::collections::BTreeSet;
use std::fmt;

use granit_parser::{Event, Parser, ScalarStyle};

use crate::error::Error;

/// The largest file that is read as YAML.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 500_000;
const TOO_DEEP: &str = "is nested too deeply or has too many values";

/// A place in a YAML file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The position of the node.
    pub mark: Mark,
    /// The value of the node.
    pub value: Value,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A text, a number, true or false.
    Scalar {
        /// The text as written, without quotation marks.
        text: String,
        /// Whether it is written without quotation marks.
        plain: bool,
    },
    /// Values in order.
    List(Vec<Node>),
    /// Keys and values in order.
    Map(Vec<(Node, Node)>),
}

/// A file that is being read, for the positions in error messages.
#[derive(Debug, Clone, Copy)]
pub struct Source<'s> {
    /// The name of the file in error messages.
    pub name: &'s str,
}

impl Source<'_> {
    /// Returns an error with its place in the file.
    pub fn error(&self, mark: Mark, field: &str, message: impl fmt::Display) -> Error {
        let field = if field.is_empty() {
            String::new()
        } else {
            format!(" {field}:")
        };
        Error::input(format!(
            "{}:{}:{}:{field} {message}",
            self.name, mark.line, mark.column
        ))
    }

    /// Reads every document of `text`.
    pub fn parse(&self, text: &str) -> Result<Vec<Node>, Error> {
        let start = Mark { line: 1, column: 1 };
        if text.len() > MAX_BYTES {
            return Err(self.error(
                start,
                "",
                format!("is {} bytes long; the limit is {MAX_BYTES}", text.len()),
            ));
        }
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let mut reader = Reader {
            source: *self,
            parser: Parser::new_from_str_with_options(text, options),
            nodes: 0,
        };
        let mut documents = Vec::new();
        loop {
            let (event, mark) = reader.next()?;
            match event {
                Event::StreamEnd => return Ok(documents),
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => documents.push(reader.node(event, mark, 0)?),
            }
        }
    }
}

/// Reads the one document of a YAML file. A file without a document is null.
///
/// Error messages refer to the file as `path`.
pub fn document(path: &str, text: &str) -> Result<Node, Error> {
    let source = Source { name: path };
    let mut documents = source.parse(text)?;
    if let Some(second) = documents.get(1) {
        return Err(source.error(
            second.mark,
            "",
            "a second document begins here; expected one",
        ));
    }
    Ok(documents.pop().unwrap_or(Node {
        mark: Mark { line: 1, column: 1 },
        value: Value::Null,
    }))
}

struct Reader<'s, 't> {
    source: Source<'s>,
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    nodes: usize,
}

impl<'t> Reader<'_, 't> {
    fn next(&mut self) -> Result<(Event<'t>, Mark), Error> {
        let place = |marker: &granit_parser::Marker| Mark {
            line: marker.line(),
            column: marker.col() + 1,
        };
        match self.parser.next_event() {
            None => Ok((Event::StreamEnd, Mark::default())),
            Some(Ok((event, span))) => Ok((event, place(&span.start))),
            Some(Err(error)) => {
                let told = error.info();
                let told = if told.contains("recursion limit") {
                    TOO_DEEP
                } else {
                    &told
                };
                Err(self.source.error(place(error.marker()), "", told))
            }
        }
    }

    fn node(&mut self, event: Event<'t>, mark: Mark, depth: usize) -> Result<Node, Error> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err(self.source.error(mark, "", TOO_DEEP));
        }
        // An alias can make a small file expand to an enormous one.
        if event.is_alias() || event.anchor_id().is_some() {
            return Err(self.source.error(
                mark,
                "",
                "anchors and aliases are not supported; write the value out",
            ));
        }
        let value = match event {
            Event::Scalar(text, style, ..) => {
                let plain = style == ScalarStyle::Plain;
                if plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    Value::Null
                } else {
                    Value::Scalar {
                        text: text.into_owned(),
                        plain,
                    }
                }
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    let (event, mark) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break Value::List(items);
                    }
                    items.push(self.node(event, mark, depth + 1)?);
                }
            }
            Event::MappingStart(..) => {
                let mut entries = Vec::new();
                let mut seen = BTreeSet::new();
                loop {
                    let (event, mark) = self.next()?;
                    if matches!(event, Event::MappingEnd) {
                        break Value::Map(entries);
                    }
                    let key = self.node(event, mark, depth + 1)?;
                    let Value::Scalar { text, .. } = &key.value else {
                        return Err(self.source.error(mark, "", "a key must be text"));
                    };
                    if !seen.insert(text.clone()) {
                        let twice = format!("the key `{text}` is given twice");
                        return Err(self.source.error(mark, "", twice));
                    }
                    let (event, mark) = self.next()?;
                    entries.push((key, self.node(event, mark, depth + 1)?));
                }
            }
            _ => return Err(self.source.error(mark, "", "ends unexpectedly")),
        };
        Ok(Node { mark, value })
    }
}

impl Node {
    /// Returns the node as JSON: a scalar without quotation marks may be a
    /// number, true or false.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Scalar { text, plain } => match text.as_str() {
                "true" | "True" | "TRUE" if *plain => true.into(),
                "false" | "False" | "FALSE" if *plain => false.into(),
                text => match number(text).filter(|_| *plain) {
                    Some(number) => number.into(),
                    None => text.into(),
                },
            },
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => (entries.iter())
                .filter_map(|(key, value)| match &key.value {
                    Value::Scalar { text, .. } => Some((text.clone(), value.to_json())),
                    _ => None,
                })
                .collect(),
        }
    }

    /// Returns a description of the node's kind, for error messages.
    fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Scalar { text, .. } => format!("`{text}`"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Reads a number of YAML's core schema, which also has `.5`, `+1`, `0x1f` and `0o17`.
/// `.inf` and `.nan` are no numbers in JSON.
fn number(text: &str) -> Option<serde_json::Number> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let is_digit = |digit: char| digit.is_digit(radix);
            let number = u64::from_str_radix(digits, radix).ok();
            return number
                .filter(|_| digits.chars().all(is_digit))
                .map(Into::into);
        }
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(number.into());
    }
    let is_number = text
        .chars()
        .all(|part| part.is_ascii_digit() || "+-.eE".contains(part));
    serde_json::Number::from_f64(text.parse().ok().filter(|_| is_number)?)
}

/// A mapping whose fields are read one by one; fields that remain are unknown.
pub struct Fields<'n> {
    source: Source<'n>,
    /// The path of the mapping in the file, for error messages: `files[2]`.
    prefix: String,
    /// The position at which the mapping begins.
    pub mark: Mark,
    left: Vec<(&'n str, Mark, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// Returns the fields of a mapping.
    ///
    /// Fails when the node is none.
    pub fn of(
        source: Source<'n>,
        prefix: impl Into<String>,
        node: &'n Node,
    ) -> Result<Self, Error> {
        let prefix = prefix.into();
        let Value::Map(entries) = &node.value else {
            return Err(source.error(
                node.mark,
                &prefix,
                format!("must be a mapping (`key: value`), not {}", node.kind()),
            ));
        };
        let left = entries
            .iter()
            .map(|(key, value)| match &key.value {
                Value::Scalar { text, .. } => Ok((text.as_str(), key.mark, value)),
                _ => Err(source.error(key.mark, &prefix, "a key must be text")),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            source,
            prefix,
            mark: node.mark,
            left,
        })
    }

    /// Returns the full name of a field.
    pub fn name(&self, key: &str) -> String {
        if self.prefix.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.prefix)
        }
    }

    /// Returns the error for a field at `mark`.
    pub fn error(&self, mark: Mark, key: &str, message: impl fmt::Display) -> Error {
        self.source.error(mark, &self.name(key), message)
    }

    /// Removes and returns a field; null counts as absent.
    pub fn take(&mut self, key: &str) -> Option<&'n Node> {
        let at = self.left.iter().position(|(name, ..)| *name == key)?;
        let (_, _, node) = self.left.remove(at);
        (node.value != Value::Null).then_some(node)
    }

    /// Returns true when the field is written, even with nothing after it.
    pub fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(name, ..)| *name == key)
    }

    /// Removes and returns all remaining fields.
    pub fn drain(&mut self) -> Vec<(&'n str, Mark, &'n Node)> {
        std::mem::take(&mut self.left)
    }

    /// Removes and returns a required field. Fails if it is absent.
    pub fn require(&mut self, key: &str) -> Result<&'n Node, Error> {
        let mark = self.mark;
        self.take(key)
            .ok_or_else(|| self.error(mark, key, "is missing"))
    }

    /// Removes and returns a text field. A plain number or word is text, too.
    pub fn text(&mut self, key: &str) -> Result<Option<(&'n str, Mark)>, Error> {
        self.take(key)
            .map(|node| self.as_text(key, node))
            .transpose()
    }

    /// Returns a node as text.
    ///
    /// Fails when it is a list or a mapping.
    pub fn as_text(&self, key: &str, node: &'n Node) -> Result<(&'n str, Mark), Error> {
        match &node.value {
            Value::Scalar { text, .. } => Ok((text, node.mark)),
            _ => Err(self.error(node.mark, key, format!("must be text, not {}", node.kind()))),
        }
    }

    /// Removes and returns a number.
    pub fn number(&mut self, key: &str) -> Result<Option<(f64, Mark)>, Error> {
        let Some(node) = self.take(key) else {
            return Ok(None);
        };
        match &node.value {
            Value::Scalar { text, .. } => text.replace('_', "").parse::<f64>().ok(),
            _ => None,
        }
        .filter(|number| number.is_finite())
        .map(|number| Some((number, node.mark)))
        .ok_or_else(|| {
            self.error(
                node.mark,
                key,
                format!("must be a number, not {}", node.kind()),
            )
        })
    }

    /// Removes and returns a whole number of at least `least`.
    pub fn whole(&mut self, key: &str, least: u64) -> Result<Option<u64>, Error> {
        Ok(self.whole_at(key, least)?.map(|(number, _)| number))
    }

    /// Removes a whole number of at least `least` from the fields, and returns
    /// it with its position.
    pub fn whole_at(&mut self, key: &str, least: u64) -> Result<Option<(u64, Mark)>, Error> {
        let Some((number, mark)) = self.number(key)? else {
            return Ok(None);
        };
        // Beyond this an f64 no longer holds every whole number.
        if number.fract() != 0.0 || number < least as f64 || number > 9e15 {
            return Err(self.error(
                mark,
                key,
                format!("must be a whole number of at least {least}, not {number}"),
            ));
        }
        Ok(Some((number as u64, mark)))
    }

    /// Removes and returns a boolean.
    pub fn truth(&mut self, key: &str) -> Result<Option<bool>, Error> {
        let Some((text, mark)) = self.text(key)? else {
            return Ok(None);
        };
        match text {
            "true" | "yes" | "on" => Ok(Some(true)),
            "false" | "no" | "off" => Ok(Some(false)),
            _ => Err(self.error(mark, key, format!("must be true or false, not `{text}`"))),
        }
    }

    /// Removes and returns a list; an absent one is empty.
    pub fn list(&mut self, key: &str) -> Result<&'n [Node], Error> {
        let Some(node) = self.take(key) else {
            return Ok(&[]);
        };
        match &node.value {
            Value::List(items) => Ok(items),
            _ => Err(self.error(
                node.mark,
                key,
                format!("must be a list, not {}", node.kind()),
            )),
        }
    }

    /// Removes and returns one of the `known` words.
    pub fn word(
        &mut self,
        key: &str,
        what: &str,
        known: &[&str],
    ) -> Result<Option<&'n str>, Error> {
        let Some((text, mark)) = self.text(key)? else {
            return Ok(None);
        };
        if known.contains(&text) {
            return Ok(Some(text));
        }
        Err(self.error(mark, key, crate::error::not_one_of(what, text, known)))
    }

    /// Fails if a field was not read.
    pub fn finish(self, known: &[&str]) -> Result<(), Error> {
        match self.left.first() {
            None => Ok(()),
            Some((name, mark, _)) => {
                Err(self.error(*mark, name, crate::error::not_one_of("field", name, known)))
            }
        }
    }

    /// Returns a warning for each field that was not read.
    pub fn warn_unknown(self) -> Vec<String> {
        self.left
            .iter()
            .map(|(name, mark, _)| {
                format!(
                    "{}:{}: unknown field `{}` is ignored",
                    self.source.name,
                    mark.line,
                    self.name(name)
                )
            })
            .collect()
    }
}
