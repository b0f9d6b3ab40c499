//! Memory in requests.

use contexture::core::Code;
use contexture::memory::ContextFilters;
use contexture::store::{NewTask, TaskStatus};
use contexture::turn::turn_from_json;
use contexture::{Assembled, Event, Format, Request, Sender};

use crate::fixture::{NOW, TestMemory, now, said, talk};

fn request(session: &str, event: &str) -> Request {
    Request {
        recipe: Some("broker".into()),
        session: Some(session.to_owned()),
        event: Some(event.into()),
        max_tokens: Some(20_000),
        now: Some(now()),
        ..Request::default()
    }
}

/// A mind with a conversation, and an engine with these settings.
fn agent(config: &str) -> TestMemory {
    let mind = TestMemory::with(config);
    mind.record(&talk());
    mind.lab.session("chat");
    for i in 0..3 {
        let turn = format!(
            r#"{{"messages":[{{"role":"user","content":"Question {i}"}},{{"role":"assistant","content":"Answer {i}"}}]}}"#
        );
        let turn = turn_from_json("a turn", &turn).unwrap();
        mind.lab.record("chat", &turn);
    }
    mind
}

fn assemble(mind: &TestMemory, request: &Request) -> Assembled {
    mind.lab.engine.assemble(&mind.lab.root, request).unwrap()
}

fn text(assembled: &Assembled) -> String {
    assembled
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", assembled.layout.mark), "")
}

/// Returns the offsets of these in the text, in the order given.
fn places(text: &str, what: &[&str]) -> Vec<usize> {
    let place = |part: &&str| {
        text.find(*part)
            .unwrap_or_else(|| panic!("no {part} in {text}"))
    };
    what.iter().map(place).collect()
}

#[test]
fn recalled_memory_is_placed_before_the_event() {
    let mind = agent("");
    let assembled = assemble(&mind, &request("chat", "Where is the sailing boat?"));
    let text = text(&assembled);
    let places = places(
        &text,
        &[
            "Answer 2",
            "My sister Clara bought",
            "Where is the sailing boat?",
        ],
    );
    assert!(places.is_sorted(), "{text}");
    let row = assembled
        .report
        .included
        .iter()
        .find(|row| &*row.id == "b1")
        .unwrap();
    assert_eq!(&*row.layer, "memory");
    assert!(
        row.score.unwrap() > 0.0 && row.scores.contains_key("words"),
        "{row:?}"
    );
}

#[test]
fn every_position_is_where_it_says() {
    for (position, expected) in [
        ("system", ["Clara bought", "Question 0", "sailing boat?"]),
        (
            "before_history",
            ["Clara bought", "Question 0", "sailing boat?"],
        ),
        (
            "after_history",
            ["Answer 2", "Clara bought", "sailing boat?"],
        ),
        ("current", ["Answer 2", "Clara bought", "sailing boat?"]),
    ] {
        let mind = agent(&format!("[memory]\nposition = '{position}'\n"));
        let assembled = assemble(&mind, &request("chat", "Where is the sailing boat?"));
        let rendered = text(&assembled);
        assert!(
            places(&rendered, &expected).is_sorted(),
            "{position}: {rendered}"
        );
        for format in crate::support::PROVIDERS {
            let body = assembled.render(format).unwrap();
            assert!(body.contains("Clara bought"), "{position} {format:?}");
        }
        let json = assembled.to_json();
        let parts = ["system_prompt", "history", "current_message"].into_iter();
        let found: Vec<&str> = parts
            .filter(|part| json[part].to_string().contains("Clara bought"))
            .collect();
        let expected = match position {
            "system" => "system_prompt",
            "current" => "current_message",
            _ => "history",
        };
        assert_eq!(found, [expected], "{position}");
    }
}

