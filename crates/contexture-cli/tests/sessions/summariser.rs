//! Summaries by a language model, from a server that answers once.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use super::*;

/// The variable that holds the key.
const KEY: &str = "CONTEXTURE_TEST_SUMMARISER_KEY";

/// Starts a server that answers one call with `status` and `body`. It returns
/// what it was asked: head and body.
fn server(status: u16, body: &Value) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let body = body.to_string();
    let answer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let asked = read_request(&mut stream);
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        asked
    });
    (address, answer)
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut some = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let length = text.split_once("content-length: ").and_then(|(_, rest)| {
            let number = rest.split_once("\r\n")?.0;
            number.parse::<usize>().ok()
        });
        let head = text.find("\r\n\r\n").map(|at| at + 4);
        if let (Some(head), Some(length)) = (head, length)
            && bytes.len() >= head + length
        {
            return String::from_utf8(bytes).unwrap();
        }
        let read = stream.read(&mut some).unwrap();
        assert_ne!(read, 0, "the request ends early:\n{text}");
        bytes.extend(&some[..read]);
    }
}

/// An answer of OpenAI's Chat Completions.
fn completion(said: &str) -> Value {
    json!({
        "id": "x", "object": "chat.completion", "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": said}}],
        "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 100_000},
    })
}

/// Has the session summarised by the model at `address`.
fn compact(project: &Project, address: &str, args: &[&str]) -> Run {
    project.write(
        "contexture.toml",
        format!(
            "[summariser]\nkind = \"openai\"\nmodel = \"gpt-4o-mini\"\n\
             base_url = \"http://{address}/v1\"\nattempts = 1\napi_key_env = \"{KEY}\"\n"
        ),
    );
    let mut command = project.command(&[&["session", "compact", "chat"], args].concat());
    command.env(KEY, "the-key");
    support::run(command, "")
}

/// Checks that the sentences were taken out instead, and why.
#[track_caller]
fn fell_back(run: &Run, why: &str) {
    run.expect_code(0);
    assert!(run.out.contains(" (extractive):\n"), "{}", run.out);
    assert_eq!(run.err, format!("warning: {why}\n"));
}

#[test]
fn a_model_writes_the_summary() {
    let project = long_chat(5);
    let (address, server) = server(200, &completion("- f1 and f2 forget their handles.\n"));
    let run = compact(&project, &address, &["--focus", "handles"]);
    run.expect_code(0);
    assert_eq!(run.err, "");
    assert!(
        run.out
            .contains(" (gpt-4o-mini):\n\n- f1 and f2 forget their handles.\n\n"),
        "{}",
        run.out
    );
    let asked = server.join().unwrap();
    assert!(asked.starts_with("POST /v1/chat/completions "), "{asked}");
    assert!(asked.contains("Bearer the-key"), "{asked}");
    assert!(
        asked.contains("Pay attention to this above all: handles"),
        "{asked}"
    );
    assert!(asked.contains("function f2 in src/mod2.rs"), "{asked}");
    assert!(
        !asked.contains("function f3"),
        "what is kept is not summarised: {asked}"
    );

    let request = assembled(&project, &[]);
    assert_eq!(
        request["history"][0]["content"],
        "[Previous conversation summary]\n- f1 and f2 forget their handles."
    );
    // 0.15 and 0.6 dollars for a million tokens.
    let cost = json_of(&project, &["session", "cost", "chat"]);
    assert_eq!(cost["turns"][0]["kind"], "compaction");
    assert_eq!(cost["dollars"], json!(0.21));
}

#[test]
fn what_the_model_is_asked_has_no_secrets() {
    let project = chat();
    // In two parts, so that nobody takes this file for a leak.
    let key = ["AKIA", "Z7QX2M4N6P8R3T5V"].concat();
    for _ in 0..4 {
        let asked = format!("The key is {key}, use it for the upload to the bucket.");
        say(&project, "chat", &asked, &"I will upload it. ".repeat(20));
    }
    let (address, server) = server(200, &completion("- An upload."));
    compact(&project, &address, &[]).expect_code(0);
    assert!(!server.join().unwrap().contains(&key));
}

#[test]
fn a_summary_that_is_empty_or_longer_is_refused() {
    let project = long_chat(4);
    let (address, _) = server(200, &completion(" \n"));
    fell_back(
        &compact(&project, &address, &[]),
        "the summariser gpt-4o-mini failed: the answer has no text (stopped by `stop`); sentences \
         are taken out instead",
    );
    let project = long_chat(4);
    let before = {
        let compacted = json_of(&project, &["session", "compact", "chat"]);
        project.ok(&["session", "uncompact", "chat"]);
        compacted["tokens_before"].clone()
    };
    let (address, _) = server(200, &completion(&"word ".repeat(1000)));
    fell_back(
        &compact(&project, &address, &[]),
        &format!(
            "the summary by gpt-4o-mini is refused: it has 1000 tokens, what it would replace \
             {before}"
        ),
    );
}

#[test]
fn a_model_that_cannot_be_reached_or_fails() {
    let project = long_chat(4);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let run = compact(&project, &address, &[]);
    run.expect_code(0);
    let told = format!("warning: the summariser gpt-4o-mini failed: no answer from {address}: ");
    assert!(run.err.starts_with(&told), "{}", run.err);
    assert!(
        run.err.ends_with("; sentences are taken out instead\n"),
        "{}",
        run.err
    );
    let project = long_chat(4);
    let error = json!({"error": {"message": "bad key", "type": "invalid_request_error"}});
    let (address, _) = server(401, &error);
    let run = compact(&project, &address, &[]);
    run.expect_code(0);
    assert!(
        run.err.contains("401") && run.err.contains("bad key"),
        "{}",
        run.err
    );
    assert!(!run.err.contains("the-key"), "{}", run.err);
}
