//! The only module that writes to the terminal.
//!
//! Text from files and models passes through [`visible`], so that control
//! characters cannot change the terminal.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use contexture::Warning;
use contexture_terminal::CommandLine;
pub(crate) use contexture_terminal::text::{counted_with, many, number, visible};

/// A usage error that is found after parsing.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A usage error with a hint.
#[derive(Debug)]
pub(crate) struct Advice {
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Advice {}

/// Writes the result to standard output.
pub(crate) fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Writes a result that a person reads, in colours where they are wanted.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Returns the maximum width of a line: `COLUMNS`, else the width of the
/// terminal. `None` if neither is known.
pub(crate) fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|columns| columns.parse().ok());
    // A pager has its width from the terminal, too.
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    columns.or_else(terminal)
}

/// Prints a line to standard error.
pub(crate) fn say(text: &str) {
    let mut err = anstream::stderr().lock();
    // If this fails, there is nowhere to report it.
    let _ = writeln!(err, "{text}");
}

/// Asks a yes-or-no question on standard error. An empty line selects the
/// default answer; the end of the input means no.
pub(crate) fn ask(
    input: &mut impl io::BufRead,
    question: &str,
    usual: bool,
) -> anyhow::Result<bool> {
    let choices = if usual { "[Y/n]" } else { "[y/N]" };
    loop {
        let mut err = anstream::stderr().lock();
        let _ = write!(err, "{} {choices} ", visible(question)).and_then(|()| err.flush());
        drop(err);
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        match line.trim().to_ascii_lowercase().as_str() {
            "" => return Ok(usual),
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => say("answer y for yes or n for no"),
        }
    }
}

/// Prints a warning to standard error, with the command that resolves it.
pub(crate) fn warn(warning: &Warning) {
    say(&format!(
        "warning: {}",
        visible(&warning.phrase(&CommandLine))
    ));
}

/// Writes `text` to the file at `path`: whole or not at all.
pub(crate) fn file(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    // A device such as /dev/stderr cannot be replaced, only written to.
    let is_regular = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    if path.exists() && !is_regular {
        return std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(cannot);
    }
    if path.file_name().is_none() {
        return Err(Usage(format!("{} is not a file name", path.display())).into());
    }
    contexture::replace_file(path, text.as_bytes()).with_context(cannot)
}

/// Returns the display name of a file that the user named.
pub(crate) fn name(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Reads a text file that the user named; `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|_| {
        let error = "stream did not contain valid UTF-8";
        Usage(format!("cannot read {}: {error}", name(path))).into()
    })
}

/// Reads a text file like [`read`], without the byte order mark that some
/// editors write.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    read(path).map(without_mark)
}

/// Returns a text without the byte order mark that it begins with.
pub(crate) fn without_mark(mut text: String) -> String {
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    text
}

/// Reads a file that the user named; `-` is standard input.
pub(crate) fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read_all = |source: &mut dyn io::Read, size: u64| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(size.min(MAX_INPUT) as usize);
        source.take(MAX_INPUT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_INPUT {
            return Err(io::Error::other(format!(
                "it is larger than the limit of {MAX_INPUT} bytes"
            )));
        }
        Ok(bytes)
    };
    let result = if path == Path::new("-") {
        read_all(&mut io::stdin().lock(), 0)
    } else {
        std::fs::File::open(path).and_then(|mut file| {
            let size = file.metadata().map_or(0, |meta| meta.len());
            read_all(&mut file, size)
        })
    };
    result.map_err(|error| Usage(format!("cannot read {}: {error}", name(path))).into())
}

/// The most that is read from a file or a stream that the user names.
const MAX_INPUT: u64 = 512 * 1024 * 1024;

/// Returns true if the reader of our output has closed the pipe.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_yes_no_or_asked_again() {
        for (answer, usual, expected) in [
            ("\n", true, true),
            ("\n", false, false),
            ("y\n", false, true),
            ("Yes\n", false, true),
            ("n\n", true, false),
            ("what?\nno\n", true, false),
            ("what?\ny\n", false, true),
            // The end of the input.
            ("", true, false),
        ] {
            let asked = ask(&mut answer.as_bytes(), "Really?", usual).unwrap();
            assert_eq!(asked, expected, "{answer:?}");
        }
    }
}
