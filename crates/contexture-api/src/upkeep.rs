//! Operations that measure and delete what a tenant has stored.

use contexture::snapshot;
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

/// A snapshot in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ByHash {
    /// The hash of the snapshot, or its first digits.
    hash: String,
}

/// The turns to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Before {
    /// The first turn to keep: the first 4 or more digits of its id.
    before: String,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/usage", "get_usage")
            .describe(
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
            .describe(
                "Delete a session",
                "Deletes a session with its turns, its snapshots and its event log. Turns that a \
                 fork shares are kept, and so are memory records of the session. The deleted text is overwritten \
                 in the database files; if `pending` is true, that happens later.",
            )
            .example("/v1/sessions/another-try", None),
        |tenant: &Tenant, path: Named, _: Nothing, _: Nothing| -> Result<Deleted, Problem> {
            Ok(tenant.engine.delete_session(&tenant.root, &path.label)?)
        },
    );
    api.add(
        Operation::new(
            Method::DELETE,
            "/v1/sessions/{label}/turns",
            "delete_turns",
        )
        .describe(
            "Delete the turns before a turn",
            "Deletes the turns of a session before a turn, and all snapshots of the session. The \
             turn and those after it keep their ids and numbers. Memory records are kept, and so \
             are summaries after the turn. Fails with 409 if another session shares one of the \
             turns, and with 422 if the turn has results of tool calls that would be deleted.",
        )
        .refuses(&[409, 422])
        .example("/v1/sessions/harbour/turns?before=59a83a62", None),
        |tenant: &Tenant, path: Named, query: Before, _: Nothing| -> Result<Deleted, Problem> {
            let store = tenant.store()?;
            let session = store.session(&path.label)?;
            let turn = tenant.engine.find_turn(&session, &query.before)?;
            Ok(store.delete_turns_before(&session.label, turn)?)
        },
    );
    api.add(
        Operation::new(Method::DELETE, "/v1/snapshots/{hash}", "delete_snapshot")
            .describe(
                "Delete a snapshot",
                "Deletes an assembled request in all sessions that have it, with its report. \
                 Content that other snapshots use is kept.",
            )
            .refuses(&[422])
            .example("/v1/snapshots/a145e33a", None),
        |tenant: &Tenant, path: ByHash, _: Nothing, _: Nothing| -> Result<Deleted, Problem> {
            let store = tenant.store()?;
            let hash = snapshot::find(store, &path.hash)?.hash;
            Ok(store.delete_snapshot(hash)?)
        },
    );
    api.add(
        Operation::new(Method::DELETE, "/v1/trees/{tree}", "delete_tree")
            .describe(
                "Delete a tree",
                "Deletes a tree with its nodes, edges, agents and paths, and the snapshots of its \
                 requests. The deleted text is overwritten in the database files; if `pending` is \
                 true, that happens later. Snapshots of sessions that contain nodes are kept.",
            )
            .example("/v1/trees/story", None),
        |tenant: &Tenant, path: InTree, _: Nothing, _: Nothing| -> Result<Deleted, Problem> {
            Ok(tenant.store()?.delete_tree(&path.tree)?)
        },
    );
}
