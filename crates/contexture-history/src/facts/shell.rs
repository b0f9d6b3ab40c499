//! Reads shell commands: the files that they read, change and delete.

use super::prose;

/// What a call did to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Edit,
    Write,
    Delete,
    /// Renames the file to another path.
    Move(String),
    /// Restores the file to its committed content.
    Revert,
    /// Mentions the file.
    Name,
}

/// A command, and the files that it uses.
#[derive(Debug, Default)]
pub(super) struct Command {
    pub(super) uses: Vec<(Use, String)>,
    /// Whether every part of the command only reads.
    pub(super) is_reader: bool,
    /// Whether every part of the command only reads or only handles files.
    pub(super) is_chore: bool,
}

/// Programs that print the content of the files that they are given.
const READERS: [&str; 24] = [
    "awk",
    "bat",
    "cat",
    "cmp",
    "column",
    "cut",
    "diff",
    "file",
    "head",
    "jq",
    "less",
    "md5sum",
    "more",
    "nl",
    "od",
    "sha256sum",
    "sort",
    "strings",
    "tac",
    "tail",
    "tr",
    "uniq",
    "wc",
    "xxd",
];

/// Programs that search the files that they are given for a pattern.
const SEARCHERS: [&str; 6] = ["ack", "ag", "egrep", "fgrep", "grep", "rg"];

/// Programs that list files without reading them.
const LISTERS: [&str; 10] = [
    "basename", "dirname", "du", "fd", "find", "ls", "realpath", "stat", "tree", "which",
];

/// Programs that neither read nor change files.
const NEUTRAL: [&str; 17] = [
    "[", "cd", "clear", "code", "date", "echo", "exit", "export", "false", "mkdir", "open",
    "printf", "pwd", "set", "sleep", "test", "true",
];

/// Programs that run another program, which is their next word.
const WRAPPERS: [&str; 8] = [
    "command", "env", "exec", "nice", "nohup", "sudo", "time", "xargs",
];

/// The deepest nesting of `bash -c` that is read.
const MOST_NESTED: usize = 3;

impl Command {
    pub(super) fn read(command: &str) -> Self {
        let mut read = Self {
            is_chore: true,
            ..Self::default()
        };
        let (mut is_reader, mut has_reader) = (true, false);
        read.add(command, &mut is_reader, &mut has_reader, 0);
        read.is_reader = is_reader && has_reader;
        read
    }

    fn add(&mut self, command: &str, is_reader: &mut bool, has_reader: &mut bool, depth: usize) {
        for part in parts(command) {
            for (redirection, target) in &part.redirections {
                let how = match redirection {
                    Redirection::Input => Use::Read,
                    Redirection::Output => Use::Write,
                    Redirection::Append => Use::Edit,
                };
                let before = self.uses.len();
                self.uses_of(target, &how);
                *is_reader &= self.uses.len() == before || how == Use::Read;
            }
            let words = without_wrappers(&part.words);
            let Some((program, arguments)) = words.split_first() else {
                continue;
            };
            if let Some(inner) = inner_command(program, arguments).filter(|_| depth < MOST_NESTED) {
                self.add(inner, is_reader, has_reader, depth + 1);
                continue;
            }
            match self.add_part(program, arguments) {
                Kind::Reader => *has_reader = true,
                Kind::Neutral => {}
                Kind::Files => *is_reader = false,
                Kind::Other => (*is_reader, self.is_chore) = (false, false),
            }
        }
    }

