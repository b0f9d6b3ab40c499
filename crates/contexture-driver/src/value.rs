//! Values of parameters and columns.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Error;

/// The types that columns have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlType {
    /// A signed 64-bit integer; booleans are 0 and 1.
    Integer,
    /// A floating-point number.
    Real,
    /// Text.
    Text,
    /// Bytes.
    Blob,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'v> {
    /// Null of a type.
    Null(SqlType),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(Cow<'v, str>),
    /// Bytes.
    Blob(Cow<'v, [u8]>),
}

impl Value<'_> {
    /// Returns a copy of the value that borrows nothing.
    pub fn to_owned_value(&self) -> Value<'static> {
        match self {
            Value::Null(kind) => Value::Null(*kind),
            Value::Integer(number) => Value::Integer(*number),
            Value::Real(number) => Value::Real(*number),
            Value::Text(text) => Value::Text(Cow::Owned(text.as_ref().to_owned())),
            Value::Blob(bytes) => Value::Blob(Cow::Owned(bytes.as_ref().to_owned())),
        }
    }

    /// Returns the value without borrows. Copies only what is borrowed.
    pub fn into_owned_value(self) -> Value<'static> {
        match self {
            Value::Null(kind) => Value::Null(kind),
            Value::Integer(number) => Value::Integer(number),
            Value::Real(number) => Value::Real(number),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Blob(bytes) => Value::Blob(Cow::Owned(bytes.into_owned())),
        }
    }
}

/// The value of a column, borrowed from its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'v> {
    /// Null.
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text. A driver need not check that it is UTF-8.
    Text(&'v [u8]),
    /// Bytes.
    Blob(&'v [u8]),
}

impl<'v> ValueRef<'v> {
    fn name(&self) -> &'static str {
        match self {
            ValueRef::Null => "nothing",
            ValueRef::Integer(_) => "a number",
            ValueRef::Real(_) => "a fraction",
            ValueRef::Text(_) => "text",
            ValueRef::Blob(_) => "bytes",
        }
    }

    fn instead_of(&self, wanted: &str) -> String {
        format!("holds {} instead of {wanted}", self.name())
    }

    /// Returns a copy of the value.
    pub fn to_value(&self) -> Result<Value<'static>, Error> {
        Ok(match self {
            ValueRef::Null => Value::Null(SqlType::Integer),
            ValueRef::Integer(number) => Value::Integer(*number),
            ValueRef::Real(number) => Value::Real(*number),
            ValueRef::Text(_) => Value::Text(Cow::Owned(self.as_str()?.to_owned())),
            ValueRef::Blob(bytes) => Value::Blob(Cow::Owned(bytes.to_vec())),
        })
    }

    /// Returns the text of a column.
    pub fn as_str(&self) -> Result<&'v str, String> {
        match self {
            ValueRef::Text(text) => std::str::from_utf8(text).map_err(|error| error.to_string()),
            other => Err(other.instead_of("text")),
        }
    }

    /// Returns the bytes of a column.
    pub fn as_blob(&self) -> Result<&'v [u8], String> {
        match self {
            ValueRef::Blob(bytes) => Ok(bytes),
            other => Err(other.instead_of("bytes")),
        }
    }

    /// Returns the bytes of a column; null is `None`.
    pub fn as_blob_or_null(&self) -> Result<Option<&'v [u8]>, String> {
        match self {
            ValueRef::Null => Ok(None),
            other => other.as_blob().map(Some),
        }
    }

    /// Returns the bytes of a column with text or bytes.
    pub fn as_bytes(&self) -> Result<&'v [u8], String> {
        match self {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
            other => Err(other.instead_of("text")),
        }
    }

    /// Returns the number of a column.
    pub fn as_i64(&self) -> Result<i64, String> {
        match self {
            ValueRef::Integer(number) => Ok(*number),
            other => Err(other.instead_of("a number")),
        }
    }
}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Error::Content(message)
    }
}

/// A type that a column can be read as.
pub trait FromSql: Sized {
    /// Reads the value, or returns the description of an error.
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String>;
}

/// A type with an SQL type, which a null value also needs.
pub trait HasSqlType {
    /// The type of the column.
    const TYPE: SqlType;
}

/// A type that can be the value of a parameter.
pub trait ToSql {
    /// Returns the value.
    fn to_sql(&self) -> Result<Value<'_>, Error>;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl HasSqlType for $integer {
            const TYPE: SqlType = SqlType::Integer;
        }
        impl ToSql for $integer {
            fn to_sql(&self) -> Result<Value<'_>, Error> {
                Ok(Value::Integer(i64::from(*self)))
            }
        }
    )*};
}

