//! The call itself.

use super::*;

#[test]
fn an_unknown_flag() {
    small().refuses(
        &["assemble", "--modle", "gpt-4o"],
        2,
        "
        error: unexpected argument '--modle' found

          tip: a similar argument exists: '--model'

        Usage: contexture assemble --model <NAME> [ROOT]

        For more information, try '--help'.
        ",
    );
}

#[test]
fn an_unknown_command() {
    small().refuses(
        &["asemble"],
        2,
        "
        error: unrecognized subcommand 'asemble'

          tip: a similar subcommand exists: 'assemble'

        Usage: contexture [OPTIONS] <COMMAND>

        For more information, try '--help'.
        ",
    );
}

#[test]
fn a_command_of_another_command() {
    small().refuses(
        &["recall", "the ferry"],
        2,
        "
        error: unrecognized subcommand 'recall'

          tip: did you mean `contexture memory recall`?

        Usage: contexture [OPTIONS] <COMMAND>

        For more information, try '--help'.
        ",
    );
}

#[test]
fn a_clock_that_shows_no_time() {
    small().refuses(
        &["assemble", "--now", "yesterday"],
        2,
        "
        error: invalid value 'yesterday' for '--now <RFC3339>': must be a time such as 2026-01-31T12:00:00Z, or Unix milliseconds

        For more information, try '--help'.
        ",
    );
}

#[test]
fn an_invalid_priority_on_the_command_line_is_rejected() {
    small().refuses(
        &[
            "working-set",
            "adjust",
            "a.md",
            "--priority",
            "1.5",
            "--why",
            "x",
            "--now",
            NOW,
        ],
        2,
        "error: INVALID_ARGS: priority of `a.md` must be from 0 to 1, not 1.5\n",
    );
    small().refuses(
        "working-set adjust a.md --priority NaN --why x",
        2,
        "error: INVALID_ARGS: priority of `a.md` must be from 0 to 1, not NaN\n",
    );
    small().refuses(
        "working-set adjust a.md --priority high --why x",
        2,
        "
        error: invalid value 'high' for '--priority <P>': must be a number from 0 to 1

        For more information, try '--help'.
        ",
    );
}

#[test]
fn two_events_at_once() {
    small().refuses(
        &["assemble", "--event", "x", "--event-file", "a.md"],
        2,
        "
        error: the argument '--event <TEXT>' cannot be used with '--event-file <FILE>'

        Usage: contexture assemble --event <TEXT> [ROOT]

        For more information, try '--help'.
        ",
    );
}

#[test]
fn a_file_that_is_not_valid_utf8_by_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = small().entries("docs 0.5").file("docs/a.md", "alpha\n");
    let name = std::ffi::OsStr::from_bytes(b"caf\xE9.md");
    File::create(project.path("docs").join(name))
        .unwrap()
        .write_all(b"x\n")
        .unwrap();
    let (_, report) = project.assemble(&[]);
    assert_eq!(
        fates(&report),
        "keep docs/a.md fits\n\
         out  docs/caf\u{FFFD}.md not_utf8: has a name that is not UTF-8\n"
    );
}

#[test]
fn a_name_cannot_act_on_the_terminal() {
    let project = small()
        .file("docs/\u{1b}[31mred\n.md", "x\n")
        .entries("docs 0.5");
    for args in [&["assemble", "--explain"][..], &["working-set", "list"]] {
        let run = project.run(args);
        let shown = format!(
            "{}{}",
            if args.len() > 1 && args[0] == "working-set" {
                &run.out
            } else {
                ""
            },
            run.err
        );
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert!(
            shown.contains("docs/[U+001B][31mred[U+000A].md"),
            "{shown:?}"
        );
    }
}

#[test]
fn a_report_cannot_follow_json_on_standard_output() {
    small().refuses(
        &["assemble", "--format", "gemini", "--report", "-"],
        2,
        "error: --report - cannot follow a JSON request on standard output; write it to a file \
         with --report FILE, or use --format json, which contains the report\n",
    );
}

