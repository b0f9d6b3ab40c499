//! Layers inside layers, items that are lines of one block, and shorter forms.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::{Sticky, Words, words};
use contexture_core::{
    Assembly, Budget, ByScore, Code, Counts, Curator, Fit, Form, FormKind, Frame, Heading, Item,
    Layer, Place, Role, Share, Text, Tokens, Trust, assemble, no_loader,
};
use proptest::prelude::*;

/// Makes a passage of the first words, a summary of the first third, and takes
/// two items for the same whose first word is the same. A higher priority is
/// newer.
#[derive(Debug)]
struct FirstWords;

impl FirstWords {
    fn first(item: &Item, most: usize) -> Option<Text> {
        let text = text_of(item);
        let first: Vec<&str> = text.split_whitespace().take(most).collect();
        (!first.is_empty()).then(|| Text::new(&first.join(" ")))
    }
}

fn text_of(item: &Item) -> String {
    match &item.content {
        contexture_core::Content::Ready(text) => text.as_str().to_owned(),
        _ => String::new(),
    }
}

impl Curator for FirstWords {
    fn passage(&self, item: &Item, room: Tokens, _: &Counts) -> Option<Form> {
        let text = Self::first(item, room as usize)?;
        Some(Form::new(FormKind::Passage, text))
    }

    fn summary(&self, item: &Item, room: Tokens, _: &Counts) -> Option<Form> {
        let text = Self::first(item, room as usize)?;
        Some(Form::new(FormKind::Summary, text))
    }

    fn near_duplicate(&self, a: &Item, b: &Item) -> Option<Ordering> {
        let first = |item: &Item| text_of(item).split(' ').next().map(str::to_owned);
        (first(a) == first(b)).then(|| a.priority.total_cmp(&b.priority))
    }
}

/// An item of `count` words, the first of which is its id.
fn item(id: &str, count: usize, score: f64) -> Item {
    let words: Vec<String> = (1..count).map(|n| format!("w{n}")).collect();
    let text = format!("{id} {}", words.join(" "));
    Item::new(id, Role::Context, Text::new(text.trim()))
        .score(score)
        .cut(contexture_core::Cut::Never)
}

fn inner(name: &str, percent: f64, items: Vec<Item>) -> Layer {
    Layer {
        share: Share {
            percent,
            ..Share::default()
        },
        fit: Fit::ByScore(ByScore::default()),
        heading: Some(Heading {
            text: Text::new(&format!("## {name}")),
            spaced: true,
        }),
        items,
        ..Layer::new(name)
    }
}

fn framed(best: usize, layers: Vec<Layer>) -> Layer {
    Layer {
        fit: Fit::ByScore(ByScore {
            best,
            ..ByScore::default()
        }),
        frame: Some(Frame {
            role: Role::Context,
            path: Some("notes".into()),
            trust: Trust::Retrieved,
        }),
        curator: Some(Arc::new(FirstWords)),
        layers,
        ..Layer::new("notes")
    }
}

fn run(layer: Layer, budget: Tokens) -> Assembly {
    let budget = Budget::new(budget, 0, 0).unwrap();
    assemble(vec![layer], budget, &words(Words), &mut no_loader).unwrap()
}

fn shown(assembly: &Assembly) -> String {
    let mut lines = crate::support::render(&assembly.layout);
    for row in &assembly.report.excluded {
        lines.push_str(&format!("out {} {}: {}\n", row.id, row.code, row.reason));
    }
    lines
}

