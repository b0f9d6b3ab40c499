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

mod deletion;
mod events;
mod files;
mod idempotency;
mod imports;
mod keys;
mod ledger;
mod memory;
mod pending;
mod steps;
mod tasks;
mod trees;

use jiff::Timestamp;

pub use deletion::*;
pub use events::*;
pub use files::*;
pub use idempotency::*;
pub use imports::*;
pub use keys::*;
pub use ledger::*;
pub use memory::*;
pub use pending::*;
pub use steps::*;
pub use tasks::*;
pub use trees::*;

/// Creates a test of every function of the suite.
#[macro_export]
macro_rules! conformance {
    ($with_store:path) => {
        $crate::conformance!($with_store;
            a_session_is_found_by_label_and_alias,
            a_label_or_alias_is_used_once,
            a_session_changes_all_or_nothing,
            concurrent_changes_of_a_session_are_all_applied,
            unknown_sessions_and_turns_are_errors,
            sessions_are_listed_by_label,
            a_turn_is_read_back_unchanged,
            turns_form_a_chain,
            the_same_turns_have_the_same_ids_everywhere,
            a_stale_parent_is_a_conflict,
            no_parent_means_an_empty_session,
            provider_specific_content_is_stored_unchanged,
            a_retry_is_recorded_once,
            an_idempotency_key_belongs_to_one_turn,
            a_closed_session_refuses_turns,
            an_invalid_turn_stores_nothing,
            a_result_answers_a_call,
            open_calls_can_be_answered_later_or_abandoned,
            a_fork_shares_its_ancestors,
            moves_of_the_head_are_recorded,
            a_compaction_is_a_separate_turn,
            a_walk_stops_when_its_budget_is_used_up,
            a_walk_stops_where_a_step_starts,
            token_counts_are_stored_per_counter,
            pins_are_revisions_and_forks_share_them,
            a_tool_result_is_found_by_its_handle,
            a_handle_that_matches_several_results_is_rejected,
            a_clock_that_is_set_back_causes_no_errors,
            concurrent_writers_create_one_chain,
            concurrent_retries_are_recorded_once,
            readers_see_whole_turns,
            a_mark_key_is_set_once,
            snapshots_are_stored_by_content,
            snapshots_are_listed_page_by_page,
            reports_are_stored_with_their_snapshots,
            samples_are_returned_newest_first,
            a_sample_is_stored_with_its_turn,
            any_text_is_read_back_unchanged,
            any_number_is_read_back_or_rejected,
            times_are_stored_in_milliseconds,
            the_same_turn_after_the_same_parent_is_one_turn,
            a_session_stores_its_parent,
            a_compaction_does_not_answer_open_calls,
            a_compaction_refers_to_existing_turns,
            events_are_numbered_in_the_order_of_writes,
            old_events_are_removed_by_their_number,
            recorded_turns_remove_old_events,
            an_import_is_read_back_as_a_session,
            a_second_import_adds_nothing,
            an_import_is_whole_or_nothing,
            an_imported_turn_is_the_recorded_one,
            an_imported_request_is_stored_once,
            content_without_a_request_is_stored_until_a_collection,
            a_state_is_not_saved_without_its_content,
            a_request_is_not_saved_without_its_content,
            a_cursor_is_read_back_and_replaced,
            a_row_that_is_not_understood_is_kept_once,
            a_tree_is_read_back_unchanged,
            a_tree_can_be_empty,
            a_tree_imported_again_changes_nothing,
            the_order_of_records_does_not_matter,
            short_names_are_beginnings_of_ids,
            a_node_is_found_by_the_beginning_of_its_id,
            an_import_adds_what_is_new,
            a_rejected_import_stores_nothing,
            a_rejected_growth_stores_nothing,
            only_the_flags_of_a_node_change,
            concurrent_changes_of_flags_are_all_applied,
            settings_agents_and_paths_change,
            each_setting_changes_separately,
            concurrent_changes_of_settings_are_all_applied,
            a_climb_follows_plain_steps,
            steps_are_updated_by_every_write,
            stored_steps_equal_those_computed_from_the_whole_tree,
            an_arrival_has_its_versions,
            a_long_path_is_climbed_in_parts,
            connections_and_annotations_are_counted,
            nodes_are_returned_with_their_counts,
            raw_responses_are_read_back_unchanged,
            an_agents_position_is_its_latest_node,
            agent_memories_are_stored,
            the_epoch_rises_when_paths_may_change,
            a_skeleton_shows_the_shape,
            trees_are_listed_by_id,
            unknown_trees_and_nodes_are_errors,
            times_of_nodes_are_stored_in_milliseconds,
            any_text_of_a_tree_is_read_back_unchanged,
            concurrent_growth_of_a_tree_is_all_stored,
            a_record_is_read_back_unchanged,
            any_text_of_a_record_is_read_back_unchanged,
            identical_records_are_stored_once,
            a_different_record_replaces_one_with_the_same_id,
            a_default_time_is_kept_when_a_record_is_repeated,
            records_are_stored_all_or_none,
            a_record_ends_what_it_supersedes,
            superseding_never_extends_or_inverts_a_validity,
            changes_are_returned_in_order_and_in_pages,
            mentions_create_entities_and_are_counted,
            mentions_of_replaced_texts_are_removed,
            a_mention_resolves_to_its_type_or_the_oldest_entity,
            mentions_are_added_to_an_entitys_own_count,
            a_recorded_entity_replaces_a_derived_one,
            a_recorded_entity_merges_derived_ones_with_its_names,
            links_create_and_strengthen_relations,
            a_recorded_relation_is_strengthened_and_kept,
            archived_records_are_not_found,
            records_are_deleted_by_id,
            records_are_deleted_by_source_and_session,
            records_are_deleted_by_user,
            mentions_of_a_deleted_entity_are_removed,
            references_to_deleted_records_are_removed,
            keys_are_found_by_id,
            texts_of_a_memory_use_one_analysis,
            new_vectors_are_stored_next_to_the_old_ones,
            later_vectors_are_computed_after_recording,
            a_vector_that_was_missing_is_filled_in,
            words_are_replaced_by_a_new_version,
            records_are_counted_by_kind,
            records_are_listed_in_pages,
            mentions_resolve_inside_the_scope_of_their_user,
            an_updated_index_equals_a_rebuilt_one,
            concurrent_records_are_all_stored,
            tasks_are_pushed_and_popped,
            a_task_is_finished_once,
            a_parent_task_must_be_open,
            a_blocked_task_is_resumed,
            stacks_are_independent,
            default_task_ids_are_unused_ones,
            tasks_are_listed_after_their_parents,
            only_the_latest_siblings_are_returned,
            tasks_are_recorded_with_other_records,
            a_task_that_is_recorded_again_is_replaced,
            tasks_with_invalid_parents_are_rejected,
            deep_task_trees_are_stored,
            a_task_is_deleted,
            a_file_is_read_back_unchanged,
            a_changed_file_is_not_overwritten,
            concurrent_changes_of_a_file_are_not_lost,
            files_that_cannot_be_are_rejected,
            a_call_with_a_key_is_done_once,
            all_writes_of_a_call_belong_to_its_key,
            a_write_that_failed_stores_no_key,
            an_answer_stores_the_key_of_a_call_that_wrote_nothing,
            a_long_answer_is_not_stored,
            a_key_is_forgotten_after_a_day,
            a_deletion_removes_stored_answers,
            turns_before_a_turn_are_deleted,
            a_request_made_of_deleted_turns_is_not_saved,
            a_summary_made_of_deleted_turns_is_not_saved,
            turns_are_deleted_further_and_further,
            the_requests_of_a_tree_are_deleted_with_it,
            an_undone_summary_is_deleted_with_its_turns,
            a_summary_is_kept_when_its_turns_are_deleted,
            turns_that_other_sessions_share_are_not_deleted,
            abandoned_turns_are_deleted_with_those_they_follow,
            a_session_does_not_begin_with_results,
            only_turns_before_a_turn_of_the_session_are_deleted,
            a_snapshot_is_deleted,
            a_snapshot_that_is_being_saved_is_whole_after_a_deletion,
            turns_are_deleted_while_others_read_and_record,
            a_turn_is_written_with_its_request,
            every_query_finds_a_turn_that_waits,
            a_turn_that_waits_is_written_without_a_request,
            a_turn_that_waits_does_not_replace_another,
            a_turn_is_written_although_its_request_is_refused,
            a_turn_of_a_cancelled_call_is_not_written,
            a_turn_that_cannot_be_recorded_does_not_wait,
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

/// Creates the tests of deletions in steps. `with_store` is a
/// `fn(impl Fn(&dyn InSteps))`.
#[macro_export]
macro_rules! step_conformance {
    ($with_store:path) => {
        $crate::conformance!($with_store;
            a_session_is_deleted_in_steps,
            a_forked_session_is_whole_after_each_step,
            a_session_can_be_forked_between_steps,
            two_sessions_that_share_turns_are_deleted_in_steps,
            a_tree_is_deleted_in_steps,
            records_are_deleted_in_steps,
            turns_are_deleted_in_steps,
            a_collection_runs_in_steps,
            a_pending_deletion_is_continued_by_the_same_call,
        );
    };
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_770_000_000 + seconds).unwrap()
}
