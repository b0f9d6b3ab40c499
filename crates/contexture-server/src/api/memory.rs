//! Operations on memory: record, recall, export and delete records.
//!
//! Recording and exporting can be streams of NDJSON. A stream runs in a thread
//! of its own with a bounded queue, so that a fast sender waits for the store
//! and a slow reader does not fill the memory.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use contexture::memory::{
    Context, ContextFilters, ContextRequest, Lines, MemoryOverview, MemoryRecorded, Recall,
    RecordPage, Reembedded,
};
use contexture::recall::StrategyPatch;
use contexture::store::{Forget, Forgotten, Message, Record, RecordKind, RecordList, RecordScope};
use futures_util::StreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;

use crate::api::page::Limit;
use crate::app::{App, Watch};
use crate::body::{self, Media};
use crate::operation::{self, Api, Nothing, Operation, ResponseBody, json_response};
use crate::problem::Problem;
use crate::stream_core::StreamCore;
use crate::tenant::Tenant;

/// The maximum number of parts of a stream in the queue. When the queue is
/// full, the sender waits.
const WAITING: usize = 4;

/// The number of bytes that an export collects before it sends them.
const PART_BYTES: usize = 64 << 10;

/// Records to store.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewRecords")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordsBody {
    /// The records, at most 10,000. All are stored, or none. Default: none.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub(crate) records: Vec<Record>,
    /// Messages of a conversation, at most 10,000. Each message of a user or an
    /// assistant becomes an event. Default: none.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub(crate) messages: Vec<Message>,
    /// The user of the messages. Default: none.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// The agent of the messages. Default: none.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// The session of the messages. Default: none.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    /// The id of the task of the messages. Default: none.
    #[serde(default)]
    pub(crate) task_id: Option<String>,
    /// The origin of the messages. Default: none.
    #[serde(default)]
    pub(crate) source: Option<String>,
}

/// A text to store.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewText")]
#[serde(deny_unknown_fields)]
struct TextBody {
    /// The name of the text, such as its path. Chunks that were recorded under
    /// this name are replaced.
    source: String,
    /// The text. It is split at the ends of sentences or code blocks.
    text: String,
}

/// A query to memory.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RecallRequest")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecallBody {
    /// The query. If empty, recent and important records are returned. Default:
    /// empty.
    #[serde(default)]
    pub(crate) query: String,
    /// The current session. Its events count as recent. Default: none.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    /// The maximum number of tokens of the returned text, including headings.
    #[schemars(range(min = 1))]
    pub(crate) max_tokens: u64,
    /// The archetype whose recall strategy is used. Default: the configured
    /// archetype.
    #[serde(default)]
    pub(crate) archetype: Option<String>,
    /// Overrides of the archetype's strategy. Default: none.
    #[serde(default)]
    pub(crate) strategy: Option<StrategyPatch>,
    /// A text to append to the result, uncut. Default: none.
    #[serde(default)]
    pub(crate) additional_context: Option<String>,
    /// Filters for the records that can be returned. Default: none.
    #[serde(default)]
    pub(crate) filters: Option<ContextFilters>,
    /// The personas or senders that the query comes from. Records that are
    /// visible only to others are not returned. Default: none.
    #[serde(default)]
    pub(crate) identity: Vec<String>,
    /// The model whose tokenizer counts the tokens. Default: the configured
    /// model.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// The caller's time zone, such as `Europe/Berlin` or `+02:00`. Times in the query, such as `yesterday`, are read in it.
    /// Default: UTC.
    #[serde(default)]
    pub(crate) timezone: Option<String>,
}

/// Records with the same id.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordsFound")]
struct Found {
    /// The records. Records of different kinds can share an id.
    records: Vec<Record>,
}

/// A record in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ById {
    /// The id of the record.
    id: String,
}

/// The query of a deletion.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OfKind {
    /// The kind of record. Default: every kind.
    kind: Option<RecordKind>,
}

/// The query of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ListQuery {
    /// The kind of record. Default: every kind.
    kind: Option<RecordKind>,
    /// The user that the records belong to. Default: every user.
    user: Option<String>,
    /// The agent that the records belong to. Default: every agent.
    agent: Option<String>,
    /// The session that the records belong to. Default: every session.
    session: Option<String>,
    /// The id of the task that the records belong to. Default: every task.
    task: Option<String>,
    /// The origin of the records. Default: every source.
    source: Option<String>,
    /// The maximum number of records, from 1 to 1000. Default: 100.
    limit: Limit,
    /// The cursor: `next` of the page before. Default: the first page.
    after: Option<String>,
}

/// The records to delete: those of a source, or those of a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ForgetRequest")]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ForgetBody {
    /// Deletes the chunks and events of a source.
    Source(String),
    /// Deletes the events and chunks of a session.
    Session(String),
}

