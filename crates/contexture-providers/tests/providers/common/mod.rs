//! Layouts for the tests: messages in their order.
// Each test file uses its own part of this.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod generate;

use std::sync::Arc;

use contexture_core::{
    Budget, Counts, Item, Layer, Layout, Media, MediaKind, MediaSource, Part, Place, Role, Text,
    TokenCounter, Tokens, assemble, no_loader,
};
use contexture_providers::{Format, Prompt, Refused};
use serde_json::Value;

/// The formats that are JSON.
pub const FORMATS: [Format; 4] = [
    Format::Anthropic,
    Format::OpenAiChat,
    Format::OpenAiResponses,
    Format::Gemini,
];

/// A picture of one pixel.
pub const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

/// The name of a format on the command line.
pub fn name(format: Format) -> &'static str {
    let named = Format::ALL.iter().find(|(_, other)| *other == format);
    named.unwrap().0
}

/// Counts runs of letters and digits: no text has more of them in its parts
/// than as a whole.
#[derive(Clone)]
pub struct Runs;

impl TokenCounter for Runs {
    fn name(&self) -> &str {
        "runs"
    }
    fn is_exact(&self) -> bool {
        true
    }
    fn count(&self, text: &str) -> Tokens {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|run| !run.is_empty())
            .count() as Tokens
    }
}

/// The content of each part of a layout.
#[derive(Debug, Clone, Default)]
pub struct Talk {
    pub system: Vec<Item>,
    pub history: Vec<Item>,
    pub current: Vec<Item>,
    /// New in each request, after everything else.
    pub event: Vec<Item>,
}

impl Talk {
    pub fn layout(&self) -> Layout {
        let layer = |name: &str, place, volatile, items: &[Item]| {
            let mut layer = Layer::new(name);
            layer.place = place;
            layer.volatile = volatile;
            layer.items = items.to_vec();
            for (at, item) in layer.items.iter_mut().enumerate() {
                item.id = format!("{} {at}", item.id).into();
            }
            layer
        };
        let layers = vec![
            layer("rules", Place::System, false, &self.system),
            layer("turns", Place::History, false, &self.history),
            layer("files", Place::Current, false, &self.current),
            layer("now", Place::Current, true, &self.event),
        ];
        let counts = Counts::new(Arc::new(Runs));
        let budget = Budget::new(100_000_000, 0, 0).unwrap();
        let assembly = assemble(layers, budget, &counts, &mut no_loader).unwrap();
        assert_eq!(assembly.report.excluded.len(), 0, "everything fits");
        assembly.layout
    }

    pub fn request(&self, format: Format) -> Result<Value, Refused> {
        self.request_for(format, "some-model")
    }

    pub fn request_for(&self, format: Format, model: &str) -> Result<Value, Refused> {
        let layout = self.layout();
        let prompt = Prompt {
            max_output: Some(500),
            ..Prompt::new(&layout, model, 9000)
        };
        Ok(unmarked(prompt.request(format)?, &layout))
    }

    /// The rule that the request breaks.
    pub fn broken(&self, format: Format) -> &'static str {
        let refused = self.request(format).unwrap_err();
        assert!(!refused.message.is_empty());
        refused.rule
    }
}

/// Returns a request without the marks in its tags.
pub fn unmarked(request: Value, layout: &Layout) -> Value {
    let text = request.to_string();
    let text = text.replace(&format!("-{}", layout.mark), "");
    serde_json::from_str(&text).unwrap()
}

/// Puts items in one group, which is kept or dropped as one.
pub fn turn(group: &str, items: Vec<Item>) -> Vec<Item> {
    items.into_iter().map(|item| item.group(group)).collect()
}

pub fn said(role: Role, text: &str) -> Item {
    Item::new("said", role, Text::new(text))
}

pub fn user(text: &str) -> Item {
    said(Role::User, text)
}

pub fn model(text: &str) -> Item {
    said(Role::Assistant, text)
}

pub fn file(path: &str, text: &str) -> Item {
    Item::new(path, Role::Context, Text::new(text))
}

pub fn tool(name: &str, json: &str) -> Item {
    said(Role::System, json).part(Part::Tool { name: name.into() })
}

pub fn call(id: &str, name: &str, json: &str) -> Item {
    model(json).part(Part::ToolCall {
        id: id.into(),
        name: name.into(),
    })
}

fn outcome(id: &str, name: &str, text: &str, is_error: bool) -> Item {
    said(Role::Tool, text).part(Part::ToolResult {
        id: id.into(),
        name: name.into(),
        is_error,
    })
}

pub fn result(id: &str, name: &str, text: &str) -> Item {
    outcome(id, name, text, false)
}

pub fn failure(id: &str, name: &str, text: &str) -> Item {
    outcome(id, name, text, true)
}

pub fn thought(text: &str, signature: &str) -> Item {
    model(text).part(Part::Thinking {
        signature: signature.into(),
    })
}

pub fn media(role: Role, kind: MediaKind, media_type: &str, source: MediaSource) -> Item {
    let media = Media {
        kind,
        media_type: media_type.into(),
        source,
    };
    let text = contexture_providers::describe(&media);
    said(role, &text).part(Part::Media(Arc::new(media)))
}

pub fn picture(role: Role) -> Item {
    let data = MediaSource::Data(PIXEL.into());
    media(role, MediaKind::Image, "image/png", data)
}

pub fn data(base64: &str) -> MediaSource {
    MediaSource::Data(base64.into())
}

pub fn url(url: &str) -> MediaSource {
    MediaSource::Url(url.into())
}
