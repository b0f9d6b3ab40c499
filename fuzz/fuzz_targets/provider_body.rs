//! Reads any bytes as requests, responses and recorded streams of all providers.
#![no_main]

use contexture_providers::native::{Api, read_exchange, read_request, read_response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for apis in ["anthropic", "openai", "gemini"]
        .into_iter()
        .filter_map(Api::named)
    {
        let _ = read_request(bytes, apis);
        let _ = read_response(bytes, apis);
        let _ = read_exchange(bytes, apis);
    }
});
