//! [`ContextRequest`] and [`Context`]: the input and the result of a recall.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::{Code, Scores, Tokens};
use contexture_engine::{ContextFilters, Warning};
use contexture_recall::{Intent, Strategy, StrategyPatch};
use contexture_store::RecordKind;
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
    /// What to look for. An empty one finds what is recent and what matters.
    pub query: String,
    /// The session one is in: what happened in it counts as recent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What may be spent, headings included.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "contexture_core::schema::AtLeastOne")
    )]
    pub max_tokens: Tokens,
    /// The archetype whose strategy is followed. Default: `recall`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archetype: Option<String>,
    /// What is done otherwise than the archetype says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyPatch>,
    /// What else is to stand at the end, whole, before anything else is paid
    /// for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_context: Option<String>,
    /// Filters: only records that match all of them are returned.
    pub filters: ContextFilters,
}

/// The result of a recall.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RecalledContext"))]
pub struct Context {
    /// The text, to be put into a prompt.
    pub content: String,
    /// What is in it, in the order it stands there.
    pub components: Vec<ContextComponent>,
    /// The size of the text, in tokens.
    pub token_count: Tokens,
    /// Whether something that was found is not in it, or not whole.
    pub truncated: bool,
    /// The strategy that was used.
    pub strategy: Strategy,
    /// What was found and is not in the text, best first, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<LeftOut>,
    /// How the result was computed.
    pub metadata: Metadata,
}

/// Something in a context.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextComponent {
    /// The channel that found it.
    #[serde(rename = "type")]
    pub channel: Channel,
    /// The record's id.
    pub source: String,
    /// What kind of record it is; left out for what the request added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RecordKind>,
    /// The text of the record as it is in the context.
    pub content: String,
    /// What it counts, without headings.
    pub tokens: Tokens,
    /// The size of the whole record, in tokens.
    pub original_tokens: Tokens,
    /// How well it fits, from 0.
    pub relevance_score: f64,
    /// The parts of the score, by name.
    pub scores: Arc<Scores>,
    /// Whether it is shown in part, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
}

/// How a component is shown when it is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ComponentForm"))]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// The best passage of the record.
    Snippet,
    /// The most relevant sentences of the record.
    Compressed,
    /// A summary of the record.
    Summary,
}

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Recent events.
    Recent,
    /// Texts that match the query by words or by meaning.
    Semantic,
    /// Entities that the query mentions, and salient ones.
    Entity,
    /// It says how those stand to others.
    Relation,
    /// Procedures that worked before.
    Pattern,
    /// The request added it.
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

/// Something that was found and is not in the text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The channel that found it.
    #[serde(rename = "type")]
    pub channel: Channel,
    /// The record's id.
    pub source: String,
    /// The size in tokens.
    pub tokens: Tokens,
    /// How well it fits.
    pub relevance_score: f64,
    /// The parts of the score, by name.
    pub scores: Arc<Scores>,
    /// Why it is not in the text.
    pub code: Code,
    /// The same in words, with numbers.
    pub reason: String,
}

/// How a context came about.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ContextMetadata"))]
pub struct Metadata {
    /// The query.
    pub query: String,
    /// The terms, entities and dates found in the query.
    pub signals: Signals,
    /// The number of events considered.
    pub events_considered: usize,
    /// The number of entities considered.
    pub entities_considered: usize,
    /// How many texts were searched by words and vectors.
    pub chunks_searched: usize,
    /// How many more were found and left out than are listed.
    pub unlisted: usize,
    /// What each channel might spend and spent.
    pub channels: BTreeMap<&'static str, ChannelBudget>,
    /// Warnings for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// How long it took; left out when the time was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly_time_ms: Option<f64>,
}

/// The terms, entities and dates found in a query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "QuerySignals"))]
pub struct Signals {
    /// Its words, without those that say nothing.
    pub keywords: Vec<String>,
    /// The entities that it names, by id.
    pub mentioned_entities: Vec<String>,
    /// The intent of the query.
    pub intent: Intent,
    /// The types of events that go with that.
    pub relevant_event_types: Vec<&'static str>,
    /// Whether it asks for what is recent.
    pub recent: bool,
}

/// What a channel might spend and spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelBudget {
    /// The tokens that the channel may use.
    pub allowed: Tokens,
    /// What it spent, headings included, with what others left.
    pub used: Tokens,
    /// The number of records found.
    pub found: usize,
    /// The number of records included in the text.
    pub kept: usize,
}
