//! Reads JSON from callers strictly, and reports the position of errors.
//!
//! JSON is parsed once into a value. Duplicate keys and too many values are
//! rejected, the value is checked against its schema, and then converted.

use std::cell::Cell;
use std::fmt;

use http::StatusCode;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::schema::Schemas;

/// The maximum length of a field path in an error, in bytes.
const LONGEST_PATH: usize = 120;

/// The maximum number of JSON values in most bodies.
pub const MOST_VALUES: usize = 500_000;

/// The maximum number of JSON values in a tree. A node and its edge have about
/// 20.
pub const MOST_VALUES_OF_TREE: usize = 4_000_000;

/// Reads a body that the schema of that name describes. Errors in the JSON name
/// the line and the column; errors in the value name the field.
pub fn read<T: DeserializeOwned>(
    schemas: &Schemas,
    name: &str,
    bytes: &[u8],
    most_values: usize,
) -> Result<T, Problem> {
    let census = Census::new(most_values);
    let value = parse(bytes, &census)?;
    convert(schemas, name, value, &census)
}

/// Reads a value that was parsed elsewhere, with the same limit of values.
pub fn read_value<T: DeserializeOwned>(
    schemas: &Schemas,
    name: &str,
    value: Value,
) -> Result<T, Problem> {
    let census = Census::new(MOST_VALUES);
    census.add_all(&value)?;
    convert(schemas, name, value, &census)
}

/// Returns the value of an empty body.
pub fn nothing<T: DeserializeOwned>() -> Result<T, Problem> {
    serde_json::from_value(Value::Object(Map::new()))
        .map_err(|error| Problem::failure(error.to_string()))
}

/// Checks a value against its schema before it is converted. Derived readers
/// accept more than the schema, and their errors are less precise.
fn convert<T: DeserializeOwned>(
    schemas: &Schemas,
    name: &str,
    mut value: Value,
    census: &Census,
) -> Result<T, Problem> {
    schemas
        .check(name, &value)
        .map_err(|error| invalid_field(&error.path, error.message))?;
    // For a schema, 5.0 is an integer. It is rewritten only if the value could
    // not be read otherwise: JSON that is stored stays as it was sent.
    if census.has_whole_floats.get() {
        if let Ok(read) = T::deserialize(&value) {
            return Ok(read);
        }
        schemas.write_integers(name, &mut value);
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        // serde writes `?` for an unknown field.
        let message = plain_message(error.inner());
        invalid_field(path.trim_end_matches(['?', '.']), message)
    })
}

fn invalid_field(path: &str, message: String) -> Problem {
    let path = &path[..path.floor_char_boundary(LONGEST_PATH)];
    Problem::bad_request("invalid_field", message).at(path)
}

/// Parses JSON without duplicate keys, which parsers read differently.
fn parse(bytes: &[u8], census: &Census) -> Result<Value, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Unambiguous(census).deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| {
        if census.values.get() > census.most {
            return too_many_values(census.most);
        }
        let message = match std::str::from_utf8(bytes) {
            Ok(_) => plain_message(&error),
            Err(error) => format!("the body is not UTF-8 at byte {}", error.valid_up_to()),
        };
        Problem::bad_request("invalid_json", message)
    })
}

/// Facts about a value that are collected while it is parsed.
struct Census {
    values: Cell<usize>,
    /// The maximum number of values.
    most: usize,
    /// Whether there are numbers such as 5.0.
    has_whole_floats: Cell<bool>,
}

impl Census {
    fn new(most: usize) -> Self {
        Self {
            values: Cell::new(0),
            most,
            has_whole_floats: Cell::new(false),
        }
    }

    /// Counts a value. Returns false above the limit: a parsed value needs far
    /// more memory than its bytes.
    fn add(&self) -> bool {
        self.values.set(self.values.get() + 1);
        self.values.get() <= self.most
    }

    fn add_float(&self, number: f64) {
        if number.fract() == 0.0 {
            self.has_whole_floats.set(true);
        }
    }

