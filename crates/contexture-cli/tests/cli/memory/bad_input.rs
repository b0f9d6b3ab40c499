//! Errors of memory commands, with their position and a hint.

use super::*;

#[test]
fn a_query_cannot_act_on_the_terminal() {
    let project = boat_house();
    // As an argument a query cannot be that long.
    let long = "The crack in the Heron, please. ".repeat(1 << 15);
    let args = ["memory", "recall", "-", "--now", NOW, "--explain"];
    for query in ["\u{1b}[31mcrack\u{7}\u{202e}", &long] {
        let run = project.run_with(&args, query);
        run.expect_code(0);
        assert!(!run.err.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
}

#[test]
fn invalid_requests_are_rejected() {
    let project = boat_house();
    for (args, message) in [
        (
            &["--filters", r#"{"since":"soon"}"#][..],
            "error: invalid value '{\"since\":\"soon\"}' for '--filters <JSON>': the filters: since: ",
        ),
        (
            &["--filters", "{"],
            "error: invalid value '{' for '--filters <JSON>': the filters: ",
        ),
        (
            &["--max-tokens", "0"],
            "error: the budget is 0 tokens\nhint: raise --max-tokens\n",
        ),
        (
            &["--max-tokens", "many"],
            "error: invalid value 'many' for '--max-tokens",
        ),
        (
            &["--strategy", "codin"],
            "error: unknown archetype `codin`; did you mean `coding`? (one of",
        ),
    ] {
        for call in [
            &["memory", "recall", "crack"][..],
            &["assemble", "--recipe", "memory", "--query", "x"],
        ] {
            let run = project.run(&[call, args].concat());
            run.expect_code(2);
            assert_eq!(run.out, "");
            assert!(run.err.starts_with(message), "{args:?}: {}", run.err);
        }
    }
}

#[test]
fn a_query_that_is_no_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = boat_house();
    let mut command = project.command(&["memory", "recall"]);
    command.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    run(command, "").expect_code(2);
}

#[test]
fn a_query_of_an_empty_memory_is_a_warning() {
    let project = Project::new();
    let args = ["--recipe", "memory", "--query", "x", "--event", "y"];
    let (_, report) = project.assemble(&args);
    assert_eq!(warnings(&report), ["memory is empty"]);
    project
        .run(&[&["assemble"][..], &args].concat())
        .says("warning: memory is empty; `contexture memory record FILE` records something");
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = lines(&boats()[..1]).into_bytes();
    bytes.extend(b"{\"kind\":\"event\",\"content\":\"\xff\"}\n");
    let project = Project::new()
        .file("records.jsonl", &bytes)
        .file("x.txt", &bytes);
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(2);
    assert_eq!(
        run.err,
        "error: records.jsonl:2: cannot be read: stream did not contain valid UTF-8; nothing was \
         recorded\n"
    );
    let hint = "hint: skip the file, or convert it to text first: `pdftotext manual.pdf - | \
                contexture memory record --text - --source manual.pdf`, `iconv -f latin1 -t \
                utf-8 FILE`";
    project.write("photo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    for (args, name) in [
        (vec!["--text", "x.txt"], "x.txt"),
        (vec!["--text", "photo.png"], "photo.png"),
        (vec!["photo.png"], "photo.png"),
    ] {
        let run = call(&project, &[vec!["memory", "record"], args].concat());
        run.expect_code(2);
        assert_eq!(
            run.err,
            format!("error: {name} is binary or not UTF-8; none of it was recorded\n{hint}\n")
        );
    }
}

#[test]
fn text_given_as_records_is_rejected_with_a_hint() {
    let project = Project::new().file("notes.md", "# Oars\n\nThey are stored blade up.\n");
    let run = call(&project, &["memory", "record", "notes.md"]);
    run.expect_code(2);
    run.says(
        "hint: the input looks like text, not like lines of JSON; record text with `contexture \
         memory record --text notes.md`",
    );
    let run = project.run_with(&["memory", "record", "-"], "Oars.\n");
    run.expect_code(2);
    run.says(
        "hint: the input looks like text, not like lines of JSON; record text with `contexture \
         memory record --text - --source NAME`",
    );
    // Input that begins like a record is an invalid record.
    let run = project.run_with(&["memory", "record", "-"], "{\"kind\":\n");
    run.expect_code(2);
    assert!(!run.err.contains("hint"), "{}", run.err);
}

#[test]
fn replaced_sources_are_named() {
    let project = Project::new()
        .file("a.jsonl", lines(&boats()[..2]))
        .file("b.jsonl", "nonsense\n");
    let run = call(&project, &["memory", "record", "a.jsonl", "b.jsonl"]);
    run.expect_code(2);
    run.says("of 1 file before: recorded 2 records (2 new)");
    assert!(run.err.contains("error: b.jsonl:1: "), "{}", run.err);
}

#[test]
fn files_that_cannot_be_read() {
    let project = Project::new()
        .file("docs/a.md", "A.\n")
        .file("empty.md", "");
    for (args, message) in [
        (
            vec!["nowhere.jsonl"],
            "error: cannot read nowhere.jsonl: there is no such file\nhint: FILE must be a file; to \
             record a sentence, run `echo 'TEXT' | contexture memory record --text - --source \
             NAME`\n",
        ),
        (
            vec!["--text", "The pump is back."],
            "error: cannot read The pump is back.: there is no such file\nhint: FILE must be a \
             file; to record a sentence, run `echo 'TEXT' | contexture memory record --text - \
             --source NAME`\n",
        ),
        (
            vec!["docs"],
            "error: cannot read docs: it is a directory; record the files in it with `--text \
             DIR/*`\n",
        ),
        (
            vec!["--text", "docs"],
            "error: cannot read docs: it is a directory; record the files in it with `--text \
             DIR/*`\n",
        ),
        (
            vec!["--text", "-"],
            "error: text from standard input needs a source; set --source NAME\n",
        ),
        (
            vec!["--text", "docs/a.md", "empty.md", "--source", "x"],
            "error: --source cannot be used with several files; record the files one by one\n",
        ),
    ] {
        let mut all = vec!["memory", "record"];
        all.extend(args);
        project.refuses(&all, 2, message);
    }
    let run = call(&project, &["memory", "record", "--text", "empty.md"]);
    run.expect_code(2);
    assert_eq!(run.err, "error: empty.md: text: is empty\n");
    project.run(&["memory", "record"]).expect_code(2);
    project
        .run(&["memory", "record", "x", "--source", "y"])
        .expect_code(2);
}
