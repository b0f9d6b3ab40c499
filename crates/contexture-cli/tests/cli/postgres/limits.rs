//! Limits and revoked keys on two servers of one database.

use std::io::{BufRead as _, Read as _};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Events, Served, database, serve, serve_with_rate};
use crate::support::Project;

/// Longer than servers take to learn of each other.
const EXCHANGED: Duration = Duration::from_millis(2000);

/// Creates a key, and returns its id and its header.
fn key(project: &Project, url: &str, tenant: &str) -> (String, String) {
    let made = project.run(&["key", "new", "--json", "--tenant", tenant, "--db", url]);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    let header = format!("authorization: Bearer {}\r\n", text("key"));
    (text("id"), header)
}

fn status(server: &Served, header: &str) -> u16 {
    let (code, _) = server.ask_with("GET", "/v1/sessions", header, &Value::Null);
    code
}

/// A key that is revoked opens nothing on any server two seconds later, and its
/// streams have ended.
#[test]
fn a_revoked_key_is_refused_by_all_servers() {
    let (one, other) = (Project::new(), Project::new());
    let url = database("keys");
    let (id, header) = key(&one, &url, "default");
    let servers = [serve(&one, &url), serve(&other, &url)];
    for server in &servers {
        assert_eq!(status(server, &header), 200);
    }
    let new = serde_json::json!({"label": "s"});
    let (code, answer) = servers[0].ask_with("POST", "/v1/sessions", &header, &new);
    assert_eq!(code, 201, "{answer}");
    // A stream on each server, and another one of a key that stays.
    let mut streams: Vec<Events> = servers
        .iter()
        .map(|server| Events::open(server, "s", &header))
        .collect();
    let (_, valid) = key(&one, &url, "default");
    let stays = Events::open(&servers[1], "s", &valid);
    assert_eq!(one.run(&["key", "revoke", &id, "--db", &url]).code, Some(0));
    for stream in &mut streams {
        // Fails after a minute when the server does not end it: the last chunk is empty.
        let mut line = String::new();
        while line != "0\r\n" {
            line.clear();
            assert_ne!(stream.0.read_line(&mut line).unwrap(), 0);
        }
    }
    for server in &servers {
        assert_eq!(status(server, &header), 401);
        assert_eq!(status(server, &valid), 200);
    }
    let limit = Some(Duration::from_millis(100));
    stays.0.get_ref().set_read_timeout(limit).unwrap();
    let mut stays = stays.0;
    let still_open = loop {
        match stays.read(&mut [0; 1024]) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(_) => break true,
        }
    };
    assert!(still_open, "the stream of a valid key was ended");
}

/// The requests of a day are counted on both servers together, and a restart
/// does not reset the count.
#[test]
fn the_requests_of_a_day_are_counted_on_all_servers() {
    let (one, other) = (Project::new(), Project::new());
    let url = database("days");
    let (_, header) = key(&one, &url, "acme");
    let quota = ["tenant", "quota", "acme", "--max-requests-per-day", "5"];
    let mut words = quota.to_vec();
    words.extend(["--db", &url]);
    let set = one.run(&words[..]);
    assert_eq!(set.code, Some(0), "{}", set.err);
    let first = serve(&one, &url);
    let answers: Vec<u16> = (0..6).map(|_| status(&first, &header)).collect();
    assert_eq!(answers, [200, 200, 200, 200, 200, 429]);
    thread::sleep(EXCHANGED);
    drop(first);
    // Another one accepts few, until it has asked the store.
    let second = serve(&other, &url);
    let mut accepted = 0;
    while status(&second, &header) != 429 {
        accepted += 1;
        assert!(accepted < 5, "the second server counts by itself");
        thread::sleep(EXCHANGED);
    }
}

/// The requests of a key on one server use up its rate on the other one.
#[test]
fn the_rate_of_a_key_holds_on_all_servers() {
    const BURST: usize = 200;
    let (one, other) = (Project::new(), Project::new());
    let url = database("rates");
    let (_, header) = key(&one, &url, "acme");
    let rate = ["1", &BURST.to_string()];
    let servers = [
        serve_with_rate(&one, &url, rate),
        serve_with_rate(&other, &url, rate),
    ];
    for server in &servers {
        assert_eq!(status(server, &header), 200);
    }
    thread::sleep(EXCHANGED);
    for _ in 0..BURST - 20 {
        assert_eq!(status(&servers[0], &header), 200);
    }
    assert_eq!(status(&servers[1], &header), 200);
    thread::sleep(EXCHANGED);
    let accepted = (0..BURST)
        .take_while(|_| status(&servers[1], &header) == 200)
        .count();
    // About 20, and one for each second that has passed.
    assert!(accepted < BURST / 2, "{accepted}");
}
