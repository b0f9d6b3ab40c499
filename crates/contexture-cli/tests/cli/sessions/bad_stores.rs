//! Stores that cannot be used.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::*;

const DB: &str = ".contexture/contexture.db";
const TURN: &str = r#"{"messages":[{"role":"user","content":"x"}]}"#;

/// A project with a turn in its store and one to be recorded.
fn with_turn() -> Project {
    let project = chat().file("turn.json", TURN);
    say(&project, "chat", "Hi", "Hello.");
    project
}

/// Checks that whatever uses the store is refused with `message`.
#[track_caller]
fn refuses_all(project: &Project, message: &str) {
    for args in [
        "session list",
        "session new other",
        "session record chat turn.json",
        "tree list",
        "assemble --recipe broker --session chat --event Hi",
    ] {
        project.refuses(args, 2, message);
    }
}

fn away(what: &str) -> String {
    format!(
        "error: sqlite:./.contexture/contexture.db: {what}\nhint: move the file; it was not \
         changed; or set --db\n"
    )
}

#[test]
fn a_store_that_another_process_writes_to() {
    let project = with_turn();
    let lock = Connection::open(project.path(DB)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let run = project.run(&["session", "record", "chat", "turn.json"]);
    let waited = started.elapsed();
    run.expect_code(1);
    assert_eq!(
        run.err,
        "error: sqlite:./.contexture/contexture.db is locked by another process; retry later\n\
         hint: retry when the other process has finished\n"
    );
    assert!(waited > Duration::from_secs(4), "{waited:?}");
    // Readers do not wait.
    assert_eq!(json_of(&project, &["session", "show", "chat"])["turns"], 1);
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);
    project.ok(&["session", "record", "chat", "turn.json"]);
    assert_eq!(json_of(&project, &["session", "show", "chat"])["turns"], 2);
}

