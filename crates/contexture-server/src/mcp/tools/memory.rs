//! Remembering, and finding it again.

use contexture::memory::{Channel, ContextFilters, MemoryRecorded};
use contexture::schema::{AtLeastOne, NotBlank};
use contexture::store::{EventRecord, Record, RecordKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Reason, note, phrases};
use crate::api::memory::{self, RecallBody};
use crate::mcp::tool::{Answer, Effect, Tools};
use crate::problem::Problem;
use crate::tenant::Tenant;

/// What a recall may spend when nobody says.
const USUAL_TOKENS: u64 = 1000;

/// Something to remember: a text, or a whole record.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Remember {
    /// What to remember, so that it can be understood alone: one fact, decision
    /// or preference, with names instead of "it" and dates instead of "today".
    #[serde(default)]
    #[schemars(with = "Option<NotBlank>")]
    text: Option<String>,
    /// Why it is worth remembering, in one sentence. It is kept in the log.
    #[schemars(with = "NotBlank")]
    why: String,
    /// Who said it.
    #[serde(default)]
    speaker: Option<String>,
    /// The session it belongs to.
    #[serde(default)]
    session: Option<String>,
    /// What kind of thing it is, such as `decision` or `preference`. Default:
    /// `note`.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// Words it is to be found by, beside its own.
    #[serde(default)]
    keywords: Vec<String>,
    /// The id of what no longer holds because of this.
    #[serde(default)]
    supersedes: Option<String>,
    /// Instead of a text, a whole record, such as `{"kind":"entity",
    /// "type":"person","name":"Ada"}`, `{"kind":"relation","type":"works_at",
    /// "source_id":"person:Ada","target_id":"company:Initech"}`,
    /// `{"kind":"pattern","name":"…","procedure":"…"}` or
    /// `{"kind":"event","type":"file_write","content":{"path":"…"}}`.
    #[serde(default)]
    record: Option<Map<String, Value>>,
}

/// What is looked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// What to look for, in words: a question or a few keywords. An empty one
    /// finds what is recent and what matters.
    query: String,
    /// The session one is in: what happened in it counts as recent.
    #[serde(default)]
    session: Option<String>,
    /// Most tokens of the answer. Default: 1000.
    #[serde(default)]
    #[schemars(with = "Option<AtLeastOne>")]
    max_tokens: Option<u64>,
    /// What may be found.
    #[serde(default)]
    filters: ContextFilters,
    /// The archetype whose strategy is followed. Default: the configured one.
    #[serde(default)]
    strategy: Option<String>,
    /// The model whose tokens are counted. Default: the configured one.
    #[serde(default)]
    model: Option<String>,
}

/// What was remembered.
#[derive(Debug, Serialize, JsonSchema)]
struct Remembered {
    /// The record's id; `supersedes` takes it.
    id: String,
    #[serde(flatten)]
    recorded: MemoryRecorded,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// The tokens of the text.
    tokens: u64,
    /// Whether something that was found is not in it, or not whole.
    truncated: bool,
    /// What is in it, in the order it stands there.
    records: Vec<FoundRecord>,
    /// How many records were found that did not fit.
    left_out: usize,
    /// What a person should look at.
    warnings: Vec<String>,
}

/// A record that was found.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundRecord {
    /// Its id.
    id: String,
    /// What kind of record it is.
    kind: Option<RecordKind>,
    /// How it was found.
    found_by: Channel,
    /// How well it fits.
    score: f64,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<Remembered, Remember>(
        "remember",
        (
            "Remember something",
            "Keeps something beyond this conversation, to be found by `recall` and by requests \
             with memory: a decision and its reason, a preference of the user, a fact that took \
             effort to find out. Not for what is in the files or can be looked up again, and never \
             for secrets. The same text twice is one record.",
        ),
        Effect::AddsOnce,
        remember,
    );
    tools.add::<Found, Wanted>(
        "recall",
        (
            "Recall what is remembered",
            "Finds what was remembered, by words and by meaning, and returns what fits into the \
             budget. Call it before asking the user something that may have been said before, and \
             before a decision that may have been made already.",
        ),
        Effect::Reads,
        recall,
    );
}