#[test]
fn a_name_shows_its_invisible_characters() {
    let name = "docs/a\u{200b}b\u{202e}c\u{9b}d\u{e0041}.md";
    let project = small().file(name, "x\n").entries("docs 0.5");
    let shown = "docs/a[U+200B]b[U+202E]c[U+009B]d[U+E0041].md";
    for args in [
        vec!["assemble", "--explain"],
        vec!["working-set", "list"],
        vec!["tokens", name, "working-set.yml"],
    ] {
        let run = project.run(&args);
        let out = if args[0] == "assemble" { "" } else { &run.out };
        let said = format!("{out}{}", run.err);
        assert!(said.contains(shown), "{said:?}");
        assert!(
            !said.contains(['\u{200b}', '\u{202e}', '\u{9b}', '\u{e0041}']),
            "{said:?}"
        );
    }
}

#[test]
fn the_root_is_found_from_a_directory_below() {
    let project = small().file("src/deep/x.rs", "x\n");
    let mut command = project.command("working-set list");
    command.current_dir(project.path("src/deep"));
    let found = run(command, "");
    found.expect_code(0);
    assert!(found.out.starts_with("working-set.yml: "), "{}", found.out);
    let root = project.path("").canonicalize().unwrap();
    found.says(&format!(
        "using root {}, which has working-set.yml; set another with --root",
        root.display()
    ));
    // What is typed there is found there.
    let mut command = project.command("working-set add x.rs --priority 0.5 --why test");
    command.current_dir(project.path("src/deep"));
    assert_eq!(run(command, "").out, "added src/deep/x.rs at 0.5: test\n");
    // A root that is named is not searched for.
    let mut command = project.command("working-set list --root .");
    command.current_dir(project.path("src/deep"));
    run(command, "").expect_code(2);
}

#[test]
fn every_command_takes_a_root() {
    let project = small();
    project.ok("session new chat");
    let elsewhere = Project::new();
    let root = project.path("");
    let root = root.to_str().unwrap();
    for call in [
        "assemble",
        "working-set list",
        "session list",
        "tree list",
        "task list",
        "memory stats",
        "snapshot list",
        "key list",
        "tokens working-set.yml",
        "recipe list",
        "recipe sources",
        "doctor",
        "completions bash",
        "__complete sessions",
    ] {
        elsewhere.write("working-set.yml", "x\n");
        let mut command = elsewhere.command(call);
        command.args(["--root", root]);
        run(command, "").expect_code(0);
    }
    let names = elsewhere.ok(&["--root", root, "__complete", "sessions"]);
    assert_eq!(names, "chat\n");
}

#[test]
fn the_table_fits_the_terminal() {
    let deep = "src/a/rather/long/path/that/never/ends/because/somebody/liked/directories";
    let lines: String = (1..=900)
        .map(|n| format!("line {n} of the log\n"))
        .collect();
    let project = Project::new()
        .file("README.md", "x\n")
        .file(&format!("{deep}/file.rs"), &lines)
        .file(&format!("{deep}/other.rs"), &lines)
        .entries("README.md 0.9\nsrc 0.5");
    for width in ["40", "60", "80", "100", "160"] {
        let mut command = project.command("assemble --explain");
        command.env("COLUMNS", width);
        let shown = run(command, "").err;
        let widest = shown
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap();
        assert!(
            widest <= width.parse().unwrap(),
            "{width}: {widest}\n{shown}"
        );
        assert!(shown.contains("README.md"), "{shown}");
    }
}

#[test]
fn a_long_table_shows_the_dropped_files_of_the_highest_priority() {
    let text = "a line that needs some tokens\n".repeat(60);
    let mut project = Project::new().file("README.md", "x\n");
    for number in 0..80 {
        project = project.file(&format!("low/{number:02}.md"), &text);
    }
    for number in 0..20 {
        project = project.file(&format!("high/{number:02}.md"), &text);
    }
    let project = project.entries("README.md 1\nlow 0.2\nhigh 0.6");
    let mut command = project.command("assemble --explain --max-tokens 1200");
    command.env("COLUMNS", "100");
    let shown = run(command, "").err;
    let dropped = |folder: &str| {
        let rows = shown.lines().filter(|line| line.starts_with(" out"));
        rows.filter(|line| line.contains(folder)).count()
    };
    assert!(dropped("high/") >= 15, "{shown}");
    assert!(dropped("low/") < 60, "{shown}");
    assert!(
        shown.contains(" more left out: --report FILE lists all"),
        "{shown}"
    );
    assert!(!shown.contains("more kept"), "{shown}");
}
