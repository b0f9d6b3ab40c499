//! Operations on sessions: create, list, update, fork and compact them, and
//! stream events. Turns are recorded in `turns`.
//!
//! The work is done by the engine. This module reads the call, wakes those who
//! listen to events and counts turns for the metrics.

use contexture::compaction::{Attempt, Compacted, Undone};
use contexture::store::{
    NewSession, NewTurn, Recorded, Session, SessionChange, SessionStatus, StoreError, Turn, TurnId,
    TurnKind,
};
use contexture::{CompactRequest, SessionCost, Shown as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::events::SessionEvent;
use crate::operation::{Api, Nothing, Operation, ResponseBody};
use crate::page::{Limit, Page};
use crate::problem::Problem;
use crate::quota::StorageKind;
use crate::tenant::Tenant;
use crate::{pins, turns};

/// A session in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Named {
    /// The session's label or alias.
    pub label: String,
}

/// A page of the list of sessions.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionList")]
pub(crate) struct Sessions {
    /// The sessions by label.
    pub(crate) sessions: Vec<Session>,
    /// The value to send as `after` for the next page. Null on the last page.
    pub(crate) next: Option<String>,
}

/// A change to a session. Omitted fields are not changed.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SessionPatch")]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// An additional name of the session.
    #[serde(default)]
    alias: Option<String>,
    /// The new status.
    #[serde(default)]
    status: Option<SessionStatus>,
    /// Whether turns that are recorded from now on become memory events.
    #[serde(default)]
    remember: Option<bool>,
}

/// The query of the history.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Latest {
    /// The id of a turn: `next` of the page before. Turns before it are returned.
    /// Default: none; the latest turns are returned.
    before: Option<TurnId>,
    /// The maximum number of turns, from 1 to 1000. Default: 100.
    limit: Limit,
}

/// The latest turns of a session, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionHistory")]
pub(crate) struct History {
    /// The number of normal turns in the whole session.
    total: u64,
    /// The latest turns, oldest first, including compactions.
    turns: Vec<Turn>,
    /// The value to send as `before` for the turns before these. Null if there
    /// are none.
    next: Option<TurnId>,
}

/// Options of a compaction.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "CompactRequest")]
#[serde(default, deny_unknown_fields)]
pub struct CompactBody {
    /// The topic that the summary concentrates on. Default: none.
    pub focus: Option<String>,
    /// The model whose context window counts. Default: the model of the latest
    /// request.
    pub model: Option<String>,
    /// The number of tokens that a request can use. Default: the budget of the
    /// latest request.
    pub max_tokens: Option<u64>,
}

/// The result of a compaction.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CompactResponse {
    /// The compaction. Null if there was nothing to summarise.
    pub compacted: Option<Compacted>,
    /// The reason why nothing was summarised. Null if there is a compaction.
    pub reason: Option<&'static str>,
}

