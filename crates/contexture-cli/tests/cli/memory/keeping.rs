//! Lists, statistics and deletions of records.

use super::*;

#[test]
fn stats_by_kind() {
    let project = boat_house();
    let told = out(&project, &["memory", "stats"]);
    let (table, vectors) = told.split_once("vectors of ").unwrap();
    assert_eq!(table, STATS);
    assert!(
        vectors.ends_with(" dimensions): 100 % current\n"),
        "{vectors}"
    );
    let value: Value =
        serde_json::from_str(&out(&project, &["memory", "stats", "--json"])).unwrap();
    assert_eq!(
        value["kinds"]["event"],
        json!({"live": 4, "hold": 3, "ended": 1, "archived": 0})
    );
    assert_eq!(value["unembedded"], 0);
    assert!(value["embedder"]["dimensions"].as_u64().unwrap() > 0);
}

const STATS: &str = " kind      valid  ended  archived
 event         3      1         0
 chunk         1      0         0
 entity        2      0         0
 relation      1      0         0
 pattern       1      0         0
 task          0      0         0

2 sessions, 1 source, 1,590 bytes
";

#[test]
fn a_record_is_shown_whole() {
    let project = boat_house();
    assert_eq!(
        out(&project, &["memory", "show", "e3"]),
        dedent(
            r#"
            kind        event
            id          e3
            session_id  2026-01-29
            timestamp   2026-01-29T09:00:02Z
            type        user_message
            actor       user
            content     {"speaker":"Mara","text":"The regatta is on the 7th of June now."}
            valid_from  2026-01-29T09:00:02Z
            supersedes  e1
            "#
        )
    );
    let value = out(&project, &["memory", "show", "mara", "--json"]);
    let value: Value = serde_json::from_str(&value).unwrap();
    assert_eq!(value[0]["name"], "Mara Lind");
    project.refuses(
        &["memory", "show", "nobody"],
        2,
        "
        error: no record `nobody`; find ids with `contexture memory recall QUERY --explain`, or print all records with `contexture memory export`
        ",
    );
}

#[test]
fn a_task_is_a_record_too() {
    let project = Project::new();
    out(
        &project,
        &["task", "push", "Mend the Heron", "--id", "mend"],
    );
    assert!(out(&project, &["memory", "show", "mend"]).contains("goal        Mend the Heron\n"));
    assert!(out(&project, &["memory", "export"]).contains("Mend the Heron"));
}

#[test]
fn an_export_can_be_recorded_elsewhere() {
    let project = boat_house();
    out(
        &project,
        &["task", "push", "Mend the Heron", "--id", "mend"],
    );
    out(&project, &["task", "push", "Buy resin", "--id", "resin"]);
    let exported = out(&project, &["memory", "export"]);
    for line in exported.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    assert!(exported.lines().count() >= 11, "{exported}");
    let other = Project::new();
    let run = other.run_with(&["memory", "record", "-", "--now", NOW], &exported);
    run.expect_code(0);
    let query = ["When is the regatta?"];
    assert_eq!(recall(&other, &query), recall(&project, &query));
    assert_eq!(
        out(&other, &["task", "show"]).lines().count(),
        out(&project, &["task", "show"]).lines().count()
    );
}

#[test]
fn forgetting_reports_the_deleted_records() {
    let project = boat_house();
    let run = call(&project, &["memory", "forget", "--id", "e2"]);
    run.expect_code(0);
    assert_eq!(run.out, "deleted 1 event\n");
    assert_eq!(run.err, "");
    let text = recall(&project, &["Where is the crack?"]);
    assert!(!text.contains("third seat"), "{text}");
    assert_eq!(
        out(&project, &["memory", "forget", "--source", "rules.md"]),
        "deleted 1 chunk\n"
    );
    assert_eq!(
        out(&project, &["memory", "forget", "--session", "2026-01-29"]),
        "deleted 2 events\n"
    );
    assert_eq!(
        out(
            &project,
            &["memory", "forget", "--id", "heron", "--kind", "entity"]
        ),
        "deleted 1 entity\n"
    );
}

#[test]
fn requests_that_were_assembled_stay_and_that_is_said() {
    let project = boat_house();
    let args = "--recipe memory --query 'Where is the crack?' --max-tokens 400";
    let (prompt, report) = project.assemble(args);
    assert!(prompt.contains("third seat"), "{prompt}");
    let run = call(&project, &["memory", "forget", "--id", "e2"]);
    run.expect_code(0);
    run.says(
        "snapshots of earlier requests still contain the text that was sent; list them with \
         `contexture snapshot list`",
    );
    let hash = text(&report["snapshot"]);
    assert!(
        project
            .ok(&["snapshot", "show", hash])
            .contains("third seat")
    );
    let (prompt, _) = project.assemble(args);
    assert!(!prompt.contains("third seat"), "{prompt}");
}

#[test]
fn deleting_a_missing_record_is_an_error() {
    let project = boat_house();
    for (args, what) in [
        (["--id", "e9"], "record `e9`"),
        (["--source", "x.md"], "record of source `x.md`"),
        (["--session", "x"], "record of session `x`"),
    ] {
        let message = format!(
            "error: there is no {what}\nhint: `contexture memory export` prints all records\n"
        );
        let all = ["memory", "forget", args[0], args[1]];
        project.refuses(&all, 2, &message);
    }
    let kind = ["memory", "forget", "--id", "e2", "--kind", "entity"];
    let run = project.run(&kind);
    run.expect_code(2);
    assert!(run.err.contains("there is no entity `e2`"), "{}", run.err);
}

#[test]
fn one_thing_is_forgotten_at_a_time() {
    let project = boat_house();
    for args in [
        vec!["memory", "forget"],
        vec!["memory", "forget", "--id", "a", "--source", "b"],
        vec!["memory", "forget", "--source", "b", "--kind", "event"],
    ] {
        project.run(&args).expect_code(2);
    }
}

#[test]
fn reembedding_what_has_vectors_does_nothing() {
    let project = boat_house();
    let told = out(&project, &["memory", "reembed"]);
    assert!(
        told.starts_with("every text already has a vector of "),
        "{told}"
    );
}

#[test]
fn doctor_reports_the_memory() {
    let project = boat_house();
    let told = project.ok(&["doctor"]);
    let line = told.lines().find(|line| line.contains(" memory ")).unwrap();
    assert!(line.starts_with("ok   memory       4 events, 1 chunk, 2 entities, 1 relation, 1 pattern; archetype recall; vectors of "), "{line}");
    let empty = Project::new();
    let told = empty.ok(&["doctor"]);
    assert!(
        told.contains("memory       no records; archetype recall; "),
        "{told}"
    );
    assert!(empty.names().is_empty());
}
