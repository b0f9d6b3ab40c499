//! Extensions of the engine by a program, and their failures.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Lab, says, turn, user};
use contexture::core::{Code, Item, Role, Text, TokenCounter, Tokens, Trust};
use contexture::store::{EventRecord, NewTask, Record};
use contexture::{
    Ask, Assembled, Engine, EngineBuilder, Error, Event, Format, Offer, Outcome, Parameter,
    ParameterKind, Recipe, RecipeLayer, Request, Root, Source, Timestamp, recipes,
};
use contexture_sqlite::SqliteStore;
use serde_json::json;

/// A source that is implemented by a closure.
struct Does<F>(&'static str, F);

impl<F: Fn(&Ask<'_>) -> Result<Offer, Error> + Send + Sync> Source for Does<F> {
    fn name(&self) -> &str {
        self.0
    }

    fn parameters(&self) -> &[Parameter] {
        const PARAMETERS: &[Parameter] = &[
            Parameter::new("words", ParameterKind::Texts, "What to say."),
            Parameter::new("loud", ParameterKind::Flag, "Whether to shout."),
            Parameter::new("tone", ParameterKind::Word(&["kind", "curt"]), "How."),
        ];
        PARAMETERS
    }

    fn gather(&self, ask: &Ask<'_>) -> Result<Offer, Error> {
        (self.1)(ask)
    }
}

fn item(id: &str, text: &str) -> Item {
    Item::new(id, Role::Context, Text::new(text))
}

/// Says its parameter.
fn says_words(ask: &Ask<'_>) -> Result<Offer, Error> {
    let words = ask.texts("words").unwrap_or_default();
    let shout = ask.flag("loud").unwrap_or(false);
    let items = words.iter().map(|word| match shout {
        true => item(word, &word.to_uppercase()),
        false => item(word, word),
    });
    Ok(items.collect::<Vec<_>>().into())
}

struct Bench {
    root: Root,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            root: Root::open(directory.path()).unwrap(),
            _directory: directory,
        }
    }

    fn assemble(&self, builder: EngineBuilder, recipe: &str) -> Result<Assembled, Error> {
        let request = Request {
            recipe: Some(Recipe::parse("mine.yml", recipe)?.into()),
            model: Some("gpt-4o".to_owned()),
            event: Some("Go on.".into()),
            ..Request::default()
        };
        builder.build()?.assemble(&self.root, &request)
    }

    #[track_caller]
    fn refuses(&self, builder: EngineBuilder, recipe: &str, expected: &str) {
        let error = self.assemble(builder, recipe).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn with(source: impl Source + 'static) -> EngineBuilder {
    Engine::builder().source(source)
}

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// Records an event of a day in February.
fn remember(lab: &Lab, id: &str, kind: &str, day: u32, text: &str) {
    let event: EventRecord = serde_json::from_value(json!({
        "id": id,
        "type": kind,
        "content": text,
        "timestamp": format!("2026-02-{day:02}T10:00:00Z"),
    }))
    .unwrap();
    let memory = lab.engine.memory().unwrap();
    memory
        .record(vec![Record::Event(event)], Some(now()))
        .unwrap();
}

const MINE: &str =
    "recipe: mine\nlayers:\n- {layer: a, source: mine}\n- {layer: b, source: event}\n";

#[test]
fn a_source_may_be_used_twice_with_other_parameters() {
    let bench = Bench::new();
    let recipe = "
recipe: mine
layers:
  - {layer: first, source: mine, with: {words: [one, two]}}
  - {layer: second, source: mine, with: {words: [one], loud: true, tone: kind}}
  - {layer: the question, source: event}
";
    let made = bench
        .assemble(with(Does("mine", says_words)), recipe)
        .unwrap();
    let rows: Vec<(&str, &str)> = made
        .report
        .included
        .iter()
        .map(|row| (&*row.layer, &*row.id))
        .collect();
    assert_eq!(
        rows,
        [
            ("first", "one"),
            ("first", "two"),
            ("second", "one"),
            ("the question", "event")
        ]
    );
    assert!(made.render(Format::Text).unwrap().contains("\nONE\n"));
}

#[test]
fn a_recipe_may_be_a_value_and_the_request_may_give_parameters() {
    let bench = Bench::new();
    let engine = with(Does("mine", says_words)).build().unwrap();
    let recipe = Recipe::new(
        "made",
        vec![
            RecipeLayer::new("a", "mine").with("words", vec!["from the recipe"]),
            RecipeLayer::new("b", "mine").with("words", json!(["$event"])),
        ],
    );
    let mut request = Request {
        recipe: Some(recipe.clone().into()),
        model: Some("gpt-4o".to_owned()),
        event: Some("Hello.".into()),
        ..Request::default()
    };
    let text = |request: &Request| {
        let made = engine.assemble(&bench.root, request).unwrap();
        made.render(Format::Text)
            .unwrap()
            .replace(&format!("-{}", made.layout.mark), "")
    };
    assert!(text(&request).contains("from the recipe"));
    let own = json!({"a": {"words": ["from the request"]}});
    request.with = serde_json::from_value(own).unwrap();
    assert!(text(&request).contains("from the request"));
    assert!(!text(&request).contains("from the recipe"));
    // What it is written as is what is read.
    let written = serde_json::to_string(&request).unwrap();
    let read: Request = serde_json::from_str(&written).unwrap();
    assert_eq!(text(&read), text(&request));
    request.with.insert("z".to_owned(), serde_json::Map::new());
    let error = engine.assemble(&bench.root, &request).unwrap_err();
    assert_eq!(error.to_string(), "unknown layer `z` (one of a, b)");
}

#[test]
fn recipe_errors_name_the_line() {
    let bench = Bench::new();
    let mine = || with(Does("mine", says_words));
    let layer = |layer: &str| format!("recipe: mine\nlayers:\n- {layer}\n");
    for (text, expected) in [
        (
            "{layer: a, source: mime}",
            "mine.yml:3:3: layers[0].source: unknown source `mime`; did you mean `mine`? (one of \
             boot, environment, event, files, history, items, loom, memory, messages, mine, persona, \
             pins, role, runtime, system, task, tasks, tools, working-set)",
        ),
        (
            "{layer: a, source: mine, with: {wrods: [x]}}",
            "mine.yml:3:35: layers[0].with.wrods: unknown parameter `wrods`; did you mean \
             `words`? (one of words, loud, tone)",
        ),
        (
            "{layer: a, source: mine, with: {loud: very}}",
            "mine.yml:3:35: layers[0].with.loud: must be true or false, not \"very\"",
        ),
        (
            "{layer: a, source: mine, with: {tone: rude}}",
            "mine.yml:3:35: layers[0].with.tone: must be one of kind, curt, not \"rude\"",
        ),
        (
            "{layer: a, source: mine, with: {words: [1], tone: $tune}}",
            "mine.yml:3:47: layers[0].with.tone: unknown field of the request `tune` (one of \
             session, event, task, query, stack, tree, head, agent, manifest, strategy)",
        ),
        (
            "{layer: a, source: runtime, with: {x: 1}}",
            "mine.yml:3:38: layers[0].with.x: the source has no parameters",
        ),
    ] {
        bench.refuses(mine(), &layer(text), expected);
    }
}

#[test]
fn a_source_that_fails_panics_or_offers_nonsense_is_an_error_of_its_request_only() {
    let bench = Bench::new();
    let fails = Does("mine", |_: &Ask<'_>| {
        Err(Error::input("the desk is closed"))
    });
    bench.refuses(with(fails), MINE, "the desk is closed");
    let panics = Does("mine", |_: &Ask<'_>| -> Result<Offer, Error> {
        panic!("lost my keys")
    });
    bench.refuses(
        with(panics),
        MINE,
        "the source `mine` panicked: lost my keys",
    );
    let twice = Does("mine", |_: &Ask<'_>| {
        Ok(vec![item("x", "1"), item("x", "2")].into())
    });
    bench.refuses(
        with(twice),
        MINE,
        "the source `mine` offers the id `x` twice for the layer `a`",
    );
    let many = Does("mine", |_: &Ask<'_>| {
        let items = (0..11).map(|n| item(&n.to_string(), "x"));
        Ok(items.collect::<Vec<_>>().into())
    });
    let config = contexture::config::Config::parse("[limits]\nmax_items = 10\n").unwrap();
    bench.refuses(
        with(many).config(config),
        MINE,
        "the source `mine` offers 11 items for the layer `a`, more than 10",
    );
    // The engine goes on.
    let engine = with(Does("mine", |ask: &Ask<'_>| match &ask.request.query {
        Some(_) => panic!("asked"),
        None => Ok(vec![item("x", "fine")].into()),
    }))
    .build()
    .unwrap();
    let request = Request {
        recipe: Some(Recipe::parse("m", MINE).unwrap().into()),
        model: Some("gpt-4o".to_owned()),
        ..Request::default()
    };
    for _ in 0..2 {
        assert!(engine.assemble(&bench.root, &request).is_ok());
        let asked = Request {
            recipe: Some(
                Recipe::parse(
                    "m",
                    "recipe: m\nlayers: [{layer: a, source: mine}, {layer: m, source: memory}]",
                )
                .unwrap()
                .into(),
            ),
            query: Some("x".to_owned()),
            ..request.clone()
        };
        assert!(engine.assemble(&bench.root, &asked).is_err());
    }
}

