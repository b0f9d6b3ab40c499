//! `assemble --tree`: its output and its messages.

use super::*;

const TALK: &str = "
    system_context Speak softly.
    n1 human: One.
    n2 model <- n1: Two.
    n3 human <- n2: Three.
";

#[test]
fn the_defaults_in_use_are_printed_once() {
    let project = with(TALK);
    let run = call(&project, "assemble --tree t");
    run.expect_code(0);
    assert_eq!(
        run.err,
        dedent(
            "
            using recipe loom-dialogue: the mode of the tree is dialogue
            using head n3: it is the only leaf of the tree
            using model gpt-5.6 (tokenizer o200k_base); set another with --model
            "
        )
    );
    let run = call(
        &project,
        "assemble --tree t --head n3 --recipe loom-dialogue --model gpt-4o",
    );
    run.expect_code(0);
    assert_eq!(run.err, "");
    line(&project, "tree path save t main --head n2");
    let run = call(&project, "assemble --tree t --path main --model gpt-4o");
    run.says("using head n2: path main ends at this node");
}

#[test]
fn the_next_node_can_have_sources() {
    let project = with(&format!("{TALK}\nx4 model <- n3 context n1: So."));
    let asked = "assemble --tree t --head n3 --instruct 'Be brief.' --instruct 'Be kind.' \
                 --context n1 --event 'Go on.'";
    let run = call(&project, asked);
    run.expect_code(0);
    let places = ["Be brief.", "Be kind.", "path=\"n1\"", "Go on."];
    let places = places.map(|what| run.out.find(what));
    assert!(places.is_sorted() && places[0].is_some(), "{}", run.out);
}

#[test]
fn a_request_that_cannot_be_made() {
    let project = with(TALK);
    refuses(
        &project,
        "assemble --tree u",
        "
        error: there is no tree `u`
        hint: `contexture tree list` lists the trees; or `contexture tree import FILE` \
        imports a tree
        ",
    );
    let run = call(&project, "assemble --head n3");
    run.expect_code(2);
    assert!(run.err.contains("--tree <ID>"), "{}", run.err);
}

#[test]
fn an_agent_brings_its_model_and_its_place() {
    let project = with(TALK);
    line(
        &project,
        "tree agent set t ada --type model --model claude-sonnet-4-5 --prompt 'You are Ada.' --at n1",
    );
    let run = call(&project, "assemble --tree t --agent ada --format anthropic");
    run.expect_code(0);
    assert_eq!(
        run.err,
        dedent(
            "
            using recipe loom-dialogue: the mode of the tree is dialogue
            using head n1: agent ada is at this node
            using model claude-sonnet-4-5 (tokenizer o200k_base x1.25) of agent ada
            "
        )
    );
    let body: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(body["model"], "claude-sonnet-4-5");
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn unsupported_parameters_are_reported_once() {
    let project = with(TALK);
    line(
        &project,
        "tree agent set t ada --type model --model gpt-4o --parameter stop=[\"END\"] --parameter seed=7 --parameter top_k=3",
    );
    let warnings = |format: &str| {
        let call = call(
            &project,
            &format!("assemble --tree t --head n3 --agent ada --format {format}"),
        );
        call.expect_code(0);
        let lines = call.err.lines();
        let lines = lines.filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let usual = "warning: gpt-4o does not accept parameters top_k of agent `ada`; they are omitted";
    for format in ["text", "json", "openai-chat"] {
        assert_eq!(warnings(format), [usual], "{format}");
    }
    assert_eq!(
        warnings("openai-responses"),
        [
            usual,
            "warning: openai-responses does not accept parameters stop, seed of agent `ada`; \
             they are omitted"
        ]
    );
    // OpenAI has few models left that complete.
    assert_eq!(
        warnings("openai-completions"),
        [
            usual,
            "warning: gpt-4o is a chat model, which the OpenAI completions endpoint rejects; use \
             gpt-3.5-turbo-instruct, davinci-002, babbage-002"
        ]
    );
    line(&project, "tree agent set t ada --model davinci-002");
    let usual = "warning: davinci-002 does not accept parameters top_k of agent `ada`; they are \
                 omitted";
    assert_eq!(warnings("openai-completions"), [usual]);
}

#[test]
fn a_document_and_what_is_not_in_it_yet() {
    let project = with("mode buffer\nn1 human: Once upon a\nn2 model <- n1:  time")
        .file("more.txt", ", there was\na fox.\n");
    let run = call(&project, "assemble --tree t --working-buffer ', and'");
    run.expect_code(0);
    assert_eq!(run.out, "Once upon a time, and");
    run.says("using recipe loom-buffer: the mode of the tree is buffer");
    let run = call(&project, "assemble --tree t --working-buffer-file more.txt");
    assert_eq!(run.out, "Once upon a time, there was\na fox.\n");
    let args = "assemble --tree t --format openai-completions --working-buffer ' and'";
    let body: Value = serde_json::from_str(&call(&project, args).out).unwrap();
    assert_eq!(body["prompt"], "Once upon a time and");
}

#[test]
fn a_long_path_reads_well_when_explained() {
    let mut lines = String::from("k000 human: Beginning.\n");
    for i in 1..300 {
        let author = ["human", "model"][i % 2];
        lines.push_str(&format!(
            "k{i:03} {author} <- k{:03}: Step {i}, of which there is much to be said.\n",
            i - 1
        ));
    }
    let project = with(&lines);
    let run = call(
        &project,
        "assemble --tree t --max-tokens 1300 --model gpt-4o --explain",
    );
    run.expect_code(0);
    let rows: Vec<&str> = run.err.lines().collect();
    assert!(rows.len() < 90, "{}", run.err);
    let has = |start: &str| rows.iter().any(|row| row.starts_with(start));
    assert!(has(" kept  k000"), "{}", run.err);
    assert!(has(" kept  gap"), "{}", run.err);
    assert!(has(" kept  k299"), "{}", run.err);
    assert!(run.out.contains(" nodes cut ...]"), "{}", run.out);
}

#[test]
fn a_request_is_kept_under_its_tree() {
    let project = with(TALK);
    call(&project, "assemble --tree t --head n1").expect_code(0);
    let before = call(&project, "assemble --tree t --head n3 --explain");
    assert!(
        before.err.contains("are shared with the previous request"),
        "{}",
        before.err
    );
    let kept = json_of(&project, "snapshot list --session loom:t");
    assert_eq!(kept.as_array().unwrap().len(), 2);
}
