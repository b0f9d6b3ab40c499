//! A generator of JSON values, for tests.

use proptest::prelude::*;
use serde_json::Value;

/// Returns any JSON value. Texts and keys often have characters that JSON escapes
/// or uses itself.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\"\\\\{}\\[\\],:\n]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 5, |inner| {
        let key = prop_oneof![any::<String>(), "[\"\\\\{}]{0,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
