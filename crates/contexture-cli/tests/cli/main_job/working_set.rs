//! `working-set`.

use super::*;

/// A project whose manifest has comments everywhere.
fn commented() -> Project {
    Project::new()
        .file("a.md", "alpha\n")
        .file("b.md", "beta\n")
        .file("c.md", "gamma\n")
        .manifest(
            "
            # what the model sees
            protocol: CONTEXT-ASSEMBLY/0.1

            budget:
              max_tokens: 1000   # small
            files:
              # the first
              - path: \"a.md\"
                priority: 0.50   # fifty
                role: 'context'

              # the second
              - path: b.md
                priority: 0.4
            ",
        )
}

const METADATA: &str = "\
metadata:
  last_updated: \"2026-01-31T12:00:00Z\"
  assembled_by: \"user\"
";

#[test]
fn adding_a_file_keeps_comments_and_layout() {
    let project = commented();
    let before = project.read("working-set.yml");
    let add = "working-set add c.md --priority 0.7 --why 'found it' --role user --now";
    assert_eq!(
        project.ok(&format!("{add} {NOW}")[..]),
        "added c.md at 0.7: found it\n"
    );
    let added = "\n  - path: c.md\n    priority: 0.7\n    role: 'user'\n";
    let after = project.read("working-set.yml");
    assert_eq!(after, format!("{before}{added}{METADATA}"));
}

#[test]
fn a_file_without_a_priority_gets_the_default() {
    let project = commented();
    project.write("new.md", "new\n");
    assert_eq!(
        project.ok(&["working-set", "add", "new.md", "--why", "it is new"]),
        "added new.md at 0.5: it is new\n"
    );
}

#[test]
fn an_entry_is_found_however_its_path_is_written() {
    let project = commented().entries("a.md 0.5\n./b.md 0.4\nc.md#L1 0.3");
    for (path, id) in [
        ("./a.md", "a.md"),
        ("b.md", "b.md"),
        ("./c.md#L1-L1", "c.md#L1"),
    ] {
        project.ok(&[
            "working-set",
            "adjust",
            path,
            "--priority",
            "0.9",
            "--why",
            "x",
        ]);
        let (_, report) = project.assemble(&[]);
        assert_eq!(row(&report, id)["priority"], 0.9, "{path}");
    }
}

#[test]
fn the_model_changes_several_files_in_one_call() {
    let project = commented();
    let actions = dedent(
        "
        # Add file to working set
        action: add_to_working_set
        path: \"c.md\"
        priority: 0.7
        why: \"Found relevant documentation\"
        ---
        action: remove_from_working_set
        path: b.md
        why: Task complete
        ---
        action: adjust_priority
        path: a.md
        priority: 0.9
        why: More relevant than thought
        ",
    );
    let run = project.run_with(&["working-set", "apply", "-", "--now", NOW], &actions);
    run.expect_code(0);
    assert_eq!(
        run.out,
        dedent(
            "
            added c.md at 0.7: Found relevant documentation
            removed b.md: Task complete
            set a.md to 0.9: More relevant than thought
            "
        )
    );
    let manifest = project.read("working-set.yml");
    assert!(manifest.contains("priority: 0.9   # fifty\n"), "{manifest}");
    assert!(manifest.contains("assembled_by: \"model\"\n"), "{manifest}");
    project.check_fates("keep a.md fits\nkeep c.md fits\n");
}

