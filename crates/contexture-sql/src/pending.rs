//! Turns that are written together with the request that is made from them.
//!
//! A call that records a turn and then saves a request would wait for the disk twice.
//! The turn is therefore checked at once, and kept in the call until the request is
//! saved. Meanwhile, the call sees the session as it will be. Every other access to
//! the store writes the turn first, so that no query can miss it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_store::{Call, Recorded, Session, StoreError, TurnId};

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
    /// The turn could not be written, and the call does not know that yet. It must not
    /// use the store until then.
    Lost(TurnId),
}

impl PendingTurn {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the turn with `write`. Returns `None` if nothing waits. Other threads of
    /// the call wait meanwhile: they must not read the session without the turn.
    ///
    /// Fails if the turn could not be written, also by an earlier attempt.
    fn write<T>(
        &self,
        write: impl FnOnce(Arc<Recording>, Recorded) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut state = self.lock();
        let (recording, recorded) = match &*state {
            State::Waiting {
                recording,
                recorded,
                ..
            } => (Arc::clone(recording), *recorded),
            State::Done => return Ok(None),
            State::Lost(_) => return Err(StoreError::Withdrawn),
        };
        let written = write(recording, recorded);
        *state = match &written {
            Ok(_) => State::Done,
            Err(_) => State::Lost(recorded.id),
        };
        written.map(Some)
    }
}

impl Default for PendingTurn {
    fn default() -> Self {
        Self(Mutex::new(State::Done))
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
        let Some(pending) = Call::state_or_default::<PendingTurn>(&self.ahead_prefix) else {
            return Ok(None);
        };
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
        let mut state = pending.lock();
        if !matches!(*state, State::Done) {
            return Ok(None);
        }
        *state = State::Waiting {
            recording: Arc::new(recording),
            recorded,
            session,
        };
        Ok(Some(recorded))
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
            Ok(None) => None,
            Err(_) => Some(Err(StoreError::Withdrawn)),
        }
    }

    /// Writes `turn` if it waits. Returns false if it could not be written.
    pub(crate) fn finish_pending(&self, turn: TurnId) -> bool {
        let Some(pending) = self.pending() else {
            return true;
        };
        // The state has the outcome.
        let _ = self.write_pending();
        let mut state = pending.lock();
        let is_lost = matches!(*state, State::Lost(lost) if lost == turn);
        if is_lost {
            *state = State::Done;
        }
        !is_lost
    }
}
