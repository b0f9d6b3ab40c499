//! Reads tool calls and the outcome of their results.

use serde_json::Value;

use super::prose::{self, LINE_BYTES, clip, normalise, shorten};
use contexture_shorten::Hint;
use contexture_shorten::cues::{BLAND, Lexicon, RESULT, is_failure_line};

/// The access of a call to the files that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Edit,
    Write,
    /// A command.
    Run,
    Other,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// A short form, such as `cargo test` or `edit src/a.rs`.
    pub(super) label: String,
    pub(super) access: Access,
    pub(super) paths: Vec<String>,
}

/// The arguments that name a file.
const PATH_KEYS: [&str; 8] = [
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "target_file",
    "notebook_path",
    "relative_path",
];

/// The arguments that hold a command.
const COMMAND_KEYS: [&str; 4] = ["command", "cmd", "script", "code"];

/// The arguments that describe a call that names no file and no command.
const SUBJECT_KEYS: [&str; 6] = ["query", "pattern", "url", "name", "id", "q"];

/// Commands that only read.
const READERS: [&str; 20] = [
    "ls",
    "cat",
    "grep",
    "rg",
    "find",
    "head",
    "tail",
    "sed -n",
    "pwd",
    "which",
    "wc",
    "tree",
    "less",
    "jq",
    "git status",
    "git diff",
    "git log",
    "git show",
    "git grep",
    "git blame",
];

/// Commands that change little.
const CHORES: [&str; 12] = [
    "cd", "cp", "mv", "rm", "mkdir", "touch", "echo", "date", "sleep", "open", "code", "git add",
];

impl Call {
    /// Reads a call's name and arguments.
    pub(super) fn read(tool: Option<&str>, arguments: &str) -> Self {
        let tool = tool.unwrap_or("");
        let parsed = serde_json::from_str::<Value>(arguments).ok();
        let text_at = |keys: &[&str]| -> Option<String> {
            let parsed = parsed.as_ref()?;
            keys.iter().find_map(|key| match parsed.get(key)? {
                Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
                // Some shells take their command as a list of words.
                Value::Array(words) => {
                    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                    Some(words.join(" ")).filter(|text| !text.is_empty())
                }
                _ => None,
            })
        };
        let path = text_at(&PATH_KEYS);
        let command = text_at(&COMMAND_KEYS);
        let is_plain = parsed.is_none() && !arguments.trim().is_empty();
        let mut access = access_of(tool, command.as_deref(), path.is_some());
        let label = match (&command, &path) {
            // An editor with several commands names them in its arguments.
            (Some(command), Some(path)) => format!("{tool} {command} {path}"),
            (Some(command), None) if access == Access::Run => bare_command(command).to_owned(),
            (Some(command), None) => format!("{tool} {command}"),
            (None, Some(path)) => format!("{tool} {path}"),
            (None, None) if is_plain => match tool {
                "" => first_line(arguments).to_owned(),
                _ => format!("{tool} {}", first_line(arguments)),
            },
            (None, None) => match text_at(&SUBJECT_KEYS) {
                Some(subject) => format!("{tool} {subject}"),
                None => format!("{tool} {}", parsed_line(parsed.as_ref())),
            },
        };
        let words: Vec<&str> = clip(&label, LINE_BYTES).split_whitespace().collect();
        let label = shorten(&words.join(" "), 100).replace('`', "'");
        if access == Access::Run && begins_with(&label, &READERS) {
            access = Access::Read;
        }
        let paths = match path {
            Some(path) => vec![path],
            None => {
                let named = command
                    .as_deref()
                    .unwrap_or(if is_plain { arguments } else { "" });
                let mut paths: Vec<String> = prose::paths(named).map(str::to_owned).collect();
                paths.dedup();
                paths.truncate(8);
                paths
            }
        };
        Self {
            label,
            access,
            paths,
        }
    }

    /// Returns true for a command whose success is unrelated to the work,
    /// such as listing files.
    pub(super) fn is_chore(&self) -> bool {
        begins_with(&self.label, &CHORES)
    }

    /// Returns true for a command whose output is piped into another one.
    pub(super) fn is_piped(&self) -> bool {
        self.access == Access::Run && self.label.contains(" | ")
    }

    /// Returns the key that repeated calls have in common.
    pub(super) fn key(&self) -> &str {
        key(&self.label)
    }
}

/// A call that only reads.
pub(crate) struct ReadCall {
    /// The file that it reads, if it reads one.
    pub(crate) file: Option<String>,
    /// Whether the call reads the whole file.
    pub(crate) is_whole: bool,
}

