//! Summaries by a language model, over a real connection: its input, and its
//! failures.

use crate::support::server::{Reply, Server, anthropic, openai};
use crate::support::*;
use contexture::CompactRequest;
use contexture::compaction::Compacted;
use contexture::store::Trigger;

const KEY: &str = "sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW";

const ANSWER: &str = "- The user wants port 7443.\n- The build failed once with E0308.";

fn config(kind: &str, server: &Server, more: &str) -> String {
    format!(
        "[models.scribe]\nwindow = 30000\ntokenizer = \"o200k_base\"\n\
         [summariser]\nkind = \"{kind}\"\nmodel = \"scribe\"\nbase_url = \"{}\"\n\
         attempts = 2\nback_off_ms = 1\n{more}\n",
        server.url()
    )
}

/// An answer that ended for another reason than that it was complete.
fn stopped(reason: &str) -> Reply {
    let choice = serde_json::json!({
        "message": {"role": "assistant", "content": ANSWER}, "finish_reason": reason,
    });
    Reply::Json(200, serde_json::json!({"choices": [choice]}))
}

fn talk(lab: &Lab) {
    lab.session("s");
    lab.record("s", &exchange("We use port 7443.", "Port 7443 it is."));
    let secret = format!("The key is api_key = \"{KEY}\", keep it.");
    lab.record("s", &exchange(&secret, "I will."));
    lab.record(
        "s",
        &turn([
            user("Build it."),
            calls(["c1"]),
            result("c1", "error[E0308]: mismatched types"),
            says("It failed."),
        ]),
    );
    for turn in &chat(8, 60) {
        lab.record("s", turn);
    }
}

fn compact(lab: &Lab, focus: Option<&str>) -> Compacted {
    let request = CompactRequest {
        focus: focus.map(str::to_owned),
        max_tokens: Some(20_000),
        now: Some(lab.tick()),
        ..CompactRequest::default()
    };
    lab.engine
        .compact("s", &request)
        .unwrap()
        .compacted()
        .unwrap()
}

#[test]
fn the_summariser_gets_everything_but_secrets() {
    for (kind, reply) in [
        ("openai", openai as fn(&str) -> Reply),
        ("anthropic", anthropic),
    ] {
        let server = Server::start(vec![reply(ANSWER), reply("- Later: port 7443 stays.")]);
        let lab = Lab::new(&config(kind, &server, ""));
        talk(&lab);
        let focus = format!("the ports, not password = \"{KEY}\"");
        let first = compact(&lab, Some(&focus));
        assert_eq!(first.summariser, "scribe");
        // The user's words and what failed are added to the model's.
        for part in [
            ANSWER,
            "We use port 7443.",
            "error[E0308]: mismatched types",
        ] {
            assert!(first.summary.contains(part), "{part}: {}", first.summary);
        }
        assert!(!first.summary.contains(KEY));
        assert_eq!(first.warnings, Vec::<String>::new());
        let asked = server.asked().remove(0);
        for told in [
            "We use port 7443.",
            "mismatched types",
            "agent calls shell",
            "the ports",
            "Question 2?",
        ] {
            assert!(asked.contains(told), "{told}: {asked}");
        }
        assert!(!asked.contains(KEY), "{asked}");
        assert!(
            !asked.contains("Question 7?"),
            "what is kept is not summarised"
        );

        // The next call has the earlier summary, and the cost is stored.
        for turn in &chat(6, 60) {
            lab.record("s", turn);
        }
        let second = compact(&lab, None);
        assert!(second.summary.contains("- Later: port 7443 stays."));
        let asked = server.asked().remove(1);
        assert!(asked.contains("earlier summary") && asked.contains("The user wants port 7443."));
        assert!(
            !asked.contains("agent calls shell"),
            "it was summarised before"
        );
        let cost = lab.engine.cost("s").unwrap();
        assert_eq!(
            cost.turns
                .iter()
                .filter(|turn| turn.kind == "compaction")
                .count(),
            2
        );
        assert_eq!(cost.total.input_tokens, 2_000);
        let stored = lab.engine.history("s", usize::MAX).unwrap();
        let focus = stored
            .iter()
            .find_map(|turn| turn.compaction.as_ref()?.focus.clone());
        assert!(!focus.unwrap().contains(KEY));
    }
}

#[test]
fn the_system_prompt_is_shown_when_the_budget_asks_for_a_summary() {
    let server = Server::start(vec![openai(ANSWER)]);
    let lab = Lab::new(&config("openai", &server, ""));
    talk(&lab);
    let used = lab.assemble("s", 100_000).report.budget.used;
    let assembled = lab.assemble("s", used);
    let compacted = assembled.compacted().unwrap();
    assert_eq!(compacted.trigger, Trigger::ContextLimit);
    assert!(compacted.summary.contains(ANSWER), "{}", compacted.summary);
    assert!(server.asked()[0].contains("Answer briefly."));
    check(&assembled).unwrap();
}

