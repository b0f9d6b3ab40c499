//! PostgreSQL as a driver of `contexture-sql`.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use contexture_sql::{Driver, Error, Prepared, Question, Row, Rows, Value};

use crate::encode::Argument;
use crate::link::{Link, Ticket};
use crate::merge;
use crate::rows::PgRow;

/// The number of record keys that are reserved at a time, as in the schema.
const RECORD_KEYS: i64 = 32;

/// The maximum number of keys of a table that are reserved at a time.
const MOST_KEYS: usize = 256;

/// A transaction.
pub(crate) struct Transaction {
    link: RefCell<Link>,
    // Reserved keys for future rows, by table.
    keys: RefCell<HashMap<String, Keys>>,
    // Keys that were requested and arrive with the next response.
    expected: RefCell<Vec<(String, Ticket)>>,
}

/// Keys that were reserved from a sequence and are still free, and the number
/// to reserve next.
#[derive(Default)]
struct Keys {
    free: VecDeque<i64>,
    next: usize,
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

    /// Returns the rows of a query, once, if they have arrived.
    pub(crate) fn take(&self, ticket: Ticket) -> Option<crate::rows::Rows> {
        self.link.borrow_mut().take(ticket)
    }

    pub(crate) fn into_link(self) -> Link {
        self.link.into_inner()
    }
}

