//! Valid manifests, and the errors for invalid ones.

use contexture::core::{Cut, Role};
use contexture::working_set::{Lines, Manifest};

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = Manifest::parse("working-set.yml", text).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert!(error.is_input());
}

fn read(text: &str) -> Manifest {
    Manifest::parse("working-set.yml", text).unwrap()
}

#[test]
fn the_seeds_example_is_read() {
    let manifest = read(
        r#"
# working-set.yml
protocol: CONTEXT-ASSEMBLY/0.1
budget:
  max_tokens: 28000
  reserved_for_response: 4000
  effective: 24000

files:
  - path: ".agent/constitution.md"
    priority: 1.0          # Highest (always included)
    role: "system"
    truncate_strategy: "never"

  - path: "src/main.ts"
    priority: 0.8
    truncate_strategy: "middle"
    max_lines: 500

metadata:
  last_updated: "2025-12-30T12:30:00Z"
  assembled_by: "model"
"#,
    );
    assert_eq!(manifest.max_tokens, Some(28_000));
    assert_eq!(manifest.reserved_for_response, Some(4_000));
    assert_eq!(manifest.assembled_by.as_deref(), Some("model"));
    assert!(manifest.warnings.is_empty(), "{:?}", manifest.warnings);
    assert!(manifest.files[0].is_pinned());
    assert_eq!(manifest.files[0].role, Role::System);
    assert_eq!(manifest.files[1].role, Role::Context);
    assert_eq!(manifest.files[1].cut, Cut::Middle);
    assert_eq!(manifest.files[1].max_lines, Some(500));
    assert_eq!(manifest.files[1].line, 15);
}

#[test]
fn defaults_are_context_and_end() {
    let manifest = read("protocol: CONTEXT-ASSEMBLY/0.1\nfiles: [{path: a, priority: 0.5}]");
    assert_eq!(manifest.files[0].role, Role::Context);
    assert_eq!(manifest.files[0].cut, Cut::End);
}

#[test]
fn the_older_flat_budget_is_read() {
    let manifest = read("protocol: CONTEXT-ASSEMBLY/0.1\ncontext_budget_tokens: 9000\nfiles: []");
    assert_eq!(manifest.max_tokens, Some(9_000));
    assert_eq!(
        read("context_budget_tokens: 700\nfiles: []").warnings,
        ["working-set.yml: `protocol` is missing; assuming `CONTEXT-ASSEMBLY/0.1`"]
    );
}

#[test]
fn too_deep_nesting_is_rejected() {
    let blocks = (0..500).map(|depth| format!("{}a:\n", "  ".repeat(depth)));
    for bomb in [
        blocks.collect(),
        format!("{}a\n", "- ".repeat(100_000)),
        "? ".repeat(100_000),
        "[".repeat(1_000_000),
        "{a: ".repeat(100_000),
        "[{a: ".repeat(100_000),
    ] {
        let error = Manifest::parse("working-set.yml", &bomb).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("working-set.yml:"), "{told}");
        assert!(told.contains("nested too deep"), "{told}");
    }
}

#[test]
fn a_path_may_carry_a_line_range() {
    let manifest = read(
        "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n\
         - {path: 'a.ts#L10-L80', priority: 0.5}\n- {path: 'a.ts#L7', priority: 0.5}\n",
    );
    assert_eq!(manifest.files[0].path, "a.ts");
    assert_eq!(
        manifest.files[0].lines,
        Some(Lines {
            first: 10,
            last: 80
        })
    );
    assert_eq!(manifest.files[1].lines, Some(Lines { first: 7, last: 7 }));
}

#[test]
fn an_effective_that_disagrees_is_a_warning_and_the_smaller_is_used() {
    let manifest = read(
        "protocol: CONTEXT-ASSEMBLY/0.1\n\
         budget: {max_tokens: 1000, reserved_for_response: 100, effective: 800}\nfiles: []",
    );
    assert_eq!(
        manifest.warnings,
        ["working-set.yml:2: budget.effective is 800, but 1000 minus 100 is 900; using 800"]
    );
    assert_eq!(manifest.reserved_for_response, Some(100));
    assert_eq!(manifest.effective, Some(800));
}

#[test]
fn unknown_fields_are_warnings_with_the_line() {
    let manifest = read(
        "protocol: CONTEXT-ASSEMBLY/0.1\nowner: me\nfiles:\n  - path: a\n    priority: 0.5\n    colour: red\n",
    );
    assert_eq!(
        manifest.warnings,
        [
            "working-set.yml:6: unknown field `files[0].colour` is ignored",
            "working-set.yml:2: unknown field `owner` is ignored",
        ]
    );
}

