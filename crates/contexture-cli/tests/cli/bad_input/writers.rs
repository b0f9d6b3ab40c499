//! Writers at once, and disks that do not take it.

use super::*;

#[test]
fn twenty_writers_at_once_all_get_their_entry() {
    let project = (0..20)
        .fold(Project::new(), |project, i| {
            project.file(&format!("f{i:02}.md"), "x\n")
        })
        .file("a.md", "alpha\n")
        .manifest(
            "
            # what the model sees
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 1000 # small
            files:
              - path: a.md # the first
                priority: 0.5
            # the end
            ",
        );
    let writers: Vec<_> = (0..20)
        .map(|i| {
            let path = format!("f{i:02}.md");
            project
                .command(&[
                    "working-set",
                    "add",
                    &path,
                    "--priority",
                    "0.3",
                    "--why",
                    "all at once",
                ])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for writer in writers {
        crate::support::finish(writer).expect_code(0);
    }
    let manifest = project.read("working-set.yml");
    for comment in [
        "# what the model sees\n",
        " # small\n",
        " # the first\n",
        "# the end\n",
    ] {
        assert_eq!(manifest.matches(comment).count(), 1, "{comment}{manifest}");
    }
    let list: serde_json::Value =
        serde_json::from_str(&project.ok(&["working-set", "list", "--json"])).unwrap();
    let mut paths: Vec<&str> = list["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| crate::support::text(&row["path"]))
        .collect();
    paths.sort_unstable();
    let expected: Vec<String> = std::iter::once("a.md".to_owned())
        .chain((0..20).map(|i| format!("f{i:02}.md")))
        .collect();
    assert_eq!(paths, expected);
    let log = project.read(".contexture/sessions/default/events.jsonl");
    assert_eq!(log.lines().count(), 20);
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let left: Vec<_> = project
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_writer_that_does_not_get_the_lock_gives_up() {
    let project = small();
    let lock = File::open(project.path(".")).unwrap();
    lock.lock().unwrap();
    project.refuses(
        "working-set add b.md --priority 0.5 --why x",
        1,
        "
        error: working-set.yml has been locked by another process for five seconds
        hint: retry, or stop that process
        ",
    );
}

/// Runs `args` in the project as a user who may not write to it.
fn run_without_write_permission(project: &Project, args: &str) -> crate::support::Run {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mode =
        |mode| fs::set_permissions(project.path(""), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    // Permissions do not apply to root, so the user `nobody` runs a copy that
    // it can reach.
    let reachable = TempDir::new().unwrap();
    let mut command = project.command(args);
    if is_root {
        let copy = reachable.path().join("contexture");
        fs::copy(BIN, &copy).unwrap();
        for path in [reachable.path(), &copy] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        command = Command::new(copy);
        command
            .args(args.words())
            .current_dir(project.path(""))
            .uid(65534)
            .gid(65534);
    }
    let run = run(command, "");
    mode(0o755);
    run
}

#[test]
fn a_directory_that_may_not_be_written_to() {
    let project = small();
    let before = project.names();
    let manifest = project.read("working-set.yml");
    let args = "working-set add b.md --priority 0.5 --why x";
    let run = run_without_write_permission(&project, args);
    run.expect_code(1);
    assert_eq!(
        run.err,
        "error: cannot write working-set.yml: Permission denied (os error 13); the file is \
         unchanged\nhint: check that the directory is writable and the disk is not full\n"
    );
    assert_eq!(project.read("working-set.yml"), manifest);
    assert_eq!(project.names(), before);
}

#[test]
fn a_log_that_cannot_be_written_does_not_keep_a_prompt_from_being_made() {
    let project = small();
    let before = project.names();
    let run = run_without_write_permission(&project, "assemble");
    run.expect_code(0);
    assert!(run.out.contains("alpha"));
    run.says(
        "warning: cannot write the event log .contexture/sessions/default/events.jsonl: \
         Permission denied (os error 13)",
    );
    assert_eq!(project.names(), before);
}

#[test]
fn init_where_nothing_may_be_written() {
    let project = Project::new();
    let run = run_without_write_permission(&project, "init");
    run.expect_code(1);
    assert_eq!(
        run.err,
        "error: cannot write .agent/constitution.md: Permission denied (os error 13)\n\
         hint: check that the directory is writable\n"
    );
    assert_eq!(project.names(), Vec::<String>::new());
}

/// Runs `args` so that no file can grow: every write to one fails, as on a
/// full disk.
fn run_on_a_full_disk(project: &Project, args: &str) -> crate::support::Run {
    let mut command = Command::new("bash");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"", BIN])
        .args(args.words())
        .current_dir(project.path(""));
    run(command, "")
}

#[test]
fn a_full_disk_leaves_the_manifest_as_it_was() {
    let project = small();
    let before = project.snapshot();
    let args = "working-set add b.md --priority 0.5 --why x";
    let run = run_on_a_full_disk(&project, args);
    run.expect_code(1);
    assert_eq!(
        run.err,
        "error: cannot write working-set.yml: File too large (os error 27); the file is \
         unchanged\nhint: check that the directory is writable and the disk is not full\n"
    );
    assert_eq!(project.snapshot(), before);
}

#[test]
fn a_full_disk_leaves_the_report_as_it_was() {
    let project = small().file("report.yml", "the one before\n");
    let run = run_on_a_full_disk(&project, "assemble --report report.yml");
    run.expect_code(1);
    assert_eq!(project.read("report.yml"), "the one before\n");
    assert!(
        !project.names().iter().any(|name| name.ends_with(".tmp")),
        "{:?}",
        project.names()
    );
    run.says("error: cannot write report.yml: File too large (os error 27)");
}

#[test]
fn init_on_a_full_disk_leaves_no_half_written_file() {
    let project = Project::new();
    let run = run_on_a_full_disk(&project, "init");
    run.expect_code(1);
    assert!(
        run.err
            .starts_with("error: cannot write .agent/constitution.md: "),
        "{}",
        run.err
    );
    // A file that is there but empty would be kept by the next init.
    project.ok(&["init"]);
    assert!(
        project
            .read(".agent/constitution.md")
            .starts_with("# Constitution")
    );
}

#[test]
fn observe_on_a_full_disk_can_be_repeated() {
    let project = small().file("turn.json", TURN_WITH_TOOL);
    let before = project.snapshot();
    run_on_a_full_disk(&project, "working-set observe turn.json").expect_code(1);
    assert_eq!(project.read("working-set.yml"), before["working-set.yml"]);
    project.ok(&["working-set", "observe", "turn.json"]);
}

#[test]
fn a_device_that_is_full_is_named_with_the_cause() {
    let run = small().run(&["assemble", "--report", "/dev/full"]);
    run.expect_code(1);
    assert_eq!(run.out, "", "the prompt must not pass for a success");
    assert_eq!(
        run.err,
        "error: cannot write /dev/full: No space left on device (os error 28)\n"
    );
}

#[test]
fn standard_output_that_is_full() {
    let project = small();
    let mut command = project.command(&["assemble"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    command
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped());
    let run = crate::support::finish(command.spawn().unwrap());
    run.expect_code(1);
    run.says("error: cannot write to standard output: No space left on device (os error 28)");
}

#[test]
fn a_report_where_no_file_can_be() {
    let project = small();
    let run = project.run(&["assemble", "--report", "nowhere/report.yml"]);
    run.expect_code(1);
    run.says("error: cannot write nowhere/report.yml: No such file or directory (os error 2)");
    let run = project.run(&["assemble", "--report", "."]);
    assert!(matches!(run.code, Some(1 | 2)), "{run:?}");
    assert!(run.err.contains("directory"), "{}", run.err);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let project = small();
    let mut command = project.command(&["assemble"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped());
    let run = crate::support::finish(command.spawn().unwrap());
    run.expect_code(0);
    assert_eq!(run.err, "");

    let project = small().file("a.md", "a long line of text\n".repeat(5_000));
    let mut command = Command::new("bash");
    command
        .args([
            "-c",
            "set -o pipefail; \"$0\" assemble --max-tokens 100000 | head -c 10",
            BIN,
        ])
        .current_dir(project.path(""));
    let run = crate::support::run(command, "");
    run.expect_code(0);
    assert_eq!(run.out, "Root: ./\nC");
    assert!(!run.err.contains("error"), "{}", run.err);
}
