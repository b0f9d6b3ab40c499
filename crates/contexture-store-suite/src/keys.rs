//! API keys, quotas, and the list of tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;

use super::at;
use contexture_store::{
    Call, Counted, KeyRecord, KeyScope, Message, MessageContent, MessageRole, NewSession, NewTurn,
    Sample, StoreError, TenantQuota, Tenants, TurnSample, Waited,
};

/// Creates a test of every function of the suite for stores with keys. Takes a
/// `fn(impl FnOnce(&dyn Tenants))` like [`conformance!`](crate::conformance).
#[macro_export]
macro_rules! key_conformance {
    ($with_tenants:path) => {
        $crate::conformance!($with_tenants;
            a_key_is_read_back_unchanged,
            any_text_of_a_key_is_read_back_unchanged,
            keys_are_listed_in_the_order_of_creation,
            a_key_id_is_used_once,
            an_invalid_key_is_rejected,
            a_key_is_revoked_once,
            unknown_keys_are_errors,
            tenants_see_only_their_own_data,
            a_turn_is_one_commit,
            a_ping_stores_nothing,
            concurrently_added_keys_are_all_stored,
            quotas_are_set_and_removed,
            acts_are_in_the_audit_log,
            counts_are_added_up,
        );
    };
}

fn key(id: &str, tenant: &str) -> KeyRecord {
    KeyRecord {
        id: id.to_owned(),
        hash: [7; 32],
        tenant: tenant.to_owned(),
        scope: KeyScope::Tenant,
        name: None,
        created_at: at(0),
        revoked_at: None,
    }
}

fn ids(store: &dyn Tenants) -> Vec<String> {
    let keys = store.keys().unwrap();
    keys.into_iter().map(|key| key.id).collect()
}

pub fn a_key_is_read_back_unchanged(store: &dyn Tenants) {
    assert_eq!(store.keys().unwrap(), []);
    let hash = std::array::from_fn(|i| i as u8 ^ 0xA5);
    let keys = [
        KeyRecord {
            hash,
            name: Some("the harbour's agent".to_owned()),
            ..key("a1B2", "harbour")
        },
        KeyRecord {
            hash: [0xFF; 32],
            scope: KeyScope::Metrics,
            ..key("m", "")
        },
        KeyRecord {
            scope: KeyScope::Admin,
            ..key("a", "")
        },
        // An imported key may be revoked already.
        KeyRecord {
            revoked_at: Some(at(9)),
            ..key("old", "harbour")
        },
    ];
    for key in &keys {
        store.add_key(key).unwrap();
    }
    assert_eq!(store.keys().unwrap(), keys);
    for key in &keys {
        assert_eq!(store.key(&key.id).unwrap().as_ref(), Some(key));
    }
    let finer = KeyRecord {
        created_at: Timestamp::new(1_770_000_000, 123_456_789).unwrap(),
        ..key("finer", "")
    };
    store.add_key(&finer).unwrap();
    let kept = store.key("finer").unwrap().unwrap();
    assert_eq!(kept.created_at.as_nanosecond() % 1_000_000_000, 123_000_000);
}

pub fn any_text_of_a_key_is_read_back_unchanged(store: &dyn Tenants) {
    for (i, text) in ["", " ", "a\0b", "'; DROP", "e\u{301}", "é", "🜁\u{202e}"]
        .into_iter()
        .enumerate()
    {
        let id = format!("k{i}");
        let added = KeyRecord {
            name: Some(text.to_owned()),
            ..key(&id, text)
        };
        store.add_key(&added).unwrap();
        assert_eq!(store.key(&id).unwrap(), Some(added));
    }
}

pub fn keys_are_listed_in_the_order_of_creation(store: &dyn Tenants) {
    // The order does not depend on ids, tenants or times.
    for (id, tenant, second) in [("m", "b", 5), ("z", "a", 1), ("a", "", 3), ("b", "b", 0)] {
        let created_at = at(second);
        let added = KeyRecord {
            created_at,
            ..key(id, tenant)
        };
        store.add_key(&added).unwrap();
    }
    store.revoke_key("z", at(9)).unwrap();
    assert_eq!(ids(store), ["m", "z", "a", "b"]);
}

pub fn a_key_id_is_used_once(store: &dyn Tenants) {
    let first = key("same", "a");
    store.add_key(&first).unwrap();
    for second in [
        first.clone(),
        KeyRecord {
            hash: [8; 32],
            ..key("same", "b")
        },
    ] {
        let refused = store.add_key(&second).unwrap_err();
        assert!(
            matches!(&refused, StoreError::Exists { what: "key", name } if name == "same"),
            "{refused}"
        );
    }
    assert_eq!(store.key("same").unwrap(), Some(first));
    // Ids are case-sensitive.
    store.add_key(&key("SAME", "a")).unwrap();
    assert_eq!(ids(store), ["same", "SAME"]);
}

