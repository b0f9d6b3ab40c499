//! Recall: the found records, and their output.

use super::*;

#[test]
fn standard_output_is_the_text_alone() {
    let project = boat_house();
    let run = call(
        &project,
        &["memory", "recall", "Where is the crack in the Heron?"],
    );
    run.expect_code(0);
    assert!(
        run.out.starts_with("## Relevant Content\n\n"),
        "{}",
        run.out
    );
    assert!(
        run.out
            .contains("Olu: The Heron has a crack below the third seat.\n"),
        "{}",
        run.out
    );
    assert_eq!(
        run.err,
        "using model gpt-5.6 (tokenizer o200k_base); set another with --model\n"
    );
    let again = call(
        &project,
        &["memory", "recall", "Where is the crack in the Heron?"],
    );
    assert_eq!(again.out, run.out, "the same gives the same");
}

#[test]
fn records_that_do_not_fit_are_reported() {
    let project = boat_house();
    let run = call(
        &project,
        &["memory", "recall", "crack", "--max-tokens", "8"],
    );
    run.expect_code(0);
    assert_eq!(run.out, "");
    run.says("the records found do not fit the budget; raise --max-tokens, or see --explain");
}

#[test]
fn explain_shows_each_item_and_its_parts() {
    let project = boat_house();
    let args = "memory recall 'Where is the crack in the Heron?' --max-tokens 100 --explain";
    let run = call(&project, args);
    run.expect_code(0);
    assert_eq!(figures(&run.err), EXPLAINED);
}

#[test]
fn explain_is_short_about_what_is_left_out() {
    let letter = |number: u8| char::from(b'a' + number % 26);
    let said: Vec<Value> = (0..40)
        .map(|i| {
            let name = format!("q{}k{}z", letter(i), letter(i / 26));
            json!({"kind": "event", "id": format!("e{i}"), "session_id": format!("s{i}"),
                "content": format!("The buoy {name} lies in its sector.")})
        })
        .collect();
    let project = with(&said);
    let args = ["Which buoy?", "--max-tokens", "60", "--explain"];
    let run = call(&project, &[&["memory", "recall"], &args[..]].concat());
    let out = run.err.lines().filter(|line| line.starts_with(" out "));
    assert_eq!(out.count(), 12, "{}", run.err);
    assert!(
        run.err.contains(" more; --format json lists them\n"),
        "{}",
        run.err
    );
}

/// Returns a text with every score as `#.##`: how they come about is tested
/// elsewhere.
fn figures(text: &str) -> String {
    let mut out: Vec<char> = text.chars().collect();
    for at in 1..out.len().saturating_sub(2) {
        let is_score = out[at] == '.'
            && [at - 1, at + 1, at + 2]
                .iter()
                .all(|i| out[*i].is_ascii_digit());
        if is_score {
            [at - 1, at + 1, at + 2].iter().for_each(|i| out[*i] = '#');
        }
    }
    out.into_iter().collect()
}

const EXPLAINED: &str = "\u{20}      item               found as        tokens  score  made of                                           why
 kept  e2                 semantic event      14   #.##  words #.## (2 of 2), vector #.## ×0.5, run #.##   matching words and similar meaning
 kept  e3                 semantic event      16   #.##  words #.## (0 of 2), vector #.## ×0.5, run #.##   matching words in neighbouring records
 kept  e4                 semantic event      16   #.##  words #.## (1 of 2), vector #.## ×0.5, run #.##   matching words and similar meaning
 kept  heron              entity              13   #.##  relevance #.##, confidence #.##, ×#.## mentioned  named in the query
 kept  mara steers heron  relation            12   #.##  relevance #.##, depth 1, weight #.##              relation of an entity that the query names, or a salient one
 out   crack              pattern             33   #.##  relevance #.##, success #.##, trigger #.##        needs 33 tokens, 2 left; 31 more would have kept it
 out   rules.md#0         semantic            22   #.##  words #.##, vector #.## ×0.5, run #.##            needs 22 tokens, 2 left; 53 more would have kept it and the items before it
 out   invalid records    semantic             0   #.##                                                    1 record is superseded, expired or not valid yet

