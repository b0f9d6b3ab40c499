//! `[memory]`: what memory stores, how requests include it, and its embedder.

use contexture_core::Tokens;
use contexture_store::RecordKind;
use serde::{Deserialize, Serialize};

/// The contents of memory, and their use in requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// The archetype that reads recorded texts. Its strategy is the default of
    /// recall.
    pub archetype: String,
    /// Files with your own archetypes, relative to the root.
    pub archetypes: Vec<String>,
    /// Whether requests of the recipe `broker` include memory.
    pub inject: bool,
    /// Whether sessions are remembered: recorded turns become events with their
    /// session, speaker and time.
    pub from_sessions: bool,
    /// The position of memory in a request. Default: that of the recipe; for
    /// `broker`, the current message.
    pub position: Option<MemoryPosition>,
    /// The format of memory in a request.
    pub format: MemoryFormat,
    /// The most tokens of memory in a request. Default: that of the recipe.
    pub max_tokens: Option<Tokens>,
    /// The time after which a request continues without memory, in milliseconds.
    pub deadline_ms: u64,
    /// The embedder, which turns texts into vectors: the name or folder of a
    /// model, or the table `[memory.embedder]`. A folder outside the root must be
    /// trusted. Default: `"encoder"`.
    #[serde(deserialize_with = "embedder")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "embedder_schema"))]
    pub embedder: EmbedderConfig,
    /// The most records of each kind.
    pub caps: Caps,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            archetype: "recall".to_owned(),
            archetypes: Vec::new(),
            inject: true,
            from_sessions: false,
            position: None,
            format: MemoryFormat::default(),
            max_tokens: None,
            deadline_ms: 2_000,
            embedder: EmbedderConfig::default(),
            caps: Caps::default(),
        }
    }
}

/// The position of memory in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryPosition {
    /// After the system prompt. What follows is read from the cache only while
    /// memory stays the same.
    System,
    /// Before the conversation, with the same effect on the cache.
    BeforeHistory,
    /// After the conversation.
    AfterHistory,
    /// In the current message, before the question.
    Current,
}

/// The format of memory in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryFormat {
    /// Sections with headings.
    #[default]
    Structured,
    /// Only the texts, one in each line.
    Raw,
    /// A summary of the texts, written by the summariser.
    Summary,
}

/// The maximum number of records by kind; beyond it, the least valuable are
/// archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    /// The most events.
    pub events: u64,
    /// The most chunks.
    pub chunks: u64,
    /// The most entities.
    pub entities: u64,
    /// The most relations.
    pub relations: u64,
    /// The most patterns.
    pub patterns: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            events: 1_000_000,
            chunks: 1_000_000,
            entities: 250_000,
            relations: 500_000,
            patterns: 10_000,
        }
    }
}

impl Caps {
    /// Returns the maximum number of records of a kind. Tasks have no limit.
    pub fn of(&self, kind: RecordKind) -> u64 {
        match kind {
            RecordKind::Event => self.events,
            RecordKind::Chunk => self.chunks,
            RecordKind::Entity => self.entities,
            RecordKind::Relation => self.relations,
            RecordKind::Pattern => self.patterns,
            RecordKind::Task => u64::MAX,
        }
    }
}

/// The embedder, which turns texts into vectors.
///
/// With a `base_url`, `model` is the name of a model of that API. Without, it is
/// `encoder` (the default) or `static`, which are built in, or a folder on this
/// machine. Those need no network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderConfig {
    /// `encoder`, `static`, the folder of a BERT-type or Model2Vec model, or the
    /// model's name at `base_url`. Default: `encoder`.
    pub model: Option<String>,
    /// The address of an API that is compatible with OpenAI's embeddings. It must
    /// be trusted.
    pub base_url: Option<String>,
    /// The environment variable that holds the API key. It must be trusted.
    pub api_key_env: Option<String>,
    /// The number of dimensions to request from the API. Default: the API's.
    pub dimensions: Option<u32>,
    /// The time limit of one call with its retries, in milliseconds.
    pub deadline_ms: u64,
}

impl Default for EmbedderConfig {
    fn default() -> Self {
        Self {
            model: None,
            base_url: None,
            api_key_env: None,
            dimensions: None,
            deadline_ms: 10_000,
        }
    }
}

/// Reads an embedder: a text is the name of the model, a table has all
/// settings.
fn embedder<'de, D: serde::Deserializer<'de>>(d: D) -> Result<EmbedderConfig, D::Error> {
    struct Either;

    impl<'de> serde::de::Visitor<'de> for Either {
        type Value = EmbedderConfig;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("\"encoder\", \"static\", the folder of a model, or a table")
        }

        fn visit_str<E: serde::de::Error>(self, model: &str) -> Result<EmbedderConfig, E> {
            Ok(EmbedderConfig {
                model: Some(model.to_owned()),
                ..EmbedderConfig::default()
            })
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            map: A,
        ) -> Result<EmbedderConfig, A::Error> {
            EmbedderConfig::deserialize(serde::de::value::MapAccessDeserializer::new(map))
        }
    }

    d.deserialize_any(Either)
}

/// Adds the rule that an embedder is a text or a table.
#[cfg(feature = "schema")]
fn embedder_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let table = generator.subschema_for::<EmbedderConfig>();
    schemars::json_schema!({"anyOf": [{"type": "string"}, table]})
}
