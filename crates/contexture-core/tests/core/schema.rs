//! The schema of a report is what a report is.

use contexture_core::schema::{input, output};
use contexture_core::{
    Budget, ContentHash, Counts, Cut, Item, Layer, Report, Role, Text, TokenCounter, Usage,
    assemble, no_loader,
};
use serde_json::{Value, json};

struct Words;

impl TokenCounter for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }
}

fn is_valid<T: schemars::JsonSchema>(value: &Value) -> bool {
    let schema = output().into_root_schema_for::<T>();
    let validator = jsonschema::draft202012::new(schema.as_value()).unwrap();
    validator.is_valid(value)
}

#[test]
fn a_report() {
    let mut files = Layer::new("files");
    let long = "one two three four five six\n".repeat(60);
    files.items = vec![
        Item::new("notes.md", Role::Context, Text::new("ship on Friday")).priority(0.9),
        Item::new("log.txt", Role::Context, Text::new(long.as_str()))
            .priority(0.8)
            .cut(Cut::Middle),
        Item::new("more.txt", Role::Context, Text::new(long.as_str())).cut(Cut::Never),
    ];
    let counts = Counts::new(std::sync::Arc::new(Words));
    let budget = Budget::new(200, 10, 0).unwrap();
    let report = assemble(vec![files], budget, &counts, &mut no_loader)
        .unwrap()
        .report;
    assert!(report.included.iter().any(|row| row.lines_cut.is_some()));
    assert!(!report.excluded.is_empty());
    assert!(is_valid::<Report>(&json!(report)));

    let value = json!(report);
    assert!(is_valid::<Report>(&value));
    let mut wrong = value.clone();
    wrong["included"][0]["code"] = json!(7);
    assert!(!is_valid::<Report>(&wrong));
    let mut wrong = value;
    wrong["budget"]["layers"]["files"]["used"] = json!(-1);
    assert!(!is_valid::<Report>(&wrong));
}

#[test]
fn a_hash_and_usage() {
    assert!(is_valid::<ContentHash>(&json!(ContentHash::of(b"x"))));
    assert!(!is_valid::<ContentHash>(&json!("x")));
    assert!(is_valid::<Usage>(&json!(Usage::default())));
    // Output has every field; input need not.
    assert!(!is_valid::<Usage>(&json!({})));
    let taken = input().into_root_schema_for::<Usage>();
    let taken = jsonschema::draft202012::new(taken.as_value()).unwrap();
    assert!(taken.is_valid(&json!({})));
    assert!(!taken.is_valid(&json!({"input_tokens": u64::MAX})));
}
