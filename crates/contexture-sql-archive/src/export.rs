//! Reads all rows of a tenant, in an order that does not depend on the database.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contexture_driver::{Connection, Error, Fault, Row, ToSql, Value, ValueRef};
use contexture_store::{ArchiveEntry, ArchiveSink};
use serde_json::Value as Json;

use crate::message_key::{message_key, parts_of_message_key};
use crate::tables::{Kind, Rows, TABLES, Table};
use crate::unlisted;

/// The number of rows, or of parent rows, that one statement reads.
const AT_ONCE: usize = 64;

/// The same number for tables whose rows can be large.
const LARGE_AT_ONCE: usize = 8;

/// The keys of the rows that others refer to, sorted, by table.
type Keys = BTreeMap<&'static str, Vec<i64>>;

/// Calls `put` with every row of a tenant.
pub fn export(db: &Connection, tenant: i64, put: ArchiveSink<'_>) -> Result<(), Fault> {
    db.lift_time_limit()?;
    let keys = keys(db, tenant)?;
    let counts = keys.iter().filter(|(_, keys)| !keys.is_empty());
    let counts = counts.map(|(name, keys)| ((*name).to_owned(), keys.len() as u64));
    put(ArchiveEntry::Keys(counts.collect()))?;
    for table in TABLES {
        let mut export = TableExport {
            db,
            tenant,
            table,
            keys: &keys,
            put: &mut *put,
            begun: false,
        };
        export.run()?;
    }
    Ok(())
}

fn keys(db: &Connection, tenant: i64) -> Result<Keys, Fault> {
    let mut keys = Keys::new();
    for table in TABLES {
        let name = table.name;
        let mut found: Vec<i64> = Vec::new();
        let mut add = |row: &Row<'_>| {
            found.push(row.get(0)?);
            Ok::<_, Error>(ControlFlow::Continue(()))
        };
        match table.rows {
            Rows::Keyed => {
                let sql = format!("SELECT key FROM {name} WHERE tenant = ?1");
                db.prepare_cached(&sql)?.for_each([tenant], &mut add)?;
            }
            Rows::KeyedBelow { column, table } => {
                let places = places(AT_ONCE);
                let sql = format!("SELECT key FROM {name} WHERE {column} IN ({places})");
                for some in keys
                    .get(table)
                    .into_iter()
                    .flat_map(|it| it.chunks(AT_ONCE))
                {
                    let some = filled(some, AT_ONCE);
                    let some: Vec<&dyn ToSql> = some.iter().map(|key| key as &dyn ToSql).collect();
                    db.prepare_cached(&sql)?.for_each(&some[..], &mut add)?;
                }
            }
            _ => continue,
        }
        found.sort_unstable();
        keys.insert(name, found);
    }
    Ok(keys)
}

/// Returns `?1, ?2, …`.
fn places(count: usize) -> String {
    let places: Vec<String> = (1..=count).map(|at| format!("?{at}")).collect();
    places.join(", ")
}

/// Returns `count` keys: the given keys, padded with the last one.
fn filled(some: &[i64], count: usize) -> Vec<i64> {
    let last = some.last().copied().unwrap_or_default();
    let more = std::iter::repeat_n(last, count.saturating_sub(some.len()));
    some.iter().copied().chain(more).collect()
}

struct TableExport<'e, 'p> {
    db: &'e Connection,
    tenant: i64,
    table: &'static Table,
    keys: &'e Keys,
    put: &'p mut (dyn FnMut(ArchiveEntry) -> Result<(), contexture_store::StoreError> + 'p),
    begun: bool,
}

