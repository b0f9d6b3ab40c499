//! Vectors from an endpoint: it may be down, slow, or wrong.

use super::*;
use crate::server::{Reply, Server};

/// Starts an endpoint that answers every call alike.
fn endpoint(reply: Reply) -> Server {
    Server::start(vec![reply])
}

fn settings(url: &str, dimensions: usize) -> String {
    format!(
        "[memory.embedder]\nbase_url = \"{url}/v1\"\nmodel = \"tiny\"\ndimensions = {dimensions}\n\
         deadline_ms = 1500\n"
    )
}

/// Writes the settings and trusts them.
fn configure(project: &Project, settings: &str) {
    project.write("contexture.toml", settings);
    project.trust();
}

/// A project with two texts and trusted settings.
fn configured(settings: &str) -> Project {
    let project = boats_in_words();
    configure(&project, settings);
    project
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
const DEAD: &str = "http://127.0.0.1:9";

#[test]
fn it_is_down_while_something_is_recorded() {
    let project = configured(&settings(DEAD, 4));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(0);
    assert_eq!(run.out, "recorded 2 records (2 new)\n");
    assert!(
        run.err.starts_with(
            "warning: the texts have no vectors and are searched by words only until "
        ),
        "{}",
        run.err
    );
    assert!(
        run.err
            .contains("`contexture memory reembed` computes the vectors again"),
        "{}",
        run.err
    );
    // Words still find it.
    let run = call(&project, &["memory", "recall", "boat"]);
    run.expect_code(0);
    assert!(run.out.contains("The boat is out."), "{}", run.out);
    assert!(out(&project, &["memory", "stats"]).contains("2 texts without a vector"));

    // Mended, it is made up for.
    let server = endpoint(Reply::Vectors(4));
    configure(&project, &settings(&server.url(), 4));
    let told = out(&project, &["memory", "reembed"]);
    assert_eq!(
        told,
        "computed the vectors of 2 texts with tiny (4 dimensions)\n"
    );
    assert_eq!(
        found(&project, &["float a goat", "--max-tokens", "24"]),
        ["a"]
    );
}

#[test]
fn it_is_down_while_something_is_recalled() {
    let server = endpoint(Reply::Vectors(4));
    let project = configured(&settings(&server.url(), 4));
    out(&project, &["memory", "record", "records.jsonl"]);
    drop(server);
    let run = call(&project, &["memory", "recall", "boat"]);
    run.expect_code(0);
    assert!(run.out.contains("The boat is out."), "{}", run.out);
    let told = "warning: the query was searched by words only, because it has no vector: ";
    assert!(run.err.contains(told), "{}", run.err);
}

#[test]
fn nothing_is_recorded_with_vectors_that_are_wrong() {
    let refusal = json!({"error": {"message": "no such key"}});
    for (reply, told) in [
        (Reply::Json(401, refusal), "no such key"),
        (Reply::Vectors(3), "3"),
    ] {
        let server = endpoint(reply);
        let project = configured(&settings(&server.url(), 4));
        let run = call(&project, &["memory", "record", "records.jsonl"]);
        run.expect_code(2);
        assert_eq!(run.out, "");
        assert!(run.err.starts_with("error: the embedder: "), "{}", run.err);
        let (told, nothing) = (run.err.contains(told), "nothing was recorded");
        assert!(told && run.err.contains(nothing), "{}", run.err);
    }
}

#[test]
fn it_does_not_answer() {
    let server = endpoint(Reply::Silent);
    let project = configured(&settings(&server.url(), 4));
    let run = call(&project, &["memory", "record", "records.jsonl"]);
    run.expect_code(0);
    assert!(run.err.contains("searched by words only"), "{}", run.err);
    let run = call(&project, &["memory", "reembed"]);
    run.expect_code(1);
    assert!(
        run.err
            .starts_with("error: the embedder failed after 0 texts: "),
        "{}",
        run.err
    );
    run.says("hint: run it again when the embedder works; it continues from there");
}

#[test]
fn another_embedder_is_not_mixed_with_the_first() {
    let project = boats_in_words();
    out(&project, &["memory", "record", "records.jsonl"]);
    let server = endpoint(Reply::Vectors(4));
    configure(&project, &settings(&server.url(), 4));
    for args in [
        vec!["memory", "recall", "boat"],
        vec!["memory", "record", "records.jsonl"],
    ] {
        let run = call(&project, &args);
        run.expect_code(2);
        assert!(run.err.contains("cannot be compared"), "{}", run.err);
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
    assert_eq!(
        told,
        "computed the vectors of 2 texts with tiny (4 dimensions)\n"
    );
    assert_eq!(
        found(&project, &["float a goat", "--max-tokens", "24"]),
        ["a"]
    );
    project.run(&["doctor"]).expect_code(0);
}

#[test]
fn invalid_settings_are_rejected() {
    let project = boats_in_words();
    for (settings, message) in [
        (
            "[memory.embedder]\nbase_url = \"http://x/v1\"\n",
            "error: [memory.embedder] has a base_url but no model; nothing was recorded\nhint: \
             set model to the model that the endpoint serves\n",
        ),
        (
            "[memory.embedder]\nbase_url = \"http://x/v1\"\nmodel = \"m\"\n",
            "error: [memory.embedder] has a base_url but no dimensions; nothing was \
             recorded\nhint: set the length of the model's vectors, such as `dimensions = 1536`\n",
        ),
        ("[memory.embedder]\nmodel = \"no/such/folder\"\n", ""),
        ("[memory]\narchetype = \"codin\"\n", ""),
        ("[memory]\nposition = \"top\"\n", ""),
        ("[memory]\nbogus = 1\n", ""),
    ] {
        project.write("contexture.toml", settings);
        // Some of them are not settings.
        project.run("trust");
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