/// Waits for the other side, so that it can only end when both run at once.
struct Meets(&'static str, Sender<()>, Mutex<Receiver<()>>);

impl Source for Meets {
    fn name(&self) -> &str {
        self.0
    }

    fn gather(&self, _: &Ask<'_>) -> Result<Offer, Error> {
        self.1.send(()).unwrap();
        let other = self.2.lock().unwrap();
        match other.recv_timeout(Duration::from_secs(30)) {
            Ok(()) => Ok(vec![item(self.0, "met")].into()),
            Err(_) => Err(Error::input("nobody came")),
        }
    }
}

#[test]
fn sources_that_wait_are_asked_at_the_same_time() {
    let bench = Bench::new();
    let ((to_b, from_a), (to_a, from_b)) = (channel(), channel());
    let builder = Engine::builder()
        .source(Meets("a", to_b, Mutex::new(from_b)))
        .source(Meets("b", to_a, Mutex::new(from_a)));
    let recipe = "recipe: m\nlayers: [{layer: x, source: a}, {layer: y, source: b}]\n";
    let made = bench.assemble(builder, recipe).unwrap();
    assert_eq!(made.report.included.len(), 2);
}

/// Asks for more once it knows what is left.
struct Fills;

impl Source for Fills {
    fn name(&self) -> &str {
        "fills"
    }

    fn gather(&self, _: &Ask<'_>) -> Result<Offer, Error> {
        Ok(Offer::default())
    }

    fn yields(&self) -> bool {
        true
    }

    fn revise(&self, ask: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        if outcome.round() > 0 {
            return Ok(None);
        }
        let words = usize::try_from(outcome.available_tokens() / 2).unwrap();
        let _ = ask;
        Ok(Some(vec![item("fill", &"word ".repeat(words))].into()))
    }
}

#[test]
fn a_source_may_react_to_what_the_others_leave() {
    let bench = Bench::new();
    let recipe =
        "recipe: m\nlayers: [{layer: x, source: fills, max: 2000}, {layer: e, source: event}]\n";
    let made = bench.assemble(with(Fills), recipe).unwrap();
    let row = &made.report.included[0];
    assert_eq!((&*row.id, row.truncated), ("fill", true));
    assert!(row.tokens <= 2_000 && row.tokens > 1_900, "{}", row.tokens);
}

/// A time zone that nobody knows is reported. It is sent as it was given.
#[test]
fn an_unknown_time_zone_is_a_warning() {
    let bench = Bench::new();
    let warnings = |timezone: &str| {
        let recipe = "recipe: m\nlayers: [{layer: e, source: event, with: {context: true}}]\n";
        let request = Request {
            recipe: Some(Recipe::parse("mine.yml", recipe).unwrap().into()),
            model: Some("gpt-4o".to_owned()),
            event: Some(Event {
                timezone: Some(timezone.to_owned()),
                ..Event::from("Go on.")
            }),
            ..Request::default()
        };
        let engine = Engine::for_root(&bench.root).unwrap();
        let made = engine.assemble(&bench.root, &request).unwrap();
        let codes = made
            .report
            .warnings
            .iter()
            .map(|warning| warning.code.to_string());
        codes.collect::<Vec<_>>()
    };
    assert_eq!(warnings("Mars/X"), ["unknown_time_zone"]);
    for known in ["Europe/Berlin", "+02:00", "UTC"] {
        assert!(warnings(known).is_empty(), "{known}");
    }
}

/// Refuses a request that does not fit.
struct Refuses;

impl Source for Refuses {
    fn name(&self) -> &str {
        "refuses"
    }

    fn gather(&self, _: &Ask<'_>) -> Result<Offer, Error> {
        Ok(Offer::default())
    }

    fn revise(&self, _: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        match outcome.error() {
            Some(_) => Err(Error::input("refused")),
            None => Ok(None),
        }
    }
}

/// Pins more than fits, and less when asked again.
struct Shrinks;

impl Source for Shrinks {
    fn name(&self) -> &str {
        "shrinks"
    }

    fn gather(&self, _: &Ask<'_>) -> Result<Offer, Error> {
        Ok(vec![item("long", &"word ".repeat(300_000)).pinned()].into())
    }

    fn revise(&self, _: &Ask<'_>, outcome: &Outcome<'_>) -> Result<Option<Offer>, Error> {
        let short = || vec![item("short", "word").pinned()].into();
        Ok(outcome.error().map(|_| short()))
    }
}

#[test]
fn a_refusal_counts_only_if_no_other_source_has_a_change() {
    let bench = Bench::new();
    let builder = || with(Refuses).source(Shrinks);
    for order in [["refuses", "shrinks"], ["shrinks", "refuses"]] {
        let [first, second] = order;
        let recipe = format!(
            "recipe: m\nlayers: [{{layer: x, source: {first}}}, {{layer: y, source: {second}}}, \
             {{layer: e, source: event}}]\n"
        );
        let made = bench.assemble(builder(), &recipe).unwrap();
        assert_eq!(&*made.report.included[0].id, "short", "{order:?}");
    }
    // Nobody gives way.
    let stays = Does("stays", |_: &Ask<'_>| {
        Ok(vec![item("long", &"word ".repeat(300_000)).pinned()].into())
    });
    let recipe = "recipe: m\nlayers: [{layer: x, source: refuses}, {layer: y, source: stays}]\n";
    bench.refuses(with(Refuses).source(stays), recipe, "refused");
}

