//! The system prompt: its sections, their order, and content that it never has.

use contexture::turn::AgentRole;
use serde_json::json;

use super::*;

const FILES: [(&str, &str); 8] = [
    ("AGENTS.md", "Follow the house rules.\n"),
    ("IDENTITY.md", "The user is Kim.\n"),
    ("rules/b.md", "Cite lines.\n"),
    ("rules/a.md", "Be brief.\n"),
    ("persona/SOUL.md", "Calm.\n"),
    ("persona/IDENTITY.md", "I am Otto.\n"),
    ("persona/permissions.yml", "deny: [shell]\n"),
    (
        "capabilities.yml",
        "capabilities:\n  Mail:\n    - {name: outlook, state: broken, note: no key}\n    \
         - {name: gmail, state: ready}\n  Files: {write: active, read: active}\n  Build: [make]\n\
         credentials:\n  configured: 3\n  broken: [twitter]\n",
    ),
];

const STANDING: [&str; 7] = [
    "Follow the house rules.",
    "The user is Kim.",
    "Be brief.",
    "Cite lines.",
    "Calm.",
    "I am Otto.",
    "## Permissions",
];

/// Returns the headings of a system prompt and the content of our files, in
/// order.
fn sections(request: &Value) -> Vec<&str> {
    let lines = system(request).lines();
    let known = |line: &&str| line.starts_with('#') || STANDING.contains(line);
    lines.filter(known).collect()
}

fn as_role(role: AgentRole, task: Option<&str>) -> impl FnOnce(&mut Request) {
    let task = task.map(str::to_owned);
    move |request| {
        request.role = Some(role);
        request.task = task;
    }
}

#[test]
fn sections_stand_in_their_order() {
    let lab = project("", &FILES);
    let everything = ["## Environment", "### Capabilities", "### Credentials"];
    let end = ["## Runtime", "## Your Role"];
    let expected = [&STANDING[..], &everything, &end].concat();
    let manager = ask(&lab, as_role(AgentRole::Manager, None));
    assert_eq!(sections(&manager), expected);
    let unified = ask(&lab, |_| {});
    assert_eq!(sections(&unified), expected);
    assert_eq!(unified["role"], "unified");
    assert_ne!(system(&manager), system(&unified));
    let environment = "## Environment\n\n### Capabilities\n\nBuild: make (active)\n\
                       Files: read, write (active)\nMail: gmail (ready) | outlook (broken: no key)\n\n\
                       ### Credentials\n\n3 configured | 1 broken (twitter)\n\n## Runtime\n\nHost: lab | ";
    assert!(
        system(&unified).contains(environment),
        "{}",
        system(&unified)
    );
    assert!(system(&unified).contains("## Permissions\n\nNot allowed: shell\n"));
    let task = ask(&lab, as_role(AgentRole::Unified, Some("Mend the build.")));
    let told = "## Your Task\n\nMend the build.\n\nFollow";
    assert!(system(&task).starts_with(told), "{}", system(&task));
}

#[test]
fn a_worker_has_its_task_first_and_what_the_task_names() {
    let lab = project("", &FILES);
    let of = |task: &str| ask(&lab, as_role(AgentRole::Worker, Some(task)));
    let make = of("Run make.");
    let begin = [
        "# Subagent Context",
        "## Your Task",
        "## Rules",
        "## What You DON'T Do",
    ];
    let end = ["## Environment", "### Capabilities", "## Runtime"];
    assert_eq!(sections(&make), [&begin[..], &STANDING, &end].concat());
    assert!(system(&make).contains("## Your Task\n\nRun make.\n"));
    assert!(system(&make).contains("### Capabilities\n\nBuild: make (active)\n\n## Runtime"));
    // A category that the task names is there whole.
    let mail = of("Read the mail.");
    let scoped =
        "Files: read (active)\nMail: gmail (ready) | outlook (broken: no key)\n\n## Runtime";
    assert!(system(&mail).contains(scoped), "{}", system(&mail));
    let nothing = of("Think.");
    assert!(!system(&nothing).contains("## Environment"));
    assert!(!system(&nothing).contains("\n\n\n"));
    // Without a task, the session's task is used; one of both is required.
    let task = Some("Run make.".to_owned());
    let job = contexture::store::NewSession {
        label: "job".to_owned(),
        task,
        ..Default::default()
    };
    lab.store.create_session(&job, lab.tick()).unwrap();
    let own = ask(&lab, |request| {
        request.role = Some(AgentRole::Worker);
        request.session = Some("job".to_owned());
    });
    assert_eq!(system(&own), system(&make));
    assert_eq!(
        complaint(&lab, as_role(AgentRole::Worker, None)),
        "role worker needs a task\nhint: set `task`; or create the session with a task"
    );
}

