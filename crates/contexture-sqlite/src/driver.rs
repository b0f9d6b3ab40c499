//! SQLite as a driver of `contexture-sql`.

use std::borrow::Cow;
use std::ops::{ControlFlow, Deref};

use contexture_sql::{Columns, Driver, Error, Prepared, Row, Value, ValueRef};
use rusqlite::CachedStatement;
use rusqlite::types::{ToSqlOutput, ValueRef as SqliteValue};

/// A connection to a file.
pub(crate) struct Database(pub(crate) rusqlite::Connection);

impl Deref for Database {
    type Target = rusqlite::Connection;

    fn deref(&self) -> &rusqlite::Connection {
        &self.0
    }
}

fn failed(error: rusqlite::Error) -> Error {
    Error::Driver(Box::new(error))
}

impl Driver for Database {
    fn prepare_statement<'d>(&'d self, sql: &str) -> Result<Box<dyn Prepared + 'd>, Error> {
        let statement = self.0.prepare_cached(sql).map_err(failed)?;
        Ok(Box::new(SqliteStatement {
            connection: &self.0,
            statement,
        }))
    }

    fn defer_references(&self) -> Result<(), Error> {
        let pragma = "PRAGMA defer_foreign_keys = ON";
        self.0.execute_batch(pragma).map_err(failed)
    }

    fn random(&self) -> &'static str {
        "random()"
    }

    fn has_all_memories(&self) -> Result<bool, Error> {
        // SQLite does not detect a page with a wrong number of rows, an index
        // row in the wrong position, or an index row with another record's key.
        // Rows are therefore counted, and their keys added, in the order of a
        // list and in another tree of pages.
        let sql = "SELECT (i.rows, i.keys) = (m.rows + c.rows, m.keys + c.keys) FROM
            (SELECT count(*) AS rows, coalesce(sum(key), 0) AS keys
                FROM memories INDEXED BY memories_by_id) i,
            (SELECT count(*) AS rows, coalesce(sum(m.key), 0) AS keys
                FROM tenants t CROSS JOIN memories m INDEXED BY changes_of_memory
                ON m.tenant = t.key AND m.seq > 0) m,
            (SELECT count(*) AS rows, coalesce(sum(c.key), 0) AS keys
                FROM tenants t CROSS JOIN memory_counts c INDEXED BY changes_of_counts
                ON c.tenant = t.key AND c.seq > 0) c";
        let mut select = self.0.prepare_cached(sql).map_err(failed)?;
        select.query_row([], |row| row.get(0)).map_err(failed)
    }

    fn check_structure(&self) -> Result<Option<Vec<String>>, Error> {
        let mut damages = Vec::new();
        for sql in [
            "PRAGMA integrity_check(100)",
            "SELECT 'a row of ' || \"table\" || ' refers to a row of ' || parent || ' that is \
             missing' FROM pragma_foreign_key_check LIMIT 100",
        ] {
            let mut select = self.0.prepare(sql).map_err(failed)?;
            let lines = select.query_map([], |row| row.get(0)).map_err(failed)?;
            for line in lines {
                let line: String = line.map_err(failed)?;
                if line != "ok" {
                    damages.push(line);
                }
            }
        }
        Ok(Some(damages))
    }
}

struct SqliteStatement<'d> {
    connection: &'d rusqlite::Connection,
    statement: CachedStatement<'d>,
}

/// A value that is bound to a statement.
struct Bound<'v>(&'v Value<'v>);

impl rusqlite::ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null(_) => SqliteValue::Null,
            Value::Integer(number) => SqliteValue::Integer(*number),
            Value::Real(number) => SqliteValue::Real(*number),
            Value::Text(text) => SqliteValue::Text(match text {
                Cow::Borrowed(text) => text.as_bytes(),
                Cow::Owned(text) => text.as_bytes(),
            }),
            Value::Blob(bytes) => SqliteValue::Blob(bytes),
        }))
    }
}

impl SqliteStatement<'_> {
    fn bind(&mut self, values: &[Value<'_>]) -> rusqlite::Result<()> {
        for (at, value) in values.iter().enumerate() {
            self.statement.raw_bind_parameter(at + 1, Bound(value))?;
        }
        Ok(())
    }
}

impl Prepared for SqliteStatement<'_> {
    fn query(
        &mut self,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        self.bind(values).map_err(failed)?;
        let mut rows = self.statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            if each(&Row::new(&SqliteRow(row)))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn execute(&mut self, values: &[Value<'_>]) -> Result<usize, Error> {
        self.bind(values).map_err(failed)?;
        self.statement.raw_execute().map_err(failed)
    }

    fn insert(&mut self, values: &[Value<'_>]) -> Result<i64, Error> {
        self.execute(values)?;
        Ok(self.connection.last_insert_rowid())
    }

    fn insert_new(&mut self, values: &[Value<'_>]) -> Result<Option<i64>, Error> {
        let rows = self.execute(values)?;
        Ok((rows > 0).then(|| self.connection.last_insert_rowid()))
    }
}

struct SqliteRow<'r>(&'r rusqlite::Row<'r>);

impl Columns for SqliteRow<'_> {
    fn column(&self, column: usize) -> Result<ValueRef<'_>, Error> {
        Ok(match self.0.get_ref(column).map_err(failed)? {
            SqliteValue::Null => ValueRef::Null,
            SqliteValue::Integer(number) => ValueRef::Integer(number),
            SqliteValue::Real(number) => ValueRef::Real(number),
            SqliteValue::Text(text) => ValueRef::Text(text),
            SqliteValue::Blob(bytes) => ValueRef::Blob(bytes),
        })
    }

    fn count(&self) -> usize {
        self.0.as_ref().column_count()
    }
}
