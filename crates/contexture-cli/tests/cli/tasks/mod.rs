//! The task stack: tasks are pushed, popped, drawn, and made into requests.

use crate::support::{NOW, Project, Run, dedent, warnings};
use serde_json::{Value, json};

/// Runs a call at the tests' moment.
fn call(project: &Project, args: &[&str]) -> Run {
    project.run_now(args)
}

/// Runs `task` with arguments, which must succeed, and returns what it prints.
#[track_caller]
fn task(project: &Project, args: &[&str]) -> String {
    let mut all = vec!["task"];
    all.extend(args);
    let run = call(project, &all);
    run.expect_code(0);
    assert_eq!(run.err, "");
    run.out
}

#[track_caller]
fn refuses(project: &Project, args: &[&str], message: &str) {
    let mut all = vec!["task"];
    all.extend(args);
    project.refuses(&all, 2, message);
}

/// A stack with a goal, a part that is done, one that waits, and a current one.
fn tables() -> Project {
    let project = Project::new();
    task(
        &project,
        &["push", "Publish the tide tables", "--id", "tables"],
    );
    task(&project, &["push", "Gather the figures", "--id", "gather"]);
    task(&project, &["push", "Read the gauge", "--id", "gauge"]);
    task(&project, &["pop", "--result", "31 rows read"]);
    task(
        &project,
        &["pop", "--result", "All figures of March are there"],
    );
    task(&project, &["push", "Ask the harbour master", "--id", "ask"]);
    task(&project, &["pop", "--blocked", "--result", "he is at sea"]);
    task(&project, &["push", "Set the pages", "--id", "set"]);
    task(&project, &["push", "Choose the type", "--id", "type"]);
    project
}

#[test]
fn pushed_and_popped() {
    let project = Project::new();
    assert_eq!(
        task(&project, &["push", "Publish the tide tables"]),
        "task t1 is current\n"
    );
    assert_eq!(
        task(&project, &["push", "Check March"]),
        "task t2 is current, a subtask of t1\n"
    );
    assert_eq!(
        task(&project, &["pop", "--result", "two rows were wrong"]),
        "task t2 is complete; the current task is t1: Publish the tide tables\n"
    );
    assert_eq!(
        task(&project, &["push", "Ask", "--id", "ask", "--parent", "t1"]),
        "task ask is current, a subtask of t1\n"
    );
    assert_eq!(
        task(&project, &["pop", "--blocked"]),
        "task ask is blocked; the current task is t1: Publish the tide tables\n"
    );
    assert_eq!(
        task(&project, &["resume", "ask"]),
        "task ask is current: Ask\n"
    );
    assert_eq!(
        task(&project, &["pop", "--id", "ask"]),
        "task ask is complete; the current task is t1: Publish the tide tables\n"
    );
    assert_eq!(
        task(&project, &["pop"]),
        "task t1 is complete; no current task\n"
    );
}

#[test]
fn drawn() {
    assert_eq!(
        task(&tables(), &["show"]),
        dedent(
            "
            stack main: 6 tasks, 2 complete

            ○ tables Publish the tide tables
            ├─‖ ask Ask the harbour master (blocked: he is at sea)
            ├─✓ gather Gather the figures → All figures of March are there
            │ └─✓ gauge Read the gauge → 31 rows read
            └─○ set Set the pages
              └─● type Choose the type
            "
        )
    );
    let value: Value = serde_json::from_str(&task(&tables(), &["show", "--json"])).unwrap();
    assert_eq!(value["stack"], "main");
    assert_eq!(value["current"], "type");
    assert_eq!(value["tasks"].as_array().unwrap().len(), 6);
    assert_eq!(value["tasks"][0]["goal"], "Publish the tide tables");
}

#[test]
fn an_empty_stack_is_drawn_too() {
    let project = tables();
    assert_eq!(
        task(&project, &["show", "--stack", "other"]),
        "stack other has no tasks; push one with `contexture task push GOAL`\n"
    );
}

#[test]
fn stacks_stand_side_by_side() {
    let project = tables();
    task(&project, &["push", "Paint the buoy", "--stack", "yard"]);
    assert_eq!(
        task(&project, &["list"]),
        concat!(
            " stack  active  blocked  complete  current\n",
            " main        3        1         2  type Choose the type\n",
            " yard        1        0         0  t1 Paint the buoy\n",
        )
    );
    let value: Value = serde_json::from_str(&task(&project, &["list", "--json"])).unwrap();
    assert_eq!(value[1]["stack"], "yard");
    assert_eq!(value[1]["current"]["goal"], "Paint the buoy");
}

#[test]
fn json_for_programs() {
    let project = Project::new();
    let pushed = task(&project, &["push", "Publish", "--json"]);
    let pushed: Value = serde_json::from_str(&pushed).unwrap();
    assert_eq!(pushed["task"]["id"], "t1");
    assert_eq!(pushed["current"]["id"], "t1");
    let popped = task(&project, &["pop", "--result", "done", "--json"]);
    let popped: Value = serde_json::from_str(&popped).unwrap();
    assert_eq!(popped["task"]["status"], "complete");
    assert_eq!(popped["task"]["result"], "done");
    assert_eq!(popped["current"], Value::Null);
}