#[test]
fn changes_and_assemblies_are_logged_with_their_reason() {
    for (agent, log) in [
        (false, ".contexture/sessions/default/events.jsonl"),
        (true, ".agent/sessions/default/events.jsonl"),
    ] {
        let mut project = commented();
        if agent {
            project = project.file(".agent/notes.md", "n\n");
        }
        project.ok(&[
            "working-set",
            "add",
            "c.md",
            "--priority",
            "0.7",
            "--why",
            "found it",
            "--now",
            NOW,
        ]);
        project.ok(&["assemble", "--now", "2026-01-31T12:00:01Z"]);
        let events: Vec<Value> = project.read(log).lines().map(parsed).collect();
        assert_eq!(events.len(), 2);
        assert_eq!(
            events[0],
            json!({
                "time": NOW, "event": "working_set_updated", "actor": "user",
                "action": "add_to_working_set", "priority": 0.7, "path": "c.md", "why": "found it",
            })
        );
        assert_eq!(events[1]["event"], "assembled");
        assert_eq!(events[1]["time"], "2026-01-31T12:00:01Z");
        assert_eq!(events[1]["max"], 1000);
        assert_eq!(events[1]["included"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn a_session_has_its_own_log() {
    let project = commented();
    let prompt = project.ok(&["assemble", "--session", "night shift/2"]);
    // Another label, such as `night_shift_2`, has another directory.
    let dir = ".contexture/sessions/night_shift_2~";
    let (_, named) = prompt.split_once(&format!("\nSession: {dir}")).unwrap();
    let hash = named.split('/').next().unwrap();
    let log = project.read(&format!("{dir}{hash}/events.jsonl"));
    assert_eq!(log.lines().count(), 1);
}

#[test]
fn the_list_shows_entries_with_what_is_wrong_with_them() {
    let project = Project::new()
        .file("rules.md", "rules\n")
        .file("src/a.rs", "a\n")
        .file("src/b.rs", "b\n")
        .file("hot.yml", "keep:\n  - path: src/a.rs\n    touches: 5\n")
        .entries(
            "
            rules.md  1.0 role=system truncate_strategy=never
            src/*.rs  0.5
            gone.md   0.4
            docs/*.md 0.3
            ",
        );
    assert_eq!(
        project.ok(&["working-set", "list"]),
        dedent(
            "
            working-set.yml: 4 entries, 3 files, 56 tokens of 1,000
                1         16  system     rules.md  pinned
             0.65 (base 0.5)         20  context    src/a.rs  from src/*.rs
              0.5         20  context    src/b.rs  from src/*.rs
              0.4          -  context    gone.md  (file `gone.md` does not exist)
              0.3          -  context    docs/*.md  (the pattern matches no file; add ignored files by their path)
            "
        )
    );
    let value = parsed(&project.ok(&["working-set", "list", "--json"]));
    assert_eq!(value["manifest"], "working-set.yml");
    assert_eq!(value["max_tokens"], 1000);
    let rows = value["files"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[1]["entry"], "src/*.rs");
    assert_eq!(rows[1]["base_priority"], 0.5);
    assert_eq!(rows[0]["pinned"], true);
    assert_eq!(rows[3]["status"], "file `gone.md` does not exist");
    assert_eq!(rows[3].get("tokens"), None);
    // The same as in the report of a request.
    let (_, report) = project.assemble("");
    for (at, id) in [(0, "rules.md"), (1, "src/a.rs"), (2, "src/b.rs")] {
        assert_eq!(rows[at]["tokens"], row(&report, id)["tokens"], "{id}");
    }
}

#[test]
fn changes_can_be_printed_as_json() {
    let args = ["working-set", "remove", "b.md", "--why", "done", "--json"];
    let value = parsed(&commented().ok(&args));
    assert_eq!(
        value,
        json!({
            "manifest": "working-set.yml",
            "changes": [{"action": "remove_from_working_set", "path": "b.md", "why": "done"}],
        })
    );
}

/// A turn with one user message.
fn said(words: &str) -> String {
    json!({"messages": [{"role": "user", "content": words}]}).to_string()
}

#[test]
fn mentioned_files_are_raised() {
    let project = commented();
    let args = ["working-set", "observe", "-", "--now", NOW];
    let run = project.run_with(&args, &said("Look at b.md, please."));
    run.expect_code(0);
    assert_eq!(run.out, "set b.md to 0.5: mentioned in turn 1\n");
    let manifest = project.read("working-set.yml");
    assert!(
        manifest.contains("  # the second\n  - path: b.md\n    priority: 0.5\n"),
        "{manifest}"
    );
    assert!(
        manifest.contains("assembled_by: \"orchestrator\"\n"),
        "{manifest}"
    );
}

#[test]
fn a_turn_finds_entries_however_their_path_is_written() {
    let project = commented().entries("./b.md 0.4");
    let args = ["working-set", "observe", "-", "--now", NOW];
    let run = project.run_with(&args, &said("Look at b.md, please."));
    run.expect_code(0);
    assert_eq!(run.out, "set b.md to 0.5: mentioned in turn 1\n");
}

#[test]
fn unmentioned_files_are_lowered() {
    let project = commented().entries("a.md 0.5\nb.md 0.4\nc.md 1.0\n");
    let args = ["working-set", "observe", "-", "--now", NOW];
    for _ in 1..5 {
        let run = project.run_with(&args, &said("nothing"));
        run.expect_code(0);
        assert_eq!(run.out, "nothing to change\n");
    }
    let run = project.run_with(&args, &said("nothing"));
    run.expect_code(0);
    assert_eq!(
        run.out,
        "set a.md to 0.4: not mentioned for 5 turns\nset b.md to 0.3: not mentioned for 5 turns\n"
    );
    assert!(
        project.read("working-set.yml").contains("priority: 1.0\n"),
        "1.0 is left alone"
    );
}

#[test]
fn the_newest_tool_outputs_are_files_of_the_working_set() {
    let project = commented();
    for n in 1..=7 {
        let turn = json!({"messages": [
            {"role": "assistant", "content": [
                {"type": "tool_call", "id": "c1", "name": "shell", "arguments": {"command": "make"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": format!("output {n}")},
        ]});
        let args = ["working-set", "observe", "-", "--now", NOW];
        project.run_with(&args, &turn.to_string()).expect_code(0);
    }
    let manifest = project.read("working-set.yml");
    let dir = ".contexture/sessions/default/tool";
    for n in 1..=7 {
        let listed = manifest.contains(&format!("{dir}/00000{n}-01-shell.txt"));
        assert_eq!(listed, n > 2, "{n}: {manifest}");
    }
    assert_eq!(
        project.read(&format!("{dir}/000007-01-shell.txt")),
        "output 7"
    );
    let prompt = project.ok(&["assemble"]);
    assert!(
        prompt.contains("\noutput 7\n") && !prompt.contains("\noutput 2\n"),
        "{prompt}"
    );
}

#[test]
fn a_pattern_is_mentioned_when_one_of_its_files_is() {
    let project = Project::new()
        .file("src/a.rs", "a\n")
        .file(
            "turn.json",
            r#"{"messages":[{"role":"user","content":"look at src/a.rs"}]}"#,
        )
        .entries("src/*.rs 0.5");
    assert_eq!(
        project.ok(&["working-set", "observe", "turn.json"]),
        "set src/*.rs to 0.6: mentioned in turn 1\n"
    );
}

#[test]
fn the_outcome_of_one_file_is_explained() {
    let project = Project::new()
        .file("src/a.rs", "fn a() {}\n")
        .file("src/b.rs", "fn b() {}\n".repeat(400))
        .file("src/c.rs", "fn c() {}\n")
        .file(".gitignore", "c.rs\n")
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 1000
              reserved_for_response: 200
            files:
              - path: src/*.rs
                priority: 0.5
            ",
        );
    let why = |path: &str| project.ok(&["working-set", "why", path]);
    assert!(why("src/a.rs").starts_with("src/a.rs: kept, "));
    assert!(why("src/b.rs").starts_with("src/b.rs: cut, "));
    assert_eq!(
        why("src/c.rs"),
        "src/c.rs: absent: the entry `src/*.rs` matches it, but the rule `c.rs` in .gitignore \
         ignores it; add the file by its path to use it anyway\n"
    );
    let rows = parsed(&project.ok(&["working-set", "why", "gone.rs", "--json"]));
    assert_eq!(rows[0]["fate"], "absent");
    assert_eq!(rows[0]["tokens"], Value::Null);

    // A file of a pattern has no entry that could be changed.
    let run = project.run(&[
        "working-set",
        "adjust",
        "src/a.rs",
        "--priority",
        "0.9",
        "--why",
        "x",
    ]);
    run.expect_code(2);
    let said = "`src/a.rs` has no entry of its own; the pattern `src/*.rs` matches it\nhint: add";
    assert!(run.err.contains(said), "{}", run.err);
}
