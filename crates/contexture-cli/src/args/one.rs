//! Reads a command line with the arguments of one command.
//!
//! All commands have hundreds of arguments. Building them takes more than a millisecond,
//! a third of the time of a short call.

use std::ffi::OsString;

use clap::{Args, FromArgMatches as _};

use super::{
    AssembleArgs, BackupArgs, Cli, DoctorArgs, ExportArgs, FetchArgs, FitArgs, GcArgs,
    GlobalOptions, ImportArgs, InitArgs, InspectArgs, KeyArgs, McpArgs, MemoryArgs, ModelsArgs,
    RecipeArgs, RestoreArgs, ServeArgs, SessionArgs, SnapshotArgs, TaskArgs, TenantArgs,
    TokensArgs, TreeArgs, TrustArgs, VerifyArgs, WorkingSetArgs,
};

/// Adds the arguments of a command.
type AddArguments = fn(clap::Command) -> clap::Command;

/// The commands that are called by programs and scripts, with their arguments.
const COMMANDS: [(&str, AddArguments); 26] = [
    ("init", InitArgs::augment_args),
    ("assemble", AssembleArgs::augment_args),
    ("working-set", WorkingSetArgs::augment_args),
    ("session", SessionArgs::augment_args),
    ("fit", FitArgs::augment_args),
    ("import", ImportArgs::augment_args),
    ("fetch", FetchArgs::augment_args),
    ("tree", TreeArgs::augment_args),
    ("memory", MemoryArgs::augment_args),
    ("task", TaskArgs::augment_args),
    ("key", KeyArgs::augment_args),
    ("serve", ServeArgs::augment_args),
    ("inspect", InspectArgs::augment_args),
    ("mcp", McpArgs::augment_args),
    ("snapshot", SnapshotArgs::augment_args),
    ("tokens", TokensArgs::augment_args),
    ("recipe", RecipeArgs::augment_args),
    ("models", ModelsArgs::augment_args),
    ("doctor", DoctorArgs::augment_args),
    ("trust", TrustArgs::augment_args),
    ("backup", BackupArgs::augment_args),
    ("restore", RestoreArgs::augment_args),
    ("export", ExportArgs::augment_args),
    ("verify", VerifyArgs::augment_args),
    ("gc", GcArgs::augment_args),
    ("tenant", TenantArgs::augment_args),
];

/// Reads a valid command line that begins with a command. Returns `None` for any other:
/// help and errors need the whole command line.
pub(super) fn parse(words: impl Iterator<Item = OsString>) -> Option<Cli> {
    let words: Vec<OsString> = words.collect();
    let called = words.get(1)?.to_str()?;
    let (name, add_arguments) = COMMANDS.iter().find(|(name, _)| *name == called)?;
    let matches = command(name, *add_arguments).try_get_matches_from(words);
    Cli::from_arg_matches(&matches.ok()?).ok()
}

/// Returns the command line with a single command.
fn command(name: &'static str, add_arguments: AddArguments) -> clap::Command {
    GlobalOptions::augment_args(clap::Command::new("contexture"))
        .subcommand(add_arguments(clap::Command::new(name)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Returns the words of every command below `command`, and its settings without help
    /// texts.
    fn shape(command: &clap::Command, typed: &str, shapes: &mut Vec<String>) {
        let typed = format!("{typed} {}", command.get_name());
        for argument in command.get_arguments() {
            shapes.push(format!("{typed}: {argument:?}"));
        }
        for group in command.get_groups() {
            shapes.push(format!("{typed}: {group:?}"));
        }
        let settings = (
            command.is_subcommand_required_set(),
            command.is_arg_required_else_help_set(),
            command.is_args_conflicts_with_subcommands_set(),
            command.is_subcommand_negates_reqs_set(),
        );
        let aliases: Vec<&str> = command.get_all_aliases().collect();
        shapes.push(format!("{typed}: {settings:?} {aliases:?}"));
        for below in command.get_subcommands() {
            shape(below, &typed, shapes);
        }
    }

    fn shapes(command: Option<&clap::Command>) -> Vec<String> {
        let mut shapes = Vec::new();
        if let Some(command) = command {
            shape(command, "", &mut shapes);
        }
        shapes
    }

    #[test]
    fn a_command_alone_is_read_as_among_all() {
        let mut all = Cli::command();
        all.build();
        for (name, add_arguments) in COMMANDS {
            let mut alone = command(name, add_arguments);
            alone.build();
            let expected = shapes(all.find_subcommand(name));
            assert!(!expected.is_empty(), "{name}");
            assert_eq!(shapes(alone.find_subcommand(name)), expected, "{name}");
        }
        // Commands without arguments of their own type are read among all.
        let others = all.get_subcommands().filter(|one| {
            let name = one.get_name();
            !COMMANDS.iter().any(|(known, _)| *known == name)
        });
        let others: Vec<&str> = others.map(clap::Command::get_name).collect();
        assert_eq!(others, ["completions", "__complete", "help"]);
    }

    #[test]
    fn only_valid_calls_are_read() {
        let read = |line: &str| parse(line.split(' ').map(OsString::from)).is_some();
        assert!(read("contexture fit - --max-tokens 100"));
        assert!(read("contexture session list --root x"));
        for line in [
            "contexture",
            "contexture fit --help",
            "contexture fit --bogus",
            "contexture session",
            "contexture help fit",
            "contexture --root x fit -",
            "contexture completions bash",
        ] {
            assert!(!read(line), "{line}");
        }
    }
}
