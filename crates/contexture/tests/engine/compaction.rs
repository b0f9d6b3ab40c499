//! Making history shorter: when, how far, what stays, and how it is undone.

use crate::support::counting::Counting;
use crate::support::*;
use contexture::core::{Role, Trust};
use contexture::store::{Compaction, Trigger, Turn};
use contexture::turn::{Block, MessageRole, NewTurn};
use contexture::{Assembled, CompactRequest, Format};

const MARK: &str = "[Previous conversation summary]";
const KEY: &str = "sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW";

fn manual(lab: &Lab, focus: Option<&str>) -> Option<contexture::compaction::Compacted> {
    let request = CompactRequest {
        focus: focus.map(str::to_owned),
        max_tokens: Some(10_000),
        now: Some(lab.tick()),
        ..CompactRequest::default()
    };
    lab.engine.compact("s", &request).unwrap().compacted()
}

fn turns(lab: &Lab) -> Vec<Turn> {
    let turns = lab.engine.history("s", usize::MAX).unwrap();
    turns
        .into_iter()
        .filter(|turn| turn.compaction.is_none())
        .collect()
}

/// Returns the numbers of the exchanges that are shown as messages.
fn shown(assembled: &Assembled) -> Vec<usize> {
    let is_shown = |i: &usize| {
        let mut blocks = assembled.layout.history.iter();
        blocks.any(|block| block.text().starts_with(&format!("Question {i}?")))
    };
    (0..200).filter(is_shown).collect()
}

fn summary(assembled: &Assembled) -> Option<&str> {
    let first = assembled.layout.history.first()?;
    first.text().strip_prefix(MARK).map(str::trim)
}

#[test]
fn from_85_to_60_percent() {
    let lab = Lab::new("");
    // Where messages have no tags: marks would be counted on top.
    let assemble = |max_tokens| {
        let mut request = request("s", max_tokens);
        request.format = Some(Format::Json);
        lab.engine.assemble(&lab.root, &request).unwrap()
    };
    lab.talk("s", &chat(40, 60));
    let used = assemble(100_000).report.budget.used;
    let below = assemble(used * 100 / 84);
    assert!(below.compacted().is_none());
    let max = used * 100 / 86;
    let above = assemble(max);
    let compacted = above.compacted().unwrap();
    assert_eq!(compacted.trigger, Trigger::ContextLimit);
    let now = above.report.budget.used;
    assert!(now <= max * 60 / 100, "{now} of {max}");
    assert!(now >= max * 48 / 100, "no more than needed: {now} of {max}");
    let row = &above.report.excluded[0];
    let summarised = format!("turns 1-{}", compacted.turns);
    assert_eq!((&*row.id, row.code.as_str()), (&*summarised, "compacted"));
    // The next request leaves it there.
    lab.record("s", &exchange("Question 40? Short.", "Yes."));
    let next = assemble(max);
    assert!(next.compacted().is_none());
    assert_eq!(summary(&next), summary(&above));
}

#[test]
fn the_first_kept_turn_precedes_the_compaction_and_is_shown() {
    let lab = Lab::new("");
    lab.talk("s", &chat(20, 60));
    let used = lab.assemble("s", 100_000).report.budget.used;
    let assembled = lab.assemble("s", used);
    let compacted = assembled.compacted().unwrap();
    let all = turns(&lab);
    let kept = all
        .iter()
        .position(|turn| Some(turn.id) == compacted.first_kept);
    let kept = kept.unwrap();
    assert_eq!(kept, compacted.turns);
    assert_eq!(shown(&assembled), (kept..20).collect::<Vec<_>>());
    assert!((3..18).contains(&(20 - kept)));
    let first = &assembled.layout.history[0];
    assert_eq!((first.role, first.trust), (Role::User, Trust::Tool));
    assert!(first.text().starts_with(MARK));
    assert!(
        assembled
            .render(Format::Text)
            .unwrap()
            .contains("Answer briefly.")
    );
    assert_eq!(assembled.parent_turn_id, Some(compacted.turn_id));
}

