//! The report of a request, stored with its snapshot.
//!
//! A snapshot holds what the model saw. Its stored report holds the rest: the
//! candidates that were left out with their reasons, the budget of each layer,
//! and the [`Request`] that was assembled, so that it can be assembled again
//! with another budget or for another model.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use contexture_core::{
    Block, Code, ContentHash, Excluded, GuardLine, Included, Layout, Part, Section, TokenizerInfo,
    Tokens,
};
use contexture_store::{Snapshot, Snapshots};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::advice::Warning;
use crate::assembled::Assembled;
use crate::error::Error;
use crate::report::HintVerdict;
use crate::request::Request;
use crate::snapshot::{BlockKey, Change, Saved};
use contexture_project::masked_json;

/// The most rows of candidates that were left out that are stored.
const MOST_EXCLUDED: usize = 2_000;

/// The most bytes of a request that are stored.
const MOST_REQUEST_BYTES: usize = 64 << 10;

/// The maximum number of earlier requests that are read to find when a block
/// was first sent.
const MOST_EARLIER: usize = 50;

/// The stored form of a report, for writing.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    recipe: &'a str,
    tokenizer: &'a TokenizerInfo,
    budget: &'a contexture_core::BudgetReport,
    // Only the rows with more information than the snapshot's list of blocks.
    included: Vec<&'a Included>,
    excluded: &'a [Excluded],
    excluded_omitted: usize,
    warnings: Vec<&'a Warning>,
    guard: &'a [GuardLine],
    #[serde(skip_serializing_if = "<[HintVerdict]>::is_empty")]
    hints: &'a [HintVerdict],
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: &'a Option<crate::cache::CacheReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Value>,
}

/// Returns the stored form of a request's report, with one more warning.
pub(crate) fn write(
    assembled: &Assembled,
    warning: Option<&Warning>,
    request: Option<&Request>,
) -> Vec<u8> {
    let report = &assembled.report;
    let says_more = |row: &&Included| {
        row.code != Code::FITS
            || row.truncated
            || row.score.is_some()
            || row.form.is_some()
            || row.base_priority.is_some()
    };
    let shown = report.excluded.len().min(MOST_EXCLUDED);
    let written = Written {
        version: 1,
        recipe: &report.recipe,
        tokenizer: &report.tokenizer,
        budget: &report.budget,
        included: report.included.iter().filter(says_more).collect(),
        excluded: &report.excluded[..shown],
        excluded_omitted: report.excluded.len() - shown,
        warnings: report.warnings.iter().chain(warning).collect(),
        guard: &report.guard,
        hints: &report.hints,
        cache: &report.cache,
        request: request.and_then(stored_request),
    };
    // This fails only for maps whose keys are not text.
    serde_json::to_vec(&written).unwrap_or_default()
}

/// Returns the stored form of the request, with its secrets masked. A request
/// with inline content is not stored: its content is in the snapshot.
fn stored_request(request: &Request) -> Option<Value> {
    if request.has_inline() || !request.tools.is_empty() {
        return None;
    }
    let text = masked_json(json!(Request {
        now: None,
        ..request.clone()
    }));
    (text.len() <= MOST_REQUEST_BYTES)
        .then(|| serde_json::from_str(&text).ok())
        .flatten()
}

/// The stored form of a report, for reading. Rows stay JSON: programs get them
/// as they were written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Read {
    recipe: Option<String>,
    tokenizer: Option<Value>,
    budget: Option<Value>,
    included: Vec<Map<String, Value>>,
    excluded: Vec<Map<String, Value>>,
    excluded_omitted: u64,
    warnings: Vec<Map<String, Value>>,
    guard: Vec<Map<String, Value>>,
    hints: Vec<Map<String, Value>>,
    request: Option<Value>,
}

