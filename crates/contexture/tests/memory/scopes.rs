//! Whose a record is: filters, extraction, lists, and sessions that feed memory.

use contexture::memory::{ContextFilters, ContextRequest};
use contexture::store::{Message, NewSession, NewTurn, RecordKind, RecordList, RecordScope};

use crate::fixture::{TestMemory, ids, now, query_for, said};

fn of_user(user: &str, id: &str, text: &str) -> String {
    let line = said(id, "s", "2026-02-02T10:00:00Z", "Me", text);
    line.replacen('{', &format!(r#"{{"user":"{user}","#), 1)
}

fn filtered(query: &str, filters: &str) -> ContextRequest {
    ContextRequest {
        filters: ContextFilters::from_json(filters).unwrap(),
        ..query_for(query, 1_000)
    }
}

#[test]
fn a_user_sees_only_their_own_records() {
    let mind = TestMemory::of(
        &[
            of_user("ana", "a", "My dog is called Rufus."),
            of_user("ben", "b", "My dog is called Bella."),
            said("c", "s", "2026-02-02T10:01:00Z", "Me", "Dogs are nice."),
        ]
        .concat(),
    );
    let context = mind.ask(&filtered("What is my dog called?", r#"{"user":"ana"}"#));
    assert_eq!(ids(&context), ["a"]);
    // Records of other owners do not raise their neighbours, either.
    let context = mind.ask(&filtered("Bella", r#"{"user":"ana"}"#));
    assert!(context.metadata.unmatched, "{context:?}");
    assert_eq!(ids(&mind.recall("dog")).len(), 3);
    let none = mind.ask(&filtered("dog", r#"{"user":"nobody"}"#));
    assert!(ids(&none).is_empty());
}

#[test]
fn entities_and_relations_stay_inside_the_scope() {
    let mind = TestMemory::of(
        &[
            of_user("ana", "a", "My friend Clara works at Globex."),
            of_user("ben", "b", "My friend Clara works at Initech."),
        ]
        .concat(),
    );
    let of = |user: &str| {
        let filters = format!(r#"{{"user":"{user}"}}"#);
        mind.ask(&filtered("Where does Clara work?", &filters))
            .content
            .clone()
    };
    let (ana, ben) = (of("ana"), of("ben"));
    assert!(
        ana.contains("--> Globex") && !ana.contains("Initech"),
        "{ana}"
    );
    assert!(
        ben.contains("--> Initech") && !ben.contains("Globex"),
        "{ben}"
    );
}

#[test]
fn other_kinds_without_a_user_are_shared() {
    let mind = TestMemory::of(
        r#"{"kind":"entity","id":"x","type":"person","name":"Xenia","user":"ana","properties":{"role":"captain"}}
{"kind":"entity","id":"y","type":"person","name":"Ymir","properties":{"role":"cook"}}
"#,
    );
    let context = mind.ask(&filtered("Xenia and Ymir", r#"{"user":"ben"}"#));
    assert_eq!(ids(&context), ["y"]);
    let context = mind.ask(&filtered("Xenia and Ymir", r#"{"user":"ana"}"#));
    assert_eq!(ids(&context).len(), 2);
}

#[test]
fn records_are_listed_a_page_at_a_time() {
    let mut lines = String::new();
    for i in 0..25 {
        lines.push_str(&of_user(
            "ana",
            &format!("e{i:02}"),
            &format!("Number {i}."),
        ));
    }
    lines.push_str("{\"kind\":\"chunk\",\"source\":\"a.md\",\"text\":\"A page.\"}\n");
    let mind = TestMemory::of(&lines);
    let what = RecordList {
        kind: Some(RecordKind::Event),
        session: Some("s".to_owned()),
        user: Some("ana".to_owned()),
        ..RecordList::default()
    };
    let (mut seen, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = mind.memory().list(&what, after.as_deref(), 10).unwrap();
        seen.extend(page.records.iter().map(|record| record.id().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..25).map(|i| format!("e{i:02}")).collect();
    assert_eq!(seen, expected);
    let of_source = RecordList {
        source: Some("a.md".to_owned()),
        ..RecordList::default()
    };
    assert_eq!(
        mind.memory()
            .list(&of_source, None, 10)
            .unwrap()
            .records
            .len(),
        1
    );
    let error = mind.memory().list(&what, Some("x"), 10).unwrap_err();
    assert!(error.to_string().contains("`x` is not a cursor"), "{error}");
}

#[test]
fn recording_returns_ids() {
    let mind = TestMemory::new();
    let line = said("", "s", "2026-02-02T10:00:00Z", "Ana", "Hello.");
    let record = serde_json::from_str(&line).unwrap();
    let done = mind.memory().record(vec![record], Some(now())).unwrap();
    assert!(done.ids[0].starts_with("e-"), "{done:?}");
    assert_eq!(mind.memory().named(&done.ids[0]).unwrap().len(), 1);
}

#[test]
fn messages_become_events() {
    let mind = TestMemory::new();
    let messages: Vec<Message> = serde_json::from_str(
        r#"[{"role":"system","content":"Be brief."},
            {"role":"user","content":"My dog is called Rufus."},
            {"role":"assistant","content":"Noted."}]"#,
    )
    .unwrap();
    let owner = RecordScope {
        user: Some("ana".to_owned()),
        ..RecordScope::default()
    };
    let memory = mind.memory();
    let done = memory
        .record_messages(&messages, &owner, Some(now()))
        .unwrap();
    assert_eq!((done.added, done.ids.len()), (2, 2));
    let again = memory
        .record_messages(&messages, &owner, Some(now()))
        .unwrap();
    assert_eq!(again.unchanged, 2);
    let context = mind.ask(&filtered("What is my dog called?", r#"{"user":"ana"}"#));
    assert!(
        context.content.contains("ana: My dog is called Rufus."),
        "{}",
        context.content
    );
}

#[test]
fn messages_of_a_session_are_recorded_once() {
    let mind = TestMemory::with("[memory]\nfrom_sessions = true\n");
    let engine = &mind.lab.engine;
    let new = NewSession {
        label: "monday".to_owned(),
        ..NewSession::default()
    };
    contexture::store::Ledger::create_session(engine.store().unwrap(), &new, now()).unwrap();
    let turn: NewTurn = serde_json::from_str(
        r#"{"messages":[{"role":"user","content":"My dog is called Rufus."},
                        {"role":"assistant","content":"A fine name."}],
            "idempotency_key":"k1"}"#,
    )
    .unwrap();
    engine.record("monday", &turn, Some(now())).unwrap();
    engine.record("monday", &turn, Some(now())).unwrap();
    let what = RecordList {
        session: Some("monday".to_owned()),
        ..RecordList::default()
    };
    let page = mind.memory().list(&what, None, 10).unwrap();
    assert_eq!(page.records.len(), 2, "{page:?}");
    let context = mind.recall("What is the dog called?");
    assert!(
        context.content.contains("user: My dog is called Rufus."),
        "{}",
        context.content
    );
    // Nothing is recorded unless it is asked for.
    let plain = TestMemory::new();
    let engine = &plain.lab.engine;
    contexture::store::Ledger::create_session(engine.store().unwrap(), &new, now()).unwrap();
    engine.record("monday", &turn, Some(now())).unwrap();
    assert!(plain.memory().is_empty().unwrap());
}

/// Two people in two sessions are two speakers.
#[test]
fn the_sender_of_a_message_is_its_speaker_and_its_user() {
    let mind = TestMemory::with("[memory]\nfrom_sessions = true\n");
    let engine = &mind.lab.engine;
    for (label, name, id, city) in [("a", "Anna", "u1", "Bari"), ("b", "Bob", "u2", "Turin")] {
        let new = NewSession {
            label: label.to_owned(),
            ..NewSession::default()
        };
        contexture::store::Ledger::create_session(engine.store().unwrap(), &new, now()).unwrap();
        let turn = serde_json::json!({"messages": [
            {"role": "user", "content": format!("I live in {city}."),
             "context_json": {"sender": {"name": name, "id": id}}},
            {"role": "assistant", "content": "Noted."},
        ]});
        let turn: NewTurn = serde_json::from_value(turn).unwrap();
        engine.record(label, &turn, Some(now())).unwrap();
    }
    let context = mind.recall("Where does Anna live?");
    assert!(
        context.content.contains("Anna: I live in Bari."),
        "{}",
        context.content
    );
    let what = RecordList {
        user: Some("u2".to_owned()),
        ..RecordList::default()
    };
    let page = mind.memory().list(&what, None, 10).unwrap();
    assert_eq!(page.records.len(), 1, "{page:?}");
}

#[test]
fn extracted_entities_and_relations_are_listed_when_asked_for() {
    let mut lines = of_user("ana", "e1", "Ines Okafor works at Siemens.");
    lines.push_str("{\"kind\":\"entity\",\"type\":\"person\",\"name\":\"Ben\"}\n");
    let memory = TestMemory::of(&lines);
    let count = |kind: RecordKind, extracted: bool| {
        let what = RecordList {
            kind: Some(kind),
            extracted,
            ..RecordList::default()
        };
        let page = memory.memory().list(&what, None, 10).unwrap();
        page.records.len() as u64
    };
    let stats = memory.memory().stats().unwrap();
    for (kind, recorded) in [(RecordKind::Entity, 1), (RecordKind::Relation, 0)] {
        assert_eq!(count(kind, false), recorded);
        assert_eq!(count(kind, true), stats.kinds[&kind].live);
        assert!(count(kind, true) > recorded, "{kind:?}");
    }
}

#[test]
fn a_session_says_whether_it_is_remembered() {
    for (configured, own, remembered) in [
        (false, Some(true), true),
        (true, Some(false), false),
        (true, None, true),
    ] {
        let mind = TestMemory::with(&format!("[memory]\nfrom_sessions = {configured}\n"));
        let engine = &mind.lab.engine;
        let store = engine.store().unwrap();
        let new = NewSession {
            label: "monday".to_owned(),
            aliases: vec!["mon".to_owned()],
            remember: own,
            ..NewSession::default()
        };
        contexture::store::Ledger::create_session(store, &new, now()).unwrap();
        let say = |label: &str, text: &str| {
            let turn = serde_json::json!({"messages": [{"role": "user", "content": text}]});
            let turn: NewTurn = serde_json::from_value(turn).unwrap();
            engine.record(label, &turn, Some(now())).unwrap();
        };
        let of = |session: &str| {
            let what = RecordList {
                session: Some(session.to_owned()),
                ..RecordList::default()
            };
            mind.memory().list(&what, None, 10).unwrap().records.len()
        };
        // By whatever name it is called, the record is of the session.
        say("mon", "My dog is called Rufus.");
        assert_eq!(
            of("monday"),
            usize::from(remembered),
            "{configured} {own:?}"
        );
        assert_eq!(of("mon"), 0);
        engine.fork("monday", "fork", None, Some(now())).unwrap();
        say("fork", "My cat is called Minka.");
        assert_eq!(of("fork"), usize::from(remembered), "{configured} {own:?}");
        // It can be changed at any time.
        let change = contexture::store::SessionChange {
            remember: Some(!remembered),
            ..Default::default()
        };
        contexture::store::Ledger::change_session(store, "monday", &change).unwrap();
        say("monday", "The dog is four years old.");
        assert_eq!(of("monday"), 1, "{configured} {own:?}");
    }
}
