//! One connection, driven by the thread that uses it.
//!
//! Requests are collected and sent together when an answer is needed, so that
//! several share one round trip and one message to the operating system. After an
//! error the server skips what was sent with it.
//!
//! On a direct connection, each statement gets a name when it is first used: the
//! server then reads it once, and plans it a few times. A pooler such as PgBouncer
//! may hand out another connection for the next transaction. Statements have no
//! names then, and nothing is left behind after a transaction.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture_sql::{SqlType, Value};
use tokio_postgres::error::SqlState;

use crate::encode::{self, Argument};
use crate::error::PgError;
use crate::place::Place;
use crate::rows::Rows;
use crate::wire::{Wire, error_of};

/// How many requests are collected before their answers are waited for, and how
/// many bytes.
const MOST_UNREAD: usize = 512;
const MOST_UNREAD_BYTES: usize = 1 << 20;

/// How many questions are sent before their answers are read, and how many bytes:
/// a server that waits until answers are read does not read on.
const MOST_QUESTIONS: usize = 256;
const MOST_QUESTION_BYTES: usize = 32 * 1024;

/// How many statements of a connection have a name.
const MOST_NAMES: usize = 512;

/// The answer to a request that was sent, as soon as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// A connection.
pub(crate) struct Link {
    wire: Wire,
    /// Whether the server process is the same in each transaction.
    is_direct: bool,
    /// What is sent next, and how many of the last requests that is.
    out: Vec<u8>,
    unsent: usize,
    exchange: Exchange,
    next_ticket: u64,
    uses: u64,
    /// Why the connection ended.
    ended: Option<PgError>,
    /// How often an answer was waited for, on all connections.
    round_trips: Arc<AtomicU64>,
}

/// What was asked and answered.
struct Exchange {
    /// The requests whose answers were not read.
    unread: VecDeque<Request>,
    /// Answers that nobody has taken.
    answers: Vec<(Ticket, Rows)>,
    /// The statements that have a name.
    statements: HashMap<u128, Known>,
    /// What a request failed with, if nobody was told yet.
    failed: Option<PgError>,
    /// Whether a transaction was open when the server was ready last.
    in_transaction: bool,
    /// Whether statements have to be prepared anew.
    is_stale: bool,
}

/// A statement that has a name.
struct Known {
    name: String,
    /// The types of its columns; `None` until the server told them.
    columns: Option<Arc<[u32]>>,
    last_use: u64,
}

/// A request whose answer was not read.
enum Request {
    Statement {
        /// The statement, if it has a name.
        key: Option<u128>,
        is_new: bool,
        columns: Option<Arc<[u32]>>,
        /// Who wants the rows.
        ticket: Option<Ticket>,
        rows: Rows,
    },
    /// The end of a group, or statements without values.
    Group,
}

impl Link {
    /// Connects to the database.
    pub(crate) fn open(place: &Place) -> Result<Self, PgError> {
        let wire = blocking(|| Wire::connect(place))?;
        Ok(Self {
            wire,
            is_direct: false,
            out: Vec::new(),
            unsent: 0,
            exchange: Exchange {
                unread: VecDeque::new(),
                answers: Vec::new(),
                statements: HashMap::new(),
                failed: None,
                in_transaction: false,
                is_stale: false,
            },
            next_ticket: 0,
            uses: 0,
            ended: None,
            round_trips: Arc::clone(&place.round_trips),
        })
    }

    /// Connects to the database for many transactions. On a direct connection the
    /// settings are made once, and statements have names.
    pub(crate) fn open_for_many(place: &Place) -> Result<Self, PgError> {
        let mut link = Self::open(place)?;
        let Some(told) = link.wire.process else {
            return Ok(link);
        };
        // A pooler tells a number of its own, because it passes on requests to
        // cancel by itself.
        let rows = link.query("SELECT pg_backend_pid()", &[])?;
        if rows.integer(0, 0) == Some(i64::from(told)) {
            link.query(&place.session_settings, &[])?;
            link.is_direct = true;
        }
        Ok(link)
    }

