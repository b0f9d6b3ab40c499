//! `contexture models`, and the check of the model table by `doctor`.

use super::*;

const LIST: &str = r#"{
  "gpt-9": {"mode": "chat", "litellm_provider": "openai", "max_input_tokens": 7000,
    "max_output_tokens": 900, "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05,
    "cache_read_input_token_cost": 1e-07}
}"#;

#[test]
fn models_are_listed_with_limits_and_prices() {
    let project = Project::new().file("contexture.toml", "[models.mine]\nwindow = 5000\n");
    let run = project.run(&["models", "list", "claude-sonnet-4-5"]);
    run.expect_code(0);
    let row = run.out.lines().nth(1).unwrap();
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        row,
        [
            "claude-sonnet-4-5",
            "anthropic",
            "200,000",
            "64,000",
            "3",
            "15",
            "0.3",
            "3.75"
        ]
    );
    assert!(run.err.contains("; table of 20"), "{}", run.err);
    let listed = parsed(&project.ok(&["models", "list", "mine", "--json"]));
    let mine = listed["models"].as_array().unwrap();
    let mine = mine.iter().find(|model| model["name"] == "mine").unwrap();
    assert_eq!(mine["window"], 5000);
    assert_eq!(mine["tokenizer"], "estimate");
    let run = project.run(&["models", "list", "no such model"]);
    run.expect_code(2);
    run.says("error: no model contains `no such model`");
}

#[test]
fn the_table_is_replaced_by_a_file() {
    let project = roles().file("list.json", LIST);
    let update = ["models", "update", "list.json", "--date", "2026-12-01"];
    let out = project.ok(&update);
    assert!(
        out.ends_with("models.tsv: 1 model of 2026-12-01\n"),
        "{out}"
    );
    assert_eq!(project.read(".contexture/.gitignore"), "*\n");
    let listed = project.ok(&["models", "list", "--json"]);
    let value = parsed(&listed);
    assert_eq!(value["models"].as_array().unwrap().len(), 1);
    assert_eq!(value["models"][0]["prices"]["cached_input"], 0.1);
    let run = project.run(&["tokens", "main.rs", "--model", "gpt-9"]);
    assert!(run.err.ends_with("of its window of 7,000\n"), "{}", run.err);
    // The list can be read again as a table.
    let before = project.read(".contexture/models.tsv");
    let project = project.file("listed.json", &listed);
    project.ok(&["models", "update", "listed.json"]);
    assert_eq!(
        project.read(".contexture/models.tsv").lines().count(),
        before.lines().count()
    );
}

#[test]
fn an_invalid_file_changes_nothing() {
    let project = roles()
        .file("list.json", LIST)
        .file("field.json", LIST.replace("7000", "{}"))
        .file("broken.json", "{\n  oops");
    project.ok(&["models", "update", "list.json", "--date", "2026-12-01"]);
    let before = project.read(".contexture/models.tsv");
    for (file, message) in [
        (
            "field.json",
            "error: field.json: `gpt-9`: max_input_tokens: must be a number",
        ),
        (
            "broken.json",
            "error: broken.json: key must be a string at line 2 column 3",
        ),
        (
            "list.json",
            "error: list.json: date: must be a date such as 2026-11-16",
        ),
    ] {
        let run = project.run(&["models", "update", file, "--date", "today"]);
        run.expect_code(2);
        assert!(run.err.contains(message), "{}", run.err);
        assert_eq!(project.read(".contexture/models.tsv"), before);
    }
}

#[test]
fn a_broken_table_does_not_stop_other_commands() {
    let project = roles().file(".contexture/models.tsv", "nonsense\n");
    let warning = "warning: .contexture/models.tsv: line 1: title: must be `# Contexture model \
                   table 1`: using the built-in model table; `contexture models update FILE` \
                   replaces the model table";
    for args in [
        &["assemble"][..],
        &["tokens", "main.rs"],
        &["models", "list", "gpt-5"],
    ] {
        let run = project.run(args);
        run.expect_code(0);
        run.says(warning);
    }
    let run = project.run(&["doctor"]);
    run.expect_code(2);
    assert!(
        run.out.contains("bad  models       .contexture/models.tsv"),
        "{}",
        run.out
    );
}

#[test]
fn doctor_warns_of_an_old_table() {
    let project = roles().file("list.json", LIST);
    project.ok(&["models", "update", "list.json", "--date", "2026-12-01"]);
    let at = |now| project.ok(&["doctor", "--now", now]);
    let fresh = at("2027-03-01T00:00:00Z");
    assert!(
        fresh.contains("ok   models       1 model of 2026-12-01, from list.json\n"),
        "{fresh}"
    );
    let old = at("2027-03-02T00:00:00Z");
    assert!(
        old.contains("note models       1 model of 2026-12-01, from list.json: 91 days old"),
        "{old}"
    );
}
