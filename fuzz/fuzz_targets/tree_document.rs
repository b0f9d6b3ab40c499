//! Reads any JSON as a tree. A tree that is valid is valid after it was written
//! and read again.
#![no_main]

use contexture_store::TreeDocument;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = serde_json::from_slice::<TreeDocument>(bytes) else {
        return;
    };
    let document = document.normalised(jiff::Timestamp::UNIX_EPOCH);
    if document.check().is_err() {
        return;
    }
    let again: TreeDocument = serde_json::from_str(&document.to_json()).unwrap();
    again.check().unwrap();
});
