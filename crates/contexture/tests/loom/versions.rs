//! The choice of a path and of a version, if there are several (L1, L3).

use crate::support::{Lab, expect};

/// Returns the nodes of the request, in order.
fn nodes(lab: &Lab, request: &str) -> String {
    let assembled = lab.assemble(request).unwrap();
    let rows = assembled.report.included.iter();
    let ids: Vec<&str> = rows.map(|row| &*row.id).collect();
    ids.join(" ")
}

const EDITED: &str = "
    n1 human: One.
    n2 model <- n1: Two.
    n3 human <- n2: Three.
    n2b model edits n2: Two, better.
    path first n3 n2
";

#[test]
fn an_edit_replaces_the_node_on_the_path() {
    let lab = Lab::with(EDITED);
    assert_eq!(nodes(&lab, "--head n3"), "n1 n2b n3");
    assert_eq!(nodes(&lab, "--head n2b"), "n1 n2b");
    expect(
        &lab.left_out("--head n3"),
        "n2: other_version (replaced by version n2b)",
    );
}

#[test]
fn a_node_named_by_id_is_used_in_that_version() {
    assert_eq!(nodes(&Lab::with(EDITED), "--head n2"), "n1 n2");
}

#[test]
fn a_saved_path_chooses_the_version() {
    let lab = Lab::with(EDITED);
    assert_eq!(nodes(&lab, "--path first"), "n1 n2 n3");
    // And its head can be another.
    assert_eq!(nodes(&lab, "--path first --head n1"), "n1");
}

#[test]
fn an_edit_of_an_edit_is_the_latest() {
    let lab = Lab::with(&format!("{EDITED}\nn2c model edits n2b: Two, best."));
    assert_eq!(nodes(&lab, "--head n3"), "n1 n2c n3");
}

#[test]
fn a_pruned_edit_is_not_the_newest_version() {
    let lab = Lab::with(&format!(
        "{EDITED}\nn2c model pruned edits n2b: Two, worst."
    ));
    assert_eq!(nodes(&lab, "--head n3"), "n1 n2b n3");
    // One that is excluded leaves its place empty.
    let lab = Lab::with(&format!(
        "{EDITED}\nn2c model excluded edits n2b: Two, worst."
    ));
    assert_eq!(nodes(&lab, "--head n3"), "n1 n3");
}

#[test]
fn material_has_versions_too() {
    let lab = Lab::with(
        "
        n1 human: One.
        rule human: Rhyme.
        note human: A note.
        n2 model <- n1 instruction rule context note: Two.
        r1 human remark <- n1: Hm.
        rule2 human edits rule: Do not rhyme.
        note2 human edits note: A better note.
        r1b human edits r1: Hm, good.
        path first n2 rule note
        ",
    );
    let request = "--head n2 --include-annotations";
    assert_eq!(nodes(&lab, request), "rule2 note2 for n1 n1 r1b for n1 n2");
    expect(
        &lab.left_out(request),
        "
        rule: other_version (replaced by version rule2)
        note for n1: other_version (replaced by version note2)
        r1 for n1: other_version (replaced by version r1b)
        ",
    );
    assert_eq!(nodes(&lab, "--path first"), "rule note for n1 n1 n2");
}

#[test]
fn several_primaries_are_versions_of_one_place() {
    let tree = "
        n1 human: One.
        a2 model <- n1: Two.
        b2 model edits a2 <- n1: Two, again.
        n3 human <- a2 b2: Three.
        path old n3 a2
    ";
    let lab = Lab::with(tree);
    assert_eq!(nodes(&lab, "--head n3"), "n1 b2 n3");
    assert_eq!(nodes(&lab, "--path old"), "n1 a2 n3");
}

#[test]
fn an_edit_with_an_edge_of_its_own_is_a_branch() {
    let lab = Lab::with(
        "
        n1 human: One.
        a2 model <- n1: Two.
        n3 human <- a2: Three.
        b2 model edits a2 <- n1: Another two.
        n4 human <- b2: Four.
        ",
    );
    assert_eq!(nodes(&lab, "--head n3"), "n1 a2 n3");
    assert_eq!(nodes(&lab, "--head n4"), "n1 b2 n4");
}

