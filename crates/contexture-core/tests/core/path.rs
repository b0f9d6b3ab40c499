//! A path that is too long: its kept start and end, and the marker.

use crate::support::{Words, check, run, words};
use contexture_core::guard::Policy;
use contexture_core::{
    Budget, Code, Cut, Fit, Item, Join, Layer, Marker, Path, Place, Role, Text, TokenCounter,
    Trust, UnofferedRange, assemble, no_loader,
};
use proptest::prelude::*;

// A marker `[... 3 nodes cut ...]` has five words, and its block costs seven.

#[test]
fn a_path_that_fits_is_whole_and_has_no_marker() {
    check(
        "
        budget 66
        layer path path recent 1 head 30 marker node
        item n1 20
        item n2 20
        item n3 20
        ",
        "
        keep n1 22
        keep n2 22
        keep n3 22
        used 66 of 66
        ",
    );
}

#[test]
fn the_newest_are_kept_and_a_marker_counts_the_dropped() {
    check(
        "
        budget 80
        layer path path recent 2 marker node
        item n1 20
        item n2 20
        item n3 20
        item n4 20
        item n5 20
        ",
        "
        keep gap 7
        keep n3 22
        keep n4 22
        keep n5 22
        drop n1 18, cut_from_path
        drop n2 22, cut_from_path
        used 73 of 80
        ",
    );
}

#[test]
fn the_oldest_nodes_get_their_share_after_the_newest() {
    // Of 93 tokens next to the marker, 27 are for the oldest.
    check(
        "
        budget 100
        layer path path recent 1 head 30 marker node
        item n1 10
        item n2 20
        item n3 20
        item n4 20
        item n5 20
        item n6 20
        ",
        "
        keep n1 12
        keep gap 7
        keep n4 22
        keep n5 22
        keep n6 22
        drop n2 22, cut_from_path
        drop n3 22, cut_from_path
        used 85 of 100
        ",
    );
}

#[test]
fn tokens_unused_by_the_newest_nodes_go_to_the_oldest() {
    check(
        "
        budget 100
        layer path path recent 1 head 5 marker node
        item n1 10
        item n2 10
        item n3 90
        item n4 20
        item n5 20
        ",
        "
        keep n1 12
        keep n2 12
        keep gap 7
        keep n4 22
        keep n5 22
        drop n3 92, cut_from_path
        used 75 of 100
        ",
    );
}

#[test]
fn of_the_newest_the_oldest_go_first_and_the_reason_has_the_numbers() {
    let input = "
        budget 60
        layer path path recent 4 head 50 marker node
        item n1 1
        item n2 20
        item n3 20
        item n4 20
        item n5 20
        ";
    check(
        input,
        "
        keep n1 3
        keep gap 7
        keep n4 22
        keep n5 22
        drop n2 22, cut_from_path
        drop n3 22, cut_from_path
        used 54 of 60
        ",
    );
    let reasons: Vec<String> = run(input)
        .unwrap()
        .report
        .excluded
        .iter()
        .map(|row| row.reason.to_string())
        .collect();
    assert_eq!(
        reasons,
        ["in the part of the path that was cut; needs 22 tokens, 9 left"; 2]
    );
}

#[test]
fn the_newest_is_cut_rather_than_dropped() {
    check(
        "
        budget 70
        layer path path recent 2 head 30 marker node
        item n1 20
        item n2 20 cut start
        item n3 300 cut start
        ",
        "
        keep gap 7
        cut  n3 62 of 350, lines 1-25
        drop n1 22, cut_from_path
        drop n2 22, cut_from_path
        used 69 of 70
        ",
    );
}

#[test]
fn the_one_before_takes_the_place_of_a_newest_that_cannot_be_shown() {
    check(
        "
        budget 70
        layer path path recent 2 marker node
        item n1 60
        item n2 20
        item n3 20
        item n4 300
        ",
        "
        keep gap 7
        keep n2 22
        keep n3 22
        drop n1 62, cut_from_path
        drop n4 350, too_large
        used 51 of 70
        ",
    );
}

