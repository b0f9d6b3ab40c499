//! Operations on the pins of a session.

use contexture::PinRequest;
use contexture::store::SessionPin;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::operation::{Api, Nothing, Operation};
use crate::problem::Problem;
use crate::sessions::Named;
use crate::tenant::Tenant;

/// The pins of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PinList")]
struct Pins {
    /// The pins in the order in which they are sent.
    pins: Vec<SessionPin>,
}

/// The filter of a list of pins.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct PinQuery {
    /// The name of a pin. Returns every revision of it, oldest first. Default:
    /// the latest revision of each pin.
    name: Option<String>,
}

/// A pin in the path of a call.
#[derive(Debug, Deserialize, JsonSchema)]
struct ByName {
    /// The session's label or alias.
    label: String,
    /// The name of the pin.
    name: String,
}

pub(crate) fn add(api: &mut Api) {
    api.add(
        Operation::post("/v1/sessions/{label}/pins", "pin")
            .describe(
                "Pin a text",
                "Adds a text to every request of the session, verbatim and before the history. \
                 Compaction does not change pins. Give `text`, or `turn` to pin what was said in \
                 a turn. A pin with the same `name` is replaced; its revisions stay stored.",
            )
            .creates()
            .refuses(&[404, 409, 422])
            .example(
                "/v1/sessions/support/pins",
                json!({"name": "goal", "text": "Never refund without asking Ana."}),
            ),
        |tenant: &Tenant,
         path: Named,
         _: Nothing,
         body: PinRequest|
         -> Result<SessionPin, Problem> {
            Ok(tenant.engine.pin(&path.label, &body, tenant.fixed_now())?)
        },
    );
    api.add(
        Operation::get("/v1/sessions/{label}/pins", "list_pins")
            .describe(
                "List pins",
                "Returns the pins of the session in the order in which they are sent, or every \
                 revision of one pin.",
            )
            .example("/v1/sessions/support/pins", None),
        |tenant: &Tenant, path: Named, wanted: PinQuery, _: Nothing| -> Result<Pins, Problem> {
            let pins = match &wanted.name {
                Some(name) => tenant.engine.pin_revisions(&path.label, name)?,
                None => tenant.engine.pins(&path.label)?,
            };
            Ok(Pins { pins })
        },
    );
    api.add(
        Operation::new(
            Method::DELETE,
            "/v1/sessions/{label}/pins/{name}",
            "unpin",
        )
        .describe(
            "Remove a pin",
            "Removes the pin from later requests. Returns the revision that removed it. Earlier \
             revisions stay stored.",
        )
        .refuses(&[404, 409])
        .example("/v1/sessions/support/pins/goal", None),
        |tenant: &Tenant, by: ByName, _: Nothing, _: Nothing| -> Result<SessionPin, Problem> {
            Ok(tenant.engine.unpin(&by.label, &by.name, tenant.fixed_now())?)
        },
    );
}
