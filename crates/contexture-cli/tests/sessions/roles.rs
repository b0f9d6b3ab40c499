//! The system prompt: its sections, their order, and what never stands in it.

use super::*;

/// A project with everything that a system prompt is made from.
fn full() -> Project {
    with_session(
        project()
            .file("AGENTS.md", "Follow the house rules.\n")
            .file("IDENTITY.md", "The user is Kim.\n")
            .file("rules/b.md", "Cite lines.\n")
            .file("rules/a.md", "Be brief.\n")
            .file("persona/SOUL.md", "Calm.\n")
            .file("persona/IDENTITY.md", "I am Otto.\n")
            .file("persona/permissions.yml", "deny: [shell]\n")
            .file("capabilities.yml", CAPABILITIES),
    )
}

const CAPABILITIES: &str = "\
capabilities:
  Mail:
    - {name: outlook, state: broken, note: no key}
    - {name: gmail, state: ready}
  Files: {write: active, read: active}
  Build: [make]
credentials:
  configured: 3
  broken: [twitter]
";

const STANDING: &str = "\
Follow the house rules.

The user is Kim.

Be brief.

Cite lines.

Calm.

I am Otto.

## Permissions

Not allowed: shell
";

const ENVIRONMENT: &str = "\
## Environment

### Capabilities

Build: make (active)
Files: read, write (active)
Mail: gmail (ready) | outlook (broken: no key)

### Credentials

3 configured | 1 broken (twitter)
";

const MANAGER: &str = "\
## Your Role

You are the manager: you talk to the user and decide what is done.

- Answer on the platform that the message came from, with the actions it offers.
- Give work that takes long to workers, one task each, with all they need to know: they see nothing of this conversation.
- Look at what a worker reports before you pass it on.";

const WORKER: &str = "\
# Subagent Context

You are a **worker agent** spawned for a specific task.

## Your Task

Run make.

## Rules

1. Stay focused: do your assigned task, nothing else.
2. Complete the task: your final message reports back to the manager.
3. Don't initiate: no proactive actions, no side quests.
4. Be ephemeral: you may be terminated after completion.

## What You DON'T Do

- NO user conversations (that is the manager's job)
- NO external messages unless explicitly tasked
- NO persistent state changes outside your task scope
";

fn runtime() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("## Runtime\n\nHost: box | OS: {os} | Arch: {arch}")
}

#[track_caller]
fn check_system(project: &Project, args: &[&str], expected: &str) {
    let request = assembled(project, args);
    assert_eq!(text(&request["system_prompt"]), expected);
}

#[test]
fn the_managers_system_prompt() {
    let expected = format!("{STANDING}\n{ENVIRONMENT}\n{}\n\n{MANAGER}", runtime());
    check_system(&full(), &["--role", "manager"], &expected);
}

#[test]
fn the_unified_system_prompt_is_the_default() {
    let role = "## Your Role\n\nYou talk to the user and do the work yourself.";
    let expected = format!("{STANDING}\n{ENVIRONMENT}\n{}\n\n{role}", runtime());
    let project = full();
    check_system(&project, &["--role", "unified"], &expected);
    check_system(&project, &[], &expected);
}

#[test]
fn a_worker_has_its_own_with_its_task_and_what_the_task_names() {
    let environment = "## Environment\n\n### Capabilities\n\nBuild: make (active)";
    let expected = format!("{WORKER}\n{STANDING}\n{environment}\n\n{}", runtime());
    check_system(
        &full(),
        &["--role", "worker", "--task", "Run make."],
        &expected,
    );
}

#[test]
fn a_worker_takes_its_task_from_its_session() {
    let project = full();
    project.ok(&[
        "session",
        "new",
        "job",
        "--parent",
        "chat",
        "--task",
        "Run make.",
    ]);
    let args = "assemble --recipe broker --session job --role worker --format json --event Go";
    let args: Vec<&str> = args.split(' ').collect();
    let request = parsed(&project.ok(&args));
    let system = text(&request["system_prompt"]);
    assert!(system.starts_with(WORKER), "{system}");
    assert_eq!(request["role"], "worker");
}

#[test]
fn a_worker_sees_a_category_that_its_task_names_whole() {
    let request = assembled(&full(), &["--role", "worker", "--task", "Read the mail."]);
    let system = text(&request["system_prompt"]);
    let scoped = "### Capabilities\n\nFiles: read (active)\n\
                  Mail: gmail (ready) | outlook (broken: no key)\n\n## Runtime";
    assert!(system.contains(scoped), "{system}");
    assert!(!system.contains("Credentials"), "{system}");
}

#[test]
fn others_that_have_a_task_are_told_it() {
    let request = assembled(&full(), &["--role", "unified", "--task", "Mend the build."]);
    let system = text(&request["system_prompt"]);
    assert!(
        system.starts_with("## Your Task\n\nMend the build.\n\nFollow"),
        "{system}"
    );
}

