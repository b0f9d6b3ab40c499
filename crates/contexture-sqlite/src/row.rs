//! Conversions between Rust values and columns.

use contexture_core::ContentHash;
use contexture_store::{StoreError, TurnId};
use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::value::{Error as NoWord, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::error::Fault;

/// A turn's id as a column.
pub(crate) struct Id(pub(crate) TurnId);

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        FromSql::column_result(value).map(|bytes| Id(TurnId::from_bytes(bytes)))
    }
}

/// Reads an id that may be missing.
pub(crate) fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<TurnId>> {
    Ok(row.get::<_, Option<Id>>(column)?.map(|id| id.0))
}

/// The hash of content as a column.
pub(crate) struct Hash(pub(crate) ContentHash);

impl ToSql for Hash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

impl FromSql for Hash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        FromSql::column_result(value).map(|bytes| Hash(ContentHash::from_bytes(bytes)))
    }
}

/// A point in time as a column: Unix milliseconds.
pub(crate) struct Time(pub(crate) Timestamp);

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_millisecond().into())
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let time = Timestamp::from_millisecond(value.as_i64()?);
        time.map(Time).map_err(FromSqlError::other)
    }
}

/// A value of an enum as a column: its name.
pub(crate) struct Word<T>(pub(crate) T);

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = serde_json::to_value(&self.0);
        match json.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))? {
            serde_json::Value::String(word) => Ok(word.into()),
            _ => Err(rusqlite::Error::ToSqlConversionFailure(
                "is not one word".into(),
            )),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word: StrDeserializer<'_, NoWord> = value.as_str()?.into_deserializer();
        T::deserialize(word).map(Word).map_err(FromSqlError::other)
    }
}

/// Reads the value of an enum that may be missing.
pub(crate) fn word<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<Word<T>>>(column)?.map(|word| word.0))
}

/// A value as a column of JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = serde_json::to_string(&self.0);
        json.map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let read = serde_json::from_slice(value.as_bytes()?);
        read.map(Json).map_err(FromSqlError::other)
    }
}

/// Reads JSON that may be missing.
pub(crate) fn json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<Json<T>>>(column)?.map(|json| json.0))
}

/// Returns a number as SQLite takes it, or says that it is too large.
pub(crate) fn number(field: &str, number: u64) -> Result<i64, Fault> {
    i64::try_from(number).map_err(|_| {
        Fault::Refused(StoreError::invalid(
            field,
            format!("{number} is too large; the limit is {}", i64::MAX),
        ))
    })
}

/// Reads a number that is never negative.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// Returns a limit as SQLite takes it.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
