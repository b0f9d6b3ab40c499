//! What the documentation shows is what the commands print.
//!
//! The `console` blocks of a page are run from top to bottom in one directory, at
//! one moment. A quick start begins in an empty one, other pages with the files of
//! `examples/loom`, `examples/memory` and `examples/quickstart`. A line `...` stands for any number of
//! lines. `UPDATE_DOCS=1 cargo test --test docs` writes
//! down what the commands print now; what is shown with `...` is for a person to
//! mend, for it leaves out what differs between machines.
//!
//! `contexture serve` goes on in the background, until the page starts another
//! one or ends. It listens on a port that is free; in what is run and printed,
//! the port of the page, 4650, stands for it.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REPO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The commands that have a clock get one, unless they are given one.
const SHELL: &str = r#"
contexture() {
    case "$1 $*" in
        *--now*) command contexture "$@" ;;
        tree*|assemble*|session*|snapshot*|memory*|task*|key*|mcp*) command contexture "$@" --now 2026-03-02T19:00:00Z ;;
        *) command contexture "$@" ;;
    esac
}
"#;

/// The command that goes on in the background, and the same with a clock.
const SERVE: &str = "contexture serve";
const SERVE_NOW: &str = "exec contexture serve --now 2026-03-02T19:00:00Z";

/// The port that pages show.
const SHOWN_PORT: &str = ":4650";

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
            // A line that goes on, or a quotation.
            while command.ends_with('\\') || command.matches('\'').count() % 2 == 1 {
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

/// Copies a folder, without the data that running the example leaves in it.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name == ".contexture" || name == "sessions" {
            continue;
        }
        let to = to.join(&name);
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Runs the commands of a page.
struct Page {
    dir: tempfile::TempDir,
    search: String,
    server: Option<Server>,
}

/// A server in the background; it ends with this.
struct Server {
    process: Child,
    /// Such as `:43211`.
    port: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It fails when the server has ended, which is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Page {
    /// A page that begins in an empty directory.
    fn new() -> Self {
        let bin = Path::new(env!("CARGO_BIN_EXE_contexture"));
        let bin = bin.parent().unwrap().display();
        let search = std::env::var("PATH").unwrap_or_default();
        Self {
            search: format!("{bin}:{search}"),
            dir: tempfile::tempdir().unwrap(),
            server: None,
        }
    }

    /// A page that begins with the examples.
    fn with_examples() -> Self {
        let page = Self::new();
        let dir = &page.dir;
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
        let quickstart = "examples/quickstart";
        copy_folder(
            &Path::new(REPO).join(quickstart),
            &dir.path().join(quickstart),
        );
        page
    }

    fn shell(&self, script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .current_dir(self.dir.path())
            .env("PATH", &self.search)
            .env("COLUMNS", "100")
            .env("CONTEXTURE_MARK_KEY", "docs")
            .env("CONTEXTURE_TRUST_FILE", self.dir.path().join(".trusted"));
        shell
    }

    /// Runs a command and returns what it prints, as the page would show it.
    fn run(&mut self, command: &str) -> String {
        if let Some(arguments) = command.strip_prefix(SERVE) {
            return self.serve(arguments);
        }
        let port = self.server.as_ref().map_or(SHOWN_PORT, |it| &it.port);
        let command = command.replace(SHOWN_PORT, port);
        let script = format!("{SHELL}\nexec 2>&1\n{command}");
        let run = self.shell(&script).output().unwrap();
        let printed = String::from_utf8(run.stdout).unwrap();
        printed.replace(port, SHOWN_PORT)
    }

    /// Starts a server in place of the one that runs, and returns what it prints
    /// until it answers, or all of it when it does not start.
    fn serve(&mut self, arguments: &str) -> String {
        self.server = None;
        let arguments = arguments.trim_end_matches(['&', ' ']);
        let arguments = arguments.replace(SHOWN_PORT, ":0");
        let log = self.dir.path().join(".server-log");
        let process = self
            .shell(&format!("{SERVE_NOW}{arguments}"))
            .env("CONTEXTURE_SERVER_ADDR", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut server = Server {
            process,
            port: String::new(),
        };
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let ended = server.process.try_wait().unwrap().is_some();
            let printed = fs::read_to_string(&log).unwrap();
            // The log begins after all other output.
            if printed.contains("\"message\":\"listening\"") && printed.ends_with('\n') {
                let address = printed.split_once("http://").unwrap().1;
                let address = address.split(' ').next().unwrap();
                server.port = address[address.rfind(':').unwrap()..].to_owned();
                let shown = printed.replace(&server.port, SHOWN_PORT);
                self.server = Some(server);
                return shown;
            }
            if ended {
                let printed = printed.replace(":0 ", &format!("{SHOWN_PORT} "));
                return printed.replace(":0,", &format!("{SHOWN_PORT},"));
            }
            assert!(Instant::now() < patience, "the server says only: {printed}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn check(page: &str) {
    let path = PathBuf::from(REPO).join(page);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut running = match page.contains("quickstart") {
        true => Page::new(),
        false => Page::with_examples(),
    };
    let commands = commands(&lines);
    assert!(!commands.is_empty(), "{page} shows no commands");
    let is_update = std::env::var_os("UPDATE_DOCS").is_some();
    let (mut rewritten, mut done, mut wrong) = (Vec::new(), 0, Vec::new());
    for shown in &commands {
        let printed = running.run(&shown.command);
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
fn the_guide_to_recipes() {
    check("docs/recipes.md");
}

#[test]
fn the_guide_to_sessions() {
    check("docs/sessions.md");
}

#[test]
fn the_guide_to_working_sets() {
    check("docs/working-set.md");
}

#[test]
fn the_guide_to_reports() {
    check("docs/report.md");
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
fn the_guide_to_fit() {
    check("docs/fit.md");
}

#[test]
fn the_guide_to_trust() {
    check("docs/trust.md");
}

#[test]
fn the_error_catalogue() {
    check("docs/errors.md");
}

#[test]
fn the_guide_to_upgrades() {
    check("docs/upgrade.md");
}

#[test]
fn the_readme() {
    check("README.md");
}

#[test]
fn the_guide_to_http() {
    check("docs/http.md");
}

#[test]
fn the_quick_start_with_the_command() {
    check("docs/quickstart-cli.md");
}

#[test]
fn the_quick_start_over_http() {
    check("docs/quickstart-http.md");
}

#[test]
fn the_quick_start_for_agents() {
    check("docs/quickstart-mcp.md");
}

#[test]
fn the_guide_to_http_has_every_setting_with_its_default() {
    let page = fs::read_to_string(Path::new(REPO).join("docs/http.md")).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.contains("CONTEXTURE_SERVER_"));
    let rows: Vec<&str> = rows.filter(|line| line.starts_with('|')).collect();
    let settings = Page::new().run("contexture doctor --all");
    let settings = settings.lines().filter_map(|line| {
        let (name, default) = line.trim().strip_prefix("server.")?.split_once(" = ")?;
        let default = default.strip_suffix("  (default)")?;
        // Settings in tables have no variable.
        if name.contains('.') {
            return None;
        }
        let variable = format!("CONTEXTURE_SERVER_{}", name.to_uppercase());
        Some(format!("| `{name}` | `{variable}` | `{default}` | "))
    });
    let settings: Vec<String> = settings.collect();
    assert!(settings.len() > 10, "{settings:?}");
    for (row, setting) in rows.iter().zip(&settings) {
        assert!(
            row.starts_with(setting),
            "{row}\nshould begin with\n{setting}"
        );
    }
    assert_eq!(rows.len(), settings.len());
}