#[test]
fn overflow_brings_it_to_40_percent_once() {
    let lab = Lab::new("");
    lab.write("AGENTS.md", &format!("Answer briefly. {}\n", prose(1, 400)));
    lab.talk("s", &chat(40, 60));
    let max = lab.assemble("s", 100_000).report.budget.used * 100 / 80;
    assert!(lab.assemble("s", max).compacted().is_none());
    // The model and the window are those of the latest request.
    let request = CompactRequest {
        now: Some(lab.tick()),
        ..CompactRequest::default()
    };
    let compacted = lab.engine.recover_overflow("s", &request).unwrap();
    assert_eq!(compacted.trigger, Trigger::OverflowRecovery);
    let after = lab.assemble("s", max);
    let used = after.report.budget.used;
    assert!(used <= max * 40 / 100, "{used} of {max}");
    check(&after).unwrap();
    let again = lab.engine.recover_overflow("s", &request).unwrap_err();
    assert!(
        again
            .to_string()
            .contains("already compacted after an overflow"),
        "{again}"
    );
    for turn in &chat(20, 60) {
        lab.record("s", turn);
    }
    lab.engine.recover_overflow("s", &request).unwrap();
}

#[test]
fn nothing_is_left_to_make_shorter() {
    let lab = Lab::new("");
    lab.talk("s", &chat(3, 60));
    let request = CompactRequest::default();
    let error = lab.engine.recover_overflow("s", &request).unwrap_err();
    assert!(error.to_string().contains("was not compacted"), "{error}");
    assert_eq!(manual(&lab, None), None);
}

/// The provider accepts less than the assumed window: the caller can pass the
/// true one.
#[test]
fn compaction_needs_the_true_window_when_history_fits_the_assumed_one() {
    let lab = Lab::new("");
    lab.talk("s", &chat(6, 60));
    let request = CompactRequest::default();
    let error = lab.engine.recover_overflow("s", &request).unwrap_err();
    assert!(error.to_string().contains("was not compacted"), "{error}");
    let hint = "set `max_tokens`";
    assert_eq!(
        error.hint(&contexture::advice::Plain).as_deref(),
        Some(hint)
    );
    let request = CompactRequest {
        max_tokens: Some(600),
        ..CompactRequest::default()
    };
    lab.engine.recover_overflow("s", &request).unwrap();
}

/// A turn that answers calls of the turn before is divided between its steps.
#[test]
fn the_latest_turns_are_kept_from_their_first_step() {
    let lab = Lab::new("");
    lab.talk("s", &chat(10, 40));
    lab.record("s", &turn([user("Look."), calls(["c1"])]));
    let answered = lab
        .record("s", &turn([result("c1", "ok"), says("And more.")]))
        .id;
    lab.record("s", &turn([says("And more yet.")]));
    lab.record("s", &exchange("Question 99? Fine.", "Yes."));
    let compacted = manual(&lab, None).unwrap();
    assert_eq!(compacted.first_kept, Some(answered));
    assert_eq!(compacted.first_kept_message, 1);
    let assembled = lab.assemble("s", 10_000);
    check(&assembled).unwrap();
    let history: Vec<&str> = assembled.layout.history.iter().map(|b| b.text()).collect();
    assert!(history[0].contains("Look."), "{}", history[0]);
    let kept = ["And more.", "And more yet.", "Question 99? Fine.", "Yes."];
    assert_eq!(history[1..], kept);
    // The same after a restart.
    let again = lab.another("").assemble(&lab.root, &request("s", 10_000));
    assert_eq!(again.unwrap().layout.history, assembled.layout.history);
}

