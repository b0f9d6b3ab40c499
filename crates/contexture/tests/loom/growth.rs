//! Properties while a tree grows: an engine that has seen it grow returns the
//! same as a new one, and lists every node.

use std::collections::{BTreeMap, BTreeSet};

use contexture::store::{
    Author, Edge, EdgeKind, EdgeSource, Growth, MemoryChange, MessageContent, Pin, Preferences,
    SettingsChange, SourceRole, TreeChange, TreeDocument, TreeMode, Trees as _, TruncationStrategy,
};
use contexture::tokens::{Encoding, OpenAi, TokenCounter as _};
use contexture::{
    Assembled, Engine, Format, Request, Timestamp,
    loom::{FlagChange, Material, NewNode, NodeEdit},
};
use proptest::prelude::*;

use crate::support::{Lab, now, request_of, tree};

/// A change of a tree, and a request after it.
#[derive(Debug, Clone)]
struct Event {
    what: u8,
    at: u16,
    other: u16,
    words: u8,
    model: bool,
    head: u16,
    budget: u64,
    strategy: u8,
    minimum: usize,
    provider: u8,
    aware: bool,
    remarks: bool,
    path: bool,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let first = (
        0..14_u8,
        any::<u16>(),
        any::<u16>(),
        0..40_u8,
        any::<bool>(),
    );
    let second = (
        prop_oneof![3 => 0..12_u16, 1 => any::<u16>()],
        prop_oneof![40..200_u64, 100..1500_u64, Just(100_000)],
        0..5_u8,
        0..7_usize,
        0..4_u8,
    );
    let third = (any::<bool>(), any::<bool>(), any::<bool>());
    let event = (first, second, third).prop_map(|(first, second, third)| Event {
        what: first.0,
        at: first.1,
        other: first.2,
        words: first.3,
        model: first.4,
        head: second.0,
        budget: second.1,
        strategy: second.2,
        minimum: second.3,
        provider: second.4,
        aware: third.0,
        remarks: third.1,
        path: third.2,
    });
    prop::collection::vec(event, 1..14)
}

#[derive(Debug, Clone)]
struct Case {
    buffer: bool,
    long: usize,
    every: usize,
    events: Vec<Event>,
}

fn cases() -> impl Strategy<Value = Case> {
    let long = prop_oneof![2 => 1..12_usize, 1 => 60..70_usize, 2 => 120..420_usize];
    (any::<bool>(), long, 1..90_usize, events()).prop_map(|(buffer, long, every, events)| Case {
        buffer,
        long,
        every,
        events,
    })
}

/// Returns what a tree begins as: a line of nodes.
fn line(case: &Case) -> TreeDocument {
    let mut text = "system Say what you see.\nagent poet aware: Rhyme.\n".to_owned();
    text += if case.buffer {
        "buffer\n"
    } else {
        "dialogue\n"
    };
    for n in 0..case.long {
        let author = if n % 3 == 0 { "human" } else { "model" };
        // One in some is something that a walk has to look at.
        let (mut flags, mut sources) = ("", String::new());
        if n > 0 {
            sources = format!("<- n{}", n - 1);
        }
        if n > 1 && n % case.every == 0 {
            match n / case.every % 5 {
                0 => flags = "excluded",
                1 => flags = "remark",
                2 => sources += &format!(" context n{}", n - 2),
                3 => sources += &format!(" instruction n{}", n - 2),
                _ => flags = "bookmarked",
            }
        }
        text += &format!("n{n} {author} {flags} {sources}: (n{n}) word\n");
    }
    tree(&text)
}

struct Grown {
    lab: Lab,
    nodes: Vec<String>,
    edges: Vec<String>,
    clock: i64,
}

impl Grown {
    fn name(&self, at: u16) -> String {
        // The latest first: most of what happens happens there.
        self.nodes[self.nodes.len() - 1 - at as usize % self.nodes.len()].clone()
    }

    fn content(&self, event: &Event) -> MessageContent {
        let name = format!("n{}", self.nodes.len());
        MessageContent::Text(match event.words {
            0 => " ".to_owned(),
            words => format!("({name}) {}", "word ".repeat(words.into())),
        })
    }