pub fn an_invalid_key_is_rejected(store: &dyn Tenants) {
    for wrong in [key("", ""), key("a_b", ""), key("a", &"x".repeat(10_000))] {
        let refused = store.add_key(&wrong).unwrap_err();
        assert!(matches!(refused, StoreError::Invalid { .. }), "{refused}");
    }
    assert_eq!(store.keys().unwrap(), []);
}

pub fn a_key_is_revoked_once(store: &dyn Tenants) {
    for id in ["a", "b"] {
        store.add_key(&key(id, "t")).unwrap();
    }
    let revoked = KeyRecord {
        revoked_at: Some(at(5)),
        ..key("a", "t")
    };
    assert_eq!(store.revoke_key("a", at(5)).unwrap(), revoked);
    for later in [at(6), at(4)] {
        assert_eq!(store.revoke_key("a", later).unwrap(), revoked);
    }
    assert_eq!(store.keys().unwrap(), [revoked, key("b", "t")]);
    // The id cannot be used again.
    assert!(store.add_key(&key("a", "t")).is_err());
}

pub fn unknown_keys_are_errors(store: &dyn Tenants) {
    store.add_key(&key("abc", "")).unwrap();
    for id in ["", "ab", "abcd", "ABC", "abc ", "%", "é"] {
        assert_eq!(store.key(id).unwrap(), None, "{id}");
        let refused = store.revoke_key(id, at(1)).unwrap_err();
        assert!(
            matches!(&refused, StoreError::NotFound { what: "key", name } if name == id),
            "{refused}"
        );
    }
}

/// A turn, its counts and its sample share one commit.
pub fn a_turn_is_one_commit(store: &dyn Tenants) {
    let tenant = store.tenant("a");
    let new = NewSession {
        label: "s".to_owned(),
        ..NewSession::default()
    };
    tenant.create_session(&new, at(0)).unwrap();
    let waited = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&waited);
    store.watch(Arc::new(move |what, _| {
        counter.fetch_add(usize::from(what == Waited::Write), Ordering::SeqCst);
    }));
    let turn = NewTurn {
        messages: vec![Message {
            role: MessageRole::User,
            source: None,
            content: MessageContent::Text("When does the ferry leave?".to_owned()),
            tool_call_id: None,
            is_error: false,
            context_json: None,
        }],
        ..NewTurn::default()
    };
    let counted = Counted {
        counter: "words".to_owned(),
        blocks: vec![vec![5]],
    };
    let sample = TurnSample {
        parent: None,
        model: "m".to_owned(),
        counter: "words".to_owned(),
        sample: Sample {
            counted: 5,
            actual: 6,
        },
    };
    let recorded = tenant.record("s", &turn, Some(&counted), Some(&sample), at(1));
    let recorded = recorded.unwrap();
    assert_eq!(waited.load(Ordering::SeqCst), 1);
    let there = tenant.turns(&[recorded.id], "words").unwrap();
    assert_eq!(there[0].counts.as_ref(), Some(&counted.blocks));
    assert_eq!(tenant.samples("m", "words", 9).unwrap(), [sample.sample]);
}

pub fn tenants_see_only_their_own_data(store: &dyn Tenants) {
    let new = NewSession {
        label: "s".to_owned(),
        ..NewSession::default()
    };
    store.tenant("a").create_session(&new, at(0)).unwrap();
    // A second handle of the same tenant sees the same data.
    assert_eq!(store.tenant("a").session("s").unwrap().label, "s");
    for other in ["", "b", "A", "a "] {
        assert_eq!(store.tenant(other).sessions(None, 10).unwrap(), []);
    }
    // A tenant cannot see whether it has a key.
    store.add_key(&key("k", "b")).unwrap();
    assert_eq!(store.tenant("b").sessions(None, 10).unwrap(), []);
    store.tenant("b").create_session(&new, at(1)).unwrap();
    assert_eq!(store.tenant("a").session("s").unwrap().created_at, at(0));
}

