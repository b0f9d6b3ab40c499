//! The JSON Schema of a strategy accepts exactly the valid strategies.

#![cfg(feature = "schema")]
#![allow(clippy::unwrap_used)]

use contexture_recall::{Strategy, StrategyPatch};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

fn check(patch: Value, is_taken: bool) {
    let schema = SchemaSettings::draft2020_12().into_generator();
    let schema = schema.into_root_schema_for::<StrategyPatch>();
    let validator = jsonschema::draft202012::new(schema.as_value()).unwrap();
    assert_eq!(
        validator.is_valid(&patch),
        is_taken,
        "by the schema: {patch}"
    );
    let read = serde_json::from_value::<StrategyPatch>(patch.clone());
    let patched = read.is_ok_and(|patch| Strategy::default().patched(&patch).is_ok());
    assert_eq!(patched, is_taken, "by the code: {patch}");
}

#[test]
fn a_patch() {
    check(json!({}), true);
    check(
        json!({"recency_weight": 2, "depth_limit": 16, "compress": null}),
        true,
    );
    check(
        json!({"salient_weight": 0.5, "budget_allocation": {"recent": 100}}),
        true,
    );
    check(json!({"budget": {"semantic": 70, "patterns": 0}}), true);
    for wrong in [
        json!({"recency_weight": -1}),
        json!({"recency_weight": "much"}),
        json!({"depth_limit": 17}),
        json!({"depth_limit": -1}),
        json!({"budget": {}}),
        json!({"budget": {"recent": 101}}),
        json!({"budget": {"recent": 10, "past": 1}}),
        json!({"budget": {"recent": 10}, "budget_allocation": {"recent": 10}}),
        json!({"weight": 1}),
    ] {
        check(wrong, false);
    }
}

#[test]
fn a_strategy() {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Strategy>();
    let validator = jsonschema::draft202012::new(schema.as_value()).unwrap();
    assert!(validator.is_valid(&json!(Strategy::default())));
}
