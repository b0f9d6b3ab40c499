//! `contexture fetch`: prints what a cut of a tool result left out.

use contexture::FetchRequest;
use serde_json::json;

use crate::args::FetchArgs;
use crate::{output, store};

pub(crate) fn run(args: &FetchArgs) -> anyhow::Result<()> {
    let engine = store::engine(&args.options, false)?;
    let request = FetchRequest {
        lines: args.lines.clone(),
        grep: args.grep.clone(),
        jq: args.jq.clone(),
        max_bytes: Some(args.max_bytes),
    };
    let fetched = engine.fetch(&args.handle, &request)?;
    if args.options.json {
        return output::text(&format!("{:#}\n", json!(fetched)));
    }
    if fetched.matches == Some(0) {
        output::say("no line matches");
        return Ok(());
    }
    output::text(&format!("{}\n", fetched.text))?;
    if fetched.line_cut {
        output::say(&format!(
            "line {} is longer than --max-bytes and is cut",
            fetched.last_line
        ));
    }
    if let Some(next) = &fetched.next_lines {
        output::say(&format!(
            "this is up to line {} of {}; continue with --lines {next}",
            fetched.last_line, fetched.total_lines
        ));
    }
    Ok(())
}
