//! A [`Proposal`] as a `working-set.yml` with comments.

use std::fmt::Write as _;

use contexture_core::{Cut, Role, grouped};

use super::propose::Proposal;
use crate::working_set::PROTOCOL;

/// Returns the manifest. `tokenizer` is the name of the tokenizer that counted.
pub(super) fn manifest(proposal: &Proposal, tokenizer: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "# The files that the model sees. `contexture init` proposed this list from the files of\n\
         # the project; edit it as you like, or use `contexture working-set add|remove|adjust`.\n\
         # Files with a higher priority are kept first. Token counts: {tokenizer}, when this was \
         written.\nprotocol: {PROTOCOL}\n"
    );
    let _ = writeln!(
        out,
        "budget:\n  max_tokens: {:<16} # prompt and answer together\n  \
         reserved_for_response: {:<5} # kept free for the answer\n",
        proposal.max_tokens, proposal.reserved_for_response
    );
    if !proposal.exclude.is_empty() {
        out.push_str("# Files that patterns skip. Files ignored by .gitignore are skipped too.\n");
        out.push_str("exclude:\n");
        for (pattern, why) in &proposal.exclude {
            let _ = writeln!(out, "  - {}  # {why}", quoted(pattern));
        }
        out.push('\n');
    }
    out.push_str(
        "# A path is a file, a range of lines (src/main.rs#L10-L80), a directory or a pattern.\n\
         # The first pattern that matches a file decides its priority.\nfiles:\n",
    );
    let mut what = "";
    for entry in &proposal.entries {
        if entry.what != what {
            what = entry.what;
            let _ = writeln!(out, "  # {}", sentence(what));
        }
        let tokens = grouped(entry.tokens);
        let size = match entry.files {
            0 | 1 => format!("{tokens} tokens"),
            files => format!("{} files, {tokens} tokens", grouped(files as u64)),
        };
        let _ = writeln!(out, "  - path: {}  # {size}", quoted(&entry.path));
        let _ = writeln!(out, "    priority: {}", decimal(entry.priority));
        if entry.role != Role::Context {
            let _ = writeln!(out, "    role: {}", quoted(entry.role.name()));
        }
        let strategy = match entry.cut {
            Cut::Never => "never",
            Cut::Start => "start",
            Cut::Middle => "middle",
            Cut::End => "end",
        };
        let _ = writeln!(out, "    truncate_strategy: {}", quoted(strategy));
        if let Some(max) = entry.max_tokens {
            let _ = writeln!(out, "    max_tokens: {max}  # for each file");
        }
    }
    out
}

/// Writes a priority with its decimal point.
fn decimal(priority: f64) -> String {
    match priority.fract() == 0.0 {
        true => format!("{priority:.1}"),
        false => priority.to_string(),
    }
}

/// Writes a text as YAML does between double quotes, which is how JSON does.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}
