//! Caps, deletion and statistics of a memory.

use contexture::memory::Recall;
use contexture::store::{Forget, RecordKind};

use crate::fixture::{TestMemory, now, query_for, said, talk};

#[test]
fn the_same_lines_twice_are_the_same_memory() {
    let mind = TestMemory::of(&talk());
    let again = mind.record(&talk());
    assert_eq!((again.added, again.replaced, again.unchanged), (0, 0, 5));
    let changed = mind.record(&said(
        "b1",
        "tue",
        "2026-02-10T09:00:00Z",
        "Ana",
        "Clara sold it.",
    ));
    assert_eq!((changed.added, changed.replaced), (0, 1));
    assert!(mind.recall("Clara sold").content.contains("Clara sold it."));
    assert!(!mind.recall("sailing boat").content.contains("sailing boat"));
}

#[test]
fn a_long_text_becomes_chunks_with_its_source_as_heading() {
    let mind = TestMemory::new();
    let text =
        (1..=60).map(|i| format!("Section {i}. The valve number {i} is opened by lever {i}.\n\n"));
    let done = mind
        .memory()
        .record_text("manual.md", &text.collect::<String>(), Some(now()))
        .unwrap();
    assert!(done.added > 1, "{done:?}");
    let context = mind.recall("Which lever opens valve number 42?");
    assert!(
        context.content.contains("[manual.md]"),
        "{}",
        context.content
    );
    assert!(context.content.contains("lever 42"), "{}", context.content);
    // Recorded again, the text replaces the earlier one.
    let short = "Section 1. There is only one valve left.";
    mind.memory()
        .record_text("manual.md", short, Some(now()))
        .unwrap();
    assert!(!mind.recall("lever 42").content.contains("lever 42"));
    assert_eq!(
        mind.memory().stats().unwrap().kinds[&RecordKind::Chunk].live,
        1
    );
}

#[test]
fn a_private_key_that_is_split_into_chunks_is_masked_in_all_of_them() {
    let mind = TestMemory::new();
    let line = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gt\n";
    let kind = "RSA PRIVATE KEY";
    let text = format!(
        "The deploy key:\n\n-----BEGIN {kind}-----\n{}-----END {kind}-----\n\nThe deploy host is omega.\n",
        line.repeat(60)
    );
    let done = mind
        .memory()
        .record_text("deploy.md", &text, Some(now()))
        .unwrap();
    assert!(done.added > 2, "{done:?}");
    for query in [
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gt",
        "deploy key",
    ] {
        let content = &mind.recall(query).content;
        assert!(!content.contains("b3BlbnNz"), "{content}");
    }
    assert!(mind.recall("deploy host").content.contains("omega"));
}

#[test]
fn deleted_records_are_removed_from_every_cache() {
    let mind = TestMemory::of(&talk());
    assert!(mind.recall("sailing boat").content.contains("sailing boat"));
    let gone = mind
        .memory()
        .forget(&Forget::Session("tue".to_owned()))
        .unwrap();
    assert_eq!(gone.forgotten[&RecordKind::Event], 1);
    assert!(!mind.recall("sailing boat").content.contains("sailing boat"));
    assert!(mind.memory().named("b1").unwrap().is_empty());
    let error = mind
        .memory()
        .forget(&Forget::Session("tue".to_owned()))
        .unwrap_err();
    assert!(error.is_input(), "{error}");
}

#[test]
fn beyond_the_cap_the_least_valuable_are_put_aside() {
    let mind = TestMemory::with("[memory.caps]\nevents = 3\n");
    let done = mind.record(&talk());
    assert_eq!(done.archived, 2);
    let stats = mind.memory().stats().unwrap().kinds[&RecordKind::Event];
    assert_eq!((stats.live, stats.archived), (3, 2));
    // The oldest record was archived.
    let found = mind.found("summer Lisbon children tarts boat");
    assert!(found.contains(&"b1".to_owned()), "{found:?}");
    assert!(!found.contains(&"a1".to_owned()), "{found:?}");
}

/// An index in memory returns the same records as the store.
#[test]
fn the_same_records_are_put_aside_with_and_without_an_index() {
    let kept = |load: bool| {
        let mind = TestMemory::with("[memory.caps]\nevents = 4\nentities = 1\n");
        for line in talk().lines() {
            if load {
                mind.memory().load_index().unwrap();
            }
            mind.record(&format!("{line}\n"));
        }
        mind.found("summer Lisbon children tarts boat")
    };
    let without = kept(false);
    assert!(!without.is_empty());
    assert_eq!(kept(true), without);
}

#[test]
fn a_missing_index_is_rebuilt_with_a_warning() {
    let mind = TestMemory::of(&talk());
    let before = mind.recall("sailing boat").content.clone();
    let db = mind.lab.dir.path().join("lab.db");
    let broken = rusqlite(&db, "UPDATE memories SET words = NULL, seq = seq");
    assert!(broken > 0);
    let fresh = mind.fresh();
    let how = Recall {
        now: Some(now()),
        ..Recall::default()
    };
    let recalled = fresh
        .memory()
        .unwrap()
        .recall(&query_for("sailing boat", 2_000), &how)
        .unwrap();
    let warnings = &recalled.context.metadata.warnings;
    assert_eq!(recalled.context.content, before);
    assert!(
        warnings[0].message.contains("5 texts were indexed again"),
        "{warnings:?}"
    );
}

/// Runs a statement on the file, like another program.
fn rusqlite(path: &std::path::Path, sql: &str) -> usize {
    let connection = ::rusqlite::Connection::open(path).unwrap();
    connection.execute(sql, []).unwrap()
}

#[test]
fn vectors_of_another_model_are_rejected_until_reembedded() {
    let mut mind = TestMemory::of(&talk());
    mind.lab.restart(
        "[memory.embedder]\nmodel = 'm'\nbase_url = 'http://127.0.0.1:9'\ndimensions = 4\n",
    );
    let error = mind.try_ask(&query_for("boat", 500)).unwrap_err();
    assert!(error.to_string().contains("256 dimensions"), "{error}");
    assert!(
        error
            .hint(&contexture::advice::Plain)
            .as_deref()
            .unwrap()
            .contains("reembed_memory"),
        "{error:?}"
    );
    let error = mind
        .try_record(&said("x", "s", "2026-02-02T10:00:00Z", "Ana", "hi"))
        .unwrap_err();
    assert!(error.to_string().contains("cannot be compared"), "{error}");
}

#[test]
fn an_exported_memory_can_be_imported() {
    let mind = TestMemory::of(&talk());
    let mut lines = String::new();
    let mut each = |record: &contexture::store::Record| {
        lines.push_str(&serde_json::to_string(record).unwrap());
        lines.push('\n');
        Ok(())
    };
    mind.memory().export(&mut each).unwrap();
    let other = TestMemory::of(&lines);
    assert_eq!(
        other.recall("Lisbon").content,
        mind.recall("Lisbon").content
    );
}
