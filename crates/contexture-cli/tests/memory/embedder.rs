//! Vectors from an endpoint: it may be down, slow, or wrong.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// What the endpoint answers.
#[derive(Clone, Copy)]
enum Answers {
    /// Vectors of so many dimensions.
    Vectors(usize),
    /// A vector with a number that is none.
    NotANumber,
    /// An error.
    Refusal,
    /// Nothing, for a while.
    Late,
}

/// Starts an endpoint that answers every call, and returns its address.
fn endpoint(answers: Answers) -> String {
    endpoint_until(usize::MAX, answers, None)
}

/// Starts an endpoint that changes after some calls; to nothing, it is gone.
fn endpoint_until(calls: usize, answers: Answers, then: Option<Answers>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (i, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            let answers = if i < calls { Some(answers) } else { then };
            if let Some(answers) = answers {
                thread::spawn(move || answer(stream, answers));
            }
            if i + 1 >= calls && then.is_none() {
                return;
            }
        }
    });
    format!("http://{address}/v1")
}

fn answer(stream: TcpStream, answers: Answers) {
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let texts = asked["input"].as_array().unwrap();
    let (status, body) = match answers {
        Answers::Late => {
            thread::sleep(Duration::from_secs(5));
            return;
        }
        Answers::Refusal => (
            401,
            json!({"error": {"message": "no such key"}}).to_string(),
        ),
        Answers::NotANumber => {
            let row = |i: usize| format!(r#"{{"index":{i},"embedding":[0.5,NaN,0.5,0.5]}}"#);
            let rows: Vec<String> = (0..texts.len()).map(row).collect();
            (200, format!(r#"{{"data":[{}]}}"#, rows.join(",")))
        }
        Answers::Vectors(dimensions) => {
            let rows = texts.iter().enumerate().map(|(i, one)| {
                // What is said of boats points one way, all else another.
                let boat = f64::from(u8::from(text(one).contains("oat")));
                let mut vector = vec![0.1; dimensions];
                vector[0] = boat;
                vector[1] = 1.0 - boat;
                json!({"index": i, "embedding": vector})
            });
            (200, json!({"data": rows.collect::<Vec<_>>()}).to_string())
        }
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
}

fn settings(url: &str, dimensions: usize) -> String {
    format!(
        "[memory.embedder]\nbase_url = \"{url}\"\nmodel = \"tiny\"\ndimensions = {dimensions}\n\
         deadline_ms = 1500\n"
    )
}

fn boats_in_words() -> Project {
    Project::new().file(
        "records.jsonl",
        lines(&[
            json!({"kind": "event", "id": "a", "content": "The boat is out."}),
            json!({"kind": "event", "id": "b", "content": "The kettle is on."}),
        ]),
    )
}

/// Nobody listens there.
const DEAD: &str = "http://127.0.0.1:9/v1";

#[test]
fn it_makes_the_vectors() {
    let url = endpoint(Answers::Vectors(4));
    let project = boats_in_words().file("contexture.toml", settings(&url, 4));
    assert_eq!(
        out(&project, &["memory", "record", "records.jsonl"]),
        "recorded 2 records (2 new)\n"
    );
    // No word of it is in what is found.
    assert_eq!(
        found(&project, &["float a goat", "--max-tokens", "40"]),
        ["a"]
    );
    assert!(out(&project, &["memory", "stats"]).contains("vectors of tiny (4 dimensions)"));
}

#[test]
fn it_is_down_while_something_is_recorded() {
    let project = boats_in_words().file("contexture.toml", settings(DEAD, 4));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(0);
    assert_eq!(run.out, "recorded 2 records (2 new)\n");
    assert!(
        run.err
            .starts_with("warning: texts are found by their words only, for now: "),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("`contexture memory reembed`"),
        "{}",
        run.err
    );
    // Words still find it.
    let run = call(&project, &["memory", "recall", "boat"]);
    run.expect_code(0);
    assert!(run.out.contains("The boat is out."), "{}", run.out);
    assert!(out(&project, &["memory", "stats"]).contains("2 texts without a vector"));

    // Mended, it is made up for.
    let url = endpoint(Answers::Vectors(4));
    project.write("contexture.toml", settings(&url, 4));
    let told = out(&project, &["memory", "reembed"]);
    assert_eq!(told, "2 texts got a vector of tiny (4 dimensions)\n");
    assert_eq!(
        found(&project, &["float a goat", "--max-tokens", "40"]),
        ["a"]
    );
}

#[test]
fn it_is_down_while_something_is_recalled() {
    let url = endpoint_until(1, Answers::Vectors(4), None);
    let project = boats_in_words().file("contexture.toml", settings(&url, 4));
    out(&project, &["memory", "record", "records.jsonl"]);
    let run = call(&project, &["memory", "recall", "boat"]);
    run.expect_code(0);
    assert!(run.out.contains("The boat is out."), "{}", run.out);
    assert!(
        run.err
            .contains("warning: the query has no vector, so that only words were searched for: "),
        "{}",
        run.err
    );
}

#[test]
fn it_refuses() {
    let url = endpoint(Answers::Refusal);
    let project = boats_in_words().file("contexture.toml", settings(&url, 4));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(2);
    assert!(run.err.contains("no such key"), "{}", run.err);
    assert!(
        run.err.contains("nothing of it was recorded"),
        "{}",
        run.err
    );
}

#[test]
fn its_vectors_have_another_length() {
    let url = endpoint(Answers::Vectors(3));
    let project = boats_in_words().file("contexture.toml", settings(&url, 4));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(2);
    assert_eq!(run.out, "");
    assert!(run.err.starts_with("error: the embedder: "), "{}", run.err);
    assert!(
        run.err.contains('3') && run.err.contains('4'),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("nothing of it was recorded"),
        "{}",
        run.err
    );
}

#[test]
fn its_vectors_hold_no_numbers() {
    let url = endpoint(Answers::NotANumber);
    let project = boats_in_words().file("contexture.toml", settings(&url, 4));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(2);
    assert!(run.err.starts_with("error: the embedder: "), "{}", run.err);
    assert!(
        run.err.contains("nothing of it was recorded"),
        "{}",
        run.err
    );
}

#[test]
fn it_does_not_answer() {
    let url = endpoint(Answers::Late);
    let project = boats_in_words().file("contexture.toml", settings(&url, 4));
    let started = Instant::now();
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(0);
    assert!(run.err.contains("found by their words only"), "{}", run.err);
    assert!(started.elapsed() < Duration::from_secs(10));
    let run = call(&project, &["memory", "reembed"]);
    run.expect_code(1);
    assert!(
        run.err
            .starts_with("error: after 0 texts, the embedder failed: "),
        "{}",
        run.err
    );
    run.says("hint: run it again when that is mended: it goes on from there");
}

#[test]
fn another_embedder_is_not_mixed_with_the_first() {
    let project = boats_in_words();
    out(&project, &["memory", "record", "records.jsonl"]);
    let url = endpoint(Answers::Vectors(4));
    project.write("contexture.toml", settings(&url, 4));
    for args in [
        vec!["memory", "recall", "boat"],
        vec!["memory", "record", "records.jsonl"],
    ] {
        let run = call(&project, &args);
        run.expect_code(2);
        assert!(
            run.err.contains("the two cannot be compared"),
            "{}",
            run.err
        );
        assert!(
            run.err.contains("hint: `contexture memory reembed`"),
            "{}",
            run.err
        );
    }
    let run = project.run(&["doctor"]);
    run.expect_code(2);
    assert!(run.out.contains("bad  memory "), "{}", run.out);
    let told = out(&project, &["memory", "reembed"]);
    assert_eq!(told, "2 texts got a vector of tiny (4 dimensions)\n");
    assert_eq!(
        found(&project, &["float a goat", "--max-tokens", "40"]),
        ["a"]
    );
    project.run(&["doctor"]).expect_code(0);
}

#[test]
fn a_request_does_not_wait_for_it() {
    let url = endpoint_until(1, Answers::Vectors(4), Some(Answers::Late));
    let quick = format!("[memory]\ndeadline_ms = 300\n{}", settings(&url, 4));
    let project = boats_in_words().file("contexture.toml", quick);
    out(&project, &["memory", "record", "records.jsonl"]);
    let started = Instant::now();
    let args = ["--recipe", "broker", "--event", "Is the boat out?"];
    let (prompt, report) = project.assemble(&args);
    assert!(prompt.contains("The boat is out."), "{prompt}");
    let late = "the query has no vector, so that only words were searched for: the embedder gave \
                no answer in time (memory.deadline_ms)";
    let told = warnings(&report);
    assert!(told.iter().any(|warning| warning == late), "{told:?}");
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[test]
fn settings_that_make_no_sense() {
    let project = boats_in_words();
    for (settings, message) in [
        (
            "[memory.embedder]\nbase_url = \"http://x/v1\"\n",
            "error: [memory.embedder] has a base_url, but no model; nothing of it was recorded\n\
             hint: name the model that the endpoint is asked for\n",
        ),
        (
            "[memory.embedder]\nbase_url = \"http://x/v1\"\nmodel = \"m\"\n",
            "error: [memory.embedder] has a base_url, but no dimensions; nothing of it was \
             recorded\nhint: say how long the model's vectors are, such as `dimensions = 1536`\n",
        ),
        ("[memory.embedder]\nmodel = \"no/such/folder\"\n", ""),
        ("[memory]\narchetype = \"codin\"\n", ""),
        ("[memory]\nposition = \"top\"\n", ""),
        ("[memory]\nbogus = 1\n", ""),
    ] {
        project.write("contexture.toml", settings);
        let run = call(&project, &["memory", "record", "records.jsonl"]);
        run.expect_code(2);
        assert_eq!(run.out, "");
        match message {
            "" => assert!(run.err.starts_with("error: "), "{}", run.err),
            message => assert_eq!(run.err, message),
        }
        project.run(&["doctor"]).expect_code(2);
    }
}
