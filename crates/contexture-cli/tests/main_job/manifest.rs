//! `assemble`: the manifest.

use super::*;

#[test]
fn line_ranges_show_their_lines() {
    let project = Project::new()
        .file("a.md", "one\ntwo\nthree\nfour\n")
        .entries("a.md#L2-L3 0.9\na.md#L4 0.8\na.md#L4-L99 0.7");
    let (prompt, report) = project.assemble(&[]);
    assert_eq!(body(&prompt, "a.md#L2-L3"), "two\nthree\n");
    assert_eq!(body(&prompt, "a.md#L4"), "four\n");
    assert_eq!(body(&prompt, "a.md#L4-L99"), "four\n");
    assert_eq!(report["excluded"], json!([]));
}

#[test]
fn patterns_and_directories_stand_for_files_that_are_not_ignored() {
    Project::new()
        .file(".gitignore", "target/\n*.log\n")
        .file("src/b.rs", "b\n")
        .file("src/a.rs", "a\n")
        .file("src/deep/c.rs", "c\n")
        .file("src/notes.txt", "n\n")
        .file("src/run.log", "ignored\n")
        .file("target/x.rs", "ignored\n")
        .file("src/.hidden.rs", "hidden\n")
        .file("docs/guide.md", "g\n")
        .entries("src/**/*.rs 0.9\ndocs 0.8\nnone/*.md 0.6")
        .check_fates(
            "
            keep src/a.rs fits
            keep src/b.rs fits
            keep src/deep/c.rs fits
            keep docs/guide.md fits
            out  none/*.md no_match: the pattern matches no file
            ",
        );
}

#[test]
fn a_pattern_whose_files_all_stand_elsewhere_is_not_said_to_match_nothing() {
    let project = Project::new()
        .file("src/a.rs", "a\n")
        .entries("src/a.rs 0.9\nsrc/*.rs 0.5\nsrc 0.4");
    let (_, report) = project.assemble(&[]);
    for id in ["src/*.rs", "src"] {
        let row = row(&report, id);
        assert_eq!(row["code"], "duplicate", "{row}");
    }
}

#[test]
fn one_star_does_not_cross_directories() {
    Project::new()
        .file("src/a.rs", "a\n")
        .file("src/deep/c.rs", "c\n")
        .entries("src/*.rs 0.9")
        .check_fates("keep src/a.rs fits\n");
}

#[test]
fn a_file_that_is_named_like_a_pattern_can_be_named() {
    Project::new()
        .file("pages/[id].tsx", "export default Page\n")
        .entries("pages/[id].tsx 0.9")
        .check_fates("keep pages/[id].tsx fits\n");
}

/// Checks what `max_lines: 5` leaves with `strategy`: the numbers of the lines
/// before and behind the marker, and what the marker says.
#[track_caller]
fn check_max_lines(strategy: &str, before: &[usize], marker: &str, behind: &[usize]) {
    let project = Project::new()
        .file("story.txt", hundred())
        .manifest(&format!(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 10000
            files:
              - path: story.txt
                priority: 0.5
                max_lines: 5
                truncate_strategy: {strategy}
            "
        ));
    let (prompt, report) = project.assemble(&[]);
    let lines: Vec<&str> = body(&prompt, "story.txt").lines().collect();
    let line = |n: &usize| format!("line {n} of the story");
    let at = lines
        .iter()
        .position(|line| line.starts_with("[... "))
        .unwrap();
    assert_eq!(lines[..at], before.iter().map(line).collect::<Vec<_>>());
    assert_eq!(lines[at + 1..], behind.iter().map(line).collect::<Vec<_>>());
    let said = lines[at];
    assert!(
        said.starts_with(&format!("[... {marker} of story.txt cut, ")),
        "{said}"
    );
    assert!(said.ends_with(" tokens ...]"), "{said}");
    assert_eq!(row(&report, "story.txt")["code"], "line_limit");
}

#[test]
fn max_lines_keeps_what_the_strategy_keeps() {
    check_max_lines("start", &[], "lines 1-95", &[96, 97, 98, 99, 100]);
    check_max_lines("middle", &[1, 2, 3], "lines 4-98", &[99, 100]);
    check_max_lines("end", &[1, 2, 3, 4, 5], "lines 6-100", &[]);
    check_max_lines("never", &[1, 2, 3, 4, 5], "lines 6-100", &[]);
}

/// Checks that a cut for want of tokens keeps the given ends of a file, loses
/// exactly the lines that its marker and the report name, and uses its room.
#[track_caller]
fn check_cut(strategy: &str, keeps_first: bool, keeps_last: bool) {
    let project = Project::new()
        .file("story.txt", hundred())
        .file("small.md", "small\n")
        .entries(&format!(
            "story.txt 0.9 truncate_strategy={strategy}\nsmall.md 0.1"
        ));
    let (prompt, report) = project.assemble(&["--max-tokens", "400"]);
    let row = row(&report, "story.txt");
    assert_eq!(row["code"], "cut");
    let (first, last) = (&row["lines_cut"]["first"], &row["lines_cut"]["last"]);
    let gone = first.as_u64().unwrap()..=last.as_u64().unwrap();
    assert_eq!(gone.contains(&1), !keeps_first);
    assert_eq!(gone.contains(&100), !keeps_last);
    let marker = format!("[... lines {first}-{last} of story.txt cut, ");
    let mut expected: Vec<String> = Vec::new();
    for n in 1..=100 {
        if !gone.contains(&n) {
            expected.push(format!("line {n} of the story"));
        } else if n == *gone.start() {
            expected.push(marker.clone());
        }
    }
    let shown: Vec<&str> = body(&prompt, "story.txt").lines().collect();
    assert_eq!(shown.len(), expected.len());
    for (shown, expected) in shown.iter().zip(&expected) {
        assert!(
            shown.starts_with(expected.as_str()),
            "{shown} is not {expected}"
        );
    }
    let used = report["budget"]["used"].as_u64().unwrap();
    assert!((360..=400).contains(&used), "{used} of 400");
}

#[test]
fn a_cut_at_the_start_keeps_the_end() {
    check_cut("start", false, true);
}

#[test]
fn a_cut_in_the_middle_keeps_both_ends() {
    check_cut("middle", true, true);
}

#[test]
fn a_cut_at_the_end_keeps_the_start() {
    check_cut("end", true, false);
}

#[test]
fn what_is_never_cut_makes_room_for_smaller_files_behind_it() {
    let project = Project::new()
        .file("story.txt", hundred())
        .file("small.md", "small\n")
        .entries("story.txt 0.9 truncate_strategy=never\nsmall.md 0.1");
    let (prompt, report) = project.assemble(&["--max-tokens", "300"]);
    assert_eq!(body(&prompt, "small.md"), "small\n");
    let row = row(&report, "story.txt");
    assert!(row["tokens"].as_u64().unwrap() > 300);
    assert!(text(&row["reason"]).contains(" more"), "{row}");
}

#[test]
fn an_effective_budget_that_disagrees_is_a_warning_and_the_smaller_is_used() {
    for (stated, used) in [(500, 500), (900, 800)] {
        let project = Project::new().file("a.md", "alpha\n").manifest(&format!(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget:
              max_tokens: 1000
              reserved_for_response: 200
              effective: {stated}
            files:
              - path: a.md
                priority: 0.5
            "
        ));
        let (_, report) = project.assemble(&[]);
        assert_eq!(report["budget"]["effective"], used);
        let said = format!(
            "working-set.yml:5: budget.effective says {stated}, but 1000 less 200 is 800; {used} is used"
        );
        assert!(warnings(&report).contains(&said), "{:?}", warnings(&report));
    }
}

#[test]
fn an_effective_budget_below_does_not_ask_for_a_longer_answer() {
    // What the manifest takes away from the prompt is not given to the answer.
    let project = Project::new().file("a.md", "alpha\n").manifest(
        "
        protocol: CONTEXT-ASSEMBLY/0.1
        budget:
          max_tokens: 1000
          reserved_for_response: 200
          effective: 500
        files:
          - path: a.md
            priority: 0.5
        ",
    );
    let value = parsed(&project.ok(&["assemble", "--format", "openai-chat"]));
    assert_eq!(value["max_completion_tokens"], 200);
}

#[test]
fn the_older_flat_budget_is_read() {
    let project = Project::new().file("a.md", "alpha\n").manifest(
        "
        context_budget_tokens: 700
        files:
          - path: a.md
            priority: 0.5
        ",
    );
    let (_, report) = project.assemble(&[]);
    assert_eq!(report["budget"]["max"], 700);
    assert_eq!(
        warnings(&report)[0],
        "working-set.yml: `protocol` is missing, `CONTEXT-ASSEMBLY/0.1` assumed"
    );
}

#[test]
fn a_field_nobody_knows_is_a_warning_with_its_line() {
    let project = Project::new().file("a.md", "alpha\n").manifest(
        "
        protocol: CONTEXT-ASSEMBLY/0.1
        colour: red
        budget:
          max_tokens: 1000
          spare: 5
        files:
          - path: a.md
            priority: 0.5
            weight: 3
        metadata:
          skill: mending
          notes: [free, text]
          mood: good
        ",
    );
    let run = project.run(&["assemble"]);
    run.expect_code(0);
    for said in [
        "warning: working-set.yml:2: unknown field `colour` is ignored",
        "warning: working-set.yml:5: unknown field `budget.spare` is ignored",
        "warning: working-set.yml:9: unknown field `files[0].weight` is ignored",
        "warning: working-set.yml:13: unknown field `metadata.mood` is ignored",
    ] {
        run.says(said);
    }
}

#[test]
fn a_window_larger_than_the_models_is_the_models() {
    let (_, report) = roles().assemble(&["--model", "gpt-4", "--max-tokens", "100_000"]);
    assert_eq!(report["budget"]["max"], 8192);
    assert!(warnings(&report).contains(
        &"100000 tokens are more than the 8192 that gpt-4 takes; 8192 are used".to_owned()
    ));
}

#[test]
fn settings_give_model_and_recipe() {
    let project = roles()
        .file(
            "contexture.toml",
            "model = \"mine\"\nrecipe = \"mine.yml\"\n\
             [models.mine]\nwindow = 600\ntokenizer = \"cl100k_base\"\nprovider = \"anthropic\"\n",
        )
        .file(
            "mine.yml",
            "recipe: mine\nlayers:\n  - {layer: files, source: working-set, share: 100, order: stable}\n",
        );
    let (prompt, report) = project.assemble(&[]);
    assert_eq!(report["model"], "mine");
    assert_eq!(report["recipe"], "mine");
    assert_eq!(report["tokenizer"]["name"], "cl100k_base");
    assert_eq!(report["budget"]["max"], 600);
    // The manifest's order, and no boot header: the recipe names none.
    assert!(
        prompt.starts_with("<context path=\"main.rs\">\n"),
        "{prompt}"
    );
}

#[test]
fn settings_name_a_recipe_below_their_own_directory() {
    let project = roles()
        .file("contexture.toml", "recipe = \"mine.yml\"\n")
        .file(
            "mine.yml",
            "recipe: mine\nlayers:\n  - {layer: files, source: working-set, share: 100}\n",
        );
    let elsewhere = Project::new();
    let root = project.path("");
    elsewhere.ok(&["assemble", root.to_str().unwrap()]);
}

#[test]
fn a_line_limit_is_not_called_a_cut_for_want_of_tokens() {
    let lines: String = (1..=500)
        .map(|n| format!("line {n} of the log\n"))
        .collect();
    let project = Project::new()
        .file("s.log", lines)
        .entries("s.log 0.5 truncate_strategy=start max_lines=20");
    let (_, report) = project.assemble(&["--max-tokens", "700"]);
    assert_eq!(row(&report, "s.log")["code"], "line_limit");
    assert!(
        !warnings(&report)
            .iter()
            .any(|w| w.contains("less than half"))
    );
}

#[test]
fn what_the_guard_changed_in_lines_that_went_is_not_reported() {
    let secret = ["AKIA", "ZQ3DMVNXJ7R2LKPA"].concat();
    let lines: String = (2..=50).map(|n| format!("line {n}\n")).collect();
    let project = Project::new()
        .file("s.log", format!("key {secret}\n{lines}key {secret}\n"))
        .entries("s.log 0.5 truncate_strategy=start max_lines=5");
    let (_, report) = project.assemble(&[]);
    let guard = report["guard"].as_array().unwrap();
    assert_eq!(guard.len(), 1, "{guard:?}");
    assert_eq!(guard[0]["line"], 51);
}

#[test]
fn a_range_of_a_file_with_windows_line_ends_is_clean() {
    let project = Project::new()
        .file("a.txt", "one\r\ntwo\r\nthree\r\n")
        .entries("a.txt#L1-L2 0.5");
    let (prompt, _) = project.assemble(&[]);
    assert_eq!(body(&prompt, "a.txt#L1-L2"), "one\r\ntwo\n");
}
