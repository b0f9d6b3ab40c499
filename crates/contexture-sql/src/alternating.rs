//! A backend that uses two handles on one database in turn, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_store::{EventHint, Recorded, StoreError, Usage, Watch};

use crate::{Announcer, Answers, Backend, Connection, Fault, Reading, Recording};

/// Two handles on one database. Successive calls alternate between the handles,
/// so that a test of a store also tests what the other handle sees.
#[derive(Clone)]
pub struct Alternating<B> {
    handles: [B; 2],
    calls: Arc<AtomicUsize>,
}

impl<B> Alternating<B> {
    /// Returns a backend that uses both handles.
    pub fn new(one: B, other: B) -> Self {
        Self {
            handles: [one, other],
            calls: Arc::default(),
        }
    }

    fn next(&self) -> &B {
        &self.handles[self.calls.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

impl<B: Backend> Backend for Alternating<B> {
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.next().read(read)
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.next().write(write)
    }

    fn read_ahead(&self, reading: Reading) -> Result<Answers, StoreError> {
        self.next().read_ahead(reading)
    }

    fn record(&self, recording: Recording) -> Result<Recorded, StoreError> {
        self.next().record(recording)
    }

    fn write_and_clean<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<(T, bool), StoreError> {
        self.next().write_and_clean(write)
    }

    fn write_later(
        &self,
        write: impl FnOnce(&Connection, i64) -> Result<(), Fault> + Send + 'static,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        // Background writes are ordered only within one handle.
        self.handles[0].write_later(write, done);
    }

    fn settle(&self) {
        self.handles[0].settle();
    }

    fn for_tenant(&self, tenant: &str) -> Self {
        let [one, other] = &self.handles;
        Self::new(one.for_tenant(tenant), other.for_tenant(tenant))
    }

    fn shared(&self, tenant: &str) -> Self {
        let [one, other] = &self.handles;
        Self {
            handles: [one.shared(tenant), other.shared(tenant)],
            calls: Arc::clone(&self.calls),
        }
    }

    fn is_remote(&self) -> bool {
        self.handles[0].is_remote()
    }

    fn explain(&self, fault: Fault) -> StoreError {
        self.next().explain(fault)
    }

    fn max_message_bytes(&self) -> u64 {
        self.handles[0].max_message_bytes()
    }

    fn address(&self) -> String {
        self.handles[0].address()
    }

    fn tenant_name(&self) -> &str {
        self.handles[0].tenant_name()
    }

    fn has_data(&self) -> Result<bool, StoreError> {
        self.next().has_data()
    }

    fn measure(&self, usage: Usage) -> Result<Usage, StoreError> {
        self.next().measure(usage)
    }

    fn has_deleted_text(&self) -> Result<bool, StoreError> {
        self.next().has_deleted_text()
    }

    fn tenant_names(&self) -> Result<Vec<String>, StoreError> {
        self.next().tenant_names()
    }

    fn remove_tenant(&self, name: &str) -> Result<(), StoreError> {
        self.next().remove_tenant(name)
    }

    fn probe(&self) -> Result<(), StoreError> {
        self.next().probe()
    }

    fn announcer(&self) -> Option<Announcer> {
        self.next().announcer()
    }

    fn on_event(&self, woken: EventHint) {
        self.handles[0].on_event(woken);
    }

    fn watch(&self, watch: Watch) {
        self.handles[0].watch(Arc::clone(&watch));
        self.handles[1].watch(watch);
    }

    fn incarnation(&self) -> u64 {
        self.handles[0].incarnation()
    }
}