pub fn a_ping_stores_nothing(store: &dyn Tenants) {
    for _ in 0..3 {
        store.ping().unwrap();
    }
    assert_eq!(store.keys().unwrap(), []);
    let usual = store.tenant("");
    assert_eq!(usual.sessions(None, 10).unwrap(), []);
    assert_eq!(usual.memory_state().unwrap(), Default::default());
    assert_eq!(usual.snapshots(None, 10).unwrap(), []);
    // Keys can be added while `ping` runs.
    std::thread::scope(|scope| {
        for id in ["a", "b", "c", "d"] {
            scope.spawn(move || store.add_key(&key(id, "t")).unwrap());
            scope.spawn(move || store.ping().unwrap());
        }
    });
    assert_eq!(store.keys().unwrap().len(), 4);
}

pub fn concurrently_added_keys_are_all_stored(store: &dyn Tenants) {
    const EACH: usize = 20;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for i in 0..EACH {
                    // All threads add half of the ids.
                    let id = match i % 2 {
                        0 => format!("shared{i}"),
                        _ => format!("own{writer}x{i}"),
                    };
                    match store.add_key(&key(&id, &format!("t{writer}"))) {
                        Ok(()) => {}
                        Err(StoreError::Exists { .. }) if i % 2 == 0 => {}
                        Err(other) => panic!("{other}"),
                    }
                    store.revoke_key(&id, at(writer)).unwrap();
                }
            });
        }
    });
    let keys = store.keys().unwrap();
    assert_eq!(keys.len(), EACH / 2 + 4 * EACH / 2);
    assert!(keys.iter().all(|key| key.revoked_at.is_some()));
}

pub fn quotas_are_set_and_removed(store: &dyn Tenants) {
    assert_eq!(store.quotas().unwrap(), []);
    let quota = TenantQuota {
        max_bytes: 1 << 40,
        max_sessions: 2,
        max_records: 3,
        max_nodes: 4,
        max_requests_per_day: i64::MAX.unsigned_abs(),
    };
    store.set_quota("b", Some(&quota), at(0)).unwrap();
    store
        .set_quota("", Some(&TenantQuota::default()), at(1))
        .unwrap();
    let expected = [
        (String::new(), TenantQuota::default()),
        ("b".to_owned(), quota),
    ];
    assert_eq!(store.quotas().unwrap(), expected);
    // Another quota replaces it; `None` removes it once.
    let second = TenantQuota {
        max_nodes: 9,
        ..TenantQuota::default()
    };
    store.set_quota("b", Some(&second), at(2)).unwrap();
    store.set_quota("", None, at(3)).unwrap();
    store.set_quota("", None, at(4)).unwrap();
    assert_eq!(store.quotas().unwrap(), [("b".to_owned(), second)]);
    // A number that cannot be stored is not replaced by another.
    let too_large = TenantQuota {
        max_bytes: u64::MAX,
        ..second
    };
    let refused = store.set_quota("b", Some(&too_large), at(5));
    assert!(matches!(refused, Err(StoreError::Invalid { field, .. }) if field == "max_bytes"));
    assert_eq!(store.quotas().unwrap(), [("b".to_owned(), second)]);
    // A tenant with a quota need not have data.
    assert!(!store.tenant_names().unwrap().contains(&"b".to_owned()));
    let acts: Vec<String> = (store.audit(10).unwrap().into_iter())
        .map(|entry| entry.act)
        .collect();
    assert_eq!(
        acts,
        ["quota_removed", "quota_set", "quota_set", "quota_set"]
    );
}

pub fn acts_are_in_the_audit_log(store: &dyn Tenants) {
    let call = Call::by(Some("admin1".into()));
    call.run(|| store.add_key(&key("k1", "b")).unwrap());
    store.revoke_key("k1", at(1)).unwrap();
    store.revoke_key("k1", at(2)).unwrap();
    let tenant = store.tenant("b");
    let session = NewSession {
        label: "s".to_owned(),
        ..NewSession::default()
    };
    tenant.create_session(&session, at(3)).unwrap();
    call.run(|| tenant.delete_session("s").unwrap());
    tenant.delete_session("s").unwrap_err();
    call.run(|| store.delete_tenant("b", at(4)).unwrap());
    let lines: Vec<String> = (store.audit(10).unwrap().into_iter().rev())
        .map(|entry| {
            let actor = entry.actor.as_deref().unwrap_or("-");
            let (act, tenant, subject) = (entry.act, entry.tenant, entry.subject);
            format!("{act} {tenant} {subject} by {actor}")
        })
        .collect();
    assert_eq!(
        lines,
        [
            "key_created b k1 by admin1",
            "key_revoked b k1 by -",
            "session_deleted b s by admin1",
            "tenant_deleted b b by admin1",
        ]
    );
    assert_eq!(store.audit(1).unwrap().len(), 1);
}