#[test]
fn a_failure_is_tried_again() {
    let failed = Reply::Json(500, serde_json::json!({"error": {"message": "overloaded"}}));
    let server = Server::start(vec![failed, openai(ANSWER)]);
    let lab = Lab::new(&config("openai", &server, ""));
    talk(&lab);
    assert_eq!(compact(&lab, None).summariser, "scribe");
    assert_eq!(server.asked().len(), 2);
}

/// Whatever the server does, there is a summary, and a warning names the
/// summariser.
#[test]
fn without_an_answer_the_extractive_summariser_is_used() {
    let refused = serde_json::json!({"error": {"message": "invalid key"}});
    let longer = prose(1, 20_000);
    let cases = [
        ("401", Reply::Json(401, refused), "failed"),
        ("junk", Reply::Junk("<html>busy</html>"), "failed"),
        ("empty", openai("  \n"), ""),
        ("nothing", Reply::Json(200, serde_json::json!({})), "failed"),
        ("longer", openai(&longer), "was rejected"),
        ("slow", Reply::Silent, "failed"),
        (
            "refusal",
            openai("I'm sorry, but I can't help with that."),
            "is a refusal",
        ),
        ("cut off", stopped("length"), "stopped with `length`"),
        ("too short", openai("Fine."), "were expected"),
    ];
    for (name, reply, told) in cases {
        let server = Server::start(vec![reply]);
        let lab = Lab::new(&config("openai", &server, "deadline_ms = 400"));
        talk(&lab);
        let compacted = compact(&lab, None);
        assert_eq!(compacted.summariser, "extractive", "{name}");
        assert!(
            !compacted.summary.is_empty() && !compacted.summary.contains(KEY),
            "{name}"
        );
        let [warning] = &compacted.warnings[..] else {
            panic!("{name}: {:?}", compacted.warnings);
        };
        assert!(
            warning.message.contains(told) && warning.message.contains("scribe"),
            "{name}: {warning}"
        );
        check(&lab.assemble("s", 20_000)).unwrap();
    }
}

#[test]
fn a_key_that_is_not_there_is_a_warning_too() {
    let server = Server::start(vec![openai(ANSWER)]);
    let lab = Lab::new(&config(
        "openai",
        &server,
        "api_key_env = \"CONTEXTURE_TEST_NO_SUCH_KEY\"",
    ));
    talk(&lab);
    let compacted = compact(&lab, None);
    assert_eq!(compacted.summariser, "extractive");
    assert!(
        compacted.warnings[0]
            .message
            .contains("CONTEXTURE_TEST_NO_SUCH_KEY")
    );
    assert!(server.asked().is_empty());
}

/// The conversation is longer than the model takes: it is read in parts, each
/// with the summary of those before it.
#[test]
fn a_long_conversation_is_folded() {
    let replies = (1..=40).map(|i| openai(&format!("- Part {i} is told. {}", prose(i, 150))));
    let server = Server::start(replies.collect());
    let window = 3_000;
    let small = config("openai", &server, "").replace("30000", &window.to_string());
    let lab = Lab::new(&small);
    // A system prompt that is larger than the model takes.
    lab.write(
        "AGENTS.md",
        &format!("Answer briefly. {}\n", prose(5, 4_000)),
    );
    lab.session("s");
    for turn in &chat(30, 300) {
        lab.record("s", turn);
    }
    lab.record("s", &exchange(&prose(77, 5_000), "That is long."));
    for turn in &chat(3, 300) {
        lab.record("s", turn);
    }
    let used = lab.assemble("s", 100_000).report.budget.used;
    let assembled = lab.assemble("s", used * 10 / 11);
    let compacted = assembled.compacted().unwrap().clone();
    let asked = server.asked();
    assert!(asked.len() >= 3, "{} calls", asked.len());
    let last = format!("- Part {} is told.", asked.len());
    assert!(compacted.summary.contains(&last), "{}", compacted.summary);
    for (i, body) in asked.iter().enumerate() {
        let tokens = bpe_openai::o200k_base().count(body.as_str());
        assert!(tokens <= window, "call {i} has {tokens} tokens");
        if i > 0 {
            assert!(body.contains(&format!("Part {i} is told.")), "{body}");
        }
    }
    // Nothing in between is left out.
    let all = asked.concat();
    for i in 0..compacted.turns.min(30) {
        assert!(all.contains(&format!("Question {i}?")), "{i}");
    }
}
