//! A tool result over the limit is shortened, the same way in every request.

use crate::support::counting::Counting;
use crate::support::*;
use contexture::core::{Code, Usage};
use contexture::store::Handle;
use contexture::turn::{MessageContent, MessageRole, NewTurn};
use contexture::{Assembled, Cause, FetchRequest, Format, Request};

const PLAIN: &str = "[compaction]\nenabled = false";

/// Without clearing: the results are the same.
const KEPT: &str = "[compaction]\nenabled = false\n[tool_results]\nclear_stale = false";

/// A log with one line that matters.
fn log(lines: usize) -> String {
    let mut log: Vec<String> = (0..lines)
        .map(|i| {
            format!(
                "2026-03-01T10:00:00Z INFO [worker-{}] chunk {i} handed out",
                i % 7
            )
        })
        .collect();
    log[lines / 2] = "2026-03-01T10:48:20Z ERROR OutOfMemoryError in src/pool/arena.c:417".into();
    log.join("\n")
}

fn step(result_of_call: &str) -> NewTurn {
    turn([
        user("Run it."),
        calls(["c1"]),
        result("c1", result_of_call),
        says("It ran."),
    ])
}

/// Returns the text of the tool results in a request.
fn shown(assembled: &Assembled) -> String {
    let results = assembled.layout.history.iter();
    let results = results.filter(|block| block.role == contexture::core::Role::Tool);
    let texts: Vec<String> = results.map(|block| block.text().to_owned()).collect();
    texts.join("\n---\n")
}

/// The conversation of the request itself, with a result in each of its forms.
#[test]
fn results_of_given_messages_are_shortened_in_every_form() {
    let lab = Lab::new(PLAIN);
    let log = log(14_000);
    let mut in_blocks = result("c1", "");
    in_blocks.content = MessageContent::Blocks(vec![text(&log)]);
    let of_tool = blocks(MessageRole::Tool, [result_block("c1", &log)]);
    for form in [result("c1", &log), in_blocks, of_tool] {
        let request = Request {
            messages: vec![user("Run it."), calls(["c1"]), form],
            max_tokens: Some(8_000),
            ..Request::default()
        };
        let assembled = lab.engine.assemble(&lab.root, &request).unwrap();
        let text = shown(&assembled);
        assert!(text.contains("ERROR OutOfMemoryError"), "{text}");
        let row = assembled.report.included.iter().find(|row| row.truncated);
        assert_eq!(row.unwrap().code, Code::TOKEN_LIMIT);
    }
}

#[test]
fn the_one_error_of_a_long_log_is_sent() {
    let lab = Lab::new(PLAIN);
    let log = log(14_000);
    lab.talk("s", &[step(&log)]);
    for window in [8_000, 32_000] {
        let assembled = lab.assemble("s", window);
        let text = shown(&assembled);
        assert!(text.contains("ERROR OutOfMemoryError in src/pool/arena.c:417"));
        let handle = Handle::of(&log).short();
        assert!(text.contains(&format!("; fetch {handle} for the rest ...]")));
        let row = assembled.report.included.iter().find(|row| row.truncated);
        let row = row.unwrap();
        assert_eq!(row.code, Code::TOKEN_LIMIT);
        let limit = (window / 8).max(2_000);
        assert!(row.tokens <= limit + 64, "{} of {limit}", row.tokens);
        assert!(row.original_tokens > 300_000 && row.original_estimated);
        let lines = row.lines_cut.unwrap();
        assert!(lines.first < 200 && lines.last > 13_000, "{lines}");
        let expected = format!("cut to max_tokens {}", contexture::core::grouped(limit));
        assert_eq!(row.reason.to_string(), expected);
    }
}

#[test]
fn the_bytes_are_the_same_from_request_to_request() {
    let lab = Lab::new(PLAIN);
    lab.talk("s", &[step(&log(3_000)), step("short")]);
    let before = lab.assemble("s", 16_000);
    lab.record("s", &step(&log(2_000)));
    let after = lab.assemble("s", 16_000);
    let text = |assembled: &Assembled| assembled.render(Format::Anthropic).unwrap().to_string();
    assert!(shown(&after).starts_with(&shown(&before)));
    // Another process makes the same of it, and the counts agree.
    let other = lab.another(PLAIN);
    let again = other.assemble(&lab.root, &request("s", 16_000)).unwrap();
    assert_eq!(text(&again), text(&after));
    assert_eq!(again.report.budget.used, after.report.budget.used);
}

