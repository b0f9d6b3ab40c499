//! Properties of every tree.

use std::sync::Arc;

use contexture::store::{
    Author, Edge, EdgeKind, EdgeSource, Flags, MessageContent, Node, Preferences, SourceRole,
    TreeDocument, TreeMode, TruncationStrategy,
};
use contexture::tokens::{Encoding, OpenAi, TokenCounter as _};
use contexture::{Assembled, Format, Request, Timestamp};
use proptest::prelude::*;

use crate::support::{Lab, now, request_of, tree};

/// A node of a generated tree: its parent, its kind and its text.
#[derive(Debug, Clone)]
struct Seed {
    after: usize,
    model: bool,
    flags: u8,
    kind: u8,
    words: u8,
    lines: bool,
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let seed = (
        0..4_usize,
        any::<bool>(),
        0..10_u8,
        0..12_u8,
        0..60_u8,
        any::<bool>(),
    )
        .prop_map(|(after, model, flags, kind, words, lines)| Seed {
            after,
            model,
            flags,
            kind,
            words,
            lines,
        });
    prop::collection::vec(seed, 1..30)
}

#[derive(Debug, Clone)]
struct Case {
    seeds: Vec<Seed>,
    buffer: bool,
    with_system: bool,
    strategy: TruncationStrategy,
    minimum: usize,
    budget: u64,
    shuffle: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let strategy = prop_oneof![
        3 => Just(TruncationStrategy::TruncateMiddle),
        2 => Just(TruncationStrategy::RollingWindow),
        1 => Just(TruncationStrategy::StopAtLimit),
    ];
    (
        seeds(),
        any::<bool>(),
        any::<bool>(),
        strategy,
        0..7_usize,
        prop_oneof![20..120_u64, 100..900_u64],
        any::<u64>(),
    )
        .prop_map(
            |(seeds, buffer, with_system, strategy, minimum, budget, shuffle)| Case {
                seeds,
                buffer,
                with_system,
                strategy,
                minimum,
                budget,
                shuffle,
            },
        )
}

const SYSTEM: &str = "Say what you see, and nothing else.";

/// Returns the tree of a case. Each node contains its own name: `<n7>`.
fn document(case: &Case) -> TreeDocument {
    let mut document = tree("");
    document.tree.mode = match case.buffer {
        true => TreeMode::Buffer,
        false => TreeMode::Dialogue,
    };
    document.tree.system_context = Some(SYSTEM.to_owned());
    document.tree.buffer_mode_system_context = case.with_system;
    document.tree.preferences = Preferences {
        truncation_strategy: Some(case.strategy),
        minimum_recent_nodes: Some(case.minimum),
        token_buffer: Some(0),
    };
    let start = now().as_second() - 100_000;
    for (i, seed) in case.seeds.iter().enumerate() {
        let id = format!("n{i}");
        let between = if seed.lines { "\n" } else { " " };
        let words: Vec<String> = (0..seed.words).map(|w| format!("word{w}")).collect();
        let text = match (seed.words, case.buffer) {
            (0, _) => " ".to_owned(),
            _ => format!("({id}){between}{}", words.join(between)),
        };
        let before = i.checked_sub(1 + seed.after % i.max(1));
        let before = before.map(|at| format!("n{at}"));
        let is_edit = seed.kind == 0 && i > 0;
        document.nodes.push(Node {
            id: id.clone(),
            local_id: None,
            author: if seed.model {
                Author::Model
            } else {
                Author::Human
            },
            author_agent_id: None,
            content: MessageContent::Text(text),
            edited_from: before.clone().filter(|_| is_edit),
            metadata: Some(Flags {
                excluded: seed.flags == 0,
                pruned: seed.flags == 1,
                bookmarked: seed.flags == 2,
            }),
            // Some were written at the same time.
            created_at: Some(Timestamp::from_second(start + (i / 2) as i64).unwrap()),
            raw_response: None,
        });
        let Some(before) = before.filter(|_| !is_edit) else {
            continue;
        };
        let mut sources = vec![EdgeSource {
            node_id: before,
            role: SourceRole::Primary,
        }];
        if let 1 | 2 = seed.kind {
            let material = format!("m{i}");
            document.nodes.push(Node {
                id: material.clone(),
                content: MessageContent::Text(format!("({material}) material")),
                edited_from: None,
                ..document.nodes[document.nodes.len() - 1].clone()
            });
            sources.push(EdgeSource {
                node_id: material,
                role: match seed.kind {
                    1 => SourceRole::Instruction,
                    _ => SourceRole::Context,
                },
            });
        }
        document.edges.push(Edge {
            id: format!("e{i}"),
            kind: match seed.kind {
                3 => EdgeKind::Annotation,
                _ => EdgeKind::Continuation,
            },
            sources,
            target_node_id: id,
        });
    }
    document
}

fn shuffled<T>(items: &mut [T], mut seed: u64) {
    for i in (1..items.len()).rev() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items.swap(i, (seed >> 33) as usize % (i + 1));
    }
}

/// Returns the names of nodes in a text, in order.
fn named(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in text.split('(').skip(1) {
        if let Some((name, _)) = part.split_once(')')
            && name.starts_with(['n', 'm'])
            && name[1..].bytes().all(|byte| byte.is_ascii_digit())
        {
            names.push(name.to_owned());
        }
    }
    names
}