#[test]
fn lines_of_a_frame_stand_in_one_block_with_their_headings() {
    let layer = framed(
        0,
        vec![
            inner("Facts", 50.0, vec![item("a", 3, 0.5), item("b", 2, 0.9)]),
            inner("Empty", 0.0, Vec::new()),
            inner("Names", 50.0, vec![item("c", 1, 0.1)]),
        ],
    );
    let assembly = run(layer, 100);
    assert_eq!(
        shown(&assembly),
        "<context path=\"notes\">\n## Facts\n\na w1 w2\nb w1\n\n## Names\n\nc\n</context>\n"
    );
    // Each is a row, and the rows add up to the block.
    let rows: Vec<(&str, &str, Tokens)> = assembly
        .report
        .included
        .iter()
        .map(|row| (&*row.id, &*row.layer, row.tokens))
        .collect();
    assert_eq!(
        rows,
        [("a", "notes", 10), ("b", "notes", 2), ("c", "notes", 1)]
    );
    assert_eq!(assembly.report.budget.used, 13);
    let inside: Vec<(&str, usize)> = assembly.report.budget.layers[0]
        .layers
        .iter()
        .map(|layer| (&*layer.name, layer.kept))
        .collect();
    assert_eq!(inside, [("Facts", 2), ("Empty", 0), ("Names", 1)]);
}

#[test]
fn a_layer_inside_gets_its_share_and_the_best_of_all_get_the_rest() {
    // Tags take 3, each heading 2: of 40 tokens, 33 are left for lines.
    let facts: Vec<Item> = (0..8)
        .map(|n| item(&format!("f{n}"), 5, 1.0 - 0.01 * f64::from(n)))
        .collect();
    let names: Vec<Item> = (0..3).map(|n| item(&format!("n{n}"), 5, 0.2)).collect();
    let kept = |percent| {
        let layer = framed(
            0,
            vec![
                inner("Facts", 100.0 - percent, facts.clone()),
                inner("Names", percent, names.clone()),
            ],
        );
        let report = run(layer, 40).report;
        let ids: Vec<String> = report
            .included
            .iter()
            .map(|row| row.id.to_string())
            .collect();
        ids.join(" ")
    };
    assert_eq!(kept(0.0), "f0 f1 f2 f3 f4 f5 f6");
    assert_eq!(kept(30.0), "f0 f1 f2 f3 n0 n1");
    assert_eq!(kept(100.0), "f0 f1 f2 n0 n1 n2");
}

#[test]
fn the_best_is_shown_as_a_passage_rather_than_not_at_all() {
    let layer = framed(
        3,
        vec![inner(
            "Facts",
            100.0,
            vec![item("small", 3, 0.1), item("large", 500, 0.9)],
        )],
    );
    let assembly = run(layer, 60);
    let rows: Vec<(&str, Option<FormKind>, Code)> = assembly
        .report
        .included
        .iter()
        .map(|row| (&*row.id, row.form, row.code))
        .collect();
    assert_eq!(
        rows,
        [
            ("small", None, Code::FITS),
            ("large", Some(FormKind::Passage), Code::CUT)
        ]
    );
    assert!(assembly.report.included[1].truncated);
    assert!(assembly.report.budget.used <= 60);
}

#[test]
fn the_lowest_scores_are_summarised_to_make_room() {
    let layer = |summarise| {
        let mut layer = framed(
            0,
            vec![
                inner("First", 85.0, vec![item("low", 60, 0.1)]),
                inner("Second", 0.0, vec![item("high", 30, 0.9)]),
            ],
        );
        layer.fit = Fit::ByScore(ByScore {
            summarise,
            passages: 0,
            ..ByScore::default()
        });
        layer
    };
    // It has come first by its layer's share, and leaves too little.
    let without = run(layer(false), 80).report;
    assert_eq!(without.included.len(), 1);
    assert_eq!(without.excluded[0].id.as_ref(), "high");
    let with = run(layer(true), 80).report;
    let rows: Vec<(&str, Option<FormKind>)> = with
        .included
        .iter()
        .map(|row| (&*row.id, row.form))
        .collect();
    assert_eq!(rows, [("low", Some(FormKind::Summary)), ("high", None)]);
}

#[test]
fn the_newest_of_identical_texts_is_kept_and_the_others_are_rows() {
    let like = |id: &str, score: f64, age: f64| {
        let mut item = item("same", 4, score).priority(age);
        item.id = id.into();
        item
    };
    let layer = framed(
        0,
        vec![inner(
            "Facts",
            100.0,
            vec![
                like("older", 0.9, 0.1),
                like("newest", 0.5, 0.9),
                like("oldest", 0.3, 0.0),
                item("other", 2, 0.1),
            ],
        )],
    );
    let assembly = run(layer, 100);
    let kept: Vec<&str> = assembly
        .report
        .included
        .iter()
        .map(|row| &*row.id)
        .collect();
    assert_eq!(kept, ["newest", "other"]);
    let rows: Vec<String> = assembly
        .report
        .excluded
        .iter()
        .map(|row| format!("{} {}: {}", row.id, row.code, row.reason))
        .collect();
    assert_eq!(
        rows,
        [
            "older near_duplicate: near-duplicate of `newest`",
            "oldest near_duplicate: near-duplicate of `newest`"
        ]
    );
}