    fn add_all(&self, value: &Value) -> Result<(), Problem> {
        if !self.add() {
            return Err(too_many_values(self.most));
        }
        match value {
            Value::Number(number) if number.is_f64() => {
                self.add_float(number.as_f64().unwrap_or_default());
                Ok(())
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.add_all(item)),
            Value::Object(fields) => fields.values().try_for_each(|field| self.add_all(field)),
            _ => Ok(()),
        }
    }
}

fn too_many_values(most: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_many_values",
        format!("the body has more than {most} values"),
    )
    .hint("send less per call; send records as NDJSON")
}

/// Fails if a JSON text has more values than the limit, for text that another
/// library parses. Nothing else is checked.
pub fn check_count(text: &[u8]) -> Result<(), Problem> {
    // There is at least one value. Each comma, and each object or list that is
    // not empty, adds one.
    let mut count = 1_usize;
    let mut before = b' ';
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(&byte) = bytes.next()
                    && byte != b'"'
                {
                    // An escaped character does not end the string.
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            b',' | b'[' | b'{' => count += 1,
            b']' | b'}' if matches!(before, b'[' | b'{') => count -= 1,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    match count <= MOST_VALUES {
        true => Ok(()),
        false => Err(too_many_values(MOST_VALUES)),
    }
}

/// Returns the parser's message without names of Rust types.
fn plain_message(error: &serde_json::Error) -> String {
    let message = without_types(error.to_string());
    [
        (
            "EOF while parsing a value",
            "unexpected end of JSON, expected a value",
        ),
        (
            "EOF while parsing an object",
            "unexpected end of JSON inside an object",
        ),
        (
            "EOF while parsing a list",
            "unexpected end of JSON inside a list",
        ),
        (
            "EOF while parsing a string",
            "unexpected end of JSON inside a string",
        ),
        ("recursion limit exceeded", "the JSON is nested too deeply"),
        ("unknown variant", "unknown value"),
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected u32", "expected a whole number, 0 or more"),
        (
            "expected a nonzero u64",
            "expected a whole number, 1 or more",
        ),
        (
            "expected a nonzero u32",
            "expected a whole number, 1 or more",
        ),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
    ]
    .into_iter()
    .fold(message, |message, (theirs, ours)| {
        message.replace(theirs, ours)
    })
}

/// Replaces names of Rust types in a message: for a caller, all of them are
/// objects.
fn without_types(message: String) -> String {
    if message.starts_with("data did not match any variant") {
        return "does not match any of the accepted forms".to_owned();
    }
    let Some((before, name)) = message.split_once("expected struct ") else {
        return message;
    };
    let after = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    format!("{before}expected an object{after}")
}

/// Reads any value, counts it, and rejects objects with duplicate keys.
#[derive(Clone, Copy)]
struct Unambiguous<'c>(&'c Census);

