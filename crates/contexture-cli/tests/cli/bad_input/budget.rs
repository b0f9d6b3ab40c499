//! The budget.

use super::*;

#[test]
fn a_budget_of_nothing() {
    small().refuses(
        &["assemble", "--max-tokens", "0"],
        2,
        "
        error: the budget is 0 tokens
        hint: raise --max-tokens
        ",
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
            hint: add it to the manifest; or set --max-tokens; or set --model
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
    run.says(
        "hint: raise --max-tokens; or use a model with a larger window, or unpin the largest items",
    );
    assert_eq!(
        project.names(),
        ["a.md", "b.md", "rules.md", "working-set.yml"]
    );
}

#[test]
fn reserves_that_leave_nothing() {
    let project = small();
    project.refuses(
        "assemble --reserve-response 18446744073709551615 --reserve-tools 5",
        2,
        "
        error: 18,446,744,073,709,551,615 tokens are reserved for the response, but the window has 1,000 tokens
        hint: raise --max-tokens; or lower --reserve-response
        ",
    );
}

#[test]
fn an_empty_event_is_rejected() {
    small().refuses(
        &["assemble", "--event", "  "],
        2,
        "error: the event is empty; give text with --event, or a file with --event-file\n",
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
        "error: the request has no message: add a file with the role user or context, or an \
         event (anthropic.messages_not_empty)\n"
    );
}
