//! Splits the latest run of steps, so that its latest steps can be kept when
//! the whole does not fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_core::{Content, Cut, Item, Part, Role, Tokens};

use super::join::ours;

/// What stands for the steps of a run that are left out, where no question does.
const EARLIER_STEPS: &str = "(earlier steps are left out)";

/// Tears the latest run of steps, each a call and its results, into groups of
/// their own, so that the latest of them can be kept where all of them are too
/// many. What the user asked at its beginning is kept with them.
///
/// `room` is what a request may use. Returns false when there is nothing to
/// tear.
pub(super) fn tear_newest(items: &mut Vec<Item>, room: Tokens) -> bool {
    let Some(run) = items.last().and_then(|item| item.group.clone()) else {
        return false;
    };
    let others = |item: &Item| item.group.as_ref() != Some(&run);
    let from = items.iter().rposition(others).map_or(0, |at| at + 1);
    let asked = items[from..]
        .iter()
        .take_while(|item| item.role == Role::User)
        .count();
    let steps = from + asked;
    let mut waiting: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut begins = Vec::new();
    for at in steps..items.len() {
        let after_result = at > steps && items[at - 1].role == Role::Tool;
        let speaks = match items[at].role {
            Role::User => true,
            Role::Assistant => after_result || at == steps,
            _ => false,
        };
        if speaks && waiting.is_empty() {
            begins.push(at);
        }
        match &items[at].part {
            Part::ToolCall { id, .. } => drop(waiting.insert(Arc::clone(id))),
            Part::ToolResult { id, .. } => drop(waiting.remove(id)),
            _ => {}
        }
    }
    if begins.len() < 2 {
        return false;
    }
    let mut step = Arc::clone(&run);
    for (at, item) in items.iter_mut().enumerate().skip(steps) {
        if begins.binary_search(&at).is_ok() {
            step = format!("{run} from {}", item.id).into();
        }
        item.group = Some(Arc::clone(&step));
    }
    // A question that leaves room for the steps stays.
    let bytes: usize = items[from..steps].iter().map(bytes).sum();
    let surcharges: Tokens = items[from..steps].iter().map(|item| item.surcharge).sum();
    if asked > 0 && bytes as Tokens / 4 + surcharges <= room / 4 {
        for item in &mut items[from..steps] {
            item.pinned = true;
            item.cut = Cut::Never;
            item.group = None;
        }
        return true;
    }
    let mut opening = ours(format!("{run}/opening"), Role::User, EARLIER_STEPS);
    opening.pinned = true;
    items.insert(steps, opening);
    true
}

fn bytes(item: &Item) -> usize {
    match &item.content {
        Content::Ready(text) => text.as_str().len(),
        Content::Pending { .. } | Content::Absent { .. } => 0,
    }
}
