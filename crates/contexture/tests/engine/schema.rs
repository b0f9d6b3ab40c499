//! The schemas accept exactly the values that the engine accepts and returns.

use crate::support::Lab;
use contexture::loom::{FlagChange, LoomSummary, NewNode, NodeEdit, check_agent};
use contexture::memory::{
    Context, ContextFilters, ContextRequest, MemoryOverview, MemoryRecorded, Recall,
};
use contexture::schema::{input, output};
use contexture::snapshot::{Comparison, Contents, Saved, find};
use contexture::store::{Agent, EventRecord, Forget, Forgotten, Record, TaskRecord, TreeDocument};
use contexture::working_set::actions::{Action, Changed, parse};
use contexture::working_set::{Hints, Manifest, WorkingSet, expand};
use contexture::{
    AssembledForm, CompactRequest, Event, FileTokens, RecipeInfo, Request, SessionCost, StackInfo,
    TaskChanged, Timestamp, TokenCounts,
};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn validator(schema: &Schema) -> jsonschema::Validator {
    jsonschema::draft202012::new(schema.as_value()).unwrap()
}

/// Checks that both the schema and the code take `value`.
fn taken<T: JsonSchema + DeserializeOwned>(value: Value, check: impl Fn(&T) -> bool) -> T {
    let by_schema = validator(&input().into_root_schema_for::<T>());
    if let Err(error) = by_schema.validate(&value) {
        panic!("the schema refuses {value}: {error}");
    }
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{value}: {e}"));
    assert!(check(&read), "the code refuses {value}");
    read
}

/// Checks that neither takes `value`.
fn refused<T: JsonSchema + DeserializeOwned>(value: Value, check: impl Fn(&T) -> bool) {
    let by_schema = validator(&input().into_root_schema_for::<T>());
    assert!(!by_schema.is_valid(&value), "the schema takes {value}");
    if let Ok(read) = serde_json::from_value::<T>(value.clone()) {
        assert!(!check(&read), "the code takes {value}");
    }
}

/// Checks that `value` matches the schema of outputs.
fn given<T: JsonSchema + Serialize>(value: &T) {
    let value = serde_json::to_value(value).unwrap();
    let schema = output().into_root_schema_for::<T>();
    if let Err(error) = validator(&schema).validate(&value) {
        panic!("not as the schema says: {value:#}: {error}");
    }
}

fn anything<T>(_: &T) -> bool {
    true
}

#[test]
fn an_event() {
    let check = |event: &Event| event.check("the event").is_ok();
    for event in [
        json!({"content": "Hello"}),
        json!({"content": "…", "timezone": "Europe/Berlin", "platform": "slack",
               "platform_actions": ["reply", "react"],
               "hooks": [{"name": "calendar", "content": "…"}], "sender": {"name": "Ana"},
               "attachments": [], "source": "human", "id": "e1"}),
        json!({"content": "", "attachments": [{"path": "a.txt", "lines": [1, 9]}]}),
        json!({"content": "x", "attachments": [{"content": "a text", "name": "n"},
            {"data": "AAAA", "media_type": "image/png", "url": null},
            {"url": "https://a.example", "media_type": "image/png"}]}),
    ] {
        taken(event, check);
    }
    let with = |attachment: Value| json!({"content": "x", "attachments": [attachment]});
    for event in [
        json!({}),
        json!({"content": " "}),
        json!({"content": "", "attachments": []}),
        json!({"content": "x", "mood": "good"}),
        json!({"content": "x", "source": "dog"}),
        json!({"content": "x", "sender": {"nick": "a"}}),
        json!({"content": "x", "hooks": [{"name": "calendar"}]}),
        with(json!({})),
        with(json!({"path": "a", "content": "b"})),
        with(json!({"data": "AAAA"})),
        with(json!({"url": "b", "media_type": null})),
        with(json!({"path": "a", "lines": [0, 1]})),
        with(json!({"path": "a", "lines": [1]})),
        with(json!({"content": "a", "lines": [1, 2]})),
    ] {
        refused(event, check);
    }
}

#[test]
fn queries_to_memory() {
    let lab = Lab::new("");
    let memory = lab.engine.memory().unwrap();
    let check = |request: &ContextRequest| memory.recall(request, &Recall::default()).is_ok();
    taken(json!({"query": "x", "max_tokens": 100}), check);
    taken(
        json!({"max_tokens": 1, "strategy": {"budget": {"recent": 10}}, "archetype": null,
               "filters": {"since": 0, "event_types": ["a"], "exclude": [], "task_id": null}}),
        check,
    );
    refused(json!({"query": "x"}), check);
    refused(json!({"max_tokens": 0}), check);
    refused(json!({"max_tokens": -1}), check);
    refused(json!({"max_tokens": 9, "words": 1}), check);
    refused(
        json!({"max_tokens": 9, "strategy": {"depth_limit": 99}}),
        check,
    );
    let since = |since: Value| json!({"since": since});
    taken(
        since(json!("2026-01-31T12:00:00Z")),
        anything::<ContextFilters>,
    );
    refused(since(json!(true)), anything::<ContextFilters>);
    refused(json!({"exclude": null}), anything::<ContextFilters>);
}

