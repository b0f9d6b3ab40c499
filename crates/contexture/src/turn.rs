//! What happened in a turn, as programs hand it over.

pub use contexture_core::Usage;
pub use contexture_store::{
    AgentRole, Block, ErrorKind, Message, MessageContent, MessageRole, NewTurn, Source, StopReason,
    TurnError, TurnId, TurnStatus,
};

use crate::error::Error;

/// Reads a turn from JSON; `name` stands for it in complaints, which name the
/// line and the field.
pub fn turn_from_json(name: &str, text: &str) -> Result<NewTurn, Error> {
    serde_json::from_str(text).map_err(|error| {
        Error::input(format!("{name}: {error}"))
            .hint("a turn is `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`")
    })
}
