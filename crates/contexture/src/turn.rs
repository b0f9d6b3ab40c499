//! What happened in a turn, as programs hand it over.

pub use contexture_core::Usage;
pub use contexture_store::{
    AgentRole, Block, ErrorKind, Message, MessageContent, MessageRole, NewTurn, Source, StopReason,
    TurnError, TurnId, TurnStatus,
};

use crate::error::{Error, plain};

/// The longest path of a field that is shown whole: what is nested without end
/// has one without end.
const LONGEST_PATH: usize = 120;

/// Reads JSON; complaints name the field, the line and the column.
pub(crate) fn json_with_path<T: serde::de::DeserializeOwned>(
    name: &str,
    text: &str,
) -> Result<T, Error> {
    let name = if name == "-" { "standard input" } else { name };
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        // Where it cannot be told which field it is, a `?` stands.
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

/// Reads a turn from JSON; `name` stands for it in complaints, which name the
/// line and the field.
pub fn turn_from_json(name: &str, text: &str) -> Result<NewTurn, Error> {
    json_with_path(name, text).map_err(|error| {
        error.hint("a turn is `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`")
    })
}
