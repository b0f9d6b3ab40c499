//! [`Sessions`]: records turns, shows history, forks and compacts.
//!
//! A turn is checked and counted before it is recorded. If it answers a stored
//! request, the current message of that request is recorded with it, so that
//! the next request begins with the same bytes.

use contexture_core::Tokens;
use contexture_store::{
    NewSession, NewTurn, Recorded, SentBlock, Session, Snapshot, Trigger, Turn, TurnId, TurnKind,
    TurnSample, Walk,
};
use contexture_tokens::Model;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use contexture_core::Counts;
use contexture_engine::assembled::sent_name;
use contexture_engine::snapshot::{self, Saved};
use contexture_engine::{Advice, Cause, Engine, Error, Operation};
use contexture_store::{Call, Counted, Ledger, ReadAhead};

use crate::compaction::{self, Attempt, Compacted, Compactor, Plan, Undone};
use crate::fetch::{self, FetchRequest, Fetched};
use crate::history::{RecordedTurn, ResultLimits, TurnCache, count_turn};
use crate::sent;

/// The number of a session's latest requests that are searched for the one that
/// a turn answers.
const LOOK_BACK: usize = 16;

/// The maximum number of requests that the messages of a turn are compared
/// with.
const MOST_COMPARED: usize = 4;

/// The options of a compaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "what to compact: an object with `focus`, `model` or `max_tokens`"
)]
pub struct CompactRequest {
    /// The topic that the summary concentrates on. Default: none.
    pub focus: Option<String>,
    /// The model whose window counts. Default: that of the session's latest
    /// request, else the configured one.
    pub model: Option<String>,
    /// The tokens available to a request. Default: those of the session's
    /// latest request, else the model's window.
    pub max_tokens: Option<Tokens>,
    /// The clock. Default: now.
    #[serde(
        deserialize_with = "contexture_store::lenient_time",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_store::schema::Time"))]
    pub now: Option<Timestamp>,
}

/// When a turn is written to the store.
#[derive(Debug, Clone, Copy)]
pub enum TurnWrite<'s> {
    /// Before the call continues.
    Now,
    /// In one transaction with the request that the call saves next, if the store can
    /// do that. The call must end with [`Ledger::finish_turn`]. The session is as
    /// the call has [read](Sessions::read_for_turn) it.
    WithRequest(&'s Session),
}

/// A turn with what is recorded with it, and its session.
struct CompleteTurn {
    turn: NewTurn,
    counted: Counted,
    sample: Option<TurnSample>,
    session: Session,
}

/// The conversations of an engine.
#[derive(Clone, Copy)]
pub struct Sessions<'e> {
    pub(crate) engine: &'e Engine,
}

impl<'e> Sessions<'e> {
    /// Returns the conversations of an engine.
    pub fn new(engine: &'e Engine) -> Self {
        Self { engine }
    }

