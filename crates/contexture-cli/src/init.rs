//! `contexture init`: proposes a working set and creates the first files of a
//! project.
//!
//! The proposal is made by `contexture-files`. On a terminal the user is asked;
//! elsewhere, and with `--yes`, the proposal is accepted.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;

use contexture::core::grouped;
use contexture::{Engine, Proposal, Root, existing_manifest};

use crate::args::InitArgs;
use crate::{output, progress};

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<()> {
    let dir = args.root.as_path();
    // A project that is new has no settings yet.
    let at = if dir.exists() { dir } else { Path::new(".") };
    let engine = Engine::for_root(&Root::open(at)?)?;
    let model = engine.models().resolve(&engine.config().model);
    let counts = engine.counts(&model)?;
    let counter = counts.counter();
    let proposal = progress::with_spinner("looking at the project", || {
        contexture::propose(dir, counter, model.window)
    })?;

    // A manifest that is not replaced needs no proposal.
    let existing = existing_manifest(dir).filter(|_| !args.force);
    if existing.is_none() {
        let tokenizer = counter.name();
        output::text(&describe(&proposal, tokenizer, output::width()))?;
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let question = "Write .agent/working-set.yml? You can edit it afterwards.";
        let accepted =
            args.yes || !is_terminal || output::ask(&mut std::io::stdin().lock(), question, true)?;
        if !accepted {
            output::say("nothing was written");
            return Ok(());
        }
    }
    let scaffold = contexture::init(dir, &proposal, counter.name(), args.force)?;
    let mut lines = String::new();
    for path in &scaffold.written {
        let _ = writeln!(lines, "wrote {path}");
    }
    for path in &scaffold.replaced {
        let _ = writeln!(lines, "replaced {path}");
    }
    for path in &scaffold.kept {
        let _ = writeln!(lines, "kept  {path} (already exists)");
    }
    output::text(&lines)?;
    if let Some(manifest) = existing {
        output::say(&format!(
            "{manifest} was not changed; replace it with a new proposal with --force"
        ));
    }
    let here = match dir == Path::new(".") {
        true => String::new(),
        false => format!(" {}", output::visible(&dir.display().to_string())),
    };
    output::say(&format!(
        "next: contexture assemble{here} --explain > prompt.txt"
    ));
    Ok(())
}

/// Returns the proposal as a table, the highest priority first.
fn describe(proposal: &Proposal, tokenizer: &str, width: Option<usize>) -> String {
    let mut lines = String::new();
    let languages = match proposal.languages.as_slice() {
        [] => String::new(),
        languages => format!(" ({})", languages.join(", ")),
    };
    let _ = writeln!(
        lines,
        "proposed working set{languages}: {}, {}, {} tokens ({tokenizer})",
        output::number(proposal.entries.len() as u64, "entry", "entries"),
        output::many(proposal.files as u64, "file"),
        grouped(proposal.tokens)
    );
    let _ = writeln!(lines, "  priority    tokens  files  entry");
    // The width of the columns before the name of an entry.
    const BEFORE: usize = 29;
    for entry in proposal.by_priority() {
        let name = output::visible(&entry.path);
        let limit = entry.max_tokens.map_or_else(String::new, |max| {
            format!("  (at most {} tokens per file)", grouped(max))
        });
        let name = match width {
            Some(width) => output::shortened(&name, width.saturating_sub(BEFORE).max(12)),
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
            output::visible(pattern)
        );
    }
    let available = proposal.max_tokens - proposal.reserved_for_response;
    let budget = format!(
        "budget: {} tokens, {} of them reserved for the answer",
        grouped(proposal.max_tokens),
        grouped(proposal.reserved_for_response)
    );
    let _ = match proposal.fits() {
        true => writeln!(lines, "{budget}: everything fits"),
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
