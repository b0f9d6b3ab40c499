//! Events of sessions, sent to listeners of the same tenant.
//!
//! The store numbers and keeps events, so that a listener gets what happens on all
//! servers and, after a reconnect, what it has missed. While a tenant has
//! listeners, one task reads its new events and passes them on. It is woken by
//! calls on this server and by hints of other servers, and looks once a second
//! without them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use contexture::store::{EventPage, StoredEvent};
use contexture_api::Problem;
use serde_json::{Map, Value};
use tokio::sync::{Notify, broadcast};

use crate::app::App;
use crate::tenant::Tenant;

/// The number of unread events after which a listener reads from the store again.
const MAX_UNREAD: usize = 1024;

/// How many events are read at once.
const AT_ONCE: usize = 256;

/// How often the store is asked without a hint.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns an event as it is sent.
pub(crate) fn shown(event: &StoredEvent) -> Value {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), event.kind.clone().into());
    fields.insert("session".to_owned(), event.session.clone().into());
    fields.extend(event.data.clone());
    Value::Object(fields)
}

/// Passes the events of one tenant on to its listeners.
pub(crate) struct Hub {
    // None after the server has begun to stop.
    sender: Mutex<Option<broadcast::Sender<Arc<StoredEvent>>>>,
    woken: Notify,
    // Whether a task reads events.
    reading: AtomicBool,
    listeners: Arc<AtomicUsize>,
    most: AtomicUsize,
}

/// A subscription to the events of a tenant.
pub(crate) struct Listener {
    pub(crate) receiver: broadcast::Receiver<Arc<StoredEvent>>,
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
            woken: Notify::new(),
            reading: AtomicBool::new(false),
            listeners: Arc::default(),
            most: AtomicUsize::new(most),
        }
    }

    /// Changes the limit of listeners. Those that listen stay.
    pub(crate) fn set_limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Reads new events from the store if there are listeners.
    pub(crate) fn wake(&self) {
        if self.listeners.load(Ordering::Relaxed) > 0 {
            self.woken.notify_one();
        }
    }

    /// Returns a listener for events from now on. Returns `None` if the limit of
    /// listeners is reached or the server is stopping.
    pub(crate) fn listen(&self) -> Option<Listener> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref()?;
        let before = self.listeners.fetch_add(1, Ordering::Relaxed);
        if before >= self.most.load(Ordering::Relaxed) {
            self.listeners.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Listener {
            receiver: sender.subscribe(),
            listeners: Arc::clone(&self.listeners),
        })
    }

    /// Sends an event to all listeners. Returns false when the server stops.
    pub(crate) fn send(&self, event: StoredEvent) -> bool {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // Sending fails if the last listener has just left.
        sender
            .as_ref()
            .map(|sender| sender.send(Arc::new(event)))
            .is_some()
    }

    pub(crate) fn close(&self) {
        *self.sender.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.woken.notify_one();
    }
}

/// Reads a page of the events after `after`.
pub(crate) async fn page(
    app: &App,
    tenant: &Arc<Tenant>,
    after: u64,
) -> Result<EventPage, Problem> {
    let tenant = Arc::clone(tenant);
    app.run_apart(move || Ok(tenant.store()?.events(after, AT_ONCE)?))
        .await
}

/// Starts the task that reads events after `after`, unless it runs.
pub(crate) fn start_reading(app: &App, tenant: &Arc<Tenant>, after: u64) {
    if !tenant.events.reading.swap(true, Ordering::AcqRel) {
        let hub = Arc::downgrade(&tenant.events);
        tokio::spawn(read(app.clone(), Arc::downgrade(tenant), hub, after));
    }
}

/// Reads until no listener is left, or the server stops. When the settings are read
/// again, another tenant takes over the hub.
async fn read(app: App, mut of: Weak<Tenant>, hub: Weak<Hub>, mut after: u64) {
    let Some(name) = of.upgrade().map(|tenant| Arc::clone(&tenant.name)) else {
        return;
    };
    loop {
        let tenant = of.upgrade().or_else(|| {
            let (hub, tenant) = (hub.upgrade()?, app.tenants().ready(&name)?);
            Arc::ptr_eq(&tenant.events, &hub).then_some(tenant)
        });
        let Some(tenant) = tenant else {
            return;
        };
        of = Arc::downgrade(&tenant);
        // An event of this server, a hint of another one, or the time.
        let _ = tokio::time::timeout(INTERVAL, tenant.events.woken.notified()).await;
        if tenant.events.listeners.load(Ordering::Relaxed) == 0 {
            tenant.events.reading.store(false, Ordering::Release);
            // A listener that has come meanwhile found a task at work.
            let came = tenant.events.listeners.load(Ordering::Relaxed) > 0;
            if !came || tenant.events.reading.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        loop {
            // Without an answer, the store is asked again later.
            let Ok(page) = page(&app, &tenant, after).await else {
                break;
            };
            // Another database can have taken its place.
            after = after.min(page.latest);
            let full = page.events.len() == AT_ONCE;
            for event in page.events {
                after = event.number;
                if !tenant.events.send(event) {
                    return;
                }
            }
            if !full {
                break;
            }
        }
    }
}
