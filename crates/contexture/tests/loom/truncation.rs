//! The nodes that are dropped when a path does not fit (L7, L8).

use contexture::Format;

use crate::support::{Lab, expect, request_of};

/// Eight nodes of about 20 tokens each.
fn path(settings: &str) -> Lab {
    Lab::with(&format!(
        "
        {settings}
        prefer token_buffer 0
        system Keep it short.
        n1 human: One. We begin with a question about the harbour and its three cranes.
        n2 model <- n1: Two. The cranes were built by a company that no longer exists.
        n3 human <- n2: Three. And who takes care of them now that it does not?
        n4 model <- n3: Four. A society of retired crane drivers, every second Sunday.
        n5 human <- n4: Five. Are they still used for anything but photographs?
        n6 model <- n5: Six. The smallest of them lifts boats in spring and in autumn.
        n7 human <- n6: Seven. Which one is the smallest, the red or the green one?
        n8 model <- n7: Eight. The green one, next to the customs house.
        "
    ))
}

/// Returns one line for the content of the request, and one for the report.
fn outcome(lab: &Lab, budget: u64) -> String {
    let assembled = match lab.assemble(&format!("--head n8 --max-tokens {budget}")) {
        Ok(assembled) => assembled,
        Err(error) => return format!("{budget}: {error}\n"),
    };
    let rows = assembled.report.included.iter();
    let kept: Vec<String> = rows
        .filter(|row| &*row.layer == "session")
        .map(|row| match (&*row.id, row.truncated) {
            ("gap", _) => "[...]".to_owned(),
            (id, true) => format!("{id}(cut)"),
            (id, false) => id.to_owned(),
        })
        .collect();
    let loom = assembled.loom().unwrap();
    let mut flags = Vec::new();
    if loom.truncated {
        flags.push("truncated".to_owned());
    }
    if let Some(dropped @ 1..) = loom.nodes_dropped {
        flags.push(format!("{dropped} dropped"));
    }
    if loom.nodes_dropped.is_none() {
        flags.push("older ones not read".to_owned());
    }
    if loom.recent_nodes_dropped > 0 {
        flags.push(format!("{} recent", loom.recent_nodes_dropped));
    }
    let flags = flags.join(", ");
    let flags = match flags.as_str() {
        "" => String::new(),
        flags => format!(" | {flags}"),
    };
    format!("{budget}: {}{flags}\n", kept.join(" "))
}

fn outcomes(lab: &Lab, budgets: &[u64]) -> String {
    budgets.iter().map(|&budget| outcome(lab, budget)).collect()
}

const BUDGETS: &[u64] = &[300, 190, 170, 150, 130, 110, 90, 60, 40];

#[test]
fn the_middle_is_dropped() {
    expect(
        &outcomes(&path(""), BUDGETS),
        "
        300: n1 n2 n3 n4 n5 n6 n7 n8
        190: n1 n2 n3 n4 n5 n6 n7 n8
        170: n1 n2 n3 n4 n5 n6 n7 n8
        150: n1 [...] n4 n5 n6 n7 n8 | truncated, 2 dropped
        130: n1 [...] n5 n6 n7 n8 | truncated, 3 dropped
        110: [...] n5 n6 n7 n8 | truncated, 4 dropped
        90: n5 n6 n7 n8 | truncated, 4 dropped
        60: [...] n8 | truncated, 7 dropped, 3 recent
        40: n8 | truncated, 7 dropped, 3 recent
        ",
    );
}

#[test]
fn a_rolling_window() {
    let lab = path("prefer truncation_strategy rolling_window");
    expect(
        &outcomes(&lab, BUDGETS),
        "
        300: n1 n2 n3 n4 n5 n6 n7 n8
        190: n1 n2 n3 n4 n5 n6 n7 n8
        170: n1 n2 n3 n4 n5 n6 n7 n8
        150: n2 n3 n4 n5 n6 n7 n8 | truncated, 1 dropped
        130: n3 n4 n5 n6 n7 n8 | truncated, 2 dropped
        110: n4 n5 n6 n7 n8 | truncated, 3 dropped
        90: n5 n6 n7 n8 | truncated, 4 dropped
        60: n7 n8 | truncated, 6 dropped, 2 recent
        40: n8 | truncated, 7 dropped, 3 recent
        ",
    );
}

#[test]
fn stop_at_limit() {
    let lab = path("prefer truncation_strategy stop_at_limit");
    let budgets = [300, 166, 165, 40];
    expect(
        &outcomes(&lab, &budgets),
        "
        300: n1 n2 n3 n4 n5 n6 n7 n8
        166: n1 n2 n3 n4 n5 n6 n7 n8
        165: the request for node `n8` needs 166 tokens but 165 are available, and stop_at_limit drops nothing
        40: the request for node `n8` needs 166 tokens but 40 are available, and stop_at_limit drops nothing
        ",
    );
    let told = lab.complaint("--head n8 --max-tokens 165");
    expect(
        told.lines().last().unwrap(),
        "hint: `flag_node` of `t` excludes or includes a node; or use a model with a larger \
         window, or another truncation_strategy",
    );
}

