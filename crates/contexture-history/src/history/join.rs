//! Joins turns: calls with their results, and turns that belong together into
//! one group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contexture_core::{Code, Cut, Item, Native, Part, Role, Text, Trust};

use super::{History, PreparedTurn, row, turn_name};

/// What stands for the result of a call that has none.
const NO_RESULT: &str = "(no result was recorded)";

/// What stands before a conversation that the model began: providers want the
/// user first.
const MODEL_BEGAN: &str = "(the conversation begins with the assistant)";

/// Puts turns together: those that only make sense with the one before them,
/// because they answer its calls or go on where it stopped, form one group.
pub(super) fn join(history: &mut History, turns: &[Arc<PreparedTurn>]) {
    let mut joiner = Joiner {
        history,
        group: "".into(),
        open: Vec::new(),
        names: CallNames::default(),
    };
    for (i, turn) in turns.iter().enumerate() {
        joiner.turn(i, turn);
    }
    let waiting = joiner
        .open
        .iter()
        .map(|(call, _)| call.to_string())
        .collect();
    joiner.history.waiting = waiting;
    joiner.give_up();
}

struct Joiner<'h> {
    history: &'h mut History,
    group: Arc<str>,
    // Calls that wait for their result: id and tool.
    open: Vec<(Arc<str>, Arc<str>)>,
    names: CallNames,
}

impl Joiner<'_> {
    fn turn(&mut self, i: usize, turn: &PreparedTurn) {
        let head = self.history.heads[i];
        if turn.begins || i == 0 {
            self.give_up();
            self.group = turn_name(head.id).into();
        }
        // The model may have begun, or what the user said is blank.
        if i == 0 && !turn.begins && self.history.items.is_empty() {
            let id = format!("{}/opening", self.group);
            self.add(ours(id, Role::User, MODEL_BEGAN));
        }
        // Results of calls of the turn before come first; whoever speaks
        // before they are all there has given up waiting.
        for (at, item) in turn.items.iter().enumerate() {
            if turn.speaks_at == Some(at) {
                self.open.retain(|(call, _)| !turn.answers.contains(call));
                self.give_up();
            }
            let mut item = item.clone();
            match &mut item.part {
                Part::ToolCall { id, .. } => {
                    let named = item.native.as_ref().is_some_and(|native| names(native, id));
                    let name = self.names.call(id, head.depth, named);
                    // Its own form has the id that the provider knows.
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
                    let name = self.names.result(id);
                    if name != *id && item.native.as_ref().is_some_and(|native| names(native, id)) {
                        item.native = None;
                    }
                    *id = name;
                }
                _ => {}
            }
            self.add(item);
        }
        self.open.retain(|(call, _)| !turn.answers.contains(call));
        if turn.speaks_at.is_some_and(|at| at >= turn.items.len()) {
            self.give_up();
        }
        self.open.extend(turn.open.iter().cloned());
        for (id, role, reason) in &turn.unsent {
            let reason = (*reason).to_owned();
            let row = row(id, *role, Code::NOT_FOR_PROVIDER, 0, reason);
            self.history.unsent.push(row);
        }
    }

    fn add(&mut self, mut item: Item) {
        item.group = Some(Arc::clone(&self.group));
        self.history.items.push(item);
    }

    /// Gives every call that still waits a result that says that there is none:
    /// a provider refuses a call without one.
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

/// The ids of calls, made unique: providers refuse two calls of one id in a
/// request, and agents often count theirs from one in each turn.
///
/// A short id gets its turn's number behind it, whether it is used again or
/// not: its name must not depend on how far back the ledger was read. A long
/// one is as good as random, and is left alone unless it does come back.
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

    fn result(&self, id: &Arc<str>) -> Arc<str> {
        Arc::clone(self.latest.get(id).unwrap_or(id))
    }
}
