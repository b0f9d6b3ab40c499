//! Returns the content that a cut removed from a tool result, by the result's
//! handle, and images and documents that are not sent.

use contexture_core::guard::{self, Policy};
use contexture_engine::{Error, turn::guarded_json};
use contexture_shorten::{PartError, Selection, part};
use contexture_store::{HandlePrefix, Ledger};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The default maximum of returned bytes: about 8,000 tokens.
const USUAL_BYTES: usize = 32 * 1024;

/// The part of a tool result to return. Without `lines`, `grep` and `jq`, it is
/// the whole result, up to `max_bytes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FetchRequest {
    /// The lines to return: `10-20`, `10-` or `10`. Default: all lines.
    pub lines: Option<String>,
    /// A regular expression. Returns the lines that match, with their numbers.
    pub grep: Option<String>,
    /// A jq expression for a JSON result, such as `.items[0].name`. `lines` and
    /// `grep` apply to its output.
    pub jq: Option<String>,
    /// The maximum number of bytes to return. Default: 32768.
    #[cfg_attr(feature = "schema", schemars(range(max = 4_194_304)))]
    pub max_bytes: Option<u32>,
}

/// A part of a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "BlobContent"))]
pub struct Fetched {
    /// The whole handle of the tool result.
    pub handle: String,
    /// The text. With `grep`, each line begins with its number. For an image or a
    /// document, its base64.
    pub text: String,
    /// The media type of an image or a document. Null for a tool result.
    pub media_type: Option<String>,
    /// The number of lines of the tool result, or of the output of `jq`.
    pub total_lines: usize,
    /// The first line that was read.
    pub first_line: usize,
    /// The last line that was read.
    pub last_line: usize,
    /// The number of matching lines. Null without `grep`.
    pub matches: Option<usize>,
    /// The value of `lines` that returns the next part. Null if `max_bytes` did
    /// not end this part.
    pub next_lines: Option<String>,
    /// Whether the last line is cut because it alone is longer than `max_bytes`.
    pub line_cut: bool,
}

impl Fetched {
    /// Returns a note about the rest of the result, or `None` if the part is
    /// all of it.
    pub fn note(&self) -> Option<String> {
        let mut notes = Vec::new();
        if self.line_cut {
            notes.push(format!(
                "line {} is longer than max_bytes and is cut",
                self.last_line
            ));
        }
        if let Some(next) = &self.next_lines {
            notes.push(format!(
                "this is up to line {} of {}; continue with lines {next}",
                self.last_line, self.total_lines
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// Returns a part of the tool result that `handle` names.
pub(crate) fn fetch(
    store: &dyn Ledger,
    policy: Policy,
    handle: &str,
    request: &FetchRequest,
) -> Result<Fetched, Error> {
    let prefix = HandlePrefix::parse(handle).ok_or_else(|| {
        Error::input(format!(
            "handle: `{}` is not a handle; use `sha256:` and at least 8 digits, as in the marker \
             of the cut",
            handle.chars().take(80).collect::<String>()
        ))
        .at("handle")
    })?;
    let found = store.tool_result(&prefix)?;
    if found.media_type.is_some() {
        // Base64 has no lines, and a part of it is of no use.
        let fields = [&request.lines, &request.grep, &request.jq];
        if let Some(at) = fields.iter().position(|field| field.is_some()) {
            let field = ["lines", "grep", "jq"][at];
            return Err(Error::input(format!(
                "{field}: the handle is that of an image or a document, which is returned whole"
            ))
            .at(field));
        }
        return Ok(Fetched {
            handle: found.handle.to_string(),
            text: found.text,
            media_type: found.media_type,
            total_lines: 1,
            first_line: 1,
            last_line: 1,
            matches: None,
            next_lines: None,
            line_cut: false,
        });
    }
    // The result is sent to a model, like a request, so it is masked. JSON is
    // masked by value, because masking it as text could break its structure.
    let value = match request.jq {
        Some(_) => serde_json::from_str::<Value>(&found.text).ok(),
        None => None,
    };
    let text = match value {
        Some(value) => guarded_json(&value, policy).as_str().to_owned(),
        None => guard::visible(found.text.trim_end(), policy).into_owned(),
    };
    let selection = Selection {
        jq: request.jq.as_deref(),
        lines: request.lines.as_deref(),
        grep: request.grep.as_deref(),
        max_bytes: match request.max_bytes {
            Some(0) => None,
            Some(most) => Some(most as usize),
            None => Some(USUAL_BYTES),
        },
    };
    let part = part(&text, &selection).map_err(|PartError { field, message }| {
        Error::input(format!("{field}: {message}")).at(field)
    })?;
    let to = request.lines.as_deref().and_then(last_of);
    let next_lines = part.next.map(|next| match to {
        Some(to) => format!("{next}-{}", to.min(part.lines)),
        None => format!("{next}-"),
    });
    Ok(Fetched {
        handle: found.handle.to_string(),
        // Strings of JSON that were apart may be a secret together.
        text: guard::visible(&part.text, policy).into_owned(),
        media_type: None,
        total_lines: part.lines,
        first_line: part.shown.0,
        last_line: part.shown.1,
        matches: part.matches,
        next_lines,
        line_cut: part.is_line_cut,
    })
}

/// Returns the end of a range of lines that has one.
fn last_of(range: &str) -> Option<usize> {
    range.split_once('-')?.1.trim().parse().ok()
}
