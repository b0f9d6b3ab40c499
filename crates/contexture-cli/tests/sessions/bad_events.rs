//! Events that are none, and what is attached to them.

use super::*;

/// Checks that an event is refused with `message`.
#[track_caller]
fn check_event(event: &str, message: &str) {
    let project = chat().file("event.json", event);
    let message = format!("error: event.json: {message}\n");
    refuses_request(&project, &["--event-file", "event.json"], &message);
}

/// Checks that a file that is no event is refused with `message`.
#[track_caller]
fn check_file(event: &str, message: &str) {
    let hint = "hint: an event is `{\"content\":\"…\",\"timezone\":\"Europe/Berlin\"}`";
    check_event(event, &format!("{message}\n{hint}"));
}

#[test]
fn an_event_that_is_malformed() {
    check_file("", "it ends where a value should be at line 1 column 0");
    check_file(
        "{\"content\":\"x",
        "content: it ends inside a text at line 1 column 13",
    );
    check_file("{}", "missing field `content` at line 1 column 2");
    check_file(
        "\"x\"",
        "invalid type: string \"x\", expected an event: an object with `content` at line 1 column 3",
    );
    check_file(
        r#"{"content":"x","sender":"Ana"}"#,
        "sender: invalid type: string \"Ana\", expected a sender: an object with `name` or `id` \
         at line 1 column 29",
    );
    check_file(
        r#"{"content":"x","source":"robot"}"#,
        "source: unknown value `robot`, expected one of `human`, `trigger`, `agent`, `webhook`, \
         `cron`, `event` at line 1 column 31",
    );
}

#[test]
fn an_event_with_an_unknown_field() {
    check_file(
        r#"{"content":"x","time_zone":"UTC"}"#,
        "time_zone: unknown field `time_zone`, expected one of `content`, `timezone`, `platform`, \
         `platform_actions`, `hooks`, `sender`, `attachments`, `source`, `id` at line 1 column 26",
    );
    check_file(
        r#"{"content":"x","hooks":[{"name":"a","text":"b"}]}"#,
        "hooks[0].text: unknown field `text`, expected `name` or `content` at line 1 column 42",
    );
}

