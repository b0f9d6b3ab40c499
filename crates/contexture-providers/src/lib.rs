//! Renders an assembled context as the request of each provider.
//!
//! ```
//! use contexture_core::{Layout, markup};
//! use contexture_providers::{Format, Prompt};
//!
//! let layout = Layout::default();
//! let prompt = Prompt { max_output: Some(1024), ..Prompt::new(&layout, "gpt-4o", 9000) };
//! // A request that a provider would refuse is an error here, with the rule.
//! let refused = prompt.render(Format::Anthropic).unwrap_err();
//! assert_eq!(refused.rule, "anthropic.messages_not_empty");
//! assert_eq!(prompt.render(Format::Text).unwrap(), "");
//! ```
//!
//! Tools, calls, results, pictures and the model's reasoning are placed in the
//! fields that a provider has for them ([`Part`]). If it has a native field for
//! a role, the text is placed there without tags; otherwise the text keeps its
//! tags, so that its boundaries cannot be forged, as in the text form. No form
//! has more content than the text form, which is the one that was counted;
//! [`media_tokens`] returns the tokens of a medium beyond its text.
//!
//! A request that a provider would reject is an error here, with the name of
//! the rule: the conversation is checked before it is rendered, and the
//! finished request once more by [`preflight`], which can check any request.
//! [`usage_of`] and [`error_kind`] read a provider's answers.
//!
//! It does not send anything.

mod anthropic;
#[cfg(test)]
mod any_json;
mod check;
#[cfg(feature = "http")]
pub mod client;
mod conversation;
mod dialect;
mod endpoint;
mod gemini;
mod json;
mod marks;
mod media;
pub mod native;
mod openai;
mod openai_chat;
mod openai_completions;
mod openai_responses;
mod preflight;
mod response;
mod sampling;
mod split;

use std::fmt;

use contexture_core::{Block, Layout, Media, Part, Role, markup};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dialect::Dialect;
use crate::json::{Json, Node};
use crate::native::Api;

pub use endpoint::may_carry_key;
pub use marks::MOST_MARKS;
pub use media::{MediaLimits, describe, media_bytes, media_tokens};
pub use openai::has_cache_breakpoints;
pub use preflight::{preflight, preflight_continued};
pub use response::{ErrorKind, error_kind, usage_of};
pub use sampling::Sampling;

/// The formats that a request can be rendered in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "RequestFormat"))]
#[non_exhaustive]
pub enum Format {
    /// Contexture's own format, with the report.
    Json,
    /// Plain text with role tags.
    Text,
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// OpenAI Completions (legacy): one text that the model continues.
    #[serde(rename = "openai-completions")]
    OpenAiCompletions,
    /// Gemini `generateContent`.
    Gemini,
}

impl Format {
    /// Returns the format's name in requests and on the command line.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, format)| *format == self);
        named.map_or("json", |(name, _)| name)
    }

    /// Returns true when messages have fields of their own, and not tags.
    pub fn is_native(self) -> bool {
        !matches!(self, Format::Text | Format::OpenAiCompletions)
    }

    /// Every format with its name on the command line.
    pub const ALL: [(&'static str, Format); 7] = [
        ("text", Format::Text),
        ("json", Format::Json),
        ("anthropic", Format::Anthropic),
        ("openai-chat", Format::OpenAiChat),
        ("openai-responses", Format::OpenAiResponses),
        ("openai-completions", Format::OpenAiCompletions),
        ("gemini", Format::Gemini),
    ];
}

/// A request to be rendered.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    /// The content, in order.
    pub layout: &'a Layout,
    /// The model's name at the provider.
    pub model: &'a str,
    /// The maximum number of tokens of the answer. `None` for no limit.
    pub max_output: Option<u64>,
    /// The tokens left in the window, which limit the answer.
    pub spare: u64,
    /// Whether the model continues its own last message. That message may then
    /// also be the first, if the provider accepts that.
    pub continues: bool,
    /// Whether the conversation follows messages that the provider stores
    /// (`previous_response_id`). Results of calls that are not in the request
    /// are then accepted. Only OpenAI Responses has this.
    pub follows_stored: bool,
    /// The sampling settings for the answer.
    pub sampling: &'a Sampling,
    /// Tools that the model can search for: they are sent, but the provider puts
    /// them into the context only when the model finds them. Providers that
    /// [have no such search](defers_tools) do not get them.
    pub deferred: &'a [Block],
    /// The key by which the provider finds the cache of earlier requests. It is
    /// the same for all requests of a session, and contains no content. Only
    /// OpenAI uses it.
    pub cache_key: Option<&'a str>,
}

/// The limit on the answer if none is set and the provider requires one, or has
/// a very low default. The tokens left in the window limit it further.
const DEFAULT_MAX_TOKENS: u64 = 4096;

/// A request that the provider would reject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The name of the rule that the request breaks.
    pub rule: &'static str,
    /// The remedy.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.rule)
    }
}

impl std::error::Error for Refused {}

/// Returns true when a medium of an earlier message is replaced by its
/// description in a form, because the provider does not take it from that role.
pub fn describes(format: Format, role: Role, media: &Media) -> bool {
    let dialect = match format {
        Format::Json | Format::Text => return false,
        Format::Anthropic => &anthropic::DIALECT,
        Format::OpenAiChat | Format::OpenAiCompletions => &openai_chat::DIALECT,
        Format::OpenAiResponses => &openai_responses::DIALECT,
        Format::Gemini => &gemini::DIALECT,
    };
    let refused = (dialect.check_media)(media).is_err();
    refused || role == Role::Assistant && !dialect.model_media
}