/// A cut that moved with every calibration would lose the provider's cache.
#[test]
fn the_bytes_are_the_same_after_a_calibration() {
    let models = "[models.low]\nwindow = 50000\nfactor = 1.0\n\
        [models.exact]\nwindow = 50000\ntokenizer = \"o200k_base\"\n";
    for model in ["low", "exact"] {
        let lab = Lab::new(&format!("{models}{PLAIN}"));
        let ask = || {
            let request = Request {
                model: Some(model.to_owned()),
                ..request("s", 50_000)
            };
            lab.engine.assemble(&lab.root, &request).unwrap()
        };
        lab.talk("s", &[step(&log(3_000)), step("short")]);
        let before = ask();
        assert!(before.report.included.iter().any(|row| row.truncated));
        // The provider counts more than was assumed.
        let usage = Usage {
            input_tokens: before.report.budget.used * 3 / 2,
            output_tokens: 50,
            ..Usage::default()
        };
        let answer = NewTurn {
            model: Some(model.to_owned()),
            usage: Some(usage),
            ..exchange("And now?", "Now it works.")
        };
        lab.record("s", &answer);
        let after = ask();
        match model {
            "low" => assert_ne!(before.report.tokenizer.name, after.report.tokenizer.name),
            _ => assert!(after.report.budget.available < before.report.budget.available),
        }
        assert_eq!(shown(&before), shown(&after), "{model}");
        assert!(after.report.budget.used <= after.report.budget.available);
    }
}

#[test]
fn a_window_walks_as_far_as_its_own_limit_allows() {
    let (lab, store) = Lab::counting(KEPT);
    // In a window of 32,000 each is 4,000 tokens long; they are counted as 20,000.
    let turns: Vec<NewTurn> = (0..9).map(|_| step(&log(2_000))).collect();
    lab.talk("s", &turns);
    Counting::take(&store.counts_put);
    let assembled = lab.assemble("s", 32_000);
    let results = shown(&assembled).matches("ERROR OutOfMemoryError").count();
    assert!(results >= 6, "{results} results");
    assert_eq!(
        Counting::take(&store.counts_put),
        0,
        "they were counted before"
    );
    // A larger window uses the counts that are stored.
    let assembled = lab.assemble("s", 400_000);
    assert_eq!(
        shown(&assembled).matches("ERROR OutOfMemoryError").count(),
        9
    );
    assert_eq!(Counting::take(&store.counts_put), 0);
}

#[test]
fn the_settings_say_how_long_a_result_may_be() {
    let lab = Lab::new(PLAIN);
    lab.talk("s", &[step(&log(200))]);
    let of = |settings: &str| {
        let engine = lab.another(&format!("{PLAIN}\n[tool_results]\n{settings}"));
        let assembled = engine.assemble(&lab.root, &request("s", 64_000)).unwrap();
        let tokens = assembled.report.included.iter().map(|row| row.tokens).max();
        tokens.unwrap()
    };
    let whole = of("max_tokens = false");
    assert!(whole > 4_000);
    assert_eq!(of("max_tokens = 0"), whole);
    assert_eq!(of(""), whole);
    assert!(of("max_tokens = 600") < 700);
}

#[test]
fn a_result_that_still_does_not_fit_is_cut_with_its_handle() {
    let lab = Lab::new("[compaction]\nenabled = false\n[tool_results]\nmax_tokens = 0");
    let log = log(1_000);
    lab.talk("s", &[step(&log)]);
    let assembled = lab.assemble("s", 3_000);
    let handle = Handle::of(&log).short();
    assert!(
        shown(&assembled).contains(&format!("tokens; fetch {handle} for the rest ...]")),
        "{}",
        shown(&assembled)
    );
}

#[test]
fn secrets_in_a_shortened_result_are_masked_and_reported() {
    let lab = Lab::new(PLAIN);
    let secret = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW2xY4";
    let log = format!("{}\nERROR token = \"{secret}\" was rejected", log(8_000));
    lab.talk("s", &[step(&log)]);
    let assembled = lab.assemble("s", 16_000);
    let text = shown(&assembled);
    assert!(!text.contains(secret) && text.contains("[secret masked: "));
    assert_eq!(assembled.report.guard.len(), 1);
}

fn lines(lines: &str) -> FetchRequest {
    FetchRequest {
        lines: Some(lines.to_owned()),
        ..FetchRequest::default()
    }
}

