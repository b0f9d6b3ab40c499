//! Reads any text as the manifest of a working set.
#![no_main]

use contexture_files::working_set::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Manifest::parse("working-set.yml", text);
});
