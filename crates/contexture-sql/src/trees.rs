//! Loom trees.

mod change;
mod contents;
mod export;
mod grow;
mod head;
mod import;
mod insert;
mod memory;
mod step;
mod walk;

pub(crate) use self::insert::node_sum;
use crate::driver::{Connection, OptionalExtension, Row};
use contexture_core::Tokens;
use contexture_store::{
    Agent, AgentMemory, Arrival, Connections, CountedNode, Growth, Imported, NodeHead, RawResponse,
    SavedPath, Skeleton, SourceRole, StoreError, Tree, TreeChange, TreeDocument, TreeInfo, Trees,
};
use jiff::Timestamp;

use crate::error::Fault;
use crate::row::{Json, Time, Word, json, limit, unsigned};
use crate::{Backend, SqlStore};

impl<B: Backend> Trees for SqlStore<B> {
    fn import_tree(&self, document: &TreeDocument, now: Timestamp) -> Result<Imported, StoreError> {
        let most = self.max_message_bytes();
        let document = document.clone();
        self.write_keyed(move |db, tenant| import::import(db, tenant, document, now, most))
    }

    fn export_tree(&self, tree: &str) -> Result<TreeDocument, StoreError> {
        self.read(|db, tenant| {
            let tree = TreeRow::find(db, tenant, tree)?;
            let (document, _) = export::load(db, &tree)?;
            // Every node has a time, so the default is not used.
            Ok(document.normalised(Timestamp::UNIX_EPOCH))
        })
    }

    fn tree(&self, tree: &str) -> Result<TreeInfo, StoreError> {
        self.read(|db, tenant| TreeRow::find(db, tenant, tree)?.info(db))
    }

    fn trees(&self, after: Option<&str>, limit: usize) -> Result<Vec<TreeInfo>, StoreError> {
        self.read(|db, tenant| list(db, tenant, after, limit))
    }

    fn grow(
        &self,
        tree: &str,
        growth: &Growth,
        now: Timestamp,
    ) -> Result<Vec<NodeHead>, StoreError> {
        let most = self.max_message_bytes();
        for (i, node) in growth.nodes.iter().enumerate() {
            node.check_size(&format!("nodes[{i}]"), most)?;
        }
        let (tree, growth) = (tree.to_owned(), growth.clone());
        self.write_keyed(move |db, tenant| grow::grow(db, tenant, &tree, &growth, now))
    }

    fn change_tree(
        &self,
        tree: &str,
        change: &TreeChange,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (tree, change) = (tree.to_owned(), change.clone());
        self.write_keyed(move |db, tenant| change::change(db, tenant, &tree, &change, now))
    }

    fn find_node(&self, tree: &str, name: &str) -> Result<NodeHead, StoreError> {
        self.read(|db, tenant| walk::find_node(db, tenant, tree, name))
    }

    fn climb(&self, tree: &str, from: &str, limit: usize) -> Result<Vec<NodeHead>, StoreError> {
        self.read(|db, tenant| walk::climb(db, tenant, tree, from, limit))
    }

    fn versions(&self, tree: &str, node: &str) -> Result<Vec<NodeHead>, StoreError> {
        self.read(|db, tenant| {
            let tree = TreeRow::find(db, tenant, tree)?;
            let node = tree.node(db, node)?;
            walk::versions(db, &mut head::Heads::new(db)?, &[node])
        })
    }

    fn arrivals(&self, tree: &str, node: &str) -> Result<Vec<Arrival>, StoreError> {
        self.read(|db, tenant| walk::arrivals(db, tenant, tree, node))
    }

    fn nodes(
        &self,
        tree: &str,
        ids: &[&str],
        counter: &str,
    ) -> Result<Vec<CountedNode>, StoreError> {
        self.read(|db, tenant| contents::nodes(db, tenant, tree, ids, counter))
    }

    fn put_node_counts(
        &self,
        tree: &str,
        counter: &str,
        counts: &[(&str, Vec<Tokens>)],
    ) -> Result<(), StoreError> {
        let (tree, counter) = (tree.to_owned(), counter.to_owned());
        let counts: Vec<(String, Vec<Tokens>)> = counts
            .iter()
            .map(|(id, blocks)| ((*id).to_owned(), blocks.clone()))
            .collect();
        self.write(move |db, tenant| contents::put_counts(db, tenant, &tree, &counter, &counts))
    }

    fn connections(&self, tree: &str, ids: &[&str]) -> Result<Vec<Connections>, StoreError> {
        self.read(|db, tenant| walk::connections(db, tenant, tree, ids))
    }

    fn annotations(&self, tree: &str, ids: &[&str]) -> Result<Vec<(String, NodeHead)>, StoreError> {
        self.read(|db, tenant| walk::annotations(db, tenant, tree, ids))
    }

    fn skeleton(&self, tree: &str) -> Result<Skeleton, StoreError> {
        self.read(|db, tenant| export::skeleton(db, &TreeRow::find(db, tenant, tree)?))
    }

    fn raw_response(&self, tree: &str, node: &str) -> Result<Option<RawResponse>, StoreError> {
        self.read(|db, tenant| contents::raw_response(db, tenant, tree, node))
    }

    fn agent_memory(&self, tree: &str, agent: &str) -> Result<AgentMemory, StoreError> {
        self.read(|db, tenant| {
            let tree = TreeRow::find(db, tenant, tree)?;
            memory::load(db, agent_key(db, &tree, agent)?, agent)
        })
    }
}

/// A row of the table of trees.
struct TreeRow {
    key: i64,
    tenant: i64,
    tree: Tree,
    root: Option<i64>,
    epoch: u64,
    nodes: u64,
    edges: u64,
    instructions: u64,
}