pub(crate) fn add(api: &mut Api) {
    let mut recording = Operation::post("/v1/memory/records", "record_memory")
        .says(
            "Record memories",
            "Records events, chunks, entities, relations, patterns and tasks. A record replaces a \
             different record with the same id; an identical record is not stored twice. With \
             `application/json`, all records are stored, or none. With `application/x-ndjson`, \
             records are stored in batches of 1,000 while the body is received. If a line fails, \
             earlier batches stay stored, and the error reports how many records that are.",
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
    recording.takes.idempotency_header = true;
    recording.response = ResponseBody::Json(api.outputs.subschema_for::<MemoryRecorded>());
    let id = recording.id;
    api.add_route::<Nothing, Nothing, RecordsBody>(recording, |filter| {
        on(filter, move |State(app), request| record(app, request, id))
    });
    api.add(
        Operation::post("/v1/memory/texts", "record_text")
            .says(
                "Record a text",
                "Splits a text, such as a file, into chunks and records them. Chunks of the same \
                 source that were recorded earlier are replaced.",
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
                "Recall memories",
                "Finds the records that help with a query and returns as many as fit into the \
                 budget, with the parts of every score.",
            )
            .reads()
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
                "Get memory statistics",
                "Returns the number of records of each kind, and the embedder that created the \
                 vectors.",
            )
            .example("/v1/memory/stats", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<MemoryOverview, Problem> {
            Ok(tenant.engine.memory()?.overview()?)
        },
    );
    api.add(
        Operation::get("/v1/memory/list", "list_records")
            .says(
                "List records",
                "Returns the records that match every parameter, in the order they were first \
                 recorded, a page at a time.",
            )
            .refuses(&[422])
            .example("/v1/memory/list?session=harbour", None),
        |tenant: &Tenant, _: Nothing, of: ListQuery, _: Nothing| -> Result<RecordPage, Problem> {
            let what = RecordList {
                kind: of.kind,
                user: of.user,
                agent: of.agent,
                session: of.session,
                task: of.task,
                source: of.source,
            };
            Ok(tenant
                .engine
                .memory()?
                .list(&what, of.after.as_deref(), of.limit.get())?)
        },
    );
    let mut export = Operation::get("/v1/memory/records", "export_memory").says(
        "Export memory",
        "Returns all records, one JSON object per line. Importing the lines elsewhere gives the \
         same recall results.",
    );
    export.response = ResponseBody::Stream {
        media: "application/x-ndjson",
        schema: api.outputs.subschema_for::<Record>(),
    };
    api.add_route::<Nothing, Nothing, Nothing>(export, |filter| on(filter, export_all));
    api.add(
        Operation::get("/v1/memory/records/{id}", "get_record")
            .says(
                "Get a record",
                "Returns the records with this id. Records of different kinds can share an id.",
            )
            .example("/v1/memory/records/e1", None),
        |tenant: &Tenant, by: ById, _: Nothing, _: Nothing| -> Result<Found, Problem> {
            let records = tenant.engine.memory()?.named(&by.id)?;
            match records.is_empty() {
                true => Err(Problem::missing(format!(
                    "no record has the id `{}`",
                    by.id
                ))),
                false => Ok(Found { records }),
            }
        },
    );
    api.add(
        Operation::new(Method::DELETE, "/v1/memory/records/{id}", "forget_record")
            .says(
                "Delete a record",
                "Deletes the record and everything derived only from it, and overwrites it in \
                 the database files. If `pending` is true, that happens later. Snapshots of \
                 earlier requests are kept.",
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
                "Delete the records of a source or session",
                "Deletes all records of a source or of a session, and everything derived only \
                 from them.",
            )
            .repeatable()
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
                "Create missing vectors",
                "Creates the vectors that are missing. After a change of the embedder, creates \
                 the vectors of all texts.",
            )
            .repeatable()
            .example("/v1/memory/reembed", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Reembedded, Problem> {
            Ok(tenant.engine.memory()?.reembed(&mut |_| {})?)
        },
    );
}

/// Records the records of a JSON body, or NDJSON line by line.
async fn record(app: App, request: Request<Body>, id: &'static str) -> Response {
    let done = async {
        let (parts, incoming) = request.into_parts();
        let _: Nothing = operation::query(&parts)?;
        let media = body::media(&parts.headers)?;
        let key = crate::idempotency::KeyOfCall::read(&parts)?;
        let tenant = app.tenant(&parts).await?;
        if media == Media::Lines {
            let done = record_lines(&app, tenant, app.watch(&parts)?, incoming).await?;
            return operation::to_bytes(&done);
        }
        let reader = body::Reader::new(&app, &tenant);
        let bytes = body::json(reader, &parts.headers, incoming).await?;
        let shared = app.clone();
        let name = Arc::clone(&tenant.name);
        app.run(&name, move || {
            let most = crate::json::MOST_VALUES;
            let body: RecordsBody = crate::json::read(shared.schemas(), id, &bytes, most)?;
            crate::idempotency::run(&tenant, key, &bytes, || {
                operation::to_bytes(&record_body(&tenant, body)?)
            })
        })
        .await
    };
    match done.await {
        Ok(bytes) => json_response(StatusCode::OK, bytes),
        Err(problem) => problem.into_response(),
    }
}

/// Records the records or the messages of a body.
fn record_body(tenant: &Tenant, body: RecordsBody) -> Result<MemoryRecorded, Problem> {
    match (body.records.is_empty(), body.messages.is_empty()) {
        (false, true) => record_all(tenant, body.records),
        (true, false) => {
            let owner = RecordScope {
                user: body.user,
                agent: body.agent,
                session: body.session_id,
                task: body.task_id,
                source: body.source,
            };
            let memory = tenant.engine.memory()?;
            let done = memory.record_messages(&body.messages, &owner, Some(tenant.now()))?;
            tenant.metrics.remembered(done.added + done.replaced);
            Ok(done)
        }
        (true, true) => {
            Err(contexture::Error::input("the body has no `records` and no `messages`").into())
        }
        (false, false) => Err(contexture::Error::input(
            "the body has both `records` and `messages`; send them in two calls",
        )
        .into()),
    }
}

/// Records all records, or none.
pub(crate) fn record_all(tenant: &Tenant, records: Vec<Record>) -> Result<MemoryRecorded, Problem> {
    let memory = tenant.engine.memory()?;
    let done = memory.record(records, Some(tenant.now()))?;
    tenant.metrics.remembered(done.added + done.replaced);
    Ok(done)
}

/// Records lines as they arrive. While the store writes, no more lines are read,
/// so that the sender waits.
async fn record_lines(
    app: &App,
    tenant: Arc<Tenant>,
    mut watch: Watch,
    incoming: Body,
) -> Result<MemoryRecorded, Problem> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let patience = Duration::from_millis(app.config().body_timeout_ms);
    let limited = Arc::clone(&tenant);
    let keep = app.run_stream(tenant, move |tenant, core| {
        let mut reader = BufReader::new(Parts {
            receiver,
            core: Arc::clone(core),
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
                // The reader stopped because of an error, which is answered at once.
                () = sender.closed() => return None,
            };
            // A stream has no end that is known, so a quota ends it.
            let exceeded = app.check_storage(&limited).await.err();
            let part = match part {
                Ok(Some(Ok(_))) if !watch.is_authorized().await => Err("the key was revoked"),
                Ok(Some(Ok(_))) if exceeded.is_some() => Err("the tenant has reached a quota"),
                Ok(Some(Ok(part))) => Ok(Some(part)),
                Ok(None) => Ok(None),
                Ok(Some(Err(_))) => Err("the connection was closed before the end of the body"),
                Err(_) => Err("timeout: no data arrived within `body_timeout_ms`"),
            };
            let has_more = matches!(part, Ok(Some(_)));
            let exceeded = exceeded.filter(|_| part.is_err());
            // Fails if the reader stopped because of an error.
            if sender.send(part).await.is_err() || !has_more {
                return exceeded;
            }
        }
    };
    let (done, exceeded) = tokio::join!(keep, read);
    match (done, exceeded) {
        // Says which lines were recorded before.
        (Err(stopped), Some(exceeded)) => Err(Problem {
            message: format!("{}; {}", exceeded.message, stopped.message),
            ..exceeded
        }),
        (done, _) => done,
    }
}

/// The parts of a body, as a blocking reader.
struct Parts {
    receiver: mpsc::Receiver<Result<Option<Bytes>, &'static str>>,
    core: Arc<StreamCore>,
    part: Bytes,
    ended: bool,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() && !self.ended {
            self.core.give_up();
            match self.receiver.blocking_recv() {
                Some(Ok(Some(part))) => self.part = part,
                Some(Ok(None)) => self.ended = true,
                Some(Err(why)) => return Err(io::Error::other(why)),
                // The caller has disconnected.
                None => {
                    let message = "the connection was closed before the end of the body";
                    return Err(io::Error::other(message));
                }
            }
        }
        self.core.take();
        let length = buffer.len().min(self.part.len());
        buffer[..length].copy_from_slice(&self.part.split_to(length));
        Ok(length)
    }
}

/// Sends every record on a line of its own, as fast as the client reads.
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
        let done = work.run_stream(tenant, move |tenant, core| {
            let mut part = Vec::with_capacity(PART_BYTES * 2);
            let send = |part: &mut Vec<u8>| {
                let bytes = Bytes::from(std::mem::take(part));
                core.give_up();
                // A client that does not read must not block the thread forever.
                let sent = runtime.block_on(sender.send_timeout(Ok(bytes), patience));
                core.take();
                sent.map_err(|_| contexture::Error::input("the client stopped reading"))
            };
            core.take();
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
    // An error before the first byte can still be answered with a status.
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

/// Recalls records for a query.
pub(crate) fn recall(tenant: &Tenant, body: RecallBody) -> Result<Context, Problem> {
    let request = ContextRequest {
        query: body.query,
        session_id: body.session_id,
        max_tokens: body.max_tokens,
        archetype: body.archetype,
        strategy: body.strategy,
        additional_context: body.additional_context,
        filters: body.filters.unwrap_or_default(),
        timezone: body.timezone,
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

fn forget(tenant: &Tenant, what: &Forget) -> Result<Forgotten, Problem> {
    Ok(tenant.engine.memory()?.forget(what)?)
}
