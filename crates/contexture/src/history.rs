//! The conversation so far, from the ledger, as items.
//!
//! Only the tail is read: the walk from the head stops when the budget is
//! spent. Turns never change, so what was made of one is kept in memory.

mod items;
mod join;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_core::guard::Policy;
use contexture_core::{Code, Counts, Excluded, Item, Layout, Reason, Role, Text, Tokens, Trust};
use contexture_store::{
    Compaction, Counted, Session, Store, StoreError, Turn, TurnHead, TurnId, TurnKind, Walk,
};
use contexture_tokens::Provider;

pub(crate) use items::count_turn;
use items::{Maker, count, fits};
use join::join;

/// What a summary begins with, so that nobody takes it for somebody's words.
pub(crate) const SUMMARY_MARK: &str = "[Previous conversation summary]";

/// How many digits of a turn's id name it in the report.
const ID_DIGITS: usize = 12;

/// The name of a turn in reports.
pub(crate) fn turn_name(id: TurnId) -> String {
    id.to_string()[..ID_DIGITS].to_owned()
}

/// What was made of a turn: its blocks as items, and what of it is not sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    items: Vec<Item>,
    // Blocks that are kept for the record only, with the reason.
    unsent: Vec<(String, Role, String)>,
    // Calls that have no result when the turn ends.
    open: Vec<(Arc<str>, Arc<str>)>,
    // Results that the turn gives to calls of turns before it.
    answers: Vec<Arc<str>>,
    // The item before which somebody speaks who has no result: calls of turns
    // before that still wait are given up there. The ledger says the same.
    speaks_at: Option<usize>,
    begins: bool,
    bytes: usize,
}

/// Turns that were prepared before.
#[derive(Debug, Default)]
pub(crate) struct TurnCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    turns: BTreeMap<(TurnId, Key), Arc<Prepared>>,
    bytes: usize,
}

/// What the items of a turn depend on beside the turn itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    counter: String,
    provider: Provider,
}

/// How often a walk is taken up again because counts became known.
const MOST_WALKS: usize = 16;

/// The most bytes of turns that are kept in memory.
const MAX_KNOWN: usize = 64 << 20;

impl TurnCache {
    fn get(&self, id: TurnId, key: &Key) -> Option<Arc<Prepared>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.turns.get(&(id, key.clone())).cloned()
    }

    fn put(&self, id: TurnId, key: &Key, prepared: &Arc<Prepared>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.bytes > MAX_KNOWN {
            *known = Known::default();
        }
        known.bytes += prepared.bytes + 512;
        known.turns.insert((id, key.clone()), Arc::clone(prepared));
    }
}

/// What a history is read for.
pub(crate) struct Reader<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) cache: &'a TurnCache,
    pub(crate) counts: &'a Counts,
    pub(crate) policy: Policy,
    pub(crate) provider: Provider,
    /// What the request may use in all.
    pub(crate) available: Tokens,
    /// The turns that are kept in any case.
    pub(crate) min_recent: usize,
    /// Whether the summary of older turns is offered.
    pub(crate) with_summary: bool,
    /// Where history began in the request before.
    pub(crate) anchor: Option<&'a Anchor>,
}

/// Where the history in a request begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The summary before it.
    pub(crate) summary: Option<Arc<str>>,
    /// The first block behind that.
    pub(crate) start: Arc<str>,
}

/// Where history began in a request, and what that was made for.
#[derive(Debug, Clone)]
pub(crate) struct Began {
    pub(crate) anchor: Anchor,
    pub(crate) model: String,
    pub(crate) window: Tokens,
}

impl Anchor {
    /// Returns where the history of `layout` begins, if it has one.
    pub(crate) fn of(layout: &Layout) -> Option<Self> {
        Self::among(layout.history.iter().map(|block| &block.id))
    }

    /// Returns true when history begins with a block of that turn.
    fn is_in(&self, turn: TurnId) -> bool {
        let name = self.start.split('/').next();
        name == Some(&*turn_name(turn))
    }

    /// Returns the beginning of a history whose blocks have these ids.
    pub(crate) fn among<'i>(ids: impl Iterator<Item = &'i Arc<str>>) -> Option<Self> {
        let mut ids = ids.peekable();
        let summary = ids.next_if(|id| id.starts_with(SUMMARY_ID)).cloned();
        let start = ids.next().cloned()?;
        Some(Self { summary, start })
    }
}

/// What the id of a summary begins with.
const SUMMARY_ID: &str = "summary:";

