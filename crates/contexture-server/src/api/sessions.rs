//! Sessions: conversations that grow.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::on;
use contexture::compaction::{Compacted, Undone};
use contexture::store::{
    NewSession, NewTurn, Recorded, Session, SessionChange, SessionStatus, Turn,
};
use contexture::{CompactRequest, SessionCost};
use futures_util::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::api::page::{Limit, Page};
use crate::app::{App, Watch};
use crate::events::{Listener, SessionEvent};
use crate::operation::{self, Api, Gives, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A session, by its name.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Named {
    /// The session's label or alias.
    pub(crate) label: String,
}

/// A part of all sessions.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionList")]
pub(crate) struct Sessions {
    /// The sessions, by label.
    pub(crate) sessions: Vec<Session>,
    /// What to send as `after` for those behind, if there are more.
    pub(crate) next: Option<String>,
}

/// A change to a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SessionPatch")]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// One more name for it.
    #[serde(default)]
    alias: Option<String>,
    /// Whether it goes on.
    #[serde(default)]
    status: Option<SessionStatus>,
}

/// Which turns are wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Latest {
    /// How many of the latest, at most.
    limit: Limit,
}

/// The latest turns of a session, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionHistory")]
pub(crate) struct History {
    /// How many normal turns there are in all.
    total: u64,
    /// The latest of them, oldest first, with summaries where they stand.
    turns: Vec<Turn>,
}

/// How a history is to be made shorter.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "CompactRequest")]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CompactBody {
    /// What the summary is to pay attention to.
    pub(crate) focus: Option<String>,
    /// The model whose window counts. Default: that of the latest request.
    pub(crate) model: Option<String>,
    /// What a request may use. Default: what the latest might.
    pub(crate) max_tokens: Option<u64>,
}

/// What became of a history.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompactAnswer {
    /// The summary; null when there was nothing to summarise.
    pub(crate) compacted: Option<Compacted>,
}

