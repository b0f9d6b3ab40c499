//! Reads any bytes as the body of operations of the HTTP API.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for operation in ["assemble", "record_turn", "record_memory", "import_tree"] {
        let _ = contexture_server::read_body(operation, bytes);
    }
});
