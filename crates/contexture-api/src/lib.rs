//! The operations of Contexture's API: what each reads, does and answers.
//!
//! ```
//! let document = contexture_api::openapi();
//! assert!(document["paths"]["/v1/assemble"]["post"].is_object());
//! ```
//!
//! Every [`Operation`] is declared once. The declaration is its work and its entry in
//! the OpenAPI document. The work blocks, for one [`Tenant`]: nothing here opens a
//! socket, waits for a place, or knows who may call.
//!
//! A call is read in steps, so that a server can do something in between:
//!
//! ```
//! use std::sync::Arc;
//!
//! use contexture::{Engine, Root};
//! use contexture_api::{Implementation, Tenant, api};
//! use contexture_sqlite::SqliteStore;
//! use serde_json::Map;
//!
//! # let dir = tempfile::tempdir()?;
//! let store = Arc::new(SqliteStore::open(dir.path().join("contexture.db"))?);
//! let tenant = Tenant {
//!     name: "".into(),
//!     root: Root::open(dir.path())?,
//!     engine: Engine::builder().store(store).build()?,
//!     stored: None,
//!     now: None,
//!     observer: Arc::new(()),
//!     reached_quotas: Default::default(),
//! };
//! let api = api();
//! let schemas = api.schemas();
//! let create = api.operations.iter().find(|it| it.id == "create_session");
//! let Some(Implementation::Tenant(work)) = create.map(|it| &it.implementation) else {
//!     panic!("sessions can be created");
//! };
//! let answer = work
//!     .read(Map::new(), "")
//!     .and_then(|call| call.with_body(&schemas, Some(br#"{"label": "support"}"#)))
//!     .and_then(|call| call.run(&tenant));
//! assert!(answer.is_ok_and(|json| json.starts_with(b"{")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Errors are [`Problem`]s. An operation whose body or answer is a stream has its
//! declaration here, and its bytes in `contexture-server`. Tools of `contexture-mcp`
//! call the functions of the operations' modules.

pub mod admin;
pub mod archives;
pub mod assemble;
pub mod blobs;
pub mod continuations;
mod deployment;
mod events;
mod files;
pub mod fit;
mod interface;
pub mod json;
pub mod memory;
mod openapi;
mod operation;
mod page;
mod pins;
mod problem;
mod quota;
mod recipes;
mod refit;
mod schema;
pub mod sessions;
mod snapshots;
mod stored_files;
pub mod tasks;
mod tenant;
mod trees;
pub mod turns;
mod upkeep;
mod work;
pub mod working_set;

use std::sync::OnceLock;

pub use deployment::{Deployment, Reloaded, UnchangedTenant};
pub use operation::{Api, Implementation, Nothing, Operation, read_path, read_query, to_bytes};
pub use problem::{ErrorBody, ErrorResponse, Problem};
pub use quota::{ReachedQuota, ReachedQuotas, StorageKind};
pub use schema::Schemas;
use serde_json::Value;
pub use stored_files::StoredFiles;
pub use tenant::{Observer, Tenant};
pub use work::{Call, ReadyCall, Work};

/// Returns every operation.
pub fn api() -> Api {
    let mut api = Api::new();
    let all = &mut api;
    sessions::add(all);
    assemble::add(all);
    blobs::add(all);
    fit::add(all);
    memory::add(all);
    tasks::add(all);
    trees::add(all);
    continuations::add(all);
    working_set::add(all);
    files::add(all);
    snapshots::add(all);
    refit::add(all);
    recipes::add(all);
    upkeep::add(all);
    archives::add(all);
    admin::add(all);
    api
}

/// Returns the OpenAPI document.
pub fn openapi() -> Value {
    let api = api();
    api.document(&api.schemas())
}

/// Returns the example calls in an order in which they succeed: the id of the
/// operation, the method, the path with its query, and the body.
#[doc(hidden)]
pub fn examples() -> Vec<(String, String, String, Option<Value>)> {
    openapi::examples(&api())
}

/// Reads a body as the operation of that id does, up to its schema. For fuzzing.
#[doc(hidden)]
pub fn read_body(operation: &str, body: &[u8]) -> Result<Value, String> {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| api().schemas());
    json::read(schemas, operation, body, json::MOST_VALUES).map_err(|problem| problem.message)
}
