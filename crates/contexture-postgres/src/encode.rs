//! Requests as bytes: statements with their values, and rows of values as arrays.

use contexture_sql::{SqlType, Value};

use crate::text;

/// A parameter of a statement.
pub(crate) enum Argument<'v> {
    /// One value.
    One(&'v Value<'v>),
    /// Values of one type, as an array.
    Many(SqlType, Vec<&'v Value<'v>>),
}

/// The numbers of types, which PostgreSQL never changes.
pub(crate) const INT8: u32 = 20;
pub(crate) const INT4: u32 = 23;
pub(crate) const INT2: u32 = 21;
pub(crate) const BOOL: u32 = 16;
pub(crate) const FLOAT8: u32 = 701;
pub(crate) const BYTEA: u32 = 17;
const TEXT: u32 = 25;

fn type_of(kind: SqlType) -> u32 {
    match kind {
        SqlType::Integer => INT8,
        SqlType::Real => FLOAT8,
        SqlType::Text => TEXT,
        SqlType::Blob => BYTEA,
    }
}

/// Returns the type that a value has in SQL.
pub(crate) fn kind_of(value: &Value<'_>) -> SqlType {
    match value {
        Value::Null(kind) => *kind,
        Value::Integer(_) => SqlType::Integer,
        Value::Real(_) => SqlType::Real,
        Value::Text(_) => SqlType::Text,
        Value::Blob(_) => SqlType::Blob,
    }
}

/// Returns the name of the type of an array in SQL.
pub(crate) fn array_of(kind: SqlType) -> &'static str {
    match kind {
        SqlType::Integer => "int8[]",
        SqlType::Real => "float8[]",
        SqlType::Text => "text[]",
        SqlType::Blob => "bytea[]",
    }
}

impl Argument<'_> {
    /// Returns the number of its type.
    pub(crate) fn type_of(&self) -> u32 {
        match self {
            Argument::One(value) => type_of(kind_of(value)),
            Argument::Many(SqlType::Integer, _) => 1016,
            Argument::Many(SqlType::Real, _) => 1022,
            Argument::Many(SqlType::Text, _) => 1009,
            Argument::Many(SqlType::Blob, _) => 1001,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Argument::One(value) => put_value(out, value),
            Argument::Many(kind, values) => with_length(out, |out| {
                let has_null = values.iter().any(|value| matches!(value, Value::Null(_)));
                put_i32(out, 1);
                put_i32(out, has_null.into());
                out.extend(type_of(*kind).to_be_bytes());
                put_i32(out, i32::try_from(values.len()).unwrap_or(i32::MAX));
                put_i32(out, 1);
                for value in values {
                    put_value(out, value);
                }
            }),
        }
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null(_) => put_i32(out, -1),
        Value::Integer(number) => {
            put_i32(out, 8);
            out.extend(number.to_be_bytes());
        }
        Value::Real(number) => {
            put_i32(out, 8);
            out.extend(number.to_be_bytes());
        }
        Value::Text(plain) => {
            let stored = text::encode(plain);
            with_length(out, |out| out.extend(stored.as_bytes()));
        }
        Value::Blob(bytes) => with_length(out, |out| out.extend(bytes.iter())),
    }
}

fn put_i32(out: &mut Vec<u8>, number: i32) {
    out.extend(number.to_be_bytes());
}

fn put_i16(out: &mut Vec<u8>, number: usize) {
    out.extend(i16::try_from(number).unwrap_or(i16::MAX).to_be_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.as_bytes());
    out.push(0);
}

/// Writes content after its length. The length does not include itself.
fn with_length(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    put_i32(out, 0);
    put(out);
    let length = i32::try_from(out.len() - begin - 4).unwrap_or(i32::MAX);
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// Writes a message: its tag, its length and its content. The length includes
/// itself.
fn message(out: &mut Vec<u8>, tag: u8, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let begin = out.len();
    put_i32(out, 0);
    put(out);
    let length = i32::try_from(out.len() - begin).unwrap_or(i32::MAX);
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// Asks the server to parse a statement, to store it under a name, and to
/// describe its columns. An empty name is valid until the next statement
/// without a name.
pub(crate) fn parse(out: &mut Vec<u8>, name: &str, sql: &str, arguments: &[Argument<'_>]) {
    message(out, b'P', |out| {
        put_text(out, name);
        put_text(out, sql);
        put_i16(out, arguments.len());
        for argument in arguments {
            out.extend(argument.type_of().to_be_bytes());
        }
    });
    message(out, b'D', |out| {
        out.push(b'S');
        put_text(out, name);
    });
}

/// Asks the server to run a parsed statement. All values are binary.
pub(crate) fn execute(out: &mut Vec<u8>, name: &str, arguments: &[Argument<'_>]) {
    message(out, b'B', |out| {
        put_text(out, "");
        put_text(out, name);
        put_i16(out, 1);
        put_i16(out, 1);
        put_i16(out, arguments.len());
        for argument in arguments {
            argument.put(out);
        }
        put_i16(out, 1);
        put_i16(out, 1);
    });
    message(out, b'E', |out| {
        put_text(out, "");
        put_i32(out, 0);
    });
}

/// Asks the server to close a statement.
pub(crate) fn close(out: &mut Vec<u8>, name: &str) {
    message(out, b'C', |out| {
        out.push(b'S');
        put_text(out, name);
    });
}

/// Ends a group of requests: after an error the server continues after it.
pub(crate) fn sync(out: &mut Vec<u8>) {
    message(out, b'S', |_| {});
}

/// Asks the server to run statements without values, separated by semicolons.
pub(crate) fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, b'Q', |out| put_text(out, sql));
}
