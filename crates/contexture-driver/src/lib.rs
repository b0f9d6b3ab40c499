//! Statements, values and rows of SQL databases, without a database.
//!
//! ```
//! use contexture_driver::{Connection, Fault};
//!
//! // Works with every database that has a driver.
//! fn count_sessions(db: &Connection, tenant: i64) -> Result<i64, Fault> {
//!     let sql = "SELECT count(*) FROM sessions WHERE tenant = ?1";
//!     Ok(db.query_row(sql, [tenant], |row| row.get(0))?)
//! }
//! ```
//!
//! A [`Driver`] runs statements inside a transaction. The SQL is written in what
//! SQLite and PostgreSQL share, with parameters as `?1`. Where the databases
//! differ, [`Driver`] has a method. This crate knows no tables and no
//! transactions: `contexture-sql` does.

pub mod driver;
pub mod error;
pub mod row;
pub mod together;
pub mod value;

pub use driver::{Columns, Connection, Driver, OptionalExtension, Prepared, Row, Statement};
pub use error::{Error, Fault};
pub use together::{Question, Rows};
pub use value::{FromSql, HasSqlType, Params, SqlType, ToSql, Value, ValueRef};
