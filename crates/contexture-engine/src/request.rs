//! [`Request`]: the one request type of the library, the command, the HTTP
//! server and MCP.
//!
//! The doc comment of a field is its description in the OpenAPI document and in
//! `--help`, so it states the default.

use std::collections::BTreeMap;

use contexture_core::Tokens;
use contexture_providers::Format;
use contexture_store::AgentRole;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::event::Event;
use crate::filters::ContextFilters;
use crate::recipe::RecipeRef;

/// A request to assemble. Every field has a default.
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
    /// The recipe: a built-in name, a file, or in JSON the recipe itself.
    /// Default: the recipe for the mode of the tree, else the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE"))]
    pub recipe: Option<RecipeRef>,
    /// Parameters for the sources of the recipe, by the name of the layer. They
    /// override those of the recipe. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub with: BTreeMap<String, Map<String, Value>>,
    /// The manifest, relative to the root. Default: `working-set.yml`, else
    /// `.agent/working-set.yml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub manifest: Option<String>,
    /// The session's label or alias. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABEL"))]
    pub session: Option<String>,
    /// The agent's role. Default: unified.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ROLE", value_parser = role))]
    pub role: Option<AgentRole>,
    /// The task of the agent. Default: the task of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub task: Option<String>,
    /// The toolset to use. Default: the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub toolset: Option<String>,
    /// The current question or event: a text, or in JSON an object with `content`,
    /// sender, platform and more. Default: none.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "event_or_text"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<EventOrText>"))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub event: Option<Event>,
    /// The id of the loom tree. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub tree: Option<String>,
    /// The node in the tree to continue from, by id or short name. Default: the
    /// end of the saved path, else the position of the agent, else the only leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NODE"))]
    pub head: Option<String>,
    /// The saved path, which chooses the branch and the versions of nodes.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub path: Option<String>,
    /// The agent of the tree that writes next. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub agent: Option<String>,
    /// Text at the end of a document that is not in the tree yet. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub working_buffer: Option<String>,
    /// Includes annotations. Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub include_annotations: bool,
    /// Instructions for the next node, placed after those of the path. Default:
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(long = "instruct", value_name = "TEXT", action = clap::ArgAction::Append)
    )]
    pub instructions: Vec<String>,
    /// Nodes of the tree to include as reference for the next node. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "NODE", action = clap::ArgAction::Append)
    )]
    pub context: Vec<String>,
    /// The query for memory. Default: the current task, else the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TEXT"))]
    pub query: Option<String>,
    /// Filters for memory. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "JSON", value_parser = filters)
    )]
    pub filters: Option<ContextFilters>,
    /// The archetype whose strategy memory uses. Default: the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub strategy: Option<String>,
    /// The stack of tasks. Default: `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub stack: Option<String>,
    /// The model, which determines window, tokenizer and provider. Default: the
    /// model of the tree's agent, else the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub model: Option<String>,
    /// The window in tokens. Default: the value in the manifest, else the model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub max_tokens: Option<Tokens>,
    /// Tokens reserved for the answer. Default: the value in the manifest, else 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub reserve_response: Option<Tokens>,
    /// Tokens reserved for tools. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub reserve_tools: Option<Tokens>,
    /// The output format. It determines the model when none is named, and is
    /// checked against the model when one is. Default: `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub format: Option<Format>,
    /// The time to use as the current time, for repeatable output. Default: the
    /// system clock.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "contexture_store::lenient_time"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "contexture_store::schema::Time"))]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub now: Option<Timestamp>,
}

/// The current question or event: a text, or an object with `content`.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum EventOrText {
    /// The text of the event.
    Text(String),
    /// The event with sender, platform and more.
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

impl Request {
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
