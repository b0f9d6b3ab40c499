//! `tree`: import, export, list, new, set, path.

use super::*;

const STORY: &str = "
    title \"A short one\"
    n1 human: Once?
    n2 model <- n1: Upon a time.
    m2 model bookmarked <- n1: Never.
";

#[test]
fn importing_reports_the_added_nodes() {
    let project = Project::new();
    let mut story = tree(STORY);
    assert_eq!(
        import(&project, &story),
        "created tree t: 3 nodes, 2 edges\n"
    );
    assert_eq!(import(&project, &story), "tree t: no changes\n");
    // Flags, nodes and settings at once.
    story["nodes"][2]["metadata"]["bookmarked"] = json!(false);
    story["tree"]["title"] = json!("A longer one");
    let last = json!({"id": "m3", "author": "human", "content": "Ever?"});
    story["nodes"].as_array_mut().unwrap().push(last);
    let last = json!({"id": "e9", "type": "continuation", "sources": [{"node_id": "m2"}],
        "target_node_id": "m3"});
    story["edges"].as_array_mut().unwrap().push(last);
    assert_eq!(
        import(&project, &story),
        "tree t: added 1 node, 1 edge; flags of 1 node changed; settings, agents, paths or memories \
         changed\n"
    );
    let empty = json!({"tree": {"id": "none", "mode": "buffer"}});
    assert_eq!(import(&project, &empty), "created tree none: empty\n");
}

#[test]
fn a_mark_before_a_file_is_no_part_of_it() {
    let marked = |text: &str| format!("\u{feff}{text}");
    let answer = r#"{"choices":[{"message":{"content":"Yes."}}]}"#;
    let project = Project::new()
        .file("t.json", marked(&tree(STORY).to_string()))
        .file("said.md", marked("And then?\n"))
        .file("answer.json", marked(answer));
    prints(
        &project,
        "tree import t.json",
        "created tree t: 3 nodes, 2 edges\n",
    );
    line(
        &project,
        "tree node add t --author human --after n2 --id n3 --file said.md --attach said.md",
    );
    let added = json_of(&project, "tree node show t n3");
    assert_eq!(added["content"], "And then?");
    let material = text(&added["edges_in"][0]["sources"][1]["node_id"]);
    let material = json_of(&project, &format!("tree node show t {material}"));
    assert_eq!(material["content"], "And then?");
    line(
        &project,
        "tree node add t --author model --after n3 --id n4 --response answer.json",
    );
    assert_eq!(json_of(&project, "tree node show t n4")["content"], "Yes.");
}

