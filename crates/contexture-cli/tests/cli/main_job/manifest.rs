//! `assemble`: the manifest.

use super::*;

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
        let (_, other) = project.assemble(&["--max-tokens", "400"]);
        assert_eq!(other["budget"]["effective"], 200);
        // Tokens that the manifest removes from the prompt are not added to the
        // response.
        let value = parsed(&project.ok(&["assemble", "--format", "openai-chat"]));
        assert_eq!(value["max_completion_tokens"], 200);
        let said = format!(
            "working-set.yml:5: budget.effective is {stated}, but 1000 minus 200 is 800; using \
             {used}"
        );
        assert!(warnings(&report).contains(&said), "{:?}", warnings(&report));
    }
}

#[test]
fn a_window_larger_than_the_models_is_the_models() {
    let (_, report) = roles().assemble(&["--model", "gpt-4", "--max-tokens", "100_000"]);
    assert_eq!(report["budget"]["max"], 8192);
    assert!(
        warnings(&report)
            .contains(&"100,000 tokens are more than the window of gpt-4: using 8,192".to_owned())
    );
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
fn guard_findings_in_cut_lines_are_not_reported() {
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
fn patterns_skip_what_the_manifest_excludes() {
    let project = Project::new()
        .file("src/a.js", "a\n")
        .file("src/a.min.js", "b\n")
        .file("src/vendor/lib.js", "c\n")
        .file("src/vendor/own.js", "d\n")
        .file("vendor.js", "e\n")
        .manifest(
            "
            protocol: CONTEXT-ASSEMBLY/0.1
            budget: {max_tokens: 1000}
            exclude: [\"*.min.js\", src/vendor/]
            files:
              - {path: src, priority: 0.5}
              - {path: \"*.js\", priority: 0.4}
              # A file that is named is included.
              - {path: src/vendor/own.js, priority: 0.3}
            ",
        );
    project.check_fates(
        "
        keep src/a.js fits
        keep vendor.js fits
        keep src/vendor/own.js fits
        ",
    );
}

#[test]
fn a_limit_on_tokens_holds_for_each_file() {
    let lines: String = (1..=300)
        .map(|n| format!("line {n} of the log\n"))
        .collect();
    let project = Project::new()
        .file("logs/a.log", &lines)
        .file("logs/b.log", &lines)
        .file("logs/c.log", "short\n")
        .entries("logs 0.5 truncate_strategy=start max_tokens=200");
    let (prompt, report) = project.assemble(&[]);
    for id in ["logs/a.log", "logs/b.log"] {
        let row = row(&report, id);
        assert_eq!(row["code"], "token_limit");
        let tokens = row["tokens"].as_u64().unwrap();
        assert!((150..=200).contains(&tokens), "{tokens}");
        assert!(
            text(&row["reason"]).starts_with("cut to max_tokens 200"),
            "{row}"
        );
    }
    assert_eq!(row(&report, "logs/c.log")["code"], "fits");
    assert!(prompt.contains("line 300 of the log"));
    assert_eq!(warnings(&report), Vec::<String>::new());
}
