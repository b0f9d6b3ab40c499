//! Stopping: accepted requests are finished.

use std::net::TcpStream;
use std::thread;

use crate::support::{Lab, talk, turn, until};

#[test]
fn accepted_requests_are_answered_and_new_ones_rejected_while_stopping() {
    let lab = Lab::new();
    let mut server = lab.serve();
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let address = server.address;
    // A request whose body is still to come keeps the server.
    let body = turn("In flight.");
    let mut wire = server.connect();
    wire.send(format!(
        "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\nexpect: \
         100-continue\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    // It has begun.
    assert!(wire.until("\r\n\r\n").contains("100 Continue"));
    wire.send(&body[..10]);
    // Another idle connection is told to close.
    let mut idle = server.connect();
    idle.send("GET /v1/sessions/s HTTP/1.1\r\nhost: localhost\r\n\r\n");
    idle.answer().ok(200);
    server.say_stop();
    assert_eq!(idle.rest(), "");
    until(|| TcpStream::connect(address).is_err().then_some(()));
    wire.send(&body[10..]);
    let recorded = wire.answer().ok(201);
    assert_eq!(recorded.header("connection"), Some("close"));
    drop(server);
    // Acknowledged turns are stored.
    let again = lab.serve();
    assert_eq!(again.get("/v1/sessions/s").json()["turns"], 1);
}

#[test]
fn a_stopping_server_is_not_ready() {
    let lab = Lab::new();
    let mut server = lab.serve();
    server.get("/readyz").ok(200);
    // It has been connected to before, and asks while something else is busy.
    let body = turn("In flight.");
    server.post("/v1/sessions", r#"{"label":"s"}"#).ok(201);
    let mut asking = server.connect();
    asking.send("GET /readyz HTTP/1.1\r\nhost: localhost\r\n");
    let mut busy = server.connect();
    busy.send(format!(
        "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\nexpect: \
         100-continue\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    assert!(busy.until("\r\n\r\n").contains("100 Continue"));
    server.say_stop();
    let address = server.address;
    until(|| TcpStream::connect(address).is_err().then_some(()));
    asking.send("\r\n");
    let said = asking.rest();
    assert!(said.is_empty() || said.contains("503"), "{said}");
    busy.send(&body);
    busy.answer().ok(201);
}

#[test]
fn no_acknowledged_write_is_lost() {
    let lab = Lab::new();
    let mut server = lab.serve();
    let client = server.anybody();
    talk(&client, "s", "First.");
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let address = server.address;
            thread::spawn(move || {
                let mut acknowledged = Vec::new();
                for i in 0.. {
                    let text = format!("writer {writer} turn {i}");
                    let body = turn(&text);
                    let Ok(stream) = TcpStream::connect(address) else {
                        break;
                    };
                    let mut wire = crate::support::Wire(stream);
                    wire.send(format!(
                        "POST /v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\nconnection: \
                         close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    ));
                    if wire.rest().starts_with("HTTP/1.1 201 ") {
                        acknowledged.push(text);
                    }
                }
                acknowledged
            })
        })
        .collect();
    until(|| (client.get("/v1/sessions/s").json()["turns"].as_u64() > Some(40)).then_some(()));
    server.say_stop();
    drop(server);
    let acknowledged: Vec<String> = writers
        .into_iter()
        .flat_map(|writer| writer.join().unwrap())
        .collect();
    assert!(acknowledged.len() >= 40);
    let again = lab.serve();
    let history = again.get("/v1/sessions/s/history?limit=1000").ok(200).body;
    for text in acknowledged {
        assert!(history.contains(&format!("\"{text}\"")), "{text}");
    }
}
