//! The cost of conversations, from the usage that providers reported, and the
//! turns at which their caches were lost.

use contexture_core::{ContentHash, Usage};
use contexture_engine::Error;
use contexture_engine::cache::{CacheReport, CacheTerms, exact};
use contexture_engine::snapshot::{self, Comparison, LoadedChunks, Saved};
use contexture_store::{MessageRole, Snapshot, StoreError, Turn, TurnId, TurnKind};
use contexture_tokens::Model;
use serde::Serialize;

use crate::session::Sessions;

/// Money, and the provider's cache.
impl Sessions<'_> {
    /// Returns the cost of a session's turns, from the usage that providers
    /// reported.
    ///
    /// A turn that answers a saved request has the cache use that Contexture
    /// expected next to the use that the provider reported.
    pub fn cost(&self, label: &str) -> Result<SessionCost, Error> {
        let turns = self.history(label, usize::MAX)?;
        let mut cost = SessionCost {
            session: self.engine.ledger()?.session(label)?.label,
            ..SessionCost::default()
        };
        let mut requests = Requests::default();
        for turn in &turns {
            let cache = self.cache_of(turn, &mut requests)?;
            let (usage, name, kind) = match &turn.compaction {
                Some(compaction) => (compaction.usage, Some(&compaction.summariser), "compaction"),
                None => (turn.turn.usage, turn.turn.model.as_ref(), "turn"),
            };
            let Some(usage) = usage else {
                // A question, or the result of a tool, costs nothing by itself.
                let mut messages = turn.turn.messages.iter();
                let is_answer = messages.any(|message| message.role == MessageRole::Assistant);
                cost.unreported += usize::from(turn.kind == TurnKind::Normal && is_answer);
                continue;
            };
            let model = name.map(|name| self.engine.models().resolve(name));
            let prices = model.as_ref().and_then(|model| model.prices);
            if prices.is_none()
                && let Some(name) = name
                && !cost.unpriced.contains(name)
            {
                cost.unpriced.push(name.clone());
            }
            cost.add(TurnCost {
                turn_id: turn.id,
                number: turn.depth,
                kind,
                model: model.map(|model: Model| model.name),
                usage,
                dollars: prices.map(|prices| exact(prices.cost(&usage))),
                dollars_uncached: prices.map(|prices| exact(prices.cost_uncached(&usage))),
                cache,
            });
        }
        Ok(cost)
    }

    /// Compares the request that a turn answers with the one before it.
    fn cache_of(&self, turn: &Turn, requests: &mut Requests) -> Result<Option<CacheReport>, Error> {
        let hash = turn.turn.request_hash.as_deref();
        let Some(hash) = hash.and_then(ContentHash::from_hex) else {
            return Ok(None);
        };
        let store = self.engine.snapshots()?;
        // The request may have been deleted since.
        let Ok(found) = snapshot::find(store, &hash.to_string()) else {
            return Ok(None);
        };
        let Ok(now) = Saved::load_with(store, &found, &mut requests.chunks) else {
            return Ok(None);
        };
        let report = match &requests.last {
            Some(before) => Some(self.compare_saved(before, &now)?),
            None => None,
        };
        requests.last = Some(now);
        Ok(report)
    }

    fn compare_saved(&self, before: &Saved, now: &Saved) -> Result<CacheReport, Error> {
        let store = self.engine.snapshots()?;
        let model = self.engine.models().resolve(now.model());
        let counts = self.engine.counts(&model)?;
        now.compare(
            store,
            before,
            counts.counter(),
            &CacheTerms::of(&model),
            None,
        )
    }

    /// Compares two saved requests, each given by its hash or its first digits.
    /// Returns the later request's expected use of the provider's cache, the
    /// reported usage, and the blocks that differ.
    pub fn compare(&self, earlier: &str, later: &str) -> Result<Comparison, Error> {
        let store = self.engine.snapshots()?;
        let later = snapshot::find(store, later)?;
        let before = Saved::load(store, &snapshot::find(store, earlier)?)?;
        let now = Saved::load(store, &later)?;
        Ok(Comparison {
            cache: self.compare_saved(&before, &now)?,
            usage: self.usage_of(&later)?,
            tokens: now.tokens(),
            changes: now.changes(store, &before)?,
        })
    }

    /// Returns the usage that the provider reported for a request, if the turn
    /// that answers it was recorded with its usage.
    fn usage_of(&self, snapshot: &Snapshot) -> Result<Option<Usage>, Error> {
        match self.engine.ledger()?.session(&snapshot.session) {
            Ok(_) => {}
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let hash = snapshot.hash.to_string();
        let turns = self.history(&snapshot.session, usize::MAX)?;
        let mut turns = turns.iter().rev();
        let answer = turns.find(|turn| turn.turn.request_hash.as_deref() == Some(&*hash));
        Ok(answer.and_then(|turn| turn.turn.usage))
    }
}

