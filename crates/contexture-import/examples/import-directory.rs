//! Imports a directory into a store and prints the counts: `contexture import`
//! without everything else, for `bench/import`.
//!
//! ```sh
//! import-directory import SOURCE PATH --json --db sqlite:FILE
//! ```

use std::path::Path;

use contexture_import::{Import, Options, format};
use contexture_sqlite::SqliteStore;

/// The allocator of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [_, source, path, _, _, db, ..] = &arguments[..] else {
        return Err("usage: import-directory import SOURCE PATH --json --db sqlite:FILE".into());
    };
    let options = contexture_sqlite::Options {
        bulk: true,
        ..contexture_sqlite::Options::default()
    };
    let store = SqliteStore::open_with(db.trim_start_matches("sqlite:"), options)?;
    let format = format(source).ok_or("unknown source")?;
    let mut import = Import::new(&store, Options::default());
    let report = import.path(format, Path::new(path))?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