/// Costs more together than line by line.
struct Sticky;

impl TokenCounter for Sticky {
    fn name(&self) -> &str {
        "sticky"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> Tokens {
        let words = text.split_whitespace().count();
        (words + 3 * text.matches('\n').count()) as Tokens
    }
}

#[test]
fn a_counter_that_is_not_additive_still_keeps_the_budget() {
    let bench = Bench::new();
    let lines = Does("mine", |_: &Ask<'_>| {
        let items = (0..40).map(|n| item(&format!("i{n}"), "a b c\nd e f\ng h i"));
        Ok(items.collect::<Vec<_>>().into())
    });
    let engine = with(lines)
        .counter("sticky-model", Arc::new(Sticky))
        .build()
        .unwrap();
    for budget in [40, 100, 333] {
        let request = Request {
            recipe: Some(Recipe::parse("m", MINE).unwrap().into()),
            model: Some("sticky-model".to_owned()),
            max_tokens: Some(budget),
            ..Request::default()
        };
        let made = engine.assemble(&bench.root, &request).unwrap();
        assert_eq!(made.report.tokenizer.name, "sticky");
        let text = made
            .render(Format::Text)
            .unwrap()
            .replace(&format!("-{}", made.layout.mark), "");
        assert!(Sticky.count(&text) <= budget, "{budget}");
        assert!(!made.report.included.is_empty());
    }
}

