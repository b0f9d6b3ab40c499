//! `tree node`: add, edit, flag, show.

use super::*;

fn empty() -> Project {
    let project = Project::new();
    project.ok(&["tree", "new", "t", "--mode", "dialogue", "--now", NOW]);
    project
}

/// Returns the only node that `tree node show` finds.
#[track_caller]
fn node(project: &Project, id: &str) -> Value {
    json_of(project, &format!("tree node show t {id}"))
}

#[test]
fn a_node_is_added_and_its_id_alone_is_printed() {
    let project = empty();
    let first = call(&project, "tree node add t --author human 'Why?'");
    first.expect_code(0);
    assert_eq!(first.err, "");
    let first = first.out.trim_end();
    assert_eq!(first.len(), 6, "{first}");
    let second = line(
        &project,
        &format!("tree node add t --author model --after {first} --id because 'Because.'"),
    );
    assert_eq!(second, "becaus");
    prints(
        &project,
        "tree node show t because",
        &format!(
            "node      becaus
id        because
author    model
created   2026-01-31T12:00:00Z
tokens    8
follows   {first} (edge to-because)

Because.
"
        ),
    );
    let added = json_of(
        &project,
        "tree node add t --author human --after becaus 'Ah.'",
    );
    assert_eq!(added["author"], "human");
}

#[test]
fn text_comes_from_files_and_pipes() {
    let project = empty().file("one.md", "One.\n");
    let one = line(&project, "tree node add t --author human --file one.md");
    // A message does not end with the line break that a file ends with.
    assert_eq!(node(&project, &one)["content"], "One.");
    let args = [
        "tree", "node", "add", "t", "--author", "model", "--after", &one, "-",
    ];
    let run = project.run_with(&args, "Two.\r\n");
    run.expect_code(0);
    assert_eq!(node(&project, run.out.trim_end())["content"], "Two.");
    // A piece of a text does, if it does.
    project.ok(&["tree", "new", "b", "--mode", "buffer"]);
    let args = [
        "tree", "node", "add", "b", "--author", "model", "--id", "piece", "-",
    ];
    project.run_with(&args, "\nTwo.\n").expect_code(0);
    let piece = json_of(&project, "tree node show b piece");
    assert_eq!(piece["content"], "\nTwo.\n");
}

#[test]
fn sources_are_added_with_a_node() {
    let png = b"\x89PNG\r\n\x1a\nnot much of a picture";
    let project = empty()
        .file("log.txt", "High water 3:12.\n")
        .file("chart.jpg", png);
    line(
        &project,
        "tree node add t --author human --id early 'Before.'",
    );
    line(
        &project,
        "tree node add t --author human --after early --id start 'Look at this.'",
    );
    line(
        &project,
        "tree node add t --author model --after start --id seen --context early \
         --attach log.txt --attach chart.jpg --instruct 'Be brief.' 'I see.'",
    );
    let seen = node(&project, "seen");
    let sources = seen["edges_in"][0]["sources"].as_array().unwrap();
    let mut said: Vec<String> = Vec::new();
    for source in sources {
        let content = node(&project, text(&source["node_id"]))["content"].clone();
        let content = match content {
            Value::String(text) => text,
            blocks => text(&blocks[0]["media_type"]).to_owned(),
        };
        said.push(format!("{}: {content}", text(&source["role"])));
    }
    said.sort();
    assert_eq!(
        said,
        [
            "context: Before.",
            "context: High water 3:12.",
            "context: image/png",
            "instruction: Be brief.",
            "primary: Look at this.",
        ]
    );
}

