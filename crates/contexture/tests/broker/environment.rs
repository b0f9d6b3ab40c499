//! Capabilities: from a file, and from a command that may do anything.

use serde_json::json;

use super::*;

fn with_command(command: &[&str], more: &str) -> Lab {
    project(&settings(command, more), &[])
}

fn settings(command: &[&str], more: &str) -> String {
    format!("[environment]\ncommand = {}\n{more}", json!(command))
}

#[test]
fn the_last_good_answer_of_a_command_is_used() {
    let answer = json!({"capabilities": {"Build": ["make"]}}).to_string();
    let mut lab = with_command(&["printf", "%s", &answer], "");
    let good = ask(&lab, |_| {});
    let environment = "## Environment\n\n### Capabilities\n\nBuild: make (active)\n\n## Runtime";
    assert!(system(&good).starts_with(environment), "{}", system(&good));
    let kept = lab.dir.path().join(".contexture/environment.json");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), answer);
    lab.restart(&settings(&["false"], ""));
    let later = made(&lab, |_| {}).unwrap();
    assert_eq!(
        later.report.warnings,
        ["environment: the command `false` failed: exit status: 1; using its last valid answer"]
    );
    assert_eq!(system(&later.to_json()), system(&good));
}

#[test]
fn a_command_that_does_not_work_is_a_warning() {
    let more = "printed more than 1048576 bytes";
    for (command, limit, why) in [
        (&["false"][..], "", "failed: exit status: 1"),
        (
            &["sh", "-c", "kill -9 $$"],
            "",
            "failed: signal: 9 (SIGKILL)",
        ),
        (
            &["no-such-program"],
            "",
            "cannot be run: No such file or directory (os error 2)",
        ),
        (
            &["sleep", "60"],
            "timeout_ms = 300\n",
            "was stopped: no answer after 300 ms (environment.timeout_ms)",
        ),
        // A command that leaves a child process which holds the pipe.
        (
            &["sh", "-c", "sleep 20 & echo {}"],
            "timeout_ms = 2000\n",
            "did not close its output",
        ),
        (
            &["echo", "ready"],
            "",
            "printed something that is not JSON: expected value at line 1 column 1",
        ),
        (
            &["true"],
            "",
            "printed something that is not JSON: EOF while parsing a value at line 1 column 0",
        ),
        (
            &["printf", "\\377"],
            "",
            "printed something that is not UTF-8",
        ),
        (
            &["echo", "[1]"],
            "",
            "printed JSON that is not a list of capabilities: its answer: must be a mapping with \
             `capabilities`",
        ),
        (
            &["echo", r#"{"capabilities":{"A":7}}"#],
            "",
            "printed JSON that is not a list of capabilities: its answer: capabilities.A: must \
             be names with their state: a map, or a list of `{name, state, note}`",
        ),
        (&["sh", "-c", "head -c 2000000 /dev/zero"], "", more),
        (&["yes"], "", more),
    ] {
        let lab = with_command(command, limit);
        let made = made(&lab, |_| {}).unwrap();
        let told = command.join(" ");
        assert_eq!(
            made.report.warnings,
            [format!(
                "`environment`: the command `{told}` {why}; there is no earlier answer"
            )]
        );
        let request = made.to_json();
        assert!(!system(&request).contains("Environment"));
        assert_eq!(request["report"]["excluded"][0]["id"], "environment");
        assert_eq!(request["report"]["excluded"][0]["code"], "unreadable");
    }
}

#[test]
fn a_file_that_is_malformed() {
    let hint = "hint: write `capabilities: {Category: {name: state}}` and `credentials: \
                {configured: 3, broken: [name]}`";
    let states = "must be names with their state: a map, or a list of `{name, state, note}`";
    let yaml = "capabilities.yml";
    for (file, content, message) in [
        (yaml, "capabilities: [\n", ":1:15: unclosed bracket '['"),
        (yaml, "- a\n", ": must be a mapping with `capabilities`"),
        (yaml, "", ": must be a mapping with `capabilities`"),
        (
            yaml,
            "capabilites: {}\n",
            ": capabilites: unknown field; expected `capabilities` or \
                                     `credentials`",
        ),
        (
            yaml,
            "capabilities: {A: {b: 3}}\n",
            &format!(": capabilities.A: {states}"),
        ),
        (
            yaml,
            "capabilities: [{name: x}]\n",
            &format!(": capabilities[0]: {states}"),
        ),
        (
            yaml,
            "a: &a [x, x]\ncapabilities: *a\n",
            ":1:7: anchors and aliases are not supported; write the value out",
        ),
        (
            yaml,
            "credentials: 3\n",
            ": credentials: must be counts or lists of names",
        ),
        (
            "capabilities.json",
            "{\"capabilities\":",
            ": capabilities: it ends before a value at line 1 column 16",
        ),
    ] {
        let lab = project("", &[(file, content)]);
        assert_eq!(complaint(&lab, |_| {}), format!("{file}{message}\n{hint}"));
    }
    let lab = project("[environment]\nfile = \"nowhere.yml\"\n", &[]);
    let message = "nowhere.yml: file `nowhere.yml` does not exist";
    assert_eq!(complaint(&lab, |_| {}), message);
}
