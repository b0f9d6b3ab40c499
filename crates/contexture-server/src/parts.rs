//! Answers that are sent in parts, while a thread makes them.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::StreamExt as _;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::problem::Problem;

/// A part of a response, or the error that ended it.
pub(crate) type Part = Result<Bytes, Problem>;

/// Sends parts from the thread that makes them.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) to: mpsc::Sender<Part>,
    runtime: Handle,
    patience: Duration,
}

/// Returns both ends of an answer. At most `waiting` parts wait for the client, each
/// for at most `patience`.
pub(crate) fn parts(waiting: usize, patience: Duration) -> (Sender, mpsc::Receiver<Part>) {
    let (to, receiver) = mpsc::channel(waiting);
    let runtime = Handle::current();
    let sender = Sender {
        to,
        runtime,
        patience,
    };
    (sender, receiver)
}

impl Sender {
    /// Sends a part. Returns false if the client stopped reading: it must not block
    /// the thread forever.
    pub(crate) fn send(&self, part: impl Into<Bytes>) -> bool {
        let sending = self.to.send_timeout(Ok(part.into()), self.patience);
        self.runtime.block_on(sending).is_ok()
    }
}

/// Returns the body of an answer. Fails with the problem that came before the first
/// part: it can still be answered with a status.
pub(crate) async fn body(mut receiver: mpsc::Receiver<Part>) -> Result<Body, Problem> {
    let first = match receiver.recv().await {
        Some(first) => first?,
        None => return Err(Problem::failure("a stream ended before it began")),
    };
    let rest = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        let part = part.map_err(|problem| io::Error::other(problem.message));
        Some((part, receiver))
    });
    let first = futures_util::stream::once(async { Ok::<_, io::Error>(first) });
    Ok(Body::from_stream(first.chain(rest)))
}
