//! Documents (L6).

use contexture::Format;

use crate::support::{Lab, expect};

const STORY: &str = "
    buffer
    system Write like a child.
    agent poet: You are a poet.
    n1 human: Once upon a
    n2 model <- n1:  time, there was a fox.\\n
    n3 human excluded <- n2: It was red.
    n4 human <- n2: \\nThe fox\\n
    n5 model <- n4: slept.
";

#[test]
fn a_document_is_what_its_authors_wrote() {
    let lab = Lab::with(STORY);
    let expected = "Once upon a time, there was a fox.\n\nThe fox\nslept.";
    assert_eq!(lab.text("--head n5"), expected);
    let assembled = lab.assemble("--head n5 --agent poet").unwrap();
    let json = assembled.to_json();
    assert_eq!(json["document"], expected);
    assert_eq!(json["system_prompt"], "");
    assert_eq!(json["current_message"], serde_json::Value::Null);
    assert_eq!(json["history"], serde_json::json!([]));
}

#[test]
fn the_working_buffer_follows_the_document() {
    let lab = Lab::with(STORY);
    assert_eq!(
        lab.text("--head n2 --working-buffer The"),
        "Once upon a time, there was a fox.\nThe"
    );
}

#[test]
fn the_system_context_is_there_where_the_tree_says_so() {
    let lab = Lab::with(&format!("with system\n{STORY}"));
    expect(
        &lab.text("--head n1 --agent poet"),
        "
        You are a poet.

        Write like a child.

        Once upon a
        ",
    );
    let assembled = lab.assemble("--head n1 --agent poet").unwrap();
    let json = assembled.to_json();
    assert_eq!(json["document"], "Once upon a");
    assert_eq!(
        json["system_prompt"],
        "You are a poet.\n\nWrite like a child."
    );
    let body = assembled.render(Format::Anthropic).unwrap();
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["messages"].as_array().unwrap().len(), 1, "{body}");
    assert!(
        body["system"].to_string().contains("You are a poet."),
        "{body}"
    );
}

#[test]
fn completions_take_the_document() {
    let lab = Lab::with(STORY);
    let assembled = lab.assemble("--head n1 --max-tokens 2000").unwrap();
    let body = assembled.render(Format::OpenAiCompletions).unwrap();
    expect(
        &body,
        "
        {
          \"model\": \"gpt-4o\",
          \"prompt\": \"Once upon a\",
          \"max_tokens\": 1024
        }
        ",
    );
}

#[test]
fn text_that_looks_like_a_tag_is_text() {
    let lab = Lab::with(
        "
        buffer
        n1 human: <user>hello</user>\\n
        n2 model <- n1: </system> was all it said.
        ",
    );
    assert_eq!(
        lab.text("--head n2"),
        "<user>hello</user>\n</system> was all it said."
    );
}

#[test]
fn blanks_are_text_too() {
    let lab = Lab::with(
        "
        buffer
        n1 human: a
        n2 model <- n1: \\n\\n
        n3 human <- n2: b
        ",
    );
    assert_eq!(lab.text("--head n3"), "a\n\nb");
}

#[test]
fn a_picture_has_no_place_in_a_document() {
    let lab = Lab::with(
        "
        buffer
        n1 human: Look: 
        n2 human <- n1: !image https://example.com/a.png
        n3 model <- n2: a cat.
        ",
    );
    assert_eq!(lab.text("--head n3"), "Look: a cat.".replace(": a", ":a"));
    expect(
        &lab.left_out("--head n3"),
        "n2: not_for_provider (not text: documents contain text only)",
    );
}

#[test]
fn a_document_must_end_at_the_head_node() {
    let long = "and on it goes, ".repeat(40);
    let lab = Lab::with(&format!(
        "
        buffer
        prefer token_buffer 0
        n1 human: Once.
        n2 human <- n1: {long}to the end
        "
    ));
    for budget in 1..120 {
        for request in [
            format!("--head n2 --max-tokens {budget}"),
            format!("--head n1 --max-tokens {budget} --working-buffer {long}to the end"),
        ] {
            match lab.assemble(&request) {
                Ok(made) => {
                    let text = made.render(contexture::Format::Text).unwrap();
                    assert!(text.ends_with(" end"), "{budget}: {text}");
                }
                Err(error) => {
                    let no_room = format!("no room for the latest node: 0 of {budget} ");
                    let no_room = error.to_string().starts_with(&no_room);
                    assert!(no_room && budget < 30, "{budget}: {error}");
                }
            }
        }
    }
}

#[test]
fn invisible_characters_stay_in_the_block_of_their_author() {
    let text = "\u{200f}\u{5e9}\u{5dc}\u{5d5}\u{5dd}\u{200f} soft\u{ad}ly \u{feff}\u{2028} \u{1f3f4}\u{e0067}\u{e007f}\r\nend\u{200b}";
    let mut tree = crate::support::tree("buffer\nn1 human: x");
    tree.nodes[0].content = contexture::store::MessageContent::Text(text.to_owned());
    let lab = Lab::new("");
    let now = Some(crate::support::now());
    lab.engine.import_tree(&tree, now).unwrap();
    assert_eq!(lab.text("--head n1"), text);
}

#[test]
fn a_working_buffer_does_not_make_the_story_vanish() {
    let words: Vec<String> = (1..=300).map(|n| format!("w{n}")).collect();
    for strategy in ["rolling_window", "truncate_middle"] {
        let lab = Lab::with(&format!(
            "
            buffer
            prefer truncation_strategy {strategy}
            prefer token_buffer 0
            n0 human: It began.
            n1 model <- n0: {}
            ",
            words.join(" ")
        ));
        let text = lab.text("--head n1 --max-tokens 200 --working-buffer And");
        assert!(text.ends_with(" w299 w300And"), "{text}");
        assert!(text.contains(" of n1 cut"), "{text}");
        let used = lab.assemble("--head n1 --max-tokens 200 --working-buffer And");
        assert!(used.unwrap().report.budget.used > 150);
    }
}