/// The tail of a conversation.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) items: Vec<Item>,
    /// Rows of the report for what was not read or is not sent.
    pub(crate) unsent: Vec<Excluded>,
    /// The turns that were read, oldest first.
    pub(crate) heads: Vec<TurnHead>,
    /// The compaction that stands at its beginning.
    pub(crate) compaction: Option<(TurnId, Compaction)>,
    /// Where it began in the request before, when that still counts.
    pub(crate) start: Option<Arc<str>>,
    /// Whether a call was given another name because of one before it.
    pub(crate) renamed: bool,
}

/// Returns the name of what counted and guarded, beside which counts are kept.
pub(crate) fn counter_name(counts: &Counts, policy: Policy) -> String {
    let masked = if policy.mask_secrets {
        "masked"
    } else {
        "plain"
    };
    // A change of the guard, or of what is counted, changes counts, and so this
    // number.
    format!("{}/{masked}/2", counts.counter().name())
}

impl Reader<'_> {
    /// Reads the tail of a session's history that the budget could use.
    pub(crate) fn read(&self, session: &Session) -> Result<History, StoreError> {
        let Some(head) = session.head else {
            return Ok(History::default());
        };
        let counter = counter_name(self.counts, self.policy);
        let mut walk = Walk {
            counter: &counter,
            tokens: self.available,
            at_least: self.min_recent,
            through: None,
        };
        let newest = Walk {
            tokens: 0,
            at_least: 0,
            through: Some(head),
            ..walk
        };
        let first = self.store.walk(head, &newest)?;
        let compaction = first.first().and_then(|head| head.compaction);
        let compaction = match compaction {
            Some(id) => self.compaction(id, &counter)?,
            None => None,
        };
        if let Some((id, compaction)) = &compaction {
            // With a summary the story begins at the first turn that is kept;
            // when none is, behind the compaction.
            walk.through = match (compaction.first_kept, compaction.summary.is_empty()) {
                (Some(kept), _) => Some(kept),
                (None, false) => Some(*id),
                (None, true) => None,
            };
        }
        let path = || -> Result<Vec<TurnHead>, StoreError> {
            let mut heads = self.store.walk(head, &walk)?;
            heads.retain(|head| head.kind == TurnKind::Normal);
            heads.reverse();
            Ok(heads)
        };
        let mut heads = path()?;
        let (mut prepared, mut counted) = self.prepare_all(&heads, &counter)?;
        // What had no count was guessed, most likely too high: now that it is
        // counted, the walk may go further.
        for _ in 0..MOST_WALKS {
            if !counted {
                break;
            }
            let further = path()?;
            if further.len() <= heads.len() {
                break;
            }
            heads = further;
            (prepared, counted) = self.prepare_all(&heads, &counter)?;
        }
        let mut history = History {
            heads,
            compaction,
            ..History::default()
        };
        self.fill(&mut history, &prepared);
        Ok(history)
    }

    fn compaction(
        &self,
        id: TurnId,
        counter: &str,
    ) -> Result<Option<(TurnId, Compaction)>, StoreError> {
        let turn = self.store.turns(&[id], counter)?;
        let compaction = turn.into_iter().next().and_then(|turn| turn.compaction);
        Ok(compaction.map(|compaction| (id, compaction)))
    }

    /// Makes the items of the turns that were walked over. Returns them, and
    /// whether any was counted that had no count before.
    fn prepare_all(
        &self,
        heads: &[TurnHead],
        counter: &str,
    ) -> Result<(Vec<Arc<Prepared>>, bool), StoreError> {
        let key = Key {
            counter: counter.to_owned(),
            provider: self.provider,
        };
        let mut prepared: Vec<Option<Arc<Prepared>>> = heads
            .iter()
            .map(|head| self.cache.get(head.id, &key))
            .collect();
        let missing: Vec<TurnId> = heads
            .iter()
            .zip(&prepared)
            .filter(|(_, known)| known.is_none())
            .map(|(head, _)| head.id)
            .collect();
        let mut loaded = self.store.turns(&missing, counter)?.into_iter();
        let mut uncounted = Vec::new();
        for slot in prepared.iter_mut().filter(|slot| slot.is_none()) {
            let Some(turn) = loaded.next() else { break };
            let (made, counted) = self.prepare(&turn, counter);
            uncounted.extend(counted.map(|counted| (turn.id, counted)));
            let made = Arc::new(made);
            self.cache.put(turn.id, &key, &made);
            *slot = Some(made);
        }
        if !uncounted.is_empty() {
            // Counted once, and never again. That they cannot be kept, in a
            // store that is only read, is no reason to fail.
            let _ = self.store.put_counts(&uncounted);
        }
        let prepared = prepared.into_iter().flatten().collect();
        Ok((prepared, !uncounted.is_empty()))
    }

    /// Puts the summary and the turns together.
    fn fill(&self, history: &mut History, prepared: &[Arc<Prepared>]) {
        if let Some((id, compaction)) = &history.compaction
            && !compaction.summary.is_empty()
        {
            let summary = self.summary(*id, compaction);
            match self.with_summary {
                true => history.items.push(summary),
                false => {
                    let tokens = compaction.tokens_after;
                    let reason = "the summary is larger than what the pinned items leave";
                    let reason = Reason::Unusable(reason.to_owned());
                    let row = row(&summary.id, summary.role, Code::OverBudget, tokens, reason);
                    history.unsent.push(row);
                }
            }
        }
        // Behind another summary, or none, the prefix is another one anyway, and
        // what is kept there is to be shown from its beginning. Nor does history
        // go on from where fewer turns than the latest were shown.
        let summary = history.items.first().map(|item| &item.id);
        let enough = |anchor: &Anchor| {
            let turns = history.heads.iter().zip(prepared);
            let mut turns = turns.skip_while(|(head, _)| !anchor.is_in(head.id));
            let first = usize::from(turns.next().is_some());
            first + turns.filter(|(_, turn)| turn.begins).count() >= self.min_recent
        };
        history.start = (self.anchor)
            .filter(|anchor| anchor.summary.as_ref() == summary && enough(anchor))
            .map(|anchor| Arc::clone(&anchor.start));
        join(history, prepared);
        unread(history);
    }

    fn summary(&self, id: TurnId, compaction: &Compaction) -> Item {
        let text = format!("{SUMMARY_MARK}\n{}", compaction.summary);
        let text = Text::guarded(&text, self.policy);
        let id = format!("{SUMMARY_ID}{}", turn_name(id));
        let mut item = Item::new(id, Role::User, text).pinned();
        item.priority = 1.0;
        // It holds what tools returned, in other words.
        item.trust = Trust::Tool;
        item
    }

    /// Makes the items of a turn, and the counts of its blocks if it has none
    /// yet.
    fn prepare(&self, turn: &Turn, counter: &str) -> (Prepared, Option<Counted>) {
        let mut maker = Maker::new(turn.id, self.policy, self.provider);
        let items = maker.items(&turn.turn);
        let known = turn
            .counts
            .as_ref()
            .filter(|counts| fits(counts, &turn.turn));
        let counted = match known {
            Some(counts) => {
                for made in &items {
                    if let Some(text) = made.text() {
                        let tokens = counts[made.message][made.block];
                        let tokens = tokens.saturating_sub(made.surcharge());
                        self.counts.know(text, tokens);
                    }
                }
                None
            }
            None => Some(Counted {
                counter: counter.to_owned(),
                blocks: count(&items, &turn.turn, self.counts),
            }),
        };
        (maker.finish(items), counted)
    }
}

