//! The keys of messages: the key of the turn and the index in it, in one number.

use contexture_store::MAX_MESSAGES;

/// The number of bits by which the key of a turn is shifted in message keys.
const SHIFT: u32 = 14;
const _: () = assert!(MAX_MESSAGES < 1 << SHIFT);

/// The largest number of messages in a turn.
pub(crate) const MESSAGES_OF_TURN: usize = 1 << SHIFT;

/// Returns the turn of a message key, and the message's index in the turn.
pub(crate) fn parts_of_message_key(key: i64) -> (i64, i64) {
    (key >> SHIFT, key & ((1 << SHIFT) - 1))
}

/// Returns the key of a turn's message. With `seq` 0 it is also the exclusive
/// end of the previous turn's keys.
pub fn message_key(turn: i64, seq: usize) -> i64 {
    (turn << SHIFT) + seq as i64
}