fn nodes_of(assembled: &Assembled) -> Vec<(String, u64)> {
    let rows = assembled.report.included.iter();
    let nodes = rows.filter(|row| &*row.layer == "session" && row.id.starts_with('n'));
    nodes.map(|row| (row.id.to_string(), row.tokens)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn laws(case in cases()) {
        let document = document(&case);
        let head = document.nodes.iter().rev().find(|node| node.id.starts_with('n'));
        let head = format!("--head {}", head.unwrap().id);
        let lab = Lab::new("[snapshots]\nkeep = false");
        lab.engine.import_tree(&document, Some(now())).unwrap();

        // The same in any order of records.
        let other = Lab::new("[snapshots]\nkeep = false");
        let mut mixed = document.clone();
        shuffled(&mut mixed.nodes, case.shuffle);
        shuffled(&mut mixed.edges, case.shuffle ^ 7);
        other.engine.import_tree(&mixed, Some(now())).unwrap();

        let request = Request { max_tokens: Some(case.budget), format: Some(Format::Text), ..request_of(&head) };
        let made = lab.engine.assemble(&lab.root, &request);
        let again = other.engine.assemble(&other.root, &request);
        match (&made, &again) {
            (Ok(made), Ok(again)) => {
                prop_assert_eq!(made.render(Format::Text).unwrap(), again.render(Format::Text).unwrap());
            }
            (Err(made), Err(again)) => prop_assert_eq!(made.to_string(), again.to_string()),
            _ => prop_assert!(false, "one of two fails"),
        }

        // With all the room there is, the whole path is there.
        let all = Request { max_tokens: Some(100_000), ..request.clone() };
        let Ok(whole) = lab.engine.assemble(&lab.root, &all) else {
            prop_assert!(made.is_err());
            return Ok(());
        };
        let path = nodes_of(&whole);
        let everything = whole.render(Format::Text).unwrap();
        let flags = |name: &str| document.nodes.iter().find(|node| node.id == name).unwrap().flags();
        for name in named(&everything) {
            prop_assert!(!flags(&name).excluded && !flags(&name).pruned, "{} is there", name);
        }
        let has_system = !case.buffer || case.with_system;
        prop_assert_eq!(everything.contains(SYSTEM), has_system);
        if case.buffer && !case.with_system {
            // No byte that the authors did not write.
            let text = |name: &str| {
                let node = document.nodes.iter().find(|node| node.id == name).unwrap();
                match &node.content {
                    MessageContent::Text(text) => text.clone(),
                    MessageContent::Blocks(_) => String::new(),
                }
            };
            let joined: String = path.iter().map(|(name, _)| text(name)).collect();
            prop_assert_eq!(&everything, &joined);
        }

        let made = match made {
            Ok(made) => made,
            Err(error) => {
                // Only for want of room.
                let needs = whole.report.budget.used;
                prop_assert!(needs > case.budget, "{}: {} of {}", error, needs, case.budget);
                return Ok(());
            }
        };
        let text = made.render(Format::Text).unwrap().replace(&format!("-{}", made.layout.mark), "");
        prop_assert!(made.report.budget.used <= case.budget);
        let counted = OpenAi::new(Encoding::O200k).count(&text);
        prop_assert!(counted <= case.budget, "{} of {}", counted, case.budget);
        prop_assert_eq!(text.contains(SYSTEM), has_system);

        let kept: Vec<String> = nodes_of(&made).into_iter().map(|(name, _)| name).collect();
        prop_assert!(!kept.is_empty(), "no message");
        // In the order of the path.
        let mut rest = path.iter();
        for name in &kept {
            prop_assert!(rest.any(|(other, _)| other == name), "{} out of order", name);
        }
        if case.strategy == TruncationStrategy::StopAtLimit {
            prop_assert_eq!(kept.len(), path.len());
        }

        // The latest nodes are included whenever they fit, with their context
        // sources.
        let rows = whole.report.included.iter();
        let others: u64 = rows.clone().filter(|row| &*row.layer != "session").map(|row| row.tokens).sum();
        // A blank node whose context source is sent is one of them.
        let node_of = |id: &Arc<str>| match id.rsplit_once(" for ") {
            Some((_, node)) => node.to_owned(),
            None => id.to_string(),
        };
        let mut latest: Vec<String> = Vec::new();
        for row in rows.clone().rev().filter(|row| &*row.layer == "session") {
            let node = node_of(&row.id);
            if !latest.contains(&node) && latest.len() < case.minimum {
                latest.push(node);
            }
        }
        let of_latest = |id: &Arc<str>| latest.contains(&node_of(id));
        let needed: u64 = rows
            .filter(|row| &*row.layer == "session" && of_latest(&row.id))
            .map(|row| row.tokens)
            .sum();
        if others + needed <= case.budget {
            for (name, _) in path.iter().filter(|(name, _)| latest.contains(name)) {
                let row = made.report.included.iter().find(|row| *row.id == **name);
                prop_assert!(row.is_some_and(|row| !row.truncated), "{} is not whole", name);
            }
        }
    }
}