/// Notes what lies before the part that was read, as one row.
fn unread(history: &mut History) {
    let read_from = history.heads.first().map(|head| head.depth);
    let older = match (read_from, &history.compaction) {
        (Some(depth), _) => depth - 1,
        (None, _) => 0,
    };
    if older == 0 {
        return;
    }
    // A summary that is sent, whatever is kept behind it.
    let is_sent = (history.items.first()).is_some_and(|item| item.id.starts_with(SUMMARY_ID));
    let summarised = history.compaction.as_ref().filter(|_| is_sent);
    let from = history.heads.first().map(|head| head.id);
    let turns = if older == 1 { "turn" } else { "turns" };
    let (id, code, tokens, reason) = match summarised {
        Some((id, compaction)) if compaction.first_kept.is_some_and(|kept| Some(kept) != from) => (
            format!("turns 1-{older}"),
            Code::BeforeWindow,
            compaction.tokens_before,
            format!(
                "{older} {turns}: the summary {} stands for the first of them; the others are not \
                 read, the budget is spent before them",
                turn_name(*id)
            ),
        ),
        Some((id, compaction)) => (
            format!("turns 1-{older}"),
            Code::Compacted,
            compaction.tokens_before,
            format!(
                "{older} {turns}: the summary {} stands for them",
                turn_name(*id)
            ),
        ),
        None => (
            format!("turns 1-{older}"),
            Code::BeforeWindow,
            0,
            format!("{older} older {turns}: not read, the budget is spent before them"),
        ),
    };
    history.unsent.insert(
        0,
        row(&id, Role::User, code, tokens, Reason::Unusable(reason)),
    );
}

fn row(id: &str, role: Role, code: Code, tokens: Tokens, reason: Reason) -> Excluded {
    Excluded {
        path: None,
        id: id.into(),
        layer: "session".into(),
        role,
        tokens,
        estimated: tokens > 0,
        priority: 0.0,
        base_priority: None,
        score: None,
        scores: BTreeMap::new(),
        code,
        reason,
    }
}
