//! The turns of a session and the summaries between them, as text.

use contexture::core::grouped;
use contexture::native;
use contexture::store::{Block, Compaction, StopReason, Trigger, Turn, TurnKind, TurnStatus};
use serde_json::Value;

use crate::text::{self, short};

/// The number of lines of a summary that are shown.
const SUMMARY_LINES: usize = 12;

/// The longest line that is shown of a message.
const LINE: usize = 100;

/// Returns the latest turns of a session as text, oldest first. `total` is the
/// number of turns that were recorded, and `stored` the number of those that were
/// not deleted.
pub fn text(turns: &[Turn], total: u64, stored: u64) -> String {
    let mut out = String::new();
    let shown = turns
        .iter()
        .filter(|turn| turn.kind == TurnKind::Normal)
        .count();
    let deleted = total.saturating_sub(stored);
    let older = stored.saturating_sub(shown as u64);
    if deleted > 0 {
        out.push_str(&format!(
            "({} deleted)\n",
            text::many(deleted, "older turn")
        ));
    }
    if older > 0 {
        let older = text::many(older, "older turn");
        out.push_str(&format!("({older} not shown; show all with --all)\n"));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    if total == 0 {
        out.push_str("no turns yet\n");
    }
    for turn in turns {
        if let Some(compaction) = &turn.compaction {
            let id = turn.id.short();
            out.push_str(&format!("--- {} ---\n", describe(&id, compaction, turns)));
            for line in compaction.summary.lines().take(SUMMARY_LINES) {
                out.push_str(&format!("    {}\n", text::visible(&short(line, LINE))));
            }
            if compaction.summary.lines().count() > SUMMARY_LINES {
                out.push_str("    … (show all with --json)\n");
            }
            out.push('\n');
            continue;
        }
        let status = match turn.turn.effective_status() {
            TurnStatus::Completed => String::new(),
            status => format!(" {status:?}").to_lowercase(),
        };
        let model = turn.turn.model.as_deref().unwrap_or("");
        // A usual end needs no word, and a failure has one.
        let stop = match &turn.turn.stop_reason {
            None | Some(StopReason::EndTurn | StopReason::ToolUse | StopReason::Error) => {
                String::new()
            }
            Some(reason) => format!(" (stopped: {})", reason.as_str()),
        };
        let head = format!(
            "{} {} {:.0} {model}{status}{stop}",
            turn.depth,
            turn.id.short(),
            turn.created_at
        );
        out.push_str(&format!("{}\n", text::visible(head.trim_end())));
        for message in &turn.turn.messages {
            for block in message.blocks() {
                let text = match &*block {
                    Block::Text { text, .. } => text.to_string(),
                    Block::ToolCall {
                        name,
                        arguments: Value::String(written),
                        ..
                    } => format!("calls {name} (not JSON) {written}"),
                    Block::ToolCall {
                        name, arguments, ..
                    } => format!("calls {name} {arguments}"),
                    Block::ToolResult {
                        content, is_error, ..
                    } => format!("{}{content}", if *is_error { "failed: " } else { "" }),
                    Block::Thinking { text, .. } if text.trim().is_empty() => {
                        "(thinks; the provider left the text out)".to_owned()
                    }
                    Block::Thinking { text, .. } => format!("(thinks) {text}"),
                    Block::Provider { provider, raw } => {
                        format!("[{provider}] {}", native::shown(raw).0)
                    }
                    other => other
                        .media()
                        .map_or_else(String::new, |media| format!("[{}]", media.media_type)),
                };
                let text = text::visible(&short(&text, LINE));
                out.push_str(&format!("  {:<9} {text}\n", message.role.name()));
            }
        }
        out.push('\n');
    }
    out
}

/// Returns a description of a compaction and the turns that it replaced.
fn describe(id: &str, compaction: &Compaction, turns: &[Turn]) -> String {
    if compaction.summary.is_empty() {
        return format!("{id} compaction undone: requests contain all turns again");
    }
    let last = compaction.summarized_through;
    let last = last.and_then(|last| turns.iter().find(|turn| turn.id == last));
    // The turn may be older than those that are shown.
    let replaced = match last.map(|turn| turn.depth) {
        Some(1) => "turn 1".to_owned(),
        Some(depth) => format!("turns 1-{depth}"),
        None => "older turns".to_owned(),
    };
    if compaction.trigger == Trigger::Undo {
        return format!(
            "{id} compaction undone: the earlier summary of {replaced} is in use again"
        );
    }
    format!(
        "summary {id} replaces {replaced} in requests ({}, {}): {} tokens became {}",
        compaction.trigger.name(),
        compaction.summariser,
        grouped(compaction.tokens_before),
        grouped(compaction.tokens_after),
    )
}
