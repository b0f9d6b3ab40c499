//! `memory record`: lines of JSON, or text files split into chunks.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path, PathBuf};

use contexture::memory::{Lines, MemoryRecorded};
use contexture::{Engine, Error};

use super::engine;
use crate::args::{RecordArgs, StoreOptions};
use crate::output::{self, Advice, Usage};
use crate::progress::Meter;
use crate::session::show;
use contexture_terminal::CommandLine;

/// The input of a recording, opened before the store is.
enum Input {
    Lines {
        name: String,
        bytes: Option<u64>,
        reader: Box<dyn BufRead>,
    },
    Text {
        source: String,
        text: String,
    },
}

pub(super) fn run(args: &RecordArgs, options: &StoreOptions) -> anyhow::Result<()> {
    if args.source.is_some() && args.files.len() > 1 {
        let several = "--source cannot be used with several files; record the files one by one";
        return Err(Usage(several.to_owned()).into());
    }
    let inputs = args.files.iter().map(|file| open(file, args));
    let inputs: Vec<Input> = inputs.collect::<Result<_, _>>()?;
    let engine = engine(options, true)?;
    let mut all = MemoryRecorded::default();
    let progress = Progress::over(&inputs);
    let mut failed = None;
    for (i, input) in inputs.into_iter().enumerate() {
        match record_one(&engine, input, &progress, options) {
            Ok(recorded) => add(&mut all, recorded),
            Err(error) => {
                failed = Some((i, error));
                break;
            }
        }
    }
    drop(progress);
    if let Some((before, error)) = failed {
        if before > 0 {
            let files = output::many(before as u64, "file");
            output::say(&format!("of {files} before: {}", describe(&all, args)));
        }
        return Err(error);
    }
    for warning in &all.warnings {
        output::say(&format!(
            "warning: {}",
            output::visible(&warning.phrase(&CommandLine))
        ));
    }
    show(options, &all, &describe(&all, args))?;
    super::fill_in(&engine, super::FILLED_IN_AFTER_RECORD)
}

fn open(file: &Path, args: &RecordArgs) -> anyhow::Result<Input> {
    let (name, is_stdin) = (output::name(file), file == Path::new("-"));
    if args.text {
        let source = match &args.source {
            Some(source) => source.clone(),
            None if is_stdin => {
                let nameless = "text from standard input needs a source; set --source NAME";
                return Err(Usage(nameless.to_owned()).into());
            }
            None => source_of(file),
        };
        if file.is_dir() {
            return Err(directory(&name).into());
        }
        if !is_stdin && !file.exists() {
            return Err(missing(&name).into());
        }
        let text = String::from_utf8(output::read_bytes(file)?).map_err(|_| not_text(&name))?;
        let text = output::without_mark(text);
        return Ok(Input::Text { source, text });
    }
    if is_stdin {
        let reader = Box::new(BufReader::new(std::io::stdin()));
        let bytes = None;
        return Ok(Input::Lines {
            name,
            bytes,
            reader,
        });
    }
    if !file.exists() {
        return Err(missing(&name).into());
    }
    let cannot = |error: &dyn std::fmt::Display| Usage(format!("cannot read {name}: {error}"));
    let opened = File::open(file).map_err(|error| cannot(&error))?;
    let meta = opened.metadata().map_err(|error| cannot(&error))?;
    if meta.is_dir() {
        return Err(directory(&name).into());
    }
    Ok(Input::Lines {
        bytes: meta.is_file().then_some(meta.len()),
        reader: Box::new(BufReader::new(opened)),
        name,
    })
}

/// Returns the source name of a text: its path, relative to the current
/// directory if it is below it, so that all spellings of a path are one source.
pub(super) fn source_of(file: &Path) -> String {
    let mut path = file.to_owned();
    // The target of `..` depends on links.
    if path.components().any(|part| part == Component::ParentDir)
        && let (Some(Ok(above)), Some(name)) = (
            path.parent().map(Path::canonicalize),
            path.file_name().map(ToOwned::to_owned),
        )
    {
        path = above.join(name);
    }
    let here = std::env::current_dir().unwrap_or_default();
    // A shell's name for it may go through links.
    let typed = std::env::var_os("PWD").map(PathBuf::from);
    let typed = typed.filter(|typed| typed.canonicalize().is_ok_and(|typed| typed == here));
    let relative = (typed.iter().chain([&here])).find_map(|dir| path.strip_prefix(dir).ok());
    let path = match relative {
        Some(relative) if relative.file_name().is_some() => relative,
        _ => &path,
    };
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().display().to_string()
}

fn directory(name: &str) -> Usage {
    let hint = "it is a directory; record the files in it with `--text DIR/*`";
    Usage(format!("cannot read {name}: {hint}"))
}

/// Returns the error for a file that does not exist: often the user typed a
/// text as the argument.
fn missing(name: &str) -> Advice {
    Advice {
        message: format!("cannot read {name}: there is no such file"),
        hint: "FILE must be a file; to record a sentence, run `echo 'TEXT' | contexture memory \
               record --text - --source NAME`"
            .to_owned(),
    }
}

fn not_text(name: &str) -> Advice {
    Advice {
        message: format!("{name} is binary or not UTF-8; none of it was recorded"),
        hint: "skip the file, or convert it to text first: `pdftotext manual.pdf - | contexture \
               memory record --text - --source manual.pdf`, `iconv -f latin1 -t utf-8 FILE`"
            .to_owned(),
    }
}

