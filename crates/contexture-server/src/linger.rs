//! Closes connections so that the client can still read the last answer.
//!
//! A TCP connection that is closed with unread bytes is reset. A client that
//! sends its whole body before it reads would then lose the answer and see a
//! broken pipe instead of the error. Therefore the server sends the answer and
//! the end of the stream, and then reads and discards what still arrives, for a
//! limited time.
//!
//! A client that does not read its answer is disconnected after a timeout.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// How long the connection must be silent before it is closed.
const QUIET: Duration = Duration::from_millis(200);

/// A TCP connection that is closed only after the client could read the answer.
pub(crate) struct Linger {
    stream: TcpStream,
    patience: Duration,
    state: State,
    // Runs while the client reads nothing of what is sent to it.
    stalled: Option<Pin<Box<Sleep>>>,
}

enum State {
    Open,
    /// The end of the stream was sent. Incoming bytes are discarded until the
    /// connection is silent (`quiet`) or the time is over (`end`).
    Ended {
        quiet: Pin<Box<Sleep>>,
        end: Pin<Box<Sleep>>,
    },
}

impl Linger {
    /// Creates a connection. `patience` limits how long a close waits, and how
    /// long the client can read nothing.
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            state: State::Open,
            stalled: None,
        }
    }

    /// Returns a timeout error if the client has read nothing for too long.
    fn unless_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Linger {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Linger {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.unless_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.unless_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A TCP stream has no buffer to flush.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let State::Open = this.state {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.state = State::Ended {
                quiet: Box::pin(sleep(QUIET)),
                end: Box::pin(sleep(this.patience)),
            };
        }
        let State::Ended { quiet, end } = &mut this.state else {
            return Poll::Ready(Ok(()));
        };
        let mut bytes = [0; 8 << 10];
        while end.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut this.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    quiet.as_mut().reset(Instant::now() + QUIET);
                }
                // The client has closed its side, or the connection failed.
                Poll::Ready(_) => break,
                Poll::Pending => {
                    ready!(quiet.as_mut().poll(cx));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}
