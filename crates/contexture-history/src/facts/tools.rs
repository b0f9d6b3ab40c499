//! Reads tool calls and the outcome of their results.

use serde_json::Value;

use super::prose::{self, LINE_BYTES, clip, normalise, shorten};
use super::shell::{Command, Use};
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
    /// The files, and what the call does to each.
    pub(super) uses: Vec<(Use, String)>,
    /// The items of the plan or to-do list that the call replaces.
    pub(super) plan: Option<Plan>,
    // Whether it is a shell command.
    is_shell: bool,
    // Whether its success is unrelated to the work, such as listing files.
    is_chore: bool,
}

/// A plan or to-do list, as the latest call of its tool has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) tool: String,
    /// The open items, each with its state.
    pub(super) open: Vec<String>,
}

/// The arguments that name a file, in lower case and without underscores.
const PATH_KEYS: [&str; 10] = [
    "path",
    "filepath",
    "filename",
    "file",
    "targetfile",
    "notebookpath",
    "relativepath",
    "absolutepath",
    "abspath",
    "targetpath",
];

/// The arguments that name several files.
const PATHS_KEYS: [&str; 3] = ["paths", "files", "filepaths"];

/// The arguments that hold a shell command.
const COMMAND_KEYS: [&str; 3] = ["command", "cmd", "script"];

/// The arguments that hold a program in another language.
const CODE_KEYS: [&str; 1] = ["code"];

/// The arguments that describe a call that names no file and no command.
const SUBJECT_KEYS: [&str; 6] = ["query", "pattern", "url", "name", "id", "q"];

/// The arguments that hold the items of a plan.
const PLAN_KEYS: [&str; 5] = ["todos", "plan", "items", "tasks", "steps"];

/// The fields that hold the text of an item of a plan.
const ITEM_KEYS: [&str; 6] = ["content", "step", "title", "text", "description", "task"];

/// Tools that only think: their success is no outcome.
const THINKERS: [&str; 5] = [
    "think",
    "thinking",
    "thought",
    "sequentialthinking",
    "reflect",
];

/// The most files of a call.
const MOST_FILES: usize = 24;

/// The most items of a plan.
const MOST_ITEMS: usize = 40;

