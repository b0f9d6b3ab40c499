//! What providers count teaches what our count is worth.

use super::*;

/// Asks, and records an answer for which the provider counted `factor` times
/// our tokens.
fn ask(project: &Project, model: &str, factor: f64) -> Value {
    let request = assembled(project, &["--model", model]);
    let counted = request["token_budget"]["used"]["total"].as_u64().unwrap();
    let turn = json!({
        "messages": [
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": "I do."},
        ],
        "model": model,
        "usage": {"input_tokens": (counted as f64 * factor) as u64, "output_tokens": 4},
    });
    record(project, "chat", &turn);
    request
}

fn used(request: &Value) -> f64 {
    request["token_budget"]["used"]["total"].as_f64().unwrap()
}

#[test]
fn an_estimate_that_is_too_low_grows() {
    let project = long_chat(6);
    let before = ask(&project, "my-model", 1.5);
    assert_eq!(before["report"]["tokenizer"]["exact"], false);
    // Two samples say little.
    ask(&project, "my-model", 1.5);
    let two = assembled(&project, &["--model", "my-model"]);
    assert_eq!(two["report"]["tokenizer"], before["report"]["tokenizer"]);
    ask(&project, "my-model", 1.5);
    let after = assembled(&project, &["--model", "my-model"]);
    assert!(
        used(&after) > used(&before) * 1.4,
        "{} {}",
        used(&before),
        used(&after)
    );
    assert_ne!(after["report"]["tokenizer"], before["report"]["tokenizer"]);
}

#[test]
fn an_exact_count_leaves_free_what_the_provider_adds() {
    let project = long_chat(6);
    for _ in 0..3 {
        ask(&project, "gpt-4o", 1.1);
    }
    let after = assembled(&project, &["--max-tokens", "100000"]);
    // One part in eleven of what the provider counts is not ours.
    let budget = &after["token_budget"];
    let kept_free = budget["reserve_tools"].as_u64().unwrap();
    assert!((8_900..=9_200).contains(&kept_free), "{budget}");
    assert_eq!(budget["available"], 100_000 - kept_free);
    assert_eq!(after["report"]["tokenizer"]["exact"], true);
}

#[test]
fn one_model_teaches_nothing_about_another() {
    let project = long_chat(6);
    let before = assembled(&project, &["--model", "other-model"]);
    for _ in 0..3 {
        ask(&project, "my-model", 2.0);
    }
    let after = assembled(&project, &["--model", "other-model"]);
    assert_eq!(after["report"]["tokenizer"], before["report"]["tokenizer"]);
}
