//! Streams the events of a session to a client.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use contexture::store::{EventPage, StoredEvent};
use contexture_api::sessions::Named;
use contexture_api::{Nothing, Problem};
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::answer;
use crate::app::{App, Watch};
use crate::events::{self, Listener};
use crate::problem::Respond as _;
use crate::tenant::Tenant;

/// Sends the events of a session as they happen, on any server.
pub(crate) async fn listen(State(app): State<App>, request: Request<Body>) -> Response {
    let opened = async {
        let (mut parts, _) = request.into_parts();
        let path: Named = answer::path(&mut parts).await?;
        let _: Nothing = answer::query(&parts)?;
        let last = last_event_id(&parts.headers)?;
        let tenant = app.tenant(&parts).await?;
        let watch = app.watch(&parts)?;
        let (asked, of) = (app.clone(), Arc::clone(&tenant));
        let name = Arc::clone(&tenant.name);
        let (label, listener, page) = app
            .run(&name, move || {
                let store = of.store()?;
                let label = store.session(&path.label)?.label;
                let listener = of.events.listen();
                // A tenant that is loaded while the server stops is not closed by it.
                let listener = listener.filter(|_| !asked.is_stopping());
                let listener = listener.ok_or_else(|| {
                    Problem::unavailable("too many listeners, or the server is stopping")
                        .hint("retry later, or raise `max_listeners` in the server's settings")
                })?;
                // Read after the listener has begun to listen: nothing is in between.
                let page = match last {
                    Some(last) => store.events(last, FIRST_EVENTS)?,
                    None => store.events(u64::MAX, 0)?,
                };
                Ok((label, listener, page))
            })
            .await?;
        events::start_reading(&app, &tenant, page.latest);
        Ok(EventStream::new(
            label,
            last,
            page,
            listener,
            Held { watch, app, tenant },
        ))
    };
    match opened.await {
        Ok(events) => {
            let alive = KeepAlive::new().interval(Duration::from_secs(15));
            Sse::new(events.into_stream())
                .keep_alive(alive)
                .into_response()
        }
        Err::<_, Problem>(problem) => problem.into_response(),
    }
}

/// How many events are read when a listener connects again.
const FIRST_EVENTS: usize = 256;

/// Returns the number of the last event that a client has received, if it connects
/// again.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        Problem::bad_request(
            "invalid_header",
            "`last-event-id` is not the id of an event",
        )
        .hint("send the `id` of the last event, or omit the header")
    })
}

/// The state that the stream of a listener keeps alive.
struct Held {
    watch: Watch,
    app: App,
    // A tenant that is dropped is loaded again on its next use, with a new hub
    // that does not know this listener.
    tenant: Arc<Tenant>,
}

/// The stream of a session's events to a client.
struct EventStream {
    label: String,
    // The number of the last event that was looked at.
    after: u64,
    listener: Listener,
    // Events that were read from the store and not sent yet.
    queue: VecDeque<Arc<StoredEvent>>,
    // Whether the store has more after those.
    behind: bool,
    // The message about events that were removed.
    missed: Option<SseEvent>,
    held: Held,
}

impl EventStream {
    /// Begins after the event `last`, or after the latest one.
    fn new(
        label: String,
        last: Option<u64>,
        page: EventPage,
        listener: Listener,
        held: Held,
    ) -> Self {
        let missed = last.and_then(|last| missed(last, &page));
        Self {
            label,
            after: last.map_or(page.latest, |last| last.min(page.latest)),
            listener,
            behind: page.events.len() == FIRST_EVENTS,
            queue: page.events.into_iter().map(Arc::new).collect(),
            missed,
            held,
        }
    }

    fn into_stream(self) -> impl Stream<Item = Result<SseEvent, Infallible>> + Send {
        futures_util::stream::unfold(self, |mut events| async move {
            let next = events.next().await?;
            Some((Ok(next), events))
        })
    }

    /// Returns the next event of the session. `None` ends the stream: the key was
    /// revoked, or the server stops.
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if !self.held.watch.is_authorized().await {
                return None;
            }
            if let Some(missed) = self.missed.take() {
                return Some(missed);
            }
            if let Some(event) = self.queue.pop_front() {
                // Events that were read from the store also arrive from the
                // hub.
                if event.number <= self.after {
                    continue;
                }
                self.after = event.number;
                if event.session == self.label {
                    return Some(
                        SseEvent::default()
                            .id(event.number.to_string())
                            .event(&event.kind)
                            .data(events::shown(&event).to_string()),
                    );
                }
                continue;
            }
            if self.behind {
                self.read_on().await;
                continue;
            }
            let next = self.listener.receiver.recv();
            let until = self.held.watch.next_check().into();
            match tokio::time::timeout_at(until, next).await {
                Ok(Ok(event)) => self.queue.push_back(event),
                // The store still has the events that the hub has dropped.
                Ok(Err(RecvError::Lagged(_))) => self.behind = true,
                Ok(Err(RecvError::Closed)) => return None,
                Err(_) => {}
            }
        }
    }

    /// Reads the next events from the store.
    async fn read_on(&mut self) {
        match events::page(&self.held.app, &self.held.tenant, self.after).await {
            Ok(page) => {
                self.missed = missed(self.after, &page);
                self.behind = page.events.len() == FIRST_EVENTS;
                self.queue.extend(page.events.into_iter().map(Arc::new));
            }
            // The store cannot be read now.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Returns the event for a client whose last event is older than those that are
/// stored, or is none of this store.
fn missed(last: u64, page: &EventPage) -> Option<SseEvent> {
    let missed = match last {
        last if last > page.latest => Value::Null,
        last if last + 1 < page.oldest => (page.oldest - 1 - last).into(),
        _ => return None,
    };
    let data = json!({"type": "missed", "missed": missed});
    Some(SseEvent::default().event("missed").data(data.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_that_is_too_old_is_reported() {
        let page = |oldest, latest| EventPage {
            events: Vec::new(),
            oldest,
            latest,
        };
        let said = |last, page: &EventPage| missed(last, page).map(|event| format!("{event:?}"));
        assert_eq!(said(0, &page(0, 0)), None, "there are none");
        assert_eq!(said(0, &page(1, 9)), None, "all are there");
        assert_eq!(said(4, &page(5, 9)), None, "the next one is there");
        assert_eq!(said(9, &page(5, 9)), None, "it has the latest");
        assert!(said(3, &page(5, 9)).unwrap().contains("1"));
        let foreign = said(10, &page(5, 9)).unwrap();
        assert!(foreign.contains("null"), "{foreign}");
    }
}
