//! Kept, cut and dropped items, with their reasons.

use contexture_core::Reason;

use crate::support::{check, run};

#[test]
fn the_highest_priority_is_kept_first() {
    check(
        "
        budget 50
        layer files
        item low  20 at 0.1
        item high 20 at 0.9
        item mid  20 at 0.5
        ",
        "
        keep high 22
        keep mid 22
        drop low 22, over_budget
        used 44 of 50
        ",
    );
}

#[test]
fn ties_are_broken_by_the_order_given() {
    check(
        "
        budget 25
        layer files
        item second 20 at 0.5
        item first  20 at 0.5
        ",
        "
        keep second 22
        drop first 22, over_budget
        used 22 of 25
        ",
    );
}

#[test]
fn a_smaller_item_after_a_dropped_one_can_fit() {
    check(
        "
        budget 40
        layer files
        item a 20 at 0.9
        item b 30 at 0.8
        item c 10 at 0.7
        ",
        "
        keep a 22
        keep c 12
        drop b 32, over_budget
        used 34 of 40
        ",
    );
}

#[test]
fn an_uncuttable_item_larger_than_the_budget_is_too_large() {
    check(
        "
        budget 40
        layer files
        item a 100
        ",
        "
        drop a 102, too_large
        used 0 of 40
        ",
    );
}

#[test]
fn a_cut_does_not_end_the_loop() {
    // The marker is `[... lines 5-20 of big cut, 160 tokens ...]`: nine words.
    check(
        "
        budget 60
        layer files
        item big   200 at 0.9 cut end
        item small 3   at 0.1
        ",
        "
        cut  big 51 of 202, lines 5-20
        keep small 5
        used 56 of 60
        ",
    );
}

#[test]
fn less_than_a_useful_part_is_left_out() {
    // 35 tokens would leave 20 words after tags and marker.
    check(
        "
        budget 35
        layer files
        item big 200 cut end
        ",
        "
        drop big 202, below_minimum
        used 0 of 35
        ",
    );
}

#[test]
fn pinned_items_are_charged_first() {
    check(
        "
        budget 60 reserve 10
        layer files
        item a 30 at 0.9
        pin  rules 25 at 0.1
        ",
        "
        keep rules 27
        drop a 32, over_budget
        used 27 of 50
        ",
    );
}

#[test]
fn pinned_items_that_do_not_fit_are_an_error_that_names_the_largest() {
    check(
        "
        budget 60
        layer files
        pin  rules 25
        pin  huge  90
        pin  tiny  1
        pin  more  10
        ",
        "error pinned items need 134 tokens but 60 are available (largest: `huge` 92, `rules` 27, `more` 12)",
    );
}

#[test]
fn a_group_is_kept_or_dropped_as_one() {
    check(
        "
        budget 50
        layer files
        item call   10 at 0.9 group g
        item other  20 at 0.5
        item result 30 at 0.1 group g
        ",
        "
        keep call 12
        keep result 32
        drop other 22, over_budget
        used 44 of 50
        ",
    );
    check(
        "
        budget 40
        layer files
        item call   10 at 0.9 group g
        item other  20 at 0.5
        item result 30 at 0.1 group g
        ",
        "
        keep other 22
        drop call 44, over_budget
        drop result 44, over_budget
        used 22 of 40
        ",
    );
}

#[test]
fn with_first_fit_a_larger_budget_can_drop_what_a_smaller_one_kept() {
    // Not a promise: this is what "first fit" means.
    let small = run("budget 30\nlayer l\nitem a 30 at 0.9\nitem b 20 at 0.1").unwrap();
    let large = run("budget 40\nlayer l\nitem a 30 at 0.9\nitem b 20 at 0.1").unwrap();
    assert_eq!(&*small.report.included[0].id, "b");
    assert_eq!(&*large.report.included[0].id, "a");
}

#[test]
fn the_reason_says_what_would_have_kept_it() {
    let assembly = run("budget 40\nlayer l\nitem a 20 at 0.9\nitem b 30 at 0.8").unwrap();
    assert_eq!(
        assembly.report.excluded[0].reason.to_string(),
        "needs 32 tokens, 18 left; 14 more would have kept it"
    );
}

#[test]
fn each_layer_gets_its_share() {
    check(
        "
        budget 100
        layer a share 50
        item a1 38
        item a2 38
        layer b share 50
        item b1 38
        item b2 38
        ",
        "
        keep a1 40
        keep b1 40
        drop a2 40, over_budget
        drop b2 40, over_budget
        used 80 of 100
        ",
    );
}

