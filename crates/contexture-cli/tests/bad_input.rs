//! Everything that can be wrong with what the command is given, and what it says then.
//!
//! Each case ends with the right code and a message that names the place and
//! the way out; none panics, and none leaves something written or half-written.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Helpers of a test are not a test to the lint.

mod support;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::{BIN, NOW, Project, fates, run, warnings};
use tempfile::TempDir;

/// A project with a pinned file, a plain one, and one that is not listed.
fn small() -> Project {
    Project::new()
        .file("rules.md", "Be kind.\n")
        .file("a.md", "alpha\n")
        .file("b.md", "beta\n")
        .entries(
            "
            rules.md 1.0 role=system truncate_strategy=never
            a.md     0.5
            ",
        )
}

// --- The manifest ----------------------------------------------------------------------------

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

// --- Paths and kinds of files ----------------------------------------------------------------

#[test]
fn a_path_out_of_the_root() {
    small().entries("../a.md 0.5").refuses(
        &["assemble"],
        2,
        "
        error: working-set.yml:5:11: files[0].path: `../a.md` leads out of the root with `..`
        hint: move the file below the root, or run with a root above it
        ",
    );
}

#[test]
fn a_path_that_goes_up_and_down_again_is_refused_too() {
    small().entries("docs/../a.md 0.5").refuses(
        &["assemble"],
        2,
        "
        error: working-set.yml:5:11: files[0].path: `docs/../a.md` leads out of the root with `..`
        hint: move the file below the root, or run with a root above it
        ",
    );
}

#[test]
fn an_absolute_path() {
    small().entries("/etc/passwd 0.5").refuses(
        &["assemble"],
        2,
        "
        error: working-set.yml:5:11: files[0].path: `/etc/passwd` is absolute; paths are relative to the root
        hint: move the file below the root, or run with a root above it
        ",
    );
}

#[test]
fn a_link_out_of_the_root() {
    let outside = Project::new().file("o.md", "from outside\n");
    let project = Project::new()
        .link("out.md", outside.path("o.md"))
        .entries("out.md 0.5");
    project
        .check_fates("out  out.md outside_root: `out.md` leads out of the root through a link\n");
    assert!(!project.ok(&["assemble"]).contains("from outside"));
}

#[test]
fn a_relative_link_out_of_the_root() {
    let above = Project::new()
        .file("o.md", "from outside\n")
        .file("root/a.md", "alpha\n");
    let project = Project::new();
    std::os::unix::fs::symlink("../o.md", above.path("root/out.md")).unwrap();
    above.write(
        "root/working-set.yml",
        project.entries("out.md 0.5").read("working-set.yml"),
    );
    let run = above.run(&["assemble", "root", "--report", "-"]);
    run.expect_code(0);
    assert!(!run.out.contains("from outside"));
    assert!(run.out.contains("code: outside_root"), "{}", run.out);
}

#[test]
fn a_linked_directory_out_of_the_root() {
    let outside = Project::new().file("o.md", "from outside\n");
    let project = Project::new()
        .link("docs", outside.path(""))
        .entries("docs/o.md 0.5\ndocs 0.5\ndocs/*.md 0.5\n**/*.md 0.5");
    project.check_fates(
        "
        out  docs/o.md outside_root: `docs/o.md` leads out of the root through a link
        out  docs outside_root: `docs` leads out of the root through a link
        out  docs/*.md no_match: the pattern matches no file
        out  **/*.md no_match: the pattern matches no file
        ",
    );
    assert!(!project.ok(&["assemble"]).contains("from outside"));
}

#[test]
fn a_link_that_stays_below_the_root_is_followed() {
    Project::new()
        .file("a.md", "alpha\n")
        .link("b.md", "a.md")
        .entries("b.md 0.5")
        .check_fates("keep b.md fits\n");
}

#[test]
fn a_pipe_does_not_block() {
    let project = Project::new().entries("pipe 0.9\n*.pipe 0.5");
    for name in ["pipe", "other.pipe"] {
        let made = Command::new("mkfifo")
            .arg(project.path(name))
            .status()
            .unwrap();
        assert!(made.success());
    }
    project.check_fates(
        "
        out  pipe not_a_file: is a pipe, a socket or a device, not a file
        out  other.pipe not_a_file: is a pipe, a socket or a device, not a file
        ",
    );
}

#[test]
fn a_device() {
    Project::new()
        .link("zero", "/dev/zero")
        .entries("zero 0.5")
        .check_fates("out  zero outside_root: `zero` leads out of the root through a link\n");
}

#[test]
fn a_socket() {
    let project = Project::new().entries("socket 0.5");
    let _listener = std::os::unix::net::UnixListener::bind(project.path("socket")).unwrap();
    project.check_fates("out  socket not_a_file: is a pipe, a socket or a device, not a file\n");
}

#[test]
fn links_that_go_in_circles() {
    Project::new()
        .file("d/a.md", "alpha\n")
        .link("self", "self")
        .link("d/up", "..")
        .entries("self 0.5\nd/up/d/up/d/a.md 0.5\nd/**/*.md 0.5")
        .check_fates(
            "
            keep d/up/d/up/d/a.md fits
            keep d/a.md fits
            out  self unreadable: cannot be read: Too many levels of symbolic links (os error 40)
            ",
        );
}

