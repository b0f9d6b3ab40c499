//! Independent reads in one round trip.
//!
//! A read is a function that queries a connection and converts the rows. On a
//! database in another process, each statement costs a round trip. [`Together`]
//! therefore runs its reads against a connection that notes the next statement
//! of each read. The noted statements are sent together, and the reads run
//! again with the rows, up to their next statement. All reads take as many
//! round trips as the longest one alone.
//!
//! A read must run the same statements each time it sees the same rows.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::driver::{Columns, Connection, Driver, Prepared, Result, Row};
use crate::error::{Error, Fault};
use crate::value::{Params, Value, ValueRef};

/// A statement that only reads, with its values.
#[derive(Debug, Clone)]
pub struct Question {
    /// The statement.
    pub sql: String,
    /// The values of its parameters.
    pub values: Vec<Value<'static>>,
}

impl Question {
    /// Returns a statement with its values.
    pub fn new(sql: &str, params: impl Params) -> Result<Self> {
        let mut values = Vec::new();
        params.values(&mut |value| values.push(value.into_owned_value()))?;
        Ok(Self {
            sql: sql.to_owned(),
            values,
        })
    }
}

/// The rows of a result, independent of the connection.
#[derive(Debug, Clone, Default)]
pub struct Rows(pub Vec<Vec<Value<'static>>>);

struct OwnedRow<'r>(&'r [Value<'static>]);

impl Columns for OwnedRow<'_> {
    fn column(&self, column: usize) -> Result<ValueRef<'_>> {
        let value = self.0.get(column).ok_or_else(|| Error::Column {
            column,
            message: "is missing".to_owned(),
        })?;
        Ok(match value {
            Value::Null(_) => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        })
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

type Slot<T> = Rc<RefCell<Option<std::result::Result<T, Fault>>>>;

/// The result of a read that runs together with others.
pub struct Answer<T>(Slot<T>);

impl<T> Answer<T> {
    /// Returns the result, after [`Together::run`].
    pub fn take(self) -> std::result::Result<T, Fault> {
        let answer = self.0.take();
        answer.unwrap_or_else(|| Err(Fault::Sql(Error::NotRead)))
    }
}

/// Runs a read, and returns false when it lacks rows.
type Read<'r> = Box<dyn Fn(&Connection) -> bool + 'r>;

/// A list of independent reads.
#[derive(Default)]
pub struct Together<'r> {
    reads: Vec<Read<'r>>,
}

impl<'r> Together<'r> {
    /// Adds a read.
    pub fn add<T: 'r>(
        &mut self,
        read: impl Fn(&Connection) -> std::result::Result<T, Fault> + 'r,
    ) -> Answer<T> {
        let slot: Slot<T> = Rc::default();
        let answer = Answer(Rc::clone(&slot));
        self.reads.push(Box::new(move |db| match read(db) {
            Err(Fault::Sql(Error::NotRead)) => false,
            done => {
                slot.replace(Some(done));
                true
            }
        }));
        answer
    }

    /// Runs all reads. Fails when the database fails; an error of a read is the
    /// read's own result. Inside another read, it fails with [`Error::NotRead`]
    /// until the outer read has the rows.
    pub fn run(self, db: &Connection) -> std::result::Result<(), Fault> {
        if !db.is_remote() {
            for read in &self.reads {
                read(db);
            }
            return Ok(());
        }
        let mut waiting: Vec<(Read<'r>, Replay)> = self
            .reads
            .into_iter()
            .map(|read| (read, Replay::new(db)))
            .collect();
        loop {
            waiting.retain(|(read, replay)| !replay.run(read));
            if waiting.is_empty() {
                return Ok(());
            }
            let asked: Vec<Vec<Question>> = waiting
                .iter()
                .map(|(_, replay)| replay.asked.take())
                .collect();
            let counts: Vec<usize> = asked.iter().map(Vec::len).collect();
            let questions: Vec<Question> = asked.into_iter().flatten().collect();
            let mut found = db.query_together(&questions)?.into_iter();
            for ((_, replay), count) in waiting.iter().zip(counts) {
                let mut answers = replay.answers.borrow_mut();
                answers.extend(found.by_ref().take(count).map(Rc::new));
            }
        }
    }
}

/// A connection that has the rows of the statements that a read has run so far.
struct Replay {
    random: &'static str,
    answers: RefCell<Vec<Rc<Rows>>>,
    // The number of results that the read has used since its restart.
    used: Cell<usize>,
    // The statements that the read has run without having their rows.
    asked: RefCell<Vec<Question>>,
}

impl Replay {
    fn new(db: &Connection) -> Self {
        Self {
            random: db.random(),
            answers: RefCell::default(),
            used: Cell::new(0),
            asked: RefCell::default(),
        }
    }

    fn run(&self, read: &Read<'_>) -> bool {
        self.used.set(0);
        read(self)
    }

    /// Returns the rows of a statement, or notes it.
    fn answer(&self, question: impl FnOnce() -> Question) -> Result<Rc<Rows>> {
        let at = self.used.replace(self.used.get() + 1);
        match self.answers.borrow().get(at) {
            Some(rows) => Ok(Rc::clone(rows)),
            None => {
                self.asked.borrow_mut().push(question());
                Err(Error::NotRead)
            }
        }
    }
}

impl Driver for Replay {
    fn prepare_statement<'d>(&'d self, sql: &str) -> Result<Box<dyn Prepared + 'd>> {
        Ok(Box::new(ReplayStatement {
            replay: self,
            sql: sql.to_owned(),
        }))
    }

    fn defer_references(&self) -> Result<()> {
        Ok(())
    }

    fn random(&self) -> &'static str {
        self.random
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn query_together(&self, questions: &[Question]) -> Result<Vec<Rows>> {
        // Each statement is noted, also after one that lacks its rows.
        let found: Vec<Result<Rc<Rows>>> = questions
            .iter()
            .map(|question| self.answer(|| question.clone()))
            .collect();
        let copy = |rows: Result<Rc<Rows>>| Ok(rows?.as_ref().clone());
        found.into_iter().map(copy).collect()
    }
}

