//! Operations that measure and delete what a tenant has stored.

use contexture::store::{Deleted, Usage};
use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::sessions::Named;
use crate::tenant::Tenant;

/// The path of a tree.
#[derive(Debug, Deserialize, JsonSchema)]
struct InTree {
    /// The id of the tree.
    tree: String,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/usage", "get_usage")
            .says(
                "Get the usage of the tenant",
                "Returns how much the tenant of the key has stored: bytes on disk, sessions, turns, \
                 snapshots, memory records, trees, nodes and tasks.",
            )
            .example("/v1/usage", None),
        |tenant: &Tenant, _: Nothing, _: Nothing, _: Nothing| -> Result<Usage, Problem> {
            Ok(tenant.store()?.usage()?)
        },
    );
    api.add(
        Operation::new(Method::DELETE, "/v1/sessions/{label}", "delete_session")
            .says(
                "Delete a session",
                "Deletes a session with its turns and snapshots. Turns that a fork shares are \
                 kept, and so are memory records of the session. The deleted text is overwritten \
                 in the database files; if `pending` is true, that happens later.",
            )
            .example("/v1/sessions/another-try", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| -> Result<Deleted, Problem> {
            Ok(tenant.store()?.delete_session(&path.label)?)
        },
    );
    api.add(
        Operation::new(Method::DELETE, "/v1/trees/{tree}", "delete_tree")
            .says(
                "Delete a tree",
                "Deletes a tree with its nodes, edges, agents and paths. The deleted text is \
                 overwritten in the database files; if `pending` is true, that happens later.",
            )
            .example("/v1/trees/story", None),
        |tenant: &Tenant, path: InTree, _: Nothing, _: Nothing| -> Result<Deleted, Problem> {
            Ok(tenant.store()?.delete_tree(&path.tree)?)
        },
    );
}
