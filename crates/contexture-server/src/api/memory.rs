//! Memory: what is to be found again.

use std::io::{self, BufReader, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use contexture::memory::{
    Context, ContextFilters, ContextRequest, Lines, MemoryOverview, MemoryRecorded, Recall,
    Reembedded,
};
use contexture::recall::StrategyPatch;
use contexture::store::{Forget, Forgotten, Record, RecordKind};
use futures_util::StreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;

use crate::app::{App, Watch};
use crate::body::{self, Media};
use crate::operation::{self, Api, Gives, Nothing, Operation, json_response};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// How many parts of a stream may wait. With as many, its sender waits.
const WAITING: usize = 4;

/// How much is written before it is sent on.
const PART_BYTES: usize = 64 << 10;

/// What is to be found again.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RecordsToKeep")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordsBody {
    /// The records: all are recorded, or none.
    #[schemars(length(min = 1, max = 10_000))]
    pub(crate) records: Vec<Record>,
}

/// A text to be found again.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TextToKeep")]
#[serde(deny_unknown_fields)]
struct TextBody {
    /// What it is called, such as its path. What was recorded under that name
    /// before is replaced.
    source: String,
    /// The text. It is split where sentences or blocks of code end.
    text: String,
}

/// What is asked of memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RecallRequest")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecallBody {
    /// What to look for. An empty one finds what is recent and what matters.
    #[serde(default)]
    pub(crate) query: String,
    /// The session one is in: what happened in it counts as recent.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    /// What may be spent, headings included.
    #[schemars(range(min = 1))]
    pub(crate) max_tokens: u64,
    /// The archetype whose strategy is followed. Default: the configured one.
    #[serde(default)]
    pub(crate) archetype: Option<String>,
    /// What is done otherwise than the archetype says.
    #[serde(default)]
    pub(crate) strategy: Option<StrategyPatch>,
    /// What else is to stand at the end, whole.
    #[serde(default)]
    pub(crate) additional_context: Option<String>,
    /// What may be found.
    #[serde(default)]
    pub(crate) filters: Option<ContextFilters>,
    /// Who asks: what is for others only is not found.
    #[serde(default)]
    pub(crate) identity: Vec<String>,
    /// The model whose tokens are counted. Default: the configured one.
    #[serde(default)]
    pub(crate) model: Option<String>,
}

/// Records of one id.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordsFound")]
struct Found {
    /// The records; several where kinds share an id.
    records: Vec<Record>,
}

/// A record, by its id.
#[derive(Debug, Deserialize, JsonSchema)]
struct ById {
    /// The id.
    id: String,
}

/// Which kind is meant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OfKind {
    /// The kind. Default: any.
    kind: Option<RecordKind>,
}

/// What is to be forgotten: one of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ForgetRequest")]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ForgetBody {
    /// What was taken from there: chunks and events of a source.
    Source(String),
    /// What happened there: events and chunks of a session.
    Session(String),
}

/// What was forgotten.
#[derive(Debug, Serialize, JsonSchema)]
struct ForgetAnswer {
    /// How many records, by kind.
    forgotten: Forgotten,
}

