//! Where a reader is in a conversation, and the state that is stored between two
//! imports of a growing file.

use std::rc::Rc;

use contexture_core::ContentHash;
use contexture_store::TurnId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::ImportError;
use crate::requests::RequestsState;
use crate::writer::{TurnRef, Writer};

/// The reader's position in the conversation. It is stored between imports.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) label: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) instructions: Option<String>,
    pub(super) at: Option<Timestamp>,
    /// The time of the first row.
    #[serde(default)]
    pub(super) started: Option<Timestamp>,
    /// The items that are sent, by number.
    pub(super) items: Vec<u32>,
    /// A hash of all items so far.
    pub(super) chain: Option<ContentHash>,
    pub(super) head: Option<TurnId>,
    #[serde(skip)]
    pub(super) head_ref: Option<TurnRef>,
    /// The start of each turn of the user.
    #[serde(with = "stored_turns")]
    pub(super) turns: Vec<UserTurn>,
}

/// The start of a turn of the user.
#[derive(Clone)]
pub(super) struct UserTurn {
    // Shared: a position is copied for every call of the model.
    pub(super) items: Rc<[u32]>,
    pub(super) chain: Option<ContentHash>,
    pub(super) head: Option<TurnId>,
    pub(super) head_ref: Option<TurnRef>,
}

/// Turns of the user as stored: each has most items of the one before it.
mod stored_turns {
    use contexture_core::ContentHash;
    use contexture_store::TurnId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::UserTurn;

    #[derive(Serialize, Deserialize)]
    struct StoredTurn {
        // The number of items that it has from the turn before it. Earlier
        // versions wrote every item.
        #[serde(default)]
        shared: usize,
        items: Vec<u32>,
        chain: Option<ContentHash>,
        head: Option<TurnId>,
    }

    pub(super) fn serialize<S: Serializer>(turns: &[UserTurn], to: S) -> Result<S::Ok, S::Error> {
        let mut before: &[u32] = &[];
        let stored = turns.iter().map(|turn| {
            let pairs = before.iter().zip(turn.items.iter());
            let shared = pairs.take_while(|(one, other)| one == other).count();
            before = &turn.items;
            StoredTurn {
                shared,
                items: turn.items[shared..].to_vec(),
                chain: turn.chain,
                head: turn.head,
            }
        });
        to.collect_seq(stored.collect::<Vec<_>>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<UserTurn>, D::Error> {
        let mut turns: Vec<UserTurn> = Vec::new();
        for stored in Vec::<StoredTurn>::deserialize(from)? {
            let before = turns.last().map(|turn| &turn.items[..]);
            let shared = before.and_then(|before| before.get(..stored.shared));
            let mut items = shared.unwrap_or_default().to_vec();
            items.extend(stored.items);
            turns.push(UserTurn {
                items: items.into(),
                chain: stored.chain,
                head: stored.head,
                head_ref: None,
            });
        }
        Ok(turns)
    }
}

/// The state that is stored between imports.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredState {
    pub(super) position: Position,
    pub(super) known: Vec<(ContentHash, TurnId)>,
    // The turns of rows that are read again when the file grows.
    pub(super) latest: Vec<(ContentHash, TurnId)>,
    pub(super) requests: RequestsState,
}

/// Returns a state unless its session was deleted: its turns may be deleted, too.
pub(super) fn stored_session(
    state: Option<StoredState>,
    writer: &mut Writer<'_>,
) -> Result<Option<StoredState>, ImportError> {
    let Some(state) = state else {
        return Ok(None);
    };
    let is_there = match &state.position.label {
        Some(label) if !state.known.is_empty() || !state.latest.is_empty() => {
            writer.still_has_session(label)?
        }
        _ => true,
    };
    Ok(is_there.then_some(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_the_user_are_stored_as_what_they_add() {
        let turn = |items: &[u32]| UserTurn {
            items: items.into(),
            chain: None,
            head: None,
            head_ref: None,
        };
        let lists: [&[u32]; 4] = [&[1, 2], &[1, 2, 3], &[9], &[]];
        let position = Position {
            turns: lists.map(turn).to_vec(),
            ..Position::default()
        };
        let text = serde_json::to_string(&position).unwrap_or_default();
        assert!(text.contains(r#""shared":2,"items":[3]"#), "{text}");
        // Earlier versions stored each list in full.
        let old = text.replace(r#""shared":2,"items":[3]"#, r#""items":[1,2,3]"#);
        for text in [text, old] {
            let read: Option<Position> = serde_json::from_str(&text).ok();
            let read = read.map(|read| read.turns).unwrap_or_default();
            let read: Vec<&[u32]> = read.iter().map(|turn| &turn.items[..]).collect();
            assert_eq!(read, lists);
        }
    }
}
