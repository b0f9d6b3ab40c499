//! The tests that every store passes, unchanged.
//!
//! A store has this crate as a dev-dependency, and one line in a test file:
//!
//! ```text
//! contexture_store_suite::conformance!(with_fresh_store);
//! ```
//!
//! `with_fresh_store` is a `fn(impl FnOnce(&dyn Store))` that creates an empty
//! store, calls its argument with it, and cleans up. A store that several
//! tenants share has a second line, `contexture_store_suite::key_conformance!`,
//! with a `fn(impl FnOnce(&dyn Tenants))`.

// The functions are tests, and their names say what they test.
#![allow(clippy::unwrap_used, missing_docs)]

mod keys;
mod ledger;
mod memory;
mod tasks;
mod trees;

use jiff::Timestamp;

pub use keys::*;
pub use ledger::*;
pub use memory::*;
pub use tasks::*;
pub use trees::*;

/// Makes a test of every function of the suite.
#[macro_export]
macro_rules! conformance {
    ($with_store:path) => {
        $crate::conformance!($with_store;
            a_session_is_found_by_label_and_alias,
            a_session_is_made_once,
            a_session_changes_all_or_nothing,
            writers_of_one_session_lose_nothing,
            what_is_unknown_is_said,
            sessions_are_listed_by_label,
            a_turn_comes_back_as_it_was,
            turns_form_a_chain,
            the_same_turns_have_the_same_ids_everywhere,
            a_stale_parent_is_a_conflict,
            a_retry_is_recorded_once,
            a_key_stands_for_one_turn,
            what_makes_no_sense_leaves_no_trace,
            a_result_answers_a_call,
            calls_left_open_can_be_answered_later_or_given_up,
            a_fork_shares_its_ancestors,
            the_head_moves_and_its_moves_are_kept,
            a_compaction_is_a_turn_of_its_own,
            a_walk_stops_when_its_budget_is_spent,
            a_walk_stops_where_a_history_can_begin,
            counts_are_kept_by_counter,
            a_clock_that_goes_back_does_no_harm,
            writers_make_one_chain,
            retries_of_many_writers_are_recorded_once,
            readers_see_whole_turns,
            snapshots_are_kept_by_content,
            a_mark_key_is_set_once,
            samples_come_back_newest_first,
            a_sample_is_kept_with_its_turn,
            any_text_comes_back,
            any_number_comes_back_or_is_refused,
            times_are_kept_to_the_millisecond,
            the_same_turn_twice_is_one_turn,
            a_session_knows_where_it_came_from,
            a_compaction_leaves_calls_open,
            a_compaction_names_turns_that_are_known,
            a_tree_comes_back_as_it_was,
            a_tree_may_be_empty,
            a_tree_imported_again_changes_nothing,
            the_order_of_records_does_not_matter,
            short_names_are_beginnings_of_ids,
            a_node_is_found_by_what_it_begins_with,
            an_import_adds_what_is_new,
            what_an_import_may_not_do_leaves_no_trace,
            what_may_not_grow_leaves_no_trace,
            only_flags_change,
            writers_of_one_nodes_flags_lose_nothing,
            settings_agents_and_paths_change,
            settings_change_one_by_one,
            writers_of_one_trees_settings_lose_nothing,
            a_climb_follows_plain_steps,
            steps_follow_what_is_written,
            steps_are_what_the_whole_tree_says,
            an_arrival_has_its_versions,
            a_long_path_is_climbed_in_parts,
            connections_and_remarks_are_counted,
            nodes_come_back_with_their_counts,
            raw_responses_come_back,
            an_agent_is_where_it_wrote_last,
            agents_keep_things_in_mind,
            the_epoch_rises_when_paths_may_change,
            a_skeleton_shows_the_shape,
            trees_are_listed_by_id,
            what_is_unknown_of_trees_is_said,
            times_of_nodes_are_kept_to_the_millisecond,
            any_text_of_a_tree_comes_back,
            writers_of_one_tree_lose_nothing,
            a_record_comes_back_as_it_was,
            any_text_of_a_record_comes_back,
            the_same_record_twice_is_one,
            a_record_that_says_something_else_replaces,
            a_time_that_is_not_said_is_the_first,
            records_are_kept_all_or_none,
            a_record_ends_what_it_supersedes,
            an_end_comes_neither_later_nor_before_the_beginning,
            changes_come_in_order_and_in_parts,
            mentions_make_entities_and_count,
            mentions_are_taken_back,
            a_mention_means_the_one_of_its_type_or_the_oldest,
            an_entity_has_its_mentions_added_up,
            a_derived_entity_is_taken_over,
            names_of_one_entity_become_one,
            links_make_and_strengthen_relations,
            a_given_relation_is_strengthened_and_stays,
            what_is_archived_is_out_of_sight,
            records_are_forgotten_by_id,
            records_are_forgotten_by_source_and_session,
            a_forgotten_entity_is_mentioned_no_more,
            what_is_forgotten_is_named_no_more,
            keys_are_found_by_id,
            texts_are_analysed_alike,
            vectors_are_made_anew_beside_the_old,
            a_vector_that_was_missing_is_filled_in,
            words_are_made_anew,
            what_is_in_a_memory_is_counted,
            an_index_that_is_kept_is_one_built_anew,
            writers_of_one_memory_lose_nothing,
            tasks_are_pushed_and_popped,
            a_task_is_finished_once,
            a_task_is_a_part_of_one_that_can_have_parts,
            a_blocked_task_is_resumed,
            stacks_have_nothing_to_do_with_each_other,
            names_of_tasks_are_free_ones,
            tasks_are_listed_behind_what_they_are_parts_of,
            of_many_siblings_the_latest_are_shown,
            tasks_are_remembered_with_other_records,
            a_task_that_is_remembered_anew_is_replaced,
            tasks_that_make_no_trees_are_refused,
            tasks_are_as_deep_as_they_come,
            a_task_is_forgotten,
        );
    };
    ($with_store:path; $($test:ident,)*) => {
        $(
            #[test]
            fn $test() {
                $with_store($crate::$test);
            }
        )*
    };
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_770_000_000 + seconds).unwrap()
}
