//! Requests from trees that would not be what was meant.

use super::*;

const THREE: &str = "n1 human: One.\nn2 model <- n1: Two.\nn3 human <- n2: Three.";

#[test]
fn an_excluded_root_is_left_out_like_any_node() {
    let project = with("n1 human excluded: One.\nn2 model <- n1: Two.\nn3 human <- n2: Three.");
    prints(
        &project,
        "assemble --tree t --head n3",
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
    let project = with(
        "n1 human excluded: One.\nn2 model pruned <- n1: Two.\nn3 human excluded <- n2: Three.",
    );
    refuses(
        &project,
        "assemble --tree t --head n3",
        "
        error: nothing is left of the path to node `n3`: of its 3 nodes, 2 excluded, 1 pruned
        hint: include some again: `contexture tree node flag t NODE --include`
        ",
    );
}

#[test]
fn a_remark_as_the_place() {
    let project = with(&format!("{THREE}\nr1 human remark <- n2: Good."));
    refuses(
        &project,
        "assemble --tree t --head r1",
        "
        error: node `r1` is a remark: only an annotation edge leads to it
        hint: show remarks with --include-annotations, or go on from another node
        ",
    );
    prints(
        &project,
        "assemble --tree t --head r1 --include-annotations",
        "
        <user>
        One.
        </user>

        <assistant>
        Two.
        </assistant>

        <user>
        Good.
        </user>
        ",
    );
}

#[test]
fn a_system_context_that_does_not_fit() {
    for strategy in ["truncate_middle", "rolling_window", "stop_at_limit"] {
        let project = with(&format!(
            "system_context one two three four five six seven eight nine ten eleven twelve\n{THREE}"
        ));
        line(
            &project,
            &format!("tree set t --prefer truncation_strategy={strategy} --prefer token_buffer=0"),
        );
        complains(
            &project,
            "assemble --tree t --head n3 --max-tokens 15",
            "error: the system context is never cut; with what is asked it needs 19 tokens, and 15 \
             are available (largest: `tree t` 19)\n\
             hint: make it shorter, raise --max-tokens, or take a model with a larger window\n",
        );
    }
}

#[test]
fn a_path_that_does_not_fit() {
    let project = with(THREE);
    line(
        &project,
        "tree set t --prefer truncation_strategy=stop_at_limit --prefer token_buffer=0",
    );
    complains(
        &project,
        "assemble --tree t --head n3 --max-tokens 20",
        "
        error: the request for node `n3` needs 24 tokens and 20 are available, and stop_at_limit leaves nothing out
        hint: leave nodes out (`contexture tree node flag t NODE --exclude`), take a model with a larger window, or prefer another truncation_strategy
        ",
    );
}

#[test]
fn more_recent_nodes_than_there_are() {
    let project = with(THREE);
    line(&project, "tree set t --prefer minimum_recent_nodes=100");
    let run = call(&project, "assemble --tree t --head n3");
    run.expect_code(0);
    assert!(
        run.out.starts_with("<user>\nOne.\n</user>\n"),
        "{}",
        run.out
    );
}

#[test]
fn a_picture_where_only_text_is_taken() {
    let mut tree = tree(THREE);
    tree["nodes"][0]["content"] =
        json!([{"type": "image", "media_type": "image/png", "url": "https://example.com/a.png"}]);
    let project = Project::new();
    import(&project, &tree);
    let run = call(
        &project,
        "assemble --tree t --head n3 --format openai-completions",
    );
    run.expect_code(2);
    assert_eq!(run.out, "");
    assert_eq!(
        run.err,
        "error: `n1` holds an image: completions takes text only; exclude it, or use --format \
         openai-chat (openai.completions_text_only)\n"
    );
}

#[test]
fn names_that_nobody_has() {
    let project = with(&format!("{THREE}\nm3 human <- n2: Other."));
    line(&project, "tree agent set t ada --type model");
    line(&project, "tree path save t main --head n3");
    for (args, message) in [
        (
            "--tree u",
            "error: there is no tree `u`\nhint: `contexture tree list` shows those there are; `tree import` brings one in\n",
        ),
        (
            "--tree t --head n9",
            "error: there is no node `n9`\nhint: `contexture tree show TREE` shows them\n",
        ),
        (
            "--tree t --head n3 --agent adda",
            "error: unknown agent `adda`; did you mean `ada`? (one of ada)\n",
        ),
        (
            "--tree t --path man",
            "error: unknown path `man`; did you mean `main`? (one of main)\n",
        ),
        (
            "--tree t",
            "error: tree `t` ends in 2 places (n3, m3): name the one to go on from\nhint: give --head NODE; `contexture tree show t` shows them\n",
        ),
        (
            "--tree t --head n3 --recipe loom-buffer",
            "error: tree `t` is of mode dialogue, and the recipe is for buffer\nhint: use --recipe loom-dialogue\n",
        ),
        (
            "--tree t --head n3 --recipe broker",
            "error: the recipe `broker` has no tree for `tree`\nhint: use --recipe loom-dialogue or loom-buffer, or one with a loom's sources\n",
        ),
        (
            "--tree t --head n3 --working-buffer x",
            "error: a dialogue has no working buffer, only documents have\nhint: say what is asked with --event\n",
        ),
        (
            "--recipe loom-dialogue",
            "error: no tree is named\nhint: name one with --tree ID\n",
        ),
    ] {
        refuses(&project, &format!("assemble {args}"), message);
    }
    let run = call(&project, "assemble --head n3");
    run.expect_code(2);
    assert!(run.err.contains("--tree <ID>"), "{}", run.err);
}

#[test]
fn several_ways_and_no_choice() {
    let mut tree = tree(THREE);
    tree["edges"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "e9", "type": "continuation",
        "sources": [{"node_id": "n1"}], "target_node_id": "n3"}));
    let project = Project::new();
    import(&project, &tree);
    refuses(
        &project,
        "assemble --tree t --head n3",
        "
        error: node `n3` is reached by several continuation edges: `e2` from `n2`, `e9` from `n1`
        hint: save a path that chooses one (`contexture tree path save TREE NAME --head NODE --choose EDGE`) and name it with --path
        ",
    );
}
