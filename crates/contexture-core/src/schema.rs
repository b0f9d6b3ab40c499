//! JSON Schemas of the API's types, generated from the types themselves.
//!
//! A type that is both read and written has two schemas: [`input`] for requests
//! and [`output`] for responses. They differ in optional fields, and where
//! requests accept several forms but responses use one.

pub mod message;

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::text::ContentHash;

/// Returns a generator of schemas for input.
pub fn input() -> SchemaGenerator {
    settings().for_deserialize().into_generator()
}

/// Returns a generator of schemas for responses.
pub fn output() -> SchemaGenerator {
    settings().for_serialize().into_generator()
}

/// Returns the settings that both share: JSON Schema 2020-12, with the
/// [bounds](Bounds) of numbers.
pub fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with_transform(Bounds)
}

/// Adds the range of an integer where only its format implies one. Not every
/// reader of schemas knows `uint32`.
#[derive(Debug, Clone, Copy)]
pub struct Bounds;

impl Transform for Bounds {
    fn transform(&mut self, schema: &mut Schema) {
        let largest = match schema.get("format").and_then(|format| format.as_str()) {
            Some("uint32") => Some(u64::from(u32::MAX)),
            Some("uint64" | "uint") => Some(u64::MAX),
            Some("int64" | "int") => Some(i64::MAX as u64),
            _ => None,
        };
        if let Some(largest) = largest
            && schema.get("maximum").is_none()
        {
            schema.insert("maximum".to_owned(), largest.into());
        }
        let signed = matches!(
            schema.get("format").and_then(|format| format.as_str()),
            Some("int64" | "int")
        );
        if signed && schema.get("minimum").is_none() {
            schema.insert("minimum".to_owned(), i64::MIN.into());
        }
        transform_subschemas(self, schema);
    }
}

/// Defines a type that replaces a field's own type in the schema, because the
/// field's check is stricter than its type.
#[macro_export]
macro_rules! stands_for {
    ($(#[$doc:meta])* $name:ident, |$generator:ident| $schema:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}

/// A character that is not white space, as a part of a pattern.
pub const NOT_WHITE: &str =
    r"[^\u0009-\u000d \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";

stands_for! {
    /// A text that is more than blanks.
    NotBlank, |_generator| json_schema!({
        "type": "string", "minLength": 1, "pattern": NOT_WHITE,
    })
}

stands_for! {
    /// A part of a whole: from 0 to 1.
    Fraction, |_generator| json_schema!({
        "type": "number", "format": "double", "minimum": 0, "maximum": 1,
    })
}

stands_for! {
    /// A number that a store keeps: databases have no unsigned ones.
    Number, |_generator| json_schema!({
        "type": "integer", "format": "uint64", "minimum": 0, "maximum": i64::MAX,
    })
}

stands_for! {
    /// A number that is not zero.
    AtLeastOne, |_generator| json_schema!({
        "type": "integer", "format": "uint64", "minimum": 1,
    })
}

impl JsonSchema for ContentHash {
    fn schema_name() -> Cow<'static, str> {
        "ContentHash".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::ContentHash").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A BLAKE3 hash: 64 hexadecimal digits.",
            "type": "string",
            "pattern": hexadecimal(generator, 64),
        })
    }
}

/// Returns the pattern of this many hexadecimal digits. Input may have upper
/// case; output has lower case.
pub fn hexadecimal(generator: &SchemaGenerator, digits: usize) -> String {
    match generator.contract().is_deserialize() {
        true => format!("^[0-9a-fA-F]{{{digits}}}$"),
        false => format!("^[0-9a-f]{{{digits}}}$"),
    }
}
