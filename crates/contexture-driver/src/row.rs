//! Conversions between Rust values and columns.

use contexture_core::ContentHash;
use contexture_store::{StoreError, TurnId};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::value::{Error as NoWord, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::driver::{Result, Row};
use crate::error::{Error, Fault};
use crate::value::{FromSql, HasSqlType, SqlType, ToSql, Value, ValueRef};

/// A turn's id as a column.
pub struct Id(pub TurnId);

impl HasSqlType for Id {
    const TYPE: SqlType = SqlType::Blob;
}

impl ToSql for Id {
    fn to_sql(&self) -> Result<Value<'_>> {
        Ok(Value::Blob(self.0.as_bytes().as_slice().into()))
    }
}

impl FromSql for Id {
    fn from_sql(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        FromSql::from_sql(value).map(|bytes| Id(TurnId::from_bytes(bytes)))
    }
}

/// Reads an id that may be missing.
pub fn id(row: &Row<'_>, column: usize) -> Result<Option<TurnId>> {
    Ok(row.get::<Option<Id>>(column)?.map(|id| id.0))
}

/// The hash of content as a column.
pub struct Hash(pub ContentHash);

impl HasSqlType for Hash {
    const TYPE: SqlType = SqlType::Blob;
}

impl ToSql for Hash {
    fn to_sql(&self) -> Result<Value<'_>> {
        Ok(Value::Blob(self.0.as_bytes().as_slice().into()))
    }
}

impl FromSql for Hash {
    fn from_sql(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        FromSql::from_sql(value).map(|bytes| Hash(ContentHash::from_bytes(bytes)))
    }
}

/// A point in time as a column: Unix milliseconds.
pub struct Time(pub Timestamp);

impl HasSqlType for Time {
    const TYPE: SqlType = SqlType::Integer;
}

impl ToSql for Time {
    fn to_sql(&self) -> Result<Value<'_>> {
        Ok(Value::Integer(self.0.as_millisecond()))
    }
}

impl FromSql for Time {
    fn from_sql(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        let time = Timestamp::from_millisecond(value.as_i64()?);
        time.map(Time).map_err(|error| error.to_string())
    }
}

/// A value of an enum as a column: its serialised name.
pub struct Word<T>(pub T);

impl<T> HasSqlType for Word<T> {
    const TYPE: SqlType = SqlType::Text;
}

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> Result<Value<'_>> {
        let json = serde_json::to_value(&self.0);
        match json.map_err(|error| Error::Parameter(error.to_string()))? {
            serde_json::Value::String(word) => Ok(Value::Text(word.into())),
            _ => Err(Error::Parameter("is not one word".to_owned())),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn from_sql(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        let word: StrDeserializer<'_, NoWord> = value.as_str()?.into_deserializer();
        T::deserialize(word)
            .map(Word)
            .map_err(|error| error.to_string())
    }
}

/// Reads the value of an enum that may be missing.
pub fn word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>> {
    Ok(row.get::<Option<Word<T>>>(column)?.map(|word| word.0))
}

/// A value as a column of JSON.
pub struct Json<T>(pub T);

impl<T> HasSqlType for Json<T> {
    const TYPE: SqlType = SqlType::Text;
}

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> Result<Value<'_>> {
        let json = serde_json::to_string(&self.0);
        json.map(|json| Value::Text(json.into()))
            .map_err(|error| Error::Parameter(error.to_string()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn from_sql(value: ValueRef<'_>) -> std::result::Result<Self, String> {
        let read = serde_json::from_slice(value.as_bytes()?);
        read.map(Json).map_err(|error| error.to_string())
    }
}

/// Reads JSON that may be missing.
pub fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>> {
    Ok(row.get::<Option<Json<T>>>(column)?.map(|json| json.0))
}

/// Returns a number as a signed 64-bit integer, or an error if it is too large.
pub fn number(field: &str, number: u64) -> std::result::Result<i64, Fault> {
    i64::try_from(number).map_err(|_| {
        Fault::Refused(StoreError::invalid(
            field,
            format!("{number} is too large; the limit is {}", i64::MAX),
        ))
    })
}

/// Reads a number that is never negative.
pub fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| Error::Column {
        column,
        message: format!("holds {number}, which is negative"),
    })
}

/// Returns a limit as a signed 64-bit integer.
pub fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
