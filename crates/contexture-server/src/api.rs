//! The operations, by what they are about.

pub(crate) mod assemble;
pub(crate) mod memory;
mod page;
mod recipes;
pub(crate) mod sessions;
mod snapshots;
pub(crate) mod tasks;
mod trees;
pub(crate) mod working_set;

use crate::operation::Api;

/// Adds every operation.
pub(crate) fn add(api: &mut Api) {
    sessions::add(api);
    assemble::add(api);
    memory::add(api);
    tasks::add(api);
    trees::add(api);
    working_set::add(api);
    snapshots::add(api);
    recipes::add(api);
}
