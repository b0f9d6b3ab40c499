//! What went wrong, as it is answered.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contexture::{Cause, Error, Refused};
use schemars::JsonSchema;
use serde::Serialize;

/// What went wrong, as it is answered.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// A stable word for programs.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
    pub(crate) hint: Option<String>,
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
    /// What to do about it, when that is known.
    hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            field: None,
            hint: None,
            detail: None,
            retry_after: None,
        }
    }

    /// Returns a problem with what was sent, that a look at the schema shows.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Returns a problem with what was sent, that a schema cannot show.
    pub(crate) fn senseless(message: impl Into<String>) -> Self {
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
            hint: Some("look for the answer's `x-request-id` in the server's log".to_owned()),
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
        }
    }

    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into()).filter(|field| !field.is_empty());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
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
            hint: match error.hint_text() {
                Some(hint) => hint_over_http(hint),
                None if error.cause() == Cause::Exists => Some("take another name".to_owned()),
                None => None,
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
            ..Self::senseless(with_fields(&refused.to_string())).hint(hint)
        }
    }
}

/// Commands in hints, and what does the same over HTTP. The longer ones come
/// first.
const COMMANDS: [(&str, &str); 16] = [
    ("`contexture session list`", "`GET /v1/sessions`"),
    ("`session new`", "`POST /v1/sessions`"),
    (
        "`contexture session history`",
        "`GET /v1/sessions/{label}/history`",
    ),
    ("`contexture tree list`", "`GET /v1/trees`"),
    ("`tree import`", "`POST /v1/trees`"),
    (
        "`contexture tree show TREE`",
        "`GET /v1/trees/{tree}/document`",
    ),
    ("`contexture task show`", "`GET /v1/tasks`"),
    ("`contexture task push`", "`POST /v1/tasks`"),
    ("`task push`", "`POST /v1/tasks`"),
    ("`task list`", "`GET /v1/stacks`"),
    ("`contexture memory export`", "`GET /v1/memory/records`"),
    ("`contexture memory record`", "`POST /v1/memory/records`"),
    ("`contexture memory reembed`", "`POST /v1/memory/reembed`"),
    ("`contexture snapshot list`", "`GET /v1/snapshots`"),
    ("`contexture recipe list`", "`GET /v1/recipes`"),
    ("`contexture init`", "`contexture init` on the server"),
];

/// Commands about one thing, and the route above and below its name.
const COMMANDS_FOR_ONE: [(&str, &str, &str); 2] = [
    ("`contexture session history ", "/v1/sessions", "history"),
    ("`contexture tree show ", "/v1/trees", "document"),
];

/// Returns what a hint for the command line says to somebody who calls over
/// HTTP: options are fields, commands are routes. `None` when it names a
/// command for which there is no route.
fn hint_over_http(hint: &str) -> Option<String> {
    let mut text = hint.to_owned();
    for (command, route) in COMMANDS {
        text = text.replace(command, route);
    }
    for (command, above, below) in COMMANDS_FOR_ONE {
        if let Some((before, rest)) = text.split_once(command)
            && let Some((name, behind)) = rest.split_once('`')
        {
            text = format!("{before}`GET {above}/{name}/{below}`{behind}");
        }
    }
    if text.contains("`contexture ") && !text.contains("on the server") {
        return None;
    }
    Some(with_fields(&text))
}

/// Returns a text with the fields that options of the command line stand for:
/// `model` for `--model NAME`.
fn with_fields(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, option) = rest.split_at(at);
        let name = option[2..]
            .find(|c: char| !(c.is_ascii_lowercase() || c == '-'))
            .map_or(&option[2..], |end| &option[2..2 + end]);
        out.push_str(before);
        match name {
            "" => out.push_str("--"),
            name => {
                out.push('`');
                out.push_str(&name.replace('-', "_"));
                out.push('`');
            }
        }
        rest = &option[2 + name.len()..];
        if !name.is_empty() {
            rest = without_placeholder(rest);
        }
    }
    out.push_str(rest);
    out
}

/// Returns what stands behind an option, without the word in capitals for what
/// it takes.
fn without_placeholder(rest: &str) -> &str {
    let Some(word) = rest.strip_prefix(' ') else {
        return rest;
    };
    let end = word.find(|c: char| !c.is_ascii_uppercase());
    let (word, behind) = word.split_at(end.unwrap_or(word.len()));
    let is_whole = !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    match word.len() >= 2 && is_whole {
        true => behind,
        false => rest,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let answer = ErrorAnswer {
            error: ErrorBody {
                code: self.code,
                message: self.message,
                field: self.field,
                hint: self.hint,
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
        response.extensions_mut().insert(Told {
            code: self.code,
            detail: self.detail,
        });
        response
    }
}

/// What the log says about a problem, carried beside its answer.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) code: &'static str,
    pub(crate) detail: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_speak_of_fields_and_routes() {
        for (hint, over_http) in [
            (
                "raise --max-tokens or lower the reserves",
                "raise `max_tokens` or lower the reserves",
            ),
            (
                "`contexture session list` shows those there are; `session new` makes one",
                "`GET /v1/sessions` shows those there are; `POST /v1/sessions` makes one",
            ),
            ("a -- b", "a -- b"),
            ("give --model NAME", "give `model`"),
            ("give --max-tokens 1 or more", "give `max_tokens` 1 or more"),
            (
                "give --head NODE; `contexture tree show story` shows them",
                "give `head`; `GET /v1/trees/story/document` shows them",
            ),
            (
                "`contexture tree show TREE` shows them",
                "`GET /v1/trees/{tree}/document` shows them",
            ),
        ] {
            assert_eq!(hint_over_http(hint).as_deref(), Some(over_http));
        }
        assert_eq!(hint_over_http("`contexture tree path save` does it"), None);
    }
}