    /// Does what happens, as far as it is allowed.
    fn happen(&mut self, event: &Event) {
        let (at, other) = (self.name(event.at), self.name(event.other));
        let id = format!("n{}", self.nodes.len());
        self.clock += i64::from(event.words % 3);
        let now = Some(Timestamp::from_second(self.clock).unwrap());
        let engine = &self.lab.engine;
        let author = if event.model {
            Author::Model
        } else {
            Author::Human
        };
        let mut new = NewNode {
            id: Some(id.clone()),
            agent: event.aware.then(|| "poet".to_owned()),
            ..NewNode::text(author, "", Some(&at))
        };
        new.content = self.content(event);
        let edge = Edge {
            id: format!("x{id}"),
            kind: EdgeKind::Continuation,
            sources: vec![EdgeSource {
                node_id: other.clone(),
                role: SourceRole::Primary,
            }],
            target_node_id: at.clone(),
        };
        let done = match event.what {
            0..4 => engine.add_node("t", &new, now).is_ok(),
            4 => {
                new.kind = EdgeKind::Annotation;
                engine.add_node("t", &new, now).is_ok()
            }
            5 => {
                new.after.push(other);
                engine.add_node("t", &new, now).is_ok()
            }
            6 | 7 => {
                let role = match event.what {
                    6 => SourceRole::Context,
                    _ => SourceRole::Instruction,
                };
                new.material.push((role, Material::Node(other)));
                engine.add_node("t", &new, now).is_ok()
            }
            8 | 9 => {
                let content = new.content.clone();
                let edit = NodeEdit {
                    id: Some(id.clone()),
                    author: None,
                    agent: None,
                    content,
                };
                engine.edit_node("t", &at, &edit, now).is_ok()
            }
            10 => {
                let change = FlagChange {
                    excluded: Some(event.model),
                    pruned: Some(event.words.is_multiple_of(5)),
                    bookmarked: Some(event.aware),
                };
                engine.flag_node("t", &at, change).unwrap();
                false
            }
            11 => {
                let growth = Growth {
                    nodes: Vec::new(),
                    edges: vec![edge],
                };
                if self
                    .lab
                    .store
                    .grow("t", &growth, crate::support::now())
                    .is_ok()
                {
                    self.edges.push(format!("x{id}"));
                }
                false
            }
            12 => {
                let pin = Pin {
                    node_id: Some(at),
                    text: None,
                };
                let change = MemoryChange::Pin(pin);
                let change = TreeChange::Memory {
                    agent: "poet".to_owned(),
                    change,
                };
                self.lab
                    .store
                    .change_tree("t", &change, crate::support::now())
                    .unwrap();
                false
            }
            _ => {
                let mut choices = vec![at, other];
                choices.extend(self.edges.iter().rev().take(2).cloned());
                let head = self.name(event.head);
                engine.save_path("t", "chosen", &head, &choices).unwrap();
                false
            }
        };
        if done {
            self.nodes.push(id);
        }
    }

    fn request(&self, event: &Event) -> Request {
        let preferences = Preferences {
            truncation_strategy: Some(match event.strategy {
                0 | 1 => TruncationStrategy::TruncateMiddle,
                2 | 3 => TruncationStrategy::RollingWindow,
                _ => TruncationStrategy::StopAtLimit,
            }),
            minimum_recent_nodes: Some(event.minimum),
            token_buffer: Some(0),
        };
        let settings = SettingsChange {
            buffer_mode_system_context: Some(event.model),
            preferences: preferences.into(),
            ..SettingsChange::default()
        };
        let info = self.lab.store.tree("t").unwrap();
        let is_buffer = info.tree.mode == TreeMode::Buffer;
        let paths = info.paths;
        self.lab
            .store
            .change_tree("t", &TreeChange::Settings(settings), now())
            .unwrap();
        let models = ["gpt-4o", "claude-sonnet-4", "gemini-2.5-pro", "gpt-4o"];
        let model = models[usize::from(event.provider)];
        Request {
            model: Some(model.to_owned()),
            max_tokens: Some(event.budget),
            agent: event.aware.then(|| "poet".to_owned()),
            head: Some(self.name(event.head)),
            path: (event.path && !paths.is_empty()).then(|| "chosen".to_owned()),
            include_annotations: event.remarks,
            working_buffer: (is_buffer && event.words > 20).then(|| "And so".to_owned()),
            format: Some(Format::Text),
            ..request_of("")
        }
    }
}