#[test]
fn cut_content_is_fetched_by_the_handle_in_the_marker() {
    let lab = Lab::new(PLAIN);
    let log = log(14_000);
    lab.talk("s", &[step(&log)]);
    let text = shown(&lab.assemble("s", 32_000));
    let marker = text.lines().find(|line| line.starts_with("[... ")).unwrap();
    let handle = marker.split("fetch ").nth(1).unwrap();
    let handle = handle.split(' ').next().unwrap();
    let all: Vec<&str> = log.lines().collect();
    let part = lab.engine.fetch(handle, &lines("7000-7002")).unwrap();
    assert_eq!(part.text, all[6_999..7_002].join("\n"));
    assert_eq!(part.handle, Handle::of(&log).to_string());
    assert_eq!((part.total_lines, part.next_lines), (14_000, None));
    let found = FetchRequest {
        grep: Some("OutOfMemory".to_owned()),
        ..FetchRequest::default()
    };
    let found = lab
        .engine
        .fetch(&handle["sha256:".len()..], &found)
        .unwrap();
    assert_eq!(found.text, format!("7001: {}", all[7_000]));
    assert_eq!(found.matches, Some(1));
    // Without a selection, the parts together are the whole.
    let (mut whole, mut next) = (Vec::new(), FetchRequest::default());
    loop {
        let part = lab.engine.fetch(handle, &next).unwrap();
        assert!(part.text.len() <= 32_768);
        whole.push(part.text);
        match part.next_lines {
            Some(from) => next = lines(&from),
            None => break,
        }
    }
    assert_eq!(whole.join("\n"), log);
}

#[test]
fn json_is_fetched_by_expression_and_secrets_stay_masked() {
    let lab = Lab::new(PLAIN);
    let secret = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW2xY4";
    let body = serde_json::json!({
        "exit_code": 1,
        "token": secret,
        "stdout": format!("{}\npassword = {secret}", log(300)),
    });
    let body = body.to_string();
    lab.talk("s", &[step(&body)]);
    let handle = Handle::of(&body).to_string();
    let query = |jq: &str, grep: Option<&str>| {
        let request = FetchRequest {
            jq: Some(jq.to_owned()),
            grep: grep.map(str::to_owned),
            ..FetchRequest::default()
        };
        lab.engine.fetch(&handle, &request).unwrap().text
    };
    assert_eq!(query(".exit_code", None), "1");
    assert!(query(".stdout", Some("ERROR")).starts_with("151: "));
    for text in [
        query(".token", None),
        query(".stdout", Some("password")),
        query(".", None),
    ] {
        assert!(
            !text.contains(secret) && text.contains("[secret masked: "),
            "{text}"
        );
    }
    let whole = lab.engine.fetch(&handle, &FetchRequest::default()).unwrap();
    assert!(!whole.text.contains(secret));
}

#[test]
fn wrong_handles_and_selections_are_errors() {
    let lab = Lab::new(PLAIN);
    let log = log(300);
    lab.talk("s", &[step(&log)]);
    let handle = Handle::of(&log).short();
    let unknown = Handle::of("something else").short();
    let of = |lines: &str, grep: &str, jq: &str| FetchRequest {
        lines: Some(lines.to_owned()).filter(|text| !text.is_empty()),
        grep: Some(grep.to_owned()).filter(|text| !text.is_empty()),
        jq: Some(jq.to_owned()).filter(|text| !text.is_empty()),
        max_bytes: None,
    };
    for (handle, request, cause, told) in [
        (
            &*unknown,
            of("", "", ""),
            Cause::Missing,
            "there is no tool result `sha256:",
        ),
        (
            "sha256:12",
            of("", "", ""),
            Cause::Input,
            "handle: `sha256:12` is not a handle",
        ),
        ("../../etc", of("", "", ""), Cause::Input, "is not a handle"),
        (
            &handle,
            of("301-400", "", ""),
            Cause::Input,
            "lines: line 301 does not exist",
        ),
        (
            &handle,
            of("9-1", "", ""),
            Cause::Input,
            "lines: `9-1` is not a range",
        ),
        (
            &handle,
            of("", "(", ""),
            Cause::Input,
            "grep: `(` is not a regular expression",
        ),
        (
            &handle,
            of("", "", ".a"),
            Cause::Input,
            "jq: the tool result is not JSON",
        ),
    ] {
        let error = lab.engine.fetch(handle, &request).unwrap_err();
        assert_eq!(error.cause(), cause, "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

/// A handle of a session that was deleted is unknown, unless a fork still has
/// the turn.
#[test]
fn a_handle_is_gone_with_the_last_session_that_has_it() {
    let lab = Lab::new(PLAIN);
    let log = log(300);
    lab.talk("s", &[step(&log)]);
    let handle = Handle::of(&log).short();
    let fetch = || lab.engine.fetch(&handle, &FetchRequest::default());
    lab.engine.fork("s", "copy", None, None).unwrap();
    lab.store.delete_session("s").unwrap();
    fetch().unwrap();
    lab.store.delete_session("copy").unwrap();
    lab.store.collect(&Default::default(), false).unwrap();
    let error = fetch().unwrap_err();
    assert_eq!(error.cause(), Cause::Missing, "{error}");
    assert!(
        error.to_string().contains("there is no tool result"),
        "{error}"
    );
}
