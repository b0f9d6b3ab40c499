//! Writes the rows of a copy into an empty tenant, in one transaction.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contexture_driver::{Connection, Error, Fault, SqlType, Statement, ToSql, Value};
use contexture_store::{ArchiveEntry, ArchiveSource, StoreError};
use serde_json::Value as Json;

use crate::message_key::{MESSAGES_OF_TURN, message_key};
use crate::tables::{CONTENT, Kind, REPLACED, Rows, Table};
use crate::unlisted;

/// The keys that the rows of a table get.
enum Keys {
    /// Consecutive keys: the first key and the count.
    Range(i64, u64),
    List(Vec<i64>),
}

impl Keys {
    fn get(&self, number: u64) -> Option<i64> {
        let at = number.checked_sub(1)?;
        match self {
            Keys::Range(first, count) if at < *count => first.checked_add(i64::try_from(at).ok()?),
            Keys::Range(..) => None,
            Keys::List(keys) => keys.get(usize::try_from(at).ok()?).copied(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Keys::Range(_, count) => *count,
            Keys::List(keys) => keys.len() as u64,
        }
    }
}

/// Returns true if the tenant has no content.
pub fn is_blank(db: &Connection, tenant: i64) -> Result<bool, Fault> {
    let parts: Vec<String> = (CONTENT.iter())
        .map(|table| format!("EXISTS (SELECT 1 FROM {table} WHERE tenant = ?1)"))
        .collect();
    let sql = format!("SELECT CASE WHEN {} THEN 1 ELSE 0 END", parts.join(" OR "));
    let has_some: bool = db.query_row(&sql, [tenant], |row| row.get(0))?;
    Ok(!has_some)
}

/// Writes the rows of a copy into a tenant without content. The caller verifies them.
/// An error contains `name`, the name of the tenant.
pub fn import(
    db: &Connection,
    tenant: i64,
    name: &str,
    mut next: ArchiveSource,
) -> Result<(), Fault> {
    if !is_blank(db, tenant)? {
        let name = match name {
            "" => "default",
            name => name,
        };
        return Err(Fault::exists("tenant", name));
    }
    db.lift_time_limit()?;
    let is_counted_here = db.suspend_counts()?;
    for table in REPLACED {
        db.execute(&format!("DELETE FROM {table} WHERE tenant = ?1"), [tenant])?;
    }
    db.defer_references()?;
    let keys = match next()? {
        Some(ArchiveEntry::Keys(counts)) => take_keys(db, &counts)?,
        _ => return Err(invalid("keys", "the copy does not begin with its keys")),
    };
    let mut place = 0;
    let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
    let mut entry = next()?;
    while let Some(current) = entry {
        let ArchiveEntry::Table { name, columns } = current else {
            return Err(invalid("", "a row belongs to no table"));
        };
        let unknown = || {
            let message = "is a table that this version does not know; upgrade Contexture";
            invalid(&name, message)
        };
        let (at, table) = Table::named(&name).ok_or_else(unknown)?;
        if at < place {
            return Err(invalid(&name, "the table is not in its place"));
        }
        place = at + 1;
        let mut insert = TableImport::new(db, tenant, table, &keys, &columns)?;
        loop {
            match next()? {
                Some(ArchiveEntry::Row(cells)) => insert.row(&cells)?,
                other => {
                    entry = other;
                    break;
                }
            }
        }
        rows.insert(table.name, insert.rows);
        if table.name == "memories" && !is_counted_here {
            // The insert triggers have listed all texts as texts without a
            // vector.
            let delete = "DELETE FROM memory_pending WHERE tenant = ?1";
            db.execute(delete, [tenant])?;
        }
    }
    for (table, keys) in &keys {
        let found = rows.get(table).copied().unwrap_or_default();
        if found != keys.len() {
            let message = format!("has {found} rows instead of {}", keys.len());
            return Err(invalid(table, &message));
        }
    }
    if is_counted_here {
        count(db, tenant)?;
    }
    Ok(())
}

/// Writes the counts that triggers otherwise keep up to date.
fn count(db: &Connection, tenant: i64) -> Result<(), Fault> {
    for sql in [
        "INSERT INTO memory_kinds (tenant, kind, live)
         SELECT tenant, kind, count(*) FROM memories WHERE tenant = ?1 AND archived = 0
         GROUP BY tenant, kind",
        "INSERT INTO memory_progress (tenant, current, pending)
         SELECT ?1, (SELECT count(*) FROM memory_later WHERE tenant = ?1),
             (SELECT count(*) FROM memory_pending WHERE tenant = ?1)
         WHERE EXISTS (SELECT 1 FROM memories WHERE tenant = ?1)",
    ] {
        db.execute(sql, [tenant])?;
    }
    Ok(())
}

fn invalid(field: &str, message: &str) -> Fault {
    Fault::Refused(StoreError::invalid(field, message))
}

/// Allocates keys for the rows that other rows refer to.
fn take_keys(
    db: &Connection,
    counts: &BTreeMap<String, u64>,
) -> Result<BTreeMap<&'static str, Keys>, Fault> {
    let mut keys = BTreeMap::new();
    for (name, count) in counts {
        let table = Table::named(name).filter(|(_, table)| table.is_keyed());
        let Some((_, table)) = table else {
            let message = "is a table that this version does not know; upgrade Contexture";
            return Err(invalid(name, message));
        };
        let Ok(wanted) = u32::try_from(*count).map(i64::from) else {
            return Err(invalid(name, "has too many rows"));
        };
        let taken = match db.take_keys(table.name, wanted)? {
            Some(taken) => Keys::List(taken),
            None => {
                let sql = match table.name {
                    "memories" => "SELECT last FROM memory_keys".to_owned(),
                    name => format!("SELECT coalesce(max(key), 0) FROM {name}"),
                };
                let last: i64 = db.query_row(&sql, (), |row| row.get(0))?;
                if table.name == "memories" {
                    db.execute("UPDATE memory_keys SET last = ?1", [last + wanted])?;
                }
                Keys::Range(last + 1, *count)
            }
        };
        keys.insert(table.name, taken);
    }
    Ok(keys)
}

