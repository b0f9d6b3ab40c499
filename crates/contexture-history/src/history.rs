//! The conversation so far, from the ledger, as items.
//!
//! Only the tail is read: the walk from the head stops when the budget is
//! spent. Turns never change, so their items are cached in memory.

mod items;
mod join;
mod loose;
mod stale;
pub(crate) mod steps;

use std::sync::Arc;

use contexture_core::cache::Cache;
use contexture_core::guard::Policy;
use contexture_core::{Code, Content, Counts, Cut, Excluded, Item, Role, Text, Tokens, Trust};
use contexture_providers::Format;
use contexture_store::{
    Compaction, Counted, Ledger, Session, StoreError, Turn, TurnHead, TurnId, TurnKind, Walk,
};
use contexture_tokens::Provider;

use crate::facts::Facts;

use items::{ItemBuilder, count, know};
pub(crate) use items::{ResultLimits, by_message, count_turn, counter_of, fits};
use join::{CallIds, join};
pub(crate) use loose::{LooseMessages, Reach};
pub(crate) use stale::Clearing;

/// The first line of a summary, which distinguishes it from a message.
pub(crate) const SUMMARY_MARK: &str = "[Previous conversation summary]";

/// The number of digits of a turn's id that identify it in the report.
const ID_DIGITS: usize = 12;

/// The name of a turn in reports.
pub(crate) fn turn_name(id: TurnId) -> String {
    id.to_string()[..ID_DIGITS].to_owned()
}

/// A turn prepared for requests: its blocks as items, and the blocks that are
/// not sent.
#[derive(Debug)]
pub(crate) struct PreparedTurn {
    items: Vec<Item>,
    // Blocks that are stored but not sent.
    unsent: Vec<UnsentBlock>,
    // Calls that have no result when the turn ends.
    open: Vec<(Arc<str>, Arc<str>)>,
    // Results that the turn gives to calls of turns before it.
    answers: Vec<Arc<str>>,
    // The items that are results of calls of earlier turns.
    earlier: Vec<usize>,
    // The item before the first message that is not a result. Open calls of
    // earlier turns are abandoned there, as in the ledger.
    speaks_at: Option<usize>,
    // The message of each item.
    messages: Vec<usize>,
    // The items that steps begin with.
    starts: Vec<usize>,
    // The tokens of the turn in this window, if they are fewer than the stored
    // counts because its results are shortened here.
    shorter: Option<Tokens>,
    // Whether the provider paused the turn.
    is_paused: bool,
    bytes: usize,
}

/// A block that is stored but not sent.
#[derive(Debug)]
pub(crate) struct UnsentBlock {
    id: Arc<str>,
    role: Role,
    message: usize,
    reason: &'static str,
}

/// Turns that were prepared before. They never change.
#[derive(Debug, Default)]
pub(crate) struct TurnCache {
    turns: Cache<(TurnId, Key), Arc<PreparedTurn>>,
    // Turns without their content, with their counts, by turn and counter.
    heads: Cache<(TurnId, Arc<str>), TurnHead>,
    // Compactions, by their own turn.
    compactions: Cache<TurnId, Arc<LatestCompaction>>,
    // The guarded texts of their summaries.
    summaries: Cache<(TurnId, Policy), Text>,
    // Histories that cannot be summarised, by their head and the available
    // tokens.
    incompressible: Cache<(TurnId, Tokens), ()>,
    // Turns that were recorded and not prepared yet, by turn and the session's number
    // of deletions.
    recorded: Cache<(TurnId, u64), Arc<RecordedTurn>>,
}

/// A turn that this engine has recorded.
#[derive(Debug)]
pub(crate) struct RecordedTurn {
    /// The turn, with its counts.
    pub(crate) turn: Turn,
    /// The name of the counter of the counts.
    pub(crate) counter: String,
    /// The tokens of the turn.
    pub(crate) tokens: Tokens,
    /// Whether a step begins with the turn.
    pub(crate) begins: bool,
}

/// The conditions that the items of a turn depend on, apart from the turn
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    // The counter, the guard and the limits of tool results.
    counter: Arc<str>,
    target: Target,
}

/// The API that a request is for, as far as it is known during assembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) provider: Provider,
    /// The requested format. `None` if the request has none.
    pub(crate) format: Option<Format>,
}

impl Target {
    /// Returns the target of a request about which nothing is known.
    pub(crate) fn any() -> Self {
        Self {
            provider: Provider::Other,
            format: None,
        }
    }

