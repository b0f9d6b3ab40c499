//! A tree that a model continues: the model is a server on this machine that
//! follows a script.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use contexture::config::{Config, LoomModel, ModelApi};
use contexture::store::{MessageContent, NodeHead, Trees as _};
use contexture::{Engine, Request, SampleEvent};
use serde_json::Value;

use crate::support::{Lab, now};

/// Starts a model that answers each call with the next script: the data of its
/// events, or a status. Returns its address and what it was sent.
fn model(scripts: Vec<Result<Vec<&'static str>, u16>>) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sent: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = Arc::clone(&sent);
    std::thread::spawn(move || {
        for script in scripts {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.trim().to_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            seen.lock()
                .unwrap()
                .push(serde_json::from_slice(&body).unwrap());
            let answer = match script {
                Ok(events) => {
                    let events: String =
                        events.iter().map(|it| format!("data: {it}\n\n")).collect();
                    format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}"
                    )
                }
                Err(status) => format!(
                    "HTTP/1.1 {status} Sorry\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
                ),
            };
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, sent)
}

fn engine(lab: &Lab, kind: ModelApi, base_url: Option<String>) -> Engine {
    let mut config = Config::default();
    config.loom.model = LoomModel {
        kind,
        base_url,
        model: Some("writer-1".to_owned()),
        attempts: 1,
        ..LoomModel::default()
    };
    let engine = Engine::builder().config(config).store(lab.store.clone());
    engine.build().unwrap()
}

fn at(head: &str) -> Request {
    Request {
        tree: Some("t".to_owned()),
        head: Some(head.to_owned()),
        now: Some(now()),
        ..Request::default()
    }
}

fn story() -> Lab {
    let lab = Lab::new("");
    let document = serde_json::json!({
        "tree": {"id": "t", "mode": "dialogue"},
        "nodes": [
            {"id": "start", "author": "human", "content": "Tell me a story."},
            {"id": "calm", "author": "model", "content": "The sea was calm."},
            {"id": "more", "author": "human", "content": "Go on."},
        ],
        "edges": [
            {"id": "e1", "type": "continuation", "target_node_id": "calm",
             "sources": [{"node_id": "start", "role": "primary"}]},
            {"id": "e2", "type": "continuation", "target_node_id": "more",
             "sources": [{"node_id": "calm", "role": "primary"}]},
        ],
    });
    let document = serde_json::from_value(document).unwrap();
    lab.engine.import_tree(&document, Some(now())).unwrap();
    lab
}

#[test]
fn each_sample_becomes_a_node() {
    let lab = story();
    let chat = |text: &'static str| Ok(vec![text, "[DONE]"]);
    let (address, sent) = model(vec![
        Ok(vec![
            r#"{"choices":[{"delta":{"role":"assistant","content":"A storm "}}]}"#,
            r#"{"choices":[{"delta":{"content":"rose."}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ]),
        chat(r#"{"choices":[{"delta":{"content":"Fog came."}}]}"#),
    ]);
    let engine = engine(&lab, ModelApi::OpenAi, Some(address));
    let events = Mutex::new(Vec::new());
    let tell = |event: SampleEvent| {
        events.lock().unwrap().push(event);
        true
    };
    let nodes = engine.continue_tree(&lab.root, &at("more"), 2, Some(now()), &tell);
    let nodes = nodes.unwrap();
    assert_eq!(nodes.len(), 2);
    let document = lab.store.export_tree("t").unwrap();
    let of_model = document.nodes.iter().filter(|node| {
        let is_new = |head: &NodeHead| head.id == node.id;
        nodes.iter().any(is_new)
    });
    let mut texts: Vec<String> = of_model
        .map(|node| match &node.content {
            MessageContent::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    texts.sort();
    assert_eq!(texts, ["A storm rose.", "Fog came."]);
    let told = events.into_inner().unwrap();
    let parts = told
        .iter()
        .filter(|it| matches!(it, SampleEvent::Text { .. }));
    assert_eq!(parts.count(), 3);
    // The model saw the path, and was asked for a stream.
    let sent = sent.lock().unwrap();
    assert_eq!(sent[0]["model"], "writer-1");
    assert_eq!(sent[0]["stream"], true);
    let messages = sent[0]["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], "Go on.");
}

#[test]
fn a_sample_that_fails_does_not_stop_the_others() {
    let lab = story();
    let (address, _) = model(vec![
        Ok(vec![
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"At nine."}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        ]),
        Err(400),
        Ok(vec![r#"{"type":"error","error":{"message":"overloaded"}}"#]),
    ]);
    let engine = engine(&lab, ModelApi::Anthropic, Some(address));
    let failed = Mutex::new(Vec::new());
    let tell = |event: SampleEvent| {
        if let SampleEvent::Failed { message, .. } = event {
            failed.lock().unwrap().push(message);
        }
        true
    };
    let nodes = engine.continue_tree(&lab.root, &at("more"), 3, Some(now()), &tell);
    assert_eq!(nodes.unwrap().len(), 1);
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    assert!(failed[0].contains("answers 400"), "{failed:?}");
    assert!(failed[1].contains("overloaded"), "{failed:?}");
}

#[test]
fn a_listener_that_leaves_gets_no_node() {
    let lab = story();
    let part = r#"{"choices":[{"delta":{"content":"A storm"}}]}"#;
    let (address, _) = model(vec![Ok(vec![part, part])]);
    let engine = engine(&lab, ModelApi::OpenAi, Some(address));
    let nodes = engine.continue_tree(&lab.root, &at("more"), 1, Some(now()), &|_| false);
    assert_eq!(nodes.unwrap(), []);
    assert_eq!(lab.store.tree("t").unwrap().nodes, 3);
}

#[test]
fn without_a_model_nothing_is_called() {
    let lab = story();
    let engine = engine(&lab, ModelApi::None, None);
    let failed = engine.continue_tree(&lab.root, &at("more"), 1, None, &|_| true);
    let failed = failed.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "no model is configured to continue trees"
    );
    let hint = failed.hint(&contexture::advice::Plain).unwrap();
    assert!(hint.contains("loom.model"), "{hint}");
    let engine = self::engine(
        &lab,
        ModelApi::OpenAi,
        Some("http://127.0.0.1:1".to_owned()),
    );
    let failed = engine.continue_tree(&lab.root, &at("more"), 17, None, &|_| true);
    assert_eq!(failed.unwrap_err().field(), Some("samples"));
}
