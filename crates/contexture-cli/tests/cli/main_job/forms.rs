//! `assemble`: the forms.

use super::*;

#[test]
fn the_prompt_is_a_header_and_blocks_by_priority_with_system_first() {
    let run = roles().run(&["assemble", "--now", NOW]);
    run.expect_code(0);
    assert_eq!(
        run.out,
        format!(
            "Root: ./\n\
             Constitution: rules.md (no version, checksum: 060af460962d)\n\
             {HEADER_BEHIND_CONSTITUTION}\
             <system>\n\
             Be kind.\n\
             </system>\n\
             \n\
             <developer>\n\
             Mend the build.\n\
             </developer>\n\
             \n\
             <context path=\"main.rs\">\n\
             fn main() {{}}\n\
             </context>\n\
             \n\
             <user>\n\
             Why does it fail?\n\
             </user>\n"
        )
    );
    run.says("using model gpt-5.6 (tokenizer o200k_base); set another with --model");
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let project = roles();
    for format in [
        "text",
        "anthropic",
        "openai-chat",
        "openai-responses",
        "gemini",
    ] {
        let args = ["assemble", "--now", NOW, "--format", format];
        assert_eq!(project.ok(&args), project.ok(&args), "{format}");
    }
}

#[test]
fn the_event_is_the_last_message() {
    let project = roles();
    let (prompt, report) = project.assemble(&["--event", "What now?\n"]);
    assert!(
        prompt.ends_with("\n\n<user>\nWhat now?\n</user>\n"),
        "{prompt}"
    );
    assert_eq!(row(&report, "event")["code"], "pinned");

    project.write("event.txt", "From a file\n");
    let prompt = project.ok(&["assemble", "--event-file", "event.txt"]);
    assert!(
        prompt.ends_with("\n\n<user>\nFrom a file\n</user>\n"),
        "{prompt}"
    );

    let run = project.run_with(&["assemble", "--event-file", "-"], "From a pipe\n");
    run.expect_code(0);
    assert!(
        run.out.ends_with("\n\n<user>\nFrom a pipe\n</user>\n"),
        "{}",
        run.out
    );
}

#[test]
fn our_own_json_has_every_part() {
    let project = roles();
    let value = parsed(&project.ok("assemble --format json --session s1 --event Go"));
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "system_prompt",
            "history",
            "current_message",
            "document",
            "tools",
            "model",
            "provider",
            "model_config",
            "token_budget",
            "session_label",
            "parent_turn_id",
            "role",
            "toolset_name",
            "permissions_granted",
            "source_event_id",
            "workspace_path",
            "loom",
            "truncation",
            "snapshot",
            "context_json",
            "report",
        ]
    );
    assert!(text(&value["system_prompt"]).ends_with("\n\nBe kind."));
    assert_eq!(value["current_message"]["role"], "user");
    assert!(text(&value["current_message"]["content"]).ends_with("\n\nGo"));
    assert_eq!(value["session_label"], "s1");
    assert_eq!(value["provider"], "openai");
    assert_eq!(value["token_budget"]["available"], 1000);
    assert_eq!(
        value["token_budget"]["used"]["total"],
        value["report"]["budget"]["used"]
    );
}

#[test]
fn the_form_decides_the_model_when_none_is_named() {
    let project = roles();
    let request = parsed(&project.ok(&["assemble", "--format", "anthropic"]));
    assert_eq!(request["model"], "claude-sonnet-5-5");
    let run = project.run(&["assemble", "--format", "anthropic", "--model", "gpt-4o"]);
    run.expect_code(0);
    assert!(
        run.err.contains(
            "warning: model gpt-4o belongs to openai, but the request format is for anthropic: \
             tokens are counted for openai"
        ),
        "{}",
        run.err
    );
    let vendor = "assemble --format openai-chat --model openai/gpt-4.1";
    assert_eq!(parsed(&project.ok(vendor))["model"], "gpt-4.1");
}
