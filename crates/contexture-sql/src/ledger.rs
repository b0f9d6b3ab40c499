//! The ledger: sessions, turns, compactions and pins. Each method is one
//! transaction.
//!
//! The work is in other modules: `sessions` finds sessions, `record` appends
//! turns, and `turns` reads them. Turns are only ever added; a session's head
//! is updated in the same transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use contexture_store::{
    Call, Compaction, Counted, HandlePrefix, HeadMove, Ledger, NewSession, NewSessionPin, NewTurn,
    ReadAhead, Recorded, Session, SessionChange, SessionPin, StoreError, ToolResult, Turn,
    TurnHead, TurnId, TurnSample, Walk,
};
use jiff::Timestamp;

use crate::ahead::SeenSession;
use crate::error::{Error, Fault};
use crate::record::{Prepared, Recording};
use crate::results::Search;
use crate::{Backend, SqlStore, ahead, pins, record, results, sessions, turns};

impl<B: Backend> Ledger for SqlStore<B> {
    fn read_ahead(&self, wanted: &ReadAhead<'_>) {
        self.keep_ahead(wanted);
    }

    fn create_session(&self, new: &NewSession, now: Timestamp) -> Result<Session, StoreError> {
        let new = new.clone();
        self.write_keyed(move |db, tenant| sessions::create(db, tenant, &new, now))
    }

    fn change_session(&self, label: &str, change: &SessionChange) -> Result<Session, StoreError> {
        let (label, change) = (label.to_owned(), change.clone());
        self.write_keyed(move |db, tenant| sessions::change(db, tenant, &label, &change))
    }

    fn session(&self, label: &str) -> Result<Session, StoreError> {
        if let Some(session) = self.pending_session(label) {
            return Ok(session);
        }
        if let Some(session) = Call::take_ahead(|| self.ahead_key(&ahead::session(label))) {
            return Ok(session);
        }
        self.read_once(
            || ahead::session_again(label),
            |db, tenant| sessions::get(db, tenant, label),
        )
    }

    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.read(|db, tenant| sessions::list(db, tenant, after, limit))
    }

    fn record(
        &self,
        label: &str,
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
        now: Timestamp,
    ) -> Result<Recorded, StoreError> {
        self.write_pending()?;
        Call::forget_ahead();
        let done = self.record_seen(label, (turn, counted, sample), None, now)?;
        done.ok_or_else(|| self.explain(Fault::Sql(Error::NotRead)))
    }

    fn record_as_read(
        &self,
        label: &str,
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
        now: Timestamp,
    ) -> Result<Option<Recorded>, StoreError> {
        self.write_pending()?;
        let seen = self.take_seen(label);
        Call::forget_ahead();
        self.record_seen(label, (turn, counted, sample), seen, now)
    }

    fn record_with_request(
        &self,
        session: &Session,
        turn: &NewTurn,
        counted: Option<&Counted>,
        sample: Option<&TurnSample>,
        now: Timestamp,
    ) -> Result<Option<Recorded>, StoreError> {
        // A key may name a turn that exists, and a sample changes how the request is
        // counted.
        if self.backend.is_remote() || turn.idempotency_key.is_some() || sample.is_some() {
            return Ok(None);
        }
        let recording = self.recording(&session.label, (turn, counted, sample), now)?;
        self.keep_pending(session, recording)
    }

    fn finish_turn(&self, turn: TurnId) -> bool {
        self.finish_pending(turn)
    }

    fn compact(
        &self,
        label: &str,
        parent: TurnId,
        compaction: &Compaction,
        now: Timestamp,
    ) -> Result<Recorded, StoreError> {
        let (label, compaction) = (label.to_owned(), compaction.clone());
        let recorded = self.write_keyed(move |db, tenant| {
            record::compact(db, tenant, &label, parent, &compaction, now)
        })?;
        self.announce();
        Ok(recorded)
    }

    fn move_head(
        &self,
        label: &str,
        from: Option<TurnId>,
        to: Option<TurnId>,
        reason: &str,
        now: Timestamp,
    ) -> Result<Session, StoreError> {
        let (label, reason) = (label.to_owned(), reason.to_owned());
        self.write_keyed(move |db, tenant| {
            sessions::move_head_from(db, tenant, &label, (from, to), &reason, now)
        })
    }

    fn head_moves(&self, label: &str, limit: usize) -> Result<Vec<HeadMove>, StoreError> {
        self.read(|db, tenant| sessions::head_moves(db, tenant, label, limit))
    }

    fn walk(&self, from: TurnId, walk: &Walk<'_>) -> Result<Vec<TurnHead>, StoreError> {
        self.read(|db, tenant| turns::walk(db, tenant, from, walk))
    }

    fn turns(&self, ids: &[TurnId], counter: &str) -> Result<Vec<Turn>, StoreError> {
        self.read(|db, tenant| turns::turns(db, tenant, ids, counter))
    }

    fn tool_result(&self, prefix: &HandlePrefix) -> Result<ToolResult, StoreError> {
        loop {
            match self.read(|db, tenant| results::find(db, tenant, prefix))? {
                Search::Found(result) => return Ok(result),
                Search::Unlisted => self.write(results::list_some)?,
            }
        }
    }

    fn pin(
        &self,
        label: &str,
        pin: &NewSessionPin,
        now: Timestamp,
    ) -> Result<SessionPin, StoreError> {
        let (label, pin) = (label.to_owned(), pin.clone());
        self.write_keyed(move |db, tenant| pins::put(db, tenant, &label, &pin, now))
    }

    fn unpin(&self, label: &str, name: &str, now: Timestamp) -> Result<SessionPin, StoreError> {
        let (label, name) = (label.to_owned(), name.to_owned());
        self.write_keyed(move |db, tenant| pins::remove(db, tenant, &label, &name, now))
    }

    fn pins(&self, label: &str) -> Result<Vec<SessionPin>, StoreError> {
        self.read_once(
            || ahead::pins(label),
            |db, tenant| pins::list(db, tenant, label),
        )
    }

    fn pin_revisions(&self, label: &str, name: &str) -> Result<Vec<SessionPin>, StoreError> {
        self.read(|db, tenant| pins::revisions(db, tenant, label, name))
    }

    fn put_counts(&self, counts: &[(TurnId, Counted)]) -> Result<(), StoreError> {
        if counts.is_empty() {
            return Ok(());
        }
        let counts = counts.to_vec();
        self.write(move |db, tenant| {
            for (id, counted) in &counts {
                let turn = turns::key(db, tenant, *id)?;
                record::insert_counts(db, tenant, turn, counted)?;
            }
            Ok(())
        })
    }
}