#[test]
fn the_rows_add_up_to_what_the_layer_used() {
    let mind = agent("");
    let report = assemble(&mind, &request("chat", "Lisbon, boat, children"))
        .report
        .clone();
    let rows = report.included.iter().filter(|row| &*row.layer == "memory");
    let sum: u64 = rows.clone().map(|row| row.tokens).sum();
    let layer = report
        .budget
        .layers
        .iter()
        .find(|layer| &*layer.name == "memory")
        .unwrap();
    assert_eq!((sum, rows.count()), (layer.used, layer.kept));
    let total: u64 = report.included.iter().map(|row| row.tokens).sum();
    assert_eq!(total, report.budget.used);
}

#[test]
fn raw_has_no_headings_and_a_summary_is_shorter() {
    let structured = assemble(&agent(""), &request("chat", "Lisbon boat children"));
    assert!(text(&structured).contains("## Relevant Content"));
    let raw = assemble(
        &agent("[memory]\nformat = 'raw'\n"),
        &request("chat", "Lisbon boat children"),
    );
    assert!(!text(&raw).contains("## Relevant Content"));
    assert!(text(&raw).contains("Ben: We took the night train to Lisbon."));
    let summary = agent("[memory]\nformat = 'summary'\nmax_tokens = 110\n");
    let summary = assemble(&summary, &request("chat", "Lisbon boat children"));
    let used = |assembled: &Assembled| {
        let mut layers = assembled.report.budget.layers.iter();
        layers.find(|layer| &*layer.name == "memory").unwrap().used
    };
    assert!(
        used(&summary) > 0 && used(&summary) < used(&raw),
        "{} {}",
        used(&summary),
        used(&raw)
    );
}

#[test]
fn it_takes_no_more_than_it_may() {
    let mind = agent("[memory]\nmax_tokens = 40\n");
    let report = assemble(&mind, &request("chat", "Lisbon boat children summer"))
        .report
        .clone();
    let layer = report
        .budget
        .layers
        .iter()
        .find(|layer| &*layer.name == "memory")
        .unwrap();
    assert!(layer.used > 0 && layer.used <= 40, "{layer:?}");
    let left = report.excluded.iter().filter(|row| &*row.layer == "memory");
    assert!(left.clone().count() > 0);
    let codes: Vec<Code> = left.map(|row| row.code).collect();
    assert!(
        codes.iter().all(|code| *code == Code::OVER_BUDGET),
        "{codes:?}"
    );
}

#[test]
fn memory_is_dropped_before_everything_else() {
    let mind = agent("");
    let asked = request("chat", "Where is the sailing boat?");
    let full = assemble(&mind, &asked).report.budget.clone();
    let memory = full
        .layers
        .iter()
        .find(|layer| &*layer.name == "memory")
        .unwrap()
        .used;
    let tight = Request {
        max_tokens: Some(full.used - memory + 8),
        ..asked
    };
    let assembled = assemble(&mind, &tight);
    assert!(!text(&assembled).contains("Clara bought"));
    assert!(
        text(&assembled).contains("Question 0"),
        "history stays whole"
    );
    assert!(
        assembled.compacted().is_none(),
        "and is not summarised for memory's sake"
    );
    let row = assembled
        .report
        .excluded
        .iter()
        .find(|row| &*row.layer == "memory")
        .unwrap();
    assert_eq!(row.code, Code::OVER_BUDGET);
}

#[test]
fn permissions_deny_all_of_it_or_a_type() {
    let mind = agent("[permissions]\ndeny = ['memory']\n");
    let assembled = assemble(&mind, &request("chat", "boat"));
    assert!(!text(&assembled).contains("Clara bought"));
    let row = assembled
        .report
        .excluded
        .iter()
        .find(|row| &*row.layer == "memory")
        .unwrap();
    assert_eq!(row.code, Code::NOT_PERMITTED);
    let denied = "memory is not included: permissions deny `memory`";
    assert_eq!(assembled.report.warnings, [denied]);
    let mind = agent("[permissions]\ndeny = ['memory:user_*']\n");
    assert!(!text(&assemble(&mind, &request("chat", "boat"))).contains("Clara bought"));
    let mind = agent("[permissions]\nallow = ['shell']\n");
    assert!(text(&assemble(&mind, &request("chat", "boat"))).contains("Clara bought"));
    let mind = agent("[memory]\ninject = false\n");
    assert!(!text(&assemble(&mind, &request("chat", "boat"))).contains("Clara bought"));
}

