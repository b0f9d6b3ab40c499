//! `session cost`: figures that can be worked out by hand.

use super::*;

/// A turn with its usage.
fn turn(model: &str, input: u64, cached: u64, written: u64, output: u64) -> Value {
    json!({
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
        "model": model,
        "usage": {
            "input_tokens": input, "output_tokens": output,
            "cached_input_tokens": cached, "cache_write_tokens": written,
        },
    })
}

#[test]
fn the_cost_of_a_session_is_computed() {
    let project = chat();
    // Sonnet: 3, 0.30, 3.75 and 15 dollars for a million tokens.
    // 10,000 written to the cache: 0.0375; 200 answered: 0.003.
    record(
        &project,
        "chat",
        &turn("claude-sonnet-4-20250514", 10_000, 0, 10_000, 200),
    );
    // 10,000 from the cache: 0.003; 2,000 written: 0.0075; 100 answered: 0.0015.
    record(
        &project,
        "chat",
        &turn("claude-sonnet-4-20250514", 12_000, 10_000, 2_000, 100),
    );
    assert_eq!(
        project.ok(&["session", "cost", "chat"]),
        "  turn  model                      input  cached          written  output     cost\n     \
         1  claude-sonnet-4-20250514  10,000       0   0.0 %   10,000     200  $0.0405\n     \
         2  claude-sonnet-4-20250514  12,000  10,000  83.3 %    2,000     100  $0.0120\n \
         total                            22,000  10,000  45.5 %   12,000     300  $0.0525\n\
         \n\
         25.5 % less than the $0.0705 it would have cost without a cache\n"
    );
    let cost = json_of(&project, &["session", "cost", "chat"]);
    assert_eq!(cost["session"], "chat");
    assert_eq!(cost["dollars"], json!(0.0525));
    assert_eq!(cost["dollars_uncached"], json!(0.0705));
    assert_eq!(cost["dollars_saved"], json!(0.018));
    assert_eq!(cost["total"]["input_tokens"], 22_000);
    assert_eq!(cost["cached_share"], json!(10.0 / 22.0));
    assert_eq!(cost["turns"][1]["dollars"], json!(0.012));
    assert_eq!(cost["turns"][1]["kind"], "turn");
    assert_eq!(cost["unreported"], 0);
    // Writing to a cache that is never read costs more.
    project.ok("session new other");
    let turn = turn("claude-sonnet-4", 100_000, 0, 100_000, 0);
    record(&project, "other", &turn);
    let more = "25.0 % more than the $0.3000 it would have cost without a cache\n";
    assert!(project.ok("session cost other").ends_with(more));
}

#[test]
fn unknown_costs_are_reported() {
    let project = chat();
    say(&project, "chat", "Hi", "Hello.");
    record(&project, "chat", &turn("my-model", 1_000, 0, 0, 10));
    let told = project.ok(&["session", "cost", "chat"]);
    assert!(
        told.ends_with(
            "1 turn without usage: cost unknown\nno prices for my-model; add \
             [models.\"my-model\".prices] to contexture.toml\n"
        ),
        "{told}"
    );
    let cost = json_of(&project, &["session", "cost", "chat"]);
    assert_eq!(cost["unreported"], 1);
    assert_eq!(cost["unpriced"], json!(["my-model"]));
    assert_eq!(cost["turns"][0]["dollars"], Value::Null);

    project.write(
        "contexture.toml",
        dedent(
            "
            [models.my-model]
            window = 8000
            [models.my-model.prices]
            input = 1.0
            cached_input = 0.1
            cache_write = 1.0
            output = 2.0
            ",
        ),
    );
    let cost = json_of(&project, &["session", "cost", "chat"]);
    assert_eq!(cost["dollars"], json!(0.00102));
}

/// Records the answer to the latest request, with what the provider counted.
fn answered(project: &Project, cached: u64) {
    let turn = turn(
        "claude-sonnet-4-20250514",
        6_000,
        cached,
        6_000 - cached,
        100,
    );
    record(project, "chat", &turn);
}

#[test]
fn cache_breaks_have_a_cause_a_place_and_a_price() {
    let project = long_chat(20).file("AGENTS.md", "Be kind.\n");
    let model = ["--model", "claude-sonnet-4-20250514"];
    let first = assembled(&project, &model);
    answered(&project, 0);
    let second = assembled(&project, &model);
    answered(&project, 5_900);
    project.write("AGENTS.md", "Be brief.\n");
    let third = assembled(&project, &model);
    answered(&project, 0);

    let told = project.ok(&["session", "cost", "chat"]);
    let lines: Vec<&str> = told.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("cache breaks ($0.0"))
        .unwrap();
    let columns = ["turn", "cause", "missed", "price", "reported", "hits"];
    let header: Vec<&str> = lines[at + 2].split_whitespace().take(6).collect();
    assert_eq!(header, columns, "{told}");
    let row: Vec<&str> = lines[at + 3].split_whitespace().collect();
    assert_eq!(row[..3], ["23", "content", "changed"], "{told}");
    assert_eq!(row[5..], ["0.0", "%", "AGENTS.md"], "{told}");
    assert!(lines[at..].iter().all(|line| line.len() <= 80), "{told}");

    let cost = json_of(&project, &["session", "cost", "chat"]);
    let caches: Vec<&Value> = (cost["turns"].as_array().unwrap().iter())
        .map(|turn| &turn["cache"])
        .collect();
    assert_eq!(caches[0], &Value::Null);
    assert_eq!(caches[1]["previous"], first["snapshot"]);
    assert_eq!(caches[1]["cause"], Value::Null);
    assert!(caches[1]["read_tokens"].as_u64().unwrap() > 3_000);
    assert_eq!(caches[2]["cause"], "edit");
    let missed = caches[2]["dollars_missed"].as_f64().unwrap();
    assert!(
        missed > 0.01 && cost["dollars_missed"] == json!(missed),
        "{cost:#}"
    );

    // The same comparison of the two requests, with the provider's usage.
    let (b, c) = (text(&second["snapshot"]), text(&third["snapshot"]));
    let told = project.ok(&["snapshot", "diff", b, c]);
    assert!(told.contains("\ncache break: content changed, "), "{told}");
    assert!(
        told.contains("\nreported by the provider: 0 of 6,000 tokens read, 6,000 written\n"),
        "{told}"
    );
    let compared = json_of(&project, &["snapshot", "diff", b, c]);
    assert_eq!(compared["cache"]["dollars_missed"], json!(missed));
    assert_eq!(compared["usage"]["cache_write_tokens"], 6_000);
}

#[test]
fn a_cache_break_has_an_exit_code_of_its_own() {
    let project = long_chat(2).file("AGENTS.md", "Be kind.\n");
    run_request(&project, &["--fail-on-cache-break"]).expect_code(0);
    say(&project, "chat", "Go on.", "I do.");
    run_request(&project, &["--fail-on-cache-break"]).expect_code(0);
    project.write("AGENTS.md", "Be brief.\n");
    let run = run_request(&project, &["--fail-on-cache-break"]);
    run.expect_code(3);
    assert_eq!(run.out, "");
    assert!(
        run.err.starts_with("error: cache break: content changed, "),
        "{}",
        run.err
    );
    run_request(&project, &[]).expect_code(0);
    run_request(&project, &["--fail-on-cache-break"]).expect_code(0);
}