    /// Returns true if the first message must be the user's.
    pub(crate) fn user_first(self) -> bool {
        let openai = [Format::OpenAiChat, Format::OpenAiResponses];
        !self.format.is_some_and(|format| openai.contains(&format))
    }

    /// Returns true when a block in the own form of the API `name` can be sent.
    pub(crate) fn accepts(self, name: &str) -> bool {
        match self.format {
            None | Some(Format::Text | Format::Json) => match self.provider {
                Provider::Anthropic => name == Format::Anthropic.name(),
                Provider::Gemini => name == Format::Gemini.name(),
                // Either of the two APIs; which one is known only when the
                // request is rendered.
                Provider::OpenAi => {
                    name == Format::OpenAiChat.name() || name == Format::OpenAiResponses.name()
                }
                // Servers of other models use the Chat Completions API.
                Provider::Other => name == Format::OpenAiChat.name(),
            },
            Some(format) => name == format.name(),
        }
    }
}

/// The maximum number of times that a walk continues because counts became
/// known.
const MOST_WALKS: usize = 16;

impl TurnCache {
    fn get(&self, heads: &[TurnHead], key: &Key) -> Vec<Option<Arc<PreparedTurn>>> {
        let turn = |head: &TurnHead| self.turns.get(&(head.id, key.clone()));
        heads.iter().map(turn).collect()
    }

    /// Returns true when an attempt to summarise the history found nothing.
    pub(crate) fn is_incompressible(&self, head: TurnId, available: Tokens) -> bool {
        self.incompressible.get(&(head, available)).is_some()
    }

    pub(crate) fn remember_incompressible(&self, head: TurnId, available: Tokens) {
        self.incompressible.insert((head, available), (), 64);
    }

    /// Caches a turn that was just recorded, so that the next request of the session need
    /// not read it. `deletions` is the session's number of deletions.
    pub(crate) fn record(&self, recorded: RecordedTurn, deletions: u64) {
        let bytes = recorded.turn.turn.bytes() as usize + 512;
        let key = (recorded.turn.id, deletions);
        self.recorded.insert(key, Arc::new(recorded), bytes);
    }

    /// Returns a turn that was recorded with these counts.
    fn recorded(&self, id: TurnId, deletions: u64, counter: &str) -> Option<Arc<RecordedTurn>> {
        let found = self.recorded.get(&(id, deletions))?;
        (found.counter == counter).then_some(found)
    }

    /// Returns a turn that was recorded, without its content. The turn before it must
    /// be cached: both have the same latest compaction.
    fn recorded_head(
        &self,
        id: TurnId,
        deletions: u64,
        stored: &str,
        counter: &Arc<str>,
    ) -> Option<TurnHead> {
        let found = self.recorded(id, deletions, stored)?;
        let turn = &found.turn;
        let compaction = match turn.parent {
            Some(parent) => self.heads.get(&(parent, Arc::clone(counter)))?.compaction,
            None => None,
        };
        Some(TurnHead {
            id,
            parent: turn.parent,
            depth: turn.depth,
            kind: turn.kind,
            compaction,
            begins: found.begins,
            bytes: turn.turn.bytes(),
            tokens: Some(found.tokens),
        })
    }

    /// Returns the latest compaction on the path to a turn, as
    /// [`LatestCompaction::find`] does.
    fn latest(
        &self,
        store: &dyn Ledger,
        head: TurnId,
        deletions: u64,
        stored: &str,
        counter: &Arc<str>,
    ) -> Result<Option<Arc<LatestCompaction>>, StoreError> {
        let known = self.heads.get(&(head, Arc::clone(counter)));
        let found = match known {
            Some(head) => Some(head),
            None => {
                let found = match self.recorded_head(head, deletions, stored, counter) {
                    Some(recorded) => Some(recorded),
                    None => LatestCompaction::newest(store, head, stored)?,
                };
                self.keep(found.as_slice(), counter);
                found
            }
        };
        let Some(id) = found.and_then(|head| head.compaction) else {
            return Ok(None);
        };
        if let Some(latest) = self.compactions.get(&id) {
            return Ok(Some(latest));
        }
        let Some(latest) = LatestCompaction::load(store, id)? else {
            return Ok(None);
        };
        let latest = Arc::new(latest);
        let bytes = latest.compaction.summary.len() + 512;
        self.compactions
            .insert(latest.id, Arc::clone(&latest), bytes);
        Ok(Some(latest))
    }

