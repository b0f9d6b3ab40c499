//! Reads tool calls and their results.

pub(super) use contexture_shorten::cues::is_failure_line;
use contexture_shorten::cues::{BLAND, Lexicon, RESULT};

use super::prose::{LINE_BYTES, clip, normalise, shorten};

/// What a tool's output has to say.
#[derive(Default)]
pub(super) struct Findings {
    /// The lines that name what went wrong, two at most.
    pub(super) errors: Vec<String>,
    /// The last line that sums the output up.
    pub(super) result: Option<String>,
}

impl Findings {
    /// Reads the output of a tool; `failed` says that it is one of a failure.
    pub(super) fn of(text: &str, failed: bool, lexicon: &Lexicon) -> Self {
        let mut found = Findings::default();
        let mut most_digits = 0;
        let mut bland: Option<String> = None;
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .peekable();
        let first = lines.peek().map(|line| shorten(line, LINE_BYTES / 2));
        while let Some(line) = lines.next() {
            let line = clip(line, LINE_BYTES);
            let signs = lexicon.read(&normalise(line));
            let digits = line.bytes().filter(u8::is_ascii_digit).count();
            if signs.has(RESULT) && digits >= most_digits {
                (found.result, most_digits) = (Some(line.to_owned()), digits);
            }
            if !is_failure_line(line, &signs, failed) {
                continue;
            }
            let line = line.strip_prefix("E   ").unwrap_or(line).trim_start();
            let mut line = match line.split_once(" panicked at ") {
                Some((_, place)) => format!("panicked at {place}"),
                None => line.to_owned(),
            };
            if let Some(next) = lines.peek().map(|next| clip(next, LINE_BYTES / 2)) {
                // A compiler says where on the next line, a panic says what.
                if next.starts_with("--> ") || line.ends_with(':') {
                    line = format!("{line} {next}");
                }
            }
            if signs.has(BLAND) {
                bland = Some(line);
            } else if found.errors.len() < 2 && !found.errors.contains(&line) {
                found.errors.push(line);
            }
        }
        if found.errors.is_empty() {
            found.errors.extend(bland.or(first.filter(|_| failed)));
        }
        found
    }
}

/// Returns a short form of a call, such as `cargo test` or `edit src/a.rs`,
/// and whether it only reads.
pub(super) fn describe_call(name: Option<&str>, text: &str) -> (String, bool) {
    let tool = name.unwrap_or("");
    let lower = tool.to_ascii_lowercase();
    let is_shell = ["bash", "shell", "exec", "terminal", "command"]
        .iter()
        .any(|word| lower.contains(word));
    let mut argument = argument(text);
    if let Some((_, rest)) = argument
        .strip_prefix("cd ")
        .and_then(|rest| rest.split_once("&& "))
    {
        argument = rest.to_owned();
    }
    let shown = if is_shell && !argument.is_empty() {
        argument.clone()
    } else {
        format!("{tool} {argument}")
    };
    let shown: Vec<&str> = clip(&shown, LINE_BYTES).split_whitespace().collect();
    let label = shorten(&shown.join(" "), 90).replace('`', "'");
    let readers: &[&str] = if is_shell || tool.is_empty() {
        &[
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
            "git status",
            "git diff",
            "git log",
            "git show",
            "git grep",
            "git blame",
        ]
    } else {
        &[]
    };
    let reads = readers.iter().any(|reader| {
        label
            .strip_prefix(reader)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    let names = [
        "read", "view", "grep", "search", "list", "glob", "find", "fetch", "get", "open", "show",
    ];
    let mut parts = lower.split(['_', '-', '.']);
    let is_reader = !is_shell && parts.any(|part| names.iter().any(|name| part.starts_with(name)));
    // An editor with several commands names them in its arguments.
    (label, reads || is_reader || argument.starts_with("view "))
}

/// Returns what a call is about: the telling arguments of a JSON object, or
/// the first line of anything else.
fn argument(text: &str) -> String {
    let text = text.trim();
    if !text.starts_with('{') {
        return text.lines().next().unwrap_or("").to_owned();
    }
    let values = [
        &["command", "cmd"][..],
        &["file_path", "path", "filename", "file"],
        &["query", "pattern", "url", "name"],
    ];
    let found: Vec<String> = values
        .iter()
        .filter_map(|keys| keys.iter().find_map(|key| json_string(text, key)))
        .collect();
    match found.first() {
        Some(command) if command.contains(' ') => command.clone(),
        Some(_) => found[..found.len().min(2)].join(" "),
        None => clip(text, 80).to_owned(),
    }
}

/// Returns the string at `key` of a JSON object, without reading the rest.
fn json_string(text: &str, key: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("\"{key}\""))?;
    let rest = rest
        .trim_start()
        .strip_prefix(':')?
        .trim_start()
        .strip_prefix('"')?;
    let (mut value, mut chars) = (String::new(), rest.chars());
    while value.len() < LINE_BYTES {
        match chars.next()? {
            '"' => break,
            '\\' => value.push(match chars.next()? {
                'n' | 't' | 'r' => ' ',
                c => c,
            }),
            c => value.push(c),
        }
    }
    Some(value)
}
