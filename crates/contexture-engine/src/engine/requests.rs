//! Saves requests, and finds the earlier requests of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contexture_core::ContentHash;
use contexture_store::{PendingSnapshot, ReadAhead, Snapshot, StoreError};
use contexture_tokens::Model;
use jiff::Timestamp;

use super::{Engine, lock};
use crate::advice::Warning;
use crate::assembled::Assembled;
use crate::cache::CacheTerms;
use crate::calibration;
use crate::error::Error;
use crate::request::Request;
use crate::snapshot::{self, CurrentMessage, Durability, Saved};
use crate::stored_report;

impl Engine {
    /// Returns the latest saved request of a session.
    pub(crate) fn previous(&self, session: Option<&str>) -> Result<Option<Arc<Saved>>, Error> {
        let label = session.unwrap_or("default");
        let (Some(store), true) = (&self.parts.snapshots, self.config.snapshots.keep) else {
            // Requests that are not saved are remembered while the engine
            // lives.
            return Ok(lock(&self.recent).latest(label));
        };
        // A snapshot that is still being written is later than the saved ones.
        let pending = lock(&self.recent).latest(label);
        if let Some(saved) = pending.filter(|it| it.durability() == Durability::Pending) {
            return Ok(Some(saved));
        }
        let Some(latest) = store.latest_snapshot(label)? else {
            return Ok(None);
        };
        if let Some(saved) = lock(&self.recent).find(label, latest.hash) {
            return Ok(Some(saved));
        }
        // The previous request only serves the comparison with the cache: a
        // damaged one must not end the session.
        let Ok(saved) = Saved::load(&**store, &latest) else {
            return Ok(None);
        };
        let saved = Arc::new(saved);
        self.remember(label, &saved);
        Ok(Some(saved))
    }

    /// Returns the current message of a saved request.
    pub fn current_message(&self, snapshot: &Snapshot) -> Result<Arc<CurrentMessage>, Error> {
        if let Some(known) = self.current_messages.get(&snapshot.root) {
            return Ok(known);
        }
        CurrentMessage::load(self.snapshots()?, snapshot).map(Arc::new)
    }

    /// Makes the store read in advance the data of an operation on a session, and
    /// the calibration of `model`. The operation must be a part of a
    /// [`Call`](contexture_store::Call).
    pub fn read_ahead(&self, wanted: ReadAhead<'_>, model: Option<&Model>) {
        let Some(ledger) = &self.parts.ledger else {
            return;
        };
        let model = model.filter(|_| self.parts.samples.is_some());
        let names = model.map(calibration::names);
        ledger.read_ahead(&ReadAhead {
            samples: (names.as_ref())
                .map(|(model, counter)| (&**model, &**counter, calibration::MOST_SAMPLES)),
            memory: wanted.memory && self.parts.memories.is_some(),
            ..wanted
        });
    }

    /// Saves a request that was assembled without a store. Returns a warning if
    /// it could not be saved.
    pub fn keep(
        &self,
        assembled: &mut Assembled,
        now: Option<Timestamp>,
    ) -> Result<Option<Warning>, Error> {
        let previous = self.previous(assembled.session_label.as_deref())?;
        let now = now.unwrap_or_else(Timestamp::now);
        // Saves the key that the request was made with in the store.
        self.mark_key();
        let previous = previous.as_deref();
        let warning = self.keep_after(assembled, previous, None, now)?;
        if previous.is_some_and(|previous| assembled.is_snapshot(previous.hash)) {
            self.keep_report(assembled, None);
        }
        Ok(warning)
    }

    /// Stores the report of a saved request again.
    pub(crate) fn keep_report(&self, assembled: &Assembled, request: Option<&Request>) {
        let hash = assembled.snapshot.as_deref();
        if let (Some(store), Some(hash)) =
            (&self.parts.snapshots, hash.and_then(ContentHash::from_hex))
        {
            store.put_snapshot_report(hash, stored_report::write(assembled, None, request));
        }
    }