98 of 100 tokens used; o200k_base for gpt-5.6, exact
  semantic      46 tokens of      85 allowed: 4 found, 3 shown
  entity        13 tokens of       4 allowed, plus unused tokens of other channels: 1 found, 1 shown
  relation      12 tokens of       4 allowed, plus unused tokens of other channels: 1 found, 1 shown
  pattern        0 tokens of       5 allowed: 1 found, 0 shown
strategy recall: relevance 1, salience 0, recency not used (the query does not ask for recent records)
query terms (question): crack, heron
entities named in the query: heron
searched 5 texts
";

#[test]
fn the_json_has_the_shape_that_was_agreed() {
    let project = boat_house();
    let args = [
        "Where is the crack in the Heron?",
        "--session",
        "2026-01-29",
    ];
    let context = recall_json(&project, &args);
    let names: Vec<&String> = context.as_object().unwrap().keys().collect();
    let known = [
        "components",
        "content",
        "excluded",
        "metadata",
        "strategy",
        "token_count",
        "truncated",
    ];
    assert!(
        names.iter().all(|name| known.contains(&name.as_str())),
        "{names:?}"
    );
    let parts = context["components"].as_array().unwrap();
    let part = parts.iter().find(|part| part["source"] == "e2").unwrap();
    assert_eq!(part["type"], "semantic");
    assert_eq!(part["kind"], "event");
    assert_eq!(
        part["content"],
        "Olu: The Heron has a crack below the third seat."
    );
    assert!(part["tokens"].as_u64().unwrap() > 0);
    assert!(part["relevance_score"].as_f64().unwrap() > 0.0);
    assert!(part["scores"]["words"].as_f64().unwrap() > 0.0);
    let types: Vec<&str> = parts.iter().map(|part| text(&part["type"])).collect();
    assert!(
        types.contains(&"pattern") && types.contains(&"entity"),
        "{types:?}"
    );
    assert!(types.contains(&"relation"), "{types:?}");
    // Relations are shown by name.
    let related = parts
        .iter()
        .find(|part| part["type"] == "relation")
        .unwrap();
    assert_eq!(related["content"], "Mara Lind --[steers]--> Heron");
    // With the clock given, nothing depends on another.
    assert!(context["metadata"].get("assembly_time_ms").is_none());
    let json = call(&project, &["memory", "recall", "x", "--json"]);
    json.expect_code(0);
    serde_json::from_str::<Value>(&json.out).unwrap();
}

#[test]
fn a_query_from_standard_input() {
    let project = boat_house();
    let args = ["memory", "recall", "-", "--now", NOW];
    let run = project.run_with(&args, "Where is the crack?\n");
    run.expect_code(0);
    assert!(run.out.contains("third seat"), "{}", run.out);
}

#[test]
fn an_empty_memory_says_so() {
    let project = Project::new();
    project.ok(&["session", "new", "s"]);
    let run = call(&project, &["memory", "recall", "anything"]);
    run.expect_code(0);
    assert_eq!(run.out, "");
    run.says("memory is empty; record something with `contexture memory record FILE`");
}

#[test]
fn options_reach_memory() {
    let secret = json!({"kind": "event", "id": "s1", "visible_to": ["Mara"],
        "content": {"speaker": "Mara", "text": "The sponsor wants to leave."}});
    let project = with(&[secret]);
    let query = "What does the sponsor want?";
    let run = call(&project, &["memory", "recall", query, "--as", "Olu"]);
    run.says("no record matches the query");
    let who = ["--as", "Olu", "--as", "Mara"];
    assert_eq!(found(&project, &[&[query][..], &who].concat()), ["s1"]);
    let filters = ["--filters", r#"{"exclude":["s1"]}"#];
    assert!(found(&project, &[&[query][..], &who, &filters].concat()).is_empty());
    let args = [
        "--recipe",
        "memory",
        "--max-tokens",
        "300",
        "--query",
        query,
    ];
    let (prompt, _) = project.assemble(&args);
    assert!(!prompt.contains("wants to leave"), "{prompt}");
    let tokens = |model: &str| {
        let context = recall_json(&project, &[query, "--as", "Mara", "--model", model]);
        context["token_count"].as_u64().unwrap()
    };
    assert!(tokens("claude-sonnet-4-5") > tokens("gpt-4o"));
    let coding = recall_json(&project, &["crack", "--strategy", "coding"]);
    assert_eq!(coding["strategy"]["recency_weight"], 0.3);
}
