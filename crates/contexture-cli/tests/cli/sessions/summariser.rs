//! Summaries by a language model, from a server that answers.

use super::*;
use crate::server::{Server, openai};

/// The variable that holds the key.
const KEY: &str = "CONTEXTURE_TEST_SUMMARISER_KEY";

/// Summarises the session with the model at `server`.
fn compact(project: &Project, server: &Server, args: &[&str]) -> Run {
    let url = server.url();
    project.write(
        "contexture.toml",
        format!(
            "[summariser]\nkind = \"openai\"\nmodel = \"gpt-4o-mini\"\n\
             base_url = \"{url}/v1\"\nattempts = 1\napi_key_env = \"{KEY}\"\n"
        ),
    );
    project.trust();
    let mut command = project.command(&[&["session", "compact", "chat"], args].concat());
    command.env(KEY, "the-key");
    crate::support::run(command, "")
}

#[test]
fn a_model_writes_the_summary() {
    let project = long_chat(5);
    let server = Server::start(vec![openai("- f1 and f2 forget their handles.\n")]);
    let run = compact(&project, &server, &["--focus", "handles"]);
    run.expect_code(0);
    assert_eq!(run.err, "");
    for part in [
        " (gpt-4o-mini):\n\n## Goal\n",
        "\n- f1 and f2 forget their handles.\n",
    ] {
        assert!(run.out.contains(part), "{}", run.out);
    }
    let head = &server.heads()[0];
    assert!(head.starts_with("POST /v1/chat/completions "), "{head}");
    assert!(head.contains("Bearer the-key"), "{head}");
    let asked = &server.asked()[0];
    let focus = "Pay attention to this above all: handles";
    assert!(asked.contains(focus), "{asked}");

    let request = assembled(&project, &[]);
    let summary = text(&request["history"][0]["content"]);
    let begins = "[Previous conversation summary]\n## Goal\n";
    assert!(summary.starts_with(begins), "{summary}");
    assert!(summary.contains("\n- f1 and f2 forget their handles."));
}

#[test]
fn a_summariser_without_its_key_falls_back_with_a_warning() {
    let project = long_chat(6);
    project.write(
        "contexture.toml",
        dedent(
            "
            [summariser]
            kind = \"openai\"
            model = \"gpt-4o-mini\"
            api_key_env = \"CONTEXTURE_TEST_KEY_THAT_IS_NOT_SET\"
            ",
        ),
    );
    project.trust();
    let run = project.run(&["session", "compact", "chat"]);
    run.expect_code(0);
    assert_eq!(
        run.err,
        "warning: the summariser gpt-4o-mini has no API key: the environment variable \
         CONTEXTURE_TEST_KEY_THAT_IS_NOT_SET is not set; using the extractive summariser \
         instead\n"
    );
    assert!(run.out.contains("(extractive)"), "{}", run.out);
}