impl Call {
    /// Reads a call's name and arguments.
    pub(super) fn read(tool: Option<&str>, arguments: &str) -> Self {
        let tool = tool.unwrap_or("");
        let parsed = serde_json::from_str::<Value>(arguments).ok();
        let text_at = |keys: &[&str]| -> Option<String> {
            let fields = parsed.as_ref()?.as_object()?;
            let has = |key: &str, field: &str| same_key(field, key);
            keys.iter().find_map(|key| {
                let (_, value) = fields.iter().find(|(field, _)| has(key, field))?;
                match value {
                    Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
                    // Some shells take their command as a list of words.
                    Value::Array(words) => {
                        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                        Some(command_of(&words)).filter(|text| !text.is_empty())
                    }
                    _ => None,
                }
            })
        };
        let path = text_at(&PATH_KEYS);
        let code = text_at(&CODE_KEYS);
        let shell = text_at(&COMMAND_KEYS);
        let command = shell.clone().or_else(|| code.clone());
        let is_plain = parsed.is_none() && !arguments.trim().is_empty();
        let patch = patch_of(parsed.as_ref(), arguments);
        let lower = tool.to_ascii_lowercase();
        let mut access = access_of(&lower, command.as_deref(), path.is_some());
        if patch.is_some() {
            access = Access::Edit;
        }
        let patched = patch.as_deref().map(files_of_patch).unwrap_or_default();
        let label = match (&command, &path) {
            _ if !patched.is_empty() => {
                let files: Vec<&str> = patched.iter().map(|(_, path)| path.as_str()).collect();
                // A shell may apply patches, too.
                let tool = if lower.contains("patch") {
                    tool
                } else {
                    "apply_patch"
                };
                format!("{tool} {}", files.join(", "))
            }
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
        let plan = plan_of(&lower, parsed.as_ref());
        let is_run = access == Access::Run;
        let mut is_chore = plan.is_some() || thinks(&lower);
        let mut uses: Vec<(Use, String)> = match access {
            _ if !patched.is_empty() => patched,
            Access::Run => {
                // A tool without JSON takes the command as it is.
                let text = shell.as_deref().or(is_plain.then_some(arguments));
                let read = text.map(Command::read).unwrap_or_default();
                if read.is_reader {
                    access = Access::Read;
                }
                is_chore |= text.is_some() && read.is_chore;
                let named = code.as_deref().filter(|_| text.is_none());
                let named = prose::paths(named.unwrap_or("")).map(|path| (Use::Name, path.into()));
                read.uses.into_iter().chain(named).collect()
            }
            _ => {
                let how = |path: &str| match access {
                    // A folder that is searched or listed is not read.
                    Access::Read if is_search(&lower) && !prose::is_file(path) => Use::Name,
                    Access::Read => Use::Read,
                    Access::Edit => Use::Edit,
                    Access::Write => Use::Write,
                    Access::Run | Access::Other if deletes(&lower) => Use::Delete,
                    Access::Run | Access::Other => Use::Name,
                };
                let listed = paths_at(parsed.as_ref());
                let named = if is_plain { arguments } else { "" };
                let named = prose::paths(named).map(str::to_owned);
                let all = path.into_iter().chain(listed).chain(named);
                all.map(|path| (how(&path), path)).collect()
            }
        };
        uses.dedup();
        // Files are listed on their own.
        is_chore |= !is_run && uses.iter().any(|(how, _)| *how == Use::Delete);
        uses.truncate(MOST_FILES);
        Self {
            label,
            access,
            uses,
            plan,
            is_shell: is_run,
            is_chore,
        }
    }

    /// Returns true for a command whose success is unrelated to the work,
    /// such as listing files.
    pub(super) fn is_chore(&self) -> bool {
        self.is_chore
    }

    /// Returns true for a command whose output is piped into another one.
    pub(super) fn is_piped(&self) -> bool {
        self.access == Access::Run && self.label.contains(" | ")
    }

    /// Returns the key that repeated calls have in common.
    pub(super) fn key(&self) -> &str {
        key(&self.label)
    }

    /// Returns true if an output states that a path of the call cannot be used.
    pub(super) fn is_denied(&self, path: &str, output: &str) -> bool {
        let denies = |line: &str| line.contains(path) && ABSENT.iter().any(|it| line.contains(it));
        self.is_shell && output.lines().take(OUTCOME_LINES).any(denies)
    }
}

/// The words with which programs report that a file cannot be used.
const ABSENT: [&str; 5] = [
    "No such file",
    "ermission denied",
    "Is a directory",
    "Not a directory",
    "does not exist",
];

/// Returns true if a field has the name `key`, in any of the usual spellings:
/// `file_path`, `filePath`.
fn same_key(field: &str, key: &str) -> bool {
    let letters = field.bytes().filter(|byte| *byte != b'_');
    letters
        .map(|byte| byte.to_ascii_lowercase())
        .eq(key.bytes())
}

/// Returns the command of a list of words, without `bash -lc` before it.
fn command_of(words: &[&str]) -> String {
    match words {
        [shell, option, command]
            if shell.ends_with("sh") && option.starts_with('-') && option.ends_with('c') =>
        {
            (*command).to_owned()
        }
        words => words.join(" "),
    }
}

fn paths_at(arguments: Option<&Value>) -> Vec<String> {
    let fields = arguments.and_then(Value::as_object);
    let fields = fields.into_iter().flatten();
    let lists = fields.filter(|(field, _)| PATHS_KEYS.iter().any(|key| same_key(field, key)));
    let paths = lists.filter_map(|(_, list)| list.as_array()).flatten();
    paths
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .take(MOST_FILES)
        .collect()
}

fn is_search(tool: &str) -> bool {
    let words = ["grep", "glob", "search", "list", "find", "ls"];
    words.iter().any(|word| tool.contains(word))
}

fn deletes(tool: &str) -> bool {
    tool.contains("delete") || tool.contains("remove")
}

fn thinks(tool: &str) -> bool {
    let name: String = tool.chars().filter(char::is_ascii_alphabetic).collect();
    THINKERS.contains(&name.as_str())
}

/// Returns the patch that a call applies, in the format of `apply_patch`.
fn patch_of(arguments: Option<&Value>, text: &str) -> Option<String> {
    const BEGIN: &str = "*** Begin Patch";
    if !text.contains(BEGIN) {
        return None;
    }
    let holds = |value: &Value| value.as_str().is_some_and(|text| text.contains(BEGIN));
    let Some(arguments) = arguments else {
        return Some(text.to_owned());
    };
    let found = match arguments {
        Value::Object(fields) => fields.values().find_map(|value| match value {
            Value::Array(words) => words.iter().find(|word| holds(word)),
            value => Some(value).filter(|value| holds(value)),
        }),
        value => Some(value),
    };
    found.and_then(Value::as_str).map(str::to_owned)
}

/// Returns the files of a patch.
fn files_of_patch(patch: &str) -> Vec<(Use, String)> {
    let mut files: Vec<(Use, String)> = Vec::new();
    for line in patch.lines() {
        let Some(line) = line.trim_start().strip_prefix("*** ") else {
            continue;
        };
        let Some((verb, path)) = line.split_once(": ") else {
            continue;
        };
        let path = path.trim().to_owned();
        match verb {
            "Update File" => files.push((Use::Edit, path)),
            "Add File" => files.push((Use::Write, path)),
            "Delete File" => files.push((Use::Delete, path)),
            "Move to" => {
                if let Some((how, _)) = files.last_mut() {
                    *how = Use::Move(path.clone());
                }
                files.push((Use::Write, path));
            }
            _ => {}
        }
    }
    files
}

/// Returns the plan or to-do list that a call replaces.
fn plan_of(tool: &str, arguments: Option<&Value>) -> Option<Plan> {
    if !tool.contains("todo") && !tool.contains("plan") && !tool.contains("task") {
        return None;
    }
    let fields = arguments?.as_object()?;
    let items = fields.iter().find_map(|(field, value)| {
        let is_plan = PLAN_KEYS.iter().any(|key| same_key(field, key));
        value.as_array().filter(|_| is_plan)
    })?;
    let text_of = |item: &Value| match item {
        Value::String(text) => Some(text.clone()),
        item => ITEM_KEYS
            .iter()
            .find_map(|key| item.get(key)?.as_str().map(str::to_owned)),
    };
    let mut open = Vec::new();
    for item in items {
        let state = item.get("status").and_then(Value::as_str).unwrap_or("");
        let state = state.to_ascii_lowercase().replace(['_', '-'], " ");
        let is_closed = matches!(
            state.as_str(),
            "completed" | "complete" | "done" | "finished" | "cancelled" | "canceled" | "skipped"
        );
        let text = text_of(item).filter(|text| !is_closed && !text.trim().is_empty());
        let Some(text) = text else { continue };
        let words: Vec<&str> = clip(&text, LINE_BYTES).split_whitespace().collect();
        let text = shorten(&words.join(" "), 200);
        open.push(match state.is_empty() {
            true => text,
            false => format!("{text} ({state})"),
        });
    }
    open.truncate(MOST_ITEMS);
    let tool = tool.to_owned();
    // A list of other things has no items with a text.
    (items.is_empty() || items.iter().any(|item| text_of(item).is_some()))
        .then_some(Plan { tool, open })
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
/// that shortens its output, and without `cd DIR &&` before it.
pub(super) fn key(label: &str) -> &str {
    let mut label = bare_command(label);
    for wrapper in ["sudo ", "time "] {
        label = label.strip_prefix(wrapper).unwrap_or(label);
    }
    if let Some(rest) = label.strip_prefix("timeout ") {
        label = rest.split_once(' ').map_or(label, |(_, rest)| rest);
    }
    let ends = [
        " 2>&1",
        " | ",
        " &> ",
        " 2>/dev/null",
        " 2> ",
        " || ",
        "; echo ",
        " && echo ",
    ];
    let mut end = ends.iter().filter_map(|end| label.find(end)).min();
    // `cat > FILE` and `echo TEXT > FILE` write files. Their output is their effect.
    if !begins_with(label, &["cat", "echo", "printf"]) {
        let output = [" > ", " >> "]
            .iter()
            .filter_map(|end| label.find(end))
            .min();
        end = end.into_iter().chain(output).min();
    }
    end.map_or(label, |end| label[..end].trim_end())
}

/// Returns the access of a tool, whose name is in lower case.
fn access_of(tool: &str, command: Option<&str>, has_path: bool) -> Access {
    let is_shell = ["bash", "shell", "exec", "terminal", "command", "run"]
        .iter()
        .any(|word| tool.contains(word));
    if is_shell {
        return Access::Run;
    }
    // For `str_replace_editor` and similar tools, the command is the access.
    let verb = match command {
        Some(command) if has_path => command.to_ascii_lowercase(),
        _ => tool.to_owned(),
    };
    let names = |words: &[&str]| {
        let mut parts = verb.split(|c: char| !c.is_ascii_alphanumeric());
        parts.any(|part| words.iter().any(|word| part.starts_with(word)))
    };
    match () {
        // Without a file, `update_reservation` is a call like any other.
        () if has_path
            && names(&[
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
    let mut command = command.trim();
    while let Some(rest) = command
        .strip_prefix("cd ")
        .and_then(|rest| rest.split_once("&&"))
        .map(|(_, rest)| rest.trim_start())
        .filter(|rest| !rest.is_empty())
    {
        command = rest;
    }
    command
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

/// The most bytes of a result that may be an error as a whole. A longer result
/// is content.
const SHORT_BYTES: usize = 600;

/// The most lines of such a result.
const SHORT_LINES: usize = 4;

impl Outcome {
    /// Decides by the error flag, the exit code and the test result. Commands are
    /// also judged by the first and the last line they print. A short result that
    /// is itself an error is a failure of any call.
    pub(super) fn of(call: &Call, text: &str, failed: bool, lexicon: &Lexicon) -> Self {
        let unwrapped = unwrapped(text);
        let (text, code) = match &unwrapped {
            Some((output, code)) => (output.as_str(), *code),
            None => (text, None),
        };
        let is_run = call.access == Access::Run;
        let reports = |line: &str| {
            let line = clip(line.trim(), LINE_BYTES);
            is_failure_line(line, &lexicon.read(&normalise(line)), false)
        };
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or("");
        let last = lines.next_back().unwrap_or(first);
        // The content of a file may end with an exit code.
        let is_file = !call.is_shell && !matches!(call.access, Access::Run | Access::Other);
        let code = code.or_else(|| exit_code(text).filter(|_| !is_file));
        let is_failure = match code {
            _ if failed => true,
            Some(code) => code != 0,
            None if is_refused(text) => true,
            None if is_run => test_failures(text) || reports(first) || reports(last),
            None => match call.access {
                Access::Read if call.is_shell => is_program_error(text),
                Access::Read => is_error_of_read(call, text),
                Access::Edit | Access::Write => {
                    says_error(text) || is_error_of_change(call, first, lexicon)
                }
                Access::Run | Access::Other => says_error(text) || starts_with_error(text),
            },
        };
        if is_failure {
            return error_lines(text, lexicon);
        }
        Outcome::Succeeded(match call.access {
            Access::Run => result_line(text, lexicon),
            Access::Other => short_result(text),
            Access::Read | Access::Edit | Access::Write => None,
        })
    }
}

/// Returns the output and the exit code of a result that is a JSON object with
/// both.
fn unwrapped(text: &str) -> Option<(String, Option<i64>)> {
    let text = text.trim();
    if !text.starts_with('{') || !text.contains("\"output\"") {
        return None;
    }
    let parsed: Value = serde_json::from_str(text).ok()?;
    let output = parsed.get("output")?.as_str()?.to_owned();
    let within = parsed.get("metadata").unwrap_or(&parsed);
    Some((output, within.get("exit_code").and_then(Value::as_i64)))
}

/// Returns true for a result that consists of an error: `Error: ...`, or a JSON
/// object with `error`.
fn says_error(text: &str) -> bool {
    let text = text.trim_start();
    let start = clip(text, 24).to_ascii_lowercase();
    if start.starts_with('{') {
        return has_error_field(text);
    }
    start.starts_with("error") || start.starts_with("traceback")
}

/// Returns true for a JSON object with an error.
fn has_error_field(text: &str) -> bool {
    const MOST: usize = 16 * 1024;
    if clip(text, 24).starts_with("{\"error\"") && text.len() > MOST {
        return true;
    }
    let names = ["error", "success", "\"ok\"", "status"];
    if text.len() > MOST || !names.iter().any(|name| text.contains(name)) {
        return false;
    }
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) else {
        return text.starts_with("{\"error\"");
    };
    let is_error = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    let is_false = |name: &str| fields.get(name) == Some(&Value::Bool(false));
    fields.get("error").is_some_and(is_error)
        || is_false("success")
        || is_false("ok")
        || fields.get("status").and_then(Value::as_str) == Some("error")
}

/// Returns true for a result that is short enough to be an error as a whole.
fn is_short(text: &str) -> bool {
    text.len() <= SHORT_BYTES && text.trim().lines().count() <= SHORT_LINES
}

/// Returns true if a call was refused or interrupted instead of executed.
fn is_refused(text: &str) -> bool {
    let start = clip(text.trim_start(), 64)
        .to_ascii_lowercase()
        .replace('\u{2019}', "'");
    let starts = [
        "the user doesn't want to",
        "the user does not want to",
        "the user rejected",
        "user rejected",
        "user denied",
        "user cancelled",
        "[request interrupted",
        "request interrupted by user",
        "[interrupted",
        "operation cancelled",
        "operation aborted",
        "tool call was rejected",
        "tool use was rejected",
        "permission to use",
    ];
    is_short(text) && starts.iter().any(|it| start.starts_with(it))
}

/// Returns true for a short text that begins as an error.
fn starts_with_error(text: &str) -> bool {
    let start = text.trim_start().trim_start_matches("<tool_use_error>");
    let start = clip(start, 48).to_ascii_lowercase();
    let starts = [
        "error:",
        "error ",
        "eacces",
        "enoent",
        "eperm",
        "eisdir",
        "enotdir",
        "no such file",
        "permission denied",
        "access denied",
        "file not found",
        "file does not exist",
        "path does not exist",
        "failed to ",
        "fatal:",
        "could not ",
        "cannot ",
        "unable to ",
        "invalid ",
    ];
    is_short(text) && starts.iter().any(|it| start.starts_with(it))
}

/// Returns true if all lines of a command's output are errors of programs, such
/// as `cat: a.txt: No such file or directory`.
fn is_program_error(text: &str) -> bool {
    let is_error = |line: &str| {
        let (program, rest) = line.split_once(": ").unwrap_or(("", ""));
        let is_program = !program.is_empty() && !program.contains([' ', '\t']);
        is_program && ABSENT.iter().any(|it| rest.contains(it))
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    is_short(text) && !text.trim().is_empty() && lines.all(is_error)
}

/// Returns true if the result of a tool that reads a file is an error. Words in
/// the content of a file are not: the text must begin as an error does, or say
/// of the file that it cannot be read.
fn is_error_of_read(call: &Call, text: &str) -> bool {
    if starts_with_error(text) {
        return true;
    }
    let line = text.trim();
    if !is_short(text) || line.lines().count() != 1 || !ABSENT.iter().any(|it| line.contains(it)) {
        return false;
    }
    let lower = clip(line, 16).to_ascii_lowercase();
    let starts = ["file", "path", "the file", "the path", "directory", "no "];
    let names = |path: &str| line.contains(path.rsplit('/').next().unwrap_or(path));
    starts.iter().any(|it| lower.starts_with(it)) || call.uses.iter().any(|(_, path)| names(path))
}

/// Returns true if the first line of the result of a tool that changes a file
/// reports a failure.
fn is_error_of_change(call: &Call, first: &str, lexicon: &Lexicon) -> bool {
    let mut line = clip(first.trim(), LINE_BYTES).to_owned();
    if starts_with_error(&line) || ABSENT.iter().any(|it| line.contains(it)) {
        return true;
    }
    // A file may be called `error.rs`.
    for (_, path) in &call.uses {
        line = line.replace(path.as_str(), "it");
    }
    let normal = normalise(&line);
    let confirms = |word: &str| {
        matches!(
            word,
            "success"
                | "successfully"
                | "updated"
                | "edited"
                | "wrote"
                | "written"
                | "created"
                | "modified"
                | "replaced"
                | "applied"
                | "saved"
                | "ok"
                | "done"
                | "inserted"
        )
    };
    let negates = |word: &str| matches!(word, "not" | "failed" | "no" | "nothing");
    let has = |test: &dyn Fn(&str) -> bool| normal.split(' ').any(test);
    if has(&confirms) && !has(&negates) {
        return false;
    }
    is_failure_line(&line, &lexicon.read(&normal), false)
}

/// Returns a result of one short line.
fn short_result(text: &str) -> Option<String> {
    const MOST: usize = 160;
    let line = text.trim();
    let is_one = !line.is_empty() && line.len() <= MOST && !line.contains('\n');
    is_one.then(|| line.replace('`', "'"))
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
    let mut is_bland = last.is_none();
    if found.is_empty() {
        found.extend(or_any().map(|line| clip(line, ERROR_BYTES).to_owned()));
        // A short result is the reason, in other words.
        is_bland = found.is_empty() || !is_short(text);
    }
    if found.is_empty() {
        found.push("(no output)".to_owned());
    }
    Outcome::Failed {
        errors: found,
        is_bland,
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
