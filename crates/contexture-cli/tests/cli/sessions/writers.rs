//! Concurrent writers, and the result of their writes.

use std::process::Stdio;

use super::*;

/// Records `turns` at the same time, each in a process of its own.
fn record_at_once(project: &Project, turns: &[Value]) -> Vec<Run> {
    let started: Vec<_> = turns
        .iter()
        .enumerate()
        .map(|(i, turn)| {
            let file = format!("turn-{i}.json");
            project.write(&file, turn.to_string());
            let mut command = project.command(&["session", "record", "chat", &file]);
            let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    started.into_iter().map(crate::support::finish).collect()
}

#[test]
fn of_turns_that_answer_the_same_one_wins() {
    let project = chat();
    let head = say(&project, "chat", "Red or blue?", "Choose.");
    let turns: Vec<Value> = (0..4)
        .map(|n| {
            let said = json!([{"role": "user", "content": format!("Answer {n}")}]);
            json!({"messages": said, "parent_turn_id": head})
        })
        .collect();
    let runs = record_at_once(&project, &turns);
    let (won, lost): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.code == Some(0));
    assert_eq!(won.len(), 1);
    let recorded = json_of(&project, &["session", "history", "chat"]);
    assert_eq!(recorded.as_array().unwrap().len(), 2);
    let now = text(&recorded[1]["id"]);
    for run in lost {
        run.expect_code(2);
        run.says(&format!(
            "error: conflict: the head of session `chat` is {now}, not {head}; nothing was recorded"
        ));
    }
}
