//! The documentation of [`Ledger`](contexture_store::Ledger),
//! [`Snapshots`](contexture_store::Snapshots) and
//! [`Samples`](contexture_store::Samples), one function for each promise.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use contexture_core::{ContentHash, Join, Media, MediaKind, MediaSource, Role, Trust, Usage};
use contexture_store::{
    Blob, Block, Compaction, Counted, Handle, HandlePrefix, LEAST_FETCHABLE_BYTES, Message,
    MessageContent, MessageRole, Native, NewSession, NewSessionPin, NewTurn, ParentTurn, RawJson,
    Recorded, Sample, SentBlock, SessionChange, SessionPin, SessionStatus, Snapshot, StopReason,
    Store, StoreError, Trigger, TurnHead, TurnId, TurnKind, TurnSample, Walk,
};
use jiff::Timestamp;

use super::at;

fn message(role: MessageRole, content: MessageContent) -> Message {
    Message {
        role,
        source: None,
        content,
        tool_call_id: None,
        is_error: false,
        context_json: None,
    }
}

fn text(role: MessageRole, text: &str) -> Message {
    message(role, MessageContent::Text(text.to_owned()))
}

/// A turn in which the user's message `asked` is answered with `answered`.
fn turn(asked: &str, answered: &str) -> NewTurn {
    NewTurn {
        messages: vec![
            text(MessageRole::User, asked),
            text(MessageRole::Assistant, answered),
        ],
        ..NewTurn::default()
    }
}

fn calls(ids: &[&str]) -> Message {
    let block = |id: &&str| Block::ToolCall {
        id: (*id).to_owned(),
        name: "shell".to_owned(),
        arguments: serde_json::json!({"command": "make"}),
        native: None,
    };
    message(
        MessageRole::Assistant,
        MessageContent::Blocks(ids.iter().map(block).collect()),
    )
}

fn result(id: &str) -> Message {
    Message {
        tool_call_id: Some(id.to_owned()),
        ..text(MessageRole::Tool, "done")
    }
}

fn session(store: &dyn Store, label: &str) {
    let new = NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    };
    store.create_session(&new, at(0)).unwrap();
}

fn record(store: &dyn Store, label: &str, said: &str) -> Recorded {
    store
        .record(label, &turn(said, "yes"), None, None, at(1))
        .unwrap()
}

const NO_LIMIT: Walk<'static> = Walk {
    counter: "words",
    tokens: u64::MAX,
    at_least: 0,
    through: None,
};
fn path(store: &dyn Store, from: TurnId) -> Vec<TurnHead> {
    store.walk(from, &NO_LIMIT).unwrap()
}

fn ids(heads: &[TurnHead]) -> Vec<TurnId> {
    heads.iter().map(|head| head.id).collect()
}

fn alias(alias: &str) -> SessionChange {
    SessionChange {
        alias: Some(alias.to_owned()),
        ..SessionChange::default()
    }
}

fn status(status: SessionStatus) -> SessionChange {
    SessionChange {
        status: Some(status),
        ..SessionChange::default()
    }
}

/// A turn in which tools return these texts.
fn turn_with_results(texts: &[&str]) -> NewTurn {
    let ids: Vec<String> = (0..texts.len()).map(|i| format!("c{i}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut messages = vec![text(MessageRole::User, "go"), calls(&ids)];
    for (id, said) in ids.iter().zip(texts) {
        messages.push(Message {
            tool_call_id: Some((*id).to_owned()),
            ..text(MessageRole::Tool, said)
        });
    }
    NewTurn {
        messages,
        ..NewTurn::default()
    }
}

pub fn a_tool_result_is_found_by_its_handle(store: &dyn Store) {
    session(store, "s");
    session(store, "t");
    let (long, other) = ("é long\n".repeat(99), "other ".repeat(99));
    let short = "s".repeat(LEAST_FETCHABLE_BYTES - 1);
    let least = "l".repeat(LEAST_FETCHABLE_BYTES);
    let first = turn_with_results(&[&long, &short, &least]);
    store.record("s", &first, None, None, at(1)).unwrap();
    // A result in a message of another role counts, too, and the same text may
    // be recorded again.
    let blocks = [("c1", &other), ("c2", &long)].map(|(id, text)| Block::ToolResult {
        tool_call_id: id.to_owned(),
        content: text.clone(),
        is_error: true,
        native: None,
    });
    let second = NewTurn {
        messages: vec![
            text(MessageRole::User, "go"),
            calls(&["c1", "c2"]),
            message(MessageRole::User, MessageContent::Blocks(blocks.to_vec())),
        ],
        ..NewTurn::default()
    };
    store.record("t", &second, None, None, at(2)).unwrap();
    for expected in [&long, &other, &least] {
        let handle = Handle::of(expected);
        let found = store.tool_result(&handle.into()).unwrap();
        assert_eq!((found.handle, &found.text), (handle, expected));
        let prefix = HandlePrefix::parse(&handle.short()).unwrap();
        assert_eq!(store.tool_result(&prefix).unwrap(), found);
    }
    for unknown in [&short, "never recorded"] {
        let found = store.tool_result(&Handle::of(unknown).into());
        assert!(
            matches!(found, Err(StoreError::NotFound { .. })),
            "{found:?}"
        );
    }
}

pub fn a_handle_that_matches_several_results_is_rejected(store: &dyn Store) {
    session(store, "s");
    // The hashes of both texts share the first eight digits.
    let texts = [4_397, 71_505].map(|i| format!("{} {i}", "x".repeat(260)));
    let recorded = turn_with_results(&[&texts[0], &texts[1]]);
    store.record("s", &recorded, None, None, at(1)).unwrap();
    let both = store.tool_result(&HandlePrefix::parse("675015a2").unwrap());
    assert!(
        matches!(&both, Err(StoreError::Invalid { field, .. }) if field == "handle"),
        "{both:?}"
    );
    for text in &texts {
        let prefix = HandlePrefix::parse(&Handle::of(text).short()).unwrap();
        assert_eq!(store.tool_result(&prefix).unwrap().text, *text);
    }
}

pub fn a_session_is_found_by_label_and_alias(store: &dyn Store) {
    let new = NewSession {
        label: "main".to_owned(),
        aliases: vec!["work".to_owned(), "b".to_owned()],
        persona: Some("atlas".to_owned()),
        task: Some("mend the build".to_owned()),
        ..NewSession::default()
    };
    let made = store.create_session(&new, at(0)).unwrap();
    assert_eq!(made.label, "main");
    assert_eq!(made.aliases, ["b", "work"]);
    assert_eq!(made.head, None);
    assert_eq!(made.turns, 0);
    assert_eq!(made.persona.as_deref(), Some("atlas"));
    assert_eq!(made.task.as_deref(), Some("mend the build"));
    assert_eq!(made.status, SessionStatus::Active);
    assert_eq!(made.created_at, at(0));
    for name in ["main", "work", "b"] {
        assert_eq!(store.session(name).unwrap(), made, "{name}");
    }
    let more = store.change_session("work", &alias("c")).unwrap();
    assert_eq!(more.aliases, ["b", "c", "work"]);
    let done = store
        .change_session("c", &status(SessionStatus::Completed))
        .unwrap();
    assert_eq!(done.status, SessionStatus::Completed);
    assert_eq!(store.session("main").unwrap(), done);
}

pub fn a_label_or_alias_is_used_once(store: &dyn Store) {
    let new = |label: &str, alias: &str| NewSession {
        label: label.to_owned(),
        aliases: vec![alias.to_owned()],
        ..NewSession::default()
    };
    store.create_session(&new("a", "x"), at(0)).unwrap();
    session(store, "b");
    let taken = [
        ("a", "y"), // a label of its own
        ("x", "y"), // an alias of another
        ("c", "a"), // an alias that is a label
        ("c", "x"), // an alias that is taken
    ];
    for (label, alias) in taken {
        let refused = store.create_session(&new(label, alias), at(1));
        assert!(
            matches!(refused, Err(StoreError::Exists { .. })),
            "{label} {alias}"
        );
    }
    // An alias must differ from the label and from other aliases.
    let itself = store.create_session(&new("c", "c"), at(1));
    assert!(
        matches!(itself, Err(StoreError::Invalid { .. })),
        "{itself:?}"
    );
    for (label, alias) in [("a", "b"), ("b", "a"), ("b", "x"), ("a", "x")] {
        let refused = store.change_session(label, &self::alias(alias));
        assert!(
            matches!(refused, Err(StoreError::Exists { .. })),
            "{label} {alias}"
        );
    }
    // Rejected calls create nothing.
    assert!(matches!(
        store.session("c"),
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        store.session("y"),
        Err(StoreError::NotFound { .. })
    ));
    for label in ["", " ", "a\nb", &"x".repeat(201)] {
        let refused = store.create_session(&new(label, "fine"), at(1));
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{label:?}"
        );
    }
}

pub fn a_session_changes_all_or_nothing(store: &dyn Store) {
    session(store, "a");
    session(store, "b");
    let change = |alias: &str| SessionChange {
        alias: Some(alias.to_owned()),
        status: Some(SessionStatus::Failed),
        remember: Some(true),
    };
    // A change with a rejected alias does not change the status, either.
    for refused in ["a", "b", ""] {
        assert!(store.change_session("a", &change(refused)).is_err());
        let there = store.session("a").unwrap();
        assert_eq!(there.status, SessionStatus::Active, "{refused}");
        assert_eq!(there.remember, None, "{refused}");
        assert!(there.aliases.is_empty(), "{refused}");
    }
    let changed = store.change_session("a", &change("c")).unwrap();
    assert_eq!(changed.aliases, ["c"]);
    assert_eq!(changed.status, SessionStatus::Failed);
    assert_eq!(changed.remember, Some(true));
    let new = NewSession {
        label: "quiet".to_owned(),
        remember: Some(false),
        ..NewSession::default()
    };
    assert_eq!(
        store.create_session(&new, at(1)).unwrap().remember,
        Some(false)
    );
    let listed = store.sessions(None, 10).unwrap();
    let listed: Vec<_> = listed.iter().map(|session| session.remember).collect();
    assert_eq!(listed, [Some(true), None, Some(false)]);
    // An empty change changes nothing.
    let same = store.change_session("c", &SessionChange::default());
    assert_eq!(same.unwrap(), changed);
    assert_eq!(store.session("a").unwrap(), changed);
}

pub fn concurrent_changes_of_a_session_are_all_applied(store: &dyn Store) {
    const WRITERS: usize = 4;
    const EACH: usize = 25;
    session(store, "s");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for i in 0..EACH {
                    let name = format!("{writer:02}x{i:02}");
                    let changed = store.change_session("s", &alias(&name)).unwrap();
                    assert!(changed.aliases.contains(&name), "{name}");
                }
            });
        }
        // No other thread changes the status, so each value remains until the
        // next.
        scope.spawn(|| {
            use SessionStatus::{Active, Completed, Failed};
            for next in [Completed, Failed, Active].into_iter().cycle().take(EACH) {
                let changed = store.change_session("s", &status(next)).unwrap();
                assert_eq!(changed.status, next);
                assert_eq!(store.session("s").unwrap().status, next);
            }
        });
    });
    let all: Vec<String> = (0..WRITERS)
        .flat_map(|writer| (0..EACH).map(move |i| format!("{writer:02}x{i:02}")))
        .collect();
    assert_eq!(store.session("s").unwrap().aliases, all);
}

