//! The other commands.

use super::*;

#[test]
fn tokens_are_counted() {
    let project = roles().file("long.md", hundred());
    let expected = bpe_openai::o200k_base().count(&hundred());
    let total = expected + 3;
    let run = project.run(&["tokens", "long.md", "rules.md"]);
    run.expect_code(0);
    assert_eq!(
        run.out,
        format!(
            "{expected:>12}  long.md\n{:>12}  rules.md\n{total:>12}  total\n",
            3
        )
    );
    run.says(&format!(
        "o200k_base for gpt-5.6, exact; {:.1} % of its window of 922,000",
        total as f64 / 9220.0
    ));
    let value = parsed(&project.ok(&["tokens", "long.md", "--json"]));
    assert_eq!(
        value,
        json!({
            "model": "gpt-5.6",
            "tokenizer": {"name": "o200k_base", "exact": true},
            "files": [{"path": "long.md", "tokens": expected, "bytes": hundred().len()}],
            "total": expected,
        })
    );
    let run = project.run_with(&["tokens", "-", "--tokenizer", "cl100k_base"], &hundred());
    run.expect_code(0);
    let expected = bpe_openai::cl100k_base().count(&hundred());
    assert_eq!(run.out, format!("{expected:>12}  standard input\n"));
}

#[test]
fn an_estimate_is_labelled_as_one() {
    let project = roles();
    let value = parsed(&project.ok(&["tokens", "main.rs", "--model", "claude-sonnet-4", "--json"]));
    assert_eq!(value["tokenizer"]["exact"], false);
    let (_, report) = project.assemble(&["--model", "claude-sonnet-4"]);
    assert_eq!(report["tokenizer"]["exact"], false);
}

#[test]
fn sources_are_listed_with_their_parameters() {
    let project = Project::new();
    let listed = project.ok(&["recipe", "sources"]);
    let files = listed.lines().find(|line| line.starts_with(" files "));
    let files: Vec<&str> = files.unwrap().split_whitespace().take(5).collect();
    assert_eq!(files, ["files", "paths", "list", "of", "texts"]);
    let sources = parsed(&project.ok(&["recipe", "sources", "--json"]));
    let sources = sources.as_array().unwrap();
    let tasks = sources.iter().find(|one| one["source"] == "tasks").unwrap();
    assert_eq!(
        tasks["with"]["properties"]["part"]["enum"],
        json!(["root", "path", "results"])
    );
}

#[test]
fn a_recipe_has_layers_of_any_name_inside_each_other() {
    let recipe = "recipe: two\nlayers:\n  - layer: both\n    share: 100\n    layers:\n      \
                  - {layer: first, source: files, with: {paths: [a.md]}, share: 50}\n      \
                  - {layer: second, source: files, with: {paths: [b.md]}, share: 50}\n";
    let project = Project::new()
        .file("two.yml", recipe)
        .file("a.md", "The first of two.\n")
        .file("b.md", "The second of two.\n");
    assert_eq!(
        project.ok(&["recipe", "check", "two.yml"]),
        "two.yml: recipe `two` is valid: both (first, second)\n"
    );
    let (prompt, report) = project.assemble(&["--recipe", "two.yml", "--max-tokens", "500"]);
    assert!(prompt.contains("The first of two."), "{prompt}");
    assert!(prompt.contains("The second of two."), "{prompt}");
    let rows = report["included"].as_array().unwrap();
    let layers: Vec<&str> = rows.iter().map(|row| text(&row["layer"])).collect();
    assert_eq!(layers, ["first", "second"]);
}

#[test]
fn recipes_are_listed_shown_and_checked() {
    let project = Project::new();
    assert!(project.ok(&["recipe", "list"]).starts_with("working-set "));
    assert_eq!(
        parsed(&project.ok(&["recipe", "list", "--json"]))[0]["name"],
        "working-set"
    );
    let shown = project.ok(&["recipe", "show", "working-set"]);
    project.write("mine.yml", &shown);
    assert_eq!(
        project.ok(&["recipe", "check", "mine.yml"]),
        "mine.yml: recipe `working-set` is valid: workspace, files, event\n"
    );
    assert_eq!(project.ok(&["recipe", "show", "mine.yml"]), shown);
    let project = roles().file("mine.yml", shown);
    let args = ["assemble", "--now", NOW];
    assert_eq!(
        project.ok(&[&args[..], &["--recipe", "mine.yml"]].concat()),
        project.ok(&args)
    );
}

