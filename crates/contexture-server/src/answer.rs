//! Answers the calls of operations that read JSON and answer JSON.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use contexture_api::{Deployment, Operation, Tenant, Work};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::app::{App, BodyMemory};
use crate::body;
use crate::idempotency::{self, KeyOfCall};
use crate::large_answer::LargeAnswer;
use crate::problem::{Problem, Respond as _};

/// The name under which calls of the admin API wait for a slot. No tenant can
/// have it.
const ADMIN: &str = "/admin";

/// Reads a call, and does the work in a thread. The answer is serialised in that
/// thread, too.
pub(crate) async fn answer(
    app: &App,
    request: Request<Body>,
    operation: &Operation,
    work: &Work<Tenant>,
) -> Response {
    let prepared = async {
        let (mut parts, incoming) = request.into_parts();
        let call = work.read(path_parameters(&mut parts).await?, query_text(&parts))?;
        let key = match operation.is_keyed() {
            true => KeyOfCall::read(&parts)?,
            false => None,
        };
        let tenant = app.tenant(&parts).await?;
        let mut reader = body::Reader::new(app, &tenant);
        if operation.large {
            reader.most = reader.most.max(app.config().max_tree_bytes);
        }
        let bytes = match operation.has_body() {
            true => Some(body::json(reader, &parts.headers, incoming).await?),
            false => body::none(app, incoming).await.map(|()| None)?,
        };
        let reserved = match operation.large_answer {
            true => Some(app.reserve_large_answer(&tenant).await?),
            false => None,
        };
        Ok::<_, Problem>((tenant, call, key, bytes, reserved))
    };
    let (tenant, call, key, bytes, reserved) = match prepared.await {
        Ok(prepared) => prepared,
        Err(problem) => return problem.into_response(),
    };
    let shared = app.clone();
    let name = Arc::clone(&tenant.name);
    let done = app.run(&name, move || {
        let call = call.with_body(shared.schemas(), bytes.as_deref())?;
        let sent: &[u8] = bytes.as_deref().unwrap_or_default();
        let answer = idempotency::run(&tenant, key, sent, || call.run(&tenant))?;
        // The memory of the request is given back first: calls that wait for each
        // other's memory would wait for ever.
        drop(bytes);
        let memory = match reserved {
            Some(reserved) => Some(reserved.shrunk_to(answer.len())),
            None => shared.reserve_answer(&tenant, answer.len())?,
        };
        Ok((answer, memory))
    });
    match done.await {
        Ok((bytes, memory)) => answer_with(operation.status, bytes, memory),
        Err(problem) => problem.into_response(),
    }
}

/// Reads a call of the admin API, and does the work in a thread.
pub(crate) async fn answer_admin(
    app: &App,
    request: Request<Body>,
    operation: &Operation,
    work: &Work<dyn Deployment>,
) -> Response {
    let done = async {
        let (mut parts, incoming) = request.into_parts();
        let call = work.read(path_parameters(&mut parts).await?, query_text(&parts))?;
        // Bodies use the memory of the default tenant.
        let tenant = app.tenant_named("").await?;
        let bytes = match operation.has_body() {
            true => {
                let reader = body::Reader::new(app, &tenant);
                Some(body::json(reader, &parts.headers, incoming).await?)
            }
            false => body::none(app, incoming).await.map(|()| None)?,
        };
        let shared = app.clone();
        app.run(ADMIN, move || {
            let call = call.with_body(shared.schemas(), bytes.as_deref())?;
            call.run(&shared)
        })
        .await
    };
    match done.await {
        Ok(bytes) => json_response(operation.status, bytes),
        Err(problem) => problem.into_response(),
    }
}

/// Returns an answer that gives its memory back when it was sent.
fn answer_with(status: StatusCode, bytes: Vec<u8>, memory: Option<BodyMemory>) -> Response {
    let Some(memory) = memory else {
        return json_response(status, bytes);
    };
    let json = HeaderValue::from_static("application/json");
    let body = Body::new(LargeAnswer::new(bytes, memory));
    (status, [(header::CONTENT_TYPE, json)], body).into_response()
}

pub(crate) fn json_response(status: StatusCode, bytes: Vec<u8>) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], bytes).into_response()
}

/// Returns the path parameters of a call.
pub(crate) async fn path<P: DeserializeOwned>(parts: &mut Parts) -> Result<P, Problem> {
    contexture_api::read_path(path_parameters(parts).await?)
}

async fn path_parameters(parts: &mut Parts) -> Result<Map<String, Value>, Problem> {
    let names = RawPathParams::from_request_parts(parts, &()).await;
    let names = names.map_err(|error| Problem::bad_request("invalid_path", error.body_text()))?;
    Ok(names
        .iter()
        .map(|(name, value)| (name.to_owned(), Value::String(value.to_owned())))
        .collect())
}

/// Returns the query parameters of a call.
pub(crate) fn query<Q: DeserializeOwned>(parts: &Parts) -> Result<Q, Problem> {
    contexture_api::read_query(query_text(parts))
}

fn query_text(parts: &Parts) -> &str {
    parts.uri.query().unwrap_or_default()
}