/// Returns the report of a request without its duration.
fn account(made: &Assembled) -> serde_json::Value {
    let mut report = serde_json::to_value(&made.report).unwrap();
    report.as_object_mut().unwrap().remove("timings_ms");
    serde_json::json!({"report": report, "loom": made.loom()})
}

/// The rows of a report, a line each.
fn rows(made: &Assembled) -> String {
    let included = made.report.included.iter();
    let included = included.map(|row| format!("+ {} {} {}\n", row.layer, row.id, row.tokens));
    let excluded = made.report.excluded.iter();
    let excluded = excluded.map(|row| {
        format!(
            "- {} {} {} {} ({})\n",
            row.layer,
            row.id,
            row.tokens,
            row.code.as_str(),
            row.reason
        )
    });
    included.chain(excluded).collect()
}

/// Checks that every node of a path is accounted for once: by a row of its own,
/// or in one for many. Returns how many were cut from the path.
fn check_rows(made: &Assembled, path: &[String]) -> u64 {
    let mut times: BTreeMap<&str, usize> = path.iter().map(|name| (&**name, 0)).collect();
    let (included, excluded) = (made.report.included.iter(), made.report.excluded.iter());
    let included = included.filter(|row| &*row.layer == "session");
    let excluded = excluded.filter(|row| &*row.layer == "session");
    let is_range = |id: &str| id.contains(" to ") || id.starts_with("before ");
    let ids = included.map(|row| &*row.id);
    for id in ids.chain(excluded.clone().map(|row| &*row.id)) {
        if let Some(times) = times.get_mut(id) {
            *times += 1;
        }
    }
    let cut: BTreeSet<&str> = excluded
        .clone()
        .filter(|row| row.code.as_str() == "cut_from_path" && !is_range(&row.id))
        .map(|row| row.id.rsplit(" for ").next().unwrap())
        .collect();
    let mut cut = cut.len() as u64;
    let place = |name: &str| path.iter().position(|one| one == name).unwrap();
    for row in excluded.filter(|row| is_range(&row.id)) {
        let (from, to) = match row.id.split_once(" to ") {
            Some((from, to)) => (place(from), place(to) + 1),
            None => (0, place(row.id.strip_prefix("before ").unwrap())),
        };
        let mut held = 0;
        for name in &path[from..to] {
            let times = times.get_mut(&**name).unwrap();
            held += u64::from(*times == 0);
            *times = 1.max(*times);
        }
        let reason = row.reason.to_string();
        let said = reason
            .split_once(" node")
            .map(|(count, _)| count.parse::<u64>());
        if let Some(Ok(said)) = said {
            assert_eq!(held, said, "{}", rows(made));
        }
        cut += held;
    }
    for (name, times) in times {
        assert_eq!(times, 1, "{name} of {path:?}\n{}", rows(made));
    }
    cut
}

