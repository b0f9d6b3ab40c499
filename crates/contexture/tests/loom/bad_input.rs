//! Invalid trees and calls.

use contexture::loom::{NewNode, NodeEdit, tree_from_json};
use contexture::store::{Author, MessageContent, Trees as _};
use contexture::{Error, Format, Request};

use crate::support::{Lab, expect, now, request_of, tree};

/// Imports a tree and returns the error; nothing is stored.
fn refused(text: &str) -> String {
    let lab = Lab::new("");
    let error = lab
        .engine
        .import_tree(&tree(text), Some(now()))
        .unwrap_err();
    assert!(error.is_input(), "{error}");
    assert!(lab.store.trees(None, 10).unwrap().is_empty());
    error.to_string()
}

fn told(error: &Error) -> String {
    match error.hint(&contexture::advice::Plain).as_deref() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

#[test]
fn a_circle() {
    let mut document = tree(
        "
        n1 human: One.
        n2 model <- n1: Two.
        n3 human <- n2: Three.
        ",
    );
    document.edges[0].sources[0].node_id = "n3".to_owned();
    let lab = Lab::new("");
    let error = lab.engine.import_tree(&document, Some(now())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "edges: the edges form a cycle: `n2` -> `n3` -> `n2`"
    );
    assert!(lab.store.trees(None, 10).unwrap().is_empty());
}

#[test]
fn an_edge_that_leads_nowhere() {
    let mut document = tree("n1 human: One.\nn2 model <- n1: Two.");
    document.edges[0].target_node_id = "n9".to_owned();
    let lab = Lab::new("");
    let error = lab.engine.import_tree(&document, Some(now())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "edges[0].target_node_id: there is no node `n9` in this tree"
    );
}

#[test]
fn two_roots() {
    assert_eq!(
        refused("n1 human: One.\nn2 model <- n1: Two.\nx1 human: Elsewhere."),
        "nodes: there are 2 roots (`n1`, `x1`): a tree has one node that no edge leads to; \
         others follow from something, are edits, or are context or instruction sources"
    );
}

#[test]
fn a_node_of_another_tree() {
    let lab = Lab::with("n1 human: One.\nn2 model <- n1: Two.");
    let error = lab
        .engine
        .import_tree(&tree("id other\nn1 human: One."), Some(now()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "nodes[0].id: node `n1` is in tree `t` already; a node belongs to one tree"
    );
    // Nor can an edge reach into it.
    lab.import("id other\nx1 human: One.");
    let reach = NewNode::text(Author::Model, "Two.", Some("n1"));
    let error = lab.engine.add_node("other", &reach, None).unwrap_err();
    assert!(error.to_string().contains("`n1`"), "{error}");
    assert_eq!(lab.store.tree("other").unwrap().nodes, 1);
}

#[test]
fn an_edge_without_a_primary_source() {
    assert_eq!(
        refused("n1 human: One.\nn2 model context n1: Two."),
        "edges[0].sources: edge `e0` has no primary source"
    );
}

#[test]
fn unknown_words() {
    let told = |text: &str| told(&tree_from_json("tree.json", text).unwrap_err());
    expect(
        &told(r#"{"tree":{"id":"t","mode":"chat"}}"#),
        "
        tree.json: tree.mode: unknown value `chat`, expected `dialogue` or `buffer` at line 1 column 31
        hint: write a tree as `{\"tree\":{\"id\":\"t1\",\"mode\":\"dialogue\"},\"agents\":[],\"nodes\":[…],\"edges\":[…]}`
        ",
    );
    let role = told(
        r#"{"tree":{"id":"t","mode":"buffer"},"edges":[{"id":"e","type":"continuation",
           "sources":[{"node_id":"n","role":"secondary"}],"target_node_id":"m"}]}"#,
    );
    assert!(
        role.contains("edges[0].sources[0].role: unknown value `secondary`"),
        "{role}"
    );
    let author = told(
        r#"{"tree":{"id":"t","mode":"buffer"},"nodes":[{"id":"n","author":"ai","content":""}]}"#,
    );
    assert!(
        author.contains("nodes[0].author: unknown value `ai`"),
        "{author}"
    );
    let field = told(r#"{"tree":{"id":"t","mode":"buffer","colour":1}}"#);
    assert!(
        field.contains("tree.colour: unknown field `colour`"),
        "{field}"
    );
}

#[test]
fn documents_that_are_not_trees_are_rejected() {
    for (text, why) in [
        ("", "it ends before a value at line 1 column 0"),
        ("once upon a time", "expected value at line 1 column 1"),
        ("{}", "missing field `tree` at line 1 column 2"),
        (
            "[]",
            "invalid length 0, expected a loom tree: an object with `tree`, `agents`, `nodes` and \
             `edges` at line 1 column 2",
        ),
    ] {
        let error = tree_from_json("tree.json", text).unwrap_err();
        assert_eq!(error.to_string(), format!("tree.json: {why}"));
    }
}

#[test]
fn another_mode_than_before() {
    let lab = Lab::with("n1 human: One.");
    let error = lab
        .engine
        .import_tree(&tree("buffer\nn1 human: One."), Some(now()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tree.mode: tree `t` is a dialogue; you cannot change the mode of an existing tree"
    );
}

#[test]
fn an_edit_of_a_missing_entry() {
    assert_eq!(
        refused("n1 human: One.\nn2 model edits n9: Two."),
        "nodes[1].edited_from: there is no node `n9` in this tree"
    );
    let lab = Lab::with("n1 human: One.");
    let edit = NodeEdit {
        id: None,
        author: None,
        agent: None,
        content: MessageContent::Text("Nine.".to_owned()),
    };
    let error = lab.engine.edit_node("t", "n9", &edit, None).unwrap_err();
    expect(
        &told(&error),
        "
        there is no node `n9`
        hint: `export_tree` shows the nodes
        ",
    );
}

#[test]
fn an_excluded_root_is_left_out_like_any_node() {
    let lab = Lab::with("n1 human excluded: One.\nn2 model <- n1: Two.\nn3 human <- n2: Three.");
    expect(
        &lab.text("--head n3"),
        "
        <assistant>
        Two.
        </assistant>

        <user>
        Three.
        </user>
        ",
    );
}

#[test]
fn everything_excluded() {
    let lab = Lab::with(
        "
        n1 human excluded: One.
        n2 model pruned <- n1: Two.
        n3 human <- n2:   
        ",
    );
    expect(
        &lab.complaint("--head n3"),
        "
        no node of the path to node `n3` can be sent: of its 3 nodes, 1 blank, 1 excluded, 1 pruned
        hint: `flag_node` of `t` excludes or includes a node
        ",
    );
    // The event next to the path must not be empty.
    expect(
        &lab.text("--head n3 --event Hello?"),
        "
        <user>
        Hello?
        </user>
        ",
    );
}

#[test]
fn a_head_that_only_an_annotation_leads_to() {
    let lab = Lab::with("n1 human: One.\nr1 human remark <- n1: Hm.");
    expect(
        &lab.complaint("--head r1"),
        "
        node `r1` is an annotation: only an annotation edge leads to it
        hint: set `include_annotations`; or continue from another node
        ",
    );
}

#[test]
fn a_system_context_that_does_not_fit() {
    for strategy in ["truncate_middle", "rolling_window", "stop_at_limit"] {
        let lab = Lab::with(&format!(
            "
            system one two three four five six seven eight nine ten eleven twelve thirteen
            prefer truncation_strategy {strategy}
            prefer token_buffer 0
            n1 human: Hello.
            "
        ));
        let told = lab.complaint("--head n1 --max-tokens 15");
        assert!(
            told.starts_with(
                "the system context and the event need 20 tokens but 15 are available (largest: \
                 `tree t` 20"
            ),
            "{strategy}: {told}"
        );
    }
}

#[test]
fn no_room_for_a_message() {
    let lab = Lab::with(
        "
        system one two three four five six seven eight nine ten eleven twelve thirteen
        prefer token_buffer 0
        n1 human: Hello to you all, whoever you are and wherever you may be today.
        ",
    );
    expect(
        &lab.complaint("--head n1 --max-tokens 24"),
        "
        no room for the latest node: 20 of 24 tokens are used, the node has 21, and no part of it fits
        hint: raise `max_tokens`; or shorten the system context
        ",
    );
}

#[test]
fn a_minimum_larger_than_the_path() {
    let lab = Lab::with("prefer minimum_recent_nodes 100\nn1 human: One.\nn2 model <- n1: Two.");
    let text = lab.text("--head n2");
    assert!(text.contains("One.") && text.contains("Two."), "{text}");
}

#[test]
fn a_picture_for_a_provider_that_takes_none() {
    let lab = Lab::with(
        "n1 human: !image https://example.com/a.png\nn2 model <- n1: A cat.\nn3 human <- n2: Sure?",
    );
    let assembled = lab.assemble("--head n3").unwrap();
    let refused = assembled.render(Format::OpenAiCompletions).unwrap_err();
    assert_eq!(refused.rule, "openai.completions_text_only");
    assert!(refused.message.contains("n1"), "{refused}");
    assert!(assembled.render(Format::OpenAiChat).is_ok());
}

#[test]
fn missing_names_are_errors() {
    let lab = Lab::with(
        "agent poet: Rhyme.\npath main n1\nn1 human: One.\nn2 model <- n1: Two.\nm2 model <- n1: Too.",
    );
    expect(
        &lab.complaint("--tree u"),
        "
        there is no tree `u`
        hint: `list_trees` lists the trees; or `import_tree` imports a tree
        ",
    );
    expect(
        &lab.complaint("--head n7"),
        "
        there is no node `n7`
        hint: `export_tree` shows the nodes
        ",
    );
    expect(
        &lab.complaint("--agent pot"),
        "unknown agent `pot`; did you mean `poet`? (one of poet)",
    );
    expect(
        &lab.complaint("--path man"),
        "unknown path `man`; did you mean `main`? (one of main)",
    );
    expect(
        &lab.complaint(""),
        "
        tree `t` has 2 leaves (n2, m2); name the node to continue from
        hint: set `head`; or `export_tree` of `t` shows the nodes
        ",
    );
}

#[test]
fn unknown_parameters() {
    let mut document = tree("agent poet: Rhyme.\nn1 human: One.");
    let wrong = serde_json::json!({"temprature": 1});
    document.agents[0].parameters = wrong.as_object().unwrap().clone();
    let lab = Lab::new("");
    let error = lab.engine.import_tree(&document, Some(now())).unwrap_err();
    let told = error.to_string();
    assert!(
        told.starts_with("agent `poet`: parameters: unknown field `temprature`"),
        "{told}"
    );
    assert!(lab.store.trees(None, 10).unwrap().is_empty());
}

#[test]
fn an_id_that_is_a_short_name() {
    let lab = Lab::with("0123456789 human: One.");
    let mut new = NewNode::text(Author::Model, "Two.", Some("0123456789"));
    new.id = Some("012345".to_owned());
    let error = lab.engine.add_node("t", &new, None).unwrap_err();
    expect(
        &told(&error),
        "
        the id `012345` is already in use as the short name of node `0123456789`
        hint: choose another id, or omit it
        ",
    );
    new.id = Some("0123456789".to_owned());
    let error = lab.engine.add_node("t", &new, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node `0123456789` is in this tree already"
    );
}

#[test]
fn a_pruned_node_is_not_a_leaf() {
    let lab = Lab::with(
        "
        n1 human: One.
        n2 model <- n1: Two.
        n3 human pruned <- n2: Three.
        m2 model pruned <- n1: Too.
        ",
    );
    let text = lab.text("");
    assert!(text.contains("Two.") && !text.contains("Three."), "{text}");
}

#[test]
fn the_wrong_recipe() {
    let lab = Lab::with("n1 human: One.");
    expect(
        &lab.complaint("--head n1 --recipe loom-buffer"),
        "
        the mode of tree `t` is dialogue, but the recipe is for buffer
        hint: set `recipe` to loom-dialogue
        ",
    );
    expect(
        &lab.complaint("--head n1 --recipe broker"),
        "
        recipe `broker` has no layer that uses `tree`
        hint: set `recipe`
        ",
    );
    let none = Request {
        tree: None,
        ..request_of("--recipe loom-dialogue")
    };
    let error = lab.engine.assemble(&lab.root, &none).unwrap_err();
    expect(
        &told(&error),
        "
        the request names no tree
        hint: set `tree`
        ",
    );
    expect(
        &lab.complaint("--head n1 --instruct  "),
        "instruction 1 is empty",
    );
    expect(
        &lab.complaint("--head n1 --working-buffer x"),
        "
        a dialogue has no working buffer; only documents have one
        hint: set `event`
        ",
    );
}
