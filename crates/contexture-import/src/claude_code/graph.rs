//! The tree of a file's rows, and its stored form between imports.

use std::collections::HashMap;

use contexture_store::TurnId;

use crate::writer::{TurnRef, Writer};

/// The id of a row: a UUID, or a hash of the text used in its place.
pub(super) type RowId = u128;

/// Reads the id of a row.
pub(super) fn row_id(text: &str) -> RowId {
    let mut id: u128 = 0;
    let mut digits = 0;
    for byte in text.bytes() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'-' => continue,
            _ => {
                digits = 0;
                break;
            }
        };
        id = (id << 4) | u128::from(digit);
        digits += 1;
    }
    if digits == 32 && id != 0 {
        return id;
    }
    let hash = blake3::hash(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    // Zero is not a row.
    u128::from_le_bytes(bytes).max(1)
}

/// The role of a row in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Input of the model, or a row without content.
    Input = 0,
    /// A part of an answer, or a compaction: turns follow it.
    Stop = 1,
}

/// A row in the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) id: RowId,
    /// Zero for a root.
    pub(super) parent: RowId,
    pub(super) offset: u64,
    pub(super) lane: u16,
    pub(super) kind: Kind,
    /// The turn that holds the row.
    pub(super) turn: Option<TurnRef>,
}

/// The rows of a file.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    by_id: HashMap<RowId, u32>,
}

impl Graph {
    pub(super) fn find(&self, id: RowId) -> Option<usize> {
        self.by_id.get(&id).map(|at| *at as usize)
    }

    pub(super) fn add(&mut self, node: Node) -> usize {
        let at = self.nodes.len();
        self.by_id
            .insert(node.id, u32::try_from(at).unwrap_or(u32::MAX));
        self.nodes.push(node);
        at
    }

    /// Returns the latest turn at or before a row.
    pub(super) fn turn_at(&self, id: RowId) -> Option<TurnRef> {
        let mut next = self.find(id);
        // A circle of parents ends the search.
        for _ in 0..=self.nodes.len() {
            let node = &self.nodes[next?];
            if node.turn.is_some() {
                return node.turn;
            }
            next = self.find(node.parent);
        }
        None
    }

    /// Writes the `kept` rows as bytes.
    pub(super) fn write(&self, kept: &[bool], writer: &Writer<'_>, out: &mut Vec<u8>) {
        let kept = self.nodes.iter().zip(kept).filter(|(_, kept)| **kept);
        let kept: Vec<&Node> = kept.map(|(node, _)| node).collect();
        out.extend((kept.len() as u64).to_le_bytes());
        for node in kept {
            out.extend(node.id.to_le_bytes());
            out.extend(node.parent.to_le_bytes());
            out.extend(node.offset.to_le_bytes());
            out.extend(node.lane.to_le_bytes());
            out.push(node.kind as u8);
            let turn = node.turn.and_then(|turn| writer.id(turn));
            out.push(u8::from(turn.is_some()));
            out.extend(turn.map_or([0; 16], |turn| *turn.as_bytes()));
        }
    }

    /// Reads rows that were written.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<Vec<StoredNode>> {
        let count = u64::from_le_bytes(take(bytes)?);
        let mut nodes = Vec::new();
        for _ in 0..count {
            let id = u128::from_le_bytes(take(bytes)?);
            let parent = u128::from_le_bytes(take(bytes)?);
            let offset = u64::from_le_bytes(take(bytes)?);
            let lane = u16::from_le_bytes(take(bytes)?);
            let [kind, has_turn] = take(bytes)?;
            let turn = TurnId::from_bytes(take(bytes)?);
            nodes.push(StoredNode {
                id,
                parent,
                offset,
                lane,
                kind: match kind {
                    1 => Kind::Stop,
                    _ => Kind::Input,
                },
                turn: (has_turn == 1).then_some(turn),
            });
        }
        Some(nodes)
    }
}

/// The stored form of a row.
pub(super) struct StoredNode {
    pub(super) id: RowId,
    pub(super) parent: RowId,
    pub(super) offset: u64,
    pub(super) lane: u16,
    pub(super) kind: Kind,
    pub(super) turn: Option<TurnId>,
}

/// Removes and returns bytes from the beginning.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}
