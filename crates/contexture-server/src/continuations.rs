//! Continues a tree with the configured model, as a stream of NDJSON.
//!
//! The texts are sent while the model writes them. A client that disconnects
//! ends the call; samples that are not complete then are not added.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse as _, Response};
use contexture::SampleEvent;
use contexture_api::continuations::{ContinueBody, InTree};
use contexture_api::{Nothing, StorageKind, json};

use crate::app::App;
use crate::problem::{Problem, Respond as _};
use crate::{answer, body, parts};

/// The maximum number of events in the queue.
const WAITING: usize = 64;

/// Answers with the events of a continuation.
pub(crate) async fn continue_tree(app: App, request: Request<Body>, id: &'static str) -> Response {
    match start(app, request, id).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn start(app: App, request: Request<Body>, id: &'static str) -> Result<Response, Problem> {
    let (mut parts, incoming) = request.into_parts();
    let InTree { tree } = answer::path(&mut parts).await?;
    let _: Nothing = answer::query(&parts)?;
    let tenant = app.tenant(&parts).await?;
    tenant.check_quota(StorageKind::Nodes)?;
    let reader = body::Reader::new(&app, &tenant);
    let bytes = body::json(reader, &parts.headers, incoming).await?;
    let body: ContinueBody = json::read(app.schemas(), id, &bytes, json::MOST_VALUES)?;
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let (sender, receiver) = parts::parts(WAITING, patience);
    tokio::spawn(async move {
        let failed = sender.to.clone();
        let work = app.run_stream(tenant, move |tenant, _| {
            let (request, samples) = body.into_request(tree);
            let tell = |event: SampleEvent| {
                let Ok(mut line) = serde_json::to_vec(&event) else {
                    return false;
                };
                line.push(b'\n');
                sender.send(line)
            };
            let (root, engine) = (&tenant.root, &tenant.engine);
            engine.continue_tree(root, &request, samples, Some(tenant.now()), &tell)?;
            Ok(())
        });
        if let Err(problem) = work.await {
            let _ = failed.send(Err(problem)).await;
        }
    });
    let body = parts::body(receiver).await?;
    let lines = HeaderValue::from_static("application/x-ndjson");
    Ok(([(header::CONTENT_TYPE, lines)], body).into_response())
}