#[test]
fn a_form_that_exists_is_shown_when_the_whole_does_not_fit() {
    let with_forms = |id: &str| {
        item(id, 50, 0.5)
            .form(Form::new(
                FormKind::Extract,
                Text::new("ten words of it that still do not fit here at all"),
            ))
            .form(Form::new(FormKind::Summary, Text::new("in short")))
    };
    for fit in [Fit::FirstFit, Fit::ByScore(ByScore::default())] {
        let mut layer = Layer::new("files");
        layer.fit = fit;
        layer.items = vec![with_forms("a")];
        let assembly = run(layer, 10);
        assert_eq!(
            shown(&assembly),
            "<context path=\"a\">\nin short\n</context>\n"
        );
        assert_eq!(assembly.report.included[0].form, Some(FormKind::Summary));
        assert_eq!(assembly.report.included[0].original_tokens, 53);
    }
}

#[test]
fn layers_inside_share_what_theirs_is_allowed() {
    // Without a frame each item has tags of its own: three more than its words.
    let group = |max| {
        let file = |id: &str, words| {
            let mut layer = Layer::new(id);
            layer.share.percent = 50.0;
            layer.items = vec![item(id, words, 0.0)];
            layer
        };
        let mut group = Layer::new("group");
        group.share.max = Some(max);
        group.layers = vec![file("a", 7), file("b", 17), file("c", 7)];
        let mut last = Layer::new("last");
        last.items = vec![item("z", 7, 0.0)];
        let budget = Budget::new(100, 0, 0).unwrap();
        let assembly = assemble(vec![group, last], budget, &words(Words), &mut no_loader).unwrap();
        let kept: Vec<String> = assembly
            .report
            .included
            .iter()
            .map(|row| format!("{}/{}", row.layer, row.id))
            .collect();
        kept.join(" ")
    };
    assert_eq!(group(100), "a/a b/b c/c last/z");
    assert_eq!(group(40), "a/a b/b c/c last/z");
    assert_eq!(group(39), "a/a c/c last/z");
    assert_eq!(group(20), "a/a c/c last/z");
    assert_eq!(group(5), "last/z");
}

#[test]
fn pinned_lines_are_charged_with_their_headings() {
    let pinned = item("rule", 5, 0.0).pinned();
    let layer = framed(
        0,
        vec![
            inner("Facts", 100.0, vec![item("a", 20, 0.5), item("b", 5, 0.4)]),
            inner("Rules", 0.0, vec![pinned]),
        ],
    );
    // Rules: 3 tags, 2 heading, 5; facts: 2 heading, 5.
    assert_eq!(
        shown(&run(layer.clone(), 17)).lines().collect::<Vec<_>>()[..8],
        [
            "<context path=\"notes\">",
            "## Facts",
            "",
            "b w1 w2 w3 w4",
            "",
            "## Rules",
            "",
            "rule w1 w2 w3 w4"
        ]
    );
    let budget = Budget::new(9, 0, 0).unwrap();
    let error = assemble(vec![layer], budget, &words(Words), &mut no_loader).unwrap_err();
    assert!(error.is_over_budget(), "{error}");
}