    /// Walks over cached turns as a store does, and asks the store for the
    /// rest.
    fn walk(
        &self,
        store: &dyn Ledger,
        from: TurnId,
        walk: &Walk<'_>,
        counter: &Arc<str>,
    ) -> Result<Vec<TurnHead>, StoreError> {
        let mut heads = Vec::new();
        let mut next = Some(from);
        let (mut rest, mut tokens) = (*walk, 0_u64);
        while let Some(id) = next {
            let Some(head) = self.heads.get(&(id, Arc::clone(counter))) else {
                break;
            };
            next = head.parent;
            let normal = usize::from(head.kind == TurnKind::Normal);
            rest.at_least = rest.at_least.saturating_sub(normal);
            tokens = tokens.saturating_add(head.weight());
            let spent = tokens > walk.tokens && rest.at_least == 0 && head.begins;
            heads.push(head);
            if spent || walk.through == Some(id) {
                return Ok(heads);
            }
        }
        if let Some(id) = next {
            rest.tokens = walk.tokens.saturating_sub(tokens);
            let further = store.walk(id, &rest)?;
            self.keep(&further, counter);
            heads.extend(further);
        }
        Ok(heads)
    }

    /// Caches turns of a walk. A turn whose count is an estimate is read again.
    fn keep(&self, heads: &[TurnHead], counter: &Arc<str>) {
        let is_known =
            |head: &&TurnHead| head.tokens.is_some() || head.kind == TurnKind::Compaction;
        for head in heads.iter().filter(is_known) {
            let key = (head.id, Arc::clone(counter));
            self.heads.insert(key, *head, size_of::<TurnHead>());
        }
    }

    fn put(&self, id: TurnId, key: &Key, prepared: PreparedTurn) -> Arc<PreparedTurn> {
        let bytes = prepared.bytes + 512;
        let prepared = Arc::new(prepared);
        self.turns
            .insert((id, key.clone()), Arc::clone(&prepared), bytes);
        prepared
    }
}

/// Reads history as items.
pub(crate) struct Reader<'a> {
    pub(crate) store: &'a dyn Ledger,
    pub(crate) cache: &'a TurnCache,
    pub(crate) counts: &'a Counts,
    pub(crate) policy: Policy,
    pub(crate) target: Target,
    /// The most tokens of a tool result.
    pub(crate) results: ResultLimits,
    /// The tokens available to the whole request.
    pub(crate) available: Tokens,
    /// The number of latest turns that are always kept.
    pub(crate) min_recent: usize,
    /// Whether the summary of older turns is offered.
    pub(crate) with_summary: bool,
    /// Whether the user's latest message is always kept, even if messages
    /// around it are left out.
    pub(crate) pins_question: bool,
    /// Whether the ids of calls are those of a provider's own conversation, which
    /// has each once.
    pub(crate) has_unique_ids: bool,
}

/// The tail of a conversation.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) items: Vec<Item>,
    /// Rows of the report for turns that were not read or are not sent.
    pub(crate) unsent: Vec<Excluded>,
    /// The turns that were read, oldest first.
    pub(crate) heads: Vec<TurnHead>,
    /// Whether no older turn is stored: turns before the oldest were deleted.
    pub(crate) is_all: bool,
    /// The compaction at the beginning.
    pub(crate) latest: Option<Arc<LatestCompaction>>,
    /// The calls that have no result at its end.
    pub(crate) waiting: Vec<String>,
    /// The number of older turns that are neither read nor summarised.
    pub(crate) unread: u64,
    /// The blocks of the user's latest message.
    pub(crate) question: Vec<Arc<str>>,
    /// Whether the provider paused the latest turn, and resumes it when it is
    /// sent back.
    pub(crate) is_paused: bool,
}

/// The latest compaction on the path to a turn.
#[derive(Debug, Clone)]
pub(crate) struct LatestCompaction {
    pub(crate) id: TurnId,
    pub(crate) parent: Option<TurnId>,
    /// The number of turns at the time of the compaction.
    pub(crate) depth: u64,
    pub(crate) compaction: Compaction,
}

impl LatestCompaction {
    /// Returns the latest compaction on the path to `head`. The cost does not
    /// depend on its position.
    pub(crate) fn find(store: &dyn Ledger, head: TurnId) -> Result<Option<Self>, StoreError> {
        match Self::newest(store, head, "")?.and_then(|head| head.compaction) {
            Some(id) => Self::load(store, id),
            None => Ok(None),
        }
    }

