//! `tree show`: how trees look.

use super::*;

/// Draws a tree with the path to a place, and leaves the two lines about the
/// tree out.
#[track_caller]
fn draws(project: &Project, args: &str, expected: &str) {
    assert_eq!(drawn(project, args), dedent(expected));
}

#[track_caller]
fn drawn(project: &Project, args: &str) -> String {
    let run = call(project, &format!("tree show t {args}"));
    run.expect_code(0);
    let (_, drawn) = run.out.split_once("\n\n").unwrap();
    drawn.to_owned()
}

fn with_columns(project: &Project, columns: &str) -> String {
    let mut command = project.command(&["tree", "show", "t"]);
    command.env("COLUMNS", columns);
    let shown = run(command, "");
    shown.expect_code(0);
    shown.out
}

/// A chain of nodes with side branches, as lines for [`tree`].
fn chain(count: usize, beside: &str) -> Value {
    let mut lines = String::from("k000 human: Beginning.\n");
    for i in 1..count {
        let author = ["human", "model"][i % 2];
        lines.push_str(&format!("k{i:03} {author} <- k{:03}: Step {i}.\n", i - 1));
    }
    lines.push_str(beside);
    tree(&lines)
}

const TREE: &str = "
    title \"All there is\"
    n1 human: One.
    n1b human edits n1: One, but better.
    n2 model <- n1: Two.
    m2 model bookmarked <- n1: Another two.
    m3 human <- m2: And three of it.
    p2 model pruned <- n1: A bad two.
    c1 human: Look here.
    i1 human: Be brief.
    n3 human excluded <- n2: Three.
    n4 model <- n3 context c1,n1 instruction i1: Four.
    r4 human remark <- n4: A remark.
    s4 model remark <- r4: On a remark.
    n5 human <- n4: Five.
";

#[test]
fn everything_that_a_tree_can_have() {
    let project = with(TREE);
    line(&project, "tree agent set t ada --type model --at n4");
    line(&project, "tree path save t main --head n5");
    prints(
        &project,
        "tree show t --head n5",
        "
        tree t, a dialogue: All there is
        13 nodes, 9 edges; tokens of gpt-5.6; ● marks the path to n5, 5 nodes

        ● n1b human 11  [edit of n1] One, but better.
        ├─◌ n1  human  8  [edited] One.
        ├─○ m2  model  9  [bookmarked] Another two.
        │ ○ m3  human 11  And three of it.
        ├─○ p2  model 10  [pruned] A bad two.
        ● n2  model  8  Two.
        ● n3  human  8  [excluded] Three.
        ├─◆ c1  human  9  [context for n4] Look here.
        ├─◆ i1  human  9  [instruction for n4] Be brief.
        ● n4  model  8  [@ada, context n1] Four.
        ├─✎ r4  human  9  A remark.
        │ ✎ s4  model 10  On a remark.
        ● n5  human  8  [path main] Five.
        ",
    );
}

#[test]
fn the_path_continues_along_its_edges() {
    let project = with(TREE);
    draws(
        &project,
        "--head m3 --from m2",
        "
        ● m2 model  9  [bookmarked] Another two.
        ● m3 human 11  And three of it.
        ",
    );
    // A saved path that chooses the older version.
    line(&project, "tree path save t old --head m3 --choose n1");
    let drawn = drawn(&project, "--path old --depth 2");
    assert_eq!(
        drawn,
        dedent(
            "
            ● n1  human  8  [edited] One.
            ├─◌ n1b human 11  [edit of n1] One, but better.
            ├─○ n2  model  8  Two.
            │ ⋮ 7 nodes
            ├─○ p2  model 10  [pruned] A bad two.
            ● m2  model  9  [bookmarked] Another two.
            ⋮ 1 node

            ⋮ marks nodes that are not shown; show all with --all, or a part with --from NODE
            "
        )
        .replace("[edited] One.", "One.")
    );
}

#[test]
fn continuations_of_a_version_continue_the_latest_version() {
    let project = with(
        "n1 human: One.\nn2 model <- n1: Two.\nn2b model edits n2: Too.\nn3 human <- n2: Three.",
    );
    let expected = "
        ● n2b model 8  [edit of n2] Too.
        ├─◌ n2  model 8  [edited] Two.
        ● n3  human 8  Three.
        ";
    draws(&project, "--head n3 --from n2", expected);
    draws(&project, "--head n3 --from n2b", expected);
}