impl ReadCall {
    /// Returns a call by the name of its tool and its arguments, if it only
    /// reads.
    pub(crate) fn of(tool: &str, arguments: &str) -> Option<Self> {
        let call = Call::read(Some(tool), arguments);
        let parsed = serde_json::from_str::<Value>(arguments).ok();
        let path = parsed
            .as_ref()
            .and_then(|parsed| Hint::of_call(tool, parsed).path);
        // Another argument may ask for a part of the file.
        let fields = parsed.as_ref().and_then(Value::as_object);
        let is_only = |path: &str| {
            let is_it = |value: &Value| value.as_str() == Some(path);
            fields.is_some_and(|fields| fields.len() == 1 && fields.values().any(is_it))
        };
        let is_whole = path.is_some_and(|path| is_only(path) || call.label.starts_with("cat "));
        let file = path.map(str::to_owned);
        (call.access == Access::Read).then_some(Self { file, is_whole })
    }
}

/// Returns the part of a command that determines its effect: without the part
/// that shortens its output.
pub(super) fn key(label: &str) -> &str {
    let ends = [" 2>&1", " | ", " > ", " 2>/dev/null"];
    let end = ends.iter().filter_map(|end| label.find(end)).min();
    end.map_or(label, |end| &label[..end])
}

fn access_of(tool: &str, command: Option<&str>, has_path: bool) -> Access {
    let lower = tool.to_ascii_lowercase();
    let is_shell = ["bash", "shell", "exec", "terminal", "command", "run"]
        .iter()
        .any(|word| lower.contains(word));
    if is_shell {
        return Access::Run;
    }
    // For `str_replace_editor` and similar tools, the command is the access.
    let verb = match command {
        Some(command) if has_path => command.to_ascii_lowercase(),
        _ => lower,
    };
    let names = |words: &[&str]| {
        let mut parts = verb.split(|c: char| !c.is_ascii_alphanumeric());
        parts.any(|part| words.iter().any(|word| part.starts_with(word)))
    };
    match () {
        () if names(&[
            "edit",
            "replace",
            "insert",
            "patch",
            "update",
            "modify",
            "multiedit",
        ]) =>
        {
            Access::Edit
        }
        () if names(&["write", "create", "save"]) && has_path => Access::Write,
        () if names(&[
            "read", "view", "grep", "search", "list", "glob", "find", "fetch", "get", "open",
            "show", "cat", "ls",
        ]) =>
        {
            Access::Read
        }
        () if command.is_some() => Access::Run,
        () => Access::Other,
    }
}

/// Returns a command without `cd DIR &&` before it.
fn bare_command(command: &str) -> &str {
    let command = command.trim();
    let rest = command
        .strip_prefix("cd ")
        .and_then(|rest| rest.split_once("&&"))
        .map(|(_, rest)| rest.trim_start());
    rest.filter(|rest| !rest.is_empty()).unwrap_or(command)
}

/// Returns true if a command begins with one of these.
fn begins_with(label: &str, commands: &[&str]) -> bool {
    commands.iter().any(|command| {
        let rest = label.strip_prefix(command);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    })
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or("")
}

/// Returns the arguments on one line.
fn parsed_line(arguments: Option<&Value>) -> String {
    match arguments {
        Some(Value::Object(fields)) if fields.is_empty() => String::new(),
        Some(arguments) => clip(&arguments.to_string(), 80).to_owned(),
        None => String::new(),
    }
}

/// The outcome of a call.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The lines that describe the error, verbatim, the most specific first,
    /// and whether they only say that the call failed.
    Failed { errors: Vec<String>, is_bland: bool },
    /// The line that sums up the output, if there is one.
    Succeeded(Option<String>),
}

/// The number of first and of last lines of an output that are searched for the
/// outcome.
const OUTCOME_LINES: usize = 24;

/// The most bytes of an error line.
const ERROR_BYTES: usize = 240;

impl Outcome {
    /// Decides by the error flag, the exit code and the test result. Only
    /// commands are also judged by the first and the last line they print.
    pub(super) fn of(call: &Call, text: &str, failed: bool, lexicon: &Lexicon) -> Self {
        let is_run = call.access == Access::Run;
        let reports = |line: &str| {
            let line = clip(line.trim(), LINE_BYTES);
            is_failure_line(line, &lexicon.read(&normalise(line)), false)
        };
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or("");
        let last = lines.next_back().unwrap_or(first);
        let is_failure = match exit_code(text) {
            _ if failed => true,
            Some(code) => code != 0,
            None if is_run => test_failures(text) || reports(first) || reports(last),
            None if call.access == Access::Read => false,
            None => says_error(text),
        };
        if is_failure {
            return error_lines(text, lexicon);
        }
        Outcome::Succeeded(is_run.then(|| result_line(text, lexicon)).flatten())
    }
}