    /// Returns the turn `head`, with the tokens of a counter.
    fn newest(
        store: &dyn Ledger,
        head: TurnId,
        counter: &str,
    ) -> Result<Option<TurnHead>, StoreError> {
        let only_head = Walk {
            counter,
            tokens: 0,
            at_least: 0,
            through: Some(head),
        };
        Ok(store.walk(head, &only_head)?.into_iter().next())
    }

    /// Reads the compaction of a turn.
    fn load(store: &dyn Ledger, id: TurnId) -> Result<Option<Self>, StoreError> {
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

    /// Returns the oldest turn that is shown: the first kept one or, if none is
    /// kept, the compaction itself. Returns `None` after an undo, if all turns
    /// may be shown.
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

    /// Returns the facts that the summary was written from. For summaries of
    /// earlier versions, only the text exists.
    pub(crate) fn facts(&self) -> Facts {
        let stored = self.compaction.facts.clone();
        let facts = stored.and_then(|facts| serde_json::from_value(facts).ok());
        facts.unwrap_or_else(|| Facts::of_summary(self.summary().unwrap_or_default()))
    }

    /// Returns the index of the first message that is shown of the first of
    /// these turns.
    pub(crate) fn first_message(&self, heads: &[TurnHead]) -> usize {
        let first = heads.first().map(|head| head.id);
        match first.is_some() && first == self.compaction.first_kept {
            true => self.compaction.first_kept_message,
            false => 0,
        }
    }

    /// Returns the name of the summary in reports.
    pub(crate) fn name(&self) -> String {
        format!("{SUMMARY_NAME}{}", turn_name(self.id))
    }
}

/// The prefix of the names of summaries in reports.
pub(crate) const SUMMARY_NAME: &str = "summary:";

/// Returns true for the id of an item that is a summary of earlier steps.
pub fn is_summary(id: &str) -> bool {
    id.starts_with(SUMMARY_NAME)
}

impl History {
    /// Returns the name of the summary it begins with.
    pub(crate) fn summary_name(&self) -> Option<&str> {
        let first = self.items.first()?;
        Some(&*first.id).filter(|id| id.starts_with(SUMMARY_NAME))
    }

    /// Returns true if a window that begins with `start` contains at least the
    /// latest steps that are always kept.
    pub(crate) fn holds_latest(&self, start: &str, least: usize) -> bool {
        let steps = |items: &[Item]| {
            let mut groups: Vec<_> = items
                .iter()
                .filter_map(|item| item.group.as_ref())
                .collect();
            groups.dedup();
            groups.len()
        };
        let from = self.items.iter().position(|item| *item.id == *start);
        from.is_some_and(|from| steps(&self.items[from..]) >= least.min(steps(&self.items)))
    }
}

impl Reader<'_> {
    /// Reads the tail of a session's history that the budget could use.
    pub(crate) fn read(&self, session: &Session) -> Result<History, StoreError> {
        let Some(head) = session.head else {
            return Ok(History::default());
        };
        let stored = counter_of(self.counts, self.policy, self.results.stored);
        // The items in memory also depend on the result limit of this window. They
        // are not used after turns were deleted, by this process or another.
        let shown = self.results.shown.unwrap_or(0);
        let deletions = session.turn_deletions;
        let counter: Arc<str> = format!("{stored}, shown {shown}, {deletions} deletions").into();
        let mut walk = Walk {
            counter: &stored,
            tokens: self.available,
            at_least: self.min_recent,
            through: None,
        };
        let latest = (self.cache).latest(self.store, head, deletions, &stored, &counter)?;
        walk.through = latest.as_deref().and_then(LatestCompaction::through);
        let path = || -> Result<(Vec<TurnHead>, bool), StoreError> {
            let mut heads = self.cache.walk(self.store, head, &walk, &counter)?;
            let is_all = heads.last().is_some_and(|oldest| oldest.parent.is_none());
            heads.retain(|head| head.kind == TurnKind::Normal);
            heads.reverse();
            Ok((heads, is_all))
        };
        let (mut heads, mut is_all) = path()?;
        let prepare = |heads: &[TurnHead]| self.prepare_all(heads, deletions, &counter, &stored);
        let (mut prepared, mut counted) = prepare(&heads)?;
        // Turns without counts were estimated, most likely too high: now that
        // they are counted, the walk may continue.
        for _ in 0..MOST_WALKS {
            if !counted {
                break;
            }
            let further = path()?;
            if further.0.len() <= heads.len() {
                break;
            }
            (heads, is_all) = further;
            (prepared, counted) = prepare(&heads)?;
        }
        let mut history = History {
            heads,
            is_all,
            latest,
            ..History::default()
        };
        self.fill(&mut history, &prepared);
        Ok(history)
    }

