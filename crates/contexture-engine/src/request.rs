//! [`Request`]: the one request type of the library, the command, the HTTP
//! server and MCP.
//!
//! The doc comment of a field is its description in the OpenAPI document and in
//! `--help`, so it states the default.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_core::message::Message;
use contexture_core::{ContentHash, Cut, GuardLine, Native, Role, Tokens};
use contexture_project::masked_json;
use contexture_providers::Format;
use contexture_providers::native::{self, Api, NativeError};
use contexture_store::AgentRole;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::event::Event;
use crate::filters::ContextFilters;
use crate::recipe::RecipeRef;

/// A request to assemble. Every field is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "AssembleRequest"))]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a request: an object with `recipe`, `session`, `event` and other fields"
)]
pub struct Request {
    /// The recipe: the name of a built-in recipe, a file below the root, or in
    /// JSON the recipe itself. Default: the tree's recipe, otherwise the
    /// configured recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE"))]
    pub recipe: Option<RecipeRef>,
    /// Parameters for the recipe's sources, by layer name. They override the
    /// parameters in the recipe.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub with: BTreeMap<String, Map<String, Value>>,
    /// The working-set manifest, relative to the root. Default:
    /// `working-set.yml`, otherwise `.agent/working-set.yml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub manifest: Option<String>,
    /// The session whose history is included: its label or alias. Default:
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABEL"))]
    pub session: Option<String>,
    /// The agent's role. Default: `unified`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ROLE", value_parser = role))]
    pub role: Option<AgentRole>,
    /// The agent's task. Default: the session's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub task: Option<String>,
    /// The toolset that the tools come from. Default: the configured toolset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub toolset: Option<String>,
    /// The current user message: a text, or in JSON an event with its context.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "event_or_text"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<EventOrText>"))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub event: Option<Event>,
    /// Instructions placed before all other content. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub system: Option<String>,
    /// Instructions in a provider's own form, sent byte for byte before the
    /// conversation. Default: none.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub native_instructions: Vec<Native>,
    /// Definitions of tools: objects with `name`, `description` and
    /// `parameters`. They are used instead of the project's tools. Default:
    /// the project's tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Map<String, Value>>"))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub tools: Vec<Value>,
    /// A conversation, oldest message first. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub messages: Vec<Message>,
    /// Facts about the provider's own request that the conversation is from.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub given: GivenRequest,
    /// Texts that the request may contain. Each is cut, dropped and reported
    /// like any other candidate. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub items: Vec<InlineItem>,
    /// The id of the loom tree. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub tree: Option<String>,
    /// The node of the tree to continue from, by id or short name. Default: the
    /// end of the saved path, otherwise the agent's position, otherwise the
    /// only leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NODE"))]
    pub head: Option<String>,
    /// The saved path to follow. It selects the branch and the versions of
    /// nodes. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub path: Option<String>,
    /// The agent of the tree that writes next. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub agent: Option<String>,
    /// Unsaved text at the end of a document. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub working_buffer: Option<String>,
    /// Includes annotations of nodes. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub include_annotations: bool,
    /// Instructions for the next node. They follow the instructions of the
    /// path. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(long = "instruct", value_name = "TEXT", action = clap::ArgAction::Append)
    )]
    pub instructions: Vec<String>,
    /// Nodes of the tree to include as reference text for the next node, by id
    /// or short name. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "NODE", action = clap::ArgAction::Append)
    )]
    pub context: Vec<String>,
    /// The query for memory. Default: the current task, otherwise the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub query: Option<String>,
    /// Filters for the records that memory can return. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "JSON", value_parser = filters)
    )]
    pub filters: Option<ContextFilters>,
    /// The archetype whose recall strategy memory uses. Default: the configured
    /// archetype.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub strategy: Option<String>,
    /// The task stack. Default: `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub stack: Option<String>,
    /// The model that the request is for. It sets the context window, the
    /// tokenizer and the provider. Default: the model of the tree's agent,
    /// otherwise the configured model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub model: Option<String>,
    /// The size of the context window in tokens. Default: the manifest's value,
    /// otherwise the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub max_tokens: Option<Tokens>,
    /// The number of tokens reserved for the response, and its maximum length.
    /// Default: the manifest's or the configured value, otherwise the model's
    /// output limit, at most a quarter of the window and at most 32,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub reserve_response: Option<Tokens>,
    /// The number of tokens reserved for tools. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub reserve_tools: Option<Tokens>,
    /// The format of the request. Without a model, the format selects one; with
    /// a model, both must match. Default: Contexture's own JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub format: Option<Format>,
    /// Fails if the request changes tools, instructions or history of the
    /// session's previous request, or is for another model, so that the
    /// provider's cache is lost. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub fail_on_cache_break: bool,
    /// The current time, for reproducible output: RFC 3339 or Unix
    /// milliseconds. Default: the system clock.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "contexture_store::lenient_time"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_store::schema::Time"))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub now: Option<Timestamp>,
}

