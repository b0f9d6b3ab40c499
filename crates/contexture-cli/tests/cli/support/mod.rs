//! A project in a temporary directory, and the command run in it.
#![allow(dead_code)] // Each test file uses its own part of this.
#![allow(clippy::unwrap_used)] // Helpers of a test are not a test to the lint.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash, Hasher as _};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tempfile::TempDir;

/// The command under test.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_contexture");

/// The clock of every test.
pub(crate) const NOW: &str = "2026-01-31T12:00:00Z";

/// A run that takes longer hangs. Far more than any run needs, also on a busy
/// machine.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// The entry of a directory in a snapshot.
const DIRECTORY: &str = "a directory";

/// A directory with files, deleted when the test ends.
pub(crate) struct Project {
    dir: TempDir,
    // The user's data, such as the list of trusted files.
    data: TempDir,
}

/// The output of a run of the command.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The arguments of the command: words, or a line in which text in single
/// quotes is one word.
pub(crate) trait Call {
    fn words(&self) -> Vec<String>;
}

impl Call for str {
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (i, part) in self.split('\'').enumerate() {
            match i % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }
}

impl Call for [&str] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|&word| word.to_owned()).collect()
    }
}

impl<const N: usize> Call for [&str; N] {
    fn words(&self) -> Vec<String> {
        self[..].words()
    }
}

impl Call for Vec<&str> {
    fn words(&self) -> Vec<String> {
        self[..].words()
    }
}

impl<T: Call + ?Sized> Call for &T {
    fn words(&self) -> Vec<String> {
        (**self).words()
    }
}

impl Project {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("contexture-test-")
            .tempdir()
            .unwrap();
        let data = TempDir::new().unwrap();
        Self { dir, data }
    }

    /// Adds a file, with the directories above it.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.write(path, content);
        self
    }

    /// Adds `working-set.yml` as it is written, less the indentation of the test.
    pub(crate) fn manifest(self, text: &str) -> Self {
        self.file("working-set.yml", dedent(text))
    }

    /// Adds a `working-set.yml` with a window of 1000 tokens and an entry for
    /// each line: path, priority, and further fields as `key=value`.
    pub(crate) fn entries(self, entries: &str) -> Self {
        let mut yaml =
            String::from("protocol: CONTEXT-ASSEMBLY/0.1\nbudget:\n  max_tokens: 1000\nfiles:\n");
        for line in entries
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let mut words = line.split_whitespace();
            let (path, priority) = (words.next().unwrap(), words.next().unwrap());
            yaml.push_str(&format!("  - path: {path:?}\n    priority: {priority}\n"));
            for word in words {
                let (key, value) = word.split_once('=').unwrap();
                yaml.push_str(&format!("    {key}: {value}\n"));
            }
        }
        self.file("working-set.yml", yaml)
    }

    /// Adds a symbolic link.
    #[cfg(unix)]
    pub(crate) fn link(self, path: &str, target: impl AsRef<Path>) -> Self {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
        self
    }

    /// Writes a file, with the directories above it.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// Returns the command with `args`, to be run in the project.
    pub(crate) fn command(&self, args: &(impl Call + ?Sized)) -> Command {
        let mut command = Command::new(BIN);
        command
            .args(args.words())
            .current_dir(self.dir.path())
            .env("CONTEXTURE_MARK_KEY", MARK_KEY)
            .env("CONTEXTURE_TRUST_FILE", self.trust_file());
        command
    }

    /// Returns the list of trusted files, which is not below the project.
    pub(crate) fn trust_file(&self) -> PathBuf {
        self.data.path().join("trusted")
    }

    /// Trusts the project's `contexture.toml`.
    #[track_caller]
    pub(crate) fn trust(&self) {
        self.run("trust").expect_code(0);
    }

    pub(crate) fn run(&self, args: &(impl Call + ?Sized)) -> Run {
        run(self.command(args), "")
    }

    /// Runs `args` at the tests' moment, on a terminal of unknown width.
    pub(crate) fn run_now(&self, args: &(impl Call + ?Sized)) -> Run {
        let mut command = self.command(args);
        command.args(["--now", NOW]).env_remove("COLUMNS");
        run(command, "")
    }

    /// Runs `args` with `input` on standard input.
    pub(crate) fn run_with(&self, args: &(impl Call + ?Sized), input: &str) -> Run {
        run(self.command(args), input)
    }

    /// Runs `args`, which must succeed, and returns what was on standard output.
    #[track_caller]
    pub(crate) fn ok(&self, args: &(impl Call + ?Sized)) -> String {
        let run = self.run(args);
        run.expect_code(0);
        run.out
    }

    /// Assembles with `args` appended, which must succeed, and returns prompt
    /// and report.
    #[track_caller]
    pub(crate) fn assemble(&self, args: &(impl Call + ?Sized)) -> (String, Value) {
        let report = TempDir::new().unwrap();
        let file = report.path().join("report.json");
        let mut command = self.command("assemble --report-format json --report");
        command.arg(&file).args(["--now", NOW]).args(args.words());
        let run = run(command, "");
        run.expect_code(0);
        let report: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        (run.out, report["assembly_report"].clone())
    }

    /// Checks the outcome of every file: one line each with `keep`, `cut` or
    /// `out`, the path, the code, and for `out` the reason.
    #[track_caller]
    pub(crate) fn check_fates(&self, expected: &str) {
        let (_, report) = self.assemble("");
        assert_eq!(fates(&report), dedent(expected));
    }

    /// Checks that `args` end with `code` and exactly `message` on standard
    /// error, nothing on standard output, and every file as it was.
    #[track_caller]
    pub(crate) fn refuses(&self, args: &(impl Call + ?Sized), code: i32, message: &str) {
        let before = self.snapshot();
        let run = self.run(args);
        run.expect_code(code);
        assert_eq!(run.err, dedent(message));
        assert_eq!(run.out, "");
        assert_eq!(self.snapshot(), before, "something was written");
    }

    /// Checks that the model's `actions` are refused with exactly `message`
    /// and that every file is as it was.
    #[track_caller]
    pub(crate) fn refuses_actions(&self, actions: &str, message: &str) {
        self.write("actions.yml", dedent(actions));
        self.refuses("working-set apply actions.yml", 2, message);
    }

    /// Returns every file of the project with its content; for a store, its
    /// rows. Lock files remain by design and are omitted, like the log of a
    /// store, which the last process removes.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        list(self.dir.path(), self.dir.path(), &mut found);
        let passing = [".lock", ".db-wal", ".db-shm"];
        found.retain(|path, what| {
            what != DIRECTORY && !passing.iter().any(|end| path.ends_with(end))
        });
        found
    }

    /// Returns the names of everything below the project, locks and directories too.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut found = BTreeMap::new();
        list(self.dir.path(), self.dir.path(), &mut found);
        found.into_keys().collect()
    }
}