#[test]
fn groups_inside_a_layer_of_a_frame_have_headings_and_no_shares() {
    let group = |name: &str, items| Layer {
        heading: Some(Heading {
            text: Text::new(&format!("[{name}]")),
            spaced: false,
        }),
        share: Share::default(),
        fit: Fit::ByScore(ByScore::default()),
        items,
        ..Layer::new("")
    };
    let mut facts = inner("Facts", 100.0, Vec::new());
    facts.layers = vec![
        group("monday", vec![item("a", 3, 0.1), item("b", 30, 0.05)]),
        group("friday", vec![item("c", 3, 0.9)]),
    ];
    let assembly = run(framed(0, vec![facts]), 20);
    assert_eq!(
        shown(&assembly),
        "<context path=\"notes\">\n## Facts\n\n[monday]\na w1 w2\n\n[friday]\nc w1 \
         w2\n</context>\nout b too_large: needs about 28 tokens and must not be cut; 7 left, \
         about 21 more would have kept it\n"
    );
    // A group is not a layer in the report.
    let row = &assembly.report.excluded[0];
    assert_eq!(&*row.layer, "notes");
    assert!(assembly.report.budget.layers[0].layers[0].layers.is_empty());
}

fn lines() -> impl Strategy<Value = Vec<(String, usize, f64, f64, bool)>> {
    prop::collection::vec(
        (
            "[a-f]",
            1..40usize,
            0.0..1.0f64,
            0.0..1.0f64,
            prop::bool::weighted(0.05),
        ),
        0..10,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn counts_are_exact_and_every_item_is_listed_once(
        groups in prop::collection::vec((lines(), 0.0..100.0f64, prop::option::of(0..80u64)), 1..4),
        best in 0..4usize,
        summarise in any::<bool>(),
        by_score in any::<bool>(),
        frame in any::<bool>(),
        window in 1..400u64,
    ) {
        let mut n = 0;
        let layers: Vec<Layer> = groups.iter().enumerate().map(|(g, (lines, percent, max))| {
            let items = lines.iter().map(|(first, count, score, age, pinned)| {
                n += 1;
                let mut item = item(first, *count, *score).priority(*age);
                item.id = format!("i{n}").into();
                item.path = Some("p".into());
                item.pinned = *pinned;
                item
            }).collect();
            let mut layer = inner(&format!("g{g}"), *percent, items);
            layer.share.max = *max;
            if !by_score {
                layer.fit = Fit::FirstFit;
            }
            layer
        }).collect();
        let mut layer = framed(best, layers);
        layer.place = Place::History;
        if !frame {
            layer.frame = None;
        }
        layer.fit = match by_score {
            true => Fit::ByScore(ByScore { best, summarise, ..ByScore::default() }),
            false => Fit::FirstFit,
        };
        let candidates = n;
        for sticky in [false, true] {
            let counts = match sticky {
                true => words(Sticky),
                false => words(Words),
            };
            let budget = Budget::new(window, 0, 0).unwrap();
            let made = assemble(vec![layer.clone()], budget, &counts, &mut no_loader);
            let again = assemble(vec![layer.clone()], budget, &counts, &mut no_loader);
            prop_assert_eq!(&made, &again);
            let Ok(Assembly { layout, report }) = made else {
                continue;
            };
            let text = crate::support::render(&layout);
            prop_assert!(counts.counter().count(&text) <= report.budget.used, "{}", text);
            prop_assert!(report.budget.used <= window);
            let ids: Vec<&str> = report.included.iter().map(|row| &*row.id)
                .chain(report.excluded.iter().map(|row| &*row.id)).collect();
            let distinct: BTreeSet<&str> = ids.iter().copied().collect();
            prop_assert_eq!((ids.len(), distinct.len()), (candidates, candidates));
            let spent: Tokens = report.included.iter().map(|row| row.tokens).sum();
            prop_assert_eq!(spent, layout.tokens());
            if frame {
                prop_assert!(layout.history.len() <= 1);
                // Every heading has at least one item.
                for (g, (lines, ..)) in groups.iter().enumerate() {
                    let _ = lines;
                    let inside = &report.budget.layers[0].layers[g];
                    let heading = text.contains(&format!("## g{g}\n"));
                    prop_assert_eq!(heading, inside.kept > 0);
                }
            } else {
                for (row, (_, _, max)) in report.budget.layers[0].layers.iter().zip(&groups) {
                    if let (Some(max), false) = (max, by_score) {
                        prop_assert!(row.used <= (*max).max(row.pinned));
                    }
                }
            }
        }
    }
}
