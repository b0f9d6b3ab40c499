//! The core of a record stream: held while the stream computes, and given up while
//! it waits for its client, for the store or for a model.
//!
//! A stream has no end that is known. With a core for all its time, a client that
//! sends slowly would keep other calls of its tenant waiting. Without one, a tenant
//! with several streams would use all cores of the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture::store::{ExecutionSlot, ModelCall};
use tokio::runtime::Handle;

use crate::app::App;
use crate::slots::Slot;

/// The core of a stream.
pub(crate) struct StreamCore {
    app: App,
    tenant: Arc<str>,
    runtime: Handle,
    held: Mutex<Option<Slot>>,
}

impl StreamCore {
    /// Returns the core of a stream, which is not held yet.
    pub(crate) fn new(app: App, tenant: &Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            app,
            tenant: Arc::clone(tenant),
            runtime: Handle::current(),
            held: Mutex::default(),
        })
    }

    /// Waits, in the thread of the stream, until the stream can compute. The caller
    /// holds no lock: a call that has a core can wait for it.
    pub(crate) fn take(&self) {
        if self.lock().is_none() {
            let core = self.runtime.block_on(self.app.core(&self.tenant));
            *self.lock() = core;
        }
    }

    /// Gives the core to others.
    pub(crate) fn give_up(&self) {
        let core = self.lock().take();
        drop(core);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Slot>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExecutionSlot for StreamCore {
    fn wait(&self) {
        self.give_up();
    }

    fn leave(&self, _: ModelCall) {
        self.give_up();
    }

    // The stream takes a core again with its next part.
    fn come_back(&self, _: ModelCall, _: Duration) {}
}
