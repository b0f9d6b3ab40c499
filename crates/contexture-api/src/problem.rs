//! Errors of calls, and their body over HTTP.
//!
//! A [`Problem`] has a status, a stable code, a message and advice as data. HTTP
//! and MCP phrase the advice in their own words. Details for the operator go to
//! the log only.

use contexture::{Advice, Cause, Error, Refused, advice};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::interface::Http;

/// An error of a call, before a face turns it into an answer.
#[derive(Debug)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// A stable code for programs.
    pub code: &'static str,
    /// The error message, with the invalid value.
    pub message: String,
    /// The field or argument with the error.
    pub field: Option<String>,
    /// The remedies, as data.
    pub advice: Vec<Advice>,
    /// Details for the log only: they can name paths of this machine.
    pub detail: Option<Box<str>>,
    /// The number of seconds after which a retry makes sense.
    pub retry_after: Option<u32>,
}

/// An error response.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorResponse {
    /// The error.
    error: ErrorBody,
}

/// An error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ErrorBody")]
pub struct ErrorBody {
    /// A stable code for programs, such as `not_found`.
    code: &'static str,
    /// The error message, for people.
    message: String,
    /// The path of the field with the error, such as `messages[2].content`.
    /// Null if the error has no field.
    field: Option<String>,
    /// The recommended action, for people. Null if there is none.
    hint: Option<String>,
    /// The recommended actions, for programs.
    advice: Vec<Advice>,
}

impl Problem {
    /// Returns a problem with a status and a stable code.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            field: None,
            advice: Vec::new(),
            detail: None,
            retry_after: None,
        }
    }

    /// Returns a problem with a call that does not match the OpenAPI document.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Returns a problem with a call that matches the document and is invalid.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// Returns a problem with a name or id that does not exist.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Returns a temporary problem: the caller can retry.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        }
    }

    /// Returns an internal error. The caller does not see the detail.
    pub fn failure(detail: impl Into<Box<str>>) -> Self {
        let message = "internal error; the server's log has the details";
        Self {
            detail: Some(detail.into()),
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
        }
    }

    /// Sets the field or argument with the error.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into()).filter(|field| !field.is_empty());
        self
    }

    /// Adds advice as a text that reads the same in every face.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.advise(Advice::from(hint.into()))
    }

    /// Adds advice.
    pub fn advise(mut self, advice: Advice) -> Self {
        self.advice.push(advice);
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let (status, code) = match error.cause() {
            Cause::Input => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            Cause::OverBudget => (StatusCode::UNPROCESSABLE_ENTITY, "over_budget"),
            Cause::CacheBreak => (StatusCode::UNPROCESSABLE_ENTITY, "cache_break"),
            Cause::Missing => (StatusCode::NOT_FOUND, "not_found"),
            Cause::Exists => (StatusCode::CONFLICT, "exists"),
            Cause::Conflict => (StatusCode::CONFLICT, "conflict"),
            Cause::Denied => (StatusCode::FORBIDDEN, "forbidden"),
            Cause::Unavailable => {
                return Self {
                    detail: Some(message.into()),
                    ..Self::unavailable("the store is unavailable")
                        .hint("retry after `retry-after` seconds")
                };
            }
            Cause::Full => {
                return Self {
                    detail: Some(message.into()),
                    ..Self::new(
                        StatusCode::INSUFFICIENT_STORAGE,
                        "store_full",
                        "the disk of the store is full; nothing was written",
                    )
                    .hint("free disk space on the machine of the store, then retry")
                };
            }
            Cause::Damaged => {
                return Self {
                    detail: Some(message.clone().into()),
                    ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged", message)
                };
            }
            Cause::Late => {
                return Self::unavailable("the operation timed out")
                    .hint("retry after `retry-after` seconds");
            }
            Cause::Unknown => {
                return Self {
                    detail: Some(message.into()),
                    retry_after: Some(1),
                    ..Self::new(
                        StatusCode::GATEWAY_TIMEOUT,
                        "unknown_outcome",
                        "the connection to the database was lost during the write: whether it \
                         succeeded is unknown",
                    )
                    .hint(
                        "send the same call with the same `Idempotency-Key` or `x-request-id`, or \
                         read what was stored",
                    )
                };
            }
            Cause::Failure => return Self::failure(message),
        };
        let code = error.code().map_or(code, |action| action.as_str());
        // Errors of actions start with their code, for callers that see only the
        // message. Here the code has a field of its own.
        let message = match message.strip_prefix(code) {
            Some(rest) => rest.trim_start_matches([':', ' ']).to_owned(),
            None => message,
        };
        Self {
            field: error.field().map(str::to_owned),
            advice: match error.advice() {
                [] if error.cause() == Cause::Exists => vec![Advice::from("choose another name")],
                advice => advice.to_vec(),
            },
            ..Self::new(status, code, message)
        }
    }
}

impl From<contexture::store::StoreError> for Problem {
    fn from(error: contexture::store::StoreError) -> Self {
        Error::from(error).into()
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let hint = "the provider would reject this request; nothing was sent";
        Self {
            code: "refused_by_provider",
            ..Self::unprocessable(refused.to_string()).hint(hint)
        }
    }
}

impl From<Problem> for ErrorResponse {
    fn from(problem: Problem) -> Self {
        Self {
            error: ErrorBody {
                code: problem.code,
                message: problem.message,
                field: problem.field,
                hint: advice::phrase(&problem.advice, &Http),
                advice: problem.advice,
            },
        }
    }
}