pub(crate) fn add(api: &mut Api) {
    let mut recording = Operation::post("/v1/memory/records", "record_memory")
        .says(
            "Record something to be found again",
            "A record whose id is known replaces the one that is there; the same record twice is \
             one. As JSON, all records or none. As lines (`application/x-ndjson`), a thousand at \
             a time, as fast as they can be kept: the sender waits meanwhile, what was recorded \
             before an error stays, and the error says how far that is.",
        )
        .refuses(&[409])
        .example(
            "/v1/memory/records",
            json!({"records": [
                {"kind": "event", "id": "e1", "session_id": "harbour",
                 "timestamp": "2026-01-31T08:00:00Z", "type": "user_message", "actor": "user",
                 "content": {"speaker": "Ana", "text": "The ferry to Skye leaves at nine."}},
                {"kind": "event", "id": "e2", "session_id": "harbour",
                 "timestamp": "2026-01-31T08:01:00Z", "type": "user_message", "actor": "user",
                 "content": {"speaker": "Ben", "text": "I keep my bicycle in the shed."}},
            ]}),
        );
    recording.takes.lines = true;
    recording.gives = Gives::Json(api.outputs.subschema_for::<MemoryRecorded>());
    let id = recording.id;
    api.add_route::<Nothing, Nothing, RecordsBody>(recording, |filter| {
        on(filter, move |State(app), request| record(app, request, id))
    });
    api.add(
        Operation::post("/v1/memory/texts", "record_text")
            .says(
                "Record a text",
                "Such as a file, in parts that are found one by one.",
            )
            .example(
                "/v1/memory/texts",
                json!({"source": "notes.md", "text": "The tide tables are printed in March."}),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: TextBody| -> Result<_, Problem> {
            let memory = tenant.engine.memory()?;
            let done = memory.record_text(&body.source, &body.text, Some(tenant.now()))?;
            tenant.metrics.remembered(done.added + done.replaced);
            Ok::<MemoryRecorded, _>(done)
        },
    );
    api.add(
        Operation::post("/v1/memory/recall", "recall")
            .says(
                "Recall",
                "Finds what helps with a query and fits into the tokens, with the parts of every \
                 score.",
            )
            .refuses(&[404])
            .example(
                "/v1/memory/recall",
                json!({"query": "When does the ferry leave?", "max_tokens": 200}),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: RecallBody| recall(tenant, body),
    );
    api.add(
        Operation::get("/v1/memory/stats", "get_memory_stats")
            .says(
                "Read what is in memory",
                "How many records of each kind, and their vectors.",
            )
            .example("/v1/memory/stats", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<MemoryOverview, Problem> {
            Ok(tenant.engine.memory()?.overview()?)
        },
    );
    let mut export = Operation::get("/v1/memory/records", "export_memory").says(
        "Read all of memory",
        "A record in each line. Recorded elsewhere, they are found as here.",
    );
    export.gives = Gives::Stream {
        media: "application/x-ndjson",
        schema: api.outputs.subschema_for::<Record>(),
    };
    api.add_route::<Nothing, Nothing, Nothing>(export, |filter| on(filter, export_all));
    api.add(
        Operation::get("/v1/memory/records/{id}", "get_record")
            .says("Read a record", "All of that id: kinds may share one.")
            .example("/v1/memory/records/e1", None),
        |tenant: &Tenant, by: ById, _: Nothing, _: Nothing| -> Result<Found, Problem> {
            let records = tenant.engine.memory()?.named(&by.id)?;
            match records.is_empty() {
                true => Err(Problem::missing(format!("there is no record `{}`", by.id))),
                false => Ok(Found { records }),
            }
        },
    );
    api.add(
        Operation::new(Method::DELETE, "/v1/memory/records/{id}", "forget_record")
            .says(
                "Forget a record",
                "With what was known from it alone. It is in no file when this is answered. \
                 Requests that were assembled earlier keep what was sent.",
            )
            .refuses(&[422])
            .example("/v1/memory/records/e2", None),
        |tenant: &Tenant, by: ById, of: OfKind, _: Nothing| {
            let (kind, id) = (of.kind, by.id);
            forget(tenant, &Forget::Id { kind, id })
        },
    );
    api.add(
        Operation::post("/v1/memory/forget", "forget")
            .says(
                "Forget a source or a session",
                "All that was recorded from it.",
            )
            .refuses(&[404])
            .example("/v1/memory/forget", json!({"source": "notes.md"})),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: ForgetBody| {
            let what = match body {
                ForgetBody::Source(source) => Forget::Source(source),
                ForgetBody::Session(session) => Forget::Session(session),
            };
            forget(tenant, &what)
        },
    );
    api.add(
        Operation::post("/v1/memory/reembed", "reembed_memory")
            .says(
                "Make the vectors that are missing",
                "After another embedder was configured, all of them.",
            )
            .example("/v1/memory/reembed", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Reembedded, Problem> {
            Ok(tenant.engine.memory()?.reembed(&mut |_| {})?)
        },
    );
}

/// Records what is in a body of JSON, or line by line.
async fn record(app: App, request: Request<Body>, id: &'static str) -> Response {
    let done = async {
        let (parts, incoming) = request.into_parts();
        let _: Nothing = operation::query(&parts)?;
        let media = body::media(&parts.headers)?;
        let tenant = app.tenant(&parts).await?;
        if media == Media::Lines {
            return record_lines(&app, tenant, app.watch(&parts)?, incoming).await;
        }
        let bytes = body::json(&app, &parts.headers, incoming).await?;
        let shared = app.clone();
        app.run(move || {
            let body: RecordsBody = crate::json::read(shared.schemas(), id, &bytes)?;
            record_all(&tenant, body.records)
        })
        .await
    };
    let done = done.await.and_then(|done| {
        serde_json::to_vec(&done).map_err(|error| Problem::failure(error.to_string()))
    });
    match done {
        Ok(bytes) => json_response(StatusCode::OK, bytes),
        Err(problem) => problem.into_response(),
    }
}

/// Records something, all or nothing.
pub(crate) fn record_all(tenant: &Tenant, records: Vec<Record>) -> Result<MemoryRecorded, Problem> {
    let memory = tenant.engine.memory()?;
    let done = memory.record(records, Some(tenant.now()))?;
    tenant.metrics.remembered(done.added + done.replaced);
    Ok(done)
}

/// Records lines as they come. While some are being kept, no more are read, so
/// that their sender waits.
async fn record_lines(
    app: &App,
    tenant: std::sync::Arc<Tenant>,
    mut watch: Watch,
    incoming: Body,
) -> Result<MemoryRecorded, Problem> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let keep = app.run_stream(tenant, move |tenant| {
        let mut reader = BufReader::new(Parts {
            receiver,
            part: Bytes::new(),
            ended: false,
        });
        let mut lines = Lines {
            name: "body",
            reader: &mut reader,
            progress: &mut |_, _| {},
        };
        let done = tenant
            .engine
            .memory()?
            .record_lines(&mut lines, tenant.fixed_now())?;
        tenant.metrics.remembered(done.added + done.replaced);
        Ok(done)
    });
    let read = async move {
        let mut incoming = incoming.into_data_stream();
        loop {
            let next = tokio::time::timeout(patience, incoming.next());
            let part = tokio::select! {
                part = next => part,
                // Something was wrong, and is told at once.
                () = sender.closed() => return,
            };
            let part = match part {
                Ok(Some(Ok(_))) if !watch.goes_on().await => Err("the key was revoked"),
                Ok(Some(Ok(part))) => Ok(Some(part)),
                Ok(None) => Ok(None),
                Ok(Some(Err(_))) => Err("it ended before it was whole"),
                Err(_) => Err("no more came for too long"),
            };
            let goes_on = matches!(part, Ok(Some(_)));
            // It fails when nobody reads any more, because of an error.
            if sender.send(part).await.is_err() || !goes_on {
                return;
            }
        }
    };
    let (done, ()) = tokio::join!(keep, read);
    done
}

/// The parts of a body, as a thread reads them.
struct Parts {
    receiver: mpsc::Receiver<Result<Option<Bytes>, &'static str>>,
    part: Bytes,
    ended: bool,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Ok(Some(part))) => self.part = part,
                Some(Ok(None)) => self.ended = true,
                Some(Err(why)) => return Err(io::Error::other(why)),
                // The caller is gone.
                None => return Err(io::Error::other("it ended before it was whole")),
            }
        }
        let length = buffer.len().min(self.part.len());
        buffer[..length].copy_from_slice(&self.part.split_to(length));
        Ok(length)
    }
}

