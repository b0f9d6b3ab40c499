//! Resources and prompts.

use super::*;

#[test]
fn resources_show_what_there_is() {
    let project = with_session(project(), "support", 2);
    let event = json!({"recipe": "broker", "session": "support", "event": "What else leaks?"});
    let steps = [
        json!({"do": "resources"}),
        json!({"do": "templates"}),
        json!({"do": "read", "uri": "contexture://working-set"}),
        call("assemble", json!({})),
        call("assemble", event),
        json!({"do": "read", "uri": "contexture://request"}),
        json!({"do": "read", "uri": "contexture://request/support"}),
        json!({"do": "read", "uri": "contexture://request/default"}),
        json!({"do": "read", "uri": "contexture://report/%73upport"}),
    ];
    for mode in MODES {
        let seen = drive(&stdio(&project), mode, &steps);
        let uris = |at: usize, name: &str| -> Vec<String> {
            let all = seen[at]["ok"].as_array().unwrap();
            all.iter()
                .map(|one| one[name].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(
            uris(0, "uri"),
            [
                "contexture://working-set",
                "contexture://report",
                "contexture://request"
            ]
        );
        assert_eq!(
            uris(1, "uriTemplate"),
            [
                "contexture://report/{session}",
                "contexture://request/{session}"
            ]
        );
        let content = |at: usize| seen[at]["ok"][0]["text"].as_str().unwrap();
        let set: Value = serde_json::from_str(content(2)).unwrap();
        assert_eq!(set, json_of(&project, &["working-set", "list"]));
        assert_eq!(seen[2]["ok"][0]["mimeType"], "application/json");

        let (files, talk) = (text(&seen[3]["ok"]), text(&seen[4]["ok"]));
        assert!(talk.contains("What else leaks?"), "{talk}");
        assert_eq!(content(5), talk);
        assert_eq!(content(6), talk);
        assert_eq!(content(7), files);
        let report: Value = serde_json::from_str(content(8)).unwrap();
        assert_eq!(
            report["request"]["hash"],
            seen[4]["ok"]["structuredContent"]["snapshot"]
        );
        assert_eq!(report["request"]["session"], "support");
        let blocks = report["contents"]["blocks"].as_array().unwrap();
        assert!(
            blocks.iter().any(|block| block["layer"] == "event"),
            "{blocks:?}"
        );
    }
}

#[test]
fn prompts_are_conversations() {
    let project = with_session(project(), "support", 2);
    let arguments = json!({"recipe": "broker", "session": "support", "event": "What else leaks?",
                           "max_tokens": "4000"});
    let steps = [
        json!({"do": "prompts"}),
        json!({"do": "prompt", "name": "assemble", "arguments": arguments}),
        json!({"do": "prompt", "name": "assemble", "arguments": {}}),
        json!({"do": "prompt", "name": "report", "arguments": {"session": ""}}),
    ];
    let seen = drive(&stdio(&project), "auto", &steps);
    let names: Vec<_> = seen[0]["ok"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["assemble", "report"]);

    let messages = seen[1]["ok"].as_array().unwrap();
    let said: Vec<(&str, &str)> = messages
        .iter()
        .map(|message| {
            let text = message["content"]["text"].as_str().unwrap();
            (message["role"].as_str().unwrap(), text)
        })
        .collect();
    let roles: Vec<&str> = said.iter().map(|(role, _)| *role).collect();
    assert_eq!(
        roles,
        ["user", "user", "assistant", "user", "assistant", "user"]
    );
    assert_eq!(said[1].1, "Please look at file number 1: what leaks?");
    assert!(
        said[4].1.ends_with("I decided to close handle 2."),
        "{}",
        said[4].1
    );
    assert!(said[5].1.contains("What else leaks?"), "{}", said[5].1);

    let first = seen[2]["ok"][0]["content"]["text"].as_str().unwrap();
    assert!(first.contains("Answer briefly."), "{first}");
    let report = seen[3]["ok"][0]["content"]["text"].as_str().unwrap();
    assert!(report.contains("cut   notes.md (files): "), "{report}");
}
