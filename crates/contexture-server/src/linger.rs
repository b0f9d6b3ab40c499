//! Hanging up so that the last answer is still heard.
//!
//! A connection that is closed while bytes lie unread in it is reset, and the
//! answer is lost to a client that sends all of its body before it listens: it
//! would see a broken pipe where it was told what is wrong. So what still comes
//! is read and forgotten for a while, after the answer and the end were sent.
//!
//! Who does not read its answer is not waited for without end, either.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// How long nothing may come before it is taken that nothing will.
const QUIET: Duration = Duration::from_millis(200);

/// A connection that is closed in this way.
pub(crate) struct Linger {
    stream: TcpStream,
    patience: Duration,
    state: State,
    // Runs while the other side takes nothing of what is sent to it.
    stalled: Option<Pin<Box<Sleep>>>,
}

enum State {
    Open,
    /// The end was sent, and what still comes is waited for: the next of it for
    /// so long, all of it for so long.
    Ended {
        quiet: Pin<Box<Sleep>>,
        end: Pin<Box<Sleep>>,
    },
}

impl Linger {
    /// Waits for as long as `patience` when the connection is closed, and when
    /// the other side takes nothing.
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            state: State::Open,
            stalled: None,
        }
    }

    /// Fails what was written when nothing has moved for too long.
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
        // Of a TCP stream it has nothing to wait for.
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
                // The other side is done, too, or gone.
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
