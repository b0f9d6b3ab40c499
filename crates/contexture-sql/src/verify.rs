//! Checks everything that a tenant has stored.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::driver::Connection;
use contexture_core::ContentHash;
use contexture_store::{Damage, MAX_DAMAGES, StoreError, Verification};

use crate::error::{Error, Fault};
use crate::row::{Hash, Time};
use crate::trees::node_sum;
use crate::turns;
use crate::upkeep::pending;
use contexture_sql_memory::load::is_intact;

/// The findings so far.
#[derive(Default)]
struct Findings {
    checked: BTreeMap<String, u64>,
    damaged: Vec<Damage>,
}

impl Findings {
    fn count(&mut self, what: &str) {
        match self.checked.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.checked.insert(what.to_owned(), 1)),
        }
    }

    fn add(&mut self, what: impl Into<String>, message: impl Into<String>) {
        if self.damaged.len() < MAX_DAMAGES {
            self.damaged.push(Damage {
                what: what.into(),
                message: message.into(),
            });
        }
    }

    /// Adds the error of a failed check.
    fn fault(&mut self, what: impl Into<String>, fault: Fault) {
        match fault {
            Fault::Refused(StoreError::Damaged { what, message }) => self.add(what, message),
            Fault::Refused(other) => self.add(what, other.to_string()),
            Fault::Sql(Error::Driver(error)) => self.add(what, error.to_string()),
            Fault::Sql(error) => self.add(what, format!("is damaged: {error}")),
        }
    }
}

/// Checks all data of a tenant.
pub(crate) fn verify(db: &Connection, tenant: i64) -> Result<Verification, Fault> {
    let mut found = Findings::default();
    structure(db, &mut found);
    type Check = fn(&Connection, i64, &mut Findings) -> Result<(), Fault>;
    let checks: [(&str, Check); 7] = [
        ("sessions", check_sessions),
        ("turns", check_turns),
        ("snapshots", check_snapshots),
        ("records", check_records),
        ("trees", check_trees),
        ("stored files", check_stored_files),
        ("pending deletions", check_deletions),
    ];
    for (name, check) in checks {
        if let Err(fault) = check(db, tenant, &mut found) {
            found.fault(format!("the table of {name}"), fault);
        }
    }
    Ok(Verification {
        checked: found.checked,
        damaged: found.damaged,
    })
}

/// Runs the database's own check, if the driver has one.
fn structure(db: &Connection, found: &mut Findings) {
    match db.check_structure() {
        Ok(None) => return,
        Ok(Some(damages)) => {
            for message in damages {
                found.add("the database file", message);
            }
        }
        Err(error) => found.fault("the database file", error.into()),
    }
    found.count("files");
}

fn check_sessions(db: &Connection, tenant: i64, found: &mut Findings) -> Result<(), Fault> {
    let mut labels =
        db.prepare_cached("SELECT label FROM sessions WHERE tenant = ?1 AND deleted IS NULL")?;
    let labels = labels.query_map([tenant], |row| row.get::<String>(0))?;
    for label in labels {
        let label = label?;
        found.count("sessions");
        if let Err(fault) = crate::sessions::get(db, tenant, &label) {
            found.fault(format!("session `{label}`"), fault);
        }
    }
    let mut moves = db.prepare_cached(
        "SELECT s.label FROM sessions s WHERE s.tenant = ?1 AND s.deleted IS NULL AND s.moves <> (
             SELECT count(*) FROM head_moves m WHERE m.session = s.key)",
    )?;
    for label in moves.query_map([tenant], |row| row.get::<String>(0))? {
        found.add(
            format!("session `{}`", label?),
            "moves of its head are missing",
        );
    }
    Ok(())
}