#[test]
fn one_is_kept_rather_than_a_marker() {
    check(
        "
        budget 25
        layer path path marker node
        item n1 20
        item n2 20
        ",
        "
        keep n2 22
        drop n1 22, cut_from_path
        used 22 of 25
        ",
    );
}

#[test]
fn the_newest_is_not_cut_for_a_marker() {
    for cut in ["", "cut start"] {
        check(
            &format!(
                "
                budget 100
                layer path path marker node
                item n1 50
                item n2 96 {cut}
                "
            ),
            "
            keep n2 98
            drop n1 52, cut_from_path
            used 98 of 100
            ",
        );
    }
}

#[test]
fn nothing_kept_is_nothing_marked() {
    check(
        "
        budget 10
        layer path path marker node
        item n1 20
        item n2 20
        ",
        "
        drop n1 20, too_large
        drop n2 20, too_large
        used 0 of 10
        ",
    );
}

#[test]
fn without_a_head_and_a_marker_it_is_a_rolling_window() {
    check(
        "
        budget 70
        layer path path recent 1
        item n1 20
        item n2 20
        item n3 20
        item n4 20
        ",
        "
        keep n2 22
        keep n3 22
        keep n4 22
        drop n1 22, cut_from_path
        used 66 of 70
        ",
    );
}

