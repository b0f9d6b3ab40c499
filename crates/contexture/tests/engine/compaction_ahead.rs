//! A history is summarised between turns, before a request needs it.

use crate::support::*;
use contexture::compaction::Attempt;
use contexture::store::MessageRole;

fn why(attempt: Attempt) -> &'static str {
    match attempt {
        Attempt::Nothing(reason) => reason,
        Attempt::Compacted(_) => panic!("it was compacted"),
    }
}

#[test]
fn a_history_that_is_nearly_too_long_is_summarised_ahead() {
    let lab = Lab::new("");
    let ahead = || lab.engine.compact_ahead("s", Some(lab.tick())).unwrap();
    lab.session("s");
    assert_eq!(why(ahead()), "there is nothing to summarise");
    for turn in chat(4, 60) {
        lab.record("s", &turn);
    }
    assert_eq!(why(ahead()), "no request was assembled yet");
    lab.assemble("s", 6_000);
    assert_eq!(why(ahead()), "the next request has room");

    // Until the next request would use more than three quarters.
    let mut compacted = None;
    for turn in chat(40, 60) {
        lab.record("s", &turn);
        if let Attempt::Compacted(done) = ahead() {
            compacted = Some(done);
            break;
        }
        lab.assemble("s", 6_000);
    }
    let compacted = compacted.unwrap();
    assert!(compacted.tokens_after < compacted.tokens_before);
    // The next request has nothing to do.
    let next = lab.assemble("s", 6_000);
    assert!(next.compacted().is_none());
    let warnings = next.report.warnings.iter();
    let mut codes = warnings.map(|warning| &*warning.code);
    assert!(!codes.any(|code| code == "history_compacted"));
    assert_eq!(why(ahead()), "the latest turn is not complete");
}

#[test]
fn a_turn_that_waits_for_results_is_left_alone() {
    let lab = Lab::new("");
    lab.talk("s", &chat(4, 60));
    lab.assemble("s", 6_000);
    let calls = blocks(
        MessageRole::Assistant,
        [call("c1", "shell", &prose(1, 6_000))],
    );
    lab.record("s", &turn([user("Look."), calls]));
    let attempt = lab.engine.compact_ahead("s", Some(lab.tick())).unwrap();
    assert_eq!(why(attempt), "the latest turn is not complete");
}
