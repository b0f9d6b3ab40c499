//! What is asked of memory, and what it gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::{Code, Scores, Tokens};
use contexture_engine::{ContextFilters, Warning};
use contexture_recall::{Intent, Strategy, StrategyPatch};
use contexture_store::RecordKind;
use serde::{Deserialize, Serialize};

/// What is asked of memory.
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
    /// What may be found.
    pub filters: ContextFilters,
}

/// What memory gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RecalledContext"))]
pub struct Context {
    /// The text, to be put into a prompt.
    pub content: String,
    /// What is in it, in the order it stands there.
    pub components: Vec<ContextComponent>,
    /// What the text counts.
    pub token_count: Tokens,
    /// Whether something that was found is not in it, or not whole.
    pub truncated: bool,
    /// What was followed.
    pub strategy: Strategy,
    /// What was found and is not in the text, best first, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<LeftOut>,
    /// How it came about.
    pub metadata: Metadata,
}

/// Something in a context.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextComponent {
    /// How it was found.
    #[serde(rename = "type")]
    pub channel: Channel,
    /// The record's id.
    pub source: String,
    /// What kind of record it is; left out for what the request added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RecordKind>,
    /// How it reads.
    pub content: String,
    /// What it counts, without headings.
    pub tokens: Tokens,
    /// What it would count whole.
    pub original_tokens: Tokens,
    /// How well it fits, from 0.
    pub relevance_score: f64,
    /// What that is made of.
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
    /// Its best passage.
    Snippet,
    /// Its most telling sentences.
    Compressed,
    /// Its summary.
    Summary,
}

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// It happened lately.
    Recent,
    /// It says what is looked for.
    Semantic,
    /// It is somebody or something that is mentioned, or matters.
    Entity,
    /// It says how those stand to others.
    Relation,
    /// It worked before.
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
    /// How it was found.
    #[serde(rename = "type")]
    pub channel: Channel,
    /// The record's id.
    pub source: String,
    /// What it counts.
    pub tokens: Tokens,
    /// How well it fits.
    pub relevance_score: f64,
    /// What that is made of.
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
    /// What was looked for.
    pub query: String,
    /// What was read out of it.
    pub signals: Signals,
    /// How many events were looked at.
    pub events_considered: usize,
    /// How many entities were looked at.
    pub entities_considered: usize,
    /// How many texts were searched by words and vectors.
    pub chunks_searched: usize,
    /// How many more were found and left out than are listed.
    pub unlisted: usize,
    /// What each channel might spend and spent.
    pub channels: BTreeMap<&'static str, ChannelBudget>,
    /// What somebody should look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// How long it took; left out when the time was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assembly_time_ms: Option<f64>,
}

/// What was read out of a query.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "QuerySignals"))]
pub struct Signals {
    /// Its words, without those that say nothing.
    pub keywords: Vec<String>,
    /// The entities that it names, by id.
    pub mentioned_entities: Vec<String>,
    /// What it wants.
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
    /// Its part.
    pub allowed: Tokens,
    /// What it spent, headings included, with what others left.
    pub used: Tokens,
    /// How much it found.
    pub found: usize,
    /// How much of that is in the text.
    pub kept: usize,
}