/// The requests of a session, one after the other.
#[derive(Default)]
struct Requests {
    last: Option<Saved>,
    // Requests in a row have most of their blocks in common.
    chunks: LoadedChunks,
}

/// The cost of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionCost {
    /// The label of the session.
    pub session: String,
    /// The cost of each turn with a reported usage.
    pub turns: Vec<TurnCost>,
    /// The total token usage.
    pub total: Usage,
    /// The share of input tokens that came from the provider's cache, from 0 to
    /// 1.
    pub cached_share: f64,
    /// The cost in US dollars, for models with known prices.
    pub dollars: f64,
    /// The cost in US dollars without the provider's cache.
    pub dollars_uncached: f64,
    /// `dollars_uncached` minus `dollars`.
    pub dollars_saved: f64,
    /// The part of `dollars` that is due to cached tokens that the provider had
    /// to read again, as estimated by Contexture.
    pub dollars_missed: f64,
    /// The number of answers of a model without a reported usage.
    pub unreported: usize,
    /// The models without known prices.
    pub unpriced: Vec<String>,
}

/// The cost of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnCost {
    /// The id of the turn.
    pub turn_id: TurnId,
    /// The number of the turn in its session, from 1.
    pub number: u64,
    /// The kind of turn: `turn` or `compaction`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["turn", "compaction"])))]
    pub kind: &'static str,
    /// The model that answered.
    pub model: Option<String>,
    /// The usage that the provider reported.
    #[serde(flatten)]
    pub usage: Usage,
    /// The cost in US dollars. Null if the prices are unknown.
    pub dollars: Option<f64>,
    /// The cost in US dollars without the provider's cache. Null if the prices
    /// are unknown.
    pub dollars_uncached: Option<f64>,
    /// The expected use of the provider's cache, compared with the previous
    /// turn's request. Null if one of the requests was not saved.
    pub cache: Option<CacheReport>,
}

impl SessionCost {
    fn add(&mut self, turn: TurnCost) {
        let total = &mut self.total;
        let usage = &turn.usage;
        for (sum, more) in [
            (&mut total.input_tokens, usage.input_tokens),
            (&mut total.output_tokens, usage.output_tokens),
            (&mut total.cached_input_tokens, usage.cached_input_tokens),
            (&mut total.cache_write_tokens, usage.cache_write_tokens),
            (&mut total.reasoning_tokens, usage.reasoning_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        if total.input_tokens > 0 {
            self.cached_share = total.cached_input_tokens as f64 / total.input_tokens as f64;
        }
        self.dollars = exact(self.dollars + turn.dollars.unwrap_or(0.0));
        self.dollars_uncached = exact(self.dollars_uncached + turn.dollars_uncached.unwrap_or(0.0));
        self.dollars_saved = exact(self.dollars_uncached - self.dollars);
        let missed = turn.cache.as_ref().and_then(|cache| cache.dollars_missed);
        self.dollars_missed = exact(self.dollars_missed + missed.unwrap_or(0.0));
        self.turns.push(turn);
    }
}