impl Driver for Transaction {
    fn prepare_statement<'d>(&'d self, sql: &str) -> Result<Box<dyn Prepared + 'd>, Error> {
        Ok(Box::new(PgStatement {
            transaction: self,
            sql: sql.to_owned(),
        }))
    }

    fn defer_references(&self) -> Result<(), Error> {
        self.link.borrow_mut().send("SET CONSTRAINTS ALL DEFERRED");
        Ok(())
    }

    fn lift_time_limit(&self) -> Result<(), Error> {
        let mut link = self.link.borrow_mut();
        link.send("SET LOCAL statement_timeout = 0");
        Ok(())
    }

    fn suspend_counts(&self) -> Result<bool, Error> {
        let mut link = self.link.borrow_mut();
        link.send("SET LOCAL contexture.counts = 'off'");
        Ok(true)
    }

    fn random(&self) -> &'static str {
        "random_key()"
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn query_together(&self, questions: &[Question]) -> Result<Vec<Rows>, Error> {
        let groups = by_statement(questions);
        let mut statements = Vec::with_capacity(groups.len());
        let mut parts: Vec<Part> = Vec::with_capacity(groups.len());
        for group in groups {
            let values = group.iter().map(|&at| questions[at].values.as_slice());
            if group.len() > 1
                && let Some(merged) = merge::query(&questions[group[0]].sql, values)
            {
                statements.push(merged);
                parts.push(Part::Merged(group));
                continue;
            }
            for at in group {
                let question = &questions[at];
                let arguments = question.values.iter().map(Argument::One).collect();
                statements.push((own_sql(&question.sql), arguments));
                parts.push(Part::One(at));
            }
        }
        let found = self.link.borrow_mut().query_all(&statements)?;
        let mut all = vec![Rows::default(); questions.len()];
        for (part, rows) in parts.iter().zip(&found) {
            for row in 0..rows.len() {
                let (at, first) = match part {
                    Part::One(at) => (*at, 0),
                    Part::Merged(group) => {
                        let number = rows.integer(row, 0).and_then(|n| usize::try_from(n).ok());
                        let at = number.and_then(|number| group.get(number.checked_sub(1)?));
                        (*at.ok_or(Error::NotRead)?, 1)
                    }
                };
                let values = Row::new(&rows.row_from(row, first)).to_values()?;
                all[at].0.push(values);
            }
        }
        Ok(all)
    }

    fn require_rows(&self, questions: &[Question]) -> Result<(), Error> {
        for some in questions.chunks(MOST_REQUIRED) {
            let (sql, arguments) = merge::requirement(some);
            self.link.borrow_mut().send_arguments(&sql, &arguments);
        }
        Ok(())
    }

    fn expect_insert(&self, table: &str, count: usize) {
        let free = self
            .keys
            .borrow()
            .get(table)
            .map_or(0, |keys| keys.free.len());
        if free < count {
            let ticket =
                (self.link.borrow_mut()).send_query(&take_sql(table), &[number_of(count - free)]);
            self.expected.borrow_mut().push((table.to_owned(), ticket));
        }
    }

    fn inserted_many(&self, tables: &[&str]) -> Result<(), Error> {
        let sql = format!("ANALYZE {}", tables.join(", "));
        self.link.borrow_mut().send(&sql);
        Ok(())
    }

    fn take_record_keys(&self) -> Result<Option<(i64, i64)>, Error> {
        let sql = "SELECT nextval('record_keys')";
        let rows = self.link.borrow_mut().query(sql, &[])?;
        let first = rows.integer(0, 0).ok_or(Error::NoRows)?;
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

/// The maximum number of queries that are merged into one.
const MOST_MERGED: usize = 1024;

/// The maximum number of queries that one statement requires a row of.
const MOST_REQUIRED: usize = 8;

/// The maximum number of rows that one statement changes.
const MOST_CHANGED: usize = 1024;

/// Returns the indexes of the queries with the same SQL, which can be sent as one
/// statement for all values.
fn by_statement(questions: &[Question]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_sql: HashMap<&str, usize> = HashMap::new();
    for (at, question) in questions.iter().enumerate() {
        let known = by_sql.get(&*question.sql).copied();
        match known.filter(|&group: &usize| groups[group].len() < MOST_MERGED) {
            Some(group) => groups[group].push(at),
            None => {
                by_sql.insert(&question.sql, groups.len());
                groups.push(vec![at]);
            }
        }
    }
    groups
}

/// A statement that answers one query or several.
enum Part {
    One(usize),
    Merged(Vec<usize>),
}

/// The number of keys that one statement reserves from a sequence.
const KEYS_AT_ONCE: i64 = 100_000;

/// Returns a statement that reserves keys. PostgreSQL would plan it again for each
/// count, without the inner SELECT.
fn take_sql(table: &str) -> String {
    format!("SELECT nextval('{table}_key_seq') FROM generate_series(1, (SELECT $1))")
}

fn number_of(count: usize) -> Value<'static> {
    Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

impl Transaction {
    /// Reserves `count` numbers from a sequence.
    fn take_numbers(&self, sequence: &str, mut count: i64) -> Result<Vec<i64>, Error> {
        let mut taken = Vec::new();
        while count > 0 {
            let some = count.min(KEYS_AT_ONCE);
            let sql = format!("SELECT nextval('{sequence}') FROM generate_series(1, $1)");
            let rows = self
                .link
                .borrow_mut()
                .query(&sql, &[Value::Integer(some)])?;
            taken.extend(rows.integers());
            count -= some;
        }
        taken.sort_unstable();
        Ok(taken)
    }

    /// Returns keys for rows of the table. The first reservation of a
    /// transaction costs a round trip unless it was expected. Each later one
    /// reserves twice as many keys.
    fn keys_for(&self, table: &str, count: usize) -> Result<Vec<i64>, Error> {
        let mut link = self.link.borrow_mut();
        let mut keys = self.keys.borrow_mut();
        let keys = keys.entry(table.to_owned()).or_default();
        // The keys that arrived with an earlier response.
        self.expected.borrow_mut().retain(|(of, ticket)| {
            let came = match of == table {
                true => link.take(*ticket),
                false => None,
            };
            keys.free
                .extend(came.iter().flat_map(crate::rows::Rows::integers));
            came.is_none()
        });
        if keys.free.len() < count {
            let some = (count - keys.free.len()).max(keys.next);
            let rows = link.query(&take_sql(table), &[number_of(some)])?;
            keys.free.extend(rows.integers());
            keys.next = (keys.next.max(1) * 2).min(MOST_KEYS);
        }
        if keys.free.len() < count {
            return Err(Error::NoRows);
        }
        Ok(keys.free.drain(..count).collect())
    }
}

struct PgStatement<'d> {
    transaction: &'d Transaction,
    sql: String,
}

