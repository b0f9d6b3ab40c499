//! The tools `remember`, `recall` and `forget`.

use contexture::memory::{Channel, ContextFilters, MemoryRecorded};
use contexture::schema::{AtLeastOne, NotBlank};
use contexture::store::{EventRecord, Forget, Forgotten, Record, RecordKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Reason, note, phrases};
use crate::tool::{Answer, Effect, Tools};
use contexture_api::memory::{self, RecallBody};
use contexture_api::{Problem, StorageKind, Tenant};

/// The default budget of `recall`, in tokens.
const USUAL_TOKENS: u64 = 1000;

/// The arguments of `remember`: a text, or a whole record.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Remember {
    /// One fact, decision or preference that can be understood alone: names
    /// instead of "it", dates instead of "today".
    #[serde(default)]
    #[schemars(with = "Option<NotBlank>")]
    text: Option<String>,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
    /// The person who said it. Default: none.
    #[serde(default)]
    speaker: Option<String>,
    /// The session that the record belongs to. Default: none.
    #[serde(default)]
    session: Option<String>,
    /// The user that the record belongs to. `recall` returns it only to that
    /// user when its filters name a user. Default: none.
    #[serde(default)]
    user: Option<String>,
    /// The agent that the record belongs to. Default: none.
    #[serde(default)]
    agent: Option<String>,
    /// The id of the task that the record belongs to. Default: none.
    #[serde(default)]
    task: Option<String>,
    /// The origin of the text, such as a file or a page. Default: none.
    #[serde(default)]
    source: Option<String>,
    /// The type of record, such as `decision` or `preference`. Default: `note`.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// Additional search terms. Default: none.
    #[serde(default)]
    keywords: Vec<String>,
    /// The id of the record that this one replaces. Default: none.
    #[serde(default)]
    supersedes: Option<String>,
    /// A whole record instead of `text`, such as
    /// `{"kind":"entity","type":"person","name":"Ada"}`,
    /// `{"kind":"relation","type":"works_at","source_id":"person:Ada","target_id":"company:Initech"}`
    /// or `{"kind":"pattern","name":"…","procedure":"…"}`.
    #[serde(default)]
    record: Option<Map<String, Value>>,
}

/// The arguments of `recall`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecallArguments {
    /// A question or keywords. If empty, recent and important records are
    /// returned.
    query: String,
    /// The current session. Its events count as recent. Default: none.
    #[serde(default)]
    session: Option<String>,
    /// The maximum number of tokens of the result. Default: 1000.
    #[serde(default)]
    #[schemars(with = "Option<AtLeastOne>")]
    max_tokens: Option<u64>,
    /// Filters for the records that can be returned.
    #[serde(default)]
    filters: ContextFilters,
    /// The archetype whose recall strategy is used. Default: the configured
    /// archetype.
    #[serde(default)]
    strategy: Option<String>,
    /// The model whose tokenizer counts. Default: the configured model.
    #[serde(default)]
    model: Option<String>,
    /// The time zone of times in the query such as `yesterday`. Default: UTC.
    #[serde(default)]
    timezone: Option<String>,
}

/// The arguments of `forget`: one of `id`, `source` and `session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForgetArguments {
    /// The id of a record, as `recall` returns it. Default: none.
    #[serde(default)]
    #[schemars(with = "Option<NotBlank>")]
    id: Option<String>,
    /// The source whose records are deleted. Default: none.
    #[serde(default)]
    #[schemars(with = "Option<NotBlank>")]
    source: Option<String>,
    /// The session whose memories are deleted. Default: none.
    #[serde(default)]
    #[schemars(with = "Option<NotBlank>")]
    session: Option<String>,
    /// The user whose records are deleted. Default: none.
    #[serde(default)]
    #[schemars(with = "Option<NotBlank>")]
    user: Option<String>,
    /// The reason, in one sentence.
    #[schemars(with = "NotBlank")]
    why: String,
}

/// The result of `forget`.
#[derive(Debug, Serialize, JsonSchema)]
struct ForgetResult {
    /// The number of deleted records by kind.
    forgotten: Forgotten,
}

/// The result of `remember`.
#[derive(Debug, Serialize, JsonSchema)]
struct Remembered {
    /// The id of the record.
    id: String,
    /// The counts of the recording.
    #[serde(flatten)]
    recorded: MemoryRecorded,
}

/// The result of `recall`, next to its text.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// The tokens of the text.
    tokens: u64,
    /// Whether a found record is missing or shortened.
    truncated: bool,
    /// The records in the text, in order.
    records: Vec<FoundRecord>,
    /// The number of records that did not fit.
    left_out: usize,
    /// Warnings.
    warnings: Vec<String>,
}

/// A record that was found.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundRecord {
    /// The id of the record.
    id: String,
    /// The kind of record.
    kind: Option<RecordKind>,
    /// The search channel.
    found_by: Channel,
    /// The relevance score, 0 or more.
    score: f64,
}

