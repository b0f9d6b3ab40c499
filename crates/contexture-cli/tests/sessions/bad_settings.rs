//! Settings, and the files that they name: capabilities, tools, personas.

use std::time::{Duration, Instant};

use super::*;

fn with_settings(settings: &str) -> Project {
    let project = chat();
    project.write("contexture.toml", dedent(settings));
    project
}

/// Runs a request whose capabilities come from a command, and returns it with
/// the warnings. With `limit`, the command may take so many milliseconds.
#[track_caller]
fn with_command(command: &[&str], limit: Option<u64>) -> (Project, Value, Vec<String>) {
    let command = json!(command);
    let limit = limit.map_or_else(String::new, |ms| format!("timeout_ms = {ms}\n"));
    let settings = format!("[environment]\ncommand = {command}\n{limit}");
    let project = with_settings(&settings);
    let request = assembled(&project, &[]);
    let warnings = warnings(&request["report"]);
    (project, request, warnings)
}

/// Checks that a command for capabilities that does not work is a warning, and
/// the request has no environment.
#[track_caller]
fn check_command(command: &[&str], why: &str) {
    check_command_within(None, command, why);
}

#[track_caller]
fn check_command_within(limit: Option<u64>, command: &[&str], why: &str) {
    let (_, request, warnings) = with_command(command, limit);
    let told = command.join(" ");
    assert_eq!(
        warnings,
        [format!(
            "`environment`: the command `{told}` {why}; there is no earlier answer"
        )]
    );
    assert!(!text(&request["system_prompt"]).contains("Environment"));
    let row = &request["report"]["excluded"][0];
    assert_eq!(row["id"], "environment");
    assert_eq!(row["code"], "unreadable");
}

#[test]
fn a_capabilities_command_that_fails() {
    check_command(&["false"], "failed: exit status: 1");
    check_command(&["sh", "-c", "kill -9 $$"], "failed: signal: 9 (SIGKILL)");
}

#[test]
fn a_capabilities_command_that_does_not_exist() {
    check_command(
        &["no-such-program"],
        "cannot be run: No such file or directory (os error 2)",
    );
}

