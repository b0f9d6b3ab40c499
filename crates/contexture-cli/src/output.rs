//! The one place that writes to the terminal.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;

/// A call that does not make sense, found after parsing.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

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

/// Returns `text` with what a terminal would act on written out: names of
/// files may hold anything.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.push_str(&format!("[U+{:04X}]", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns a number of things in words: `1 turn`, `2,000 turns`.
pub(crate) fn many(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", contexture::core::grouped(number))
}

/// Says something on standard error.
pub(crate) fn say(text: &str) {
    let mut err = anstream::stderr().lock();
    // Nobody is left to tell when this fails.
    let _ = writeln!(err, "{text}");
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
    let name = path
        .file_name()
        .ok_or_else(|| Usage(format!("{} is not a file name", path.display())))?;
    let temporary = path.with_file_name(format!(
        ".{}.{}.tmp",
        name.to_string_lossy(),
        std::process::id()
    ));
    // Never through a link that someone put there.
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.with_context(cannot)
}

/// Reads a text file that the user named; `-` is standard input.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let read_all = |source: &mut dyn io::Read| -> io::Result<String> {
        let mut text = String::new();
        source.take(MAX_INPUT + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_INPUT {
            return Err(io::Error::other(format!(
                "it is larger than {MAX_INPUT} bytes"
            )));
        }
        Ok(text)
    };
    let result = if path == Path::new("-") {
        read_all(&mut io::stdin().lock())
    } else {
        std::fs::File::open(path).and_then(|mut file| read_all(&mut file))
    };
    result.map_err(|error| Usage(format!("cannot read {}: {error}", path.display())).into())
}

/// The most that is read from a file or a stream that the user names.
const MAX_INPUT: u64 = 512 * 1024 * 1024;

/// Returns true when the reader of our output went away.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