#[test]
fn nodes_and_agents() {
    let lab = Lab::new("");
    let tree = json!({"tree": {"id": "t", "mode": "dialogue"}});
    let tree: TreeDocument = serde_json::from_value(tree).unwrap();
    lab.engine.import_tree(&tree, None).unwrap();
    let root = json!({"id": "n1", "author": "human", "content": "Hello"});
    let root = taken(root, anything::<NewNode>);
    given(&lab.engine.add_node("t", &root, None).unwrap());
    let check = |node: &NewNode| lab.engine.add_node("t", node, None).is_ok();
    for node in [
        json!({"author": "model", "agent": null, "content": "Hi", "after": ["n1"]}),
        json!({"author": "human", "content": [{"type": "text", "text": "Look"}], "after": ["n1"],
               "kind": "annotation",
               "material": [{"role": "instruction", "content": "Be brief."}],
               "raw_response": {"body": {"id": 1}}}),
        json!({"author": "human", "content": "x", "after": ["n1"],
               "material": [{"role": "context", "node_id": "n1", "content": null}]}),
    ] {
        // A node is a source of an edge once.
        let twice = node["material"][0]["node_id"] == json!("n1");
        taken(node, |node| check(node) != twice);
    }
    let with = |field: &str, value: Value| {
        let mut node = json!({"author": "human", "content": "x", "after": ["n1"]});
        node[field] = value;
        node
    };
    for node in [
        json!({"content": "x"}),
        json!({"author": "human"}),
        with("content", json!([])),
        with("content", json!([{"type": "thinking", "text": "x"}])),
        with("id", json!(" ")),
        with("kind", json!("arrow")),
        with("after", json!("n1")),
        with("material", json!([{"role": "context"}])),
        with("material", json!([{"content": "x"}])),
        with(
            "material",
            json!([{"role": "context", "node_id": "a", "content": "b"}]),
        ),
        with("colour", json!(1)),
    ] {
        refused(node, check);
    }
    let check = |edit: &NodeEdit| lab.engine.edit_node("t", "n1", edit, None).is_ok();
    taken(
        json!({"content": "Hello!", "author": "model", "agent": null}),
        check,
    );
    refused(json!({"author": "model"}), check);
    refused(json!({"content": "x", "after": []}), check);
    let flags = taken(
        json!({"bookmarked": true, "pruned": null}),
        anything::<FlagChange>,
    );
    given(&lab.engine.flag_node("t", "n1", flags).unwrap());
    refused(json!({"gone": true}), anything::<FlagChange>);
    given(&lab.engine.save_path("t", "main", "n1", &[]).unwrap());

    let agent = |parameters: Value| json!({"id": "a", "type": "model", "parameters": parameters});
    let check = |agent: &Agent| check_agent(agent).is_ok();
    for parameters in [
        json!({}),
        json!({"temperature": 1, "top_p": null, "top_k": 3, "stop": "END", "seed": -1,
               "frequency_penalty": 0.5, "presence_penalty": -0.5, "max_tokens": 9}),
        json!({"stop": ["a"]}),
    ] {
        taken(agent(parameters), check);
    }
    for parameters in [
        json!({"warmth": 1}),
        json!({"temperature": "hot"}),
        json!({"top_k": 0.5}),
        json!({"stop": [1]}),
        json!({"max_tokens": -1}),
    ] {
        refused(agent(parameters), check);
    }
}

