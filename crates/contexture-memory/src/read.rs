//! Reads records from lines of JSON, with errors that name the field and the
//! column.

use contexture_store::{
    ChunkRecord, EntityRecord, EventRecord, PatternRecord, Record, RecordKind, RelationRecord,
    TaskRecord,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, not_one_of, plain};

/// Reads a record. Errors contain `place` as the line, and the field.
pub(crate) fn record(place: &str, line: &str) -> Result<Record, Error> {
    serde_json::from_str(line).map_err(|error| {
        // The kind of a record is known only after it was read, so the line is
        // read again to find the field of the error.
        let problem = problem(line).unwrap_or_else(|| plain(&error.to_string()));
        Error::input(format!("{place}: {problem}"))
    })
}

fn problem(line: &str) -> Option<String> {
    let value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(error) => {
            // The input is one line, so the column is the whole position.
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let column = error.column();
            return Some(format!(
                "is not JSON: {} at column {column}",
                plain(message)
            ));
        }
    };
    let Value::Object(mut fields) = value else {
        return Some("must be an object such as {\"kind\":\"event\",\"content\":\"…\"}".to_owned());
    };
    let names = RecordKind::ALL.map(RecordKind::name);
    let kind = match fields.remove("kind") {
        None => return Some(format!("kind: is missing (one of {})", names.join(", "))),
        Some(Value::String(name)) => match names.iter().position(|known| *known == name) {
            Some(at) => RecordKind::ALL[at],
            None => return Some(format!("kind: {}", not_one_of("kind", &name, &names))),
        },
        Some(_) => return Some(format!("kind: must be one of {}", names.join(", "))),
    };
    let fields = Value::Object(fields);
    match kind {
        RecordKind::Event => misfit::<EventRecord>(fields),
        RecordKind::Chunk => misfit::<ChunkRecord>(fields),
        RecordKind::Entity => misfit::<EntityRecord>(fields),
        RecordKind::Relation => misfit::<RelationRecord>(fields),
        RecordKind::Pattern => misfit::<PatternRecord>(fields),
        RecordKind::Task => misfit::<TaskRecord>(fields),
    }
}

/// Returns the field that does not fit a record, with the reason.
fn misfit<T: DeserializeOwned>(fields: Value) -> Option<String> {
    let error = serde_path_to_error::deserialize::<_, T>(fields).err()?;
    let path = error.path().to_string();
    let message = plain(&error.into_inner().to_string());
    Some(match path.trim_end_matches(['?', '.']) {
        "" => message,
        path => format!("{path}: {message}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, complaint: &str) {
        let error = record("a.jsonl:7", line).unwrap_err();
        assert_eq!(error.to_string(), format!("a.jsonl:7: {complaint}"));
    }

    #[test]
    fn numbers_of_seconds_are_seconds() {
        let check = |time: &str, expected: &str| {
            let line = format!(r#"{{"kind":"event","content":"x","timestamp":{time}}}"#);
            let Record::Event(event) = record("-:1", &line).unwrap() else {
                panic!("{line}");
            };
            let time = event.timestamp.unwrap().to_string();
            assert_eq!(time, expected, "{line}");
        };
        check("1794909600", "2026-11-17T10:00:00Z");
        check("1794909600000", "2026-11-17T10:00:00Z");
        check("99999999999", "5138-11-16T09:46:39Z");
        check("100000000000", "1973-03-03T09:46:40Z");
        check("-86400", "1969-12-31T00:00:00Z");
        check("-62135596800000", "0001-01-01T00:00:00Z");
        check("\"1970-01-02T00:00:00Z\"", "1970-01-02T00:00:00Z");
    }

    #[test]
    fn complaints_name_the_field() {
        check("nonsense", "is not JSON: expected ident at column 2");
        check(
            "[]",
            "must be an object such as {\"kind\":\"event\",\"content\":\"…\"}",
        );
        check(
            "{}",
            "kind: is missing (one of event, chunk, entity, relation, pattern, task)",
        );
        check(
            r#"{"kind":"evnt"}"#,
            "kind: unknown kind `evnt`; did you mean `event`? (one of event, chunk, entity, \
             relation, pattern, task)",
        );
        check(
            r#"{"kind":"event","content":"x","timestamp":"soon"}"#,
            "timestamp: `soon` is no time: give RFC 3339 such as `2026-02-02T10:00:00Z`, or Unix \
             milliseconds",
        );
        check(
            r#"{"kind":"pattern","name":"p","procedure":"x","conditions":[{"type":"x"}]}"#,
            "conditions[0].type: unknown value `x`, expected one of `keyword`, `entity_type`, \
             `error_type`, `custom`",
        );
    }
}
