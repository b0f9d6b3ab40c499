//! A user's own `tokenizer.json`.
#![cfg(feature = "huggingface")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use contexture_core::{Budget, Counts, Cut, Item, Layer, Role, Text, assemble, markup, no_loader};
use contexture_tokens::{HuggingFace, TokenCounter, Tokenizer};

/// Words are tokens, and three line ends in a row are one: counts of lines do
/// not add up to the count of the whole.
const WORDS: &str = r#"{
  "version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
  "padding": null, "added_tokens": [], "normalizer": null,
  "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\w+|\\n{3}|[^\\w\\s]|\\n"}, "behavior": "Removed", "invert": true},
  "post_processor": null, "decoder": null,
  "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "world": 2}, "unk_token": "[UNK]"}
}"#;

fn words() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    std::fs::write(&path, WORDS).unwrap();
    (dir, path)
}

#[test]
fn a_file_counts_whole_texts_without_truncating_them() {
    let (_dir, path) = words();
    let counter = HuggingFace::from_file(&path).unwrap();
    assert_eq!(counter.name(), "tokenizer.json");
    assert!(counter.is_exact());
    assert_eq!(counter.count(""), 0);
    assert_eq!(counter.count("hello big wide world and more"), 6);
    assert_eq!(counter.count("a\n\n\nb"), 3);
    assert_eq!(counter.count_up_to("hello world", 1), None);
    let text = "hello world ".repeat(50);
    let prefix = counter.prefix_within(&text, 10);
    assert_eq!(counter.count(&text[..prefix]), 10);
}

#[test]
fn a_finished_request_is_within_the_budget_though_sums_do_not_add_up() {
    let (_dir, path) = words();
    let counter: Arc<dyn TokenCounter> = Tokenizer::HuggingFace(path).load().unwrap();
    assert!(!counter.sums_are_bounds());
    for budget in [90, 120, 160, 200, 400] {
        let mut layer = Layer::new("files");
        layer.items = (0..6)
            .map(|i| {
                let text = "one two three, four!\n\n\n".repeat(5 + i);
                let cut = [Cut::Never, Cut::Start, Cut::Middle, Cut::End][i % 4];
                Item::new(format!("{i}.md"), Role::Context, Text::new(&text)).cut(cut)
            })
            .collect();
        let counts = Counts::new(Arc::clone(&counter));
        let budget = Budget::new(budget, 0, 0).unwrap();
        let assembly = assemble(vec![layer], budget, &counts, &mut no_loader).unwrap();
        let counted = counter.count(&markup::render(&assembly.layout));
        assert!(counted <= assembly.report.budget.used);
        assert!(assembly.report.budget.used <= budget.available());
        assert!(!assembly.report.included.is_empty());
    }
}

#[test]
fn an_invalid_tokenizer_file_is_rejected_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    let told = |path: &std::path::Path| match HuggingFace::from_file(path) {
        Ok(_) => panic!("{} was read", path.display()),
        Err(error) => error.to_string(),
    };
    let missing = told(&path);
    assert!(missing.starts_with("cannot read tokenizer "), "{missing}");
    std::fs::write(&path, "{\"not\": \"one\"}").unwrap();
    let junk = told(&path);
    assert!(
        junk.contains("tokenizer.json is not a tokenizer: "),
        "{junk}"
    );
}
