//! A path costs what is kept of it.

use crate::support::Lab;
use crate::support::counting::Counting;
use contexture::loom::{NewNode, raw_response};
use contexture::store::{Author, Store, TreeDocument};
use contexture::{Request, Timestamp};
use serde_json::json;

const NODES: usize = 3_000;

fn tree(strategy: &str) -> TreeDocument {
    let id = |n: usize| format!("{n:06}");
    let author = |n: usize| {
        if n.is_multiple_of(2) {
            "human"
        } else {
            "model"
        }
    };
    let nodes: Vec<_> = (0..NODES)
        .map(|n| {
            let text = format!("This is what somebody said at the place with the number {n}.");
            json!({"id": id(n), "author": author(n), "content": text, "created_at": 1_770_000_000_000_u64})
        })
        .collect();
    let edges: Vec<_> = (1..NODES)
        .map(|n| {
            let sources = [json!({"node_id": id(n - 1), "role": "primary"})];
            let (name, target) = (format!("e{n}"), id(n));
            json!({"id": name, "type": "continuation", "sources": sources, "target_node_id": target})
        })
        .collect();
    let tree = json!({"id": "t", "mode": "dialogue",
        "preferences": {"truncation_strategy": strategy, "token_buffer": 0}});
    serde_json::from_value(json!({"tree": tree, "nodes": nodes, "edges": edges})).unwrap()
}

fn request(head: &str, budget: u64) -> Request {
    Request {
        recipe: Some("loom-dialogue".into()),
        tree: Some("t".to_owned()),
        head: Some(head.to_owned()),
        max_tokens: Some(budget),
        now: Some(Timestamp::UNIX_EPOCH),
        ..Request::default()
    }
}

fn lab(strategy: &str) -> (Lab, std::sync::Arc<Counting>) {
    let (lab, counting) = Lab::counting("[snapshots]\nkeep = false");
    let now = Some(Timestamp::UNIX_EPOCH);
    lab.engine.import_tree(&tree(strategy), now).unwrap();
    (lab, counting)
}

#[test]
fn a_rolling_window_reads_what_it_keeps() {
    let (lab, counting) = lab("rolling_window");
    let first = lab
        .engine
        .assemble(&lab.root, &request("002999", 1_000))
        .unwrap();
    let kept = first.loom().unwrap().clone();
    assert!(kept.nodes_kept > 30, "{kept:?}");
    // The number of further nodes is not computed.
    assert_eq!(kept.nodes_dropped, None);
    let walked = Counting::take(&counting.heads_walked);
    let loaded = Counting::take(&counting.nodes_loaded);
    assert!(
        walked < 500 && loaded <= 128,
        "{walked} walked, {loaded} loaded"
    );
    let mut rows = first.report.excluded.iter();
    assert!(rows.any(|row| row.id.starts_with("before 00")));

    // Once more: everything is known.
    lab.engine
        .assemble(&lab.root, &request("002999", 1_000))
        .unwrap();
    assert_eq!(Counting::take(&counting.heads_walked), 0);
    assert_eq!(Counting::take(&counting.nodes_loaded), 0);

    // One node more costs one node.
    let new = NewNode::text(Author::Human, "And on.", Some("002999"));
    let head = lab.engine.add_node("t", &new, None).unwrap();
    lab.engine
        .assemble(&lab.root, &request(&head.id, 1_000))
        .unwrap();
    let walked = Counting::take(&counting.heads_walked);
    assert!(walked <= 16, "{walked}");
    assert_eq!(Counting::take(&counting.nodes_loaded), 1);
}

#[test]
fn the_middle_is_climbed_over_and_not_read() {
    let (lab, counting) = lab("truncate_middle");
    let first = lab
        .engine
        .assemble(&lab.root, &request("002999", 1_000))
        .unwrap();
    let kept = first.loom().unwrap().clone();
    let dropped = NODES as u64 - kept.nodes_kept;
    assert_eq!(kept.nodes_dropped, Some(dropped));
    let text = contexture::core::markup::render(&first.layout);
    let marker = format!(
        "[... {},{:03} nodes cut ...]",
        dropped / 1000,
        dropped % 1000
    );
    assert!(text.contains(&marker), "{marker}");
    let loaded = Counting::take(&counting.nodes_loaded);
    assert!(loaded <= 192, "{loaded}");
    Counting::take(&counting.heads_walked);
    lab.engine
        .assemble(&lab.root, &request("002999", 1_000))
        .unwrap();
    assert_eq!(Counting::take(&counting.heads_walked), 0);
    assert_eq!(Counting::take(&counting.nodes_loaded), 0);
}

#[test]
fn the_usage_of_a_response_calibrates_counts() {
    let lab = Lab::new("");
    let mut document = tree("truncate_middle");
    document.nodes.truncate(200);
    document.edges.truncate(199);
    lab.engine.import_tree(&document, None).unwrap();
    let mut asked = request("000199", 50_000);
    asked.model = Some("claude-sonnet-4-5".to_owned());
    let assembled = lab.engine.assemble(&lab.root, &asked).unwrap();
    let used = assembled.report.budget.used;
    let body = json!({"model": "claude-sonnet-4-5", "usage": {"input_tokens": used / 2, "output_tokens": 9}});
    let mut new = NewNode::text(Author::Model, "Yes.", Some("000199"));
    new.raw_response = Some(raw_response(body, assembled.snapshot.clone()));
    let added = lab.engine.add_node("t", &new, None).unwrap();
    let kept = lab.store.raw_response("t", &added.id).unwrap().unwrap();
    assert_eq!(kept.usage.unwrap().input_tokens, used / 2);
    assert_eq!(kept.request_hash, assembled.snapshot);
    let store: &dyn Store = &*lab.store;
    let samples = store.samples("claude-sonnet-4-5", "o200k", 9).unwrap();
    assert_eq!(samples.len(), 1, "{samples:?}");

    new.raw_response = Some(raw_response(json!({}), Some("feed".to_owned())));
    let error = lab.engine.add_node("t", &new, None).unwrap_err();
    assert!(error.to_string().contains("feed"), "{error}");
}
