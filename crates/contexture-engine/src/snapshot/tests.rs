//! Requests that no engine makes by itself: joined blocks, documents, settings.
#![allow(clippy::unwrap_used)]

use contexture_core::Join;
use contexture_core::guard::Policy;
use contexture_providers::Sampling;
use contexture_sqlite::SqliteStore;
use contexture_tokens::{Encoding, OpenAi};
use proptest::prelude::*;

use super::compare::common_prefix;
use super::recent::{MOST_OF_A_SESSION, MOST_REMEMBERED, MOST_REMEMBERED_BLOCKS};
use super::*;
use crate::cache::CacheTerms;

const TERMS: CacheTerms = CacheTerms {
    time_to_live: None,
    minimum: 0,
    prices: None,
};

fn block(id: usize, role: Role, join: Join, text: &str) -> Block {
    let policy = match role {
        Role::Document => Policy::default().in_document(),
        _ => Policy::default(),
    };
    let mut block = Block::new(format!("n{id}"), "path", role, Text::guarded(text, policy));
    block.join = join;
    block.tokens = 1;
    block
}

fn made<'a>(prompt: &'a Prompt<'a>) -> NewSnapshot<'a> {
    NewSnapshot {
        session: "s",
        parent_turn: None,
        prompt,
        tokens: 9,
        counter: "o200k_base",
        agent: None,
        given: None,
        mask_secrets: true,
        keep: true,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn store() -> (tempfile::TempDir, SqliteStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("snapshots.db")).unwrap();
    (dir, store)
}

fn keep(store: &dyn Snapshots, prompt: &Prompt<'_>, previous: Option<&Saved>) -> Saved {
    let (saved, snapshot, blobs) = take(&made(prompt), previous);
    store.put_snapshot(&snapshot, &blobs).unwrap();
    let loaded = Saved::load(store, &snapshot).unwrap();
    assert_eq!(loaded, saved);
    saved
}

fn history(blocks: Vec<Block>) -> Layout {
    Layout {
        history: blocks,
        ..Layout::default()
    }
}

#[test]
fn joined_blocks_documents_and_settings_come_out_as_they_were() {
    let (_dir, store) = store();
    let joined = history(vec![
        block(1, Role::User, Join::Paragraph, "a </user>"),
        block(2, Role::User, Join::Paragraph, "b"),
        block(3, Role::Assistant, Join::Apart, "c "),
    ]);
    let document = history(vec![
        block(
            1,
            Role::Document,
            Join::Apart,
            "</user> <\\user> <\\/s> <s> <|im_",
        ),
        block(2, Role::Document, Join::Apart, "end|> \u{202e}\n"),
    ]);
    let sampling = Sampling {
        temperature: Some(0.1 + 0.2),
        top_p: Some(1.0),
        stop: vec!["\u{1f600}END".to_owned()],
        seed: Some(-7),
        ..Sampling::default()
    };
    for layout in [&joined, &document] {
        let prompt = Prompt {
            continues: true,
            sampling: &sampling,
            ..Prompt::new(layout, "some-model", 9_000)
        };
        let saved = keep(&store, &prompt, None);
        assert_eq!(saved.check(&store).unwrap(), layout.history.len());
        for (name, format) in Format::ALL {
            let before = prompt.render(format).map_err(|refused| refused.to_string());
            let now = saved.render(&store, format);
            assert_eq!(now.map_err(|error| error.to_string()), before, "{name}");
        }
    }
}

#[test]
fn unused_features_leave_a_snapshot_unchanged() {
    let layout = history(vec![block(1, Role::User, Join::Apart, "a")]);
    let (_, snapshot, blobs) = take(&made(&Prompt::new(&layout, "m", 9)), None);
    let root = blobs
        .iter()
        .find(|blob| blob.hash == snapshot.root)
        .unwrap();
    let root: Value = serde_json::from_slice(&root.bytes).unwrap();
    let keys: Vec<&String> = root.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "version",
            "model",
            "max_output",
            "spare",
            "text",
            "mark",
            "chunks"
        ]
    );
    let entries = blobs
        .iter()
        .find_map(|blob| serde_json::from_slice::<Vec<Value>>(&blob.bytes).ok());
    assert_eq!(entries.unwrap()[0].get("join"), None);
}