/// Returns true when a provider's model can search for tools that are not in its
/// context (`defer_loading`): Claude from 4.5 on, and OpenAI's models from
/// gpt-5.4 on in Responses.
pub fn defers_tools(format: Format, model: &str) -> bool {
    match format {
        Format::Anthropic => anthropic::is_since(model, (4, 5)),
        Format::OpenAiResponses => openai::is_since(model, (5, 4)),
        _ => false,
    }
}

impl<'a> Prompt<'a> {
    /// Returns a prompt with everything else left to the provider.
    pub fn new(layout: &'a Layout, model: &'a str, spare: u64) -> Self {
        Self {
            layout,
            model,
            max_output: None,
            spare,
            continues: false,
            follows_stored: false,
            sampling: Sampling::unset(),
            cache_key: None,
            deferred: &[],
        }
    }
}

impl Prompt<'_> {
    /// Returns the maximum number of tokens of the answer, or `None` for no
    /// limit.
    pub(crate) fn limit(&self) -> Option<u64> {
        match (self.max_output, self.sampling.max_tokens) {
            (Some(limit), Some(asked)) => Some(limit.min(asked)),
            (limit, asked) => limit.or(asked),
        }
    }

    /// Returns the tools that the model can search for.
    pub(crate) fn deferred_tools(
        &self,
        format: Format,
        dialect: &Dialect,
    ) -> Result<Vec<conversation::Tool<'_>>, Refused> {
        let deferred = self
            .deferred
            .iter()
            .filter(|_| defers_tools(format, self.model));
        let tools = deferred.filter_map(|block| match &block.part {
            Part::Tool { name } => Some(conversation::tool_of(dialect, name, block)),
            _ => None,
        });
        tools.collect()
    }

    pub(crate) fn limit_or_default(&self) -> u64 {
        let default = || DEFAULT_MAX_TOKENS.min(self.spare).max(1);
        self.limit().unwrap_or_else(default)
    }

    /// Returns the request as bytes to send: text, or JSON.
    pub fn render(&self, format: Format) -> Result<String, Refused> {
        match format {
            Format::Text => Ok(markup::render(self.layout)),
            format => Ok(self.json(format)?.pretty()),
        }
    }

    /// Renders the request like [`render`](Self::render), but JSON without
    /// white space between its elements.
    pub fn render_compact(&self, format: Format) -> Result<String, Refused> {
        match format {
            Format::Text => Ok(markup::render(self.layout)),
            format => Ok(self.json(format)?.compact()),
        }
    }

    /// Renders the conversation of the request: the value of the field that has it,
    /// without white space between its elements.
    pub fn render_messages(&self, api: Api) -> Result<String, Refused> {
        let request = self.json(api.format())?;
        let messages = request.get(api.messages_field());
        messages.map(Json::compact).ok_or_else(|| Refused {
            rule: "no_messages",
            message: "the request has no conversation".to_owned(),
        })
    }

    /// Returns the request as JSON, after checking the provider's rules. The
    /// text form is a string.
    pub fn request(&self, format: Format) -> Result<Value, Refused> {
        self.json(format).map(Json::into_value)
    }

    fn json(&self, format: Format) -> Result<Json<'_>, Refused> {
        if format == Format::Json {
            return Err(Refused {
                rule: "own_form",
                message: "the form `json` has the report in it: it is made from an assembled \
                          request, not from a prompt"
                    .to_owned(),
            });
        }
        if format == Format::Anthropic {
            let request = self.within_window(&anthropic::DIALECT, anthropic::request)?;
            preflight::anthropic_made(&request, self.continues)?;
            return Ok(request);
        }
        if format == Format::OpenAiChat {
            let request = self.within_window(&openai_chat::DIALECT, openai_chat::request)?;
            preflight::chat_made(&request)?;
            return Ok(request);
        }
        let request = match format {
            Format::Json | Format::Text | Format::Anthropic | Format::OpenAiChat => {
                Json::Text(markup::render(self.layout).into())
            }
            Format::OpenAiResponses => {
                self.within_window(&openai_responses::DIALECT, openai_responses::request)?
            }
            Format::OpenAiCompletions => {
                Json::Value(self.within_window(&openai_chat::DIALECT, openai_completions::request)?)
            }
            Format::Gemini => self.within_window(&gemini::DIALECT, gemini::request)?,
        };
        let value = request.clone().into_value();
        preflight::made(format, &value, self)?;
        Ok(request)
    }

    fn within_window<'p, T>(
        &'p self,
        dialect: &Dialect,
        render: fn(&'p Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        match self.limit() {
            Some(0) => Err(Refused {
                rule: dialect.rules.window,
                message: "the request reserves 0 tokens for the answer; reserve at least 1"
                    .to_owned(),
            }),
            Some(limit) if limit > self.spare => Err(Refused {
                rule: dialect.rules.window,
                message: format!(
                    "an answer of {limit} tokens does not fit, since the window has {} left: ask \
                     for a shorter answer, or send less",
                    self.spare
                ),
            }),
            _ => render(self),
        }
    }
}
