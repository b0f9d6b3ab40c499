//! Edits of a manifest, as text in and text out, and the laws they keep.

#![allow(clippy::unwrap_used)] // Helpers of a test are not a test to the lint.

mod laws;

use contexture::working_set::edit::{Edit, EditError, apply};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Removes the indentation the test's own layout gives to `text`, and its first line break.
fn dedent(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let indents = text.lines().filter(|line| !line.trim().is_empty());
    let width = indents
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let last = text.rfind('\n').map_or(0, |i| i + 1);
    let text = if text[last..].trim().is_empty() {
        &text[..last]
    } else {
        text
    };
    text.split_inclusive('\n')
        .map(|line| line.get(width..).unwrap_or("\n"))
        .collect()
}

fn add(path: &str, priority: f64) -> Edit {
    add_with(path, priority, &[])
}

fn add_with(path: &str, priority: f64, fields: &[(&str, &str)]) -> Edit {
    let fields = fields
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .collect();
    Edit::Add {
        path: path.into(),
        priority,
        fields,
    }
}

fn remove(path: &str) -> Edit {
    Edit::Remove { path: path.into() }
}

fn set(path: &str, priority: f64) -> Edit {
    Edit::SetPriority {
        path: path.into(),
        priority,
    }
}

fn meta(key: &str, value: &str) -> Edit {
    Edit::SetMetadata {
        key: key.into(),
        value: value.into(),
    }
}

#[track_caller]
fn check(source: &str, edit: Edit, expected: &str) {
    check_exact(&dedent(source), edit, &dedent(expected));
}

#[track_caller]
fn check_exact(source: &str, edit: Edit, expected: &str) {
    match apply(source, &[edit]) {
        Ok(result) => assert_eq!(
            result, expected,
            "\n--- result:\n{result}--- expected:\n{expected}"
        ),
        Err(error) => panic!("{error}"),
    }
}