pub(super) fn add(tools: &mut Tools) {
    tools.add::<Remembered, Remember>(
        "remember",
        (
            "Remember a fact",
            "Stores a fact for later conversations: a decision with its reason, a user preference, \
             a finding that took effort. Do not store secrets or what the files already contain. \
             Identical texts are stored once.",
        ),
        Effect::AddsOnce,
        remember,
    );
    tools.add::<Found, RecallArguments>(
        "recall",
        (
            "Recall facts",
            "Finds stored facts by words and by meaning, and returns what fits into the budget. \
             Call it before you ask the user or make a decision.",
        ),
        Effect::Reads,
        recall,
    );
    tools.add::<ForgetResult, ForgetArguments>(
        "forget",
        (
            "Forget records",
            "Deletes stored facts for good: one record, or all records of a source or a session. \
             Call it when the user asks for it or a fact is wrong. It cannot be undone.",
        ),
        Effect::Replaces,
        forget,
    );
    tools.list_briefly(
        "remember",
        "Stores a fact, decision or preference for later conversations. No secrets.",
        &["text"],
    );
    tools.list_briefly(
        "recall",
        "Finds stored facts by words and meaning. Call it before you ask or guess.",
        &["max_tokens"],
    );
    tools.list_briefly("forget", "Deletes a stored fact for good.", &["id"]);
}

fn forget(tenant: &Tenant, wanted: ForgetArguments) -> Result<Answer, Problem> {
    let mut selected = [
        wanted.id.map(|id| Forget::Id { kind: None, id }),
        wanted.source.map(Forget::Source),
        wanted.session.map(Forget::Session),
        wanted.user.map(Forget::User),
    ]
    .into_iter()
    .flatten();
    let what = match (selected.next(), selected.next()) {
        (Some(what), None) => what,
        (None, _) => {
            return Err(Problem::unprocessable("`id` is missing")
                .at("id")
                .hint("give the `id` that `recall` returned, or a `source`, `session` or `user`"));
        }
        (Some(_), Some(_)) => {
            return Err(Problem::unprocessable(
                "`id`, `source`, `session` and `user` cannot be combined",
            )
            .at("id"));
        }
    };
    let forgotten = tenant.engine.memory()?.forget(&what)?;
    if let Some(warning) = note(tenant, None, "forgotten", &Reason::new(&wanted.why)) {
        tracing::warn!(warning = warning.message, "tool");
    }
    let count: u64 = forgotten.forgotten.values().sum();
    let text = match count {
        0 => "no record matches".to_owned(),
        1 => "1 record deleted".to_owned(),
        _ => format!("{count} records deleted"),
    };
    Ok(Answer::new(text, &ForgetResult { forgotten }))
}

fn remember(tenant: &Tenant, remember: Remember) -> Result<Answer, Problem> {
    let mut record = match (&remember.text, &remember.record) {
        (Some(text), None) => {
            if text.trim().is_empty() {
                return Err(Problem::unprocessable("`text` is blank").at("text"));
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
                "user": remember.user,
                "agent": remember.agent,
                "task_id": remember.task,
                "source": remember.source,
                "keywords": remember.keywords,
                "supersedes": remember.supersedes,
            });
            let event = EventRecord::deserialize(event)
                .map_err(|error| Problem::failure(error.to_string()))?;
            Record::Event(event)
        }
        (None, Some(record)) => {
            let text_fields = [
                ("speaker", remember.speaker.is_some()),
                ("type", remember.kind.is_some()),
                ("keywords", !remember.keywords.is_empty()),
                ("supersedes", remember.supersedes.is_some()),
                ("user", remember.user.is_some()),
                ("agent", remember.agent.is_some()),
                ("task", remember.task.is_some()),
                ("source", remember.source.is_some()),
            ];
            if let Some((name, _)) = text_fields.iter().find(|(_, given)| *given) {
                let message = format!("`{name}` cannot be combined with `record`");
                return Err(Problem::unprocessable(message)
                    .at(*name)
                    .hint(format!("set `{name}` inside `record`")));
            }
            Record::deserialize(Value::Object(record.clone())).map_err(|error| {
                Problem::bad_request("invalid_field", error.to_string()).at("record")
            })?
        }
        (Some(_), Some(_)) => {
            return Err(
                Problem::unprocessable("`text` and `record` cannot be combined").at("record"),
            );
        }
        (None, None) => {
            return Err(Problem::unprocessable("`text` and `record` are missing")
                .at("text")
                .hint("give `text`, or `record` for a whole record"));
        }
    };
    // A record without an id gets its default id here.
    record.complete();
    let id = record.id().to_owned();
    tenant.check_quota(StorageKind::Records)?;
    let mut recorded = tenant
        .engine
        .memory()?
        .record(vec![record], tenant.fixed_now())?;
    tenant
        .observer
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
        true => format!("{id} already exists"),
        false => format!("stored as {id}"),
    };
    Ok(Answer::new(text, &Remembered { id, recorded }))
}

fn recall(tenant: &Tenant, wanted: RecallArguments) -> Result<Answer, Problem> {
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
            timezone: wanted.timezone,
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
        (true, 0) => "no records found".to_owned(),
        (true, left_out) => {
            format!("{left_out} records found, none fits: raise `max_tokens`")
        }
    };
    Ok(Answer::new(text, &found))
}
