//! The tool `fetch`.

use contexture::{FetchRequest, Fetched};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Answer, Effect, Tools};
use contexture_api::blobs;
use contexture_api::{Problem, Tenant};

/// The arguments of `fetch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Fetch {
    /// The handle in the marker, such as `sha256:1a2b3c4d5e6f`.
    handle: String,
    /// The lines to return: `10-20`, `10-` or `10`. Default: all lines.
    #[serde(default)]
    lines: Option<String>,
    /// A regular expression. Returns the lines that match, with their numbers.
    #[serde(default)]
    grep: Option<String>,
    /// A jq path or filter for a JSON result, such as `.items[0].name`. `lines`
    /// and `grep` apply to its output.
    #[serde(default)]
    jq: Option<String>,
    /// The maximum number of bytes to return. Default: 32768.
    #[serde(default)]
    max_bytes: Option<u32>,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<Fetched, Fetch>(
        "fetch",
        (
            "Fetch a tool result",
            "Returns lines that were cut from a tool result. Call it when a marker such as \
             `[... lines 120-841 cut; fetch sha256:1a2b3c4d5e6f for the rest ...]` hides what you \
             need. Prefer `grep` or `lines` to the whole.",
        ),
        Effect::Reads,
        fetch,
    );
    tools.list_briefly(
        "fetch",
        "Returns lines that were cut from a tool result.",
        &["lines", "grep"],
    );
}

fn fetch(tenant: &Tenant, wanted: Fetch) -> Result<Answer, Problem> {
    let request = FetchRequest {
        lines: wanted.lines,
        grep: wanted.grep,
        jq: wanted.jq,
        max_bytes: wanted.max_bytes,
    };
    let fetched = blobs::fetch(tenant, &wanted.handle, &request)?;
    let mut text = match fetched.matches {
        Some(0) => "no line matches".to_owned(),
        _ => fetched.text.clone(),
    };
    if let Some(note) = fetched.note() {
        text.push_str(&format!("\n[{note}]"));
    }
    Ok(Answer::new(text, &fetched))
}
