//! Events of sessions, published to listeners of the same tenant.
//!
//! Events are not stored. A listener that reads too slowly loses the oldest
//! events and is told how many.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::broadcast;

/// The number of unread events after which a listener loses the oldest.
const MAX_UNREAD: usize = 1024;

/// An event of a session. Events carry ids and counts, not content.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum SessionEvent {
    /// A turn was recorded.
    TurnRecorded {
        /// The label of the session.
        session: String,
        /// The id of the turn.
        turn_id: String,
        /// The number of the turn in its session, from 1.
        number: u64,
    },
    /// A request was assembled.
    Assembled {
        /// The label of the session.
        session: String,
        /// The name of the recipe.
        recipe: String,
        /// The model that the request is for.
        model: String,
        /// The tokens of the request.
        tokens: u64,
        /// The number of leading tokens that are the same as in the previous
        /// request. Null for the first request.
        shared_tokens: Option<u64>,
        /// The hash under which the request was saved. Null if it was not
        /// saved.
        snapshot: Option<String>,
    },
    /// The history was compacted.
    Compacted {
        /// The label of the session.
        session: String,
        /// The id of the turn that holds the summary.
        turn_id: String,
    },
}

impl SessionEvent {
    pub(crate) fn session(&self) -> &str {
        match self {
            SessionEvent::TurnRecorded { session, .. }
            | SessionEvent::Assembled { session, .. }
            | SessionEvent::Compacted { session, .. } => session,
        }
    }

    /// Returns the event's name in server-sent events.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            SessionEvent::TurnRecorded { .. } => "turn_recorded",
            SessionEvent::Assembled { .. } => "assembled",
            SessionEvent::Compacted { .. } => "compacted",
        }
    }
}

/// Publishes the events of one tenant to its listeners.
pub(crate) struct Hub {
    // None after the server has begun to stop.
    sender: Mutex<Option<broadcast::Sender<(u64, SessionEvent)>>>,
    number: AtomicU64,
    listeners: Arc<AtomicUsize>,
    most: usize,
}

/// A subscription to the events of a tenant.
pub(crate) struct Listener {
    pub(crate) receiver: broadcast::Receiver<(u64, SessionEvent)>,
    listeners: Arc<AtomicUsize>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hub {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            sender: Mutex::new(Some(broadcast::Sender::new(MAX_UNREAD))),
            number: AtomicU64::new(0),
            listeners: Arc::default(),
            most,
        }
    }

    /// Publishes an event. Without listeners, the event is not even created.
    pub(crate) fn publish(&self, event: impl FnOnce() -> SessionEvent) {
        if self.listeners.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Created before the lock is taken, because it can read the store.
        let event = event();
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            // Fails if the last listener has just left.
            let _ = sender.send((number, event));
        }
    }

    /// Returns a listener for events from now on. Returns `None` if the limit of
    /// listeners is reached or the server is stopping.
    pub(crate) fn listen(&self) -> Option<Listener> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref()?;
        let before = self.listeners.fetch_add(1, Ordering::Relaxed);
        if before >= self.most {
            self.listeners.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Listener {
            receiver: sender.subscribe(),
            listeners: Arc::clone(&self.listeners),
        })
    }

    pub(crate) fn close(&self) {
        *self.sender.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
