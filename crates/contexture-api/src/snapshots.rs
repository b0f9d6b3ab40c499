//! Operations on snapshots: assembled requests exactly as they were.

use contexture::Format;
use contexture::snapshot::{self, Comparison, Saved};
use contexture::store::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operation::{Api, Nothing, Operation};
use crate::page::Limit;
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A snapshot in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ByHash {
    /// The hash of the snapshot, or its first digits.
    hash: String,
}

/// The query of the list of snapshots.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ListQuery {
    /// The label of the session. Default: every session.
    session: Option<String>,
    /// The hash of a snapshot: `next` of the page before. Snapshots before it are
    /// returned. Default: none; the latest snapshots are returned.
    before: Option<String>,
    /// The maximum number of snapshots, from 1 to 1000. Default: 100.
    limit: Limit,
}

/// The snapshots, the latest stored first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SnapshotList")]
struct Latest {
    /// The snapshots, without their content.
    snapshots: Vec<Snapshot>,
    /// The value to send as `before` for the snapshots before these. Null if
    /// there are none.
    next: Option<String>,
}

/// The query of a snapshot.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct InForm {
    /// The format of the request. `json` lists its content. Default: `text`.
    format: Format,
}

impl Default for InForm {
    fn default() -> Self {
        Self {
            format: Format::Text,
        }
    }
}

/// An assembled request that was saved.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SnapshotResponse")]
struct Shown {
    /// The description of the snapshot.
    snapshot: Snapshot,
    /// The format of `request`.
    format: Format,
    /// The request. For `text`, the exact bytes that were rendered; for `json`,
    /// a list of its content; otherwise the body to send to the provider.
    request: Value,
}

/// The query of a comparison.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pair {
    /// The earlier snapshot: its hash, or the first digits.
    a: String,
    /// The later snapshot: its hash, or the first digits.
    b: String,
}

/// A snapshot that was verified.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SnapshotCheck")]
struct Checked {
    /// The hash of the snapshot.
    hash: String,
    /// The number of blocks in the request.
    blocks: usize,
}

pub(crate) fn add(api: &mut Api) {
    // The example of `assemble` has this hash. It changes when the content of
    // that example changes.
    api.add(
        Operation::get("/v1/snapshots", "list_snapshots")
            .describe(
                "List snapshots",
                "Returns the assembled requests, the latest stored first, without their content, one \
                 page at a time.",
            )
            .refuses(&[404, 422])
            .example("/v1/snapshots?session=support&limit=1", None),
        |tenant: &Tenant, _: Nothing, wanted: ListQuery, _: Nothing| -> Result<Latest, Problem> {
            list(tenant, &wanted)
        },
    );
    api.add(
        Operation::get("/v1/snapshots/diff", "compare_snapshots")
            .describe(
                "Compare two snapshots",
                "Returns how much of the later request a provider can serve from its cache, where \
                 the requests differ first, and which blocks differ.",
            )
            .refuses(&[404, 422])
            .example("/v1/snapshots/diff?a=a145e33a&b=a145e33a", None),
        compare,
    );
    api.add(
        Operation::get("/v1/snapshots/{hash}", "get_snapshot")
            .describe(
                "Get a snapshot",
                "Returns an assembled request exactly as it was, in the given format.",
            )
            .refuses(&[422])
            .example("/v1/snapshots/a145e33a?format=anthropic", None),
        show,
    );
    api.add(
        Operation::get("/v1/snapshots/{hash}/check", "check_snapshot")
            .describe(
                "Verify a snapshot",
                "Verifies that the stored request is complete and renders to the same bytes.",
            )
            .refuses(&[422])
            .example("/v1/snapshots/a145e33a/check", None),
        |tenant: &Tenant, by: ByHash, _: Nothing, _: Nothing| -> Result<Checked, Problem> {
            let saved = load(tenant, &by.hash)?.1;
            let blocks = saved.check(tenant.store()?)?;
            let hash = saved.hash.to_string();
            Ok(Checked { hash, blocks })
        },
    );
}

fn list(tenant: &Tenant, wanted: &ListQuery) -> Result<Latest, Problem> {
    let store = tenant.store()?;
    let session = wanted.session.as_deref();
    let limit = wanted.limit.get();
    let mut snapshots = match &wanted.before {
        None => store.snapshots(session, limit + 1)?,
        Some(before) => {
            let before = snapshot::find(store, before)?.hash;
            store.snapshots_before(session, before, limit + 1)?
        }
    };
    let more = snapshots.len() > limit;
    snapshots.truncate(limit);
    let last = snapshots.last().filter(|_| more);
    Ok(Latest {
        next: last.map(|snapshot| snapshot.hash.to_string()),
        snapshots,
    })
}

fn load(tenant: &Tenant, prefix: &str) -> Result<(Snapshot, Saved), Problem> {
    let store = tenant.store()?;
    let snapshot = snapshot::find(store, prefix)?;
    let saved = Saved::load(store, &snapshot)?;
    Ok((snapshot, saved))
}

fn show(tenant: &Tenant, by: ByHash, wanted: InForm, _: Nothing) -> Result<Shown, Problem> {
    let (snapshot, saved) = load(tenant, &by.hash)?;
    let request = match wanted.format {
        Format::Json => saved.to_json(),
        Format::Text => Value::String(saved.render(tenant.store()?, Format::Text)?),
        format => {
            let rendered = saved.render(tenant.store()?, format)?;
            serde_json::from_str(&rendered)
                .map_err(|error| Problem::failure(format!("rendered JSON is invalid: {error}")))?
        }
    };
    Ok(Shown {
        snapshot,
        format: wanted.format,
        request,
    })
}

fn compare(tenant: &Tenant, _: Nothing, pair: Pair, _: Nothing) -> Result<Comparison, Problem> {
    Ok(tenant.engine.compare(&pair.a, &pair.b)?)
}
