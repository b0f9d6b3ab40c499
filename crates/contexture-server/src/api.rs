//! The operations, by what they are about.

mod assemble;
mod page;
mod sessions;

pub(crate) use assemble::{AssembleBody, Form, Made, assemble};

use crate::operation::Api;

/// Adds every operation.
pub(crate) fn add(api: &mut Api) {
    assemble::add(api);
    sessions::add(api);
}
