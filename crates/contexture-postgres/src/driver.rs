//! PostgreSQL as a driver of `contexture-sql`.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use contexture_sql::{
    Columns, Driver, Error, Prepared, Question, Row, Rows, SqlType, Value, ValueRef,
};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::link::{Link, Received};
use crate::text;

/// The number of record keys that are reserved at a time, as in the schema.
const RECORD_KEYS: i64 = 32;

/// The maximum number of keys of a table that are reserved at a time.
const MOST_KEYS: i64 = 256;

/// A transaction.
pub(crate) struct Transaction {
    link: RefCell<Link>,
    // Keys that were taken for rows to come, by table.
    keys: RefCell<HashMap<String, Keys>>,
    // Keys that were asked for and come with the next answer.
    expected: RefCell<Vec<(String, Received)>>,
}

/// Keys that were reserved from a sequence and are still free, and the number
/// to reserve next.
struct Keys {
    free: std::vec::IntoIter<i64>,
    next: i64,
}

impl Transaction {
    pub(crate) fn new(link: Link) -> Self {
        Self {
            link: RefCell::new(link),
            keys: RefCell::default(),
            expected: RefCell::default(),
        }
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        self.link.get_mut()
    }

    pub(crate) fn into_link(self) -> Link {
        self.link.into_inner()
    }
}

impl Driver for Transaction {
    fn prepare_statement<'d>(&'d self, sql: &str) -> Result<Box<dyn Prepared + 'd>, Error> {
        Ok(Box::new(PgStatement {
            link: &self.link,
            keys: &self.keys,
            expected: &self.expected,
            sql: own_sql(sql),
        }))
    }

    fn defer_references(&self) -> Result<(), Error> {
        let mut link = self.link.borrow_mut();
        link.send("SET CONSTRAINTS ALL DEFERRED".to_owned());
        Ok(())
    }

    fn lift_time_limit(&self) -> Result<(), Error> {
        let mut link = self.link.borrow_mut();
        link.send("SET LOCAL statement_timeout = 0".to_owned());
        Ok(())
    }

    fn suspend_counts(&self) -> Result<bool, Error> {
        let mut link = self.link.borrow_mut();
        link.send("SET LOCAL contexture.counts = 'off'".to_owned());
        Ok(true)
    }

    fn random(&self) -> &'static str {
        "random_key()"
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn query_together(&self, questions: &[Question]) -> Result<Vec<Rows>, Error> {
        let bound = |question: &Question| (own_sql(&question.sql), bind(&question.values));
        let questions = questions.iter().map(bound).collect();
        let found = self.link.borrow_mut().query_all(questions)?;
        let rows = |rows: &Vec<tokio_postgres::Row>| {
            let values = rows
                .iter()
                .map(|row| Row::new(&PgRow::new(row)).to_values());
            values.collect::<Result<_, _>>().map(Rows)
        };
        found.iter().map(rows).collect()
    }

    fn expect_insert(&self, table: &str) {
        let keys = self.keys.borrow();
        if keys.get(table).is_some_and(|keys| keys.free.len() > 0) {
            return;
        }
        let received = Received::default();
        let sql = format!("SELECT nextval('{table}_key_seq')");
        self.link
            .borrow_mut()
            .send_query(sql, Vec::new(), Arc::clone(&received));
        let expected = (table.to_owned(), received);
        self.expected.borrow_mut().push(expected);
    }

    fn take_record_keys(&self) -> Result<Option<(i64, i64)>, Error> {
        let sql = "SELECT nextval('record_keys')";
        let first = self.query_row(sql, (), |row| row.get(0))?;
        Ok(Some((first, RECORD_KEYS)))
    }

    fn take_keys(&self, table: &str, count: i64) -> Result<Option<Vec<i64>>, Error> {
        if table != "memories" {
            let sequence = format!("{table}_key_seq");
            return self.take_numbers(&sequence, count).map(Some);
        }
        let blocks = self.take_numbers("record_keys", (count + RECORD_KEYS - 1) / RECORD_KEYS)?;
        let keys = blocks.iter().flat_map(|first| *first..first + RECORD_KEYS);
        Ok(Some(
            keys.take(usize::try_from(count).unwrap_or_default())
                .collect(),
        ))
    }
}