#[test]
fn empty_sections_leave_no_gap_and_files_may_lie_below_dot_agent() {
    let blank = [
        ("AGENTS.md", "\n\n"),
        ("IDENTITY.md", "The user is Kim.\n"),
        ("capabilities.yml", "capabilities: {}\n"),
        ("persona/SOUL.md", ""),
    ];
    let below = [
        (".agent/AGENTS.md", "From below.\n"),
        (".agent/rules/a.md", "A rule.\n"),
        (".agent/persona/SOUL.md", "Calm.\n"),
    ];
    for (files, begin) in [
        (&blank[..], "The user is Kim.\n\n## Runtime\n"),
        (
            &below[..],
            "From below.\n\nA rule.\n\nCalm.\n\n## Runtime\n",
        ),
    ] {
        let request = ask(&project("", files), |_| {});
        assert!(system(&request).starts_with(begin), "{}", system(&request));
    }
}

#[test]
fn volatile_content_is_never_in_the_system_prompt() {
    let lab = project("", &FILES);
    for role in [AgentRole::Manager, AgentRole::Unified] {
        let now = json!({"content": "Hello", "platform": "slack", "platform_actions": ["reply"],
            "timezone": "Europe/Berlin", "sender": {"name": "Kim"}});
        let now = ask(&lab, |request| {
            as_role(role, None)(request);
            request.event = Some(event(now));
        });
        for word in ["2026", "12:00", "gpt-4o", "openai", "slack", "Berlin"] {
            assert!(!system(&now).contains(word), "{word} in {}", system(&now));
        }
        let later = ask(&lab, |request| {
            as_role(role, None)(request);
            request.model = Some("claude-sonnet-4".to_owned());
            request.now = Some("2027-12-24T18:00:00Z".parse().unwrap());
        });
        assert_eq!(system(&later), system(&now));
    }
}

#[test]
fn a_persona_by_name_and_by_default() {
    let files = [
        ("persona/SOUL.md", "The default.\n"),
        ("personas/ana/SOUL.md", "Curious.\n"),
        ("personas/ana/IDENTITY.md", "I am Ana.\n"),
        ("personas/bo/SOUL.md", "Grumpy.\n"),
    ];
    let mut lab = project("", &files);
    let persona = Some("ana".to_owned());
    let ana = contexture::store::NewSession {
        label: "ana".to_owned(),
        persona,
        ..Default::default()
    };
    lab.store.create_session(&ana, lab.tick()).unwrap();
    let begins = |lab: &Lab, label: &str, with: &str| {
        let request = ask(lab, |request| request.session = Some(label.to_owned()));
        assert!(
            system(&request).starts_with(with),
            "{label}: {}",
            system(&request)
        );
    };
    begins(&lab, "chat", "The default.\n\n## Runtime");
    begins(&lab, "ana", "Curious.\n\nI am Ana.\n\n## Runtime");
    lab.restart("[persona]\nname = \"bo\"\n");
    begins(&lab, "chat", "Grumpy.\n\n## Runtime");
    // The persona of the session has priority.
    begins(&lab, "ana", "Curious.");
    for (name, message) in [
        (
            "cy",
            "no persona `cy`: personas/cy is not a directory\nhint: create it, with SOUL.md and \
             IDENTITY.md, or set persona.dir in contexture.toml",
        ),
        ("../ana", "`../ana` is not a valid persona name"),
        ("..", "`..` is not a valid persona name"),
        ("/etc", "`/etc` is not a valid persona name"),
        ("a/b", "`a/b` is not a valid persona name"),
    ] {
        lab.restart(&format!("[persona]\nname = \"{name}\"\n"));
        assert_eq!(complaint(&lab, |_| {}), message);
        let checked = lab.engine.check_persona(&lab.root, name).unwrap_err();
        assert_eq!(told(&checked), message);
    }
}
