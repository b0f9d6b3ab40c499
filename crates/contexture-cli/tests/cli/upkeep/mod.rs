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
fn what_is_not_a_backup_is_named() {
    let project = Project::new().file("file", "x").file("dir/file", "x");
    let hint = "hint: name a directory that `contexture backup` created";
    for (name, error) in [
        ("absent", "error: absent does not exist"),
        (
            "file",
            "error: file: is not a backup: it has no manifest.json",
        ),
        (
            "dir",
            "error: dir: is not a backup: it has no manifest.json",
        ),
    ] {
        for args in [format!("restore {name}"), format!("restore {name} --check")] {
            let run = project.run(args.as_str());
            run.expect_code(2);
            run.says(error);
            run.says(hint);
        }
    }
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
fn turns_and_snapshots_are_deleted() {
    let next = TURN.replace("canary", "parrot");
    let project = project().file("next.json", &next);
    project
        .run_now("session record support next.json")
        .expect_code(0);
    let event = "--event=How is the canary?";
    let call = [
        "assemble",
        "--recipe",
        "broker",
        "--session",
        "support",
        event,
    ];
    project.run_now(&call).expect_code(0);
    let has = || {
        let bytes = fs::read(project.path(".contexture/contexture.db")).unwrap();
        bytes.windows(6).any(|window| window == b"canary")
    };
    assert!(has());
    let run = project.run_now("session trim support --before 2");
    run.expect_code(0);
    assert!(run.out.contains("1 snapshot, 1 turn"), "{}", run.out);
    assert!(!has());
    let again = project.run_now("session trim support --before 2");
    assert!(
        again.out.contains("there are no turns before"),
        "{}",
        again.out
    );
    let history = project.run_now("session history support");
    assert!(
        history.out.starts_with("(1 older turn deleted)"),
        "{}",
        history.out
    );
    // The deleted turn is not among those that are not shown.
    let none = project.run_now("session history support --limit 0").out;
    let stored = json(&project, "session history support --json");
    let stored = stored.as_array().unwrap().len();
    let plural = if stored == 1 { "" } else { "s" };
    let expected = format!("({stored} older turn{plural} not shown; show all with --all)");
    assert!(none.contains(&expected), "{none}");
    project
        .run_now("session trim support --before 1")
        .expect_code(2);
    project.run_now("verify").expect_code(0);
    let audit = project.run_now("tenant audit");
    assert!(audit.out.contains("turns_deleted"), "{}", audit.out);
    project.run_now(&call).expect_code(0);
    let list = json(&project, "snapshot list --json");
    let hash = list[0]["hash"].as_str().unwrap().to_owned();
    let run = project.run_now(&["snapshot", "delete", &hash[..8]]);
    run.expect_code(0);
    assert!(run.out.contains("1 snapshot"), "{}", run.out);
    project.run_now(&["snapshot", "show", &hash]).expect_code(2);
    project
        .run_now(&["snapshot", "delete", &hash])
        .expect_code(2);
    assert!(!has());
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

#[test]
fn an_archive_moves_everything_to_another_store() {
    let project = project();
    let made = json(&project, "export all.ctxa --json");
    assert_eq!(made["parts"][0]["tenant"], "default");
    let other = "--db sqlite:other.db";
    let checked = json(&project, "import archive all.ctxa --dry-run --json");
    assert_eq!(checked["content"], made["content"]);
    let imported = json(&project, &format!("import archive all.ctxa {other} --json"));
    assert_eq!(imported["imported"], serde_json::json!(["default"]));
    let again = json(&project, &format!("export again.ctxa {other} --json"));
    assert_eq!(again["content"], made["content"]);
    project
        .run_now(format!("verify {other}").as_str())
        .expect_code(0);
    let shown = |db: &str| {
        project
            .run_now(format!("session history support {db}").as_str())
            .out
    };
    assert_eq!(shown(other), shown(""));
    // Once more, nothing changes.
    let repeated = json(&project, &format!("import archive all.ctxa {other} --json"));
    assert_eq!(repeated["unchanged"], serde_json::json!(["default"]));
    // A tenant with other data is not changed.
    project
        .run_now(format!("session record support turn.json {other}").as_str())
        .expect_code(0);
    let refused = project.run_now(format!("import archive all.ctxa {other}").as_str());
    refused.expect_code(2);
    let expected = "tenant `default` has other data; nothing was imported";
    assert!(refused.err.contains(expected), "{}", refused.err);
    // It can have another name.
    project
        .run_now("import archive all.ctxa --tenant port")
        .expect_code(0);
    let port = json(&project, "tenant usage port --json");
    assert_eq!(port["turns"], 1);
    project
        .run_now("tenant export port port.ctxa")
        .expect_code(0);
    let audit = project.run_now("tenant audit").out;
    for act in ["archive_exported", "archive_imported"] {
        assert!(audit.contains(act), "{audit}");
    }
}

#[test]
fn a_wrong_archive_is_refused() {
    let project = project();
    project.run_now("export all.ctxa").expect_code(0);
    let exists = project.run_now("export all.ctxa");
    exists.expect_code(2);
    assert!(
        exists.err.contains("all.ctxa exists; name a new file"),
        "{}",
        exists.err
    );
    let bytes = fs::read(project.path("all.ctxa")).unwrap();
    project.write("cut.ctxa", &bytes[..bytes.len() - 10]);
    project.write("text.ctxa", "a text");
    for (call, expected) in [
        ("import archive cut.ctxa", "cut.ctxa: is truncated"),
        (
            "import archive text.ctxa",
            "text.ctxa: is not an archive of Contexture",
        ),
        (
            "import archive text.ctxa --dry-run",
            "text.ctxa: is not an archive",
        ),
        (
            "import archive",
            "name the archive: `contexture import archive FILE`",
        ),
        (
            "import archive all.ctxa --watch",
            "without --watch and --since",
        ),
        ("import codex --tenant a", "--tenant is for archives"),
        (
            "import chatgpt",
            "chatgpt has no default directory; give the path of the exported zip file",
        ),
        (
            "import claude --watch",
            "`contexture import claude FILE.zip`",
        ),
        ("import archive all.ctxa --tenant ../a", "../a"),
        (
            "export one.ctxa --tenant nobody",
            "there is no tenant `nobody`",
        ),
    ] {
        let refused = project.run_now(format!("{call} --db sqlite:new.db").as_str());
        assert_ne!(refused.code, Some(0), "{call}");
        assert!(refused.err.contains(expected), "{call}: {}", refused.err);
    }
    // An export that fails leaves no file.
    assert!(!project.path("one.ctxa").exists());
}

/// Whenever an import is killed, the tenant is empty or whole.
#[test]
fn a_killed_import_leaves_nothing_half() {
    let project = project();
    let lines: String = (0..2000)
        .map(|at| {
            format!(
                "{{\"kind\":\"event\",\"id\":\"e{at}\",\"type\":\"note\",\"content\":\"ferry {at} \
                 leaves at noon\"}}\n"
            )
        })
        .collect();
    project.write("events.jsonl", lines);
    project.run_now("memory record events.jsonl").expect_code(0);
    let made = json(&project, "export all.ctxa --json");
    let mut was_killed = 0;
    for after in [5, 20, 40, 80, 120, 160, 240, 320, 480, 640] {
        let mut importing = project.command("import archive all.ctxa --db sqlite:other.db");
        let mut importing = importing
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(after));
        let _ = importing.kill();
        was_killed += usize::from(!importing.wait().unwrap().success());
        if !project.path("other.db").exists() {
            continue;
        }
        project
            .run_now("verify --db sqlite:other.db")
            .expect_code(0);
        let usage = json(&project, "tenant usage default --db sqlite:other.db --json");
        let found = (usage["turns"].as_u64(), usage["records"].as_u64());
        assert!(
            matches!(found, (Some(0), Some(0)) | (Some(1), Some(2000..))),
            "{found:?}"
        );
    }
    assert!(was_killed > 0);
    project
        .run_now("import archive all.ctxa --db sqlite:other.db")
        .expect_code(0);
    let again = json(&project, "export again.ctxa --db sqlite:other.db --json");
    assert_eq!(again["content"], made["content"]);
}
