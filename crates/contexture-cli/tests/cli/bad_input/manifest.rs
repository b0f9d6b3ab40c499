//! The manifest.

use super::*;

#[test]
fn there_is_no_manifest() {
    Project::new().refuses(
        &["assemble"],
        2,
        "
        error: no working-set.yml and no .agent/working-set.yml in .
        hint: `contexture init` creates the files of a project; or set --manifest
        ",
    );
}

#[test]
fn the_named_manifest_is_not_there() {
    small().refuses(
        &["assemble", "--manifest", "other.yml"],
        2,
        "
        error: no manifest `other.yml` in .
        hint: `contexture init` creates the files of a project; or set --manifest
        ",
    );
}

#[test]
fn a_manifest_outside_the_root_is_refused_as_such() {
    let outside = small();
    let project = Project::new();
    let path = outside.path("working-set.yml");
    for manifest in [path.to_str().unwrap(), "../working-set.yml"] {
        let run = project.run(&["assemble", "--manifest", manifest]);
        run.expect_code(2);
        // The file may exist: an error that it does not would be misleading.
        assert!(!run.err.contains("there is no manifest"), "{}", run.err);
        assert!(run.err.contains("root"), "{}", run.err);
        assert!(run.err.contains(manifest), "{}", run.err);
    }
}

#[test]
fn the_root_is_not_there() {
    Project::new().refuses(
        &["assemble", "nowhere"],
        2,
        "
        error: cannot open nowhere: No such file or directory (os error 2)
        hint: name an existing directory
        ",
    );
}

#[test]
fn the_root_is_a_file() {
    small().refuses(
        &["assemble", "a.md"],
        2,
        "
        error: a.md is a file; assemble takes a project directory
        hint: to add the file to the prompt, run `contexture working-set add a.md --why REASON` in the project directory
        ",
    );
}

#[test]
fn a_manifest_that_does_not_parse_is_never_overwritten() {
    let project = Project::new()
        .file("a.md", "alpha\n")
        .file("working-set.yml", "files: [\n");
    project.refuses(
        "working-set add a.md --priority 0.5 --why try",
        2,
        "error: working-set.yml:1:8: unclosed bracket '['\n",
    );
}

#[test]
fn a_manifest_that_is_not_utf8() {
    Project::new()
        .file("working-set.yml", b"files: [] # caf\xE9\n")
        .refuses(
            &["assemble"],
            2,
            "
            error: working-set.yml: not UTF-8 at byte 15
            hint: save the file as UTF-8
            ",
        );
}

#[test]
fn a_manifest_that_is_too_large() {
    let project = Project::new();
    project.write("working-set.yml", "#".repeat(5 << 20));
    let run = project.run(&["assemble"]);
    run.expect_code(2);
    assert!(
        run.err
            .contains("working-set.yml: is larger than the limit of 4194304 bytes"),
        "{}",
        run.err
    );
    // That setting is about files, not about manifests: changing it would not help.
    assert!(!run.err.contains("limits.max_file_bytes"), "{}", run.err);
}
