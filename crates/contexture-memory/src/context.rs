//! [`ContextRequest`] and [`Context`]: the input and the result of a recall.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::{Code, Reason, Scores, Text, Tokens};
use contexture_engine::{ContextFilters, Warning};
use contexture_recall::{Intent, Strategy, StrategyPatch};
use contexture_store::RecordKind;
use contexture_time::Interval;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The input of a recall.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a request: an object with `query` and `max_tokens`"
)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::needs_max_tokens))]
pub struct ContextRequest {
    /// The query. An empty query returns recent and important records.
    pub query: String,
    /// The current session. Its events count as recent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The token budget of the result, headings included.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::AtLeastOne")
    )]
    pub max_tokens: Tokens,
    /// The archetype whose recall strategy is used. Default: `recall`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archetype: Option<String>,
    /// Changes to the strategy of the archetype.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyPatch>,
    /// A text to add at the end, whole. Its tokens are reserved first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<String>,
    /// Filters: only records that match all of them are returned.
    pub filters: ContextFilters,
    /// The caller's time zone, such as `Europe/Berlin` or `+02:00`. Times in the query, such as `yesterday`, are read in it.
    /// Default: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
}

/// A recalled context.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RecallResult"))]
pub struct Context {
    /// The text to add to a prompt.
    pub content: String,
    /// The records in the text, in order.
    pub components: Vec<ContextComponent>,
    /// The number of tokens of the text.
    pub token_count: Tokens,
    /// Whether a found record is missing from the text or not shown whole.
    pub truncated: bool,
    /// The recall strategy that was used.
    pub strategy: Strategy,
    /// The records that were found and are not in the text, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<LeftOut>,
    /// Details of the recall.
    pub metadata: Metadata,
}

/// A record in a recalled context.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RecalledRecord"))]
pub struct ContextComponent {
    /// The search channel that found the record.
    #[serde(rename = "type")]
    pub channel: Channel,
    /// The record's id.
    pub source: String,
    /// The kind of record. Omitted for text that the request added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RecordKind>,
    /// The text of the record as it is shown.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub content: Text,
    /// The tokens of the text, without headings.
    pub tokens: Tokens,
    /// The tokens of the whole record.
    pub original_tokens: Tokens,
    /// The relevance score, 0 or more.
    pub relevance_score: f64,
    /// The parts of the relevance score.
    pub scores: Arc<Scores>,
    /// The form of the record. Omitted if the record is shown whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
}

/// The form of a record that is not shown whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ComponentForm"))]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// The best passage.
    Snippet,
    /// The most relevant sentences.
    Compressed,
    /// The summary of the record.
    Summary,
}

/// The search channel that found a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The record is recent.
    Recent,
    /// The record matches the query by words or by meaning.
    Semantic,
    /// The record is an entity that the query mentions, or an important one.
    Entity,
    /// The record is a relation of a found entity.
    Relation,
    /// The record is a procedure that worked before.
    Pattern,
    /// The request added the text.
    Custom,
}

impl Channel {
    /// The channels of memory, in the order of their sections.
    pub const ALL: [Channel; 5] = [
        Channel::Recent,
        Channel::Semantic,
        Channel::Entity,
        Channel::Relation,
        Channel::Pattern,
    ];

    /// Returns the channel's name.
    pub fn name(self) -> &'static str {
        match self {
            Channel::Recent => "recent",
            Channel::Semantic => "semantic",
            Channel::Entity => "entity",
            Channel::Relation => "relation",
            Channel::Pattern => "pattern",
            Channel::Custom => "custom",
        }
    }

    /// Returns the heading of the channel's section.
    pub const fn heading(self) -> &'static str {
        match self {
            Channel::Recent => "Recent Activity",
            Channel::Semantic => "Relevant Content",
            Channel::Entity => "Known Entities",
            Channel::Relation => "Relationships",
            Channel::Pattern => "Applicable Patterns",
            Channel::Custom => "Additional Context",
        }
    }
}

/// A record that was found and is not in the text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DroppedRecord"))]
pub struct LeftOut {
    /// The search channel that found the record.
    #[serde(rename = "type")]
    pub channel: Channel,
    /// The record's id.
    pub source: String,
    /// The tokens of the record.
    pub tokens: Tokens,
    /// The relevance score, 0 or more.
    pub relevance_score: f64,
    /// The parts of the relevance score.
    pub scores: Arc<Scores>,
    /// A stable code for the reason.
    pub code: Code,
    /// The reason in words, with numbers.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub reason: Reason,
}

/// Details of a recall.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RecallMetadata"))]
pub struct Metadata {
    /// The query.
    pub query: String,
    /// The signals that were extracted from the query.
    pub signals: Signals,
    /// The number of events that were considered.
    pub events_considered: usize,
    /// The number of entities that were considered.
    pub entities_considered: usize,
    /// The number of texts that were searched by words and vectors.
    pub chunks_searched: usize,
    /// Whether no record matches the query. The text then contains recent and
    /// salient records.
    pub unmatched: bool,
    /// The number of texts that the configured encoder has computed vectors
    /// for. Omitted if all texts have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<VectorProgress>,
    /// The number of excluded records that are not listed.
    pub unlisted: usize,
    /// The budget of each channel.
    pub channels: BTreeMap<&'static str, ChannelBudget>,
    /// Warnings that the caller should read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// The duration in milliseconds. Omitted if the request set the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly_time_ms: Option<f64>,
}

/// How far an encoder has computed the vectors of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VectorProgress {
    /// The number of events and chunks that have a vector.
    pub current: u64,
    /// The number of all events and chunks.
    pub texts: u64,
}

impl VectorProgress {
    /// Returns the share that is done, in percent, rounded down.
    pub fn percent(self) -> u64 {
        match self.texts {
            0 => 100,
            texts => self.current.saturating_mul(100) / texts,
        }
    }
}

/// The signals that were extracted from a query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "QuerySignals"))]
pub struct Signals {
    /// The words of the query without stop words.
    pub keywords: Vec<String>,
    /// The ids of the entities that the query mentions.
    pub mentioned_entities: Vec<String>,
    /// The intent of the query.
    pub intent: Intent,
    /// The types of events that match the intent.
    pub relevant_event_types: Vec<&'static str>,
    /// Whether the query asks for recent records.
    pub recent: bool,
    /// Words of the query that no record has, with the similar words that were
    /// searched as well.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub corrected: BTreeMap<String, String>,
    /// The times that the query names, such as `yesterday`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<TimeInterval>,
}

/// A period of time that a query names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeInterval {
    /// The start. Null if the period has none.
    pub from: Option<Timestamp>,
    /// The first moment after the period. Null if the period has no end.
    pub to: Option<Timestamp>,
}

impl From<Interval> for TimeInterval {
    fn from(interval: Interval) -> Self {
        let Interval { from, to } = interval;
        let [from, to] = [from, to].map(|at| Timestamp::from_millisecond(at).ok());
        Self { from, to }
    }
}

/// The budget of a search channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelBudget {
    /// The tokens allocated to the channel.
    pub allowed: Tokens,
    /// The tokens that the channel used, including headings and unused tokens
    /// of other channels.
    pub used: Tokens,
    /// The number of records that the channel found.
    pub found: usize,
    /// The number of those records that are in the text.
    pub kept: usize,
}
