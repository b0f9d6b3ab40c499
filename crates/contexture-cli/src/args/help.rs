//! `contexture --help`: the commands in groups by purpose.

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _};

use super::{Cli, one};

/// Every shown command, by purpose.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Build a request",
        &["init", "assemble", "working-set", "fit", "tokens"],
    ),
    (
        "Keep conversations",
        &["session", "tree", "memory", "task", "fetch"],
    ),
    (
        "Look at what a model saw",
        &["inspect", "snapshot", "import"],
    ),
    ("Serve agents", &["serve", "mcp", "key", "tenant"]),
    (
        "Configure",
        &["recipe", "models", "doctor", "trust", "completions"],
    ),
    (
        "Maintain the store",
        &["backup", "restore", "export", "verify", "gc"],
    ),
];

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    if let Some(cli) = one::parse(std::env::args_os()) {
        return Ok(cli);
    }
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.map_err(|error| with_nested_commands(error, &command))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Adds a tip to the error for an unknown command: the commands that have a
/// subcommand of that name, such as `contexture memory recall` for `recall`.
fn with_nested_commands(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let tips: Vec<clap::builder::StyledStr> = command
        .get_subcommands()
        .filter(|outer| outer.find_subcommand(typed).is_some())
        .map(|outer| format!("did you mean `contexture {} {typed}`?", outer.get_name()).into())
        .collect();
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Returns the command line with its commands in groups.
fn command() -> clap::Command {
    let command = Cli::command();
    let mut listed = String::new();
    for (title, names) in GROUPS {
        listed.push_str(&format!("{title}:\n"));
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            listed.push_str(&format!("  {name:<11}  {about}\n"));
        }
        listed.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_command_once() {
        let cli = Cli::command();
        let shown = cli.get_subcommands().filter(|one| !one.is_hide_set());
        let mut shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn help_of_the_program_shows_groups_options_and_examples() {
        let help = command().render_help().to_string();
        for part in [
            "Build a request:\n  init         Create the first files of a project\n",
            "\nMaintain the store:\n  backup ",
            "\nOptions:\n      --root <DIR>",
            "\nExamples:\n",
        ] {
            assert!(help.contains(part), "{part:?} is not in:\n{help}");
        }
    }
}
