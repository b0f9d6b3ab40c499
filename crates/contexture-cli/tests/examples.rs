//! The examples that are scripts run to their end.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs the loop and returns its results; `None` without Python.
fn agent_loop(args: &[&str]) -> Option<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/agent-loop/run");
    assert!(Path::new(script).exists());
    let run = Command::new("python3")
        .arg(script)
        .args(args)
        .arg("--json")
        .env("CONTEXTURE", env!("CARGO_BIN_EXE_contexture"))
        .output();
    let output = match run {
        Ok(output) => output,
        // A skipped test looks like a passing one: not where it counts.
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "python3: {error}");
            eprintln!("not run: python3: {error}");
            return None;
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {path}: {value:#}"))
}

/// Returns `text` without the mark in its tags.
fn unmarked(text: &str) -> String {
    let key = contexture::core::guard::MarkKey::from_text("docs");
    let mark = key.marks().next().unwrap();
    text.replace(&format!("-{mark}"), "")
}

#[test]
fn an_agents_loop_is_never_refused_and_its_cost_adds_up() {
    let Some(found) = agent_loop(&["--turns", "30", "--window", "5000"]) else {
        return;
    };
    assert_eq!(number(&found, "/turns"), 30.0);
    assert_eq!(number(&found, "/refused"), 0.0, "{found:#}");
    assert!(number(&found, "/compactions") >= 2.0, "{found:#}");
    assert!(number(&found, "/largest_request") <= 4000.0, "{found:#}");
    assert_eq!(
        number(&found, "/snapshots/checked"),
        number(&found, "/requests")
    );

    // The cost of the session equals the provider's count.
    let provider = |name: &str| number(&found, &format!("/provider/{name}"));
    let (cached, written) = (
        provider("cache_read_input_tokens"),
        provider("cache_creation_input_tokens"),
    );
    let input = provider("input_tokens") + cached + written;
    assert_eq!(number(&found, "/cost/total/input_tokens"), input);
    assert_eq!(number(&found, "/cost/total/cached_input_tokens"), cached);
    assert_eq!(number(&found, "/cost/total/cache_write_tokens"), written);
    assert_eq!(number(&found, "/cost/unreported"), 0.0);
    let share = number(&found, "/cost/cached_share");
    assert!(
        (share - cached / input).abs() < 1e-9 && share > 0.5,
        "{share}"
    );
    let (paid, uncached) = ("/cost/dollars", "/cost/dollars_uncached");
    assert!(number(&found, paid) < number(&found, uncached), "{found:#}");
}

#[test]
fn a_provider_with_a_smaller_window_than_documented_rejects_few_requests() {
    let args = ["--turns", "30", "--window", "8000", "--takes", "4960"];
    let Some(found) = agent_loop(&args) else {
        return;
    };
    assert_eq!(number(&found, "/turns"), 30.0);
    // One overflow makes room for many turns.
    let refused = number(&found, "/refused");
    assert!((1.0..=4.0).contains(&refused), "{found:#}");
    assert_eq!(number(&found, "/compactions"), refused, "{found:#}");
}

#[test]
#[cfg(unix)]
fn looms_give_requests_for_their_places() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/loom/run");
    let output = Command::new(script)
        .env("CONTEXTURE", env!("CARGO_BIN_EXE_contexture"))
        .env("CONTEXTURE_MARK_KEY", "docs")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(told, "");
    let shown = unmarked(&String::from_utf8(output.stdout).unwrap());
    // Every step, identified by text that only it shows.
    for expected in [
        "created tree tides: 16 nodes, 12 edges\n",
        "created tree lighthouse: 4 nodes, 3 edges\n",
        "● wind  human ines 17  [path first-wording]",
        "things from a kitchen?\n</user>",
        "half moon?\n\nAnd would a storm from the west show in it?\n</user>",
        "rise twice?\\n\\n[... 3 nodes cut ...]\\n\\n<context path=\\\"log\\\">",
        " out   cat           user              0       0    0  is excluded",
        "<context path=\"stash spring tides\">",
        "count them every evening. On the first evening\n",
        "  \"prompt\": \"The lamp had been automatic",
    ] {
        assert!(
            shown.contains(expected),
            "nothing shows {expected}:\n{shown}"
        );
    }
    assert!(
        !shown.contains("feed the cat, please.)\n</user>"),
        "{shown}"
    );
}