#[test]
fn the_doctor_finds_a_good_project_good() {
    let run = roles().run(&["doctor"]);
    run.expect_code(0);
    assert!(!run.out.contains("bad "), "{}", run.out);
    assert!(
        run.out
            .contains("ok   working set  working-set.yml: 4 entries, 4 files\n"),
        "{}",
        run.out
    );
    assert!(!run.out.contains("limits.max_entries"), "{}", run.out);
    assert!(
        run.out.ends_with(" checks: 0 problems, 0 notes\n"),
        "{}",
        run.out
    );
    let value = parsed(&roles().ok(&["doctor", "--json"]));
    let states: Vec<&str> = value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| text(&check["state"]))
        .collect();
    assert!(states.iter().all(|state| *state == "ok"), "{states:?}");
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_bad_project() {
    let project = roles()
        .file("contexture.toml", "modle = 1\n")
        .file("hot.yml", "keep: 5\n")
        .entries("main.rs 2");
    let run = project.run(&["doctor"]);
    run.expect_code(2);
    assert!(
        run.out
            .contains("bad  settings     contexture.toml:1:1: unknown field `modle`"),
        "{}",
        run.out
    );
    assert!(
        run.out.contains(
            "bad  working set  working-set.yml:6:15: files[0].priority: must be a number from 0 to 1, not `2`\n"
        ),
        "{}",
        run.out
    );
    assert_eq!(
        run.err,
        "error: one or more checks failed; see the lines marked `bad`\n"
    );
    // Passed checks come first, problems last, and then the summary.
    let words: Vec<&str> = (run.out.lines())
        .filter_map(|line| line.split(' ').next())
        .filter(|word| ["ok", "note", "bad"].contains(word))
        .collect();
    let mut sorted = words.clone();
    sorted.sort_by_key(|word| ["ok", "note", "bad"].iter().position(|one| one == word));
    assert_eq!(words, sorted);
    let last = run.out.lines().last().unwrap();
    assert!(
        last.contains(" checks: ") && last.contains(" problem"),
        "{last}"
    );
}

#[test]
fn the_doctor_says_where_each_setting_comes_from() {
    let project = roles().file(
        "contexture.toml",
        "# mine\n[limits]\nmax_entries = 20\n[server]\naddr = \"127.0.0.1:9000\"\n",
    );
    let mut command = project.command("doctor --all");
    command.env("CONTEXTURE_SERVER_MAX_CONCURRENT", "7");
    let run = crate::support::run(command, "");
    run.expect_code(0);
    for line in [
        "  limits.max_entries = 20  (contexture.toml:3)",
        "  server.addr = \"127.0.0.1:9000\"  (contexture.toml:5)",
        "  server.max_concurrent = 7  (environment, CONTEXTURE_SERVER_MAX_CONCURRENT)",
        "  recipe = \"working-set\"  (default)",
    ] {
        assert!(
            run.out.lines().any(|found| found == line),
            "{line}\n{}",
            run.out
        );
    }
}

#[cfg(unix)]
#[test]
fn the_doctor_names_the_files_that_cannot_be_used() {
    let project = roles().entries("gone.md 0.5\nctl 0.5\nbig.md 0.5");
    let _listener = std::os::unix::net::UnixListener::bind(project.path("ctl")).unwrap();
    std::fs::File::create(project.path("big.md"))
        .unwrap()
        .set_len(5 << 30)
        .unwrap();
    let out = project.ok(&["doctor"]);
    for (line, name) in [(5, "gone.md"), (7, "ctl"), (9, "big.md")] {
        let note = format!("note working set  working-set.yml:{line}: ");
        let found = out.lines().find(|said| said.starts_with(&note));
        assert!(
            found.is_some_and(|said| said.contains(name)),
            "{name}\n{out}"
        );
    }
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Project::new().ok(&["completions", shell]);
        assert!(
            script.contains("contexture") && script.contains("working-set"),
            "{shell}"
        );
    }
}

#[test]
fn the_script_for_bash_completes_names_in_a_plain_bash() {
    let project = Project::new();
    let script = project.ok(&["completions", "bash"]);
    project.write("complete.bash", &script);
    let test = "source complete.bash && COMP_WORDS=(contexture session show '') && COMP_CWORD=3 \
                && contexture() { echo harbour; } && _contexture_names && echo \"${COMPREPLY[@]}\"";
    let shell = std::process::Command::new("bash")
        .args(["--norc", "--noprofile", "-c", test])
        .current_dir(project.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&shell.stderr);
    assert_eq!(
        String::from_utf8_lossy(&shell.stdout),
        "harbour\n",
        "{said}"
    );
}

#[test]
fn every_command_has_help_with_an_example() {
    let project = Project::new();
    for command in [
        "init",
        "assemble",
        "working-set",
        "tokens",
        "recipe",
        "doctor",
        "completions",
    ] {
        let help = project.ok(&[command, "--help"]);
        assert!(help.contains(&format!("contexture {command}")), "{command}");
        assert!(help.contains("Examples:"), "{command}");
    }
    assert!(project.ok(&["--version"]).starts_with("contexture "));
}
