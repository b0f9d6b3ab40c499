//! Removes all data of a tenant.

use contexture_sql::{Connection, Fault};

/// The tables without a tenant column, and the condition for their rows. Tables
/// that other conditions use come later.
const THROUGH: &[(&str, &str)] = &[
    (
        "tool_calls",
        "turn IN (SELECT key FROM turns WHERE tenant = ?1)",
    ),
    (
        "late_results",
        "turn IN (SELECT key FROM turns WHERE tenant = ?1)",
    ),
    (
        "compactions",
        "turn IN (SELECT key FROM turns WHERE tenant = ?1)",
    ),
    (
        "counts",
        "turn IN (SELECT key FROM turns WHERE tenant = ?1)",
    ),
    (
        "sent_messages",
        "turn IN (SELECT key FROM turns WHERE tenant = ?1)",
    ),
    (
        "turn_labels",
        "turn IN (SELECT key FROM turns WHERE tenant = ?1)",
    ),
    (
        "head_moves",
        "session IN (SELECT key FROM sessions WHERE tenant = ?1)",
    ),
    (
        "idempotency_keys",
        "session IN (SELECT key FROM sessions WHERE tenant = ?1)",
    ),
    (
        "session_pins",
        "session IN (SELECT key FROM sessions WHERE tenant = ?1)",
    ),
    (
        "node_contents",
        "node IN (SELECT key FROM nodes WHERE tenant = ?1)",
    ),
    (
        "raw_responses",
        "node IN (SELECT key FROM nodes WHERE tenant = ?1)",
    ),
    (
        "node_counts",
        "node IN (SELECT key FROM nodes WHERE tenant = ?1)",
    ),
    (
        "edge_sources",
        "node IN (SELECT key FROM nodes WHERE tenant = ?1)",
    ),
    ("edges", "tree IN (SELECT key FROM trees WHERE tenant = ?1)"),
    (
        "saved_paths",
        "tree IN (SELECT key FROM trees WHERE tenant = ?1)",
    ),
    (
        "pins",
        "agent IN (SELECT a.key FROM agents a JOIN trees t ON t.key = a.tree
        WHERE t.tenant = ?1)",
    ),
    (
        "stashes",
        "agent IN (SELECT a.key FROM agents a JOIN trees t ON t.key = a.tree
        WHERE t.tenant = ?1)",
    ),
    (
        "actions",
        "agent IN (SELECT a.key FROM agents a JOIN trees t ON t.key = a.tree
        WHERE t.tenant = ?1)",
    ),
    (
        "agents",
        "tree IN (SELECT key FROM trees WHERE tenant = ?1)",
    ),
    (
        "memory_bodies",
        "record IN (SELECT key FROM memories WHERE tenant = ?1)",
    ),
    (
        "memory_vectors",
        "record IN (SELECT key FROM memories WHERE tenant = ?1)",
    ),
    (
        "memory_mentions",
        "record IN (SELECT key FROM memories WHERE tenant = ?1)",
    ),
    (
        "memory_ends",
        "relation IN (SELECT key FROM memories WHERE tenant = ?1)",
    ),
    (
        "memory_evidence",
        "relation IN (SELECT key FROM memories WHERE tenant = ?1)",
    ),
    (
        "import_states",
        "import IN (SELECT key FROM imports WHERE tenant = ?1)",
    ),
];

/// Removes the data of a tenant. Its API keys and its row in the list remain.
pub(crate) fn remove(db: &Connection, tenant: i64) -> Result<(), Fault> {
    db.defer_references()?;
    for (table, condition) in THROUGH {
        db.execute(&format!("DELETE FROM {table} WHERE {condition}"), [tenant])?;
    }
    // The keys of messages are computed from those of turns.
    db.execute(
        "DELETE FROM messages m USING turns t WHERE t.tenant = ?1
             AND m.key >= t.key << 14 AND m.key < (t.key + 1) << 14",
        [tenant],
    )?;
    for table in tables_of_tenants(db)? {
        db.execute(&format!("DELETE FROM {table} WHERE tenant = ?1"), [tenant])?;
    }
    db.execute("UPDATE tenants SET has_data = 0 WHERE key = ?1", [tenant])?;
    Ok(())
}

/// Returns the tables that have a column with the key of the tenant.
fn tables_of_tenants(db: &Connection) -> Result<Vec<String>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT CAST(c.relname AS TEXT) FROM pg_class c
         JOIN pg_namespace n ON n.oid = c.relnamespace
         JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE n.nspname = current_schema() AND c.relkind = 'r' AND a.attname = 'tenant'
             AND a.atttypid = CAST('bigint' AS regtype) AND c.relname <> 'keys'
         ORDER BY c.relname",
    )?;
    let tables = select.query_map((), |row| row.get(0))?;
    Ok(tables.collect::<Result<_, _>>()?)
}
