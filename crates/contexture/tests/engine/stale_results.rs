//! Tool results that a later one replaces are cleared when that pays.

use crate::support::*;
use contexture::core::Code;
use contexture::store::Handle;
use contexture::turn::{Block, MessageRole, NewTurn};
use contexture::{Assembled, FetchRequest, Format};
use serde_json::json;

const WINDOW: u64 = 60_000;

/// Without summaries, which would take the results away.
const PLAIN: &str = "[compaction]\nenabled = false";

/// Returns a file of that many lines, as it was at a version.
fn file(version: usize, lines: usize) -> String {
    let line = |i| {
        format!(
            "{i}: let value_{i} = parse(input, {})?; // v{version}",
            i * 7
        )
    };
    (0..lines).map(line).collect::<Vec<_>>().join("\n")
}

fn read(id: &str, arguments: serde_json::Value, content: &str) -> NewTurn {
    let call = Block::ToolCall {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        arguments,
        native: None,
    };
    turn([blocks(MessageRole::Assistant, [call]), result(id, content)])
}

fn whole(id: &str, path: &str, content: &str) -> NewTurn {
    read(id, json!({ "path": path }), content)
}

fn text(assembled: &Assembled) -> String {
    assembled.render(Format::Text).unwrap()
}

const MARKER: &str = "this tool result was cleared; fetch sha256:";

fn cleared(assembled: &Assembled) -> usize {
    text(assembled).matches(MARKER).count()
}

#[test]
fn repeated_reads_collapse_to_the_latest() {
    let lab = Lab::new(PLAIN);
    lab.talk("s", &[turn([user("Fix it.")])]);
    for n in 0..8 {
        lab.record("s", &whole(&format!("c{n}"), "src/a.rs", &file(n, 80)));
    }
    let assembled = lab.assemble("s", WINDOW);
    let sent = text(&assembled);
    assert_eq!(cleared(&assembled), 7);
    assert!(sent.contains("// v7") && !sent.contains("// v6"));
    // Nothing is cached yet, so that clearing is free.
    let sum = assembled.report.stale_results.unwrap();
    assert_eq!((sum.stale, sum.cleared, sum.cost), (7, 7, 0));
    assert!(sum.gain > 0 && sum.tokens > 7 * 1_000, "{sum:?}");
    let rows = assembled.report.included.iter();
    let rows: Vec<_> = rows.filter(|row| row.code == Code::CLEARED).collect();
    assert_eq!(rows.len(), 7);
    assert!(
        rows.iter()
            .all(|row| row.truncated && row.original_tokens > 1_000)
    );
    assert!(rows[0].reason.to_string().starts_with("cleared: "));
    // Every marker names a handle, by which the whole can be fetched.
    let handle = Handle::of(&file(3, 80)).short();
    assert!(sent.contains(&handle));
    let fetched = lab.engine.fetch(&handle, &FetchRequest::default()).unwrap();
    assert_eq!(fetched.text.trim_end(), file(3, 80));
    check(&assembled).unwrap();
}

#[test]
fn only_a_newer_copy_makes_a_result_stale() {
    let lab = Lab::new(PLAIN);
    let part = |lines: [u32; 2]| json!({"path": "src/a.rs", "lines": lines});
    let other = file(9, 80);
    let mut failed = whole("c9", "src/b.rs", &file(1, 80));
    failed.messages[1].is_error = true;
    lab.talk(
        "s",
        &[
            turn([user("Fix it.")]),
            // A part, which no later call reads.
            read("c1", part([1, 80]), &file(1, 80)),
            read("c2", part([81, 160]), &file(2, 80)),
            // Errors remain, and a command does not count as a read.
            failed,
            whole("c4", "src/b.rs", &file(4, 80)),
            turn([calls(["c5"]), result("c5", &file(5, 80))]),
            turn([calls(["c6"]), result("c6", &file(6, 80))]),
            // The same content, whatever returned it.
            turn([calls(["c7"]), result("c7", &other)]),
            whole("c8", "src/c.rs", &other),
        ],
    );
    let assembled = lab.assemble("s", WINDOW);
    assert_eq!(cleared(&assembled), 1, "{}", text(&assembled));
    for kept in [1, 2, 4, 5, 6] {
        assert!(text(&assembled).contains(&format!("// v{kept}")), "{kept}");
    }
    // The whole file replaces its parts.
    lab.record("s", &whole("c10", "src/a.rs", &file(10, 160)));
    lab.assemble("s", WINDOW);
    let sum = lab.assemble("s", WINDOW).report.stale_results.unwrap();
    assert_eq!(sum.stale, 3);
}

