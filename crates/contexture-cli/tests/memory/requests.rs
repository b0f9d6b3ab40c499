//! Memory in requests: where it stands, what it may take, and what the report
//! says of it.

use super::*;

/// A project with a conversation.
fn agent(settings: &str) -> Project {
    let project = boat_house()
        .file("contexture.toml", settings)
        .file("AGENTS.md", "Answer briefly.\n");
    out(&project, &["session", "new", "support"]);
    let turn = json!({"messages": [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Good morning."}]});
    let run = project.run_with(
        &["session", "record", "support", "-", "--now", NOW],
        &turn.to_string(),
    );
    run.expect_code(0);
    project
}

const ASK: [&str; 6] = [
    "--recipe",
    "broker",
    "--session",
    "support",
    "--event",
    "Where is the crack in the Heron?",
];

/// Returns where some texts stand in a prompt, in order.
fn order<'t>(prompt: &str, texts: &[&'t str]) -> Vec<&'t str> {
    let mut found: Vec<(usize, &str)> = texts
        .iter()
        .map(|text| {
            let at = prompt.find(text);
            (
                at.unwrap_or_else(|| panic!("no {text} in:\n{prompt}")),
                *text,
            )
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, text)| text).collect()
}

/// Returns the rows of the layer of memory.
fn rows(report: &Value, list: &str) -> Vec<String> {
    let rows = report[list].as_array().unwrap().iter();
    rows.filter(|row| row["layer"] == "memory")
        .map(|row| format!("{} {}", text(&row["id"]), text(&row["code"])))
        .collect()
}

const SYSTEM: &str = "Answer briefly.";
const HISTORY: &str = "Good morning.";
const MEMORY: &str = "third seat";
const EVENT: &str = "Where is the crack in the Heron?";

