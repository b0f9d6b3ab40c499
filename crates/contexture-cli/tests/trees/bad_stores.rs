//! Stores that are not there, cannot be written, or are none.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

use super::*;

#[test]
fn there_is_no_store() {
    let project = Project::new();
    for args in [
        "tree list",
        "tree show t",
        "tree export t",
        "tree set t --title x",
        "tree node add t --author human x",
        "tree node show t n1",
        "tree path list t",
        "tree agent list t",
        "tree memory show t ada",
    ] {
        let words = words(args);
        let args: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = project.run(&args);
        run.expect_code(2);
        assert_eq!(
            run.err,
            "error: there is no store at ./.contexture/contexture.db: nothing was kept yet \
             (`contexture tree import FILE` makes one; --root and --db say where)\n"
        );
    }
    assert!(project.names().is_empty());
}

#[test]
fn a_store_that_is_none() {
    let project = Project::new().file("notes.db", "just notes, and more of them\n".repeat(40));
    let run = call(&project, "tree list --db sqlite:notes.db");
    run.expect_code(2);
    assert!(
        run.err.starts_with("error: sqlite:notes.db: ") || run.err.contains("notes.db"),
        "{}",
        run.err
    );
    assert!(run.err.contains("hint: move the file away"), "{}", run.err);
    let run = call(&project, "tree list --db postgres://localhost/x");
    run.expect_code(2);
}

/// Runs the command as somebody who may do less than the test, which may do
/// everything.
fn as_nobody(project: &Project, args: &str) -> Run {
    let words = words(args);
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = project.command(&args);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    run(command, "")
}

#[test]
fn a_store_that_may_only_be_read() {
    let project = with("n1 human: One.\nn2 model <- n1: Two.");
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(project.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    mode(".contexture/contexture.db", 0o444);
    mode(".contexture", 0o555);
    let refused = [
        "tree node add t --author human --after n2 x",
        "tree node edit t n2 x",
        "tree node flag t n2 --prune",
        "tree new u --mode buffer",
        "tree set t --title x",
        "tree path save t main --head n2",
        "tree agent set t ada --type model",
    ]
    .map(|args| as_nobody(&project, args));
    let shown = as_nobody(&project, "tree show t");
    let assembled = as_nobody(&project, "assemble --tree t --model gpt-4o");
    mode(".contexture", 0o755);
    for refused in refused {
        refused.expect_code(2);
        assert_eq!(
            refused.err,
            "error: sqlite:./.contexture/contexture.db cannot be written: it is read-only\n\
             hint: check the permissions of the file and its directory, or name another with --db\n"
        );
    }
    // To look at it, nothing has to be written.
    shown.expect_code(0);
    assert!(shown.out.contains("● n2 model 8  Two.\n"), "{}", shown.out);
    assembled.expect_code(0);
    assert!(assembled.out.contains("Two."), "{}", assembled.out);
}