/// The session to create, and the turn to start at.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ForkRequest")]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// The label of the new session.
    label: String,
    /// The last shared turn: the first 4 or more digits of its id. Default: the
    /// head of the session.
    #[serde(default)]
    at: Option<String>,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/sessions", "create_session")
            .describe(
                "Create a session",
                "Creates a session: a named conversation that grows by turns. Fails with 409 if \
                 the label or an alias is already in use.",
            )
            .creates()
            .refuses(&[404, 409])
            .example(
                "/v1/sessions",
                json!({"label": "support", "task": "Find out why the build fails"}),
            ),
        create,
    );
    api.add(
        Operation::get("/v1/sessions", "list_sessions")
            .describe(
                "List sessions",
                "Returns the sessions in the order of their labels, one page at a time.",
            )
            .example("/v1/sessions?limit=10", None),
        |tenant: &Tenant, _: Nothing, page: Page, _: Nothing| list(tenant, &page),
    );
    api.add(
        Operation::get("/v1/sessions/{label}", "get_session")
            .describe(
                "Get a session",
                "Returns the session with this label or alias.",
            )
            .example("/v1/sessions/support", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| {
            Ok(tenant.store()?.session(&path.label)?.shown())
        },
    );
    api.add(
        Operation::new(
            http::Method::PATCH,
            "/v1/sessions/{label}",
            "update_session",
        )
        .describe(
            "Update a session",
            "Adds an alias, sets the status of the session, or sets whether its turns become \
             memory events. Omitted fields are not changed.",
        )
        .refuses(&[409])
        .example("/v1/sessions/support", json!({"alias": "the-build"})),
        change,
    );
    turns::add(api);
    api.add(
        Operation::get("/v1/sessions/{label}/history", "get_history")
            .describe(
                "Get the latest turns",
                "Returns the latest turns of the session, oldest first. Compactions appear at the \
                 position where they were made. With `before`, returns the turns before a turn. A \
                 page with more than 8 MiB has fewer turns than `limit`; `next` continues it.",
            )
            .example("/v1/sessions/support/history?limit=1", None),
        history,
    );
    api.add(
        Operation::post("/v1/sessions/{label}/compact", "compact_session")
            .describe(
                "Compact a session",
                "Summarises all turns except the latest ones, so that requests become shorter. \
                 Contexture does this automatically when a request would exceed the budget. The \
                 turns stay stored, and `uncompact` undoes the compaction.",
            )
            .refuses(&[409])
            .example(
                "/v1/sessions/support/compact",
                json!({"focus": "what was tried"}),
            ),
        |tenant: &Tenant, path: Named, _: Nothing, body: CompactBody| {
            compact(tenant, &path.label, body)
        },
    );
    api.add(
        Operation::post("/v1/sessions/{label}/overflow", "recover_overflow")
            .describe(
                "Recover from a context overflow",
                "Compacts the session further than usual. Call this after the provider rejected a \
                 request as too long, then assemble the request again. Fails if it was already \
                 called and no turn was recorded since: report the provider's error to the user.",
            )
            .refuses(&[409])
            .example("/v1/sessions/harbour/overflow", json!({"max_tokens": 4000})),
        overflow,
    );
    api.add(
        Operation::post("/v1/sessions/{label}/uncompact", "uncompact_session")
            .describe(
                "Undo a compaction",
                "Undoes the latest compaction of the session. Turns that were recorded since are \
                 kept.",
            )
            .refuses(&[409, 422])
            .example("/v1/sessions/harbour/uncompact", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| -> Result<Undone, Problem> {
            Ok(tenant.engine.uncompact(&path.label, tenant.fixed_now())?)
        },
    );
    api.add(
        Operation::post("/v1/sessions/{label}/fork", "fork_session")
            .describe(
                "Fork a session",
                "Creates a session that shares another session's history up to a turn. Default: \
                 up to its head.",
            )
            .creates()
            .refuses(&[409])
            .example("/v1/sessions/support/fork", json!({"label": "another-try"})),
        |tenant: &Tenant, path: Named, _: Nothing, body: ForkBody| -> Result<Session, Problem> {
            tenant.check_quota(StorageKind::Sessions)?;
            let at = body.at.as_deref();
            Ok(tenant
                .engine
                .fork(&path.label, &body.label, at, tenant.fixed_now())?
                .shown())
        },
    );
    api.add(
        Operation::get("/v1/sessions/{label}/cost", "get_cost")
            .describe(
                "Get the cost of a session",
                "Returns the token usage that providers reported, the share that came from their \
                 caches, and the cost in US dollars for models with known prices.",
            )
            .example("/v1/sessions/support/cost", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| -> Result<SessionCost, Problem> {
            Ok(tenant.engine.cost(&path.label)?)
        },
    );
    pins::add(api);
    let mut listening = Operation::get("/v1/sessions/{label}/events", "listen_to_session").describe(
        "Stream the events of a session",
        "Sends server-sent events as they happen, on all servers of the store: `turn_recorded`, \
         `assembled` and `compacted`. Events carry ids and counts, not content. A client that \
         connects again sends the header `Last-Event-ID` and receives what it has missed. If the \
         events in between are no longer stored, it receives `missed` first.",
    );
    listening.response = ResponseBody::Stream {
        media: "text/event-stream",
        schema: api.outputs.subschema_for::<SessionEvent>(),
    };
    api.add_stream::<Named, Nothing, Nothing>(listening);
}

fn create(tenant: &Tenant, _: Nothing, _: Nothing, new: NewSession) -> Result<Session, Problem> {
    create_session(tenant, &new)
}

/// Creates a session. Fails if the tenant has as many sessions as it may have.
pub fn create_session(tenant: &Tenant, new: &NewSession) -> Result<Session, Problem> {
    tenant.check_quota(StorageKind::Sessions)?;
    let now = Some(tenant.now());
    let created = tenant.engine.create_session(&tenant.root, new, now)?;
    Ok(created.shown())
}

/// Fails if a call would create a session, and the tenant has as many sessions as it
/// may have.
pub(crate) fn check_new_session(tenant: &Tenant, label: &str) -> Result<(), Problem> {
    match tenant.store()?.session(label) {
        Err(StoreError::NotFound { .. }) => tenant.check_quota(StorageKind::Sessions),
        // The operation reports other errors.
        _ => Ok(()),
    }
}

fn list(tenant: &Tenant, page: &Page) -> Result<Sessions, Problem> {
    let limit = page.limit.get();
    let mut sessions = tenant.store()?.sessions(page.after.as_deref(), limit + 1)?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next = sessions.last().filter(|_| more);
    Ok(Sessions {
        next: next.map(|session| session.label.clone()),
        sessions: sessions.shown(),
    })
}

fn change(tenant: &Tenant, path: Named, _: Nothing, change: Change) -> Result<Session, Problem> {
    let store = tenant.store()?;
    let change = SessionChange {
        alias: change.alias,
        status: change.status,
        remember: change.remember,
    };
    let session = match change == SessionChange::default() {
        true => store.session(&path.label)?,
        false => store.change_session(&path.label, &change)?,
    };
    Ok(session.shown())
}

/// Records a turn, counts it, and publishes an event.
///
/// A turn of a session whose turns become memory events adds memory records.
pub fn record(tenant: &Tenant, label: &str, turn: &NewTurn) -> Result<Recorded, Problem> {
    if let Err(refused) = tenant
        .reached_quotas
        .check(&tenant.name, StorageKind::Records)
    {
        let session = tenant.store()?.session(label)?;
        let from_sessions = tenant.engine.config().memory.from_sessions;
        if session.remember.unwrap_or(from_sessions) {
            tenant.observer.refused_by_quota();
            return Err(refused);
        }
    }
    let recorded = tenant.engine.record(label, turn, tenant.fixed_now())?;
    if !recorded.replayed {
        tenant.observer.recorded(turn.usage.as_ref());
        tenant.observer.has_event();
    }
    Ok(recorded)
}

fn history(tenant: &Tenant, path: Named, query: Latest, _: Nothing) -> Result<History, Problem> {
    // Turns can be large. A few are read at first, and then more at a time, until
    // the answer is long enough; the rest is on the next page.
    let (mut left, mut at_once, mut bytes) = (query.limit.get(), 1, 0);
    let mut before = query.before;
    let mut turns = Vec::new();
    while left > 0 && bytes < LONGEST_PAGE {
        // As many as fit, if they are as long as those so far.
        let average = (bytes / turns.len().max(1)).max(1);
        let fit = (LONGEST_PAGE - bytes) / average + 1;
        let most = at_once.min(left).min(fit);
        let mut page = tenant.engine.history_before(&path.label, before, most)?;
        // Compactions among them do not count.
        let is_normal = |turn: &&Turn| turn.kind == TurnKind::Normal;
        let read = page.iter().filter(is_normal).count();
        let is_last = read < most;
        before = page.first().map(|turn| turn.id);
        for turn in &page {
            bytes += length(turn)?;
        }
        left = left.saturating_sub(read);
        at_once *= 4;
        page.append(&mut turns);
        turns = page;
        if is_last || before.is_none() {
            break;
        }
    }
    let total = tenant.store()?.session(&path.label)?.turns;
    let first = turns.first().filter(|turn| turn.parent.is_some());
    Ok(History {
        total,
        next: first.map(|turn| turn.id),
        turns,
    })
}

/// The bytes from which a page of turns gets no more turns.
const LONGEST_PAGE: usize = 8 << 20;

/// Returns how long a value is as JSON.
fn length(value: &impl Serialize) -> Result<usize, Problem> {
    struct Length(usize);
    impl std::io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value)
        .map_err(|error| Problem::failure(error.to_string()))?;
    Ok(length.0)
}

/// Compacts a session and publishes an event.
pub fn compact(
    tenant: &Tenant,
    label: &str,
    body: CompactBody,
) -> Result<CompactResponse, Problem> {
    Ok(
        match tenant.engine.compact(label, &request(tenant, body))? {
            Attempt::Compacted(compacted) => {
                tenant.observer.has_event();
                CompactResponse {
                    compacted: Some(*compacted),
                    reason: None,
                }
            }
            Attempt::Nothing(reason) => CompactResponse {
                compacted: None,
                reason: Some(reason),
            },
        },
    )
}

fn overflow(
    tenant: &Tenant,
    path: Named,
    _: Nothing,
    body: CompactBody,
) -> Result<Compacted, Problem> {
    let compacted = tenant
        .engine
        .recover_overflow(&path.label, &request(tenant, body))?;
    tenant.observer.has_event();
    Ok(compacted)
}

fn request(tenant: &Tenant, body: CompactBody) -> CompactRequest {
    CompactRequest {
        focus: body.focus,
        model: body.model,
        max_tokens: body.max_tokens,
        now: tenant.fixed_now(),
    }
}
