//! The working set that `init` proposes, as a table.

use std::fmt::Write as _;

use contexture::Proposal;
use contexture::core::grouped;

use crate::text;

/// Returns the proposal as a table, the highest priority first.
pub fn table(proposal: &Proposal, tokenizer: &str, width: Option<usize>) -> String {
    let mut lines = String::new();
    let languages = match proposal.languages.as_slice() {
        [] => String::new(),
        languages => format!(" ({})", languages.join(", ")),
    };
    let _ = writeln!(
        lines,
        "proposed working set{languages}: {}, {}, {} tokens ({tokenizer})",
        text::number(proposal.entries.len() as u64, "entry", "entries"),
        text::many(proposal.files as u64, "file"),
        grouped(proposal.tokens)
    );
    let _ = writeln!(lines, "  priority    tokens  files  entry");
    // The width of the columns before the name of an entry.
    const BEFORE: usize = 29;
    for entry in proposal.by_priority() {
        let name = text::visible(&entry.path);
        let limit = entry.max_tokens.map_or_else(String::new, |max| {
            format!("  (at most {} tokens per file)", grouped(max))
        });
        let name = match width {
            Some(width) => text::shortened(&name, width.saturating_sub(BEFORE).max(12)),
            None => name,
        };
        let _ = writeln!(
            lines,
            "  {:>8}  {:>8}  {:>5}  {name}{limit}",
            entry.priority,
            grouped(entry.tokens),
            entry.files
        );
    }
    for (pattern, why) in &proposal.exclude {
        let _ = writeln!(
            lines,
            "   exclude                   {} ({why})",
            text::visible(pattern)
        );
    }
    let available = proposal.max_tokens - proposal.reserved_for_response;
    let budget = format!(
        "budget: {} tokens, {} of them reserved for the answer",
        grouped(proposal.max_tokens),
        grouped(proposal.reserved_for_response)
    );
    let (limited, cut) = proposal.limited();
    let _ = match proposal.fits() {
        true => writeln!(lines, "{budget}: everything fits"),
        false if limited <= available => writeln!(
            lines,
            "{budget}\n{} of {} tokens fit: {} cut to the limit of tokens per file",
            grouped(limited),
            grouped(proposal.tokens),
            match cut {
                1 => "1 file is".to_owned(),
                cut => format!("{cut} files are"),
            }
        ),
        false => writeln!(
            lines,
            "{budget}\n{} of {} tokens fit: files of lower priority are cut or dropped",
            grouped(available),
            grouped(proposal.tokens)
        ),
    };
    if !proposal.has_files() {
        lines.push_str("no source files were found; add files with `contexture working-set add`\n");
    }
    lines
}