#[test]
fn records_for_other_identities_are_excluded() {
    let mind = agent("");
    let mut line = said(
        "own",
        "s",
        NOW,
        "Ana",
        "The boat's alarm code is in the blue book.",
    );
    line.insert_str(1, r#""visible_to":["U1"],"#);
    mind.record(&line);
    // A sender can choose its name, so the name grants no access.
    let from = |id: &str| {
        let sender = Sender {
            id: Some(id.to_owned()),
            name: Some("U1".to_owned()),
        };
        let event = Event {
            sender: Some(sender),
            ..Event::from("What is the boat's alarm code?")
        };
        Request {
            event: Some(event),
            ..request("chat", "")
        }
    };
    assert!(text(&assemble(&mind, &from("U1"))).contains("blue book"));
    assert!(!text(&assemble(&mind, &from("U2"))).contains("blue book"));
}

#[test]
fn denied_items_are_not_shown_in_any_recipe() {
    for deny in ["memory", "memory:user_*"] {
        let mind = agent(&format!("[permissions]\ndeny = ['{deny}']\n"));
        let asked = Request {
            recipe: Some("memory".into()),
            event: Some("Where is the sailing boat?".into()),
            ..request("chat", "")
        };
        assert!(
            !text(&assemble(&mind, &asked)).contains("Clara bought"),
            "{deny}"
        );
    }
}

#[test]
fn the_answer_keeps_some_room() {
    let mind = agent("");
    let asked = Request {
        max_tokens: Some(900),
        ..request("chat", "Lisbon boat children summer")
    };
    let report = assemble(&mind, &asked).report.clone();
    assert!(report.budget.remaining >= 512, "{:?}", report.budget);
    assert!(report.included.iter().any(|row| &*row.layer == "memory"));
}

#[test]
fn a_task_shows_the_results_of_its_subtasks() {
    let mind = agent("");
    let push = |goal: &str| {
        let new = NewTask {
            goal: goal.to_owned(),
            ..NewTask::default()
        };
        mind.lab.store.push_task("main", &new, now()).unwrap();
    };
    push("Make the deployment green");
    push("Find why the image is missing");
    let done = Some("The tag needs a v.");
    mind.lab
        .store
        .finish_task("main", None, TaskStatus::Complete, done, now())
        .unwrap();
    let asked = Request {
        recipe: Some("task-stack".into()),
        ..request("chat", "Go on.")
    };
    assert!(text(&assemble(&mind, &asked)).contains("Result: The tag needs a v."));
}

#[test]
fn a_slow_embedder_does_not_hold_the_turn_up() {
    // A port that accepts connections and sends nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut mind = agent("");
    let config = format!(
        "[memory]\ndeadline_ms = 100\n[memory.embedder]\nmodel = 'm'\nbase_url = 'http://127.0.0.1:{port}'\ndimensions = 256\ndeadline_ms = 60000\n"
    );
    // The memory's vectors are of this model: pretend.
    mind.lab.restart(&config);
    let info = contexture::store::EmbedderInfo {
        name: "m".to_owned(),
        dimensions: 256,
    };
    mind.lab.store.use_embedder(&info).unwrap();
    let assembled = assemble(&mind, &request("chat", "Where is the sailing boat?"));
    assert!(
        text(&assembled).contains("Clara bought"),
        "words are searched all the same"
    );
    let told = assembled
        .report
        .warnings
        .iter()
        .any(|w| w.message.contains("did not answer within"));
    assert!(told, "{:?}", assembled.report.warnings);
}

#[test]
fn the_reason_for_missing_memory_is_a_warning() {
    let warned = |mind: &TestMemory, asked: &Request| {
        let assembled = assemble(mind, asked);
        assert!(!text(&assembled).contains("Clara bought"));
        let mut rows = assembled.report.excluded.iter();
        let code = rows.find(|row| &*row.layer == "memory").map(|row| row.code);
        (assembled.report.warnings.clone(), code)
    };
    let boat = request("chat", "Where is the sailing boat?");
    let (told, code) = warned(&agent("[memory]\ndeadline_ms = 0\n"), &boat);
    let late = "memory is not included: loading the memory took longer than memory.deadline_ms \
                in contexture.toml";
    assert_eq!(told, [late]);
    assert_eq!(code, Some(Code::DEADLINE));
    let nothing = Request {
        recipe: Some("memory".into()),
        max_tokens: Some(300),
        ..Request::default()
    };
    let (told, _) = warned(&agent(""), &nothing);
    let ask = "memory was not queried: the request has no query, task or event";
    assert_eq!(told, [ask]);
    // Asking for nothing is asking for what is recent.
    let recent = Request {
        query: Some(String::new()),
        ..nothing
    };
    assert!(text(&assemble(&agent(""), &recent)).contains("## Recent Activity"));
}

#[test]
fn a_recipe_without_memory_or_tasks() {
    let mind = agent("");
    let manifest = "protocol: CONTEXT-ASSEMBLY/0.1\nfiles: []\n";
    mind.lab.write("working-set.yml", manifest);
    let files = Request {
        max_tokens: Some(900),
        recipe: Some("working-set".into()),
        ..Request::default()
    };
    let query = Request {
        query: Some("x".to_owned()),
        ..files.clone()
    };
    let strategy = Request {
        strategy: Some("coding".to_owned()),
        ..files.clone()
    };
    let filters = Request {
        filters: Some(ContextFilters::from_json(r#"{"task_id":"t"}"#).unwrap()),
        ..files.clone()
    };
    let stack = Request {
        stack: Some("yard".to_owned()),
        ..files
    };
    for (asked, told) in [
        (query, "query"),
        (strategy, "strategy"),
        (filters, "filters"),
        (stack, "stack"),
    ] {
        let error = mind
            .lab
            .engine
            .assemble(&mind.lab.root, &asked)
            .err()
            .unwrap();
        let told = format!("recipe `working-set` has no layer that uses `{told}`");
        assert_eq!(error.to_string(), told);
        let hint = error.hint(&contexture::advice::Plain);
        assert_eq!(hint.as_deref(), Some("set `recipe`"));
    }
}

#[test]
fn the_recipe_memory_is_a_question_and_what_is_known_of_it() {
    let mind = agent("");
    let asked = Request {
        recipe: Some("memory".into()),
        query: Some("night train".to_owned()),
        filters: Some(ContextFilters {
            exclude: vec!["a3".to_owned()],
            ..ContextFilters::default()
        }),
        event: Some("How did they travel?".into()),
        max_tokens: Some(300),
        now: Some(now()),
        ..Request::default()
    };
    let assembled = assemble(&mind, &asked);
    let rendered = text(&assembled);
    assert!(rendered.contains("We took the night train"), "{rendered}");
    assert!(
        !rendered.contains("Did the children like it?"),
        "{rendered}"
    );
    assert!(rendered.trim_end().ends_with("</user>"), "{rendered}");
    assert!(assembled.report.budget.used <= 300);
}

#[test]
fn a_recipe_of_the_users_has_files_and_memory() {
    let mind = agent("");
    mind.lab.write("notes.md", "The harbour opens at six.\n");
    mind.lab.write(
        "working-set.yml",
        "protocol: CONTEXT-ASSEMBLY/0.1\nbudget: {max_tokens: 2000}\nfiles:\n- {path: notes.md, priority: 0.5}\n",
    );
    mind.lab.write(
        "mine.yml",
        "recipe: mine\nlayers:\n- {layer: files, source: working-set, share: 50}\n- {layer: memory, source: memory, share: 50}\n- {layer: event, source: event}\n",
    );
    let asked = Request {
        recipe: Some(
            mind.lab
                .dir
                .path()
                .join("mine.yml")
                .display()
                .to_string()
                .into(),
        ),
        event: Some("When can the sailing boat leave the harbour?".into()),
        now: Some(now()),
        ..Request::default()
    };
    let rendered = text(&assemble(&mind, &asked));
    assert!(rendered.contains("The harbour opens at six."), "{rendered}");
    assert!(
        rendered.contains("My sister Clara bought a sailing boat."),
        "{rendered}"
    );
}

#[test]
fn a_task_stack_shows_the_goal_the_path_results_and_memory() {
    let mind = agent("");
    let store = &mind.lab.store;
    let push = |id: &str, goal: &str| {
        let new = NewTask {
            id: Some(id.to_owned()),
            goal: goal.to_owned(),
            parent_id: None,
        };
        store.push_task("main", &new, now()).unwrap();
    };
    let pop = |result: &str| {
        store
            .finish_task("main", None, TaskStatus::Complete, Some(result), now())
            .unwrap();
    };
    push("root", "Sail to Lisbon");
    push("prepare", "Prepare the boat");
    push("sails", "Mend the sails");
    pop("The sails are mended, with red thread.");
    push("engine", "Look after the engine");
    let mut line = said("e1", "s", NOW, "Ana", "The engine needs oil.");
    line.insert_str(1, r#""task_id":"engine","#);
    mind.record(&line);
    let asked = Request {
        recipe: Some("task-stack".into()),
        max_tokens: Some(2_000),
        now: Some(now()),
        ..Request::default()
    };
    let rendered = text(&assemble(&mind, &asked));
    let order = [
        "Goal: Sail to Lisbon",
        "For that: Prepare the boat",
        "Current task: Look after the engine",
        "Done: Mend the sails",
        "Result: The sails are mended, with red thread.",
        "The engine needs oil.",
    ];
    assert!(places(&rendered, &order).is_sorted(), "{rendered}");
    assert!(
        !rendered.contains("Clara bought"),
        "of another task: {rendered}"
    );
}

#[test]
fn the_budget_of_a_stack_holds() {
    let mind = agent("");
    let push = |goal: &str| {
        let new = NewTask {
            goal: goal.to_owned(),
            ..NewTask::default()
        };
        mind.lab.store.push_task("main", &new, now()).unwrap();
    };
    push("Publish the tide tables");
    for i in 0..40 {
        let rows = "look at one more of the many rows ".repeat(8);
        push(&format!("Part {i}: {rows}"));
    }
    for tokens in [300, 600, 1200] {
        let asked = Request {
            recipe: Some("task-stack".into()),
            max_tokens: Some(tokens),
            ..request("chat", "Go on.")
        };
        let assembled = assemble(&mind, &asked);
        assert!(assembled.report.budget.used <= tokens);
        let order = ["Goal: Publish the tide", "Current task: Part 39", "Go on."];
        assert!(places(&text(&assembled), &order).is_sorted());
    }
}

#[test]
fn recalled_records_are_in_the_snapshot() {
    let mind = agent("");
    let first = assemble(&mind, &request("chat", "boat"));
    let again = assemble(&mind, &request("chat", "boat"));
    assert_eq!(first.report.snapshot, again.report.snapshot);
    assert!(again.report.cache.as_ref().unwrap().shared_fraction > 0.99);
}

#[test]
fn a_short_event_is_searched_with_the_messages_before_it() {
    let mind = agent("[memory]\nmax_tokens = 40\n");
    let turn = r#"{"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Shall I look up the night train to Lisbon?"}]}"#;
    let turn = turn_from_json("a turn", turn).unwrap();
    mind.lab.record("chat", &turn);
    let remembered = "Ben: We took the night train to Lisbon.";
    let little = text(&assemble(&mind, &request("chat", "Yes, go ahead.")));
    assert!(little.contains(remembered), "{little}");
    // An event with enough words is used as the query alone.
    let enough = text(&assemble(
        &mind,
        &request("chat", "Who bought a sailing boat?"),
    ));
    assert!(!enough.contains(remembered), "{enough}");
}