#[test]
fn a_directory_where_a_file_is_meant() {
    // A directory stands for its files; one with a line range can stand for none.
    let project = Project::new().file("d/a.md", "alpha\n").entries("d/ 0.5");
    project.check_fates("keep d/a.md fits\n");
    Project::new()
        .file("d/.keep", "")
        .entries("d 0.5")
        .check_fates("out  d no_match: the directory holds no file that is not ignored\n");
}

#[test]
fn a_file_where_a_directory_is_meant() {
    Project::new()
        .file("a.md", "alpha\n")
        .entries("a.md/b.md 0.5")
        .check_fates("out  a.md/b.md missing: there is no file `a.md/b.md`\n");
}

#[test]
fn a_file_of_five_gigabytes_is_not_read() {
    let project = Project::new().entries("big.md 0.9\n*.log 0.5");
    for name in ["big.md", "big.log"] {
        File::create(project.path(name))
            .unwrap()
            .set_len(5 << 30)
            .unwrap();
    }
    project.check_fates(
        "
        out  big.md size_limit: is 5368709120 bytes; the limit is 8388608 (limits.max_file_bytes)
        out  big.log size_limit: is 5368709120 bytes; the limit is 8388608 (limits.max_file_bytes)
        ",
    );
}

#[test]
fn binary_other_encodings_and_nothing_at_all() {
    Project::new()
        .file("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
        .file("utf16.txt", b"\xFF\xFEh\0i\0")
        .file("latin1.txt", b"caf\xE9\n")
        .file("half.txt", b"half a euro: \xE2\x82")
        .file("empty.md", "")
        .file("blank.md", "\n")
        .entries(
            "
            logo.png   0.5
            utf16.txt  0.5
            latin1.txt 0.5
            half.txt   0.5
            empty.md   0.5
            blank.md   0.5
            missing.md 0.5
            ",
        )
        .check_fates(
            "
            out  logo.png binary: is binary
            out  utf16.txt not_utf8: is UTF-16; convert it to UTF-8 to use it
            out  latin1.txt not_utf8: is not UTF-8 at byte 3; convert it to use it
            out  half.txt not_utf8: is not UTF-8 at byte 13; convert it to use it
            out  empty.md empty: is empty
            out  blank.md empty: is empty
            out  missing.md missing: there is no file `missing.md`
            ",
        );
}

#[test]
fn utf16_without_a_mark_is_binary() {
    Project::new()
        .file("utf16le.txt", b"h\0i\0\n\0")
        .entries("utf16le.txt 0.5")
        .check_fates("out  utf16le.txt binary: is binary\n");
}

#[test]
fn lines_behind_the_end_of_a_file() {
    // The final line end does not begin another line.
    Project::new()
        .file("a.md", "one\ntwo\n")
        .entries("a.md#L3-L4 0.5")
        .check_fates("out  a.md#L3-L4 no_such_lines: has 2 lines; line 3 is behind its end\n");
}

#[test]
fn what_is_left_out_is_named_without_a_report() {
    let project = small().entries("a.md 0.5\ngone.md 0.5\nlost.md 0.4");
    let run = project.run(&["assemble"]);
    run.expect_code(0);
    // A number alone would send the user to the report for the names.
    assert!(run.err.contains("gone.md"), "{}", run.err);
    assert!(run.err.contains("lost.md"), "{}", run.err);
}

/// A project with a file that may not be cut and is larger than the window.
fn with_a_file_too_large() -> Project {
    small()
        .file("long.md", "a long story\n".repeat(500))
        .entries("long.md 0.9 truncate_strategy=never\na.md 0.5")
}

#[test]
fn a_file_that_may_not_be_cut_and_does_not_fit_is_named_in_a_warning() {
    let (_, report) = with_a_file_too_large().assemble(&[]);
    let warnings = warnings(&report);
    assert!(
        warnings.iter().any(|warning| warning.contains("long.md")),
        "{warnings:?}"
    );
}

#[test]
fn a_file_that_no_order_could_have_kept_is_too_large() {
    let (_, report) = with_a_file_too_large().assemble(&[]);
    assert_eq!(report["excluded"][0]["id"], "long.md");
    assert_eq!(report["excluded"][0]["code"], "too_large");
}

#[test]
fn a_file_that_is_replaced_or_deleted_meanwhile_is_whole_or_reported() {
    let old = "the old text\n".repeat(4_000);
    let new = "some newer text\n".repeat(5_000);
    let project = Project::new()
        .file("a.md", &old)
        .file("other.md", "other\n")
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 100000
            files:
              - path: a.md
                priority: 0.9
              - path: other.md
                priority: 0.5
            ",
        );
    let (path, next) = (project.path("a.md"), project.path("next"));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for text in [&new, &old] {
                    fs::write(&next, text).unwrap();
                    fs::rename(&next, &path).unwrap();
                }
                fs::remove_file(&path).unwrap();
            }
        });
        for _ in 0..15 {
            let (prompt, report) = project.assemble(&[]);
            let fates = fates(&report);
            match fates.as_str() {
                "keep a.md fits\nkeep other.md fits\n" => {
                    let (_, behind) = prompt.split_once("<context path=\"a.md\">\n").unwrap();
                    let (body, _) = behind.split_once("</context>\n").unwrap();
                    assert!(body == old || body == new, "torn: {} bytes", body.len());
                }
                "keep other.md fits\nout  a.md missing: there is no file `a.md`\n" => {
                    assert!(!prompt.contains("a.md"));
                }
                other => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

// --- The budget ------------------------------------------------------------------------------

#[test]
fn a_budget_of_nothing() {
    small().refuses(
        &["assemble", "--max-tokens", "0"],
        2,
        "
        error: the budget is 0 tokens
        hint: give --max-tokens 1 or more
        ",
    );
    small()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 0
            files: []
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "error: working-set.yml:3:15: budget.max_tokens: must be a whole number of at least 1, not 0\n",
        );
}

#[test]
fn a_budget_below_zero() {
    small().refuses(
        &["assemble", "--max-tokens", "-5"],
        2,
        "
        error: invalid value '-5' for '--max-tokens <N>': must be a whole number of tokens, 0 or more

        For more information, try '--help'.
        ",
    );
    small()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: -5
            files: []
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "error: working-set.yml:3:15: budget.max_tokens: must be a whole number of at least 1, not -5\n",
        );
}