#[test]
fn errors_name_the_place() {
    let entry =
        |fields: &str| format!("protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n  - {{{fields}}}\n");
    refused(
        &entry("path: a, priority: 1.5"),
        "working-set.yml:3:25: files[0].priority: must be a number from 0 to 1, not `1.5`",
    );
    refused(
        &entry("path: a, priority: high"),
        "working-set.yml:3:25: files[0].priority: must be a number from 0 to 1, not `high`",
    );
    refused(
        &entry("path: a"),
        "working-set.yml:3:5: files[0].priority: is missing",
    );
    refused(
        &entry("path: a, priority: 1, truncate_strategy: midle"),
        "working-set.yml:3:47: files[0].truncate_strategy: unknown strategy `midle`; \
         did you mean `middle`? (one of never, start, middle, end)",
    );
    refused(
        &entry("path: a, priority: 1, role: admin"),
        "working-set.yml:3:34: files[0].role: unknown role `admin` \
         (one of system, developer, user, context)",
    );
    refused(
        &entry("path: ../a, priority: 1"),
        "working-set.yml:3:12: files[0].path: `../a` contains `..`, which can leave the root; \
         use a path below the root",
    );
    refused(
        &entry("path: /etc/passwd, priority: 1"),
        "working-set.yml:3:12: files[0].path: `/etc/passwd` is absolute; use a path relative to \
         the root",
    );
    refused(
        &entry("path: 'a#L9-L3', priority: 1"),
        "working-set.yml:3:12: files[0].path: `a#L9-L3` ends with an invalid line range; write \
         it as `#L10-L80`",
    );
    refused(
        &entry("path: a, priority: 1, max_lines: 0"),
        "working-set.yml:3:39: files[0].max_lines: must be a whole number of at least 1, not 0",
    );
    refused(
        "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n- {path: a, priority: 1}\n- {path: ./a, priority: 0}\n",
        "working-set.yml:4:10: files[1].path: `./a` is already listed on line 3",
    );
    refused(
        "protocol: CONTEXT-ASSEMBLY/9\nfiles: []",
        "working-set.yml:1:11: protocol: is `CONTEXT-ASSEMBLY/9`; only `CONTEXT-ASSEMBLY/0.1` is \
         supported",
    );
    refused(
        "protocol: CONTEXT-ASSEMBLY/0.1\nbudget: {max_tokens: -5}\nfiles: []",
        "working-set.yml:2:22: budget.max_tokens: must be a whole number of at least 1, not -5",
    );
    refused(
        "protocol: CONTEXT-ASSEMBLY/0.1\nbudget: {max_tokens: 10, reserved_for_response: 10}\nfiles: []",
        "working-set.yml:2:49: budget.reserved_for_response: is 10, which uses up the whole \
         max_tokens of 10",
    );
    refused(
        "",
        "working-set.yml:1:1: is empty; begin it with `protocol: CONTEXT-ASSEMBLY/0.1`",
    );
    refused(
        "- just\n- a list\n",
        "working-set.yml:1:1: must be a mapping (`key: value`), not a list",
    );
    refused(
        &entry("priority: 0.5"),
        "working-set.yml:3:5: files[0].path: is missing",
    );
    refused(
        "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n  - path: a\n    priority: 0.5: 0.6\n",
        "working-set.yml:4:18: mapping values are not allowed in this context",
    );
    refused(
        "files: &a [*a]",
        "working-set.yml:1:11: anchors and aliases are not supported; write the value out",
    );
}

#[test]
fn a_manifest_without_files_is_an_error() {
    refused(
        "protocol: CONTEXT-ASSEMBLY/0.1\n",
        "working-set.yml:1:1: files: is missing",
    );
    assert!(
        read("protocol: CONTEXT-ASSEMBLY/0.1\nfiles: []")
            .files
            .is_empty()
    );
    // All entries were removed, or none is written yet.
    assert!(
        read("protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n")
            .files
            .is_empty()
    );
}

#[test]
fn exclusions_and_limits_on_tokens_are_read() {
    let manifest = read(
        "protocol: CONTEXT-ASSEMBLY/0.1\nexclude: [\"*.min.js\", vendor/]\n\
         files: [{path: src, priority: 0.5, max_tokens: 2000}]",
    );
    assert_eq!(manifest.exclude, ["*.min.js", "vendor/"]);
    assert_eq!(manifest.files[0].max_tokens, Some(2_000));
    assert!(manifest.warnings.is_empty(), "{:?}", manifest.warnings);
    let with = |fields: &str| {
        format!("protocol: CONTEXT-ASSEMBLY/0.1\nfiles: [{{path: a, priority: 0.5, {fields}}}]")
    };
    refused(
        &with("max_tokens: 10"),
        "working-set.yml:2:46: files[0].max_tokens: must be a whole number of at least 100, not 10",
    );
    refused(
        &with("truncate_strategy: never, max_tokens: 500"),
        "working-set.yml:2:72: files[0].max_tokens: cannot be combined with `truncate_strategy: \
         never`",
    );
    refused(
        "protocol: CONTEXT-ASSEMBLY/0.1\nexclude: [\"a[\"]\nfiles: []",
        "working-set.yml:2:11: exclude[0]: `a[` is not a pattern: unclosed character class; \
         missing ']'",
    );
    refused(
        "protocol: CONTEXT-ASSEMBLY/0.1\nexclude: [../x]\nfiles: []",
        "working-set.yml:2:11: exclude[0]: `../x` contains `..`, which can leave the root; use a \
         path below the root",
    );
}
