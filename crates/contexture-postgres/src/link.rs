//! One connection, driven by the thread that uses it.
//!
//! Requests can be sent without waiting for their answers, so that several share
//! one round trip. Statements have no names and nothing is left behind after a
//! transaction, so that PgBouncer may hand out another connection for the next.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt as _;
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, NoTls, Row};

use crate::driver::Bound;
use crate::error::PgError;
use crate::place::Place;

/// The rows of a statement that was sent, as soon as they came.
pub(crate) type Received = Arc<Mutex<Option<Vec<Row>>>>;

type Answer = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A connection.
pub(crate) struct Link {
    // `None` only while it is dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    connection: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    /// Why the connection ended.
    ended: Option<PgError>,
    /// The answers to requests that nobody waited for.
    unread: VecDeque<Answer>,
    /// What one of them failed with, if nobody was told yet.
    failed: Option<PgError>,
    /// How often an answer was waited for, on all connections.
    round_trips: Arc<AtomicU64>,
}

/// How many requests are sent before their answers are read.
const MOST_UNREAD: usize = 512;

impl Link {
    /// Connects to the database.
    pub(crate) fn open(place: &Place) -> Result<Self, PgError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| PgError::Io(error.to_string()))?;
        let connect = async {
            Ok::<_, Error>(match &place.tls {
                Some(tls) => {
                    let (client, connection) = place.config.connect(tls.clone()).await?;
                    (client, Box::pin(connection) as Answer)
                }
                None => {
                    let (client, connection) = place.config.connect(NoTls).await?;
                    (client, Box::pin(connection) as Answer)
                }
            })
        };
        let (client, connection): (Client, Answer) = blocking(|| runtime.block_on(connect))?;
        Ok(Self {
            runtime: Some(runtime),
            client: Arc::new(client),
            connection,
            ended: None,
            unread: VecDeque::new(),
            failed: None,
            round_trips: Arc::clone(&place.round_trips),
        })
    }

    /// Returns false when the server has closed the connection.
    pub(crate) fn is_open(&mut self) -> bool {
        if self.ended.is_none() {
            // Has the operating system asked for news first.
            if let Some(runtime) = &self.runtime {
                blocking(|| runtime.block_on(tokio::task::yield_now()));
            }
            self.flush();
        }
        self.is_alive()
    }

    /// Returns false when the connection is known to have ended.
    pub(crate) fn is_alive(&self) -> bool {
        self.ended.is_none() && !self.client.is_closed()
    }

    /// Returns why the connection has ended.
    pub(crate) fn end(&self) -> PgError {
        let unknown = || PgError::Io("the connection was closed".to_owned());
        self.ended.clone().unwrap_or_else(unknown)
    }

    /// Does not read the answers to what was sent.
    pub(crate) fn forget(&mut self) {
        self.unread.clear();
        self.failed = None;
    }

    /// Waits for `future`, and drives the connection meanwhile.
    fn wait<T>(&mut self, future: impl Future<Output = Result<T, Error>>) -> Result<T, PgError> {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let mut future = pin!(future);
        let (connection, ended) = (&mut self.connection, &mut self.ended);
        let Some(runtime) = &self.runtime else {
            return Err(self.end());
        };
        let answer = poll_fn(|cx| {
            // First it sends, then the connection writes and reads.
            if let Poll::Ready(answer) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(answer));
            }
            if ended.is_none()
                && let Poll::Ready(end) = connection.as_mut().poll(cx)
            {
                *ended = Some(end_of(end));
            }
            match future.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                // Nobody will answer any more.
                Poll::Pending if ended.is_some() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        contexture_store::Call::wait();
        match blocking(|| runtime.block_on(answer)) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) if !error.is_closed() => Err(error.into()),
            // The end of the connection says more than that it is closed.
            _ => Err(self.end()),
        }
    }

    /// Sends statements without values, and does not wait for the answer.
    pub(crate) fn send(&mut self, sql: String) {
        let client = Arc::clone(&self.client);
        let answer: Answer = Box::pin(async move { client.batch_execute(&sql).await });
        self.send_request(answer);
    }

    fn send_request(&mut self, mut answer: Answer) {
        let guard = self.runtime.as_ref().map(Runtime::enter);
        let mut cx = Context::from_waker(Waker::noop());
        // The first poll hands the request to the connection.
        match answer.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => self.unread.push_back(Box::pin(async { Err(error) })),
            Poll::Pending => self.unread.push_back(answer),
        }
        if self.unread.len() >= MOST_UNREAD {
            drop(guard);
            if let Err(error) = self.sync() {
                self.failed = Some(error);
            }
        }
    }

    /// Sends a statement with values, and does not wait for the answer.
    pub(crate) fn send_statement(&mut self, sql: String, values: Vec<(Bound, Type)>) {
        let client = Arc::clone(&self.client);
        self.send_request(Box::pin(async move {
            let mut rows = pin!(client.query_typed_raw(&sql, values).await?);
            while let Some(row) = rows.next().await {
                row?;
            }
            Ok(())
        }));
    }

    /// Sends a query, and does not wait for the answer. The rows are in `received`
    /// when a later answer is there.
    pub(crate) fn send_query(
        &mut self,
        sql: String,
        values: Vec<(Bound, Type)>,
        received: Received,
    ) {
        let client = Arc::clone(&self.client);
        self.send_request(Box::pin(async move {
            let rows = query(&client, &sql, values).await?;
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            *received = Some(rows.0);
            Ok(())
        }));
    }

    /// Has the connection write what was sent, without waiting.
    pub(crate) fn flush(&mut self) {
        let _guard = self.runtime.as_ref().map(Runtime::enter);
        let mut cx = Context::from_waker(Waker::noop());
        if self.ended.is_none()
            && let Poll::Ready(end) = self.connection.as_mut().poll(&mut cx)
        {
            self.ended = Some(end_of(end));
        }
    }

    /// Reads the answers to what was sent. Returns the first error.
    pub(crate) fn sync(&mut self) -> Result<(), PgError> {
        let unread = std::mem::take(&mut self.unread);
        self.failed.take().map_or(Ok(()), Err)?;
        if unread.is_empty() {
            return Ok(());
        }
        self.wait(all(unread))
    }

    /// Runs statements without values.
    pub(crate) fn run(&mut self, sql: &str) -> Result<(), PgError> {
        let client = Arc::clone(&self.client);
        let unread = std::mem::take(&mut self.unread);
        self.failed.take().map_or(Ok(()), Err)?;
        self.wait(async move {
            let (before, after) =
                futures_util::future::join(all(unread), client.batch_execute(sql)).await;
            before.and(after)
        })
    }

    /// Runs a statement and returns its rows and how many it changed.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        values: Vec<(Bound, Type)>,
    ) -> Result<(Vec<Row>, u64), PgError> {
        let client = Arc::clone(&self.client);
        let unread = std::mem::take(&mut self.unread);
        self.failed.take().map_or(Ok(()), Err)?;
        self.wait(async move {
            // What was sent before has its answers before.
            let query = query(&client, sql, values);
            let (before, after) = futures_util::future::join(all(unread), query).await;
            before.and(after)
        })
    }

    /// Runs statements in one round trip, and returns the rows of each.
    pub(crate) fn query_all(
        &mut self,
        statements: Vec<(String, Vec<(Bound, Type)>)>,
    ) -> Result<Vec<Vec<Row>>, PgError> {
        let client = Arc::clone(&self.client);
        let unread = std::mem::take(&mut self.unread);
        self.failed.take().map_or(Ok(()), Err)?;
        self.wait(async move {
            let queries = statements.iter().map(|(sql, values)| {
                let rows = query(&client, sql, values.clone());
                async { Ok(rows.await?.0) }
            });
            let queries = futures_util::future::join_all(queries);
            let (before, found) = futures_util::future::join(all(unread), queries).await;
            before?;
            found.into_iter().collect()
        })
    }
}

/// Runs a statement and returns its rows and how many it changed. It is sent when
/// the future is polled first.
async fn query(
    client: &Client,
    sql: &str,
    values: Vec<(Bound, Type)>,
) -> Result<(Vec<Row>, u64), Error> {
    let mut rows = pin!(client.query_typed_raw(sql, values).await?);
    let mut found = Vec::new();
    while let Some(row) = rows.next().await {
        found.push(row?);
    }
    Ok((found, rows.rows_affected().unwrap_or(0)))
}

impl Drop for Link {
    fn drop(&mut self) {
        // Without waiting, which is not allowed in a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
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

/// Waits for answers in their order, and returns the first error.
async fn all(answers: VecDeque<Answer>) -> Result<(), Error> {
    let mut first = Ok(());
    for answer in answers {
        first = first.and(answer.await);
    }
    first
}

fn end_of(end: Result<(), Error>) -> PgError {
    match end {
        Ok(()) => PgError::Io("the connection was closed".to_owned()),
        Err(error) => error.into(),
    }
}