integers!(i64, i32, u32, bool);

impl FromSql for i64 {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        value.as_i64()
    }
}

impl FromSql for u32 {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        let number = value.as_i64()?;
        u32::try_from(number).map_err(|_| format!("{number} is out of range"))
    }
}

impl FromSql for i32 {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        let number = value.as_i64()?;
        i32::try_from(number).map_err(|_| format!("{number} is out of range"))
    }
}

impl FromSql for bool {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        Ok(value.as_i64()? != 0)
    }
}

impl HasSqlType for f64 {
    const TYPE: SqlType = SqlType::Real;
}

impl ToSql for f64 {
    fn to_sql(&self) -> Result<Value<'_>, Error> {
        Ok(Value::Real(*self))
    }
}

impl FromSql for f64 {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        match value {
            ValueRef::Real(number) => Ok(number),
            other => other.as_i64().map(|number| number as f64),
        }
    }
}

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl HasSqlType for $text {
            const TYPE: SqlType = SqlType::Text;
        }
        impl ToSql for $text {
            fn to_sql(&self) -> Result<Value<'_>, Error> {
                Ok(Value::Text(Cow::Borrowed(self)))
            }
        }
    )*};
}

texts!(str, String, Arc<str>);

impl FromSql for String {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        value.as_str().map(str::to_owned)
    }
}

macro_rules! blobs {
    ($($blob:ty),*) => {$(
        impl HasSqlType for $blob {
            const TYPE: SqlType = SqlType::Blob;
        }
        impl ToSql for $blob {
            fn to_sql(&self) -> Result<Value<'_>, Error> {
                Ok(Value::Blob(Cow::Borrowed(self)))
            }
        }
    )*};
}

blobs!([u8], Vec<u8>);

impl<const N: usize> HasSqlType for [u8; N] {
    const TYPE: SqlType = SqlType::Blob;
}

impl<const N: usize> ToSql for [u8; N] {
    fn to_sql(&self) -> Result<Value<'_>, Error> {
        Ok(Value::Blob(Cow::Borrowed(self)))
    }
}

impl FromSql for Vec<u8> {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        value.as_blob().map(<[u8]>::to_vec)
    }
}

impl<const N: usize> FromSql for [u8; N] {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        let bytes = value.as_blob()?;
        bytes
            .try_into()
            .map_err(|_| format!("has {} bytes instead of {N}", bytes.len()))
    }
}

impl<T: HasSqlType + ?Sized> HasSqlType for &T {
    const TYPE: SqlType = T::TYPE;
}

impl<T: ToSql + ?Sized> ToSql for &T {
    fn to_sql(&self) -> Result<Value<'_>, Error> {
        (**self).to_sql()
    }
}

impl<T: HasSqlType> HasSqlType for Option<T> {
    const TYPE: SqlType = T::TYPE;
}

impl<T: ToSql + HasSqlType> ToSql for Option<T> {
    fn to_sql(&self) -> Result<Value<'_>, Error> {
        match self {
            Some(value) => value.to_sql(),
            None => Ok(Value::Null(T::TYPE)),
        }
    }
}

impl<T: FromSql> FromSql for Option<T> {
    fn from_sql(value: ValueRef<'_>) -> Result<Self, String> {
        match value {
            ValueRef::Null => Ok(None),
            value => T::from_sql(value).map(Some),
        }
    }
}

/// The values of a statement's parameters: a tuple, an array, or
/// [`params!`](crate::params).
pub trait Params {
    /// Passes the values to `put` in their order.
    fn values<'p>(&'p self, put: &mut dyn FnMut(Value<'p>)) -> Result<(), Error>;
}

impl<T: ToSql, const N: usize> Params for [T; N] {
    fn values<'p>(&'p self, put: &mut dyn FnMut(Value<'p>)) -> Result<(), Error> {
        for value in self {
            put(value.to_sql()?);
        }
        Ok(())
    }
}

impl Params for &[&dyn ToSql] {
    fn values<'p>(&'p self, put: &mut dyn FnMut(Value<'p>)) -> Result<(), Error> {
        for value in *self {
            put(value.to_sql()?);
        }
        Ok(())
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: ToSql),*> Params for ($($name,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn values<'p>(&'p self, put: &mut dyn FnMut(Value<'p>)) -> Result<(), Error> {
                let ($($name,)*) = self;
                $(put($name.to_sql()?);)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G)
    (A B C D E F G H)
}

/// The values of a statement's parameters, of any types and any number.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::ToSql),*] as &[&dyn $crate::ToSql]
    };
}
