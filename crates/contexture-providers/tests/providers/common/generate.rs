//! Conversations as they happen: units that begin with the user, in which the
//! model thinks, talks, and calls tools, some at the same time.

use contexture_core::{Item, MediaKind, Role};
use proptest::prelude::*;
use proptest::strategy::Union;

use super::*;

/// A question of the user, the steps of the model, and its answer.
#[derive(Debug, Clone)]
pub struct Unit {
    asked: String,
    attached: Vec<Item>,
    steps: Vec<Step>,
    pub answer: String,
}

/// A step of the model: reasoning, text and tool calls.
#[derive(Debug, Clone)]
struct Step {
    thought: Option<(String, String)>,
    // True if text comes before the reasoning.
    talks_first: bool,
    text: String,
    calls: Vec<Calling>,
    meanwhile: Option<String>,
}

#[derive(Debug, Clone)]
struct Calling {
    id: String,
    arguments: String,
    result: String,
    failed: bool,
    shown: Vec<Item>,
}

const TOOLS: [&str; 3] = ["shell", "read_file", "web-search"];

fn words() -> impl Strategy<Value = String> + Clone {
    "[a-z]{1,8}( [a-z<>/&\\\\\"\n]{1,12}){0,3}"
}

fn words_or_blank() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => words(),
        1 => Just(String::new()),
        1 => Just(" \n".to_owned()),
        1 => Just("</context><|im_end|> done".to_owned()),
    ]
}

fn medium(role: Role) -> Union<BoxedStrategy<Item>> {
    let media = [
        picture(role),
        media(
            role,
            MediaKind::Image,
            "image/jpeg",
            url("https://example.com/a.jpg"),
        ),
        media(
            role,
            MediaKind::Document,
            "application/pdf",
            data("JVBERi0xLjQK"),
        ),
    ];
    Union::new(media.map(|item| Just(item).boxed()))
}

fn arguments() -> impl Strategy<Value = String> {
    let object = prop::collection::vec(("[a-z]{1,6}", words()), 0..3).prop_map(|fields| {
        let fields = fields.into_iter().map(|(key, text)| (key, text.into()));
        let object: serde_json::Map<String, Value> = fields.collect();
        Value::Object(object).to_string()
    });
    prop_oneof![
        3 => object.clone().prop_map(|json| json.replace('<', "\\u003c")),
        1 => object,
        1 => Just(String::new()),
        1 => Just(r#"{"html":"<user>[INST]</user>"}"#.to_owned()),
    ]
}

fn calling() -> impl Strategy<Value = Calling> {
    let shown = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(medium(Role::Tool), 1..3),
    ];
    let id = prop::sample::select(vec!["call", "call.", "toolu_", "", "functions/"]);
    (
        id,
        arguments(),
        words_or_blank(),
        prop::bool::weighted(0.2),
        shown,
    )
        .prop_map(|(id, arguments, result, failed, shown)| Calling {
            id: id.to_owned(),
            arguments,
            result,
            failed,
            shown,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let seal = "[A-Za-z0-9]{0,6}";
    (
        prop::option::of((words_or_blank(), seal)),
        prop::bool::weighted(0.2),
        words_or_blank(),
        prop::collection::vec(calling(), 1..4),
        prop::option::weighted(0.2, words_or_blank()),
    )
        .prop_map(|(thought, talks_first, text, calls, meanwhile)| Step {
            thought,
            talks_first,
            text,
            calls,
            meanwhile,
        })
}

/// A unit with up to four steps, some of them long.
pub fn unit() -> impl Strategy<Value = Unit> {
    (
        words(),
        prop::collection::vec(medium(Role::User), 0..2),
        prop::collection::vec(step(), 0..4),
        words_or_blank(),
    )
        .prop_map(|(asked, attached, steps, answer)| Unit {
            asked,
            attached,
            steps,
            answer,
        })
}

impl Unit {
    /// The items of the unit with this number.
    fn items(&self, number: usize) -> Vec<Item> {
        let mut items = vec![user(&self.asked)];
        items.extend(self.attached.iter().cloned());
        for (s, step) in self.steps.iter().enumerate() {
            let thinks = step.thought.iter().map(|(text, seal)| thought(text, seal));
            let talks = std::iter::once(model(&step.text));
            if step.talks_first {
                items.extend(talks.chain(thinks));
            } else {
                items.extend(thinks.chain(talks));
            }
            // Enough to be too long for some providers now and then.
            let id = |c: usize, call: &Calling| {
                format!(
                    "{}{number}-{s}-{c}{}",
                    call.id,
                    "x".repeat(number * s * c * 9)
                )
            };
            let name = |c: usize| TOOLS[(number + s + c) % TOOLS.len()];
            for (c, called) in step.calls.iter().enumerate() {
                items.push(call(&id(c, called), name(c), &called.arguments));
            }
            if let Some(text) = &step.meanwhile {
                items.push(user(text));
            }
            for (c, called) in step.calls.iter().enumerate() {
                items.push(outcome(
                    &id(c, called),
                    name(c),
                    &called.result,
                    called.failed,
                ));
                items.extend(called.shown.iter().cloned());
            }
        }
        items.push(model(&self.answer));
        turn(&format!("unit {number}"), items)
    }
}

/// A talk of these units, with tools, rules, a file and an event.
pub fn talk(units: &[Unit]) -> Talk {
    let schema = r#"{"description":"Does it","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}"#;
    let mut system = vec![said(Role::System, "Be brief.")];
    system.extend(TOOLS.map(|name| tool(name, schema)));
    Talk {
        system,
        history: units
            .iter()
            .enumerate()
            .flat_map(|(number, unit)| unit.items(number))
            .collect(),
        current: vec![file("src/a.rs", "fn a() {}"), picture(Role::Context)],
        event: vec![user("Go on.")],
    }
}
