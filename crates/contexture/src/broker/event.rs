use contexture_core::guard::Policy;
use contexture_core::{
    Code, Content, Item, Media, MediaKind, MediaSource, Part, Role, Text, Trust,
};
use contexture_providers::{describe, media_tokens};
use contexture_store::AgentRole;
use jiff::Timestamp;

use crate::event::{Attachment, Event};
use crate::files::Root;
use crate::source::FileLoader;

/// Returns the current message: what is known about the event, then the event
/// itself, last.
///
/// The clock stands here and nowhere else: what comes before it is the same
/// from turn to turn.
pub(crate) fn event_items(
    event: &Event,
    role: AgentRole,
    now: Timestamp,
    root: &Root,
    max_file_bytes: u64,
    policy: Policy,
) -> Vec<Item> {
    // Senders choose their own names: what they are called is one line each,
    // and cannot be taken for a line of ours.
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = vec![
        // In whole seconds: fractions are noise to a model.
        format!("Current time: {now:.0}"),
        format!(
            "Timezone: {}",
            line(event.timezone.as_deref().unwrap_or("UTC"))
        ),
    ];
    if role == AgentRole::Manager
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
    let mut items = vec![said(
        "event context",
        &lines.join("\n"),
        Trust::Operator,
        policy,
    )];
    let loader = FileLoader {
        root,
        max_file_bytes,
    };
    for (i, attachment) in event.attachments.iter().enumerate() {
        items.push(attached(i, attachment, &loader, policy));
    }
    for (i, hook) in event.hooks.iter().enumerate() {
        let mut item = said(
            &format!("hook:{i}"),
            hook.content.trim_end(),
            Trust::Retrieved,
            policy,
        );
        item.role = Role::Context;
        item.path = Some(format!("hook:{}", hook.name).into());
        items.push(item);
    }
    if !event.content.trim().is_empty() {
        items.push(said("event", event.content.trim_end(), Trust::User, policy));
    }
    items
}

fn said(id: &str, text: &str, trust: Trust, policy: Policy) -> Item {
    let mut item = Item::new(id, Role::User, Text::guarded(text, policy)).pinned();
    item.priority = 1.0;
    item.trust = trust;
    item
}

fn attached(i: usize, attachment: &Attachment, loader: &FileLoader<'_>, policy: Policy) -> Item {
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
            code: Code::OutsideRoot,
            reason,
        },
    };
    let mut item = Item::with_content(named.as_str(), Role::Context, content).pinned();
    item.content = loader.load(&item);
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
