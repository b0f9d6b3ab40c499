//! `contexture import`: imports transcripts of other programs.

use std::io::IsTerminal as _;
use std::time::Duration;

use contexture::{Error, Timestamp};
use contexture_import::{Counts, Environment, Format, Import, ImportError, Options, Report};
use serde_json::json;

use crate::args::{ARCHIVE, ImportArgs};
use crate::{archive, output, progress, store};

/// The interval between two checks of files with `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a file must be unchanged before its end is imported, if more of it may
/// follow. A model can write for a minute without a new row.
const SETTLE: Duration = Duration::from_secs(120);

/// The command that creates the store, for error messages.
const MAKER: &str = "contexture import";

/// An import of this many bytes is written in bulk.
const BULK_BYTES: u64 = 64 << 20;

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<()> {
    if args.source.as_deref() == Some(ARCHIVE) {
        return archive::import(args);
    }
    if args.tenant.is_some() {
        let message =
            "--tenant is for archives; write `contexture import archive FILE --tenant NAME`";
        return Err(output::Usage(message.to_owned()).into());
    }
    let named = args.source.as_deref().and_then(contexture_import::format);
    if let Some(format) = named
        && args.path.is_none()
        && !format.has_places()
    {
        let name = format.name();
        return Err(output::Usage(format!(
            "{name} has no default directory; give the path of the exported zip file: \
             `contexture import {name} FILE.zip`"
        ))
        .into());
    }
    let mut engine = store::engine_with(&args.options, true, MAKER)?;
    let environment = Environment::of_process();
    let formats: Vec<&'static dyn Format> = match named {
        Some(format) => vec![format],
        None => contexture_import::formats().to_vec(),
    };
    let now = args.options.now;
    let options = Options {
        dry_run: args.dry_run,
        since: (args.since).map(|since| since.time(now.unwrap_or_else(Timestamp::now))),
        max_message_bytes: engine.config().limits.max_message_bytes,
        // While a file is watched, messages without an answer will soon have
        // one.
        with_tail: !args.watch,
        settle: SETTLE,
        // A watched file grows. Another one may be a copy, or an export.
        settle_by_rows: !args.watch,
        now,
        ..Options::default()
    };
    if !args.watch && !args.dry_run {
        let import = Import::new(engine.store()?, options.clone());
        let mut pending = 0;
        for format in &formats {
            let path = args.path.as_deref();
            pending += import
                .pending_bytes(*format, path, &environment)
                .map_err(error)?;
        }
        if pending >= BULK_BYTES {
            // The store is closed before it is opened again.
            drop(engine);
            engine = store::bulk_engine(&args.options, true, MAKER)?;
        }
    }
    let mut import = Import::new(engine.store()?, options);
    if args.watch {
        output::say("watching; press Ctrl-C to stop");
        let path = args.path.as_ref();
        return contexture_import::watch(
            &mut import,
            &formats,
            path,
            &environment,
            INTERVAL,
            |report| {
                let has_warnings = report.files.iter().any(|file| !file.warnings.is_empty());
                let is_worth_it =
                    !report.counts.is_nothing_new() || has_errors(&report) || has_warnings;
                !is_worth_it || show(&report, args).is_ok()
            },
        )
        .map_err(error);
    }
    let mut report = Report::default();
    let is_long = std::io::stderr().is_terminal();
    let mut work = || -> Result<(), ImportError> {
        for format in &formats {
            report.add(match &args.path {
                Some(path) => import.path(*format, path)?,
                None => import.default_places(*format, &environment)?,
            });
        }
        Ok(())
    };
    match is_long {
        true => progress::with_spinner("importing", work),
        false => work(),
    }
    .map_err(error)?;
    show(&report, args)?;
    let is_file = args.path.as_ref().is_some_and(|path| path.is_file());
    if is_file && has_errors(&report) {
        return Err(output::Usage("the file was not imported".to_owned()).into());
    }
    Ok(())
}

fn has_errors(report: &Report) -> bool {
    report.files.iter().any(|file| file.error.is_some())
}

pub(crate) fn error(error: ImportError) -> anyhow::Error {
    match error {
        ImportError::Store(error) => Error::from(error).into(),
        other => output::Usage(other.to_string()).into(),
    }
}

