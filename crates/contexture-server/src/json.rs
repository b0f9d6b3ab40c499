//! Reading JSON that somebody sent: strictly, and with the place of what is
//! wrong.

use std::fmt;

use axum::http::StatusCode;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess};
use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::shape::{self, Definitions};

/// The longest path of a field that is told whole.
const LONGEST_PATH: usize = 120;

/// How many values a body may have.
const MOST_VALUES: usize = 500_000;

/// Reads a value whose shape `schema` describes. Complaints name the field, the
/// line and the column.
pub(crate) fn read<T: DeserializeOwned>(
    definitions: &Definitions,
    schema: &Value,
    bytes: &[u8],
) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Problem::bad_request(
            "invalid_json",
            format!("the body is not UTF-8 at byte {at}"),
        )
    })?;
    let mut value = unambiguous(text)?;
    // Before it is read: complaints are then in a caller's words.
    shape::check(definitions, schema, &value)
        .map_err(|wrong| invalid_field(&wrong.path, wrong.message))?;
    let mut reader = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize(&mut reader) {
        Ok(read) => Ok(read),
        // To a schema, 5.0 is a whole number. Few write it so.
        Err(error) if shape::write_whole(definitions, schema, &mut value) => {
            drop(error);
            serde_path_to_error::deserialize(&value).map_err(|error| misread(&error))
        }
        Err(error) => Err(misread(&error)),
    }
}

fn misread(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    // Where it cannot be told which field it is, a `?` stands.
    invalid_field(path.trim_end_matches(['?', '.']), said(error.inner()))
}

fn invalid_field(path: &str, message: String) -> Problem {
    let path = &path[..path.floor_char_boundary(LONGEST_PATH)];
    Problem::bad_request("invalid_field", message).at(path)
}

/// Reads a value in which no key stands twice: it would mean two things to two
/// readers.
fn unambiguous(text: &str) -> Result<Value, Problem> {
    check_count(text.as_bytes())?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Unambiguous.deserialize(&mut reader);
    value
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| Problem::bad_request("invalid_json", said(&error)))
}

/// Fails when there are more values in a text of JSON than are taken: each takes
/// up far more memory than its bytes. The text is not read for what is wrong
/// with it.
pub(crate) fn check_count(text: &[u8]) -> Result<(), Problem> {
    // There is at least one, and each comma and each object or list that is not
    // empty brings one more.
    let mut count = 1_usize;
    let mut before = b' ';
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(&byte) = bytes.next()
                    && byte != b'"'
                {
                    // What is behind it does not end the text.
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
    if count <= MOST_VALUES {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too_many_values",
        "the body has more than 500,000 values",
    )
    .hint("send less at once; records may be sent as lines"))
}

/// Says in a caller's words what the reader says.
fn said(error: &serde_json::Error) -> String {
    let message = without_types(error.to_string());
    [
        (
            "EOF while parsing a value",
            "it ends where a value should be",
        ),
        ("EOF while parsing an object", "it ends inside an object"),
        ("EOF while parsing a list", "it ends inside a list"),
        ("EOF while parsing a string", "it ends inside a text"),
        ("recursion limit exceeded", "it is nested too deeply"),
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

/// Takes the names of types out of a message: to a caller, all of them are
/// objects.
fn without_types(message: String) -> String {
    if message.starts_with("data did not match any variant") {
        return "is none of the forms that are taken here".to_owned();
    }
    let Some((before, name)) = message.split_once("expected struct ") else {
        return message;
    };
    let behind = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    format!("{before}expected an object{behind}")
}

/// Reads any value; refuses an object with the same key twice.
struct Unambiguous;

impl<'de> DeserializeSeed<'de> for Unambiguous {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Unambiguous {
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
        while let Some(item) = items.next_element_seed(Unambiguous)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if map.contains_key(&key) {
                let key = &key[..key.floor_char_boundary(LONGEST_PATH)];
                return Err(de::Error::custom(format_args!(
                    "the key `{key}` stands twice"
                )));
            }
            let value = fields.next_value_seed(Unambiguous)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_any(bytes: &[u8]) -> Result<Value, Problem> {
        read(&Definitions::new(), &Value::Bool(true), bytes)
    }

    fn refused(text: &str) -> String {
        read_any(text.as_bytes()).unwrap_err().message
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        assert_eq!(
            refused(r#"{"a":1,"b":{"c":1,"c":2}}"#),
            "the key `c` stands twice at line 1 column 21"
        );
        // Written in another way, it is the same key.
        assert_eq!(
            refused(r#"{"a":1,"\u0061":2}"#),
            "the key `a` stands twice at line 1 column 15"
        );
        let many: String = (0..40).map(|i| format!("\"k{i}\":1,")).collect();
        assert!(refused(&format!("{{{many}\"k30\":2}}")).starts_with("the key `k30` stands twice"));
        assert!(read_any(br#"[{"a":1},{"a":1}]"#).is_ok());
    }

    #[test]
    fn values_are_counted_and_not_what_texts_say() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(", "));
        for item in ["1", "[]", "{ }", r#""a,[\\\",""#] {
            assert!(
                check_count(list(item, 499_999).as_bytes()).is_ok(),
                "{item}"
            );
            let problem = check_count(list(item, 500_000).as_bytes()).unwrap_err();
            assert_eq!(problem.code, "too_many_values", "{item}");
        }
        // Each of these is a list with a value in it.
        assert!(check_count(list("[1]", 249_999).as_bytes()).is_ok());
        assert!(check_count(list("[1]", 250_000).as_bytes()).is_err());
    }

    #[test]
    fn what_is_no_json_says_where() {
        for (text, message) in [
            ("", "it ends where a value should be at line 1 column 0"),
            (
                "{\"a\":",
                "it ends where a value should be at line 1 column 5",
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
            "it is nested too deeply at line 1 column 128"
        );
        let message = read_any(b"\"\xff\"").unwrap_err().message;
        assert_eq!(message, "the body is not UTF-8 at byte 1");
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
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
        let read = |text: &str| read::<Counts>(&Definitions::new(), &schema, text.as_bytes());
        let counts = read(r#"{"count":5.0,"list":[1,2.0],"any":{"x":5.0}}"#).unwrap();
        assert_eq!((counts.count, counts.list), (Some(5), vec![1, 2]));
        // What is not ours to read stays as it was written.
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
}
