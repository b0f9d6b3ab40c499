//! One connection, driven by the thread that uses it.
//!
//! Requests are collected and sent together when a response is needed, so that
//! several share one round trip and one system call. After an error the server
//! skips the other requests of the group.
//!
//! On a direct connection, each statement gets a name when it is first used:
//! the server then parses it once, and plans it a few times. A pooler such as
//! PgBouncer may switch to another connection for the next transaction.
//! Statements then have no names, and a transaction leaves no state in the
//! session.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contexture_sql::{SqlType, Value};
use tokio_postgres::error::SqlState;

use crate::encode::{self, Argument};
use crate::error::PgError;
use crate::place::DatabaseLocation;
use crate::rows::Rows;
use crate::wire::{Wire, error_of};

/// The number of requests, and of bytes, that are collected before their
/// responses are read.
const MOST_UNREAD: usize = 512;
const MOST_UNREAD_BYTES: usize = 1 << 20;

/// The number of queries, and of bytes, that are sent before their responses
/// are read. A server whose responses are not read stops reading requests.
const MOST_QUESTIONS: usize = 256;
const MOST_QUESTION_BYTES: usize = 32 * 1024;

/// The maximum number of named statements of a connection.
const MOST_NAMES: usize = 512;

/// A claim for the response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// A connection.
pub(crate) struct Link {
    wire: Wire,
    /// True if the server process is the same in each transaction.
    is_direct: bool,
    /// The bytes to send next, and the number of their requests.
    out: Vec<u8>,
    unsent: usize,
    exchange: Exchange,
    next_ticket: u64,
    uses: u64,
    /// The error that ended the connection.
    ended: Option<PgError>,
    /// The number of round trips on all connections.
    round_trips: Arc<AtomicU64>,
}

/// The pending requests and their responses.
struct Exchange {
    /// The requests whose responses were not read yet.
    unread: VecDeque<Request>,
    /// Responses that were not taken yet.
    answers: Vec<(Ticket, Rows)>,
    /// The named statements.
    statements: HashMap<u128, NamedStatement>,
    /// The error of a request, until it is reported.
    failed: Option<PgError>,
    /// True if a transaction was open when the server was last ready.
    in_transaction: bool,
    /// True if statements must be prepared again.
    is_stale: bool,
}

/// A named statement.
struct NamedStatement {
    name: String,
    /// The types of its columns; `None` until the server has described them.
    columns: Option<Arc<[u32]>>,
    last_use: u64,
}

/// A request whose response was not read yet.
enum Request {
    Statement {
        /// The statement, if it has a name.
        key: Option<u128>,
        is_new: bool,
        columns: Option<Arc<[u32]>>,
        /// The claim for the rows, if the caller needs them.
        ticket: Option<Ticket>,
        rows: Rows,
    },
    /// The end of a group, or statements without values.
    Group,
}

impl Link {
    /// Connects to the database.
    pub(crate) fn open(place: &DatabaseLocation) -> Result<Self, PgError> {
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

    /// Connects to the database for many transactions. On a direct connection,
    /// settings are sent once, and statements have names.
    pub(crate) fn open_for_many(place: &DatabaseLocation) -> Result<Self, PgError> {
        let mut link = Self::open(place)?;
        let Some(told) = link.wire.process else {
            return Ok(link);
        };
        // A pooler reports its own number, because it forwards cancel requests
        // itself.
        let rows = link.query("SELECT pg_backend_pid()", &[])?;
        if rows.integer(0, 0) == Some(i64::from(told)) {
            link.query(&place.session_settings, &[])?;
            link.is_direct = true;
        }
        Ok(link)
    }

    /// Begins a transaction with the next request.
    pub(crate) fn begin(&mut self, begin: &str, place: &DatabaseLocation) {
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
            // No request is pending: the message has the reason why the server
            // closes the connection.
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

    /// Returns true when statements must be prepared again.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_direct && self.exchange.is_stale
    }

    /// Returns the reason why the connection has ended.
    pub(crate) fn end(&self) -> PgError {
        let unknown = || PgError::Io("the connection was closed".to_owned());
        self.ended.clone().unwrap_or_else(unknown)
    }

    /// Returns the reason why the connection has ended, or `error` if it has
    /// not.
    pub(crate) fn ended_with(&self, error: PgError) -> PgError {
        self.ended.clone().unwrap_or(error)
    }

    fn end_with(&mut self, error: PgError) {
        // The last error of the server has more information than a closed
        // connection.
        let told = self.exchange.failed.take();
        let told = told.filter(PgError::ends_connection);
        self.ended = Some(told.unwrap_or(error));
    }

    /// Drops the responses that were not taken.
    pub(crate) fn forget(&mut self) {
        self.exchange.answers.clear();
        self.exchange.failed = None;
    }

    /// Rolls back the transaction without waiting. Unsent requests are dropped.
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

    /// Sends the collected requests.
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
            // The server may have sent the reason before it closed the
            // connection.
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

    /// Sends the collected requests and reads all responses. Fails with the
    /// first error.
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

    /// Collects a request for a named statement. Returns true if the server
    /// must parse it first.
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
        // The name has a hash of the statement, so that two statements never
        // share a name. The number distinguishes a statement that was closed
        // and prepared again.
        let name = format!("contexture_{key:032x}_{}", self.uses);
        encode::parse(&mut self.out, &name, sql, arguments);
        encode::execute(&mut self.out, &name, arguments);
        let known = NamedStatement {
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

    /// Waits when many requests were collected.
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

    /// Sends a statement with the next request, which reports its error.
    pub(crate) fn send_statement(&mut self, sql: &str, values: &[Value<'_>]) {
        self.add_values(sql, values, None);
        self.limit();
    }

    /// Sends a statement whose parameters can be arrays with the next request.
    pub(crate) fn send_arguments(&mut self, sql: &str, arguments: &[Argument<'_>]) {
        self.add(sql, arguments, None);
        self.limit();
    }

    /// Sends a query with the next request. Its rows can be taken afterwards.
    pub(crate) fn send_query(&mut self, sql: &str, values: &[Value<'_>]) -> Ticket {
        let ticket = self.ticket();
        self.add_values(sql, values, Some(ticket));
        ticket
    }

    /// Returns the rows of a query, once, if they have arrived.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Rows> {
        let answers = &mut self.exchange.answers;
        let at = answers.iter().position(|(of, _)| *of == ticket)?;
        Some(answers.swap_remove(at).1)
    }

    /// Reads the responses to all requests. Returns the first error.
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

    /// Commits the transaction. Fails if the server has rolled it back.
    pub(crate) fn commit(&mut self) -> Result<(), PgError> {
        let rows = self.query("COMMIT", &[])?;
        match rows.is_rolled_back {
            // An earlier error was not reported.
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

    /// Sends a query whose parameter is an array of numbers with the next
    /// request. Its rows can be taken afterwards.
    pub(crate) fn send_array_query(&mut self, sql: &str, of: &[Value<'_>]) -> Ticket {
        let ticket = self.ticket();
        let array = Argument::Many(SqlType::Integer, of.iter().collect());
        self.add(sql, &[array], Some(ticket));
        ticket
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
    /// Handles a message of the server.
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
                // The server skipped the requests up to the end of the group.
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
            // Notices, settings, and completions.
            _ => {}
        }
    }

    /// Handles a request that the server skipped.
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

/// Returns the column types in a message.
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

/// Returns a hash of a statement and the types of its parameters.
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

/// Calls `wait`, which blocks. A runtime must know about threads that block,
/// and a server opens its store in one.
fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}