#[test]
fn cleared_results_stay_cleared_with_the_same_bytes() {
    let lab = Lab::new(PLAIN);
    lab.talk("s", &[turn([user("Fix it.")])]);
    let mut previous: Option<Assembled> = None;
    let (mut breaks, mut reads) = (0, 0);
    for n in 0..48 {
        let next = match n % 4 {
            0 => {
                reads += 1;
                whole(&format!("call-{n}-0123456789"), "src/a.rs", &file(n, 60))
            }
            _ => turn([says(&prose(n, 30)), user("Go on.")]),
        };
        lab.record("s", &next);
        let now = lab.assemble("s", WINDOW);
        check(&now).unwrap();
        if let Some(previous) = &previous {
            let history = |assembled: &Assembled| -> Vec<String> {
                let blocks = assembled.layout.history.iter();
                blocks.map(|block| block.text().to_owned()).collect()
            };
            let (before, after) = (history(previous), history(&now));
            let grows = after.starts_with(&before);
            let more = cleared(&now) > cleared(previous);
            assert!(cleared(&now) >= cleared(previous), "step {n}");
            assert_eq!(grows, !more, "step {n}");
            breaks += usize::from(more);
            let sum = now.report.stale_results;
            let pays = sum.is_some_and(|sum| sum.gain > 3 * sum.cost && sum.tokens >= 500);
            assert_eq!(more, pays, "step {n}: {sum:?}");
        }
        // Another process decides the same.
        let again = lab
            .another(PLAIN)
            .assemble(&lab.root, &request("s", WINDOW));
        assert_eq!(text(&again.unwrap()), text(&now), "step {n}");
        previous = Some(now);
    }
    assert!(breaks > 0 && breaks < reads, "{breaks} of {reads}");
}

#[test]
fn clearing_that_costs_more_than_it_saves_waits() {
    let lab = Lab::new(PLAIN);
    lab.talk("s", &[turn([user("Fix it.")])]);
    lab.record("s", &whole("c1", "src/a.rs", &file(1, 20)));
    // Much content comes after it, and the provider has it in its cache.
    lab.record("s", &exchange("Read this.", &prose(1, 9_000)));
    lab.assemble("s", WINDOW);
    lab.record("s", &whole("c2", "src/a.rs", &file(2, 20)));
    let assembled = lab.assemble("s", WINDOW);
    let sum = assembled.report.stale_results.unwrap();
    assert_eq!((sum.stale, sum.cleared), (1, 0));
    assert!(sum.cost > sum.gain && sum.rewritten > 9_000, "{sum:?}");
    assert_eq!(cleared(&assembled), 0);
}

#[test]
fn stale_results_are_cleared_before_anything_is_summarised() {
    let run = |config: &str| {
        let lab = Lab::new(config);
        lab.talk("s", &[turn([user("Fix it.")])]);
        for n in 0..9 {
            lab.record("s", &whole(&format!("c{n}"), "src/a.rs", &file(n, 50)));
            lab.record("s", &turn([says(&prose(n, 40)), user("Go on.")]));
            let assembled = lab.assemble("s", 9_000);
            let warnings = &assembled.report.warnings;
            if warnings
                .iter()
                .any(|warning| &*warning.code == "history_compacted")
            {
                return n;
            }
        }
        9
    };
    let (without, with) = (run("[tool_results]\nclear_stale = false"), run(""));
    assert!(without < with, "{without} {with}");
}

#[test]
fn settings_turn_it_off_and_clear_by_age() {
    let lab = Lab::new("[compaction]\nenabled = false\n[tool_results]\nclear_stale = false");
    lab.talk("s", &[turn([user("Fix it.")])]);
    for n in 0..5 {
        let path = format!("src/{n}.rs");
        lab.record("s", &whole(&format!("c{n}"), &path, &file(n, 60)));
    }
    lab.record("s", &whole("c9", "src/0.rs", &file(0, 60)));
    let assembled = lab.assemble("s", WINDOW);
    assert_eq!(cleared(&assembled), 0);
    assert_eq!(assembled.report.stale_results, None);
    let old = "[compaction]\nenabled = false\n[tool_results]\nstale_after = 2";
    let old = lab.another(old);
    lab.fork("s", "fork");
    let assembled = old.assemble(&lab.root, &request("fork", WINDOW)).unwrap();
    assert_eq!(cleared(&assembled), 4);
    let refused = contexture::config::Config::parse("[tool_results]\nstale_after = 0");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("tool_results.stale_after"), "{refused}");
}
