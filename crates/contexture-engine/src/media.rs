//! Keeps media within a provider's limits: the newest are sent, and a line of
//! text replaces each of the others.
//!
//! Providers limit the number of images and documents of a request, and their
//! bytes. The oldest are replaced ten at a time, so that the provider's prompt
//! cache is lost once for ten images and not for each.

use std::sync::Arc;

use contexture_core::{
    Code, Content, Item, Layer, Media, MediaKind, MediaSource, Part, Place, Text, grouped,
};
use contexture_providers::{MediaLimits, describe, media_bytes};

use crate::advice::Warning;
use crate::error::Error;
use crate::report::Report;

/// The number of media that are replaced together.
const STEP: usize = 10;

/// Replaces media that a provider does not accept by a line with their handle.
///
/// Fails if a medium of the current message is not accepted: content that the
/// user has just sent is never replaced.
pub(crate) fn limit(
    layers: &mut [Layer],
    limits: &MediaLimits,
    provider: &str,
) -> Result<(), Error> {
    let mut found = Vec::new();
    collect(layers, &mut found);
    // Oldest first.
    found.sort_by_key(|(_, place)| *place as u8);
    let mut media: Vec<(usize, u64)> = Vec::new();
    for at in 0..found.len() {
        let Some(medium) = medium_of(&*found[at].0) else {
            continue;
        };
        let bytes = media_bytes(medium);
        if medium.kind != MediaKind::Image || bytes <= limits.image_bytes {
            media.push((at, bytes));
            continue;
        }
        let why = format!(
            "{} bytes of base64 are more than the {} that {provider} accepts for an image",
            grouped(bytes),
            grouped(limits.image_bytes)
        );
        if found[at].1 == Place::Current {
            return Err(Error::input(format!("{}: {why}", found[at].0.id))
                .advise("scale the image down, or send its URL"));
        }
        replace(&mut found, at, &why);
    }
    let total: u64 = media.iter().map(|(_, bytes)| bytes).sum();
    if media.len() > limits.number || total > limits.bytes {
        let why = match media.len() > limits.number {
            true => format!(
                "{provider} accepts at most {} media in a request",
                grouped(limits.number as u64)
            ),
            false => format!(
                "{provider} accepts at most about {} bytes of media in a request",
                grouped(limits.bytes)
            ),
        };
        let mut kept = media.len();
        let mut bytes = total;
        let mut oldest = 0;
        while kept > limits.number || bytes > limits.bytes {
            bytes -= media[oldest].1;
            kept -= 1;
            oldest += 1;
        }
        let is_current = |(at, _): &(usize, u64)| found[*at].1 == Place::Current;
        let earlier = media.iter().take_while(|one| !is_current(one)).count();
        if oldest > earlier {
            return Err(Error::input(format!(
                "the current message has {} media with {} bytes, but {why}",
                grouped((media.len() - earlier) as u64),
                grouped(media[earlier..].iter().map(|(_, bytes)| bytes).sum()),
            ))
            .advise("send fewer or smaller attachments"));
        }
        let oldest = oldest.next_multiple_of(STEP).min(earlier);
        for (at, _) in &media[..oldest] {
            replace(&mut found, *at, &why);
        }
    }
    Ok(())
}

/// Returns a warning if lines of text replace media in the request.
pub(crate) fn warning(report: &Report) -> Option<Warning> {
    let mut rows = report.included.iter();
    let mut rows = rows.by_ref().filter(|row| row.code == Code::MEDIA_LIMIT);
    let first = rows.next()?;
    let number = 1 + rows.count() as u64;
    let what = match number {
        1 => "1 image or document of an earlier message is".to_owned(),
        _ => format!(
            "{} images or documents of earlier messages are",
            grouped(number)
        ),
    };
    Some(Warning::new(
        "media_left_out",
        format!("{what} replaced by a line: {}", first.reason),
    ))
}

/// Collects media, and the tool results that may contain media in their own
/// form.
fn collect<'l>(layers: &'l mut [Layer], found: &mut Vec<(&'l mut Item, Place)>) {
    for layer in layers {
        let place = layer.place;
        let items = layer.items.iter_mut();
        let wanted = items.filter(|item| {
            let is_native = matches!(item.part, Part::ToolResult { .. }) && item.native.is_some();
            medium_of(item).is_some() || is_native
        });
        found.extend(wanted.map(|item| (item, place)));
        collect(&mut layer.layers, found);
    }
}

/// Returns the medium of an item, unless it is replaced already.
fn medium_of(item: &Item) -> Option<&Media> {
    match &item.part {
        Part::Media(media) if item.replaced.is_none() => Some(media),
        _ => None,
    }
}