/// The report of a saved request: every block with its content and the reason,
/// and every candidate that was left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotReport {
    /// The description of the snapshot.
    pub snapshot: Snapshot,
    /// The name of the recipe. Null if no report was stored with the request.
    pub recipe: Option<String>,
    /// The tokenizer that counted the tokens, as in the report of a request.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Map<String, Value>>"))]
    pub tokenizer: Option<Value>,
    /// The token budget and its use by layer, as in the report of a request.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Map<String, Value>>"))]
    pub budget: Option<Value>,
    /// The most tokens of the response. Null if there was no limit.
    pub max_output: Option<u64>,
    /// The blocks of the request, in the order they were sent.
    pub blocks: Vec<ReportedBlock>,
    /// The candidates that were left out, as in the report of a request.
    pub excluded: Vec<Map<String, Value>>,
    /// The number of left-out candidates that are not listed.
    pub excluded_omitted: u64,
    /// The warnings of the request.
    pub warnings: Vec<Map<String, Value>>,
    /// The changes that the guard made to content.
    pub guard: Vec<Map<String, Value>>,
    /// The effect of each priority hint.
    pub hints: Vec<Map<String, Value>>,
    /// Whether the report was stored with the request. If false, candidates
    /// that were left out are unknown.
    pub has_report: bool,
    /// Whether the request can be assembled again from its sources. If false, a
    /// refit can only shorten the content that was sent.
    pub has_inputs: bool,
}

/// A block of a saved request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportedBlock {
    /// The part of the request: `system`, `history` or `current`.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = ["system", "history", "current"]))
    )]
    pub section: &'static str,
    /// The layer of the block.
    pub layer: String,
    /// The id of the block.
    pub id: String,
    /// The role that the content was sent as.
    pub role: contexture_core::Role,
    /// The trust level of the content.
    pub trust: contexture_core::Trust,
    /// The path, if the block is a file.
    pub path: Option<String>,
    /// The kind of block: `text`, `tool`, `tool_call`, `tool_result`,
    /// `thinking`, `media` or `provider`.
    pub kind: &'static str,
    /// The name of the tool, if the block belongs to one.
    pub tool: Option<String>,
    /// The tokens of the block, including tags and markers.
    pub tokens: Tokens,
    /// The size of the content in bytes.
    pub bytes: u64,
    /// The content. Null if it was not requested.
    pub text: Option<String>,
    /// The row of the report, if it says more than that the block fits whole.
    pub row: Option<Map<String, Value>>,
    /// The first of the earlier requests in a row that contain the block.
    pub since: Option<Since>,
}

/// The first request that contains a block.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FirstOccurrence"))]
pub struct Since {
    /// The hash of the request.
    pub snapshot: String,
    /// The time when the request was assembled.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub created_at: Timestamp,
    /// The number of requests in a row that contain the block, including this
    /// one.
    pub requests: usize,
    /// Whether earlier requests, which were not read, may contain it, too.
    pub at_least: bool,
}

