//! The source `event`: the current question or event as items.
//!
//! The items are the context of the event (time, sender, platform), its
//! attachments, and its text, in this order. Only this source writes the
//! current time. The layer is the last of a request, so that everything before
//! it keeps its bytes from turn to turn.

use contexture_core::guard::Policy;
use contexture_core::{
    Code, Content, Item, Media, MediaKind, MediaSource, Part, Role, Text, Trust,
};
use contexture_providers::{describe, media_tokens};
use contexture_store::AgentRole;

use crate::error::Error;
use crate::event::{Attachment, Event, time_zone};
use crate::files::Root;
use crate::lines::load_file;
use crate::source::{Ask, Concept, Offer, Parameter, ParameterKind, Source};

/// Offers the current event: its context, its attachments, and its text, last.
///
/// Only this source writes the time, so that everything before it stays the
/// same from turn to turn.
#[derive(Debug, Default)]
pub struct EventSource;

const PARAMETERS: &[Parameter] = &[Parameter::new(
    "context",
    ParameterKind::Flag,
    "Whether time, timezone, platform and sender are placed before the event. Default: true when \
     the recipe has a history.",
)];

impl Source for EventSource {
    fn name(&self) -> &str {
        "event"
    }

    fn parameters(&self) -> &[Parameter] {
        PARAMETERS
    }

    fn concept(&self) -> Concept {
        Concept::Event
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        let Some(event) = &ask.request.event else {
            return Ok(Offer::default());
        };
        let mut items = Vec::new();
        if ask.flag("context").unwrap_or(ask.facts.is_agent) {
            if let Err(warning) = time_zone(event.timezone.as_deref()) {
                ask.warn(warning);
            }
            items.push(context(event, ask));
        }
        let limit = ask.engine.config().limits.max_file_bytes;
        for (i, attachment) in event.attachments.iter().enumerate() {
            items.push(attached(i, attachment, ask.root, limit, ask.policy));
        }
        for (i, hook) in event.hooks.iter().enumerate() {
            let text = hook.content.trim_end();
            let mut item = said(&format!("hook:{i}"), text, Trust::Retrieved, ask.policy);
            item.role = Role::Context;
            item.path = Some(format!("hook:{}", hook.name).into());
            items.push(item);
        }
        if !event.content.trim().is_empty() {
            let text = ask.without_reserved(event.content.trim_end());
            items.push(said("event", &text, Trust::User, ask.policy));
        }
        Ok(Offer::from(items).volatile())
    }
}

/// Returns the context of an event as an item.
fn context(event: &Event, ask: &Ask<'_>) -> Item {
    // Senders choose their own names: each name is limited to one line, so that
    // it cannot imitate one of our lines.
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = vec![
        // In whole seconds: fractions are noise to a model.
        format!("Current time: {:.0}", ask.now),
        format!(
            "Timezone: {}",
            line(event.timezone.as_deref().unwrap_or("UTC"))
        ),
    ];
    if ask.role() == AgentRole::Manager
        && let Some(platform) = &event.platform
    {
        lines.push(format!("Platform: {}", line(platform)));
        if !event.platform_actions.is_empty() {
            lines.push(format!(
                "Available actions: {}",
                line(&event.platform_actions.join(", "))
            ));
        }
    }
    if let Some(sender) = &event.sender {
        match (&sender.name, &sender.id) {
            (Some(name), Some(id)) => {
                lines.push(format!("Sender: {} ({})", line(name), line(id)));
            }
            (Some(one), None) | (None, Some(one)) => lines.push(format!("Sender: {}", line(one))),
            (None, None) => {}
        }
    }
    said(
        "event context",
        &lines.join("\n"),
        Trust::Operator,
        ask.policy,
    )
}

fn said(id: &str, text: &str, trust: Trust, policy: Policy) -> Item {
    let mut item = Item::new(id, Role::User, Text::guarded(text, policy)).pinned();
    item.priority = 1.0;
    item.trust = trust;
    item
}

fn attached(
    i: usize,
    attachment: &Attachment,
    root: &Root,
    max_file_bytes: u64,
    policy: Policy,
) -> Item {
    let id = format!("attachment:{i}");
    if let Some(media) = media_of(attachment) {
        let mut item = said(&id, &describe(&media), Trust::User, policy);
        item.surcharge = media_tokens(&media);
        item.part = Part::Media(media.into());
        return item;
    }
    if let Some(text) = &attachment.content {
        let mut item = said(&id, text.trim_end(), Trust::User, policy);
        item.role = Role::Context;
        let name = attachment.name.clone().unwrap_or_else(|| id.clone());
        item.path = Some(name.into());
        return item;
    }
    let path = attachment.path.clone().unwrap_or_default();
    let named = match attachment.lines {
        Some([first, last]) => format!("{path}#L{first}-L{last}"),
        None => path.clone(),
    };
    let content = match crate::files::check_path(&path) {
        Ok(()) => Content::Pending { bytes: 0, policy },
        Err(reason) => Content::Absent {
            code: Code::OUTSIDE_ROOT,
            reason,
        },
    };
    let mut item = Item::with_content(named.as_str(), Role::Context, content).pinned();
    item.content = load_file(root, max_file_bytes, &item);
    item.priority = 1.0;
    item
}

fn media_of(attachment: &Attachment) -> Option<Media> {
    let media_type = attachment.media_type.clone()?;
    let source = match (&attachment.data, &attachment.url) {
        (Some(data), _) => MediaSource::Data(data.clone()),
        (None, Some(url)) => MediaSource::Url(url.clone()),
        (None, None) => return None,
    };
    let kind = match media_type.split('/').next() {
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        _ => MediaKind::Document,
    };
    Some(Media {
        kind,
        media_type,
        source,
    })
}
