//! Two generations of vectors: static ones at once, the encoder's afterwards.

use std::path::Path;

use contexture::memory::{FillIn, VectorProgress};

use crate::fixture::{TestMemory, query_for};

/// Lines of `count` events about different things.
fn lines(count: usize) -> String {
    (0..count)
        .map(|i| format!("{{\"kind\":\"event\",\"id\":\"n{i}\",\"content\":\"Item {i} is in the box number {i}.\"}}\n"))
        .collect()
}

fn some(texts: u64) -> FillIn {
    FillIn {
        texts,
        ..FillIn::ALL
    }
}

/// Returns the id of what fits best; the text itself is in order of time.
fn best(context: &contexture::memory::Context) -> &str {
    let parts = context.components.iter();
    let best = parts.max_by(|a, b| a.relevance_score.total_cmp(&b.relevance_score));
    &best.unwrap().source
}

const DAIRY: &str = r#"{"kind":"event","id":"dairy","content":"I can't have dairy."}
{"kind":"event","id":"pump","content":"The cellar pump starts by itself."}
{"kind":"event","id":"bike","content":"Ben keeps the bicycle in the shed."}
"#;

#[test]
fn meaning_without_a_shared_word_is_found_at_once() {
    let mind = TestMemory::of(DAIRY);
    let context = mind.recall("What is she allergic to?");
    assert_eq!(best(&context), "dairy");
    assert_eq!(context.metadata.vectors, None);
    let overview = mind.memory().overview().unwrap();
    let encoder = overview.encoder.unwrap();
    assert!(encoder.ranks && encoder.embedder.name.starts_with("encoder-256@"));
    assert_eq!(encoder.progress.percent(), 100);
    assert!(overview.embedder.unwrap().name.starts_with("static-256@"));
}

#[test]
fn one_generation_ranks_until_the_other_is_complete_enough() {
    let mind = TestMemory::of(&lines(2_000));
    let memory = mind.memory();
    let ranks = || memory.overview().unwrap().encoder.unwrap().ranks;
    let ask = || mind.ask(&query_for("Which box holds item 1999?", 300));
    // More than a query waits for: static vectors rank.
    let first = ask();
    let behind = VectorProgress {
        current: 0,
        texts: 2_000,
    };
    assert_eq!((first.metadata.vectors, ranks()), (Some(behind), false));
    // A part of the encoder's vectors changes nothing.
    assert_eq!(memory.fill_in(some(900), &mut |_| {}).unwrap(), 900);
    let second = ask();
    assert_eq!(second.content, first.content);
    let scores = |of: &contexture::memory::Context| -> Vec<f64> {
        of.components
            .iter()
            .map(|one| one.relevance_score)
            .collect()
    };
    assert_eq!(scores(&second), scores(&first));
    // Now it waits for the rest.
    assert_eq!(memory.fill_in(some(100), &mut |_| {}).unwrap(), 100);
    let third = ask();
    assert_eq!((third.metadata.vectors, ranks()), (None, true));
    assert_ne!(scores(&third), scores(&first));
    // The same state gives the same bytes in a new process.
    let engine = mind.lab.another("");
    let again = engine.memory().unwrap().recall(
        &query_for("Which box holds item 1999?", 300),
        &contexture::memory::Recall {
            now: Some(crate::fixture::now()),
            ..Default::default()
        },
    );
    assert_eq!(again.unwrap().context.content, third.content);
}

#[test]
fn a_text_that_is_replaced_gets_a_vector_of_what_it_says_now() {
    let mind = TestMemory::of(DAIRY);
    assert_eq!(best(&mind.recall("What is she allergic to?")), "dairy");
    mind.record(r#"{"kind":"event","id":"dairy","content":"The ladder is behind the door."}"#);
    mind.record(r#"{"kind":"event","id":"nuts","content":"Nuts make me ill."}"#);
    assert_eq!(best(&mind.recall("What is she allergic to?")), "nuts");
}

#[test]
fn the_settings_choose_the_generations() {
    for (config, encoder) in [
        ("", true),
        ("[memory]\nembedder = 'encoder'\n", true),
        ("[memory]\nembedder = 'static'\n", false),
        ("[memory.embedder]\nmodel = 'static'\n", false),
    ] {
        let mind = TestMemory::with(config);
        mind.record(DAIRY);
        let overview = mind.memory().overview().unwrap();
        assert_eq!(overview.encoder.is_some(), encoder, "{config}");
        assert_eq!(
            mind.memory().lacking().unwrap().is_some(),
            encoder,
            "{config}"
        );
    }
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../contexture-recall/assets/static-256");
    let mind = TestMemory::with(&format!("[memory]\nembedder = '{}'\n", folder.display()));
    mind.record(DAIRY);
    assert!(mind.memory().overview().unwrap().encoder.is_none());
    let mind = TestMemory::with("[memory]\nembedder = 'nowhere'\n");
    let error = mind.try_record(DAIRY).unwrap_err().to_string();
    assert!(
        error.contains("nowhere") && error.contains("config.json"),
        "{error}"
    );
}

#[test]
fn reembedding_computes_both_generations() {
    let mind = TestMemory::of(&lines(20));
    let done = mind.memory().reembed(&mut |_| {}).unwrap();
    assert_eq!(done.embedded, 20);
    assert!(done.embedder.starts_with("encoder-256@"), "{done:?}");
    assert_eq!(mind.memory().lacking().unwrap(), Some((0, 20)));
    assert_eq!(mind.memory().reembed(&mut |_| {}).unwrap().embedded, 0);
}

#[test]
fn a_mistyped_word_is_forgiven_when_nothing_else_is_found() {
    let mind = TestMemory::of(DAIRY);
    let context = mind.recall("bycicle");
    assert_eq!(best(&context), "bike");
    assert_eq!(context.metadata.signals.corrected["bycicle"], "bicycle");
    // Another word is found: nothing is guessed.
    let context = mind.recall("bycicle shed");
    assert!(context.metadata.signals.corrected.is_empty());
}
