//! Recording, and its output.

use super::*;

#[test]
fn a_file_of_lines() {
    let project = Project::new().file("records.jsonl", lines(&boats()));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(0);
    assert_eq!(run.out, "recorded 9 records (9 new)\n");
    assert_eq!(run.err, "");
}

#[test]
fn lines_from_standard_input_with_blank_ones_and_a_mark() {
    let project = Project::new();
    let input = format!("\u{feff}{}\n\n  \n{}", boats()[0], boats()[1]);
    let run = project.run_with(&["memory", "record", "-"], &input);
    run.expect_code(0);
    assert_eq!(run.out, "recorded 2 records (2 new)\n");
    let run = project.run_with(&["memory", "record", "-"], "\n\n");
    run.expect_code(0);
    assert_eq!(run.out, "recorded nothing: the input is empty\n");
}

#[test]
fn json_for_programs() {
    let project = boat_house();
    let run = call(&project, &["memory", "record", "records.jsonl", "--json"]);
    run.expect_code(0);
    let value: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        value,
        json!({"added": 0, "replaced": 0, "unchanged": 9, "archived": 0})
    );
}

#[test]
fn several_files_at_once() {
    let project = Project::new()
        .file("a.jsonl", lines(&boats()[..4]))
        .file("b.jsonl", lines(&boats()[3..]));
    assert_eq!(
        out(&project, &["memory", "record", "a.jsonl", "b.jsonl"]),
        "recorded 10 records (9 new, 1 unchanged)\n"
    );
}

#[test]
fn plain_texts_are_chunks_of_their_path() {
    let project = Project::new()
        .file("docs/oars.md", "Oars are stored blade up.\n")
        .file(
            "docs/long.md",
            "The slipway is wet. Mind your step!\n\n".repeat(200),
        );
    let told = out(
        &project,
        &["memory", "record", "--text", "docs/oars.md", "docs/long.md"],
    );
    assert!(
        told.starts_with("recorded ") && told.contains(" chunks ("),
        "{told}"
    );
    let found = found(&project, &["How are oars stored?", "--max-tokens", "60"]);
    assert!(found.contains(&"docs/oars.md#0".to_owned()), "{found:?}");
    assert!(recall(&project, &["oars stored"]).contains("[docs/oars.md]"));

    let again = out(
        &project,
        &["memory", "record", "--text", "docs/oars.md", "docs/long.md"],
    );
    assert!(
        again.ends_with(" unchanged)\n") && !again.contains("new"),
        "{again}"
    );

    // Text that was removed from a file is not found.
    project.write(
        "docs/oars.md",
        "Oars are stored blade down, since the flood.\n",
    );
    out(&project, &["memory", "record", "--text", "docs/oars.md"]);
    let text = recall(&project, &["oars stored blade"]);
    assert!(
        text.contains("blade down") && !text.contains("blade up"),
        "{text}"
    );
    project.write("docs/long.md", "The slipway is dry.\n");
    let told = out(&project, &["memory", "record", "--text", "docs/long.md"]);
    assert_eq!(
        told,
        "recorded 1 chunk from docs/long.md; replaced 1 earlier chunk of docs/long.md\n"
    );
    assert!(!recall(&project, &["slipway wet"]).contains("Mind your step"));
}

#[test]
fn a_path_is_one_source_however_it_is_typed() {
    let project = Project::new().file("docs/oars.md", "Oars are stored blade up.\n");
    project.write("elsewhere/x", "");
    let whole = project.path("docs/oars.md").canonicalize().unwrap();
    let whole = whole.to_str().unwrap();
    for (i, path) in [
        "docs/oars.md",
        "./docs/oars.md",
        "docs/./oars.md",
        "elsewhere/../docs/oars.md",
        whole,
    ]
    .into_iter()
    .enumerate()
    {
        let told = out(&project, &["memory", "record", "--text", path]);
        let how = if i == 0 { "new" } else { "unchanged" };
        assert_eq!(told, format!("recorded 1 chunk (1 {how})\n"), "{path}");
    }
    let shown = out(&project, &["memory", "show", "docs/oars.md#0"]);
    assert!(shown.contains("source      docs/oars.md\n"), "{shown}");
    assert_eq!(
        out(&project, &["memory", "forget", "--source", whole]),
        "deleted 1 chunk\n"
    );
    // A link is a name of its own.
    let project = project.link("link.md", "docs/oars.md");
    out(&project, &["memory", "record", "--text", "./link.md"]);
    out(&project, &["memory", "show", "link.md#0"]);
    let other = Project::new().file("x.md", "What is elsewhere keeps its whole path.\n");
    let far = other.path("x.md");
    out(
        &project,
        &["memory", "record", "--text", far.to_str().unwrap()],
    );
    let shown = out(
        &project,
        &["memory", "show", &format!("{}#0", far.display())],
    );
    assert!(shown.contains("elsewhere"), "{shown}");
}

#[test]
fn a_text_under_a_name_of_its_own() {
    let project = Project::new().file("x.txt", "The pump is in the cellar.\n");
    let args = "memory record --text x.txt --source 'house manual'";
    assert_eq!(out(&project, args), "recorded 1 chunk (1 new)\n");
    let run = project.run_with(
        &["memory", "record", "--text", "-", "--source", "note"],
        "The ladder is in the shed.\n",
    );
    run.expect_code(0);
    assert!(recall(&project, &["pump"]).contains("[house manual]"));
    assert!(recall(&project, &["ladder"]).contains("[note]"));
}