/// A text that a request may contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "an item: an object with `id` and `content`"
)]
pub struct InlineItem {
    /// The id of the item, unique in the request.
    pub id: String,
    /// The text of the item.
    pub content: String,
    /// The layer of the recipe that the item belongs to. Default: `items`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The role that the text is sent as. Default: `context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The priority, from 0 to 1. Default: 0.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// The part that is removed if the text does not fit. Default: `end`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Whether the text is always sent whole. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

/// The current user message: a text, or an event with its context.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum EventOrText {
    /// The text of the message.
    Text(String),
    /// A message with its context.
    Event(Box<Event>),
}

fn event_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Event>, D::Error> {
    Ok(
        Option::<EventOrText>::deserialize(deserializer)?.map(|event| match event {
            EventOrText::Text(text) => Event::from(text.as_str()),
            EventOrText::Event(event) => *event,
        }),
    )
}

#[cfg(feature = "clap")]
fn role(name: &str) -> Result<AgentRole, String> {
    AgentRole::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name))
        .map_err(|_| "expected manager, worker or unified".to_owned())
}

#[cfg(feature = "clap")]
fn filters(text: &str) -> Result<ContextFilters, crate::Error> {
    ContextFilters::from_json(text)
}

/// Facts about a provider's own request whose conversation is fitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GivenRequest {
    /// Its fields around the conversation, if the result is for the same API.
    pub fields: Option<Arc<GivenFields>>,
    /// Whether its conversation is that of the session, with the ids of its calls.
    pub is_of_session: bool,
    /// Whether the session has earlier messages that it does not have.
    pub is_shorter: bool,
    /// Whether it ends with the model's message, which the model continues.
    pub ends_with_model: bool,
    /// Whether the provider stores earlier messages, which the request follows
    /// (`previous_response_id`). Results of calls that are not in the request
    /// are then accepted, and always sent.
    pub follows_stored: bool,
    /// The secrets that were masked in its instructions.
    pub masked: Vec<GuardLine>,
}

/// The fields of a provider's own request around its conversation. They are sent
/// byte for byte, except for secrets in the instructions.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenFields {
    /// The API that the request is for.
    pub api: Api,
    /// The request with an empty conversation.
    pub body: String,
    /// The definitions of its tools.
    pub tools: GivenPart,
    /// Its instructions, if they have a field of their own.
    pub system: GivenPart,
}

/// A part of a provider's own request that is sent byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenPart {
    /// The hash of its bytes.
    pub hash: ContentHash,
    /// Its size.
    pub tokens: Tokens,
}

/// The names of the field with the instructions.
const INSTRUCTIONS: [&str; 4] = [
    "system",
    "instructions",
    "systemInstruction",
    "system_instruction",
];

impl GivenFields {
    /// Returns the request with the conversation `messages`, which was rendered for
    /// the same API, and the paths of blocks whose cache marks were removed because
    /// the API does not accept so many.
    pub fn with_messages(&self, messages: &str) -> Result<(String, Vec<String>), NativeError> {
        let body = native::with_messages(self.body.as_bytes(), 0..0, messages, self.api)?;
        let is_limited = self.api == Api::Anthropic;
        let fewer = is_limited.then(|| native::without_excess_marks(&body));
        Ok(fewer.flatten().unwrap_or((body, Vec::new())))
    }

    /// Masks the secrets in the instructions, if they have a field of their own.
    pub fn mask_instructions(&mut self) {
        let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(&self.body) else {
            return;
        };
        let Some(field) = INSTRUCTIONS.iter().find_map(|name| fields.get(*name)) else {
            return;
        };
        let start = field.get().as_ptr() as usize - self.body.as_ptr() as usize;
        let given = start..start + field.get().len();
        let Ok(value) = serde_json::from_str::<Value>(field.get()) else {
            return;
        };
        self.body.replace_range(given, &masked_json(value));
    }

    /// Returns the JSON of the tools, or of the instructions (`system`).
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let names: &[&str] = match name {
            "system" => &INSTRUCTIONS,
            _ => &["tools"],
        };
        let fields: Map<String, Value> = serde_json::from_str(&self.body).ok()?;
        let value = names.iter().find_map(|name| fields.get(*name))?;
        Some(value.to_string())
    }
}

impl Request {
    /// Returns true when the request itself holds a conversation, instructions
    /// or items.
    pub fn has_inline(&self) -> bool {
        self.system.is_some() || !self.messages.is_empty() || !self.items.is_empty()
    }

    /// Returns the field that a `$name` in a recipe refers to; `None` when the
    /// request has no such field.
    pub(crate) fn variable(&self, name: &str) -> Option<Value> {
        let text = |text: &Option<String>| Some(text.as_deref().into());
        match name {
            "session" => text(&self.session),
            "event" => Some(
                self.event
                    .as_ref()
                    .map(|event| event.content.as_str())
                    .into(),
            ),
            "task" => text(&self.task),
            "query" => text(&self.query),
            "stack" => text(&self.stack),
            "tree" => text(&self.tree),
            "head" => text(&self.head),
            "agent" => text(&self.agent),
            "manifest" => text(&self.manifest),
            "strategy" => text(&self.strategy),
            _ => None,
        }
    }
}

/// The fields that a `$name` in a recipe can refer to.
pub(crate) const VARIABLES: &[&str] = &[
    "session", "event", "task", "query", "stack", "tree", "head", "agent", "manifest", "strategy",
];