pub fn unknown_sessions_and_turns_are_errors(store: &dyn Store) {
    let nobody = TurnId::of(b"nobody");
    let unknown = |refused: Option<StoreError>| {
        assert!(
            matches!(refused, Some(StoreError::NotFound { .. })),
            "{refused:?}"
        );
    };
    unknown(store.session("nowhere").err());
    unknown(
        store
            .record("nowhere", &turn("a", "b"), None, None, at(0))
            .err(),
    );
    unknown(store.head_moves("nowhere", 10).err());
    unknown(store.walk(nobody, &NO_LIMIT).err());
    unknown(store.turns(&[nobody], "words").err());
    unknown(store.move_head("nowhere", None, None, "why", at(0)).err());
    let change = status(SessionStatus::Failed);
    unknown(store.change_session("nowhere", &change).err());
    session(store, "here");
    unknown(
        store
            .move_head("here", None, Some(nobody), "why", at(0))
            .err(),
    );
    let fork = NewSession {
        label: "fork".to_owned(),
        head: Some(nobody),
        ..NewSession::default()
    };
    unknown(store.create_session(&fork, at(0)).err());
    assert_eq!(store.sessions(None, 10).unwrap().len(), 1);
}

pub fn sessions_are_listed_by_label(store: &dyn Store) {
    assert_eq!(store.sessions(None, 10).unwrap(), []);
    for label in ["b", "a", "d", "c"] {
        session(store, label);
    }
    let labels = |after: Option<&str>, limit| -> Vec<String> {
        let found = store.sessions(after, limit).unwrap();
        found.into_iter().map(|session| session.label).collect()
    };
    assert_eq!(labels(None, 10), ["a", "b", "c", "d"]);
    assert_eq!(labels(None, 2), ["a", "b"]);
    assert_eq!(labels(Some("b"), 10), ["c", "d"]);
    assert_eq!(labels(Some("bb"), 1), ["c"]);
    assert_eq!(labels(Some("d"), 10), Vec::<String>::new());
}

pub fn a_turn_is_read_back_unchanged(store: &dyn Store) {
    session(store, "s");
    let json = r#"{"messages":[
        {"role":"user","source":"human","content":"Why does the build fail?","context_json":{"event":{"platform":"slack"}}},
        {"role":"assistant","content":[{"type":"thinking","text":"hm","signature":"seal"},{"type":"text","text":"Let me look."},
           {"type":"tool_call","id":"c1","name":"shell","arguments":{"z":1,"a":[null,{"b":"c"}]}}]},
        {"role":"tool","tool_call_id":"c1","is_error":true,"content":"undefined reference to foo"},
        {"role":"user","content":[{"type":"image","media_type":"image/png","url":"https://example.com/a.png"}]},
        {"role":"assistant","content":"foo is never linked."}],
       "model":"claude-sonnet-4","provider":"anthropic",
       "usage":{"input_tokens":5120,"output_tokens":96,"cached_input_tokens":4096,"cache_write_tokens":512,"reasoning_tokens":7},
       "stop_reason":"end_turn","role":"worker","toolset_name":"coding","tools":["shell"],
       "permissions_granted":["shell"],"source_event_id":"e1","request_hash":"abc","idempotency_key":"k1",
       "error":{"kind":"rate_limit","message":"slow down"},"status":"failed"}"#;
    let mut new: NewTurn = serde_json::from_str(json).unwrap();
    let id = new.body();
    new.sent = vec![
        SentBlock {
            id: "invoice".to_owned(),
            role: Role::Context,
            trust: Trust::Retrieved,
            path: Some("invoice.txt".to_owned()),
            join: Join::Apart,
            text: "No. 81\n".to_owned(),
            media: None,
        },
        SentBlock {
            id: "event".to_owned(),
            role: Role::User,
            trust: Trust::User,
            path: None,
            join: Join::Paragraph,
            text: "[image]".to_owned(),
            media: Some(Media {
                kind: MediaKind::Image,
                media_type: "image/png".to_owned(),
                source: MediaSource::Data("aGk=".to_owned()),
            }),
        },
    ];
    assert_eq!(new.body(), id, "what was sent is no part of the id");
    let recorded = store.record("s", &new, None, None, at(5)).unwrap();
    let stored = store.turns(&[recorded.id], "words").unwrap().remove(0);
    assert_eq!(stored.turn, new);
    assert_eq!(stored.id, recorded.id);
    assert_eq!(stored.parent, None);
    assert_eq!(stored.depth, 1);
    assert_eq!(stored.kind, TurnKind::Normal);
    assert_eq!(stored.created_at, at(5));
    assert_eq!(stored.compaction, None);
    assert_eq!(stored.counts, None);
    let usage = Usage {
        input_tokens: 5120,
        output_tokens: 96,
        cached_input_tokens: 4096,
        cache_write_tokens: 512,
        reasoning_tokens: 7,
    };
    assert_eq!(stored.turn.usage, Some(usage));
}

