//! Looms: trees are brought in, grown, drawn, and made into requests.

mod agents;
mod bad_trees;
mod commands;
mod drawing;
mod nodes;
mod requests;

use crate::support::{NOW, Project, Run, dedent, run, text};
use serde_json::{Map, Value, json};

/// Reads a tree from lines such as `n2 model excluded <- n1: What it says.`
///
/// Behind the author come flags, `<- NODE[,NODE]` for what it follows, `remark`,
/// `edits NODE`, `context NODE` and `instruction NODE`. `\n` is a line break.
/// Lines without a colon are settings of the tree: `mode buffer`, `id other`.
fn tree(lines: &str) -> Value {
    let mut about = Map::from_iter([
        ("id".to_owned(), json!("t")),
        ("mode".to_owned(), json!("dialogue")),
    ]);
    let (mut nodes, mut edges): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for line in lines
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.is_empty())
    {
        let Some((head, said)) = line.split_once(": ") else {
            let (key, value) = line.split_once(' ').unwrap();
            let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
            about.insert(key.to_owned(), value);
            continue;
        };
        let mut words = head.split_whitespace();
        let (id, author) = (words.next().unwrap(), words.next().unwrap());
        let mut node = json!({"id": id, "author": author, "content": said.replace("\\n", "\n"),
            "metadata": {}, "created_at": 1_769_860_800_000_i64 + nodes.len() as i64 * 1000});
        let (mut sources, mut kind) = (Vec::new(), "continuation");
        while let Some(word) = words.next() {
            match word {
                "remark" => kind = "annotation",
                "edits" => node["edited_from"] = json!(words.next().unwrap()),
                "<-" | "context" | "instruction" => {
                    let role = if word == "<-" { "primary" } else { word };
                    let from = words.next().unwrap().split(',');
                    sources.extend(from.map(|from| json!({"node_id": from, "role": role})));
                }
                flag => node["metadata"][flag] = json!(true),
            }
        }
        if !sources.is_empty() {
            edges.push(json!({"id": format!("e{}", edges.len() + 1), "type": kind,
                "sources": sources, "target_node_id": id}));
        }
        nodes.push(node);
    }
    json!({"tree": about, "nodes": nodes, "edges": edges})
}

/// A project with a tree.
#[track_caller]
fn with(lines: &str) -> Project {
    let project = Project::new();
    import(&project, &tree(lines));
    project
}

#[track_caller]
fn import(project: &Project, tree: &Value) -> String {
    let run = project.run_with(&["tree", "import", "-", "--now", NOW], &tree.to_string());
    run.expect_code(0);
    run.out
}

/// Checks that a tree is refused, and that nothing is left of it.
#[track_caller]
fn refuses_tree(tree: &Value, message: &str) {
    let project = Project::new().file("tree.json", tree.to_string());
    project.refuses(&["tree", "import", "tree.json"], 2, message);
}

/// Runs a call, `tree` or `assemble`, at the tests' moment.
fn call(project: &Project, call: &str) -> Run {
    project.run_now(call)
}

/// Runs a call that must succeed, and checks all that it prints.
#[track_caller]
fn prints(project: &Project, args: &str, expected: &str) {
    let run = call(project, args);
    run.expect_code(0);
    // Lines of tables begin with a blank.
    let expected = match expected.starts_with(' ') {
        true => expected.to_owned(),
        false => dedent(expected),
    };
    assert_eq!(run.out, expected);
}

/// Runs a call that must be rejected with exactly that error and change
/// nothing.
#[track_caller]
fn refuses(project: &Project, args: &str, message: &str) {
    project.refuses(args, 2, message);
}

/// Runs a call with `--json`.
#[track_caller]
fn json_of(project: &Project, args: &str) -> Value {
    let run = call(project, &format!("{args} --json"));
    run.expect_code(0);
    serde_json::from_str(&run.out).unwrap()
}

/// Runs a call that must succeed, and returns the one line that it prints.
#[track_caller]
fn line(project: &Project, args: &str) -> String {
    let run = call(project, args);
    run.expect_code(0);
    run.out.trim_end().to_owned()
}
