//! What cannot be done is said, with its place and what to do.

use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::support::BIN;

#[test]
fn there_is_no_store() {
    let project = Project::new();
    for args in [
        vec!["memory", "recall", "x"],
        vec!["memory", "stats"],
        vec!["memory", "show", "x"],
        vec!["memory", "export"],
        vec!["memory", "forget", "--id", "x"],
        vec!["memory", "reembed"],
    ] {
        project.refuses(
            &args,
            2,
            "error: there is no store at ./.contexture/contexture.db: nothing was kept yet \
             (`contexture memory record FILE` makes one; --root and --db say where)\n",
        );
    }
    assert!(project.names().is_empty());
}

#[test]
fn strange_queries_find_or_do_not_but_never_fail() {
    let project = boat_house();
    let long = "The crack in the Heron, please. ".repeat(1 << 15);
    assert!(long.len() > 1_000_000);
    let started = Instant::now();
    for query in [
        "",
        " ",
        "龙舟裂缝在哪里？",
        "\" OR NEAR( *",
        "'; DROP TABLE memories; --",
        "%_%",
        "\u{1b}[31mcrack\u{7}\u{202e}",
        "\u{0301}\u{0301}\u{0301}",
        "🚣🚣🚣",
        "-",
        &long,
    ] {
        // As an argument a query cannot be that long.
        let args = ["memory", "recall", "-", "--now", NOW, "--explain"];
        let run = project.run_with(&args, query);
        run.expect_code(0);
        // What a terminal would act on is written out.
        assert!(
            !run.err.contains(['\u{1b}', '\u{7}', '\u{202e}']),
            "{:?}",
            run.err
        );
    }
    assert!(started.elapsed() < Duration::from_secs(50));
    let run = project.run_with(&["memory", "recall", "-", "--now", NOW], &long);
    assert!(run.out.contains("third seat"), "{}", run.out);
    run.says("warning: only the first 8192 bytes of the query are looked at; it has 1048576");
}

