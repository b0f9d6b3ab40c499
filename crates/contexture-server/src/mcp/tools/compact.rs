//! Making a history shorter.

use contexture::schema::{AtLeastOne, NotBlank};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reason, note};
use crate::api::sessions::{self, CompactAnswer, CompactBody};
use crate::mcp::tool::{Answer, Effect, Tools};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// How a history is to be made shorter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Compact {
    /// The session: its label or alias.
    session: String,
    /// Why it is summarised now, in one sentence. It is kept in the log.
    #[schemars(with = "NotBlank")]
    why: String,
    /// What the summary is to pay attention to.
    #[serde(default)]
    focus: Option<String>,
    /// The model whose window counts. Default: that of the latest request.
    #[serde(default)]
    model: Option<String>,
    /// What a request may use. Default: what the latest might.
    #[serde(default)]
    #[schemars(with = "Option<AtLeastOne>")]
    max_tokens: Option<u64>,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<CompactAnswer, Compact>(
        "compact",
        (
            "Summarise a session",
            "Puts a summary in the place of all but the latest turns of a session. It happens by \
             itself when a request would become too long; call it when a stretch of work is \
             finished and its details no longer matter. Nothing is lost: the turns stay, and a \
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
                "{} turns are summarised: {} tokens became {}\n\n{}",
                compacted.turns, compacted.tokens_before, compacted.tokens_after, compacted.summary
            )
        }
        None => "there is nothing to summarise yet".to_owned(),
    };
    Ok(Answer::new(text, &answer))
}