    /// Makes the items of the visited turns. Returns them, and whether any
    /// count differs from the one that the walk used.
    fn prepare_all(
        &self,
        heads: &[TurnHead],
        deletions: u64,
        counter: &Arc<str>,
        stored: &str,
    ) -> Result<(Vec<Arc<PreparedTurn>>, bool), StoreError> {
        let key = Key {
            counter: Arc::clone(counter),
            target: self.target,
        };
        let mut prepared = self.cache.get(heads, &key);
        let mut missing = Vec::new();
        for (head, slot) in heads.iter().zip(&mut prepared) {
            if slot.is_some() {
                continue;
            }
            let Some(recorded) = self.cache.recorded(head.id, deletions, stored) else {
                missing.push(head.id);
                continue;
            };
            let (made, _) = self.prepare(&recorded.turn, stored);
            *slot = Some(self.cache.put(head.id, &key, made));
            self.cache.recorded.remove(&(head.id, deletions));
        }
        if missing.is_empty() {
            let prepared: Vec<_> = prepared.into_iter().flatten().collect();
            let corrected = self.correct(heads, &prepared, counter);
            return Ok((prepared, corrected));
        }
        let mut loaded = self.store.turns(&missing, stored)?.into_iter();
        let mut uncounted = Vec::new();
        for slot in prepared.iter_mut().filter(|slot| slot.is_none()) {
            let Some(turn) = loaded.next() else { break };
            let (made, counted) = self.prepare(&turn, stored);
            uncounted.extend(counted.map(|counted| (turn.id, counted)));
            *slot = Some(self.cache.put(turn.id, &key, made));
        }
        if !uncounted.is_empty() {
            // Each turn is counted only once. Failing to save the counts, in a
            // read-only store, is not an error.
            let _ = self.store.put_counts(&uncounted);
        }
        let prepared: Vec<_> = prepared.into_iter().flatten().collect();
        let corrected = self.correct(heads, &prepared, counter);
        Ok((prepared, corrected || !uncounted.is_empty()))
    }

    /// Caches the actual tokens of turns in this window, if they are fewer than
    /// the stored counts. Returns true if a count that the walk used has
    /// changed.
    fn correct(
        &self,
        heads: &[TurnHead],
        prepared: &[Arc<PreparedTurn>],
        counter: &Arc<str>,
    ) -> bool {
        let mut corrected = false;
        for (head, turn) in heads.iter().zip(prepared) {
            if turn.shorter.is_some() && head.tokens != turn.shorter {
                let key = (head.id, Arc::clone(counter));
                let head = TurnHead {
                    tokens: turn.shorter,
                    ..*head
                };
                self.cache.heads.insert(key, head, size_of::<TurnHead>());
                corrected = true;
            }
        }
        corrected
    }

    /// Joins the summary and the turns.
    fn fill(&self, history: &mut History, prepared: &[Arc<PreparedTurn>]) {
        if let Some(latest) = &history.latest
            && let Some(summary) = latest.summary()
        {
            let summary = self.summary(latest, summary);
            match self.with_summary {
                true => history.items.push(summary),
                false => {
                    let tokens = latest.compaction.tokens_after;
                    let reason = "the summary does not fit next to the pinned items";
                    let reason = reason.to_owned();
                    let row = row(&summary.id, summary.role, Code::OVER_BUDGET, tokens, reason);
                    history.unsent.push(row);
                }
            }
        }
        let latest = history.latest.clone();
        let from = latest.map_or(0, |latest| latest.first_message(&history.heads));
        let ids = match self.has_unique_ids {
            true => CallIds::Unique,
            false => CallIds::Repeated,
        };
        join(history, prepared, from, ids, self.target);
        history.is_paused = prepared.last().is_some_and(|turn| turn.is_paused);
        if self.pins_question {
            self.pin_question(history);
        }
        unread(history);
    }

