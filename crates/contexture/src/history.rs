//! The conversation so far, from the ledger, as items.
//!
//! Only the tail is read: the walk from the head stops when the budget is
//! spent. Turns never change, so what was made of one is kept in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_core::guard::Policy;
use contexture_core::{Code, Counts, Cut, Excluded, Item, Part, Reason, Role, Text, Tokens, Trust};
use contexture_providers::{describe, media_tokens};
use contexture_store::{
    Block, BlockCounts, Compaction, Counted, MessageRole, NewTurn, Session, Store, StoreError,
    Turn, TurnHead, TurnId, TurnKind, Walk,
};
use contexture_tokens::Provider;

use crate::broker::guarded_json;

/// What a summary begins with, so that nobody takes it for somebody's words.
pub(crate) const SUMMARY_MARK: &str = "[Previous conversation summary]";

/// What stands for the result of a call that has none.
const NO_RESULT: &str = "(no result was recorded)";

/// What stands before a conversation that the model began: providers want the
/// user first.
const MODEL_BEGAN: &str = "(the conversation begins with the assistant)";

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
    pub(crate) compaction: Option<(TurnId, Compaction)>,
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
        let mut heads = self.store.walk(head, &walk)?;
        heads.retain(|head| head.kind == TurnKind::Normal);
        heads.reverse();
        let mut history = History {
            heads,
            compaction,
            ..History::default()
        };
        self.fill(&mut history, &counter)?;
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
        if let Some((id, compaction)) = &history.compaction
            && !compaction.summary.is_empty()
        {
            history.items.push(self.summary(*id, compaction));
        }
        let prepared: Vec<Arc<Prepared>> = prepared.into_iter().flatten().collect();
        join(history, &prepared);
        unread(history);
        Ok(())
    }

    fn summary(&self, id: TurnId, compaction: &Compaction) -> Item {
        let text = format!("{SUMMARY_MARK}\n{}", compaction.summary);
        let text = Text::guarded(&text, self.policy);
        let mut item = Item::new(format!("summary:{}", turn_name(id)), Role::User, text).pinned();
        item.priority = 1.0;
        // It holds what tools returned, in other words.
        item.trust = Trust::Tool;
        item
    }

    /// Makes the items of a turn, and the counts of its blocks if it has none
    /// yet.
    fn prepare(&self, turn: &Turn, counter: &str) -> (Prepared, Option<Counted>) {
        let mut maker = Maker::new(turn, self.policy, self.provider);
        let items = maker.items(&turn.turn);
        let known = turn
            .counts
            .as_ref()
            .filter(|counts| fits(counts, &turn.turn));
        let counted = match known {
            Some(counts) => {
                for made in &items {
                    if let Some(text) = made.text() {
                        self.counts.know(text, counts[made.message][made.block]);
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

/// Returns the counts of a turn that is about to be recorded.
pub(crate) fn count_turn(turn: &NewTurn, counts: &Counts, policy: Policy) -> Counted {
    let nobody = TurnId::of(b"");
    let mut maker = Maker {
        name: turn_name(nobody),
        names: BTreeMap::new(),
        policy,
        provider: Provider::Other,
        unsent: Vec::new(),
        open: Vec::new(),
        answers: Vec::new(),
    };
    let items = maker.items(turn);
    Counted {
        counter: counter_name(counts, policy),
        blocks: count(&items, turn, counts),
    }
}

fn fits(counts: &BlockCounts, turn: &NewTurn) -> bool {
    counts.len() == turn.messages.len()
        && counts
            .iter()
            .zip(&turn.messages)
            .all(|(counts, message)| counts.len() == message.blocks().len())
}

fn count(items: &[Made], turn: &NewTurn, counts: &Counts) -> BlockCounts {
    let mut blocks: BlockCounts = turn
        .messages
        .iter()
        .map(|message| vec![0; message.blocks().len()])
        .collect();
    for made in items {
        if let Some(text) = made.text() {
            blocks[made.message][made.block] = counts.count_of(text);
        }
    }
    blocks
}

/// A block of a message, made an item or kept back.
struct Made {
    message: usize,
    block: usize,
    what: Result<Item, (String, Role, String, Text)>,
}

impl Made {
    fn text(&self) -> Option<&Text> {
        match &self.what {
            Ok(item) => match &item.content {
                contexture_core::Content::Ready(text) => Some(text),
                _ => None,
            },
            Err((.., text)) => Some(text),
        }
    }
}

/// Makes items of a turn.
struct Maker {
    name: String,
    // The tool of each call.
    names: BTreeMap<String, Arc<str>>,
    policy: Policy,
    provider: Provider,
    unsent: Vec<(String, Role, String)>,
    open: Vec<(Arc<str>, Arc<str>)>,
    answers: Vec<Arc<str>>,
}

impl Maker {
    fn new(turn: &Turn, policy: Policy, provider: Provider) -> Self {
        Self {
            name: turn_name(turn.id),
            names: BTreeMap::new(),
            policy,
            provider,
            unsent: Vec::new(),
            open: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn items(&mut self, turn: &NewTurn) -> Vec<Made> {
        let mut made = Vec::new();
        for (m, message) in turn.messages.iter().enumerate() {
            let blocks = message.blocks();
            let calls = blocks
                .iter()
                .any(|block| matches!(&**block, Block::ToolCall { .. }));
            for (b, block) in blocks.iter().enumerate() {
                let id = match blocks.len() {
                    1 => format!("{}/{m}", self.name),
                    _ => format!("{}/{m}.{b}", self.name),
                };
                made.push(Made {
                    message: m,
                    block: b,
                    what: self.block(id, message.role, block, calls),
                });
            }
        }
        made
    }

    fn block(
        &mut self,
        id: String,
        message: MessageRole,
        block: &Block,
        calls: bool,
    ) -> Result<Item, (String, Role, String, Text)> {
        let (role, trust) = match message {
            MessageRole::User => (Role::User, Trust::User),
            MessageRole::Assistant => (Role::Assistant, Trust::User),
            MessageRole::Tool => (Role::Tool, Trust::Tool),
            MessageRole::System => (Role::System, Trust::Operator),
            MessageRole::Developer => (Role::Developer, Trust::Operator),
        };
        let guarded = |text: &str| Text::guarded(text, self.policy);
        let item = |id: String, role: Role, text: Text, trust: Trust| {
            let mut item = Item::new(id, role, text).cut(Cut::Never);
            item.trust = trust;
            item
        };
        if matches!(role, Role::System | Role::Developer) {
            let mut text = String::new();
            if let Block::Text { text: said } = block {
                text.push_str(said);
            }
            let reason = "kept for the record: the system prompt is made anew each time";
            return Err((id, role, reason.to_owned(), guarded(&text)));
        }
        Ok(match block {
            Block::Text { text } if text.trim().is_empty() => {
                return Err((id, role, "is blank".to_owned(), guarded("")));
            }
            Block::Text { text } => item(id, role, guarded(text), trust),
            Block::ToolCall {
                id: call,
                name,
                arguments,
            } => {
                let (call, name): (Arc<str>, Arc<str>) =
                    (call.as_str().into(), name.as_str().into());
                self.names.insert(call.to_string(), Arc::clone(&name));
                self.open.push((Arc::clone(&call), Arc::clone(&name)));
                let text = guarded_json(arguments, self.policy);
                item(id, role, text, trust).part(Part::ToolCall { id: call, name })
            }
            Block::ToolResult {
                tool_call_id,
                content,
                is_error,
            } => {
                let call: Arc<str> = tool_call_id.as_str().into();
                let own = self.open.iter().position(|(open, _)| *open == call);
                match own {
                    Some(at) => drop(self.open.remove(at)),
                    None => self.answers.push(Arc::clone(&call)),
                }
                let name = self.names.get(tool_call_id).cloned().unwrap_or_default();
                let mut item = item(id, Role::Tool, guarded(content.trim_end()), Trust::Tool).part(
                    Part::ToolResult {
                        id: call,
                        name,
                        is_error: *is_error,
                    },
                );
                // The newest results give way when nothing else can.
                item.cut = Cut::Middle;
                item
            }
            Block::Thinking { text, signature } => {
                // Providers want it back unchanged where tools were called, and
                // have no use for it elsewhere.
                let wanted = calls && self.provider == Provider::Anthropic;
                match signature {
                    Some(signature) if wanted && !signature.is_empty() => {
                        item(id, role, guarded(text), trust).part(Part::Thinking {
                            signature: signature.as_str().into(),
                        })
                    }
                    _ => {
                        let reason = "thinking that the provider does not want back";
                        return Err((id, role, reason.to_owned(), guarded(text)));
                    }
                }
            }
            Block::Image { .. } | Block::Audio { .. } | Block::Document { .. } => {
                let Some(media) = block.media() else {
                    return Err((id, role, "has neither data nor url".to_owned(), guarded("")));
                };
                let mut item = item(id, role, guarded(&describe(&media)), trust);
                item.surcharge = media_tokens(&media);
                item.part(Part::Media(media.into()))
            }
        })
    }

    fn finish(mut self, made: Vec<Made>) -> Prepared {
        let mut items = Vec::with_capacity(made.len());
        let mut bytes = 0;
        for one in made {
            bytes += one.text().map_or(0, |text| text.as_str().len() + 256);
            match one.what {
                Ok(item) => items.push(item),
                Err((id, role, reason, _)) => self.unsent.push((id, role, reason)),
            }
        }
        let talks = |item: &&Item| matches!(item.role, Role::User | Role::Assistant);
        let begins = items
            .iter()
            .find(talks)
            .is_some_and(|item| item.role == Role::User)
            && self.answers.is_empty();
        Prepared {
            items,
            unsent: self.unsent,
            open: self.open,
            answers: self.answers,
            begins,
            bytes,
        }
    }
}

/// Puts turns together: those that only make sense with the one before them,
/// because they answer its calls or go on where it stopped, form one group.
fn join(history: &mut History, prepared: &[Arc<Prepared>]) {
    let mut group: Arc<str> = "".into();
    let mut open: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    let mut calls = CallNames::default();
    let give_up = |history: &mut History,
                   open: &mut Vec<(Arc<str>, Arc<str>)>,
                   calls: &CallNames,
                   group: &Arc<str>| {
        for (call, name) in open.drain(..) {
            let id = format!("{group}/{call}");
            let mut item = Item::new(id, Role::Tool, Text::new(NO_RESULT)).cut(Cut::Never);
            item.trust = Trust::Operator;
            item.part = Part::ToolResult {
                id: call,
                name,
                is_error: true,
            };
            item.group = Some(Arc::clone(group));
            history.items.push(item);
        }
    };
    for (i, turn) in prepared.iter().enumerate() {
        if turn.begins || i == 0 {
            give_up(history, &mut open, &calls, &group);
            group = turn_name(history.heads[i].id).into();
        }
        if i == 0 && !turn.begins && history.heads[0].depth == 1 {
            let id = format!("{group}/opening");
            let mut item = Item::new(id, Role::User, Text::new(MODEL_BEGAN)).cut(Cut::Never);
            item.trust = Trust::Operator;
            item.group = Some(Arc::clone(&group));
            history.items.push(item);
        }
        // Somebody speaks before every call has its result: it is given up.
        let answered_first = turn
            .items
            .first()
            .is_some_and(|item| item.role == Role::Tool);
        if !answered_first {
            give_up(history, &mut open, &calls, &group);
        }
        let mut waits = !open.is_empty();
        for item in &turn.items {
            if waits && item.role != Role::Tool {
                waits = false;
                open.retain(|(call, _)| !turn.answers.contains(call));
                give_up(history, &mut open, &calls, &group);
            }
            let mut item = item.clone();
            match &mut item.part {
                Part::ToolCall { id, .. } => *id = calls.call(id, history.heads[i].id),
                Part::ToolResult { id, name, .. } => {
                    if name.is_empty()
                        && let Some((_, known)) = open.iter().find(|(call, _)| call == id)
                    {
                        *name = Arc::clone(known);
                    }
                    *id = calls.result(id);
                }
                _ => {}
            }
            item.group = Some(Arc::clone(&group));
            history.items.push(item);
        }
        open.retain(|(call, _)| !turn.answers.contains(call));
        open.extend(turn.open.iter().cloned());
        for (id, role, reason) in &turn.unsent {
            let row = row(
                id,
                *role,
                Code::NotForProvider,
                0,
                Reason::Unusable(reason.clone()),
            );
            history.unsent.push(row);
        }
    }
    give_up(history, &mut open, &calls, &group);
}

/// The ids of calls, made unique: providers refuse two calls of one id in a
/// request, and agents often count theirs from one in each turn.
///
/// The first keeps its id, and a later one gets its turn's name behind it:
/// nothing that comes later changes what is there.
#[derive(Default)]
struct CallNames {
    // The latest name of each id.
    latest: BTreeMap<Arc<str>, Arc<str>>,
}

impl CallNames {
    fn call(&mut self, id: &Arc<str>, turn: TurnId) -> Arc<str> {
        let name = match self.latest.contains_key(id) {
            true => format!("{id}-{}", turn_name(turn)).into(),
            false => Arc::clone(id),
        };
        self.latest.insert(Arc::clone(id), Arc::clone(&name));
        name
    }

    fn result(&self, id: &Arc<str>) -> Arc<str> {
        Arc::clone(self.latest.get(id).unwrap_or(id))
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
    let summarised = history
        .compaction
        .as_ref()
        .filter(|(_, compaction)| !compaction.summary.is_empty());
    let turns = if older == 1 { "turn" } else { "turns" };
    let (id, code, tokens, reason) = match summarised {
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