#[test]
fn an_answer_is_kept_with_its_usage() {
    let answer = json!({"model": "claude-sonnet-4-5", "content": [
        {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Two bulges."}],
        "usage": {"input_tokens": 12, "cache_read_input_tokens": 1000, "output_tokens": 4}});
    let project = empty().file("answer.json", answer.to_string());
    line(
        &project,
        "tree node add t --author human --id start 'Why two?'",
    );
    line(
        &project,
        "tree node add t --author model --after start --id two --response answer.json",
    );
    prints(
        &project,
        "tree node show t two",
        "
        node      two
        author    model
        created   2026-01-31T12:00:00Z
        tokens    10
        follows   start (edge to-two)
        response  of anthropic, claude-sonnet-4-5; show it with --json
        usage     1,012 tokens read, 1,000 of them from the cache; 4 written

        Two bulges.
        ",
    );
    assert_eq!(node(&project, "two")["raw_response"]["body"], answer);
    // The output has the given text.
    line(
        &project,
        "tree node add t --author model --after start --id own --response answer.json 'Two.'",
    );
    assert_eq!(node(&project, "own")["content"], "Two.");
    // The request that it answers is known by its hash.
    let asked = call(&project, "assemble --tree t --head start --format json");
    let asked: serde_json::Value = serde_json::from_str(&asked.out).unwrap();
    let hash = asked["snapshot"].as_str().unwrap();
    let short = &hash[..8];
    line(
        &project,
        &format!(
            "tree node add t --author model --after start --id three --response answer.json \
             --request {short}"
        ),
    );
    assert_eq!(
        node(&project, "three")["raw_response"]["request_hash"],
        hash
    );
    let run = call(
        &project,
        "tree node add t --author model --after start --response answer.json --request feed",
    );
    run.expect_code(2);
    assert!(run.err.contains("feed"), "{}", run.err);
}

#[test]
fn an_agent_writes_with_its_own_type() {
    let project = with("n1 human: One?");
    line(&project, "tree agent set t ada --type model");
    line(&project, "tree agent set t ines --type human");
    refuses(
        &project,
        "tree node add t --author human --agent ada --after n1 No.",
        "error: agent `ada` is a model, but --author is human; omit --author, or name another \
         agent\n",
    );
    for (args, author) in [
        ("--agent ada", "model"),
        ("--agent ada --author model", "model"),
        ("--agent ines", "human"),
    ] {
        let added = line(
            &project,
            &format!("tree node add t {args} --after n1 'Yes, {args}.'"),
        );
        assert_eq!(node(&project, &added)["author"], author);
    }
}

#[test]
fn an_edit_replaces_the_edited_node() {
    let project = with("n1 human: One?\nn2 model <- n1: Two.");
    let edited = call(&project, "tree node edit t n1 --id n1b 'One!'");
    edited.expect_code(0);
    assert_eq!(edited.out, "n1b\n");
    assert_eq!(
        edited.err,
        "n1b replaces n1 in requests, unless a saved path chooses n1\n"
    );
    assert_eq!(node(&project, "n1")["edits"], json!(["n1b"]));
    assert_eq!(node(&project, "n1b")["edited_from"], "n1");
    // A continuation of the old version is reported.
    let added = call(
        &project,
        "tree node add t --author model --after n1 'Three.' --id n3",
    );
    added.expect_code(0);
    assert_eq!(
        added.err,
        "n1 has a later version, n1b: requests use that version, unless a saved path chooses n1\n"
    );
    let added = call(
        &project,
        "tree node add t --author model --after n1b 'Four.' --id n4",
    );
    assert_eq!(added.err, "");
}

#[test]
fn flags_are_set_and_taken_away() {
    let project = with("n1 human: One.");
    prints(
        &project,
        "tree node flag t n1 --exclude --bookmark",
        "n1: excluded, bookmarked\n",
    );
    prints(
        &project,
        "tree node flag t n1 --include --prune",
        "n1: pruned, bookmarked\n",
    );
    prints(
        &project,
        "tree node flag t n1 --restore --unbookmark",
        "n1: no flags\n",
    );
    assert_eq!(
        json_of(&project, "tree node flag t n1 --prune"),
        json!({"excluded": false, "pruned": true, "bookmarked": false})
    );
}

#[test]
fn everything_about_a_node() {
    let project = with(
        "
        n1 human: One.
        c1 human: Look.
        i1 human: Be brief.
        n2 model bookmarked <- n1 context c1 instruction i1: Two.
        r2 human remark <- n2: Good.
        n3 human <- n2: Three.
        ",
    );
    prints(
        &project,
        "tree node show t n2",
        "
        node      n2
        author    model
        created   2026-01-31T12:00:03Z
        flags     bookmarked
        tokens    8
        follows   n1, with context c1, with instruction i1 (edge e1)
        annotated r2 (edge e2)
        continues n3 (edge e3)

        Two.
        ",
    );
    prints(
        &project,
        "tree node show t c1",
        "
        node      c1
        author    human
        created   2026-01-31T12:00:01Z
        tokens    8
        context   for n2 (edge e1)

        Look.
        ",
    );
}

#[test]
fn invalid_nodes_are_rejected() {
    let project = with("n1 human: One.\nn2 model <- n1: Two.")
        .file("blob", b"\xff\xfe\x00\x01")
        .file("blank.md", "\n")
        .file("tool.json", r#"{"content":[{"type":"tool_use","id":"c"}]}"#);
    for (args, message) in [
        (
            "tree node add t --author human",
            "error: the node has no content: give TEXT, --file FILE, or - for standard input\n",
        ),
        (
            "tree node edit t n1",
            "error: the node has no content: give TEXT, --file FILE, or - for standard input\n",
        ),
        (
            "tree node add t --author human Again.",
            "error: tree `t` already has a root, so a new node needs a parent\nhint: set --after\n",
        ),
        (
            "tree node add t --author human --after n2 --agent ada No.",
            "error: tree `t` has no agent `ada`: it has no agents; create one with `contexture \
             tree agent set`\n",
        ),
        (
            "tree node add t --author model --after n2 --attach blob No.",
            "error: cannot read blob: it is neither text nor a picture (png, jpg, gif, webp)\n",
        ),
        (
            "tree node add t --author model --after n2 --attach blank.md No.",
            "error: cannot read blank.md: it is empty\n",
        ),
        (
            "tree node add t --author model --after n2 --attach . No.",
            "error: cannot read .: Is a directory (os error 21)\n",
        ),
        (
            "tree node add t --author model --after n2 --response blank.md",
            "error: blank.md: not JSON: EOF while parsing a value at line 2 column 0\n",
        ),
        (
            "tree node add t --author model --after n2 --response tool.json",
            "error: the node has no content: the response has no plain text; give it as TEXT or \
             --file FILE\n",
        ),
        (
            "tree node add t --author model --after n2 - --response -",
            "error: standard input can be read only once; use - for one argument\n",
        ),
        (
            "tree node flag t n1",
            "error: no flag to change; give --exclude, --include, --prune, --restore, --bookmark \
             or --unbookmark\n",
        ),
    ] {
        refuses(&project, args, message);
    }
    let run = call(&project, "tree node add t --author human 'x' --attach blob");
    run.expect_code(2);
    assert!(run.err.contains("--after <NODE>"), "{}", run.err);
}
