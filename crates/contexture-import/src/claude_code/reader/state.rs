//! The state that is stored between two imports of a growing file.

use contexture_store::TurnId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Lane, Reader};
use crate::claude_code::graph::{Graph, Node, StoredNode, take};
use crate::error::ImportError;
use crate::requests::{Requests, RequestsState};
use crate::writer::{TurnRef, Writer};

#[derive(Serialize, Deserialize)]
struct StoredLane {
    label: String,
    parent: Option<String>,
    title: Option<String>,
    head: Option<TurnId>,
    at: Timestamp,
}

/// The state of a reader, as stored.
pub(super) struct StoredState {
    fields: StoredFields,
    nodes: Vec<StoredNode>,
}

#[derive(Serialize, Deserialize)]
struct StoredFields {
    lanes: Vec<StoredLane>,
    agents: Vec<(String, u16)>,
    shapes: Vec<(String, u64)>,
    requests: RequestsState,
    // The turns of rows that are read again when the file grows.
    latest: Vec<(String, TurnId)>,
    // Messages that the next request may refer to.
    pending: (Vec<String>, Vec<String>),
    // The turns of imported rows that the file does not have at this time.
    #[serde(default)]
    unseen: Vec<(String, TurnId)>,
    #[serde(default)]
    known_label: Option<String>,
}

impl StoredState {
    /// Reads a state. Returns `None` if one of its sessions was deleted: the
    /// turns may be deleted, too.
    pub(super) fn of_sessions(
        bytes: Option<&[u8]>,
        writer: &mut Writer<'_>,
    ) -> Result<Option<Self>, ImportError> {
        let Some(state) = bytes.and_then(Self::read) else {
            return Ok(None);
        };
        let has_latest = !state.fields.latest.is_empty();
        for (i, lane) in state.fields.lanes.iter().enumerate() {
            let has_turns = lane.head.is_some() || i == 0 && has_latest;
            if has_turns && !writer.still_has_session(&lane.label)? {
                return Ok(None);
            }
        }
        Ok(Some(state))
    }

    /// Returns true if the store has the messages that the state refers to.
    pub(super) fn has_content(&self, writer: &Writer<'_>) -> Result<bool, ImportError> {
        Ok(Requests::is_stored(&self.fields.requests, writer.store())?)
    }

    /// Forgets the turns of rows that are read again when the file grows.
    pub(super) fn forget_latest(&mut self) {
        self.fields.latest.clear();
    }

    /// Returns the parent session of the file's session.
    pub(super) fn parent(&self) -> Option<&String> {
        self.fields.lanes.first()?.parent.as_ref()
    }

    fn read(mut bytes: &[u8]) -> Option<Self> {
        let length = usize::try_from(u64::from_le_bytes(take(&mut bytes)?)).ok()?;
        let (json, mut rest) = bytes.split_at_checked(length)?;
        Some(Self {
            fields: serde_json::from_slice(json).ok()?,
            nodes: Graph::read(&mut rest)?,
        })
    }
}

impl Reader {
    /// Continues from a stored state.
    pub(super) fn resume(&mut self, state: StoredState, writer: &mut Writer<'_>) {
        let StoredState {
            fields: stored,
            nodes,
        } = state;
        let mut turn = |id: Option<TurnId>| id.map(|id| writer.stored(id));
        self.lanes = stored
            .lanes
            .into_iter()
            .map(|lane| Lane {
                head: turn(lane.head),
                title: lane.title,
                ..Lane::new(lane.label, lane.parent, lane.at)
            })
            .collect();
        for node in nodes {
            self.graph.add(Node {
                id: node.id,
                parent: node.parent,
                offset: node.offset,
                lane: node.lane,
                kind: node.kind,
                turn: turn(node.turn),
            });
        }
        self.agents = stored.agents.into_iter().collect();
        self.known_label = stored.known_label;
        self.know_rows(stored.unseen);
        let latest = stored.latest.iter();
        self.recorded = latest.filter_map(|(id, _)| id.parse().ok()).collect();
        self.sent.shapes = stored.shapes.into_iter().collect();
        self.sent.requests = Requests::from_state(stored.requests);
        self.sent.resume(stored.pending);
    }

    /// Learns the turns of rows from a stored state.
    pub(super) fn know(&mut self, state: StoredState) -> Option<String> {
        let stored = state.fields;
        for node in state.nodes {
            if let Some(turn) = node.turn {
                self.known.insert(node.id, turn);
            }
        }
        self.know_rows(stored.unseen);
        self.know_rows(stored.latest);
        stored.lanes.into_iter().next().map(|lane| lane.label)
    }

    fn know_rows(&mut self, rows: Vec<(String, TurnId)>) {
        for (id, turn) in rows {
            if let Ok(id) = id.parse() {
                self.known.insert(id, turn);
            }
        }
    }

    pub(super) fn state(
        &self,
        kept: &[bool],
        heads: &[Option<TurnRef>],
        pending: (Vec<String>, Vec<String>),
        writer: &Writer<'_>,
    ) -> Vec<u8> {
        let lanes = self.lanes.iter().zip(heads).map(|(lane, head)| StoredLane {
            label: lane.label.clone(),
            parent: lane.parent.clone(),
            title: lane.title.clone(),
            head: head.and_then(|head| writer.id(head)),
            at: lane.at,
        });
        let stored = StoredFields {
            lanes: lanes.collect(),
            agents: self.agents.clone().into_iter().collect(),
            shapes: self.sent.shapes.clone().into_iter().collect(),
            requests: self.sent.requests.state(),
            pending,
            unseen: (self.known.iter())
                .filter(|(id, _)| self.graph.find(**id).is_none())
                .map(|(id, turn)| (id.to_string(), *turn))
                .collect(),
            known_label: self.known_label.clone(),
            latest: (self.graph.nodes.iter().zip(kept))
                .filter(|(_, kept)| !**kept)
                .filter_map(|(node, _)| Some((node.id.to_string(), writer.id(node.turn?)?)))
                .collect(),
        };
        let json = serde_json::to_vec(&stored).unwrap_or_default();
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json);
        self.graph.write(kept, writer, &mut bytes);
        bytes
    }
}