#[test]
fn it_stands_in_the_current_message() {
    let (prompt, report) = agent("").assemble(&ASK);
    let all = [EVENT, MEMORY, HISTORY, SYSTEM];
    assert_eq!(order(&prompt, &all), [SYSTEM, HISTORY, MEMORY, EVENT]);
    let rows = rows(&report, "included");
    assert!(rows.contains(&"e2 fits".to_owned()), "{rows:?}");
    let whole: u64 = (report["included"].as_array().unwrap().iter())
        .map(|row| row["tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(whole, report["budget"]["used"].as_u64().unwrap());
}

#[test]
fn it_stands_where_the_settings_say() {
    let all = [EVENT, MEMORY, HISTORY, SYSTEM];
    for (position, expected) in [
        ("system", [SYSTEM, MEMORY, HISTORY, EVENT]),
        ("before_history", [SYSTEM, MEMORY, HISTORY, EVENT]),
        ("after_history", [SYSTEM, HISTORY, MEMORY, EVENT]),
        ("current", [SYSTEM, HISTORY, MEMORY, EVENT]),
    ] {
        let project = agent(&format!("[memory]\nposition = \"{position}\"\n"));
        let (prompt, report) = project.assemble(&ASK);
        assert_eq!(order(&prompt, &all), expected, "{position}");
        assert!(
            rows(&report, "included").contains(&"e2 fits".to_owned()),
            "{position}"
        );
        let mut args = vec!["assemble", "--now", NOW, "--format", "json"];
        args.extend(ASK);
        let value: Value = serde_json::from_str(&project.ok(&args)).unwrap();
        let place = |name: &str| value[name].to_string().contains(MEMORY);
        let found: Vec<&str> = ["system_prompt", "history", "current_message"]
            .into_iter()
            .filter(|name| place(name))
            .collect();
        let expected = match position {
            "system" => "system_prompt",
            "current" => "current_message",
            _ => "history",
        };
        assert_eq!(found, [expected], "{position}");
        for format in ["anthropic", "openai-chat", "openai-responses", "gemini"] {
            let mut args = vec!["assemble", "--now", NOW, "--format", format];
            args.extend(ASK);
            assert!(project.ok(&args).contains(MEMORY), "{position} {format}");
        }
    }
}

#[test]
fn it_reads_as_the_settings_say() {
    let (structured, _) = agent("").assemble(&ASK);
    assert!(structured.contains("## Relevant Content"), "{structured}");
    let (raw, report) = agent("[memory]\nformat = \"raw\"\n").assemble(&ASK);
    assert!(
        raw.contains(MEMORY) && !raw.contains("## Relevant"),
        "{raw}"
    );
    assert!(rows(&report, "included").contains(&"e2 fits".to_owned()));
    let (summary, report) = agent("[memory]\nformat = \"summary\"\n").assemble(&ASK);
    assert!(!summary.contains("## Relevant"), "{summary}");
    let used: u64 = (report["included"].as_array().unwrap().iter())
        .map(|row| row["tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(used, report["budget"]["used"].as_u64().unwrap());
}

#[test]
fn it_takes_no_more_than_the_settings_say() {
    let (_, report) = agent("[memory]\nmax_tokens = 60\n").assemble(&ASK);
    let layers = report["budget"]["layers"].as_object().unwrap();
    assert!(
        layers["memory"]["used"].as_u64().unwrap() <= 60,
        "{layers:?}"
    );
    let left: Vec<String> = rows(&report, "excluded");
    assert!(
        left.iter().any(|row| row.ends_with("over_budget")),
        "{left:?}"
    );
}

#[test]
fn it_can_be_turned_off() {
    let (prompt, report) = agent("[memory]\ninject = false\n").assemble(&ASK);
    assert!(!prompt.contains(MEMORY), "{prompt}");
    assert!(rows(&report, "included").is_empty() && rows(&report, "excluded").is_empty());
}

const LATE: &str = "memory is left out: reading it in took longer than memory.deadline_ms in \
                    contexture.toml allows";

#[test]
fn a_request_goes_on_when_memory_is_late() {
    let (prompt, report) = agent("[memory]\ndeadline_ms = 0\n").assemble(&ASK);
    assert!(
        prompt.contains(EVENT) && !prompt.contains(MEMORY),
        "{prompt}"
    );
    assert_eq!(rows(&report, "excluded"), ["memory deadline"]);
    assert_eq!(warnings(&report), [LATE]);
    // It is said once.
    let project = agent("[memory]\ndeadline_ms = 0\n");
    let run = call(&project, &[&["assemble"], &ASK[..]].concat());
    assert_eq!(
        run.err.matches("memory is left out").count(),
        1,
        "{}",
        run.err
    );
}

#[test]
fn permissions_hold() {
    let (prompt, report) = agent("[permissions]\ndeny = [\"memory\"]\n").assemble(&ASK);
    assert!(!prompt.contains(MEMORY), "{prompt}");
    assert_eq!(rows(&report, "excluded"), ["memory not_permitted"]);
    assert_eq!(
        warnings(&report),
        ["memory is left out: permissions deny `memory`"]
    );
    let denied = "[permissions]\ndeny = [\"memory:user_message\"]\n";
    let (prompt, _) = agent(denied).assemble(&ASK);
    assert!(!prompt.contains(MEMORY), "{prompt}");
    assert!(prompt.contains("Dry it for two days"), "{prompt}");
}

#[test]
fn who_asks_decides_what_is_seen() {
    let project = agent("");
    let secret = json!({"kind": "event", "id": "s1", "visible_to": ["Mara"],
        "content": "The sponsor of the Heron wants to leave."});
    let run = project.run_with(&["memory", "record", "-", "--now", NOW], &lines(&[secret]));
    run.expect_code(0);
    let ask = |sender: Value| {
        let event = json!({"content": "What does the sponsor want?", "sender": sender});
        project.write("event.json", event.to_string());
        let args = [
            "--recipe",
            "broker",
            "--session",
            "support",
            "--event-file",
            "event.json",
        ];
        project.assemble(&args).0
    };
    assert!(ask(json!({"id": "Mara"})).contains("wants to leave"));
    assert!(!ask(json!({"id": "Olu"})).contains("wants to leave"));
    // A name is what somebody calls themselves.
    assert!(!ask(json!({"id": "Olu", "name": "Mara"})).contains("wants to leave"));
}

#[test]
fn the_recipe_for_memory_alone() {
    let project = boat_house();
    let args = [
        "--recipe",
        "memory",
        "--query",
        "Where is the crack?",
        "--max-tokens",
        "300",
    ];
    let (prompt, report) = project.assemble(&args);
    assert!(prompt.contains(MEMORY), "{prompt}");
    assert!(report["budget"]["used"].as_u64().unwrap() <= 300);
    // What is asked is looked for when no query is given.
    let args = [
        "--recipe",
        "memory",
        "--event",
        "Where is the crack?",
        "--max-tokens",
        "300",
    ];
    let (prompt, _) = project.assemble(&args);
    assert_eq!(
        order(&prompt, &["Where is the crack?", MEMORY]),
        [MEMORY, "Where is the crack?"]
    );
    let args = [
        "--recipe",
        "memory",
        "--query",
        "crack",
        "--max-tokens",
        "300",
        "--filters",
        r#"{"exclude":["e2"]}"#,
        "--strategy",
        "support",
    ];
    let (prompt, _) = project.assemble(&args);
    assert!(!prompt.contains(MEMORY), "{prompt}");
}

#[test]
fn nothing_is_asked() {
    let project = boat_house();
    let (_, report) = project.assemble(&["--recipe", "memory", "--max-tokens", "300"]);
    assert_eq!(
        warnings(&report),
        ["nothing is asked of memory: give --query or --event"]
    );
    // Asking for nothing is asking for what is recent.
    let args = ["--recipe", "memory", "--query", "", "--max-tokens", "300"];
    let (prompt, _) = project.assemble(&args);
    assert!(prompt.contains("## Recent Activity"), "{prompt}");
}

#[test]
fn a_recipe_of_ones_own_with_files_and_memory() {
    let recipe = "
        recipe: mine
        layers:
          - {layer: workspace, source: boot, place: system}
          - {layer: files, source: working-set, share: 60, place: by-role}
          - {layer: memory, source: memory, share: 40, max: 200, place: current}
          - {layer: event, source: event, place: current}
        ";
    let project = boat_house()
        .file("mine.yml", dedent(recipe))
        .file("notes.md", "The slipway is closed on Mondays.\n")
        .entries("notes.md 0.8");
    let args = [
        "--recipe",
        "mine.yml",
        "--event",
        "Where is the crack in the Heron?",
    ];
    let (prompt, report) = project.assemble(&args);
    assert!(
        prompt.contains("closed on Mondays") && prompt.contains(MEMORY),
        "{prompt}"
    );
    assert!(rows(&report, "included").contains(&"e2 fits".to_owned()));
    let layers = report["budget"]["layers"].as_object().unwrap();
    assert!(
        layers["memory"]["used"].as_u64().unwrap() <= 200,
        "{layers:?}"
    );
}

#[test]
fn it_gives_way_to_everything_else() {
    let project = agent("");
    let mut args = vec!["--max-tokens", "120"];
    args.extend(ASK);
    let (prompt, report) = project.assemble(&args);
    assert!(
        prompt.contains(EVENT) && prompt.contains(SYSTEM),
        "{prompt}"
    );
    assert!(report["budget"]["used"].as_u64().unwrap() <= 120);
}

#[test]
fn the_next_request_shares_what_stood_still() {
    let project = agent("");
    project.assemble(&ASK);
    let (_, report) = project.assemble(&ASK);
    assert_eq!(
        report["cache"]["shared_fraction"], 1.0,
        "{}",
        report["cache"]
    );
}