#[test]
fn a_request_is_made_though_it_cannot_be_kept() {
    let project = with_turn();
    let lock = Connection::open(project.path(DB)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let run = run_request(&project, &[]);
    run.expect_code(0);
    assert!(run.out.contains("Hello."), "{}", run.out);
    run.says(
        "warning: the request was not saved: sqlite:./.contexture/contexture.db is locked by \
         another process; retry later",
    );
}

#[test]
fn a_store_that_cannot_be_used() {
    let diary = |db: &Path| fs::write(db, "Dear diary,\n".repeat(100)).unwrap();
    let other = |db: &Path| {
        let db = Connection::open(db).unwrap();
        db.execute_batch("CREATE TABLE recipes (cake)").unwrap();
    };
    let directory = |db: &Path| fs::create_dir(db).unwrap();
    for (make, told) in [
        (
            &diary as &dyn Fn(&Path),
            "is not a SQLite database, or its header is damaged",
        ),
        (&other, "is a SQLite database of another program"),
        (&directory, "is a directory"),
    ] {
        let project = project().file("turn.json", TURN).file(".contexture/x", "");
        make(&project.path(DB));
        refuses_all(&project, &away(told));
    }
    let project = with_turn();
    let db = Connection::open(project.path(DB)).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    db.close().unwrap();
    let run = project.run(&["session", "list"]);
    run.expect_code(2);
    assert!(
        run.err
            .contains(" was written by a newer version: its schema version is 99, and "),
        "{}",
        run.err
    );
    run.says("hint: install the newer version of Contexture; or set --db");
}

#[test]
fn there_is_no_store() {
    let project = project().file("turn.json", TURN);
    let before = project.names();
    for (makes, calls) in [
        (
            "session new LABEL",
            "session list/session record chat turn.json/snapshot list",
        ),
        (
            "tree import FILE",
            "tree list/tree show t/tree export t/tree set t --title x/tree node show t n1/\
             tree path list t/tree agent list t/tree memory show t ada",
        ),
        (
            "memory record FILE",
            "memory recall x/memory stats/memory show x/memory export/memory forget --id x/\
             memory reembed",
        ),
        (
            "task push GOAL",
            "task pop/task show/task list/task resume x",
        ),
        ("key new", "key list/key revoke abc"),
    ] {
        for call in calls.split('/') {
            let told = format!(
                "error: no store at ./.contexture/contexture.db; create one with `contexture \
                 {makes}`, or set --root or --db\n"
            );
            project.refuses(call, 2, &told);
        }
    }
    assert_eq!(project.names(), before);
}

/// Runs a command as a user without permissions. Without this, root could do
/// everything.
fn as_nobody(project: &Project, args: &[&str]) -> Run {
    let mut command = project.command(args);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    crate::support::run(command, "")
}

#[test]
fn a_store_that_may_only_be_read() {
    let project = with_turn();
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(project.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let whole = fs::read(project.path(DB)).unwrap();
    mode("", 0o755);
    mode(DB, 0o444);
    mode(".contexture", 0o555);
    let refused = as_nobody(&project, &["session", "record", "chat", "turn.json"]);
    // To look at it, nothing has to be written.
    let shown = as_nobody(&project, &["session", "history", "chat"]);
    let assembled = as_nobody(&project, &request(&[]));
    mode(".contexture", 0o755);
    refused.expect_code(1);
    assert_eq!(
        refused.err,
        "error: sqlite:./.contexture/contexture.db is read-only\n\
         hint: check the permissions of the file and its directory; or set --db\n"
    );
    for seen in [shown, assembled] {
        seen.expect_code(0);
        assert!(seen.out.contains("Hello."), "{}", seen.out);
    }
    assert_eq!(fs::read(project.path(DB)).unwrap(), whole);
}

#[test]
fn an_invalid_address_is_rejected() {
    let project = project();
    let check = |db: &str, message: &str| {
        let message = format!("error: --db: {message}\n");
        project.refuses(&["session", "new", "chat", "--db", db], 2, &message);
    };
    // The rest of a URL may hold a password.
    check(
        "postgres:me:secret@host/db",
        "write postgres://USER@HOST/DATABASE",
    );
    check(
        "mysql://host/db",
        "unknown store type mysql; use sqlite:PATH or postgres://USER@HOST/DATABASE",
    );
    check(
        "chat.db",
        "`chat.db` is not a store; use sqlite:PATH or postgres://USER@HOST/DATABASE",
    );
    check(
        "",
        "`` is not a store; use sqlite:PATH or postgres://USER@HOST/DATABASE",
    );
    // A connection string of another program, with a password.
    let other = "the value is not a store; use sqlite:PATH or postgres://USER@HOST/DATABASE";
    check("host=h user=u password=q8Zr2LxV9mTn dbname=d", other);
    check("host=h user=u password=q8Zr2:LxV9mTn", other);
    check("sqlite:", "`sqlite:` has no path; write sqlite:PATH");
    let mut doctor = project.command("doctor --all");
    doctor.env("CONTEXTURE_DB", "host=h user=u password=q8Zr2LxV9mTn");
    let run = crate::support::run(doctor, "");
    let said = format!("{}{}", run.out, run.err);
    assert!(said.contains(other), "{said}");
    assert!(!said.contains("q8Zr2LxV9mTn"), "{said}");
    let assemble = [
        "assemble", "--recipe", "broker", "--event", "Hi", "--db", "chat.db",
    ];
    project.refuses(
        &assemble,
        2,
        "error: --db: `chat.db` is not a store; use sqlite:PATH or postgres://USER@HOST/DATABASE\n",
    );
    project.write("contexture.toml", "[store]\nurl = \"chat.db\"\n");
    project.refuses(
        &["session", "new", "chat"],
        2,
        "error: store.url in contexture.toml: `chat.db` is not a store; use sqlite:PATH or postgres://USER@HOST/DATABASE\n",
    );
}
