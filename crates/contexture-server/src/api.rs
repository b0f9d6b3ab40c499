//! The operations of the HTTP API, one module per subject.
//!
//! Each module declares its operations in `add` with their texts, example and
//! implementation. Body types live next to the operations that read them.

mod admin;
mod archives;
pub(crate) mod assemble;
pub(crate) mod blobs;
mod continuations;
mod files;
pub(crate) mod fit;
pub(crate) mod memory;
mod page;
mod pins;
mod recipes;
mod refit;
pub(crate) mod sessions;
mod snapshots;
pub(crate) mod tasks;
mod trees;
mod turns;
mod upkeep;
pub(crate) mod working_set;

use crate::operation::Api;

/// Adds every operation.
pub(crate) fn add(api: &mut Api) {
    sessions::add(api);
    assemble::add(api);
    blobs::add(api);
    fit::add(api);
    memory::add(api);
    tasks::add(api);
    trees::add(api);
    continuations::add(api);
    working_set::add(api);
    files::add(api);
    snapshots::add(api);
    refit::add(api);
    recipes::add(api);
    upkeep::add(api);
    archives::add(api);
    admin::add(api);
}
