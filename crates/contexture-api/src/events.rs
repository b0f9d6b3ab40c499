//! Events of sessions. The store numbers and keeps them; the server streams them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::tenant::Tenant;

/// An event of a session. Events carry ids and counts, not content.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    dead_code,
    reason = "the store makes the events of turns; this describes them"
)]
pub(crate) enum SessionEvent {
    /// A turn was recorded.
    TurnRecorded {
        /// The label of the session.
        session: String,
        /// The id of the turn.
        turn_id: String,
        /// The number of the turn in its session, from 1.
        number: u64,
    },
    /// A request was assembled.
    Assembled {
        /// The label of the session.
        session: String,
        /// The name of the recipe.
        recipe: String,
        /// The model that the request is for.
        model: String,
        /// The tokens of the request.
        tokens: u64,
        /// The number of leading tokens that are the same as in the previous
        /// request. Null for the first request.
        shared_tokens: Option<u64>,
        /// The hash under which the request was saved. Null if it was not
        /// saved.
        snapshot: Option<String>,
    },
    /// The history was compacted.
    Compacted {
        /// The label of the session.
        session: String,
        /// The id of the turn that holds the summary.
        turn_id: String,
    },
}

/// Stores an event. Those of turns are stored with the turns.
pub(crate) fn publish(tenant: &Tenant, event: &SessionEvent) {
    let (Ok(store), Ok(Value::Object(mut data))) = (tenant.store(), serde_json::to_value(event))
    else {
        return;
    };
    let mut taken = |field: &str| match data.remove(field) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (kind, session) = (taken("type"), taken("session"));
    store.put_event(&kind, &session, data, tenant.now());
    tenant.observer.has_event();
}