#[test]
fn which_path_is_drawn() {
    let two_ends = with("n1 human: One.\nn2 model <- n1: Two.\nm2 model <- n1: Too.");
    let head = |args: &str| {
        let run = call(&two_ends, &format!("tree show t {args}"));
        run.expect_code(0);
        let line = run.out.lines().nth(1).unwrap();
        line.rsplit_once("; ").unwrap().1.to_owned()
    };
    assert_eq!(head(""), "draw the path to a node with --head NODE");
    line(&two_ends, "tree agent set t ada --type model");
    assert_eq!(
        head("--agent ada"),
        "draw the path to a node with --head NODE"
    );
    line(&two_ends, "tree agent set t ada --at m2");
    assert_eq!(head("--agent ada"), "● marks the path to m2, 2 nodes");
    assert_eq!(head("--head n1"), "● marks the path to n1, 1 node");
    line(&two_ends, "tree path save t main --head n2");
    assert_eq!(head("--path main"), "● marks the path to n2, 2 nodes");
    let one_end = with("n1 human: One.\nn2 model <- n1: Two.");
    draws(
        &one_end,
        "",
        "
        ● n1 human 8  One.
        ● n2 model 8  Two.
        ",
    );
}

#[test]
fn a_remark_can_be_the_place() {
    let project = with(TREE);
    draws(
        &project,
        "--head r4 --from n4",
        "
        ● n4 model  8  [context n1] Four.
        ├─○ n5 human  8  Five.
        ● r4 human  9  A remark.
        ✎ s4 model 10  On a remark.
        ",
    );
}

#[test]
fn a_long_chain_is_folded() {
    let project = Project::new();
    import(&project, &chain(1000, "b1 model <- k500: Elsewhere.\n"));
    draws(
        &project,
        "--head k999",
        "
        ● k000 human  8  Beginning.
        ● k001 model 10  Step 1.
        ● k002 human 10  Step 2.
        ● k003 model 10  Step 3.
        ⋮ 493 nodes
        ● k497 model 10  Step 497.
        ● k498 human 10  Step 498.
        ● k499 model 10  Step 499.
        ● k500 human 10  Step 500.
        ├─○ b1   model  9  Elsewhere.
        ● k501 model 10  Step 501.
        ● k502 human 10  Step 502.
        ● k503 model 10  Step 503.
        ⋮ 492 nodes
        ● k996 human 10  Step 996.
        ● k997 model 10  Step 997.
        ● k998 human 10  Step 998.
        ● k999 model 10  Step 999.

        ⋮ marks nodes that are not shown; show all with --all, or a part with --from NODE
        ",
    );
    let all = drawn(&project, "--head k999 --all");
    assert_eq!(all.lines().count(), 1001);
    draws(
        &project,
        "--from k990 --depth 4",
        "
        ○ k990 human 10  Step 990.
        ○ k991 model 10  Step 991.
        ○ k992 human 10  Step 992.
        ○ k993 model 10  Step 993.
        ⋮ 6 nodes

        ⋮ marks nodes that are not shown; show all with --all, or a part with --from NODE
        ",
    );
}

#[test]
fn the_end_of_the_path_is_never_folded() {
    let project = Project::new();
    import(&project, &chain(100, ""));
    draws(
        &project,
        "--head k050",
        "
        ● k000 human  8  Beginning.
        ● k001 model 10  Step 1.
        ● k002 human 10  Step 2.
        ● k003 model 10  Step 3.
        ⋮ 43 nodes
        ● k047 model 10  Step 47.
        ● k048 human 10  Step 48.
        ● k049 model 10  Step 49.
        ● k050 human 10  Step 50.
        ○ k051 model 10  Step 51.
        ○ k052 human 10  Step 52.
        ○ k053 model 10  Step 53.
        ⋮ 42 nodes
        ○ k096 human 10  Step 96.
        ○ k097 model 10  Step 97.
        ○ k098 human 10  Step 98.
        ○ k099 model 10  Step 99.

        ⋮ marks nodes that are not shown; show all with --all, or a part with --from NODE
        ",
    );
    line(&project, "tree agent set t ada --type model --at k030");
    let shown = drawn(&project, "--head k050");
    assert!(
        shown.contains("\n● k030 human 10  [@ada] Step 30.\n"),
        "{shown}"
    );
}

#[test]
fn a_version_that_is_asked_for_is_never_folded() {
    let mut lines = String::from("n1 human: One.\nn2 model <- n1: Two.\n");
    for i in 0..20 {
        lines.push_str(&format!("v{i:02} model edits n2: Two, version {i}.\n"));
    }
    draws(
        &with(&lines),
        "--from v03",
        "
        ● v19 model 12  [edit of n2] Two, version 19.
        ├─⋮ 12 branches with 12 nodes
        ├─◌ v03 model 12  [edit of n2] Two, version 3.
        ├─◌ v12 model 12  [edit of n2] Two, version 12.
        ├─◌ v13 model 12  [edit of n2] Two, version 13.
        ├─◌ v14 model 12  [edit of n2] Two, version 14.
        ├─◌ v15 model 12  [edit of n2] Two, version 15.
        ├─◌ v16 model 12  [edit of n2] Two, version 16.
        ├─◌ v17 model 12  [edit of n2] Two, version 17.
        └─◌ v18 model 12  [edit of n2] Two, version 18.

        ⋮ marks nodes that are not shown; show all with --all, or a part with --from NODE
        ",
    );
}

