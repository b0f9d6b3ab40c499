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

        Usage: contexture <COMMAND>

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
