//! Reads ahead what a call will ask for, in one round trip.

use contexture_store::{Call, ReadAhead};

use crate::error::Fault;
use crate::memory::state as memory_state;
use crate::together::{Answer, Together};
use crate::{Backend, SqlStore, pins, sessions, snapshots};

/// An answer and its name.
type Kept<'r> = Vec<(String, Box<dyn FnOnce(String) + 'r>)>;

/// Stores an answer, unless it is an error: the caller then gets the error from
/// the call itself.
fn keep<'r, T>(answer: Answer<T>) -> Box<dyn FnOnce(String) + 'r>
where
    T: Send + 'static,
{
    Box::new(move |key| {
        if let Ok(answer) = answer.take() {
            Call::keep_ahead(key, answer);
        }
    })
}

pub(crate) fn session(label: &str) -> String {
    format!("session {label}")
}

pub(crate) fn pins(label: &str) -> String {
    format!("pins {label}")
}

pub(crate) fn latest_snapshots(label: &str, most: usize) -> String {
    format!("snapshots {most} {label}")
}

pub(crate) fn snapshot(prefix: &str) -> String {
    format!("snapshot {prefix}")
}

pub(crate) fn samples(model: &str, counter: &str, most: usize) -> String {
    format!("samples {most} {counter} {model}")
}

pub(crate) fn sampled_models(counter: &str) -> String {
    format!("models {counter}")
}

pub(crate) fn memory() -> String {
    "memory".to_owned()
}

impl<B: Backend> SqlStore<B> {
    /// Returns the key of an answer of this store.
    pub(crate) fn ahead_key(&self, name: &str) -> String {
        let (address, tenant) = (self.backend.address(), self.backend.tenant_name());
        format!("{address}\n{tenant}\n{name}")
    }

    /// Reads what is wanted and keeps it with the current call.
    pub(crate) fn keep_ahead(&self, wanted: &ReadAhead<'_>) {
        if !self.backend.is_remote() || Call::current().is_none() {
            return;
        }
        // A failure is returned to the caller.
        let _ = self.read(|db, tenant| {
            let mut together = Together::default();
            let mut kept: Kept<'_> = Vec::new();
            if let Some(label) = wanted.session {
                let found = together.add(move |db| sessions::get(db, tenant, label));
                kept.push((session(label), keep(found)));
                let found = together.add(move |db| pins::list(db, tenant, label));
                kept.push((pins(label), keep(found)));
                let most = wanted.snapshots;
                let found = together.add(move |db| snapshots::of_session(db, tenant, label, most));
                kept.push((latest_snapshots(label, most), keep(found)));
            }
            if let Some(prefix) = wanted.snapshot {
                let found = together.add(move |db| snapshots::find(db, tenant, prefix));
                kept.push((snapshot(prefix), keep(found)));
            }
            if let Some((model, counter, most)) = wanted.samples {
                let found =
                    together.add(move |db| snapshots::samples(db, tenant, model, counter, most));
                kept.push((samples(model, counter, most), keep(found)));
                let found = together.add(move |db| snapshots::sampled_models(db, tenant, counter));
                kept.push((sampled_models(counter), keep(found)));
            }
            if wanted.memory {
                let found = together.add(move |db| memory_state(db, tenant));
                kept.push((memory(), keep(found)));
            }
            together.run(db)?;
            for (name, keep) in kept {
                keep(self.ahead_key(&name));
            }
            Ok::<_, Fault>(())
        });
    }
}
