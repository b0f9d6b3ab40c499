//! Joins turns: calls with their results, and turns that belong together into
//! one group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_core::{Code, Content, Cut, Item, Join, Native, Part, Role, Text, Trust};

use super::{History, PreparedTurn, Target, row};

/// The text that replaces the missing result of a call.
const NO_RESULT: &str = "(no result was recorded)";

/// The text before a conversation that the model began: most providers require
/// a user message first.
const MODEL_BEGAN: &str = "(the conversation begins with the assistant)";

/// Joins turns to a history. Each step, one answer of the model with the
/// results of its calls, is a group; the user's message before it belongs to
/// it.
///
/// Messages of the first turn before `from` are left out. `ids` describes the
/// calls. `target` decides whether the user must speak first.
pub(super) fn join(
    history: &mut History,
    turns: &[Arc<PreparedTurn>],
    from: usize,
    ids: CallIds,
    target: Target,
) {
    let shown = |(i, turn): (usize, &Arc<PreparedTurn>)| {
        let from = if i == 0 { from } else { 0 };
        turn.items.len() - turn.messages.partition_point(|message| *message < from)
    };
    let items: usize = turns.iter().enumerate().map(shown).sum();
    history.items.reserve(items + 1);
    let mut joiner = Joiner {
        history,
        group: "".into(),
        open: Vec::new(),
        names: CallNames::default(),
        tools: BTreeMap::new(),
        ids,
        user_first: target.user_first(),
        has_started: false,
        asked_at: None,
        latest: None,
    };
    for (i, turn) in turns.iter().enumerate() {
        joiner.turn(i, turn, if i == 0 { from } else { 0 });
    }
    let waiting = joiner
        .open
        .iter()
        .map(|(call, _)| call.to_string())
        .collect();
    joiner.history.waiting = waiting;
    joiner.give_up();
}

/// The calls of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallIds {
    /// Turns may repeat the ids of earlier ones.
    Repeated,
    /// All ids are unique.
    Unique,
    /// All ids are unique, and the provider stores further calls: their results
    /// are always kept.
    Stored,
}

impl CallIds {
    /// Returns true for a conversation in the form of a provider's own request,
    /// whose messages stay as they were given.
    fn is_as_given(self) -> bool {
        self != CallIds::Repeated
    }
}

struct Joiner<'h> {
    history: &'h mut History,
    group: Arc<str>,
    // Calls that wait for their result: id and tool.
    open: Vec<(Arc<str>, Arc<str>)>,
    names: CallNames,
    // The tool of each call.
    tools: BTreeMap<Arc<str>, Arc<str>>,
    ids: CallIds,
    // Whether the provider requires a user message first.
    user_first: bool,
    // Whether a step began. Results before that answer calls that were
    // summarised.
    has_started: bool,
    // The turn and the message of the user's latest message.
    asked_at: Option<(usize, usize)>,
    // The turn and the message of the latest item.
    latest: Option<(usize, usize)>,
}

