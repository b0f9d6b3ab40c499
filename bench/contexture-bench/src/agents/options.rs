//! Options of `agents`.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

use super::baseline::Rule;
use super::steps;

const USAGE: &str = "\
usage: contexture-bench agents [OPTIONS]

  --traces DIR            the directory of the traces (CONTEXTURE_TRACES, ../shared/bench/traces)
  --trace NAME            only traces whose file name contains NAME
  --shape SHAPE           only `recorded` or `one_question`
  --at N,N                windows in tokens (8k,32k,128k)
  --reserve N             tokens reserved for the answer (the engine's default)
  --model NAME            gpt (gpt-4o), claude (claude-sonnet-4-5), or the name of a model
  --no-baselines          replays only with Contexture
  --missing               prints the facts that the last request does not contain
  --show                  prints the text of the last request
  --steps [N,N]           measures CPU time by number of steps instead (10,100,500,1000,5000; at 32k)
  --json                  prints the figures as JSON";

/// Where the traces are, relative to the repository.
const TRACES: &str = "../shared/bench/traces";

/// The work to do, and the form of the output.
pub(crate) struct Options {
    traces: PathBuf,
    pub(crate) trace: String,
    pub(crate) windows: Vec<u64>,
    pub(crate) reserve: Option<u64>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) model: String,
    baselines: bool,
    pub(crate) missing: bool,
    pub(crate) show: bool,
    pub(crate) steps: Vec<usize>,
    pub(crate) json: bool,
}

/// The shape of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As it was recorded.
    Recorded,
    /// One user message, then only steps.
    OneQuestion,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Recorded => "recorded",
            Shape::OneQuestion => "one_question",
        }
    }
}

impl Options {
    pub(crate) fn read(args: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            traces: default_traces(),
            trace: String::new(),
            windows: Vec::new(),
            reserve: None,
            shapes: vec![Shape::Recorded, Shape::OneQuestion],
            model: "gpt-4o".to_owned(),
            baselines: true,
            missing: false,
            show: false,
            steps: Vec::new(),
            json: false,
        };
        let mut args = args.iter().copied().peekable();
        while let Some(arg) = args.next() {
            match arg {
                "--no-baselines" => options.baselines = false,
                "--missing" => options.missing = true,
                "--show" => options.show = true,
                "--json" => options.json = true,
                "--steps" => {
                    options.steps = match args.next_if(|next| !next.starts_with("--")) {
                        Some(counts) => numbers(arg, counts)?,
                        None => steps::STEPS.to_vec(),
                    };
                    options.steps.sort_unstable();
                }
                "--traces" | "--trace" | "--at" | "--reserve" | "--shape" | "--model" => {
                    let value = args.next();
                    let value = value.with_context(|| format!("{arg}: no value\n\n{USAGE}"))?;
                    options.set(arg, value)?;
                }
                other => bail!("{other}: unknown option\n\n{USAGE}"),
            }
        }
        if options.windows.is_empty() {
            options.windows = match options.steps.is_empty() {
                true => vec![8_000, 32_000, 128_000],
                false => vec![32_000],
            };
        }
        Ok(options)
    }

    fn set(&mut self, arg: &str, value: &str) -> anyhow::Result<()> {
        match arg {
            "--traces" => self.traces = PathBuf::from(value),
            "--trace" => value.clone_into(&mut self.trace),
            "--at" => self.windows = numbers(arg, value)?,
            "--reserve" => self.reserve = Some(number(arg, value)?),
            "--shape" => {
                self.shapes = match value {
                    "recorded" => vec![Shape::Recorded],
                    "one_question" => vec![Shape::OneQuestion],
                    other => bail!("--shape {other}: use `recorded` or `one_question`"),
                };
            }
            _ => {
                let name = match value {
                    "gpt" => "gpt-4o",
                    "claude" => "claude-sonnet-4-5",
                    other => other,
                };
                name.clone_into(&mut self.model);
            }
        }
        Ok(())
    }

    /// Returns the directory of the traces.
    pub(crate) fn traces(&self) -> anyhow::Result<PathBuf> {
        ensure!(
            self.traces.is_dir(),
            "{}: no such directory. The traces are not part of the project: give their directory \
             with --traces DIR or CONTEXTURE_TRACES (their form: bench/README.md)",
            self.traces.display()
        );
        Ok(self.traces.clone())
    }

    /// Returns the rules to compare with.
    pub(crate) fn rules(&self) -> &'static [Rule] {
        if self.baselines { &Rule::ALL } else { &[] }
    }
}

fn numbers<N: TryFrom<u64>>(arg: &str, text: &str) -> anyhow::Result<Vec<N>> {
    text.split(',').map(|text| number(arg, text)).collect()
}

/// Reads a number such as `32k`.
fn number<N: TryFrom<u64>>(arg: &str, text: &str) -> anyhow::Result<N> {
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1000),
        None => (text, 1),
    };
    (digits.parse::<u64>().ok())
        .and_then(|number| number.checked_mul(unit))
        .filter(|number| *number > 0)
        .and_then(|number| N::try_from(number).ok())
        .with_context(|| format!("{arg} {text}: not a number such as 500 or 32k"))
}

fn default_traces() -> PathBuf {
    if let Some(dir) = std::env::var_os("CONTEXTURE_TRACES") {
        return PathBuf::from(dir);
    }
    let repository = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    repository.join(TRACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_narrow_the_work() -> anyhow::Result<()> {
        let options = Options::read(&["--at", "8k,500", "--shape", "one_question", "--json"])?;
        assert_eq!(options.windows, [8_000, 500]);
        assert!(options.shapes == [Shape::OneQuestion] && options.json);
        assert_eq!(Options::read(&["--steps"])?.steps, steps::STEPS);
        assert_eq!(
            Options::read(&["--steps", "20,5", "--json"])?.steps,
            [5, 20]
        );
        Ok(())
    }

    #[test]
    fn wrong_options_are_named() {
        for (args, part) in [
            (&["--at", "lots"][..], "--at lots"),
            (&["--at"], "--at: no value"),
            (&["--shape", "round"], "--shape round"),
            (&["--fast"], "--fast: unknown option"),
        ] {
            let error = Options::read(args).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains(part)), "{part}");
        }
        let options = Options::read(&["--traces", "/nowhere"]);
        let error = options.and_then(|options| options.traces()).err();
        assert!(error.is_some_and(|error| error.to_string().contains("CONTEXTURE_TRACES")));
    }
}