#[test]
fn many_branches_are_folded() {
    let mut lines = String::from("n1 human: One.\n");
    for i in 0..100 {
        let flag = if i == 7 { " bookmarked" } else { "" };
        lines.push_str(&format!("b{i:02} model{flag} <- n1: Way {i}.\n"));
    }
    draws(
        &with(&lines),
        "",
        "
        ○ n1  human  8  One.
        ├─⋮ 91 branches with 91 nodes
        ├─○ b07 model 10  [bookmarked] Way 7.
        ├─○ b93 model 10  Way 93.
        ├─○ b94 model 10  Way 94.
        ├─○ b95 model 10  Way 95.
        ├─○ b96 model 10  Way 96.
        ├─○ b97 model 10  Way 97.
        ├─○ b98 model 10  Way 98.
        ├─○ b99 model 10  Way 99.
        ○ b00 model 10  Way 0.

        ⋮ marks nodes that are not shown; show all with --all, or a part with --from NODE
        ",
    );
}

#[test]
fn a_large_tree_is_folded() {
    // Each goes on from one of the six before it.
    let nodes: Vec<Value> = (0..20_000)
        .map(|i| {
            json!({"id": format!("{i:06}"), "author": "human", "content": format!("Node {i}."),
                "created_at": 1_769_860_800_000_i64 + i})
        })
        .collect();
    let edges: Vec<Value> = (1..20_000_i64)
        .map(|i| {
            let from = (i - 1 - (i * 7919) % 6).max(0);
            json!({"id": format!("e{i}"), "type": "continuation",
                "sources": [{"node_id": format!("{from:06}")}], "target_node_id": format!("{i:06}")})
        })
        .collect();
    let project = Project::new();
    let large = json!({"tree": {"id": "t", "mode": "dialogue"}, "nodes": nodes, "edges": edges});
    assert_eq!(
        import(&project, &large),
        "created tree t: 20,000 nodes, 19,999 edges\n"
    );
    let shown = drawn(&project, "--head 019999");
    assert!(shown.lines().count() < 400, "{}", shown.lines().count());
    assert!(shown.contains("● 019999 human"), "{shown}");
    // Inside of a tree, too, with the place where the largest branch parts from
    // the path and the latest such place.
    let shown = drawn(&project, "--head 013000");
    assert!(shown.lines().count() < 400, "{}", shown.lines().count());
    assert!(
        shown.starts_with(
            "● 000000 human 10  Node 0.\n├─⋮ 2 branches with 13,332 nodes\n● 000001 human"
        ),
        "{shown}"
    );
    assert!(
        shown.contains(
            "● 012997 human 11  Node 12997.\n├─⋮ 1 branch with 2,333 nodes\n● 013000 human"
        ),
        "{shown}"
    );
    // The whole tree is printed, and a reader that stops early causes no error.
    assert_eq!(drawn(&project, "--all").lines().count(), 20_000);
    let mut child = project
        .command(&["tree", "show", "t", "--all"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = crate::support::finish(child);
    ended.expect_code(0);
    assert_eq!(ended.err, "");
}

#[test]
fn lines_are_as_wide_as_the_terminal() {
    let said = "It was a long night, and nobody knew how it would end, or when. ".repeat(3);
    let project = with(&format!("n1 human: {said}\nn2 model <- n1: Short."));
    for columns in ["40", "60", "80", "200"] {
        let shown = with_columns(&project, columns);
        let wide = shown.lines().skip(3).map(|line| line.chars().count());
        let widest = wide.max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{columns}:\n{shown}");
    }
    let narrow = with_columns(&project, "1");
    assert!(
        narrow.ends_with("● n1 human 58  It was a long night, and…\n● n2 model  8  Short.\n"),
        "{narrow}"
    );
    let zero = with_columns(&project, "many");
    assert!(
        zero.contains("nobody knew how it would end, or when"),
        "{zero}"
    );
}

#[test]
fn descriptions_of_the_tree_have_the_same_width() {
    let mut long = tree("n1 human: One.\nn2 model <- n1: Two.");
    long["tree"]["title"] = json!(format!("Night\nand {}", "day and ".repeat(500)));
    let project = Project::new();
    import(&project, &long);
    let shown = with_columns(&project, "50");
    assert_eq!(
        shown,
        dedent(
            "
            tree t, a dialogue: Night and day and day and day…
            2 nodes, 1 edge; tokens of gpt-5.6; ● marks the p…

            ● n1 human 8  One.
            ● n2 model 8  Two.
            "
        )
    );
}

#[test]
fn wide_characters_take_two_columns() {
    let project = with(
        "n1 human: 潮の満ち引きはなぜ一日に二度あるのですか、教えてください\nn2 model <- n1: e\u{301}te\u{301}",
    );
    let shown = with_columns(&project, "40");
    assert!(
        shown.ends_with(
            "● n1 human 28  潮の満ち引きはなぜ一日に…\n● n2 model 11  e\u{301}te\u{301}\n"
        ),
        "{shown}"
    );
}

#[test]
fn content_cannot_write_to_the_terminal() {
    let project = with(
        "
        title \u{1b}]0;title\u{7}
        n1 human: \u{1b}[31mred\\n\\n\tand more\u{9b}2J
        n2 model <- n1:  \\n 
        n3 human <- n2: \u{202e}backwards
        ",
    );
    let run = call(&project, "tree show t");
    run.expect_code(0);
    assert_eq!(
        run.out,
        dedent(
            "
            tree t, a dialogue: [U+001B]]0;title[U+0007]
            3 nodes, 2 edges; tokens of gpt-5.6; ● marks the path to n3, 3 nodes

            ● n1 human 27  [U+001B][31mred and more[U+009B]2J
            ● n2 model  0  (blank)
            ● n3 human 15  [U+202E]backwards
            "
        )
    );
    let shown = call(&project, "tree node show t n1").out;
    assert!(
        shown.ends_with("\n[U+001B][31mred\n\n[U+0009]and more[U+009B]2J\n"),
        "{shown}"
    );
}

#[test]
fn files_that_are_not_text_are_named() {
    let mut picture = tree("n1 human: x\nn2 model <- n1: y");
    picture["nodes"][0]["content"] =
        json!([{"type": "image", "media_type": "image/png", "url": "https://example.com/a.png"}]);
    picture["nodes"][1]["content"] = json!("image/png");
    let project = Project::new();
    import(&project, &picture);
    let shown = drawn(&project, "");
    assert!(shown.contains("  (image/png)\n"), "{shown}");
    assert!(shown.contains("  image/png\n"), "{shown}");
}

#[test]
fn several_paths_to_a_node() {
    let mut tree =
        tree("n1 human: One.\nn2 model <- n1: Two.\nm2 model <- n1: Too.\nn3 human <- n2: Three.");
    tree["edges"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "e9", "type": "continuation",
        "sources": [{"node_id": "m2"}], "target_node_id": "n3"}));
    let project = Project::new();
    import(&project, &tree);
    draws(
        &project,
        "",
        "
        ○ n1 human 8  One.
        ├─○ m2 model 8  Too.
        ○ n2 model 8  Two.
        ○ n3 human 8  [also after m2] Three.
        ",
    );
    line(&project, "tree path save t by-m --head n3 --choose m2");
    draws(
        &project,
        "--path by-m",
        "
        ● n1 human 8  One.
        ├─○ n2 model 8  Two.
        ● m2 model 8  Too.
        ● n3 human 8  [path by-m, also after n2] Three.
        ",
    );
}

