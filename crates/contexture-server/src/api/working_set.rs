//! The working set: which files a request is made from.

use contexture::store::NewTurn;
use contexture::working_set::actions::{self, Action, Actor, Target};
use contexture::working_set::{Hints, Manifest, WorkingSet, expand, find_manifest, observe};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// Which working set is meant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Which {
    /// The manifest, relative to the root. Default: `working-set.yml`, else
    /// `.agent/working-set.yml`.
    pub(crate) manifest: Option<String>,
    /// The session whose log is written.
    pub(crate) session: Option<String>,
}

/// A working set, and what a person should look at.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkingSetListing")]
pub(crate) struct Listed {
    /// The working set.
    #[serde(flatten)]
    pub(crate) working_set: WorkingSet,
    /// What a person should look at.
    pub(crate) warnings: Vec<String>,
}

/// Changes that a model asks for: all are made, or none.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "WorkingSetActions")]
#[serde(deny_unknown_fields)]
pub(crate) struct Actions {
    /// The changes, in order.
    #[schemars(length(min = 1))]
    pub(crate) actions: Vec<Action>,
}

/// What was changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkingSetChanged")]
pub(crate) struct Done {
    /// The manifest that was changed, relative to the root.
    pub(crate) manifest: String,
    /// What was changed.
    pub(crate) changes: Vec<Action>,
    /// What a person should look at.
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/working-set", "get_working_set")
            .says(
                "Read the working set",
                "The manifest's entries and the files they stand for.",
            )
            .refuses(&[404, 422])
            .example("/v1/working-set", None),
        |tenant: &Tenant, _: Nothing, which: Which, _: Nothing| list(tenant, &which),
    );
    api.add(
        Operation::post("/v1/working-set/actions", "change_working_set")
            .says(
                "Change the working set, as a model asks",
                "Adds, removes and weighs files; every change needs a reason. Comments and layout \
                 of the manifest stay. A model may not pin files, nor name any outside the root. \
                 All changes are made, or none.",
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
        |tenant: &Tenant, _: Nothing, which: Which, body: Actions| {
            change(tenant, &which, body.actions)
        },
    );
    api.add(
        Operation::post("/v1/working-set/observe", "observe_turn")
            .says(
                "Update the working set from a turn",
                "Adds tool outputs, raises what was mentioned and lowers what was not touched for \
                 long.",
            )
            .refuses(&[404])
            .example(
                "/v1/working-set/observe",
                json!({"messages": [
                    {"role": "user", "content": "Look at src/link.rs."},
                    {"role": "assistant", "content": "It never links foo."},
                ]}),
            ),
        observed,
    );
}

fn manifest_of(tenant: &Tenant, which: &Which) -> Result<String, Problem> {
    Ok(match &which.manifest {
        Some(path) => path.clone(),
        None => find_manifest(&tenant.root)?,
    })
}

fn target<'a>(tenant: &'a Tenant, which: &'a Which, manifest: &'a str) -> Target<'a> {
    Target {
        root: &tenant.root,
        manifest,
        session: which.session.as_deref(),
        quota: tenant.engine.config().limits.quota(),
        now: tenant.now(),
    }
}

/// Lists the working set.
pub(crate) fn list(tenant: &Tenant, which: &Which) -> Result<Listed, Problem> {
    let root = &tenant.root;
    let manifest = Manifest::read(root, &manifest_of(tenant, which)?)?;
    let hints = Hints::read(root, manifest.dir())?;
    let mut warnings = manifest.warnings.clone();
    let candidates = expand(root, &manifest, &mut warnings)?;
    let working_set = WorkingSet::of(root, &manifest, &hints, &candidates);
    Ok(Listed {
        working_set,
        warnings,
    })
}

/// Makes changes that a model asks for.
pub(crate) fn change(
    tenant: &Tenant,
    which: &Which,
    changes: Vec<Action>,
) -> Result<Done, Problem> {
    let manifest = manifest_of(tenant, which)?;
    let target = target(tenant, which, &manifest);
    let warnings = actions::apply(target, &changes, Actor::Model)?;
    Ok(Done {
        manifest,
        changes,
        warnings,
    })
}

fn observed(tenant: &Tenant, _: Nothing, which: Which, turn: NewTurn) -> Result<Done, Problem> {
    let manifest = manifest_of(tenant, &which)?;
    let target = target(tenant, &which, &manifest);
    let habits = tenant.engine.config().observe;
    let (changes, warnings) = observe::observe(target, &turn, habits)?;
    Ok(Done {
        manifest,
        changes,
        warnings,
    })
}
