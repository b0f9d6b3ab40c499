//! The usage that providers report calibrates the token counts of a model.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::*;
use contexture::core::Usage;
use contexture::store::{Tenants as _, Waited};
use contexture::turn::NewTurn;
use contexture::{Assembled, Format, Request};

const MODELS: &str = "
[models.low]
window = 50000
factor = 1.0
[models.high]
window = 50000
factor = 1.9
[models.exact]
window = 50000
tokenizer = \"o200k_base\"
[models.bystander]
window = 50000
factor = 1.4
";

fn ask(lab: &Lab, model: &str) -> Assembled {
    let request = Request {
        model: Some(model.to_owned()),
        ..request("s", 50_000)
    };
    lab.engine.assemble(&lab.root, &request).unwrap()
}

/// Returns what the provider counts: o200k's tokens times `ratio`.
fn real(assembled: &Assembled, ratio: f64) -> u64 {
    let text = assembled.render(Format::Text).unwrap();
    (bpe_openai::o200k_base().count(text.as_str()) as f64 * ratio).round() as u64
}

fn answered(model: &str, i: usize, input_tokens: u64) -> NewTurn {
    NewTurn {
        model: Some(model.to_owned()),
        usage: Some(Usage {
            input_tokens,
            output_tokens: 50,
            ..Usage::default()
        }),
        ..exchange(
            &format!("Question {i}? {}", prose(i, 60)),
            &prose(i + 1, 60),
        )
    }
}

/// Lets a model answer `times` times and returns the last request.
fn teach(lab: &Lab, model: &str, ratio: f64, times: usize) -> Assembled {
    for i in 0..times {
        let assembled = ask(lab, model);
        let real = real(&assembled, ratio);
        lab.record("s", &answered(model, i, real));
    }
    ask(lab, model)
}

fn started() -> Lab {
    let lab = Lab::new(MODELS);
    lab.talk("s", &chat(24, 60));
    lab
}

/// Returns how many times what the provider counts the request was counted at.
fn excess(assembled: &Assembled, ratio: f64) -> f64 {
    assembled.report.budget.used as f64 / real(assembled, ratio) as f64
}

#[test]
fn an_estimate_moves_up_to_what_is_needed() {
    let lab = started();
    let before = ask(&lab, "low");
    assert_eq!(before.report.tokenizer.name, "estimate");
    assert!(excess(&before, 2.2) < 0.8);
    let after = teach(&lab, "low", 2.2, 5);
    assert!(
        (1.0..1.1).contains(&excess(&after, 2.2)),
        "{}",
        excess(&after, 2.2)
    );
    assert!(!after.report.tokenizer.exact);
}

#[test]
fn and_down_to_what_is_enough() {
    let lab = started();
    let before = ask(&lab, "high");
    assert!(excess(&before, 1.25) > 1.4);
    let after = teach(&lab, "high", 1.25, 5);
    assert!(
        (1.0..1.1).contains(&excess(&after, 1.25)),
        "{}",
        excess(&after, 1.25)
    );
    // The request now uses the window.
    assert!(after.report.budget.used < before.report.budget.used * 3 / 2);
}

#[test]
fn one_sample_is_enough_and_others_are_not_affected() {
    let lab = started();
    let bystander = ask(&lab, "bystander").report.tokenizer.name.clone();
    let after = teach(&lab, "low", 2.2, 1);
    assert!(
        (1.0..1.15).contains(&excess(&after, 2.2)),
        "{}",
        excess(&after, 2.2)
    );
    assert_eq!(ask(&lab, "bystander").report.tokenizer.name, bystander);
    assert_eq!(bystander, "estimate x1.4");
}

/// The ratios are those that were measured: 1.16 for Sonnet, 1.22 for Opus.
#[test]
fn the_first_estimate_for_claude_is_close() {
    let lab = started();
    for (model, ratio) in [("claude-sonnet-4-5", 1.16), ("claude-opus-4-5", 1.22)] {
        let excess = excess(&ask(&lab, model), ratio);
        assert!((1.0..1.12).contains(&excess), "{model}: {excess}");
    }
}

#[test]
fn a_model_uses_what_its_siblings_taught() {
    let lab = started();
    let name = |model: &str| ask(&lab, model).report.tokenizer.name.clone();
    assert_eq!(name("claude-opus-4-5"), "o200k_base x1.25");
    teach(&lab, "claude-sonnet-4-5", 1.4, 4);
    let learned = name("claude-sonnet-4-5");
    assert_ne!(learned, "o200k_base x1.25");
    assert_eq!(name("claude-opus-4-5"), learned);
    assert_eq!(name("us.anthropic.claude-haiku-4-5-20251001-v1:0"), learned);
    // Later models have another tokenizer, and other lines have another one.
    assert_eq!(name("claude-opus-5-5"), "o200k_base x1.5");
    assert_eq!(name("gemini-3.8-flash"), "estimate x1.15");
    // A model's own samples come first.
    teach(&lab, "claude-opus-4-5", 1.2, 3);
    assert_ne!(name("claude-opus-4-5"), learned);
}

