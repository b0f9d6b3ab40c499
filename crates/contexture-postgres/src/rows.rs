//! The rows of a result.

use std::sync::Arc;

use contexture_sql::{Columns, Error, ValueRef};

use crate::encode::{BOOL, BYTEA, FLOAT8, INT2, INT4, INT8};
use crate::text;
use crate::wire::number;

/// Marks a column that is null.
const NULL: u64 = 1 << 63;

/// The rows of a result, in PostgreSQL's binary format.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The contents of all columns, one after the other.
    bytes: Vec<u8>,
    /// The end of each column in `bytes`, with [`NULL`] for null.
    ends: Vec<u64>,
    rows: usize,
    types: Arc<[u32]>,
    /// The number of rows that the statement returned or changed.
    pub(crate) changed: u64,
    /// True if the statement has rolled back the transaction.
    pub(crate) is_rolled_back: bool,
}

impl Rows {
    /// Adds a row: the number of its columns, then the length and content of
    /// each.
    pub(crate) fn add(&mut self, body: &[u8]) {
        self.rows += 1;
        let mut rest = body.get(2..).unwrap_or_default();
        while let Some(length) = number(rest) {
            rest = &rest[4..];
            let cell = usize::try_from(length).ok().and_then(|end| rest.get(..end));
            self.bytes.extend_from_slice(cell.unwrap_or_default());
            let end = self.bytes.len() as u64;
            self.ends.push(match cell {
                Some(_) => end,
                None => end | NULL,
            });
            rest = &rest[cell.map_or(0, <[u8]>::len)..];
        }
    }

    /// Sets the types of the columns, and the command tag of the statement.
    pub(crate) fn end(&mut self, types: Arc<[u32]>, did: &[u8]) {
        self.types = types;
        let did = did.split(|byte| *byte == 0).next().unwrap_or_default();
        self.is_rolled_back = did == b"ROLLBACK";
        let count = did.rsplit(|byte| *byte == b' ').next();
        let count = count.and_then(|count| std::str::from_utf8(count).ok());
        self.changed = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns the row with this index, which must exist.
    pub(crate) fn row(&self, row: usize) -> PgRow<'_> {
        self.row_from(row, 0)
    }

    /// Returns a row without its first columns.
    pub(crate) fn row_from(&self, row: usize, first: usize) -> PgRow<'_> {
        PgRow {
            rows: self,
            row,
            first,
            decoded: Default::default(),
        }
    }

    fn cell(&self, row: usize, column: usize) -> Option<&[u8]> {
        let at = row * self.types.len() + column;
        let end = *self.ends.get(at)?;
        let before = at.checked_sub(1).and_then(|at| self.ends.get(at));
        let begin = before.map_or(0, |end| end & !NULL);
        match end & NULL == 0 {
            true => self.bytes.get(begin as usize..end as usize),
            false => None,
        }
    }

    fn value(&self, row: usize, column: usize) -> Result<ValueRef<'_>, Error> {
        let kind = *self.types.get(column).ok_or_else(|| Error::Column {
            column,
            message: "is missing".to_owned(),
        })?;
        let Some(cell) = self.cell(row, column) else {
            return Ok(ValueRef::Null);
        };
        let wrong = || Error::Content(format!("has {} bytes", cell.len()));
        Ok(match kind {
            INT8 => {
                let bytes = cell.try_into().map_err(|_| wrong())?;
                ValueRef::Integer(i64::from_be_bytes(bytes))
            }
            INT4 => {
                let bytes = cell.try_into().map_err(|_| wrong())?;
                ValueRef::Integer(i32::from_be_bytes(bytes).into())
            }
            INT2 => {
                let bytes = cell.try_into().map_err(|_| wrong())?;
                ValueRef::Integer(i16::from_be_bytes(bytes).into())
            }
            BOOL => ValueRef::Integer((cell == [1]).into()),
            FLOAT8 => {
                let bytes = cell.try_into().map_err(|_| wrong())?;
                ValueRef::Real(f64::from_be_bytes(bytes))
            }
            BYTEA => ValueRef::Blob(cell),
            _ => ValueRef::Text(cell),
        })
    }

    /// Returns a number; `None` for null.
    pub(crate) fn integer(&self, row: usize, column: usize) -> Option<i64> {
        match self.value(row, column) {
            Ok(ValueRef::Integer(number)) => Some(number),
            _ => None,
        }
    }

    /// Returns the numbers of the first column.
    pub(crate) fn integers(&self) -> Vec<i64> {
        let rows = 0..self.rows;
        rows.filter_map(|row| self.integer(row, 0)).collect()
    }

    /// Returns a text; `None` for null.
    pub(crate) fn text(&self, row: usize, column: usize) -> Option<String> {
        match self.value(row, column) {
            Ok(ValueRef::Text(text)) => String::from_utf8(text.to_vec()).ok(),
            _ => None,
        }
    }
}

/// A row, with the texts that had to be decoded.
pub(crate) struct PgRow<'r> {
    rows: &'r Rows,
    row: usize,
    first: usize,
    decoded: std::cell::OnceCell<Vec<std::cell::OnceCell<Vec<u8>>>>,
}

impl Columns for PgRow<'_> {
    fn column(&self, column: usize) -> Result<ValueRef<'_>, Error> {
        let value = self.rows.value(self.row, column + self.first)?;
        let ValueRef::Text(stored) = value else {
            return Ok(value);
        };
        let Some(plain) = text::decode(stored) else {
            return Ok(value);
        };
        let decoded = (self.decoded).get_or_init(|| vec![Default::default(); self.count()]);
        Ok(ValueRef::Text(decoded[column].get_or_init(|| plain)))
    }

    fn count(&self) -> usize {
        self.rows.types.len() - self.first
    }
}