#[test]
fn unused_tokens_of_a_layer_are_passed_on_in_order() {
    check(
        "
        budget 100
        layer a share 30
        item a1 38
        layer b share 30
        item b1 38
        layer c share 40
        item c1 8
        ",
        "
        keep a1 40
        keep b1 40
        keep c1 10
        used 90 of 100
        ",
    );
}

#[test]
fn max_caps_what_is_passed_on() {
    check(
        "
        budget 100
        layer a share 30 max 35
        item a1 38
        layer b share 70
        item b1 8
        ",
        "
        keep b1 10
        drop a1 40, over_budget
        used 10 of 100
        ",
    );
}

#[test]
fn min_is_reserved_for_later_layers() {
    check(
        "
        budget 100
        layer a share 100
        item a1 58
        item a2 38
        layer b share 0 min 30
        item b1 28
        ",
        "
        keep a1 60
        keep b1 30
        drop a2 40, over_budget
        used 90 of 100
        ",
    );
}

#[test]
fn by_score_weighs_length_but_does_not_favour_the_very_short() {
    // Four times as long must score twice as much; under 128 tokens length
    // does not count.
    check(
        "
        budget 700
        layer memory by-score
        item long   512 score 0.9
        item medium 128 score 0.5
        item short  10  score 0.4
        ",
        "
        keep long 514
        keep medium 130
        keep short 12
        used 656 of 700
        ",
    );
    check(
        "
        budget 520
        layer memory by-score
        item long   512 score 0.9
        item medium 128 score 0.5
        ",
        "
        keep medium 130
        drop long 514, over_budget
        used 130 of 520
        ",
    );
}

#[test]
fn equal_scores_keep_the_order_given() {
    check(
        "
        budget 25
        layer memory by-score
        item z 20 score 0.5
        item a 20 score 0.5
        ",
        "
        keep z 22
        drop a 22, over_budget
        used 22 of 25
        ",
    );
}

#[test]
fn a_window_keeps_the_newest() {
    check(
        "
        budget 70
        layer session window shrink 100
        item t1 20
        item t2 20
        item t3 20
        item t4 20
        ",
        "
        keep t2 22
        keep t3 22
        keep t4 22
        drop t1 22, over_budget
        used 66 of 70
        ",
    );
}

#[test]
fn a_window_that_must_move_moves_far() {
    check(
        "
        budget 100
        layer session window shrink 60 recent 1
        item t1 20
        item t2 20
        item t3 20
        item t4 20
        item t5 20
        ",
        "
        keep t4 22
        keep t5 22
        drop t1 22, over_budget
        drop t2..t3 44, before_window
        used 44 of 100
        ",
    );
}

#[test]
fn a_window_moves_for_items_that_were_not_offered() {
    // The offered items would fit, but the others would not.
    check(
        "
        budget 100
        layer session window shrink 60 recent 1 unseen 7 before 0
        item t2 20
        item t3 20
        item t4 20
        item t5 20
        ",
        "
        keep t4 22
        keep t5 22
        drop t2..t3 44, before_window
        used 44 of 100
        ",
    );
    // A window that has a start does not hold them in any case.
    check(
        "
        budget 100
        layer session window shrink 60 recent 1 from t2 unseen 7 before 0
        item t2 20
        item t3 20
        item t4 20
        item t5 20
        ",
        "
        keep t2 22
        keep t3 22
        keep t4 22
        keep t5 22
        used 88 of 100
        ",
    );
}

#[test]
fn a_window_stays_put_while_everything_from_its_start_fits() {
    check(
        "
        budget 100
        layer session window from t3
        item t1 20
        item t2 20
        item t3 20
        item t4 20
        item t5 20
        item t6 20
        ",
        "
        keep t3 22
        keep t4 22
        keep t5 22
        keep t6 22
        drop t1..t2 36, before_window
        used 88 of 100
        ",
    );
}

#[test]
fn the_most_recent_are_kept_beyond_the_step() {
    check(
        "
        budget 100
        layer session window shrink 10 recent 3
        item t1 20
        item t2 20
        item t3 20
        item t4 20
        item t5 20
        ",
        "
        keep t3 22
        keep t4 22
        keep t5 22
        drop t1 22, over_budget
        drop t2 22, before_window
        used 66 of 100
        ",
    );
}