#[test]
fn the_engine_has_the_parts_of_a_store_that_it_is_given() {
    let bench = Bench::new();
    let path = bench.root.path().join("c.db");
    let store = Arc::new(SqliteStore::open(path).unwrap());
    let engine = Engine::builder()
        .ledger(Arc::clone(&store) as _)
        .build()
        .unwrap();
    assert!(engine.ledger().is_ok());
    let error = engine.trees().err().unwrap();
    assert_eq!(error.to_string(), "no store for trees is configured");
    assert!(engine.memory().is_err());
}

#[test]
fn names_of_recipes_and_layers_decide_nothing() {
    // The built-in recipes under other names, with other layer names, give the
    // same request.
    let lab = Lab::new("model = \"gpt-4o\"");
    lab.session("chat");
    lab.record(
        "chat",
        &turn([user("Where is the boat?"), says("In Lisbon.")]),
    );
    remember(&lab, "e1", "note", 1, "The boat leaves at noon.");
    for name in ["broker", "memory"] {
        let text = recipes::text(name).unwrap();
        let mut other = text.replace(&format!("recipe: {name}"), "recipe: mine");
        for layer in ["session", "memory", "event", "task", "workspace"] {
            other = other.replace(
                &format!("layer: {layer}\n"),
                &format!("layer: my {layer}\n"),
            );
        }
        let request = |recipe: &str| Request {
            recipe: Some(Recipe::parse("r", recipe).unwrap().into()),
            session: (name == "broker").then(|| "chat".to_owned()),
            event: Some("When does the boat leave?".into()),
            now: Some(now()),
            ..Request::default()
        };
        let made = |recipe: &str| lab.engine.assemble(&lab.root, &request(recipe)).unwrap();
        let (usual, mine) = (made(text), made(&other));
        let ids = |made: &Assembled| -> Vec<String> {
            let rows = made.report.included.iter();
            rows.map(|row| row.id.to_string()).collect()
        };
        assert!(ids(&usual).contains(&"e1".to_owned()), "{:?}", ids(&usual));
        assert_eq!(ids(&usual), ids(&mine), "{name}");
        let text = |made: &Assembled| made.render(Format::Text).unwrap();
        assert_eq!(
            text(&usual),
            text(&mine).replace("path=\"my memory\"", "path=\"memory\"")
        );
    }
}

