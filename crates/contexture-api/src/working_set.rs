//! Operations on the working set: the files that requests are assembled from.
//!
//! The working set is a YAML manifest in the tenant's root. Changes are made on
//! behalf of a model: they need a reason, and cannot pin files.

use contexture::store::NewTurn;
use contexture::working_set::actions::{self, Action, Actor, Target};
use contexture::working_set::{Hints, Manifest, WorkingSet, expand, find_manifest, observe};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// The query of a call that reads the working set.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ListQuery {
    /// The path of the manifest, relative to the root. Default:
    /// `working-set.yml`, otherwise `.agent/working-set.yml`.
    manifest: Option<String>,
}

/// The query of a call that changes the working set.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkingSetQuery {
    /// The path of the manifest, relative to the root. Default:
    /// `working-set.yml`, otherwise `.agent/working-set.yml`.
    pub manifest: Option<String>,
    /// The session whose event log records the change. Default: `default`.
    pub session: Option<String>,
}

/// A working set with warnings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkingSetListing")]
pub struct WorkingSetListing {
    /// The working set.
    #[serde(flatten)]
    pub working_set: WorkingSet,
    /// Warnings that the caller should read.
    pub warnings: Vec<String>,
}

/// Changes to the working set. All are applied, or none.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "WorkingSetActions")]
#[serde(deny_unknown_fields)]
pub struct Actions {
    /// The changes in order.
    #[schemars(length(min = 1))]
    pub actions: Vec<Action>,
}

/// Changes that were applied to the working set.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkingSetChanged")]
pub struct WorkingSetChanged {
    /// The path of the changed manifest, relative to the root.
    pub manifest: String,
    /// The changes that were applied.
    pub changes: Vec<Action>,
    /// Warnings that the caller should read.
    pub warnings: Vec<String>,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/working-set", "get_working_set")
            .describe(
                "Get the working set",
                "Returns the entries of the manifest and the files that match them.",
            )
            .refuses(&[404, 422])
            .example("/v1/working-set", None),
        |tenant: &Tenant, _: Nothing, query: ListQuery, _: Nothing| list(tenant, query.manifest),
    );
    api.add(
        Operation::post("/v1/working-set/actions", "update_working_set")
            .describe(
                "Update the working set",
                "Adds and removes files and changes priorities, on behalf of a model. Every \
                 change needs a reason. Comments and layout of the manifest are preserved. A \
                 model cannot pin files or add files outside the root. All changes are applied, \
                 or none.",
            )
            .refuses(&[404])
            .example(
                "/v1/working-set/actions",
                json!({"actions": [{
                    "action": "add_to_working_set",
                    "path": "src/link.rs",
                    "priority": 0.7,
                    "why": "the symbol should be linked here",
                }]}),
            ),
        |tenant: &Tenant, _: Nothing, query: WorkingSetQuery, body: Actions| {
            change(tenant, &query, body.actions)
        },
    );
    api.add(
        Operation::post("/v1/working-set/observe", "observe_turn")
            .describe(
                "Update the working set from a turn",
                "Adds tool outputs, raises the priority of files that the turn mentions, and \
                 lowers the priority of files that were not used for long.",
            )
            .refuses(&[404])
            .example(
                "/v1/working-set/observe",
                json!({"messages": [
                    {"role": "user", "content": "Look at src/link.rs."},
                    {"role": "assistant", "content": "It never links foo."},
                ]}),
            ),
        observe_turn,
    );
}

/// Returns the path of the manifest that a call names, otherwise that of the
/// tenant's root.
fn manifest_of(tenant: &Tenant, named: Option<String>) -> Result<String, Problem> {
    Ok(match named {
        Some(path) => path,
        None => find_manifest(&tenant.root)?,
    })
}

fn target<'a>(tenant: &'a Tenant, query: &'a WorkingSetQuery, manifest: &'a str) -> Target<'a> {
    Target {
        root: &tenant.root,
        manifest,
        session: query.session.as_deref(),
        quota: tenant.engine.config().limits.quota(),
        now: tenant.now(),
    }
}

/// Lists the working set.
pub fn list(tenant: &Tenant, manifest: Option<String>) -> Result<WorkingSetListing, Problem> {
    let root = &tenant.root;
    let manifest = Manifest::read(root, &manifest_of(tenant, manifest)?)?;
    let hints = Hints::read(root, manifest.dir())?;
    let mut warnings = manifest.warnings.clone();
    let candidates = expand(root, &manifest, &mut warnings)?;
    let mut working_set = WorkingSet::of(root, &manifest, &hints, &candidates);
    let (engine, config) = (&tenant.engine, tenant.engine.config());
    let counts = engine.counts(&engine.models().resolve(&config.model))?;
    working_set.count(root, &candidates, &counts, config.limits.max_file_bytes);
    Ok(WorkingSetListing {
        working_set,
        warnings,
    })
}

/// Changes the manifest, in the store if it is one of the stored files.
fn changing<T>(
    tenant: &Tenant,
    manifest: &str,
    change: &dyn Fn() -> Result<T, Problem>,
) -> Result<T, Problem> {
    match &tenant.stored {
        Some(stored) => stored.changing(manifest, tenant.now(), change),
        None => change(),
    }
}

/// Applies changes on behalf of a model.
pub fn change(
    tenant: &Tenant,
    query: &WorkingSetQuery,
    changes: Vec<Action>,
) -> Result<WorkingSetChanged, Problem> {
    let manifest = manifest_of(tenant, query.manifest.clone())?;
    let warnings = changing(tenant, &manifest, &|| {
        let target = target(tenant, query, &manifest);
        Ok(actions::apply(target, &changes, Actor::Model)?)
    })?;
    Ok(WorkingSetChanged {
        manifest,
        changes,
        warnings,
    })
}

fn observe_turn(
    tenant: &Tenant,
    _: Nothing,
    query: WorkingSetQuery,
    turn: NewTurn,
) -> Result<WorkingSetChanged, Problem> {
    let manifest = manifest_of(tenant, query.manifest.clone())?;
    let habits = tenant.engine.config().observe;
    let (changes, warnings) = changing(tenant, &manifest, &|| {
        let target = target(tenant, &query, &manifest);
        Ok(observe::observe(target, &turn, habits)?)
    })?;
    Ok(WorkingSetChanged {
        manifest,
        changes,
        warnings,
    })
}
