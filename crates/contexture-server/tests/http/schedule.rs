//! Garbage collection and backups by the clock, while requests are answered.

use std::fs;
use std::thread;

use contexture::store::{Retention, Snapshots as _, Tenants as _, Upkeep as _};
use serde_json::json;

use crate::support::{Client, Lab, talk, turn, until};

fn assemble(client: &Client, session: &str, event: &str) -> String {
    let body = json!({"session": session, "recipe": "broker", "model": "gpt-4o", "event": event});
    let answer = client.post("/v1/assemble", &body.to_string()).ok(200);
    answer.json()["snapshot"].as_str().unwrap().to_owned()
}

#[test]
fn old_snapshots_are_collected_by_the_clock() {
    let mut lab = Lab::new();
    let key = lab.key("harbour");
    {
        let server = lab.serve();
        let client = server.with_key(&key);
        talk(&client, "s", "Hello.");
        for i in 0..5 {
            assemble(&client, "s", &format!("Question {i}?"));
        }
    }
    let count = |lab: &Lab| {
        let tenant = lab.stores.tenant("harbour");
        tenant.snapshots(None, 100).unwrap().len()
    };
    assert_eq!(count(&lab), 5);
    lab.config.retention.snapshots_per_session = 2;
    lab.config.server.gc_interval_minutes = 60;
    let metrics = lab.metrics_key();
    let server = lab.serve();
    until(|| (count(&lab) == 2).then_some(()));
    let text = until(|| {
        let text = server.with_key(&metrics).get("/metrics").ok(200).body;
        text.contains("contexture_collected_snapshots_total 3")
            .then_some(text)
    });
    assert!(text.contains("contexture_collections_total 1"), "{text}");
    assert!(
        text.contains("contexture_failed_collections_total 0"),
        "{text}"
    );
}

#[test]
fn backups_are_made_by_the_clock_and_old_ones_deleted() {
    let lab = Lab::new().with(|server| {
        server.backup_interval_minutes = 60;
        server.backups_kept = 2;
    });
    let directory = lab.path(".contexture/backups");
    let old = ["backup-20200101T000000Z", "backup-20200102T000000Z"];
    // One that a person made, and one that looks like a backup and is none.
    let others = ["mine", "backup-20200103T000000Z"];
    for name in old.iter().chain(&others) {
        fs::create_dir_all(directory.join(name)).unwrap();
        if *name != others[1] {
            fs::write(directory.join(name).join("manifest.json"), "{}").unwrap();
        }
    }
    let names = || {
        let entries = fs::read_dir(&directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let server = lab.serve();
    let made = until(|| {
        let metrics = server.get("/metrics").ok(200).body;
        let made = metrics.contains("contexture_backups_total 1");
        made.then(names)
    });
    assert_eq!(made.len(), 4, "{made:?}");
    assert_eq!(made[0], old[1]);
    assert_eq!(made[1], others[1]);
    assert_eq!(made[3], others[0]);
    contexture_sqlite::check_backup(&directory.join(&made[2])).unwrap();
    drop(server);
    // The next server waits until the last backup is an hour old.
    let server = lab.serve();
    talk(&server.anybody(), "s", "Hello.");
    let metrics = server.get("/metrics").ok(200).body;
    assert!(metrics.contains("contexture_backups_total 0"));
    assert_eq!(names(), made);
}

#[test]
fn a_backup_that_fails_is_counted_and_leaves_nothing() {
    let lab = Lab::new()
        .file("taken", "a file where the directory should be")
        .with(|server| {
            server.backup_interval_minutes = 60;
            server.backup_directory = "taken".to_owned();
        });
    let server = lab.serve();
    until(|| {
        let metrics = server.get("/metrics").ok(200).body;
        metrics
            .contains("contexture_failed_backups_total 1")
            .then_some(())
    });
    server.get("/readyz").ok(200);
}

#[test]
fn a_snapshot_that_is_saved_during_a_collection_has_all_its_content() {
    let lab = Lab::new();
    let server = lab.serve();
    let client = server.anybody();
    for label in ["a", "b"] {
        talk(
            &client,
            label,
            &"A long text about the harbour. ".repeat(40),
        );
    }
    let collector = lab.stores.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let collecting = thread::spawn(move || {
        let retention = Retention {
            per_session: Some(1),
            ..Retention::default()
        };
        let mut runs = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            collector.collect(&retention, false).unwrap();
            runs += 1;
        }
        runs
    });
    let work: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|label| {
            let client = client.clone();
            thread::spawn(move || {
                for i in 0..25 {
                    assemble(&client, label, &format!("Question {i}?"));
                    let text = format!("Answer {i}. {}", "More about it. ".repeat(40));
                    let target = format!("/v1/sessions/{label}/turns");
                    client.post(&target, &turn(&text)).ok(201);
                    if label == "b" && i == 12 {
                        // A session of the same name begins again, without its
                        // earlier requests.
                        client.delete("/v1/sessions/b").ok(200);
                        talk(&client, "b", "Once more.");
                    }
                }
            })
        })
        .collect();
    for thread in work {
        thread.join().unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(collecting.join().unwrap() > 0);
    let saved = lab.stores.snapshots(None, 1000).unwrap();
    assert!(!saved.is_empty());
    for snapshot in saved {
        let target = format!("/v1/snapshots/{}", snapshot.hash);
        client.get(&target).ok(200);
    }
    assert_eq!(lab.stores.verify().unwrap().damaged, []);
}
