//! The memories of agents.

use std::collections::HashMap;

use crate::driver::Connection;
use contexture_store::{Action, AgentMemory, MemoryChange, Pin, Stash};
use jiff::Timestamp;

use super::TreeRow;
use super::insert::key_of;
use crate::error::Fault;
use crate::row::Time;

pub(super) fn load(db: &Connection, agent: i64, id: &str) -> Result<AgentMemory, Fault> {
    let mut pins = db.prepare_cached(
        "SELECT n.id, p.text FROM pins p LEFT JOIN nodes n ON n.key = p.node
         WHERE p.agent = ?1 ORDER BY p.seq",
    )?;
    let pins = pins.query_map([agent], |row| {
        Ok(Pin {
            node_id: row.get(0)?,
            text: row.get(1)?,
        })
    })?;
    let mut stashes = db.prepare_cached(
        "SELECT name, text, recalled FROM stashes WHERE agent = ?1 ORDER BY name",
    )?;
    let stashes = stashes.query_map([agent], |row| {
        Ok(Stash {
            name: row.get(0)?,
            text: row.get(1)?,
            recalled: row.get(2)?,
        })
    })?;
    let mut trace =
        db.prepare_cached("SELECT action, at FROM actions WHERE agent = ?1 ORDER BY seq")?;
    let trace = trace.query_map([agent], |row| {
        Ok(Action {
            action: row.get(0)?,
            at: Some(row.get::<Time>(1)?.0),
        })
    })?;
    Ok(AgentMemory {
        agent_id: id.to_owned(),
        pins: pins.collect::<Result<_, _>>()?,
        stashes: stashes.collect::<Result<_, _>>()?,
        trace: trace.collect::<Result<_, _>>()?,
    })
}

/// Reads the memory entries of all agents of a tree.
pub(super) fn load_all(db: &Connection, tree: &TreeRow) -> Result<Vec<AgentMemory>, Fault> {
    let mut select = db.prepare_cached("SELECT key, id FROM agents WHERE tree = ?1 ORDER BY id")?;
    let agents = select.query_map([tree.key], |row| {
        Ok((row.get::<i64>(0)?, row.get::<String>(1)?))
    })?;
    agents
        .map(|agent| {
            let (key, id) = agent?;
            load(db, key, &id)
        })
        .collect()
}

/// Replaces the memory entries of an agent.
pub(super) fn replace(
    db: &Connection,
    agent: i64,
    memory: &AgentMemory,
    keys: &HashMap<String, i64>,
) -> Result<(), Fault> {
    for table in ["pins", "stashes", "actions"] {
        db.prepare_cached(&format!("DELETE FROM {table} WHERE agent = ?1"))?
            .execute([agent])?;
    }
    for pin in &memory.pins {
        let node = pin
            .node_id
            .as_ref()
            .map(|id| key_of(keys, id))
            .transpose()?;
        append_pin(db, agent, node, pin.text.as_deref())?;
    }
    for stash in &memory.stashes {
        put_stash(db, agent, &stash.name, &stash.text, stash.recalled)?;
    }
    for action in &memory.trace {
        append_action(db, agent, &action.action, action.at.unwrap_or_default())?;
    }
    Ok(())
}

pub(super) fn change(
    db: &Connection,
    tree: &TreeRow,
    agent: i64,
    change: &MemoryChange,
    now: Timestamp,
) -> Result<(), Fault> {
    match change {
        MemoryChange::Pin(pin) => {
            let node = pin
                .node_id
                .as_ref()
                .map(|id| tree.node(db, id))
                .transpose()?;
            let text = pin.text.as_deref();
            let mut select = db.prepare_cached(
                "SELECT 1 FROM pins WHERE agent = ?1 AND node IS NOT DISTINCT FROM ?2
                     AND text IS NOT DISTINCT FROM ?3",
            )?;
            if select.exists((agent, node, text))? {
                return Ok(());
            }
            append_pin(db, agent, node, text)
        }
        MemoryChange::Unpin(pin) => {
            let named = || pin.node_id.as_deref().or(pin.text.as_deref());
            let missing = || Fault::not_found("pin", named().unwrap_or_default());
            let node = match &pin.node_id {
                Some(id) => Some(tree.node_if_any(db, id)?.ok_or_else(missing)?),
                None => None,
            };
            let removed = db
                .prepare_cached(
                    "DELETE FROM pins WHERE agent = ?1 AND node IS NOT DISTINCT FROM ?2
                     AND text IS NOT DISTINCT FROM ?3",
                )?
                .change((agent, node, &pin.text))?;
            (removed > 0).then_some(()).ok_or_else(missing)
        }
        MemoryChange::Stash { name, text } => put_stash(db, agent, name, text, false),
        MemoryChange::Recall { name, shown } => {
            let changed = db
                .prepare_cached("UPDATE stashes SET recalled = ?3 WHERE agent = ?1 AND name = ?2")?
                .change((agent, name, shown))?;
            known_stash(changed, name)
        }
        MemoryChange::Discard { name } => {
            let removed = db
                .prepare_cached("DELETE FROM stashes WHERE agent = ?1 AND name = ?2")?
                .change((agent, name))?;
            known_stash(removed, name)
        }
        MemoryChange::Act(action) => append_action(db, agent, action, now),
    }
}

fn known_stash(rows: usize, name: &str) -> Result<(), Fault> {
    match rows {
        0 => Err(Fault::not_found("stash", name)),
        _ => Ok(()),
    }
}

fn append_pin(
    db: &Connection,
    agent: i64,
    node: Option<i64>,
    text: Option<&str>,
) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO pins (agent, seq, node, text)
         SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3 FROM pins WHERE agent = ?1",
    )?
    .execute((agent, node, text))?;
    Ok(())
}

fn put_stash(
    db: &Connection,
    agent: i64,
    name: &str,
    text: &str,
    recalled: bool,
) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO stashes (agent, name, text, recalled) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (agent, name) DO UPDATE SET text = excluded.text, recalled = excluded.recalled",
    )?
    .execute((agent, name, text, recalled))?;
    Ok(())
}

fn append_action(db: &Connection, agent: i64, action: &str, at: Timestamp) -> Result<(), Fault> {
    db.prepare_cached(
        "INSERT INTO actions (agent, seq, action, at)
         SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3 FROM actions WHERE agent = ?1",
    )?
    .execute((agent, action, Time(at)))?;
    Ok(())
}
