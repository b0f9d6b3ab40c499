//! Tests of the documentation of [`Memories`](contexture_store::Memories), one
//! function for each promise.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use super::at;
use contexture_store::{
    Analysis, Change, ChunkRecord, Condition, ConditionKind, Derived, EmbedderInfo, EntityRecord,
    EventRecord, Forget, LaterState, Link, Mention, NewRecord, Outcome, PatternRecord, PendingText,
    Record, RecordKey, RecordKind, RecordList, RelationRecord, Remembered, Sketch, Store,
    StoreError, TextSketch,
};

const MODEL: &str = "test-model";

fn embedder(name: &str) -> EmbedderInfo {
    EmbedderInfo {
        name: name.to_owned(),
        dimensions: 3,
    }
}

fn analysis() -> Analysis {
    Analysis {
        words: 1,
        embedder: Some(embedder(MODEL)),
    }
}

/// Parses a short notation: `@person:Ann` is a mention, and `-works_at->`
/// between two mentions is a relation.
fn derived(text: &str) -> Derived {
    let mut derived = Derived {
        words: Some(text.as_bytes().to_vec()),
        vector: Some(vec![text.len() as u8, 1]),
        ..Derived::default()
    };
    let mut link: Option<&str> = None;
    let mut last = 0;
    for word in text.split(' ') {
        if let Some((entity_type, name)) =
            word.strip_prefix('@').and_then(|word| word.split_once(':'))
        {
            let mention = Mention {
                entity_type: entity_type.to_owned(),
                name: name.to_owned(),
                key: name.to_lowercase(),
            };
            let known = derived.mentions.iter().position(|it| *it == mention);
            let place = known.unwrap_or(derived.mentions.len());
            if known.is_none() {
                derived.mentions.push(mention);
            }
            if let Some(relation_type) = link.take() {
                derived.links.push(Link {
                    relation_type: relation_type.to_owned(),
                    from: last,
                    to: place,
                });
            }
            last = place;
        } else if let Some(word) = word.strip_prefix('-') {
            link = word.strip_suffix("->");
        }
    }
    derived
}

fn event_record(id: &str, text: &str) -> EventRecord {
    EventRecord {
        id: id.to_owned(),
        session_id: None,
        timestamp: Some(at(0)),
        event_type: "note".to_owned(),
        actor: None,
        content: json!(text),
        outcome: None,
        parent_id: None,
        summary: None,
        keywords: Vec::new(),
        task_id: None,
        source: None,
        valid_from: None,
        valid_to: None,
        supersedes: None,
        visible_to: Vec::new(),
        user: None,
        agent: None,
    }
}

fn event_of(record: EventRecord) -> NewRecord {
    let derived = derived(record.content.as_str().unwrap_or_default());
    NewRecord {
        record: Record::Event(record),
        derived,
    }
}

fn event(id: &str, text: &str) -> NewRecord {
    event_of(event_record(id, text))
}

pub(crate) fn chunk(source: &str, index: u32, text: &str) -> NewRecord {
    let record = Record::Chunk(ChunkRecord {
        id: format!("{source}#{index}"),
        source: source.to_owned(),
        text: text.to_owned(),
        index,
        timestamp: Some(at(0)),
        session_id: None,
        embedding: None,
        valid_from: None,
        valid_to: None,
        supersedes: None,
        visible_to: Vec::new(),
        user: None,
        agent: None,
        task_id: None,
    });
    NewRecord {
        record,
        derived: derived(text),
    }
}

fn entity_record(id: &str, entity_type: &str, name: &str) -> EntityRecord {
    EntityRecord {
        id: id.to_owned(),
        entity_type: entity_type.to_owned(),
        name: name.to_owned(),
        ..EntityRecord::default()
    }
}

fn entity_of(record: EntityRecord) -> NewRecord {
    let names = std::iter::once(&record.name).chain(&record.aliases);
    let derived = Derived {
        names: names.map(|name| name.to_lowercase()).collect(),
        ..Derived::default()
    };
    NewRecord {
        record: Record::Entity(record),
        derived,
    }
}

fn entity(id: &str, entity_type: &str, name: &str, aliases: &[&str]) -> NewRecord {
    entity_of(EntityRecord {
        aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        ..entity_record(id, entity_type, name)
    })
}

fn relation_record(source: &str, relation_type: &str, target: &str) -> RelationRecord {
    RelationRecord {
        id: format!("{source} {relation_type} {target}"),
        relation_type: relation_type.to_owned(),
        source_id: source.to_owned(),
        target_id: target.to_owned(),
        timestamp: Some(at(0)),
        ..RelationRecord::default()
    }
}

fn relation_of(record: RelationRecord) -> NewRecord {
    NewRecord {
        record: Record::Relation(record),
        derived: Derived::default(),
    }
}

fn pattern(name: &str, procedure: &str) -> NewRecord {
    let record = Record::Pattern(PatternRecord {
        id: name.to_owned(),
        name: name.to_owned(),
        conditions: vec![Condition {
            condition_type: ConditionKind::Keyword,
            value: "build".to_owned(),
            weight: Some(0.5),
        }],
        procedure: procedure.to_owned(),
        applications: 5,
        successes: 3,
        failures: 1,
        scope: Some("s".to_owned()),
        valid_from: None,
        valid_to: None,
        supersedes: None,
        user: None,
        agent: None,
        session_id: None,
        task_id: None,
        source: None,
    });
    NewRecord {
        record,
        derived: Derived::default(),
    }
}

pub(crate) fn remember(store: &dyn Store, records: &[NewRecord]) -> Vec<Remembered> {
    store.remember(records, &analysis(), at(100)).unwrap()
}

fn keep(store: &dyn Store, record: NewRecord) -> RecordKey {
    remember(store, &[record])[0].key()
}

fn refused(store: &dyn Store, records: &[NewRecord]) -> String {
    let before = (store.memory_state().unwrap(), found(store));
    let refused = store.remember(records, &analysis(), at(100)).unwrap_err();
    assert!(refused.is_input(), "{refused}");
    // The rejected call changes nothing.
    assert_eq!((store.memory_state().unwrap(), found(store)), before);
    refused.to_string()
}

fn forget(store: &dyn Store, id: &str) -> BTreeMap<RecordKind, u64> {
    let what = Forget::Id {
        kind: None,
        id: id.to_owned(),
    };
    store.forget(&what).unwrap().forgotten
}

fn record(store: &dyn Store, key: RecordKey) -> Option<Record> {
    store.records(&[key]).unwrap().remove(0)
}

fn seq(store: &dyn Store) -> u64 {
    store.memory_state().unwrap().seq
}

fn changes(store: &dyn Store, after: u64) -> Vec<Change> {
    store.changes(after, usize::MAX).unwrap()
}

