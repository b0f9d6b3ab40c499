//! `contexture tokens`: counts the tokens of files.
//!
//! A file that cannot be read is reported and the others are still counted;
//! the exit code is then 2.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contexture::core::{TokenizerInfo, grouped};
use contexture::tokens::{TokenCounter, Tokenizer};
use contexture::{Engine, FileTokens, Root, TokenCounts};
use serde_json::json;

use crate::args::TokensArgs;
use crate::output::{self, Usage};
use crate::{progress, store};

pub(crate) fn run(args: &TokensArgs) -> anyhow::Result<()> {
    let root = Root::open(&args.root)?;
    let engine = store::engine_of(&root)?;
    let (name, counter, window) = counter(args, &engine)?;
    let stdin = vec![PathBuf::from("-")];
    let files = if args.files.is_empty() {
        output::say("reading standard input; to count files, name them");
        &stdin
    } else {
        &args.files
    };
    let counted = progress::with_spinner("counting", || {
        let counts = files.iter().map(|path| count(path, &*counter));
        counts.collect::<Vec<_>>()
    });
    let mut rows = Vec::with_capacity(counted.len());
    let mut unread = 0;
    for result in counted {
        match result {
            Ok(row) => rows.push(row),
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => {
                unread += 1;
                output::say(&format!("error: {}", output::visible(&error.to_string())));
            }
        }
    }
    let total: u64 = rows.iter().map(|row| row.tokens).sum();
    if args.json {
        let counts = TokenCounts {
            model: name,
            tokenizer: TokenizerInfo {
                name: counter.name().to_owned(),
                exact: counter.is_exact(),
            },
            files: rows,
            total,
        };
        output::text(&format!("{:#}\n", json!(counts)))?;
        return finish(unread);
    }
    let mut lines = String::new();
    for row in &rows {
        let _ = writeln!(
            lines,
            "{:>12}  {}",
            grouped(row.tokens),
            output::visible(&row.path)
        );
    }
    if rows.len() > 1 {
        let _ = writeln!(lines, "{:>12}  total", grouped(total));
    }
    output::text(&lines)?;
    let part = window.map_or_else(String::new, |window| {
        let percent = total as f64 * 100.0 / window as f64;
        format!("; {percent:.1} % of its window of {}", grouped(window))
    });
    let model = (name != counter.name()).then_some(&*name);
    let counted = output::counted_with(counter.name(), model, counter.is_exact());
    output::say(&format!("{counted}{part}"));
    finish(unread)
}

fn finish(unread: usize) -> anyhow::Result<()> {
    match unread {
        0 => Ok(()),
        1 => Err(Usage("1 file was not counted".to_owned()).into()),
        n => Err(Usage(format!("{n} files were not counted")).into()),
    }
}

type ChosenCounter = (String, Arc<dyn TokenCounter>, Option<u64>);

fn counter(args: &TokensArgs, engine: &Engine) -> anyhow::Result<ChosenCounter> {
    if let Some(name) = &args.tokenizer {
        let tokenizer = Tokenizer::parse(name).ok_or_else(|| {
            Usage(format!(
                "unknown tokenizer `{name}`; expected o200k_base, cl100k_base, estimate or a \
                 .json file"
            ))
        })?;
        let counter = tokenizer.load().map_err(|error| Usage(error.to_string()))?;
        return Ok((name.clone(), counter, None));
    }
    let name = args.model.as_deref().unwrap_or(&engine.config().model);
    if let Some(warning) = engine.table_warning() {
        output::warn(warning);
    }
    let model = engine.models().resolve(name);
    if !model.known {
        let like = match &model.like {
            Some(like) => format!("the values of {like}"),
            None => "an estimate".to_owned(),
        };
        output::say(&format!(
            "warning: model `{name}` is not in the model table; using {like}"
        ));
    }
    let counter = model
        .tokenizer
        .load()
        .map_err(|error| Usage(error.to_string()))?;
    Ok((name.to_owned(), counter, Some(model.window)))
}

fn count(path: &Path, counter: &dyn TokenCounter) -> anyhow::Result<FileTokens> {
    let text = output::read(path)?;
    let name = if path == Path::new("-") {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    Ok(FileTokens {
        path: name,
        tokens: counter.count(&text),
        bytes: text.len(),
    })
}