pub fn turns_form_a_chain(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let second = record(store, "s", "two");
    let third = record(store, "s", "three");
    assert_eq!((first.parent, first.depth), (None, 1));
    assert_eq!((second.parent, second.depth), (Some(first.id), 2));
    assert_eq!((third.parent, third.depth), (Some(second.id), 3));
    let session = store.session("s").unwrap();
    assert_eq!((session.head, session.turns), (Some(third.id), 3));
    let walked = path(store, third.id);
    assert_eq!(ids(&walked), [third.id, second.id, first.id]);
    assert_eq!(walked[0].bytes, 8);
    assert!(
        walked
            .iter()
            .all(|head| head.begins && head.compaction.is_none())
    );
    // Turns are returned in the requested order, duplicates included.
    let turns = store
        .turns(&[second.id, first.id, second.id], "words")
        .unwrap();
    let found: Vec<TurnId> = turns.iter().map(|turn| turn.id).collect();
    assert_eq!(found, [second.id, first.id, second.id]);
}

pub fn the_same_turns_have_the_same_ids_everywhere(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let second = record(store, "s", "two");
    assert_eq!(first.id.to_string(), "39b161b67a4ceb0a0ea1caf42017c18a");
    assert_eq!(second.id.to_string(), "228f29ae3a1550c002713919911481d2");
}

pub fn a_stale_parent_is_a_conflict(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let behind = |parent: TurnId, said: &str| NewTurn {
        parent_turn_id: parent.into(),
        ..turn(said, "yes")
    };
    let second = store
        .record("s", &behind(first.id, "two"), None, None, at(2))
        .unwrap();
    let refused = store.record("s", &behind(first.id, "late"), None, None, at(3));
    match refused {
        Err(StoreError::Conflict {
            session,
            expected,
            head,
        }) => {
            assert_eq!(session, "s");
            assert_eq!(expected, Some(first.id));
            assert_eq!(head, Some(second.id));
        }
        other => panic!("{other:?}"),
    }
    let unknown = store.record("s", &behind(TurnId::of(b"x"), "lost"), None, None, at(3));
    assert!(matches!(unknown, Err(StoreError::Conflict { .. })));
    assert_eq!(store.session("s").unwrap().turns, 2);
    // The same with the turn that was read back.
    store
        .record("s", &behind(second.id, "late"), None, None, at(4))
        .unwrap();
}

pub fn no_parent_means_an_empty_session(store: &dyn Store) {
    session(store, "s");
    let first = |said: &str| NewTurn {
        parent_turn_id: ParentTurn::Empty,
        ..turn(said, "yes")
    };
    let recorded = store.record("s", &first("one"), None, None, at(1)).unwrap();
    let refused = store.record("s", &first("two"), None, None, at(2));
    match refused {
        Err(StoreError::Conflict { expected, head, .. }) => {
            assert_eq!((expected, head), (None, Some(recorded.id)));
        }
        other => panic!("{other:?}"),
    }
    let read = store.turns(&[recorded.id], "").unwrap();
    assert_eq!(read[0].turn.parent_turn_id, ParentTurn::Empty);
}

/// A block in a provider's own form, and a provider's own stop reason, are
/// returned as they were recorded, byte for byte.
pub fn provider_specific_content_is_stored_unchanged(store: &dyn Store) {
    session(store, "s");
    let raw = "{ \"type\":\"sealed\",\n\"n\": 1.50, \"e\":\"\\u00e9\" }";
    let raw = RawJson::parse(raw).unwrap();
    let opaque = Block::Provider {
        provider: "anthropic".to_owned(),
        raw: raw.clone(),
    };
    let text = Block::Text {
        text: "Hm.".into(),
        native: Some(Native::new("gemini", raw)),
    };
    let mut new = turn("one", "yes");
    new.messages[1].content = MessageContent::Blocks(vec![opaque, text]);
    new.stop_reason = Some(StopReason::Other("pause_turn".to_owned()));
    let recorded = store.record("s", &new, None, None, at(1)).unwrap();
    let read = store.turns(&[recorded.id], "").unwrap();
    assert_eq!(read[0].turn, new);
}

pub fn a_retry_is_recorded_once(store: &dyn Store) {
    session(store, "s");
    session(store, "other");
    let keyed = |said: &str| NewTurn {
        idempotency_key: Some("key".to_owned()),
        ..turn(said, "yes")
    };
    let first = store.record("s", &keyed("one"), None, None, at(1)).unwrap();
    assert!(!first.replayed);
    record(store, "s", "two");
    // The retry comes later, with the parent of the first attempt.
    let again = NewTurn {
        parent_turn_id: first.id.into(),
        ..keyed("one")
    };
    for retry in [keyed("one"), again] {
        let retried = store.record("s", &retry, None, None, at(9)).unwrap();
        assert_eq!((retried.id, retried.replayed), (first.id, true));
        assert_eq!((retried.parent, retried.depth), (None, 1));
    }
    assert_eq!(store.session("s").unwrap().turns, 2);
    // A key belongs to its session.
    let elsewhere = store
        .record("other", &keyed("three"), None, None, at(1))
        .unwrap();
    assert!(!elsewhere.replayed);
}

pub fn an_idempotency_key_belongs_to_one_turn(store: &dyn Store) {
    session(store, "s");
    let keyed = |said: &str| NewTurn {
        idempotency_key: Some("key".to_owned()),
        ..turn(said, "yes")
    };
    store.record("s", &keyed("one"), None, None, at(1)).unwrap();
    let refused = store.record("s", &keyed("two"), None, None, at(1));
    assert!(matches!(refused, Err(StoreError::KeyReused { key }) if key == "key"));
    assert_eq!(store.session("s").unwrap().turns, 1);
}