#[test]
fn an_event_on_standard_input_is_called_so() {
    let project = chat();
    let args = request(&["--event-file", "-"]);
    let run = project.run_with(&args, r#"{"content":"x","hooks":3}"#);
    run.expect_code(2);
    run.says(
        "error: standard input: hooks: invalid type: integer `3`, expected a sequence at line 1 \
         column 24",
    );
}

#[test]
fn an_empty_event() {
    check_event(r#"{"content":""}"#, "content: the event is empty");
    check_event(r#"{"content":" \n"}"#, "content: the event is empty");
    let project = chat();
    refuses_request(&project, &["--event", " "], "error: the event is empty\n");
    project.write("event.txt", "\n");
    refuses_request(
        &project,
        &["--event-file", "event.txt"],
        "error: the event is empty\n",
    );
}

#[test]
fn attachments_that_are_none() {
    check_event(
        r#"{"content":"x","attachments":[{}]}"#,
        "attachments[0]: needs one of `path`, `content`, `data` and `url`",
    );
    check_event(
        r#"{"content":"x","attachments":[{"path":"a","content":"b"}]}"#,
        "attachments[0]: needs one of `path`, `content`, `data` and `url`",
    );
    check_event(
        r#"{"content":"x","attachments":[{"data":"AAAA"}]}"#,
        "attachments[0]: needs a `media_type` such as image/png",
    );
    check_event(
        r#"{"content":"x","attachments":[{"path":"a","lines":[3,1]}]}"#,
        "attachments[0].lines: are the first and the last line of a `path`, counted from 1",
    );
    check_file(
        r#"{"content":"x","attachments":[{"path":"a","lines":[-1,1]}]}"#,
        "attachments[0].lines[0]: invalid value: integer `-1`, expected a whole number, 0 or more \
         at line 1 column 53",
    );
}

#[test]
fn an_attachment_outside_the_root_is_left_out_with_a_warning() {
    let outside = Project::new().file("secret.txt", "the launch code\n");
    let absolute = outside.path("secret.txt").display().to_string();
    let dir = outside
        .path("")
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    let above = format!("../{dir}/secret.txt");
    let project = chat().link("link.txt", outside.path("secret.txt"));
    for (path, code, warning) in [
        (
            above.as_str(),
            "outside_root",
            format!("`{above}` holds `..`, which could lead out of the root"),
        ),
        (
            absolute.as_str(),
            "outside_root",
            format!("`{absolute}` is absolute; paths are relative to the root"),
        ),
        (
            "link.txt",
            "outside_root",
            "`link.txt` leads out of the root through a link".to_owned(),
        ),
        (
            "nowhere.txt",
            "missing",
            "there is no file `nowhere.txt`".to_owned(),
        ),
    ] {
        let event = json!({"content": "Look", "attachments": [{"path": path}]});
        project.write("event.json", event.to_string());
        let run = run_request(
            &project,
            &["--event-file", "event.json", "--format", "json"],
        );
        run.expect_code(0);
        assert!(!run.out.contains("launch code"), "{path}");
        run.says(&format!("warning: {warning}"));
        let report = parsed(&run.out)["report"].clone();
        assert_eq!(report["excluded"][0]["id"], path);
        assert_eq!(report["excluded"][0]["code"], code);
        assert_eq!(warnings(&report), [warning]);
    }
}

#[test]
fn a_role_that_is_none() {
    let run = run_request(&chat(), &["--role", "boss"]);
    run.expect_code(2);
    run.says("error: invalid value 'boss' for '--role <ROLE>'");
    run.says("  [possible values: manager, worker, unified]");
}

#[test]
fn a_worker_without_a_task() {
    refuses_request(
        &chat(),
        &["--role", "worker"],
        "
        error: a worker needs a task
        hint: give --task TEXT, or make its session with --task
        ",
    );
}

#[test]
fn a_model_that_is_not_in_the_table_is_a_warning() {
    let project = chat();
    let run = run_request(&project, &["--model", "my-model", "--format", "json"]);
    run.expect_code(0);
    run.says(
        "warning: model `my-model` is not in the table: a window of 128000 tokens is assumed, \
         and the way its family counts; add it under [models] in contexture.toml",
    );
    let value = parsed(&run.out);
    assert_eq!(value["token_budget"]["model_limit"], 128_000);
    assert_eq!(value["report"]["tokenizer"]["exact"], false);
}

#[test]
fn a_system_prompt_larger_than_the_window() {
    let project = chat()
        .file("AGENTS.md", "Always be kind to strangers.\n".repeat(300))
        .file("IDENTITY.md", "The user is Kim, a gardener.\n".repeat(100));
    let run = run_request(&project, &["--max-tokens", "1000"]);
    run.expect_code(2);
    assert_eq!(run.out, "");
    let (first, hint) = run.err.split_once('\n').unwrap();
    assert!(first.starts_with("error: pinned items need "), "{first}");
    assert!(
        first.contains(" tokens but 1000 are available (largest: `AGENTS.md` "),
        "{first}"
    );
    assert!(first.contains(", `IDENTITY.md` "), "{first}");
    assert_eq!(
        hint,
        "hint: raise --max-tokens, take a model with a larger window, or unpin the largest\n"
    );
    let kept = project.ok(&["snapshot", "list"]);
    assert_eq!(kept, "no requests were kept\n");
}

#[test]
fn an_event_larger_than_the_window() {
    let project = chat().file("event.txt", "What about this? ".repeat(1000));
    let args = ["--event-file", "event.txt", "--max-tokens", "1000"];
    let run = run_request(&project, &args);
    run.expect_code(2);
    assert!(run.err.contains("(largest: `event` "), "{}", run.err);
}