fn read(store: &dyn Snapshots, hash: ContentHash) -> Result<Option<Read>, Error> {
    // A report that a later version wrote must not make the request unreadable.
    let bytes = store.snapshot_report(hash)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Returns the request that a snapshot was assembled from, if it is stored.
pub fn request(store: &dyn Snapshots, hash: ContentHash) -> Result<Option<Request>, Error> {
    let request = read(store, hash)?.and_then(|read| read.request);
    Ok(request.and_then(|request| serde_json::from_value(request).ok()))
}

/// Returns the size of the context window that a request was assembled for, if
/// it is stored.
pub fn window(store: &dyn Snapshots, hash: ContentHash) -> Result<Option<Tokens>, Error> {
    let budget = read(store, hash)?.and_then(|read| read.budget);
    Ok(budget.and_then(|budget| budget.get("max")?.as_u64()))
}

/// Returns the report of a saved request. Without `content`, blocks have no
/// text.
pub fn load(
    store: &dyn Snapshots,
    snapshot: &Snapshot,
    content: bool,
) -> Result<SnapshotReport, Error> {
    let saved = Saved::load(store, snapshot)?;
    let layout = content.then(|| saved.layout(store)).transpose()?;
    let stored = read(store, snapshot.hash)?;
    let has_report = stored.is_some();
    let stored = stored.unwrap_or_default();
    let mut rows: BTreeMap<(String, String), Map<String, Value>> = BTreeMap::new();
    for row in stored.included {
        let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
        if let (Some(layer), Some(id)) = (text("layer"), text("id")) {
            rows.insert((layer, id), row);
        }
    }
    let since = since(store, snapshot, &saved)?;
    let texts = layout.as_ref().map(|layout| {
        let texts = layout.blocks().map(|block| block.body().to_owned());
        texts.collect::<Vec<String>>()
    });
    let mut blocks = saved.reported_blocks();
    for (at, block) in blocks.iter_mut().enumerate() {
        block.text = texts.as_ref().and_then(|texts| texts.get(at).cloned());
        // A candidate of several blocks has one row.
        block.row = rows.get(&(block.layer.clone(), block.id.clone())).cloned();
        block.since = since.get(at).cloned();
    }
    Ok(SnapshotReport {
        recipe: stored.recipe,
        tokenizer: stored.tokenizer,
        budget: stored.budget,
        max_output: saved.max_output(),
        blocks,
        excluded: stored.excluded,
        excluded_omitted: stored.excluded_omitted,
        warnings: stored.warnings,
        guard: stored.guard,
        hints: stored.hints,
        has_report,
        has_inputs: stored.request.is_some(),
        snapshot: snapshot.clone(),
    })
}

/// Returns the first request that contained each block, from the earlier
/// requests of the session.
fn since(store: &dyn Snapshots, snapshot: &Snapshot, saved: &Saved) -> Result<Vec<Since>, Error> {
    let first = Since {
        snapshot: snapshot.hash.to_string(),
        created_at: snapshot.created_at,
        requests: 1,
        at_least: false,
    };
    let keys = saved.block_keys();
    let mut since = vec![first; keys.len()];
    let mut open: Vec<usize> = (0..keys.len()).collect();
    let session = Some(snapshot.session.as_str());
    let earlier = store.snapshots_before(session, snapshot.hash, MOST_EARLIER)?;
    for earlier in &earlier {
        // A damaged request only ends the search.
        let Ok(there) = Saved::load(store, earlier) else {
            break;
        };
        let there: std::collections::BTreeSet<BlockKey> = there.block_keys().into_iter().collect();
        open.retain(|&at| there.contains(&keys[at]));
        for &at in &open {
            let since = &mut since[at];
            since.snapshot = earlier.hash.to_string();
            since.created_at = earlier.created_at;
            since.requests += 1;
        }
        if open.is_empty() {
            break;
        }
    }
    if earlier.len() == MOST_EARLIER {
        open.iter().for_each(|&at| since[at].at_least = true);
    }
    Ok(since)
}

/// Returns the blocks that differ between a saved request and another one.
///
/// Blocks are the same if they have the same layer, id and content; a block with
/// another id and the same content has moved, and is the same, too.
pub fn changes(store: &dyn Snapshots, saved: &Saved, other: &Layout) -> Result<Vec<Change>, Error> {
    let before = saved.layout(store)?;
    let key = |block: &Block| (block.layer.to_string(), block.id.to_string());
    let mut by_key: BTreeMap<(String, String), Vec<&Block>> = BTreeMap::new();
    for block in before.blocks() {
        by_key.entry(key(block)).or_default().push(block);
    }
    let mut unmatched = Vec::new();
    let mut changes = Vec::new();
    for block in other.blocks() {
        let same = by_key.get_mut(&key(block)).filter(|same| !same.is_empty());
        match same.map(|same| same.remove(0)) {
            Some(old) if old.body_hash() == block.body_hash() => {}
            Some(old) => changes.push(Change::between(Some(old), Some(block))),
            None => unmatched.push(block),
        }
    }
    let mut removed: Vec<&Block> = by_key.into_values().flatten().collect();
    for block in unmatched {
        let moved = removed
            .iter()
            .position(|old| old.body_hash() == block.body_hash());
        match moved {
            Some(at) => drop(removed.remove(at)),
            None => changes.push(Change::between(None, Some(block))),
        }
    }
    changes.extend(
        removed
            .into_iter()
            .map(|old| Change::between(Some(old), None)),
    );
    Ok(changes)
}

/// Returns the blocks of a saved request that was fitted again, with the ids,
/// the layers and the tokens that they have in the saved one.
///
/// Fitting changes only the conversation. Instructions and tools are those of
/// the saved request. A block of the conversation is the saved one with the same
/// content, or else with the same id; `is_whole` tells by the id that the block
/// was not cut, so that its content is the saved one.
pub fn aligned(saved: &Layout, fitted: &Layout, is_whole: &dyn Fn(&str) -> bool) -> Layout {
    let known = |section| move |block| (section, block);
    let history = saved.history.iter().map(known(Section::History));
    let current = saved.current.iter().map(known(Section::Current));
    let mut known: Vec<Option<(Section, &Block)>> = history.chain(current).map(Some).collect();
    let mut by_hash: BTreeMap<ContentHash, VecDeque<usize>> = BTreeMap::new();
    let mut by_id: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
    for (at, (_, block)) in known.iter().flatten().enumerate() {
        by_hash.entry(block.body_hash()).or_default().push_back(at);
        by_id.entry(&block.id).or_default().push_back(at);
    }
    let mut aligned = Layout {
        mark: saved.mark,
        system: saved.system.clone(),
        ..Layout::default()
    };
    let blocks = fitted.history.iter().chain(&fitted.current);
    // Blocks with the same content come first: an id may have moved.
    let mut same = |queue: Option<&mut VecDeque<usize>>| {
        let queue = queue?;
        let mut found = None;
        while found.is_none() {
            found = known[queue.pop_front()?].take();
        }
        found
    };
    let found: Vec<_> = blocks
        .map(|block| (block, same(by_hash.get_mut(&block.body_hash()))))
        .collect();
    for (block, by_content) in found {
        let by_id = || same(by_id.get_mut(&*block.id)).map(|found| (found, is_whole(&block.id)));
        let (section, block) = match by_content.map(|found| (found, true)).or_else(by_id) {
            Some(((section, old), true)) => (section, old.clone()),
            Some(((section, old), false)) => {
                let mut cut = block.clone();
                cut.layer = Arc::clone(&old.layer);
                (section, cut)
            }
            None => (Section::History, block.clone()),
        };
        match section {
            Section::Current => aligned.current.push(block),
            _ => aligned.history.push(block),
        }
    }
    aligned
}

/// Returns the blocks of a request, in the order they are sent.
pub fn blocks(layout: &Layout) -> Vec<ReportedBlock> {
    let sections = [
        ("system", &layout.system),
        ("history", &layout.history),
        ("current", &layout.current),
    ];
    let blocks = sections
        .into_iter()
        .flat_map(|(section, blocks)| blocks.iter().map(move |block| (section, block)));
    let reported = |(section, block): (&'static str, &Block)| {
        let (kind, tool) = match &block.part {
            Part::Text => ("text", None),
            Part::Tool { name } => ("tool", Some(name)),
            Part::ToolCall { name, .. } => ("tool_call", Some(name)),
            Part::ToolResult { name, .. } => ("tool_result", Some(name)),
            Part::Thinking { .. } => ("thinking", None),
            Part::Media(_) => ("media", None),
            Part::Provider(_) => ("provider", None),
        };
        ReportedBlock {
            section,
            layer: block.layer.to_string(),
            id: block.id.to_string(),
            role: block.role,
            trust: block.trust,
            path: block.path.as_ref().map(ToString::to_string),
            kind,
            tool: tool.map(ToString::to_string),
            tokens: block.tokens,
            bytes: block.body().len() as u64,
            text: Some(block.body().to_owned()),
            row: None,
            since: None,
        }
    };
    blocks.map(reported).collect()
}