struct TableImport<'i> {
    db: &'i Connection,
    tenant: i64,
    table: &'static Table,
    keys: &'i BTreeMap<&'static str, Keys>,
    insert: Option<Statement<'i>>,
    /// The columns of the statement, and the index of each value in a row.
    columns: Vec<(&'static str, Kind, Option<usize>)>,
    width: usize,
    /// The indexes of the kind and the id in a row. A tag is computed from
    /// both.
    tag_of: Option<(usize, usize)>,
    rows: u64,
}

impl<'i> TableImport<'i> {
    fn new(
        db: &'i Connection,
        tenant: i64,
        table: &'static Table,
        keys: &'i BTreeMap<&'static str, Keys>,
        columns: &[String],
    ) -> Result<Self, Fault> {
        let at = |name: &str| columns.iter().position(|column| column == name);
        for column in columns {
            if !table.copied().any(|(name, _)| name == column) {
                let field = format!("{}.{column}", table.name);
                let message = "is a column that this version does not know; upgrade Contexture";
                return Err(invalid(&field, message));
            }
        }
        // A column that an older version did not have gets the default of the
        // database.
        let used: Vec<_> = (table.columns.iter())
            .map(|(name, kind)| (*name, *kind, at(name)))
            .filter(|(_, kind, at)| !kind.is_copied() || at.is_some())
            .collect();
        let tag_of = at("kind").zip(at("id"));
        let insert = match table.rows {
            Rows::Unlisted => None,
            _ => Some(db.prepare_cached(&statement(db, table, &used))?),
        };
        Ok(Self {
            db,
            tenant,
            table,
            keys,
            insert,
            columns: used
                .into_iter()
                .filter(|(_, kind, _)| *kind != Kind::Random)
                .collect(),
            width: columns.len(),
            tag_of,
            rows: 0,
        })
    }

    fn row(&mut self, cells: &[Json]) -> Result<(), Fault> {
        self.rows += 1;
        if cells.len() != self.width {
            let message = format!("has {} values instead of {}", cells.len(), self.width);
            return Err(self.invalid("", &message));
        }
        if self.insert.is_none() {
            return unlisted::mark_all(self.db, self.tenant);
        }
        let mut values = Vec::with_capacity(self.columns.len());
        for (column, kind, at) in &self.columns {
            let cell = at.map_or(&Json::Null, |at| &cells[at]);
            values.push(Cell(self.value(column, *kind, cell, cells)?));
        }
        let values: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
        match &mut self.insert {
            Some(insert) => Ok(insert.execute(&values[..])?),
            None => Ok(()),
        }
    }