#[test]
fn a_marker_is_placed_where_text_was_cut() {
    let lab = path("");
    expect(
        &lab.text("--head n8 --max-tokens 130"),
        "
        <system>
        Keep it short.
        </system>

        <user>
        One. We begin with a question about the harbour and its three cranes.

        [... 3 nodes cut ...]

        Five. Are they still used for anything but photographs?
        </user>

        <assistant>
        Six. The smallest of them lifts boats in spring and in autumn.
        </assistant>

        <user>
        Seven. Which one is the smallest, the red or the green one?
        </user>

        <assistant>
        Eight. The green one, next to the customs house.
        </assistant>
        ",
    );
    let assembled = lab.assemble("--head n8 --max-tokens 130").unwrap();
    let body = assembled.render(Format::OpenAiChat).unwrap();
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        body["messages"][1]["content"],
        "One. We begin with a question about the harbour and its three cranes.\n\n\
         [... 3 nodes cut ...]\n\n\
         Five. Are they still used for anything but photographs?"
    );
}

#[test]
fn the_report_lists_dropped_nodes_with_reasons() {
    expect(
        &path("").left_out("--head n8 --max-tokens 60"),
        "
        n1: cut_from_path (in the part of the path that was cut; needs 21 tokens, 18 left)
        n2: cut_from_path (in the part of the path that was cut; about 16 tokens)
        n3: cut_from_path (in the part of the path that was cut; about 14 tokens)
        n4: cut_from_path (in the part of the path that was cut; about 16 tokens)
        n5: cut_from_path (in the part of the path that was cut; about 14 tokens)
        n6: cut_from_path (in the part of the path that was cut; needs 20 tokens, 18 left)
        n7: cut_from_path (in the part of the path that was cut; needs 21 tokens, 18 left)
        ",
    );
    let assembled = path("").assemble("--head n8 --max-tokens 60").unwrap();
    expect(
        &assembled
            .report
            .warnings
            .iter()
            .map(|w| w.message.clone())
            .collect::<Vec<_>>()
            .join("\n"),
        "
        dropped because the budget is full: 7 of 8 nodes (truncate_middle)
        the latest nodes do not fit: 3 of the minimum_recent_nodes were dropped, oldest first
        ",
    );
    let json = assembled.to_json();
    expect(
        &format!("{:#}", json["loom"]),
        "
        {
          \"tree_id\": \"t\",
          \"head_node_id\": \"n8\",
          \"agent_id\": null,
          \"path\": null,
          \"strategy\": \"truncate_middle\",
          \"truncated\": true,
          \"nodes_kept\": 1,
          \"nodes_cut\": 0,
          \"nodes_dropped\": 7,
          \"recent_nodes_dropped\": 3
        }
        ",
    );
    assert_eq!(json["truncation"]["truncated"], true);
}

#[test]
fn a_rolling_window_that_begins_with_the_model() {
    let lab = path("prefer truncation_strategy rolling_window");
    let mut opened = 0;
    for budget in (100..300).step_by(10) {
        let request = format!("--head n8 --max-tokens {budget} --model claude-sonnet-4-5");
        let assembled = lab.assemble(&request).unwrap();
        let body = assembled.render(Format::Anthropic);
        // It ends with the model, which this one goes on from.
        let body: serde_json::Value = serde_json::from_str(&body.unwrap()).unwrap();
        assert_eq!(body["messages"][0]["role"], "user", "{budget}");
        let text = body["messages"][0]["content"].to_string();
        opened += usize::from(text.contains("(the conversation begins with the assistant)"));
    }
    assert!(opened > 3, "{opened}");
}

#[test]
fn one_message_is_there_however_small_the_budget() {
    let lab = Lab::with(&format!(
        "
        prefer token_buffer 0
        n1 human: Short.
        n2 model <- n1: {}
        ",
        (1..60).map(|n| format!("line {n}\\n")).collect::<String>()
    ));
    expect(
        &lab.text("--head n2 --max-tokens 80"),
        "
        <user>
        [... 1 node cut ...]
        </user>

        <assistant>
        line 1
        line 2
        line 3
        line 4
        line 5
        [... lines 6-54 of n2 cut, about 76 tokens ...]
        line 55
        line 56
        line 57
        line 58
        line 59

        </assistant>
        ",
    );
}