#[test]
fn standard_input_is_called_by_its_name() {
    let project = with(STORY);
    let run_with = |args: &[&str], bytes: &[u8]| {
        project.write("in", bytes);
        let mut command = project.command(args);
        command.stdin(std::fs::File::open(project.path("in")).unwrap());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let not_text = "error: cannot read standard input: stream did not contain valid UTF-8\n";
    assert_eq!(run_with(&["tree", "import", "-"], b"\xff"), not_text);
    let add = [
        "tree", "node", "add", "t", "--author", "model", "--after", "n2",
    ];
    assert_eq!(run_with(&[&add[..], &["-"]].concat(), b"\xff"), not_text);
    assert_eq!(
        run_with(&[&add[..], &["--response", "-"]].concat(), b"No."),
        "error: standard input: not JSON: expected value at line 1 column 1\n"
    );
}

#[test]
fn the_doctor_counts_trees() {
    let project = with(STORY);
    let told = project.ok(&["doctor"]);
    assert!(
        told.contains("contexture.db: 0 sessions, 1 tree\n"),
        "{told}"
    );
    project.ok(&["tree", "new", "u", "--mode", "buffer"]);
    let told = project.ok(&["doctor"]);
    assert!(told.contains(": 0 sessions, 2 trees\n"), "{told}");
}

#[test]
fn importing_prints_json_for_programs() {
    let project = Project::new().file("t.json", tree(STORY).to_string());
    assert_eq!(
        json_of(&project, "tree import t.json"),
        json!({"created": true, "nodes": 3, "edges": 2, "reflagged": 0, "changed": false})
    );
}

#[test]
fn an_export_is_what_an_import_gives_back() {
    let project = with(STORY);
    let exported = line(&project, "tree export t");
    project.write("t.json", &exported);
    let other = Project::new().file("t.json", format!("{exported}\n"));
    other.ok(&["tree", "import", "t.json"]);
    prints(&other, "tree export t --output again.json", "");
    assert_eq!(other.read("again.json"), format!("{exported}\n"));
    assert_eq!(other.read("again.json"), other.read("t.json"));
}

#[test]
fn trees_are_listed() {
    let project = with(STORY);
    import(&project, &tree("id b\nmode buffer\nx1 human: Fog."));
    prints(
        &project,
        "tree list",
        " tree  mode      nodes  edges  agents  paths  title\n \
         b     buffer        1      0\n \
         t     dialogue      3      2                 A short one\n",
    );
    let listed = json_of(&project, "tree list");
    assert_eq!(listed[1]["tree"]["title"], "A short one");
    assert_eq!(listed[1]["root"], "n1");
}

#[test]
fn no_trees_are_listed() {
    let project = Project::new();
    project.ok(&["session", "new", "chat"]);
    prints(
        &project,
        "tree list",
        "no trees; import one with `contexture tree import FILE`, or create one with `contexture \
         tree new`\n",
    );
}

#[test]
fn a_tree_is_made_and_changed() {
    let project = Project::new().file("context.md", "Speak softly.\n");
    prints(
        &project,
        "tree new t --mode dialogue --title 'Talk' --system-context-file context.md \
         --prefer minimum_recent_nodes=6 --prefer truncation_strategy=rolling_window",
        "created tree t, an empty dialogue; add the first node with `contexture tree node add t \
         --author human TEXT`\n",
    );
    prints(
        &project,
        "tree show t",
        "tree t, a dialogue, is empty; add the first node with `contexture tree node add t \
         --author human TEXT`\n",
    );
    prints(
        &project,
        "tree set t --title 'Small talk' --prefer token_buffer=2_000 --prefer minimum_recent_nodes=",
        "
        tree            t
        mode            dialogue
        title           Small talk
        system context  Speak softly.
        preferences     truncation_strategy=rolling_window token_buffer=2000
        ",
    );
    prints(
        &project,
        "tree set t --mode dialogue --title '' --buffer-mode-system-context",
        "
        tree            t
        mode            dialogue
        system context  Speak softly.
                        (also used for documents)
        preferences     truncation_strategy=rolling_window token_buffer=2000
        ",
    );
    let info = json_of(&project, "tree set t --buffer-mode-system-context=false");
    assert_eq!(info["tree"]["buffer_mode_system_context"], false);
    assert_eq!(info["tree"]["system_context"], "Speak softly.\n");
}

#[test]
fn invalid_trees_and_settings_are_rejected() {
    let project = with(STORY);
    refuses(
        &project,
        "tree new t --mode buffer",
        "error: tree `t` already exists; change it with `contexture tree set t`\n",
    );
    refuses(
        &project,
        "tree set t",
        "error: no setting to change; give one, such as --title TEXT\n",
    );
    for (prefer, why) in [
        (
            "colour=blue",
            "unknown preference `colour`; expected truncation_strategy, minimum_recent_nodes or token_buffer",
        ),
        (
            "token_buffer=-1",
            "token_buffer must be a whole number, 0 or more",
        ),
        (
            "truncation_strategy=none",
            "truncation_strategy must be one of truncate_middle, rolling_window, stop_at_limit",
        ),
        ("token_buffer", "must be KEY=VALUE"),
    ] {
        refuses(
            &project,
            &format!("tree set t --prefer {prefer}"),
            &format!(
                "error: invalid value '{prefer}' for '--prefer <KEY=VALUE>': {why}\n\nFor more \
                 information, try '--help'.\n"
            ),
        );
    }
}

#[test]
fn paths_are_saved_and_listed() {
    let project = with("n1 human: One.\nn1b human edits n1: Won.\nn2 model <- n1: Two.");
    prints(
        &project,
        "tree path list t",
        "no saved paths; save one with `contexture tree path save t NAME --head NODE`\n",
    );
    prints(
        &project,
        "tree path save t first --head n2 --choose n1 --choose e1",
        "path first: to n2, using n1, edge e1\n",
    );
    prints(
        &project,
        "tree path save t main --head n2",
        "path main: to n2\n",
    );
    prints(
        &project,
        "tree path list t",
        "
        first: to n2, using edge e1, n1
        main: to n2
        ",
    );
}

#[test]
fn every_command_has_help_with_examples() {
    let project = Project::new();
    let all = "import export list new set show node path agent memory \
               node/add node/edit node/flag node/show path/save path/list agent/set agent/list \
               memory/show memory/pin memory/unpin memory/stash memory/recall memory/put-away \
               memory/discard memory/act";
    for command in all.split_whitespace() {
        let command = command.replace('/', " ");
        let run = call(&project, &format!("tree {command} --help"));
        run.expect_code(0);
        assert!(run.out.contains("Examples:"), "tree {command}: {}", run.out);
    }
    let legend = call(&project, "tree show --help").out;
    for symbol in ["●", "○", "◌", "✎", "◆", "⋮"] {
        assert!(legend.contains(symbol), "{symbol}");
    }
}
