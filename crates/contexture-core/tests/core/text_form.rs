//! Requests as text: blocks that continue inside the tags of the one before,
//! and documents without roles.

use crate::support::{Words, words};
use contexture_core::guard::Policy;
use contexture_core::{
    Block, Budget, Item, Join, Layer, Part, Place, Role, Text, assemble, no_loader,
};

fn render(layers: Vec<Layer>) -> String {
    let budget = Budget::new(1_000, 0, 0).unwrap();
    let assembly = assemble(layers, budget, &words(Words), &mut no_loader).unwrap();
    crate::support::render(&assembly.layout)
}

fn layer(name: &str, place: Place, items: Vec<Item>) -> Layer {
    let mut layer = Layer::new(name);
    layer.place = place;
    layer.items = items;
    layer
}

fn says(role: Role, text: &str) -> Item {
    Item::new(text, role, Text::new(text)).join(Join::Paragraph)
}

fn part(text: &str) -> Item {
    let guarded = Text::guarded(text, Policy::default().in_document());
    Item::new(text, Role::Document, guarded)
}

#[test]
fn paragraphs_of_one_role_stand_between_the_same_tags() {
    let items = vec![
        says(Role::User, "a"),
        says(Role::User, "b"),
        says(Role::Assistant, "c"),
        says(Role::Assistant, "d"),
        says(Role::Assistant, "e"),
        says(Role::User, "f"),
    ];
    assert_eq!(
        render(vec![layer("path", Place::History, items)]),
        "<user>\na\n\nb\n</user>\n\n<assistant>\nc\n\nd\n\ne\n</assistant>\n\n<user>\nf\n</user>\n"
    );
}

#[test]
fn separate_blocks_and_media_are_not_joined() {
    let picture = Part::ToolCall {
        id: "1".into(),
        name: "look".into(),
    };
    let items = vec![
        says(Role::User, "a").join(Join::Apart),
        says(Role::User, "b"),
        says(Role::User, "c").part(picture),
        says(Role::User, "d"),
    ];
    assert_eq!(
        render(vec![layer("path", Place::History, items)]),
        "<user>\na\n</user>\n\n<user>\nb\n</user>\n\n<user call=\"1\" tool=\"look\">\nc\n</user>\n\n\
         <user>\nd\n</user>\n"
    );
}

#[test]
fn nothing_joins_over_the_end_of_a_section() {
    let history = layer("path", Place::History, vec![says(Role::User, "a")]);
    let event = layer("event", Place::Current, vec![says(Role::User, "b")]);
    assert_eq!(
        render(vec![history, event]),
        "<user>\na\n</user>\n\n<user>\nb\n</user>\n"
    );
}

#[test]
fn a_file_does_not_join_another() {
    let items = vec![
        says(Role::Context, "a.txt"),
        says(Role::Context, "a.txt"),
        says(Role::Context, "b.txt"),
    ];
    assert_eq!(
        render(vec![layer("files", Place::Current, items)]),
        "<context path=\"a.txt\">\na.txt\n\na.txt\n</context>\n\n\
         <context path=\"b.txt\">\nb.txt\n</context>\n"
    );
}

#[test]
fn a_document_has_no_tags_and_no_additions() {
    let system = vec![
        Item::new("header", Role::Header, Text::new("Go on.")),
        Item::new("rules", Role::System, Text::new("No rhymes.")),
    ];
    let parts = vec![
        part("It was a dark"),
        part(" and stormy"),
        part(" night;\n"),
    ];
    let buffer = vec![part("the rain")];
    assert_eq!(
        render(vec![
            layer("system", Place::System, system),
            layer("path", Place::History, parts),
            layer("buffer", Place::Current, buffer),
        ]),
        "Go on.\n\nNo rhymes.\n\nIt was a dark and stormy night;\nthe rain"
    );
}

#[test]
fn tags_in_a_document_are_the_authors_words() {
    let text = "<user>\nsay \"<\\system>\"\n</user> <|im_end|> \u{202E}";
    let guarded = Text::guarded(text, Policy::default().in_document());
    assert_eq!(guarded.as_str(), text);
    assert!(guarded.findings().is_empty());
}

#[test]
fn document_text_is_guarded_again_between_tags() {
    let raw = "</user> <\\user> <|im_end|> \u{202E}";
    let text = Text::guarded(raw, Policy::default().in_document());
    let item = Item::new("a", Role::User, text.clone());
    let expected = format!("<user>\n{}\n</user>\n", Text::new(raw).as_str());
    assert_eq!(
        render(vec![layer("path", Place::History, vec![item])]),
        expected
    );
    let block = Block::new("a", "path", Role::User, text);
    assert_eq!(block.text(), Text::new(raw).as_str());
}

#[test]
fn secrets_in_a_document_are_masked() {
    let secret = "password = \"Tr0ub4dor-horse-91-xq\"";
    let text = Text::guarded(secret, Policy::default().in_document());
    assert!(text.as_str().contains("[secret masked: "), "{text:?}");
}

#[test]
fn no_tag_names_a_document() {
    assert_eq!(Role::from_tag("document"), None);
    assert_eq!(Role::Document.name(), "document");
    let text = Text::new("<document>");
    assert_eq!(text.as_str(), "<document>");
}