/// A turn, its token counts and its sample.
type TurnParts<'a> = (&'a NewTurn, Option<&'a Counted>, Option<&'a TurnSample>);

impl<B: Backend> SqlStore<B> {
    /// Prepares a turn to be recorded.
    fn recording(
        &self,
        label: &str,
        (turn, counted, sample): TurnParts<'_>,
        now: Timestamp,
    ) -> Result<Recording, StoreError> {
        turn.check_sizes(self.max_message_bytes())?;
        let new = Prepared::new(turn, counted, sample).map_err(|fault| self.explain(fault))?;
        let latest_event = self.known.latest_event(self.backend.tenant_name());
        Ok(Recording::new(label, new, now, latest_event))
    }

    /// Records a turn. Returns `None` if the session is not as the call has seen
    /// it.
    fn record_seen(
        &self,
        label: &str,
        parts: TurnParts<'_>,
        seen: Option<SeenSession>,
        now: Timestamp,
    ) -> Result<Option<Recorded>, StoreError> {
        let mut recording = self.recording(label, parts, now)?;
        let unchecked = seen.as_ref().filter(|seen| !seen.is_checked);
        let differs = unchecked.map(|seen| recording.expect(Arc::clone(&seen.known)));
        let recorded = self.backend.record(recording);
        let tenant = self.backend.tenant_name();
        if recorded.is_err() && differs.is_some_and(|differs| differs.load(Ordering::Acquire)) {
            self.known.missed(tenant, label);
            return Ok(None);
        }
        if let Some(SeenSession { known, is_checked }) = &seen {
            match &recorded {
                Ok(recorded) if !recorded.replayed => {
                    (self.known).recorded(tenant, known, !is_checked, recorded, now);
                }
                _ => self.known.remove(tenant, label),
            }
        }
        let recorded = recorded?;
        self.announce();
        Ok(Some(recorded))
    }
}
