//! The tools `begin_session` and `record_turn`.

use contexture::schema::NotBlank;
use contexture::store::{NewSession, NewTurn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Reason, note};
use crate::tool::{Answer, Effect, Tools};
use contexture_api::sessions;
use contexture_api::{Problem, Tenant};

/// The arguments of `begin_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Begin {
    /// The label of the session, such as `release-notes`.
    #[schemars(with = "NotBlank")]
    label: String,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
}

/// The arguments of `record_turn`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecordTurn {
    /// The session's label or alias.
    session: String,
    /// The message of the user. Default: none.
    #[serde(default)]
    user: Option<String>,
    /// The answer of the model. Default: none.
    #[serde(default)]
    assistant: Option<String>,
    /// The model that answered. Default: unknown.
    #[serde(default)]
    model: Option<String>,
}

/// The result of `begin_session`.
#[derive(Debug, Serialize, JsonSchema)]
struct Begun {
    /// The label of the session.
    label: String,
    /// Whether the session was created now.
    created: bool,
    /// The number of turns in the session.
    turns: u64,
}

/// The result of `record_turn`.
#[derive(Debug, Serialize, JsonSchema)]
struct TurnSaved {
    /// The id of the turn.
    turn_id: String,
    /// The number of the turn in the session, from 1.
    number: u64,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<Begun, Begin>(
        "begin_session",
        (
            "Begin a session",
            "Creates a session, or continues the one with this label. Turns that are recorded in \
             a session are part of its later requests. Call it when a conversation begins that \
             should be continued later.",
        ),
        Effect::AddsOnce,
        begin,
    );
    tools.add::<TurnSaved, RecordTurn>(
        "record_turn",
        (
            "Record a turn",
            "Records what the user said and what the model answered in a session. The turn is on \
             disk when the call returns. It needs no reason.",
        ),
        Effect::Keeps,
        record,
    );
    tools.list_briefly("begin_session", "Creates or continues a session.", &[]);
    tools.list_briefly(
        "record_turn",
        "Records what was said in a session.",
        &["user", "assistant"],
    );
}

fn begin(tenant: &Tenant, begin: Begin) -> Result<Answer, Problem> {
    let known = tenant.store()?.session(&begin.label).ok();
    let created = known.is_none();
    let session = match known {
        Some(session) => session,
        None => {
            let new = NewSession {
                label: begin.label,
                ..NewSession::default()
            };
            sessions::create_session(tenant, &new)?
        }
    };
    if created {
        let reason = Reason::new(&begin.why);
        if let Some(warning) = note(tenant, Some(&session.label), "session_begun", &reason) {
            tracing::warn!(warning = warning.message, "tool");
        }
    }
    let begun = Begun {
        label: session.label,
        created,
        turns: session.turns,
    };
    let text = match created {
        true => format!("session {} is created", begun.label),
        false => format!("session {} has {} turns", begun.label, begun.turns),
    };
    Ok(Answer::new(text, &begun))
}

fn record(tenant: &Tenant, turn: RecordTurn) -> Result<Answer, Problem> {
    let said = [("user", &turn.user), ("assistant", &turn.assistant)];
    let messages: Vec<_> = said
        .into_iter()
        .filter_map(|(role, text)| Some(json!({"role": role, "content": text.as_ref()?})))
        .collect();
    if messages.is_empty() {
        return Err(Problem::unprocessable("`user` and `assistant` are missing")
            .at("user")
            .hint("give what the user said, what the model answered, or both"));
    }
    let new = NewTurn::deserialize(json!({"messages": messages, "model": turn.model}))
        .map_err(|error| Problem::failure(error.to_string()))?;
    let session = tenant.store()?.session(&turn.session)?.label;
    let recorded = sessions::record(tenant, &session, &new)?;
    let saved = TurnSaved {
        turn_id: recorded.id.to_string(),
        number: recorded.depth,
    };
    let text = format!("recorded turn {} of session {session}", saved.number);
    Ok(Answer::new(text, &saved))
}
