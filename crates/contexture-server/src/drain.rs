//! Reads the rest of a body that an error answer left unread.
//!
//! HTTP/1.1 sends requests one after the other on a connection. If the server
//! answers before it has read the body, it must read the rest, or say
//! `Connection: close`. Otherwise the client's next request fails.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Request, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Frame, SizeHint};

/// The size up to which the rest of a body is read, in bytes.
const SMALL: usize = 64 << 10;

/// How long the rest of a body can take to arrive.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads small bodies that were not read, and ends the connection after large
/// ones.
pub(crate) async fn drain(mut request: Request<Body>, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    // A client that waits for `100 Continue` has not sent its body.
    let is_sent = !request.headers().contains_key(header::EXPECT);
    let shared = SharedBody(Arc::new(Mutex::new(std::mem::take(request.body_mut()))));
    *request.body_mut() = Body::new(shared.clone());
    let mut response = next.run(request).await;
    // After a success the handler has read the body, or still reads it.
    if response.status().as_u16() < 400 || shared.is_end_stream() {
        return response;
    }
    let is_read = is_sent && {
        let rest = Limited::new(shared, SMALL).collect();
        matches!(tokio::time::timeout(PATIENCE, rest).await, Ok(Ok(_)))
    };
    if !is_read {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// A body that the handler reads, and the middleware after it.
#[derive(Clone)]
struct SharedBody(Arc<Mutex<Body>>);

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        let body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        body.size_hint()
    }
}
