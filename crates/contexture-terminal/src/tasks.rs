//! Task stacks as drawings.

use std::fmt::Write as _;

use contexture::store::{TaskRecord, TaskStatus};

use crate::text::{self, short};

/// The longest line that is shown of a goal or a result.
const LINE: usize = 80;

/// The maximum number of levels that are indented; deeper tasks are not
/// indented further.
const DEEPEST: usize = 30;

/// Returns the tasks as a tree; each follows its parent.
pub fn drawn(stack: &str, tasks: &[TaskRecord], current: Option<&str>) -> String {
    let mut out = String::new();
    if tasks.is_empty() {
        let _ = writeln!(
            out,
            "stack {} has no tasks; push one with `contexture task push GOAL`",
            text::visible(stack)
        );
        return out;
    }
    let complete = |task: &&TaskRecord| task.status == TaskStatus::Complete;
    let _ = writeln!(
        out,
        "stack {}: {}, {} complete\n",
        text::visible(stack),
        text::many(tasks.len() as u64, "task"),
        tasks.iter().filter(complete).count()
    );
    let last = are_last(tasks);
    // Whether the task drawn at each level is the last of its siblings.
    let mut above: Vec<bool> = Vec::new();
    for (task, is_last) in tasks.iter().zip(last) {
        above.truncate(task.depth as usize);
        let set_in = above.get(1..).unwrap_or_default();
        let skipped = set_in.len().saturating_sub(DEEPEST);
        if skipped > 0 {
            out.push_str("… ");
        }
        for &closed in &set_in[skipped..] {
            out.push_str(if closed { "  " } else { "│ " });
        }
        if task.depth > 0 {
            out.push_str(if is_last { "└─" } else { "├─" });
        }
        above.push(is_last);
        let is_current = current == Some(task.id.as_str());
        let mark = match task.status {
            _ if is_current => "●",
            TaskStatus::Active => "○",
            TaskStatus::Complete => "✓",
            TaskStatus::Blocked => "‖",
        };
        let (id, goal) = (text::visible(&task.id), short(&task.goal, LINE));
        let _ = write!(out, "{mark} {id} {}", text::visible(&goal));
        let result = task.result.as_deref().map(|result| short(result, LINE));
        let result = result.map(|result| text::visible(&result));
        let _ = match (task.status, result) {
            (TaskStatus::Blocked, Some(why)) => writeln!(out, " (blocked: {why})"),
            (TaskStatus::Blocked, None) => writeln!(out, " (blocked)"),
            (_, Some(result)) => writeln!(out, " → {result}"),
            (_, None) => writeln!(out),
        };
    }
    out
}

/// Returns of each task whether no sibling follows it.
fn are_last(tasks: &[TaskRecord]) -> Vec<bool> {
    // By level, whether a later task of that level exists.
    let mut seen: Vec<bool> = Vec::new();
    let mut last: Vec<bool> = (tasks.iter().rev())
        .map(|task| {
            let depth = task.depth as usize;
            seen.resize(depth + 1, false);
            !std::mem::replace(&mut seen[depth], true)
        })
        .collect();
    last.reverse();
    last
}