#[test]
fn changes_to_the_working_set() {
    let add = json!({"action": "add_to_working_set", "path": "src/a.rs#L10-L80", "priority": 0.5,
                     "why": "it is asked about", "role": "context", "truncate_strategy": "middle",
                     "max_lines": 40});
    let adjust = json!({"action": "adjust_priority", "path": "a", "priority": 1, "why": "w"});
    let remove = json!({"action": "remove_from_working_set", "path": "a/..b", "why": "w"});
    for action in [&add, &adjust, &remove] {
        let read = taken(action.clone(), anything::<Action>);
        // The same as from the file that a model writes.
        assert_eq!(parse("f", &action.to_string()).unwrap(), vec![read.clone()]);
        given(&read);
        given(&Changed {
            manifest: "working-set.yml",
            changes: &[read],
        });
    }
    let with = |action: &Value, field: &str, value: Value| {
        let mut action = action.clone();
        action[field] = value;
        action
    };
    for action in [
        with(&add, "action", json!("add")),
        with(&add, "priority", json!(1.5)),
        with(&add, "priority", json!("high")),
        with(&add, "role", json!("assistant")),
        with(&add, "truncate_strategy", json!("sides")),
        with(&add, "max_lines", json!(0)),
        with(&add, "colour", json!("red")),
        with(&add, "why", json!(" ")),
        with(&add, "path", json!("")),
        with(&add, "path", json!("/etc/passwd")),
        with(&add, "path", json!("a/../../b")),
        with(&add, "path", json!("a\u{0}")),
        with(&adjust, "priority", Value::Null),
        json!({"action": "remove_from_working_set", "path": "a"}),
    ] {
        let lab = Lab::new("");
        lab.write(
            "working-set.yml",
            "protocol: CONTEXT-ASSEMBLY/0.1\nfiles: []\n",
        );
        refused(action, |action: &Action| {
            let target = contexture::working_set::actions::Target {
                root: &lab.root,
                manifest: "working-set.yml",
                session: None,
                quota: contexture::working_set::Quota {
                    max_entries: 9,
                    max_actions: 9,
                },
                now: Timestamp::UNIX_EPOCH,
            };
            let actor = contexture::working_set::actions::Actor::User;
            let actions = std::slice::from_ref(action);
            contexture::working_set::actions::apply(target, actions, actor).is_ok()
        });
    }
    let lab = Lab::new("");
    lab.write(
        "working-set.yml",
        "protocol: CONTEXT-ASSEMBLY/0.1\nbudget:\n  max_tokens: 900\nfiles:\n\
         - path: AGENTS.md\n  priority: 1.0\n  truncate_strategy: never\n\
         - path: none.txt\n  priority: 0.2\n",
    );
    let manifest = Manifest::read(&lab.root, "working-set.yml").unwrap();
    let hints = Hints::read(&lab.root, manifest.dir()).unwrap();
    let candidates = expand(&lab.root, &manifest, &mut Vec::new()).unwrap();
    let listed = WorkingSet::of(&lab.root, &manifest, &hints, &candidates);
    assert_eq!(listed.files.len(), 2);
    given(&listed);
}

#[test]
fn a_conversation_from_end_to_end() {
    let lab = Lab::new("model = \"claude-sonnet-4-5\"");
    lab.session("s");
    lab.write(
        "tools.json",
        r#"[{"name":"shell","description":"runs it"}]"#,
    );
    let turn = json!({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "See"},
            {"type": "image", "media_type": "image/png", "data": crate::support::PIXEL}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "text": "Hm", "signature": "s"},
            {"type": "tool_call", "id": "c", "name": "shell", "arguments": {"command": "make"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "no", "is_error": true},
        {"role": "assistant", "content": "It fails."}],
        "model": "claude-sonnet-4-5", "usage": {"input_tokens": 9, "output_tokens": 1}});
    for _ in 0..8 {
        let turn = serde_json::from_value(turn.clone()).unwrap();
        given(&lab.engine.record("s", &turn, None).unwrap());
    }
    let request = |event: &str| Request {
        recipe: Some("broker".into()),
        session: Some("s".to_owned()),
        event: Some(Event::from(event)),
        ..Request::default()
    };
    let before = lab
        .engine
        .assemble(&lab.root, &request("And now?"))
        .unwrap();
    assert_eq!(
        before.to_json(),
        serde_json::to_value(before.form()).unwrap()
    );
    given::<AssembledForm<'_>>(&before.form());
    let now = lab
        .engine
        .assemble(&lab.root, &request("And then?"))
        .unwrap();
    given(&now.form());
    given(&now.report);

    let store = lab.engine.store().unwrap();
    let saved = |hash: &Option<String>| {
        let snapshot = find(store, hash.as_deref().unwrap()).unwrap();
        given(&snapshot);
        Saved::load(store, &snapshot).unwrap()
    };
    let (before, now) = (saved(&before.snapshot), saved(&now.snapshot));
    given::<Contents<'_>>(&now.contents());
    assert_eq!(
        now.to_json()["blocks"].as_array().unwrap().len(),
        now.blocks()
    );
    let (before, now) = (before.hash.to_string(), now.hash.to_string());
    given::<Comparison>(&lab.engine.compare(&before, &now).unwrap());

    let compact = taken(
        json!({"focus": "the build", "max_tokens": 4000, "now": 1_900_000_000_000_i64}),
        anything::<CompactRequest>,
    );
    refused(json!({"topic": "x"}), anything::<CompactRequest>);
    given(
        &lab.engine
            .compact("s", &compact)
            .unwrap()
            .compacted()
            .unwrap(),
    );
    given(&lab.engine.uncompact("s", None).unwrap());
    given::<SessionCost>(&lab.engine.cost("s").unwrap());
    for turn in lab.engine.history("s", 100).unwrap() {
        given(&turn);
    }
    for moved in store.head_moves("s", 9).unwrap() {
        given(&moved);
    }
    given(&store.session("s").unwrap());
}

