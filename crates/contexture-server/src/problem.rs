//! What went wrong, as it is answered.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contexture::{Advice, Cause, Error, Refused, advice};
use schemars::JsonSchema;
use serde::Serialize;

use crate::face::Http;

/// What went wrong, as it is answered.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// A stable word for programs.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
    /// What can be done about it.
    pub(crate) advice: Vec<Advice>,
    /// For the log only: it may name places of this machine.
    pub(crate) detail: Option<Box<str>>,
    /// In how many seconds it may be tried again.
    pub(crate) retry_after: Option<u32>,
}

/// What is answered when something went wrong.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorAnswer {
    /// What went wrong.
    error: ErrorBody,
}

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ErrorBody")]
pub(crate) struct ErrorBody {
    /// A stable word for programs, such as `not_found`.
    code: &'static str,
    /// What went wrong, for people.
    message: String,
    /// The field that is wrong, such as `messages[2].content`, when that is
    /// known.
    field: Option<String>,
    /// What to do about it, for people, when that is known.
    hint: Option<String>,
    /// The same for programs: each entry is one thing to do.
    advice: Vec<Advice>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
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

    /// Returns a problem with what was sent, that a look at the schema shows.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Returns a problem with what was sent, that a schema cannot show.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", message)
    }

    /// Returns a problem with a name that nothing has.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Returns a problem that goes away by itself.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        }
    }

    /// Returns a failure of ours.
    pub(crate) fn failure(detail: impl Into<Box<str>>) -> Self {
        let message = "something failed here; the log has the details";
        Self {
            detail: Some(detail.into()),
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
        }
    }

    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into()).filter(|field| !field.is_empty());
        self
    }

    /// Adds what can be done about it, as a text that reads the same to every
    /// caller.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.advise(Advice::from(hint.into()))
    }

    /// Adds what can be done about it.
    pub(crate) fn advise(mut self, advice: Advice) -> Self {
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
            Cause::Missing => (StatusCode::NOT_FOUND, "not_found"),
            Cause::Exists => (StatusCode::CONFLICT, "exists"),
            Cause::Conflict => (StatusCode::CONFLICT, "conflict"),
            Cause::Denied => (StatusCode::FORBIDDEN, "forbidden"),
            Cause::Unavailable => {
                return Self {
                    detail: Some(message.into()),
                    ..Self::unavailable("the store cannot be used now; try again")
                };
            }
            Cause::Late => {
                return Self::unavailable("it was not done in time; try again");
            }
            Cause::Failure => return Self::failure(message),
        };
        let code = error.code().map_or(code, |action| action.as_str());
        // The code of an action stands before its message, for those who see
        // nothing else.
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
        let hint = "the provider would refuse this request; nothing was sent";
        Self {
            code: "refused_by_provider",
            ..Self::unprocessable(refused.to_string()).hint(hint)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        // Only an answer over HTTP has such a header.
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            self = self.hint("search the server's log for the answer's `x-request-id`");
        }
        let answer = ErrorAnswer {
            error: ErrorBody {
                code: self.code,
                message: self.message,
                field: self.field,
                hint: advice::phrase(&self.advice, &Http),
                advice: self.advice,
            },
        };
        let body = serde_json::to_vec(&answer).unwrap_or_default();
        let json = HeaderValue::from_static("application/json");
        let mut response = (self.status, [(header::CONTENT_TYPE, json)], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response.extensions_mut().insert(ErrorText {
            code: self.code,
            detail: self.detail,
        });
        response
    }
}

/// What the log says about a problem, carried beside its answer.
#[derive(Debug, Clone)]
pub(crate) struct ErrorText {
    pub(crate) code: &'static str,
    pub(crate) detail: Option<Box<str>>,
}
