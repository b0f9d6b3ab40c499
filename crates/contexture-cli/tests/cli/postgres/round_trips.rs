//! The number of round trips of the library to the database.

use std::sync::Arc;

use contexture::config::Config;
use contexture::store::{Ledger as _, NewSession, NewTurn};
use contexture::{Engine, Request, Root};
use contexture_postgres::PostgresStore;

use super::database;
use crate::support::Project;

struct Lab {
    root: Root,
    store: PostgresStore,
    engine: Engine,
}

impl Lab {
    fn new(project: &Project, url: &str) -> Self {
        let root = Root::open(project.path(".")).unwrap();
        let store = PostgresStore::open(url).unwrap();
        let engine = Engine::new(Config::default(), &root).unwrap();
        let engine = engine.with_store(Arc::new(store.clone()));
        Self {
            root,
            store,
            engine,
        }
    }

    /// Returns what `work` returns, and how many round trips it took.
    fn counted<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let before = self.store.backend().round_trips();
        let done = work();
        (done, self.store.backend().round_trips() - before)
    }

    /// Assembles a request. Returns its hash and the round trips it took.
    fn assemble(&self, event: &str) -> (Option<String>, u64) {
        let request = serde_json::from_value::<Request>(serde_json::json!({
            "recipe": "broker", "session": "main", "event": event}));
        let request = request.unwrap();
        let (assembled, trips) = self.counted(|| self.engine.assemble(&self.root, &request));
        (assembled.unwrap().snapshot.clone(), trips)
    }

    /// Records the answer to a request. Returns the round trips it took.
    fn record(&self, event: &str, request: Option<String>) -> u64 {
        let turn = serde_json::from_value::<NewTurn>(serde_json::json!({
            "messages": [{"role": "user", "content": event},
                {"role": "assistant", "content": "Because."}],
            "request_hash": request}));
        let turn = turn.unwrap();
        let (recorded, trips) = self.counted(|| self.engine.record("main", &turn, None));
        recorded.unwrap();
        trips
    }
}

#[test]
fn a_warm_assembly_and_a_turn_take_few_round_trips() {
    let project = Project::new();
    let lab = Lab::new(&project, &database("trips"));
    let new = NewSession {
        label: "main".to_owned(),
        ..NewSession::default()
    };
    let now = contexture::Timestamp::now();
    lab.store.create_session(&new, now).unwrap();
    for event in ["Why?", "And then?"] {
        let (request, _) = lab.assemble(event);
        lab.record(event, request);
    }
    // Read what was recorded last.
    lab.assemble("What now?");
    // The session, its pins, its latest request, samples and the state of memory
    // together: 1. The request and its report: 1.
    let (request, trips) = lab.assemble("And what else?");
    assert_eq!(trips, 2);
    // One round trip reads ahead, two record the turn.
    assert_eq!(lab.record("And what else?", request), 3);
}