impl Joiner<'_> {
    /// Adds a turn, from a message on.
    fn turn(&mut self, i: usize, turn: &PreparedTurn, from: usize) {
        let head = self.history.heads[i];
        // Results of calls of the previous turn come first. A message that is
        // not a result abandons the calls that are still open.
        let mut orphan = None;
        for (at, item) in turn.items.iter().enumerate() {
            let is_result = matches!(item.part, Part::ToolResult { .. });
            let is_earlier = turn.earlier.binary_search(&at).is_ok();
            if is_earlier && self.ids == CallIds::Stored {
                self.add_stored(item.clone());
                continue;
            }
            // Other blocks in the message of an orphaned result are left out
            // with it.
            if turn.messages[at] < from || orphan == Some(turn.messages[at]) && !is_result {
                continue;
            }
            if turn.speaks_at == Some(at) {
                self.open.retain(|(call, _)| !turn.answers.contains(call));
                self.give_up();
            }
            if turn.starts.binary_search(&at).is_ok() {
                self.has_started = true;
                if !self.goes_on(item) {
                    self.group = Arc::clone(&item.id);
                }
            }
            let mut item = item.clone();
            match &mut item.part {
                Part::ToolCall { id, name } => {
                    self.tools.insert(Arc::clone(id), Arc::clone(name));
                    let named = item.native.as_ref().is_some_and(|native| names(native, id));
                    let name =
                        self.names
                            .call(id, head.depth, named || self.ids != CallIds::Repeated);
                    // The provider's own form has the original id, so it no
                    // longer applies.
                    if named && name != *id {
                        item.native = None;
                    }
                    *id = name;
                }
                Part::ToolResult { id, name, .. } => {
                    let asked = self.open.iter().find(|(call, _)| call == id);
                    if let (true, Some((_, asked))) = (name.is_empty(), asked) {
                        *name = Arc::clone(asked);
                    }
                    // The call of this result was summarised.
                    if !self.has_started && !self.names.knows(id) {
                        let reason = "the call that it answers is not in the request".to_owned();
                        let row = row(&item.id, item.role, Code::COMPACTED, 0, reason);
                        self.history.unsent.push(row);
                        orphan = Some(turn.messages[at]);
                        continue;
                    }
                    // The conversation continued without this result.
                    if is_earlier && asked.is_none() {
                        let tool = self.tools.get(id).cloned().unwrap_or_default();
                        let call = self.names.result(id);
                        let item = late(item, &call, &tool);
                        self.add(item);
                        continue;
                    }
                    let name = self.names.result(id);
                    if name != *id && item.native.as_ref().is_some_and(|native| names(native, id)) {
                        item.native = None;
                    }
                    *id = name;
                }
                _ => {}
            }
            self.open_history(&item);
            let message = (i, turn.messages[at]);
            if item.role == Role::User {
                self.note_question(&item, message);
            }
            if self.ids.is_as_given() && self.is_in_a_row(&item, message) {
                item.join = Join::Message;
            }
            self.latest = Some(message);
            self.add(item);
        }
        self.open.retain(|(call, _)| !turn.answers.contains(call));
        if turn.speaks_at.is_some_and(|at| at >= turn.items.len()) {
            self.give_up();
        }
        self.open.extend(turn.open.iter().cloned());
        // Blocks that a summary covers are reported there.
        for block in turn.unsent.iter().filter(|block| block.message >= from) {
            let reason = block.reason.to_owned();
            let row = row(&block.id, block.role, Code::NOT_FOR_PROVIDER, 0, reason);
            self.history.unsent.push(row);
        }
    }

    /// Returns true if an item belongs to the step of the item before: it is
    /// the answer to the user's message.
    fn goes_on(&self, item: &Item) -> bool {
        let last = self.history.items.last();
        let last = last.filter(|last| last.group.as_ref() == Some(&self.group));
        let asked = last.is_some_and(is_users);
        asked && item.role == Role::Assistant
    }

    /// Adds an opening user message if the model speaks first, for a provider
    /// that requires one. An instruction is not a message of the model.
    fn open_history(&mut self, item: &Item) {
        let is_instruction = |item: &Item| matches!(item.role, Role::System | Role::Developer);
        if self.user_first
            && self.history.items.iter().all(is_instruction)
            && !is_instruction(item)
            && !is_users(item)
        {
            let id = format!("{}/opening", self.group);
            self.add(ours(id, Role::User, MODEL_BEGAN));
        }
    }

    /// Returns true if an item begins a message after another message of the same
    /// role.
    fn is_in_a_row(&self, item: &Item, message: (usize, usize)) -> bool {
        let last = self.history.items.last();
        matches!(item.role, Role::User | Role::Assistant)
            && self.latest.is_some_and(|latest| latest != message)
            && last.is_some_and(|last| last.role == item.role)
    }

    /// Records a block of the user's latest message, at this turn and message.
    fn note_question(&mut self, item: &Item, at: (usize, usize)) {
        let question = &mut self.history.question;
        if self.asked_at.replace(at) != Some(at) {
            question.clear();
        }
        question.push(Arc::clone(&item.id));
    }

    /// Adds a result of a call that the provider stores. The provider rejects a
    /// request without it.
    fn add_stored(&mut self, mut item: Item) {
        item.pinned = true;
        item.cut = Cut::Never;
        self.history.items.push(item);
    }

    fn add(&mut self, mut item: Item) {
        item.group = Some(Arc::clone(&self.group));
        self.history.items.push(item);
    }

    /// Adds a placeholder result to every open call: providers reject a call
    /// without a result.
    fn give_up(&mut self) {
        for (call, name) in std::mem::take(&mut self.open) {
            let call = self.names.result(&call);
            // By the name that no other call has; messages have numbers.
            let id = format!("{}/result of {call}", self.group);
            let part = Part::ToolResult {
                id: call,
                name,
                is_error: true,
            };
            self.add(ours(id, Role::Tool, NO_RESULT).part(part));
        }
    }
}

/// Returns a result that arrived after the conversation had continued, as a
/// text, because providers accept a result only right after its call.
fn late(mut item: Item, call: &str, tool: &str) -> Item {
    let of = match tool {
        "" => String::new(),
        tool => format!(" of `{tool}`"),
    };
    if let Content::Ready(text) = &item.content {
        let lead = format!("Late result of the earlier call `{call}`{of}:\n");
        item.content = Content::Ready(text.with_lead(&lead));
    }
    item.part = Part::Text;
    item.native = None;
    item
}

/// Returns true for the user's messages, and for context that is sent with
/// them.
fn is_users(item: &Item) -> bool {
    matches!(item.role, Role::User | Role::Context)
}

/// Returns an item of our own words.
pub(super) fn ours(id: String, role: Role, text: &str) -> Item {
    let mut item = Item::new(id, role, Text::new(text)).cut(Cut::Never);
    item.trust = Trust::Operator;
    item
}

/// Returns true when the provider's own form of a call or a result has this id.
fn names(native: &Native, id: &str) -> bool {
    native.raw.as_str().contains(&format!("\"{id}\""))
}

/// The ids of calls, made unique: providers reject two calls with one id in a
/// request, and agents often number their calls from one in each turn.
///
/// A short id gets its turn's number as a suffix even if it is not repeated:
/// its name must not depend on how far back the ledger was read. A long id is
/// assumed to be random, and is only changed if it is repeated.
#[derive(Default)]
struct CallNames {
    // The latest name of each id.
    latest: BTreeMap<Arc<str>, Arc<str>>,
    taken: BTreeSet<Arc<str>>,
}

/// From this length on, an id is assumed to be random.
const RANDOM_ID: usize = 16;

impl CallNames {
    fn call(&mut self, id: &Arc<str>, turn: u64, named: bool) -> Arc<str> {
        let mut name = Arc::clone(id);
        // A provider made the id of a call in the provider's own form.
        if id.len() < RANDOM_ID && !named {
            name = format!("{id}-{turn}").into();
        }
        while self.taken.contains(&name) {
            name = format!("{name}-{turn}").into();
        }
        self.taken.insert(Arc::clone(&name));
        self.latest.insert(Arc::clone(id), Arc::clone(&name));
        name
    }

    fn knows(&self, id: &Arc<str>) -> bool {
        self.latest.contains_key(id)
    }

    fn result(&self, id: &Arc<str>) -> Arc<str> {
        Arc::clone(self.latest.get(id).unwrap_or(id))
    }
}
