//! The trait of database drivers, and the connection that the store logic uses.
//!
//! A driver runs SQL with values and returns rows. Everything else (tables,
//! order, the meaning of rows) is in this crate, once for all databases. The
//! SQL uses only what SQLite and PostgreSQL share, with parameters as `?1`.
//! Where they differ, [`Driver`] has a method.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use crate::error::Error;
use crate::together::{Question, Rows};
use crate::value::{FromSql, Params, Value, ValueRef};

/// The result of a database operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A connection to a database, inside a transaction.
pub type Connection = dyn Driver;

/// A connection to a database.
pub trait Driver {
    /// Prepares a statement. Drivers may cache it by its text.
    fn prepare_statement<'d>(&'d self, sql: &str) -> Result<Box<dyn Prepared + 'd>>;

    /// Defers the check of references between rows to the end of the
    /// transaction.
    fn defer_references(&self) -> Result<()>;

    /// Returns an SQL expression for a random number of 64 bits.
    fn random(&self) -> &'static str;

    /// Returns true when each statement costs a round trip to another process.
    /// Callers then read rows ahead.
    fn is_remote(&self) -> bool {
        false
    }

    /// Runs independent read-only statements and returns the rows of each. A
    /// remote driver sends them together.
    fn query_together(&self, questions: &[Question]) -> Result<Vec<Rows>> {
        let mut all = Vec::with_capacity(questions.len());
        for question in questions {
            let mut rows = Rows::default();
            self.prepare_statement(&question.sql)?
                .query(&question.values, &mut |row| {
                    rows.0.push(row.to_values()?);
                    Ok(ControlFlow::Continue(()))
                })?;
            all.push(rows);
        }
        Ok(all)
    }

    /// Checks that each of these read-only statements returns a row. Otherwise
    /// the transaction fails. A remote driver need not wait: a later call of the
    /// transaction then fails.
    fn require_rows(&self, questions: &[Question]) -> Result<()> {
        let found = self.query_together(questions)?;
        match found.iter().all(|rows| !rows.0.is_empty()) {
            true => Ok(()),
            false => Err(Error::NoRows),
        }
    }

    /// Announces that rows will probably be inserted into the table. A remote
    /// driver then allocates their keys together with the next statement.
    fn expect_insert(&self, _table: &str, _count: usize) {}

    /// Announces that many rows were inserted into the tables. A database that
    /// plans statements by statistics updates the statistics. Otherwise it
    /// would scan whole tables until its own update.
    fn inserted_many(&self, _tables: &[&str]) -> Result<()> {
        Ok(())
    }

    /// Allocates a range of keys for records and returns the first key and the
    /// count. Returns `None` when the table `memory_keys` has the next key.
    fn take_record_keys(&self) -> Result<Option<(i64, i64)>> {
        Ok(None)
    }

    /// Returns false if the indexes of the memory do not have the same rows. A
    /// list of all records would then miss some or repeat some. A database that
    /// verifies its pages returns true without a check.
    fn has_all_memories(&self) -> Result<bool> {
        Ok(true)
    }

    /// Removes the time limit of the statements of this transaction.
    fn lift_time_limit(&self) -> Result<()> {
        Ok(())
    }

    /// Turns off the counting triggers in this transaction. Returns true when
    /// the caller must write the counts, and false when the triggers stay on.
    ///
    /// In PostgreSQL, each update of a count leaves a version of its row until
    /// the transaction ends. Finding the latest version takes one step per
    /// version.
    fn suspend_counts(&self) -> Result<bool> {
        Ok(false)
    }

    /// Allocates `count` keys for rows of a table, smallest first. Returns
    /// `None` when the next key of a table is its largest key plus one.
    fn take_keys(&self, table: &str, count: i64) -> Result<Option<Vec<i64>>> {
        let _ = (table, count);
        Ok(None)
    }

    /// Checks the files and indexes of the database, and returns the damage.
    /// Returns `None` when the driver has no such check.
    fn check_structure(&self) -> Result<Option<Vec<String>>> {
        Ok(None)
    }
}

