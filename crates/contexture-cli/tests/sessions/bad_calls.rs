//! Calls that name what is not there: turns, snapshots, times.

use super::*;

#[test]
fn a_turn_to_fork_at_that_is_not_there() {
    let project = chat();
    let id = say(&project, "chat", "Hi", "Hello.");
    let fork = |at: &str, message: &str| {
        project.refuses(&["session", "fork", "chat", "new", "--at", at], 2, message);
    };
    let other: String = id
        .chars()
        .map(|c| if c == '0' { '1' } else { '0' })
        .collect();
    fork(
        &other,
        &format!(
            "error: session `chat` has no turn `{other}`\n\
             hint: `contexture session history chat` shows them\n"
        ),
    );
    for none in ["", "abc", "not a turn"] {
        fork(
            none,
            &format!("error: `{none}` is no turn: give at least 4 of its hexadecimal digits\n"),
        );
    }
    project.ok(&["session", "new", "empty"]);
    project.refuses(
        &["session", "fork", "empty", "new", "--at", &id],
        2,
        &format!(
            "error: session `empty` has no turn `{id}`\n\
             hint: `contexture session history empty` shows them\n"
        ),
    );
    assert_eq!(labels(&project), ["chat", "empty"]);
}

#[test]
fn a_snapshot_that_is_not_there() {
    let project = chat();
    assembled(&project, &[]);
    let hint = "hint: `contexture snapshot list` shows them\n";
    for command in ["show", "check"] {
        let refuses = |hash: &str, message: &str| {
            let message = format!("error: {message}\n{hint}");
            project.refuses(&["snapshot", command, hash], 2, &message);
        };
        refuses("00000000", "there is no snapshot `00000000`");
        let no_hash =
            |hash: &str| format!("`{hash}` is no hash: give at least 4 of its hexadecimal digits");
        refuses("abc", &no_hash("abc"));
        refuses("", &no_hash(""));
        refuses("xyz123", &no_hash("xyz123"));
        let long = "0".repeat(65);
        refuses(&long, &no_hash(&long));
    }
}

#[test]
fn a_hash_that_stands_for_several() {
    let project = chat();
    for n in 0..2 {
        assembled(&project, &["--event", &format!("Number {n}")]);
    }
    // Hashes that begin alike are rare; the index is made to have two.
    let db = rusqlite::Connection::open(project.path(".contexture/contexture.db")).unwrap();
    let changed = db
        .execute(
            "UPDATE snapshots SET hash = CAST(x'ABCDEF' || substr(hash, 4) AS BLOB)",
            [],
        )
        .unwrap();
    assert_eq!(changed, 2);
    db.close().unwrap();
    project.refuses(
        &["snapshot", "show", "abcdef"],
        2,
        "error: `abcdef` is the beginning of several snapshots; give more digits\n",
    );
}

#[test]
fn arguments_that_are_none() {
    let project = chat();
    for (args, message) in [
        (
            "session list --now yesterday",
            "error: invalid value 'yesterday' for '--now <RFC3339>': must be a time such as \
             2026-01-31T12:00:00Z, or Unix milliseconds",
        ),
        (
            "snapshot diff aaaa bbbb --min-shared 120",
            "error: invalid value '120' for '--min-shared <PERCENT>': must be percent, from 0 to 100",
        ),
        (
            "session compact chat --max-tokens -5",
            "error: invalid value '-5' for '--max-tokens <N>': must be a whole number of tokens, 0 \
             or more",
        ),
    ] {
        let run = project.run(&args.split(' ').collect::<Vec<_>>());
        run.expect_code(2);
        run.says(message);
    }
}

#[test]
fn nothing_to_undo() {
    let project = chat();
    let none = "error: session `chat` has no compaction to undo\n";
    project.refuses(&["session", "uncompact", "chat"], 2, none);
    say(&project, "chat", "Hi", "Hello.");
    project.refuses(&["session", "uncompact", "chat"], 2, none);
}

#[test]
fn an_overflow_that_cannot_be_recovered_from() {
    let project = chat();
    say(&project, "chat", "Hi", "Hello.");
    project.refuses(
        &["session", "compact", "chat", "--overflow"],
        2,
        "
        error: session `chat` cannot be made shorter: its latest 3 turns are kept
        hint: take a model with a larger window, or fork before the largest turn
        ",
    );
}
