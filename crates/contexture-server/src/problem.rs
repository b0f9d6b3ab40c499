//! The answer to a call that fails.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use contexture_api::ErrorResponse;
pub(crate) use contexture_api::Problem;

/// Turns a problem into an answer.
pub(crate) trait Respond {
    /// Returns the answer.
    fn into_response(self) -> Response;
}

impl Respond for Problem {
    fn into_response(mut self) -> Response {
        // Only an answer over HTTP has the header.
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            self = self.hint("search the server's log for the answer's `x-request-id`");
        }
        let (status, retry_after) = (self.status, self.retry_after);
        let text = ErrorText {
            code: self.code,
            detail: self.detail.take(),
        };
        let body = serde_json::to_vec(&ErrorResponse::from(self)).unwrap_or_default();
        let json = HeaderValue::from_static("application/json");
        let mut response = (status, [(header::CONTENT_TYPE, json)], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response.extensions_mut().insert(text);
        response
    }
}

/// The code and the details of a problem. The response carries both to the log
/// as an extension.
#[derive(Debug, Clone)]
pub(crate) struct ErrorText {
    /// The stable code of the problem.
    pub(crate) code: &'static str,
    /// Details for the log only.
    pub(crate) detail: Option<Box<str>>,
}
