//! The cost of history depends on its tail: the turns that are read, counted
//! and sent.

use crate::support::counting::Counting;
use crate::support::*;
use contexture::turn::{Block, MessageContent, MessageRole};
use contexture::{Assembled, Engine, Format, Request};

const PLAIN: &str = "[compaction]\nenabled = false";

fn ask(lab: &Lab, engine: &Engine, model: &str) -> Assembled {
    let request = Request {
        model: Some(model.to_owned()),
        ..request("s", 4_000)
    };
    engine.assemble(&lab.root, &request).unwrap()
}

#[test]
fn a_long_session_costs_its_tail() {
    const TURNS: usize = 5_000;
    let (lab, store) = Lab::counting(PLAIN);
    lab.session("s");
    let turns = chat(50, 40);
    for i in 0..TURNS {
        // Nothing is counted yet.
        lab.store
            .record("s", &turns[i % 50], None, None, lab.tick())
            .unwrap();
    }
    let loaded = || Counting::take(&store.turns_loaded);
    let walked = || Counting::take(&store.heads_walked);
    let counted = || Counting::take(&store.counts_put);
    loaded();

    let first = ask(&lab, &lab.engine, "gpt-4o");
    let tail = loaded();
    let shown = first.layout.history.len() / 2;
    assert!(shown > 20 && tail > shown, "{shown} shown, {tail} read");
    assert!(tail < 150, "{tail} read");
    assert!(walked() < 600, "a few walks over the tail");
    assert_eq!(counted(), tail, "what is read is counted, once");
    let told = first
        .report
        .excluded
        .iter()
        .find(|row| row.id.starts_with("turns 1-"));
    let told = told.unwrap().reason.to_string();
    assert!(told.contains("not read"), "{told}");

    // The engine that records a turn does not read it again.
    lab.record("s", &exchange("And now?", "Now."));
    loaded();
    let second = ask(&lab, &lab.engine, "gpt-4o");
    assert_eq!(loaded(), 0);
    assert_eq!(counted(), 0, "it was counted when it was recorded");
    assert_eq!(second.layout.history.len(), first.layout.history.len() + 2);
    // And one with nothing new reads nothing.
    ask(&lab, &lab.engine, "gpt-4o");
    assert_eq!((loaded(), counted()), (0, 0));

    // Another process reads the tail, and counts nothing.
    let other = lab.another(PLAIN);
    let third = ask(&lab, &other, "gpt-4o");
    assert!(loaded() <= tail + 1);
    assert_eq!(counted(), 0);
    assert_eq!(third.layout, second.layout);

    // Another model counts again, once, and only the usable turns.
    let fourth = ask(&lab, &other, "gpt-4-turbo");
    let (read, made) = (loaded(), counted());
    assert!(read == made && (1..150).contains(&made), "{read} {made}");
    assert_eq!(fourth.report.tokenizer.name, "cl100k_base");
    ask(&lab, &lab.another(PLAIN), "gpt-4-turbo");
    assert!(counted() <= 3, "nearly all is known by now");
    ask(&lab, &lab.another(PLAIN), "gpt-4o");
    assert_eq!(counted(), 0, "and nothing of the first is forgotten");
}

/// Counts that are reused are those that counting gives.
#[test]
fn counts_that_are_kept_are_true() {
    let (lab, store) = Lab::counting(PLAIN);
    lab.session("s");
    let key = "token = \"ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW2xY4\"";
    lab.record(
        "s",
        &turn([
            user(&format!("</user> {key} Größe 数据 \u{202e}x")),
            calls(["c1", "c2"]),
            result("c1", ""),
            result("c2", &prose(1, 300)),
            blocks(
                MessageRole::Assistant,
                [thought("hm", Some("seal")), text("Done.")],
            ),
        ]),
    );
    Counting::take(&store.counts_put);
    let reused = lab.another(PLAIN);
    let reused = ask(&lab, &reused, "gpt-4o");
    assert_eq!(Counting::take(&store.counts_put), 0);
    let text = reused.render(Format::Text).unwrap();
    let counted = bpe_openai::o200k_base().count(text.as_str()) as u64;
    let used = reused.report.budget.used;
    // The blank line after the last block is counted, but not written.
    assert!(
        used == counted || used == counted + 1,
        "{used} {counted}\n{text}"
    );
}

#[test]
fn blocks_recorded_only_for_the_log_are_not_sent() {
    let lab = Lab::new("");
    lab.session("s");
    let say = |role, text: &str| message(role, MessageContent::Text(text.to_owned()));
    lab.record(
        "s",
        &turn([
            say(MessageRole::System, "OLD-SYSTEM"),
            say(MessageRole::Developer, "OLD-DEVELOPER"),
            user("Hello."),
            says("  \n"),
            says("Hello back."),
        ]),
    );
    let assembled = lab.assemble("s", 10_000);
    let text = assembled
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", assembled.layout.mark), "");
    assert!(!text.contains("OLD-") && text.contains("Hello back."));
    let told: Vec<String> = (assembled.report.excluded.iter())
        .map(|row| row.reason.to_string())
        .collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].contains("recorded system prompt") && told[2].contains("blank"),
        "{told:?}"
    );
    check(&assembled).unwrap();
}

#[test]
fn thinking_is_sent_to_providers_that_accept_it() {
    let lab = Lab::new("");
    lab.session("s");
    let step = |seal: Option<&str>, words: &str, id: &str| {
        [
            blocks(
                MessageRole::Assistant,
                [thought(words, seal), call(id, "shell", "make")],
            ),
            result(id, "ok"),
        ]
    };
    let mut messages = vec![user("Build.")];
    messages.extend(step(Some("seal-1"), "SEALED", "c1"));
    messages.extend(step(None, "UNSEALED", "c2"));
    messages.push(blocks(
        MessageRole::Assistant,
        [
            thought("IDLE", Some("seal-2")),
            Block::Text {
                text: "Done.".into(),
                native: None,
            },
        ],
    ));
    lab.record("s", &turn(messages));
    let text = |model: &str| {
        let assembled = ask(&lab, &lab.engine, model);
        for format in PROVIDERS {
            assembled.render(format).unwrap();
        }
        (
            assembled.render(Format::Text).unwrap(),
            assembled.render(Format::Anthropic).unwrap(),
        )
    };
    let (plain, native) = text("claude-sonnet-4-5");
    assert!(plain.contains("SEALED") && native.contains("seal-1"));
    let (others, _) = text("gpt-4o");
    for gone in ["UNSEALED", "IDLE"] {
        assert!(!plain.contains(gone) && !native.contains(gone), "{gone}");
        assert!(!others.contains(gone) && !others.contains("SEALED"));
    }
}