#[test]
fn unoffered_nodes_are_marked_in_place() {
    check(
        "
        budget 100
        layer path path recent 1 head 30 marker node unseen 1234 before 2
        item n1 10
        item n2 10
        item n3 10
        item n4 10
        ",
        "
        keep n1 12
        keep n2 12
        keep gap 7
        keep n3 12
        keep n4 12
        used 55 of 100
        ",
    );
    let assembly = run("
        budget 100
        layer path path marker node unseen 1234 before 0
        item n1 10
        ")
    .unwrap();
    assert_eq!(
        assembly.layout.current[0].text(),
        "[... 1,234 nodes cut ...]"
    );
}

#[test]
fn nothing_unseen_is_passed_over() {
    // All of the end is kept, but the beginning stops where the unseen is.
    check(
        "
        budget 45
        layer path path recent 1 head 1 marker node unseen 7 before 3
        item n1 10
        item n2 20
        item n3 1
        item n4 10
        item n5 10
        ",
        "
        keep n1 12
        keep gap 7
        keep n4 12
        keep n5 12
        drop n2 22, cut_from_path
        drop n3 1, cut_from_path
        used 43 of 45
        ",
    );
}

#[test]
fn a_missing_unit_leaves_a_gap_and_ends_nothing() {
    check(
        "
        budget 80
        layer path path recent 2 head 30 marker node
        item n1 10
        gone n2
        item n3 60
        item n4 20
        gone n5
        item n6 20
        gone n7
        ",
        "
        keep n1 12
        keep gap 7
        keep n4 22
        keep n6 22
        drop n2 0, missing
        drop n3 62, cut_from_path
        drop n5 0, missing
        drop n7 0, missing
        used 63 of 80
        ",
    );
}

#[test]
fn a_group_is_one_unit() {
    check(
        "
        budget 60
        layer path path recent 1 marker node
        item a 10 group g1
        item b 10 group g1
        item c 10 group g2
        item d 10 group g2
        item e 10 group g3
        item f 10 group g3
        ",
        "
        keep gap 7
        keep c 12
        keep d 12
        keep e 12
        keep f 12
        drop a 24, cut_from_path
        drop b 24, cut_from_path
        used 55 of 60
        ",
    );
    let assembly = run("
        budget 60
        layer path path recent 1 marker node
        item a 10 group g1
        item b 10 group g1
        item c 10 group g2
        item d 10 group g2
        item e 10 group g3
        item f 10 group g3
        ")
    .unwrap();
    assert_eq!(assembly.layout.current[0].text(), "[... 1 node cut ...]");
}

#[test]
fn unused_tokens_of_other_layers_are_used() {
    check(
        "
        budget 100
        layer system share 0
        pin rules 10
        layer path share 50 path recent 1 marker node
        item n1 40
        item n2 20
        item n3 20
        layer event share 50
        item asked 10
        ",
        "
        keep rules 12
        keep gap 7
        keep n2 22
        keep n3 22
        keep asked 12
        drop n1 42, cut_from_path
        used 75 of 100
        ",
    );
}

fn document(texts: &[String], budget: u64, path: Path) -> contexture_core::Assembly {
    let mut layer = Layer::new("path");
    layer.place = Place::History;
    layer.fit = Fit::Path(path);
    for (i, text) in texts.iter().enumerate() {
        let text = Text::guarded(text, Policy::default().in_document());
        let item = Item::new(format!("n{i}"), Role::Document, text);
        layer.items.push(item.cut(Cut::Start));
    }
    let budget = Budget::new(budget, 0, 0).unwrap();
    assemble(vec![layer], budget, &words(Words), &mut no_loader).unwrap()
}

fn nodes(role: Role) -> Option<Marker> {
    Some(Marker::new("node", role))
}

#[test]
fn in_a_document_the_marker_is_a_line_of_its_own() {
    let texts = [
        "It was a dark",
        " and stormy night",
        " when the long rain fell",
        " on.",
    ];
    let texts = texts.map(str::to_owned);
    let path = Path {
        min_recent: 1,
        head: 0.8,
        marker: nodes(Role::Document),
        unseen: None,
        ..Path::default()
    };
    let assembly = document(&texts, 11, path);
    assert_eq!(
        crate::support::render(&assembly.layout),
        "It was a dark\n[... 2 nodes cut ...]\n on."
    );
}

#[test]
fn among_messages_the_marker_is_a_paragraph_of_the_one_before() {
    let mut layer = Layer::new("path");
    layer.place = Place::History;
    layer.fit = Fit::Path(Path {
        min_recent: 1,
        head: 0.3,
        marker: nodes(Role::User),
        unseen: None,
        ..Path::default()
    });
    for (i, (role, text)) in [
        (Role::User, "a question"),
        (Role::Assistant, "one two three four five six seven"),
        (Role::User, "an answer"),
    ]
    .into_iter()
    .enumerate()
    {
        let item = Item::new(format!("n{i}"), role, Text::new(text));
        layer.items.push(item.join(Join::Paragraph).cut(Cut::Never));
    }
    let budget = Budget::new(16, 0, 0).unwrap();
    let assembly = assemble(vec![layer], budget, &words(Words), &mut no_loader).unwrap();
    assert_eq!(
        crate::support::render(&assembly.layout),
        "<user>\na question\n\n[... 1 node cut ...]\n\nan answer\n</user>\n"
    );
    let row = &assembly.report.included[1];
    assert_eq!((&*row.id, row.code), ("gap", Code::MARKER));
    assert_eq!((row.tokens, row.trust), (7, Trust::Operator));
    assert_eq!(
        row.reason.to_string(),
        "marks where part of the path was cut"
    );
    assert_eq!(assembly.report.budget.layers[0].used, 15);
    assert_eq!(assembly.report.budget.layers[0].kept, 2);
}

/// Counts a number by its digits' sum, so that a smaller one may cost more.
#[derive(Clone)]
struct Odd;

impl TokenCounter for Odd {
    fn name(&self) -> &str {
        "odd"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str) -> u64 {
        let digits: u64 = text
            .chars()
            .filter_map(|c| c.to_digit(10))
            .map(u64::from)
            .sum();
        Words.count(text) + digits
    }

    fn sums_are_bounds(&self) -> bool {
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn both_ends_are_kept_and_everything_is_accounted_for(
        sizes in prop::collection::vec(1..40u64, 1..16),
        groups in prop::collection::vec(1..4usize, 16),
        min_recent in 0..6usize,
        head in prop::sample::select(vec![0.0, 0.3, 0.5, 1.0]),
        with_marker in any::<bool>(),
        unseen in prop::option::weighted(0.3, (0..16usize, 1..3_000u64)),
        window in 1..400u64,
        odd in any::<bool>(),
    ) {
        let mut layer = Layer::new("path");
        let path = Path {
            min_recent,
            head,
            marker: with_marker.then(|| nodes(Role::User).unwrap()),
            unseen: unseen.map(|(at, count)| UnofferedRange { at: at.min(sizes.len()), count }),
            ..Path::default()
        };
        layer.fit = Fit::Path(path.clone());
        // Neighbours in groups of up to three.
        let mut unit_of = Vec::new();
        for (unit, size) in groups.iter().enumerate() {
            unit_of.extend(std::iter::repeat_n(unit, *size));
        }
        for (i, size) in sizes.iter().enumerate() {
            let text = vec!["word"; *size as usize].join(" ");
            let item = Item::new(format!("n{i}"), Role::User, Text::new(&text)).cut(Cut::Never);
            layer.items.push(item.group(format!("g{}", unit_of[i])));
        }
        let budget = Budget::new(window, 0, 0).unwrap();
        let counts = if odd { words(Odd) } else { words(Words) };
        let assembly = assemble(vec![layer], budget, &counts, &mut no_loader).unwrap();
        let report = &assembly.report;
        prop_assert!(report.budget.used <= window);
        let rows: u64 = report.included.iter().map(|row| row.tokens).sum();
        prop_assert_eq!(rows, report.budget.used);
        prop_assert_eq!(report.budget.layers[0].used, rows);

        let units = unit_of[sizes.len() - 1] + 1;
        let cost = |unit: usize| -> u64 {
            (0..sizes.len()).filter(|i| unit_of[*i] == unit).map(|i| sizes[i] + 2).sum()
        };
        let mut kept = vec![false; units];
        let mut gap_at = None;
        for row in &report.included {
            if row.code == Code::MARKER {
                gap_at = Some(kept.iter().filter(|kept| **kept).count());
                continue;
            }
            let i: usize = row.id[1..].parse().unwrap();
            kept[unit_of[i]] = true;
        }
        let dropped: Vec<usize> = (0..units).filter(|unit| !kept[*unit]).collect();
        let total: u64 = (0..units).map(cost).sum();
        let hidden = path.unseen.map_or(0, |unseen| unseen.count);
        if hidden == 0 && total <= window {
            prop_assert_eq!(dropped.len(), 0);
            prop_assert_eq!(gap_at, None);
            return Ok(());
        }

        // Units after the last kept one could not be shown; the others are one
        // run.
        let shown_end = kept.iter().rposition(|kept| *kept).map_or(0, |last| last + 1);
        let middle: Vec<usize> = dropped.into_iter().filter(|unit| *unit < shown_end).collect();
        if unseen.is_none() {
            prop_assert!(middle.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{:?}", kept);
        }
        if with_marker && kept.contains(&true) && gap_at.is_some() {
            let gap = assembly.layout.blocks().find(|block| &*block.id == "gap").unwrap();
            let count: u64 = gap.text().chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
            prop_assert!(count >= middle.len() as u64 + hidden);
        }

        // The newest few are kept whenever they fit with the largest marker.
        let wanted = min_recent.max(1).min(units);
        let recent: u64 = (units - wanted..units).map(cost).sum();
        let behind_unseen = path.unseen.is_none_or(|unseen| {
            (0..sizes.len()).filter(|i| *i < unseen.at).all(|i| unit_of[i] < units - wanted)
        });
        let marker = if with_marker { if odd { 60 } else { 7 } } else { 0 };
        if recent + marker <= window && behind_unseen {
            prop_assert!(kept[units - wanted..].iter().all(|kept| *kept), "{:?}", kept);
        }
    }

    #[test]
    fn of_a_newest_that_is_too_large_a_part_is_kept(
        size in 200..2_000u64,
        older in prop::collection::vec(1..100u64, 0..6),
        window in 70..180u64,
    ) {
        let mut texts: Vec<String> = older.iter().map(|n| "word ".repeat(*n as usize)).collect();
        let lines: Vec<String> = (0..size / 5).map(|n| format!("line {n} of the newest")).collect();
        texts.push(lines.join("\n"));
        let path = Path { marker: nodes(Role::Document), ..Path::default() };
        let assembly = document(&texts, window, path);
        let text = crate::support::render(&assembly.layout);
        prop_assert!(text.ends_with(&format!("line {} of the newest", size / 5 - 1)), "{text}");
        prop_assert!(Words.count(&text) <= window);
        let marked = text.contains(" nodes cut ...]") || text.contains(" node cut ...]");
        prop_assert_eq!(marked, !assembly.report.excluded.is_empty());
    }
}