#[test]
fn the_latest_node_is_cut_however_little_is_left_of_it() {
    let words: Vec<String> = (1..=300).map(|n| format!("w{n}")).collect();
    let lab = Lab::with(&format!(
        "
        prefer token_buffer 0
        n1 human: Hello.
        n2 model <- n1: Hello.
        n3 human <- n2: {}
        ",
        words.join(" ")
    ));
    for budget in [45, 60, 100] {
        let text = lab.text(&format!("--head n3 --max-tokens {budget}"));
        assert!(text.contains(" of n3 cut"), "{budget}: {text}");
        assert!(text.contains("w300"), "{budget}: {text}");
    }
}

#[test]
fn a_document_is_cut_at_its_beginning_and_in_the_middle() {
    let tree = |strategy: &str| {
        format!(
            "
            buffer
            prefer truncation_strategy {strategy}
            prefer token_buffer 0
            prefer minimum_recent_nodes 1
            n1 human: The harbour has three cranes.\\s
            n2 model <- n1: They were built by a company that no longer exists.\\s
            n3 human <- n2: A society of retired drivers looks after them.\\s
            n4 model <- n3: The smallest still lifts boats in spring.
            "
        )
    };
    let middle = Lab::with(&tree("truncate_middle"));
    expect(
        &middle.text("--head n4 --max-tokens 36"),
        "
        The harbour has three cranes.\u{20}
        [... 1 node cut ...]
        A society of retired drivers looks after them. The smallest still lifts boats in spring.
        ",
    );
    let window = Lab::with(&tree("rolling_window"));
    expect(
        &window.text("--head n4 --max-tokens 25"),
        "A society of retired drivers looks after them. The smallest still lifts boats in spring.",
    );
    // The end of the text that is being written is kept.
    let long = Lab::with(&tree("truncate_middle"));
    let buffer = "and then ".repeat(60);
    let text = long.text(&format!(
        "--head n4 --max-tokens 60 --working-buffer {buffer}the end."
    ));
    assert!(text.ends_with("and then and then the end."), "{text}");
    assert!(text.contains(" of working buffer cut"), "{text}");
}

#[test]
fn preferences_of_the_application_and_of_the_tree() {
    let application = Lab::new(
        "[loom]\ntruncation_strategy = 'rolling_window'\nminimum_recent_nodes = 2\ntoken_buffer = 500",
    );
    application.import("n1 human: One.");
    let budget = |lab: &Lab| {
        let assembled = lab.assemble("--head n1").unwrap();
        let strategy = assembled.loom().unwrap().clone().strategy;
        (assembled.budget.reserve_response(), strategy.name())
    };
    assert_eq!(budget(&application), (500, "rolling_window"));
    // The tree's own come first, one by one.
    application.import("id u\nprefer truncation_strategy stop_at_limit\nm1 human: One.");
    let assembled = application.assemble("--tree u --head m1").unwrap();
    assert_eq!(assembled.budget.reserve_response(), 500);
    assert_eq!(
        assembled.loom().unwrap().clone().strategy.name(),
        "stop_at_limit"
    );
    // The settings of the application apply, too.
    assert_eq!(
        budget(&Lab::with("n1 human: One.")),
        (1024, "truncate_middle")
    );
    // The options of the call have priority over all of them.
    let assembled = application.assemble("--head n1 --reserve 7").unwrap();
    assert_eq!(assembled.budget.reserve_response(), 7);
}

#[test]
fn a_remark_stays_out_wherever_a_walk_pauses() {
    // A window is walked in steps, and how the last node of a step is reached
    // is only known with the next.
    for distance in [126, 127, 128, 200, 300, 336] {
        let mut text = "prefer truncation_strategy rolling_window\nn0 human: Begin.\n".to_owned();
        let nodes = 400;
        for n in 1..nodes {
            let remark = if n == nodes - 1 - distance {
                "remark"
            } else {
                ""
            };
            text += &format!("n{n} human {remark} <- n{}: word{n}.\n", n - 1);
        }
        let lab = Lab::with(&text);
        let name = format!("n{}", nodes - 1 - distance);
        let made = lab.assemble("--head n399").unwrap();
        let shown = made.report.included.iter().any(|row| *row.id == *name);
        assert!(!shown, "{name} is shown");
        let rows = made.report.excluded.iter().filter(|row| *row.id == *name);
        assert_eq!(rows.count(), 1, "{name}");
        assert_eq!(made.report.included.len(), nodes - 1);
    }
}

#[test]
fn the_report_of_a_window_does_not_depend_on_caches() {
    let mut text = "prefer truncation_strategy rolling_window\nn0 human: Begin.\n".to_owned();
    for n in 1..500 {
        text += &format!("n{n} human <- n{}: word{n}.\n", n - 1);
    }
    let lab = Lab::with(&text);
    let said = |request: &str| {
        let made = lab.assemble(request).unwrap();
        (
            lab.left_out(request),
            made.loom().cloned(),
            made.report.warnings.clone(),
        )
    };
    let request = "--head n499 --max-tokens 1200 --reserve 0";
    let before = said(request);
    lab.engine.tree_path(&request_of(request)).unwrap();
    assert_eq!(before, said(request));
}