#[test]
fn no_budget_at_all() {
    small()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            files: []
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "
            error: working-set.yml: budget.max_tokens is missing
            hint: add it, or give --max-tokens or --model
            ",
        );
}

#[test]
fn pinned_files_that_do_not_fit_are_named_with_their_numbers() {
    let project = small().file("rules.md", "Be kind. ".repeat(200));
    let run = project.run(&["assemble", "--max-tokens", "300"]);
    run.expect_code(2);
    assert_eq!(run.out, "");
    let error = run.err.lines().next().unwrap();
    let (before, largest) = error.split_once(" (largest: ").unwrap();
    assert!(before.starts_with("error: pinned items need "), "{error}");
    assert!(before.ends_with(" tokens but 300 are available"), "{error}");
    assert!(largest.starts_with("`rules.md` "), "{error}");
    run.says("hint: raise --max-tokens, take a model with a larger window, or unpin the largest");
    assert_eq!(
        project.names(),
        ["a.md", "b.md", "rules.md", "working-set.yml"]
    );
}

#[test]
fn reserves_that_leave_nothing() {
    let project = small();
    project.refuses(
        &["assemble", "--reserve-response", "1000"],
        2,
        "
        error: reserves of 1000 tokens leave nothing of a window of 1000
        hint: raise --max-tokens or lower the reserves
        ",
    );
    project.refuses(
        &[
            "assemble",
            "--reserve-response",
            "18446744073709551615",
            "--reserve-tools",
            "5",
        ],
        2,
        "
        error: reserves of 18446744073709551615 tokens leave nothing of a window of 1000
        hint: raise --max-tokens or lower the reserves
        ",
    );
    small()
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 1000
              reserved_for_response: 4000
            files: []
            ",
        )
        .refuses(
            &["assemble"],
            2,
            "error: working-set.yml:4:26: budget.reserved_for_response: is 4000, which leaves nothing of max_tokens 1000\n",
        );
}

#[test]
fn an_event_that_says_nothing() {
    small().refuses(
        &["assemble", "--event", "  "],
        2,
        "error: the event is empty\n",
    );
    small().refuses(
        &["assemble", "--event-file", "nowhere.txt"],
        2,
        "error: cannot read nowhere.txt: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_request_that_the_provider_would_refuse_leaves_nothing_on_stdout() {
    let project = small().entries("rules.md 1.0 role=system truncate_strategy=never");
    let run = project.run(&["assemble", "--format", "anthropic"]);
    run.expect_code(2);
    assert_eq!(run.out, "");
    assert_eq!(
        run.err,
        "error: the request has no message: add a file with role user or context, \
         or say what is asked with --event (anthropic.messages_not_empty)\n"
    );
}

// --- Actions ---------------------------------------------------------------------------------

#[test]
fn an_action_without_a_reason() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        ",
        "
        error: MISSING_WHY: the change to `b.md` gives no reason
        hint: every change needs a reason: `why`, or --why on the command line
        ",
    );
    small().refuses(
        &["working-set", "remove", "a.md"],
        2,
        "
        error: MISSING_WHY: the change to `a.md` gives no reason
        hint: every change needs a reason: `why`, or --why on the command line
        ",
    );
}

#[test]
fn an_action_with_a_blank_reason() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        why: \" \\t \"
        ",
        "
        error: MISSING_WHY: the change to `b.md` gives no reason
        hint: every change needs a reason: `why`, or --why on the command line
        ",
    );
}

#[test]
fn an_action_on_an_unknown_path_suggests_the_nearest() {
    small().refuses_actions(
        "
        action: remove_from_working_set
        path: rules.mdx
        why: no longer needed
        ",
        "
        error: NOT_FOUND: `rules.mdx` is not in the working set
        hint: did you mean `rules.md`?
        ",
    );
    small().refuses(
        &[
            "working-set",
            "adjust",
            "zzz",
            "--priority",
            "0.1",
            "--why",
            "x",
        ],
        2,
        "
        error: NOT_FOUND: `zzz` is not in the working set
        hint: `contexture working-set list` shows what is
        ",
    );
}

#[test]
fn adding_a_file_that_is_not_there() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: gone.md
        priority: 0.5
        why: it was there
        ",
        "error: NOT_FOUND: there is no file `gone.md`\n",
    );
}