pub fn a_closed_session_refuses_turns(store: &dyn Store) {
    session(store, "s");
    let keyed = NewTurn {
        idempotency_key: Some("key".to_owned()),
        ..turn("one", "yes")
    };
    let first = store.record("s", &keyed, None, None, at(1)).unwrap();
    for closed in [SessionStatus::Completed, SessionStatus::Failed] {
        store.change_session("s", &status(closed)).unwrap();
        let refused = store.record("s", &turn("two", "yes"), None, None, at(2));
        assert!(
            matches!(&refused, Err(StoreError::Closed { session, status })
                if session == "s" && *status == closed.name()),
            "{refused:?}"
        );
        // A retry of a recorded turn still gets its first response.
        let retried = store.record("s", &keyed, None, None, at(2)).unwrap();
        assert_eq!((retried.id, retried.replayed), (first.id, true));
        assert_eq!(store.session("s").unwrap().turns, 1);
    }
    store
        .change_session("s", &status(SessionStatus::Active))
        .unwrap();
    record(store, "s", "two");
    assert_eq!(store.session("s").unwrap().turns, 2);
}

pub fn an_invalid_turn_stores_nothing(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let user = || text(MessageRole::User, "go");
    let wrong: Vec<(&str, Vec<Message>)> = vec![
        ("messages", vec![]),
        ("messages", vec![text(MessageRole::User, " \n")]),
        ("messages[1].content", vec![user(), result("nobody")]),
        (
            "messages[1].tool_call_id",
            vec![user(), text(MessageRole::Tool, "x")],
        ),
        (
            "messages[2].content[1].id",
            vec![
                user(),
                text(MessageRole::Assistant, "x"),
                calls(&["a", "a"]),
            ],
        ),
        (
            "messages[2]",
            vec![user(), calls(&["a"]), text(MessageRole::Assistant, "x")],
        ),
        (
            "messages[3].content",
            vec![user(), calls(&["a"]), result("a"), result("a")],
        ),
        (
            "messages[0].content[0]",
            vec![message(
                MessageRole::User,
                MessageContent::Blocks(vec![Block::Image {
                    media_type: "image/png".to_owned(),
                    data: None,
                    url: None,
                    native: None,
                }]),
            )],
        ),
        (
            "messages[0].content[0]",
            vec![Message {
                role: MessageRole::User,
                ..calls(&["a"])
            }],
        ),
    ];
    for (place, messages) in wrong {
        let turn = NewTurn {
            messages,
            ..NewTurn::default()
        };
        match store.record("s", &turn, None, None, at(2)) {
            Err(StoreError::Invalid { field, .. }) => assert_eq!(field, place, "{turn:?}"),
            other => panic!("{place}: {other:?}"),
        }
    }
    let session = store.session("s").unwrap();
    assert_eq!((session.head, session.turns), (Some(first.id), 1));
    assert_eq!(store.head_moves("s", 10).unwrap().len(), 2);
}

pub fn a_result_answers_a_call(store: &dyn Store) {
    session(store, "s");
    let parallel = NewTurn {
        messages: vec![
            text(MessageRole::User, "go"),
            calls(&["a", "b"]),
            result("b"),
            result("a"),
            calls(&["c"]),
            result("c"),
            text(MessageRole::Assistant, "done"),
        ],
        ..NewTurn::default()
    };
    store.record("s", &parallel, None, None, at(1)).unwrap();
    // The same ids may be used again in another turn.
    store.record("s", &parallel, None, None, at(2)).unwrap();
}

pub fn open_calls_can_be_answered_later_or_abandoned(store: &dyn Store) {
    session(store, "s");
    let messages = |messages: Vec<Message>| NewTurn {
        messages,
        ..NewTurn::default()
    };
    let asks = messages(vec![text(MessageRole::User, "go"), calls(&["a", "b"])]);
    let asked = store.record("s", &asks, None, None, at(1)).unwrap();
    let half = messages(vec![result("a")]);
    let half = store.record("s", &half, None, None, at(2)).unwrap();
    let rest = messages(vec![result("b"), text(MessageRole::Assistant, "done")]);
    let rest = store.record("s", &rest, None, None, at(3)).unwrap();
    let begins: Vec<bool> = path(store, rest.id)
        .iter()
        .map(|head| head.begins)
        .collect();
    assert_eq!(begins, [false, false, true], "newest first");
    // A call that was answered cannot be answered again.
    let again = messages(vec![result("b")]);
    let refused = store.record("s", &again, None, None, at(4));
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    // The head moves back to where both calls are open: the user may continue
    // without results.
    let move_to = |to: TurnId| {
        let head = store.session("s").unwrap().head;
        store.move_head("s", head, Some(to), "test", at(5)).unwrap();
    };
    move_to(asked.id);
    let on = store
        .record("s", &turn("never mind", "fine"), None, None, at(6))
        .unwrap();
    assert!(path(store, on.id)[0].begins);
    // A late result is accepted once.
    let late = messages(vec![result("a")]);
    store.record("s", &late, None, None, at(7)).unwrap();
    let again = store.record("s", &late, None, None, at(7));
    assert!(matches!(again, Err(StoreError::Invalid { .. })));
    move_to(half.id);
    let late = store.record("s", &messages(vec![result("a")]), None, None, at(8));
    assert!(
        matches!(late, Err(StoreError::Invalid { .. })),
        "a was answered"
    );
}

pub fn a_fork_shares_its_ancestors(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let second = record(store, "s", "two");
    let fork = NewSession {
        label: "fork".to_owned(),
        head: Some(first.id),
        parent_session: Some("s".to_owned()),
        ..NewSession::default()
    };
    let fork = store.create_session(&fork, at(3)).unwrap();
    assert_eq!((fork.head, fork.turns), (Some(first.id), 1));
    assert_eq!(fork.parent_session.as_deref(), Some("s"));
    assert_eq!(fork.parent_turn, Some(first.id));
    let other = record(store, "fork", "two");
    assert_ne!(other.id, second.id, "said elsewhere");
    assert_eq!(ids(&path(store, other.id)), [other.id, first.id]);
    assert_eq!(ids(&path(store, second.id)), [second.id, first.id]);
    assert_eq!(store.session("s").unwrap().head, Some(second.id));
}

pub fn moves_of_the_head_are_recorded(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let second = record(store, "s", "two");
    let moved = store
        .move_head("s", Some(second.id), Some(first.id), "wrong turn", at(9))
        .unwrap();
    assert_eq!((moved.head, moved.turns), (Some(first.id), 1));
    let stale = store.move_head("s", Some(second.id), Some(first.id), "again", at(9));
    assert!(matches!(stale, Err(StoreError::Conflict { .. })));
    let moves = store.head_moves("s", 10).unwrap();
    let said: Vec<(&str, Option<TurnId>, Option<TurnId>)> = moves
        .iter()
        .map(|one| (one.reason.as_str(), one.from, one.to))
        .collect();
    assert_eq!(
        said,
        [
            ("wrong turn", Some(second.id), Some(first.id)),
            ("recorded", Some(first.id), Some(second.id)),
            ("recorded", None, Some(first.id)),
            ("created", None, None),
        ]
    );
    assert_eq!(store.head_moves("s", 1).unwrap().len(), 1);
    // A recorded turn remains, even if no head follows it.
    assert_eq!(store.turns(&[second.id], "words").unwrap()[0].id, second.id);
    let back = store
        .move_head("s", Some(first.id), None, "to the start", at(9))
        .unwrap();
    assert_eq!((back.head, back.turns), (None, 0));
}

fn summary(first_kept: Option<TurnId>, through: TurnId) -> Compaction {
    Compaction {
        summary: "We spoke.".to_owned(),
        summarized_through: Some(through),
        first_kept,
        first_kept_message: 2,
        facts: Some(serde_json::json!({"files": ["a.rs"]})),
        made_of: Vec::new(),
        trigger: Trigger::Manual,
        focus: Some("names".to_owned()),
        summariser: "extractive".to_owned(),
        tokens_before: 100,
        tokens_after: 3,
        usage: None,
    }
}

