//! Hanging up so that the last answer is still heard.
//!
//! A connection that is closed while bytes lie unread in it is reset, and the
//! answer is lost to a client that sends all of its body before it listens: it
//! would see a broken pipe where it was told what is wrong. So what still comes
//! is read and forgotten for a while, after the answer and the end were sent.

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
    /// Waits for as long as `patience` when the connection is closed.
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            state: State::Open,
        }
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