#[test]
fn steps_without_a_user_are_summarised() {
    let lab = Lab::new("");
    lab.session("s");
    for i in 0..12 {
        lab.record("s", &turn([says(&prose(i, 40))]));
    }
    lab.record("s", &turn([calls(["c1"])]));
    let compacted = manual(&lab, None).unwrap();
    assert_eq!((compacted.turns, compacted.steps), (10, 10));
    lab.record("s", &turn([result("c1", "ok")]));
    check(&lab.assemble("s", 10_000)).unwrap();
}

/// One turn may hold a whole run: it is summarised between its steps.
#[test]
fn a_turn_of_many_steps_is_divided() {
    let lab = Lab::new("");
    lab.session("s");
    let mut messages = vec![user("Fix every test. Never touch the API.")];
    for i in 0..60 {
        let id = format!("c{i}");
        messages.push(calls([id.as_str()]));
        messages.push(result(&id, &prose(i, 60)));
    }
    messages.push(says("Half of them pass."));
    lab.record("s", &turn(messages));
    let assembled = lab.assemble("s", lab.pinned() + 2_500);
    check(&assembled).unwrap();
    let compacted = assembled.compacted().unwrap();
    assert!(compacted.first_kept_message > 40, "{compacted:?}");
    assert_eq!(compacted.turns, 1);
    assert_eq!(compacted.lost, Vec::<String>::new());
    let summary = summary(&assembled).unwrap();
    assert!(
        summary.contains("Fix every test. Never touch the API."),
        "{summary}"
    );
    let last = assembled.layout.history.last().unwrap();
    assert_eq!(last.text(), "Half of them pass.");
    // The next compaction goes on from there, and undoing goes back.
    let all = lab.engine.history("s", usize::MAX).unwrap().len();
    let manual = manual(&lab, None).unwrap();
    assert!(manual.first_kept_message > compacted.first_kept_message);
    assert_eq!(lab.engine.history("s", usize::MAX).unwrap().len(), all + 1);
    lab.engine.uncompact("s", Some(lab.tick())).unwrap();
    lab.engine.uncompact("s", Some(lab.tick())).unwrap();
    let whole = lab.assemble("s", 100_000);
    assert_eq!(whole.layout.history.len(), 1 + 60 * 2 + 1);
}

/// After 300 steps, the agent still has the question, the failures and the
/// files it worked on.
#[test]
fn a_long_run_remembers() {
    let lab = Lab::new("");
    lab.session("s");
    let pinned = lab.pinned();
    for i in 0..300 {
        let path = format!("src/part_{}.rs", i % 20);
        let mut messages = Vec::new();
        if i == 0 {
            messages.push(user("Port the parser. You must keep the error codes."));
        }
        let id = format!("call-{i}");
        let edit = Block::ToolCall {
            id: id.clone(),
            name: "edit".to_owned(),
            arguments: serde_json::json!({"path": path}),
            native: None,
        };
        messages.push(blocks(MessageRole::Assistant, [edit]));
        let mut outcome = result(&id, &prose(i, 80));
        if i == 17 {
            outcome = result(
                &id,
                "error[E0499]: cannot borrow `x` as mutable more than once",
            );
            outcome.is_error = true;
        }
        messages.push(outcome);
        lab.record("s", &turn(messages));
        let assembled = lab.assemble("s", pinned + 4_000);
        check(&assembled).unwrap();
    }
    let assembled = lab.assemble("s", pinned + 4_000);
    let text = summary(&assembled).unwrap();
    for known in [
        "Port the parser. You must keep the error codes.",
        "error[E0499]: cannot borrow `x` as mutable more than once",
        "src/part_0.rs",
        "src/part_19.rs",
    ] {
        assert!(text.contains(known), "{known}: {text}");
    }
}

/// An attempt that finds nothing to summarise is not repeated for the same
/// history.
#[test]
fn a_history_of_one_step_is_not_summarised() {
    let lab = Lab::new("");
    lab.talk("s", &[exchange("Hello?", &prose(1, 900))]);
    let assembled = lab.assemble("s", lab.pinned() + 700);
    check(&assembled).unwrap();
    assert!(assembled.compacted().is_none());
    assert_eq!(manual(&lab, None), None);
}