pub fn a_compaction_is_a_separate_turn(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let second = record(store, "s", "two");
    let made = summary(Some(second.id), first.id);
    let stale = store.compact("s", first.id, &made, at(3));
    assert!(matches!(stale, Err(StoreError::Conflict { .. })));
    let compacted = store.compact("s", second.id, &made, at(3)).unwrap();
    assert_eq!((compacted.parent, compacted.depth), (Some(second.id), 2));
    let session = store.session("s").unwrap();
    assert_eq!((session.head, session.turns), (Some(compacted.id), 2));
    let third = record(store, "s", "three");
    let walked = path(store, third.id);
    assert_eq!(
        ids(&walked),
        [third.id, compacted.id, second.id, first.id],
        "nothing is lost"
    );
    let latest: Vec<Option<TurnId>> = walked.iter().map(|head| head.compaction).collect();
    assert_eq!(latest, [Some(compacted.id), Some(compacted.id), None, None]);
    assert_eq!(walked[1].kind, TurnKind::Compaction);
    let stored = store.turns(&[compacted.id], "words").unwrap().remove(0);
    assert_eq!(stored.compaction, Some(made));
    assert_eq!(stored.turn.messages, []);
    assert_eq!(store.head_moves("s", 2).unwrap()[1].reason, "compacted");
}

fn counted(words: &[u64]) -> Counted {
    Counted {
        counter: "words".to_owned(),
        blocks: words.iter().map(|&n| vec![n]).collect(),
    }
}

pub fn a_walk_stops_when_its_budget_is_used_up(store: &dyn Store) {
    session(store, "s");
    let mut made = Vec::new();
    for i in 0..10 {
        let turn = turn(&format!("say {i}"), "yes");
        let recorded = store
            .record("s", &turn, Some(&counted(&[6, 4])), None, at(i))
            .unwrap();
        made.push(recorded.id);
    }
    made.reverse();
    let walk = |tokens, at_least, through| {
        let walk = Walk {
            counter: "words",
            tokens,
            at_least,
            through,
        };
        ids(&store.walk(made[0], &walk).unwrap())
    };
    // The walk stops when the counts exceed the limit.
    assert_eq!(walk(35, 0, None), made[..4]);
    assert_eq!(walk(30, 0, None), made[..4]);
    assert_eq!(walk(29, 0, None), made[..3]);
    assert_eq!(walk(0, 0, None), made[..1]);
    assert_eq!(walk(0, 3, None), made[..3]);
    assert_eq!(walk(1000, 0, None), made[..]);
    assert_eq!(walk(1000, 0, Some(made[4])), made[..5]);
    assert_eq!(walk(0, 3, Some(made[0])), made[..1]);
    let head = store.walk(made[0], &NO_LIMIT).unwrap()[0];
    assert_eq!((head.tokens, head.weight()), (Some(10), 10));
    // Another counter has no counts, so the walk uses bytes.
    let guess = Walk {
        counter: "letters",
        tokens: 5,
        at_least: 0,
        through: None,
    };
    let walked = store.walk(made[0], &guess).unwrap();
    assert_eq!((walked[0].tokens, walked[0].weight()), (None, 2));
    assert_eq!(walked.len(), 3);
}

pub fn a_walk_stops_where_a_step_starts(store: &dyn Store) {
    session(store, "s");
    let messages = |messages: Vec<Message>| NewTurn {
        messages,
        ..NewTurn::default()
    };
    let one = record(store, "s", "one");
    let asks = messages(vec![text(MessageRole::User, "go"), calls(&["a"])]);
    let asks = store
        .record("s", &asks, Some(&counted(&[5, 5])), None, at(1))
        .unwrap();
    let answers = messages(vec![result("a")]);
    let answers = store
        .record("s", &answers, Some(&counted(&[10])), None, at(2))
        .unwrap();
    let alone = messages(vec![text(MessageRole::Assistant, "also")]);
    let alone = store
        .record("s", &alone, Some(&counted(&[10])), None, at(3))
        .unwrap();
    // A step begins with a message of the model, not with a result.
    let walked = |tokens| {
        let walk = Walk { tokens, ..NO_LIMIT };
        ids(&store.walk(alone.id, &walk).unwrap())
    };
    assert_eq!(walked(5), [alone.id]);
    assert_eq!(walked(15), [alone.id, answers.id, asks.id]);
    assert_eq!(ids(&path(store, alone.id)).last(), Some(&one.id));
}

pub fn token_counts_are_stored_per_counter(store: &dyn Store) {
    session(store, "s");
    let first = store
        .record("s", &turn("a b", "c"), Some(&counted(&[2, 1])), None, at(1))
        .unwrap();
    let second = record(store, "s", "one");
    let of = |id: TurnId, counter: &str| store.turns(&[id], counter).unwrap()[0].counts.clone();
    assert_eq!(of(first.id, "words"), Some(vec![vec![2], vec![1]]));
    assert_eq!(of(first.id, "letters"), None);
    let letters = Counted {
        counter: "letters".to_owned(),
        blocks: vec![vec![3], vec![1]],
    };
    let wrong = counted(&[9, 9]);
    store
        .put_counts(&[
            (first.id, letters),
            (first.id, wrong),
            (second.id, counted(&[1, 1])),
        ])
        .unwrap();
    assert_eq!(of(first.id, "letters"), Some(vec![vec![3], vec![1]]));
    assert_eq!(of(first.id, "words"), Some(vec![vec![2], vec![1]]), "stays");
    assert_eq!(of(second.id, "words"), Some(vec![vec![1], vec![1]]));
    let walk = Walk {
        counter: "letters",
        ..NO_LIMIT
    };
    let tokens: Vec<Option<u64>> = store
        .walk(second.id, &walk)
        .unwrap()
        .iter()
        .map(|head| head.tokens)
        .collect();
    assert_eq!(tokens, [None, Some(4)]);
    store.put_counts(&[]).unwrap();
}

pub fn a_clock_that_is_set_back_causes_no_errors(store: &dyn Store) {
    session(store, "s");
    let mut made = Vec::new();
    for second in [100, 50, 75, -10] {
        let turn = turn(&format!("at {second}"), "yes");
        made.push(store.record("s", &turn, None, None, at(second)).unwrap().id);
        assert_eq!(store.session("s").unwrap().updated_at, at(100));
    }
    made.reverse();
    assert_eq!(ids(&path(store, made[0])), made);
}

