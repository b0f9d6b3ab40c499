//! The example of 20 lines runs.

#[path = "../examples/fit_texts.rs"]
mod fit_texts;

#[test]
fn texts_fit_with_two_crates() {
    fit_texts::main().expect("the example runs");
}
