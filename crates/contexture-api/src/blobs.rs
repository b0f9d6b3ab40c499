//! Operations on tool results, by their handles.

use contexture::{FetchRequest, Fetched};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// The most bytes of one response.
const MOST_BYTES: u32 = 4 * 1024 * 1024;

/// A tool result in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ByHandle {
    /// The handle of the tool result, as the marker of a cut names it:
    /// `sha256:` and at least 8 digits.
    handle: String,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::get("/v1/blobs/{handle}", "fetch")
            .describe(
                "Fetch a tool result",
                "Returns a tool result that was cut in a request, or a part of it: lines, lines \
                 that match a regular expression, or the output of a jq expression. Secrets are \
                 masked.",
            )
            .refuses(&[404, 422])
            .example("/v1/blobs/sha256:8ae3f1d1ed9a?grep=late", None),
        |tenant: &Tenant, by: ByHandle, wanted: FetchRequest, _: Nothing| {
            fetch(tenant, &by.handle, &wanted)
        },
    );
}

/// Returns a part of a tool result.
pub fn fetch(tenant: &Tenant, handle: &str, request: &FetchRequest) -> Result<Fetched, Problem> {
    if request
        .max_bytes
        .is_some_and(|most| most == 0 || most > MOST_BYTES)
    {
        let message = format!("max_bytes: must be from 1 to {MOST_BYTES}");
        return Err(contexture::Error::input(message).at("max_bytes").into());
    }
    Ok(tenant.engine.fetch(handle, request)?)
}
