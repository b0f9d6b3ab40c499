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
    // What is not given stays; what is empty goes.
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
fn an_agent_that_makes_no_sense() {
    let project = project();
    for (args, message) in [
        (
            "tree agent set t cy --name Cy",
            "error: agent `cy` is new in tree `t`: say what it is with --type model or --type human\n",
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
        "there are no agents; `contexture tree agent set u ID --type model` makes one\n",
    );
}

#[test]
fn what_an_agent_keeps_in_mind() {
    let project = project();
    prints(
        &project,
        "tree memory show t ada",
        "ada keeps nothing in mind\n",
    );
    for (args, told) in [
        ("pin t ada n1", "n1 is pinned\n"),
        ("pin t ada --text 'Sources!'", "the text is pinned\n"),
        (
            "stash t ada plan 'Moon, then sea.'",
            "stash plan is put aside; `tree memory recall` shows it\n",
        ),
        (
            "stash t ada rest 'Wind.'",
            "stash rest is put aside; `tree memory recall` shows it\n",
        ),
        ("recall t ada plan", "stash plan is shown in requests\n"),
        ("act t ada 'went to n1'", "it is noted\n"),
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
        ("unpin t ada n1", "n1 is no longer pinned\n"),
        ("put-away t ada plan", "stash plan is no longer shown\n"),
        ("discard t ada rest", "stash rest is thrown away\n"),
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
fn who_is_not_loom_aware_is_not_shown_its_memory() {
    let project = project();
    line(&project, "tree agent set t bo --type model");
    let run = call(&project, "tree memory act t bo 'looked around'");
    run.expect_code(0);
    assert_eq!(
        run.err,
        "bo is not loom-aware: what it keeps in mind is not in its requests (`contexture tree \
         agent set t bo --loom-aware`)\n"
    );
}

#[test]
fn a_memory_that_makes_no_sense() {
    let project = project();
    for (args, message) in [
        (
            "tree memory show t bo",
            "error: tree `t` has no agent `bo`: it has ada\n",
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