#[test]
fn json_lists_every_node() {
    let project = Project::new();
    import(&project, &chain(100, ""));
    let shown = json_of(&project, "tree show t");
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 100);
    assert_eq!(shown["path"].as_array().unwrap().len(), 100);
    assert_eq!(
        shown["nodes"][1],
        json!({"id": "k001", "local_id": "k001", "author": "model", "author_agent_id": null,
            "edited_from": null, "created_at": "2026-01-31T12:00:01Z", "bytes": 7,
            "flags": {"excluded": false, "pruned": false, "bookmarked": false},
            "tokens": 10, "preview": "Step 1.", "on_path": true, "parent": "k000",
            "kind": "continuation", "agents": [], "paths": []})
    );
    let empty = Project::new();
    empty.ok(&["tree", "new", "t", "--mode", "buffer"]);
    assert_eq!(json_of(&empty, "tree show t")["nodes"], json!([]));
}

#[test]
fn invalid_drawing_options_are_rejected() {
    let project = with(TREE);
    for (args, message) in [
        (
            "tree show t --agent ada",
            "error: tree `t` has no agent `ada`: it has no agents; create one with `contexture \
             tree agent set`\n",
        ),
        (
            "tree show t --depth 0",
            "error: --depth must be 1 or more\n",
        ),
    ] {
        refuses(&project, args, message);
    }
}