#[test]
fn adding_a_path_outside_the_root() {
    let outside = Project::new().file("o.md", "from outside\n");
    let project = small().link("out.md", outside.path("o.md"));
    for (path, why) in [
        ("../b.md", "`../b.md` leads out of the root with `..`"),
        (
            "/etc/passwd",
            "`/etc/passwd` is absolute; paths are relative to the root",
        ),
        ("out.md", "`out.md` leads out of the root through a link"),
    ] {
        project.refuses_actions(
            &format!("action: add_to_working_set\npath: {path}\npriority: 0.5\nwhy: x\n"),
            &format!(
                "error: PERMISSION_DENIED: {why}\n\
                 hint: only files below the root can be in the working set\n"
            ),
        );
    }
}

#[test]
fn the_model_may_not_touch_what_is_pinned() {
    for action in ["remove_from_working_set", "adjust_priority\npriority: 0.1"] {
        small().refuses_actions(
            &format!("action: {action}\npath: ./rules.md\nwhy: in the way\n"),
            "error: PERMISSION_DENIED: `rules.md` is pinned; only a person may change it\n",
        );
    }
}

#[test]
fn an_action_with_a_bad_priority() {
    small().refuses_actions(
        "
        action: adjust_priority
        path: a.md
        priority: high
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:3:11: priority: must be a number, not `high`\n",
    );
    small().refuses_actions(
        "
        action: adjust_priority
        path: a.md
        priority: 1.5
        why: x
        ",
        "error: INVALID_ARGS: priority of `a.md` must be from 0 to 1, not 1.5\n",
    );
    small().refuses_actions(
        "
        action: adjust_priority
        path: a.md
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:1:1: priority: is missing\n",
    );
}

#[test]
fn an_unknown_action_suggests_the_nearest() {
    small().refuses_actions(
        "
        action: add_to_workingset
        path: b.md
        priority: 0.5
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:1:9: action: unknown action `add_to_workingset`; \
         did you mean `add_to_working_set`? \
         (one of add_to_working_set, remove_from_working_set, adjust_priority)\n",
    );
}

#[test]
fn an_action_with_an_unknown_field() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.5
        prio: 0.6
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:4:1: prio: unknown field `prio`; did you mean `priority`? \
         (one of action, path, priority, why, role, truncate_strategy, max_lines)\n",
    );
}

#[test]
fn an_action_with_a_bad_role_is_told_by_its_own_line() {
    // Not by a line of the manifest, which was never written.
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.5
        role: sytem
        why: x
        ",
        "error: INVALID_ARGS: actions.yml:4:7: role: unknown role `sytem`; did you mean `system`? \
         (one of system, developer, user, context)\n",
    );
}

#[test]
fn an_actions_file_that_holds_none() {
    let hint =
        "hint: write `action`, `path`, `priority` and `why`; see `contexture working-set --help`";
    small().refuses_actions(
        "",
        &format!("error: INVALID_ARGS: actions.yml holds no action\n{hint}\n"),
    );
    small().refuses_actions(
        "just a sentence\n",
        "error: INVALID_ARGS: actions.yml:1:1: must be a mapping (`key: value`), not `just a sentence`\n",
    );
    small().refuses(
        &["working-set", "apply", "nowhere.yml"],
        2,
        "error: cannot read nowhere.yml: No such file or directory (os error 2)\n",
    );
}

#[test]
fn nothing_is_applied_when_the_last_of_several_is_bad() {
    small().refuses_actions(
        "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        why: found it
        ---
        action: adjust_priority
        path: a.md
        priority: 0.9
        why: more relevant
        ---
        action: remove_from_working_set
        path: gone.md
        why: not needed
        ",
        "
        error: NOT_FOUND: `gone.md` is not in the working set
        hint: `contexture working-set list` shows what is
        ",
    );
}

#[test]
fn too_many_actions_in_a_call() {
    small()
        .file("contexture.toml", "[limits]\nmax_actions = 1\n")
        .refuses_actions(
            "
        - {action: add_to_working_set, path: b.md, priority: 0.7, why: x}
        - {action: remove_from_working_set, path: a.md, why: x}
        ",
            "
        error: QUOTA_EXCEEDED: 2 actions in one call, 1 are allowed
        hint: send fewer at a time, or raise limits.max_actions in contexture.toml
        ",
        );
}

#[test]
fn too_many_entries() {
    small()
        .file("contexture.toml", "[limits]\nmax_entries = 2\n")
        .refuses_actions(
            "
        action: add_to_working_set
        path: b.md
        priority: 0.7
        why: x
        ",
            "
        error: QUOTA_EXCEEDED: the working set may hold 2 entries
        hint: remove some first, or raise limits.max_entries in contexture.toml
        ",
        );
}

#[test]
fn a_manifest_that_is_a_link_is_not_replaced() {
    let project = small();
    fs::rename(project.path("working-set.yml"), project.path("real.yml")).unwrap();
    project.link("working-set.yml", "real.yml").refuses(
        &[
            "working-set",
            "add",
            "b.md",
            "--priority",
            "0.5",
            "--why",
            "x",
        ],
        2,
        "
        error: working-set.yml is a symbolic link
        hint: name the file it points to
        ",
    );
}

// --- Writers at once, and disks that do not take it --------------------------------------------

