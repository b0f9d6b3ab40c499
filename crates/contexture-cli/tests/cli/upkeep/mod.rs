//! Backup, restore, verification, deletion and tenants on the command line.

use std::fs;

use crate::support::Project;
use rusqlite::Connection;
use serde_json::Value;

const TURN: &str = r#"{"messages":[{"role":"user","content":"Why does the canary sing?"},
    {"role":"assistant","content":"It is happy."}]}"#;

fn project() -> Project {
    let project = Project::new().file("turn.json", TURN);
    project.run_now("session new support").expect_code(0);
    project
        .run_now("session record support turn.json")
        .expect_code(0);
    project
}

fn json(project: &Project, call: &str) -> Value {
    let run = project.run_now(call);
    run.expect_code(0);
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn a_backup_is_restored() {
    let project = project();
    let made = json(&project, "backup kept --json");
    assert_eq!(made["files"][0]["tenant"], "");
    project.run_now("restore kept --check").expect_code(0);
    project
        .run_now("session record support turn.json")
        .expect_code(0);
    // A store that is there is not replaced by accident.
    let refused = project.run_now("restore kept");
    refused.expect_code(2);
    assert!(
        refused.err.contains("nothing was restored"),
        "{}",
        refused.err
    );
    project.run_now("restore kept --replace").expect_code(0);
    assert_eq!(json(&project, "session show support --json")["turns"], 1);
    // A damaged backup is refused.
    let file = project.path("kept/store.db");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let refused = project.run_now("restore kept --replace");
    assert_ne!(refused.code, Some(0));
    assert!(refused.err.contains("its hash differs"), "{}", refused.err);
    assert_eq!(json(&project, "session show support --json")["turns"], 1);
    project.run_now("backup kept").expect_code(2);
}

#[test]
fn damage_is_named() {
    let project = project();
    let sound = project.run_now("verify");
    sound.expect_code(0);
    assert!(sound.out.starts_with("default: checked "), "{}", sound.out);
    assert!(sound.out.contains("1 turn"), "{}", sound.out);
    let db = Connection::open(project.path(".contexture/contexture.db")).unwrap();
    let change = "UPDATE messages SET content = replace(content, 'canary', 'parrot')";
    assert!(db.execute(change, []).unwrap() > 0);
    drop(db);
    let damaged = project.run_now("verify");
    damaged.expect_code(1);
    assert!(
        damaged.out.contains("of session `support`: its content"),
        "{}",
        damaged.out
    );
    assert!(
        damaged.err.contains("1 damaged item found"),
        "{}",
        damaged.err
    );
    let history = project.run_now("session history support");
    assert_ne!(history.code, Some(0));
    assert!(!history.out.contains("parrot"), "{}", history.out);
    assert!(history.err.contains("is damaged"), "{}", history.err);
}

#[test]
fn deleted_sessions_and_trees_leave_no_text() {
    let tree = r#"{"tree":{"id":"story","mode":"buffer"},
        "nodes":[{"id":"n1","author":"human","content":"A canary in a tree."}]}"#;
    let project = project().file("tree.json", tree);
    project.run_now("tree import tree.json").expect_code(0);
    let has = || {
        let bytes = fs::read(project.path(".contexture/contexture.db")).unwrap();
        bytes.windows(6).any(|window| window == b"canary")
    };
    let run = project.run_now("session delete support");
    run.expect_code(0);
    assert!(
        run.out.starts_with("deleted session support: 1 turn"),
        "{}",
        run.out
    );
    project.run_now("tree delete story").expect_code(0);
    assert!(!has());
    project.run_now("session show support").expect_code(2);
    project.run_now("tree delete story").expect_code(2);
}

#[test]
fn snapshots_are_collected() {
    let project = project();
    for event in ["first", "second", "third"] {
        let call = [
            "assemble",
            "--recipe",
            "broker",
            "--session",
            "support",
            "--event",
            event,
        ];
        project.run_now(&call).expect_code(0);
    }
    let would = project.run_now("gc --dry-run --snapshots-per-session 1");
    would.expect_code(0);
    assert!(would.out.contains("would delete"), "{}", would.out);
    assert!(would.out.contains("2 snapshots"), "{}", would.out);
    project
        .run_now("gc --snapshots-per-session 1")
        .expect_code(0);
    let left = json(&project, "snapshot list --json");
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    let hash = left[0]["hash"].as_str().unwrap();
    project.run_now(&["snapshot", "show", hash]).expect_code(0);
    project.run_now("verify").expect_code(0);
    // The next request of the session is saved whole.
    project
        .run_now(&[
            "assemble",
            "--recipe",
            "broker",
            "--session",
            "support",
            "--event",
            "fourth",
        ])
        .expect_code(0);
    let listed = json(&project, "snapshot list --json");
    let hash = listed[0]["hash"].as_str().unwrap();
    project.run_now(&["snapshot", "show", hash]).expect_code(0);
}

#[test]
fn tenants_are_listed_and_deleted() {
    let project = project();
    project.run_now("key new --tenant harbour").expect_code(0);
    let listed = json(&project, "tenant list --json");
    assert_eq!(listed[0]["tenant"], "default");
    assert_eq!(listed[0]["usage"]["turns"], 1);
    project.run_now("tenant usage default").expect_code(0);
    for name in ["nobody", "..", "CON", "🦀"] {
        project.run_now(&["tenant", "usage", name]).expect_code(2);
        project
            .run_now(&["tenant", "delete", name, "--yes"])
            .expect_code(2);
    }
    project
        .run_now("tenant delete default --yes")
        .expect_code(2);
    let audit = json(&project, "tenant audit --json");
    assert_eq!(audit[0]["act"], "key_created");
    assert_eq!(audit[0]["tenant"], "harbour");
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    let project = Project::new().entries("a.md 0.5").file("a.md", "Hello.\n");
    let refused = project.run_now("working-set add notes[1.md --priority 0.5 --why 'it is needed'");
    refused.expect_code(2);
    assert!(refused.err.contains("not a pattern"), "{}", refused.err);
    project.run_now("assemble").expect_code(0);
}
