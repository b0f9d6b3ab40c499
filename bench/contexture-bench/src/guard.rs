//! The law of the guard, on every text file of a directory: a request holds the
//! content of a file byte for byte, in every format, except for what the report
//! lists. Control tokens of the model at hand are escaped where the request
//! reaches a raw chat template.
//!
//! The crates in the registry cache are a large collection of code that other
//! people wrote: `contexture-bench guard --dir ~/.cargo/registry/src`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture::core::guard::{FindingKind, Template, escape_control};
use contexture::core::no_loader;
use contexture::core::{Budget, Counts, Item, Layer, Layout, Role, Text, assemble, markup};
use contexture::tokens::Estimated;
use contexture_providers::{Format, Prompt};
use serde_json::{Value, json};

/// Larger files are not offered to a model in one piece.
const MOST_BYTES: u64 = 8 << 20;

/// The model whose control tokens are escaped.
const MODEL: &str = "gpt-5.6";

/// The number of broken files that are named.
const MOST_NAMED: usize = 20;

#[derive(Default)]
struct Tally {
    files: usize,
    bytes: usize,
    // Files by the kind of what the report lists for them.
    listed: BTreeMap<String, usize>,
    // Files whose content is changed and that the report says nothing about, or
    // that a format does not hold.
    broken: Vec<String>,
}

pub(crate) fn guard(dir: &Path) -> anyhow::Result<()> {
    let mut files = Vec::new();
    walk(dir, &mut files)?;
    files.sort();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let part = files.len().div_ceil(cores).max(1);
    let tallies: Vec<anyhow::Result<Tally>> = std::thread::scope(|scope| {
        let workers: Vec<_> = files
            .chunks(part)
            .map(|files| scope.spawn(move || check_all(dir, files)))
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(tally) => tally,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    });
    let mut total = Tally::default();
    for tally in tallies {
        let tally = tally?;
        total.files += tally.files;
        total.bytes += tally.bytes;
        total.broken.extend(tally.broken);
        for (kind, files) in tally.listed {
            *total.listed.entry(kind).or_default() += files;
        }
    }
    let named = &total.broken[..total.broken.len().min(MOST_NAMED)];
    println!(
        "{}",
        json!({
            "files": total.files,
            "bytes": total.bytes,
            "formats": sent_formats().count(),
            "files_with_findings": total.listed,
            "broken": total.broken.len(),
            "broken_files": named,
        })
    );
    anyhow::ensure!(
        total.broken.is_empty(),
        "the guard changed what it does not list"
    );
    Ok(())
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), files)?;
        } else if kind.is_file() && entry.metadata()?.len() <= MOST_BYTES {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn check_all(dir: &Path, files: &[PathBuf]) -> anyhow::Result<Tally> {
    let counts = Counts::new(Arc::new(Estimated::new(1.0)));
    let mut tally = Tally::default();
    for path in files {
        let Ok(content) = String::from_utf8(std::fs::read(path)?) else {
            continue;
        };
        if content.contains('\0') || content.trim().is_empty() {
            continue;
        }
        tally.files += 1;
        tally.bytes += content.len();
        let name = path.strip_prefix(dir).unwrap_or(path).display().to_string();
        if let Err(why) = check(&name, &content, &counts, &mut tally) {
            tally.broken.push(format!("{name}: {why}"));
        }
    }
    Ok(tally)
}

fn check(name: &str, content: &str, counts: &Counts, tally: &mut Tally) -> Result<(), String> {
    let text = Text::new(content);
    let mut item = Item::new(name, Role::Context, text.clone()).pinned();
    item.path = Some(name.into());
    let mut layer = Layer::new("files");
    layer.items.push(item);
    let mut question = Layer::new("event");
    question
        .items
        .push(Item::new("event", Role::User, Text::new("Go on.")).pinned());
    let budget = Budget::new(1 << 40, 0, 0).map_err(|error| error.to_string())?;
    let assembly = assemble(vec![layer, question], budget, counts, &mut no_loader)
        .map_err(|error| error.to_string())?;
    let mut kinds: Vec<FindingKind> = (assembly.report.guard.iter())
        .map(|line| line.finding.kind)
        .collect();
    kinds.sort();
    kinds.dedup();
    for kind in &kinds {
        *tally.listed.entry(format!("{kind:?}")).or_default() += 1;
    }
    let is_listed = kinds.iter().any(|kind| *kind != FindingKind::Boundary);
    if text.as_str() != content && !is_listed {
        return Err("changed, and the report lists nothing".into());
    }
    let sent = text.as_str().trim_end_matches('\n');
    for (format_name, format) in sent_formats() {
        let expected = match format {
            Format::OpenAiCompletions => escape_control(sent, Template::of_model(MODEL)),
            _ => sent.into(),
        };
        if expected != sent {
            *tally.listed.entry("Control".to_owned()).or_default() += 1;
        }
        if !holds(&assembly.layout, format, &expected)? {
            return Err(format!("{format_name} does not hold the content"));
        }
    }
    let blocks = markup::parse(&markup::render(&assembly.layout), assembly.layout.mark)
        .map_err(|error| error.to_string())?;
    match blocks.len() {
        2 => Ok(()),
        other => Err(format!("{other} blocks are read back from 2")),
    }
}

/// The formats that are sent to a provider; our own holds the report as well.
fn sent_formats() -> impl Iterator<Item = (&'static str, Format)> {
    Format::ALL
        .into_iter()
        .filter(|(_, format)| *format != Format::Json)
}

/// Returns true when a rendered request holds the text, after JSON's own escapes.
fn holds(layout: &Layout, format: Format, text: &str) -> Result<bool, String> {
    let prompt = Prompt::new(layout, MODEL, 10_000);
    let request = prompt
        .request(format)
        .map_err(|refused| refused.to_string())?;
    Ok(any_string(&request, &|string| string.contains(text)))
}

fn any_string(value: &Value, test: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(string) => test(string),
        Value::Array(values) => values.iter().any(|value| any_string(value, test)),
        Value::Object(fields) => fields.values().any(|value| any_string(value, test)),
        _ => false,
    }
}
