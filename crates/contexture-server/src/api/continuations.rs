//! Continues a tree with the configured model, as a stream of NDJSON.
//!
//! The texts are sent while the model writes them. A client that disconnects
//! ends the call; samples that are not complete then are not added.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Request, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use contexture::{MAX_SAMPLES, SampleEvent};
use futures_util::StreamExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::app::App;
use crate::body;
use crate::operation::{self, Api, Nothing, Operation, ResponseBody};
use crate::problem::Problem;

/// The maximum number of events in the queue.
const WAITING: usize = 64;

/// The tree in the path of the call.
#[derive(Debug, Deserialize, JsonSchema)]
struct InTree {
    /// The id of the tree.
    tree: String,
}

/// Where and how a tree is continued.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ContinueRequest")]
#[serde(default, deny_unknown_fields)]
struct ContinueBody {
    /// The node to continue, by id or short name. Default: the end of the saved
    /// path, otherwise the agent's position, otherwise the only leaf.
    head: Option<String>,
    /// The name of a saved path to follow. Default: none.
    path: Option<String>,
    /// The id of the agent that writes. Default: none.
    agent: Option<String>,
    /// The number of samples, from 1 to 16. Each becomes a node. Default: 1.
    #[schemars(range(min = 1, max = MAX_SAMPLES))]
    samples: Option<usize>,
    /// The maximum number of tokens of the request and the response together.
    /// Default: the window of the model.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
}

pub(super) fn add(api: &mut Api) {
    let id = "continue_tree";
    let mut operation = Operation::post("/v1/trees/{tree}/continuations", id)
        .says(
            "Continue a tree",
            "Sends the request for a node to the model of `[loom.model]` and adds each sample as \
             a new node. The response is a stream: one JSON object per line, with the texts while \
             they are written, and the node or the error of each sample.",
        )
        .refuses(&[404, 422]);
    operation.response = ResponseBody::Stream {
        media: "application/x-ndjson",
        schema: api.outputs.subschema_for::<SampleEvent>(),
    };
    api.add_route::<InTree, Nothing, ContinueBody>(operation, |filter| {
        on(filter, move |State(app), request| {
            continue_tree(app, request, id)
        })
    });
}

async fn continue_tree(app: App, request: Request<Body>, id: &'static str) -> Response {
    match start(app, request, id).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn start(app: App, request: Request<Body>, id: &'static str) -> Result<Response, Problem> {
    let (mut parts, incoming) = request.into_parts();
    let InTree { tree } = operation::path(&mut parts).await?;
    let _: Nothing = operation::query(&parts)?;
    let tenant = app.tenant(&parts).await?;
    let reader = body::Reader::new(&app, &tenant);
    let bytes = body::json(reader, &parts.headers, incoming).await?;
    let most = crate::json::MOST_VALUES;
    let body: ContinueBody = crate::json::read(app.schemas(), id, &bytes, most)?;
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, Problem>>(WAITING);
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let runtime = tokio::runtime::Handle::current();
    tokio::spawn(async move {
        let failed = sender.clone();
        let work = app.run_stream(tenant, move |tenant, _| {
            let request = contexture::Request {
                tree: Some(tree),
                head: body.head,
                path: body.path,
                agent: body.agent,
                max_tokens: body.max_tokens,
                ..contexture::Request::default()
            };
            let tell = |event: SampleEvent| {
                let Ok(mut line) = serde_json::to_vec(&event) else {
                    return false;
                };
                line.push(b'\n');
                // A client that does not read must not block the thread forever.
                let sent = sender.send_timeout(Ok(Bytes::from(line)), patience);
                runtime.block_on(sent).is_ok()
            };
            let (root, engine) = (&tenant.root, &tenant.engine);
            let samples = body.samples.unwrap_or(1);
            engine.continue_tree(root, &request, samples, Some(tenant.now()), &tell)?;
            Ok(())
        });
        if let Err(problem) = work.await {
            let _ = failed.send(Err(problem)).await;
        }
    });
    // An error before the first byte can still be answered with a status.
    let first = match receiver.recv().await {
        Some(first) => first?,
        None => return Err(Problem::failure("a continuation ended before it began")),
    };
    let rest = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        let part = part.map_err(|problem| io::Error::other(problem.message));
        Some((part, receiver))
    });
    let first = futures_util::stream::once(async { Ok::<_, io::Error>(first) });
    let lines = HeaderValue::from_static("application/x-ndjson");
    let body = Body::from_stream(first.chain(rest));
    Ok(([(header::CONTENT_TYPE, lines)], body).into_response())
}
