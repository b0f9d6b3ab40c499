//! The conversation so far, from the ledger, as items.
//!
//! Only the tail is read: the walk from the head stops when the budget is
//! spent. Turns never change, so what was made of one is kept in memory.

mod items;
mod join;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_core::guard::Policy;
use contexture_core::{Code, Counts, Excluded, Item, Reason, Role, Text, Tokens, Trust};
use contexture_store::{
    Compaction, Counted, Session, Store, StoreError, Turn, TurnHead, TurnId, TurnKind, Walk,
};
use contexture_tokens::Provider;

pub(crate) use items::count_turn;
use items::{Maker, count, fits, know};
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
    unsent: Vec<(Arc<str>, Role, &'static str)>,
    // Calls that have no result when the turn ends.
    open: Vec<(Arc<str>, Arc<str>)>,
    // Results that the turn gives to calls of turns before it.
    answers: Vec<Arc<str>>,
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
}

/// The tail of a conversation.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) items: Vec<Item>,
    /// Rows of the report for what was not read or is not sent.
    pub(crate) unsent: Vec<Excluded>,
    /// The turns that were read, oldest first.
    pub(crate) heads: Vec<TurnHead>,
    /// The compaction that stands at its beginning.
    pub(crate) latest: Option<Latest>,
}

/// The latest compaction on the path to a turn.
#[derive(Debug, Clone)]
pub(crate) struct Latest {
    pub(crate) id: TurnId,
    pub(crate) parent: Option<TurnId>,
    /// How many turns there were when it was made.
    pub(crate) depth: u64,
    pub(crate) compaction: Compaction,
}

impl Latest {
    /// Finds it; it costs the same wherever it is.
    pub(crate) fn find(store: &dyn Store, head: TurnId) -> Result<Option<Self>, StoreError> {
        let only_head = Walk {
            counter: "",
            tokens: 0,
            at_least: 0,
            through: Some(head),
        };
        let newest = store.walk(head, &only_head)?;
        let Some(id) = newest.first().and_then(|head| head.compaction) else {
            return Ok(None);
        };
        let turn = store.turns(&[id], "")?.into_iter().next();
        Ok(turn.and_then(|turn| {
            Some(Self {
                id,
                parent: turn.parent,
                depth: turn.depth,
                compaction: turn.compaction?,
            })
        }))
    }

    /// Returns the turn behind which nothing older is shown: the first that is
    /// kept or, when none is, the compaction itself. After an undoing,
    /// everything may be.
    pub(crate) fn through(&self) -> Option<TurnId> {
        match (self.compaction.first_kept, self.summary()) {
            (Some(kept), _) => Some(kept),
            (None, Some(_)) => Some(self.id),
            (None, None) => None,
        }
    }

    /// Returns the summary, unless the compaction undid one.
    pub(crate) fn summary(&self) -> Option<&str> {
        Some(self.compaction.summary.as_str()).filter(|summary| !summary.is_empty())
    }

    /// Returns the name of the summary in reports.
    pub(crate) fn name(&self) -> String {
        format!("{SUMMARY_NAME}{}", turn_name(self.id))
    }
}

/// What the names of summaries in reports begin with.
pub(crate) const SUMMARY_NAME: &str = "summary:";

impl History {
    /// Returns the name of the summary it begins with.
    pub(crate) fn summary_name(&self) -> Option<&str> {
        let first = self.items.first()?;
        Some(&*first.id).filter(|id| id.starts_with(SUMMARY_NAME))
    }

    /// Returns about what all turns that were read cost, if they are all there
    /// are.
    pub(crate) fn whole(&self) -> Option<Tokens> {
        let unread = self.unsent.iter().any(|row| row.code == Code::BeforeWindow);
        let turns = self.heads.iter();
        (!unread).then(|| turns.map(TurnHead::weight).sum())
    }
}

/// Returns the name of what counted and guarded, beside which counts are kept.
pub(crate) fn counter_name(counts: &Counts, policy: Policy) -> String {
    let masked = if policy.mask_secrets {
        "masked"
    } else {
        "plain"
    };
    // A change of the guard changes counts, and so this number.
    format!("{}/{masked}/1", counts.counter().name())
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
        let latest = Latest::find(self.store, head)?;
        walk.through = latest.as_ref().and_then(Latest::through);
        let mut heads = self.store.walk(head, &walk)?;
        heads.retain(|head| head.kind == TurnKind::Normal);
        heads.reverse();
        let mut history = History {
            heads,
            latest,
            ..History::default()
        };
        self.fill(&mut history, &counter)?;
        Ok(history)
    }

    /// Makes the items of the turns that were walked over.
    fn fill(&self, history: &mut History, counter: &str) -> Result<(), StoreError> {
        let key = Key {
            counter: counter.to_owned(),
            provider: self.provider,
        };
        let mut prepared: Vec<Option<Arc<Prepared>>> = history
            .heads
            .iter()
            .map(|head| self.cache.get(head.id, &key))
            .collect();
        let missing: Vec<TurnId> = history
            .heads
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
        if let Some(latest) = &history.latest
            && let Some(summary) = latest.summary()
        {
            let summary = self.summary(latest.name(), summary);
            match self.with_summary {
                true => history.items.push(summary),
                false => {
                    let tokens = latest.compaction.tokens_after;
                    let reason = "the summary is larger than what the pinned items leave";
                    let reason = Reason::Unusable(reason.to_owned());
                    let row = row(&summary.id, summary.role, Code::OverBudget, tokens, reason);
                    history.unsent.push(row);
                }
            }
        }
        let prepared: Vec<Arc<Prepared>> = prepared.into_iter().flatten().collect();
        join(history, &prepared);
        unread(history);
        Ok(())
    }

    fn summary(&self, name: String, summary: &str) -> Item {
        let text = format!("{SUMMARY_MARK}\n{summary}");
        let text = Text::guarded(&text, self.policy);
        let mut item = Item::new(name, Role::User, text).pinned();
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
            Some(blocks) => {
                know(&items, blocks, self.counts);
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
    let older = history.heads.first().map_or(0, |head| head.depth - 1);
    if older == 0 {
        return;
    }
    let turns = if older == 1 { "turn" } else { "turns" };
    let latest = history.latest.as_ref();
    let (code, tokens, reason) = match latest.filter(|latest| latest.summary().is_some()) {
        Some(latest) => (
            Code::Compacted,
            latest.compaction.tokens_before,
            format!("{older} {turns}: {} stands for them", latest.name()),
        ),
        None => (
            Code::BeforeWindow,
            0,
            format!("{older} older {turns}: not read, the budget is spent before them"),
        ),
    };
    let id = format!("turns 1-{older}");
    let row = row(&id, Role::User, code, tokens, Reason::Unusable(reason));
    history.unsent.insert(0, row);
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