/// A conversation, or a document after instructions.
fn layout(document: bool) -> impl Strategy<Value = Vec<Block>> {
    // None begins with another, so that blocks part where their texts do.
    let text = prop::sample::select(vec!["a.", "b.", "ab.", "a\n.", " c.", "</user>."]);
    let roles = match document {
        true => vec![Role::Document],
        false => vec![Role::User, Role::Assistant, Role::Context],
    };
    let join = prop::sample::select(vec![Join::Apart, Join::Paragraph, Join::Message]);
    let one = (prop::sample::select(roles), join, text);
    prop::collection::vec(one, 0..5).prop_map(move |blocks| {
        let mut all = vec![block(0, Role::System, Join::Apart, "rules")];
        // A document is one even when it is empty.
        if document {
            all.push(block(1, Role::Document, Join::Apart, "It"));
        }
        for (role, join, text) in blocks {
            all.push(block(all.len(), role, join, text));
        }
        all
    })
}

fn parted(mut blocks: Vec<Block>) -> Layout {
    let system = vec![blocks.remove(0)];
    Layout {
        system,
        history: blocks,
        ..Layout::default()
    }
}

#[test]
fn the_first_differing_byte_is_reported() {
    let (_dir, store) = store();
    let pair =
        any::<bool>().prop_flat_map(|document| (layout(document), layout(document), 0..5usize));
    let mut runner = proptest::test_runner::TestRunner::new(proptest::test_runner::Config {
        cases: 300,
        failure_persistence: None,
        ..Default::default()
    });
    let run = runner.run(&pair, |(before, mut now, same)| {
        // Copies a common beginning from one to the other.
        let same = same.min(before.len()).min(now.len());
        now[..same].clone_from_slice(&before[..same]);
        let (before, now) = (parted(before), parted(now));
        let (old, new) = (markup::render(&before), markup::render(&now));
        let previous = keep(&store, &Prompt::new(&before, "m", 9), None);
        let saved = keep(&store, &Prompt::new(&now, "m", 9), Some(&previous));
        let counter = OpenAi::new(Encoding::O200k);
        let report = saved
            .compare(&store, &previous, &counter, &TERMS, Some(&now))
            .unwrap();
        if old == new {
            // Two different requests may have the same text form.
            return Ok(());
        }
        let common = common_prefix(new.as_bytes(), old.as_bytes()) as u64;
        prop_assert_eq!(
            report.first_difference.unwrap().byte,
            common,
            "{}\n---\n{}",
            old,
            new
        );
        Ok(())
    });
    run.unwrap();
}

fn saved(blocks: usize) -> Arc<Saved> {
    let blocks = (0..blocks).map(|id| block(id, Role::User, Join::Apart, "x"));
    let layout = history(blocks.collect());
    let prompt = Prompt::new(&layout, "gpt-4o", 9);
    Arc::new(take(&made(&prompt), None).0)
}

fn blocks_of(recent: &RecentRequests) -> usize {
    let sessions = recent.sessions.values();
    let held = sessions.flat_map(|session| &session.requests);
    held.map(|saved| saved.blocks()).sum()
}