struct ReplayStatement<'d> {
    replay: &'d Replay,
    sql: String,
}

impl Prepared for ReplayStatement<'_> {
    fn query(
        &mut self,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let rows = self.replay.answer(|| Question {
            sql: self.sql.clone(),
            values: values.iter().map(Value::to_owned_value).collect(),
        })?;
        for row in &rows.0 {
            if each(&Row::new(&OwnedRow(row)))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn execute(&mut self, _: &[Value<'_>]) -> Result<usize> {
        Err(Error::Parameter("is no read".to_owned()))
    }

    fn insert(&mut self, _: &[Value<'_>]) -> Result<i64> {
        Err(Error::Parameter("is no read".to_owned()))
    }

    fn insert_new(&mut self, _: &[Value<'_>]) -> Result<Option<i64>> {
        Err(Error::Parameter("is no read".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A remote database whose answer to `n` is the row `n + 1`.
    #[derive(Default)]
    struct Successors {
        trips: RefCell<Vec<Vec<i64>>>,
    }

    impl Driver for Successors {
        fn prepare_statement<'d>(&'d self, _: &str) -> Result<Box<dyn Prepared + 'd>> {
            unreachable!("everything is asked together")
        }

        fn defer_references(&self) -> Result<()> {
            Ok(())
        }

        fn random(&self) -> &'static str {
            ""
        }

        fn is_remote(&self) -> bool {
            true
        }

        fn query_together(&self, questions: &[Question]) -> Result<Vec<Rows>> {
            let numbers = questions.iter().map(|question| match question.values[..] {
                [Value::Integer(number)] => number,
                _ => panic!("no number"),
            });
            let numbers: Vec<i64> = numbers.collect();
            let answer = |n: &i64| Rows(vec![vec![Value::Integer(n + 1)]]);
            let rows = numbers.iter().map(answer).collect();
            self.trips.borrow_mut().push(numbers);
            Ok(rows)
        }
    }

    fn next(db: &Connection, number: i64) -> std::result::Result<i64, Fault> {
        Ok(db.query_row("next", [number], |row| row.get(0))?)
    }

    #[test]
    fn reads_share_round_trips() {
        let db = Successors::default();
        let mut together = Together::default();
        let one = together.add(|db| next(db, 1));
        let three = together.add(|db| next(db, next(db, next(db, 10)?)?));
        let refused = together.add(|db| match next(db, 20)? {
            21 => Err::<(), _>(Fault::not_found("number", 21)),
            _ => Ok(()),
        });
        // A read can contain reads that run together.
        let nested = together.add(|db| {
            let mut parts = Together::default();
            let (a, b) = (parts.add(|db| next(db, 30)), parts.add(|db| next(db, 40)));
            parts.run(db)?;
            Ok(a.take()? + b.take()?)
        });
        together.run(&db).unwrap();
        assert_eq!(one.take().unwrap(), 2);
        assert_eq!(three.take().unwrap(), 13);
        assert!(matches!(refused.take(), Err(Fault::Refused(_))));
        assert_eq!(nested.take().unwrap(), 72);
        let trips = db.trips.take();
        assert_eq!(trips, [vec![1, 10, 20, 30, 40], vec![11], vec![12]]);
    }
}
