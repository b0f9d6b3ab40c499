//! Reads the data of a call ahead of its use, in one transaction.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use contexture_store::{Call, ReadAhead, Session};

use crate::driver::Connection;
use crate::error::Fault;
use crate::known::{KnownSession, KnownSessions};
use crate::together::{Answer, Together};
use crate::{Backend, SqlStore, pins, sessions, snapshots};
use contexture_sql_memory::embed::state as memory_state;

/// The data that a call will read.
pub struct Reading {
    session: Option<String>,
    pins: bool,
    snapshots: usize,
    snapshot: Option<String>,
    samples: Option<(String, String, usize)>,
    memory: bool,
    // True if the session is read to record a turn.
    is_cached: bool,
    // True if a turn is recorded with the next request.
    next_turn: bool,
    // True if the call knows the session: such a turn waits, or it was read to record one.
    has_session: bool,
}

/// The answers to a [`Reading`], by name.
#[derive(Default)]
pub struct Answers(Vec<(String, StoreAnswer)>);

/// Stores an answer in the current call.
type StoreAnswer = Box<dyn FnOnce(String) + Send>;

/// Takes an answer after all have arrived.
type TakeAnswer<'r> = Box<dyn FnOnce() -> Option<StoreAnswer> + 'r>;

/// Takes an answer, unless it is an error: the caller then gets the error from
/// the call itself.
fn take<'r, T: Send + 'static>(answer: Answer<T>) -> TakeAnswer<'r> {
    Box::new(move || {
        let answer = answer.take().ok()?;
        Some(Box::new(move |key| Call::keep_ahead(key, answer)))
    })
}

impl Reading {
    fn new(wanted: &ReadAhead<'_>) -> Self {
        Self {
            session: wanted.session.map(str::to_owned),
            pins: wanted.pins,
            snapshots: wanted.snapshots,
            snapshot: wanted.snapshot.map(str::to_owned),
            samples: (wanted.samples)
                .map(|(model, counter, most)| (model.to_owned(), counter.to_owned(), most)),
            memory: wanted.memory,
            is_cached: wanted.is_cached,
            next_turn: wanted.next_turn,
            has_session: false,
        }
    }

    /// Reads the data that one call of a tenant will use.
    pub fn run(&self, db: &Connection, tenant: i64) -> Result<Answers, Fault> {
        let all = Self::run_all(db, &[(tenant, self)])?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// Reads the data that calls of the tenants with these keys will use. The
    /// number of round trips is the same as for one call.
    pub fn run_all(db: &Connection, readings: &[(i64, &Reading)]) -> Result<Vec<Answers>, Fault> {
        let mut together = Together::default();
        let all: Vec<_> = readings
            .iter()
            .map(|(tenant, reading)| reading.add_to(&mut together, *tenant))
            .collect();
        together.run(db)?;
        let answers = |taken: Vec<(String, TakeAnswer<'_>)>| {
            let taken = taken.into_iter();
            Answers(
                taken
                    .filter_map(|(name, take)| Some((name, take()?)))
                    .collect(),
            )
        };
        Ok(all.into_iter().map(answers).collect())
    }

    fn add_to<'r>(
        &'r self,
        together: &mut Together<'r>,
        tenant: i64,
    ) -> Vec<(String, TakeAnswer<'r>)> {
        let mut all: Vec<(String, TakeAnswer<'r>)> = Vec::new();
        if let (true, Some(label)) = (self.is_cached, self.session.as_deref()) {
            let most = self.snapshots;
            let found = together.add(move |db| sessions::get_with_row(db, tenant, label));
            let latest = together.add(move |db| snapshots::of_session(db, tenant, label, most));
            let take: TakeAnswer<'r> = Box::new(move || {
                let (session, row) = found.take().ok()?;
                let snapshots = latest.take().ok()?;
                let known = KnownSession {
                    key: row.key,
                    moves: row.moves,
                    session,
                    snapshots,
                    most,
                };
                Some(Box::new(move |key| Call::keep_ahead(key, known)))
            });
            all.push((read_session(label), take));
        } else if let Some(label) = self.session.as_deref() {
            let exists = Rc::new(Cell::new(self.has_session));
            if !self.has_session {
                let is_found = Rc::clone(&exists);
                let found = together.add(move |db| {
                    let found = sessions::get(db, tenant, label)?;
                    is_found.set(true);
                    Ok(found)
                });
                all.push((session(label), take(found)));
            }
            if self.pins {
                let found = together.add(move |db| pins::list_of_session(db, tenant, label));
                let take = take(found);
                all.push((
                    pins(label),
                    Box::new(move || exists.get().then(take).flatten()),
                ));
            }
            let most = self.snapshots;
            if most > 0 {
                let found = together.add(move |db| snapshots::of_session(db, tenant, label, most));
                all.push((latest_snapshots(label, most), take(found)));
            }
            if self.next_turn {
                let found = together.add(move |db| sessions::find_to_record(db, tenant, label));
                all.push((row(label), take(found)));
            }
        }
        if let Some(prefix) = self.snapshot.as_deref() {
            let found = together.add(move |db| snapshots::find(db, tenant, prefix));
            all.push((snapshot(prefix), take(found)));
        }
        if let Some((model, counter, most)) = &self.samples {
            let most = *most;
            let found =
                together.add(move |db| snapshots::samples(db, tenant, model, counter, most));
            all.push((samples(model, counter, most), take(found)));
            let found = together.add(move |db| snapshots::sampled_models(db, tenant, counter));
            all.push((sampled_models(counter), take(found)));
        }
        if self.memory {
            let found = together.add(move |db| memory_state(db, tenant));
            all.push((memory(), take(found)));
        }
        all
    }
}