#[test]
fn files_history_memory_tasks_and_a_loom_in_one_recipe() {
    let lab = Lab::new("model = \"gpt-4o\"");
    lab.write("notes.md", "Ship on Friday.");
    lab.session("chat");
    lab.session("other");
    lab.record("chat", &turn([user("Who steers?"), says("Ana does.")]));
    lab.record("other", &turn([user("Who cooks?"), says("Ben cooks.")]));
    let records = [
        ("e1", "note", "The boat leaves at noon."),
        ("e2", "decision", "The boat is painted red."),
    ];
    for (id, kind, text) in records {
        remember(&lab, id, kind, 1, text);
    }
    let task = NewTask {
        goal: "Sail to Lisbon".to_owned(),
        ..NewTask::default()
    };
    lab.store.push_task("main", &task, now()).unwrap();
    let tree = r#"{"tree":{"id":"t1","mode":"dialogue"},"nodes":[
        {"id":"n1","author":"human","content":"Once upon a time","created_at":"2026-02-01T10:00:00Z"}],
        "edges":[]}"#;
    let tree = contexture::loom::tree_from_json("t1", tree).unwrap();
    lab.engine.import_tree(&tree, Some(now())).unwrap();
    let recipe = "
recipe: everything
layers:
  - {layer: rules, source: files, with: {paths: [notes.md]}, place: system}
  - {layer: goal, source: tasks, with: {part: root}, place: system}
  - layer: talk
    share: 60
    place: history
    layers:
      - {layer: theirs, source: history, with: {session: other}, fit: window, place: history, share: 50}
      - {layer: ours, source: history, fit: window, place: history, share: 50}
  - {layer: story, source: loom, with: {tree: t1, head: n1}, fit: path, place: history}
  - {layer: notes, source: memory, with: {query: boat, filters: {event_types: [note]}}, max: 300}
  - {layer: decisions, source: memory, with: {query: boat, filters: {event_types: [decision]}}, max: 300}
  - {layer: ask, source: event}
