//! Windows that are too small for their content, and histories of other
//! providers, tools and writers.

use crate::support::*;
use contexture::core::markup;
use contexture::store::{Block, MessageRole};
use contexture::{Format, Recipe, Request};
use serde_json::json;

/// Cached counts of the store or of an engine do not change results.
#[test]
fn caches_do_not_change_results() {
    let lab = Lab::new("compaction.enabled = false\n");
    lab.session("s");
    let hex: String = (0..4_000u32)
        .map(|i| format!("{:02x}", i * 7919 % 251))
        .collect();
    lab.record(
        "s",
        &turn([
            user("Dump it."),
            calls(["c1"]),
            result("c1", &hex),
            says(&prose(3, 2_500)),
        ]),
    );
    let max = lab.pinned() + 1_500;
    let first = markup::render(&lab.assemble("s", max).layout);
    let again = markup::render(&lab.assemble("s", max).layout);
    let other = lab.another("compaction.enabled = false\n");
    let anew = other.assemble(&lab.root, &request("s", max)).unwrap();
    assert_eq!(first, again, "the same engine once more");
    assert_eq!(first, markup::render(&anew.layout), "another engine");
    let cut = anew.report.included.iter().filter(|row| row.truncated);
    assert!(cut.count() >= 1);
}

/// Arguments cannot be cut. A window has no gaps, so it begins after them and
/// reports that; a summary lists the call.
#[test]
fn a_step_that_cannot_be_shown() {
    for (config, said) in [
        (
            "compaction.enabled = false\n",
            "[Earlier steps of this conversation",
        ),
        ("", "`write_file"),
    ] {
        let lab = Lab::new(config);
        lab.talk("s", &chat(5, 20));
        let write = call("w1", "write_file", &prose(9, 3_000));
        lab.record(
            "s",
            &turn([
                user("Write it."),
                blocks(MessageRole::Assistant, [write]),
                result("w1", "written"),
                says("Done."),
            ]),
        );
        let assembled = lab.assemble("s", lab.pinned() + 1_000);
        check(&assembled).unwrap();
        let history = &assembled.layout.history;
        assert_eq!(history.last().unwrap().text(), "Done.");
        let all: String = history.iter().map(|block| block.text()).collect();
        assert!(all.contains(said) && all.contains("Write it."), "{all}");
        assert!(
            !all.contains("Question 3?") || all.contains("[turn 4]"),
            "{all}"
        );
    }
}

/// A model calls what never was, by a name that no provider takes back.
#[test]
fn a_tool_of_any_name_does_not_end_a_conversation() {
    let lab = Lab::new("");
    lab.session("s");
    for name in [
        "multi_tool_use.parallel",
        "my tool!",
        "函数",
        &"x".repeat(100),
    ] {
        lab.record(
            "s",
            &turn([
                user("Go."),
                blocks(MessageRole::Assistant, [call("c1", name, "x")]),
                result("c1", "no such tool"),
                says("I see."),
            ]),
        );
    }
    let assembled = lab.assemble("s", 20_000);
    check(&assembled).unwrap();
    let chat = assembled.render(Format::OpenAiChat).unwrap();
    assert!(chat.contains("\"multi_tool_use_parallel\""), "{chat}");
}

/// A tool's message may hold several texts, or a picture alone.
#[test]
fn a_tool_answers_with_several_blocks() {
    let lab = Lab::new("");
    lab.session("s");
    let answer = |id: &str, content: Vec<Block>| {
        let mut message = blocks(MessageRole::Tool, content);
        message.tool_call_id = Some(id.to_owned());
        message
    };
    lab.record(
        "s",
        &turn([
            user("Look."),
            calls(["a", "b"]),
            answer("a", vec![text("one"), text("two")]),
            answer("b", vec![image()]),
            says("Seen."),
        ]),
    );
    let assembled = lab.assemble("s", 20_000);
    check(&assembled).unwrap();
    let history: Vec<&str> = assembled
        .layout
        .history
        .iter()
        .map(|block| block.text())
        .collect();
    assert!(history.contains(&"one\n\ntwo"), "{history:?}");
}

/// Turns without a summary are reported as such.
#[test]
fn turns_without_a_summary_are_counted() {
    let lab = Lab::new("");
    lab.talk("s", &chat(10, 40));
    let first = lab
        .engine
        .compact("s", &Default::default())
        .unwrap()
        .compacted()
        .unwrap();
    for turn in chat(300, 400) {
        lab.record("s", &turn);
    }
    let assembled = lab.assemble("s", lab.pinned() + 2_000);
    let compacted = assembled.compacted().unwrap();
    let told: usize = compacted
        .summary
        .strip_prefix('(')
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{}", compacted.summary));
    let history = assembled.layout.history.iter();
    let kept = history
        .filter(|block| block.role == contexture::core::Role::User)
        .count()
        - 1;
    assert_eq!(
        310,
        first.turns + told + compacted.turns + kept,
        "{compacted:?}"
    );
}