fn check(made: &Assembled, path: &[String], flagged: &BTreeSet<String>, request: &Request) {
    let text = made.render(Format::Text).unwrap();
    let used = made.report.budget.used;
    assert!(used <= made.report.budget.effective, "{used}");
    if request.model.as_deref() == Some("gpt-4o") {
        let counted = OpenAi::new(Encoding::O200k).count(&text);
        assert!(counted <= used, "{counted} of {used}");
    }
    for name in flagged {
        assert!(
            !text.contains(&format!("({name}) ")),
            "{name} is there\n{text}"
        );
    }
    let cut = check_rows(made, path);
    if let Some((_, behind)) = text.split_once("[... ")
        && let Some((count, _)) = behind.split_once(" node")
        && let Ok(count) = count.replace(',', "").parse::<u64>()
    {
        assert_eq!(count, cut, "{}\n{text}", rows(made));
    }
    if text.contains("word") && request.working_buffer.is_some() {
        assert!(text.ends_with("And so"), "{text}");
    }
    for format in [
        Format::Anthropic,
        Format::Gemini,
        Format::OpenAiChat,
        Format::OpenAiResponses,
        Format::OpenAiCompletions,
    ] {
        let own = match format {
            Format::Anthropic => "claude",
            Format::Gemini => "gemini",
            _ => "gpt",
        };
        if !request.model.as_deref().unwrap().starts_with(own) {
            continue;
        }
        if let Err(refused) = made.render(format) {
            let stated = ["user_last", "no_blank_text", "not_blank"];
            // The budget may be too small for the line before a model's
            // message.
            let no_room = refused.rule.ends_with("user_first") && made.report.budget.available < 40;
            let is_stated = stated.iter().any(|rule| refused.rule.ends_with(rule)) || no_room;
            assert!(is_stated, "{format:?} {refused:?}\n{text}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_warm_engine_returns_the_same_as_a_new_one(case in cases()) {
        let lab = Lab::new("[snapshots]\nkeep = false");
        let document = line(&case);
        lab.engine.import_tree(&document, Some(now())).unwrap();
        let mut grown = Grown {
            lab,
            nodes: document.nodes.iter().map(|node| node.id.clone()).collect(),
            edges: Vec::new(),
            clock: now().as_second(),
        };
        for event in &case.events {
            grown.happen(event);
            let request = grown.request(event);
            let lab = &grown.lab;
            let warm = lab.engine.assemble(&lab.root, &request);
            let new = Engine::for_root(&lab.root).unwrap().with_store(lab.store.clone())
                .with_mark_key(contexture::core::guard::MarkKey::from_text("test"));
            let cold = new.assemble(&lab.root, &request);
            let (warm, cold) = match (warm, cold) {
                (Ok(warm), Ok(cold)) => (warm, cold),
                (Err(warm), Err(cold)) => {
                    prop_assert_eq!(warm.to_string(), cold.to_string());
                    prop_assert!(warm.is_input(), "{}", warm);
                    continue;
                }
                (warm, cold) => {
                    prop_assert!(false, "{:?} {:?}", warm.err(), cold.err());
                    continue;
                }
            };
            prop_assert_eq!(warm.render(Format::Text).unwrap(), cold.render(Format::Text).unwrap());
            prop_assert_eq!(account(&warm), account(&cold));
            // A window may end before branches meet that the request does not
            // choose from.
            let Ok(path) = lab.engine.tree_path(&request) else {
                prop_assert!(new.tree_path(&request).is_err());
                continue;
            };
            let again = new.tree_path(&request).unwrap();
            prop_assert_eq!(&path, &again);
            let path: Vec<String> = path.into_iter().map(|node| node.local_id).collect();
            let nodes = lab.store.skeleton("t").unwrap().nodes;
            let flagged = nodes.iter().filter(|(node, _)| node.flags.excluded || node.flags.pruned);
            let flagged: BTreeSet<String> = flagged.map(|(node, _)| node.id.clone()).collect();
            check(&warm, &path, &flagged, &request);
        }
        // And so does one that gets the tree as a whole.
        let lab = &grown.lab;
        let other = Lab::new("[snapshots]\nkeep = false");
        let document = lab.store.export_tree("t").unwrap();
        other.engine.import_tree(&document, Some(now())).unwrap();
        if let Some(event) = case.events.last() {
            let request = grown.request(event);
            // Settings are part of the document.
            let document = lab.store.export_tree("t").unwrap();
            other.engine.import_tree(&document, Some(now())).unwrap();
            let (one, two) = (lab.engine.assemble(&lab.root, &request), other.engine.assemble(&other.root, &request));
            match (one, two) {
                (Ok(one), Ok(two)) => prop_assert_eq!(one.render(Format::Text).unwrap(), two.render(Format::Text).unwrap()),
                (Err(one), Err(two)) => prop_assert_eq!(one.to_string(), two.to_string()),
                _ => prop_assert!(false),
            }
        }
    }
}
