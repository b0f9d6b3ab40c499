//! Completion scripts, and the names that they complete.
//!
//! `clap_complete` writes the scripts for commands and flags. For the names of
//! recipes, sessions and trees, the scripts call the hidden command `contexture
//! __complete KIND`.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use contexture::{Engine, Root, recipes};

use crate::args::{Cli, NameKind};
use crate::{output, store};

/// Flags whose value is a name, by the kind of the name.
const FLAGS: [(&str, &str); 4] = [
    ("recipe", "recipes"),
    ("session", "sessions"),
    ("parent", "sessions"),
    ("tree", "trees"),
];

/// Commands of `session` whose first argument is a session.
const SESSION_COMMANDS: &str = "show record history fork compact uncompact pin pins unpin cost alias remember trim delete close";

/// Commands of `tree` whose first argument is a tree.
const TREE_COMMANDS: &str = "show export set delete";

/// Groups of commands of `tree` whose commands name a tree first.
const TREE_GROUPS: &str = "node path agent memory";

/// Returns the completion script for a shell.
pub(crate) fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "contexture", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &bash(),
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + &fish(),
        _ => script,
    }
}

fn bash() -> String {
    let mut flags = String::new();
    for (flag, kind) in FLAGS {
        flags.push_str(&format!("        --{flag}) kind={kind} ;;\n"));
    }
    // Patterns that every bash reads: `extglob` is off when a script is sourced.
    let patterns = |command: &str, below: &str| {
        let each = below.split(' ').map(|one| format!("{command}\\ {one}"));
        each.collect::<Vec<_>>().join("|")
    };
    let session = patterns("session", SESSION_COMMANDS);
    let tree = patterns("tree", TREE_COMMANDS);
    let groups = patterns("tree", TREE_GROUPS);
    format!(
        r#"
# Names of recipes, sessions and trees.
_contexture_names() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" kind=
    case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{flags}    esac
    if [[ -z $kind && $COMP_CWORD -eq 3 && $current != -* ]]; then
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
            {session}) kind=sessions ;;
            {tree}) kind=trees ;;
            recipe\ show) kind=recipes ;;
        esac
    elif [[ -z $kind && $COMP_CWORD -eq 4 && $current != -* ]]; then
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
            {groups}) kind=trees ;;
        esac
    fi
    if [[ -n $kind ]]; then
        COMPREPLY=( $(compgen -W "$(contexture __complete $kind 2>/dev/null)" -- "$current") )
        [[ ${{#COMPREPLY[@]}} -gt 0 ]] && return 0
    fi
    _contexture "$@"
}}
complete -F _contexture_names -o nosort -o bashdefault -o default contexture 2>/dev/null ||
    complete -F _contexture_names -o bashdefault -o default contexture
"#
    )
}

fn zsh(script: &str) -> String {
    let mut out = String::new();
    for line in script.lines() {
        let flag = FLAGS
            .iter()
            .find(|(flag, _)| line.contains(&format!("--{flag}=[")));
        let positional = match () {
            () if line.contains(" -- Label or alias of the session") => Some("sessions"),
            () if line.contains(":tree -- ") => Some("trees"),
            () if line.contains(" -- Built-in recipe or a file") => Some("recipes"),
            () => None,
        };
        let kind = flag.map(|(_, kind)| *kind).or(positional);
        match kind {
            Some(kind) => {
                let names = format!(":_contexture_{kind}'");
                out.push_str(
                    &line
                        .replace(":_default'", &names)
                        .replace(":_files'", &names),
                );
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    // The functions have to be there before the first completion.
    let mut functions = String::new();
    for kind in ["recipes", "sessions", "trees"] {
        functions.push_str(&format!(
            "_contexture_{kind}() {{ \
             compadd -- ${{(f)\"$(contexture __complete {kind} 2>/dev/null)\"}}; \
             }}\n"
        ));
    }
    match out.find("\n\n") {
        Some(at) => out.insert_str(at + 2, &format!("{functions}\n")),
        None => out.push_str(&functions),
    }
    out
}

fn fish() -> String {
    let mut out = String::from("# Names of recipes, sessions and trees.\n");
    for (flag, kind) in FLAGS {
        out.push_str(&format!(
            "complete -c contexture -l {flag} -x -a '(contexture __complete {kind} 2>/dev/null)'\n"
        ));
    }
    for (command, below, kind) in [
        ("session", SESSION_COMMANDS, "sessions"),
        ("tree", TREE_COMMANDS, "trees"),
        ("tree", TREE_GROUPS, "trees"),
        ("recipe", "show", "recipes"),
    ] {
        out.push_str(&format!(
            "complete -c contexture -n '__fish_seen_subcommand_from {command}; and \
             __fish_seen_subcommand_from {below}' -a \
             '(contexture __complete {kind} 2>/dev/null)'\n"
        ));
    }
    out
}

/// Prints the names of a kind, one on each line. A project without any, or with
/// a store that cannot be read, has none: a shell is waiting, not a person.
pub(crate) fn names(kind: NameKind, root: &Path) -> anyhow::Result<()> {
    let names = find(kind, root).unwrap_or_default();
    let lines: String = names
        .iter()
        .filter(|name| is_plain(name))
        .map(|name| format!("{name}\n"))
        .collect();
    output::text(&lines)
}

/// Returns true when a shell does nothing with the name but show it. Shells
/// expand what `compgen -W` is given.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "._-/@+:".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

fn find(kind: NameKind, root: &Path) -> anyhow::Result<Vec<String>> {
    if kind == NameKind::Recipes {
        let known = recipes::list()?;
        return Ok(known.into_iter().map(|recipe| recipe.name).collect());
    }
    let root = Root::open(root)?;
    let engine = Engine::for_root(&root)?;
    let url = std::env::var("CONTEXTURE_DB").ok();
    let place = store::find(&root, engine.config(), url.as_deref())?;
    if !place.exists() {
        return Ok(Vec::new());
    }
    let store = place.open()?;
    Ok(match kind {
        NameKind::Trees => {
            let trees = store::trees(&*store)?.into_iter();
            trees.map(|info| info.tree.id).collect()
        }
        _ => {
            let sessions = store.sessions(None, 1_000)?.into_iter();
            sessions.map(|session| session.label).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_expand_are_left_out() {
        assert!(is_plain("worker-1"));
        assert!(is_plain("história"));
        for name in [
            "$(rm -rf x)",
            "a b",
            "`x`",
            "a;b",
            "-x",
            "",
            "a\u{202e}b",
            "a'b",
        ] {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn the_commands_that_take_a_name_exist() {
        let cli = Cli::command();
        for (command, below) in [
            ("session", SESSION_COMMANDS),
            ("tree", TREE_COMMANDS),
            ("tree", TREE_GROUPS),
        ] {
            let command = cli.find_subcommand(command).unwrap();
            for name in below.split(' ') {
                assert!(command.find_subcommand(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn scripts_ask_for_names() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for kind in ["recipes", "sessions", "trees"] {
                let asks = format!("contexture __complete {kind}");
                let asks = script.contains(&asks) || script.contains(&format!("kind={kind}"));
                assert!(asks, "{shell} {kind}");
            }
        }
        let zsh = script(Shell::Zsh);
        assert!(zsh.contains(":_contexture_sessions'"), "{zsh}");
        assert!(zsh.contains(":_contexture_trees'"));
        assert!(zsh.contains(":_contexture_recipes'"));
    }
}
