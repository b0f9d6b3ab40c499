//! What happens in sessions, for those who listen.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::broadcast;

/// How many events a listener may be behind before it misses some.
const BEHIND: usize = 1024;

/// What happened. Identifiers and numbers only: who wants the content asks for
/// it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum SessionEvent {
    /// A turn was recorded.
    TurnRecorded {
        /// The session.
        session: String,
        /// The turn.
        turn_id: String,
        /// Its number on the path.
        number: u64,
    },
    /// A request was assembled.
    Assembled {
        /// The session.
        session: String,
        /// The recipe.
        recipe: String,
        /// The model.
        model: String,
        /// The tokens of the request.
        tokens: u64,
        /// How many of them are those the request before began with.
        shared_tokens: Option<u64>,
        /// What the request is kept by.
        snapshot: Option<String>,
    },
    /// History was summarised.
    Compacted {
        /// The session.
        session: String,
        /// The turn that holds the summary.
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

    /// Returns the name that the event is sent by.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            SessionEvent::TurnRecorded { .. } => "turn_recorded",
            SessionEvent::Assembled { .. } => "assembled",
            SessionEvent::Compacted { .. } => "compacted",
        }
    }
}

/// Hands on what happens to those who listen, of one tenant.
pub(crate) struct Hub {
    // None when the server stops.
    sender: Mutex<Option<broadcast::Sender<(u64, SessionEvent)>>>,
    number: AtomicU64,
    listeners: Arc<AtomicUsize>,
    most: usize,
}

/// One who listens.
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
            sender: Mutex::new(Some(broadcast::Sender::new(BEHIND))),
            number: AtomicU64::new(0),
            listeners: Arc::default(),
            most,
        }
    }

    /// Tells what happened. Costs next to nothing when nobody listens.
    pub(crate) fn tell(&self, happened: impl FnOnce() -> SessionEvent) {
        if self.listeners.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Before anybody else has to wait: it may ask the store.
        let happened = happened();
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            // It fails when the last listener has just left.
            let _ = sender.send((number, happened));
        }
    }

    /// Returns a listener to what happens from now on, unless there are too
    /// many or the server stops.
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