/// A statement that is ready to run.
pub trait Prepared {
    /// Runs the statement and calls `each` with every row, until it breaks.
    fn query(
        &mut self,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()>;

    /// Runs the statement and returns the number of rows that it changed.
    fn execute(&mut self, values: &[Value<'_>]) -> Result<usize>;

    /// Runs a statement whose result is not needed now. A driver need not wait
    /// for the database. If the statement fails, a later call of the
    /// transaction fails.
    fn run(&mut self, values: &[Value<'_>]) -> Result<()> {
        self.execute(values).map(drop)
    }

    /// Runs the statement once for each row of values, like [`run`](Self::run).
    /// A remote driver can combine the runs into one statement. Each run must
    /// change different rows.
    fn run_all(&mut self, rows: &[Vec<Value<'_>>]) -> Result<()> {
        rows.iter().try_for_each(|row| self.run(row))
    }

    /// Runs a statement that inserts one row, and returns the row's `key`. Like
    /// [`run`](Self::run), a driver need not wait. The statement has the form
    /// `INSERT INTO table (columns) VALUES (values)`.
    fn insert(&mut self, values: &[Value<'_>]) -> Result<i64>;

    /// Runs a statement that inserts one row unless a row like it exists. Returns the
    /// `key` of a new row. The statement has the form `INSERT INTO table (columns)
    /// VALUES (values) ON CONFLICT DO NOTHING`.
    fn insert_new(&mut self, values: &[Value<'_>]) -> Result<Option<i64>>;

    /// Inserts a row for each row of values, like [`insert`](Self::insert), and
    /// returns their keys.
    fn insert_all(&mut self, rows: Vec<Vec<Value<'_>>>) -> Result<Vec<i64>> {
        rows.iter().map(|row| self.insert(row)).collect()
    }
}

/// The columns of a row.
pub trait Columns {
    /// Returns a column without a copy.
    fn column(&self, column: usize) -> Result<ValueRef<'_>>;

    /// Returns the number of columns.
    fn count(&self) -> usize;
}

/// A row of a result.
pub struct Row<'r> {
    columns: &'r dyn Columns,
}

impl<'r> Row<'r> {
    /// Returns a row with those columns.
    pub fn new(columns: &'r dyn Columns) -> Self {
        Self { columns }
    }

    /// Returns a column without a copy.
    pub fn get_ref(&self, column: usize) -> Result<ValueRef<'_>> {
        self.columns.column(column)
    }

    /// Returns copies of all columns.
    pub fn to_values(&self) -> Result<Vec<Value<'static>>> {
        let columns = 0..self.columns.count();
        columns
            .map(|column| self.columns.column(column)?.to_value())
            .collect()
    }

    /// Reads a column.
    pub fn get<T: FromSql>(&self, column: usize) -> Result<T> {
        let value = self.columns.column(column)?;
        T::from_sql(value).map_err(|message| Error::Column { column, message })
    }
}

type Values<'p> = SmallVec<[Value<'p>; 16]>;

/// Rows of values for one statement.
#[derive(Default)]
pub struct Batch(Vec<Vec<Value<'static>>>);

impl Batch {
    /// Adds a row.
    pub fn add(&mut self, params: impl Params) -> Result<()> {
        let mut row = Vec::new();
        params.values(&mut |value| row.push(value.into_owned_value()))?;
        self.0.push(row);
        Ok(())
    }
}

/// Rows that one statement writes. A local driver writes a row when it is added,
/// without a copy of its values. A remote driver collects the rows and sends
/// them together. Each row must change different rows of the database.
pub struct Writes<'d> {
    db: &'d Connection,
    sql: &'static str,
    // `None` for a remote driver.
    statement: Option<Statement<'d>>,
    collected: Batch,
}

impl Writes<'_> {
    /// Writes a row now, or collects it.
    pub fn add(&mut self, params: impl Params) -> Result<()> {
        match &mut self.statement {
            Some(statement) => statement.execute(params),
            None => self.collected.add(params),
        }
    }

    /// Writes the collected rows.
    pub fn flush(&mut self) -> Result<()> {
        match self.collected.0.is_empty() {
            true => Ok(()),
            false => {
                let rows = std::mem::take(&mut self.collected);
                self.db.prepare_cached(self.sql)?.execute_all(rows)
            }
        }
    }
}

/// A statement of a [`Connection`].
pub struct Statement<'d> {
    prepared: Box<dyn Prepared + 'd>,
}

impl dyn Driver {
    /// Prepares a statement.
    pub fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        let prepared = self.prepare_statement(sql)?;
        Ok(Statement { prepared })
    }

    /// Returns the rows that a statement writes, none so far.
    pub fn writes(&self, sql: &'static str) -> Result<Writes<'_>> {
        let statement = match self.is_remote() {
            true => None,
            false => Some(self.prepare_cached(sql)?),
        };
        Ok(Writes {
            db: self,
            sql,
            statement,
            collected: Batch::default(),
        })
    }

    /// Runs a statement.
    pub fn execute(&self, sql: &str, params: impl Params) -> Result<()> {
        self.prepare_cached(sql)?.execute(params)
    }

    /// Reads the first row of a result.
    pub fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }
}

impl Statement<'_> {
    /// Runs the statement. A later statement may return its error.
    pub fn execute(&mut self, params: impl Params) -> Result<()> {
        let mut values = Values::new();
        params.values(&mut |value| values.push(value))?;
        self.prepared.run(&values)
    }

    /// Runs the statement and returns the number of rows that it changed.
    pub fn change(&mut self, params: impl Params) -> Result<usize> {
        let mut values = Values::new();
        params.values(&mut |value| values.push(value))?;
        self.prepared.execute(&values)
    }

    /// Runs a statement that inserts one row, and returns the row's `key`.
    pub fn insert(&mut self, params: impl Params) -> Result<i64> {
        let mut values = Values::new();
        params.values(&mut |value| values.push(value))?;
        self.prepared.insert(&values)
    }

    /// Runs a statement that inserts one row unless a row like it exists, and returns
    /// the `key` of a new row.
    pub fn insert_new(&mut self, params: impl Params) -> Result<Option<i64>> {
        let mut values = Values::new();
        params.values(&mut |value| values.push(value))?;
        self.prepared.insert_new(&values)
    }

    /// Runs the statement once for each row of a batch. Each run must change
    /// different rows.
    pub fn execute_all(&mut self, batch: Batch) -> Result<()> {
        match batch.0.is_empty() {
            true => Ok(()),
            false => self.prepared.run_all(&batch.0),
        }
    }

    /// Inserts the rows of a batch, and returns their keys.
    pub fn insert_all(&mut self, batch: Batch) -> Result<Vec<i64>> {
        self.prepared.insert_all(batch.0)
    }

    /// Calls `each` with every row.
    pub fn for_each<E: From<Error>>(
        &mut self,
        params: impl Params,
        mut each: impl FnMut(&Row<'_>) -> std::result::Result<ControlFlow<()>, E>,
    ) -> std::result::Result<(), E> {
        let mut values = Values::new();
        params.values(&mut |value| values.push(value))?;
        let mut failed = None;
        self.prepared.query(&values, &mut |row| match each(row) {
            Ok(flow) => Ok(flow),
            Err(error) => {
                failed = Some(error);
                Ok(ControlFlow::Break(()))
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Reads the first row. Fails with [`Error::NoRows`] when there is none.
    pub fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut read = Some(read);
        let mut found = None;
        self.for_each(params, |row| {
            if let Some(read) = read.take() {
                found = Some(read(row)?);
            }
            Ok::<_, Error>(ControlFlow::Break(()))
        })?;
        found.ok_or(Error::NoRows)
    }

    /// Reads all rows.
    pub fn query_map<T>(
        &mut self,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<std::vec::IntoIter<Result<T>>> {
        let mut rows = Vec::new();
        self.for_each(params, |row| {
            rows.push(read(row));
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        Ok(rows.into_iter())
    }

    /// Returns true when the result has a row.
    pub fn exists(&mut self, params: impl Params) -> Result<bool> {
        let found = self.query_row(params, |_| Ok(()));
        Ok(found.optional()?.is_some())
    }
}

/// A result that may be missing.
pub trait OptionalExtension<T> {
    /// Returns `None` when there was no row.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRows) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