/// Runs an agent with its own server and returns its results; `None` if its
/// dependencies are not installed.
#[cfg(unix)]
fn agent_over_http(example: &str, needs: &[&str], settings: &[(&str, &str)]) -> Option<Value> {
    for program in needs {
        if let Err(error) = Command::new(program).arg("--version").output() {
            // A skipped test looks like a passing one: not where it counts.
            assert!(std::env::var_os("CI").is_none(), "{program}: {error}");
            eprintln!("not run: {program}: {error}");
            return None;
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = folder.join(example);
    let output = Command::new(folder.join("run"))
        .arg("--json")
        .env("CONTEXTURE", env!("CARGO_BIN_EXE_contexture"))
        .env("CONTEXTURE_MARK_KEY", "docs")
        // The packages are installed once and reused.
        .env(
            "SETUP",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(example),
        )
        // The stand-in answers.
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("OPENAI_API_KEY")
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();

    // The page shows these questions and answers.
    let page = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for turn in found["turns"].as_array().unwrap() {
        let (question, answer) = (turn["question"].as_str(), turn["answer"].as_str());
        let (question, answer) = (question.unwrap(), unmarked(answer.unwrap()));
        let shown = page.lines().any(|line| line.ends_with(question))
            && page.lines().any(|line| line.ends_with(&answer));
        assert!(shown, "{example}/README.md does not show {turn:#}");
    }
    Some(found)
}

/// Checks what both agents promise. That every request was accepted shows in
/// that they came to their end: one that is refused ends them.
#[cfg(unix)]
fn check_agent(found: &Value) {
    let turns = found["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 6, "{found:#}");
    for (i, turn) in turns.iter().enumerate() {
        let (tokens, shared) = (number(turn, "/tokens"), number(turn, "/shared"));
        // The first of a session has nothing to share; the others, more than half.
        let is_first = i == 0 || turns[i - 1]["session"] != turn["session"];
        match is_first {
            true => assert_eq!(shared, 0.0, "{turn:#}"),
            false => assert!(
                shared > tokens / 2.0 && shared < tokens,
                "turn {i}: {turn:#}"
            ),
        }
    }
    // A fact that one session recorded is shown to the other.
    let remembered = &turns[4];
    assert_eq!(number(remembered, "/memories"), 1.0, "{remembered:#}");
    let answer = remembered["answer"].as_str().unwrap();
    let fact = answer.strip_prefix("I remember: ").unwrap();
    assert_eq!(found["recalled"], serde_json::json!([fact]), "{found:#}");
    // Four of six questions need a tool, and another client recorded a message
    // meanwhile: eleven requests. A question and an answer are a turn each, and
    // so are a call and its result.
    assert_eq!(number(found, "/conflicts"), 1.0, "{found:#}");
    assert_eq!(
        found["events"],
        serde_json::json!({"assembled": 11, "turn_recorded": 21})
    );
    let (paid, uncached) = ("/dollars", "/dollars_uncached");
    assert!(number(found, paid) > 0.0, "{found:#}");
    assert!(number(found, paid) < number(found, uncached), "{found:#}");
    assert_eq!(number(found, "/report/left_out"), 0.0, "{found:#}");
}

#[test]
fn an_agents_loop_over_http_has_at_most_fifteen_lines() {
    for (file, start, end) in [
        ("http-python/agent.py", "    def ask(", "\n\n"),
        ("http-typescript/agent.ts", "async function ask(", "\n}\n"),
    ] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let text = std::fs::read_to_string(Path::new(path).join(file)).unwrap();
        let (_, ask) = text.split_once(start).unwrap();
        let (ask, _) = ask.split_once(end).unwrap();
        let lines = ask.lines().count();
        assert!(lines <= 15, "{file}: {lines} lines");
    }
}

#[test]
#[cfg(unix)]
fn an_agent_in_python_runs_over_http() {
    let Some(found) = agent_over_http("http-python", &["python3"], &[]) else {
        return;
    };
    check_agent(&found);
}

#[test]
#[cfg(unix)]
fn an_agent_that_sends_too_much_waits_and_goes_on() {
    let few = [
        ("CONTEXTURE_SERVER_RATE_PER_SECOND", "5"),
        ("CONTEXTURE_SERVER_RATE_BURST", "8"),
    ];
    let Some(found) = agent_over_http("http-python", &["python3"], &few) else {
        return;
    };
    // The number of waits depends on the speed of the machine.
    check_agent(&found);
}

#[test]
#[cfg(unix)]
fn an_agent_in_typescript_runs_over_http() {
    let Some(found) = agent_over_http("http-typescript", &["node", "npm"], &[]) else {
        return;
    };
    check_agent(&found);
}