const COLUMNS: &str = "SELECT key, tenant, id, mode, title, system_context,
    buffer_mode_system_context, preferences, root, epoch, nodes, edges, created_at,
    instructions FROM trees";

impl TreeRow {
    fn read(row: &Row<'_>) -> crate::driver::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            tenant: row.get(1)?,
            tree: Tree {
                id: row.get(2)?,
                mode: row.get::<Word<_>>(3)?.0,
                title: row.get(4)?,
                system_context: row.get(5)?,
                buffer_mode_system_context: row.get(6)?,
                preferences: row.get::<Json<_>>(7)?.0,
                created_at: Some(row.get::<Time>(12)?.0),
            },
            root: row.get(8)?,
            epoch: unsigned(row, 9)?,
            nodes: unsigned(row, 10)?,
            edges: unsigned(row, 11)?,
            instructions: unsigned(row, 13)?,
        })
    }

    fn find(db: &Connection, tenant: i64, id: &str) -> Result<Self, Fault> {
        let found = Self::find_if_any(db, tenant, id)?;
        found.ok_or_else(|| Fault::not_found("tree", id))
    }

    fn find_if_any(db: &Connection, tenant: i64, id: &str) -> Result<Option<Self>, Fault> {
        let mut select = db.prepare_cached(&format!(
            "{COLUMNS} WHERE tenant = ?1 AND id = ?2 AND deleted IS NULL"
        ))?;
        Ok(select.query_row((tenant, id), Self::read).optional()?)
    }

    /// Finds a node of this tree.
    fn node(&self, db: &Connection, id: &str) -> Result<i64, Fault> {
        let found = self.node_if_any(db, id)?;
        found.ok_or_else(|| Fault::not_found("node", id))
    }

    fn node_if_any(&self, db: &Connection, id: &str) -> Result<Option<i64>, Fault> {
        let mut select =
            db.prepare_cached("SELECT key FROM nodes WHERE tenant = ?1 AND id = ?2 AND tree = ?3")?;
        let found = select.query_row((self.tenant, id, self.key), |row| row.get(0));
        Ok(found.optional()?)
    }

    fn has_edge(&self, db: &Connection, id: &str) -> Result<bool, Fault> {
        let mut select = db.prepare_cached("SELECT 1 FROM edges WHERE tree = ?1 AND id = ?2")?;
        Ok(select.exists((self.key, id))?)
    }

    fn info(self, db: &Connection) -> Result<TreeInfo, Fault> {
        Ok(TreeInfo {
            root: self.root.map(|key| node_id(db, key)).transpose()?,
            agents: agents(db, self.key)?,
            paths: paths(db, self.key)?,
            nodes: self.nodes,
            edges: self.edges,
            instructions: self.instructions,
            epoch: self.epoch,
            tree: self.tree,
        })
    }
}

fn list(
    db: &Connection,
    tenant: i64,
    after: Option<&str>,
    most: usize,
) -> Result<Vec<TreeInfo>, Fault> {
    // The empty text sorts first, and no id is empty.
    let mut select = db.prepare_cached(&format!(
        "{COLUMNS} WHERE tenant = ?1 AND id > ?2 AND deleted IS NULL ORDER BY id LIMIT ?3"
    ))?;
    let found = select.query_map((tenant, after.unwrap_or(""), limit(most)), TreeRow::read)?;
    found.map(|row| row?.info(db)).collect()
}

fn node_id(db: &Connection, key: i64) -> Result<String, Fault> {
    let mut select = db.prepare_cached("SELECT id FROM nodes WHERE key = ?1")?;
    Ok(select.query_row([key], |row| row.get(0))?)
}

fn agent_key(db: &Connection, tree: &TreeRow, id: &str) -> Result<i64, Fault> {
    let mut select = db.prepare_cached("SELECT key FROM agents WHERE tree = ?1 AND id = ?2")?;
    let found = select.query_row((tree.key, id), |row| row.get(0));
    found
        .optional()?
        .ok_or_else(|| Fault::not_found("agent", id))
}

/// Reads the agents of a tree, by id.
fn agents(db: &Connection, tree: i64) -> Result<Vec<Agent>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT a.id, a.kind, a.name, a.system_prompt, a.model, a.parameters, a.permissions,
             a.loom_aware, n.id
         FROM agents a LEFT JOIN nodes n ON n.key = a.position WHERE a.tree = ?1 ORDER BY a.id",
    )?;
    let found = select.query_map([tree], |row| {
        Ok(Agent {
            id: row.get(0)?,
            kind: row.get::<Word<_>>(1)?.0,
            name: row.get(2)?,
            system_prompt: row.get(3)?,
            model: row.get(4)?,
            parameters: json(row, 5)?.unwrap_or_default(),
            permissions: json(row, 6)?.unwrap_or_default(),
            loom_aware: row.get(7)?,
            position: row.get(8)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Reads the saved paths of a tree, by name.
fn paths(db: &Connection, tree: i64) -> Result<Vec<SavedPath>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT p.name, n.id, p.choices FROM saved_paths p JOIN nodes n ON n.key = p.head
         WHERE p.tree = ?1 ORDER BY p.name",
    )?;
    let found = select.query_map([tree], |row| {
        Ok(SavedPath {
            name: row.get(0)?,
            head: row.get(1)?,
            choices: row.get::<Json<_>>(2)?.0,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns how many of the edges have instruction sources.
fn instructions<'a>(edges: impl Iterator<Item = &'a contexture_store::Edge>) -> u64 {
    let directs =
        |edge: &&contexture_store::Edge| edge.sources_as(SourceRole::Instruction).next().is_some();
    edges.filter(directs).count() as u64
}
