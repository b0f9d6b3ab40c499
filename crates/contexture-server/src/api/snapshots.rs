//! Requests that were assembled: what exactly did the model see?

use contexture::Format;
use contexture::snapshot::{self, Comparison, Saved};
use contexture::store::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::page::Limit;
use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// A request, by its hash.
#[derive(Debug, Deserialize, JsonSchema)]
struct ByHash {
    /// The hash, or its first digits.
    hash: String,
}

/// Which requests are wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    /// Those of one session.
    session: Option<String>,
    /// How many of the latest, at most.
    limit: Limit,
}

/// The latest requests, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SnapshotList")]
struct Latest {
    /// The requests, without their content.
    snapshots: Vec<Snapshot>,
}

/// The form in which a request is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct InForm {
    /// The form; `json` lists what it is made of.
    format: Format,
}

impl Default for InForm {
    fn default() -> Self {
        Self {
            format: Format::Text,
        }
    }
}

/// A request as it was.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SnapshotAnswer")]
struct Shown {
    /// What is known about it.
    snapshot: Snapshot,
    /// The form.
    format: Format,
    /// The request: byte for byte as it was for `text`, else the body of the
    /// call to the provider, or what it is made of.
    request: Value,
}

/// Which requests are compared.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Pair {
    /// The earlier one, by its hash or its first digits.
    a: String,
    /// The later one.
    b: String,
}

/// What a check found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SnapshotCheck")]
struct Checked {
    /// The hash of the request, which comes out with the same bytes.
    hash: String,
    /// How many blocks it has.
    blocks: usize,
}

pub(crate) fn add(api: &mut Api) {
    // The request that is shown for `assemble` has this hash: when what it holds
    // changes, so does the hash.
    api.add(
        Operation::get("/v1/snapshots", "list_snapshots")
            .says(
                "List the latest requests",
                "Newest first, without their content.",
            )
            .example("/v1/snapshots?session=support&limit=1", None),
        |tenant: &Tenant, _: Nothing, wanted: Wanted, _: Nothing| -> Result<Latest, Problem> {
            let session = wanted.session.as_deref();
            let snapshots = tenant.store()?.snapshots(session, wanted.limit.get())?;
            Ok(Latest { snapshots })
        },
    );
    api.add(
        Operation::get("/v1/snapshots/diff", "compare_snapshots")
            .says(
                "Compare two requests",
                "How much of the later one a provider could take from its cache, where they part, \
                 and what differs.",
            )
            .refuses(&[404, 422])
            .example("/v1/snapshots/diff?a=4254c3a4&b=4254c3a4", None),
        compare,
    );
    api.add(
        Operation::get("/v1/snapshots/{hash}", "get_snapshot")
            .says("Read a request as it was", "In the form that is asked for.")
            .refuses(&[422])
            .example("/v1/snapshots/4254c3a4?format=anthropic", None),
        show,
    );
    api.add(
        Operation::get("/v1/snapshots/{hash}/check", "check_snapshot")
            .says(
                "Check a request",
                "That it is there whole, and comes out with the same bytes.",
            )
            .refuses(&[422])
            .example("/v1/snapshots/4254c3a4/check", None),
        |tenant: &Tenant, by: ByHash, _: Nothing, _: Nothing| -> Result<Checked, Problem> {
            let saved = load(tenant, &by.hash)?.1;
            let blocks = saved.check(tenant.store()?)?;
            let hash = saved.hash.to_string();
            Ok(Checked { hash, blocks })
        },
    );
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
    let store = tenant.store()?;
    let (before, now) = (load(tenant, &pair.a)?.1, load(tenant, &pair.b)?.1);
    let model = tenant.engine.models().resolve(now.model());
    let counts = tenant.engine.counts(&model)?;
    let cache = now.compare(store, &before, counts.counter(), &now.layout(store)?)?;
    Ok(Comparison {
        changes: now.changes(store, &before)?,
        cache,
    })
}