    fn value<'c>(
        &self,
        column: &str,
        kind: Kind,
        cell: &'c Json,
        cells: &'c [Json],
    ) -> Result<Value<'c>, Fault> {
        let not = |wanted: &str| self.invalid(column, &format!("is not {wanted}"));
        let is_missing = cell.is_null();
        Ok(match kind {
            Kind::Tenant => Value::Integer(self.tenant),
            Kind::Key => Value::Integer(self.key(column, self.table.name, self.rows)?),
            Kind::Tag => {
                let (kind, id) = self.tag_of.ok_or_else(|| not("known"))?;
                let kind = cells[kind].as_i64().ok_or_else(|| not("known"))?;
                let id = cells[id].as_str().ok_or_else(|| not("known"))?;
                Value::Integer(contexture_sql_memory::prepare::tag(self.tenant, kind, id))
            }
            Kind::Random => Value::Null(SqlType::Integer),
            Kind::Text if is_missing => Value::Null(SqlType::Text),
            Kind::Blob | Kind::Records if is_missing => Value::Null(SqlType::Blob),
            _ if is_missing => Value::Null(SqlType::Integer),
            Kind::Integer => Value::Integer(cell.as_i64().ok_or_else(|| not("a whole number"))?),
            Kind::Text => Value::Text(cell.as_str().ok_or_else(|| not("text"))?.into()),
            Kind::Blob => {
                let text = cell.as_str().ok_or_else(|| not("bytes in Base64"))?;
                let bytes = STANDARD.decode(text);
                Value::Blob(bytes.map_err(|_| not("bytes in Base64"))?.into())
            }
            Kind::Reference(table) => {
                let number = cell.as_u64().ok_or_else(|| not("the number of a row"))?;
                Value::Integer(self.key(column, table, number)?)
            }
            Kind::Records => {
                let numbers = cell.as_array().ok_or_else(|| not("a list of rows"))?;
                let mut keys = Vec::with_capacity(numbers.len());
                for number in numbers {
                    let number = number.as_u64().ok_or_else(|| not("a list of rows"))?;
                    keys.push(self.key(column, "memories", number)?);
                }
                match contexture_sql_memory::pack(&keys) {
                    Some(bytes) => Value::Blob(bytes.into()),
                    None => Value::Null(SqlType::Blob),
                }
            }
            Kind::Message => {
                let parts = cell.as_array().map(Vec::as_slice);
                let Some([turn, seq]) = parts else {
                    return Err(not("a turn and a number"));
                };
                let seq = seq.as_u64().and_then(|seq| usize::try_from(seq).ok());
                let (Some(turn), Some(seq)) = (turn.as_u64(), seq) else {
                    return Err(not("a turn and a number"));
                };
                if seq >= MESSAGES_OF_TURN {
                    return Err(not("the number of a message"));
                }
                Value::Integer(message_key(self.key(column, "turns", turn)?, seq))
            }
        })
    }

    fn key(&self, column: &str, table: &str, number: u64) -> Result<i64, Fault> {
        let found = self.keys.get(table).and_then(|keys| keys.get(number));
        found.ok_or_else(|| {
            let message = format!("refers to row {number} of {table}, which is missing");
            self.invalid(column, &message)
        })
    }

    fn invalid(&self, column: &str, message: &str) -> Fault {
        let row = format!("{}[{}]", self.table.name, self.rows);
        let field = match column {
            "" => row,
            column => format!("{row}.{column}"),
        };
        invalid(&field, message)
    }
}

/// Returns the statement that inserts a row.
fn statement(
    db: &Connection,
    table: &Table,
    columns: &[(&'static str, Kind, Option<usize>)],
) -> String {
    let names: Vec<String> = columns
        .iter()
        .map(|(name, _, _)| format!("\"{name}\""))
        .collect();
    let mut at = 0;
    let places: Vec<String> = columns
        .iter()
        .map(|(_, kind, _)| match kind {
            Kind::Random => db.random().to_owned(),
            _ => {
                at += 1;
                format!("?{at}")
            }
        })
        .collect();
    format!(
        "INSERT INTO {} ({}) VALUES ({})",
        table.name,
        names.join(", "),
        places.join(", ")
    )
}

struct Cell<'c>(Value<'c>);

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> Result<Value<'_>, Error> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::TABLES;

    #[test]
    fn every_reference_is_to_a_table_with_keys() {
        for table in TABLES {
            for (column, kind) in table.columns {
                if let Kind::Reference(to) = kind {
                    let (_, to) = Table::named(to).unwrap();
                    assert!(to.is_keyed(), "{}.{column}", table.name);
                }
            }
        }
    }

    #[test]
    fn numbers_begin_at_one() {
        let keys = Keys::Range(10, 2);
        assert_eq!(
            [0, 1, 2, 3].map(|at| keys.get(at)),
            [None, Some(10), Some(11), None]
        );
        let keys = Keys::List(vec![7, 9]);
        assert_eq!(
            [0, 1, 2, 3].map(|at| keys.get(at)),
            [None, Some(7), Some(9), None]
        );
    }
}
