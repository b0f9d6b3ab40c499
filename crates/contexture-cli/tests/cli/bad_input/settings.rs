//! Recipes, settings, models.

use super::*;

#[test]
fn an_unknown_recipe_suggests_the_nearest() {
    small().refuses(
        &["assemble", "--recipe", "working-sets"],
        2,
        "
        error: unknown recipe `working-sets`; did you mean `working-set`? (one of broker, \
        fit, inline, loom-buffer, loom-dialogue, memory, task-stack, working-set)
        hint: name a built-in recipe, or a recipe file
        ",
    );
    small().refuses(
        &["assemble", "--recipe", "mine.yml"],
        2,
        "error: cannot read recipe mine.yml: No such file or directory (os error 2)\n",
    );
}

#[test]
fn an_invalid_recipe_is_reported_by_check_and_by_assemble() {
    let project = small().file("mine.yml", "recipe: mine\n");
    let message = "error: mine.yml:1:1: layers: a recipe needs at least one layer\n";
    project.refuses(&["recipe", "check", "mine.yml"], 2, message);
    project.refuses(&["assemble", "--recipe", "mine.yml"], 2, message);
    for (layer, message) in [
        (
            "{layer: a, source: fiels}",
            "layers[0].source: unknown source `fiels`; did you mean `files`? ",
        ),
        (
            "{layer: a, source: files, with: {path: x.md}}",
            "layers[0].with.path: unknown parameter `path`; did you mean `paths`? ",
        ),
        (
            "{layer: a, source: files, with: {paths: x.md}}",
            "layers[0].with.paths: must be a list of strings, not \"x.md\"",
        ),
        (
            "{layer: a, source: history, with: {session: $sesion}}",
            "layers[0].with.session: unknown field of the request `sesion`; did you mean `session`? ",
        ),
        (
            "{layer: a, source: loom-path}",
            "layers[0].source: `loom-path` was removed in recipe grammar 2; write {source: loom, ",
        ),
    ] {
        project.write("mine.yml", format!("recipe: mine\nlayers:\n  - {layer}\n"));
        for call in [
            ["recipe", "check", "mine.yml"],
            ["assemble", "--recipe", "mine.yml"],
        ] {
            let run = project.run(&call);
            run.expect_code(2);
            assert!(run.err.starts_with("error: mine.yml:3:"), "{}", run.err);
            assert!(run.err.contains(message), "{layer}: {}", run.err);
        }
    }
}

#[test]
fn settings_with_an_unknown_key() {
    small().file("contexture.toml", "# mine\nmodle = \"gpt-4o\"\n").refuses(
        &["assemble"],
        2,
        "
        error: contexture.toml:2:1: unknown field `modle`, expected one of `recipe`, `model`, `reserve_response`, `models`, `limits`, `secrets`, `boot`, `observe`, `workspace`, `persona`, `environment`, `runtime`, `tools`, `toolsets`, `permissions`, `tool_results`, `compaction`, `summariser`, `loom`, `memory`, `store`, `snapshots`, `retention`, `server`
        hint: `contexture doctor --all` prints the settings and their defaults
        ",
    );
}

#[test]
fn a_setting_below_a_table_that_belongs_above_it() {
    let project = small().file("contexture.toml", "[limits]\nmodel = \"gpt-4o\"\n");
    let run = project.run(&["assemble"]);
    run.expect_code(2);
    run.says("hint: `model` must be above the first [table]");
}

#[test]
fn settings_of_a_wrong_type_are_reported_in_plain_words() {
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
        "working-set add b.md --priority 0.5 --why x",
        2,
        "
        error: contexture.toml:1:8: unclosed table, expected `]`
        hint: `contexture doctor --all` prints the settings and their defaults
        ",
    );
}

#[test]
fn settings_linked_from_outside_the_root_are_an_error() {
    let outside = Project::new().file("contexture.toml", "[secrets]\nmask = false\n");
    let project = small().link("contexture.toml", outside.path("contexture.toml"));
    let run = project.run(&["assemble"]);
    assert!(run.err.contains("contexture.toml"), "{run:?}");
    assert!(run.err.contains("leaves the root"), "{run:?}");
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
            hint: or give the path of a tokenizer.json
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
        "warning: model `my-model` is not in the model table: assuming a window of 128000 tokens; \
         add `[models.\"my-model\"]` with `window = …` to contexture.toml; or \
         `contexture models update FILE` replaces the model table",
    );
    let run = project.run(&["tokens", "a.md", "--model", "my-model"]);
    run.expect_code(0);
    run.says("warning: model `my-model` is not in the model table; using an estimate");
}

#[test]
fn a_session_that_the_recipe_does_not_show_is_a_warning() {
    let run = small().run(&["assemble", "--session", "chat"]);
    run.expect_code(0);
    run.says(
        "warning: recipe `working-set` has no layer for history: the request has no turns of \
         session `chat`; set --recipe",
    );
}

#[test]
fn a_reserve_that_the_manifest_overrules_is_a_warning() {
    let manifest = "budget:\n  max_tokens: 2000\n  reserved_for_response: 200\n\
                    files:\n  - path: a.md\n    priority: 1\n";
    let project = small()
        .file("working-set.yml", manifest)
        .file("contexture.toml", "reserve_response = 300\n");
    let told = "warning: `reserve_response = 300` in contexture.toml has no effect: the working \
                set reserves 200 tokens for the response; set --reserve-response";
    let run = project.run(&["assemble"]);
    run.says(told);
    let run = project.run(&["assemble", "--reserve-response", "300"]);
    assert!(!run.err.contains(told), "{}", run.err);
}

#[test]
fn a_configured_reserve_holds_where_the_manifest_says_nothing() {
    let project = small().file("contexture.toml", "reserve_response = 300\n");
    let run = project.run(&["assemble", "--explain"]);
    run.expect_code(0);
    assert!(run.err.contains(" 300 reserved;"), "{}", run.err);
}

#[test]
fn a_key_that_is_given_twice_is_named() {
    small()
        .file("contexture.toml", "model = \"a\"\nmodel = \"b\"\n")
        .refuses(
            &["assemble"],
            2,
            "
            error: contexture.toml:2:1: the key `model` is given twice
            hint: `contexture doctor --all` prints the settings and their defaults
            ",
        );
}

#[test]
fn tokens_of_what_cannot_be_read() {
    let project = small().file("latin1.txt", b"caf\xE9\n");
    // The other files are still counted.
    let run = project.run(&["tokens", "a.md", "nowhere.md"]);
    run.expect_code(2);
    assert_eq!(run.out, "           2  a.md\n");
    run.says("error: cannot read nowhere.md: No such file or directory (os error 2)");
    run.says("error: 1 file was not counted");
    project.refuses(
        &["tokens", "nowhere.md"],
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
        "error: unknown tokenizer `nope`; expected o200k_base, cl100k_base, estimate or a .json \
         file\n",
    );
    project.refuses(
        &["tokens", "a.md", "--tokenizer", "a.json"],
        2,
        "error: cannot read tokenizer a.json: No such file or directory (os error 2)\n",
    );
}
