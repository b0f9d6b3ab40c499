//! The schemas take what serde takes.

use contexture_core::schema::{input, output};
use contexture_providers::{Format, Sampling};
use serde_json::json;

#[test]
fn formats_have_the_names_of_the_command_line() {
    let schema = input().into_root_schema_for::<Format>();
    let validator = jsonschema::draft202012::new(schema.as_value()).unwrap();
    for (name, format) in Format::ALL {
        assert_eq!(json!(format), json!(name));
        assert_eq!(
            serde_json::from_value::<Format>(json!(name)).unwrap(),
            format
        );
        assert!(validator.is_valid(&json!(name)), "{name}");
    }
    assert!(!validator.is_valid(&json!("open-ai-chat")));
}

#[test]
fn sampling() {
    let schema = input().into_root_schema_for::<Sampling>();
    let taken = jsonschema::draft202012::new(schema.as_value()).unwrap();
    let schema = output().into_root_schema_for::<Sampling>();
    let given = jsonschema::draft202012::new(schema.as_value()).unwrap();
    for value in [
        json!({}),
        json!({"temperature": 0.5, "top_p": 1, "top_k": 40, "seed": -7, "max_tokens": null}),
        json!({"stop": "END"}),
        json!({"stop": ["a", "b"]}),
    ] {
        assert!(taken.is_valid(&value), "{value}");
        let read: Sampling = serde_json::from_value(value).unwrap();
        assert!(given.is_valid(&json!(read)));
    }
    for value in [
        json!({"temperature": "hot"}),
        json!({"top_k": -1}),
        json!({"stop": 1}),
        json!({"stop": null}),
        json!({"seed": 9_223_372_036_854_775_808_u64}),
        json!({"warmth": 1}),
    ] {
        assert!(!taken.is_valid(&value), "{value}");
        assert!(serde_json::from_value::<Sampling>(value).is_err());
    }
}