    /// Pins the user's latest message, if it leaves tokens for the steps.
    fn pin_question(&self, history: &mut History) {
        let asked: Vec<usize> = (0..history.items.len())
            .filter(|&at| history.question.contains(&history.items[at].id))
            .collect();
        let bytes = |item: &Item| match &item.content {
            Content::Ready(text) => text.as_str().len(),
            Content::Pending { .. } | Content::Absent { .. } => 0,
        };
        let cost = |&at: &usize| {
            let item = &history.items[at];
            bytes(item) as Tokens / 4 + item.surcharge
        };
        if asked.iter().map(cost).sum::<Tokens>() > self.available / 4 {
            return;
        }
        for at in asked {
            let item = &mut history.items[at];
            item.pinned = true;
            item.cut = Cut::Never;
            item.group = None;
        }
    }

    fn summary(&self, latest: &LatestCompaction, summary: &str) -> Item {
        let key = (latest.id, self.policy);
        let text = self.cache.summaries.get(&key).unwrap_or_else(|| {
            let text = summary_text(summary, self.policy);
            let bytes = 2 * text.as_str().len() + 512;
            self.cache.summaries.insert(key, text.clone(), bytes);
            text
        });
        summary_item(latest.name(), text)
    }

    /// Makes the items of a turn, and the counts of its blocks if it has none
    /// yet.
    fn prepare(&self, turn: &Turn, counter: &str) -> (PreparedTurn, Option<Counted>) {
        let shown = self.results.shown;
        let mut maker = ItemBuilder::new(turn.id, self.policy, self.target, shown);
        let items = maker.items(&turn.turn, self.counts);
        let known = turn
            .counts
            .as_ref()
            .filter(|counts| fits(counts, &turn.turn));
        let stored = self.results.stored;
        let counted = match known {
            Some(_) => None,
            None if shown == stored => Some(Counted {
                counter: counter.to_owned(),
                blocks: count(&items, &turn.turn, self.counts),
            }),
            None => Some(count_turn(&turn.turn, self.counts, self.policy, stored)),
        };
        let blocks = known.or(counted.as_ref().map(|counted| &counted.blocks));
        let shorter = blocks.and_then(|blocks| {
            let saved = know(&items, blocks, self.counts);
            let total = blocks.iter().flatten().sum::<Tokens>();
            (saved > 0).then(|| total.saturating_sub(saved))
        });
        (maker.finish(items, shorter), counted)
    }
}

/// Returns a summary as it is sent.
fn summary_text(summary: &str, policy: Policy) -> Text {
    Text::guarded(&format!("{SUMMARY_MARK}\n{summary}"), policy)
}

fn summary_item(name: String, text: Text) -> Item {
    let mut item = Item::new(name, Role::User, text).pinned();
    item.priority = 1.0;
    // The summary contains output of tools, in other words.
    item.trust = Trust::Tool;
    item
}

/// Adds one row for the turns before the part that was read.
fn unread(history: &mut History) {
    let Some(first) = history.heads.first() else {
        return;
    };
    let older = first.depth - 1;
    let is_all = history.is_all;
    if older == 0 || (is_all && history.summary_name().is_none()) {
        return;
    }
    let turns = if older == 1 { "turn" } else { "turns" };
    // A summary that is sent, whichever turns after it are kept.
    let latest = history.latest.as_deref();
    let latest = latest.filter(|_| history.summary_name().is_some());
    let from = first.id;
    let is_whole = |latest: &LatestCompaction| {
        let kept = latest.compaction.first_kept;
        is_all || kept.is_none_or(|kept| kept == from)
    };
    let (code, tokens, reason) = match latest {
        Some(latest) if !is_whole(latest) => (
            Code::BEFORE_WINDOW,
            latest.compaction.tokens_before,
            format!(
                "{older} {turns}: the first are replaced by {}; the others were not read because \
                 the budget is full",
                latest.name()
            ),
        ),
        Some(latest) => (
            Code::COMPACTED,
            latest.compaction.tokens_before,
            format!("{older} {turns}: replaced by {}", latest.name()),
        ),
        None => (
            Code::BEFORE_WINDOW,
            0,
            format!("{older} older {turns}: not read because the budget is full"),
        ),
    };
    if code == Code::BEFORE_WINDOW {
        history.unread = older;
    }
    let id = format!("turns 1-{older}");
    let row = row(&id, Role::User, code, tokens, reason);
    history.unsent.insert(0, row);
}

fn row(id: &str, role: Role, code: Code, tokens: Tokens, reason: String) -> Excluded {
    Excluded::unoffered(id, "", role, code, reason).about(tokens)
}