/// Returns true for a result that consists of an error: `Error: ...`, or a JSON
/// object with `error`.
fn says_error(text: &str) -> bool {
    let text = text.trim_start();
    let start = clip(text, 24).to_ascii_lowercase();
    start.starts_with("error") || start.starts_with("traceback") || start.starts_with("{\"error\"")
}

/// Returns the exit code that an output states at its start or its end.
fn exit_code(text: &str) -> Option<i64> {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let ends = lines().rev().take(3).chain(lines().take(2));
    for line in ends {
        let line = clip(line, LINE_BYTES);
        let normal = normalise(line);
        let words: Vec<&str> = normal.split(' ').collect();
        for (at, word) in words.iter().enumerate() {
            let is_named = match *word {
                "exit" | "exited" | "returned" => words
                    .get(at + 1)
                    .is_some_and(|next| matches!(*next, "code" | "status" | "with")),
                "exitcode" | "returncode" | "exit_code" => true,
                _ => false,
            };
            let after = words.iter().skip(at + 1).take(3);
            if is_named && let Some(code) = after.filter_map(|word| word.parse::<i64>().ok()).next()
            {
                return Some(code);
            }
        }
    }
    None
}

/// Returns true if the end of an output counts failed tests.
fn test_failures(text: &str) -> bool {
    let ends = text.lines().rev().take(OUTCOME_LINES);
    ends.map(|line| normalise(clip(line, LINE_BYTES)))
        .any(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words.windows(2).any(|pair| {
                let counts = |number: &str, word: &str| {
                    let is_failure = matches!(word, "failed" | "failing" | "failures");
                    is_failure && number.parse::<u64>().is_ok_and(|number| number > 0)
                };
                counts(pair[0], pair[1]) || pair[0] == "failures" && counts(pair[1], pair[0])
            })
        })
}

/// Returns the lines that describe the error, verbatim: the last, the first,
/// and the last of the lines without information of their own.
fn error_lines(text: &str, lexicon: &Lexicon) -> Outcome {
    let (mut first, mut last, mut bland, mut weak) = (None, None, None, None);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for line in lines.clone() {
        let seen = clip(line, LINE_BYTES);
        let signs = lexicon.read(&normalise(seen));
        if !is_failure_line(seen, &signs, true) {
            continue;
        }
        match (signs.has(BLAND), names_error(seen)) {
            (false, true) => {
                first.get_or_insert(seen);
                last = Some(seen);
            }
            (true, true) => bland = Some(seen),
            (false, false) => weak = Some(seen),
            (true, false) => bland = bland.or(Some(seen)),
        }
    }
    let last = last.or(weak);
    let mut found: Vec<String> = Vec::new();
    let or_any = || lines.clone().next();
    for line in [last, first, bland].into_iter().flatten() {
        let line = clip(line, ERROR_BYTES).to_owned();
        if !found.contains(&line) {
            found.push(line);
        }
    }
    if found.is_empty() {
        found.extend(or_any().map(|line| clip(line, ERROR_BYTES).to_owned()));
    }
    if found.is_empty() {
        found.push("(no output)".to_owned());
    }
    Outcome::Failed {
        errors: found,
        is_bland: last.is_none(),
    }
}

/// Returns true for a line that names an error, instead of only saying that
/// something failed.
fn names_error(line: &str) -> bool {
    let names = [
        "rror:",
        "rror[",
        "rror TS",
        "rror CS",
        "Error",
        "ERROR",
        "xception",
        "FAILED",
        "fatal:",
        "panicked",
        "not found",
        "No such file",
        "denied",
    ];
    names.iter().any(|name| line.contains(name))
}

/// Returns the line that sums up an output: the last with a result and the most
/// numbers.
fn result_line(text: &str, lexicon: &Lexicon) -> Option<String> {
    let mut found: Option<(usize, &str)> = None;
    for line in text.lines().rev().take(OUTCOME_LINES) {
        let line = clip(line.trim(), LINE_BYTES);
        if !lexicon.read(&normalise(line)).has(RESULT) {
            continue;
        }
        let digits = line.bytes().filter(u8::is_ascii_digit).count();
        if found.is_none_or(|(most, _)| digits > most) {
            found = Some((digits, line));
        }
    }
    found.map(|(_, line)| shorten(line, 160))
}
