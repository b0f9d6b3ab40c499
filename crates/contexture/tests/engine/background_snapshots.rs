//! Requests that are used before they are on disk.

use std::sync::{Arc, Mutex};

use crate::support::*;
use contexture::snapshot::{Saved, find};
use contexture::source::Account;
use contexture::store::{Store, TurnId};
use contexture::{Ask, Assembled, Engine, Error, Format, Offer, Recipe, Request, Source};
use contexture_sqlite::{Options, SqliteStore};

const CONFIG: &str = "model = \"gpt-4o\"";

/// Returns a project whose engine does not wait for the disk.
fn lab() -> Lab {
    let mut lab = Lab::new(CONFIG);
    let config =
        contexture::config::Config::parse(&format!("recipe = \"broker\"\n{CONFIG}")).unwrap();
    lab.engine = Engine::builder()
        .config(config)
        .store(Arc::clone(&lab.store) as _)
        .background_snapshots()
        .build()
        .unwrap();
    lab
}

fn ask(lab: &Lab, label: &str, event: &str) -> Assembled {
    let request = Request {
        event: Some(event.into()),
        ..request(label, 20_000)
    };
    lab.engine.assemble(&lab.root, &request).unwrap()
}

/// Fails unless all requests in a store are whole.
fn check_all(store: &dyn Store) -> usize {
    let all = store.snapshots(None, 10_000).unwrap();
    for snapshot in &all {
        Saved::load(store, snapshot).unwrap().check(store).unwrap();
    }
    all.len()
}

#[test]
fn a_request_is_found_as_soon_as_it_is_made() {
    let lab = lab();
    lab.session("s");
    for number in 0..50 {
        let made = ask(&lab, "s", &format!("Question {number}?"));
        let found = find(&*lab.store, made.snapshot.as_deref().unwrap()).unwrap();
        assert_eq!(found.tokens, made.report.budget.used);
        // The cache report compares the request with the one just before.
        assert_eq!(made.report.cache.is_some(), number > 0);
    }
    assert_eq!(check_all(&*lab.store), 50);
}

#[test]
fn a_turn_is_not_recorded_before_the_request_that_it_answers() {
    let lab = lab();
    lab.session("s");
    for number in 0..20 {
        let made = ask(&lab, "s", &format!("Question {number}?"));
        let turn = exchange(&format!("Question {number}?"), "An answer.");
        lab.record("s", &turn);
        let turns = lab.engine.history("s", 1).unwrap();
        assert_eq!(turns[0].turn.request_hash, made.snapshot);
    }
}

#[test]
fn pending_snapshots_are_saved_at_the_end() {
    let lab = lab();
    lab.session("s");
    let made: Vec<String> = (0..200)
        .map(|number| {
            ask(&lab, "s", &format!("Question {number}?"))
                .snapshot
                .clone()
                .unwrap()
        })
        .collect();
    let Lab {
        dir, store, engine, ..
    } = lab;
    drop((engine, store));
    let store = SqliteStore::open(dir.path().join("lab.db")).unwrap();
    assert_eq!(check_all(&store), 200);
    for hash in made {
        find(&store, &hash).unwrap();
    }
}

#[test]
fn several_threads_ask_for_one_session() {
    let lab = lab();
    lab.talk("s", &[exchange("Hello.", "Hello.")]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let lab = &lab;
            scope.spawn(move || {
                for number in 0..25 {
                    ask(lab, "s", &format!("Question {thread}.{number}?"));
                }
            });
        }
    });
    assert_eq!(check_all(&*lab.store), 200);
}