fn eventful(i: usize) -> NewTurn {
    match i {
        2 => exchange(
            "We decided to use port 7443 because 443 is taken.",
            "Noted.",
        ),
        4 => turn([
            user("Build it."),
            calls(["c1"]),
            result("c1", "error[E0308]: mismatched types in src/ledger.rs"),
            says("The build failed with E0308."),
        ]),
        i => exchange(
            &format!("Question {i}? {}", prose(i, 30)),
            &prose(i + 300, 30),
        ),
    }
}

#[test]
fn summaries_of_summaries_carry_on_what_matters() {
    let lab = Lab::new("");
    lab.session("s");
    let mut summaries = 0;
    for i in 0..90 {
        lab.record("s", &eventful(i));
        let assembled = lab.assemble("s", 3_000);
        summaries += usize::from(assembled.compacted().is_some());
    }
    assert!(summaries >= 4, "{summaries}");
    let assembled = lab.assemble("s", 3_000);
    let summary = summary(&assembled).unwrap();
    assert!(summary.contains("7443"), "{summary}");
    assert!(summary.contains("E0308"), "{summary}");
    assert_eq!(summary.matches(MARK).count(), 0);
    check(&assembled).unwrap();
}

#[test]
fn undoing_moves_the_head_back() {
    let lab = Lab::new("");
    lab.talk("s", &chat(20, 60));
    let before = lab.assemble("s", 20_000);
    let head = lab.store.session("s").unwrap().head;
    let compacted = manual(&lab, None).unwrap();
    assert_eq!(shown(&lab.assemble("s", 20_000)).len(), 3);
    let undone = lab.engine.uncompact("s", Some(lab.tick())).unwrap();
    assert_eq!(
        (undone.undone, Some(undone.head)),
        (compacted.turn_id, head)
    );
    // The summary is not created again at once: everything fits.
    let after = lab.assemble("s", 20_000);
    assert!(after.compacted().is_none());
    assert_eq!(after.layout, before.layout);
    let error = lab.engine.uncompact("s", Some(lab.tick())).unwrap_err();
    assert!(
        error.to_string().contains("no compaction to undo"),
        "{error}"
    );
}

#[test]
fn a_fork_before_a_summary_does_not_have_it() {
    let lab = Lab::new("");
    lab.talk("s", &chat(20, 60));
    let early = turns(&lab)[4].id.to_string();
    manual(&lab, None).unwrap();
    lab.engine.fork("s", "early", Some(&early), None).unwrap();
    lab.fork("s", "late");
    let early = lab.assemble("early", 20_000);
    assert_eq!(shown(&early), [0, 1, 2, 3, 4]);
    assert_eq!(summary(&early), None);
    let late = lab.assemble("late", 20_000);
    assert_eq!(shown(&late), [17, 18, 19]);
    assert!(summary(&late).is_some());
}

#[test]
fn undoing_keeps_what_was_said_since() {
    let lab = Lab::new("");
    lab.talk("s", &chat(20, 60));
    let first = manual(&lab, None).unwrap();
    for turn in chat(30, 60).drain(20..) {
        lab.record("s", &turn);
    }
    let second = manual(&lab, None).unwrap();
    lab.record("s", &exchange("Question 30? Since.", "Yes."));
    let undo = || lab.engine.uncompact("s", Some(lab.tick())).unwrap().undone;

    assert_eq!(undo(), second.turn_id);
    let assembled = lab.assemble("s", 20_000);
    assert_eq!(summary(&assembled), Some(first.summary.as_str()));
    assert_eq!(shown(&assembled), (17..31).collect::<Vec<_>>());

    assert_eq!(undo(), first.turn_id);
    let assembled = lab.assemble("s", 20_000);
    assert_eq!(summary(&assembled), None);
    assert_eq!(shown(&assembled), (0..31).collect::<Vec<_>>());
    check(&assembled).unwrap();
    let error = lab.engine.uncompact("s", Some(lab.tick())).unwrap_err();
    assert!(
        error.to_string().contains("no compaction to undo"),
        "{error}"
    );

    // And another can be made, and undone.
    let third = manual(&lab, None).unwrap();
    assert_eq!(shown(&lab.assemble("s", 20_000)), [28, 29, 30]);
    assert_eq!(undo(), third.turn_id);
    assert_eq!(shown(&lab.assemble("s", 20_000)).len(), 31);
}

