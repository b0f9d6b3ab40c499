//! Snapshots: the same bytes, later and on another machine.

use crate::support::counting::Counting;
use crate::support::dice::Dice;
use crate::support::*;
use contexture::snapshot::{Saved, find};
use contexture::store::Store;
use contexture::turn::{Block, MessageRole};
use contexture::{Assembled, Format};
use contexture_sqlite::SqliteStore;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The forms that a snapshot holds: all but our own, which has the report.
static FORMS: std::sync::LazyLock<Vec<(&str, Format)>> = std::sync::LazyLock::new(|| {
    let all = Format::ALL.into_iter();
    all.filter(|(_, format)| *format != Format::Json).collect()
});

/// The request in every form, or why a form does not take it.
fn rendered(assembled: &Assembled) -> Vec<String> {
    let all = FORMS.iter();
    all.map(|(name, format)| match assembled.render(*format) {
        Ok(request) => request,
        Err(refused) => {
            assert_eq!(*name, "openai-completions", "{refused}");
            refused.to_string()
        }
    })
    .collect()
}

fn saved(store: &dyn Store, assembled: &Assembled) -> Saved {
    let snapshot = find(store, assembled.snapshot.as_deref().unwrap()).unwrap();
    Saved::load(store, &snapshot).unwrap()
}

/// Checks that a request comes out of `store` as it was.
fn replays(store: &dyn Store, assembled: &Assembled) -> Result<(), String> {
    let saved = saved(store, assembled);
    let blocks = saved.check(store).map_err(|error| error.to_string())?;
    if blocks != assembled.layout.blocks().count() || saved.tokens() != assembled.layout.tokens() {
        return Err(format!("{blocks} blocks, {} tokens", saved.tokens()));
    }
    for ((name, format), before) in FORMS.iter().zip(rendered(assembled)) {
        let now = saved.render(store, *format);
        let now = now.unwrap_or_else(|error| error.to_string());
        if now != before {
            return Err(format!("{name}:\n{now}\n--- was\n{before}"));
        }
    }
    Ok(())
}

#[test]
fn a_request_comes_out_as_it_was() {
    let mut lab = Lab::new("model = \"claude-sonnet-4-5\"");
    lab.write(
        "tools.json",
        r#"[{"name":"shell","description":"</system> runs <b>it</b>"}]"#,
    );
    lab.write(
        "AGENTS.md",
        "Answer briefly.\r\n\n<user>not you</user>\n\n\n",
    );
    lab.session("s");
    lab.record(
        "s",
        &turn([
            blocks(
                MessageRole::User,
                [image(), text("</user>\u{200b} <|im_end|> [INST]\n\n")],
            ),
            blocks(
                MessageRole::Assistant,
                [
                    thought("so </assistant>", Some("seal")),
                    call("c1", "shell", "<tool>"),
                ],
            ),
            result("c1", ""),
            blocks(
                MessageRole::Assistant,
                [Block::Text {
                    text: "\n  done \\</context> \n".into(),
                    native: None,
                }],
            ),
        ]),
    );
    lab.record(
        "s",
        &turn([
            user("More."),
            calls(["c1"]),
            result("c1", &prose(3, 2_000)),
            says("Long."),
        ]),
    );
    // The second is cut to fit.
    let requests = [lab.assemble("s", 50_000), lab.assemble("s", 2_500)];
    assert!(requests[1].report.included.iter().any(|row| row.truncated));
    for assembled in &requests {
        replays(&*lab.store, assembled).unwrap();
    }
    // In another process.
    lab.restart("");
    let reopened = SqliteStore::open(lab.dir.path().join("lab.db")).unwrap();
    for assembled in &requests {
        replays(&reopened, assembled).unwrap();
    }
}

#[test]
fn generated_requests_come_out_as_they_were() {
    let lab = Lab::new("");
    let pinned = lab.pinned();
    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let number = std::cell::Cell::new(0);
    let conversation = prop::collection::vec(
        (
            prop::collection::vec(any::<u8>(), 4..40),
            "\\PC{0,30}",
            "[\r\n \t<>/\\\\a-c]{0,12}",
        ),
        1..6,
    );
    runner
        .run(&(conversation, 0..1_500_u64), |(conversation, room)| {
            number.set(number.get() + 1);
            let label = format!("case {}", number.get());
            lab.session(&label);
            let mut open = Vec::new();
            for (bytes, words, odd) in &conversation {
                let before = open.clone();
                let mut turn = Dice(bytes).turn(&mut open);
                turn.messages.insert(0, user(&format!("{words}{odd}")));
                if lab
                    .store
                    .record(&label, &turn, None, None, lab.tick())
                    .is_err()
                {
                    open = before;
                }
                let assembled = lab.assemble(&label, pinned + room);
                replays(&*lab.store, &assembled).map_err(TestCaseError::fail)?;
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_change_is_noticed() {
    let (lab, store) = Lab::counting("");
    lab.talk("s", &chat(3, 20));
    lab.record(
        "s",
        &turn([blocks(MessageRole::User, [image()]), says("A pixel.")]),
    );
    let assembled = lab.assemble("s", 20_000);
    let kept = store.hashes.lock().unwrap().clone();
    assert!(kept.len() >= 12);
    let check = || -> Result<usize, String> {
        let hash = assembled.snapshot.as_deref().unwrap();
        let snapshot = find(&*lab.store, hash).map_err(|error| error.to_string())?;
        let saved = Saved::load(&*lab.store, &snapshot).map_err(|error| error.to_string())?;
        saved.check(&*lab.store).map_err(|error| error.to_string())
    };
    check().unwrap();
    for hash in kept {
        *store.damaged.lock().unwrap() = Some(hash);
        let error = check().unwrap_err();
        assert!(error.contains("does not match its hash"), "{error}");
        *store.damaged.lock().unwrap() = None;
        *store.lost.lock().unwrap() = Some(hash);
        let error = check().unwrap_err();
        assert!(error.contains("missing from the store"), "{error}");
        *store.lost.lock().unwrap() = None;
    }
    check().unwrap();
}

#[test]
fn the_next_request_adds_what_is_new() {
    let (lab, store) = Lab::counting("");
    lab.session("s");
    lab.record(
        "s",
        &turn([blocks(MessageRole::User, [image()]), says("A pixel.")]),
    );
    for turn in &chat(100, 60) {
        lab.record("s", turn);
    }
    let first = lab.assemble("s", 100_000);
    let offered = || {
        (
            Counting::take(&store.blobs_offered),
            Counting::take(&store.bytes_offered),
        )
    };
    let (blobs, bytes) = offered();
    assert!(blobs > 200 && bytes > 40_000, "{blobs} {bytes}");
    lab.record("s", &exchange("And now?", "Now."));
    let second = lab.assemble("s", 100_000);
    let (blobs, bytes) = offered();
    // The turn, the event, the end of the list and its root.
    assert!(blobs <= 8, "{blobs} blobs");
    assert!(bytes < 24_000, "{bytes} bytes");
    // Equal content is not stored again.
    let again = lab.assemble("s", 100_000);
    assert_eq!(offered(), (0, 0));
    assert_eq!(again.snapshot, second.snapshot);
    replays(&*lab.store, &first).unwrap();
    replays(&*lab.store, &second).unwrap();

    let (old, new) = (saved(&*lab.store, &first), saved(&*lab.store, &second));
    let changes = new.changes(&*lab.store, &old).unwrap();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes.iter().all(|change| change.before.is_none()));
}