#[test]
fn chinese_is_found() {
    let project = with(&[
        json!({"kind": "event", "id": "a", "content": "龙舟的第三个座位下面有一条裂缝。"}),
        json!({"kind": "event", "id": "b", "content": "今天下雨，我们在家喝茶。"}),
    ]);
    assert_eq!(found(&project, &["裂缝", "--max-tokens", "60"]), ["a"]);
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
fn filters_that_are_none() {
    let project = boat_house();
    for (filters, message) in [
        (
            r#"{"sinse":"2026-01-01T00:00:00Z"}"#,
            "error: the filters: sinse: unknown field `sinse`, expected one of `since`, `event_types`, \
             `entity_types`, `exclude`, `task_id`",
        ),
        (r#"{"since":"soon"}"#, "error: the filters: since: "),
        (
            r#"{"event_types":"note"}"#,
            "error: the filters: event_types: ",
        ),
        (
            r#"{"event_types":[1]}"#,
            "error: the filters: event_types[0]: ",
        ),
        ("[]", "error: the filters: "),
        ("{", "error: the filters: "),
        ("", "error: the filters: "),
    ] {
        let run = call(
            &project,
            &["memory", "recall", "crack", "--filters", filters],
        );
        run.expect_code(2);
        assert_eq!(run.out, "");
        assert!(run.err.starts_with(message), "{filters}: {}", run.err);
        let args = [
            "assemble",
            "--recipe",
            "memory",
            "--query",
            "x",
            "--filters",
            filters,
        ];
        let run = call(&project, &args);
        run.expect_code(2);
        assert!(run.err.starts_with(message), "{filters}: {}", run.err);
    }
}

#[test]
fn budgets_that_are_none() {
    let project = boat_house();
    let recall = |tokens| ["memory", "recall", "crack", "--max-tokens", tokens];
    project.refuses(
        &recall("0"),
        2,
        "
        error: the budget is 0 tokens
        hint: give --max-tokens 1 or more
        ",
    );
    for tokens in ["-1", "many", "1.5", ""] {
        let run = project.run(&recall(tokens));
        run.expect_code(2);
        assert!(run.err.contains("--max-tokens"), "{}", run.err);
    }
    call(&project, &recall("18446744073709551615")).expect_code(0);
}

#[test]
fn a_strategy_that_nobody_knows() {
    let project = boat_house();
    let message = "
        error: unknown archetype `codin`; did you mean `coding`? (one of coding, support, research, minimal, recall)
        hint: name a built-in archetype, or list the file of your own
        ";
    project.refuses(
        &["memory", "recall", "crack", "--strategy", "codin"],
        2,
        message,
    );
    let args = [
        "assemble",
        "--recipe",
        "memory",
        "--query",
        "x",
        "--strategy",
        "codin",
    ];
    let run = call(&project, &args);
    run.expect_code(2);
    assert_eq!(run.err, dedent(message));
}

#[test]
fn a_recipe_without_memory() {
    let project = boat_house().file("a.md", "A.\n").entries("a.md 0.5");
    for (option, value) in [
        ("--query", "x"),
        ("--strategy", "coding"),
        ("--filters", r#"{"task_id":"t"}"#),
    ] {
        project.refuses(
            &["assemble", option, value],
            2,
            &format!(
                "error: the recipe `working-set` has no memory for `{}`\n\
                 hint: use --recipe memory, broker or task-stack, or one with the source `memory`\n",
                option.trim_start_matches('-')
            ),
        );
    }
}

#[test]
fn memory_is_asked_for_and_there_is_none() {
    let project = Project::new();
    let (_, report) = project.assemble(&["--recipe", "memory", "--query", "x", "--event", "y"]);
    assert_eq!(
        warnings(&report),
        ["memory is empty: `contexture memory record FILE` fills it"]
    );
}

/// Records lines behind two good ones, which must be refused with exactly that
/// complaint, and leave nothing.
#[track_caller]
fn refuses_line(line: &str, complaint: &str) {
    let project = Project::new();
    let good = lines(&boats()[..2]);
    project.write("records.jsonl", format!("{good}{line}\n"));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(2);
    assert_eq!(run.out, "");
    let said = run.err.lines().next().unwrap();
    let complaint = format!("error: records.jsonl:3: {complaint}");
    assert_eq!(said, format!("{complaint}; nothing of it was recorded"));
    let stats = out(&project, &["memory", "stats", "--json"]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["bytes"], 0, "{stats:#}");
}

#[test]
fn lines_that_are_no_records() {
    for (line, complaint) in [
        ("nonsense", "is no JSON: expected ident at column 2"),
        (
            "{\"kind\":\"event\"",
            "is no JSON: it ends inside an object at column 15",
        ),
        (
            "[]",
            "must be an object such as {\"kind\":\"event\",\"content\":\"…\"}",
        ),
        (
            "7",
            "must be an object such as {\"kind\":\"event\",\"content\":\"…\"}",
        ),
        (
            "{}",
            "kind: is missing (one of event, chunk, entity, relation, pattern, task)",
        ),
        (
            r#"{"kind":"evnt","content":"x"}"#,
            "kind: unknown kind `evnt`; did you mean `event`? (one of event, chunk, entity, \
             relation, pattern, task)",
        ),
        (
            r#"{"kind":"event","content":"x","colour":"red"}"#,
            "colour: unknown field `colour`, expected one of `id`, `session_id`, `timestamp`, \
             `type`, `actor`, `content`, `outcome`, `parent_id`, `summary`, `keywords`, \
             `task_id`, `source`, `valid_from`, `valid_to`, `supersedes`, `visible_to`",
        ),
        (r#"{"kind":"event"}"#, "missing field `content`"),
        (
            r#"{"kind":"event","content":null}"#,
            "content: is null: give a text or an object",
        ),
        (
            r#"{"kind":"event","content":"x","timestamp":"yesterday"}"#,
            "timestamp: `yesterday` is no time: give RFC 3339 such as `2026-02-02T10:00:00Z`, \
             or Unix milliseconds",
        ),
        (
            r#"{"kind":"event","content":"x","outcome":"so-so"}"#,
            "outcome: unknown value `so-so`, expected one of `success`, `failure`, `partial`",
        ),
        (
            r#"{"kind":"event","content":"x","supersedes":"nobody"}"#,
            "supersedes: there is no event `nobody`",
        ),
        (
            r#"{"kind":"event","content":"x","valid_from":"2026-02-01T00:00:00Z","valid_to":"2026-01-01T00:00:00Z"}"#,
            "valid_to: is 2026-01-01T00:00:00Z, before valid_from 2026-02-01T00:00:00Z",
        ),
        (r#"{"kind":"chunk","text":"x"}"#, "missing field `source`"),
        (
            r#"{"kind":"chunk","source":"a","text":"  "}"#,
            "text: is empty",
        ),
        (
            r#"{"kind":"chunk","source":"a","text":"x","embedding":[1,2,3]}"#,
            "embedding: has 3 dimensions; those of static-256@93f1ba7a53d9 have 256",
        ),
        (
            r#"{"kind":"entity","type":"person","name":""}"#,
            "name: is empty",
        ),
        (
            r#"{"kind":"entity","type":"person","name":"A","salience":7}"#,
            "salience: must be from 0 to 1, not 7",
        ),
        (
            r#"{"kind":"relation","type":"knows","source_id":"a"}"#,
            "missing field `target_id`",
        ),
        (
            r#"{"kind":"pattern","name":"p","procedure":"x","applications":1,"successes":2}"#,
            "applications: is 1, less than 2 successes and 0 failures together",
        ),
        (
            r#"{"kind":"pattern","name":"p","procedure":"x","conditions":[{"type":"smell","value":"x"}]}"#,
            "conditions[0].type: unknown value `smell`, expected one of `keyword`, \
             `entity_type`, `error_type`, `custom`",
        ),
        (r#"{"kind":"task","id":"t","goal":" "}"#, "goal: is empty"),
        (
            r#"{"kind":"task","id":"t","goal":"x","parent_id":"nobody"}"#,
            "parent_id: there is no task `nobody`",
        ),
        (
            r#"{"kind":"task","id":"t","goal":"x","parent_id":"t"}"#,
            "parent_id: is the task itself",
        ),
    ] {
        refuses_line(line, complaint);
    }
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
        "error: records.jsonl:2: cannot be read: stream did not contain valid UTF-8; nothing of \
         it was recorded\n"
    );
    let hint = "hint: leave it out, or make a text of it first: `pdftotext manual.pdf - | \
                contexture memory record --text - --source manual.pdf`, `iconv -f latin1 -t utf-8 \
                FILE`";
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
            format!("error: {name} is binary, or no UTF-8: nothing of it was recorded\n{hint}\n")
        );
    }
}

#[test]
fn a_text_that_is_taken_for_records() {
    let project = Project::new().file("notes.md", "# Oars\n\nThey are stored blade up.\n");
    let run = call(&project, &["memory", "record", "notes.md"]);
    run.expect_code(2);
    run.says(
        "hint: it looks like a text, not like lines of JSON: `contexture memory record --text \
         notes.md` records texts",
    );
    let run = project.run_with(&["memory", "record", "-"], "Oars.\n");
    run.expect_code(2);
    run.says(
        "hint: it looks like a text, not like lines of JSON: `contexture memory record --text - \
         --source NAME` records texts",
    );
    // What begins as a record is one that is wrong.
    let run = project.run_with(&["memory", "record", "-"], "{\"kind\":\n");
    run.expect_code(2);
    assert!(!run.err.contains("hint"), "{}", run.err);
}

#[test]
fn what_was_recorded_before_a_bad_line_stays_and_is_named() {
    let record =
        |i| json!({"kind": "event", "id": format!("e{i}"), "content": format!("Buoy {i}.")});
    let mut text: String = (0..1_200).map(|i| format!("{}\n", record(i))).collect();
    text.push_str("{\"kind\":\"evnt\"}\n");
    let project = Project::new().file("records.jsonl", text);
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(2);
    assert!(
        run.err.starts_with("error: records.jsonl:1201: "),
        "{}",
        run.err
    );
    assert!(
        run.err
            .contains("; lines 1 to 1000 were recorded and stay, the rest was not"),
        "{}",
        run.err
    );
    let stats = out(&project, &["memory", "stats", "--json"]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["kinds"]["event"]["live"], 1_000);
}

#[test]
fn what_was_recorded_of_files_before_is_named() {
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
            "error: cannot read nowhere.jsonl: No such file or directory (os error 2)\n",
        ),
        (
            vec!["docs"],
            "error: cannot read docs: it is a directory; `--text DIR/*` records the files in it\n",
        ),
        (
            vec!["--text", "docs"],
            "error: cannot read docs: it is a directory; `--text DIR/*` records the files in it\n",
        ),
        (
            vec!["--text", "-"],
            "error: a text from standard input has no name: give --source NAME\n",
        ),
        (
            vec!["--text", "docs/a.md", "empty.md", "--source", "x"],
            "error: --source names one text; record several files one by one\n",
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

#[test]
fn the_disk_is_full() {
    let records: Vec<Value> = (0..20_000)
        .map(|i| json!({"kind": "event", "id": format!("b{i}"), "content": format!("Buoy {i} {}", "x".repeat(200))}))
        .collect();
    let project = boat_house().file("many.jsonl", lines(&records));
    // A file may grow to two megabytes here. The signal that says so is not
    // for the command.
    let script = format!("trap '' XFSZ; ulimit -f 4096; exec {BIN} memory record many.jsonl");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(project.path("."));
    let run = run(command, "");
    run.expect_code(1);
    assert_eq!(run.out, "");
    assert!(run.err.starts_with("error: "), "{}", run.err);
    assert!(
        run.err.contains("were recorded and stay")
            || run.err.contains("nothing of it was recorded"),
        "{}",
        run.err
    );
    // What was there is there, and with room it goes on.
    assert!(recall(&project, &["Where is the crack?"]).contains("third seat"));
    let told = out(&project, &["memory", "record", "many.jsonl"]);
    assert!(told.starts_with("recorded 20,000 records ("), "{told}");
}