fn check_turns(db: &Connection, tenant: i64, found: &mut Findings) -> Result<(), Fault> {
    let mut keys = db.prepare_cached(
        "SELECT t.key, t.depth - coalesce(p.depth, 0)
             - CASE WHEN t.kind = 'normal' THEN 1 ELSE 0 END, t.deleted IS NOT NULL
         FROM turns t LEFT JOIN turns p ON p.key = t.parent WHERE t.tenant = ?1 ORDER BY t.key",
    )?;
    keys.for_each([tenant], |row| {
        found.count("turns");
        let key: i64 = row.get(0)?;
        if row.get::<i64>(1)? != 0 {
            found.add(
                format!("turn {key}"),
                "its number does not follow its parent's",
            );
        }
        // The hash of the next turn includes the id of a deleted one.
        if !row.get::<bool>(2)?
            && let Err(fault) = turns::whole(db, key)
        {
            found.fault(format!("turn {key}"), fault);
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    Ok(())
}

fn check_snapshots(db: &Connection, tenant: i64, found: &mut Findings) -> Result<(), Fault> {
    let mut blobs = db.prepare_cached("SELECT hash, bytes FROM blobs WHERE tenant = ?1")?;
    blobs.for_each([tenant], |row| {
        found.count("blobs");
        let hash = row.get::<Hash>(0)?.0;
        if ContentHash::of(row.get_ref(1)?.as_blob().unwrap_or_default()) != hash {
            found.add(
                format!("content `{hash}`"),
                "its bytes do not match its hash",
            );
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    let mut roots = db.prepare_cached(
        "SELECT s.hash, b.bytes FROM snapshots s
         LEFT JOIN blobs b ON b.tenant = s.tenant AND b.hash = s.root WHERE s.tenant = ?1",
    )?;
    roots.for_each([tenant], |row| {
        found.count("snapshots");
        let hash = row.get::<Hash>(0)?.0;
        if row.get_ref(1)?.as_blob().is_err() {
            found.add(format!("snapshot `{hash}`"), "its content is missing");
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    Ok(())
}

fn check_records(db: &Connection, tenant: i64, found: &mut Findings) -> Result<(), Fault> {
    let mut records = db.prepare_cached(
        "SELECT m.id, m.digest, b.body FROM memories m
         LEFT JOIN memory_bodies b ON b.record = m.key WHERE m.tenant = ?1",
    )?;
    records.for_each([tenant], |row| {
        found.count("records");
        let id: String = row.get(0)?;
        let digest = row.get_ref(1)?.as_blob().unwrap_or_default();
        match row.get_ref(2)?.as_str() {
            Ok(body) if is_intact(body, digest) => {}
            Ok(_) => found.add(
                format!("record `{id}`"),
                "its content does not match its hash",
            ),
            Err(_) => found.add(format!("record `{id}`"), "its content is missing"),
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    let mut tasks = db.prepare_cached("SELECT count(*) FROM tasks WHERE tenant = ?1")?;
    let tasks: i64 = tasks.query_row([tenant], |row| row.get(0))?;
    if tasks > 0 {
        found
            .checked
            .insert("tasks".to_owned(), tasks.unsigned_abs());
    }
    Ok(())
}

fn check_stored_files(db: &Connection, tenant: i64, found: &mut Findings) -> Result<(), Fault> {
    let mut files = db.prepare_cached("SELECT path, hash, bytes FROM files WHERE tenant = ?1")?;
    files.for_each([tenant], |row| {
        found.count("stored_files");
        let hash = row.get::<Hash>(1)?.0;
        if ContentHash::of(row.get_ref(2)?.as_blob().unwrap_or_default()) != hash {
            let path: String = row.get(0)?;
            found.add(
                format!("file `{path}`"),
                "its content does not match its hash",
            );
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })
}

/// Counts the deletions that have not ended. What they have left to delete is not
/// damaged.
fn check_deletions(db: &Connection, tenant: i64, found: &mut Findings) -> Result<(), Fault> {
    for _ in 0..pending::count(db, tenant)? {
        found.count("pending_deletions");
    }
    Ok(())
}

fn check_trees(db: &Connection, tenant: i64, found: &mut Findings) -> Result<(), Fault> {
    let mut trees = db.prepare_cached(
        "SELECT t.id, t.nodes - (SELECT count(*) FROM nodes n WHERE n.tree = t.key),
             t.edges - (SELECT count(*) FROM edges e WHERE e.tree = t.key)
         FROM trees t WHERE t.tenant = ?1 AND t.deleted IS NULL",
    )?;
    trees.for_each([tenant], |row| {
        found.count("trees");
        let what = format!("tree `{}`", row.get::<String>(0)?);
        for (at, name) in [(1, "nodes"), (2, "edges")] {
            match row.get::<i64>(at)? {
                0 => {}
                lost if lost > 0 => found.add(&what, format!("{lost} {name} are missing")),
                more => found.add(&what, format!("it has {} unknown {name}", -more)),
            }
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    let mut nodes = db.prepare_cached(
        "SELECT n.id, n.author, n.created_at, c.content, c.sum, n.bytes FROM nodes n
         LEFT JOIN node_contents c ON c.node = n.key WHERE n.tenant = ?1",
    )?;
    nodes.for_each([tenant], |row| {
        found.count("nodes");
        let id: String = row.get(0)?;
        let what = format!("node `{id}`");
        let Ok(content) = row.get_ref(3)?.as_str() else {
            found.add(what, "its content is missing");
            return Ok(ControlFlow::Continue(()));
        };
        let sum: Option<[u8; 16]> = row.get(4)?;
        let (author, at): (String, Time) = (row.get(1)?, row.get(2)?);
        if sum.is_some_and(|sum| sum != node_sum(&id, &author, at.0, content)) {
            found.add(what, "it does not match its hash");
        }
        Ok::<_, Fault>(ControlFlow::Continue(()))
    })?;
    Ok(())
}
