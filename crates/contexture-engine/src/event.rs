//! [`Event`]: the current question or event, with sender, platform,
//! attachments and hooks.

use contexture_store::Source;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::advice::Warning;
use crate::error::Error;
use crate::turn::json_with_path;

/// Returns the time zone with this name. Returns UTC without a name.
///
/// Fails with a warning if the name is unknown.
pub fn time_zone(zone: Option<&str>) -> Result<TimeZone, Warning> {
    let Some(zone) = zone.map(str::trim).filter(|zone| !zone.is_empty()) else {
        return Ok(TimeZone::UTC);
    };
    DateTimeParser::new().parse_time_zone(zone).map_err(|_| {
        let message = format!(
            "the time zone `{zone}` is unknown; times are read and shown in UTC. Use a name such \
             as `Europe/Berlin` or an offset such as `+02:00`"
        );
        Warning::new("unknown_time_zone", message)
    })
}

/// The current user message with its context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "an event: an object with `content`")]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::event))]
pub struct Event {
    /// The text of the message. It can be empty if there are attachments.
    pub content: String,
    /// The sender's time zone, such as `Europe/Berlin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The platform that the message came from, such as `slack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The actions that the platform supports, such as `reply`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platform_actions: Vec<String>,
    /// Texts that hooks add to the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The sender of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// The attachments of the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The cause of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A text that a hook adds to a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    deny_unknown_fields,
    expecting = "a hook: an object with `name` and `content`"
)]
pub struct Hook {
    /// The name of the hook.
    pub name: String,
    /// The text that the hook adds.
    pub content: String,
}

/// The sender of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a sender: an object with `name` or `id`"
)]
pub struct Sender {
    /// The sender's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The sender's id on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// An attachment: a file below the root, a text, or media. Exactly one of
/// `path`, `content`, `data` and `url` is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "an attachment: an object with `path`, `content`, `data` or `url`"
)]
#[cfg_attr(feature = "schema", schemars(transform = crate::schema::attachment))]
pub struct Attachment {
    /// The path of a file, relative to the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The first and the last line of the file to include, from 1. Default: all
    /// lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<[u32; 2]>,
    /// The display name of the attachment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text of the attachment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The media type of `data` or `url`, such as `image/png`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The bytes of the attachment in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The URL of the attachment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl From<&str> for Event {
    fn from(content: &str) -> Self {
        Self {
            content: content.to_owned(),
            ..Self::default()
        }
    }
}

impl Event {
    /// Reads an event: a JSON object, or else plain text. Text that begins like
    /// an object, or comes from a file whose name ends with `.json`, must be
    /// valid JSON, so that half a message is not sent to a model as text. Error
    /// messages refer to the input by `name`.
    pub fn read(name: &str, text: &str) -> Result<Self, Error> {
        let is_json_file = name.to_ascii_lowercase().ends_with(".json");
        let start = text.trim_start();
        // A brace and a quotation mark indicate JSON, complete or truncated.
        // Such a text must be sent as a JSON event.
        let looks_like_one = start
            .strip_prefix('{')
            .is_some_and(|rest| rest.trim_start().starts_with(['"', '}']));
        if !is_json_file && !looks_like_one {
            return Ok(Self::from(text.trim_end()));
        }
        let event: Self = json_with_path(name, text).map_err(|error| {
            error.advise("write an event as `{\"content\":\"…\",\"timezone\":\"Europe/Berlin\"}`")
        })?;
        event.check(name)?;
        Ok(event)
    }

    /// Checks the rules that the types do not express.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        let refuse =
            |field: String, message: &str| Err(Error::input(format!("{name}: {field}: {message}")));
        if self.content.trim().is_empty() && self.attachments.is_empty() {
            return refuse("content".to_owned(), "the event is empty");
        }
        for (i, attachment) in self.attachments.iter().enumerate() {
            let ways = [
                attachment.path.is_some(),
                attachment.content.is_some(),
                attachment.data.is_some(),
                attachment.url.is_some(),
            ];
            let field = format!("attachments[{i}]");
            if ways.iter().filter(|given| **given).count() != 1 {
                return refuse(field, "needs one of `path`, `content`, `data` and `url`");
            }
            let is_media = attachment.data.is_some() || attachment.url.is_some();
            if is_media && attachment.media_type.is_none() {
                return refuse(field, "needs a `media_type` such as image/png");
            }
            if let Some([first, last]) = attachment.lines
                && (first == 0 || last < first || attachment.path.is_none())
            {
                return refuse(
                    format!("{field}.lines"),
                    "must be the first and the last line of a `path`, counted from 1",
                );
            }
        }
        Ok(())
    }
}