fn remember(tenant: &Tenant, remember: Remember) -> Result<Answer, Problem> {
    let mut record = match (&remember.text, &remember.record) {
        (Some(text), None) => {
            if text.trim().is_empty() {
                return Err(Problem::unprocessable("there is nothing to remember").at("text"));
            }
            let content = match &remember.speaker {
                Some(speaker) => json!({"speaker": speaker, "text": text}),
                None => json!(text),
            };
            let event = json!({
                "type": remember.kind.as_deref().unwrap_or("note"),
                "content": content,
                "actor": remember.speaker,
                "session_id": remember.session,
                "keywords": remember.keywords,
                "supersedes": remember.supersedes,
            });
            let event = EventRecord::deserialize(event)
                .map_err(|error| Problem::failure(error.to_string()))?;
            Record::Event(event)
        }
        (None, Some(record)) => {
            let beside = [
                ("speaker", remember.speaker.is_some()),
                ("type", remember.kind.is_some()),
                ("keywords", !remember.keywords.is_empty()),
                ("supersedes", remember.supersedes.is_some()),
            ];
            if let Some((name, _)) = beside.iter().find(|(_, given)| *given) {
                let message = format!("`{name}` goes with `text`; a record has fields of its own");
                return Err(Problem::unprocessable(message).at(*name));
            }
            Record::deserialize(Value::Object(record.clone())).map_err(|error| {
                Problem::bad_request("invalid_field", error.to_string()).at("record")
            })?
        }
        (Some(_), Some(_)) => {
            return Err(Problem::unprocessable("give `text` or `record`, not both").at("record"));
        }
        (None, None) => {
            return Err(Problem::unprocessable("there is nothing to remember")
                .at("text")
                .hint("give `text`, or `record` for something with a form of its own"));
        }
    };
    // What has no id gets the one that it will be kept by.
    record.complete();
    let id = record.id().to_owned();
    let mut recorded = tenant
        .engine
        .memory()?
        .record(vec![record], tenant.fixed_now())?;
    tenant
        .metrics
        .remembered(recorded.added + recorded.replaced);
    let reason = Reason {
        id: Some(&id),
        ..Reason::new(&remember.why)
    };
    recorded.warnings.extend(note(
        tenant,
        remember.session.as_deref(),
        "remembered",
        &reason,
    ));
    let text = match recorded.unchanged > 0 && recorded.added == 0 && recorded.replaced == 0 {
        true => format!("{id} was remembered already"),
        false => format!("remembered as {id}"),
    };
    Ok(Answer::new(text, &Remembered { id, recorded }))
}

fn recall(tenant: &Tenant, wanted: Wanted) -> Result<Answer, Problem> {
    let context = memory::recall(
        tenant,
        RecallBody {
            query: wanted.query,
            session_id: wanted.session,
            max_tokens: wanted.max_tokens.unwrap_or(USUAL_TOKENS),
            archetype: wanted.strategy,
            strategy: None,
            additional_context: None,
            filters: Some(wanted.filters),
            identity: Vec::new(),
            model: wanted.model,
        },
    )?;
    let nothing = context.components.is_empty();
    let records = context.components.iter().map(|part| FoundRecord {
        id: part.source.clone(),
        kind: part.kind,
        found_by: part.channel,
        score: part.relevance_score,
    });
    let found = Found {
        tokens: context.token_count,
        truncated: context.truncated,
        records: records.collect(),
        left_out: context.excluded.len() + context.metadata.unlisted,
        warnings: phrases(&context.metadata.warnings),
    };
    let text = match (nothing, found.left_out) {
        (false, _) => context.content,
        (true, 0) => "nothing was found".to_owned(),
        (true, _) => "what was found does not fit: raise `max_tokens`".to_owned(),
    };
    Ok(Answer::new(text, &found))
}
