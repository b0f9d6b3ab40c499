//! Reads nodes without their content.

use std::collections::HashMap;

use crate::driver::{Connection, Row, Statement};
use contexture_store::{Flags, NodeHead, Step};

use crate::error::Fault;
use crate::row::{Time, Word, unsigned};

/// The columns of a node, in the order of [`HeadRow::read`].
pub(super) const COLUMNS: &str = "n.key, n.id, n.local_id, n.author, n.agent, n.edited_from, \
    n.excluded, n.pruned, n.bookmarked, n.created_at, n.bytes, n.step, n.parent";

/// A node's row, which refers to other nodes by key.
pub(super) struct HeadRow {
    pub(super) key: i64,
    pub(super) agent: Option<i64>,
    pub(super) edited_from: Option<i64>,
    pub(super) step: i64,
    pub(super) parent: Option<i64>,
    head: NodeHead,
}

impl HeadRow {
    pub(super) fn read(row: &Row<'_>) -> crate::driver::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            agent: row.get(4)?,
            edited_from: row.get(5)?,
            step: row.get(11)?,
            parent: row.get(12)?,
            head: NodeHead {
                id: row.get(1)?,
                local_id: row.get(2)?,
                author: row.get::<Word<_>>(3)?.0,
                author_agent_id: None,
                edited_from: None,
                flags: Flags {
                    excluded: row.get(6)?,
                    pruned: row.get(7)?,
                    bookmarked: row.get(8)?,
                },
                created_at: row.get::<Time>(9)?.0,
                bytes: unsigned(row, 10)?,
                step: Step::Nothing,
            },
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.head.id
    }

    /// Returns true when the node with that content is what was stored.
    pub(super) fn is_intact(&self, content: &str, sum: Option<[u8; 16]>) -> bool {
        super::contents::is_intact(&self.head, content, sum)
    }

    /// Replaces keys with ids.
    pub(super) fn named(
        self,
        agent: impl FnOnce(i64) -> Result<String, Fault>,
        mut node: impl FnMut(i64) -> Result<String, Fault>,
    ) -> Result<NodeHead, Fault> {
        let step = match (self.step, self.parent) {
            (0, _) => Step::Nothing,
            (1, Some(parent)) => Step::Plain {
                parent: node(parent)?,
            },
            _ => Step::Look,
        };
        Ok(NodeHead {
            author_agent_id: self.agent.map(agent).transpose()?,
            edited_from: self.edited_from.map(node).transpose()?,
            step,
            ..self.head
        })
    }
}

/// Reads heads one by one.
pub(super) struct Heads<'db> {
    rows: Statement<'db>,
    ids: Statement<'db>,
    agents: Statement<'db>,
    // A tree has few agents.
    agent_ids: HashMap<i64, String>,
    db: &'db Connection,
    // Rows that were read ahead.
    ahead: HashMap<i64, HeadRow>,
}

/// The number of rows of a path that one statement reads ahead.
const AHEAD: i64 = 1000;

impl<'db> Heads<'db> {
    pub(super) fn new(db: &'db Connection) -> Result<Self, Fault> {
        Ok(Self {
            rows: db.prepare_cached(&format!("SELECT {COLUMNS} FROM nodes n WHERE n.key = ?1"))?,
            ids: db.prepare_cached("SELECT id FROM nodes WHERE key = ?1")?,
            agents: db.prepare_cached("SELECT id FROM agents WHERE key = ?1")?,
            agent_ids: HashMap::new(),
            db,
            ahead: HashMap::new(),
        })
    }

    pub(super) fn row(&mut self, key: i64) -> Result<HeadRow, Fault> {
        Ok(self.rows.query_row([key], HeadRow::read)?)
    }

    /// Reads an ancestor of a node. The rows above it are read ahead.
    pub(super) fn row_above(&mut self, key: i64) -> Result<HeadRow, Fault> {
        if !self.db.is_remote() {
            return self.row(key);
        }
        if !self.ahead.contains_key(&key) {
            self.read_ahead(key)?;
        }
        match self.ahead.remove(&key) {
            Some(row) => Ok(row),
            None => self.row(key),
        }
    }

    fn read_ahead(&mut self, key: i64) -> Result<(), Fault> {
        let mut select = self.db.prepare_cached(&format!(
            "WITH RECURSIVE path (key, parent, place) AS (
                 SELECT key, parent, 1 FROM nodes WHERE key = ?1
                 UNION ALL
                 SELECT n.key, n.parent, p.place + 1 FROM path p JOIN nodes n ON n.key = p.parent
                 WHERE p.place < ?2)
             SELECT {COLUMNS} FROM path p JOIN nodes n ON n.key = p.key"
        ))?;
        for row in select.query_map((key, AHEAD), HeadRow::read)? {
            let row = row?;
            self.ahead.insert(row.key, row);
        }
        Ok(())
    }

    pub(super) fn head(&mut self, key: i64) -> Result<NodeHead, Fault> {
        let row = self.row(key)?;
        self.named(row, None)
    }

    /// Replaces keys with ids. `parent` is the id of the plain parent, when it
    /// is known.
    pub(super) fn named(&mut self, row: HeadRow, parent: Option<&str>) -> Result<NodeHead, Fault> {
        let (agents, agent_ids, ids) = (&mut self.agents, &mut self.agent_ids, &mut self.ids);
        let parent_key = row.parent;
        let agent = |key| {
            if let Some(id) = agent_ids.get(&key) {
                return Ok(String::clone(id));
            }
            let id: String = agents.query_row([key], |row| row.get(0))?;
            agent_ids.insert(key, id.clone());
            Ok(id)
        };
        row.named(agent, |key| match parent {
            Some(parent) if parent_key == Some(key) => Ok(parent.to_owned()),
            _ => Ok(ids.query_row([key], |row| row.get(0))?),
        })
    }
}
