//! An archive moves all data between SQLite and PostgreSQL, in both directions.
//!
//! The data comes from the suite of the stores: every kind of row, in every
//! state that the suite creates.
#![allow(clippy::unwrap_used)]

#[path = "../../contexture-postgres/tests/support/mod.rs"]
mod support;

use std::fs::File;
use std::path::{Path, PathBuf};

use contexture_archive::{Summary, check, export, import};
use contexture_sqlite::SqliteStore;
use contexture_store::{
    Forget, KeyRecord, KeyScope, Ledger as _, Store, StoreError, TenantQuota, Tenants, Upkeep as _,
};
use contexture_store_suite as suite;
use jiff::Timestamp;

use crate::support::Schema;

/// The tests of the suite that fill a tenant.
const FILLS: &[fn(&dyn Store)] = &[
    suite::a_file_is_read_back_unchanged,
    suite::files_that_cannot_be_are_rejected,
    suite::a_label_or_alias_is_used_once,
    suite::a_session_changes_all_or_nothing,
    suite::a_turn_is_read_back_unchanged,
    suite::turns_form_a_chain,
    suite::the_same_turns_have_the_same_ids_everywhere,
    suite::provider_specific_content_is_stored_unchanged,
    suite::a_retry_is_recorded_once,
    suite::an_idempotency_key_belongs_to_one_turn,
    suite::a_result_answers_a_call,
    suite::open_calls_can_be_answered_later_or_abandoned,
    suite::a_fork_shares_its_ancestors,
    suite::moves_of_the_head_are_recorded,
    suite::a_compaction_is_a_separate_turn,
    suite::token_counts_are_stored_per_counter,
    suite::pins_are_revisions_and_forks_share_them,
    suite::a_mark_key_is_set_once,
    suite::snapshots_are_stored_by_content,
    suite::reports_are_stored_with_their_snapshots,
    suite::samples_are_returned_newest_first,
    suite::a_sample_is_stored_with_its_turn,
    suite::any_text_is_read_back_unchanged,
    suite::times_are_stored_in_milliseconds,
    suite::the_same_turn_after_the_same_parent_is_one_turn,
    suite::a_session_stores_its_parent,
    suite::a_compaction_does_not_answer_open_calls,
    suite::a_compaction_refers_to_existing_turns,
    suite::an_import_is_read_back_as_a_session,
    suite::a_second_import_adds_nothing,
    suite::an_imported_request_is_stored_once,
    suite::a_cursor_is_read_back_and_replaced,
    suite::a_row_that_is_not_understood_is_kept_once,
    suite::a_tree_is_read_back_unchanged,
    suite::a_tree_can_be_empty,
    suite::a_tree_imported_again_changes_nothing,
    suite::an_import_adds_what_is_new,
    suite::only_the_flags_of_a_node_change,
    suite::settings_agents_and_paths_change,
    suite::each_setting_changes_separately,
    suite::steps_are_updated_by_every_write,
    suite::connections_and_annotations_are_counted,
    suite::nodes_are_returned_with_their_counts,
    suite::raw_responses_are_read_back_unchanged,
    suite::an_agents_position_is_its_latest_node,
    suite::agent_memories_are_stored,
    suite::times_of_nodes_are_stored_in_milliseconds,
    suite::a_record_is_read_back_unchanged,
    suite::any_text_of_a_record_is_read_back_unchanged,
    suite::identical_records_are_stored_once,
    suite::a_different_record_replaces_one_with_the_same_id,
    suite::a_default_time_is_kept_when_a_record_is_repeated,
    suite::a_record_ends_what_it_supersedes,
    suite::superseding_never_extends_or_inverts_a_validity,
    suite::changes_are_returned_in_order_and_in_pages,
    suite::mentions_create_entities_and_are_counted,
    suite::mentions_of_replaced_texts_are_removed,
    suite::a_mention_resolves_to_its_type_or_the_oldest_entity,
    suite::mentions_are_added_to_an_entitys_own_count,
    suite::a_recorded_entity_replaces_a_derived_one,
    suite::a_recorded_entity_merges_derived_ones_with_its_names,
    suite::links_create_and_strengthen_relations,
    suite::a_recorded_relation_is_strengthened_and_kept,
    suite::archived_records_are_not_found,
    suite::records_are_deleted_by_id,
    suite::records_are_deleted_by_source_and_session,
    suite::records_are_deleted_by_user,
    suite::mentions_of_a_deleted_entity_are_removed,
    suite::references_to_deleted_records_are_removed,
    suite::texts_of_a_memory_use_one_analysis,
    suite::new_vectors_are_stored_next_to_the_old_ones,
    suite::later_vectors_are_computed_after_recording,
    suite::a_vector_that_was_missing_is_filled_in,
    suite::words_are_replaced_by_a_new_version,
    suite::mentions_resolve_inside_the_scope_of_their_user,
    suite::tasks_are_pushed_and_popped,
    suite::a_task_is_finished_once,
    suite::a_blocked_task_is_resumed,
    suite::stacks_are_independent,
    suite::only_the_latest_siblings_are_returned,
    suite::tasks_are_recorded_with_other_records,
    suite::a_task_that_is_recorded_again_is_replaced,
    suite::a_task_is_deleted,
];