#[test]
fn empty_sections_leave_no_gap() {
    let project = with_session(
        project()
            .file("AGENTS.md", "\n\n")
            .file("IDENTITY.md", "The user is Kim.\n")
            .file("capabilities.yml", "capabilities: {}\n")
            .file("persona/SOUL.md", ""),
    );
    let role = "## Your Role\n\nYou talk to the user and do the work yourself.";
    let expected = format!("The user is Kim.\n\n{}\n\n{role}", runtime());
    check_system(&project, &[], &expected);
}

#[test]
fn a_worker_whose_task_names_nothing_has_no_environment() {
    let request = assembled(&full(), &["--role", "worker", "--task", "Think."]);
    let system = text(&request["system_prompt"]);
    assert!(!system.contains("## Environment"), "{system}");
    assert!(!system.contains("\n\n\n"), "{system}");
}

#[test]
fn time_model_provider_and_platform_never_stand_in_the_system_prompt() {
    let project = full().file(
        "event.json",
        json!({
            "content": "Hello", "platform": "slack", "platform_actions": ["reply"],
            "timezone": "Europe/Berlin", "sender": {"name": "Kim"},
        })
        .to_string(),
    );
    for role in ["manager", "unified"] {
        let args = ["--role", role, "--event-file", "event.json"];
        let system = |more: &[&str]| -> String {
            let request = assembled(&project, &[&args[..], more].concat());
            text(&request["system_prompt"]).to_owned()
        };
        let prompt = system(&[]);
        for word in ["2026", "12:00", "gpt-4o", "openai", "slack", "Berlin"] {
            assert!(!prompt.contains(word), "{word} in {prompt}");
        }
        // Nor anything else that changes with them.
        assert_eq!(system(&["--model", "claude-sonnet-4"]), prompt);
        let later = [
            "assemble",
            "--recipe",
            "broker",
            "--session",
            "chat",
            "--format",
            "json",
        ];
        let now = [
            "--role",
            role,
            "--event",
            "x",
            "--now",
            "2027-12-24T18:00:00Z",
        ];
        let later = parsed(&project.ok(&[&later[..], &now].concat()));
        assert_eq!(text(&later["system_prompt"]), prompt);
    }
}

#[test]
fn the_files_of_a_workspace_may_lie_below_dot_agent() {
    let project = with_session(
        project()
            .file(".agent/AGENTS.md", "From below.\n")
            .file(".agent/rules/a.md", "A rule.\n")
            .file(".agent/persona/SOUL.md", "Calm.\n"),
    );
    let request = assembled(&project, &[]);
    let system = text(&request["system_prompt"]);
    assert!(
        system.starts_with("From below.\n\nA rule.\n\nCalm.\n\n## Runtime"),
        "{system}"
    );
}

#[test]
fn a_persona_by_name_and_by_default() {
    let project = with_session(
        project()
            .file("persona/SOUL.md", "The default.\n")
            .file("personas/ana/SOUL.md", "Curious.\n")
            .file("personas/ana/IDENTITY.md", "I am Ana.\n")
            .file("personas/bo/SOUL.md", "Grumpy.\n"),
    );
    project.ok(&["session", "new", "with-ana", "--persona", "ana"]);
    let begins = |label: &str, with: &str| {
        let args = [
            "assemble",
            "--recipe",
            "broker",
            "--format",
            "json",
            "--session",
            label,
        ];
        let request = parsed(&project.ok(&args));
        let system = text(&request["system_prompt"]);
        assert!(system.starts_with(with), "{label}: {system}");
    };
    begins("chat", "The default.\n\n## Runtime");
    begins("with-ana", "Curious.\n\nI am Ana.\n\n## Runtime");
    project.write("contexture.toml", "[persona]\nname = \"bo\"\n");
    begins("chat", "Grumpy.\n\n## Runtime");
    // What a session says of its persona comes first.
    begins("with-ana", "Curious.");
}

#[test]
fn an_environment_from_a_command() {
    let answer = json!({"capabilities": {"Build": ["make"]}}).to_string();
    let settings = json!({"command": ["printf", "%s", answer]});
    let project = chat();
    let command = settings["command"].to_string();
    project.write(
        "contexture.toml",
        format!("[environment]\ncommand = {command}\n"),
    );
    let request = assembled(&project, &[]);
    let system = text(&request["system_prompt"]);
    let environment = "## Environment\n\n### Capabilities\n\nBuild: make (active)\n\n## Runtime";
    assert!(system.starts_with(environment), "{system}");
    // Its answer is kept, for a time when there is none.
    assert_eq!(project.read(".contexture/environment.json"), answer);
}
