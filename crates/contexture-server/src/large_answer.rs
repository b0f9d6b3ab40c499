//! Answers that are large, which have their memory reserved until they are sent.
//!
//! An answer waits in memory for a client that reads slowly. Large ones
//! therefore count against the memory for bodies, like large requests. The last
//! part is released when everything before it was sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use crate::app::BodyMemory;

/// The size from which an answer needs memory that is reserved, in bytes. It is
/// also the size of the parts in which an answer is sent.
pub(crate) const LARGE: usize = 64 << 10;

/// A large answer, with its memory.
pub(crate) struct LargeAnswer {
    bytes: Bytes,
    _memory: BodyMemory,
}

impl LargeAnswer {
    pub(crate) fn new(bytes: Vec<u8>, memory: BodyMemory) -> Self {
        Self {
            bytes: bytes.into(),
            _memory: memory,
        }
    }
}

impl HttpBody for LargeAnswer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.bytes.len().min(LARGE);
        let part = self.bytes.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
