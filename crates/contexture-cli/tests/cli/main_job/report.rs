//! `assemble`: the report.

use super::*;

#[test]
fn the_report_is_yaml_unless_asked_otherwise() {
    let project = roles();
    let quiet = project.ok(&["assemble", "--now", NOW]);
    assert_eq!(
        project.ok(&["assemble", "--now", NOW, "--report", "report.yml"]),
        quiet
    );
    let report = project.read("report.yml");
    assert!(
        report.starts_with("assembly_report:\n  recipe: working-set\n"),
        "{report}"
    );
    assert_eq!(report.matches("path: main.rs\n").count(), 1);
    project.ok("assemble --report report.json --report-format json");
    assert_eq!(
        parsed(&project.read("report.json"))["assembly_report"]["recipe"],
        "working-set"
    );
}

#[test]
fn the_report_on_standard_output_follows_the_prompt() {
    let project = roles();
    let quiet = project.ok(&["assemble", "--now", NOW]);
    let both = project.ok(&["assemble", "--now", NOW, "--report", "-"]);
    let report = both.strip_prefix(&quiet).unwrap();
    assert!(report.starts_with("---\nassembly_report:\n"), "{report}");
}

#[test]
fn an_explanation_is_on_standard_error_only() {
    let project = roles().entries("main.rs 0.8\nmissing.md 0.4");
    let quiet = project.ok(&["assemble", "--now", NOW]);
    let run = project.run(&["assemble", "--now", NOW, "--explain"]);
    run.expect_code(0);
    assert_eq!(run.out, quiet);
    let line = |word: &str, file: &str| {
        run.err.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(word) && words.next() == Some(file)
        })
    };
    assert!(line("kept", "main.rs"), "{}", run.err);
    assert!(line("out", "missing.md"), "{}", run.err);
    assert!(
        run.err.contains("file `missing.md` does not exist"),
        "{}",
        run.err
    );
    assert!(run.err.contains(" of 1,000 tokens used, "), "{}", run.err);
    assert!(!run.err.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn a_misspelt_field_of_a_hint_is_a_warning() {
    let project = Project::new()
        .file("a.md", "alpha\n")
        .file("hot.yml", "keep:\n  - path: a.md\n    toches: 5\n")
        .entries("a.md 0.5");
    let run = project.run(&["assemble"]);
    run.expect_code(0);
    run.says("warning: hot.yml:3: unknown field `keep[0].toches` is ignored");
}