    /// Compares the request with the previous one of its session, and saves it with
    /// its report, unless it is the same. If `request` has `fail_on_cache_break`, a
    /// request that breaks the provider's cache is an error and is not saved.
    pub(crate) fn keep_after(
        &self,
        assembled: &mut Assembled,
        previous: Option<&Saved>,
        request: Option<&Request>,
        now: Timestamp,
    ) -> Result<Option<Warning>, Error> {
        let must_hold = request.is_some_and(|request| request.fail_on_cache_break);
        let Some(store) = &self.parts.snapshots else {
            return Ok(None);
        };
        let label = assembled.session_label.clone();
        let label = label.as_deref().unwrap_or("default");
        let prompt = assembled.prompt();
        let made = snapshot::NewSnapshot {
            session: label,
            parent_turn: assembled.parent_turn_id,
            prompt: &prompt,
            tokens: assembled.report.budget.used,
            counter: &assembled.report.tokenizer.name,
            agent: assembled.role.map(|role| snapshot::Agent {
                role,
                toolset_name: assembled.toolset_name.clone(),
                permissions_granted: assembled.permissions_granted.clone(),
                source_event_id: assembled.source_event_id.clone(),
                context_json: assembled.context_json.clone(),
            }),
            given: request.and_then(|request| request.given.fields.as_deref()),
            mask_secrets: self.config.secrets.mask,
            keep: self.config.snapshots.keep,
            now,
        };
        let (saved, snapshot, blobs) = snapshot::take(&made, previous);
        if let Some((current, bytes)) = CurrentMessage::of(&assembled.layout) {
            let current = Arc::new(current);
            self.current_messages.insert(snapshot.root, current, bytes);
        }
        if !self.config.snapshots.keep {
            if must_hold {
                return Err(Error::input(
                    "requests are not saved, so that there is no previous one to compare with",
                )
                .at("fail_on_cache_break")
                .advise("set `keep = true` in section [snapshots] of the settings"));
            }
            self.remember(label, &Arc::new(saved));
            return Ok(None);
        }
        if let Some(previous) = previous {
            let counts = self.counts(&assembled.model)?;
            let layout = &assembled.layout;
            let terms = CacheTerms::of(&assembled.model);
            let counter = counts.counter();
            let cache = saved.compare(&**store, previous, counter, &terms, Some(layout));
            assembled.report.cache = cache.ok();
            if let (Some(cache), true) = (assembled.report.cache_break(), must_hold) {
                return Err(cache.error());
            }
        }
        let is_new = previous.is_none_or(|previous| previous.hash != saved.hash);
        let hash = saved.hash.to_string();
        let saved = Arc::new(saved);
        let mut warning = None;
        match is_new {
            false => self.remember(label, &saved),
            true if self.background_snapshots => {
                let kept = Arc::clone(&saved);
                kept.set_durability(Durability::Pending);
                let last_error = Arc::clone(&self.last_snapshot_error);
                let failed = self.snapshot_failed.clone();
                warning = lock(&last_error).take();
                let not_kept = warning.clone().map(not_kept);
                let is_withdrawn = Arc::new(AtomicBool::new(false));
                let withdrawn = Arc::clone(&is_withdrawn);
                store.put_snapshot_later(PendingSnapshot {
                    snapshot,
                    blobs,
                    report: Some(stored_report::write(assembled, not_kept.as_ref(), request)),
                    builds_on: previous.map(|previous| previous.hash),
                    made_of: assembled.made_of.clone(),
                    done: Box::new(move |done| match done {
                        Ok(()) => kept.set_durability(Durability::Saved),
                        Err(StoreError::Withdrawn) => {
                            kept.set_durability(Durability::Failed);
                            withdrawn.store(true, Ordering::Release);
                        }
                        Err(error) => {
                            kept.set_durability(Durability::Failed);
                            if let Some(failed) = failed {
                                failed(&error);
                            }
                            let why = format!("an earlier request was not saved: {}", why(&error));
                            *lock(&last_error) = Some(why);
                        }
                    }),
                });
                // The request is not sent, so that the next one has the warning.
                if is_withdrawn.load(Ordering::Acquire) {
                    *lock(&self.last_snapshot_error) = warning;
                    return Err(StoreError::Withdrawn.into());
                }
                // Remembered only now: snapshots that build on this one must be
                // queued after it.
                self.remember(label, &saved);
            }
            true => {
                // Remembered before it is saved: another thread may ask for the
                // next request right after that.
                self.remember(label, &saved);
                let (sender, receiver) = std::sync::mpsc::sync_channel(1);
                store.put_snapshot_later(PendingSnapshot {
                    snapshot,
                    blobs,
                    report: Some(stored_report::write(assembled, None, request)),
                    // Content of the previous request may have been deleted
                    // since it was read.
                    builds_on: previous.map(|previous| previous.hash),
                    made_of: assembled.made_of.clone(),
                    done: Box::new(move |done| drop(sender.send(done))),
                });
                if let Ok(Err(error)) = receiver.recv() {
                    saved.set_durability(Durability::Failed);
                    if matches!(error, StoreError::Withdrawn) {
                        return Err(error.into());
                    }
                    if let Some(failed) = &self.snapshot_failed {
                        failed(&error);
                    }
                    let message = match &error {
                        StoreError::NotFound { .. } => why(&error).to_owned(),
                        _ => error.to_string(),
                    };
                    let message = format!("the request was not saved: {message}");
                    return Ok(Some(not_kept(message)));
                }
            }
        }
        assembled.snapshot = Some(hash);
        assembled.report.snapshot = assembled.snapshot.clone();
        Ok(warning.map(not_kept))
    }

    /// Returns true if a request of a session was assembled and could not be
    /// saved.
    pub fn is_lost(&self, label: &str, hash: &str) -> bool {
        ContentHash::from_hex(hash)
            .and_then(|hash| lock(&self.recent).find(label, hash))
            .is_some_and(|saved| saved.durability() == Durability::Failed)
    }

    fn remember(&self, label: &str, saved: &Arc<Saved>) {
        lock(&self.recent).put(label, Arc::clone(saved));
    }
}

/// Returns the warning that a request was not saved.
fn not_kept(message: String) -> Warning {
    Warning::new("not_kept", message)
}

/// Returns the reason why a request was not saved, without the path of the
/// store, which readers of the report need not see.
fn why(error: &StoreError) -> &'static str {
    match error {
        StoreError::Busy { .. } => "the store was locked by another process",
        StoreError::ReadOnly { .. } => "the store is read-only",
        StoreError::Full { .. } => "the store is full",
        StoreError::Withdrawn => "the caller did not wait for it",
        StoreError::NotFound {
            what: "snapshot", ..
        } => "the request before it was not saved, or was deleted",
        StoreError::NotFound { .. } => "its session, or turns in it, were deleted meanwhile",
        _ => "the store failed",
    }
}
