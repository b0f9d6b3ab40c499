//! The `contexture` command.
//!
//! Results go to standard output; progress and diagnostics go to standard
//! error. Exit codes: 0 success, 1 failure, 2 invalid input or usage, 3 the
//! request breaks the provider's cache (`--fail-on-cache-break`).

mod archive;
mod args;
mod assemble;
mod complete;
mod doctor;
mod fetch;
mod fit;
mod import;
mod init;
mod inspect;
mod key;
mod memory;
mod models;
mod output;
mod pins;
mod progress;
mod recipe;
mod root;
mod serve;
mod session;
mod snapshot;
mod store;
mod stored_files;
mod task;
mod tokens;
mod tree;
mod trust;
mod upkeep;
mod working_set;

use std::process::ExitCode;

use crate::args::Command;

/// Loading a vocabulary is hundreds of thousands of small allocations, a third
/// of its time with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that closes the pipe while help is shown is not an
            // error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    cli.command.set_root(cli.global.root.take());
    let done = match cli.command {
        Command::Init(args) => init::run(&args),
        Command::Assemble(args) => assemble::run(&args),
        Command::WorkingSet(args) => working_set::run(&args),
        Command::Session(args) => session::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Fetch(args) => fetch::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Task(args) => task::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Mcp(args) => serve::mcp(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Tokens(args) => tokens::run(&args),
        Command::Recipe(args) => recipe::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Trust(args) => trust::run(&args),
        Command::Backup(args) => upkeep::backup(&args),
        Command::Restore(args) => upkeep::restore(&args),
        Command::Export(args) => archive::export(&args),
        Command::Verify(args) => upkeep::verify(&args),
        Command::Gc(args) => upkeep::gc(&args),
        Command::Tenant(args) => upkeep::tenant(&args),
        Command::Completions { shell } => output::text(&complete::script(shell)),
        Command::CompleteNames { kind, root } => complete::names(kind, &root),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Prints the error and its remedy, and returns the exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    if output::is_closed_pipe(error) {
        // `contexture assemble | head` is done when head is.
        return ExitCode::SUCCESS;
    }
    let known = error.downcast_ref::<contexture::Error>();
    match known {
        Some(known) => output::say(&format!("error: {}", output::visible(&known.to_string()))),
        None => output::say(&format!(
            "error: {}",
            output::visible(&format!("{error:#}"))
        )),
    }
    let advice = error.downcast_ref::<output::Advice>();
    let hint = advice.map(|advice| advice.hint.clone());
    if let Some(hint) = hint.or_else(|| known?.hint(&contexture_terminal::CommandLine)) {
        output::say(&format!("hint: {}", output::visible(&hint)));
    }
    if known.is_some_and(|known| known.cause() == contexture::Cause::CacheBreak) {
        return ExitCode::from(3);
    }
    let is_input = known.is_some_and(contexture::Error::is_input)
        || error.is::<contexture::Refused>()
        || advice.is_some()
        || error.is::<output::Usage>();
    ExitCode::from(if is_input { 2 } else { 1 })
}