#[test]
fn paths_that_meet_need_a_choice() {
    let mut tree = crate::support::tree(
        "
        n1 human: One.
        a2 model <- n1: Two.
        b2 model <- n1: Another two.
        n3 human <- a2: Three.
        path left n3 e2
        path right n3 b2
        ",
    );
    let mut second = tree.edges[2].clone();
    second.id = "e9".to_owned();
    second.sources[0].node_id = "b2".to_owned();
    tree.edges.push(second);
    let lab = Lab::new("");
    let now = Some(crate::support::now());
    lab.engine.import_tree(&tree, now).unwrap();
    expect(
        &lab.complaint("--head n3"),
        "
        node `n3` is reached by several continuation edges: `e2` from `a2`, `e9` from `b2`
        hint: `save_path` saves a path; or set `path`
        ",
    );
    assert_eq!(nodes(&lab, "--path left"), "n1 a2 n3");
    assert_eq!(nodes(&lab, "--path right"), "n1 b2 n3");
}

#[test]
fn a_known_path_follows_what_changes() {
    let lab = Lab::with(EDITED);
    assert_eq!(nodes(&lab, "--head n3"), "n1 n2b n3");
    let edit = contexture::loom::NodeEdit {
        id: Some("n1b".to_owned()),
        author: None,
        agent: None,
        content: contexture::store::MessageContent::Text("One, better.".to_owned()),
    };
    lab.engine.edit_node("t", "n1", &edit, None).unwrap();
    assert_eq!(nodes(&lab, "--head n3"), "n1b n2b n3");
    let prune = contexture::loom::FlagChange {
        pruned: Some(true),
        ..Default::default()
    };
    lab.engine.flag_node("t", "n2b", prune).unwrap();
    assert_eq!(nodes(&lab, "--head n3"), "n1b n2 n3");
    let new =
        contexture::loom::NewNode::text(contexture::store::Author::Model, "Four.", Some("n3"));
    let four = lab.engine.add_node("t", &new, None).unwrap();
    let head = format!("--head {}", four.local_id);
    assert_eq!(nodes(&lab, &head), format!("n1b n2 n3 {}", four.local_id));
    assert_eq!(nodes(&lab, "--head n2"), "n1b n2");
}

#[test]
fn where_there_is_one_end_its_latest_version_is_it() {
    let lab = Lab::with("n1 human: One.\nn1b human edits n1: One, better.");
    assert_eq!(nodes(&lab, ""), "n1b");
    let lab = Lab::with(
        "
        n1 human: One.
        n2 model <- n1: Two.
        n2b model edits n2: Two, better.
        n2c model pruned edits n2b: Two, worst.
        n1b human edits n1: One, better.
        ",
    );
    assert_eq!(nodes(&lab, ""), "n1b n2b");
    // A continuation of one version continues the node.
    let lab = Lab::with(&format!("{EDITED}\nn2c model edits n2b: Two, best."));
    assert_eq!(nodes(&lab, ""), "n1 n2c n3");
}

#[test]
fn a_remark_does_not_go_on() {
    let lab = Lab::with("n1 human: One.\nn2 model <- n1: Two.\nr1 human remark <- n2: Good.");
    assert_eq!(nodes(&lab, ""), "n1 n2");
}

#[test]
fn many_edits_of_edits_take_no_time() {
    let mut text = "n0 human: Begin.\nv0 model <- n0: Draft.\nend human <- v0: End.\n".to_owned();
    for n in 1..2000 {
        text += &format!("v{n} model edits v{}: Draft.\n", n - 1);
    }
    let mut document = crate::support::tree(&text);
    for node in &mut document.nodes {
        node.created_at = document.tree.created_at;
    }
    let lab = Lab::new("");
    let now = Some(crate::support::now());
    lab.engine.import_tree(&document, now).unwrap();
    let start = std::time::Instant::now();
    assert_eq!(nodes(&lab, "--head end"), "n0 v1999 end");
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn a_version_that_is_on_the_path_is_not_left_out_of_it() {
    let lab = Lab::with(
        "
        n1 human: One.
        n2 model <- n1: Two.
        n3 human <- n2 n1: Three.
        ",
    );
    assert_eq!(nodes(&lab, "--head n3"), "n1 n2 n3");
    expect(&lab.left_out("--head n3"), "");
}