    pub(crate) fn engine(&self) -> &'e Engine {
        self.engine
    }

    pub(crate) fn compactor<'a>(
        &'a self,
        store: &'a dyn Ledger,
        counts: &'a Counts,
    ) -> Compactor<'a> {
        let summariser = self.engine.summariser().map(|one| &**one);
        let window = summariser.map_or(0, |one| {
            let of_table = || self.engine.models().resolve(one.name()).window;
            one.window().unwrap_or_else(of_table)
        });
        Compactor {
            store,
            config: &self.engine.config().compaction,
            counts,
            policy: self.engine.policy(),
            summariser,
            model_window: window,
            max_result: ResultLimits::stored(self.engine.config()),
        }
    }

    /// Returns the counts of a turn, to be recorded with it.
    fn count_turn(&self, turn: &NewTurn, model: &Model) -> Result<Counted, Error> {
        let counts = self.engine.counts(model)?;
        let max_result = ResultLimits::stored(self.engine.config());
        Ok(count_turn(turn, &counts, self.engine.policy(), max_result))
    }

    /// Records a turn: the model's answer and the messages before it.
    ///
    /// Tokens are counted once, now. The provider's count of the request is
    /// compared with ours. The store saves the turn, its counts and the
    /// calibration sample in one transaction.
    pub fn record(
        &self,
        label: &str,
        turn: &NewTurn,
        now: Option<Timestamp>,
    ) -> Result<Recorded, Error> {
        let (recorded, _) = self.record_in(label, turn, now, TurnWrite::Now)?;
        Ok(recorded)
    }

    /// Records a turn, and returns the session as it was before.
    pub fn record_in(
        &self,
        label: &str,
        turn: &NewTurn,
        now: Option<Timestamp>,
        write: TurnWrite<'_>,
    ) -> Result<(Recorded, Session), Error> {
        let call = Call::current().unwrap_or_default();
        call.run(|| {
            let recorded = self.record_within(label, turn, now, write);
            Call::forget_ahead();
            recorded
        })
    }

    /// Records a turn as a part of the current call, for which the store can read
    /// ahead.
    fn record_within(
        &self,
        label: &str,
        turn: &NewTurn,
        now: Option<Timestamp>,
        write: TurnWrite<'_>,
    ) -> Result<(Recorded, Session), Error> {
        let store = self.engine.ledger()?;
        if turn
            .model
            .as_deref()
            .is_some_and(|name| name.trim().is_empty())
        {
            return Err(Error::input("model: is empty").advise("omit it when the model is unknown"));
        }
        turn.check_sizes(self.engine.config().limits.max_message_bytes)?;
        let known = match write {
            TurnWrite::WithRequest(session) => Some(session),
            TurnWrite::Now => None,
        };
        let new = self.complete(label, turn, true, known)?;
        let (counted, sample) = (Some(&new.counted), new.sample.as_ref());
        let at = now.unwrap_or_else(Timestamp::now);
        if let Some(session) = known
            && let Some(recorded) =
                store.record_with_request(session, &new.turn, counted, sample, at)?
        {
            return Ok((recorded, self.remember(new, recorded, at)));
        }
        if let Some(recorded) = store.record_as_read(label, &new.turn, counted, sample, at)? {
            return Ok((recorded, self.remember(new, recorded, at)));
        }
        // The session has changed since the store last read it.
        let new = self.complete(label, turn, false, None)?;
        let (counted, sample) = (Some(&new.counted), new.sample.as_ref());
        let at = now.unwrap_or_else(Timestamp::now);
        let recorded = store.record(label, &new.turn, counted, sample, at)?;
        Ok((recorded, self.remember(new, recorded, at)))
    }

    /// Caches a turn that was recorded for the next request of its session, and returns
    /// the session.
    fn remember(&self, new: CompleteTurn, recorded: Recorded, at: Timestamp) -> Session {
        let CompleteTurn {
            turn,
            counted,
            session,
            ..
        } = new;
        if let (Some(begins), false) = (turn.begins(), recorded.replayed) {
            let recorded = RecordedTurn {
                begins,
                tokens: counted.total(),
                turn: Turn {
                    id: recorded.id,
                    parent: recorded.parent,
                    depth: recorded.depth,
                    kind: TurnKind::Normal,
                    created_at: at,
                    turn,
                    compaction: None,
                    counts: Some(counted.blocks),
                },
                counter: counted.counter,
            };
            let cache = self.engine.shared::<TurnCache>();
            cache.record(recorded, session.turn_deletions);
        }
        session
    }

    /// Returns a session for a turn that is written with the next request of the current
    /// call.
    pub fn read_for_turn(&self, label: &str) -> Result<Session, Error> {
        let wanted = ReadAhead {
            session: Some(label),
            next_turn: true,
            ..ReadAhead::default()
        };
        self.engine.read_ahead(wanted, None);
        Ok(self.engine.ledger()?.session(label)?)
    }

    /// Completes a turn with what is recorded with it. With `is_cached`, the store
    /// may answer with an earlier state of the session, unless it is `known`.
    fn complete(
        &self,
        label: &str,
        turn: &NewTurn,
        is_cached: bool,
        known: Option<&Session>,
    ) -> Result<CompleteTurn, Error> {
        let store = self.engine.ledger()?;
        let mut warnings = Vec::new();
        let mut model = self
            .engine
            .model(turn.model.as_deref(), None, &mut warnings)?;
        // The calibration only changes the counts of a tokenizer that estimates.
        let estimates = model.tokenizer.factor().is_some();
        let wanted = ReadAhead {
            session: Some(label),
            snapshots: LOOK_BACK,
            snapshot: turn.request_hash.as_deref(),
            is_cached,
            ..ReadAhead::default()
        };
        self.engine.read_ahead(wanted, estimates.then_some(&model));
        if estimates {
            self.engine.calibrate(&mut model)?;
        }
        let session = match known {
            Some(known) => known.clone(),
            None => store.session(label)?,
        };
        let parent = turn.parent_turn_id.expected().unwrap_or(session.head);
        let (answered, sent) = self.answered(&session, parent, turn)?;
        let mut turn = turn.clone();
        turn.request_hash = answered.as_ref().map(|snapshot| snapshot.hash.to_string());
        turn.sent = sent;
        let counted = self.count_turn(&turn, &model)?;
        let sample = answered
            .as_ref()
            .and_then(|snapshot| self.turn_sample(&turn, parent, snapshot));
        Ok(CompleteTurn {
            turn,
            counted,
            sample,
            session,
        })
    }

    /// Returns the request that a turn after `parent` answers: the one that the
    /// turn names, else the latest one made there for its model. Also returns
    /// the current message of that request, if the turn answers it. Of several
    /// requests, the latest whose current message the turn answers is chosen.
    ///
    /// Fails if the turn names a request that does not exist.
    fn answered(
        &self,
        session: &Session,
        parent: Option<TurnId>,
        turn: &NewTurn,
    ) -> Result<(Option<Snapshot>, Vec<SentBlock>), Error> {
        if let Some(hash) = &turn.request_hash {
            // The model's answer is recorded even if the request was lost.
            if self.engine.is_lost(&session.label, hash) {
                return Ok((None, Vec::new()));
            }
            let named = snapshot::find(self.engine.snapshots()?, hash)?;
            let sent = match named.parent_turn == parent {
                true => self.sent_with(&named, turn)?.unwrap_or_default(),
                // A later turn of a run that began with the request.
                false => Vec::new(),
            };
            return Ok((Some(named), sent));
        }
        let is_its = |snapshot: &Snapshot| {
            let model = turn.model.as_ref();
            model.is_none_or(|model| self.engine.models().is_same(model, &snapshot.model))
        };
        let latest = self
            .engine
            .snapshots()?
            .snapshots(Some(&session.label), LOOK_BACK)?;
        let mut latest: Vec<Snapshot> = latest
            .into_iter()
            .filter(|snapshot| snapshot.parent_turn == parent && is_its(snapshot))
            .collect();
        for at in 0..latest.len().min(MOST_COMPARED) {
            if let Some(sent) = self.sent_with(&latest[at], turn)? {
                return Ok((Some(latest.swap_remove(at)), sent));
            }
        }
        Ok((latest.into_iter().next(), Vec::new()))
    }

    /// Returns the current message of a request, if the turn answers it.
    fn sent_with(
        &self,
        snapshot: &Snapshot,
        turn: &NewTurn,
    ) -> Result<Option<Vec<SentBlock>>, Error> {
        // The model's answer is recorded even if the request is damaged.
        let Ok(current) = self.engine.current_message(snapshot) else {
            return Ok(None);
        };
        Ok(sent::sent_with(turn, &current, self.engine.policy()))
    }

    /// Returns a calibration sample from the provider's count of a turn's
    /// request. Returns `None` if the count may be the sum of several requests,
    /// as for a turn with several answers of the model.
    fn turn_sample(
        &self,
        turn: &NewTurn,
        parent: Option<TurnId>,
        snapshot: &Snapshot,
    ) -> Option<TurnSample> {
        let answers = turn
            .messages
            .iter()
            .filter(|message| message.role == contexture_store::MessageRole::Assistant)
            .count();
        let same_model = turn
            .model
            .as_ref()
            .is_none_or(|model| self.engine.models().is_same(model, &snapshot.model));
        let usage = turn.usage.as_ref()?;
        match answers == 1 && same_model {
            true => self.engine.sample(snapshot, parent, usage),
            false => None,
        }
    }

    /// Creates a session that begins at a turn of another (default: its head),
    /// and shares all turns before it.
    pub fn fork(
        &self,
        label: &str,
        new: &str,
        turn: Option<&str>,
        now: Option<Timestamp>,
    ) -> Result<Session, Error> {
        let store = self.engine.ledger()?;
        let from = store.session(label)?;
        let head = match turn {
            Some(turn) => Some(self.find_turn(&from, turn)?),
            None => from.head,
        };
        let new = NewSession {
            label: new.to_owned(),
            head,
            persona: from.persona.clone(),
            parent_session: Some(from.label.clone()),
            remember: from.remember,
            ..NewSession::default()
        };
        Ok(store.create_session(&new, now.unwrap_or_else(Timestamp::now))?)
    }

    /// Finds the turn of a session whose id begins with `prefix`.
    pub fn find_turn(&self, session: &Session, prefix: &str) -> Result<TurnId, Error> {
        let none = || {
            Error::input(format!(
                "session `{}` has no turn `{prefix}`",
                session.label
            ))
            .because(Cause::Missing)
            .advise(Advice::call_on(Operation::ShowHistory, &session.label))
        };
        if prefix.len() < 4 || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::input(format!(
                "`{prefix}` is not a turn id; give at least 4 hexadecimal digits"
            ))
            .advise(Advice::call_on(Operation::ShowHistory, &session.label)));
        }
        let Some(head) = session.head else {
            return Err(none());
        };
        let everything = Walk {
            counter: "",
            tokens: Tokens::MAX,
            at_least: 0,
            through: None,
        };
        let prefix_lower = prefix.to_ascii_lowercase();
        let path = self.engine.ledger()?.walk(head, &everything)?;
        let mut found = path
            .iter()
            .map(|head| head.id)
            .filter(|id| id.to_string().starts_with(&prefix_lower));
        match (found.next(), found.next()) {
            (Some(id), None) => Ok(id),
            (Some(_), Some(_)) => Err(Error::input(format!(
                "`{prefix}` matches several turns; give more digits"
            ))),
            (None, _) => Err(none()),
        }
    }

    /// Returns the number of turns of a session that are stored. Turns that
    /// were deleted are not among them.
    pub fn stored_turns(&self, label: &str) -> Result<u64, Error> {
        let store = self.engine.ledger()?;
        let Some(head) = store.session(label)?.head else {
            return Ok(0);
        };
        let walk = Walk {
            counter: "",
            tokens: Tokens::MAX,
            at_least: 0,
            through: None,
        };
        let heads = store.walk(head, &walk)?;
        let normal = heads.iter().filter(|head| head.kind == TurnKind::Normal);
        Ok(normal.count() as u64)
    }

    /// Returns the latest `limit` turns of a session, oldest first, and the
    /// compactions among them.
    pub fn history(&self, label: &str, limit: usize) -> Result<Vec<Turn>, Error> {
        self.history_before(label, None, limit)
    }

    /// Returns the latest `limit` turns before the turn `before`, oldest first,
    /// and the compactions among them. Without `before`, the latest turns of the
    /// session.
    pub fn history_before(
        &self,
        label: &str,
        before: Option<TurnId>,
        limit: usize,
    ) -> Result<Vec<Turn>, Error> {
        let store = self.engine.ledger()?;
        let session = store.session(label)?;
        let end = match before {
            None => session.head,
            Some(before) => {
                let walk = Walk {
                    counter: "",
                    tokens: 0,
                    at_least: 0,
                    through: None,
                };
                let found = store.walk(before, &walk)?;
                found.first().and_then(|turn| turn.parent)
            }
        };
        let Some(head) = end else {
            return Ok(Vec::new());
        };
        let walk = Walk {
            counter: "",
            tokens: if limit == usize::MAX { Tokens::MAX } else { 0 },
            at_least: limit,
            through: None,
        };
        let mut ids: Vec<TurnId> = store
            .walk(head, &walk)?
            .iter()
            .map(|head| head.id)
            .collect();
        ids.reverse();
        let mut turns = Vec::with_capacity(ids.len());
        // A few at a time: their content need not be in memory twice.
        for some in ids.chunks(256) {
            turns.extend(store.turns(some, "")?);
        }
        let normal = turns
            .iter()
            .filter(|turn| turn.kind == TurnKind::Normal)
            .count();
        let mut extra = normal.saturating_sub(limit);
        turns.retain(|turn| {
            let drop = extra > 0;
            extra -= usize::from(drop && turn.kind == TurnKind::Normal);
            !drop
        });
        Ok(turns)
    }

    /// Summarises all but the latest turns of a session, at the caller's
    /// request.
    pub fn compact(&self, label: &str, request: &CompactRequest) -> Result<Attempt, Error> {
        self.compact_to(label, request, Trigger::Manual, None)
    }

    /// Summarises a session's history further than usual, because the provider
    /// rejected the request as too long. This works once for a head; after new
    /// turns were recorded, it can be repeated.
    ///
    /// Fails if it was done already and no turn was recorded since: the caller
    /// should then report the provider's error.
    pub fn recover_overflow(
        &self,
        label: &str,
        request: &CompactRequest,
    ) -> Result<Compacted, Error> {
        let session = self.engine.ledger()?.session(label)?;
        if let Some(head) = session.head {
            let turn = self.engine.ledger()?.turns(&[head], "")?;
            let latest = turn.first().and_then(|turn| turn.compaction.as_ref());
            if latest.is_some_and(|latest| latest.trigger == Trigger::OverflowRecovery) {
                return Err(Error::input(format!(
                    "session `{label}` was already compacted after an overflow, and no turn was \
                     recorded since"
                ))
                .advise("use a model with a larger window, or fork before the largest turn"));
            }
        }
        let target = self.engine.config().compaction.overflow_target;
        let attempt = self.compact_to(label, request, Trigger::OverflowRecovery, Some(target))?;
        let why = match attempt {
            Attempt::Compacted(compacted) => return Ok(*compacted),
            Attempt::Nothing(why) => why,
        };
        let error = Error::input(format!("session `{label}` was not compacted: {why}"));
        Err(match request.max_tokens {
            None => error.advise(Advice::set("max_tokens")),
            Some(_) => error.advise("use a model with a larger window"),
        })
    }

    pub(crate) fn compact_to(
        &self,
        label: &str,
        request: &CompactRequest,
        trigger: Trigger,
        target: Option<f64>,
    ) -> Result<Attempt, Error> {
        let store = self.engine.ledger()?;
        let session = store.session(label)?;
        let latest = self
            .engine
            .snapshots()?
            .snapshots(Some(&session.label), 1)?
            .into_iter()
            .next();
        let of_latest = latest.as_ref().map(|snapshot| snapshot.model.clone());
        let named = request.model.clone().or(of_latest);
        let mut warnings = Vec::new();
        let mut model = self.engine.model(named.as_deref(), None, &mut warnings)?;
        self.engine.calibrate(&mut model)?;
        // The size of the latest request, if it was for the same model: its
        // system prompt and event are sent next time, too.
        let latest = latest.filter(|latest| latest.model == sent_name(&model));
        let refused = latest.as_ref().filter(|latest| {
            trigger == Trigger::OverflowRecovery && latest.parent_turn == session.head
        });
        // A request that the provider rejected is larger than its limit,
        // whatever the configured window is.
        let most = refused.map_or(Tokens::MAX, |refused| refused.tokens);
        let latest = match latest {
            Some(latest) => self.load_unless_deleted(&session.label, &latest)?,
            None => None,
        };
        let of_latest = latest.as_ref().map(Saved::available);
        let available = request.max_tokens.or(of_latest).unwrap_or(model.window);
        let available = available.min(most);
        let fixed = latest.as_ref().map_or(0, Saved::tokens_without_history);
        let counts = self.engine.counts(&model)?;
        let plan = Plan {
            session: &session,
            trigger,
            focus: request.focus.as_deref(),
            available,
            fixed,
            target,
            system: "",
            now: request.now.unwrap_or_else(Timestamp::now),
        };
        self.compactor(store, &counts).compact(&plan)
    }

    /// Loads a request of a session, or returns `None` if the request was deleted
    /// since it was listed. Fails as for an unknown session if the session was.
    pub(crate) fn load_unless_deleted(
        &self,
        label: &str,
        snapshot: &Snapshot,
    ) -> Result<Option<Saved>, Error> {
        let store = self.engine.snapshots()?;
        let damage = match Saved::load(store, snapshot) {
            Ok(saved) => return Ok(Some(saved)),
            Err(damage) => damage,
        };
        self.engine.ledger()?.session(label)?;
        let latest = store.latest_snapshot(label)?;
        match latest.is_some_and(|latest| latest.hash == snapshot.hash) {
            true => Err(damage),
            false => Ok(None),
        }
    }

    /// Returns a part of a tool result, by the handle that the marker of a cut
    /// shows. The first digits are enough if no other result has them.
    ///
    /// Secrets are masked. Fails for a handle that is unknown or matches
    /// several results, for lines that do not exist, for an invalid regular
    /// expression or jq expression, and for jq on a result that is not JSON.
    pub fn fetch(&self, handle: &str, request: &FetchRequest) -> Result<Fetched, Error> {
        fetch::fetch(self.engine.ledger()?, self.engine.policy(), handle, request)
    }

    /// Undoes the latest compaction of a session. No turn that was recorded
    /// since is lost.
    pub fn uncompact(&self, label: &str, now: Option<Timestamp>) -> Result<Undone, Error> {
        let store = self.engine.ledger()?;
        let session = store.session(label)?;
        compaction::undo(store, &session, now.unwrap_or_else(Timestamp::now))
    }
}