pub fn concurrent_writers_create_one_chain(store: &dyn Store) {
    session(store, "s");
    let (writers, each) = (64, 4);
    let (recorded, conflicts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (recorded, conflicts) = (&recorded, &conflicts);
            scope.spawn(move || {
                for i in 0..each {
                    // Half of the writers pass the parent that they expect.
                    let parent_turn_id = (writer % 2 == 0)
                        .then(|| store.session("s").unwrap().head)
                        .flatten()
                        .map_or(ParentTurn::Head, ParentTurn::Turn);
                    let new = NewTurn {
                        parent_turn_id,
                        ..turn(&format!("{writer} says {i}"), "yes")
                    };
                    match store.record("s", &new, None, None, at(1)) {
                        Ok(_) => recorded.fetch_add(1, Ordering::Relaxed),
                        Err(StoreError::Conflict { .. }) => {
                            conflicts.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
    });
    let (recorded, conflicts) = (recorded.into_inner(), conflicts.into_inner());
    assert_eq!(recorded + conflicts, writers * each);
    assert!(recorded >= writers / 2 * each, "{recorded}");
    let session = store.session("s").unwrap();
    assert_eq!(session.turns, recorded as u64);
    let walked = path(store, session.head.unwrap());
    assert_eq!(walked.len(), recorded);
    for (i, head) in walked.iter().enumerate() {
        assert_eq!(head.depth, (recorded - i) as u64, "gapless");
        assert_eq!(head.parent, walked.get(i + 1).map(|parent| parent.id));
    }
    let turns = store.turns(&ids(&walked), "words").unwrap();
    let said: BTreeSet<String> = turns
        .iter()
        .map(|turn| format!("{:?}", turn.turn.messages[0].content))
        .collect();
    assert_eq!(said.len(), recorded, "each once");
}

pub fn concurrent_retries_are_recorded_once(store: &dyn Store) {
    session(store, "s");
    let replayed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let new = NewTurn {
                    idempotency_key: Some("once".to_owned()),
                    ..turn("only once", "yes")
                };
                let recorded = store.record("s", &new, None, None, at(1)).unwrap();
                replayed.fetch_add(usize::from(recorded.replayed), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(replayed.into_inner(), 15);
    assert_eq!(store.session("s").unwrap().turns, 1);
}

pub fn readers_see_whole_turns(store: &dyn Store) {
    session(store, "s");
    record(store, "s", "first");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..50 {
                let messages = (0..6)
                    .map(|n| match n % 2 {
                        0 => text(MessageRole::User, &format!("{i} {n}")),
                        _ => text(MessageRole::Assistant, &format!("{i} {n}")),
                    })
                    .collect();
                let new = NewTurn {
                    messages,
                    ..NewTurn::default()
                };
                store
                    .record("s", &new, Some(&counted(&[1; 6])), None, at(2))
                    .unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let session = store.session("s").unwrap();
            let walked = path(store, session.head.unwrap());
            assert_eq!(walked.len() as u64, session.turns);
            let turns = store.turns(&ids(&walked), "words").unwrap();
            for turn in &turns[..turns.len() - 1] {
                assert_eq!(turn.turn.messages.len(), 6);
                assert_eq!(turn.counts.as_ref().map(Vec::len), Some(6));
            }
        }
    });
}

pub fn a_mark_key_is_set_once(store: &dyn Store) {
    assert_eq!(store.mark_key([1; 32]).unwrap(), [1; 32]);
    assert_eq!(store.mark_key([2; 32]).unwrap(), [1; 32]);
}

pub fn snapshots_are_stored_by_content(store: &dyn Store) {
    let blob = |text: &str| Blob {
        hash: ContentHash::of(text.as_bytes()),
        bytes: text.as_bytes().to_vec(),
    };
    let snapshot = |session: &str, name: &str, second: i64| Snapshot {
        hash: ContentHash::of(name.as_bytes()),
        session: session.to_owned(),
        parent_turn: Some(TurnId::of(b"parent")),
        model: "gpt-4o".to_owned(),
        tokens: 12,
        counter: "words".to_owned(),
        root: ContentHash::of(b"a"),
        created_at: at(second),
    };
    assert_eq!(store.snapshots(None, 10).unwrap(), []);
    let first = snapshot("s", "one", 1);
    let second = snapshot("s", "two", 2);
    let other = snapshot("t", "three", 3);
    store
        .put_snapshot(&first, &[blob("a"), blob("b"), blob("a")])
        .unwrap();
    store
        .put_snapshot(&second, &[blob("b"), blob("c")])
        .unwrap();
    store.put_snapshot(&other, &[]).unwrap();
    let hashes = ["c", "nothing", "a"].map(|text| ContentHash::of(text.as_bytes()));
    let found = store.blobs(&hashes).unwrap();
    assert_eq!(found, [Some(b"c".to_vec()), None, Some(b"a".to_vec())]);
    let of = |session, limit| store.snapshots(session, limit).unwrap();
    assert_eq!(of(Some("s"), 10), [second.clone(), first.clone()]);
    assert_eq!(of(Some("s"), 1), std::slice::from_ref(&second));
    assert_eq!(of(None, 10), [other.clone(), second.clone(), first.clone()]);
    assert_eq!(of(Some("nowhere"), 10), []);
    // The same request again becomes the latest and is not duplicated.
    let again = snapshot("s", "one", 4);
    store.put_snapshot(&again, &[blob("a")]).unwrap();
    assert_eq!(of(Some("s"), 10), [again.clone(), second.clone()]);
    let hex = second.hash.to_string();
    let found = store.find_snapshots(&hex).unwrap();
    assert_eq!(found, std::slice::from_ref(&second));
    assert_eq!(store.find_snapshots(&hex[..12]).unwrap(), [second]);
    assert_eq!(store.find_snapshots("").unwrap().len(), 2);
    assert_eq!(store.find_snapshots("zz").unwrap(), []);
}

pub fn snapshots_are_listed_page_by_page(store: &dyn Store) {
    let snapshot = |session: &str, name: &str| Snapshot {
        hash: ContentHash::of(name.as_bytes()),
        session: session.to_owned(),
        parent_turn: None,
        model: "m".to_owned(),
        tokens: 7,
        counter: "words".to_owned(),
        root: ContentHash::of(name.as_bytes()),
        created_at: at(1),
    };
    for (session, name) in [("s", "one"), ("t", "two"), ("s", "three"), ("s", "four")] {
        store.put_snapshot(&snapshot(session, name), &[]).unwrap();
    }
    let before = |session, name: &str, limit| {
        let hash = ContentHash::of(name.as_bytes());
        store.snapshots_before(session, hash, limit).unwrap()
    };
    let (one, two, three) = (
        snapshot("s", "one"),
        snapshot("t", "two"),
        snapshot("s", "three"),
    );
    assert_eq!(before(None, "four", 2), [three.clone(), two]);
    assert_eq!(before(Some("s"), "four", 9), [three, one.clone()]);
    assert_eq!(before(Some("s"), "three", 1), [one]);
    assert_eq!(before(Some("s"), "one", 9), []);
    assert_eq!(before(None, "unknown", 9), []);
}

pub fn reports_are_stored_with_their_snapshots(store: &dyn Store) {
    let hash = ContentHash::of(b"one");
    let snapshot = Snapshot {
        hash,
        session: "s".to_owned(),
        parent_turn: None,
        model: "m".to_owned(),
        tokens: 7,
        counter: "words".to_owned(),
        root: hash,
        created_at: at(1),
    };
    // A snapshot that was not saved has no report.
    store.put_snapshot_report(hash, b"early".to_vec());
    assert_eq!(store.snapshot_report(hash).unwrap(), None);
    store.put_snapshot(&snapshot, &[]).unwrap();
    assert_eq!(store.snapshot_report(hash).unwrap(), None);
    store.put_snapshot_report(hash, b"first".to_vec());
    store.put_snapshot_report(hash, b"second".to_vec());
    let report = store.snapshot_report(hash).unwrap();
    assert_eq!(report.as_deref(), Some(&b"second"[..]));
    let unknown = store.snapshot_report(ContentHash::of(b"unknown"));
    assert_eq!(unknown.unwrap(), None);
}

pub fn samples_are_returned_newest_first(store: &dyn Store) {
    let sample = |counted, actual| Sample { counted, actual };
    assert_eq!(store.samples("m", "words", 10).unwrap(), []);
    for i in 1..=5 {
        store.put_sample("m", "words", sample(i, i * 2)).unwrap();
    }
    store.put_sample("m", "letters", sample(9, 9)).unwrap();
    store.put_sample("n", "words", sample(8, 8)).unwrap();
    let found = store.samples("m", "words", 2).unwrap();
    assert_eq!(found, [sample(5, 10), sample(4, 8)]);
    assert_eq!(store.samples("m", "words", 10).unwrap().len(), 5);
    assert_eq!(store.sampled_models("words").unwrap(), ["m", "n"]);
    assert_eq!(store.sampled_models("letters").unwrap(), ["m"]);
    assert!(store.sampled_models("bytes").unwrap().is_empty());
}

pub fn a_sample_is_stored_with_its_turn(store: &dyn Store) {
    session(store, "s");
    let behind = |parent: Option<TurnId>, counted: u64| TurnSample {
        parent,
        model: "m".to_owned(),
        counter: "words".to_owned(),
        sample: Sample {
            counted,
            actual: counted * 2,
        },
    };
    let kept = || -> Vec<u64> {
        let samples = store.samples("m", "words", 10).unwrap();
        samples.iter().map(|sample| sample.counted).collect()
    };
    let keyed = |said: &str| NewTurn {
        idempotency_key: Some(said.to_owned()),
        ..turn(said, "yes")
    };
    let sample = behind(None, 1);
    let first = store.record("s", &keyed("one"), None, Some(&sample), at(1));
    let first = first.unwrap();
    assert_eq!(kept(), [1]);
    // A retry adds no sample, even with another sample.
    for sample in [behind(None, 1), behind(Some(first.id), 2)] {
        let retried = store.record("s", &keyed("one"), None, Some(&sample), at(2));
        assert!(retried.unwrap().replayed);
        assert_eq!(kept(), [1]);
    }
    // A turn with another parent than the sample's adds none.
    let late = behind(None, 3);
    let second = store.record("s", &turn("two", "yes"), None, Some(&late), at(3));
    let second = second.unwrap();
    assert_eq!(second.parent, Some(first.id));
    assert_eq!(kept(), [1]);
    // A rejected turn adds none.
    let stale = NewTurn {
        parent_turn_id: first.id.into(),
        ..turn("stale", "yes")
    };
    let sample = behind(Some(first.id), 4);
    let refused = store.record("s", &stale, None, Some(&sample), at(4));
    assert!(matches!(refused, Err(StoreError::Conflict { .. })));
    assert_eq!(kept(), [1]);
    // An existing turn adds none when the head was moved back.
    let sample = behind(Some(second.id), 5);
    let third = turn("three", "yes");
    for _ in 0..2 {
        let recorded = store.record("s", &third, None, Some(&sample), at(5));
        assert_eq!(kept(), [5, 1]);
        let (from, to) = (Some(recorded.unwrap().id), Some(second.id));
        store.move_head("s", from, to, "back", at(6)).unwrap();
    }
}

pub fn any_text_is_read_back_unchanged(store: &dyn Store) {
    session(store, "s; DROP TABLE turns; --");
    let hostile = "'\"; DROP TABLE sessions; -- \u{0} \u{202e} \u{1F600} 你好\r\n\\u0000";
    let recorded = store
        .record(
            "s; DROP TABLE turns; --",
            &turn(hostile, "ok"),
            None,
            None,
            at(1),
        )
        .unwrap();
    let stored = store.turns(&[recorded.id], "words").unwrap().remove(0);
    assert_eq!(stored.turn, turn(hostile, "ok"));
    assert!(matches!(
        store.session("' OR 1=1"),
        Err(StoreError::NotFound { .. })
    ));
}

pub fn any_number_is_read_back_or_rejected(store: &dyn Store) {
    session(store, "s");
    let with = |arguments: serde_json::Value| {
        let call = Block::ToolCall {
            id: "a".to_owned(),
            name: "shell".to_owned(),
            arguments,
            native: None,
        };
        let blocks = MessageContent::Blocks(vec![call]);
        NewTurn {
            messages: vec![message(MessageRole::Assistant, blocks)],
            ..NewTurn::default()
        }
    };
    let numbers = serde_json::json!({
        "a": 5e-324, "b": 0.1 + 0.2, "c": 1.797_693_134_862_315_7e308, "d": -0.0,
        "e": u64::MAX, "f": i64::MIN, "g": 2.225_073_858_507_201e-308, "h": 1.0,
    });
    let recorded = store
        .record("s", &with(numbers.clone()), None, None, at(1))
        .unwrap();
    let stored = store.turns(&[recorded.id], "words").unwrap().remove(0);
    assert_eq!(stored.turn, with(numbers));
    let id = stored.turn.body().id(None, "s", at(1));
    assert_eq!(id, recorded.id, "the id follows from what comes back");
    // JSON parsers have a nesting limit, and stored content must be readable.
    let nested = |levels: usize| {
        (0..levels).fold(
            serde_json::json!({}),
            |inner, _| serde_json::json!({"x": inner}),
        )
    };
    let deep = store
        .record("s", &with(nested(99)), None, None, at(2))
        .unwrap();
    assert_eq!(
        store.turns(&[deep.id], "").unwrap()[0].turn,
        with(nested(99))
    );
    let too_deep = store.record("s", &with(nested(100)), None, None, at(3));
    assert!(
        matches!(&too_deep, Err(StoreError::Invalid { field, .. })
            if field == "messages[0].content[0].arguments"),
        "{too_deep:?}"
    );
    let usage = |output_tokens| NewTurn {
        usage: Some(Usage {
            output_tokens,
            ..Usage::default()
        }),
        ..turn("how much?", "that much")
    };
    let most = store
        .record("s", &usage(contexture_store::MAX_NUMBER), None, None, at(4))
        .unwrap();
    let stored = store.turns(&[most.id], "words").unwrap().remove(0);
    assert_eq!(stored.turn, usage(contexture_store::MAX_NUMBER));
    let too_much = store.record("s", &usage(u64::MAX), None, None, at(5));
    assert!(
        matches!(&too_much, Err(StoreError::Invalid { field, .. })
            if field == "usage.output_tokens"),
        "{too_much:?}"
    );
    let sample = Sample {
        counted: u64::MAX,
        actual: 1,
    };
    let refused = store.put_sample("m", "words", sample);
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    assert_eq!(store.session("s").unwrap().turns, 3);
}

pub fn times_are_stored_in_milliseconds(store: &dyn Store) {
    let fine = Timestamp::from_nanosecond(1_770_000_000_123_456_789).unwrap();
    let kept = Timestamp::from_millisecond(1_770_000_000_123).unwrap();
    let new = NewSession {
        label: "s".to_owned(),
        ..NewSession::default()
    };
    let made = store.create_session(&new, fine).unwrap();
    assert_eq!(made.created_at, kept);
    assert_eq!(store.session("s").unwrap(), made);
    let recorded = store
        .record("s", &turn("a", "b"), None, None, fine)
        .unwrap();
    let stored = store.turns(&[recorded.id], "words").unwrap().remove(0);
    assert_eq!(stored.created_at, kept);
    assert_eq!(stored.turn.body().id(None, "s", kept), recorded.id);
    assert_eq!(store.head_moves("s", 1).unwrap()[0].at, kept);
}

pub fn the_same_turn_after_the_same_parent_is_one_turn(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let second = record(store, "s", "two");
    let back = |from: TurnId, to| {
        let moved = store.move_head("s", Some(from), to, "back", at(2));
        moved.unwrap();
    };
    back(second.id, Some(first.id));
    assert_eq!(record(store, "s", "two"), second);
    assert_eq!(store.session("s").unwrap().head, Some(second.id));
    let made = summary(None, second.id);
    let compacted = store.compact("s", second.id, &made, at(3)).unwrap();
    back(compacted.id, Some(second.id));
    let again = store.compact("s", second.id, &made, at(3)).unwrap();
    assert_eq!(again, compacted);
    let walked = path(store, compacted.id);
    assert_eq!(ids(&walked), [compacted.id, second.id, first.id]);
}

pub fn a_session_stores_its_parent(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let alias = alias("other name");
    store.change_session("s", &alias).unwrap();
    let task = |label: &str, parent: &str| NewSession {
        label: label.to_owned(),
        parent_session: Some(parent.to_owned()),
        ..NewSession::default()
    };
    let made = store
        .create_session(&task("t", "other name"), at(2))
        .unwrap();
    assert_eq!(made.parent_session.as_deref(), Some("s"));
    assert_eq!((made.parent_turn, made.head), (Some(first.id), None));
    assert_eq!(store.head_moves("t", 5).unwrap()[0].reason, "created");
    let lost = store.create_session(&task("u", "nowhere"), at(2));
    assert!(matches!(lost, Err(StoreError::NotFound { .. })), "{lost:?}");
    let fork = NewSession {
        head: Some(first.id),
        ..task("f", "s")
    };
    store.create_session(&fork, at(2)).unwrap();
    assert_eq!(store.head_moves("f", 5).unwrap()[0].reason, "forked");
}

pub fn a_compaction_does_not_answer_open_calls(store: &dyn Store) {
    session(store, "s");
    let messages = |messages: Vec<Message>| NewTurn {
        messages,
        ..NewTurn::default()
    };
    let asks = messages(vec![text(MessageRole::User, "go"), calls(&["a"])]);
    let asks = store.record("s", &asks, None, None, at(1)).unwrap();
    let compacted = store
        .compact("s", asks.id, &summary(None, asks.id), at(2))
        .unwrap();
    let answer = messages(vec![result("a")]);
    let answer = store.record("s", &answer, None, None, at(3)).unwrap();
    assert_eq!((answer.parent, answer.depth), (Some(compacted.id), 2));
    let begins: Vec<bool> = path(store, answer.id)
        .iter()
        .map(|head| head.begins)
        .collect();
    assert_eq!(begins, [false, false, true]);
}

pub fn a_compaction_refers_to_existing_turns(store: &dyn Store) {
    session(store, "s");
    let first = record(store, "s", "one");
    let nobody = TurnId::of(b"nobody");
    for made in [summary(None, nobody), summary(Some(nobody), first.id)] {
        let refused = store.compact("s", first.id, &made, at(2));
        assert!(
            matches!(refused, Err(StoreError::NotFound { .. })),
            "{refused:?}"
        );
    }
    let unknown = store.put_counts(&[(first.id, counted(&[1, 1])), (nobody, counted(&[1]))]);
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
    let stored = store.turns(&[first.id], "words").unwrap().remove(0);
    assert_eq!(stored.counts, None, "all or nothing");
}

pub fn pins_are_revisions_and_forks_share_them(store: &dyn Store) {
    let pin = |name: Option<&str>, text: &str, origin: Option<&str>| NewSessionPin {
        name: name.map(str::to_owned),
        text: text.to_owned(),
        origin: origin.map(str::to_owned),
    };
    let session = |label: &str| NewSession {
        label: label.to_owned(),
        ..NewSession::default()
    };
    store.create_session(&session("s"), at(0)).unwrap();
    assert_eq!(store.pins("s").unwrap(), []);
    let first = store.pin("s", &pin(None, "a", None), at(1)).unwrap();
    assert_eq!((first.name.as_str(), first.revision), ("pin-1", 1));
    assert_eq!(first.created_at, at(1));
    let goal = store.pin("s", &pin(Some("goal"), "Ship it.\n", Some("file g")), at(2));
    let goal = goal.unwrap();
    assert_eq!(goal.text.as_deref(), Some("Ship it.\n"));
    assert_eq!(goal.origin.as_deref(), Some("file g"));
    let turn = |words: &str| NewTurn {
        messages: vec![text(MessageRole::User, words)],
        ..NewTurn::default()
    };
    let one = store.record("s", &turn("one"), None, None, at(3)).unwrap();
    let again = store
        .pin("s", &pin(Some("pin-1"), "b", None), at(4))
        .unwrap();
    assert_eq!(again.revision, 2);
    // The same text creates no revision.
    let same = store
        .pin("s", &pin(Some("pin-1"), "b", None), at(5))
        .unwrap();
    assert_eq!(same, again);
    store.record("s", &turn("two"), None, None, at(6)).unwrap();
    let third = store.pin("s", &pin(None, "c", None), at(7)).unwrap();
    assert_eq!(third.name, "pin-2");
    let names = |label: &str| -> Vec<String> {
        let pins = store.pins(label).unwrap();
        let shown = |pin: &SessionPin| format!("{} {}", pin.name, pin.text.clone().unwrap());
        pins.iter().map(shown).collect()
    };
    assert_eq!(names("s"), ["pin-1 b", "goal Ship it.\n", "pin-2 c"]);
    // A fork has the pins of its turn, and changes them independently.
    let fork = |label: &str, head| NewSession {
        head: Some(head),
        parent_session: Some("s".to_owned()),
        ..session(label)
    };
    store.create_session(&fork("early", one.id), at(8)).unwrap();
    assert_eq!(names("early"), ["pin-1 b", "goal Ship it.\n"]);
    let removed = store.unpin("early", "goal", at(9)).unwrap();
    assert_eq!((removed.revision, removed.text.as_ref()), (2, None));
    assert_eq!(names("early"), ["pin-1 b"]);
    assert_eq!(names("s").len(), 3);
    let history = store.pin_revisions("early", "goal").unwrap();
    assert_eq!(history, [goal, removed]);
    let head = store.session("s").unwrap().head.unwrap();
    store.create_session(&fork("late", head), at(10)).unwrap();
    assert_eq!(names("late"), names("s"));
    // A worker is not a fork, so it gets no pins.
    let worker = NewSession {
        parent_session: Some("s".to_owned()),
        ..session("worker")
    };
    store.create_session(&worker, at(11)).unwrap();
    assert_eq!(names("worker"), [""; 0]);
    // Rejected calls change nothing.
    let is_missing = |done: Result<SessionPin, StoreError>| {
        assert!(matches!(done, Err(StoreError::NotFound { .. })));
    };
    is_missing(store.unpin("s", "nothing", at(12)));
    is_missing(store.unpin("early", "goal", at(12)));
    is_missing(store.pin("nobody", &pin(None, "x", None), at(12)));
    assert!(store.pin_revisions("s", "nothing").is_err());
    for bad in [
        pin(None, " \n", None),
        pin(Some(" a"), "x", None),
        pin(Some(""), "x", None),
    ] {
        let refused = store.pin("s", &bad, at(12));
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{bad:?}"
        );
    }
    let closed = SessionChange {
        status: Some(SessionStatus::Completed),
        ..SessionChange::default()
    };
    store.change_session("late", &closed).unwrap();
    let refused = store.pin("late", &pin(None, "x", None), at(13));
    assert!(matches!(refused, Err(StoreError::Closed { .. })));
}
