//! What happened in a turn, as programs hand it over.

pub use contexture_core::Usage;
pub use contexture_store::{
    AgentRole, Block, ErrorKind, Message, MessageContent, MessageRole, NewTurn, Source, StopReason,
    TurnError, TurnId, TurnStatus,
};

use crate::error::Error;

/// Reads JSON; complaints name the field, the line and the column.
pub(crate) fn json_with_path<T: serde::de::DeserializeOwned>(
    name: &str,
    text: &str,
) -> Result<T, Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = match path.as_str() {
            "." => String::new(),
            path => format!("{path}: "),
        };
        Error::input(format!("{name}: {path}{}", error.into_inner()))
    })?;
    match reader.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(Error::input(format!("{name}: {error}"))),
    }
}

/// Reads a turn from JSON; `name` stands for it in complaints, which name the
/// line and the field.
pub fn turn_from_json(name: &str, text: &str) -> Result<NewTurn, Error> {
    json_with_path(name, text).map_err(|error| {
        error.hint("a turn is `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`")
    })
}