/// Checks that the edit is refused, and where.
#[track_caller]
fn refuse(source: &str, edit: Edit, place: (usize, usize), word: &str) {
    match apply(&dedent(source), &[edit]) {
        Err(EditError::Unsupported {
            line,
            column,
            reason,
        }) => {
            assert!(reason.contains(word), "{reason}");
            assert_eq!((line, column), place, "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

const SEED: &str = r#"
    # working-set.yml
    protocol: CONTEXT-ASSEMBLY/0.1
    budget:
      max_tokens: 28000

    files:
      - path: ".agent/constitution.md"
        priority: 1.0          # Highest (always included)
        role: "system"

      - path: "src/main.ts"
        priority: 0.8
        role: "context"
        max_lines: 500

    metadata:
      last_updated: "2025-12-30T12:30:00Z"
      assembled_by: "model"   # who
"#;

#[test]
fn no_edits_change_nothing() {
    assert_eq!(apply(SEED, &[]).unwrap(), SEED);
}

#[test]
fn a_priority_keeps_the_rest_of_its_line() {
    check(
        SEED,
        set(".agent/constitution.md", 0.7),
        &SEED.replace("priority: 1.0  ", "priority: 0.7  "),
    );
}

#[test]
fn an_added_entry_imitates_quotes_and_blank_lines() {
    let fields = [
        ("role", "user"),
        ("truncate_strategy", "start"),
        ("max_lines", "20"),
    ];
    check(
        SEED,
        add_with("docs/a.md", 1.0, &fields),
        &SEED.replace(
            "max_lines: 500\n",
            "max_lines: 500\n\n      - path: \"docs/a.md\"\n        priority: 1.0\n        \
             role: \"user\"\n        truncate_strategy: \"start\"\n        max_lines: 20\n",
        ),
    );
}

#[test]
fn a_removed_entry_takes_one_blank_line_along() {
    check(
        SEED,
        remove("src/main.ts"),
        &SEED.replace(
            "\n      - path: \"src/main.ts\"\n        priority: 0.8\n        \
             role: \"context\"\n        max_lines: 500\n",
            "",
        ),
    );
}

#[test]
fn a_removed_first_entry_takes_the_blank_line_below() {
    check(
        SEED,
        remove(".agent/constitution.md"),
        &SEED.replace(
            "      - path: \".agent/constitution.md\"\n        priority: 1.0          \
             # Highest (always included)\n        role: \"system\"\n\n",
            "",
        ),
    );
}

#[test]
fn metadata_is_replaced_in_its_own_quotes() {
    check(
        SEED,
        meta("assembled_by", "orchestrator"),
        &SEED.replace("\"model\"   #", "\"orchestrator\"   #"),
    );
}

#[test]
fn several_edits_apply_in_order() {
    let source = "files:\n- path: a\n  priority: 0.1\n";
    let edits = [
        add("b", 0.5),
        set("b", 0.25),
        remove("a"),
        meta("skill", "review"),
    ];
    assert_eq!(
        apply(source, &edits).unwrap(),
        "files:\n- path: b\n  priority: 0.25\nmetadata:\n  skill: review\n"
    );
}

#[test]
fn one_bad_edit_undoes_them_all() {
    let source = "files:\n- path: a\n  priority: 0.1\n";
    let error = apply(source, &[add("b", 0.5), remove("c")]).unwrap_err();
    assert_eq!(error, EditError::NotFound { path: "c".into() });
    assert_eq!(
        error.to_string(),
        "`c` is not listed in `files`; add it first"
    );
}

#[test]
fn a_path_is_listed_once() {
    let source = "files:\n- path: 'a'\n  priority: 0.1\n";
    let error = apply(source, &[add("a", 0.5)]).unwrap_err();
    assert_eq!(error, EditError::Duplicate { path: "a".into() });
}

#[test]
fn priorities_are_written_in_their_shortest_form() {
    for (number, text) in [
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (0.7, "0.7"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-7, "0.0000001"),
    ] {
        check_exact(
            "files: [{path: a, priority: .5}]",
            set("a", number),
            &format!("files: [{{path: a, priority: {text}}}]"),
        );
    }
}

#[test]
fn priorities_outside_the_range_are_refused() {
    for number in [1.1, -0.1, f64::NAN, f64::INFINITY] {
        refuse(
            "files: [{path: a, priority: .5}]",
            set("a", number),
            (1, 1),
            "between 0 and 1",
        );
        refuse("files: []", add("a", number), (1, 1), "between 0 and 1");
    }
}

#[test]
fn entries_need_not_be_indented() {
    check(
        "
        files:
        - path: a
          priority: 0.5
        budget: {max_tokens: 10}
        ",
        add("b", 0.25),
        "
        files:
        - path: a
          priority: 0.5
        - path: b
          priority: 0.25
        budget: {max_tokens: 10}
        ",
    );
}

#[test]
fn wide_indentation_is_imitated() {
    check(
        "
        files:
            -   priority: 0.5
                path: 'a'
        ",
        add("it's", 0.25),
        "
        files:
            -   priority: 0.5
                path: 'a'
            -   path: 'it''s'
                priority: 0.25
        ",
    );
}

#[test]
fn a_dash_on_its_own_line_is_imitated() {
    check(
        "
        files:
          -
            path: a
            priority: 0.5
        ",
        add("b", 0.25),
        "
        files:
          -
            path: a
            priority: 0.5
          -
            path: b
            priority: 0.25
        ",
    );
}

#[test]
fn a_dash_on_its_own_line_is_removed() {
    check(
        "
        files:
          -
            path: a
            priority: 0.5
          - path: b
            priority: 0.25
        ",
        remove("a"),
        "
        files:
          - path: b
            priority: 0.25
        ",
    );
}

#[test]
fn flow_entries_in_a_block_list_are_imitated() {
    check(
        "
        files:
          - { path: a, priority: 0.5 } # first
        ",
        add("b, c", 0.25),
        "
        files:
          - { path: a, priority: 0.5 } # first
          - { path: \"b, c\", priority: 0.25 }
        ",
    );
}

#[test]
fn flow_entries_in_a_block_list_are_removed_and_set() {
    let source = "
        files:
          - {path: a, priority: 0.5} # first
          - {priority: 1, path: \"b\"} # second
        ";
    check(
        source,
        remove("a"),
        &source.replace("          - {path: a, priority: 0.5} # first\n", ""),
    );
    check(
        source,
        set("b", 0.5),
        &source.replace("priority: 1,", "priority: 0.5,"),
    );
}

#[test]
fn a_flow_list_on_one_line() {
    let source = "files: [{path: a, priority: 0.5}, {path: b, priority: 1}] # all\n";
    check_exact(
        source,
        add("c", 0.25),
        &source.replace("1}]", "1}, {path: c, priority: 0.25}]"),
    );
    check_exact(
        source,
        remove("a"),
        "files: [{path: b, priority: 1}] # all\n",
    );
    check_exact(
        source,
        remove("b"),
        "files: [{path: a, priority: 0.5}] # all\n",
    );
}

#[test]
fn a_flow_list_may_become_empty() {
    check_exact(
        "files: [ {path: a, priority: 0.5} ]\n",
        remove("a"),
        "files: []\n",
    );
}

#[test]
fn a_json_manifest_stays_json() {
    check_exact(
        r#"{"files": [{"path": "a", "priority": 0.5}]}"#,
        add_with("b", 1.0, &[("role", "user")]),
        r#"{"files": [{"path": "a", "priority": 0.5}, {"path": "b", "priority": 1.0, "role": "user"}]}"#,
    );
}

#[test]
fn a_flow_list_with_a_comma_at_the_end() {
    let source = "
        files: [
          {path: a, priority: 0.5}, # first
          # about b
          {path: b, priority: 0.6}, # second
          # that is all
        ]
        ";
    check(
        source,
        add("c", 0.25),
        &source.replace(
            "# second\n",
            "# second\n          {path: c, priority: 0.25},\n",
        ),
    );
    check(
        source,
        remove("b"),
        &source.replace(
            "          # about b\n          {path: b, priority: 0.6}, # second\n",
            "",
        ),
    );
    check(
        source,
        remove("a"),
        &source.replace("          {path: a, priority: 0.5}, # first\n", ""),
    );
}

#[test]
fn a_flow_list_without_a_comma_at_the_end() {
    let one = "
        files: [
          {path: a, priority: 0.5} # first
        ]
        ";
    let two = "
        files: [
          {path: a, priority: 0.5}, # first
          {path: b, priority: 0.25}
        ]
        ";
    check(one, add("b", 0.25), two);
    check(two, remove("b"), one);
}

#[test]
fn a_flow_list_that_closes_after_its_last_entry() {
    let one = "
        files: [{path: z, priority: 1},
                {path: a, priority: 0.5}]
        ";
    let two = "
        files: [{path: z, priority: 1},
                {path: a, priority: 0.5},
                {path: b, priority: 0.25}]
        ";
    check(one, add("b", 0.25), two);
    check(two, remove("b"), one);
}

#[test]
fn a_flow_entry_over_several_lines() {
    let source = "
        files: [
          {
            path: a, # a path
            priority: 0.5 # a number
          },
          {path: b, priority: 1}
        ]
        ";
    check(source, set("a", 1.0), &source.replace("0.5 #", "1.0 #"));
    check(
        source,
        remove("a"),
        "
        files: [
          {path: b, priority: 1}
        ]
        ",
    );
}

#[test]
fn the_first_entry_of_an_empty_list() {
    let expected = "files:\n  - path: a\n    priority: 0.5\nx: 1\n";
    for empty in [
        "files:\nx: 1\n",
        "files: []\nx: 1\n",
        "files: ~\nx: 1\n",
        "files: null\nx: 1\n",
        "files: [ ]\nx: 1\n",
    ] {
        check_exact(empty, add("a", 0.5), expected);
    }
}

#[test]
fn the_first_entry_leaves_comments_alone() {
    check(
        "
        files: [] # none yet
        # end
        ",
        add("a", 0.5),
        "
        files: # none yet
          - path: a
            priority: 0.5
        # end
        ",
    );
    check(
        "
        files: [ # none yet
        ]
        ",
        add("a", 0.5),
        "
        files: [{path: a, priority: 0.5} # none yet
        ]
        ",
    );
}

#[test]
fn files_is_created_when_it_is_missing() {
    check_exact(
        "",
        add("a", 0.5),
        "files:\n  - path: a\n    priority: 0.5\n",
    );
    check_exact(
        "# mine\n",
        add("a", 0.5),
        "# mine\nfiles:\n  - path: a\n    priority: 0.5\n",
    );
    check_exact(
        "---\n",
        add("a", 0.5),
        "---\nfiles:\n  - path: a\n    priority: 0.5\n",
    );
    check_exact(
        "a: 1",
        add("a", 0.5),
        "a: 1\nfiles:\n  - path: a\n    priority: 0.5",
    );
    check_exact(
        "{a: 1}\n",
        add("a", 0.5),
        "{a: 1, files: [{path: a, priority: 0.5}]}\n",
    );
    check_exact(
        "{files: }\n",
        add("a", 0.5),
        "{files: [{path: a, priority: 0.5}] }\n",
    );
    check_exact(
        "  a: 1\n",
        add("a", 0.5),
        "  a: 1\n  files:\n    - path: a\n      priority: 0.5\n",
    );
}

#[test]
fn the_end_marker_stays_at_the_end() {
    check_exact(
        "---\na: 1\n...\n",
        meta("k", "v"),
        "---\na: 1\nmetadata:\n  k: v\n...\n",
    );
}

#[test]
fn comments_above_at_the_same_indentation_go_with_the_entry() {
    check(
        "
        files:
          # about a
          - path: a
            priority: 0.5

          # a section

            # not b's: deeper
          # about b,
          # on two lines
          - path: b # its path
            # its priority
            priority: 1 # high
            # role: user
          # about c
          - path: c
            priority: 1
        ",
        remove("b"),
        "
        files:
          # about a
          - path: a
            priority: 0.5

          # a section

            # not b's: deeper
          # about c
          - path: c
            priority: 1
        ",
    );
}

#[test]
fn a_comment_on_the_line_of_files_stays() {
    check(
        "
        files: # the list
        # about a
        - path: a
          priority: 0.5
        ",
        remove("a"),
        "
        files: # the list
        ",
    );
}

#[test]
fn an_entry_is_added_after_the_comments_of_the_last_one() {
    check(
        "
        files:
          - path: a
            priority: 0.5 # half
            # role: user
          # - path: later

        metadata: {}
        ",
        add("b", 0.25),
        "
        files:
          - path: a
            priority: 0.5 # half
            # role: user
          - path: b
            priority: 0.25
          # - path: later

        metadata: {}
        ",
    );
}

#[test]
fn a_block_scalar_in_an_entry() {
    let source = "
        files:
          - path: a
            priority: 0.5
            notes: |
              # not a comment

              - path: b

          # about b
          - path: b
            priority: 0.5
            notes: >-
              folded
        ";
    check(
        source,
        set("b", 1.0),
        &source.replace(
            "path: b\n            priority: 0.5",
            "path: b\n            priority: 1.0",
        ),
    );
    check(
        source,
        remove("b"),
        "
        files:
          - path: a
            priority: 0.5
            notes: |
              # not a comment

              - path: b
        ",
    );
    check(
        source,
        add("c", 0.25),
        &source.replace(
            "              folded\n",
            "              folded\n\n          - path: c\n            priority: 0.25\n",
        ),
    );
}

#[test]
fn a_block_scalar_keeps_its_blank_lines() {
    check(
        "
        files:
          - path: a
            notes: |+
              text


        x: 1
        ",
        add("b", 0.25),
        "
        files:
          - path: a
            notes: |+
              text


          - path: b
            priority: 0.25
        x: 1
        ",
    );
}

#[test]
fn a_missing_final_line_break_stays_missing() {
    let one = "files:\n  - path: a\n    priority: 0.5";
    let two = "files:\n  - path: a\n    priority: 0.5\n  - path: b\n    priority: 1.0";
    check_exact(one, add("b", 1.0), two);
    check_exact(two, remove("b"), one);
    check_exact(one, set("a", 1.0), &one.replace("0.5", "1.0"));
    check_exact(one, remove("a"), "files:");
    check_exact("files:", add("a", 0.5), one);
    check_exact("a: ü", meta("k", "v"), "a: ü\nmetadata:\n  k: v");
}

#[test]
fn line_ends_and_byte_order_marks_survive() {
    let source = "\u{feff}# ü\r\nfiles:\r\n  - path: ä # ö\r\n    priority: 0.5 # ß\r\n";
    check_exact(source, set("ä", 1.0), &source.replace("0.5", "1.0"));
    check_exact(
        source,
        add("日本", 0.25),
        &format!("{source}  - path: 日本\r\n    priority: 0.25\r\n"),
    );
    check_exact(source, remove("ä"), "\u{feff}# ü\r\nfiles:\r\n");
    check_exact(
        source,
        meta("k", "v"),
        &format!("{source}metadata:\r\n  k: v\r\n"),
    );
    check_exact(
        "a: 1\r\nb: 2",
        meta("k", "v"),
        "a: 1\r\nb: 2\r\nmetadata:\r\n  k: v",
    );
    check_exact("\u{feff}", meta("k", "v"), "\u{feff}metadata:\n  k: v\n");
}

#[test]
fn positions_are_bytes_after_any_text() {
    let source =
        "# 𝄞𝄞𝄞 日本語\n\"日本\": \"ключ\"\nfiles:\n- {path: \"🎵.md\", priority: 0.5} # 🎶\n";
    check_exact(source, set("🎵.md", 0.75), &source.replace("0.5", "0.75"));
}

#[test]
fn quoted_paths_are_compared_by_their_value() {
    check_exact(
        "files: [{path: 'it''s', priority: 1}]",
        set("it's", 0.5),
        "files: [{path: 'it''s', priority: 0.5}]",
    );
    check_exact(
        r#"files: [{path: "a\u0062", priority: 1}]"#,
        set("ab", 0.5),
        r#"files: [{path: "a\u0062", priority: 0.5}]"#,
    );
    check_exact(
        "files: [{\"path\": ab, priority: '1'}]",
        set("ab", 0.5),
        "files: [{\"path\": ab, priority: 0.5}]",
    );
}

#[test]
fn a_missing_priority_is_written() {
    check_exact(
        "files:\n- path: a\n- path: b\n",
        set("a", 0.5),
        "files:\n- path: a\n  priority: 0.5\n- path: b\n",
    );
    check_exact(
        "files:\n- path: a\n  priority: # soon\n",
        set("a", 0.5),
        "files:\n- path: a\n  priority: 0.5 # soon\n",
    );
    check_exact(
        "files: [{path: a}]\n",
        set("a", 0.5),
        "files: [{path: a, priority: 0.5}]\n",
    );
    check_exact(
        "files: [{path: a, priority}]\n",
        set("a", 0.5),
        "files: [{path: a, priority: 0.5}]\n",
    );
}

#[test]
fn metadata_is_created_at_the_end() {
    check(
        "
        files: []

        budget:
          max_tokens: 5
        # the end
        ",
        meta("skill", "review"),
        "
        files: []

        budget:
          max_tokens: 5
        # the end

        metadata:
          skill: review
        ",
    );
}

#[test]
fn metadata_in_every_style() {
    check_exact(
        "metadata:\n  a: \"b\"\n",
        meta("k", "v"),
        "metadata:\n  a: \"b\"\n  k: \"v\"\n",
    );
    check_exact(
        "metadata:\n    a: b # c\nx: 1\n",
        meta("k", "v"),
        "metadata:\n    a: b # c\n    k: v\nx: 1\n",
    );
    check_exact(
        "metadata: {a: b} # c\n",
        meta("k", "v"),
        "metadata: {a: b, k: v} # c\n",
    );
    check_exact(
        "metadata: {a: b}\n",
        meta("a", "x, y"),
        "metadata: {a: \"x, y\"}\n",
    );
    check_exact(
        "metadata: {} # c\n",
        meta("k", "v"),
        "metadata: # c\n  k: v\n",
    );
    check_exact(
        "metadata: # c\nx: 1\n",
        meta("k", "v"),
        "metadata: # c\n  k: v\nx: 1\n",
    );
    check_exact("{metadata: }\n", meta("k", "v"), "{metadata: {k: v} }\n");
    check_exact("{x: 1}\n", meta("k", "v"), "{x: 1, metadata: {k: v}}\n");
    check_exact(
        "metadata:\n  k: # c\n",
        meta("k", "v"),
        "metadata:\n  k: v # c\n",
    );
    check_exact(
        "metadata:\n  k: on\n   two lines # c\n",
        meta("k", "v"),
        "metadata:\n  k: v # c\n",
    );
    check_exact(
        "metadata:\n  k: 'a'\n",
        meta("k", "it's"),
        "metadata:\n  k: 'it''s'\n",
    );
    check_exact(
        "metadata:\n  notes: |\n    text\n\nx: 1\n",
        meta("k", "v"),
        "metadata:\n  notes: |\n    text\n  k: v\n\nx: 1\n",
    );
}

#[test]
fn scalars_are_quoted_when_plain_text_would_be_something_else() {
    let cases = [
        ("a#b", "a#b"),
        ("src/main.ts#L10-L80", "src/main.ts#L10-L80"),
        ("a b", "a b"),
        ("C:/x", "C:/x"),
        ("src/[id].ts", "src/[id].ts"),
        ("a #b", "\"a #b\""),
        ("a: b", "\"a: b\""),
        ("a:", "\"a:\""),
        ("*.md", "\"*.md\""),
        ("**/x", "\"**/x\""),
        ("- a", "\"- a\""),
        ("[x]", "\"[x]\""),
        ("", "\"\""),
        (" a", "\" a\""),
        ("yes", "\"yes\""),
        ("NO", "\"NO\""),
        ("null", "\"null\""),
        ("~", "\"~\""),
        ("1", "\"1\""),
        ("0x1F", "\"0x1F\""),
        ("1e3", "\"1e3\""),
        (".5", "\".5\""),
        ("12:30:00", "\"12:30:00\""),
        ("2025-12-30T12:30:00Z", "\"2025-12-30T12:30:00Z\""),
        ("2025-12-30 notes.md", "2025-12-30 notes.md"),
        (".gitignore", ".gitignore"),
        ("a\nb", "\"a\\nb\""),
        ("a\tb\"\\", "\"a\\tb\\\"\\\\\""),
        (
            "\0\u{7f}\u{85}\u{2028}\u{feff}",
            "\"\\x00\\x7f\\x85\\u2028\\ufeff\"",
        ),
        ("\u{1ffff}", "\"\\U0001ffff\""),
        ("日本 🎵", "日本 🎵"),
        ("'a", "\"'a\""),
        ("@a", "\"@a\""),
        ("%a", "\"%a\""),
        ("<<", "\"<<\""),
    ];
    for (value, written) in cases {
        check_exact(
            "",
            meta("k", value),
            &format!("metadata:\n  k: {written}\n"),
        );
        check_exact(
            "metadata: {k: 'v'}",
            meta("k", value),
            &match written.contains('\\') {
                true => format!("metadata: {{k: {written}}}"),
                false => format!("metadata: {{k: '{}'}}", value.replace('\'', "''")),
            },
        );
    }
}

#[test]
fn keys_are_quoted_too() {
    check_exact("", meta("a: b", "v"), "metadata:\n  \"a: b\": v\n");
    check_exact("", meta("yes", "v"), "metadata:\n  \"yes\": v\n");
}

#[test]
fn a_word_that_looks_like_a_number_stays_text() {
    check_exact(
        "files:\n",
        add_with("a", 1.0, &[("role", "10")]),
        "files:\n  - path: a\n    priority: 1.0\n    role: \"10\"\n",
    );
}

// --- What is refused -------------------------------------------------------------------------

#[test]
fn anchors_aliases_and_tags_are_refused_where_they_matter() {
    refuse("files: &f\n  - path: a\n", add("b", 1.0), (2, 3), "anchor");
    refuse("files: !list\n  - path: a\n", add("b", 1.0), (2, 3), "tag");
    refuse("x: &f []\nfiles: *f\n", add("b", 1.0), (2, 8), "alias");
    refuse("files:\n- &e\n  path: a\n", remove("a"), (3, 3), "anchor");
    refuse(
        "files:\n- path: &p a\nx: *p\n",
        remove("a"),
        (2, 3),
        "anchor",
    );
    refuse(
        "files:\n- path: a\n  priority: &p 1\n",
        set("a", 0.5),
        (3, 16),
        "anchor",
    );
    refuse(
        "x: &p 1\nfiles:\n- path: a\n  priority: *p\n",
        set("a", 0.5),
        (4, 13),
        "alias",
    );
    refuse(
        "files:\n- path: a\n  priority: !!float 1\n",
        set("a", 0.5),
        (3, 21),
        "tag",
    );
    refuse(
        "x: &e {path: a}\nfiles:\n- *e\n",
        set("a", 0.5),
        (3, 3),
        "path of this entry is an alias",
    );
    refuse(
        "x: &e {path: a}\nfiles:\n- <<: *e\n",
        remove("a"),
        (3, 3),
        "path of this entry is an alias",
    );
    refuse("x: &r {}\n<<: *r\n", add("a", 1.0), (2, 5), "merges keys");
    refuse("metadata: &m\n  a: b\n", meta("a", "c"), (2, 3), "anchor");
}

#[test]
fn anchors_aliases_and_tags_elsewhere_do_no_harm() {
    let source = "x: &p a\ny: !t 1\nfiles:\n- path: *p\n  priority: 1\n- path: b\n  role: &r user\n- path: c\n  role: *r\n";
    check_exact(
        source,
        set("a", 0.5),
        &source.replace("priority: 1", "priority: 0.5"),
    );
    check_exact(
        source,
        remove("a"),
        &source.replace("- path: *p\n  priority: 1\n", ""),
    );
    check_exact(
        source,
        remove("c"),
        &source.replace("- path: c\n  role: *r\n", ""),
    );
}

#[test]
fn shapes_that_are_not_a_manifest_are_refused() {
    refuse("- a\n", add("b", 1.0), (1, 1), "not a mapping");
    refuse("files: text\n", add("b", 1.0), (1, 8), "not a list");
    refuse("files: {a: b}\n", remove("b"), (1, 8), "not a list");
    refuse("metadata: [a]\n", meta("b", "c"), (1, 11), "not a mapping");
    refuse(
        "metadata:\n  b: [a]\n",
        meta("b", "c"),
        (2, 6),
        "not a scalar",
    );
    refuse(
        "metadata:\n  b: |\n    a\n",
        meta("b", "c"),
        (3, 5),
        "block scalar",
    );
    refuse(
        "a: 1\n---\nb: 1\n",
        meta("b", "c"),
        (2, 1),
        "second document",
    );
    refuse("files: []\nfiles: []\n", add("b", 1.0), (2, 1), "twice");
    refuse(
        "files:\n- path: a\n- path: a\n",
        remove("a"),
        (3, 3),
        "listed twice",
    );
    refuse(
        "files:\n- path: a\n  path: b\n",
        remove("a"),
        (3, 3),
        "twice",
    );
    refuse(
        "files: []\n",
        add_with("a", 1.0, &[("path", "b")]),
        (1, 1),
        "twice",
    );
    refuse("a: 1\rb: 2\n", meta("a", "b"), (1, 5), "carriage return");
}

#[test]
fn a_layout_that_cannot_be_edited_in_place_is_refused() {
    let source = "? files\n: - path: a\n    priority: 1\n";
    refuse(source, add("b", 1.0), (2, 5), "changed safely");
    refuse(source, remove("a"), (2, 5), "changed safely");
    refuse(
        "files: [path: a]\n",
        set("a", 1.0),
        (1, 9),
        "changed safely",
    );
    refuse("{files}\n", add("a", 1.0), (1, 2), "changed safely");
}

#[test]
fn a_broken_manifest_says_where() {
    let error = apply("files:\n  - path: [\n", &[]).unwrap_err();
    assert!(
        matches!(
            error,
            EditError::Parse {
                line: 2,
                column: 11,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .ends_with("; correct the YAML and try again"),
        "{error}"
    );
}

#[test]
fn bombs_are_refused() {
    let deep = format!("files: {}", "[".repeat(100_000));
    assert!(matches!(apply(&deep, &[]), Err(EditError::Parse { .. })));
    let deep = "- ".repeat(100_000);
    assert!(matches!(apply(&deep, &[]), Err(EditError::Parse { .. })));
    let wide = format!("x: [{}]", "a,".repeat(600_000));
    assert!(matches!(
        apply(&wide, &[]),
        Err(EditError::Unsupported { .. })
    ));
    let long = format!("# {}\n", "a".repeat(4 << 20));
    assert!(matches!(
        apply(&long, &[]),
        Err(EditError::Unsupported { .. })
    ));
    let many = "# comment\n".repeat(100_000);
    assert_eq!(
        apply(&many, &[meta("k", "v")]).unwrap(),
        format!("{many}metadata:\n  k: v\n")
    );
    let laughs = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n";
    assert!(apply(laughs, &[meta("k", "v")]).is_ok());
}
