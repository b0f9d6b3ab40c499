//! Operations on memory: record, recall, export and delete records.
//!
//! Recording and exporting can also be streams of NDJSON, which the server reads
//! and writes.

use contexture::memory::{
    Context, ContextFilters, ContextRequest, MemoryOverview, MemoryRecorded, Recall, RecordPage,
    Reembedded,
};
use contexture::recall::StrategyPatch;
use contexture::store::{Forget, Forgotten, Message, Record, RecordKind, RecordList, RecordScope};
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Api, Nothing, Operation, ResponseBody};
use crate::page::Limit;
use crate::problem::Problem;
use crate::quota::StorageKind;
use crate::tenant::Tenant;

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
pub struct RecallBody {
    /// The query. If empty, recent and important records are returned. Default:
    /// empty.
    #[serde(default)]
    pub query: String,
    /// The current session. Its events count as recent. Default: none.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The maximum number of tokens of the returned text, including headings.
    #[schemars(range(min = 1))]
    pub max_tokens: u64,
    /// The archetype whose recall strategy is used. Default: the configured
    /// archetype.
    #[serde(default)]
    pub archetype: Option<String>,
    /// Overrides of the archetype's strategy. Default: none.
    #[serde(default)]
    pub strategy: Option<StrategyPatch>,
    /// A text to append to the result, uncut. Default: none.
    #[serde(default)]
    pub additional_context: Option<String>,
    /// Filters for the records that can be returned. Default: none.
    #[serde(default)]
    pub filters: Option<ContextFilters>,
    /// The personas or senders that the query comes from. Records that are
    /// visible only to others are not returned. Default: none.
    #[serde(default)]
    pub identity: Vec<String>,
    /// The model whose tokenizer counts the tokens. Default: the configured
    /// model.
    #[serde(default)]
    pub model: Option<String>,
    /// The caller's time zone, such as `Europe/Berlin` or `+02:00`. Times in the query, such as `yesterday`, are read in it.
    /// Default: UTC.
    #[serde(default)]
    pub timezone: Option<String>,
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
    /// True to list also the entities and relations that were extracted from texts.
    /// Default: false.
    extracted: bool,
    /// The maximum number of records, from 1 to 1000. Default: 100.
    limit: Limit,
    /// The cursor: `next` of the page before. Default: the first page.
    after: Option<String>,
}

/// The records to delete: those of a source, of a session, or of a user.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ForgetRequest")]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ForgetBody {
    /// Deletes the chunks and events of a source.
    Source(String),
    /// Deletes the events and chunks of a session.
    Session(String),
    /// Deletes all records of a user.
    User(String),
}

pub(crate) fn add(api: &mut Api) {
    let mut recording = Operation::post("/v1/memory/records", "record_memory")
        .describe(
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
    api.add(
        recording,
        |tenant: &Tenant, _: Nothing, _: Nothing, body: RecordsBody| record_body(tenant, body),
    );
    api.add(
        Operation::post("/v1/memory/texts", "record_text")
            .describe(
                "Record a text",
                "Splits a text, such as a file, into chunks and records them. Chunks of the same \
                 source that were recorded earlier are replaced.",
            )
            .example(
                "/v1/memory/texts",
                json!({"source": "notes.md", "text": "The tide tables are printed in March."}),
            ),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: TextBody| -> Result<_, Problem> {
            tenant.check_quota(StorageKind::Records)?;
            let memory = tenant.engine.memory()?;
            let done = memory.record_text(&body.source, &body.text, Some(tenant.now()))?;
            tenant.observer.remembered(done.added + done.replaced);
            Ok::<MemoryRecorded, _>(done)
        },
    );
    api.add(
        Operation::post("/v1/memory/recall", "recall")
            .describe(
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
            .describe(
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
            .describe(
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
                extracted: of.extracted,
            };
            Ok(tenant
                .engine
                .memory()?
                .list(&what, of.after.as_deref(), of.limit.get())?)
        },
    );
    let mut export = Operation::get("/v1/memory/records", "export_memory").describe(
        "Export memory",
        "Returns all records, one JSON object per line. Importing the lines elsewhere gives the \
         same recall results.",
    );
    export.response = ResponseBody::Stream {
        media: "application/x-ndjson",
        schema: api.outputs.subschema_for::<Record>(),
    };
    api.add_stream::<Nothing, Nothing, Nothing>(export);
    api.add(
        Operation::get("/v1/memory/records/{id}", "get_record")
            .describe(
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
            .describe(
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
            .describe(
                "Delete the records of a source, session or user",
                "Deletes all records of a source, of a session or of a user, and everything \
                 derived only from them.",
            )
            .repeatable()
            .refuses(&[404])
            .example("/v1/memory/forget", json!({"source": "notes.md"})),
        |tenant: &Tenant, _: Nothing, _: Nothing, body: ForgetBody| {
            let what = match body {
                ForgetBody::Source(source) => Forget::Source(source),
                ForgetBody::Session(session) => Forget::Session(session),
                ForgetBody::User(user) => Forget::User(user),
            };
            forget(tenant, &what)
        },
    );
    api.add(
        Operation::post("/v1/memory/reembed", "reembed_memory")
            .describe(
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

/// Records the records or the messages of a body.
fn record_body(tenant: &Tenant, body: RecordsBody) -> Result<MemoryRecorded, Problem> {
    tenant.check_quota(StorageKind::Records)?;
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
            tenant.observer.remembered(done.added + done.replaced);
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
pub fn record_all(tenant: &Tenant, records: Vec<Record>) -> Result<MemoryRecorded, Problem> {
    let memory = tenant.engine.memory()?;
    let done = memory.record(records, Some(tenant.now()))?;
    tenant.observer.remembered(done.added + done.replaced);
    Ok(done)
}

/// Recalls records for a query.
pub fn recall(tenant: &Tenant, body: RecallBody) -> Result<Context, Problem> {
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