#[test]
fn a_snapshot_that_cannot_be_saved_is_a_warning_and_leaves_no_part() {
    let lab = Lab::new(CONFIG);
    lab.session("s");
    // From here on there is hardly room for anything.
    let path = lab.dir.path().join("lab.db");
    let options = Options {
        max_bytes: Some(std::fs::metadata(&path).unwrap().len() + (256 << 10)),
        ..Options::default()
    };
    let small: Arc<dyn Store> = Arc::new(SqliteStore::open_with(&path, options).unwrap());
    let config = format!("recipe = \"broker\"\n{CONFIG}");
    let config = contexture::config::Config::parse(&config).unwrap();
    let engine = Engine::builder()
        .config(config)
        .store(Arc::clone(&small))
        .background_snapshots()
        .build()
        .unwrap();
    let mut told = 0;
    for number in 0..40 {
        let long = "A long question. ".repeat(600);
        let asked = Request {
            event: Some(format!("{number}: {long}").as_str().into()),
            ..request("s", 20_000)
        };
        let made = engine.assemble(&lab.root, &asked).unwrap();
        let warned = made.report.warnings.iter();
        told += warned
            .filter(|warning| warning.message.contains("was not saved"))
            .count();
    }
    assert!(told > 0);
    let kept = check_all(&*small);
    assert!((1..40).contains(&kept), "{kept}");
    // With room again, it goes on by itself.
    let made = ask(&lab, "s", "And now?");
    find(&*lab.store, made.snapshot.as_deref().unwrap()).unwrap();
    assert_eq!(check_all(&*lab.store), kept + 1);
}

/// A source that deletes turns of a session after they were read.
struct Deletes(Arc<dyn Store>, Mutex<Option<Deletion>>);

#[derive(Clone, Copy)]
enum Deletion {
    Before(TurnId),
    Session,
}

impl Source for Deletes {
    fn name(&self) -> &str {
        "deletes"
    }

    fn gather(&self, _: &Ask<'_>) -> Result<Offer, Error> {
        Ok(Offer::default())
    }

    fn account(&self, _: &Ask<'_>, _: &mut Account<'_>) -> Result<(), Error> {
        match self.1.lock().unwrap().take() {
            Some(Deletion::Before(turn)) => drop(self.0.delete_turns_before("s", turn).unwrap()),
            Some(Deletion::Session) => drop(self.0.delete_session("s").unwrap()),
            None => {}
        }
        Ok(())
    }
}

#[test]
fn a_request_in_progress_does_not_save_deleted_text() {
    let recipe = "recipe: deleting\nlayers: [{layer: history, source: history}, \
                  {layer: none, source: deletes}, {layer: event, source: event}]\n";
    for (in_background, session) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut lab = Lab::new(CONFIG);
        lab.session("s");
        lab.record("s", &exchange("My number is 4711.", "Noted."));
        lab.record("s", &exchange("Hello.", "Hello."));
        let last = lab.store.session("s").unwrap().head.unwrap();
        let deletion = match session {
            true => Deletion::Session,
            false => Deletion::Before(last),
        };
        let source = Deletes(Arc::clone(&lab.store), Mutex::new(Some(deletion)));
        let config = contexture::config::Config::parse(CONFIG).unwrap();
        let mut builder = Engine::builder()
            .config(config)
            .store(Arc::clone(&lab.store) as _)
            .source(source);
        if in_background {
            builder = builder.background_snapshots();
        }
        lab.engine = builder.build().unwrap();
        let asked = || Request {
            recipe: Some(Recipe::parse("deleting", recipe).unwrap().into()),
            event: Some("Which number?".into()),
            ..request("s", 20_000)
        };
        let made = lab.engine.assemble(&lab.root, &asked()).unwrap();
        assert!(made.render(Format::OpenAiChat).unwrap().contains("4711"));
        assert_eq!(lab.store.snapshots(None, 9).unwrap(), []);
        assert_eq!(lab.store.usage().unwrap().snapshots, 0);
        let warning = "its session, or turns in it, were deleted meanwhile";
        let warns = |made: &Assembled| {
            let mut warnings = made.report.warnings.iter();
            warnings.any(|it| it.code == "not_kept" && it.message.contains(warning))
        };
        assert_eq!(warns(&made), !in_background);
        if !session {
            // The next request contains what is left, and is saved.
            let next = lab.engine.assemble(&lab.root, &asked()).unwrap();
            assert!(!next.render(Format::OpenAiChat).unwrap().contains("4711"));
            assert_eq!(warns(&next), in_background);
            assert_eq!(check_all(&*lab.store), 1);
        }
    }
}