/// The number of keys that one statement reserves from a sequence.
const KEYS_AT_ONCE: i64 = 100_000;

impl Transaction {
    /// Takes `count` numbers from a sequence.
    fn take_numbers(&self, sequence: &str, mut count: i64) -> Result<Vec<i64>, Error> {
        let mut taken = Vec::new();
        while count > 0 {
            let some = count.min(KEYS_AT_ONCE);
            let sql = format!("SELECT nextval('{sequence}') FROM generate_series(1, {some})");
            let (rows, _) = self.link.borrow_mut().query(&sql, Vec::new())?;
            for row in &rows {
                taken.push(Row::new(&PgRow::new(row)).get(0)?);
            }
            count -= some;
        }
        taken.sort_unstable();
        Ok(taken)
    }

    fn query_row<T>(
        &self,
        sql: &str,
        params: impl contexture_sql::Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        (self as &contexture_sql::Connection).query_row(sql, params, read)
    }
}

struct PgStatement<'d> {
    link: &'d RefCell<Link>,
    keys: &'d RefCell<HashMap<String, Keys>>,
    expected: &'d RefCell<Vec<(String, Received)>>,
    sql: String,
}

impl PgStatement<'_> {
    /// Returns a key for a row of the table. The first of a transaction costs a
    /// round trip unless it was expected, the next two one, and so on.
    fn take_key(&self, table: &str) -> Result<i64, Error> {
        if let Some(key) = self.take_expected(table) {
            return Ok(key);
        }
        let mut keys = self.keys.borrow_mut();
        let keys = keys.entry(table.to_owned()).or_insert_with(|| Keys {
            free: Vec::new().into_iter(),
            next: 1,
        });
        if let Some(key) = keys.free.next() {
            return Ok(key);
        }
        let sql = format!(
            "SELECT nextval('{table}_key_seq') FROM generate_series(1, {})",
            keys.next
        );
        let (rows, _) = self.link.borrow_mut().query(&sql, Vec::new())?;
        let mut taken = Vec::with_capacity(rows.len());
        for row in &rows {
            taken.push(Row::new(&PgRow::new(row)).get(0)?);
        }
        keys.free = taken.into_iter();
        keys.next = (keys.next * 2).min(MOST_KEYS);
        keys.free.next().ok_or(Error::NoRows)
    }
}

impl PgStatement<'_> {
    /// Returns a key that came with an earlier answer.
    fn take_expected(&self, table: &str) -> Option<i64> {
        let mut expected = self.expected.borrow_mut();
        let at = expected.iter().position(|(name, received)| {
            name == table && received.lock().is_ok_and(|rows| rows.is_some())
        })?;
        let (_, received) = expected.swap_remove(at);
        let rows = received.lock().ok()?.take()?;
        rows.first()?.try_get(0).ok()
    }
}

/// Returns SQL with PostgreSQL's parameters. They are written `?1` in SQL that all
/// databases share.
fn own_sql(sql: &str) -> String {
    sql.replace('?', "$")
}

/// A value on its way to the database.
#[derive(Debug, Clone)]
pub(crate) enum Bound {
    Null,
    Integer(i64),
    Real(f64),
    Bytes(Vec<u8>),
}