impl TableExport<'_, '_> {
    fn run(&mut self) -> Result<(), Fault> {
        let at_once = match self.table.is_large {
            true => LARGE_AT_ONCE,
            false => AT_ONCE,
        };
        match self.table.rows {
            Rows::Keyed | Rows::KeyedBelow { .. } => {
                self.listed("key", self.table.name, &[], at_once)
            }
            Rows::Below {
                column,
                table,
                order,
            } => self.listed(column, table, order, at_once),
            Rows::OfMessages(column) => self.of_messages(column, at_once.min(16)),
            Rows::OfTenant(order) => self.of_tenant(order, at_once),
            Rows::Unlisted => match unlisted::next(self.db, self.tenant)? {
                Some(_) => self.put_row(Vec::new()),
                None => Ok(()),
            },
        }
    }

    /// Reads the rows that refer to a key of `table` in a column.
    fn listed(
        &mut self,
        column: &str,
        table: &str,
        order: &[&str],
        at_once: usize,
    ) -> Result<(), Fault> {
        let keys = self.keys;
        let Some(keys) = keys.get(table) else {
            return Ok(());
        };
        let mut sql = format!(
            "SELECT {} FROM {} WHERE {column} IN ({}) ORDER BY {column}",
            self.columns(),
            self.table.name,
            places(at_once)
        );
        for column in order {
            let _ = write!(sql, ", \"{column}\"");
        }
        for some in keys.chunks(at_once) {
            let some = filled(some, at_once);
            let some: Vec<&dyn ToSql> = some.iter().map(|key| key as &dyn ToSql).collect();
            self.rows(&sql, &some)?;
        }
        Ok(())
    }

