//! Whatever was recorded and however little room there is: a request that every
//! provider takes, with its pinned part whole and its latest turns in it.

use crate::support::dice::Dice;
use crate::support::*;
use contexture::store::StoreError;
use contexture::turn::{ErrorKind, MessageRole, NewTurn, TurnError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const PLAIN: &str = "[compaction]\nenabled = false\n[snapshots]\nkeep = false";
const COMPACTING: &str = "[snapshots]\nkeep = false";

/// Turns with every known problem of calls and results.
fn difficult() -> Vec<NewTurn> {
    let picture = |id: &str| {
        let mut message = blocks(MessageRole::Tool, [text("a picture"), image()]);
        message.tool_call_id = Some(id.to_owned());
        message
    };
    vec![
        // Begins with the assistant, which calls and is answered.
        turn([calls(["c1"]), result("c1", "up"), says("Good morning.")]),
        // Parallel, and one after the other.
        turn([
            user("Why does the build fail?"),
            calls(["c1", "c2"]),
            result("c2", "second first"),
            result("c1", "undefined reference"),
            calls(["c3"]),
            result("c3", ""),
            says("foo is not linked."),
        ]),
        // Answered in the next turn.
        turn([user("Try again."), calls(["c1"])]),
        turn([result("c1", "it works"), says("It works.")]),
        // Never answered.
        turn([user("And the tests?"), calls(["c1", "c2"])]),
        exchange("Leave it.", "I stopped."),
        // Failed, with nothing from the model.
        NewTurn {
            error: Some(TurnError {
                kind: ErrorKind::ModelError,
                message: "overloaded".to_owned(),
            }),
            ..turn([user("Hello?")])
        },
        // Says nothing but blanks before the model speaks.
        exchange("  \n ", "I am here."),
        exchange("Thanks.", "   "),
        turn([
            user("Show me the log."),
            calls(["c1"]),
            result("c1", &prose(1, 400)),
            says("It is long."),
        ]),
        turn([
            blocks(MessageRole::User, [image(), text("What is this?")]),
            says("A pixel."),
        ]),
        turn([user("Draw."), calls(["c2"]), picture("c2"), says("Done.")]),
        // Half answered, then given up.
        turn([user("Two things."), calls(["a", "b"])]),
        turn([result("a", "one"), says("One is enough.")]),
        // Answered in the user's message, as some providers have it.
        turn([user("Once more."), calls(["x", "y"])]),
        turn([
            blocks(MessageRole::User, [result_block("x", "1"), text("hm")]),
            blocks(MessageRole::User, [result_block("y", "2")]),
            says("So it is."),
        ]),
        turn([
            message(
                MessageRole::System,
                contexture::turn::MessageContent::Text("old rules".to_owned()),
            ),
            user("Think."),
            blocks(
                MessageRole::Assistant,
                [thought("deep", Some("seal")), call("c1", "shell", "true")],
            ),
            result("c1", "ok"),
            blocks(MessageRole::Assistant, [thought("deeper", None)]),
            says("I thought."),
        ]),
        // Some in one message of the user's, the rest in the next turn.
        turn([user("And again."), calls(["x", "y"])]),
        turn([blocks(
            MessageRole::User,
            [result_block("x", "1"), text("one more comes")],
        )]),
        turn([
            blocks(MessageRole::User, [result_block("y", "2")]),
            says("Now both."),
        ]),
        // The model goes on by itself.
        turn([says("By the way, it is done.")]),
        turn([user("Good."), calls(["c1"])]),
    ]
}

/// Returns what each of the latest groups of turns costs, newest first.
fn groups(lab: &Lab, label: &str) -> Vec<(String, usize, u64)> {
    let all = lab.assemble(label, 100_000);
    let mut groups: Vec<(String, usize, u64)> = Vec::new();
    for block in all.layout.history.iter().rev() {
        let group = block.group.as_deref().unwrap_or("").to_owned();
        match groups.last_mut() {
            Some(last) if last.0 == group => {
                last.1 += 1;
                last.2 += block.tokens;
            }
            _ => groups.push((group, 1, block.tokens)),
        }
    }
    groups
}

/// The tokens of the line about omitted messages.
const LINE: u64 = 24;

#[test]
fn every_budget_gives_a_valid_request() {
    let lab = Lab::new(PLAIN);
    let turns = difficult();
    let mut invalid = Vec::new();
    lab.talk("all", &turns);
    let pinned = lab.pinned();
    let full = lab.assemble("all", 100_000).report.budget.used;
    let groups = groups(&lab, "all");
    assert!(
        full > pinned + 1_000 && groups.len() > 10,
        "{full} {pinned}"
    );
    for max in pinned..=full + 3 {
        let assembled = lab.assemble("all", max);
        if let Err(why) = check(&assembled) {
            invalid.push(format!("{max}: {why}"));
        }
        // The latest messages are whole whenever they fit, next to the line
        // about omitted ones.
        let mut blocks = assembled.layout.history.iter();
        let line = blocks.find(|block| &*block.id == "gap");
        let mut room = (max - pinned).saturating_sub(line.map_or(LINE, |line| line.tokens));
        for (group, blocks, tokens) in groups.iter().take(3) {
            let Some(left) = room.checked_sub(*tokens) else {
                break;
            };
            room = left;
            let kept = assembled.layout.history.iter();
            let kept = kept.filter(|block| block.group.as_deref() == Some(group));
            let whole: u64 = kept.clone().map(|block| block.tokens).sum();
            if kept.count() != *blocks || whole > *tokens {
                invalid.push(format!("{max}: {group} fits and is not whole"));
            }
        }
    }
    assert_eq!(
        invalid.len(),
        0,
        "invalid: {:#?}",
        &invalid[..invalid.len().min(5)]
    );
    let whole = lab.assemble("all", full);
    assert_eq!(whole.report.budget.used, full, "what fits exactly is kept");
}

#[test]
fn every_beginning_of_a_conversation_is_valid() {
    let lab = Lab::new(PLAIN);
    let pinned = lab.pinned();
    let mut invalid = Vec::new();
    lab.session("some");
    for turn in &difficult() {
        lab.record("some", turn);
        let full = lab.assemble("some", 100_000).report.budget.used;
        for max in (pinned..=full + 20).step_by(37) {
            if let Err(why) = check(&lab.assemble("some", max)) {
                invalid.push(format!("{max}: {why}"));
            }
        }
    }
    assert_eq!(
        invalid.len(),
        0,
        "invalid: {:#?}",
        &invalid[..invalid.len().min(5)]
    );
}

#[test]
fn every_budget_gives_a_valid_request_with_summaries() {
    let lab = Lab::new(COMPACTING);
    lab.talk("all", &difficult());
    let pinned = lab.pinned();
    let full = lab.assemble("all", 100_000).report.budget.used;
    let (mut invalid, mut compacted) = (Vec::new(), 0);
    for max in (pinned..=full * 6 / 5).step_by(13) {
        let label = format!("with {max}");
        lab.fork("all", &label);
        let assembled = lab.assemble(&label, max);
        compacted += usize::from(assembled.compacted().is_some());
        if let Err(why) = check(&assembled) {
            invalid.push(format!("{max}: {why}"));
        }
        // And with what comes next, on the summary.
        lab.record(&label, &turn([result("c1", "ok"), says("Done.")]));
        if let Err(why) = check(&lab.assemble(&label, max)) {
            invalid.push(format!("{max}, next: {why}"));
        }
    }
    assert_eq!(
        invalid.len(),
        0,
        "invalid: {:#?}",
        &invalid[..invalid.len().min(5)]
    );
    assert!(compacted > 50, "{compacted} were summarised");
}

/// An agent that runs for long on one question, each step recorded as a turn.
#[test]
fn a_long_run_on_one_question() {
    let lab = Lab::new(COMPACTING);
    let pinned = lab.pinned();
    lab.session("s");
    lab.record("s", &turn([user("Fix the build."), calls(["c0"])]));
    for i in 1..40 {
        let (answered, next) = (format!("c{}", i - 1), format!("c{i}"));
        let step = [result(&answered, &prose(i, 120)), calls([next.as_str()])];
        lab.record("s", &turn(step));
    }
    // The question and the latest steps remain, whole.
    for room in [5_000, 1_000, 400] {
        let assembled = lab.assemble("s", pinned + room);
        check(&assembled).unwrap();
        let history = &assembled.layout.history;
        assert!(history[0].text().contains("Fix the build."), "{room}");
        let last = history.last().unwrap();
        assert_eq!(
            last.text(),
            "(no result was recorded)",
            "its call is the latest"
        );
        let truncated = assembled.report.included.iter().filter(|row| row.truncated);
        assert!(truncated.count() <= 1, "{room}");
    }
    // The window over them stays put like any other.
    let mut moves = 0;
    let mut start = None;
    for i in 40..80 {
        let (answered, next) = (format!("c{}", i - 1), format!("c{i}"));
        let step = [result(&answered, &prose(i, 120)), calls([next.as_str()])];
        lab.record("s", &turn(step));
        let assembled = lab.assemble("s", pinned + 5_000);
        check(&assembled).unwrap();
        let now = assembled.layout.history[1].id.clone();
        moves += usize::from(start.as_ref() != Some(&now));
        start = Some(now);
    }
    assert!(moves < 8, "{moves} moves");
}

/// Budgets shrink and grow from one request to the next, over one session with
/// its snapshots and summaries.
#[test]
fn a_session_survives_changing_budgets() {
    let lab = Lab::new("");
    let pinned = lab.pinned();
    lab.session("s");
    let mut invalid = Vec::new();
    for (i, turn) in difficult().iter().cycle().take(57).enumerate() {
        match lab.engine.record("s", turn, Some(lab.tick())) {
            Ok(_) => {}
            // Its call was given up.
            Err(error) => assert!(
                error.to_string().contains("which does not exist"),
                "{error}"
            ),
        }
        for max in [pinned + 900, pinned + (i as u64 * 211) % 1_900, pinned] {
            match lab.engine.assemble(&lab.root, &request("s", max)) {
                Ok(assembled) => {
                    if let Err(why) = check(&assembled) {
                        invalid.push(format!("turn {i}, {max}: {why}"));
                    }
                }
                Err(why) => invalid.push(format!("turn {i}, {max}: {why}")),
            }
        }
    }
    assert_eq!(
        invalid.len(),
        0,
        "invalid: {:#?}",
        &invalid[..invalid.len().min(5)]
    );
}

fn generated(config: &'static str, cases: u32) {
    let lab = Lab::new(config);
    let pinned = lab.pinned();
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let count = std::cell::Cell::new(0);
    let cases = (
        prop::collection::vec(prop::collection::vec(any::<u8>(), 4..40), 1..14),
        prop::collection::vec(0..2_000u64, 1..4),
    );
    runner
        .run(&cases, |(conversation, budgets)| {
            count.set(count.get() + 1);
            let label = format!("case {}", count.get());
            lab.session(&label);
            let mut open = Vec::new();
            for bytes in &conversation {
                let before = open.clone();
                let turn = Dice(bytes).turn(&mut open);
                match lab.store.record(&label, &turn, None, None, lab.tick()) {
                    Ok(_) => {}
                    Err(StoreError::Invalid { .. }) => open = before,
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
            for room in budgets {
                let assembled = lab
                    .engine
                    .assemble(&lab.root, &request(&label, pinned + room))
                    .map_err(|error| TestCaseError::fail(error.to_string()))?;
                check(&assembled).map_err(TestCaseError::fail)?;
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn generated_conversations_are_valid() {
    generated(PLAIN, 150);
}

#[test]
fn generated_conversations_are_valid_with_summaries() {
    generated("", 120);
}

#[test]
fn a_result_of_a_call_three_turns_back_is_sent_as_text() {
    let lab = Lab::new("[compaction]\nenabled = false");
    let late = "the deploy finished after all";
    lab.talk(
        "s",
        &[
            turn([user("Deploy."), calls(["c1", "c2"]), result("c2", "fine")]),
            exchange("Never mind. What time is it?", "Noon."),
            exchange("And the date?", "The first."),
        ],
    );
    let without_event = contexture::Request {
        event: None,
        ..request("s", 20_000)
    };
    let before = lab.engine.assemble(&lab.root, &without_event).unwrap();
    lab.record(
        "s",
        &turn([result("c1", late), says("The deploy is done.")]),
    );
    let after = lab.assemble("s", 20_000);
    check(&after).unwrap();
    // Sent messages do not change: the call keeps its placeholder result.
    let blocks = |assembled: &contexture::Assembled| -> Vec<String> {
        let blocks = assembled.layout.history.iter();
        blocks.map(|block| block.text().to_owned()).collect()
    };
    let (before, now) = (blocks(&before), blocks(&after));
    assert_eq!(now[..before.len()], before);
    assert_eq!(
        now[before.len()..],
        [
            format!("Late result of the earlier call `c1-1` of `shell`:\n{late}"),
            "The deploy is done.".to_owned()
        ]
    );
    // Once; and a call that never was is an error.
    for (id, why) in [("c1", "c1"), ("c2", "c2"), ("c9", "c9")] {
        let again = turn([result(id, "again")]);
        let error = lab
            .engine
            .record("s", &again, None)
            .unwrap_err()
            .to_string();
        let expected = format!("call `{why}`, which does not exist or already has a result");
        assert!(error.contains(&expected), "{error}");
    }
    // A summary of the call leaves nothing that a provider would refuse.
    let compact = contexture::CompactRequest {
        max_tokens: Some(2_000),
        ..Default::default()
    };
    let _ = lab.engine.compact("s", &compact).unwrap();
    check(&lab.assemble("s", 20_000)).unwrap();
}

#[test]
fn turns_without_a_summary_that_are_not_sent_are_reported() {
    let lab = Lab::new("");
    lab.session("s");
    let mut messages = vec![
        user("Go."),
        message(
            contexture::turn::MessageRole::System,
            contexture::turn::MessageContent::Text("an old system prompt".to_owned()),
        ),
    ];
    for n in 0..40 {
        messages.push(says(&prose(n, 60)));
        messages.push(user("Go on."));
    }
    messages.push(says("Done."));
    lab.record("s", &turn(messages));
    let assembled = lab.assemble("s", 3_000);
    assert!(
        assembled
            .report
            .warnings
            .iter()
            .any(|w| w.code == "history_compacted")
    );
    let rows = assembled.report.excluded.iter();
    let unsent: Vec<_> = rows
        .filter(|row| row.code.as_str() == "not_for_provider")
        .collect();
    assert!(unsent.is_empty(), "{unsent:?}");
}
