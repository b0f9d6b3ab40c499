//! Reads turns and other JSON with errors that name the field, and guards the
//! strings of a JSON value.

pub use contexture_core::Usage;
pub use contexture_store::{
    AgentRole, Block, ErrorKind, Message, MessageContent, MessageRole, NewTurn, Source, StopReason,
    TurnError, TurnId, TurnStatus,
};

use contexture_core::Text;
use contexture_core::guard::{self, Policy};
use serde_json::Value;

use crate::error::{Error, plain};

/// The longest field path that is shown whole. Deeply nested input has an
/// arbitrarily long path.
const LONGEST_PATH: usize = 120;

/// Reads JSON. Error messages name the field, the line and the column.
pub fn json_with_path<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, Error> {
    let name = if name == "-" { "standard input" } else { name };
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // The path has a `?` where the field is unknown.
        let path = path.trim_end_matches(['?', '.']);
        let field = path.to_owned();
        let path = match path {
            "" => String::new(),
            path if path.len() > LONGEST_PATH => {
                format!("{}…: ", &path[..path.floor_char_boundary(LONGEST_PATH)])
            }
            path => format!("{path}: "),
        };
        let message = plain(&error.into_inner().to_string());
        Error::input(format!("{name}: {path}{message}")).at(field)
    })?;
    match reader.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(Error::input(format!(
            "{name}: {}",
            plain(&error.to_string())
        ))),
    }
}

/// Reads a turn from JSON. Error messages refer to the input by `name`, with
/// the line and the field.
pub fn turn_from_json(name: &str, text: &str) -> Result<NewTurn, Error> {
    json_with_path(name, text).map_err(|error| {
        error.advise("write a turn as `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`")
    })
}

/// Returns JSON as a guarded text that is still valid JSON.
pub fn guarded_json(value: &Value, policy: Policy) -> Text {
    let written = |value: &Value| value.to_string();
    let text = Text::guarded(&written(value), policy);
    if serde_json::from_str::<serde::de::IgnoredAny>(text.as_str()).is_ok() {
        return text;
    }
    // A mask removed a quotation mark, so each string is masked by itself.
    let cleaned = written(&clean_strings(value, policy));
    Text::guarded(&cleaned, Policy::masking(false))
}

fn clean_strings(value: &Value, policy: Policy) -> Value {
    let clean = |text: &str| guard::visible(text, policy).into_owned();
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(list) => list
            .iter()
            .map(|value| clean_strings(value, policy))
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (clean(key), clean_strings(value, policy)))
            .collect(),
        other => other.clone(),
    }
}