    fn of_messages(&mut self, column: &str, at_once: usize) -> Result<(), Fault> {
        let keys = self.keys;
        let Some(turns) = keys.get("turns") else {
            return Ok(());
        };
        let ranges: Vec<String> = (0..at_once)
            .map(|at| format!("{column} BETWEEN ?{} AND ?{}", 2 * at + 1, 2 * at + 2))
            .collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {} ORDER BY {column}",
            self.columns(),
            self.table.name,
            ranges.join(" OR ")
        );
        for some in turns.chunks(at_once) {
            let some = filled(some, at_once);
            let ends: Vec<i64> = some
                .iter()
                .flat_map(|turn| [message_key(*turn, 0), message_key(*turn + 1, 0) - 1])
                .collect();
            let ends: Vec<&dyn ToSql> = ends.iter().map(|end| end as &dyn ToSql).collect();
            self.rows(&sql, &ends)?;
        }
        Ok(())
    }

    /// Reads the rows with this tenant, page by page.
    fn of_tenant(&mut self, order: &[&str], at_once: usize) -> Result<(), Fault> {
        let order = order.join(", ");
        let paged = !order.contains(',') && order != "tenant";
        let columns = self.columns();
        let name = self.table.name;
        if !paged {
            let sql = format!("SELECT {columns} FROM {name} WHERE tenant = ?1 ORDER BY {order}");
            let tenant = self.tenant;
            return self.rows(&sql, &[&tenant]);
        }
        let at = self.table.copied().position(|(column, _)| column == order);
        let Some(at) = at else {
            return Err(Fault::Sql(Error::Content(format!("{name} has no {order}"))));
        };
        let (tenant, limit) = (self.tenant, at_once as i64);
        let first =
            format!("SELECT {columns} FROM {name} WHERE tenant = ?1 ORDER BY {order} LIMIT ?2");
        let next = format!(
            "SELECT {columns} FROM {name} WHERE tenant = ?1 AND {order} > ?3
             ORDER BY {order} LIMIT ?2"
        );
        let mut last: Option<Owned> = None;
        loop {
            let mut seen = 0;
            let mut latest = None;
            let mut note = |row: &Row<'_>| {
                seen += 1;
                latest = Some(Owned::of(row.get_ref(at)?)?);
                Ok(())
            };
            match &last {
                None => self.rows_noted(&first, &[&tenant, &limit], &mut note)?,
                Some(last) => self.rows_noted(&next, &[&tenant, &limit, last], &mut note)?,
            }
            if seen < at_once {
                return Ok(());
            }
            last = latest;
        }
    }

    fn columns(&self) -> String {
        let columns: Vec<String> = (self.table.copied())
            .map(|(column, _)| format!("\"{column}\""))
            .collect();
        match columns.is_empty() {
            true => "1".to_owned(),
            false => columns.join(", "),
        }
    }

    fn rows(&mut self, sql: &str, values: &[&dyn ToSql]) -> Result<(), Fault> {
        self.rows_noted(sql, values, &mut |_| Ok(()))
    }

    fn rows_noted(
        &mut self,
        sql: &str,
        values: &[&dyn ToSql],
        note: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Fault> {
        let mut select = self.db.prepare_cached(sql)?;
        select.for_each(values, |row| {
            note(row)?;
            let mut cells = Vec::with_capacity(self.table.columns.len());
            for (at, (column, kind)) in self.table.copied().enumerate() {
                cells.push(self.cell(column, kind, row.get_ref(at)?)?);
            }
            self.put_row(cells)?;
            Ok::<_, Fault>(ControlFlow::Continue(()))
        })
    }

    fn put_row(&mut self, cells: Vec<Json>) -> Result<(), Fault> {
        if !self.begun {
            self.begun = true;
            (self.put)(ArchiveEntry::Table {
                name: self.table.name.to_owned(),
                columns: (self.table.copied())
                    .map(|(column, _)| column.to_owned())
                    .collect(),
            })?;
        }
        Ok((self.put)(ArchiveEntry::Row(cells))?)
    }

    fn cell(&self, column: &str, kind: Kind, value: ValueRef<'_>) -> Result<Json, Fault> {
        if matches!(value, ValueRef::Null) {
            return Ok(Json::Null);
        }
        Ok(match kind {
            Kind::Integer => value.as_i64()?.into(),
            Kind::Text => value.as_str()?.into(),
            Kind::Blob => STANDARD.encode(value.as_blob()?).into(),
            Kind::Reference(table) => self.number(column, table, value.as_i64()?)?.into(),
            Kind::Records => {
                let records = contexture_sql_memory::unpack(Some(value.as_blob()?));
                let numbers = records
                    .iter()
                    .map(|key| self.number(column, "memories", *key));
                numbers.collect::<Result<Vec<u64>, Fault>>()?.into()
            }
            Kind::Message => {
                let key = value.as_i64()?;
                let (turn, seq) = parts_of_message_key(key);
                let turn = self.number(column, "turns", turn)?;
                Json::from(vec![Json::from(turn), Json::from(seq)])
            }
            Kind::Key | Kind::Tenant | Kind::Tag | Kind::Random => Json::Null,
        })
    }

    /// Returns the number of the row with that key.
    fn number(&self, column: &str, table: &str, key: i64) -> Result<u64, Fault> {
        let found = self.keys.get(table).map(|keys| keys.binary_search(&key));
        match found {
            Some(Ok(at)) => Ok(at as u64 + 1),
            _ => Err(Fault::damaged(
                format!("the table {}", self.table.name),
                format!("its column {column} refers to row {key} of {table}, which is missing"),
            )),
        }
    }
}

/// A value of a sort column, saved for the next page.
enum Owned {
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Owned {
    fn of(value: ValueRef<'_>) -> Result<Self, Error> {
        Ok(match value {
            ValueRef::Integer(number) => Owned::Integer(number),
            ValueRef::Blob(bytes) => Owned::Blob(bytes.to_vec()),
            other => Owned::Text(other.as_str()?.to_owned()),
        })
    }
}

impl ToSql for Owned {
    fn to_sql(&self) -> Result<Value<'_>, Error> {
        Ok(match self {
            Owned::Integer(number) => Value::Integer(*number),
            Owned::Text(text) => Value::Text(text.as_str().into()),
            Owned::Blob(bytes) => Value::Blob(bytes.as_slice().into()),
        })
    }
}