fn replace(found: &mut [(&mut Item, Place)], at: usize, why: &str) {
    let item = &mut *found[at].0;
    let Part::Media(media) = &item.part else {
        return;
    };
    let what = describe(media);
    let what = what.trim_end_matches(']');
    let handle = match &item.handle {
        Some(handle) => format!("; fetch {handle}"),
        None => String::new(),
    };
    item.content = Content::Ready(Text::new(&format!("{what}, left out{handle}]")));
    // For a medium without a source, its text is sent.
    item.part = Part::Media(Arc::new(Media {
        kind: media.kind,
        media_type: media.media_type.clone(),
        source: MediaSource::Url(String::new()),
    }));
    item.replaced = Some(why.into());
    item.surcharge = 0;
    item.native = None;
    // The provider's own form of a result contains its media.
    let group = item.group.clone();
    let before = found[..at].iter_mut().rev();
    let result = before
        .take_while(|(other, _)| other.group == group)
        .find(|(other, _)| matches!(other.part, Part::ToolResult { .. }));
    if let Some((result, _)) = result {
        result.native = None;
    }
}

#[cfg(test)]
mod tests {
    use contexture_core::Role;

    use super::*;

    const LIMITS: MediaLimits = MediaLimits {
        number: 20,
        bytes: 10_000,
        image_bytes: 1_000,
    };

    fn image(id: usize, bytes: usize) -> Item {
        let mut item = Item::new(format!("i{id}"), Role::User, Text::new("[image]"));
        item.part = Part::Media(Arc::new(Media {
            kind: MediaKind::Image,
            media_type: "image/png".to_owned(),
            source: MediaSource::Data("A".repeat(bytes)),
        }));
        item.surcharge = 100;
        item.handle = Some("sha256:0123456789ab".into());
        item
    }

    fn layers(history: Vec<Item>, current: Vec<Item>) -> Vec<Layer> {
        let layer = |name: &str, place, items| {
            let mut layer = Layer::new(name);
            layer.place = place;
            layer.items = items;
            layer
        };
        // The order of layers does not matter.
        vec![
            layer("now", Place::Current, current),
            layer("turns", Place::History, history),
        ]
    }

    fn images(number: usize, bytes: usize) -> Vec<Item> {
        (0..number).map(|id| image(id, bytes)).collect()
    }

    fn replaced(layers: &[Layer]) -> Vec<&str> {
        let items = layers.iter().flat_map(|layer| &layer.items);
        let replaced = items.filter(|item| item.replaced.is_some());
        replaced.map(|item| &*item.id).collect()
    }

    #[test]
    fn the_newest_are_kept_and_the_oldest_replaced_ten_at_a_time() {
        for (number, gone) in [(20, 0), (21, 10), (30, 10), (31, 20)] {
            let mut layers = layers(images(number, 100), Vec::new());
            limit(&mut layers, &LIMITS, "anthropic").unwrap();
            let expected: Vec<String> = (0..gone).map(|id| format!("i{id}")).collect();
            assert_eq!(replaced(&layers), expected, "{number} images");
        }
        let mut layers = layers(images(19, 100), vec![image(19, 100), image(20, 100)]);
        limit(&mut layers, &LIMITS, "anthropic").unwrap();
        assert_eq!(replaced(&layers).len(), 10);
        // Media that were replaced do not change again.
        limit(&mut layers, &LIMITS, "anthropic").unwrap();
        assert_eq!(replaced(&layers).len(), 10);
    }

    #[test]
    fn bytes_count_like_numbers() {
        let mut layers = layers(images(12, 900), Vec::new());
        limit(&mut layers, &LIMITS, "anthropic").unwrap();
        assert_eq!(replaced(&layers).len(), 10);
        let item = &layers[1].items[0];
        let Content::Ready(text) = &item.content else {
            panic!("it is not ready")
        };
        assert_eq!(
            text.as_str(),
            "[image image/png, 675 bytes, left out; fetch sha256:0123456789ab]"
        );
        assert_eq!(item.surcharge, 0);
    }

    #[test]
    fn an_image_that_is_too_large_is_replaced_or_refused() {
        let mut old = layers(vec![image(0, 1_001), image(1, 1_000)], Vec::new());
        limit(&mut old, &LIMITS, "anthropic").unwrap();
        assert_eq!(replaced(&old), ["i0"]);
        let mut new = layers(Vec::new(), vec![image(0, 1_001)]);
        let error = limit(&mut new, &LIMITS, "anthropic").unwrap_err();
        assert_eq!(
            error.to_string(),
            "i0: 1,001 bytes of base64 are more than the 1,000 that anthropic accepts for an image"
        );
        let mut many = layers(images(3, 100), images(21, 100));
        let error = limit(&mut many, &LIMITS, "anthropic").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the current message has 21 media with 2,100 bytes")
        );
    }
}