fn show(report: &Report, args: &ImportArgs) -> anyhow::Result<()> {
    for file in &report.files {
        if let Some(error) = &file.error {
            output::say(&format!("warning: {}", output::visible(error)));
        }
        for warning in &file.warnings {
            let path = file.file.display().to_string();
            output::say(&format!(
                "warning: {}: {}",
                output::visible(&path),
                output::visible(warning)
            ));
        }
    }
    let counts = &report.counts;
    for (number, what) in [
        (
            counts.too_long,
            "line(s) or conversation(s) were too long and were left out",
        ),
        (
            counts.incomplete_requests,
            "request(s) are not complete in the files and were not rebuilt",
        ),
        (
            counts.digest_mismatches,
            "digest(s) of the file do not match: such messages are left out of requests, and such \
             requests may differ from those that were sent",
        ),
        (counts.skipped, "turn(s) or tree(s) could not be stored"),
    ] {
        if number > 0 {
            output::say(&format!("warning: {number} {what}"));
        }
    }
    if args.options.json {
        return output::text(&format!("{:#}\n", json!(report)));
    }
    let mut lines = String::new();
    for format in contexture_import::formats() {
        let files: Vec<_> = report
            .files
            .iter()
            .filter(|file| file.source == format.name())
            .collect();
        let mut counts = Counts::default();
        files.iter().for_each(|file| counts.add(&file.counts));
        // A warning reports each file that failed.
        let is_failed = files.iter().all(|file| file.error.is_some());
        if is_failed && counts.is_nothing_new() && counts.unknown == 0 {
            continue;
        }
        let title = format.title();
        let files = output::many(files.len() as u64, "file");
        lines.push_str(&format!(
            "{title}: {files}, {}\n",
            sentence(&counts, args.dry_run)
        ));
    }
    if report.files.is_empty() {
        lines.push_str(match report.unchanged {
            0 if args.path.is_none() => {
                "no files found in the default directories; import others with \
                 `contexture import SOURCE PATH`\n"
            }
            0 => "no files found\n",
            _ => "nothing new\n",
        });
    }
    if report.counts.unfinished > 0 && !args.watch {
        let files = output::many(report.counts.unfinished, "file");
        output::say(&format!(
            "the end of {files} is still being written and was left out; import again later, or \
             use --watch"
        ));
    }
    // While files are watched, only changes are reported.
    if report.unchanged > 0 && !args.watch {
        let unchanged = output::many(report.unchanged, "file");
        output::say(&format!("{unchanged} not changed since the last import"));
    }
    if args.dry_run {
        output::say("dry run: nothing was written");
    }
    output::text(&lines)
}

fn sentence(counts: &Counts, dry_run: bool) -> String {
    let all = [
        (counts.sessions, "session"),
        (counts.turns, "turn"),
        (counts.compactions, "compaction"),
        (counts.requests, "request"),
        (counts.trees, "tree"),
        (counts.nodes, "node"),
    ];
    let mut parts: Vec<String> = all
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, thing)| output::many(*number, thing))
        .collect();
    if parts.is_empty() {
        parts.push("nothing new".to_owned());
    }
    if counts.unknown > 0 {
        let rows = output::many(counts.unknown, "row");
        let kept = match counts.unknown_truncated {
            _ if dry_run => String::new(),
            0 => " (kept)".to_owned(),
            1 if counts.unknown == 1 => " (the first 64 KiB kept)".to_owned(),
            all if all == counts.unknown => " (the first 64 KiB of each kept)".to_owned(),
            some => format!(" (kept; of {some} only the first 64 KiB)"),
        };
        parts.push(format!("{rows} not understood{kept}"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_only_where_they_are() {
        let said = |unknown, unknown_truncated, dry_run| {
            let counts = Counts {
                unknown,
                unknown_truncated,
                ..Counts::default()
            };
            sentence(&counts, dry_run)
        };
        for (found, expected) in [
            (said(1, 0, false), "1 row not understood (kept)"),
            (
                said(1, 1, false),
                "1 row not understood (the first 64 KiB kept)",
            ),
            (
                said(2, 2, false),
                "2 rows not understood (the first 64 KiB of each kept)",
            ),
            (
                said(3, 1, false),
                "3 rows not understood (kept; of 1 only the first 64 KiB)",
            ),
            (said(3, 1, true), "3 rows not understood"),
        ] {
            assert_eq!(found, format!("nothing new, {expected}"));
        }
    }
}