fn now() -> Timestamp {
    "2026-02-02T10:00:00Z".parse().unwrap()
}

/// A store of SQLite with a tenant for each test of the suite.
fn filled(path: &Path) -> SqliteStore {
    let store = SqliteStore::open(path).unwrap();
    for (at, fill) in FILLS.iter().enumerate() {
        let name = format!("t{at}");
        fill(&*store.tenant(&name));
        // Some tests store requests without their content.
        if !store.tenant(&name).verify().unwrap().damaged.is_empty() {
            store.delete_tenant(&name, now()).unwrap();
        }
    }
    suite::a_tree_is_read_back_unchanged(&store);
    for (id, tenant) in [("k1", ""), ("k2", "t3")] {
        let key = KeyRecord {
            id: id.to_owned(),
            hash: [7; 32],
            tenant: tenant.to_owned(),
            scope: KeyScope::Tenant,
            name: Some("a key".to_owned()),
            created_at: now(),
            revoked_at: None,
        };
        store.add_key(&key).unwrap();
    }
    store.revoke_key("k2", now()).unwrap();
    let quota = TenantQuota {
        max_sessions: 7,
        ..TenantQuota::default()
    };
    store.set_quota("t3", Some(&quota), now()).unwrap();
    store
}

fn exported(stores: &dyn Tenants, path: &PathBuf) -> Summary {
    let exported = export(stores, None, File::create(path).unwrap(), now()).unwrap();
    assert_eq!(check(path).unwrap(), exported);
    exported
}

fn assert_verified(stores: &dyn Tenants) {
    for name in stores.tenant_names().unwrap() {
        let verified = stores.tenant(&name).verify().unwrap();
        assert_eq!(verified.damaged, [], "{name}");
    }
}

#[test]
fn everything_moves_to_the_other_database_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let first = filled(&file("first.db"));
    let one = exported(&first, &file("one"));
    assert!(one.rows > 1000, "{}", one.rows);

    let schema = Schema::new();
    let second = schema.open();
    let imported = import(&second, &file("one"), None, now()).unwrap();
    assert_eq!(imported.imported.len(), one.tenants().len());
    assert_verified(&second);
    let two = exported(&second, &file("two"));
    for (one, two) in one.parts.iter().zip(&two.parts) {
        if one.tenant.is_some() {
            assert_eq!(one, two);
        }
    }
    assert_eq!(two.content, one.content);

    let third = SqliteStore::open(file("third.db")).unwrap();
    import(&third, &file("two"), None, now()).unwrap();
    assert_verified(&third);
    let three = exported(&third, &file("three"));
    assert_eq!(three.content, one.content);
    // The keys work as before.
    assert_eq!(third.keys().unwrap(), first.keys().unwrap());
    assert_eq!(third.quotas().unwrap(), first.quotas().unwrap());
    // Both stores have the same data.
    for name in first.tenant_names().unwrap() {
        let of = |stores: &dyn Tenants| {
            let mut usage = stores.tenant(&name).usage().unwrap();
            (usage.bytes, usage.pending) = (0, false);
            usage
        };
        assert_eq!(of(&third), of(&first), "{name}");
        assert_eq!(of(&second), of(&first), "{name}");
    }
    // The acts of the first store are there, once.
    let acts = |stores: &dyn Tenants, act: &str| {
        let acts = stores.audit(10_000).unwrap();
        acts.iter().filter(|entry| entry.act == act).count()
    };
    assert_eq!(acts(&third, "key_created"), 2);
    assert_eq!(acts(&third, "key_revoked"), 1);
    // Again, it changes nothing.
    let again = import(&third, &file("one"), None, now()).unwrap();
    for name in &again.imported {
        assert!(third.tenant(name).is_blank().unwrap(), "{name}");
    }
    assert_eq!(
        again.imported.len() + again.unchanged.len(),
        one.tenants().len()
    );
    assert!(again.unchanged.len() > 60);
    assert_eq!(exported(&third, &file("four")).content, one.content);
    assert_eq!(acts(&third, "key_created"), 2);
}