#[test]
fn goals_and_results_from_standard_input() {
    let project = Project::new();
    let run = project.run_with(&["task", "push", "-"], "Publish the\ntide tables\n");
    run.expect_code(0);
    let run = project.run_with(&["task", "pop", "--result", "-"], "done\n");
    run.expect_code(0);
    let value: Value = serde_json::from_str(&task(&project, &["show", "--json"])).unwrap();
    assert_eq!(value["tasks"][0]["goal"], "Publish the\ntide tables");
    assert_eq!(value["tasks"][0]["result"], "done");
}

#[test]
fn an_explanation_has_a_letter_for_each_layer() {
    let project = tables();
    task(&project, &["pop", "--result", "Garamond"]);
    task(&project, &["push", "Print a proof", "--id", "proof"]);
    let said = json!({"kind": "chunk", "source": "proofs.md", "text": "A proof is printed twice."});
    let run = project.run_with(
        &["memory", "record", "-", "--now", NOW],
        &format!("{said}\n"),
    );
    run.expect_code(0);
    let args = "assemble --recipe task-stack --event Go --max-tokens 300 --explain --model gpt-4o";
    let run = project.run_now(args);
    run.expect_code(0);
    for row in [
        "       item         role     priority  score  tokens  of  why",
        " kept  task set     context      0.67             24  24  fits whole",
    ] {
        run.says(row);
    }
    let layers: Vec<&str> = (run.err.lines())
        .filter(|line| line.contains(" allowed: "))
        .collect();
    let letters: Vec<&str> = layers.iter().map(|line| line[2..3].trim()).collect();
    assert_eq!(letters, ["t", "p", "r", "m", "e"], "{}", run.err);
    let at: Vec<Option<usize>> = layers.iter().map(|line| line.find(" tokens of ")).collect();
    assert!(at.iter().all(|one| *one == at[0]), "{}", run.err);
}

#[test]
fn a_stack_without_a_current_task() {
    let project = Project::new();
    let args = "--recipe task-stack --event 'Go on.' --max-tokens 500";
    let (prompt, report) = project.assemble(args);
    assert!(prompt.contains("Go on."), "{prompt}");
    let said = warnings(&report);
    assert!(
        said.contains(&"the stack has no current task".to_owned()),
        "{said:?}"
    );
}

#[test]
fn invalid_calls_are_rejected_with_a_hint() {
    let project = tables();
    let show = "hint: show active and blocked tasks with `contexture task show`, or push another \
                with `contexture task push GOAL`\n";
    let which = "hint: `contexture task show` shows the tasks; or `contexture task list` lists the \
         stacks\n";
    for (args, message) in [
        (
            "pop --id gauge",
            format!("error: task: `gauge` is already complete\n{show}"),
        ),
        (
            "pop --id tables",
            "error: task: `tables` has parts that are still active: set, type\nhint: pop the \
             subtasks first, innermost first: `contexture task pop --id type --result TEXT`, or \
             --blocked for a blocked one\n"
                .to_owned(),
        ),
        (
            "pop --stack other",
            "error: stack: `other` has no current task\nhint: push a task with `contexture task \
             push GOAL`, or list the stacks with `contexture task list`\n"
                .to_owned(),
        ),
        (
            "resume gauge",
            format!("error: task: `gauge` is complete\n{show}"),
        ),
        (
            "push x --parent nobody",
            format!("error: there is no task `nobody`\n{which}"),
        ),
    ] {
        refuses(&project, &args.split(' ').collect::<Vec<_>>(), &message);
    }
    for id in ["type", "set", "tables"] {
        task(&project, &["pop", "--blocked", "--id", id]);
    }
    refuses(
        &project,
        &["pop"],
        "error: stack: `main` has no current task\nhint: resume a blocked task with `contexture \
         task resume ID`, push another with `contexture task push GOAL`, or show all with \
         `contexture task show`\n",
    );
    let run = call(&project, &["task", "push", "x", "--stack", "a\u{1b}b"]);
    run.expect_code(2);
    assert!(!run.err.contains('\u{1b}'), "{:?}", run.err);
}

#[test]
fn very_deep_stacks_are_drawn() {
    let project = Project::new();
    let tasks: String = (0..2_000)
        .map(|i| {
            let parent = (i > 0).then(|| format!("d{}", i - 1));
            let task = json!({"kind": "task", "id": format!("d{i}"), "goal": "Deeper",
                "parent_id": parent});
            format!("{task}\n")
        })
        .collect();
    let run = project.run_with(&["memory", "record", "-", "--now", NOW], &tasks);
    run.expect_code(0);
    let drawn = task(&project, &["show"]);
    assert_eq!(drawn.lines().count(), 2_002);
    assert!(drawn.lines().all(|line| line.chars().count() < 200));
}

#[test]
fn printed_text_cannot_control_the_terminal() {
    let project = Project::new();
    task(&project, &["push", "red \u{1b}[31m alert\nsecond line"]);
    let drawn = task(&project, &["show"]);
    assert!(drawn.contains("red [U+001B][31m alert…"), "{drawn}");
}
