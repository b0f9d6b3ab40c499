//! Information about a tool result besides its text.

use serde_json::Value;

/// Information about a tool result besides its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hint<'a> {
    /// The name of the tool, or nothing.
    pub tool: &'a str,
    /// The file that the tool read, if it read one.
    pub path: Option<&'a str>,
}

/// The names of arguments that hold a path.
const PATH_ARGUMENTS: [&str; 8] = [
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "filename",
    "file",
    "target_file",
    "uri",
];

/// The names of arguments that hold a command.
const COMMAND_ARGUMENTS: [&str; 4] = ["command", "cmd", "script", "input"];

/// Commands that print a file unchanged.
const READERS: [&str; 7] = ["cat", "bat", "head", "tail", "nl", "sed", "less"];

impl<'a> Hint<'a> {
    /// Returns the hint of a call: the path among its arguments, or the file
    /// that its command prints.
    pub fn of_call(tool: &'a str, arguments: &'a Value) -> Self {
        let argument = |names: &[&str]| {
            let found = names.iter().find_map(|name| arguments.get(name));
            found.and_then(Value::as_str)
        };
        let path = argument(&PATH_ARGUMENTS)
            .or_else(|| argument(&COMMAND_ARGUMENTS).and_then(printed_file));
        Self { tool, path }
    }

    /// Returns the end of the file's name, in lower case.
    pub(crate) fn extension(&self) -> Option<String> {
        let name = self.path?.rsplit(['/', '\\']).next()?;
        let (_, extension) = name.rsplit_once('.')?;
        Some(extension.to_ascii_lowercase())
    }
}

/// Returns the file that a command prints: `cat src/a.rs`.
fn printed_file(command: &str) -> Option<&str> {
    // Of `cd project && cat a.rs`, the last command counts.
    let last = command.rsplit("&&").next()?.trim();
    if last.contains(['|', ';', '>', '\n', '$', '`']) {
        return None;
    }
    let mut words = last.split_whitespace();
    let reads = words.next().is_some_and(|word| READERS.contains(&word));
    let file = words.next_back()?.trim_matches(['"', '\'']);
    (reads && !file.starts_with('-')).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_an_argument_or_the_file_that_a_command_prints() {
        let path = |tool: &str, arguments: &str| {
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            Hint::of_call(tool, &arguments).path.map(str::to_owned)
        };
        let some = |path: &str| Some(path.to_owned());
        assert_eq!(path("read", r#"{"file_path":"a/b.rs"}"#), some("a/b.rs"));
        assert_eq!(path("bash", r#"{"command":"cat a.py"}"#), some("a.py"));
        assert_eq!(
            path("bash", r#"{"command":"cd x && sed -n 1,9p 'b.go'"}"#),
            some("b.go")
        );
        assert_eq!(path("bash", r#"{"command":"cat a.py | grep x"}"#), None);
        assert_eq!(path("bash", r#"{"command":"cargo test a.rs"}"#), None);
        assert_eq!(path("bash", "[]"), None);
    }
}