impl<'de> DeserializeSeed<'de> for Unambiguous<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        if !self.0.add() {
            return Err(de::Error::custom("too many values"));
        }
        reader.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Unambiguous<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        self.0.add_float(value);
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            match map.entry(key) {
                Entry::Vacant(field) => {
                    field.insert(fields.next_value_seed(self)?);
                }
                Entry::Occupied(field) => {
                    let key = field.key();
                    let key = &key[..key.floor_char_boundary(LONGEST_PATH)];
                    return Err(de::Error::custom(format_args!("duplicate key `{key}`")));
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_any(bytes: &[u8]) -> Result<Value, Problem> {
        let schemas = Schemas::compile(&Map::new(), [("any", &Value::Bool(true))]);
        read(&schemas, "any", bytes, MOST_VALUES)
    }

    fn refused(text: &str) -> String {
        read_any(text.as_bytes()).unwrap_err().message
    }

    #[test]
    fn duplicate_keys_are_rejected() {
        assert_eq!(
            refused(r#"{"a":1,"b":{"c":1,"c":2}}"#),
            "duplicate key `c` at line 1 column 21"
        );
        // An escaped key is the same key.
        assert_eq!(
            refused(r#"{"a":1,"\u0061":2}"#),
            "duplicate key `a` at line 1 column 15"
        );
        let many: String = (0..40).map(|i| format!("\"k{i}\":1,")).collect();
        assert!(refused(&format!("{{{many}\"k30\":2}}")).starts_with("duplicate key `k30`"));
        assert!(read_any(br#"[{"a":1},{"a":1}]"#).is_ok());
    }

    #[test]
    fn values_are_counted_but_not_the_content_of_strings() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(", "));
        let check = |text: &str, refused: bool| {
            let parsed = parse(text.as_bytes(), &Census::new(MOST_VALUES)).map(|_| ());
            for counted in [parsed, check_count(text.as_bytes())] {
                let code = counted.err().map(|problem| problem.code);
                assert_eq!(
                    code,
                    refused.then_some("too_many_values"),
                    "{}",
                    &text[..20]
                );
            }
        };
        for item in ["1", "[]", "{ }", r#""a,[\\\",""#] {
            check(&list(item, 499_999), false);
            check(&list(item, 500_000), true);
        }
        // Each of these is a list with a value in it.
        check(&list("[1]", 249_999), false);
        check(&list("[1]", 250_000), true);
        // Parsing stops there: the rest is not even JSON.
        let broken = format!("[{}\"", "1,".repeat(500_000));
        let problem = parse(broken.as_bytes(), &Census::new(MOST_VALUES)).unwrap_err();
        assert_eq!(problem.code, "too_many_values");
    }

    #[test]
    fn invalid_json_is_reported_with_its_position() {
        for (text, message) in [
            (
                "",
                "unexpected end of JSON, expected a value at line 1 column 0",
            ),
            (
                "{\"a\":",
                "unexpected end of JSON, expected a value at line 1 column 5",
            ),
            ("{} {}", "trailing characters at line 1 column 4"),
            (
                r#"{"a":"\ud800"}"#,
                "unexpected end of hex escape at line 1 column 13",
            ),
        ] {
            assert_eq!(refused(text), message);
        }
        let deep = "[".repeat(10_000);
        assert_eq!(
            refused(&deep),
            "the JSON is nested too deeply at line 1 column 128"
        );
        let message = read_any(b"\"\xff\"").unwrap_err().message;
        assert_eq!(message, "the body is not UTF-8 at byte 1");
    }

    #[test]
    fn integers_can_be_written_with_a_decimal_point() {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {
                "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "list": {"type": "array", "items": {"type": "integer"}},
                "any": true,
            },
        });
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Counts {
            count: Option<u64>,
            list: Vec<u64>,
            any: Value,
        }
        let schemas = Schemas::compile(&Map::new(), [("counts", &schema)]);
        let read = |text: &str| read::<Counts>(&schemas, "counts", text.as_bytes(), 100);
        let counts = read(r#"{"count":5.0,"list":[1,2.0],"any":{"x":5.0}}"#).unwrap();
        assert_eq!((counts.count, counts.list), (Some(5), vec![1, 2]));
        // JSON without a type of ours is not rewritten.
        assert_eq!(counts.any.to_string(), r#"{"x":5.0}"#);
        for wrong in ["5.5", "1e300", "-5.0"] {
            let text = format!(r#"{{"count":{wrong},"list":[],"any":0}}"#);
            assert_eq!(
                read(&text).unwrap_err().field.as_deref(),
                Some("count"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn stored_json_is_not_rewritten() {
        let schema = serde_json::json!({
            "type": "object",
            "properties": {"seed": {"type": "integer"}},
        });
        let schemas = Schemas::compile(&Map::new(), [("parameters", &schema)]);
        let sent = r#"{"seed":5.0,"b":1e2,"a":[0.1,18446744073709551615]}"#;
        let kept: Value = read(&schemas, "parameters", sent.as_bytes(), 100).unwrap();
        let expected = r#"{"seed":5.0,"b":100.0,"a":[0.1,18446744073709551615]}"#;
        assert_eq!(kept.to_string(), expected);
    }
}