#[test]
fn requests_are_remembered_within_bounds() {
    let mut recent = RecentRequests::default();
    let one = saved(1);
    for session in 0..3 * MOST_REMEMBERED {
        recent.put(&session.to_string(), Arc::clone(&one));
        assert!(recent.sessions.len() <= MOST_REMEMBERED);
        assert_eq!(recent.by_use.len(), recent.sessions.len());
    }
    let large = saved(1000);
    for session in 0..1000 {
        recent.put(&session.to_string(), Arc::clone(&large));
        assert_eq!(blocks_of(&recent), recent.blocks);
        assert!(recent.blocks <= MOST_REMEMBERED_BLOCKS);
    }
    assert!(recent.blocks >= MOST_REMEMBERED_BLOCKS / 2);
    // Of one session, the latest are remembered.
    let mut recent = RecentRequests::default();
    let first = saved(2);
    recent.put("one", Arc::clone(&first));
    assert_eq!(recent.find("one", first.hash).unwrap().hash, first.hash);
    for _ in 0..100 {
        recent.put("one", Arc::clone(&one));
    }
    assert_eq!(recent.find("one", first.hash), None);
    assert_eq!(recent.latest("one").unwrap().hash, one.hash);
    assert_eq!(recent.blocks, MOST_OF_A_SESSION);
}

#[test]
fn sessions_that_were_used_longest_ago_are_dropped_first() {
    let mut recent = RecentRequests::default();
    let one = saved(1);
    for session in 0..MOST_REMEMBERED {
        recent.put(&session.to_string(), Arc::clone(&one));
    }
    assert!(recent.latest("0").is_some());
    recent.put("new", Arc::clone(&one));
    assert!(recent.latest("1").is_none());
    for session in ["0", "2", "new"] {
        assert!(recent.latest(session).is_some(), "{session}");
    }
    // Blocks are bounded in the same order.
    let mut recent = RecentRequests::default();
    let half = saved(MOST_REMEMBERED_BLOCKS / 2);
    recent.put("a", Arc::clone(&half));
    recent.put("b", Arc::clone(&one));
    assert!(recent.latest("a").is_some());
    recent.put("c", Arc::clone(&half));
    assert!(recent.latest("b").is_none());
    assert!(recent.latest("c").is_some());
}

#[test]
fn requests_that_are_being_written_stay() {
    let mut recent = RecentRequests::default();
    let pending = saved(2);
    pending.set_durability(Durability::Pending);
    recent.put("pending", Arc::clone(&pending));
    let one = saved(1);
    recent.put("pending", Arc::clone(&one));
    let large = saved(MOST_REMEMBERED_BLOCKS / 4);
    for session in 0..2 * MOST_REMEMBERED {
        let request = if session % 1000 == 0 { &large } else { &one };
        recent.put(&session.to_string(), Arc::clone(request));
    }
    assert!(recent.find("pending", pending.hash).is_some());
    assert_eq!(blocks_of(&recent), recent.blocks);
    // Once it is saved, it may go.
    pending.set_durability(Durability::Saved);
    for session in 0..2 * MOST_REMEMBERED {
        recent.put(&session.to_string(), Arc::clone(&one));
    }
    assert!(recent.latest("pending").is_none());
}

#[test]
fn a_request_parts_where_it_does_whether_the_text_before_is_in_memory_or_not() {
    let (_dir, store) = store();
    let counter = OpenAi::new(Encoding::O200k);
    let asked = |text: &str| Layout {
        history: vec![block(1, Role::User, Join::Apart, "the same")],
        current: vec![block(2, Role::User, Join::Apart, text)],
        ..Layout::default()
    };
    let (first, second) = (asked("Question 1: why?"), asked("Question 2: how?"));
    let first = keep(&store, &Prompt::new(&first, "gpt-4o", 9), None);
    assert_eq!(first.new.len(), 1);
    let loaded = Saved {
        new: Vec::new(),
        ..first.clone()
    };
    let now = take(&made(&Prompt::new(&second, "gpt-4o", 9)), Some(&first)).0;
    let compare = |previous: &Saved, layout| {
        let compared = now.compare(&store, previous, &counter, &TERMS, layout);
        compared.unwrap()
    };
    let report = compare(&first, Some(&second));
    assert_eq!(report, compare(&loaded, Some(&second)));
    keep(&store, &Prompt::new(&second, "gpt-4o", 9), Some(&first));
    assert_eq!(report, compare(&loaded, None));
}