    /// Begins a transaction, with the next request.
    pub(crate) fn begin(&mut self, begin: &str, place: &Place) {
        self.send(begin);
        if !self.is_direct {
            self.send(&place.transaction_settings);
        }
    }

    /// Returns false when the server has closed the connection.
    pub(crate) fn is_open(&mut self) -> bool {
        while self.ended.is_none() {
            match self.wire.arrived() {
                Ok(None) => break,
                Ok(Some((tag, body))) => self.exchange.handle(tag, body),
                Err(error) => self.end_with(error),
            }
            // Nobody has asked anything: the server says why it ends.
            if self.exchange.unread.is_empty()
                && let Some(error) = self.exchange.failed.take()
            {
                self.end_with(error);
            }
        }
        self.is_alive()
    }

    /// Returns false when the connection is known to have ended.
    pub(crate) fn is_alive(&self) -> bool {
        self.ended.is_none()
    }

    /// Returns true when statements have to be prepared anew.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_direct && self.exchange.is_stale
    }

    /// Returns why the connection has ended.
    pub(crate) fn end(&self) -> PgError {
        let unknown = || PgError::Io("the connection was closed".to_owned());
        self.ended.clone().unwrap_or_else(unknown)
    }

    /// Returns why the connection has ended, or the error if it has not.
    pub(crate) fn ended_with(&self, error: PgError) -> PgError {
        self.ended.clone().unwrap_or(error)
    }

    fn end_with(&mut self, error: PgError) {
        // What the server said last says more than that it is gone.
        let told = self.exchange.failed.take();
        let told = told.filter(PgError::ends_connection);
        self.ended = Some(told.unwrap_or(error));
    }

    /// Drops the answers that nobody has taken.
    pub(crate) fn forget(&mut self) {
        self.exchange.answers.clear();
        self.exchange.failed = None;
    }

    /// Undoes the transaction, without waiting. What was not sent yet is not sent.
    pub(crate) fn roll_back(&mut self) {
        for _ in 0..std::mem::take(&mut self.unsent) {
            if let Some(request) = self.exchange.unread.pop_back() {
                self.exchange.skip(&request);
            }
        }
        self.out.clear();
        if self.exchange.in_transaction || !self.exchange.unread.is_empty() {
            self.send("ROLLBACK");
            self.write();
        }
    }

    /// Sends what was collected.
    fn write(&mut self) {
        if self.unsent > 0 {
            encode::sync(&mut self.out);
            self.exchange.unread.push_back(Request::Group);
            self.unsent = 0;
        }
        if self.out.is_empty() || self.ended.is_some() {
            return;
        }
        if let Err(error) = self.wire.write(&self.out) {
            // The server may have said why, before it closed the connection.
            while self.ended.is_none() {
                match self.wire.arrived() {
                    Ok(Some((tag, body))) => self.exchange.handle(tag, body),
                    Ok(None) | Err(_) => self.end_with(error.clone()),
                }
            }
        }
        self.out.clear();
        self.out.shrink_to(MOST_UNREAD_BYTES);
    }

    /// Sends what was collected and reads all answers. Fails with the first error.
    fn wait(&mut self) -> Result<(), PgError> {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        contexture_store::Call::wait();
        blocking(|| {
            self.write();
            while self.ended.is_none() && !self.exchange.unread.is_empty() {
                match self.wire.message() {
                    Ok((tag, body)) => self.exchange.handle(tag, body),
                    Err(error) => self.end_with(error),
                }
            }
        });
        match &self.ended {
            Some(ended) => Err(ended.clone()),
            None => self.exchange.failed.take().map_or(Ok(()), Err),
        }
    }

    /// Collects a request.
    fn add(&mut self, sql: &str, arguments: &[Argument<'_>], ticket: Option<Ticket>) {
        self.uses += 1;
        let (key, is_new) = match self.is_direct {
            true => {
                let key = key_of(sql, arguments);
                (Some(key), self.name(key, sql, arguments))
            }
            false => {
                encode::parse(&mut self.out, "", sql, arguments);
                encode::execute(&mut self.out, "", arguments);
                (None, true)
            }
        };
        self.exchange.unread.push_back(Request::Statement {
            key,
            is_new,
            columns: None,
            ticket,
            rows: Rows::default(),
        });
        self.unsent += 1;
    }

    /// Collects a request for a statement with a name. Returns true if the server
    /// has to read it first.
    fn name(&mut self, key: u128, sql: &str, arguments: &[Argument<'_>]) -> bool {
        let statements = &mut self.exchange.statements;
        if let Some(known) = statements.get_mut(&key) {
            known.last_use = self.uses;
            encode::execute(&mut self.out, &known.name, arguments);
            return false;
        }
        if statements.len() >= MOST_NAMES {
            let oldest = statements
                .iter()
                .filter(|(_, known)| known.columns.is_some());
            let oldest = oldest.min_by_key(|(_, known)| known.last_use);
            if let Some(oldest) = oldest.map(|(key, _)| *key)
                && let Some(known) = statements.remove(&oldest)
            {
                encode::close(&mut self.out, &known.name);
            }
        }
        // The name tells the statement, so that no name ever stands for two. The
        // number is for one that was closed and comes back.
        let name = format!("contexture_{key:032x}_{}", self.uses);
        encode::parse(&mut self.out, &name, sql, arguments);
        encode::execute(&mut self.out, &name, arguments);
        let known = Known {
            name,
            columns: None,
            last_use: self.uses,
        };
        statements.insert(key, known);
        true
    }

    fn add_values(&mut self, sql: &str, values: &[Value<'_>], ticket: Option<Ticket>) {
        let arguments: Vec<Argument<'_>> = values.iter().map(Argument::One).collect();
        self.add(sql, &arguments, ticket);
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// Waits when much was collected.
    fn limit(&mut self) {
        if (self.unsent >= MOST_UNREAD || self.out.len() >= MOST_UNREAD_BYTES)
            && let Err(error) = self.wait()
        {
            self.exchange.failed.get_or_insert(error);
        }
    }

    /// Sends a statement without values with the next request.
    pub(crate) fn send(&mut self, sql: &str) {
        self.send_statement(sql, &[]);
    }

    /// Sends a statement with the next request. What it failed with is told then.
    pub(crate) fn send_statement(&mut self, sql: &str, values: &[Value<'_>]) {
        self.add_values(sql, values, None);
        self.limit();
    }

    /// Sends a statement whose parameters are arrays with the next request.
    pub(crate) fn send_arrays(&mut self, sql: &str, arguments: &[Argument<'_>]) {
        self.add(sql, arguments, None);
        self.limit();
    }

    /// Sends a query with the next request. Its rows can be taken then.
    pub(crate) fn send_query(&mut self, sql: &str, values: &[Value<'_>]) -> Ticket {
        let ticket = self.ticket();
        self.add_values(sql, values, Some(ticket));
        ticket
    }

    /// Returns the rows of a query, once, if they have come.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Rows> {
        let answers = &mut self.exchange.answers;
        let at = answers.iter().position(|(of, _)| *of == ticket)?;
        Some(answers.swap_remove(at).1)
    }

    /// Reads the answers to what was sent. Returns the first error.
    pub(crate) fn sync(&mut self) -> Result<(), PgError> {
        match self.exchange.unread.is_empty() && self.ended.is_none() {
            true => self.exchange.failed.take().map_or(Ok(()), Err),
            false => self.wait(),
        }
    }

    /// Runs statements without values, separated by semicolons.
    pub(crate) fn run(&mut self, sql: &str) -> Result<(), PgError> {
        self.sync()?;
        encode::query(&mut self.out, sql);
        self.exchange.unread.push_back(Request::Group);
        self.wait()
    }

    /// Commits the transaction. Fails if the server has undone it.
    pub(crate) fn commit(&mut self) -> Result<(), PgError> {
        let rows = self.query("COMMIT", &[])?;
        match rows.is_rolled_back {
            // An error that nobody has noticed.
            true => Err(PgError::Database {
                code: SqlState::IN_FAILED_SQL_TRANSACTION,
                message: "the transaction had failed before".to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Runs a statement and returns its rows.
    pub(crate) fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Rows, PgError> {
        let ticket = self.send_query(sql, values);
        self.wait()?;
        self.take(ticket).ok_or_else(|| self.end())
    }

    /// Runs a statement whose parameter is an array of numbers, and returns its rows.
    pub(crate) fn query_array(&mut self, sql: &str, of: &[Value<'_>]) -> Result<Rows, PgError> {
        let ticket = self.ticket();
        let array = Argument::Many(SqlType::Integer, of.iter().collect());
        self.add(sql, &[array], Some(ticket));
        self.wait()?;
        self.take(ticket).ok_or_else(|| self.end())
    }

    /// Runs statements in one round trip, and returns the rows of each.
    pub(crate) fn query_all(
        &mut self,
        statements: &[(String, Vec<Argument<'_>>)],
    ) -> Result<Vec<Rows>, PgError> {
        let mut tickets = Vec::with_capacity(statements.len());
        let mut since = 0;
        for (sql, arguments) in statements {
            if since >= MOST_QUESTIONS || self.out.len() >= MOST_QUESTION_BYTES && since > 0 {
                self.wait()?;
                since = 0;
            }
            let ticket = self.ticket();
            self.add(sql, arguments, Some(ticket));
            tickets.push(ticket);
            since += 1;
        }
        self.wait()?;
        let rows = tickets.into_iter().map(|ticket| {
            let rows = self.take(ticket);
            rows.ok_or_else(|| self.end())
        });
        rows.collect()
    }
}

impl Exchange {
    /// Reads a message of the server.
    fn handle(&mut self, tag: u8, body: &[u8]) {
        match tag {
            b'E' => {
                let error = error_of(body);
                self.is_stale |= error.is_stale();
                self.failed.get_or_insert(error);
                return;
            }
            b'Z' => {
                self.in_transaction = body.first() != Some(&b'I');
                // What is before the end of the group was skipped.
                while let Some(request) = self.unread.pop_front() {
                    if matches!(request, Request::Group) {
                        break;
                    }
                    self.skip(&request);
                }
                return;
            }
            _ => {}
        }
        let Some(Request::Statement {
            key,
            columns,
            ticket,
            rows,
            ..
        }) = self.unread.front_mut()
        else {
            return;
        };
        match tag {
            b'T' | b'n' => {
                let told: Arc<[u32]> = types_of(body, tag).into();
                if let Some(known) = key.and_then(|key| self.statements.get_mut(&key)) {
                    known.columns = Some(Arc::clone(&told));
                }
                *columns = Some(told);
            }
            b'D' if ticket.is_some() => rows.add(body),
            b'C' | b'I' => {
                let known = key.and_then(|key| self.statements.get(&key));
                let columns = columns.take().or_else(|| known?.columns.clone());
                let (ticket, mut rows) = (*ticket, std::mem::take(rows));
                self.unread.pop_front();
                if let Some(ticket) = ticket {
                    rows.end(columns.unwrap_or_default(), body);
                    self.answers.push((ticket, rows));
                }
            }
            // Notices, settings, and that something was done.
            _ => {}
        }
    }

    /// Notes that the server did nothing about a request.
    fn skip(&mut self, request: &Request) {
        if let Request::Statement {
            key: Some(key),
            is_new: true,
            columns: None,
            ..
        } = request
        {
            self.statements.remove(key);
        }
    }
}

/// Returns the types of the columns that a message tells.
fn types_of(body: &[u8], tag: u8) -> Vec<u32> {
    let mut types = Vec::new();
    if tag != b'T' {
        return types;
    }
    let mut rest = body.get(2..).unwrap_or_default();
    // The name, the table and its column, the type, and three more numbers.
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        let Some(kind) = rest.get(end + 7..).and_then(crate::wire::number) else {
            break;
        };
        types.push(kind.cast_unsigned());
        rest = rest.get(end + 19..).unwrap_or_default();
    }
    types
}

/// Returns a number for a statement with parameters of those types.
fn key_of(sql: &str, arguments: &[Argument<'_>]) -> u128 {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        sql.hash(&mut hasher);
        for argument in arguments {
            argument.type_of().hash(&mut hasher);
        }
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

/// Calls `wait`, which blocks. A thread of a runtime must not block without a
/// word; a server opens its store in one.
fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}