    /// Adds the files of a simple command, and returns its kind.
    fn add_part(&mut self, program: &str, arguments: &[String]) -> Kind {
        let program = program.rsplit('/').next().unwrap_or(program);
        let is_option = |word: &&String| word.starts_with('-');
        let has = |options: &[&str]| {
            let mut words = arguments.iter();
            words.any(|word| options.contains(&word.as_str()))
        };
        let operands = || arguments.iter().filter(|word| !is_option(word));
        match program {
            "git" => return self.add_git(arguments),
            "sed" | "perl" => {
                let in_place = |word: &String| {
                    let is_short = word.starts_with('-') && !word.starts_with("--");
                    is_short && word.contains('i') || word.starts_with("--in-place")
                };
                let is_edit = arguments.iter().any(in_place);
                if program == "perl" && !is_edit {
                    arguments.iter().for_each(|w| self.uses_of(w, &Use::Name));
                    return Kind::Other;
                }
                let how = if is_edit { Use::Edit } else { Use::Read };
                let skipped = usize::from(!has(&["-e", "-f", "--expression"]));
                operands().skip(skipped).for_each(|w| self.uses_of(w, &how));
                return if is_edit { Kind::Files } else { Kind::Reader };
            }
            "rm" | "unlink" | "trash" | "shred" => {
                operands().for_each(|word| self.uses_of(word, &Use::Delete));
            }
            "mv" | "cp" => self.add_transfer(program == "mv", &operands().collect::<Vec<_>>()),
            "tee" => {
                let how = match has(&["-a", "--append"]) {
                    true => Use::Edit,
                    false => Use::Write,
                };
                operands().for_each(|word| self.uses_of(word, &how));
            }
            "touch" | "chmod" | "chown" | "ln" => {
                operands().for_each(|word| self.uses_of(word, &Use::Name));
            }
            "find" => {
                if has(&["-exec", "-execdir", "-delete", "-ok"]) {
                    return Kind::Other;
                }
                // The words after the first option are patterns.
                let roots = arguments.iter().take_while(|word| !is_option(word));
                roots.for_each(|word| self.uses_of(word, &Use::Name));
                return Kind::Reader;
            }
            _ if LISTERS.contains(&program) => {
                operands().for_each(|word| self.uses_of(word, &Use::Name));
                return Kind::Reader;
            }
            _ if SEARCHERS.contains(&program) => {
                let skipped = usize::from(!has(&["-e", "-f", "--regexp", "--files"]));
                for word in operands().skip(skipped) {
                    // A folder that is searched is not read.
                    let is_file = prose::is_file(word);
                    self.uses_of(word, if is_file { &Use::Read } else { &Use::Name });
                }
                return Kind::Reader;
            }
            _ if READERS.contains(&program) => {
                operands().for_each(|word| self.uses_of(word, &Use::Read));
                return Kind::Reader;
            }
            _ if NEUTRAL.contains(&program) => return Kind::Neutral,
            _ => {
                arguments.iter().for_each(|w| self.uses_of(w, &Use::Name));
                // A script that is run is named, too.
                self.uses_of(program, &Use::Name);
                return Kind::Other;
            }
        }
        Kind::Files
    }

    fn add_git(&mut self, arguments: &[String]) -> Kind {
        let (verb, rest) = match arguments.split_first() {
            Some((verb, rest)) => (verb.as_str(), rest),
            None => return Kind::Other,
        };
        let has = |option: &str| rest.iter().any(|word| word == option);
        let operands: Vec<&String> = rest.iter().filter(|word| !word.starts_with('-')).collect();
        let mut all = |how: Use| operands.iter().for_each(|word| self.uses_of(word, &how));
        match verb {
            "rm" if has("--cached") => all(Use::Name),
            "rm" => all(Use::Delete),
            "mv" => self.add_transfer(true, &operands),
            "restore" if has("--staged") && !has("--worktree") => all(Use::Name),
            "restore" | "checkout" => {
                all(Use::Revert);
                // Without files, another branch is checked out.
                return match operands.iter().any(|word| is_path(word)) {
                    true => Kind::Files,
                    false => Kind::Other,
                };
            }
            "add" => all(Use::Name),
            "diff" | "show" | "blame" | "grep" => {
                all(Use::Read);
                return Kind::Reader;
            }
            "status" | "log" | "ls-files" => {
                all(Use::Name);
                return Kind::Reader;
            }
            _ => {
                all(Use::Name);
                return Kind::Other;
            }
        }
        Kind::Files
    }

    /// Adds the files of `mv` or `cp`.
    fn add_transfer(&mut self, is_move: bool, operands: &[&String]) {
        let Some((target, sources)) = operands.split_last() else {
            return;
        };
        for source in sources {
            let name = source.rsplit('/').next().unwrap_or(source);
            let is_same_kind = is_path(target) && !target.ends_with('/');
            let to = match is_same_kind {
                true => (*target).clone(),
                false => format!("{}/{name}", target.trim_end_matches('/')),
            };
            let how = match is_move {
                true => Use::Move(to.clone()),
                false => Use::Read,
            };
            self.uses_of(source, &how);
            self.uses_of(&to, &Use::Write);
        }
    }

    /// Adds the paths in a word.
    fn uses_of(&mut self, word: &str, how: &Use) {
        for path in prose::paths(word) {
            let same = |known: &(Use, String)| known.0 == *how && known.1 == path;
            if !self.uses.iter().any(same) {
                self.uses.push((how.clone(), path.to_owned()));
            }
        }
    }
}

fn is_path(word: &str) -> bool {
    prose::paths(word).next().is_some()
}

enum Kind {
    Reader,
    Neutral,
    /// It handles files, which are listed on their own.
    Files,
    Other,
}

/// Returns a command's words without those before the program: assignments,
/// `sudo`, `timeout 60` and the like.
fn without_wrappers(words: &[String]) -> &[String] {
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        match word.as_str() {
            "timeout" => rest = after.get(1..).unwrap_or(&[]),
            word if is_assignment || WRAPPERS.contains(&word) => rest = after,
            _ => break,
        }
    }
    rest
}

