//! Reading bodies: no larger than may be, and no longer than may be waited for.

use std::ops::Deref;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::problem::Problem;

/// Up to how many bytes a body is let in when there is no room for large ones:
/// those who send large ones slowly must not hold up everybody.
const SMALL: usize = 64 << 10;

/// A whole body. It takes up room for as long as it is held.
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body of JSON.
pub(crate) async fn json(app: &App, headers: &HeaderMap, body: Body) -> Result<Received, Problem> {
    // Where everything has a default, nothing need be sent.
    if !headers.contains_key(header::CONTENT_TYPE) && body.is_end_stream() {
        return Ok(Received {
            bytes: Bytes::from_static(b"{}"),
            _room: None,
        });
    }
    match media(headers)? {
        Media::Json => whole(app, headers, body).await,
        Media::Lines => Err(wrong_media(
            "this takes one object, not lines of them",
            SEND_JSON,
        )),
    }
}

/// Refuses a body where none is taken: what it says would not be done.
pub(crate) async fn none(app: &App, body: Body) -> Result<(), Problem> {
    if body.is_end_stream() {
        return Ok(());
    }
    // Some say that there will be one, and send an empty one.
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let read = Limited::new(body, 0).collect();
    match tokio::time::timeout(patience, read).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Problem::bad_request(
            "unexpected_body",
            "this takes no body",
        )),
    }
}

/// What a body says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    /// One JSON value in each line.
    Lines,
}

/// Returns what a body says that it is.
pub(crate) fn media(headers: &HeaderMap) -> Result<Media, Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding != "identity") {
        return Err(wrong_media(
            "the body is compressed",
            "send it uncompressed",
        ));
    }
    let sent = headers.get(header::CONTENT_TYPE);
    let sent = sent.and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    let (media, parameters) = sent.split_once(';').unwrap_or((sent, ""));
    let parameters = parameters.trim().to_ascii_lowercase();
    if let Some(charset) = parameters.strip_prefix("charset=")
        && !matches!(charset.trim_matches('"'), "utf-8" | "utf8")
    {
        return Err(wrong_media("the body is not UTF-8", SEND_JSON));
    }
    match media.trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(Media::Json),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(Media::Lines),
        _ => Err(wrong_media("the body is not said to be JSON", SEND_JSON)),
    }
}

const SEND_JSON: &str = "send `Content-Type: application/json`";

fn wrong_media(message: &str, hint: &str) -> Problem {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Problem::new(status, "unsupported_media_type", message).hint(hint)
}

async fn whole(app: &App, headers: &HeaderMap, body: Body) -> Result<Received, Problem> {
    let most = app.config().max_body_bytes;
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) {
        return Err(too_large(most));
    }
    // Who does not say how much it is may send as much as is taken.
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.unwrap_or(most);
    let room = match length > SMALL {
        true => Some(app.room(length).await?),
        false => None,
    };
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let read = Limited::new(body, most).collect();
    match tokio::time::timeout(patience, read).await {
        Ok(Ok(read)) => Ok(Received {
            bytes: read.to_bytes(),
            _room: room,
        }),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(most)),
        Ok(Err(_)) => Err(Problem::bad_request(
            "truncated",
            "the body ended before it was whole",
        )),
        Err(_) => Err(too_slow()),
    }
}

pub(crate) fn too_large(most: usize) -> Problem {
    let message = format!("the body is larger than the {most} bytes that are taken");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
        .hint("send less at once, or raise `max_body_bytes` in the server's settings")
}

pub(crate) fn too_slow() -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "timeout",
        "the body did not arrive in time",
    )
}