";
    let request = Request {
        recipe: Some(Recipe::parse("everything.yml", recipe).unwrap().into()),
        session: Some("chat".to_owned()),
        event: Some(Event::from("What now?")),
        now: Some(now()),
        ..Request::default()
    };
    let made = lab.engine.assemble(&lab.root, &request).unwrap();
    let text = made
        .render(Format::Text)
        .unwrap()
        .replace(&format!("-{}", made.layout.mark), "");
    for said in [
        "Ship on Friday.",
        "Goal: Sail to Lisbon",
        "Ben cooks.",
        "Ana does.",
        "Once upon a time",
        "The boat leaves at noon.",
        "The boat is painted red.",
        "What now?",
    ] {
        assert_eq!(text.matches(said).count(), 1, "{said}\n{text}");
    }
    let layer_of = |id: &str| {
        let row = made.report.included.iter().find(|row| &*row.id == id);
        row.map(|row| row.layer.to_string())
    };
    assert_eq!(layer_of("e1").as_deref(), Some("notes"));
    assert_eq!(layer_of("e2").as_deref(), Some("decisions"));
    assert_eq!(layer_of("n1").as_deref(), Some("story"));
    // Every layer is in the budget, and each candidate is a row once.
    let names: Vec<&str> = made.report.budget.layers.iter().map(|l| &*l.name).collect();
    assert_eq!(
        names,
        [
            "rules",
            "goal",
            "talk",
            "story",
            "notes",
            "decisions",
            "ask"
        ]
    );
    for format in crate::support::PROVIDERS {
        made.render(format).unwrap();
    }
    // The next request shares everything but what is new.
    let again = lab.engine.assemble(&lab.root, &request).unwrap();
    let cache = again.report.cache.clone().unwrap();
    assert_eq!(cache.first_difference, None);
}

#[test]
fn near_duplicates_of_memory_are_rows_and_the_newest_is_kept() {
    let lab = Lab::new("model = \"gpt-4o\"");
    let long = "the release train leaves on Thursdays at noon and whoever misses it waits a week";
    for (id, day, text) in [
        ("old", 1, format!("Note that {long}.")),
        ("new", 3, format!("Note that {long}!")),
        ("same", 2, format!("Note that {long}.")),
    ] {
        remember(&lab, id, "note", day, &text);
    }
    let request = Request {
        recipe: Some("memory".into()),
        query: Some("When does the release train leave?".to_owned()),
        max_tokens: Some(2_000),
        now: Some(now()),
        ..Request::default()
    };
    let made = lab.engine.assemble(&lab.root, &request).unwrap();
    let kept: Vec<&str> = made.report.included.iter().map(|row| &*row.id).collect();
    assert_eq!(kept, ["new"]);
    let rows: Vec<(&str, Code)> = made
        .report
        .excluded
        .iter()
        .map(|row| (&*row.id, row.code))
        .collect();
    assert!(!rows.is_empty());
    for (id, code) in rows {
        assert_eq!(code, Code::NEAR_DUPLICATE, "{id}");
    }
}

/// A file is an instruction only where the layer places it in the system context.
#[test]
fn files_follow_the_place_of_their_layer() {
    let lab = Lab::new("");
    lab.write("notes.md", "Ship on Friday.\n");
    for (place, is_system) in [
        ("system", true),
        ("by-role", true),
        ("history", false),
        ("current", false),
    ] {
        let recipe = format!(
            "recipe: s\nlayers:\n  - {{layer: rules, source: files, with: {{paths: [notes.md]}}, \
             place: {place}}}\n  - {{layer: ask, source: event}}\n"
        );
        let request = Request {
            recipe: Some(Recipe::parse("s.yml", &recipe).unwrap().into()),
            event: Some(Event::from("What now?")),
            format: Some(Format::Anthropic),
            now: Some(now()),
            ..Request::default()
        };
        let made = lab.engine.assemble(&lab.root, &request).unwrap();
        let body = made.render(Format::Anthropic).unwrap();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let system = body["system"].to_string();
        assert_eq!(system.contains("Ship on Friday."), is_system, "{place}");
        let messages = body["messages"].to_string();
        assert_eq!(messages.contains("Ship on Friday."), !is_system, "{place}");
        let row = &made.report.included[0];
        assert_eq!(row.trust == Trust::Operator, is_system, "{place}");
    }
}