/// Where a new session begins.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ForkRequest")]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// The new session's label.
    label: String,
    /// The turn it begins behind: at least 4 of the first digits of its id.
    /// Default: the latest.
    #[serde(default)]
    at: Option<String>,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/sessions", "create_session")
            .says(
                "Make a session",
                "A session is a name for a conversation, which grows by turns.",
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
                "List the sessions",
                "In the order of their labels, a part at a time.",
            )
            .example("/v1/sessions?limit=10", None),
        |tenant: &Tenant, _: Nothing, page: Page, _: Nothing| list(tenant, &page),
    );
    api.add(
        Operation::get("/v1/sessions/{label}", "get_session")
            .says("Look at a session", "By its label or an alias.")
            .example("/v1/sessions/support", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| {
            Ok(tenant.store()?.session(&path.label)?)
        },
    );
    api.add(
        Operation::new(
            axum::http::Method::PATCH,
            "/v1/sessions/{label}",
            "change_session",
        )
        .says(
            "Change a session",
            "Give it another name, or say that its work is done or has failed.",
        )
        .refuses(&[409])
        .example("/v1/sessions/support", json!({"alias": "the-build"})),
        change,
    );
    api.add(
        Operation::post("/v1/sessions/{label}/turns", "record_turn")
            .says(
                "Record a turn",
                "What was asked and what the model answered, calls and results included. When \
                 this is answered, the turn is on disk. A turn whose parent is no longer the \
                 latest is a conflict, and nothing is recorded. An idempotency key makes it safe \
                 to send it again.",
            )
            .creates()
            .refuses(&[409])
            .example(
                "/v1/sessions/support/turns",
                json!({
                    "messages": [
                        {"role": "user", "content": "Why does the build fail?"},
                        {"role": "assistant", "content": [
                            {"type": "text", "text": "Let me look."},
                            {"type": "tool_call", "id": "c1", "name": "shell",
                             "arguments": {"command": "make"}},
                        ]},
                        {"role": "tool", "tool_call_id": "c1",
                         "content": "undefined reference to foo"},
                        {"role": "assistant", "content": "foo is never linked."},
                    ],
                    "model": "claude-sonnet-4-5",
                    "idempotency_key": "answer-1",
                }),
            ),
        |tenant: &Tenant, path: Named, _: Nothing, turn: NewTurn| {
            record(tenant, &path.label, &turn)
        },
    );
    api.add(
        Operation::get("/v1/sessions/{label}/history", "get_history")
            .says(
                "Read the latest turns",
                "Oldest first, with summaries where they stand.",
            )
            .example("/v1/sessions/support/history?limit=1", None),
        history,
    );
    api.add(
        Operation::post("/v1/sessions/{label}/compact", "compact_session")
            .says(
                "Summarise all but the latest turns",
                "It is done by itself when a request would become too long. Nothing is lost: the \
                 turns stay, and `uncompact` undoes it.",
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
                "Summarise because the provider said that the request was too long",
                "Goes further than usual, once: when it was done already and nothing was recorded \
                 since, the provider's error stands.",
            )
            .refuses(&[409])
            .example("/v1/sessions/harbour/overflow", json!({"max_tokens": 4000})),
        overflow,
    );
    api.add(
        Operation::post("/v1/sessions/{label}/uncompact", "uncompact_session")
            .says(
                "Undo the latest summary",
                "Nothing that was said since is lost.",
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
                "Make a session that begins where another is, or was",
                "Both share what was said before.",
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
                "Read what a session cost",
                "Tokens as providers reported them, the part that came from their caches, and \
                 money where prices are known.",
            )
            .example("/v1/sessions/support/cost", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| -> Result<SessionCost, Problem> {
            Ok(tenant.engine.cost(&path.label)?)
        },
    );
    let mut listening = Operation::get("/v1/sessions/{label}/events", "listen_to_session").says(
        "Listen to a session",
        "Server-sent events: `turn_recorded`, `assembled` and `compacted`, from now on, as they \
         happen on this server. `missed` says how many a listener that reads too slowly has \
         missed. Identifiers and numbers only.",
    );
    listening.gives = Gives::Stream {
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

/// Records a turn, notes it, and tells those who listen.
pub(crate) fn record(tenant: &Tenant, label: &str, turn: &NewTurn) -> Result<Recorded, Problem> {
    let recorded = tenant.engine.record(label, turn, tenant.fixed_now())?;
    if !recorded.replayed {
        tenant.metrics.recorded(turn.usage.as_ref());
        // An alias stands for its session.
        let session = || match tenant.store().map(|store| store.session(label)) {
            Ok(Ok(session)) => session.label,
            _ => label.to_owned(),
        };
        tenant.events.tell(|| SessionEvent::TurnRecorded {
            session: session(),
            turn_id: recorded.id.to_string(),
            number: recorded.depth,
        });
    }
    Ok(recorded)
}

fn history(tenant: &Tenant, path: Named, query: Latest, _: Nothing) -> Result<History, Problem> {
    let turns = tenant.engine.history(&path.label, query.limit.get())?;
    let total = tenant.store()?.session(&path.label)?.turns;
    Ok(History { total, turns })
}

/// Summarises a session, and tells those who listen.
pub(crate) fn compact(
    tenant: &Tenant,
    label: &str,
    body: CompactBody,
) -> Result<CompactAnswer, Problem> {
    let compacted = tenant.engine.compact(label, &request(tenant, body))?;
    if let Some(compacted) = &compacted {
        tell_compacted(tenant, label, compacted)?;
    }
    Ok(CompactAnswer { compacted })
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
    tell_compacted(tenant, &path.label, &compacted)?;
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

fn tell_compacted(tenant: &Tenant, label: &str, compacted: &Compacted) -> Result<(), Problem> {
    let session = tenant.store()?.session(label)?.label;
    tenant.events.tell(|| SessionEvent::Compacted {
        session,
        turn_id: compacted.turn_id.to_string(),
    });
    Ok(())
}

/// Sends what happens in a session as it happens.
async fn listen(State(app): State<App>, request: Request<Body>) -> Response {
    let opened = async {
        let (mut parts, _) = request.into_parts();
        let path: Named = operation::path(&mut parts).await?;
        let _: Nothing = operation::query(&parts)?;
        let tenant = app.tenant(&parts).await?;
        let watch = app.watch(&parts)?;
        let asked = app.clone();
        app.run(move || {
            let label = tenant.store()?.session(&path.label)?.label;
            let listener = tenant.events.listen();
            // A tenant that is made ready while the server stops is not closed.
            let listener = listener.filter(|_| !asked.is_stopping());
            let listener = listener.ok_or_else(|| {
                Problem::unavailable("there are too many listeners, or the server is stopping")
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

/// What a listener's stream holds on to.
struct Held {
    watch: Watch,
    // One that is let go of is made ready anew when it is asked for, and tells
    // others.
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
                    if !watch.goes_on().await {
                        return None;
                    }
                    let next = listener.receiver.recv();
                    match tokio::time::timeout_at(watch.due().into(), next).await {
                        Ok(received) => received,
                        Err(_) => continue,
                    }
                }
            };
            let event = match received {
                Ok((_, happened)) if happened.session() != label => continue,
                Ok((number, happened)) => SseEvent::default()
                    .id(number.to_string())
                    .event(happened.name())
                    .data(serde_json::to_string(&happened).unwrap_or_default()),
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

    /// Returns all that is sent to a listener who reads when all has happened.
    fn sent(hub: &Hub, listener: Listener) -> String {
        hub.close();
        let response = Sse::new(stream("s".to_owned(), listener, None)).into_response();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let body = runtime.block_on(response.into_body().collect()).unwrap();
        String::from_utf8(body.to_bytes().into()).unwrap()
    }

    fn happened(session: &str, turn: u32) -> SessionEvent {
        SessionEvent::Compacted {
            session: session.to_owned(),
            turn_id: turn.to_string(),
        }
    }

    #[test]
    fn a_listener_hears_of_its_own_session() {
        let hub = Hub::new(1);
        // Before anybody listens, nothing is told.
        hub.tell(|| happened("s", 0));
        let listener = hub.listen().unwrap();
        assert!(hub.listen().is_none(), "there is room for one");
        for (session, turn) in [("s", 1), ("other", 2), ("s", 3)] {
            hub.tell(|| happened(session, turn));
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
    fn who_reads_too_slowly_is_told_what_it_missed() {
        let hub = Hub::new(1);
        let listener = hub.listen().unwrap();
        for turn in 0..1030 {
            hub.tell(|| happened("s", turn));
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