fn text_of(store: &dyn Store, key: RecordKey) -> TextSketch {
    let found = changes(store, 0)
        .into_iter()
        .find(|change| change.key == key);
    match found.unwrap().sketch {
        Some(Sketch::Text(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// An index of the visible records.
#[derive(Debug, Default, PartialEq)]
struct Index {
    seq: u64,
    sketches: BTreeMap<RecordKey, Sketch>,
}

impl Index {
    /// Updates the index, this many changes at a time.
    fn poll(&mut self, store: &dyn Store, limit: usize) {
        loop {
            let changes = store.changes(self.seq, limit).unwrap();
            assert!(changes.len() <= limit);
            if changes.is_empty() {
                break;
            }
            for change in changes {
                assert!(change.seq > self.seq, "not in order");
                self.seq = change.seq;
                match change.sketch {
                    Some(sketch) => self.sketches.insert(change.key, sketch),
                    None => self.sketches.remove(&change.key),
                };
            }
        }
        assert_eq!(self.seq, seq(store), "the state is the last change");
    }
}

/// Describes the visible records in alphabetical order: texts with the entities
/// they mention, entities with their mentions, relations with their weights.
pub(crate) fn found(store: &dyn Store) -> Vec<String> {
    let mut index = Index::default();
    index.poll(store, 7);
    let id = |key: RecordKey| {
        let found = record(store, key);
        found.map_or("?".to_owned(), |record| record.id().to_owned())
    };
    let mut lines: Vec<String> = index
        .sketches
        .iter()
        .map(|(key, sketch)| match sketch {
            Sketch::Text(text) => {
                let mut line = id(*key);
                for entity in &text.mentions {
                    line.push_str(" @");
                    line.push_str(&id(*entity));
                }
                line
            }
            Sketch::Entity(entity) => format!("{} x{}", entity.id, entity.mentions),
            Sketch::Relation(relation) => format!(
                "{} -{}-> {} {}",
                relation.source_id, relation.relation_type, relation.target_id, relation.weight
            ),
            Sketch::Pattern(_) => format!("pattern {}", id(*key)),
        })
        .collect();
    lines.sort();
    lines
}

pub fn a_record_is_read_back_unchanged(store: &dyn Store) {
    let event = EventRecord {
        session_id: Some("s".to_owned()),
        event_type: "command".to_owned(),
        actor: Some("shell".to_owned()),
        content: json!({"z": 1, "a": [null, {"b": "c"}], "speaker": "Ann", "text": "<x>\u{0}"}),
        outcome: Some(Outcome::Failure),
        parent_id: Some("e0".to_owned()),
        summary: Some("it failed".to_owned()),
        keywords: vec!["build".to_owned(), "\u{1f600}".to_owned()],
        task_id: Some("t1".to_owned()),
        source: Some("log".to_owned()),
        valid_from: Some(at(-5)),
        valid_to: Some(at(5)),
        ..event_record("e1", "")
    };
    let chunk = ChunkRecord {
        id: "c1".to_owned(),
        source: "a.md".to_owned(),
        text: "Once".to_owned(),
        index: 3,
        timestamp: Some(at(1)),
        session_id: None,
        embedding: Some(vec![0.1, -2.5e-7, 3.0]),
        valid_from: None,
        valid_to: None,
        supersedes: None,
        visible_to: Vec::new(),
        user: Some("ann".to_owned()),
        agent: Some("writer".to_owned()),
        task_id: None,
    };
    let mut entity = entity_record("ann", "person", "Ann");
    entity.aliases = vec!["Anna".to_owned()];
    entity.properties.insert("age".to_owned(), json!(0.1));
    entity.mentions = 7;
    entity.salience = Some(0.25);
    entity.confidence = Some(0.5);
    let relation = RelationRecord {
        weight: Some(0.3),
        evidence: vec!["e1".to_owned(), "elsewhere".to_owned()],
        ..relation_record("ann", "knows", "ann")
    };
    let mut new = vec![
        event_of(event.clone()),
        NewRecord {
            record: Record::Chunk(chunk.clone()),
            derived: derived("Once"),
        },
        entity_of(entity.clone()),
        relation_of(relation.clone()),
        pattern("again", "make clean"),
    ];
    new[0].derived.speaker = Some("ann".to_owned());
    let remembered = remember(store, &new);
    let keys: Vec<RecordKey> = remembered.iter().map(|it| it.key()).collect();
    for (i, it) in remembered.iter().enumerate() {
        assert_eq!(*it, Remembered::Added(keys[i]));
    }
    // Records are returned in the requested order; missing ones are omitted.
    let asked: Vec<RecordKey> = [keys[4], 999_999, keys[0], keys[0]].to_vec();
    let read = store.records(&asked).unwrap();
    assert_eq!(read[0].as_ref(), Some(&new[4].record));
    assert_eq!(read[1], None);
    assert_eq!(read[2].as_ref(), Some(&new[0].record));
    assert_eq!(read[3], read[2]);
    for (key, new) in keys.iter().zip(&new) {
        assert_eq!(record(store, *key).as_ref(), Some(&new.record));
    }
    let text = text_of(store, keys[0]);
    let expected = TextSketch {
        kind: RecordKind::Event,
        event_type: "command".to_owned(),
        session: Some("s".to_owned()),
        task: Some("t1".to_owned()),
        speaker: Some("ann".to_owned()),
        at: at(0).as_millisecond(),
        index: 0,
        valid_from: Some(at(-5).as_millisecond()),
        valid_to: Some(at(5).as_millisecond()),
        outcome: Some(Outcome::Failure),
        words: Some(Vec::new()),
        vector: Some(vec![0, 1]),
        later: None,
        mentions: Vec::new(),
    };
    assert_eq!(text, expected);
    let text = text_of(store, keys[1]);
    let expected = TextSketch {
        kind: RecordKind::Chunk,
        event_type: "chunk".to_owned(),
        // The chunk has no session of its own.
        session: Some("a.md".to_owned()),
        task: None,
        speaker: None,
        at: at(1).as_millisecond(),
        index: 3,
        valid_from: None,
        valid_to: None,
        outcome: None,
        words: Some(b"Once".to_vec()),
        vector: Some(vec![4, 1]),
        later: None,
        mentions: Vec::new(),
    };
    assert_eq!(text, expected);
    let sketches: Vec<Sketch> = changes(store, 0)
        .into_iter()
        .filter_map(|change| change.sketch)
        .collect();
    let entity = sketches.iter().find_map(|sketch| match sketch {
        Sketch::Entity(entity) => Some(entity),
        _ => None,
    });
    let entity = entity.unwrap();
    assert_eq!((&*entity.id, &*entity.entity_type), ("ann", "person"));
    assert_eq!(entity.names, ["ann", "anna"]);
    assert_eq!((entity.mentions, entity.salience), (7, Some(0.25)));
    assert!(entity.given);
    assert!((entity.confidence - 0.5).abs() < 1e-9);
    let pattern = sketches.iter().find_map(|sketch| match sketch {
        Sketch::Pattern(pattern) => Some(pattern),
        _ => None,
    });
    let pattern = pattern.unwrap();
    assert_eq!((pattern.applications, pattern.successes), (5, 3));
    assert_eq!(pattern.scope.as_deref(), Some("s"));
    assert_eq!(pattern.conditions.len(), 1);
    let relation = sketches.iter().find_map(|sketch| match sketch {
        Sketch::Relation(relation) => Some(relation),
        _ => None,
    });
    let relation = relation.unwrap();
    assert_eq!((&*relation.source_id, &*relation.target_id), ("ann", "ann"));
    assert!((relation.weight - 0.3).abs() < 1e-9);
    assert_eq!(relation.at, at(0).as_millisecond());
}

pub fn any_text_of_a_record_is_read_back_unchanged(store: &dyn Store) {
    let long = "x".repeat(100_000);
    let texts = [
        "\u{0}",
        "'; DROP TABLE memories;--",
        "\u{feff}é\u{301}",
        "\\ \"",
        &long,
    ];
    let new: Vec<NewRecord> = (texts.iter().enumerate())
        .map(|(i, text)| {
            event(
                &format!(
                    "e{i} {}",
                    text.replace('\0', "").chars().take(20).collect::<String>()
                ),
                text,
            )
        })
        .collect();
    for (it, new) in remember(store, &new).iter().zip(&new) {
        assert_eq!(record(store, it.key()).as_ref(), Some(&new.record));
        assert_eq!(text_of(store, it.key()).words, new.derived.words);
    }
}

pub fn identical_records_are_stored_once(store: &dyn Store) {
    let content = |text: &str| EventRecord {
        content: serde_json::from_str(text).unwrap(),
        ..event_record("o", "")
    };
    let new = [
        event("e", "@person:Ann -knows-> @person:Bob"),
        chunk("f", 0, "@person:Ann"),
        entity("acme", "org", "Acme", &["the firm"]),
        relation_of(relation_record("acme", "owns", "acme")),
        pattern("p", "do it"),
        event_of(content(r#"{"a":1,"b":{"c":2,"d":3}}"#)),
    ];
    let first = remember(store, &new);
    let (before, state) = (found(store), store.memory_state().unwrap());
    let again = remember(store, &new);
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(*again, Remembered::Unchanged(first.key()));
    }
    // The order of fields is ignored.
    let other_order = event_of(content(r#"{"b":{"d":3,"c":2},"a":1}"#));
    let it = remember(store, &[other_order])[0];
    assert_eq!(it, Remembered::Unchanged(first[5].key()));
    assert_eq!(store.memory_state().unwrap(), state);
    // Recording the returned form changes nothing, either.
    for change in changes(store, 0) {
        let read = record(store, change.key).unwrap();
        let derived = match &read {
            Record::Event(event) => derived(event.content.as_str().unwrap_or_default()),
            Record::Chunk(chunk) => derived(&chunk.text),
            Record::Entity(entity) => entity_of(entity.clone()).derived,
            _ => Derived::default(),
        };
        let new = NewRecord {
            record: read.clone(),
            derived,
        };
        let it = remember(store, &[new])[0];
        assert_eq!(it, Remembered::Unchanged(change.key), "{read:?}");
    }
    assert_eq!(store.memory_state().unwrap(), state);
    assert_eq!(found(store), before);
    // The same holds within one call.
    let twice = remember(store, &[event("x", "once"), event("x", "once")]);
    assert_eq!(twice[1], Remembered::Unchanged(twice[0].key()));
    assert_eq!(remember(store, &[]), []);
}

pub fn a_different_record_replaces_one_with_the_same_id(store: &dyn Store) {
    let key = keep(store, event("e", "one"));
    // Ids of different kinds are independent.
    let other = keep(store, pattern("e", "do it"));
    assert_ne!(key, other);
    let after = seq(store);
    let it = remember(store, &[event("e", "two")])[0];
    assert_eq!(it, Remembered::Replaced(key));
    let Some(Record::Event(read)) = record(store, key) else {
        panic!("an event");
    };
    assert_eq!(read.content, json!("two"));
    let changed = changes(store, after);
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].key, key);
    assert_eq!(text_of(store, key).words.as_deref(), Some(&b"two"[..]));
    // The last record of a call with the same id remains.
    let its = remember(store, &[event("e", "three"), event("e", "four")]);
    assert_eq!(its, [Remembered::Replaced(key); 2]);
    assert_eq!(text_of(store, key).words.as_deref(), Some(&b"four"[..]));
    let it = remember(store, &[pattern("e", "do it again")])[0];
    assert_eq!(it, Remembered::Replaced(other));
    assert_eq!(found(store), ["e", "pattern e"]);
}

pub fn a_default_time_is_kept_when_a_record_is_repeated(store: &dyn Store) {
    let new = event_of(EventRecord {
        timestamp: None,
        ..event_record("e", "one")
    });
    let key = store
        .remember(std::slice::from_ref(&new), &analysis(), at(7))
        .unwrap()[0]
        .key();
    let it = store.remember(&[new], &analysis(), at(8)).unwrap()[0];
    assert_eq!(it, Remembered::Unchanged(key));
    assert_eq!(text_of(store, key).at, at(7).as_millisecond());
    let Some(Record::Event(read)) = record(store, key) else {
        panic!("an event");
    };
    assert_eq!(read.timestamp, Some(at(7)));
    // Times are stored in milliseconds.
    let exact: Timestamp = "2026-02-02T10:00:00.123456789Z".parse().unwrap();
    let key = keep(
        store,
        event_of(EventRecord {
            timestamp: Some(exact),
            ..event_record("exact", "one")
        }),
    );
    let Some(Record::Event(read)) = record(store, key) else {
        panic!("an event");
    };
    let kept = read.timestamp.unwrap();
    assert_eq!(kept.to_string(), "2026-02-02T10:00:00.123Z");
    assert_eq!(text_of(store, key).at, kept.as_millisecond());
}

pub fn records_are_stored_all_or_none(store: &dyn Store) {
    keep(store, event("there", "one"));
    let good = || event("good", "@person:Ann");
    let bad = [
        (event("", "x"), "records[1].id: is empty"),
        (
            event_of(EventRecord {
                content: serde_json::Value::Null,
                ..event_record("e", "")
            }),
            "records[1].content: is null",
        ),
        (chunk("f", 0, " "), "records[1].text: is empty"),
        (
            relation_of(RelationRecord {
                id: String::new(),
                ..relation_record("a", "b", "c")
            }),
            "records[1].id: is empty",
        ),
        (
            event_of(EventRecord {
                supersedes: Some("nobody".to_owned()),
                ..event_record("e", "x")
            }),
            "records[1].supersedes: there is no event `nobody`",
        ),
    ];
    for (bad, said) in bad {
        let message = refused(store, &[good(), bad]);
        assert!(message.starts_with(said), "{message}");
    }
    let mut dangling = event("e", "@person:Ann");
    dangling.derived.links.push(Link {
        relation_type: "knows".to_owned(),
        from: 0,
        to: 1,
    });
    let message = refused(store, &[good(), dangling]);
    assert!(message.starts_with("records[1].links[0]"), "{message}");
    // The number of records does not matter.
    let mut many: Vec<_> = (0..1_000).map(|i| event(&format!("e{i}"), "x")).collect();
    many.push(event_of(EventRecord {
        supersedes: Some("nobody".to_owned()),
        ..event_record("e", "x")
    }));
    let message = refused(store, &many);
    let said = "records[1000].supersedes: there is no event `nobody`";
    assert!(message.starts_with(said), "{message}");
    assert_eq!(found(store), ["there"]);
}

pub fn a_record_ends_what_it_supersedes(store: &dyn Store) {
    let superseding = |id: &str, old: &str| EventRecord {
        supersedes: Some(old.to_owned()),
        timestamp: Some(at(20)),
        ..event_record(id, "new")
    };
    let end = |key: RecordKey| {
        let Some(Record::Event(read)) = record(store, key) else {
            panic!("an event");
        };
        let sketch = text_of(store, key).valid_to;
        assert_eq!(sketch, read.valid_to.map(Timestamp::as_millisecond));
        read.valid_to
    };
    let keys: Vec<RecordKey> = ["a", "b", "c", "d"]
        .iter()
        .map(|id| keep(store, event(id, "old")))
        .collect();
    let after = seq(store);
    // The validity ends at the start of the new record, else at its time, else
    // now.
    let begins = EventRecord {
        valid_from: Some(at(10)),
        ..superseding("a2", "a")
    };
    let untimed = EventRecord {
        timestamp: None,
        ..superseding("c2", "c")
    };
    let new = [
        event_of(begins),
        event_of(superseding("b2", "b")),
        event_of(untimed),
    ];
    remember(store, &new);
    assert_eq!(end(keys[0]), Some(at(10)));
    assert_eq!(end(keys[1]), Some(at(20)));
    assert_eq!(end(keys[2]), Some(at(100)));
    assert_eq!(end(keys[3]), None);
    assert!(changes(store, after).iter().any(|it| it.key == keys[0]));
    // Recording both again changes neither the old record nor the new one.
    let state = store.memory_state().unwrap();
    let its = remember(store, &[event("a", "old"), new[0].clone(), new[2].clone()]);
    assert!(its.iter().all(|it| matches!(it, Remembered::Unchanged(_))));
    assert_eq!(store.memory_state().unwrap(), state);
    // A superseded record remains superseded when it is replaced.
    remember(store, &[event("a", "old, but mended")]);
    assert_eq!(end(keys[0]), Some(at(10)));
    // The superseded record may come later in the call; it has the same kind.
    let its = remember(
        store,
        &[event_of(superseding("late2", "late")), event("late", "x")],
    );
    assert_eq!(end(its[1].key()), Some(at(20)));
    keep(store, pattern("only a pattern", "x"));
    let message = refused(store, &[event_of(superseding("x", "only a pattern"))]);
    assert!(message.contains("there is no event"), "{message}");
    let ann = keep(store, entity("ann", "person", "Ann", &[]));
    let new = EntityRecord {
        supersedes: Some("ann".to_owned()),
        ..entity_record("ann2", "person", "Ann")
    };
    remember(store, &[entity_of(new)]);
    let Some(Record::Entity(read)) = record(store, ann) else {
        panic!("an entity");
    };
    assert_eq!(read.valid_to, Some(at(100)));
}

pub fn superseding_never_extends_or_inverts_a_validity(store: &dyn Store) {
    let old = |id: &str, from, to| {
        event_of(EventRecord {
            valid_from: from,
            valid_to: to,
            ..event_record(id, "old")
        })
    };
    let keys = [
        keep(store, old("short", None, Some(at(5)))),
        keep(store, old("later", Some(at(50)), None)),
    ];
    for id in ["short", "later"] {
        let new = EventRecord {
            supersedes: Some(id.to_owned()),
            valid_from: Some(at(10)),
            ..event_record(&format!("{id}2"), "new")
        };
        remember(store, &[event_of(new)]);
    }
    let ends = keys.map(|key| text_of(store, key).valid_to);
    assert_eq!(ends, [5, 50].map(|s| Some(at(s).as_millisecond())));
    let Some(read) = record(store, keys[1]) else {
        panic!("is there");
    };
    read.check().unwrap();
}

pub fn changes_are_returned_in_order_and_in_pages(store: &dyn Store) {
    assert_eq!(changes(store, 0), []);
    assert_eq!(seq(store), 0);
    let keys: Vec<RecordKey> = (0..10)
        .map(|i| keep(store, event(&format!("e{i}"), "one")))
        .collect();
    let in_order = |limit| {
        let mut index = Index::default();
        index.poll(store, limit);
        index
    };
    let whole = in_order(usize::MAX);
    assert_eq!(whole.sketches.keys().copied().collect::<Vec<_>>(), keys);
    keep(store, event("e3", "two"));
    store.archive(&[keys[4]]).unwrap();
    forget(store, "e5");
    let mut polled = whole;
    polled.poll(store, 1);
    for limit in [1, 2, 3, 100] {
        assert_eq!(in_order(limit), polled, "{limit}");
    }
    assert_eq!(polled.sketches.len(), 8);
    // Each record appears once, with its last change: three changes are at the
    // end.
    let all = changes(store, 0);
    assert_eq!(all.len(), 10);
    let tail: Vec<RecordKey> = all[7..].iter().map(|change| change.key).collect();
    assert_eq!(tail, [keys[3], keys[4], keys[5]]);
    assert_eq!(all[8].sketch, None);
    assert_eq!(all[9].sketch, None);
    assert_eq!(changes(store, all[8].seq), all[9..]);
    assert_eq!(changes(store, all[9].seq), []);
    assert_eq!(changes(store, u64::MAX), []);
    assert_eq!(store.changes(0, 0).unwrap(), []);
}

pub fn mentions_create_entities_and_are_counted(store: &dyn Store) {
    let key = keep(store, event("e1", "@person:Ann at @org:Acme"));
    assert_eq!(
        found(store),
        ["e1 @person:ann @org:acme", "org:acme x1", "person:ann x1"]
    );
    let entity = text_of(store, key).mentions[0];
    let Some(Record::Entity(read)) = record(store, entity) else {
        panic!("an entity");
    };
    assert_eq!((&*read.name, &*read.entity_type), ("Ann", "person"));
    assert_eq!(read.mentions, 1);
    let after = seq(store);
    keep(store, chunk("f", 0, "@person:ANN"));
    assert_eq!(
        found(store),
        [
            "e1 @person:ann @org:acme",
            "f#0 @person:ann",
            "org:acme x1",
            "person:ann x2"
        ]
    );
    // The new count is a change that an index reads.
    assert!(changes(store, after).iter().any(|it| it.key == entity));
    let Some(Record::Entity(read)) = record(store, entity) else {
        panic!("an entity");
    };
    assert_eq!(read.mentions, 2);
}

pub fn mentions_of_replaced_texts_are_removed(store: &dyn Store) {
    keep(store, event("e1", "@person:Ann @org:Acme"));
    keep(store, event("e2", "@person:Ann"));
    keep(store, event("e1", "@person:Ann @org:Other"));
    assert_eq!(
        found(store),
        [
            "e1 @person:ann @org:other",
            "e2 @person:ann",
            "org:other x1",
            "person:ann x2"
        ]
    );
    keep(store, event("e1", "nobody"));
    assert_eq!(found(store), ["e1", "e2 @person:ann", "person:ann x1"]);
    // The same id appears twice in one call; its first version is never
    // visible.
    remember(store, &[event("e3", "@x:Gone"), event("e3", "@x:Here")]);
    assert_eq!(
        found(store),
        [
            "e1",
            "e2 @person:ann",
            "e3 @x:here",
            "person:ann x1",
            "x:here x1"
        ]
    );
}

pub fn a_mention_resolves_to_its_type_or_the_oldest_entity(store: &dyn Store) {
    keep(store, entity("m1", "place", "Mercury", &[]));
    keep(store, entity("m2", "metal", "Mercury", &["quicksilver"]));
    keep(store, event("e1", "@metal:Mercury"));
    keep(store, event("e2", "@god:Mercury"));
    keep(store, event("e3", "@thing:Quicksilver"));
    // Two names of one entity are one mention.
    keep(store, event("e4", "@metal:Mercury @metal:Quicksilver"));
    assert_eq!(
        found(store),
        ["e1 @m2", "e2 @m1", "e3 @m2", "e4 @m2", "m1 x1", "m2 x3"]
    );
}

pub fn mentions_are_added_to_an_entitys_own_count(store: &dyn Store) {
    let ann = |mentions| {
        entity_of(EntityRecord {
            mentions,
            ..entity_record("ann", "person", "Ann")
        })
    };
    // The texts of a call can mention its entities, in any order.
    let its = remember(store, &[event("e1", "@person:Ann"), ann(5)]);
    assert_eq!(found(store), ["ann x6", "e1 @ann"]);
    keep(store, event("e2", "@person:Ann"));
    assert_eq!(found(store), ["ann x7", "e1 @ann", "e2 @ann"]);
    assert_eq!(
        remember(store, &[ann(5)]),
        [Remembered::Unchanged(its[1].key())]
    );
    assert_eq!(
        remember(store, &[ann(1)]),
        [Remembered::Replaced(its[1].key())]
    );
    assert_eq!(found(store), ["ann x3", "e1 @ann", "e2 @ann"]);
    // An explicitly recorded entity remains without any text.
    forget(store, "e1");
    forget(store, "e2");
    assert_eq!(found(store), ["ann x1"]);
}

pub fn a_recorded_entity_replaces_a_derived_one(store: &dyn Store) {
    let text = keep(store, event("e1", "@person:Ann -works_at-> @org:Acme"));
    let [ann, acme] = text_of(store, text).mentions[..] else {
        panic!("two mentions");
    };
    // The entity is found by its id.
    let its = remember(store, &[entity("org:acme", "org", "ACME Inc", &["acme"])]);
    assert_eq!(its, [Remembered::Added(acme)]);
    // The entity is found by its name and type: derived relations follow.
    let its = remember(store, &[entity("a-1", "person", "Ann", &["Annie"])]);
    assert_eq!(its, [Remembered::Added(ann)]);
    assert_eq!(
        found(store),
        [
            "a-1 -works_at-> org:acme 0.5",
            "a-1 x1",
            "e1 @a-1 @org:acme",
            "org:acme x1"
        ]
    );
    keep(store, event("e2", "@person:Annie -works_at-> @org:acme"));
    assert_eq!(
        found(store),
        [
            "a-1 -works_at-> org:acme 0.75",
            "a-1 x2",
            "e1 @a-1 @org:acme",
            "e2 @a-1 @org:acme",
            "org:acme x2"
        ]
    );
    // The entity was recorded explicitly, and remains.
    forget(store, "e1");
    forget(store, "e2");
    assert_eq!(found(store), ["a-1 x0", "org:acme x0"]);
    // An explicit record with the derived values is enough.
    keep(store, event("e3", "@x:Y"));
    keep(store, entity("x:y", "x", "Y", &[]));
    forget(store, "e3");
    assert_eq!(found(store), ["a-1 x0", "org:acme x0", "x:y x0"]);
}

pub fn a_recorded_entity_merges_derived_ones_with_its_names(store: &dyn Store) {
    keep(store, event("e1", "@person:Robert -knows-> @person:Ann"));
    keep(store, event("e2", "@person:Bob -knows-> @person:Ann"));
    keep(store, event("e3", "@person:Bob @person:Robert"));
    keep(store, event("e4", "@dog:Bob"));
    let its = remember(store, &[entity("rob", "person", "Robert", &["Bob"])]);
    assert!(matches!(its[0], Remembered::Added(_)));
    // The dog is a mention of the oldest Bob, whatever its type is.
    assert_eq!(
        found(store),
        [
            "e1 @rob @person:ann",
            "e2 @rob @person:ann",
            "e3 @rob",
            "e4 @rob",
            "person:ann x2",
            "rob -knows-> person:ann 0.75",
            "rob x4"
        ]
    );
    for id in ["e1", "e2", "e3", "e4"] {
        forget(store, id);
    }
    assert_eq!(found(store), ["rob x0"]);
}

pub fn links_create_and_strengthen_relations(store: &dyn Store) {
    let told = "@person:Ann -knows-> @person:Bob";
    keep(store, event("e1", told));
    let weight = || -> Vec<String> {
        let mut lines = found(store);
        lines.retain(|line| line.contains("->"));
        lines
    };
    assert_eq!(weight(), ["person:ann -knows-> person:bob 0.5"]);
    keep(store, event("e2", told));
    assert_eq!(weight(), ["person:ann -knows-> person:bob 0.75"]);
    keep(store, chunk("f", 0, told));
    assert_eq!(weight(), ["person:ann -knows-> person:bob 0.875"]);
    // The opposite direction and other types are other relations.
    keep(store, event("e3", "@person:Bob -knows-> @person:Ann"));
    keep(store, event("e4", "@person:Ann -likes-> @person:Bob"));
    assert_eq!(weight().len(), 3);
    let id = "person:ann knows person:bob";
    let keys = store.record_keys(&[id]).unwrap();
    assert_eq!(keys.len(), 1);
    let Some(Record::Relation(read)) = record(store, keys[0].1) else {
        panic!("a relation");
    };
    assert_eq!(read.weight, Some(0.875));
    assert_eq!(read.evidence, ["e1", "e2", "f#0"]);
    assert_eq!(read.timestamp, Some(at(0)));
    // Replacing a text removes exactly its own mentions.
    keep(store, event("e1", "no longer"));
    forget(store, "f#0");
    assert_eq!(
        weight(),
        [
            "person:ann -knows-> person:bob 0.5",
            "person:ann -likes-> person:bob 0.5",
            "person:bob -knows-> person:ann 0.5"
        ]
    );
    for id in ["e2", "e3", "e4"] {
        forget(store, id);
    }
    assert_eq!(found(store), ["e1"]);
}

pub fn a_recorded_relation_is_strengthened_and_kept(store: &dyn Store) {
    keep(store, event("e1", "@person:Ann -knows-> @person:Bob"));
    let given = RelationRecord {
        weight: Some(0.2),
        evidence: vec!["e1".to_owned(), "e9".to_owned()],
        ..relation_record("person:ann", "knows", "person:bob")
    };
    let its = remember(store, &[relation_of(given)]);
    let key = its[0].key();
    assert_eq!(its, [Remembered::Added(key)]);
    keep(store, event("e2", "@person:Ann -knows-> @person:Bob"));
    let Some(Record::Relation(read)) = record(store, key) else {
        panic!("a relation");
    };
    // 1 - 0.8 / 4.
    assert!((read.weight.unwrap() - 0.8).abs() < 1e-9);
    assert_eq!(read.evidence, ["e1", "e9", "e2"]);
    forget(store, "e1");
    forget(store, "e2");
    assert_eq!(found(store), ["person:ann -knows-> person:bob 0.2"]);
    let Some(Record::Relation(read)) = record(store, key) else {
        panic!("a relation");
    };
    // A deleted record is no longer listed as evidence.
    assert_eq!(read.evidence, ["e9"]);
    // A relation can also name its ends by entity name.
    keep(store, entity("c", "person", "Carl", &[]));
    keep(store, relation_of(relation_record("carl", "knows", "c")));
    keep(store, event("e3", "@person:Carl"));
    let mut itself = event("e4", "@person:Carl");
    itself.derived.links.push(Link {
        relation_type: "knows".to_owned(),
        from: 0,
        to: 0,
    });
    keep(store, itself);
    let relations = found(store).iter().filter(|it| it.contains("->")).count();
    assert_eq!(relations, 2);
}

pub fn archived_records_are_not_found(store: &dyn Store) {
    let told = "@person:Ann -knows-> @person:Bob";
    let keys: Vec<RecordKey> = remember(store, &[event("e1", told), event("e2", "@person:Ann")])
        .iter()
        .map(|it| it.key())
        .collect();
    let (before, after) = (found(store), seq(store));
    store.archive(&[keys[0], 999_999]).unwrap();
    // Records that only this text mentions are archived with it.
    assert_eq!(found(store), ["e2 @person:ann", "person:ann x1"]);
    let gone = changes(store, after);
    assert_eq!(gone[0].key, keys[0]);
    assert_eq!(gone[0].sketch, None);
    // The record still exists.
    assert!(record(store, keys[0]).is_some());
    let named = store.record_keys(&["e1"]).unwrap();
    assert_eq!(named, [(RecordKind::Event, keys[0])]);
    let state = store.memory_state().unwrap();
    store.archive(&[keys[0]]).unwrap();
    assert_eq!(store.memory_state().unwrap(), state);
    // Recording it again restores it.
    let its = remember(store, &[event("e1", told)]);
    assert_eq!(its, [Remembered::Unchanged(keys[0])]);
    assert_eq!(found(store), before);
    // Replacing it also restores it.
    store.archive(&keys).unwrap();
    assert_eq!(found(store), Vec::<String>::new());
    let its = remember(store, &[event("e2", "@person:Bob")]);
    assert_eq!(its, [Remembered::Replaced(keys[1])]);
    assert_eq!(found(store), ["e2 @person:bob", "person:bob x1"]);
    // An archived record can be deleted.
    forget(store, "e1");
    assert_eq!(found(store), ["e2 @person:bob", "person:bob x1"]);
    assert_eq!(store.record_keys(&["person:ann"]).unwrap(), []);
    // Other kinds can be archived, too.
    let pattern_key = keep(store, pattern("p", "x"));
    let ann = keep(store, entity("ann", "person", "Ann", &[]));
    store.archive(&[pattern_key, ann]).unwrap();
    // A name still refers to an archived entity.
    keep(store, event("e3", "@person:Ann"));
    assert_eq!(found(store), ["e2 @person:bob", "e3 @ann", "person:bob x1"]);
    keep(store, entity("ann", "person", "Ann", &[]));
    keep(store, pattern("p", "x"));
    let all = found(store);
    assert!(all.contains(&"ann x1".to_owned()), "{all:?}");
    assert!(all.contains(&"pattern p".to_owned()), "{all:?}");
}

pub fn records_are_deleted_by_id(store: &dyn Store) {
    let told = "@person:Ann -knows-> @person:Bob";
    let key = keep(store, event("x", told));
    keep(store, pattern("x", "do it"));
    keep(store, event("y", "@person:Ann"));
    let after = seq(store);
    let only = Forget::Id {
        kind: Some(RecordKind::Event),
        id: "x".to_owned(),
    };
    let gone = store.forget(&only).unwrap().forgotten;
    let expected = [
        (RecordKind::Event, 1),
        (RecordKind::Entity, 1),
        (RecordKind::Relation, 1),
    ];
    assert_eq!(gone, BTreeMap::from(expected));
    assert_eq!(
        found(store),
        ["pattern x", "person:ann x1", "y @person:ann"]
    );
    assert_eq!(record(store, key), None);
    let gone = changes(store, after);
    assert!(gone.iter().any(|it| it.key == key && it.sketch.is_none()));
    // An index that never had the record reads its deletion without harm.
    let unknown = |what: &Forget| {
        let refused = store.forget(what).unwrap_err();
        assert!(matches!(refused, StoreError::NotFound { .. }), "{refused}");
    };
    unknown(&only);
    unknown(&Forget::Source("x".to_owned()));
    unknown(&Forget::Session("x".to_owned()));
    unknown(&Forget::User("x".to_owned()));
    assert_eq!(
        forget(store, "x"),
        BTreeMap::from([(RecordKind::Pattern, 1)])
    );
    // A key is never used again, but the id is free.
    let again = keep(store, event("x", told));
    assert!(again > key);
    assert!(!gone.iter().any(|it| it.key == again));
}

pub fn records_are_deleted_by_source_and_session(store: &dyn Store) {
    let of = |id: &str, session: &str, source: &str, text: &str| {
        event_of(EventRecord {
            session_id: Some(session.to_owned()),
            source: Some(source.to_owned()),
            ..event_record(id, text)
        })
    };
    let new = [
        of("e1", "s1", "log", "@person:Ann -knows-> @person:Bob"),
        of("e2", "s1", "mail", "@person:Bob"),
        of("e3", "s2", "log", "@person:Ann -knows-> @person:Bob"),
        chunk("log", 0, "@org:Acme"),
        chunk("s1", 0, "its source, not its session"),
    ];
    remember(store, &new);
    let gone = store
        .forget(&Forget::Source("log".to_owned()))
        .unwrap()
        .forgotten;
    let expected = [
        (RecordKind::Event, 2),
        (RecordKind::Chunk, 1),
        (RecordKind::Entity, 2),
        (RecordKind::Relation, 1),
    ];
    assert_eq!(gone, BTreeMap::from(expected));
    assert_eq!(found(store), ["e2 @person:bob", "person:bob x1", "s1#0"]);
    let gone = store
        .forget(&Forget::Session("s1".to_owned()))
        .unwrap()
        .forgotten;
    let expected = [(RecordKind::Event, 1), (RecordKind::Entity, 1)];
    assert_eq!(gone, BTreeMap::from(expected));
    assert_eq!(found(store), ["s1#0"]);
}

pub fn records_are_deleted_by_user(store: &dyn Store) {
    let of = |id: &str, user: Option<&str>, text: &str| {
        event_of(EventRecord {
            user: user.map(str::to_owned),
            ..event_record(id, text)
        })
    };
    let new = [
        of("e1", Some("ann"), "@person:Bob -knows-> @person:Carl"),
        of("e2", Some("ann"), "@person:Bob"),
        of("e3", Some("ben"), "@person:Bob"),
        of("e4", None, "@person:Carl"),
    ];
    remember(store, &new);
    let before = found(store);
    let ann = Forget::User("ann".to_owned());
    let gone = store.forget(&ann).unwrap().forgotten;
    // Entities of a user's texts are the user's own.
    let expected = [
        (RecordKind::Event, 2),
        (RecordKind::Entity, 2),
        (RecordKind::Relation, 1),
    ];
    assert_eq!(gone, BTreeMap::from(expected), "{before:?}");
    let left = found(store);
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(!left.iter().any(|row| row.contains("(ann)")), "{left:?}");
    let refused = store.forget(&ann).unwrap_err();
    assert!(matches!(refused, StoreError::NotFound { .. }), "{refused}");
}

pub fn mentions_of_a_deleted_entity_are_removed(store: &dyn Store) {
    let text = keep(store, event("e1", "@person:Ann -knows-> @person:Bob"));
    let after = seq(store);
    let gone = forget(store, "person:ann");
    let expected = [(RecordKind::Entity, 1), (RecordKind::Relation, 1)];
    assert_eq!(gone, BTreeMap::from(expected));
    assert_eq!(found(store), ["e1 @person:bob", "person:bob x1"]);
    assert!(changes(store, after).iter().any(|it| it.key == text));
    // The unchanged text does not restore her; another text does.
    let its = remember(store, &[event("e1", "@person:Ann -knows-> @person:Bob")]);
    assert_eq!(its, [Remembered::Unchanged(text)]);
    keep(store, event("e2", "@person:Ann"));
    assert_eq!(
        found(store),
        [
            "e1 @person:bob",
            "e2 @person:ann",
            "person:ann x1",
            "person:bob x1"
        ]
    );
}

pub fn references_to_deleted_records_are_removed(store: &dyn Store) {
    keep(store, event("old", "x"));
    let follows = EventRecord {
        parent_id: Some("old".to_owned()),
        supersedes: Some("old".to_owned()),
        ..event_record("new", "y")
    };
    let key = keep(store, event_of(follows.clone()));
    // A pattern has the same id.
    keep(store, pattern("old", "x"));
    let only = |kind| Forget::Id {
        kind: Some(kind),
        id: "old".to_owned(),
    };
    store.forget(&only(RecordKind::Pattern)).unwrap();
    assert_eq!(record(store, key), Some(Record::Event(follows)));
    store.forget(&only(RecordKind::Event)).unwrap();
    assert_eq!(record(store, key), Some(event("new", "y").record));
    let its = remember(store, &[event("new", "y")]);
    assert_eq!(its, [Remembered::Unchanged(key)]);
}

pub fn keys_are_found_by_id(store: &dyn Store) {
    let its = remember(
        store,
        &[event("x", "one"), pattern("x", "do it"), event("y", "two")],
    );
    let mut keys = store.record_keys(&["x", "nobody"]).unwrap();
    keys.sort();
    let expected = [
        (RecordKind::Event, its[0].key()),
        (RecordKind::Pattern, its[1].key()),
    ];
    assert_eq!(keys, expected);
    assert_eq!(store.record_keys(&[]).unwrap(), []);
    assert_eq!(store.record_keys(&["x", "y"]).unwrap().len(), 3);
}

pub fn texts_of_a_memory_use_one_analysis(store: &dyn Store) {
    assert_eq!(store.memory_state().unwrap().analysis, None);
    // Only texts are analysed.
    let other = Analysis {
        words: 9,
        embedder: Some(embedder("other")),
    };
    store
        .remember(
            &[pattern("p", "x"), entity("a", "x", "A", &[])],
            &other,
            at(0),
        )
        .unwrap();
    assert_eq!(store.memory_state().unwrap().analysis, None);
    let bare = |id: &str| NewRecord {
        derived: Derived {
            words: Some(Vec::new()),
            ..Derived::default()
        },
        ..event(id, "x")
    };
    let none = Analysis {
        words: 1,
        embedder: None,
    };
    store.remember(&[bare("e1")], &none, at(0)).unwrap();
    assert_eq!(store.memory_state().unwrap().analysis, Some(none.clone()));
    // A memory without an embedder uses the first one. Texts without vectors
    // are always accepted.
    keep(store, event("e2", "x"));
    assert_eq!(store.memory_state().unwrap().analysis, Some(analysis()));
    store.remember(&[bare("e3")], &none, at(0)).unwrap();
    assert_eq!(store.memory_state().unwrap().analysis, Some(analysis()));
    let refused = |analysis: &Analysis| {
        let refused = store.remember(&[event("e4", "x")], analysis, at(0));
        refused.unwrap_err().to_string()
    };
    let said = refused(&Analysis {
        words: 1,
        embedder: Some(embedder("other")),
    });
    for part in [MODEL, "other", "`memory reembed`", "3 dimensions"] {
        assert!(said.contains(part), "{said}");
    }
    let mut longer = analysis();
    longer.embedder.as_mut().unwrap().dimensions = 4;
    assert!(refused(&longer).contains("4 dimensions"));
    let said = refused(&Analysis {
        words: 2,
        ..analysis()
    });
    assert!(said.contains("version 1") && said.contains('2'), "{said}");
    // A vector needs an embedder.
    let said = store.remember(&[event("e4", "x")], &none, at(0));
    let said = said.unwrap_err().to_string();
    assert!(said.starts_with("records[0].vector"), "{said}");
    assert_eq!(store.record_keys(&["e4"]).unwrap(), []);
    assert!(
        text_of(store, store.record_keys(&["e1"]).unwrap()[0].1)
            .vector
            .is_none()
    );
}

pub fn new_vectors_are_stored_next_to_the_old_ones(store: &dyn Store) {
    let new: Vec<NewRecord> = (0..5).map(|i| event(&format!("e{i}"), "text")).collect();
    let keys: Vec<RecordKey> = remember(store, &new).iter().map(|it| it.key()).collect();
    keep(store, pattern("p", "x"));
    keep(store, entity("a", "x", "A", &[]));
    store.archive(&keys[4..]).unwrap();
    let (old, next) = (embedder(MODEL), embedder("next"));
    let without = |of: &EmbedderInfo| store.unembedded(of, 0, usize::MAX).unwrap();
    assert!(without(&old).is_empty());
    assert_eq!(without(&next), keys[..4]);
    assert_eq!(store.unembedded(&next, keys[0], 2).unwrap(), keys[1..3]);
    // Half of the vectors are written, then the work is interrupted: nothing is
    // visible.
    let state = store.memory_state().unwrap();
    let half: Vec<_> = keys[..2].iter().map(|key| (*key, vec![7])).collect();
    store.put_vectors(&next, &half).unwrap();
    assert_eq!(store.memory_state().unwrap(), state);
    assert_eq!(text_of(store, keys[0]).vector, Some(vec![4, 1]));
    assert_eq!(without(&next), keys[2..4]);
    // Texts can still be recorded; one of them replaces another.
    let late = keep(store, event("late", "x"));
    keep(store, event("e0", "said anew"));
    assert_eq!(without(&next), [keys[0], keys[2], keys[3], late]);
    let rest: Vec<_> = [keys[0], keys[2], keys[3], 999_999]
        .iter()
        .map(|key| (*key, vec![8]))
        .collect();
    store.put_vectors(&next, &rest).unwrap();
    let after = seq(store);
    store.use_embedder(&next).unwrap();
    let in_use = store.memory_state().unwrap().analysis.unwrap().embedder;
    assert_eq!(in_use, Some(next.clone()));
    // Every text is a change; a text that was left out has no vector.
    let changed: Vec<RecordKey> = changes(store, after).iter().map(|it| it.key).collect();
    for key in [keys[0], keys[1], keys[2], keys[3], late] {
        assert!(changed.contains(&key));
    }
    let vectors: Vec<_> = [keys[0], keys[1], late]
        .map(|key| text_of(store, key).vector)
        .into();
    assert_eq!(vectors, [Some(vec![8]), Some(vec![7]), None]);
    assert_eq!(without(&next), [late]);
    assert_eq!(store.memory_stats().unwrap().unembedded, 1);
    // The old vectors are deleted.
    assert_eq!(without(&old).len(), 5);
    // Vectors of the current embedder are visible at once.
    let after = seq(store);
    store.put_vectors(&next, &[(late, vec![9])]).unwrap();
    assert_eq!(changes(store, after).len(), 1);
    assert_eq!(text_of(store, late).vector, Some(vec![9]));
    let state = store.memory_state().unwrap();
    store.use_embedder(&next).unwrap();
    assert_eq!(store.memory_state().unwrap(), state);
}

/// Vectors of the second generation are filled in later, newest text first.
pub fn later_vectors_are_computed_after_recording(store: &dyn Store) {
    assert_eq!(store.memory_state().unwrap().later, LaterState::default());
    assert_eq!(store.pending(9).unwrap(), []);
    let new: Vec<NewRecord> = (0..5).map(|i| event(&format!("e{i}"), "text")).collect();
    let keys: Vec<RecordKey> = remember(store, &new).iter().map(|it| it.key()).collect();
    keep(store, pattern("p", "x"));
    keep(store, entity("a", "x", "A", &[]));
    let slow = embedder("slow");
    let later = || store.memory_state().unwrap().later;
    let counts = || (later().current, later().pending);
    let waiting = || -> Vec<RecordKey> {
        let pending = store.pending(usize::MAX).unwrap();
        pending.iter().map(|text| text.key).collect()
    };
    assert_eq!(counts(), (0, 5));
    let newest: Vec<RecordKey> = keys.iter().rev().copied().collect();
    assert_eq!(waiting(), newest);
    // Such vectors are not changes of the memory, and are read in their order.
    let (before, state) = (store.pending(2).unwrap(), seq(store));
    let put = |texts: &[PendingText], byte: u8| {
        let vectors: Vec<_> = texts.iter().map(|text| (*text, vec![byte])).collect();
        store.put_later(&slow, &vectors).unwrap();
    };
    put(&before, 7);
    assert_eq!(seq(store), state);
    assert_eq!((counts(), later().embedder), ((2, 3), Some(slow.clone())));
    assert_eq!(text_of(store, keys[4]).later, Some(vec![7]));
    assert_eq!(text_of(store, keys[0]).later, None);
    let found = store.later_vectors(0, 9).unwrap();
    let found: Vec<_> = found.iter().map(|it| (it.key, &*it.vector)).collect();
    assert_eq!(found, [(keys[4], &[7][..]), (keys[3], &[7])]);
    // A text that was replaced since it was read does not get the vector of the
    // old text.
    let read = store.pending(9).unwrap();
    keep(store, event("e2", "said anew"));
    keep(store, event("e4", "said anew"));
    assert_eq!(counts(), (1, 4));
    assert_eq!(text_of(store, keys[4]).later, None);
    put(&read, 8);
    assert_eq!(waiting(), [keys[4], keys[2]]);
    assert_eq!(counts(), (3, 2));
    // Archived and deleted texts are not pending.
    store.archive(&[keys[4], keys[3]]).unwrap();
    assert_eq!(counts(), (2, 1));
    keep(store, event("e3", "text"));
    assert_eq!((waiting(), counts()), (vec![keys[3], keys[2]], (2, 2)));
    let id = |id: &str| Forget::Id {
        kind: None,
        id: id.to_owned(),
    };
    store.forget(&id("e0")).unwrap();
    store.forget(&id("e2")).unwrap();
    assert_eq!((waiting(), counts()), (vec![keys[3]], (1, 1)));
    assert_eq!(store.later_vectors(0, 9).unwrap().len(), 1);
    // Another embedder starts with no vectors.
    let after = later().seq;
    store.put_later(&embedder("slower"), &[]).unwrap();
    assert_eq!(later().embedder, Some(embedder("slower")));
    assert!(later().seq > after);
    assert_eq!((waiting(), counts()), (vec![keys[3], keys[1]], (0, 2)));
    // The first generation is independent.
    store.use_embedder(&embedder("next")).unwrap();
    assert_eq!(later().embedder, Some(embedder("slower")));
    assert_eq!(counts(), (0, 2));
}

pub fn a_vector_that_was_missing_is_filled_in(store: &dyn Store) {
    let whole = event("e", "text");
    let bare = NewRecord {
        derived: Derived {
            vector: None,
            ..whole.derived.clone()
        },
        ..whole.clone()
    };
    let key = keep(store, bare.clone());
    assert_eq!(store.memory_stats().unwrap().unembedded, 1);
    let after = seq(store);
    let its = remember(store, &[whole]);
    assert_eq!(its, [Remembered::Unchanged(key)]);
    assert_eq!(changes(store, after).len(), 1);
    assert!(text_of(store, key).vector.is_some());
    // Recording without a vector removes nothing.
    remember(store, &[bare]);
    assert!(text_of(store, key).vector.is_some());
}

pub fn words_are_replaced_by_a_new_version(store: &dyn Store) {
    let its = remember(
        store,
        &[event("e1", "one"), event("e2", "two"), pattern("p", "x")],
    );
    let [one, two, pattern] = its[..] else {
        panic!("three");
    };
    let words = |it: Remembered| text_of(store, it.key()).words;
    let after = seq(store);
    store
        .put_words(1, &[(one.key(), b"uno".to_vec()), (999_999, Vec::new())])
        .unwrap();
    assert_eq!(changes(store, after).len(), 1);
    assert_eq!(words(one), Some(b"uno".to_vec()));
    assert_eq!(words(two), Some(b"two".to_vec()));
    // After a change of the rules, old words are removed.
    let after = seq(store);
    store
        .put_words(
            2,
            &[(one.key(), b"eins".to_vec()), (pattern.key(), Vec::new())],
        )
        .unwrap();
    assert_eq!(changes(store, after).len(), 2);
    assert_eq!(words(one), Some(b"eins".to_vec()));
    assert_eq!(words(two), None);
    assert_eq!(store.memory_state().unwrap().analysis.unwrap().words, 2);
    store
        .put_words(2, &[(two.key(), b"zwei".to_vec())])
        .unwrap();
    assert_eq!(words(two), Some(b"zwei".to_vec()));
}

pub fn records_are_counted_by_kind(store: &dyn Store) {
    assert_eq!(
        store.memory_stats().unwrap(),
        contexture_store::MemoryStats::default()
    );
    let of = |id: &str, session: &str| EventRecord {
        session_id: Some(session.to_owned()),
        source: Some("log".to_owned()),
        ..event_record(id, "@person:Ann")
    };
    let ended = EventRecord {
        valid_to: Some(at(9)),
        ..of("e3", "s2")
    };
    let new = [
        event_of(of("e1", "s1")),
        event_of(of("e2", "s1")),
        event_of(ended),
        chunk("file", 0, "x"),
        pattern("p", "x"),
    ];
    let keys: Vec<RecordKey> = remember(store, &new).iter().map(|it| it.key()).collect();
    store.archive(&keys[1..2]).unwrap();
    let stats = store.memory_stats().unwrap();
    let kinds: Vec<(RecordKind, u64, u64, u64)> = stats
        .kinds
        .iter()
        .map(|(kind, it)| (*kind, it.live, it.ended, it.archived))
        .collect();
    let expected = [
        (RecordKind::Event, 2, 1, 1),
        (RecordKind::Chunk, 1, 0, 0),
        (RecordKind::Entity, 1, 0, 0),
        (RecordKind::Pattern, 1, 0, 0),
    ];
    assert_eq!(kinds, expected);
    assert_eq!((stats.sessions, stats.sources, stats.unembedded), (2, 2, 0));
    assert!(stats.bytes > 100, "{}", stats.bytes);
    check_kinds(store);
    let id = "e1".to_owned();
    store.forget(&Forget::Id { kind: None, id }).unwrap();
    check_kinds(store);
}

/// Checks that the stored counts equal the counted records.
fn check_kinds(store: &dyn Store) {
    let mut kept = store.record_counts().unwrap();
    kept.retain(|_, live| *live > 0);
    let stats = store.memory_stats().unwrap().kinds.into_iter();
    let counted: BTreeMap<RecordKind, u64> = stats
        .filter(|(kind, it)| *kind != RecordKind::Task && it.live > 0)
        .map(|(kind, it)| (kind, it.live))
        .collect();
    assert_eq!(kept, counted);
}

pub fn records_are_listed_in_pages(store: &dyn Store) {
    let of = |id: &str, user: &str, session: &str| {
        event_of(EventRecord {
            user: Some(user.to_owned()),
            session_id: Some(session.to_owned()),
            ..event_record(id, "@person:Ann")
        })
    };
    let new = [
        of("e1", "ann", "s1"),
        of("e2", "ben", "s1"),
        of("e3", "ann", "s2"),
        of("e4", "ann", "s1"),
        chunk("file", 0, "x"),
        entity("p", "person", "Pim", &[]),
    ];
    remember(store, &new);
    let ids = |what: &RecordList, after: RecordKey, limit: usize| -> Vec<String> {
        let keys = store.list(what, after, limit).unwrap();
        let records = store.records(&keys).unwrap().into_iter().flatten();
        records.map(|record| record.id().to_owned()).collect()
    };
    let all = RecordList::default();
    // Derived entities are not listed. Recorded ones come first.
    assert_eq!(ids(&all, 0, 99).len(), 6);
    assert!(!ids(&all, 0, 99).iter().any(|id| id.contains("ann")));
    let first = store.list(&all, 0, 4).unwrap();
    let rest = store.list(&all, first[3], 4).unwrap();
    assert_eq!((first.len(), rest.len()), (4, 2));
    let of_user = RecordList {
        user: Some("ann".to_owned()),
        ..RecordList::default()
    };
    assert_eq!(ids(&of_user, 0, 99), ["e1", "e3", "e4"]);
    let of_session = RecordList {
        session: Some("s1".to_owned()),
        ..of_user
    };
    assert_eq!(ids(&of_session, 0, 99), ["e1", "e4"]);
    let of_source = RecordList {
        kind: Some(RecordKind::Chunk),
        source: Some("file".to_owned()),
        ..RecordList::default()
    };
    assert_eq!(ids(&of_source, 0, 99), ["file#0"]);
}

pub fn mentions_resolve_inside_the_scope_of_their_user(store: &dyn Store) {
    let of = |id: &str, user: Option<&str>| {
        event_of(EventRecord {
            user: user.map(str::to_owned),
            ..event_record(id, "@person:Ann")
        })
    };
    let new = [
        of("e1", Some("x")),
        of("e2", Some("y")),
        of("e3", None),
        of("e4", Some("x")),
    ];
    let keys: Vec<RecordKey> = remember(store, &new).iter().map(|it| it.key()).collect();
    let meant: Vec<RecordKey> = keys
        .iter()
        .map(|key| text_of(store, *key).mentions[0])
        .collect();
    assert_eq!(meant[0], meant[3]);
    assert!(meant[0] != meant[1] && meant[1] != meant[2] && meant[0] != meant[2]);
    // An entity that is recorded for all users is visible to each.
    remember(store, &[entity("b", "person", "Bob", &[])]);
    let told = event_of(EventRecord {
        user: Some("x".to_owned()),
        ..event_record("e5", "@person:Bob")
    });
    let key = remember(store, &[told])[0].key();
    let bob = store.record_keys(&["b"]).unwrap()[0].1;
    assert_eq!(text_of(store, key).mentions, [bob]);
}

/// An index that is updated equals one that is built from scratch.
pub fn an_updated_index_equals_a_rebuilt_one(store: &dyn Store) {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let names = ["Ann", "Bob", "Carl", "Dora"];
    let mut kept = Index::default();
    for step in 0..400 {
        let mut name = || names[below(4) as usize];
        let (a, b) = (name(), name());
        let id = format!("e{}", below(12));
        match below(10) {
            0..=3 => {
                let text = format!("{step} @person:{a} -knows-> @person:{b}");
                let session = format!("s{}", below(3));
                let new = EventRecord {
                    session_id: Some(session),
                    ..event_record(&id, &text)
                };
                remember(store, &[event_of(new), chunk(a, below(3) as u32, b)]);
            }
            4 => {
                let new = [event(&id, &format!("@person:{a} @org:{b}"))];
                remember(store, &new);
            }
            5 => {
                let new = [entity(&a.to_lowercase(), "person", a, &[b])];
                remember(store, &new);
            }
            6 => {
                remember(store, &[relation_of(relation_record(a, "likes", b))]);
            }
            7 | 8 => {
                let keys: Vec<RecordKey> = store
                    .record_keys(&[&id, &format!("{a}#0"), "person:ann"])
                    .unwrap()
                    .iter()
                    .map(|(_, key)| *key)
                    .collect();
                store.archive(&keys).unwrap();
            }
            _ => {
                let what = match below(4) {
                    0 => Forget::Session(format!("s{}", below(3))),
                    1 => Forget::Source(a.to_owned()),
                    2 => Forget::Id {
                        kind: None,
                        id: a.to_lowercase(),
                    },
                    _ => Forget::Id { kind: None, id },
                };
                match store.forget(&what) {
                    Ok(_) | Err(StoreError::NotFound { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        kept.poll(store, 1 + below(5) as usize);
        if step % 10 == 0 {
            let mut anew = Index::default();
            anew.poll(store, 3);
            assert_eq!(kept, anew, "after step {step}");
            check_counts(store, &anew);
            check_kinds(store);
        }
    }
}

/// Checks that the derived records follow from the texts.
fn check_counts(store: &dyn Store, index: &Index) {
    let mut mentions: BTreeMap<RecordKey, u64> = BTreeMap::new();
    for sketch in index.sketches.values() {
        if let Sketch::Text(text) = sketch {
            for entity in &text.mentions {
                *mentions.entry(*entity).or_default() += 1;
            }
        }
    }
    for (key, sketch) in &index.sketches {
        let counted = mentions.get(key).copied().unwrap_or(0);
        let read = record(store, *key).unwrap();
        read.check().unwrap();
        if let (Sketch::Entity(entity), Record::Entity(read)) = (sketch, read) {
            assert_eq!(entity.mentions, counted, "{}", entity.id);
            assert_eq!(read.mentions, counted, "{}", entity.id);
            assert_eq!(read.id, entity.id);
        }
    }
}

pub fn concurrent_records_are_all_stored(store: &dyn Store) {
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for i in 0..20 {
                    let text = format!("{writer} {i} @person:Ann -knows-> @person:W{writer}");
                    let new = [event(&format!("e{writer}-{i}"), &text), event("all", &text)];
                    remember(store, &new);
                }
            });
        }
        scope.spawn(|| {
            let mut index = Index::default();
            while index.sketches.len() < 4 * 20 + 1 + 5 + 4 {
                for change in store.changes(index.seq, 3).unwrap() {
                    assert!(change.seq > index.seq);
                    index.seq = change.seq;
                    if let Some(sketch) = change.sketch {
                        index.sketches.insert(change.key, sketch);
                    }
                }
            }
        });
    });
    let ann = "person:ann x81".to_owned();
    assert!(found(store).contains(&ann), "{:?}", found(store));
}