fn list(root: &Path, dir: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_dir() {
            list(root, &path, found);
            DIRECTORY.to_owned()
        } else if path.extension().is_some_and(|end| end == "db") && meta.is_file() {
            rows(&path).unwrap_or_else(|_| format!("{:x}", hash_of(&fs::read(&path).unwrap())))
        } else if meta.is_file() && meta.len() < 1 << 20 {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        } else {
            format!("{:?}, {} bytes", meta.file_type(), meta.len())
        };
        found.insert(name, what);
    }
}

/// Returns how many rows each table of a store has, and a hash of what is in
/// them.
fn rows(path: &Path) -> rusqlite::Result<String> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let tables: Vec<String> = tables
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut out = String::new();
    for table in tables {
        let mut select = db.prepare(&format!("SELECT * FROM {table}"))?;
        let columns = select.column_count();
        let rows: Vec<String> = select
            .query_map([], |row| {
                let values = (0..columns).map(|i| Ok(format!("{:?}", row.get_ref(i)?)));
                values.collect::<rusqlite::Result<String>>()
            })?
            .collect::<Result<_, _>>()?;
        let hash = hash_of(&rows);
        out.push_str(&format!("{table}: {} rows {hash:x}\n", rows.len()));
    }
    Ok(out)
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Run {
    /// Checks the exit code, and that nothing panicked on the way to it.
    #[track_caller]
    pub(crate) fn expect_code(&self, code: i32) {
        assert!(
            !self.err.contains("panicked") && !self.err.contains("RUST_BACKTRACE"),
            "it panicked:\n{}",
            self.err
        );
        assert_eq!(self.code, Some(code), "standard error:\n{}", self.err);
    }

    /// Checks that a line of standard error is exactly `line`.
    #[track_caller]
    pub(crate) fn says(&self, line: &str) {
        assert!(
            self.err.lines().any(|said| said == line),
            "nothing says: {line}\nstandard error:\n{}",
            self.err
        );
    }
}

/// Runs a command to its end; one that hangs is a failure.
#[track_caller]
pub(crate) fn run(mut command: Command, input: &str) -> Run {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A command that does not read its input closes the pipe: no matter.
    thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    finish(child)
}

/// Waits for a command that was started with pipes.
#[track_caller]
pub(crate) fn finish(mut child: Child) -> Run {
    let out = child.stdout.take().map(collect);
    let err = child.stderr.take().map(collect);
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANGS_AFTER {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs: no end after {HANGS_AFTER:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let text = |reader: Option<thread::JoinHandle<Vec<u8>>>| {
        let bytes = reader.map_or_else(Vec::new, |reader| reader.join().unwrap());
        String::from_utf8(bytes).expect("the output is UTF-8")
    };
    Run {
        code: status.code(),
        out: unmarked(&text(out)),
        err: text(err),
    }
}

/// The key that the boundary marks of every test are derived from.
pub(crate) const MARK_KEY: &str = "test";

/// Returns `text` without the mark in its tags.
pub(crate) fn unmarked(text: &str) -> String {
    let key = contexture::core::guard::MarkKey::from_text(MARK_KEY);
    let mark = key.marks().next().unwrap();
    text.replace(&format!("-{mark}"), "")
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Returns what became of every file, one line each, the boot header left out.
/// A file that the report names twice is two lines.
pub(crate) fn fates(report: &Value) -> String {
    let mut lines = String::new();
    for row in report["included"].as_array().unwrap() {
        if row["id"] == "boot header" {
            continue;
        }
        let verb = if row["truncated"] == true {
            "cut "
        } else {
            "keep"
        };
        lines.push_str(&format!(
            "{verb} {} {}\n",
            text(&row["id"]),
            text(&row["code"])
        ));
    }
    for row in report["excluded"].as_array().unwrap() {
        let (id, code, reason) = (text(&row["id"]), text(&row["code"]), text(&row["reason"]));
        lines.push_str(&format!("out  {id} {code}: {reason}\n"));
    }
    lines
}

/// Returns the messages of a report's warnings.
pub(crate) fn warnings(report: &Value) -> Vec<String> {
    let warnings = report["warnings"].as_array().unwrap();
    warnings
        .iter()
        .map(|warning| text(&warning["message"]).to_owned())
        .collect()
}

/// Returns the text that a JSON value is.
#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("not text: {value}"))
}

/// Removes the indentation the test's own layout gives to `text`, and its first line break.
pub(crate) fn dedent(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let width = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    let text = if text[last..].trim().is_empty() {
        &text[..last]
    } else {
        text
    };
    text.split_inclusive('\n')
        .map(|line| line.get(width..).unwrap_or("\n"))
        .collect()
}
