//! Reads any text as a recipe.
#![no_main]

use contexture_engine::Recipe;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Recipe::parse("fuzz", text);
});