pub(crate) fn session(label: &str) -> String {
    format!("session {label}")
}

/// The name of the second answer about a session. If no turn is recorded, the request is
/// made of the state that the call has read to record one.
pub(crate) fn session_again(label: &str) -> String {
    format!("session again {label}")
}

/// The name of the row of a session to which a turn is added.
fn row(label: &str) -> String {
    format!("row of session {label}")
}

/// The name of a session that was read with its latest snapshots.
fn read_session(label: &str) -> String {
    format!("read session {label}")
}

/// The name of the state that a turn is recorded with.
fn known_session(label: &str) -> String {
    format!("known session {label}")
}

/// The state of a session that a call has seen. `is_checked` is false if it is
/// from the cache.
pub(crate) struct SeenSession {
    pub(crate) known: Arc<KnownSession>,
    pub(crate) is_checked: bool,
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
        [&*self.ahead_prefix, name].concat()
    }

    /// Reads the wanted data and caches it in the current call.
    pub(crate) fn keep_ahead(&self, wanted: &ReadAhead<'_>) {
        if Call::current().is_none() {
            return;
        }
        let mut reading = Reading::new(wanted);
        // The cache has only a session and its snapshots.
        let is_whole =
            !wanted.pins && !wanted.memory && wanted.snapshot.is_none() && wanted.samples.is_none();
        let is_remote = self.backend.is_remote();
        reading.is_cached &= is_whole && is_remote;
        if is_remote && wanted.next_turn {
            return;
        }
        if !is_remote {
            // In this process, only the transactions cost something: a query that may
            // not be needed is too much. Snapshots may still have to be written.
            (reading.memory, reading.snapshots, reading.snapshot) = (false, 0, None);
            reading.has_session = wanted.session.is_some_and(|label| {
                Call::has_ahead(&self.ahead_key(&session_again(label)))
                    || self.pending_session(label).is_some()
            });
            if reading.session.is_none() || !reading.pins && !wanted.next_turn {
                return;
            }
        }
        let cached = wanted.session.filter(|_| reading.is_cached);
        if let Some(label) = cached {
            let tenant = self.backend.tenant_name();
            if let Some(known) = self.known.get(tenant, label, wanted.snapshots) {
                self.keep_seen(label, known, false);
                return;
            }
        }
        // A failure is returned by the call that reads the data.
        if let Ok(Answers(answers)) = self.backend.read_ahead(reading) {
            for (name, keep) in answers {
                keep(self.ahead_key(&name));
            }
        }
        if let (true, Some(label)) = (wanted.next_turn, wanted.session)
            && let Some(found) = Call::take_ahead::<Session>(|| self.ahead_key(&session(label)))
        {
            let again = self.ahead_key(&session_again(label));
            Call::keep_ahead(again, found.clone());
            Call::keep_ahead(self.ahead_key(&session(label)), found);
        }
        if let Some(label) = cached
            && let Some(known) = Call::take_ahead(|| self.ahead_key(&read_session(label)))
        {
            self.keep_seen(label, Arc::new(known), true);
        }
    }

    /// Answers the next queries for a session from its state.
    fn keep_seen(&self, label: &str, known: Arc<KnownSession>, is_checked: bool) {
        Call::keep_ahead(self.ahead_key(&session(label)), known.session.clone());
        if known.session.label == label {
            let snapshots = latest_snapshots(label, known.most);
            Call::keep_ahead(self.ahead_key(&snapshots), known.snapshots.clone());
            let seen = SeenSession { known, is_checked };
            Call::keep_ahead(self.ahead_key(&known_session(label)), seen);
        }
    }

    /// Returns the state of a session that the current call has seen.
    pub(crate) fn take_seen(&self, label: &str) -> Option<SeenSession> {
        Call::take_ahead(|| self.ahead_key(&known_session(label)))
    }

    /// Returns the row of a session to which a turn is added.
    pub(crate) fn take_row(&self, label: &str) -> Option<sessions::RecordingRow> {
        Call::take_ahead(|| self.ahead_key(&row(label)))
    }

    /// Returns the cache of sessions, if the database is in another process.
    pub(crate) fn known_if_remote(&self) -> Option<Arc<KnownSessions>> {
        (self.backend.is_remote()).then(|| Arc::clone(&self.known))
    }
}
