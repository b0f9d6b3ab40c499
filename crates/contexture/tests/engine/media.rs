//! Images and documents within the limits of providers: the newest are sent,
//! and each of the others is replaced by a line with a handle.

use crate::support::*;
use contexture::store::{Block, MessageRole};
use contexture::{Attachment, Event, FetchRequest, FitOptions, Format, Request};
use serde_json::{Value, json};

/// An image that is like no other. It has no size that could be read, so that
/// it costs as much as the largest.
fn picture(number: usize) -> Block {
    Block::Image {
        media_type: "image/png".to_owned(),
        data: Some(format!("{number:0>300}")),
        url: None,
        native: None,
    }
}

/// Records as many turns with an image each.
fn show(lab: &Lab, from: usize, to: usize) {
    for number in from..to {
        let asked = blocks(MessageRole::User, [text("What is this?"), picture(number)]);
        lab.record("s", &turn([asked, says("A pier.")]));
    }
}

fn large() -> Request {
    Request {
        model: Some("claude-sonnet-5-5".to_owned()),
        ..request("s", 990_000)
    }
}

/// Returns the images of a request for Anthropic, and the lines that replace
/// others.
fn images(request: &Value) -> (usize, Vec<String>) {
    let messages = request["messages"].as_array().unwrap();
    let blocks = messages
        .iter()
        .flat_map(|message| message["content"].as_array().unwrap());
    let (mut sent, mut lines) = (0, Vec::new());
    for block in blocks {
        sent += usize::from(block["type"] == "image");
        let text = block["text"].as_str().unwrap_or_default();
        if text.contains("left out") {
            lines.push(text.to_owned());
        }
    }
    (sent, lines)
}

#[test]
fn the_newest_hundred_images_are_sent_to_anthropic() {
    let lab = Lab::new("");
    lab.session("s");
    show(&lab, 0, 101);
    let assemble = || {
        let made = lab.engine.assemble(&lab.root, &large()).unwrap();
        let body: Value = serde_json::from_str(&made.render(Format::Anthropic).unwrap()).unwrap();
        (images(&body), made)
    };
    let ((sent, lines), made) = assemble();
    assert_eq!((sent, lines.len()), (91, 10));
    let rows = made.report.included.iter();
    let rows: Vec<_> = rows
        .filter(|row| row.code.as_str() == "media_limit")
        .collect();
    assert_eq!(rows.len(), 10);
    assert_eq!(
        rows[0].reason.to_string(),
        "anthropic accepts at most 100 media in a request"
    );
    assert!(rows[0].truncated && rows[0].tokens < 200);
    let warnings: Vec<&str> = made.report.warnings.iter().map(|w| &*w.code).collect();
    assert!(warnings.contains(&"media_left_out"), "{warnings:?}");

    // The next ones change nothing of what was sent before.
    show(&lab, 101, 110);
    let ((sent, again), made) = assemble();
    assert_eq!((sent, &again), (100, &lines));
    assert!(!made.report.cache.as_ref().unwrap().broken);
    show(&lab, 110, 111);
    let ((sent, again), made) = assemble();
    assert_eq!((sent, again.len()), (91, 20));
    assert!(made.report.cache.as_ref().unwrap().broken);

    // The handle leads to the image.
    let (_, handle) = lines[3].split_once("fetch ").unwrap();
    let handle = handle.trim_end_matches(']');
    let fetched = lab.engine.fetch(handle, &FetchRequest::default()).unwrap();
    assert_eq!(fetched.media_type.as_deref(), Some("image/png"));
    assert_eq!(fetched.text, format!("{:0>300}", 3));
    let grep = FetchRequest {
        grep: Some("0".to_owned()),
        ..FetchRequest::default()
    };
    let error = lab.engine.fetch(handle, &grep).unwrap_err();
    assert_eq!(error.field(), Some("grep"));
}

#[test]
fn an_attachment_of_twenty_megabytes_is_refused_with_its_size() {
    let lab = Lab::new("");
    lab.session("s");
    let mut event = Event::from("What is this?");
    event.attachments = vec![Attachment {
        media_type: Some("image/png".to_owned()),
        data: Some("A".repeat(20_000_000)),
        ..Attachment::default()
    }];
    let asked = Request {
        event: Some(event),
        ..large()
    };
    let error = lab.engine.assemble(&lab.root, &asked).unwrap_err();
    assert!(error.is_input());
    assert_eq!(
        error.to_string(),
        "attachment:0: 20,000,000 bytes of base64 are more than the 5,242,880 that anthropic \
         accepts for an image"
    );
}

#[test]
fn an_image_of_twenty_megabytes_does_not_stop_a_conversation() {
    let lab = Lab::new("");
    let image = json!({"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "A".repeat(20_000_000)}});
    let body = json!({"model": "claude-sonnet-5-5", "max_tokens": 1000, "messages": [
        {"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]},
        {"role": "assistant", "content": "I cannot tell."},
        {"role": "user", "content": "Then go on."},
    ]});
    let body = body.to_string();
    let fitted = lab
        .engine
        .fit(&lab.root, body.as_bytes(), &FitOptions::default())
        .unwrap();
    assert!(fitted.is_changed);
    let sent: Value = serde_json::from_str(&fitted.body).unwrap();
    let (sent, lines) = images(&sent);
    assert_eq!(sent, 0);
    assert_eq!(lines, ["[image image/png, 15,000,000 bytes, left out]"]);
}