/// The progress of recording, by the bytes of all files if they are known.
struct Progress {
    meter: Meter,
    // The bytes of inputs that are completely recorded.
    done: Cell<u64>,
    by_bytes: bool,
}

impl Progress {
    fn over(inputs: &[Input]) -> Self {
        let bytes = inputs.iter().map(|input| match input {
            Input::Lines { bytes, .. } => *bytes,
            // A text is recorded at once: alone, it has no middle.
            Input::Text { text, .. } if inputs.len() > 1 => Some(text.len() as u64),
            Input::Text { .. } => None,
        });
        let total: Option<u64> = bytes.sum();
        let is_text = matches!(inputs, [Input::Text { .. }]);
        let meter = match is_text {
            true => Meter::spinner("recording"),
            false => Meter::new("recording", total),
        };
        Self {
            meter,
            done: Cell::new(0),
            by_bytes: total.is_some(),
        }
    }

    fn at(&self, lines: u64, bytes: u64) {
        let more = if self.by_bytes { bytes } else { lines };
        self.meter.at(self.done.get() + more);
    }

    fn end(&self, lines: u64, bytes: u64) {
        let more = if self.by_bytes { bytes } else { lines };
        self.done.set(self.done.get() + more);
        self.meter.at(self.done.get());
    }
}

fn record_one(
    engine: &Engine,
    input: Input,
    progress: &Progress,
    options: &StoreOptions,
) -> anyhow::Result<MemoryRecorded> {
    let memory = engine.memory()?;
    match input {
        Input::Text { source, text } => {
            let recorded = memory.record_text(&source, &text, options.now)?;
            progress.end(0, text.len() as u64);
            Ok(recorded)
        }
        Input::Lines {
            name, mut reader, ..
        } => {
            let looks = looks(&mut *reader);
            let mut read = (0, 0);
            let recorded = memory.record_lines(
                &mut Lines {
                    name: &name,
                    reader: &mut *reader,
                    progress: &mut |lines, bytes| {
                        read = (lines, bytes);
                        progress.at(lines, bytes);
                    },
                },
                options.now,
            );
            progress.end(read.0, read.1);
            recorded.map_err(|error| match looks {
                InputKind::Binary if error.is_input() => not_text(&name).into(),
                InputKind::Plain if error.is_input() => plain_text(&name, &error).into(),
                _ => error.into(),
            })
        }
    }
}

fn plain_text(name: &str, error: &Error) -> Advice {
    let file = match name {
        "standard input" => "- --source NAME",
        name => name,
    };
    Advice {
        message: error.to_string(),
        hint: format!(
            "the input looks like text, not like lines of JSON; record text with `contexture \
             memory record --text {file}`"
        ),
    }
}

/// The kind of a file, judged by its beginning.
enum InputKind {
    Json,
    Plain,
    Binary,
}

fn looks(reader: &mut dyn BufRead) -> InputKind {
    // An error is reported when the file is read.
    let begins = reader.fill_buf().unwrap_or_default();
    let begins = begins.strip_prefix("\u{feff}".as_bytes()).unwrap_or(begins);
    let first = begins.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_none_or(|first| b"{[\"".contains(first)) {
        return InputKind::Json;
    }
    match std::str::from_utf8(begins) {
        // A character may continue after the bytes read here.
        Err(error) if error.error_len().is_some() => InputKind::Binary,
        _ if begins.contains(&0) => InputKind::Binary,
        _ => InputKind::Plain,
    }
}

fn add(all: &mut MemoryRecorded, one: MemoryRecorded) {
    all.added += one.added;
    all.replaced += one.replaced;
    all.unchanged += one.unchanged;
    all.archived += one.archived;
    for warning in one.warnings {
        if !all.warnings.contains(&warning) {
            all.warnings.push(warning);
        }
    }
}

fn describe(recorded: &MemoryRecorded, args: &RecordArgs) -> String {
    let total = recorded.added + recorded.replaced + recorded.unchanged;
    if total == 0 {
        return "recorded nothing: the input is empty".to_owned();
    }
    let thing = if args.text { "chunk" } else { "record" };
    let parts: Vec<String> = [
        (recorded.added, "new"),
        (recorded.replaced, "changed"),
        (recorded.unchanged, "unchanged"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, how)| format!("{} {how}", contexture::core::grouped(number)))
    .collect();
    let parts = parts.join(", ");
    let all = output::many(total, thing);
    // Replaced text is no longer found; with several files, the number is the
    // sum over all of them.
    let mut told = match (args.text, &*args.files) {
        (true, [file]) if recorded.replaced > 0 => {
            let source = args.source.clone().unwrap_or_else(|| source_of(file));
            let source = output::visible(&source);
            let parts = match recorded.replaced == total {
                true => String::new(),
                false => format!(" ({parts})"),
            };
            let earlier = output::many(recorded.replaced, "earlier chunk");
            format!("recorded {all} from {source}{parts}; replaced {earlier} of {source}")
        }
        _ => format!("recorded {all} ({parts})"),
    };
    if recorded.archived > 0 {
        let aside = output::many(recorded.archived, thing);
        told.push_str(&format!("; archived {aside} to stay within the caps"));
    }
    told
}
