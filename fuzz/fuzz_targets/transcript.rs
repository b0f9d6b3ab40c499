//! Imports any bytes as a transcript. The first byte chooses the format.
#![no_main]

use std::sync::OnceLock;

use contexture_import::{Import, Options, formats};
use contexture_sqlite::SqliteStore;
use libfuzzer_sys::fuzz_target;

struct Place {
    directory: tempfile::TempDir,
    store: SqliteStore,
}

fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = SqliteStore::open(directory.path().join("store.db")).unwrap();
        Place { directory, store }
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let all = formats();
    let format = all[usize::from(*first) % all.len()];
    let place = place();
    let file = place.directory.path().join("transcript.jsonl");
    std::fs::write(&file, rest).unwrap();
    let options = Options {
        dry_run: true,
        ..Options::default()
    };
    let _ = Import::new(&place.store, options).path(format, &file);
});