#[test]
fn a_group_in_a_window_is_not_torn() {
    check(
        "
        budget 50
        layer session window shrink 100 recent 1
        item t1 20
        item call 10 group g
        item result 10 group g
        item t4 20
        ",
        "
        keep call 12
        keep result 12
        keep t4 22
        drop t1 22, over_budget
        used 46 of 50
        ",
    );
}

#[test]
fn a_pinned_member_pins_its_group() {
    check(
        "
        budget 60
        layer files
        item other  30 at 0.9
        pin  call   10 group g
        item result 20 at 0.1 group g
        ",
        "
        keep call 12
        keep result 22
        drop other 32, over_budget
        used 34 of 60
        ",
    );
}

#[test]
fn a_group_of_one_is_not_cut() {
    check(
        "
        budget 60
        layer files
        item a 100 cut end group g
        ",
        "
        drop a 100, over_budget
        used 0 of 60
        ",
    );
}

#[test]
fn the_newest_of_a_window_are_cut_rather_than_dropped() {
    // A call and its large result are the newest: the result is cut, the rest
    // of the group is not.
    check(
        "
        budget 100
        layer history share 100 window recent 2
        item old    20
        item call   10 group t2
        item result 300 cut middle group t2
        item answer 5 group t2
        ",
        "
        keep call 12
        cut  result 72 of 350, lines 4-27
        keep answer 7
        drop old 22, over_budget
        used 91 of 100
        ",
    );
    // Older ones are whole or not there.
    check(
        "
        budget 100
        layer history share 100 window recent 1
        item call   10 group t1
        item result 300 cut middle group t1
        item newest 20
        ",
        "
        keep newest 22
        drop call 362, over_budget
        drop result 362, over_budget
        used 22 of 100
        ",
    );
}

#[test]
fn a_turn_that_is_larger_than_the_window_is_cut_where_it_may_be() {
    check(
        "
        budget 100
        layer history share 100 window recent 2
        item old      20
        item question 300 cut middle group t2
        item answer   5 cut middle group t2
        ",
        "
        keep old 22
        cut  question 52 of 350, lines 2-27
        keep answer 7
        used 81 of 100
        ",
    );
}

/// Items that come before it get the additional tokens first.
#[test]
fn the_tokens_that_a_reason_names_keep_the_item() {
    let mut below = {
        let mut state: u64 = 7;
        move |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % most
        }
    };
    for _ in 0..200 {
        let budget = 20 + below(200);
        let items: String = (0..4 + below(8))
            .map(|i| format!("item i{i} {} at 0.{}\n", 1 + below(90), 1 + below(8)))
            .collect();
        let script = |budget: u64| format!("budget {budget}\nlayer l\n{items}");
        for row in &run(&script(budget)).unwrap().report.excluded {
            let Reason::Dropped {
                missing: Some(missing),
                ..
            } = row.reason
            else {
                panic!("{}", row.reason);
            };
            let larger = run(&script(budget + missing)).unwrap();
            let is_kept = larger.report.included.iter().any(|kept| kept.id == row.id);
            assert!(is_kept, "{} of\n{}{}", row.id, script(budget), row.reason);
        }
    }
}

/// The `max` of a layer stays, however large the budget is; and more tokens for the
/// request are divided between the layers that need them.
#[test]
fn a_reason_names_the_layer_that_is_too_small() {
    let reason = |script: &str, id: &str| {
        let report = run(script).unwrap().report;
        let cut = report.included.iter().map(|row| (&row.id, &row.reason));
        let out = report.excluded.iter().map(|row| (&row.id, &row.reason));
        let mut rows = cut.chain(out);
        rows.find(|(row, _)| &***row == id).unwrap().1.to_string()
    };
    assert_eq!(
        reason(
            "budget 900\nlayer l max 60\nitem a 50 at 0.9 cut never\nitem b 70 at 0.5 cut never",
            "b"
        ),
        "needs 72 tokens, 8 left; 64 more in its layer would have kept it, but the layer's \
         `max` is 60"
    );
    let two = |c: u32| {
        let script = format!(
            "budget 160\nlayer l share 50\nitem a 50 at 0.9 cut never\n\
             item b 120 at 0.5 cut never\nlayer m share 50\nitem c {c} at 0.5 cut never"
        );
        reason(&script, "b")
    };
    assert_eq!(
        two(150),
        "needs 122 tokens, 108 left; 14 more in its layer would have kept it"
    );
    // The other layer is whole.
    assert_eq!(
        two(20),
        "needs 122 tokens, 86 left; 36 more would have kept it"
    );
}
