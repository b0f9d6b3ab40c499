//! Times in files and requests: RFC 3339 or Unix milliseconds. They are stored
//! in milliseconds.

use jiff::Timestamp;

/// Returns a time as it is stored: rounded to milliseconds.
pub(crate) fn kept(time: Timestamp) -> Timestamp {
    // A valid time stays valid when it is rounded.
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

/// An optional time.
pub(crate) mod lenient {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.serialize(serializer)
    }

    /// Reads an optional time: RFC 3339, or Unix milliseconds, rounded to
    /// milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        read(deserializer, false)
    }

    /// A number below this can be in seconds: seconds until the year 5138,
    /// milliseconds from 1973 on.
    const MILLISECONDS_FROM: u64 = 100_000_000_000;

    /// Reads an optional time. With `has_seconds`, a small number is in Unix seconds.
    pub(super) fn read<'de, D: Deserializer<'de>>(
        deserializer: D,
        has_seconds: bool,
    ) -> Result<Option<Timestamp>, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "a time: RFC 3339 such as `2026-02-02T10:00:00Z`, or Unix milliseconds"
        )]
        enum Form {
            Milliseconds(i64),
            Text(String),
        }
        let wrong = |text: &dyn std::fmt::Display| {
            serde::de::Error::custom(format!(
                "`{text}` is no time: give RFC 3339 such as `2026-02-02T10:00:00Z`, or Unix \
                 milliseconds"
            ))
        };
        let time = match Option::<Form>::deserialize(deserializer)? {
            None => return Ok(None),
            Some(Form::Milliseconds(n)) if has_seconds && n.unsigned_abs() < MILLISECONDS_FROM => {
                Timestamp::from_second(n).map_err(|_| wrong(&n))?
            }
            Some(Form::Milliseconds(n)) => Timestamp::from_millisecond(n).map_err(|_| wrong(&n))?,
            Some(Form::Text(text)) => text.parse().map_err(|_| wrong(&text))?,
        };
        let kept = Timestamp::from_millisecond(time.as_millisecond());
        kept.map(Some).map_err(serde::de::Error::custom)
    }
}

/// Times of records: like [`lenient`], but a small number is in Unix seconds.
pub(crate) mod of_record {
    use jiff::Timestamp;
    use serde::Deserializer;

    pub(crate) use super::lenient::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        super::lenient::read(deserializer, true)
    }
}