#[test]
fn material_alone_is_no_message() {
    let lab = Lab::with(&format!(
        "
        prefer token_buffer 0
        m1 human: Look here.
        n1 human: \\s
        n2 human <- n1 context m1: {}
        ",
        "word ".repeat(60)
    ));
    let complaint = lab.complaint("--head n2 --max-tokens 20");
    assert!(
        complaint.contains("no room for the latest node"),
        "{complaint}"
    );
    // Without other content, the node is all there is.
    let lab = Lab::with("m1 human: Look here.\nn1 human: \\s\nn2 human <- n1 context m1: \\s");
    expect(
        &lab.text("--head n2"),
        "
        <context path=\"m1\">
        Look here.
        </context>
        ",
    );
}

#[test]
fn nothing_but_the_latest_node_is_answered() {
    let lab = Lab::with(&format!(
        "
        prefer token_buffer 0
        n1 human: What is two and two?
        n2 model <- n1: Four.
        n3 human <- n2: {}
        ",
        "And now this. ".repeat(60)
    ));
    let complaint = lab.complaint("--head n3 --max-tokens 22");
    assert!(
        complaint.contains("no room for the latest node"),
        "{complaint}"
    );
    // The event is always included.
    let text = lab.text("--head n3 --max-tokens 22 --event So?");
    assert!(text.ends_with("<user>\nSo?\n</user>\n"), "{text}");
}

/// A window that holds a part of the latest node is never refused: neither the
/// marker nor the node's context sources need the tokens more.
#[test]
fn a_part_of_the_latest_node_is_always_included() {
    let long = "And now this. ".repeat(60);
    let sourced = format!("m1 human: {long}\nn3 human <- n2 context m1");
    for latest in ["n3 human <- n2", &sourced] {
        let lab = Lab::with(&format!(
            "
            prefer token_buffer 0
            system Be kind.
            n1 human: What?
            n2 model <- n1: Four.
            {latest}: {long}
            n4 model <- n3: \\s
            "
        ));
        let mut least = None;
        for budget in 20..400 {
            match lab.assemble(&format!("--head n4 --max-tokens {budget}")) {
                Ok(made) => {
                    least.get_or_insert(budget);
                    assert!(made.report.included.iter().any(|row| &*row.id == "n3"));
                }
                Err(error) => {
                    assert_eq!(least, None, "{budget}: {error}");
                    let told = error.to_string();
                    assert!(told.contains("the node has 2"), "{told}");
                }
            }
        }
        assert!(least.is_some_and(|least| least < 60), "{least:?}");
    }
}

/// A marker that cannot appear takes no tokens from the only node.
#[test]
fn the_only_node_uses_all_tokens() {
    let long = "And now this. ".repeat(60);
    let lab = Lab::with(&format!("prefer token_buffer 0\nn1 human: {long}"));
    let used = |budget| {
        let made = lab.assemble(&format!("--head n1 --max-tokens {budget}"));
        made.unwrap().report.budget.used
    };
    for budget in 50..90 {
        assert!(used(budget) + 6 >= budget, "{budget}: {}", used(budget));
    }
}

#[test]
fn stop_at_limit_says_so_whatever_is_too_large() {
    let long = "word ".repeat(300);
    let lab = Lab::with(&format!(
        "
        prefer truncation_strategy stop_at_limit
        prefer token_buffer 0
        m1 human: {long}
        n1 human: One.
        n2 human <- n1 context m1: Two.
        "
    ));
    let complaint = lab.complaint("--head n2 --max-tokens 100");
    let expected = "the request for node `n2` needs 334 tokens but 100 are available, and \
                    stop_at_limit drops nothing";
    assert!(complaint.starts_with(expected), "{complaint}");
    let lab = Lab::with("buffer\nprefer truncation_strategy stop_at_limit\nn1 human: One.");
    let request = format!("--head n1 --max-tokens 1100 --working-buffer {long}");
    let complaint = lab.complaint(&request);
    assert!(complaint.contains("stop_at_limit drops"), "{complaint}");
}

#[test]
fn no_more_nodes_are_missed_than_there_are() {
    let mut text = "prefer truncation_strategy rolling_window\nprefer minimum_recent_nodes 1000\n\
                    prefer token_buffer 0\nn0 human: Begin.\n"
        .to_owned();
    for n in 1..500 {
        text += &format!("n{n} human <- n{}: word{n}.\n", n - 1);
    }
    let loom = Lab::with(&text).assemble("--head n499 --max-tokens 900");
    let loom = loom.unwrap().loom().unwrap().clone();
    assert_eq!(loom.nodes_kept + loom.recent_nodes_dropped, 500);
}