impl ToSql for Bound {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Bound::Null => return Ok(IsNull::Yes),
            Bound::Integer(number) => out.put_i64(*number),
            Bound::Real(number) => out.put_f64(*number),
            Bound::Bytes(bytes) => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Returns values with their types.
pub(crate) fn bind(values: &[Value<'_>]) -> Vec<(Bound, Type)> {
    let bound = |value: &Value<'_>| match value {
        Value::Null(SqlType::Integer) => (Bound::Null, Type::INT8),
        Value::Null(SqlType::Real) => (Bound::Null, Type::FLOAT8),
        Value::Null(SqlType::Text) => (Bound::Null, Type::TEXT),
        Value::Null(SqlType::Blob) => (Bound::Null, Type::BYTEA),
        Value::Integer(number) => (Bound::Integer(*number), Type::INT8),
        Value::Real(number) => (Bound::Real(*number), Type::FLOAT8),
        Value::Text(plain) => {
            let stored = text::encode(plain).into_owned();
            (Bound::Bytes(stored.into_bytes()), Type::TEXT)
        }
        Value::Blob(bytes) => (Bound::Bytes(bytes.to_vec()), Type::BYTEA),
    };
    values.iter().map(bound).collect()
}

impl Prepared for PgStatement<'_> {
    fn query(
        &mut self,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        // The link is free again before `each` uses it for other statements.
        let (rows, _) = self.link.borrow_mut().query(&self.sql, bind(values))?;
        for row in &rows {
            if each(&Row::new(&PgRow::new(row)))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn execute(&mut self, values: &[Value<'_>]) -> Result<usize, Error> {
        let (_, changed) = self.link.borrow_mut().query(&self.sql, bind(values))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    fn run(&mut self, values: &[Value<'_>]) -> Result<(), Error> {
        let (sql, values) = (self.sql.clone(), bind(values));
        self.link.borrow_mut().send_statement(sql, values);
        Ok(())
    }

    fn insert(&mut self, values: &[Value<'_>]) -> Result<i64, Error> {
        let not_one = || Error::Parameter(format!("is no INSERT of one row: {}", self.sql));
        let columns = self.sql.find('(').ok_or_else(not_one)?;
        let row = columns + self.sql[columns..].find("VALUES (").ok_or_else(not_one)?;
        let (into, rest) = self.sql.split_at(columns + 1);
        let (columns, rest) = rest.split_at(row - columns - 1);
        let rest = rest.strip_prefix("VALUES (").ok_or_else(not_one)?;
        let table = into.split_whitespace().nth(2).ok_or_else(not_one)?;
        let key = self.take_key(table)?;
        let number = values.len() + 1;
        let sql = format!("{into}key, {columns}VALUES (${number}, {rest}");
        let mut values = bind(values);
        values.push((Bound::Integer(key), Type::INT8));
        self.link.borrow_mut().send_statement(sql, values);
        Ok(key)
    }
}

/// A row, with the texts that had to be decoded.
struct PgRow<'r> {
    row: &'r tokio_postgres::Row,
    decoded: OnceCell<Vec<OnceCell<Vec<u8>>>>,
}

impl<'r> PgRow<'r> {
    fn new(row: &'r tokio_postgres::Row) -> Self {
        Self {
            row,
            decoded: OnceCell::new(),
        }
    }
}

/// A column as it came.
struct Raw<'r>(ValueRef<'r>);

impl<'r> FromSql<'r> for Raw<'r> {
    fn from_sql(
        kind: &Type,
        raw: &'r [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(match *kind {
            Type::INT8 => ValueRef::Integer(i64::from_sql(kind, raw)?),
            Type::INT4 => ValueRef::Integer(i32::from_sql(kind, raw)?.into()),
            Type::INT2 => ValueRef::Integer(i16::from_sql(kind, raw)?.into()),
            Type::BOOL => ValueRef::Integer(bool::from_sql(kind, raw)?.into()),
            Type::FLOAT8 => ValueRef::Real(f64::from_sql(kind, raw)?),
            Type::BYTEA => ValueRef::Blob(raw),
            _ => ValueRef::Text(raw),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(ValueRef::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Columns for PgRow<'_> {
    fn column(&self, column: usize) -> Result<ValueRef<'_>, Error> {
        let Raw(value) = self
            .row
            .try_get(column)
            .map_err(|error| Error::Content(error.to_string()))?;
        let ValueRef::Text(stored) = value else {
            return Ok(value);
        };
        let Some(plain) = text::decode(stored) else {
            return Ok(value);
        };
        let count = self.row.len();
        let decoded = (self.decoded).get_or_init(|| vec![OnceCell::new(); count]);
        Ok(ValueRef::Text(decoded[column].get_or_init(|| plain)))
    }

    fn count(&self) -> usize {
        self.row.len()
    }
}
