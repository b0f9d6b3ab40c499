//! Files that are not a valid tree.

use super::*;

const THREE: &str = "n1 human: One.\nn2 model <- n1: Two.\nn3 human <- n2: Three.";

#[test]
fn an_invalid_tree_is_reported_with_its_file() {
    let mut tree = tree(THREE);
    tree["edges"][0]["sources"][0]["node_id"] = json!("n3");
    refuses_tree(
        &tree,
        "error: tree.json: edges: the edges form a cycle: `n2` -> `n3` -> `n2`\n",
    );
}

#[test]
fn documents_that_are_not_trees_are_rejected() {
    let project = Project::new()
        .file("dir/x", "")
        .file("latin1.json", b"\"\xe9\"");
    let hint = "hint: write a tree as \
                `{\"tree\":{\"id\":\"t1\",\"mode\":\"dialogue\"},\"agents\":[],\"nodes\":[…],\"edges\":[…]}`\n";
    for (input, complaint) in [
        (
            "",
            "standard input: it ends before a value at line 1 column 0",
        ),
        (
            "{\"tree\":",
            "standard input: tree: it ends before a value at line 1 column 8",
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