/// Sends every record in a line of its own, as fast as it is read.
async fn export_all(State(app): State<App>, request: Request<Body>) -> Response {
    let (parts, _) = request.into_parts();
    if let Err(problem) = operation::query::<Nothing>(&parts) {
        return problem.into_response();
    }
    let tenant = match app.tenant(&parts).await {
        Ok(tenant) => tenant,
        Err(problem) => return problem.into_response(),
    };
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, Problem>>(WAITING);
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let runtime = tokio::runtime::Handle::current();
    let work = app.clone();
    tokio::spawn(async move {
        let failed = sender.clone();
        let done = work.run_stream(tenant, move |tenant| {
            let mut part = Vec::with_capacity(PART_BYTES * 2);
            let send = |part: &mut Vec<u8>| {
                let bytes = Bytes::from(std::mem::take(part));
                // Who does not read is not waited for without end.
                let sent = runtime.block_on(sender.send_timeout(Ok(bytes), patience));
                sent.map_err(|_| contexture::Error::input("nobody reads any more"))
            };
            tenant.engine.memory()?.export(&mut |record| {
                let written = serde_json::to_writer(&mut part, record);
                written.map_err(|error| contexture::Error::input(error.to_string()))?;
                part.push(b'\n');
                match part.len() >= PART_BYTES {
                    true => send(&mut part),
                    false => Ok(()),
                }
            })?;
            Ok(send(&mut part)?)
        });
        if let Err(problem) = done.await {
            let _ = failed.send(Err(problem)).await;
        }
    });
    // What goes wrong before anything was sent can still be told.
    let first = match receiver.recv().await {
        Some(Ok(first)) => first,
        Some(Err(problem)) => return problem.into_response(),
        None => return Problem::failure("an export ended before it began").into_response(),
    };
    let rest = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        let part = part.map_err(|problem| io::Error::other(problem.message));
        Some((part, receiver))
    });
    let first = futures_util::stream::once(async { Ok::<_, io::Error>(first) });
    let lines = HeaderValue::from_static("application/x-ndjson");
    let body = Body::from_stream(first.chain(rest));
    ([(header::CONTENT_TYPE, lines)], body).into_response()
}

/// Finds what helps with a query.
pub(crate) fn recall(tenant: &Tenant, body: RecallBody) -> Result<Context, Problem> {
    let request = ContextRequest {
        query: body.query,
        session_id: body.session_id,
        max_tokens: body.max_tokens,
        archetype: body.archetype,
        strategy: body.strategy,
        additional_context: body.additional_context,
        filters: body.filters.unwrap_or_default(),
    };
    let how = Recall {
        model: body.model.as_deref(),
        now: tenant.fixed_now(),
        identity: &body.identity,
        permissions: Some(&tenant.engine.config().permissions),
        ..Recall::default()
    };
    let recalled = tenant.engine.memory()?.recall(&request, &how)?;
    Ok((*recalled.context).clone())
}

fn forget(tenant: &Tenant, what: &Forget) -> Result<ForgetAnswer, Problem> {
    let forgotten = tenant.engine.memory()?.forget(what)?;
    Ok(ForgetAnswer { forgotten })
}
