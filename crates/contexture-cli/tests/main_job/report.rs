//! `assemble`: the report.

use super::*;

#[test]
fn the_report_accounts_for_every_candidate_exactly_once() {
    let project = roles()
        .file("src/one.rs", "// one\n")
        .file("src/two.rs", "// two\n")
        .entries(
            "
            rules.md   1.0 role=system truncate_strategy=never
            main.rs    0.8
            src/*.rs   0.7
            src/two.rs 0.6
            missing.md 0.4
            ",
        );
    let (_, report) = project.assemble(&["--event", "Go"]);
    assert_eq!(
        fates(&report),
        dedent(
            "
            keep rules.md pinned
            keep main.rs fits
            keep src/one.rs fits
            keep src/two.rs fits
            keep event pinned
            out  missing.md missing: there is no file `missing.md`
            "
        )
    );
}

#[test]
fn the_report_has_the_fields_it_is_documented_with() {
    let project = roles()
        .file("long.md", "a long story\n".repeat(900))
        .entries(
            "
        rules.md   1.0 role=system truncate_strategy=never
        long.md    0.9
        missing.md 0.4
        ",
        );
    let (_, report) = project.assemble(&["--reserve-response", "100", "--reserve-tools", "50"]);
    for key in [
        "recipe",
        "model",
        "tokenizer",
        "budget",
        "included",
        "excluded",
        "warnings",
        "guard",
        "timings_ms",
    ] {
        assert!(!report[key].is_null(), "{key}");
    }
    assert_eq!(report["recipe"], "working-set");
    assert_eq!(
        report["tokenizer"],
        json!({"name": "o200k_base", "exact": true})
    );
    let budget = &report["budget"];
    let number = |key: &str| {
        budget[key]
            .as_u64()
            .unwrap_or_else(|| panic!("{key}: {budget}"))
    };
    assert_eq!(number("max"), 1000);
    assert_eq!(number("reserved"), 150);
    assert_eq!(number("effective"), 850);
    assert_eq!(number("remaining"), 1000 - number("used"));
    assert_eq!(number("available"), 850 - number("used"));
    let layers = budget["layers"].as_object().unwrap();
    assert_eq!(
        layers.keys().collect::<Vec<_>>(),
        ["workspace", "files", "event"]
    );
    let by_layer: u64 = layers
        .values()
        .map(|layer| layer["used"].as_u64().unwrap())
        .sum();
    assert_eq!(by_layer, number("used"));
    for row in report["included"].as_array().unwrap() {
        for key in [
            "id",
            "layer",
            "role",
            "tokens",
            "truncated",
            "original_tokens",
            "priority",
            "code",
            "reason",
        ] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
    }
    for row in report["excluded"].as_array().unwrap() {
        for key in ["path", "id", "layer", "tokens", "reason", "code"] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
    }
    let cut = row(&report, "long.md");
    assert_eq!(cut["truncated"], true);
    assert!(cut["lines_cut"]["first"].as_u64() < cut["lines_cut"]["last"].as_u64());
    assert!(cut["tokens"].as_u64() < cut["original_tokens"].as_u64());
}

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
    project.ok(&[
        "assemble",
        "--report",
        "report.json",
        "--report-format",
        "json",
    ]);
    assert_eq!(
        parsed(&project.read("report.json"))["assembly_report"]["recipe"],
        "working-set"
    );
}

#[test]
fn the_report_on_standard_output_stands_behind_the_prompt() {
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
        run.err.contains("there is no file `missing.md`"),
        "{}",
        run.err
    );
    assert!(run.err.contains(" of 1,000 tokens used, "), "{}", run.err);
    assert!(!run.err.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn the_count_of_the_report_is_never_below_that_of_the_prompt() {
    let story = "The quick brown fox, 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 and 日本語; let x = 0x1F;\n".repeat(200);
    let project = roles().file("long.md", story).entries(
        "
        rules.md    1.0 role=system truncate_strategy=never
        task.md     0.95 role=developer
        long.md     0.9 truncate_strategy=middle
        main.rs     0.8
        question.md 0.3 role=user
        ",
    );
    for max in ["150", "300", "500", "1000"] {
        let (prompt, report) = project.assemble(&["--max-tokens", max, "--event", "Go on"]);
        let counted = bpe_openai::o200k_base().count(&prompt) as u64;
        let used = report["budget"]["used"].as_u64().unwrap();
        assert!(counted <= used, "{counted} counted, {used} reported");
        assert!(used <= max.parse().unwrap(), "{used} of {max}");
    }
}
