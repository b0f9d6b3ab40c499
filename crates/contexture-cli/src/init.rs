//! `contexture init`: proposes a working set and creates the first files of a
//! project.
//!
//! The proposal is made by `contexture-files`. On a terminal the user is asked;
//! elsewhere, and with `--yes`, the proposal is accepted.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;

use contexture::{Engine, Root, existing_manifest};
use contexture_terminal::proposal;

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
        output::text(&proposal::table(&proposal, tokenizer, output::width()))?;
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
