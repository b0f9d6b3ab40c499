//! The embedded store of Contexture, on SQLite.
