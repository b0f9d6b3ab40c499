//! Turns that are written together with the request that is made from them.
//!
//! A call that records a turn and then saves a request would wait for the disk twice.
//! The turn is therefore checked at once, and kept in the call until the request is
//! saved. Meanwhile, the call sees the session as it will be. Every other access to
//! the store writes the turn first, so that no query can miss it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_store::{Call, Recorded, Session, StoreError};

use crate::error::Fault;
use crate::record::Recording;
use crate::{Backend, Connection, SqlStore};

/// The turn of a call that waits for a request.
pub(crate) struct PendingTurn(Mutex<State>);

enum State {
    Waiting {
        recording: Arc<Recording>,
        recorded: Recorded,
        // The session with the turn.
        session: Box<Session>,
    },
    /// Nothing waits.
    Done,
    /// The turn could not be written, and the call does not know that yet.
    Lost,
}

impl PendingTurn {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_lost(&self) -> bool {
        matches!(*self.lock(), State::Lost)
    }

    /// Writes the turn with `write`, if that has not been tried. Other threads of the
    /// call wait meanwhile: they must not read the session without the turn.
    fn write<T>(
        &self,
        write: impl FnOnce(Arc<Recording>, Recorded) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut state = self.lock();
        let State::Waiting {
            recording,
            recorded,
            ..
        } = &*state
        else {
            return Ok(None);
        };
        let written = write(Arc::clone(recording), *recorded);
        *state = match &written {
            Ok(_) => State::Done,
            Err(_) => State::Lost,
        };
        written.map(Some)
    }
}

/// Writes a turn that was checked before.
fn write_turn(
    recording: &Recording,
    expected: &Recorded,
    db: &Connection,
    tenant: i64,
) -> Result<(), Fault> {
    let recorded = recording.run(db, tenant)?;
    match recorded.id == expected.id {
        true => Ok(()),
        false => Err(Fault::Refused(StoreError::Conflict {
            session: recording.label().to_owned(),
            expected: expected.parent,
            head: recorded.parent,
        })),
    }
}

impl<B: Backend> SqlStore<B> {
    /// Returns the turn of the current call that waits for a request.
    fn pending(&self) -> Option<Arc<PendingTurn>> {
        Call::state(&self.ahead_prefix)
    }

    /// Checks a turn of a session, and keeps it in the current call. Returns `None` if
    /// there is no call, or if another turn of the call waits or could not be written.
    pub(crate) fn keep_pending(
        &self,
        session: &Session,
        recording: Recording,
    ) -> Result<Option<Recorded>, StoreError> {
        let is_done = |one: Arc<PendingTurn>| matches!(*one.lock(), State::Done);
        if Call::current().is_none() || !self.pending().is_none_or(is_done) {
            return Ok(None);
        }
        let known = match self.take_row(recording.label()) {
            Some(row) => recording.check_after(row),
            None => Ok(None),
        };
        let recorded = match known.map_err(|fault| self.explain(fault))? {
            Some(recorded) => recorded,
            None => self
                .backend
                .read(|db, tenant| recording.check(db, tenant))?,
        };
        if recorded.parent != session.head {
            return Ok(None);
        }
        let mut session = Box::new(session.clone());
        session.follow(&recorded, recording.now());
        let pending = PendingTurn(Mutex::new(State::Waiting {
            recording: Arc::new(recording),
            recorded,
            session,
        }));
        let is_kept = Call::put_state(&self.ahead_prefix, Arc::new(pending));
        Ok(is_kept.then_some(recorded))
    }

    /// Returns the session of the turn that waits, with the turn, if `label` names it.
    pub(crate) fn pending_session(&self, label: &str) -> Option<Session> {
        match &*self.pending()?.lock() {
            State::Waiting { session, .. } if session.is_named(label) => {
                Some(Session::clone(session))
            }
            _ => None,
        }
    }

    /// Writes the turn that waits, if there is one.
    pub(crate) fn write_pending(&self) -> Result<(), StoreError> {
        let Some(pending) = self.pending() else {
            return Ok(());
        };
        let written = pending.write(|recording, expected| {
            self.backend
                .write(move |db, tenant| write_turn(&recording, &expected, db, tenant))
        })?;
        if written.is_some() {
            self.announce();
        }
        Ok(())
    }

    /// Writes the turn that waits together with a request. Returns what became of the
    /// request, or `None` if no turn waits. A request that is refused does not prevent
    /// the turn. The request is not saved without the turn.
    pub(crate) fn write_pending_with(
        &self,
        save: impl Fn(&Connection, i64) -> Result<(), Fault> + Send + 'static,
    ) -> Option<Result<(), StoreError>> {
        let pending = self.pending()?;
        let written = pending.write(|recording, expected| {
            self.backend.write(move |db, tenant| {
                write_turn(&recording, &expected, db, tenant)?;
                match save(db, tenant) {
                    // Nothing of the request was written.
                    Err(Fault::Refused(refused)) => Ok(Err(refused)),
                    saved => saved.map(Ok),
                }
            })
        });
        match written {
            Ok(Some(saved)) => {
                self.announce();
                Some(saved)
            }
            Ok(None) if !pending.is_lost() => None,
            Ok(None) | Err(_) => Some(Err(StoreError::Withdrawn)),
        }
    }

    /// Writes the turn that waits. Returns false if the turn could not be written.
    pub(crate) fn finish_pending(&self) -> bool {
        let Some(pending) = self.pending() else {
            return true;
        };
        // The state has the outcome.
        let _ = self.write_pending();
        let outcome = std::mem::replace(&mut *pending.lock(), State::Done);
        !matches!(outcome, State::Lost)
    }
}