#[test]
fn a_focus_selects_the_kept_facts() {
    let lab = Lab::new("");
    lab.session("s");
    for i in 0..40 {
        let animal = ["heron", "otter", "lynx", "viper"][i % 4];
        lab.record(
            "s",
            &exchange(
                &format!("Note {i}: the {animal} was seen at post {i}."),
                "Noted.",
            ),
        );
    }
    let request = |focus: &str| CompactRequest {
        focus: Some(focus.to_owned()),
        max_tokens: Some(1_200),
        now: Some(lab.tick()),
        ..CompactRequest::default()
    };
    let compacted = lab
        .engine
        .compact("s", &request("otter"))
        .unwrap()
        .compacted()
        .unwrap();
    let count = |word: &str| compacted.summary.matches(word).count();
    assert!(count("otter") > count("viper"), "{}", compacted.summary);
}

/// For a session without a summary, only the usable part is read; the rest is
/// counted.
#[test]
fn a_first_summary_of_a_long_session_is_bounded() {
    let (lab, counting) = Lab::counting("");
    lab.session("s");
    let turns = chat(50, 400);
    for i in 0..1_500 {
        let turn = &turns[i % 50];
        lab.store.record("s", turn, None, None, lab.tick()).unwrap();
    }
    Counting::take(&counting.turns_loaded);
    let assembled = lab.assemble("s", 2_000);
    let compacted = assembled.compacted().unwrap();
    let loaded = Counting::take(&counting.turns_loaded);
    assert!(loaded < 300, "{loaded} turns were read");
    // Once to where the reading ends, and once from there to the first turn.
    assert!(Counting::take(&counting.heads_walked) < 2_000);
    let older = 1_500 - compacted.turns;
    assert!(compacted.turns < 250);
    assert!(
        compacted.summary.contains("[turn 1]"),
        "{}",
        compacted.summary
    );
    let told = summary(&assembled)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let told: usize = told.trim_start_matches('(').parse().unwrap();
    assert!(told > 1_200 && told <= older, "{told} of {older}");
    check(&assembled).unwrap();
}

#[test]
fn a_summary_that_is_not_shorter_is_refused() {
    let lab = Lab::new("");
    lab.session("s");
    for i in 0..4 {
        lab.record("s", &exchange(&format!("{i}?"), "Yes."));
    }
    assert_eq!(manual(&lab, None), None);
    assert!(turns(&lab).len() == 4 && lab.store.session("s").unwrap().turns == 4);
}

#[test]
fn keys_do_not_get_into_a_summary() {
    let lab = Lab::new("");
    lab.session("s");
    let secret = format!("We decided that api_key = \"{KEY}\" is the key for port 7443.");
    lab.record("s", &exchange(&secret, "Decided."));
    lab.record(
        "s",
        &turn([
            user("Run."),
            calls(["c1"]),
            result("c1", &format!("error: token {KEY} refused")),
            says("Failed."),
        ]),
    );
    for turn in &chat(10, 40) {
        lab.record("s", turn);
    }
    let compacted = manual(&lab, Some(&format!("what {KEY} is for"))).unwrap();
    assert!(
        compacted.summary.contains("masked"),
        "{}",
        compacted.summary
    );
    let stored = format!(
        "{:?}",
        lab.engine.history("s", usize::MAX).unwrap().last().unwrap()
    );
    assert!(!stored.contains(KEY) && !compacted.summary.contains(KEY));
}

