//! The manifest.

use super::*;

#[test]
fn there_is_no_manifest() {
    Project::new().refuses(
        &["assemble"],
        2,
        "
        error: there is no working-set.yml and no .agent/working-set.yml in .
        hint: run `contexture init` there, or name one with --manifest
        ",
    );
}

#[test]
fn the_named_manifest_is_not_there() {
    small().refuses(
        &["assemble", "--manifest", "other.yml"],
        2,
        "
        error: there is no manifest `other.yml` in .
        hint: run `contexture init` there, or name one with --manifest
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
        // The file may well exist: to say that it does not would send the user
        // looking for the wrong mistake.
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
fn an_empty_manifest() {
    Project::new().file("working-set.yml", "").refuses(
        &["assemble"],
        2,
        "error: working-set.yml:1:1: is empty; a manifest begins with `protocol: CONTEXT-ASSEMBLY/0.1`\n",
    );
}

#[test]
fn yaml_that_does_not_parse_is_shown_with_line_and_column() {
    Project::new()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            files:
              - path: a.md
                priority: 0.5: 0.6
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "error: working-set.yml:4:18: mapping values are not allowed in this context\n",
        );
}

#[test]
fn a_manifest_that_does_not_parse_is_never_overwritten() {
    let project = Project::new()
        .file("a.md", "alpha\n")
        .file("working-set.yml", "files: [\n");
    project.refuses(
        &[
            "working-set",
            "add",
            "a.md",
            "--priority",
            "0.5",
            "--why",
            "try",
        ],
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
fn a_yaml_bomb_of_aliases() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let alias = vec![format!("*a{}", i - 1); 9].join(", ");
        bomb.push_str(&format!("a{i}: &a{i} [{alias}]\n"));
    }
    Project::new().file("working-set.yml", bomb).refuses(
        &["assemble"],
        2,
        "error: working-set.yml:1:9: anchors and aliases are not supported; write the value out\n",
    );
}

#[test]
fn a_yaml_bomb_of_deep_blocks() {
    let blocks: String = (0..500)
        .map(|depth| format!("{}a:\n", "  ".repeat(depth)))
        .collect();
    for bomb in [
        blocks,
        format!("{}a\n", "- ".repeat(100_000)),
        "? ".repeat(100_000),
    ] {
        let project = Project::new().file("working-set.yml", bomb);
        let run = project.run(&["assemble"]);
        run.expect_code(2);
        assert!(
            run.err.starts_with("error: working-set.yml:"),
            "{}",
            run.err
        );
        assert!(run.err.contains("is nested too deep"), "{}", run.err);
    }
}

#[test]
fn a_yaml_bomb_of_deep_flows_is_refused_in_words_a_user_knows() {
    for bomb in [
        "[".repeat(1_000_000),
        "{a: ".repeat(100_000),
        "[{a: ".repeat(100_000),
    ] {
        let project = Project::new().file("working-set.yml", bomb);
        let run = project.run(&["assemble"]);
        run.expect_code(2);
        assert!(
            run.err.starts_with("error: working-set.yml:1:"),
            "{}",
            run.err
        );
        assert!(run.err.contains("nested too deep"), "{}", run.err);
    }
}

#[test]
fn a_yaml_bomb_of_many_keys() {
    let bomb: String = (0..100_000).map(|i| format!("key{i}: 1\n")).collect();
    let project = Project::new().file("working-set.yml", bomb);
    let run = project.run(&["assemble"]);
    assert!(run.code.is_some_and(|code| code <= 2), "{run:?}");
}

#[test]
fn a_manifest_that_is_too_large() {
    let project = Project::new();
    project.write("working-set.yml", "#".repeat(5 << 20));
    let run = project.run(&["assemble"]);
    run.expect_code(2);
    assert!(
        run.err
            .contains("working-set.yml: is larger than the 4194304 bytes that are read"),
        "{}",
        run.err
    );
    // That setting is about files, not about manifests: changing it would not help.
    assert!(!run.err.contains("limits.max_file_bytes"), "{}", run.err);
}

#[test]
fn a_priority_beyond_one() {
    small().entries("a.md 1.5").refuses(
        &["assemble"],
        2,
        "error: working-set.yml:6:15: files[0].priority: must be a number from 0 to 1, not `1.5`\n",
    );
}

#[test]
fn a_priority_in_words() {
    small().entries("a.md high").refuses(
        &["assemble"],
        2,
        "error: working-set.yml:6:15: files[0].priority: must be a number from 0 to 1, not `high`\n",
    );
}

#[test]
fn an_entry_without_path_or_priority() {
    small()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            files:
              - priority: 0.5
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "error: working-set.yml:3:5: files[0].path: is missing\n",
        );
    small()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            files:
              - path: a.md
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "error: working-set.yml:3:5: files[0].priority: is missing\n",
        );
}

#[test]
fn an_unknown_strategy_suggests_the_nearest() {
    small().entries("a.md 0.5 truncate_strategy=midle").refuses(
        &["assemble"],
        2,
        "error: working-set.yml:7:24: files[0].truncate_strategy: unknown strategy `midle`; \
         did you mean `middle`? (one of never, start, middle, end)\n",
    );
}

#[test]
fn an_unknown_role_suggests_the_nearest() {
    small().entries("a.md 0.5 role=sytem").refuses(
        &["assemble"],
        2,
        "error: working-set.yml:7:11: files[0].role: unknown role `sytem`; \
         did you mean `system`? (one of system, developer, user, context)\n",
    );
}

#[test]
fn a_path_that_stands_there_twice() {
    small().entries("a.md 0.5\nb.md 0.5\n./a.md 0.9").refuses(
        &["assemble"],
        2,
        "
        error: working-set.yml:9:11: files[2].path: `./a.md` stands here already, on line 5
        hint: remove one of the two entries
        ",
    );
}

#[test]
fn a_protocol_of_another_time() {
    small()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/9
            files: []
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "error: working-set.yml:1:11: protocol: is `CONTEXT-ASSEMBLY/9`, but this reads `CONTEXT-ASSEMBLY/0.1`\n",
        );
}

#[test]
fn a_line_range_that_is_none() {
    small().entries("a.md#L9-L2 0.5").refuses(
        &["assemble"],
        2,
        "error: working-set.yml:5:11: files[0].path: `a.md#L9-L2` ends with a line range that is none; \
         write it as `#L10-L80`\n",
    );
}

#[test]
fn a_pattern_that_is_none() {
    small().entries("{a.md 0.5").refuses(
        &["assemble"],
        2,
        "error: working-set.yml:5:11: files[0].path: `{a.md` is not a pattern: \
         unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)\n",
    );
}
