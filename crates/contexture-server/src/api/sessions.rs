//! Operations on sessions: create, list, update, fork and compact them, and
//! stream events. Turns are recorded in `turns`.
//!
//! The work is done by the engine. This module reads the call, publishes
//! [`SessionEvent`]s and counts turns for the metrics.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use contexture::compaction::{Attempt, Compacted, Undone};
use contexture::store::{
    NewSession, NewTurn, Recorded, Session, SessionChange, SessionStatus, Turn, TurnId, TurnKind,
};
use contexture::{CompactRequest, SessionCost};
use futures_util::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::api::page::{Limit, Page};
use crate::api::{pins, turns};
use crate::app::{App, Watch};
use crate::events::{Listener, SessionEvent};
use crate::operation::{self, Api, Nothing, Operation, ResponseBody};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A session in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Named {
    /// The session's label or alias.
    pub(crate) label: String,
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
pub(crate) struct CompactBody {
    /// The topic that the summary concentrates on. Default: none.
    pub(crate) focus: Option<String>,
    /// The model whose context window counts. Default: the model of the latest
    /// request.
    pub(crate) model: Option<String>,
    /// The number of tokens that a request can use. Default: the budget of the
    /// latest request.
    pub(crate) max_tokens: Option<u64>,
}

/// The result of a compaction.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompactResponse {
    /// The compaction. Null if there was nothing to summarise.
    pub(crate) compacted: Option<Compacted>,
    /// The reason why nothing was summarised. Null if there is a compaction.
    pub(crate) reason: Option<&'static str>,
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
            .says(
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
            .says(
                "List sessions",
                "Returns the sessions in the order of their labels, one page at a time.",
            )
            .example("/v1/sessions?limit=10", None),
        |tenant: &Tenant, _: Nothing, page: Page, _: Nothing| list(tenant, &page),
    );
    api.add(
        Operation::get("/v1/sessions/{label}", "get_session")
            .says(
                "Get a session",
                "Returns the session with this label or alias.",
            )
            .example("/v1/sessions/support", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| {
            Ok(tenant.store()?.session(&path.label)?)
        },
    );
    api.add(
        Operation::new(
            axum::http::Method::PATCH,
            "/v1/sessions/{label}",
            "update_session",
        )
        .says(
            "Update a session",
            "Adds an alias, or sets the status of the session. Omitted fields are not changed.",
        )
        .refuses(&[409])
        .example("/v1/sessions/support", json!({"alias": "the-build"})),
        change,
    );
    turns::add(api);
    api.add(
        Operation::get("/v1/sessions/{label}/history", "get_history")
            .says(
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
            .says(
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
            .says(
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
            .says(
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
            .says(
                "Fork a session",
                "Creates a session that shares another session's history up to a turn. Default: \
                 up to its head.",
            )
            .creates()
            .refuses(&[409])
            .example("/v1/sessions/support/fork", json!({"label": "another-try"})),
        |tenant: &Tenant, path: Named, _: Nothing, body: ForkBody| -> Result<Session, Problem> {
            let at = body.at.as_deref();
            Ok(tenant
                .engine
                .fork(&path.label, &body.label, at, tenant.fixed_now())?)
        },
    );
    api.add(
        Operation::get("/v1/sessions/{label}/cost", "get_cost")
            .says(
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
    let mut listening = Operation::get("/v1/sessions/{label}/events", "listen_to_session").says(
        "Stream the events of a session",
        "Sends server-sent events as they happen on this server: `turn_recorded`, `assembled` and \
         `compacted`. Events carry ids and counts, not content. Events are not stored: after a \
         reconnect, read the history to catch up. A client that reads too slowly receives \
         `missed` with the number of lost events.",
    );
    listening.response = ResponseBody::Stream {
        media: "text/event-stream",
        schema: api.outputs.subschema_for::<SessionEvent>(),
    };
    api.add_route::<Named, Nothing, Nothing>(listening, |filter| on(filter, listen));
}

fn create(tenant: &Tenant, _: Nothing, _: Nothing, new: NewSession) -> Result<Session, Problem> {
    let now = Some(tenant.now());
    Ok(tenant.engine.create_session(&tenant.root, &new, now)?)
}

fn list(tenant: &Tenant, page: &Page) -> Result<Sessions, Problem> {
    let limit = page.limit.get();
    let mut sessions = tenant.store()?.sessions(page.after.as_deref(), limit + 1)?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next = sessions.last().filter(|_| more);
    Ok(Sessions {
        next: next.map(|session| session.label.clone()),
        sessions,
    })
}

fn change(tenant: &Tenant, path: Named, _: Nothing, change: Change) -> Result<Session, Problem> {
    let store = tenant.store()?;
    let change = SessionChange {
        alias: change.alias,
        status: change.status,
    };
    Ok(match change == SessionChange::default() {
        true => store.session(&path.label)?,
        false => store.change_session(&path.label, &change)?,
    })
}

/// Records a turn, counts it, and publishes an event.
pub(crate) fn record(tenant: &Tenant, label: &str, turn: &NewTurn) -> Result<Recorded, Problem> {
    let recorded = tenant.engine.record(label, turn, tenant.fixed_now())?;
    if !recorded.replayed {
        tenant.metrics.recorded(turn.usage.as_ref());
        // Events carry the label, even if the caller used an alias.
        let session = || match tenant.store().map(|store| store.session(label)) {
            Ok(Ok(session)) => session.label,
            _ => label.to_owned(),
        };
        tenant.events.publish(|| SessionEvent::TurnRecorded {
            session: session(),
            turn_id: recorded.id.to_string(),
            number: recorded.depth,
        });
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
pub(crate) fn compact(
    tenant: &Tenant,
    label: &str,
    body: CompactBody,
) -> Result<CompactResponse, Problem> {
    Ok(
        match tenant.engine.compact(label, &request(tenant, body))? {
            Attempt::Compacted(compacted) => {
                publish_compacted(tenant, label, &compacted)?;
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
    publish_compacted(tenant, &path.label, &compacted)?;
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

pub(crate) fn publish_compacted(
    tenant: &Tenant,
    label: &str,
    compacted: &Compacted,
) -> Result<(), Problem> {
    let session = tenant.store()?.session(label)?.label;
    tenant.events.publish(|| SessionEvent::Compacted {
        session,
        turn_id: compacted.turn_id.to_string(),
    });
    Ok(())
}

/// Sends the events of a session as they happen.
async fn listen(State(app): State<App>, request: Request<Body>) -> Response {
    let opened = async {
        let (mut parts, _) = request.into_parts();
        let path: Named = operation::path(&mut parts).await?;
        let _: Nothing = operation::query(&parts)?;
        let tenant = app.tenant(&parts).await?;
        let watch = app.watch(&parts)?;
        let asked = app.clone();
        let name = std::sync::Arc::clone(&tenant.name);
        app.run(&name, move || {
            let label = tenant.store()?.session(&path.label)?.label;
            let listener = tenant.events.listen();
            // A tenant that is loaded while the server stops is not closed by it.
            let listener = listener.filter(|_| !asked.is_stopping());
            let listener = listener.ok_or_else(|| {
                Problem::unavailable("too many listeners, or the server is stopping")
                    .hint("retry later, or raise `max_listeners` in the server's settings")
            })?;
            Ok((
                label,
                listener,
                Held {
                    watch,
                    _tenant: tenant,
                },
            ))
        })
        .await
    };
    match opened.await {
        Ok((label, listener, held)) => {
            let alive = KeepAlive::new().interval(Duration::from_secs(15));
            let stream = stream(label, listener, Some(held));
            Sse::new(stream).keep_alive(alive).into_response()
        }
        Err(problem) => problem.into_response(),
    }
}

/// The state that the stream of a listener keeps alive.
struct Held {
    watch: Watch,
    // A tenant that is dropped is loaded again on its next use, with a new hub
    // that does not know this listener.
    _tenant: Arc<Tenant>,
}

fn stream(
    label: String,
    listener: Listener,
    held: Option<Held>,
) -> impl Stream<Item = Result<SseEvent, Infallible>> + Send {
    let begin = (label, listener, held);
    futures_util::stream::unfold(begin, |(label, mut listener, mut held)| async move {
        loop {
            let received = match &mut held {
                None => listener.receiver.recv().await,
                Some(Held { watch, .. }) => {
                    if !watch.is_authorized().await {
                        return None;
                    }
                    let next = listener.receiver.recv();
                    match tokio::time::timeout_at(watch.next_check().into(), next).await {
                        Ok(received) => received,
                        Err(_) => continue,
                    }
                }
            };
            let event = match received {
                Ok((_, event)) if event.session() != label => continue,
                Ok((number, event)) => SseEvent::default()
                    .id(number.to_string())
                    .event(event.name())
                    .data(serde_json::to_string(&event).unwrap_or_default()),
                Err(RecvError::Lagged(missed)) => SseEvent::default()
                    .event("missed")
                    .data(json!({"missed": missed}).to_string()),
                Err(RecvError::Closed) => return None,
            };
            return Some((Ok(event), (label, listener, held)));
        }
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::events::Hub;

    /// Returns everything that is sent to a listener that reads after the last
    /// event.
    fn sent(hub: &Hub, listener: Listener) -> String {
        hub.close();
        let response = Sse::new(stream("s".to_owned(), listener, None)).into_response();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let body = runtime.block_on(response.into_body().collect()).unwrap();
        String::from_utf8(body.to_bytes().into()).unwrap()
    }

    fn event(session: &str, turn: u32) -> SessionEvent {
        SessionEvent::Compacted {
            session: session.to_owned(),
            turn_id: turn.to_string(),
        }
    }

    #[test]
    fn a_listener_receives_only_events_of_its_session() {
        let hub = Hub::new(1);
        // Events before the first listener are not stored.
        hub.publish(|| event("s", 0));
        let listener = hub.listen().unwrap();
        assert!(hub.listen().is_none(), "the limit is one listener");
        for (session, turn) in [("s", 1), ("other", 2), ("s", 3)] {
            hub.publish(|| event(session, turn));
        }
        assert_eq!(
            sent(&hub, listener),
            "id: 0\nevent: compacted\ndata: \
             {\"type\":\"compacted\",\"session\":\"s\",\"turn_id\":\"1\"}\n\n\
             id: 2\nevent: compacted\ndata: \
             {\"type\":\"compacted\",\"session\":\"s\",\"turn_id\":\"3\"}\n\n"
        );
    }

    #[test]
    fn a_slow_listener_receives_the_number_of_missed_events() {
        let hub = Hub::new(1);
        let listener = hub.listen().unwrap();
        for turn in 0..1030 {
            hub.publish(|| event("s", turn));
        }
        let sent = sent(&hub, listener);
        let first: Vec<&str> = sent.lines().take(4).collect();
        assert_eq!(
            first,
            ["event: missed", "data: {\"missed\":6}", "", "id: 6"]
        );
        assert_eq!(sent.matches("event: compacted").count(), 1024);
    }
}
