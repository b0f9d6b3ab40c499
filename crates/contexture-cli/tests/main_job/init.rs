//! `init`.

use super::*;

#[test]
fn init_writes_a_project_that_assembles() {
    let project = Project::new();
    let run = project.run(&["init", "mine"]);
    run.expect_code(0);
    assert_eq!(
        run.out,
        dedent(
            "
            wrote .agent/constitution.md
            wrote .agent/working-set.yml
            wrote .agent/hot.yml
            wrote .agent/cold.yml
            wrote contexture.toml
            "
        )
    );
    run.says("next: contexture assemble mine --explain");
    let prompt = project.ok(&["assemble", "mine"]);
    assert!(
        prompt.starts_with("Root: .agent/\nConstitution: .agent/constitution.md (v0.1, checksum: ")
    );
    assert!(prompt.contains("\n<system>\n# Constitution v0.1\n"));
    project.ok(&["doctor", "mine"]);
}

#[test]
fn init_leaves_what_is_there() {
    let project = Project::new().file(".agent/constitution.md", "mine\n");
    let out = project.ok(&["init"]);
    assert!(
        out.contains("kept  .agent/constitution.md (already exists)\n"),
        "{out}"
    );
    assert_eq!(project.read(".agent/constitution.md"), "mine\n");
    let once = project.snapshot();
    project.ok(&["init"]);
    assert_eq!(project.snapshot(), once);
}
