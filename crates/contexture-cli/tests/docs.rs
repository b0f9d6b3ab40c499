//! What the documentation shows is what the commands print.
//!
//! The `console` blocks of a page are run from top to bottom in one directory
//! that begins with the files of `examples/loom` and `examples/memory`, at one
//! moment. A line `...`
//! stands for any number of lines. `UPDATE_DOCS=1 cargo test --test docs` writes
//! down what the commands print now; what is shown with `...` is for a person to
//! mend, for it leaves out what differs between machines.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const REPO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The commands that have a clock get one.
const SHELL: &str = r#"
contexture() {
    case $1 in
        tree|assemble|session|snapshot|memory|task) command contexture "$@" --now 2026-03-02T19:00:00Z ;;
        *) command contexture "$@" ;;
    esac
}
"#;

/// A command of a page, with what the page shows that it prints.
struct Shown {
    // The lines of the page that hold the output.
    from: usize,
    to: usize,
    command: String,
}

fn commands(lines: &[&str]) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut is_console = false;
    let mut i = 0;
    while i < lines.len() {
        let line = lines[i];
        i += 1;
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                command.push('\n');
                command.push_str(lines[i]);
                i += 1;
            }
            // What is typed into a file goes on to its end.
            if command.ends_with("<<'END'") {
                while !command.ends_with("\nEND") {
                    command.push('\n');
                    command.push_str(lines[i]);
                    i += 1;
                }
            }
            let ends = |line: &&str| line.starts_with("$ ") || line.starts_with("```");
            let length = lines[i..].iter().take_while(|line| !ends(line)).count();
            found.push(Shown {
                from: i,
                to: i + length,
                command,
            });
            i += length;
        }
    }
    found
}

/// Returns true when the output is what is shown, `...` standing for anything.
fn is_shown(shown: &[&str], printed: &[&str]) -> bool {
    match shown.iter().position(|line| *line == "...") {
        None => shown == printed,
        Some(at) => {
            let (before, after) = (&shown[..at], &shown[at + 1..]);
            let Some(rest) = printed.strip_prefix(before) else {
                return false;
            };
            (0..=rest.len()).any(|skipped| is_shown(after, &rest[skipped..]))
        }
    }
}

fn check(page: &str) {
    let path = PathBuf::from(REPO).join(page);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let dir = tempfile::tempdir().unwrap();
    for (example, file) in [
        ("examples/loom", "tides.json"),
        ("examples/loom", "lighthouse.json"),
        ("examples/memory", "records.jsonl"),
    ] {
        let from = Path::new(REPO).join(example).join(file);
        let to = dir.path().join(example);
        fs::create_dir_all(&to).unwrap();
        fs::copy(&from, dir.path().join(file)).unwrap();
        fs::copy(&from, to.join(file)).unwrap();
    }
    let bin = Path::new(env!("CARGO_BIN_EXE_contexture"))
        .parent()
        .unwrap();
    let search = std::env::var("PATH").unwrap_or_default();
    let commands = commands(&lines);
    assert!(!commands.is_empty(), "{page} shows no commands");
    let is_update = std::env::var_os("UPDATE_DOCS").is_some();
    let (mut rewritten, mut done, mut wrong) = (Vec::new(), 0, Vec::new());
    for shown in &commands {
        let script = format!("{SHELL}\nexec 2>&1\n{}", shown.command);
        let run = Command::new("sh")
            .args(["-c", &script])
            .current_dir(dir.path())
            .env("PATH", format!("{}:{search}", bin.display()))
            .env("COLUMNS", "100")
            .output()
            .unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        let printed: Vec<String> = printed.lines().map(str::to_owned).collect();
        let borrowed: Vec<&str> = printed.iter().map(String::as_str).collect();
        let expected = &lines[shown.from..shown.to];
        rewritten.extend(lines[done..shown.from].iter().map(|&line| line.to_owned()));
        done = shown.to;
        let is_right = is_shown(expected, &borrowed);
        if is_update && !is_right && !expected.contains(&"...") {
            rewritten.extend(printed);
            continue;
        }
        rewritten.extend(expected.iter().map(|&line| line.to_owned()));
        if !is_right {
            wrong.push(format!("$ {}\n{}", shown.command, printed.join("\n")));
        }
    }
    if is_update {
        rewritten.extend(lines[done..].iter().map(|&line| line.to_owned()));
        fs::write(&path, format!("{}\n", rewritten.join("\n"))).unwrap();
    }
    if !wrong.is_empty() {
        panic!("{page} shows something else:\n\n{}", wrong.join("\n\n"));
    }
}

#[test]
fn the_guide_to_looms() {
    check("docs/loom.md");
}

#[test]
fn the_looms_of_the_examples() {
    check("examples/loom/README.md");
}

#[test]
fn the_guide_to_memory() {
    check("docs/memory.md");
}

#[test]
fn the_guide_to_tasks() {
    check("docs/tasks.md");
}

#[test]
fn the_guide_for_agents() {
    check("docs/mcp.md");
}

#[test]
fn the_memory_of_the_examples() {
    check("examples/memory/README.md");
}

#[test]
fn the_readme() {
    check("README.md");
}
