//! The tool `compact`.

use contexture::schema::{AtLeastOne, NotBlank};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reason, note};
use crate::tool::{Answer, Effect, Tools};
use contexture_api::sessions::{self, CompactBody, CompactResponse};
use contexture_api::{Problem, Tenant};

/// The arguments of `compact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Compact {
    /// The session's label or alias.
    session: String,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The topic that the summary concentrates on. Default: none.
    #[serde(default)]
    focus: Option<String>,
    /// The model whose context window counts. Default: the model of the latest
    /// request.
    #[serde(default)]
    model: Option<String>,
    /// The number of tokens that a request can use. Default: the budget of the
    /// latest request.
    #[serde(default)]
    #[schemars(with = "Option<AtLeastOne>")]
    max_tokens: Option<u64>,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<CompactResponse, Compact>(
        "compact",
        (
            "Compact a session",
            "Summarises all turns except the latest ones. This happens automatically when a \
             request would exceed the budget. Call it when a part of the work is finished. A \
             person can undo it.",
        ),
        Effect::Adds,
        compact,
    );
}

fn compact(tenant: &Tenant, compact: Compact) -> Result<Answer, Problem> {
    let body = CompactBody {
        focus: compact.focus,
        model: compact.model,
        max_tokens: compact.max_tokens,
    };
    let session = tenant.store()?.session(&compact.session)?.label;
    let mut answer = sessions::compact(tenant, &session, body)?;
    let text = match &mut answer.compacted {
        Some(compacted) => {
            let turn = compacted.turn_id.to_string();
            let reason = Reason {
                id: Some(&turn),
                ..Reason::new(&compact.why)
            };
            let warning = note(tenant, Some(&session), "compacted", &reason);
            compacted.warnings.extend(warning);
            format!(
                "compacted {} turns from {} to {} tokens\n\n{}",
                compacted.turns, compacted.tokens_before, compacted.tokens_after, compacted.summary
            )
        }
        None => "nothing to compact yet".to_owned(),
    };
    Ok(Answer::new(text, &answer))
}