/// If the system prompt alone is over the threshold, summaries with every
/// request would gain nothing.
#[test]
fn a_large_system_prompt_does_not_wear_history_down() {
    let lab = Lab::new("");
    lab.write("AGENTS.md", &prose(1, 2_000));
    lab.session("s");
    let mut compactions = 0;
    for turn in chat(20, 8) {
        lab.record("s", &turn);
        let assembled = lab.assemble("s", 3_500);
        compactions += usize::from(assembled.compacted().is_some());
    }
    assert!(compactions <= 4, "{compactions}");
}

/// Several requests at once need a summary: one makes it, the others use it.
#[test]
fn a_summary_that_others_made_first_is_used() {
    let lab = Lab::new("");
    lab.talk("s", &chat(60, 40));
    let max = lab.pinned() + 1_500;
    let engines: Vec<_> = (0..6).map(|_| lab.another("")).collect();
    let made: Vec<_> = std::thread::scope(|scope| {
        let tasks: Vec<_> = engines
            .iter()
            .map(|engine| scope.spawn(|| engine.assemble(&lab.root, &request("s", max)).unwrap()))
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    for assembled in &made {
        check(assembled).unwrap();
        let first = assembled.layout.history[0].text();
        assert!(
            first.starts_with("[Previous conversation summary]"),
            "{first}"
        );
        let warned = assembled
            .report
            .warnings
            .iter()
            .map(|w| w.message.clone())
            .collect::<Vec<_>>()
            .join("\n");
        assert!(!warned.contains("could not be summarised"), "{warned}");
    }
    let all = lab.engine.history("s", usize::MAX).unwrap();
    let summaries = all.iter().filter(|turn| turn.compaction.is_some());
    assert_eq!(summaries.count(), 1);
}

/// Tokens that a provider reports separately are part of the input here.
#[test]
fn usage_that_does_not_add_up_is_refused() {
    let lab = Lab::new("");
    lab.session("s");
    let mut turn = exchange("Why?", "Because.");
    turn.usage = Some(contexture::turn::Usage {
        input_tokens: 12,
        cached_input_tokens: 4_000,
        ..Default::default()
    });
    let refused = lab.engine.record("s", &turn, None).unwrap_err().to_string();
    assert!(
        refused.starts_with("usage.input_tokens: is 12, less than the 4000"),
        "{refused}"
    );
}

/// A path of a tree before the history does not end a request for which the
/// history can still shrink.
#[test]
fn the_order_of_a_path_and_a_history_does_not_matter() {
    let path = "{layer: tree, source: loom, with: {part: path, tree: t}, place: history}";
    let history = "{layer: chat, source: history, fit: window, place: history}";
    for layers in [[path, history], [history, path]] {
        let lab = Lab::new("");
        let tree = json!({
            "tree": {"id": "t", "mode": "dialogue"},
            "nodes": [{"id": "n1", "author": "human", "content": "What is a tide?"}],
            "edges": [],
        });
        let tree = serde_json::from_value(tree).unwrap();
        lab.engine.import_tree(&tree, Some(lab.tick())).unwrap();
        lab.talk("s", &chat(25, 120));
        let [first, second] = layers;
        let recipe =
            format!("recipe: m\nlayers:\n- {first}\n- {second}\n- {{layer: ask, source: event}}\n");
        let recipe = Recipe::parse("m.yml", &recipe).unwrap();
        let assemble = |max_tokens| {
            let request = Request {
                recipe: Some(recipe.clone().into()),
                reserve_response: Some(0),
                event: Some("Why?".into()),
                ..request("s", max_tokens)
            };
            lab.engine.assemble(&lab.root, &request).unwrap()
        };
        // The summary of the larger window does not fit the smaller one.
        let summary = |made: &contexture::Assembled| {
            let mut rows = made.report.included.iter();
            rows.find(|row| row.id.starts_with("summary"))
                .unwrap()
                .tokens
        };
        let large = summary(&assemble(3_000));
        let small = large - 50;
        let made = assemble(small);
        assert!(made.report.budget.used <= small, "{layers:?}");
        assert!(made.report.included.iter().any(|row| &*row.id == "n1"));
    }
}