#[test]
fn a_periodic_compaction_is_used_like_any_other() {
    let lab = Lab::new("");
    lab.talk("s", &chat(10, 40));
    let all = turns(&lab);
    let compaction = Compaction {
        summary: "Six questions were answered.".to_owned(),
        summarized_through: Some(all[5].id),
        first_kept: Some(all[6].id),
        first_kept_message: 0,
        facts: None,
        made_of: Vec::new(),
        trigger: serde_json::from_str("\"periodic\"").unwrap(),
        focus: None,
        summariser: "by hand".to_owned(),
        tokens_before: 500,
        tokens_after: 6,
        usage: None,
    };
    assert_eq!(compaction.trigger, Trigger::Periodic);
    let head = lab.store.session("s").unwrap().head.unwrap();
    lab.store
        .compact("s", head, &compaction, lab.tick())
        .unwrap();
    let assembled = lab.assemble("s", 20_000);
    assert_eq!(summary(&assembled), Some("Six questions were answered."));
    assert_eq!(shown(&assembled), [6, 7, 8, 9]);
}

/// A summary for a large window does not prevent one for a small window.
#[test]
fn a_smaller_model_gets_a_smaller_summary() {
    let lab = Lab::new("");
    lab.session("s");
    for i in 0..60 {
        lab.record("s", &eventful(i));
    }
    let large = manual(&lab, None).unwrap();
    for i in 60..70 {
        lab.record("s", &eventful(i));
    }
    let max = lab.pinned() + large.tokens_after;
    let small = lab.assemble("s", max);
    let compacted = small.compacted().unwrap();
    assert!(compacted.tokens_after < large.tokens_after / 2);
    assert!(summary(&small).is_some());
    check(&small).unwrap();
}

/// The tokens of a picture count, although it has almost no text.
#[test]
fn pictures_are_made_room_for() {
    let lab = Lab::new("");
    lab.session("s");
    for i in 0..12 {
        let picture = Block::Image {
            media_type: "image/png".to_owned(),
            data: None,
            url: Some(format!("https://example.com/{i}.png")),
            native: None,
        };
        let asked = blocks(
            MessageRole::User,
            [picture, text(&format!("Question {i}?"))],
        );
        lab.record("s", &turn([asked, says(&prose(i, 40))]));
    }
    let used = lab.assemble("s", 1_000_000).report.budget.used;
    let one = used / 12;
    assert!(one > 1_000, "{one}");
    let max = one * 7;
    let assembled = lab.assemble("s", max);
    let compacted = assembled.compacted().unwrap();
    assert!((7..=9).contains(&compacted.turns), "{}", compacted.turns);
    assert!(assembled.report.budget.used <= max * 60 / 100);
    assert!(summary(&assembled).is_some());
    check(&assembled).unwrap();
}

/// If the limit is too small for the messages to keep, the report lists the
/// missing turns.
#[test]
fn turns_missing_from_the_summary_are_reported() {
    let mut lab = Lab::new("");
    lab.talk("s", &chat(60, 60));
    let used = lab.assemble("s", 100_000).report.budget.used;
    let _ = lab.assemble("s", used).compacted().unwrap();
    lab.restart("[compaction]\nenabled = false");
    let small = lab.assemble("s", used / 5);
    let mut rows = small.report.excluded.iter();
    let row = rows.find(|row| row.id.starts_with("turns 1-")).unwrap();
    let reason = row.reason.to_string();
    assert!(reason.contains("the others were not read"), "{reason}");
    check(&small).unwrap();
}

/// A window of any size is a number like any other.
#[test]
fn an_absurd_window_is_no_error() {
    let lab = Lab::new("");
    lab.talk("s", &chat(20, 60));
    for max_tokens in [0, 1, u64::MAX / 3, u64::MAX] {
        let request = CompactRequest {
            max_tokens: Some(max_tokens),
            now: Some(lab.tick()),
            ..CompactRequest::default()
        };
        lab.engine.compact("s", &request).unwrap();
    }
}