#[test]
fn an_exact_count_leaves_a_margin() {
    let lab = started();
    let before = ask(&lab, "exact");
    assert_eq!(before.report.budget.effective, 50_000);
    let after = teach(&lab, "exact", 1.06, 5);
    let effective = after.report.budget.effective;
    // So that what the provider adds fits in the window, and no more.
    let most = (50_000.0 / 1.06) as u64;
    assert!((most - 500..=most + 20).contains(&effective), "{effective}");
    assert!(after.report.tokenizer.exact);
    // A count that is higher than the provider's takes nothing back.
    let lab = started();
    assert_eq!(teach(&lab, "exact", 0.9, 5).report.budget.effective, 50_000);
}

#[test]
fn a_turn_of_several_calls_is_no_sample() {
    let lab = started();
    for i in 0..6 {
        let assembled = ask(&lab, "low");
        let sum = real(&assembled, 1.1) * 2;
        let mut turn = answered("low", i, sum);
        turn.messages = vec![
            user("Build."),
            calls(["c1"]),
            result("c1", "ok"),
            says("Done."),
        ];
        lab.record("s", &turn);
    }
    assert_eq!(ask(&lab, "low").report.tokenizer.name, "estimate");
    // Nor is one that another model answered, or that was recorded twice.
    for i in 0..6 {
        let real = real(&ask(&lab, "low"), 2.2);
        lab.record("s", &answered("bystander", i, real));
    }
    assert_eq!(ask(&lab, "low").report.tokenizer.name, "estimate");
    let real = real(&ask(&lab, "low"), 2.2);
    let turn = NewTurn {
        idempotency_key: Some("once".to_owned()),
        ..answered("low", 1, real)
    };
    for _ in 0..5 {
        lab.record("s", &turn);
    }
    assert_eq!(lab.store.samples("low", "estimate", 99).unwrap().len(), 1);
}

#[test]
fn a_turn_and_what_it_teaches_are_one_commit() {
    let commits = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&commits);
    let lab = Lab::over(MODELS, |store| {
        store.watch(Arc::new(move |what, _| {
            counter.fetch_add(usize::from(what == Waited::Write), Ordering::SeqCst);
        }));
        Arc::new(store)
    });
    lab.talk("s", &chat(24, 60));
    for i in 0..3 {
        let real = real(&ask(&lab, "low"), 1.5);
        commits.store(0, Ordering::SeqCst);
        lab.record("s", &answered("low", i, real));
        assert_eq!(commits.load(Ordering::SeqCst), 1);
        let samples = lab.store.samples("low", "estimate", 99).unwrap();
        assert_eq!(samples.len(), i + 1);
    }
}

/// A vendor before the name, or a date after it, is the same model.
#[test]
fn the_name_may_be_written_in_several_ways() {
    let lab = started();
    for (asked, told) in [
        ("anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    ] {
        let assembled = ask(&lab, asked);
        lab.record("s", &answered(told, 1, real(&assembled, 1.3)));
    }
    let samples = lab.store.samples("claude-sonnet-4-5", "o200k", 99).unwrap();
    assert_eq!(samples.len(), 3);
}

/// A provider whose counts are 1.3 times o200k's, give or take, and which
/// refuses what is longer than its window.
#[test]
fn overflow_becomes_rare() {
    const WINDOW: u64 = 4_000;
    let lab =
        Lab::new("[models.remote]\nwindow = 4000\nfactor = 1.0\n[compaction]\nthreshold = 100.0");
    lab.session("s");
    let (mut late, mut overflows, mut fullest) = (0, 0, 0);
    for i in 0..150 {
        let request = Request {
            model: Some("remote".to_owned()),
            ..request("s", WINDOW)
        };
        let assembled = lab.engine.assemble(&lab.root, &request).unwrap();
        let noise = ((i * 37) % 13) as f64 / 13.0 * 0.1 - 0.05;
        let real = real(&assembled, 1.3 + noise);
        if i >= 30 {
            late += 1;
            overflows += usize::from(real > WINDOW);
            fullest = fullest.max(real);
        }
        // A refused request is recorded without what it would have cost.
        let mut turn = answered("remote", i, real);
        if real > WINDOW {
            turn.usage = None;
        }
        lab.record("s", &turn);
    }
    assert!(overflows * 20 <= late, "{overflows} of {late}");
    assert!(fullest > WINDOW * 85 / 100, "the window is used: {fullest}");
}
