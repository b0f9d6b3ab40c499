//! `tree agent` and `tree memory`.

use super::*;

fn project() -> Project {
    let project = with("n1 human: One.\nn2 model <- n1: Two.").file("ada.md", "You are Ada.\n");
    let made = "tree agent set t ada --type model --name Ada --prompt-file ada.md --model gpt-4o \
                --parameter temperature=0.7 --permission read --permission branch --loom-aware --at n2";
    prints(&project, made, "agent ada: made\n");
    project
}

#[test]
fn an_agent_is_made_changed_and_listed() {
    let project = project();
    prints(
        &project,
        "tree agent set t bo --type human",
        "agent bo: made\n",
    );
    prints(
        &project,
        "tree agent list t",
        " agent  type   name  model   loom-aware  at  permissions   prompt\n \
         ada    model  Ada   gpt-4o  yes         n2  read, branch  You are Ada.\n \
         bo     human                no\n",
    );
    // Omitted settings remain; empty ones are cleared.
    prints(
        &project,
        "tree agent set t ada --name '' --loom-aware=false --parameter temperature= \
         --parameter stop=END --permission annotate",
        "agent ada: changed\n",
    );
    assert_eq!(
        json_of(&project, "tree agent list t")[0],
        json!({"id": "ada", "type": "model", "name": null, "system_prompt": "You are Ada.\n",
            "model": "gpt-4o", "parameters": {"stop": "END"}, "permissions": ["annotate"],
            "loom_aware": false, "position": "n2"})
    );
}

#[test]
fn an_invalid_agent_is_rejected() {
    let project = project();
    for (args, message) in [
        (
            "tree agent set t cy --name Cy",
            "error: agent `cy` does not exist in tree `t`; to create it, set --type model or \
             --type human\n",
        ),
        (
            "tree agent set t ada --prompt-file nobody.md",
            "error: cannot read nobody.md: No such file or directory (os error 2)\n",
        ),
    ] {
        refuses(&project, args, message);
    }
    let empty = with("id u\nx1 human: One.");
    prints(
        &empty,
        "tree agent list u",
        "no agents; create one with `contexture tree agent set u ID --type model`\n",
    );
}

#[test]
fn the_memory_of_an_agent_can_be_changed_and_shown() {
    let project = project();
    prints(
        &project,
        "tree memory show t ada",
        "the memory of ada is empty\n",
    );
    for (args, told) in [
        ("pin t ada n1", "pinned n1\n"),
        ("pin t ada --text 'Sources!'", "pinned the text\n"),
        (
            "stash t ada plan 'Moon, then sea.'",
            "saved stash plan; include it in requests with `contexture tree memory recall`\n",
        ),
        (
            "stash t ada rest 'Wind.'",
            "saved stash rest; include it in requests with `contexture tree memory recall`\n",
        ),
        ("recall t ada plan", "stash plan is included in requests\n"),
        ("act t ada 'went to n1'", "recorded the action\n"),
    ] {
        prints(&project, &format!("tree memory {args}"), told);
    }
    prints(
        &project,
        "tree memory show t ada",
        "
        pinned   node n1
        pinned   Sources!
        recalled plan: Moon, then sea.
        stashed  rest: Wind.
        did      2026-01-31T12:00:00Z went to n1
        ",
    );
    for (args, told) in [
        ("unpin t ada n1", "unpinned n1\n"),
        (
            "put-away t ada plan",
            "stash plan is no longer included in requests\n",
        ),
        ("discard t ada rest", "deleted stash rest\n"),
    ] {
        prints(&project, &format!("tree memory {args}"), told);
    }
    assert_eq!(
        json_of(&project, "tree memory show t ada"),
        json!({"agent_id": "ada", "pins": [{"text": "Sources!"}],
            "stashes": [{"name": "plan", "text": "Moon, then sea.", "recalled": false}],
            "trace": [{"action": "went to n1", "at": NOW}]})
    );
}

#[test]
fn memory_is_only_in_requests_of_loom_aware_agents() {
    let project = project();
    line(&project, "tree agent set t bo --type model");
    let run = call(&project, "tree memory act t bo 'looked around'");
    run.expect_code(0);
    assert_eq!(
        run.err,
        "bo is not loom-aware, so its requests do not include its memory; run `contexture tree \
         agent set t bo --loom-aware`\n"
    );
}

#[test]
fn an_invalid_agent_memory_is_rejected() {
    let project = project();
    for (args, message) in [
        (
            "tree memory show t bo",
            "error: tree `t` has no agent `bo`: its agents are ada\n",
        ),
        (
            "tree memory unpin t ada n1",
            "error: there is no pin `n1`\n",
        ),
        (
            "tree memory pin t ada",
            "error: the following required arguments were not provided:\n  <NODE|--text <TEXT>>\n\n\
             Usage: contexture tree memory pin <TREE> <AGENT> <NODE|--text TEXT>\n\n\
             For more information, try '--help'.\n",
        ),
    ] {
        refuses(&project, args, message);
    }
}
