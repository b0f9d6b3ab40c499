//! Trees that make no sense are refused whole, with the place and the nodes.

use super::*;

const THREE: &str = "n1 human: One.\nn2 model <- n1: Two.\nn3 human <- n2: Three.";

#[test]
fn a_circle() {
    let mut tree = tree(THREE);
    tree["edges"][0]["sources"][0]["node_id"] = json!("n3");
    refuses_tree(
        &tree,
        "error: tree.json: edges: they go round in a circle: `n2` -> `n3` -> `n2`\n",
    );
}

#[test]
fn an_edge_to_or_from_nowhere() {
    let mut to = tree(THREE);
    to["edges"][1]["target_node_id"] = json!("n9");
    refuses_tree(
        &to,
        "error: tree.json: edges[1].target_node_id: there is no node `n9` in this tree\n",
    );
    let mut from = tree(THREE);
    from["edges"][1]["sources"][0]["node_id"] = json!("n9");
    refuses_tree(
        &from,
        "error: tree.json: edges[1].sources[0].node_id: there is no node `n9` in this tree\n",
    );
}

#[test]
fn two_roots() {
    refuses_tree(
        &tree(&format!("{THREE}\nx1 human: Elsewhere.")),
        "error: tree.json: nodes: there are 2 roots (`n1`, `x1`): a tree has one node that no \
         edge leads to; others follow from something, are edits, or are context or instruction \
         sources\n",
    );
}

#[test]
fn a_node_of_another_tree() {
    let project = with(THREE).file("tree.json", tree("id u\nn2 human: Two.").to_string());
    refuses(
        &project,
        "tree import tree.json",
        "error: tree.json: nodes[0].id: node `n2` is in tree `t` already; a node belongs to one \
         tree\n",
    );
}

#[test]
fn an_edge_without_a_primary_source() {
    refuses_tree(
        &tree("n1 human: One.\nn2 model context n1: Two."),
        "error: tree.json: edges[0].sources: edge `e1` has no primary source\n",
    );
    let mut none = tree(THREE);
    none["edges"][0]["sources"] = json!([]);
    refuses_tree(
        &none,
        "error: tree.json: edges[0].sources: edge `e1` has no primary source\n",
    );
}

#[test]
fn words_that_nobody_knows() {
    let hint = "hint: a tree is `{\"tree\":{\"id\":\"t1\",\"mode\":\"dialogue\"},\"agents\":[],\
                \"nodes\":[…],\"edges\":[…]}`\n";
    let check = |change: fn(&mut Value), complaint: &str| {
        let mut tree = tree(THREE);
        change(&mut tree);
        let project = Project::new().file("tree.json", tree.to_string());
        let run = project.run(&["tree", "import", "tree.json"]);
        run.expect_code(2);
        let (told, told_hint) = run.err.split_at(run.err.find("hint:").unwrap());
        assert_eq!(told_hint, hint);
        assert!(
            told.starts_with(&format!("error: tree.json: {complaint} at line 1 column ")),
            "{told}"
        );
        assert_eq!(project.names(), ["tree.json"]);
    };
    check(
        |tree| tree["tree"]["mode"] = json!("chat"),
        "tree.mode: unknown value `chat`, expected `dialogue` or `buffer`",
    );
    check(
        |tree| tree["edges"][0]["sources"][0]["role"] = json!("secondary"),
        "edges[0].sources[0].role: unknown value `secondary`, expected one of `instruction`, \
         `context`, `primary`",
    );
    check(
        |tree| tree["edges"][0]["type"] = json!("link"),
        "edges[0].type: unknown value `link`, expected `continuation` or `annotation`",
    );
    check(
        |tree| tree["nodes"][0]["author"] = json!("ai"),
        "nodes[0].author: unknown value `ai`, expected `human` or `model`",
    );
    check(
        |tree| tree["nodes"][0]["colour"] = json!("red"),
        "nodes[0].colour: unknown field `colour`, expected one of `id`, `local_id`, `author`, \
         `author_agent_id`, `content`, `edited_from`, `metadata`, `created_at`, `raw_response`",
    );
}

#[test]
fn another_mode_than_before() {
    let mut other = tree(THREE);
    other["tree"]["mode"] = json!("buffer");
    let project = with(THREE).file("tree.json", other.to_string());
    refuses(
        &project,
        "tree import tree.json",
        "error: tree.json: tree.mode: tree `t` is a dialogue; the mode is fixed when a tree is \
         made\n",
    );
}

#[test]
fn an_edit_of_nothing() {
    refuses_tree(
        &tree("n1 human: One.\nn2 model edits n9: Two."),
        "error: tree.json: nodes[1].edited_from: there is no node `n9` in this tree\n",
    );
    refuses(
        &with(THREE),
        "tree node edit t n9 'Nine.'",
        "
        error: there is no node `n9`
        hint: `contexture tree show TREE` shows them
        ",
    );
}

#[test]
fn a_node_that_says_something_else_now() {
    let mut other = tree(THREE);
    other["nodes"][1]["content"] = json!("Something else.");
    let project = with(THREE).file("tree.json", other.to_string());
    refuses(
        &project,
        "tree import tree.json",
        "error: tree.json: nodes[1]: node `n2` is in this tree already and says something \
         else: nodes never change; add an edit\n",
    );
}

#[test]
fn what_is_no_tree_at_all() {
    let project = Project::new()
        .file("dir/x", "")
        .file("latin1.json", b"\"\xe9\"");
    let hint = "hint: a tree is `{\"tree\":{\"id\":\"t1\",\"mode\":\"dialogue\"},\"agents\":[],\
                \"nodes\":[…],\"edges\":[…]}`\n";
    for (input, complaint) in [
        (
            "",
            "standard input: it ends where a value should be at line 1 column 0",
        ),
        (
            "once upon a time",
            "standard input: expected value at line 1 column 1",
        ),
        (
            "[]",
            "standard input: invalid length 0, expected a loom tree: an object with `tree`, `agents`, `nodes` \
             and `edges` at line 1 column 2",
        ),
        (
            "{}",
            "standard input: missing field `tree` at line 1 column 2",
        ),
        (
            "{\"tree\":",
            "standard input: tree: it ends where a value should be at line 1 column 8",
        ),
    ] {
        let run = project.run_with(&["tree", "import", "-"], input);
        run.expect_code(2);
        assert_eq!(run.err, format!("error: {complaint}\n{hint}"), "{input}");
        assert_eq!(run.out, "");
    }
    for (file, complaint) in [
        ("dir", "Is a directory (os error 21)"),
        ("none.json", "No such file or directory (os error 2)"),
        ("latin1.json", "stream did not contain valid UTF-8"),
    ] {
        refuses(
            &project,
            &format!("tree import {file}"),
            &format!("error: cannot read {file}: {complaint}\n"),
        );
    }
    assert_eq!(project.names(), ["dir", "dir/x", "latin1.json"]);
}