#[test]
fn memory_and_tasks() {
    let lab = Lab::new("");
    let memory = lab.engine.memory().unwrap();
    let lines = [
        json!({"kind": "event", "type": "user_message",
               "content": {"speaker": "Ana", "text": "Ship on Friday in Porto."}}),
        json!({"kind": "chunk", "source": "notes.md", "text": "Ana works at Acme. ".repeat(200)}),
        json!({"kind": "pattern", "name": "p", "procedure": "Look at the log.",
               "conditions": [{"type": "keyword", "value": "ship"}]}),
    ];
    let records: Vec<Record> = (lines.into_iter())
        .map(|line| serde_json::from_value(line).unwrap())
        .collect();
    let recorded: MemoryRecorded = memory.record(records, None).unwrap();
    given(&recorded);
    let request = ContextRequest {
        query: "Why does Ana ship?".to_owned(),
        max_tokens: 200,
        additional_context: Some("Be brief.".to_owned()),
        ..ContextRequest::default()
    };
    let recalled = memory.recall(&request, &Recall::default()).unwrap();
    assert!(!recalled.context.components.is_empty());
    given::<Context>(&recalled.context);
    given::<MemoryOverview>(&memory.overview().unwrap());
    given(&memory.stats().unwrap());
    let forget: Forget = serde_json::from_value(json!({"source": "notes.md"})).unwrap();
    given::<Forgotten>(&memory.forget(&forget).unwrap());

    let task: TaskRecord = serde_json::from_value(json!({"id": "t", "goal": "Ship"})).unwrap();
    given(&StackInfo::of(
        "main".to_owned(),
        std::slice::from_ref(&task),
        None,
    ));
    given(&TaskChanged {
        task: task.clone(),
        current: Some(task),
    });
    given::<Vec<RecipeInfo>>(&contexture::recipes::list().unwrap());
    given(&TokenCounts {
        model: "gpt-4o".to_owned(),
        tokenizer: contexture::core::TokenizerInfo {
            name: "o200k_base".to_owned(),
            exact: true,
        },
        files: vec![FileTokens {
            path: "a.txt".to_owned(),
            tokens: 2,
            bytes: 11,
        }],
        total: 2,
    });
}

/// Descriptions are for users of other languages, and no two types have the
/// same name.
#[test]
fn descriptions_and_names() {
    fn look(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(text)) = map.get("description") {
                    let rust = ["](", "[`", "::", "`None`", "`Some`"];
                    if rust.iter().any(|sign| text.contains(sign)) {
                        found.push(format!("{at}: {text}"));
                    }
                }
                map.iter()
                    .for_each(|(key, value)| look(value, &format!("{at}/{key}"), found));
            }
            Value::Array(list) => list.iter().for_each(|value| look(value, at, found)),
            _ => {}
        }
    }
    let mut taken = input();
    taken.subschema_for::<Event>();
    taken.subschema_for::<ContextRequest>();
    taken.subschema_for::<NewNode>();
    taken.subschema_for::<NodeEdit>();
    taken.subschema_for::<FlagChange>();
    taken.subschema_for::<Action>();
    taken.subschema_for::<CompactRequest>();
    taken.subschema_for::<TreeDocument>();
    taken.subschema_for::<Record>();
    taken.subschema_for::<EventRecord>();
    taken.subschema_for::<contexture::turn::NewTurn>();
    taken.subschema_for::<contexture::store::NewSession>();
    taken.subschema_for::<Forget>();
    let mut given = output();
    given.subschema_for::<AssembledForm<'_>>();
    given.subschema_for::<Contents<'_>>();
    given.subschema_for::<Comparison>();
    given.subschema_for::<LoomSummary>();
    given.subschema_for::<Context>();
    given.subschema_for::<Changed<'_>>();
    given.subschema_for::<WorkingSet>();
    given.subschema_for::<SessionCost>();
    given.subschema_for::<MemoryOverview>();
    given.subschema_for::<StackInfo>();
    given.subschema_for::<TokenCounts>();
    given.subschema_for::<TreeDocument>();
    given.subschema_for::<contexture::store::Turn>();
    given.subschema_for::<contexture::store::Session>();
    given.subschema_for::<contexture::store::TreeInfo>();
    given.subschema_for::<contexture::store::TaskView>();
    given.subschema_for::<contexture::store::MemoryStats>();
    given.subschema_for::<contexture::store::Snapshot>();
    let mut found = Vec::new();
    for generator in [&mut taken, &mut given] {
        for (name, schema) in generator.take_definitions(true) {
            if name.ends_with(|c: char| c.is_ascii_digit()) {
                found.push(format!("{name} is the name of two types"));
            }
            look(&schema, &name, &mut found);
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