#[test]
fn twenty_writers_at_once_all_get_their_entry() {
    let project = (0..20)
        .fold(Project::new(), |project, i| {
            project.file(&format!("f{i:02}.md"), "x\n")
        })
        .file("a.md", "alpha\n")
        .manifest(
            "
            # what the model sees
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 1000 # small
            files:
              - path: a.md # the first
                priority: 0.5
            # the end
            ",
        );
    let writers: Vec<_> = (0..20)
        .map(|i| {
            let path = format!("f{i:02}.md");
            project
                .command(&[
                    "working-set",
                    "add",
                    &path,
                    "--priority",
                    "0.3",
                    "--why",
                    "all at once",
                ])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for writer in writers {
        support::finish(writer).expect_code(0);
    }
    let manifest = project.read("working-set.yml");
    for comment in [
        "# what the model sees\n",
        " # small\n",
        " # the first\n",
        "# the end\n",
    ] {
        assert_eq!(manifest.matches(comment).count(), 1, "{comment}{manifest}");
    }
    let list: serde_json::Value =
        serde_json::from_str(&project.ok(&["working-set", "list", "--json"])).unwrap();
    let mut paths: Vec<&str> = list["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| support::text(&row["path"]))
        .collect();
    paths.sort_unstable();
    let expected: Vec<String> = std::iter::once("a.md".to_owned())
        .chain((0..20).map(|i| format!("f{i:02}.md")))
        .collect();
    assert_eq!(paths, expected);
    let log = project.read(".contexture/sessions/default/events.jsonl");
    assert_eq!(log.lines().count(), 20);
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let left: Vec<_> = project
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_writer_that_does_not_get_the_lock_gives_up() {
    let project = small();
    let lock = File::open(project.path(".")).unwrap();
    lock.lock().unwrap();
    project.refuses(
        &[
            "working-set",
            "add",
            "b.md",
            "--priority",
            "0.5",
            "--why",
            "x",
        ],
        1,
        "
        error: another process has been changing working-set.yml for five seconds
        hint: try again, or end that process
        ",
    );
}

/// Runs `args` in the project as a user who may not write to it.
fn run_without_write_permission(project: &Project, args: &[&str]) -> support::Run {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mode =
        |mode| fs::set_permissions(project.path(""), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    // Permissions do not hold for root, so nobody runs a copy that they can reach.
    let reachable = TempDir::new().unwrap();
    let mut command = project.command(args);
    if is_root {
        let copy = reachable.path().join("contexture");
        fs::copy(BIN, &copy).unwrap();
        for path in [reachable.path(), &copy] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        command = Command::new(copy);
        command
            .args(args)
            .current_dir(project.path(""))
            .uid(65534)
            .gid(65534);
    }
    let run = run(command, "");
    mode(0o755);
    run
}

#[test]
fn a_directory_that_may_not_be_written_to() {
    let project = small();
    let before = project.names();
    let manifest = project.read("working-set.yml");
    let args = [
        "working-set",
        "add",
        "b.md",
        "--priority",
        "0.5",
        "--why",
        "x",
    ];
    let run = run_without_write_permission(&project, &args);
    run.expect_code(1);
    assert_eq!(
        run.err,
        "error: cannot write working-set.yml: Permission denied (os error 13); it is unchanged\n\
         hint: check that the directory is writable and the disk is not full\n"
    );
    assert_eq!(project.read("working-set.yml"), manifest);
    assert_eq!(project.names(), before);
}

#[test]
fn a_log_that_cannot_be_written_does_not_keep_a_prompt_from_being_made() {
    let project = small();
    let before = project.names();
    let run = run_without_write_permission(&project, &["assemble"]);
    run.expect_code(0);
    assert!(run.out.contains("alpha"));
    run.says(
        "warning: the event log .contexture/sessions/default/events.jsonl was not written: \
         Permission denied (os error 13)",
    );
    assert_eq!(project.names(), before);
}

#[test]
fn init_where_nothing_may_be_written() {
    let project = Project::new();
    let run = run_without_write_permission(&project, &["init"]);
    run.expect_code(1);
    assert_eq!(
        run.err,
        "error: cannot write .agent/constitution.md: Permission denied (os error 13)\n\
         hint: check that the directory is writable\n"
    );
    assert_eq!(project.names(), Vec::<String>::new());
}

/// Runs `args` so that no file can grow: every write to one fails, as on a
/// full disk.
fn run_on_a_full_disk(project: &Project, args: &[&str]) -> support::Run {
    let mut command = Command::new("bash");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"", BIN])
        .args(args)
        .current_dir(project.path(""));
    run(command, "")
}

#[test]
fn a_full_disk_leaves_the_manifest_as_it_was() {
    let project = small();
    let before = project.snapshot();
    let args = [
        "working-set",
        "add",
        "b.md",
        "--priority",
        "0.5",
        "--why",
        "x",
    ];
    let run = run_on_a_full_disk(&project, &args);
    run.expect_code(1);
    assert_eq!(
        run.err,
        "error: cannot write working-set.yml: File too large (os error 27); it is unchanged\n\
         hint: check that the directory is writable and the disk is not full\n"
    );
    assert_eq!(project.snapshot(), before);
}

#[test]
fn a_full_disk_leaves_the_report_as_it_was() {
    let project = small().file("report.yml", "the one before\n");
    let run = run_on_a_full_disk(&project, &["assemble", "--report", "report.yml"]);
    run.expect_code(1);
    assert_eq!(project.read("report.yml"), "the one before\n");
    assert!(
        !project.names().iter().any(|name| name.ends_with(".tmp")),
        "{:?}",
        project.names()
    );
    run.says("error: cannot write report.yml: File too large (os error 27)");
}

#[test]
fn init_on_a_full_disk_leaves_no_half_written_file() {
    let project = Project::new();
    let run = run_on_a_full_disk(&project, &["init"]);
    run.expect_code(1);
    assert!(
        run.err
            .starts_with("error: cannot write .agent/constitution.md: "),
        "{}",
        run.err
    );
    // A file that is there but empty would be kept by the next init.
    project.ok(&["init"]);
    assert!(
        project
            .read(".agent/constitution.md")
            .starts_with("# Constitution")
    );
}

#[test]
fn observe_on_a_full_disk_can_be_repeated() {
    let project = small().file("turn.json", TURN_WITH_TOOL);
    let before = project.snapshot();
    run_on_a_full_disk(&project, &["working-set", "observe", "turn.json"]).expect_code(1);
    assert_eq!(project.read("working-set.yml"), before["working-set.yml"]);
    project.ok(&["working-set", "observe", "turn.json"]);
}

#[test]
fn a_device_that_is_full_is_named_with_the_cause() {
    let run = small().run(&["assemble", "--report", "/dev/full"]);
    run.expect_code(1);
    assert_eq!(run.out, "", "the prompt must not pass for a success");
    assert_eq!(
        run.err,
        "error: cannot write /dev/full: No space left on device (os error 28)\n"
    );
}

#[test]
fn standard_output_that_is_full() {
    let project = small();
    let mut command = project.command(&["assemble"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    command
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped());
    let run = support::finish(command.spawn().unwrap());
    run.expect_code(1);
    run.says("error: cannot write to standard output: No space left on device (os error 28)");
}

#[test]
fn a_report_where_no_file_can_be() {
    let project = small();
    let run = project.run(&["assemble", "--report", "nowhere/report.yml"]);
    run.expect_code(1);
    run.says("error: cannot write nowhere/report.yml: No such file or directory (os error 2)");
    let run = project.run(&["assemble", "--report", "."]);
    assert!(matches!(run.code, Some(1 | 2)), "{run:?}");
    assert!(run.err.contains("directory"), "{}", run.err);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let project = small();
    let mut command = project.command(&["assemble"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped());
    let run = support::finish(command.spawn().unwrap());
    run.expect_code(0);
    assert_eq!(run.err, "");

    let project = small().file("a.md", "a long line of text\n".repeat(5_000));
    let mut command = Command::new("bash");
    command
        .args([
            "-c",
            "set -o pipefail; \"$0\" assemble --max-tokens 100000 | head -c 10",
            BIN,
        ])
        .current_dir(project.path(""));
    let run = support::run(command, "");
    run.expect_code(0);
    assert_eq!(run.out, "Root: ./\nC");
    assert!(!run.err.contains("error"), "{}", run.err);
}

// --- Recipes, settings, models ---------------------------------------------------------------

#[test]
fn an_unknown_recipe_suggests_the_nearest() {
    small().refuses(
        &["assemble", "--recipe", "working-sets"],
        2,
        "
        error: unknown recipe `working-sets`; did you mean `working-set`? (one of working-set)
        hint: name a built-in recipe or the file of your own
        ",
    );
    small().refuses(
        &["assemble", "--recipe", "mine.yml"],
        2,
        "error: cannot read recipe mine.yml: No such file or directory (os error 2)\n",
    );
}

/// Checks that a recipe is refused with `message`, when it is checked and when
/// it is used.
#[track_caller]
fn check_bad_recipe(recipe: &str, message: &str) {
    let project = small().file("mine.yml", support::dedent(recipe));
    project.refuses(&["recipe", "check", "mine.yml"], 2, message);
    project.refuses(&["assemble", "--recipe", "mine.yml"], 2, message);
}

#[test]
fn a_recipe_with_an_unknown_source() {
    check_bad_recipe(
        "
        recipe: mine
        layers:
          - layer: files
            source: working-sett
            share: 100
        ",
        "error: mine.yml:4:13: layers[0].source: unknown source `working-sett`; \
         did you mean `working-set`? (one of boot, working-set, event)\n",
    );
}

#[test]
fn a_recipe_with_an_unknown_layer() {
    check_bad_recipe(
        "
        recipe: mine
        layers:
          - layer: file
            source: working-set
            share: 100
        ",
        "error: mine.yml:3:12: layers[0].layer: unknown layer `file`; did you mean `files`? \
         (one of workspace, persona, session, memory, event, files, task)\n",
    );
}

#[test]
fn a_recipe_whose_shares_do_not_add_up() {
    check_bad_recipe(
        "
        recipe: mine
        layers:
          - layer: workspace
            source: boot
            share: 20
          - layer: files
            source: working-set
            share: 70
        ",
        "error: mine.yml:6:5: layers: the shares add up to 90, not 100 (workspace 20, files 70)\n",
    );
}

#[test]
fn a_recipe_with_other_mistakes() {
    check_bad_recipe(
        "",
        "error: mine.yml:1:1: a recipe is one mapping with `recipe` and `layers`\n",
    );
    check_bad_recipe(
        "recipe: mine\n",
        "error: mine.yml:1:1: layers: a recipe needs at least one layer\n",
    );
    check_bad_recipe(
        "
        recipe: mine
        layers:
          - layer: files
            source: working-set
            share: 100
            shar: 100
        ",
        "error: mine.yml:6:5: layers[0].shar: unknown field `shar`; did you mean `share`? \
         (one of layer, source, share, min, max, cut, fit, place, order, mask_secrets, \
         min_recent, shrink_to, head)\n",
    );
}

#[test]
fn settings_with_an_unknown_key() {
    small().file("contexture.toml", "# mine\nmodle = \"gpt-4o\"\n").refuses(
        &["assemble"],
        2,
        "
        error: contexture.toml:2:1: unknown field `modle`, expected one of `recipe`, `model`, `models`, `limits`, `secrets`, `boot`, `observe`
        hint: `contexture doctor` prints the settings that exist and their defaults
        ",
    );
}

#[test]
fn settings_of_a_wrong_type_are_told_in_words_a_user_knows() {
    let project = small().file("contexture.toml", "[limits]\nmax_entries = \"two\"\n");
    let run = project.run(&["assemble"]);
    run.expect_code(2);
    assert!(
        run.err.starts_with("error: contexture.toml:2:15: "),
        "{}",
        run.err
    );
    assert!(run.err.contains("\"two\""), "{}", run.err);
    assert!(!run.err.contains("usize"), "{}", run.err);
}

#[test]
fn settings_that_do_not_parse() {
    small().file("contexture.toml", "[limits\n").refuses(
        &[
            "working-set",
            "add",
            "b.md",
            "--priority",
            "0.5",
            "--why",
            "x",
        ],
        2,
        "
        error: contexture.toml:1:8: unclosed table, expected `]`
        hint: `contexture doctor` prints the settings that exist and their defaults
        ",
    );
}

#[test]
fn settings_behind_a_link_out_of_the_root_are_not_passed_over_in_silence() {
    let outside = Project::new().file("contexture.toml", "[secrets]\nmask = false\n");
    let project = small().link("contexture.toml", outside.path("contexture.toml"));
    let run = project.run(&["assemble"]);
    assert!(run.err.contains("contexture.toml"), "{run:?}");
    assert!(run.err.contains("leads out of the root"), "{run:?}");
}

#[test]
fn an_unknown_tokenizer_in_the_settings() {
    small()
        .file("contexture.toml", "[models.mine]\nwindow = 1000\ntokenizer = \"o200k_bsae\"\n")
        .refuses(
            &["assemble"],
            2,
            "
            error: contexture.toml: models.mine.tokenizer: unknown tokenizer `o200k_bsae`; did you mean `o200k_base`? (one of o200k_base, cl100k_base, estimate)
            hint: or name a tokenizer.json
            ",
        );
}

#[test]
fn an_unknown_model_is_a_warning() {
    let project = small();
    let run = project.run(&["assemble", "--model", "my-model"]);
    run.expect_code(0);
    assert!(run.out.contains("alpha"));
    run.says(
        "warning: model `my-model` is not in the table: a window of 128000 tokens and an estimate \
         are assumed; add it under [models] in contexture.toml",
    );
    let run = project.run(&["tokens", "a.md", "--model", "my-model"]);
    run.expect_code(0);
    run.says("warning: model `my-model` is not in the table; an estimate is used");
}

#[test]
fn tokens_of_what_cannot_be_read() {
    let project = small().file("latin1.txt", b"caf\xE9\n");
    project.refuses(
        &["tokens", "a.md", "nowhere.md"],
        2,
        "error: cannot read nowhere.md: No such file or directory (os error 2)\n",
    );
    project.refuses(
        &["tokens", "."],
        2,
        "error: cannot read .: Is a directory (os error 21)\n",
    );
    project.refuses(
        &["tokens", "latin1.txt"],
        2,
        "error: cannot read latin1.txt: stream did not contain valid UTF-8\n",
    );
    project.refuses(
        &["tokens", "a.md", "--tokenizer", "nope"],
        2,
        "error: unknown tokenizer `nope` (o200k_base, cl100k_base, estimate, or a .json file)\n",
    );
    project.refuses(
        &["tokens", "a.md", "--tokenizer", "a.json"],
        2,
        "error: cannot read tokenizer a.json: No such file or directory (os error 2)\n",
    );
}

// --- Hints and turns ---------------------------------------------------------------------------

#[test]
fn hints_with_bad_content() {
    for (text, message) in [
        (
            "keep:\n  - path: a.md\n    touches: many\n",
            "3:14: keep[0].touches: must be a number, not `many`",
        ),
        ("keep: a.md\n", "1:7: keep: must be a list, not `a.md`"),
        ("keep:\n  - why: no path\n", "2:5: keep[0].path: is missing"),
        (
            "keep:\n  - path: ../a.md\n",
            "2:11: keep[0].path: `../a.md` leads out of the root with `..`",
        ),
        (
            "- a.md\n",
            "1:1: must be a mapping (`key: value`), not a list",
        ),
        ("keep: [\n", "1:7: unclosed bracket '['"),
    ] {
        let message = format!("error: hot.yml:{message}\n");
        small()
            .file("hot.yml", text)
            .refuses(&["assemble"], 2, &message);
    }
}

/// A turn in which a tool said something.
const TURN_WITH_TOOL: &str = r#"{"messages":[
    {"role":"assistant","content":[{"type":"tool_call","id":"c1","name":"shell","arguments":{"command":"make"}}]},
    {"role":"tool","tool_call_id":"c1","content":"undefined reference to foo"}]}"#;

#[test]
fn a_turn_that_is_none() {
    let hint = "hint: a turn is `{\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}`";
    for (turn, message) in [
        ("junk", "expected value at line 1 column 1"),
        ("", "EOF while parsing a value at line 1 column 0"),
        (
            "[]",
            "invalid length 0, expected struct Turn with 7 elements at line 1 column 2",
        ),
        (
            "{\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}]}",
            "unknown variant `robot`, expected one of `system`, `developer`, `user`, `assistant`, \
             `tool` at line 1 column 28",
        ),
    ] {
        small().file("turn.json", turn).refuses(
            &["working-set", "observe", "turn.json"],
            2,
            &format!("error: turn.json: {message}\n{hint}\n"),
        );
    }
}

#[test]
fn an_observation_that_is_refused_leaves_nothing_and_can_be_repeated() {
    let project = small()
        .file("turn.json", TURN_WITH_TOOL)
        .file("contexture.toml", "[limits]\nmax_entries = 2\n");
    project.refuses(
        &["working-set", "observe", "turn.json"],
        2,
        "
        error: QUOTA_EXCEEDED: the working set may hold 2 entries
        hint: remove some first, or raise limits.max_entries in contexture.toml
        ",
    );
    fs::remove_file(project.path("contexture.toml")).unwrap();
    project.ok(&["working-set", "observe", "turn.json"]);
}

#[test]
fn what_is_remembered_of_turns_is_damaged() {
    small()
        .file("turn.json", TURN_WITH_TOOL)
        .file(".contexture/sessions/default/observed.json", "{\"turn\":")
        .refuses(
            &["working-set", "observe", "turn.json"],
            2,
            "
            error: .contexture/sessions/default/observed.json: EOF while parsing a value at line 1 column 8
            hint: remove the file to start counting anew
            ",
        );
}

#[test]
fn a_session_label_cannot_lead_elsewhere() {
    let above = Project::new();
    for (path, text) in small().snapshot() {
        above.write(&format!("root/{path}"), text);
    }
    for label in ["../../../evil", "/evil", "..", "."] {
        let run = above.run(&["assemble", "root", "--session", label]);
        run.expect_code(0);
    }
    let escaped = above
        .names()
        .into_iter()
        .filter(|name| name.ends_with("events.jsonl"))
        .filter(|name| !name.starts_with("root/.contexture/sessions/"))
        .collect::<Vec<_>>();
    assert!(escaped.is_empty(), "{escaped:?}");
}

#[test]
fn a_log_behind_a_link_is_not_written_to() {
    let outside = Project::new().file("target", "mine\n");
    let project = small();
    fs::create_dir_all(project.path(".contexture/sessions/default")).unwrap();
    let project = project.link(
        ".contexture/sessions/default/events.jsonl",
        outside.path("target"),
    );
    project.run(&["assemble"]).expect_code(0);
    assert_eq!(outside.read("target"), "mine\n");
}

// --- The call --------------------------------------------------------------------------------

#[test]
fn an_unknown_flag() {
    small().refuses(
        &["assemble", "--modle", "gpt-4o"],
        2,
        "
        error: unexpected argument '--modle' found

          tip: a similar argument exists: '--model'

        Usage: contexture assemble --model <NAME> [ROOT]

        For more information, try '--help'.
        ",
    );
}

#[test]
fn an_unknown_command() {
    small().refuses(
        &["asemble"],
        2,
        "
        error: unrecognized subcommand 'asemble'

          tip: a similar subcommand exists: 'assemble'

        Usage: contexture <COMMAND>

        For more information, try '--help'.
        ",
    );
}

#[test]
fn a_clock_that_shows_no_time() {
    small().refuses(
        &["assemble", "--now", "yesterday"],
        2,
        "
        error: invalid value 'yesterday' for '--now <RFC3339>': must be a time such as 2026-01-31T12:00:00Z, or Unix milliseconds

        For more information, try '--help'.
        ",
    );
}

#[test]
fn a_priority_on_the_command_line_that_is_none() {
    small().refuses(
        &[
            "working-set",
            "adjust",
            "a.md",
            "--priority",
            "1.5",
            "--why",
            "x",
            "--now",
            NOW,
        ],
        2,
        "error: INVALID_ARGS: priority of `a.md` must be from 0 to 1, not 1.5\n",
    );
    small().refuses(
        &[
            "working-set",
            "adjust",
            "a.md",
            "--priority",
            "NaN",
            "--why",
            "x",
        ],
        2,
        "error: INVALID_ARGS: priority of `a.md` must be from 0 to 1, not NaN\n",
    );
    small().refuses(
        &[
            "working-set",
            "adjust",
            "a.md",
            "--priority",
            "high",
            "--why",
            "x",
        ],
        2,
        "
        error: invalid value 'high' for '--priority <P>': must be a number from 0 to 1

        For more information, try '--help'.
        ",
    );
}

#[test]
fn two_events_at_once() {
    small().refuses(
        &["assemble", "--event", "x", "--event-file", "a.md"],
        2,
        "
        error: the argument '--event <TEXT>' cannot be used with '--event-file <FILE>'

        Usage: contexture assemble --event <TEXT> [ROOT]

        For more information, try '--help'.
        ",
    );
}

#[test]
fn a_file_that_is_not_valid_utf8_by_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = small().entries("docs 0.5").file("docs/a.md", "alpha\n");
    let name = std::ffi::OsStr::from_bytes(b"caf\xE9.md");
    File::create(project.path("docs").join(name))
        .unwrap()
        .write_all(b"x\n")
        .unwrap();
    let (_, report) = project.assemble(&[]);
    assert_eq!(fates(&report), "keep docs/a.md fits\n");
    let warnings = warnings(&report);
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("its name is not UTF-8")),
        "{warnings:?}"
    );
}
