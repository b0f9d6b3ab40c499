//! Reads request bodies within limits of size and time.
//!
//! Large bodies need a permit for their memory. Compressed bodies and other
//! media types than JSON are rejected with status 415.

use std::ops::Deref;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::app::{App, BodyMemory};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// The size up to which a body is accepted without a memory permit, in bytes.
/// Small bodies do not wait for clients that send large bodies slowly.
const SMALL: usize = 64 << 10;

/// A whole body. It holds its memory permit until it is dropped.
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    _memory: Option<BodyMemory>,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The reader of a body, with its size limit.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) app: &'a App,
    /// The tenant whose memory the body uses.
    pub(crate) tenant: &'a Tenant,
    /// The maximum size, in bytes.
    pub(crate) most: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader with the limit of most operations.
    pub(crate) fn new(app: &'a App, tenant: &'a Tenant) -> Self {
        let most = app.config().max_body_bytes;
        Self { app, tenant, most }
    }
}

/// Reads a body of JSON.
pub(crate) async fn json(
    reader: Reader<'_>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, Problem> {
    // A call in which every field has a default needs no body.
    if !headers.contains_key(header::CONTENT_TYPE) && body.is_end_stream() {
        return Ok(Received {
            bytes: Bytes::from_static(b"{}"),
            _memory: None,
        });
    }
    match media(headers)? {
        Media::Json => whole(reader, headers, body).await,
        Media::Lines => Err(wrong_media(
            "this operation accepts one JSON object, not NDJSON",
            SEND_JSON,
        )),
    }
}

/// Reads a body of JSON, NDJSON or server-sent events, for an operation that
/// finds out itself what the body is.
pub(crate) async fn recording(
    reader: Reader<'_>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, Problem> {
    if !is_event_stream(headers) {
        media(headers)?;
    }
    whole(reader, headers, body).await
}

/// Returns true for a body of server-sent events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let sent = headers.get(header::CONTENT_TYPE);
    let sent = sent.and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    let media = sent.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("text/event-stream")
        && !headers.contains_key(header::CONTENT_ENCODING)
}

/// Rejects a body of a call that has none: its fields would be ignored silently.
pub(crate) async fn none(app: &App, body: Body) -> Result<(), Problem> {
    if body.is_end_stream() {
        return Ok(());
    }
    // Some clients announce a body and send an empty one.
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let read = Limited::new(body, 0).collect();
    match tokio::time::timeout(patience, read).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(
            Problem::bad_request("unexpected_body", "this operation accepts no body")
                .hint("send the call without a body"),
        ),
    }
}

/// The media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    /// One JSON value.
    Json,
    /// NDJSON: one JSON value per line.
    Lines,
}

/// Returns the media type of a body, from its `Content-Type`.
pub(crate) fn media(headers: &HeaderMap) -> Result<Media, Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| encoding != "identity") {
        return Err(wrong_media(
            "the body is compressed",
            "send the body uncompressed, without `Content-Encoding`",
        ));
    }
    let sent = headers.get(header::CONTENT_TYPE);
    let sent = sent.and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    let (media, parameters) = sent.split_once(';').unwrap_or((sent, ""));
    let parameters = parameters.trim().to_ascii_lowercase();
    if let Some(charset) = parameters.strip_prefix("charset=")
        && !matches!(charset.trim_matches('"'), "utf-8" | "utf8")
    {
        let message = format!("the body has the charset `{charset}` instead of UTF-8");
        return Err(wrong_media(&message, SEND_JSON));
    }
    match media.trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(Media::Json),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(Media::Lines),
        "" => Err(wrong_media("the body has no `Content-Type`", SEND_JSON)),
        _ => {
            let sent: String = media.trim().chars().take(60).collect();
            let message = format!("the body has the `Content-Type` `{sent}` instead of JSON");
            Err(wrong_media(&message, SEND_JSON))
        }
    }
}

const SEND_JSON: &str = "send `Content-Type: application/json`";

fn wrong_media(message: &str, hint: &str) -> Problem {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Problem::new(status, "unsupported_media_type", message).hint(hint)
}

async fn whole(reader: Reader<'_>, headers: &HeaderMap, body: Body) -> Result<Received, Problem> {
    let Reader { app, tenant, most } = reader;
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) {
        return Err(too_large(most));
    }
    // A body without a length can be as large as the limit.
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.unwrap_or(most);
    let memory = match length > SMALL {
        true => Some(app.reserve_body(tenant, length).await?),
        false => None,
    };
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let read = Limited::new(body, most).collect();
    match tokio::time::timeout(patience, read).await {
        Ok(Ok(read)) => Ok(Received {
            bytes: read.to_bytes(),
            _memory: memory,
        }),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(most)),
        Ok(Err(_)) => Err(Problem::bad_request(
            "truncated",
            "the connection was closed before the end of the body",
        )),
        Err(_) => Err(too_slow()),
    }
}

pub(crate) fn too_large(most: usize) -> Problem {
    let message = format!("the body is larger than the limit of {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
        .hint("send less per call, or raise `max_body_bytes` in the server's settings")
}

pub(crate) fn too_slow() -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "timeout",
        "the body did not arrive in time",
    )
}
