//! Records and exports memory as streams of NDJSON.
//!
//! A stream runs in a thread of its own with a bounded queue, so that a fast sender
//! waits for the store and a slow reader does not fill the memory.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use contexture::memory::{Lines, MemoryRecorded};
use contexture_api::{Nothing, to_bytes};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use crate::answer::{self, json_response};
use crate::app::{App, Watch};
use crate::body::{self, Media};
use crate::idempotency::KeyOfCall;
use crate::parts;
use crate::problem::{Problem, Respond as _};
use crate::stream_core::StreamCore;
use crate::tenant::Tenant;

/// The maximum number of parts of a stream in the queue. When the queue is
/// full, the sender waits.
const WAITING: usize = 4;

/// The number of bytes that an export collects before it sends them.
const PART_BYTES: usize = 64 << 10;

/// Returns true if a call has its records as lines. Fails if it has neither lines nor
/// JSON.
pub(crate) fn has_lines(request: &Request<Body>) -> Result<bool, Problem> {
    Ok(body::media(request.headers())? == Media::Lines)
}

/// Records NDJSON line by line.
pub(crate) async fn record(app: &App, request: Request<Body>) -> Response {
    let done = async {
        let (parts, incoming) = request.into_parts();
        let _: Nothing = answer::query(&parts)?;
        KeyOfCall::read(&parts)?;
        let tenant = app.tenant(&parts).await?;
        let done = record_lines(app, tenant, app.watch(&parts)?, incoming).await?;
        to_bytes(&done)
    };
    match done.await {
        Ok(bytes) => json_response(StatusCode::OK, bytes),
        Err(problem) => problem.into_response(),
    }
}

/// Records lines as they arrive. While the store writes, no more lines are read,
/// so that the sender waits.
async fn record_lines(
    app: &App,
    tenant: Arc<Tenant>,
    mut watch: Watch,
    incoming: Body,
) -> Result<MemoryRecorded, Problem> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let limited = Arc::clone(&tenant);
    let keep = app.run_stream(tenant, move |tenant, core| {
        let mut reader = BufReader::new(Parts {
            receiver,
            core: Arc::clone(core),
            part: Bytes::new(),
            ended: false,
        });
        let mut lines = Lines {
            name: "body",
            reader: &mut reader,
            progress: &mut |_, _| {},
        };
        let done = tenant
            .engine
            .memory()?
            .record_lines(&mut lines, tenant.fixed_now())?;
        tenant.observer.remembered(done.added + done.replaced);
        Ok(done)
    });
    let read = async move {
        let mut incoming = incoming.into_data_stream();
        loop {
            let next = tokio::time::timeout(patience, incoming.next());
            let part = tokio::select! {
                part = next => part,
                // The reader stopped because of an error, which is answered at once.
                () = sender.closed() => return None,
            };
            // A stream has no end that is known, so a quota ends it.
            let exceeded = app.check_records(&limited).await.err();
            let part = match part {
                Ok(Some(Ok(_))) if !watch.is_authorized().await => Err("the key was revoked"),
                Ok(Some(Ok(_))) if exceeded.is_some() => Err("the tenant has reached a quota"),
                Ok(Some(Ok(part))) => Ok(Some(part)),
                Ok(None) => Ok(None),
                Ok(Some(Err(_))) => Err("the connection was closed before the end of the body"),
                Err(_) => Err("timeout: no data arrived within `body_timeout_ms`"),
            };
            let has_more = matches!(part, Ok(Some(_)));
            let exceeded = exceeded.filter(|_| part.is_err());
            // Fails if the reader stopped because of an error.
            if sender.send(part).await.is_err() || !has_more {
                return exceeded;
            }
        }
    };
    let (done, exceeded) = tokio::join!(keep, read);
    match (done, exceeded) {
        // Says which lines were recorded before.
        (Err(stopped), Some(exceeded)) => Err(Problem {
            message: format!("{}; {}", exceeded.message, stopped.message),
            ..exceeded
        }),
        (done, _) => done,
    }
}

/// The parts of a body, as a blocking reader.
struct Parts {
    receiver: mpsc::Receiver<Result<Option<Bytes>, &'static str>>,
    core: Arc<StreamCore>,
    part: Bytes,
    ended: bool,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() && !self.ended {
            self.core.give_up();
            match self.receiver.blocking_recv() {
                Some(Ok(Some(part))) => self.part = part,
                Some(Ok(None)) => self.ended = true,
                Some(Err(why)) => return Err(io::Error::other(why)),
                // The caller has disconnected.
                None => {
                    let message = "the connection was closed before the end of the body";
                    return Err(io::Error::other(message));
                }
            }
        }
        self.core.take();
        let length = buffer.len().min(self.part.len());
        buffer[..length].copy_from_slice(&self.part.split_to(length));
        Ok(length)
    }
}

/// Sends every record on a line of its own, as fast as the client reads.
pub(crate) async fn export_all(app: App, request: Request<Body>) -> Response {
    match export(app, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn export(app: App, request: Request<Body>) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let _: Nothing = answer::query(&parts)?;
    let tenant = app.tenant(&parts).await?;
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let (sender, receiver) = parts::parts(WAITING, patience);
    tokio::spawn(async move {
        let failed = sender.to.clone();
        let done = app.run_stream(tenant, move |tenant, core| {
            let mut part = Vec::with_capacity(PART_BYTES * 2);
            let send = |part: &mut Vec<u8>| {
                core.give_up();
                let sent = sender.send(std::mem::take(part));
                core.take();
                match sent {
                    true => Ok(()),
                    false => Err(contexture::Error::input("the client stopped reading")),
                }
            };
            core.take();
            tenant.engine.memory()?.export(&mut |record| {
                let written = serde_json::to_writer(&mut part, record);
                written.map_err(|error| contexture::Error::input(error.to_string()))?;
                part.push(b'\n');
                match part.len() >= PART_BYTES {
                    true => send(&mut part),
                    false => Ok(()),
                }
            })?;
            Ok(send(&mut part)?)
        });
        if let Err(problem) = done.await {
            let _ = failed.send(Err(problem)).await;
        }
    });
    let body = parts::body(receiver).await?;
    let lines = HeaderValue::from_static("application/x-ndjson");
    Ok(([(header::CONTENT_TYPE, lines)], body).into_response())
}