#[test]
fn a_capabilities_command_that_hangs() {
    let started = Instant::now();
    check_command_within(
        Some(300),
        &["sleep", "60"],
        "was stopped: no answer after 300 ms (environment.timeout_ms)",
    );
    // One that leaves somebody behind who holds the pipe.
    check_command_within(
        Some(2000),
        &["sh", "-c", "sleep 20 & echo {}"],
        "did not close its output",
    );
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_capabilities_command_that_prints_junk() {
    check_command(
        &["echo", "ready"],
        "printed something that is not JSON: expected value at line 1 column 1",
    );
    check_command(
        &["true"],
        "printed something that is not JSON: EOF while parsing a value at line 1 column 0",
    );
    check_command(&["printf", "\\377"], "printed something that is not UTF-8");
    check_command(
        &["echo", "[1]"],
        "printed something else than capabilities: its answer: must be a mapping with \
         `capabilities`",
    );
    check_command(
        &["echo", r#"{"capabilities":{"A":7}}"#],
        "printed something else than capabilities: its answer: capabilities.A: must be names with \
         their state: a map, or a list of `{name, state, note}`",
    );
}

#[test]
fn a_capabilities_command_that_prints_too_much() {
    let more = "printed more than 1048576 bytes";
    check_command(&["sh", "-c", "head -c 2000000 /dev/zero"], more);
    check_command(&["yes"], more);
}

#[test]
fn the_last_good_answer_of_a_command_is_used() {
    let answer = r#"{"capabilities":{"Build":["make"]}}"#;
    let (project, good, warned) = with_command(&["echo", answer], None);
    assert_eq!(warned, [""; 0]);
    project.write("contexture.toml", "[environment]\ncommand = [\"false\"]\n");
    let run = run_request(&project, &["--format", "json"]);
    run.expect_code(0);
    run.says(
        "warning: environment: the command `false` failed: exit status: 1; its last good answer \
         is used",
    );
    assert_eq!(parsed(&run.out)["system_prompt"], good["system_prompt"]);
}

#[test]
fn a_capabilities_file_that_is_malformed() {
    let hint = "hint: capabilities are `capabilities: {Category: {name: state}}` and \
                `credentials: {configured: 3, broken: [name]}`";
    let check = |file: &str, content: &str, message: &str| {
        let message = format!("error: {file}: {message}\n{hint}\n");
        refuses_request(&chat().file(file, content), &[], &message);
    };
    let states = "must be names with their state: a map, or a list of `{name, state, note}`";
    let yaml = "capabilities.yml";
    check(
        yaml,
        "capabilities: [\n",
        "unclosed bracket '[' at line 1, column 15",
    );
    check(yaml, "- a\n", "must be a mapping with `capabilities`");
    check(yaml, "", "must be a mapping with `capabilities`");
    check(yaml, "capabilites: {}\n", "capabilites: is not known here");
    check(
        yaml,
        "capabilities: {A: {b: 3}}\n",
        &format!("capabilities.A: {states}"),
    );
    check(
        yaml,
        "capabilities: [{name: x}]\n",
        &format!("capabilities[0]: {states}"),
    );
    let many: String = (b'b'..=b'h')
        .map(|name| (char::from(name), char::from(name - 1)))
        .map(|(name, before)| {
            format!(
                "{name}: &{name} [{}]\n",
                vec![format!("*{before}"); 9].join(",")
            )
        })
        .collect();
    check(
        yaml,
        &format!("a: &a [x, x, x, x, x, x, x, x, x]\n{many}"),
        "has too many values; do aliases multiply them?",
    );
    check(
        yaml,
        "credentials: 3\n",
        "credentials: must be counts or lists of names",
    );
    check(
        "capabilities.json",
        "{\"capabilities\":",
        "capabilities: it ends where a value should be at line 1 column 16",
    );
    refuses_request(
        &with_settings("[environment]\nfile = \"nowhere.yml\"\n"),
        &[],
        "error: nowhere.yml: there is no file `nowhere.yml`\n",
    );
}

#[test]
fn a_tools_file_that_is_malformed() {
    let check = |content: &str, message: &str| {
        let message = format!("error: tools.json: {message}\n");
        refuses_request(&chat().file("tools.json", content), &[], &message);
    };
    check("[", "it ends inside a list at line 1 column 1");
    check(
        "{}",
        "must be a list of tools\nhint: a tool is `{\"name\":…,\"description\":…,\"parameters\":{…}}`",
    );
    check("[{}]", "[0].name: is missing");
    check("[{\"name\":\" \"}]", "[0].name: is missing");
    check(
        "[{\"name\":\"a\",\"parameters\":3}]",
        "[0].parameters: must be a JSON schema of type object",
    );
    check(
        "[{\"name\":\"a\",\"description\":3}]",
        "[0].description: must be text",
    );
    check(
        "[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"a\"}]",
        "[2].name: there are two tools named `a`",
    );
    refuses_request(
        &chat().file("tools.yml", "a: [\n"),
        &[],
        "error: tools.yml: unclosed bracket '[' at line 1, column 4\n",
    );
}

#[test]
fn a_tool_whose_name_a_provider_refuses() {
    let project = chat().file("tools.json", "[{\"name\":\"read file\"}]");
    let args = ["--format", "anthropic", "--model", "claude-sonnet-4"];
    let run = run_request(&project, &args);
    run.expect_code(2);
    assert_eq!(run.out, "");
    run.says(
        "error: the provider does not take `read file` as the name of a tool: rename it to 1 to \
         64 letters, digits, _ or - (anthropic.tool_name)",
    );
}

#[test]
fn toolsets_that_are_none() {
    let hint = "hint: toolsets are lists of names under [toolsets] in contexture.toml";
    let project = chat().file("tools.json", "[{\"name\":\"shell\"}]");
    refuses_request(
        &project,
        &["--toolset", "small"],
        &format!("error: unknown toolset `small` (there is none)\n{hint}\n"),
    );
    project.write(
        "contexture.toml",
        "[toolsets]\nsmall = [\"shell\", \"shel\"]\n",
    );
    refuses_request(
        &project,
        &["--toolset", "smal"],
        &format!("error: unknown toolset `smal`; did you mean `small`? (one of small)\n{hint}\n"),
    );
    refuses_request(
        &project,
        &["--toolset", "small"],
        "error: toolsets.small: unknown tool `shel`; did you mean `shell`? (one of shell)\n",
    );
}

#[test]
fn personas_that_are_none() {
    let project = chat();
    let check = |name: &str, message: &str| {
        let settings = format!("[persona]\nname = {}\n", json!(name));
        project.write("contexture.toml", settings);
        refuses_request(&project, &[], &format!("error: {message}\n"));
        project.write("contexture.toml", "");
        // A session keeps its persona: it is refused before it is made.
        let args = ["session", "new", "other", "--persona", name];
        project.refuses(&args, 2, &format!("error: {message}\n"));
    };
    check(
        "ana",
        "there is no persona `ana`: personas/ana is no directory\n\
         hint: make it, with SOUL.md and IDENTITY.md, or set persona.dir in contexture.toml",
    );
    check("../ana", "`../ana` is no name of a persona");
    check("..", "`..` is no name of a persona");
    check("/etc", "`/etc` is no name of a persona");
    check("a/b", "`a/b` is no name of a persona");
    assert_eq!(labels(&project), ["chat"]);
}

#[test]
fn permissions_that_are_malformed() {
    let hint = "hint: permissions are two lists of names: `allow` and `deny`";
    let check = |content: &str, message: &str| {
        let path = "persona/permissions.yml";
        let message = format!("error: {path}: {message}\n{hint}\n");
        refuses_request(&chat().file(path, content), &[], &message);
    };
    check("allow: [\n", "unclosed bracket '[' at line 1, column 8");
    check(
        "alow: [a]\n",
        "unknown field `alow`, expected one of allow, deny at line 1, column 1",
    );
}

#[test]
fn compaction_out_of_range() {
    let check = |setting: &str, message: &str| {
        let settings = format!("[compaction]\n{setting}\n");
        let project = with_settings(&settings);
        let message = format!("error: contexture.toml: compaction.{message}\n");
        project.refuses(&["session", "list"], 2, &message);
        refuses_request(&project, &[], &message);
    };
    let percent = "must be percent, from 1 to 100";
    check("threshold = 0", &format!("threshold: {percent}"));
    check("threshold = 120", &format!("threshold: {percent}"));
    check("threshold = nan", &format!("threshold: {percent}"));
    check(
        "overflow_target = -3",
        &format!("overflow_target: {percent}"),
    );
    check("summary = 0.5", &format!("summary: {percent}"));
    check(
        "target = 90",
        "target: must be at most compaction.threshold",
    );
}

#[test]
fn a_summariser_without_its_key_falls_back_with_a_warning() {
    let project = long_chat(6);
    project.write(
        "contexture.toml",
        dedent(
            "
            [summariser]
            kind = \"openai\"
            model = \"gpt-4o-mini\"
            api_key_env = \"CONTEXTURE_TEST_KEY_THAT_IS_NOT_SET\"
            ",
        ),
    );
    let run = project.run(&["session", "compact", "chat"]);
    run.expect_code(0);
    assert_eq!(
        run.err,
        "warning: the summariser's key is not there: the environment variable \
         CONTEXTURE_TEST_KEY_THAT_IS_NOT_SET is not set; sentences are taken out instead\n"
    );
    assert!(run.out.contains("(extractive)"), "{}", run.out);
}

#[test]
fn a_summariser_that_is_none() {
    with_settings("[summariser]\nkind = \"openai\"\n").refuses(
        &["session", "list"],
        2,
        "error: contexture.toml: summariser.model: must be given with this kind\n",
    );
    with_settings("[summariser]\nkind = \"gpt\"\n").refuses(
        &["session", "list"],
        2,
        "
        error: contexture.toml:2:8: unknown value `gpt`, expected one of `extractive`, `openai`, `anthropic`
        hint: `contexture doctor` prints the settings that exist and their defaults
        ",
    );
}