/// Returns SQL with PostgreSQL's parameters. They are written `?1` in SQL that all
/// databases share.
fn own_sql(sql: &str) -> String {
    sql.replace('?', "$")
}

/// Returns a statement that inserts a row together with its key, and the table.
fn with_key(sql: &str, number: usize) -> Result<(String, &str), Error> {
    let not_one = || Error::Parameter(format!("is no INSERT of one row: {sql}"));
    let columns = sql.find('(').ok_or_else(not_one)?;
    let row = columns + sql[columns..].find("VALUES (").ok_or_else(not_one)?;
    let (into, rest) = sql.split_at(columns + 1);
    let (columns, rest) = rest.split_at(row - columns - 1);
    let rest = rest.strip_prefix("VALUES (").ok_or_else(not_one)?;
    let table = into.split_whitespace().nth(2).ok_or_else(not_one)?;
    let sql = format!("{into}key, {columns}VALUES (?{number}, {rest}");
    Ok((sql, table))
}

impl Prepared for PgStatement<'_> {
    fn query(
        &mut self,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        // The link is released before `each` uses it for other statements.
        let link = &self.transaction.link;
        let rows = link.borrow_mut().query(&own_sql(&self.sql), values)?;
        for row in 0..rows.len() {
            let row: PgRow<'_> = rows.row(row);
            if each(&Row::new(&row))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn execute(&mut self, values: &[Value<'_>]) -> Result<usize, Error> {
        let mut link = self.transaction.link.borrow_mut();
        let rows = link.query(&own_sql(&self.sql), values)?;
        Ok(usize::try_from(rows.changed).unwrap_or(usize::MAX))
    }

    fn run(&mut self, values: &[Value<'_>]) -> Result<(), Error> {
        let mut link = self.transaction.link.borrow_mut();
        link.send_statement(&own_sql(&self.sql), values);
        Ok(())
    }

    fn run_all(&mut self, rows: &[Vec<Value<'_>>]) -> Result<(), Error> {
        for some in rows.chunks(MOST_CHANGED) {
            let merged = match some.len() {
                0 | 1 => None,
                _ => merge::change(&self.sql, some.iter().map(Vec::as_slice)),
            };
            match merged {
                Some((sql, arguments)) => {
                    let mut link = self.transaction.link.borrow_mut();
                    link.send_arguments(&sql, &arguments);
                }
                None => {
                    for row in some {
                        self.run(row)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, values: &[Value<'_>]) -> Result<i64, Error> {
        let (sql, table) = with_key(&self.sql, values.len() + 1)?;
        let key = self.transaction.keys_for(table, 1)?[0];
        let mut values = values.to_vec();
        values.push(Value::Integer(key));
        let mut link = self.transaction.link.borrow_mut();
        link.send_statement(&own_sql(&sql), &values);
        Ok(key)
    }

    fn insert_new(&mut self, values: &[Value<'_>]) -> Result<Option<i64>, Error> {
        let (sql, table) = with_key(&self.sql, values.len() + 1)?;
        let key = self.transaction.keys_for(table, 1)?[0];
        let mut values = values.to_vec();
        values.push(Value::Integer(key));
        let mut insert = PgStatement {
            transaction: self.transaction,
            sql,
        };
        let rows = insert.execute(&values)?;
        Ok((rows > 0).then_some(key))
    }

    fn insert_all(&mut self, rows: Vec<Vec<Value<'_>>>) -> Result<Vec<i64>, Error> {
        let Some(first) = rows.first() else {
            return Ok(Vec::new());
        };
        let (sql, table) = with_key(&self.sql, first.len() + 1)?;
        let keys = self.transaction.keys_for(table, rows.len())?;
        let with_key = |(mut row, key): (Vec<_>, &i64)| {
            row.push(Value::Integer(*key));
            row
        };
        let rows: Vec<Vec<Value<'_>>> = rows.into_iter().zip(&keys).map(with_key).collect();
        let mut insert = PgStatement {
            transaction: self.transaction,
            sql,
        };
        insert.run_all(&rows)?;
        Ok(keys)
    }
}