/// Returns the command that `bash -c` runs.
fn inner_command<'w>(program: &str, arguments: &'w [String]) -> Option<&'w str> {
    let is_shell = matches!(program, "bash" | "sh" | "zsh" | "/bin/bash" | "/bin/sh");
    let (option, rest) = arguments.split_first().filter(|_| is_shell)?;
    let is_command = option.starts_with('-') && option.ends_with('c');
    rest.first()
        .filter(|_| is_command)
        .map(std::string::String::as_str)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirection {
    Input,
    Output,
    Append,
}

/// A simple command: the text between `;`, `&&`, `|` and line ends.
#[derive(Debug, Default)]
struct Part {
    words: Vec<String>,
    redirections: Vec<(Redirection, String)>,
}

/// The most bytes of a command that are read.
const COMMAND_BYTES: usize = 16 * 1024;

/// The state of splitting a command.
#[derive(Default)]
struct Splitter {
    found: Vec<Part>,
    part: Part,
    word: Option<String>,
    // The redirection whose target is the next word.
    pending: Option<Target>,
    // The words that end the here-documents of this line.
    ends: Vec<String>,
}

/// The meaning of the word after a redirection.
enum Target {
    File(Redirection),
    /// A stream, or the output of errors.
    Ignored,
    EndOfDocument,
}

impl Splitter {
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.pending.take() {
            None => self.part.words.push(word),
            Some(Target::File(how)) => self.part.redirections.push((how, word)),
            Some(Target::Ignored) => {}
            Some(Target::EndOfDocument) => self.ends.push(word),
        }
    }

    fn end_part(&mut self) {
        self.end_word();
        self.pending = None;
        if !self.part.words.is_empty() || !self.part.redirections.is_empty() {
            self.found.push(std::mem::take(&mut self.part));
        }
    }

    fn push(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    /// Reads a redirection, and returns the text after its sign.
    fn redirect<'t>(&mut self, sign: char, rest: &'t str) -> &'t str {
        // `2>` redirects another stream, and the number is not a word.
        let is_number =
            |word: &mut String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let stream = self.word.take_if(is_number);
        self.end_word();
        let is_error = stream.is_some_and(|stream| stream == "2");
        let (target, rest) = match (sign, rest.as_bytes()) {
            ('<', [b'<', b'<', ..]) => (Target::Ignored, &rest[2..]),
            ('<', [b'<', b'-', ..]) => (Target::EndOfDocument, &rest[2..]),
            ('<', [b'<', ..]) => (Target::EndOfDocument, &rest[1..]),
            (_, [b'&', ..]) => (Target::Ignored, &rest[1..]),
            ('>', [b'>', ..]) => (Target::File(Redirection::Append), &rest[1..]),
            ('>', _) => (Target::File(Redirection::Output), rest),
            _ => (Target::File(Redirection::Input), rest),
        };
        self.pending = Some(if is_error { Target::Ignored } else { target });
        rest
    }
}

/// Splits a command into simple commands. Here-documents are left out.
fn parts(command: &str) -> Vec<Part> {
    let mut splitter = Splitter::default();
    let mut rest = command;
    while let Some(c) = rest.chars().next() {
        if command.len() - rest.len() > COMMAND_BYTES {
            break;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\'' | '"' => {
                let end = closing(rest, c);
                splitter.push(&rest[..end]);
                rest = rest.get(end + 1..).unwrap_or("");
            }
            '\\' => {
                let next = rest.chars().next().map_or(0, char::len_utf8);
                // A line that ends with it continues.
                if !rest.starts_with('\n') {
                    splitter.push(&rest[..next]);
                }
                rest = &rest[next..];
            }
            '#' if splitter.word.is_none() => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            }
            '<' | '>' => rest = splitter.redirect(c, rest),
            '&' if rest.starts_with('>') => splitter.end_word(),
            ';' | '&' | '|' | '(' | ')' => splitter.end_part(),
            '\n' => {
                splitter.end_part();
                for end in std::mem::take(&mut splitter.ends) {
                    rest = after_document(rest, &end);
                }
            }
            c if c.is_whitespace() => splitter.end_word(),
            c => splitter.push(c.encode_utf8(&mut [0; 4])),
        }
    }
    splitter.end_part();
    splitter.found
}

/// Returns the position of the quote that closes a text.
fn closing(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            c if c == quote => return at,
            _ => {}
        }
    }
    text.len()
}

/// Returns the text after a here-document.
fn after_document<'t>(text: &'t str, end: &str) -> &'t str {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim() == end {
            break;
        }
    }
    &text[at..]
}