/// An archive of a store that cannot be written has its pending deletions. The store
/// that imports the archive continues them.
#[test]
fn a_pending_deletion_is_continued_after_an_import() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let first = SqliteStore::open(file("first.db")).unwrap();
    suite::turns_form_a_chain(&first);
    suite::a_record_is_read_back_unchanged(&*first.tenant("a"));
    let before = first.usage().unwrap();
    let label = first.sessions(None, 1).unwrap().remove(0).label;
    let tenant = first.for_tenant("a");
    let sources = Forget::Source("log".to_owned());
    assert!(first.delete_session_in_steps(&label, 1, 3).unwrap().pending);
    let more = tenant.forget_in_steps(&sources, 1, 0).unwrap();
    assert!(more.pending);
    drop((first, tenant));
    let first = SqliteStore::open_read_only(file("first.db")).unwrap();
    let schema = Schema::new();
    let second = schema.open();
    for name in ["", "a"] {
        let mut entries = Vec::new();
        let mut put = |entry| {
            entries.push(entry);
            Ok(())
        };
        first.tenant(name).export_entries(&mut put).unwrap();
        let mut entries = entries.into_iter();
        let next = Box::new(move || Ok(entries.next()));
        second.tenant(name).import_entries(next).unwrap();
    }
    for name in ["", "a"] {
        let store = second.tenant(name);
        assert!(store.usage().unwrap().pending, "{name}");
        assert_eq!(store.continue_deletions().unwrap(), 0);
        assert!(!store.usage().unwrap().pending, "{name}");
    }
    assert_verified(&second);
    assert_eq!(second.usage().unwrap().sessions, before.sessions - 1);
    let forgotten = second.tenant("a").forget(&sources);
    assert!(matches!(forgotten, Err(StoreError::NotFound { .. })));
}

/// An imported memory can be used: new records have new keys, and an index from
/// it is complete.
#[test]
fn an_imported_tenant_can_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let first = SqliteStore::open(file("first.db")).unwrap();
    suite::later_vectors_are_computed_after_recording(&*first.tenant("a"));
    exported(&first, &file("one"));
    let schema = Schema::new();
    let second = schema.open();
    import(&second, &file("one"), None, now()).unwrap();
    let (old, new) = (first.tenant("a"), second.tenant("a"));
    assert_eq!(new.memory_state().unwrap(), old.memory_state().unwrap());
    // An import knows nothing of what was deleted before.
    let changes = |store: &dyn Store| {
        let changes = store.changes(0, 1000).unwrap().into_iter();
        changes.filter(|change| change.sketch.is_some()).count()
    };
    assert_eq!(changes(&*new), changes(&*old));
    assert_eq!(
        new.pending(100).unwrap().len(),
        old.pending(100).unwrap().len()
    );
    assert_eq!(new.record_counts().unwrap(), old.record_counts().unwrap());
    assert_eq!(new.memory_stats().unwrap(), old.memory_stats().unwrap());
}
